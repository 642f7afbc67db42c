package triage

import (
	"encoding/binary"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// numbering gives equal numbers to instructions that compute the same by
// construction: the same operation with the same attributes on operands of the
// same numbers (value numbering over the two sides of a pass step).
type numbering struct {
	ids   map[string]int
	of    map[*hlo.Instruction]int
	local map[*hlo.Instruction]string // the operation without its operands
	comps map[*hlo.Computation]int
}

func newNumbering() *numbering {
	return &numbering{map[string]int{}, map[*hlo.Instruction]int{}, map[*hlo.Instruction]string{}, map[*hlo.Computation]int{}}
}

func (n *numbering) intern(key []byte) int {
	id, ok := n.ids[string(key)]
	if !ok {
		id = len(n.ids) + 1
		n.ids[string(key)] = id
	}
	return id
}

// computation numbers all instructions of c; its own number is that of its
// root as a function of its parameters.
func (n *numbering) computation(c *hlo.Computation) int {
	if id, ok := n.comps[c]; ok {
		return id
	}
	for _, in := range c.Instructions {
		n.instruction(in)
	}
	key := append([]byte("computation "), strconv.Itoa(n.of[c.Root])...)
	for _, p := range c.Params() {
		if p != nil {
			key = append(append(key, ' '), p.Shape.WithoutLayout().String()...)
		}
	}
	n.comps[c] = n.intern(key)
	return n.comps[c]
}

func (n *numbering) instruction(in *hlo.Instruction) {
	key := []byte(n.operation(in))
	for _, k := range in.Called {
		key = binary.AppendVarint(key, int64(n.computation(k)))
	}
	for _, o := range in.Operands {
		key = binary.AppendVarint(key, int64(n.of[o]))
	}
	switch in.Op {
	case hlo.OpRng, hlo.OpRngGetAndUpdateState, hlo.OpInfeed, hlo.OpRecv, hlo.OpPartitionId, hlo.OpReplicaId:
		key = append(key, in.Name...) // two of them are not the same
	}
	n.of[in] = n.intern(key)
}

// operation is what an instruction does, without what it does it on and
// without what changes no value.
func (n *numbering) operation(in *hlo.Instruction) string {
	if s, ok := n.local[in]; ok {
		return s
	}
	a := shallow(in.Attr)
	a.Metadata = nil
	if in.Op != hlo.OpCustomCall {
		a.Sharding, a.FrontendAttributes, a.StatisticsViz, a.OriginalValue = nil, nil, nil, nil
		a.BackendConfig, a.BackendConfigPayload = nil, nil
	}
	// Wrong only if the program lies; passes add and drop them.
	a.IndicesAreSorted, a.UniqueIndices, a.ConstrainLayout = false, false, false
	a.OutputOperandAliasing, a.IsComposite = nil, false
	if in.Op == hlo.OpCompare {
		a.ComparisonType, a.ComparisonOrder = "", ""
		if in.Operands[0].Shape.Type.IsFloat() {
			a.ComparisonType, a.ComparisonOrder = in.Attr.ComparisonType, in.Attr.ComparisonOrder
		}
	}
	if in.Op == hlo.OpParameter {
		a.ParameterReplication = nil
	}
	dropEmpty(a.ProtoReflect())
	attr, _ := proto.MarshalOptions{Deterministic: true}.Marshal(a) // no required fields: cannot fail
	shape := in.Shape
	if in.Op != hlo.OpBitcast && !(in.Op == hlo.OpCopy) {
		shape = shape.WithoutLayout()
	}
	s := in.Op.String() + " " + shape.String() + "\x00" + string(attr) + "\x00"
	if in.Literal != nil {
		s += literalKey(in.Literal)
	}
	n.local[in] = s
	return s
}

// shallow is a copy that shares what its fields hold.
func shallow(a *hlopb.HloInstructionProto) *hlopb.HloInstructionProto {
	c := &hlopb.HloInstructionProto{}
	from, to := a.ProtoReflect(), c.ProtoReflect()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return c
}

// dropEmpty clears fields that are there but empty: newer builds write messages
// for attributes that are not set.
func dropEmpty(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() != nil && !f.IsList() && !f.IsMap() && proto.Size(v.Message().Interface()) == 0 {
			m.Clear(f)
		}
		return true
	})
	var kept []byte
	for raw := []byte(m.GetUnknown()); len(raw) > 0; {
		_, t, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return
		}
		k := protowire.ConsumeFieldValue(0, t, raw[n:])
		if k < 0 {
			return
		}
		if t != protowire.BytesType || k > 1 {
			kept = append(kept, raw[:n+k]...)
		}
		raw = raw[n+k:]
	}
	m.SetUnknown(kept)
}

func literalKey(l *hlo.Literal) string {
	s := string(l.Raw)
	for _, e := range l.Elements {
		s += "\x00" + literalKey(e)
	}
	return s
}

// same reports whether two instructions do the same on their operands, apart
// from the bodies of loops and conditionals.
func (n *numbering) same(b, a *hlo.Instruction) bool {
	if b.Op != a.Op || len(b.Operands) != len(a.Operands) || len(b.Called) != len(a.Called) || n.operation(b) != n.operation(a) {
		return false
	}
	if b.Op == hlo.OpWhile || b.Op == hlo.OpConditional {
		return true
	}
	for i := range b.Called {
		if n.computation(b.Called[i]) != n.computation(a.Called[i]) {
			return false
		}
	}
	return true
}

// pairing says which instructions of one computation should have the values of
// which before a pass step.
type pairing struct {
	before, after *hlo.Computation
	of            map[*hlo.Instruction]*hlo.Instruction // after -> before
	cut           map[*hlo.Instruction]bool             // of before: paired with something
}

// pair proposes pairs: what computes the same by construction; what has the
// same name and operation; and, from the roots and all these upwards, operands
// of the same operations. The roots are always a pair.
//
// A wrong proposal is no harm: a pair whose values differ is given up, and what
// reads it is judged over it (see regions).
func (n *numbering) pair(before, after *hlo.Computation) *pairing {
	p := &pairing{before, after, map[*hlo.Instruction]*hlo.Instruction{}, map[*hlo.Instruction]bool{}}
	n.computation(before)
	n.computation(after)
	byNumber, byName := map[int]*hlo.Instruction{}, map[string]*hlo.Instruction{}
	for _, b := range before.Instructions {
		if _, ok := byNumber[n.of[b]]; !ok {
			byNumber[n.of[b]] = b
		}
		byName[b.Name] = b
	}
	known := map[int]bool{} // numbers that exist after
	for _, a := range after.Instructions {
		known[n.of[a]] = true
	}
	var work []*hlo.Instruction
	take := func(a, b *hlo.Instruction) {
		if p.of[a] == nil {
			p.of[a] = b
			p.cut[b] = true
			work = append(work, a)
		}
	}
	for _, a := range after.Instructions {
		if b := byNumber[n.of[a]]; b != nil {
			take(a, b)
		}
	}
	if p.of[after.Root] == nil {
		take(after.Root, before.Root)
		if b, a := before.Root, after.Root; b.Op == hlo.OpTuple && a.Op == hlo.OpTuple && len(b.Operands) == len(a.Operands) {
			for i := range a.Operands {
				take(a.Operands[i], b.Operands[i])
			}
		}
	}
	for _, a := range after.Instructions {
		if b := byName[a.Name]; b != nil && p.of[a] == nil && !p.cut[b] && !known[n.of[b]] && n.same(b, a) {
			take(a, b)
		}
	}
	feedsLoop := map[*hlo.Instruction]bool{}
	for len(work) > 0 {
		a := work[len(work)-1]
		work = work[:len(work)-1]
		b := p.of[a]
		if n.of[a] == n.of[b] || !n.same(b, a) {
			continue
		}
		feedsLoop[a] = feedsLoop[a] || a.Op == hlo.OpWhile || a.Op == hlo.OpConditional
		for i, ao := range a.Operands {
			bo := b.Operands[i]
			switch {
			case p.of[ao] != nil:
			case feedsLoop[a] && bo.Shape.Compatible(ao.Shape):
				// A loop that means the same starts from the same.
				feedsLoop[ao] = ao.Op == hlo.OpTuple
				take(ao, bo)
			case !p.cut[bo] && !known[n.of[bo]] && n.same(bo, ao):
				take(ao, bo)
			}
		}
	}
	return p
}

// aligned reports whether a pair does the same on pairs.
func (p *pairing) aligned(n *numbering, a *hlo.Instruction) bool {
	b := p.of[a]
	if !n.same(b, a) {
		return false
	}
	for i, ao := range a.Operands {
		if bo := b.Operands[i]; n.of[ao] != n.of[bo] && (p.of[ao] == nil || p.of[ao] != bo) {
			return false
		}
	}
	return true
}

// bodies are the pairs of called computations of a loop or conditional that
// are not the same by construction.
func (p *pairing) bodies(n *numbering, a *hlo.Instruction) [][2]*hlo.Computation {
	b := p.of[a]
	var out [][2]*hlo.Computation
	if a.Op != hlo.OpWhile && a.Op != hlo.OpConditional {
		return nil
	}
	for i := range a.Called {
		if n.computation(b.Called[i]) != n.computation(a.Called[i]) {
			out = append(out, [2]*hlo.Computation{b.Called[i], a.Called[i]})
		}
	}
	return out
}

// giveUp takes a pair back.
func (p *pairing) giveUp(a *hlo.Instruction) {
	b := p.of[a]
	delete(p.of, a)
	for _, other := range p.of {
		if other == b {
			return
		}
	}
	delete(p.cut, b)
}

// reads are the paired instructions that a is computed from without another
// pair in between.
func (p *pairing) reads(a *hlo.Instruction) []*hlo.Instruction {
	var out []*hlo.Instruction
	seen := map[*hlo.Instruction]bool{a: true}
	work := []*hlo.Instruction{a}
	for len(work) > 0 {
		x := work[len(work)-1]
		work = work[:len(work)-1]
		for _, o := range x.Operands {
			switch {
			case seen[o]:
			case p.of[o] != nil:
				out = append(out, o)
			default:
				work = append(work, o)
			}
			seen[o] = true
		}
	}
	return out
}

// sameFlow reports whether two states of a program are the same by
// construction: nothing but fusions, calls, copies, layouts, names and what no
// root needs differs. Custom-calls, whose configuration is not read, are never
// the same.
func sameFlow(before, after *hlo.Module) bool {
	if anyInstruction(func(in *hlo.Instruction) bool { return in.Op == hlo.OpCustomCall })(after) {
		return false
	}
	b, a := flatten(before).module.Entry, flatten(after).module.Entry
	n := newNumbering()
	return n.computation(b) == n.computation(a)
}

// SameFlow reports whether the passes changed nothing of the program but fusions,
// calls, copies, layouts and names, so that code generation was given what it says.
func (t *Trail) SameFlow() bool {
	return t.Optimised != nil && sameFlow(t.Before, t.Optimised)
}
