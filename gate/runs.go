package gate

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// WitnessGuard is the witness of accesses that a program must not make: runs
// with its arguments between guard pages.
const WitnessGuard = "guarded memory"

// Examining the memory of a program's runs costs some 20 executions more, and
// looking whether results depend on the process's past two fresh processes a
// build. So programs that update memory in place are always examined, of the
// others one in examineEvery, and the past counts for one in pastEvery of all.
const (
	examineEvery = 8
	pastEvery    = 32
)

// share is the case's place in a draw that depends on nothing that the run sees.
func (k *caseRun) share(of uint64, what string) bool {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d\x00%s\x00%s", k.run.cfg.Seed, what, k.c.Hash())
	return h.Sum64()%of == 0
}

// examined reports whether the memory of the case's runs is looked at.
func (k *caseRun) examined() bool {
	return k.c.Module != nil && (inPlace(k.c.Module) || k.share(examineEvery, "memory"))
}

// inPlace reports whether a program shares memory between values: aliases,
// donations, updates, loops.
func inPlace(m *hlo.Module) bool {
	return len(m.Attr.GetInputOutputAlias().GetEntries()) > 0 || len(m.Attr.GetBufferDonor().GetEntries()) > 0 ||
		holds(m, func(in *hlo.Instruction) bool {
			switch in.Op {
			case hlo.OpDynamicUpdateSlice, hlo.OpScatter, hlo.OpWhile:
				return true
			}
			return len(in.Attr.GetOutputOperandAliasing()) > 0
		})
}

// random reports whether a program may give other results in every run: it
// draws random numbers, or holds code that is not ours to know.
func random(m *hlo.Module) bool {
	return holds(m, func(in *hlo.Instruction) bool {
		return in.Op == hlo.OpRng || in.Op == hlo.OpRngGetAndUpdateState || in.Op == hlo.OpStochasticConvert || in.Op == hlo.OpCustomCall
	})
}

func holds(m *hlo.Module, ok func(*hlo.Instruction) bool) bool {
	return slices.ContainsFunc(m.Computations, func(c *hlo.Computation) bool { return slices.ContainsFunc(c.Instructions, ok) })
}

// unexamined runs a request whose process did not survive without the
// examination. If it does then, the examination found something.
func (e executor) unexamined(ctx context.Context, r worker.Request, bad worker.Outcome) ([]side, []string) {
	r.CheckMemory, r.DumpDir = false, "" // the first run has left its dumps
	sides, dropped := e.execute(ctx, r)
	if slices.ContainsFunc(sides, side.broke) {
		return sides, dropped
	}
	at := 0
	if bad.Crash != nil && bad.Crash.Guard != nil {
		at = bad.Crash.Guard.Set
		sides[at].guard = bad.Crash.Guard
	} else {
		sides[at].died = ofOutcome(bad).detail
	}
	return sides, dropped
}

// objection is something that is wrong with the memory of a side's runs.
type objection struct {
	class      Class
	kind, text string
}

// objections are those of one stream, the gravest first.
func (s side) objections() []objection {
	var out []objection
	if s.guard != nil {
		out = append(out, objection{BufferCorruption, s.guard.Kind(), "the program " + s.guard.String()})
	}
	if s.memory != nil {
		for _, f := range s.memory.Faults {
			out = append(out, objection{BufferCorruption, string(f.Kind), f.String()})
		}
	}
	if s.died != "" {
		out = append(out, objection{Crash, "dies only under examination", s.died})
	}
	return out
}

// differs says under which circumstances a side gave other bits; "" if all of
// its executions agree.
func (s side) differs() string {
	if !s.unstable() {
		return ""
	}
	var under []string
	for _, r := range s.runs[1:] {
		where := r.under
		if where == "" {
			where = "when repeated"
		}
		if !slices.Contains(under, where) {
			under = append(under, where)
		}
	}
	return fmt.Sprintf("%d different results: %s", len(s.runs), strings.Join(under, ", "))
}

// corruption are the findings on the memory of the runs, one of a class at most:
// what the guards, the arguments and the aliases say, and results that are legal
// but not the same in every execution.
// Values that are wrong in some executions only are findings already (found):
// those learn the circumstances (Observed).
func (k *caseRun) corruption(ctx context.Context, answers []answer, found []observedFinding) []observedFinding {
	if k.c.Module == nil {
		return nil
	}
	past := k.past(ctx)
	if ctx.Err() != nil {
		return nil
	}
	unstable := false
	for i := range found {
		f := &found[i]
		q, ok := k.questionOf(f.Stream)
		if !ok || !f.Unstable || f.Flags != ComparisonFlags || k.asked[q.index] != q {
			continue
		}
		unstable = true
		for _, sides := range k.strict {
			if text := sides[q.index].differs(); text != "" && !strings.Contains(f.Observed, text) {
				f.Observed = joinNonEmpty(f.Observed, text)
			}
		}
	}
	var out []observedFinding
	for s, a := range k.asked {
		var sides [2][]objection
		for i := range sides {
			one := k.strict[i][s]
			sides[i] = one.objections()
			if text := joinNonEmpty(one.differs(), past[i][s]); text != "" && !unstable && !random(k.c.Module) {
				if b := [2]Behaviour{answers[s].base, answers[s].head}[i]; b == Right || b == Undecided {
					sides[i] = append(sides[i], objection{Nondeterminism, "executions differ", text})
				}
			}
		}
		for _, class := range []Class{BufferCorruption, Crash, Nondeterminism} {
			if slices.ContainsFunc(out, func(f observedFinding) bool { return f.Class == class }) {
				continue
			}
			if f := k.object(class, a, answers[s], sides); f != nil {
				k.confirmMemory(ctx, f, a)
				out = append(out, *f)
			}
		}
	}
	return out
}

func joinNonEmpty(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// object makes a finding of what both sides say on one stream; nil if neither
// has an objection of the class.
func (k *caseRun) object(class Class, a *asked, judged answer, sides [2][]objection) *observedFinding {
	var first [2]*objection
	for i, all := range sides {
		if n := slices.IndexFunc(all, func(c objection) bool { return c.class == class }); n >= 0 {
			first[i] = &all[n]
		}
	}
	base, head := first[0], first[1]
	var status Status
	culprit := head
	switch {
	case base == nil && head == nil:
		return nil
	case base != nil && head != nil, base == nil && !k.strict[0][a.index].ran():
		status = PreExisting
	case head != nil:
		status = New
	default:
		status, culprit = Fixed, base
	}
	raw := status
	show := func(c *objection) string {
		if c == nil {
			return "nothing amiss"
		}
		return c.kind
	}
	f := &observedFinding{Finding: Finding{
		Class: class, Nature: culprit.kind, Stream: a.Name, Flags: ComparisonFlags, Witnesses: []string{WitnessGuard}, Level: LevelEmitter,
		Pass:  &PassStep{Name: codeGeneration},
		First: First{At: []int64{}, Base: show(base), Head: show(head), Legal: "inputs keep their bytes, nothing beside them is touched"},
		Base:  judged.base, Head: judged.head, Detail: culprit.text,
	}}
	if class == Nondeterminism {
		f.Detail, f.Observed = "executions on the same inputs give different legal results", culprit.text
		f.Witnesses, f.Level, f.Pass = []string{WitnessExecution}, "", nil
		f.First.Legal = "the same bits in every execution"
		f.Unstable = true
		if a.strict != nil && k.contestedOnly(a) {
			status = Contested
		}
	}
	if class == Crash {
		f.Level = LevelAbort
		f.Detail, f.Observed = "the process dies only with guarded arguments or in concurrent executions", culprit.text
	}
	f.Status, f.raw = status, raw
	f.seen = observation{class: class, status: status, stream: a.Name, flags: ComparisonFlags}
	return f
}

// contestedOnly reports whether the executions differ, and only in elements whose
// semantics are argued about, such as the order of colliding updates.
func (k *caseRun) contestedOnly(a *asked) bool {
	leaves := Leaves(a.strict)
	contested := false
	for i := range k.strict {
		runs := k.strict[i][a.index].runs
		for _, r := range runs[min(1, len(runs)):] {
			for o, ref := range leaves {
				if o >= len(r.leaves) || o >= len(runs[0].leaves) {
					return false
				}
				x, y := eval.FromLiteral(runs[0].leaves[o]).Array, eval.FromLiteral(r.leaves[o]).Array
				for e := range min(ref.Len(), x.Len(), y.Len()) {
					if sameValue(ref.Type, x.At(e), y.At(e)) {
						continue
					}
					if ref.At(e).Contest == 0 {
						return false
					}
					contested = true
				}
			}
		}
	}
	return contested
}

// confirmMemory looks again in fresh processes. Corrupted memory blocks like a
// wrong value: if head shows it every time and base never. Legal results that
// differ do not block.
func (k *caseRun) confirmMemory(ctx context.Context, f *observedFinding, a *asked) {
	if f.Status != New {
		return
	}
	bad := [2]int{}
	for range confirmations {
		r := k.request(ComparisonFlags)
		r.Inputs, r.CheckMemory = [][]worker.Array{a.arguments}, true
		for i, b := range []*builds.Build{k.run.cfg.Base, k.run.cfg.Head} {
			sides, _ := k.fresh(b).execute(ctx, r)
			if sides[0].behaviour == Infrastructure {
				k.lost = appendDetail(k.lost, "finding could not be confirmed: "+sides[0].detail)
				f.Detail = appendDetail(f.Detail, "not confirmed: infrastructure")
				return
			}
			shown := slices.ContainsFunc(sides[0].objections(), func(c objection) bool { return c.class == f.Class })
			if f.Class == Nondeterminism {
				shown = sides[0].unstable()
			}
			if shown {
				bad[i]++
			}
		}
	}
	if f.Confirmed = fmt.Sprintf("%d of %d", bad[1], confirmations); f.Class == Nondeterminism {
		f.Observed, f.Confirmed = joinNonEmpty(f.Observed, "in "+f.Confirmed+" fresh processes"), ""
	}
	switch {
	case bad[0] > 0:
		f.Status = PreExisting
		f.Detail = appendDetail(f.Detail, "base shows it as well")
	case f.Class == Nondeterminism:
		f.Detail = appendDetail(f.Detail, "not blocking: every result is legal")
	case bad[1] < confirmations:
		f.Detail = appendDetail(f.Detail, "not blocking: it does not reproduce in every fresh process")
	default:
		f.Blocking = true
	}
}

// past says, by side and stream, whether results depend on what the process ran
// before: nothing, or other programs of the run. The third answer is that of the
// pool's workers, which have run whatever came before.
func (k *caseRun) past(ctx context.Context) (out [2][]string) {
	for i := range out {
		out[i] = make([]string, len(k.asked))
	}
	if !k.share(pastEvery, "past") || random(k.c.Module) {
		return out
	}
	var wg sync.WaitGroup
	for i, b := range []*builds.Build{k.run.cfg.Base, k.run.cfg.Head} {
		if i == 1 && b == k.run.cfg.Base {
			out[1] = out[0]
			break
		}
		wg.Go(func() {
			r := k.request(ComparisonFlags)
			r.Repeat, r.RepeatFor = 1, 0
			for _, a := range k.asked {
				r.Inputs = append(r.Inputs, a.arguments)
			}
			for _, before := range [][]worker.Predecessor{nil, k.run.predecessors(k.c)} {
				r.Before = before
				sides, _ := k.fresh(b).execute(ctx, r)
				for s := range k.asked {
					was := k.strict[i][s]
					if !was.ran() || was.unstable() || !sides[s].ran() || sameResults(was, sides[s]) {
						continue
					}
					text := "other results in a process that ran nothing before"
					if before != nil {
						text = "other results after other programs"
					}
					out[i][s] = joinNonEmpty(out[i][s], text)
				}
			}
		})
	}
	wg.Wait()
	return out
}

// predecessors are two other cases of the run, the ones that follow in its
// order; without others the program itself.
func (r *run) predecessors(c *fuzz.Case) []worker.Predecessor {
	var out []worker.Predecessor
	add := func(p *fuzz.Case) {
		if p.Module == nil || runnable(p) != "" || movable(p) != "" {
			return
		}
		streams := p.Streams(r.cfg.Seed)
		req, err := encode(p)
		if err != nil || len(streams) == 0 {
			return
		}
		out = append(out, worker.Predecessor{Program: req.Program, Format: req.Format, Inputs: arguments(streams[0].Inputs)})
	}
	cases := r.cfg.Cases
	at := slices.IndexFunc(cases, func(p *fuzz.Case) bool { return p.Name == c.Name })
	for i := 1; i < len(cases) && len(out) < 2; i++ {
		if p := cases[(at+i)%len(cases)]; p.Name != c.Name {
			add(p)
		}
	}
	if len(out) == 0 {
		add(c)
	}
	return out
}

// MemoryCounts are programs whose memory was examined, on both builds.
type MemoryCounts struct {
	// Placed are programs whose buffer assignment was checked on both builds.
	Placed int `json:"placed"`
	// Programs were examined; Arguments of theirs lay between guard pages, by
	// build and input stream.
	Programs  int `json:"programs"`
	Arguments int `json:"arguments"`
	// Past are the programs that ran after others and in fresh processes, too.
	Past int `json:"past"`
}

func (m *MemoryCounts) add(o MemoryCounts) {
	m.Placed += o.Placed
	m.Programs += o.Programs
	m.Arguments += o.Arguments
	m.Past += o.Past
}

// memoryCounts is what the case contributes.
func (k *caseRun) memoryCounts() MemoryCounts {
	var out MemoryCounts
	for _, sides := range k.strict {
		for _, s := range sides {
			if s.memory != nil {
				out.Programs = 1
				out.Arguments += s.memory.Arguments
			}
		}
	}
	out.Placed = k.placed()
	if k.c.Module != nil && k.share(pastEvery, "past") && !random(k.c.Module) {
		out.Past = 1
	}
	return out
}

// placed is 1 if the buffer assignment of the program was checked on both builds.
func (k *caseRun) placed() int {
	if k.placements[0] == nil || k.placements[1] == nil {
		return 0
	}
	return 1
}

// MemoryAlarms counts the findings that a checked buffer assignment or an examined
// run speaks for.
func (r *Result) MemoryAlarms() int {
	n := 0
	for _, f := range r.Findings {
		if f.Class == BufferCorruption || slices.Contains(f.Witnesses, WitnessPlacement) || slices.Contains(f.Witnesses, WitnessGuard) {
			n++
		}
	}
	return n
}
