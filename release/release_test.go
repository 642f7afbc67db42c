package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker/workertest"
)

func TestMain(m *testing.M) { workertest.Main(m) }

// cases are a few of the examples.
func exampleCases(t testing.TB, names ...string) []*fuzz.Case {
	t.Helper()
	var out []*fuzz.Case
	for _, name := range names {
		file := filepath.Join("..", "examples", "cases", name+".case")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := fuzz.ReadCase(file, text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// realWork is a job on two real builds.
func realWork(t *testing.T, unitCases int) *Work {
	t.Helper()
	pool, found := workertest.Open(t, 2, "xla-2026-06", "jax-0.11.2")
	j := NewJob(found[0], found[1], nil, exampleCases(t, "slice-of-slice", "arctangent-vector", "exponentials-overflow", "softmax"))
	j.Seed, j.UnitCases, j.CostRuns, j.NullCases, j.CutLimit = 1, unitCases, 2, 2, 500
	cfg, err := j.Config(found[0], found[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Runner, cfg.Now = pool, time.Now
	cfg.TempDir = func() (string, func(), error) { dir := t.TempDir(); return dir, func() {}, nil }
	cfg.Steps = func(string) ([]gate.Step, error) {
		return []gate.Step{{Name: "algsimp", Changed: true}, {Name: "dce"}}, nil
	}
	w, err := Prepare(t.Context(), j, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRelease: the records of a job, whatever the order, how often they come, and
// through whatever JSON they went, give one report; units of two cases and of one
// give the same; a unit that is missing leaves it inconclusive.
func TestRelease(t *testing.T) {
	w := realWork(t, 1)
	var records []*Record
	for unit := range w.Job.Units() {
		r, err := w.Run(t.Context(), unit+1)
		if err != nil {
			t.Fatal(err)
		}
		data, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		read, err := w.ReadRecord(data)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, read)
	}
	body := func(w *Work, records []*Record, previous *Report) *Report {
		t.Helper()
		tally := w.NewTally()
		for i, r := range records {
			if !tally.Add(r) || tally.Add(r) || tally.Progress.Done != i+1 {
				t.Fatalf("unit %d is not counted once", r.Unit)
			}
			if len(r.Result.Coverage) == 0 || tally.records[r.Unit-1].Result.Coverage != nil {
				t.Errorf("unit %d: coverage is %d passes in the record, %d in the tally", r.Unit, len(r.Result.Coverage), len(tally.records[r.Unit-1].Result.Coverage))
			}
		}
		res, report, err := tally.Result(time.Unix(0, 0), previous)
		if err != nil {
			t.Fatal(err)
		}
		if report.Timing.Compile == nil && len(records) == w.Job.Units() {
			t.Error("no compile times")
		}
		for _, f := range res.Findings {
			if f.CaseFile == nil {
				t.Errorf("finding %s has no case", f.ID)
			}
		}
		report.Timing = Timing{}
		return report
	}
	one := body(w, records, nil)
	slices.Reverse(records)
	if diff := cmp.Diff(one, body(w, records, nil)); diff != "" {
		t.Errorf("in another order:\n%s", diff)
	}
	if one.Verdict != gate.Blocked || len(one.Regressions) != 1 || len(one.Fixed) != 1 || len(one.PreExisting) != 1 || !one.Regressions[0].Blocking {
		t.Errorf("verdict %s, regressions %+v, fixed %+v, pre-existing %+v", one.Verdict, one.Regressions, one.Fixed, one.PreExisting)
	}
	if one.Memory == nil || one.Memory.Programs < 3 || len(one.Numeric) == 0 || one.Coverage.Known < 50 || one.Coverage.Fired != 1 || one.Coverage.Passes[0].Cases != 4 {
		t.Errorf("memory %+v, %d cells, coverage %+v", one.Memory, len(one.Numeric), one.Coverage)
	}
	missing := body(w, records[:3], nil)
	if missing.Verdict == gate.Pass || !slices.ContainsFunc(missing.Reasons, func(s string) bool { return strings.Contains(s, "shard 1/4 is missing") }) {
		t.Errorf("without unit 1: %s, %q", missing.Verdict, missing.Reasons)
	}
	if none := body(w, nil, nil); none.Verdict != gate.Inconclusive || none.Base.Spec != "xla-2026-06" {
		t.Errorf("without any unit: %+v", none)
	}

	old := *one
	old.Regressions = []Defect{{Cluster: "f-000000000000"}}
	old.Coverage.Passes = append([]gate.PassCount{{Name: "zapper", Fired: 1}}, old.Coverage.Passes...)
	since := body(w, records, &old).Since
	if len(since.New) != 1 || since.New[0] != one.Regressions[0].Cluster || !slices.Equal(since.Gone, []string{"f-000000000000"}) || !slices.Equal(since.Idle, []string{"zapper"}) {
		t.Errorf("since the last run: %+v", since)
	}
	text := body(w, records, &old).Markdown()
	for _, want := range []string{"# jax-0.11.2 against xla-2026-06: blocked", "## Regressions: 1", "arctangent-vector", "Since the last release run", "zapper"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	two := realWork(t, 2)
	var pairs []*Record
	for unit := range two.Job.Units() {
		r, err := two.Run(t.Context(), unit+1)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, r)
	}
	if diff := cmp.Diff(one, body(two, pairs, nil)); diff != "" || len(pairs) != 2 {
		t.Errorf("units of one case -, of two +:\n%s", diff)
	}
	hostile(t, w, records[0])
}

// TestUnitOf: a job has no more units than the journal of a large one can bear.
func TestUnitOf(t *testing.T) {
	for _, c := range []struct{ cases, want int }{{0, 1}, {1, 1}, {20_000, 1}, {20_001, 2}, {1_000_000, 50}, {1_000_001, 51}} {
		if got := UnitOf(c.cases); got != c.want {
			t.Errorf("%d cases: units of %d, want %d", c.cases, got, c.want)
		}
	}
}

// hostile: what is not the record of a unit of this job is refused.
func hostile(t *testing.T, w *Work, good *Record) {
	data, err := good.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		change func(map[string]any)
		want   string
	}{
		{"nothing", func(map[string]any) {}, ""},
		{"unknown key", func(m map[string]any) { m["extra"] = 1 }, "unknown field"},
		{"other plan", func(m map[string]any) { m["plan"] = "x" }, "of plan"},
		{"unit beyond", func(m map[string]any) { m["unit"] = 99 }, "want 1 to 4"},
		{"another unit's place", func(m map[string]any) { m["unit"] = 1 + good.Unit%4 }, "another shard"},
		{"no result", func(m map[string]any) { m["result"] = nil }, "no result"},
		{"other build", func(m map[string]any) { m["result"].(map[string]any)["head"].(map[string]any)["id"] = "sha256:0" }, "another shard, build"},
		{"other case", func(m map[string]any) {
			m["result"].(map[string]any)["cases"].([]any)[0].(map[string]any)["id"] = "../../etc/passwd"
		}, "case"},
		{"a case twice", func(m map[string]any) {
			r := m["result"].(map[string]any)
			r["cases"] = append(r["cases"].([]any), r["cases"].([]any)[0])
		}, "2 cases, want 1"},
		{"path as finding", func(m map[string]any) {
			r := m["result"].(map[string]any)
			r["findings"] = []any{map[string]any{"id": "../../../f-000000000000", "case": w.Job.unitCases(good.Unit)[0].Name, "pass": nil}}
		}, "want f- and twelve"},
		{"finding of another case", func(m map[string]any) {
			m["result"].(map[string]any)["findings"] = []any{map[string]any{"id": "f-000000000000", "case": "x"}}
		}, "a finding of case"},
		{"files of no finding", func(m map[string]any) { m["files"] = map[string]any{"../x": map[string]any{"case": "AAAA"}} }, "files of no finding"},
		{"costs of another case", func(m map[string]any) {
			m["costs"] = []any{map[string]any{"case": "x", "base": []float64{1, 1}, "head": []float64{1, 1}}}
		}, "costs of case"},
		{"too few costs", func(m map[string]any) {
			m["costs"] = []any{map[string]any{"case": w.Job.unitCases(good.Unit)[0].Name, "base": []float64{1}, "head": []float64{1}}}
		}, "costs of case"},
		{"costs below zero", func(m map[string]any) {
			m["costs"] = []any{map[string]any{"case": w.Job.unitCases(good.Unit)[0].Name, "base": []float64{1, -1}, "head": []float64{1, 1}}}
		}, "costs of case"},
	} {
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		c.change(m)
		changed, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.ReadRecord(changed)
		var bad *RecordError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	if _, err := w.ReadRecord(append(data, "{}"...)); err == nil {
		t.Error("two records in one are taken")
	}
}

func testJob(t testing.TB) *Job {
	b := &builds.Build{ID: "sha256:1", Spec: builds.Spec{Text: "b"}}
	return NewJob(b, b, nil, exampleCases(t, "softmax", "matmul"))
}

func TestReadJob(t *testing.T) {
	data, err := testJob(t).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	j, err := ReadJob(data)
	if err != nil || len(j.cases) != 2 || j.cases[1].Name != "matmul" || j.cases[1].Hash() != testJob(t).cases[1].Hash() {
		t.Fatalf("%v, %+v", err, j)
	}
	if _, err := j.Config(&builds.Build{ID: "sha256:1"}, &builds.Build{ID: "sha256:2"}, nil); err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("other builds: %v", err)
	}
	if _, err := j.Config(&builds.Build{ID: "sha256:1"}, &builds.Build{ID: "sha256:1"}, &builds.Build{ID: "sha256:1"}); err == nil {
		t.Error("a witness that the job has not is taken")
	}
	for _, c := range []struct{ old, new, want string }{
		{`"schema":"passgate/job/v1"`, `"schema":"v2"`, "schema"},
		{`"probes":0`, `"probes":100000000`, "out of its range"},
		{`"timeout_ns":0`, `"timeout_ns":-1`, "out of its range"},
		{`"unit_cases":1`, `"unit_cases":0`, "out of its range"},
		{`"probes"`, `"probe"`, "unknown field"},
		{`"name":"softmax"`, `"name":""`, "case name"},
		{`ROOT`, `RO0T`, "softmax.case:"},
	} {
		text := strings.Replace(string(data), c.old, c.new, 1)
		if text == string(data) {
			t.Fatalf("%s is not in the job", c.old)
		}
		if _, err := ReadJob([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}

func FuzzReadJob(f *testing.F) {
	data, err := testJob(f).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := ReadJob(data)
		if err != nil {
			return
		}
		again, err := j.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadJob(again); err != nil {
			t.Fatalf("a job that was read cannot be read again: %v", err)
		}
	})
}

// FuzzReadRecord: what comes from elsewhere never panics.
func FuzzReadRecord(f *testing.F) {
	j := testJob(f)
	w := &Work{Job: j, shards: &gate.Shards{}}
	f.Add([]byte(`{"plan":"","unit":1,"result":{"schema":"passgate/result/v1","shard":"1/2","base":{"id":"sha256:1"},"head":{"id":"sha256:1"},"part":{"plan":""},"cases":[{"id":"softmax","hash":"` + j.cases[0].Hash() + `"}]},"files":{},"costs":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := w.ReadRecord(data)
		if err != nil {
			return
		}
		tally := w.NewTally()
		tally.Add(r)
		if res, report, err := tally.Result(time.Unix(0, 0), nil); err == nil && len(res.Cases) == 1 {
			report.Markdown()
		}
	})
}

// TestCompare: on builds that cost the same the report claims a difference in at
// most one run of twenty; a slower head is seen, with a ratio near the true one.
func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func(programs int, slower float64) []Cost {
		var out []Cost
		for i := range programs {
			c := Cost{Case: fmt.Sprint(i)}
			size := 1 + 10*rng.Float64()
			for range 3 {
				c.Base = append(c.Base, size*(1+0.2*rng.Float64()))
				c.Head = append(c.Head, slower*size*(1+0.2*rng.Float64()))
			}
			out = append(out, c)
		}
		return out
	}
	const runs = 400
	alarms := 0
	for range runs {
		c := compare(draw(60, 1))
		if discover(c); c.Discovered != "" {
			alarms++
		}
	}
	// Two hypotheses at false discovery rate 0.05: at most 5 %, with three
	// standard deviations of the simulation.
	if most := 0.05*runs + 3*math.Sqrt(0.05*0.95*runs); float64(alarms) > most {
		t.Errorf("%d of %d comparisons without a difference claim one, want at most %.0f", alarms, runs, most)
	}
	worse := compare(draw(60, 1.2))
	discover(worse)
	if worse.Discovered != "worse" || worse.Interval == nil || worse.Interval[0] > 1.2 || worse.Interval[1] < 1.2 || worse.Ratio < 1.1 || len(worse.Largest) != 10 {
		t.Errorf("a head that is a fifth slower: %+v", worse)
	}
	better := compare(draw(60, 0.8))
	if discover(better); better.Discovered != "better" {
		t.Errorf("a head that is a fifth faster: %+v", better)
	}
	if c := compare(nil); c.Programs != 0 || c.Ratio != 1 {
		t.Errorf("nothing: %+v", c)
	}
}
