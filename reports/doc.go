// Package reports renders a gate.Result: PR comment, job summary, JSON, HTML,
// SARIF and JUnit XML.
//
// A result holds text that came from a pull request or from a compiler: names,
// HLO, messages. All of it is treated as hostile (DESIGN section 8): neutral.go
// takes away its power to mention, link, mark up or reorder text, and code
// fences are longer than any run of back-ticks inside them.
package reports

import (
	"fmt"
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

// files are the renderings and the names that they have in an output directory.
var files = []struct {
	format Format
	name   string
	render func(*gate.Result) ([]byte, error)
}{
	{JSON, "result.json", renderJSON},
	{Comment, "comment.md", renderComment},
	{Summary, "summary.md", renderSummary},
	{HTML, "report.html", renderHTML},
	{SARIF, "results.sarif", renderSARIF},
	{JUnit, "junit.xml", renderJUnit},
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
	i := slices.IndexFunc(files, func(f struct {
		format Format
		name   string
		render func(*gate.Result) ([]byte, error)
	}) bool {
		return f.format == format
	})
	if i < 0 {
		return nil, fmt.Errorf("unknown format %q; want one of %v", format, Formats())
	}
	return files[i].render(r)
}
