package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
)

func TestStepTable(t *testing.T) {
	s := newStepSum()
	s.skipped["for several devices"] = 2
	s.add(stepRecord{"x", "a", 1.2, gate.JudgedSteps{Build: gate.Right, Counts: &gate.StepCounts{Judged: 6, Undecided: 1, Unknown: 1},
		Open: []gate.OpenStep{{Pass: "algsimp"}, {Pass: "cse", Why: "unsupported: infeed"}}}})
	s.add(stepRecord{"x", "b", 7.9, gate.JudgedSteps{Build: gate.Crashed, Detail: "died", Counts: &gate.StepCounts{Unknown: 2},
		Open: []gate.OpenStep{{Pass: "dce", Why: "unsupported: infeed"}, {Pass: "cse", Why: "unsupported: infeed"}}, Guilty: []string{"dce: 1, legal 2"}}})
	var b strings.Builder
	s.write(&b, 1)
	want := `2 programs in 9 s of their own, of which 1 do not get through the passes
programs skipped:
     2 for several devices
programs that do not get through the passes:
     1 crash: died
10 changed steps: 6 judged (60.00 %), 1 undecided (10.00 %), 3 unknown (30.00 %)
unknown, by reason:
     3 unsupported: infeed
unknown, by pass:
     2 cse
       and 1 more
undecided, by pass:
     1 algsimp
programs with most open steps:
     2 a
       and 1 more
slowest programs, in seconds:
     7 b
guilty: b dce: 1, legal 2
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestUnfit(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }", ""},
		{"HloModule m\nENTRY e { ROOT p = (f32[2], (s32[])) parameter(0) }", ""},
		{"HloModule m, replica_count=2\nENTRY e { ROOT p = f32[2] parameter(0) }", "for several devices"},
		{"HloModule m\nENTRY e { ROOT p = f32[2097152] parameter(0) }", "an array of more than 2^20 elements"},
		{"HloModule m\nENTRY e { ROOT p = token[] parameter(0) }", "parameters that are not arrays of static shape"},
	} {
		m, err := hlo.Parse("m.hlo", []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		var params []*hlo.Shape
		for _, p := range m.Entry.Params() {
			params = append(params, p.Shape)
		}
		if got := unfit(m, params); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

// TestScattered: every beginning is spread evenly, and nothing is left out.
func TestScattered(t *testing.T) {
	for n := range 70 {
		got := scattered(n)
		for k := range got {
			// k+1 numbers of an even sample leave no gap of more than 4 n/(k+1).
			start := slices.Sorted(slices.Values(got[:k+1]))
			last := -1
			for _, x := range append(start, n) {
				if x <= last || (x-last-1)*(k+1) > 4*n {
					t.Fatalf("%d: the first %d are %v", n, k+1, start)
				}
				last = x
			}
		}
		if len(got) != n {
			t.Errorf("%d: got %v", n, got)
		}
	}
}

// TestRecord: a record gives back what was added, of its build alone.
func TestRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "record")
	for i, build := range []string{"one", "two", "one"} {
		done, file, err := openRecord(name, build)
		if err != nil {
			t.Fatal(err)
		}
		if len(done) != []int{0, 0, 1}[i] {
			t.Errorf("%s: %v", build, done)
		}
		r := stepRecord{build, fmt.Sprint("p", i), 1, gate.JudgedSteps{Counts: &gate.StepCounts{Judged: i}, Open: []gate.OpenStep{{Pass: "cse", Why: "late"}}}}
		if got := done["p0"]; i == 2 && got.Steps.Open == nil {
			t.Errorf("%+v", got)
		}
		if err := json.NewEncoder(file).Encode(r); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	if err := os.WriteFile(name, []byte("{\"Build\""), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openRecord(name, "one"); err == nil {
		t.Error("half a line is accepted")
	}
}
