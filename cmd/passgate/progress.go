package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
	"github.com/passgate/passgate/xla/builds"
)

// lineEvery is the distance of progress lines where there is no terminal.
const lineEvery = 10 * time.Second

// terminal reports whether w is a terminal that can be drawn on.
func (a *app) terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || environment(a.environ)("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// paint colours text (ECMA-48, SGR), or leaves it as it is.
type paint bool

// paint is on for a terminal whose user has not asked for none (no-color.org).
func (a *app) paint(w io.Writer) paint {
	return paint(environment(a.environ)("NO_COLOR") == "" && a.terminal(w))
}

const (
	red    = 31
	green  = 32
	yellow = 33
)

func (p paint) in(colour int, s string) string {
	if !p || colour == 0 {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, s)
}

// findingColour is that of a finding: what blocks, what is new, the rest.
func findingColour(f *gate.Finding) int {
	switch {
	case f.Blocking:
		return red
	case f.Status == gate.New:
		return yellow
	}
	return 0
}

func verdictColour(v gate.Verdict) int {
	switch v {
	case gate.Pass:
		return green
	case gate.Blocked:
		return red
	}
	return yellow
}

// caseProgress returns a function to call after every case and one for the
// end: a bar with tables of passes and findings on a terminal, a line now and
// then elsewhere.
func (a *app) caseProgress() (report func(gate.Progress), done func()) {
	if !a.terminal(a.stderr) {
		last := a.now()
		return func(p gate.Progress) {
			if now := a.now(); now.Sub(last) >= lineEvery {
				last = now
				fmt.Fprintf(a.stderr, "%s, %s\n", doneWord(p), foundWord(p))
			}
		}, func() {}
	}
	bars := mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	b := &board{paint: a.paint(a.stderr)}
	var bar *mpb.Bar
	total := 0
	return func(p gate.Progress) {
			b.update(p)
			if bar == nil || bar.AbortedOrCompleted() || p.Total != total {
				if bar != nil { // the next part of the run begins
					bar.Abort(true)
				}
				total = p.Total
				bar = bars.AddBar(int64(p.Total), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return b.done() })),
					mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return b.found() })), mpb.BarBtmExtender(b.fillers()...))
			}
			bar.SetCurrent(int64(p.Done))
		}, func() {
			if bar != nil && !bar.Completed() {
				bar.Abort(false)
			}
			bars.Wait()
		}
}

// doneWord is how far a run is.
func doneWord(p gate.Progress) string {
	if p.Total == 0 {
		return fmt.Sprintf("%d programs", p.Done)
	}
	return fmt.Sprintf("%d of %d cases", p.Done, p.Total)
}

func foundWord(p gate.Progress) string {
	if p.Findings == 1 {
		return fmt.Sprintf("1 finding, %d new", p.News)
	}
	return fmt.Sprintf("%d findings, %d new", p.Findings, p.News)
}

// The board is at most this high.
const (
	boardPasses   = 6
	boardFindings = 5
	boardRows     = 1 + boardPasses + 1 + boardFindings
)

// board is what stands below the bar: how often passes fired, and the gravest
// of the last findings.
type board struct {
	paint paint
	mu    sync.Mutex
	state gate.Progress
	kept  []gate.Finding
}

func (b *board) update(p gate.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = p
	b.kept = append(slices.Clone(p.Found), b.kept...) // the newest first
	slices.SortStableFunc(b.kept, func(x, y gate.Finding) int { return cmp.Compare(rank(&x), rank(&y)) })
	b.kept = b.kept[:min(len(b.kept), boardFindings)]
}

func rank(f *gate.Finding) int { return slices.Index([]int{red, yellow, 0}, findingColour(f)) }

func (b *board) done() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return doneWord(b.state)
}

func (b *board) found() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return foundWord(b.state)
}

// row is a line of the board. Names in it come from files: nothing in them may
// move the cursor.
type row struct {
	text   string
	colour int
}

func (b *board) rows() []row {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []row
	passes := slices.Clone(b.state.Passes)
	slices.SortStableFunc(passes, func(x, y gate.PassResult) int {
		return cmp.Or(cmp.Compare(y.Weight, x.Weight), cmp.Compare(y.Fired, x.Fired))
	})
	for i, p := range passes {
		if i == 0 {
			out = append(out, row{text: fmt.Sprintf("  %6s %6s  %s", "FIRED", "CASES", "PASS")})
		}
		if left := passes[i:]; i == boardPasses && len(left) > 1 {
			fired := 0
			for _, p := range left {
				fired += p.Fired
			}
			out = append(out, row{text: fmt.Sprintf("  %6d %6s  %d more passes", fired, "", len(left))})
			break
		}
		out = append(out, row{text: fmt.Sprintf("  %6d %6d  %s", p.Fired, p.Cases, reports.Neutral(p.Name, 80))})
	}
	for _, f := range b.kept {
		guilty := ""
		if f.Pass != nil {
			guilty = " by " + reports.Neutral(f.Pass.Name, 80)
		}
		out = append(out, row{fmt.Sprintf("  %s: %s in %s%s", f.Status, f.Class, reports.Neutral(f.Case, 80), guilty), findingColour(&f)})
	}
	return out
}

// fillers are the board's lines, as many as there may be; one that has nothing
// to say takes no room.
func (b *board) fillers() []mpb.BarFiller {
	var out []mpb.BarFiller
	for i := range boardRows {
		out = append(out, mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			rows := b.rows()
			if i >= len(rows) {
				return nil
			}
			text := rows[i].text
			if width := max(10, s.AvailableWidth-1); len(text) > width { // no line wraps
				text = strings.ToValidUTF8(text[:width-3], "") + "..."
			}
			_, err := fmt.Fprintln(w, b.paint.in(rows[i].colour, text))
			return err
		}))
	}
	return out
}

// fetchProgress reports downloads: a line when something starts and, where it
// takes long, now and then.
func (a *app) fetchProgress() func(builds.Event) {
	var mu sync.Mutex
	what := ""
	var last time.Time
	return func(e builds.Event) {
		mu.Lock()
		defer mu.Unlock()
		now := a.now()
		if e.What == what && now.Sub(last) < lineEvery {
			return
		}
		what, last = e.What, now
		size := ""
		if e.Total > 0 {
			size = fmt.Sprintf(" (%d of %d MB)", e.Done>>20, e.Total>>20)
		} else if e.Done > 0 {
			size = fmt.Sprintf(" (%d MB)", e.Done>>20)
		}
		fmt.Fprintf(a.stderr, "%s: %s%s\n", e.Spec, e.What, size)
	}
}
