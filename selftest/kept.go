package selftest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"maps"
	"os"
	"path/filepath"
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
	answers      map[[sha256.Size]byte]keptAnswer
	dumped       int // bytes of dumps in answers
}

// keptAnswer is an outcome with the files that were dumped, by name.
type keptAnswer struct {
	worker.Outcome
	dumps map[string][]byte
}

// These bound what is remembered: compilations of some 100 kB, answers of a few
// kB, dumps of some 100 kB and on TPUs of megabytes. The first are worth most:
// reductions begin with the same programs.
const (
	keptCompilations = 300
	keptAnswers      = 3000
	keptDumps        = 64 << 20 // bytes
)

// compilation is a compilation up to code generation with its dumps.
type compilation struct {
	outcome       worker.Outcome
	steps         []step
	before, after []byte
}

// digest tells requests apart: everything but where dumps go and how long it may
// take.
func digest(b *builds.Build, r worker.Request, more ...any) [sha256.Size]byte {
	h := sha256.New()
	e := gob.NewEncoder(h)
	for _, v := range append([]any{b.ID, b.Env, r.Program, string(r.Format), r.Replicas, r.BackendOnly, r.WantOptimized, r.DumpDir != "", r.DumpAll, r.CompileOnly, r.Repeat, r.RepeatFor, r.CheckMemory}, more...) {
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

// answer is run's answer, or that of an earlier run of the same request; dir gets
// its dumps, if it is not "". An error is one of the file system.
func (k *Kept) answer(key [sha256.Size]byte, dir string, run func() worker.Outcome) (worker.Outcome, error) {
	k.mu.Lock()
	was, ok := k.answers[key]
	k.mu.Unlock()
	if ok {
		for name, data := range was.dumps {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				return worker.Outcome{}, err
			}
		}
		return was.Outcome, nil
	}
	is := keptAnswer{Outcome: run()}
	if is.Status == worker.Infrastructure {
		return is.Outcome, nil
	}
	size := 0
	if dir != "" {
		is.dumps = map[string][]byte{}
		files, err := os.ReadDir(dir)
		if err != nil {
			return worker.Outcome{}, err
		}
		for _, f := range files {
			if !f.Type().IsRegular() {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return worker.Outcome{}, err
			}
			is.dumps[f.Name()] = data
			size += len(data)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.answers) < keptAnswers && k.dumped+size <= keptDumps {
		if k.answers == nil {
			k.answers = map[[sha256.Size]byte]keptAnswer{}
		}
		k.answers[key] = is
		k.dumped += size
	}
	return is.Outcome, nil
}

// forget frees the memory.
func (k *Kept) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.compilations, k.answers, k.dumped = nil, nil, 0
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
