package action

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Checkout is a checkout of the repository, read with git.
type Checkout struct{ Dir string }

// Diff is the diff from the point where head left base; where the history is
// too short for that, between the two commits, which may name more files.
func (c Checkout) Diff(ctx context.Context, base, head string) ([]byte, error) {
	for _, sha := range []string{base, head} {
		if !commit.MatchString(sha) {
			return nil, fmt.Errorf("%q is no commit", sha)
		}
	}
	diff := func(revisions ...string) ([]byte, error) {
		// Nothing of the repository may run or change the form of the diff.
		args := append([]string{"-c", "core.quotepath=on", "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"}, revisions...)
		return c.git(ctx, append(args, "--")...)
	}
	if out, err := diff(base + "..." + head); err == nil {
		return out, nil
	}
	if _, err := c.git(ctx, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", base, head); err != nil {
		return nil, err
	}
	return diff(base, head)
}

// Tested is the commit that is checked out.
func (c Checkout) Tested(ctx context.Context) (string, error) {
	out, err := c.git(ctx, "rev-parse", "--verify", "HEAD^{commit}")
	return strings.TrimSpace(string(out)), err
}

// MergeBase is where two commits parted.
func (c Checkout) MergeBase(ctx context.Context, a, b string) (string, error) {
	out, err := c.git(ctx, "merge-base", a, b)
	return strings.TrimSpace(string(out)), err
}

// Worktree checks a commit out into a new directory.
func (c Checkout) Worktree(ctx context.Context, dir, commit string) error {
	_, err := c.git(ctx, "worktree", "add", "--quiet", "--force", "--detach", dir, commit)
	return err
}

func (c Checkout) git(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = c.Dir
	// os.Environ without prompts; hooks of the user do not run.
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=/dev/null")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("git %s: %w: %.200s", args[0], err, strings.Join(strings.Fields(stderr.String()), " "))
	}
	return stdout.Bytes(), nil
}

// File is a file of a commit; ok is false if the commit has none of that name.
func (c Checkout) File(ctx context.Context, at, name string) (data []byte, ok bool, err error) {
	if !commit.MatchString(at) {
		return nil, false, fmt.Errorf("%q is no commit", at)
	}
	if _, err := c.git(ctx, "cat-file", "-e", at+"^{commit}"); err != nil {
		if _, err := c.git(ctx, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", at); err != nil {
			return nil, false, err
		}
	}
	found, err := c.git(ctx, "ls-tree", at, "--", name)
	if err != nil || !bytes.HasPrefix(found, []byte("100")) { // a regular file, no link
		return nil, false, err
	}
	data, err = c.git(ctx, "cat-file", "blob", at+":"+name)
	return data, err == nil, err
}
