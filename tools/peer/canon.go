package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ignored is what canonical leaves out of the comparison, and why that loses
// nothing. The sources are XLA's readers of the same fields.
var ignored = []string{
	"HloModuleProto.id: a counter of the process",
	"numbers of instructions and computations, and the order in which the proto lists them: graphs are matched from the entry's root along operands, control predecessors and called computations; sequences of a schedule are compared",
	"the numeric suffix of instruction and computation names: XLA makes names unique in the module (name_uniquer.cc); names that are not unique are a difference",
	"absent against empty sub-messages, outside of oneofs and repeated fields",
	"is_dynamic_dimension when all false (Shape::FromProto), tail_padding_alignment_in_elements 1 against 0 (Layout::FromProto)",
	"operand_precision when all DEFAULT (HloInstruction::CreateFromProto fills it in)",
}

// canonical is m with everything removed that does not change what XLA reads
// from it (see ignored); m itself is left alone. Instructions and computations
// are numbered by a walk from the entry's root, so that two protos of the same
// graph become the same. The error says which reference leads nowhere or which
// name or number is not unique.
func canonical(m *hlopb.HloModuleProto) (*hlopb.HloModuleProto, error) {
	m = proto.Clone(m).(*hlopb.HloModuleProto)
	m.Id = 0
	for _, e := range m.GetOriginalValueRecoveryTable().GetEntries() {
		if e.RecoveryModule == nil {
			continue
		}
		r, err := canonical(e.RecoveryModule)
		if err != nil {
			return nil, fmt.Errorf("recovery module: %w", err)
		}
		e.RecoveryModule = r
	}
	n, err := number(m)
	if err != nil {
		return nil, err
	}
	n.rewrite(m)
	dropDefaults(m.ProtoReflect())
	return m, nil
}

// numbering holds the canonical numbers of a module's computations and
// instructions, by their numbers in the proto.
type numbering struct {
	comps, instrs map[int64]int64
	compByID      map[int64]*hlopb.HloComputationProto
	instrByID     map[int64]*hlopb.HloInstructionProto
	err           error
}

func number(m *hlopb.HloModuleProto) (*numbering, error) {
	n := &numbering{
		comps: map[int64]int64{}, instrs: map[int64]int64{},
		compByID: map[int64]*hlopb.HloComputationProto{}, instrByID: map[int64]*hlopb.HloInstructionProto{},
	}
	names := map[string]bool{}
	for _, c := range m.Computations {
		if n.compByID[c.Id] != nil {
			n.fail("two computations have number %d", c.Id)
		}
		if names["c "+c.Name] {
			n.fail("two computations have the name %s", c.Name)
		}
		n.compByID[c.Id], names["c "+c.Name] = c, true
		for _, in := range c.Instructions {
			if n.instrByID[in.Id] != nil {
				n.fail("two instructions have number %d", in.Id)
			}
			if names["i "+in.Name] {
				n.fail("two instructions have the name %s", in.Name)
			}
			n.instrByID[in.Id], names["i "+in.Name] = in, true
		}
	}
	n.comp(m.EntryComputationId)
	unreached := slices.Clone(m.Computations)
	slices.SortStableFunc(unreached, func(a, b *hlopb.HloComputationProto) int { return cmp.Compare(baseName(a.Name), baseName(b.Name)) })
	for _, c := range unreached {
		n.comp(c.Id)
	}
	return n, n.err
}

func (n *numbering) fail(format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf(format, args...)
	}
}

// comp numbers a computation and all that it holds, calls included.
func (n *numbering) comp(id int64) {
	if _, done := n.comps[id]; done {
		return
	}
	c := n.compByID[id]
	if c == nil {
		n.fail("no computation has number %d", id)
		return
	}
	n.comps[id] = int64(len(n.comps))
	n.instr(c.RootId)
	// What the root does not reach: first what nobody uses, then the rest.
	var rest []*hlopb.HloInstructionProto
	used := map[int64]bool{}
	for _, in := range c.Instructions {
		if _, done := n.instrs[in.Id]; !done {
			rest = append(rest, in)
		}
		for _, o := range in.OperandIds {
			used[o] = true
		}
	}
	slices.SortStableFunc(rest, func(a, b *hlopb.HloInstructionProto) int {
		if used[a.Id] != used[b.Id] {
			if used[b.Id] {
				return -1
			}
			return 1
		}
		return cmp.Compare(baseName(a.Name), baseName(b.Name))
	})
	for _, in := range rest {
		n.instr(in.Id)
	}
}

// instr numbers an instruction and what it refers to.
func (n *numbering) instr(id int64) {
	if _, done := n.instrs[id]; done {
		return
	}
	in := n.instrByID[id]
	if in == nil {
		n.fail("no instruction has number %d", id)
		return
	}
	n.instrs[id] = int64(len(n.instrs))
	for _, o := range in.OperandIds {
		n.instr(o)
	}
	for _, p := range in.ControlPredecessorIds {
		n.instr(p)
	}
	for _, c := range in.CalledComputationIds {
		n.comp(c)
	}
}

// rewrite puts the canonical numbers, orders and names into m.
func (n *numbering) rewrite(m *hlopb.HloModuleProto) {
	renumber := func(ids []int64, to map[int64]int64) {
		for i, id := range ids {
			ids[i] = to[id]
		}
	}
	m.EntryComputationId = n.comps[m.EntryComputationId]
	m.EntryComputationName = baseName(m.EntryComputationName)
	baseNames(m.HostProgramShape)
	if m.Schedule != nil {
		sequences := map[int64]*hlopb.HloScheduleProto_InstructionSequence{}
		for c, s := range m.Schedule.Sequences {
			renumber(s.InstructionIds, n.instrs)
			sequences[n.comps[c]] = s
		}
		m.Schedule.Sequences = sequences
	}
	for _, c := range m.Computations {
		c.Id, c.RootId, c.Name = n.comps[c.Id], n.instrs[c.RootId], baseName(c.Name)
		baseNames(c.ProgramShape)
		for _, in := range c.Instructions {
			in.Id, in.Name = n.instrs[in.Id], baseName(in.Name)
			renumber(in.OperandIds, n.instrs)
			renumber(in.ControlPredecessorIds, n.instrs)
			renumber(in.CalledComputationIds, n.comps)
		}
		slices.SortFunc(c.Instructions, func(a, b *hlopb.HloInstructionProto) int { return cmp.Compare(a.Id, b.Id) })
	}
	slices.SortFunc(m.Computations, func(a, b *hlopb.HloComputationProto) int { return cmp.Compare(a.Id, b.Id) })
}

func baseNames(p *hlopb.ProgramShapeProto) {
	for i, name := range p.GetParameterNames() {
		p.ParameterNames[i] = baseName(name)
	}
}

// baseName is a name without the number that a name uniquer counts up.
func baseName(name string) string {
	base := strings.TrimRight(name, "0123456789")
	if len(base) < len(name) && len(base) > 1 && base[len(base)-1] == '.' {
		return base[:len(base)-1]
	}
	return name
}

// dropDefaults clears, depth first, the fields of a message whose value a
// reader takes for absent.
func dropDefaults(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					dropDefaults(v.Message())
					return true
				})
			}
		case f.IsList():
			for i := range v.List().Len() {
				dropDefaults(v.List().Get(i).Message())
			}
		default:
			dropDefaults(v.Message())
			if f.ContainingOneof() == nil && isEmpty(v.Message()) {
				m.Clear(f)
			}
		}
		return true
	})
	switch m := m.Interface().(type) {
	case *hlopb.ShapeProto:
		if !slices.Contains(m.IsDynamicDimension, true) {
			m.IsDynamicDimension = nil
		}
	case *hlopb.LayoutProto:
		if m.TailPaddingAlignmentInElements == 1 {
			m.TailPaddingAlignmentInElements = 0
		}
	case *hlopb.PrecisionConfig:
		if !slices.ContainsFunc(m.OperandPrecision, func(p hlopb.PrecisionConfig_Precision) bool { return p != hlopb.PrecisionConfig_DEFAULT }) {
			m.OperandPrecision = nil
		}
	}
}

func isEmpty(m protoreflect.Message) bool {
	empty := len(m.GetUnknown()) == 0
	m.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
		empty = false
		return false
	})
	return empty
}
