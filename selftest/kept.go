package selftest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Kept remembers what the real build makes of programs, for all the defects of
// one program: compilations with their dumps, and the answers of base, where
// nothing is planted. What a defect's run asks twice is done twice: the second
// of three equal requests gets the second answer. Use one for a few programs
// only; its methods are safe for concurrent use.
type Kept struct {
	mu           sync.Mutex
	compilations map[[sha256.Size]byte]*compilation
	answers      map[[sha256.Size]byte]worker.Outcome
}

// These bound what is remembered: compilations of some 100 kB, answers of a few
// kB. The first are worth most: reductions begin with the same programs.
const (
	keptCompilations = 300
	keptAnswers      = 3000
)

// compilation is a compilation up to code generation with its dumps.
type compilation struct {
	outcome       worker.Outcome
	steps         []step
	before, after []byte
}

// digest tells requests apart: everything but where dumps go, how long it may
// take, and which dumps are wanted.
func digest(b *builds.Build, r worker.Request, more ...any) [sha256.Size]byte {
	h := sha256.New()
	e := gob.NewEncoder(h)
	for _, v := range append([]any{b.ID, b.Env, r.Program, string(r.Format), r.Replicas, r.BackendOnly, r.WantOptimized, r.DumpAll, r.CompileOnly, r.Repeat, r.RepeatFor, r.CheckMemory}, more...) {
		_ = e.Encode(v) // a hash takes everything
	}
	for _, k := range slices.Sorted(maps.Keys(r.Options)) {
		_ = e.Encode([]string{k, r.Options[k]})
	}
	put := func(sets [][]worker.Array) {
		_ = binary.Write(h, binary.LittleEndian, int64(len(sets)))
		for _, set := range sets {
			_ = e.Encode(set)
		}
	}
	put(r.Inputs)
	for _, p := range r.Before {
		_ = e.Encode(p.Program)
		put([][]worker.Array{p.Inputs})
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// answer is run's answer, or that of an earlier run of the same request.
func (k *Kept) answer(key [sha256.Size]byte, run func() worker.Outcome) worker.Outcome {
	k.mu.Lock()
	out, ok := k.answers[key]
	k.mu.Unlock()
	if ok {
		return out
	}
	if out = run(); out.Status != worker.Infrastructure {
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.answers) < keptAnswers {
			if k.answers == nil {
				k.answers = map[[sha256.Size]byte]worker.Outcome{}
			}
			k.answers[key] = out
		}
	}
	return out
}

// forget frees the memory.
func (k *Kept) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.compilations, k.answers = nil, nil
}

// compile compiles with dumps. An error is one of the file system.
func (c *Composite) compile(ctx context.Context, b *builds.Build, r worker.Request) (*compilation, error) {
	var key [sha256.Size]byte
	if c.Kept != nil {
		key = digest(b, r)
		c.Kept.mu.Lock()
		known := c.Kept.compilations[key]
		c.Kept.mu.Unlock()
		if known != nil {
			return known, nil
		}
	}
	dir, err := os.MkdirTemp(c.TempDir, "passgate-planted-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r.DumpDir = dir
	out := &compilation{outcome: c.Runner.Do(ctx, b, r)}
	if out.outcome.Status == worker.Infrastructure {
		return out, nil
	}
	if out.steps, out.before, out.after, err = read(dir); err != nil {
		return nil, err
	}
	if c.Kept != nil {
		c.Kept.mu.Lock()
		defer c.Kept.mu.Unlock()
		if len(c.Kept.compilations) < keptCompilations {
			if c.Kept.compilations == nil {
				c.Kept.compilations = map[[sha256.Size]byte]*compilation{}
			}
			c.Kept.compilations[key] = out
		}
	}
	return out, nil
}
