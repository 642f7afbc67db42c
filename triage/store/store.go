// Package store remembers findings between runs, in one SQLite file: when each
// was first and last seen, which builds show it and which do not, and in which
// it was repaired.
package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Store is an open file. Several processes may use one file at a time.
type Store struct {
	db *sql.DB
}

// FormatError is a file that is no store, or one of another version.
type FormatError struct{ File, Msg string }

func (e *FormatError) Error() string { return e.File + ": " + e.Msg }

// ErrUnknown says that there is no finding with an id.
var ErrUnknown = errors.New("no such finding")

// application marks a SQLite file as ours ("pgfs"); version is that of schema.
const (
	application = 0x70676673
	version     = 3
)

//go:embed schema.sql
var schema string

//go:embed upgrade2.sql
var upgrade2 string

//go:embed upgrade3.sql
var upgrade3 string

// Open opens the store in a file. With create, a file that does not exist or is
// empty becomes an empty store. Errors are *FormatError for a file that is
// something else, or those of the file system.
func Open(ctx context.Context, file string, create bool) (*Store, error) {
	mode, must := "rwc", filepath.Dir(file)
	if !create {
		mode, must = "rw", file
	}
	if _, err := os.Stat(must); err != nil {
		return nil, err
	}
	// Writers take turns: a transaction gets the lock at its start, waiting 30 s.
	name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(),
		RawQuery: "mode=" + mode + "&_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=foreign_keys(1)"}).String()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	s := &Store{db}
	if err := s.prepare(ctx, file, create); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context, file string, create bool) error {
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		var app, v, tables int
		for pragma, to := range map[string]*int{"PRAGMA application_id": &app, "PRAGMA user_version": &v, "SELECT count(*) FROM sqlite_master": &tables} {
			if err := tx.QueryRowContext(ctx, pragma).Scan(to); err != nil {
				return err
			}
		}
		switch {
		case app == application && v == version:
			return nil
		case app == application && v >= 1 && v < version:
			return upgrade(ctx, tx, v)
		case app == application:
			return &FormatError{file, fmt.Sprintf("a store of version %d; this passgate reads version %d", v, version)}
		case app != 0 || v != 0 || tables != 0 || !create:
			return &FormatError{file, "a database, but no store of findings"}
		}
		if _, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA application_id = %d;", application)); err != nil {
			return err
		}
		return upgrade(ctx, tx, 1)
	})
	var format *FormatError
	var lite *sqlite.Error
	switch {
	case err == nil, errors.As(err, &format):
		return err
	case errors.As(err, &lite) && (lite.Code() == sqlite3.SQLITE_NOTADB || lite.Code() == sqlite3.SQLITE_CORRUPT):
		return &FormatError{file, "no store of findings"}
	}
	return fmt.Errorf("%s: %w", file, err)
}

// upgrade brings a store of an earlier version, from 1, to the present one.
func upgrade(ctx context.Context, tx *sql.Tx, from int) error {
	for _, step := range []string{upgrade2, upgrade3}[from-1:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d;", version))
	return err
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

func (s *Store) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		tx.Rollback() // the first error counts
		return err
	}
	return tx.Commit()
}

// Build is a compiler build by what it is, not by where it lies.
type Build struct {
	ID   string `json:"id"`   // digest of its file
	Spec string `json:"spec"` // as it was asked for
}

// Sighting is a finding in one run.
type Sighting struct {
	ID          string // of the defect
	Class       string
	Level       string
	Pass        string // "" while unknown
	Instruction string
	Status      string // new, pre-existing, fixed, contested, reference-disputed
	Case        string
	Minimal     string // the smallest case, a .case file
	// Bad builds show it, Good ones were tried and do not. FixedIn is the good
	// build that came after a bad one; nil if there is none.
	Bad, Good []Build
	FixedIn   *Build
	// Cases are those of the run that show it, by the SHA-256 of program and
	// inputs, with their names.
	Cases map[string]string
	// Count is the number of cases of the run that show it, at least 1.
	Count int
	// Findings are the ids by which the run names it, case by case.
	Findings []string
}

// Finding is what the store knows of a defect.
type Finding struct {
	ID          string `json:"id"`
	Class       string `json:"class"`
	Level       string `json:"level,omitempty"`
	Pass        string `json:"pass,omitempty"`
	Instruction string `json:"instruction,omitempty"`
	// Status is that of the last run that saw it.
	Status string `json:"status"`
	// State is where it is in its life, Note what a person says about it.
	State     State     `json:"state"`
	Note      string    `json:"note,omitempty"`
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
	// FirstSeenIn and LastSeenIn are the builds that showed it then; nil if it
	// was seen on no build in particular.
	FirstSeenIn *Build `json:"first_seen_in,omitempty"`
	LastSeenIn  *Build `json:"last_seen_in,omitempty"`
	// Runs counts the runs that saw it, Cases the cases that showed it in them.
	Runs  int `json:"runs"`
	Cases int `json:"cases"`
	// Case is the name of the case that showed it first, Witnesses the names of
	// all that did.
	Case      string   `json:"case"`
	Witnesses []string `json:"witnesses"`
	// Affected builds showed it when they were last tried, Clean ones did not;
	// both in the order of their first trial.
	Affected []Build `json:"affected"`
	Clean    []Build `json:"clean"`
	// FixedIn is the build in which it was seen to be gone; nil if none, or if
	// that build showed it again since.
	FixedIn *Build `json:"fixed_in,omitempty"`
	// Minimal is the smallest case seen, a .case file.
	Minimal string `json:"minimal"`
}

// Record adds the sightings of one run, all or none.
func (s *Store) Record(ctx context.Context, at time.Time, run []Sighting) error {
	return s.transaction(ctx, func(tx *sql.Tx) error {
		for _, f := range run {
			if err := record(ctx, tx, at.UTC().Truncate(time.Second), f); err != nil {
				return fmt.Errorf("finding %s: %w", f.ID, err)
			}
		}
		return nil
	})
}

const timeForm = time.RFC3339

func record(ctx context.Context, tx *sql.Tx, at time.Time, f Sighting) error {
	now := at.Format(timeForm)
	shown := ""
	if len(f.Bad) > 0 {
		shown = f.Bad[len(f.Bad)-1].ID
	}
	back, err := reopens(ctx, tx, f)
	if err != nil {
		return err
	}
	// A smaller program replaces the one that is kept.
	_, err = tx.ExecContext(ctx, `
		INSERT INTO finding (id, class, level, pass, instruction, status, first_seen, last_seen, runs, cases, first_case, minimal, first_build, last_build)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1, ?8, ?9, ?10, ?11, ?11)
		ON CONFLICT (id) DO UPDATE SET
			level = excluded.level, pass = excluded.pass, status = excluded.status,
			first_build = CASE WHEN excluded.first_seen < first_seen THEN excluded.first_build ELSE first_build END,
			last_build = CASE WHEN excluded.last_seen >= last_seen THEN excluded.last_build ELSE last_build END,
			first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen),
			runs = runs + 1, cases = cases + excluded.cases,
			instruction = CASE WHEN length(excluded.minimal) < length(minimal) THEN excluded.instruction ELSE instruction END,
			minimal = CASE WHEN length(excluded.minimal) < length(minimal) THEN excluded.minimal ELSE minimal END`,
		f.ID, f.Class, f.Level, f.Pass, f.Instruction, f.Status, now, max(1, f.Count), f.Case, f.Minimal, shown)
	if err != nil {
		return err
	}
	for bad, list := range map[bool][]Build{true: f.Bad, false: f.Good} {
		for _, b := range list {
			if err := try(ctx, tx, f.ID, b, bad, now); err != nil {
				return err
			}
		}
	}
	for hash, name := range f.Cases {
		if _, err := tx.ExecContext(ctx, `INSERT INTO witness (finding, hash, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, f.ID, hash, name); err != nil {
			return err
		}
	}
	for _, id := range f.Findings {
		if _, err := tx.ExecContext(ctx, `INSERT INTO member (id, finding) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET finding = excluded.finding`, id, f.ID); err != nil {
			return err
		}
	}
	if back {
		if _, err := tx.ExecContext(ctx, `UPDATE finding SET state = 'reopened' WHERE id = ?`, f.ID); err != nil {
			return err
		}
	}
	if f.FixedIn != nil {
		_, err = tx.ExecContext(ctx, `UPDATE finding SET fixed_in = ?, state = 'fixed' WHERE id = ?`, f.FixedIn.ID, f.ID)
	}
	return err
}

// Passed are cases that a run judged and in which nothing was found, by the
// SHA-256 of program and inputs. Right builds gave right values.
type Passed struct {
	Hash  string
	Right []Build
}

// Clear says of the findings that cases showed earlier which builds do not show
// them: those that are right on every such case of the run. Findings of the run
// itself (seen) are left alone. head is the build after the change: it is where a
// finding is fixed if base showed it when it was last tried.
func (s *Store) Clear(ctx context.Context, at time.Time, passed []Passed, seen []string, base, head Build) error {
	right := map[string][]Build{}
	for _, p := range passed {
		right[p.Hash] = p.Right
	}
	return s.transaction(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT finding, hash FROM witness ORDER BY finding, hash`)
		if err != nil {
			return err
		}
		clean := map[string][]Build{}
		for rows.Next() {
			var id, hash string
			if err := rows.Scan(&id, &hash); err != nil {
				rows.Close()
				return err
			}
			if builds, ok := right[hash]; ok && !slices.Contains(seen, id) {
				if known, ok := clean[id]; ok {
					builds = slices.DeleteFunc(slices.Clone(known), func(b Build) bool { return !slices.Contains(builds, b) })
				}
				clean[id] = builds
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		now := at.UTC().Truncate(time.Second).Format(timeForm)
		for _, id := range slices.Sorted(maps.Keys(clean)) {
			for _, b := range clean[id] {
				if err := try(ctx, tx, id, b, false, now); err != nil {
					return err
				}
			}
			if slices.Contains(clean[id], head) {
				if _, err := tx.ExecContext(ctx, `UPDATE finding SET fixed_in = ?1, status = 'fixed', state = 'fixed' WHERE id = ?2 AND
					EXISTS (SELECT 1 FROM trial WHERE finding = ?2 AND build = ?3 AND bad)`, head.ID, id, base.ID); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func try(ctx context.Context, tx *sql.Tx, id string, b Build, bad bool, now string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO trial (finding, build, spec, bad, first_tried, last_tried) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
		ON CONFLICT (finding, build) DO UPDATE SET spec = excluded.spec, bad = excluded.bad, last_tried = max(last_tried, excluded.last_tried)`,
		id, b.ID, b.Spec, bad, now)
	return err
}

// All returns every finding, the last seen first, then by id.
func (s *Store) All(ctx context.Context) ([]Finding, error) {
	return s.find(ctx, "", nil)
}

// named selects the finding with an id, or the one that a run gave that id in one
// of its cases.
const named = "WHERE id = coalesce((SELECT id FROM finding WHERE id = ?1), (SELECT finding FROM member WHERE id = ?1))"

// Get returns the finding with an id, its own or one that a run gave it;
// ErrUnknown if there is none.
func (s *Store) Get(ctx context.Context, id string) (Finding, error) {
	found, err := s.find(ctx, named, []any{id})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	if err != nil {
		return Finding{}, err
	}
	return found[0], nil
}

func (s *Store) find(ctx context.Context, where string, args []any) ([]Finding, error) {
	return s.findPage(ctx, where, append(args, -1, 0))
}

// findPage takes a limit, -1 for none, and an offset as its last arguments.
func (s *Store) findPage(ctx context.Context, where string, args []any) (out []Finding, err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, `SELECT id, class, level, pass, instruction, status, first_seen, last_seen, runs, cases, first_case, coalesce(fixed_in, ''), minimal, first_build, last_build, state, note
		FROM finding `+where+` ORDER BY last_seen DESC, id LIMIT ? OFFSET ?`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var fixed, builds []string
	for rows.Next() {
		f := Finding{Affected: []Build{}, Clean: []Build{}, Witnesses: []string{}}
		var first, last, in, firstBuild, lastBuild string
		if err := rows.Scan(&f.ID, &f.Class, &f.Level, &f.Pass, &f.Instruction, &f.Status, &first, &last, &f.Runs, &f.Cases, &f.Case, &in, &f.Minimal, &firstBuild, &lastBuild, &f.State, &f.Note); err != nil {
			return nil, err
		}
		if f.FirstSeen, err = time.Parse(timeForm, first); err != nil {
			return nil, err
		}
		if f.LastSeen, err = time.Parse(timeForm, last); err != nil {
			return nil, err
		}
		out, fixed, builds = append(out, f), append(fixed, in), append(builds, firstBuild, lastBuild)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range out {
		if err := trials(ctx, tx, &out[i]); err != nil {
			return nil, err
		}
		f := &out[i]
		f.FirstSeenIn, f.LastSeenIn = f.build(builds[2*i]), f.build(builds[2*i+1])
		if err := witnesses(ctx, tx, f); err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(out[i].Clean, func(b Build) bool { return b.ID == fixed[i] }); at >= 0 {
			out[i].FixedIn = &out[i].Clean[at]
		}
	}
	return out, nil
}

// build is one of those that were tried, nil if none has the digest.
func (f *Finding) build(id string) *Build {
	for _, list := range [][]Build{f.Affected, f.Clean} {
		if i := slices.IndexFunc(list, func(b Build) bool { return b.ID == id }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

func witnesses(ctx context.Context, tx *sql.Tx, f *Finding) error {
	rows, err := tx.QueryContext(ctx, `SELECT DISTINCT name FROM witness WHERE finding = ? ORDER BY name`, f.ID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		f.Witnesses = append(f.Witnesses, name)
	}
	return rows.Err()
}

func trials(ctx context.Context, tx *sql.Tx, f *Finding) error {
	rows, err := tx.QueryContext(ctx, `SELECT build, spec, bad FROM trial WHERE finding = ? ORDER BY first_tried, spec, build`, f.ID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var b Build
		var bad bool
		if err := rows.Scan(&b.ID, &b.Spec, &bad); err != nil {
			return err
		}
		if bad {
			f.Affected = append(f.Affected, b)
		} else {
			f.Clean = append(f.Clean, b)
		}
	}
	return rows.Err()
}
