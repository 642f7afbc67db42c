package main

import (
	"context"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// found is one HLO module of a checkout.
type found struct {
	origin
	text string
}

// modules are the HLO modules of a checkout of XLA, each distinct text once, in
// the order of the files. occurrences, if not nil, counts all of them.
func modules(checkout string, occurrences *int) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		seen := map[string]bool{}
		for m, err := range fuzz.Harvest(os.DirFS(checkout)) {
			if err != nil {
				yield(found{}, err)
				return
			}
			if occurrences != nil {
				*occurrences++
			}
			if seen[m.Text] {
				continue
			}
			seen[m.Text] = true
			if !yield(found{origin{len(seen), m.Path, m.Line}, m.Text}, nil) {
				return
			}
		}
	}
}

// open fetches builds and starts a pool of workers for them. terms are the
// builds, comma-separated, whose own terms are accepted; patience is the time
// for one request. The caller closes the pool.
func open(ctx context.Context, specs []string, terms string, workers int, patience time.Duration) ([]*builds.Build, *worker.Pool, error) {
	accepted := map[string]bool{}
	for name := range strings.SplitSeq(terms, ",") {
		accepted[name] = true
	}
	store, err := builds.NewStore(builds.Config{Environ: os.Environ(), AcceptTerms: accepted})
	if err != nil {
		return nil, nil, err
	}
	var out []*builds.Build
	for _, s := range specs {
		spec, err := builds.Parse(s)
		if err != nil {
			return nil, nil, err
		}
		b, err := store.Fetch(ctx, spec)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, b)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	pool, err := worker.NewPool(worker.Config{Command: []string{self, "worker"}, Workers: workers, Timeout: patience})
	return out, pool, err
}
