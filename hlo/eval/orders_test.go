package eval

import (
	"context"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// These tests take the part of an implementation: they compute in f32 in an
// order of their own, and the legal set must contain what they get.

// combine32 folds values in a random tree.
func combine32(t *rapid.T, f func(a, b float32) float32, xs []float32) float32 {
	xs = append([]float32(nil), xs...)
	for len(xs) > 1 {
		i := rapid.IntRange(0, len(xs)-1).Draw(t, "i")
		x := xs[i]
		xs = append(xs[:i], xs[i+1:]...)
		j := rapid.IntRange(0, len(xs)-1).Draw(t, "j")
		xs[j] = f(x, xs[j])
	}
	return xs[0]
}

func flush32(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

func drawFloats(t *rapid.T, label string, n int) []float32 {
	scale := rapid.SampledFrom([]float64{1, 1, 1e3, 1e-3, 1e19, 1e-19, 1e30, 1e-38}).Draw(t, label+" scale")
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = float32(rapid.Float64Range(-1, 1).Draw(t, label) * scale)
		if rapid.IntRange(0, 3).Draw(t, label+" small") == 0 {
			xs[i] = float32(1 / float64(xs[i]))
		}
		if xs[i] != xs[i] || math.IsInf(float64(xs[i]), 0) {
			xs[i] = 1
		}
	}
	return xs
}

func floats(xs []float32, dims ...int64) *Array {
	a := NewArray(hlo.F32, dims...)
	for i, x := range xs {
		a.Re.C[i] = float64(x)
	}
	return a
}

// bounded evaluates one instruction in bound mode.
func bounded(t *rapid.T, in *hlo.Instruction, operands ...*Array) *Array {
	var vs []*Value
	for _, a := range operands {
		in.Operands = append(in.Operands, hlo.NewInstruction("p", hlo.OpParameter, hlo.ArrayShape(a.Type, a.Dims...)))
		vs = append(vs, arrayValue(a))
	}
	v, err := NewEvaluator(context.Background(), Options{Bounds: true}).instruction(in, vs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return leaves(v)[0]
}

func mustContain(t *rapid.T, a *Array, i int, got float32) {
	if a.Legal(i, Scalar{Re: Num{C: float64(got)}}) == Out {
		t.Fatalf("element %d: computed %v, legal %s", i, got, a.LegalSet(i))
	}
}

// instructionsOf builds a scalar computation by hand: log(exp(a)+exp(b)), which is
// associative in real arithmetic and has no recognised kind.
func logAddExp() *hlo.Computation {
	s := hlo.ArrayShape(hlo.F32)
	c := hlo.NewComputation("logaddexp")
	a := hlo.NewInstruction("a", hlo.OpParameter, s)
	b := hlo.NewInstruction("b", hlo.OpParameter, s)
	b.Attr.ParameterNumber = 1
	x := hlo.NewInstruction("x", hlo.OpExponential, s, a)
	y := hlo.NewInstruction("y", hlo.OpExponential, s, b)
	z := hlo.NewInstruction("z", hlo.OpAdd, s, x, y)
	c.Root = hlo.NewInstruction("r", hlo.OpLog, s, z)
	c.Instructions = []*hlo.Instruction{a, b, x, y, z, c.Root}
	return c
}

func TestReductionOrders(t *testing.T) {
	add := func(a, b float32) float32 { return flush32(flush32(a) + flush32(b)) }
	multiply := func(a, b float32) float32 { return flush32(flush32(a) * flush32(b)) }
	lae := func(a, b float32) float32 {
		return float32(math.Log(float64(float32(math.Exp(float64(a))) + float32(math.Exp(float64(b))))))
	}
	for _, c := range []struct {
		name string
		body *hlo.Computation
		init float32
		f    func(a, b float32) float32
	}{
		{"add", binaryComputation(hlo.OpAdd, hlo.F32), 0, add},
		{"multiply", binaryComputation(hlo.OpMultiply, hlo.F32), 1, multiply},
		{"maximum", binaryComputation(hlo.OpMaximum, hlo.F32), float32(math.Inf(-1)), func(a, b float32) float32 { return max(flush32(a), flush32(b)) }},
		{"logaddexp", logAddExp(), -1, lae},
	} {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(1, 9).Draw(t, "n")
				var xs []float32
				if c.name == "logaddexp" {
					for range n {
						xs = append(xs, float32(rapid.Float64Range(-4, 4).Draw(t, "x")))
					}
				} else {
					xs = drawFloats(t, "x", n)
				}
				in := hlo.NewInstruction("r", hlo.OpReduce, hlo.ArrayShape(hlo.F32))
				in.Attr.Dimensions = []int64{0}
				in.Called = []*hlo.Computation{c.body}
				r := bounded(t, in, floats(xs, int64(n)), floats([]float32{c.init}))
				mustContain(t, r, 0, combine32(t, c.f, append(xs, c.init)))
			})
		})
	}
}

func TestDotOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		xs, ys := drawFloats(t, "x", n), drawFloats(t, "y", n)
		in := hlo.NewInstruction("d", hlo.OpDot, hlo.ArrayShape(hlo.F32))
		in.Attr.DotDimensionNumbers = &hlopb.DotDimensionNumbers{LhsContractingDimensions: []int64{0}, RhsContractingDimensions: []int64{0}}
		r := bounded(t, in, floats(xs, int64(n)), floats(ys, int64(n)))
		// Plain products in any tree, or a chain of fused multiply-adds.
		products := make([]float32, n)
		chain := float32(0)
		for i := range xs {
			products[i] = flush32(xs[i] * ys[i])
			chain = flush32(float32(math.FMA(float64(xs[i]), float64(ys[i]), float64(chain))))
		}
		mustContain(t, r, 0, combine32(t, func(a, b float32) float32 { return flush32(a + b) }, products))
		mustContain(t, r, 0, chain)
	})
}

func TestScatterOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		op := rapid.SampledFrom([]hlo.Opcode{hlo.OpAdd, hlo.OpMultiply, hlo.OpMaximum, hlo.OpInvalid}).Draw(t, "op")
		body := binaryComputation(hlo.OpAdd, hlo.F32)
		f := func(a, b float32) float32 { return flush32(a + b) }
		switch op {
		case hlo.OpMultiply:
			body = binaryComputation(op, hlo.F32)
			f = func(a, b float32) float32 { return flush32(flush32(a) * flush32(b)) }
		case hlo.OpMaximum:
			body = binaryComputation(op, hlo.F32)
			f = func(a, b float32) float32 { return max(a, b) }
		case hlo.OpInvalid: // the update itself
			body.Root = body.Instructions[1]
			f = func(a, b float32) float32 { return b }
		}
		operand, updates := drawFloats(t, "operand", 3), drawFloats(t, "update", n)
		indices := NewArray(hlo.S32, int64(n), 1)
		result := append([]float32(nil), operand...)
		for i := range n {
			indices.I[i] = rapid.Int64Range(0, 3).Draw(t, "index") // 3 is outside
		}
		for _, i := range rapid.Permutation(indexes(n)).Draw(t, "order") {
			if at := indices.I[i]; at < 3 {
				result[at] = f(result[at], updates[i])
			}
		}
		in := hlo.NewInstruction("s", hlo.OpScatter, hlo.ArrayShape(hlo.F32, 3))
		in.Called = []*hlo.Computation{body}
		in.Attr.ScatterDimensionNumbers = &hlopb.ScatterDimensionNumbers{
			InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1,
		}
		// An index may be uncertain, too.
		if rapid.Bool().Draw(t, "uncertain") {
			i := rapid.IntRange(0, n-1).Draw(t, "which")
			indices.Set(i, ranged(hlo.S32, indices.I[i]-rapid.Int64Range(0, 1).Draw(t, "below"), indices.I[i]+rapid.Int64Range(0, 2).Draw(t, "above"), 0))
		}
		r := bounded(t, in, floats(operand, 3), indices, floats(updates, int64(n)))
		for i, x := range result {
			mustContain(t, r, i, x)
		}
	})
}

// TestUncertainControl runs loops and branches on uncertain conditions.
func TestUncertainControl(t *testing.T) {
	loop := parseModule(t, `body {
  t = (f32[], s32[], f32[2]) parameter(0)
  x = f32[] get-tuple-element(t), index=0
  i = s32[] get-tuple-element(t), index=1
  k = f32[2] get-tuple-element(t), index=2
  half = f32[] constant(0.5)
  y = f32[] multiply(x, half)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[], s32[], f32[2]) tuple(y, j, k)
}
cond {
  t = (f32[], s32[], f32[2]) parameter(0)
  x = f32[] get-tuple-element(t), index=0
  one = f32[] constant(1)
  ROOT r = pred[] compare(x, one), direction=GT
}
ENTRY e {
  x = f32[] parameter(0)
  k = f32[2] parameter(1)
  z = s32[] constant(0)
  t = (f32[], s32[], f32[2]) tuple(x, z, k)
  ROOT w = (f32[], s32[], f32[2]) while(t), condition=cond, body=body
}`)
	branch := parseModule(t, `yes { a = f32[] parameter(0) ROOT r = f32[] add(a, a) }
no { a = f32[] parameter(0) ROOT r = f32[] negate(a) }
ENTRY e {
  x = f32[] parameter(0)
  one = f32[] constant(1)
  p = pred[] compare(x, one), direction=GT
  ROOT r = f32[] conditional(p, x, x), true_computation=yes, false_computation=no
}`)
	endless := parseModule(t, `body { t = f32[] parameter(0) ROOT r = f32[] add(t, t) }
cond {
  t = f32[] parameter(0)
  ROOT r = pred[] compare(t, t), direction=EQ
}
ENTRY e {
  x = f32[] parameter(0)
  ROOT w = f32[] while(x), condition=cond, body=body
}`)
	uncertain := func(c, e float64) *Value {
		a := NewArray(hlo.F32)
		a.Set(0, Scalar{Re: Num{C: c, E: e}})
		return arrayValue(a)
	}
	for _, c := range []struct {
		name string
		m    *hlo.Module
		args []*Value
		want string
	}{
		// 4 +- 1/4 leaves after two or three halvings.
		{"loop", loop, []*Value{uncertain(4, 0.25), parseValues(t, "f32[2] {7, 8}")[0]},
			"f32[] [0.7656250149 ± 0.297]\ns32[] [2..3]\nf32[2] {7} {8}\n"},
		{"decided loop", loop, []*Value{uncertain(6, 0.25), parseValues(t, "f32[2] {7, 8}")[0]},
			"f32[] [0.75 ± 0.0313]\ns32[] {3}\nf32[2] {7} {8}\n"},
		{"branch", branch, []*Value{uncertain(1, 0.25)}, "f32[] [0.6250000596 ± 1.88]\n"},
		{"loop without information", endless, []*Value{{Array: undecidedArray(hlo.F32, 0)}}, "f32[] any\n"},
	} {
		v, err := Run(t.Context(), c.m, c.args, Options{Bounds: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := describe(v); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.name, got, c.want)
		}
	}
}

// TestUnorderedSort sorts keys on which the comparator is no strict weak order.
func TestUnorderedSort(t *testing.T) {
	for _, c := range []struct{ name, direction, keys, want string }{
		{"NaN among others", "LT", "f32[3] {nan, 2, 1}", "f32[3] any any any\n"},
		{"NaN alone", "LT", "f32[1] {nan}", "f32[1] {nan}\n"},
		{"reflexive comparator", "LE", "f32[2] {2, 3}", "f32[2] {2} {3}\n"},
		{"reflexive comparator of equal elements", "LE", "f32[2] {2, 2}", "f32[2] any any\n"},
		{"zeros", "LT", "f32[2] {0, -0}", "f32[2] {0, -0} {0, -0}\n"},
	} {
		m := parseModule(t, `cmp { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=`+c.direction+` }
ENTRY e {
  x = f32[`+c.keys[4:5]+`] parameter(0)
  ROOT r = f32[`+c.keys[4:5]+`] sort(x), dimensions={0}, to_apply=cmp
}`)
		v, err := Run(t.Context(), m, parseValues(t, c.keys), Options{Bounds: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(v); got != c.want {
			t.Errorf("%s: got %s want %s", c.name, got, c.want)
		}
	}
}

// TestSortByKeys sorts by comparators whose keys are made once: the same as
// comparison by comparison, which a comparator gets that does more than compare.
func TestSortByKeys(t *testing.T) {
	ordered := func(p, to string) string {
		return strings.NewReplacer("P", p, "TO", to).Replace(` bTO = s32[] bitcast-convert(P) nTO = pred[] compare(bTO, zero), direction=LT xTO = s32[] xor(most, bTO) TO = s32[] select(nTO, xTO, bTO)`)
	}
	const constants = " zero = s32[] constant(0) most = s32[] constant(2147483647)"
	for _, c := range []struct {
		name, body, root string
		keys             bool
	}{
		{"total order, as expanded", constants + ordered("a", "k") + ordered("b", "l"), "compare(k, l), direction=LT", true},
		{"the other way round", constants + ordered("a", "k") + ordered("b", "l"), "compare(l, k), direction=GT", true},
		{"descending", constants + ordered("b", "k") + ordered("a", "l"), "compare(k, l), direction=LT", true},
		{"magnitudes", " k = f32[] abs(a) l = f32[] abs(b)", "compare(k, l), direction=LT", true},
		{"two operands", " m = s32[] convert(a) o = s32[] convert(b) k = s32[] add(m, c) l = s32[] add(o, d)", "compare(k, l), direction=GT", true},
		{"in calls", " k = f32[] call(a), to_apply=magnitude l = f32[] call(b), to_apply=magnitude", "compare(k, l), direction=LT", true},
		{"a call that compares", " k = f32[] abs(a) l = f32[] abs(b)", "call(k, l), to_apply=before", true},
		{"different functions", " k = f32[] abs(a) l = f32[] negate(b)", "compare(k, l), direction=LT", false},
		{"a key of both sides", " k = f32[] add(a, b) l = f32[] add(b, a)", "compare(k, l), direction=LT", false},
		{"one side twice", " k = f32[] abs(a) l = f32[] abs(a)", "compare(k, l), direction=LT", false},
	} {
		text := func(more string) *hlo.Module {
			root := c.root
			if more != "" {
				root = "or(z, never)"
				more = " z = pred[] " + c.root + " never = pred[] constant(false)"
			}
			return parseModule(t, "magnitude { p = f32[] parameter(0) ROOT r = f32[] abs(p) }\nbefore { q = f32[] parameter(1) p = f32[] parameter(0) ROOT r = pred[] compare(p, q), direction=LT }\ncmp { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)"+c.body+more+" ROOT r = pred[] "+root+` }
ENTRY e {
  x = f32[12] parameter(0)
  y = s32[12] parameter(1)
  ROOT r = (f32[12], s32[12]) sort(x, y), dimensions={0}, is_stable=true, to_apply=cmp
}`)
		}
		root := inlined(text("").Entry.Root.Called[0]).Root
		if _, ok := sameKey(root.Operands[0], root.Operands[1]); ok != c.keys {
			t.Errorf("%s: keys are found: %v", c.name, ok)
		}
		rapid.Check(t, func(r *rapid.T) {
			keys, payload := NewArray(hlo.F32, 12), NewArray(hlo.S32, 12)
			for i := range 12 {
				x := rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, 2, -2, 3, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40}).Draw(r, "key")
				keys.Set(i, Scalar{Re: Num{C: x}})
				payload.I[i] = int64(rapid.IntRange(-2, 2).Draw(r, "payload"))
			}
			var got [2]string
			for k, more := range []string{"", "more"} {
				v, err := Run(t.Context(), text(more), []*Value{arrayValue(keys), arrayValue(payload)}, Options{Bounds: true})
				if err != nil {
					r.Fatal(err)
				}
				got[k] = describe(v)
			}
			if got[0] != got[1] {
				r.Fatalf("%s: by keys\n%sby comparisons\n%s", c.name, got[0], got[1])
			}
		})
	}
}
