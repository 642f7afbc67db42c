package reports

import (
	"fmt"
	"strings"

	"github.com/passgate/passgate/gate"
)

// Blame says in one sentence who is guilty of a finding, what made it possible,
// what each witness saw, and how all of that can be true at once.
func Blame(f *gate.Finding) string {
	return blame(f, func(s string) string { return Neutral(s, 300) })
}

// blame is Blame with foreign text made harmless by quote.
func blame(f *gate.Finding, quote func(string) string) string {
	out := accused(f, quote)
	if said := witnessed(f, quote); len(said) > 0 {
		out += ": " + strings.Join(said, "; ")
	}
	if why := reconciled(f); why != "" {
		out += "; " + why
	}
	return out
}

// culprit is who is guilty, in a few words that stand behind "by".
func culprit(f *gate.Finding) string {
	switch f = shown(f); {
	case f.Pass != nil && f.Level == gate.LevelLibrary && f.Pass.Pipeline != "":
		return "the library behind " + f.Pass.Name
	case f.Pass != nil:
		return f.Pass.Name
	}
	return "unknown"
}

// byCulprit is " by " (in a crash or hang " in ") and the culprit, made harmless by
// quote; "" while it is unknown.
func byCulprit(f *gate.Finding, quote func(string) string) string {
	switch {
	case shown(f).Pass == nil:
		return ""
	case f.Class == gate.Crash || f.Class == gate.Hang:
		return " in " + quote(culprit(f))
	}
	return " by " + quote(culprit(f))
}

func accused(f *gate.Finding, quote func(string) string) string {
	what := ""
	if f.Instruction != "" {
		what = quote(f.Instruction)
		if f.Location != nil && f.Location.Opcode != "" {
			what += " (" + quote(f.Location.Opcode) + ")"
		}
	}
	step, by := "", ""
	if f.Pass != nil && f.Pass.Pipeline != "" {
		step = "the pass step " + quote(f.Pass.String())
	} else if f.Pass != nil {
		step = quote(f.Pass.Name)
	}
	if f.EnabledBy != nil {
		by = "the pass step " + quote(f.EnabledBy.String())
	}
	switch {
	case f.Class == gate.Hang && step == "":
		return "Where it hangs is not known"
	case f.Class == gate.Crash && step == "":
		return "Where it dies is not known"
	case f.Class == gate.Hang || f.Class == gate.Crash || f.Level == gate.LevelAbort:
		return "It ends in " + step
	case f.Level == gate.LevelHLO && step != "":
		out := "Guilty is " + step
		switch {
		case what != "" && f.Location != nil && f.Location.AfterOpcode != "":
			out += fmt.Sprintf(", which makes a wrong %s of %s", quote(f.Location.AfterOpcode), what)
		case what != "":
			out += ", at " + what
		}
		if by != "" {
			out += ", of what " + by + ", right by itself, left"
		}
		return out
	case f.Level == gate.LevelLibrary:
		out := "Guilty is a library"
		if what != "" {
			out += " that computes " + what
		}
		if f.Pass != nil && f.Pass.Pipeline != "" {
			out += "; " + step + " hands the work to it"
		}
		return out
	case f.Level == gate.LevelEmitter:
		out := "Guilty is code generation"
		if what != "" {
			out += " for " + what
		}
		if by != "" {
			out += ", which " + by + " made"
		}
		return out
	case step != "":
		return "Suspected is " + step
	}
	return "Who is guilty is not known"
}

// witnessed is what each witness says, those of the place of the fault last.
func witnessed(f *gate.Finding, quote func(string) string) []string {
	spoke := map[string]bool{}
	for _, e := range f.Evidence {
		spoke[e.Witness] = true
	}
	var out []string
	for _, w := range f.Witnesses {
		if !spoke[w] {
			out = append(out, fmt.Sprintf("%s (%s)", sawWord(f.Class, w), quote(w)))
		}
	}
	for _, e := range f.Evidence {
		out = append(out, Testimony(&e, quote))
	}
	return out
}

// Testimony is what one witness says of the place of a fault, with foreign text
// made harmless by quote.
func Testimony(e *gate.Evidence, quote func(string) string) string {
	says := quote(e.Detail)
	if says == "" {
		says = "no word"
	}
	if e.Says == gate.Unknowing {
		says = "cannot tell: " + says
	}
	return fmt.Sprintf("%s (%s)", says, quote(e.Witness))
}

// sawWord is what a witness saw that has no words of its own.
func sawWord(c gate.Class, witness string) string {
	switch witness {
	case gate.WitnessExecution:
		switch c {
		case gate.Crash:
			return "compiled and run, it dies"
		case gate.Hang:
			return "compiled and run, it gives no answer"
		case gate.Nondeterminism:
			return "executions on the same inputs differ"
		case gate.BufferCorruption:
			return "an execution shows it"
		}
		return "the compiled program gives wrong values"
	case gate.WitnessPasses:
		return "evaluated by the reference, the module after the step means something else"
	case gate.WitnessStates:
		return "the module before the step runs right, the one after it wrong"
	case gate.WitnessCross:
		return "run by another build, the module before the step is right, the one after it wrong"
	case gate.WitnessCompiler:
		return "the compiler gives no program"
	case gate.WitnessPlacement:
		return "the compiled schedule overwrites a value or reads what was never written"
	case gate.WitnessGuard:
		return "a run in guarded memory touches what it must not"
	case gate.WitnessStatistics:
		return "over many elements the results are less accurate"
	}
	return "seen"
}

// reconciled says how witnesses can both be right that seem not to agree.
func reconciled(f *gate.Finding) string {
	says := map[string]gate.Says{}
	for _, e := range f.Evidence {
		says[e.Witness] = e.Says
	}
	passes, states := says[gate.WitnessPasses], says[gate.WitnessStates]
	switch {
	case f.Disagreement != "":
		return "the witnesses disagree: a later step may undo the difference, or one of them is wrong about one of the modules"
	case passes != gate.Acquits:
		return ""
	case f.Level == gate.LevelLibrary:
		return "so the rewrite is right, and what runs in its place is wrong"
	case f.Level == gate.LevelEmitter && states == gate.Accuses:
		return "so the rewrite is right, and the code made for it is wrong"
	case f.Level == gate.LevelEmitter && states == gate.Acquits:
		return "so it shows only where the whole is compiled at once"
	case f.Level == gate.LevelEmitter:
		return "so the code made for right HLO is wrong"
	}
	return ""
}

// statement is one line about a finding; Text is foreign.
type statement struct{ What, Text string }

// maxCulprits bounds the faults of one case that are told one by one.
const maxCulprits = 8

// statements are what is known beyond the guilt: whether rounding explains it,
// how often it shows, and the other faults of the case.
func statements(f *gate.Finding) []statement {
	var out []statement
	say := func(what, format string, args ...any) {
		out = append(out, statement{what, fmt.Sprintf(format, args...)})
	}
	m := shown(f)
	if c := Cause(m.Location); c != "" {
		say("cause", "%s", c)
	}
	if m.FailureRate != nil {
		say("not every time", "%s", m.FailureRate.Text())
	}
	for i, c := range f.Culprits {
		if i == maxCulprits {
			say("more faults in the case", "%d, in finding.json", len(f.Culprits)-i)
			break
		}
		s := fmt.Sprintf("%s (%s)", c.Pass.String(), c.Level)
		if c.Instruction != "" {
			s += " at " + c.Instruction
		}
		if c.Elements > 0 {
			s += fmt.Sprintf(": %d of %d elements changed, output %s%v from %s to %s", c.Wrong, c.Elements, c.Output, c.At, c.Before, c.After)
		}
		if c.EnabledBy != nil {
			s += ", enabled by " + c.EnabledBy.String()
		}
		if cause := Cause(c.Location); cause != "" && i > 0 {
			s += ", " + cause
		}
		say(fmt.Sprintf("fault %d of %d of the case", i+1, len(f.Culprits)), "%s", s)
	}
	return out
}

// Cause says whether rounding explains a fault; "" if nobody asked.
func Cause(l *gate.Location) string {
	switch {
	case l == nil || l.Cause == "":
		return ""
	case len(l.Widened) > 0:
		side := ""
		if l.WidenedBefore {
			side = " of the module before"
		}
		return fmt.Sprintf("%s: the difference vanishes with %s%s in f64", l.Cause, strings.Join(l.Widened, ", "), side)
	case l.Cause == "precision":
		return "precision: half of the digits are right"
	}
	return l.Cause + ": it is no matter of rounding"
}

// shown is a finding as the program shows it that stands in the reports: its
// smallest program, or the case where that program shows nothing by itself.
func shown(f *gate.Finding) *gate.Finding {
	if f.InMinimal != nil && f.InMinimal.Shows() {
		return f.AsMinimal()
	}
	return f
}

// cut reports whether the program that is shown is smaller than the case.
func cut(f *gate.Finding) bool { return shown(f) != f }

// caseWord is the case of a finding and what was made of it.
func caseWord(f *gate.Finding) string {
	if cut(f) {
		return fmt.Sprintf("%s, cut to %s", f.Case, many(f.Instructions, "instruction"))
	}
	return f.Case
}

// extent is how much is wrong in the program that is shown.
func extent(m *gate.Finding) string {
	if m.Elements == 0 || m.Output == "" {
		return m.Said()
	}
	all := fmt.Sprintf("%d of %d elements of output %s outside the legal set", m.Wrong, m.Elements, m.Output)
	switch {
	case strings.HasPrefix(m.Detail, all):
		return m.Detail
	case m.Detail == "":
		return all
	}
	return all + "; " + m.Detail
}

// inCase is what the case itself shows of a finding whose program was cut, with
// foreign text made harmless by quote; "" where the program is that of the case.
func inCase(f *gate.Finding, quote func(string) string) string {
	if !cut(f) {
		return ""
	}
	out := fmt.Sprintf("the whole case %s, on %s: %s", quote(f.Case), quote(inputsWord(f)), quote(extent(f)))
	if f.First.Legal != "" && f.Output != "" {
		out += "; first " + quote(firstWord(f))
	}
	return out
}
