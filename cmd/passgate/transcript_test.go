package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestMain makes the test binary a passgate: as a worker (the pool starts this
// executable) and for the commands of transcripts.
func TestMain(m *testing.M) {
	if os.Getenv("PASSGATE_TRANSCRIPT") != "" || len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
	}
	os.Exit(m.Run())
}

// command is one command of a transcript with what it must print.
type command struct {
	line           int
	args           []string
	stdout, stderr []string
	code           int
}

// TestTranscripts runs the transcripts in testdata. A transcript is a txtar
// archive; its files are laid out in a fresh directory and its comment holds
// commands:
//
//	# a comment
//	$ passgate eval a.case
//	what standard output must hold, line by line
//	! what standard error must hold
//	= 2
//
// The last line is the exit code, 0 if left out. In expected lines, ... stands
// for any text, and alone on a line for any number of lines. Blank lines do not
// count, neither here nor in the output, nor does the progress that a command
// tells on standard error where it takes long. `$ cat FILE`
// shows a file that a command wrote. A case inside the archive has its own
// section lines quoted: `>-- inputs --`. A file FILE.base64 is laid out decoded, as
// FILE.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for _, f := range archive.Files {
				name := filepath.Join(dir, filepath.FromSlash(f.Name))
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				data := marker.ReplaceAll(f.Data, []byte("-- "))
				if plain, ok := strings.CutSuffix(name, ".base64"); ok {
					name = plain
					if data, err = base64.StdEncoding.DecodeString(string(data)); err != nil {
						t.Fatalf("%s: %s: %v", file, f.Name, err)
					}
				}
				if err := os.WriteFile(name, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range parseTranscript(t, file, string(archive.Comment)) {
				c.check(t, file, dir)
			}
		})
	}
}

var unseen = regexp.MustCompile(`(?m)^([0-9]+ of [0-9]+ cases(,.*)?)?\n`)

var marker = regexp.MustCompile(`(?m)^>-- `)

func parseTranscript(t *testing.T, file, text string) []command {
	t.Helper()
	var out []command
	for i, l := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(l, "$ "):
			out = append(out, command{line: i + 1, args: strings.Fields(l)[1:]})
		case l == "" || strings.HasPrefix(l, "#"):
		case len(out) == 0:
			t.Fatalf("%s:%d: output before the first command", file, i+1)
		case strings.HasPrefix(l, "! "):
			out[len(out)-1].stderr = append(out[len(out)-1].stderr, l[2:])
		case strings.HasPrefix(l, "= "):
			if _, err := fmt.Sscan(l[2:], &out[len(out)-1].code); err != nil {
				t.Fatalf("%s:%d: %v", file, i+1, err)
			}
		default:
			out[len(out)-1].stdout = append(out[len(out)-1].stdout, l)
		}
	}
	return out
}

func (c command) check(t *testing.T, file, dir string) {
	t.Helper()
	var cmd *exec.Cmd
	switch c.args[0] {
	case "passgate":
		cmd = exec.Command(os.Args[0], c.args[1:]...)
	case "cat":
		cmd = exec.Command("cat", c.args[1:]...)
	default:
		t.Fatalf("%s:%d: unknown command %s", file, c.line, c.args[0])
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PASSGATE_TRANSCRIPT=1", "NO_COLOR=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	where := fmt.Sprintf("%s:%d: %s", file, c.line, strings.Join(c.args, " "))
	if got := cmd.ProcessState.ExitCode(); got != c.code {
		t.Errorf("%s: exit code %d, want %d", where, got, c.code)
	}
	for _, s := range []struct {
		name string
		want []string
		got  string
	}{{"standard output", c.stdout, stdout.String()}, {"standard error", c.stderr, stderr.String()}} {
		if !pattern(s.want).MatchString(unseen.ReplaceAllString(s.got, "")) {
			t.Errorf("%s: %s is\n%s\nwant\n%s", where, s.name, s.got, strings.Join(s.want, "\n"))
		}
	}
}

// pattern compiles expected lines.
func pattern(lines []string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	for _, l := range lines {
		if l == "..." {
			b.WriteString("(.*\n)*")
			continue
		}
		parts := strings.Split(l, "...")
		for i, p := range parts {
			if i > 0 {
				b.WriteString(".*")
			}
			b.WriteString(regexp.QuoteMeta(p))
		}
		b.WriteString("\n")
	}
	b.WriteString("$")
	return regexp.MustCompile(b.String())
}
