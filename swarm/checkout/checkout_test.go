package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tree lays out a source tree with hostile links beside a file that must not be
// read or written.
func tree(t *testing.T) (root *Root, dir, outside string) {
	t.Helper()
	top := t.TempDir()
	dir, outside = filepath.Join(top, "tree"), filepath.Join(top, "secret.cc")
	for name, text := range map[string]string{
		"xla/a.cc":          "one\ntwo\ntwo\nthree\n",
		"xla/a_test.cc":     "TEST\n",
		"xla/BUILD":         "cc_library()\n",
		"xla/binary.cc":     "a\x00b",
		"xla/sub/b.h":       "needle here\n",
		".git/config.cc":    "needle of git\n",
		"build.sh":          "touch ran\n",
		"xla/inner/real.cc": "real\n",
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(outside, []byte("needle of a secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"xla/out.cc": outside, "xla/up": "../..", "xla/in.cc": "a.cc", "xla/absolute": "/", "xla/climb": "sub/../../../.."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, dir, outside
}

// refused reports whether an error is a refusal that gives nothing away.
func refused(err error) bool {
	var r *RefusedError
	return errors.As(err, &r) && !strings.Contains(err.Error(), "needle")
}

var escapes = []string{"../secret.cc", "xla/../../secret.cc", "/etc/passwd", "xla/out.cc", "xla/up/secret.cc", "xla/up/../secret.cc", "xla/absolute/etc/passwd", "xla/climb/secret.cc", "xla/in.cc",
	"xla//a.cc", "./xla/a.cc", "xla\\a.cc", "xla/a.cc/", "", "xla", "xla/nothing.cc", "xla/binary.cc", "\x00", "xla/a.cc\x00"}

func TestReadStaysInside(t *testing.T) {
	r, _, _ := tree(t)
	for _, name := range escapes {
		if text, err := r.Read(name, 1, 10); !refused(err) {
			t.Errorf("%q is read: %q, %v", name, text, err)
		}
	}
	for _, dir := range []string{"..", "xla/up", "xla/absolute", "/", "xla/climb", "xla/a.cc"} {
		if text, err := r.List(dir); !refused(err) {
			t.Errorf("%q is listed: %q, %v", dir, text, err)
		}
		if text, err := r.Search("needle", dir); !refused(err) && !(dir == "xla/a.cc" && err == nil && !strings.Contains(text, "secret")) {
			t.Errorf("%q is searched: %q, %v", dir, text, err)
		}
	}
}

func TestRead(t *testing.T) {
	r, _, _ := tree(t)
	if got, err := r.Read("xla/a.cc", 2, 2); err != nil || got != "2\ttwo\n3\ttwo\n... 1 more lines\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := r.Read("xla/a.cc", 9, 1); !refused(err) {
		t.Errorf("line 9 of 4: %v", err)
	}
	if got, err := r.List("xla"); err != nil || got != "BUILD\na.cc\na_test.cc\nbinary.cc\ninner/\nsub/\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := r.Search("needle", "."); err != nil || got != "xla/sub/b.h:1: needle here\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := r.Search("x", "."); !refused(err) {
		t.Errorf("one letter: %v", err)
	}
}

func TestPlan(t *testing.T) {
	r, dir, _ := tree(t)
	for _, row := range []struct {
		what  string
		edits []Edit
	}{
		{"none", nil},
		{"twice there", []Edit{{"xla/a.cc", "two", "2"}}},
		{"not there", []Edit{{"xla/a.cc", "four", "4"}}},
		{"a build file", []Edit{{"xla/BUILD", "cc_library()", "genrule(cmd = \"id\")"}}},
		{"a script", []Edit{{"build.sh", "touch", "rm -r"}}},
		{"a new script", []Edit{{"new.sh", "", "id"}}},
		{"settings of the build", []Edit{{".bazelrc", "", "build --run_under=id"}}},
		{"outside", []Edit{{"../secret.cc", "needle", "x"}}},
		{"new outside", []Edit{{"../new.cc", "", "x"}}},
		{"through a link", []Edit{{"xla/up/secret.cc", "needle", "x"}}},
		{"new through a link", []Edit{{"xla/up/new.cc", "", "x"}}},
		{"a link", []Edit{{"xla/out.cc", "needle", "x"}}},
		{"over a link", []Edit{{"xla/out.cc", "", "x"}}},
		{"a new directory", []Edit{{"nowhere/new.cc", "", "x"}}},
		{"over a file", []Edit{{"xla/a.cc", "", "x"}}},
		{"nothing changes", []Edit{{"xla/a.cc", "one", "one"}}},
		{"no text", []Edit{{"xla/a.cc", "one", "\x00"}}},
		{"too long", []Edit{{"xla/a.cc", "one", strings.Repeat("x", maxNewText+1)}}},
		{"too many", make([]Edit, maxEdits+1)},
	} {
		if p, err := r.Plan(row.edits); !refused(err) {
			t.Errorf("%s: %+v, %v", row.what, p, err)
		}
	}
	p, err := r.Plan([]Edit{{"xla/a.cc", "one\ntwo", "1\ntwo"}, {"xla/a.cc", "three", "3"}, {"xla/new_test.cc", "", "TEST(A, B) {}\n"}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Files["xla/a.cc"] != "1\ntwo\ntwo\n3\n" {
		t.Errorf("%q", p.Files["xla/a.cc"])
	}
	// The diff means the same to git, and the tree itself is untouched.
	to := t.TempDir()
	if err := r.Copy(to, &Patch{}); err != nil {
		t.Fatal(err)
	}
	diff := filepath.Join(t.TempDir(), "patch.diff")
	if err := os.WriteFile(diff, []byte("  a summary\n\n"+p.Diff), 0o644); err != nil {
		t.Fatal(err)
	}
	git := exec.Command("git", "apply", diff)
	git.Dir = to
	if said, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, said, p.Diff)
	}
	for name, want := range p.Files {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s after git apply: %q, %v", name, got, err)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "xla/a.cc")); string(got) != "one\ntwo\ntwo\nthree\n" {
		t.Errorf("the tree was changed: %q", got)
	}
}

// TestPlanAgainstGit: a patch of any edits means the same to git apply.
func TestPlanAgainstGit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-c]{0,3}`), 1, 12).Draw(t, "lines")
		text := "start\n" + strings.Join(lines, "\n")
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		end := rapid.IntRange(at+1, len(text)).Draw(t, "end")
		edit := Edit{"f.cc", text[at:end], rapid.StringMatching(`[a-d\n]{0,8}`).Draw(t, "new")}
		dir, err := os.MkdirTemp("", "passgate-plan-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, "f.cc"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		p, err := r.Plan([]Edit{edit})
		if err != nil {
			if !refused(err) {
				t.Fatal(err)
			}
			return
		}
		git := exec.Command("git", "apply", "-")
		git.Dir, git.Stdin = dir, strings.NewReader(p.Diff)
		if said, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git apply: %v: %s\n%q", err, said, p.Diff)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "f.cc")); string(got) != p.Files["f.cc"] {
			t.Fatalf("git makes %q, we %q", got, p.Files["f.cc"])
		}
	})
}

// TestCopy: links that lead out and version control stay behind, the others work.
func TestCopy(t *testing.T) {
	r, _, _ := tree(t)
	to := t.TempDir()
	if err := r.Copy(to, &Patch{Files: map[string]string{"xla/a.cc": "patched\n"}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git", "xla/out.cc", "xla/up", "xla/absolute", "xla/climb"} {
		if _, err := os.Lstat(filepath.Join(to, name)); err == nil {
			t.Errorf("%s is in the copy", name)
		}
	}
	for name, want := range map[string]string{"xla/a.cc": "patched\n", "xla/in.cc": "patched\n", "build.sh": "touch ran\n"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		what, command, output, reason string
	}{
		{"works", "test -z \"${OPENAI_API_KEY-}\" && test \"$GOOD\" = yes && echo x > plugin.so", "plugin.so", ""},
		{"fails", "echo the reason; false", "plugin.so", "exit status 1"},
		{"leaves nothing", "rm -f plugin.so", "plugin.so", "left no file"},
		{"a link out", "ln -sf /bin/sh linked.so", "linked.so", "left no file"},
		{"a directory", "mkdir -p d.so", "d.so", "left no file"},
		{"outside", "true", "../x.so", "inside the checkout"},
		{"an unset variable", "echo $NOT_SET", "plugin.so", "exit status"},
		{"too long", "echo started; sleep 600", "plugin.so", "longer than"},
	} {
		b := Build{Command: row.command, Output: row.output, Limit: 2 * time.Second, More: []string{"GOOD"},
			Environ: []string{"PATH=" + os.Getenv("PATH"), "OPENAI_API_KEY=sk-secret", "GOOD=yes"}}
		got, err := b.Run(t.Context(), dir)
		var failed *BuildError
		switch {
		case row.reason == "" && (err != nil || got != filepath.Join(dir, "plugin.so")):
			t.Errorf("%s: %q, %v", row.what, got, err)
		case row.reason != "" && (!errors.As(err, &failed) || !strings.Contains(failed.Reason, row.reason)):
			t.Errorf("%s: %v, want %q", row.what, err, row.reason)
		case row.what == "fails" && failed.Log != "the reason\n":
			t.Errorf("log %q", failed.Log)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Build{Command: "true", Output: "plugin.so", Limit: time.Minute}).Run(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestBuildLeavesNothingRunning: children in the background are killed, whether
// the command ends or runs into its limit.
func TestBuildLeavesNothingRunning(t *testing.T) {
	for _, end := range []string{"true", "wait"} {
		dir := t.TempDir()
		b := Build{Command: "sleep 600 & echo $! > pid; echo x > plugin.so; " + end, Output: "plugin.so", Limit: 2 * time.Second, Environ: os.Environ()}
		_, err := b.Run(t.Context(), dir)
		if (err == nil) != (end == "true") {
			t.Errorf("%s: %v", end, err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Errorf("%s: process %d is still running", end, pid)
		}
	}
}

// alive reports whether a process runs, giving a killed one time to go.
func alive(pid int) bool {
	for range 200 {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		if _, state, ok := strings.Cut(string(data), ") "); ok && (state[0] == 'Z' || state[0] == 'X') {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

func FuzzPlan(f *testing.F) {
	for _, name := range escapes {
		f.Add(name, "two", "x")
	}
	f.Add("xla/a.cc", "one", "1")
	f.Fuzz(func(t *testing.T, name, old, text string) {
		r, _, outside := tree(t)
		p, err := r.Plan([]Edit{{name, old, text}})
		if err != nil && !refused(err) {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil {
			return
		}
		to := t.TempDir()
		if err := r.Copy(to, p); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if data, _ := os.ReadFile(outside); string(data) != "needle of a secret\n" {
			t.Errorf("%q writes outside: %q", name, data)
		}
	})
}
