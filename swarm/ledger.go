package swarm

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/swarm/checkout"
	"github.com/passgate/passgate/swarm/operation"
	"github.com/passgate/passgate/swarm/provider"
	"github.com/passgate/passgate/xla/builds"
)

// Record is a finding and what agents made of it.
type Record struct {
	ID      string        `json:"id"`
	Cluster string        `json:"cluster"`
	Finding *gate.Finding `json:"finding"`
	// By is the agent whose program shows it, "" for a case that was given; Claim
	// is what it said.
	By    string `json:"by"`
	Claim string `json:"claim,omitempty"`
	// Minimal says that no single change makes the program smaller.
	Minimal     bool         `json:"minimal"`
	Explanation *Explanation `json:"explanation,omitempty"`
	Patch       *Patch       `json:"patch,omitempty"`
	// Objections are reviews without a counterexample that holds: for people.
	Objections []string `json:"objections,omitempty"`
	Reviewed   []string `json:"reviewed,omitempty"`
	// Duplicates are agents and cases that showed the same cluster.
	Duplicates []string `json:"duplicates,omitempty"`
	// Tokens and Cost of all agents that worked on it.
	Tokens provider.Usage `json:"tokens"`
	Cost   float64        `json:"cost"`

	c       *fuzz.Case // as it was found
	refuted int        // patches that a reviewer refuted
}

// Patch is a fix that the gate accepted.
type Patch struct {
	Diff    string          `json:"diff"`
	Test    string          `json:"test"`
	Summary string          `json:"summary"`
	Edits   []checkout.Edit `json:"edits"`
	// Checks say what was checked, in the order of the checks.
	Checks []string `json:"checks"`

	build *builds.Build
	dir   string
}

// ledger are the findings that all agents share.
type ledger struct {
	mu      sync.Mutex
	records []*Record
	// programs ran without a finding; the whole gate run of a fix has them, too.
	programs []*fuzz.Case
}

// add records a finding. It is not fresh if its cluster is known.
func (l *ledger) add(r *Record) (fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.ID, r.Cluster = r.Finding.ID, r.Finding.Cluster
	for _, old := range l.records {
		if old.Cluster == r.Cluster {
			old.Duplicates = append(old.Duplicates, strings.TrimSpace(r.By+" "+r.Finding.Case))
			return false
		}
	}
	l.records = append(l.records, r)
	return true
}

func (l *ledger) addPrograms(c ...*fuzz.Case) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.programs = append(l.programs, c...)
}

// get is the record of an id, nil if there is none.
func (l *ledger) get(id string) *Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.records, func(r *Record) bool { return r.ID == id }); i >= 0 {
		return l.records[i]
	}
	return nil
}

// describe says what a finding is, "" if there is none with that id.
func (l *ledger) describe(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.ID == id {
			return operation.Describe(r.Finding)
		}
	}
	return ""
}

// list is one line per finding.
func (l *ledger) list() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.records) == 0 {
		return "no findings so far\n"
	}
	var b strings.Builder
	for _, r := range l.records {
		pass := "unknown pass"
		if r.Finding.Pass != nil {
			pass = r.Finding.Pass.String()
		}
		fmt.Fprintf(&b, "%s: case %s, %s, %s, %s\n", r.ID, r.Finding.Case, r.Finding.Class, r.Finding.Status, pass)
	}
	return b.String()
}

// cases are all programs known, under names of their own: findings with the
// inputs that show them, then programs that ran.
func (l *ledger) cases() []*fuzz.Case {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*fuzz.Case
	for _, r := range l.records {
		out = append(out, r.c)
	}
	return append(out, l.programs...)
}
