package release

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/reports"
)

// Schema names the version of the report's format; schema/ holds its JSON Schema.
const Schema = "passgate/release/v1"

// Report is what a release manager reads. Everything but Timing is the same for
// the same builds, cases and seed, on however many machines and after however many
// interruptions.
type Report struct {
	Schema  string       `json:"schema"`
	Verdict gate.Verdict `json:"verdict"`
	Reasons []string     `json:"reasons"`
	Base    gate.Build   `json:"base"`
	Head    gate.Build   `json:"head"`
	Seed    uint64       `json:"seed"`
	Totals  gate.Totals  `json:"totals"`
	// Steps counts the pass steps of programs that were not executed.
	Steps *gate.StepCounts `json:"steps,omitempty"`
	// The defects by what they mean for the release, each once.
	Regressions []Defect `json:"regressions"`
	Fixed       []Defect `json:"fixed"`
	PreExisting []Defect `json:"pre_existing"`
	Contested   []Defect `json:"contested"`
	Disputed    []Defect `json:"disputed"`
	// Numeric is the drift of accuracy by operation, type and inputs.
	Numeric []gate.Cell `json:"numeric"`
	// Memory compares what compiled programs need, by the buffer assignment; nil
	// where the builds do not tell.
	Memory   *Comparison `json:"memory,omitempty"`
	Coverage Coverage    `json:"coverage"`
	// Since compares with an earlier report; nil without one.
	Since  *Since `json:"since,omitempty"`
	Timing Timing `json:"timing"`
}

// Defect is a cluster of findings of one status.
type Defect struct {
	// Cluster is the defect's id, Findings those of its findings, gravest first.
	Cluster  string     `json:"cluster"`
	Findings []string   `json:"findings"`
	Class    gate.Class `json:"class"`
	Blocking bool       `json:"blocking"`
	// Pass is "pipeline/index/name" or "code generation"; "" while unknown.
	Pass        string     `json:"pass"`
	Level       gate.Level `json:"level,omitempty"`
	Instruction string     `json:"instruction"`
	Cases       []string   `json:"cases"`
	Confirmed   string     `json:"confirmed,omitempty"`
	Detail      string     `json:"detail"`
}

// Coverage says which passes the run exercised.
type Coverage struct {
	// Platform is "cpu", "gpu" or "tpu"; "" if the build's is none of these.
	Platform string `json:"platform"`
	// Known are the passes of the registry that a pipeline of the platform runs,
	// Ran and Fired those of them that were seen to run and to change a program.
	Known int `json:"known"`
	Ran   int `json:"ran"`
	Fired int `json:"fired"`
	// Idle are the known passes that changed no program, by name.
	Idle []string `json:"idle"`
	// Passes are all that were seen, by the names of the dumps.
	Passes []gate.PassCount `json:"passes"`
}

// Since is what differs from an earlier report.
type Since struct {
	Base    string       `json:"base"` // the earlier report's builds
	Head    string       `json:"head"`
	Verdict gate.Verdict `json:"verdict"`
	// New and Gone are the defects that head has and the earlier head had not, and
	// the other way round; contested and disputed ones are left out.
	New  []string `json:"new"`
	Gone []string `json:"gone"`
	// Idle are passes that changed programs then and none now.
	Idle []string `json:"idle"`
	// Cases is the number of cases then.
	Cases int `json:"cases"`
}

// Timing is what differs between equal runs.
type Timing struct {
	gate.Timing
	// Compile compares the time of compilations; nil if it was not measured.
	Compile *Comparison `json:"compile,omitempty"`
}

func newReport(res *gate.Result, costs []Cost, previous *Report) *Report {
	r := &Report{Schema: Schema, Verdict: res.Verdict, Reasons: res.Reasons, Base: res.Base, Head: res.Head, Seed: res.Seed, Totals: res.Totals, Steps: res.Steps,
		Numeric: []gate.Cell{}, Timing: Timing{Timing: res.Timing}}
	for _, s := range []struct {
		status gate.Status
		to     *[]Defect
	}{{gate.New, &r.Regressions}, {gate.Fixed, &r.Fixed}, {gate.PreExisting, &r.PreExisting}, {gate.Contested, &r.Contested}, {gate.ReferenceDisputed, &r.Disputed}} {
		*s.to = defects(res, s.status)
	}
	r.Numeric = append(r.Numeric, res.Statistics.Cells...)
	slices.SortStableFunc(r.Numeric, func(a, b gate.Cell) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Dtype, b.Dtype), cmp.Compare(a.Stream, b.Stream))
	})
	var bytes []Cost
	for _, c := range res.Cases {
		if b := c.Buffers; b != nil && b.Base > 0 && b.Head > 0 {
			bytes = append(bytes, Cost{c.ID, []float64{float64(b.Base)}, []float64{float64(b.Head)}})
		}
	}
	if len(bytes) > 0 {
		r.Memory = compare(bytes)
		discover(r.Memory)
	}
	if len(costs) > 0 {
		r.Timing.Compile = compare(costs)
		discover(r.Timing.Compile)
	}
	r.Coverage = coverage(res)
	if previous != nil {
		r.Since = r.since(previous)
	}
	return r
}

func defects(res *gate.Result, status gate.Status) []Defect {
	var found []gate.Finding
	for _, f := range res.Findings {
		if f.Status == status {
			found = append(found, f)
		}
	}
	out := []Defect{}
	for _, c := range reports.Clusters(found) {
		f := c.Findings[0]
		d := Defect{Cluster: c.ID, Class: f.Class, Level: f.Level, Instruction: f.Instruction, Cases: c.Cases, Confirmed: f.Confirmed, Detail: f.Detail}
		if f.Pass != nil {
			d.Pass = f.Pass.String()
		}
		for _, f := range c.Findings {
			d.Findings = append(d.Findings, f.ID)
			d.Blocking = d.Blocking || f.Blocking
		}
		out = append(out, d)
	}
	return out
}

// platforms are the names in the registry of PJRT's platforms.
var platforms = map[string]string{"cpu": "cpu", "tpu": "tpu", "cuda": "gpu", "gpu": "gpu", "rocm": "gpu"}

func coverage(res *gate.Result) Coverage {
	out := Coverage{Platform: platforms[res.Head.Platform], Idle: []string{}, Passes: []gate.PassCount{}}
	out.Passes = append(out.Passes, res.Coverage...)
	for _, p := range passes.All() {
		if strings.HasPrefix(p.Name, "<") || !slices.Contains(p.Pipelines, out.Platform) && !(out.Platform == "gpu" && slices.Contains(p.Pipelines, res.Head.Platform)) {
			continue
		}
		ran, fired := false, false
		for _, c := range res.Coverage {
			if p.Matches(c.Name) {
				ran, fired = ran || c.Ran > 0, fired || c.Fired > 0
			}
		}
		out.Known++
		if ran {
			out.Ran++
		}
		if fired {
			out.Fired++
		} else {
			out.Idle = append(out.Idle, p.Name)
		}
	}
	slices.Sort(out.Idle)
	out.Idle = slices.Compact(out.Idle)
	return out
}

// bad are the defects that head shows.
func (r *Report) bad() []Defect { return slices.Concat(r.Regressions, r.PreExisting) }

func (r *Report) since(old *Report) *Since {
	s := &Since{Base: old.Base.Spec, Head: old.Head.Spec, Verdict: old.Verdict, New: []string{}, Gone: []string{}, Idle: []string{}, Cases: old.Totals.Cases}
	missing := func(from, in []Defect) []string {
		out := []string{}
		for _, d := range from {
			if !slices.ContainsFunc(in, func(o Defect) bool { return o.Cluster == d.Cluster }) && !slices.Contains(out, d.Cluster) {
				out = append(out, d.Cluster)
			}
		}
		return out
	}
	s.New, s.Gone = missing(r.bad(), old.bad()), missing(old.bad(), r.bad())
	fired := map[string]bool{}
	for _, p := range r.Coverage.Passes {
		fired[p.Name] = p.Fired > 0
	}
	for _, p := range old.Coverage.Passes {
		if p.Fired > 0 && !fired[p.Name] {
			s.Idle = append(s.Idle, p.Name)
		}
	}
	return s
}

// ReadReport reads an earlier report.
func ReadReport(name string, data []byte) (*Report, error) {
	r := &Report{}
	if err := strict(data, r); err != nil {
		return nil, &RecordError{fmt.Sprintf("%s: %v; want a release.json of passgate", name, err)}
	}
	if r.Schema != Schema {
		return nil, &RecordError{fmt.Sprintf("%s: schema %q, want %q", name, clip(r.Schema), Schema)}
	}
	return r, nil
}
