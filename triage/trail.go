package triage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

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
	// Sum is the digest of the module's canonical text; zero if Err.
	Sum Sum
}

// Sum is the SHA-256 of a module's canonical text: equal sums, equal meaning.
type Sum [sha256.Size]byte

// SumOf is the digest of a module.
func SumOf(m *hlo.Module) Sum {
	var b bytes.Buffer
	_ = m.Print(&b, hlo.PrintOptions{Canonical: true}) // a Buffer has no errors
	return sha256.Sum256(b.Bytes())
}

// Trail is what one compilation did to a program: its state before the passes
// and after every pass step that changed it.
type Trail struct {
	Before *hlo.Module
	States []State
	// Optimised is the module that code generation got; nil if the
	// compilation did not get that far.
	Optimised *hlo.Module
	// Final is the dump of that module, an xla.HloProto, with the buffer assignment
	// if the compilation got there.
	Final []byte
	// Runs are all pass runs in order if the compiler tells; nil otherwise.
	Runs []dump.Run
	// Last is the pass that the last dump says comes next: where a compiler
	// died in a pass, that pass ("" if it finished them). It is exact only
	// with Request.DumpAll.
	Last         string
	LastPipeline string
	// Outcome is what became of the compilation. A trail of a compilation
	// that failed ends where the compiler got to.
	Outcome worker.Outcome
}

// Complete reports whether all HLO passes have run: the compilation succeeded,
// was stopped behind them (see Stopped), or failed in code generation.
func (t *Trail) Complete() bool {
	return t.Outcome.Status == worker.OK || t.stopped() || t.Optimised != nil
}

// behindPasses are parts of messages with which code generation refuses to
// begin: the instruction that Stopped adds, and a CUDA plugin without NVIDIA's
// assembler (xla/stream_executor/cuda/assemble_compilation_provider.cc), which
// older versions look for before they dump the optimised module.
var behindPasses = []string{StopTarget, "No PTX compilation provider"}

func (t *Trail) stopped() bool {
	if t.Outcome.Status != worker.Rejected || t.Outcome.Failure == nil {
		return false
	}
	return slices.ContainsFunc(behindPasses, func(s string) bool { return strings.Contains(t.Outcome.Failure.Message, s) })
}

// Compiler runs requests; *worker.Pool is one.
type Compiler interface {
	Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome
}

// NewTrail compiles the program of r on the build with per-pass dumps and
// reads them. r's inputs are not run; r.DumpAll asks for a state after every
// pass, changed or not. The dumps lie in a new directory under r.DumpDir, the
// system's temporary directory if empty, and are gone when NewTrail returns. An error is an infrastructure failure
// (no directory for the dumps); a compiler that failed is in Outcome.
func NewTrail(ctx context.Context, c Compiler, b *builds.Build, m *hlo.Module, r worker.Request) (*Trail, error) {
	dir, err := os.MkdirTemp(r.DumpDir, "passgate-trail-")
	if err != nil {
		return nil, fmt.Errorf("directory for dumps: %w", err)
	}
	defer os.RemoveAll(dir)
	r.DumpDir, r.CompileOnly, r.Inputs, r.Replicas = dir, true, nil, int(m.ReplicaCount)
	if b.Kind == builds.CompileOnly {
		// libtpu writes the list of all pass runs; the name is unknown to no build so far.
		r.Options = maps.Clone(r.Options)
		if r.Options == nil {
			r.Options = map[string]string{}
		}
		r.Options["xla_dump_module_metadata"] = "true"
	}
	t := &Trail{Before: m, Outcome: c.Do(ctx, b, r)}
	fsys := os.DirFS(dir)
	compilations, err := dump.Read(fsys)
	if err != nil {
		return nil, err
	}
	for _, comp := range compilations {
		if comp.After != "" {
			t.Final, _ = fs.ReadFile(fsys, comp.After)
			if data, err := dump.Module(fsys, comp.After); err == nil {
				if t.Optimised, _ = hlo.UnmarshalModule(data); t.Optimised != nil { // unreadable: as if it were not there
					RemoveStop(t.Optimised)
				}
			}
		}
		t.Runs = comp.Runs
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
			if st.Err = err; err == nil {
				RemoveStop(st.Module)
				st.Sum = SumOf(st.Module)
			}
			t.States = append(t.States, st)
		}
		break // the module itself is the first; later ones are sub-compilations
	}
	return t, nil
}

// Aligned counts the states at the start of two trails that are the same: the
// same pass gave the same module.
func Aligned(a, b *Trail) int {
	n := 0
	for n < len(a.States) && n < len(b.States) {
		x, y := &a.States[n], &b.States[n]
		if x.Err != nil || y.Err != nil || x.Key.Pass != y.Key.Pass || x.Key.Pipeline != y.Key.Pipeline || x.Sum != y.Sum {
			break
		}
		n++
	}
	return n
}
