package action

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/gate"
)

// maxPlugin caps a plugin that comes as an artifact. The largest public ones
// have 0.6 GB.
const maxPlugin = 4 << 30

// Builds makes build specs of an action's inputs.
type Builds struct {
	Event  *Event
	GitHub GitHub // nil without a token
	Git    Checkout
	// Dir holds what is made here; it must not be in the checkout.
	Dir string
	// Command builds a plugin in a checkout, and Output is where it then is;
	// both "" if the inputs name builds.
	Command, Output string
	// Environ is the command's environment before secrets are taken out.
	Environ []string

	sources map[Side]string
}

// Describe says in a result where a build comes from that was made here: its
// file is gone when the job ends.
func (b *Builds) Describe(side Side, build *gate.Build) {
	if s := b.sources[side]; s != "" {
		build.Spec, build.Source = string(side)+".so", s
	}
}

func (b *Builds) remember(side Side, source string) {
	if b.sources == nil {
		b.sources = map[Side]string{}
	}
	b.sources[side] = source
}

// Side is base or head.
type Side string

const (
	BaseSide Side = "base"
	HeadSide Side = "head"
)

// Spec is the build spec of one side: the input as it is, the file of an
// artifact (artifact:NAME[@RUN]/PATH), or what the build command makes of the
// side's commit. Errors about the inputs are *EventError.
func (b *Builds) Spec(ctx context.Context, side Side, input string, log io.Writer) (string, error) {
	switch {
	case strings.HasPrefix(input, "artifact:"):
		return b.artifact(ctx, side, input)
	case input != "":
		return input, nil
	case b.Command == "" || b.Output == "":
		return "", eventErrorf("no %s: want a build spec, artifact:NAME/PATH, or a build command and where its output is", side)
	}
	return b.build(ctx, side, log)
}

var artifactInput = regexp.MustCompile(`^artifact:([A-Za-z0-9._-]+)(?:@([0-9]{1,18}))?/(.+)$`)

func (b *Builds) artifact(ctx context.Context, side Side, input string) (string, error) {
	m := artifactInput.FindStringSubmatch(input)
	if m == nil || !filepath.IsLocal(m[3]) {
		return "", eventErrorf("%s: %q: want artifact:NAME[@RUN]/PATH", side, input)
	}
	if b.GitHub == nil {
		return "", eventErrorf("%s: %s needs a token that reads actions", side, input)
	}
	run := b.Event.RunID
	if m[2] != "" {
		run, _ = strconv.ParseInt(m[2], 10, 64) // 18 digits fit
	}
	found, err := b.GitHub.RunArtifacts(ctx, run, m[1])
	if err != nil {
		return "", fmt.Errorf("%s: %w", input, err)
	}
	found = slices.DeleteFunc(found, func(a Artifact) bool { return a.Expired })
	if len(found) != 1 {
		return "", fmt.Errorf("%s: run %d has %d artifacts of that name", input, run, len(found))
	}
	archive, err := os.CreateTemp(b.Dir, "artifact-")
	if err != nil {
		return "", err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	if err := b.GitHub.Download(ctx, found[0].ID, maxPlugin, archive); err != nil {
		return "", fmt.Errorf("%s: %w", input, err)
	}
	size, err := archive.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", err
	}
	to := filepath.Join(b.Dir, string(side)+".so")
	if err := extract(archive, size, m[3], to, maxPlugin); err != nil {
		return "", fmt.Errorf("%s: %w", input, err)
	}
	b.remember(side, fmt.Sprintf("%s of the artifact %s of run %d", m[3], m[1], run))
	return to, nil
}

// extract writes one regular file of a zip archive to a name of ours.
func extract(archive io.ReaderAt, size int64, name, to string, limit int64) (err error) {
	z, err := zip.NewReader(archive, size)
	if err != nil {
		return artifactErrorf("not a zip archive: %v", err)
	}
	i := slices.IndexFunc(z.File, func(f *zip.File) bool { return f.Name == name })
	if i < 0 || !z.File[i].Mode().IsRegular() {
		return artifactErrorf("it holds no regular file %q", name)
	}
	in, err := z.File[i].Open()
	if err != nil {
		return artifactErrorf("%v", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(to)
		}
	}()
	n, err := io.Copy(out, io.LimitReader(in, limit+1))
	if err == nil && n > limit {
		err = artifactErrorf("%q unpacks to more than %d bytes", name, limit)
	}
	return err
}

// build runs the build command on the side's commit. The commit of head is what
// is checked out (for a pull request its merge with the target branch), that of
// base is where it parts from the target branch, so that both differ by the
// change alone.
func (b *Builds) build(ctx context.Context, side Side, log io.Writer) (string, error) {
	if !filepath.IsLocal(b.Output) {
		return "", eventErrorf("build output %q: want a path inside the checkout", b.Output)
	}
	head, err := b.Git.Tested(ctx)
	if err != nil {
		return "", err
	}
	at := head
	if side == BaseSide {
		if b.Event.Base == "" {
			return "", eventErrorf("no base: %s names no commit before the change, so give a build", b.Event.Kind)
		}
		if at, err = b.Git.MergeBase(ctx, b.Event.Base, head); err != nil {
			return "", fmt.Errorf("base commit %s: %w (check out with fetch-depth: 0)", b.Event.Base, err)
		}
	}
	dir := filepath.Join(b.Dir, "checkout-"+string(side))
	if err := b.Git.Worktree(ctx, dir, at); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "building %s at %s\n", side, at)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.Command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(Scrub(b.Environ), "PASSGATE_SIDE="+string(side))
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building %s at %s: %w", side, at, err)
	}
	// A link out of the checkout is no build of it.
	inside, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer inside.Close()
	info, err := inside.Stat(b.Output)
	if err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("building %s at %s: it left no file %s", side, at, b.Output)
	}
	b.remember(side, fmt.Sprintf("%s after `%s` in a checkout of %s", b.Output, b.Command, at))
	return filepath.Join(dir, b.Output), nil
}

// secret are the variables that let a process speak for the job or write to its
// runner's files.
var secret = regexp.MustCompile(`^(GITHUB_TOKEN|GH_TOKEN|PASSGATE_TOKEN|INPUT_.*|ACTIONS_.*|GITHUB_(OUTPUT|ENV|PATH|STATE|STEP_SUMMARY))=`)

// Scrub is an environment without the job's tokens and files, for processes
// that run a pull request's code.
func Scrub(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), secret.MatchString)
}
