package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// floatType holds the numbers of a float type that single operations need.
type floatType struct {
	*hlo.FloatFormat
	t         hlo.PrimitiveType
	wide      bool    // f64: centres are double-double
	eps       float64 // distance of 1 and the next value: 2^(1-p)
	max       float64 // largest finite value
	overflow  float64 // smallest magnitude that rounds beyond max
	minNormal float64
	minSub    float64
	step      float64 // ulp(1), see ulp
	// flush: hardware may treat subnormal operands and results as zero.
	// f32, f64, bf16 on x86 with FTZ and DAZ, which XLA's CPU runtime sets;
	// f16 and narrower types are computed in f32, where their subnormals are
	// normal (xla/tests/exhaustive/exhaustive_binary_test_functions.cc).
	flush bool
}

var floatTypes = func() (table [hlo.F6E2M3FN + 1]*floatType) {
	for t := range table {
		f := hlo.PrimitiveType(t).Format()
		if f == nil {
			continue
		}
		ft := &floatType{
			FloatFormat: f, t: hlo.PrimitiveType(t), wide: t == int(hlo.F64), eps: math.Ldexp(1, -f.MantissaBits),
			max: f.Max(), minNormal: f.MinNormal(), minSub: f.MinSubnormal(),
			flush: t == int(hlo.F64) || t == int(hlo.F32) || t == int(hlo.BF16),
		}
		ft.step = ft.eps
		if f.MantissaBits < 7 {
			ft.step *= 1 + 0x1p-4
		}
		// Half an ULP above max; f64's is out of range, and there the largest
		// float64 itself must not overflow.
		if ft.overflow = ft.max + ft.Ulp(ft.max)/2; t == int(hlo.F64) {
			ft.overflow = math.Inf(1)
		}
		table[t] = ft
	}
	return table
}()

// realType is the float type of t, or of the parts of a complex t.
func realType(t hlo.PrimitiveType) *floatType { return floatTypes[t.Real()] }

// ulp is one unit in the last place of the binade of a, for finite a >= 0. For
// types narrower than f16 and bf16 it is a sixteenth more: implementations
// compute in one of those two and round once more (XLA's float normalization).
func (f *floatType) ulp(a float64) float64 {
	u := math.Float64frombits(math.Float64bits(a)&^(1<<52-1)) * f.step
	if u < f.minSub {
		return f.minSub * (f.step / f.eps)
	}
	return u
}

// slack is how far flushing a subnormal operand x to zero may move it.
func (f *floatType) slack(x Num) float64 {
	a := math.Abs(x.C)
	if !f.flush || a-x.E >= f.minNormal || a+x.E == 0 {
		return 0
	}
	return math.Min(a+x.E, f.minNormal)
}
