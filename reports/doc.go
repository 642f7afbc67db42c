// Package reports renders a gate.Result: PR comment, job summary, JSON, HTML,
// SARIF and JUnit XML.
//
// A result holds text that came from a pull request or from a compiler: names,
// HLO, messages. All of it is treated as hostile (DESIGN section 8): neutral.go
// takes away its power to mention, link, mark up or reorder text, and code
// fences are longer than any run of back-ticks inside them.
package reports

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/passgate/passgate/gate"
)

// Format names a rendering.
type Format string

const (
	JSON    Format = "json"
	Comment Format = "comment"
	Summary Format = "summary"
	HTML    Format = "html"
	SARIF   Format = "sarif"
	JUnit   Format = "junit"
)

// rendering writes a result in two steps, so that no more than one case need be
// held: each gets the cases in their order, nil if they do not matter; end writes
// what is left.
type rendering struct {
	each func(*gate.CaseResult) error
	end  func() error
}

// files are the renderings and the names that they have in an output directory.
var files = []struct {
	format Format
	name   string
	begin  func(io.Writer, *gate.Result) (rendering, error)
}{
	{JSON, "result.json", beginJSON},
	{Comment, "comment.md", whole(renderComment)},
	{Summary, "summary.md", whole(renderSummary)},
	{HTML, "report.html", beginHTML},
	{SARIF, "results.sarif", whole(renderSARIF)},
	{JUnit, "junit.xml", beginJUnit},
}

// whole begins a rendering that has nothing about single cases.
func whole(render func(*gate.Result) ([]byte, error)) func(io.Writer, *gate.Result) (rendering, error) {
	return func(w io.Writer, r *gate.Result) (rendering, error) {
		return rendering{end: func() error {
			data, err := render(r)
			if err != nil {
				return err
			}
			_, err = w.Write(data)
			return err
		}}, nil
	}
}

// Formats are all formats.
func Formats() []Format {
	var out []Format
	for _, f := range files {
		out = append(out, f.format)
	}
	return out
}

// Render renders a result.
func Render(format Format, r *gate.Result) ([]byte, error) {
	var b bytes.Buffer
	err := RenderTo(&b, format, r)
	return b.Bytes(), err
}

// RenderTo writes a rendering of a result.
func RenderTo(w io.Writer, format Format, r *gate.Result) error {
	for _, f := range files {
		if f.format != format {
			continue
		}
		b := bufio.NewWriter(w)
		k, err := f.begin(b, r)
		if err != nil {
			return err
		}
		if err := run(r, k); err != nil {
			return err
		}
		return b.Flush()
	}
	return fmt.Errorf("unknown format %q; want one of %v", format, Formats())
}

// run reads the cases once, for all renderings, and ends them.
func run(r *gate.Result, all ...rendering) error {
	wanted := slices.DeleteFunc(slices.Clone(all), func(k rendering) bool { return k.each == nil })
	if len(wanted) > 0 {
		if err := r.EachCase(func(c *gate.CaseResult) error {
			for _, k := range wanted {
				if err := k.each(c); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for _, k := range all {
		if err := k.end(); err != nil {
			return err
		}
	}
	return nil
}
