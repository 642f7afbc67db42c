package triage

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
)

// rewriteOf is the rewrite at two instructions of two programs.
func rewriteOf(t *testing.T, before, b, after, a string) Rewrite {
	t.Helper()
	m, n := parsed(t, before), parsed(t, after)
	at := &Location{Before: m.Instruction(b), After: n.Instruction(a)}
	if at.Before == nil || at.After == nil {
		t.Fatalf("no instruction %s or %s", b, a)
	}
	r, ok := RewriteAt(m, n, at)
	if !ok {
		t.Errorf("no rewrite: %+v", r)
	}
	return r
}

func TestRewriteAt(t *testing.T) {
	entry := func(lines string) string { return "HloModule m\nENTRY e {\n" + lines + "\n}\n" }
	sum := "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
	for _, tt := range []struct {
		name, before, b, after, a string
		want                      Rewrite
	}{
		{
			"an operand is lost",
			entry("p = f32[4] parameter(0)  q = f32[4] parameter(1)  ROOT r = f32[4] add(p, q)"), "r",
			entry("p = f32[4] parameter(0)  ROOT q = f32[4] parameter(1)"), "q",
			Rewrite{"add f32(#0 f32; #1 f32)", "#1 f32"},
		},
		{
			"an operand is read twice",
			entry("p = f32[4] parameter(0)  q = f32[4] parameter(1)  ROOT r = f32[4] add(p, q)"), "r",
			entry("p = f32[4] parameter(0)  q = f32[4] parameter(1)  ROOT r = f32[4] add(p, p)"), "r",
			Rewrite{"add f32(#0 f32; #1 f32)", "add f32(#0 f32; #0 f32)"},
		},
		{
			"an attribute",
			entry("p = f32[4,9] parameter(0)  ROOT s = f32[2,9] slice(p), slice={[0:2], [0:9]}"), "s",
			entry("p = f32[4,9] parameter(0)  ROOT s = f32[2,9] slice(p), slice={[1:3], [0:9]}"), "s",
			Rewrite{"slice f32(#0 f32)", "slice f32(#0 f32) with slice_dimensions.limit changed, slice_dimensions.start changed"},
		},
		{
			"a word",
			entry("p = s32[4] parameter(0)  q = s32[4] parameter(1)  ROOT c = pred[4] compare(p, q), direction=LT"), "c",
			entry("p = s32[4] parameter(0)  q = s32[4] parameter(1)  ROOT c = pred[4] compare(p, q), direction=LE"), "c",
			Rewrite{"compare pred LT(#0 s32; #1 s32)", "compare pred LE(#0 s32; #1 s32) with comparison_direction from LT to LE"},
		},
		{
			"inside what a reduction combines with, and around it other things too",
			"HloModule m\n" + sum + "ENTRY e { p = f32[4] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add }", "r",
			"HloModule m\n" + strings.Replace(sum, "add(a", "maximum(a", 1) + "ENTRY e { p = f32[4] parameter(0)  z = f32[] constant(0)  k = f32[] copy(z)  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add }", "r",
			Rewrite{"add f32(#0 f32; #1 f32)", "maximum f32(#0 f32; #1 f32)"},
		},
		{
			"an index of a narrow type, whichever it is",
			entry("p = s32[4] parameter(0)  i = u8[] parameter(1)  ROOT r = s32[2] dynamic-slice(p, i), dynamic_slice_sizes={2}"), "r",
			entry("p = s32[4] parameter(0)  i = u8[] parameter(1)  j = u8[] add(i, i)  ROOT r = s32[2] dynamic-slice(p, j), dynamic_slice_sizes={2}"), "r",
			Rewrite{"dynamic-slice s32(#0 s32; #1 narrow index)", "dynamic-slice s32(#0 s32; add u8(#1 narrow index; #1 narrow index))"},
		},
		{
			"a narrow value that is no index",
			entry("p = u8[4] parameter(0)  i = s32[] parameter(1)  ROOT r = u8[2] dynamic-slice(p, i), dynamic_slice_sizes={2}"), "r",
			entry("p = u8[4] parameter(0)  i = s32[] parameter(1)  j = s32[] add(i, i)  ROOT r = u8[2] dynamic-slice(p, j), dynamic_slice_sizes={2}"), "r",
			Rewrite{"dynamic-slice u8(#0 u8; #1 s32)", "dynamic-slice u8(#0 u8; add s32(#1 s32; #1 s32))"},
		},
		{
			"into a fusion",
			entry("p = f32[4] parameter(0)  n = f32[4] negate(p)  ROOT r = f32[4] abs(n)"), "r",
			"HloModule m\nf { x = f32[4] parameter(0)  n = f32[4] negate(x)  ROOT s = f32[4] sign(n) }\nENTRY e { p = f32[4] parameter(0)  ROOT fu = f32[4] fusion(p), kind=kLoop, calls=f }", "fu",
			Rewrite{"abs f32(#0 f32)", "sign f32(#0 f32)"},
		},
		{
			"one element, in two dimensions as in one",
			entry("p = f32[2,2] parameter(0)  ROOT n = f32[2,2] negate(p)"), "n",
			entry(`p = f32[2,2] parameter(0)  n = f32[2,2] negate(p)
i = s32[2,2] iota(), iota_dimension=0  j = s32[2,2] iota(), iota_dimension=1  k = s32[] constant(1)  b = s32[2,2] broadcast(k), dimensions={}
x = pred[2,2] compare(i, b), direction=EQ  y = pred[2,2] compare(j, b), direction=EQ  z = pred[2,2] and(x, y)
ROOT s = f32[2,2] select(z, p, n)`), "s",
			Rewrite{"negate f32(#0 f32)", "select f32(compare pred EQ(iota s32(); 1 s32); #0 f32; it)"},
		},
	} {
		if got := rewriteOf(t, tt.before, tt.b, tt.after, tt.a); got != tt.want {
			t.Errorf("%s:\n%+v\nwant\n%+v", tt.name, got, tt.want)
		}
	}
	same := parsed(t, entry("p = f32[4] parameter(0)  ROOT n = f32[4] negate(p)"))
	other := parsed(t, entry("q = f32[4] parameter(0)  ROOT m = f32[4]{0} negate(q)"))
	if r, ok := RewriteAt(same, other, &Location{Before: same.Entry.Root, After: other.Entry.Root}); ok {
		t.Errorf("%+v of programs that differ in names", r)
	}
}

// TestKernelKind: what a kernel reduces with is part of what it computes, unless it
// leaves its result unwritten.
func TestKernelKind(t *testing.T) {
	reduce := func(op string) *hlo.Instruction {
		return parsed(t, "HloModule m\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] "+op+"(a, b) }\nENTRY e { p = f32[4] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add }").Entry.Root
	}
	if a, b := KernelKind(reduce("add"), false), KernelKind(reduce("maximum"), false); a == b {
		t.Errorf("both are %s", a)
	}
	if a, b := KernelKind(reduce("add"), true), KernelKind(reduce("maximum"), true); a != b || a == "" {
		t.Errorf("unwritten, %q and %q", a, b)
	}
}

// TestPlainest: programs that fail because of an f16 or f32 addition of any
// values become one.
func TestPlainest(t *testing.T) {
	adds := func(_ context.Context, p Program) bool {
		return slices.ContainsFunc(p.Module.Entry.Instructions, func(in *hlo.Instruction) bool {
			return in.Op == hlo.OpAdd && (in.Shape.Type == hlo.F16 || in.Shape.Type == hlo.F32)
		})
	}
	lost := func(context.Context, Program) (Rewrite, bool) {
		return Rewrite{"add f32(#0 f32; #1 f32)", "#0 f32"}, true
	}
	want := ""
	for _, text := range []string{
		"p = f32[3,4] parameter(0)  q = f32[3,4] parameter(1)  ROOT r = f32[3,4] add(p, q)",
		"p = f16[5] parameter(0)  n = f16[5] negate(p)  ROOT r = f16[5] add(n, n)",
		"p = f32[2,2] parameter(0)  c = f32[] constant(3)  b = f32[2,2] broadcast(c), dimensions={}  m = f32[2,2] multiply(p, b)  a = f32[2,2] add(m, b)  ROOT t = (f32[2,2], f32[2,2]) tuple(a, m)",
	} {
		m := parsed(t, "HloModule m\nENTRY e {\n"+text+"\n}\n")
		var inputs []*hlo.Literal
		for _, p := range m.Entry.Params() {
			inputs = append(inputs, hlo.NewLiteral(p.Shape.WithoutLayout()))
		}
		got := Form(Plainest(t.Context(), Program{m, inputs}, adds, lost, 200).Module)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%s becomes\n%s, want\n%s", text, got, want)
		}
	}
}

// TestPlainInput: every type has plain values.
func TestPlainInput(t *testing.T) {
	for typ, want := range map[hlo.PrimitiveType]float64{hlo.Pred: 1, hlo.S4: 5, hlo.U64: 5, hlo.F64: 5 + 1.0/3, hlo.C64: float64(float32(5 + 1.0/3)), hlo.C128: 5 + 1.0/3} {
		if l := plainInput(hlo.ArrayShape(typ, 3), 1); numberAt(l, 1) != want {
			t.Errorf("%s: %v, want %v", typ, numberAt(l, 1), want)
		}
	}
}
