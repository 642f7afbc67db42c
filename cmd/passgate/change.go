package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/passgate/passgate/passes"
)

// changeFlags say what changed.
type changeFlags struct {
	Diff         string `help:"Unified diff of the change." placeholder:"FILE" xor:"change"`
	ChangedFiles string `help:"File with one changed file per line." placeholder:"FILE" xor:"change"`
	From         string `help:"Revision before the change, in the checkout." placeholder:"REV" xor:"change"`
	To           string `help:"Revision after the change, in the checkout." placeholder:"REV" default:"HEAD"`
	Checkout     string `help:"Checkout of XLA: its unit tests of the changed passes are seeds, and --from and --to are its revisions." placeholder:"DIR"`
	// given is a change that is known already, instead of a file.
	given []passes.Change
}

// changes reads the change; ok is false if none was given.
func (f changeFlags) changes(a *app) (changes []passes.Change, ok bool, err error) {
	if f.given != nil {
		return f.given, true, nil
	}
	if f.Checkout != "" {
		if info, err := os.Stat(f.Checkout); err != nil || !info.IsDir() {
			return nil, false, usagef("--checkout %s: want the root directory of a checkout of XLA", f.Checkout)
		}
	}
	if f.From != "" {
		changes, err = f.gitDiff(a)
		return changes, err == nil, err
	}
	name, parse := f.Diff, passes.ParseDiff
	if f.ChangedFiles != "" {
		name, parse = f.ChangedFiles, passes.ParseFileList
	}
	if name == "" {
		return nil, false, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, false, usagef("%v", err)
	}
	defer file.Close()
	changes, err = parse(name, file)
	if err != nil {
		return nil, false, &usageError{err}
	}
	return changes, true, nil
}

// gitDiff asks git what lies between the two revisions.
func (f changeFlags) gitDiff(a *app) ([]passes.Change, error) {
	out, err := f.diffText(a)
	if err != nil {
		return nil, err
	}
	changes, err := passes.ParseDiff(f.From+".."+f.To, bytes.NewReader(out))
	if err != nil {
		return nil, &usageError{err}
	}
	return changes, nil
}

// diffText is the diff between the two revisions, which come from the command
// line and are kept from being options or paths.
func (f changeFlags) diffText(a *app) ([]byte, error) {
	if f.Checkout == "" {
		return nil, usagef("--from %s: want --checkout DIR, the checkout that has the revision", f.From)
	}
	for _, rev := range []string{f.From, f.To} {
		if rev == "" || strings.HasPrefix(rev, "-") {
			return nil, usagef("%q is no revision", rev)
		}
	}
	git := exec.CommandContext(a.ctx, "git", "-C", f.Checkout, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--end-of-options", f.From, f.To, "--")
	git.Env = a.environ
	var stderr bytes.Buffer
	git.Stderr = &stderr
	out, err := git.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return nil, usagef("git diff %s %s in %s: %s", f.From, f.To, f.Checkout, oneLine(strings.TrimSpace(stderr.String())))
	case err != nil:
		return nil, err
	case len(out) == 0:
		return nil, usagef("git diff %s %s in %s: they change no file", f.From, f.To, f.Checkout)
	}
	return out, nil
}
