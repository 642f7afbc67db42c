package memory

import (
	"slices"

	"github.com/passgate/passgate/hlo"
)

// sharing says whether an instruction may write an output over an operand.
type sharing uint8

const (
	unsafeShare sharing = iota
	safeShare
	unknownShare // the checker has no rule for it
)

// elementwise reports whether element i of the result depends on element i of
// every operand of that size, and on nothing else of it (StableHLO, elementwise
// operations).
func elementwise(op hlo.Opcode) bool {
	switch op {
	case hlo.OpAbs, hlo.OpAdd, hlo.OpAnd, hlo.OpAtan2, hlo.OpBitcastConvert, hlo.OpCbrt, hlo.OpCeil, hlo.OpClamp, hlo.OpCountLeadingZeros, hlo.OpCompare, hlo.OpComplex,
		hlo.OpConvert, hlo.OpCosine, hlo.OpDivide, hlo.OpErf, hlo.OpExponential, hlo.OpExponentialMinusOne, hlo.OpFloor, hlo.OpImag, hlo.OpIsFinite, hlo.OpLog,
		hlo.OpLogPlusOne, hlo.OpLogistic, hlo.OpMap, hlo.OpMaximum, hlo.OpMinimum, hlo.OpMultiply, hlo.OpNegate, hlo.OpNot, hlo.OpOr, hlo.OpPower, hlo.OpReal,
		hlo.OpReducePrecision, hlo.OpRemainder, hlo.OpRoundNearestAFZ, hlo.OpRoundNearestEven, hlo.OpRsqrt, hlo.OpSelect, hlo.OpShiftLeft,
		hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical, hlo.OpSign, hlo.OpSine, hlo.OpSqrt, hlo.OpStochasticConvert, hlo.OpSubtract, hlo.OpTan, hlo.OpTanh,
		hlo.OpXor, hlo.OpPopcnt, hlo.OpAsin, hlo.OpAcos, hlo.OpAsinh, hlo.OpAcosh, hlo.OpAtanh, hlo.OpCosh, hlo.OpSinh:
		return true
	}
	return false
}

// shares says whether in may write its output leaf over leaf of operand k,
// which has the same place. The rule: whatever order the elements are computed
// in, an element of the operand must be read only for the element of the output
// that takes its place.
func shares(in *hlo.Instruction, output, k, leaf int) sharing {
	operand := in.Operands[k]
	switch {
	case in.Op == hlo.OpFusion:
		return fusionShares(in, k)
	case elementwise(in.Op), in.Op == hlo.OpCopy:
		if sameOrder(operand.Shape, in.Shape) {
			return safeShare
		}
		return unsafeShare
	}
	switch in.Op {
	case hlo.OpDynamicUpdateSlice:
		if k == 0 {
			return safeShare
		}
		return unsafeShare
	case hlo.OpScatter:
		if k == output {
			return safeShare
		}
		return unsafeShare
	case hlo.OpSort, hlo.OpAllReduce, hlo.OpAllReduceStart, hlo.OpCollectivePermute, hlo.OpAllToAll:
		if k == output {
			return safeShare
		}
		return unsafeShare
	case hlo.OpReshape, hlo.OpTranspose, hlo.OpBroadcast, hlo.OpReduce, hlo.OpReverse, hlo.OpSlice, hlo.OpDynamicSlice, hlo.OpPad, hlo.OpConcatenate,
		hlo.OpDot, hlo.OpConvolution, hlo.OpReduceWindow, hlo.OpGather, hlo.OpSelectAndScatter:
		if keepsOrder(in, k) {
			return safeShare
		}
		return unsafeShare
	}
	return unknownShare
}

// sameOrder reports whether two arrays have their elements at the same bytes:
// same sizes in memory order, same width.
func sameOrder(a, b *hlo.Shape) bool {
	if !a.IsArray() || !b.IsArray() || a.Type.Bits() != b.Type.Bits() || a.Elems() != b.Elems() {
		return false
	}
	return slices.Equal(physical(a), physical(b))
}

// physical are the sizes of the dimensions from the slowest to the fastest,
// without those of size one.
func physical(s *hlo.Shape) []int64 {
	var out []int64
	for i := len(s.Dims) - 1; i >= 0; i-- {
		d := len(s.Dims) - 1 - i
		if s.Layout != nil && len(s.Layout.MinorToMajor) == len(s.Dims) {
			d = int(s.Layout.MinorToMajor[i])
		}
		if s.Dims[d] != 1 {
			out = append(out, s.Dims[d])
		}
	}
	return out
}

// keepsOrder reports whether a data movement, or a reduction of dimensions of
// size one, gives every element the byte that it had.
func keepsOrder(in *hlo.Instruction, k int) bool {
	a, b := in.Operands[k].Shape, in.Shape
	if !a.IsArray() || !b.IsArray() || a.Type.Bits() != b.Type.Bits() || a.Elems() != b.Elems() {
		return false
	}
	if a.Elems() == 1 {
		return true
	}
	switch in.Op {
	case hlo.OpReshape:
		// Linear order is kept if both lie in row-major order; a bitcast is the
		// general case.
		return rowMajor(a) && rowMajor(b)
	case hlo.OpTranspose, hlo.OpBroadcast:
		return sameOrder(a, b) && movesOnlyUnits(in)
	case hlo.OpReduce:
		return k < len(in.Operands)/2 && sameOrder(a, b)
	case hlo.OpSlice, hlo.OpDynamicSlice, hlo.OpGather:
		return (in.Op != hlo.OpGather) && k == 0 && sameOrder(a, b)
	case hlo.OpPad, hlo.OpConcatenate:
		return sameOrder(a, b)
	}
	return false
}

// movesOnlyUnits reports whether a transpose or broadcast keeps the order of
// the dimensions that are larger than one, in memory.
func movesOnlyUnits(in *hlo.Instruction) bool {
	from, to := in.Operands[0].Shape, in.Shape
	order := func(s *hlo.Shape) []int {
		var out []int
		for i := len(s.Dims) - 1; i >= 0; i-- {
			d := len(s.Dims) - 1 - i
			if s.Layout != nil && len(s.Layout.MinorToMajor) == len(s.Dims) {
				d = int(s.Layout.MinorToMajor[i])
			}
			if s.Dims[d] != 1 {
				out = append(out, d)
			}
		}
		return out
	}
	dims := in.Dimensions()
	a, b := order(from), order(to)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if in.Op == hlo.OpTranspose { // dimension d of the result is dims[d] of the operand
			if int(dims[b[i]]) != a[i] {
				return false
			}
		} else if int(dims[a[i]]) != b[i] {
			return false
		}
	}
	return true
}

func rowMajor(s *hlo.Shape) bool {
	if s.Layout == nil {
		return true
	}
	for i, d := range s.Layout.MinorToMajor {
		if int(d) != len(s.Dims)-1-i {
			return false
		}
	}
	return true
}

// fusionShares follows operand k through the fused computation. It may be
// overwritten if every use leads to the result at the same place, or is a read
// of the window that an in-place update of it writes.
func fusionShares(in *hlo.Instruction, k int) sharing {
	fused := in.Called[0]
	params := fused.Params()
	if k >= len(params) || params[k] == nil {
		return unknownShare
	}
	users := map[*hlo.Instruction][]*hlo.Instruction{}
	for _, u := range fused.Instructions {
		for i, o := range u.Operands {
			if !slices.Contains(u.Operands[:i], o) {
				users[o] = append(users[o], u)
			}
		}
	}
	f := &fusionWalk{users: users, param: params[k], seen: map[*hlo.Instruction]bool{}, reads: map[*hlo.Instruction]*hlo.Instruction{}}
	return f.whole(params[k])
}

type fusionWalk struct {
	users map[*hlo.Instruction][]*hlo.Instruction
	param *hlo.Instruction
	seen  map[*hlo.Instruction]bool
	reads map[*hlo.Instruction]*hlo.Instruction
}

func worse(a, b sharing) sharing {
	switch {
	case a == unsafeShare || b == unsafeShare:
		return unsafeShare
	case a == unknownShare || b == unknownShare:
		return unknownShare
	}
	return safeShare
}

// whole follows a node whose element i depends on element i of the parameter.
func (f *fusionWalk) whole(node *hlo.Instruction) sharing {
	if f.seen[node] {
		return safeShare
	}
	f.seen[node] = true
	out := safeShare
	for _, u := range f.users[node] {
		switch {
		case u.Op == hlo.OpTuple:
		case u.Op == hlo.OpBitcast, u.Op == hlo.OpCopy && sameOrder(node.Shape, u.Shape), elementwise(u.Op) && sameOrderAnyWidth(node.Shape, u.Shape):
			out = worse(out, f.whole(u))
		case u.Op == hlo.OpDynamicUpdateSlice && u.Operands[0] == node && !slices.Contains(u.Operands[1:], node):
			out = worse(out, f.whole(u))
		case u.Op == hlo.OpScatter && u.Operands[0] == node && !slices.Contains(u.Operands[1:], node):
			out = worse(out, f.whole(u))
		case u.Op == hlo.OpDynamicSlice && u.Operands[0] == node, u.Op == hlo.OpSlice:
			out = worse(out, f.window(u, u))
		case u.Op == hlo.OpFusion || u.Op == hlo.OpCall || u.Op == hlo.OpCustomCall:
			out = worse(out, unknownShare)
		default:
			for i, o := range u.Operands {
				if o == node && !keepsOrder(u, i) {
					return unsafeShare
				}
			}
			out = worse(out, f.whole(u))
		}
	}
	return out
}

func sameOrderAnyWidth(a, b *hlo.Shape) bool {
	return a.IsArray() && b.IsArray() && slices.Equal(physical(a), physical(b))
}

// window follows a value read from a window of the parameter: it may only go
// into an update of that same window.
func (f *fusionWalk) window(node, read *hlo.Instruction) sharing {
	out := safeShare
	for _, u := range f.users[node] {
		switch {
		case u.Op == hlo.OpBitcast, elementwise(u.Op) && sameOrderAnyWidth(node.Shape, u.Shape):
			out = worse(out, f.window(u, read))
		case u.Op == hlo.OpDynamicUpdateSlice && u.Operands[1] == node && !slices.Contains(u.Operands[2:], node) && f.leadsTo(u.Operands[0]) && sameWindow(read, u):
		default:
			return unsafeShare
		}
	}
	if len(f.users[node]) == 0 {
		return unsafeShare // it is the result: other elements than its own place
	}
	return out
}

// leadsTo reports whether a node is the parameter, seen through bitcasts.
func (f *fusionWalk) leadsTo(node *hlo.Instruction) bool {
	for node.Op == hlo.OpBitcast || node.Op == hlo.OpCopy {
		node = node.Operands[0]
	}
	return node == f.param
}

// side is a window along one dimension: sizes of the array and of the window,
// and where it starts.
type side struct {
	size, window int64
	start        *hlo.Instruction // nil: at the constant
	constant     int64
}

// sameWindow reports whether a slice reads what an update writes, in memory:
// bitcasts may have added or dropped dimensions of size one.
func sameWindow(read, update *hlo.Instruction) bool {
	source, target := read.Operands[0].Shape, update.Operands[0].Shape
	starts := func(list []*hlo.Instruction) func(d int) (*hlo.Instruction, int64) {
		return func(d int) (*hlo.Instruction, int64) {
			if list[d].Op == hlo.OpConstant {
				return nil, list[d].Literal.Int(0)
			}
			return list[d], 0
		}
	}
	from := starts(read.Operands[1:])
	if read.Op == hlo.OpSlice {
		for _, s := range read.Attr.GetSliceDimensions() {
			if s.GetStride() > 1 {
				return false
			}
		}
		from = func(d int) (*hlo.Instruction, int64) { return nil, read.Attr.GetSliceDimensions()[d].GetStart() }
	}
	return slices.Equal(sides(source, read.Shape, from), sides(target, update.Operands[1].Shape, starts(update.Operands[2:])))
}

// sides are those of the dimensions larger than one, from the slowest. A window
// as large as the array starts at 0, whatever is asked (clamping).
func sides(array, window *hlo.Shape, start func(d int) (*hlo.Instruction, int64)) []side {
	var out []side
	for i := len(array.Dims) - 1; i >= 0; i-- {
		d := len(array.Dims) - 1 - i
		if array.Layout != nil && len(array.Layout.MinorToMajor) == len(array.Dims) {
			d = int(array.Layout.MinorToMajor[i])
		}
		if array.Dims[d] == 1 {
			continue
		}
		s := side{size: array.Dims[d], window: window.Dims[d]}
		if s.window < s.size {
			s.start, s.constant = start(d)
		}
		out = append(out, s)
	}
	return out
}
