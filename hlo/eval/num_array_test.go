package eval

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/hlo"
)

func arrayTypes() (all []hlo.PrimitiveType) {
	for t := hlo.Pred; t <= hlo.F6E2M3FN; t++ {
		if t.IsArray() {
			all = append(all, t)
		}
	}
	return all
}

// Every pattern of a type survives literal -> value -> literal.
func TestLiteralsRoundTrip(t *testing.T) {
	for _, pt := range arrayTypes() {
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			shape := hlo.ArrayShape(pt, 3, 2)
			l := hlo.NewLiteral(shape)
			for i := range l.Raw {
				l.Raw[i] = rapid.Byte().Draw(t, "byte")
			}
			if !pt.IsComplex() { // sub-byte types and pred: canonical bytes
				for i := range shape.Elems() {
					if pt.IsFloat() {
						l.SetBits(i, l.Bits(i)&(1<<pt.Bits()-1))
					} else {
						l.SetInt(i, l.Int(i))
					}
				}
			}
			v := FromLiteral(l)
			back, err := v.Literal(shape)
			if err != nil {
				t.Fatal(err)
			}
			for i := range shape.Elems() {
				s := LiteralScalar(l, i)
				if got := v.Array.At(int(i)); got.I != s.I || !near(got.Re, s.Re) || !near(got.Im, s.Im) {
					t.Fatalf("element %d: %+v, want %+v", i, got, s)
				}
				if v.Array.Legal(int(i), s) != In {
					t.Fatalf("element %d: %s is not in %s", i, ScalarString(pt, s), v.Array.LegalSet(int(i)))
				}
				if pt.IsComplex() {
					a, b := l.Complex(i), back.Complex(i)
					if a != b && !cmplx.IsNaN(a) {
						t.Fatalf("element %d: %v, want %v", i, b, a)
					}
				} else if l.Bits(i) != back.Bits(i) {
					t.Fatalf("element %d: %#x, want %#x", i, back.Bits(i), l.Bits(i))
				}
			}
		}))
	}
}

func TestLiteralRefusesOtherShapes(t *testing.T) {
	v := &Value{Array: NewArray(hlo.F32, 2)}
	for _, s := range []*hlo.Shape{hlo.ArrayShape(hlo.F32, 3), hlo.ArrayShape(hlo.S32, 2), hlo.TupleShape(hlo.ArrayShape(hlo.F32, 2))} {
		if _, err := v.Literal(s); err == nil {
			t.Errorf("an f32[2] value as %v of %v", s.Type, s.Dims)
		}
	}
	tuple := &Value{Elements: []*Value{v}}
	if _, err := tuple.Literal(hlo.ArrayShape(hlo.F32, 2)); err == nil {
		t.Error("a tuple as an array")
	}
}

func TestLegalSets(t *testing.T) {
	negZero := math.Copysign(0, -1)
	for _, c := range []struct {
		t         hlo.PrimitiveType
		x         Num
		text      string
		in, out   []float64
		undecided bool
	}{
		{hlo.F32, Num{C: 1.5}, "{1.5}", []float64{1.5}, []float64{1.4999999, inf, nan, 0}, false},
		{hlo.F32, Num{C: 1.5, E: 2e-7}, "[1.5 ± 2e-07]", []float64{1.5, 1.5000001, 1.4999999}, []float64{1.5000004, nan, inf}, false},
		{hlo.F32, Num{C: inf, K: MayNaN}, "{inf, nan}", []float64{inf, nan}, []float64{-inf, 1, 0}, false},
		{hlo.F32, Num{C: nan}, "{nan}", []float64{nan, -nan}, []float64{0, inf}, false},
		{hlo.F32, Num{C: 0}, "{0}", []float64{0}, []float64{negZero, 1e-45}, false},
		{hlo.F32, Num{C: negZero}, "{-0}", []float64{negZero}, []float64{0}, false},
		{hlo.F32, Num{C: 0, K: AnyZeroSign}, "{0, -0}", []float64{0, negZero}, []float64{1}, false},
		{hlo.F32, Num{C: 0, E: 1e-38, K: MayNaN}, "[0 ± 1e-38] or {nan}", []float64{0, negZero, nan, 1e-39}, []float64{1e-37, inf}, false},
		{hlo.F8E4M3FNUZ, Num{C: 0}, "{0}", []float64{0, negZero}, []float64{1}, false},
		{hlo.F64, Num{C: 1, Lo: 1e-17, E: 1e-16}, "[1 ± 1e-16]", []float64{1}, []float64{1 + 0x1p-52}, false},
		{hlo.F32, anyNum, "any", nil, nil, true},
	} {
		a := NewArray(c.t, 1)
		a.Re.set(0, c.x)
		if got := a.LegalSet(0); got != c.text {
			t.Errorf("%+v: %s, want %s", c.x, got, c.text)
		}
		for _, v := range c.in {
			if got := a.Legal(0, Scalar{Re: Num{C: v}}); got != In {
				t.Errorf("%s: %v is %v", c.text, v, got)
			}
		}
		for _, v := range c.out {
			if got := a.Legal(0, Scalar{Re: Num{C: v}}); got != Out {
				t.Errorf("%s: %v is %v", c.text, v, got)
			}
		}
		if c.undecided && a.Legal(0, Scalar{}) != Undecided {
			t.Errorf("%s: decided", c.text)
		}
	}
}

// Sets meet exactly if some value is in both; checked on points and intervals.
func TestSetsMeet(t *testing.T) {
	f := floatTypes[hlo.F32]
	rapid.Check(t, func(t *rapid.T) {
		x, y := drawNum(t, f, "x"), drawNum(t, f, "y")
		v := x.meets(f, y)
		if w := y.meets(f, x); v != w {
			t.Fatalf("%s meets %s: %v, the other way %v", x.set(f), y.set(f), v, w)
		}
		for _, p := range []float64{x.C, y.C, x.C + x.E, x.C - x.E, inf, -inf, nan} {
			if x.legal(f, p) == In && y.legal(f, p) == In && v == Out {
				t.Fatalf("%s and %s have %v in common", x.set(f), y.set(f), p)
			}
		}
		if x.meets(f, x) == Out {
			t.Fatalf("%s does not meet itself", x.set(f))
		}
	})
}

// Moving elements keeps every column.
func TestMoves(t *testing.T) {
	for _, pt := range arrayTypes() {
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			draw := func(name string) Scalar {
				var s Scalar
				if pt.IsFloat() || pt.IsComplex() {
					s.Re = drawNum(t, realType(pt), name)
					s.Re.Lo = rapid.SampledFrom([]float64{0, 1e-300}).Draw(t, name+" low")
					if pt.IsComplex() {
						s.Im = drawNum(t, realType(pt), name+" imaginary")
					}
				} else {
					s.I = pt.Canonical(rapid.Int64().Draw(t, name))
					s.Undecided = rapid.Bool().Draw(t, name+" undecided")
				}
				s.Contest = Contest(rapid.IntRange(0, 2).Draw(t, name+" contest"))
				return s
			}
			const size = 6
			a := NewArray(pt, 2, 3)
			var want []Scalar
			for i := range size {
				want = append(want, draw(fmt.Sprint("a", i)))
				a.Set(i, want[i])
			}
			same := func(what string, got, want Scalar) {
				t.Helper()
				if got.I != want.I || got.Undecided != want.Undecided || got.Contest != want.Contest || !near(got.Re, want.Re) || !near(got.Im, want.Im) {
					t.Fatalf("%s: %+v, want %+v", what, got, want)
				}
			}
			index := []int32{5, 0, 0, 3}
			p := a.Permute([]int64{4}, index)
			for i, j := range index {
				same("permute", p.At(i), want[j])
			}
			c := a.Clone()
			fill := draw("fill")
			f := Fill(fill, pt, 3)
			for i := range 3 {
				same("fill", f.At(i), fill)
			}
			c.CopyStrided(4, -2, f, 0, 1, 2)
			for i := range size {
				w := want[i]
				if i == 4 || i == 2 {
					w = fill
				}
				same("copy", c.At(i), w)
				same("original", a.At(i), want[i])
			}
			if r := a.Reshape(3, 2); r.Len() != size || !slices.Equal(r.Dims, []int64{3, 2}) {
				t.Fatalf("reshape: %v", r.Dims)
			}
		}))
	}
}

// MatMul agrees with sums of products, element by element, in every type.
func TestMatMulIsSums(t *testing.T) {
	types := []hlo.PrimitiveType{hlo.F32, hlo.F64, hlo.BF16, hlo.F8E4M3FN, hlo.C64, hlo.S32, hlo.U8, hlo.S8, hlo.Pred}
	for _, bounds := range []bool{false, true} {
		t.Run(fmt.Sprint("bounds=", bounds), rapid.MakeCheck(func(t *rapid.T) {
			n := &Numerics{Bounds: bounds}
			pt := rapid.SampledFrom(types).Draw(t, "type")
			batch, rows, cols, inner := rapid.IntRange(1, 2).Draw(t, "batch"), rapid.IntRange(1, 3).Draw(t, "rows"), rapid.IntRange(1, 3).Draw(t, "cols"), rapid.IntRange(0, 4).Draw(t, "inner")
			fill := func(name string, lines int) *Array {
				a := NewArray(pt, int64(batch), int64(lines), int64(inner))
				for i := range a.Len() {
					var s Scalar
					switch {
					case pt.IsFloat() || pt.IsComplex():
						f := realType(pt)
						s.Re.C = f.Round(rapid.Float64Range(-2, 2).Draw(t, name))
						if pt.IsComplex() {
							s.Im.C = f.Round(rapid.Float64Range(-2, 2).Draw(t, name))
						}
						if bounds && rapid.IntRange(0, 9).Draw(t, name+" odd") == 0 {
							s.Re = drawNum(t, f, name+" odd")
						}
					default:
						s.I = pt.Canonical(rapid.Int64().Draw(t, name))
						s.Undecided = bounds && rapid.IntRange(0, 9).Draw(t, name+" odd") == 0
					}
					s.Contest = Contest(rapid.IntRange(0, 1).Draw(t, name+" contest"))
					a.Set(i, s)
				}
				return a
			}
			x, y := fill("x", rows), fill("y", cols)
			r := n.MatMul(pt, x, y, batch, rows, cols, inner)
			for b := range batch {
				for i := range rows {
					for j := range cols {
						s := n.NewSum(pt)
						var size float64
						for l := range inner {
							v, w := x.At((b*rows+i)*inner+l), y.At((b*cols+j)*inner+l)
							s.AddProduct(v, w)
							size += (math.Abs(v.Re.C) + v.Re.E + math.Abs(v.Im.C)) * (math.Abs(w.Re.C) + w.Re.E + math.Abs(w.Im.C))
						}
						want, got := s.Result(), r.At((b*rows+i)*cols+j)
						if got.I != want.I || got.Undecided != want.Undecided || got.Contest&^SignedOverflow != want.Contest&^SignedOverflow {
							t.Fatalf("(%d,%d,%d): %+v, want %+v", b, i, j, got, want)
						}
						if (pt.IsFloat() || pt.IsComplex()) && want.Re.E < inf && got.Re.E < inf && finite(want.Re.C) {
							// Same centre; a bound at least as large as the exact
							// terms give, and of the same size.
							f := realType(pt)
							limit := 8*want.Re.E + 16*size*f.accumulator().eps + f.eps*math.Abs(want.Re.C) + f.minSub + 16*f.accumulator().minNormal
							if math.Abs(got.Re.C-want.Re.C) > 1e-6*math.Abs(want.Re.C)+want.Re.E+16*size*f.eps || got.Re.E > limit && want.Re.K&specials == 0 {
								t.Fatalf("(%d,%d,%d): %+v, want %+v", b, i, j, got.Re, want.Re)
							}
						}
						if got.Re.class()&specials != want.Re.class()&specials && want.Re.E < inf && got.Re.E < inf {
							t.Fatalf("(%d,%d,%d): %+v, want %+v", b, i, j, got.Re, want.Re)
						}
					}
				}
			}
		}))
	}
}

// Every operation that has a legal variation has a row with a source, and
// every row is sane.
func TestBudgetsHaveSources(t *testing.T) {
	rows := Budgets()
	seen := map[hlo.Opcode]map[hlo.PrimitiveType]bool{}
	for _, b := range rows {
		if seen[b.Op] == nil {
			seen[b.Op] = map[hlo.PrimitiveType]bool{}
		}
		seen[b.Op][b.Type] = true
		if b.Source == "" || b.Ulps < 0 || b.Eps < 0 || b.Normals < 0 || b.Ulps+b.Eps == 0 {
			t.Errorf("%+v", b)
		}
	}
	for op := hlo.OpInvalid + 1; op <= hlo.NumOpcodes; op++ {
		for _, pt := range arrayTypes() {
			_, ok := UnaryType(op, pt)
			needs := ok && (functions[op] != nil && pt.IsFloat() || complexFunctions[op] != nil && pt.IsComplex())
			if needs && !seen[op][pt] {
				t.Errorf("no budget of %v on %v", op, pt)
			}
		}
	}
	for _, op := range []hlo.Opcode{hlo.OpDivide, hlo.OpPower, hlo.OpAtan2} {
		if !seen[op][hlo.F32] || !seen[op][hlo.F64] {
			t.Errorf("no budget of %v", op)
		}
	}
}

// A published accuracy contract is met by what it describes: the correctly
// rounded result is legal for every function and type, and a result that is
// off by 50 ULP is not, away from the subnormals and poles.
func TestFunctionsAreBoundedBothWays(t *testing.T) {
	for _, pt := range []hlo.PrimitiveType{hlo.F32, hlo.F64} {
		f := floatTypes[pt]
		t.Run(pt.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := &Numerics{Bounds: true}
			x := f.Round(rapid.Float64Range(0.1, 0.9).Draw(t, "x"))
			for i, fn := range functions {
				op := hlo.Opcode(i)
				if fn == nil || x < fn.lo || x > fn.hi || op == hlo.OpAcosh {
					continue
				}
				r := n.Unary(op, pt, Scalar{Re: Num{C: x}}).Re
				v := f.Round(fn.at(f, ddF(x)).float())
				if r.legal(f, v) != In {
					t.Fatalf("%v(%v): %v is outside %s", op, x, v, r.set(f))
				}
				off := 50 * f.ulp(math.Abs(v))
				if op == hlo.OpCbrt && f.wide {
					off *= 3 // 70 epsilon
				}
				if r.legal(f, f.Round(v+off)) != Out || r.legal(f, f.Round(v-off)) != Out {
					t.Fatalf("%v(%v): 50 ULP off is inside %s", op, x, r.set(f))
				}
			}
		}))
	}
}

// The exponentials of a reported fault: exp(100)*exp(-100) in f32 overflows or
// meets a flushed zero, and is never 1.
func TestOverflowedExponentials(t *testing.T) {
	n := &Numerics{Bounds: true}
	e := func(v float64) Scalar { return n.Unary(hlo.OpExponential, hlo.F32, Scalar{Re: Num{C: v}}) }
	r := n.Binary(hlo.OpMultiply, hlo.F32, e(100), e(-100)).Re
	if got := r.set(floatTypes[hlo.F32]); got != "{inf, nan}" {
		t.Errorf("exp(100)*exp(-100) = %s", got)
	}
	if got := n.Binary(hlo.OpDivide, hlo.F32, e(100), e(100)).Re.set(floatTypes[hlo.F32]); got != "{nan}" {
		t.Errorf("exp(100)/exp(100) = %s", got)
	}
	if got := n.Binary(hlo.OpPower, hlo.F32, Scalar{Re: Num{C: inf}}, Scalar{Re: Num{C: 0.5}}).Re.set(floatTypes[hlo.F32]); got != "{inf}" {
		t.Errorf("inf^0.5 = %s", got)
	}
}
