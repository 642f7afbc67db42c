package reports

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/passgate/passgate/gate"
)

// findingReadme is the README.md of a finding's folder: what is wrong, the two
// commands that show it, the guilty step, and the text of an issue. All figures
// are of the program in the file that the commands name. dir is the folder.
func findingReadme(dir string, r *gate.Result, f *gate.Finding) string {
	var b strings.Builder
	m := shown(f)
	fmt.Fprintf(&b, "# %s%s%s (%s)\n", f.Class, byWord(f), placeWord(f), f.ID)
	b.WriteString(findingMarkdown(f, nil, 20_000))
	fmt.Fprintf(&b, "\n## See it\n\nIn this folder; the first runs both builds beside the reference, the second the reference alone:\n\n%s", fenced("sh", strings.Join(showCommands(dir, r, f), "\n")))
	if f.InMinimal != nil && f.InMinimal.BackendOnly {
		b.WriteString("\nThe program is a piece from behind the HLO passes: through the whole compiler it may show nothing.\n")
	}
	if m.First.Legal != "" && m.Output != "" {
		fmt.Fprintf(&b, "\nExpected of output %s at %v: %s. %s\n", short(m.Output, 40), m.First.At, short(m.First.Legal, 300), seenWord(r, m))
	} else {
		fmt.Fprintf(&b, "\n%s\n", seenWord(r, m))
	}
	fmt.Fprintf(&b, "\n## Builds\n\n| build | id | this program |\n|---|---|---|\n| base %s | %s | %s |\n| head %s | %s | %s |\n",
		short(r.Base.Spec, 120), short(r.Base.ID, 100), short(string(m.Base), 40), short(r.Head.Spec, 120), short(r.Head.ID, 100), short(string(m.Head), 40))
	if m.Step != nil && m.Pass != nil {
		fmt.Fprintf(&b, "\n## What %s changed\n\n%s", short(m.Pass.String(), 160), fenced("diff", clip(changedLines(m.Step), 20_000)))
	}
	fmt.Fprintf(&b, "\n## Text for an issue\n\n%s", fenced("markdown", issueText(r, f)))
	return b.String()
}

// evidenceFile is the file of a finding's folder whose program gives the figures
// of shown, and what is in it.
func evidenceFile(f *gate.Finding) (name string, data []byte) {
	if f.InMinimal != nil && !f.InMinimal.Shows() {
		return "case", f.CaseFile
	}
	return "minimal.case", f.MinimalFile
}

// showCommands are the commands that show a finding, in its folder dir.
func showCommands(dir string, r *gate.Result, f *gate.Finding) []string {
	replay := "passgate replay" + termsFlag(r)
	name, _ := evidenceFile(f)
	switch {
	case name == "minimal.case" && f.InMinimal != nil && f.InMinimal.BackendOnly:
		replay += " --backend-only"
	case f.PassesAlone() && r.Base.Kind != "compile-only" && r.Head.Kind != "compile-only":
		replay += " --passes-only"
	}
	replay += " --build " + shellQuote(specFrom(dir, r.Base.Spec))
	if r.Head.Spec != r.Base.Spec {
		replay += " --build " + shellQuote(specFrom(dir, r.Head.Spec))
	}
	return []string{replay + " " + name, "passgate eval --bounds " + name}
}

// plugin matches a build that is a file, with its topology if it has one.
var plugin = regexp.MustCompile(`^[^:]*\.so(@[^/]*)?$`)

// specFrom is a build as it is called in a directory: the path of a file that was
// given relative to the working directory is another one there.
func specFrom(dir, spec string) string {
	if !plugin.MatchString(spec) || filepath.IsAbs(spec) {
		return spec
	}
	from, err := filepath.Abs(dir)
	if err != nil {
		return spec
	}
	to, err := filepath.Abs(spec)
	if err != nil {
		return spec
	}
	if there, err := filepath.Rel(from, to); err == nil {
		return there
	}
	return to
}

// seenWord says what the builds gave.
func seenWord(r *gate.Result, f *gate.Finding) string {
	in := ""
	if f.Observed != "" {
		in = fmt.Sprintf(" In this run: %s.", short(f.Observed, 300))
	}
	if r.Base.Spec == r.Head.Spec {
		return fmt.Sprintf("Seen: %s.%s", short(f.First.Head, 300), in)
	}
	return fmt.Sprintf("Seen: base %s, head %s.%s", short(f.First.Base, 300), short(f.First.Head, 300), in)
}

// changedLines are the lines of two modules that the other does not have, those
// before with "-", those after with "+", each in its order.
func changedLines(s *gate.StepText) string {
	count := func(text string) map[string]int {
		n := map[string]int{}
		for l := range strings.Lines(text) {
			n[plainLine(l)]++
		}
		return n
	}
	var b strings.Builder
	side := func(sign, text string, other map[string]int) {
		for l := range strings.Lines(text) {
			k := plainLine(l)
			if other[k] > 0 || k == "" || k == "}" {
				other[k]--
				continue
			}
			fmt.Fprintf(&b, "%s %s\n", sign, k)
		}
	}
	before, after := count(s.Before), count(s.After)
	side("-", s.Before, after)
	side("+", s.After, before)
	return b.String()
}

func plainLine(l string) string { return strings.TrimSpace(l) }

// issueText is a report in the form that XLA's maintainers ask for: one program,
// exact data, one backend, one pass, versions.
func issueText(r *gate.Result, whole *gate.Finding) string {
	var b strings.Builder
	f := shown(whole)
	op := ""
	if f.Location != nil {
		op = f.Location.Opcode
	}
	what := map[gate.Class]string{
		gate.Miscompile: "wrong result", gate.NumericDegradation: "less accurate result than any order of evaluation allows", gate.Crash: "the compiler crashes", gate.Hang: "no answer",
		gate.BufferCorruption: "a buffer is overwritten or read before it is written", gate.Nondeterminism: "the result differs between runs",
	}[f.Class]
	where := "XLA"
	if f.Pass != nil {
		where = culprit(f)
	}
	platform := r.Head.Platform
	if platform == "" {
		platform = "XLA"
	}
	title := fmt.Sprintf("%s: %s: %s", strings.ToUpper(platform), where, what)
	if op != "" && op != "fusion" {
		title += " for " + op
	}
	fmt.Fprintf(&b, "%s\n\n", inline(Neutral(title, 200)))
	bad, good := builds(r, f)
	if f.First.Legal != "" && f.Output != "" {
		fmt.Fprintf(&b, "On the program and data below, output %s at %v must be %s; %s gives %s.", short(f.Output, 40), f.First.At, short(f.First.Legal, 200), short(bad, 200), short(wrongValue(f), 200))
	} else {
		fmt.Fprintf(&b, "On the program and data below, %s fails: %s.", short(bad, 200), short(wrongValue(f), 600))
	}
	if s, ok := semantics[op]; ok {
		fmt.Fprintf(&b, " By the operation semantics of %s, %s.", op, s)
	}
	b.WriteString("\n\n")
	switch {
	case f.Rewrite != nil && f.Pass != nil:
		fmt.Fprintf(&b, "The step %s replaces %s by %s (#0, #1: values that both read). The module before it gives the right value, the module after it does not.\n\n", short(f.Pass.String(), 160), short(f.Rewrite.Before, 300), short(f.Rewrite.After, 300))
	case f.Level == gate.LevelHLO && f.Pass != nil:
		fmt.Fprintf(&b, "The module before the step %s gives the right value, the module after it does not.\n\n", short(f.Pass.String(), 160))
	default:
		fmt.Fprintf(&b, "%s.\n\n", blame(f, func(s string) string { return short(s, 300) }))
	}
	fmt.Fprintf(&b, "- backend: %s\n- affected: %s\n", short(platform, 40), short(bad, 300))
	if good != "" {
		fmt.Fprintf(&b, "- not affected: %s\n", short(good, 300))
	}
	flags := "xla_cpu_enable_fast_min_max=false, xla_allow_excess_precision=false"
	if f.Flags == gate.DefaultFlags {
		flags = "the defaults"
	}
	fmt.Fprintf(&b, "- flags: %s\n\nHLO:\n\n", inline(flags))
	program, inputs := f.Minimal, ""
	_, data := evidenceFile(whole)
	for _, s := range txtar.Parse(data).Files {
		switch s.Name {
		case "module.hlo", "module.mlir":
			program = string(s.Data)
		case "inputs":
			inputs = uniform(string(s.Data))
		}
	}
	b.WriteString(fenced("", clip(program, 20_000)))
	if inputs != "" {
		fmt.Fprintf(&b, "\nInputs, one per parameter:\n\n%s", fenced("", clip(inputs, 4_000)))
	}
	return b.String()
}

// uniform shortens literals whose elements are all the same: nobody reads a
// thousand zeros, and a long list is cut.
func uniform(inputs string) string {
	lines := strings.SplitAfter(inputs, "\n")
	for i, l := range lines {
		shape, values, ok := strings.Cut(strings.TrimSpace(l), " ")
		if !ok || !strings.HasPrefix(values, "{") {
			continue
		}
		all := strings.FieldsFunc(values, func(r rune) bool { return strings.ContainsRune("{}, ", r) })
		if len(all) > 8 && len(slices.Compact(slices.Clone(all))) == 1 {
			lines[i] = fmt.Sprintf("%s, each element %s\n", shape, all[0])
		}
	}
	return strings.Join(lines, "")
}

// builds are the builds that show a finding and those that do not.
func builds(r *gate.Result, f *gate.Finding) (bad, good string) {
	add := func(list *string, b *gate.Build) {
		if *list != "" {
			*list += ", "
		}
		*list += b.Spec
	}
	for _, side := range []struct {
		b *gate.Build
		k gate.Behaviour
	}{{&r.Base, f.Base}, {&r.Head, f.Head}} {
		switch {
		case side.k.Bad():
			add(&bad, side.b)
		case side.k == gate.Right:
			add(&good, side.b)
		}
		if r.Base.Spec == r.Head.Spec {
			break
		}
	}
	if bad == "" {
		bad = "head " + r.Head.Spec
	}
	return bad, good
}

// wrongValue is what the guilty build gave.
func wrongValue(f *gate.Finding) string {
	if f.Status == gate.Fixed {
		return f.First.Base
	}
	return f.First.Head
}

// semantics says what wrong rewrites most often get wrong of an operation
// (StableHLO specification, section of that operation; XLA's operation
// semantics).
var semantics = map[string]string{
	"dynamic-slice":        "each start index is clamped so that the slice lies within the operand",
	"dynamic-update-slice": "each start index is clamped so that the update lies within the operand",
	"gather":               "each start index is clamped so that the slice lies within the operand",
	"scatter":              "updates whose place lies outside the operand are left out",
	"reduce":               "the initial value takes part in the result",
	"reduce-window":        "padding has the initial value, and it takes part in every window",
	"pad":                  "negative padding removes elements, and interior padding stands between them",
	"slice":                "element i is that at start + i * stride",
	"concatenate":          "the operands follow each other in their order",
	"transpose":            "dimension i of the result is dimension permutation[i] of the operand",
	"convert":              "a float becomes an integer by truncation",
	"clamp":                "the result is minimum(maximum(operand, min), max)",
	"select":               "each element is that of the second operand where the predicate holds, else of the third",
	"maximum":              "NaN in either operand gives NaN",
	"minimum":              "NaN in either operand gives NaN",
	"while":                "the body runs as long as the condition holds, and not once more",
	"sort":                 "elements stand in the order of the comparator along the dimension",
	"abs":                  "the smallest signed value has no positive counterpart",
}
