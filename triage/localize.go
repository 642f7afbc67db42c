package triage

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// Location is the place inside a guilty pass step: the instruction whose value
// the step changed although everything it reads kept its meaning.
type Location struct {
	// Before is the instruction that the pass rewrote, After what computes
	// its value now.
	Before, After *hlo.Instruction
	// Computation holds Before.
	Computation *hlo.Computation
	// Source is the source line of Before where its metadata has one,
	// "file:line".
	Source string
	// Where is the first element that differs.
	Where Divergence
}

// Localize compares two states of one program on one input set and walks from
// the first instruction whose value changed down to the smallest place: along
// operands, then into called computations. It returns nil when the results
// meet.
//
// Instructions correspond by name (a pass gives new instructions new names and
// leaves the others alone), roots of the entry computations always.
func Localize(ctx context.Context, before, after *hlo.Module, args []*eval.Value, o eval.Options) (*Location, error) {
	b, err := record(ctx, before, args, o)
	if err != nil {
		return nil, err
	}
	a, err := record(ctx, after, args, o)
	if err != nil {
		return nil, err
	}
	l := localizer{before, b, a, map[[2]*hlo.Instruction]bool{}}
	// The first execution of an instruction that exists on both sides and
	// changed: in a loop not always the one that was executed first.
	var old, now *hlo.Instruction
	first := never
	for _, in := range a.order {
		if a.times[in][0] >= first {
			break
		}
		if x := b.byName[in.Name]; x != nil && x.Op == in.Op {
			if _, when := l.differ(x, in); when < first {
				old, now, first = x, in, when
			}
		}
	}
	if now != nil {
		return l.descend(old, now), nil
	}
	if d, _ := l.differ(before.Entry.Root, after.Entry.Root); d != nil {
		return l.descend(before.Entry.Root, after.Entry.Root), nil
	}
	return nil, nil
}

// recording is one traced run: the value of each instruction the first time
// that it was executed.
type recording struct {
	values map[*hlo.Instruction]*eval.Value
	// later are the values of the executions behind the first, in loops.
	later map[*hlo.Instruction][]*eval.Value
	// times number the executions of all instructions in order: those of each
	// instruction whose values are kept.
	times  map[*hlo.Instruction][]int
	order  []*hlo.Instruction
	byName map[string]*hlo.Instruction
	home   map[*hlo.Instruction]*hlo.Computation
}

// maxLater bounds the executions of an instruction that are compared: loops of
// small programs end sooner, and what is wrong in the long ones shows early.
const maxLater = 64

// maxLaterElements bounds the arrays that are kept for each execution.
const maxLaterElements = 4096

func record(ctx context.Context, m *hlo.Module, args []*eval.Value, o eval.Options) (*recording, error) {
	r := &recording{values: map[*hlo.Instruction]*eval.Value{}, later: map[*hlo.Instruction][]*eval.Value{}, times: map[*hlo.Instruction][]int{}, byName: map[string]*hlo.Instruction{}, home: map[*hlo.Instruction]*hlo.Computation{}}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			r.byName[in.Name] = in
			r.home[in] = c
		}
	}
	now := 0
	o.Trace = func(in *hlo.Instruction, v *eval.Value) {
		now++
		if _, seen := r.values[in]; !seen {
			r.values[in] = v
			r.times[in] = []int{now}
			r.order = append(r.order, in)
		} else if len(r.later[in]) < maxLater && in.Shape.IsArray() && in.Shape.Elems() <= maxLaterElements {
			r.later[in] = append(r.later[in], v)
			r.times[in] = append(r.times[in], now)
		}
	}
	_, err := eval.Run(ctx, m, args, o)
	return r, err
}

type localizer struct {
	beforeModule  *hlo.Module
	before, after *recording
	visited       map[[2]*hlo.Instruction]bool
}

// never is later than any execution.
const never = math.MaxInt

// differ returns the first element on which two instructions do not meet, and
// when that was executed behind the step; nil and never if they meet or cannot
// be compared.
func (l *localizer) differ(b, a *hlo.Instruction) (*Divergence, int) {
	x, y := l.before.values[b], l.after.values[a]
	if x == nil || y == nil || !b.Shape.Compatible(a.Shape) {
		return nil, never
	}
	var s Step
	compare(&s, 0, x, y, nil)
	n := 0
	for i, x := range l.before.later[b] {
		if s.Where != nil || i >= len(l.after.later[a]) {
			break
		}
		compare(&s, 0, x, l.after.later[a][i], nil)
		n = i + 1
	}
	if s.Where == nil {
		return nil, never
	}
	return s.Where, l.after.times[a][n]
}

// descend follows a differing pair to operands and called computations that
// differ too, and did so before it.
func (l *localizer) descend(b, a *hlo.Instruction) *Location {
	for last := false; !last; {
		l.visited[[2]*hlo.Instruction{b, a}] = true
		_, when := l.differ(b, a)
		nb, na := l.operand(b, a, when)
		if nb == nil {
			nb, na = l.called(b, a, when)
		}
		if nb == nil {
			nb, na, last = l.argument(b, a)
		}
		if nb == nil {
			break
		}
		b, a = nb, na
	}
	loc := &Location{Before: b, After: a, Computation: l.before.home[b], Source: source(b)}
	if d, _ := l.differ(b, a); d != nil {
		loc.Where = *d
	}
	return loc
}

// operand finds a differing pair among the operands. Where an operand still
// exists but something else is read in its place, nothing was rewritten below
// and the instruction itself is the place, unless all that happened to it is
// that a new instruction was put in between: then that is what to look at.
func (l *localizer) operand(b, a *hlo.Instruction, before int) (*hlo.Instruction, *hlo.Instruction) {
	if b.Op != a.Op || len(b.Operands) != len(a.Operands) {
		return nil, nil
	}
	rewired := map[[2]*hlo.Instruction]bool{}
	for i := range b.Operands {
		if b.Operands[i].Name != a.Operands[i].Name {
			rewired[[2]*hlo.Instruction{b.Operands[i], a.Operands[i]}] = true
		}
	}
	for i := range b.Operands {
		if now := l.after.byName[b.Operands[i].Name]; now != nil && now != a.Operands[i] {
			if len(rewired) > 1 || l.before.byName[a.Operands[i].Name] != nil {
				continue
			}
		}
		if l.fresh(b.Operands[i], a.Operands[i]) < before {
			return b.Operands[i], a.Operands[i]
		}
	}
	return nil, nil
}

// argument goes from a parameter of a fusion or call to what it is given there,
// or to the caller itself (last) where that was given something else that was there
// before.
func (l *localizer) argument(b, a *hlo.Instruction) (nb, na *hlo.Instruction, last bool) {
	if b.Op != hlo.OpParameter || a.Op != hlo.OpParameter || b.Attr.ParameterNumber != a.Attr.ParameterNumber {
		return nil, nil, false
	}
	for _, ca := range l.after.byName {
		if ca.Op != hlo.OpFusion && ca.Op != hlo.OpCall || !slices.Contains(ca.Called, l.after.home[a]) {
			continue
		}
		cb := l.before.byName[ca.Name]
		if cb == nil || cb.Op != ca.Op || !slices.Contains(cb.Called, l.before.home[b]) {
			break // rewritten as a whole
		}
		if nb, na = l.operand(cb, ca, never); nb != nil {
			return nb, na, false
		}
		return cb, ca, true
	}
	return nil, nil, false
}

// fresh is when a pair that was not visited yet differed, never if it did not.
func (l *localizer) fresh(b, a *hlo.Instruction) int {
	if l.visited[[2]*hlo.Instruction{b, a}] {
		return never
	}
	_, when := l.differ(b, a)
	return when
}

// called looks into the computations that both call: the instruction that kept
// its name and differed first, else the roots.
func (l *localizer) called(b, a *hlo.Instruction, before int) (nb, na *hlo.Instruction) {
	if len(b.Called) != len(a.Called) {
		return nil, nil
	}
	for i := range b.Called {
		for _, in := range a.Called[i].Instructions {
			if old := l.before.byName[in.Name]; old != nil && l.before.home[old] == b.Called[i] {
				if when := l.fresh(old, in); when < before {
					nb, na, before = old, in, when
				}
			}
		}
		if nb != nil {
			return nb, na
		}
		if l.moved(b.Called[i], a.Called[i]) {
			continue // another one is called: the instruction itself is the place
		}
		if l.fresh(b.Called[i].Root, a.Called[i].Root) < before {
			return b.Called[i].Root, a.Called[i].Root
		}
	}
	return nil, nil
}

// moved reports whether a computation that was there before is called in the
// place of another one.
func (l *localizer) moved(b, a *hlo.Computation) bool {
	return a.Name != b.Name && l.beforeModule.Computation(a.Name) != nil
}

// source is the line of the user's program that an instruction came from.
func source(in *hlo.Instruction) string {
	m := in.Attr.GetMetadata()
	if m.GetSourceFile() == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", m.GetSourceFile(), m.GetSourceLine())
}
