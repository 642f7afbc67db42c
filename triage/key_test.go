package triage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/hlo"
)

func parsed(t interface{ Fatal(...any) }, text string) *hlo.Module {
	m, err := hlo.Parse("m", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const formExample = `HloModule a
sum { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[4,8] parameter(0)
  q = f32[4,8] parameter(1)
  zero = f32[] constant(0)
  n = f32[4,8] negate(p)
  m = f32[4,8] multiply(n, q)
  sl = f32[2,8] slice(m), slice={[1:3], [0:8]}
  ROOT r = f32[2] reduce(sl, zero), dimensions={1}, to_apply=sum
}`

func TestFormIsTheSame(t *testing.T) {
	want := Form(parsed(t, formExample))
	for name, edit := range map[string]*strings.Replacer{
		"names":              strings.NewReplacer("HloModule a", "HloModule b", "sum", "plus", "n =", "neg =", "(n,", "(neg,"),
		"sizes":              strings.NewReplacer("4,8", "16,5", "2,8", "3,5", "1:3", "7:10", "0:8", "0:5", "[2]", "[3]"),
		"order of operands":  strings.NewReplacer("(n, q)", "(q, n)"),
		"parameters swapped": strings.NewReplacer("p = f32[4,8] parameter(0)", "p = f32[4,8] parameter(1)", "q = f32[4,8] parameter(1)", "q = f32[4,8] parameter(0)"),
		"metadata":           strings.NewReplacer("negate(p)", `negate(p), metadata={op_name="x" source_file="f.py" source_line=3}`),
		"layouts":            strings.NewReplacer("f32[4,8] negate", "f32[4,8]{0,1} negate"),
	} {
		if got := Form(parsed(t, edit.Replace(formExample))); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestFormDiffers(t *testing.T) {
	want := Form(parsed(t, formExample))
	for name, edit := range map[string]*strings.Replacer{
		"opcode":           strings.NewReplacer("negate", "abs"),
		"type":             strings.NewReplacer("f32", "f64"),
		"constant":         strings.NewReplacer("constant(0)", "constant(1)"),
		"start of a slice": strings.NewReplacer("1:3", "0:2"),
		"size one":         strings.NewReplacer("4,8", "4,1", "2,8", "2,1", "0:8", "0:1"),
		"reducer":          strings.NewReplacer("add(x", "maximum(x"),
		"order that means": strings.NewReplacer("multiply(n, q)", "divide(n, q)"),
		"sharing":          strings.NewReplacer("multiply(n, q)", "multiply(n, n)"),
	} {
		got := Form(parsed(t, edit.Replace(formExample)))
		if got == want {
			t.Errorf("%s: the form does not change", name)
		}
	}
	if a, b := Form(parsed(t, strings.Replace(formExample, "multiply(n, q)", "divide(n, q)", 1))), Form(parsed(t, strings.Replace(formExample, "multiply(n, q)", "divide(q, n)", 1))); a == b {
		t.Error("divide commutes")
	}
}

// TestFormOfAnyOrder: renaming and reordering instructions does not change the
// form of a random program.
func TestFormOfAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "instructions")
		var lines []string
		deps := [][]int{}
		for i := range n {
			if i < 2 {
				lines = append(lines, fmt.Sprintf("NAME%d = s32[3] parameter(%d)", i, i))
				deps = append(deps, nil)
				continue
			}
			a, b := rapid.IntRange(0, i-1).Draw(t, "a"), rapid.IntRange(0, i-1).Draw(t, "b")
			op := rapid.SampledFrom([]string{"add", "subtract", "and", "maximum", "divide"}).Draw(t, "op")
			lines = append(lines, fmt.Sprintf("NAME%d = s32[3] %s(NAME%d, NAME%d)", i, op, a, b))
			deps = append(deps, []int{a, b})
		}
		render := func(order []int, name func(int) string) string {
			var out []string
			for _, i := range order {
				l := lines[i]
				for k := n - 1; k >= 0; k-- {
					l = strings.ReplaceAll(l, fmt.Sprintf("NAME%d", k), name(k))
				}
				if i == n-1 {
					l = "ROOT " + l
				}
				out = append(out, l)
			}
			return "HloModule m\nENTRY e {\n" + strings.Join(out, "\n") + "\n}"
		}
		var straight, shuffled []int
		for i := range n {
			straight = append(straight, i)
		}
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
		for len(shuffled) < n { // a random topological order
			var ready []int
			for i := range n {
				if !slices.Contains(shuffled, i) && !slices.ContainsFunc(deps[i], func(d int) bool { return !slices.Contains(shuffled, d) }) {
					ready = append(ready, i)
				}
			}
			shuffled = append(shuffled, ready[rnd.IntN(len(ready))])
		}
		a := Form(parsed(t, render(straight, func(i int) string { return fmt.Sprintf("v%d.", i) })))
		for i, l := range lines {
			if op, rest, _ := strings.Cut(l, "("); len(deps[i]) == 2 && !strings.Contains(op, "subtract") && !strings.Contains(op, "divide") && rnd.IntN(2) == 0 {
				x, y, _ := strings.Cut(strings.TrimSuffix(rest, ")"), ", ")
				lines[i] = op + "(" + y + ", " + x + ")"
			}
		}
		b := Form(parsed(t, render(shuffled, func(i int) string { return fmt.Sprintf("w%d.", n-i) })))
		if a != b {
			t.Fatalf("%s\n%s", a, b)
		}
	})
}

func TestKeyID(t *testing.T) {
	k := Key{"miscompile", "algsimp", "-add s32[1]", "0 = parameter s32[2]\n"}
	if got, want := k.ID(), "f-263a570f840f"; got != want {
		t.Errorf("%s, want %s on every machine", got, want)
	}
	for _, other := range []Key{{"crash", k.Pass, k.Signature, k.Form}, {k.Class, "dce", k.Signature, k.Form}, {k.Class, k.Pass, "", k.Form}, {k.Class, k.Pass, k.Signature, ""}} {
		if other.ID() == k.ID() {
			t.Errorf("%v has the same ID", other)
		}
	}
}
