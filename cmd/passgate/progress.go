package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/builds"
)

// lineEvery is the distance of progress lines where there is no terminal.
const lineEvery = 10 * time.Second

// terminal reports whether progress may be drawn: standard error is a terminal
// that is not told to be plain (no-color.org).
func (a *app) terminal() bool {
	f, ok := a.stderr.(*os.File)
	if !ok || environment(a.environ)("NO_COLOR") != "" || environment(a.environ)("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// caseProgress returns a function to call after every case and one for the
// end: a bar on a terminal, a line now and then elsewhere.
func (a *app) caseProgress() (report func(gate.Progress), done func()) {
	if !a.terminal() {
		last := a.now()
		return func(p gate.Progress) {
			if now := a.now(); now.Sub(last) >= lineEvery {
				last = now
				fmt.Fprintf(a.stderr, "%d of %d cases, %d findings, %d new\n", p.Done, p.Total, p.Findings, p.News)
			}
		}, func() {}
	}
	bars := mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	var bar *mpb.Bar
	var state gate.Progress
	var mu sync.Mutex
	return func(p gate.Progress) {
			mu.Lock()
			state = p
			mu.Unlock()
			if bar == nil {
				bar = bars.AddBar(int64(p.Total), mpb.PrependDecorators(decor.CountersNoUnit("%d of %d cases")),
					mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
						mu.Lock()
						defer mu.Unlock()
						return fmt.Sprintf("%d findings, %d new", state.Findings, state.News)
					})))
			}
			bar.SetCurrent(int64(p.Done))
		}, func() {
			if bar != nil && !bar.Completed() {
				bar.Abort(false)
			}
			bars.Wait()
		}
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
