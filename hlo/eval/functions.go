package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// course says how a function runs, and so how an interval maps through it.
type course uint8

const (
	monotone  course = iota // on its domain, up or down
	even                    // cosh: smallest at zero
	lipschitz               // sin, cos: slope at most 1, values in [-1, 1]
	branches                // tan: rising between poles at odd multiples of pi/2
)

// function is an elementary function of one real variable.
type function struct {
	float  func(float64) float64 // within 2^-51 relative: for types up to f32
	wide   func(dd) dd           // for f64
	course course
	lo, hi float64 // domain, closed; NaN outside
}

var functions = [hlo.NumOpcodes + 1]*function{
	hlo.OpExponential:         {math.Exp, ddExp, monotone, -inf, inf},
	hlo.OpExponentialMinusOne: {math.Expm1, ddExpm1, monotone, -inf, inf},
	hlo.OpLog:                 {math.Log, ddLog, monotone, 0, inf},
	hlo.OpLogPlusOne:          {math.Log1p, ddLog1p, monotone, -1, inf},
	hlo.OpSqrt:                {math.Sqrt, dd.sqrt, monotone, 0, inf},
	hlo.OpRsqrt:               {func(x float64) float64 { return 1 / math.Sqrt(x) }, ddRsqrt, monotone, 0, inf},
	hlo.OpCbrt:                {math.Cbrt, ddCbrt, monotone, -inf, inf},
	hlo.OpSine:                {narrowSin, ddSin, lipschitz, -inf, inf},
	hlo.OpCosine:              {narrowCos, ddCos, lipschitz, -inf, inf},
	hlo.OpTan:                 {narrowTan, ddTan, branches, -inf, inf},
	hlo.OpTanh:                {math.Tanh, ddTanh, monotone, -inf, inf},
	hlo.OpSinh:                {math.Sinh, ddSinh, monotone, -inf, inf},
	hlo.OpCosh:                {math.Cosh, ddCosh, even, -inf, inf},
	hlo.OpAsin:                {math.Asin, ddAsin, monotone, -1, 1},
	hlo.OpAcos:                {narrowAcos, ddAcos, monotone, -1, 1},
	hlo.OpAsinh:               {math.Asinh, ddAsinh, monotone, -inf, inf},
	hlo.OpAcosh:               {math.Acosh, ddAcosh, monotone, 1, inf},
	hlo.OpAtanh:               {math.Atanh, ddAtanh, monotone, -1, 1},
	hlo.OpErf:                 {math.Erf, ddErf, monotone, -inf, inf},
	hlo.OpLogistic:            {func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, ddLogistic, monotone, -inf, inf},
}

// Package math is not accurate enough near the zeros of these, and for large
// arguments.

func narrowSin(x float64) float64 {
	if y := math.Sin(x); math.Abs(y) > 0x1p-8 && math.Abs(x) < 0x1p20 || !finite(x) {
		return y
	}
	return ddSin(ddF(x)).float()
}

func narrowCos(x float64) float64 {
	if y := math.Cos(x); math.Abs(y) > 0x1p-8 && math.Abs(x) < 0x1p20 || !finite(x) {
		return y
	}
	return ddCos(ddF(x)).float()
}

func narrowTan(x float64) float64 {
	if y := math.Tan(x); math.Abs(y) > 0x1p-8 && math.Abs(y) < 0x1p8 && math.Abs(x) < 0x1p20 || !finite(x) {
		return y
	}
	return ddTan(ddF(x)).float()
}

func narrowAcos(x float64) float64 {
	return math.Atan2(math.Sqrt((1-x)*(1+x)), x)
}

// at is the value at x, in the precision that f's centres need.
func (fn *function) at(f *floatType, x dd) dd {
	if f.wide {
		return fn.wide(x)
	}
	return dd{fn.float(x.hi), 0}
}

func (n *Numerics) elementary(f *floatType, op hlo.Opcode, x Num) Num {
	fn := functions[op]
	if !n.Bounds {
		if f.wide {
			return Num{C: fn.wide(dd{x.C, 0}).float()}
		}
		return Num{C: f.Round(fn.float(x.C))}
	}
	if !(x.E < inf) {
		return anyNum
	}
	b := budgetOf(op, f)
	if x.plain() {
		return n.elementaryFinite(f, fn, op, b, x)
	}
	var parts [4]Num
	rest := x.class() & specials
	m := 0
	if finite(x.C) {
		parts[0] = n.elementaryFinite(f, fn, op, b, x)
		m = 1
	}
	for _, p := range [...]struct {
		k Class
		v float64
	}{{MayNaN, nan}, {MayPosInf, inf}, {MayNegInf, -inf}} {
		if rest&p.k == 0 {
			continue
		}
		y := fn.float(p.v)
		switch {
		case p.v != p.v || y != y:
			parts[m] = special(MayNaN)
		case y == 0 || !finite(y):
			parts[m] = Num{C: y}
		default:
			parts[m] = n.settle(f, y, 0, b.extra(y, 0), b.ulps, 0)
		}
		m++
	}
	r := parts[0]
	for _, p := range parts[1:m] {
		r = hull(r, p)
	}
	return r
}

// elementaryFinite maps the finite part of x.
func (n *Numerics) elementaryFinite(f *floatType, fn *function, op hlo.Opcode, b budget, x Num) Num {
	c := dd{x.C, x.Lo}
	slack := f.slack(x)
	if slack > 0 && x.E == 0 { // a subnormal: itself, or zero
		flushed := n.elementaryFinite(f, fn, op, b, Num{C: math.Copysign(0, x.C)})
		if op == hlo.OpCbrt { // approximate there, even in sign
			flushed.E = b.abs
		}
		return hull(n.elementaryMapped(f, fn, op, b, c, 0, 0), flushed)
	}
	return n.elementaryMapped(f, fn, op, b, c, x.E+slack, x.K)
}

// elementaryMapped maps c±e.
func (n *Numerics) elementaryMapped(f *floatType, fn *function, op hlo.Opcode, b budget, c dd, e float64, k Class) Num {
	lo, hi := c, c
	var r Class
	if e > 0 {
		lo, hi = c.addF(-e), c.addF(e)
		if !f.wide {
			lo, hi = dd{outward(lo.hi, -1), 0}, dd{outward(hi.hi, 1), 0}
		}
	}
	if hi.less(ddF(fn.lo)) || ddF(fn.hi).less(lo) {
		return special(MayNaN)
	}
	if lo.less(ddF(fn.lo)) {
		r |= MayNaN
		lo = ddF(fn.lo)
	}
	if ddF(fn.hi).less(hi) {
		r |= MayNaN
		hi = ddF(fn.hi)
	}
	if c.less(lo) {
		c = lo
	}
	if hi.less(c) {
		c = hi
	}
	y := fn.at(f, c)
	if e == 0 && c.hi == 0 && y.hi == 0 {
		// An odd function keeps zero; only sqrt and cbrt keep its sign for
		// certain (strict_signed_zeros in
		// xla/tests/exhaustive/exhaustive_unary_test_functions.cc).
		z := Num{C: f.Round(c.hi), K: k & AnyZeroSign}
		if op != hlo.OpSqrt && op != hlo.OpCbrt {
			z.K |= AnyZeroSign
		}
		return z
	}
	if e == 0 && !finite(y.hi) && finite(c.hi) && (c.hi == fn.lo || c.hi == fn.hi) {
		// A pole: log(0), log1p(-1), rsqrt(0), atanh(1).
		if op == hlo.OpRsqrt && k&AnyZeroSign != 0 {
			return special(MayPosInf | MayNegInf)
		}
		return Num{C: y.hi}
	}
	var d float64 // how far the values of the interval lie from y
	if e > 0 {
		switch fn.course {
		case monotone:
			d = math.Max(distance(fn.at(f, lo), y), distance(fn.at(f, hi), y))
		case even:
			d = math.Max(distance(fn.at(f, lo), y), distance(fn.at(f, hi), y))
			if lo.hi < 0 && hi.hi > 0 {
				d = math.Max(d, distance(fn.at(f, ddF(0)), y))
			}
		case lipschitz:
			d = math.Min(e, 1+math.Abs(y.hi))
		case branches:
			pole := func(x dd) float64 { return math.Floor(x.hi/math.Pi + 0.5) }
			if e > 1 || pole(lo) != pole(hi) || math.Abs(lo.hi) > 1<<30 {
				return anyNum
			}
			d = math.Max(distance(fn.at(f, lo), y), distance(fn.at(f, hi), y))
		}
		if f.wide {
			d += math.Abs(y.hi) * wideCentreError
		}
		if d != d {
			return anyNum
		}
		if d > math.Abs(y.hi) && fn.course == monotone && finite(y.hi) {
			// The values do not reach across zero but y±d would: use the middle.
			if l, h := fn.at(f, lo), fn.at(f, hi); finite(l.hi) && finite(h.hi) && l.hi*h.hi > 0 {
				y = l.add(h).scale(-1)
				d = distance(l, y)
			}
		}
	}
	if !finite(y.hi) {
		// Overflow beyond float64 itself, or a pole inside.
		if y.hi != y.hi {
			return special(MayNaN | r)
		}
		if e == 0 {
			return special(special2(y.hi) | r)
		}
		return anyNum
	}
	s := n.settle(f, y.hi, y.lo, d+b.extra(y.hi, math.Abs(c.hi)+e), b.ulps, r)
	if positive[op] {
		s = s.nonNegative()
	}
	if s.C == 0 && e > 0 {
		s.K |= AnyZeroSign
	}
	return s
}

// positive are the functions whose value is never negative.
var positive = [hlo.NumOpcodes + 1]bool{
	hlo.OpExponential: true, hlo.OpLogistic: true, hlo.OpSqrt: true, hlo.OpRsqrt: true,
	hlo.OpCosh: true, hlo.OpAcos: true, hlo.OpAcosh: true,
}

// special2 is the class of an infinity.
func special2(x float64) Class {
	if x > 0 {
		return MayPosInf
	}
	return MayNegInf
}

// outward moves x by a few ULP in the direction of d: an end point of an
// interval that was computed with one rounding.
func outward(x, d float64) float64 {
	return x + d*math.Abs(x)*0x1p-52
}

// distance is an upper bound of |x-y|.
func distance(x, y dd) float64 {
	return math.Abs(x.sub(y).float()) * roundUp
}

// step is the map of a function that is piecewise constant.
func (n *Numerics) step(f *floatType, fn func(float64) float64, x Num) Num {
	if !n.Bounds {
		return Num{C: f.Round(fn(x.C))}
	}
	if !(x.E < inf) {
		return anyNum
	}
	if x.class()&specials != 0 {
		return binaryMembers(x, Num{}, func(x, _ Num) Num {
			switch {
			case x.C != x.C:
				return x
			case !finite(x.C):
				return Num{C: fn(x.C)}
			}
			return n.step(f, fn, x)
		})
	}
	e := x.E + f.slack(x)
	if e == 0 && x.Lo == 0 {
		return Num{C: f.Round(fn(x.C)), K: x.K}
	}
	// fn of a double-double: the low part decides where the high part is an
	// integer or half of one, which end points cover.
	c := dd{x.C, x.Lo}
	lo, hi := c.addF(-e), c.addF(e)
	l, h := fn(outward(lo.hi, -1)), fn(outward(hi.hi, 1))
	half := (h - l) / 2
	r := Num{C: l + half, E: half, K: x.K}
	if l <= 0 && h >= 0 {
		r.K |= AnyZeroSign
	}
	return r
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// rem is the remainder with the sign of the dividend (C fmod).
func (n *Numerics) rem(f *floatType, x, y Num) Num {
	if !n.Bounds {
		return Num{C: f.Round(math.Mod(x.C, y.C))}
	}
	return binaryMembers(x, y, func(x, y Num) Num {
		switch {
		case !finite(x.C) || y.C != y.C || y.zero():
			return special(MayNaN)
		case !finite(y.C): // x rem inf = x
			return f.flushed(x)
		}
		return n.remFinite(f, x, y)
	})
}

func (n *Numerics) remFinite(f *floatType, x, y Num) Num {
	var k Class
	if f.mayZero(y) {
		k |= MayNaN
		if y.E > 0 {
			return anyNum
		}
	}
	ex, ey := x.E+f.slack(x), y.E
	m := math.Mod(x.C, y.C)
	var r Num
	if ex == 0 && ey == 0 && x.Lo == 0 && y.Lo == 0 {
		r = n.settle(f, m, 0, 0, 0.5, k)
	} else {
		// Continuous as long as the quotient does not cross an integer.
		q := math.Trunc(x.C / y.C)
		e := (ex + math.Abs(x.Lo) + (math.Abs(q)+1)*(ey+math.Abs(y.Lo))) * roundUp
		a := math.Abs(m)
		if a-e <= 0 || a+e >= math.Abs(y.C)-ey {
			// Anywhere in (-|y|, |y|).
			e = math.Abs(y.C) + ey + a
		}
		r = n.settle(f, m, 0, e, 0.5, k)
	}
	if m == 0 {
		r.K |= x.K & AnyZeroSign
	}
	return r
}

// members splits x into sets of finite values and single specials.
func (x Num) members(out []Num) []Num {
	k := x.class() & specials
	if finite(x.C) {
		out = append(out, Num{x.C, x.Lo, x.E, x.K & AnyZeroSign})
	}
	if k&MayNaN != 0 {
		out = append(out, special(MayNaN))
	}
	if k&MayPosInf != 0 {
		out = append(out, Num{C: inf})
	}
	if k&MayNegInf != 0 {
		out = append(out, Num{C: -inf})
	}
	return out
}

// binaryMembers applies fn to all pairs of members and unites the results.
func binaryMembers(x, y Num, fn func(x, y Num) Num) Num {
	if !(x.E < inf) || !(y.E < inf) {
		return anyNum
	}
	var bx, by [4]Num
	var r Num
	first := true
	for _, p := range x.members(bx[:0]) {
		for _, q := range y.members(by[:0]) {
			s := fn(p, q)
			if first {
				r, first = s, false
			} else {
				r = hull(r, s)
			}
		}
	}
	return r
}

// power is x^y with C99's special cases: 1^y = 1 and x^0 = 1 even for NaN
// (HloEvaluator's HandlePower).
func (n *Numerics) power(f *floatType, x, y Num) Num {
	if !n.Bounds {
		return Num{C: f.Round(powFloat(f, x.C, y.C))}
	}
	b := budgetOf(hlo.OpPower, f)
	return binaryMembers(x, y, func(x, y Num) Num { return n.powerMember(f, b, x, y) })
}

func powFloat(f *floatType, x, y float64) float64 {
	s := math.Pow(x, y)
	if x == 0 || y == 0 || !finite(x) || !finite(y) || s != s || math.Abs(x) == 1 {
		return s
	}
	r := ddPow(ddF(math.Abs(x)), ddF(y)).float()
	if !finite(r) {
		return s
	}
	return math.Copysign(r, s)
}

// logOf is |log|v||, the condition number of x^y = v in its exponent.
func logOf(v float64) float64 {
	if v == 0 {
		return 0
	}
	return math.Abs(math.Log(math.Abs(v)))
}

func isInteger(x float64) bool { return math.Trunc(x) == x }

func (n *Numerics) powerMember(f *floatType, b budget, x, y Num) Num {
	if y.zero() || x.E == 0 && x.C == 1 && x.Lo == 0 {
		return Num{C: 1}
	}
	if x.C != x.C || y.C != y.C {
		r := special(MayNaN)
		if x.C == x.C && math.Abs(x.C-1) <= x.E || y.C == y.C && f.mayZero(y) {
			r = hull(Num{C: 1}, r)
		}
		return r
	}
	ex, ey := x.E, y.E+f.slack(y)
	if ex == 0 && ey == 0 && x.Lo == 0 && y.Lo == 0 {
		v := math.Pow(x.C, y.C)
		switch {
		case v != v && f.slack(x) > 0: // a negative base that may be flushed
			return hull(Num{C: math.Pow(0, y.C), K: AnyZeroSign}, special(MayNaN))
		case v != v:
			return special(MayNaN)
		case x.C == 0 || !finite(x.C) || !finite(y.C):
			r := Num{C: v}
			if x.C == 0 && x.K&AnyZeroSign != 0 && isInteger(y.C) && math.Mod(y.C, 2) != 0 {
				if v == 0 {
					r.K |= AnyZeroSign
				} else {
					r = special(MayPosInf | MayNegInf)
				}
			}
			return r
		}
		p := ddPow(ddF(math.Abs(x.C)), ddF(y.C))
		if math.Signbit(v) {
			p = p.neg()
		}
		if f.slack(x) > 0 {
			// XLA's CPU emitter is far off for subnormal bases: anything
			// between the value and that of a base near zero
			// (exhaustive_binary_test_functions.cc, b/359325328).
			if y.C < 0 {
				return anyNum
			}
			return n.settle(f, p.hi, 0, math.Abs(p.hi), b.ulps, 0)
		}
		if !finite(p.hi) {
			return special(special2(v))
		}
		return n.settle(f, p.hi, p.lo, b.extra(p.hi, logOf(p.hi)), b.ulps, 0)
	}
	if !finite(x.C) || !finite(y.C) {
		return anyNum
	}
	ex += f.slack(x)
	xc, yc := dd{x.C, x.Lo}, dd{y.C, y.Lo}
	if x.C-ex > 0 {
		xlo, xhi := xc.addF(-ex), xc.addF(ex)
		if !(xlo.hi > 0) {
			return anyNum
		}
		c := ddPow(xc, yc)
		var e float64
		for _, p := range [2]dd{xlo, xhi} {
			for _, q := range [2]dd{yc.addF(-ey), yc.addF(ey)} {
				e = math.Max(e, distance(ddPow(p, q), c))
			}
		}
		if !finite(c.hi) || !(e < inf) {
			return anyNum
		}
		e += math.Abs(c.hi) * wideCentreError
		return n.settle(f, c.hi, c.lo, e+b.extra(c.hi, logOf(c.hi+e)), b.ulps, 0)
	}
	if ey == 0 && y.Lo == 0 && isInteger(y.C) && y.C > 0 {
		lo, hi := x.C-ex, x.C+ex
		v := math.Pow(x.C, y.C)
		e := math.Max(math.Abs(math.Pow(lo*(1+0x1p-50), y.C)-v), math.Abs(math.Pow(hi*(1+0x1p-50), y.C)-v))
		e = math.Max(e, math.Abs(v)) * (1 + 0x1p-30)
		if !(e < inf) {
			return anyNum
		}
		return n.settle(f, v, 0, e+b.extra(v, logOf(v)), b.ulps, 0)
	}
	if x.C+ex < 0 && ey == 0 && y.Lo == 0 && !isInteger(y.C) {
		return special(MayNaN)
	}
	return anyNum
}

// atan2 is the angle of the point (x, y) in [-pi, pi].
func (n *Numerics) atan2(f *floatType, y, x Num) Num {
	if !n.Bounds {
		if f.wide {
			return Num{C: ddAtan2(ddF(y.C), ddF(x.C)).float()}
		}
		return Num{C: f.Round(atan2(y.C, x.C))}
	}
	b := budgetOf(hlo.OpAtan2, f)
	return binaryMembers(y, x, func(y, x Num) Num { return n.atan2Member(f, b, y, x) })
}

func (n *Numerics) atan2Member(f *floatType, b budget, y, x Num) Num {
	if x.C != x.C || y.C != y.C {
		return special(MayNaN)
	}
	ey, ex := y.E+f.slack(y), x.E+f.slack(x)
	c := ddAtan2(dd{y.C, y.Lo}, dd{x.C, x.Lo})
	if y.zero() {
		// +-0 for positive x, +-pi for negative x or x = -0.
		r := Num{C: c.hi, Lo: 0, K: AnyZeroSign}
		negative := x.C-ex < 0 || math.Signbit(x.C) || x.zero() && x.K&AnyZeroSign != 0
		if negative {
			r = n.settle(f, c.hi, c.lo, b.extra(c.hi, 0), b.ulps, 0)
			if y.K&AnyZeroSign != 0 {
				r.E += 2 * math.Pi * roundUp
			}
			if x.C+ex >= 0 { // either
				r.E += math.Pi * roundUp
			}
		}
		return r
	}
	var e float64
	if ex > 0 || ey > 0 {
		if y.C-ey <= 0 && y.C+ey >= 0 && x.C-ex <= 0 {
			e = (math.Pi + math.Abs(c.hi)) * roundUp // reaches the cut
			return n.settle(f, c.hi, c.lo, e+b.extra(c.hi, 0), b.ulps, f.flushedOrigin(y, x))
		}
		for _, p := range [2]dd{dd{y.C, y.Lo}.addF(-ey), dd{y.C, y.Lo}.addF(ey)} {
			for _, q := range [2]dd{dd{x.C, x.Lo}.addF(-ex), dd{x.C, x.Lo}.addF(ex)} {
				e = math.Max(e, distance(ddAtan2(p, q), c))
			}
		}
		e += math.Abs(c.hi) * wideCentreError
	}
	return n.settle(f, c.hi, c.lo, e+b.extra(c.hi, 0), b.ulps, f.flushedOrigin(y, x))
}

// flushedOrigin: of two subnormals XLA's CPU code may make 0/0 = NaN
// (Atan2CpuBf16F32Skip in exhaustive_binary_test_functions.cc).
func (f *floatType) flushedOrigin(y, x Num) Class {
	if f.slack(y) > 0 && f.slack(x) > 0 {
		return MayNaN
	}
	return 0
}
