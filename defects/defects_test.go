package defects_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// samples has one program for each kind, in which the kind finds a place, and
// inputs that show it.
var samples = []struct{ kinds, op, module, inputs string }{
	{"operands-swapped left-operand-dropped right-operand-dropped operand-repeated opcode-wrong", "subtract",
		"  x = s32[4] parameter(0)\n  y = s32[4] parameter(1)\n  ROOT r = s32[4] subtract(x, y)\n", "s32[4] {1, 2, 3, 4}\ns32[4] {9, 7, 5, 3}"},
	{"operation-dropped", "negate", "  x = s32[4] parameter(0)\n  ROOT r = s32[4] negate(x)\n", "s32[4] {1, 2, 3, 4}"},
	{"select-swapped", "select", "  p = pred[2] parameter(0)\n  x = s32[2] parameter(1)\n  y = s32[2] parameter(2)\n  ROOT r = s32[2] select(p, x, y)\n",
		"pred[2] {0, 1}\ns32[2] {1, 2}\ns32[2] {3, 4}"},
	{"clamp-bounds-swapped", "clamp", "  a = s32[2] parameter(0)\n  x = s32[2] parameter(1)\n  b = s32[2] parameter(2)\n  ROOT r = s32[2] clamp(a, x, b)\n",
		"s32[2] {0, 0}\ns32[2] {2, 9}\ns32[2] {5, 5}"},
	{"tuple-element-wrong", "get-tuple-element", "  x = s32[2] parameter(0)\n  y = s32[2] parameter(1)\n  t = (s32[2], s32[2]) tuple(x, y)\n  ROOT r = s32[2] get-tuple-element(t), index=0\n",
		"s32[2] {1, 2}\ns32[2] {3, 4}"},
	{"transpose-permutation reverse-added", "transpose", "  x = s32[2,2] parameter(0)\n  ROOT r = s32[2,2] transpose(x), dimensions={1,0}\n", "s32[2,2] {{1, 2}, {3, 4}}"},
	{"broadcast-dimensions", "broadcast", "  x = s32[2] parameter(0)\n  ROOT r = s32[2,2] broadcast(x), dimensions={1}\n", "s32[2] {1, 2}"},
	{"reduce-dimension reduce-identity reduction-wrong", "reduce", "  x = s32[2,2] parameter(0)\n  z = s32[] constant(0)\n  ROOT r = s32[2] reduce(x, z), dimensions={0}, to_apply=add\n", "s32[2,2] {{1, 2}, {3, 4}}"},
	{"reverse-dimension", "reverse", "  x = s32[2,2] parameter(0)\n  ROOT r = s32[2,2] reverse(x), dimensions={0}\n", "s32[2,2] {{1, 2}, {3, 4}}"},
	{"sort-dimension", "sort", "  x = s32[2,2] parameter(0)\n  ROOT r = s32[2,2] sort(x), dimensions={0}, to_apply=less\n", "s32[2,2] {{4, 3}, {2, 1}}"},
	{"iota-dimension iota-reversed", "iota", "  ROOT r = s32[2,2] iota(), iota_dimension=0\n", ""},
	{"concatenate-order rotated", "concatenate", "  x = s32[2] parameter(0)\n  y = s32[2] parameter(1)\n  ROOT r = s32[4] concatenate(x, y), dimensions={0}\n", "s32[2] {1, 2}\ns32[2] {3, 4}"},
	{"transposed", "reshape", "  x = s32[4] parameter(0)\n  ROOT r = s32[2,2] reshape(x)\n", "s32[4] {1, 2, 3, 4}"},
	{"slice-start slice-stride", "slice", "  x = s32[8] parameter(0)\n  ROOT r = s32[3] slice(x), slice={[0:6:2]}\n", "s32[8] {1, 2, 3, 4, 5, 6, 7, 8}"},
	{"pad-shifted padding-value", "pad", "  x = s32[2] parameter(0)\n  z = s32[] constant(0)\n  ROOT r = s32[5] pad(x, z), padding=1_2\n", "s32[2] {7, 8}"},
	{"window-shifted window-identity", "reduce-window", "  x = s32[4] parameter(0)\n  z = s32[] constant(0)\n  ROOT r = s32[3] reduce-window(x, z), window={size=2}, to_apply=add\n", "s32[4] {1, 2, 3, 4}"},
	{"constant-off-by-one", "constant", "  x = s32[2] parameter(0)\n  c = s32[2] constant({1, 2})\n  ROOT r = s32[2] add(x, c)\n", "s32[2] {1, 2}"},
	{"comparison-strict comparison-reversed", "compare", "  x = s32[2] parameter(0)\n  y = s32[2] parameter(1)\n  ROOT r = pred[2] compare(x, y), direction=LT\n", "s32[2] {1, 2}\ns32[2] {1, 5}"},
	{"branches-swapped", "conditional", "  p = pred[] parameter(0)\n  x = s32[] parameter(1)\n  ROOT r = s32[] conditional(p, x, x), true_computation=one, false_computation=two\n", "pred[] 1\ns32[] 5"},
	{"convert-lost rounded-first", "convert", "  x = f32[2] parameter(0)\n  ROOT r = s32[2] convert(x)\n", "f32[2] {1.75, 2.5}"},
	{"signedness-lost", "convert", "  x = s8[2] parameter(0)\n  ROOT r = s32[2] convert(x)\n", "s8[2] {-1, 2}"},
	{"narrow-round-trip", "add", "  x = s32[2] parameter(0)\n  ROOT r = s32[2] add(x, x)\n", "s32[2] {1000, 2}"},
	{"nan-lost", "multiply", "  x = f32[2] parameter(0)\n  ROOT r = f32[2] multiply(x, x)\n", "f32[2] {nan, 1}"},
	{"infinity-lost", "multiply", "  x = f32[2] parameter(0)\n  ROOT r = f32[2] multiply(x, x)\n", "f32[2] {inf, 1}"},
	{"negative-zero-lost", "negate", "  x = f32[2] parameter(0)\n  ROOT r = f32[2] negate(x)\n", "f32[2] {0, 1}"},
	{"one-in-ten-thousand", "negate", "  x = s32[10000] parameter(0)\n  ROOT r = s32[10000] negate(x)\n", "iota s32[10000]"},
	{"tail-element first-element", "negate", "  x = s32[2,3] parameter(0)\n  ROOT r = s32[2,3] negate(x)\n", "iota s32[2,3]"},
	{"dynamic-start-off-by-one dynamic-clamp-lost", "dynamic-slice", "  x = s32[6] parameter(0)\n  i = s32[] parameter(1)\n  j = s32[] parameter(2)\n  a = s32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}\n  b = s32[2] dynamic-slice(x, j), dynamic_slice_sizes={2}\n  ROOT r = s32[2] add(a, b)\n",
		"iota s32[6]\ns32[] 1\ns32[] 1"},
	{"gather-index-map", "gather", "  x = s32[3,3] parameter(0)\n  i = s32[1,2] parameter(1)\n  ROOT r = s32[1] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}\n",
		"iota s32[3,3]\ns32[1,2] {{0, 2}}"},
	{"gather-offset-dimensions", "gather", "  x = s32[3,3] parameter(0)\n  i = s32[1] parameter(1)\n  ROOT r = s32[1,2,2] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={2,2}\n",
		"iota s32[3,3]\ns32[1] {1}"},
	{"scatter-index-map scatter-combiner update-lost", "scatter", "  x = s32[3,3] parameter(0)\n  i = s32[1,2] parameter(1)\n  u = s32[1] parameter(2)\n  ROOT r = s32[3,3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add\n",
		"iota s32[3,3]\ns32[1,2] {{0, 2}}\ns32[1] {50}"},
	{"dot-contracting", "dot", "  x = s32[2,2] parameter(0)\n  y = s32[2,2] parameter(1)\n  ROOT r = s32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n", "s32[2,2] {{1, 2}, {3, 4}}\ns32[2,2] {{1, 0}, {5, 1}}"},
	{"convolution-kernel-dimensions window-reversal", "convolution", "  x = f32[1,4,4,2] parameter(0)\n  k = f32[2,2,2,2] parameter(1)\n  ROOT r = f32[1,3,3,2] convolution(x, k), window={size=2x2}, dim_labels=b01f_01io->b01f\n", "lattice f32[1,4,4,2] seed=1\nlattice f32[2,2,2,2] seed=2"},
	{"update-replaces-all", "dynamic-update-slice", "  x = s32[4] parameter(0)\n  u = s32[1] parameter(1)\n  i = s32[] constant(0)\n  j = s32[] constant(2)\n  a = s32[4] dynamic-update-slice(x, u, i)\n  ROOT r = s32[4] dynamic-update-slice(a, u, j)\n", "iota s32[4]\ns32[1] {50}"},
	{"1-bits-lost 2-bits-lost 3-bits-lost 4-bits-lost 5-bits-lost 6-bits-lost 7-bits-lost 8-bits-lost", "negate", "  x = f32[4] parameter(0)\n  ROOT r = f32[4] negate(x)\n", "f32[4] {1.00000012, 1.1, 1.7, 1.3}"},
}

const bodies = `
add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}
less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
one {
  a = s32[] parameter(0)
  ROOT n = s32[] negate(a)
}
two {
  a = s32[] parameter(0)
  ROOT n = s32[] add(a, a)
}
`

func TestEveryKindChangesWhatItsProgramMeans(t *testing.T) {
	tried := map[string]bool{}
	for _, tt := range samples {
		for _, name := range strings.Fields(tt.kinds) {
			t.Run(name, func(t *testing.T) {
				tried[name] = true
				kind, ok := defects.ByName(name)
				if !ok {
					t.Fatal("no such kind")
				}
				text := "-- module.hlo --\nHloModule m\n" + bodies + "\nENTRY e {\n" + tt.module + "}\n"
				if tt.inputs != "" {
					text += "-- inputs --\n" + tt.inputs + "\n"
				}
				c, err := fuzz.ReadCase("m.case", []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				before := c.Module.String()
				c0, i0 := find(t, c.Module, tt.op)
				p, ok := defects.At(c.Module, kind, c0, i0)
				if !ok {
					t.Fatalf("%s finds no place at %s", name, tt.op)
				}
				if c.Module.String() != before {
					t.Error("the module itself was changed")
				}
				inputs := c.Inputs
				if name == "dynamic-clamp-lost" {
					inputs = slices.Clone(inputs)
					for k := 1; k < len(inputs); k++ { // only a start beyond the end shows it
						l := hlo.NewLiteral(inputs[k].Shape)
						l.SetInt(0, 100)
						inputs[k] = l
					}
				}
				if !differ(t, c.Module, p.Module, inputs) {
					t.Errorf("the meaning did not change:\n%s", p.Module)
				}
				if len(p.Names) == 0 {
					t.Error("no instruction to blame")
				}
			})
		}
	}
	for _, k := range defects.Catalogue {
		if !tried[k.Name] {
			t.Errorf("no sample for %s", k.Name)
		}
		if !slices.Contains(defects.Classes, k.Class) {
			t.Errorf("%s: class %q is not listed", k.Name, k.Class)
		}
	}
}

// find is the last instruction of an opcode in the entry.
func find(t *testing.T, m *hlo.Module, op string) (computation, instruction int) {
	t.Helper()
	ci := slices.Index(m.Computations, m.Entry)
	at := -1
	for ii, in := range m.Entry.Instructions {
		if in.Op.String() == op {
			at = ii
		}
	}
	if at < 0 {
		t.Fatalf("no %s", op)
	}
	return ci, at
}

// differ reports whether some element's legal sets have no value in common.
func differ(t *testing.T, a, b *hlo.Module, inputs []*hlo.Literal) bool {
	t.Helper()
	run := func(m *hlo.Module) *eval.Array {
		args := make([]*eval.Value, len(inputs))
		for i, l := range inputs {
			args[i] = eval.FromLiteral(l)
		}
		v, err := eval.Run(t.Context(), m, args, eval.Options{Bounds: true})
		if err != nil {
			t.Fatal(err)
		}
		return v.Array
	}
	x, y := run(a), run(b)
	for i := range x.Len() {
		if x.Meets(y, i) == eval.Out {
			return true
		}
	}
	return false
}

func TestDefectTakesTheFirstMatch(t *testing.T) {
	c, err := fuzz.ReadModule("m.hlo", []byte("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  y = s32[4] parameter(1)\n  a = f32[4] subtract(x, x)\n  b = s32[4] negate(y)\n  c = s32[4] subtract(y, b)\n  d = s32[4] subtract(b, y)\n  ROOT t = (f32[4], s32[4], s32[4]) tuple(a, c, d)\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := defects.ByName("operands-swapped")
	d := defects.Defect{Kind: kind, Op: hlo.OpSubtract, Type: hlo.S32}
	p, ok := d.Apply(c.Module)
	if !ok || !slices.Equal(p.Names, []string{"c"}) {
		t.Fatalf("planted at %v (%v), want c", p.Names, ok)
	}
	if got := p.Module.Instruction("c").Operands[0].Name; got != "b" {
		t.Errorf("first operand is %s, want b", got)
	}
	d.Op = hlo.OpDivide
	if _, ok := d.Apply(c.Module); ok {
		t.Error("planted at an opcode that is not there")
	}
}

// TestPlanterIsFresh makes all mistakes at all places of some programs with one
// planter each: what finds no place leaves nothing behind.
func TestPlanterIsFresh(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var modules []*hlo.Module
	for i := range 10 {
		if c, err := generate.Program(fmt.Sprint("m", i), r, generate.Options{Size: 20}); err == nil {
			modules = append(modules, c.Module)
		}
	}
	for i, p := range patterns.All() {
		if c, err := p.Program(p.Name, r); err == nil && i%4 == 0 {
			modules = append(modules, c.Module)
		}
	}
	planted := 0
	for _, m := range modules {
		planter := defects.NewPlanter(m)
		for _, k := range defects.Catalogue {
			for _, c := range m.Computations {
				for _, in := range c.Instructions {
					d := defects.Defect{Kind: k, Op: in.Op, Type: in.Shape.Type}
					got, ok := planter.Apply(d)
					want, wantOK := d.Apply(m)
					if ok != wantOK || ok && got.Module.String() != want.Module.String() {
						t.Fatalf("%s in %s: planted %v after others, %v alone", d, m.Name, ok, wantOK)
					}
					if ok {
						planted++
					}
				}
			}
		}
	}
	if planted < 1000 {
		t.Errorf("only %d planted", planted)
	}
}
