package gate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/campaign"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/xla/builds"
)

var mergeDay = time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)

// mergeRun is a run of the given case reports, of which a shard takes its part.
type mergeRun struct {
	cfg     Config
	reports []caseReport
}

// result is what Run says of shard I of N; N is 0 for one run over all.
func (m mergeRun) result(t *rapid.T, i, n int, halt string) *Result {
	m.cfg.Shard, m.cfg.Shards = i, n
	reports := m.reports
	res := &Result{Schema: Schema, Reasons: []string{}, Passes: []PassResult{}, Cases: []CaseResult{}, Findings: []Finding{}}
	if n > 1 {
		res.Shard = fmt.Sprintf("%d/%d", i, n)
		reports = nil
		for j := i - 1; j < len(m.reports); j += n {
			reports = append(reports, m.reports[j])
		}
	}
	reports = slices.Clone(reports)
	for j := range reports {
		reports[j].findings = slices.Clone(reports[j].findings)
	}
	for _, f := range m.cfg.Passes {
		res.Passes = append(res.Passes, PassResult{Name: f.Name, Weight: f.Weight})
	}
	r := newRun(m.cfg)
	parts, cells := r.summarise(res, reports)
	before := slices.Clone(res.Findings)
	applyPolicy(m.cfg.Policy, res, mergeDay)
	decide(res, parts, halt, m.cfg.NoPass)
	if n > 1 {
		res.Part = r.part(res, before, len(reports), parts, cells, halt)
	}
	data, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var read Result
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	return &read
}

func drawRun(t *rapid.T) mergeRun {
	rules, err := policy.Parse("passgate.yaml", []byte(`
version: 1
block: [miscompile, crash, numeric-degradation]
ulp-budgets: [{op: tanh, type: f32, ulps: 0.25}]
known-issues: [{id: "#1", reason: known, expires: 2027-01-01, match: {case: "c1*"}}]
overrides:
- {reason: urgent, person: somebody, expires: 2027-01-01, scope: {case: "c2*"}}
- {reason: old, person: somebody, expires: 2026-01-01, scope: {case: "c*"}}
minimum-firing: {default: 3}
`))
	if err != nil {
		t.Fatal(err)
	}
	m := mergeRun{cfg: Config{Base: &builds.Build{ID: "b"}, Head: &builds.Build{ID: "h"}, Seed: 7, NoPass: rapid.Bool().Draw(t, "no pass")}}
	if rapid.Bool().Draw(t, "policy") {
		m.cfg.Policy = rules
	}
	if rapid.Bool().Draw(t, "focus") {
		for _, name := range []string{"algsimp", "fusion"} {
			m.cfg.Passes = append(m.cfg.Passes, Focus{Name: name, Weight: 6, Matches: func(step string) bool { return step == name }})
		}
	}
	loss := rapid.Bool().Draw(t, "loss of accuracy")
	few := func(label string, n int) int { return rapid.IntRange(0, n).Draw(t, label) }
	for i := range rapid.IntRange(1, 40).Draw(t, "cases") {
		c, err := fuzz.ReadCase(fmt.Sprintf("c%d.case", i), []byte("-- module.hlo --\nHloModule m\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n"))
		if err != nil {
			t.Fatal(err)
		}
		m.cfg.Cases = append(m.cfg.Cases, c)
		k := caseReport{executed: true, result: CaseResult{ID: c.Name, Outcome: CaseOK, Streams: []StreamResult{{Judged: 1}, {}}}}
		k.answers = []answer{{judged: int64(few("judged", 9)), undecided: int64(few("undecided", 3)), samples: map[sampleKey]*sample{}}}
		for _, op := range []string{"tanh", "dot"} {
			worse := int64(4 + few("worse", 12))
			if loss {
				worse = int64(15 + few("worse by much", 1))
			}
			k.answers[0].samples[sampleKey{op, "f32", "own"}] = accuracySample(16, worse, 0.5+0.1*float64(few("shift", 5)))
		}
		k.steps = map[string]stepCount{"algsimp": {few("ran", 2), 0}, "fusion": {1, few("fired", 1)}}
		if few("null", 3) == 0 {
			k.null = []nullAnswer{{variant: "again", cells: 2}, {variant: "narrow", cells: 2, same: few("same", 1) == 0, samples: map[sampleKey]*sample{{"dot", "f32", "own"}: accuracySample(16, int64(few("null worse", 16)), 0)}}}
			if few("alarm", 4) == 0 {
				k.null[1].alarms = []string{c.Name + ", alarm"}
			}
		}
		switch few("outcome", 12) {
		case 0:
			k = caseReport{result: CaseResult{ID: c.Name, Outcome: CaseSkipped, Streams: []StreamResult{}}}
		case 1:
			k.executed, k.passesOnly, k.result.Steps = false, true, &StepCounts{Base: 2, Judged: few("steps", 2)}
		case 2:
			k.refused, k.dropped[1] = true, map[string]bool{"xla_x": true}
		case 3:
			k.wantDisputed = "disputed"
		}
		for j := range few("findings", 2) {
			f := Finding{ID: fmt.Sprintf("f-%d-%d", i, j), Class: []Class{Miscompile, Crash, BufferCorruption}[few("class", 2)], Status: []Status{New, Fixed, PreExisting, Contested}[few("status", 3)],
				Case: c.Name, Cluster: fmt.Sprint("k", few("cluster", 3)), Witnesses: []string{"execution"}, First: First{At: []int64{}}}
			f.Blocking = f.Status == New && few("blocks", 5) == 0
			k.findings = append(k.findings, f)
			k.result.Outcome = CaseFinding
		}
		if k.result.Outcome == CaseFinding && few("lost", 6) == 0 {
			k.lost = "out of memory"
		}
		m.reports = append(m.reports, k)
	}
	return m
}

// TestMergeIsOneRun: the shards of a run, read from JSON and in any order, are
// the run: every count, cell, interval, e-value, finding and reason.
func TestMergeIsOneRun(t *testing.T) {
	verdicts, statistical := map[Verdict]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		m := drawRun(t)
		whole := m.result(t, 0, 0, "")
		n := rapid.IntRange(2, 5).Draw(t, "shards")
		var shards []*Result
		for i := range n {
			shards = append(shards, m.result(t, i+1, n, ""))
		}
		shards = rapid.Permutation(shards).Draw(t, "order")
		got, err := Merge(shards, nil, mergeDay)
		if err != nil {
			t.Fatal(err)
		}
		// Only shards carry the case files; findings read from JSON have none.
		for i := range got.Findings {
			got.Findings[i].CaseFile, got.Findings[i].MinimalFile = nil, nil
			if slices.Equal(got.Findings[i].Witnesses, []string{WitnessStatistics}) {
				statistical++
			}
		}
		verdicts[whole.Verdict]++
		if diff := cmp.Diff(text(t, whole), text(t, got)); diff != "" {
			t.Fatalf("one run -, merged +:\n%s", diff)
		}
	})
	if len(verdicts) < 4 || statistical == 0 {
		t.Errorf("verdicts %v, %d findings of the statistics: the draws show too little", verdicts, statistical)
	}
}

func text(t *rapid.T, r *Result) string {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestMergeOfSome: a shard that is missing or was cut short is named, and takes
// the verdict with it unless something blocks.
func TestMergeOfSome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawRun(t)
		n := rapid.IntRange(2, 4).Draw(t, "shards")
		away, how := rapid.IntRange(1, n).Draw(t, "away"), rapid.SampledFrom([]string{"missing", "halted", "lost"}).Draw(t, "how")
		var shards []*Result
		blocked := false
		add := func(s *Result) {
			shards = append(shards, s)
			// Statistics are those of all shards together.
			blocked = blocked || s.Verdict == Blocked && slices.ContainsFunc(s.Findings, func(f Finding) bool {
				return f.Blocking && !slices.Equal(f.Witnesses, []string{WitnessStatistics})
			})
		}
		for i := 1; i <= n; i++ {
			switch {
			case i != away:
				add(m.result(t, i, n, ""))
			case how == "halted":
				add(m.result(t, i, n, "interrupted"))
			case how == "lost":
				shards = append(shards, &Result{Schema: Schema, Shard: fmt.Sprintf("%d/%d", i, n), Verdict: Inconclusive, Reasons: []string{"no worker started"}})
			}
		}
		got, err := Merge(shards, nil, mergeDay)
		if err != nil {
			t.Fatal(err)
		}
		if name := fmt.Sprintf("shard %d/%d", away, n); len(got.Missing) != 1 || !strings.HasPrefix(got.Missing[0], name) || !slices.ContainsFunc(got.Reasons, func(s string) bool { return strings.Contains(s, name) }) {
			t.Fatalf("%s %s: missing %q, reasons %q", name, how, got.Missing, got.Reasons)
		}
		if got.Verdict != Blocked && (got.Verdict != Inconclusive || blocked) {
			t.Fatalf("%s, a shard blocks %t: verdict %s", how, blocked, got.Verdict)
		}
	})
}

// TestFiringsAddUp: a pass that fires in one shard alone is exercised, and one
// that fires too rarely in each may fire often enough in all.
func TestFiringsAddUp(t *testing.T) {
	shard := func(i, fired, cases int) *Result {
		return &Result{Schema: Schema, Shard: fmt.Sprintf("%d/2", i), Verdict: NotExercised, Passes: []PassResult{{Name: "algsimp", Weight: 6, Ran: 9, Fired: fired, Cases: cases}},
			Cases: []CaseResult{}, Exploration: &ExplorationResult{Programs: 20, MinFirings: 10, Fired: cases, Signatures: 2, Sources: []campaign.Tally{{Origin: "seed", Programs: i}}},
			Part: &Part{Signatures: []string{"shared", fmt.Sprint("own ", i)}}}
	}
	for _, c := range []struct {
		a, b *Result
		want Verdict
	}{{shard(1, 7, 6), shard(2, 5, 5), Pass}, {shard(1, 7, 6), shard(2, 3, 3), NotExercised}, {shard(1, 0, 0), shard(2, 30, 15), Pass}, {shard(1, 0, 0), shard(2, 0, 0), NotExercised}} {
		got, err := Merge([]*Result{c.b, c.a}, nil, mergeDay)
		if err != nil {
			t.Fatal(err)
		}
		x := got.Exploration
		if got.Verdict != c.want || got.Passes[0].Fired != c.a.Passes[0].Fired+c.b.Passes[0].Fired || x.Programs != 40 || x.Signatures != 3 || !reflect.DeepEqual(x.Sources, []campaign.Tally{{Origin: "seed", Programs: 3}}) {
			t.Errorf("want %s, got %s: %q, %+v", c.want, got.Verdict, got.Reasons, x)
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	shard := func(name, plan string) *Result { return &Result{Schema: Schema, Shard: name, Part: &Part{Plan: plan}} }
	for _, c := range []struct {
		shards []*Result
		want   string
	}{
		{[]*Result{shard("1/2", "a"), shard("2/2", "b")}, "shards 1/2 and 2/2 are of different runs"},
		{[]*Result{shard("1/2", "a"), shard("1/2", "a")}, "shard 1/2 is there twice"},
		{[]*Result{shard("1/2", "a"), shard("3/3", "a")}, "shard 3/3 does not belong to a run of 2 shards"},
		{[]*Result{shard("3/2", "a"), shard("1/2", "a")}, `shard "3/2": want I/N`},
		{[]*Result{shard("1/2", "a"), {Shard: "2/2", Verdict: Pass, Cases: make([]CaseResult, 3)}}, "a result of 3 cases does not come from check --shard"},
		{[]*Result{shard("1/2", "a"), {Shard: "2/2", Cases: make([]CaseResult, 3), Part: &Part{Plan: "a"}}}, "shard 2/2 has 3 cases and the parts of 0"},
		{[]*Result{{Shard: "1/2", Part: &Part{Cells: []CellPart{{Bets: []BetPart{{Case: "c", Elements: 1, HeadWorse: 1, BaseWorse: 1}}}}}}}, "case c bets with 1 and 1 of 1 elements"},
		{[]*Result{{Shard: "1/2", Part: &Part{Cells: []CellPart{{Nulls: []NullBetPart{{Case: "c", Sign: 2}}}}}}}, "case c has the sign 2"},
	} {
		if _, err := Merge(c.shards, nil, mergeDay); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if res, err := Merge(nil, []string{"out does not exist"}, mergeDay); err != nil || res.Verdict != Inconclusive || res.Reasons[0] != "out does not exist" {
		t.Errorf("%+v, %v", res, err)
	}
}
