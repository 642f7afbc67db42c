package eval

import "math"

// dd is an unevaluated sum hi+lo of two float64 with |lo| <= ulp(hi)/2:
// about 106 bits of precision. Algorithms: Dekker 1971, Knuth TAOCP 2, and
// Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building
// blocks of double-word arithmetic", ACM TOMS 44(2), 2017.
type dd struct{ hi, lo float64 }

// twoSum is a+b exactly.
func twoSum(a, b float64) dd {
	s := a + b
	t := s - a
	return dd{s, (a - (s - t)) + (b - t)}
}

// fastTwoSum is a+b exactly, for |a| >= |b|.
func fastTwoSum(a, b float64) dd {
	s := a + b
	return dd{s, b - (s - a)}
}

// twoProd is a*b exactly, underflow aside.
func twoProd(a, b float64) dd {
	p := a * b
	return dd{p, math.FMA(a, b, -p)}
}

func (x dd) add(y dd) dd {
	s, t := twoSum(x.hi, y.hi), twoSum(x.lo, y.lo)
	v := fastTwoSum(s.hi, s.lo+t.hi)
	r := fastTwoSum(v.hi, t.lo+v.lo)
	if !finite(r.hi) {
		return x.addHuge(y)
	}
	return r
}

// addHuge is add where an intermediate value overflowed.
func (x dd) addHuge(y dd) dd {
	s := x.hi + y.hi
	if math.Abs(x.hi) > math.MaxFloat64/4 || math.Abs(y.hi) > math.MaxFloat64/4 {
		if a, b := x.scale(-2), y.scale(-2); finite(a.hi) && finite(b.hi) {
			if r := a.add(b).scale(2); finite(r.hi) {
				return r
			} else {
				s = r.hi
			}
		}
	}
	return dd{s, 0}
}

func (x dd) addF(y float64) dd {
	s := twoSum(x.hi, y)
	return fastTwoSum(s.hi, x.lo+s.lo)
}

func (x dd) neg() dd     { return dd{-x.hi, -x.lo} }
func (x dd) sub(y dd) dd { return x.add(y.neg()) }
func (x dd) less(y dd) bool {
	return x.hi < y.hi || x.hi == y.hi && x.lo < y.lo
}

func (x dd) mul(y dd) dd {
	p := twoProd(x.hi, y.hi)
	t := x.lo * y.lo
	t = math.FMA(x.hi, y.lo, t)
	t = math.FMA(x.lo, y.hi, t)
	return fastTwoSum(p.hi, p.lo+t)
}

func (x dd) mulF(y float64) dd {
	p := twoProd(x.hi, y)
	return fastTwoSum(p.hi, math.FMA(x.lo, y, p.lo))
}

// scale multiplies by 2^e.
func (x dd) scale(e int) dd { return dd{math.Ldexp(x.hi, e), math.Ldexp(x.lo, e)} }

func (x dd) div(y dd) dd {
	q := x.hi / y.hi
	r := x.sub(y.mulF(q))
	q2 := r.hi / y.hi
	r = r.sub(y.mulF(q2))
	q3 := r.hi / y.hi
	s := fastTwoSum(q, q2)
	return s.addF(q3)
}

func (x dd) sqrt() dd {
	if x.hi <= 0 || !finite(x.hi) {
		return dd{math.Sqrt(x.hi), 0}
	}
	// Scaled, so that the square neither overflows nor underflows.
	_, e := math.Frexp(x.hi)
	e &^= 1
	x = x.scale(-e)
	s := math.Sqrt(x.hi)
	r := x.sub(twoProd(s, s))
	y := fastTwoSum(s, r.hi/(2*s))
	return y.scale(e / 2)
}

func (x dd) abs() dd {
	if math.Signbit(x.hi) {
		return x.neg()
	}
	return x
}

func (x dd) float() float64 {
	if x.lo == 0 {
		return x.hi // keeps the sign of zero
	}
	return x.hi + x.lo
}
