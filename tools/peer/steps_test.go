package main

import (
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
)

func TestStepTable(t *testing.T) {
	var b strings.Builder
	writeSteps(&b, &gate.Result{Steps: &gate.StepCounts{Judged: 6, Undecided: 1, Unknown: 3, UnknownBy: map[string]int{"b": 1, "a": 2}}})
	want := "10 changed steps: 6 judged (60.00 %), 1 undecided (10.00 %), 3 unknown (30.00 %)\n     2 unknown: a\n     1 unknown: b\n"
	if _, got, _ := strings.Cut(b.String(), "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
