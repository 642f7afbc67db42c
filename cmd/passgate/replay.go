package main

import (
	"errors"
	"fmt"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
)

// maxShown bounds the text of one array.
const maxShown = 300

// replayCmd runs cases on builds.
type replayCmd struct {
	runFlags
	PassesOnly  bool     `help:"Compile up to code generation and judge every pass step; execute nothing. Compile-only builds are always used so." xor:"stage"`
	BackendOnly bool     `help:"The cases are behind the HLO passes: compile them with run_backend_only." xor:"stage"`
	CutLimit    int      `help:"Largest program, in instructions, that is judged in pieces; 0 is no limit." default:"0" placeholder:"N"`
	CutWork     int64    `help:"Work on the pieces of one program, in steps of the reference; what it leaves out is counted and named. 0 is no limit." default:"16777216" placeholder:"N"`
	Build       []string `help:"Build to run on; may be given several times." required:"" placeholder:"SPEC" sep:"none"`
	Cases       []string `arg:"" name:"case" help:"Files or directories of cases."`
	JSON        bool     `help:"Print one JSON object per case and build."`
}

func (c *replayCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	cases, err := loadCases(c.Cases)
	if err != nil {
		return err
	}
	found, err := a.fetch(c.buildFlags, c.Build...)
	if err != nil {
		return err
	}
	pool, err := a.pool(c.workers(), c.Timeout)
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg := gate.Config{Runner: pool, Now: a.now, Seed: c.Seed, Timeout: c.Timeout, PassesOnly: c.PassesOnly, BackendOnly: c.BackendOnly, CutLimit: c.CutLimit, CutWork: c.CutWork}
	for _, k := range cases {
		for _, b := range found {
			r := gate.Replay(a.ctx, cfg, b, k)
			if a.ctx.Err() != nil {
				return a.ctx.Err()
			}
			if r.Outcome == gate.Infrastructure {
				a.code = exitInconclusive
			}
			if c.JSON {
				if err := a.emit(line{Case: r.Case, Build: r.Build, Outcome: string(r.Outcome), Detail: r.Detail}); err != nil {
					return err
				}
				continue
			}
			a.printReplay(r)
		}
	}
	return nil
}

func (a *app) printReplay(r gate.Replayed) {
	fmt.Fprintf(a.stdout, "%s on %s: %s\n", r.Case, r.Build, r.Outcome)
	if len(r.Runs) == 0 && r.Detail != "" {
		fmt.Fprintf(a.stdout, "  %s\n", oneLine(r.Detail))
	}
	printCut(a.stdout, r.Cut)
	for _, w := range r.Wrong {
		fmt.Fprintf(a.stdout, "  wrong: %s\n", oneLine(w))
	}
	for _, run := range r.Runs {
		fmt.Fprintf(a.stdout, "  %s inputs, %s flags: %s\n", run.Stream, run.Flags, run.Outcome)
		if run.Detail != "" && len(run.Outputs) == 0 {
			fmt.Fprintf(a.stdout, "    %s\n", oneLine(run.Detail))
		}
		for i, o := range run.Outputs {
			fmt.Fprintf(a.stdout, "    output %d: %s\n", i, shorten(o.Got.String(), maxShown))
			if o.Reference == nil {
				continue
			}
			fmt.Fprintf(a.stdout, "    reference: %s\n", shorten(centres(o.Reference, o.Got.Shape), maxShown))
			if len(o.Wrong) == 0 {
				fmt.Fprintf(a.stdout, "    legal\n")
			}
			for _, w := range o.Wrong {
				fmt.Fprintf(a.stdout, "    wrong: %s\n", w)
			}
		}
	}
}

// centres renders the centres of the reference's legal sets.
func centres(v *eval.Array, shape *hlo.Shape) string {
	lit, err := (&eval.Value{Array: v}).Literal(shape)
	if err != nil {
		return err.Error()
	}
	return lit.String()
}

// evalCmd is the reference interpreter.
type evalCmd struct {
	Cases  []string `arg:"" name:"case" help:"Files or directories of cases."`
	Seed   uint64   `help:"Seed of the generated inputs." default:"1"`
	Bounds bool     `help:"Print the legal set of every element instead of its centre."`
	JSON   bool     `help:"Print one JSON object per case."`
}

// evalLine is the --json line of eval.
type evalLine struct {
	line
	Values []string `json:"values"`
}

func (c *evalCmd) Run(a *app) error {
	cases, err := loadCases(c.Cases)
	if err != nil {
		return err
	}
	for _, k := range cases {
		out := c.evaluate(a, k)
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		if out.Outcome == "wrong" {
			a.code = exitBlocked
		}
		if c.JSON {
			if err := a.emit(out); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%s: %s", k.Name, out.Outcome)
		if out.Detail != "" {
			fmt.Fprintf(a.stdout, ": %s", oneLine(out.Detail))
		}
		fmt.Fprintln(a.stdout)
		for _, v := range out.Values {
			fmt.Fprintf(a.stdout, "  %s\n", v)
		}
	}
	return nil
}

// evaluate runs one case on its own inputs, or on the first generated stream.
// Its outcome is right or wrong where the case has a want, else ok.
func (c *evalCmd) evaluate(a *app, k *fuzz.Case) evalLine {
	out := evalLine{line: line{Case: k.Name, Outcome: "unsupported"}, Values: []string{}}
	if k.Module == nil {
		out.Detail = "the reference does not read StableHLO"
		return out
	}
	streams := k.Streams(c.Seed)
	if len(streams) == 0 {
		out.Detail = "no inputs can be made for its parameters"
		return out
	}
	v, err := gate.Interpret(a.ctx, k.Module, streams[0].Inputs, eval.Options{})
	if err != nil {
		out.Detail = err.Error()
		if errors.Is(err, eval.ErrStepLimit) {
			out.Outcome = "skipped"
		}
		return out
	}
	out.Outcome = "ok"
	if k.Want != nil && streams[0].Name == fuzz.OwnStream {
		out.Outcome = "right"
		if out.Detail = gate.DisputeWant(v, k.Want, k.Tolerance); out.Detail != "" {
			out.Outcome = "wrong"
		}
	}
	undecided, elements := 0, 0
	for i, leaf := range gate.Leaves(v) {
		elements += leaf.Len()
		for j := range leaf.Len() {
			if leaf.Legal(j, leaf.At(j)) == eval.Undecided {
				undecided++
			}
		}
		shape := k.Module.Entry.Root.Shape.Leaves()[i]
		text := centres(leaf, shape.WithoutLayout())
		if c.Bounds {
			text = shape.WithoutLayout().String() + " " + legalSets(leaf)
		}
		if !c.JSON {
			text = shorten(text, 2000)
		}
		out.Values = append(out.Values, text)
	}
	if undecided > 0 && out.Detail == "" {
		out.Detail = fmt.Sprintf("%d of %d elements undecided, printed as 0 or as one of their values", undecided, elements)
		args := make([]*eval.Value, len(streams[0].Inputs))
		for i, l := range streams[0].Inputs {
			args[i] = eval.FromLiteral(l)
		}
		for l, t := range triage.CountPieces(a.ctx, k.Module, args) {
			if t.Pieces > 0 {
				out.Detail += fmt.Sprintf("; cut to %d %s: %d of %d undecided", t.Pieces, triage.PieceLevel(l), t.Undecided, t.Judged+t.Undecided)
			}
		}
	}
	return out
}

// legalSets lists the legal sets of an array's elements.
func legalSets(v *eval.Array) string {
	s := ""
	for i := range v.Len() {
		if i > 0 {
			s += ", "
		}
		s += v.LegalSet(i)
	}
	return s
}
