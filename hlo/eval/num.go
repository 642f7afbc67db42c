package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

const (
	// roundUp makes an error bound that was computed in float64 by a handful
	// of operations an upper bound again.
	roundUp = 1 + 0x1p-49
	// centreError bounds the relative error of a centre: a few float64
	// operations or one function of package math for types up to f32.
	centreError = 0x1p-50
	// wideCentreError is the same for double-double centres (dd.go).
	wideCentreError = 0x1p-80
	// wideUnderflow bounds what double-double arithmetic loses to underflow.
	wideUnderflow = 0x1p-1070

	specials = MayNaN | MayPosInf | MayNegInf

	// overflowedProduct marks the infinity of a multiply that overflowed: in a
	// fused multiply-add the product is finite.
	overflowedProduct Class = 1 << 7
)

var (
	inf = math.Inf(1)
	nan = math.NaN()
	// anyNum is the undecided float.
	anyNum = Num{E: inf}
)

func finite(x float64) bool { return x-x == 0 }

// class is the set of special values that x may take, its centre included.
func (x Num) class() Class {
	k := x.K
	switch {
	case x.C != x.C:
		k |= MayNaN
	case x.C > math.MaxFloat64:
		k |= MayPosInf
	case x.C < -math.MaxFloat64:
		k |= MayNegInf
	}
	return k
}

// plain reports whether x has a finite centre and no special values.
func (x Num) plain() bool { return x.K&specials == 0 && finite(x.C) && x.E < inf }

// zero reports whether x is exactly zero.
func (x Num) zero() bool { return x.C == 0 && x.Lo == 0 && x.E == 0 }

// special makes a Num of special values only: centre is one of k.
func special(k Class) Num {
	switch {
	case k&MayPosInf != 0:
		return Num{C: inf, K: k &^ MayPosInf & specials}
	case k&MayNegInf != 0:
		return Num{C: -inf, K: k &^ MayNegInf & specials}
	default:
		// K says that payload and sign are free, unlike those of a constant.
		return Num{C: nan, K: MayNaN}
	}
}

// settle makes the result of an operation whose exact value lies in c+lo±e
// and that an implementation may compute with an error of at most b ULP.
// With b <= 1/2 (correctly rounded) an exact representable value stays exact.
// k are special values that the result may take as well.
// Overflow, flushing of subnormals and rounding are taken care of.
func (n *Numerics) settle(f *floatType, c, lo, e, b float64, k Class) Num {
	if !(e < inf) {
		return anyNum
	}
	a := math.Abs(c)
	if e == 0 && lo == 0 && b <= 0.5 && a <= f.max {
		if r := f.Round(c); r == c {
			x := Num{C: r, K: k}
			if f.flush && a < f.minNormal {
				x.E = a
			}
			return x
		}
	}
	if !f.wide {
		lo = 0 // within centreError
	}
	rounded := e == 0 && b <= 0.5 && a <= f.max // then it does not overflow
	if f.wide {
		e = (e+b*f.ulp(math.Min(a+e, f.max))+a*wideCentreError)*roundUp + wideUnderflow
	} else {
		e = (e + b*f.ulp(a+e) + a*centreError) * roundUp
	}
	if !f.Signed && c-e <= 0 { // e8m0 has neither zero nor negative values
		k |= MayNaN
		if c+e <= 0 {
			return special(k)
		}
	}
	if !(a+e < f.overflow) && !rounded {
		return n.overflowed(f, c, lo, e, k)
	}
	if f.flush && a-e < f.minNormal && e < a {
		e = a
	}
	return Num{c, lo, e, k}
}

// overflowed is the rest of settle for a set that reaches the overflow threshold.
func (n *Numerics) overflowed(f *floatType, c, lo, e float64, k Class) Num {
	a := math.Abs(c)
	if f.Saturates {
		l, h := math.Max(c-e, -f.max), math.Min(c+e, f.max)
		c = math.Max(-f.max, math.Min(f.max, c))
		return Num{C: c, E: math.Max(h-c, c-l), K: k}
	}
	switch {
	case !f.HasInf:
		k |= MayNaN
	case c+e >= f.overflow && c-e <= -f.overflow:
		k |= MayPosInf | MayNegInf
	case c > 0:
		k |= MayPosInf
	default:
		k |= MayNegInf
	}
	if a-e >= f.overflow || !finite(a) {
		return special(k)
	}
	if f.wide && e > f.max {
		return anyNum
	}
	return Num{c, lo, e, k}
}

func (n *Numerics) add(f *floatType, x, y Num) Num {
	if !n.Bounds {
		return Num{C: f.Round(x.C + y.C)}
	}
	if !(x.E < inf) || !(y.E < inf) {
		return anyNum
	}
	xk, yk := x.class()&specials, y.class()&specials
	k := (xk | yk) & MayNaN
	if xk|yk != 0 {
		xf, yf := finite(x.C), finite(y.C)
		if xk&MayPosInf != 0 && yk&MayNegInf != 0 || xk&MayNegInf != 0 && yk&MayPosInf != 0 {
			k |= MayNaN
		}
		for _, i := range [2]Class{MayPosInf, MayNegInf} {
			if xk&i != 0 && (yf || yk&i != 0) || yk&i != 0 && (xf || xk&i != 0) {
				k |= i
			}
		}
		if x.K&overflowedProduct != 0 {
			k |= yk
			if f.wide && yf && !y.zero() {
				return anyNum // the product may be less than 2 max
			}
		}
		if y.K&overflowedProduct != 0 {
			k |= xk
			if f.wide && xf && !x.zero() {
				return anyNum
			}
		}
		if !xf || !yf {
			return special(k)
		}
	}
	e := x.E + y.E
	if f.flush {
		e += f.slack(x) + f.slack(y)
	}
	var s dd
	if f.wide {
		s = dd{x.C, x.Lo}.add(dd{y.C, y.Lo})
	} else {
		s = twoSum(x.C, y.C) // lo: no value of the type, though hi may be one
	}
	if math.Abs(s.hi) <= e || s.hi == 0 {
		k |= AnyZeroSign
	}
	return n.settle(f, s.hi, s.lo, e, 0.5, k)
}

func (n *Numerics) sub(f *floatType, x, y Num) Num { return n.add(f, x, neg(y)) }

// neg changes the sign of every member.
func neg(x Num) Num {
	k := x.K &^ (MayPosInf | MayNegInf) // overflowedProduct stays
	if x.K&MayPosInf != 0 {
		k |= MayNegInf
	}
	if x.K&MayNegInf != 0 {
		k |= MayPosInf
	}
	return Num{-x.C, -x.Lo, x.E, k}
}

func abs(x Num) Num {
	k := x.K &^ (MayNegInf | AnyZeroSign | overflowedProduct)
	if x.K&MayNegInf != 0 {
		k |= MayPosInf
	}
	lo := x.Lo
	if math.Signbit(x.C) {
		lo = -lo
	}
	return Num{math.Abs(x.C), lo, x.E, k}.nonNegative()
}

// signs says which signs a member of x may have: zeros count as what their
// sign bit may be.
func (f *floatType) signs(x Num) (pos, neg bool) {
	k := x.class()
	pos, neg = k&MayPosInf != 0, k&MayNegInf != 0
	if finite(x.C) {
		switch {
		case x.zero():
			either := x.K&AnyZeroSign != 0
			return pos || either || !math.Signbit(x.C), neg || either || math.Signbit(x.C)
		case x.E == 0:
			return pos || x.C > 0, neg || x.C < 0
		}
		// A zero at the end of the interval has the sign of the others, unless
		// said otherwise.
		either := x.K&AnyZeroSign != 0
		pos = pos || x.C+x.E > 0 || x.C+x.E == 0 && either
		neg = neg || x.C-x.E < 0 || x.C-x.E == 0 && either
	}
	return pos, neg
}

// mayZero reports whether a member of x is zero, or subnormal and may be
// flushed to zero.
func (f *floatType) mayZero(x Num) bool {
	if !finite(x.C) {
		return false
	}
	a := math.Abs(x.C)
	return a <= x.E || f.flush && a-x.E < f.minNormal
}

// infinities are the signed infinities of the product of an infinite or
// overflowing operand with signs p, n and another with signs q, m.
func infinities(p, n, q, m bool) (k Class) {
	if p && q || n && m {
		k |= MayPosInf
	}
	if p && m || n && q {
		k |= MayNegInf
	}
	return k
}

func (n *Numerics) mul(f *floatType, x, y Num) Num {
	switch {
	case !n.Bounds:
		return Num{C: f.Round(x.C * y.C)}
	case x.plain() && y.plain():
		return n.mulFinite(f, x, y)
	}
	return binaryMembers(x, y, func(x, y Num) Num {
		if finite(x.C) && finite(y.C) {
			return n.mulFinite(f, x, y)
		}
		if finite(y.C) {
			x, y = y, x
		}
		switch { // y is special
		case x.C != x.C || y.C != y.C || x.zero():
			return special(MayNaN)
		}
		xp, xn := f.signs(x)
		k := infinities(y.C > 0, y.C < 0, xp, xn)
		if f.mayZero(x) {
			k |= MayNaN
		}
		return special(k)
	})
}

func (n *Numerics) mulFinite(f *floatType, x, y Num) Num {
	var k Class
	ex, ey := x.E, y.E
	if f.flush {
		ex += f.slack(x)
		ey += f.slack(y)
	}
	e := math.Abs(x.C)*ey + math.Abs(y.C)*ex + ex*ey
	if e != e { // 0 * inf: the other bound is beyond float64
		return anyNum
	}
	var p dd
	if f.wide {
		p = dd{x.C, x.Lo}.mul(dd{y.C, y.Lo})
		if !finite(p.hi) || p.hi == 0 { // keep the sign of zero
			p = dd{x.C * y.C, 0}
		}
		if math.Abs(p.hi) < 0x1p-960 && x.C != 0 && y.C != 0 {
			e += wideUnderflow // the low part underflowed
		}
	} else {
		p.hi = x.C * y.C
	}
	if p.hi == 0 {
		k |= (x.K | y.K) & AnyZeroSign
		if x.E+y.E > 0 {
			k |= AnyZeroSign
		}
		if e == 0 {
			return Num{C: f.Round(p.hi), K: k}
		}
	}
	r := n.settle(f, p.hi, p.lo, e, 0.5, k)
	if !finite(r.C) && (f.MantissaBits >= 23 || n.ExcessPrecision) {
		// A fused multiply-add does not round the product: added to a term of
		// the other sign it may be finite again.
		if a := math.Abs(p.hi); a < 2*f.overflow && a+e < math.MaxFloat64 {
			return Num{p.hi, p.lo, (e + f.ulp(f.max)) * roundUp, r.class()}
		}
		r.K |= overflowedProduct
	}
	return r
}

func (n *Numerics) div(f *floatType, x, y Num) Num {
	switch {
	case !n.Bounds:
		return Num{C: f.Round(x.C / y.C)}
	case x.plain() && y.plain():
		return n.divFinite(f, x, y)
	}
	return binaryMembers(x, y, func(x, y Num) Num {
		switch xf, yf := finite(x.C), finite(y.C); {
		case xf && yf:
			return n.divFinite(f, x, y)
		case x.C != x.C || y.C != y.C || !xf && !yf:
			return special(MayNaN)
		case yf:
			yp, yn := f.signs(y)
			return special(infinities(x.C > 0, x.C < 0, yp, yn))
		}
		xp, xn := f.signs(x)
		z := Num{C: math.Copysign(0, x.C) / y.C}
		if xp && xn {
			z.K = AnyZeroSign
		}
		return z
	})
}

func (n *Numerics) divFinite(f *floatType, x, y Num) Num {
	var k Class
	xp, xn := f.signs(x)
	yp, yn := f.signs(y)
	if f.mayZero(y) {
		if f.mayZero(x) {
			k |= MayNaN
		}
		if !x.zero() {
			k |= infinities(xp, xn, yp, yn)
		}
		switch {
		case y.zero():
			return special(k)
		case y.E > 0 && (math.Abs(y.C) <= y.E || !x.zero()):
			return anyNum // unbounded
		}
	}
	ex, ey := x.E+f.slack(x), y.E
	ay := math.Abs(y.C)
	q := dd{x.C / y.C, 0}
	if f.wide && finite(q.hi) {
		q = dd{x.C, x.Lo}.div(dd{y.C, y.Lo})
		if !finite(q.lo) || q.hi == 0 {
			q = dd{x.C / y.C, 0}
		}
	}
	e := 0.0
	if ex != 0 || ey != 0 {
		e = (ex + math.Abs(q.hi)*ey) / ((ay - ey) * (1 - 0x1p-50))
		if !(e < inf) {
			return anyNum
		}
	}
	if q.hi == 0 && x.C == 0 && e == 0 {
		k |= (x.K | y.K) & AnyZeroSign
		if yp && yn {
			k |= AnyZeroSign
		}
		return Num{C: f.Round(q.hi), K: k}
	}
	b := budgetOf(hlo.OpDivide, f).ulps
	if m, ex2 := math.Frexp(ay); m == 0.5 && y.E == 0 && y.Lo == 0 && math.Abs(float64(ex2-1)) < float64(f.Bias-1) {
		b = 0.5 // the reciprocal of a power of two is exact
	} else if e == 0 && b <= 0.5 && math.FMA(q.hi, y.C, -x.C) != 0 && q.lo == 0 && f.wide {
		e = wideUnderflow
	}
	return n.settle(f, q.hi, q.lo, e, b, k)
}

// max is the larger; NaN wins (StableHLO maximum; HloEvaluator).
func (n *Numerics) max(f *floatType, x, y Num) Num {
	if !n.Bounds {
		switch {
		case x.C != x.C:
			return Num{C: x.C}
		case y.C != y.C:
			return Num{C: y.C}
		}
		return Num{C: math.Max(x.C, y.C)}
	}
	if x.plain() && y.plain() {
		return f.maxFinite(x, y)
	}
	return binaryMembers(x, y, func(x, y Num) Num {
		switch {
		case x.C != x.C || y.C != y.C:
			return special(MayNaN)
		case math.IsInf(x.C, 1) || math.IsInf(y.C, -1):
			return f.flushed(x)
		case math.IsInf(y.C, 1) || math.IsInf(x.C, -1):
			return f.flushed(y)
		}
		return f.maxFinite(x, y)
	})
}

// flushed is x with zero added where it may be flushed to zero.
func (f *floatType) flushed(x Num) Num {
	if f.slack(x) > 0 {
		x.E = math.Max(x.E, math.Abs(x.C))
	}
	return x
}

func (f *floatType) maxFinite(x, y Num) Num {
	var k Class
	sx, sy := f.slack(x), f.slack(y)
	if (sx > 0 || x.zero()) && (sy > 0 || y.zero()) && sx+sy > 0 {
		// Equal once flushed: the result is either operand, flushed or not.
		return hull(f.flushed(x), f.flushed(y))
	}
	ex, ey := x.E+sx, y.E+sy
	d := dd{x.C, x.Lo}.sub(dd{y.C, y.Lo}).hi
	r, e := x, ex
	if d < 0 || d == 0 && math.Signbit(x.C) {
		r, e = y, ey
	}
	wins := math.Abs(d) > (ex+ey)*roundUp
	switch {
	case d == 0 && ex == 0 && ey == 0:
		if r.C == 0 && (math.Signbit(x.C) != math.Signbit(y.C)) {
			k |= AnyZeroSign
		}
		k |= (x.K | y.K) & AnyZeroSign
	case !wins:
		e = math.Max(ex, ey)
	default:
		k |= r.K & AnyZeroSign
		if e > 0 && r.E == 0 {
			// A subnormal that wins clearly is only flushed by hardware that
			// flushes results; both values are legal.
			e = math.Abs(r.C)
		}
	}
	return Num{r.C, r.Lo, e, k}
}

func (n *Numerics) min(f *floatType, x, y Num) Num { return neg(n.max(f, neg(x), neg(y))) }

// union is the smallest set that contains both x and y.
func union(x, y Num) Num {
	h := hull(x, y)
	if h == anyNum || !finite(x.C) || !finite(y.C) || x.E == h.E || h.E == 0 {
		return h
	}
	xl, xh := dd{x.C, x.Lo}.addF(-x.E), dd{x.C, x.Lo}.addF(x.E)
	lo, hi := dd{y.C, y.Lo}.addF(-y.E), dd{y.C, y.Lo}.addF(y.E)
	below, above := lo.sub(xl).hi >= 0, xh.sub(hi).hi >= 0
	if below {
		lo = xl
	}
	if above {
		hi = xh
	}
	if !below && !above { // x lies in y
		y.K = h.K
		return y
	}
	half := hi.sub(lo).float() / 2
	mid := lo.addF(half)
	e := (half + math.Abs(mid.lo)) * roundUp
	if !finite(mid.hi) || e >= h.E {
		return h
	}
	// The low part goes into the bound: types up to f32 have none.
	return Num{C: mid.hi, E: e, K: h.K}
}

// hull is a set that contains both x and y; its centre is that of x.
func hull(x, y Num) Num {
	if x == y && math.Signbit(x.C) == math.Signbit(y.C) {
		return x
	}
	if !(x.E < inf) || !(y.E < inf) {
		return anyNum
	}
	xk, yk := x.class(), y.class()
	switch {
	case !finite(x.C) && !finite(y.C):
		if x.C != x.C && y.C != y.C {
			return special(MayNaN)
		}
		return special(xk | yk)
	case !finite(x.C):
		y.K = xk | yk
		return y
	case !finite(y.C):
		x.K = xk | yk
		return x
	}
	k := xk | yk
	d := math.Abs(dd{x.C, x.Lo}.sub(dd{y.C, y.Lo}).hi)
	if d == 0 && x.E == 0 && y.E == 0 {
		if math.Signbit(x.C) != math.Signbit(y.C) {
			k |= AnyZeroSign
		}
		return Num{x.C, x.Lo, 0, k}
	}
	e := math.Max(x.E, (d+y.E)*roundUp)
	return Num{x.C, x.Lo, e, k}
}
