// Package operation is what agents may ask of the gate, whether they are ours or
// come through MCP: run a program on both builds, evaluate it, name the guilty
// pass step, show the module around a step, reduce, list passes. Programs are
// text from strangers; they are parsed, verified and bounded before anything runs.
package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// The limits of a program that an agent hands in.
const (
	MaxText         = 64 << 10
	MaxInstructions = 400
	MaxElements     = 1 << 20 // of any one value
)

// evalSteps bounds the reference on a program that an agent hands in.
const evalSteps = 1 << 23

// maxShown is the number of elements of a value that are shown.
const maxShown = 64

// Program is a program with inputs, as agents write it.
type Program struct {
	Name string `json:"name" jsonschema:"short name: letters, digits, '-' and '_'"`
	HLO  string `json:"hlo" jsonschema:"the HLO module as text"`
	// Inputs has a line per parameter, a literal or a generator expression; empty
	// means that inputs are generated.
	Inputs []string `json:"inputs,omitempty" jsonschema:"one line per entry parameter: an HLO literal such as s32[3] {1, 2, 3}, or a generator: iota s32[9], const f32[4] 1.5, lattice f32[8] seed=3, random f32[8] seed=1, special f32[8] seed=2; leave out to have inputs generated"`
}

// ProgramError is a program that is not accepted: text that is no HLO, that the
// verifier refuses, or that is too large.
type ProgramError struct{ Reason string }

func (e *ProgramError) Error() string { return e.Reason }

var (
	name    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	section = regexp.MustCompile(`(?m)^-- .+ --\s*$`)
)

// Case parses and verifies a program. The error is a *ProgramError.
func (p Program) Case() (*fuzz.Case, error) {
	lines := strings.Join(p.Inputs, "\n")
	switch {
	case !name.MatchString(p.Name):
		return nil, &ProgramError{fmt.Sprintf("name %q: want letters, digits, '-' and '_', at most 64", p.Name)}
	case len(p.HLO)+len(lines) > MaxText:
		return nil, &ProgramError{fmt.Sprintf("%s: more than %d bytes of text", p.Name, MaxText)}
	case section.MatchString(p.HLO) || section.MatchString(lines):
		return nil, &ProgramError{p.Name + ": a line \"-- ... --\" has no place in a program"}
	}
	for _, l := range p.Inputs {
		if strings.ContainsAny(l, "\n\r") {
			return nil, &ProgramError{p.Name + ": want one line per input"}
		}
	}
	// Sizes come first: reading a case makes its inputs.
	bare, err := fuzz.ReadModule(p.Name, []byte(p.HLO))
	if err != nil {
		return nil, &ProgramError{err.Error()}
	}
	if err := bounded(p.Name, bare.Module); err != nil {
		return nil, err
	}
	if len(p.Inputs) == 0 {
		bare.Name = p.Name
		return bare, nil
	}
	archive := &txtar.Archive{Files: []txtar.File{{Name: "module.hlo", Data: []byte(p.HLO)}, {Name: "inputs", Data: []byte(lines)}}}
	c, err := fuzz.ReadCase(p.Name+".case", txtar.Format(archive))
	if err != nil {
		return nil, &ProgramError{err.Error()}
	}
	return c, nil
}

func bounded(name string, m *hlo.Module) error {
	if n := m.NumInstructions(); n > MaxInstructions {
		return &ProgramError{fmt.Sprintf("%s: %d instructions, want at most %d", name, n, MaxInstructions)}
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if in.Shape != nil && in.Shape.IsArray() && in.Shape.Elems() > MaxElements {
				return &ProgramError{fmt.Sprintf("%s: %s has %d elements, want at most %d", name, in.Name, in.Shape.Elems(), MaxElements)}
			}
		}
	}
	return nil
}

// Of is a case as a program.
func Of(c *fuzz.Case) Program {
	return Program{Name: c.Name, HLO: c.Text, Inputs: c.InputLines}
}

// Side is one of the two builds.
type Side string

const (
	Base Side = "base"
	Head Side = "head"
)

// Gate runs operations on a pair of builds. Config needs Base, Head, Runner and
// Now; with Passes also Steps and TempDir. Its cases and exploration are not used.
type Gate struct {
	Config gate.Config
	// Probes bounds a reduction; 0 is gate.DefaultProbes.
	Probes int
}

func (g *Gate) probes() int {
	if g.Probes > 0 {
		return g.Probes
	}
	return gate.DefaultProbes
}

// WithHead is the same gate with another head.
func (g *Gate) WithHead(head *builds.Build) *Gate {
	out := *g
	out.Config.Head = head
	return &out
}

// only is a configuration in which one build stands on both sides.
func (g *Gate) only(side Side) gate.Config {
	cfg := g.Config
	if side == Base {
		cfg.Head = cfg.Base
	} else {
		cfg.Base = cfg.Head
	}
	return cfg
}

// Run judges a program on base and head. The finding is nil where nothing wrong
// was seen; then the text says what was judged. The error is a *ProgramError for a
// program that cannot be judged, or ctx's.
func (g *Gate) Run(ctx context.Context, c *fuzz.Case) (*gate.Finding, string, error) {
	return investigate(ctx, g.Config, c, 0)
}

// Bisect judges a program on one build.
func (g *Gate) Bisect(ctx context.Context, side Side, c *fuzz.Case) (*gate.Finding, string, error) {
	return investigate(ctx, g.only(side), c, 0)
}

func investigate(ctx context.Context, cfg gate.Config, c *fuzz.Case, probes int) (*gate.Finding, string, error) {
	cfg.TempDir, cfg.Steps = nil, nil // no pass is counted
	f, err := gate.Investigate(ctx, cfg, c, probes)
	var config *gate.ConfigError
	switch {
	case err == nil:
		return f, "", nil
	case errors.Is(err, gate.ErrNoFinding):
		return nil, err.Error(), nil
	case errors.As(err, &config):
		return nil, "", &ProgramError{config.Reason}
	}
	return nil, "", err
}

// Reduction is the smallest program that was found to show a finding.
type Reduction struct {
	Finding *gate.Finding
	// Minimal says that another reduction of the result left the program as it is:
	// no single change of triage.Reduce keeps the fault. Input values may still be
	// exchanged for equally simple ones.
	Minimal bool
}

// maxReductions bounds the reductions of reductions.
const maxReductions = 4

// Reduce reduces what is wrong with a program until a reduction of the result
// changes nothing more. The finding is nil where nothing is wrong.
func (g *Gate) Reduce(ctx context.Context, c *fuzz.Case) (*Reduction, string, error) {
	f, why, err := investigate(ctx, g.Config, c, g.probes())
	if f == nil {
		return nil, why, err
	}
	out := &Reduction{Finding: f}
	for range maxReductions {
		small, err := fuzz.ReadCase(c.Name+".case", f.MinimalFile)
		if err != nil {
			return nil, "", &ProgramError{"the reduced program cannot be read back: " + err.Error()}
		}
		small.Name = c.Name
		again, _, err := investigate(ctx, g.Config, small, g.probes())
		if err != nil {
			return nil, "", err
		}
		if again == nil || again.Class != f.Class || again.Status != f.Status {
			return out, "", nil // it shows only now and then
		}
		next, err := fuzz.ReadCase(c.Name+".case", again.MinimalFile)
		if err != nil {
			return nil, "", &ProgramError{"the reduced program cannot be read back: " + err.Error()}
		}
		if next.Module.String() == small.Module.String() {
			out.Minimal = true
			return out, "", nil
		}
		f.Minimal, f.MinimalFile, f.Instructions = again.Minimal, again.MinimalFile, again.Instructions
	}
	return out, "", nil
}

// Check runs the whole gate on cases with passes in focus.
func (g *Gate) Check(ctx context.Context, cases []*fuzz.Case, focus []gate.Focus) (*gate.Result, error) {
	cfg := g.Config
	cfg.Cases, cfg.Passes, cfg.Explore, cfg.Probes = cases, focus, nil, g.Probes
	return gate.Run(ctx, cfg)
}

// Evaluate gives the legal sets of a program's results on its own inputs, or on
// each generated stream.
func (g *Gate) Evaluate(ctx context.Context, c *fuzz.Case) (string, error) {
	var b strings.Builder
	for _, s := range c.Streams(g.Config.Seed) {
		if c.Own && s.Name != fuzz.OwnStream {
			continue
		}
		v, err := gate.Interpret(ctx, c.Module, s.Inputs, eval.Options{MaxSteps: evalSteps, MaxElements: MaxElements})
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(&b, "%s inputs: not evaluated: %v\n", s.Name, err)
			continue
		}
		for i, leaf := range gate.Leaves(v) {
			var sets []string
			for j := range min(leaf.Len(), maxShown) {
				sets = append(sets, leaf.LegalSet(j))
			}
			fmt.Fprintf(&b, "%s inputs, output %d, %d elements: %s\n", s.Name, i, leaf.Len(), strings.Join(sets, " "))
		}
	}
	return b.String(), nil
}

// Trail compiles a program on one side and gives its pass steps.
func (g *Gate) Trail(ctx context.Context, side Side, c *fuzz.Case) (*triage.Trail, error) {
	data, err := hlo.MarshalModule(c.Module)
	if err != nil {
		return nil, &ProgramError{err.Error()}
	}
	build := g.Config.Head
	if side == Base {
		build = g.Config.Base
	}
	r := worker.Request{Program: data, Format: worker.HLO, CompileOnly: true, DumpDir: g.Config.DumpRoot, Timeout: g.Config.Timeout, Options: comparison}
	if r.Timeout == 0 {
		r.Timeout = time.Minute
	}
	return triage.NewTrail(ctx, g.Config.Runner, build, c.Module, r)
}

// comparison are the comparison flags of DESIGN section 4.
var comparison = map[string]string{"xla_cpu_enable_fast_min_max": "false", "xla_allow_excess_precision": "false"}

// CodeGeneration is the name of everything behind the HLO passes.
const CodeGeneration = "code generation"

// Steps lists a trail: one "pipeline/index/pass" per line.
func Steps(t *triage.Trail) string {
	var b strings.Builder
	for _, s := range t.States {
		fmt.Fprintf(&b, "%s/%d/%s\n", s.Key.Pipeline, s.Key.Index, s.Key.Pass)
	}
	b.WriteString(CodeGeneration + "\n")
	if b.Len() > 16<<10 {
		return Shorten(b.String(), 16<<10)
	}
	return b.String()
}

// Around gives the modules before and after a pass step of a trail, as
// "pipeline/index/pass" or CodeGeneration; after is nil for the latter. The error
// is a *ProgramError.
func Around(t *triage.Trail, step string) (before, after *hlo.Module, err error) {
	if step == CodeGeneration {
		if t.Optimised == nil {
			return nil, nil, &ProgramError{"the compilation did not get to code generation"}
		}
		return t.Optimised, nil, nil
	}
	before = t.Before
	for _, s := range t.States {
		if fmt.Sprintf("%s/%d/%s", s.Key.Pipeline, s.Key.Index, s.Key.Pass) == step {
			if s.Module == nil {
				return nil, nil, &ProgramError{"the dump of that step cannot be read: " + s.Err.Error()}
			}
			return before, s.Module, nil
		}
		if s.Module != nil {
			before = s.Module
		}
	}
	return nil, nil, &ProgramError{fmt.Sprintf("the dumps have no pass step %q; they have:\n%s", step, Steps(t))}
}

// Find gives an instruction's text in a module, "" if there is none of that name.
func Find(m *hlo.Module, instruction string) string {
	if m == nil {
		return ""
	}
	instruction = strings.TrimPrefix(instruction, "%")
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if in.Name == instruction {
				return in.String()
			}
		}
	}
	return ""
}

// Describe says what a finding is, for an agent. Long literals are cut.
func Describe(f *gate.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "finding %s: %s, %s, case %s\n%s\n", f.ID, f.Class, f.Status, f.Case, f.Said())
	if f.First.Legal != "" {
		fmt.Fprintf(&b, "first wrong element: output %s%v: base %s, head %s, legal %s\n", f.Output, f.First.At, f.First.Base, f.First.Head, f.First.Legal)
	}
	if f.Pass != nil {
		fmt.Fprintf(&b, "guilty pass step: %s (level %s)\n", f.Pass, f.Level)
	}
	if f.Instruction != "" {
		fmt.Fprintf(&b, "instruction: %s\n", f.Instruction)
	}
	if len(f.Contest) > 0 {
		fmt.Fprintf(&b, "rests on argued semantics: %s\n", strings.Join(f.Contest, ", "))
	}
	program := string(f.MinimalFile)
	if program == "" {
		program = f.Minimal // of a result that was read from JSON
	}
	fmt.Fprintf(&b, "smallest program known, %d instructions:\n%s\n", f.Instructions, Shorten(program, 6000))
	return b.String()
}

// Shorten cuts a text and says so.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return fmt.Sprintf("%s... (%d more bytes)", strings.ToValidUTF8(s[:n], ""), len(s)-n)
}

// Passes lists registered passes whose name, class or summary holds a text.
func Passes(contains string) string {
	var b bytes.Buffer
	n := 0
	for _, p := range passes.All() {
		if !strings.Contains(strings.ToLower(p.Name+" "+p.Class+" "+p.Summary), strings.ToLower(contains)) {
			continue
		}
		fmt.Fprintf(&b, "%s: %s (%s; %s)\n", p.Name, p.Summary, p.Class, strings.Join(p.Files, ", "))
		n++
	}
	if n == 0 {
		return "no pass has that in its name, class or summary\n"
	}
	return b.String()
}

// Affected says which passes changed files reach, heaviest first. The error is a
// *ProgramError.
func Affected(files []string) (string, error) {
	if len(files) == 0 {
		return "", &ProgramError{"want the paths of changed files in XLA's tree"}
	}
	var changes []passes.Change
	for _, f := range files {
		changes = append(changes, passes.Change{File: f})
	}
	var b strings.Builder
	plan := passes.Affected(changes)
	for _, f := range plan.Files {
		fmt.Fprintf(&b, "%s: %s, reaches %d passes\n", f.Name, f.Reason, f.Passes)
	}
	for i, f := range plan.Focus {
		if i == 50 {
			fmt.Fprintf(&b, "... %d more passes\n", len(plan.Focus)-i)
			break
		}
		fmt.Fprintf(&b, "weight %d: %s: %s\n", f.Weight, f.Pass.Name, f.Reason)
	}
	return b.String(), nil
}

// Worse reports whether a result has findings that are new.
func Worse(r *gate.Result) []gate.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f gate.Finding) bool { return !f.Blocking && f.Status != gate.New })
}
