package eval

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/hlo"
)

// Folding constants of a chain of additions or multiplications, as XLA's
// simplifier does, stays inside the legal set; folds that change nothing leave
// exact results exact.
func TestReassociatedConstants(t *testing.T) {
	for _, pt := range []hlo.PrimitiveType{hlo.F32, hlo.F16, hlo.BF16} {
		f := floatTypes[pt]
		shape := hlo.ArrayShape(pt)
		number := func(v float64) *hlo.Instruction {
			c := hlo.NewInstruction("c", hlo.OpConstant, shape)
			c.Literal = hlo.NewLiteral(shape)
			c.Literal.SetFloat(0, v)
			return c
		}
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := &Numerics{Bounds: true}
			op := rapid.SampledFrom([]hlo.Opcode{hlo.OpAdd, hlo.OpMultiply}).Draw(t, "op")
			lattice := rapid.Bool().Draw(t, "lattice")
			draw := func(name string) float64 {
				if lattice {
					return float64(rapid.IntRange(-4, 4).Draw(t, name))
				}
				return f.Round(rapid.Float64Range(-3, 3).Draw(t, name))
			}
			x, c1, c2 := draw("x"), draw("c1"), draw("c2")
			p := hlo.NewInstruction("x", hlo.OpParameter, shape)
			inner := hlo.NewInstruction("inner", op, shape, p, number(c1))
			outer := hlo.NewInstruction("outer", op, shape, inner, number(c2))
			eval := func(in *hlo.Instruction, a, b Scalar) Scalar {
				s := elementwiseScalar(in)(n, []Scalar{a, b})
				column := elementwise(in)(n, []*Array{Fill(a, pt, 1), Fill(b, pt, 1)}).At(0)
				if !near(s.Re, column.Re) {
					t.Fatalf("scalar %s, column %s", s.Re.set(f), column.Re.set(f))
				}
				return s
			}
			point := func(v float64) Scalar { return Scalar{Re: Num{C: v}} }
			r := eval(outer, eval(inner, point(x), point(c1)), point(c2)).Re
			fold := n.binary(op, f, Num{C: c1}, Num{C: c2})
			got := f.Round(n.binary(op, f, Num{C: x}, Num{C: f.Round(fold.C)}).C)
			if m := (machine{f: f, flush: f.flush}); r.legal(f, got) == Out && r.legal(f, m.in(got)) == Out {
				t.Fatalf("%v with %v folded: %v is outside %s", op, fold.C, got, r.set(f))
			}
			if lattice && r.E != 0 {
				t.Fatalf("lattice %v of %v, %v, %v = %s", op, x, c1, c2, r.set(f))
			}
		}))
	}
}

// A tree of products that is shared many times is searched quickly.
func TestReassociationOfSharedProducts(t *testing.T) {
	shape := hlo.ArrayShape(hlo.F32)
	in := hlo.NewInstruction("x", hlo.OpParameter, shape)
	for range 200 {
		in = hlo.NewInstruction("square", hlo.OpMultiply, shape, in, in)
	}
	if r := reassociationOf(in); r != (reassociation{}) {
		t.Errorf("no constants, but %+v", r)
	}
}
