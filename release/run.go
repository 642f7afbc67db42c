package release

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/passgate/passgate/gate"
)

// Progress is told after every unit, from one goroutine at a time.
type Progress struct {
	Done, Units int
	// Resumed units were finished before this run.
	Resumed  int
	Findings int
	News     int
}

// Tally collects the records of a job: each unit once, whoever sends it and how
// often. It is not safe for concurrent use.
type Tally struct {
	work    *Work
	records []*Record // by unit-1, without their coverage
	// coverage is the sum of all records': most of a record of one case.
	coverage []gate.PassCount
	// Progress counts what is there.
	Progress Progress
}

// NewTally is empty.
func (w *Work) NewTally() *Tally {
	n := w.Job.Units()
	return &Tally{work: w, records: make([]*Record, n), Progress: Progress{Units: n}}
}

// Add takes a record; false if its unit is there already.
func (t *Tally) Add(r *Record) bool {
	if t.records[r.Unit-1] != nil {
		return false
	}
	kept, res := *r, *r.Result
	for _, c := range res.Coverage {
		t.coverage = gate.AddCoverage(t.coverage, c)
	}
	res.Coverage, kept.Result = nil, &res
	t.records[r.Unit-1] = &kept
	t.Progress.Done++
	for _, f := range r.Result.Findings {
		t.Progress.Findings++
		if f.Blocking {
			t.Progress.News++
		}
	}
	return true
}

// Has reports whether the record of a unit is there.
func (t *Tally) Has(unit int) bool { return t.records[unit-1] != nil }

// Missing are the units without a record, in order.
func (t *Tally) Missing() []int {
	var out []int
	for i, r := range t.records {
		if r == nil {
			out = append(out, i+1)
		}
	}
	return out
}

// Lost reports whether the machine, and not a build, failed on some case of a
// unit: such a unit is worth another try.
func (r *Record) Lost() bool { return r.Result.Totals.Infrastructure > 0 }

// Result is the union of all records, and the report on it. Units that are
// missing leave the verdict inconclusive, unless something blocks.
func (t *Tally) Result(now time.Time, previous *Report) (*gate.Result, *Report, error) {
	var results []*gate.Result
	var costs []Cost
	byCase := map[string]Cost{}
	for _, r := range t.records {
		if r == nil {
			continue
		}
		results = append(results, r.Result)
		for _, c := range r.Costs {
			byCase[c.Case] = c
		}
	}
	var res *gate.Result
	var err error
	if len(results) == 0 { // nothing is there: no shard names its run
		res, err = gate.Merge(nil, []string{fmt.Sprintf("none of %d cases is done", len(t.work.Job.cases))}, now)
		if err == nil {
			res.Seed = t.work.Job.Seed
			res.Base.Spec, res.Base.ID = t.work.Job.Base, t.work.Job.BaseID
			res.Head.Spec, res.Head.ID = t.work.Job.Head, t.work.Job.HeadID
		}
	} else {
		res, err = gate.Merge(results, nil, now)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(results) == 1 { // it may be the record's own
		one := *res
		res = &one
	}
	res.Coverage = t.coverage
	// The time of a run is the machines' time: units overlap, and a run may be cut
	// into several.
	res.Timing = gate.Timing{Workers: 1}
	for _, r := range results {
		res.Timing.Seconds += r.Timing.Seconds
		res.Timing.InXLASeconds += r.Timing.InXLASeconds
		res.Timing.ReferenceSeconds += r.Timing.ReferenceSeconds
	}
	if n := res.Totals.Executed + res.Totals.PassesOnly; n > 0 {
		res.Timing.CasesPerSecond = float64(n) / res.Timing.Seconds
	}
	for _, c := range t.work.Job.cases {
		if k, ok := byCase[c.Name]; ok {
			costs = append(costs, k)
		}
	}
	return res, newReport(res, costs, previous), nil
}

// Local runs all units that the tally lacks on this machine, workers at a time,
// and writes each to the journal. When ctx ends it returns nil with what there is
// in the tally. What the machine lost is in the tally, but not in the journal: the
// next run tries it again. tell may be nil.
func (w *Work) Local(ctx context.Context, t *Tally, j *Journal, workers int, tell func(Progress)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	units := make(chan int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	one := func(unit int) error {
		r, err := w.Run(ctx, unit)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := r.Marshal()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if !r.Lost() {
			if err := j.Append(data); err != nil {
				return err
			}
		}
		t.Add(r)
		if tell != nil {
			tell(t.Progress)
		}
		return nil
	}
	for range max(1, workers) {
		wg.Go(func() {
			for unit := range units {
				if err := one(unit); err != nil {
					stop(fmt.Errorf("unit %d: %w", unit, err))
				}
			}
		})
	}
	for _, unit := range t.Missing() {
		if ctx.Err() != nil {
			break
		}
		select {
		case units <- unit:
		case <-ctx.Done():
		}
	}
	close(units)
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Resume opens the journal of a job and puts its records into the tally. A unit
// that stands there twice counts once.
func (w *Work) Resume(name string, t *Tally) (*Journal, error) {
	j, err := OpenJournal(name, w.Plan(), func(line []byte) error {
		r, err := w.ReadRecord(line)
		if err != nil {
			return &JournalError{name, err.Error()}
		}
		if t.Add(r) {
			t.Progress.Resumed++
		}
		return nil
	})
	return j, err
}
