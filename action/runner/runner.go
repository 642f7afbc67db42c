// Package runner talks to the machine that runs a job of GitHub Actions: its
// inputs, outputs, log, annotations and job summary. It has the shape of
// sethvargo/go-githubactions and only what passgate uses.
//
// What passgate prints comes from compilers and pull requests. So every value
// of a workflow command is escaped, multi-line outputs stand between random
// delimiters, and foreign text in the log stands inside stop-commands with a
// random token (docs.github.com, "Workflow commands for GitHub Actions").
package runner

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// Runner is one job's runner.
type Runner struct {
	env    func(string) string
	log    io.Writer
	random io.Reader
	append func(file, text string) error
}

// Option changes a Runner.
type Option func(*Runner)

// WithGetenv sets the environment; os.Getenv.
func WithGetenv(env func(string) string) Option { return func(r *Runner) { r.env = env } }

// WithWriter sets the job's log; os.Stdout.
func WithWriter(w io.Writer) Option { return func(r *Runner) { r.log = w } }

// WithRandom sets the source of delimiters and tokens; crypto/rand.
func WithRandom(src io.Reader) Option { return func(r *Runner) { r.random = src } }

// New is a runner with the process's environment and standard output.
func New(options ...Option) *Runner {
	r := &Runner{env: os.Getenv, log: os.Stdout, random: rand.Reader, append: appendFile}
	for _, o := range options {
		o(r)
	}
	return r
}

// appendFile appends to a file that the runner made. Nothing is created: a job
// without the file is not a job.
func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Getenv is a variable of the job's environment.
func (r *Runner) Getenv(name string) string { return r.env(name) }

// SetOutput sets an output of the step, for use in later steps. Any value is
// safe: the delimiter is random, and checked not to be in the value. Outside of
// a job nothing happens.
func (r *Runner) SetOutput(name, value string) error {
	if !isName(name) {
		return fmt.Errorf("output %q: want letters, digits, '_' and '-'", name)
	}
	file := r.env("GITHUB_OUTPUT")
	if file == "" {
		return nil
	}
	token, err := r.token()
	if err != nil {
		return err
	}
	if strings.Contains(value, token) {
		return fmt.Errorf("output %s holds its own delimiter", name)
	}
	return r.append(file, fmt.Sprintf("%s<<%s\n%s\n%s\n", name, token, value, token))
}

// maxSummary is what GitHub takes per step: 1 MiB.
const maxSummary = 1 << 20

// AddStepSummary appends Markdown to the job summary. Outside of a job nothing
// happens.
func (r *Runner) AddStepSummary(markdown string) error {
	file := r.env("GITHUB_STEP_SUMMARY")
	if file == "" {
		return nil
	}
	if len(markdown) >= maxSummary {
		return fmt.Errorf("the summary has %d bytes, GitHub takes %d", len(markdown), maxSummary)
	}
	return r.append(file, markdown)
}

// Place is where an annotation stands; no place if File is "".
type Place struct {
	File string
	Line int
}

// Noticef, Warningf and Errorf make annotations.
func (r *Runner) Noticef(at Place, format string, args ...any) {
	r.annotate("notice", at, fmt.Sprintf(format, args...))
}
func (r *Runner) Warningf(at Place, format string, args ...any) {
	r.annotate("warning", at, fmt.Sprintf(format, args...))
}
func (r *Runner) Errorf(at Place, format string, args ...any) {
	r.annotate("error", at, fmt.Sprintf(format, args...))
}

func (r *Runner) annotate(kind string, at Place, text string) {
	if at.File == "" {
		fmt.Fprintf(r.log, "::%s::%s\n", kind, escapeData(text))
		return
	}
	fmt.Fprintf(r.log, "::%s file=%s,line=%d::%s\n", kind, escapeProperty(at.File), max(1, at.Line), escapeData(text))
}

// Infof writes a line to the log. It cannot be a command.
func (r *Runner) Infof(format string, args ...any) {
	text := strings.ReplaceAll(visible(fmt.Sprintf(format, args...)), "\n", " ")
	// "::" starts a command only at the start of a line, "##[" anywhere.
	text = strings.ReplaceAll(text, "##[", "## [")
	if strings.HasPrefix(strings.TrimSpace(text), "::") {
		text = "| " + text
	}
	fmt.Fprintln(r.log, text)
}

// Foreign runs f with a writer for text that others wrote: no line of it is
// obeyed. Nothing else may be written to the log meanwhile.
func (r *Runner) Foreign(f func(io.Writer)) error {
	token, err := r.token()
	if err != nil {
		return err
	}
	fmt.Fprintf(r.log, "::stop-commands::%s\n", token)
	last := &lineEnd{w: r.log}
	defer func() {
		if !last.atStart() {
			fmt.Fprintln(r.log)
		}
		fmt.Fprintf(r.log, "::%s::\n", token)
	}()
	f(last)
	return nil
}

// lineEnd remembers whether the last byte ended a line.
type lineEnd struct {
	w    io.Writer
	last byte
}

func (l *lineEnd) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.last = p[len(p)-1]
	}
	return l.w.Write(p)
}

func (l *lineEnd) atStart() bool { return l.last == 0 || l.last == '\n' }

// token is a random word of 128 bits.
func (r *Runner) token() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(r.random, b[:]); err != nil {
		return "", fmt.Errorf("no random delimiter: %w", err)
	}
	return "passgate-" + hex.EncodeToString(b[:]), nil
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// escapeData and escapeProperty are the escapes of actions/toolkit
// (packages/core/src/command.ts).
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(visible(s))
}

func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(visible(s))
}

// visible writes control and format characters, such as terminal escapes and
// bidirectional overrides, as escapes. Line ends and tabs stay.
func visible(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c != '\n' && c != '\t' && (unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp)) {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}
