package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
)

// shell runs a line as a shell does in a directory, passgate being this binary.
func shell(t *testing.T, dir, line string) (code int, output string) {
	t.Helper()
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nPASSGATE_TRANSCRIPT=1 exec '%s' \"$@\"\n", os.Args[0])
	if err := os.WriteFile(filepath.Join(bin, "passgate"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestSeeItAgain: what the reports say to run, run as it is printed, shows the new
// findings and no others, with the values that the reports show. The builds are
// files beside the run, and the reports are not where they usually are.
func TestSeeItAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, spec := range map[string]string{"base.so": older, "head.so": newer} {
		_, out := passgate(t, dir, "builds", "fetch", "--json", spec)
		path := regexp.MustCompile(`/[^"\s]*\.so`).FindString(out)
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cases, err := filepath.Abs("../../examples/cases")
	if err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(cases, "pool-dilated-min.case") + " --cases " + filepath.Join(cases, "slice-of-slice.case")
	run := "passgate check --base base.so --head ./head.so --null 0 --cases " + files + " --out 'the reports'"
	if code, out := shell(t, dir, run); code != 1 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	commands := func(name string) []string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range regexp.MustCompile("(?m)^(?:<pre class=\"command\".*<code>)?(passgate [^<\n]*)").FindAllStringSubmatch(string(data), -1) {
			out = append(out, strings.ReplaceAll(m[1], "&#39;", "'"))
		}
		return out
	}
	again := commands("the reports/comment.md")
	for _, name := range []string{"the reports/summary.md", "the reports/report.html"} {
		if got := commands(name); len(again) != 1 || len(got) != 1 || got[0] != again[0] {
			t.Fatalf("comment: %q, %s: %q", again, name, got)
		}
	}
	// Rendered once more, the command is that of the directory it is in.
	if code, out := shell(t, dir, "passgate report --in 'the reports/result.json' --format comment"); code != 0 || !strings.Contains(out, "\n"+again[0]+"\n") {
		t.Errorf("rendered again (exit code %d), %q is not in\n%s", code, again[0], out)
	}
	if code, out := shell(t, dir, "passgate report --merge 'the reports' --out merged >/dev/null; grep -h '^passgate check' merged/comment.md"); code != 0 || strings.TrimSpace(out) != strings.Replace(again[0], "'the reports/new'", "merged/new", 1) {
		t.Errorf("merged (exit code %d), the command is %q", code, out)
	}
	first := result(t, filepath.Join(dir, "the reports"))
	if code, out := shell(t, dir, again[0]+" --null 0"); code != 1 {
		t.Fatalf("%s: exit code %d\n%s", again[0], code, out)
	}
	second := result(t, filepath.Join(dir, "passgate-out"))
	if len(second.Findings) != 1 || len(first.Findings) < 2 {
		t.Fatalf("%d findings at first, %d again", len(first.Findings), len(second.Findings))
	}
	for _, f := range first.Findings {
		if g := &second.Findings[0]; f.Status == gate.New {
			m := f.AsMinimal()
			if g.Status != gate.New || !g.Blocking || g.Cluster != f.Cluster || g.First.Head != m.First.Head || g.First.Legal != m.First.Legal || g.Wrong != m.Wrong {
				t.Errorf("at first %s %+v, again %s %+v", f.Cluster, m.First, g.Cluster, g.First)
			}
		}
		folder := filepath.Join("the reports", "findings", f.ID)
		for i, line := range commands(filepath.Join(folder, "README.md")) {
			code, out := shell(t, filepath.Join(dir, folder), line)
			if want := f.AsMinimal().First.Head; code != 0 || i == 0 && !strings.Contains(out, want) {
				t.Errorf("%s: %s: exit code %d, want %s in\n%s", folder, line, code, want, out)
			}
		}
	}
}

// result is the result.json of a directory, which fits the schema.
func result(t *testing.T, dir string) *gate.Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	validate(t, data)
	var r gate.Result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}
