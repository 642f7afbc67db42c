package eval

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/hlo"
)

// near reports whether two Nums describe the same set up to the rounding of E.
func near(x, y Num) bool {
	same := func(a, b float64) bool {
		return a == b && math.Signbit(a) == math.Signbit(b) || a != a && b != b
	}
	return same(x.C, y.C) && x.Lo == y.Lo && x.K&^overflowedProduct == y.K&^overflowedProduct &&
		(x.E == y.E || math.Abs(x.E-y.E) <= 1e-9*x.E)
}

// drawNum draws a Num as earlier operations may leave it.
func drawNum(t *rapid.T, f *floatType, name string) Num {
	x := Num{C: drawFloat(t, f, name)}
	if !finite(x.C) {
		if x.C != x.C || rapid.Bool().Draw(t, name+" more") {
			x.K = MayNaN
		}
		return x
	}
	switch rapid.IntRange(0, 4).Draw(t, name+" bound") {
	case 0:
		x.E = math.Abs(x.C)*1e-6 + f.minSub
		x.C *= 1 + 1e-9
	case 1:
		x.K = rapid.SampledFrom([]Class{AnyZeroSign, MayNaN, MayPosInf, MayNegInf, MayNaN | MayPosInf}).Draw(t, name+" class")
	case 2:
		if rapid.IntRange(0, 5).Draw(t, name+" any") == 0 {
			x = anyNum
		}
	}
	return x
}

// The kernels of whole columns give what the scalar operations give.
func TestColumnsAreScalars(t *testing.T) {
	types := []hlo.PrimitiveType{hlo.F32, hlo.BF16, hlo.F16, hlo.F64, hlo.F8E4M3FN, hlo.F8E4M3FNUZ, hlo.F8E5M2}
	binary := []hlo.Opcode{hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpDivide, hlo.OpMaximum, hlo.OpMinimum, hlo.OpRemainder}
	unary := []hlo.Opcode{hlo.OpNegate, hlo.OpAbs, hlo.OpSign, hlo.OpFloor, hlo.OpExponential, hlo.OpSqrt, hlo.OpTanh}
	for _, bounds := range []bool{false, true} {
		t.Run(fmt.Sprint("bounds=", bounds), rapid.MakeCheck(func(t *rapid.T) {
			n := &Numerics{Bounds: bounds}
			pt := rapid.SampledFrom(types).Draw(t, "type")
			f := floatTypes[pt]
			exact := !bounds || rapid.Bool().Draw(t, "exact operands")
			const size = 4
			x, y, p := NewArray(pt, size), NewArray(pt, size), NewArray(hlo.Pred, size)
			for i := range size {
				a, b := drawNum(t, f, fmt.Sprint("x", i)), drawNum(t, f, fmt.Sprint("y", i))
				if exact {
					a, b = Num{C: f.Round(a.C)}, Num{C: f.Round(b.C)}
				}
				x.Re.set(i, a)
				y.Re.set(i, b)
				p.I[i] = int64(rapid.IntRange(0, 1).Draw(t, fmt.Sprint("p", i)))
			}
			check := func(what string, got *Array, want func(i int) Scalar) {
				t.Helper()
				for i := range size {
					g, w := got.At(i), want(i)
					if g.I != w.I || g.Undecided != w.Undecided || !near(g.Re, w.Re) || g.Contest != w.Contest {
						t.Fatalf("%s of %v and %v: column %+v, scalar %+v", what, x.LegalSet(i), y.LegalSet(i), g, w)
					}
				}
			}
			for _, op := range binary {
				check(op.String(), n.BinaryArray(op, x, y), func(i int) Scalar { return n.Binary(op, pt, x.At(i), y.At(i)) })
			}
			for _, op := range unary {
				check(op.String(), n.UnaryArray(op, x), func(i int) Scalar { return n.Unary(op, pt, x.At(i)) })
			}
			for _, d := range []string{"EQ", "NE", "LT", "LE", "GT", "GE"} {
				for _, total := range []bool{false, true} {
					check(d, n.CompareArray(d, total, x, y), func(i int) Scalar { return n.Compare(d, total, pt, x.At(i), y.At(i)) })
				}
			}
			check("select", n.SelectArray(p, x, y), func(i int) Scalar { return n.Select(p.At(i), pt, x.At(i), y.At(i)) })
			for _, to := range append(types, hlo.S32, hlo.U8, hlo.Pred) {
				check("convert", n.ConvertArray(to, x), func(i int) Scalar { return n.Convert(pt, to, x.At(i)) })
			}
			check("clamp", n.ClampArray(x, y, x), func(i int) Scalar { return n.Clamp(pt, x.At(i), y.At(i), x.At(i)) })
			check("is-finite", n.UnaryArray(hlo.OpIsFinite, x), func(i int) Scalar { return n.Unary(hlo.OpIsFinite, pt, x.At(i)) })
			check("reduce-precision", n.ReducePrecisionArray(4, 2, x), func(i int) Scalar { return n.ReducePrecision(pt, 4, 2, x.At(i)) })
		}))
	}
}

// bigOp is the integer operation on mathematical integers, reduced to the
// type; ok is false where HLO has a rule of its own.
func bigOp(op hlo.Opcode, pt hlo.PrimitiveType, x, y int64) (r int64, overflow, ok bool) {
	of := func(v int64) *big.Int {
		if pt.IsUnsigned() {
			return new(big.Int).SetUint64(uint64(v))
		}
		return big.NewInt(v)
	}
	a, b, z := of(x), of(y), new(big.Int)
	switch op {
	case hlo.OpAdd:
		z.Add(a, b)
	case hlo.OpSubtract:
		z.Sub(a, b)
	case hlo.OpMultiply:
		z.Mul(a, b)
	case hlo.OpMulhi:
		z.Rsh(z.Mul(a, b), uint(pt.Bits()))
	case hlo.OpDivide, hlo.OpRemainder:
		if y == 0 || pt.IsSigned() && y == -1 && x == minInt(pt) {
			return 0, false, false
		}
		if op == hlo.OpDivide {
			z.Quo(a, b)
		} else {
			z.Rem(a, b)
		}
	case hlo.OpPower:
		if pt.IsSigned() && y < 0 {
			return 0, false, false
		}
		z.Exp(a, b, nil)
	case hlo.OpMaximum, hlo.OpMinimum:
		z.Set(a)
		if (a.Cmp(b) < 0) == (op == hlo.OpMaximum) {
			z.Set(b)
		}
	}
	low := new(big.Int).And(z, new(big.Int).SetUint64(math.MaxUint64))
	r = pt.Canonical(int64(low.Uint64()))
	return r, z.Cmp(of(r)) != 0, true
}

// Integer arithmetic agrees with mathematical integers: all pairs of the
// types up to 4 bits, the edges and random values of the others.
func TestIntegerArithmetic(t *testing.T) {
	ops := []hlo.Opcode{hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpDivide, hlo.OpRemainder, hlo.OpMaximum, hlo.OpMinimum, hlo.OpPower, hlo.OpMulhi}
	for _, pt := range []hlo.PrimitiveType{hlo.S1, hlo.S2, hlo.S4, hlo.S8, hlo.S16, hlo.S32, hlo.S64, hlo.U1, hlo.U2, hlo.U4, hlo.U8, hlo.U16, hlo.U32, hlo.U64} {
		var values []int64
		if pt.Bits() <= 4 {
			for v := int64(0); v < 1<<pt.Bits(); v++ {
				values = append(values, pt.Canonical(v))
			}
		} else {
			for _, v := range []int64{0, 1, 2, 3, 7, -1, -2, minInt(pt), minInt(pt) + 1, maxInt(pt), maxInt(pt) - 1, maxInt(pt) / 2, 0x1234567890abcdef, -0x1234567890abcdef} {
				values = append(values, pt.Canonical(v))
			}
		}
		n := &Numerics{Bounds: true}
		for _, x := range values {
			for _, y := range values {
				for _, op := range ops {
					if op == hlo.OpPower && (y < 0 && pt.IsUnsigned() || y > 300) {
						continue // too big for the model
					}
					want, overflow, ok := bigOp(op, pt, x, y)
					if !ok {
						continue
					}
					got := n.Binary(op, pt, Scalar{I: x}, Scalar{I: y})
					if got.I != want || got.Undecided {
						t.Errorf("%v %v(%d, %d) = %+v, want %d", pt, op, x, y, got, want)
					}
					contested := overflow && pt.IsSigned() && op != hlo.OpMulhi
					if (got.Contest&SignedOverflow != 0) != contested {
						t.Errorf("%v %v(%d, %d): contest %v, overflow %v", pt, op, x, y, got.Contest, overflow)
					}
					a, b := NewArray(pt, 1), NewArray(pt, 1)
					a.I[0], b.I[0] = x, y
					if col := n.BinaryArray(op, a, b).At(0); col != got {
						t.Errorf("%v %v(%d, %d): column %+v, scalar %+v", pt, op, x, y, col, got)
					}
				}
				for _, d := range []string{"EQ", "NE", "LT", "LE", "GT", "GE"} {
					fx, fy := new(big.Int).SetInt64(x), new(big.Int).SetInt64(y)
					if pt.IsUnsigned() {
						fx.SetUint64(uint64(x))
						fy.SetUint64(uint64(y))
					}
					want := floatCompare(d, float64(fx.Cmp(fy)), 0)
					if got := n.Compare(d, false, pt, Scalar{I: x}, Scalar{I: y}); (got.I == 1) != want {
						t.Errorf("%v compare %s(%d, %d) = %d", pt, d, x, y, got.I)
					}
				}
			}
		}
	}
}

// The rules of HloEvaluator and the LLVM emitter at the edges.
func TestIntegerRules(t *testing.T) {
	n := &Numerics{}
	for _, c := range []struct {
		op      hlo.Opcode
		t       hlo.PrimitiveType
		x, y    int64
		want    int64
		contest Contest
	}{
		{hlo.OpDivide, hlo.S32, 7, 0, -1, DivideByZero},
		{hlo.OpDivide, hlo.U32, 7, 0, 1<<32 - 1, DivideByZero},
		{hlo.OpDivide, hlo.U64, 7, 0, -1, DivideByZero},
		{hlo.OpDivide, hlo.S8, -128, -1, -128, DivideByZero},
		{hlo.OpDivide, hlo.S64, math.MinInt64, -1, math.MinInt64, DivideByZero},
		{hlo.OpDivide, hlo.S32, -7, 2, -3, 0},
		{hlo.OpRemainder, hlo.S32, 7, 0, 7, DivideByZero},
		{hlo.OpRemainder, hlo.S8, -128, -1, 0, DivideByZero},
		{hlo.OpRemainder, hlo.S32, -7, 2, -1, 0},
		{hlo.OpRemainder, hlo.U64, -1, 10, 5, 0},
		{hlo.OpShiftLeft, hlo.S8, 1, 7, -128, 0},
		{hlo.OpShiftLeft, hlo.S8, 1, 8, 0, OutOfRangeShift},
		{hlo.OpShiftLeft, hlo.U4, 9, 1, 2, 0},
		{hlo.OpShiftLeft, hlo.S32, 1, -1, 0, OutOfRangeShift},
		{hlo.OpShiftRightLogical, hlo.S8, -1, 4, 15, 0},
		{hlo.OpShiftRightLogical, hlo.S32, -1, 32, 0, OutOfRangeShift},
		{hlo.OpShiftRightLogical, hlo.U64, -1, 63, 1, 0},
		{hlo.OpShiftRightArithmetic, hlo.S8, -128, 9, -1, OutOfRangeShift},
		{hlo.OpShiftRightArithmetic, hlo.S8, 64, -1, 0, OutOfRangeShift},
		{hlo.OpShiftRightArithmetic, hlo.U8, 0x80, 1, 0xc0, 0},
		{hlo.OpShiftRightArithmetic, hlo.S32, -8, 1, -4, 0},
		{hlo.OpPower, hlo.S32, -1, -1, 0, Implementation},
		{hlo.OpPower, hlo.S32, 1, -5, 1, 0},
		{hlo.OpPower, hlo.S32, 2, -1, 0, Implementation},
		{hlo.OpPower, hlo.S32, 0, 0, 1, 0},
		{hlo.OpPower, hlo.U8, 3, 255, 171, 0},
		{hlo.OpPower, hlo.Pred, 0, 0, 1, 0},
		{hlo.OpPower, hlo.Pred, 0, 1, 0, 0},
		{hlo.OpAdd, hlo.Pred, 1, 1, 1, 0},
		{hlo.OpMultiply, hlo.Pred, 1, 0, 0, 0},
		{hlo.OpMultiply, hlo.S8, 100, 3, 44, SignedOverflow},
		{hlo.OpMulhi, hlo.U32, 0xffffffff, 0xffffffff, 0xfffffffe, 0},
		{hlo.OpMulhi, hlo.S64, -1, 1, -1, 0},
	} {
		got := n.Binary(c.op, c.t, Scalar{I: c.x}, Scalar{I: c.y})
		if got.I != c.want || got.Contest != c.contest {
			t.Errorf("%v %v(%d, %d) = %d, contest %d; want %d, contest %d", c.t, c.op, c.x, c.y, got.I, got.Contest, c.want, c.contest)
		}
	}
	for _, c := range []struct {
		op      hlo.Opcode
		t       hlo.PrimitiveType
		x, want int64
		contest Contest
	}{
		{hlo.OpAbs, hlo.S8, -128, -128, SignedOverflow},
		{hlo.OpAbs, hlo.S8, -5, 5, 0},
		{hlo.OpAbs, hlo.U8, 200, 200, 0},
		{hlo.OpNegate, hlo.S32, math.MinInt32, math.MinInt32, SignedOverflow},
		{hlo.OpNegate, hlo.U8, 1, 255, 0},
		{hlo.OpNot, hlo.S4, 5, -6, 0},
		{hlo.OpNot, hlo.U4, 5, 10, 0},
		{hlo.OpNot, hlo.Pred, 1, 0, 0},
		{hlo.OpSign, hlo.S32, -9, -1, 0},
		{hlo.OpSign, hlo.U64, -9, 1, 0},
		{hlo.OpPopcnt, hlo.S8, -1, 8, 0},
		{hlo.OpPopcnt, hlo.S4, -1, 4, 0},
		{hlo.OpCountLeadingZeros, hlo.S4, -1, 0, 0},
		{hlo.OpCountLeadingZeros, hlo.U8, 0, 8, 0},
		{hlo.OpCountLeadingZeros, hlo.S16, 1, 15, 0},
		{hlo.OpCountLeadingZeros, hlo.U64, 1, 63, 0},
	} {
		if got := n.Unary(c.op, c.t, Scalar{I: c.x}); got.I != c.want || got.Contest != c.contest {
			t.Errorf("%v %v(%d) = %d, contest %d; want %d, contest %d", c.t, c.op, c.x, got.I, got.Contest, c.want, c.contest)
		}
	}
}

// Undecided operands give undecided results unless the other operand decides.
func TestUndecidedIntegers(t *testing.T) {
	n := &Numerics{Bounds: true}
	any := Scalar{Undecided: true}
	for _, c := range []struct {
		op      hlo.Opcode
		t       hlo.PrimitiveType
		y       int64
		decided bool
	}{
		{hlo.OpAnd, hlo.Pred, 0, true}, {hlo.OpAnd, hlo.Pred, 1, false},
		{hlo.OpOr, hlo.Pred, 1, true}, {hlo.OpOr, hlo.S32, -1, true}, {hlo.OpOr, hlo.S32, 1, false},
		{hlo.OpMultiply, hlo.S32, 0, true}, {hlo.OpAdd, hlo.S32, 0, false}, {hlo.OpMaximum, hlo.Pred, 1, true},
	} {
		for _, swap := range []bool{false, true} {
			x, y := any, Scalar{I: c.y}
			if swap {
				x, y = y, x
			}
			if got := n.Binary(c.op, c.t, x, y); got.Undecided == c.decided || c.decided && got.I != c.y {
				t.Errorf("%v %v(any, %d) = %+v", c.t, c.op, c.y, got)
			}
		}
	}
	if r := n.Select(any, hlo.S32, Scalar{I: 3}, Scalar{I: 3}); r.Undecided || r.I != 3 {
		t.Errorf("select of equals = %+v", r)
	}
	if r := n.Select(any, hlo.S32, Scalar{I: 3}, Scalar{I: 4}); !r.Undecided {
		t.Errorf("select of different values = %+v", r)
	}
	r := n.Select(any, hlo.F32, Scalar{Re: Num{C: 3}}, Scalar{Re: Num{C: 4}})
	if r.Re.legal(floatTypes[hlo.F32], 3) != In || r.Re.legal(floatTypes[hlo.F32], 4) != In || r.Re.legal(floatTypes[hlo.F32], 4.5) != Out {
		t.Errorf("select of floats = %+v", r)
	}
}

// Float to integer: truncation, saturation, NaN, undecided at the edges.
func TestFloatToInteger(t *testing.T) {
	n := &Numerics{Bounds: true}
	for _, c := range []struct {
		from, to hlo.PrimitiveType
		x        Num
		want     Scalar
	}{
		{hlo.F32, hlo.S32, Num{C: -1.9}, Scalar{I: -1}},
		{hlo.F32, hlo.S32, Num{C: 3e9}, Scalar{I: math.MaxInt32, Contest: OutOfRangeConvert}},
		{hlo.F32, hlo.S32, Num{C: -3e9}, Scalar{I: math.MinInt32, Contest: OutOfRangeConvert}},
		{hlo.F32, hlo.S32, Num{C: math.MinInt32}, Scalar{I: math.MinInt32}},
		{hlo.F32, hlo.U8, Num{C: -1}, Scalar{Contest: OutOfRangeConvert}},
		{hlo.F32, hlo.U8, Num{C: -0.5}, Scalar{}},
		{hlo.F32, hlo.U8, Num{C: 256}, Scalar{I: 255, Contest: OutOfRangeConvert}},
		{hlo.F32, hlo.U64, Num{C: 1.8446742974197924e19}, Scalar{I: -1 << 40}},
		{hlo.F32, hlo.S4, Num{C: 9}, Scalar{I: 7, Contest: OutOfRangeConvert}},
		{hlo.F32, hlo.S32, Num{C: nan}, Scalar{Contest: OutOfRangeConvert}},
		{hlo.F32, hlo.S32, Num{C: inf}, Scalar{I: math.MaxInt32, Contest: OutOfRangeConvert}},
		{hlo.F32, hlo.Pred, Num{C: nan}, Scalar{I: 1}},
		{hlo.F32, hlo.Pred, Num{C: math.Copysign(0, -1)}, Scalar{}},
		{hlo.F32, hlo.Pred, Num{C: 1e-40}, Scalar{Undecided: true}}, // may be flushed
		{hlo.F16, hlo.Pred, Num{C: 6e-8}, Scalar{I: 1}},
		{hlo.F32, hlo.S32, Num{C: 2.5, E: 0.25}, Scalar{I: 2}},
		{hlo.F32, hlo.S32, Num{C: 2.5, E: 0.5}, Scalar{I: 2, Width: 1, Undecided: true}},
		{hlo.F32, hlo.S32, Num{C: 2.5, K: MayNaN}, Scalar{Undecided: true, Contest: OutOfRangeConvert}},
	} {
		if got := n.Convert(c.from, c.to, Scalar{Re: c.x}); got != c.want {
			t.Errorf("%v to %v of %+v = %+v, want %+v", c.from, c.to, c.x, got, c.want)
		}
	}
}

// Integers convert to floats with one rounding, or two through f32 as XLA does.
func TestIntegerToFloat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64().Draw(t, "v") >> rapid.IntRange(0, 63).Draw(t, "shift")
		from := rapid.SampledFrom([]hlo.PrimitiveType{hlo.S64, hlo.U64}).Draw(t, "from")
		b := new(big.Float).SetPrec(64).SetInt64(v)
		if from == hlo.U64 {
			b.SetUint64(uint64(v))
		}
		for _, to := range []hlo.PrimitiveType{hlo.F64, hlo.F32, hlo.BF16, hlo.F16} {
			f := floatTypes[to]
			want, _ := new(big.Float).SetPrec(uint(f.MantissaBits + 1)).SetMode(big.ToNearestEven).Set(b).Float64()
			if math.Abs(want) > f.max {
				want = math.Copysign(inf, want)
			}
			if got := (&Numerics{}).Convert(from, to, Scalar{I: v}).Re.C; got != want {
				t.Fatalf("%v %d to %v: %v, want %v", from, v, to, got, want)
			}
			bound := (&Numerics{Bounds: true}).Convert(from, to, Scalar{I: v}).Re
			if bound.legal(f, want) != In {
				t.Fatalf("%v %d to %v: %v is outside %s", from, v, to, want, bound.set(f))
			}
		}
	})
}

// f64 results lie within their bounds of the exact value, and exact mode
// rounds correctly.
func TestWideArithmeticAgainstBig(t *testing.T) {
	f := floatTypes[hlo.F64]
	rapid.Check(t, func(t *rapid.T) {
		n := &Numerics{Bounds: true}
		x := rapid.Float64Range(-1e6, 1e6).Draw(t, "x")
		y := math.Ldexp(rapid.Float64Range(-2, 2).Draw(t, "y"), rapid.IntRange(-60, 60).Draw(t, "exponent"))
		if math.Abs(y) < 1e-20 || math.Abs(x) < 1e-20 {
			return
		}
		bf := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
		z := rapid.Float64Range(-10, 10).Draw(t, "z")
		ex := map[hlo.Opcode]*big.Float{
			hlo.OpAdd:      bf(0).Add(bf(x), bf(y)),
			hlo.OpSubtract: bf(0).Sub(bf(x), bf(y)),
			hlo.OpMultiply: bf(0).Mul(bf(x), bf(y)),
			hlo.OpDivide:   bf(0).Quo(bf(x), bf(y)),
		}
		for op, want := range ex {
			r := n.Binary(op, hlo.F64, Scalar{Re: Num{C: x}}, Scalar{Re: Num{C: y}})
			within := func(r Num, want *big.Float, ulps float64) {
				t.Helper()
				d := bf(0).Sub(bf(0).Add(bf(r.C), bf(r.Lo)), want)
				off, _ := d.Float64()
				w, _ := want.Float64()
				if math.Abs(off) > math.Abs(w)*wideCentreError+wideUnderflow {
					t.Fatalf("%v(%v, %v): centre %v + %v is off by %v", op, x, y, r.C, r.Lo, off)
				}
				if r.E > ulps*f.ulp(math.Abs(w)*1.001)*1.001+1e-300 {
					t.Fatalf("%v(%v, %v): bound %v, value %v", op, x, y, r.E, w)
				}
			}
			within(r.Re, want, budgetOf(hlo.OpDivide, f).ulps)
			// One more step on an inexact operand.
			s := n.Binary(hlo.OpMultiply, hlo.F64, r, Scalar{Re: Num{C: z}})
			d := bf(0).Sub(bf(0).Add(bf(s.Re.C), bf(s.Re.Lo)), bf(0).Mul(want, bf(z)))
			if off, _ := d.Float64(); math.Abs(off) > s.Re.E {
				t.Fatalf("%v(%v, %v)*%v: centre is off by %v, bound %v", op, x, y, z, off, s.Re.E)
			}
			exact, _ := want.Float64()
			if got := (&Numerics{}).Binary(op, hlo.F64, Scalar{Re: Num{C: x}}, Scalar{Re: Num{C: y}}).Re.C; got != exact {
				t.Fatalf("exact %v(%v, %v) = %v, want %v", op, x, y, got, exact)
			}
		}
	})
}

// Bitcasts keep every pattern, change widths low bits first, and are
// undecided where a float is uncertain.
func TestBitcastConvert(t *testing.T) {
	n := &Numerics{Bounds: true}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.Uint32().Draw(t, "bits")
		u := NewArray(hlo.U32, 1)
		u.I[0] = int64(b)
		for _, to := range []hlo.PrimitiveType{hlo.F32, hlo.S32, hlo.U8, hlo.S8, hlo.U16, hlo.F16, hlo.BF16, hlo.U4, hlo.S4, hlo.F8E5M2, hlo.F8E3M4, hlo.Pred} {
			if to == hlo.Pred {
				continue
			}
			r := n.BitcastConvertArray(to, u)
			if r.Len() != 32/to.Bits() {
				t.Fatalf("u32 to %v: %d elements", to, r.Len())
			}
			back := n.BitcastConvertArray(hlo.U32, r)
			if back.Len() != 1 || back.Undecided != nil || uint32(back.I[0]) != b {
				t.Fatalf("u32 %#x to %v and back: %+v", b, to, back)
			}
		}
		bytes := n.BitcastConvertArray(hlo.U8, u)
		for i := range 4 {
			if bytes.I[i] != int64(b>>(8*i)&0xff) {
				t.Fatalf("byte %d of %#x is %#x", i, b, bytes.I[i])
			}
		}
	})
	for _, x := range []Num{{C: 1, E: 1e-6}, {C: 0, K: AnyZeroSign}, {C: nan, K: MayNaN}, {C: 1, K: MayPosInf}} {
		if r := n.BitcastConvert(hlo.F32, hlo.U32, Scalar{Re: x}); !r.Undecided {
			t.Errorf("bits of %+v = %+v", x, r)
		}
	}
}

// reducePrecisionModel rounds through a format of e and m bits built by hand.
func TestReducePrecision(t *testing.T) {
	n := &Numerics{}
	for _, c := range []struct {
		e, m    int
		x, want float64
	}{
		{5, 10, 65519, 65504}, {5, 10, 65520, inf}, {5, 10, 0x1p-14, 0x1p-14}, {5, 10, 0x1p-15, 0}, {5, 10, -0x1p-15, math.Copysign(0, -1)},
		{8, 7, 1 + 0x1p-8, 1}, {8, 7, 1 + 0x1.8p-7, 1 + 0x1p-6}, {8, 0, 1.5, 2}, {8, 0, 3, 2}, {8, 23, 1.2345678, float64(float32(1.2345678))},
		{3, 2, 14, 14}, {3, 2, 15, inf}, {3, 2, -inf, -inf},
	} {
		got := n.ReducePrecision(hlo.F32, c.e, c.m, Scalar{Re: Num{C: float64(float32(c.x))}}).Re.C
		if got != c.want || math.Signbit(got) != math.Signbit(c.want) {
			t.Errorf("reduce-precision e%dm%d of %v = %v, want %v", c.e, c.m, c.x, got, c.want)
		}
	}
	// In f16's and bf16's own format it agrees with conversion, subnormals aside.
	rapid.Check(t, func(t *rapid.T) {
		x := float64(math.Float32frombits(rapid.Uint32().Draw(t, "x")))
		for _, pt := range []hlo.PrimitiveType{hlo.F16, hlo.BF16} {
			f := floatTypes[pt]
			if x != x || math.Abs(x) < f.minNormal {
				continue
			}
			got := n.ReducePrecision(hlo.F32, f.ExponentBits, f.MantissaBits, Scalar{Re: Num{C: x}}).Re.C
			if want := f.Round(x); got != want {
				t.Fatalf("%v of %v: %v, want %v", pt, x, got, want)
			}
		}
	})
}

// unitExponent agrees with its definition.
func TestUnitExponent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := math.Float64frombits(rapid.Uint64().Draw(t, "x"))
		if !finite(x) || x == 0 {
			return
		}
		e := unitExponent(x)
		m, ex := math.Frexp(x)
		whole := uint64(math.Abs(math.Ldexp(m, 53)))
		if want := ex - 53 + bits.TrailingZeros64(whole); e != want {
			t.Fatalf("unitExponent(%v) = %d, want %d", x, e, want)
		}
	})
}

// An operation on one value twice: x-x is zero, x/x is one, x*x is not
// negative, whatever x may be.
func TestSameOperand(t *testing.T) {
	n := &Numerics{Bounds: true}
	for _, pt := range []hlo.PrimitiveType{hlo.F32, hlo.F64, hlo.F16} {
		f := floatTypes[pt]
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			x := NewArray(pt, 1)
			x.Re.set(0, drawNum(t, f, "x"))
			members := []float64{x.Re.C[0]}
			if z := x.Re.at(0); finite(z.C) && z.E < inf {
				members = append(members, f.Round(z.C-z.E), f.Round(z.C+z.E))
			}
			for _, v := range members {
				if x.Legal(0, Scalar{Re: Num{C: v}}) == Out {
					continue
				}
				for op, got := range map[hlo.Opcode]float64{hlo.OpSubtract: v - v, hlo.OpDivide: f.Round(v / v), hlo.OpMultiply: f.Round(v * v)} {
					r := n.BinaryArray(op, x, x)
					if r.Legal(0, Scalar{Re: Num{C: got}}) == Out {
						t.Fatalf("%v(%v) of %s: %v is outside %s", op, v, x.LegalSet(0), got, r.LegalSet(0))
					}
				}
			}
			if z := n.BinaryArray(hlo.OpMultiply, x, x).Re.at(0); z.E < inf && z.C < z.E {
				t.Fatalf("the square of %s may be negative: %s", x.LegalSet(0), z.set(f))
			}
			z := n.BinaryArray(hlo.OpSubtract, x, x).Re.at(0)
			if v := x.Re.at(0); v.E < inf && (z.K&(MayPosInf|MayNegInf) != 0 || z.E > f.ulp(math.Min(f.max, math.Abs(v.C)+v.E))) && finite(v.C) && v.K&specials == 0 {
				t.Fatalf("%s minus itself is %s", x.LegalSet(0), z.set(f))
			}
		}))
	}
}
