package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestScratch: the directory of a process that was killed is swept away, one of a
// process that lives is not, however old it is.
func TestScratch(t *testing.T) {
	if root := os.Getenv("PASSGATE_SCRATCH"); root != "" { // the process that is killed
		s := scratch{root: root}
		dir, err := s.dir()
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("dir " + dir + "\n")
		select {}
	}
	root := t.TempDir()
	old := time.Now().Add(-time.Hour)
	made := func() (string, *exec.Cmd) {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestScratch$")
		cmd.Env = append(os.Environ(), "PASSGATE_SCRATCH="+root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if dir, ok := strings.CutPrefix(lines.Text(), "dir "); ok {
				if err := os.WriteFile(filepath.Join(dir, "dump"), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(dir, old, old); err != nil {
					t.Fatal(err)
				}
				return dir, cmd
			}
		}
		t.Fatal("no directory")
		return "", nil
	}
	living, _ := made()
	killed, cmd := made()
	cmd.Process.Kill()
	cmd.Wait()
	foreign := filepath.Join(root, "passgate-other")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(foreign, old, old); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(root, scratchPrefix+"fresh") // being made: it has no lock yet
	if err := os.Mkdir(fresh, 0o700); err != nil {
		t.Fatal(err)
	}
	var s scratch
	s.root = root
	mine, err := s.dir()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{living: true, killed: false, foreign: true, fresh: true, mine: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
	s.remove()
	if _, err := os.Stat(mine); err == nil {
		t.Error("its own directory is left behind")
	}
}
