package gate

import (
	"encoding/json"
	"fmt"
)

// Schema names the version of the result format; reports/schema holds its JSON
// Schema.
const Schema = "passgate/result/v1"

// Verdict is the gate's answer for one run.
type Verdict string

const (
	Pass         Verdict = "pass"
	Blocked      Verdict = "blocked"
	NotExercised Verdict = "not-exercised"
	Inconclusive Verdict = "inconclusive"
)

// Result is what a run found. Everything but Observed and Timing is the same for
// the same builds, cases and seed, whatever the machine, the number of workers, or the
// time of day.
type Result struct {
	Schema  string   `json:"schema"`
	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons"`
	Seed    uint64   `json:"seed"`
	Shard   string   `json:"shard,omitempty"` // "I/N"
	Base    Build    `json:"base"`
	Head    Build    `json:"head"`
	// Passes are the passes in focus: what the change touches.
	Passes []PassResult `json:"passes"`
	// Coverage counts all passes that were seen, in focus or not, by name; nil if
	// nobody asked (Config.Coverage).
	Coverage []PassCount `json:"coverage,omitempty"`
	// Census is that of the other shards' programs; nil if none was taken.
	Census *Census `json:"census,omitempty"`
	Totals Totals  `json:"totals"`
	// Steps counts the pass steps of the cases that were not executed; nil if
	// there are none.
	Steps *StepCounts `json:"steps,omitempty"`
	// Cut counts the pieces of the programs that were judged in pieces; nil if
	// none was.
	Cut *CutCounts `json:"cut,omitempty"`
	// Memory counts the programs whose memory was examined; nil if none was.
	Memory *MemoryCounts `json:"memory,omitempty"`
	// Exploration says what was done beyond the cases; nil if nothing.
	Exploration *ExplorationResult `json:"exploration,omitempty"`
	// Missing are the shards of a merged result of which there is none, or not
	// all: in words, by name.
	Missing []string     `json:"missing,omitempty"`
	Cases   []CaseResult `json:"cases"`
	// Stored gives the cases, in order, where they are too many to hold; Cases is
	// nil then. Whoever renders a result reads them with EachCase.
	Stored     func(do func(*CaseResult) error) error `json:"-"`
	Findings   []Finding                              `json:"findings"`
	Statistics Statistics                             `json:"statistics"`
	// Policy is what the policy file did; nil without one.
	Policy *PolicyResult `json:"policy,omitempty"`
	// Part is what Merge needs of a shard's result; nil in others.
	Part *Part `json:"part,omitempty"`
	// Observed and Timing are what differs between equal runs. Observed is, by the
	// finding's id, what this run saw of findings that show themselves otherwise in
	// every execution.
	Observed map[string]string `json:"observed,omitempty"`
	Timing   Timing            `json:"timing"`
	// Dir is the directory that holds the run's reports, as its user wrote it; ""
	// while there is none.
	Dir string `json:"-"`
}

// Build describes one side.
type Build struct {
	Spec     string `json:"spec"`
	ID       string `json:"id"`
	Kind     string `json:"kind"` // executable or compile-only
	Platform string `json:"platform"`
	API      string `json:"api"`
	// Source says how to get the file of Spec where the spec does not tell: the
	// command and commit it was built by, or the artifact it comes from.
	Source string `json:"source,omitempty"`
	// Dropped are the comparison flags that the build does not have.
	Dropped []string `json:"dropped_flags,omitempty"`
}

// PassResult says how a pass in focus was exercised.
type PassResult struct {
	Name   string `json:"name"`
	Weight int    `json:"weight"`
	Reason string `json:"reason"`
	// Ran counts the pass steps seen in the dumps of base or head, whichever has
	// more (a change may remove a rewrite), Fired those that changed
	// the module, Cases the cases in which at least one did. A build dumps only
	// after passes that changed the module, so Ran equals Fired where the dumps
	// do not tell more.
	Ran   int `json:"ran"`
	Fired int `json:"fired"`
	Cases int `json:"cases"`
}

// Totals count cases, except where the name says elements.
type Totals struct {
	Cases      int `json:"cases"`
	PassesOnly int `json:"passes_only"`
	Executed   int `json:"executed"`
	// Judged elements were compared with a legal set, undecided ones have none.
	// Elements are counted once per input stream and flag stream.
	JudgedElements    int64 `json:"judged_elements"`
	UndecidedElements int64 `json:"undecided_elements"`
	// UndecidedDiffering are undecided elements on which base and head differ.
	UndecidedDiffering int64 `json:"undecided_differing"`
	Unsupported        int   `json:"unsupported"`
	Skipped            int   `json:"skipped"`
	Infrastructure     int   `json:"infrastructure"`
	Rejected           int   `json:"rejected"`
	// SkippedStreams are generated input streams that the reference could not
	// finish within its step limit, and that were therefore not run.
	SkippedStreams int `json:"skipped_streams"`
}

// Outcome says what became of a case.
type Outcome string

const (
	CaseOK             Outcome = "ok"
	CaseFinding        Outcome = "finding"
	CaseUndecided      Outcome = "undecided"
	CaseUnsupported    Outcome = "unsupported"
	CaseRejected       Outcome = "rejected"
	CaseSkipped        Outcome = "skipped"
	CaseInfrastructure Outcome = "infrastructure"
)

// Behaviour is what one build did with a case, in the words of replay.
type Behaviour string

const (
	Right          Behaviour = "right"
	Wrong          Behaviour = "wrong"
	Crashed        Behaviour = "crash"
	Hung           Behaviour = "hang"
	Flaky          Behaviour = "flaky" // wrong in some executions on the same inputs
	Unsupported    Behaviour = "unsupported"
	Undecided      Behaviour = "undecided" // nothing to judge
	Rejected       Behaviour = "rejected"
	Skipped        Behaviour = "skipped"
	Infrastructure Behaviour = "infrastructure"
)

// Bad reports whether a build did something that it must not.
func (b Behaviour) Bad() bool { return b == Wrong || b == Crashed || b == Hung || b == Flaky }

// CaseResult is one case.
type CaseResult struct {
	ID      string  `json:"id"`
	Outcome Outcome `json:"outcome"`
	// Finding is the id of the gravest finding of the case.
	Finding string `json:"finding,omitempty"`
	// Base and Head are the worst that each build did over all streams.
	Base   Behaviour `json:"base"`
	Head   Behaviour `json:"head"`
	Detail string    `json:"detail,omitempty"`
	// Hash is the SHA-256 of program and inputs.
	Hash    string         `json:"hash"`
	Streams []StreamResult `json:"streams"`
	// Legal are the outputs on which base and head differ and both are right.
	Legal []LegalDifference `json:"legal,omitempty"`
	// Steps counts the pass steps of a case that was not executed.
	Steps *StepCounts `json:"steps,omitempty"`
	// Cut counts the pieces of a program that was judged in pieces.
	Cut *CutCounts `json:"cut,omitempty"`
	// Buffers is what the compiled program needs in memory; nil unless both
	// builds tell.
	Buffers *Buffers `json:"buffers,omitempty"`
}

// Buffers are the bytes of all allocations of a compiled program but its
// constants, by the buffer assignment of each build under the comparison flags.
type Buffers struct {
	Base int64 `json:"base"`
	Head int64 `json:"head"`
}

// StreamResult is one input stream under one set of flags.
type StreamResult struct {
	Name      string    `json:"name"`  // as of fuzz.Stream: own, lattice, edges-1, ...
	Flags     string    `json:"flags"` // comparison, default
	Base      Behaviour `json:"base"`
	Head      Behaviour `json:"head"`
	Judged    int64     `json:"judged"`
	Undecided int64     `json:"undecided"`
	// Differing are elements on which base and head differ, legal or not.
	Differing int64  `json:"differing"`
	Detail    string `json:"detail,omitempty"`
}

// The two sets of flags.
const (
	ComparisonFlags = "comparison"
	DefaultFlags    = "default"
)

// Class is the kind of a finding.
type Class string

const (
	Miscompile         Class = "miscompile"
	NumericDegradation Class = "numeric-degradation"
	Crash              Class = "crash"
	Hang               Class = "hang"
	BufferCorruption   Class = "buffer-corruption"
	Nondeterminism     Class = "nondeterminism"
)

// Status says what a finding means for the change.
type Status string

const (
	New               Status = "new"
	PreExisting       Status = "pre-existing"
	Fixed             Status = "fixed"
	Contested         Status = "contested"
	ReferenceDisputed Status = "reference-disputed"
)

// Finding is a judged divergence.
type Finding struct {
	// ID is stable over runs: a hash of class, case, output and pass.
	ID       string `json:"id"`
	Class    Class  `json:"class"`
	Status   Status `json:"status"`
	Blocking bool   `json:"blocking"`
	Case     string `json:"case"`
	// Stream and Flags are where it showed first.
	Stream string `json:"stream"`
	Flags  string `json:"flags"`
	// Witnesses are the kinds of evidence that agree: "execution", ...
	Witnesses []string `json:"witnesses"`
	// Evidence is what each witness of the place says, per-pass validation first;
	// Disagreement says where they contradict each other, "" if they don't. Of a
	// finding that blocks, witnesses that execute speak of the smallest program
	// (InMinimal) where it shows the same step's fault.
	Evidence     []Evidence `json:"evidence,omitempty"`
	Disagreement string     `json:"disagreement,omitempty"`
	// Output to First are what the case shows; Piece says that it is the piece as it
	// was cut out of the case. Output is the leaf of the result, "0", "1", ...; "" for
	// a crash or hang.
	Output string `json:"output"`
	// Elements counts the judged elements of that leaf, Wrong those outside.
	Elements int64 `json:"elements"`
	Wrong    int64 `json:"wrong"`
	First    First `json:"first"`
	// Pass is the guilty pass step, nil while unknown.
	Pass *PassStep `json:"pass,omitempty"`
	// EnabledBy is the earlier step, right by itself, that made what Pass gets
	// wrong; nil if the program holds it from the start, or unknown.
	EnabledBy *PassStep `json:"enabled_by,omitempty"`
	// Culprits are all faults of the case in the order of the compilation, each
	// judged relative to what it was given; nil if Pass is the only one.
	Culprits []Culprit `json:"culprits,omitempty"`
	// FailureRate is set by a bisection where not every execution fails.
	FailureRate *FailureRate `json:"failure_rate,omitempty"`
	// Level says where in the compiler the fault lies; "" while unknown.
	Level Level `json:"level,omitempty"`
	// Piece is the kind of piece that shows it where the whole program shows
	// nothing: region (changed by a pass step), computation, fusion or operation.
	Piece       string `json:"piece,omitempty"`
	Instruction string `json:"instruction"`
	// Location says more about Instruction; nil while unknown.
	Location *Location `json:"location,omitempty"`
	// Minimal is the smallest failing program known, HLO text; Instructions its
	// size. InMinimal is what that program shows; nil if it is that of the case.
	Minimal      string     `json:"minimal"`
	Instructions int        `json:"instructions"`
	InMinimal    *InMinimal `json:"in_minimal,omitempty"`
	// Step is the module around the guilty pass step; nil if there is none or it
	// is too large to read.
	Step *StepText `json:"step,omitempty"`
	// Cluster is the same for the findings of one defect, in any case, run and
	// on any machine: a hash of class, guilty pass and rewrite (triage.Key).
	Cluster string `json:"cluster,omitempty"`
	// Rewrite is what the guilty pass step did at the place of the fault, in the
	// plainest program that shows it; nil if there is none.
	Rewrite *Rewrite `json:"rewrite,omitempty"`
	// Duplicates counts further streams and outputs of the case that show the
	// same and, on the first finding of a cluster, its other findings.
	Duplicates int `json:"duplicates"`
	// Contest names the argued semantics that the elements rest on.
	Contest []string `json:"contest,omitempty"`
	// Base and Head are what each build did on the stream.
	Base Behaviour `json:"base"`
	Head Behaviour `json:"head"`
	// Confirmed is "K of N": fresh processes in which it showed again; "" if it
	// was not tried.
	Confirmed string `json:"confirmed,omitempty"`
	// Unstable says that executions on the same inputs give different values: no
	// element is named then, and none are counted.
	Unstable bool `json:"unstable,omitempty"`
	// Nature says what kind of fault in memory it is: one of package memory's
	// kinds, worker's, or Unwritten; "" for others.
	Nature string `json:"nature,omitempty"`
	// KnownIssue is the id of the policy's known issue that the finding matches,
	// Override the person and the reason of the exception that lets it through.
	KnownIssue string `json:"known_issue,omitempty"`
	Override   string `json:"override,omitempty"`
	Detail     string `json:"detail"`
	// Observed is what this run saw beside what every run sees; in result.json it
	// stands under Result.Observed.
	Observed string `json:"-"`
	// CaseFile is the case with the inputs that show the finding, MinimalFile
	// the smallest such case known; nil in a result that was read from JSON.
	CaseFile    []byte `json:"-"`
	MinimalFile []byte `json:"-"`
}

// Said is Detail and what was observed in this run.
func (f *Finding) Said() string {
	if f.Observed == "" {
		return f.Detail
	}
	return appendDetail(f.Detail, "seen in this run: "+f.Observed)
}

// Rewrite is an expression before and after a pass step, without names, sizes
// and ranks: "#0" is a value that both sides read.
type Rewrite struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// StepText is the module before and after a pass step, as HLO text.
type StepText struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// First is the first wrong element, or the message of a crash.
type First struct {
	At    []int64 `json:"at"`
	Base  string  `json:"base"`
	Head  string  `json:"head"`
	Legal string  `json:"legal"`
}

// PassStep is one run of a pass; Name alone, "code generation", stands for
// everything behind the HLO passes.
type PassStep struct {
	Pipeline string
	// Index is the step's number among those of its pipeline, from 0;
	// unknownIndex if a compiler died in it and the pipeline's count with it.
	Index int
	Name  string
}

const unknownIndex = -1

// passStepJSON is a PassStep in result.json. Index 0 is a step's number, not the
// lack of one.
type passStepJSON struct {
	Pipeline string `json:"pipeline,omitempty"`
	Index    *int   `json:"index,omitempty"`
	Name     string `json:"name"`
}

// MarshalJSON writes {pipeline, index, name}, or {name} for what is no pass step.
func (p PassStep) MarshalJSON() ([]byte, error) {
	out := passStepJSON{Pipeline: p.Pipeline, Name: p.Name}
	if p.Pipeline != "" && p.Index != unknownIndex {
		out.Index = &p.Index
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *PassStep) UnmarshalJSON(data []byte) error {
	var in passStepJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*p = PassStep{Pipeline: in.Pipeline, Name: in.Name}
	switch {
	case in.Index != nil:
		p.Index = *in.Index
	case in.Pipeline != "":
		p.Index = unknownIndex
	}
	return nil
}

// String is "pipeline/index/name", or the name behind what is known.
func (p *PassStep) String() string {
	switch {
	case p.Pipeline == "":
		return p.Name
	case p.Index == unknownIndex:
		return p.Pipeline + "/" + p.Name
	}
	return fmt.Sprintf("%s/%d/%s", p.Pipeline, p.Index, p.Name)
}

// Level is a part of the compiler.
type Level string

const (
	LevelHLO     Level = "hlo"     // a pass changed the program's meaning
	LevelEmitter Level = "emitter" // every pass kept it: code generation or the runtime
	LevelLibrary Level = "library" // a library that a pass handed work to; Pass is that pass
	LevelAbort   Level = "abort"   // the compiler died
)

// Location is the place of the fault: inside the guilty pass step, the
// instruction that it rewrote; behind the passes, the kernel that computes
// wrong values.
type Location struct {
	Computation string `json:"computation"`
	Opcode      string `json:"opcode"`
	// After is what computes the value now.
	After       string `json:"after,omitempty"`
	AfterOpcode string `json:"after_opcode,omitempty"`
	Source      string `json:"source,omitempty"` // "file:line" of the user's program
	// InPlace says that the kernel updates a buffer in place.
	InPlace     bool   `json:"in_place,omitempty"`
	LegalBefore string `json:"legal_before,omitempty"`
	LegalAfter  string `json:"legal_after,omitempty"`
	// Inside is the operation inside a wrong fusion.
	Inside       string `json:"inside,omitempty"`
	InsideOpcode string `json:"inside_opcode,omitempty"`
	// Cause is "precision" if the difference vanishes when the operations of
	// Widened (a smallest such set) are computed in f64, "logic" if it stays
	// whatever is widened, "" if nobody asked or can tell. WidenedBefore says that
	// they are operations of the module before the step.
	Cause         string   `json:"cause,omitempty"`
	Widened       []string `json:"widened,omitempty"`
	WidenedBefore bool     `json:"widened_before,omitempty"`
}

// Statistics are about the run as a whole.
type Statistics struct {
	Cells []Cell `json:"cells"`
	Null  Null   `json:"null"`
	// Streams counts the judged input streams of the run.
	Streams int64 `json:"judged_streams,omitempty"`
	// ExpectedFalseBlocks is the expected number of false blocks in 1000 runs of
	// this size on changes without fault, from Null, with its 95 % interval; null
	// if nothing was measured.
	ExpectedFalseBlocks *float64    `json:"expected_false_blocks_per_1000"`
	ExpectedInterval    *[2]float64 `json:"expected_interval,omitempty"`
}

// Cell compares the accuracy of base and head for one kind of output, under the
// comparison flags.
type Cell struct {
	// Pass is the pass in focus that changed the programs; "" without focus or
	// where none did.
	Pass string `json:"pass"`
	// Operation is the opcode that made the outputs inexact, "arithmetic",
	// "composed" for several kinds, "unknown".
	Operation string `json:"operation"`
	Dtype     string `json:"dtype"`
	Stream    string `json:"stream"`
	// Programs have inexact outputs of this kind; Betting of them show a
	// difference in accuracy.
	Programs int `json:"programs"`
	Betting  int `json:"betting"`
	// Elements are inexact elements on which both builds are legal; Changed those
	// on which they differ, HeadWorse and BaseWorse those on which one is farther
	// from the centre.
	Elements  int64 `json:"elements"`
	Changed   int64 `json:"changed"`
	HeadWorse int64 `json:"head_worse"`
	BaseWorse int64 `json:"base_worse"`
	// Base and Head are distances from the centre in ULPs.
	Base Distances `json:"base"`
	Head Distances `json:"head"`
	// E is the e-value against "head is not less accurate"; Discovered says that
	// e-BH rejects that over all cells at false discovery rate 0.05.
	E          float64 `json:"e"`
	Discovered bool    `json:"discovered"`
	// Ratio is head's mean distance over base's, Shift their difference in ULPs:
	// medians over the programs with 95 % confidence sequences; nil without
	// evidence.
	Ratio *Interval `json:"ratio,omitempty"`
	Shift *Interval `json:"shift,omitempty"`
	// Budget is the loss in ULPs above which the cell may block; nil if none is
	// declared.
	Budget *float64 `json:"budget,omitempty"`
	// Excluded says why the cell is not believed; "" if it is.
	Excluded string `json:"excluded,omitempty"`
}

// Null is the calibration: alarms of the gate on base against base and against
// legal variants of base. Every alarm is false. Cells are judged input streams.
type Null struct {
	// Cases is the sample.
	Cases    int           `json:"cases"`
	Cells    int64         `json:"cells"`
	Alarms   int64         `json:"alarms"`
	Rate     float64       `json:"rate"`
	Interval [2]float64    `json:"interval"` // 95 %, Clopper-Pearson
	Variants []NullVariant `json:"variants"`
	// Alarmed says where: "case, stream, variant: class".
	Alarmed []string `json:"alarmed"`
	// Excluded are the cells of the accuracy statistics in which legal variants
	// lose accuracy, too.
	Excluded []string `json:"excluded"`
}

// Timing is the only part that differs between equal runs.
type Timing struct {
	Seconds          float64 `json:"seconds"`
	InXLASeconds     float64 `json:"in_xla_seconds"`
	ReferenceSeconds float64 `json:"reference_seconds"`
	Workers          int     `json:"workers"`
	CasesPerSecond   float64 `json:"cases_per_second"`
}

// ExitCode is the exit code of a verdict (DESIGN section 6).
func (v Verdict) ExitCode() int {
	switch v {
	case Blocked:
		return 1
	case Inconclusive:
		return 3
	case NotExercised:
		return 4
	}
	return 0
}
