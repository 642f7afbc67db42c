package triage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// Region is what a pass step changed at one place, before and after, as two
// programs with the same parameters and results: cut out of their modules
// where both sides still have the same values.
type Region struct {
	Before, After *hlo.Module
	// Inputs are the values that the parameters have in the program: the
	// reference's centres, rounded to the storage type.
	Inputs []*hlo.Literal
	// Made says that the program was not executed there, or not as far as the
	// reference can see: then Inputs are made up.
	Made bool

	outputs []regionOutput
	cuts    []*hlo.Instruction // of the flat module before: behind the parameters
	tainted bool               // holds a pair that was given up
}

// regionOutput is one frontier value, as instructions of the flat modules.
type regionOutput struct{ before, after *hlo.Instruction }

// RegionStep is the judgement of a pass step by its changed regions alone.
type RegionStep struct {
	// Standing: Same if the legal sets meet in every region (or nothing but
	// names, fusion, copies and layouts changed); Guilty with Where, Region and
	// Location; Ruled; Unknown if a region cannot be evaluated, with Detail.
	Standing Standing
	Detail   string
	// Regions counts the values at which changed regions end, Unknown those of
	// them that could not be judged.
	Regions, Unknown int
	// Elements of the regions' results were compared; Undecided, ByRule and
	// Wrong as in Step.
	Elements, Undecided, ByRule, Wrong int64
	Where                              *Divergence
	// Work is what the judgement took, in steps of the reference (see
	// eval.Options.MaxSteps), and one for each instruction of the two states. It
	// depends on nothing but the states and the arguments.
	Work int64
	// Region is the guilty one, Location the instruction inside.
	Region   *Region
	Location *Location
}

// widenings is how many times a region whose results differ is grown by what
// reads them. A pass may give an instruction another value and put that right
// in what reads it; the rewrites of XLA's simplifiers look at an instruction
// and its operands, a few levels at most.
const widenings = 8

// compensated is the largest difference between centres of two programs that
// mean the same over the reals, relative to the largest value of an array.
// Centres are computed in double precision, and a region is small enough to lose
// no more than half of the digits; where parameters depend on each other and are
// rounded apart (see dependent), that is half of the digits of the type.
func (r *Region) compensated(t hlo.PrimitiveType) float64 {
	if len(r.dependent()) == 0 {
		return 0x1p-26
	}
	return math.Ldexp(1, -(t.Real().Format().MantissaBits+1)/2)
}

// regionSteps is the step limit of the evaluation of a region; see
// eval.Options.MaxSteps. A whole loop may be a region.
const regionSteps = 1 << 24

// wholeRoom is how many times a caller's step limit the program before a step
// may take without bounds, for the values that its regions see: they are asked
// where the limit was too low for the whole, too.
const wholeRoom = 32

// ValidateRegions judges a pass step by its changed regions: each is evaluated
// before and after on the values that it sees when the program before the step
// runs on args, so that bounds don't pile up along the way there. rule is the
// precision rule that the step falls under ("" for none).
//
// The error is ctx's, or says that the two modules are not states of one
// program.
func ValidateRegions(ctx context.Context, before, after *hlo.Module, args []*eval.Value, o eval.Options, rule string) (*RegionStep, error) {
	s, _, err := validateRegions(ctx, newFlatStep(before, after), args, o, rule, 0, math.MaxInt64)
	return s, err
}

// flatStep is a pass step as the flat modules before and after, numbered together.
type flatStep struct {
	before, after *flatModule
	n             *numbering
	instructions  int64 // of the two states
}

func newFlatStep(before, after *hlo.Module) *flatStep {
	return &flatStep{flatten(before), flatten(after), newNumbering(), int64(before.NumInstructions() + after.NumInstructions())}
}

// validateRegions is ValidateRegions with another step limit for the program
// before the step, without bounds; 0 leaves it to wholeRoom. All regions together
// may take room. steps is what both took.
func validateRegions(ctx context.Context, flat *flatStep, args []*eval.Value, o eval.Options, rule string, limit, room int64) (step *RegionStep, steps int64, err error) {
	j := newRegionJudge(ctx, flat, o, rule)
	j.room = room
	if err := j.mismatch(); err != nil {
		return nil, 0, err
	}
	if limit > 0 && (j.whole.MaxSteps == 0 || limit < j.whole.MaxSteps) {
		j.whole.MaxSteps = limit
	}
	j.record(args)
	v := j.judge(j.before.module.Entry, j.after.module.Entry)
	s := &j.step
	s.Work = j.recorded + j.spent + j.instructions
	switch {
	case ctx.Err() != nil:
		return nil, j.recorded + j.spent, ctx.Err()
	case v != nil:
		s.Standing, s.Where, s.Region = Guilty, &v.where, &v.region
		s.Location = j.location(v)
	case s.Unknown > 0:
		s.Standing = Unknown
	case s.ByRule > 0:
		s.Standing = Ruled
	}
	if s.Standing != Guilty {
		s.Wrong = 0 // made good by what reads it
	}
	return s, j.recorded + j.spent, nil
}

// errMade is why a region is not judged whose results do not meet on inputs
// that the program was not seen to give it.
var errMade = errors.New("differs, but on values that were not seen in the program")

type regionJudge struct {
	*flatStep
	ctx         context.Context
	o           eval.Options
	whole       eval.Options // of the program before the step
	step        RegionStep
	rule        string
	values      flatValues // before the step
	recorded    int64      // steps that they took
	spent, room int64      // steps on regions, and how many there may be
	judged      map[[2]*hlo.Computation]*regionFault
}

// regionFault is a region whose results do not meet.
type regionFault struct {
	region Region
	output int
	where  Divergence

	at        *hlo.Instruction // of the flat module after: the result
	pairing   *pairing
	component component
	values    map[*hlo.Instruction]*eval.Value
}

func newRegionJudge(ctx context.Context, flat *flatStep, o eval.Options, rule string) *regionJudge {
	o.Trace = nil
	whole := eval.Options{MaxElements: o.MaxElements, MaxSteps: min(wholeRoom*o.MaxSteps, eval.DefaultMaxSteps)}
	if o.MaxSteps == 0 || o.MaxSteps > regionSteps {
		o.MaxSteps = regionSteps
	}
	return &regionJudge{flatStep: flat, ctx: ctx, o: o, whole: whole, rule: rule,
		step:   RegionStep{Standing: Same},
		judged: map[[2]*hlo.Computation]*regionFault{}}
}

func (j *regionJudge) mismatch() error {
	b, a := j.before.module.Entry, j.after.module.Entry
	pb, pa := b.Params(), a.Params()
	if len(pb) != len(pa) || !b.Root.Shape.Compatible(a.Root.Shape) {
		return errShapes
	}
	for i := range pb {
		if pb[i] == nil || pa[i] == nil || !pb[i].Shape.Compatible(pa[i].Shape) {
			return fmt.Errorf("parameter %d: %w", i, errShapes)
		}
	}
	return nil
}

// record runs the flat module before the step.
func (j *regionJudge) record(args []*eval.Value) {
	if j.n.computation(j.before.module.Entry) != j.n.computation(j.after.module.Entry) { // else nothing will be asked
		j.values, j.recorded = j.before.trace(j.ctx, args, j.whole, keptElements)
	}
}

// kept reports whether the values of execution k of a computation, from 0, are
// kept beside those of the last one: 0, 1, 3, 7, 15 and 31. Loops treat their
// first iterations in a way of their own, and converge.
func kept(k int) bool { return k&(k+1) == 0 && k < 32 }

// flatValues are the values of the instructions of each flat computation, in
// some of its executions, the first and the last among them.
type flatValues map[*hlo.Computation][]map[*hlo.Instruction]*eval.Value

// trace runs a flat module and keeps what each instruction gave, as long as that
// is no more than room array elements. What the reference cannot evaluate
// gets made-up values. steps is what all runs took together.
func (f *flatModule) trace(ctx context.Context, args []*eval.Value, o eval.Options, room int64) (values flatValues, steps int64) {
	home := map[*hlo.Instruction]*hlo.Computation{}
	for _, c := range f.module.Computations {
		for _, in := range c.Instructions {
			home[in] = c
		}
	}
	flat := map[*hlo.Computation]bool{}
	for in := range f.origin {
		flat[home[in]] = true
	}
	// What only an instruction needs that got a made-up value is seen in an
	// earlier run.
	var earlier flatValues
	defer func() { values.fill(earlier) }()
	for range substitutions {
		values.fill(earlier)
		earlier = values
		values = flatValues{}
		runs := map[*hlo.Computation]int{}
		room := room
		last := map[*hlo.Computation]int64{} // elements kept of the last execution
		o.Trace = func(in *hlo.Instruction, v *eval.Value) {
			c := home[in]
			if !flat[c] {
				return
			}
			vs := values[c]
			switch n := len(vs); {
			case n == 0:
				vs, runs[c] = append(vs, map[*hlo.Instruction]*eval.Value{}), 1
			case vs[n-1][in] == nil:
			case kept(runs[c] - 1): // another execution
				vs = append(vs, map[*hlo.Instruction]*eval.Value{})
				runs[c]++
				last[c] = 0
			default:
				vs[n-1] = map[*hlo.Instruction]*eval.Value{}
				runs[c]++
				room += last[c]
				last[c] = 0
			}
			values[c] = vs
			if v.Array != nil { // the arrays of a tuple are those of its elements
				n := int64(v.Array.Len())
				if n > room {
					return
				}
				room -= n
				last[c] += n
			}
			vs[len(vs)-1][in] = v
		}
		e := eval.NewEvaluator(ctx, o)
		_, err := e.RunComputation(f.module.Entry, args)
		steps += e.Steps()
		var u *eval.Unsupported
		if !errors.As(err, &u) {
			return values, steps
		}
		// Go on behind it with any value.
		var in *hlo.Instruction
		for k, c := range home {
			if k.Name == u.Instruction && flat[c] {
				in = k
			}
		}
		if in == nil || !madeUp(in.Shape) {
			return values, steps
		}
		defer func(was hlo.Instruction) { *in = was }(*in)
		in.Op, in.Operands, in.Called, in.Literal = hlo.OpConstant, nil, nil, made(in.Shape, len(in.Name))
	}
	return values, steps
}

// fill adds the values of other runs where v has none, in the first execution of
// each computation: later ones need not be the same in both.
func (v flatValues) fill(other flatValues) {
	for c, runs := range other {
		if len(v[c]) == 0 {
			v[c] = []map[*hlo.Instruction]*eval.Value{{}}
		}
		for in, x := range runs[0] {
			if v[c][0][in] == nil {
				v[c][0][in] = x
			}
		}
	}
}

// substitutions bounds how many instructions that the reference cannot
// evaluate get made-up values.
const substitutions = 64

func madeUp(s *hlo.Shape) bool {
	if s.IsTuple() {
		return len(s.Elements) > 0 && !slices.ContainsFunc(s.Elements, func(e *hlo.Shape) bool { return !madeUp(e) })
	}
	return s.IsArray() && !s.IsDynamic() && s.Elems() <= 1<<24
}

// made makes a value: small multiples of 1/2 for floats, small integers.
func made(s *hlo.Shape, salt int) *hlo.Literal {
	l := hlo.NewLiteral(s.WithoutLayout())
	if s.IsTuple() {
		l.Elements = nil
		for i, e := range s.Elements {
			l.Elements = append(l.Elements, made(e, salt+i))
		}
		return l
	}
	for i := range s.Elems() {
		x := (i*7 + int64(salt)*3) % 5
		switch {
		case s.Type.IsComplex():
			l.SetComplex(i, complex(float64(x-2)/2, float64(x)/2))
		case s.Type.IsFloat():
			l.SetFloat(i, float64(x-2)/2)
		case s.Type == hlo.Pred:
			l.SetInt(i, x&1)
		default:
			l.SetInt(i, x)
		}
	}
	return l
}

func first(values []map[*hlo.Instruction]*eval.Value) map[*hlo.Instruction]*eval.Value {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

// judge judges a pair of computations and returns what is wrong, nil for
// nothing.
func (j *regionJudge) judge(before, after *hlo.Computation) *regionFault {
	key := [2]*hlo.Computation{before, after}
	if v, ok := j.judged[key]; ok {
		return v
	}
	j.judged[key] = nil
	if j.n.computation(before) == j.n.computation(after) {
		return nil
	}
	p := j.n.pair(before, after)
	whole := map[*hlo.Instruction]bool{}
	var fault *regionFault
	// Bodies first: where all of them mean the same, the loop does.
	for _, a := range after.Instructions {
		if p.of[a] == nil || j.n.of[a] == j.n.of[p.of[a]] || !j.n.same(p.of[a], a) {
			continue
		}
		for _, k := range p.bodies(j.n, a) {
			if !sameParams(k[0], k[1]) {
				continue
			}
			if v := j.judge(k[0], k[1]); v != nil {
				whole[a] = true
				if fault == nil {
					fault = v
				}
			}
		}
	}
	v := j.settle(p, whole)
	if v != nil && fault != nil {
		v = fault // the place inside the loop
	}
	if v == nil && fault != nil {
		for _, a := range after.Instructions {
			if !whole[a] || p.of[a] == nil {
				continue
			}
			switch standing, why := j.speaksFor(p, a); standing {
			case Guilty:
				v = fault
			case Unknown:
				j.step.add(regionTally{why: why})
			}
		}
	}
	j.judged[key] = v
	return v
}

// sameParams reports whether two computations take the same and give the same.
func sameParams(b, a *hlo.Computation) bool {
	return b.Root.Shape.Compatible(a.Root.Shape) && slices.EqualFunc(b.Params(), a.Params(), func(x, y *hlo.Instruction) bool {
		return x != nil && y != nil && x.Shape.Compatible(y.Shape)
	})
}

// regionTally is what was seen of one frontier value.
type regionTally struct {
	elements, undecided, byRule, wrong int64
	why                                string // it could not be judged
}

func (t *regionTally) add(u regionTally) {
	t.elements += u.elements
	t.undecided += u.undecided
	t.byRule += u.byRule
	t.wrong += u.wrong
	if t.why == "" {
		t.why = u.why
	}
}

func (s *RegionStep) add(t regionTally) {
	s.Regions++
	s.Elements += t.elements
	s.Undecided += t.undecided
	s.ByRule += t.byRule
	s.Wrong += t.wrong
	if t.why != "" {
		s.Unknown++
		if s.Detail == "" || t.why < s.Detail {
			s.Detail = t.why
		}
	}
}

// settle judges the regions of a pair of computations, and grows those whose
// results differ until the difference is made good or is there to stay.
func (j *regionJudge) settle(p *pairing, whole map[*hlo.Instruction]bool) *regionFault {
	values := j.values[p.before]
	if len(values) == 0 {
		values = []map[*hlo.Instruction]*eval.Value{nil}
	}
	// firsts are the faults of the pairs that were given up: where the
	// difference began.
	firsts := map[*hlo.Instruction]*regionFault{}
	depth := map[*hlo.Instruction]int{} // how far a given up pair is behind its first
	order := map[*hlo.Instruction]int{}
	for i, a := range p.after.Instructions {
		order[a] = i
	}
	tallies := map[*hlo.Instruction]regionTally{} // by frontier instruction after
	defer func() {
		for a, t := range tallies {
			if p.of[a] != nil {
				j.step.add(t)
			}
		}
	}()
	done := map[regionOutput]bool{}
	for j.ctx.Err() == nil {
		failed := map[*hlo.Instruction]*regionFault{} // by instruction after
		level := map[*hlo.Instruction]int{}
		reads := map[*hlo.Instruction][]*hlo.Instruction{}
		for _, c := range j.components(p, whole) {
			var began *regionFault
			deep := 0
			for _, a := range c.after {
				if f := firsts[a]; f != nil {
					if began == nil || order[a] < order[began.at] {
						began = f
					}
					deep = max(deep, depth[a])
				}
			}
			if key := c.outputs[0]; done[key] && began == nil {
				continue
			} else {
				done[key] = true
			}
			for n, vs := range values {
				r := j.region(p, c, vs, nil)
				if r.Made && n > 0 {
					continue // seen in part
				}
				r.tainted = began != nil
				bad, tally, why := j.compare(&r)
				if len(bad) > 0 {
					bad, tally = j.opened(p, c, vs, &r, bad, tally)
				}
				for k, o := range c.outputs {
					t := regionTally{why: why}
					if why == "" {
						t.elements, t.undecided, t.byRule, t.wrong = tally[k].Elements, tally[k].Undecided, tally[k].ByRule, tally[k].Wrong
					}
					if n > 0 {
						t.add(tallies[o.after])
					}
					tallies[o.after] = t
				}
				for _, f := range bad {
					a := c.outputs[f.output].after
					if failed[a] != nil {
						continue
					}
					if f.at, f.pairing, f.component, f.values = a, p, c, vs; began != nil {
						f = began
					}
					failed[a], reads[a], level[a] = f, p.reads(a), deep
				}
			}
		}
		if len(failed) == 0 {
			return nil
		}
		// Where a pair reads one that failed, that one comes first.
		var up []*hlo.Instruction
		for _, a := range p.after.Instructions {
			if failed[a] != nil && !slices.ContainsFunc(reads[a], func(x *hlo.Instruction) bool { return failed[x] != nil }) {
				up = append(up, a)
			}
		}
		for _, a := range up {
			if a == p.after.Root || level[a] == widenings {
				return failed[a]
			}
			firsts[a], depth[a] = failed[a], level[a]+1
			p.giveUp(a)
			delete(whole, a)
		}
		// What waited is judged again.
		clear(done)
	}
	return nil
}

// speaksFor says what a loop or conditional is as a whole whose bodies differ:
// Same if that is made good, Guilty if it is not, and Unknown, with a reason, if
// it cannot be told.
func (j *regionJudge) speaksFor(p *pairing, a *hlo.Instruction) (Standing, string) {
	r := j.region(p, component{outputs: []regionOutput{{p.of[a], a}}}, first(j.values[p.before]), nil)
	r.tainted = true
	bad, tally, why := j.compare(&r)
	switch {
	case why != "" || len(bad) > 0:
		return Guilty, ""
	case tally[0].Undecided == tally[0].ByRule:
		return Same, ""
	case j.wanders(&r, 0):
		return Guilty, ""
	}
	return Unknown, fmt.Sprintf("the bodies of %%%s differ, but nothing can be said of the whole", a.Name)
}

// component is a connected piece of what changed.
type component struct {
	outputs       []regionOutput
	before, after []*hlo.Instruction // between the cut and the outputs
}

// components groups the pairs that are not equal by construction by what they
// share.
func (j *regionJudge) components(p *pairing, whole map[*hlo.Instruction]bool) []component {
	var all []component
	of := map[*hlo.Instruction]int{} // inner instruction -> component
	for _, a := range p.after.Instructions {
		b := p.of[a]
		if b == nil || j.n.of[a] == j.n.of[b] || p.aligned(j.n, a) && !whole[a] {
			continue
		}
		c := component{outputs: []regionOutput{{b, a}}}
		c.after = above(a, func(x *hlo.Instruction) bool { return p.of[x] != nil })
		c.before = above(b, func(x *hlo.Instruction) bool { return p.cut[x] })
		// Merge with the components that share an instruction.
		at := len(all)
		merged := []int{}
		for _, x := range slices.Concat(c.after, c.before) {
			if k, ok := of[x]; ok && !slices.Contains(merged, k) {
				merged = append(merged, k)
			}
		}
		if len(merged) > 0 {
			at = merged[0]
		} else {
			all = append(all, component{})
		}
		for _, k := range merged[min(1, len(merged)):] {
			m := all[k]
			all[at].outputs = append(all[at].outputs, m.outputs...)
			all[at].after = append(all[at].after, m.after...)
			all[at].before = append(all[at].before, m.before...)
			for _, x := range slices.Concat(m.after, m.before) {
				of[x] = at
			}
			all[k] = component{}
		}
		all[at].outputs = append(all[at].outputs, c.outputs...)
		for _, x := range c.after {
			if k, ok := of[x]; !ok || k != at {
				of[x] = at
				all[at].after = append(all[at].after, x)
			}
		}
		for _, x := range c.before {
			if k, ok := of[x]; !ok || k != at {
				of[x] = at
				all[at].before = append(all[at].before, x)
			}
		}
	}
	return slices.DeleteFunc(all, func(c component) bool { return len(c.outputs) == 0 })
}

// closed reports whether an instruction gives a constant: it is cheap to keep
// and says more than a parameter.
func closed(in *hlo.Instruction) bool {
	for in.Op == hlo.OpBroadcast || in.Op == hlo.OpReshape || in.Op == hlo.OpConvert {
		in = in.Operands[0]
	}
	return in.Op == hlo.OpConstant || in.Op == hlo.OpIota
}

// above are the instructions that in is computed from, up to and without those
// where stop holds; in itself is not among them.
func above(in *hlo.Instruction, stop func(*hlo.Instruction) bool) []*hlo.Instruction {
	var out []*hlo.Instruction
	seen := map[*hlo.Instruction]bool{}
	work := []*hlo.Instruction{in}
	for len(work) > 0 {
		x := work[len(work)-1]
		work = work[:len(work)-1]
		for _, o := range x.Operands {
			if !seen[o] && !stop(o) && !closed(o) && o.Op != hlo.OpParameter {
				seen[o] = true
				out = append(out, o)
				work = append(work, o)
			}
		}
	}
	return out
}

// dependent are the parameters of a region that are computed from others a few
// instructions above. As parameters they are rounded, and where the other side
// computes the same in another order, that rounding is in neither legal set.
func (r *Region) dependent() map[*hlo.Instruction]bool {
	out := map[*hlo.Instruction]bool{}
	for _, b := range r.cuts {
		level := []*hlo.Instruction{b}
		for range widenings {
			var next []*hlo.Instruction
			for _, x := range level {
				for _, o := range x.Operands {
					if slices.Contains(r.cuts, o) {
						out[b] = true
					}
					next = append(next, o)
				}
			}
			slices.SortFunc(next, func(x, y *hlo.Instruction) int { return strings.Compare(x.Name, y.Name) })
			if level = slices.Compact(next); out[b] || len(level) > 64 {
				break
			}
		}
	}
	return out
}

// region builds the two programs of a component. Instructions in open are not
// cut.
func (j *regionJudge) region(p *pairing, c component, values map[*hlo.Instruction]*eval.Value, open map[*hlo.Instruction]bool) Region {
	r := Region{outputs: c.outputs}
	params := map[*hlo.Instruction]int{} // cut instruction before -> number
	var cuts []*hlo.Instruction
	number := func(b *hlo.Instruction) int {
		if _, ok := params[b]; !ok {
			params[b] = len(cuts)
			cuts = append(cuts, b)
		}
		return params[b]
	}
	var before, after []*hlo.Instruction
	for _, o := range c.outputs {
		before, after = append(before, o.before), append(after, o.after)
	}
	build := func(name string, roots []*hlo.Instruction, cut func(*hlo.Instruction) *hlo.Instruction) *piece {
		b := newPiece(name)
		for _, root := range roots {
			b.roots = append(b.roots, b.take(root, true, cut, number))
		}
		return b
	}
	pb := build("before", before, func(x *hlo.Instruction) *hlo.Instruction {
		if p.cut[x] && !open[x] || x.Op == hlo.OpParameter {
			return x
		}
		return nil
	})
	pa := build("after", after, func(x *hlo.Instruction) *hlo.Instruction {
		if b := p.of[x]; b != nil && !open[b] {
			return b
		}
		return nil
	})
	r.cuts = cuts
	for _, b := range cuts {
		v := values[b]
		var lit *hlo.Literal
		if v != nil {
			lit, _ = v.Literal(b.Shape.WithoutLayout())
		}
		if lit == nil {
			r.Made = true
			if b.Literal != nil {
				lit = b.Literal
			} else if madeUp(b.Shape) {
				lit = made(b.Shape, len(b.Name))
			} else {
				lit = hlo.NewLiteral(b.Shape.WithoutLayout())
			}
		}
		r.Inputs = append(r.Inputs, lit)
	}
	r.Before, r.After = pb.module(cuts), pa.module(cuts)
	return r
}

// opened judges a region whose results differ once more, without the cuts that
// are computed from others of its cuts. Where an integer or a truth value still
// differs, it goes on as long as the region ends at others of the kind and
// no more is undecided than before: no bound says how far a comparison is from
// turning over. For floats one time is enough, and bounds grow with the region.
func (j *regionJudge) opened(p *pairing, c component, values map[*hlo.Instruction]*eval.Value, r *Region, bad []*regionFault, tally []Step) ([]*regionFault, []Step) {
	undecided := func(t []Step) (n int64) {
		for _, s := range t {
			n += s.Undecided
		}
		return n
	}
	float := func(f *regionFault) bool { return f.where.Type.IsFloat() || f.where.Type.IsComplex() }
	open := map[*hlo.Instruction]bool{}
	for n, more := 0, r.dependent(); len(more) > 0 && len(bad) > 0 && n < widenings; n++ {
		if n > 0 && slices.ContainsFunc(bad, float) {
			break
		}
		maps.Copy(open, more)
		wider := j.region(p, c, values, open)
		wider.tainted = r.tainted
		b, t, why := j.compare(&wider)
		if why != "" || n > 0 && undecided(t) > undecided(tally) {
			break
		}
		bad, tally, more = b, t, wider.dependent()
	}
	return bad, tally
}

// piece is a program being built from parts of another.
type piece struct {
	name   string
	is     map[*hlo.Instruction]*hlo.Instruction
	params map[int]*hlo.Instruction
	body   []*hlo.Instruction
	roots  []*hlo.Instruction
	names  map[string]bool
}

func newPiece(name string) *piece {
	return &piece{name, map[*hlo.Instruction]*hlo.Instruction{}, map[int]*hlo.Instruction{}, nil, nil, map[string]bool{}}
}

// take copies in and what it needs up to the cut; at the cut there are
// parameters. root says that in itself is not to be cut.
func (b *piece) take(in *hlo.Instruction, root bool, cut func(*hlo.Instruction) *hlo.Instruction, number func(*hlo.Instruction) int) *hlo.Instruction {
	type frame struct {
		in   *hlo.Instruction
		next int
	}
	isCut := func(x *hlo.Instruction) *hlo.Instruction {
		if closed(x) || root && x == in {
			return nil
		}
		return cut(x)
	}
	if in.Op == hlo.OpParameter {
		return b.parameter(cut(in), number)
	}
	if b.is[in] != nil {
		return b.is[in]
	}
	stack := []frame{{in, 0}}
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if f.next < len(f.in.Operands) {
			o := f.in.Operands[f.next]
			f.next++
			if isCut(o) == nil && b.is[o] == nil && o.Op != hlo.OpParameter {
				stack = append(stack, frame{o, 0})
			}
			continue
		}
		if b.is[f.in] == nil {
			n := *f.in
			n.Name = unique(b.names, f.in.Name)
			n.Attr = proto.CloneOf(f.in.Attr)
			n.ControlPredecessors, n.Operands = nil, nil
			for _, o := range f.in.Operands {
				if c := isCut(o); c != nil {
					n.Operands = append(n.Operands, b.parameter(c, number))
				} else {
					n.Operands = append(n.Operands, b.is[o])
				}
			}
			b.is[f.in] = &n
			b.body = append(b.body, &n)
		}
		stack = stack[:len(stack)-1]
	}
	return b.is[in]
}

func (b *piece) parameter(of *hlo.Instruction, number func(*hlo.Instruction) int) *hlo.Instruction {
	k := number(of)
	if b.params[k] == nil {
		b.params[k] = newParameter(b, of, k)
	}
	return b.params[k]
}

func newParameter(b *piece, of *hlo.Instruction, k int) *hlo.Instruction {
	p := hlo.NewInstruction(unique(b.names, "p."+of.Name), hlo.OpParameter, of.Shape.WithoutLayout())
	p.Attr.ParameterNumber = int64(k)
	return p
}

// module is the program with a parameter for each cut value.
func (b *piece) module(cuts []*hlo.Instruction) *hlo.Module {
	m := hlo.NewModule(b.name)
	m.Entry = hlo.NewComputation("entry")
	for k, of := range cuts {
		if b.params[k] == nil {
			b.params[k] = newParameter(b, of, k)
		}
		m.Entry.Instructions = append(m.Entry.Instructions, b.params[k])
	}
	m.Entry.Instructions = append(m.Entry.Instructions, b.body...)
	if len(b.roots) == 1 {
		m.Entry.Root = b.roots[0]
	} else {
		m.Entry.Root = hlo.NewInstruction(unique(b.names, "results"), hlo.OpTuple, tupleOf(b.roots), b.roots...)
		m.Entry.Instructions = append(m.Entry.Instructions, m.Entry.Root)
	}
	var called []*hlo.Computation
	for _, in := range b.body {
		called = callees(in.Called, called)
	}
	m.Computations = append(called, m.Entry)
	return m.Clone()
}

// run evaluates a program of a region, and counts what it took.
func (j *regionJudge) run(m *hlo.Module, args []*eval.Value, o eval.Options) (*eval.Value, error) {
	if o.MaxSteps = min(o.MaxSteps, j.room-j.spent); o.MaxSteps <= 0 {
		return nil, eval.ErrStepLimit
	}
	e := eval.NewEvaluator(j.ctx, o)
	v, err := e.RunComputation(m.Entry, args)
	j.spent += e.Steps()
	return v, err
}

// compare evaluates both programs of a region. It returns the results that do
// not meet, a tally per result, and why the region could not be judged.
func (j *regionJudge) compare(r *Region) (bad []*regionFault, tally []Step, why string) {
	args := literalValues(r.Inputs)
	before, err := j.run(r.Before, args, j.o)
	if errors.Is(err, eval.ErrEndless) {
		if _, err := j.run(r.After, args, j.o); errors.Is(err, eval.ErrEndless) { // neither gives anything
			return nil, make([]Step, len(r.outputs)), ""
		}
	}
	if err != nil {
		return nil, nil, err.Error()
	}
	after, err := j.run(r.After, args, j.o)
	if err != nil {
		return nil, nil, err.Error()
	}
	var open *paths
	for o := range r.outputs {
		vb, va := r.output(before, o), r.output(after, o)
		s := Step{Standing: Same, Rule: j.rule}
		compare(&s, 0, vb, va, vb)
		if s.Standing == Unknown {
			return nil, nil, s.Detail
		}
		if r.tainted && s.Standing == Same && s.ByRule == 0 {
			// The legal sets meet, or tell nothing, behind a pair whose sets did
			// not: the reals decide whether it was made good.
			r.drifted(&s, vb, va)
		}
		if s.Standing == Same && s.Undecided > s.ByRule {
			if open == nil {
				open = j.paths(r, 1)
			}
			open.decide(&s, o, vb, va)
		}
		if s.Standing == Guilty {
			if r.Made { // values that depend on each other were made up apart
				return nil, nil, errMade.Error()
			}
			bad = append(bad, &regionFault{region: *r, output: o, where: *s.Where})
		}
		tally = append(tally, s)
	}
	return bad, tally, ""
}

// drifted makes a step guilty if the centres of its values differ by more than
// rounding in double precision explains.
func (r *Region) drifted(s *Step, before, after *eval.Value) {
	as := leaves(after)
	for out, b := range leaves(before) {
		a := as[out]
		if b.Re == nil {
			continue // exact, or undecided: compare has seen what there is
		}
		scale, limit := 0.0, r.compensated(b.Type)
		for i := range b.Len() {
			if x := b.At(i); decidedFloat(x) {
				scale = max(scale, math.Hypot(x.Re.C, x.Im.C))
			}
		}
		for i := range b.Len() {
			x, y := b.At(i), a.At(i)
			if !decidedFloat(x) || !decidedFloat(y) || math.Hypot(x.Re.C-y.Re.C, x.Im.C-y.Im.C) <= limit*scale {
				continue
			}
			s.Wrong++
			if s.Where == nil {
				s.Standing = Guilty
				s.Where = &Divergence{Output: out, At: unravel(i, b.Dims), Type: b.Type, Was: x, Is: y, Before: b.LegalSet(i), After: a.LegalSet(i), Contest: x.Contest}
			}
		}
	}
}

func decidedFloat(x eval.Scalar) bool {
	ok := func(n eval.Num) bool { return !math.IsInf(n.E, 0) && !math.IsNaN(n.C) && !math.IsInf(n.C, 0) }
	return ok(x.Re) && ok(x.Im)
}

func literalValues(lits []*hlo.Literal) []*eval.Value {
	out := make([]*eval.Value, len(lits))
	for i, l := range lits {
		out[i] = eval.FromLiteral(l)
	}
	return out
}

// location names the instruction of a fault: the first pair inside its region
// whose values do not meet, in the names of the original modules. Pairs inside
// are operands of the same operations, and what kept its name, whether or not
// it is paired with something else.
func (j *regionJudge) location(f *regionFault) *Location {
	o := f.region.outputs[f.output]
	at, where := o, f.where
	inner := component{}
	add := func(b, a *hlo.Instruction) bool {
		if slices.Contains(f.component.after, a) && b.Shape.Compatible(a.Shape) &&
			!slices.ContainsFunc(inner.outputs, func(x regionOutput) bool { return x.after == a }) {
			inner.outputs = append(inner.outputs, regionOutput{b, a})
			return true
		}
		return false
	}
	var match func(b, a *hlo.Instruction)
	match = func(b, a *hlo.Instruction) {
		if b.Op != a.Op || len(b.Operands) != len(a.Operands) {
			return
		}
		// One operand that differs stands for the other; with more, the pass
		// arranged the operation anew.
		var differ [][2]*hlo.Instruction
		for i, ao := range a.Operands {
			bo := b.Operands[i]
			pair := [2]*hlo.Instruction{bo, ao}
			if j.n.of[ao] != j.n.of[bo] && f.pairing.of[ao] != bo && !slices.Contains(differ, pair) {
				differ = append(differ, pair)
			}
		}
		if len(differ) == 1 && add(differ[0][0], differ[0][1]) {
			match(differ[0][0], differ[0][1])
		}
	}
	match(o.before, o.after)
	named := map[string]*hlo.Instruction{}
	for _, b := range f.pairing.before.Instructions {
		named[b.Name] = b
	}
	for _, a := range f.component.after {
		if b := named[a.Name]; b != nil {
			add(b, a)
		}
	}
	order := map[*hlo.Instruction]int{}
	for i, a := range f.pairing.after.Instructions {
		order[a] = i
	}
	slices.SortFunc(inner.outputs, func(x, y regionOutput) int { return order[x.after] - order[y.after] })
	for _, pair := range inner.outputs {
		r := j.region(f.pairing, component{outputs: []regionOutput{pair}}, f.values, nil)
		bad, _, _ := j.compare(&r)
		if len(bad) > 0 {
			at, where = pair, bad[0].where
			break
		}
	}
	loc := &Location{Before: j.before.origin[at.before], After: j.after.origin[at.after], Computation: j.before.home[at.before], Where: where}
	if loc.Source = source(loc.Before); loc.Source == "" {
		loc.Source = source(loc.After)
	}
	return loc
}

// Place is the instruction at which a guilty step went wrong: inside the changed
// region where there is one that shows it, else as Localize finds it.
func Place(ctx context.Context, before, after *hlo.Module, args []*eval.Value, o eval.Options) (*Location, error) {
	if r, err := ValidateRegions(ctx, before, after, args, o, ""); err == nil && r.Location != nil {
		return r.Location, nil
	}
	return Localize(ctx, before, after, args, o)
}
