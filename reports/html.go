package reports

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/passgate/passgate/gate"
)

//go:embed report.tmpl
var page string

//go:embed report.js
var script string

// longestCode bounds one program of a page, in bytes.
const longestCode = 200_000

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"text":       func(s any) string { return visible(clip(fmt.Sprint(s), 20_000), false) },
	"code":       func(s string) string { return visible(clip(s, longestCode), true) },
	"brief":      func(f *gate.Finding) string { return visible(clip(firstWord(shown(f)), 240), false) },
	"status":     func(f *gate.Finding) string { return visible(statusWord(f), false) },
	"shown":      shown,
	"by":         func(f *gate.Finding) string { return byCulprit(f, func(s string) string { return s }) },
	"blame":      Blame,
	"extent":     extent,
	"incase":     func(f *gate.Finding) string { return inCase(f, func(s string) string { return Neutral(s, 300) }) },
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

// What a page holds at most, so that a browser opens it within a second, whatever
// the size of the run (tools/crowd): what is left out is counted and said, and
// `passgate ui` shows all of it.
const (
	headlines  = 10      // blocking findings that are named first
	tabled     = 300     // findings in the table
	detailed   = 50      // of these, findings whose programs are in the page
	programs   = 2 << 20 // bytes of all these programs
	casesShown = 200     // cases in their table
)

// details is the number of findings, the gravest first, whose programs are shown.
func details(all []*gate.Finding) int {
	room := programs
	for i, f := range all[:min(len(all), detailed)] {
		room -= min(len(f.Minimal), longestCode)
		if f.Step != nil {
			room -= min(len(f.Step.Before), longestCode) + min(len(f.Step.After), longestCode)
		}
		if room < 0 {
			return max(i, 1)
		}
	}
	return min(len(all), detailed)
}

// shownCase is a row of the table of cases.
type shownCase struct {
	at int
	gate.CaseResult
}

// caseTable picks the cases that are shown: those that are not ok before those
// that are, the first of each, in the order of all.
type caseTable struct {
	seen      int
	outcomes  map[gate.Outcome]int
	ok, other []shownCase
}

func (t *caseTable) add(c *gate.CaseResult) error {
	t.outcomes[c.Outcome]++
	to := &t.other
	if c.Outcome == gate.CaseOK {
		to = &t.ok
	}
	if len(*to) < casesShown {
		*to = append(*to, shownCase{t.seen, gate.CaseResult{ID: c.ID, Outcome: c.Outcome, Base: c.Base, Head: c.Head, Detail: c.Detail}})
	}
	t.seen++
	return nil
}

func (t *caseTable) rows() []shownCase {
	out := append(t.other, t.ok[:min(len(t.ok), casesShown-len(t.other))]...)
	slices.SortFunc(out, func(a, b shownCase) int { return a.at - b.at })
	return out
}

// beginHTML begins one page that needs nothing else: its script is our own, and no
// other can run (its hash is in the page's Content-Security-Policy).
func beginHTML(w io.Writer, r *gate.Result) (rendering, error) {
	cases := &caseTable{outcomes: map[gate.Outcome]int{}}
	return rendering{cases.add, func() error { return writeHTML(w, r, cases) }}, nil
}

func writeHTML(w io.Writer, r *gate.Result, cases *caseTable) error {
	figs, err := figures(r, cases.outcomes)
	if err != nil {
		return err
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
	n := details(all)
	table := all[:min(len(all), tabled)]
	left := ""
	if rest := all[len(table):]; len(rest) > 0 {
		k := tally{all: len(rest), status: map[gate.Status]int{}}
		for _, f := range rest {
			k.status[f.Status]++
			if f.Blocking {
				k.blocking++
			}
		}
		left = k.String()
	}
	rows := cases.rows()
	hash := sha256.Sum256([]byte(script))
	return pageTemplate.Execute(w, map[string]any{
		"R": r, "Verdict": verdictWords[r.Verdict], "Counts": tallyOf(r).String(), "Entries": len(all), "Broke": broke[:len(broke)-more], "MoreBroke": more, "Findings": table, "Also": also, "Details": n,
		"Undetailed": len(table) - n, "Left": left, "Figures": figs, "CellColumns": cellColumns, "CellNote": cellNote, "Reasons": reasonsOf(r), "Null": nullWord(r), "Untested": untested(r), "Cases": rows, "CasesSeen": cases.seen, "CasesLeft": cases.seen - len(rows),
		"Witnesses": strings.Join(witnesses(r), ", "), "Reproduce": reproduce(r), "Where": where(r, func(s string) string { return visible(clip(s, 1000), false) }), "Errors": errors, "New": hasNew(r),
		"Script": template.JS(script), "ScriptHash": template.HTMLAttr("sha256-" + base64.StdEncoding.EncodeToString(hash[:])),
	})
}
