package hlo

import "math"

// FloatFormat describes a binary floating-point type of HLO.
// Sources: IEEE 754 (f16, f32, f64), xla_data.proto's comments on the 8-bit
// and narrower types, the OCP 8-bit and MX specifications, and ml_dtypes.
type FloatFormat struct {
	ExponentBits, MantissaBits int
	Bias                       int
	Signed                     bool // false only for f8e8m0fnu
	HasInf                     bool
	HasNaN                     bool
	NegZero                    bool // -0 is a value (false for fnuz types, whose -0 pattern is NaN)
	IEEE                       bool // all-ones exponent is reserved for inf and NaN
	Saturates                  bool // conversion overflow gives the largest finite value (types with neither inf nor NaN)
}

var formats = map[PrimitiveType]*FloatFormat{
	F64:           {11, 52, 1023, true, true, true, true, true, false},
	F32:           {8, 23, 127, true, true, true, true, true, false},
	BF16:          {8, 7, 127, true, true, true, true, true, false},
	F16:           {5, 10, 15, true, true, true, true, true, false},
	F8E5M2:        {5, 2, 15, true, true, true, true, true, false},
	F8E4M3:        {4, 3, 7, true, true, true, true, true, false},
	F8E3M4:        {3, 4, 3, true, true, true, true, true, false},
	F8E4M3FN:      {4, 3, 7, true, false, true, true, false, false},
	F8E4M3B11FNUZ: {4, 3, 11, true, false, true, false, false, false},
	F8E4M3FNUZ:    {4, 3, 8, true, false, true, false, false, false},
	F8E5M2FNUZ:    {5, 2, 16, true, false, true, false, false, false},
	F8E8M0FNU:     {8, 0, 127, false, false, true, false, false, false},
	F4E2M1FN:      {2, 1, 1, true, false, false, true, false, true},
	F6E3M2FN:      {3, 2, 3, true, false, false, true, false, true},
	F6E2M3FN:      {2, 3, 1, true, false, false, true, false, true},
}

// Format returns the format of a real floating-point type, nil for others.
func (t PrimitiveType) Format() *FloatFormat { return formats[t] }

// maxExp is the unbiased exponent of the largest finite value.
func (f *FloatFormat) maxExp() int {
	if f.IEEE {
		return 1<<f.ExponentBits - 2 - f.Bias
	}
	if !f.Signed { // e8m0: 0xff is NaN
		return 254 - f.Bias
	}
	return 1<<f.ExponentBits - 1 - f.Bias
}

// Max is the largest finite value.
func (f *FloatFormat) Max() float64 {
	frac := 2 - math.Ldexp(1, -f.MantissaBits)
	if !f.IEEE && f.HasNaN && f.NegZero { // fn: the all-ones pattern is NaN
		frac = 2 - math.Ldexp(1, 1-f.MantissaBits)
	}
	return math.Ldexp(frac, f.maxExp())
}

// MinNormal is the smallest positive normal value.
func (f *FloatFormat) MinNormal() float64 {
	if !f.Signed {
		return math.Ldexp(1, -f.Bias)
	}
	return math.Ldexp(1, 1-f.Bias)
}

// MinSubnormal is the smallest positive value.
func (f *FloatFormat) MinSubnormal() float64 {
	return math.Ldexp(f.MinNormal(), -f.MantissaBits)
}

// Round rounds x to the nearest value of the format, ties to even, with the
// format's overflow rule: infinity where the format has one, else NaN, else
// (f4, f6) the largest finite value. The result is exact in float64.
// NaN gives NaN where the format has one; in f4 and f6 it gives -0
// (ml_dtypes' conversion; no HLO rule exists).
func (f *FloatFormat) Round(x float64) float64 {
	switch f.MantissaBits {
	case 52:
		return x
	case 23:
		return float64(float32(x))
	case 0:
		return f.roundE8M0(x)
	}
	// The common case: normal before and after rounding. Adding half an ULP
	// less one bit, plus the last bit kept, rounds the pattern to nearest even.
	b := math.Float64bits(x)
	if e := int(b>>52&0x7ff) - 1023; e >= 1-f.Bias && e < f.maxExp() {
		drop := 52 - uint(f.MantissaBits)
		b += 1<<(drop-1) - 1 + b>>drop&1
		return math.Float64frombits(b &^ (1<<drop - 1))
	}
	return f.roundSlow(x)
}

// roundSlow is Round for any x and the formats with a sign below f32.
func (f *FloatFormat) roundSlow(x float64) float64 {
	if x != x {
		if !f.HasNaN {
			return math.Copysign(0, -1)
		}
		return x
	}
	a := math.Abs(x)
	if a == 0 {
		if !f.NegZero {
			return 0
		}
		return x
	}
	r := a
	if a <= math.MaxFloat64 {
		_, e := math.Frexp(a) // a in [2^(e-1), 2^e)
		q := e - 1 - f.MantissaBits
		if lo := 1 - f.Bias - f.MantissaBits; q < lo {
			q = lo
		}
		r = math.Ldexp(math.RoundToEven(math.Ldexp(a, -q)), q)
	}
	if r > f.Max() {
		switch {
		case f.HasInf:
			r = math.Inf(1)
		case f.HasNaN:
			return math.NaN()
		default:
			r = f.Max()
		}
	}
	if r == 0 && !f.NegZero {
		return 0
	}
	return math.Copysign(r, x)
}

// roundE8M0 rounds to the nearest power of two, halfway cases up; what is not
// positive or rounds beyond 2^127 is NaN, and between 2^-127 and 2^-126 the
// upper one is taken (EmitF32ToF8e8m0fnu in xla/service/elemental_ir_emitter.cc).
func (f *FloatFormat) roundE8M0(x float64) float64 {
	if !(x > 0) || x > math.MaxFloat64 {
		return math.NaN()
	}
	frac, e := math.Frexp(x) // frac in [0.5, 1)
	e--
	if frac >= 0.75 || e == -f.Bias && frac > 0.5 {
		e++
	}
	if e < -f.Bias {
		e = -f.Bias
	}
	if e > f.maxExp() {
		return math.NaN()
	}
	return math.Ldexp(1, e)
}

// Ulp is the distance between neighbouring values of the format around |x|
// (one unit in the last place of x's binade, at least the smallest
// subnormal); for infinities and NaN it is that of the largest value.
func (f *FloatFormat) Ulp(x float64) float64 {
	a := math.Abs(x)
	if !(a <= f.Max()) {
		a = f.Max()
	}
	_, e := math.Frexp(a)
	q := e - 1 - f.MantissaBits
	lo := 1 - f.Bias - f.MantissaBits
	if !f.Signed {
		lo = -f.Bias
	}
	if q < lo || a == 0 {
		q = lo
	}
	return math.Ldexp(1, q)
}

// Bits encodes x, which is rounded first, as the format's bit pattern. A NaN
// keeps its sign, and the high bits of its payload, as far as the format has
// them.
func (f *FloatFormat) Bits(x float64) uint64 {
	switch f.MantissaBits {
	case 52:
		return math.Float64bits(x)
	case 23:
		if x == x {
			return uint64(math.Float32bits(float32(x)))
		}
	}
	r := f.Round(x)
	if x == x {
		x = r
	} else if r == r { // no NaN in the format
		x = r
	}
	signBit := uint64(1) << (f.ExponentBits + f.MantissaBits)
	var sign uint64
	if f.Signed && math.Signbit(x) {
		sign = signBit
	}
	expOnes := uint64(1<<f.ExponentBits-1) << f.MantissaBits
	if x != x {
		switch {
		case f.IEEE:
			m := math.Float64bits(x) >> (52 - f.MantissaBits) & (1<<f.MantissaBits - 1)
			if m == 0 { // the payload does not fit: quiet
				m = 1 << (f.MantissaBits - 1)
			}
			return sign | expOnes | m
		case f.NegZero: // fn
			return sign | expOnes | (1<<f.MantissaBits - 1)
		case !f.Signed:
			return 0xff
		default: // fnuz
			return signBit
		}
	}
	a := math.Abs(x)
	if math.IsInf(a, 0) {
		return sign | expOnes
	}
	if !f.Signed {
		_, e := math.Frexp(a)
		return uint64(e - 1 + f.Bias)
	}
	if a < f.MinNormal() {
		return sign | uint64(a/f.MinSubnormal())
	}
	frac, e := math.Frexp(a)
	m := uint64(math.Ldexp(frac*2-1, f.MantissaBits))
	return sign | uint64(e-1+f.Bias)<<f.MantissaBits | m
}

// FromBits decodes a bit pattern. A NaN keeps its sign and payload, in the
// high bits of the float64's, so that Bits gives the pattern back.
func (f *FloatFormat) FromBits(b uint64) float64 {
	switch f.MantissaBits {
	case 52:
		return math.Float64frombits(b)
	case 23:
		if v := math.Float32frombits(uint32(b)); v == v {
			return float64(v)
		}
	}
	m := b & (1<<f.MantissaBits - 1)
	e := int(b >> f.MantissaBits & (1<<f.ExponentBits - 1))
	neg := f.Signed && b>>(f.ExponentBits+f.MantissaBits)&1 == 1
	ones := 1<<f.ExponentBits - 1
	var v float64
	switch {
	case !f.Signed:
		if e == 0xff {
			return math.NaN()
		}
		return math.Ldexp(1, e-f.Bias)
	case f.IEEE && e == ones && m == 0:
		v = math.Inf(1)
	case f.IEEE && e == ones:
		v = math.Float64frombits(0x7ff<<52 | m<<(52-f.MantissaBits))
	case f.HasNaN && !f.IEEE && f.NegZero && e == ones && m == 1<<f.MantissaBits-1:
		v = math.NaN()
	case f.HasNaN && !f.NegZero && neg && e == 0 && m == 0:
		return math.NaN()
	case e == 0:
		v = math.Ldexp(float64(m), 1-f.Bias-f.MantissaBits)
	default:
		v = math.Ldexp(float64(m|1<<f.MantissaBits), e-f.Bias-f.MantissaBits)
	}
	if neg {
		return math.Copysign(v, -1)
	}
	return v
}
