package gate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/xla/builds"
)

// Census says whether the passes in focus change a program of another shard,
// in a shard in which they change none and that no Merge follows: see
// Config.Alone.
type Census struct {
	// Cases of other shards were compiled, in the order of all cases, up to the
	// first that a pass in focus changed. Lost of them the machine took from us.
	Cases int `json:"cases"`
	Lost  int `json:"lost"`
	// Fired is the case that a pass in focus changed; "" if there is none.
	Fired string `json:"fired,omitempty"`
}

// fired reports whether a pass in focus changed a program.
func (r *Result) fired() bool {
	return slices.ContainsFunc(r.Passes, func(p PassResult) bool { return p.Fired > 0 })
}

// census looks for a program of another shard that a pass in focus changes.
// Every shard that asks gets the same answer: a set of cases that exercises
// nothing fails in each, and one that does fails in none for want of firings.
// It returns nil if ctx ends before the answer is known.
func (r *run) census(ctx context.Context) *Census {
	out := &Census{}
	for i, c := range r.cfg.Cases {
		if i%r.cfg.Shards == r.cfg.Shard-1 {
			continue
		}
		steps, lost := r.compiled(ctx, c)
		if ctx.Err() != nil {
			return nil
		}
		out.Cases++
		if lost {
			out.Lost++
		}
		for name, n := range steps {
			for _, f := range r.cfg.Passes {
				if n.fired > 0 && f.Matches(name) {
					out.Fired = c.Name
					return out
				}
			}
		}
	}
	return out
}

// compiled counts the pass steps of a case as a run of it does, by compiling
// it alone. A case that a run would leave out has none.
func (r *run) compiled(ctx context.Context, c *fuzz.Case) (steps map[string]stepCount, lost bool) {
	why := cmp.Or(runnable(c), movable(c))
	if r.cfg.passesOnly() {
		why = compilable(c)
	}
	if why != "" || c.Module == nil && r.cfg.passesOnly() {
		return nil, false
	}
	k := &caseRun{run: r, c: c}
	var err error
	if k.base, err = encode(c); err != nil {
		return nil, false
	}
	sides := []*builds.Build{r.cfg.Base, r.cfg.Head}
	if r.cfg.Base == r.cfg.Head {
		sides = sides[:1]
	}
	var dumps [2]dumped
	var failed [2]bool
	var wg sync.WaitGroup
	for i, b := range sides {
		wg.Go(func() {
			q := k.request(ComparisonFlags)
			q.CompileOnly, q.Repeat, q.RepeatFor = true, 0, 0
			q.Options = maps.Clone(q.Options)
			var count func()
			if q.DumpDir, count = k.dump(&dumps[i]); count == nil {
				return
			}
			failed[i] = ofOutcome(k.pooled(b).try(ctx, q)).behaviour == Infrastructure
			count()
		})
	}
	wg.Wait()
	for i, d := range dumps {
		steps = moreFired(steps, d.steps)
		lost = lost || failed[i] || d.lost != ""
	}
	return steps, lost
}
