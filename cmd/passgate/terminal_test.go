package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/passgate/passgate/gate"
)

// onTerminal runs a command line with output and errors on a new pseudo
// terminal of a width, and returns all that was written there.
func onTerminal(t *testing.T, width uint16, dir string, env []string, args ...string) (string, int) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: width}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, slave, slave
	cmd.Env = append(append(os.Environ(), "PASSGATE_TRANSCRIPT=1", "TERM=xterm", "NO_COLOR="), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var text bytes.Buffer
	io.Copy(&text, master) // ends with an error when the other side is closed
	_ = cmd.Wait()         // the exit code is looked at
	return text.String(), cmd.ProcessState.ExitCode()
}

var (
	colourCode = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	cursorCode = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-ln-z]`)
)

// TestTerminal: a bar, a table of firings and the findings as they come, in
// colours, on a terminal only, and none of it where the user says so.
func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"arctangent-vector", "matmul"} {
		text, err := os.ReadFile("../../examples/cases/" + name + ".case")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "cases", name+".case"), string(text))
	}
	check := []string{"check", "--base", older, "--head", newer, "--cases", "cases", "--probes", "3", "--null", "0"}
	for _, row := range []struct {
		name            string
		width           uint16
		env             []string
		args            []string
		colours, cursor bool
		has             []string
	}{
		{"passes in focus", 100, nil, append(check, "--passes", "algsimp,fusion"), true, true,
			[]string{"2 of 2 cases", "1 finding, 1 new", "FIRED  CASES  PASS", "1  fusion", "\x1b[31m  new: miscompile in arctangent-vector by code generation", "verdict: \x1b[31mblocked\x1b[0m"}},
		{"narrow, without colour", 40, []string{"NO_COLOR=1"}, append(check, "--passes", "algsimp,fusion,all-gather-combiner,all-reduce-combiner,call-inliner,cse,dce,flatten-call-graph"), false, true,
			[]string{"FIRED  CASES  PASS", "2 more passes", "  new: miscompile in arctangent-vect...", "verdict: blocked"}},
		{"a dumb terminal", 100, []string{"TERM=dumb"}, check, false, false, []string{"verdict: blocked"}},
		{"JSON", 100, nil, append(check, "--json"), true, true, []string{`{"case":"matmul","outcome":"ok"`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			text, code := onTerminal(t, row.width, dir, row.env, row.args...)
			if code != 1 {
				t.Fatalf("exit code %d: %s", code, text)
			}
			for _, want := range row.has {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%q", want, text)
				}
			}
			if got := colourCode.MatchString(text); got != row.colours {
				t.Errorf("colours: %v, want %v", got, row.colours)
			}
			if got := cursorCode.MatchString(text); got != row.cursor {
				t.Errorf("moves the cursor: %v, want %v", got, row.cursor)
			}
			drawn := text
			if i := strings.LastIndex(text, "\nCASE "); i >= 0 {
				drawn = text[:i]
			}
			for _, l := range strings.FieldsFunc(cursorCode.ReplaceAllString(colourCode.ReplaceAllString(drawn, ""), ""), func(r rune) bool { return r == '\n' || r == '\r' }) {
				if len([]rune(l)) > int(row.width) && !strings.HasPrefix(l, "{") && row.cursor {
					t.Errorf("the line %q is wider than the terminal", l)
				}
			}
		})
	}
	// Not a terminal: nothing but text.
	if _, out := passgate(t, dir, append(check, "--passes", "fusion")...); strings.Contains(out, "\x1b") {
		t.Errorf("escapes where there is no terminal: %q", out)
	}
}

// TestForeignTextOnTerminal: what a file or a compiler calls things moves no
// cursor.
func TestForeignTextOnTerminal(t *testing.T) {
	r := &gate.Result{Verdict: gate.Blocked, Reasons: []string{"\x1b[2Ja"}, Findings: []gate.Finding{{Case: "\x1b]0;x\x07", Detail: "\x1b[2J\u202e", Status: gate.New, Blocking: true}}}
	var out bytes.Buffer
	a := &app{stdout: &out}
	a.printResult(&out, r, "")
	b := &board{}
	b.update(gate.Progress{Found: r.Findings, Passes: []gate.PassResult{{Name: "\x1b[2J"}}})
	for _, row := range b.rows() {
		fmt.Fprintln(&out, row.text)
	}
	if text := out.String(); strings.ContainsAny(text, "\x1b\x07\u202e") || strings.Count(text, `\u001b`) != 5 {
		t.Errorf("got %q", text)
	}
}
