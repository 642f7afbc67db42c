package reports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
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
	more := ""
	if len(also) > 0 {
		more = fmt.Sprintf(" and in %s", many(len(also), "more case"))
	}
	nature := ""
	if f.Nature != "" {
		nature = " (" + short(f.Nature, 80) + ")"
	}
	return fmt.Sprintf("**%s%s**%s (case %s%s): %s%s", f.Class, byWord(f), placeWord(f), short(caseWord(f), 80), more, short(firstWord(shown(f)), 300), nature)
}

// placeWord names the operations: the one at fault if it is known, those of the
// program that shows it if they are few.
func placeWord(f *gate.Finding) string {
	if loc := shown(f).Location; loc != nil && f.Level == gate.LevelHLO && loc.Opcode != "" && loc.Opcode != hlo.OpFusion.String() {
		return " at " + short(loc.Opcode, 40)
	}
	if ops := operations(f.Minimal); len(ops) > 0 && len(ops) <= maxPlaces {
		return " in a program of " + short(listed(ops), 120)
	}
	return ""
}

// maxPlaces bounds the operations that say what a program is about.
const maxPlaces = 3

// operations are the opcodes of the entry computation of HLO text that compute
// something, in their order; nil if the text does not parse.
func operations(text string) []string {
	m, err := hlo.Parse("", []byte(text))
	if err != nil {
		return nil
	}
	var out []string
	for _, in := range m.Entry.Instructions {
		switch in.Op {
		case hlo.OpParameter, hlo.OpConstant, hlo.OpBroadcast, hlo.OpTuple, hlo.OpGetTupleElement, hlo.OpBitcast, hlo.OpCopy:
			continue
		}
		if op := in.Op.String(); !slices.Contains(out, op) {
			out = append(out, op)
		}
	}
	return out
}

// byWord is byCulprit in Markdown.
func byWord(f *gate.Finding) string {
	return byCulprit(f, func(s string) string { return short(s, 80) })
}

// listed is "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
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
	reasons := reasonsOf(r)
	for i, s := range reasons {
		if i == maxReasons {
			fmt.Fprintf(&b, "- %d more reasons are in result.json\n", len(reasons)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", short(s, 400))
	}
	return b.String() + "\n"
}

// reasonsOf are the reasons of a verdict but those that the counts of the findings
// say.
func reasonsOf(r *gate.Result) []string {
	t := tallyOf(r)
	return slices.DeleteFunc(slices.Clone(r.Reasons), func(s string) bool {
		return slices.ContainsFunc(statuses, func(k gate.Status) bool {
			return s == fmt.Sprintf("%s %s", many(t.status[k], "finding"), k)
		})
	})
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
		fmt.Fprintf(&b, " The findings rest on %s.", short(listed(w), 400))
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

// witnessWords says how a witness comes to know.
var witnessWords = map[string]string{
	gate.WitnessExecution:  "runs of the compiled programs",
	gate.WitnessPasses:     "evaluating the module before and after each pass",
	gate.WitnessStates:     "runs of the module after each pass",
	gate.WitnessCross:      "runs of the modules around a pass by another build",
	gate.WitnessCompiler:   "compilations",
	gate.WitnessPlacement:  "a check of the buffer assignment",
	gate.WitnessGuard:      "runs in guarded memory",
	gate.WitnessStatistics: "statistics over many elements",
}

// witnesses are the kinds of evidence behind the findings, in words.
func witnesses(r *gate.Result) []string {
	seen := map[string]bool{}
	for _, f := range r.Findings {
		for _, w := range f.Witnesses {
			seen[cmp.Or(witnessWords[w], w)] = true
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
	listed, also := leaders(found)
	var b strings.Builder
	title := "New findings"
	if l.all {
		title = "Findings"
	}
	fmt.Fprintf(&b, "### %s (%d)\n", title, len(found))
	if len(listed) < len(found) {
		fmt.Fprintf(&b, "\nSome defects show in several cases: each is listed once with all its cases, which makes %s.\n", many(len(listed), "entry"))
	}
	rest := rest(listed, l)
	room -= b.Len() + len(rest)
	full := 0
	for full < min(len(listed), l.details) && (listed[full].Status == gate.New || len(listed) <= l.details) {
		part := findingMarkdown(listed[full], also[listed[full].ID], l.program)
		// Two thirds for full findings, the others get a line each.
		if len(part) > room || full > 0 && len(listed) > full+1 && b.Len()+len(part) > 2*(room+b.Len())/3 {
			break
		}
		b.WriteString(part)
		room -= len(part)
		full++
	}
	left := listed[full:]
	if len(left) == 0 {
		return b.String() + "\n"
	}
	const header = "\n| finding | class | status | guilty | case | wrong | first | confirmed |\n|---|---|---|---|---|---|---|---|\n"
	rows := 0
	if len(header) < room {
		b.WriteString(header)
		room -= len(header)
		for _, f := range left {
			row := fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", f.ID, f.Class, short(statusWord(f), 80), short(culprit(f), 60), casesWord(f, also[f.ID]), wrongWord(shown(f)), short(firstWord(shown(f)), 120), f.Confirmed)
			if len(row) > room {
				break
			}
			b.WriteString(row)
			room -= len(row)
			rows++
		}
	}
	if n := len(left) - rows; n > 0 {
		fmt.Fprintf(&b, "\n%d of %d entries are not listed here; all are in result.json, report.html and findings/. By kind, all %d:\n\n", n, len(listed), len(listed))
		b.WriteString(rest)
	}
	return b.String() + "\n"
}

// casesWord is the case of a finding and the number of further ones.
func casesWord(f *gate.Finding, also []string) string {
	if len(also) == 0 {
		return short(caseWord(f), 80)
	}
	return fmt.Sprintf("%s and %d more", short(caseWord(f), 80), len(also))
}

// rest is the table of findings by kind.
func rest(shown []*gate.Finding, l limits) string {
	var b strings.Builder
	b.WriteString("| guilty | class | status | entries |\n|---|---|---|---|\n")
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

// accuracy is the table of the accuracy of legal results where base and head
// differ.
func accuracy(r *gate.Result, l limits) string {
	var cells []gate.Cell
	for _, c := range r.Statistics.Cells {
		if c.Changed > 0 || c.Excluded != "" {
			cells = append(cells, c)
		}
	}
	if len(r.Statistics.Cells) == 0 {
		return ""
	}
	same := len(r.Statistics.Cells) - len(cells)
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>Accuracy of legal results, base against head: %s with differences, %s bit for bit the same</summary>\n\n", many(len(cells), "kind"), many(same, "kind"))
	if len(cells) > 0 {
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
		b.WriteString("\n" + cellNote + "\n\n")
	}
	return b.String() + "</details>\n\n"
}

// cellColumns, cellRow and cellNote are the table of the statistics.
var cellColumns = []string{"operation", "type", "inputs", "elements", "differ", "base p50/p99 ULP", "head p50/p99 ULP", "head/base", "e-value"}

const cellNote = `ULP: distance from the exact value in units of the last digit. "~": no evidence of a difference. "any": cancellation leaves no digit certain, and every value near is legal.`

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
	return []string{operation, c.Dtype, c.Stream, fmt.Sprint(c.Elements), fmt.Sprint(c.Changed), distanceWord(c.Base, c.Dtype), distanceWord(c.Head, c.Dtype), ratio, e}
}

func distanceWord(d gate.Distances, dtype string) string {
	return ulpWord(d.P50, dtype) + " / " + ulpWord(d.P99, dtype)
}

// digits are the bits of a type's significand: an error of as many ULPs as they
// count leaves none of them.
var digits = map[string]float64{"f64": 53, "c128": 53, "f32": 24, "c64": 24, "f16": 11, "bf16": 8}

func ulpWord(x float64, dtype string) string {
	switch {
	case x >= math.Exp2(cmp.Or(digits[dtype], 4)):
		return "any"
	case x >= 100 && x < 1e5:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

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

// nullWord says how often the gate was wrong on builds that are right, and what
// that means for pull requests.
func nullWord(r *gate.Result) string {
	n := r.Statistics.Null
	if n.Cells == 0 {
		return "not measured in this run"
	}
	count := "None"
	if n.Alarms > 0 {
		count = fmt.Sprint(n.Alarms)
	}
	out := fmt.Sprintf("%s of %d judged streams of base against itself and its legal variants (95 %% interval of the rate: %s to %s).", count, n.Cells, percent(n.Interval[0]), percent(n.Interval[1]))
	e, i := r.Statistics.ExpectedFalseBlocks, r.Statistics.ExpectedInterval
	if e == nil || i == nil {
		return out
	}
	if i[1]-i[0] <= 500 {
		return out + fmt.Sprintf(" Expected false blocks in 1,000 pull requests without fault: %.3g (%.3g to %.3g).", *e, i[0], i[1])
	}
	out += " Too few streams to tell how many of 1,000 pull requests without fault a run like this blocks"
	if streams := r.Statistics.Streams; streams > 0 {
		out += fmt.Sprintf(": to show that it is fewer than 10, about %.0f streams without an alarm are needed (passgate selftest measures them)", enoughStreams(streams))
	}
	return out + "."
}

func percent(x float64) string { return fmt.Sprintf("%.2g %%", 100*x) }

// enoughStreams is the number of judged streams without an alarm for which the
// upper end of the 95 % interval (Clopper-Pearson: 1 - 0.025^(1/n)) gives fewer
// than 10 false blocks in 1,000 runs with that many streams.
func enoughStreams(streams int64) float64 {
	rate := -math.Expm1(math.Log1p(-0.01) / float64(streams))
	n := math.Log(0.025) / math.Log1p(-rate)
	digit := math.Pow10(int(math.Log10(n)) - 1) // of two
	return digit * math.Ceil(n/digit)
}

// cutMarkdown says how far programs that leave too much open as a whole were
// judged in pieces: a row per level.
func cutMarkdown(c *gate.CutCounts) string {
	if c.InPieces() == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>%s judged part by part, since rounding left too many elements of the whole open; %d of %d pass steps by the part that they changed</summary>\n\n", many(c.InPieces(), "program"), c.JudgedSteps, c.Steps)
	b.WriteString("| level | pieces | elements judged | of them with wide bounds | undecided | wrong | pieces unsupported |\n|---|---|---|---|---|---|---|\n")
	for _, l := range c.Levels {
		if l.Pieces == 0 {
			continue
		}
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

// ownInputs is the stream of the inputs that a case brings (gate.StreamResult).
const ownInputs = "own"

// inputsWord says on what inputs and under what flags a case shows a finding.
func inputsWord(f *gate.Finding) string {
	out := f.Stream + " inputs"
	if f.Stream == ownInputs {
		out = "its own inputs"
	}
	if f.Flags == gate.DefaultFlags {
		out += " under the default flags"
	}
	return out
}

func wrongWord(f *gate.Finding) string {
	if f.Elements == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", f.Wrong, f.Elements)
}

func firstWord(f *gate.Finding) string {
	if f.First.Legal == "" || f.Unstable && f.Elements == 0 {
		return f.Said()
	}
	return fmt.Sprintf("output %s at %v: base %s, head %s, legal %s", f.Output, f.First.At, f.First.Base, f.First.Head, f.First.Legal)
}

// findingMarkdown is one finding in full: the three values, the program that gives
// them, who is guilty, and what the case itself shows if the program was cut out
// of it.
func findingMarkdown(f *gate.Finding, also []string, limit int) string {
	var b strings.Builder
	m := shown(f)
	fmt.Fprintf(&b, "\n#### %s%s in case %s (%s)\n\n", f.Class, byWord(f), short(caseWord(f), 100), short(statusWord(f), 120))
	if m.First.Legal != "" {
		at := fmt.Sprintf("output %s at %v", short(m.Output, 40), m.First.At)
		switch {
		case m.Output == "":
			at = "build"
		case len(m.First.At) == 0 && m.Elements == 0:
			at = "output " + short(m.Output, 40)
		}
		fmt.Fprintf(&b, "| %s | value |\n|---|---|\n| base | %s |\n| head | %s |\n| legal | %s |\n\n", at, short(m.First.Base, 120), short(m.First.Head, 120), short(m.First.Legal, 200))
	}
	open := ""
	if f.Instructions <= openProgram && len(f.Minimal) < limit {
		open = " open"
	}
	fmt.Fprintf(&b, "<details%s><summary>%s</summary>\n\n%s\n</details>\n\n", open, programWord(f), fenced("", clip(f.Minimal, limit)))
	quote := func(s string) string { return short(s, 300) }
	side := map[gate.Status]string{gate.Fixed: "in base: ", gate.PreExisting: "in base and head: "}[f.Status]
	facts := []string{side + blame(m, quote)}
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if s := extent(m); s != "" {
		add("%s", short(s, 600))
	}
	if s := inCase(f, quote); s != "" {
		add("%s", s)
	} else {
		add("on %s", quote(inputsWord(f)))
	}
	if m.Location != nil && m.Location.Source != "" {
		add("source line %s", short(m.Location.Source, 200))
	}
	if f.Rewrite != nil {
		add("rewrite %s to %s", short(f.Rewrite.Before, 300), short(f.Rewrite.After, 300))
	}
	if len(also) > 0 {
		add("the same defect in %s", short(alsoWord(also), 600))
	}
	var seen []string
	if f.Confirmed != "" {
		seen = append(seen, fmt.Sprintf("shown again in %s fresh processes", short(f.Confirmed, 20)))
	}
	if f.Duplicates > 0 {
		seen = append(seen, "seen "+many(f.Duplicates, "more time")+", with other inputs, flags or outputs")
	}
	if len(seen) > 0 {
		add("%s", strings.Join(seen, "; "))
	}
	for _, t := range statements(f) {
		add("%s: %s", short(t.What, 80), short(t.Text, 400))
	}
	if len(f.Contest) > 0 {
		add("rests on semantics that are argued about: %s", short(strings.Join(f.Contest, ", "), 200))
	}
	id := fmt.Sprintf("finding `%s`", f.ID)
	if f.Cluster != "" {
		id += fmt.Sprintf(", defect `%s`", f.Cluster)
	}
	add("%s", id)
	for _, s := range facts {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	return b.String()
}

// programWord says what the program is that stands in a report.
func programWord(f *gate.Finding) string {
	n := many(f.Instructions, "instruction")
	switch {
	case f.InMinimal != nil && !f.InMinimal.Shows():
		return "piece of the case in which it happens, " + n + "; by itself it shows nothing, the values are those of the case"
	case f.Piece != "":
		return "piece of the case that shows it, " + n
	case cut(f):
		return "smallest program that shows it, " + n
	}
	return "program, " + n
}

// openProgram is the size up to which a program is shown at once.
const openProgram = 8

// Title is the verdict in a few words.
func Title(r *gate.Result) string { return verdictWords[r.Verdict] }

// Sentence says in one line what is wrong: where, the values, and who is guilty.
func Sentence(f *gate.Finding) string {
	m := shown(f)
	s := fmt.Sprintf("%s (%s) in case %s: %s. %s", f.Class, statusWord(f), caseWord(f), firstWord(m), Blame(m))
	if m.Location != nil && m.Location.Cause != "" {
		s += "; cause " + m.Location.Cause
	}
	if m.FailureRate != nil {
		s += "; " + m.FailureRate.Text()
	}
	if len(f.Culprits) > 1 {
		s += fmt.Sprintf("; one of %d faults in the case", len(f.Culprits))
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
