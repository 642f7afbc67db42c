package fuzz_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
)

// generate reads one generator expression through the case reader.
func generate(t interface {
	Helper()
	Fatalf(string, ...any)
}, expr string) *hlo.Literal {
	t.Helper()
	c, err := fuzz.ReadCase("g.case", []byte("-- module.mlir --\n-- inputs --\n"+expr+"\n"))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return c.Inputs[0]
}

func TestGenerators(t *testing.T) {
	for _, tt := range []struct{ expr, want string }{
		{"iota s32[5]", "s32[5] {0, 1, 2, 3, 4}"},
		{"iota u2[6]", "u2[6] {0, 1, 2, 3, 0, 1}"},
		{"iota f32[2,2]", "f32[2,2] { { 0, 1 }, { 2, 3 } }"},
		{"const f32[2] 1.5", "f32[2] {1.5, 1.5}"},
		{"const f32[2] nan", "f32[2] {nan, nan}"},
		{"const pred[2] true", "pred[2] {1, 1}"},
		{"const u64[1] 18446744073709551615", "u64[1] {18446744073709551615}"},
		{"const s8[] -128", "s8[] -128"},
		{"const c64[1] 2", "c64[1] {(2, 0)}"},
		{"random f32[0] seed=1", "f32[0] {}"},
	} {
		got := strings.Join(strings.Fields(generate(t, tt.expr).String()), "")
		if want := strings.Join(strings.Fields(tt.want), ""); got != want {
			t.Errorf("%s: got %s, want %s", tt.expr, got, want)
		}
	}
}

// TestGeneratedValuesStay pins values: a seed in a case file must mean the same
// for ever.
func TestGeneratedValuesStay(t *testing.T) {
	for _, tt := range []struct {
		expr string
		want []uint64
	}{
		{"random f32[4] seed=1", []uint64{0xbecf147e, 0xbf7217de, 0xbf281e0e, 0xc0072dd7}},
		{"lattice f32[4] seed=1", []uint64{0xc0c00000, 0xc0800000, 0xc0000000, 0xbf800000}},
		{"special f16[4] seed=1", []uint64{0x63d0, 0xb855, 0xbddd, 0x2de6}},
		{"random s32[4] seed=1", []uint64{0xd0, 0xffffc343, 0x4b6e, 0xfffff411}},
		{"random s32[4] seed=1 index=10", []uint64{0xffffffff, 0x2, 0x2, 0x6}},
	} {
		lit := generate(t, tt.expr)
		var got []uint64
		for i := range lit.Shape.Elems() {
			got = append(got, lit.Bits(i))
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: got %#v, want %#v", tt.expr, got, tt.want)
		}
	}
}

var arrayTypes = func() []string {
	var out []string
	for t := hlo.PrimitiveType(1); t < 64; t++ {
		if t.IsArray() {
			out = append(out, t.String())
		}
	}
	return out
}()

func TestGeneratedValuesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"lattice", "random", "special", "iota"}).Draw(t, "kind")
		typ := rapid.SampledFrom(arrayTypes).Draw(t, "type")
		seed := rapid.Uint64Range(0, 1000).Draw(t, "seed")
		n := rapid.Int64Range(0, 40).Draw(t, "n")
		expr := fmt.Sprintf("%s %s[%d]", kind, typ, n)
		if kind != "iota" {
			expr += fmt.Sprintf(" seed=%d", seed)
		}
		a, b := generate(t, expr), generate(t, expr)
		if !bytes.Equal(a.Raw, b.Raw) {
			t.Fatalf("%s: two readings differ", expr)
		}
		// What is written as a literal reads back as the same bits.
		c := generate(t, a.String())
		if !bytes.Equal(a.Raw, c.Raw) {
			t.Fatalf("%s: %s reads back with other bits", expr, a)
		}
	})
}

func TestLatticeIsSmall(t *testing.T) {
	for _, typ := range arrayTypes {
		lit := generate(t, "lattice "+typ+"[200] seed=5")
		distinct := map[string]bool{}
		for i := range lit.Shape.Elems() {
			size := int64(lit.Shape.Type.Bytes())
			distinct[string(lit.Raw[i*size:(i+1)*size])] = true
			if lit.Shape.Type.IsFloat() && !(math.Abs(lit.Float(i)) <= 8) {
				t.Errorf("%s: %v", typ, lit.Float(i))
			}
			if lit.Shape.Type.IsInteger() && (lit.Int(i) > 8 || lit.Int(i) < -8) {
				t.Errorf("%s: %v", typ, lit.Int(i))
			}
		}
		if len(distinct) < 2 {
			t.Errorf("%s: all elements are equal", typ)
		}
	}
}

func TestSpecialHasSpecials(t *testing.T) {
	lit := generate(t, "special f32[400] seed=1")
	var nans, infs, zeros, subnormals int
	for i := range lit.Shape.Elems() {
		switch v := lit.Float(i); {
		case math.IsNaN(v):
			nans++
		case math.IsInf(v, 0):
			infs++
		case v == 0 && math.Signbit(v):
			zeros++
		case v != 0 && math.Abs(v) < 0x1p-126:
			subnormals++
		}
	}
	if nans == 0 || infs == 0 || zeros == 0 || subnormals == 0 {
		t.Errorf("%d NaN, %d infinities, %d negative zeros, %d subnormals", nans, infs, zeros, subnormals)
	}
}

func TestIndexAndCount(t *testing.T) {
	outside := func(expr string, limit int64) int {
		lit := generate(t, expr)
		n := 0
		for i := range lit.Shape.Elems() {
			if v := lit.Int(i); v < 0 || v >= limit {
				n++
			}
		}
		return n
	}
	if n := outside("lattice s32[500] seed=1 index=7", 7); n != 0 {
		t.Errorf("lattice: %d indices outside", n)
	}
	if n := outside("random s32[500] seed=1 index=7", 7); n < 20 || n > 130 {
		t.Errorf("random: %d of 500 indices outside, want about 1 in 8", n)
	}
	if n := outside("special s32[500] seed=1 index=7", 7); n < 130 || n > 370 {
		t.Errorf("special: %d of 500 indices outside, want about 1 in 2", n)
	}
	for _, kind := range []string{"lattice", "random", "special"} {
		if n := outside(kind+" s32[500] seed=1 count=7", 8); n != 0 {
			t.Errorf("%s: %d counts above 7", kind, n)
		}
	}
	// The extent does not fit the type: indices stay what the type can hold.
	if n := outside("lattice u8[500] seed=1 index=300", 256); n != 0 {
		t.Errorf("u8: %d outside", n)
	}
}

func TestStreamsKnowIndicesAndTripCounts(t *testing.T) {
	c, err := fuzz.ReadCase("r.hlo", []byte(`HloModule r

cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  z = s32[] constant(0)
  ROOT c = pred[] compare(i, z), direction=GT
}

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] subtract(i, one)
  ROOT t = (s32[], f32[4]) tuple(j, x)
}

pick {
  x = f32[4] parameter(0)
  k = s16[1] parameter(1)
  k0 = s16[] reshape(k)
  w = s32[] convert(k0)
  ROOT d = f32[2] dynamic-slice(x, w), dynamic_slice_sizes={2}
}

ENTRY e {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  k = s16[1] parameter(2)
  free = s32[3] parameter(3)
  table = f32[9,2] parameter(4)
  rows = s32[5] parameter(5)
  s = (s32[], f32[4]) tuple(n, x)
  w = (s32[], f32[4]) while(s), condition=cond, body=body
  y = f32[4] get-tuple-element(w), index=1
  d = f32[2] call(y, k), to_apply=pick
  g = f32[5,2] gather(table, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}
  ROOT t = (f32[2], s32[3], f32[5,2]) tuple(d, free, g)
}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Streams(1) {
		for i, want := range []string{" count=12", "", " index=4", "", "", " index=9"} {
			line := s.Lines[i]
			if want == "" && (strings.Contains(line, "index") || strings.Contains(line, "count")) || !strings.Contains(line, want) {
				t.Errorf("%s: parameter %d is %q, want %q in it", s.Name, i, line, want)
			}
		}
	}
}

func TestStreamsDependOnSeedAndName(t *testing.T) {
	read := func(name string) *fuzz.Case {
		c, err := fuzz.ReadCase(name, []byte("HloModule m\nENTRY e {\n  ROOT x = f32[64] parameter(0)\n}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := read("a.hlo").Streams(1)
	if b := read("a.hlo").Streams(1); !bytes.Equal(a[1].Inputs[0].Raw, b[1].Inputs[0].Raw) {
		t.Error("the same seed and name give other values")
	}
	if b := read("a.hlo").Streams(2); bytes.Equal(a[1].Inputs[0].Raw, b[1].Inputs[0].Raw) {
		t.Error("another seed gives the same values")
	}
	if b := read("b.hlo").Streams(1); bytes.Equal(a[1].Inputs[0].Raw, b[1].Inputs[0].Raw) {
		t.Error("another name gives the same values")
	}
	// The line of a stream gives the same literal again.
	if got := generate(t, a[1].Lines[0]); !bytes.Equal(got.Raw, a[1].Inputs[0].Raw) {
		t.Errorf("%s gives other values", a[1].Lines[0])
	}
}

// The edge streams of a small program hold every special value of its types in
// every parameter, however few elements that has; large programs have none.
func TestEdgeStreamsHoldEverySpecialValue(t *testing.T) {
	c, err := fuzz.ReadModule("m.hlo", []byte("HloModule m\nENTRY e {\n  x = f32[5] parameter(0)\n  y = s32[8] parameter(1)\n  v = f32[] parameter(2)\n  k = s32[2] parameter(3)\n  z = f32[5] negate(x)\n  ROOT t = (f32[5], s32[8], f32[], s32[2]) tuple(z, y, v, k)\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	seen := [4]map[uint64]bool{{}, {}, {}, {}}
	streams := c.EdgeStreams(7)
	for _, s := range streams {
		for p, l := range s.Inputs {
			for i := range l.Shape.Elems() {
				seen[p][l.Bits(i)] = true
			}
		}
		if again, err := fuzz.ReadCase("m.case", c.WithInputs(s.Inputs, s.Lines, "").Format()); err != nil || !bytes.Equal(again.Inputs[0].Raw, s.Inputs[0].Raw) {
			t.Errorf("%s: %v does not give the same inputs again (%v)", s.Name, s.Lines, err)
		}
	}
	for _, p := range []int{0, 2} {
		for _, want := range []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p31, -104} {
			if !seen[p][uint64(math.Float32bits(want))] {
				t.Errorf("parameter %d: no %v in %d streams", p, want, len(streams))
			}
		}
		nan := false
		for b := range seen[p] {
			nan = nan || math.IsNaN(float64(math.Float32frombits(uint32(b))))
		}
		if !nan {
			t.Errorf("parameter %d: no NaN", p)
		}
	}
	for _, p := range []int{1, 3} {
		for _, want := range []uint32{1 << 31, 1<<31 - 1, math.MaxUint32, 0, 1} {
			if !seen[p][uint64(want)] {
				t.Errorf("parameter %d: no %d", p, int32(want))
			}
		}
	}
	for _, tt := range []struct{ elements, most int }{{4095, 8}, {5000, 0}} {
		large, err := fuzz.ReadModule("m.hlo", fmt.Appendf(nil, "HloModule m\nENTRY e {\n  x = f32[%d] parameter(0)\n  v = s32[] parameter(1)\n  ROOT t = (f32[%d], s32[]) tuple(x, v)\n}\n", tt.elements, tt.elements))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(large.EdgeStreams(7)); n > tt.most || tt.most > 0 && n == 0 {
			t.Errorf("%d edge streams of a program with %d elements, want at most %d", n, tt.elements, tt.most)
		}
	}
}

// Between any two arrays of floats the crossed streams hold every pair of
// special values, in 49 elements; a few elements hold what makes NaN of numbers.
func TestCrossedStreams(t *testing.T) {
	program := func(n int) *fuzz.Case {
		c, err := fuzz.ReadModule("m.hlo", fmt.Appendf(nil, "HloModule m\nENTRY e {\n  x = f32[%d] parameter(0)\n  y = bf16[%d] parameter(1)\n  z = f32[%d] parameter(2)\n  ROOT t = (f32[%d], bf16[%d], f32[%d]) tuple(x, y, z)\n}\n", n, n, n, n, n, n))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	crossed := func(c *fuzz.Case) []fuzz.Stream {
		return slices.DeleteFunc(c.EdgeStreams(7), func(s fuzz.Stream) bool { return !strings.HasPrefix(s.Name, fuzz.CrossedStream) })
	}
	for _, n := range []int{49, 13} {
		pairs := map[[4]uint64]bool{}
		for _, s := range crossed(program(n)) {
			for p := range 3 {
				for q := range p {
					for i := range s.Inputs[p].Shape.Elems() {
						pairs[[4]uint64{uint64(p), uint64(q), s.Inputs[p].Bits(i), s.Inputs[q].Bits(i)}] = true
					}
				}
			}
		}
		if len(pairs) != 3*49 {
			t.Errorf("%d elements: %d pairs of values in 3 pairs of arrays, want 49 each", n, len(pairs))
		}
	}
	zeroTimesInfinity := false
	for _, s := range crossed(program(1)) {
		x, y := s.Inputs[0].Float(0), s.Inputs[1].Float(0)
		zeroTimesInfinity = zeroTimesInfinity || math.IsNaN(x*y) && !math.IsNaN(x) && !math.IsNaN(y)
		if again, err := fuzz.ReadCase("m.case", program(1).WithInputs(s.Inputs, s.Lines, "").Format()); err != nil || !bytes.Equal(again.Inputs[1].Raw, s.Inputs[1].Raw) {
			t.Errorf("%s: %v does not give the same inputs again (%v)", s.Name, s.Lines, err)
		}
	}
	if !zeroTimesInfinity {
		t.Error("no product of scalars is NaN without a NaN")
	}
	one, err := fuzz.ReadModule("m.hlo", []byte("HloModule m\nENTRY e {\n  x = f32[5] parameter(0)\n  ROOT z = f32[5] negate(x)\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(crossed(one)); n != 0 {
		t.Errorf("%d crossed streams of a program with one array", n)
	}
}

// In the lone streams every array of floats holds each of infinity, -infinity and
// NaN once by itself, while its neighbour holds numbers; in the sorted ones the
// first element is the largest, or the last, of every type and within limits.
func TestLoneAndSortedStreams(t *testing.T) {
	for _, text := range []string{
		"ENTRY e {\n  x = f32[9] parameter(0)\n  ROOT z = f32[9] negate(x)\n}",
		"ENTRY e {\n  p = u4[3] parameter(0)\n  x = f16[9] parameter(1)\n  k = c64[2,2] parameter(2)\n  i = s8[300] parameter(3)\n  q = pred[5] parameter(4)\n  s = s32[] parameter(5)\n  r = f16[3] dynamic-slice(x, s), dynamic_slice_sizes={3}\n  ROOT z = (u4[3], f16[3], c64[2,2], s8[300], pred[5]) tuple(p, r, k, i, q)\n}",
	} {
		c, err := fuzz.ReadModule("m.hlo", []byte("HloModule m\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		lone, sorted := map[string]int{}, 0
		for _, s := range c.EdgeStreams(7) {
			if again, err := fuzz.ReadCase("m.case", c.WithInputs(s.Inputs, s.Lines, "").Format()); err != nil || !bytes.Equal(again.Inputs[0].Raw, s.Inputs[0].Raw) {
				t.Errorf("%s: %v does not give the same inputs again (%v)", s.Name, s.Lines, err)
			}
			for p, l := range s.Inputs {
				n := l.Shape.Elems()
				number := func(i int64) float64 {
					switch typ := l.Shape.Type; {
					case typ.IsComplex():
						return real(l.Complex(i))
					case typ.Format() != nil:
						return l.Float(i)
					}
					return float64(l.Int(i))
				}
				switch typ := l.Shape.Type; {
				case strings.HasPrefix(s.Name, fuzz.LoneStream) && typ.Real().Format() != nil:
					var special []float64
					for i := range n {
						if v := number(i); math.IsNaN(v) || math.IsInf(v, 0) {
							special = append(special, v)
						}
					}
					if len(special) > 1 {
						t.Errorf("%s: parameter %d has special values %v", s.Name, p, special)
					}
					lone[fmt.Sprint(p, special)]++
				case strings.HasPrefix(s.Name, fuzz.SortedStream) && n > 1 && !typ.IsComplex():
					sorted++
					first, last := number(0), number(n-1)
					if s.Name == "sorted-1" && first <= last || s.Name == "sorted-2" && first >= last {
						t.Errorf("%s: parameter %d goes from %v to %v", s.Name, p, first, last)
					}
				}
			}
		}
		for p, in := range c.Params() {
			for _, special := range []string{"[+Inf]", "[-Inf]", "[NaN]"} {
				if in.Type.Real().Format() != nil && lone[fmt.Sprint(p, " ", special)] != 1 {
					t.Errorf("%v: parameter %d has %s alone in %d streams, want one: %v", in, p, special, lone[fmt.Sprint(p, " ", special)], lone)
				}
			}
		}
		if sorted == 0 {
			t.Error("no sorted stream")
		}
	}
}

// In the uniform streams a reduction shows what it began with, whatever it does,
// and the values can be written into a case and read again. Very small programs
// get more numbers.
func TestUniformStreams(t *testing.T) {
	for typ := hlo.Pred; typ < 64; typ++ {
		if !typ.IsArray() {
			continue
		}
		c, err := fuzz.ReadModule("m.hlo", fmt.Appendf(nil, "HloModule m\nENTRY e {\n  ROOT x = %s[64] parameter(0)\n}\n", typ))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, s := range c.EdgeStreams(7) {
			if !strings.HasPrefix(s.Name, fuzz.UniformStream) {
				continue
			}
			l := s.Inputs[0]
			seen[s.Lines[0]] = true
			for i := range l.Shape.Elems() {
				if !typ.IsComplex() && l.Bits(i) != l.Bits(0) {
					t.Fatalf("%s: elements differ", s.Lines[0])
				}
			}
			again, err := fuzz.ReadCase("m.case", []byte("-- module.hlo --\n"+c.Module.String()+"-- inputs --\n"+s.Lines[0]+"\n"))
			if err != nil || !slices.Equal(again.Inputs[0].Raw, l.Raw) {
				t.Errorf("%s is not read as it was made: %v", s.Lines[0], err)
			}
		}
		if want := 2; len(seen) != want && (typ.Bits() >= 3 || typ == hlo.Pred) {
			t.Errorf("%s: %d uniform streams, want %d", typ, len(seen), want)
		}
	}
	again := func(n int) (streams []string) {
		c, err := fuzz.ReadModule("m.hlo", fmt.Appendf(nil, "HloModule m\nENTRY e {\n  ROOT x = f32[%d] parameter(0)\n}\n", n))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.EdgeStreams(7) {
			if strings.HasPrefix(s.Name, fuzz.AgainStream) && !slices.Contains(streams, s.Lines[0]) {
				streams = append(streams, s.Lines[0])
			}
		}
		return streams
	}
	if small, large := again(512), again(513); len(small) != 6 || len(large) != 0 {
		t.Errorf("again: %q of 512 elements, %q of 513; want 6 different ones and none", small, large)
	}
	c, err := fuzz.ReadModule("m.hlo", []byte("HloModule m\nand {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = s32[] and(a, b)\n}\nENTRY e {\n  x = s32[64] parameter(0)\n  i = s32[] constant(1)\n  ROOT r = s32[] reduce(x, i), dimensions={0}, to_apply=and\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	shown := false
	for _, s := range slices.Concat(c.Streams(7), c.EdgeStreams(7)) {
		v := int64(-1)
		for i := range s.Inputs[0].Shape.Elems() {
			v &= s.Inputs[0].Int(i)
		}
		shown = shown || v&1 != v
	}
	if !shown {
		t.Error("no stream shows that the reduction begins with 1 instead of -1")
	}
}

// Where an and over either dimension would be zero for many random numbers, the
// along streams give results that differ.
func TestAlongStreams(t *testing.T) {
	for _, typ := range []string{"s32", "u8", "f32", "bf16", "c64", "pred", "s4"} {
		c, err := fuzz.ReadModule("m.hlo", fmt.Appendf(nil, "HloModule m\nENTRY e {\n  x = %s[5,7] parameter(0)\n  y = s32[] parameter(1)\n  ROOT t = (%s[5,7], s32[]) tuple(x, y)\n}\n", typ, typ))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, s := range c.EdgeStreams(7) {
			if !strings.HasPrefix(s.Name, fuzz.AlongStream) {
				continue
			}
			found++
			l := s.Inputs[0]
			at := func(i, j int64) string { return string(l.AppendElement(nil, 7*i+j)) }
			for i := range int64(5) {
				for j := range int64(7) {
					same := at(i, j) == at(i, 0)
					if s.Name == "along-2" {
						same = at(i, j) == at(0, j)
					}
					if !same {
						t.Fatalf("%s: element %d,%d differs: %s", s.Name, i, j, s.Lines[0])
					}
				}
			}
			if at(0, 0) == at(1, 1) {
				t.Errorf("%s: neighbours are equal: %s", s.Name, s.Lines[0])
			}
			again, err := fuzz.ReadCase("m.case", []byte("-- module.hlo --\n"+c.Module.String()+"-- inputs --\n"+strings.Join(s.Lines, "\n")+"\n"))
			if err != nil || !slices.Equal(again.Inputs[0].Raw, l.Raw) {
				t.Errorf("%s is not read as it was made: %v", s.Lines[0], err)
			}
		}
		if found != 2 {
			t.Errorf("%s: %d streams, want 2", typ, found)
		}
	}
}

// Every special value meets both values of a predicate: a fault in one branch may
// show on an infinity only.
func TestEdgesMeetBothBranches(t *testing.T) {
	c, err := fuzz.ReadModule("m.hlo", []byte("HloModule m\nENTRY e {\n  x = f32[6] parameter(0)\n  p = pred[] parameter(1)\n  ROOT t = (f32[6], pred[]) tuple(x, p)\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		seen := map[bool]map[uint64]bool{false: {}, true: {}}
		names := map[string]bool{}
		for _, s := range c.EdgeStreams(seed) {
			if names[s.Name] {
				t.Errorf("two streams are named %s", s.Name)
			}
			names[s.Name] = true
			if strings.HasPrefix(s.Name, fuzz.EdgeStream) {
				for i := range int64(6) {
					seen[s.Inputs[1].Int(0) == 1][s.Inputs[0].Bits(i)] = true
				}
			}
		}
		if len(seen[true]) < 9 || !maps.Equal(seen[true], seen[false]) {
			t.Fatalf("seed %d: %d values with true, %d with false", seed, len(seen[true]), len(seen[false]))
		}
	}
}
