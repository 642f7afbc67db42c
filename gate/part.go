package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/passgate/passgate/gate/statistics"
)

// Part is what the result of a shard holds beside its own sums: the summands,
// so that Merge says of all shards what one run over all cases would have said.
// An e-value of a shard is none of the summands, nor is a quantile or an
// interval: they are computed again from the programs' bets, in the order of
// one run.
type Part struct {
	// Plan is a hash of what the shards of one run have in common: the names and
	// contents of all cases, the builds, the seed, the passes in focus.
	Plan string `json:"plan"`
	// Own is the number of case files of this shard: the first so many of the
	// result's cases. The others were explored.
	Own int `json:"own"`
	// Halt says why cases were not judged that should have been; "" if all were.
	Halt string `json:"halt,omitempty"`
	// NoPass says that a change was given and reaches no pass.
	NoPass bool `json:"no_pass,omitempty"`
	// Cases are in the order of the result's cases, Cells sorted by their keys.
	Cases []CasePart `json:"cases"`
	Cells []CellPart `json:"cells"`
	// Programs are the case files of which a finding of the accuracy statistics
	// may be made, by name.
	Programs map[string]string `json:"programs"`
	// Unruled are the findings that the policy let through, as they were before.
	Unruled []UnruledFinding `json:"unruled"`
	// Policy is the text of the policy file, "" for none.
	Policy string `json:"policy,omitempty"`
	// Signatures are the rewrite signatures that the exploration saw, sorted.
	Signatures []string `json:"signatures"`
}

// CasePart is what a case adds to the sums.
type CasePart struct {
	Executed           bool  `json:"executed,omitempty"`
	PassesOnly         bool  `json:"passes_only,omitempty"`
	SkippedStreams     int   `json:"skipped_streams,omitempty"`
	JudgedElements     int64 `json:"judged_elements,omitempty"`
	UndecidedElements  int64 `json:"undecided_elements,omitempty"`
	UndecidedDiffering int64 `json:"undecided_differing,omitempty"`
	// Dropped are the flags that base and head do not have.
	Dropped [2][]string `json:"dropped_flags"`
	// Refused says that head refuses what base accepts, Unconfirmed that the
	// machine took from us whether a finding shows again.
	Refused     bool `json:"refused,omitempty"`
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Memory says how its memory was examined; nil if it was not.
	Memory *MemoryCounts `json:"memory,omitempty"`
	// WantDisputed says how the case's want and the reference disagree.
	WantDisputed string     `json:"want_disputed,omitempty"`
	Null         []NullPart `json:"null,omitempty"`
}

// NullPart is one legal variant of base on one case: see NullVariant.
type NullPart struct {
	Variant string   `json:"variant"`
	Same    bool     `json:"same,omitempty"`
	Cells   int64    `json:"cells"`
	Alarms  []string `json:"alarms,omitempty"`
}

// CellPart is a cell of the accuracy statistics: see Cell.
type CellPart struct {
	Pass      string               `json:"pass"`
	Operation string               `json:"operation"`
	Dtype     string               `json:"dtype"`
	Stream    string               `json:"stream"`
	Programs  int                  `json:"programs"`
	Elements  int64                `json:"elements"`
	Changed   int64                `json:"changed"`
	HeadWorse int64                `json:"head_worse"`
	BaseWorse int64                `json:"base_worse"`
	Base      statistics.Histogram `json:"base"`
	Head      statistics.Histogram `json:"head"`
	Bets      []BetPart            `json:"bets"`
	Nulls     []NullBetPart        `json:"nulls"`
}

// BetPart is a program that shows a difference in accuracy. Sums are of
// distances from the exact values, in ULPs.
type BetPart struct {
	Case      string  `json:"case"`
	Elements  int64   `json:"elements"`
	HeadWorse int64   `json:"head_worse"`
	BaseWorse int64   `json:"base_worse"`
	SumBase   float64 `json:"sum_base"`
	SumHead   float64 `json:"sum_head"`
}

// NullBetPart is the same of legal variants of base: their mean sign, in
// [-1, 1].
type NullBetPart struct {
	Case string  `json:"case"`
	Sign float64 `json:"sign"`
}

// UnruledFinding is a finding before the policy: At is its place among the
// findings of the result.
type UnruledFinding struct {
	At     int    `json:"at"`
	Detail string `json:"detail"`
}

// part is what a case adds to the sums.
func (k *caseReport) part() CasePart {
	p := CasePart{Executed: k.executed, PassesOnly: k.passesOnly, SkippedStreams: k.skippedStreams, Refused: k.refused,
		Unconfirmed: k.lost != "" && k.result.Outcome == CaseFinding, WantDisputed: k.wantDisputed}
	for _, a := range k.answers {
		if a.repeated {
			continue
		}
		p.JudgedElements += a.judged
		p.UndecidedElements += a.undecided
		p.UndecidedDiffering += a.undecidedDiffering
	}
	for side, flags := range k.dropped {
		p.Dropped[side] = slices.AppendSeq([]string{}, maps.Keys(flags))
		slices.Sort(p.Dropped[side])
	}
	if k.memory != (MemoryCounts{}) {
		p.Memory = &k.memory
	}
	for _, n := range k.null {
		p.Null = append(p.Null, NullPart{n.variant, n.same, n.cells, n.alarms})
	}
	return p
}

// part is what a shard's result holds for Merge. before are its findings
// before the policy, own the number of its case files.
func (r *run) part(res *Result, before []Finding, own int, cases []CasePart, cells *accuracy, halt string) *Part {
	p := &Part{Plan: cmp.Or(r.plan, r.cfg.plan()), Own: own, Halt: halt, NoPass: r.cfg.NoPass, Cases: cases, Cells: []CellPart{}, Programs: map[string]string{}, Unruled: []UnruledFinding{}, Signatures: []string{}}
	for i, f := range before {
		if f.Blocking != res.Findings[i].Blocking {
			p.Unruled = append(p.Unruled, UnruledFinding{i, f.Detail})
		}
	}
	if r.cfg.Policy != nil {
		p.Policy = r.cfg.Policy.Text
	}
	p.Signatures = append(p.Signatures, r.signatures...)
	worst := map[string]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(cells.cells), compareKeys) {
		s := cells.cells[k]
		c := CellPart{Pass: k.pass, Operation: k.operation, Dtype: k.dtype, Stream: k.stream, Programs: s.programs, Elements: s.elements, Changed: s.changed,
			HeadWorse: s.headWorse, BaseWorse: s.baseWorse, Base: s.base, Head: s.head, Bets: []BetPart{}, Nulls: []NullBetPart{}}
		for _, b := range s.bets {
			c.Bets = append(c.Bets, BetPart{b.program, b.elements, b.headWorse, b.baseWorse, b.sumBase, b.sumHead})
		}
		for _, n := range s.nulls {
			c.Nulls = append(c.Nulls, NullBetPart{n.program, n.sign})
		}
		p.Cells = append(p.Cells, c)
		worst[s.worst()] = true
	}
	for _, c := range r.cfg.Cases {
		if worst[c.Name] {
			p.Programs[c.Name] = string(c.Format())
		}
	}
	return p
}

// plan identifies what the shards of one run have in common.
func (c *Config) plan() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d %d %d %d %t %t %d %d %t\n", c.Base.ID, c.Head.ID, c.Seed, c.Shards, c.Probes, c.NullCases, c.PassesOnly, c.NoCut, c.CutLimit, c.CutWork, c.Coverage)
	for _, f := range c.Passes {
		fmt.Fprintf(h, "pass %q %d\n", f.Name, f.Weight)
	}
	if c.Policy != nil {
		fmt.Fprintf(h, "policy %q\n", c.Policy.Text)
	}
	for _, k := range c.Cases {
		fmt.Fprintf(h, "case %q %s\n", k.Name, k.Hash())
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
