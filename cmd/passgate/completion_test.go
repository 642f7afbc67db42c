package main

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, log bytes.Buffer
	a := &app{ctx: context.Background(), stdout: &out, stderr: &log, now: time.Now}
	if code := a.execute(args); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, log.String())
	}
	return out.String()
}

// TestBashCompletion completes in a real bash.
func TestBashCompletion(t *testing.T) {
	script := output(t, "completion", "bash")
	for _, row := range []struct{ typed, want string }{
		{"act", "action"},
		{"action r", "run"},
		{"action run --dry", "--dry-run"},
		{"check --bas", "--base"},
		{"check --base x --head y --se", "--seed"},
		{"builds f", "fetch"},
		{"check dir --see", "--seed"},
		{"bazel", ""}, // hidden
	} {
		words := strings.Fields(row.typed)
		cmd := exec.Command("bash", "-c", script+"\nCOMP_WORDS=(passgate \"$@\"); COMP_CWORD=$#; _passgate; echo \"${COMPREPLY[*]}\"", "-")
		cmd.Args = append(cmd.Args, words...)
		got, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(got)) != row.want {
			t.Errorf("%q completes to %q (%v), want %q", row.typed, got, err, row.want)
		}
	}
	for _, shell := range []string{"zsh", "fish"} {
		if got := output(t, "completion", shell); !strings.Contains(got, "publish") {
			t.Errorf("%s: no publish", shell)
		}
	}
}

// TestManPage: every command that a user sees is in the page, and no line of it
// is a request by accident.
func TestManPage(t *testing.T) {
	page := output(t, "man")
	for _, want := range []string{".SS passgate action publish", ".SS passgate check", `.B \-\-base=SPEC`, ".SS passgate completion"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	known := map[string]bool{".TH": true, ".SH": true, ".SS": true, ".TP": true, ".B": true, ".I": true, ".PP": true}
	for _, l := range strings.Split(page, "\n") {
		if word, _, _ := strings.Cut(l, " "); strings.HasPrefix(l, ".") && !known[word] {
			t.Errorf("request %q", l)
		}
	}
}
