package eval

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
)

// opCase is a module with inputs and the hand-computed value of its result.
// All values are exact, so exact mode must give want bit for bit and bound
// mode must give legal sets of want alone.
type opCase struct {
	name string
	text string // computations; an ENTRY line is wrapped around a bare body
	args []string
	want string // literals, one per leaf, separated by newlines
	// open: the result is not fully determined by HLO; want is one legal
	// result and bound mode must leave the elements that differ from alt open.
	alt string
	// exactOpen: exact mode marks those elements as order dependent, too.
	exactOpen bool
}

const (
	addS32 = "add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }\n"
	addF32 = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
	maxF32 = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
	mulF32 = "mul { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] multiply(a, b) }\n"
	geF32  = "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }\n"
)

func lines(s ...string) string { return strings.Join(s, "\n") }

// parseCase parses text with the layout conventions of HLO text: one
// instruction per line. The table writes short computations on one line.
func parseModule(t testing.TB, text string) *hlo.Module {
	t.Helper()
	if !strings.Contains(text, "HloModule") {
		text = "HloModule m\n\n" + text
	}
	m, err := hlo.Parse("test.hlo", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

func parseValues(t testing.TB, texts ...string) []*Value {
	t.Helper()
	var vs []*Value
	for _, s := range texts {
		l, err := hlo.ParseLiteral(s)
		if err != nil {
			t.Fatalf("%v in %q", err, s)
		}
		vs = append(vs, FromLiteral(l))
	}
	return vs
}

// describe renders the legal sets of a value, one line per leaf.
func describe(v *Value) string {
	var b strings.Builder
	for _, a := range leaves(v) {
		fmt.Fprintf(&b, "%v%v", a.Type, a.Dims)
		if a.Sizes != nil {
			fmt.Fprintf(&b, " of run-time size %v", a.Sizes)
		}
		for i := range a.Len() {
			fmt.Fprintf(&b, " %s", a.LegalSet(i))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (c *opCase) run(t *testing.T, o Options) *Value {
	t.Helper()
	m := parseModule(t, c.text)
	v, err := Run(context.Background(), m, parseValues(t, c.args...), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, c.text)
	}
	return v
}

func (c *opCase) check(t *testing.T) {
	want := parseValues(t, strings.Split(c.want, "\n")...)
	var alt []*Value
	if c.alt != "" {
		alt = parseValues(t, strings.Split(c.alt, "\n")...)
	}
	for _, bounds := range []bool{false, true} {
		got := leaves(c.run(t, Options{Bounds: bounds}))
		if len(got) != len(want) {
			t.Fatalf("bounds=%v: %d leaves, want %d", bounds, len(got), len(want))
		}
		for k, a := range got {
			w := want[k].Array
			if a.Type != w.Type || fmt.Sprint(a.sizes()) != fmt.Sprint(w.Dims) {
				t.Fatalf("bounds=%v: leaf %d is %v%v, want %v%v", bounds, k, a.Type, a.sizes(), w.Type, w.Dims)
			}
			a = a.cut()
			for i := range a.Len() {
				x, y := a.At(i), w.At(i)
				same := sameCentre(x, y) && !x.Undecided && x.Re.E == 0 && x.Im.E == 0
				switch {
				case alt != nil && !sameScalar(alt[k].Array.At(i), y):
					if !bounds && !same {
						t.Errorf("exact mode: leaf %d element %d is %s, want %s", k, i, a.LegalSet(i), ScalarString(a.Type, y))
					}
					if bounds && (a.Legal(i, alt[k].Array.At(i)) == Out || a.Legal(i, y) == Out) {
						t.Errorf("leaf %d element %d: legal set %s, want both %s and %s in it", k, i, a.LegalSet(i),
							ScalarString(a.Type, y), ScalarString(a.Type, alt[k].Array.At(i)))
					}
					if (bounds || c.exactOpen) && x.Contest&OrderDependent == 0 {
						t.Errorf("leaf %d element %d is not marked as order dependent", k, i)
					}
				case !same || x.Contest&OrderDependent != 0:
					t.Errorf("bounds=%v: leaf %d element %d is %s, want %s", bounds, k, i, a.LegalSet(i), ScalarString(a.Type, y))
				}
			}
		}
	}
}

// sameCentre compares centres; zeros of either sign are equal.
func sameCentre(x, y Scalar) bool {
	num := func(a, b Num) bool { return a.C == b.C && a.Lo == b.Lo || a.C != a.C && b.C != b.C }
	return x.I == y.I && num(x.Re, y.Re) && num(x.Im, y.Im)
}

func TestOps(t *testing.T) {
	for _, c := range opCases {
		t.Run(c.name, c.check)
	}
}

var opCases = []opCase{
	// Data movement.
	{name: "broadcast", text: `ENTRY e {
  x = s32[2] parameter(0)
  ROOT r = s32[3,2,2] broadcast(x), dimensions={1}
}`, args: []string{"s32[2] {1, 2}"}, want: "s32[3,2,2] {{{1, 1}, {2, 2}}, {{1, 1}, {2, 2}}, {{1, 1}, {2, 2}}}"},
	{name: "broadcast transposing", text: `ENTRY e {
  x = s32[2,3] parameter(0)
  ROOT r = s32[3,2] broadcast(x), dimensions={1,0}
}`, args: []string{"s32[2,3] {{1, 2, 3}, {4, 5, 6}}"}, want: "s32[3,2] {{1, 4}, {2, 5}, {3, 6}}"},
	{name: "transpose", text: `ENTRY e {
  x = s32[2,3,1] parameter(0)
  ROOT r = s32[1,3,2] transpose(x), dimensions={2,1,0}
}`, args: []string{"s32[2,3,1] {{{1}, {2}, {3}}, {{4}, {5}, {6}}}"}, want: "s32[1,3,2] {{{1, 4}, {2, 5}, {3, 6}}}"},
	{name: "slice with strides", text: `ENTRY e {
  x = s32[3,5] parameter(0)
  ROOT r = s32[2,3] slice(x), slice={[0:3:2], [0:5:2]}
}`, args: []string{"s32[3,5] {{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}, {10, 11, 12, 13, 14}}"}, want: "s32[2,3] {{0, 2, 4}, {10, 12, 14}}"},
	{name: "reverse", text: `ENTRY e {
  x = s32[2,3] parameter(0)
  ROOT r = s32[2,3] reverse(x), dimensions={0,1}
}`, args: []string{"s32[2,3] {{1, 2, 3}, {4, 5, 6}}"}, want: "s32[2,3] {{6, 5, 4}, {3, 2, 1}}"},
	{name: "concatenate", text: `ENTRY e {
  x = s32[2,1] parameter(0)
  y = s32[2,2] parameter(1)
  ROOT r = s32[2,4] concatenate(x, y, x), dimensions={1}
}`, args: []string{"s32[2,1] {{1}, {2}}", "s32[2,2] {{3, 4}, {5, 6}}"}, want: "s32[2,4] {{1, 3, 4, 1}, {2, 5, 6, 2}}"},
	{name: "pad negative low, interior, high", text: `ENTRY e {
  x = s32[4] parameter(0)
  z = s32[] constant(9)
  ROOT r = s32[7] pad(x, z), padding=-1_1_1
}`, args: []string{"s32[4] {1, 2, 3, 4}"}, want: "s32[7] {9, 2, 9, 3, 9, 4, 9}"},
	{name: "pad all away", text: `ENTRY e {
  x = s32[2] parameter(0)
  z = s32[] constant(9)
  ROOT r = s32[1] pad(x, z), padding=-4_3
}`, args: []string{"s32[2] {1, 2}"}, want: "s32[1] {9}"},
	{name: "pad negative high with interior", text: `ENTRY e {
  x = s32[3,2] parameter(0)
  z = s32[] constant(0)
  ROOT r = s32[6,1] pad(x, z), padding=1_-2_2x0_-1
}`, args: []string{"s32[3,2] {{1, 2}, {3, 4}, {5, 6}}"}, want: "s32[6,1] {{0}, {1}, {0}, {0}, {3}, {0}}"},
	{name: "iota", text: `ENTRY e {
  ROOT r = bf16[2,3] iota(), iota_dimension=1
}`, want: "bf16[2,3] {{0, 1, 2}, {0, 1, 2}}"},
	{name: "iota wraps", text: `ENTRY e {
  i = u8[260] iota(), iota_dimension=0
  ROOT r = u8[6] slice(i), slice={[254:260]}
}`, want: "u8[6] {254, 255, 0, 1, 2, 3}"},
	{name: "dynamic-slice clamps", text: `ENTRY e {
  x = s32[4] parameter(0)
  i = s32[] parameter(1)
  j = u32[] parameter(2)
  a = s32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}
  b = s32[2] dynamic-slice(x, j), dynamic_slice_sizes={2}
  ROOT r = (s32[2], s32[2]) tuple(a, b)
}`, args: []string{"s32[4] {1, 2, 3, 4}", "s32[] -7", "u32[] 4294967295"}, want: lines("s32[2] {1, 2}", "s32[2] {3, 4}")},
	{name: "dynamic-update-slice clamps", text: `ENTRY e {
  x = s32[2,4] parameter(0)
  u = s32[1,2] parameter(1)
  i = s8[] parameter(2)
  j = s8[] parameter(3)
  ROOT r = s32[2,4] dynamic-update-slice(x, u, i, j)
}`, args: []string{"s32[2,4] {{1, 2, 3, 4}, {5, 6, 7, 8}}", "s32[1,2] {{10, 20}}", "s8[] 100", "s8[] 3"},
		want: "s32[2,4] {{1, 2, 3, 4}, {5, 6, 10, 20}}"},

	// Gather: the examples of XLA's operation semantics in small.
	{name: "gather rows", text: `ENTRY e {
  x = s32[3,3] parameter(0)
  i = s32[2] parameter(1)
  ROOT r = s32[2,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
}`, args: []string{"s32[3,3] {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}", "s32[2] {0, 2}"}, want: "s32[2,3] {{1, 2, 3}, {7, 8, 9}}"},
	{name: "gather columns", text: `ENTRY e {
  x = s32[3,3] parameter(0)
  i = s32[2] parameter(1)
  ROOT r = s32[3,2] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={3,1}
}`, args: []string{"s32[3,3] {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}", "s32[2] {0, 2}"}, want: "s32[3,2] {{1, 3}, {4, 6}, {7, 9}}"},
	{name: "gather nd, swapped map, clamped", text: `ENTRY e {
  x = s32[3,3] parameter(0)
  i = s32[3,2] parameter(1)
  ROOT r = s32[3,1,2] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=1, slice_sizes={1,2}
}`, args: []string{"s32[3,3] {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}", "s32[3,2] {{0, 1}, {9, 2}, {-1, -1}}"},
		want: "s32[3,1,2] {{{4, 5}}, {{8, 9}}, {{1, 2}}}"},
	{name: "gather with batching dimensions", text: `ENTRY e {
  x = s32[2,3,2] parameter(0)
  i = s32[2,2] parameter(1)
  ROOT r = s32[2,2,2] gather(x, i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,2}
}`, args: []string{"s32[2,3,2] {{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}, {9, 10}, {11, 12}}}", "s32[2,2] {{2, 0}, {1, 1}}"},
		want: "s32[2,2,2] {{{5, 6}, {1, 2}}, {{9, 10}, {9, 10}}}"},
	{name: "gather with the index vector first", text: `ENTRY e {
  x = s32[2,3] parameter(0)
  i = s32[2,2] parameter(1)
  ROOT r = s32[2] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1}
}`, args: []string{"s32[2,3] {{1, 2, 3}, {4, 5, 6}}", "s32[2,2] {{0, 1}, {2, 0}}"}, want: "s32[2] {3, 4}"},

	// Scatter.
	{name: "scatter add with duplicates", text: addS32 + `ENTRY e {
  x = s32[3,2] parameter(0)
  i = s32[3] parameter(1)
  u = s32[3,2] parameter(2)
  ROOT r = s32[3,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}`, args: []string{"s32[3,2] {{1, 2}, {3, 4}, {5, 6}}", "s32[3] {2, 0, 2}", "s32[3,2] {{10, 20}, {30, 40}, {50, 60}}"},
		want: "s32[3,2] {{31, 42}, {3, 4}, {65, 86}}"},
	{name: "scatter skips windows partly outside", text: addS32 + `ENTRY e {
  x = s32[5] parameter(0)
  i = s32[3,1] parameter(1)
  u = s32[3,2] parameter(2)
  ROOT r = s32[5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}`, args: []string{"s32[5] {0, 0, 0, 0, 0}", "s32[3,1] {{4}, {-1}, {3}}", "s32[3,2] {{1, 2}, {3, 4}, {5, 6}}"},
		want: "s32[5] {0, 0, 0, 5, 6}"},
	{name: "scatter set", text: `set { a = s32[] parameter(0) ROOT b = s32[] parameter(1) }
ENTRY e {
  x = s32[4] parameter(0)
  i = s32[2,1] parameter(1)
  u = s32[2] parameter(2)
  ROOT r = s32[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set
}`, args: []string{"s32[4] {1, 2, 3, 4}", "s32[2,1] {{3}, {0}}", "s32[2] {7, 8}"}, want: "s32[4] {8, 2, 3, 7}"},
	{name: "scatter set with duplicates", text: `set { a = s32[] parameter(0) ROOT b = s32[] parameter(1) }
ENTRY e {
  x = s32[4] parameter(0)
  i = s32[3,1] parameter(1)
  u = s32[3] parameter(2)
  ROOT r = s32[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set
}`, args: []string{"s32[4] {1, 2, 3, 4}", "s32[3,1] {{3}, {0}, {3}}", "s32[3] {7, 8, 9}"}, want: "s32[4] {8, 2, 3, 9}", alt: "s32[4] {8, 2, 3, 7}", exactOpen: true},
	{name: "scatter subtract with duplicates that commute", text: `sub { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] subtract(a, b) }
ENTRY e {
  x = s32[2] parameter(0)
  i = s32[3,1] parameter(1)
  u = s32[3] parameter(2)
  ROOT r = s32[2] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sub
}`, args: []string{"s32[2] {100, 100}", "s32[3,1] {{1}, {0}, {1}}", "s32[3] {1, 2, 3}"}, want: "s32[2] {98, 96}"},
	{name: "scatter of two operands", text: `both {
  a = s32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = f32[] parameter(3)
  x = s32[] maximum(a, c)
  y = f32[] add(d, b)
  ROOT r = (s32[], f32[]) tuple(x, y)
}
ENTRY e {
  x = s32[3] parameter(0)
  y = f32[3] parameter(1)
  i = s32[3,1] parameter(2)
  u = s32[3] parameter(3)
  v = f32[3] parameter(4)
  ROOT r = (s32[3], f32[3]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both
}`, args: []string{"s32[3] {5, 5, 5}", "f32[3] {1, 2, 3}", "s32[3,1] {{0}, {2}, {0}}", "s32[3] {9, 1, 7}", "f32[3] {0.5, 4, 8}"},
		want: lines("s32[3] {9, 5, 5}", "f32[3] {9.5, 2, 7}")},
	{name: "scatter with batching dimensions", text: addS32 + `ENTRY e {
  x = s32[2,3] parameter(0)
  i = s32[2,2,1] parameter(1)
  u = s32[2,2] parameter(2)
  ROOT r = s32[2,3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add
}`, args: []string{"s32[2,3] {{0, 0, 0}, {0, 0, 0}}", "s32[2,2,1] {{{0}, {2}}, {{1}, {1}}}", "s32[2,2] {{1, 2}, {3, 4}}"},
		want: "s32[2,3] {{1, 0, 2}, {0, 7, 0}}"},

	// Reductions.
	{name: "reduce", text: addS32 + `ENTRY e {
  x = s32[2,3,2] parameter(0)
  z = s32[] constant(100)
  ROOT r = s32[3] reduce(x, z), dimensions={0,2}, to_apply=add
}`, args: []string{"s32[2,3,2] {{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}, {9, 10}, {11, 12}}}"}, want: "s32[3] {118, 126, 134}"},
	{name: "reduce nothing", text: addS32 + `ENTRY e {
  x = s32[0,2] parameter(0)
  z = s32[] constant(7)
  ROOT r = s32[2] reduce(x, z), dimensions={0}, to_apply=add
}`, args: []string{"s32[0,2] {}"}, want: "s32[2] {7, 7}"},
	{name: "reduce f32 exact", text: addF32 + `ENTRY e {
  x = f32[2,3] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[2] reduce(x, z), dimensions={1}, to_apply=add
}`, args: []string{"f32[2,3] {{1, 2, 3.5}, {-1, 4, 0.25}}"}, want: "f32[2] {6.5, 3.25}"},
	{name: "reduce product", text: mulF32 + `ENTRY e {
  x = f32[4] parameter(0)
  z = f32[] constant(1)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=mul
}`, args: []string{"f32[4] {2, -4, 0.5, 3}"}, want: "f32[] -12"},
	{name: "reduce maximum", text: maxF32 + `ENTRY e {
  x = f32[5,2] parameter(0)
  z = f32[] constant(-inf)
  ROOT r = f32[2] reduce(x, z), dimensions={0}, to_apply=max
}`, args: []string{"f32[5,2] {{1, 9}, {7, 2}, {-3, 4}, {6, 5}, {0, 8}}"}, want: "f32[2] {7, 9}"},
	{name: "reduce and, or, xor", text: `and { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] and(a, b) }
or { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] or(b, a) }
xor { a = u8[] parameter(0) b = u8[] parameter(1) ROOT r = u8[] xor(a, b) }
ENTRY e {
  x = pred[2,3] parameter(0)
  y = u8[3] parameter(1)
  t = pred[] constant(true)
  f = pred[] constant(false)
  z = u8[] constant(0)
  a = pred[2] reduce(x, t), dimensions={1}, to_apply=and
  b = pred[2] reduce(x, f), dimensions={1}, to_apply=or
  c = u8[] reduce(y, z), dimensions={0}, to_apply=xor
  ROOT r = (pred[2], pred[2], u8[]) tuple(a, b, c)
}`, args: []string{"pred[2,3] {{1, 1, 1}, {0, 1, 0}}", "u8[3] {1, 6, 12}"}, want: lines("pred[2] {1, 0}", "pred[2] {1, 1}", "u8[] 11")},
	{name: "arg-max with ties", text: `argmax {
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(v, w), direction=GT
  odd = pred[] compare(v, v), direction=NE
  take = pred[] or(gt, odd)
  m = f32[] select(take, v, w)
  eq = pred[] compare(v, w), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  first = pred[] and(eq, lt)
  left = pred[] or(take, first)
  k = s32[] select(left, i, j)
  ROOT r = (f32[], s32[]) tuple(m, k)
}
ENTRY e {
  x = f32[2,5] parameter(0)
  i = s32[2,5] iota(), iota_dimension=1
  a = f32[] constant(-inf)
  z = s32[] constant(0)
  ROOT r = (f32[2], s32[2]) reduce(x, i, a, z), dimensions={1}, to_apply=argmax
}`, args: []string{"f32[2,5] {{1, 9, 3, 9, 2}, {4, 4, 4, 5, -1}}"}, want: lines("f32[2] {9, 5}", "s32[2] {1, 3}")},
	{name: "reducer that is not associative", text: `sub { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] subtract(a, b) }
ENTRY e {
  x = s32[4] parameter(0)
  z = s32[] constant(0)
  ROOT r = s32[] reduce(x, z), dimensions={0}, to_apply=sub
}`, args: []string{"s32[4] {1, 2, 3, 4}"}, want: "s32[] -10", alt: "s32[] 0"},
	{name: "reduce bf16 by a normalised body", text: `add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  x = f32[] convert(a)
  y = f32[] convert(b)
  s = f32[] add(x, y)
  ROOT r = bf16[] convert(s)
}
ENTRY e {
  x = bf16[3] parameter(0)
  z = bf16[] constant(0)
  ROOT r = bf16[] reduce(x, z), dimensions={0}, to_apply=add
}`, args: []string{"bf16[3] {1, 2, 4}"}, want: "bf16[] 7"},
	{name: "reduce-window", text: addS32 + `ENTRY e {
  x = s32[6] parameter(0)
  z = s32[] constant(0)
  ROOT r = s32[3] reduce-window(x, z), window={size=3 stride=2 pad=1_0}, to_apply=add
}`, args: []string{"s32[6] {1, 2, 4, 8, 16, 32}"}, want: "s32[3] {3, 14, 56}"},
	{name: "reduce-window with dilations and negative padding", text: maxF32 + `ENTRY e {
  x = f32[4] parameter(0)
  z = f32[] constant(-inf)
  ROOT r = f32[3] reduce-window(x, z), window={size=2 pad=-1_-1 lhs_dilate=2 rhs_dilate=2}, to_apply=max
}`, args: []string{"f32[4] {1, 2, 3, 4}"}, want: "f32[3] {-inf, 3, -inf}"},
	{name: "reduce-window of two operands", text: `pick {
  a = s32[] parameter(0)
  i = s32[] parameter(1)
  b = s32[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(a, b), direction=GE
  m = s32[] select(p, a, b)
  k = s32[] select(p, i, j)
  ROOT r = (s32[], s32[]) tuple(m, k)
}
ENTRY e {
  x = s32[4] parameter(0)
  i = s32[4] iota(), iota_dimension=0
  a = s32[] constant(-2147483648)
  z = s32[] constant(-1)
  ROOT r = (s32[2], s32[2]) reduce-window(x, i, a, z), window={size=2 stride=2}, to_apply=pick
}`, args: []string{"s32[4] {3, 5, 7, 1}"}, want: lines("s32[2] {5, 7}", "s32[2] {1, 2}")},
	{name: "select-and-scatter", text: geF32 + addF32 + `ENTRY e {
  x = f32[4,5] parameter(0)
  s = f32[2,2] parameter(1)
  z = f32[] constant(0)
  ROOT r = f32[4,5] select-and-scatter(x, s, z), window={size=2x3 stride=2x2}, select=ge, scatter=add
}`, args: []string{"f32[4,5] {{7, 2, 5, 3, 8}, {3, 8, 9, 3, 4}, {1, 5, 7, 5, 6}, {0, 6, 2, 7, 2}}", "f32[2,2] {{2, 6}, {3, 1}}"},
		want: "f32[4,5] {{0, 0, 0, 0, 0}, {0, 0, 8, 0, 0}, {0, 0, 4, 0, 0}, {0, 0, 0, 0, 0}}"},
	{name: "map", text: `f {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] constant(10)
  m = s32[] multiply(a, c)
  ROOT r = s32[] add(m, b)
}
ENTRY e {
  x = s32[3] parameter(0)
  y = s32[3] parameter(1)
  ROOT r = s32[3] map(x, y), dimensions={0}, to_apply=f
}`, args: []string{"s32[3] {1, 2, 3}", "s32[3] {4, 5, 6}"}, want: "s32[3] {14, 25, 36}"},

	// Sort.
	{name: "sort", text: `lt { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = s32[2,12] parameter(0)
  ROOT r = s32[2,12] sort(x), dimensions={1}, to_apply=lt
}`, args: []string{"s32[2,12] {{5, 3, 9, -1, 4, 4, 0, 8, 2, 7, 6, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}"},
		want: "s32[2,12] {{-1, 0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}"},
	{name: "sort first dimension, descending, with payload, stable", text: `gt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
ENTRY e {
  x = f32[4,1] parameter(0)
  i = s32[4,1] iota(), iota_dimension=0
  ROOT r = (f32[4,1], s32[4,1]) sort(x, i), dimensions={0}, is_stable=true, to_apply=gt
}`, args: []string{"f32[4,1] {{2}, {3}, {2}, {7}}"}, want: lines("f32[4,1] {{7}, {3}, {2}, {2}}", "s32[4,1] {{3}, {1}, {0}, {2}}")},
	{name: "sort with payload, not stable", text: `lt {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = s32[4] parameter(0)
  i = s32[4] iota(), iota_dimension=0
  ROOT r = (s32[4], s32[4]) sort(x, i), dimensions={0}, to_apply=lt
}`, args: []string{"s32[4] {2, 3, 2, 1}"}, want: lines("s32[4] {1, 2, 2, 3}", "s32[4] {3, 0, 2, 1}"), alt: lines("s32[4] {1, 2, 2, 3}", "s32[4] {3, 2, 0, 1}"), exactOpen: true},
	{name: "topk", text: `ENTRY e {
  x = f32[2,4] parameter(0)
  ROOT r = (f32[2,2], s32[2,2]) topk(x), k=2, largest=true
}`, args: []string{"f32[2,4] {{1, 5, 5, 2}, {nan, 3, inf, 4}}"}, want: lines("f32[2,2] {{5, 5}, {nan, inf}}", "s32[2,2] {{1, 2}, {0, 2}}")},
	{name: "topk smallest", text: `ENTRY e {
  x = s32[5] parameter(0)
  ROOT r = (s32[3], s32[3]) topk(x), k=3, largest=false
}`, args: []string{"s32[5] {4, -2, 7, -2, 0}"}, want: lines("s32[3] {-2, -2, 0}", "s32[3] {1, 3, 4}")},

	// Products.
	{name: "dot", text: `ENTRY e {
  x = s32[2,3] parameter(0)
  y = s32[3,2] parameter(1)
  ROOT r = s32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}`, args: []string{"s32[2,3] {{1, 2, 3}, {4, 5, 6}}", "s32[3,2] {{1, 2}, {3, 4}, {5, 6}}"}, want: "s32[2,2] {{22, 28}, {49, 64}}"},
	{name: "dot wraps in the result's type", text: `ENTRY e {
  x = s8[2] parameter(0)
  y = s8[2] parameter(1)
  a = s8[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  b = s32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = (s8[], s32[]) tuple(a, b)
}`, args: []string{"s8[2] {100, 3}", "s8[2] {3, 100}"}, want: lines("s8[] 88", "s32[] 600")},
	{name: "dot with batches and two contracted dimensions", text: `ENTRY e {
  x = f32[2,2,2,1] parameter(0)
  y = f32[2,2,2] parameter(1)
  ROOT r = f32[2,1] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={2}, lhs_contracting_dims={0,2}, rhs_contracting_dims={1,0}
}`, args: []string{"f32[2,2,2,1] {{{{1}, {2}}, {{3}, {4}}}, {{{5}, {6}}, {{7}, {8}}}}", "f32[2,2,2] {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}"},
		// batch b: sum over i, j of x[i,b,j] * y[j,i,b]
		want: "f32[2,1] {{68}, {122}}"},
	{name: "outer product", text: `ENTRY e {
  x = c64[2] parameter(0)
  y = c64[1] parameter(1)
  ROOT r = c64[2,1] dot(x, y)
}`, args: []string{"c64[2] {(1, 2), (0, 1)}", "c64[1] {(3, -1)}"}, want: "c64[2,1] {{(5, 5)}, {(1, 3)}}"},
	{name: "ragged-dot, rows in groups", text: `ENTRY e {
  x = f32[5,2] parameter(0)
  y = f32[2,2,1] parameter(1)
  s = s32[2] parameter(2)
  ROOT r = f32[5,1] ragged-dot(x, y, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
}`, args: []string{"f32[5,2] {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}}", "f32[2,2,1] {{{1}, {1}}, {{10}, {100}}}", "s32[2] {1, 3}"},
		want: "f32[5,1] {{3}, {430}, {650}, {870}, {0}}"},
	{name: "ragged-dot, contracted groups", text: `ENTRY e {
  x = f32[1,4] parameter(0)
  y = f32[4,1] parameter(1)
  s = s32[2] parameter(2)
  ROOT r = f32[2,1,1] ragged-dot(x, y, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}
}`, args: []string{"f32[1,4] {{1, 2, 3, 4}}", "f32[4,1] {{1}, {1}, {10}, {inf}}", "s32[2] {2, 1}"}, want: "f32[2,1,1] {{{3}}, {{30}}}"},
	{name: "ragged-dot, group sizes per batch", text: `ENTRY e {
  x = f32[2,2,1] parameter(0)
  y = f32[2,2,1,1] parameter(1)
  s = s32[2,2] parameter(2)
  ROOT r = f32[2,2,1] ragged-dot(x, y, s), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}
}`, args: []string{"f32[2,2,1] {{{1}, {2}}, {{3}, {4}}}", "f32[2,2,1,1] {{{{1}}, {{10}}}, {{{100}}, {{1000}}}}", "s32[2,2] {{1, 1}, {0, 1}}"},
		// batch 0: row 0 in group 0, row 1 in group 1; batch 1: row 0 in group 1
		want: "f32[2,2,1] {{{1}, {200}}, {{3000}, {0}}}"},
	{name: "convolution", text: `ENTRY e {
  x = f32[1,1,5] parameter(0)
  k = f32[1,1,3] parameter(1)
  ROOT r = f32[1,1,5] convolution(x, k), window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0
}`, args: []string{"f32[1,1,5] {{{1, 2, 3, 4, 5}}}", "f32[1,1,3] {{{1, 10, 100}}}"}, want: "f32[1,1,5] {{{210, 321, 432, 543, 54}}}"},
	{name: "convolution, reversed, strided, dilated", text: `ENTRY e {
  x = f32[1,3,1] parameter(0)
  k = f32[2,1,1] parameter(1)
  ROOT r = f32[1,2,1] convolution(x, k), window={size=2 stride=2 pad=1_0 lhs_dilate=2 rhs_dilate=2 rhs_reversal=1}, dim_labels=b0f_0io->b0f
}`, args: []string{"f32[1,3,1] {{{1}, {2}, {4}}}", "f32[2,1,1] {{{1}}, {{10}}}"},
		// base 1 0 2 0 4 behind one zero: windows see places (0,2) and (2,4): 0,0 and 0,0
		want: "f32[1,2,1] {{{0}, {0}}}"},
	{name: "convolution, feature groups", text: `ENTRY e {
  x = f32[1,2,2] parameter(0)
  k = f32[1,1,4] parameter(1)
  ROOT r = f32[1,2,4] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2
}`, args: []string{"f32[1,2,2] {{{1, 2}, {3, 4}}}", "f32[1,1,4] {{{1, 10, 100, 1000}}}"},
		want: "f32[1,2,4] {{{1, 10, 200, 2000}, {3, 30, 400, 4000}}}"},
	{name: "convolution, batch groups", text: `ENTRY e {
  x = f32[4,1,1] parameter(0)
  k = f32[1,1,2] parameter(1)
  ROOT r = f32[2,1,2] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, batch_group_count=2
}`, args: []string{"f32[4,1,1] {{{1}}, {{2}}, {{3}}, {{4}}}", "f32[1,1,2] {{{1, 10}}}"},
		want: "f32[2,1,2] {{{1, 30}}, {{2, 40}}}"},

	// Control flow.
	{name: "while", text: `body {
  t = (s32[], s32[2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = s32[2] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = s32[2] add(x, x)
  ROOT r = (s32[], s32[2]) tuple(j, y)
}
cond {
  t = (s32[], s32[2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY e {
  z = s32[] constant(0)
  x = s32[2] parameter(0)
  t = (s32[], s32[2]) tuple(z, x)
  ROOT w = (s32[], s32[2]) while(t), condition=cond, body=body
}`, args: []string{"s32[2] {1, 3}"}, want: lines("s32[] 5", "s32[2] {32, 96}")},
	{name: "conditional on pred", text: `yes { a = s32[] parameter(0) ROOT r = s32[] add(a, a) }
no { a = s32[] parameter(0) ROOT r = s32[] negate(a) }
ENTRY e {
  p = pred[] parameter(0)
  x = s32[] constant(5)
  y = s32[] constant(7)
  ROOT r = s32[] conditional(p, x, y), true_computation=yes, false_computation=no
}`, args: []string{"pred[] false"}, want: "s32[] -7"},
	{name: "conditional out of range takes the last branch", text: `a { p = s32[] parameter(0) ROOT r = s32[] constant(1) }
b { p = s32[] parameter(0) ROOT r = s32[] constant(2) }
c { p = s32[] parameter(0) ROOT r = s32[] constant(3) }
ENTRY e {
  i = s32[] parameter(0)
  ROOT r = s32[] conditional(i, i, i, i), branch_computations={a, b, c}
}`, args: []string{"s32[] -1"}, want: "s32[] 3"},
	{name: "fusion and call", text: `f {
  a = s32[2] parameter(0)
  b = s32[2] parameter(1)
  s = s32[2] add(a, b)
  d = s32[2] subtract(a, b)
  ROOT t = (s32[2], s32[2]) tuple(s, d)
}
g { a = s32[2] parameter(0) ROOT r = s32[2] negate(a) }
ENTRY e {
  x = s32[2] parameter(0)
  y = s32[2] parameter(1)
  f = (s32[2], s32[2]) fusion(x, y), kind=kLoop, calls=f
  s = s32[2] get-tuple-element(f), index=0
  d = s32[2] get-tuple-element(f), index=1
  n = s32[2] call(d), to_apply=g
  ROOT r = s32[2] multiply(s, n)
}`, args: []string{"s32[2] {5, 1}", "s32[2] {2, 3}"}, want: "s32[2] {-21, 8}"},
	{name: "scan", text: `step {
  x = s32[2] parameter(0)
  c = s32[2] parameter(1)
  s = s32[2] add(x, c)
  ROOT r = (s32[2], s32[2]) tuple(s, s)
}
ENTRY e {
  x = s32[3,2] parameter(0)
  z = s32[2] parameter(1)
  ROOT r = (s32[3,2], s32[2]) scan(x, z), dimensions={0}, num_carries=1, is_reverse=true, to_apply=step
}`, args: []string{"s32[3,2] {{1, 2}, {3, 4}, {5, 6}}", "s32[2] {10, 20}"}, want: lines("s32[3,2] {{19, 32}, {18, 30}, {15, 26}}", "s32[2] {19, 32}")},
	{name: "async and copies", text: `f { a = s32[2] parameter(0) ROOT r = s32[2] add(a, a) }
ENTRY e {
  x = s32[2] parameter(0)
  s = ((s32[2]), s32[2], u32[]) async-start(x), calls=f
  u = ((s32[2]), s32[2], u32[]) async-update(s)
  d = s32[2] async-done(u)
  cs = (s32[2], s32[2], u32[]) copy-start(d)
  ROOT cd = s32[2] copy-done(cs)
}`, args: []string{"s32[2] {1, 2}"}, want: "s32[2] {2, 4}"},
	{name: "operands bound by async-update", text: `f {
  a = s32[2] parameter(0)
  b = s32[2] parameter(1)
  ROOT r = s32[2] multiply(a, b)
}
ENTRY e {
  x = s32[2] parameter(0)
  y = s32[2] parameter(1)
  s = ((s32[2]), (), u32[]) async-start(x), calls=f
  u = ((s32[2], s32[2]), s32[2], u32[]) async-update(s, y)
  ROOT d = s32[2] async-done(u)
}`, args: []string{"s32[2] {3, 4}", "s32[2] {5, 6}"}, want: "s32[2] {15, 24}"},

	// Layouts.
	{name: "bitcast of a transposed layout", text: `ENTRY e {
  x = s32[2,3]{0,1} parameter(0)
  ROOT r = s32[3,2]{1,0} bitcast(x)
}`, args: []string{"s32[2,3] {{1, 2, 3}, {4, 5, 6}}"}, want: "s32[3,2] {{1, 4}, {2, 5}, {3, 6}}"},
	{name: "bitcast that splits a dimension of a layout", text: `ENTRY e {
  x = s32[4,2]{0,1} parameter(0)
  ROOT r = s32[2,2,2]{1,0,2} bitcast(x)
}`, args: []string{"s32[4,2] {{1, 2}, {3, 4}, {5, 6}, {7, 8}}"}, want: "s32[2,2,2] {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}"},
	{name: "bitcast between tilings", text: `ENTRY e {
  x = s32[4]{0:T(4)} parameter(0)
  ROOT r = s32[1,4]{1,0:T(1,4)} bitcast(x)
}`, args: []string{"s32[4] {1, 2, 3, 4}"}, want: "s32[1,4] {{1, 2, 3, 4}}"},
	{name: "bitcast to a tiled buffer", text: `ENTRY e {
  x = s32[2,2,2,2]{3,2,1,0} parameter(0)
  ROOT r = s32[4,4]{1,0:T(2,2)} bitcast(x)
}`, args: []string{"s32[2,2,2,2] {{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}, {{{9, 10}, {11, 12}}, {{13, 14}, {15, 16}}}}"},
		want: "s32[4,4] {{1, 2, 5, 6}, {3, 4, 7, 8}, {9, 10, 13, 14}, {11, 12, 15, 16}}"},
	{name: "bitcast-convert to a narrower type", text: `ENTRY e {
  x = u32[1] parameter(0)
  ROOT r = u8[1,4] bitcast-convert(x)
}`, args: []string{"u32[1] {67305985}"}, want: "u8[1,4] {{1, 2, 3, 4}}"},

	// Dynamic dimensions.
	{name: "dynamic sizes", text: addS32 + `ENTRY e {
  x = s32[4] parameter(0)
  n = s32[] parameter(1)
  d = s32[<=4] set-dimension-size(x, n), dimensions={0}
  two = s32[<=4] add(d, d)
  z = s32[] constant(0)
  s = s32[] reduce(two, z), dimensions={0}, to_apply=add
  k = s32[] get-dimension-size(two), dimensions={0}
  ROOT r = (s32[], s32[], s32[<=4]) tuple(s, k, two)
}`, args: []string{"s32[4] {1, 2, 3, 4}", "s32[] 3"}, want: lines("s32[] 12", "s32[] 3", "s32[3] {2, 4, 6}")},

	// Collectives of one device.
	{name: "collectives", text: addS32 + `ENTRY e {
  x = s32[2] parameter(0)
  a = s32[2] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
  b = s32[2] all-gather(a), dimensions={0}
  c = s32[2] collective-permute(b), source_target_pairs={{0,0}}
  d = s32[2] reduce-scatter(c), dimensions={0}, replica_groups={{0}}, to_apply=add
  p = u32[] partition-id()
  z = s32[2] collective-permute(x), source_target_pairs={}
  ROOT r = (s32[2], u32[], s32[2]) tuple(d, p, z)
}`, args: []string{"s32[2] {4, 5}"}, want: lines("s32[2] {4, 5}", "u32[] 0", "s32[2] {0, 0}")},
}

func TestUnsupported(t *testing.T) {
	for _, c := range []struct{ name, text, op string }{
		{"outfeed", `ENTRY e {
  x = s32[] parameter(0)
  t = token[] after-all()
  ROOT r = token[] outfeed(x, t), outfeed_shape=s32[]
}`, "outfeed"},
		{"several devices", `ENTRY e {
  x = s32[] parameter(0)
  ROOT r = s32[] collective-broadcast(x), replica_groups={{0,1}}
}`, "collective-broadcast"},
		{"integers of floats", `ENTRY e {
  x = s32[] parameter(0)
  y = bf16[2] constant({1, 2})
  ROOT r = s32[] dot(y, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}`, "dot"},
		{"transform of length 0", `ENTRY e {
  x = s32[] parameter(0)
  y = c64[1] constant({(1, 0)})
  ROOT r = c64[1] fft(y), fft_type=FFT, fft_length={0}
}`, "fft"},
		{"slices of nothing", `ENTRY e {
  x = s32[] parameter(0)
  y = f32[0,2] constant({})
  i = s32[1] reshape(x)
  ROOT r = f32[1,2] gather(y, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={0,2}
}`, "gather"},
		{"random bits without a state", `ENTRY e {
  x = s32[] parameter(0)
  s = u64[2] constant({1, 2})
  ROOT r = u32[4] rng-bit-generator(s), algorithm=rng_three_fry
}`, "rng-bit-generator"},
		{"too large", `ENTRY e {
  x = s32[] parameter(0)
  ROOT r = s32[100000,100000] broadcast(x), dimensions={}
}`, "broadcast"},
		{"maximum of complex numbers in a reduction", `largest { a = c128[] parameter(0) b = c128[] parameter(1) ROOT rm = c128[] maximum(a, b) }
ENTRY e {
  x = s32[] parameter(0)
  y = c128[2] constant({(1, 0), (2, 0)})
  z = c128[] constant((0, 0))
  ROOT r = c128[] reduce(y, z), dimensions={0}, to_apply=largest
}`, "maximum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run(context.Background(), parseModule(t, c.text), parseValues(t, "s32[] 1"), Options{})
			var u *Unsupported
			if !errors.As(err, &u) || u.Op.String() != c.op || !strings.HasPrefix(u.Instruction, "r") {
				t.Fatalf("got %v, want Unsupported %s", err, c.op)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	m := parseModule(t, `body { t = s32[] parameter(0) ROOT r = s32[] add(t, t) }
cond { t = s32[] parameter(0) ROOT r = pred[] constant(true) }
ENTRY e {
  x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=cond, body=body
}`)
	if _, err := Run(context.Background(), m, parseValues(t, "s32[] 1"), Options{MaxSteps: 10000}); !errors.Is(err, ErrStepLimit) {
		t.Errorf("endless loop: %v, want %v", err, ErrStepLimit)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, m, parseValues(t, "s32[] 1"), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	var bad *InputError
	for _, args := range [][]*Value{nil, parseValues(t, "s32[1] {1}"), parseValues(t, "u32[] 1")} {
		if _, err := Run(context.Background(), m, args, Options{}); !errors.As(err, &bad) {
			t.Errorf("%d arguments: %v, want InputError", len(args), err)
		}
	}
}

// TestPadding: what stands behind a run-time size is the implementation's
// choice, and so is a reduction over it whose initial value is no identity.
func TestPadding(t *testing.T) {
	const cut = "ENTRY e {\n  x = s32[4] parameter(0)\n  n = s32[] parameter(1)\n  m = s32[] parameter(2)\n  d = s32[<=4] set-dimension-size(x, n), dimensions={0}\n"
	const second = "second {\n  a = s32[] parameter(0)\n  ROOT b = s32[] parameter(1)\n}\n"
	for _, c := range []struct {
		name, text, n, m string
		want             string // U: undecided
	}{
		{"grown", cut + "  ROOT r = s32[<=4] set-dimension-size(d, m), dimensions={0}\n}", "2", "4", "1 2 U U"},
		{"grown by a part", cut + "  g = s32[<=4] set-dimension-size(d, m), dimensions={0}\n  k = s32[] constant(4)\n  ROOT r = s32[<=4] set-dimension-size(g, k), dimensions={0}\n}", "2", "3", "1 2 U U"},
		{"computed on, then grown", cut + "  a = s32[<=4] add(d, d)\n  ROOT r = s32[<=4] set-dimension-size(a, m), dimensions={0}\n}", "3", "4", "2 4 6 U"},
		{"sum", cut + "  z = s32[] constant(0)\n  ROOT r = s32[] reduce(d, z), dimensions={0}, to_apply=add\n}", "3", "0", "6"},
		{"a static sum of dynamic terms", cut + "  a = s32[4] add(d, d)\n  ROOT r = s32[4] negate(a)\n}", "3", "0", "-2 -4 -6 U"},
		{"sum from seven", cut + "  z = s32[] constant(7)\n  ROOT r = s32[] reduce(d, z), dimensions={0}, to_apply=add\n}", "3", "0", "U"},
		{"the last element", cut + "  z = s32[] constant(0)\n  ROOT r = s32[] reduce(d, z), dimensions={0}, to_apply=second\n}", "3", "0", "U"},
		{"the last of all", cut + "  z = s32[] constant(0)\n  ROOT r = s32[] reduce(d, z), dimensions={0}, to_apply=second\n}", "4", "0", "4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := parseValues(t, "s32[4] {1, 2, 3, 4}", "s32[] "+c.n, "s32[] "+c.m)
			v, err := Run(context.Background(), parseModule(t, addS32+second+c.text), args, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range v.Array.Len() {
				s := v.Array.At(i)
				switch {
				case s.Undecided && s.Contest == Implementation:
					got = append(got, "U")
				case s.Undecided || s.Contest != 0:
					t.Errorf("element %d: %+v", i, s)
				default:
					got = append(got, fmt.Sprint(s.I))
				}
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%s, want %s", g, c.want)
			}
		})
	}
}

// TestTimesOne: an infinite part of a sum of complex products may make the other
// one NaN, and nothing else.
func TestTimesOne(t *testing.T) {
	m := parseModule(t, `ENTRY e {
  x = c64[1] parameter(0)
  y = c64[1] parameter(1)
  ROOT r = c64[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}`)
	for _, c := range []struct {
		y, got string
		want   Verdict
	}{
		{"(3e38, 2)", "(inf, 4)", In}, {"(3e38, 2)", "(inf, nan)", In}, {"(3e38, 2)", "(inf, 5)", Out}, {"(3e38, 2)", "(nan, 4)", Out},
		{"(3, 2)", "(6, 4)", In}, {"(3, 2)", "(6, nan)", Out},
		{"(inf, -inf)", "(inf, -inf)", In}, {"(inf, -inf)", "(nan, nan)", In}, {"(inf, -inf)", "(6, nan)", Out}, {"(nan, 2)", "(inf, nan)", Out},
	} {
		v, err := Run(t.Context(), m, parseValues(t, "c64[1] {(2, 0)}", "c64[1] {"+c.y+"}"), Options{Bounds: true})
		if err != nil {
			t.Fatal(err)
		}
		got := parseValues(t, "c64[] "+c.got)[0].Array.At(0)
		if verdict := v.Array.Legal(0, got); verdict != c.want {
			t.Errorf("%s for 2*%s: %v, want %v", c.got, c.y, verdict, c.want)
		}
	}
}

// TestTotalOrderOfFNUZ: their NaN is the pattern of -0, and implementations differ
// on where it stands.
func TestTotalOrderOfFNUZ(t *testing.T) {
	m := parseModule(t, `less { a = f8e5m2fnuz[] parameter(0) b = f8e5m2fnuz[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e {
  x = f8e5m2fnuz[4] parameter(0)
  y = f8e5m2fnuz[4] parameter(1)
  c = pred[4] compare(x, y), direction=LT, type=TOTALORDER
  s = f8e5m2fnuz[4] sort(x), dimensions={0}, is_stable=true, to_apply=less
  ROOT r = (pred[4], f8e5m2fnuz[4]) tuple(c, s)
}`)
	for _, bounds := range []bool{false, true} {
		v, err := Run(t.Context(), m, parseValues(t, "f8e5m2fnuz[4] {nan, nan, -1, 1}", "f8e5m2fnuz[4] {0, nan, nan, 2}"), Options{Bounds: bounds})
		if err != nil {
			t.Fatal(err)
		}
		c, s := v.Elements[0].Array, v.Elements[1].Array
		for i, want := range []Scalar{{Undecided: true}, {}, {Undecided: true}, {I: 1}} {
			if got := c.At(i); got.Undecided != want.Undecided || !want.Undecided && got.I != want.I {
				t.Errorf("bounds %v: element %d: %+v, want %+v", bounds, i, got, want)
			}
		}
		if x := s.At(0).Re; bounds && x.C == -1 && x.E == 0 && x.K == 0 {
			t.Error("the sort places NaN")
		}
	}
}

// A window over all of a large array is refused before its positions are listed:
// 2^31 of them take 8 GiB.
func TestLargeWindowsTakeNoMemory(t *testing.T) {
	m := parseModule(t, `add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
ENTRY e {
  z = f32[] constant(0)
  x = f32[46592] broadcast(z), dimensions={}
  ROOT r = f32[46592] reduce-window(x, z), window={size=46592 pad=46591_0}, to_apply=add
}`)
	for steps, want := range map[int64]bool{1 << 23: true, 0: false} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Run(t.Context(), m, nil, Options{Bounds: true, MaxSteps: steps})
		runtime.ReadMemStats(&after)
		var u *Unsupported
		if limited := errors.Is(err, ErrStepLimit); limited != want || !limited && !errors.As(err, &u) {
			t.Errorf("limit %d: %v", steps, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<26 {
			t.Errorf("limit %d: %d MiB", steps, used>>20)
		}
	}
}

// TestSortFlushes: a sort of one operand may flush subnormals, one that carries
// others along may not.
func TestSortFlushes(t *testing.T) {
	const less = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }\nboth { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }\n"
	for _, c := range []struct {
		root, got string
		want      Verdict
	}{
		{"ROOT r = f32[2] sort(x), dimensions={0}, to_apply=less", "f32[2] {0, 1}", In},
		{"ROOT r = f32[2] sort(x), dimensions={0}, to_apply=less", "f32[2] {1e-39, 1}", In},
		{"ROOT r = f32[2] sort(x), dimensions={0}, to_apply=less", "f32[2] {2e-38, 1}", Out},
		{"s = (f32[2], s32[2]) sort(x, i), dimensions={0}, to_apply=both\n ROOT r = f32[2] get-tuple-element(s), index=0", "f32[2] {0, 1}", Out},
	} {
		m := parseModule(t, less+"ENTRY e {\n x = f32[2] parameter(0)\n i = s32[2] iota(), iota_dimension=0\n "+c.root+"\n}")
		v, err := Run(t.Context(), m, parseValues(t, "f32[2] {1, 1e-39}"), Options{Bounds: true})
		if err != nil {
			t.Fatal(err)
		}
		if verdict := v.Array.Legal(0, parseValues(t, c.got)[0].Array.At(0)); verdict != c.want {
			t.Errorf("%s for %s: %v, want %v", c.got, c.root, verdict, c.want)
		}
	}
}

// A reduction from another value than the neutral element is contested where the
// initial value shows, for it may be applied any number of times (StableHLO,
// reduce).
func TestReduceFromNoIdentity(t *testing.T) {
	for _, test := range []struct {
		op   string
		init string
		want []Contest
	}{
		{"add", "0", []Contest{0, 0}},
		{"add", "5", []Contest{Implementation, Implementation}},
		{"maximum", "-2147483648", []Contest{0, 0}},
		{"maximum", "2", []Contest{Implementation, 0}}, // of 1, 0 and of 3, 4
		{"multiply", "1", []Contest{0, 0}},
	} {
		m := parseModule(t, `
HloModule m
r {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] `+test.op+`(a, b)
}
ENTRY e {
  x = s32[2,2] constant({{1, 0}, {3, 4}})
  i = s32[] constant(`+test.init+`)
  ROOT y = s32[2] reduce(x, i), dimensions={1}, to_apply=r
}`)
		v, err := Run(t.Context(), m, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range test.want {
			if got := v.Array.At(i).Contest; got != want {
				t.Errorf("%s from %s: element %d is contested for %b, want %b", test.op, test.init, i, got, want)
			}
		}
	}
}
