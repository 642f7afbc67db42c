package selftest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/dump"
	"github.com/passgate/passgate/xla/worker"
)

// Planted is a defect that was proved to change what a program means, and that
// the build accepts.
type Planted struct {
	Defect defects.Defect
	Case   *fuzz.Case
	Route  Route
	// Names are the instructions to blame.
	Names []string
	// Before is the legal set of the first element that changed, After what
	// the wrong module allows there; Inputs is the stream that shows it.
	Before, After string

	ground *ground
}

// ground is a program with its way through the build.
type ground struct {
	c     *fuzz.Case
	trail *triage.Trail
	// sets are the inputs of the proof, inputs the same for the reference.
	sets   [][]*hlo.Literal
	inputs [][]*eval.Value
	layout int // the first state behind layout assignment
	kept   *Kept

	mu     sync.Mutex
	values map[[2]int]*eval.Value // by state and set; nil entries: no value
}

// proofSeeds is the number of seeds whose streams a defect is proved on. They
// are not the gate's: what the gate's own inputs do not show is a miss.
const proofSeeds = 2

// proofSteps is the step limit of the reference on each state of a program, in a
// proof and before it: what takes more leaves no time for the defects.
const proofSteps = 1 << 16

// programsFor is the number of programs that are surveyed for n defects: a
// program has room for many.
func programsFor(n int) int { return 24 + n/8 }

// enoughOf is the number of programs with an opcode for which the survey goes
// out of its way: the rarer kinds of defects need the rarer opcodes.
const enoughOf = 4

// order is the order of the survey: random, but first those programs that hold
// an opcode of which there are not enough yet.
func (t *tester) order() []int {
	perm := rand.New(rand.NewPCG(t.cfg.Seed, 0x5eed)).Perm(len(t.cfg.Cases))
	have := map[hlo.Opcode]int{}
	var first, rest []int
	for _, i := range perm {
		m := t.cfg.Cases[i].Module
		if m == nil || m.NumInstructions() > maxInstructions {
			continue
		}
		needed := false
		ops := opcodes(m)
		for _, op := range ops {
			needed = needed || have[op] < enoughOf
		}
		if !needed {
			rest = append(rest, i)
			continue
		}
		first = append(first, i)
		for _, op := range ops {
			have[op]++
		}
	}
	return append(first, rest...)
}

// opcodes are those of a module, each once.
func opcodes(m *hlo.Module) []hlo.Opcode {
	var out []hlo.Opcode
	for _, k := range matches(m) {
		if !slices.Contains(out, k.op) {
			out = append(out, k.op)
		}
	}
	return out
}

// survey compiles programs, in the order of order and Workers at a time, and keeps
// those whose meaning the reference knows before and after all passes, until there
// are enough.
func (t *tester) survey(ctx context.Context) []*ground {
	var out []*ground
	all, want := t.order(), programsFor(t.cfg.Defects)
	for len(all) > 0 && len(out) < want && !t.chosen(ctx) {
		n := min(max(1, t.cfg.Workers), len(all), want-len(out))
		found := make([]*ground, n)
		var wg sync.WaitGroup
		for i, at := range all[:n] {
			wg.Go(func() { found[i] = t.prepare(ctx, t.cfg.Cases[at]) })
		}
		wg.Wait()
		all = all[n:]
		out = append(out, slices.DeleteFunc(found, func(g *ground) bool { return g == nil })...)
	}
	return out
}

// prepare compiles a program; nil if nothing can be planted in it.
func (t *tester) prepare(ctx context.Context, c *fuzz.Case) *ground {
	g := &ground{c: c, values: map[[2]int]*eval.Value{}, kept: &Kept{}}
	for seed := range uint64(proofSeeds) {
		for _, s := range c.Streams(t.cfg.Seed + 1<<32 + seed) {
			if s.Name != fuzz.OwnStream || seed == 0 {
				g.sets = append(g.sets, s.Inputs)
			}
		}
	}
	if len(g.sets) == 0 {
		return nil
	}
	g.inputs = arguments(g.sets)
	whole := c.Module
	if t.cfg.Build.Kind == builds.Executable {
		whole = triage.Stopped(c.Module)
	}
	data, err := hlo.MarshalModule(whole)
	if err != nil {
		return nil
	}
	g.trail, err = triage.NewTrail(ctx, t.cfg.Runner, t.cfg.Build, c.Module, worker.Request{Program: data, Format: worker.HLO, Options: comparisonFlags})
	if err != nil || !g.trail.Complete() {
		return nil
	}
	// Where the build is wrong by itself on the gate's inputs, a defect could
	// not be told from that.
	own := t.streams(c)
	v, err := g.trail.Validate(ctx, arguments(own), eval.Options{Bounds: true, MaxSteps: proofSteps})
	if err != nil || v.Guilty() != nil || v.Unknown > 0 {
		return nil
	}
	if t.executes() && g.execute(ctx, t, t.cfg.Runner, t.cfg.Build, own) != right {
		return nil
	}
	g.layout = slices.IndexFunc(g.trail.States, func(s triage.State) bool { return s.Key.Pass == layoutPass })
	if g.layout < 0 {
		g.layout = len(g.trail.States)
	}
	if t.transforms {
		g.stages(ctx, t, data)
	}
	return g
}

// stages adds the modules at which the build calls transforms to the states.
func (g *ground) stages(ctx context.Context, t *tester, program []byte) {
	for _, route := range []Route{BeforeScheduler, AfterScheduler} {
		r := worker.Request{Program: program, Format: worker.HLO, Options: comparisonFlags, CompileOnly: true, Transform: &worker.Transform{Stage: stages[route]}}
		out := t.cfg.Runner.Do(ctx, t.cfg.Build, r)
		m, err := hlo.UnmarshalModule(out.Seen)
		if out.Seen == nil || err != nil {
			continue
		}
		triage.RemoveStop(m)
		g.trail.States = append(g.trail.States, triage.State{Key: dump.Key{Pipeline: string(route), Pass: transformPass}, Module: m})
	}
}

// copyPass makes the copies without which code would overwrite values that are
// still wanted, the program's inputs among them.
const copyPass = "copy-insertion"

// routes are the ways to go on from a state, the most faithful first; there may
// be none. Code is not generated for a module that still lacks its copies.
func (t *tester) routes(g *ground, state int) (out []Route) {
	switch key := g.trail.States[state].Key; {
	case key.Pass == transformPass:
		return []Route{Route(key.Pipeline)}
	case state < g.layout:
		return []Route{Again}
	case t.cfg.Build.Kind == builds.Executable && t.cfg.Resumes:
		out = append(out, Resume)
	}
	if !t.executes() || !slices.ContainsFunc(g.trail.States[state+1:], func(s triage.State) bool { return s.Key.Pass == copyPass }) {
		out = append(out, Backend)
	}
	return out
}

// comparisonFlags are those of the gate's comparison stream (DESIGN section 4).
var comparisonFlags = map[string]string{
	"xla_cpu_enable_fast_min_max": "false",
	"xla_allow_excess_precision":  "false",
}

// first reports whether state i is the first of its pass: only that can be
// named by a defect.
func (g *ground) first(i int) bool {
	key := g.trail.States[i].Key
	return slices.IndexFunc(g.trail.States, func(s triage.State) bool { return s.Key.Pass == key.Pass && s.Key.Pipeline == key.Pipeline }) == i
}

// program is the index of the state before all passes.
const program = -1

// value evaluates a state on one of the proof's inputs; nil if it has none.
func (g *ground) value(ctx context.Context, state, set int) *eval.Value {
	key := [2]int{state, set}
	g.mu.Lock()
	v, ok := g.values[key]
	g.mu.Unlock()
	if ok {
		return v
	}
	m := g.trail.Before
	if state != program {
		m = g.trail.States[state].Module
	}
	v = g.evaluate(ctx, m, g.inputs[set:set+1])[0]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values[key] = v
	return v
}

func (g *ground) evaluate(ctx context.Context, m *hlo.Module, inputs [][]*eval.Value) []*eval.Value {
	out := make([]*eval.Value, len(inputs))
	for k, args := range inputs {
		if v, err := eval.Run(ctx, m, args, eval.Options{Bounds: true, MaxSteps: proofSteps}); err == nil {
			out[k] = v
		}
	}
	return out
}

// prove looks for an element whose legal sets before and after the mistake
// have no value in common, and that rests on no contested semantics in the
// program itself.
func (g *ground) prove(ctx context.Context, state int, planted *hlo.Module) (before, after string, ok bool) {
	for k := range g.inputs {
		asIs, original := g.value(ctx, state, k), g.value(ctx, program, k)
		if asIs == nil || original == nil {
			continue
		}
		v := g.evaluate(ctx, planted, g.inputs[k:k+1])[0]
		if v == nil {
			continue
		}
		a, b, o0 := leaves(asIs), leaves(v), leaves(original)
		if len(a) != len(b) || len(a) != len(o0) {
			continue
		}
		for o := range a {
			if a[o].Type != b[o].Type || a[o].Len() != b[o].Len() || a[o].Len() != o0[o].Len() {
				continue
			}
			for i := range a[o].Len() {
				if a[o].Meets(b[o], i) == eval.Out && o0[o].At(i).Contest == 0 {
					return a[o].LegalSet(i), b[o].LegalSet(i), true
				}
			}
		}
	}
	return "", "", false
}

func leaves(v *eval.Value) []*eval.Array {
	if v.Array != nil {
		return []*eval.Array{v.Array}
	}
	var out []*eval.Array
	for _, e := range v.Elements {
		out = append(out, leaves(e)...)
	}
	return out
}

// match is what a defect can be bound to in a state.
type match struct {
	op hlo.Opcode
	t  hlo.PrimitiveType
}

func matches(m *hlo.Module) []match {
	var out []match
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if k := (match{in.Op, in.Shape.Type}); !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// choose plants until there are n defects, the kinds in turn, each kind in
// programs and steps in random order.
func (t *tester) choose(ctx context.Context, grounds []*ground, n int) []*Planted {
	r := rand.New(rand.NewPCG(t.cfg.Seed, 0x5e1f7e57))
	type place struct {
		g     *ground
		state int
	}
	var places []place
	for _, g := range grounds {
		for i := range g.trail.States {
			if g.trail.States[i].Module != nil && g.first(i) && g.trail.Before != nil {
				places = append(places, place{g, i})
			}
		}
	}
	var kinds []defects.Kind
	for _, k := range defects.Catalogue {
		if len(t.cfg.Kinds) == 0 || slices.Contains(t.cfg.Kinds, k.Name) {
			kinds = append(kinds, k)
		}
	}
	// Each kind walks through the places in an order of its own.
	orders := make([][]int, len(kinds))
	for k := range orders {
		orders[k] = r.Perm(len(places))
	}
	var out []*Planted
	for len(out) < n && !t.chosen(ctx) {
		// A turn of every kind.
		found := make([]*Planted, len(kinds))
		next := make(chan int)
		var wg sync.WaitGroup
		for range max(1, t.cfg.Workers) {
			wg.Go(func() {
				for k := range next {
					for tried := 0; len(orders[k]) > 0 && found[k] == nil && tried < patience && !t.chosen(ctx); {
						p := places[orders[k][0]]
						orders[k] = orders[k][1:]
						planted, proofs := t.plant(ctx, p.g, p.state, kinds[k])
						found[k] = planted
						tried += proofs
					}
				}
			})
		}
		for k := range kinds {
			next <- k
		}
		close(next)
		wg.Wait()
		out = append(out, slices.DeleteFunc(found, func(p *Planted) bool { return p == nil })...)
		if !slices.ContainsFunc(orders, func(left []int) bool { return len(left) > 0 }) {
			break
		}
	}
	return out[:min(n, len(out))]
}

// patience is the number of proofs that may fail in one turn of a kind: some
// hardly ever change a legal set, and the others should not wait for them.
const patience = 6

// plant tries one kind behind one step of a program; proofs is the number of
// mistakes that it looked at.
func (t *tester) plant(ctx context.Context, g *ground, state int, kind defects.Kind) (planted *Planted, proofs int) {
	s := g.trail.States[state]
	planter := defects.NewPlanter(s.Module)
	for _, m := range matches(s.Module) {
		d := defects.Defect{Kind: kind, Pipeline: s.Key.Pipeline, Pass: s.Key.Pass, Op: m.op, Type: m.t}
		if t.has(d, false) {
			continue
		}
		p, ok := planter.Apply(d)
		if !ok {
			continue
		}
		proofs++
		before, after, ok := g.prove(ctx, state, p.Module)
		if !ok {
			t.count(&t.unproved)
			continue
		}
		made := false
		for _, route := range t.routes(g, state) {
			ok, undone := t.accepts(ctx, g, d, route)
			if ok {
				t.has(d, true)
				return &Planted{Defect: d, Case: g.c, Route: route, Names: slices.Concat(p.Names, p.Callers), Before: before, After: after, ground: g}, proofs
			}
			made = made || undone
		}
		if made {
			t.count(&t.undone)
		} else {
			t.count(&t.refused)
		}
	}
	return nil, proofs
}

// has reports whether a defect was planted, and remembers it if it is now.
func (t *tester) has(d defects.Defect, now bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.seen[d.String()]
	if now {
		if t.seen == nil {
			t.seen = map[string]bool{}
		}
		t.seen[d.String()] = true
	}
	return was
}

func (t *tester) count(n *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

// executes reports whether the build runs programs.
func (t *tester) executes() bool {
	return t.cfg.Build.Kind == builds.Executable && !t.cfg.PassesOnly
}

// streams are the gate's inputs.
func (t *tester) streams(c *fuzz.Case) [][]*hlo.Literal {
	var out [][]*hlo.Literal
	for _, s := range c.Streams(t.cfg.Seed) {
		out = append(out, s.Inputs)
	}
	if !t.executes() {
		for _, s := range c.EdgeStreams(t.cfg.Seed) {
			out = append(out, s.Inputs)
		}
	}
	return out
}

func arguments(sets [][]*hlo.Literal) [][]*eval.Value {
	out := make([][]*eval.Value, len(sets))
	for k, set := range sets {
		for _, l := range set {
			out[k] = append(out[k], eval.FromLiteral(l))
		}
	}
	return out
}

// execution is what came of running a program.
type execution int

const (
	// broken: it was not compiled, or did not run on all inputs.
	broken execution = iota
	// right: every element is in the legal set of the program, or has none.
	right
	// wrong: an element that rests on no contested semantics is outside.
	wrong
)

// execute runs the whole program on the proof's inputs and on more.
func (g *ground) execute(ctx context.Context, t *tester, run gate.Runner, b *builds.Build, more [][]*hlo.Literal) execution {
	data, err := hlo.MarshalModule(g.c.Module)
	if err != nil {
		return broken
	}
	sets := slices.Concat(g.sets, more)
	r := worker.Request{Program: data, Format: worker.HLO, Options: comparisonFlags}
	for _, set := range sets {
		var in []worker.Array
		for _, l := range set {
			in = append(in, worker.Array{Type: int32(l.Shape.Type), Dims: l.Shape.Dims, Data: l.Raw})
		}
		r.Inputs = append(r.Inputs, in)
	}
	o := run.Do(ctx, b, r)
	if o.Status != worker.OK || o.Result == nil || len(o.Result.Sets) != len(sets) {
		return broken
	}
	var want []*eval.Value
	for k := range g.inputs {
		want = append(want, g.value(ctx, program, k))
	}
	want = append(want, g.evaluate(ctx, g.trail.Before, arguments(more))...)
	out := right
	for k, set := range o.Result.Sets {
		if set.Failure != nil {
			return broken
		}
		if want[k] == nil {
			continue
		}
		for _, d := range set.Distinct {
			if outside(leaves(want[k]), d.Outputs) {
				out = wrong
			}
		}
	}
	return out
}

// outside reports whether an element without contest is outside its legal set.
func outside(want []*eval.Array, got []worker.Array) bool {
	for o, w := range want {
		if o >= len(got) || hlo.PrimitiveType(got[o].Type) != w.Type || !slices.Equal(got[o].Dims, w.Dims) {
			return false // nothing to compare
		}
		v := eval.FromLiteral(&hlo.Literal{Shape: hlo.ArrayShape(w.Type, w.Dims...), Raw: got[o].Data}).Array
		for i := range w.Len() {
			if w.At(i).Contest == 0 && w.Legal(i, v.At(i)) == eval.Out {
				return true
			}
		}
	}
	return false
}

// accepts reports whether the build takes the planted module: undone is a
// mistake that does not show in what the build computes on the proof's inputs,
// because a later pass or code generation makes it good.
func (t *tester) accepts(ctx context.Context, g *ground, d defects.Defect, route Route) (ok, undone bool) {
	c := NewComposite(t.cfg.Runner, t.cfg.Build, d, route, t.cfg.TempDir)
	c.Kept = g.kept
	if t.executes() {
		switch g.execute(ctx, t, c, c.Head, nil) {
		case wrong:
			return true, false
		case right:
			return false, true
		}
		return false, false
	}
	return t.compiles(ctx, g, c), false
}

// compiles reports whether the build goes on from the composite's module to the
// end of its passes. Not every state can go through the whole pipeline again.
func (t *tester) compiles(ctx context.Context, g *ground, c *Composite) bool {
	if c.Route == Backend {
		return true // nothing is left to compile
	}
	whole := g.c.Module
	if t.cfg.Build.Kind == builds.Executable {
		whole = triage.Stopped(whole)
	}
	data, err := hlo.MarshalModule(whole)
	if err != nil {
		return false
	}
	trail := triage.Trail{Outcome: c.Do(ctx, c.Head, worker.Request{Program: data, Format: worker.HLO, Options: comparisonFlags, CompileOnly: true})}
	return trail.Complete()
}
