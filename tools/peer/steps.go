package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/tools/rig"
	"github.com/passgate/passgate/xla/worker"
)

const stepsUsage = `usage: peer steps (--xla DIR | --cases DIR) --build SPEC [flags]

Compiles programs up to code generation on one build, has the reference judge
every pass step that changed them, and prints how many steps are judged,
undecided and unknown, by reason and by pass. Programs for several devices, with
an array of more than 2^20 elements, or with parameters that are no arrays of
static shape are skipped and counted.

Every beginning of a run is an even sample of all its programs, and running totals
are printed on the way, so that a run that is cut off says something, too. With
--record it goes on where it was cut off.

`

type stepsConfig struct {
	checkout, dir, build string
	limit, workers, show int
	deadline             time.Duration
	terms, record        string
	match                *regexp.Regexp
}

func stepsMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c stepsConfig
	flags := flag.NewFlagSet("peer steps", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, stepsUsage); flags.PrintDefaults() }
	flags.StringVar(&c.checkout, "xla", "", "XLA source checkout whose test modules are compiled")
	flags.StringVar(&c.dir, "cases", "", "directory of cases")
	flags.StringVar(&c.build, "build", "xla-2026-06", "build spec")
	flags.StringVar(&c.terms, "accept-terms", "", "builds whose own terms are accepted, comma-separated")
	flags.IntVar(&c.limit, "limit", 1000, "programs, spread evenly over all that are not skipped; 0 is all")
	flags.IntVar(&c.workers, "workers", runtime.NumCPU(), "programs at a time")
	flags.IntVar(&c.show, "show", 20, "lines per list")
	flags.DurationVar(&c.deadline, "deadline", 10*time.Minute, "time for one program, should a compiler hang; steps that are left then are unknown. What is judged is bounded by work, not by time")
	flags.StringVar(&c.record, "record", "", "file to which each judged program is added; what is in it already is not judged again")
	match := flags.String("match", "", "only programs whose path:line or name matches this regular expression")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	var err error
	if c.match, err = regexp.Compile(*match); err != nil {
		fmt.Fprintln(stderr, "peer steps: --match:", err)
		return 2
	}
	if (c.checkout == "") == (c.dir == "") || flags.NArg() > 0 || c.limit < 0 || c.deadline <= 0 {
		fmt.Fprintln(stderr, "peer steps: need one of --xla DIR and --cases DIR, a positive deadline, and no other arguments")
		return 2
	}
	sum := newStepSum()
	cases, err := stepCases(c, sum)
	if err == nil {
		err = countSteps(ctx, c, cases, sum, stderr)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(stderr, "peer steps:", err)
		return 2
	}
	sum.write(stdout, c.show)
	if err != nil {
		fmt.Fprintln(stderr, "peer steps: interrupted: only the programs until then are counted")
		return 2
	}
	return 0
}

// stepProgram is a program and where it comes from.
type stepProgram struct {
	*fuzz.Case
	origin string
}

// stepCases reads the programs.
func stepCases(c stepsConfig, sum *stepSum) ([]stepProgram, error) {
	var all []stepProgram
	add := func(p *fuzz.Case, origin string) {
		if !c.match.MatchString(origin) {
			return
		}
		if why := unfit(p.Module, p.Params()); why != "" {
			sum.skipped[why]++
			return
		}
		all = append(all, stepProgram{p, origin})
	}
	if c.dir != "" {
		files, err := filepath.Glob(filepath.Join(c.dir, "*.case"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			p, err := fuzz.ReadCase(f, data)
			if err != nil {
				return nil, err
			}
			add(p, p.Name)
		}
	} else {
		for m, err := range modules(c.checkout, nil) {
			if err != nil {
				return nil, err
			}
			p, err := fuzz.ReadModule(fmt.Sprintf("%05d.hlo", m.number), []byte(m.text))
			if err != nil {
				sum.skipped["not accepted by package hlo"]++
				continue
			}
			add(p, m.place())
		}
	}
	n := c.limit
	if n == 0 || n > len(all) {
		n = len(all)
	}
	out := make([]stepProgram, 0, n)
	for _, i := range scattered(n) {
		out = append(out, all[i*len(all)/n])
	}
	return out, nil
}

// scattered are the numbers below n in an order of which every beginning is
// spread evenly (van der Corput's, in base 2).
func scattered(n int) []int {
	var out []int
	width := bits.Len(uint(max(0, n-1)))
	for i := range 1 << width {
		if k := int(bits.Reverse64(uint64(i)) >> 1 >> (63 - width)); k < n {
			out = append(out, k)
		}
	}
	return out
}

// unfit says why a program is not worth compiling alone on a small machine, ""
// if it is.
func unfit(m *hlo.Module, params []*hlo.Shape) string {
	if m == nil {
		return "StableHLO"
	}
	if m.ReplicaCount > 1 || m.NumPartitions > 1 {
		return "for several devices"
	}
	for _, k := range m.Computations {
		for _, in := range k.Instructions {
			for _, leaf := range in.Shape.Leaves() {
				if leaf.Elems() > maxElements {
					return "an array of more than 2^20 elements"
				}
			}
		}
	}
	for _, p := range params {
		for _, leaf := range p.Leaves() {
			if !leaf.IsArray() || leaf.IsDynamic() {
				return "parameters that are not arrays of static shape"
			}
		}
	}
	return ""
}

func countSteps(ctx context.Context, c stepsConfig, cases []stepProgram, sum *stepSum, progress io.Writer) error {
	done, record, err := openRecord(c.record, c.build)
	if err != nil {
		return err
	}
	if record != nil {
		defer record.Close()
	}
	var left []stepProgram
	for _, p := range cases {
		if r, ok := done[p.origin]; ok {
			sum.add(r)
		} else {
			left = append(left, p)
		}
	}
	found, pool, err := rig.Open(ctx, []string{c.build}, strings.Split(c.terms, ","), worker.Config{Workers: c.workers, Timeout: c.deadline})
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg := gate.Config{Runner: pool, Now: time.Now, Seed: 1, Timeout: c.deadline}
	work := make(chan stepProgram)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	last := time.Now()
	for range c.workers {
		wg.Go(func() {
			for p := range work {
				limited, cancel := context.WithTimeout(ctx, c.deadline)
				start := time.Now()
				j := gate.JudgeSteps(limited, cfg, found[0], p.Case)
				cancel()
				if ctx.Err() != nil {
					continue // interrupted
				}
				r := stepRecord{c.build, p.origin, time.Since(start).Seconds(), j}
				mu.Lock()
				sum.add(r)
				if record != nil {
					failed = cmp.Or(failed, json.NewEncoder(record).Encode(r))
				}
				if time.Since(last) > 20*time.Second {
					last = time.Now()
					fmt.Fprintf(progress, "%d of %d programs: %s\n", sum.programs, len(cases), sum.line())
				}
				mu.Unlock()
			}
		})
	}
	for _, p := range left {
		if ctx.Err() != nil {
			break
		}
		work <- p
	}
	close(work)
	wg.Wait()
	return cmp.Or(ctx.Err(), failed)
}

// stepRecord is one judged program, a line of the record.
type stepRecord struct {
	Build, Origin string
	Seconds       float64
	Steps         gate.JudgedSteps
}

// openRecord reads the programs of a build that a file records, by origin, and
// opens it for more; no name, no record.
func openRecord(name, build string) (map[string]stepRecord, *os.File, error) {
	if name == "" {
		return nil, nil, nil
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, err
	}
	done := map[string]stepRecord{}
	for d := json.NewDecoder(file); ; {
		var r stepRecord
		switch err := d.Decode(&r); {
		case err == io.EOF:
			return done, file, nil
		case err != nil:
			file.Close()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		case r.Build == build:
			done[r.Origin] = r
		}
	}
}

// stepSum adds the programs up.
type stepSum struct {
	programs int
	counts   gate.StepCounts
	// Programs by why they were skipped, and by what the build did that is not
	// right.
	skipped, refused map[string]int
	undecided        map[string]int // steps by pass
	unknown          map[string]int // steps by "pass: reason"
	worst            map[string]int // open steps by program
	guilty           []string
	seconds          float64        // of all programs together
	slowest          map[string]int // seconds by program
}

func newStepSum() *stepSum {
	return &stepSum{skipped: map[string]int{}, refused: map[string]int{}, undecided: map[string]int{}, unknown: map[string]int{}, worst: map[string]int{}, slowest: map[string]int{}}
}

func (s *stepSum) add(r stepRecord) {
	origin, j := r.Origin, r.Steps
	s.programs++
	s.seconds += r.Seconds
	if r.Seconds >= 5 {
		s.slowest[origin] = int(r.Seconds)
	}
	c := j.Counts
	s.counts.Judged += c.Judged
	s.counts.Undecided += c.Undecided
	s.counts.Unknown += c.Unknown
	if j.Build != gate.Right {
		s.refused[string(j.Build)+": "+kindOf(j.Detail)]++
	}
	for _, o := range j.Open {
		s.worst[origin]++
		if o.Why == "" {
			s.undecided[o.Pass]++
		} else {
			s.unknown[o.Pass+": "+o.Why]++
		}
	}
	for _, g := range j.Guilty {
		s.guilty = append(s.guilty, origin+" "+g)
	}
}

// line is the sum of all steps.
func (s *stepSum) line() string {
	total := s.steps()
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, total)) }
	return fmt.Sprintf("%d changed steps: %d judged (%.2f %%), %d undecided (%.2f %%), %d unknown (%.2f %%)",
		total, s.counts.Judged, share(s.counts.Judged), s.counts.Undecided, share(s.counts.Undecided), s.counts.Unknown, share(s.counts.Unknown))
}

func (s *stepSum) steps() int { return s.counts.Judged + s.counts.Undecided + s.counts.Unknown }

func (s *stepSum) write(w io.Writer, show int) {
	list := func(title string, n map[string]int) {
		if len(n) == 0 {
			return
		}
		fmt.Fprintln(w, title)
		keys := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
			if d := n[b] - n[a]; d != 0 {
				return d
			}
			return strings.Compare(a, b)
		})
		for i, k := range keys {
			if i == show {
				fmt.Fprintf(w, "       and %d more\n", len(keys)-show)
				break
			}
			fmt.Fprintf(w, "%6d %s\n", n[k], k)
		}
	}
	refused := 0
	for _, n := range s.refused {
		refused += n
	}
	fmt.Fprintf(w, "%d programs in %.0f s of their own, of which %d do not get through the passes\n", s.programs, s.seconds, refused)
	list("programs skipped:", s.skipped)
	list("programs that do not get through the passes:", s.refused)
	fmt.Fprintln(w, s.line())
	reasons, passes := map[string]int{}, map[string]int{}
	for k, n := range s.unknown {
		pass, why, _ := strings.Cut(k, ": ")
		reasons[kindOf(why)] += n
		passes[pass] += n
	}
	list("unknown, by reason:", reasons)
	list("unknown, by pass:", passes)
	list("undecided, by pass:", s.undecided)
	list("programs with most open steps:", s.worst)
	list("slowest programs, in seconds:", s.slowest)
	slices.Sort(s.guilty)
	for _, g := range s.guilty {
		fmt.Fprintln(w, "guilty:", g)
	}
}
