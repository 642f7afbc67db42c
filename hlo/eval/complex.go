package eval

import (
	"math"
	"math/cmplx"

	"github.com/passgate/passgate/hlo"
)

// Complex bounds are norm-wise: an implementation may be off by a multiple of
// |result|, in either part, because formulas of that kind are what XLA emits
// (xla/service/elemental_ir_emitter.cc) and what its exhaustive tests check
// (xla/tests/exhaustive/exhaustive_unary_complex_test.cc). Addition and
// multiplication are built from real operations and so part-wise.

type complexFunction struct {
	value func(z complex128) complex128
	// slope bounds |f'| on the disc of radius r around z; +Inf if unknown.
	slope func(z, w complex128, r float64) float64
	// scale is the size of the intermediate values, to which rounding errors
	// are relative; w is the result.
	scale func(z, w complex128) float64
	// cut reports whether the disc reaches a branch cut.
	cut func(z complex128, r float64) bool
}

func norm(_, w complex128) float64 { return cmplx.Abs(w) }

// hyperbolic is the scale of sin and cos, which are built from e^y and e^-y of
// the imaginary part, and turned by a quarter of sinh and cosh.
func hyperbolic(z, _ complex128) float64   { return math.Cosh(imag(z)) }
func hyperbolicRe(z, _ complex128) float64 { return math.Cosh(real(z)) }

func cExpm1(z complex128) complex128 {
	s, _ := math.Sincos(imag(z) / 2)
	sb, cb := math.Sincos(imag(z))
	return complex(math.Expm1(real(z))*cb-2*s*s, math.Exp(real(z))*sb)
}

func cLog1p(z complex128) complex128 {
	re, im := real(z), imag(z)
	// log|1+z| = log1p(2re + re^2 + im^2)/2 where that does not cancel.
	if math.Abs(re)+math.Abs(im) < 0.5 {
		return complex(math.Log1p(math.FMA(re, re, math.FMA(im, im, 2*re)))/2, math.Atan2(im, 1+re))
	}
	return cmplx.Log(1 + z)
}

// negativeAxis: the disc meets the negative real axis (or the origin).
func negativeAxis(z complex128, r float64) bool {
	return real(z)-r <= 0 && math.Abs(imag(z)) <= r
}

// riccati bounds the slope of tanh and tan, f' = 1 -+ f^2, on the disc.
func riccati(_, w complex128, r float64) float64 {
	a := math.Atan(cmplx.Abs(w)) + r
	if a >= math.Pi/2 {
		return inf
	}
	t := math.Tan(a)
	return 1 + t*t
}

var complexFunctions = map[hlo.Opcode]*complexFunction{
	hlo.OpExponential: {cmplx.Exp, func(z, _ complex128, r float64) float64 { return math.Exp(real(z) + r) }, norm, nil},
	hlo.OpExponentialMinusOne: {cExpm1, func(z, _ complex128, r float64) float64 { return math.Exp(real(z) + r) },
		func(z, w complex128) float64 {
			s := math.Sin(imag(z) / 2)
			return math.Abs(math.Expm1(real(z))) + 2*s*s + math.Abs(imag(w))
		}, nil},
	hlo.OpLog: {cmplx.Log, func(z, _ complex128, r float64) float64 { return 1 / (cmplx.Abs(z) - r) }, norm, negativeAxis},
	hlo.OpLogPlusOne: {cLog1p, func(z, _ complex128, r float64) float64 { return 1 / (cmplx.Abs(1+z) - r) }, norm,
		func(z complex128, r float64) bool { return negativeAxis(1+z, r) }},
	hlo.OpSqrt: {cmplx.Sqrt, func(z, _ complex128, r float64) float64 { return 0.5 / math.Sqrt(cmplx.Abs(z)-r) }, norm, negativeAxis},
	hlo.OpRsqrt: {func(z complex128) complex128 { return 1 / cmplx.Sqrt(z) },
		func(z, _ complex128, r float64) float64 { return 0.5 * math.Pow(cmplx.Abs(z)-r, -1.5) }, norm, negativeAxis},
	hlo.OpSine:   {cmplx.Sin, func(z, _ complex128, r float64) float64 { return math.Cosh(math.Abs(imag(z)) + r) }, hyperbolic, nil},
	hlo.OpCosine: {cmplx.Cos, func(z, _ complex128, r float64) float64 { return math.Cosh(math.Abs(imag(z)) + r) }, hyperbolic, nil},
	hlo.OpSinh:   {cmplx.Sinh, func(z, _ complex128, r float64) float64 { return math.Cosh(math.Abs(real(z)) + r) }, hyperbolicRe, nil},
	hlo.OpCosh:   {cmplx.Cosh, func(z, _ complex128, r float64) float64 { return math.Cosh(math.Abs(real(z)) + r) }, hyperbolicRe, nil},
	hlo.OpTan:    {cmplx.Tan, riccati, norm, nil},
	hlo.OpTanh:   {cmplx.Tanh, riccati, norm, nil},
	hlo.OpLogistic: {func(z complex128) complex128 { return 1 / (1 + cmplx.Exp(-z)) },
		// f = (1 + tanh(z/2))/2
		func(z, w complex128, r float64) float64 { return riccati(z, 2*w-1, r/2) / 4 },
		func(z, w complex128) float64 {
			return cmplx.Abs(w) * (1 + math.Exp(-real(z))*cmplx.Abs(w))
		}, nil},
}

// more are functions that only exact mode evaluates; in bound mode they are
// undecided (XLA expands them, and nothing bounds the error of the expansion).
var moreComplexFunctions = map[hlo.Opcode]func(complex128) complex128{
	hlo.OpAcos: cmplx.Acos, hlo.OpAcosh: cmplx.Acosh, hlo.OpAsin: cmplx.Asin,
	hlo.OpAsinh: cmplx.Asinh, hlo.OpAtanh: cmplx.Atanh,
}

func centre(x Scalar) complex128 { return complex(x.Re.C, x.Im.C) }

// radius bounds how far a member of x lies from its centre.
func (f *floatType) radius(x Scalar) float64 {
	r := math.Hypot(x.Re.E+math.Abs(x.Re.Lo)+f.slack(x.Re), x.Im.E+math.Abs(x.Im.Lo)+f.slack(x.Im))
	return r * roundUp
}

func (n *Numerics) anyComplex(contest Contest) Scalar {
	return Scalar{Re: anyNum, Im: anyNum, Contest: contest}
}

// disc makes a complex result: w up to e in either part.
func (n *Numerics) disc(f *floatType, w complex128, e float64, contest Contest) Scalar {
	if e != e || cmplx.IsNaN(w) || cmplx.IsInf(w) || cmplx.Abs(w)+e > f.max/8 {
		return n.anyComplex(contest)
	}
	return Scalar{
		Re:      n.settle(f, real(w), 0, e, 1, AnyZeroSign),
		Im:      n.settle(f, imag(w), 0, e, 1, AnyZeroSign),
		Contest: contest,
	}
}

func (n *Numerics) exactComplex(f *floatType, w complex128, contest Contest) Scalar {
	return Scalar{Re: Num{C: f.Round(real(w))}, Im: Num{C: f.Round(imag(w))}, Contest: contest}
}

func (n *Numerics) complexUnary(op hlo.Opcode, t hlo.PrimitiveType, x Scalar) Scalar {
	f := realType(t)
	r := Scalar{Contest: x.Contest}
	z := centre(x)
	switch op {
	case hlo.OpReal:
		r.Re = x.Re
		return r
	case hlo.OpImag:
		r.Re = x.Im
		return r
	case hlo.OpNegate:
		r.Re, r.Im = neg(x.Re), neg(x.Im)
		return r
	case hlo.OpAbs:
		r.Re = n.complexAbs(f, x)
		return r
	case hlo.OpSign:
		return n.complexSign(f, x)
	}
	fn := complexFunctions[op]
	if fn == nil {
		more := moreComplexFunctions[op]
		if more == nil {
			panic("eval: no complex operation " + op.String())
		}
		if n.Bounds {
			return n.anyComplex(x.Contest)
		}
		return n.exactComplex(f, more(z), x.Contest)
	}
	if !n.Bounds {
		return n.exactComplex(f, fn.value(z), x.Contest)
	}
	if !x.Re.plain() || !x.Im.plain() {
		return n.anyComplex(x.Contest)
	}
	rad := f.radius(x)
	if rad > 0 && fn.cut != nil && fn.cut(z, rad) {
		return n.anyComplex(x.Contest)
	}
	switch at := z; op {
	case hlo.OpLogPlusOne:
		at++
		fallthrough
	case hlo.OpLog, hlo.OpSqrt, hlo.OpRsqrt:
		// |z| is formed on the way: where it overflows or is subnormal the
		// published tolerances give up.
		if a := cmplx.Abs(at); a != 0 && (a >= f.max/2 || a-rad < 4*f.minNormal) {
			return n.anyComplex(x.Contest)
		}
	}
	w := fn.value(z)
	b := complexBudget(op, f)
	if (op == hlo.OpTanh || op == hlo.OpTan) && nearPole(op, z) {
		return n.anyComplex(x.Contest)
	}
	e := fn.scale(z, w)*b.relative + b.abs
	if rad > 0 {
		e += fn.slope(z, w, rad) * rad
	}
	r = n.disc(f, w, e*roundUp, x.Contest)
	if rad == 0 && fn.cut != nil && fn.cut(z, 0) && imag(z) == 0 {
		// On the cut the sign of a zero imaginary part decides: allow both.
		r.Im.E += 2 * math.Abs(r.Im.C)
	}
	return r
}

// nearPole: the published tolerance gives up where the denominator of tanh is
// below 1e-4 (exhaustive_unary_complex_test.cc, Tanh).
func nearPole(op hlo.Opcode, z complex128) bool {
	if op == hlo.OpTan {
		z = complex(-imag(z), real(z))
	}
	return math.Cosh(2*real(z))+math.Cos(2*imag(z)) < 1e-4
}

func (n *Numerics) complexAbs(f *floatType, x Scalar) Num {
	v := math.Hypot(x.Re.C, x.Im.C)
	if !n.Bounds {
		return Num{C: f.Round(v)}
	}
	if !(x.Re.E < inf) || !(x.Im.E < inf) {
		return anyNum
	}
	k := (x.Re.class() | x.Im.class()) & specials
	if k&MayNaN != 0 {
		// With fast minimum and maximum the size of the other part comes out
		// (EmitComplexAbsHelper; AbsComplexSkip in the exhaustive tests).
		return anyNum
	}
	var sp Class
	if k&(MayPosInf|MayNegInf) != 0 {
		sp |= MayPosInf
	}
	if !finite(x.Re.C) || !finite(x.Im.C) {
		return special(sp)
	}
	b := complexBudget(hlo.OpAbs, f)
	if x.Re.zero() || x.Im.zero() { // the size of the other part
		o := abs(x.Re)
		if x.Re.zero() {
			o = abs(x.Im)
		}
		r := n.settle(f, o.C, o.Lo, o.E, 0.5, sp)
		r.K |= o.K & specials
		return r
	}
	return n.settle(f, v, 0, f.radius(x)+b.extra(v, 0)+wideCentre(f, v), 0.5, sp)
}

// wideCentre is the error of a centre that package math gave for f64.
func wideCentre(f *floatType, v float64) float64 {
	if f.wide {
		return math.Abs(v) * 0x1p-51
	}
	return 0
}

func (n *Numerics) complexSign(f *floatType, x Scalar) Scalar {
	z := centre(x)
	a := math.Hypot(real(z), imag(z))
	if a == 0 && (!n.Bounds || x.Re.zero() && x.Im.zero() && x.Re.plain() && x.Im.plain()) {
		return Scalar{Re: Num{K: AnyZeroSign & n.anyZeroSign()}, Im: Num{K: AnyZeroSign & n.anyZeroSign()}, Contest: x.Contest}
	}
	w := complex(real(z)/a, imag(z)/a)
	if !n.Bounds {
		return n.exactComplex(f, w, x.Contest)
	}
	rad := f.radius(x)
	if !x.Re.plain() || !x.Im.plain() || rad >= a || a >= f.max/2 || a < 4*f.minNormal {
		return n.anyComplex(x.Contest)
	}
	b := complexBudget(hlo.OpSign, f)
	return n.disc(f, w, 2*rad/(a-rad)+b.relative, x.Contest)
}

// anyZeroSign is the AnyZeroSign bit in bound mode.
func (n *Numerics) anyZeroSign() Class {
	if n.Bounds {
		return AnyZeroSign
	}
	return 0
}

func (n *Numerics) complexBinary(op hlo.Opcode, t hlo.PrimitiveType, x, y Scalar) Scalar {
	f := realType(t)
	r := Scalar{Contest: x.Contest | y.Contest}
	switch op {
	case hlo.OpAdd:
		r.Re, r.Im = n.add(f, x.Re, y.Re), n.add(f, x.Im, y.Im)
	case hlo.OpSubtract:
		r.Re, r.Im = n.sub(f, x.Re, y.Re), n.sub(f, x.Im, y.Im)
	case hlo.OpMultiply:
		r.Re = n.sub(f, n.mul(f, x.Re, y.Re), n.mul(f, x.Im, y.Im))
		r.Im = n.add(f, n.mul(f, x.Re, y.Im), n.mul(f, x.Im, y.Re))
	case hlo.OpDivide:
		return n.complexDivide(f, x, y, r.Contest)
	case hlo.OpPower:
		return n.complexPower(f, x, y, r.Contest)
	case hlo.OpAtan2:
		if n.Bounds {
			return n.anyComplex(r.Contest)
		}
		a, b := centre(x), centre(y) // -i log((b + ia)/sqrt(a^2+b^2))
		return n.exactComplex(f, -1i*cmplx.Log((b+1i*a)/cmplx.Sqrt(a*a+b*b)), r.Contest)
	default:
		panic("eval: no complex operation " + op.String())
	}
	return r
}

func (n *Numerics) complexDivide(f *floatType, x, y Scalar, contest Contest) Scalar {
	a, b := centre(x), centre(y)
	if !n.Bounds {
		return n.exactComplex(f, a/b, contest)
	}
	ra, rb, size := f.radius(x), f.radius(y), cmplx.Abs(b)
	if !x.Re.plain() || !x.Im.plain() || !y.Re.plain() || !y.Im.plain() || rb >= size {
		return n.anyComplex(contest)
	}
	// Where the squares that the formula forms leave the range of the type,
	// anything may happen.
	if s := size; s < math.Sqrt(f.minNormal)*4 || s > math.Sqrt(f.max)/4 || cmplx.Abs(a) > f.max/8/math.Max(s, 1) {
		return n.anyComplex(contest)
	}
	w := a / b
	q := cmplx.Abs(w)
	budget := complexBudget(hlo.OpDivide, f)
	e := (ra+q*rb)/(size-rb) + q*budget.relative + f.minNormal*4*(1+1/size)
	if a == 0 && ra == 0 {
		e = 0
	}
	return n.disc(f, w, e*roundUp+wideCentre(f, q), contest)
}

func (n *Numerics) complexPower(f *floatType, x, y Scalar, contest Contest) Scalar {
	a, b := centre(x), centre(y)
	if a == 1 || b == 0 {
		if !n.Bounds || f.radius(x) == 0 && a == 1 || f.radius(y) == 0 && b == 0 {
			return Scalar{Re: Num{C: 1}, Im: Num{K: n.anyZeroSign()}, Contest: contest}
		}
	}
	if !n.Bounds {
		return n.exactComplex(f, cmplx.Pow(a, b), contest)
	}
	ra, rb, size := f.radius(x), f.radius(y), cmplx.Abs(a)
	if !x.Re.plain() || !x.Im.plain() || !y.Re.plain() || !y.Im.plain() || ra >= size || negativeAxis(a, ra) {
		return n.anyComplex(contest)
	}
	// |a|^(2c) and e^(-d arg a) are formed one by one (EmitComplexPower).
	limit := 0.9 * math.Log(f.max)
	if size*size > f.max/4 || size*size < 4*f.minNormal ||
		math.Abs(real(b)*math.Log(size)) > limit || math.Abs(imag(b)*cmplx.Phase(a)) > limit {
		return n.anyComplex(contest)
	}
	w := cmplx.Pow(a, b)
	l := cmplx.Abs(cmplx.Log(a))
	budget := complexBudget(hlo.OpPower, f)
	// Relative error: that of the exponent b*log(a), and of exp.
	d := rb*(l+ra/(size-ra)) + cmplx.Abs(b)*ra/(size-ra) + budget.relative*(1+cmplx.Abs(b)*(1+l))
	return n.disc(f, w, cmplx.Abs(w)*math.Expm1(d)*roundUp, contest)
}
