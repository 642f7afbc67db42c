package gate

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Runner runs programs on builds; *worker.Pool is one.
type Runner interface {
	Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome
	DoFresh(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome
	Describe(ctx context.Context, b *builds.Build) (worker.Info, error)
}

// Config are the settings of a run. Fields without a comment on their zero
// value are required.
type Config struct {
	Base, Head *builds.Build
	// Cases in the order of the report; their names must be unique.
	Cases  []*fuzz.Case
	Runner Runner
	// Now is the clock.
	Now func() time.Time
	// Seed of the generated inputs.
	Seed uint64
	// Workers is the number of cases that are worked on at a time; 1 if 0.
	Workers int
	// Timeout is the deadline of one request to a worker, for a small program;
	// 60 s if 0. Large programs get more.
	Timeout time.Duration
	// Budget stops the start of further cases; 0 is no limit.
	Budget time.Duration
	// Shard of Shards, from 1: only every Shards-th case is run; 0 is all.
	Shard, Shards int
	// Alone says that no Merge follows on the shards: one whose own programs
	// the passes in focus leave alone takes a census of the others' before it
	// says that nothing was exercised. Minimum firings of a policy or an
	// exploration stay those of each shard.
	Alone bool
	// Passes are the passes in focus; none means that no pass is looked for.
	Passes []Focus
	// NoPass says that a change was given and reaches no pass: the reasons name it.
	NoPass bool
	// Coverage counts all passes that change a program, whatever is in focus.
	Coverage bool
	// Steps counts the pass steps in a directory of per-pass dumps. Required
	// with Passes or Coverage.
	Steps func(dir string) ([]Step, error)
	// TempDir makes a new directory for dumps and a function that removes it.
	// Required with Passes or Coverage.
	TempDir func() (dir string, remove func(), err error)
	// DumpRoot is the directory under which the per-pass dumps that are read
	// at once come and go; "" is the system's temporary directory. One in
	// memory is faster.
	DumpRoot string
	// CPU is the processor time used so far by this process and its workers; nil
	// if nobody asks (only the Bench functions do).
	CPU func() time.Duration
	// Probes is the number of smaller programs tried for each blocking finding;
	// 0 leaves programs as they are.
	Probes int
	// MinimiseAll looks for smaller programs for every finding, not only for those
	// that block. What exploration finds is always made smaller.
	MinimiseAll bool
	// Progress is told after every case, from one goroutine at a time; may be
	// nil.
	Progress func(Progress)
	// Reference evaluates a program; nil is the reference interpreter.
	Reference Reference
	// NoCut leaves programs whole that the reference knows too little of; without
	// it they are judged in pieces as well.
	NoCut bool
	// CutLimit is the number of instructions of the largest program that is
	// judged in pieces; 0 is no limit. Every pass step and every kernel of a
	// program is evaluated, so the work grows with the square of its size.
	CutLimit int
	// CutWork bounds the work on the pieces of one program, in steps of the
	// reference (see triage.RegionStep.Work): half of it on pass steps, those of
	// the passes with the highest weights first, and half on kernels. What it
	// leaves out is counted and named. 0 is no limit.
	CutWork int64
	// PassesOnly compiles programs up to code generation and judges the pass
	// steps; nothing is executed. Compile-only builds are always used so.
	PassesOnly bool
	// BackendOnly says that the cases are behind the HLO passes: they are compiled
	// with run_backend_only. Only Replay reads it.
	BackendOnly bool
	// Witness is the executable build of the third witness, which runs the
	// modules before and after an accused step where nothing else is executed;
	// nil for none.
	Witness *builds.Build
	// NullCases is the number of cases on which legal variants of base are
	// judged against base, for the false-alarm rate; 0 for none.
	NullCases int
	// Policy is the project's own rules; nil for none.
	Policy *policy.Policy
	// Explore searches for further programs after the cases; nil for none.
	Explore *Exploration
}

// Focus is a pass to look for: any of its names.
type Focus struct {
	Name   string
	Weight int
	Reason string
	// Matches says whether a pass step of that name is a run of the pass.
	Matches func(step string) bool
}

// Step is one pass step of a compilation.
type Step struct {
	Name    string
	Changed bool
}

// Reference gives the legal sets of a program's result. Errors are those of
// eval.Run.
type Reference func(ctx context.Context, m *hlo.Module, inputs []*hlo.Literal, o eval.Options) (*eval.Value, error)

// BugError is a panic of the reference interpreter: a bug of ours. The case
// counts as unsupported with this text, and the run goes on.
type BugError struct {
	Panic any
	Stack string
}

func (e *BugError) Error() string {
	return fmt.Sprintf("bug of passgate, please report: the reference interpreter panicked: %v", e.Panic)
}

// Interpret is the Reference of this project.
func Interpret(ctx context.Context, m *hlo.Module, inputs []*hlo.Literal, o eval.Options) (v *eval.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, &BugError{p, string(debug.Stack())}
		}
	}()
	args := make([]*eval.Value, len(inputs))
	for i, l := range inputs {
		args[i] = eval.FromLiteral(l)
	}
	o.Bounds = true
	return eval.Run(ctx, m, args, o)
}

// generatedSteps is the step limit of the reference on generated inputs, a few
// seconds of work. A case's own inputs were chosen by somebody and get the
// interpreter's default; random ones may well drive a loop that converges on
// sensible inputs to the end of its patience, and tell nothing new there.
const generatedSteps = 1 << 23

// perInstruction is added to the deadline of a request for each instruction:
// the largest of the handed programs, 14,000 instructions, takes some ten
// seconds to compile on a quiet core, and a loaded machine may take ten times
// as long. A slow compilation is no hang.
const perInstruction = 20 * time.Millisecond

// ConfigError is a setting that Run refuses.
type ConfigError struct{ Reason string }

func (e *ConfigError) Error() string { return e.Reason }

func (c *Config) check() error {
	seen := map[string]bool{}
	for _, k := range c.Cases {
		if seen[k.Name] {
			return &ConfigError{fmt.Sprintf("two cases are named %q", k.Name)}
		}
		seen[k.Name] = true
	}
	if c.Shards != 0 && (c.Shard < 1 || c.Shard > c.Shards) {
		return &ConfigError{fmt.Sprintf("shard %d/%d: want I/N with 1 <= I <= N", c.Shard, c.Shards)}
	}
	if c.Explore != nil {
		if err := c.Explore.check(c); err != nil {
			return err
		}
	}
	if c.Witness != nil && c.Witness.Kind != builds.Executable {
		return &ConfigError{fmt.Sprintf("build %s is compile-only: it cannot be the witness, which runs programs", c.Witness.Spec)}
	}
	return nil
}

// poison fills memory that a build allocates with 0x5a bytes (glibc's
// M_PERTURB takes the complement), so that an element that is never written
// holds a value that no program asks for, and the same in every run: f32
// 1.5e16, f64 1.4e130, s32 1515870810. Fresh memory is otherwise mostly zero,
// which is often right by luck.
const poisonByte = 0x5a

var poison = []string{"MALLOC_PERTURB_=165", "GLIBC_TUNABLES=glibc.malloc.perturb=165"}

// poisoned is the build with poisoned memory.
func poisoned(b *builds.Build) *builds.Build {
	out := *b
	out.Env = append(slices.Clone(b.Env), poison...)
	return &out
}

// defaultTimeout is the deadline of a request for a small program.
const defaultTimeout = 60 * time.Second

// repeats is the number of executions of each input set in one process. Two
// would show most unwritten memory; the third tells a value that alternates
// from one that was right once, while the process was young.
const repeats = 3

// repeatFor lets small programs run many more times: a data race in a library
// kernel was seen in 4 to 40 % of the executions (xla-facts.md), which 100
// executions show with probability above 98 %, and a small program takes 20 to
// 100 microseconds.
const repeatFor = 25 * time.Millisecond

// confirmations is the number of fresh processes in which a finding must show
// again before it blocks (DESIGN section 5).
const confirmations = 3

// comparisonFlags make NaN and rounding findings real (DESIGN section 4).
var comparisonFlags = map[string]string{
	"xla_cpu_enable_fast_min_max": "false",
	"xla_allow_excess_precision":  "false",
}

func flagSet(name string) map[string]string {
	if name == ComparisonFlags {
		return comparisonFlags
	}
	return nil
}
