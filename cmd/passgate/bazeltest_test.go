package main

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBazelConventions: what Bazel tells a test by its environment, and what the
// test must leave behind.
func TestBazelConventions(t *testing.T) {
	example, err := filepath.Abs("../../examples/cases/arctangent-vector.case")
	if err != nil {
		t.Fatal(err)
	}
	// A program that never ends, so that no machine is done before a timeout.
	endless := filepath.Join(t.TempDir(), "endless.case")
	if err := os.WriteFile(endless, []byte(`-- module.hlo --
HloModule endless

body {
  ROOT x = s32[] parameter(0)
}

always {
  y = s32[] parameter(0)
  ROOT p = pred[] compare(y, y), direction=EQ
}

ENTRY e {
  a = s32[] parameter(0)
  ROOT w = s32[] while(a), condition=always, body=body
}
-- inputs --
s32[] 1
`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name       string
		env        []string
		base, head string
		code       int
		log        string
		xml        string // in test.xml; "" if there is none
		infra      bool
		cases      string // instead of the example
	}{
		{"the timeout is near", []string{"TEST_TIMEOUT=1"}, "xla-2026-06", "xla-2026-06", 3, "stopped before the test's timeout", "<skipped", false, endless},
		{"a shard without cases", []string{"TEST_TOTAL_SHARDS=2", "TEST_SHARD_INDEX=1"}, "xla-2026-06", "xla-2026-06", 0, "this shard has no case", `tests="0"`, false, ""},
		{"a shard that cannot be", []string{"TEST_TOTAL_SHARDS=2", "TEST_SHARD_INDEX=2"}, "xla-2026-06", "xla-2026-06", 2, "TEST_SHARD_INDEX", "", false, ""},
		{"the third of many runs", []string{"TEST_RANDOM_SEED=3"}, "xla-2026-06", "xla-2026-06", 0, "verdict: pass", `tests="1"`, false, ""},
		{"no number of a run", []string{"TEST_RANDOM_SEED=x"}, "xla-2026-06", "xla-2026-06", 2, "TEST_RANDOM_SEED", "", false, ""},
		{"a machine that fails", nil, "pip:no-such-plugin-anywhere==0.0", "xla-2026-06", 3, "no-such-plugin-anywhere", "", true, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0], "bazel-test", "--base="+row.base, "--head="+row.head, "--cases="+cmp.Or(row.cases, example))
			cmd.Dir = dir
			// The builds of catalogue names are in this machine's cache, which a real
			// Bazel test, on plugin files, does not have.
			home, err := os.UserCacheDir()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(home, "passgate"), filepath.Join(dir, "passgate")); err != nil {
				t.Fatal(err)
			}
			cmd.Env = append(append(os.Environ(), "PASSGATE_TRANSCRIPT=1", "TEST_TMPDIR="+dir, "XML_OUTPUT_FILE=test.xml", "TEST_UNDECLARED_OUTPUTS_DIR=outputs",
				"TEST_INFRASTRUCTURE_FAILURE_FILE=infra", "TEST_SHARD_STATUS_FILE=shards", "TEST_PREMATURE_EXIT_FILE=premature"), row.env...)
			var log bytes.Buffer
			cmd.Stdout, cmd.Stderr = &log, &log
			_ = cmd.Run() // the exit code is looked at
			if code := cmd.ProcessState.ExitCode(); code != row.code || !strings.Contains(log.String(), row.log) {
				t.Errorf("exit code %d, want %d with %q\n%s", code, row.code, row.log, log.String())
			}
			xml, _ := os.ReadFile(filepath.Join(dir, "test.xml"))
			if (len(xml) == 0) != (row.xml == "") || !strings.Contains(string(xml), row.xml) {
				t.Errorf("test.xml lacks %q:\n%s", row.xml, xml)
			}
			if row.xml != "" {
				if _, err := os.Stat(filepath.Join(dir, "outputs", "report.html")); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "premature")); err == nil {
				t.Error("the end is said to be premature")
			}
			if row.name == "the third of many runs" {
				if res, err := os.ReadFile(filepath.Join(dir, "outputs", "result.json")); err != nil || !strings.Contains(string(res), `"seed": 3`) {
					t.Errorf("the seed is not that of the run: %v", err)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "infra")); (err == nil) != row.infra {
				t.Errorf("infrastructure failure said: %v, want %v", err == nil, row.infra)
			}
			if _, err := os.Stat(filepath.Join(dir, "shards")); (err == nil) != (row.name == "a shard without cases") {
				t.Errorf("shard status: %v", err)
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "bazel-test", "--base=xla-2026-06", "--head=xla-2026-06", "--cases="+endless)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PASSGATE_TRANSCRIPT=1", "TEST_TMPDIR="+dir, "TEST_PREMATURE_EXIT_FILE=premature")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		for there := false; !there; {
			select {
			case <-ended:
				t.Fatal("it ended, and said nothing before")
			case <-time.After(10 * time.Millisecond):
				_, err := os.Stat(filepath.Join(dir, "premature"))
				there = err == nil
			}
		}
		cmd.Process.Kill()
		<-ended
		if _, err := os.Stat(filepath.Join(dir, "premature")); err != nil {
			t.Error(err)
		}
	})
}
