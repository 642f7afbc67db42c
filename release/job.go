// Package release compares two builds over a whole corpus, for hours if need be.
//
// A run is cut into units, a case or a few each, which are the shards of
// gate.Merge: a unit's outcome is a Record, whether it lies in the journal of one
// machine or travels from one machine to another, and the report is made of the
// union of all records. So a run that is killed goes on where it was, and a run
// on many machines says what one on a single machine says.
package release

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/xla/builds"
)

// JobSchema names the version of the job format.
const JobSchema = "passgate/job/v1"

// Job is everything that a run depends on but the machine.
type Job struct {
	Schema string `json:"schema"`
	// Base and Head are build specs, Witness the executable build of the third
	// witness, "" for none; the IDs are the builds' digests.
	Base      string `json:"base"`
	BaseID    string `json:"base_id"`
	Head      string `json:"head"`
	HeadID    string `json:"head_id"`
	Witness   string `json:"witness,omitempty"`
	WitnessID string `json:"witness_id,omitempty"`
	// The settings of gate.Config of the same names.
	Seed       uint64        `json:"seed"`
	Timeout    time.Duration `json:"timeout_ns"`
	Probes     int           `json:"probes"`
	NullCases  int           `json:"null_cases"`
	NoCut      bool          `json:"no_cut,omitempty"`
	CutLimit   int           `json:"cut_limit"`
	PassesOnly bool          `json:"passes_only,omitempty"`
	// PolicyFile and PolicyText are the policy; both "" for none.
	PolicyFile string `json:"policy_file,omitempty"`
	PolicyText string `json:"policy_text,omitempty"`
	// UnitCases is the number of cases of a unit, from 1.
	UnitCases int `json:"unit_cases"`
	// CostRuns is the number of compilations of each case by each build that
	// measure the time of a compilation; 0 for none.
	CostRuns int       `json:"cost_runs"`
	Cases    []JobCase `json:"cases"`

	cases []*fuzz.Case
}

// JobCase is a case by its name, as the text of a .case file.
type JobCase struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// The limits of a job that comes from elsewhere.
const (
	MaxJobBytes = 1 << 30
	maxCases    = 4 << 20
	maxRuns     = 100
	maxProbes   = 100000
)

// NewJob fills in the cases and builds.
func NewJob(base, head, witness *builds.Build, cases []*fuzz.Case) *Job {
	j := &Job{Schema: JobSchema, Base: base.Spec.Text, BaseID: base.ID, Head: head.Spec.Text, HeadID: head.ID, UnitCases: 1, cases: cases}
	if witness != nil {
		j.Witness, j.WitnessID = witness.Spec.Text, witness.ID
	}
	for _, c := range cases {
		j.Cases = append(j.Cases, JobCase{c.Name, string(c.Format())})
	}
	return j
}

// manyUnits bounds the units of a job that nobody has cut into units: a record has
// about 15 KB beside its cases (the passes that were seen), so the journal of
// 1,000,000 cases stays below 2 GB, and a kill costs no more than a few minutes.
const manyUnits = 20_000

// UnitOf is the number of cases of a unit of a job with so many.
func UnitOf(cases int) int { return max(1, (cases+manyUnits-1)/manyUnits) }

// JobError is a job that cannot be run.
type JobError struct{ Reason string }

func (e *JobError) Error() string { return "job: " + e.Reason }

// ReadJob reads a job that comes from elsewhere and distrusts it: sizes are
// bounded, unknown keys refused, and every case is parsed and verified. Errors are
// *JobError, or *hlo.SyntaxError of a case.
func ReadJob(data []byte) (*Job, error) {
	if len(data) > MaxJobBytes {
		return nil, &JobError{fmt.Sprintf("%d bytes, more than %d", len(data), MaxJobBytes)}
	}
	j := &Job{}
	if err := strict(data, j); err != nil {
		return nil, &JobError{err.Error()}
	}
	switch {
	case j.Schema != JobSchema:
		return nil, &JobError{fmt.Sprintf("schema %q, want %q", j.Schema, JobSchema)}
	case len(j.Cases) == 0 || len(j.Cases) > maxCases:
		return nil, &JobError{fmt.Sprintf("%d cases, want 1 to %d", len(j.Cases), maxCases)}
	case j.UnitCases < 1 || j.CostRuns < 0 || j.CostRuns > maxRuns || j.Probes < 0 || j.Probes > maxProbes || j.NullCases < 0 || j.CutLimit < 0 || j.Timeout < 0 || j.Timeout > time.Hour:
		return nil, &JobError{"a setting is out of its range"}
	}
	for _, c := range j.Cases {
		if len(c.Name) == 0 || len(c.Name) > 1024 {
			return nil, &JobError{fmt.Sprintf("a case name of %d bytes", len(c.Name))}
		}
		k, err := fuzz.ReadCase(c.Name+".case", []byte(c.Text))
		if err != nil {
			return nil, err
		}
		k.Name, k.Path = c.Name, ""
		j.cases = append(j.cases, k)
	}
	return j, nil
}

// Marshal writes a job for ReadJob.
func (j *Job) Marshal() ([]byte, error) { return json.Marshal(j) }

// Units is the number of units, from 1.
func (j *Job) Units() int { return (len(j.cases) + max(1, j.UnitCases) - 1) / max(1, j.UnitCases) }

// unitCases are the cases of a unit: those of shard unit of Units.
func (j *Job) unitCases(unit int) []*fuzz.Case {
	var out []*fuzz.Case
	for i := unit - 1; i < len(j.cases); i += j.Units() {
		out = append(out, j.cases[i])
	}
	return out
}

// Config are the gate's settings for the job on builds that are on this machine.
// It refuses builds that are not those of the job: *JobError. Runner, Now, Steps,
// TempDir and DumpRoot are left to the caller.
func (j *Job) Config(base, head, witness *builds.Build) (gate.Config, error) {
	cfg := gate.Config{Base: base, Head: head, Witness: witness, Cases: j.cases, Seed: j.Seed, Timeout: j.Timeout, Probes: j.Probes, NullCases: j.NullCases,
		NoCut: j.NoCut, CutLimit: j.CutLimit, PassesOnly: j.PassesOnly, Coverage: true, Shards: j.Units(), Shard: 1, Workers: 1}
	for _, b := range []struct {
		spec, id string
		build    *builds.Build
	}{{j.Base, j.BaseID, base}, {j.Head, j.HeadID, head}, {j.Witness, j.WitnessID, witness}} {
		got := ""
		if b.build != nil {
			got = b.build.ID
		}
		if got != b.id {
			return cfg, &JobError{fmt.Sprintf("it is for build %s with digest %q; here it is %q", b.spec, b.id, got)}
		}
	}
	if j.PolicyText != "" {
		var err error
		if cfg.Policy, err = policy.Parse(j.PolicyFile, []byte(j.PolicyText)); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}
