package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// State is where a finding is in its life. A run moves it to Fixed and Reopened, a
// person to the others.
type State string

const (
	NewState State = "new"
	Triaged  State = "triaged"
	Reported State = "reported"
	// FixedState: a build that came after one that shows it does not (FixedIn).
	FixedState State = "fixed"
	// Reopened: it was fixed, and the build that fixed it, or one that was never
	// tried before, shows it.
	Reopened State = "reopened"
)

// States are all states, in the order of a life.
var States = []State{NewState, Triaged, Reported, FixedState, Reopened}

// SetState is a person's decision about a finding, named as for Get: ErrUnknown
// if there is none. An empty note leaves the one that is there.
func (s *Store) SetState(ctx context.Context, id string, state State, note string) error {
	done, err := s.db.ExecContext(ctx, `UPDATE finding SET state = ?2, note = iif(?3 = '', note, ?3) `+named, id, state, note)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("%s: %w", id, ErrUnknown))
	}
	return nil
}

// reopens reports whether a sighting brings a fixed finding back. It is asked
// before the sighting is recorded.
func reopens(ctx context.Context, tx *sql.Tx, f Sighting) (bool, error) {
	var state string
	var fixedIn sql.NullString
	err := tx.QueryRowContext(ctx, `SELECT state, fixed_in FROM finding WHERE id = ?`, f.ID).Scan(&state, &fixedIn)
	if errors.Is(err, sql.ErrNoRows) || err == nil && State(state) != FixedState {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, b := range f.Bad {
		var tried int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM trial WHERE finding = ? AND build = ?`, f.ID, b.ID).Scan(&tried); err != nil {
			return false, err
		}
		if tried == 0 || b.ID == fixedIn.String {
			return true, nil
		}
	}
	return false, nil
}

// Run is one run of the gate.
type Run struct {
	ID         int64
	At         time.Time
	Base, Head string // specs
	Verdict    string
	Cases      int
	// New, Fixed, Existing and Contested count findings.
	New, Fixed, Existing, Contested int
}

// CaseResult is what became of a case in a run.
type CaseResult struct{ Name, Outcome, Base, Head string }

// AddRun remembers a run and its cases.
func (s *Store) AddRun(ctx context.Context, r Run, cases []CaseResult) error {
	return s.transaction(ctx, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `INSERT INTO run (at, base, head, verdict, cases, new, fixed, existing, contested) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			r.At.UTC().Truncate(time.Second).Format(timeForm), r.Base, r.Head, r.Verdict, r.Cases, r.New, r.Fixed, r.Existing, r.Contested)
		if err != nil {
			return err
		}
		id, err := done.LastInsertId()
		if err != nil {
			return err
		}
		add, err := tx.PrepareContext(ctx, `INSERT INTO result (run, number, name, outcome, base, head) VALUES (?, ?, ?, ?, ?, ?)`)
		if err != nil {
			return err
		}
		defer add.Close()
		for i, c := range cases {
			if _, err := add.ExecContext(ctx, id, i, c.Name, c.Outcome, c.Base, c.Head); err != nil {
				return err
			}
		}
		return nil
	})
}

// Runs returns runs, the latest first.
func (s *Store) Runs(ctx context.Context, limit, offset int) ([]Run, error) {
	return s.runs(ctx, `ORDER BY id DESC LIMIT ? OFFSET ?`, limit, offset)
}

// RunByID returns one run; ErrUnknown if there is none.
func (s *Store) RunByID(ctx context.Context, id int64) (Run, error) {
	found, err := s.runs(ctx, `WHERE id = ?`, id)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("run %d: %w", id, ErrUnknown)
	}
	if err != nil {
		return Run{}, err
	}
	return found[0], nil
}

func (s *Store) runs(ctx context.Context, where string, args ...any) ([]Run, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, at, base, head, verdict, cases, new, fixed, existing, contested FROM run `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Run
	for rows.Next() {
		var r Run
		var at string
		if err := rows.Scan(&r.ID, &at, &r.Base, &r.Head, &r.Verdict, &r.Cases, &r.New, &r.Fixed, &r.Existing, &r.Contested); err != nil {
			return nil, err
		}
		if r.At, err = time.Parse(timeForm, at); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Results returns the cases of a run from a number on, in their order.
func (s *Store) Results(ctx context.Context, run int64, from, limit int) ([]CaseResult, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT name, outcome, base, head FROM result WHERE run = ? AND number >= ? ORDER BY number LIMIT ?`, run, from, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []CaseResult
	for rows.Next() {
		var c CaseResult
		if err := rows.Scan(&c.Name, &c.Outcome, &c.Base, &c.Head); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// Page returns findings, the last seen first: those of a state and of a pass, ""
// for any.
func (s *Store) Page(ctx context.Context, state State, pass string, limit, offset int) ([]Finding, error) {
	where, args := filter(state, pass)
	return s.findPage(ctx, where, append(args, limit, offset))
}

// Count counts findings: see Page.
func (s *Store) Count(ctx context.Context, state State, pass string) (int, error) {
	where, args := filter(state, pass)
	n := 0
	return n, s.db.QueryRowContext(ctx, `SELECT count(*) FROM finding `+where, args...).Scan(&n)
}

func filter(state State, pass string) (string, []any) {
	switch {
	case state != "" && pass != "":
		return "WHERE state = ? AND pass = ?", []any{state, pass}
	case state != "":
		return "WHERE state = ?", []any{state}
	case pass != "":
		return "WHERE pass = ?", []any{pass}
	}
	return "", nil
}

// PassTally counts the findings of a pass, "" being those without one.
type PassTally struct {
	Pass        string
	Findings    int
	Open, Cases int
}

// Passes counts the findings by pass, the most open first.
func (s *Store) Passes(ctx context.Context) ([]PassTally, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT pass, count(*), sum(state != 'fixed'), sum(cases) FROM finding GROUP BY pass ORDER BY 3 DESC, 1 LIMIT 500`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []PassTally
	for rows.Next() {
		var p PassTally
		if err := rows.Scan(&p.Pass, &p.Findings, &p.Open, &p.Cases); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}
