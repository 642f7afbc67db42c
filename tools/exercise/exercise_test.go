package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/passgate/passgate/xla/worker/workertest"
)

func TestMain(m *testing.M) { workertest.Main(m) }

func exercise(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), append(args, "-workers", "2"), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Generated programs and mutants are not refused by a real build.
func TestCompile(t *testing.T) {
	for _, args := range [][]string{{"-n", "60"}, {"-n", "40", "-mutants"}} {
		out := exercise(t, append([]string{"compile", "-verifier-only", "-seed", "42"}, args...)...)
		if !strings.Contains(out, " 0 refused or broken") {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// Programs made for a pass make it fire.
func TestFire(t *testing.T) {
	out := exercise(t, "fire", "-n", "6", "-seed", "42", "-passes", "algsimp,simplify-while-loops,dot_decomposer,scatter_simplifier,no such pass")
	lines := regexp.MustCompile(`(?m)^(\S.*?) +\d+ patterns +(\d+) of 6`).FindAllStringSubmatch(out, -1)
	if len(lines) != 5 {
		t.Fatal(out)
	}
	for _, l := range lines {
		n, _ := strconv.Atoi(l[2])
		if want := l[1] != "no such pass"; (n >= 5) != want || !want && n != 0 {
			t.Errorf("%s fired in %d of 6 programs", l[1], n)
		}
	}
}

// What fires is written as a table that has what was there before.
func TestMatrix(t *testing.T) {
	table := filepath.Join(t.TempDir(), "fires.tsv")
	out := exercise(t, "matrix", "-n", "3", "-pattern", "dot/batch-in-the-middle", "-table", table)
	if !strings.Contains(out, "dot/batch-in-the-middle") {
		t.Error(out)
	}
	data, err := os.ReadFile(table)
	if err != nil || !regexp.MustCompile(`(?m)^dot/batch-in-the-middle\t.*dot_decomposer`).Match(data) || !strings.Contains(string(data), "\nalgebra/add-zero\t") {
		t.Errorf("%v\n%.300s", err, data)
	}
}

// A real build's values lie in the reference's legal sets.
func TestJudge(t *testing.T) {
	out := exercise(t, "judge", "-n", "25", "-seed", "42", "-out", t.TempDir())
	m := regexp.MustCompile(`25 programs: (\d+) elements judged`).FindStringSubmatch(out)
	if m == nil || strings.Contains(out, "outside the legal set") || strings.Contains(out, "BUG") {
		t.Fatal(out)
	}
	if n, _ := strconv.Atoi(m[1]); n < 1000 {
		t.Errorf("only %d elements were judged:\n%s", n, out)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"walk"}, {"fire", "-builds", "nonsense:"}} {
		if err := run(t.Context(), args, new(strings.Builder)); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
