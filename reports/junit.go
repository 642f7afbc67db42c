package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/passgate/passgate/gate"
)

// The dialect of JUnit XML that CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class     string        `xml:"classname,attr"`
		Name      string        `xml:"name,attr"`
		Failure   *junitMessage `xml:"failure,omitempty"`
		Error     *junitMessage `xml:"error,omitempty"`
		Skipped   *junitMessage `xml:"skipped,omitempty"`
		SystemOut string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// beginJUnit holds the text of the cases until their sums are known, which stand
// before them.
func beginJUnit(w io.Writer, r *gate.Result) (rendering, error) {
	byCase := map[string][]*gate.Finding{}
	for i := range r.Findings {
		f := &r.Findings[i]
		byCase[f.Case] = append(byCase[f.Case], f)
	}
	s := junitSuite{Name: visible(fmt.Sprintf("passgate %s against %s", r.Head.Spec, r.Base.Spec), false)}
	var held net.Buffers
	var part bytes.Buffer
	each := func(c *gate.CaseResult) error {
		k := junitCase{Class: "passgate", Name: visible(c.ID, false)}
		var notes []string
		for _, f := range byCase[c.ID] {
			line := visible(fmt.Sprintf("%s %s (%s): %s", f.ID, f.Class, statusWord(f), firstWord(shown(f))), false)
			notes = append(notes, line)
			if f.Blocking && k.Failure == nil {
				k.Failure = &junitMessage{Message: line, Type: string(f.Class), Text: visible(f.Minimal, true)}
				s.Failures++
			}
		}
		detail := visible(c.Detail, false)
		switch {
		case k.Failure != nil:
		case c.Outcome == gate.CaseInfrastructure:
			k.Error = &junitMessage{Message: detail, Type: "infrastructure"}
			s.Errors++
		case c.Outcome == gate.CaseSkipped || c.Outcome == gate.CaseUnsupported || c.Outcome == gate.CaseRejected || c.Outcome == gate.CaseUndecided:
			k.Skipped = &junitMessage{Message: strings.TrimSuffix(string(c.Outcome)+": "+detail, ": ")}
			s.Skipped++
		}
		k.SystemOut = strings.Join(notes, "\n")
		s.Tests++
		part.WriteByte('\n')
		enc := xml.NewEncoder(&part)
		enc.Indent("    ", "  ")
		err := enc.EncodeElement(k, xml.StartElement{Name: xml.Name{Local: "testcase"}})
		if part.Len() >= 1<<20 {
			held = append(held, bytes.Clone(part.Bytes()))
			part.Reset()
		}
		return err
	}
	return rendering{each, func() error {
		held = append(held, part.Bytes())
		frame, err := xml.MarshalIndent(junitSuites{Tests: s.Tests, Failures: s.Failures, Errors: s.Errors, Skipped: s.Skipped, Suite: s}, "", "  ")
		if err != nil {
			return err
		}
		// Without cases the frame ends with the empty suite's end.
		const end = "</testsuite>\n</testsuites>"
		frame = bytes.TrimSuffix(frame, []byte(end))
		if _, err := fmt.Fprintf(w, "%s%s", xml.Header, bytes.TrimRight(frame, " \n")); err != nil {
			return err
		}
		if _, err := held.WriteTo(w); err != nil {
			return err
		}
		last := end
		if s.Tests > 0 {
			last = "\n  " + end
		}
		_, err = io.WriteString(w, last+"\n")
		return err
	}}, nil
}
