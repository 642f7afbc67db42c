package fuzz_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/passgate/passgate/fuzz"
)

const sampleCase = `-- module.hlo --
HloModule m

ENTRY e {
  x = s32[4] parameter(0)
  y = f32[2,2] parameter(1)
  n = s32[4] negate(x)
  ROOT t = (s32[4], f32[2,2]) tuple(n, y)
}
-- inputs --
s32[4] {1, 2, 3, 4}
// a comment
random f32[2,2] seed=3
-- want --
s32[4] {-1, -2, -3, -4}
f32[2,2] {{1, 2}, {3, 4}}
-- notes --
something
relative tolerance of want: 1e-05
`

func TestReadCase(t *testing.T) {
	c, err := fuzz.ReadCase("dir/sample.case", []byte(sampleCase))
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "sample" || !c.Own || len(c.Inputs) != 2 || len(c.Want) != 2 || c.Tolerance != 1e-05 {
		t.Errorf("got name %q, own %v, %d inputs, %d want, tolerance %v", c.Name, c.Own, len(c.Inputs), len(c.Want), c.Tolerance)
	}
	if got := c.Inputs[0].Int(3); got != 4 {
		t.Errorf("input 0[3] is %d, want 4", got)
	}
	again, err := fuzz.ReadCase("dir/sample.case", c.Format())
	if err != nil {
		t.Fatalf("written case: %v\n%s", err, c.Format())
	}
	if again.Hash() != c.Hash() || !bytes.Equal(again.Format(), c.Format()) {
		t.Errorf("written and read, the case is another one:\n%s", again.Format())
	}
	for i := range c.Want {
		if !bytes.Equal(c.Want[i].Raw, again.Want[i].Raw) {
			t.Errorf("want %d changed", i)
		}
	}
}

func TestBareModule(t *testing.T) {
	c, err := fuzz.ReadCase("m.hlo", []byte("HloModule m\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range c.Streams(1) {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "lattice random special" {
		t.Errorf("streams are %q", got)
	}
}

func TestStableHLO(t *testing.T) {
	c, err := fuzz.ReadCase("m.case", []byte("-- module.mlir --\nmodule {}\n-- inputs --\nf32[1] {1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Module != nil || c.Text != "module {}\n" || len(c.Inputs) != 1 || len(c.Streams(1)) != 1 {
		t.Errorf("got %+v", c)
	}
}

func TestBadCases(t *testing.T) {
	edit := func(old, new string) string {
		if !strings.Contains(sampleCase, old) {
			t.Fatalf("the sample has no %q", old)
		}
		return strings.Replace(sampleCase, old, new, 1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "bad.case:1:1: no section"},
		{"binary", "\x00\x01", "bad.case:1:1: not a text file"},
		{"unknown section", edit("-- want --", "-- wants --"), `bad.case:14:4: unknown section "wants"`},
		{"order", "-- inputs --\n-- module.hlo --\n", `bad.case:1:4: section "inputs" comes first`},
		{"doubled", edit("-- notes --", "-- want --"), `bad.case:17:4: section "want" is doubled`},
		{"unparsable module", edit("negate(x)", "negate(zz)"), "bad.case:7:"},
		{"unknown opcode", edit("negate(x)", "negated(x)"), "bad.case:7:"},
		{"module that does not verify", edit("n = s32[4] negate", "n = s32[5] negate"), "bad.case:7:3: e/n: negate gives s32[4]{0}, not s32[5]{0}"},
		{"too few inputs", edit("random f32[2,2] seed=3\n", ""), "bad.case:11:1: 1 inputs for 2 parameters: no input of type f32[2,2]"},
		{"too many inputs", edit("seed=3\n", "seed=3\ns32[] 1\n"), "bad.case:14:1: input 2, but the program has 2 parameters"},
		{"wrong type", edit("s32[4] {1, 2, 3, 4}", "f32[4] {1, 2, 3, 4}"), "bad.case:11:1: input 0 is f32[4], but parameter 0 is s32[4]"},
		{"wrong literal", edit("{1, 2, 3, 4}", "{1, 2, x, 4}"), "bad.case:11:15:"},
		{"literal too short", edit("{1, 2, 3, 4}", "{1, 2, 3}"), "bad.case:11:"},
		{"elided literal", edit("{1, 2, 3, 4}", "{...}"), "bad.case:11:"},
		{"bad generator type", edit("random f32[2,2]", "random f33[2,2]"), `bad.case:13:1: unknown element type "f33"`},
		{"bad generator dims", edit("random f32[2,2]", "random f32[2,-2]"), "bad.case:13:1: want an array shape"},
		{"bad generator option", edit("seed=3", "sead=3"), `bad.case:13:1: unexpected "sead=3" after random`},
		{"huge generator", edit("random f32[2,2]", "random f32[200000,200000]"), "bad.case:13:1: f32[200000,200000] is larger than"},
		{"const without value", edit("random f32[2,2] seed=3", "const f32[2,2]"), "bad.case:13:1: const needs a value"},
		{"const out of range", edit("s32[4] {1, 2, 3, 4}", "const s32[4] 3000000000"), `bad.case:11:1: "3000000000" is no value of type s32`},
		{"want of another type", edit("s32[4] {-1, -2, -3, -4}", "s32[3] {-1, -2, -3}"), "bad.case:15:1: expected value 0 is s32[3], but leaf 0 of the result is s32[4]"},
		{"want too short", edit("f32[2,2] {{1, 2}, {3, 4}}\n", ""), "bad.case:15:1: 1 expected values for the 2 leaves"},
		{"bad tolerance", edit("1e-05", "lots"), "bad.case:19:29: relative tolerance of want"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := fuzz.ReadCase("bad.case", []byte(tt.text))
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %s\nwant %s...", err, tt.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

// caseFiles are the example cases and, where the checkout stands beside it,
// the handed material.
func caseFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, dir := range []string{"../examples/cases", "../../shared/cases", "../../shared/cases/controls", "../../shared/traces"} {
		found, err := filepath.Glob(filepath.Join(dir, "*.case"))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	if len(out) < 12 {
		t.Fatalf("only %d cases found", len(out))
	}
	return out
}

func TestCaseFilesOfTheProject(t *testing.T) {
	for _, name := range caseFiles(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fuzz.ReadCase(name, data); err != nil {
			t.Error(err)
		}
	}
}

func FuzzReadCase(f *testing.F) {
	f.Add([]byte(sampleCase))
	f.Add([]byte("-- module.hlo --\nHloModule m\nENTRY e {\n  ROOT c = s32[] constant(1)\n}\n-- inputs --\n"))
	f.Add([]byte("-- module.mlir --\nmodule {}\n-- inputs --\niota s32[9]\nconst f32[4] 1.5\nlattice u8[3] seed=1 index=4\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := fuzz.ReadCase("f.case", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		again, err := fuzz.ReadCase("f.case", c.Format())
		if err != nil {
			t.Fatalf("written case: %v", err)
		}
		if again.Hash() != c.Hash() {
			t.Errorf("written and read, the case is another one")
		}
	})
}

func TestTupleParametersHaveAnInputPerLeaf(t *testing.T) {
	const text = `-- module.hlo --
HloModule m
ENTRY e {
  t = (s32[2], (f32[], pred[])) parameter(0)
  x = f32[3] parameter(1)
  ROOT a = s32[2] get-tuple-element(t), index=0
}
-- inputs --
s32[2] {1, 2}
f32[] 3
pred[] true
lattice f32[3] seed=1
`
	c, err := fuzz.ReadCase("m.case", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Inputs) != 4 || len(c.Params()) != 4 {
		t.Fatalf("%d inputs, %d parameters, want 4", len(c.Inputs), len(c.Params()))
	}
	again, err := fuzz.ReadCase("m.case", c.Format())
	if err != nil || len(again.Inputs) != 4 {
		t.Errorf("written and read again: %v", err)
	}
	for _, s := range c.Streams(1) {
		if len(s.Inputs) != 4 {
			t.Errorf("stream %s has %d inputs, want 4", s.Name, len(s.Inputs))
		}
	}
	if _, err := fuzz.ReadCase("m.case", []byte(strings.Replace(text, "pred[] true\n", "", 1))); err == nil || !strings.Contains(err.Error(), "m.case:") {
		t.Errorf("a missing leaf gives %v", err)
	}
}
