package triage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/dump"
)

// Standing is what the reference says about one pass step.
type Standing string

const (
	// Same: the legal sets before and after meet on every element.
	Same Standing = "same"
	// Guilty: on some element the sets before and after have no value in
	// common.
	Guilty Standing = "guilty"
	// Ruled: some elements do not meet, but a rule allows the pass to change
	// precision there (see precisionRules).
	Ruled Standing = "legal by rule"
	// Unknown: the interpreter cannot evaluate the state before or after.
	Unknown Standing = "unknown"
)

// Step is the judgement of one pass step.
type Step struct {
	Key      dump.Key
	Number   int
	Standing Standing
	// Detail says why a step is Unknown ("unsupported: custom-call ...").
	Detail string
	// Rule is the name of the rule that allows some elements not to meet.
	Rule string
	// Elements were compared; Undecided had no legal set on one side, or do not
	// meet by a rule: those are ByRule. Loose have sets so wide that a wrong
	// value may well be inside (see loose).
	Elements, Undecided, ByRule, Loose int64
	// Regions is the judgement by changed regions: made where the whole program
	// says nothing against the step, but not much for it, either. It decides.
	Regions *RegionStep
	// Wrong counts the elements that do not meet, Firm those of them whose
	// value in the program itself rests on no contested semantics.
	Wrong, Firm int64
	// Contested names the rule under which a guilty step is contested although
	// the program itself rests on no contested semantics (ContestOverflow).
	Contested string
	// Where is the first element that does not meet, a firm one if there is
	// one; set when Guilty.
	Where *Divergence
}

// Divergence is one element on which two states do not meet.
type Divergence struct {
	InputSet      int
	Output        int     // leaf of the result
	At            []int64 // index in that leaf
	Type          hlo.PrimitiveType
	Before, After string // legal sets
	// Was and Is are the element's centres and bounds before and after.
	Was, Is eval.Scalar
	// Endless says that behind the step a loop has no end.
	Endless bool
	// Contest says on which contested semantics the element rests in the
	// program itself, before any pass.
	Contest eval.Contest
}

// Validation is the judgement of a whole trail.
type Validation struct {
	Steps []Step
	// Judged, Undecided (no element says anything, of the whole or of what the
	// step changed) and Unknown count steps and sum up to all of them; Ruled
	// counts those that a rule allows, Shared those whose state, or one that
	// means the same by construction, had been evaluated before.
	Judged, Undecided, Unknown, Ruled, Shared int
	// Sets are the tallies of the input sets.
	Sets []SetTally
	// Whole says that the last state could be evaluated on some input set, so
	// that no step escaped.
	Whole bool

	// What is left of trailSteps for the states on the own inputs, on all others,
	// and for changed regions; ahead counts the states still to come.
	ownRoom, setRoom, regionRoom int64
	ahead                        int
}

// dearSteps is the size of an evaluation, in steps of the reference, from which
// on only what is new in a state is evaluated: nothing where it is the same data
// flow as the one before.
const dearSteps = 1 << 12

// trailSteps bounds the reference's steps on all states of a trail together: on
// the own inputs, once more on all other inputs, and once more for changed
// regions and what they see. So what is judged depends on no clock. A step is an
// instruction, or 64 element operations, so that 2^24 of them are some seconds, a
// minute at most.
const trailSteps = 1 << 24

// SetTally sums the steps up for one input set.
type SetTally struct {
	Elements, Undecided int64
	Guilty              bool
	// Err is why the set was given up, nil if it was not: a state that ran
	// into the step limit is not followed by others, nor is one that was dear and
	// of which no element is decided.
	Err error
}

// Guilty returns the first guilty step, nil if there is none.
func (v *Validation) Guilty() *Step {
	for i := range v.Steps {
		if v.Steps[i].Standing == Guilty {
			return &v.Steps[i]
		}
	}
	return nil
}

// Evaluations remembers what states evaluate to, by digest, so that steps that
// two builds have in common are evaluated once. It belongs to one list of
// input sets and one set of options. The zero value is ready for use.
//
// It holds no more than keptElements array elements: what is beyond is evaluated
// again.
type Evaluations struct {
	of       map[Sum][]evaluation
	elements int64
	// memory knows the values inside the last state; nil as long as no state is
	// dear.
	memory *eval.Memory
}

// keptElements bounds what Evaluations hold, and what is kept of one run of a
// program for its regions (see trace): an element takes 8 bytes, with bounds up
// to 26, so that either is less than 1 GiB.
const keptElements = 1 << 25

// keep remembers what a state evaluates to; fresh says that the values are new,
// not those of another state.
func (e *Evaluations) keep(s Sum, v []evaluation, fresh bool) {
	if fresh {
		for _, x := range v {
			if x.value != nil {
				for _, a := range leaves(x.value) {
					e.elements += int64(a.Len())
				}
			}
		}
	}
	if e.elements > keptElements {
		return
	}
	if e.of == nil {
		e.of = map[Sum][]evaluation{}
	}
	e.of[s] = v
}

type evaluation struct {
	value *eval.Value
	err   error
	steps int64 // that it took
}

// Validate evaluates every state of the trail on the input sets and compares
// it with the last state before it that could be evaluated. A step that
// follows an unknown one is compared across the gap: then Detail names the gap.
//
// Where the reference cannot evaluate the program itself, or not in the step
// limit, steps are judged by what they change alone (ValidateRegions).
//
// The error is ctx's, or says that the inputs don't fit the program.
func (t *Trail) Validate(ctx context.Context, inputs [][]*eval.Value, o eval.Options) (*Validation, error) {
	return t.ValidateKnown(ctx, inputs, o, &Evaluations{}, -1)
}

// ValidateKnown is Validate with evaluations that are used and added to. The
// input set number own, chosen by the program's author, gets the interpreter's
// default step limit for the program and trailSteps for all states after it, and
// not o's; -1 is none.
func (t *Trail) ValidateKnown(ctx context.Context, inputs [][]*eval.Value, o eval.Options, known *Evaluations, own int) (*Validation, error) {
	v := &Validation{Sets: make([]SetTally, len(inputs)), ownRoom: eval.DefaultMaxSteps, setRoom: trailSteps, regionRoom: trailSteps}
	original := v.evaluate(ctx, t.Before, inputs, o, own, known)
	v.ownRoom = trailSteps
	given := v.giveUp(original)
	var u *eval.Unsupported
	if given != nil && !errors.As(given, &u) && !errors.Is(given, eval.ErrStepLimit) {
		return nil, given
	}
	before, sum := slices.Clone(original), Sum{}
	gap := ""
	for i, s := range t.States {
		v.ahead = len(t.States) - i
		step := Step{Key: s.Key, Number: s.Number, Standing: Same}
		if s.Err != nil {
			step.Standing, step.Detail = Unknown, s.Err.Error()
			v.Unknown++
			gap = step.Key.String()
			v.Whole = false
			v.Steps = append(v.Steps, step)
			continue
		}
		if s.Sum == sum { // nothing but names changed
			v.Judged++
			v.Steps = append(v.Steps, step)
			continue
		}
		after, seen := known.of[s.Sum]
		if !seen && gap == "" && known.memory != nil && sameFlow(t.module(i), s.Module) {
			after, seen = slices.Clone(before), true // what it means is known; before goes on
		}
		if seen {
			v.Shared++
		} else {
			after = v.evaluate(ctx, s.Module, inputs, o, own, known)
		}
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		known.keep(s.Sum, after, !seen)
		evaluated := false
		var trouble error
		step.Rule = ruleFor(s.Key, s.Module)
		for set := range inputs {
			switch {
			case v.Sets[set].Err != nil:
			case after[set].err != nil:
				trouble = after[set].err
				if errors.Is(trouble, eval.ErrStepLimit) {
					v.Sets[set].Err = trouble
				}
				if errors.Is(trouble, eval.ErrEndless) && before[set].err == nil && step.Standing != Guilty {
					step.neverEnds(set, before[set].value, original[set].value)
				}
			default:
				evaluated = true
				v.compare(&step, set, before[set].value, after[set].value, original[set].value)
				if after[set].steps > dearSteps && silent(after[set].value) {
					v.Sets[set].Err = errSilent
				}
			}
		}
		switch {
		case !evaluated && step.Standing != Guilty:
			if trouble == nil {
				trouble = cmp.Or(given, v.Sets[0].Err) // in every set, at an earlier step
			}
			step.Standing, step.Detail = Unknown, trouble.Error()
		case step.Standing == Guilty && gap != "":
			step.Detail = "the last state that could be evaluated is before " + gap
		}
		if step.weak() {
			v.byRegions(ctx, &step, t.module(len(v.Steps)), s.Module, inputs, o)
		}
		switch {
		case step.ByRule == 0:
			step.Rule = ""
		case step.Standing == Same:
			step.Standing = Ruled
			v.Ruled++
		}
		if step.Standing == Unknown {
			v.Unknown++
			gap = step.Key.String()
		} else {
			if step.Open() {
				v.Undecided++
			} else {
				v.Judged++
			}
			gap, sum = "", s.Sum
			for set := range inputs {
				if after[set].err == nil {
					before[set] = after[set]
				}
			}
		}
		if step.Standing == Guilty {
			v.Sets[step.Where.InputSet].Guilty = true
		}
		v.Whole = step.Standing != Unknown
		v.Steps = append(v.Steps, step)
	}
	v.Whole = v.Whole || len(t.States) == 0
	return v, nil
}

// StateBefore is the last readable state before state i, the program itself if
// there is none.
func (t *Trail) StateBefore(i int) *hlo.Module { return t.module(i) }

// neverEnds accuses a step behind which a loop has no end, while the module
// before ended.
func (s *Step) neverEnds(set int, before, original *eval.Value) {
	for out, a := range leaves(before) {
		n := int64(a.Len())
		if n == 0 {
			continue
		}
		s.Standing, s.Elements, s.Wrong = Guilty, s.Elements+n, s.Wrong+n
		var c eval.Contest
		if first := leaves(original); out < len(first) && first[out].Len() > 0 {
			c = first[out].At(0).Contest
		}
		if c == 0 {
			s.Firm += n
		}
		if s.Where == nil {
			s.Where = &Divergence{InputSet: set, Output: out, At: unravel(0, a.Dims), Type: hlo.Pred, Before: a.LegalSet(0), After: "nothing: a loop never ends", Endless: true, Contest: c}
		}
	}
}

// module is the last readable state before state i.
func (t *Trail) module(i int) *hlo.Module {
	for i--; i >= 0; i-- {
		if t.States[i].Err == nil {
			return t.States[i].Module
		}
	}
	return t.Before
}

// weak reports whether the whole program speaks neither against the step nor
// clearly for it.
func (s *Step) weak() bool {
	return s.Standing == Unknown || s.Standing == Same && s.Undecided+s.Loose > 0
}

// Open reports whether neither the whole program nor what the step changed
// decides a single element.
func (s *Step) Open() bool {
	if s.Standing != Same || s.Undecided < s.Elements {
		return false
	}
	if r := s.Regions; r != nil && (r.Standing == Same || r.Standing == Ruled) {
		return r.Elements > 0 && r.Undecided == r.Elements
	}
	return s.Elements > 0
}

// leastRoom is the step limit that every state has for what changed regions
// see, and for the regions themselves: the first instructions of any program.
const leastRoom = 1 << 12

// regionShare is the part of the room that is left for regions which those of one
// step may take.
const regionShare = 8

// byRegions judges a step by what it changed, on each input set until one says
// that it is wrong; of the sets that have been given up, on the first that says
// anything.
func (v *Validation) byRegions(ctx context.Context, step *Step, before, after *hlo.Module, inputs [][]*eval.Value, o eval.Options) {
	spoken := false
	flat := newFlatStep(before, after)
	for set := range inputs {
		if v.Sets[set].Err != nil && spoken {
			continue
		}
		r, steps, err := validateRegions(ctx, flat, inputs[set], o, step.Rule, max(leastRoom, v.regionRoom/int64(max(1, v.ahead))), max(leastRoom, v.regionRoom/regionShare))
		v.regionRoom = max(0, v.regionRoom-steps)
		if err != nil {
			continue
		}
		spoken = spoken || r.Standing != Unknown
		r.Where.in(set)
		step.Regions = r
		switch r.Standing {
		case Guilty:
			step.Standing, step.Where = Guilty, r.Where
			step.Wrong += r.Wrong
			if r.Where.Contest == 0 {
				step.Firm += r.Wrong
			}
			return
		case Same, Ruled:
			step.ByRule += r.ByRule
			if step.Standing == Unknown {
				step.Standing, step.Detail = Same, ""
			}
		}
	}
}

func (d *Divergence) in(set int) {
	if d != nil {
		d.InputSet = set
	}
}

// giveUp files the errors of the program itself; it returns one if no set is
// left.
func (v *Validation) giveUp(original []evaluation) error {
	var err error
	left := 0
	for i, e := range original {
		v.Sets[i].Err = e.err
		if e.err == nil {
			left++
		} else {
			err = e.err
		}
	}
	if left == 0 {
		return err
	}
	return nil
}

// evaluate runs a module on the sets that have not been given up, with what is
// known.
func (v *Validation) evaluate(ctx context.Context, m *hlo.Module, inputs [][]*eval.Value, o eval.Options, own int, known *Evaluations) []evaluation {
	out := make([]evaluation, len(inputs))
	steps := int64(0)
	if o.Memory = known.memory; o.Memory != nil {
		o.Memory.Next()
	}
	for i, args := range inputs {
		if out[i].err = v.Sets[i].Err; out[i].err == nil {
			limited, room := o, &v.setRoom
			if i == own {
				limited.MaxSteps, room = max(1, v.ownRoom), &v.ownRoom
			} else if o.MaxSteps == 0 || o.MaxSteps > v.setRoom {
				limited.MaxSteps = max(1, v.setRoom)
			}
			e := eval.NewEvaluator(ctx, limited)
			out[i].value, out[i].err = e.RunComputation(m.Entry, args)
			out[i].steps = e.Steps()
			*room = max(0, *room-e.Steps())
			steps += e.Steps()
		}
	}
	if known.memory == nil && steps > dearSteps {
		known.memory = eval.NewMemory(keptElements / 2)
	}
	return out
}

// errSilent is why a set is given up of which no element is decided: the lowering
// that made that is not undone, and nothing can be compared with it.
var errSilent = errors.New("no element of the results is decided")

// silent reports whether a value has elements and none of them is decided.
func silent(v *eval.Value) bool {
	some := false
	for _, a := range leaves(v) {
		for i := range a.Len() {
			some = true
			if a.Meets(a, i) != eval.Undecided {
				return false
			}
		}
	}
	return some
}

var errShapes = errors.New("the results have different shapes")

// compare adds one input set to the step's judgement.
func (v *Validation) compare(step *Step, set int, before, after, original *eval.Value) {
	if step.Standing == Unknown {
		return
	}
	elements, undecided := step.Elements, step.Undecided
	compare(step, set, before, after, original)
	v.Sets[set].Elements += step.Elements - elements
	v.Sets[set].Undecided += step.Undecided - undecided
}

// compare adds the values on both sides to the step's judgement; original may
// be nil.
func compare(step *Step, set int, before, after, original *eval.Value) {
	a, b := leaves(before), leaves(after)
	var first []*eval.Array
	if original != nil {
		first = leaves(original)
	}
	if len(a) != len(b) {
		step.Standing, step.Detail = Unknown, errShapes.Error()
		return
	}
	for out := range a {
		if a[out].Type != b[out].Type || a[out].Len() != b[out].Len() {
			step.Standing, step.Detail = Unknown, fmt.Sprintf("output %d: %v", out, errShapes)
			return
		}
		scale := largest(a[out])
		for i := range a[out].Len() {
			step.Elements++
			switch a[out].Meets(b[out], i) {
			case eval.In:
				if scale > 0 && loose(a[out], b[out], i, scale) {
					step.Loose++
				}
			case eval.Undecided:
				step.Undecided++
			case eval.Out:
				was, is := a[out].At(i), b[out].At(i)
				if step.Rule != "" && ruled(a[out].Type, was, is) {
					step.Undecided++
					step.ByRule++
					continue
				}
				d := &Divergence{InputSet: set, Output: out, At: unravel(i, a[out].Dims), Type: a[out].Type, Was: was, Is: is}
				if out < len(first) && i < first[out].Len() {
					d.Contest = first[out].At(i).Contest
				}
				step.Wrong++
				firm := d.Contest == 0
				if step.Where == nil || firm && step.Firm == 0 {
					step.Standing, step.Where = Guilty, d
					d.Before, d.After = a[out].LegalSet(i), b[out].LegalSet(i)
				}
				if firm {
					step.Firm++
				}
			}
		}
	}
}

// largest is the largest finite centre of a float array; 0 for others.
func largest(a *eval.Array) float64 {
	m := 0.0
	if a.Re == nil {
		return m
	}
	for _, p := range []*eval.Plane{a.Re, a.Im} {
		if p != nil {
			for _, c := range p.C {
				if !math.IsInf(c, 0) && !math.IsNaN(c) {
					m = max(m, math.Abs(c))
				}
			}
		}
	}
	return m
}

// loose reports whether the bounds of an element leave less than half of the
// digits of its type, relative to the largest element of its array.
func loose(a, b *eval.Array, i int, scale float64) bool {
	digits := (a.Type.Real().Format().MantissaBits + 1) / 2
	limit := math.Ldexp(scale, -digits)
	x, y := a.At(i), b.At(i)
	return x.Re.E+y.Re.E > limit || x.Im.E+y.Im.E > limit
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

// unravel turns a row-major index into one index per dimension.
func unravel(i int, dims []int64) []int64 {
	at := make([]int64, len(dims))
	for d := len(dims) - 1; d >= 0; d-- {
		at[d] = int64(i) % dims[d]
		i /= int(dims[d])
	}
	return at
}
