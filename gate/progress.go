package gate

import (
	"maps"
	"slices"
)

// Progress is the state of a run after a case, or a batch of explored programs.
type Progress struct {
	// Done and Total count cases; Total is 0 where the end is a time.
	Done, Total    int
	Case           CaseResult
	Findings, News int // so far, before confirmation for News
	// Found are the findings since the last call, before they are confirmed.
	Found []Finding
	// Passes says how often the passes in focus have fired so far in this part
	// of the run; with none in focus, every pass that fired, by name.
	Passes []PassResult
}

// firings counts for Progress.
type firings struct {
	r     *run
	focus Result
	all   map[string]*PassResult
}

func newFirings(r *run) *firings {
	f := &firings{r: r, all: map[string]*PassResult{}}
	for _, p := range r.cfg.Passes {
		f.focus.Passes = append(f.focus.Passes, PassResult{Name: p.Name, Weight: p.Weight, Reason: p.Reason})
	}
	return f
}

// add counts the pass steps of one program.
func (f *firings) add(steps map[string]stepCount) {
	if len(f.focus.Passes) > 0 {
		f.r.countFirings(&f.focus, steps)
		return
	}
	for name, n := range steps {
		if n.fired == 0 {
			continue
		}
		p := f.all[name]
		if p == nil {
			p = &PassResult{Name: name}
			f.all[name] = p
		}
		p.Ran += n.ran
		p.Fired += n.fired
		p.Cases++
	}
}

func (f *firings) passes() []PassResult {
	if len(f.focus.Passes) > 0 {
		return slices.Clone(f.focus.Passes)
	}
	var out []PassResult
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		out = append(out, *f.all[name])
	}
	return out
}
