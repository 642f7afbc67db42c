package swarm

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/corpus"
	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/swarm/operation"
)

// The bounds of the built-in strategies: programs made for a pass, and programs of
// the corpus tried for a report.
const (
	madePrograms  = 16
	triedPrograms = 12
)

// strategy does a task without a model. Its outputs go through the same checks.
func (s *swarm) strategy(ctx context.Context, t *task) error {
	switch t.role {
	case Stressor:
		return s.enumerate(ctx, t)
	case Reproducer:
		return s.extract(ctx, t)
	case Analyst:
		return s.attribute(ctx, t)
	case Reviewer:
		return s.confirm(ctx, t)
	}
	return refusef("no built-in strategy drafts a patch: the draft has the regression test alone")
}

// enumerate makes a program of every trigger pattern of the pass, and takes those
// of the corpora and of the pass's unit tests.
func (s *swarm) enumerate(ctx context.Context, t *task) error {
	var cases []*fuzz.Case
	seed := s.gate.Config.Seed
	known := patterns.For(s.cfg.Platform, t.focus.Name)
	for i := 0; len(known) > 0 && i < madePrograms; i++ { // each in turn, with other draws
		c, err := known[i%len(known)].Program(fmt.Sprintf("pattern-%d", i+1), rand.New(rand.NewPCG(seed, uint64(i))))
		if err == nil {
			cases = append(cases, c)
		}
	}
	if s.root != nil {
		for _, f := range s.cfg.Passes {
			if f.Pass.Name == t.focus.Name {
				cases = append(cases, first(corpus.Tests(s.root.FS(), []passes.Focus{f}), madePrograms)...)
			}
		}
	}
	cases = append(cases, first(s.cfg.Corpus, madePrograms)...)
	if len(cases) == 0 {
		return refusef("no pattern, unit test or corpus program is known for %s", t.focus.Name)
	}
	cases = distinct(cases)
	fired, err := s.judge(ctx, t, cases)
	if err == nil {
		s.say("%s: %d programs ran, %s fired in %d", t.name(), len(cases), t.focus.Name, fired)
	}
	return err
}

func first(cases []*fuzz.Case, n int) []*fuzz.Case { return cases[:min(n, len(cases))] }

// quoted is what logs and mails put in front of a line: "> ", or
// "I0612 10:11:12.131415 123 file.cc:45] " (absl/log).
var quoted = regexp.MustCompile(`(?m)^(?:> ?)+|^[IWEF]\d{4} [0-9:.]+ +\d+ [\w./-]+:\d+\] ?`)

// extract takes the modules out of a report and, if there is none, looks for
// programs of the corpus that have the operations that it names.
func (s *swarm) extract(ctx context.Context, t *task) error {
	text := quoted.ReplaceAllString(t.report, "")
	why := "it holds no HLO module, and no program of the corpora that has the operations it names shows a fault"
	for i, m := range modulesIn(text) {
		p := operation.Program{Name: fmt.Sprintf("report-%d", i+1), HLO: m.text, Inputs: m.inputs}
		err := s.checkReproduction(ctx, t, Reproduction{Program: p, Claim: "taken from the report"})
		if err == nil {
			return nil
		}
		if !isRefusal(err) {
			return err
		}
		why = err.Error()
	}
	for _, c := range s.alike(text) {
		f, _, err := s.gate.Run(ctx, c)
		if err != nil && !isRefusal(err) {
			return err
		}
		if f == nil {
			continue
		}
		err = s.checkReproduction(ctx, t, Reproduction{Program: operation.Of(c), Claim: "a program of the corpus with the operations that the report names"})
		if err == nil || !isRefusal(err) {
			return err
		}
		why = err.Error()
	}
	return refusef("%s", why)
}

// moduleText is a module found in prose, with the literals behind it that fit its
// parameters.
type moduleText struct {
	text   string
	inputs []string
}

// modulesIn finds HLO modules in a text: each from a line that starts with
// "HloModule" to the last closing brace at the start of a line up to which it
// parses.
func modulesIn(text string) []moduleText {
	var out []moduleText
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(strings.TrimSpace(lines[i]), "HloModule") {
			continue
		}
		size, end := 0, -1
		var found *fuzz.Case
		for j := i; j < len(lines) && size <= operation.MaxText; j++ {
			size += len(lines[j]) + 1
			if j > i && strings.HasPrefix(strings.TrimSpace(lines[j]), "HloModule") {
				break
			}
			if strings.TrimSpace(lines[j]) != "}" {
				continue
			}
			if c, err := fuzz.ReadModule("report", []byte(strings.Join(lines[i:j+1], "\n")+"\n")); err == nil {
				found, end = c, j
			}
		}
		if found == nil {
			continue
		}
		out = append(out, moduleText{strings.Join(lines[i:end+1], "\n") + "\n", inputsIn(lines[end+1:], found.Params())})
		i = end
	}
	return out
}

// inputsIn gives the first lines that are literals of the parameters' shapes, in
// their order; nil if they are not all there.
func inputsIn(lines []string, params []*hlo.Shape) []string {
	var out []string
	for _, l := range lines {
		if len(out) == len(params) || strings.HasPrefix(strings.TrimSpace(l), "HloModule") {
			break
		}
		l = strings.Trim(strings.TrimSpace(l), "`")
		if !strings.Contains(l, "[") || len(l) > operation.MaxText {
			continue
		}
		v, err := fuzz.ParseInput(l)
		if err == nil && v.Shape.Compatible(params[len(out)]) {
			out = append(out, l)
		}
	}
	if len(out) < len(params) {
		return nil
	}
	return out
}

var word = regexp.MustCompile(`[a-z0-9]+(?:-[a-z0-9]+)*`)

// alike are programs of the corpora and the given cases with operations that a
// text names, those with most of them first.
func (s *swarm) alike(text string) []*fuzz.Case {
	named := map[string]bool{}
	for _, w := range word.FindAllString(strings.ReplaceAll(strings.ToLower(text), "_", "-"), -1) {
		named[w] = true
	}
	type scored struct {
		c     *fuzz.Case
		score int
	}
	var all []scored
	for _, c := range slices.Concat(s.cfg.Cases, s.cfg.Corpus) {
		if c.Module == nil {
			continue
		}
		ops := map[string]bool{}
		for _, comp := range c.Module.Computations {
			for _, in := range comp.Instructions {
				if op := in.Op.String(); named[op] && in.Op != hlo.OpParameter && in.Op != hlo.OpConstant && in.Op != hlo.OpTuple {
					ops[op] = true
				}
			}
		}
		if len(ops) > 0 {
			all = append(all, scored{c, len(ops)})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var out []*fuzz.Case
	for _, a := range all[:min(triedPrograms, len(all))] {
		out = append(out, a.c)
	}
	return out
}

// attribute explains a finding by what the gate knows of it.
func (s *swarm) attribute(ctx context.Context, t *task) error {
	f := t.record.Finding
	if f.Pass == nil || f.Instruction == "" {
		return refusef("the gate could not name a pass step and an instruction")
	}
	out := Explanation{Step: f.Pass.String(), Instruction: f.Instruction, Verdict: Illegal,
		Rewrite: "the step's own, at " + f.Instruction, Why: f.Detail + "; " + legality(f), Rule: "the value is outside the legal set of the reference interpreter"}
	if f.Status == gate.Contested {
		out.Verdict, out.Rule = Contested, strings.Join(f.Contest, ", ")
	}
	return s.checkExplanation(ctx, t, out)
}

// confirm runs what was handed in once more.
func (s *swarm) confirm(ctx context.Context, t *task) error {
	c, err := fuzz.ReadCase(t.record.Finding.Case+".case", t.record.Finding.MinimalFile)
	if err != nil {
		return err
	}
	f, why, err := s.gate.Run(ctx, c)
	if err != nil {
		return err
	}
	if f == nil {
		return refusef("the smallest program does not show the fault again: %s", why)
	}
	return s.checkReview(ctx, t, Review{Why: "the smallest program shows the fault again"})
}
