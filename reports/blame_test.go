package reports_test

import (
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// TestBlameIsInEveryRendering: every rendering says what both witnesses say and that they
// disagree, the cause, the rate with its interval, and the other faults.
func TestBlameIsInEveryRendering(t *testing.T) {
	r := sample("x")
	dir := t.TempDir()
	if err := reports.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	full := []string{"Guilty is the pass step", "(per-pass validation)", "(execution of states)", "the witnesses disagree", "cause: precision", "12 of 300", "2.1 % to 6.9 %", "fault 2 of 2", "of what the pass step x/0/x, right by itself, left"}
	for name, wants := range map[string][]string{
		"comment.md": full, "report.html": full, "findings/f-0123456789ab/README.md": full,
		"results.sarif":                        {"Guilty is the pass step", "the witnesses disagree", "cause precision", "12 of 300", "2.1 % to 6.9 %", "one of 2 faults"},
		"findings/f-0123456789ab/finding.json": {"culprits", "evidence", "failure_rate"},
	} {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "`", "")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
	// Nothing is said of what nobody asked.
	r.Findings[0] = gate.Finding{ID: "f-0123456789ab", Class: gate.Miscompile, Case: "a", First: gate.First{At: []int64{}}, Location: &gate.Location{}}
	if s := reports.Sentence(&r.Findings[0]); strings.Contains(s, "cause") || strings.Contains(s, "Guilty") {
		t.Error(s)
	}
}

// TestFiguresAreThoseOfTheProgram: whatever stands beside the smallest program was
// measured on it, and what the case itself shows says that it is the case's.
func TestFiguresAreThoseOfTheProgram(t *testing.T) {
	r := sample("x")
	dir := t.TempDir()
	if err := reports.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"comment.md", "summary.md", "report.html", "findings/f-0123456789ab/README.md", "junit.xml", "results.sarif"} {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		text := html.UnescapeString(string(data))
		if !strings.Contains(text, "{76}") {
			t.Errorf("%s does not say what is legal in the smallest program", name)
		}
		for l := range strings.Lines(text) {
			for _, of := range []string{"{1}", "3 of 12", "[1 2]"} {
				if strings.Contains(l, of) && !strings.Contains(l, "the whole case") && !strings.Contains(l, "fault 1 of 2") {
					t.Errorf("%s: %s of the case stands in %q", name, of, l)
				}
			}
		}
	}
	// A piece that shows nothing by itself stands beside the values of the case.
	r.Findings[0].InMinimal = &gate.InMinimal{Base: gate.Right, Head: gate.Right, First: gate.First{At: []int64{}}}
	r.Findings[0].CaseFile = []byte("-- module.hlo --\nHloModule whole\n")
	if err := reports.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "findings", "f-0123456789ab", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"by itself it shows nothing", "must be {1}", "HloModule whole", " case\npassgate eval --bounds case\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in\n%s", want, data)
		}
	}
}

// TestBlame: a fault behind a rewrite whose HLO is right is no contradiction, and
// the sentence says why.
func TestBlame(t *testing.T) {
	step := func(name string) *gate.PassStep { return &gate.PassStep{Pipeline: "p", Index: 2, Name: name} }
	acquitted := gate.Evidence{Witness: gate.WitnessPasses, Says: gate.Acquits, Detail: "each of 3 pass steps keeps the program's meaning"}
	turned := gate.Evidence{Witness: gate.WitnessStates, Says: gate.Accuses, Pass: step("fusion"), Detail: "right before p/2/fusion, wrong after it"}
	fusion := &gate.Location{Opcode: "fusion"}
	both := []string{gate.WitnessExecution, gate.WitnessStates}
	for _, row := range []struct {
		name string
		f    gate.Finding
		want string
	}{
		{"code made for a rewrite", gate.Finding{Pass: &gate.PassStep{Name: "code generation"}, EnabledBy: step("fusion"), Level: gate.LevelEmitter, Instruction: "k", Location: fusion, Witnesses: both, Evidence: []gate.Evidence{acquitted, turned}},
			"Guilty is code generation for k (fusion), which the pass step p/2/fusion made: the compiled program gives wrong values (execution); each of 3 pass steps keeps the program's meaning (per-pass validation); right before p/2/fusion, wrong after it (execution of states); so the rewrite is right, and the code made for it is wrong"},
		{"a library behind a rewrite", gate.Finding{Pass: step("fusion"), Level: gate.LevelLibrary, Instruction: "k", Location: fusion, Witnesses: both, Evidence: []gate.Evidence{acquitted, turned}},
			"Guilty is a library that computes k (fusion); the pass step p/2/fusion hands the work to it: the compiled program gives wrong values (execution); each of 3 pass steps keeps the program's meaning (per-pass validation); right before p/2/fusion, wrong after it (execution of states); so the rewrite is right, and what runs in its place is wrong"},
		{"a pass", gate.Finding{Pass: step("algsimp"), Level: gate.LevelHLO, Instruction: "b", Location: &gate.Location{Opcode: "slice", AfterOpcode: "slice"}, Witnesses: []string{gate.WitnessPasses},
			Evidence: []gate.Evidence{{Witness: gate.WitnessPasses, Says: gate.Accuses, Detail: "output 0[0] may be {1} before and {2} after"}, {Witness: gate.WitnessStates, Says: gate.Unknowing, Detail: "nothing runs"}}},
			"Guilty is the pass step p/2/algsimp, which makes a wrong slice of b (slice): output 0[0] may be {1} before and {2} after (per-pass validation); cannot tell: nothing runs (execution of states)"},
		{"one witness that the other cannot check", gate.Finding{Pass: step("fusion"), Witnesses: both, Evidence: []gate.Evidence{{Witness: gate.WitnessPasses, Says: gate.Unknowing, Detail: "1 of 3 pass steps cannot be judged"}, turned}},
			"Suspected is the pass step p/2/fusion: the compiled program gives wrong values (execution); cannot tell: 1 of 3 pass steps cannot be judged (per-pass validation); right before p/2/fusion, wrong after it (execution of states)"},
		{"a crash", gate.Finding{Class: gate.Crash, Pass: step("algsimp"), Level: gate.LevelAbort, Witnesses: []string{gate.WitnessExecution}}, "It ends in the pass step p/2/algsimp: compiled and run, it dies (execution)"},
		{"nobody knows", gate.Finding{}, "Who is guilty is not known"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := reports.Blame(&row.f); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}
