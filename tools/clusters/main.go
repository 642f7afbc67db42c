// Command clusters measures deduplication: it plants wrong rewrites in a build,
// each in many programs that hold its place in different surroundings, lets
// the gate judge every one, and counts the clusters of the findings:
//
//	go run ./tools/clusters --build jax-0.11.2 --defects 40 --programs 50
//
// It prints the reports (clusters) for each defect and the defects whose
// findings share a cluster. Nothing is executed: the passes are judged.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/fuzz/mutate"
	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/selftest"
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
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "clusters:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("clusters", flag.ContinueOnError)
	build := flags.String("build", "jax-0.11.2", "build to plant in")
	count := flags.Int("defects", 40, "defects to plant")
	programs := flags.Int("programs", 50, "failing programs for each")
	size := flags.Int("pool", 300, "generated programs to begin with")
	most := flags.Int("patterns", 1000, "trigger patterns to begin with")
	seed := flags.Uint64("seed", 1, "seed of programs, places and kinds")
	workers := flags.Int("workers", runtime.NumCPU(), "defects to work on at a time")
	temp := flags.String("temp", "", "directory of the dumps; one in memory is faster")
	probes := flags.Int("probes", 0, "smaller programs to try for each finding before it gets its key")
	only := flags.String("only", "", "work only on the chosen defects whose name matches this regular expression")
	verbose := flags.Bool("v", false, "print every finding")
	if err := flags.Parse(args); err != nil {
		return err
	}
	found, pool, err := rig.Open(ctx, []string{*build}, nil, worker.Config{Workers: *workers})
	if err != nil {
		return err
	}
	defer pool.Close()
	m := &measurement{ctx: ctx, pool: &reused{Pool: pool, requests: &atomic.Int64{}, known: map[[sha256.Size]byte]compiled{}}, build: found[0], seed: *seed, workers: *workers, programs: *programs, probes: *probes, temp: *temp, out: out, verbose: *verbose}
	start := time.Now()
	m.survey(*size, *most)
	fmt.Fprintf(out, "%d programs surveyed in %.0fs\n", len(m.grounds), time.Since(start).Seconds())
	chosen := m.choose(*count)
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	chosen = slices.DeleteFunc(chosen, func(p *planted) bool { return !match.MatchString(p.Defect.String()) })
	fmt.Fprintf(out, "%d defects chosen in %.0fs\n", len(chosen), time.Since(start).Seconds())
	rig.Each(ctx, *workers, len(chosen), func(i int) { m.fill(chosen[i], rand.New(rand.NewPCG(*seed, uint64(chosen[i].number)+100))) })
	fmt.Fprintln(out, m.sum())
	fmt.Fprintf(out, "%.0fs, %d compilations\n", time.Since(start).Seconds(), m.pool.requests.Load())
	return ctx.Err()
}

// reused compiles every program once, confirmations in fresh processes
// included, and executes nothing: neither is what is measured.
type reused struct {
	*worker.Pool
	requests *atomic.Int64
	mu       sync.Mutex
	known    map[[sha256.Size]byte]compiled
	order    [][sha256.Size]byte
}

type compiled struct {
	outcome worker.Outcome
	dumps   map[string][]byte
}

// remembered bounds the compilations that are kept, a few hundred kilobytes
// each: those of the programs that are being worked on.
const remembered = 400

func (r *reused) Do(ctx context.Context, b *builds.Build, q worker.Request) worker.Outcome {
	if !q.CompileOnly {
		return worker.Outcome{Status: worker.Rejected, Failure: &worker.Failure{Message: "nothing is executed"}}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %v %v %v\n", b.ID, b.Env, q.DumpAll, q.BackendOnly, q.DumpDir != "")
	for _, k := range slices.Sorted(maps.Keys(q.Options)) {
		fmt.Fprintf(h, "%q=%q\n", k, q.Options[k])
	}
	h.Write(q.Program)
	key := [sha256.Size]byte(h.Sum(nil))
	r.mu.Lock()
	c, ok := r.known[key]
	r.mu.Unlock()
	if ok {
		for name, data := range c.dumps {
			if err := os.WriteFile(filepath.Join(q.DumpDir, name), data, 0o600); err != nil {
				return worker.Outcome{Status: worker.Infrastructure, Err: err}
			}
		}
		return c.outcome
	}
	r.requests.Add(1)
	c.outcome = r.Pool.Do(ctx, b, q)
	if c.outcome.Status == worker.Infrastructure {
		return c.outcome
	}
	if q.DumpDir != "" {
		c.dumps = map[string][]byte{}
		files, err := os.ReadDir(q.DumpDir)
		for _, f := range files {
			var data []byte
			if data, err = os.ReadFile(filepath.Join(q.DumpDir, f.Name())); err != nil {
				break
			}
			c.dumps[f.Name()] = data
		}
		if err != nil {
			return worker.Outcome{Status: worker.Infrastructure, Err: err}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[key]; !ok {
		r.known[key] = c
		if r.order = append(r.order, key); len(r.order) > remembered {
			delete(r.known, r.order[0])
			r.order = r.order[1:]
		}
	}
	return c.outcome
}

func (r *reused) DoFresh(ctx context.Context, b *builds.Build, q worker.Request) worker.Outcome {
	return r.Do(ctx, b, q)
}

// comparison are the flags of the judged stream.
var comparison = map[string]string{"xla_cpu_enable_fast_min_max": "false", "xla_allow_excess_precision": "false"}

type measurement struct {
	ctx      context.Context
	pool     *reused
	build    *builds.Build
	seed     uint64
	workers  int
	programs int
	probes   int
	temp     string
	grounds  []*ground
	out      io.Writer
	verbose  bool
	mu       sync.Mutex // guards out and done
	done     []*planted
}

// ground is a program and its states.
type ground struct {
	c      *fuzz.Case
	trail  *triage.Trail
	args   []*eval.Value
	layout int // first state behind layout assignment
}

// planted is a defect with the clusters of its findings.
type planted struct {
	defects.Defect
	number   int
	route    selftest.Route
	first    *ground
	grounds  []*ground
	failing  int
	unseen   int
	clusters map[string]int
	rewrites map[string]string
	example  map[string]string
}

// survey compiles patterns, generated programs and mutants of both.
func (m *measurement) survey(n, most int) {
	r := rand.New(rand.NewPCG(m.seed, 1))
	var cases []*fuzz.Case
	for _, p := range patterns.All() {
		if c, err := p.Program("pattern-"+p.Name, r); err == nil {
			cases = append(cases, c)
		}
	}
	cases = cases[:min(most, len(cases))]
	for i := range n {
		if c, err := generate.Program(fmt.Sprintf("generated-%d", i), r, generate.Options{Size: 4 + i%24}); err == nil {
			cases = append(cases, c)
		}
	}
	all := make([]*ground, len(cases))
	rig.Each(m.ctx, m.workers, len(cases), func(i int) { all[i] = m.compile(cases[i]) })
	m.grounds = slices.DeleteFunc(all, func(g *ground) bool { return g == nil })
}

const (
	maxInstructions = 120
	layoutPass      = "layout-assignment"
	steps           = 1 << 18
)

// compile is nil for a program that the build or the reference does not take,
// or of which the build gets a step wrong by itself.
func (m *measurement) compile(c *fuzz.Case) *ground {
	if c.Module == nil || c.Module.NumInstructions() > maxInstructions {
		return nil
	}
	streams := c.Streams(m.seed)
	if len(streams) == 0 {
		return nil
	}
	g := &ground{c: c}
	for _, l := range streams[0].Inputs {
		g.args = append(g.args, eval.FromLiteral(l))
	}
	data, err := hlo.MarshalModule(triage.Stopped(c.Module))
	if err != nil {
		return nil
	}
	g.trail, err = triage.NewTrail(m.ctx, m.pool, m.build, c.Module, worker.Request{Program: data, Format: worker.HLO, Options: comparison, DumpDir: m.temp})
	if err != nil || !g.trail.Complete() {
		return nil
	}
	v, err := g.trail.Validate(m.ctx, [][]*eval.Value{g.args}, eval.Options{Bounds: true, MaxSteps: steps})
	if err != nil || v.Guilty() != nil || v.Unknown > 0 {
		return nil
	}
	if g.layout = slices.IndexFunc(g.trail.States, func(s triage.State) bool { return s.Key.Pass == layoutPass }); g.layout < 0 {
		g.layout = len(g.trail.States)
	}
	return g
}

// state is the first state behind the defect's step, nil if there is none.
func (g *ground) state(d defects.Defect) (*triage.State, selftest.Route) {
	i := slices.IndexFunc(g.trail.States, func(s triage.State) bool {
		return s.Key.Pass == d.Pass && s.Key.Pipeline == d.Pipeline && s.Module != nil
	})
	switch {
	case i < 0:
		return nil, ""
	case i < g.layout:
		return &g.trail.States[i], selftest.Again
	}
	return &g.trail.States[i], selftest.Backend
}

// proves reports whether a defect changes what a program means.
func (m *measurement) proves(g *ground, d defects.Defect, route selftest.Route) bool {
	s, r := g.state(d)
	if s == nil || r != route {
		return false
	}
	p, ok := d.Apply(s.Module)
	if !ok {
		return false
	}
	o := eval.Options{Bounds: true, MaxSteps: steps}
	right, err := eval.Run(m.ctx, s.Module, g.args, o)
	if err != nil {
		return false
	}
	wrong, err := eval.Run(m.ctx, p.Module, g.args, o)
	if err != nil {
		return false
	}
	a, b := gate.Leaves(right), gate.Leaves(wrong)
	if len(a) != len(b) {
		return false
	}
	for o := range a {
		for i := range a[o].Len() {
			if a[o].Type == b[o].Type && a[o].Len() == b[o].Len() && a[o].Meets(b[o], i) == eval.Out {
				return true
			}
		}
	}
	return false
}

// choose draws defects, the kinds in turn, that show in at least one program.
func (m *measurement) choose(n int) []*planted {
	r := rand.New(rand.NewPCG(m.seed, 2))
	var out []*planted
	seen := map[string]bool{}
	for round := 0; len(out) < n && round < 40 && m.ctx.Err() == nil; round++ {
		for _, kind := range defects.Catalogue {
			for tries := 0; tries < 60 && len(out) < n; tries++ {
				g := m.grounds[r.IntN(len(m.grounds))]
				if len(g.trail.States) == 0 {
					break
				}
				s := g.trail.States[r.IntN(len(g.trail.States))]
				if s.Module == nil {
					continue
				}
				c := s.Module.Computations[r.IntN(len(s.Module.Computations))]
				in := c.Instructions[r.IntN(len(c.Instructions))]
				d := defects.Defect{Kind: kind, Pipeline: s.Key.Pipeline, Pass: s.Key.Pass, Op: in.Op, Type: in.Shape.Type}
				_, route := g.state(d)
				if seen[d.String()] || !m.proves(g, d, route) {
					continue
				}
				seen[d.String()] = true
				out = append(out, &planted{Defect: d, number: len(out), route: route, first: g, clusters: map[string]int{}, rewrites: map[string]string{}, example: map[string]string{}})
				break
			}
		}
	}
	return out
}

// fill looks for programs in which a defect shows, surveyed ones first, then
// mutants of those that show it, and lets the gate judge them.
func (m *measurement) fill(p *planted, r *rand.Rand) {
	c := selftest.NewComposite(m.pool, m.build, p.Defect, p.route, m.temp)
	order := r.Perm(len(m.grounds))
	pick := func() *ground {
		for len(order) > 0 && len(p.grounds) < m.programs/2 {
			g := m.grounds[order[0]]
			order = order[1:]
			if m.proves(g, p.Defect, p.route) {
				return g
			}
		}
		if len(p.grounds) == 0 {
			return p.first
		}
		from := p.grounds[r.IntN(len(p.grounds))]
		var donors []*fuzz.Case
		for range 4 {
			donors = append(donors, m.grounds[r.IntN(len(m.grounds))].c)
		}
		k, _, err := mutate.Mutate(r, from.c, donors)
		if err != nil {
			return nil
		}
		k.Name = fmt.Sprintf("%s-%d", strings.SplitN(from.c.Name, "+", 2)[0]+"+", len(p.grounds))
		if g := m.compile(k); g != nil && m.proves(g, p.Defect, p.route) {
			return g
		}
		return nil
	}
	names := map[string]bool{}
	for tries := 0; len(p.grounds) < m.programs && tries < 12*m.programs && m.ctx.Err() == nil; tries++ {
		if g := pick(); g != nil && !names[g.c.Name] {
			names[g.c.Name] = true
			p.grounds = append(p.grounds, g)
		}
	}
	cfg := gate.Config{Base: m.build, Head: c.Head, Runner: c, Now: time.Now, Seed: m.seed, Workers: 1, Probes: m.probes, PassesOnly: true, DumpRoot: m.temp}
	for _, g := range p.grounds {
		cfg.Cases = append(cfg.Cases, g.c)
	}
	res, err := gate.Run(m.ctx, cfg)
	if err != nil || m.ctx.Err() != nil {
		return
	}
	shown := map[string]bool{}
	for _, f := range res.Findings {
		if f.Status != gate.New {
			continue
		}
		shown[f.Case] = true
		p.clusters[f.Cluster]++
		text := string(f.Class) + ", "
		if f.Pass != nil {
			text += f.Pass.Name + ": "
		}
		if f.Rewrite != nil {
			text += f.Rewrite.Before + " => " + f.Rewrite.After
		}
		p.rewrites[f.Cluster], p.example[f.Cluster] = text, f.Case
	}
	p.failing, p.unseen = len(shown), len(p.grounds)-len(shown)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = append(m.done, p)
	if m.verbose || len(p.clusters) > 1 {
		p.print(m.out)
	}
	fmt.Fprintln(m.out, "so far:", m.sum())
}

func (p *planted) print(out io.Writer) {
	fmt.Fprintf(out, "%d reports for %d programs (%d unseen): %s\n", len(p.clusters), p.failing, p.unseen, p.Defect)
	for _, c := range slices.SortedFunc(maps.Keys(p.clusters), func(a, b string) int { return p.clusters[b] - p.clusters[a] }) {
		fmt.Fprintf(out, "    %s x%d %s  (%s)\n", c, p.clusters[c], p.rewrites[c], p.example[c])
	}
}

// sum counts the reports of the defects that are done.
func (m *measurement) sum() string {
	owners := map[string][]string{}
	shown, programs, reports := 0, 0, 0
	for _, p := range m.done {
		if p.failing == 0 {
			continue
		}
		shown++
		programs += p.failing
		reports += len(p.clusters)
		for c := range p.clusters {
			owners[c] = append(owners[c], p.Defect.String())
		}
	}
	var merged []string
	for _, c := range slices.Sorted(maps.Keys(owners)) {
		if len(owners[c]) > 1 {
			merged = append(merged, fmt.Sprintf("\nmerged in %s: %s", c, strings.Join(owners[c], "; ")))
		}
	}
	return fmt.Sprintf("%d defects, %d failing programs, %d reports: %.3f per defect; %d clusters hold more than one defect", shown, programs, reports, float64(reports)/float64(max(1, shown)), len(merged)) + strings.Join(merged, "")
}
