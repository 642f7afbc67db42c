package gate

import (
	"context"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
)

// place finds the instruction inside a guilty step. Where the other build ran
// the same pass on the same module and did it right, its result is the best
// account of what was meant: names agree but for what the change did. Otherwise
// the module before the step has to do.
func place(ctx context.Context, t, other *triage.Trail, step int, before *hlo.Module, args []*eval.Value, o eval.Options) (*triage.Location, error) {
	after := t.States[step].Module
	if right := counterpart(t, other, step); right != nil {
		if loc, err := triage.Localize(ctx, right, after, args, o); err == nil && loc != nil {
			return loc, nil
		}
	}
	return triage.Place(ctx, before, after, args, o)
}

// counterpart is what the same pass made of the same module in another trail
// of the program; nil if it did not see it, or made the same of it.
func counterpart(t, other *triage.Trail, step int) *hlo.Module {
	if other == nil || other == t {
		return nil
	}
	key, from := t.States[step].Key, sumBefore(t, step)
	for i, s := range other.States {
		if s.Key.Pass == key.Pass && s.Key.Pipeline == key.Pipeline && s.Module != nil && s.Sum != t.States[step].Sum && sumBefore(other, i) == from {
			return s.Module
		}
	}
	return nil
}

// sumBefore is the digest of the module that a step was given: the zero Sum is
// the program itself.
func sumBefore(t *triage.Trail, step int) triage.Sum {
	if step == 0 {
		return triage.Sum{}
	}
	return t.States[step-1].Sum
}
