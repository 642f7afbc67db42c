package eval

import (
	"iter"
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
)

// The column forms apply an operation to whole arrays of equal dimensions.
// They never change their operands; results may share columns with them.
// Each kernel has a loop for the common case (finite normal values, few or no
// bounds) and leaves the other elements to the scalar form.

// like is an empty array of type t with the dimensions of x.
func like(t hlo.PrimitiveType, x *Array) *Array {
	return &Array{Type: t, Dims: x.Dims, Sizes: x.Sizes}
}

// unite is the union of two contest columns.
func unite(a, b []Contest) []Contest {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	r := make([]Contest, len(a))
	for i := range r {
		r[i] = a[i] | b[i]
	}
	return r
}

func (a *Array) contest(i int, c Contest) {
	if c != 0 {
		grow(&a.Contest, a.Len())[i] |= c
	}
}

// UnaryArray is Unary over an array.
func (n *Numerics) UnaryArray(op hlo.Opcode, x *Array) *Array {
	t, ok := UnaryType(op, x.Type)
	if !ok {
		panic("eval: no " + op.String() + " of " + x.Type.String())
	}
	switch {
	case x.Re != nil && x.Im == nil && t.IsFloat():
		r := like(t, x)
		r.Contest = x.Contest
		r.Re = n.unaryPlane(op, floatTypes[t], x.Re)
		if n.Bounds && steepAtZero(op) {
			r.contestSubnormals(floatTypes[x.Type], x.Re)
		}
		return r
	case op == hlo.OpReal && x.Im != nil:
		return &Array{Type: t, Dims: x.Dims, Sizes: x.Sizes, Re: x.Re, Contest: x.Contest}
	case op == hlo.OpImag && x.Im != nil:
		return &Array{Type: t, Dims: x.Dims, Sizes: x.Sizes, Re: x.Im, Contest: x.Contest}
	}
	r := NewArray(t, x.Dims...)
	r.Sizes = x.Sizes
	for i := range r.Len() {
		r.Set(i, n.Unary(op, x.Type, x.At(i)))
	}
	return r
}

// steepAtZero reports whether a subnormal operand that is flushed to zero moves
// the function's result far. What compilers make of subnormals there is argued
// about (jax-ml/jax#37761: cbrt under denormals-are-zero is neither the root nor
// zero).
func steepAtZero(op hlo.Opcode) bool {
	switch op {
	case hlo.OpCbrt, hlo.OpSqrt, hlo.OpRsqrt, hlo.OpLog:
		return true
	}
	return false
}

// subnormal reports whether x's centre is a subnormal that may be flushed.
func (f *floatType) subnormal(x float64) bool { return f.flush && x != 0 && math.Abs(x) < f.minNormal }

// contestSubnormals marks the elements whose operand is subnormal.
func (a *Array) contestSubnormals(f *floatType, x *Plane) {
	shared := true
	for i, c := range x.C {
		if !f.subnormal(c) {
			continue
		}
		if shared {
			a.Contest = slices.Clone(a.Contest)
			shared = false
		}
		grow(&a.Contest, len(x.C))[i] |= Denormal
	}
}

func (n *Numerics) unaryPlane(op hlo.Opcode, f *floatType, x *Plane) *Plane {
	r := &Plane{C: make([]float64, len(x.C))}
	c := r.C
	switch op {
	case hlo.OpReal:
		return x
	case hlo.OpImag:
		return r
	case hlo.OpNegate:
		if x.Lo == nil && x.K == nil && f.NegZero {
			for i, v := range x.C {
				c[i] = -v
			}
			r.E = x.E
			return r
		}
	case hlo.OpAbs:
		if x.exactly() {
			for i, v := range x.C {
				c[i] = math.Abs(v)
			}
			return r
		}
	}
	fn := functions[op]
	if !n.Bounds && fn != nil && f.MantissaBits == 23 {
		for i, v := range x.C {
			c[i] = float64(float32(fn.float(v)))
		}
		return r
	}
	if n.Bounds && fn != nil && !f.wide && x.exactly() {
		n.elementaryKernel(f, op, r, x)
		return r
	}
	for i := range c {
		r.set(i, n.unary(op, f, x.at(i)))
	}
	return r
}

// BinaryArray is Binary over two arrays of the same dimensions.
func (n *Numerics) BinaryArray(op hlo.Opcode, x, y *Array) *Array {
	t, ok := BinaryType(op, x.Type)
	if !ok {
		panic("eval: no " + op.String() + " of " + x.Type.String())
	}
	switch {
	case op == hlo.OpComplex:
		return &Array{Type: t, Dims: x.Dims, Sizes: x.Sizes, Re: x.Re, Im: y.Re, Contest: unite(x.Contest, y.Contest)}
	case x.I != nil:
		r := intArray(op, x, y)
		for i := range undecided(x, y) {
			if x.anything(i) && y.anything(i) {
				r.replace(i, Scalar{Undecided: true, Contest: contestAt(x, i) | contestAt(y, i)}, x, y)
				continue
			}
			r.replace(i, intBinary(op, x.Type, x.At(i), y.At(i)), x, y)
		}
		return r
	case x.Re != nil && x.Im == nil:
		r := like(t, x)
		r.Contest = unite(x.Contest, y.Contest)
		r.Re = n.binaryPlane(op, floatTypes[t], x.Re, y.Re)
		switch {
		case op == hlo.OpMaximum || op == hlo.OpMinimum:
			r.contestNaNs(x.Re, y.Re)
		case x.Re == y.Re:
			n.sameOperand(op, floatTypes[t], r.Re, x.Re)
		}
		return r
	}
	r := NewArray(t, x.Dims...)
	r.Sizes = x.Sizes
	for i := range r.Len() {
		r.Set(i, n.Binary(op, x.Type, x.At(i), y.At(i)))
	}
	return r
}

// undecided are the elements that are undecided in either array.
func undecided(x, y *Array) iter.Seq[int] {
	return func(yield func(int) bool) {
		if x.Undecided == nil && y.Undecided == nil {
			return
		}
		for i := range x.Len() {
			if (x.Undecided != nil && x.Undecided[i] || y.Undecided != nil && y.Undecided[i]) && !yield(i) {
				return
			}
		}
	}
}

// anything reports whether an integer may have any value.
func (a *Array) anything(i int) bool {
	return a.Undecided != nil && a.Undecided[i] && (a.Width == nil || a.Width[i] == 0)
}

func contestAt(a *Array, i int) Contest {
	if a.Contest == nil {
		return 0
	}
	return a.Contest[i]
}

// replace is Set on a fresh array whose contests may still be an operand's.
func (a *Array) replace(i int, s Scalar, x, y *Array) {
	if a.Contest != nil {
		a.ownContest(x, y)
	}
	a.Set(i, s)
}

// contestNaNs marks the elements of a minimum or maximum that saw a NaN.
func (a *Array) contestNaNs(x, y *Plane) {
	fresh := false
	for i := range x.C {
		if x.C[i] == x.C[i] && y.C[i] == y.C[i] && (x.K == nil || x.K[i]&MayNaN == 0) && (y.K == nil || y.K[i]&MayNaN == 0) {
			continue
		}
		if !fresh { // the column may be an operand's
			fresh = true
			if a.Contest != nil {
				a.Contest = append([]Contest(nil), a.Contest...)
			}
		}
		a.contest(i, NaNMinMax)
	}
}

// sameOperand corrects op(x, x), whose operands are one value, element by
// element.
func (n *Numerics) sameOperand(op hlo.Opcode, f *floatType, r, x *Plane) {
	if !n.Bounds || r.exactly() {
		return
	}
	for i := range r.C {
		if z := r.at(i); z.E != 0 || z.K != 0 || z.C != z.C {
			r.set(i, n.same(op, f, z, x.at(i)))
		}
	}
}

// same is r = op(x, x), corrected: both operands are one value.
func (n *Numerics) same(op hlo.Opcode, f *floatType, r, x Num) Num {
	k := x.class() & specials
	switch op {
	case hlo.OpSubtract: // NaN for infinities, else zero
		if !(x.E < inf) {
			return r
		}
		if k != 0 {
			k = MayNaN
		}
		if !finite(x.C) {
			return special(k)
		}
		z := Num{K: k | AnyZeroSign}
		if x.E > 0 {
			// A product may be fused into the subtraction: what is left is its
			// rounding error.
			z.E = 0.5 * f.ulp(math.Min(math.Abs(x.C)+x.E, f.max)) * roundUp
		}
		if z.E < r.E || !(r.E < inf) || r.K&specials != 0 {
			return z
		}
	case hlo.OpDivide: // 1, or NaN for zeros and infinities
		if !(x.E < inf) || x.zero() || !finite(x.C) {
			return r
		}
		if k != 0 || f.mayZero(x) {
			k = MayNaN
		}
		return Num{C: 1, E: budgetOf(op, f).ulps * f.ulp(1) * roundUp, K: k}
	case hlo.OpMultiply:
		return r.nonNegative()
	}
	return r
}

// nonNegative is x cut to [0, inf), for a value that cannot be negative.
func (x Num) nonNegative() Num {
	if finite(x.C) && x.C < x.E && x.E < inf {
		x.C, x.Lo = (x.C+x.E)/2, 0
		x.E = x.C
	}
	return x
}

func (n *Numerics) binaryPlane(op hlo.Opcode, f *floatType, x, y *Plane) *Plane {
	r := &Plane{C: make([]float64, len(x.C))}
	if !n.Bounds {
		if n.exactKernel(op, f, r.C, x.C, y.C) {
			return r
		}
	} else if !f.wide && x.Lo == nil && y.Lo == nil {
		switch op {
		case hlo.OpAdd:
			n.addKernel(f, r, x, y, 1)
			return r
		case hlo.OpSubtract:
			n.addKernel(f, r, x, y, -1)
			return r
		case hlo.OpMultiply:
			n.mulKernel(f, r, x, y)
			return r
		case hlo.OpDivide:
			n.divKernel(f, r, x, y)
			return r
		case hlo.OpMaximum:
			n.maxKernel(f, r, x, y, 1)
			return r
		case hlo.OpMinimum:
			n.maxKernel(f, r, x, y, -1)
			return r
		}
	}
	for i := range r.C {
		r.set(i, n.binary(op, f, x.at(i), y.at(i)))
	}
	return r
}

// exactKernel is exact mode's loop for basic operations.
func (n *Numerics) exactKernel(op hlo.Opcode, f *floatType, c, a, b []float64) bool {
	b = b[:len(a)]
	c = c[:len(a)]
	single := f.MantissaBits == 23
	switch op {
	case hlo.OpAdd:
		if single {
			for i, v := range a {
				c[i] = float64(float32(v) + float32(b[i]))
			}
			return true
		}
		for i, v := range a {
			c[i] = v + b[i]
		}
	case hlo.OpSubtract:
		if single {
			for i, v := range a {
				c[i] = float64(float32(v) - float32(b[i]))
			}
			return true
		}
		for i, v := range a {
			c[i] = v - b[i]
		}
	case hlo.OpMultiply:
		if single {
			for i, v := range a {
				c[i] = float64(float32(v) * float32(b[i]))
			}
			return true
		}
		for i, v := range a {
			c[i] = v * b[i]
		}
	case hlo.OpDivide:
		if single {
			for i, v := range a {
				c[i] = float64(float32(v) / float32(b[i]))
			}
			return true
		}
		for i, v := range a {
			c[i] = v / b[i]
		}
	case hlo.OpMaximum:
		for i, v := range a {
			c[i] = max(v, b[i])
		}
		return true
	case hlo.OpMinimum:
		for i, v := range a {
			c[i] = min(v, b[i])
		}
		return true
	default:
		return false
	}
	if !f.wide {
		for i, v := range c {
			c[i] = f.Round(v)
		}
	}
	return true
}

// special reports whether element i may be special beside its centre.
func (p *Plane) special(i int) bool { return p.K != nil && p.K[i]&specials != 0 }

// exactly reports whether no element has more than a centre.
func (p *Plane) exactly() bool { return p.Lo == nil && p.E == nil && p.K == nil }

// limits are the bit patterns, shifted left by one to lose the sign, against
// which the kernels sort out their common case.
type limits struct {
	operand uint64 // operands less 1 must reach it: normal or zero
	lo, hi  uint64 // results: normal and finite
	low     uint64 // mantissa bits beyond the type's precision
	half    float64
}

func (f *floatType) limits() limits {
	l := limits{
		lo:   math.Float64bits(f.minNormal) << 1,
		hi:   math.Float64bits(f.max) << 1,
		low:  1<<(52-f.MantissaBits) - 1,
		half: f.step / 2,
	}
	if f.flush {
		l.operand = l.lo - 1
	}
	return l
}

// ordinary reports whether a result with pattern b (shifted) is normal.
func (l *limits) ordinary(b uint64) bool { return b-l.lo <= l.hi-l.lo }

// binade is 2^e for a normal value in [2^e, 2^(e+1)) of either sign.
func binade(b uint64) float64 { return math.Float64frombits(b & (0x7ff << 52)) }

// addKernel is x + sign*y in bound mode, for types up to f32.
func (n *Numerics) addKernel(f *floatType, r, x, y *Plane, sign float64) {
	c, a, b := r.C, x.C, y.C
	b, c = b[:len(a)], c[:len(a)]
	l := f.limits()
	op := hlo.OpAdd
	if sign < 0 {
		op = hlo.OpSubtract
	}
	exact := x.exactly() && y.exactly()
	r.E = make([]float64, len(c))
	e := r.E[:len(a)]
	for i, v := range a {
		w := b[i] * sign
		s := v + w
		bs := math.Float64bits(s)
		bv, bw := math.Float64bits(v)<<1, math.Float64bits(w)<<1
		normal := bv-1 >= l.operand && bw-1 >= l.operand
		switch {
		case exact && normal && l.ordinary(bs<<1):
			c[i] = s
			lost := math.Float64bits(twoSum(v, w).lo) << 1 // beyond float64
			e[i] = l.rounded(bs|(lost|-lost)>>63, bs, s)
			continue
		case exact && normal && s == 0:
			c[i] = s
			grow(&r.K, len(c))[i] = AnyZeroSign
			continue
		case !exact && !x.special(i) && !y.special(i):
			av, aw := math.Abs(v), math.Abs(w)
			var d float64
			if x.E != nil {
				d = x.E[i]
				av -= d
			}
			if y.E != nil {
				d += y.E[i]
				aw -= y.E[i]
			}
			if d > 0 {
				m := math.Abs(s)
				d = (d + 0.5*f.ulp(m+d) + m*centreError) * roundUp
				if m-d >= f.minNormal && m+d < f.overflow && (av >= f.minNormal || v == 0 && av == 0) && (aw >= f.minNormal || w == 0 && aw == 0) {
					c[i] = s
					e[i] = d
					continue
				}
			}
		}
		r.set(i, n.binary(op, f, x.at(i), y.at(i)))
	}
	r.dropZeros()
}

// rounded is the bound of a basic operation on exact operands whose result v,
// of pattern b, is normal: zero where the type has the true result, that is
// where no bit of digits is one that the type lacks. Without a branch, since
// the answer is as good as random.
func (l *limits) rounded(digits, b uint64, v float64) float64 {
	e := (l.half*binade(b) + math.Abs(v)*centreError) * roundUp
	rest := digits & l.low
	return math.Float64frombits(math.Float64bits(e) & uint64(int64(rest|-rest)>>63))
}

// dropZeros gives up a bound column of zeros.
func (p *Plane) dropZeros() {
	for _, e := range p.E {
		if e != 0 {
			return
		}
	}
	p.E = nil
}

// mulKernel is x * y in bound mode, for types up to f32.
func (n *Numerics) mulKernel(f *floatType, r, x, y *Plane) {
	c, a, b := r.C, x.C, y.C
	b, c = b[:len(a)], c[:len(a)]
	l := f.limits()
	exact := x.exactly() && y.exactly()
	r.E = make([]float64, len(c))
	e := r.E[:len(a)]
	for i, v := range a {
		w := b[i]
		p := v * w
		bp := math.Float64bits(p)
		bv, bw := math.Float64bits(v)<<1, math.Float64bits(w)<<1
		switch {
		case exact && l.ordinary(bp<<1) && bv-1 >= l.operand && bw-1 >= l.operand:
			c[i] = p
			e[i] = l.rounded(bp, bp, p)
			continue
		case exact && p == 0 && (v == 0 || w == 0) && f.NegZero:
			c[i] = p
			continue
		case !exact && !x.special(i) && !y.special(i):
			m, av, aw := math.Abs(p), math.Abs(v), math.Abs(w)
			var ex, ey float64
			if x.E != nil {
				ex = x.E[i]
			}
			if y.E != nil {
				ey = y.E[i]
			}
			d := av*ey + aw*ex + ex*ey
			if d > 0 {
				d = (d + 0.5*f.ulp(m+d) + m*centreError) * roundUp
				if m-d >= f.minNormal && m+d < f.overflow && av-ex >= f.minNormal && aw-ey >= f.minNormal {
					c[i] = p
					e[i] = d
					continue
				}
			}
		}
		r.set(i, n.binary(hlo.OpMultiply, f, x.at(i), y.at(i)))
	}
	r.dropZeros()
}

// divKernel is x / y in bound mode, for types up to f32.
func (n *Numerics) divKernel(f *floatType, r, x, y *Plane) {
	c, a, b := r.C, x.C, y.C
	b, c = b[:len(a)], c[:len(a)]
	l := f.limits()
	ulps := budgetOf(hlo.OpDivide, f).ulps
	exact := x.exactly() && y.exactly()
	for i, v := range a {
		w := b[i]
		q := v / w
		bq, bw := math.Float64bits(q), math.Float64bits(w)
		// Powers of two divide exactly: the scalar form knows.
		if exact && l.ordinary(bq<<1) && math.Float64bits(v)<<1-1 >= l.operand && bw<<1-1 >= l.operand && bw&(1<<52-1) != 0 {
			m := math.Abs(q)
			e := (ulps*f.step*binade(bq) + m*centreError) * roundUp
			if m-e >= f.minNormal && m+e < f.overflow {
				c[i] = q
				if r.E == nil {
					r.E = make([]float64, len(c))
				}
				r.E[i] = e
				continue
			}
		}
		r.set(i, n.binary(hlo.OpDivide, f, x.at(i), y.at(i)))
	}
}

// elementaryKernel is an elementary function of exact operands in bound mode,
// for types up to f32.
func (n *Numerics) elementaryKernel(f *floatType, op hlo.Opcode, r, x *Plane) {
	fn, b := functions[op], budgetOf(op, f)
	c := r.C
	l := f.limits()
	for i, v := range x.C {
		if l.ordinary(math.Float64bits(v)<<1) && v > fn.lo && v < fn.hi {
			y := fn.float(v)
			m := math.Abs(y)
			e := b.extra(y, v)
			if e = (e + b.ulps*f.ulp(m+e) + m*centreError) * roundUp; m-e >= f.minNormal && m+e < f.overflow {
				c[i] = y
				if r.E == nil {
					r.E = make([]float64, len(c))
				}
				r.E[i] = e
				continue
			}
		}
		r.set(i, n.unary(op, f, x.at(i)))
	}
}

// maxKernel is the larger of x and y (sign 1) or the smaller (sign -1) in
// bound mode, for types up to f32.
func (n *Numerics) maxKernel(f *floatType, r, x, y *Plane, sign float64) {
	c, a, b := r.C, x.C, y.C
	b, c = b[:len(a)], c[:len(a)]
	op := hlo.OpMaximum
	if sign < 0 {
		op = hlo.OpMinimum
	}
	l := f.limits()
	exact := x.exactly() && y.exactly()
	for i, v := range a {
		w := b[i]
		bv, bw := math.Float64bits(v)<<1, math.Float64bits(w)<<1
		if exact {
			if l.ordinary(bv) && l.ordinary(bw) {
				if sign > 0 {
					c[i] = max(v, w)
				} else {
					c[i] = min(v, w)
				}
				continue
			}
		} else if (x.K == nil || x.K[i] == 0) && (y.K == nil || y.K[i] == 0) {
			var ex, ey float64
			if x.E != nil {
				ex = x.E[i]
			}
			if y.E != nil {
				ey = y.E[i]
			}
			d := (v - w) * sign
			m := math.Abs(d)
			if m > (ex+ey)*roundUp && m < inf && math.Abs(v)-ex >= f.minNormal && math.Abs(w)-ey >= f.minNormal {
				if d < 0 {
					v, ex = w, ey
				}
				c[i] = v
				if ex != 0 {
					grow(&r.E, len(c))[i] = ex
				}
				continue
			}
		}
		r.set(i, n.binary(op, f, x.at(i), y.at(i)))
	}
}

// intArray is an operation on decided integers.
func intArray(op hlo.Opcode, x, y *Array) *Array {
	t := x.Type
	r := like(t, x)
	r.Contest = unite(x.Contest, y.Contest)
	a, b := x.I, y.I[:len(x.I)]
	r.I = make([]int64, len(a))
	c := r.I[:len(a)]
	logical := op
	if t == hlo.Pred {
		switch op {
		case hlo.OpMultiply, hlo.OpMinimum:
			logical = hlo.OpAnd
		case hlo.OpAdd, hlo.OpMaximum:
			logical = hlo.OpOr
		case hlo.OpSubtract:
			logical = hlo.OpXor
		}
	}
	switch logical {
	case hlo.OpAnd:
		for i, v := range a {
			c[i] = v & b[i]
		}
		return r
	case hlo.OpOr:
		for i, v := range a {
			c[i] = v | b[i]
		}
		return r
	case hlo.OpXor:
		for i, v := range a {
			c[i] = v ^ b[i]
		}
		return r
	}
	if t.IsUnsigned() || t.IsSigned() && t.Bits() <= 32 {
		// The 64-bit result is exact, so that a changed value means overflow;
		// unsigned wrap is not contested.
		s := 64 - t.Bits()
		signed := t.IsSigned()
		wrap := func(i int, v int64) {
			w := int64(uint64(v) << s >> s)
			if signed {
				if w = v << s >> s; w != v {
					r.ownContest(x, y)[i] |= SignedOverflow
				}
			}
			c[i] = w
		}
		switch op {
		case hlo.OpAdd:
			for i, v := range a {
				wrap(i, v+b[i])
			}
			return r
		case hlo.OpSubtract:
			for i, v := range a {
				wrap(i, v-b[i])
			}
			return r
		case hlo.OpMultiply:
			for i, v := range a {
				wrap(i, v*b[i])
			}
			return r
		}
	}
	for i, v := range a {
		w, contest := intOp(op, t, v, b[i])
		c[i] = w
		if contest != 0 {
			r.ownContest(x, y)[i] |= contest
		}
	}
	return r
}

// ownContest is r's contest column, copied first if it is an operand's.
func (a *Array) ownContest(x, y *Array) []Contest {
	n := a.Len()
	if a.Contest == nil {
		a.Contest = make([]Contest, n)
	} else if n > 0 && (x.Contest != nil && &a.Contest[0] == &x.Contest[0] || y.Contest != nil && &a.Contest[0] == &y.Contest[0]) {
		a.Contest = append([]Contest(nil), a.Contest...)
	}
	return a.Contest
}

// CompareArray is Compare over two arrays of the same dimensions. An array
// compared with itself differs only where it may be NaN.
func (n *Numerics) CompareArray(direction string, total bool, x, y *Array) *Array {
	r := like(hlo.Pred, x)
	r.Contest = unite(x.Contest, y.Contest)
	r.I = make([]int64, x.Len())
	c := r.I
	switch {
	case x.I != nil:
		compareInts(direction, x.Type, c, x.I, y.I)
		for i := range undecided(x, y) {
			a, b := x.At(i), y.At(i)
			a.Contest, b.Contest = 0, 0
			v := n.Compare(direction, total, x.Type, a, b)
			if c[i] = v.I; v.Undecided {
				grow(&r.Undecided, len(c))[i] = true
			}
		}
		return r
	case x.Re != nil && x.Im == nil && x.Re == y.Re:
		n.compareSelf(direction, total, r, x.Re)
		return r
	case x.Re != nil && x.Im == nil && !total:
		f := floatTypes[x.Type]
		if !n.Bounds {
			compareFloats(direction, c, x.Re.C, y.Re.C)
			return r
		}
		if x.Re.Lo == nil && y.Re.Lo == nil {
			n.compareKernel(f, direction, r, x.Re, y.Re)
			return r
		}
	}
	for i := range c {
		a, b := x.At(i), y.At(i)
		a.Contest, b.Contest = 0, 0
		v := n.Compare(direction, total, x.Type, a, b)
		c[i] = v.I
		if v.Undecided {
			grow(&r.Undecided, len(c))[i] = true
		}
	}
	return r
}

func compareInts(direction string, t hlo.PrimitiveType, c, a, b []int64) {
	b, c = b[:len(a)], c[:len(a)]
	if t == hlo.U64 {
		for i, v := range a {
			c[i] = bit(intCompare(direction, t, v, b[i]))
		}
		return
	}
	switch direction {
	case "EQ":
		for i, v := range a {
			c[i] = bit(v == b[i])
		}
	case "NE":
		for i, v := range a {
			c[i] = bit(v != b[i])
		}
	case "LT":
		for i, v := range a {
			c[i] = bit(v < b[i])
		}
	case "LE":
		for i, v := range a {
			c[i] = bit(v <= b[i])
		}
	case "GT":
		for i, v := range a {
			c[i] = bit(v > b[i])
		}
	case "GE":
		for i, v := range a {
			c[i] = bit(v >= b[i])
		}
	default:
		panic("eval: no comparison direction " + direction)
	}
}

func compareFloats(direction string, c []int64, a, b []float64) {
	b, c = b[:len(a)], c[:len(a)]
	switch direction {
	case "EQ":
		for i, v := range a {
			c[i] = bit(v == b[i])
		}
	case "NE":
		for i, v := range a {
			c[i] = bit(v != b[i])
		}
	case "LT":
		for i, v := range a {
			c[i] = bit(v < b[i])
		}
	case "LE":
		for i, v := range a {
			c[i] = bit(v <= b[i])
		}
	case "GT":
		for i, v := range a {
			c[i] = bit(v > b[i])
		}
	case "GE":
		for i, v := range a {
			c[i] = bit(v >= b[i])
		}
	default:
		panic("eval: no comparison direction " + direction)
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (n *Numerics) compareKernel(f *floatType, direction string, r *Array, x, y *Plane) {
	c, a, b := r.I, x.C, y.C
	b, c = b[:len(a)], c[:len(a)]
	if x.exactly() && y.exactly() {
		compareFloats(direction, c, a, b)
		if !f.flush {
			return
		}
		subnormal := math.Float64bits(f.minNormal)<<1 - 1
		for i, v := range a {
			if math.Float64bits(v)<<1-1 < subnormal || math.Float64bits(b[i])<<1-1 < subnormal {
				n.compareOne(f, direction, r, i, x, y)
			}
		}
		return
	}
	// Answers for a difference below, at and above zero.
	below, above := bit(floatCompare(direction, -1, 0)), bit(floatCompare(direction, 1, 0))
	for i, v := range a {
		w := b[i]
		var ex, ey float64
		if x.E != nil {
			ex = x.E[i]
		}
		if y.E != nil {
			ey = y.E[i]
		}
		d := v - w
		// Flushing moves an operand by less than the smallest normal value.
		if e := (ex + ey + 2*f.minNormal) * roundUp; !x.special(i) && !y.special(i) {
			if d > e+math.Abs(d)*0x1p-45 && d < inf {
				c[i] = above
				continue
			}
			if -d > e+math.Abs(d)*0x1p-45 && d > -inf {
				c[i] = below
				continue
			}
		}
		n.compareOne(f, direction, r, i, x, y)
	}
}

func (n *Numerics) compareOne(f *floatType, direction string, r *Array, i int, x, y *Plane) {
	yes, no := n.compare(f, direction, false, x.at(i), y.at(i))
	r.I[i] = bit(yes && !no)
	if yes && no {
		grow(&r.Undecided, len(r.I))[i] = true
	}
}

func (n *Numerics) compareSelf(direction string, total bool, r *Array, x *Plane) {
	same := bit(floatCompare(direction, 0, 0))
	for i, v := range x.C {
		k := Num{C: v}.class()
		if x.K != nil {
			k |= x.K[i]
		}
		switch {
		case total || k&MayNaN == 0 && (x.E == nil || x.E[i] < inf):
			r.I[i] = same
		case v != v:
			r.I[i] = bit(direction == "NE")
		default:
			yes := bit(direction == "NE")
			if r.I[i] = same; yes != same {
				r.I[i] = 0
				grow(&r.Undecided, len(r.I))[i] = true
			}
		}
	}
}

// SelectArray is Select over arrays; p has the dimensions of a and b, or is a
// scalar.
func (n *Numerics) SelectArray(p, a, b *Array) *Array {
	if len(p.Dims) == 0 && len(a.Dims) != 0 {
		s := p.At(0)
		if !s.Undecided {
			r := *a
			if s.I == 0 {
				r = *b
			}
			r.Sizes = a.Sizes
			if s.Contest != 0 {
				r.Contest = unite(r.Contest, Fill(s, hlo.Pred, a.Dims...).Contest)
			}
			return &r
		}
		p = Fill(s, hlo.Pred, a.Dims...)
	}
	r := like(a.Type, a)
	if a.I != nil {
		r.I = make([]int64, len(p.I))
		for i, v := range p.I { // without a branch: v is 0 or 1
			r.I[i] = b.I[i] ^ (a.I[i]^b.I[i])&-v
		}
	}
	r.Undecided, r.Width = choose(p.I, a.Undecided, b.Undecided), choose(p.I, a.Width, b.Width)
	r.Contest = unite(choose(p.I, a.Contest, b.Contest), p.Contest)
	r.Re, r.Im = choosePlane(p.I, a.Re, b.Re), choosePlane(p.I, a.Im, b.Im)
	for i := range undecided(p, p) {
		r.replace(i, n.Select(p.At(i), a.Type, a.At(i), b.At(i)), p, p)
	}
	return r
}

// choose is a[i] where p[i] is not zero and b[i] where it is; a nil column
// stands for zeros.
func choose[T any](p []int64, a, b []T) []T {
	if a == nil && b == nil {
		return nil
	}
	r := make([]T, len(p))
	for i, v := range p {
		switch {
		case v != 0 && a != nil:
			r[i] = a[i]
		case v == 0 && b != nil:
			r[i] = b[i]
		}
	}
	return r
}

func choosePlane(p []int64, a, b *Plane) *Plane {
	if a == nil {
		return nil
	}
	return &Plane{C: chooseFloats(p, a.C, b.C), Lo: chooseFloats(p, a.Lo, b.Lo), E: chooseFloats(p, a.E, b.E), K: choose(p, a.K, b.K)}
}

// chooseFloats is choose without a branch: p is 0 or 1.
func chooseFloats(p []int64, a, b []float64) []float64 {
	if a == nil || b == nil {
		return choose(p, a, b)
	}
	r := make([]float64, len(p))
	a, b, r = a[:len(p)], b[:len(p)], r[:len(p)]
	for i, v := range p {
		x, y := math.Float64bits(a[i]), math.Float64bits(b[i])
		r[i] = math.Float64frombits(y ^ (x^y)&uint64(-v))
	}
	return r
}

// spread repeats a scalar to the dimensions of x.
func spread(s, x *Array) *Array {
	if len(s.Dims) == 0 && len(x.Dims) != 0 {
		return Fill(s.At(0), s.Type, x.Dims...)
	}
	return s
}

// ClampArray is Clamp over arrays; lo and hi may be scalars.
func (n *Numerics) ClampArray(lo, x, hi *Array) *Array {
	return n.BinaryArray(hlo.OpMinimum, n.BinaryArray(hlo.OpMaximum, x, spread(lo, x)), spread(hi, x))
}

// ConvertArray is Convert over an array.
func (n *Numerics) ConvertArray(to hlo.PrimitiveType, x *Array) *Array {
	if to == x.Type {
		return x
	}
	from := x.Type
	if x.Undecided == nil && x.I != nil {
		r := like(to, x)
		r.Contest = x.Contest
		switch {
		case to == hlo.F64 || to == hlo.F32:
			r.Re = &Plane{C: make([]float64, len(x.I))}
			if from != hlo.U64 && (to == hlo.F64 || from == hlo.Pred || from.Bits() <= 16) {
				for i, v := range x.I {
					r.Re.C[i] = float64(v)
				}
				return r
			}
			for i, v := range x.I {
				r.Re.C[i] = n.intToFloat(from, floatTypes[to], v).C
			}
			return r
		case to.IsInteger() || to == hlo.Pred:
			r.I = make([]int64, len(x.I))
			for i, v := range x.I {
				r.I[i] = to.Canonical(v)
			}
			return r
		}
	}
	if from.IsFloat() && to.IsFloat() {
		f, g := floatTypes[to], floatTypes[from]
		r := like(to, x)
		r.Contest = x.Contest
		r.Re = &Plane{C: make([]float64, len(x.Re.C))}
		c := r.Re.C
		exact := x.Re.E == nil && x.Re.K == nil && !n.ExcessPrecision
		for i, v := range x.Re.C {
			if exact {
				w := f.Round(v)
				if m := math.Abs(w); !n.Bounds || v == 0 || m >= f.minNormal && m <= f.max && math.Abs(v) >= g.minNormal {
					c[i] = w
					continue
				}
			}
			r.Re.set(i, n.round(f, g, x.Re.at(i)))
		}
		return r
	}
	r := NewArray(to, x.Dims...)
	r.Sizes = x.Sizes
	for i := range r.Len() {
		r.Set(i, n.Convert(from, to, x.At(i)))
	}
	return r
}

// BitcastConvertArray keeps all bits; where the widths differ the minor
// dimension is added or removed as HLO says (low bits first). An element made
// of any uncertain one is undecided.
func (n *Numerics) BitcastConvertArray(to hlo.PrimitiveType, x *Array) *Array {
	from := x.Type
	if from == to {
		return x
	}
	if x.I != nil && to.Bits() == from.Bits() && (to.IsInteger() || to == hlo.Pred) {
		r := like(to, x)
		r.Contest = x.Contest
		r.I = make([]int64, len(x.I))
		for i, v := range x.I {
			r.I[i] = to.Canonical(v)
		}
		for i := range undecided(x, x) {
			r.replace(i, n.bitcastRange(from, to, x.At(i)), x, x)
		}
		return r
	}
	in, out := from.Bits(), to.Bits()
	dims := append([]int64(nil), x.Dims...)
	switch {
	case out < in:
		dims = append(dims, int64(in/out))
	case out > in:
		dims = dims[:len(dims)-1]
	}
	r := NewArray(to, dims...)
	if len(dims) == len(x.Dims) {
		r.Sizes = x.Sizes
	}
	step := max(in, out)
	perIn, perOut := step/in, step/out
	for i := range r.Len() / perOut {
		var b uint64
		var contest Contest
		certain := true
		for j := range perIn {
			e := x.At(i*perIn + j)
			p, ok := n.pattern(from, e)
			b |= p << (j * in)
			certain = certain && ok
			contest |= e.Contest
		}
		for j := range perOut {
			var e Scalar
			switch {
			case certain:
				e = fromPattern(to, b>>(j*out)&(1<<out-1))
				e.Contest = contest
			case in == out:
				e = n.bitcastRange(from, to, x.At(i))
			default:
				e = undecidedOf(to, contest)
			}
			r.Set(i*perOut+j, e)
		}
	}
	return r
}

// ReducePrecisionArray is ReducePrecision over an array.
func (n *Numerics) ReducePrecisionArray(e, m int, x *Array) *Array {
	r := like(x.Type, x)
	r.Contest = x.Contest
	r.Re = &Plane{C: make([]float64, len(x.Re.C))}
	for i := range r.Re.C {
		r.Re.set(i, n.reducePrecision(floatTypes[x.Type], e, m, x.Re.at(i)))
	}
	return r
}

// StochasticConvertArray is StochasticConvert over arrays.
func (n *Numerics) StochasticConvertArray(to hlo.PrimitiveType, x, random *Array) *Array {
	r := NewArray(to, x.Dims...)
	r.Sizes = x.Sizes
	for i := range r.Len() {
		r.Set(i, n.StochasticConvert(x.Type, to, x.At(i), random.At(i)))
	}
	return r
}
