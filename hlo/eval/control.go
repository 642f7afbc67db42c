package eval

import (
	"slices"

	"github.com/passgate/passgate/hlo"
)

// callOp evaluates call and fusion: the value of the called computation.
func (e *Evaluator) callOp(in *hlo.Instruction, operands []*Value) (*Value, error) {
	c, err := called(in, 0, len(operands))
	if err != nil {
		return nil, err
	}
	return e.call(c, operands)
}

// called is a called computation that takes n parameters.
func called(in *hlo.Instruction, i, n int) (*hlo.Computation, error) {
	if i >= len(in.Called) {
		return nil, malformed(in, "no called computation %d", i)
	}
	if c := in.Called[i]; len(c.Params()) != n {
		return nil, malformed(in, "%s takes %d parameters, not %d", c.Name, len(c.Params()), n)
	}
	return in.Called[i], nil
}

// maxUndecidedTrips is how many iterations one while loop may go on after its
// condition became undecided, and maxUndecidedTotal how many all loops of a run
// together; see while.
const (
	maxUndecidedTrips = 256
	maxUndecidedTotal = 1024
)

// while runs a loop. Where the condition is undecided, an implementation may
// leave the loop here or go on, so the result is the union of the states at
// all places where it may leave. If that does not end, or the state tells
// nothing any more, the result is undecided apart from elements that the body
// passes through. The error of a loop that never ends is ErrEndless (see cycle).
func (e *Evaluator) while(in *hlo.Instruction, state *Value) (*Value, error) {
	body, err := called(in, 0, 1)
	if err != nil {
		return nil, err
	}
	condition, err := called(in, 1, 1)
	if err != nil {
		return nil, err
	}
	var exits *Value // union of the states at places where the loop may have ended
	var contest Contest
	var seen *cycle
	for trips, iterations := 0, 0; ; iterations++ {
		if iterations == watchFrom && e.opts.Settle == nil {
			seen = watch(condition, body)
		}
		if err := e.step(); err != nil {
			return nil, err
		}
		v, err := e.call(condition, []*Value{state})
		if err != nil {
			return nil, err
		}
		if v.Array == nil || v.Array.Type != hlo.Pred || v.Array.Len() != 1 {
			return nil, malformed(in, "the condition %s is not a scalar pred", condition.Name)
		}
		p := v.Array.At(0)
		contest |= p.Contest
		switch {
		case p.Undecided:
			exits = e.union(exits, state)
			trips++
			e.undecidedTrips++
			if trips > maxUndecidedTrips || e.undecidedTrips > maxUndecidedTotal || e.unknown(body, state) {
				return e.giveUp(in, body, state, contest), nil
			}
		case p.I == 0:
			return contestedValue(e.union(exits, state), contest), nil
		case trips == 0 && seen.repeats(state):
			return nil, ErrEndless
		}
		if state, err = e.call(body, []*Value{state}); err != nil {
			return nil, err
		}
	}
}

// giveUp is the result of a loop whose number of iterations is unknown.
func (e *Evaluator) giveUp(in *hlo.Instruction, body *hlo.Computation, state *Value, contest Contest) *Value {
	if body.Root.Op == hlo.OpParameter {
		return state
	}
	r := undecidedValue(in.Shape, contest)
	for i := range r.Elements {
		if passesThrough(body.Root, i) {
			r.Elements[i] = state.Elements[i]
		}
	}
	return r
}

// passesThrough says whether element i of the loop state is left alone by a
// body with the given root.
func passesThrough(root *hlo.Instruction, i int) bool {
	if root.Op != hlo.OpTuple || i >= len(root.Operands) {
		return false
	}
	x := root.Operands[i]
	return x.Op == hlo.OpGetTupleElement && x.Attr.TupleIndex == int64(i) && x.Operands[0].Op == hlo.OpParameter
}

// unknown says whether nothing is decided of what the body changes.
func (e *Evaluator) unknown(body *hlo.Computation, state *Value) bool {
	elements := []*Value{state}
	if state.Array == nil {
		elements = state.Elements
	}
	for i, x := range elements {
		if passesThrough(body.Root, i) {
			continue
		}
		for _, a := range leaves(x) {
			for j := range a.Len() {
				if a.decided(j) {
					return false
				}
			}
		}
	}
	return true
}

// union is the elementwise union of the legal sets of two values of the same
// shape; a nil value is empty.
func (e *Evaluator) union(a, b *Value) *Value {
	switch {
	case a == nil || a == b:
		return b
	case a.Array != nil:
		if a.Array == b.Array {
			return a
		}
		return arrayValue(e.num.either(a.Array, b.Array))
	case a.Token:
		return a
	}
	r := &Value{Elements: make([]*Value, len(a.Elements))}
	for i := range a.Elements {
		r.Elements[i] = e.union(a.Elements[i], b.Elements[i])
	}
	return r
}

// contestedValue adds contest bits to every element of a value.
func contestedValue(v *Value, c Contest) *Value {
	switch {
	case c == 0 || v.Token:
		return v
	case v.Array != nil:
		return arrayValue(v.Array.contested(c))
	}
	r := &Value{Elements: make([]*Value, len(v.Elements))}
	for i, x := range v.Elements {
		r.Elements[i] = contestedValue(x, c)
	}
	return r
}

// conditional runs a branch: the first for true and the second for false, or
// that of the index; an index out of range selects the last one (StableHLO
// case). For an undecided selector it is the union of all branches.
func (e *Evaluator) conditional(in *hlo.Instruction, operands []*Value) (*Value, error) {
	n := len(in.Called)
	if n == 0 || len(operands) != n+1 || operands[0].Array == nil || operands[0].Array.I == nil || operands[0].Array.Len() != 1 {
		return nil, malformed(in, "%d operands for %d branches", len(operands), n)
	}
	branch := func(i int) (*Value, error) {
		c, err := called(in, i, 1)
		if err != nil {
			return nil, err
		}
		return e.call(c, operands[i+1:i+2])
	}
	a := operands[0].Array
	s := a.At(0)
	if s.Undecided {
		var r *Value
		for i := range n {
			v, err := branch(i)
			if err != nil {
				return nil, err
			}
			r = e.union(r, v)
		}
		return contestedValue(r, s.Contest), nil
	}
	i := s.I
	if a.Type == hlo.Pred {
		i = 1 - i
	}
	if i < 0 || i >= int64(n) {
		i = int64(n) - 1
	}
	v, err := branch(int(i))
	if err != nil {
		return nil, err
	}
	return contestedValue(v, s.Contest), nil
}

// async evaluates the start, update and done halves of asynchronous
// operations: the work is done at the first of them that has all operands.
//
// The value of async-start is ((operands), result, contexts...), that of
// copy-start (result, operand, context), that of all-gather-start and
// collective-permute-start (operand, result, ...) and that of
// all-reduce-start the result (xla/hlo/ir/hlo_instructions.h).
func (e *Evaluator) async(in *hlo.Instruction, operands []*Value) (*Value, error) {
	element := func(i int) (*Value, error) {
		if i >= len(operands[0].Elements) {
			return nil, malformed(in, "the operand has no element %d", i)
		}
		return operands[0].Elements[i], nil
	}
	switch in.Op {
	case hlo.OpAsyncStart, hlo.OpAsyncUpdate, hlo.OpAsyncDone:
		return e.asyncWrapped(in, operands)
	case hlo.OpCopyStart:
		return withContexts(tupleValue(operands[0], operands[0]), in.Shape), nil
	case hlo.OpCopyDone:
		return element(0)
	case hlo.OpAllReduceDone:
		return operands[0], nil
	}
	return element(1) // all-gather-done, collective-permute-done
}

// asyncWrapped evaluates async-start, async-update and async-done. Later ones
// may add operands to those of the start, and the type of the result may be
// left open until all are there (HandleAsyncStart, IsFirstFullyBound).
func (e *Evaluator) asyncWrapped(in *hlo.Instruction, operands []*Value) (*Value, error) {
	start := in
	for start.Op != hlo.OpAsyncStart {
		if len(start.Operands) == 0 || start.Operands[0].Op != hlo.OpAsyncStart && start.Operands[0].Op != hlo.OpAsyncUpdate {
			return nil, unsupported(in, "a chain without async-start")
		}
		start = start.Operands[0]
	}
	shape := in.Shape // of the result
	if in.Op != hlo.OpAsyncDone {
		if len(in.Shape.Elements) < 2 {
			return nil, malformed(in, "a shape of %d elements", len(in.Shape.Elements))
		}
		shape = in.Shape.Elements[1]
	}
	bound, result := operands, (*Value)(nil)
	if start != in {
		prior := operands[0]
		if len(prior.Elements) < 2 {
			return nil, malformed(in, "the operand is no value of async-start")
		}
		bound = append(slices.Clone(prior.Elements[0].Elements), operands[1:]...)
		if len(operands) == 1 && fits(prior.Elements[1], shape) == nil {
			result = prior.Elements[1]
		}
	}
	if len(start.Called) == 1 && result == nil && len(start.Called[0].Params()) == len(bound) {
		v, err := e.callOp(start, bound)
		if err != nil {
			return nil, err
		}
		if fits(v, shape) == nil {
			result = v
		}
	}
	if in.Op == hlo.OpAsyncDone {
		if result == nil {
			return nil, malformed(in, "operands are missing, or the result has another shape")
		}
		return result, nil
	}
	if result == nil { // not yet known, and not read
		result = FromLiteral(hlo.NewLiteral(shape))
	}
	return withContexts(tupleValue(tupleValue(slices.Clone(bound)...), result), in.Shape), nil
}

// withContexts completes a tuple with values for the context elements that its
// shape has; nothing reads them.
func withContexts(v *Value, shape *hlo.Shape) *Value {
	for i := len(v.Elements); i < len(shape.Elements); i++ {
		v.Elements = append(v.Elements, FromLiteral(hlo.NewLiteral(shape.Elements[i])))
	}
	return v
}

func isCollective(op hlo.Opcode) bool {
	switch op {
	case hlo.OpAllReduce, hlo.OpAllGather, hlo.OpAllToAll, hlo.OpReduceScatter,
		hlo.OpCollectiveBroadcast, hlo.OpCollectivePermute, hlo.OpRaggedAllToAll,
		hlo.OpAllReduceStart, hlo.OpAllGatherStart, hlo.OpCollectivePermuteStart,
		hlo.OpPartitionId, hlo.OpReplicaId:
		return true
	}
	return false
}

// collective evaluates collectives of one replica and one partition. Whatever
// its groups name, an all-reduce there reduces over the one device that exists
// (xla/service/all_reduce_simplifier.cc replaces it by its operand).
func (e *Evaluator) collective(in *hlo.Instruction, a []*Array) (*Value, error) {
	if groupSize(in) > 1 && in.Op != hlo.OpAllReduce && in.Op != hlo.OpAllReduceStart {
		return nil, unsupported(in, "groups of several devices")
	}
	v := &Value{}
	for _, x := range a {
		if e.opts.Bounds && (in.Op == hlo.OpReduceScatter || in.Op == hlo.OpAllReduce || in.Op == hlo.OpAllReduceStart) {
			x = reducedAlone(x)
		}
		v.Elements = append(v.Elements, arrayValue(x))
	}
	if len(a) == 1 {
		v = v.Elements[0]
	}
	result := in.Shape
	switch in.Op {
	case hlo.OpPartitionId, hlo.OpReplicaId:
		return arrayValue(NewArray(in.Shape.Type, in.Shape.Dims...)), nil
	case hlo.OpCollectivePermute, hlo.OpCollectivePermuteStart:
		if len(a) > 1 && in.Attr.DynamicSliceSizes != nil {
			return nil, unsupported(in, "in-place buffers")
		}
		own := false
		for _, p := range in.Attr.SourceTargetPairs {
			if p.Source != 0 || p.Target != 0 {
				return nil, unsupported(in, "several devices")
			}
			own = true
		}
		if !own { // nobody sends: zeros (StableHLO collective_permute)
			var zeros []*Array
			for _, x := range a {
				zeros = append(zeros, NewArray(x.Type, x.Dims...))
			}
			r := arraysValue(len(zeros) > 1, zeros)
			if in.Op == hlo.OpCollectivePermuteStart {
				return withContexts(tupleValue(v, r), in.Shape), nil
			}
			return r, nil
		}
		if in.Op == hlo.OpCollectivePermuteStart {
			return withContexts(tupleValue(v, v), in.Shape), nil
		}
	case hlo.OpAllGatherStart:
		if len(result.Elements) < 2 {
			return nil, malformed(in, "a shape of %d elements", len(result.Elements))
		}
		if fits(v, result.Elements[1]) != nil {
			return nil, unsupported(in, "several devices")
		}
		return withContexts(tupleValue(v, v), in.Shape), nil
	case hlo.OpRaggedAllToAll:
		return nil, unsupported(in, "")
	case hlo.OpAllToAll:
		if result.IsTuple() && len(a) == 1 {
			v = tupleValue(v)
		}
	}
	if fits(v, result) != nil {
		return nil, unsupported(in, "several devices")
	}
	return v, nil
}

// reducedAlone is what a reduction over one device may make of x: x, or x
// combined with the neutral element, which flushes subnormals and turns -0 into
// +0 (XLA:CPU adds into a buffer of zeros for reduce-scatter:
// xla/backends/cpu/collectives/in_process_communicator.cc).
func reducedAlone(x *Array) *Array {
	if x.Re == nil {
		return x
	}
	f := floatTypes[x.Type]
	if x.Im != nil {
		f = realType(x.Type)
	}
	part := func(n Num) Num {
		if n.zero() {
			n.K |= AnyZeroSign
			return n
		}
		return f.flushed(n)
	}
	r := x.Clone()
	for i := range r.Len() {
		s := r.At(i)
		s.Re = part(s.Re)
		if x.Im != nil {
			s.Im = part(s.Im)
		}
		r.Set(i, s)
	}
	return r
}

// groupSize is the largest number of devices in a group of a collective.
func groupSize(in *hlo.Instruction) int64 {
	groups := in.Attr.ReplicaGroups
	if l := in.Attr.GetCollectiveDeviceList(); l != nil {
		groups = append(groups[:len(groups):len(groups)], l.ReplicaGroups...)
	}
	n := int64(0)
	for _, g := range groups {
		n = max(n, int64(len(g.ReplicaIds)))
	}
	n = max(n, in.Attr.GetIotaCollectiveDeviceList().GetNumDevicesPerGroup())
	if in.Attr.GetMeshAxesReplicaGroupList() != nil {
		n = max(n, 2) // a mesh of one device needs no such list
	}
	return n
}
