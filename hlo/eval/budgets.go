package eval

import "github.com/passgate/passgate/hlo"

// budget is what a legal implementation of an operation may be off, beside
// what its operands are off: ulps units in the last place of the result, plus
// abs.
type budget struct{ ulps, abs float64 }

func budgetOf(op hlo.Opcode, f *floatType) budget { return budget{ulps: 4} }

func divideBudget(f *floatType) float64 {
	if f.wide {
		return 1.5
	}
	return 2.5
}

func complexBudget(op hlo.Opcode, f *floatType) budget { return budget{ulps: 50} }
