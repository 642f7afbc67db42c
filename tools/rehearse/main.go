// Command rehearse kills, slows and cuts off release runs, and says whether their
// reports are still those of a run that was left alone, and how much faster many
// workers are than one:
//
//	go run ./tools/rehearse --cases examples/cases --programs 20
//
// It runs `release` alone; again with SIGKILL at random points of the whole run
// (--kills), each time resumed; `serve` with one worker; with three; and with three of
// which one is killed, one is stopped two thirds of the time and one is cut off beyond
// the ack-wait. The last run's queue is a NATS server of its own, beside passgate. The
// last lines are the throughput of each in units per second, and over that of one
// worker. Exit code 1 if a report differs, or if a disturbance did not take place.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/passgate/passgate/fleet/fleettest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	same, err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "rehearse:", err)
		os.Exit(2)
	case !same:
		os.Exit(1)
	}
}

// rehearsal is one pair of builds and one set of cases, worked on in many ways.
type rehearsal struct {
	ctx               context.Context
	dir, exe, natsExe string
	base, head        string
	job               []string
	out               io.Writer
	random            *rand.Rand
	same              bool
}

func run(ctx context.Context, args []string, out io.Writer) (same bool, err error) {
	flags := flag.NewFlagSet("rehearse", flag.ContinueOnError)
	base := flags.String("base", "xla-2026-06", "base build")
	head := flags.String("head", "jax-0.11.2", "head build")
	cases := flags.String("cases", "", "directory of cases")
	programs := flags.Int("programs", 20, "generated programs beside them")
	kills := flags.Int("kills", 20, "SIGKILLs of the release run")
	seed := flags.Uint64("seed", 1, "seed of the moments")
	dir := flags.String("dir", "", "directory to work in (default: one that is removed)")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if *cases == "" || flags.NArg() > 0 {
		return false, errors.New("want --cases DIR and nothing behind the flags")
	}
	abs, err := filepath.Abs(*cases)
	if err != nil {
		return false, err
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "passgate-rehearse-"); err != nil {
			return false, err
		}
		defer os.RemoveAll(*dir)
	}
	r := &rehearsal{ctx: ctx, dir: *dir, base: *base, head: *head, out: out, random: rand.New(rand.NewPCG(*seed, 1)), same: true,
		job: []string{"--base", *base, "--head", *head, "--cases", abs, "--programs", strconv.Itoa(*programs), "--cost-runs", "0", "--probes", "0"}}
	for _, b := range []struct {
		to      *string
		name    string
		program string
	}{{&r.exe, "passgate", "./cmd/passgate"}, {&r.natsExe, "nats-server", "github.com/nats-io/nats-server/v2"}} {
		*b.to = filepath.Join(r.dir, b.name)
		if text, err := exec.CommandContext(ctx, "go", "build", "-o", *b.to, b.program).CombinedOutput(); err != nil {
			return false, fmt.Errorf("go build %s: %w: %s", b.program, err, text)
		}
	}
	took, err := r.release("alone")
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "alone: %.1f s\n", took.Seconds())
	if err := r.killed(*kills, took); err != nil {
		return false, err
	}
	one := 0.0
	for _, f := range []struct {
		name string
		way  fleet
	}{{"one worker", fleet{workers: 1}}, {"three workers", fleet{workers: 3}}, {"three, one killed, one slow, one cut off, queue of its own", fleet{workers: 3, disturbed: true, external: true}}} {
		rate, said, err := r.fleet("fleet", f.way)
		if err != nil {
			return false, fmt.Errorf("%s: %w", f.name, err)
		}
		if one == 0 {
			one = rate
		}
		fmt.Fprintf(out, "%s: %s; %.2f times one worker\n", f.name, said, rate/one)
	}
	return r.same, nil
}

// release runs `release` to its end.
func (r *rehearsal) release(out string) (time.Duration, error) {
	start := time.Now()
	cmd := r.command("release", append([]string{"--out", out, "--workers", "2"}, r.job...)...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() > 1 {
		return 0, fmt.Errorf("release: %w: %s", err, &text)
	}
	return time.Since(start), nil
}

func (r *rehearsal) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.ctx, r.exe, append([]string{name}, args...)...)
	cmd.Dir = r.dir
	return cmd
}

// killed kills a release run at points of its work that are drawn evenly between
// its first unit and its last, resumes it each time, and lets it end.
func (r *rehearsal) killed(kills int, alone time.Duration) error {
	const out = "killed"
	if err := os.RemoveAll(filepath.Join(r.dir, out)); err != nil {
		return err
	}
	units := r.units("alone")
	points := make([]float64, kills)
	for i := range points {
		points[i] = r.random.Float64() * float64(units)
	}
	slices.Sort(points)
	var done []int // units at each kill
	for len(done) < kills {
		point := points[len(done)]
		cmd := r.command("release", append([]string{"--out", out, "--workers", "2"}, r.job...)...)
		if err := cmd.Start(); err != nil {
			return err
		}
		gone := make(chan struct{})
		go func() { cmd.Wait(); close(gone) }()
		within := time.Duration(r.random.Float64() * 2 * float64(alone) / float64(units)) // two units are at work
		for left := true; left && r.units(out) < int(point); {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-gone:
				left = false
			}
		}
		select {
		case <-time.After(within):
			cmd.Process.Kill()
			<-gone
			done = append(done, r.units(out))
		case <-gone: // it was over: killed when it is begun again
		}
	}
	if _, err := r.release(out); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "killed %d times, with %s of %d units done, then resumed: %s\n", kills, strings.Trim(fmt.Sprint(done), "[]"), units, r.compare(out))
	return nil
}

// units is the number of finished units in the journal of a run, 0 without one.
func (r *rehearsal) units(out string) int {
	data, _ := os.ReadFile(filepath.Join(r.dir, out, "journal"))
	return max(0, bytes.Count(data, []byte("\n"))-1)
}

// fleet is how a job is worked on.
type fleet struct {
	workers             int
	disturbed, external bool
}

var (
	summary = regexp.MustCompile(`\d+ units by \d+ workers in [0-9.]+ s \(([0-9.]+) units/s\), [^;]*`)
	natsAt  = regexp.MustCompile(`client connections on (\S+)`)
)

func (r *rehearsal) fleet(out string, f fleet) (rate float64, said string, err error) {
	if err := os.RemoveAll(filepath.Join(r.dir, out)); err != nil {
		return 0, "", err
	}
	args := append([]string{"--out", out, "--ack-wait", "2s", "--ahead", "4", "--log", "none"}, r.job...)
	addr := ""
	if f.external {
		dir := filepath.Join(r.dir, "nats")
		if err := os.RemoveAll(dir); err != nil {
			return 0, "", err
		}
		cmd := exec.CommandContext(r.ctx, r.natsExe, "--jetstream", "--store_dir", dir, "--addr", "127.0.0.1", "--port", "-1")
		if addr, err = started(cmd, natsAt); err != nil {
			return 0, "", fmt.Errorf("nats-server: %w", err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		args = append(args, "--queue", "nats://"+addr)
	} else {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	serve := r.command("serve", args...)
	var text bytes.Buffer
	serve.Stdout = &text
	if f.external {
		if err := serve.Start(); err != nil {
			return 0, "", err
		}
	} else if addr, err = started(serve, regexp.MustCompile(`queue at nats://(\S+)`)); err != nil {
		return 0, "", fmt.Errorf("serve: %w", err)
	}
	link, err := fleettest.NewLink(addr)
	if err != nil {
		return 0, "", err
	}
	defer link.Close()
	var disturbances [3]atomic.Bool
	over := make(chan struct{})
	var background sync.WaitGroup
	for i := range f.workers {
		at := addr
		if f.disturbed && i == 2 {
			at = link.Addr
		}
		w := r.command("work", "--queue", "nats://"+at, "--base", r.base, "--head", r.head, "--artifacts", filepath.Join(out, "artifacts"), "--workers", "1", "--name", fmt.Sprint("worker", i))
		log, err := w.StderrPipe()
		if err != nil {
			return 0, "", err
		}
		if err := w.Start(); err != nil {
			return 0, "", err
		}
		background.Go(func() {
			defer w.Wait()
			<-over
			w.Process.Signal(syscall.SIGCONT)
			w.Process.Kill()
		})
		background.Go(func() {
			lines := bufio.NewScanner(log)
			for lines.Scan() {
				if f.disturbed && strings.Contains(lines.Text(), "msg=unit") && disturbances[i].CompareAndSwap(false, true) {
					background.Go(func() { disturb(i, w, link, over) })
				}
			}
		})
	}
	err = serve.Wait()
	close(over)
	background.Wait()
	found := summary.FindStringSubmatch(text.String())
	if serve.ProcessState.ExitCode() > 1 || found == nil {
		return 0, "", fmt.Errorf("serve: %w: %s", err, &text)
	}
	for i := range disturbances {
		if f.disturbed && !disturbances[i].Load() {
			r.same = false
			fmt.Fprintf(r.out, "worker%d was not disturbed: too few units\n", i)
		}
	}
	rate, err = strconv.ParseFloat(found[1], 64)
	return rate, found[0] + ", " + r.compare(out), err
}

// disturb does to a worker, when it is at its second unit, what befalls the first, second
// and third of three.
func disturb(i int, w *exec.Cmd, link *fleettest.Link, over <-chan struct{}) {
	wait := func(d time.Duration) bool {
		select {
		case <-over:
			return false
		case <-time.After(d):
			return true
		}
	}
	wait(100 * time.Millisecond)
	switch i {
	case 0:
		w.Process.Kill()
	case 1:
		for wait(50 * time.Millisecond) {
			w.Process.Signal(syscall.SIGSTOP)
			wait(100 * time.Millisecond)
			w.Process.Signal(syscall.SIGCONT)
		}
	case 2:
		link.Cut(true)
		wait(6 * time.Second)
		link.Cut(false) // and its record comes late
	}
}

// started starts a program and waits for the line of its standard error that says
// where it listens.
func started(cmd *exec.Cmd, line *regexp.Regexp) (string, error) {
	log, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(log)
	var seen []string
	for lines.Scan() {
		if found := line.FindStringSubmatch(lines.Text()); found != nil {
			go io.Copy(io.Discard, log)
			_, port, err := net.SplitHostPort(found[1])
			return net.JoinHostPort("127.0.0.1", port), err
		}
		seen = append(seen, lines.Text())
	}
	return "", fmt.Errorf("it ended: %v: %s", cmd.Wait(), strings.Join(seen, "; "))
}

// compare says how the reports in out differ from those of the run alone: result.json
// and release.json without times, and the files of the findings.
func (r *rehearsal) compare(out string) string {
	var differ []string
	for _, name := range []string{"result.json", "release.json"} {
		want, err := body(filepath.Join(r.dir, "alone", name))
		got, err2 := body(filepath.Join(r.dir, out, name))
		if err := cmp.Or(err, err2); err != nil {
			differ = append(differ, err.Error())
		} else if !reflect.DeepEqual(want, got) {
			differ = append(differ, name)
		}
	}
	want, err := files(filepath.Join(r.dir, "alone", "findings"))
	got, err2 := files(filepath.Join(r.dir, out, "findings"))
	if err := cmp.Or(err, err2); err != nil {
		differ = append(differ, err.Error())
	} else if !reflect.DeepEqual(want, got) {
		differ = append(differ, "findings")
	}
	if differ == nil {
		return "the same reports"
	}
	r.same = false
	return "DIFFERENT " + strings.Join(differ, ", ")
}

// body is a report without its times and what differs between equal runs.
func body(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	err = json.Unmarshal(data, &out)
	delete(out, "timing")
	delete(out, "observed")
	return out, err
}

// inThisRun is what the README of a finding takes from Result.Observed.
var inThisRun = regexp.MustCompile(`(In|seen in) this run: .*`)

func files(dir string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, err2 := filepath.Rel(dir, path)
		out[rel] = inThisRun.ReplaceAllString(string(data), "")
		return cmp.Or(err, err2)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil // no findings
	}
	return out, err
}
