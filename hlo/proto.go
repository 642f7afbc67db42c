package hlo

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// UnmarshalModule reads a serialized HloModuleProto.
func UnmarshalModule(b []byte) (*Module, error) {
	p := &hlopb.HloModuleProto{}
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("hlo: not an HloModuleProto: %w", err)
	}
	return FromProto(p)
}

// MarshalModule serializes the module as an HloModuleProto. The same module
// gives the same bytes.
func MarshalModule(m *Module) ([]byte, error) {
	p, err := m.ToProto()
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(p)
}

// UnmarshalHloProto reads the module of a serialized HloProto, the content of
// XLA's .hlo.pb dumps.
func UnmarshalHloProto(b []byte) (*Module, error) {
	p := &hlopb.HloProto{}
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("hlo: not an HloProto: %w", err)
	}
	if p.HloModule == nil {
		return nil, errors.New("hlo: HloProto without a module")
	}
	return FromProto(p.HloModule)
}

// MarshalHloProto serializes the module inside an HloProto. The same module
// gives the same bytes.
func MarshalHloProto(m *Module) ([]byte, error) {
	p, err := m.ToProto()
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&hlopb.HloProto{HloModule: p})
}

// The fields of the wire messages that the Go data replaces.
var (
	moduleFields = fieldSet(&hlopb.HloModuleProto{}, "name", "entry_computation_name", "computations",
		"host_program_shape", "entry_computation_id", "schedule", "payloads")
	computationFields = fieldSet(&hlopb.HloComputationProto{}, "name", "instructions", "program_shape", "id",
		"root_id", "execution_thread")
	instructionFields = fieldSet(&hlopb.HloInstructionProto{}, "name", "opcode", "shape", "literal", "id",
		"operand_ids", "control_predecessor_ids", "called_computation_ids", "operand_shapes_with_layout",
		"backend_config_payload")
)

func fieldSet(m proto.Message, names ...protoreflect.Name) map[protoreflect.FieldNumber]bool {
	set := map[protoreflect.FieldNumber]bool{}
	for _, n := range names {
		fd := m.ProtoReflect().Descriptor().Fields().ByName(n)
		if fd == nil {
			panic("hlo: no wire field " + string(n))
		}
		set[fd.Number()] = true
	}
	return set
}

// without copies src to dst deeply, the given fields left out, unknown fields
// included.
func without(dst, src proto.Message, fields map[protoreflect.FieldNumber]bool) {
	shallow := src.ProtoReflect().New()
	src.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !fields[fd.Number()] {
			shallow.Set(fd, v)
		}
		return true
	})
	setUnknown(shallow, src.ProtoReflect().GetUnknown())
	proto.Merge(dst, shallow.Interface())
}

// localID is the part of an instruction id that is unique in its
// computation: newer builds put the computation's id into the upper half
// (xla/hlo/ir/hlo_instruction.h, CalculateLocalId).
func localID(id int64) int32 { return int32(id) }

// FromProto builds a module from the wire. It takes what XLA's
// HloModule::CreateFromProto takes: operands before their users, callees
// before callers, one name per instruction and per computation, the right
// number of operands and called computations, data that fits the shapes.
// Shapes and attributes are judged by Verify. The module shares no memory
// with p.
//
// What an older or newer build writes differently is brought to one form:
// deduplicated payloads are put where they are used, the comparison fields
// are both filled, deprecated opcodes (less-than, ...), the boolean
// is_cross_program_prefetch, all_reduce_id and replica_groups are replaced by
// what stands for them now.
func FromProto(p *hlopb.HloModuleProto) (*Module, error) {
	if p == nil {
		return nil, errors.New("hlo: module is missing")
	}
	m, err := moduleFromProto(p)
	if err != nil {
		return nil, fmt.Errorf("hlo: module %q: %w", clip(p.Name), err)
	}
	return m, nil
}

// clip keeps hostile names out of error lines.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

func moduleFromProto(p *hlopb.HloModuleProto) (*Module, error) {
	m := NewModule(p.Name)
	without(m.Attr, p, moduleFields)
	r := &protoReader{module: p, computations: map[int64]*Computation{}}
	names, instrNames := map[string]bool{}, map[string]bool{}
	for _, cp := range p.Computations {
		c, err := r.computation(cp)
		if err != nil {
			return nil, fmt.Errorf("computation %q: %w", clip(cp.GetName()), err)
		}
		if r.computations[cp.Id] != nil {
			return nil, fmt.Errorf("computation %q: id %d is taken", clip(cp.Name), cp.Id)
		}
		if c.Name == "" || names[c.Name] {
			return nil, fmt.Errorf("computation name %q is empty or taken", clip(c.Name))
		}
		names[c.Name] = true
		for _, in := range c.Instructions {
			if instrNames[in.Name] {
				return nil, fmt.Errorf("computation %q: instruction name %q is taken", clip(c.Name), clip(in.Name))
			}
			instrNames[in.Name] = true
		}
		r.computations[cp.Id] = c
		m.Computations = append(m.Computations, c)
	}
	m.Entry = r.computations[p.EntryComputationId]
	if m.Entry == nil {
		return nil, fmt.Errorf("no computation has the entry id %d", p.EntryComputationId)
	}
	if ps := p.HostProgramShape; ps != nil {
		if err := refuseUnknown(ps); err != nil {
			return nil, err
		}
		var err error
		if m.EntryLayout, err = programShapeFromProto(ps); err != nil {
			return nil, fmt.Errorf("host_program_shape: %w", err)
		}
		if n := len(m.Entry.Params()); n != len(m.EntryLayout.Params) {
			return nil, fmt.Errorf("host_program_shape has %d parameters, the entry computation %d", len(m.EntryLayout.Params), n)
		}
	}
	if p.Schedule != nil {
		m.Scheduled = true
		if err := r.schedule(p.Schedule); err != nil {
			return nil, fmt.Errorf("schedule: %w", err)
		}
	}
	return m, nil
}

func programShapeFromProto(p *hlopb.ProgramShapeProto) (*ProgramShape, error) {
	ps := &ProgramShape{}
	for i, sp := range p.Parameters {
		s, err := ShapeFromProto(sp)
		if err != nil {
			return nil, fmt.Errorf("parameter %d: %w", i, err)
		}
		ps.Params = append(ps.Params, s)
	}
	var err error
	if ps.Result, err = ShapeFromProto(p.Result); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return ps, nil
}

type protoReader struct {
	module       *hlopb.HloModuleProto
	computations map[int64]*Computation
}

func (r *protoReader) computation(p *hlopb.HloComputationProto) (*Computation, error) {
	if p == nil {
		return nil, errors.New("computation is missing")
	}
	c := NewComputation(SanitizeName(p.Name))
	c.ExecutionThread = p.ExecutionThread
	without(c.Attr, p, computationFields)
	if ps := p.ProgramShape; ps != nil { // derived: only checked, not kept
		if err := refuseUnknown(ps); err != nil {
			return nil, err
		}
	}
	byID := make(map[int32]*Instruction, len(p.Instructions))
	for _, ip := range p.Instructions {
		in, err := r.instruction(ip, byID)
		if err != nil {
			return nil, fmt.Errorf("instruction %q: %w", clip(ip.GetName()), err)
		}
		if byID[localID(ip.Id)] != nil {
			return nil, fmt.Errorf("instruction %q: id %d is taken", clip(ip.Name), ip.Id)
		}
		byID[localID(ip.Id)] = in
		c.Instructions = append(c.Instructions, in)
	}
	c.Root = byID[localID(p.RootId)]
	if c.Root == nil {
		return nil, fmt.Errorf("no instruction has the root id %d", p.RootId)
	}
	return c, c.checkParams()
}

// checkParams demands that parameters are numbered 0 to n-1.
func (c *Computation) checkParams() error {
	n := 0
	for _, in := range c.Instructions {
		if in.Op == OpParameter {
			n++
		}
	}
	seen := make([]bool, n)
	for _, in := range c.Instructions {
		if in.Op != OpParameter {
			continue
		}
		i := in.Attr.GetParameterNumber()
		if i < 0 || i >= int64(n) {
			return fmt.Errorf("instruction %q: parameter number %d is not below %d, the number of parameters", clip(in.Name), i, n)
		}
		if seen[i] {
			return fmt.Errorf("instruction %q: parameter number %d is taken", clip(in.Name), i)
		}
		seen[i] = true
	}
	return nil
}

// deprecatedCompare are opcodes that became directions of compare.
var deprecatedCompare = map[string]string{
	"equal-to": "EQ", "not-equal-to": "NE", "greater-than-or-equal-to": "GE",
	"greater-than": "GT", "less-than-or-equal-to": "LE", "less-than": "LT",
}

func (r *protoReader) instruction(p *hlopb.HloInstructionProto, byID map[int32]*Instruction) (*Instruction, error) {
	if p == nil {
		return nil, errors.New("instruction is missing")
	}
	op, ok := OpcodeByName(p.Opcode)
	direction := deprecatedCompare[p.Opcode]
	if direction != "" {
		op = OpCompare
	} else if !ok {
		return nil, fmt.Errorf("unknown opcode %q", clip(p.Opcode))
	}
	if p.Id < 0 {
		return nil, fmt.Errorf("negative id %d", p.Id)
	}
	name := SanitizeName(p.Name)
	if name == "" {
		return nil, errors.New("name is empty")
	}
	s, err := ShapeFromProto(p.Shape)
	if err != nil {
		return nil, err
	}
	in := NewInstruction(name, op, s)
	without(in.Attr, p, instructionFields)
	for _, id := range p.OperandIds {
		o := byID[localID(id)]
		if o == nil {
			return nil, fmt.Errorf("operand id %d is not that of an earlier instruction of the computation", id)
		}
		in.Operands = append(in.Operands, o)
	}
	for _, id := range p.ControlPredecessorIds {
		o := byID[localID(id)]
		if o == nil {
			return nil, fmt.Errorf("control predecessor id %d is not that of an earlier instruction of the computation", id)
		}
		if !slices.Contains(in.ControlPredecessors, o) {
			in.ControlPredecessors = append(in.ControlPredecessors, o)
		}
	}
	for _, id := range p.CalledComputationIds {
		c := r.computations[id]
		if c == nil {
			return nil, fmt.Errorf("called computation id %d is not that of an earlier computation", id)
		}
		in.Called = append(in.Called, c)
	}
	if err := in.checkCounts(); err != nil {
		return nil, err
	}
	if p.Literal != nil {
		if in.Literal, err = LiteralFromProto(p.Literal); err != nil {
			return nil, err
		}
	}
	for i, sp := range p.OperandShapesWithLayout {
		os, err := ShapeFromProto(sp)
		if err != nil {
			return nil, fmt.Errorf("operand layout %d: %w", i, err)
		}
		in.OperandLayouts = append(in.OperandLayouts, os)
	}
	return in, r.upgrade(in, p, direction)
}

// upgrade brings the attributes to one form; see FromProto.
func (r *protoReader) upgrade(in *Instruction, p *hlopb.HloInstructionProto, direction string) error {
	a := in.Attr
	if pl := p.BackendConfigPayload; pl != nil {
		if err := refuseUnknown(pl); err != nil {
			return err
		}
		b, err := r.payload(pl)
		if err != nil {
			return fmt.Errorf("backend_config_payload: %w", err)
		}
		a.BackendConfig = bytes.Clone(b)
	}
	if pl := a.GetMetadata().GetMetadataPayload(); pl != nil {
		b, err := r.payload(pl)
		if err != nil {
			return fmt.Errorf("metadata_payload: %w", err)
		}
		pl.PayloadSource = &hlopb.Payload_Value{Value: bytes.Clone(b)}
	}
	switch in.Op {
	case OpCompare:
		if direction != "" {
			a.ComparisonDirection = direction
		}
		return in.fillComparison()
	case OpCopyStart:
		if a.IsCrossProgramPrefetch && a.OptionalCrossProgramPrefetchIndex == nil {
			a.OptionalCrossProgramPrefetchIndex = &hlopb.HloInstructionProto_CrossProgramPrefetchIndex{}
		}
		a.IsCrossProgramPrefetch = false
	case OpAllReduce, OpAllReduceStart, OpReduceScatter:
		if a.AllReduceId > 0 {
			if a.ChannelId > 0 {
				return errors.New("both channel_id and all_reduce_id are set")
			}
			a.ChannelId, a.AllReduceId = a.AllReduceId, 0
		}
	}
	return in.upgradeGroups()
}

// upgradeGroups brings replica groups to the form of the newest builds: in
// the oneof replica_group_list alone. Up to 2024 they were in replica_groups,
// in 2025 iota lists were inside collective_device_list.
func (in *Instruction) upgradeGroups() error {
	a := in.Attr
	if l := a.GetCollectiveDeviceList(); l.GetIotaReplicaGroupList() != nil {
		if len(l.ReplicaGroups) > 0 {
			return errors.New("collective_device_list holds two forms of replica groups")
		}
		a.ReplicaGroupList = &hlopb.HloInstructionProto_IotaCollectiveDeviceList{IotaCollectiveDeviceList: l.IotaReplicaGroupList}
	}
	old := a.ReplicaGroups
	if len(old) == 0 {
		return nil
	}
	a.ReplicaGroups = nil
	if a.ReplicaGroupList == nil {
		a.ReplicaGroupList = &hlopb.HloInstructionProto_CollectiveDeviceList{CollectiveDeviceList: &hlopb.CollectiveDeviceListProto{ReplicaGroups: old}}
		return nil
	}
	groups, err := in.ReplicaGroups()
	if err != nil {
		return err
	}
	if !slices.EqualFunc(old, groups, func(g *hlopb.ReplicaGroup, ids []int64) bool { return slices.Equal(g.GetReplicaIds(), ids) }) {
		return errors.New("replica_groups and the newer form of the replica groups contradict each other")
	}
	return nil
}

func (r *protoReader) payload(p *hlopb.Payload) ([]byte, error) {
	id, ok := p.PayloadSource.(*hlopb.Payload_Id)
	if !ok {
		return p.GetValue(), nil
	}
	if id.Id < 0 || id.Id >= int64(len(r.module.Payloads)) {
		return nil, fmt.Errorf("id %d is not below %d, the number of payloads", id.Id, len(r.module.Payloads))
	}
	return r.module.Payloads[id.Id], nil
}

// schedule puts the instructions into the order of their sequences. Sequences
// of computations that are not there are skipped, as XLA does, and so are those
// of computations that a fusion calls or that nothing calls: XLA leaves what they
// had before in the schedule, often empty, and verifies neither on writing nor on
// reading (xla/hlo/ir/hlo_schedule.cc, Verify).
func (r *protoReader) schedule(p *hlopb.HloScheduleProto) error {
	if err := refuseUnknown(p); err != nil {
		return err
	}
	fused, called := map[*Computation]bool{}, map[*Computation]bool{r.computations[r.module.EntryComputationId]: true}
	for _, c := range r.computations {
		for _, in := range c.Instructions {
			for _, k := range in.Called {
				called[k] = true
				fused[k] = fused[k] || in.Op == OpFusion
			}
		}
	}
	for _, cp := range r.module.Computations {
		seq := p.Sequences[cp.Id]
		if seq == nil {
			continue
		}
		if err := refuseUnknown(seq); err != nil {
			return err
		}
		c := r.computations[cp.Id]
		if fused[c] || !called[c] {
			continue
		}
		byID := make(map[int32]*Instruction, len(cp.Instructions))
		for i, ip := range cp.Instructions {
			byID[localID(ip.Id)] = c.Instructions[i]
		}
		order := make([]*Instruction, 0, len(c.Instructions))
		for _, id := range seq.InstructionIds {
			in := byID[localID(id)]
			if in == nil {
				return fmt.Errorf("computation %q: instruction id %d is unknown or repeated", clip(c.Name), id)
			}
			delete(byID, localID(id))
			order = append(order, in)
		}
		if len(order) != len(c.Instructions) {
			return fmt.Errorf("computation %q: %d of %d instructions are in the schedule", clip(c.Name), len(order), len(c.Instructions))
		}
		if in := firstOutOfOrder(order); in != nil {
			return fmt.Errorf("computation %q: %q comes before what it depends on", clip(c.Name), clip(in.Name))
		}
		c.Instructions = order
	}
	return nil
}

// firstOutOfOrder is the first instruction that comes before one of its
// operands or control predecessors, nil if there is none.
func firstOutOfOrder(list []*Instruction) *Instruction {
	done := make(map[*Instruction]bool, len(list))
	for _, in := range list {
		for _, o := range in.Operands {
			if !done[o] {
				return in
			}
		}
		for _, o := range in.ControlPredecessors {
			if !done[o] {
				return in
			}
		}
		done[in] = true
	}
	return nil
}

// ToProto is the wire form of the module. Ids are positive and unique in the
// module; callees come before callers, and operands before their users, in
// the module's own order where that order allows it. Names are made valid and
// unique as UniquifyNames does, if they are not already. An array without a
// layout gets the row-major one, as every shape that XLA's text parser makes;
// shapes of EntryLayout without one stay so: XLA chooses. What older and newer
// builds read from different fields is in both: the order of comparisons, and
// replica groups. The proto shares no memory with m.
//
// An error says which instruction cannot be written: a cycle, an operand or
// computation outside the module, a schedule out of order, a missing root.
func (m *Module) ToProto() (*hlopb.HloModuleProto, error) {
	p, err := m.toProto()
	if err != nil {
		return nil, fmt.Errorf("hlo: module %q: %w", clip(m.Name), err)
	}
	return p, nil
}

// whole checks that nothing in the lists is nil or listed twice.
func (m *Module) whole() error {
	comps, instrs := map[*Computation]bool{nil: true}, map[*Instruction]bool{nil: true}
	for _, c := range m.Computations {
		if comps[c] {
			return errors.New("a computation is nil or listed twice")
		}
		comps[c] = true
		for _, in := range c.Instructions {
			if instrs[in] {
				return fmt.Errorf("computation %q: an instruction is nil or listed twice", clip(c.Name))
			}
			instrs[in] = true
		}
	}
	return nil
}

func (m *Module) toProto() (*hlopb.HloModuleProto, error) {
	if err := m.whole(); err != nil {
		return nil, err
	}
	comps, err := m.postOrder()
	if err != nil {
		return nil, err
	}
	w := &protoWriter{names: m.names(), ids: map[*Instruction]int64{}, compIDs: map[*Computation]int64{}}
	p := &hlopb.HloModuleProto{}
	if m.Attr != nil {
		without(p, m.Attr, moduleFields)
	}
	p.Name = m.Name
	if m.Entry == nil {
		return nil, errors.New("no entry computation")
	}
	if m.Scheduled {
		p.Schedule = &hlopb.HloScheduleProto{Sequences: map[int64]*hlopb.HloScheduleProto_InstructionSequence{}}
	}
	fused := m.fusedComputations()
	for _, c := range comps {
		cp, err := w.computation(c, m.Scheduled)
		if err != nil {
			return nil, fmt.Errorf("computation %q: %w", clip(c.Name), err)
		}
		cp.IsFusionComputation = cp.IsFusionComputation || fused[c]
		p.Computations = append(p.Computations, cp)
		if m.Scheduled && !cp.IsFusionComputation {
			seq := &hlopb.HloScheduleProto_InstructionSequence{}
			for _, ip := range cp.Instructions {
				seq.InstructionIds = append(seq.InstructionIds, ip.Id)
			}
			p.Schedule.Sequences[cp.Id] = seq
		}
		if c == m.Entry {
			p.EntryComputationId, p.EntryComputationName = cp.Id, cp.Name
			p.HostProgramShape = proto.Clone(cp.ProgramShape).(*hlopb.ProgramShapeProto)
			for i := range p.HostProgramShape.ParameterNames { // as xla/service/computation_layout.cc
				p.HostProgramShape.ParameterNames[i] = fmt.Sprintf("p%d", i)
			}
		}
	}
	if p.HostProgramShape == nil {
		return nil, errors.New("the entry computation is not among the module's")
	}
	if l := m.EntryLayout; l != nil {
		ps := p.HostProgramShape
		if len(l.Params) != len(ps.Parameters) || l.Result == nil {
			return nil, fmt.Errorf("entry layout has %d parameters, the entry computation %d", len(l.Params), len(ps.Parameters))
		}
		for i, s := range l.Params {
			ps.Parameters[i] = s.Proto()
		}
		ps.Result = l.Result.Proto()
	}
	return p, nil
}

// fusedComputations are the computations that a fusion calls.
func (m *Module) fusedComputations() map[*Computation]bool {
	fused := map[*Computation]bool{}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if in.Op == OpFusion {
				for _, f := range in.Called {
					fused[f] = true
				}
			}
		}
	}
	return fused
}

// names are the names to write: the module's own when they are valid and
// unique, else those that UniquifyNames would give.
func (m *Module) names() map[any]string {
	names := map[any]string{}
	valid := m.validNames()
	comps, instrs := nameUniquer{}, nameUniquer{}
	for _, c := range m.Computations {
		names[c] = c.Name
		if !valid {
			names[c] = comps.unique(c.Name)
		}
		for _, in := range c.Instructions {
			names[in] = in.Name
			if !valid {
				names[in] = instrs.unique(in.Name)
			}
		}
	}
	return names
}

// postOrder is Computations with callees before callers: the module's own
// order if it is one already.
func (m *Module) postOrder() ([]*Computation, error) {
	const (
		unseen = iota
		open
		closed
	)
	state := map[*Computation]int{}
	inModule := map[*Computation]bool{}
	for _, c := range m.Computations {
		inModule[c] = true
	}
	var order []*Computation
	type frame struct {
		c       *Computation
		callees []*Computation
	}
	for _, root := range m.Computations {
		if state[root] != unseen {
			continue
		}
		stack := []frame{{root, root.callees()}}
		state[root] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.callees) == 0 {
				state[top.c] = closed
				order = append(order, top.c)
				stack = stack[:len(stack)-1]
				continue
			}
			next := top.callees[0]
			top.callees = top.callees[1:]
			switch {
			case !inModule[next]:
				return nil, fmt.Errorf("computation %q calls one that is not in the module", clip(top.c.Name))
			case state[next] == open:
				return nil, fmt.Errorf("computation %q calls itself, maybe through others", clip(next.Name))
			case state[next] == unseen:
				state[next] = open
				stack = append(stack, frame{next, next.callees()})
			}
		}
	}
	return order, nil
}

func (c *Computation) callees() []*Computation {
	var out []*Computation
	for _, in := range c.Instructions {
		out = append(out, in.Called...)
	}
	return out
}

// postOrder is Instructions with operands and control predecessors before
// their users: the computation's own order if it is one already.
func (c *Computation) postOrder() ([]*Instruction, error) {
	if firstOutOfOrder(c.Instructions) == nil {
		return c.Instructions, nil
	}
	const (
		unseen = iota
		open
		closed
	)
	state := map[*Instruction]int{}
	inside := map[*Instruction]bool{}
	for _, in := range c.Instructions {
		inside[in] = true
	}
	deps := func(in *Instruction) []*Instruction {
		return append(slices.Clone(in.Operands), in.ControlPredecessors...)
	}
	type frame struct {
		in   *Instruction
		deps []*Instruction
	}
	var order []*Instruction
	for _, root := range c.Instructions {
		if state[root] != unseen {
			continue
		}
		stack := []frame{{root, deps(root)}}
		state[root] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.deps) == 0 {
				state[top.in] = closed
				order = append(order, top.in)
				stack = stack[:len(stack)-1]
				continue
			}
			next := top.deps[0]
			top.deps = top.deps[1:]
			switch {
			case !inside[next]:
				return nil, fmt.Errorf("instruction %q depends on one that is not in the computation", clip(top.in.Name))
			case state[next] == open:
				return nil, fmt.Errorf("instruction %q depends on itself, maybe through others", clip(next.Name))
			case state[next] == unseen:
				state[next] = open
				stack = append(stack, frame{next, deps(next)})
			}
		}
	}
	return order, nil
}

type protoWriter struct {
	names   map[any]string
	ids     map[*Instruction]int64
	compIDs map[*Computation]int64
	last    int64 // the last id given
}

func (w *protoWriter) computation(c *Computation, scheduled bool) (*hlopb.HloComputationProto, error) {
	cp := &hlopb.HloComputationProto{}
	if c.Attr != nil {
		without(cp, c.Attr, computationFields)
	}
	cp.Name, cp.ExecutionThread = w.names[c], c.ExecutionThread
	order, err := c.postOrder()
	if err != nil {
		return nil, err
	}
	if scheduled && len(order) > 0 && &order[0] != &c.Instructions[0] {
		return nil, fmt.Errorf("instruction %q is scheduled before what it depends on", clip(firstOutOfOrder(c.Instructions).Name))
	}
	for _, in := range order {
		w.last++
		w.ids[in] = w.last
		ip, err := w.instruction(in)
		if err != nil {
			return nil, fmt.Errorf("instruction %q: %w", clip(in.Name), err)
		}
		cp.Instructions = append(cp.Instructions, ip)
	}
	w.last++
	cp.Id = w.last
	w.compIDs[c] = cp.Id
	root := c.Root
	if root == nil {
		return nil, errors.New("no root")
	}
	if cp.RootId = w.ids[root]; cp.RootId == 0 || !slices.Contains(c.Instructions, root) {
		return nil, errors.New("the root is not among the instructions")
	}
	if err := c.checkParams(); err != nil {
		return nil, err
	}
	ps := &hlopb.ProgramShapeProto{Result: root.Shape.proto(true)}
	for _, in := range c.Params() {
		ps.Parameters = append(ps.Parameters, in.Shape.proto(true))
		ps.ParameterNames = append(ps.ParameterNames, w.names[in])
	}
	cp.ProgramShape = ps
	return cp, nil
}

func (w *protoWriter) instruction(in *Instruction) (*hlopb.HloInstructionProto, error) {
	if in.Op == OpInvalid || int(in.Op) >= len(opcodes) {
		return nil, errors.New("no opcode")
	}
	if err := in.Shape.Validate(); err != nil {
		return nil, err
	}
	ip := &hlopb.HloInstructionProto{}
	if in.Attr != nil {
		without(ip, in.Attr, instructionFields)
	}
	ip.Id, ip.Name, ip.Opcode, ip.Shape = w.last, w.names[in], in.Op.String(), in.Shape.proto(true)
	for _, o := range in.Operands {
		ip.OperandIds = append(ip.OperandIds, w.ids[o])
	}
	for _, o := range in.ControlPredecessors {
		ip.ControlPredecessorIds = append(ip.ControlPredecessorIds, w.ids[o])
	}
	for _, c := range in.Called {
		ip.CalledComputationIds = append(ip.CalledComputationIds, w.compIDs[c])
	}
	if in.Literal != nil {
		lp, err := in.Literal.proto(in.Shape)
		if err != nil {
			return nil, err
		}
		ip.Literal = lp
	}
	for _, s := range in.OperandLayouts {
		if err := s.Validate(); err != nil {
			return nil, fmt.Errorf("operand layout: %w", err)
		}
		ip.OperandShapesWithLayout = append(ip.OperandShapesWithLayout, s.proto(true))
	}
	if ip.ReplicaGroupList != nil && len(ip.ReplicaGroups) == 0 {
		groups, err := in.ReplicaGroups()
		if err == nil { // what is wrong with them is Verify's to say
			for _, g := range groups {
				ip.ReplicaGroups = append(ip.ReplicaGroups, &hlopb.ReplicaGroup{ReplicaIds: slices.Clone(g)})
			}
		}
	}
	if in.Op == OpCompare && len(in.Operands) > 0 {
		full := &Instruction{Op: OpCompare, Operands: in.Operands, Attr: ip}
		if err := full.fillComparison(); err != nil {
			return nil, err
		}
	}
	return ip, nil
}

// TotalOrder reports whether a compare orders floats totally
// (-NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN); integers and predicates
// are always totally ordered. Builds write it as comparison_type TOTALORDER
// or comparison_order TOTAL.
func (in *Instruction) TotalOrder() bool {
	switch {
	case in.Attr.GetComparisonType() != "":
		return in.Attr.GetComparisonType() != "FLOAT"
	case in.Attr.GetComparisonOrder() != "":
		return in.Attr.GetComparisonOrder() == "TOTAL"
	}
	return !in.floatOperand()
}

func (in *Instruction) floatOperand() bool {
	if len(in.Operands) == 0 || in.Operands[0] == nil || in.Operands[0].Shape == nil {
		return false
	}
	t := in.Operands[0].Shape.Type
	return t.IsFloat() || t.IsComplex()
}

// fillComparison sets comparison_type and comparison_order of a compare, each
// from the other, and both from the operand type where neither is set
// (xla/comparison_util.cc). Builds up to 2026-08 read the first, newer ones
// the second. They must not contradict each other.
func (in *Instruction) fillComparison() error {
	a := in.Attr
	typ, order := a.ComparisonType, a.ComparisonOrder
	switch order {
	case "", "TOTAL", "PARTIAL":
	default:
		return fmt.Errorf("unknown comparison order %q", clip(order))
	}
	if typ == "" {
		t := InvalidType
		if len(in.Operands) > 0 && in.Operands[0].Shape != nil {
			t = in.Operands[0].Shape.Type
		}
		switch {
		case (t.IsFloat() || t.IsComplex()) && order == "TOTAL":
			typ = "TOTALORDER"
		case t.IsFloat() || t.IsComplex():
			typ = "FLOAT"
		case t.IsSigned():
			typ = "SIGNED"
		case t.IsUnsigned() || t == Pred:
			typ = "UNSIGNED"
		default:
			return fmt.Errorf("cannot compare values of type %v", t)
		}
	}
	want := "TOTAL"
	switch typ {
	case "FLOAT":
		want = "PARTIAL"
	case "TOTALORDER", "SIGNED", "UNSIGNED":
	default:
		return fmt.Errorf("unknown comparison type %q", clip(typ))
	}
	if order != "" && order != want {
		return fmt.Errorf("comparison type %s contradicts comparison order %s", typ, order)
	}
	a.ComparisonType, a.ComparisonOrder = typ, want
	return nil
}

// UnknownFields names the fields of the wire that this schema lacks and that
// the module carries along, as path.number, sorted by place, for example
//
//	module.200
//	main/add.1.shape.layout.77
//	main/add.1.metadata.40
func UnknownFields(m *Module) []string {
	var out []string
	report := func(path string, b []byte) {
		for _, n := range unknownNumbers(b) {
			out = append(out, fmt.Sprintf("%s.%d", path, n))
		}
	}
	walkUnknown("module", m.Attr, report)
	if l := m.EntryLayout; l != nil {
		for i, s := range l.Params {
			s.unknown(fmt.Sprintf("module.host_program_shape.parameters[%d]", i), report)
		}
		l.Result.unknown("module.host_program_shape.result", report)
	}
	for _, c := range m.Computations {
		walkUnknown(c.Name, c.Attr, report)
		for _, in := range c.Instructions {
			path := c.Name + "/" + in.Name
			walkUnknown(path, in.Attr, report)
			in.Shape.unknown(path+".shape", report)
			for i, s := range in.OperandLayouts {
				s.unknown(fmt.Sprintf("%s.operand_shapes_with_layout[%d]", path, i), report)
			}
			in.Literal.unknown(path+".literal", report)
		}
	}
	return out
}

func (s *Shape) unknown(path string, report func(string, []byte)) {
	if s == nil {
		return
	}
	report(path, s.Unknown)
	if s.Layout != nil {
		report(path+".layout", s.Layout.Unknown)
		s.Layout.PhysicalShape.unknown(path+".layout.physical_shape", report)
	}
	for i, e := range s.Elements {
		e.unknown(fmt.Sprintf("%s.tuple_shapes[%d]", path, i), report)
	}
}

func (l *Literal) unknown(path string, report func(string, []byte)) {
	if l == nil {
		return
	}
	report(path, l.Unknown)
	for i, e := range l.Elements {
		e.unknown(fmt.Sprintf("%s.tuple_literals[%d]", path, i), report)
	}
	l.Shape.unknown(path+".shape", report)
}

func walkUnknown(path string, msg proto.Message, report func(string, []byte)) {
	if msg == nil || !msg.ProtoReflect().IsValid() {
		return
	}
	r := msg.ProtoReflect()
	report(path, r.GetUnknown())
	fields := r.Descriptor().Fields()
	for i := 0; i < fields.Len(); i++ {
		fd := fields.Get(i)
		if fd.Message() == nil || !r.Has(fd) {
			continue
		}
		at := path + "." + string(fd.Name())
		v := r.Get(fd)
		switch {
		case fd.IsList():
			for j := 0; j < v.List().Len(); j++ {
				walkUnknown(fmt.Sprintf("%s[%d]", at, j), v.List().Get(j).Message().Interface(), report)
			}
		case fd.IsMap():
			if fd.MapValue().Message() == nil {
				continue
			}
			v.Map().Range(func(k protoreflect.MapKey, e protoreflect.Value) bool {
				walkUnknown(fmt.Sprintf("%s[%v]", at, k), e.Message().Interface(), report)
				return true
			})
		default:
			walkUnknown(at, v.Message().Interface(), report)
		}
	}
}

// unknownNumbers are the distinct field numbers in a message's unknown bytes,
// in order of appearance.
func unknownNumbers(b []byte) []protowire.Number {
	var nums []protowire.Number
	for len(b) > 0 {
		num, _, n := protowire.ConsumeField(b)
		if n < 0 {
			break // cannot happen: the bytes come from a parsed message
		}
		if !slices.Contains(nums, num) {
			nums = append(nums, num)
		}
		b = b[n:]
	}
	return nums
}
