package reports

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/passgate/passgate/gate"
)

// maxResults is what GitHub shows of a run's results
// (docs.github.com, "SARIF support for code scanning").
const maxResults = 4999

// notListed is the rule of the one result that counts what is left out.
const notListed = "not-listed"

var rules = []struct {
	class gate.Class
	what  string
}{
	{gate.Miscompile, "The compiled program gives a value that no correct compiler may give."},
	{gate.NumericDegradation, "The compiled program is less accurate than any legal implementation."},
	{gate.Crash, "The compiler or the compiled program crashed on a valid program."},
	{gate.Hang, "The compiler or the compiled program gave no answer within the deadline."},
	{gate.BufferCorruption, "The compiled program reads or writes memory that it must not."},
	{gate.Nondeterminism, "The compiled program is wrong in some executions only."},
}

func renderSARIF(r *gate.Result) ([]byte, error) {
	driver := sarif.NewToolComponent().WithName("passgate").WithRules([]*sarif.ReportingDescriptor{})
	index := map[string]int{}
	rule := func(id, what string) {
		index[id] = len(driver.Rules)
		driver.Rules = append(driver.Rules, sarif.NewReportingDescriptor().WithID(id).WithShortDescription(sarif.NewMultiformatMessageString().WithText(what)))
	}
	for _, k := range rules {
		rule(string(k.class), k.what)
	}
	rule(notListed, "There are more findings than code scanning shows.")
	counts := tallyOf(r).String()
	run := sarif.NewRun().WithTool(sarif.NewTool().WithDriver(driver)).WithResults([]*sarif.Result{}).
		WithInvocations([]*sarif.Invocation{sarif.NewInvocation().WithExecutionSuccessful(r.Verdict != gate.Inconclusive).WithExitCode(r.Verdict.ExitCode())}).
		WithProperties(sarif.NewPropertyBag().Add("verdict", r.Verdict).Add("findings", counts))
	add := func(id, level, uri, text, fingerprint string) *sarif.Result {
		at := sarif.NewLocationWithPhysicalLocation(sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(uri)).WithRegion(sarif.NewRegion().WithStartLine(1)))
		res := sarif.NewResult().WithRuleID(id).WithRuleIndex(index[id]).WithLevel(level).WithMessage(sarif.NewTextMessage(text)).WithLocations([]*sarif.Location{at}).
			WithPartialFingerprints(map[string]string{"passgateFinding/v1": fingerprint})
		run.Results = append(run.Results, res)
		return res
	}
	all, also := leaders(gravest(r, func(*gate.Finding) bool { return true }))
	listed := all
	if len(all) > maxResults {
		listed = all[:maxResults-1]
	}
	for _, f := range listed {
		level := "note"
		switch {
		case f.Blocking:
			level = "error"
		case f.Status == gate.New:
			level = "warning"
		}
		text := Neutral(Sentence(f), 2000)
		if more := alsoWord(also[f.ID]); more != "" {
			text += "; the same defect in " + Neutral(more, 1000)
		}
		res := add(string(f.Class), level, caseURI(f.Case), text, f.ID)
		if f.Cluster != "" {
			res.PartialFingerprints["passgateDefect/v1"] = f.Cluster
		}
		res.WithProperties(sarif.NewPropertyBag().Add("status", f.Status).Add("blocking", f.Blocking).Add("confirmed", f.Confirmed).Add("witnesses", f.Witnesses))
	}
	if n := len(all) - len(listed); n > 0 {
		add(notListed, "warning", "cases", fmt.Sprintf("%d more findings are in result.json: code scanning shows %d. In all: %s.", n, maxResults, counts), notListed)
	}
	report := sarif.NewReport()
	report.AddRun(run)
	var b bytes.Buffer
	err := report.PrettyWrite(&b)
	b.WriteByte('\n')
	return b.Bytes(), err
}

// caseURI is a relative reference to the case; the case's name cannot leave
// the folder.
func caseURI(name string) string {
	var parts []string
	for _, p := range strings.Split(name, "/") {
		if p == "" || p == "." || p == ".." {
			p = "_"
		}
		parts = append(parts, url.PathEscape(visible(p, false)))
	}
	return "cases/" + strings.Join(parts, "/") + ".case"
}
