package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/passgate/passgate/gate"
)

// Marker is the hidden first line of the sticky comment: whoever updates the
// comment finds it by this and by its author.
const Marker = "<!-- passgate:comment:v1 -->"

// maxComment keeps a comment below GitHub's limit of 65,536 characters.
const maxComment = 60000

func renderJSON(r *gate.Result) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(r)
	return b.Bytes(), err
}

var verdictWords = map[gate.Verdict]string{
	gate.Pass:         "pass",
	gate.Blocked:      "blocked: new wrong results",
	gate.NotExercised: "not exercised: the changed passes did nothing",
	gate.Inconclusive: "inconclusive",
}

func renderComment(r *gate.Result) ([]byte, error) {
	head := Marker + "\n" + headline(r) + "\n"
	var body strings.Builder
	shown := 0
	for _, f := range r.Findings {
		if !f.Blocking && f.Status != gate.New {
			continue
		}
		part := findingMarkdown(&f, 4000)
		if len(head)+body.Len()+len(part) > maxComment-4000 {
			break
		}
		body.WriteString(part)
		shown++
	}
	if n := count(r, func(f gate.Finding) bool { return f.Blocking || f.Status == gate.New }) - shown; n > 0 {
		fmt.Fprintf(&body, "\n%d more new findings are in the report.\n", n)
	}
	return []byte(head + body.String() + "\n" + footer(r)), nil
}

func renderSummary(r *gate.Result) ([]byte, error) {
	var b strings.Builder
	b.WriteString(headline(r) + "\n")
	if len(r.Findings) > 0 {
		b.WriteString("| finding | class | status | case | stream | wrong | first | confirmed |\n|---|---|---|---|---|---|---|---|\n")
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", f.ID, f.Class, inline(statusWord(&f)), inline(f.Case), inline(streamWord(&f)), wrongWord(&f), inline(firstWord(&f)), f.Confirmed)
		}
		b.WriteString("\n")
	}
	if len(r.Passes) > 0 {
		b.WriteString("| pass in focus | weight | fired | cases |\n|---|---|---|---|\n")
		for _, p := range r.Passes {
			fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", inline(p.Name), p.Weight, p.Fired, p.Cases)
		}
		b.WriteString("\n")
	}
	for _, f := range r.Findings {
		if f.Blocking {
			b.WriteString(findingMarkdown(&f, 8000))
		}
		if b.Len() > 900_000 { // GitHub takes 1 MiB per step
			b.WriteString("\nThe rest is in the report.\n")
			break
		}
	}
	b.WriteString("\n" + footer(r))
	return []byte(b.String()), nil
}

func headline(r *gate.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## passgate: %s\n\n", verdictWords[r.Verdict])
	fmt.Fprintf(&b, "base %s, head %s\n\n", inline(r.Base.Spec), inline(r.Head.Spec))
	for _, s := range r.Reasons {
		fmt.Fprintf(&b, "- %s\n", inline(s))
	}
	t := r.Totals
	fmt.Fprintf(&b, "\n%d cases, %d executed; %d output elements judged, %d not judged (undecided); %d cases unsupported, %d rejected by the builds, %d skipped, %d lost to the machine.\n",
		t.Cases, t.Executed, t.JudgedElements, t.UndecidedElements, t.Unsupported, t.Rejected, t.Skipped, t.Infrastructure)
	return b.String()
}

func footer(r *gate.Result) string {
	n := r.Statistics.Null
	rate := "not measured in this run (needs base = head)"
	if n.Cells > 0 {
		rate = fmt.Sprintf("%d of %d judged streams, 95%% interval %.2g to %.2g", n.Alarms, n.Cells, n.Interval[0], n.Interval[1])
	}
	return fmt.Sprintf("<sub>False alarms: %s. Seed %d.</sub>\n", rate, r.Seed)
}

func count(r *gate.Result, keep func(gate.Finding) bool) int {
	n := 0
	for _, f := range r.Findings {
		if keep(f) {
			n++
		}
	}
	return n
}

func statusWord(f *gate.Finding) string {
	switch {
	case f.Blocking:
		return string(f.Status) + ", blocks"
	case f.KnownIssue != "":
		return string(f.Status) + ", known issue " + f.KnownIssue
	case f.Override != "":
		return string(f.Status) + ", overridden by " + f.Override
	}
	return string(f.Status)
}

func streamWord(f *gate.Finding) string {
	if f.Flags == gate.DefaultFlags {
		return f.Stream + " (default flags)"
	}
	return f.Stream
}

func wrongWord(f *gate.Finding) string {
	if f.Elements == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", f.Wrong, f.Elements)
}

func firstWord(f *gate.Finding) string {
	if f.First.Legal == "" {
		return f.Detail
	}
	return fmt.Sprintf("output %s at %v: base %s, head %s, legal %s", f.Output, f.First.At, f.First.Base, f.First.Head, f.First.Legal)
}

func findingMarkdown(f *gate.Finding, limit int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s in %s (%s)\n\n", f.Class, inline(f.Case), inline(statusWord(f)))
	fmt.Fprintf(&b, "- finding `%s`, witnesses: %s\n", f.ID, inline(strings.Join(f.Witnesses, ", ")))
	fmt.Fprintf(&b, "- inputs: %s\n", inline(streamWord(f)))
	fmt.Fprintf(&b, "- %s\n", inline(firstWord(f)))
	if f.Confirmed != "" {
		fmt.Fprintf(&b, "- shown again in %s fresh processes\n", inline(f.Confirmed))
	}
	if f.Pass != nil {
		fmt.Fprintf(&b, "- pass: %s\n", inline(strings.TrimPrefix(f.Pass.Pipeline+"/"+f.Pass.Name, "/")))
	}
	if f.Instruction != "" {
		fmt.Fprintf(&b, "- instruction: %s\n", inline(f.Instruction))
	}
	if len(f.Contest) > 0 {
		fmt.Fprintf(&b, "- rests on semantics that are argued about: %s\n", inline(strings.Join(f.Contest, ", ")))
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, "- %s\n", inline(f.Detail))
	}
	fmt.Fprintf(&b, "\n<details><summary>program, %d instructions</summary>\n\n%s\n</details>\n", f.Instructions, fenced("", clip(f.Minimal, limit)))
	return b.String()
}

// Title is the verdict in a few words.
func Title(r *gate.Result) string { return verdictWords[r.Verdict] }

// Sentence says in one line what is wrong: where, and the values.
func Sentence(f *gate.Finding) string {
	return fmt.Sprintf("%s (%s) in case %s: %s", f.Class, statusWord(f), f.Case, firstWord(f))
}
