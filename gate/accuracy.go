package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/gate/statistics"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// The error rates of the accuracy statistics.
const (
	// discoveryRate is the false discovery rate of the report, over all cells.
	discoveryRate = 0.05
	// familyLevel is the chance of a block by any cell of a run without a loss
	// of accuracy.
	familyLevel = 0.01
	// intervalLevel is one minus the coverage of the intervals of a cell.
	intervalLevel = 0.05
	// nullLevel is the wealth, 1/nullLevel, at which a cell's null alarms and
	// the cell is excluded.
	nullLevel = 0.05
)

// WitnessStatistics is the witness of a loss of accuracy within the legal sets.
const WitnessStatistics = "statistics"

// sampleKey is a kind of output of one program on one input stream.
type sampleKey struct{ operation, dtype, stream string }

// sample compares base and head on the inexact elements of one kind of output
// of one program, where both are legal.
type sample struct {
	elements, changed    int64
	headWorse, baseWorse int64
	base, head           statistics.Histogram // ULPs from the centre
	sumBase, sumHead     float64              // of those
}

func (s *sample) merge(o *sample) {
	s.elements += o.elements
	s.changed += o.changed
	s.headWorse += o.headWorse
	s.baseWorse += o.baseWorse
	s.base.Merge(&o.base)
	s.head.Merge(&o.head)
	s.sumBase += o.sumBase
	s.sumHead += o.sumHead
}

// compareAccuracy counts who is nearer to the centre of an inexact element.
// Distances are in units in the last place of the centre, of the smallest
// normal number below that.
func (l *leafJudge) compareAccuracy(to *sample, base, head []*eval.Array, i int, same bool) {
	if l.ref.Re == nil || l.ref.Im != nil || len(base) == 0 || len(head) == 0 {
		return
	}
	c := l.ref.At(i).Re
	if c.E == 0 || !finite(c.C) {
		return
	}
	f := l.ref.Type.Format()
	ulp := f.Ulp(math.Max(math.Abs(c.C), f.MinNormal()))
	b, h := distance(c, base[0].At(i).Re)/ulp, distance(c, head[0].At(i).Re)/ulp
	if !finite(b) || !finite(h) {
		return
	}
	to.elements++
	if !same {
		to.changed++
	}
	to.base.Add(b)
	to.head.Add(h)
	to.sumBase += b
	to.sumHead += h
	switch {
	case h > b:
		to.headWorse++
	case b > h:
		to.baseWorse++
	}
}

// compareLegal remembers the differing element that comes nearest to its bound.
func (l *leafJudge) compareLegal(d *LegalDifference, base, head []*eval.Array, i int) {
	d.Differing++
	if l.ref.Re == nil || l.ref.Im != nil {
		return
	}
	c := l.ref.At(i).Re
	if c.E == 0 || !finite(c.C) || !finite(c.E) {
		return
	}
	seen := math.Max(distance(c, base[0].At(i).Re), distance(c, head[0].At(i).Re))
	if finite(seen) && (d.Bound == 0 || seen*d.Bound > d.Seen*c.E) {
		d.Bound, d.Seen = c.E, seen
	}
}

// sourceOf is where output o of the question comes from.
func (q *question) sourceOf(o int) source {
	if o < len(q.sources) {
		return q.sources[o]
	}
	return source{"unknown", "the rules of StableHLO"}
}

// cellKey is a kind of output over all programs that a pass changed.
type cellKey struct {
	pass string
	sampleKey
}

func (k cellKey) String() string {
	return strings.TrimPrefix(fmt.Sprintf("%s %s %s, %s inputs", k.pass, k.operation, k.dtype, k.stream), " ")
}

func compareKeys(a, b cellKey) int {
	return cmp.Or(strings.Compare(a.pass, b.pass), strings.Compare(a.operation, b.operation), strings.Compare(a.dtype, b.dtype), strings.Compare(a.stream, b.stream))
}

// cellState is a cell while programs come in.
type cellState struct {
	sample
	programs int
	bets     []bet
	nulls    []nullBet
}

// bet is what a program says that shows a difference in accuracy: one
// observation, whatever its number of elements.
type bet struct {
	program              string
	headWorse, baseWorse int64
	elements             int64
	sumBase, sumHead     float64
}

// shift is the mean loss of head in ULPs, over the program's elements.
func (b *bet) shift() float64 { return (b.sumHead - b.sumBase) / float64(b.elements) }

// nullBet is what a program says under legal variants of base: the mean sign.
type nullBet struct {
	program string
	sign    float64
}

// accuracy are the cells of a run.
type accuracy struct{ cells map[cellKey]*cellState }

func (a *accuracy) at(k cellKey) *cellState {
	if a.cells == nil {
		a.cells = map[cellKey]*cellState{}
	}
	if a.cells[k] == nil {
		a.cells[k] = &cellState{}
	}
	return a.cells[k]
}

// add takes what one program says, under each of the passes in focus that
// changed it. Cells come in sorted order, so that a run adds up to the same
// whatever the workers did.
func (a *accuracy) add(name string, passes []string, samples map[sampleKey]*sample) {
	for _, key := range sortedKeys(samples) {
		s := samples[key]
		for _, pass := range passes {
			c := a.at(cellKey{pass, key})
			c.merge(s)
			c.programs++
			if _, ok := statistics.Sign(s.headWorse, s.baseWorse); ok {
				c.bets = append(c.bets, bet{name, s.headWorse, s.baseWorse, s.elements, s.sumBase, s.sumHead})
			}
		}
	}
}

// addNull takes what one program says under legal variants of base: one bet,
// the mean over the variants.
func (a *accuracy) addNull(name string, passes []string, variants []map[sampleKey]*sample) {
	sums := map[sampleKey]float64{}
	for _, v := range variants {
		for key, s := range v {
			if x, ok := statistics.Sign(s.headWorse, s.baseWorse); ok {
				sums[key] += x / float64(len(variants))
			}
		}
	}
	for key, x := range sums {
		for _, pass := range passes {
			c := a.at(cellKey{pass, key})
			c.nulls = append(c.nulls, nullBet{name, math.Max(-1, math.Min(1, x))})
		}
	}
}

func sortedKeys(m map[sampleKey]*sample) []sampleKey {
	return slices.SortedFunc(maps.Keys(m), func(a, b sampleKey) int { return compareKeys(cellKey{"", a}, cellKey{"", b}) })
}

// threshold is the loss in ULPs above which an operation blocks: the policy's,
// or the declared budget; ok is false if there is neither.
func threshold(p *policy.Policy, op, dtype string) (float64, bool) {
	if u, ok := p.ULPsOf(op, dtype); ok {
		return u, true
	}
	return declared(op, dtype)
}

// finish gives the cells and the findings that rest on them. Cells that no
// program with an inexact output reached are left out.
func (a *accuracy) finish(p *policy.Policy, cases map[string]*fuzz.Case) ([]Cell, []Finding, []string) {
	keys := slices.SortedFunc(maps.Keys(a.cells), compareKeys)
	keys = slices.DeleteFunc(keys, func(k cellKey) bool { return a.cells[k].elements == 0 })
	evidence := make([]statistics.Bettor, len(keys))
	var e []float64
	for i, k := range keys {
		for _, b := range a.cells[k].bets {
			x, _ := statistics.Sign(b.headWorse, b.baseWorse)
			evidence[i].Add(x)
		}
		e = append(e, evidence[i].E())
	}
	discovered := statistics.Discoveries(e, discoveryRate)
	cells, excluded := []Cell{}, []string{}
	var findings []Finding
	for i, k := range keys {
		s := a.cells[k]
		c := s.cell(k, &evidence[i])
		_, c.Discovered = slices.BinarySearch(discovered, i)
		if u, ok := threshold(p, k.operation, k.dtype); ok {
			c.Budget = &u
		}
		if s.nullHighest() >= 1/nullLevel {
			c.Excluded = "legal variants of base lose accuracy here as well"
			excluded = append(excluded, k.String())
		}
		cells = append(cells, c)
		if c.Discovered && c.Excluded == "" {
			findings = append(findings, s.finding(k, &c, &evidence[i], len(keys), cases))
		}
	}
	return cells, findings, excluded
}

// nullHighest is the largest wealth of the bet on the cell's null.
func (s *cellState) nullHighest() float64 {
	var b statistics.Bettor
	for _, n := range s.nulls {
		b.Add(n.sign)
	}
	return b.Highest()
}

// worst is the program whose mean loss is the largest, the first of them; ""
// without a bet.
func (s *cellState) worst() string {
	name, shift := "", math.Inf(-1)
	for _, b := range s.bets {
		if x := b.shift(); x > shift {
			name, shift = b.program, x
		}
	}
	return name
}

func (s *cellState) cell(k cellKey, evidence *statistics.Bettor) Cell {
	c := Cell{Pass: k.pass, Operation: k.operation, Dtype: k.dtype, Stream: k.stream, Elements: s.elements, HeadWorse: s.headWorse, BaseWorse: s.baseWorse,
		Changed: s.changed, Programs: s.programs, Betting: evidence.N(), E: evidence.E(), Base: distances(&s.base), Head: distances(&s.head)}
	if len(s.bets) > 0 {
		var ratios, shifts []float64
		for _, b := range s.bets {
			ratios = append(ratios, b.sumHead/b.sumBase) // +Inf if base is exact
			shifts = append(shifts, b.shift())
		}
		c.Ratio, c.Shift = interval(ratios), interval(shifts)
	}
	return c
}

func distances(h *statistics.Histogram) Distances {
	d := Distances{P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99), Max: h.Max()}
	for i, power := range tailPowers {
		d.Tail[i] = h.Above(power)
	}
	d.Exact = h.Zeros()
	for power, n := range h.Octaves() {
		d.Octaves = append(d.Octaves, Octave{power, n})
	}
	return d
}

// tailPowers are the powers of two above which distances are counted: 1, 4, 16,
// 256 ULP.
var tailPowers = [...]int{0, 2, 4, 8}

func interval(values []float64) *Interval {
	slices.Sort(values)
	m, low, high := statistics.Median(values, intervalLevel)
	return &Interval{Median: known(m), Low: known(low), High: known(high)}
}

// known is nil for what is not a finite number.
func known(x float64) *float64 {
	if !finite(x) {
		return nil
	}
	return &x
}

func (s *cellState) finding(k cellKey, c *Cell, evidence *statistics.Bettor, family int, cases map[string]*fuzz.Case) Finding {
	worst := s.worst()
	sum := sha256.Sum256([]byte(strings.Join([]string{string(NumericDegradation), WitnessStatistics, k.pass, k.operation, k.dtype, k.stream}, "\x00")))
	f := Finding{
		ID: "f-" + hex.EncodeToString(sum[:6]), Cluster: "f-" + hex.EncodeToString(sum[:6]), Class: NumericDegradation, Status: New, Case: worst, Stream: k.stream, Flags: ComparisonFlags,
		Witnesses: []string{WitnessStatistics}, Elements: c.Elements, Wrong: c.HeadWorse, Instruction: k.operation, Base: Right, Head: Right,
		First: First{At: []int64{}, Base: c.Base.String(), Head: c.Head.String(), Legal: "no budget declared"},
	}
	if op, ok := hlo.OpcodeByName(k.operation); ok {
		f.Location = &Location{Opcode: op.String()}
	}
	if p := cases[worst]; p != nil {
		f.Minimal = p.Text
		f.CaseFile = p.Format()
		f.MinimalFile = f.CaseFile
		if p.Module != nil {
			f.Instructions = p.Module.NumInstructions()
		}
	}
	f.Detail = fmt.Sprintf("%s: head is legal but less accurate, in %d programs (e-value %.3g among %d cells): shift %s ULP, ratio of errors %s", k, c.Betting, c.E, family, c.Shift, c.Ratio)
	switch {
	case c.Budget == nil:
		f.Detail += "; not blocking: no budget declared"
	case c.Shift.Low == nil || *c.Shift.Low <= *c.Budget:
		f.First.Legal = fmt.Sprintf("budget %.4g ULP", *c.Budget)
		f.Detail += fmt.Sprintf("; not blocking: within the budget of %.4g ULP", *c.Budget)
	case !statistics.FamilyWise(evidence.Highest(), family, familyLevel):
		f.First.Legal = fmt.Sprintf("budget %.4g ULP", *c.Budget)
		f.Detail += fmt.Sprintf("; not blocking: not certain at the family-wise level %g", familyLevel)
	default:
		f.First.Legal = fmt.Sprintf("budget %.4g ULP", *c.Budget)
		f.Blocking = true
	}
	return f
}

// Interval is a median with its confidence sequence; nil ends are unbounded.
type Interval struct {
	Median *float64 `json:"median"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
}

// String is "1.02 (0.95 to 1.07)", with "~" for what is not known, "~" alone
// without evidence.
func (i *Interval) String() string {
	if i == nil || i.Low == nil && i.High == nil {
		return "~"
	}
	show := func(x *float64) string {
		if x == nil {
			return "~"
		}
		return fmt.Sprintf("%.3g", *x)
	}
	return fmt.Sprintf("%s (%s to %s)", show(i.Median), show(i.Low), show(i.High))
}

// Distances are distances from the exact value in ULPs.
type Distances struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
	// Tail counts the elements above 1, 4, 16 and 256 ULP.
	Tail [4]int64 `json:"tail"`
	// Exact counts the elements without any distance, Octaves the others.
	Exact   int64    `json:"exact"`
	Octaves []Octave `json:"octaves,omitempty"`
}

// Octave counts the elements with a distance above 2^(Power-1) and up to
// 2^Power ULP.
type Octave struct {
	Power    int   `json:"power"`
	Elements int64 `json:"elements"`
}

func (d Distances) String() string {
	return fmt.Sprintf("p50 %.2g, p99 %.2g, max %.2g ULP", d.P50, d.P99, d.Max)
}

// samples adds up what a case says under the comparison flags.
func (k *caseReport) samples() map[sampleKey]*sample {
	out := map[sampleKey]*sample{}
	for _, a := range k.answers {
		if a.repeated || a.flags == DefaultFlags {
			continue
		}
		for key, s := range a.samples {
			if out[key] == nil {
				out[key] = &sample{}
			}
			out[key].merge(s)
		}
	}
	return out
}

// passesOf are the names of the passes in focus that changed the case's
// program; one empty name if there is none.
func (k *caseReport) passesOf(focus []Focus) []string {
	var out []string
	for _, f := range focus {
		for name, n := range k.steps {
			if n.fired > 0 && f.Matches(name) {
				out = append(out, f.Name)
				break
			}
		}
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}
