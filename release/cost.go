package release

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate/statistics"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Cost is what compiling a case takes: the seconds of each round, in which both
// builds compile it one after the other, the first one in turns.
type Cost struct {
	Case string    `json:"case"`
	Base []float64 `json:"base"`
	Head []float64 `json:"head"`
}

func (c *Cost) valid(runs int) bool {
	ok := func(s float64) bool { return s > 0 && !math.IsInf(s, 0) }
	return len(c.Base) == runs && len(c.Head) == runs && !slices.ContainsFunc(c.Base, func(s float64) bool { return !ok(s) }) && !slices.ContainsFunc(c.Head, func(s float64) bool { return !ok(s) })
}

// cost measures a case, under the builds' own flags; false if a build does not
// compile it.
func (w *Work) cost(ctx context.Context, c *fuzz.Case) (Cost, bool) {
	out := Cost{Case: c.Name}
	if w.Job.CostRuns == 0 {
		return out, false
	}
	r := worker.Request{Program: []byte(c.Text), Format: worker.MLIR, CompileOnly: true, Timeout: w.cfg.Timeout}
	if c.Module != nil {
		var err error
		if r.Program, err = hlo.MarshalModule(c.Module); err != nil {
			return out, false
		}
		r.Format = worker.HLO
		if r.Timeout > 0 { // else the pool's own
			r.Timeout += 20 * time.Millisecond * time.Duration(c.Module.NumInstructions()) // as the gate's
		}
	}
	compile := func(b *builds.Build) (float64, bool) {
		for range 2 {
			o := w.cfg.Runner.Do(ctx, b, r)
			if o.Status != worker.OK {
				return 0, false
			}
			if !o.Fresh { // the first compilation of a process sets the compiler up
				return o.Result.Compile.Seconds(), o.Result.Compile > 0
			}
		}
		return 0, false
	}
	for i := range w.Job.CostRuns {
		for n := range 2 {
			side := (n + i) % 2 // 0 is base
			s, ok := compile([]*builds.Build{w.cfg.Base, w.cfg.Head}[side])
			if !ok {
				return out, false
			}
			to := []*[]float64{&out.Base, &out.Head}[side]
			*to = append(*to, s)
		}
	}
	return out, true
}

// Comparison is what head costs against base, over all programs that both
// compile. The statistics are those of the accuracy of head and base: one program
// bets once.
type Comparison struct {
	Programs int `json:"programs"`
	// Worse and Better count programs for which head needs more or less, in most
	// rounds.
	Worse  int `json:"worse"`
	Better int `json:"better"`
	// EWorse is the e-value against "head needs no more than base", EBetter that
	// against "base needs no more than head"; Discovered says which of them e-BH
	// rejects at false discovery rate 0.05 among all of the report: "worse",
	// "better" or "".
	EWorse     float64 `json:"e_worse"`
	EBetter    float64 `json:"e_better"`
	Discovered string  `json:"discovered,omitempty"`
	// Ratio is the median over the programs of head's cost over base's, Interval
	// its 95 % confidence sequence, nil while the programs do not bound it.
	Ratio    float64     `json:"ratio"`
	Interval *[2]float64 `json:"interval,omitempty"`
	// Total are the sums over the programs: seconds or bytes.
	Total [2]float64 `json:"total"`
	// Largest are the programs with the largest ratios above 1, ten at most.
	Largest []CaseCost `json:"largest"`
}

// CaseCost is the cost of one program: seconds or bytes, medians over the rounds.
type CaseCost struct {
	Case string  `json:"case"`
	Base float64 `json:"base"`
	Head float64 `json:"head"`
	// Apart says that every round of head costs more than every round of base.
	Apart bool `json:"apart"`
}

const largest = 10

// compare compares costs, in the order of the cases.
func compare(costs []Cost) *Comparison {
	out := &Comparison{Largest: []CaseCost{}, EWorse: 1, EBetter: 1, Ratio: 1}
	var worse, better statistics.Bettor
	var ratios []float64
	for _, c := range costs {
		sign := 0.0
		for i := range c.Base {
			switch {
			case c.Head[i] > c.Base[i]:
				sign++
			case c.Head[i] < c.Base[i]:
				sign--
			}
		}
		sign /= float64(len(c.Base))
		out.Programs++
		switch {
		case sign > 0:
			out.Worse++
		case sign < 0:
			out.Better++
		}
		if sign != 0 {
			worse.Add(sign)
			better.Add(-sign)
		}
		one := CaseCost{Case: c.Case, Base: median(c.Base), Head: median(c.Head), Apart: slices.Min(c.Head) > slices.Max(c.Base)}
		out.Total[0] += one.Base
		out.Total[1] += one.Head
		ratios = append(ratios, one.Head/one.Base)
		if one.Head > one.Base {
			out.Largest = append(out.Largest, one)
		}
	}
	if len(ratios) == 0 {
		return out
	}
	out.EWorse, out.EBetter = worse.E(), better.E()
	slices.Sort(ratios)
	var low, high float64
	out.Ratio, low, high = statistics.Median(ratios, 0.05)
	if !math.IsInf(low, 0) && !math.IsInf(high, 0) {
		out.Interval = &[2]float64{low, high}
	}
	slices.SortStableFunc(out.Largest, func(a, b CaseCost) int {
		switch x, y := a.Head/a.Base, b.Head/b.Base; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	out.Largest = out.Largest[:min(largest, len(out.Largest))]
	return out
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// discover says which of the comparisons' hypotheses are rejected.
func discover(all ...*Comparison) {
	var e []float64
	for _, c := range all {
		e = append(e, c.EWorse, c.EBetter)
	}
	for _, i := range statistics.Discoveries(e, 0.05) {
		all[i/2].Discovered = []string{"worse", "better"}[i%2]
	}
}
