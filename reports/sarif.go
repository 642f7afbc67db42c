package reports

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/passgate/passgate/gate"
)

// The subset of SARIF 2.1.0 (OASIS, 2020) that is written here.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Results     []sarifResult     `json:"results"`
		Invocations []sarifInvocation `json:"invocations"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		ExecutionSuccessful bool `json:"executionSuccessful"`
		ExitCode            int  `json:"exitCode"`
	}
	sarifResult struct {
		RuleID              string            `json:"ruleId"`
		RuleIndex           int               `json:"ruleIndex"`
		Level               string            `json:"level"`
		Message             sarifMessage      `json:"message"`
		Locations           []sarifLocation   `json:"locations"`
		PartialFingerprints map[string]string `json:"partialFingerprints"`
		Properties          map[string]any    `json:"properties"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
)

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
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "passgate"}},
		Results:     []sarifResult{},
		Invocations: []sarifInvocation{{r.Verdict != gate.Inconclusive, r.Verdict.ExitCode()}},
	}
	index := map[gate.Class]int{}
	for i, rule := range rules {
		index[rule.class] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{string(rule.class), sarifMessage{rule.what}})
	}
	for _, f := range r.Findings {
		level := "note"
		switch {
		case f.Blocking:
			level = "error"
		case f.Status == gate.New:
			level = "warning"
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: string(f.Class), RuleIndex: index[f.Class], Level: level,
			Message: sarifMessage{visible(fmt.Sprintf("%s (%s) in %s: %s", f.Class, statusWord(&f), f.Case, firstWord(&f)), false)},
			Locations: []sarifLocation{{sarifPhysical{
				sarifArtifact{caseURI(f.Case)}, sarifRegion{1}}}},
			PartialFingerprints: map[string]string{"passgateFinding/v1": f.ID},
			Properties:          map[string]any{"status": f.Status, "blocking": f.Blocking, "confirmed": f.Confirmed, "witnesses": f.Witnesses},
		})
	}
	out, err := json.MarshalIndent(sarifLog{
		Schema:  "https://json.schemastore.org/sarif-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{run},
	}, "", "  ")
	return append(out, '\n'), err
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
