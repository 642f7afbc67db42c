// Package campaign decides which program to run next when programs are looked
// for that make given passes fire: seeds first, then fresh programs from
// patterns and the generator, and mutations of what did something new.
//
// A campaign knows no compiler. Whoever runs its programs tells it what came
// of them (Learn), and it turns to what works: the feedback is which passes in
// focus fired, and the rewrite signatures of their steps. Its choices depend on
// its seed and on what it was told, on nothing else.
package campaign

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/passgate/passgate/fuzz"
)

// Program is a program that a campaign wants to be run.
type Program struct {
	Case *fuzz.Case
	// Origin says where the program comes from: "seed", the name of a maker,
	// or "mutation". Parent is the name of the case that was mutated.
	Origin, Parent string

	arm, parent, target int
}

// Outcome is what came of a program.
type Outcome struct {
	// Refused programs were not valid, or not supported.
	Refused bool
	// Fired are the passes in focus that changed the program, by their index in
	// Config.Passes, each once.
	Fired []int
	// Signatures are those of the steps of passes in focus (see Signature).
	Signatures []string
}

// Maker makes fresh programs.
type Maker struct {
	Name string
	// Sure tells which passes, by their index in Config.Passes, the maker is
	// known to make fire nearly always, For those that it was written for. Both
	// are where the campaign starts; it goes by what it sees.
	Sure, For []int
	// Make makes a program from the draws of r; nil where it has none to give
	// for them.
	Make func(r *rand.Rand, name string) *fuzz.Case
}

// Pass is a pass in focus.
type Pass struct {
	Name string
	// Weight is its share of the programs that are made for a pass; 0 for none.
	Weight int
}

// Config are the settings of a campaign.
type Config struct {
	// Name begins the names of programs that are no seeds, which end in their
	// number; "explored" if empty.
	Name   string
	Seed   uint64
	Passes []Pass
	// Seeds are run first, in this order. When there are more than seedsFirst,
	// the rest of them takes turns with the other programs.
	Seeds  []*fuzz.Case
	Makers []Maker
	// Mutate makes a program out of a, perhaps with parts of b; nil where the
	// draws of r give nothing new. May be nil.
	Mutate func(r *rand.Rand, name string, a, b *fuzz.Case) *fuzz.Case
}

// arm is a way to get programs, with how it has done.
type arm struct {
	name   string
	make   func(r *rand.Rand, target int) (c *fuzz.Case, parent int)
	runs   float64
	fired  []float64 // by pass in focus
	fresh  float64   // programs with a new signature
	prior  []float64 // pseudo-counts: fired of priorRuns programs
	meant  []bool    // written for the pass in focus
	mutant bool
	aimed  []float64 // mutations made for each pass in focus
}

// priorRuns is the weight of what a maker claims against what it does.
const priorRuns = 3

// power makes the choice of reliable arms follow their rate of firing (one that
// fires in 3/4 of its programs gets a third of the programs of one that always
// does), and that of the others the number of their programs.
func power(x float64) float64 { return x * x * x * x }

// The first plain programs for a target come from arms that make it fire
// reliably, if there are any: a short run exercises each pass, a long one looks
// further. Then one program in mutated is a mutation, as long as these are
// reliable, and one in untried is of an arm that is not, those with the fewest
// programs before the others, until each has had turns: there are hundreds of
// them, and each may be the only one to reach a rewrite. After that one in doubtful
// is. Nobody need judge a program that does not make the target fire, so it is
// cheap. With reliable arms of 95 % nine in ten of the first programs make the
// target fire, and of the last.
const (
	reliable = 0.75 // rate of firing
	plain    = 40
	untried  = 4
	turns    = 8
	doubtful = 12
	mutated  = 8
)

// meant is the weight of a reliable maker that was written for the target
// against one that makes it fire by the way.
const meant = 3

// Entry is a program of the pool: it did something new.
type Entry struct {
	Case *fuzz.Case
	// Fired are passes in focus; Signatures what was new with it.
	Fired      []int
	Signatures []string
	picked     int
}

// Campaign is the state of a search. It is not safe for concurrent use.
type Campaign struct {
	cfg     Config
	next    int // number of the next program
	seeds   int // seeds handed out
	arms    []*arm
	targets []int // programs made for each pass
	hits    []int // of them, those in which it fired
	pool    []*Entry
	seen    map[string]bool
	tallies map[string]*Tally
	order   []string
	cases   []int
}

// Tally counts the programs of one origin.
type Tally struct {
	Origin   string `json:"origin"`
	Programs int    `json:"programs"`
	// Fired programs made at least one pass in focus fire, Fresh ones gave a
	// rewrite signature that no earlier program had.
	Fired   int `json:"fired"`
	Fresh   int `json:"fresh"`
	Refused int `json:"refused"`
}

// SeedOrigin and MutationOrigin are the origins that are no makers.
const (
	SeedOrigin     = "seed"
	MutationOrigin = "mutation"
)

// New starts a campaign.
func New(cfg Config) *Campaign {
	c := &Campaign{cfg: cfg, seen: map[string]bool{}, tallies: map[string]*Tally{}, targets: make([]int, len(cfg.Passes)), hits: make([]int, len(cfg.Passes)), cases: make([]int, len(cfg.Passes))}
	n := len(cfg.Passes)
	for _, m := range cfg.Makers {
		a := &arm{name: m.Name, fired: make([]float64, n), prior: make([]float64, n), meant: make([]bool, n)}
		for i := range n {
			a.meant[i] = slices.Contains(m.For, i)
			switch {
			case slices.Contains(m.Sure, i):
				a.prior[i] = 0.95 * priorRuns
			case a.meant[i]:
				a.prior[i] = 0.4 * priorRuns
			default:
				a.prior[i] = 0.1 * priorRuns
			}
		}
		make := m.Make
		a.make = func(r *rand.Rand, _ int) (*fuzz.Case, int) { return make(r, c.name()), -1 }
		c.arms = append(c.arms, a)
	}
	if cfg.Mutate != nil {
		a := &arm{name: MutationOrigin, fired: make([]float64, n), prior: make([]float64, n), mutant: true, aimed: make([]float64, n)}
		for i := range n {
			a.prior[i] = 0.8 * priorRuns
		}
		a.make = c.mutate
		c.arms = append(c.arms, a)
	}
	return c
}

func (c *Campaign) name() string {
	return fmt.Sprintf("%s-%06d", cmp.Or(c.cfg.Name, "explored"), c.next)
}

// seedsFirst is the number of seeds that run before anything else.
const seedsFirst = 256

// attempts bounds how often a slot of a batch is tried to be filled.
const attempts = 20

// Batch gives the next programs, at most n. It gives fewer only when nothing
// is left to do: the seeds are through, and no maker or mutation gives more.
func (c *Campaign) Batch(n int) []Program {
	var out []Program
	for range n {
		p, ok := c.one()
		if !ok {
			break
		}
		out = append(out, p)
	}
	return out
}

func (c *Campaign) one() (Program, bool) {
	if c.seeds < len(c.cfg.Seeds) && (c.seeds < seedsFirst || c.next%2 == 0) {
		c.seeds++
		p := Program{Case: c.cfg.Seeds[c.seeds-1], Origin: SeedOrigin, arm: -1, parent: -1, target: -1}
		c.next++
		return p, true
	}
	r := rand.New(rand.NewPCG(c.cfg.Seed, uint64(c.next)))
	for range attempts {
		t := c.target()
		a := c.choose(r, t)
		if a < 0 {
			return Program{}, false
		}
		k, parent := c.arms[a].make(r, t)
		if k == nil {
			continue
		}
		if t >= 0 {
			c.targets[t]++
		}
		c.next++
		p := Program{Case: k, Origin: c.arms[a].name, arm: a, parent: parent, target: t}
		if parent >= 0 {
			p.Parent = c.pool[parent].Case.Name
		}
		return p, true
	}
	return Program{}, false
}

// target is the pass for which the next program is made: the one that has had
// the fewest for its weight; -1 without passes that have one.
func (c *Campaign) target() int {
	best := -1
	share := func(i int) float64 { return float64(c.targets[i]) / float64(c.cfg.Passes[i].Weight) }
	for i, p := range c.cfg.Passes {
		if p.Weight <= 0 {
			continue
		}
		if best < 0 || share(i) < share(best) {
			best = i
		}
	}
	return best
}

// choose draws an arm by its rate of firing for the target and its rate of new
// signatures.
func (c *Campaign) choose(r *rand.Rand, target int) int {
	rates := make([]float64, len(c.arms))
	settled := target < 0 || c.targets[target] >= plain
	var sure, rest []int
	for i, a := range c.arms {
		if a.mutant && len(c.pool) == 0 {
			continue
		}
		rates[i] = 1
		if target >= 0 {
			rates[i] = a.rate(target)
			if a.mutant && c.cases[target] == 0 { // nothing to mutate that made it fire
				rates[i] = 0
			}
		}
		switch {
		case rates[i] < reliable:
			rest = append(rest, i)
		case a.mutant:
			if settled && r.IntN(mutated) == 0 {
				return i
			}
		default:
			sure = append(sure, i)
		}
	}
	// Half of the weight of a maker is for what still finds something.
	reaches := func(i int) float64 {
		a := c.arms[i]
		w := power(rates[i]) * (0.5 + 0.5*(a.fresh+1)/(a.runs+1))
		if target >= 0 && !a.mutant && a.meant[target] {
			w *= meant
		}
		return w
	}
	switch {
	case len(sure) == 0:
		return draw(r, rest, reaches)
	case settled && len(rest) > 0 && r.IntN(c.share(rest)) == 0:
		return draw(r, rest, func(i int) float64 { return rates[i] / power(1+c.arms[i].runs) })
	}
	return draw(r, sure, reaches)
}

// share is the inverse share of the programs for arms that are not reliable.
func (c *Campaign) share(rest []int) int {
	if slices.ContainsFunc(rest, func(i int) bool { return c.arms[i].runs < turns }) {
		return untried
	}
	return doubtful
}

// rate is how often the arm's programs make the target fire: of mutations those
// that were made for it, for they come from programs that did.
func (a *arm) rate(target int) float64 {
	runs := a.runs
	if a.mutant {
		runs = a.aimed[target]
	}
	return (a.fired[target] + a.prior[target]) / (runs + priorRuns)
}

// draw is one of the indices, by weight; -1 if all weights are 0.
func draw(r *rand.Rand, indices []int, weight func(int) float64) int {
	total := 0.0
	for _, i := range indices {
		total += weight(i)
	}
	x := r.Float64() * total
	last := -1
	for _, i := range indices {
		w := weight(i)
		if w == 0 {
			continue
		}
		last = i
		if x -= w; x < 0 {
			break
		}
	}
	return last
}

// mutate picks a parent by its energy: what was new with it, over how often it
// was picked; those that made the target fire come first.
func (c *Campaign) mutate(r *rand.Rand, target int) (*fuzz.Case, int) {
	pick := func(among func(*Entry) bool) int {
		var entries []int
		for i, e := range c.pool {
			if among == nil || among(e) {
				entries = append(entries, i)
			}
		}
		return draw(r, entries, func(i int) float64 { return float64(len(c.pool[i].Signatures)) / float64(1+c.pool[i].picked) })
	}
	parent := -1
	if target >= 0 {
		parent = pick(func(e *Entry) bool { return slices.Contains(e.Fired, target) })
	}
	if parent < 0 {
		parent = pick(nil)
	}
	other := pick(nil)
	if parent < 0 {
		return nil, -1
	}
	c.pool[parent].picked++
	return c.cfg.Mutate(r, c.name(), c.pool[parent].Case, c.pool[other].Case), parent
}

// Learn tells what came of the programs of the last batch, in its order.
func (c *Campaign) Learn(programs []Program, outcomes []Outcome) {
	for i, p := range programs {
		o := outcomes[i]
		t := c.tallies[p.Origin]
		if t == nil {
			t = &Tally{Origin: p.Origin}
			c.tallies[p.Origin] = t
			c.order = append(c.order, p.Origin)
		}
		t.Programs++
		if o.Refused {
			t.Refused++
		}
		if len(o.Fired) > 0 {
			t.Fired++
		}
		for _, f := range o.Fired {
			c.cases[f]++
			if f == p.target {
				c.hits[f]++
			}
		}
		var fresh []string
		for _, s := range o.Signatures {
			if !c.seen[s] {
				c.seen[s] = true
				fresh = append(fresh, s)
			}
		}
		if p.arm >= 0 {
			a := c.arms[p.arm]
			a.runs++
			for _, f := range o.Fired {
				if !a.mutant || f == p.target {
					a.fired[f]++
				}
			}
			if a.mutant && p.target >= 0 {
				a.aimed[p.target]++
			}
			if len(fresh) > 0 {
				a.fresh++
			}
		}
		if len(fresh) > 0 {
			t.Fresh++
			c.pool = append(c.pool, &Entry{Case: p.Case, Fired: o.Fired, Signatures: fresh})
		}
	}
}

// Programs counts the programs handed out.
func (c *Campaign) Programs() int { return c.next }

// Signatures are the different rewrite signatures seen, sorted.
func (c *Campaign) Signatures() []string { return slices.Sorted(maps.Keys(c.seen)) }

// Pool are the programs that did something new, in the order in which they
// were run.
func (c *Campaign) Pool() []*Entry { return c.pool }

// Aim counts the programs that were made for a pass, and those of them that
// made it fire.
func (c *Campaign) Aim(pass int) (made, fired int) { return c.targets[pass], c.hits[pass] }

// Cases counts the programs in which each pass in focus fired.
func (c *Campaign) Cases() []int { return c.cases }

// Tallies are the counts by origin, in the order of their first program.
func (c *Campaign) Tallies() []Tally {
	var out []Tally
	for _, name := range c.order {
		out = append(out, *c.tallies[name])
	}
	return out
}
