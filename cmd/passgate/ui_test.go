package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestUI: what a run remembers shows in the pages, and a person's decision too.
func TestUI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, err := os.ReadFile("../../examples/cases/slice-of-slice.case")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "slice.case"), string(text))
	if code, out := passgate(t, dir, "check", "--base", newer, "--head", newer, "--cases", "slice.case", "--null", "0", "--probes", "0", "--store", "s.db"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	_, out := passgate(t, dir, "findings", "list", "--store", "s.db")
	id := regexp.MustCompile(`f-[0-9a-f]{12}`).FindString(out)
	if code, out := passgate(t, dir, "findings", "set", id, "--store", "s.db", "--state", "reported", "--note", "issue 12"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if code, out := passgate(t, dir, "findings", "set", "f-none", "--store", "s.db", "--state", "reported"); code != 2 || !strings.Contains(out, "no such finding") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if _, out := passgate(t, dir, "findings", "show", id, "--store", "s.db"); !strings.Contains(out, "reported") || !strings.Contains(out, "issue 12") {
		t.Errorf("findings show prints\n%s", out)
	}
	cmd := exec.Command(os.Args[0], "ui", "--store", "s.db", "--listen", "127.0.0.1:0")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PASSGATE_TRANSCRIPT=1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	lines.Scan()
	for path, want := range map[string]string{"": id, "finding/" + id: "reported: issue 12", "runs": newer, "run/1": "slice", "passes": "algsimp"} {
		r, err := http.Get(lines.Text() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: no %q in\n%s", path, want, body)
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
