package triage

import (
	"context"
	"slices"
	"testing"

	"github.com/passgate/passgate/hlo"
)

// TestReductionsStay: a smaller program reduces with an operation still, where a
// branch may become one of its arguments.
func TestReductionsStay(t *testing.T) {
	for _, c := range []struct {
		text string
		op   hlo.Opcode // that must stay for the program to fail
		want hlo.Opcode // of the root of the body
	}{
		{"body { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\nENTRY e { p = f32[4] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=body }", hlo.OpReduce, hlo.OpAdd},
		{"body { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\nENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] map(p, p), dimensions={0}, to_apply=body }", hlo.OpMap, hlo.OpParameter},
	} {
		m := parsed(t, "HloModule m\n"+c.text)
		at := func(m *hlo.Module) int {
			return slices.IndexFunc(m.Entry.Instructions, func(in *hlo.Instruction) bool { return in.Op == c.op })
		}
		small := Reduce(t.Context(), Program{m, []*hlo.Literal{hlo.NewLiteral(hlo.ArrayShape(hlo.F32, 4))}},
			func(_ context.Context, p Program) bool { return at(p.Module) >= 0 }, 200)
		if got := small.Module.Entry.Instructions[at(small.Module)].Called[0].Root.Op; got != c.want {
			t.Errorf("the body of the %v ends in %v, want %v", c.op, got, c.want)
		}
	}
}
