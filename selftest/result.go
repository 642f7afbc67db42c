package selftest

import (
	"fmt"
	"slices"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/gate/statistics"
)

// Schema names the form of Result as JSON.
const Schema = "passgate/selftest/v1"

// Outcome is what the gate made of one defect.
type Outcome struct {
	Ran bool `json:"-"`
	// Defect is its name, Kind and Class those of the catalogue.
	Defect string `json:"defect"`
	Kind   string `json:"kind"`
	Class  string `json:"class"`
	Exact  bool   `json:"exact"`
	// Case is the program it was planted in, Step the pass step that makes the
	// mistake, Names the instructions that are wrong.
	Case  string        `json:"case"`
	Step  gate.PassStep `json:"step"`
	Names []string      `json:"instructions"`
	Route Route         `json:"route"`
	// LegalBefore and LegalAfter prove the defect: the legal sets of one
	// element before and after it.
	LegalBefore string `json:"legal_before"`
	LegalAfter  string `json:"legal_after"`
	// Executed says that the gate ran the program; otherwise it judged the
	// passes alone.
	Executed bool         `json:"executed"`
	Verdict  gate.Verdict `json:"verdict"`
	// Detected says that a finding blocks.
	Detected   bool       `json:"detected"`
	FoundClass gate.Class `json:"found_class,omitempty"`
	Witnesses  []string   `json:"witnesses,omitempty"`
	// Reports are new findings of the gate for this defect.
	Reports           int            `json:"reports"`
	Blamed            *gate.PassStep `json:"blamed,omitempty"`
	BlamedInstruction []string       `json:"blamed_instruction,omitempty"`
	RightStep         bool           `json:"right_step"`
	RightInstruction  bool           `json:"right_instruction"`
	// Minimal is the size of the reduced program in instructions.
	Minimal     int    `json:"minimal"`
	MinimalText string `json:"minimal_text,omitempty"`
	// Detail says why a defect was missed.
	Detail string `json:"detail,omitempty"`
	// Seconds is the time to detection, reduction included.
	Seconds float64 `json:"seconds"`
}

// NullOutcome is one run with nothing planted.
type NullOutcome struct {
	Ran           bool
	Cells, Blocks int
	Alarms        []string
}

// Null sums the runs with nothing planted up.
type Null struct {
	Runs int `json:"runs"`
	// Cells are the comparisons of head with base that could have raised an
	// alarm: an input stream under a set of flags where programs are executed, a
	// pass step on an input stream where they are not.
	Cells  int      `json:"cells"`
	Blocks int      `json:"blocks"`
	Alarms []string `json:"alarms,omitempty"`
}

func (n *Null) add(o NullOutcome) {
	if o.Ran {
		n.Runs++
	}
	n.Cells += o.Cells
	n.Blocks += o.Blocks
	n.Alarms = append(n.Alarms, o.Alarms...)
}

// Rate is a proportion with its exact 95 % interval (statistics.Proportion).
type Rate struct {
	Of       int        `json:"of"`
	Hits     int        `json:"hits"`
	Interval [2]float64 `json:"interval"`
}

func rate(hits, of int) Rate { return Rate{of, hits, statistics.Proportion(int64(hits), int64(of))} }

// Share is Hits/Of, 1 for none.
func (r Rate) Share() float64 {
	if r.Of == 0 {
		return 1
	}
	return float64(r.Hits) / float64(r.Of)
}

// ClassRecall is the recall of one class.
type ClassRecall struct {
	Class  string `json:"class"`
	Recall Rate   `json:"recall"`
}

// Result is the self-test of a build.
type Result struct {
	Schema string     `json:"schema"`
	Seed   uint64     `json:"seed"`
	Build  gate.Build `json:"build"`
	// Programs could be planted in.
	Programs int `json:"programs"`
	// Unproved plants changed no legal set, Refused ones were not accepted by
	// the build, Undone ones do not show in what it computes: a later pass or
	// code generation makes them good. None of them is counted.
	Unproved int       `json:"unproved"`
	Refused  int       `json:"refused"`
	Undone   int       `json:"undone"`
	Defects  []Outcome `json:"defects"`

	Recall      Rate          `json:"recall"`
	Exact       Rate          `json:"exact"`
	Classes     []ClassRecall `json:"classes"`
	Step        Rate          `json:"step"`        // blamed on the right step, of the detected
	Instruction Rate          `json:"instruction"` // blamed on the right instruction, of the detected
	// MedianMinimal is the median size of the reduced programs.
	MedianMinimal    float64 `json:"median_minimal"`
	ReportsPerDefect float64 `json:"reports_per_defect"`
	MedianSeconds    float64 `json:"median_seconds"`
	Null             Null    `json:"null"`
	// Variants is nil if no cells of it were asked for.
	Variants *Variants `json:"variants,omitempty"`
	// Complete says that as many defects and cells ran as were asked for.
	Complete bool `json:"complete"`
	// Failed says that the gate missed too much or blocked where nothing was
	// planted. Trusted is not that, with enough defects of every class and enough
	// cells to mean something; Why says what is missing.
	Failed  bool     `json:"failed"`
	Trusted bool     `json:"trusted"`
	Why     []string `json:"why,omitempty"`
	Timing  Timing   `json:"timing"`
}

// Timing of the run: wall-clock time, and processor time of this process and
// its workers.
type Timing struct {
	Seconds          float64 `json:"seconds"`
	ChooseSeconds    float64 `json:"choose_seconds"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	ChooseCPUSeconds float64 `json:"choose_cpu_seconds"`
}

// The share of all defects, of any class, that a trustworthy gate must see;
// exact ones it must see all (issue "the gate's own measured sensitivity").
const wantRecall = 0.98

// What it takes to trust a measurement. With 150 trials and no failure the
// failure rate is below 2 % at 95 % confidence: 1 - 0.05^(1/150) = 1.98 % (the
// rule of three, J. Hanley and A. Lippman-Hand, JAMA 249, 1983). So many defects
// must have run, and so many cells of the null. Of a class of which fewer than
// three were planted nothing is known.
const (
	enoughDefects = 150
	enoughCells   = 150
	enoughOfClass = 3
)

func (r *Result) sum(asked int, cells int64) {
	var hits, exact, exactHits, step, instruction, reports int
	byClass := map[string][2]int{}
	var sizes, seconds []float64
	for _, o := range r.Defects {
		n := byClass[o.Class]
		n[1]++
		if o.Exact {
			exact++
		}
		if o.Detected {
			hits++
			n[0]++
			reports += o.Reports
			sizes, seconds = append(sizes, float64(o.Minimal)), append(seconds, o.Seconds)
			if o.Exact {
				exactHits++
			}
			if o.RightStep {
				step++
			}
			if o.RightInstruction {
				instruction++
			}
		}
		byClass[o.Class] = n
	}
	r.Recall, r.Exact = rate(hits, len(r.Defects)), rate(exactHits, exact)
	r.Step, r.Instruction = rate(step, hits), rate(instruction, hits)
	for _, c := range defects.Classes {
		n := byClass[string(c)]
		r.Classes = append(r.Classes, ClassRecall{string(c), rate(n[0], n[1])})
	}
	r.MedianMinimal, r.MedianSeconds = median(sizes), median(seconds)
	if hits > 0 {
		r.ReportsPerDefect = float64(reports) / float64(hits)
	}
	r.Complete = len(r.Defects) >= asked && (r.Variants == nil || r.Variants.Cells >= cells)
	r.trust()
}

// trust draws the conclusion.
func (r *Result) trust() {
	why := func(format string, args ...any) { r.Why = append(r.Why, fmt.Sprintf(format, args...)) }
	if n := r.Exact.Of - r.Exact.Hits; n > 0 {
		why("%d of %d exact defects were missed", n, r.Exact.Of)
	}
	if r.Recall.Share() < wantRecall {
		why("%d of %d defects were seen: less than %g %%", r.Recall.Hits, r.Recall.Of, 100*wantRecall)
	}
	if r.Null.Blocks > 0 {
		why("%d false blocks with nothing planted", r.Null.Blocks)
	}
	if v := r.Variants; v != nil && v.Alarms > 0 {
		why("%d false alarms in %d cells of legal variants of the build", v.Alarms, v.Cells)
	}
	r.Failed = len(r.Why) > 0
	if n := len(r.Defects); n < enoughDefects {
		why("%d defects: %d are needed to tell 98 %% from less", n, enoughDefects)
	}
	if r.Null.Cells < enoughCells {
		why("%d cells with nothing planted: %d are needed to tell a false-block rate of 2 %% from more", r.Null.Cells, enoughCells)
	}
	for _, c := range r.Classes {
		if c.Recall.Of < enoughOfClass {
			why("%d defects of class %q: %d are needed", c.Recall.Of, c.Class, enoughOfClass)
		}
	}
	r.Trusted = len(r.Why) == 0
}

// median of an empty list is 0.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}
