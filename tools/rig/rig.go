// Package rig is what the measuring commands beside it stand on: real builds,
// and workers that are the command's own executable.
package rig

import (
	"context"
	"os"
	"sync"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Worker serves as a worker process if the command was started as one (its
// first argument is "worker"); served is false otherwise.
func Worker(ctx context.Context) (served bool, err error) {
	if len(os.Args) < 2 || os.Args[1] != "worker" {
		return false, nil
	}
	return true, worker.Main(ctx, os.Stdin, os.Stdout, os.Args[2:])
}

// Open fetches builds by their specs and starts a pool of workers; c.Command is
// this executable. terms are the terms of builds that are accepted. Close the pool.
func Open(ctx context.Context, specs, terms []string, c worker.Config) ([]*builds.Build, *worker.Pool, error) {
	accepted := map[string]bool{}
	for _, t := range terms {
		accepted[t] = true
	}
	store, err := builds.NewStore(builds.Config{Environ: os.Environ(), AcceptTerms: accepted})
	if err != nil {
		return nil, nil, err
	}
	var found []*builds.Build
	for _, s := range specs {
		spec, err := builds.Parse(s)
		if err != nil {
			return nil, nil, err
		}
		b, err := store.Fetch(ctx, spec)
		if err != nil {
			return nil, nil, err
		}
		found = append(found, b)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	c.Command = []string{self, "worker"}
	pool, err := worker.NewPool(c)
	return found, pool, err
}

// Each calls f for 0 to n-1, workers calls at a time, until ctx ends.
func Each(ctx context.Context, workers, n int, f func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
}
