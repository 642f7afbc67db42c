package passes

import "slices"

// executionPasses decide how a program is computed, and not what: their output
// is right HLO even where what is made of it is not. A wrong fusion, layout,
// buffer or library call shows when the program runs.
var executionPasses = []string{
	"fusion", "fusion-wrapper", "cpu_multi_output_fusion", "multi_output_fusion", "priority-fusion", // what becomes one kernel
	"dot-library-rewriter", "onednn-contraction-rewriter", "onednn-ops-rewriter", // what a library computes
	"layout-assignment", "layout-normalization", // where elements lie
	"copy-insertion", "optimize_input_output_buffer_alias", // which buffers are shared
	"cpu-parallel-task-assigner", "small-while-loop-hoisting", "flatten-call-graph", // how it is run
}

// NeedsExecution says that faults of the pass show when programs run, and not
// in the pass's output.
func (p *Pass) NeedsExecution() bool { return slices.Contains(executionPasses, p.Name) }

// NeedsExecution says that a change may show only when programs run: it touches
// code generation, a library, the runtime, or passes of that kind; with why.
func (p Plan) NeedsExecution() (bool, string) {
	for _, f := range p.Files {
		if f.Tier == Unknown || f.CodeGeneration {
			return true, f.Reason
		}
	}
	for _, f := range p.Focus {
		if f.Weight >= weights[OwnFile] && f.Pass.NeedsExecution() {
			return true, f.Pass.Name + " decides how programs are computed"
		}
	}
	return false, ""
}
