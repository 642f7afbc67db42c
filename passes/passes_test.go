package passes

import (
	"slices"
	"strings"
	"testing"
)

func TestRegistry(t *testing.T) {
	concrete := 0
	for _, p := range All() {
		if p.concrete() {
			concrete++
		}
		if p.Class == "" || len(p.Files) == 0 || !strings.HasPrefix(p.Files[0], "xla/") {
			t.Errorf("incomplete row: %+v", p)
		}
	}
	// 317 passes, 4 of hlo-opt's own tests, the pipeline container (whose name is "<pipeline name>") and
	// the two abstract bases are the 325 rows.
	if len(All()) != 325 {
		t.Errorf("%d rows, want 325", len(All()))
	}
	for _, tc := range []struct {
		step    string
		classes []string
	}{
		{"algsimp", []string{"GpuAlgebraicSimplifier", "AlgebraicSimplifier"}},
		{"float-normalization-bf16", []string{"FloatNormalization"}},
		{"apply-xla-transforms-3", []string{"ApplyXlaTransforms"}},
		{"sub-byte-size-setter", []string{"SubByteNormalization"}},
		{"no-such-pass", nil},
		{"<abstract>", nil},
	} {
		var got []string
		for _, p := range Lookup(tc.step) {
			got = append(got, p.Class)
		}
		if !slices.Equal(got, tc.classes) {
			t.Errorf("Lookup(%q) = %v, want %v", tc.step, got, tc.classes)
		}
	}
	if n := len(TPUPipeline()); n != 477 {
		t.Errorf("%d TPU pass runs, want 477", n)
	}
}

func TestTags(t *testing.T) {
	p := Lookup("simplify-while-loops")
	if len(p) != 1 {
		t.Fatalf("%d classes", len(p))
	}
	for _, tag := range []string{"cpu", "tpu"} {
		if !slices.Contains(p[0].Pipelines, tag) {
			t.Errorf("simplify-while-loops: no tag %s in %v", tag, p[0].Pipelines)
		}
	}
}

func TestAffected(t *testing.T) {
	for _, tc := range []struct {
		file   string
		lines  []string
		tier   Tier
		pass   string // a class that must be in the focus
		weight int    // with this weight
		all    bool   // everything is in the focus
	}{
		{file: "xla/hlo/transforms/simplifiers/algebraic_simplifier.cc", tier: OwnFile, pass: "AlgebraicSimplifier", weight: 6},
		{file: "xla/hlo/transforms/simplifiers/algebraic_simplifier.cc", tier: OwnFile, pass: "GpuAlgebraicSimplifier", weight: 2},
		{file: "xla/hlo/transforms/simplifiers/algebraic_simplifier_test.cc", tier: OwnTest, pass: "AlgebraicSimplifier", weight: 6},
		{file: "xla/hlo/transforms/despecializer.cc", lines: []string{"class ControlDepRemover"}, tier: OwnFile, pass: "ControlDepRemover", weight: 6},
		{file: "xla/hlo/transforms/despecializer.cc", lines: []string{"class ControlDepRemover"}, tier: OwnFile, pass: "Despecializer", weight: 3},
		{file: "xla/service/pattern_matcher.h", tier: Helper, pass: "AlgebraicSimplifier", weight: 2},
		{file: "xla/hlo/ir/hlo_instruction.cc", tier: Core, pass: "ScatterExpander", weight: 2, all: true},
		{file: "xla/hlo/parser/hlo_parser.cc", tier: Core, pass: "ScatterExpander", weight: 1, all: true},
		{file: "xla/hlo/evaluator/hlo_evaluator.cc", tier: Core, pass: "HloConstantFolding", weight: 2, all: true},
		{file: "xla/hlo/transforms/simplifiers/BUILD", tier: BuildFile, pass: "AlgebraicSimplifier", weight: 2},
		{file: "docs/index.md", tier: Ignored},
		{file: "xla/tests/dot_operation_test.cc", tier: Ignored},
		{file: "xla/something/brand_new.cc", tier: Unknown, pass: "AlgebraicSimplifier", weight: 1, all: true},
	} {
		plan := Affected([]Change{{tc.file, tc.lines}})
		if len(plan.Files) != 1 || plan.Files[0].Tier != tc.tier || plan.Files[0].Reason == "" {
			t.Errorf("%s: files %+v, want tier %s", tc.file, plan.Files, tc.tier)
		}
		if tc.pass == "" {
			if len(plan.Focus) != 0 {
				t.Errorf("%s: focus %v, want none", tc.file, plan.Focus)
			}
			continue
		}
		i := slices.IndexFunc(plan.Focus, func(f Focus) bool { return f.Pass.Class == tc.pass })
		if i < 0 || plan.Focus[i].Weight != tc.weight {
			t.Errorf("%s: %s not in focus with weight %d (index %d)", tc.file, tc.pass, tc.weight, i)
		}
		if tc.all != (len(plan.Focus) > 300) {
			t.Errorf("%s: %d passes in focus", tc.file, len(plan.Focus))
		}
	}
}

// TestAffectedKeepsTheHeaviest: a pass reached twice keeps its best reason,
// and no order of the files changes the answer.
func TestAffectedKeepsTheHeaviest(t *testing.T) {
	files := []Change{{File: "xla/hlo/parser/hlo_parser.cc"}, {File: "xla/hlo/transforms/simplifiers/algebraic_simplifier.cc"}}
	a := Affected(files)
	slices.Reverse(files)
	b := Affected(files)
	if a.Focus[0].Pass.Class != "AlgebraicSimplifier" || a.Focus[0].Weight != 6 {
		t.Errorf("first in focus: %+v", a.Focus[0])
	}
	for i := range a.Focus {
		if a.Focus[i].Pass.Class != b.Focus[i].Pass.Class || a.Focus[i].Weight != b.Focus[i].Weight {
			t.Fatalf("order of files matters at %d: %v %v", i, a.Focus[i], b.Focus[i])
		}
	}
}

func TestParseDiff(t *testing.T) {
	const good = `diff --git a/xla/a.cc b/xla/a.cc
index 1..2 100644
--- a/xla/a.cc
+++ b/xla/a.cc
@@ -1,2 +1,3 @@ class Foo : public Bar {
 x
--- a line that was "-- a line"
+y
+z
diff --git a/old.h b/new.h
rename from old.h
rename to new.h
diff --git a/gone.cc b/gone.cc
--- a/gone.cc
+++ /dev/null
@@ -1 +0,0 @@
-x
`
	got, err := ParseDiff("d", strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range got {
		names = append(names, c.File)
	}
	if want := []string{"xla/a.cc", "old.h", "new.h", "gone.cc"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	if want := []string{"class Foo : public Bar {", `-- a line that was "-- a line"`, "y", "z"}; !slices.Equal(got[0].Lines, want) {
		t.Errorf("lines %q, want %q", got[0].Lines, want)
	}
	for _, bad := range []struct{ text, want string }{
		{"", "d:1:1: want a unified diff with at least one file"},
		{"@@ -1 +1 @@\n", "d:1:1: want '---' and '+++' lines before a hunk"},
		{"--- a/x\n+++ b/x\n@@ nonsense\n", "d:3:1: want a hunk header '@@ -l,s +l,s @@'"},
		{"--- a/x\n+++ b/x\n@@ -1,5 +1 @@\n-a\n", "d:5:1: want the rest of the hunk"},
		{"--- a/x\n+++ b/x\n@@ -1 +1 @@\n?a\n", "d:4:1: want a line of the hunk: '+', '-' or ' ' first"},
	} {
		if _, err := ParseDiff("d", strings.NewReader(bad.text)); err == nil || err.Error() != bad.want {
			t.Errorf("%q: error %v, want %s", bad.text, err, bad.want)
		}
	}
}

func FuzzParseDiff(f *testing.F) {
	f.Add("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
	f.Add("Binary files a/x and b/y differ\n")
	f.Fuzz(func(t *testing.T, s string) {
		cs, err := ParseDiff("d", strings.NewReader(s))
		if (err == nil) != (len(cs) > 0) {
			t.Errorf("%d files, error %v", len(cs), err)
		}
	})
}
