package reports_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// crowd is a result with n findings, of which every fifth is not new.
func crowd(n int, program string) *gate.Result {
	r := sample("x")
	r.Cases, r.Findings = nil, nil
	for i := range n {
		f := gate.Finding{ID: fmt.Sprintf("f-%012x", i), Class: gate.Miscompile, Status: gate.New, Blocking: true, Case: fmt.Sprintf("case-%d", i), Stream: "own", Flags: "comparison",
			Witnesses: []string{"execution"}, Output: "0", Elements: 12, Wrong: 3, First: gate.First{At: []int64{1}, Base: "1", Head: "2", Legal: "{1}"},
			Pass: &gate.PassStep{Pipeline: "simplification", Index: i % 70, Name: fmt.Sprintf("pass-%d", i%70)}, Minimal: program, Instructions: 4, Base: gate.Right, Head: gate.Wrong, Confirmed: "3 of 3", Detail: strings.Repeat("detail ", i%200)}
		if i%5 == 4 {
			f.Status, f.Blocking = gate.PreExisting, false
		}
		r.Findings = append(r.Findings, f)
		r.Cases = append(r.Cases, gate.CaseResult{ID: f.Case, Outcome: gate.CaseFinding, Finding: f.ID, Base: gate.Right, Head: gate.Wrong, Hash: strings.Repeat("0", 64), Streams: []gate.StreamResult{}})
	}
	r.Totals.Cases = n
	return r
}

// TestTenThousandFindings: every rendering fits where it goes, says the same
// counts, and counts what it leaves out.
func TestTenThousandFindings(t *testing.T) {
	const n = 10_000
	r := crowd(n, strings.Repeat("  a = f32[] parameter(0)\n", 40))
	counts := "10000 findings: 8000 new (8000 blocking), 2000 pre-existing"
	render := func(f reports.Format) string {
		out, err := reports.Render(f, r)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, row := range []struct {
		format reports.Format
		bytes  int
		shown  int // findings that the rendering is about
	}{{reports.Comment, 64 << 10, 8000}, {reports.Summary, 1 << 20, n}} {
		out := render(row.format)
		if len(out) >= row.bytes {
			t.Errorf("%s has %d bytes", row.format, len(out))
		}
		if !strings.Contains(out, counts) {
			t.Errorf("%s does not say %q", row.format, counts)
		}
		listed := len(regexp.MustCompile("(?m)^(- finding |\\| )`f-[0-9a-f]{12}`").FindAllString(out, -1))
		m := regexp.MustCompile(`(\d+) of (\d+) entries are not listed here`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("%s does not say what it leaves out", row.format)
		}
		left, _ := strconv.Atoi(m[1])
		if total, _ := strconv.Atoi(m[2]); total != row.shown || listed+left != row.shown || listed < 20 {
			t.Errorf("%s lists %d, leaves out %d of %d; want %d in all", row.format, listed, left, total, row.shown)
		}
		// The table by kind adds up, too.
		sum := 0
		for _, m := range regexp.MustCompile(`(?m)^\| [^|]+ \| (?:miscompile)? ?\| (?:new, blocks|pre-existing)? ?\| (\d+) \|$`).FindAllStringSubmatch(out, -1) {
			k, _ := strconv.Atoi(m[1])
			sum += k
		}
		if sum != row.shown {
			t.Errorf("%s: the kinds add up to %d, want %d", row.format, sum, row.shown)
		}
	}
	var log struct {
		Runs []struct {
			Results []struct {
				RuleID  string
				Message struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(render(reports.SARIF)), &log); err != nil {
		t.Fatal(err)
	}
	results := log.Runs[0].Results
	last := results[len(results)-1]
	if len(results) >= 5000 || last.RuleID != "not-listed" || !strings.Contains(last.Message.Text, fmt.Sprint(n-(len(results)-1))) || !strings.Contains(last.Message.Text, counts) {
		t.Errorf("SARIF has %d results, the last is %+v", len(results), last)
	}
	var suites struct {
		Failures int `xml:"failures,attr"`
		Tests    int `xml:"tests,attr"`
	}
	if err := xml.Unmarshal([]byte(render(reports.JUnit)), &suites); err != nil {
		t.Fatal(err)
	}
	if suites.Tests != n || suites.Failures != 8000 {
		t.Errorf("JUnit has %d tests, %d failures", suites.Tests, suites.Failures)
	}
	if page := render(reports.HTML); !strings.Contains(page, counts) {
		t.Errorf("the page does not say %q", counts)
	}
}

// TestBudgetForAnySize: sizes of texts and numbers of findings do not matter.
func TestBudgetForAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := func(name string) string {
			return strings.Repeat(rapid.SampledFrom([]string{"a", "`", "|", "\n", "@x ", "\u202e", "語"}).Draw(t, name), rapid.SampledFrom([]int{0, 1, 500, 50_000}).Draw(t, name+" size"))
		}
		r := crowd(rapid.SampledFrom([]int{0, 1, 3, 40, 2000}).Draw(t, "findings"), size("program"))
		text := size("text")
		for i := range min(len(r.Findings), 60) {
			f := &r.Findings[i]
			f.Case, f.Detail, f.Instruction, f.First.Head = text, text, text, text
			f.Pass.Name = text
		}
		for range rapid.SampledFrom([]int{0, 3, 300}).Draw(t, "passes") {
			r.Passes = append(r.Passes, gate.PassResult{Name: text, Reason: text})
			r.Reasons = append(r.Reasons, text)
			r.Statistics.Cells = append(r.Statistics.Cells, gate.Cell{Dtype: text, Stream: text})
		}
		r.Base.Spec, r.Base.Platform, r.Head.Dropped = text, text, []string{text}
		for format, limit := range map[reports.Format]int{reports.Comment: 60_000, reports.Summary: 1 << 20} {
			out, err := reports.Render(format, r)
			if err != nil {
				t.Fatal(err)
			}
			if len(out) >= limit {
				t.Fatalf("%s has %d bytes", format, len(out))
			}
		}
	})
}
