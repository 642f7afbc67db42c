package program

import (
	"slices"

	"github.com/passgate/passgate/hlo"
)

// Pick is one of vs.
func Pick[T any](b *Builder, vs ...T) T { return vs[b.R.IntN(len(vs))] }

// Chance is true once in n draws.
func (b *Builder) Chance(n int) bool { return b.R.IntN(n) == 0 }

// Between is in [lo, hi].
func (b *Builder) Between(lo, hi int) int { return lo + b.R.IntN(hi-lo+1) }

// The types that every CPU build in the catalogue computes with. Narrower ones
// go through passes of their own (float-normalization, sub-byte-size-setter).
var (
	wideFloats   = []hlo.PrimitiveType{hlo.F32, hlo.F32, hlo.F32, hlo.F64, hlo.F16, hlo.BF16}
	NarrowFloats = []hlo.PrimitiveType{hlo.F8E5M2, hlo.F8E4M3FN, hlo.F8E4M3B11FNUZ, hlo.F8E5M2FNUZ, hlo.F8E4M3FNUZ, hlo.F8E4M3, hlo.F8E3M4}
	wideInts     = []hlo.PrimitiveType{hlo.S32, hlo.S32, hlo.S32, hlo.S8, hlo.U8, hlo.S16, hlo.U16, hlo.U32, hlo.S64, hlo.U64}
	NarrowInts   = []hlo.PrimitiveType{hlo.S4, hlo.U4, hlo.S2, hlo.U2}
	complexes    = []hlo.PrimitiveType{hlo.C64, hlo.C64, hlo.C128}
)

// Float is a float type, f32 more often than not.
func (b *Builder) Float() hlo.PrimitiveType { return Pick(b, wideFloats...) }

// Int is an integer type of at least 8 bits.
func (b *Builder) Int() hlo.PrimitiveType { return Pick(b, wideInts...) }

// Num is an integer or float type of at least 8 bits.
func (b *Builder) Num() hlo.PrimitiveType {
	if b.Chance(3) {
		return b.Int()
	}
	return b.Float()
}

// Type is any element type, f32 and s32 most often, narrow ones now and then.
func (b *Builder) Type() hlo.PrimitiveType {
	switch b.R.IntN(16) {
	case 0:
		return Pick(b, complexes...)
	case 1:
		return hlo.Pred
	case 2:
		return Pick(b, NarrowInts...)
	case 3:
		return Pick(b, NarrowFloats...)
	case 4, 5, 6, 7:
		return b.Int()
	}
	return b.Float()
}

// Dim is the size of a dimension: small, now and then 0 or 1.
func (b *Builder) Dim() int64 {
	switch n := b.R.IntN(40); {
	case n == 0:
		return 0
	case n < 4:
		return 1
	case n < 8:
		return int64(b.Between(9, 33))
	}
	return int64(b.Between(2, 8))
}

// Size is the size of a dimension of at least lo.
func (b *Builder) Size(lo int) int64 { return int64(lo + b.R.IntN(8)) }

// maxElements bounds arrays that are drawn: the reference has to evaluate them.
const maxElements = 4096

// Dims are the sizes of rank dimensions.
func (b *Builder) Dims(rank int) []int64 {
	for {
		out := make([]int64, rank)
		n := int64(1)
		for i := range out {
			out[i] = b.Dim()
			n *= out[i]
		}
		if n <= maxElements {
			return out
		}
	}
}

// Full are the sizes of rank dimensions, each at least 2.
func (b *Builder) Full(rank int) []int64 {
	out := make([]int64, rank)
	for i := range out {
		out[i] = int64(b.Between(2, 6))
	}
	return out
}

// Rank is a small rank.
func (b *Builder) Rank(lo int) int { return lo + Pick(b, 0, 0, 1, 1, 1, 2, 2, 3) }

// Perm is a permutation of rank dimensions, the identity only by chance.
func (b *Builder) Perm(rank int) []int64 {
	out := make([]int64, rank)
	for i, p := range b.R.Perm(rank) {
		out[i] = int64(p)
	}
	return out
}

// Moved is a permutation of at least two dimensions that is not the identity.
func (b *Builder) Moved(rank int) []int64 {
	for {
		if p := b.Perm(rank); !slices.IsSorted(p) {
			return p
		}
	}
}

// Source is a value of the given type and dimensions to build on: one that was
// offered before, or else a new parameter, or a constant. In a region it is
// never a parameter.
func (b *Builder) Source(t hlo.PrimitiveType, dims ...int64) Value {
	s := hlo.ArrayShape(t, dims...)
	if !b.Chance(4) {
		var fit []Value
		for _, v := range b.Pool() {
			if v.Shape.Type == t && slices.Equal(v.Shape.Dims, dims) && !v.Shape.IsDynamic() {
				fit = append(fit, v)
			}
		}
		if len(fit) > 0 {
			return Pick(b, fit...)
		}
	}
	if b.Inner() || b.Chance(16) {
		return b.Constant(t, dims...)
	}
	return b.Param(s)
}

// Fresh is a new parameter, or in a region a constant.
func (b *Builder) Fresh(t hlo.PrimitiveType, dims ...int64) Value {
	if b.Inner() {
		return b.Constant(t, dims...)
	}
	return b.Param(hlo.ArrayShape(t, dims...))
}

// Constant is a constant of small random values: exact in every type.
func (b *Builder) Constant(t hlo.PrimitiveType, dims ...int64) Value {
	if n := hlo.ArrayShape(t, dims...).Elems(); n > 64 {
		return b.Splat(b.Number(t, b.Small(t)), dims...)
	}
	l := hlo.NewLiteral(hlo.ArrayShape(t, dims...))
	for i := range l.Shape.Elems() {
		SetNumber(l, i, b.Small(t))
	}
	return b.Const(l)
}

// Small is a small number that t holds exactly.
func (b *Builder) Small(t hlo.PrimitiveType) float64 {
	switch {
	case t == hlo.Pred:
		return float64(b.R.IntN(2))
	case t.IsInteger() && t.Bits() < 8:
		return float64(b.R.IntN(2))
	case t.IsUnsigned():
		return float64(b.R.IntN(6))
	case t.IsInteger():
		return float64(b.Between(-4, 5))
	}
	if f := t.Format(); f != nil && !f.Signed {
		return Pick(b, 1.0, 2, 4, 0.5)
	}
	return Pick(b, 0.0, 1, -1, 2, 3, -2, 0.5, 4, -0.5)
}

// Index is a scalar index into n elements (s32, or another integer type now
// and then): a parameter with generated values, some of them out of range, or
// a constant inside.
func (b *Builder) Index(n int64) Value {
	return b.IndexOf(Pick(b, hlo.S32, hlo.S32, hlo.S32, hlo.S64, hlo.U32), n)
}

// IndexOf is Index of a type.
func (b *Builder) IndexOf(t hlo.PrimitiveType, n int64) Value {
	if !b.Inner() && !b.Chance(3) {
		return b.Source(t)
	}
	v := b.R.Int64N(max(n, 1))
	if b.Chance(6) {
		v = Pick(b, -1, n, n+1) // out of range; -1 of an unsigned type is its largest value
	}
	return b.Number(t, float64(v))
}

// Indices are several indices, one per row: parameters, constants, or iota.
func (b *Builder) Indices(n int64, dims ...int64) Value {
	t := Pick(b, hlo.S32, hlo.S32, hlo.S32, hlo.S64, hlo.U32, hlo.S16, hlo.U8)
	if !b.Inner() && !b.Chance(3) {
		return b.Source(t, dims...)
	}
	l := hlo.NewLiteral(hlo.ArrayShape(t, dims...))
	for i := range l.Shape.Elems() {
		l.SetInt(i, b.R.Int64N(max(n, 1)))
	}
	return b.Const(l)
}

// Distinct are indices of which no two are equal: dims' product is at most n.
func (b *Builder) Distinct(t hlo.PrimitiveType, n int64, count int64) Value {
	l := hlo.NewLiteral(hlo.ArrayShape(t, count))
	for i, p := range b.R.Perm(int(n))[:count] {
		l.SetInt(int64(i), int64(p))
	}
	return b.Const(l)
}

// Safe keeps a divisor away from zero and from -1: integers become odd and at
// least 1, others stay.
func (b *Builder) Safe(y Value) Value {
	t := y.Shape.Type
	if !t.IsInteger() {
		return y
	}
	one := b.Fill(y, 1)
	if t.IsSigned() {
		y = b.Bin(hlo.OpShiftRightLogical, y, one) // not negative
	}
	return b.Bin(hlo.OpOr, y, one)
}

// Shift keeps a shift distance below the width of its type.
func (b *Builder) Shift(y Value) Value {
	return b.Bin(hlo.OpAnd, y, b.Fill(y, float64(y.Shape.Type.Bits()-1)))
}

// Type is a choice of types for patterns: one of ts.
func Type(ts ...hlo.PrimitiveType) func(b *Builder) hlo.PrimitiveType {
	return func(b *Builder) hlo.PrimitiveType { return Pick(b, ts...) }
}
