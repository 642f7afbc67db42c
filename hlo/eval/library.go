package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// evalLibrary evaluates the operations that compilers expand or hand to a
// library: fft, cholesky, triangular-solve, batch-norm-*, rng and the bit
// generators.
func (e *Evaluator) evalLibrary(in *hlo.Instruction, args []*Value) (*Value, error) {
	a, err := arrays(in, args)
	if err != nil {
		return nil, err
	}
	for _, x := range a {
		if x.Sizes != nil {
			return nil, unsupported(in, "dynamic dimensions")
		}
	}
	switch in.Op {
	case hlo.OpFft:
		return one(e.num.fft(in, a[0]))
	case hlo.OpCholesky:
		return arrayValue(e.num.cholesky(a[0], in.Attr.GetCholeskyOptions().GetLower())), nil
	case hlo.OpTriangularSolve:
		o := in.Attr.GetTriangularSolveOptions()
		return arrayValue(e.num.triangularSolve(a[0], a[1], solveOptions{
			left: o.GetLeftSide(), lower: o.GetLower(), unit: o.GetUnitDiagonal(),
			transpose: o.GetTransposeA() == transpose || o.GetTransposeA() == adjoint,
			conjugate: o.GetTransposeA() == adjoint,
		})), nil
	case hlo.OpBatchNormTraining, hlo.OpBatchNormInference, hlo.OpBatchNormGrad:
		return e.batchNorm(in, a)
	case hlo.OpRngBitGenerator:
		return rngBitGenerator(in, a[0])
	case hlo.OpRng, hlo.OpRngGetAndUpdateState:
		return undecidedValue(in.Shape, Implementation), nil
	}
	return nil, unsupported(in, "")
}

// undecidedScalar may be anything.
func undecidedScalar(t hlo.PrimitiveType) Scalar {
	anything := Num{E: math.Inf(1)}
	switch {
	case t.IsComplex():
		return Scalar{Re: anything, Im: anything}
	case t.IsFloat():
		return Scalar{Re: anything}
	}
	return Scalar{Undecided: true}
}

// undecidedValue is a value of the given shape of which nothing is known.
func undecidedValue(shape *hlo.Shape, why Contest) *Value {
	switch {
	case shape.IsTuple():
		v := &Value{Elements: make([]*Value, len(shape.Elements))}
		for i, s := range shape.Elements {
			v.Elements[i] = undecidedValue(s, why)
		}
		return v
	case shape.IsArray():
		s := undecidedScalar(shape.Type)
		s.Contest = why
		return &Value{Array: Fill(s, shape.Type, shape.Dims...)}
	}
	return &Value{Token: true}
}

// anyUndecided reports whether some pred or integer element is undecided.
func (a *Array) anyUndecided() bool {
	for _, u := range a.Undecided {
		if u {
			return true
		}
	}
	return false
}

// unitRoundoff is half the distance from 1 to the next value of a float type.
func unitRoundoff(t hlo.PrimitiveType) float64 {
	return math.Ldexp(1, -t.Format().MantissaBits-1)
}

// approx is a value known up to an absolute error bound, of a real float type
// t. A bound of zero means exact. In exact mode it is the centre, rounded.
func (n *Numerics) approx(t hlo.PrimitiveType, centre, bound float64) Num {
	f := t.Format()
	if !n.Bounds {
		return Num{C: f.Round(centre)}
	}
	if bound == 0 {
		bound = math.Abs(centre - f.Round(centre))
	}
	x := Num{C: centre, E: bound, K: AnyZeroSign}
	switch {
	case math.IsNaN(bound) || math.IsInf(bound, 0) || math.IsNaN(centre) || math.IsInf(centre, 0):
		x = Num{E: math.Inf(1)}
	case math.Abs(centre)+bound > f.Max():
		x = Num{E: math.Inf(1)}
	}
	return x
}
