package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/passgate/passgate/fuzz"
)

// ErrNoFinding says that a case shows nothing wrong.
var ErrNoFinding = errors.New("nothing wrong was seen")

// Investigate judges one case as Run does and names the guilty pass step and
// instruction of its gravest finding. With probes it is reduced, too, by at
// most so many runs. Bisecting one build is an investigation with base and
// head the same.
//
// The error is a *ConfigError, ErrNoFinding (wrapped, with what was judged), or
// ctx's.
func Investigate(ctx context.Context, cfg Config, c *fuzz.Case, probes int) (*Finding, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	one := cfg.Base == cfg.Head
	if cfg.Base = poisoned(cfg.Base); one {
		cfg.Head = cfg.Base
	} else {
		cfg.Head = poisoned(cfg.Head)
	}
	r := newRun(cfg)
	if c.Module == nil && cfg.passesOnly() {
		return nil, &ConfigError{c.Name + ": per-pass validation does not read StableHLO"}
	}
	if why := runnable(c); why != "" {
		return nil, &ConfigError{c.Name + ": " + why}
	}
	k := &caseRun{run: r, c: c, thorough: true}
	var err error
	if k.base, err = encode(c); err != nil {
		return nil, &ConfigError{c.Name + ": " + err.Error()}
	}
	report := caseReport{}
	why := k.ask(ctx, c.Streams(cfg.Seed), &report)
	if len(k.asked) == 0 {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &ConfigError{c.Name + ": " + why}
	}
	if cfg.passesOnly() {
		return k.investigatePasses(ctx, probes)
	}
	answers := k.answer(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	found := gather(c, answers)
	for i := range found {
		if f := &found[i]; f.Class == Nondeterminism || f.Unstable || f.Base == Flaky || f.Head == Flaky {
			f.FailureRate = k.measureRate(ctx, f)
		}
		k.attribute(ctx, &found[i])
	}
	found = foldContested(found)
	var cut *CutCounts
	if len(found) == 0 {
		found, cut = k.cut(ctx, answers, nil)
	}
	best := -1
	for i := range found {
		if best < 0 || found[i].gravity() < found[best].gravity() {
			best = i
		}
	}
	if best < 0 {
		var judged, undecided int64
		for _, a := range answers {
			judged += a.judged
			undecided += a.undecided
		}
		return nil, fmt.Errorf("%w: %d elements judged, %d undecided%s", ErrNoFinding, judged, undecided, cut.text())
	}
	if probes > 0 && found[best].Piece == "" {
		k.minimise(ctx, &found[best], probes)
	}
	k.identify(ctx, &found[best])
	k.measureMinimal(ctx, &found[best])
	out := finish(c, k.asked, found[best:best+1])
	return &out[0], nil
}
