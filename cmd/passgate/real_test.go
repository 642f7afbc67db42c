package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/passgate/passgate/gate"
)

// passgate runs the command in a directory and returns its exit code and what
// it printed.
func passgate(t *testing.T, dir string, args ...string) (code int, output string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PASSGATE_TRANSCRIPT=1")
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

// check runs a check and returns its exit code and result, which it holds
// against the published schema.
func check(t *testing.T, base, head, cases string, more ...string) (int, *gate.Result) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	cases, err := filepath.Abs(cases)
	if err != nil {
		t.Fatal(err)
	}
	code, output := passgate(t, t.TempDir(), append([]string{"check", "--base", base, "--head", head, "--cases", cases, "--out", out}, more...)...)
	data, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	validate(t, data)
	var res gate.Result
	if err := json.Unmarshal(data, &res); err != nil {
		t.Fatal(err)
	}
	if want := res.Verdict.ExitCode(); code != want {
		t.Errorf("exit code %d for verdict %s, want %d", code, res.Verdict, want)
	}
	return code, &res
}

func validate(t *testing.T, data []byte) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../reports/schema/result-v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Error(err)
	}
}

const (
	older = "xla-2026-06"
	newer = "jax-0.11.2"
)

// TestExamples is the command of the README: what each example case is there
// to show. The same run with another number of workers gives the same result.
func TestExamples(t *testing.T) {
	code, res := check(t, older, newer, "../../examples/cases", "--probes", "10", "--workers", "2")
	if code != 1 {
		t.Errorf("exit code %d, want 1 (%q)", code, res.Reasons)
	}
	want := map[string]string{
		"pool-dilated-min":      "miscompile new blocks",
		"scatter-narrow-index":  "miscompile pre-existing",
		"shifted-copy":          "miscompile pre-existing",
		"slice-of-slice":        "miscompile pre-existing",
		"loop-of-threes":        "ok",
		"window-cropped":        "crash pre-existing",
		"exponentials-overflow": "miscompile fixed",
		"log1p-double":          "numeric-degradation fixed",
		"sort-odd-comparator":   "crash fixed",
		"square-wraps":          "miscompile contested",
		"maximum-of-nan":        "miscompile contested",
		"arctangent-vector":     "miscompile new blocks",
		"softmax":               "ok",
		"matmul":                "ok",
		"bf16-round-trip":       "ok",
		"sort-ties":             "ok",
		"gather-rows":           "ok",
	}
	got := map[string]string{}
	for _, c := range res.Cases {
		got[c.ID] = string(c.Outcome)
		if f := gravest(res, c.ID); f != nil {
			got[c.ID] = fmt.Sprintf("%s %s", f.Class, f.Status)
			if f.Blocking {
				got[c.ID] += " blocks"
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}

	_, again := check(t, older, newer, "../../examples/cases", "--probes", "10", "--workers", "1")
	res.Timing, again.Timing = gate.Timing{}, gate.Timing{}
	if diff := cmp.Diff(res, again); diff != "" {
		t.Errorf("two workers -, one worker +:\n%s", diff)
	}
}

// gravest is the finding that the case names, nil if there is none.
func gravest(r *gate.Result, id string) *gate.Finding {
	i := slices.IndexFunc(r.Cases, func(c gate.CaseResult) bool { return c.ID == id })
	if i < 0 || r.Cases[i].Finding == "" {
		return nil
	}
	f := slices.IndexFunc(r.Findings, func(f gate.Finding) bool { return f.ID == r.Cases[i].Finding })
	if f < 0 {
		return nil
	}
	return &r.Findings[f]
}

// TestAgainstItself: a build against itself shows nothing new.
func TestAgainstItself(t *testing.T) {
	for _, build := range []string{"xla-2025-11", older, newer} {
		t.Run(build, func(t *testing.T) {
			code, res := check(t, build, build, "../../examples/cases")
			for _, f := range res.Findings {
				if f.Status == gate.New || f.Status == gate.Fixed {
					t.Errorf("%s: %s %s: %s", f.Case, f.Class, f.Status, f.Detail)
				}
			}
			if code != 0 || res.Statistics.Null.Cells == 0 || res.Statistics.Null.Alarms != 0 {
				t.Errorf("exit code %d, null %+v", code, res.Statistics.Null)
			}
		})
	}
}

// handed is the material that stands beside a checkout of the project: cases
// with what each build makes of them.
const handed = "../../../shared/cases"

// outcomes reads outcomes.tsv: outcome by build and case, and the contested
// cases. It is empty where the material is not there.
func outcomes(t *testing.T) (by map[string]map[string]string, class map[string]string, contested map[string]bool) {
	t.Helper()
	by, class, contested = map[string]map[string]string{}, map[string]string{}, map[string]bool{}
	data, err := os.ReadFile(filepath.Join(handed, "outcomes.tsv"))
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(data), "\n")[1:] {
		f := strings.Split(l, "\t")
		if len(f) < 5 {
			continue
		}
		if by[f[3]] == nil {
			by[f[3]] = map[string]string{}
		}
		by[f[3]][f[0]] = f[4]
		class[f[0]] = f[1]
		contested[f[0]] = f[2] == "yes"
	}
	return
}

// TestHandedCases holds the result of a check over the handed cases against
// the outcomes that were measured for each build.
func TestHandedCases(t *testing.T) {
	by, class, contested := outcomes(t)
	for _, pair := range [][2]string{{older, newer}, {newer, older}, {"xla-2025-11", newer}, {newer, newer}} {
		base, head := by[pair[0]], by[pair[1]]
		if len(base) == 0 {
			continue // the material is not beside this checkout
		}
		t.Run(pair[0]+" "+pair[1], func(t *testing.T) {
			_, res := check(t, pair[0], pair[1], handed, "--probes", "0")
			for id := range base {
				want := expectation(base[id], head[id], contested[id])
				f := gravest(res, id)
				got := "none"
				if f != nil {
					got = string(f.Status)
				}
				if class[id] == "control" && f != nil && !f.Blocking && (f.Status == gate.Contested || f.Status == gate.ReferenceDisputed) {
					continue
				}
				if got != want {
					t.Errorf("%s: status %s, want %s (base %s, head %s)", id, got, want, base[id], head[id])
					continue
				}
				if f != nil && !slices.Contains(classes[class[id]], f.Class) {
					t.Errorf("%s: class %s, want one of %v", id, f.Class, classes[class[id]])
				}
				if f != nil && f.Blocking != (want == "new") {
					t.Errorf("%s: blocking is %v", id, f.Blocking)
				}
			}
		})
	}
}

// classes are the classes of findings that a class of outcomes.tsv may show as.
var classes = map[string][]gate.Class{
	"wrong-value": {gate.Miscompile},
	"nan":         {gate.Miscompile},
	"numeric":     {gate.NumericDegradation},
	"crash":       {gate.Crash},
}

func expectation(base, head string, contested bool) string {
	bad := func(s string) bool { return s == "wrong" || s == "crash" || s == "flaky" }
	switch {
	case !bad(base) && !bad(head):
		return "none"
	case contested:
		return "contested"
	case !bad(base):
		return "new"
	case !bad(head):
		return "fixed"
	}
	return "pre-existing"
}

// TestSigterm: an interrupted run writes what it has.
func TestSigterm(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	cases, err := filepath.Abs("../../examples/cases")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "check", "--base", older, "--head", older, "--cases", cases, "--out", out, "--json", "--workers", "1")
	cmd.Env = append(os.Environ(), "PASSGATE_TRANSCRIPT=1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := pipe.Read(first); err != nil { // the first case is done
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	if _, err := rest.ReadFrom(pipe); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	res := result(t, out)
	if res.Totals.Executed == 0 || res.Totals.Skipped == 0 || res.Verdict != gate.Inconclusive {
		t.Errorf("%d executed, %d skipped, verdict %s", res.Totals.Executed, res.Totals.Skipped, res.Verdict)
	}
	for _, name := range []string{"comment.md", "summary.md", "report.html", "results.sarif", "junit.xml"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestExploration: a number of programs and a seed give one report, whatever
// the workers; nearly every program makes the pass fire; a build that is
// compared with itself has nothing new; and too few firings are no pass.
func TestExploration(t *testing.T) {
	run := func(more ...string) (int, []byte, *gate.Result) {
		dir := t.TempDir()
		code, output := passgate(t, dir, append([]string{"check", "--base", newer, "--head", newer, "--passes", "simplify-sorts", "--max-cases", "64", "--out", "out"}, more...)...)
		data, err := os.ReadFile(filepath.Join(dir, "out", "result.json"))
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		validate(t, data)
		var res gate.Result
		if err := json.Unmarshal(data, &res); err != nil {
			t.Fatal(err)
		}
		res.Timing = gate.Timing{}
		data, err = json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		return code, data, &res
	}
	code, one, res := run("--workers", "1", "--min-firings", "20")
	if code != 0 || res.Exploration.Programs != 64 || res.Passes[0].Cases < 20 || res.Exploration.Steps == 0 {
		t.Errorf("exit code %d, %+v, %+v", code, res.Exploration, res.Passes)
	}
	if _, two, _ := run("--workers", "2", "--min-firings", "20"); !bytes.Equal(one, two) {
		t.Errorf("one and two workers differ:\n%s\n%s", one, two)
	}
	if code, _, res := run("--min-firings", "65"); code != 4 {
		t.Errorf("exit code %d, verdict %s with more firings asked for than programs; want 4", code, res.Verdict)
	}
}
