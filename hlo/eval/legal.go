package eval

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/passgate/passgate/hlo"
)

// Verdict says where a value stands to a legal set.
type Verdict uint8

const (
	Out       Verdict = iota // not a legal value
	In                       // a legal value
	Undecided                // the element may be anything: nothing is judged
)

// worst of two parts: Out decides, then Undecided.
func worst(a, b Verdict) Verdict {
	switch {
	case a == Out || b == Out:
		return Out
	case a == Undecided || b == Undecided:
		return Undecided
	}
	return In
}

// Legal says whether got (an exact scalar of a's type) is a legal value of
// element i. NaNs are equal, whatever their sign and payload; zeros differ by
// sign where the sign is certain.
func (a *Array) Legal(i int, got Scalar) Verdict {
	s := a.At(i)
	switch {
	case a.Im != nil:
		return worst(s.Re.legal(realType(a.Type), got.Re.C), s.Im.legal(realType(a.Type), got.Im.C))
	case a.Re != nil:
		return s.Re.legal(floatTypes[a.Type], got.Re.C)
	case s.Undecided:
		if lo, hi, ok := s.span(); ok {
			if less(a.Type, got.I, lo) || less(a.Type, hi, got.I) {
				return Out
			}
			return In
		}
		return Undecided
	case s.I == got.I:
		return In
	}
	return Out
}

func (x Num) legal(f *floatType, got float64) Verdict {
	if !(x.E < inf) {
		return Undecided
	}
	k := x.class()
	in := false
	switch {
	case got != got:
		in = k&MayNaN != 0
	case math.IsInf(got, 1):
		in = k&MayPosInf != 0
	case math.IsInf(got, -1):
		in = k&MayNegInf != 0
	case !finite(x.C):
	case x.zero() && got == 0:
		in = x.K&AnyZeroSign != 0 || !f.NegZero || math.Signbit(got) == math.Signbit(x.C)
	case x.E == 0 && x.Lo == 0:
		in = got == x.C
	default:
		// got-C-Lo in double-double, so that cancellation costs nothing.
		d := math.Abs(dd{x.C, x.Lo}.sub(dd{got, 0}).float())
		in = d <= x.E*roundUp
	}
	if in {
		return In
	}
	return Out
}

// Meets says whether the legal sets of element i of a and b, of the same type,
// have a value in common.
func (a *Array) Meets(b *Array, i int) Verdict {
	x, y := a.At(i), b.At(i)
	switch {
	case a.Im != nil:
		return worst(x.Re.meets(realType(a.Type), y.Re), x.Im.meets(realType(a.Type), y.Im))
	case a.Re != nil:
		return x.Re.meets(floatTypes[a.Type], y.Re)
	case x.Undecided || y.Undecided:
		xl, xh, ok := x.span()
		yl, yh, ok2 := y.span()
		switch {
		case !ok || !ok2:
			return Undecided
		case less(a.Type, xh, yl) || less(a.Type, yh, xl):
			return Out
		}
		return In
	case x.I == y.I:
		return In
	}
	return Out
}

func (x Num) meets(f *floatType, y Num) Verdict {
	switch {
	case !(x.E < inf) || !(y.E < inf):
		return Undecided
	case x.class()&y.class()&specials != 0:
		return In
	case !finite(x.C) || !finite(y.C):
		return Out
	case x.zero() && y.zero():
		if (x.K|y.K)&AnyZeroSign == 0 && f.NegZero && math.Signbit(x.C) != math.Signbit(y.C) {
			return Out
		}
		return In
	}
	if math.Abs(dd{x.C, x.Lo}.sub(dd{y.C, y.Lo}).float()) <= (x.E+y.E)*roundUp {
		return In
	}
	return Out
}

// LegalSet renders the legal set of element i: "[1.5 ± 2e-07]",
// "{1.5}", "{inf, nan}", "[0 ± 1e-38] or {nan}", "any".
func (a *Array) LegalSet(i int) string {
	s := a.At(i)
	switch {
	case a.Im != nil:
		return "(" + s.Re.set(realType(a.Type)) + ", " + s.Im.set(realType(a.Type)) + ")"
	case a.Re != nil:
		return s.Re.set(floatTypes[a.Type])
	case s.Undecided:
		if lo, hi, ok := s.span(); ok {
			return fmt.Sprintf("[%s..%s]", ScalarString(a.Type, Scalar{I: lo}), ScalarString(a.Type, Scalar{I: hi}))
		}
		return "any"
	}
	return "{" + ScalarString(a.Type, s) + "}"
}

func (x Num) set(f *floatType) string {
	if !(x.E < inf) {
		return "any"
	}
	k := x.class()
	var points []string
	interval := ""
	if finite(x.C) {
		switch {
		case x.zero() && k&AnyZeroSign != 0 && f.NegZero:
			points = append(points, "0", "-0")
		case x.E == 0:
			points = append(points, f.text(x.C))
		default:
			interval = fmt.Sprintf("[%s ± %.3g]", f.text(x.C), x.E)
		}
	}
	for _, p := range [...]struct {
		k    Class
		name string
	}{{MayPosInf, "inf"}, {MayNegInf, "-inf"}, {MayNaN, "nan"}} {
		if k&p.k != 0 {
			points = append(points, p.name)
		}
	}
	set := "{" + strings.Join(points, ", ") + "}"
	switch {
	case interval == "":
		return set
	case len(points) == 0:
		return interval
	}
	return interval + " or " + set
}

// text is the shortest decimal that reads back as x in f32 or f64, with one
// digit more than the type needs for narrower types.
func (f *floatType) text(x float64) string {
	switch {
	case x != x:
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	case f.wide:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case float64(float32(x)) == x:
		return strconv.FormatFloat(x, 'g', -1, 32)
	}
	return strconv.FormatFloat(x, 'g', 10, 64)
}

// ScalarString renders the centre of a scalar of type t: "true", "-7", "1.5",
// "(1, -2)" for complex.
func ScalarString(t hlo.PrimitiveType, s Scalar) string {
	switch {
	case t.IsComplex():
		return "(" + realType(t).text(s.Re.C) + ", " + realType(t).text(s.Im.C) + ")"
	case t.IsFloat():
		return floatTypes[t].text(s.Re.C)
	case t == hlo.Pred:
		return strconv.FormatBool(s.I != 0)
	case t.IsUnsigned():
		return strconv.FormatUint(uint64(s.I), 10)
	}
	return strconv.FormatInt(s.I, 10)
}
