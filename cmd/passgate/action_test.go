package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestActionRun: the testing half on a repository whose pull request changes a
// pass, with real builds: blocked with a pair that regresses, green with a build
// against itself. Without a token nothing can be posted, so --dry-run prints
// what would be.
func TestActionRun(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	example, err := os.ReadFile("../../examples/cases/arctangent-vector.case")
	if err != nil {
		t.Fatal(err)
	}
	const pass = "xla/hlo/transforms/simplifiers/algebraic_simplifier.cc"
	write("cases/arctangent.case", string(example))
	// Something for the changed pass to do: x * 1.
	write("cases/one.hlo", "HloModule one\nENTRY e {\n  x = s32[4] parameter(0)\n  one = s32[] constant(1)\n  ones = s32[4] broadcast(one), dimensions={}\n  ROOT r = s32[4] multiply(x, ones)\n}\n")
	write(pass, "int a;\n")
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "base")
	base := git("rev-parse", "HEAD")
	write(pass, "int b;\n")
	write("passgate.yaml", "version: 1\nblock: []\n") // a pull request's own rules do not count
	git("add", "-A")
	git("commit", "-q", "-m", "head")
	head := git("rev-parse", "HEAD")
	event := filepath.Join(t.TempDir(), "event.json")
	repo := map[string]any{"id": 1}
	payload, _ := json.Marshal(map[string]any{"action": "opened", "number": 7, "pull_request": map[string]any{"number": 7,
		"head": map[string]any{"sha": head, "repo": repo}, "base": map[string]any{"sha": base, "repo": repo}}})
	if err := os.WriteFile(event, payload, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		base, head string
		code       int
		verdict    string
		has        []string
	}{
		{"xla-2026-06", "jax-0.11.2", 1, "blocked", []string{"## passgate: blocked", "miscompile by code generation", "| algsimp | 6 |", "2 changed files, from git", "History: 1 push", head + ": blocked, 1 new"}},
		{"xla-2026-06", "xla-2026-06", 0, "pass", []string{"## passgate: pass", head + ": pass, 0 new"}},
	} {
		output := filepath.Join(t.TempDir(), "output")
		if err := os.WriteFile(output, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "action", "run", "--dry-run")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PASSGATE_TRANSCRIPT=1", "GITHUB_EVENT_NAME=pull_request", "GITHUB_EVENT_PATH="+event, "GITHUB_REPOSITORY=o/r", "GITHUB_SHA="+head, "GITHUB_OUTPUT="+output,
			"PASSGATE_BASE="+row.base, "PASSGATE_HEAD="+row.head, "PASSGATE_CASES=cases", "PASSGATE_PASSES=", "PASSGATE_SHARD=", "PASSGATE_ROOT=", "PASSGATE_ACCEPT_TERMS=", "PASSGATE_CHECK_NAME=", "PASSGATE_TOKEN=")
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &log, &log
		_ = cmd.Run() // the exit code is looked at
		if code := cmd.ProcessState.ExitCode(); code != row.code {
			t.Errorf("%s against %s: exit code %d, want %d\n%s", row.head, row.base, code, row.code, log.String())
		}
		for _, want := range row.has {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s against %s: the log lacks %q\n%s", row.head, row.base, want, log.String())
			}
		}
		text, err := os.ReadFile(output)
		if err != nil || !strings.Contains(string(text), fmt.Sprintf("\n%s\n", row.verdict)) {
			t.Errorf("outputs %q, %v", text, err)
		}
	}
}
