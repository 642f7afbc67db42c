package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/passgate/passgate/xla/builds"
)

type diagnosis struct {
	name, detail string
	err          error
}

// minFree is the disk space that three builds need, unpacked: each wheel is
// about 63 MB and its plugin about 250 MB.
const minFree = 1 << 30

// diagnose looks at what a run needs.
func (a *app) diagnose() []diagnosis {
	var out []diagnosis
	add := func(name, detail string, err error) { out = append(out, diagnosis{name, detail, err}) }

	var platform error
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		platform = errNotLinux
	}
	add("platform", runtime.GOOS+"/"+runtime.GOARCH, platform)

	var info unix.Sysinfo_t
	err := unix.Sysinfo(&info)
	add("machine", fmt.Sprintf("%d CPUs, %d MB memory", runtime.NumCPU(), info.Totalram*uint64(info.Unit)>>20), err)

	version, err := a.output("python3", "--version")
	add("python", version, err)
	version, err = a.output("python3", "-m", "pip", "--version")
	add("pip", version, err)

	root, err := builds.DefaultRoot(a.environ)
	if err == nil {
		err = writable(root)
	}
	add("cache", root, err)
	if err == nil {
		var disk unix.Statfs_t
		err = unix.Statfs(root, &disk)
		free := disk.Bavail * uint64(disk.Bsize)
		if err == nil && free < minFree {
			err = fmt.Errorf("%d MB free in %s, want %d", free>>20, root, minFree>>20)
		}
		add("disk", fmt.Sprintf("%d MB free", free>>20), err)
	}

	pool, err := a.pool(1, 0)
	if err == nil {
		err = pool.Close()
	}
	add("worker", "can start worker processes", err)
	return out
}

func (a *app) output(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(a.ctx, name, args...)
	cmd.Env = a.environ
	out, err := cmd.CombinedOutput()
	text := oneLine(string(out))
	if err != nil && text != "" {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, shorten(text, 200))
	}
	return text, err
}

func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "doctor-")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(filepath.Clean(f.Name()))
}
