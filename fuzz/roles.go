package fuzz

import "github.com/passgate/passgate/hlo"

// leafKey names an array leaf of an entry parameter.
type leafKey struct{ param, leaf int }

// role says what an integer leaf is used for: index is the smallest extent
// that it indexes, count the largest useful value of a size or trip count; 0
// is none.
type role struct{ index, count int64 }

// maxTrips bounds generated integers that enter a while loop as scalars, since
// they may be its trip count. Loops of a handful of trips show what loop
// passes do; random 32-bit counts would run for hours.
const maxTrips = 12

// parameterRoles finds the uses of entry parameters as indices, sizes and trip
// counts: it walks from each such operand back to the parameters, through
// operations that move or combine integers without forgetting what they are.
func parameterRoles(m *hlo.Module) map[leafKey]role {
	w := &roleWalk{
		entry:   m.Entry,
		callers: map[*hlo.Computation][]*hlo.Instruction{},
		owner:   map[*hlo.Instruction]*hlo.Computation{},
		roles:   map[leafKey]role{},
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			w.owner[in] = c
			for _, called := range in.Called {
				w.callers[called] = append(w.callers[called], in)
			}
		}
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			w.sinks(in)
		}
	}
	return w.roles
}

type roleWalk struct {
	entry   *hlo.Computation
	callers map[*hlo.Computation][]*hlo.Instruction
	owner   map[*hlo.Instruction]*hlo.Computation
	roles   map[leafKey]role
	seen    map[visit]bool
}

type visit struct {
	in   *hlo.Instruction
	path string
}

// sinks starts walks at the operands of in that are indices or counts.
func (w *roleWalk) sinks(in *hlo.Instruction) {
	extent := func(shape *hlo.Shape, dims []int64) int64 {
		n := int64(0)
		for _, d := range dims {
			if d >= 0 && int(d) < len(shape.Dims) {
				n = max(n, shape.Dims[d])
			}
		}
		return n
	}
	each := func(operands []*hlo.Instruction, dims []int64) {
		for i, op := range operands {
			n := extent(dimsShape(dims), []int64{int64(i)})
			if len(op.Shape.Dims) == 1 { // one operand holds all starts
				n = maxOf(dims)
			}
			w.start(op, role{index: n})
		}
	}
	switch in.Op {
	case hlo.OpDynamicSlice:
		each(in.Operands[1:], in.Operands[0].Shape.Dims)
	case hlo.OpDynamicUpdateSlice:
		each(in.Operands[2:], in.Operands[0].Shape.Dims)
	case hlo.OpGather:
		w.start(in.Operands[1], role{index: extent(in.Operands[0].Shape, in.Attr.GetGatherDimensionNumbers().GetStartIndexMap())})
	case hlo.OpScatter:
		n := len(in.Operands) / 2
		w.start(in.Operands[n], role{index: extent(in.Operands[0].Shape, in.Attr.GetScatterDimensionNumbers().GetScatterDimsToOperandDims())})
	case hlo.OpConditional:
		if in.Operands[0].Shape.Type.IsInteger() {
			w.start(in.Operands[0], role{index: int64(len(in.Called))})
		}
	case hlo.OpSetDimensionSize:
		w.start(in.Operands[1], role{count: maxOf(in.Operands[0].Shape.Dims)})
	case hlo.OpWhile:
		w.scalars(in.Operands[0], in.Operands[0].Shape, nil)
	}
}

func dimsShape(dims []int64) *hlo.Shape { return &hlo.Shape{Dims: dims} }

func maxOf(dims []int64) int64 {
	n := int64(0)
	for _, d := range dims {
		n = max(n, d)
	}
	return n
}

// scalars walks from every integer scalar of a loop's initial state.
func (w *roleWalk) scalars(in *hlo.Instruction, shape *hlo.Shape, path []int) {
	if shape.IsTuple() {
		for i, e := range shape.Elements {
			w.scalars(in, e, append(path[:len(path):len(path)], i))
		}
		return
	}
	if shape.Type.IsInteger() && len(shape.Dims) == 0 {
		w.seen = map[visit]bool{}
		w.walk(in, path, role{count: maxTrips})
	}
}

func (w *roleWalk) start(in *hlo.Instruction, r role) {
	if r.index == 0 && r.count == 0 {
		return
	}
	w.seen = map[visit]bool{}
	w.walk(in, nil, r)
}

// walk goes back from the element of in's value that path names.
func (w *roleWalk) walk(in *hlo.Instruction, path []int, r role) {
	v := visit{in, pathKey(path)}
	if w.seen[v] {
		return
	}
	w.seen[v] = true
	switch in.Op {
	case hlo.OpParameter:
		w.parameter(in, path, r)
	case hlo.OpTuple:
		if len(path) > 0 && path[0] < len(in.Operands) {
			w.walk(in.Operands[path[0]], path[1:], r)
		}
	case hlo.OpGetTupleElement:
		w.walk(in.Operands[0], append([]int{int(in.Attr.GetTupleIndex())}, path...), r)
	case hlo.OpCall, hlo.OpFusion:
		w.walk(in.Called[0].Root, path, r)
	case hlo.OpWhile:
		w.walk(in.Operands[0], path, r)
	case hlo.OpConditional:
		for _, c := range in.Called {
			w.walk(c.Root, path, r)
		}
	case hlo.OpConvert, hlo.OpBitcast, hlo.OpReshape, hlo.OpBroadcast, hlo.OpTranspose, hlo.OpSlice, hlo.OpDynamicSlice,
		hlo.OpCopy, hlo.OpPad, hlo.OpReverse, hlo.OpGather, hlo.OpOptBarrier:
		w.walk(in.Operands[0], path, r)
	case hlo.OpSelect:
		w.walk(in.Operands[1], path, r)
		w.walk(in.Operands[2], path, r)
	case hlo.OpClamp:
		w.walk(in.Operands[1], path, r)
	case hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpMinimum, hlo.OpMaximum, hlo.OpConcatenate:
		for _, op := range in.Operands {
			w.walk(op, path, r)
		}
	}
}

func pathKey(path []int) string {
	b := make([]byte, 0, 2*len(path))
	for _, i := range path {
		b = append(b, byte(i), byte(i>>8))
	}
	return string(b)
}

func (w *roleWalk) parameter(in *hlo.Instruction, path []int, r role) {
	number := int(in.Attr.GetParameterNumber())
	c := w.owner[in]
	if c != w.entry {
		for _, caller := range w.callers[c] {
			switch caller.Op {
			case hlo.OpCall, hlo.OpFusion:
				w.walk(caller.Operands[number], path, r)
			case hlo.OpWhile:
				w.walk(caller.Operands[0], path, r)
			case hlo.OpConditional:
				for i, branch := range caller.Called {
					if branch == c {
						w.walk(caller.Operands[i+1], path, r)
					}
				}
			}
		}
		return
	}
	key := leafKey{number, leafIndex(in.Shape, path)}
	old := w.roles[key]
	if r.index != 0 && (old.index == 0 || r.index < old.index) {
		old.index = r.index
	}
	if r.count != 0 && (old.count == 0 || r.count < old.count) {
		old.count = r.count
	}
	w.roles[key] = old
}

// leafIndex is the number of the leaf that path names.
func leafIndex(s *hlo.Shape, path []int) int {
	n := 0
	for _, i := range path {
		if i >= len(s.Elements) {
			break
		}
		for _, e := range s.Elements[:i] {
			n += len(e.Leaves())
		}
		s = s.Elements[i]
	}
	return n
}
