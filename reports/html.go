package reports

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"

	"github.com/passgate/passgate/gate"
)

//go:embed report.tmpl
var page string

//go:embed report.js
var script string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"text":   func(s any) string { return visible(clip(fmt.Sprint(s), 20_000), false) },
	"code":   func(s string) string { return visible(clip(s, 200_000), true) },
	"brief":  func(f *gate.Finding) string { return visible(clip(firstWord(shown(f)), 240), false) },
	"status": func(f *gate.Finding) string { return visible(statusWord(f), false) },
	"shown":  shown,
	"by": func(f *gate.Finding) string {
		if shown(f).Pass == nil {
			return ""
		}
		return " by " + culprit(f)
	},
	"blame":      Blame,
	"extent":     extent,
	"incase":     inCase,
	"case":       caseWord,
	"program":    programWord,
	"wrong":      wrongWord,
	"statements": statements,
	"many":       many,
	"guilty":     culprit,
	"cell":       func(c gate.Cell) []string { return cellRow(&c) },
	"policy":     policyLines,
	"also":       func(cases []string) string { return visible(clip(alsoWord(cases), 2_000), false) },
}).Parse(page))

// detailed is the number of findings whose programs are in the page.
const detailed = 300

// headlines is the number of blocking findings that the page names first.
const headlines = 10

// renderHTML is one page that needs nothing else: its script is our own, and no
// other can run (its hash is in the page's Content-Security-Policy).
func renderHTML(r *gate.Result) ([]byte, error) {
	figs, err := figures(r)
	if err != nil {
		return nil, err
	}
	errors := errorFigures(r)
	all, also := leaders(gravest(r, func(*gate.Finding) bool { return true }))
	var broke []*gate.Finding
	for _, f := range all {
		if f.Blocking {
			broke = append(broke, f)
		}
	}
	more := max(0, len(broke)-headlines)
	hash := sha256.Sum256([]byte(script))
	var b bytes.Buffer
	err = pageTemplate.Execute(&b, map[string]any{
		"R": r, "Verdict": verdictWords[r.Verdict], "Counts": tallyOf(r).String(), "Broke": broke[:len(broke)-more], "MoreBroke": more, "Findings": all, "Also": also, "Details": detailed,
		"Undetailed": max(0, len(all)-detailed), "Figures": figs, "CellColumns": cellColumns, "Null": nullWord(r), "Untested": untested(r),
		"Witnesses": strings.Join(witnesses(r), ", "), "Reproduce": reproduce(r), "Where": where(r, func(s string) string { return visible(clip(s, 1000), false) }), "Errors": errors, "New": hasNew(r),
		"Script": template.JS(script), "ScriptHash": template.HTMLAttr("sha256-" + base64.StdEncoding.EncodeToString(hash[:])),
	})
	return b.Bytes(), err
}
