package gate

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
)

// What two equal runs may see differently has no place in the body of a result:
// values that are another in every execution (of memory that was never written, of
// registers, of races), in which executions they showed, and the words of a
// compiler that dies behind the passes, where threads and hash tables of addresses
// decide what it complains of first. The body says that it is so; what was seen
// stands in Result.Observed.

const (
	variesText = "varies between executions"
	brokeText  = "the build died or gave an internal error"
)

// divergence says what is not the same in all executions of one program on the
// same inputs: whether any judged element is not, and in which leaves such an
// element is outside its legal set at least once.
type divergence struct {
	differs bool
	astray  map[int]bool
}

// diverge compares executions with the first of them.
func diverge(legal []*eval.Array, runs []execution) divergence {
	d := divergence{astray: map[int]bool{}}
	for _, r := range runs[min(1, len(runs)):] {
		for o, ref := range legal {
			if o >= len(r.leaves) || o >= len(runs[0].leaves) || ref.Sizes != nil || bytes.Equal(runs[0].leaves[o].Raw, r.leaves[o].Raw) {
				continue
			}
			x, y := eval.FromLiteral(runs[0].leaves[o]).Array, eval.FromLiteral(r.leaves[o]).Array
			for e := range min(ref.Len(), x.Len(), y.Len()) {
				a, b := x.At(e), y.At(e)
				if sameValue(ref.Type, a, b) {
					continue
				}
				one, two := ref.Legal(e, a), ref.Legal(e, b)
				if one == eval.Undecided || two == eval.Undecided {
					continue
				}
				d.differs = true
				if one == eval.Out || two == eval.Out {
					d.astray[o] = true
				}
			}
		}
	}
	return d
}

// ofValues reports whether a finding is about values that executions gave.
func (f *observedFinding) ofValues() bool {
	return f.Piece == "" && f.Output != "" && (f.Class == Miscompile || f.Class == NumericDegradation || f.Class == Nondeterminism)
}

// lookAgain executes a case with wrong values once more, in a fresh process of each
// build: what a process holds by chance is another there. A finding whose values
// vary is Unstable, whatever the executions so far have shown; answers on inputs
// on which executions differ count nothing of that.
func (k *caseRun) lookAgain(ctx context.Context, answers []answer, found []observedFinding) {
	again := slices.ContainsFunc(found, func(f observedFinding) bool { return f.ofValues() })
	for _, flags := range flagSets {
		if !k.run.cfg.Policy.Runs(flags) {
			continue
		}
		streams := k.under(flags)
		here := answers[len(answers)-len(streams):]
		if flags == ComparisonFlags {
			here = answers[:len(streams)]
		}
		var fresh [2][]side
		if again && slices.ContainsFunc(here, func(a answer) bool { return !a.repeated }) {
			fresh = k.freshly(ctx, flags, streams)
		}
		for s, a := range streams {
			if here[s].repeated { // as under the comparison flags
				o := answers[s]
				here[s].base, here[s].head, here[s].unstable, here[s].differing = o.base, o.head, o.unstable, o.differing
				continue
			}
			if a.reference(flags) == nil {
				continue
			}
			for i := range fresh {
				runs := k.sides[flags][i][s].runs
				if fresh[i] != nil && fresh[i][s].ran() {
					runs = slices.Concat(runs, fresh[i][s].runs)
				}
				d := diverge(Leaves(a.reference(flags)), runs)
				if !d.differs {
					continue
				}
				here[s].vary(i, len(d.astray) > 0)
				for n := range found {
					f := &found[n]
					if o, err := strconv.Atoi(f.Output); err == nil && f.ofValues() && d.astray[o] {
						f.Unstable, f.astray[i] = true, true
					}
				}
			}
		}
	}
}

// freshly executes streams in one fresh process of each build.
func (k *caseRun) freshly(ctx context.Context, flags string, streams []*asked) (sides [2][]side) {
	r := k.request(flags)
	r.RepeatFor = 0
	for _, a := range streams {
		r.Inputs = append(r.Inputs, a.arguments)
	}
	var wg sync.WaitGroup
	for i, b := range []*builds.Build{k.run.cfg.Base, k.run.cfg.Head} {
		if i == 1 && b == k.run.cfg.Base {
			break
		}
		wg.Go(func() { sides[i], _ = k.fresh(b).execute(ctx, r) })
	}
	wg.Wait()
	if sides[1] == nil {
		sides[1] = sides[0]
	}
	return sides
}

// vary makes an answer say what it says whichever executions came first: side i
// gave results that differ, some of them outside the legal sets or all inside.
func (a *answer) vary(i int, astray bool) {
	a.unstable = true
	a.samples, a.legal, a.differing, a.undecidedDiffering = nil, nil, 0, 0
	if b := []*Behaviour{&a.base, &a.head}[i]; astray && (*b == Right || *b == Wrong || *b == Undecided) {
		*b = Flaky
	}
}

// leaveChance takes out of a finding what is chance, and keeps it as Observed.
func (f *observedFinding) leaveChance() {
	seen := func(text string) {
		if text != "" && !strings.Contains(f.Observed, text) {
			f.Observed = joinNonEmpty(f.Observed, text)
		}
	}
	settled := func(first *First, detail *string, pass *PassStep) {
		told := "" // what a compiler says that dies in a pass is the same every time
		if pass != nil && pass.Name != codeGeneration {
			if told = first.Head; told == "ran" {
				told = first.Base
			}
		}
		for _, s := range []*string{&first.Base, &first.Head} {
			if *s != told && *s != "ran" && *s != hungText && *s != "" {
				seen(*s)
				*detail = strings.ReplaceAll(*detail, *s, brokeText)
				*s = brokeText
			}
		}
	}
	if (f.Class == Crash || f.Class == Hang) && f.Nature == "" {
		settled(&f.First, &f.Detail, f.Pass)
		if m := f.InMinimal; m != nil {
			settled(&m.First, &m.Detail, m.Pass)
		}
	}
	if m := f.InMinimal; m != nil && m.Unstable && f.ofValues() {
		m.First, m.Elements, m.Wrong = vague(f.minimalAstray), 0, 0
		m.Detail, m.Location = variesDetail(m.Output), m.Location.vague()
		m.Base, m.Head = flaky(m.Base, f.minimalAstray[0]), flaky(m.Head, f.minimalAstray[1])
	}
	if !f.Unstable || !f.ofValues() {
		return
	}
	seen(fmt.Sprintf("output %s%v: base %s, head %s, legal %s", f.Output, f.First.At, f.First.Base, f.First.Head, f.First.Legal))
	seen(f.extent())
	rest := ""
	if i := strings.Index(f.Detail, "not blocking: "); i >= 0 {
		rest = f.Detail[i:]
	}
	f.Detail = variesDetail(f.Output)
	if rest != "" {
		f.Detail = appendDetail(f.Detail, rest)
	}
	f.First, f.Elements, f.Wrong, f.Duplicates = vague(f.astray), 0, 0, 0
	f.Base, f.Head = flaky(f.Base, f.astray[0]), flaky(f.Head, f.astray[1])
	f.Location = f.Location.vague()
	if f.Confirmed != "" && f.Confirmed != fmt.Sprintf("%d of %d", confirmations, confirmations) {
		seen("again in " + f.Confirmed + " fresh processes")
		f.Confirmed = ""
	}
}

func variesDetail(output string) string {
	return fmt.Sprintf("executions on the same inputs give different values of output %s, not all of them legal", output)
}

func flaky(b Behaviour, astray bool) Behaviour {
	if astray && (b == Right || b == Wrong || b == Undecided) {
		return Flaky
	}
	return b
}

// vague is the first wrong element where the values vary: no element in particular.
func vague(astray [2]bool) First {
	out := First{At: []int64{}, Legal: "the same legal values in every execution"}
	for i, s := range []*string{&out.Base, &out.Head} {
		*s = "does not vary"
		if astray[i] {
			*s = variesText
		}
	}
	return out
}

// vague is the place without the values of one execution.
func (l *Location) vague() *Location {
	if l == nil {
		return nil
	}
	out := *l
	out.LegalBefore, out.LegalAfter = "", ""
	return &out
}
