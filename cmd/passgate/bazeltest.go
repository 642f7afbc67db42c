package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// bazelTestCmd is `check` as a Bazel test: what `check` takes by flags and says
// in files comes and goes by the conventions of Bazel's Test Encyclopedia
// (bazel.build/reference/test-encyclopedia).
type bazelTestCmd struct {
	runFlags
	passesFlags
	Base   string        `required:""`
	Head   string        `required:""`
	Cases  []string      `required:"" sep:"none"`
	Passes []string      ``
	Budget time.Duration `default:"0s"`
}

// stopAt is the part of a test's timeout after which it stops to report: Bazel
// kills it at the end, and a confirmation in flight may take some seconds.
const stopAt = 0.8

func (c *bazelTestCmd) Run(a *app) error {
	env := environment(a.environ)
	temp := env("TEST_TMPDIR")
	if temp == "" {
		return usagef("TEST_TMPDIR is not set: this command runs under `bazel test`")
	}
	if name := env("TEST_PREMATURE_EXIT_FILE"); name != "" {
		// Left behind, it says that the process was gone before its end.
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			return err
		}
		defer os.Remove(name)
	}
	if s := env("TEST_RANDOM_SEED"); s != "" { // the number of the run, of --runs_per_test
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || n == 0 {
			return usagef("TEST_RANDOM_SEED is %q; want a number from 1", s)
		}
		c.Seed += n - 1
	}
	inner := *a
	// Tests have no home; nothing is fetched.
	inner.environ = append([]string{"XDG_CACHE_HOME=" + temp}, a.environ...)
	if s := env("TEST_TIMEOUT"); s != "" {
		seconds, err := strconv.Atoi(s)
		if err != nil || seconds <= 0 {
			return usagef("TEST_TIMEOUT is %q; want seconds", s)
		}
		ctx, cancel := context.WithTimeout(a.ctx, time.Duration(float64(seconds)*stopAt*float64(time.Second)))
		defer cancel()
		inner.ctx = ctx
	}
	k := checkCmd{runFlags: c.runFlags, passesFlags: c.passesFlags, Base: c.Base, Head: c.Head, Cases: c.Cases, Passes: c.Passes, Budget: c.Budget, Probes: defaultProbes, replay: true, alone: true,
		Out: env("TEST_UNDECLARED_OUTPUTS_DIR")}
	if k.Out == "" {
		k.Out = filepath.Join(temp, "passgate-out")
	}
	if want := env("TESTBRIDGE_TEST_ONLY"); want != "" {
		k.keep = filter(want)
	}
	empty, err := k.shardOf(env)
	if err != nil {
		return err
	}
	res, err := k.run(&inner)
	if err != nil {
		if !isBadInput(err) {
			infrastructure(env, err.Error())
		}
		return err
	}
	if err := reports.Write(k.Out, res); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	if name := env("XML_OUTPUT_FILE"); name != "" {
		xml, err := reports.Render(reports.JUnit, res)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, xml, 0o644); err != nil {
			return err
		}
	}
	a.printResult(a.stdout, res, k.Out)
	switch {
	case empty && res.Totals.Cases == 0:
		fmt.Fprintln(a.stdout, "this shard has no case")
		return nil
	case errors.Is(inner.ctx.Err(), context.DeadlineExceeded):
		fmt.Fprintf(a.stdout, "stopped before the test's timeout of %s s\n", env("TEST_TIMEOUT"))
	case res.Verdict == gate.Inconclusive && a.ctx.Err() == nil:
		infrastructure(env, strings.Join(res.Reasons, "; "))
	}
	a.code = res.Verdict.ExitCode()
	return nil
}

// shardOf takes this test's share of the cases. more says that there are other
// shards, so that this one may be empty.
func (c *checkCmd) shardOf(env func(string) string) (more bool, err error) {
	total := env("TEST_TOTAL_SHARDS")
	if total == "" || total == "0" || total == "1" {
		return false, nil
	}
	n, err1 := strconv.Atoi(total)
	i, err2 := strconv.Atoi(env("TEST_SHARD_INDEX"))
	if err1 != nil || err2 != nil || i < 0 || i >= n {
		return false, usagef("TEST_SHARD_INDEX %q of TEST_TOTAL_SHARDS %q: want an index below the number", env("TEST_SHARD_INDEX"), total)
	}
	c.Shard = fmt.Sprintf("%d/%d", i+1, n)
	if name := env("TEST_SHARD_STATUS_FILE"); name != "" {
		if err := os.WriteFile(name, nil, 0o644); err != nil { // says that sharding is understood
			return false, err
		}
	}
	return true, nil
}

// filter is --test_filter: names or patterns of cases, separated by ":" or ",".
func filter(want string) func(string) bool {
	patterns := strings.FieldsFunc(want, func(r rune) bool { return r == ':' || r == ',' })
	return func(name string) bool {
		for _, p := range patterns {
			if ok, err := path.Match(p, name); err == nil && ok || strings.Contains(name, p) {
				return true
			}
		}
		return false
	}
}

// infrastructure tells Bazel that the machine failed, not the test.
func infrastructure(env func(string) string, why string) {
	if name := env("TEST_INFRASTRUCTURE_FAILURE_FILE"); name != "" {
		_ = os.WriteFile(name, []byte(oneLine(why)+"\n"), 0o644) // nobody to tell
	}
}
