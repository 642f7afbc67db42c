package eval

import (
	"math"
	"math/big"
)

// Elementary functions in double-double, to wideCentreError: the centres of
// f64 operations. testdata/elementary_golden.json checks them.

var (
	ddLn2           = dd{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}
	ddPi            = dd{math.Pi, 1.2246467991473532e-16}
	ddPiHalf        = dd{math.Pi / 2, 6.123233995736766e-17}
	ddTwoOverSqrtPi = dd{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56}
	// invFactorial[i] is 1/i!.
	invFactorial = func() (t [40]dd) {
		f := dd{1, 0}
		t[0] = f
		for i := 1; i < len(t); i++ {
			f = f.div(dd{float64(i), 0})
			t[i] = f
		}
		return t
	}()
	// reciprocal[i] is 1/i.
	reciprocal = func() (t [16]dd) {
		for i := 1; i < len(t); i++ {
			t[i] = ddF(1).div(ddF(float64(i)))
		}
		return t
	}()
)

func ddF(x float64) dd { return dd{x, 0} }

// ddExpm1 is e^x - 1.
func ddExpm1(x dd) dd {
	switch {
	case x.hi != x.hi || x.hi == 0 || x.hi > 720:
		return ddF(math.Expm1(x.hi))
	case x.hi < -80:
		return dd{-1, math.Exp(x.hi)}
	case math.Abs(x.hi) < 0.5:
		return expm1Small(x)
	}
	return ddExp(x).addF(-1)
}

// expm1Small is e^x - 1 for |x| <= 0.5: Taylor series after halving.
func expm1Small(x dd) dd {
	const halvings = 6
	k := halvings
	if math.Abs(x.hi) < 1.0/128 {
		k = 0
	}
	r := x.scale(-k)
	s := ddF(0)
	for i := 14; i >= 1; i-- {
		s = s.add(invFactorial[i]).mul(r)
	}
	for ; k > 0; k-- { // e^2r - 1 = s*(s+2)
		s = s.mul(s.addF(2))
	}
	return s
}

func ddExp(x dd) dd {
	switch {
	case x.hi != x.hi || x.hi > 720 || x.hi < -760:
		return ddF(math.Exp(x.hi))
	}
	k := math.Round(x.hi / math.Ln2)
	r := x.sub(ddLn2.mulF(k))
	s := expm1Small(r).addF(1)
	return ddLdexp(s, int(k))
}

// ddLdexp is scale with a correctly rounded high part where it is subnormal.
func ddLdexp(x dd, e int) dd {
	h := math.Ldexp(x.hi, e)
	if math.Abs(h) < 0x1p-960 {
		return ddF(math.Ldexp(x.float(), e))
	}
	return dd{h, math.Ldexp(x.lo, e)}
}

func ddLog(x dd) dd {
	if !(x.hi > 0) || x.hi > math.MaxFloat64 {
		return ddF(math.Log(x.hi))
	}
	// x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
	_, e := math.Frexp(x.hi)
	m := x.scale(-e)
	if m.hi < math.Sqrt2/2 {
		e--
		m = x.scale(-e)
	}
	l := log1pSmall(m.addF(-1))
	if e == 0 {
		return l
	}
	return ddLn2.mulF(float64(e)).add(l)
}

// log1pSmall is log(1+x) for -0.3 < x < 0.42, with small relative error near 0.
func log1pSmall(x dd) dd {
	if math.Abs(x.hi) < 0x1p-8 {
		return twoAtanh(x.div(x.addF(2)))
	}
	// log(1+x) = y + log((1+x)e^-y) with y close to the result.
	y := math.Log1p(x.hi)
	q := x.addF(1).mul(expm1Small(ddF(-y)).addF(1)).addF(-1)
	return twoAtanh(q.div(q.addF(2))).addF(y)
}

// twoAtanh is 2 atanh(z) = log((1+z)/(1-z)) for |z| < 2^-8.
func twoAtanh(z dd) dd {
	z2 := z.mul(z)
	s := ddF(0)
	for i := 13; i >= 3; i -= 2 {
		s = s.add(reciprocal[i]).mul(z2)
	}
	return s.addF(1).mul(z).mulF(2)
}

func ddLog1p(x dd) dd {
	switch {
	case x.hi != x.hi || x.hi <= -1 && !(dd{-1, 0}.less(x)) || x.hi > math.MaxFloat64 || x.hi == 0:
		return ddF(math.Log1p(x.hi))
	case math.Abs(x.hi) < 0x1p-60:
		return x.sub(x.mul(x).mulF(0.5))
	case x.hi > -0.29 && x.hi < 0.41:
		return log1pSmall(x)
	}
	return ddLog(x.addF(1))
}

// twoOverPi holds the first 1280 binary digits of 2/pi after the point: enough
// for every float64 argument (Payne and Hanek 1983).
var twoOverPi, _ = new(big.Int).SetString(""+
	"a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"+
	"06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"+
	"9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"+
	"7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d", 16)

// Pi/2 in three parts; the first two have 33 bits, so that their products with
// integers below 2^20 are exact.
const (
	piHalf1 = 0x1.921fb54400000p+0
	piHalf2 = 0x1.0b4611a600000p-34
)

var piHalf3 = dd{0x1.3198a2e037073p-69, 0x1.129024e088a68p-123}

// reducePiHalf gives x - j*pi/2 in about [-pi/4, pi/4] and j mod 4.
func reducePiHalf(x dd) (r dd, j int) {
	a := math.Abs(x.hi)
	if a < math.Pi/4 {
		return x, 0
	}
	if a < 0x1p20 {
		k := math.Round(x.hi / (math.Pi / 2))
		r = twoSum(x.hi, -k*piHalf1).addF(-k * piHalf2).addF(x.lo).sub(piHalf3.mulF(k))
		return r, int(int64(k) & 3)
	}
	if x.lo != 0 { // it may be many periods itself
		r, j = reducePiHalf(dd{x.hi, 0})
		s, k := reducePiHalf(r.addF(x.lo))
		return s, (j + k) & 3
	}
	// x = m * 2^e, and the wanted part of x*2/pi are the bits around the point
	// of m * twoOverPi * 2^(e-1280).
	frac, e := math.Frexp(a)
	e -= 53
	t := new(big.Int).SetUint64(uint64(math.Ldexp(frac, 53)))
	t.Mul(t, twoOverPi)
	point := uint(1280 - e)
	whole := new(big.Int).Rsh(t, point)
	j = int(whole.Uint64() & 3)
	t.Sub(t, whole.Lsh(whole, point))
	if t.Bit(int(point)-1) == 1 { // at least one half
		t.Sub(t, new(big.Int).Lsh(big.NewInt(1), point))
		j++
	}
	f := new(big.Float).SetPrec(200).SetInt(t)
	f.SetMantExp(f, -int(point))
	hi, _ := f.Float64()
	lo, _ := f.Sub(f, big.NewFloat(hi)).Float64()
	r = dd{hi, lo}.mul(ddPiHalf)
	if x.hi < 0 {
		r, j = r.neg(), -j
	}
	return r, j & 3
}

// cosine and sine of a reduced argument by Taylor series after halving.
func sinCosSmall(r dd) (s, c dd) {
	const k = 4
	t := r.scale(-k)
	t2 := t.mul(t).neg()
	s, c = ddF(0), ddF(0)
	for i := 17; i >= 3; i -= 2 {
		s = s.add(invFactorial[i]).mul(t2)
		c = c.add(invFactorial[i-1]).mul(t2)
	}
	s = s.addF(1).mul(t) // sin t
	// c holds cos t - 1; doubling: cos 2t - 1 = -2 sin^2 t.
	for i := 0; i < k; i++ {
		sc := s.mul(c.addF(1)).mulF(2)
		c = s.mul(s).mulF(-2)
		s = sc
	}
	return s, c.addF(1)
}

func ddSinCos(x dd) (s, c dd) {
	if x.hi != x.hi || math.IsInf(x.hi, 0) {
		return ddF(nan), ddF(nan)
	}
	if x.hi == 0 {
		return x, ddF(1)
	}
	r, j := reducePiHalf(x)
	if math.Abs(r.hi) < 0x1p-200 {
		s, c = r, ddF(1)
	} else {
		s, c = sinCosSmall(r)
	}
	switch j {
	case 1:
		s, c = c, s.neg()
	case 2:
		s, c = s.neg(), c.neg()
	case 3:
		s, c = c.neg(), s
	}
	return s, c
}

func ddSin(x dd) dd { s, _ := ddSinCos(x); return s }
func ddCos(x dd) dd { _, c := ddSinCos(x); return c }
func ddTan(x dd) dd {
	s, c := ddSinCos(x)
	if s.hi == 0 || s.hi != s.hi {
		return s
	}
	return s.div(c)
}

// atan2 is math.Atan2 with the right sign where y/x underflows.
func atan2(y, x float64) float64 {
	return math.Copysign(math.Atan2(math.Abs(y), x), y)
}

// ddAtan2 is the angle of (x, y).
func ddAtan2(y, x dd) dd {
	a := atan2(y.hi, x.hi)
	if a == 0 || !finite(y.hi) || !finite(x.hi) || y.hi == 0 || x.hi == 0 {
		switch math.Abs(a) {
		case math.Pi:
			return dd{a, math.Copysign(ddPi.lo, a)}
		case math.Pi / 2:
			return dd{a, math.Copysign(ddPiHalf.lo, a)}
		}
		return ddF(a)
	}
	// Scale both, then one correction: rotate by -a and add the small angle.
	_, e := math.Frexp(math.Max(math.Abs(x.hi), math.Abs(y.hi)))
	xs, ys := x.scale(-e), y.scale(-e)
	if math.Abs(ys.hi) < 0x1p-60*math.Abs(xs.hi) && xs.hi > 0 {
		return y.div(x)
	}
	s, c := ddSinCos(ddF(a))
	u := ys.mul(c).sub(xs.mul(s))
	v := xs.mul(c).add(ys.mul(s))
	d := u.div(v) // the small angle; d^3/3 is below 2^-150
	return ddF(a).add(d)
}

// ddAsin and ddAcos: through the half angle, so that both ends are accurate.
func ddAsin(x dd) dd {
	if !(math.Abs(x.hi) <= 1) || x.hi == 0 {
		return ddF(math.Asin(x.hi))
	}
	one := ddF(1)
	return ddAtan2(x, one.sub(x).mul(one.add(x)).sqrt())
}

func ddAcos(x dd) dd {
	if !(math.Abs(x.hi) <= 1) {
		return ddF(nan)
	}
	one := ddF(1)
	return ddAtan2(one.sub(x).mul(one.add(x)).sqrt(), x)
}

func ddSinh(x dd) dd {
	a := math.Abs(x.hi)
	if a == 0 || !(a <= 712) {
		return ddF(math.Sinh(x.hi))
	}
	if a > 700 { // e^x/2 without overflow
		e := ddExp(x.abs().sub(ddLn2))
		if x.hi < 0 {
			return e.neg()
		}
		return e
	}
	m := ddExpm1(x.abs())
	// (e^x - e^-x)/2 = (m + m/(m+1))/2
	r := m.add(m.div(m.addF(1))).scale(-1)
	if x.hi < 0 {
		return r.neg()
	}
	return r
}

func ddCosh(x dd) dd {
	a := x.abs()
	if !finite(a.hi) || a.hi > 700 {
		if a.hi <= 712 {
			return ddExp(a.sub(ddLn2))
		}
		return ddF(math.Cosh(a.hi))
	}
	e := ddExp(a)
	return e.add(ddF(1).div(e)).scale(-1)
}

func ddTanh(x dd) dd {
	a := x.abs()
	if x.hi == 0 || x.hi != x.hi {
		return x
	}
	r := ddF(1)
	if a.hi < 80 {
		m := ddExpm1(a.scale(1))
		r = m.div(m.addF(2))
	}
	if x.hi < 0 {
		return r.neg()
	}
	return r
}

func ddAsinh(x dd) dd {
	a := x.abs()
	if !finite(a.hi) || a.hi == 0 || a.hi < 0x1p-60 {
		return x
	}
	var r dd
	if a.hi > 0x1p60 {
		r = ddLog(a).add(ddLn2)
	} else {
		// log1p(a + a^2/(1+sqrt(a^2+1)))
		a2 := a.mul(a)
		r = ddLog1p(a.add(a2.div(a2.addF(1).sqrt().addF(1))))
	}
	if x.hi < 0 {
		return r.neg()
	}
	return r
}

func ddAcosh(x dd) dd {
	if !(x.hi >= 1) || x.hi > math.MaxFloat64 {
		return ddF(math.Acosh(x.hi))
	}
	if x.hi > 0x1p60 {
		return ddLog(x).add(ddLn2)
	}
	t := x.addF(-1)
	if t.hi < 0 {
		return ddF(nan)
	}
	// log1p(t + sqrt(2t + t^2))
	return ddLog1p(t.add(t.mulF(2).add(t.mul(t)).sqrt()))
}

func ddAtanh(x dd) dd {
	if !(math.Abs(x.hi) < 1) || x.hi == 0 || math.Abs(x.hi) < 0x1p-60 {
		if math.Abs(x.hi) < 0.5 {
			return x
		}
		return ddF(math.Atanh(x.hi))
	}
	one := ddF(1)
	a := x.abs()
	r := ddLog1p(a.mulF(2).div(one.sub(a))).scale(-1)
	if x.hi < 0 {
		return r.neg()
	}
	return r
}

func ddCbrt(x dd) dd {
	if x.hi == 0 || !finite(x.hi) {
		return ddF(math.Cbrt(x.hi))
	}
	_, e := math.Frexp(x.hi)
	e -= ((e % 3) + 3) % 3
	m := x.scale(-e)
	y := math.Cbrt(m.hi)
	// One Newton step doubles the digits.
	y2 := twoProd(y, y)
	d := m.sub(y2.mulF(y)).div(y2.mulF(3))
	return ddF(y).add(d).scale(e / 3)
}

func ddRsqrt(x dd) dd {
	if !(x.hi > 0) || x.hi > math.MaxFloat64 {
		return ddF(1 / math.Sqrt(x.hi))
	}
	return ddF(1).div(x.sqrt())
}

func ddLogistic(x dd) dd {
	if x.hi != x.hi || math.Abs(x.hi) > 740 {
		return ddF(1 / (1 + math.Exp(-x.hi)))
	}
	if x.hi < 0 {
		e := ddExp(x)
		return e.div(e.addF(1))
	}
	return ddF(1).div(ddExp(x.neg()).addF(1))
}

// ddErf sums erf's series e^(-x^2) * sum 2^n x^(2n+1)/(2n+1)!!, all of whose
// terms are positive, and 1 - erfc beyond 6.
func ddErf(x dd) dd {
	a := x.abs()
	if x.hi != x.hi || a.hi == 0 {
		return x
	}
	r := dd{1, -math.Erfc(a.hi)}
	if a.hi < 6 {
		a2 := a.mul(a)
		term, sum := a, a
		for n := 1; n < 400; n++ {
			term = term.mul(a2).mulF(2).div(ddF(float64(2*n + 1)))
			sum = sum.add(term)
			if term.hi < sum.hi*0x1p-100 {
				break
			}
		}
		r = sum.mul(ddExp(a2.neg())).mul(ddTwoOverSqrtPi)
	}
	if x.hi < 0 {
		return r.neg()
	}
	return r
}

// ddPow is x^y for finite x > 0; the relative error is that of the logarithm
// times up to 745.
func ddPow(x, y dd) dd {
	l := ddLog(x)
	if e := l.hi * y.hi; math.Abs(e) > 800 {
		return ddF(math.Exp(e))
	}
	return ddExp(l.mul(y))
}
