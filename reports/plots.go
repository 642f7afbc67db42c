package reports

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"image/color"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/passgate/passgate/gate"
)

// The two colours of base and head; both are legible on white and on black.
var (
	baseColour = color.RGBA{0x2b, 0x8c, 0xbe, 0xff}
	headColour = color.RGBA{0xd9, 0x5f, 0x0e, 0xff}
)

// plottedRows bounds a plot's bars; what is left out is said in its caption.
const plottedRows = 20

// series are the bars of one kind, one for each label.
type series struct {
	name   string
	colour color.RGBA
	values []float64
}

// figure is a plot with its words.
type figure struct {
	Title, Caption string
	SVG            template.HTML
	Legend         []key
}

// key is a colour and its meaning.
type key struct {
	Name   string
	Colour template.CSS
}

// plotWidth is that of a phone's page, so that its text is as large there as the
// page's; wider pages set several plots side by side.
const plotWidth = 360

// countTicks are whole numbers, at most five of them.
type countTicks struct{}

func (countTicks) Ticks(min, max float64) []plot.Tick {
	step := 1.0
	for next := []float64{2, 2.5, 2}; max/step > 4; next = append(next[1:], next[0]) {
		step *= next[0] // 1, 2, 5, 10, 20, ...
	}
	var ticks []plot.Tick
	for v := 0.0; v <= max; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}

// bars draws horizontal bars, one group for each label, the first label on top.
func bars(title, axis string, labels []string, all []series) (figure, error) {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.X.Label.Text = axis
	p.X.Min = 0
	p.X.Tick.Marker = countTicks{}
	for _, text := range []*font.Font{&p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font} {
		text.Typeface, text.Variant, text.Size = "Liberation", "Sans", 12
	}
	names := make([]string, len(labels))
	for i, l := range labels {
		// Browsers set a name wider than the plot's own font, which is not there.
		names[len(labels)-1-i] = plotLabel(l) + strings.Repeat(" ", 1+len(l)/4)
	}
	var legend []key
	width := vg.Points(14) / vg.Length(len(all))
	for i, s := range all {
		values := plotter.Values(slices.Clone(s.values))
		slices.Reverse(values)
		b, err := plotter.NewBarChart(values, width)
		if err != nil {
			return figure{}, err
		}
		b.Horizontal, b.Color, b.LineStyle.Width = true, s.colour, 0
		b.Offset = width * (vg.Length(len(all)-1)/2 - vg.Length(i))
		p.Add(b)
		if len(all) > 1 {
			legend = append(legend, key{s.name, template.CSS(fmt.Sprintf("color:#%02x%02x%02x", s.colour.R, s.colour.G, s.colour.B))})
		}
	}
	p.X.Max = max(1, 1.04*p.X.Max) // the longest bar ends inside
	p.NominalY(names...)
	c := vgsvg.New(plotWidth, vg.Points(56+20*float64(len(labels))))
	p.Draw(draw.Crop(draw.New(c), 0, -vg.Points(14), 0, 0)) // room for half of the last tick's label
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return figure{}, err
	}
	return figure{Title: title, SVG: inlineSVG(b.String(), title), Legend: legend}, nil
}

// plotLabel is a name in the characters that are safe in SVG.
func plotLabel(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= ' ' && r < 0x7f && !strings.ContainsRune(`<>&"'`, r) {
			return r
		}
		return '?'
	}, s)
	if len(s) > 26 {
		s = s[:23] + "..."
	}
	return s
}

var (
	prologue = regexp.MustCompile(`(?s)^.*?<svg [^>]*>`)
	viewBox  = regexp.MustCompile(`viewBox="([^"]*)"`)
)

// inlineSVG makes a plot part of a page: it scales, has a name, and what is
// black takes the colour of the text, so that it is legible on dark pages.
func inlineSVG(s, title string) template.HTML {
	head := prologue.FindString(s)
	box := ""
	if m := viewBox.FindStringSubmatch(head); m != nil {
		box = m[1]
	}
	body := strings.NewReplacer("#000000", "currentColor", "font-family:Liberation Sans", "font-family:sans-serif").Replace(s[len(head):])
	return template.HTML(fmt.Sprintf(`<svg role="img" aria-label="%s" viewBox="%s" fill="currentColor" xmlns="http://www.w3.org/2000/svg">`, template.HTMLEscapeString(title), box) + body)
}

// figures are the plots of what was tested; cases counts them by outcome.
func figures(r *gate.Result, cases map[gate.Outcome]int) ([]figure, error) {
	var out []figure
	add := func(f figure, err error) error {
		if err == nil {
			out = append(out, f)
		}
		return err
	}
	outcomes := []gate.Outcome{gate.CaseOK, gate.CaseFinding, gate.CaseUndecided, gate.CaseUnsupported, gate.CaseRejected, gate.CaseSkipped, gate.CaseInfrastructure}
	counts := make([]float64, len(outcomes))
	names := make([]string, len(outcomes))
	for i, o := range outcomes {
		names[i], counts[i] = fmt.Sprintf("%s: %d", o, cases[o]), float64(cases[o])
	}
	if err := add(bars("Cases by outcome", "cases", names, []series{{"cases", baseColour, counts}})); err != nil {
		return nil, err
	}
	if len(r.Passes) > 0 {
		passes := slices.Clone(r.Passes)
		slices.SortStableFunc(passes, func(a, b gate.PassResult) int { return b.Fired - a.Fired })
		left := len(passes) - plottedRows
		passes = passes[:min(len(passes), plottedRows)]
		labels := make([]string, len(passes))
		fired, cases := make([]float64, len(passes)), make([]float64, len(passes))
		for i, p := range passes {
			labels[i], fired[i], cases[i] = p.Name, float64(p.Fired), float64(p.Cases)
		}
		f, err := bars("How often the passes in focus fired", "pass steps, cases", labels, []series{{"fired", headColour, fired}, {"cases", baseColour, cases}})
		if left > 0 {
			f.Caption = fmt.Sprintf("%d more passes are in the table.", left)
		}
		if err := add(f, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// errorFigures shows, for every cell of the accuracy statistics, on how many
// elements head and base lie farther from the right value.
func errorFigures(r *gate.Result) []figure {
	cells := r.Statistics.Cells
	if len(cells) == 0 {
		return nil
	}
	left := len(cells) - plottedRows
	cells = cells[:min(len(cells), plottedRows)]
	labels := make([]string, len(cells))
	head, base := make([]float64, len(cells)), make([]float64, len(cells))
	for i, c := range cells {
		labels[i] = strings.Join(cellRow(&c)[:3], " ")
		head[i], base[i] = float64(c.HeadWorse), float64(c.BaseWorse)
	}
	f, err := bars("Which side is farther from the right value", "elements", labels, []series{{"base", baseColour, base}, {"head", headColour, head}})
	if err != nil {
		return nil
	}
	if left > 0 {
		f.Caption = fmt.Sprintf("%d more cells are in the table.", left)
	}
	return append([]figure{f}, histograms(r.Statistics.Cells)...)
}

// plottedHistograms bounds the histograms of a page.
const plottedHistograms = 6

// histograms shows how far base and head lie from the exact values, in octaves
// of ULPs, for the cells in which they differ: what the statistics believe
// first, then the strongest evidence.
func histograms(cells []gate.Cell) []figure {
	var differ []*gate.Cell
	for i := range cells {
		if cells[i].Changed > 0 && len(cells[i].Base.Octaves)+len(cells[i].Head.Octaves) > 0 {
			differ = append(differ, &cells[i])
		}
	}
	slices.SortStableFunc(differ, func(a, b *gate.Cell) int {
		if a.Discovered != b.Discovered {
			if a.Discovered {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.E, a.E)
	})
	var out []figure
	for _, c := range differ[:min(len(differ), plottedHistograms)] {
		base, head, powers := map[int]int64{}, map[int]int64{}, map[int]bool{}
		for _, side := range []struct {
			to   map[int]int64
			from []gate.Octave
		}{{base, c.Base.Octaves}, {head, c.Head.Octaves}} {
			for _, o := range side.from {
				power := max(o.Power, smallestOctave)
				side.to[power] += o.Elements
				powers[power] = true
			}
		}
		labels := []string{fmt.Sprintf("exact: %d, %d", c.Base.Exact, c.Head.Exact)}
		values := [2][]float64{{float64(c.Base.Exact)}, {float64(c.Head.Exact)}}
		for _, power := range slices.Sorted(maps.Keys(powers)) {
			labels = append(labels, fmt.Sprintf("up to %s: %d, %d", octaveWord(power), base[power], head[power]))
			values[0], values[1] = append(values[0], float64(base[power])), append(values[1], float64(head[power]))
		}
		title := fmt.Sprintf("Distance from the exact values, ULP: %s", visible(clip(strings.Join(cellRow(c)[:3], " "), 200), false))
		f, err := bars(title, "elements", labels, []series{{"base", baseColour, values[0]}, {"head", headColour, values[1]}})
		if err != nil {
			continue
		}
		f.Caption = "Counts are base, head."
		out = append(out, f)
	}
	if left := len(differ) - plottedHistograms; left > 0 && len(out) > 0 {
		out[len(out)-1].Caption += fmt.Sprintf(" %d more cells in which base and head differ are in result.json.", left)
	}
	return out
}

// smallestOctave is the lowest octave with a bar of its own: below 2^-6 ULP
// nobody asks.
const smallestOctave = -6

// octaveWord is 2^power.
func octaveWord(power int) string {
	if power < 0 {
		return fmt.Sprintf("1/%d", 1<<-power)
	}
	if power > 20 {
		return fmt.Sprintf("2^%d", power)
	}
	return fmt.Sprint(1 << power)
}
