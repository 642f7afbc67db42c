package store

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// TestStates: a finding's life: runs fix and reopen it, a person does the rest, and
// an old build that shows it again reopens nothing.
func TestStates(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "store"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	old, bad, good, newest := Build{"1", "old"}, Build{"2", "bad"}, Build{"3", "good"}, Build{"4", "newest"}
	day := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	sight := func(status string, shows, not []Build, fixed *Build) {
		t.Helper()
		day = day.Add(time.Hour)
		f := Sighting{ID: "f", Class: "miscompile", Status: status, Case: "c", Minimal: "m", Bad: shows, Good: not, FixedIn: fixed, Cases: map[string]string{"h": "c"}}
		if err := s.Record(t.Context(), day, []Sighting{f}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, state State) {
		t.Helper()
		if f, err := s.Get(t.Context(), "f"); err != nil || f.State != state {
			t.Errorf("%s: %s, %v; want %s", what, f.State, err, state)
		}
	}
	sight("new", []Build{bad}, []Build{old}, nil)
	want("first seen", NewState)
	if err := s.SetState(t.Context(), "f", Reported, "#12"); err != nil {
		t.Fatal(err)
	}
	sight("pre-existing", []Build{bad}, nil, nil)
	want("seen again", Reported)
	sight("fixed", []Build{bad}, []Build{good}, &good)
	want("fixed", FixedState)
	sight("pre-existing", []Build{bad}, nil, nil)
	want("the old build again", FixedState)
	sight("new", []Build{newest}, []Build{good}, nil)
	want("a newer build", Reopened)
	if err := s.Clear(t.Context(), day, []Passed{{Hash: "h", Right: []Build{good}}}, nil, newest, good); err != nil {
		t.Fatal(err)
	}
	want("a passing head", FixedState)
	sight("new", []Build{good}, nil, nil)
	want("the build that fixed it", Reopened)
	if err := s.SetState(t.Context(), "f", Reopened, ""); err != nil { // leaves the note
		t.Fatal(err)
	}
	if f, err := s.Get(t.Context(), "f"); err != nil || f.Note != "#12" {
		t.Errorf("note %q, %v", f.Note, err)
	}
	if err := s.SetState(t.Context(), "g", Triaged, ""); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown finding: %v", err)
	}
	if n, err := s.Count(t.Context(), Reopened, ""); n != 1 || err != nil {
		t.Errorf("%d reopened, %v", n, err)
	}
	if found, err := s.Page(t.Context(), FixedState, "", 10, 0); len(found) != 0 || err != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// TestUpgrade: a store of version 1 keeps what it holds.
func TestUpgrade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(schema + `INSERT INTO finding VALUES ('f', 'crash', '', '', '', 'new', '2026-12-01T00:00:00Z', '2026-12-01T00:00:00Z', 1, 1, 'c', '', '', NULL, 'm');
		PRAGMA application_id = 0x70676673; PRAGMA user_version = 1;`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for range 2 {
		s, err := Open(t.Context(), file, false)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := s.Get(t.Context(), "f"); err != nil || f.State != NewState || f.Class != "crash" {
			t.Errorf("%+v, %v", f, err)
		}
		s.Close()
	}
}

// TestMembers: a finding is found by the ids that runs gave it, its own first.
func TestMembers(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store"))
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	run := []Sighting{{ID: "f-1", Class: "miscompile", Findings: []string{"f-a", "f-2"}}, {ID: "f-2", Class: "crash", Findings: []string{"f-b"}}}
	if err := s.Record(t.Context(), at, run); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"f-1": "f-1", "f-a": "f-1", "f-2": "f-2", "f-b": "f-2"} {
		if f, err := s.Get(t.Context(), id); err != nil || f.ID != want {
			t.Errorf("%s: %q, %v", id, f.ID, err)
		}
	}
	if err := s.SetState(t.Context(), "f-a", Triaged, "looked at"); err != nil {
		t.Fatal(err)
	}
	if f, _ := s.Get(t.Context(), "f-1"); f.State != Triaged || f.Note != "looked at" {
		t.Errorf("%+v", f)
	}
	if err := s.Record(t.Context(), at, []Sighting{{ID: "f-3", Class: "miscompile", Findings: []string{"f-a"}}}); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Get(t.Context(), "f-a"); err != nil || f.ID != "f-3" {
		t.Errorf("a finding that is known better: %q, %v", f.ID, err)
	}
	if _, err := s.Get(t.Context(), "f-c"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}
