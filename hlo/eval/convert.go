package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// Convert changes the element type, rounding to nearest even. Float to integer
// truncates and saturates, NaN gives 0 (contested: OutOfRangeConvert); anything
// to pred is "not zero". Source: HloEvaluator's ConvertLiteral and
// ElementalIrEmitter::EmitFloatUnaryOp.
func (n *Numerics) Convert(from, to hlo.PrimitiveType, x Scalar) Scalar {
	r := Scalar{Contest: x.Contest}
	if from == to {
		return x
	}
	switch {
	case from.IsComplex() && to.IsComplex():
		f, g := realType(to), realType(from)
		r.Re, r.Im = n.round(f, g, x.Re), n.round(f, g, x.Im)
	case to.IsComplex():
		r.Re = n.Convert(from, to.Real(), x).Re
	case from.IsComplex():
		return n.Convert(from.Real(), to, Scalar{Re: x.Re, Contest: x.Contest})
	case from.IsFloat() && to.IsFloat():
		r.Re = n.round(floatTypes[to], floatTypes[from], x.Re)
	case from.IsFloat():
		v, undecided, contest := n.floatToInt(floatTypes[from], to, x.Re)
		r.I, r.Undecided, r.Contest = v, undecided, r.Contest|contest
		if undecided {
			return rangeOfFloat(to, x.Re, r.Contest)
		}
	case to.IsFloat():
		if x.Undecided {
			r.Re = n.floatOfRange(from, floatTypes[to], x)
		} else {
			r.Re = n.intToFloat(from, floatTypes[to], x.I)
		}
	default:
		if x.Undecided {
			return rangeConvert(from, to, x)
		}
		r.I = to.Canonical(x.I)
	}
	return r
}

// intToFloat rounds an integer; in bound mode to types below f32 also through
// f32, as XLA does (EmitIntegralToFloating), which rounds twice.
func (n *Numerics) intToFloat(from hlo.PrimitiveType, f *floatType, v int64) Num {
	c := float64(v)
	if from == hlo.U64 {
		c = float64(uint64(v))
	}
	if f.wide {
		return Num{C: c}
	}
	single := float64(float32(v))
	if from == hlo.U64 {
		single = float64(float32(uint64(v)))
	}
	if f.MantissaBits == 23 {
		return Num{C: single}
	}
	once := f.Round(oddRounded(from, v, c))
	if !n.Bounds {
		return Num{C: once}
	}
	return hull(n.roundPoint(f, once), n.roundPoint(f, f.Round(single)))
}

// oddRounded is v rounded to float64 such that rounding again to a narrower
// type gives the correctly rounded result (round to odd: Boldo and Melquiond
// 2008). c is v rounded to nearest.
func oddRounded(from hlo.PrimitiveType, v int64, c float64) float64 {
	if math.Abs(c) <= 1<<53 || math.Float64bits(c)&1 == 1 {
		return c
	}
	if from == hlo.U64 {
		u := uint64(v)
		switch {
		case c >= 1<<64 || uint64(c) > u:
			return math.Nextafter(c, 0)
		case uint64(c) < u:
			return math.Nextafter(c, inf)
		}
		return c
	}
	switch {
	case c >= 1<<63 || int64(c) > v:
		return math.Nextafter(c, -inf)
	case int64(c) < v:
		return math.Nextafter(c, inf)
	}
	return c
}

// roundPoint is the Num of a value that a conversion gave, special or not,
// with flushing.
func (n *Numerics) roundPoint(f *floatType, c float64) Num {
	switch {
	case c != c:
		return special(MayNaN)
	case !n.Bounds || !f.flush || c == 0 || math.Abs(c) >= f.minNormal:
		return Num{C: c}
	}
	return Num{C: c, E: math.Abs(c)}
}

// round converts x from type g to f.
func (n *Numerics) round(f, g *floatType, x Num) Num {
	if !n.Bounds {
		return Num{C: f.Round(x.C)}
	}
	switch {
	case !(x.E < inf):
		return anyNum
	case x.C != x.C:
		if !f.HasNaN {
			return Num{C: f.Round(x.C)}
		}
		return Num{C: x.C, K: x.K}
	}
	var r Num
	switch {
	case !finite(x.C):
		r = n.roundPoint(f, f.Round(x.C))
	case x.E == 0:
		r = n.roundPoint(f, f.Round(x.C))
		if s := g.slack(x); s > 0 && r.C != 0 { // the operand is flushed
			r.E = math.Max(r.E, math.Abs(r.C))
		}
		if n.ExcessPrecision && f.MantissaBits < g.MantissaBits && x.C != r.C {
			r = hull(Num{C: x.C}, r)
		}
		r.K |= x.K & AnyZeroSign
	default:
		r = n.roundSet(f, g, x)
	}
	// Specials of x, converted.
	for _, p := range [...]struct {
		k Class
		v float64
	}{{MayNaN, nan}, {MayPosInf, inf}, {MayNegInf, -inf}} {
		if x.K&p.k != 0 {
			r = hull(r, n.roundPoint(f, f.Round(p.v)))
		}
	}
	return r
}

// roundSet rounds the interval of x: rounding is monotone, so its end points do.
func (n *Numerics) roundSet(f, g *floatType, x Num) Num {
	e := x.E + g.slack(x)
	if f.MantissaBits >= g.MantissaBits && f.max >= g.max && f.minSub <= g.minSub {
		lo := x.Lo
		if !f.wide {
			lo = 0
		}
		return Num{x.C, lo, e, x.K & AnyZeroSign}
	}
	c := dd{x.C, x.Lo}
	l, h := outward(c.addF(-e).hi, -1), outward(c.addF(e).hi, 1)
	var k Class
	point := func(v float64) float64 {
		r := f.Round(v)
		switch {
		case r != r:
			k |= MayNaN
		case r > f.max:
			k |= MayPosInf
		case r < -f.max:
			k |= MayNegInf
		default:
			return r
		}
		return math.Max(-f.max, math.Min(f.max, v))
	}
	m := point(x.C)
	out := k
	rl, rh := point(l), point(h)
	if out != 0 && (l >= f.overflow || h <= -f.overflow) {
		if n.ExcessPrecision {
			return hull(Num{x.C, 0, (e + math.Abs(x.Lo)) * roundUp, k}, special(k))
		}
		return special(k)
	}
	r := Num{C: m, E: math.Max(rh-m, m-rl), K: k}
	if n.ExcessPrecision {
		r = hull(Num{x.C, 0, (e + math.Abs(x.Lo)) * roundUp, k}, r)
	}
	if a := math.Abs(r.C); f.flush && r.E < a && a-r.E < f.minNormal {
		r.E = a
	}
	if rl <= 0 && rh >= 0 {
		r.K |= AnyZeroSign
	}
	return r
}

// floatToInt truncates and saturates.
func (n *Numerics) floatToInt(f *floatType, t hlo.PrimitiveType, x Num) (v int64, undecided bool, contest Contest) {
	if t == hlo.Pred {
		if n.Bounds {
			switch {
			case !(x.E < inf):
				return 0, true, 0
			case finite(x.C) && !x.zero() && f.mayZero(x), x.zero() && x.K&specials != 0:
				return 0, true, 0
			}
		}
		if x.C != 0 {
			v = 1
		}
		return v, false, 0
	}
	if !(x.E < inf) {
		return 0, true, OutOfRangeConvert
	}
	v, contest = truncate(t, x.C)
	k := x.K & specials
	if x.E == 0 && k == 0 {
		return v, false, contest
	}
	if finite(x.C) {
		c := dd{x.C, x.Lo}
		for _, end := range [2]float64{outward(c.addF(-x.E).hi, -1), outward(c.addF(x.E).hi, 1)} {
			w, o := truncate(t, end)
			contest |= o
			undecided = undecided || w != v
		}
	}
	for _, p := range [...]struct {
		k Class
		v float64
	}{{MayNaN, nan}, {MayPosInf, inf}, {MayNegInf, -inf}} {
		if k&p.k != 0 {
			w, o := truncate(t, p.v)
			contest |= o
			undecided = undecided || w != v
		}
	}
	if undecided {
		v = 0
	}
	return v, undecided, contest
}

func truncate(t hlo.PrimitiveType, x float64) (int64, Contest) {
	if x != x {
		return 0, OutOfRangeConvert
	}
	x = math.Trunc(x)
	top := math.Ldexp(1, t.Bits()) // one above the range
	bottom := 0.0
	if t.IsSigned() {
		top /= 2
		bottom = -top
	}
	switch {
	case x >= top:
		return maxInt(t), OutOfRangeConvert
	case x < bottom:
		return minInt(t), OutOfRangeConvert
	case t == hlo.U64:
		return int64(uint64(x)), 0
	}
	return int64(x), 0
}

// pattern is the bit pattern of an element of a real type, and whether it is
// certain.
func (n *Numerics) pattern(t hlo.PrimitiveType, x Scalar) (uint64, bool) {
	if !t.IsFloat() {
		return mask(t, x.I), !x.Undecided
	}
	f := floatTypes[t]
	if x.Re.E != 0 || x.Re.K&specials != 0 || x.Re.C == 0 && x.Re.K&AnyZeroSign != 0 && f.NegZero {
		if n.Bounds {
			return 0, false
		}
	}
	return f.Bits(x.Re.C), true
}

func fromPattern(t hlo.PrimitiveType, b uint64) Scalar {
	if t.IsFloat() {
		return Scalar{Re: Num{C: floatTypes[t].FromBits(b)}}
	}
	return Scalar{I: t.Canonical(int64(b))}
}

// BitcastConvert keeps the bits of a value and changes its type to one of the
// same width. An uncertain float gives an undecided result.
func (n *Numerics) BitcastConvert(from, to hlo.PrimitiveType, x Scalar) Scalar {
	if from == to {
		return x
	}
	b, certain := n.pattern(from, x)
	if !certain {
		return n.bitcastRange(from, to, x)
	}
	r := fromPattern(to, b)
	r.Contest = x.Contest
	return r
}

// undecidedOf is the undecided element of a type.
func undecidedOf(t hlo.PrimitiveType, contest Contest) Scalar {
	switch {
	case t.IsComplex():
		return Scalar{Re: anyNum, Im: anyNum, Contest: contest}
	case t.IsFloat():
		return Scalar{Re: anyNum, Contest: contest}
	}
	return Scalar{Undecided: true, Contest: contest}
}

// ReducePrecision rounds to a float format of e exponent and m mantissa bits
// and stays in type t: overflow gives infinity, subnormals of the target zero,
// NaN stays (with no mantissa bits it may become +infinity). Source:
// HloEvaluator's HandleReducePrecision, which for f16 and bf16 works in f32:
// both readings are legal.
func (n *Numerics) ReducePrecision(t hlo.PrimitiveType, e, m int, x Scalar) Scalar {
	r := x
	r.Re = n.reducePrecision(floatTypes[t], e, m, x.Re)
	return r
}

func (n *Numerics) reducePrecision(f *floatType, e, m int, x Num) Num {
	own, wider := f, f
	switch {
	case f.MantissaBits >= 23:
	case f.MantissaBits >= 7:
		wider = floatTypes[hlo.F32]
	default: // narrower types are computed in f16 or f32
		own, wider = floatTypes[hlo.F16], floatTypes[hlo.F32]
	}
	if !n.Bounds {
		return Num{C: f.Round(reducedValue(own, e, m, x.C))}
	}
	if !(x.E < inf) {
		return anyNum
	}
	if x.C != x.C {
		if m == 0 {
			return special(MayNaN | MayPosInf)
		}
		return x
	}
	at := func(v float64) Num {
		return hull(n.reducedPoint(f, own, e, m, v), n.reducedPoint(f, wider, e, m, v))
	}
	r := at(x.C)
	if x.E > 0 {
		c := dd{x.C, x.Lo}
		lo, hi := at(outward(c.addF(-x.E).hi, -1)), at(outward(c.addF(x.E).hi, 1))
		if finite(r.C) && (lo.class()|hi.class())&specials != 0 {
			return anyNum // what lies between is finite, too
		}
		r = hull(hull(r, lo), hi)
	}
	r.K |= x.K
	if m == 0 && r.K&MayNaN != 0 {
		r.K |= MayPosInf
	}
	return r
}

// reducedPoint is reduce-precision of a value in format g, rounded to f.
func (n *Numerics) reducedPoint(f, g *floatType, e, m int, x float64) Num {
	v := f.Round(reducedValue(g, e, m, x))
	if v != v {
		return special(MayNaN)
	}
	return Num{C: v}
}

// reducedValue is reduce-precision on a value of format f.
func reducedValue(f *floatType, e, m int, x float64) float64 {
	if x != x {
		if m == 0 {
			return inf
		}
		return x
	}
	b := f.Bits(x)
	srcM, srcE := f.MantissaBits, f.ExponentBits
	if m < srcM {
		drop := uint(srcM - m)
		b += 1<<(drop-1) - 1 + b>>drop&1
		b &^= 1<<drop - 1
	}
	if e < srcE {
		sign := b & (1 << (srcM + srcE))
		exponent := int(b >> srcM & (1<<srcE - 1))
		bias := 1<<(srcE-1) - 1
		reduced := 1<<(e-1) - 1
		switch {
		case exponent > bias+reduced:
			b = sign | (1<<srcE-1)<<srcM
		case exponent <= bias-reduced:
			b = sign
		}
	}
	return f.FromBits(b)
}

// StochasticConvert converts a float to a signed integer, rounding up with the
// probability of its fraction: where random, as a fraction of its type's
// range, lies below it (HloEvaluator's StochasticConvertOp). Other targets are
// undecided.
func (n *Numerics) StochasticConvert(from, to hlo.PrimitiveType, x, random Scalar) Scalar {
	contest := x.Contest | random.Contest
	if !to.IsSigned() || !from.IsFloat() || x.Re.E != 0 || x.Re.K&specials != 0 || random.Undecided {
		return undecidedOf(to, contest|Implementation)
	}
	v := x.Re.C
	if v != v {
		return Scalar{Contest: contest | OutOfRangeConvert}
	}
	t, o := truncate(to, v)
	if o != 0 || !finite(v) {
		return Scalar{I: t, Contest: contest | OutOfRangeConvert}
	}
	a := math.Abs(v)
	whole := math.Trunc(a)
	i := int64(whole)
	if frac := a - whole; frac != 0 {
		fixed := uint64(math.Ldexp(frac, from.Bits()))
		if mask(hlo.U64, random.I)<<(64-from.Bits())>>(64-from.Bits()) < fixed {
			i++
		}
	}
	if v < 0 {
		i = -i
	}
	return Scalar{I: to.Canonical(i), Contest: contest}
}
