package selftest

import (
	"context"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/gate/statistics"
)

// Variants is the null of the gate itself: the build against itself and against
// legal variants of itself (threads, vector width, level of the code generator,
// libraries), by the same judge. Every alarm is a false one.
type Variants struct {
	Programs int `json:"programs"`
	// Cells are judged input streams, of the build again and of each variant;
	// Interval is the 95 % interval of alarms per cell.
	Cells    int64              `json:"cells"`
	Alarms   int64              `json:"alarms"`
	Interval [2]float64         `json:"interval"`
	Of       []gate.NullVariant `json:"of"`
	Alarmed  []string           `json:"alarmed,omitempty"`
	// Corruption are programs with an alarm of the memory of their runs, or of
	// executions that differ; they are no cells of their own.
	Corruption []string `json:"corruption,omitempty"`
}

// variantsAtOnce is the number of programs of one run of the gate: between two
// the budget is looked at.
const variantsAtOnce = 40

// variants judges programs until there are cells enough, or no more programs
// or time.
func (t *tester) variants(ctx context.Context, cells int64) (*Variants, error) {
	out := &Variants{Of: []gate.NullVariant{}}
	for i := 0; out.Cells < cells && !t.spent(ctx); {
		var cases []*fuzz.Case
		for len(cases) < variantsAtOnce {
			c := t.cfg.Program(i)
			if i++; c == nil {
				break
			}
			cases = append(cases, c)
		}
		if len(cases) == 0 {
			break
		}
		res, err := gate.Run(ctx, gate.Config{Base: t.cfg.Build, Head: t.cfg.Build, Runner: t.cfg.Runner, Cases: cases, Now: t.cfg.Now, Seed: t.cfg.Seed,
			Workers: t.cfg.Workers, NullCases: len(cases), DumpRoot: t.cfg.TempDir, PassesOnly: t.cfg.PassesOnly})
		if err != nil {
			return nil, err
		}
		if ctx.Err() == nil {
			out.add(res)
		}
	}
	out.Interval = statistics.Proportion(out.Alarms, out.Cells)
	return out, nil
}

func (v *Variants) add(res *gate.Result) {
	n := &res.Statistics.Null
	v.Programs += len(res.Cases)
	v.Cells += n.Cells
	v.Alarms += n.Alarms
	v.Alarmed = append(v.Alarmed, n.Alarmed...)
	for _, one := range n.Variants {
		at := -1
		for i := range v.Of {
			if v.Of[i].Name == one.Name {
				at = i
			}
		}
		if at < 0 {
			v.Of = append(v.Of, gate.NullVariant{Name: one.Name, Same: true})
			at = len(v.Of) - 1
		}
		o := &v.Of[at]
		o.Cells, o.Alarms, o.Same = o.Cells+one.Cells, o.Alarms+one.Alarms, o.Same && one.Same
	}
	for _, f := range res.Findings {
		if f.Class == gate.BufferCorruption || f.Class == gate.Nondeterminism {
			v.Corruption = append(v.Corruption, f.Case+": "+string(f.Class)+", "+string(f.Status)+": "+f.Detail)
		}
	}
}
