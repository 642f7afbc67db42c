// Command crowd measures what a result of many cases and findings costs whoever
// reads it: `passgate report`, its page in a browser, and `passgate ui` over a store
// of the same size.
//
//	go run ./tools/crowd --cases 1000000 --findings 20000
//
// It writes such a result.json (1.2 KB a case), renders all reports of it, opens
// report.html and pages of the store in Chromium, and prints seconds and the largest
// memory of each process. The seconds of a page are those of a browser that opens it
// and prints its document, less those of the same browser with an empty page.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
	"github.com/passgate/passgate/triage/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("crowd", flag.ContinueOnError)
	cases := flags.Int("cases", 1_000_000, "cases of the result")
	findings := flags.Int("findings", 20_000, "findings of it, each of a case of its own")
	dir := flags.String("dir", "", "directory to work in (default: one that is removed)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *findings < 1 || *findings > *cases {
		return errors.New("want 1 <= --findings <= --cases and nothing behind the flags")
	}
	if *dir == "" {
		var err error
		if *dir, err = os.MkdirTemp("", "passgate-crowd-"); err != nil {
			return err
		}
		defer os.RemoveAll(*dir)
	}
	m := &measurement{ctx, *dir, filepath.Join(*dir, "passgate"), out}
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", m.exe, "./cmd/passgate").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, text)
	}
	in := filepath.Join(m.dir, "result.json")
	if err := writeResult(in, *cases, *findings); err != nil {
		return err
	}
	return cmp.Or(m.report(in), m.store(*cases, *findings))
}

// crowd is a result of so many cases, of which the first findings have one each.
func crowd(cases, findings int) *gate.Result {
	r := &gate.Result{Schema: gate.Schema, Verdict: gate.Blocked, Reasons: []string{"new wrong results"}, Seed: 1,
		Base:       gate.Build{Spec: "jaxlib:0.11.0", ID: "sha256:" + strings.Repeat("0", 64), Kind: "executable", Platform: "cpu", API: "0.90"},
		Head:       gate.Build{Spec: "jaxlib:0.12.0", ID: "sha256:" + strings.Repeat("1", 64), Kind: "executable", Platform: "cpu", API: "0.91"},
		Passes:     []gate.PassResult{{Name: "algsimp", Weight: 6, Reason: "its file", Ran: cases, Fired: cases / 2, Cases: cases / 2}},
		Totals:     gate.Totals{Cases: cases, Executed: cases, JudgedElements: int64(cases) * 64},
		Statistics: gate.Statistics{Cells: []gate.Cell{}, Null: gate.Null{Variants: []gate.NullVariant{}, Alarmed: []string{}, Excluded: []string{}}}}
	program := "HloModule m, entry_computation_layout={(f32[8,8]{1,0})->f32[8,8]{1,0}}\n\nENTRY e {\n  p = f32[8,8]{1,0} parameter(0)\n" + strings.Repeat("  a = f32[8,8]{1,0} add(p, p)\n", 30) + "}\n"
	for i := range findings {
		f := gate.Finding{ID: fmt.Sprintf("f-%012x", i), Class: gate.Miscompile, Status: []gate.Status{gate.New, gate.PreExisting, gate.Fixed, gate.Contested}[i%4], Case: name(i), Stream: "own", Flags: gate.ComparisonFlags,
			Witnesses: []string{"execution", "per-pass validation"}, Output: "0", Elements: 64, Wrong: 3, First: gate.First{At: []int64{1, 2}, Base: "1", Head: "2", Legal: "{1}"},
			Pass: &gate.PassStep{Pipeline: "simplification", Index: i % 9, Name: fmt.Sprintf("pass-%d", i%90)}, Level: gate.LevelHLO, Instruction: "a", Minimal: program, Instructions: 31,
			Cluster: fmt.Sprintf("d-%012x", i), Base: gate.Right, Head: gate.Wrong, Confirmed: "3 of 3", Detail: "3 of 64 elements of output 0 outside the legal set"}
		f.Blocking = f.Status == gate.New
		r.Findings = append(r.Findings, f)
	}
	r.Stored = func(do func(*gate.CaseResult) error) error {
		random := rand.New(rand.NewPCG(1, 2))
		for i := range cases {
			c := gate.CaseResult{ID: name(i), Outcome: gate.CaseOK, Base: gate.Right, Head: gate.Right, Hash: fmt.Sprintf("%016x%016x%016x%016x", random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()),
				Buffers: &gate.Buffers{Base: random.Int64N(1 << 20), Head: random.Int64N(1 << 20)}}
			if i < findings {
				c.Outcome, c.Finding, c.Head = gate.CaseFinding, r.Findings[i].ID, gate.Wrong
			} else if i%50 == 0 {
				c.Outcome, c.Detail = gate.CaseUnsupported, "an operation that the reference does not know"
			}
			for _, s := range []string{"lattice", "random", "special", "crossed"} {
				c.Streams = append(c.Streams, gate.StreamResult{Name: s, Flags: gate.ComparisonFlags, Base: c.Base, Head: c.Head, Judged: 1 + random.Int64N(1<<16), Undecided: random.Int64N(9)})
			}
			if err := do(&c); err != nil {
				return err
			}
		}
		return nil
	}
	return r
}

func name(i int) string { return fmt.Sprintf("generated-%06d", i) }

func writeResult(file string, cases, findings int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = reports.RenderTo(f, reports.JSON, crowd(cases, findings))
	return cmp.Or(err, f.Close())
}

// measurement is a directory with a passgate in it.
type measurement struct {
	ctx      context.Context
	dir, exe string
	out      io.Writer
}

func (m *measurement) report(in string) error {
	to := filepath.Join(m.dir, "out")
	start := time.Now()
	cmd := exec.CommandContext(m.ctx, m.exe, "report", "--in", in, "--out", to)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("report: %w: %s", err, text)
	}
	fmt.Fprintf(m.out, "report --out: %.1f s, %d MiB\n", time.Since(start).Seconds(), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
	for _, name := range []string{"result.json", "junit.xml", "results.sarif", "report.html", "summary.md", "comment.md"} {
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(m.out, "  %s: %.1f MB\n", name, float64(info.Size())/1e6)
	}
	seconds, err := m.page("file://" + filepath.Join(to, "report.html"))
	if err == nil {
		fmt.Fprintf(m.out, "report.html in Chromium: %.2f s\n", seconds)
	}
	return err
}

// page is how long a browser takes for a page.
func (m *measurement) page(url string) (float64, error) {
	program := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		return 0, errors.New("no Chromium: install the package chromium-headless-shell or chromium")
	}
	took := func(url string) (float64, error) {
		cmd := exec.CommandContext(m.ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+filepath.Join(m.dir, "browser"), "--dump-dom", url)
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("%s %s: %w", program, url, err)
		}
		return time.Since(start).Seconds(), nil
	}
	if _, err := took("about:blank"); err != nil { // the first start sets it up
		return 0, err
	}
	empty, err := took("about:blank")
	full, err2 := took(url)
	return full - empty, cmp.Or(err, err2)
}

// store measures the pages of a store.
func (m *measurement) store(cases, findings int) error {
	file := filepath.Join(m.dir, "store")
	if err := fill(m.ctx, file, cases, findings); err != nil {
		return err
	}
	cmd := exec.CommandContext(m.ctx, m.exe, "ui", "--store", file, "--listen", "127.0.0.1:0")
	text, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(text).ReadString('\n')
	if err == nil {
		for _, path := range []string{"", "?page=199", "?state=fixed&page=10", "finding/f-000000000003", "passes", "runs", "run/1", "run/1?page=9999"} {
			var seconds float64
			if seconds, err = m.page(strings.TrimSpace(line) + path); err != nil {
				break
			}
			fmt.Fprintf(m.out, "ui /%s in Chromium: %.2f s\n", path, seconds)
		}
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)); err == nil {
		fmt.Fprintf(m.out, "ui: most memory%s\n", regexp.MustCompile(`(?m)^VmHWM:(.*)$`).FindSubmatch(status)[1])
	}
	cmd.Process.Signal(os.Interrupt)
	return cmp.Or(err, cmd.Wait())
}

// fill makes a store of one run.
func fill(ctx context.Context, file string, cases, findings int) error {
	s, err := store.Open(ctx, file, true)
	if err != nil {
		return err
	}
	defer s.Close()
	r := crowd(cases, findings)
	base, head := store.Build{ID: r.Base.ID, Spec: r.Base.Spec}, store.Build{ID: r.Head.ID, Spec: r.Head.Spec}
	now := time.Now()
	var seen []store.Sighting
	for i, f := range r.Findings {
		one := store.Sighting{ID: f.ID, Class: string(f.Class), Level: string(f.Level), Pass: f.Pass.Name, Instruction: f.Instruction, Status: "new", Case: f.Case, Minimal: f.Minimal,
			Bad: []store.Build{head}, Good: []store.Build{base}, Cases: map[string]string{fmt.Sprint(i): f.Case}}
		if f.Status == gate.Fixed {
			one.Status, one.Bad, one.Good, one.FixedIn = "fixed", []store.Build{base}, []store.Build{head}, &head
		}
		seen = append(seen, one)
	}
	if err := s.Record(ctx, now, seen); err != nil {
		return err
	}
	var results []store.CaseResult
	if err := r.EachCase(func(c *gate.CaseResult) error {
		results = append(results, store.CaseResult{Name: c.ID, Outcome: string(c.Outcome), Base: string(c.Base), Head: string(c.Head)})
		return nil
	}); err != nil {
		return err
	}
	return s.AddRun(ctx, store.Run{At: now, Base: base.Spec, Head: head.Spec, Verdict: string(r.Verdict), Cases: cases, New: findings / 4}, results)
}
