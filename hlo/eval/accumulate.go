package eval

import (
	"math"
	"math/bits"

	"github.com/passgate/passgate/hlo"
)

// Sum accumulates terms that an implementation may add in any order, in any
// tree and with any fused multiply-adds.
//
// Floats: the error of n-1 additions in any order is at most (n-1)u sum|x_i|,
// and that of a sum of n products at most n*u sum|x_i y_i| (Jeannerod and Rump,
// "Improved error bounds for inner products in floating-point arithmetic",
// SIAM J. Matrix Anal. Appl. 34(2), 2013; u is half the distance of 1 and the
// next value). Where all terms are multiples of one power of two q and
// sum|x_i| <= 2^p q (p: the precision with the hidden bit), every partial sum
// is a value of the type and the sum is exact.
type Sum struct {
	n         *Numerics
	t         hlo.PrimitiveType
	re, im    floatSum
	i         int64
	size      float64 // integers: sum of magnitudes
	undecided bool
	width     int64 // of the sum of the undecided terms; -1: any value
	contest   Contest
	infinite  bool // complex: some product may have an infinite factor
}

// floatSum is the sum of real terms.
type floatSum struct {
	sum      dd
	size     float64 // sum of |x|+E
	pos, neg float64 // of the positive and the negative terms
	err      float64 // sum of E
	unit     int     // exponent of the largest q that all terms are multiples of
	terms    int     // nonzero terms
	products bool
	definite Class // infinities and NaNs that are terms for certain
	over     Class // infinities that are so only as rounded products (overflowedProduct)
	may      Class // possible ones
	any      bool  // an undecided term
}

const noUnit = math.MaxInt32

// unitExponent is the exponent of the lowest set bit of a finite x != 0.
func unitExponent(x float64) int {
	b := math.Float64bits(x)
	e := int(b >> 52 & 0x7ff)
	m := b & (1<<52 - 1)
	if e == 0 {
		e = 1
	} else {
		m |= 1 << 52
	}
	return e - 1075 + bits.TrailingZeros64(m)
}

// NewSum starts an empty sum (value 0) of type t: integers wrap, pred is
// logical or.
func (n *Numerics) NewSum(t hlo.PrimitiveType) Sum {
	return Sum{n: n, t: t, re: floatSum{unit: noUnit}, im: floatSum{unit: noUnit}}
}

// Add adds one term.
func (s *Sum) Add(x Scalar) {
	s.contest |= x.Contest
	switch {
	case s.t.IsComplex():
		f := realType(s.t)
		s.re.add(s.n, f, x.Re)
		s.im.add(s.n, f, x.Im)
	case s.t.IsFloat():
		s.re.add(s.n, floatTypes[s.t], x.Re)
	default:
		s.addInt(x)
	}
}

// AddArray adds the count elements from, from+stride, ... of x, an array of
// the sum's type.
func (s *Sum) AddArray(x *Array, from, stride, count int) {
	if x.Contest != nil {
		for i := range count {
			s.contest |= x.Contest[from+i*stride]
		}
	}
	switch {
	case s.t.IsComplex():
		f := realType(s.t)
		s.re.addPlane(s.n, f, x.Re, from, stride, count)
		s.im.addPlane(s.n, f, x.Im, from, stride, count)
	case s.t.IsFloat():
		s.re.addPlane(s.n, floatTypes[s.t], x.Re, from, stride, count)
	default:
		for i := range count {
			at := from + i*stride
			v := Scalar{I: x.I[at]}
			if x.Undecided != nil {
				v = x.At(at)
			}
			s.addInt(v)
		}
	}
}

func (s *floatSum) addPlane(n *Numerics, f *floatType, x *Plane, from, stride, count int) {
	if !n.Bounds && !f.wide {
		t := s.sum.hi
		for range count {
			t += x.C[from]
			from += stride
		}
		s.sum.hi = t
		s.terms += count
		return
	}
	l := f.limits()
	exact := n.Bounds && !f.wide && x.exactly()
	for range count {
		v := x.C[from]
		if exact && l.ordinary(math.Float64bits(v)<<1) {
			s.terms++
			s.sum.hi += v
			s.size += math.Abs(v)
			if v > 0 {
				s.pos += v
			} else {
				s.neg -= v
			}
			s.unit = min(s.unit, unitExponent(v))
		} else {
			s.add(n, f, x.at(from))
		}
		from += stride
	}
}

func (s *Sum) addInt(x Scalar) {
	switch {
	case s.t == hlo.Pred:
		if !x.Undecided && x.I != 0 {
			s.i = 1
		}
	default:
		s.i += x.I
		s.size += math.Abs(float64(x.I))
	}
	if x.Undecided {
		s.undecided = true
		if x.Width == 0 || s.width < 0 {
			s.width = -1
		} else {
			s.width += x.Width
			s.size += float64(x.Width)
		}
	}
}

// AddProduct adds the product of two values of the sum's type.
func (s *Sum) AddProduct(x, y Scalar) {
	s.contest |= x.Contest | y.Contest
	switch {
	case s.t.IsComplex():
		f := realType(s.t)
		for _, part := range []Num{x.Re, x.Im, y.Re, y.Im} {
			s.infinite = s.infinite || part.class()&(MayPosInf|MayNegInf) != 0
		}
		s.re.addProduct(s.n, f, x.Re, y.Re)
		s.re.addProduct(s.n, f, neg(x.Im), y.Im)
		s.im.addProduct(s.n, f, x.Re, y.Im)
		s.im.addProduct(s.n, f, x.Im, y.Re)
	case s.t.IsFloat():
		s.re.addProduct(s.n, floatTypes[s.t], x.Re, y.Re)
	default:
		x.Contest, y.Contest = 0, 0
		p := intBinary(hlo.OpMultiply, s.t, x, y)
		if !p.Undecided && s.t.IsSigned() {
			s.size += math.Abs(float64(x.I)*float64(y.I)) - math.Abs(float64(p.I))
		}
		s.addInt(p)
	}
}

// Result is the set of sums; the Sum may be added to afterwards.
func (s *Sum) Result() Scalar {
	r := Scalar{Contest: s.contest}
	switch {
	case s.t.IsComplex():
		r.Re, r.Im = s.re.result(s.n, realType(s.t)), s.im.result(s.n, realType(s.t))
		if s.n.Bounds && s.re.products {
			if s.infinite {
				r.Re, r.Im = recovered(r.Re, r.Im)
			}
			r.Re, r.Im = timesOne(r.Re, r.Im)
		}
		return r
	case s.t.IsFloat():
		r.Re = s.re.result(s.n, floatTypes[s.t])
		return r
	}
	r.I = s.t.Canonical(s.i)
	if s.undecided && !(s.t == hlo.Pred && s.i != 0) {
		if s.width > 0 && s.t != hlo.Pred && s.size < maxExactSum && s.size <= float64(maxInt(s.t)) {
			return ranged(s.t, s.i, s.i+s.width, r.Contest)
		}
		r.I, r.Undecided = 0, true
	}
	if s.t.IsSigned() && s.size > float64(maxInt(s.t)) {
		r.Contest |= SignedOverflow
	}
	return r
}

// timesOne are the parts of a sum of complex products that a library may multiply
// by a factor of 1+0i, as Eigen's products do (alpha of general_matrix_matrix_product
// in Eigen/src/Core/products/GeneralMatrixMatrix.h, called by
// xla/backends/cpu/runtime/dot_lib.h): an infinite or NaN part makes the other one NaN.
func timesOne(re, im Num) (Num, Num) {
	r, i := re, im
	if !im.plain() {
		r = union(re, Num{C: nan})
	}
	if !re.plain() {
		i = union(im, Num{C: nan})
	}
	return r, i
}

// recovered are the parts of a sum of complex products of which some have an
// infinite factor: where both parts come out as NaN, std::complex's product, which
// Eigen uses, may give an infinity (ISO C, Annex G.5.1).
func recovered(re, im Num) (Num, Num) {
	if (re.class()&im.class())&MayNaN == 0 {
		return re, im
	}
	any := special(MayNaN | MayPosInf | MayNegInf)
	return union(re, any), union(im, any)
}

func (s *floatSum) add(n *Numerics, f *floatType, x Num) {
	if !n.Bounds {
		s.terms++
		if f.wide {
			s.sum = s.sum.addExact(x.C)
		} else {
			s.sum.hi += x.C
		}
		return
	}
	if !(x.E < inf) {
		s.any = true
		return
	}
	if x.K&specials != 0 || !finite(x.C) {
		s.may |= x.class() & specials
		if !finite(x.C) {
			switch {
			case x.K&specials != 0 && x.C == x.C:
			case x.K&overflowedProduct != 0:
				s.over |= Num{C: x.C}.class()
			default:
				s.definite |= Num{C: x.C}.class()
			}
			return
		}
	}
	if x.zero() {
		return
	}
	e := x.E
	if f.flush {
		e += f.slack(x)
	}
	s.term(f.wide, dd{x.C, x.Lo}, e)
	if x.C != 0 {
		s.unit = min(s.unit, unitExponent(x.C))
	}
}

// term adds a value with its error.
func (s *floatSum) term(wide bool, x dd, e float64) {
	s.terms++
	if wide {
		s.sum = s.sum.add(x)
	} else {
		s.sum.hi += x.hi
	}
	a := math.Abs(x.hi) + e
	s.size += a
	s.err += e
	if x.hi+e > 0 {
		s.pos += x.hi + e
	}
	if x.hi-e < 0 {
		s.neg += e - x.hi
	}
}

// addExact adds a float64 that may be infinite or NaN.
func (x dd) addExact(y float64) dd {
	s := twoSum(x.hi, y)
	if !finite(s.hi) {
		return dd{s.hi, 0}
	}
	return dd{s.hi, x.lo + s.lo}
}

func (s *floatSum) addProduct(n *Numerics, f *floatType, x, y Num) {
	s.products = true
	if !n.Bounds {
		s.terms++
		if f.wide {
			p := twoProd(x.C, y.C)
			if !finite(p.hi) {
				p.lo = 0
			}
			s.sum = s.sum.addExact(p.hi)
			s.sum.lo += p.lo
		} else {
			s.sum.hi += x.C * y.C
		}
		return
	}
	if !x.plain() || !y.plain() {
		s.add(n, f, n.mul(f, x, y))
		return
	}
	if x.zero() || y.zero() {
		return
	}
	ex, ey := x.E+f.slack(x), y.E+f.slack(y)
	e := math.Abs(x.C)*ey + math.Abs(y.C)*ex + ex*ey
	if !(e < inf) {
		s.any = true
		return
	}
	p := dd{x.C * y.C, 0}
	if f.wide {
		p = dd{x.C, x.Lo}.mul(dd{y.C, y.Lo})
		if math.Abs(p.hi) < 0x1p-960 {
			e += wideUnderflow
		}
		if !finite(p.hi) {
			// Infinite, or finite again in a fused multiply-add.
			s.any = true
			return
		}
	}
	s.term(f.wide, p, e)
	if x.C != 0 && y.C != 0 {
		s.unit = min(s.unit, unitExponent(x.C)+unitExponent(y.C))
	}
}

// exactSum reports whether every partial sum of terms that are multiples of
// 2^unit, of total size, is a value of a type of precision 1-log2(eps).
func (f *floatType) exactSum(unit int, size float64) bool {
	if unit == noUnit {
		return true
	}
	q := math.Ldexp(1, unit)
	if size > q*2/f.eps || size > f.max || q < f.minSub {
		return false
	}
	return !f.flush || q >= f.minNormal
}

// accumulator is the type in which products of type f are summed: XLA's
// backends sum products of types below f32 in f32 (cpu_compiler.cc:
// ChangeOpDataType and float normalization for dot and convolution;
// algebraic_simplifier.cc: strength-reduced dots).
func (f *floatType) accumulator() *floatType {
	if f.MantissaBits < 23 {
		return floatTypes[hlo.F32]
	}
	return f
}

func (s *floatSum) result(n *Numerics, f *floatType) Num {
	if !n.Bounds {
		if f.wide {
			if !finite(s.sum.hi) {
				return Num{C: s.sum.hi}
			}
			return Num{C: s.sum.float()}
		}
		return Num{C: f.Round(s.sum.hi)}
	}
	if s.any {
		return anyNum
	}
	if s.definite&MayNaN != 0 || s.definite&MayPosInf != 0 && s.definite&MayNegInf != 0 {
		return special(MayNaN)
	}
	if s.over != 0 && f.wide && s.terms > 0 {
		return anyNum // the product may be less than 2 max, as in add
	}
	acc := f
	if s.products {
		acc = f.accumulator()
	}
	c, k := s.sum, s.may|s.over
	grown := 1 + float64(s.terms)*acc.eps // partial sums are rounded
	if s.pos*grown+s.err >= acc.overflow {
		k |= MayPosInf
	}
	if s.neg*grown+s.err >= acc.overflow {
		k |= MayNegInf
	}
	if k&MayPosInf != 0 && k&MayNegInf != 0 {
		k |= MayNaN
	}
	switch {
	case s.definite != 0:
		return special(s.definite | k&MayNaN)
	case s.over != 0: // added unrounded, the product leaves another infinity as it is
		return special(k)
	}
	if s.err == 0 && acc.exactSum(s.unit, s.size) {
		r := n.settle(f, c.hi, c.lo, 0, 0.5, k)
		if r.C == 0 {
			r.K |= AnyZeroSign
		}
		return r
	}
	ops := s.terms - 1
	if s.products {
		ops++
	}
	r := n.settleSum(f, acc, c, s.err, s.size, ops, k)
	switch { // a sum of terms of one sign has it
	case s.neg == 0:
		r = r.nonNegative()
	case s.pos == 0:
		r = neg(neg(r).nonNegative())
	}
	return r
}

// settleSum is the result of a sum that ops roundings in type acc may disturb.
func (n *Numerics) settleSum(f, acc *floatType, c dd, err, size float64, ops int, k Class) Num {
	e := err + float64(ops)*(acc.eps/2)*size*(1+0x1p-40)
	if acc.flush {
		e += float64(ops) * acc.minNormal
	}
	b := 0.0
	switch {
	case acc != f || ops == 0:
		b = 0.5
	}
	if e == 0 {
		b = 0.5
	}
	if f.wide {
		e += size * 0x1p-100 * float64(ops+1)
	} else {
		e += size * 0x1p-52 * float64(ops+1)
	}
	if c.hi == 0 {
		k |= AnyZeroSign
	}
	lo := c.lo
	if !f.wide {
		c.hi, lo = c.float(), 0
	}
	return n.settle(f, c.hi, lo, e, b, k)
}
