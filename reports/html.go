package reports

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"

	"github.com/passgate/passgate/gate"
)

//go:embed report.tmpl
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"text":   func(s any) string { return visible(fmt.Sprint(s), false) },
	"code":   func(s string) string { return visible(clip(s, 200_000), true) },
	"first":  func(f gate.Finding) string { return visible(firstWord(&f), false) },
	"status": func(f gate.Finding) string { return visible(statusWord(&f), false) },
	"stream": func(f gate.Finding) string { return visible(streamWord(&f), false) },
	"wrong":  func(f gate.Finding) string { return wrongWord(&f) },
}).Parse(page))

// bar is one bar of the outcomes plot; lengths in pixels.
type bar struct {
	Label        string
	Count, Width int
	Y            int
}

func renderHTML(r *gate.Result) ([]byte, error) {
	outcomes := []gate.Outcome{gate.CaseOK, gate.CaseFinding, gate.CaseUndecided, gate.CaseUnsupported, gate.CaseRejected, gate.CaseSkipped, gate.CaseInfrastructure}
	n := map[gate.Outcome]int{}
	most := 1
	for _, c := range r.Cases {
		n[c.Outcome]++
		most = max(most, n[c.Outcome])
	}
	var bars []bar
	for i, o := range outcomes {
		bars = append(bars, bar{string(o), n[o], 400 * n[o] / most, 20 * i})
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, map[string]any{"R": r, "Verdict": verdictWords[r.Verdict], "Bars": bars, "Height": 20 * len(bars)})
	return b.Bytes(), err
}
