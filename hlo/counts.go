package hlo

import "fmt"

// checkCounts checks the number of operands and of called computations, so
// that code after it may index them. Source: xla/hlo/ir/hlo_instruction.cc,
// CreateFromProto.
func (in *Instruction) checkCounts() error {
	if n := in.Op.Arity(); n != Variadic && len(in.Operands) != n {
		return fmt.Errorf("%v has %d operands, want %d", in.Op, len(in.Operands), n)
	}
	n := len(in.Operands)
	atLeast := func(k int) error {
		if n < k {
			return fmt.Errorf("%v has %d operands, want at least %d", in.Op, n, k)
		}
		return nil
	}
	var err error
	switch in.Op {
	case OpReduce, OpReduceWindow:
		if n == 0 || n%2 != 0 {
			return fmt.Errorf("%v has %d operands, want an even number: inputs, then as many initial values", in.Op, n)
		}
	case OpSort, OpDynamicSlice, OpAsyncUpdate, OpConcatenate, OpDynamicReshape, OpMap, OpCollectivePermute, OpCollectivePermuteStart:
		err = atLeast(1)
	case OpDynamicUpdateSlice, OpConvolution:
		err = atLeast(2)
	case OpScatter:
		if n < 3 || n%2 == 0 {
			return fmt.Errorf("scatter has %d operands, want inputs, indices and as many updates as inputs", n)
		}
	case OpConditional:
		if n != len(in.Called)+1 || n < 2 {
			return fmt.Errorf("conditional has %d operands for %d branches, want one more", n, len(in.Called))
		}
		if in.Operands[0].Shape != nil && in.Operands[0].Shape.Type == Pred && n != 3 {
			return fmt.Errorf("conditional on a predicate has %d branches, want 2", len(in.Called))
		}
	case OpScan:
		if k := in.Attr.GetNumCarries(); k < 0 || k > int64(n) {
			return fmt.Errorf("scan has %d carries but %d operands", k, n)
		}
	}
	if err != nil {
		return err
	}
	if lo, hi := in.Op.calls(); len(in.Called) < lo || hi != Variadic && len(in.Called) > hi {
		return fmt.Errorf("%v calls %d computations, want %d", in.Op, len(in.Called), lo)
	}
	return nil
}

// calls is the least and the largest number of called computations.
func (op Opcode) calls() (lo, hi int) {
	switch op {
	case OpAllReduce, OpAllReduceStart, OpReduceScatter, OpAsyncStart, OpReduce, OpSort, OpMap, OpScan, OpFusion,
		OpReduceWindow, OpScatter, OpCall:
		return 1, 1
	case OpSelectAndScatter, OpWhile:
		return 2, 2
	case OpAsyncUpdate, OpAsyncDone:
		return 0, 1
	case OpTopk:
		return 0, 1
	case OpConditional:
		return 1, Variadic
	case OpCustomCall:
		return 0, Variadic
	}
	return 0, 0
}
