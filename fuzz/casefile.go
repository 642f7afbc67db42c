package fuzz

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/passgate/passgate/hlo"
)

// Case is a program with its inputs.
//
// The file format (DESIGN section 6) is a txtar archive with the extension
// .case and these files, in this order:
//
//	module.hlo   HLO text (or module.mlir: StableHLO text)
//	inputs       optional: one HLO literal or generator expression per line,
//	             one line per entry parameter, or per leaf of a parameter that
//	             is a tuple; blank lines and // comments are skipped. Without it
//	             inputs are generated
//	want         optional: HLO literals, one line per leaf of the result
//	notes        optional: free text
//
// Generator expressions are described at Generate. A line of notes of the form
//
//	relative tolerance of want: 1e-05
//
// makes want stricter or laxer than the legal set: see Case.Tolerance.
type Case struct {
	// Name is the file's base name without its extension; whoever reads many
	// files may replace it by something unique.
	Name string
	// Path is the file name as it was given to ReadCase.
	Path string
	// Module is nil for StableHLO cases. Entry parameters that are tuples and a
	// result of tuples in tuples are taken apart: it has a parameter per leaf,
	// and one flat result (hlo.Module.Untupled).
	Module *hlo.Module
	// Text is the program as the file has it: HLO, or StableHLO if Module is
	// nil.
	Text string
	// Inputs has one entry per entry parameter. It is nil where the file has
	// no inputs of its own: then only generated streams exist. A StableHLO
	// case has an entry per line.
	Inputs []*hlo.Literal
	// Own says that the file has an inputs section, perhaps an empty one since
	// the program has no parameters.
	Own bool
	// InputLines are the lines of the inputs section, one per entry of Inputs.
	InputLines []string
	// Want are the expected values, one per leaf of the result; nil if the
	// file has none.
	Want []*hlo.Literal
	// Tolerance is the relative tolerance that the notes declare for the
	// floats of Want; 0 if they declare none. Then a float only has to be in
	// the legal set and of Want's class (NaN, which infinity, finite).
	Tolerance float64
	Notes     string
}

// The files of a case archive.
const (
	sectionHLO    = "module.hlo"
	sectionMLIR   = "module.mlir"
	sectionInputs = "inputs"
	sectionWant   = "want"
	sectionNotes  = "notes"
)

var (
	generatorLine = regexp.MustCompile(`^(iota|const|lattice|random|special|near|edges|crossed|lone|falling|rising)\s+(\S+)(.*)$`)
	arrayShape    = regexp.MustCompile(`^([a-z][a-z0-9]*)\[([0-9,]*)\](\{[0-9,]*\})?$`)
	toleranceLine = regexp.MustCompile(`(?m)^relative tolerance of want:\s*(\S+)\s*$`)
)

// ReadCase reads a case from data. name tells the kind by its extension: .hlo
// is a bare module, everything else a .case archive; errors carry it as the
// file name. Errors are *hlo.SyntaxError, also where the module does not pass
// hlo.Verify.
func ReadCase(name string, data []byte) (*Case, error) {
	c := &Case{Name: caseName(name), Path: name}
	if strings.HasSuffix(name, ".hlo") {
		return ReadModule(name, data)
	}
	sections, err := splitSections(name, data)
	if err != nil {
		return nil, err
	}
	program := sections[0]
	c.Text = program.text
	if program.name == sectionHLO {
		if err := c.parseModule(program.line - 1); err != nil {
			return nil, err
		}
	}
	for _, s := range sections[1:] {
		switch s.name {
		case sectionInputs:
			c.Own = true
			err = c.parseInputs(s)
		case sectionWant:
			err = c.parseWant(s)
		case sectionNotes:
			err = c.parseNotes(s)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ReadModule reads a bare module, whatever the name's extension.
func ReadModule(name string, data []byte) (*Case, error) {
	c := &Case{Name: caseName(name), Path: name, Text: string(data)}
	if err := c.parseModule(0); err != nil {
		return nil, err
	}
	return c, nil
}

func caseName(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for _, ext := range []string{".case", ".hlo"} {
		base = strings.TrimSuffix(base, ext)
	}
	return base
}

// section is one file of the archive; line is the 1-based line of its first
// line of text in the case file.
type section struct {
	name, text string
	line       int
}

func splitSections(name string, data []byte) ([]section, error) {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, &hlo.SyntaxError{File: name, Line: 1, Column: 1, Msg: "not a text file; want a txtar archive with -- module.hlo --"}
	}
	archive := txtar.Parse(data)
	line := 1 + bytes.Count(archive.Comment, []byte("\n"))
	if len(archive.Files) == 0 {
		return nil, &hlo.SyntaxError{File: name, Line: 1, Column: 1, Msg: "no section; want -- module.hlo -- (or -- module.mlir --)"}
	}
	order := map[string]int{sectionHLO: 0, sectionMLIR: 0, sectionInputs: 1, sectionWant: 2, sectionNotes: 3}
	var out []section
	last := -1
	for _, f := range archive.Files {
		rank, ok := order[f.Name]
		switch {
		case !ok:
			return nil, &hlo.SyntaxError{File: name, Line: line, Column: 4, Msg: fmt.Sprintf("unknown section %q; want module.hlo (or module.mlir), inputs, want, notes", f.Name)}
		case rank <= last:
			return nil, &hlo.SyntaxError{File: name, Line: line, Column: 4, Msg: fmt.Sprintf("section %q is doubled or out of order; want module.hlo (or module.mlir), inputs, want, notes", f.Name)}
		case last == -1 && rank != 0:
			return nil, &hlo.SyntaxError{File: name, Line: line, Column: 4, Msg: fmt.Sprintf("section %q comes first; want module.hlo or module.mlir", f.Name)}
		}
		last = rank
		out = append(out, section{f.Name, string(f.Data), line + 1})
		line += 1 + bytes.Count(f.Data, []byte("\n"))
	}
	return out, nil
}

// parseModule parses and verifies Text, which starts after skip lines of the
// file.
func (c *Case) parseModule(skip int) error {
	m, err := hlo.Parse(c.Path, []byte(strings.Repeat("\n", skip)+c.Text))
	if err != nil {
		return err
	}
	if err := hlo.Verify(m); err != nil {
		return c.placed(err, skip)
	}
	c.Module = m.Untupled()
	return nil
}

// placed turns the verifier's complaints, which name instructions, into one
// line about the first, with its place in the file.
func (c *Case) placed(err error, skip int) error {
	complaints := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		complaints = joined.Unwrap()
	}
	out := &hlo.SyntaxError{File: c.Path, Line: skip + 1, Column: 1, Msg: complaints[0].Error()}
	var v *hlo.Violation
	if errors.As(complaints[0], &v) {
		line, column := findInstruction(c.Text, v.Computation, v.Instruction)
		out.Line, out.Column = skip+line, column
	}
	if n := len(complaints) - 1; n > 0 {
		out.Msg += fmt.Sprintf(" (and %d more)", n)
	}
	return out
}

// findInstruction is the line and column, from 1, of an instruction in HLO
// text, or else of its computation, or else of the text's start.
func findInstruction(text, computation, instruction string) (line, column int) {
	line, column = 1, 1
	inside := false
	for i, l := range strings.Split(text, "\n") {
		t := strings.TrimSpace(l)
		at := strings.Index(l, t) + 1
		if strings.HasSuffix(t, "{") && !strings.Contains(t, " = ") {
			name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(t, "ENTRY "), "%"), " ")
			if inside = name == computation; inside {
				line, column = i+1, at
			}
			continue
		}
		name, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(t, "ROOT "), "%"), " =")
		if inside && ok && name == instruction {
			return i + 1, at
		}
	}
	return line, column
}

// Params are the shapes of the entry parameters; nil for StableHLO.
func (c *Case) Params() []*hlo.Shape {
	if c.Module == nil {
		return nil
	}
	var out []*hlo.Shape
	for _, p := range c.Module.Entry.Params() {
		out = append(out, p.Shape)
	}
	return out
}

// line is one line of a section that is neither blank nor a comment.
type line struct {
	text   string
	number int
	column int // of the first character of text, from 1
}

func (s section) lines() []line {
	var out []line
	for i, text := range strings.Split(s.text, "\n") {
		trimmed := strings.TrimSpace(text)
		if trimmed == "" || strings.HasPrefix(trimmed, "//") {
			continue
		}
		out = append(out, line{trimmed, s.line + i, strings.Index(text, trimmed) + 1})
	}
	return out
}

func (c *Case) errorAt(l line, format string, args ...any) error {
	return &hlo.SyntaxError{File: c.Path, Line: l.number, Column: l.column, Msg: fmt.Sprintf(format, args...)}
}

func (c *Case) parseInputs(s section) error {
	params := c.Params()
	lines := s.lines()
	for i, l := range lines {
		if c.Module != nil && i >= len(params) {
			return c.errorAt(l, "input %d, but the program has %d parameters", i, len(params))
		}
		lit, err := c.parseInput(l)
		if err != nil {
			return err
		}
		if c.Module != nil && !lit.Shape.Compatible(params[i]) {
			return c.errorAt(l, "input %d is %s, but parameter %d is %s", i, lit.Shape.WithoutLayout(), i, params[i].WithoutLayout())
		}
		c.Inputs = append(c.Inputs, lit)
		c.InputLines = append(c.InputLines, l.text)
	}
	if c.Module != nil && len(lines) < len(params) {
		return c.errorAt(line{number: s.line, column: 1}, "%d inputs for %d parameters: no input of type %s", len(lines), len(params), params[len(lines)].WithoutLayout())
	}
	return nil
}

func (c *Case) parseInput(l line) (*hlo.Literal, error) {
	m := generatorLine.FindStringSubmatch(l.text)
	if m == nil {
		return c.parseLiteral(l)
	}
	g, err := parseGenerator(m)
	if err != nil {
		return nil, c.errorAt(l, "%v", err)
	}
	return g.Generate(), nil
}

// ParseInput reads one line of an inputs section: a literal or a generator
// expression (see Generator).
func ParseInput(text string) (*hlo.Literal, error) {
	return (&Case{Path: "input"}).parseInput(line{text: text, number: 1, column: 1})
}

func (c *Case) parseLiteral(l line) (*hlo.Literal, error) {
	lit, err := hlo.ParseLiteral(l.text)
	if e := (*hlo.SyntaxError)(nil); errors.As(err, &e) {
		return nil, &hlo.SyntaxError{File: c.Path, Line: l.number, Column: l.column + e.Column - 1, Msg: e.Msg}
	}
	return lit, err
}

func (c *Case) parseWant(s section) error {
	lines := s.lines()
	var leaves []*hlo.Shape
	if c.Module != nil {
		leaves = c.Module.Entry.Root.Shape.Leaves()
	}
	for i, l := range lines {
		lit, err := c.parseLiteral(l)
		if err != nil {
			return err
		}
		if c.Module != nil && i >= len(leaves) {
			return c.errorAt(l, "expected value %d, but the result has %d leaves", i, len(leaves))
		}
		if c.Module != nil && !lit.Shape.Compatible(leaves[i]) {
			return c.errorAt(l, "expected value %d is %s, but leaf %d of the result is %s", i, lit.Shape.WithoutLayout(), i, leaves[i].WithoutLayout())
		}
		c.Want = append(c.Want, lit)
	}
	if c.Module != nil && len(lines) != 0 && len(lines) != len(leaves) {
		return c.errorAt(line{number: s.line, column: 1}, "%d expected values for the %d leaves of the result", len(lines), len(leaves))
	}
	return nil
}

func (c *Case) parseNotes(s section) error {
	c.Notes = s.text
	m := toleranceLine.FindStringSubmatchIndex(s.text)
	if m == nil {
		return nil
	}
	v, err := strconv.ParseFloat(s.text[m[2]:m[3]], 64)
	if err != nil || !(v > 0) || v >= 1 {
		l := line{number: s.line + strings.Count(s.text[:m[2]], "\n"), column: m[2] - m[0] + 1}
		return c.errorAt(l, "relative tolerance of want: want a number between 0 and 1, not %q", s.text[m[2]:m[3]])
	}
	c.Tolerance = v
	return nil
}

// Format writes the case as a .case archive. Inputs are written as the lines
// they were read from.
func (c *Case) Format() []byte {
	program := sectionHLO
	if c.Module == nil {
		program = sectionMLIR
	}
	a := &txtar.Archive{Files: []txtar.File{{Name: program, Data: []byte(c.Text)}}}
	if c.Own {
		a.Files = append(a.Files, txtar.File{Name: sectionInputs, Data: joinLines(c.InputLines)})
	}
	if c.Want != nil {
		var lines []string
		for _, w := range c.Want {
			lines = append(lines, w.String())
		}
		a.Files = append(a.Files, txtar.File{Name: sectionWant, Data: joinLines(lines)})
	}
	if c.Notes != "" {
		a.Files = append(a.Files, txtar.File{Name: sectionNotes, Data: []byte(c.Notes)})
	}
	return txtar.Format(a)
}

func joinLines(lines []string) []byte {
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// WithInputs is a copy of the case with other inputs and without want: what a
// finding of a generated stream is kept as.
func (c *Case) WithInputs(inputs []*hlo.Literal, lines []string, note string) *Case {
	out := *c
	out.Inputs, out.InputLines, out.Own, out.Want, out.Tolerance = inputs, slices.Clone(lines), true, nil, 0
	out.Notes = note
	return &out
}

// Hash is the SHA-256 of the program and the input lines, 64 hex digits: what
// the case is, whatever its name.
func (c *Case) Hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00%s", len(c.Text), c.Text)
	for _, l := range c.InputLines {
		fmt.Fprintf(h, "\x00%s", l)
	}
	return hex.EncodeToString(h.Sum(nil))
}
