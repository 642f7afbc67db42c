package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestXlaxiom: the first program of xlaxiom's is taken off, and what does not work
// is one line.
func TestXlaxiom(t *testing.T) {
	python := func(script string) string {
		name := filepath.Join(t.TempDir(), "python")
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	// Ten seconds, and half a second for every program.
	good := `[ "$2" = xlaxiom ] && [ "$3" = campaign ] || exit 1
while [ $# -gt 0 ]; do case $1 in --cases) n=$2;; --output) out=$2;; esac; shift; done
printf '{"completed_cases": %d, "duration_s": %d.%d}' $n $((10+n/2)) $((n%2*5)) > "$out"`
	r, err := xlaxiom(context.Background(), python(good), 30)
	if err != nil || r.Programs != 30 || r.Seconds != 15 || r.CasesPerSecond != 2 || r.ProgramsPerSecond() != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	for script, want := range map[string]string{
		"echo no such module; exit 1":                   "exit status 1: no such module",
		strings.Replace(good, "$n $((10", "1 $((10", 1): "1 of 31 programs done",
	} {
		if _, err := xlaxiom(context.Background(), python(script), 30); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
