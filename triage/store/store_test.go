package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	old  = Build{"a1", "xla-old"}
	mid  = Build{"b2", "xla-mid"}
	last = Build{"c3", "xla-last"}
)

func at(day int) time.Time { return time.Date(2026, 12, day, 10, 0, 0, 0, time.UTC) }

func open(t *testing.T, file string) *Store {
	t.Helper()
	s, err := Open(t.Context(), file, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, when time.Time, run ...Sighting) {
	t.Helper()
	if err := s.Record(t.Context(), when, run); err != nil {
		t.Fatal(err)
	}
}

// TestLife: a finding appears, is seen again in another case, is repaired,
// and comes back.
func TestLife(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a store?.db#1")
	s := open(t, file)
	seen := Sighting{Cases: map[string]string{"h1": "c1"}, ID: "f-000000000001", Class: "miscompile", Level: "hlo", Pass: "algsimp", Instruction: "b", Status: "new", Case: "c1", Minimal: "large case", Bad: []Build{mid}, Good: []Build{old}}
	put(t, s, at(1), seen, Sighting{ID: "f-000000000002", Class: "crash", Status: "pre-existing", Case: "c9", Bad: []Build{old, mid}})
	again := seen
	again.Cases = map[string]string{"h2": "c2"}
	again.Case, again.Minimal, again.Instruction, again.Status, again.Count = "c2", "small", "d", "fixed", 3
	again.Bad, again.Good, again.FixedIn = []Build{mid}, []Build{last}, &last
	put(t, s, at(5), again)
	want := Finding{ID: seen.ID, Class: "miscompile", Level: "hlo", Pass: "algsimp", Instruction: "d", Status: "fixed", State: FixedState, FirstSeen: at(1), LastSeen: at(5),
		FirstSeenIn: &mid, LastSeenIn: &mid, Runs: 2, Cases: 4, Case: "c1", Witnesses: []string{"c1", "c2"}, Affected: []Build{mid}, Clean: []Build{old, last}, FixedIn: &last, Minimal: "small"}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), filepath.Join(t.TempDir(), "none"), false); err == nil {
		s.Close()
		t.Error("a file that does not exist opens")
	}
	s = open(t, file)
	got, err := s.Get(t.Context(), seen.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	all, err := s.All(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != seen.ID || all[1].ID != "f-000000000002" {
		t.Errorf("All gives %v, %v", all, err)
	}
	seen.Bad, seen.Good = []Build{last}, nil
	put(t, s, at(6), seen)
	if got, err = s.Get(t.Context(), seen.ID); err != nil || got.FixedIn != nil || got.Status != "new" || got.Minimal != "small" || len(got.Affected) != 2 {
		t.Errorf("back in the repaired build: %+v, %v", got, err)
	}
	if _, err := s.Get(t.Context(), "f-00000000000f"); !errors.Is(err, ErrUnknown) {
		t.Errorf("error %v", err)
	}
}

// TestClear: a finding is fixed in the build that is right on all its cases of a
// run where the build before it was wrong; a build that is wrong on one of them,
// or was not tried on any, says nothing.
func TestClear(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s"))
	put(t, s, at(1), Sighting{ID: "f-1", Status: "new", Cases: map[string]string{"h1": "c1", "h2": "c2"}, Bad: []Build{mid}, Good: []Build{old}},
		Sighting{ID: "f-2", Status: "new", Cases: map[string]string{"h3": "c3"}, Bad: []Build{mid}})
	clear := func(day int, seen []string, passed ...Passed) Finding {
		t.Helper()
		if err := s.Clear(t.Context(), at(day), passed, seen, mid, last); err != nil {
			t.Fatal(err)
		}
		f, err := s.Get(t.Context(), "f-1")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := clear(2, []string{"f-1"}, Passed{"h1", []Build{last}}); f.FixedIn != nil {
		t.Errorf("fixed although the run shows it: %+v", f)
	}
	if f := clear(3, nil, Passed{"h1", []Build{last}}, Passed{"h2", nil}); f.FixedIn != nil || len(f.Clean) != 1 {
		t.Errorf("fixed although one case is wrong: %+v", f)
	}
	if f := clear(4, nil, Passed{"h1", []Build{last}}, Passed{"h2", []Build{mid, last}}); f.FixedIn == nil || *f.FixedIn != last || f.Status != "fixed" || !f.LastSeen.Equal(at(1)) {
		t.Errorf("not fixed: %+v", f)
	}
	if f, err := s.Get(t.Context(), "f-2"); err != nil || f.FixedIn != nil || len(f.Clean) != 0 {
		t.Errorf("a finding whose case did not run: %+v, %v", f, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("this is no database, but it is long enough to be taken for one if nobody looks at its first bytes, which say what it is"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer")
	s := open(t, newer)
	if _, err := s.db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	s = open(t, foreign)
	if _, err := s.db.Exec("PRAGMA application_id = 7"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{text: "no store of findings", newer: "a store of version 99; this passgate reads version 3", foreign: "a database, but no store of findings"} {
		s, err := Open(t.Context(), file, true)
		var format *FormatError
		if !errors.As(err, &format) || format.Msg != want {
			t.Errorf("%s: %v", file, err)
		}
		if err == nil {
			s.Close()
		}
	}
	if data, _ := os.ReadFile(text); len(data) < 100 {
		t.Error("the foreign file was changed")
	}
}

// TestTwoWriters: processes that share the file lose nothing.
func TestTwoWriters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s")
	var wg sync.WaitGroup
	for w := range 4 {
		s := open(t, file)
		wg.Go(func() {
			for i := range 10 {
				if err := s.Record(context.Background(), at(1+i), []Sighting{{ID: "shared", Bad: []Build{old}}, {ID: fmt.Sprint(w), Bad: []Build{old}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := open(t, file).Get(t.Context(), "shared")
	if err != nil || got.Runs != 40 {
		t.Errorf("%d runs, %v", got.Runs, err)
	}
}

// TestRecordIsAllOrNothing: a run that cannot be written leaves no trace.
func TestRecordIsAllOrNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "s"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Record(ctx, at(1), []Sighting{{ID: "a"}}); err == nil {
		t.Error("recorded with an ended context")
	}
	if all, err := s.All(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestHistory: after any sequence of runs, first and last seen are the extremes
// and a build is affected if its last trial says so.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "passgate-store-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s, err := Open(context.Background(), filepath.Join(dir, "s"), true)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		days := rapid.SliceOfN(rapid.IntRange(1, 28), 1, 6).Draw(t, "days")
		bad := map[Build]bool{}
		for _, day := range days {
			b := rapid.SampledFrom([]Build{old, mid, last}).Draw(t, "build")
			one := Sighting{ID: "f", Bad: []Build{b}}
			if bad[b] = rapid.Bool().Draw(t, "bad"); !bad[b] {
				one.Bad, one.Good = nil, []Build{b}
			}
			if err := s.Record(context.Background(), at(day), []Sighting{one}); err != nil {
				t.Fatal(err)
			}
		}
		f, err := s.Get(context.Background(), "f")
		if err != nil {
			t.Fatal(err)
		}
		first, end := days[0], days[0]
		for _, d := range days {
			first, end = min(first, d), max(end, d)
		}
		if !f.FirstSeen.Equal(at(first)) || !f.LastSeen.Equal(at(end)) || f.Runs != len(days) {
			t.Fatalf("%+v of days %v", f, days)
		}
		for b, is := range bad {
			in := f.Clean
			if is {
				in = f.Affected
			}
			found := false
			for _, k := range in {
				found = found || k == b
			}
			if !found {
				t.Fatalf("%v of %+v", b, f)
			}
		}
	})
}
