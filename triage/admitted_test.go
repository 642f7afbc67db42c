package triage

import (
	"math"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// TestAdmitted: the sets on both sides of a step have values in common, so that
// per-pass validation says nothing; the value that was computed is legal behind
// the step only, which let it in. One that no module allows is code generation's,
// and one that the last module leaves undecided is nobody's.
func TestAdmitted(t *testing.T) {
	module := func(body string) *hlo.Module {
		m, err := hlo.Parse("m", []byte("HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n"+body+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const exp = "  r = f32[2] exponential(x)\n"
	const more = exp + "  c = f32[] constant(9e-7)\n  b = f32[2] broadcast(c), dimensions={}\n  s = f32[2] add(r, b)\n"
	before, after := module("  ROOT"+exp[1:]), module(more+"  ROOT t = f32[2] reverse(s), dimensions={}\n")
	open := module(more + "  i = u32[2] bitcast-convert(s)\n  k = u32[2] add(i, i)\n  h = u32[2] divide(k, i)\n  ROOT t = f32[2] bitcast-convert(h)\n")
	in := hlo.NewLiteral(hlo.ArrayShape(hlo.F32, 2))
	in.SetFloat(0, 0.5)
	in.SetFloat(1, 0.25)
	result := func(off float64) []*hlo.Literal {
		l := hlo.NewLiteral(hlo.ArrayShape(hlo.F32, 2))
		l.SetFloat(0, math.Exp(0.5)+off)
		l.SetFloat(1, math.Exp(0.25))
		return []*hlo.Literal{l}
	}
	for _, c := range []struct {
		name   string
		states []*hlo.Module
		off    float64
		want   Standing
		state  int
	}{
		{"let in", []*hlo.Module{before, after, after}, 24e-7, Guilty, 1},
		{"by the first step", []*hlo.Module{after}, 24e-7, Guilty, 0},
		{"legal", []*hlo.Module{before, after}, 1e-7, Unknown, 0},
		{"allowed nowhere", []*hlo.Module{before, after}, 1, Same, 2},
		{"taken back", []*hlo.Module{after, before}, 24e-7, Same, 2},
		{"no passes", nil, 24e-7, Same, 0},
		{"undecided", []*hlo.Module{after, open}, 24e-7, Unknown, 0},
		{"unreadable", []*hlo.Module{after, nil}, 24e-7, Unknown, 0},
	} {
		trail := &Trail{Before: before}
		for _, m := range c.states {
			trail.States = append(trail.States, State{Module: m})
		}
		e := &Executor{Trail: trail, Inputs: []*hlo.Literal{in}, Eval: eval.Options{Bounds: true}}
		got := e.Admitted(t.Context(), result(c.off))
		if got.Standing != c.want || got.Standing != Unknown && got.State != c.state {
			t.Errorf("%s: %+v, want %s at %d", c.name, got, c.want, c.state)
		}
		if got.Standing == Guilty && (got.Where.Output != 0 || len(got.Where.At) != 1 || got.Where.At[0] != 0 || got.Where.Before == got.Where.After) {
			t.Errorf("%s: %+v", c.name, got.Where)
		}
	}
}
