package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/passgate/passgate/xla/worker"
)

// TestMain makes the test binary its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := worker.Main(context.Background(), os.Stdin, os.Stdout, os.Args[2:]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestMeasure: a few defects of a real build, each in a few programs.
func TestMeasure(t *testing.T) {
	temp := "/dev/shm" // dumps are many small files
	if _, err := os.Stat(temp); err != nil {
		temp = t.TempDir()
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"--defects", "4", "--programs", "3", "--pool", "20", "--patterns", "10", "--temp", temp}, &out); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`(?m)^(\d+) defects, \d+ failing programs, (\d+) reports: .*; 0 clusters hold more than one defect`).FindStringSubmatch(out.String())
	if got == nil || got[1] != "4" || got[2] != "4" {
		t.Errorf("%s", out.String())
	}
}
