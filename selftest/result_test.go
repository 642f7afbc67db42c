package selftest

import (
	"slices"
	"testing"

	"github.com/passgate/passgate/defects"
)

// Trust needs enough of everything; failure needs a miss.
func TestTrust(t *testing.T) {
	full := func() *Result {
		r := &Result{Null: Null{Cells: enoughCells}}
		for i := range 180 {
			r.Defects = append(r.Defects, Outcome{Class: string(defects.Classes[i%len(defects.Classes)]), Exact: i%2 == 0, Detected: true})
		}
		return r
	}
	for _, tt := range []struct {
		name            string
		change          func(*Result)
		failed, trusted bool
	}{
		{"enough", func(*Result) {}, false, true},
		{"few defects", func(r *Result) { r.Defects = r.Defects[:enoughDefects-1] }, false, false},
		{"few cells", func(r *Result) { r.Null.Cells-- }, false, false},
		{"a class is missing", func(r *Result) {
			r.Defects = slices.DeleteFunc(r.Defects, func(o Outcome) bool { return o.Class == string(defects.Aliases) })
		}, false, false},
		{"an exact one missed", func(r *Result) { r.Defects[0].Detected = false }, true, false},
		{"two inexact ones missed", func(r *Result) { r.Defects[1].Detected, r.Defects[3].Detected = false, false }, false, true},
		{"four inexact ones missed", func(r *Result) {
			for _, i := range []int{1, 3, 5, 7} {
				r.Defects[i].Detected = false
			}
		}, true, false},
		{"a false block", func(r *Result) { r.Null.Blocks = 1 }, true, false},
		{"a false alarm of a variant", func(r *Result) { r.Variants = &Variants{Cells: 10000, Alarms: 1} }, true, false},
		{"quiet variants", func(r *Result) { r.Variants = &Variants{Cells: 10000} }, false, true},
	} {
		r := full()
		tt.change(r)
		if r.sum(180, 0); r.Failed != tt.failed || r.Trusted != tt.trusted {
			t.Errorf("%s: failed %v, trusted %v: %v", tt.name, r.Failed, r.Trusted, r.Why)
		}
	}
}

// Every job comes once, and any beginning holds both kinds in proportion.
func TestSpread(t *testing.T) {
	for _, n := range [][2]int{{0, 0}, {5, 0}, {0, 5}, {200, 40}, {7, 100}} {
		order := spread(n[0], n[1])
		if len(order) != n[0]+n[1] {
			t.Fatalf("%v: %d jobs", n, len(order))
		}
		var seen [2]int
		for i, j := range order {
			k := 0
			if j.null {
				k = 1
			}
			if j.at != seen[k] {
				t.Fatalf("%v: job %d is %v, want number %d", n, i, j, seen[k])
			}
			seen[k]++
			if d := seen[0]*n[1] - seen[1]*n[0]; d > max(n[0], n[1]) || d < -max(n[0], n[1]) {
				t.Errorf("%v: after %d jobs %v", n, i+1, seen)
			}
		}
	}
}
