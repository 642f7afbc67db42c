package release

import (
	"fmt"
	"strings"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// Limits of the page: a person reads it.
const (
	maxDefects = 200
	maxNames   = 20
	maxIdle    = 60
)

// Markdown is the report as a page.
func (r *Report) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# %s against %s: %s\n\n", text(r.Head.Spec), text(r.Base.Spec), r.Verdict)
	for _, s := range r.Reasons {
		p("- %s\n", text(s))
	}
	t := r.Totals
	p("\n%d cases: %d executed, %d by their pass steps only, %d unsupported, %d rejected, %d skipped, %d lost to the machine. %d elements judged, %d undecided. Seed %d.\n",
		t.Cases, t.Executed, t.PassesOnly, t.Unsupported, t.Rejected, t.Skipped, t.Infrastructure, t.JudgedElements, t.UndecidedElements, r.Seed)
	if s := r.Steps; s != nil {
		p("Pass steps: base %d, head %d; %d judged, %d undecided, %d unknown.\n", s.Base, s.Head, s.Judged, s.Undecided, s.Unknown)
	}
	for _, s := range []struct {
		title string
		list  []Defect
	}{{"Regressions", r.Regressions}, {"Fixed", r.Fixed}, {"Pre-existing", r.PreExisting}, {"Contested", r.Contested}, {"Only the reference differs", r.Disputed}} {
		writeDefects(&b, s.title, s.list)
	}
	if s := r.Since; s != nil {
		p("\n## Since the last release run\n\nThen: %s against %s, %d cases, %s.\n\n", text(s.Head), text(s.Base), s.Cases, s.Verdict)
		p("- defects that head has and the head of then had not: %s\n", names(s.New, maxDefects))
		p("- defects that are gone: %s\n", names(s.Gone, maxDefects))
		p("- passes that changed programs then and none now: %s\n", names(s.Idle, maxIdle))
	}
	p("\n## Accuracy\n\n")
	if len(r.Numeric) == 0 {
		p("Nothing inexact was compared.\n")
	} else {
		p("Distances from the exact values, in units in the last place. Ratio is head over base, the median over the programs with its 95 %% confidence sequence; \"~\" is no evidence.\n\n")
		p("| operation | type | inputs | programs | elements | changed | head worse | base worse | ratio | shift | e |\n|---|---|---|---:|---:|---:|---:|---:|---|---|---:|\n")
		for _, c := range r.Numeric {
			flag := ""
			if c.Discovered {
				flag = " (less accurate)"
			}
			p("| %s%s | %s | %s | %d | %d | %d | %d | %d | %s | %s | %.3g |\n", text(c.Operation), flag, text(c.Dtype), text(c.Stream), c.Programs, c.Elements, c.Changed, c.HeadWorse, c.BaseWorse,
				c.Ratio, c.Shift, c.E)
		}
	}
	p("\n## Time and memory\n\n")
	writeComparison(&b, "Compilation", "s", r.Timing.Compile)
	writeComparison(&b, "Memory of compiled programs", "bytes", r.Memory)
	c := r.Coverage
	p("\n## Passes\n\n%d passes were seen to run, of which %d changed a program.", len(c.Passes), fired(c.Passes))
	if c.Known > 0 {
		p(" Of the %d passes that the registry has for %s, %d ran and %d changed a program.", c.Known, c.Platform, c.Ran, c.Fired)
		p("\n\nWithout effect: %s\n", names(c.Idle, maxIdle))
	}
	return b.String() + "\n"
}

func fired(all []gate.PassCount) int {
	n := 0
	for _, p := range all {
		if p.Fired > 0 {
			n++
		}
	}
	return n
}

func writeDefects(b *strings.Builder, title string, list []Defect) {
	fmt.Fprintf(b, "\n## %s: %d\n\n", title, len(list))
	if len(list) == 0 {
		return
	}
	b.WriteString("| defect | class | pass | instruction | cases | seen |\n|---|---|---|---|---|---|\n")
	for i, d := range list {
		if i == maxDefects {
			fmt.Fprintf(b, "\n%d more are in release.json.\n", len(list)-i)
			break
		}
		class := string(d.Class)
		if d.Blocking {
			class += ", blocks"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", text(d.Cluster), class, text(d.Pass), text(d.Instruction), names(d.Cases, maxNames), text(d.Detail))
	}
}

func writeComparison(b *strings.Builder, what, unit string, c *Comparison) {
	if c == nil {
		fmt.Fprintf(b, "%s: not measured.\n\n", what)
		return
	}
	say := "no evidence of a difference"
	switch c.Discovered {
	case "worse":
		say = "**head needs more**"
	case "better":
		say = "head needs less"
	}
	bounds := ""
	if c.Interval != nil {
		bounds = fmt.Sprintf(" (%.3f to %.3f)", c.Interval[0], c.Interval[1])
	}
	fmt.Fprintf(b, "%s: %s. %d programs, of which head needs more for %d and less for %d; head over base %.3f%s; base %.4g %s in all, head %.4g; e %.3g against \"no more\", %.3g against \"no less\".\n\n",
		what, say, c.Programs, c.Worse, c.Better, c.Ratio, bounds, c.Total[0], unit, c.Total[1], c.EWorse, c.EBetter)
	for _, l := range c.Largest {
		apart := ""
		if l.Apart && unit == "s" {
			apart = ", in every round"
		}
		fmt.Fprintf(b, "- %s: base %.4g, head %.4g %s%s\n", text(l.Case), l.Base, l.Head, unit, apart)
	}
	if len(c.Largest) > 0 {
		b.WriteString("\n")
	}
}

func names(list []string, most int) string {
	if len(list) == 0 {
		return "none"
	}
	var out []string
	for _, s := range list[:min(most, len(list))] {
		out = append(out, text(s))
	}
	if n := len(list) - most; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// text is foreign text, made harmless, for a cell of a table.
func text(s string) string { return reports.Short(s, 300) }
