package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/campaign"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/gate/statistics"
)

// Merge is the result of all shards of a run (Config.Shard of Config.Shards):
// what one run over the same cases says, apart from Timing. Explored programs
// are those of all shards, each of which explores for itself.
//
// The verdict is the union's: blocked if any shard is; firings are added up
// before a pass counts as not exercised; a shard that is missing, or was cut
// short, makes the rest inconclusive and is named. absent says in words of which
// results there is nothing to read. The policy's rules are judged at the date
// now.
//
// Settings that do not fit together are a *ConfigError: shards of different
// runs, one shard twice, the result of no shard.
func Merge(shards []*Result, absent []string, now time.Time) (*Result, error) {
	if len(shards) == 1 && len(absent) == 0 && shards[0].Shard == "" {
		return shards[0], nil // shard 1/1
	}
	m := union{missing: slices.Clone(absent), seen: map[int]bool{}}
	for _, s := range shards {
		if err := m.admit(s); err != nil {
			return nil, err
		}
	}
	for i := 1; i <= m.of; i++ {
		first := i
		for i <= m.of && !m.seen[i] {
			i++
		}
		switch last := i - 1; {
		case last == first:
			m.missing = append(m.missing, fmt.Sprintf("shard %d/%d is missing", first, m.of))
		case last > first:
			m.missing = append(m.missing, fmt.Sprintf("shards %d to %d of %d are missing", first, last, m.of))
		}
	}
	slices.SortFunc(m.shards, func(a, b shard) int { return a.number - b.number })
	return m.result(now)
}

// shard is one result with its place.
type shard struct {
	*Result
	number int // from 1
}

type union struct {
	shards  []shard
	of      int
	seen    map[int]bool
	missing []string
	// lost is a result without cases, for the builds of a run that has no other.
	lost *Result
}

// admit takes one shard's result.
func (m *union) admit(r *Result) error {
	number, of, err := shardNumber(r)
	if err != nil {
		return err
	}
	if of > 0 {
		if m.of > 0 && m.of != of {
			return &ConfigError{fmt.Sprintf("shard %s does not belong to a run of %d shards", r.Shard, m.of)}
		}
		m.of = of
		if m.seen[number] {
			return &ConfigError{fmt.Sprintf("shard %s is there twice", r.Shard)}
		}
		m.seen[number] = true
	}
	if r.Part == nil {
		if r.Verdict != Inconclusive || len(r.Cases) > 0 {
			return &ConfigError{fmt.Sprintf("a result of %d cases does not come from check --shard: it cannot be merged", len(r.Cases))}
		}
		m.lost = r
		m.missing = append(m.missing, fmt.Sprintf("%s has no result: %s", cmp.Or(prefixed("shard ", r.Shard), "a shard"), strings.Join(r.Reasons, "; ")))
		return nil
	}
	if p := r.Part; len(p.Cases) != len(r.Cases) || p.Own > len(r.Cases) {
		return &ConfigError{fmt.Sprintf("shard %s has %d cases and the parts of %d", r.Shard, len(r.Cases), len(p.Cases))}
	}
	if len(m.shards) > 0 && m.shards[0].Part.Plan != r.Part.Plan {
		return &ConfigError{fmt.Sprintf("shards %s and %s are of different runs: other cases, builds, seed, passes, policy or limits", m.shards[0].Shard, r.Shard)}
	}
	m.shards = append(m.shards, shard{r, number})
	if halt := r.Part.Halt; halt != "" {
		m.missing = append(m.missing, fmt.Sprintf("shard %s is not complete: %s", r.Shard, halt))
	}
	return nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func shardNumber(r *Result) (number, of int, err error) {
	if r.Shard == "" {
		return 0, 0, nil
	}
	left, right, _ := strings.Cut(r.Shard, "/")
	number, err1 := strconv.Atoi(left)
	of, err2 := strconv.Atoi(right)
	if err1 != nil || err2 != nil || number < 1 || number > of {
		return 0, 0, &ConfigError{fmt.Sprintf("shard %q: want I/N with 1 <= I <= N", r.Shard)}
	}
	return number, of, nil
}

// result runs the sums of a run again, over the cases of all shards.
func (m *union) result(now time.Time) (*Result, error) {
	res := &Result{Schema: Schema, Missing: m.missing, Reasons: []string{}, Passes: []PassResult{}, Cases: []CaseResult{}, Findings: []Finding{}}
	slices.Sort(res.Missing)
	halt := strings.Join(res.Missing, "; ")
	if len(m.shards) == 0 {
		res.Base, res.Head = Build{Kind: "executable"}, Build{Kind: "executable"}
		if m.lost != nil {
			res.Base, res.Head, res.Seed = m.lost.Base, m.lost.Head, m.lost.Seed
		}
		res.total(nil, &accuracy{}, nil, nil)
		decide(res, nil, halt, false)
		return res, nil
	}
	first := m.shards[0]
	res.Seed, res.Base, res.Head = first.Seed, first.Base, first.Head
	var rules *policy.Policy
	if text := first.Part.Policy; text != "" && first.Policy != nil {
		var err error
		if rules, err = policy.Parse(first.Policy.File, []byte(text)); err != nil {
			return nil, err
		}
	}
	order := m.order()
	parts := make([]CasePart, len(order))
	place := map[string]int{}
	noPass := false
	for i, at := range order {
		s := m.shards[at.shard]
		res.Cases = append(res.Cases, s.Cases[at.index])
		parts[i] = s.Part.Cases[at.index]
		place[s.Cases[at.index].ID] = i
		if parts[i].PassesOnly && res.Cases[i].Steps == nil {
			return nil, &ConfigError{fmt.Sprintf("shard %s: case %s has no pass steps", s.Shard, res.Cases[i].ID)}
		}
	}
	cells, programs := &accuracy{}, map[string]*fuzz.Case{}
	for _, s := range m.shards {
		noPass = noPass || s.Part.NoPass
		if err := s.addCells(cells); err != nil {
			return nil, err
		}
		for name, text := range s.Part.Programs {
			c, err := fuzz.ReadCase(name+".case", []byte(text))
			if err != nil {
				return nil, fmt.Errorf("shard %s: %w", s.Shard, err)
			}
			c.Name = name
			programs[name] = c
		}
		for i, p := range s.Passes {
			if i == len(res.Passes) {
				res.Passes = append(res.Passes, PassResult{Name: p.Name, Weight: p.Weight, Reason: p.Reason})
			}
			sum := &res.Passes[i]
			if sum.Name != p.Name {
				return nil, &ConfigError{fmt.Sprintf("shard %s has other passes in focus: %s, not %s", s.Shard, p.Name, sum.Name)}
			}
			sum.Ran += p.Ran
			sum.Fired += p.Fired
			sum.Cases += p.Cases
		}
		for _, p := range s.Coverage {
			res.addCoverage(p)
		}
		res.Timing.Seconds = max(res.Timing.Seconds, s.Timing.Seconds)
		res.Timing.InXLASeconds += s.Timing.InXLASeconds
		res.Timing.ReferenceSeconds += s.Timing.ReferenceSeconds
		res.Timing.Workers += s.Timing.Workers
	}
	byPlace := func(a, b string) int { return place[a] - place[b] }
	for _, c := range cells.cells {
		slices.SortStableFunc(c.bets, func(a, b bet) int { return byPlace(a.program, b.program) })
		slices.SortStableFunc(c.nulls, func(a, b nullBet) int { return byPlace(a.program, b.program) })
	}
	for _, s := range m.shards {
		res.Findings = append(res.Findings, s.ownFindings()...)
	}
	slices.SortStableFunc(res.Findings, func(a, b Finding) int { return byPlace(a.Case, b.Case) })
	res.Exploration = m.exploration()
	res.total(parts, cells, rules, programs)
	applyPolicy(rules, res, now)
	decide(res, parts, halt, noPass)
	if res.Timing.Seconds > 0 {
		res.Timing.CasesPerSecond = float64(res.judged()) / res.Timing.Seconds
	}
	return res, nil
}

// caseAt is a case of a shard.
type caseAt struct{ shard, index int }

// order is the order in which one run has the cases: shard I of N has every
// Nth case file from the Ith; what was explored comes behind.
func (m *union) order() []caseAt {
	var files, explored []caseAt
	for i, s := range m.shards {
		for j := range s.Cases {
			if j < s.Part.Own {
				files = append(files, caseAt{i, j})
			} else {
				explored = append(explored, caseAt{i, j})
			}
		}
	}
	slices.SortStableFunc(files, func(a, b caseAt) int { return cmp.Or(a.index-b.index, a.shard-b.shard) })
	return append(files, explored...)
}

// ownFindings are the findings of a shard's cases as they were before its
// clusters were counted and the policy was applied. Those of the accuracy
// statistics are left out: they are of the run as a whole.
func (s shard) ownFindings() []Finding {
	found := slices.Clone(s.Findings)
	for _, u := range s.Part.Unruled {
		if u.At >= 0 && u.At < len(found) {
			found[u.At].Blocking, found[u.At].Detail = true, u.Detail
		}
	}
	size := map[string]int{}
	for _, f := range found {
		size[f.Cluster]++
	}
	for i := range found {
		f := &found[i]
		f.Observed = cmp.Or(f.Observed, s.Observed[f.ID])
		f.Duplicates -= max(0, size[f.Cluster]-1) // the first of a cluster counts the others
		size[f.Cluster] = 0
		f.KnownIssue, f.Override = "", ""
	}
	return slices.DeleteFunc(found, func(f Finding) bool { return slices.Equal(f.Witnesses, []string{WitnessStatistics}) })
}

// addCells adds the cells of a shard.
func (s shard) addCells(to *accuracy) error {
	for _, p := range s.Part.Cells {
		c := to.at(cellKey{p.Pass, sampleKey{p.Operation, p.Dtype, p.Stream}})
		c.merge(&sample{elements: p.Elements, changed: p.Changed, headWorse: p.HeadWorse, baseWorse: p.BaseWorse, base: p.Base, head: p.Head})
		c.programs += p.Programs
		for _, b := range p.Bets {
			if _, ok := statistics.Sign(b.HeadWorse, b.BaseWorse); !ok || b.HeadWorse < 0 || b.BaseWorse < 0 || b.Elements < b.HeadWorse+b.BaseWorse {
				return &ConfigError{fmt.Sprintf("shard %s: case %s bets with %d and %d of %d elements", s.Shard, b.Case, b.HeadWorse, b.BaseWorse, b.Elements)}
			}
			c.bets = append(c.bets, bet{b.Case, b.HeadWorse, b.BaseWorse, b.Elements, b.SumBase, b.SumHead})
		}
		for _, n := range p.Nulls {
			if !(n.Sign >= -1 && n.Sign <= 1) {
				return &ConfigError{fmt.Sprintf("shard %s: case %s has the sign %g under variants of base", s.Shard, n.Case, n.Sign)}
			}
			c.nulls = append(c.nulls, nullBet{n.Case, n.Sign})
		}
	}
	return nil
}

// exploration adds up what the shards explored; nil if none did.
func (m *union) exploration() *ExplorationResult {
	var sum *ExplorationResult
	signatures := map[string]bool{}
	at := map[string]int{}
	for _, s := range m.shards {
		x := s.Exploration
		if x == nil {
			continue
		}
		if sum == nil {
			sum = &ExplorationResult{MinFirings: x.MinFirings, Sources: []campaign.Tally{}}
		}
		for _, n := range []struct {
			to *int
			n  int
		}{{&sum.Programs, x.Programs}, {&sum.Refused, x.Refused}, {&sum.Fired, x.Fired}, {&sum.Unjudged, x.Unjudged}, {&sum.Lost, x.Lost}, {&sum.Unfired, x.Unfired}, {&sum.Identical, x.Identical},
			{&sum.Executed, x.Executed}, {&sum.Suspicious, x.Suspicious}, {&sum.Repeats, x.Repeats}, {&sum.Steps, x.Steps}} {
			*n.to += n.n
		}
		for _, sig := range s.Part.Signatures {
			signatures[sig] = true
		}
		for _, t := range x.Sources {
			i, ok := at[t.Origin]
			if !ok {
				i = len(sum.Sources)
				at[t.Origin] = i
				sum.Sources = append(sum.Sources, campaign.Tally{Origin: t.Origin})
			}
			sum.Sources[i].Programs += t.Programs
			sum.Sources[i].Fired += t.Fired
			sum.Sources[i].Fresh += t.Fresh
			sum.Sources[i].Refused += t.Refused
		}
	}
	if sum != nil {
		sum.Signatures = len(signatures)
	}
	return sum
}
