package reports

import (
	"fmt"
	"strings"

	"github.com/passgate/passgate/gate"
)

// statement is one line about a finding; Text is foreign.
type statement struct{ What, Text string }

// maxCulprits bounds the faults of one case that are told one by one.
const maxCulprits = 8

// testimony is what is known of the guilt beyond the name of the step: what each
// witness says and whether they agree, what made the faulty place, whether
// rounding explains it, how often it shows, and the other faults of the case.
func testimony(f *gate.Finding) []statement {
	var out []statement
	say := func(what, format string, args ...any) {
		out = append(out, statement{what, fmt.Sprintf(format, args...)})
	}
	if f.EnabledBy != nil {
		say("enabled by", "%s", f.EnabledBy)
	}
	for _, e := range f.Evidence {
		say(e.Witness, "%s", evidenceWord(&e))
	}
	if f.Disagreement != "" {
		say("the witnesses disagree", "%s", f.Disagreement)
	}
	if c := Cause(f.Location); c != "" {
		say("cause", "%s", c)
	}
	if f.FailureRate != nil {
		say("not every time", "%s", f.FailureRate.Text())
	}
	for i, c := range f.Culprits {
		if i == maxCulprits {
			say("more faults in this case", "%d, in finding.json", len(f.Culprits)-i)
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
		say(fmt.Sprintf("fault %d of %d", i+1, len(f.Culprits)), "%s", s)
	}
	return out
}

func evidenceWord(e *gate.Evidence) string {
	s := string(e.Says)
	if e.Pass != nil {
		s += ", " + e.Pass.String()
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
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

// verdictOfWitnesses is the testimony in a few words: "per-pass validation
// guilty, execution of states guilty"; "" if there is none.
func verdictOfWitnesses(f *gate.Finding) string {
	var parts []string
	for _, e := range f.Evidence {
		parts = append(parts, fmt.Sprintf("%s %s", e.Witness, e.Says))
	}
	if f.Disagreement != "" {
		parts = append(parts, "the witnesses disagree")
	}
	if f.Location != nil && f.Location.Cause != "" {
		parts = append(parts, "cause "+f.Location.Cause)
	}
	if r := f.FailureRate; r != nil {
		parts = append(parts, fmt.Sprintf("fails in %d of %d executions (95 %% interval %.1f %% to %.1f %%)", r.Failed, r.Runs, 100*r.Interval[0], 100*r.Interval[1]))
	}
	if len(f.Culprits) > 1 {
		parts = append(parts, fmt.Sprintf("one of %d faults in the case", len(f.Culprits)))
	}
	return strings.Join(parts, ", ")
}
