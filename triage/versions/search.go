// Package versions finds the version of a compiler in which a case began to go
// wrong, or stopped to.
//
// It is a bisection that can live with two kinds of trouble. A version of which
// nothing can be said (it cannot be had, or dies of something else) is passed
// over, as `git bisect skip` does, and if such versions lie at the boundary the
// answer is a list. And a fault that does not show every time: a good version is
// run so often that a bad one would hardly look like it, and the answer says with
// which confidence.
package versions

import (
	"context"
	"errors"
	"math"
)

// Observation is what some runs of a case on one version gave.
type Observation struct {
	// Right, Wrong and Broken count runs: with right values, with wrong ones, and
	// those in which the compiler died or hung.
	Right, Wrong, Broken int
	// Unknown says why nothing was seen; "" if there were runs.
	Unknown string
}

func (o *Observation) add(more Observation) {
	o.Right += more.Right
	o.Wrong += more.Wrong
	o.Broken += more.Broken
	o.Unknown = more.Unknown
}

// Try runs the case on version i so many times. An error ends the search.
type Try func(ctx context.Context, i, runs int) (Observation, error)

// Symptom is the kind of fault that is looked for.
type Symptom string

const (
	Values Symptom = "values" // wrong ones; a version that only dies is unknown
	Death  Symptom = "crash"  // a crash or hang; a version that gives any values does not have it
)

// Options are the settings of a search.
type Options struct {
	// Runs of every version, at least 1; MaxRuns of one that looks good while the
	// fault is flaky.
	Runs, MaxRuns int
	// Confidence in (0, 1) that a good version must reach before the search goes
	// on, if MaxRuns allow.
	Confidence float64
	// Every tries all versions instead of halving.
	Every bool
}

// State is what is known of a version.
type State string

const (
	Untried State = "untried"
	Good    State = "good"
	Bad     State = "bad"
	Unknown State = "unknown"
)

// Version is one version after the search.
type Version struct {
	Observation
	State State
}

// Change is a boundary between good and bad versions.
type Change struct {
	// Before is the last version known to be like those before the change, After
	// the first known to be like those behind it. Those between are unknown: the
	// change is in one of Before+1 to After.
	Before, After int
	// Bad says that the fault came with the change; otherwise it went.
	Bad bool
	// Confidence is the probability of this boundary, given the runs: every
	// boundary equally likely beforehand, a bad version that shows nothing in n
	// runs as likely as its failure rate makes that, the rate known from the
	// version that fails most rarely (Beta posterior, Jeffreys prior).
	Confidence float64
}

// Answer is the outcome of a search.
type Answer struct {
	Symptom  Symptom // "" if no version shows any fault
	Versions []Version
	// Changes has one element; with Options.Every as many as there are; none if
	// the first and the last known version are the same.
	Changes []Change
}

// ErrNothing says that no version could be tried.
var ErrNothing = errors.New("nothing can be said of any version")

// Search looks among n versions, in order, for a change. It assumes that there
// is at most one, unless Options.Every. The error is ErrNothing or try's.
func Search(ctx context.Context, n int, try Try, o Options) (*Answer, error) {
	s := &search{try: try, o: o, seen: make([]Version, n)}
	for i := range s.seen {
		s.seen[i].State = Untried
	}
	if o.Every {
		for i := range n {
			if err := s.run(ctx, i, o.Runs); err != nil {
				return nil, err
			}
		}
	}
	low, high, err := s.ends(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.doubt(ctx, low, high); err != nil {
		return nil, err
	}
	if o.Every {
		for i := range n {
			if s.seen[i].State == Good {
				if err := s.sure(ctx, i); err != nil {
					return nil, err
				}
			}
		}
		return s.everyChange(), nil
	}
	if s.seen[low].State == s.seen[high].State {
		return s.answer(), nil
	}
	for {
		i := s.middle(low, high)
		if i < 0 {
			break
		}
		if err := s.run(ctx, i, o.Runs); err != nil {
			return nil, err
		}
		if err := s.sure(ctx, i); err != nil {
			return nil, err
		}
		switch s.seen[i].State {
		case s.seen[low].State:
			low = i
		case s.seen[high].State:
			high = i
		}
	}
	a := s.answer()
	a.Changes = []Change{s.change(low, high)}
	return a, nil
}

type search struct {
	try     Try
	o       Options
	seen    []Version
	symptom Symptom
}

// run adds runs to a version.
func (s *search) run(ctx context.Context, i, runs int) error {
	got, err := s.try(ctx, i, runs)
	if err != nil {
		return err
	}
	s.seen[i].add(got)
	s.judge(i)
	return nil
}

// judge sets the state of a version that was tried.
func (s *search) judge(i int) {
	v := &s.seen[i]
	switch {
	case s.failures(i) > 0:
		v.State = Bad
	case s.runs(i) > 0:
		v.State = Good
	default:
		v.State = Unknown
	}
}

// failures are the runs of a version that show the symptom, runs those that say
// anything about it.
func (s *search) failures(i int) int {
	switch s.symptom {
	case Values:
		return s.seen[i].Wrong
	case Death:
		return s.seen[i].Broken
	}
	return 0
}

func (s *search) runs(i int) int {
	v := s.seen[i]
	switch s.symptom {
	case Values:
		return v.Right + v.Wrong
	}
	return v.Right + v.Wrong + v.Broken
}

// ends finds the outermost versions of which something can be said. They decide
// what is looked for: wrong values if one of them gives any, else a crash.
func (s *search) ends(ctx context.Context) (low, high int, err error) {
	n := len(s.seen)
	find := func(at, step, stop int) (int, error) {
		for ; at != stop; at += step {
			if s.seen[at].State == Untried {
				if err := s.run(ctx, at, s.o.Runs); err != nil {
					return 0, err
				}
			}
			if s.runs(at) > 0 {
				return at, nil
			}
		}
		return 0, ErrNothing
	}
	for {
		if low, err = find(0, 1, n); err == nil {
			high, err = find(n-1, -1, low-1)
		}
		if err != nil || s.symptom != "" {
			return low, high, err
		}
		switch a, b := s.seen[low], s.seen[high]; {
		case a.Wrong+b.Wrong > 0:
			s.symptom = Values
		case a.Broken+b.Broken > 0:
			s.symptom = Death
		}
		if s.o.Every && s.symptom == "" {
			s.symptom = s.anySymptom()
		}
		if s.symptom == "" {
			return low, high, nil
		}
		for i := range s.seen {
			if s.seen[i].State != Untried {
				s.judge(i)
			}
		}
	}
}

func (s *search) anySymptom() Symptom {
	death := Symptom("")
	for _, v := range s.seen {
		if v.Wrong > 0 {
			return Values
		}
		if v.Broken > 0 {
			death = Death
		}
	}
	return death
}

// doubt gives two ends that look the same further runs: a flaky fault may have
// hidden at one of them.
func (s *search) doubt(ctx context.Context, low, high int) error {
	for _, i := range []int{low, high} {
		if s.seen[i].State != Good {
			continue
		}
		other := s.seen[low+high-i]
		if other.State == Bad {
			if err := s.sure(ctx, i); err != nil {
				return err
			}
			continue
		}
		if more := s.o.MaxRuns - s.runs(i); more > 0 {
			if err := s.run(ctx, i, more); err != nil {
				return err
			}
		}
		if s.symptom == "" {
			s.symptom = s.anySymptom()
			s.judge(low)
			s.judge(high)
		}
	}
	return nil
}

// sure runs a version that looks good so often that a bad one would be seen.
func (s *search) sure(ctx context.Context, i int) error {
	a, b, ok := s.rate()
	if !ok || s.seen[i].State != Good {
		return nil
	}
	need := s.runs(i)
	for need < s.o.MaxRuns && missed(a, b, need) > 1-s.o.Confidence {
		need++
	}
	if more := need - s.runs(i); more > 0 {
		return s.run(ctx, i, more)
	}
	return nil
}

// rate is the Beta(a, b) posterior of the failure rate of the bad version that
// fails most rarely; false if every run of every bad version fails: then the
// fault counts as steady, and a good run as good.
func (s *search) rate() (a, b float64, flaky bool) {
	lowest := 2.0
	for i := range s.seen {
		f, n := s.failures(i), s.runs(i)
		if s.seen[i].State != Bad || f == n {
			continue
		}
		if r := float64(f) / float64(n); r < lowest {
			lowest, a, b, flaky = r, 0.5+float64(f), 0.5+float64(n-f), true
		}
	}
	return a, b, flaky
}

// steadyRate is the posterior of a fault of which no run misses: all runs of all
// bad versions together.
func (s *search) steadyRate() (a, b float64) {
	runs := 0
	for i := range s.seen {
		if s.seen[i].State == Bad {
			runs += s.runs(i)
		}
	}
	return 0.5 + float64(runs), 0.5
}

// missed is the probability that n runs of a bad version show nothing: the mean
// of (1-p)^n for p of Beta(a, b), B(a, b+n)/B(a, b).
func missed(a, b float64, n int) float64 {
	lg := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	return math.Exp(lg(b+float64(n)) - lg(a+b+float64(n)) - lg(b) + lg(a+b))
}

// middle is the untried version nearest to the middle of two known ones, -1 if
// none is left.
func (s *search) middle(low, high int) int {
	m := low + (high-low)/2
	for d := 0; d <= high-low; d++ {
		for _, i := range []int{m - d, m + d} {
			if i > low && i < high && s.seen[i].State == Untried {
				return i
			}
		}
	}
	return -1
}

// change is the boundary between two known versions of different states.
func (s *search) change(low, high int) Change {
	c := Change{Before: low, After: high, Bad: s.seen[high].State == Bad}
	a, b, ok := s.rate()
	if !ok {
		a, b = s.steadyRate()
	}
	// Walking from the boundary into the good side: each good version may be a bad
	// one that showed nothing.
	weight, sum := 1.0, 1.0
	step, at := -1, low
	if !c.Bad {
		step, at = 1, high
	}
	for ; at >= 0 && at < len(s.seen) && s.seen[at].State != Bad; at += step {
		if s.seen[at].State == Good {
			weight *= missed(a, b, s.runs(at))
			sum += weight
		}
	}
	c.Confidence = 1 / sum
	return c
}

func (s *search) answer() *Answer { return &Answer{Symptom: s.symptom, Versions: s.seen} }

// everyChange lists the boundaries when all versions were tried.
func (s *search) everyChange() *Answer {
	a := s.answer()
	last := -1
	for i, v := range s.seen {
		if v.State == Unknown {
			continue
		}
		if last >= 0 && s.seen[last].State != v.State {
			a.Changes = append(a.Changes, s.change(last, i))
		}
		last = i
	}
	return a
}
