package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
)

// gather turns the observations of a case into findings, at most one for each
// class and status: the first place where it showed, in the order of the
// flags (comparison first), streams and outputs; the others are duplicates.
func gather(c *fuzz.Case, answers []answer) []observedFinding {
	var out []observedFinding
	for _, flags := range []string{ComparisonFlags, DefaultFlags} {
		for _, a := range answers {
			for _, o := range a.observations {
				if o.flags == flags {
					out = merge(out, o)
				}
			}
		}
	}
	return foldKin(out)
}

// finish fills in what confirmation does not change and puts the gravest
// finding of a case first.
func finish(c *fuzz.Case, streams []*asked, found []observedFinding) []Finding {
	var out []Finding
	reduced := map[string]*fuzz.Case{}
	for _, f := range found {
		out = append(out, f.Finding)
		reduced[f.reducedKey()] = f.reduced
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(a.gravity(), b.gravity()) })
	ids := map[string]bool{}
	for i := range out {
		f := &out[i]
		f.Case = c.Name
		f.Minimal = c.Text
		if c.Module != nil {
			f.Instructions = c.Module.NumInstructions()
		}
		if f.Detail == "" {
			f.Detail = f.extent()
		}
		f.ID = findingID(c, f, "")
		if ids[f.ID] {
			f.ID = findingID(c, f, string(f.Status))
		}
		ids[f.ID] = true
		f.CaseFile = caseFile(c, streams, f)
		f.MinimalFile = f.CaseFile
		if small := reduced[f.reducedKey()]; small != nil {
			f.Minimal, f.Instructions, f.MinimalFile = small.Text, small.Module.NumInstructions(), small.Format()
		}
	}
	return out
}

// extent says how much is wrong.
func (f *Finding) extent() string {
	return fmt.Sprintf("%d of %d elements of output %s outside the legal set", f.Wrong, f.Elements, f.Output)
}

// brief is the finding in one line: "miscompile, new, by pipeline/3/pass: output
// 0[2] is 7, legal {6}".
func (f *Finding) brief() string {
	s := fmt.Sprintf("%s, %s", f.Class, f.Status)
	if f.Pass != nil {
		s += ", by " + f.Pass.String()
	}
	if f.Output == "" || f.First.Legal == "" {
		return s
	}
	got := f.First.Head
	if f.Status == Fixed {
		got = f.First.Base
	}
	return fmt.Sprintf("%s: output %s%v is %s, legal %s", s, f.Output, f.First.At, got, f.First.Legal)
}

// reducedKey tells the findings of one case apart.
func (f *Finding) reducedKey() string {
	pass := ""
	if f.Pass != nil {
		pass = f.Pass.Name
	}
	return strings.Join([]string{string(f.Class), string(f.Status), f.Stream, f.Flags, pass}, "\x00")
}

// observedFinding is a finding with the observation it rests on.
type observedFinding struct {
	Finding
	seen observation
	// raw is the status before the flags made it contested.
	raw Status
	// ask asks the witnesses of the guilty step that execute; nil if they were
	// asked, or there are none (see settle).
	ask func()
	// byValue says that the guilty step was found by the value that the build
	// computed: per-pass validation does not accuse it.
	byValue bool
	// astray are the sides whose values vary between executions, of the case and of
	// the smallest program.
	astray, minimalAstray [2]bool
	// disputed: another witness disagrees.
	disputed bool
	// reduced is the smallest case known, nil if it is the case itself.
	reduced *fuzz.Case
	// behind says that reduced is behind the HLO passes.
	behind bool
	// kernel is what the guilty kernel computes; "" if there is none.
	kernel string
	key    triage.Key // of the cluster
}

func merge(out []observedFinding, o observation) []observedFinding {
	raw := o.status
	for i, f := range out {
		if f.Class == o.class && f.raw == raw {
			out[i].Duplicates++
			return out
		}
	}
	if o.flags == DefaultFlags && o.class != Crash && o.class != Hang && raw != ReferenceDisputed {
		o.status = Contested
	}
	nature := ""
	if o.unwritten > 0 {
		nature = Unwritten
	}
	return append(out, observedFinding{seen: o, raw: raw, Finding: Finding{
		Nature: nature,
		Class:  o.class, Status: o.status, Stream: o.stream, Flags: o.flags, Output: o.output,
		Elements: o.elements, Wrong: o.wrong, First: o.first, Contest: contestNames(o.contest),
		Base: o.base, Head: o.head, Unstable: o.unstable, Detail: o.detail, Witnesses: []string{WitnessExecution},
	}})
}

// foldKin makes findings that say less duplicates of their kin: numeric
// degradation of a miscompile with the same status, since one wrong computation
// gives values of every distance, and a dispute on one stream of a fault that
// stands on another.
func foldKin(in []observedFinding) []observedFinding {
	var out []observedFinding
	for _, f := range in {
		if h := hostOf(in, f); h < 0 {
			out = append(out, f)
		} else {
			in[h].Duplicates += 1 + f.Duplicates
		}
	}
	for i := range out {
		out[i].Duplicates = in[slices.IndexFunc(in, func(g observedFinding) bool { return g.Class == out[i].Class && g.raw == out[i].raw })].Duplicates
	}
	return out
}

// hostOf is the index of the finding that f folds into, -1 if it stands for
// itself. No finding that folds is a host.
func hostOf(in []observedFinding, f observedFinding) int {
	return slices.IndexFunc(in, func(g observedFinding) bool {
		switch {
		case f.Status == ReferenceDisputed:
			return g.Status == PreExisting && (g.Class == Miscompile || g.Class == NumericDegradation && hostOf(in, g) < 0)
		case f.Class == NumericDegradation:
			return g.Class == Miscompile && g.Status == f.Status
		}
		return false
	})
}

// caseFile is the case with the inputs of the stream that shows the finding.
func caseFile(c *fuzz.Case, streams []*asked, f *Finding) []byte {
	for _, s := range streams {
		if s.Name == f.Stream && s.Name != fuzz.OwnStream {
			return c.WithInputs(s.Inputs, s.Lines, fmt.Sprintf("from case %s, %s inputs\n", c.Name, s.Name)).Format()
		}
	}
	return c.Format()
}

// findingID is the same for the same fault of the same case in any run: it
// holds neither builds nor status. extra keeps two findings of one output
// apart.
func findingID(c *fuzz.Case, f *Finding, extra string) string {
	pass := ""
	if f.Pass != nil {
		pass = f.Pass.Pipeline + "/" + f.Pass.Name
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{string(f.Class), c.Name, c.Hash(), f.Stream, f.Flags, f.Output, pass, extra}, "\x00")))
	return "f-" + hex.EncodeToString(sum[:6])
}

// gravity orders findings: what blocks first.
func (f *Finding) gravity() int {
	if f.Blocking {
		return 0
	}
	return map[Status]int{New: 1, PreExisting: 2, Fixed: 3, ReferenceDisputed: 4, Contested: 5}[f.Status]
}

var contests = []struct {
	bit  eval.Contest
	name string
}{
	{eval.SignedOverflow, "signed overflow"},
	{eval.OutOfRangeConvert, "out-of-range conversion"},
	{eval.DivideByZero, "integer division by zero"},
	{eval.NaNMinMax, "NaN in minimum or maximum"},
	{eval.Denormal, "subnormals"},
	{eval.OutOfRangeShift, "out-of-range shift"},
	{eval.OrderDependent, "order of duplicates"},
	{eval.Implementation, "implementation-defined"},
}

func contestNames(c eval.Contest) []string {
	var out []string
	for _, k := range contests {
		if c&k.bit != 0 {
			out = append(out, k.name)
		}
	}
	return out
}
