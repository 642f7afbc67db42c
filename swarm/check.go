package swarm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/corpus"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/swarm/checkout"
	"github.com/passgate/passgate/swarm/operation"
	"github.com/passgate/passgate/xla/builds"
)

// checkStress runs a stressor's programs through the gate. All must parse and
// verify, and the pass must fire in one or a finding come of one.
func (s *swarm) checkStress(ctx context.Context, t *task, out Stress) error {
	if len(out.Programs) == 0 || len(out.Programs) > maxPrograms {
		return refusef("%d programs, want 1 to %d", len(out.Programs), maxPrograms)
	}
	var cases []*fuzz.Case
	var bad []string
	names := map[string]bool{}
	for _, p := range out.Programs {
		c, err := p.Case()
		switch {
		case err != nil:
			bad = append(bad, err.Error())
			continue
		case names[c.Name]:
			bad = append(bad, fmt.Sprintf("two programs are named %q", c.Name))
			continue
		}
		names[c.Name] = true
		cases = append(cases, c)
	}
	if bad != nil {
		return refusef("%s", strings.Join(bad, "\n"))
	}
	fired, err := s.judge(ctx, t, cases)
	if err != nil {
		return err
	}
	s.ledger.mu.Lock()
	for _, r := range out.Risks {
		s.result.Risks = append(s.result.Risks, NamedRisk{t.name(), r})
	}
	s.ledger.mu.Unlock()
	s.say("%s: %d programs ran, %s fired in %d", t.name(), len(cases), t.focus.Name, fired)
	return nil
}

// judge runs programs made for a pass, and shares what is wrong with them. It
// refuses programs that exercise nothing.
func (s *swarm) judge(ctx context.Context, t *task, cases []*fuzz.Case) (fired int, err error) {
	res, err := s.gate.Check(ctx, cases, []gate.Focus{*t.focus})
	if err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if len(res.Passes) > 0 {
		fired = res.Passes[0].Cases
	}
	byName := map[string]*fuzz.Case{}
	for _, c := range cases {
		byName[c.Name] = c
	}
	var records []*Record
	for _, k := range res.Cases {
		f := gravest(res, k.ID)
		if f == nil {
			continue
		}
		c := byName[f.Case]
		delete(byName, f.Case)
		records = append(records, &Record{Finding: f, By: t.name(), c: c})
	}
	if fired == 0 && len(records) == 0 {
		var b strings.Builder
		for _, k := range res.Cases {
			fmt.Fprintf(&b, "\n%s: %s %s", k.ID, k.Outcome, operation.Shorten(k.Detail, 300))
		}
		return 0, refusef("%s changed none of the programs, and nothing is wrong with them:%s", t.focus.Name, b.String())
	}
	for _, c := range cases {
		if byName[c.Name] != nil {
			s.ledger.addPrograms(renamed(c, t.name()))
		}
	}
	for _, r := range records {
		if r.Finding.Instructions > 0 { // 1-minimal, and not only what the check's probes gave
			small, _, err := s.gate.Reduce(ctx, r.c)
			if err != nil {
				return 0, err
			}
			if small != nil && small.Finding.Class == r.Finding.Class && small.Finding.Status == r.Finding.Status {
				r.Finding.Minimal, r.Finding.MinimalFile, r.Finding.Instructions = small.Finding.Minimal, small.Finding.MinimalFile, small.Finding.Instructions
				r.Finding.Cluster, r.Minimal = small.Finding.Cluster, small.Minimal
			}
		}
		s.found(r)
		s.reviewed(t, r)
	}
	return fired, nil
}

// gravest is the finding of a case to work on, nil if there is none that counts.
func gravest(res *gate.Result, name string) *gate.Finding {
	for i := range res.Findings { // sorted by gravity
		f := &res.Findings[i]
		if f.Case == name && (f.Status == gate.New || f.Status == gate.PreExisting) {
			return f
		}
	}
	return nil
}

// renamed is a case under a name that no other agent's has.
func renamed(c *fuzz.Case, agent string) *fuzz.Case {
	out := *c
	out.Name = strings.NewReplacer("/", "-").Replace(agent) + "-" + c.Name
	return &out
}

// checkReproduction reduces a reproducer's program, which must show a fault.
func (s *swarm) checkReproduction(ctx context.Context, t *task, out Reproduction) error {
	c, err := out.Program.Case()
	if err != nil {
		return err
	}
	r, why, err := s.gate.Reduce(ctx, c)
	switch {
	case err != nil:
		return err
	case r == nil:
		return refusef("the gate sees no fault in this program: %s", why)
	case r.Finding.Status == gate.Fixed || r.Finding.Status == gate.ReferenceDisputed:
		return refusef("head is not wrong there by the gate: %s, %s", r.Finding.Class, r.Finding.Status)
	}
	rec := &Record{Finding: r.Finding, By: t.name(), Claim: out.Claim, Minimal: r.Minimal, c: c}
	s.found(rec)
	s.reviewed(t, rec)
	return nil
}

// reviewed has a reviewer look for a smaller program, unless the finding was known.
func (s *swarm) reviewed(t *task, r *Record) {
	if s.ledger.get(r.ID) == r {
		s.push(&task{role: Reviewer, what: string(t.role), on: r.Finding.Case, record: r})
	}
}

// checkExplanation holds an explanation against the dumps and the gate.
func (s *swarm) checkExplanation(ctx context.Context, t *task, out Explanation) error {
	f := t.record.Finding
	want := Illegal
	if f.Status == gate.Contested {
		want = Contested
	}
	switch {
	case out.Verdict != Illegal && out.Verdict != Legal && out.Verdict != Contested:
		return refusef("verdict %q: want illegal, legal or contested", out.Verdict)
	case out.Verdict == Contested && want == Illegal && len(f.Contest) == 0:
		return refusef("the finding rests on none of the argued semantics: it is %s", f.Status)
	case out.Verdict == Legal:
		return refusef("it is not legal: %s", legality(f))
	case strings.TrimSpace(out.Why) == "" || strings.TrimSpace(out.Rule) == "" || strings.TrimSpace(out.Rewrite) == "":
		return refusef("want a rewrite, a reason and a rule")
	}
	if f.Pass != nil && f.Pass.Name != operation.CodeGeneration && out.Step == operation.CodeGeneration {
		return refusef("code generation is not to blame: a pass step before it changed the program's meaning or handed it to a library")
	}
	if why := s.points(ctx, t.record.c, f, out); why != nil {
		// The smallest program has instructions of its own names; either will do.
		small, err := fuzz.ReadCase(f.Case+".case", f.MinimalFile)
		if err != nil || !isRefusal(why) {
			return cmp.Or(err, why)
		}
		again, _, err := s.gate.Run(ctx, small)
		if err != nil {
			return err
		}
		if again == nil || s.points(ctx, small, again, out) != nil {
			return why
		}
	}
	if id := out.DuplicateOf; id != "" {
		other := s.ledger.get(id)
		switch {
		case other == nil || other == t.record:
			return refusef("duplicate_of: no other finding has the id %q", id)
		case other.Finding.Class != f.Class || passName(other.Finding) != passName(f):
			return refusef("duplicate_of: finding %s is %s by %s, this one is %s by %s", id, other.Finding.Class, passName(other.Finding), f.Class, passName(f))
		}
	}
	s.ledger.mu.Lock()
	t.record.Explanation = &out
	s.ledger.mu.Unlock()
	s.say("%s: %s at %s, %s", t.name(), out.Step, out.Instruction, out.Verdict)
	s.push(&task{role: Reviewer, what: string(Analyst), on: t.on, record: t.record})
	if out.DuplicateOf == "" {
		s.fixable(t.record)
	}
	return nil
}

func passName(f *gate.Finding) string {
	if f.Pass == nil {
		return "an unknown pass"
	}
	return f.Pass.Name
}

func legality(f *gate.Finding) string {
	if f.First.Legal == "" {
		return f.Detail
	}
	return fmt.Sprintf("output %s%v is %s, and the legal values are %s", f.Output, f.First.At, f.First.Head, f.First.Legal)
}

// points checks that an explanation's step and instruction are in the dumps of a
// case, that the step changed the instruction, and that the gate did not clear
// the step.
func (s *swarm) points(ctx context.Context, c *fuzz.Case, f *gate.Finding, out Explanation) error {
	trail, err := s.gate.Trail(ctx, operation.Head, c)
	if err != nil {
		return err
	}
	before, after, err := operation.Around(trail, out.Step)
	if err != nil {
		return err
	}
	was, is := operation.Find(before, out.Instruction), operation.Find(after, out.Instruction)
	switch {
	case was == "" && is == "":
		return refusef("no instruction %q stands before or after %s", out.Instruction, out.Step)
	case after != nil && was == is:
		return refusef("%s left %q alone", out.Step, out.Instruction)
	}
	if f.Pass == nil || f.Class == gate.Crash {
		return nil
	}
	if out.Step != f.Pass.String() {
		return refusef("the gate clears %s: it evaluated the modules before and after every step, and this step did not change the result", out.Step)
	}
	// Inside a guilty step the gate walks to the instruction whose value changed
	// although everything that it reads kept its meaning.
	if at := strings.TrimPrefix(out.Instruction, "%"); f.Level == gate.LevelHLO && f.Instruction != "" && at != f.Instruction && (f.Location == nil || at != f.Location.After) {
		return refusef("the gate clears %q: its value kept its meaning, or changed only because of what it reads", at)
	}
	return nil
}

// maxSeeds bounds the unit tests of a pass that a fix is judged by.
const maxSeeds = 200

// checkFix builds a fix and judges it.
func (s *swarm) checkFix(ctx context.Context, t *task, out Fix) (err error) {
	if strings.TrimSpace(out.Summary) == "" {
		return refusef("want a summary")
	}
	patch, err := s.root.Plan(out.Edits)
	if err != nil {
		return err
	}
	tests, err := s.tests(t, out, patch)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(out.Edits, func(e checkout.Edit) bool { return e.Path != out.Test }) {
		return refusef("nothing but the test is edited")
	}
	dir, err := os.MkdirTemp(s.cfg.TempDir, "passgate-fix-")
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			os.RemoveAll(dir)
		}
	}()
	if err := s.root.Copy(dir, patch); err != nil {
		return err
	}
	plugin, err := s.cfg.Build.Run(ctx, dir)
	if err != nil {
		return err
	}
	fixed, err := s.cfg.OpenBuild(ctx, plugin)
	if err != nil {
		return refusef("what the build command left is no plugin: %v", err)
	}
	checks := []string{"the build command succeeded"}
	done := func(format string, args ...any) { checks = append(checks, fmt.Sprintf(format, args...)) }
	if err := s.mended(ctx, t, fixed, tests, done); err != nil {
		return err
	}
	if err := s.unharmed(ctx, t, fixed, done); err != nil {
		return err
	}
	kept = true
	s.ledger.mu.Lock()
	if old := t.record.Patch; old != nil {
		os.RemoveAll(old.dir)
	}
	t.record.Patch = &Patch{Diff: patch.Diff, Test: out.Test, Summary: out.Summary, Edits: out.Edits, Checks: checks, build: fixed, dir: dir}
	s.ledger.mu.Unlock()
	s.say("%s: the patch is accepted: %s", t.name(), strings.Join(checks, "; "))
	s.push(&task{role: Reviewer, what: string(Fixer), on: t.on, record: t.record})
	return nil
}

// tests are the modules that a fix adds to a unit test, as cases: with the inputs
// of the finding where they fit.
func (s *swarm) tests(t *task, out Fix, patch *checkout.Patch) ([]*fuzz.Case, error) {
	text, edited := patch.Files[out.Test]
	if !edited || !strings.HasSuffix(out.Test, "_test.cc") && path.Ext(out.Test) != ".hlo" {
		return nil, refusef("test %q: want the path of an edited *_test.cc or .hlo file", out.Test)
	}
	old := map[string]bool{}
	for _, e := range out.Edits {
		if e.Path == out.Test {
			for _, m := range fuzz.Modules(e.Path, e.Old) {
				old[m] = true
			}
		}
	}
	small, err := fuzz.ReadCase(t.on+".case", t.record.Finding.MinimalFile)
	if err != nil {
		return nil, err
	}
	given := []*fuzz.Case{small, t.record.c}
	var cases []*fuzz.Case
	var bad []string
	for line, module := range fuzz.Modules(out.Test, text) {
		if old[module] || !inEdits(out, module) {
			continue
		}
		p := operation.Program{Name: fmt.Sprintf("regression-test-%d", len(cases)+1), HLO: module}
		for _, g := range given {
			q := p
			q.Inputs = g.InputLines
			if c, err := q.Case(); err == nil && len(g.InputLines) > 0 {
				p = q
				cases = append(cases, c)
				break
			}
		}
		if len(p.Inputs) > 0 {
			continue
		}
		c, err := p.Case()
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s:%d: %v", out.Test, line, err))
			continue
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		return nil, refusef("%s gets no new module in a raw string with ENTRY that can be read %s", out.Test, strings.Join(bad, "; "))
	}
	return cases, nil
}

func inEdits(out Fix, module string) bool {
	return slices.ContainsFunc(out.Edits, func(e checkout.Edit) bool {
		return e.Path == out.Test && strings.Contains(e.New, strings.TrimSpace(module))
	})
}

// mended: the finding's case and the regression test fail before and pass after.
func (s *swarm) mended(ctx context.Context, t *task, fixed *builds.Build, tests []*fuzz.Case, done func(string, ...any)) error {
	after := s.gate.WithHead(fixed)
	f := t.record.Finding
	shown, err := fuzz.ReadCase(f.Case+".case", f.CaseFile)
	if err != nil {
		return err
	}
	small, err := fuzz.ReadCase(f.Case+".case", f.MinimalFile)
	if err != nil {
		return err
	}
	for _, k := range []struct {
		what string
		c    *fuzz.Case
	}{{"the finding's case", shown}, {"its smallest program", small}} {
		seen, _, err := s.gate.Run(ctx, k.c)
		if err != nil {
			return err
		}
		if seen == nil {
			return refusef("%s does not fail before the patch in this run: it cannot be judged by it", k.what)
		}
		still, _, err := after.Run(ctx, k.c)
		if err != nil {
			return err
		}
		if still != nil && still.Status != gate.Fixed {
			return refusef("%s still fails after the patch: %s, %s", k.what, still.Class, legality(still))
		}
		done("%s fails before and passes after", k.what)
	}
	failing := 0
	for _, c := range tests {
		seen, _, err := s.gate.Run(ctx, c)
		if err != nil {
			return err
		}
		if seen != nil && seen.Status == f.Status {
			failing++
		}
		still, _, err := after.Run(ctx, c)
		if err != nil {
			return err
		}
		if still != nil && still.Status != gate.Fixed {
			return refusef("the regression test's module %s fails after the patch: %s", c.Name, legality(still))
		}
	}
	if failing == 0 {
		return refusef("no module of the regression test fails before the patch: it would not have caught the fault")
	}
	done("the regression test has %d modules, %d of which fail before and all pass after", len(tests), failing)
	return nil
}

// unharmed: the whole gate run shows nothing new, and the pass's own tests pass
// and still make it fire.
func (s *swarm) unharmed(ctx context.Context, t *task, fixed *builds.Build, done func(string, ...any)) error {
	after := s.gate.WithHead(fixed)
	cases := distinct(append(slices.Clone(s.cfg.Cases), s.ledger.cases()...))
	res, err := after.Check(ctx, cases, s.cfg.Focus)
	if err != nil {
		return err
	}
	if err := clean(ctx, res, "the gate"); err != nil {
		return err
	}
	done("the gate sees nothing new in %d cases", len(cases))
	f := t.record.Finding
	if f.Pass == nil || f.Pass.Name == operation.CodeGeneration {
		done("the fault is behind the passes: there are no unit tests of a pass to run")
		return nil
	}
	var focus []passes.Focus
	matches := func(step string) bool { return step == f.Pass.Name }
	for _, p := range passes.Lookup(f.Pass.Name) {
		focus = append(focus, passes.Focus{Pass: p, Weight: 6, Tier: passes.OwnFile})
	}
	// Of the tree before the patch: a patch cannot take a test away.
	seeds := corpus.Tests(s.root.FS(), focus)
	if len(seeds) > maxSeeds {
		seeds = seeds[:maxSeeds]
	}
	own := distinct(append(seeds, t.record.c))
	pass := []gate.Focus{{Name: f.Pass.Name, Weight: 6, Reason: "guilty", Matches: matches}}
	res, err = after.Check(ctx, own, pass)
	if err != nil {
		return err
	}
	if err := clean(ctx, res, "the pass's own tests"); err != nil {
		return err
	}
	firings := func(b *builds.Build) (int, error) {
		g := s.gate.WithHead(b)
		g.Config.Base = b
		g.Config.PassesOnly = true
		res, err := g.Check(ctx, own, pass)
		if err != nil {
			return 0, err
		}
		return res.Passes[0].Cases, nil
	}
	base, err := firings(s.gate.Config.Base)
	if err != nil {
		return err
	}
	was, err := firings(s.gate.Config.Head)
	if err != nil {
		return err
	}
	is, err := firings(fixed)
	if err != nil {
		return err
	}
	// The one program that it got wrong may well be left alone now; and where base
	// did not rewrite anything either, the change is what is taken back.
	if was > 1 && base > 0 && is == 0 {
		return refusef("%s changed %d of its own tests and changes none after the patch: switching it off is no fix", f.Pass.Name, was)
	}
	done("%d unit tests of %s in the tree show nothing new; in them and the finding's case it fires in %d with base, %d before the patch and %d after", len(seeds), f.Pass.Name, base, was, is)
	return nil
}

// clean refuses a result with new findings, or without a verdict.
func clean(ctx context.Context, res *gate.Result, what string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if worse := operation.Worse(res); len(worse) > 0 {
		f := worse[0]
		return refusef("%s shows %d new findings after the patch, such as case %s: %s, %s", what, len(worse), f.Case, f.Class, legality(&f))
	}
	if res.Verdict == gate.Inconclusive {
		return fmt.Errorf("%s is inconclusive: %s", what, strings.Join(res.Reasons, "; "))
	}
	return nil
}

// distinct leaves out programs that are there already, and makes names unique.
func distinct(in []*fuzz.Case) []*fuzz.Case {
	seen, names := map[string]bool{}, map[string]bool{}
	var out []*fuzz.Case
	for _, c := range in {
		if seen[c.Hash()] {
			continue
		}
		seen[c.Hash()] = true
		for n := 2; names[c.Name]; n++ {
			k := *c
			k.Name = fmt.Sprintf("%s-%d", c.Name, n)
			if c = &k; !names[c.Name] {
				break
			}
		}
		names[c.Name] = true
		out = append(out, c)
	}
	return out
}

// checkReview counts an objection only with a counterexample that holds.
func (s *swarm) checkReview(ctx context.Context, t *task, out Review) error {
	note := func(list *[]string, text string) {
		s.ledger.mu.Lock()
		defer s.ledger.mu.Unlock()
		*list = append(*list, t.name()+": "+text)
	}
	if !out.Refuted {
		note(&t.record.Reviewed, out.Why)
		return nil
	}
	if out.Counterexample == nil {
		if Role(t.what) != Analyst {
			return refusef("an objection counts only with a counterexample")
		}
		note(&t.record.Objections, out.Why) // for a person to weigh
		return nil
	}
	c, err := out.Counterexample.Case()
	if err != nil {
		return err
	}
	f := t.record.Finding
	switch Role(t.what) {
	case Fixer:
		bad, why, err := s.gate.WithHead(t.record.Patch.build).Run(ctx, c)
		if err != nil {
			return err
		}
		if bad == nil || bad.Status != gate.New {
			return refusef("the fixed build is right there: %s", why)
		}
		s.say("%s: the patch is refuted by %s", t.name(), c.Name)
		note(&t.record.Reviewed, "refuted the patch with "+c.Name)
		s.ledger.addPrograms(renamed(c, t.name()))
		s.ledger.mu.Lock()
		os.RemoveAll(t.record.Patch.dir)
		t.record.Patch = nil
		t.record.refuted++
		again := t.record.refuted < max(1, s.limits.Rounds)
		s.ledger.mu.Unlock()
		if again {
			s.push(&task{role: Fixer, on: t.on, record: t.record, feedback: out.Why + "\n" + operation.Describe(bad)})
		}
		return nil
	case Stressor, Reproducer:
		r, why, err := s.gate.Reduce(ctx, c)
		if err != nil {
			return err
		}
		if r == nil || r.Finding.Class != f.Class || r.Finding.Status != f.Status || passName(r.Finding) != passName(f) {
			return refusef("that program does not show the same fault: %s", why)
		}
		if r.Finding.Instructions >= f.Instructions {
			return refusef("that program has %d instructions, the one known has %d", r.Finding.Instructions, f.Instructions)
		}
		s.ledger.mu.Lock()
		f.Minimal, f.MinimalFile, f.Instructions = r.Finding.Minimal, r.Finding.MinimalFile, r.Finding.Instructions
		t.record.Minimal = r.Minimal
		s.ledger.mu.Unlock()
		note(&t.record.Reviewed, "found a smaller program")
		return nil
	}
	return refusef("an explanation is not refuted by a program")
}
