package hlo

import "slices"

// pairs are the operations that come in two: the first has one user, the
// second, which takes it as its operand (VerifyAsynchronousInstructionPairs).
var pairs = map[Opcode]Opcode{
	OpAllReduceStart: OpAllReduceDone, OpAllGatherStart: OpAllGatherDone, OpCopyStart: OpCopyDone,
	OpCollectivePermuteStart: OpCollectivePermuteDone, OpSend: OpSendDone, OpRecv: OpRecvDone,
}

var pairDone = func() map[Opcode]Opcode {
	m := map[Opcode]Opcode{}
	for a, b := range pairs {
		m[b] = a
	}
	return m
}()

// metadataTargets are custom-calls that an asynchronous value may pass
// (IsAllowedAsyncIntermediaryCustomCall).
var metadataTargets = []string{"Sharding", "LocalToGlobalShape", "GlobalToLocalShape",
	"xla.sdy.LocalToGlobalShape", "xla.sdy.GlobalToLocalShape", "xla.sdy.FuncResultSharding"}

// carriesAsync are the operations that an asynchronous value may pass.
func (in *Instruction) carriesAsync() bool {
	switch in.Op {
	case OpTuple, OpGetTupleElement, OpOptBarrier, OpCopy, OpParameter, OpWhile:
		return true
	case OpCustomCall:
		return slices.Contains(metadataTargets, in.Attr.CustomCallTarget)
	}
	return false
}

// producer follows an asynchronous value back through tuples and the like to
// the operation that made it; known is false where it comes from another
// computation.
func producer(in *Instruction) (made *Instruction, known bool) {
	var path []int64 // tuple elements that were taken on the way, last first
	for range 1000 {
		switch in.Op {
		case OpGetTupleElement:
			path = append(path, in.Attr.TupleIndex)
			in = in.Operands[0]
		case OpTuple:
			if len(path) == 0 {
				return in, true
			}
			i := path[len(path)-1]
			if i < 0 || i >= int64(len(in.Operands)) {
				return in, true
			}
			path = path[:len(path)-1]
			in = in.Operands[i]
		case OpParameter, OpWhile, OpCall, OpConditional, OpFusion:
			return in, false
		case OpCopy, OpOptBarrier, OpDomain:
			in = in.Operands[0]
		case OpCustomCall:
			if !in.carriesAsync() || len(in.Operands) == 0 {
				return in, true
			}
			in = in.Operands[0]
		default:
			return in, true
		}
	}
	return in, false
}

func (v *verifier) asyncChains() {
	for _, c := range v.m.Computations {
		async := false
		for _, caller := range v.callers[c] {
			async = async || caller.Op == OpAsyncStart
		}
		if async {
			v.asyncComputation(c)
		}
		for _, in := range c.Instructions {
			v.pair(c, in, async)
			switch in.Op {
			case OpAsyncStart, OpAsyncUpdate, OpAsyncDone:
				v.asyncOp(c, in)
			}
			for i, o := range in.Operands {
				if (o.Op == OpAsyncStart || o.Op == OpAsyncUpdate) && !usesAsync(in, i) {
					v.report(c, in, RuleAsync, "%v takes the asynchronous %s as operand %d", in.Op, clip(o.Name), i)
				}
			}
		}
	}
	v.asyncEnds()
}

// usesAsync reports whether an instruction may take an async-start or
// async-update as operand i.
func usesAsync(in *Instruction, i int) bool {
	switch in.Op {
	case OpAsyncUpdate, OpAsyncDone:
		return i == 0
	case OpCall, OpConditional, OpDomain:
		return true
	}
	return in.carriesAsync()
}

// asyncComputation: on the main thread it is one operation on parameters,
// unless it is a group of collectives or a barrier.
func (v *verifier) asyncComputation(c *Computation) {
	for _, caller := range v.callers[c] {
		switch caller.Op {
		case OpAsyncStart, OpAsyncUpdate, OpAsyncDone:
		default:
			v.report(c, nil, RuleAsync, "the asynchronous computation is also called by %s", clip(caller.Name))
		}
	}
	if thread(c.ExecutionThread) != "" {
		return
	}
	for _, caller := range v.callers[c] {
		if _, ok := caller.Attr.GetFrontendAttributes().GetMap()["_collectives_group"]; ok {
			return
		}
	}
	for _, in := range c.Instructions {
		if in != c.Root && in.Op != OpParameter && in.Op != OpGetTupleElement {
			v.report(c, in, RuleAsync, "an asynchronous computation holds more than one operation")
			return
		}
	}
}

func (v *verifier) pair(c *Computation, in *Instruction, asyncComputation bool) {
	if done, ok := pairs[in.Op]; ok {
		if (in.Op == OpSend || in.Op == OpRecv) && in == c.Root && asyncComputation {
			return
		}
		var users []*Instruction
		for _, u := range v.users[in] {
			if u.Op != OpCustomCall || u.Attr.CustomCallTarget != "control_dep" {
				users = append(users, u)
			}
		}
		switch {
		case len(users) != 1:
			v.report(c, in, RuleAsync, "%v has %d users, want one", in.Op, len(users))
		case users[0].Op != done && !users[0].carriesAsync():
			v.report(c, in, RuleAsync, "%v is used by %v, not by %v", in.Op, users[0].Op, done)
		case users[0].Op == done && (in.Op == OpSend || in.Op == OpRecv):
			d := users[0]
			if d.Attr.ChannelId != in.Attr.ChannelId {
				v.report(c, in, RuleChannel, "channel %d, but %s has channel %d", in.Attr.ChannelId, clip(d.Name), d.Attr.ChannelId)
			}
			if d.Attr.IsHostTransfer != in.Attr.IsHostTransfer {
				v.report(c, in, RuleChannel, "only one of it and %s is a host transfer", clip(d.Name))
			}
		}
	}
	if start, ok := pairDone[in.Op]; ok {
		if made, known := producer(in.Operands[0]); known && made.Op != start &&
			!((in.Op == OpSendDone || in.Op == OpRecvDone) && in.Operands[0].Op == OpGetTupleElement) {
			v.report(c, in, RuleAsync, "%v takes %v, not %v", in.Op, made.Op, start)
		}
	}
}

// isPrefix reports whether the tuple structure a is the beginning of b.
func isPrefix(a, b *Shape) bool {
	if a.Compatible(b) || a.IsTuple() && len(a.Elements) == 0 {
		return true
	}
	if !a.IsTuple() || !b.IsTuple() || len(a.Elements) > len(b.Elements) {
		return false
	}
	for i, e := range a.Elements {
		if !isPrefix(e, b.Elements[i]) {
			return false
		}
	}
	return true
}

// asyncOp checks the shapes along an asynchronous chain (CheckAsyncOp).
func (v *verifier) asyncOp(c *Computation, in *Instruction) {
	bad := func(rule Rule, format string, args ...any) { v.report(c, in, rule, format, args...) }
	comp := in.asyncComputation()
	if in.Op == OpAsyncStart && thread(in.Attr.AsyncExecutionThread) != thread(comp.ExecutionThread) {
		bad(RuleThread, "async-start on thread %q runs a computation of thread %q", thread(in.Attr.AsyncExecutionThread), thread(comp.ExecutionThread))
	}
	var from *Instruction
	if in.Op != OpAsyncStart {
		made, known := producer(in.Operands[0])
		if known && made.Op != OpAsyncStart && made.Op != OpAsyncUpdate {
			bad(RuleAsync, "%v takes %v, not async-start or async-update", in.Op, made.Op)
			return
		}
		if known {
			from = made
			if other := made.asyncComputation(); comp != nil && other != nil && other != comp {
				bad(RuleAsync, "%v runs another computation than %s", in.Op, clip(made.Name))
			}
		}
	}
	if in.Op == OpAsyncDone {
		if from != nil && comp != nil && from.Shape.IsTuple() && len(from.Shape.Elements) > 0 &&
			len(from.Shape.Elements[0].Elements) != len(comp.Params()) {
			bad(RuleAsync, "async-done of a computation with %d parameters, of which %d are given", len(comp.Params()), len(from.Shape.Elements[0].Elements))
		}
		return
	}
	s := in.Shape
	if !s.IsTuple() || len(s.Elements) < 2 || !s.Elements[0].IsTuple() {
		return // reported as a shape
	}
	if comp != nil {
		f := comp.program()
		if !isPrefix(s.Elements[0], &Shape{Type: Tuple, Elements: f.Params}) {
			bad(RuleAsync, "%v has the operands %s for the parameters of %s", in.Op, s.Elements[0].text(), clip(comp.Name))
		}
		if !isPrefix(s.Elements[1], f.Result) {
			bad(RuleAsync, "%v has the result %s, but %s gives %s", in.Op, s.Elements[1].text(), clip(comp.Name), f.Result.text())
		}
	}
	bound, given := 0, in.Operands
	if in.Op == OpAsyncUpdate {
		given = in.Operands[1:]
		p := in.Operands[0].Shape
		if !p.IsTuple() || len(p.Elements) < 2 || !p.Elements[0].IsTuple() {
			bad(RuleAsync, "async-update takes %s", p.text())
			return
		}
		if !isPrefix(p.Elements[0], s.Elements[0]) || !isPrefix(p.Elements[1], s.Elements[1]) {
			bad(RuleAsync, "async-update makes %s of %s", s.text(), p.text())
			return
		}
		bound = len(p.Elements[0].Elements)
	}
	want := s.Elements[0].Elements
	if len(given) != len(want)-bound {
		bad(RuleAsync, "%v has %d new operands, its shape %d", in.Op, len(given), len(want)-bound)
		return
	}
	for i, o := range given {
		if !o.Shape.Compatible(want[bound+i]) {
			bad(RuleAsync, "operand %s of %v is %s in its shape", o.Shape.text(), in.Op, want[bound+i].text())
		}
	}
}

// asyncEnds checks that each async-start ends in one async-done, unless its
// value leaves the computation or is carried by a loop.
func (v *verifier) asyncEnds() {
	doneBy := map[*Instruction]*Instruction{}
	inChain := map[*Instruction]bool{}
	for _, c := range v.m.Computations {
		for _, in := range c.Instructions {
			if in.Op != OpAsyncDone {
				continue
			}
			at, known := producer(in.Operands[0])
			for known && at.Op == OpAsyncUpdate {
				if inChain[at] {
					v.report(c, at, RuleAsync, "async-update is part of two chains")
					known = false
					break
				}
				inChain[at] = true
				at, known = producer(at.Operands[0])
			}
			if !known || at.Op != OpAsyncStart {
				continue
			}
			if other := doneBy[at]; other != nil {
				v.report(c, in, RuleAsync, "async-start %s has a second async-done, %s", clip(at.Name), clip(other.Name))
			}
			doneBy[at] = in
		}
	}
	for _, c := range v.m.Computations {
		for _, in := range c.Instructions {
			switch {
			case in.Op == OpAsyncStart && doneBy[in] == nil && !v.leaves(in):
				v.report(c, in, RuleAsync, "async-start has no async-done")
			case in.Op == OpAsyncUpdate && !inChain[in] && !v.leaves(in):
				v.report(c, in, RuleAsync, "async-update has no async-done")
			}
		}
	}
}

// leaves reports whether a value reaches the root of its computation, a loop
// or a call.
func (v *verifier) leaves(in *Instruction) bool {
	seen := map[*Instruction]bool{}
	work := []*Instruction{in}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		if c := v.parent[at]; at == c.Root && c != v.m.Entry {
			return true
		}
		for _, u := range v.users[at] {
			switch u.Op {
			case OpWhile, OpCall, OpConditional:
				return true
			case OpAsyncUpdate, OpTuple, OpGetTupleElement, OpOptBarrier, OpDomain, OpCopy, OpCustomCall:
				work = append(work, u)
			}
		}
	}
	return false
}
