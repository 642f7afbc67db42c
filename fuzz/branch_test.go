package fuzz_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/passgate/passgate/fuzz"
)

func TestNear(t *testing.T) {
	for _, tt := range []struct {
		expr string
		want []float64
	}{
		{"near f32[200] 1.5 seed=1", []float64{1.5, -1.5, float64(math.Nextafter32(1.5, 2)), float64(math.Nextafter32(1.5, 1))}},
		{"near f32[200] 1 seed=1", []float64{1, -1, float64(math.Nextafter32(1, 2)), float64(math.Nextafter32(1, 0))}},
		{"near bf16[200] 0 seed=1", []float64{0, 0x1p-133, -0x1p-133}},
		{"near f16[200] inf seed=1", []float64{math.Inf(1), math.Inf(-1)}},
		{"near s8[200] 127,3 seed=1", []float64{127, -128, 126, -127, 3, 4, 2, -3}},
		{"near u8[200] 0 seed=1", []float64{0, 1, 255}},
		{"near pred[200] true seed=1", []float64{0, 1}},
	} {
		lit := generate(t, tt.expr)
		seen := map[float64]bool{}
		for i := range lit.Shape.Elems() {
			if lit.Shape.Type.IsFloat() {
				seen[lit.Float(i)] = true
			} else {
				seen[float64(lit.Int(i))] = true
			}
		}
		for _, w := range tt.want {
			if !seen[w] {
				t.Errorf("%s: no %v", tt.expr, w)
			}
			delete(seen, w)
		}
		if len(seen) > 0 {
			t.Errorf("%s: also %v", tt.expr, seen)
		}
	}
}

func TestBadNear(t *testing.T) {
	for expr, want := range map[string]string{
		"near f32[4] seed=1": "near needs",
		"near c64[4] 1":      "near needs",
		"near s8[4] 1,200":   "no value of type s8",
		"near f32[4] 1,x":    "no number",
		"near f32[4] 1 2":    "unexpected",
	} {
		if _, err := fuzz.ParseInput(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

func TestBranch(t *testing.T) {
	c, err := fuzz.ReadCase("b.hlo", []byte(`HloModule b

ENTRY e {
  x = f32[40] parameter(0)
  i = s32[] parameter(1)
  y = bf16[4] parameter(2)
  c = f32[] constant(2.5)
  b = f32[40] broadcast(c), dimensions={}
  p = pred[40] compare(x, b), direction=LT
  seven = s32[] constant(7)
  j = s32[] minimum(i, seven)
  d = f32[8] dynamic-slice(x, j), dynamic_slice_sizes={8}
  ROOT t = (pred[40], f32[8], bf16[4]) tuple(p, d, y)
}
`))
	if err != nil {
		t.Fatal(err)
	}
	s, ok := c.Branch(1)
	if !ok || len(s.Lines) != 3 || !strings.HasPrefix(s.Lines[0], "near f32[40] 2.5 seed=") || !strings.HasPrefix(s.Lines[1], "lattice s32[] ") || !strings.HasPrefix(s.Lines[2], "lattice bf16[4]") {
		t.Fatalf("got %v %q", ok, s.Lines)
	}
	for i, l := range s.Lines {
		if lit, err := fuzz.ParseInput(l); err != nil || !bytes.Equal(lit.Raw, s.Inputs[i].Raw) {
			t.Errorf("%s reads back as other values (%v)", l, err)
		}
	}
	at := 0
	for i := range s.Inputs[0].Shape.Elems() {
		if s.Inputs[0].Float(i) == 2.5 {
			at++
		}
	}
	if at < 10 || at > 30 {
		t.Errorf("%d of 40 elements are at the branch point, want about 20", at)
	}
	if _, ok := read(t, "HloModule m\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n").Branch(1); ok {
		t.Error("a branch point in a program without one")
	}
}

func read(t *testing.T, text string) *fuzz.Case {
	t.Helper()
	c, err := fuzz.ReadCase("m.hlo", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
