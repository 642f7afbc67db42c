package eval

import (
	"math"
	"math/bits"

	"github.com/passgate/passgate/hlo"
)

// Ranges of integers. An integer that comes from an uncertain float is not any
// value but one of a few neighbours, and stays so through sums, products,
// minima, selections and indices. Scalar.Width carries the range; an
// operation that does not know ranges makes its result undecided.
//
// Ranges never wrap: a result that may leave its type is undecided. Values of
// u64 and pred have none.

// maxExactSum keeps sums of integers and their ranges far from the ends of
// int64.
const maxExactSum = 1 << 62

// span is the range of an integer, itself if decided; ok is false if it may be
// any value.
func (s Scalar) span() (lo, hi int64, ok bool) {
	switch {
	case !s.Undecided:
		return s.I, s.I, true
	case s.Width > 0:
		return s.I, s.I + s.Width, true
	}
	return 0, 0, false
}

// within is span cut to the range of type t, which it is for an integer that
// may be any value; ok is false for u64 and pred.
func (s Scalar) within(t hlo.PrimitiveType) (lo, hi int64, ok bool) {
	if t == hlo.U64 || t == hlo.Pred {
		return 0, 0, false
	}
	lo, hi, ok = s.span()
	if !ok {
		return minInt(t), maxInt(t), true
	}
	return max(lo, minInt(t)), min(hi, maxInt(t)), true
}

// ranged is the integer of type t in [lo, hi]; any value if that leaves the
// type.
func ranged(t hlo.PrimitiveType, lo, hi int64, contest Contest) Scalar {
	switch {
	case t == hlo.U64 || t == hlo.Pred || lo < minInt(t) || hi > maxInt(t) || hi-lo < 0:
		return Scalar{Undecided: true, Contest: contest}
	case lo == hi:
		return Scalar{I: lo, Contest: contest}
	}
	return Scalar{I: lo, Width: hi - lo, Undecided: true, Contest: contest}
}

// rangeOfFloat is the range of integers that an uncertain float converts to;
// out of the type's range it saturates, which is contested.
func rangeOfFloat(t hlo.PrimitiveType, x Num, contest Contest) Scalar {
	open := Scalar{Undecided: true, Contest: contest}
	if t == hlo.U64 || t == hlo.Pred || !x.plain() {
		return open
	}
	end := func(e, direction float64) float64 {
		v := dd{x.C, x.Lo}.addF(e)
		if v.lo == 0 {
			return v.hi
		}
		return outward(v.hi, direction)
	}
	lo, out1 := truncate(t, end(-x.E, -1))
	hi, out2 := truncate(t, end(x.E, 1))
	return ranged(t, lo, hi, contest|out1|out2)
}

// floatOfRange converts a range of integers.
func (n *Numerics) floatOfRange(from hlo.PrimitiveType, f *floatType, x Scalar) Num {
	lo, hi, ok := x.within(from)
	if !ok || x.Width == 0 {
		return anyNum
	}
	return hull(n.intToFloat(from, f, lo), n.intToFloat(from, f, hi))
}

// rangeConvert changes the type of an undecided integer.
func rangeConvert(from, to hlo.PrimitiveType, x Scalar) Scalar {
	if lo, hi, ok := x.within(from); ok {
		return ranged(to, lo, hi, x.Contest)
	}
	return Scalar{Undecided: true, Contest: x.Contest}
}

func rangeUnary(op hlo.Opcode, t hlo.PrimitiveType, x Scalar) Scalar {
	open := Scalar{Undecided: true, Contest: x.Contest}
	lo, hi, ok := x.within(t)
	if !ok || x.Width == 0 || lo == math.MinInt64 {
		return open
	}
	switch op {
	case hlo.OpNegate:
		return ranged(t, -hi, -lo, x.Contest)
	case hlo.OpNot:
		if t.IsSigned() {
			return ranged(t, ^hi, ^lo, x.Contest)
		}
		return ranged(t, maxInt(t)-hi, maxInt(t)-lo, x.Contest)
	case hlo.OpAbs:
		switch {
		case lo >= 0:
			return ranged(t, lo, hi, x.Contest)
		case hi <= 0:
			return ranged(t, -hi, -lo, x.Contest)
		}
		return ranged(t, 0, max(-lo, hi), x.Contest)
	case hlo.OpSign:
		return ranged(t, intSign(lo), intSign(hi), x.Contest)
	}
	return open
}

func intSign(v int64) int64 {
	switch {
	case v < 0:
		return -1
	case v > 0:
		return 1
	}
	return 0
}

// rangeBinary is a binary operation of which an operand is undecided.
func rangeBinary(op hlo.Opcode, t hlo.PrimitiveType, x, y Scalar) Scalar {
	c := x.Contest | y.Contest
	open := Scalar{Undecided: true, Contest: c}
	xl, xh, okx := x.within(t)
	yl, yh, oky := y.within(t)
	if !okx || !oky {
		return open
	}
	switch op {
	case hlo.OpMaximum:
		return ranged(t, max(xl, yl), max(xh, yh), c)
	case hlo.OpMinimum:
		return ranged(t, min(xl, yl), min(xh, yh), c)
	case hlo.OpAnd:
		if yl == yh {
			if r, ok := rangeMask(t, xl, xh, yl, c); ok {
				return r
			}
		}
		if xl == xh {
			if r, ok := rangeMask(t, yl, yh, xl, c); ok {
				return r
			}
		}
		switch { // the bits of a non-negative operand bound the result
		case xl >= 0 && yl >= 0:
			return ranged(t, 0, min(xh, yh), c)
		case yl >= 0:
			return ranged(t, 0, yh, c)
		case xl >= 0:
			return ranged(t, 0, xh, c)
		}
		return open
	case hlo.OpOr, hlo.OpXor: // of disjoint bits: the sum
		switch {
		case yl == yh && xl >= 0 && yl&(1<<bits.Len64(uint64(xh))-1) == 0:
			return ranged(t, yl+xl, yl+xh, c)
		case xl == xh && yl >= 0 && xl&(1<<bits.Len64(uint64(yh))-1) == 0:
			return ranged(t, xl+yl, xl+yh, c)
		}
		return open
	case hlo.OpDivide:
		if yl == yh && yl > 0 {
			return ranged(t, xl/yl, xh/yl, c)
		}
		return open
	case hlo.OpRemainder:
		switch {
		case yl != yh || yl <= 0:
		case xl >= 0 && xl/yl == xh/yl:
			return ranged(t, xl%yl, xh%yl, c)
		case xl >= 0:
			return ranged(t, 0, yl-1, c)
		default:
			return ranged(t, 1-yl, yl-1, c)
		}
		return open
	case hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical:
		if yl == yh && yl >= 0 && yl < int64(t.Bits()) && (xl >= 0 && op == hlo.OpShiftRightLogical || op == hlo.OpShiftRightArithmetic && t.IsSigned()) {
			return ranged(t, xl>>yl, xh>>yl, c)
		}
		return open
	}
	if x.Undecided && x.Width == 0 || y.Undecided && y.Width == 0 {
		return open
	}
	if op == hlo.OpShiftLeft && yl == yh && yl >= 0 && yl < 32 {
		op, yl, yh = hlo.OpMultiply, 1<<yl, 1<<yl
	}
	// Operands of 32 bits and less keep all of these far from overflow.
	const limit = 1 << 31
	for _, v := range [...]int64{xl, xh, yl, yh} {
		if v < -limit || v > limit {
			return open
		}
	}
	switch op {
	case hlo.OpAdd:
		return ranged(t, xl+yl, xh+yh, c)
	case hlo.OpSubtract:
		return ranged(t, xl-yh, xh-yl, c)
	case hlo.OpMultiply:
		a, b, d, e := xl*yl, xl*yh, xh*yl, xh*yh
		return ranged(t, min(a, b, d, e), max(a, b, d, e), c)
	}
	return open
}

// rangeMask is the range of x & m for a constant m of low or of high bits.
func rangeMask(t hlo.PrimitiveType, lo, hi, m int64, c Contest) (Scalar, bool) {
	switch rest := mask(t, ^m); {
	case rest&(rest+1) == 0: // high bits: rounds down to a multiple
		return ranged(t, lo&m, hi&m, c), true
	case m > 0 && m&(m+1) == 0 && lo&^m == hi&^m:
		return ranged(t, lo&m, hi&m, c), true
	}
	return Scalar{}, false
}

// bitcastRange changes the type of an uncertain value and keeps its bits, of
// the same width: the bits of floats of one sign are ordered like them.
func (n *Numerics) bitcastRange(from, to hlo.PrimitiveType, x Scalar) Scalar {
	open := undecidedOf(to, x.Contest)
	if from.IsFloat() {
		f := floatTypes[from]
		lo, hi := x.Re.C-x.Re.E, x.Re.C+x.Re.E
		lo, hi = outward(lo, -1), outward(hi, 1)
		if !to.IsInteger() || !x.Re.plain() || (lo > 0) != (hi > 0) || math.Min(math.Abs(lo), math.Abs(hi)) < f.minNormal ||
			math.Max(math.Abs(lo), math.Abs(hi)) > f.max {
			return open
		}
		a, b := to.Canonical(int64(f.Bits(lo))), to.Canonical(int64(f.Bits(hi)))
		return ranged(to, min(a, b), max(a, b), x.Contest)
	}
	lo, hi, ok := x.span()
	switch {
	case !ok:
	case to.IsFloat():
		f := floatTypes[to]
		p, q := mask(from, lo), mask(from, hi)
		a, b := f.FromBits(p), f.FromBits(q)
		if q-p == uint64(hi-lo) && f.Signed && p>>(to.Bits()-1) == q>>(to.Bits()-1) && finite(a) && finite(b) {
			return Scalar{Re: hull(Num{C: a}, Num{C: b}), Contest: x.Contest}
		}
	case to.IsInteger():
		a, b := to.Canonical(lo), to.Canonical(hi)
		if b-a == hi-lo {
			return ranged(to, a, b, x.Contest)
		}
	}
	return open
}

// hullInts is the union of two integers.
func hullInts(t hlo.PrimitiveType, a, b Scalar, contest Contest) Scalar {
	al, ah, ok := a.span()
	bl, bh, ok2 := b.span()
	if !ok || !ok2 {
		return Scalar{Undecided: true, Contest: contest}
	}
	return ranged(t, min(al, bl), max(ah, bh), contest)
}

// compareRanges says which answers a comparison may give.
func compareRanges(direction string, t hlo.PrimitiveType, x, y Scalar) (yes, no bool) {
	xl, xh, okx := x.within(t)
	yl, yh, oky := y.within(t)
	if !okx || !oky {
		return true, true
	}
	below, above, meet := xl < yh, xh > yl, xl <= yh && yl <= xh
	switch direction {
	case "EQ":
		return meet, xl != xh || yl != yh || xl != yl
	case "NE":
		return xl != xh || yl != yh || xl != yl, meet
	case "LT":
		return below, xh >= yl
	case "GE":
		return xh >= yl, below
	case "GT":
		return above, xl <= yh
	default: // LE
		return xl <= yh, above
	}
}
