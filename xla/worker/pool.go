package worker

import (
	"context"

	"github.com/passgate/passgate/xla/builds"
)

// Pool runs requests on worker processes of many builds. Its methods are safe for concurrent use.
type Pool struct {
	cfg Config
}

// NewPool checks the settings; processes start with the first request of their build.
func NewPool(cfg Config) (*Pool, error) { return &Pool{cfg: cfg}, nil }

// Do runs one request on any worker of the build and waits for the outcome. It never returns without one: when ctx ends
// the outcome is Infrastructure with ctx's error, and the worker that ran the request is killed.
func (p *Pool) Do(ctx context.Context, b *builds.Build, r Request) Outcome { panic("not yet") }

// DoFresh is Do in a process of its own.
func (p *Pool) DoFresh(ctx context.Context, b *builds.Build, r Request) Outcome { panic("not yet") }

// Describe loads the build in a worker and asks it what it is.
func (p *Pool) Describe(ctx context.Context, b *builds.Build) (Info, error) { panic("not yet") }

// SupportedOptions tells which of the option names the build has.
func (p *Pool) SupportedOptions(ctx context.Context, b *builds.Build, names []string) (map[string]bool, error) {
	panic("not yet")
}

// Close kills all workers and waits until they are gone.
func (p *Pool) Close() error { return nil }
