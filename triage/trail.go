package triage

import (
	"context"
	"fmt"
	"os"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/dump"
	"github.com/passgate/passgate/xla/worker"
)

// State is the module after one pass step.
type State struct {
	Key    dump.Key
	Number int         // the dump's step counter
	Module *hlo.Module // nil if Err
	// Err says why the dumped module could not be read: a bug of ours or a
	// proto newer than we know, never a fault of the compiler.
	Err error
}

// Trail is what one compilation did to a program: its state before the passes
// and after every pass step that changed it.
type Trail struct {
	Before *hlo.Module
	States []State
	// Optimised is the module that code generation got; nil if the
	// compilation did not get that far.
	Optimised *hlo.Module
	// Last is the pass that the last dump says comes next: where a compiler
	// died in a pass, that pass ("" if it finished them). It is exact only
	// with Request.DumpAll.
	Last         string
	LastPipeline string
	// Outcome is what became of the compilation. A trail of a compilation
	// that failed ends where the compiler got to.
	Outcome worker.Outcome
}

// Compiler runs requests; *worker.Pool is one.
type Compiler interface {
	Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome
}

// NewTrail compiles the program of r on the build with per-pass dumps and
// reads them. r's inputs are not run; r.DumpAll asks for a state after every
// pass, changed or not. An error is an infrastructure failure
// (no directory for the dumps); a compiler that failed is in Outcome.
func NewTrail(ctx context.Context, c Compiler, b *builds.Build, m *hlo.Module, r worker.Request) (*Trail, error) {
	dir, err := os.MkdirTemp("", "passgate-trail-")
	if err != nil {
		return nil, fmt.Errorf("directory for dumps: %w", err)
	}
	defer os.RemoveAll(dir)
	r.DumpDir, r.CompileOnly, r.Inputs = dir, true, nil
	t := &Trail{Before: m, Outcome: c.Do(ctx, b, r)}
	fsys := os.DirFS(dir)
	compilations, err := dump.Read(fsys)
	if err != nil {
		return nil, err
	}
	for _, comp := range compilations {
		if comp.After != "" {
			if data, err := dump.Module(fsys, comp.After); err == nil {
				t.Optimised, _ = hlo.UnmarshalModule(data) // unreadable: as if it were not there
			}
		}
		for _, s := range comp.Steps {
			if s.Inner == "" {
				t.Last, t.LastPipeline = s.Next, s.Key.Pipeline
			}
			if s.Start() || s.Inner != "" { // the state at a pipeline's start is the one before
				continue
			}
			st := State{Key: s.Key, Number: s.Number}
			data, err := dump.Module(fsys, s.File)
			if err == nil {
				st.Module, err = hlo.UnmarshalModule(data)
			}
			st.Err = err
			t.States = append(t.States, st)
		}
		break // the module itself is the first; later ones are sub-compilations
	}
	return t, nil
}
