package eval

import (
	"fmt"
	"slices"

	"github.com/passgate/passgate/hlo"
)

// ErrEndless says that a while loop was proved never to end: what its condition
// rests on came back to values that it had before. It is an ErrStepLimit, too:
// the loop would go over any limit.
var ErrEndless = fmt.Errorf("%w: a loop never ends", ErrStepLimit)

// cycle watches a loop for states that repeat, by the algorithm of Brent ("An
// improved Monte Carlo factorization algorithm", BIT 20, 1980): one state is
// kept, and replaced at iterations 1, 2, 4, ...
//
// It looks only at the elements of the state that the condition depends on, by
// itself or through what the body makes of them. Both are functions of these
// alone, and evaluating a legal set again gives the same set, so where they
// repeat and the condition was certain all the way, no legal execution ends.
type cycle struct {
	elements []int // of the state; nil if nothing can be said
	kept     []*Value
	trips    int
	next     int
}

// maxCycleElements bounds what is compared in an iteration; watchFrom is the
// iteration from which on a loop is watched: most end before.
const (
	maxCycleElements = 64
	watchFrom        = 16
)

func watch(condition, body *hlo.Computation) *cycle {
	if !pure(condition, map[*hlo.Computation]bool{}) || !pure(body, map[*hlo.Computation]bool{}) || body.Root.Op != hlo.OpTuple {
		return nil
	}
	c := &cycle{elements: []int{}, next: 1}
	for work := []*hlo.Instruction{condition.Root}; len(work) > 0; {
		from := work[len(work)-1]
		work = work[:len(work)-1]
		read, ok := stateRead(from)
		if !ok {
			return nil
		}
		for _, i := range read {
			if i >= len(body.Root.Operands) {
				return nil
			}
			if !slices.Contains(c.elements, i) {
				c.elements = append(c.elements, i)
				work = append(work, body.Root.Operands[i])
			}
		}
	}
	return c
}

// stateRead lists the elements of a computation's only parameter that a value
// depends on; ok is false if it takes the parameter as a whole.
func stateRead(from *hlo.Instruction) (elements []int, ok bool) {
	seen := map[*hlo.Instruction]bool{from: true}
	for work := []*hlo.Instruction{from}; len(work) > 0; {
		in := work[len(work)-1]
		work = work[:len(work)-1]
		switch {
		case in.Op == hlo.OpParameter:
			return nil, false
		case in.Op == hlo.OpGetTupleElement && in.Operands[0].Op == hlo.OpParameter:
			elements = append(elements, int(in.Attr.GetTupleIndex()))
			continue
		}
		for _, x := range in.Operands {
			if !seen[x] {
				seen[x] = true
				work = append(work, x)
			}
		}
	}
	return elements, true
}

// pure reports whether a computation's value is a function of its parameters.
func pure(c *hlo.Computation, seen map[*hlo.Computation]bool) bool {
	if seen[c] {
		return true
	}
	seen[c] = true
	for _, in := range c.Instructions {
		switch in.Op {
		case hlo.OpRng, hlo.OpRngGetAndUpdateState, hlo.OpInfeed, hlo.OpOutfeed, hlo.OpSend, hlo.OpSendDone, hlo.OpRecv, hlo.OpRecvDone, hlo.OpCustomCall,
			hlo.OpAllReduce, hlo.OpAllReduceStart, hlo.OpAllReduceDone, hlo.OpAllGather, hlo.OpAllGatherStart, hlo.OpAllGatherDone, hlo.OpAllToAll,
			hlo.OpRaggedAllToAll, hlo.OpReduceScatter, hlo.OpCollectiveBroadcast, hlo.OpCollectivePermute, hlo.OpCollectivePermuteStart,
			hlo.OpCollectivePermuteDone, hlo.OpAsyncStart, hlo.OpAsyncUpdate, hlo.OpAsyncDone:
			return false
		}
		for _, called := range in.Called {
			if !pure(called, seen) {
				return false
			}
		}
	}
	return true
}

// repeats takes the state before the next iteration and reports whether the
// loop has been there before.
func (c *cycle) repeats(state *Value) bool {
	if c == nil || state.Elements == nil {
		return false
	}
	now := make([]*Value, len(c.elements))
	for i, e := range c.elements {
		now[i] = state.Elements[e]
	}
	if c.trips > 0 && slices.EqualFunc(now, c.kept, sameSmall) {
		return true
	}
	if c.trips++; c.trips >= c.next {
		c.kept, c.next = now, 2*c.next
	}
	return false
}

// sameSmall compares two arrays in all but their contests; large ones and
// tuples never agree.
func sameSmall(x, y *Value) bool {
	a, b := x.Array, y.Array
	if a == nil || b == nil || a.Len() > maxCycleElements || a.Type != b.Type || !slices.Equal(a.Dims, b.Dims) || !slices.Equal(a.Sizes, b.Sizes) {
		return false
	}
	for i := range a.Len() {
		if !sameScalar(a.At(i), b.At(i)) {
			return false
		}
	}
	return true
}
