// Package known reads the list of known findings: those that somebody has
// looked at and that shall not block until a date.
//
// The file is YAML:
//
//	known:
//	  - id: f-0123456789ab
//	    reason: openxla/xla issue 12345, repair is in review
//	    expires: 2027-01-31
//
// All three fields are required. A finding is known until the end of its day
// of expiry in UTC; afterwards it blocks again. A policy file holds the same
// list under the same name.
package known

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Entry is one known finding.
type Entry struct {
	ID      string
	Reason  string
	Expires Date
}

// Date is a day in UTC.
type Date struct{ time.Time }

const dateForm = "2006-01-02"

func (d Date) String() string { return d.Format(dateForm) }

// MarshalText writes YYYY-MM-DD.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads YYYY-MM-DD.
func (d *Date) UnmarshalText(text []byte) error {
	t, err := time.Parse(dateForm, string(text))
	if err != nil {
		return fmt.Errorf("%q is no date; want YYYY-MM-DD", text)
	}
	d.Time = t
	return nil
}

// Expired reports whether the day of expiry is over.
func (e Entry) Expired(now time.Time) bool {
	return !now.UTC().Before(e.Expires.AddDate(0, 0, 1))
}

// List is the value of `known`.
type List []Entry

// Find returns the entry of a finding.
func (l List) Find(id string) (Entry, bool) {
	for _, e := range l {
		if e.ID == id {
			return e, true
		}
	}
	return Entry{}, false
}

// SyntaxError is a list that cannot be used.
type SyntaxError struct {
	File         string
	Line, Column int // from 1
	Msg          string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// Parse reads a file that holds nothing but the list. Errors are *SyntaxError.
func Parse(name string, data []byte) (List, error) {
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, &SyntaxError{name, 1, 1, "the file is empty; want `known:` and a list"}
	} else if err != nil {
		return nil, syntax(name, err)
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, &SyntaxError{name, 1, 1, "more than one document; want `known:` and a list"}
	}
	root := &doc
	if root.Kind == yaml.DocumentNode {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode || len(root.Content) != 2 || root.Content[0].Value != "known" {
		at := root
		if root.Kind == yaml.MappingNode {
			for i := 0; i < len(root.Content); i += 2 {
				if root.Content[i].Value != "known" {
					at = root.Content[i]
					break
				}
			}
		}
		return nil, &SyntaxError{name, at.Line, at.Column, "want `known:` and a list, nothing else"}
	}
	var out List
	if err := out.UnmarshalYAML(root.Content[1]); err != nil {
		return nil, syntax(name, err)
	}
	return out, nil
}

// position is an error with its place in a YAML document.
type position struct {
	line, column int
	msg          string
}

func (p *position) Error() string { return fmt.Sprintf("line %d: %s", p.line, p.msg) }

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// syntax gives an error of the YAML library or of UnmarshalYAML the file's
// name and its place.
func syntax(name string, err error) error {
	var p *position
	if errors.As(err, &p) {
		return &SyntaxError{name, p.line, p.column, p.msg}
	}
	out := &SyntaxError{File: name, Line: 1, Column: 1, Msg: err.Error()}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		out.Msg = m[2]
		if m[1] != "" {
			fmt.Sscan(m[1], &out.Line)
		}
	}
	return out
}

var idForm = regexp.MustCompile(`^f-[0-9a-f]{12}$`)

// UnmarshalYAML reads the list strictly: unknown, missing and doubled fields
// and doubled entries are errors that name their line.
func (l *List) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		*l = nil
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return &position{n.Line, n.Column, "known: want a list of entries with id, reason and expires"}
	}
	*l = nil
	for _, item := range n.Content {
		e, err := entry(item)
		if err != nil {
			return err
		}
		if _, doubled := l.Find(e.ID); doubled {
			return &position{item.Line, item.Column, fmt.Sprintf("%s is listed twice", e.ID)}
		}
		*l = append(*l, e)
	}
	return nil
}

func entry(n *yaml.Node) (Entry, error) {
	var e Entry
	if n.Kind != yaml.MappingNode {
		return e, &position{n.Line, n.Column, "want an entry with id, reason and expires"}
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			return e, &position{key.Line, key.Column, fmt.Sprintf("%s is given twice", key.Value)}
		}
		seen[key.Value] = true
		if value.Kind != yaml.ScalarNode {
			return e, &position{value.Line, value.Column, fmt.Sprintf("%s: want one value", key.Value)}
		}
		switch key.Value {
		case "id":
			if !idForm.MatchString(value.Value) {
				return e, &position{value.Line, value.Column, fmt.Sprintf("id %q: want f- and 12 hex digits, as reports write it", value.Value)}
			}
			e.ID = value.Value
		case "reason":
			if e.Reason = strings.TrimSpace(value.Value); e.Reason == "" {
				return e, &position{value.Line, value.Column, "reason is empty"}
			}
		case "expires":
			if err := e.Expires.UnmarshalText([]byte(value.Value)); err != nil {
				return e, &position{value.Line, value.Column, "expires: " + err.Error()}
			}
		default:
			return e, &position{key.Line, key.Column, fmt.Sprintf("unknown field %q; want id, reason, expires", key.Value)}
		}
	}
	for _, want := range []string{"id", "reason", "expires"} {
		if !seen[want] {
			return e, &position{n.Line, n.Column, "entry without " + want}
		}
	}
	return e, nil
}
