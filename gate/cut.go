package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// CutCounts says how programs that could not be judged as a whole were judged
// in pieces, on the values that the pieces really see.
type CutCounts struct {
	// Cases counts the programs; 1 in a case's own counts. Whole of them were left
	// whole, since they have more instructions than the limit.
	Cases int `json:"cases"`
	Whole int `json:"whole,omitempty"`
	// Steps are the pass steps of head that changed a program. JudgedSteps of
	// them were judged by what they changed, the others could not be.
	// UnreachedSteps and UnreachedPieces, which are among the unsupported ones,
	// were left out by the limit on work. UnreachedPasses are the names of the
	// steps' passes: sorted, each once.
	Steps           int      `json:"steps"`
	JudgedSteps     int      `json:"judged_steps"`
	UnreachedSteps  int      `json:"unreached_steps,omitempty"`
	UnreachedPieces int      `json:"unreached_pieces,omitempty"`
	UnreachedPasses []string `json:"unreached_passes,omitempty"`
	// Levels are program, regions, computations, fusions and operations, from
	// the whole to the smallest pieces.
	Levels []LevelCounts `json:"levels"`
	// Reasons says why pieces are unsupported: sorted, each once.
	Reasons []string `json:"reasons,omitempty"`
}

// LevelCounts are the counts of one level of pieces.
type LevelCounts struct {
	// Level is "program" (one input stream of the whole program), "regions"
	// (values at which a region ends that a pass step changed), "computations"
	// (loops, conditionals and calls of the optimised module), "fusions" (its
	// kernels), or "operations" (single instructions).
	Level string `json:"level"`
	// Pieces were judged, Unsupported could not be.
	Pieces      int `json:"pieces"`
	Unsupported int `json:"unsupported"`
	// Elements of the pieces' results. Wide ones are judged, but with bounds that
	// leave less than half of the digits of their type.
	JudgedElements    int64 `json:"judged_elements"`
	UndecidedElements int64 `json:"undecided_elements"`
	WideElements      int64 `json:"wide_elements"`
	WrongElements     int64 `json:"wrong_elements"`
}

// The levels of CutCounts, in order.
const (
	levelProgram = iota
	levelRegions
	levelComputations
)

var cutLevels = []string{"program", "regions", triage.Computations.String(), triage.Fusions.String(), triage.Operations.String()}

// InPieces is the number of programs that were judged in pieces.
func (c *CutCounts) InPieces() int { return c.Cases - c.Whole }

func newCutCounts() *CutCounts {
	c := &CutCounts{Cases: 1, Levels: make([]LevelCounts, len(cutLevels))}
	for i := range c.Levels {
		c.Levels[i].Level = cutLevels[i]
	}
	return c
}

func (c *CutCounts) add(o *CutCounts) {
	c.Cases += o.Cases
	c.Whole += o.Whole
	c.Steps += o.Steps
	c.JudgedSteps += o.JudgedSteps
	c.UnreachedSteps += o.UnreachedSteps
	c.UnreachedPieces += o.UnreachedPieces
	c.UnreachedPasses = slices.Compact(slices.Sorted(slices.Values(append(c.UnreachedPasses, o.UnreachedPasses...))))
	for i, l := range o.Levels {
		t := &c.Levels[i]
		t.Pieces += l.Pieces
		t.Unsupported += l.Unsupported
		t.JudgedElements += l.JudgedElements
		t.UndecidedElements += l.UndecidedElements
		t.WideElements += l.WideElements
		t.WrongElements += l.WrongElements
	}
	c.Reasons = slices.Compact(slices.Sorted(slices.Values(append(c.Reasons, o.Reasons...))))
}

// text is a short account, "; in pieces: ..."; "" for nil.
func (c *CutCounts) text() string {
	if c == nil {
		return ""
	}
	if c.Steps == 0 && len(c.Reasons) > 0 {
		return "; " + strings.Join(c.Reasons, "; ")
	}
	s := fmt.Sprintf("; in pieces: %d of %d pass steps", c.JudgedSteps, c.Steps)
	for _, l := range c.Levels[levelRegions:] {
		if l.Pieces > 0 {
			s += fmt.Sprintf(", %d %s (%d elements judged, %d undecided)", l.Pieces, l.Level, l.JudgedElements, l.UndecidedElements)
		}
	}
	if c.UnreachedSteps+c.UnreachedPieces > 0 {
		s += fmt.Sprintf("; not reached within the work limit: %d pass steps, %d pieces", c.UnreachedSteps, c.UnreachedPieces)
	}
	return s
}

// cutIterations is how many iterations of a loop are judged where the loop as a
// whole cannot be: the first ones and the last ones.
const cutIterations = 4

// cutFaults bounds the wrong pieces of one program that are followed up.
const cutFaults = 4

// cutter judges a program in pieces.
type cutter struct {
	*caseRun
	asked  *asked
	counts *CutCounts
	found  []observedFinding // of the whole program
	out    []observedFinding
	base   *triage.Trail // made when needed
}

// cut judges a program that ran, but of which the reference knows too little:
// every step of head's passes by the regions that it changed, and head's
// optimised module kernel by kernel. It returns what is wrong in the pieces and
// not known from found; nil counts say that there was nothing to cut.
func (k *caseRun) cut(ctx context.Context, answers []answer, found []observedFinding) ([]observedFinding, *CutCounts) {
	head := k.run.cfg.Head
	if k.run.cfg.NoCut || k.c.Module == nil || head.Python != "" || ctx.Err() != nil {
		return nil, nil
	}
	c := &cutter{caseRun: k, found: found, counts: newCutCounts()}
	for i, a := range k.asked {
		if a.strict == nil || i >= len(answers) || answers[i].head != Right && answers[i].head != Undecided && answers[i].head != Wrong {
			continue
		}
		if w := triage.WideElements(a.strict); w > 0 || answers[i].undecided > 0 {
			c.asked = a
			p := &c.counts.Levels[levelProgram]
			p.Pieces, p.JudgedElements, p.UndecidedElements, p.WideElements = 1, answers[i].judged, answers[i].undecided, w
			break
		}
	}
	if c.asked == nil {
		return nil, nil
	}
	if n, limit := k.c.Module.NumInstructions(), k.run.cfg.CutLimit; limit > 0 && n > limit {
		c.counts.Whole = 1
		c.counts.Reasons = []string{k.c.Name + ": " + uncut(c.counts.Levels[levelProgram].UndecidedElements, n, limit)}
		return nil, c.counts
	}
	trail, err := k.passTrail(ctx, k.run.cfg.Runner, head, k.c.Module, false)
	if err != nil || !trail.Complete() {
		return nil, nil
	}
	c.steps(ctx, trail)
	c.kernels(ctx, trail)
	if ctx.Err() != nil {
		return nil, nil
	}
	return c.out, c.counts
}

// uncut says what a program that was left whole leaves open.
func uncut(undecided int64, instructions, limit int) string {
	return fmt.Sprintf("%d undecided elements; a program of %d instructions, more than --cut-limit %d, is left whole", undecided, instructions, limit)
}

// guiltyRegion is a step that changed the meaning of a region.
type guiltyRegion struct {
	state *triage.State
	step  *triage.RegionStep
}

// regions judges every step of a trail by what it changed, as far as the limit
// on work allows, and returns the first guilty one of each pass. count, if not
// nil, is added to.
func (c *cutter) regions(ctx context.Context, t *triage.Trail, count *CutCounts) []guiltyRegion {
	args := values(c.asked.Inputs)
	room := c.run.cfg.CutWork / 2
	start := c.run.cfg.Now()
	defer func() { c.run.referenceTime.add(c.run.cfg.Now().Sub(start)) }()
	if count == nil {
		count = newCutCounts() // nobody asks
	}
	var guilty []guiltyRegion
	for _, i := range c.byFocus(t) {
		s := &t.States[i]
		count.Steps++
		if s.Err != nil {
			count.Reasons = append(count.Reasons, s.Key.Pass+": "+s.Err.Error())
			continue
		}
		if c.run.cfg.CutWork > 0 && room <= 0 {
			count.UnreachedSteps++
			count.UnreachedPasses = append(count.UnreachedPasses, s.Key.Pass)
			continue
		}
		r, err := triage.ValidateRegions(ctx, t.StateBefore(i), s.Module, args, passOptions, "")
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			count.Reasons = append(count.Reasons, s.Key.Pass+": "+err.Error())
			continue
		}
		room -= r.Work
		switch r.Standing {
		case triage.Guilty:
			guilty = append(guilty, guiltyRegion{s, r})
			count.JudgedSteps++
		case triage.Unknown:
			count.Reasons = append(count.Reasons, s.Key.Pass+": "+r.Detail)
		default:
			count.JudgedSteps++
		}
		l := &count.Levels[levelRegions]
		l.Pieces += r.Regions - r.Unknown
		l.Unsupported += r.Unknown
		l.JudgedElements += r.Elements - r.Undecided
		l.UndecidedElements += r.Undecided
		l.WrongElements += r.Wrong
	}
	slices.Sort(count.UnreachedPasses)
	count.UnreachedPasses = slices.Compact(count.UnreachedPasses)
	slices.SortFunc(guilty, func(a, b guiltyRegion) int { return a.state.Number - b.state.Number })
	var out []guiltyRegion
	for _, g := range guilty {
		if !slices.ContainsFunc(out, func(o guiltyRegion) bool { return o.state.Key.Pass == g.state.Key.Pass }) {
			out = append(out, g)
		}
	}
	return out
}

// byFocus are the numbers of a trail's states, those of the passes with the
// highest weights first, and in the order of the pipeline.
func (c *cutter) byFocus(t *triage.Trail) []int {
	order := make([]int, len(t.States))
	weight := make([]int, len(t.States))
	for i := range order {
		order[i] = i
		for _, f := range c.run.cfg.Passes {
			if f.Matches(t.States[i].Key.Pass) {
				weight[i] = max(weight[i], f.Weight)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return weight[b] - weight[a] })
	return order
}

// steps follows the guilty steps of head up.
func (c *cutter) steps(ctx context.Context, trail *triage.Trail) {
	for _, g := range c.regions(ctx, trail, c.counts) {
		if c.known(g.state.Key.Pass) {
			continue
		}
		r := g.step
		piece := c.piece(triage.Program{Module: r.Region.Before, Inputs: r.Region.Inputs}, false)
		f, ok := piece.finding(ctx)
		if ok {
			f.Witnesses = append(f.Witnesses, WitnessPasses)
			f.Detail = appendDetail(f.Detail, "the piece that the pass step changed, on the values that it sees in the program")
		} else {
			f = c.stepFinding(ctx, g)
		}
		f.Pass, f.Level, f.Piece = &PassStep{Pipeline: g.state.Key.Pipeline, Index: g.state.Key.Index, Name: g.state.Key.Pass}, LevelHLO, "region"
		f.locate(&triage.Step{Regions: r}, nil)
		c.file(f, piece)
	}
}

// known reports whether the whole program showed what comes from a pass.
func (c *cutter) known(pass string) bool {
	return slices.ContainsFunc(slices.Concat(c.found, c.out), func(f observedFinding) bool {
		return f.Status != Contested && f.Pass != nil && f.Pass.Name == pass
	})
}

// stepFinding is the finding of a guilty step that the piece alone does not show
// when it is compiled: per-pass validation is the first witness, the execution
// of both sides of the step on head the second.
func (c *cutter) stepFinding(ctx context.Context, g guiltyRegion) observedFinding {
	r, w := g.step, g.step.Where
	f := observedFinding{raw: New, Finding: Finding{
		Class: classOf(w.Type, w.Was, w.Is), Status: New, Stream: fuzz.OwnStream, Flags: ComparisonFlags, Output: fmt.Sprint(w.Output),
		Elements: r.Elements, Wrong: max(r.Wrong, 1), Contest: contestNames(w.Contest), Witnesses: []string{WitnessPasses},
		First: First{At: w.At, Base: w.Before, Head: w.After, Legal: w.Before}, Base: Right, Head: Wrong,
		Detail: "seen in what the pass step changed, on the values that it sees in the program",
	}}
	switch {
	case w.Contest != 0:
		f.Status = Contested
	case c.guiltyInBase(ctx, g.state.Key.Pass):
		f.Status, f.raw, f.Base, f.First.Base = PreExisting, PreExisting, Wrong, w.After
	}
	agree := 0
	for range confirmations {
		if t, _ := triage.CrossExecute(ctx, fresher{c.run.cfg.Runner}, c.run.cfg.Head, r.Region.Before, r.Region.After, r.Region.Inputs, passOptions, comparisonFlags); t == triage.Agrees {
			agree++
		}
	}
	if agree == confirmations {
		f.Witnesses = append(f.Witnesses, WitnessCross)
		f.Confirmed = fmt.Sprintf("%d of %d", agree, confirmations)
		f.Blocking = f.Status == New
	} else if f.Status == New {
		f.Detail = appendDetail(f.Detail, "not blocking: no second witness")
	}
	return f
}

// guiltyInBase reports whether base's pass of that name changes the meaning of
// the program, too.
func (c *cutter) guiltyInBase(ctx context.Context, pass string) bool {
	if c.run.cfg.Base == c.run.cfg.Head || c.run.cfg.Base.ID == c.run.cfg.Head.ID {
		return true
	}
	if c.base == nil {
		var err error
		if c.base, err = c.passTrail(ctx, c.run.cfg.Runner, c.run.cfg.Base, c.c.Module, false); err != nil {
			return false
		}
	}
	return slices.ContainsFunc(c.regions(ctx, c.base, nil), func(g guiltyRegion) bool { return g.state.Key.Pass == pass })
}

// kernels replays head's optimised module piece by piece.
func (c *cutter) kernels(ctx context.Context, trail *triage.Trail) {
	if trail.Optimised == nil {
		c.counts.Reasons = append(c.counts.Reasons, "the build does not show its optimised module")
		return
	}
	r := c.replay(ctx, c.run.cfg.Head, trail.Optimised)
	for l, t := range r.Levels {
		n := &c.counts.Levels[levelComputations+l]
		n.Pieces, n.Unsupported, n.JudgedElements, n.UndecidedElements, n.WideElements, n.WrongElements = t.Pieces, t.Unsupported, t.Judged, t.Undecided, t.Loose, t.Wrong
	}
	c.counts.UnreachedPieces = r.Why[triage.NotReached]
	for why := range r.Why {
		c.counts.Reasons = append(c.counts.Reasons, firstLine(why))
	}
	slices.Sort(c.counts.Reasons)
	c.counts.Reasons = slices.Compact(c.counts.Reasons)
	for _, fault := range r.Faults {
		c.kernel(ctx, trail, fault)
	}
}

func (c *cutter) replay(ctx context.Context, b *builds.Build, optimised *hlo.Module) *triage.Replay {
	return triage.ReplayPieces(ctx, c.run.cfg.Runner, b, optimised, c.asked.Inputs, comparisonFlags,
		triage.ReplayLimits{Iterations: cutIterations, Faults: cutFaults, Steps: c.run.cfg.CutWork / 2, Timeout: c.request(ComparisonFlags).Timeout})
}

// kernel follows up a piece that head computes wrongly. First as a program that
// goes through all passes, then behind the passes, then where it was seen.
func (c *cutter) kernel(ctx context.Context, trail *triage.Trail, fault triage.PieceFault) {
	pass, level := &PassStep{Name: codeGeneration}, LevelEmitter
	if fault.Library {
		level = LevelLibrary
		if by := trail.Introduced(fault.Instruction.Name); by != nil {
			pass = &PassStep{Pipeline: by.Key.Pipeline, Index: by.Key.Index, Name: by.Key.Pass}
		}
	}
	if c.known(pass.Name) {
		return
	}
	var piece *cutPiece
	var f observedFinding
	ok := false
	if flat := triage.Plain(fault.Program); flat.Module != nil {
		piece = c.piece(flat, false)
		f, ok = piece.finding(ctx)
	}
	if !ok {
		piece = c.piece(fault.Program, true)
		f, ok = piece.finding(ctx)
		f.Detail = appendDetail(f.Detail, "the piece is behind the passes: it shows with run_backend_only")
	}
	if !ok {
		w := fault.Where
		f = observedFinding{raw: New, Finding: Finding{
			Class: BufferCorruption, Status: New, Stream: fuzz.OwnStream, Flags: ComparisonFlags, Output: fmt.Sprint(w.Output),
			Elements: fault.Elements, Wrong: fault.Wrong, Contest: contestNames(w.Contest), Witnesses: []string{WitnessExecution},
			First: First{At: w.At, Base: w.Before, Head: w.After, Legal: w.Before}, Base: Right, Head: Wrong,
			Detail: "the piece is wrong inside the program and right alone; not blocking: no second witness",
		}}
		if w.Contest != 0 {
			f.Status = Contested
		} else if c.run.cfg.Base.ID == c.run.cfg.Head.ID {
			f.Status, f.raw, f.Base, f.First.Base = PreExisting, PreExisting, Wrong, w.After
		}
	}
	f.Detail = appendDetail(f.Detail, fmt.Sprintf("%%%s of %%%s, on the values that it reads in the program", fault.Instruction.Name, fault.Computation.Name))
	f.Pass, f.Level, f.Piece = pass, level, [...]string{"computation", "fusion", "operation"}[fault.Level]
	f.Instruction, f.kernel = fault.Instruction.Name, triage.KernelKind(fault.Instruction, false)
	f.Location = &Location{Computation: fault.Computation.Name, Opcode: fault.Instruction.Op.String(), InPlace: fault.InPlace,
		Source: triage.Source(fault.Instruction), LegalBefore: fault.Where.Before, LegalAfter: fault.Where.After}
	c.file(f, piece)
}

// file adds a finding in the terms of the whole program; its smallest program
// is the piece.
func (c *cutter) file(f observedFinding, p *cutPiece) {
	if f.reduced == nil {
		f.reduced = p.c
	}
	f.behind = p.base.BackendOnly
	f.Stream = c.asked.Name
	c.out = append(c.out, f)
}

// cutPiece is a piece as a case of its own.
type cutPiece struct{ *caseRun }

// piece makes a case of a piece; behind says that it is behind the passes.
func (c *cutter) piece(p triage.Program, behind bool) *cutPiece {
	small := &fuzz.Case{Name: c.c.Name, Module: p.Module, Text: p.Module.String(), Own: true, Inputs: p.Inputs,
		Notes: "a piece of case " + c.c.Name + ", with the values that it sees there on " + c.asked.Name + " inputs\n"}
	for _, l := range p.Inputs {
		small.InputLines = append(small.InputLines, l.String())
	}
	if behind {
		small.Notes += "The program is behind the HLO passes: compile it with run_backend_only.\n"
	}
	k := &caseRun{run: c.run, c: small}
	if data, err := hlo.MarshalModule(p.Module); err == nil {
		k.base = worker.Request{Program: data, Format: worker.HLO, BackendOnly: behind}
	}
	return &cutPiece{k}
}

// finding judges the piece on both builds and confirms what is wrong; ok is
// false if nothing is. A piece that a build refuses, or dies of, tells nothing.
func (p *cutPiece) finding(ctx context.Context) (f observedFinding, ok bool) {
	in := p.c.Inputs
	ref, err := p.run.reference(ctx, p.c.Module, in, eval.Options{MaxSteps: generatedSteps})
	if err != nil || p.base.Program == nil {
		return f, false
	}
	p.asked = []*asked{{Stream: fuzz.Stream{Name: fuzz.OwnStream, Inputs: in, Lines: p.c.InputLines}, arguments: arguments(in), strict: ref, relax: func() *eval.Value { return ref }}}
	sides := p.executeBoth(ctx, ComparisonFlags)
	a := judge(question{stream: fuzz.OwnStream, flags: ComparisonFlags, reference: ref, base: sides[0][0], head: sides[1][0]})
	found := gather(p.c, []answer{a})
	found = slices.DeleteFunc(found, func(f observedFinding) bool {
		return f.Class == Crash || f.Class == Hang || f.Status == Fixed || f.Status == ReferenceDisputed
	})
	if len(found) == 0 {
		return f, false
	}
	best := 0
	for i := range found {
		if found[i].gravity() < found[best].gravity() {
			best = i
		}
	}
	f = found[best]
	p.confirm(ctx, &f)
	if f.Blocking && p.run.cfg.Probes > 0 {
		p.minimise(ctx, &f, p.run.cfg.Probes)
	}
	return f, true
}
