package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMain lets the test binary be its own worker, and the process of TestParentDies.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case "worker":
			err = Main(context.Background(), os.Stdin, os.Stdout, os.Args[2:])
		case "orphans":
			err = orphans(os.Args[2])
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// selfCommand runs this test binary in another role.
func selfCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// childPids lists the children of this process.
func childPids() string {
	var out []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[1] == strconv.Itoa(os.Getpid()) {
			out = append(out, filepath.Base(filepath.Dir(path)))
		}
	}
	return strings.Join(out, " ")
}
