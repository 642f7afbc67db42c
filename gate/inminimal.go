package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// InMinimal is what the smallest program shows of a finding, on its own inputs:
// measured again, since a smaller program has other values, other counts and
// other names. Its fields are those of Finding.
type InMinimal struct {
	// Base and Head are what the builds do with it. If neither is bad, the program
	// shows the fault only inside the case that it is a piece of.
	Base         Behaviour    `json:"base"`
	Head         Behaviour    `json:"head"`
	Output       string       `json:"output"`
	Elements     int64        `json:"elements"`
	Wrong        int64        `json:"wrong"`
	First        First        `json:"first"`
	Unstable     bool         `json:"unstable,omitempty"`
	FailureRate  *FailureRate `json:"failure_rate,omitempty"`
	Pass         *PassStep    `json:"pass,omitempty"`
	EnabledBy    *PassStep    `json:"enabled_by,omitempty"`
	Level        Level        `json:"level,omitempty"`
	Instruction  string       `json:"instruction"`
	Location     *Location    `json:"location,omitempty"`
	Step         *StepText    `json:"step,omitempty"`
	Evidence     []Evidence   `json:"evidence,omitempty"`
	Disagreement string       `json:"disagreement,omitempty"`
	Detail       string       `json:"detail"`
	// BackendOnly says that the program is behind the HLO passes: it is compiled
	// with run_backend_only.
	BackendOnly bool `json:"backend_only,omitempty"`
}

// Shows reports whether the smallest program shows the fault by itself.
func (m *InMinimal) Shows() bool { return m.Base.Bad() || m.Head.Bad() }

// AsMinimal is the finding as its smallest program shows it: what may stand
// beside that program. It is the finding itself where the case was not made
// smaller.
func (f *Finding) AsMinimal() *Finding {
	m := f.InMinimal
	if m == nil {
		return f
	}
	out := *f
	out.Stream = fuzz.OwnStream
	if f.Class != Crash && f.Class != Hang {
		out.Observed = "" // values of the case
	}
	out.Base, out.Head, out.Output, out.Elements, out.Wrong, out.First = m.Base, m.Head, m.Output, m.Elements, m.Wrong, m.First
	out.Unstable, out.FailureRate, out.Detail, out.Culprits = m.Unstable, m.FailureRate, m.Detail, nil
	out.Pass, out.EnabledBy, out.Level, out.Instruction, out.Location, out.Step = m.Pass, m.EnabledBy, m.Level, m.Instruction, m.Location, m.Step
	out.Evidence, out.Disagreement = m.Evidence, m.Disagreement
	return &out
}

// PassesAlone reports whether nothing but the modules that the passes leave shows
// a finding: no execution of the program from end to end.
func (f *Finding) PassesAlone() bool {
	for _, w := range f.Witnesses {
		if w != WitnessPasses && w != WitnessStates && w != WitnessCross && w != WitnessCompiler {
			return false
		}
	}
	return len(f.Witnesses) > 0
}

// measureMinimal fills in what the smallest program shows, if it is smaller than
// the case.
func (k *caseRun) measureMinimal(ctx context.Context, f *observedFinding) {
	if f.reduced == nil || ctx.Err() != nil {
		return
	}
	small, err := fuzz.ReadCase(k.c.Name+".case", f.reduced.Format())
	if err != nil {
		small = f.reduced
	}
	small.Name = k.c.Name
	m := &caseRun{run: k.run, c: small, thorough: k.thorough}
	if m.base, err = encode(small); err != nil {
		return
	}
	m.base.BackendOnly = f.behind
	m.ask(ctx, small.Streams(k.run.cfg.Seed)[:1], &caseReport{})
	if len(m.asked) == 0 {
		return
	}
	var g *observedFinding
	if k.run.cfg.passesOnly() || f.PassesAlone() {
		g = m.measurePasses(ctx, f)
	} else {
		g = m.measure(ctx, f)
	}
	if ctx.Err() != nil {
		return
	}
	if g == nil && f.Piece == "" {
		f.reduced = nil // it showed once and does not again: the case itself is shown
		return
	}
	if g == nil {
		f.InMinimal = &InMinimal{Base: Right, Head: Right, First: First{At: []int64{}}, BackendOnly: f.behind,
			Detail: "this program shows nothing by itself: the fault needs the case around it"}
		return
	}
	f.InMinimal = &InMinimal{Base: g.Base, Head: g.Head, Output: g.Output, Elements: g.Elements, Wrong: g.Wrong, First: g.First,
		Unstable: g.Unstable, FailureRate: g.FailureRate, Pass: g.Pass, EnabledBy: g.EnabledBy, Level: g.Level, Instruction: g.Instruction, Location: g.Location, Step: g.Step,
		Evidence: g.Evidence, Disagreement: g.Disagreement, Detail: g.Detail, BackendOnly: f.behind}
	if f.InMinimal.Detail == "" {
		f.InMinimal.Detail = g.extent()
	}
}

// measure runs both builds on the case's first stream and returns what they show
// of the kind of f, nil if nothing.
func (m *caseRun) measure(ctx context.Context, f *observedFinding) *observedFinding {
	a := m.asked[0]
	var sides [2]side
	for i, b := range []*builds.Build{m.run.cfg.Base, m.run.cfg.Head} {
		if i == 1 && b.ID == m.run.cfg.Base.ID {
			sides[1] = sides[0]
			break
		}
		r := m.request(f.Flags)
		r.Inputs = [][]worker.Array{a.arguments}
		got, _ := m.pooled(b).execute(ctx, r)
		sides[i] = got[0]
	}
	judged := judge(question{stream: a.Name, flags: f.Flags, reference: a.reference(f.Flags), base: sides[0], head: sides[1], firm: m.run.firm})
	g := sameKind(gather(m.c, []answer{judged}), f)
	if g == nil {
		return nil
	}
	if f.ofValues() {
		again := m.freshly(ctx, f.Flags, m.asked)
		for i := range again {
			if again[i][0].ran() {
				d := diverge(Leaves(a.reference(f.Flags)), slices.Concat(sides[i].runs, again[i][0].runs))
				f.minimalAstray[i] = len(d.astray) > 0
				g.Unstable = g.Unstable || f.minimalAstray[i]
			}
		}
	}
	if m.thorough && (g.Class == Nondeterminism || g.Unstable || g.Base == Flaky || g.Head == Flaky) {
		g.FailureRate = m.measureRate(ctx, g)
	}
	if !f.behind {
		m.attribute(ctx, g)
	}
	if g.Pass == nil && f.Pass != nil && f.Pass.Name != codeGeneration {
		g.Pass, g.Level = &PassStep{Name: f.Pass.Name}, f.Level // whose step it is here is not known
	}
	return g
}

// measurePasses is measure for builds whose passes alone are judged.
func (m *caseRun) measurePasses(ctx context.Context, f *observedFinding) *observedFinding {
	streams, sets := m.passSets()
	both := m.examine(ctx, m.run.cfg.Runner, m.c.Module, sets, ownOf(streams), passOptions)
	return sameKind(m.passFindings(ctx, both, streams), f)
}

// sameKind is the one of found that shows f: of its status and, where there are
// several, of its pass and its class; nil if none does.
func sameKind(found []observedFinding, f *observedFinding) *observedFinding {
	best, most := -1, 0
	for i, g := range found {
		if g.raw != f.raw || (g.Class == Crash || g.Class == Hang) != (f.Class == Crash || f.Class == Hang) {
			continue
		}
		n := 1
		if g.Class == f.Class {
			n++
		}
		if g.Pass != nil && f.Pass != nil && g.Pass.Name == f.Pass.Name {
			n += 2
		}
		if n > most {
			best, most = i, n
		}
	}
	if best < 0 {
		return nil
	}
	return &found[best]
}

// measureStream gives a finding of the passes, which were judged on several
// streams together, the figures of the stream that it names.
func (k *caseRun) measureStream(ctx context.Context, f *observedFinding) {
	q, ok := k.questionOf(f.Stream)
	if !ok || f.Pass == nil || f.Level != LevelHLO || f.Piece != "" {
		return
	}
	both := k.examine(ctx, k.run.cfg.Runner, k.c.Module, [][]*eval.Value{values(q.Inputs)}, ownFirst(f.Stream), passOptions)
	p, other := &both[1], &both[0]
	if f.raw == Fixed {
		p, other = other, p
	}
	if i := p.accused(f.Pass.Name); i >= 0 && ctx.Err() == nil {
		s := &p.validation.Steps[i]
		f.Output, f.Elements, f.Wrong = fmt.Sprint(s.Where.Output), s.Elements, s.Wrong
		f.First = firstOf(p, other, i, f.raw)
	}
}
