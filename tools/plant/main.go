// Command plant measures how well a wrong operation is found in a program that
// is too deep to be judged as a whole. It compiles each case on a build, plants
// one wrong operation at a time, after a pass step or in a kernel, at random
// depths, and looks for it with nothing but the pieces of the program:
//
//	go run ./tools/plant --build jax-0.11.2 --count 6 CASE...
//
// An operation counts as planted if it changes a result of the program, and if
// nothing that the right operation may give there is legal for the wrong one:
// the legal sets of the two, on the values that they see first, do not meet on
// some element. Other places are passed over, and counted.
// Kinds: logic (another operation), precision (rounded to bf16), element (one
// element of the result is another).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/tools/rig"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if served, err := rig.Worker(ctx); served {
		if err != nil {
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, os.Args[1:], os.Stdout, time.Now); err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
		os.Exit(2)
	}
}

// options are the judged stream's flags.
var options = map[string]string{"xla_cpu_enable_fast_min_max": "false", "xla_allow_excess_precision": "false"}

func run(ctx context.Context, args []string, out io.Writer, now func() time.Time) error {
	flags := flag.NewFlagSet("plant", flag.ContinueOnError)
	build := flags.String("build", "jax-0.11.2", "build to plant in")
	count := flags.Int("count", 6, "operations to plant in each case")
	seed := flags.Uint64("seed", 1, "seed of places and kinds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	found, pool, err := rig.Open(ctx, []string{*build}, nil, worker.Config{Workers: 1})
	if err != nil {
		return err
	}
	defer pool.Close()
	for _, file := range flags.Args() {
		g := &garden{ctx: ctx, out: out, now: now, pool: pool, build: found[0], rnd: rand.New(rand.NewPCG(*seed, 0))}
		if err := g.grow(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		g.plant(*count)
	}
	return ctx.Err()
}

// garden is one compiled case.
type garden struct {
	ctx    context.Context
	out    io.Writer
	now    func() time.Time
	pool   *worker.Pool
	build  *builds.Build
	rnd    *rand.Rand
	c      *fuzz.Case
	inputs []*hlo.Literal
	args   []*eval.Value
	trail  *triage.Trail
}

func (g *garden) grow(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if g.c, err = fuzz.ReadCase(file, data); err != nil {
		return err
	}
	if g.c.Module == nil {
		return errors.New("the program is StableHLO")
	}
	streams := g.c.Streams(1)
	if len(streams) == 0 {
		return errors.New("no inputs")
	}
	g.inputs = streams[0].Inputs
	for _, l := range g.inputs {
		g.args = append(g.args, eval.FromLiteral(l))
	}
	start := g.now()
	program, err := hlo.MarshalModule(triage.Stopped(g.c.Module))
	if err != nil {
		return err
	}
	g.trail, err = triage.NewTrail(g.ctx, g.pool, g.build, g.c.Module, worker.Request{Program: program, Format: worker.HLO, Options: options, Timeout: 10 * time.Minute})
	if err != nil {
		return err
	}
	if !g.trail.Complete() || g.trail.Optimised == nil {
		return fmt.Errorf("the passes do not finish: %v", g.trail.Outcome.Status)
	}
	fmt.Fprintf(g.out, "%s: %d instructions, %d pass steps, passes %.1fs\n", g.c.Name, g.c.Module.NumInstructions(), len(g.trail.States), g.now().Sub(start).Seconds())
	return nil
}

// plant plants count operations, two after pass steps for one in a kernel.
func (g *garden) plant(count int) {
	found, named, planted := 0, 0, 0
	passed := map[string]int{}
	var slowest float64
	for try := 0; planted < count && try < 10*count && g.ctx.Err() == nil; try++ {
		kind := kinds[planted%len(kinds)]
		where, ok, hit := "", false, false
		var start time.Time
		if planted%3 == 2 {
			bad, name := mutate(g.trail.Optimised, g.rnd, kind)
			if why := g.passOver(g.trail.Optimised, bad, name, kind); why != "" {
				passed[why]++
				continue
			}
			start = g.now()
			ok, hit = g.kernel(name, kind)
			where = "kernel with " + name
		} else {
			i := g.rnd.IntN(len(g.trail.States))
			s := &g.trail.States[i]
			if s.Err != nil {
				continue
			}
			bad, name := mutate(s.Module, g.rnd, kind)
			if why := g.passOver(s.Module, bad, name, kind); why != "" {
				passed[why]++
				continue
			}
			start = g.now()
			ok, hit = g.step(i, bad, name)
			where = fmt.Sprintf("%s after %s", name, s.Key)
		}
		seconds := g.now().Sub(start).Seconds()
		slowest = max(slowest, seconds)
		planted++
		if ok {
			found++
		}
		if hit {
			named++
		}
		fmt.Fprintf(g.out, "  %-9s %s: found %v, named %v, %.1fs\n", kind, where, ok, hit, seconds)
	}
	for _, why := range slices.Sorted(maps.Keys(passed)) {
		fmt.Fprintf(g.out, "  passed over: %d %s\n", passed[why], why)
	}
	fmt.Fprintf(g.out, "  %d planted, %d found, %d named, slowest %.1fs\n", planted, found, named, slowest)
}

// step walks the trail with a wrong state i and says whether the first guilty
// step is that one, and whether the instruction is the planted one.
func (g *garden) step(i int, bad *hlo.Module, name string) (found, named bool) {
	before := g.trail.Before
	for k := range g.trail.States {
		s := &g.trail.States[k]
		if s.Err != nil {
			continue
		}
		after := s.Module
		if k == i {
			after = bad
		}
		v, err := triage.ValidateRegions(g.ctx, before, after, g.args, eval.Options{Bounds: true}, "")
		if err == nil && v.Standing == triage.Guilty {
			at := v.Location.After.Name
			if k != i {
				fmt.Fprintf(g.out, "    accused instead: %s, %s\n", s.Key, at)
			}
			return k == i, k == i && (at == name || at == name+innerSuffix || v.Location.Before.Name == name)
		}
		if k == i {
			if err != nil {
				fmt.Fprintf(g.out, "    missed: %v\n", err)
			} else {
				fmt.Fprintf(g.out, "    missed: %s, %d regions, %d unknown, %d elements, %d undecided; %s\n", v.Standing, v.Regions, v.Unknown, v.Elements, v.Undecided, v.Detail)
			}
			return false, false // a later step that makes it good is no matter
		}
		before = after
	}
	return false, false
}

// kernel replays the optimised module on a build that computes the planted
// instruction instead, and says whether a wrong piece was found, and whether it
// holds the instruction.
func (g *garden) kernel(name, kind string) (found, named bool) {
	c := planted{g.pool, name, kind}
	r := triage.ReplayPieces(g.ctx, c, g.build, g.trail.Optimised, g.inputs, options, triage.ReplayLimits{Iterations: 2, Faults: 1, Timeout: 10 * time.Minute})
	if len(r.Faults) == 0 {
		for l, t := range r.Levels {
			fmt.Fprintf(g.out, "    missed: %s: %d pieces, %d unsupported, %d elements judged, %d undecided\n", triage.PieceLevel(l), t.Pieces, t.Unsupported, t.Judged, t.Undecided)
		}
		for why, n := range r.Why {
			fmt.Fprintf(g.out, "      %d times: %s\n", n, why)
		}
		return false, false
	}
	return true, r.Faults[0].Program.Module.Instruction(name) != nil
}

// passOver says why a planted operation is none; "" if it is one.
func (g *garden) passOver(good, bad *hlo.Module, name, kind string) string {
	if bad == nil {
		return "without a place"
	}
	result, seen := g.first(good, name)
	other, _ := g.first(bad, name)
	switch {
	case result == nil || other == nil:
		return "in a program that cannot be evaluated"
	case equal(result, other):
		return "of no effect on the result"
	case seen == nil || !g.apart(good.Instruction(name), seen, kind):
		return "within the legal set of the right operation"
	}
	return ""
}

// first are the result of a program and the values of the operands of an
// instruction in its first execution.
func (g *garden) first(m *hlo.Module, name string) (result *eval.Value, operands []*eval.Value) {
	in := m.Instruction(name)
	values := map[*hlo.Instruction]*eval.Value{}
	o := eval.Options{Trace: func(x *hlo.Instruction, v *eval.Value) {
		if operands == nil && slices.Contains(in.Operands, x) {
			values[x] = v
		}
		if operands == nil && x == in {
			for _, p := range in.Operands {
				operands = append(operands, values[p])
			}
		}
	}}
	result, err := eval.Run(g.ctx, m, g.args, o)
	if err != nil {
		return nil, nil
	}
	return result, operands
}

// apart reports whether the legal sets of an instruction and of the planted one
// have no value in common on some element.
func (g *garden) apart(in *hlo.Instruction, operands []*eval.Value, kind string) bool {
	good := alone(in)
	bad := good.Clone()
	graft(bad, in.Name, kind)
	var sets [2]*eval.Value
	for i, m := range []*hlo.Module{good, bad} {
		var err error
		if sets[i], err = eval.Run(g.ctx, m, operands, eval.Options{Bounds: true}); err != nil {
			return false
		}
	}
	a, b := sets[0].Array, sets[1].Array
	for i := range a.Len() {
		if a.Meets(b, i) == eval.Out {
			return true
		}
	}
	return false
}

func equal(a, b *eval.Value) bool {
	if a.Array == nil {
		for i := range a.Elements {
			if !equal(a.Elements[i], b.Elements[i]) {
				return false
			}
		}
		return true
	}
	for i := range a.Array.Len() {
		x, y := a.Array.At(i), b.Array.At(i)
		if x.I != y.I || eval.ScalarString(a.Array.Type, x) != eval.ScalarString(a.Array.Type, y) {
			return false
		}
	}
	return true
}

// planted is a compiler that computes something else for one instruction of
// programs behind the passes.
type planted struct {
	*worker.Pool
	name string
	kind string
}

func (p planted) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	if m, err := hlo.UnmarshalModule(r.Program); err == nil && r.BackendOnly {
		graft(m, p.name, p.kind)
		if data, err := hlo.MarshalModule(m); err == nil {
			r.Program = data
		}
	}
	return p.Pool.Do(ctx, b, r)
}
