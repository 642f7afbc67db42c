package triage

import (
	"context"
	"errors"
	"fmt"

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
	// Elements were compared, Undecided had no legal set on one side.
	Elements, Undecided int64
	// Where is the first element that does not meet; set when Guilty.
	Where *Divergence
}

// Divergence is one element on which two states do not meet.
type Divergence struct {
	InputSet      int
	Output        int     // leaf of the result
	At            []int64 // index in that leaf
	Type          hlo.PrimitiveType
	Before, After string // legal sets
}

// Validation is the judgement of a whole trail.
type Validation struct {
	Steps []Step
	// Judged and Unknown count steps.
	Judged, Unknown int
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

// Validate evaluates every state of the trail on the input sets and compares
// it with the last state before it that could be evaluated. A step that
// follows an unknown one is compared across the gap: then Detail names the gap.
//
// The error is ctx's, or that of the program itself when the reference cannot
// evaluate it.
func (t *Trail) Validate(ctx context.Context, inputs [][]*eval.Value, o eval.Options) (*Validation, error) {
	before, err := evaluate(ctx, t.Before, inputs, o)
	if err != nil {
		return nil, err
	}
	v := &Validation{}
	gap := ""
	for _, s := range t.States {
		step := Step{Key: s.Key, Number: s.Number}
		after, err := []*eval.Value(nil), s.Err
		if err == nil {
			after, err = evaluate(ctx, s.Module, inputs, o)
		}
		switch {
		case ctx.Err() != nil:
			return v, ctx.Err()
		case err != nil:
			step.Standing, step.Detail = Unknown, err.Error()
			v.Unknown++
			gap = step.Key.String()
		default:
			v.Judged++
			compare(&step, before, after)
			if step.Standing == Guilty && gap != "" {
				step.Detail = "the last state that could be evaluated is before " + gap
			}
			before, gap = after, ""
		}
		v.Steps = append(v.Steps, step)
	}
	return v, nil
}

func evaluate(ctx context.Context, m *hlo.Module, inputs [][]*eval.Value, o eval.Options) ([]*eval.Value, error) {
	var out []*eval.Value
	for _, args := range inputs {
		v, err := eval.Run(ctx, m, args, o)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

var errShapes = errors.New("the results have different shapes")

// compare fills in the step's standing from the values on both sides.
func compare(step *Step, before, after []*eval.Value) {
	step.Standing = Same
	for set := range before {
		a, b := leaves(before[set]), leaves(after[set])
		if len(a) != len(b) {
			step.Standing, step.Detail = Unknown, errShapes.Error()
			return
		}
		for out := range a {
			if a[out].Type != b[out].Type || a[out].Len() != b[out].Len() {
				step.Standing, step.Detail = Unknown, fmt.Sprintf("output %d: %v", out, errShapes)
				return
			}
			for i := range a[out].Len() {
				step.Elements++
				switch a[out].Meets(b[out], i) {
				case eval.Undecided:
					step.Undecided++
				case eval.Out:
					if step.Where == nil {
						step.Standing = Guilty
						step.Where = &Divergence{InputSet: set, Output: out, At: unravel(i, a[out].Dims), Type: a[out].Type,
							Before: a[out].LegalSet(i), After: b[out].LegalSet(i)}
					}
				}
			}
		}
	}
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
