// Command exercise measures the generator and the trigger patterns on real
// builds. It is a tool for developers of passgate.
//
//	go run ./tools/exercise compile [flags]   how many programs a build refuses
//	go run ./tools/exercise fire [flags]      how often passes fire
//	go run ./tools/exercise matrix [flags]    which patterns keep what they promise
//	go run ./tools/exercise judge [flags]     where builds leave the reference's legal sets
//
// compile makes --n free programs and compiles each up to code generation. A
// refused program is a bug of the generator; one that kills the compiler may
// be a finding. Both are kept in --out.
//
// fire prints, for each pass of --passes (default: every pass that runs in the
// build), in how many of --n programs made for it the pass changed the module.
//
// matrix makes --n programs of each pattern alone and prints, per pattern, the
// passes that it names and that fire in less than 9 of 10 of them ("-"), and
// those that it does not name and that always fire ("+"). With --table it adds
// what it saw to a table: package patterns embeds one.
//
// judge executes --n programs on every build and compares each output element
// with the reference's legal set; programs that disagree are kept in --out.
//
// Flags: --builds LIST, --n N, --seed N, --workers N, --out DIR, --passes LIST,
// --pattern NAME (only this pattern), --accept-terms NAME, --timeout D.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/fuzz/mutate"
	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/tools/rig"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/dump"
	"github.com/passgate/passgate/xla/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if served, err := rig.Worker(ctx); served {
		if err != nil {
			fmt.Fprintln(os.Stderr, "exercise worker:", err)
			os.Exit(2)
		}
		return
	}
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "exercise:", err)
		os.Exit(2)
	}
}

// bench is the setting of one measurement.
type bench struct {
	w       io.Writer
	n       int
	seed    uint64
	workers int
	mutants bool
	out     string
	passes  []string
	pattern []patterns.Pattern
	table   string
	quick   bool
	builds  []*builds.Build
	pool    *worker.Pool
}

func run(ctx context.Context, args []string, w io.Writer) error {
	if len(args) == 0 {
		return errors.New("want compile, fire, matrix or judge")
	}
	b := &bench{w: w}
	flags := flag.NewFlagSet("exercise", flag.ContinueOnError)
	list := flags.String("builds", "xla-2026-06", "build specs")
	flags.IntVar(&b.n, "n", 1000, "programs, for fire per pass")
	flags.Uint64Var(&b.seed, "seed", 1, "seed")
	flags.IntVar(&b.workers, "workers", runtime.NumCPU(), "programs at a time")
	flags.StringVar(&b.out, "out", "", "directory for programs that are refused, crash or disagree")
	flags.BoolVar(&b.mutants, "mutants", false, "mutate each program once before it is used")
	passes := flags.String("passes", "", "passes; default all that run")
	pattern := flags.String("pattern", "", "only the patterns whose name begins so")
	flags.BoolVar(&b.quick, "verifier-only", false, "compile: run two passes (flatten-call-graph, dce) between XLA's verifiers instead of all")
	flags.StringVar(&b.table, "table", "", "matrix: add what fires in at least 9 of 10 programs to this table")
	terms := flags.String("accept-terms", "", "accepted terms")
	timeout := flags.Duration("timeout", 20*time.Second, "per program")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *passes != "" {
		b.passes = strings.Split(*passes, ",")
	}
	for _, p := range patterns.On(patterns.TPU) {
		if *pattern != "" && strings.HasPrefix(p.Name, *pattern) {
			b.pattern = append(b.pattern, p)
		}
	}
	var err error
	b.builds, b.pool, err = rig.Open(ctx, strings.Split(*list, ","), []string{*terms}, worker.Config{Workers: b.workers, Timeout: *timeout, Threads: 1})
	if err != nil {
		return err
	}
	defer b.pool.Close()
	switch args[0] {
	case "compile":
		return b.compile(ctx)
	case "fire":
		return b.fire(ctx)
	case "matrix":
		return b.matrix(ctx)
	case "judge":
		return b.judge(ctx)
	}
	return fmt.Errorf("unknown command %q: want compile, fire, matrix or judge", args[0])
}

// program is program i of the measurement for a focus.
func (b *bench) program(platform string, i int, focus ...string) (*fuzz.Case, error) {
	h := uint64(len(focus))
	for _, f := range focus {
		for _, c := range f {
			h = h*131 + uint64(c)
		}
	}
	o := generate.Options{Focus: focus, Patterns: b.pattern, Platform: platform}
	r := rand.New(rand.NewPCG(b.seed<<32+uint64(i), h))
	c, err := generate.Program(fmt.Sprintf("g%d", i), r, o)
	if err != nil || !b.mutants {
		return c, err
	}
	if m, _, err := mutate.Mutate(r, c, nil); err == nil {
		return m, nil
	}
	return c, nil
}

func platformOf(b *builds.Build) string {
	if b.Spec.Source == builds.Libtpu {
		return patterns.TPU
	}
	return patterns.CPU
}

// fired is what one compilation did: per pass, whether it ran and changed
// something, and how the compilation ended ("" if the passes finished).
type fired struct {
	ran, changed map[string]bool
	bad          string
}

var flagsOff = map[string]string{"xla_cpu_enable_fast_min_max": "false", "xla_allow_excess_precision": "false"}

// passesOf compiles up to code generation. all asks for passes that changed
// nothing, too.
func (b *bench) passesOf(ctx context.Context, build *builds.Build, c *fuzz.Case, all bool) (fired, error) {
	out := fired{map[string]bool{}, map[string]bool{}, ""}
	m := c.Module
	if build.Kind == builds.Executable {
		m = triage.Stopped(m)
	}
	wire, err := hlo.MarshalModule(m)
	if err != nil {
		return out, err
	}
	dir, err := os.MkdirTemp("", "passgate-exercise-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	opts := map[string]string{"xla_dump_module_metadata": "true"}
	for k, v := range flagsOff {
		opts[k] = v
	}
	request := worker.Request{Program: wire, Format: worker.HLO, Options: opts, CompileOnly: true, DumpDir: dir, DumpAll: all, Replicas: int(m.ReplicaCount)}
	if b.quick {
		opts["xla_enable_hlo_passes_only"], request.DumpDir = "flatten-call-graph,dce", ""
	}
	o := b.pool.Do(ctx, build, request)
	switch o.Status {
	case worker.OK:
	case worker.Rejected:
		if !strings.Contains(o.Failure.Message, "passgate") && !strings.Contains(o.Failure.Message, "No PTX") {
			out.bad = "refused: " + firstLine(o.Failure.Message)
		}
	case worker.Crashed:
		out.bad = "crash: " + o.Crash.String()
	default:
		out.bad = o.Status.String()
	}
	comps, err := dump.Read(os.DirFS(dir))
	if err != nil {
		return out, err
	}
	if len(comps) == 0 {
		return out, nil
	}
	for _, s := range comps[0].Steps {
		if s.Inner == "" && !s.Start() {
			out.ran[s.Key.Pass] = true
			if !all {
				out.changed[s.Key.Pass] = true
			}
		}
	}
	for _, r := range comps[0].Runs {
		out.ran[r.Pass] = true
		if r.Changed {
			out.changed[r.Pass] = true
		}
	}
	return out, nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func (b *bench) keep(c *fuzz.Case, why string) {
	if b.out == "" {
		return
	}
	k := *c
	k.Notes = why + "\n"
	if err := os.MkdirAll(b.out, 0o755); err == nil {
		err = os.WriteFile(filepath.Join(b.out, c.Name+".case"), k.Format(), 0o644)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

func (b *bench) compile(ctx context.Context) error {
	for _, build := range b.builds {
		var mu sync.Mutex
		bad := map[string][]string{}
		instructions := 0
		start := time.Now()
		rig.Each(ctx, b.workers, b.n, func(i int) {
			c, err := b.program(platformOf(build), i, b.passes...)
			var why string
			if err != nil {
				why = "invalid: " + err.Error()
			} else if f, err := b.passesOf(ctx, build, c, false); err != nil {
				why = "infrastructure: " + err.Error()
			} else {
				why = f.bad
			}
			mu.Lock()
			defer mu.Unlock()
			if c != nil {
				for _, k := range c.Module.Computations {
					instructions += len(k.Instructions)
				}
			}
			if why != "" {
				bad[why] = append(bad[why], fmt.Sprintf("g%d", i))
				if c != nil {
					b.keep(c, why)
				}
			}
		})
		total := 0
		for _, why := range sorted(bad) {
			total += len(bad[why])
			fmt.Fprintf(b.w, "%6d  %s  (%s)\n", len(bad[why]), why, strings.Join(bad[why][:min(4, len(bad[why]))], " "))
		}
		fmt.Fprintf(b.w, "%s: %d programs, %.1f instructions each, %d refused or broken, %.0f s\n", build.Spec, b.n, float64(instructions)/float64(b.n), total, time.Since(start).Seconds())
	}
	return nil
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (b *bench) fire(ctx context.Context) error {
	for _, build := range b.builds {
		passes := b.passes
		if passes == nil {
			ran := map[string]bool{}
			for i := range 8 {
				c, err := b.program(platformOf(build), i)
				if err != nil {
					return err
				}
				f, err := b.passesOf(ctx, build, c, true)
				if err != nil {
					return err
				}
				for p := range f.ran {
					ran[p] = true
				}
			}
			passes = sorted(ran)
		}
		var mu sync.Mutex
		hits, own, bad, crossed := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
		rig.Each(ctx, b.workers, len(passes)*b.n, func(k int) {
			pass := passes[k/b.n]
			c, err := b.program(platformOf(build), k%b.n, pass)
			if err != nil {
				mu.Lock()
				bad["invalid: "+err.Error()]++
				mu.Unlock()
				return
			}
			f, err := b.passesOf(ctx, build, c, false)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				bad[err.Error()]++
			}
			if f.bad != "" {
				bad[f.bad]++
				c.Name = fmt.Sprintf("%s-%d", strings.ReplaceAll(pass, "/", "_"), k%b.n)
				b.keep(c, f.bad)
			}
			if f.changed[pass] {
				own[pass]++
			}
			for p := range f.changed {
				crossed[p]++
			}
			hits[pass]++
		})
		n, any := 0, 0
		for _, p := range passes {
			if crossed[p] > 0 {
				any++
			}
			if own[p] > 0 {
				n++
			}
			fmt.Fprintf(b.w, "%-55s %4d patterns  %5d of %d  (%d anywhere)\n", p, len(patterns.For(platformOf(build), p)), own[p], hits[p], crossed[p])
		}
		for _, why := range sorted(bad) {
			fmt.Fprintf(b.w, "bad %6d  %s\n", bad[why], why)
		}
		fmt.Fprintf(b.w, "%s: %d of %d passes fire for their own programs, %d in any program\n", build.Spec, n, len(passes), any)
	}
	return nil
}

func (b *bench) matrix(ctx context.Context) error {
	for _, build := range b.builds {
		ps := b.pattern
		if ps == nil {
			ps = patterns.On(platformOf(build))
		}
		var mu sync.Mutex
		hits := make([]map[string]int, len(ps))
		ran := map[string]bool{}
		bad := map[string]string{}
		rig.Each(ctx, b.workers, len(ps)*b.n, func(k int) {
			p := ps[k/b.n]
			c, err := p.Program(strings.ReplaceAll(p.Name, "/", "_")+fmt.Sprint(k%b.n), rand.New(rand.NewPCG(b.seed, uint64(k%b.n))))
			var f fired
			if err == nil {
				f, err = b.passesOf(ctx, build, c, false)
			}
			every := f
			if err == nil && k == 0 { // which passes there are
				every, err = b.passesOf(ctx, build, c, true)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				bad[p.Name] = err.Error()
				return
			}
			if f.bad != "" {
				bad[p.Name] = f.bad
				b.keep(c, f.bad)
			}
			for r := range every.ran {
				ran[r] = true
			}
			if hits[k/b.n] == nil {
				hits[k/b.n] = map[string]int{}
			}
			for r := range f.changed {
				hits[k/b.n][r]++
			}
		})
		table := patterns.Fires(platformOf(build))
		for i, p := range ps {
			for _, r := range sorted(hits[i]) {
				if 10*hits[i][r] >= 9*b.n && !slices.Contains(table[p.Name], r) {
					table[p.Name] = slices.Sorted(slices.Values(append(slices.Clone(table[p.Name]), r)))
				}
			}
			line := ""
			for _, r := range sorted(ran) {
				named := slices.ContainsFunc(patterns.For(platformOf(build), r), func(q patterns.Pattern) bool { return q.Name == p.Name })
				switch h := hits[i][r]; {
				case named && 10*h < 9*b.n:
					line += fmt.Sprintf("  -%s %d", r, h)
				case !named && h == b.n:
					line += "  +" + r
				}
			}
			fmt.Fprintf(b.w, "%-40s%s  %s\n", p.Name, line, bad[p.Name])
		}
		once := map[string]bool{}
		for _, h := range hits {
			for r := range h {
				once[r] = true
			}
		}
		fmt.Fprintf(b.w, "%s: %d of %d passes fired at least once: %s\n", build.Spec, len(once), len(ran), strings.Join(sorted(once), " "))
		if b.table != "" {
			if err := writeTable(b.table, build.Spec.String(), table); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeTable(file, build string, table map[string][]string) error {
	out := "# pattern, passes that fired in at least 9 of 10 of its programs; made by: go run ./tools/exercise matrix --builds " + build + " --table " + filepath.Base(file) + "\n"
	for _, name := range sorted(table) {
		if _, err := patterns.Named(name); err == nil {
			out += name + "\t" + strings.Join(table[name], ",") + "\n"
		}
	}
	return os.WriteFile(file, []byte(out), 0o644)
}
