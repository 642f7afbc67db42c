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
	"net/url"
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
	version     = 1
)

//go:embed schema.sql
var schema string

// Open opens the store in a file. With create, a file that does not exist or is
// empty becomes an empty store. Errors are *FormatError for a file that is
// something else, or those of the file system.
func Open(ctx context.Context, file string, create bool) (*Store, error) {
	mode := "rw"
	if create {
		mode = "rwc"
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
		case app == application:
			return &FormatError{file, fmt.Sprintf("a store of version %d; this passgate reads version %d", v, version)}
		case app != 0 || v != 0 || tables != 0 || !create:
			return &FormatError{file, "a database, but no store of findings"}
		}
		_, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", application, version))
		return err
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
	// Count is the number of cases of the run that show it, at least 1.
	Count int
}

// Finding is what the store knows of a defect.
type Finding struct {
	ID          string `json:"id"`
	Class       string `json:"class"`
	Level       string `json:"level,omitempty"`
	Pass        string `json:"pass,omitempty"`
	Instruction string `json:"instruction,omitempty"`
	// Status is that of the last run that saw it.
	Status    string    `json:"status"`
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
	// Runs counts the runs that saw it, Cases the cases that showed it in them.
	Runs  int `json:"runs"`
	Cases int `json:"cases"`
	// Case is the name of the case that showed it first.
	Case string `json:"case"`
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
	// A smaller program replaces the one that is kept.
	_, err := tx.ExecContext(ctx, `
		INSERT INTO finding (id, class, level, pass, instruction, status, first_seen, last_seen, runs, cases, first_case, minimal)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1, ?8, ?9, ?10)
		ON CONFLICT (id) DO UPDATE SET
			level = excluded.level, pass = excluded.pass, status = excluded.status,
			first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen),
			runs = runs + 1, cases = cases + excluded.cases,
			instruction = CASE WHEN length(excluded.minimal) < length(minimal) THEN excluded.instruction ELSE instruction END,
			minimal = CASE WHEN length(excluded.minimal) < length(minimal) THEN excluded.minimal ELSE minimal END`,
		f.ID, f.Class, f.Level, f.Pass, f.Instruction, f.Status, now, max(1, f.Count), f.Case, f.Minimal)
	if err != nil {
		return err
	}
	for bad, list := range map[bool][]Build{true: f.Bad, false: f.Good} {
		for _, b := range list {
			if _, err := tx.ExecContext(ctx, `
				INSERT INTO trial (finding, build, spec, bad, first_tried, last_tried) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
				ON CONFLICT (finding, build) DO UPDATE SET spec = excluded.spec, bad = excluded.bad, last_tried = max(last_tried, excluded.last_tried)`,
				f.ID, b.ID, b.Spec, bad, now); err != nil {
				return err
			}
		}
	}
	if f.FixedIn != nil {
		_, err = tx.ExecContext(ctx, `UPDATE finding SET fixed_in = ? WHERE id = ?`, f.FixedIn.ID, f.ID)
	}
	return err
}

// All returns every finding, the last seen first, then by id.
func (s *Store) All(ctx context.Context) ([]Finding, error) {
	return s.find(ctx, "", nil)
}

// Get returns one finding; ErrUnknown if there is none.
func (s *Store) Get(ctx context.Context, id string) (Finding, error) {
	found, err := s.find(ctx, "WHERE id = ?", []any{id})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	if err != nil {
		return Finding{}, err
	}
	return found[0], nil
}

func (s *Store) find(ctx context.Context, where string, args []any) (out []Finding, err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, `SELECT id, class, level, pass, instruction, status, first_seen, last_seen, runs, cases, first_case, coalesce(fixed_in, ''), minimal
		FROM finding `+where+` ORDER BY last_seen DESC, id`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var fixed []string
	for rows.Next() {
		f := Finding{Affected: []Build{}, Clean: []Build{}}
		var first, last, in string
		if err := rows.Scan(&f.ID, &f.Class, &f.Level, &f.Pass, &f.Instruction, &f.Status, &first, &last, &f.Runs, &f.Cases, &f.Case, &in, &f.Minimal); err != nil {
			return nil, err
		}
		if f.FirstSeen, err = time.Parse(timeForm, first); err != nil {
			return nil, err
		}
		if f.LastSeen, err = time.Parse(timeForm, last); err != nil {
			return nil, err
		}
		out, fixed = append(out, f), append(fixed, in)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range out {
		if err := trials(ctx, tx, &out[i]); err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(out[i].Clean, func(b Build) bool { return b.ID == fixed[i] }); at >= 0 {
			out[i].FixedIn = &out[i].Clean[at]
		}
	}
	return out, nil
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
