package gate

import (
	"context"
	"slices"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
)

// witnessInstructions bounds the programs whose pass steps are judged beside
// an execution: for them the passes take a few milliseconds and the reference
// little more. Larger ones are judged step by step when execution shows
// something wrong.
const witnessInstructions = 300

// passWitness judges every pass step of head on the case's own, its lattice and
// its edge inputs and returns what execution does not show: a wrong step may be
// undone by a later one, by the library that runs, or by luck. One witness of
// two blocks nothing; but edge inputs on which a step is accused are executed.
func (k *caseRun) passWitness(ctx context.Context, found []observedFinding) []observedFinding {
	head := k.run.cfg.Head
	if k.c.Module == nil || head.Python != "" || k.c.Module.NumInstructions() > witnessInstructions || ctx.Err() != nil {
		return nil
	}
	var streams []*asked
	for _, a := range k.asked {
		if a.strict != nil && (a.Name == fuzz.OwnStream || a.Name == fuzz.LatticeStream) {
			streams = append(streams, a)
		}
	}
	if !slices.ContainsFunc(found, func(f observedFinding) bool { return f.Blocking }) {
		k.askEdges(ctx)
		streams = append(streams, k.edges...)
	}
	if len(streams) == 0 {
		return nil
	}
	sets := make([][]*eval.Value, len(streams))
	for i, a := range streams {
		sets[i] = values(a.Inputs)
	}
	both := [2]passSide{{build: k.run.cfg.Base}, k.compilePasses(ctx, k.run.cfg.Runner, head, k.c.Module)}
	if t := both[1].trail; t == nil || !t.Complete() {
		return nil // execution has seen what there is
	}
	evaluated := &triage.Evaluations{}
	k.judgePasses(ctx, &both[1], sets, ownOf(streams), passOptions, evaluated)
	known := func(pass string) bool {
		return slices.ContainsFunc(found, func(g observedFinding) bool { return g.Pass != nil && g.Pass.Name == pass })
	}
	accused := slices.DeleteFunc(both[1].guilty(), func(i int) bool { return known(both[1].validation.Steps[i].Key.Pass) })
	if len(accused) == 0 || ctx.Err() != nil {
		return nil
	}
	if both[0] = both[1]; head != k.run.cfg.Base {
		both[0] = k.compilePasses(ctx, k.run.cfg.Runner, k.run.cfg.Base, k.c.Module)
		k.judgePasses(ctx, &both[0], sets, ownOf(streams), passOptions, evaluated)
	}
	var out []observedFinding
	for _, i := range accused {
		if known(both[1].validation.Steps[i].Key.Pass) { // by now
			continue
		}
		f := k.passFinding(ctx, &both[1], &both[0], i, both[1].blames(i, &both[0]), streams)
		if i := slices.IndexFunc(k.edges, func(a *asked) bool { return a.Name == f.Stream }); i >= 0 {
			if seen := k.executeEdge(ctx, k.edges[i]); len(seen) > 0 {
				found = append(found, seen...)
				out = append(out, seen...)
				if known(f.Pass.Name) {
					continue
				}
			}
		}
		if len(streams) > 1 {
			k.measureStream(ctx, &f)
		}
		f.Detail = appendDetail(f.Detail, "seen in the passes' modules only, not in execution")
		out = append(out, f)
	}
	return out
}

// askEdges evaluates the reference on the edge streams where it is fast.
func (k *caseRun) askEdges(ctx context.Context) {
	if len(k.asked) == 0 || k.asked[0].strict == nil {
		return
	}
	if _, err := k.run.reference(ctx, k.c.Module, k.asked[0].Inputs, eval.Options{MaxSteps: edgeSteps}); err != nil {
		return
	}
	e := &caseRun{run: k.run, c: k.c}
	e.ask(ctx, k.c.EdgeStreams(k.run.cfg.Seed), &caseReport{})
	for _, a := range e.asked {
		if a.strict != nil {
			k.edges = append(k.edges, a)
		}
	}
}

// executeEdge runs both builds on one edge stream and follows up what they do.
func (k *caseRun) executeEdge(ctx context.Context, a *asked) []observedFinding {
	e := &caseRun{run: k.run, c: k.c, base: k.base, asked: []*asked{a}}
	sides := e.executeBoth(ctx, ComparisonFlags)
	judged := judge(question{stream: a.Name, flags: ComparisonFlags, reference: a.strict, base: sides[0][0], head: sides[1][0], firm: k.run.firm, sources: sources(k.c.Module)})
	found := gather(k.c, []answer{judged})
	for i := range found {
		k.confirm(ctx, &found[i])
		k.attribute(ctx, &found[i])
	}
	found = foldContested(found)
	for i := range found {
		if found[i].Blocking || k.run.cfg.MinimiseAll {
			k.minimise(ctx, &found[i], k.run.probes(&found[i]))
		}
	}
	return found
}
