package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/passgate/passgate/gate"
)

// Record is the outcome of one unit.
type Record struct {
	Plan   string       `json:"plan"`
	Unit   int          `json:"unit"` // from 1
	Result *gate.Result `json:"result"`
	// Files are the case files of the result's findings, by their ids.
	Files map[string]Files `json:"files"`
	Costs []Cost           `json:"costs"`
}

// Files are the case that shows a finding, and the smallest one known.
type Files struct {
	Case    []byte `json:"case,omitempty"`
	Minimal []byte `json:"minimal,omitempty"`
}

// MaxRecordBytes bounds a record that comes from elsewhere.
const MaxRecordBytes = 256 << 20

// RecordError is a record that does not belong to a job, or is none.
type RecordError struct{ Reason string }

func (e *RecordError) Error() string { return "record: " + e.Reason }

// Marshal writes a record, on one line.
func (r *Record) Marshal() ([]byte, error) { return json.Marshal(r) }

// strict reads one JSON value and nothing else.
func strict(data []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// Work is a job that is ready to run on this machine.
type Work struct {
	Job    *Job
	shards *gate.Shards
	cfg    gate.Config
}

// Prepare makes a job ready. cfg is that of Job.Config with the fields of this
// machine filled in.
func Prepare(ctx context.Context, j *Job, cfg gate.Config) (*Work, error) {
	s, err := gate.Prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Work{j, s, cfg}, nil
}

// Plan identifies the job: see gate.Part.
func (w *Work) Plan() string { return w.shards.Plan() }

// Run runs a unit. The record is nil if ctx ended before.
func (w *Work) Run(ctx context.Context, unit int) (*Record, error) {
	res, err := w.shards.Run(ctx, unit)
	if err != nil {
		return nil, err
	}
	r := &Record{Plan: w.Plan(), Unit: unit, Result: res, Files: map[string]Files{}, Costs: []Cost{}}
	for _, f := range res.Findings {
		r.Files[f.ID] = Files{f.CaseFile, f.MinimalFile}
	}
	for _, c := range w.Job.unitCases(unit) {
		if cost, ok := w.cost(ctx, c); ok {
			r.Costs = append(r.Costs, cost)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return r, nil
}

var findingID = regexp.MustCompile(`^f-[0-9a-f]{12}$`)

// ReadRecord reads a record of the job that comes from elsewhere and distrusts
// it: its size, its keys, and that it is about the cases of its unit and nothing
// else. Errors are *RecordError.
func (w *Work) ReadRecord(data []byte) (*Record, error) {
	bad := func(format string, args ...any) (*Record, error) {
		return nil, &RecordError{fmt.Sprintf(format, args...)}
	}
	if len(data) > MaxRecordBytes {
		return bad("%d bytes, more than %d", len(data), MaxRecordBytes)
	}
	r := &Record{}
	if err := strict(data, r); err != nil {
		return bad("%v", err)
	}
	if r.Plan != w.Plan() {
		return bad("of plan %q, want %q", clip(r.Plan), w.Plan())
	}
	units := w.Job.Units()
	if r.Unit < 1 || r.Unit > units {
		return bad("of unit %d, want 1 to %d", r.Unit, units)
	}
	res := r.Result
	if res == nil || res.Schema != gate.Schema {
		return bad("unit %d: no result of schema %s", r.Unit, gate.Schema)
	}
	want := ""
	if units > 1 {
		want = fmt.Sprintf("%d/%d", r.Unit, units)
		if res.Part == nil || res.Part.Plan != r.Plan {
			return bad("unit %d: the result is of another plan", r.Unit)
		}
	}
	if res.Shard != want || res.Base.ID != w.Job.BaseID || res.Head.ID != w.Job.HeadID || res.Seed != w.Job.Seed {
		return bad("unit %d: the result is that of another shard, build or seed", r.Unit)
	}
	cases := w.Job.unitCases(r.Unit)
	if len(res.Cases) != len(cases) {
		return bad("unit %d: %d cases, want %d", r.Unit, len(res.Cases), len(cases))
	}
	names := map[string]bool{}
	for i, c := range cases {
		names[c.Name] = true
		if res.Cases[i].ID != c.Name || res.Cases[i].Hash != c.Hash() {
			return bad("unit %d: case %q, want %q", r.Unit, clip(res.Cases[i].ID), c.Name)
		}
	}
	ids := map[string]bool{}
	for i := range res.Findings {
		f := &res.Findings[i]
		if !findingID.MatchString(f.ID) {
			return bad("unit %d: finding %q: want f- and twelve hex digits", r.Unit, clip(f.ID))
		}
		if !names[f.Case] {
			return bad("unit %d: a finding of case %q", r.Unit, clip(f.Case))
		}
		ids[f.ID] = true
		f.CaseFile, f.MinimalFile = r.Files[f.ID].Case, r.Files[f.ID].Minimal
	}
	for id := range r.Files {
		if !ids[id] {
			return bad("unit %d: files of no finding, %q", r.Unit, clip(id))
		}
	}
	for _, c := range r.Costs {
		if !names[c.Case] || !c.valid(w.Job.CostRuns) {
			return bad("unit %d: costs of case %q", r.Unit, clip(c.Case))
		}
	}
	return r, nil
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
