package gate

import (
	"context"
	"slices"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo/eval"
)

// witnessInstructions bounds the programs whose pass steps are judged beside
// an execution: for them the passes take a few milliseconds and the reference
// little more. Larger ones are judged step by step when execution shows
// something wrong.
const witnessInstructions = 300

// passWitness judges every pass step of head on the case's own and its lattice
// inputs and returns what execution does not show: a wrong step may be undone
// by a later one, by the library that runs, or by luck. One witness of two
// blocks nothing.
func (k *caseRun) passWitness(ctx context.Context, found []observedFinding) []observedFinding {
	head := k.run.cfg.Head
	if k.c.Module == nil || head.Python != "" || k.c.Module.NumInstructions() > witnessInstructions || ctx.Err() != nil {
		return nil
	}
	var streams []*asked
	var sets [][]*eval.Value
	for _, a := range k.asked {
		if a.strict != nil && (a.Name == fuzz.OwnStream || a.Name == fuzz.LatticeStream) {
			streams, sets = append(streams, a), append(sets, values(a.Inputs))
		}
	}
	if len(sets) == 0 {
		return nil
	}
	trail, err := k.passTrail(ctx, k.run.cfg.Runner, head, k.c.Module, false)
	if err != nil || !trail.Complete() {
		return nil // execution has seen what there is
	}
	v, err := trail.Validate(ctx, sets, passOptions)
	if err != nil || v.Guilty() == nil {
		return nil
	}
	both := k.examine(ctx, k.run.cfg.Runner, k.c.Module, sets, ownOf(streams), passOptions)
	var out []observedFinding
	for _, f := range k.passFindings(ctx, both, streams) {
		known := slices.ContainsFunc(found, func(g observedFinding) bool { return g.Pass != nil && f.Pass != nil && g.Pass.Name == f.Pass.Name })
		if f.Level == LevelHLO && f.Head == Wrong && !known {
			f.Detail = appendDetail(f.Detail, "seen in the passes' modules only, not in execution")
			out = append(out, f)
		}
	}
	return out
}
