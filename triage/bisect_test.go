package triage_test

import (
	"slices"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/dump"
)

// The enabler is the step that last touched the instruction or one of its
// operands, whatever happens elsewhere; what the program holds from the start
// has none.
func TestEnabler(t *testing.T) {
	state := func(pass, body string) triage.State {
		return triage.State{Key: dump.Key{Pipeline: "p", Pass: pass}, Module: module(t, "HloModule m\nENTRY e {\n  x = s32[4] parameter(0)\n"+body+"\n}\n")}
	}
	trail := &triage.Trail{Before: state("", "y = s32[4] add(x, x)\n z = s32[4] negate(y)\n w = s32[4] multiply(x, x)\n ROOT r = s32[4] add(z, w)").Module}
	trail.States = []triage.State{
		state("elsewhere", "y = s32[4] add(x, x)\n z = s32[4] negate(y)\n v = s32[4] abs(x)\n ROOT r = s32[4] add(z, v)"),
		state("feeds", "s = s32[4] multiply(x, x)\n z = s32[4] negate(s)\n v = s32[4] abs(x)\n ROOT r = s32[4] add(z, v)"),
		state("idle", "s = s32[4] multiply(x, x)\n z = s32[4] negate(s)\n u = s32[4] negate(x)\n v = s32[4] abs(u)\n ROOT r = s32[4] add(z, v)"),
		state("guilty", "s = s32[4] multiply(x, x)\n u = s32[4] negate(x)\n v = s32[4] abs(u)\n ROOT r = s32[4] add(s, v)"),
	}
	for _, tc := range []struct {
		name, want string
		step       int
	}{
		{"z", "feeds", 3},
		{"s", "feeds", 3},
		{"v", "idle", 3},
		{"v", "elsewhere", 1},
		{"z", "", 1},
		{"r", "idle", 3},
		{"missing", "", 3},
	} {
		got := ""
		if s := trail.Enabler(tc.name, tc.step); s != nil {
			got = s.Key.Pass
		}
		if got != tc.want {
			t.Errorf("%s rewritten by step %d: enabled by %q, want %q", tc.name, tc.step, got, tc.want)
		}
	}
}

// Rounding that a step adds or takes away is told from a wrong operation, and
// the operations that round are named.
func TestWiden(t *testing.T) {
	text := func(body string) *hlo.Module {
		return module(t, "HloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] parameter(1)\n"+body+"\n}\n")
	}
	const sum = "s = f32[2] add(a, b)\n ROOT r = f32[2] multiply(s, a)"
	tests := []struct {
		name, before, after string
		cause               triage.Cause
		widened             []string
		inBefore            bool
	}{
		{"a sum in bf16", sum,
			"c = bf16[2] convert(a)\n d = bf16[2] convert(b)\n s.1 = bf16[2] add(c, d)\n s.2 = f32[2] convert(s.1)\n ROOT r.1 = f32[2] multiply(s.2, a)",
			triage.Precision, []string{"c", "d", "s.1", "s.2"}, false},
		{"reduced precision", sum,
			"s = f32[2] add(a, b)\n s.1 = f32[2] reduce-precision(s), exponent_bits=8, mantissa_bits=7\n ROOT r.1 = f32[2] multiply(s.1, a)",
			triage.Precision, []string{"s.1"}, false},
		{"another operation", sum,
			"c = bf16[2] convert(a)\n d = f32[2] convert(c)\n s.1 = f32[2] subtract(d, b)\n ROOT r.1 = f32[2] multiply(s.1, a)",
			triage.Logic, nil, false},
		{"a hidden overflow", "e.1 = f32[2] exponential(a)\n e.2 = f32[2] exponential(b)\n ROOT r = f32[2] multiply(e.1, e.2)",
			"s = f32[2] add(a, b)\n ROOT r.1 = f32[2] exponential(s)",
			triage.Precision, []string{"e.1", "r"}, true},
	}
	for _, tt := range tests {
		var args []*eval.Value
		for _, in := range []string{"f32[2] {100.03, 1.015}", "f32[2] {-99.01, 2.007}"} {
			args = append(args, eval.FromLiteral(literal(t, in)))
		}
		w := triage.Widen(t.Context(), text(tt.before), text(tt.after), args, eval.Options{Bounds: true})
		if w == nil {
			t.Errorf("%s: no answer", tt.name)
			continue
		}
		if w.Cause != tt.cause || !slices.Equal(w.Operations, tt.widened) || w.Before != tt.inBefore {
			t.Errorf("%s: %+v; want %s by %v, before: %v", tt.name, *w, tt.cause, tt.widened, tt.inBefore)
		}
	}
	// Nothing differs: no question.
	var args []*eval.Value
	for range 2 {
		args = append(args, eval.FromLiteral(hlo.NewLiteral(hlo.ArrayShape(hlo.F32, 2))))
	}
	if w := triage.Widen(t.Context(), text(sum), text(sum), args, eval.Options{Bounds: true}); w != nil {
		t.Errorf("the same module: %+v", w)
	}
}
