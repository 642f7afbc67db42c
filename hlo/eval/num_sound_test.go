package eval

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/hlo"
)

// The tests of this file model what implementations do and check that every
// value they compute lies in the legal set.

// drawFloat draws a value of the type: special, small integer, power of two,
// or any.
func drawFloat(t *rapid.T, f *floatType, name string) float64 {
	m := f.MinNormal()
	edge := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 3, inf, -inf, nan, f.max, -f.max, m, -m, m / 2, f.minSub, -f.minSub, 1.5 * m, f.max / 2}
	var v float64
	switch rapid.IntRange(0, 9).Draw(t, name+" kind") {
	case 0:
		v = rapid.SampledFrom(edge).Draw(t, name)
	case 1:
		v = float64(rapid.IntRange(-16, 16).Draw(t, name))
	case 2:
		v = math.Ldexp(1, rapid.IntRange(1-f.Bias, f.Bias-1).Draw(t, name))
	case 3:
		e := rapid.IntRange(-f.Bias-f.MantissaBits, f.Bias).Draw(t, name+" exponent")
		v = math.Ldexp(rapid.Float64Range(-2, 2).Draw(t, name), e)
	default:
		v = rapid.Float64Range(-4, 4).Draw(t, name)
	}
	return f.Round(v)
}

// machine computes one operation as some implementation does.
type machine struct {
	name  string
	f     *floatType
	flush bool // subnormal operands and results are zero
	fused bool // a product that is added is not rounded
}

// value is what the machine holds: the rounded value and, for a product, its
// factors.
type value struct {
	v    float64
	a, b float64
	prod bool
}

func (m machine) in(v float64) float64 {
	if m.flush && v != 0 && math.Abs(v) < m.f.minNormal {
		return math.Copysign(0, v)
	}
	return v
}

func (m machine) out(v float64) float64 { return m.in(m.f.Round(v)) }

func (m machine) do(op hlo.Opcode, x, y value) value {
	a, b := m.in(x.v), m.in(y.v)
	switch op {
	case hlo.OpAdd, hlo.OpSubtract:
		s := 1.0
		if op == hlo.OpSubtract {
			s = -1
		}
		if m.fused && x.prod {
			return value{v: m.out(math.FMA(m.in(x.a), m.in(x.b), s*b))}
		}
		if m.fused && y.prod {
			return value{v: m.out(math.FMA(s*m.in(y.a), m.in(y.b), a))}
		}
		return value{v: m.out(a + s*b)}
	case hlo.OpMultiply:
		return value{v: m.out(a * b), a: a, b: b, prod: true}
	case hlo.OpDivide:
		return value{v: m.out(a / b)}
	case hlo.OpMaximum:
		if a != a || b != b { // math.Max prefers an infinity
			return value{v: nan}
		}
		return value{v: m.out(math.Max(a, b))}
	case hlo.OpMinimum:
		if a != a || b != b {
			return value{v: nan}
		}
		return value{v: m.out(math.Min(a, b))}
	case hlo.OpNegate:
		return value{v: m.f.Round(-x.v)}
	case hlo.OpAbs:
		return value{v: math.Abs(x.v)}
	case hlo.OpFloor:
		return value{v: m.out(math.Floor(a))}
	case hlo.OpSign:
		return value{v: sign(a)}
	case hlo.OpRemainder:
		return value{v: m.out(math.Mod(a, b))}
	case hlo.OpAtan2:
		return value{v: m.out(atan2(a, b))}
	case hlo.OpPower:
		return value{v: m.out(powFloat(m.f, a, b))}
	}
	return value{v: m.out(functions[op].at(m.f, ddF(a)).float())}
}

var chainOps = []hlo.Opcode{
	hlo.OpAdd, hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpMultiply, hlo.OpMultiply, hlo.OpDivide, hlo.OpMaximum, hlo.OpMinimum,
	hlo.OpNegate, hlo.OpAbs, hlo.OpSqrt, hlo.OpFloor, hlo.OpSign, hlo.OpExponential, hlo.OpLog, hlo.OpTanh,
	hlo.OpSine, hlo.OpRemainder, hlo.OpAtan2, hlo.OpRsqrt, hlo.OpPower,
}

// Random chains of operations: IEEE rounding at each step, flushing of
// subnormals, and fused multiply-add all stay inside the legal set.
func TestChainsStayLegal(t *testing.T) {
	for _, pt := range []hlo.PrimitiveType{hlo.F32, hlo.BF16, hlo.F16, hlo.F64, hlo.F8E5M2, hlo.F8E4M3FN} {
		f := floatTypes[pt]
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := &Numerics{Bounds: true}
			machines := []machine{{"ieee", f, false, false}, {"flushing", f, f.flush, false}}
			if f.MantissaBits >= 23 {
				machines = append(machines, machine{"fused", f, false, true}, machine{"fused and flushing", f, f.flush, true})
			}
			var sets []Scalar
			got := make([][]value, len(machines))
			text := []string{}
			for i := range rapid.IntRange(1, 3).Draw(t, "inputs") {
				v := drawFloat(t, f, fmt.Sprintf("x%d", i))
				sets = append(sets, Scalar{Re: Num{C: v}})
				for m := range machines {
					got[m] = append(got[m], value{v: v})
				}
				text = append(text, fmt.Sprintf("x%d = %v (%#x)", i, v, f.Bits(v)))
			}
			for range rapid.IntRange(1, 8).Draw(t, "steps") {
				op := rapid.SampledFrom(chainOps).Draw(t, "op")
				a := rapid.IntRange(0, len(sets)-1).Draw(t, "left")
				b := rapid.IntRange(0, len(sets)-1).Draw(t, "right")
				var s Scalar
				if op.Arity() == 1 {
					s = n.Unary(op, pt, sets[a])
				} else {
					s = n.Binary(op, pt, sets[a], sets[b])
				}
				text = append(text, fmt.Sprintf("x%d = %v(x%d, x%d): %s", len(sets), op, a, b, s.Re.set(f)))
				sets = append(sets, s)
				for m := range machines {
					v := machines[m].do(op, got[m][a], got[m][b])
					got[m] = append(got[m], v)
					if s.Re.legal(f, v.v) == Out {
						for _, l := range text {
							t.Log(l)
						}
						t.Fatalf("%s machine: %v is outside", machines[m].name, v.v)
					}
				}
			}
		}))
	}
}

// Chains across types with explicit conversions, with and without excess
// precision.
func TestConvertChainsStayLegal(t *testing.T) {
	types := []hlo.PrimitiveType{hlo.F32, hlo.BF16, hlo.F16, hlo.F64, hlo.F8E4M3FN, hlo.F8E5M2, hlo.F8E4M3FNUZ}
	rapid.Check(t, func(t *rapid.T) {
		excess := rapid.Bool().Draw(t, "excess precision")
		n := &Numerics{Bounds: true, ExcessPrecision: excess}
		pt := rapid.SampledFrom(types).Draw(t, "type")
		f := floatTypes[pt]
		v := drawFloat(t, f, "x")
		s := Scalar{Re: Num{C: v}}
		ieee, wide := v, v
		flushed := machine{f: f, flush: f.flush}.in(v)
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			t.Logf("%v: %s, machines have %v %v %v", pt, s.Re.set(f), ieee, flushed, wide)
			if rapid.Bool().Draw(t, "convert") {
				to := rapid.SampledFrom(types).Draw(t, "to")
				g := floatTypes[to]
				if to == pt {
					continue
				}
				s = n.Convert(pt, to, s)
				ieee = g.Round(ieee)
				m := machine{f: g, flush: g.flush}
				flushed = m.in(g.Round(machine{f: f, flush: f.flush}.in(flushed)))
				if !excess || to != hlo.BF16 || pt != hlo.F32 {
					wide = g.Round(wide)
				}
				pt, f = to, g
			} else {
				c := f.Round(rapid.Float64Range(-3, 3).Draw(t, "c"))
				s = n.Binary(hlo.OpMultiply, pt, s, Scalar{Re: Num{C: c}})
				ieee = f.Round(ieee * c)
				m := machine{f: f, flush: f.flush}
				flushed = m.out(m.in(flushed) * m.in(c))
				if excess && pt == hlo.BF16 {
					wide = float64(float32(wide * c)) // kept in f32
				} else {
					wide = f.Round(wide * c)
				}
			}
			for _, got := range []float64{ieee, flushed, wide} {
				if s.Re.legal(f, got) == Out {
					t.Fatalf("%v: %v is outside %s", pt, got, s.Re.set(f))
				}
			}
		}
	})
}

// Single operations on exact operands have the tightest bounds.
func TestSingleOperationsAreTight(t *testing.T) {
	for _, pt := range []hlo.PrimitiveType{hlo.F32, hlo.BF16, hlo.F16, hlo.F64} {
		f := floatTypes[pt]
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := &Numerics{Bounds: true}
			x := f.Round(rapid.Float64Range(0.5, 64).Draw(t, "x"))
			y := f.Round(rapid.Float64Range(0.01, 64).Draw(t, "y"))
			if rapid.Bool().Draw(t, "negative") {
				y = -y
			}
			for op, ulps := range map[hlo.Opcode]float64{
				hlo.OpAdd: 0.5, hlo.OpSubtract: 0.5, hlo.OpMultiply: 0.5, hlo.OpDivide: budgetOf(hlo.OpDivide, f).ulps,
				hlo.OpMaximum: 0, hlo.OpMinimum: 0, hlo.OpRemainder: 0,
			} {
				r := n.Binary(op, pt, Scalar{Re: Num{C: x}}, Scalar{Re: Num{C: y}}).Re
				if limit := ulps * f.ulp(math.Abs(r.C)) * (1 + 1e-6); r.E > limit && math.Abs(r.C) > 4*f.minNormal {
					t.Fatalf("%v(%v, %v) = %s, more than %v ULP", op, x, y, r.set(f), ulps)
				}
			}
			for i, fn := range functions {
				op := hlo.Opcode(i)
				if fn == nil || op == hlo.OpAcosh && x < 1 || (op == hlo.OpAsin || op == hlo.OpAcos || op == hlo.OpAtanh) && x > 1 {
					continue
				}
				r := n.Unary(op, pt, Scalar{Re: Num{C: x}}).Re
				b := budgetOf(op, f)
				if limit := (b.ulps*f.ulp(math.Abs(r.C)+r.E) + b.extra(r.C, x)) * 1.01; finite(r.C) && r.E > limit && math.Abs(r.C) > 4*f.minNormal {
					t.Fatalf("%v(%v) = %s, more than %v ULP", op, x, r.set(f), b.ulps)
				}
			}
		}))
	}
}

// Lattice values stay exact: small integers times one power of two.
func TestLatticeIsExact(t *testing.T) {
	for _, pt := range []hlo.PrimitiveType{hlo.F32, hlo.BF16, hlo.F16, hlo.F64} {
		f := floatTypes[pt]
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := &Numerics{Bounds: true}
			q := math.Ldexp(1, rapid.IntRange(-6, 4).Draw(t, "unit"))
			draw := func(name string) float64 { return float64(rapid.IntRange(-3, 3).Draw(t, name)) * q }
			exact := func(what string, x Num, want float64) {
				t.Helper()
				if x.E != 0 || x.Lo != 0 || x.C != want || x.K&specials != 0 {
					t.Fatalf("%s = %s, want exactly %v", what, x.set(f), want)
				}
			}
			s := n.NewSum(pt)
			var sum float64
			var a, b []float64
			for i := range rapid.IntRange(1, 20).Draw(t, "terms") {
				x, y := draw(fmt.Sprint("x", i)), draw(fmt.Sprint("y", i))
				a, b = append(a, x), append(b, y)
				X, Y := Scalar{Re: Num{C: x}}, Scalar{Re: Num{C: y}}
				exact("x+y", n.Binary(hlo.OpAdd, pt, X, Y).Re, x+y)
				exact("x-y", n.Binary(hlo.OpSubtract, pt, X, Y).Re, x-y)
				exact("x*y", n.Binary(hlo.OpMultiply, pt, X, Y).Re, x*y)
				exact("max", n.Binary(hlo.OpMaximum, pt, X, Y).Re, math.Max(x, y))
				for _, to := range []hlo.PrimitiveType{hlo.F32, hlo.BF16, hlo.F16, hlo.F64} {
					exact("convert", n.Convert(pt, to, X).Re, x)
				}
				s.Add(X)
				sum += x
			}
			exact("sum", s.Result().Re, sum)
			dot := n.NewSum(pt)
			var want float64
			for i := range a {
				dot.AddProduct(Scalar{Re: Num{C: a[i]}}, Scalar{Re: Num{C: b[i]}})
				want += a[i] * b[i]
			}
			x, y := NewArray(pt, int64(len(a))), NewArray(pt, int64(len(a)))
			x.Re.C, y.Re.C = a, b
			m := n.MatMul(pt, x, y, 1, 1, 1, len(a))
			if math.Abs(want)/(q*q) <= 2/f.eps {
				exact("dot", dot.Result().Re, want)
				exact("matmul", m.Re.at(0), want)
			}
		}))
	}
}

// orderedSum adds terms in some order and tree, rounding in f at each step.
func orderedSum(t *rapid.T, m machine, terms []float64) float64 {
	terms = append([]float64(nil), terms...)
	for len(terms) > 1 {
		i := rapid.IntRange(0, len(terms)-1).Draw(t, "i")
		x := terms[i]
		terms[i] = terms[len(terms)-1]
		terms = terms[:len(terms)-1]
		j := rapid.IntRange(0, len(terms)-1).Draw(t, "j")
		terms[j] = m.out(m.in(x) + m.in(terms[j]))
	}
	return terms[0]
}

// Sums in any tree, and dots with products rounded or fused, are legal.
func TestSumsInAnyOrder(t *testing.T) {
	for _, pt := range []hlo.PrimitiveType{hlo.F32, hlo.BF16, hlo.F16, hlo.F64} {
		f := floatTypes[pt]
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := &Numerics{Bounds: true}
			count := rapid.IntRange(1, 24).Draw(t, "terms")
			special := rapid.IntRange(0, 3).Draw(t, "special") == 0
			s, d := n.NewSum(pt), n.NewSum(pt)
			var xs, ys []float64
			for i := range count {
				x := f.Round(rapid.Float64Range(-8, 8).Draw(t, fmt.Sprint("x", i)))
				y := f.Round(rapid.Float64Range(-8, 8).Draw(t, fmt.Sprint("y", i)))
				if special {
					x = drawFloat(t, f, fmt.Sprint("s", i))
				}
				xs, ys = append(xs, x), append(ys, y)
				s.Add(Scalar{Re: Num{C: x}})
				d.AddProduct(Scalar{Re: Num{C: x}}, Scalar{Re: Num{C: y}})
			}
			m := machine{f: f}
			if f.flush && rapid.Bool().Draw(t, "flush") {
				m.flush = true
			}
			set := s.Result().Re
			if got := orderedSum(t, m, xs); set.legal(f, got) == Out {
				t.Fatalf("sum of %v: %v is outside %s", xs, got, set.set(f))
			}
			whole := NewArray(pt, int64(count))
			whole.Re.C = xs
			column := n.NewSum(pt)
			column.AddArray(whole, count-1, -1, count)
			if r := column.Result().Re; !near(r, set) && math.Abs(r.E-set.E) > 1e-6*set.E {
				t.Fatalf("AddArray gives %s, Add %s", r.set(f), set.set(f))
			}
			// The accumulator of narrow dots is f32.
			acc := m
			acc.f = f.accumulator()
			var products []float64
			var fused float64
			for i, x := range xs {
				products = append(products, acc.out(acc.in(m.in(x))*acc.in(m.in(ys[i]))))
				fused = acc.out(math.FMA(acc.in(m.in(x)), acc.in(m.in(ys[i])), fused))
			}
			set = d.Result().Re
			x, y := NewArray(pt, int64(count)), NewArray(pt, int64(count))
			x.Re.C, y.Re.C = xs, ys
			mat := n.MatMul(pt, x, y, 1, 1, 1, count).Re.at(0)
			for _, got := range []float64{f.Round(orderedSum(t, acc, products)), f.Round(fused)} {
				if got = m.in(got); set.legal(f, got) == Out {
					t.Fatalf("dot of %v and %v: %v is outside %s", xs, ys, got, set.set(f))
				}
				if mat.legal(f, got) == Out {
					t.Fatalf("matmul of %v and %v: %v is outside %s", xs, ys, got, mat.set(f))
				}
			}
		}))
	}
}

// A sum of the results of multiplies may take each product rounded or in a fused
// multiply-add, where a product that overflows leaves another infinity as it is.
func TestSumsOfMultiplies(t *testing.T) {
	for _, pt := range []hlo.PrimitiveType{hlo.F32, hlo.F64} {
		f := floatTypes[pt]
		n := &Numerics{Bounds: true}
		values := []float64{f.max, -f.max, f.max / 2, inf, -inf, 1, -2, 0, 1e9, -1e9}
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			s := n.NewSum(pt)
			acc, terms := 0.0, ""
			for i := range rapid.IntRange(1, 6).Draw(t, "terms") {
				x := f.Round(rapid.SampledFrom(values).Draw(t, fmt.Sprint("x", i)))
				y := f.Round(rapid.SampledFrom(values).Draw(t, fmt.Sprint("y", i)))
				terms += fmt.Sprintf(" %v*%v", x, y)
				s.Add(Scalar{Re: n.mul(f, Num{C: x}, Num{C: y})})
				if rapid.Bool().Draw(t, fmt.Sprint("fused", i)) {
					acc = f.Round(math.FMA(x, y, acc))
				} else {
					acc = f.Round(f.Round(x*y) + acc)
				}
			}
			if set := s.Result().Re; set.legal(f, acc) == Out {
				t.Fatalf("sum of%s: %v is outside %s", terms, acc, set.set(f))
			}
		}))
	}
	n := &Numerics{Bounds: true}
	f := floatTypes[hlo.F32]
	s := n.NewSum(hlo.F32)
	s.Add(Scalar{Re: n.mul(f, Num{C: f.max}, Num{C: 1000})})
	s.Add(Scalar{Re: Num{C: -inf}})
	for got, want := range map[float64]bool{-inf: true, inf: false, 0: false} {
		if (s.Result().Re.legal(f, got) != Out) != want {
			t.Errorf("max * 1000 + -inf: %v is legal: %v, want %v", got, !want, want)
		}
	}
}
