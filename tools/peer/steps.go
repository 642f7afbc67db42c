package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

const stepsUsage = `usage: peer steps (--xla DIR | --cases DIR) --build SPEC [flags]

Compiles programs up to code generation on one build, as base and as head, has
the gate judge every pass step, and prints how many steps are judged,
undecided and unknown, the latter by reason.

`

func stepsMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("peer steps", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, stepsUsage); flags.PrintDefaults() }
	checkout := flags.String("xla", "", "XLA source checkout whose test modules are compiled")
	dir := flags.String("cases", "", "directory of cases")
	build := flags.String("build", "xla-2026-06", "build spec")
	limit := flags.Int("limit", 1000, "programs, spread evenly over all; 0 is all")
	workers := flags.Int("workers", runtime.NumCPU(), "programs at a time")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if (*checkout == "") == (*dir == "") || flags.NArg() > 0 || *limit < 0 {
		fmt.Fprintln(stderr, "peer steps: need one of --xla DIR and --cases DIR, and no other arguments")
		return 2
	}
	cases, err := stepCases(*checkout, *dir, *limit)
	if err == nil {
		err = countSteps(ctx, *build, cases, *workers, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "peer steps:", err)
		return 2
	}
	return 0
}

// stepCases reads the programs; those that package hlo refuses are left out.
func stepCases(checkout, dir string, limit int) ([]*fuzz.Case, error) {
	var all []*fuzz.Case
	if dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "*.case"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			c, err := fuzz.ReadCase(f, data)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	} else {
		seen := map[string]bool{}
		for m, err := range fuzz.Harvest(os.DirFS(checkout)) {
			if err != nil {
				return nil, err
			}
			if seen[m.Text] {
				continue
			}
			seen[m.Text] = true
			if c, err := fuzz.ReadModule(fmt.Sprintf("%05d.hlo", len(seen)), []byte(m.Text)); err == nil {
				all = append(all, c)
			}
		}
	}
	if limit == 0 || limit >= len(all) {
		return all, nil
	}
	out := make([]*fuzz.Case, limit)
	for i := range out {
		out[i] = all[i*len(all)/limit]
	}
	return out, nil
}

func countSteps(ctx context.Context, build string, cases []*fuzz.Case, workers int, w io.Writer) error {
	spec, err := builds.Parse(build)
	if err != nil {
		return err
	}
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		return err
	}
	b, err := store.Fetch(ctx, spec)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	pool, err := worker.NewPool(worker.Config{Command: []string{self, "worker"}, Workers: workers, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer pool.Close()
	res, err := gate.Run(ctx, gate.Config{
		Base: b, Head: b, Cases: cases, Runner: pool, Now: time.Now, Seed: 1, Workers: workers, Timeout: time.Minute, PassesOnly: true,
	})
	if err != nil {
		return err
	}
	writeSteps(w, res)
	return ctx.Err()
}

func writeSteps(w io.Writer, res *gate.Result) {
	s := res.Steps
	if s == nil {
		s = &gate.StepCounts{}
	}
	total := s.Judged + s.Undecided + s.Unknown
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, total)) }
	fmt.Fprintf(w, "%d programs, %d compiled and examined; each build's steps are counted\n", res.Totals.Cases, res.Totals.PassesOnly)
	fmt.Fprintf(w, "%d changed steps: %d judged (%.2f %%), %d undecided (%.2f %%), %d unknown (%.2f %%)\n",
		total, s.Judged, share(s.Judged), s.Undecided, share(s.Undecided), s.Unknown, share(s.Unknown))
	reasons := slices.SortedFunc(maps.Keys(s.UnknownBy), func(a, b string) int {
		if d := s.UnknownBy[b] - s.UnknownBy[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, why := range reasons {
		fmt.Fprintf(w, "%6d unknown: %s\n", s.UnknownBy[why], why)
	}
}
