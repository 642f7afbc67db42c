package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/passgate/passgate/gate"
)

// Marker is the hidden first line of the sticky comment: whoever updates the
// comment finds it by this and by its author.
const Marker = "<!-- passgate:comment:v1 -->"

// limits are how much a Markdown rendering may hold.
type limits struct {
	bytes   int // of the whole
	program int // of one program
	rows    int // of the tables of passes, cells and groups
	details int // findings in full
	// all says to list findings that are not new, too.
	all bool
}

// GitHub takes 65,536 characters of a comment, of which the action's history
// needs some, and 1 MiB of summary per step.
var (
	commentLimits = limits{bytes: 54_000, program: 3_000, rows: 12, details: 10}
	summaryLimits = limits{bytes: 900_000, program: 8_000, rows: 100, details: 50, all: true}
)

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
	return []byte(Marker + "\n" + markdown(r, commentLimits)), nil
}

func renderSummary(r *gate.Result) ([]byte, error) { return []byte(markdown(r, summaryLimits)), nil }

// markdown is the one summary of a result, in the order in which a reader asks:
// the verdict, what broke and the command to see it again, what was tested, the
// findings, accuracy, false alarms, and what was not tested. Where nothing broke,
// the command stands at the end. Findings get the room that the rest leaves.
func markdown(r *gate.Result, l limits) string {
	head := headline(r, l) + tested(r, l)
	tail := accuracy(r, l) + policyMarkdown(r, l) + falseAlarms(r) + notTested(r)
	if !hasNew(r) {
		tail += "### See it again\n\n" + again(r)
	}
	return head + findingsMarkdown(r, l, l.bytes-len(head)-len(tail)) + tail
}

// maxBroke bounds the defects that the headline names.
const maxBroke = 3

// brokeWord is one defect in one line: what, by whom, where, and the values.
func brokeWord(f *gate.Finding, also []string) string {
	guilty := ""
	if f.Pass != nil {
		guilty = " by " + short(passWord(f), 80)
	}
	more := ""
	if len(also) > 0 {
		more = fmt.Sprintf(" and in %s", many(len(also), "more case"))
	}
	return fmt.Sprintf("**%s%s** in case %s%s: %s", f.Class, guilty, short(f.Case, 80), more, short(firstWord(f), 300))
}

// maxReasons bounds the reasons that are shown.
const maxReasons = 12

func headline(r *gate.Result, l limits) string {
	var b strings.Builder
	t := tallyOf(r)
	fmt.Fprintf(&b, "## passgate: %s\n\n", verdictWords[r.Verdict])
	broke, also := leaders(gravest(r, func(f *gate.Finding) bool { return f.Blocking }))
	for i, f := range broke {
		if i == maxBroke {
			fmt.Fprintf(&b, "- %s below\n", many(len(broke)-i, "more defect"))
			break
		}
		fmt.Fprintf(&b, "- %s\n", brokeWord(f, also[f.ID]))
	}
	if len(broke) > 0 {
		b.WriteString("\n")
	}
	if hasNew(r) {
		b.WriteString("**See it again.** " + again(r) + "\n")
	}
	fmt.Fprintf(&b, "%s. base %s, head %s\n\n", t, build(&r.Base), build(&r.Head))
	for i, s := range r.Reasons {
		if i == maxReasons {
			fmt.Fprintf(&b, "- %d more reasons are in result.json\n", len(r.Reasons)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", short(s, 400))
	}
	return b.String() + "\n"
}

func build(b *gate.Build) string {
	out := short(b.Spec, 120)
	if b.Platform != "" {
		out += fmt.Sprintf(" (%s, %s)", short(b.Platform, 40), short(b.Kind, 40))
	}
	return out
}

// short is inline of at most about n bytes; what is cut is said.
func short(s string, n int) string {
	if len(s) > n {
		cut := strings.ToValidUTF8(s[:n], "")
		s = fmt.Sprintf("%s ... (%d more bytes)", cut, len(s)-len(cut))
	}
	return inline(s)
}

// Short is foreign text for one line of Markdown, or a cell of a table: of about n
// bytes and without any power.
func Short(s string, n int) string { return short(s, n) }

func tested(r *gate.Result, l limits) string {
	var b strings.Builder
	t := r.Totals
	b.WriteString("### Tested\n\n")
	how := fmt.Sprintf("%d executed", t.Executed)
	if t.PassesOnly > 0 {
		how += fmt.Sprintf(", %d by their pass steps only", t.PassesOnly)
	}
	fmt.Fprintf(&b, "%s, %s; %d output elements judged, %d not judged.", many(t.Cases, "case"), how, t.JudgedElements, t.UndecidedElements)
	if s := r.Steps; s != nil {
		fmt.Fprintf(&b, " Pass steps: %d judged, %d legal by rule, %d undecided, %d unknown; base and head are identical up to step %d%s.", s.Judged, s.ByRule, s.Undecided, s.Unknown, s.Aligned, summed(t.Cases))
	}
	if w := witnesses(r); len(w) > 0 {
		fmt.Fprintf(&b, " Witnesses that spoke: %s.", short(strings.Join(w, ", "), 200))
	}
	b.WriteString("\n\n")
	if r.Cut != nil {
		b.WriteString(cutMarkdown(r.Cut))
	}
	if len(r.Passes) > 0 {
		b.WriteString("| pass in focus | weight | fired | cases | why |\n|---|---|---|---|---|\n")
		for i, p := range r.Passes {
			if i == l.rows {
				fired, left := 0, r.Passes[i:]
				for _, p := range left {
					fired += p.Fired
				}
				fmt.Fprintf(&b, "| %d more | | %d | | |\n", len(left), fired)
				break
			}
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n", short(p.Name, 80), p.Weight, p.Fired, p.Cases, short(p.Reason, 160))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// witnesses are the kinds of evidence behind the findings.
func witnesses(r *gate.Result) []string {
	seen := map[string]bool{}
	for _, f := range r.Findings {
		for _, w := range f.Witnesses {
			seen[w] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// findingsMarkdown shows findings in full while there is room, then a line each,
// and then by kind; what is left out is counted.
func findingsMarkdown(r *gate.Result, l limits, room int) string {
	found := gravest(r, func(f *gate.Finding) bool { return l.all || f.Status == gate.New })
	if len(found) == 0 {
		return ""
	}
	shown, also := leaders(found)
	var b strings.Builder
	title := "New findings"
	if l.all {
		title = "Findings"
	}
	if len(shown) < len(found) {
		fmt.Fprintf(&b, "### %s (%d, of %s)\n", title, len(found), many(len(shown), "defect"))
	} else {
		fmt.Fprintf(&b, "### %s (%d)\n", title, len(found))
	}
	rest := rest(shown, l)
	room -= b.Len() + len(rest)
	full := 0
	for full < min(len(shown), l.details) && (shown[full].Status == gate.New || len(shown) <= l.details) {
		part := findingMarkdown(shown[full], also[shown[full].ID], l.program)
		// Two thirds for full findings, the others get a line each.
		if len(part) > room || full > 0 && len(shown) > full+1 && b.Len()+len(part) > 2*(room+b.Len())/3 {
			break
		}
		b.WriteString(part)
		room -= len(part)
		full++
	}
	left := shown[full:]
	if len(left) == 0 {
		return b.String() + "\n"
	}
	const header = "\n| finding | class | status | pass | case | inputs | wrong | first | confirmed |\n|---|---|---|---|---|---|---|---|---|\n"
	rows := 0
	if len(header) < room {
		b.WriteString(header)
		room -= len(header)
		for _, f := range left {
			row := fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n", f.ID, f.Class, short(statusWord(f), 80), short(passWord(f), 60), casesWord(f, also[f.ID]), short(streamWord(f), 40), wrongWord(f), short(firstWord(f), 120), f.Confirmed)
			if len(row) > room {
				break
			}
			b.WriteString(row)
			room -= len(row)
			rows++
		}
	}
	if n := len(left) - rows; n > 0 {
		fmt.Fprintf(&b, "\n%d of %d findings are not listed here; all are in result.json, report.html and findings/. By kind, all %d:\n\n", n, len(shown), len(shown))
		b.WriteString(rest)
	}
	return b.String() + "\n"
}

// casesWord is the case of a finding and the number of further ones.
func casesWord(f *gate.Finding, also []string) string {
	if len(also) == 0 {
		return short(f.Case, 60)
	}
	return fmt.Sprintf("%s and %d more", short(f.Case, 60), len(also))
}

// rest is the table of findings by kind.
func rest(shown []*gate.Finding, l limits) string {
	var b strings.Builder
	b.WriteString("| pass | class | status | findings |\n|---|---|---|---|\n")
	all := groups(shown)
	for i, g := range all {
		if i == l.rows {
			n := 0
			for _, g := range all[i:] {
				n += g.n
			}
			fmt.Fprintf(&b, "| %d more kinds | | | %d |\n", len(all)-i, n)
			break
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", short(g.pass, 80), g.class, g.status, g.n)
	}
	return b.String()
}

// accuracy is the table of the accuracy of legal results.
func accuracy(r *gate.Result, l limits) string {
	cells := r.Statistics.Cells
	if len(cells) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<details><summary>Accuracy of legal results, base against head</summary>\n\n")
	b.WriteString("| " + strings.Join(cellColumns, " | ") + " |\n" + strings.Repeat("|---", len(cellColumns)) + "|\n")
	for i, c := range cells {
		if i == l.rows {
			fmt.Fprintf(&b, "| %d more%s|\n", len(cells)-i, strings.Repeat(" |", len(cellColumns)-1))
			break
		}
		b.WriteString("|")
		for _, v := range cellRow(&c) {
			b.WriteString(" " + short(v, 60) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n\"~\": no evidence of a difference.\n\n</details>\n\n")
	return b.String()
}

// cellColumns and cellRow are the table of the statistics.
var cellColumns = []string{"operation", "type", "inputs", "elements", "changed", "base p50/p99 ULP", "head p50/p99 ULP", "head/base", "e"}

func cellRow(c *gate.Cell) []string {
	operation := c.Operation
	if c.Pass != "" {
		operation = c.Pass + ": " + operation
	}
	ratio, e := c.Ratio.String(), "~"
	if c.Discovered {
		e = fmt.Sprintf("%.3g", c.E)
	}
	if c.Excluded != "" {
		e = "excluded: " + c.Excluded
	}
	return []string{operation, c.Dtype, c.Stream, fmt.Sprint(c.Elements), fmt.Sprint(c.Changed), distanceWord(c.Base), distanceWord(c.Head), ratio, e}
}

func distanceWord(d gate.Distances) string { return fmt.Sprintf("%.2g / %.2g", d.P50, d.P99) }

// policyMarkdown says what the policy let through.
func policyMarkdown(r *gate.Result, l limits) string {
	if r.Policy == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### Policy %s\n\n", short(r.Policy.File, 80))
	lines := policyLines(r.Policy)
	for i, s := range lines {
		if i == l.rows {
			fmt.Fprintf(&b, "- %d more rules are in result.json\n", len(lines)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", short(s, 300))
	}
	return b.String() + "\n"
}

// policyLines says each rule of a policy in one line.
func policyLines(p *gate.PolicyResult) []string {
	var out []string
	until := func(expires string, expired bool) string {
		if expired {
			return "expired " + expires + ", without effect"
		}
		return "until " + expires
	}
	for _, o := range p.Overrides {
		out = append(out, fmt.Sprintf("override by %s (%s): %s; %s; covers %s", o.Person, until(o.Expires, o.Expired), o.Reason, o.Scope, many(len(o.Findings), "finding")))
	}
	for _, k := range p.KnownIssues {
		out = append(out, fmt.Sprintf("known issue %s (%s): %s; %s; covers %s", k.ID, until(k.Expires, k.Expired), k.Reason, k.Scope, many(len(k.Findings), "finding")))
	}
	if len(out) == 0 {
		out = append(out, "no rule of it was used")
	}
	return out
}

func falseAlarms(r *gate.Result) string {
	return "### False alarms\n\n" + nullWord(r) + "\n\n"
}

func nullWord(r *gate.Result) string {
	n := r.Statistics.Null
	if n.Cells == 0 {
		return "~ (not measured in this run)"
	}
	out := fmt.Sprintf("%d of %d judged streams of base against itself and its legal variants, 95%% interval %.2g to %.2g.", n.Alarms, n.Cells, n.Interval[0], n.Interval[1])
	if e, i := r.Statistics.ExpectedFalseBlocks, r.Statistics.ExpectedInterval; e != nil && i != nil {
		out += fmt.Sprintf(" Expected false blocks per 1,000 pull requests: %.3g (%.3g to %.3g).", *e, i[0], i[1])
	}
	return out
}

// cutMarkdown says how far programs that leave too much open as a whole were
// judged in pieces: a row per level.
func cutMarkdown(c *gate.CutCounts) string {
	if c.InPieces() == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>Judged in pieces, because the whole leaves too much open: %s; %d of %d pass steps by what they changed</summary>\n\n", many(c.InPieces(), "program"), c.JudgedSteps, c.Steps)
	b.WriteString("| level | pieces | elements judged | of them with wide bounds | undecided | wrong | pieces unsupported |\n|---|---|---|---|---|---|---|\n")
	for _, l := range c.Levels {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d |\n", short(l.Level, 40), l.Pieces, l.JudgedElements, l.WideElements, l.UndecidedElements, l.WrongElements, l.Unsupported)
	}
	return b.String() + "\n</details>\n\n"
}

func notTested(r *gate.Result) string {
	list := untested(r)
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("### Not tested\n\n")
	for _, s := range list {
		fmt.Fprintf(&b, "- %s\n", short(s, 600))
	}
	return b.String() + "\n"
}

func again(r *gate.Result) string {
	return where(r, func(s string) string { return short(s, 300) }) + "\n\n" + fenced("", clip(reproduce(r), 1000))
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

// findingMarkdown is one finding in full: where, the three values, who is guilty,
// the program.
func findingMarkdown(f *gate.Finding, also []string, limit int) string {
	var b strings.Builder
	guilty := ""
	if f.Pass != nil {
		guilty = " by " + short(passWord(f), 80)
	}
	fmt.Fprintf(&b, "\n#### %s%s in %s (%s)\n\n", f.Class, guilty, short(f.Case, 100), short(statusWord(f), 120))
	if f.First.Legal != "" {
		fmt.Fprintf(&b, "| output %s at %v | value |\n|---|---|\n| base | %s |\n| head | %s |\n| legal | %s |\n\n", short(f.Output, 40), f.First.At, short(f.First.Base, 120), short(f.First.Head, 120), short(f.First.Legal, 200))
	}
	var facts []string
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if f.Pass != nil {
		guilty := "guilty: pass step " + short(f.Pass.String(), 160)
		if f.Level != "" {
			guilty += fmt.Sprintf(" (%s)", short(string(f.Level), 40))
		}
		if f.Instruction != "" {
			guilty += ", instruction " + short(f.Instruction, 120)
		}
		if f.Location != nil && f.Location.Opcode != "" {
			guilty += " (" + short(f.Location.Opcode, 60)
			if f.Location.AfterOpcode != "" {
				guilty += ", afterwards " + short(f.Location.AfterOpcode, 60)
			}
			guilty += ")"
		}
		add("%s", guilty)
	} else {
		if f.Level != "" {
			add("level %s", short(string(f.Level), 40))
		}
		if f.Instruction != "" {
			add("instruction %s", short(f.Instruction, 120))
		}
	}
	if f.Location != nil && f.Location.Source != "" {
		add("source line %s", short(f.Location.Source, 200))
	}
	if f.Rewrite != nil {
		add("rewrite %s to %s", short(f.Rewrite.Before, 300), short(f.Rewrite.After, 300))
	}
	if len(also) > 0 {
		add("the same defect in %s", short(alsoWord(also), 600))
	}
	if f.Piece != "" {
		add("shown by a piece of the program, which leaves it open as a whole: %s", short(f.Piece, 40))
	}
	var seen []string
	if w := wrongWord(f); w != "" {
		seen = append(seen, fmt.Sprintf("%s elements wrong on %s inputs", w, short(streamWord(f), 60)))
	}
	if f.Confirmed != "" {
		seen = append(seen, fmt.Sprintf("shown again in %s fresh processes", short(f.Confirmed, 20)))
	}
	if f.Duplicates > 0 {
		seen = append(seen, many(f.Duplicates, "more place")+" with the same")
	}
	if len(seen) > 0 {
		add("%s", strings.Join(seen, "; "))
	}
	add("witnesses: %s", short(strings.Join(f.Witnesses, ", "), 200))
	for _, t := range testimony(f) {
		add("%s: %s", short(t.What, 80), short(t.Text, 400))
	}
	if len(f.Contest) > 0 {
		add("rests on semantics that are argued about: %s", short(strings.Join(f.Contest, ", "), 200))
	}
	if w := wrongWord(f); f.Detail != "" && (w == "" || f.Detail != fmt.Sprintf("%s elements of output %s outside the legal set", w, f.Output)) {
		add("%s", short(f.Detail, 600))
	}
	id := fmt.Sprintf("finding `%s`", f.ID)
	if f.Cluster != "" {
		id += fmt.Sprintf(", defect `%s`", f.Cluster)
	}
	add("%s", id)
	for _, s := range facts {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	open := ""
	if f.Instructions <= openProgram && len(f.Minimal) < limit {
		open = " open"
	}
	fmt.Fprintf(&b, "\n<details%s><summary>program, %s</summary>\n\n%s\n</details>\n", open, many(f.Instructions, "instruction"), fenced("", clip(f.Minimal, limit)))
	return b.String()
}

// openProgram is the size up to which a program is shown at once.
const openProgram = 8

// Title is the verdict in a few words.
func Title(r *gate.Result) string { return verdictWords[r.Verdict] }

// Sentence says in one line what is wrong: where, the values, and what the
// witnesses say.
func Sentence(f *gate.Finding) string {
	s := fmt.Sprintf("%s (%s) in case %s: %s", f.Class, statusWord(f), f.Case, firstWord(f))
	if w := verdictOfWitnesses(f); w != "" {
		s += "; " + w
	}
	return s
}

// summed explains a step count of several cases.
func summed(cases int) string {
	if cases < 2 {
		return ""
	}
	return " (summed over the cases)"
}
