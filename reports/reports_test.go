package reports_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// hostile is text as a pull request or a compiler could write it.
const hostile = "@octocat <img src=x onerror=alert(1)> [x](http://evil.example) www.evil.example #1 `code` ````long```` | \u202egnp.exe\u2066 \x1b[31m \x00 </details>\n::set-output name=x::y\n-->"

func sample(text string) *gate.Result {
	return &gate.Result{
		Schema: gate.Schema, Verdict: gate.Blocked, Reasons: []string{"1 finding new", text}, Seed: 7,
		Base:   gate.Build{Spec: "./base.so", Source: text, ID: "sha256:0", Kind: "executable", Platform: "cpu", API: "0.106"},
		Head:   gate.Build{Spec: text, ID: "sha256:1", Kind: "executable", Platform: text, API: "0.115"},
		Passes: []gate.PassResult{{Name: "algsimp", Weight: 6, Reason: text, Ran: 4, Fired: 2, Cases: 1}},
		Totals: gate.Totals{Cases: 3, Executed: 2, JudgedElements: 12, Infrastructure: 1},
		Cases: []gate.CaseResult{
			{ID: "a", Outcome: gate.CaseFinding, Finding: "f-0123456789ab", Base: gate.Right, Head: gate.Wrong, Hash: strings.Repeat("0", 64), Detail: text,
				Streams: []gate.StreamResult{{Name: "own", Flags: "comparison", Base: gate.Right, Head: gate.Wrong, Judged: 12}}},
			{ID: text, Outcome: gate.CaseOK, Base: gate.Right, Head: gate.Right, Hash: strings.Repeat("1", 64), Streams: []gate.StreamResult{}},
			{ID: "c", Outcome: gate.CaseInfrastructure, Base: gate.Infrastructure, Head: gate.Right, Hash: strings.Repeat("2", 64), Detail: text, Streams: []gate.StreamResult{}},
		},
		Findings: []gate.Finding{
			{ID: "f-0123456789ab", Class: gate.Miscompile, Status: gate.New, Blocking: true, Case: "a", Stream: "own", Flags: "comparison",
				Witnesses: []string{"execution"}, Output: "0", Elements: 12, Wrong: 3, First: gate.First{At: []int64{1, 2}, Base: text, Head: "2", Legal: "{1}"},
				Piece: "fusion", Instruction: text, Location: &gate.Location{Computation: text, Opcode: "fusion", Source: text, Cause: "precision", Widened: []string{text}},
				EnabledBy: &gate.PassStep{Pipeline: text, Name: text}, Disagreement: text, FailureRate: &gate.FailureRate{Runs: 300, Failed: 12, Interval: [2]float64{0.021, 0.069}, Probes: 60, Confidence: 0.95},
				Evidence: []gate.Evidence{{Witness: gate.WitnessPasses, Says: gate.Accuses, Pass: &gate.PassStep{Pipeline: text, Name: text}, Detail: text}, {Witness: gate.WitnessStates, Says: gate.Acquits, Detail: text}},
				Culprits: []gate.Culprit{{Pass: gate.PassStep{Pipeline: text, Name: text}, Level: gate.LevelHLO, Instruction: text, At: []int64{1}, Output: "0", Before: text, After: text, Elements: 12, Wrong: 3},
					{Pass: gate.PassStep{Name: "code generation"}, Level: gate.LevelEmitter, At: []int64{}, EnabledBy: &gate.PassStep{Pipeline: text, Name: text}}},
				Minimal: "HloModule a\n" + text + "\n```````\n", Instructions: 4, Base: gate.Right, Head: gate.Wrong, Confirmed: "3 of 3", Detail: text,
				InMinimal: &gate.InMinimal{Base: gate.Right, Head: gate.Wrong, Output: "1", Elements: 5, Wrong: 4, First: gate.First{At: []int64{3}, Base: text, Head: "77", Legal: "{76}"},
					Pass: &gate.PassStep{Pipeline: text, Name: text}, Level: gate.LevelHLO, Instruction: text, Location: &gate.Location{Computation: text, Opcode: "fusion", Source: text, Cause: "precision", Widened: []string{text}},
					EnabledBy: &gate.PassStep{Pipeline: text, Name: text}, Step: &gate.StepText{Before: text, After: "x"}, Disagreement: text, FailureRate: &gate.FailureRate{Runs: 300, Failed: 12, Interval: [2]float64{0.021, 0.069}, Probes: 60, Confidence: 0.95},
					Evidence: []gate.Evidence{{Witness: gate.WitnessPasses, Says: gate.Accuses, Pass: &gate.PassStep{Pipeline: text, Name: text}, Detail: text}, {Witness: gate.WitnessStates, Says: gate.Acquits, Detail: text}}, Detail: text, BackendOnly: true},
				CaseFile: []byte("-- module.hlo --\n"), MinimalFile: []byte("-- module.hlo --\n")},
			{ID: "f-ba9876543210", Class: gate.Crash, Status: gate.Fixed, Case: text, Stream: "random", Flags: "default", Witnesses: []string{"execution"},
				First: gate.First{At: []int64{}}, Base: gate.Crashed, Head: gate.Right, Detail: text, KnownIssue: text, Override: text, Pass: &gate.PassStep{Pipeline: "simplification", Index: 1, Name: text}},
		},
		Cut: &gate.CutCounts{Cases: 1, Steps: 3, JudgedSteps: 2, Reasons: []string{text},
			Levels: []gate.LevelCounts{{Level: "program", Pieces: 1, UndecidedElements: 12}, {Level: "fusions", Pieces: 4, JudgedElements: 48, WrongElements: 1}}},
		Policy: &gate.PolicyResult{File: text, KnownIssues: []gate.KnownIssueUse{{ID: text, Reason: text, Expires: "2027-01-01", Scope: text, Findings: []string{"f-ba9876543210"}}},
			Overrides: []gate.OverrideUse{{Reason: text, Person: text, Expires: "2027-01-01", Scope: text, Findings: []string{}}}, Firing: &gate.FiringShortfall{Pass: text, Want: 2}},
		Statistics: gate.Statistics{Cells: []gate.Cell{{Pass: text, Operation: "tanh", Dtype: "f32", Stream: "random", Elements: 4, Changed: 2, HeadWorse: 1,
			Base: gate.Distances{Exact: 1, Octaves: []gate.Octave{{Power: -9, Elements: 1}, {Power: -8, Elements: 1}, {Power: 0, Elements: 1}}}, Head: gate.Distances{Exact: 2, Octaves: []gate.Octave{{Power: 21, Elements: 2}}}, Shift: &gate.Interval{}, Excluded: text}},
			Null: gate.Null{Cells: 9, Interval: [2]float64{0, 1}, Variants: []gate.NullVariant{{Name: text}}, Alarmed: []string{text}, Excluded: []string{text}}},
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("schema", "result-v1.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJSONFollowsTheSchema(t *testing.T) {
	out, err := reports.Render(reports.JSON, sample(hostile))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema(t).Validate(v); err != nil {
		t.Error(err)
	}
	v.(map[string]any)["surprise"] = true
	if schema(t).Validate(v) == nil {
		t.Error("the schema accepts a member that the format does not have")
	}
	delete(v.(map[string]any), "surprise")
	v.(map[string]any)["findings"].([]any)[1].(map[string]any)["blocking"] = true
	if schema(t).Validate(v) == nil {
		t.Error("the schema accepts a fixed finding that blocks")
	}
}

// TestSchemaKnowsEveryStream: the schema takes the name of every stream that a case
// can have, as those of a stream and as that of a finding, and no others.
func TestSchemaKnowsEveryStream(t *testing.T) {
	c, err := fuzz.ReadModule("a.hlo", []byte("HloModule a\nENTRY e {\n  a = f32[2,1] parameter(0)\n  b = f32[2,1] parameter(1)\n  h = f32[] constant(0.5)\n  k = f32[2,1] broadcast(h), dimensions={}\n  m = f32[2,1] maximum(a, k)\n  ROOT r = f32[2,1] multiply(m, b)\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	streams := append([]fuzz.Stream{{Name: fuzz.OwnStream}}, c.Streams(1)...)
	streams = append(streams, c.EdgeStreams(1)...)
	if b, ok := c.Branch(1); ok {
		streams = append(streams, b)
	}
	kinds := map[string]bool{}
	valid := func(of func(r *gate.Result)) error {
		r := sample("x")
		of(r)
		out, err := reports.Render(reports.JSON, r)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		return schema(t).Validate(v)
	}
	for _, s := range append(streams, fuzz.Stream{Name: "other"}, fuzz.Stream{Name: "edges"}) {
		name, known := s.Name, s.Name != "other" && s.Name != "edges"
		kind, _, _ := strings.Cut(name, "-")
		kinds[kind] = kinds[kind] || known
		for _, of := range []func(r *gate.Result){
			func(r *gate.Result) { r.Cases[0].Streams[0].Name = name },
			func(r *gate.Result) { r.Findings[0].Stream = name },
		} {
			if err := valid(of); (err == nil) != known {
				t.Errorf("stream %s: %v", name, err)
			}
		}
	}
	// Every constant of the package that names a stream is among them.
	files, err := filepath.Glob("../fuzz/*.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:const |\t)[A-Z]\w*Stream\s*=\s*"(\w+)"`).FindAllStringSubmatch(string(text), -1) {
			if constants++; !kinds[m[1]] {
				t.Errorf("the case has no stream of kind %s (%s)", m[1], file)
			}
		}
	}
	if constants < 7 {
		t.Errorf("%d names of streams found", constants)
	}
}

func TestJSONReadsBack(t *testing.T) {
	want := sample(hostile)
	out, _ := reports.Render(reports.JSON, want)
	var got gate.Result
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	again, _ := reports.Render(reports.JSON, &got)
	if !bytes.Equal(out, again) {
		t.Errorf("written and read: %s\nwritten again: %s", out, again)
	}
}

var (
	fence = regexp.MustCompile("(?m)^(`{3,})[a-z]*$")
)

// outside is Markdown without its fenced blocks and code spans: the part in
// which GitHub acts on what it reads.
func outside(t *testing.T, md string) string {
	t.Helper()
	var b strings.Builder
	open := ""
	for _, l := range strings.Split(md, "\n") {
		m := fence.FindString(l)
		switch {
		case open == "" && m != "":
			open = m
		case open != "" && strings.TrimRight(l, "`") == "" && len(l) >= len(open):
			open = ""
		case open == "":
			b.WriteString(stripSpans(l) + "\n")
		}
	}
	if open != "" {
		t.Error("a code fence is not closed")
	}
	return b.String()
}

// stripSpans removes code spans as CommonMark finds them: a run of back-ticks
// ends at the next run of the same length.
func stripSpans(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '`' {
			b.WriteByte(s[i])
			i++
			continue
		}
		n := 0
		for i+n < len(s) && s[i+n] == '`' {
			n++
		}
		end := -1
		for j := i + n; j < len(s); {
			if s[j] != '`' {
				j++
				continue
			}
			k := 0
			for j+k < len(s) && s[j+k] == '`' {
				k++
			}
			if k == n {
				end = j + k
				break
			}
			j += k
		}
		if end < 0 {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		i = end
	}
	return b.String()
}

func TestMarkdownIsNeutral(t *testing.T) {
	for _, format := range []reports.Format{reports.Comment, reports.Summary} {
		check := func(t interface {
			Helper()
			Errorf(string, ...any)
		}, out string, text string) {
			t.Helper()
			for _, bad := range []string{"\u202e", "\u2066", "\x1b", "\x00"} {
				if strings.Contains(out, bad) {
					t.Errorf("%s: %q is left", format, bad)
				}
			}
		}
		out, err := reports.Render(format, sample(hostile))
		if err != nil {
			t.Fatal(err)
		}
		check(t, string(out), hostile)
		rest := outside(t, string(out))
		for _, bad := range []string{"@octocat", "<img", "evil.example", "#1 ", "](", "::set-output", "onerror"} {
			if strings.Contains(rest, bad) {
				t.Errorf("%s: %q stands outside of code:\n%s", format, bad, rest)
			}
		}
	}
}

func TestMarkdownIsNeutralForAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"`", "``", "````", "@user", "<b>", "|", "\n", "-->", " ", "x", "http://a.b", "\\", "\u202e", "```\n", "~~~"}), 0, 12).Draw(t, "parts")
		text := strings.Join(parts, "")
		r := sample(text)
		for _, format := range []reports.Format{reports.Comment, reports.Summary} {
			out, err := reports.Render(format, r)
			if err != nil {
				t.Fatal(err)
			}
			open := ""
			for _, l := range strings.Split(string(out), "\n") {
				m := fence.FindString(l)
				switch {
				case open == "" && m != "":
					open = m
				case open != "" && strings.TrimRight(l, "`") == "" && len(l) >= len(open):
					open = ""
				case open == "":
					rest := stripSpans(l)
					if strings.Contains(rest, "@user") || strings.Contains(rest, "<b>") || strings.Contains(rest, "http:") {
						t.Fatalf("%s: %q leaks from %q", format, rest, l)
					}
				}
			}
			if open != "" {
				t.Fatalf("%s: open fence", format)
			}
		}
	})
}

func TestCommentHasMarkerAndFits(t *testing.T) {
	r := sample("x")
	for range 200 {
		f := r.Findings[0]
		f.Minimal = strings.Repeat("  a = f32[] parameter(0)\n", 500)
		r.Findings = append(r.Findings, f)
	}
	out, err := reports.Render(reports.Comment, r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(out), reports.Marker+"\n") {
		t.Error("the comment does not start with its marker")
	}
	if len(out) > 65536 {
		t.Errorf("the comment has %d bytes, GitHub takes 65536", len(out))
	}
	if !strings.Contains(string(out), "entries are not listed here") {
		t.Error("the comment does not say that it leaves findings out")
	}
}

func TestXMLIsWellFormed(t *testing.T) {
	out, err := reports.Render(reports.JUnit, sample(hostile))
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Cases    []struct {
			Name string `xml:"name,attr"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(out, &suites); err != nil {
		t.Fatal(err)
	}
	if suites.Failures != 1 || suites.Errors != 1 || len(suites.Cases) != 3 {
		t.Errorf("got %d failures, %d errors, %d cases; want 1, 1, 3", suites.Failures, suites.Errors, len(suites.Cases))
	}
}

func TestHTMLIsWellFormedAndInert(t *testing.T) {
	out, err := reports.Render(reports.HTML, sample(hostile))
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(out))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "img", "input"}, xml.HTMLEntity
	var open []string
	elements := map[string]int{}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			open = append(open, e.Name.Local)
			switch e.Name.Local {
			case "img", "iframe", "object", "embed", "link", "base", "form", "style", "script":
				elements[e.Name.Local]++
			}
			for _, a := range e.Attr {
				if name := strings.ToLower(a.Name.Local); strings.HasPrefix(name, "on") || name == "src" || name == "href" && !strings.HasPrefix(a.Value, "#") {
					t.Errorf("<%s %s=%q> came through", e.Name.Local, name, a.Value)
				}
			}
		case xml.EndElement:
			if last := open[len(open)-1]; last != e.Name.Local {
				t.Fatalf("</%s> closes <%s>", e.Name.Local, last)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) != 0 {
		t.Errorf("left open: %v", open)
	}
	if diff := cmp.Diff(map[string]int{"style": 1, "script": 1}, elements); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
	if strings.Contains(string(out), "\u202e") {
		t.Error("a bidi control is left")
	}
}

func TestSARIF(t *testing.T) {
	out, err := reports.Render(reports.SARIF, sample(hostile))
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Rules []struct{ ID string }
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(out, &log); err != nil {
		t.Fatal(err)
	}
	report, err := sarif.FromBytes(out)
	if err == nil {
		err = report.Validate()
	}
	if err != nil {
		t.Errorf("not SARIF 2.1.0: %v", err)
	}
	run := log.Runs[0]
	if log.Version != "2.1.0" || len(run.Results) != 2 {
		t.Fatalf("got version %s with %d results", log.Version, len(run.Results))
	}
	for i, want := range []string{"error", "note"} {
		got := run.Results[i]
		if got.Level != want {
			t.Errorf("result %d has level %s, want %s", i, got.Level, want)
		}
		if run.Tool.Driver.Rules[got.RuleIndex].ID != got.RuleID {
			t.Errorf("result %d: rule index %d is not %s", i, got.RuleIndex, got.RuleID)
		}
		uri := got.Locations[0].PhysicalLocation.ArtifactLocation.URI
		if !regexp.MustCompile(`^cases/[A-Za-z0-9%._~!$&'()*+,;=:@/-]+$`).MatchString(uri) || strings.Contains(uri, "..") {
			t.Errorf("result %d: bad URI %q", i, uri)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r := sample("x")
	if err := reports.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"result.json", "comment.md", "summary.md", "report.html", "results.sarif", "junit.xml",
		"findings/f-0123456789ab/case", "findings/f-0123456789ab/minimal.case", "findings/f-0123456789ab/finding.json", "findings/f-0123456789ab/README.md"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	// A second run replaces the findings of the first, and nothing else.
	other := filepath.Join(dir, "findings", "notes")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.Findings = r.Findings[1:]
	if err := reports.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "findings", "f-0123456789ab")); err == nil {
		t.Error("a finding of the first run is still there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("somebody else's file is gone")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".passgate-*")); len(left) != 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

// TestNewCases: one file for each new finding, whatever the cases are called, and
// none of an earlier run.
func TestNewCases(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r := sample("x")
	f := r.Findings[0]
	r.Findings = nil
	for i, name := range []string{"a", "../../etc/a", "..", "a", "a b\n'", "--x", strings.Repeat("long", 100)} {
		f.ID, f.Case, f.MinimalFile = fmt.Sprintf("f-%012x", i), name, []byte(name)
		f.InMinimal = nil
		r.Findings = append(r.Findings, f)
	}
	old := f
	old.Status, old.Blocking, old.Case = gate.PreExisting, false, "old"
	r.Findings = append(r.Findings, old)
	list := func() string {
		if err := reports.Write(dir, r); err != nil {
			t.Fatal(err)
		}
		entries, _ := os.ReadDir(filepath.Join(dir, "new"))
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	if got, want := list(), "_.._etc_a.case a-f-000000000003.case a.case a_b__.case case.case "+strings.Repeat("long", 25)+".case x.case"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// A piece from behind the passes is nothing for check: it gets the whole case.
	r.Findings = r.Findings[:1]
	r.Findings[0].InMinimal = &gate.InMinimal{Head: gate.Wrong, BackendOnly: true}
	r.Findings[0].CaseFile = []byte("whole")
	if got := list(); got != "a.case" {
		t.Errorf("left: %s", got)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "new", "a.case")); string(data) != "whole" {
		t.Errorf("a.case is %q", data)
	}
}

func TestUnknownFormat(t *testing.T) {
	if _, err := reports.Render("pdf", sample("")); err == nil {
		t.Error("no error")
	}
}

// A program that was left whole is said to be not judged, and is not counted
// among those judged in pieces.
func TestProgramsLeftWholeAreSaid(t *testing.T) {
	r := &gate.Result{Cut: &gate.CutCounts{Cases: 3, Whole: 3}}
	summary := func() string {
		out, err := reports.Render("summary", r)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if s := summary(); !strings.Contains(s, "3 programs with undecided elements too large") || strings.Contains(s, "judged part by part") {
		t.Errorf("summary:\n%s", s)
	}
	r.Cut.Cases = 4
	if s := summary(); !strings.Contains(s, "<summary>1 program judged part by part") {
		t.Errorf("summary:\n%s", s)
	}
}
