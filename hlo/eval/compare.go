package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// Compare compares two values of type t; direction is EQ, NE, LT, LE, GT or
// GE, total selects the total order of floats (by sign and bits, with
// -NaN < -inf < -0 < +0 < inf < NaN). The result is a pred, and undecided when
// the operands' legal sets allow both answers.
func (n *Numerics) Compare(direction string, total bool, t hlo.PrimitiveType, x, y Scalar) Scalar {
	r := Scalar{Contest: x.Contest | y.Contest}
	var yes, no bool
	switch {
	case t.IsComplex():
		f := realType(t)
		y1, n1 := n.compare(f, "EQ", false, x.Re, y.Re)
		y2, n2 := n.compare(f, "EQ", false, x.Im, y.Im)
		yes, no = y1 && y2, n1 || n2
		if direction == "NE" {
			yes, no = no, yes
		}
	case t.IsFloat():
		yes, no = n.compare(floatTypes[t], direction, total, x.Re, y.Re)
	case x.Undecided || y.Undecided:
		yes, no = compareRanges(direction, t, x, y)
	default:
		yes = intCompare(direction, t, x.I, y.I)
	}
	r.Undecided = yes && no
	if yes && !no {
		r.I = 1
	}
	return r
}

// compare says which answers are possible.
func (n *Numerics) compare(f *floatType, direction string, total bool, x, y Num) (yes, no bool) {
	if total {
		return n.compareTotal(f, direction, x, y)
	}
	if !n.Bounds || x.E == 0 && y.E == 0 && (x.K|y.K)&specials == 0 && f.slack(x) == 0 && f.slack(y) == 0 {
		yes = floatCompare(direction, x.C, y.C)
		return yes, !yes
	}
	if !(x.E < inf) || !(y.E < inf) {
		return true, true
	}
	var bx, by [4]Num
	for _, p := range x.members(bx[:0]) {
		for _, q := range y.members(by[:0]) {
			a, b := f.compareMembers(direction, p, q)
			yes, no = yes || a, no || b
		}
	}
	return yes, no
}

func floatCompare(direction string, x, y float64) bool {
	switch direction {
	case "EQ":
		return x == y
	case "NE":
		return x != y
	case "LT":
		return x < y
	case "LE":
		return x <= y
	case "GT":
		return x > y
	case "GE":
		return x >= y
	}
	panic("eval: no comparison direction " + direction)
}

// compareMembers compares two intervals or single specials.
func (f *floatType) compareMembers(direction string, x, y Num) (yes, no bool) {
	ex, ey := x.E+f.slack(x), y.E+f.slack(y)
	if ex == 0 && ey == 0 || !finite(x.C) || !finite(y.C) {
		yes = floatCompare(direction, x.C, y.C)
		return yes, !yes
	}
	s, certain := order(x, y, ex+ey)
	if certain {
		yes = floatCompare(direction, s, 0)
		return yes, !yes
	}
	return true, true
}

// order is the sign of x-y where it is certain although the two may move by e
// in all.
func order(x, y Num, e float64) (s float64, certain bool) {
	d := dd{x.C, x.Lo}.sub(dd{y.C, y.Lo}).float()
	if d-d != 0 {
		d = x.C - y.C
	}
	e *= roundUp
	switch {
	case d > e+math.Abs(d)*0x1p-45:
		return 1, true
	case d < -e-math.Abs(d)*0x1p-45:
		return -1, true
	}
	return 0, false
}

// totalKey orders values by sign and bit pattern.
func totalKey(x float64) int64 {
	b := int64(math.Float64bits(x))
	if b < 0 {
		b ^= math.MaxInt64
	}
	return b
}

// unplaced says whether x is the NaN of a fnuz type, whose place in the total order
// is the implementation's choice: its pattern is that of a negative zero, and it
// stands there where patterns are compared, but below everything where a compiler
// goes through a wider type (expand_via_upcast in
// xla/hlo/transforms/expanders/comparison_expander.cc).
func (f *floatType) unplaced(x Num) bool { return x.C != x.C && f.Signed && !f.NegZero }

// point says whether a value has one place in the total order.
func (f *floatType) point(x Num) bool {
	return x.E == 0 && x.K&specials == 0 && (x.K&AnyZeroSign == 0 || x.C != 0 || !f.NegZero)
}

func (n *Numerics) compareTotal(f *floatType, direction string, x, y Num) (yes, no bool) {
	if f.unplaced(x) != f.unplaced(y) {
		return true, true
	}
	if !n.Bounds || f.point(x) && f.point(y) {
		yes = intCompare(direction, hlo.S64, totalKey(x.C), totalKey(y.C))
		return yes, !yes
	}
	if x.class()&specials == 0 && y.class()&specials == 0 {
		if s, certain := order(x, y, x.E+y.E); certain {
			yes = floatCompare(direction, s, 0)
			return yes, !yes
		}
	}
	if x.C != x.C || y.C != y.C || !(x.E < inf) || !(y.E < inf) {
		return true, true
	}
	// Infinities against intervals.
	var bx, by [4]Num
	for _, p := range x.members(bx[:0]) {
		for _, q := range y.members(by[:0]) {
			switch {
			case p.C != p.C || q.C != q.C:
				return true, true
			case finite(p.C) && finite(q.C):
				s, certain := order(p, q, p.E+q.E)
				if !certain {
					return true, true
				}
				a := floatCompare(direction, s, 0)
				yes, no = yes || a, no || !a
			default:
				a := floatCompare(direction, p.C, q.C)
				yes, no = yes || a, no || !a
			}
		}
	}
	return yes, no
}

// Select is a where p holds and b where not; for an undecided p the union of
// both (hull for floats; undecided unless equal for integers).
func (n *Numerics) Select(p Scalar, t hlo.PrimitiveType, a, b Scalar) Scalar {
	if !p.Undecided {
		r := a
		if p.I == 0 {
			r = b
		}
		r.Contest |= p.Contest
		return r
	}
	r := Scalar{Contest: p.Contest | a.Contest | b.Contest}
	switch {
	case t.IsFloat() || t.IsComplex():
		r.Re, r.Im = union(a.Re, b.Re), union(a.Im, b.Im)
	case a.Undecided || b.Undecided || a.I != b.I:
		return hullInts(t, a, b, r.Contest)
	default:
		r.I = a.I
	}
	return r
}

// Clamp is min(max(x, lo), hi); NaN in any operand propagates.
func (n *Numerics) Clamp(t hlo.PrimitiveType, lo, x, hi Scalar) Scalar {
	return n.Binary(hlo.OpMinimum, t, n.Binary(hlo.OpMaximum, t, x, lo), hi)
}
