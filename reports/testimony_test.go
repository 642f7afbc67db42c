package reports_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// TestTestimony: every rendering says what both witnesses say and that they
// disagree, the cause, the rate with its interval, and the other faults.
func TestTestimony(t *testing.T) {
	r := sample("x")
	dir := t.TempDir()
	if err := reports.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"comment.md":                           {"per-pass validation: guilty", "execution of states: not guilty", "the witnesses disagree", "cause: precision", "12 of 300", "2.1 % to 6.9 %", "fault 2 of 2", "enabled by"},
		"report.html":                          {"per-pass validation: guilty", "execution of states: not guilty", "the witnesses disagree", "cause: precision", "12 of 300", "2.1 % to 6.9 %", "fault 2 of 2", "enabled by"},
		"findings/f-0123456789ab/README.md":    {"per-pass validation: guilty", "execution of states: not guilty", "the witnesses disagree", "cause: precision", "12 of 300", "2.1 % to 6.9 %", "fault 2 of 2", "enabled by"},
		"results.sarif":                        {"per-pass validation guilty", "execution of states not guilty", "the witnesses disagree", "cause precision", "12 of 300", "2.1 % to 6.9 %", "one of 2 faults"},
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
	if s := reports.Sentence(&r.Findings[0]); strings.Contains(s, "cause") || strings.Contains(s, "guilty") {
		t.Error(s)
	}
}
