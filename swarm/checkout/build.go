package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Build is how the user builds a plugin in a checkout. The command runs as the
// user, on code that a model wrote: it is no sandbox, and whether it reaches the
// network is not promised either way.
type Build struct {
	// Command is run by sh in the root of the copy.
	Command string
	// Output is the path of the plugin that it leaves there.
	Output string
	// Limit is the longest time it may take.
	Limit time.Duration
	// Environ is the environment; only the variables of passed reach the command,
	// and those of More.
	Environ []string
	More    []string
}

// passed are the variables that builds need. Others may be secrets.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TERM", "TZ", "CC", "CXX"}

// BuildError is a build that gave no plugin.
type BuildError struct {
	Reason string
	Log    string // the end of what the command printed
}

func (e *BuildError) Error() string { return "the build failed: " + e.Reason }

// maxLog is how much of a build's output is kept: the end.
const maxLog = 8 << 10

// tail keeps the end of what is written.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - maxLog; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// Run builds in dir and returns the plugin's path. The error is a *BuildError, or
// ctx's. Nothing that the command started is left running.
func (b Build) Run(ctx context.Context, dir string) (string, error) {
	if !filepath.IsLocal(b.Output) {
		return "", &BuildError{Reason: fmt.Sprintf("output %q: want a path inside the checkout", b.Output)}
	}
	limited, cancel := context.WithTimeout(ctx, b.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, "sh", "-eu", "-c", b.Command)
	cmd.Dir = dir
	cmd.Env = b.environ()
	var log tail
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = time.Second
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
		kill() // what the command left in the background; there is none as a rule
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "", &BuildError{fmt.Sprintf("it took longer than %v", b.Limit), string(log.data)}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", &BuildError{err.Error(), string(log.data)}
	}
	inside, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer inside.Close()
	if info, err := inside.Stat(b.Output); err != nil || !info.Mode().IsRegular() {
		return "", &BuildError{fmt.Sprintf("it left no file %s inside the checkout", b.Output), string(log.data)}
	}
	return filepath.Join(dir, b.Output), nil
}

func (b Build) environ() []string {
	return slices.DeleteFunc(slices.Clone(b.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(passed, name) && !slices.Contains(b.More, name)
	})
}
