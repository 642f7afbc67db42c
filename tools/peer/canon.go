package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ignored is what canonical leaves out of the comparison, and why that loses
// nothing. The sources are XLA's readers of the same fields.
var ignored = []string{
	"HloModuleProto.id: a counter of the process",
	"numbers of instructions and computations, and the order in which the proto lists them: graphs are matched from the entry's root along operands, control predecessors and called computations; sequences of a schedule are compared",
	"the numeric suffix of instruction and computation names: XLA makes names unique in the module (name_uniquer.cc); names that are not unique are a difference",
	"absent against empty sub-messages, outside of oneofs and repeated fields; so too unknown fields of no length",
	"is_dynamic_dimension when all false (Shape::FromProto), tail_padding_alignment_in_elements 1 against 0 (Layout::FromProto)",
	"operand_precision when all DEFAULT (HloInstruction::CreateFromProto fills it in)",
	"comparison_type where comparison_order, its successor, says the same (FLOAT is PARTIAL, all others TOTAL)",
	"numbers in the stack frame index, frames that no instruction uses, and stack_frame_id that leads nowhere (HloModule::CanonicalizeStackFrameIds)",
	"the order of original_value_recovery_table (a hash map in XLA)",
	"a metadata payload in the module's table against the same in its place (InlineMetadataPayloadsFromProtoPayloadTable)",
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
	slices.SortStableFunc(m.GetOriginalValueRecoveryTable().GetEntries(), func(a, b *hlopb.OriginalValueRecoveryTableProto_Entry) int {
		return cmp.Or(compareArrays(a.OldOriginalArray, b.OldOriginalArray), compareArrays(a.NewOriginalArray, b.NewOriginalArray))
	})
	n, err := number(m)
	if err != nil {
		return nil, err
	}
	n.rewrite(m)
	renumberFrames(m)
	inlinePayloads(m)
	dropDefaults(m.ProtoReflect())
	return m, nil
}

func compareArrays(a, b *hlopb.OriginalArrayProto) int {
	return cmp.Or(cmp.Compare(a.GetInstructionName(), b.GetInstructionName()), slices.Compare(a.GetShapeIndex(), b.GetShapeIndex()))
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

// inlinePayloads puts the payloads that metadata refers to in its place, and
// drops the table, from which XLA reads nothing else.
func inlinePayloads(m *hlopb.HloModuleProto) {
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			p := in.GetMetadata().GetMetadataPayload()
			if id, ok := p.GetPayloadSource().(*hlopb.Payload_Id); ok && id.Id >= 0 && id.Id < int64(len(m.Payloads)) {
				p.PayloadSource = &hlopb.Payload_Value{Value: m.Payloads[id.Id]}
			}
		}
	}
	m.Payloads = nil
}

// renumberFrames rebuilds the stack frame index from the frames that
// instructions use, in the order of use, parents first.
func renumberFrames(m *hlopb.HloModuleProto) {
	old, index := m.GetStackFrameIndex(), &hlopb.StackFrameIndexProto{}
	names := map[string]int32{}
	functions := map[string]int32{}
	locations := map[string]int32{}
	frames := map[[2]int32]int32{} // new location and parent to new number
	// intern is the new number of an old frame, and false when the frame or
	// one of its ancestors is not there or its own ancestor.
	var intern func(id int32, depth int) (int32, bool)
	intern = func(id int32, depth int) (int32, bool) {
		if id == 0 {
			return 0, true
		}
		f, ok := at(old.GetStackFrames(), id)
		if !ok || depth > len(old.GetStackFrames()) {
			return 0, false
		}
		parent, ok := intern(f.ParentFrameId, depth+1)
		if !ok {
			return 0, false
		}
		location := int32(0)
		if l, ok := at(old.GetFileLocations(), f.FileLocationId); ok {
			l = proto.Clone(l).(*hlopb.StackFrameIndexProto_FileLocation)
			file, _ := at(old.GetFileNames(), l.FileNameId)
			function, _ := at(old.GetFunctionNames(), l.FunctionNameId)
			l.FileNameId = numberOf(names, file, func() { index.FileNames = append(index.FileNames, file) })
			l.FunctionNameId = numberOf(functions, function, func() { index.FunctionNames = append(index.FunctionNames, function) })
			key := fmt.Sprint(l.FileNameId, l.FunctionNameId, l.Line, l.EndLine, l.Column, l.EndColumn)
			location = numberOf(locations, key, func() { index.FileLocations = append(index.FileLocations, l) })
		}
		return numberOf(frames, [2]int32{location, parent}, func() {
			index.StackFrames = append(index.StackFrames, &hlopb.StackFrameIndexProto_StackFrame{FileLocationId: location, ParentFrameId: parent})
		}), true
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if in.GetMetadata().GetStackFrameId() != 0 {
				in.Metadata.StackFrameId, _ = intern(in.Metadata.StackFrameId, 0)
			}
		}
	}
	m.StackFrameIndex = index
}

// at is element id of a table that counts from 1.
func at[T any](table []T, id int32) (e T, ok bool) {
	if id < 1 || int(id) > len(table) {
		return e, false
	}
	return table[id-1], true
}

// numberOf is the number of a key, from 1 in the order of arrival; add is
// called for a new one.
func numberOf[K comparable](numbers map[K]int32, key K, add func()) int32 {
	n, ok := numbers[key]
	if !ok {
		add()
		n = int32(len(numbers)) + 1
		numbers[key] = n
	}
	return n
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
	m.SetUnknown(dropEmpty(m.GetUnknown()))
	switch m := m.Interface().(type) {
	case *hlopb.ShapeProto:
		if !slices.Contains(m.IsDynamicDimension, true) {
			m.IsDynamicDimension = nil
		}
	case *hlopb.LayoutProto:
		if m.TailPaddingAlignmentInElements == 1 {
			m.TailPaddingAlignmentInElements = 0
		}
	case *hlopb.HloInstructionProto:
		if order := m.ComparisonOrder; order == "PARTIAL" && m.ComparisonType == "FLOAT" || order == "TOTAL" && m.ComparisonType != "FLOAT" {
			m.ComparisonType = ""
		}
		if m.ReplicaGroupList != nil { // the same for older builds
			m.ReplicaGroups = nil
		}
	case *hlopb.PrecisionConfig:
		if !slices.ContainsFunc(m.OperandPrecision, func(p hlopb.PrecisionConfig_Precision) bool { return p != hlopb.PrecisionConfig_DEFAULT }) {
			m.OperandPrecision = nil
		}
	}
}

// dropEmpty removes the fields of no length.
func dropEmpty(fields protoreflect.RawFields) (kept protoreflect.RawFields) {
	for len(fields) > 0 {
		n, kind, tag := protowire.ConsumeTag(fields)
		length := tag + protowire.ConsumeFieldValue(n, kind, fields[tag:])
		if length < tag {
			return append(kept, fields...) // not the wire format: keep it to be seen
		}
		if kind != protowire.BytesType || length > tag+1 {
			kept = append(kept, fields[:length]...)
		}
		fields = fields[length:]
	}
	return kept
}

func isEmpty(m protoreflect.Message) bool {
	empty := len(m.GetUnknown()) == 0
	m.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
		empty = false
		return false
	})
	return empty
}
