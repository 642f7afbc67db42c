// Package policy reads passgate.yaml: what a project lets the gate block, and
// for how long it looks away. The file is strict: an unknown key, a date that
// is none or a rule without a reason is an error with its place.
// passgate.schema.json is its JSON Schema, for editors.
package policy

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/passgate/passgate/hlo"
)

// FileName is the policy that check reads if it stands in the working directory.
const FileName = "passgate.yaml"

// Schema is the JSON Schema of the file.
//
//go:embed passgate.schema.json
var Schema []byte

// Policy is the content of a passgate.yaml. The zero value, with version 1, is
// the gate's own rules.
type Policy struct {
	// Version is 1.
	Version int `yaml:"version"`
	// Budget is the time after which no further case is started, "5m"; "" is
	// no limit.
	Budget string `yaml:"budget"`
	// ULPs replace declared budgets of operations as the threshold above which
	// a loss of accuracy blocks. They do not change what is legal.
	ULPs []ULPBudget `yaml:"ulp-budgets"`
	// Block are the classes of findings that block; nil is all.
	Block []string `yaml:"block"`
	// Contested are the argued semantics that never block; nil is all.
	Contested []string `yaml:"contested"`
	// KnownIssues are findings that somebody has looked at; they do not block.
	KnownIssues []KnownIssue `yaml:"known-issues"`
	// Overrides let a blocked change through; every report shows them.
	Overrides []Override `yaml:"overrides"`
	// Firing says how often passes in focus must have changed programs.
	Firing Firing `yaml:"minimum-firing"`
	Limits Limits `yaml:"limits"`
	// Streams are the sets of flags to run: comparison, default; nil is both.
	// Comparison is always among them.
	Streams []string `yaml:"flag-streams"`

	// File is where it was read from, as the user named it, Text what was read.
	File string `yaml:"-"`
	Text string `yaml:"-"`
}

// ULPBudget is the declared accuracy of one operation.
type ULPBudget struct {
	Op   string  `yaml:"op"`
	Type string  `yaml:"type"`
	ULPs float64 `yaml:"ulps"`
}

// Scope says which findings a rule is about: those that match every field that
// is set. Case is a pattern of path.Match, the others are compared whole.
type Scope struct {
	Finding     string `yaml:"finding"` // id of a finding or of its cluster
	Class       string `yaml:"class"`
	Case        string `yaml:"case"`
	Pass        string `yaml:"pass"`
	Instruction string `yaml:"instruction"`
	Opcode      string `yaml:"opcode"`
}

// KnownIssue is a finding that is tracked elsewhere.
type KnownIssue struct {
	ID      string `yaml:"id"` // a link or a number
	Reason  string `yaml:"reason"`
	Expires string `yaml:"expires"` // the last day, UTC: 2027-03-31
	Match   Scope  `yaml:"match"`
}

// Override is an audited exception.
type Override struct {
	Reason  string `yaml:"reason"`
	Person  string `yaml:"person"`
	Expires string `yaml:"expires"`
	Scope   Scope  `yaml:"scope"`
}

// Firing are minimum counts of cases in which a pass in focus changed the
// program. Below one the verdict is not-exercised.
type Firing struct {
	Default int            `yaml:"default"` // for all passes in focus together; 0 is 1
	Passes  map[string]int `yaml:"passes"`
}

// Limits bound a run.
type Limits struct {
	Timeout string `yaml:"timeout"` // of one request for a small program, "60s"
	Probes  *int   `yaml:"probes"`  // smaller programs tried for each blocking finding
	Workers int    `yaml:"workers"`
	Cases   int    `yaml:"cases"` // at most so many cases are run; 0 is all
}

// Subject is what a rule is matched against.
type Subject struct {
	Finding, Cluster, Class, Case, Pass, Instruction, Opcode string
}

// Matches reports whether a subject is in scope.
func (s Scope) Matches(f Subject) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	ok, _ := path.Match(s.Case, f.Case) // checked when read
	return (same(s.Finding, f.Finding) || same(s.Finding, f.Cluster)) && same(s.Class, f.Class) && (s.Case == "" || ok) && same(s.Pass, f.Pass) &&
		same(s.Instruction, f.Instruction) && same(s.Opcode, f.Opcode)
}

// String lists the fields that are set: "case=c0*, class=crash".
func (s Scope) String() string {
	var out []string
	for _, f := range s.fields() {
		if f[1] != "" {
			out = append(out, f[0]+"="+f[1])
		}
	}
	return strings.Join(out, ", ")
}

func (s Scope) fields() [6][2]string {
	return [...][2]string{{"finding", s.Finding}, {"class", s.Class}, {"case", s.Case}, {"pass", s.Pass}, {"instruction", s.Instruction}, {"opcode", s.Opcode}}
}

// Classes are the classes of findings, Contests the argued semantics, and
// FlagStreams the sets of flags, in the words of result.json.
var (
	Classes     = []string{"miscompile", "numeric-degradation", "crash", "hang", "buffer-corruption", "nondeterminism"}
	Contests    = []string{"signed overflow", "out-of-range conversion", "integer division by zero", "NaN in minimum or maximum", "subnormals", "out-of-range shift", "order of duplicates", "implementation-defined"}
	FlagStreams = []string{"comparison", "default"}
)

// Blocks reports whether findings of a class may block. A nil policy is the
// gate's own rules, here and below.
func (p *Policy) Blocks(class string) bool {
	return p == nil || p.Block == nil || slices.Contains(p.Block, class)
}

// Contests reports whether an argued semantics is contested.
func (p *Policy) Contests(name string) bool {
	return p == nil || p.Contested == nil || slices.Contains(p.Contested, name)
}

// Runs reports whether a set of flags is run.
func (p *Policy) Runs(flags string) bool {
	return p == nil || p.Streams == nil || slices.Contains(p.Streams, flags)
}

// Known is the first known issue in force that a finding matches, nil if none.
func (p *Policy) Known(f Subject, now time.Time) *KnownIssue {
	if p == nil {
		return nil
	}
	for i, k := range p.KnownIssues {
		if k.Match.Matches(f) && !Expired(k.Expires, now) {
			return &p.KnownIssues[i]
		}
	}
	return nil
}

// Overridden is the first override in force that a finding matches, nil if none.
func (p *Policy) Overridden(f Subject, now time.Time) *Override {
	if p == nil {
		return nil
	}
	for i, o := range p.Overrides {
		if o.Scope.Matches(f) && !Expired(o.Expires, now) {
			return &p.Overrides[i]
		}
	}
	return nil
}

// ULPsOf is the policy's own budget of an operation on a type in ULPs; ok is
// false if it has none.
func (p *Policy) ULPsOf(op, dtype string) (ulps float64, ok bool) {
	if p == nil {
		return 0, false
	}
	i := slices.IndexFunc(p.ULPs, func(b ULPBudget) bool { return b.Op == op && b.Type == dtype })
	if i < 0 {
		return 0, false
	}
	return p.ULPs[i].ULPs, true
}

// Expired reports whether the last day of a rule, YYYY-MM-DD, is over in UTC.
func Expired(day string, now time.Time) bool {
	last, err := time.Parse(time.DateOnly, day)
	return err != nil || !now.UTC().Before(last.AddDate(0, 0, 1))
}

// Error is a fault of a policy file. Line and Column count from 1.
type Error struct {
	File         string
	Line, Column int
	Reason       string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

// maxFile bounds a policy in bytes.
const maxFile = 1 << 20

// Parse reads a policy; file names it in errors, which are *Error.
func Parse(file string, data []byte) (*Policy, error) {
	if len(data) > maxFile {
		return nil, &Error{file, 1, 1, fmt.Sprintf("the file has %d bytes, more than %d", len(data), maxFile)}
	}
	tokens := lexer.Tokenize(string(data))
	if e := bounded(tokens); e != nil {
		e.File = file
		return nil, e
	}
	tree, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, located(file, err)
	}
	if len(tree.Docs) > 1 {
		return nil, &Error{file, 1, 1, "want one document"}
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return nil, &Error{file, 1, 1, "the file is empty; want version: 1"}
	}
	if _, ok := tree.Docs[0].Body.(ast.MapNode); !ok {
		return nil, &Error{file, 1, 1, "want keys and values, such as version: 1"}
	}
	p := &Policy{File: file, Text: string(data)}
	if err := yaml.NodeToValue(tree.Docs[0].Body, p, yaml.Strict()); err != nil {
		return nil, located(file, err)
	}
	if at, reason := p.check(); reason != "" {
		e := &Error{file, 1, 1, reason}
		e.Line, e.Column = place(tree, at)
		return nil, e
	}
	return p, nil
}

// maxNesting bounds the lists and maps of a policy inside each other; its own
// keys nest four deep.
const maxNesting = 32

// bounded refuses what costs the YAML library far more time than its size
// tells: deep nesting, in which the parser is quadratic, and aliases, which
// stand for exponentially many values. nil if the tokens hold neither.
func bounded(tokens token.Tokens) *Error {
	flow, indents := 0, []int(nil)
	for _, t := range tokens {
		switch t.Type {
		case token.AliasType, token.AnchorType:
			return &Error{Line: t.Position.Line, Column: t.Position.Column, Reason: "anchors and aliases are not read; write the values out"}
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.StringType:
			if flow > 0 {
				continue
			}
			// A block is open until something stands left of it.
			for len(indents) > 0 && indents[len(indents)-1] > t.Position.Column {
				indents = indents[:len(indents)-1]
			}
			if starts := t.Type != token.StringType || t.Next != nil && t.Next.Type == token.MappingValueType; starts && (len(indents) == 0 || indents[len(indents)-1] < t.Position.Column) {
				indents = append(indents, t.Position.Column)
			}
		}
		if flow+len(indents) > maxNesting {
			return &Error{Line: t.Position.Line, Column: t.Position.Column, Reason: fmt.Sprintf("nested more than %d deep", maxNesting)}
		}
	}
	return nil
}

// located is the place that the YAML library gives an error.
func located(file string, err error) error {
	e := &Error{file, 1, 1, err.Error()}
	var y yaml.Error
	if errors.As(err, &y) {
		e.Reason = y.GetMessage()
		if t := y.GetToken(); t != nil && t.Position != nil {
			e.Line, e.Column = t.Position.Line, t.Position.Column
		}
	}
	e.Reason, _, _ = strings.Cut(goTypes.ReplaceAllString(e.Reason, "the key"), "\n")
	return e
}

// goTypes are names of Go in the library's messages.
var goTypes = regexp.MustCompile(`Go struct field \S+ of type \S+|Go value of type \S+`)

// place finds the node of a path, or the nearest one above it.
func place(tree *ast.File, at []any) (line, column int) {
	for n := len(at); n > 0; n-- {
		b := (&yaml.PathBuilder{}).Root()
		for _, step := range at[:n] {
			switch s := step.(type) {
			case string:
				b = b.Child(s)
			case int:
				b = b.Index(uint(s))
			}
		}
		node, err := b.Build().FilterFile(tree)
		if err != nil || node == nil || node.GetToken() == nil {
			continue
		}
		t := node.GetToken()
		if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
			t = m.Values[0].Key.GetToken()
		} else if v, ok := node.(*ast.MappingValueNode); ok {
			t = v.Key.GetToken()
		}
		return t.Position.Line, t.Position.Column
	}
	return 1, 1
}

// check says what is wrong with the values, and at which path.
func (p *Policy) check() (at []any, reason string) {
	fail := func(format string, args ...any) func(path ...any) ([]any, string) {
		return func(path ...any) ([]any, string) { return path, fmt.Sprintf(format, args...) }
	}
	if p.Version != 1 {
		return fail("version is %d; want 1", p.Version)("version")
	}
	for _, d := range []struct {
		value string
		path  []any
	}{{p.Budget, []any{"budget"}}, {p.Limits.Timeout, []any{"limits", "timeout"}}} {
		if v, err := time.ParseDuration(d.value); d.value != "" && (err != nil || v <= 0) {
			return fail("%q is no duration; want one such as 90s or 5m", d.value)(d.path...)
		}
	}
	for i, b := range p.ULPs {
		if op, ok := hlo.OpcodeByName(b.Op); !ok || op.String() != b.Op {
			return fail("%q is no operation of HLO", b.Op)("ulp-budgets", i, "op")
		}
		if t, ok := hlo.TypeByName(b.Type); !ok || !t.IsFloat() && !t.IsComplex() {
			return fail("%q is no float type", b.Type)("ulp-budgets", i, "type")
		}
		if !(b.ULPs > 0) || b.ULPs > 1e18 {
			return fail("%s ULPs; want a positive number", strconv.FormatFloat(b.ULPs, 'g', -1, 64))("ulp-budgets", i, "ulps")
		}
		if k := slices.IndexFunc(p.ULPs, func(o ULPBudget) bool { return o.Op == b.Op && o.Type == b.Type }); k < i {
			return fail("a second budget of %s %s", b.Op, b.Type)("ulp-budgets", i)
		}
	}
	for _, l := range []struct {
		name   string
		values []string
		of     []string
	}{{"block", p.Block, Classes}, {"contested", p.Contested, Contests}, {"flag-streams", p.Streams, FlagStreams}} {
		for i, v := range l.values {
			if !slices.Contains(l.of, v) {
				return fail("%q; want one of %s", v, strings.Join(l.of, ", "))(l.name, i)
			}
		}
	}
	if p.Streams != nil && !slices.Contains(p.Streams, "comparison") {
		return fail("the comparison flags always run: list them")("flag-streams")
	}
	for i, k := range p.KnownIssues {
		if k.ID == "" || k.Reason == "" {
			return fail("a known issue needs an id and a reason")("known-issues", i)
		}
		if reason := checkDate(k.Expires); reason != "" {
			return fail("%s", reason)("known-issues", i, "expires")
		}
		if reason := k.Match.check(); reason != "" {
			return fail("%s", reason)("known-issues", i, "match")
		}
	}
	for i, o := range p.Overrides {
		if o.Reason == "" || o.Person == "" {
			return fail("an override needs a reason and a person")("overrides", i)
		}
		if reason := checkDate(o.Expires); reason != "" {
			return fail("%s", reason)("overrides", i, "expires")
		}
		if reason := o.Scope.check(); reason != "" {
			return fail("%s", reason)("overrides", i, "scope")
		}
	}
	if p.Firing.Default < 0 {
		return fail("%d; want a count", p.Firing.Default)("minimum-firing", "default")
	}
	for _, name := range slices.Sorted(keys(p.Firing.Passes)) {
		if p.Firing.Passes[name] < 0 {
			return fail("%d; want a count", p.Firing.Passes[name])("minimum-firing", "passes", name)
		}
	}
	switch {
	case p.Limits.Workers < 0:
		return fail("%d; want a count", p.Limits.Workers)("limits", "workers")
	case p.Limits.Cases < 0:
		return fail("%d; want a count", p.Limits.Cases)("limits", "cases")
	case p.Limits.Probes != nil && *p.Limits.Probes < 0:
		return fail("%d; want a count", *p.Limits.Probes)("limits", "probes")
	}
	return nil, ""
}

func keys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func checkDate(s string) string {
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return fmt.Sprintf("%q is no date; want the last day of the rule, such as 2027-03-31", s)
	}
	return ""
}

func (s Scope) check() string {
	if s == (Scope{}) {
		return "empty: it would match every finding; want at least one of finding, class, case, pass, instruction, opcode"
	}
	if _, err := path.Match(s.Case, ""); err != nil {
		return fmt.Sprintf("bad pattern %q", s.Case)
	}
	if s.Class != "" && !slices.Contains(Classes, s.Class) {
		return fmt.Sprintf("class %q; want one of %s", s.Class, strings.Join(Classes, ", "))
	}
	return ""
}
