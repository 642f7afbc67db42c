package gate

import (
	"context"
	"fmt"

	"github.com/passgate/passgate/xla/worker"
)

// confirm runs a finding again in fresh processes of both builds. A new
// finding blocks only if head is bad and base is right in all of them; a
// finding that does not show every time is nondeterminism, of base if base
// shows it as well.
func (k *caseRun) confirm(ctx context.Context, f *observedFinding) {
	if f.Status != New && f.Status != Fixed {
		return
	}
	if f.Status == New && !f.seen.baseRight {
		f.Detail = appendDetail(f.Detail, "not blocking: base did not run this program rightly, either")
		return
	}
	if f.Status == Fixed && shows(f.Class, f.Head) {
		f.Detail = appendDetail(f.Detail, "head is wrong elsewhere")
		return
	}
	q, ok := k.questionOf(f.Stream)
	if !ok {
		return
	}
	headBad, baseBad := 0, 0
	for range confirmations {
		r := k.request(f.Flags)
		r.Inputs = [][]worker.Array{q.arguments}
		r.CheckMemory = f.Flags == ComparisonFlags && k.examined() // as it was seen
		base, _ := k.fresh(k.run.cfg.Base).execute(ctx, r)
		head, _ := k.fresh(k.run.cfg.Head).execute(ctx, r)
		if base[0].behaviour == Infrastructure || head[0].behaviour == Infrastructure {
			k.lost = appendDetail(k.lost, fmt.Sprintf("finding could not be confirmed: %s", joinDetails(base[0], head[0])))
			f.Detail = appendDetail(f.Detail, "not confirmed: infrastructure")
			return
		}
		a := judge(question{stream: f.Stream, flags: f.Flags, reference: q.reference(f.Flags), base: base[0], head: head[0], want: q.want, tolerance: q.tolerance, firm: k.run.firm})
		if shows(f.Class, a.base) {
			baseBad++
		}
		if shows(f.Class, a.head) {
			headBad++
		}
	}
	f.conclude(headBad, baseBad)
}

// shows reports whether a behaviour is that of a finding's class: a crash or
// hang for those, wrong values for the others.
func shows(c Class, b Behaviour) bool {
	if c == Crash || c == Hang {
		return b == Crashed || b == Hung
	}
	return b == Wrong || b == Flaky
}

// conclude draws the consequence of the confirmation runs.
func (f *observedFinding) conclude(headBad, baseBad int) {
	if f.Status == Fixed {
		f.Confirmed = fmt.Sprintf("%d of %d", baseBad, confirmations)
		if baseBad < confirmations || headBad > 0 {
			f.Class = Nondeterminism
		}
		if headBad > 0 {
			f.Status = PreExisting
			f.Detail = appendDetail(f.Detail, "head shows it as well in some processes")
		}
		return
	}
	f.Confirmed = fmt.Sprintf("%d of %d", headBad, confirmations)
	switch {
	case baseBad > 0:
		f.Class, f.Status = Nondeterminism, PreExisting
		f.Detail = appendDetail(f.Detail, "not blocking: base shows it as well")
	case headBad < confirmations:
		f.Class = Nondeterminism
		f.Detail = appendDetail(f.Detail, "not blocking: it does not reproduce in every fresh process")
	default:
		f.Blocking = true
	}
}

func appendDetail(s, more string) string {
	if s == "" {
		return more
	}
	return s + "; " + more
}
