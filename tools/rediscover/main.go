// Command rediscover measures whether exploration finds faults that are known,
// given nothing but the name of the guilty pass, or of a changed file:
//
//	go run ./tools/rediscover --cases ../shared/cases [--budget 10m] [--seed 1] [--out DIR] [BUILD/PASS | BUILD/xla/FILE ...]
//
// For each build and pass or file it runs `passgate fuzz --workers 1`, which sees none
// of the cases. Then it lets `passgate check` judge the cases on the same
// build and make them smaller, and prints which findings of the search are like
// those of a case: of one cluster (the same class, guilty pass and rewrite, see
// triage.Key), or where the same pass wrongly rewrites the same thing, in however
// many dimensions, whatever the rest of the pass made of it; of faults behind the
// passes, those whose smallest programs hold the same operations. The search runs
// first, so nothing of the cases reaches it. Findings that no case explains are
// counted.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/passgate/passgate/hlo"
)

// targets are the passes that the public faults of the handed cases are blamed
// on, each on a build that has them.
var targets = []string{"xla-2026-06/algsimp", "xla-2026-06/simplify-while-loops", "xla-2026-06/scatter_expander", "jax-0.11.2/dot-library-rewriter", "xla-2026-06/fusion"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rediscover:", err)
		os.Exit(2)
	}
}

// result is what this command reads of a result.json.
type result struct {
	Cases []struct {
		ID string `json:"id"`
	} `json:"cases"`
	// progress is when so many programs had been explored, in order.
	progress    []mark
	Findings    []finding `json:"findings"`
	Exploration *struct {
		Programs int `json:"programs"`
	} `json:"exploration"`
}

// finding is what this command reads of a finding.
type finding struct {
	Case         string `json:"case"`
	Class        string `json:"class"`
	Cluster      string `json:"cluster"`
	Instructions int    `json:"instructions"`
	Pass         *struct {
		Name string `json:"name"`
	} `json:"pass"`
	Minimal string `json:"minimal"`
	Rewrite *struct {
		Before string `json:"before"`
	} `json:"rewrite"`
}

// like reports whether two findings have one cause, as far as their reports tell.
func (f *finding) like(k *finding) bool {
	switch {
	case f.Cluster == k.Cluster:
		return true
	case f.Class != k.Class || f.Pass == nil || k.Pass == nil || f.Pass.Name != k.Pass.Name:
		return false
	case f.Rewrite != nil && k.Rewrite != nil:
		return oneIndex(f.Rewrite.Before) == oneIndex(k.Rewrite.Before)
	}
	return f.Pass.Name == "code generation" && f.Class != "crash" && operations(f.Minimal) != "" && operations(f.Minimal) == operations(k.Minimal)
}

// operations are those of a program, with the types of their results, in
// alphabetical order; "" for what is no program.
func operations(text string) string {
	m, err := hlo.Parse("minimal.hlo", []byte(text))
	if err != nil {
		return ""
	}
	var out []string
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			out = append(out, in.Op.String()+" "+in.Shape.Type.String())
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

var indices = regexp.MustCompile(`(; #\d+ \w+)+`)

// oneIndex is what was rewritten with one operand for a row of them: the starts of
// a dynamic-slice, one for each dimension.
func oneIndex(before string) string { return indices.ReplaceAllString(before, "; #") }

// mark is a line of progress of a search: the time since its start, and the
// processor time that it has used.
type mark struct {
	programs         int
	after, processor time.Duration
}

func (m mark) String() string {
	return fmt.Sprintf("after %s (%s of processor time)", m.after.Round(time.Second), m.processor.Round(time.Second))
}

// after is when the program that a finding's case is named for had been
// explored; zero where nothing says so.
func (r *result) after(name string) mark {
	at := strings.LastIndexByte(name, '-')
	n, err := strconv.Atoi(name[at+1:])
	if i := slices.IndexFunc(r.progress, func(m mark) bool { return m.programs > n }); err == nil && i >= 0 {
		return r.progress[i]
	}
	return mark{}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("rediscover", flag.ContinueOnError)
	cases := flags.String("cases", "../shared/cases", "directory of the known cases")
	budget := flags.Duration("budget", 10*time.Minute, "time for each search, on one worker")
	seed := flags.Uint64("seed", 1, "seed of the searches")
	out := flags.String("out", "", "directory for the reports; temporary if empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	which := flags.Args()
	if len(which) == 0 {
		which = targets
	}
	dir := *out
	if dir == "" {
		temp, err := os.MkdirTemp("", "passgate-rediscover-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		dir = temp
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	passgate := filepath.Join(dir, "passgate")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", passgate, "./cmd/passgate").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, text)
	}
	known := map[string]result{}
	roots := map[string]bool{}
	for _, target := range which {
		build, pass, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("%q: want BUILD/PASS or BUILD/xla/FILE", target)
		}
		name := strings.ReplaceAll(target, "/", "-")
		focus := []string{"--passes", pass}
		if strings.Contains(pass, "/") {
			list := filepath.Join(dir, name+".changed")
			if err := os.WriteFile(list, []byte(pass+"\n"), 0o644); err != nil {
				return err
			}
			focus = []string{"--changed-files", list}
		}
		found, err := judge(ctx, passgate, filepath.Join(dir, name),
			append([]string{"fuzz", "--base", build, "--workers", "1", "--budget", budget.String(), "--seed", fmt.Sprint(*seed)}, focus...)...)
		if err != nil {
			return err
		}
		if _, ok := known[build]; !ok {
			if known[build], err = judge(ctx, passgate, filepath.Join(dir, build+"-cases"), "check", "--base", build, "--head", build, "--minimise-all", "--cases", *cases); err != nil {
				return err
			}
		}
		programs := 0
		if found.Exploration != nil {
			programs = found.Exploration.Programs
		}
		last := mark{}
		if n := len(found.progress); n > 0 {
			last = found.progress[n-1]
		}
		fmt.Fprintf(w, "%s, %s: %d programs, the last %s\n", build, pass, programs, last)
		other := map[string]bool{}
		seen := map[string]bool{}
		for _, f := range found.Findings {
			if f.Cluster == "" || seen[f.Cluster] {
				continue
			}
			seen[f.Cluster] = true
			var like []string
			for _, k := range known[build].Findings {
				if f.like(&k) && !slices.Contains(like, k.Case) {
					like = append(like, k.Case)
				}
			}
			if len(like) == 0 {
				other[f.Cluster] = true
				continue
			}
			name := ""
			if f.Pass != nil {
				name = f.Pass.Name
			}
			fmt.Fprintf(w, "  %s: %s, %s of %s, %d instructions, %s\n", strings.Join(like, ", "), f.Case, f.Class, name, f.Instructions, found.after(f.Case))
			roots[like[0]] = true
		}
		fmt.Fprintf(w, "  %d more that no case is like\n", len(other))
	}
	fmt.Fprintf(w, "%d clusters of known cases found\n", len(roots))
	return nil
}

// judge runs a command of passgate and reads its result and its progress.
func judge(ctx context.Context, passgate, dir string, args ...string) (r result, err error) {
	cmd := exec.CommandContext(ctx, passgate, append(args, "--out", dir)...)
	var text, said bytes.Buffer // the command writes both at the same time
	cmd.Stdout = &text
	progress, err := cmd.StderrPipe()
	if err != nil {
		return r, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	for lines := bufio.NewScanner(progress); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		var programs int
		if _, err := fmt.Sscanf(lines.Text(), "%d programs,", &programs); err == nil {
			r.progress = append(r.progress, mark{programs, time.Since(start), processorTime(cmd.Process.Pid)})
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1: something blocks
		return r, fmt.Errorf("passgate %s: %w: %s%s", strings.Join(args, " "), err, text.String(), said.String())
	}
	data, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// processorTime is what a process, its children and those of its children that have
// ended have used, by /proc (proc(5), stat: fields 14 to 17, in hundredths of a
// second); 0 where there is no /proc.
func processorTime(pid int) time.Duration {
	var sum int64
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		at := bytes.LastIndexByte(data, ')') // behind the name of the command
		fields := strings.Fields(string(data[at+1:]))
		if err != nil || len(fields) < 15 || path != fmt.Sprintf("/proc/%d/stat", pid) && fields[1] != strconv.Itoa(pid) {
			continue
		}
		for _, f := range fields[11:15] {
			n, _ := strconv.ParseInt(f, 10, 64)
			sum += n
		}
	}
	return time.Duration(sum) * 10 * time.Millisecond
}
