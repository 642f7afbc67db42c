package swarm

import (
	"github.com/passgate/passgate/swarm/checkout"
	"github.com/passgate/passgate/swarm/operation"
)

// Role is what an agent does.
type Role string

const (
	Stressor   Role = "stressor"
	Reproducer Role = "reproducer"
	Analyst    Role = "analyst"
	Fixer      Role = "fixer"
	Reviewer   Role = "reviewer"
)

// Stress is what a stressor hands in.
type Stress struct {
	Risks    []Risk              `json:"risks" jsonschema:"the rewrites of the pass that may change what a program means, riskiest first"`
	Programs []operation.Program `json:"programs" jsonschema:"1 to 16 programs, each aimed at one risk; choose inputs that would show it"`
}

// Risk is a rewrite that may be wrong.
type Risk struct {
	Rewrite string `json:"rewrite" jsonschema:"what is rewritten into what"`
	Why     string `json:"why" jsonschema:"when it would be wrong"`
}

// maxPrograms bounds the programs of one output.
const maxPrograms = 16

// Reproduction is what a reproducer hands in.
type Reproduction struct {
	Program operation.Program `json:"program" jsonschema:"a program that shows what the report tells of"`
	Claim   string            `json:"claim" jsonschema:"what is wrong in it, in a sentence"`
}

// The verdicts of an explanation.
const (
	Illegal   = "illegal"
	Legal     = "legal"
	Contested = "contested"
)

// Explanation is what an analyst hands in.
type Explanation struct {
	Step        string `json:"step" jsonschema:"the guilty pass step, pipeline/index/pass as the tool steps lists it, or: code generation"`
	Instruction string `json:"instruction" jsonschema:"name of an instruction that this step rewrote, as the module before or after it has it; behind the passes, of the kernel"`
	Rewrite     string `json:"rewrite" jsonschema:"which rewrite was made"`
	Why         string `json:"why" jsonschema:"why it changes the value"`
	Verdict     string `json:"verdict" jsonschema:"illegal, legal or contested"`
	Rule        string `json:"rule" jsonschema:"the rule that says so: a section of the StableHLO specification, a comment in the source, a paper"`
	DuplicateOf string `json:"duplicate_of,omitempty" jsonschema:"id of an earlier finding that is the same defect"`
}

// Fix is what a fixer hands in.
type Fix struct {
	Edits   []checkout.Edit `json:"edits" jsonschema:"replacements of text in .cc, .h and .hlo files; a file that is not there is made with an empty old text"`
	Test    string          `json:"test" jsonschema:"path of the edited unit test (*_test.cc, or .hlo) that now holds a module, in a raw string with ENTRY, which shows the fault"`
	Summary string          `json:"summary" jsonschema:"what was wrong and what the patch does, as a commit message"`
}

// Review is what a reviewer hands in.
type Review struct {
	Refuted bool   `json:"refuted" jsonschema:"whether you can show that it is wrong"`
	Why     string `json:"why" jsonschema:"what you tried, and what came of it"`
	// Counterexample is the evidence: of a fix, a program that the fixed build
	// gets wrong and base right; of a reproduction, a smaller program with the same
	// fault.
	Counterexample *operation.Program `json:"counterexample,omitempty" jsonschema:"the program that shows it: for a fix, one that the fixed build gets wrong and base right; for a reproduction, a smaller one with the same fault"`
}

// prompts are the system prompts. The rule about data follows each.
var prompts = map[Role]string{
	Stressor: `You stress a pass of the XLA compiler. Read its source and the change, name the rewrites that could change what a program means, and write small HLO programs, with inputs, that would show it: edge values, overflow, narrow integers, NaN and signed zero, out-of-range indices, dilation, padding, empty and one-element dimensions, nested operations of the same kind.
Try programs with run_case first. Then hand in with submit. Programs are parsed, verified, compiled by both builds and compared with a reference interpreter; only that counts.`,
	Reproducer: `You turn a report about a wrong result or a crash of the XLA compiler into an HLO program. The report may be prose, a trace or a log. Write the program that it tells of, with inputs that show the fault, try it with run_case, and hand it in with submit. It counts if the gate sees a fault in it; the gate makes it smaller by itself.`,
	Analyst:    `You explain a finding about the XLA compiler: which rewrite of which pass step changed the value, why, and whether a rule allows that. Look at steps, show_step and the source of the pass. Hand in with submit. The step and the instruction must be in the compiler's dumps, and the gate's own validation of every step must not speak against them.`,
	Fixer:      `You mend a pass of the XLA compiler. Read its source and its unit test, and hand in with submit the smallest change that makes the rewrite right (do not switch the pass off), together with a regression test in the style of the unit test, whose module shows the fault. It is built and judged: the finding must be gone, the test's module must fail before and pass after, the whole gate must see nothing new, the pass must still fire on its own tests.`,
	Reviewer:   `You try to refute what another agent handed in. Be inventive: look for a program that breaks it. An objection counts only with a counterexample that the gate confirms; other objections are noted. Hand in with submit; say that it is not refuted if you found nothing.`,
}
