package hlo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

// small is a module of a fused computation and an entry, as a proto with ids
// like those of newer builds: the computation's id in the upper half.
func small(t testing.TB) *hlopb.HloModuleProto {
	t.Helper()
	m, err := Parse("small", []byte(`HloModule small, entry_computation_layout={(f32[4]{0})->pred[4]{0}}
f { a = f32[4] parameter(0)
 c = f32[] constant(2)
 b = f32[4] broadcast(c), dimensions={}
 ROOT m = f32[4] multiply(a, b) }
ENTRY e { p = f32[4] parameter(0)
 x = f32[4] fusion(p), kind=kLoop, calls=f
 ROOT r = pred[4] compare(x, p), direction=LT, control-predecessors={x} }`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.ToProto()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestIDs(t *testing.T) {
	p := small(t)
	seen := map[int64]bool{}
	take := func(id int64) {
		if id <= 0 || id > math.MaxInt32 || seen[id] {
			t.Errorf("id %d is not positive and new", id)
		}
		seen[id] = true
	}
	for _, c := range p.Computations {
		for _, in := range c.Instructions {
			for _, o := range append(slices.Clone(in.OperandIds), in.CalledComputationIds...) {
				if !seen[o] {
					t.Errorf("%s refers to %d before it is there", in.Name, o)
				}
			}
			take(in.Id)
		}
		take(c.Id)
	}
	if p.EntryComputationName != "e" || p.EntryComputationId != p.Computations[1].Id {
		t.Errorf("entry is %s, %d", p.EntryComputationName, p.EntryComputationId)
	}
	if f, e := p.Computations[0], p.Computations[1]; !f.IsFusionComputation || e.IsFusionComputation {
		t.Error("is_fusion_computation is wrong")
	}
	if d := cmp.Diff([]string{"p0"}, p.HostProgramShape.ParameterNames); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a"}, p.Computations[0].ProgramShape.ParameterNames); d != "" {
		t.Error(d)
	}
}

// TestLocalIDs reads ids in the form of newer builds.
func TestLocalIDs(t *testing.T) {
	p := small(t)
	want, err := FromProto(p)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range p.Computations {
		local := map[int64]int64{}
		for j, in := range c.Instructions {
			local[in.Id] = int64(j)
			in.Id = int64(j) // operands name it with the computation's id on top
			for k, o := range in.OperandIds {
				in.OperandIds[k] = int64(i)<<32 | local[o]
			}
			for k, o := range in.ControlPredecessorIds {
				in.ControlPredecessorIds[k] = int64(i)<<32 | local[o]
			}
			for k := range in.CalledComputationIds {
				in.CalledComputationIds[k] = 0
			}
		}
		c.RootId = int64(i)<<32 | local[c.RootId]
		c.Id = int64(i)
	}
	p.EntryComputationId = 1
	got, err := FromProto(p)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("want\n%v\ngot\n%v", want, got)
	}
}

func TestSchedule(t *testing.T) {
	m, err := Parse("scheduled", []byte(`HloModule s, is_scheduled=true
f { a = f32[] parameter(0)
 ROOT n = f32[] negate(a) }
ENTRY e { p = f32[] parameter(0)
 x = f32[] negate(p)
 y = f32[] abs(p)
 fu = f32[] fusion(x), kind=kLoop, calls=f
 ROOT r = f32[] add(fu, y) }`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.ToProto()
	if err != nil {
		t.Fatal(err)
	}
	e := p.Computations[1]
	if len(p.Schedule.Sequences) != 1 {
		t.Fatalf("want the schedule of the entry alone, got %v", p.Schedule)
	}
	// Another order in the schedule than in the list.
	seq := p.Schedule.Sequences[e.Id].InstructionIds
	seq[1], seq[2] = seq[2], seq[1]
	back, err := FromProto(p)
	if err != nil {
		t.Fatal(err)
	}
	if !back.Scheduled || back.Entry.Instructions[1].Name != "y" || back.Entry.Instructions[2].Name != "x" {
		t.Errorf("instructions are not in the order of the schedule: %v", back)
	}
	for _, row := range []struct {
		want  string
		spoil func(ids []int64) []int64
	}{
		{"4 of 5 instructions", func(ids []int64) []int64 { return ids[:4] }},
		{"unknown or repeated", func(ids []int64) []int64 { return append(ids, ids[0]) }},
		{"unknown or repeated", func(ids []int64) []int64 { ids[0] = 99; return ids }},
		{`"r" comes before what it depends on`, func(ids []int64) []int64 { ids[3], ids[4] = ids[4], ids[3]; return ids }},
	} {
		q := proto.CloneOf(p)
		q.Schedule.Sequences[e.Id].InstructionIds = row.spoil(q.Schedule.Sequences[e.Id].InstructionIds)
		if _, err := FromProto(q); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want ...%s..., got %v", row.want, err)
		}
	}
	// What is left of the sequence of a computation that is a fusion's now, or
	// nobody's, says nothing.
	q := proto.CloneOf(p)
	q.Schedule.Sequences[q.Computations[0].Id] = &hlopb.HloScheduleProto_InstructionSequence{}
	dead := proto.CloneOf(q.Computations[0])
	dead.Id, dead.Name = 77, "dead"
	for i, in := range dead.Instructions {
		in.Id, in.Name = int64(770+i), "dead"+in.Name
	}
	dead.RootId = dead.Instructions[len(dead.Instructions)-1].Id
	for i, in := range dead.Instructions[1:] {
		in.OperandIds = []int64{dead.Instructions[i].Id}
	}
	q.Computations = append([]*hlopb.HloComputationProto{dead}, q.Computations...)
	q.Schedule.Sequences[dead.Id] = &hlopb.HloScheduleProto_InstructionSequence{InstructionIds: []int64{5, 5}}
	stale, err := FromProto(q)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(stale.Entry.Instructions), fmt.Sprint(back.Entry.Instructions); !stale.Scheduled || got != want {
		t.Errorf("with sequences that say nothing: %s, want %s", got, want)
	}
	i := back.Entry.Instructions
	i[3], i[4] = i[4], i[3]
	if _, err := back.ToProto(); err == nil || !strings.Contains(err.Error(), "scheduled before") {
		t.Errorf("ToProto of a wrong schedule: %v", err)
	}
}

// TestHostileProtos: each spoils a good proto, and gets one clean error.
func TestHostileProtos(t *testing.T) {
	deep := func(n int) *hlopb.ShapeProto {
		s := &hlopb.ShapeProto{ElementType: hlopb.PrimitiveType_F32}
		for range n {
			s = &hlopb.ShapeProto{ElementType: hlopb.PrimitiveType_TUPLE, TupleShapes: []*hlopb.ShapeProto{s}}
		}
		return s
	}
	array := func(dims ...int64) *hlopb.ShapeProto {
		return &hlopb.ShapeProto{ElementType: hlopb.PrimitiveType_F32, Dimensions: dims}
	}
	for _, row := range []struct {
		want  string
		spoil func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto)
	}{
		{"no computation has the entry id", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { p.Computations = nil }},
		{"no computation has the entry id 77", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { p.EntryComputationId = 77 }},
		{"id 5 is taken", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Id = 5 }},
		{`name "f" is empty or taken`, func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Name = "f" }},
		{`name "a" is taken`, func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[0].Name = "a" }},
		{"name is empty", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[0].Name = "" }},
		{"no instruction has the root id", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.RootId = 1 }},
		{"operand id 8 is not that of an earlier", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].OperandIds[0] = 8
		}},
		{"control predecessor id 99", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].ControlPredecessorIds = []int64{99}
		}},
		{"called computation id 9 is not that of an earlier", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].CalledComputationIds[0] = 9
		}},
		{"id 6 is taken", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[1].Id = 6 }},
		{"negative id", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[0].Id = -6 }},
		{`unknown opcode "frob"`, func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[1].Opcode = "frob" }},
		{"compare has 1 operands, want 2", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[2].OperandIds = e.Instructions[2].OperandIds[:1]
		}},
		{"fusion calls 0 computations", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].CalledComputationIds = nil
		}},
		{"shape is missing", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[1].Shape = nil }},
		{"unknown element type 999", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].Shape.ElementType = 999
		}},
		{"dimensions [9223372036854775807 2] overflow", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].Shape = array(math.MaxInt64, 2)
		}},
		{"negative size -1", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[1].Shape = array(-1) }},
		{"1 dimensions but 2 dynamic marks", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].Shape.IsDynamicDimension = []bool{true, false}
		}},
		{"nested deeper", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[1].Shape = deep(5000) }},
		{"tuple shape has dimensions", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].Shape = deep(1)
			e.Instructions[1].Shape.Dimensions = []int64{1}
		}},
		{"f32 shape has elements", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].Shape.TupleShapes = []*hlopb.ShapeProto{deep(0)}
		}},
		{"layout of 2 dimensions for a shape of 1", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].Shape.Layout.MinorToMajor = []int64{0, 1}
		}},
		{"tile size -3", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].Shape.Layout.Tiles = []*hlopb.TileProto{{Dimensions: []int64{-3}}}
		}},
		{"want ascending indices", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[1].Shape.Layout.SplitConfigs = []*hlopb.SplitConfigProto{{SplitIndices: []int64{9}}}
		}},
		{"literal has no shape", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { f.Instructions[1].Literal.Shape = nil }},
		{"literal f32[] holds 0 elements, want 1", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			f.Instructions[1].Literal.F32S = nil
		}},
		{"literal f32[4611686018427387904] holds 1", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			f.Instructions[1].Literal.Shape = array(1 << 62)
		}},
		{"tuple literal of 1 elements has 0", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			f.Instructions[1].Literal.Shape = deep(1)
		}},
		{"cannot have the type opaque", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			f.Instructions[1].Literal.Shape = &hlopb.ShapeProto{ElementType: hlopb.PrimitiveType_OPAQUE_TYPE}
		}},
		{"parameter number 3 is not below 1", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[0].ParameterNumber = 3
		}},
		{"id 2 is not below 0", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[0].BackendConfigPayload = &hlopb.Payload{PayloadSource: &hlopb.Payload_Id{Id: 2}}
		}},
		{"contradicts", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[2].ComparisonType, e.Instructions[2].ComparisonOrder = "FLOAT", "TOTAL"
		}},
		{`unknown comparison order "X"`, func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			e.Instructions[2].ComparisonOrder = "X"
		}},
		{"both channel_id and all_reduce_id", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			in := e.Instructions[1]
			in.Opcode, in.ChannelId, in.AllReduceId = "all-reduce", 1, 2
		}},
		{"host_program_shape: result: shape is missing", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) {
			p.HostProgramShape.Result = nil
		}},
		{"instruction is missing", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { e.Instructions[1] = nil }},
		{"computation is missing", func(p *hlopb.HloModuleProto, f, e *hlopb.HloComputationProto) { p.Computations[0] = nil }},
	} {
		p := small(t)
		row.spoil(p, p.Computations[0], p.Computations[1])
		m, err := FromProto(p)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want ...%s..., got %v (%v)", row.want, err, m)
		}
	}
	if _, err := FromProto(nil); err == nil {
		t.Error("no error for nil")
	}
	for _, b := range [][]byte{nil, {1}, []byte("HloModule text"), {0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f}} {
		if m, err := UnmarshalModule(b); err == nil {
			t.Errorf("%q is the module %v", b, m)
		}
		if m, err := UnmarshalHloProto(b); err == nil {
			t.Errorf("%q is the module %v", b, m)
		}
	}
}

// TestComparison: either field alone is enough to read, both are written.
func TestComparison(t *testing.T) {
	for _, row := range []struct {
		t                  PrimitiveType
		typ, order         string // as read
		wantTyp, wantOrder string // as kept and written
		total              bool
	}{
		{F32, "", "", "FLOAT", "PARTIAL", false},
		{F32, "FLOAT", "", "FLOAT", "PARTIAL", false},
		{F32, "TOTALORDER", "", "TOTALORDER", "TOTAL", true},
		{F32, "", "TOTAL", "TOTALORDER", "TOTAL", true},
		{BF16, "", "PARTIAL", "FLOAT", "PARTIAL", false},
		{C64, "", "", "FLOAT", "PARTIAL", false},
		{S32, "", "", "SIGNED", "TOTAL", true},
		{S32, "", "TOTAL", "SIGNED", "TOTAL", true},
		{U8, "", "", "UNSIGNED", "TOTAL", true},
		{Pred, "", "TOTAL", "UNSIGNED", "TOTAL", true},
		{Pred, "UNSIGNED", "TOTAL", "UNSIGNED", "TOTAL", true},
	} {
		p := small(t)
		p.HostProgramShape = nil
		f, e := p.Computations[0], p.Computations[1]
		for _, in := range append(f.Instructions, e.Instructions...) {
			if in != e.Instructions[2] {
				in.Shape.ElementType = hlopb.PrimitiveType(row.t)
			}
			in.Literal = nil
		}
		cmpProto := e.Instructions[2]
		cmpProto.ComparisonType, cmpProto.ComparisonOrder = row.typ, row.order
		m, err := FromProto(p)
		if err != nil {
			t.Fatal(err)
		}
		a := m.Entry.Root.Attr
		if a.ComparisonType != row.wantTyp || a.ComparisonOrder != row.wantOrder || m.Entry.Root.TotalOrder() != row.total {
			t.Errorf("%v %q %q: kept %q %q, total order %v", row.t, row.typ, row.order, a.ComparisonType, a.ComparisonOrder, m.Entry.Root.TotalOrder())
		}
		a.ComparisonType, a.ComparisonOrder = row.typ, row.order
		if m.Entry.Root.TotalOrder() != row.total {
			t.Errorf("%v %q %q: total order %v", row.t, row.typ, row.order, !row.total)
		}
		q, err := m.ToProto()
		if err != nil {
			t.Fatal(err)
		}
		if w := q.Computations[1].Instructions[2]; w.ComparisonType != row.wantTyp || w.ComparisonOrder != row.wantOrder {
			t.Errorf("%v %q %q: wrote %q %q", row.t, row.typ, row.order, w.ComparisonType, w.ComparisonOrder)
		}
		if m.Entry.Root.Attr.ComparisonType != row.typ {
			t.Error("ToProto changed the module")
		}
	}
}

func TestUpgrades(t *testing.T) {
	p := small(t)
	e := p.Computations[1]
	p.Payloads = [][]byte{[]byte("zero"), []byte("one")}
	e.Instructions[1].BackendConfigPayload = &hlopb.Payload{PayloadSource: &hlopb.Payload_Id{Id: 1}}
	e.Instructions[1].Metadata = &hlopb.OpMetadata{MetadataPayload: &hlopb.Payload{PayloadSource: &hlopb.Payload_Id{Id: 0}}}
	e.Instructions[2].Opcode, e.Instructions[2].ComparisonDirection = "greater-than-or-equal-to", ""
	before := proto.CloneOf(p)
	m, err := FromProto(p)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, p, protocmp.Transform()); d != "" {
		t.Errorf("FromProto changed its argument: %s", d)
	}
	q, err := m.ToProto()
	if err != nil {
		t.Fatal(err)
	}
	x, r := q.Computations[1].Instructions[1], q.Computations[1].Instructions[2]
	if string(x.BackendConfig) != "one" || x.BackendConfigPayload != nil || string(x.Metadata.MetadataPayload.GetValue()) != "zero" || len(q.Payloads) != 0 {
		t.Errorf("payloads are not in place: %v", x)
	}
	if r.Opcode != "compare" || r.ComparisonDirection != "GE" {
		t.Errorf("deprecated opcode: %v", r)
	}

	copyStart := small(t)
	e = copyStart.Computations[1]
	copyStart.HostProgramShape = nil
	e.Instructions = e.Instructions[:2]
	e.RootId = e.Instructions[1].Id
	in := e.Instructions[1]
	in.Opcode, in.CalledComputationIds, in.IsCrossProgramPrefetch = "copy-start", nil, true
	if m, err = FromProto(copyStart); err != nil {
		t.Fatal(err)
	}
	if a := m.Entry.Root.Attr; a.IsCrossProgramPrefetch || a.OptionalCrossProgramPrefetchIndex == nil {
		t.Errorf("is_cross_program_prefetch is not upgraded: %v", a)
	}
}

// TestReplicaGroups: every form is read, the newest is kept, and the oldest
// is written beside it.
func TestReplicaGroups(t *testing.T) {
	iota := &hlopb.IotaReplicaGroupListProto{NumReplicaGroups: 2, NumDevicesPerGroup: 2, IotaReshapeDims: []int64{2, 2}, IotaTransposePerm: []int32{1, 0}}
	list := []*hlopb.ReplicaGroup{{ReplicaIds: []int64{0, 2}}, {ReplicaIds: []int64{1, 3}}}
	mesh := func(axes ...*hlopb.AxisRefProto) *hlopb.MeshAxesReplicaGroupListProto {
		return &hlopb.MeshAxesReplicaGroupListProto{Axes: axes, Mesh: &hlopb.MeshProto{Axes: []*hlopb.MeshProto_MeshAxis{
			{Name: "a", Size: 2}, {Name: "b", Size: 2}}}}
	}
	type list1 = hlopb.HloInstructionProto_CollectiveDeviceList
	type list2 = hlopb.HloInstructionProto_IotaCollectiveDeviceList
	type list3 = hlopb.HloInstructionProto_MeshAxesReplicaGroupList
	for _, row := range []struct {
		name string
		put  func(p *hlopb.HloInstructionProto)
		want string // groups, or the error
	}{
		{"oldest", func(p *hlopb.HloInstructionProto) { p.ReplicaGroups = list }, "[[0 2] [1 3]]"},
		{"list", func(p *hlopb.HloInstructionProto) {
			p.ReplicaGroupList = &list1{CollectiveDeviceList: &hlopb.CollectiveDeviceListProto{ReplicaGroups: list}}
		}, "[[0 2] [1 3]]"},
		{"iota of 2025", func(p *hlopb.HloInstructionProto) {
			p.ReplicaGroupList = &list1{CollectiveDeviceList: &hlopb.CollectiveDeviceListProto{IotaReplicaGroupList: iota}}
		}, "[[0 2] [1 3]]"},
		{"iota", func(p *hlopb.HloInstructionProto) { p.ReplicaGroupList = &list2{IotaCollectiveDeviceList: iota} }, "[[0 2] [1 3]]"},
		{"both", func(p *hlopb.HloInstructionProto) {
			p.ReplicaGroups, p.ReplicaGroupList = list, &list2{IotaCollectiveDeviceList: iota}
		}, "[[0 2] [1 3]]"},
		{"first axis of a mesh", func(p *hlopb.HloInstructionProto) {
			p.ReplicaGroupList = &list3{MeshAxesReplicaGroupList: mesh(&hlopb.AxisRefProto{MeshAxisIndex: 0})}
		}, "[[0 2] [1 3]]"},
		{"second axis of a mesh", func(p *hlopb.HloInstructionProto) {
			p.ReplicaGroupList = &list3{MeshAxesReplicaGroupList: mesh(&hlopb.AxisRefProto{MeshAxisIndex: 1})}
		}, "[[0 1] [2 3]]"},
		{"both axes, the second first", func(p *hlopb.HloInstructionProto) {
			p.ReplicaGroupList = &list3{MeshAxesReplicaGroupList: mesh(&hlopb.AxisRefProto{MeshAxisIndex: 1}, &hlopb.AxisRefProto{MeshAxisIndex: 0})}
		}, "[[0 2 1 3]]"},
		{"part of an axis", func(p *hlopb.HloInstructionProto) {
			m := mesh(&hlopb.AxisRefProto{MeshAxisIndex: 0, SubAxisInfo: &hlopb.AxisRefProto_SubAxis{PreSize: 2, Size: 2}})
			m.Mesh.Axes = []*hlopb.MeshProto_MeshAxis{{Name: "a", Size: 8}}
			p.ReplicaGroupList = &list3{MeshAxesReplicaGroupList: m}
		}, "[[0 2] [1 3] [4 6] [5 7]]"},
		{"mesh of named devices", func(p *hlopb.HloInstructionProto) {
			m := mesh(&hlopb.AxisRefProto{MeshAxisIndex: 1})
			m.Mesh.DeviceIds = []int64{3, 2, 1, 0}
			p.ReplicaGroupList = &list3{MeshAxesReplicaGroupList: m}
		}, "[[3 2] [1 0]]"},
		{"mesh of transposed devices", func(p *hlopb.HloInstructionProto) {
			m := mesh(&hlopb.AxisRefProto{MeshAxisIndex: 1})
			m.Mesh.IotaTransform = &hlopb.MeshProto_IotaTransform{ReshapeDims: []int64{2, 2}, TransposePerm: []int64{1, 0}}
			p.ReplicaGroupList = &list3{MeshAxesReplicaGroupList: m}
		}, "[[0 2] [1 3]]"},
		{"contradiction", func(p *hlopb.HloInstructionProto) {
			p.ReplicaGroups, p.ReplicaGroupList = list[:1], &list2{IotaCollectiveDeviceList: iota}
		}, "contradict"},
		{"two forms", func(p *hlopb.HloInstructionProto) {
			p.ReplicaGroupList = &list1{CollectiveDeviceList: &hlopb.CollectiveDeviceListProto{IotaReplicaGroupList: iota, ReplicaGroups: list}}
		}, "two forms"},
	} {
		p := small(t)
		p.HostProgramShape = nil
		e := p.Computations[1]
		e.Instructions = e.Instructions[:2]
		e.RootId = e.Instructions[1].Id
		in := e.Instructions[1]
		in.Opcode, in.CalledComputationIds, in.FusionKind = "all-to-all", nil, ""
		in.Dimensions = []int64{0}
		row.put(in)
		m, err := FromProto(p)
		if err != nil {
			if !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: %v", row.name, err)
			}
			continue
		}
		got, err := m.Entry.Root.ReplicaGroups()
		if err != nil || fmt.Sprint(got) != row.want {
			t.Errorf("%s: groups %v, %v", row.name, got, err)
		}
		if a := m.Entry.Root.Attr; len(a.ReplicaGroups) > 0 || a.GetCollectiveDeviceList().GetIotaReplicaGroupList() != nil {
			t.Errorf("%s: an old form is kept: %v", row.name, a)
		}
		if err := Verify(m); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		q, err := m.ToProto()
		if err != nil {
			t.Fatal(err)
		}
		var old [][]int64
		for _, g := range q.Computations[1].Instructions[1].ReplicaGroups {
			old = append(old, g.ReplicaIds)
		}
		if fmt.Sprint(old) != row.want {
			t.Errorf("%s: for old builds %v", row.name, old)
		}
	}
}

// TestUnknownFields puts a field that the schema lacks into every message of
// a module: each must come back and be named, or be refused.
func TestUnknownFields(t *testing.T) {
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 3000, protowire.VarintType), 7)
	with := func(m proto.Message) { m.ProtoReflect().SetUnknown(unknown) }
	full := func() *hlopb.HloModuleProto {
		p := small(t)
		in := p.Computations[1].Instructions[1]
		in.Metadata = &hlopb.OpMetadata{OpName: "x"}
		in.Sharding = &hlopb.OpSharding{TupleShardings: []*hlopb.OpSharding{{}}}
		in.Shape.Layout.PhysicalShape = &hlopb.ShapeProto{ElementType: hlopb.PrimitiveType_F32}
		in.Shape.Layout.Tiles = []*hlopb.TileProto{{Dimensions: []int64{2}}}
		return p
	}
	for _, row := range []struct {
		want string
		put  func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto)
	}{
		{"module.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(p) }},
		{"f.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(p.Computations[0]) }},
		{"e/x.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(in) }},
		{"e/x.metadata.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(in.Metadata) }},
		{"e/x.sharding.tuple_shardings[0].3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) {
			with(in.Sharding.TupleShardings[0])
		}},
		{"e/x.shape.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(in.Shape) }},
		{"e/x.shape.layout.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(in.Shape.Layout) }},
		{"e/x.shape.layout.physical_shape.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) {
			with(in.Shape.Layout.PhysicalShape)
		}},
		{"f/c.literal.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) {
			with(p.Computations[0].Instructions[1].Literal)
		}},
		{"f/c.literal.shape.layout.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) {
			with(p.Computations[0].Instructions[1].Literal.Shape.Layout)
		}},
		{"module.host_program_shape.result.3000", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) {
			with(p.HostProgramShape.Result)
		}},
		{"refused", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(in.Shape.Layout.Tiles[0]) }},
		{"refused", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(p.HostProgramShape) }},
		{"refused", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) { with(p.Computations[0].ProgramShape) }},
		{"refused", func(p *hlopb.HloModuleProto, in *hlopb.HloInstructionProto) {
			p.Schedule = &hlopb.HloScheduleProto{}
			with(p.Schedule)
		}},
	} {
		p := full()
		row.put(p, p.Computations[1].Instructions[1])
		m, err := FromProto(p)
		if row.want == "refused" {
			if err == nil || !strings.Contains(err.Error(), "unknown field 3000") {
				t.Errorf("want a refusal, got %v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row.want, err)
			continue
		}
		if d := cmp.Diff([]string{row.want}, UnknownFields(m)); d != "" {
			t.Errorf("%s: %s", row.want, d)
		}
		q, err := m.ToProto()
		if err != nil {
			t.Fatal(err)
		}
		back, err := FromProto(q)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{row.want}, UnknownFields(back)); d != "" {
			t.Errorf("%s: after a round trip: %s", row.want, d)
		}
	}
}

// TestRepairs: ToProto brings lists into order and names into shape.
func TestRepairs(t *testing.T) {
	m := NewModule("hand made")
	f := NewComputation("f")
	a := NewInstruction("x", OpParameter, ArrayShape(F32, 2, 3))
	n := NewInstruction("x", OpNegate, ArrayShape(F32, 2, 3), a)
	f.Instructions, f.Root = []*Instruction{n, a}, n
	e := NewComputation("f")
	p := NewInstruction("1 p", OpParameter, ArrayShape(F32, 2, 3))
	c := NewInstruction("x", OpCall, ArrayShape(F32, 2, 3), p)
	c.Called = []*Computation{f}
	e.Instructions, e.Root = []*Instruction{p, c}, c
	m.Computations, m.Entry = []*Computation{e, f}, e
	q, err := m.ToProto()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range q.Computations {
		names = append(names, c.Name+":")
		for _, in := range c.Instructions {
			names = append(names, in.Name)
		}
	}
	if d := cmp.Diff([]string{"f.1:", "x.2", "x.1", "f:", "__p", "x"}, names); d != "" && names[4] != "a_p" {
		t.Error(d)
	}
	if m.Computations[0].Instructions[0].Name != "1 p" {
		t.Error("ToProto changed the module")
	}
	if l := q.Computations[0].Instructions[0].Shape.Layout; !slices.Equal(l.GetMinorToMajor(), []int64{1, 0}) {
		t.Errorf("default layout is %v", l)
	}
	back, err := FromProto(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(back); err != nil {
		t.Error(err)
	}
	q2, err := back.ToProto()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(q, q2, protocmp.Transform()); d != "" {
		t.Errorf("no fix point: %s", d)
	}
}

func drawShape(t *rapid.T, depth int) *Shape {
	if depth > 0 && rapid.IntRange(0, 3).Draw(t, "tuple") == 0 {
		s := &Shape{Type: Tuple}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			s.Elements = append(s.Elements, drawShape(t, depth-1))
		}
		return s
	}
	var types []PrimitiveType
	for i := range primitives {
		if PrimitiveType(i).IsArray() {
			types = append(types, PrimitiveType(i))
		}
	}
	dims := rapid.SliceOfN(rapid.Int64Range(0, 4), 0, 4).Draw(t, "dims")
	s := ArrayShape(rapid.SampledFrom(types).Draw(t, "type"), dims...)
	order := make([]int64, len(dims))
	for i := range order {
		order[i] = int64(i)
	}
	s.Layout = &Layout{MinorToMajor: rapid.Permutation(order).Draw(t, "layout"), MemorySpace: rapid.Int64Range(0, 5).Draw(t, "space")}
	if rapid.Bool().Draw(t, "tiled") {
		s.Layout.Tiles = [][]int64{{8, TileCombine}}
	}
	if len(dims) > 0 && rapid.IntRange(0, 3).Draw(t, "dynamic") == 0 {
		s.setDynamic(rapid.IntRange(0, len(dims)-1).Draw(t, "which"))
	}
	return s
}

func fillLiteral(t *rapid.T, l *Literal) {
	for _, e := range l.Elements {
		fillLiteral(t, e)
	}
	if !l.Shape.IsArray() {
		return
	}
	for i := range l.Raw {
		l.Raw[i] = rapid.Byte().Draw(t, "byte")
		if l.Shape.Type == Pred {
			l.Raw[i] &= 1
		}
	}
	l.canonicalBytes()
	if l.Shape.IsDynamic() {
		for _, d := range l.Shape.Dims {
			l.DynamicSizes = append(l.DynamicSizes, int32(d))
		}
	}
}

// TestLiteralRoundTrip: any literal of any type, shape and layout comes back
// bit for bit, through bytes.
func TestLiteralRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t, 2)
		l := NewLiteral(s)
		fillLiteral(t, l)
		p, err := l.Proto()
		if err != nil {
			t.Fatal(err)
		}
		b, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q := &hlopb.LiteralProto{}
		if err := proto.Unmarshal(b, q); err != nil {
			t.Fatal(err)
		}
		back, err := LiteralFromProto(q)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(flat(l), flat(back)); d != "" {
			t.Fatal(d)
		}
	})
}

// flat is a literal as text and bytes, nil and empty slices being the same.
func flat(l *Literal) []string {
	out := []string{fmt.Sprintf("%v %x %v", l.Shape, l.Raw, l.DynamicSizes)}
	for _, e := range l.Elements {
		out = append(out, flat(e)...)
	}
	return out
}

// TestLiteralOrder: the wire holds elements in the order of the layout, and a
// constant's literal follows the constant's layout.
func TestLiteralOrder(t *testing.T) {
	l := NewLiteral(ArrayShape(S32, 2, 3))
	for i := range int64(6) {
		l.SetInt(i, i)
	}
	like := ArrayShape(S32, 2, 3)
	like.Layout = &Layout{MinorToMajor: []int64{0, 1}}
	p, err := l.proto(like)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int32{0, 3, 1, 4, 2, 5}, p.S32S); d != "" {
		t.Error(d)
	}
	s4 := NewLiteral(ArrayShape(S4, 2))
	s4.SetInt(0, -1)
	s4.SetInt(1, 7)
	if p, err = s4.Proto(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]byte{0x0f, 0x07}, p.S4S); d != "" { // as XLA writes it
		t.Error(d)
	}
}

func TestMarshal(t *testing.T) {
	m, err := FromProto(small(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		a, err := MarshalModule(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := UnmarshalModule(a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := MarshalHloProto(back)
		if err != nil {
			t.Fatal(err)
		}
		again, err := UnmarshalHloProto(b)
		if err != nil {
			t.Fatal(err)
		}
		c, err := MarshalModule(again)
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(c) {
			t.Fatal("the bytes differ")
		}
	}
}

// FuzzUnmarshalModule: hostile bytes give an error or a module that can be
// verified, printed and written, and comes back from the wire unchanged.
func FuzzUnmarshalModule(f *testing.F) {
	b, err := proto.Marshal(small(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, text := range opModules {
		if m, err := Parse("seed", []byte(text)); err == nil {
			if b, err := MarshalModule(m); err == nil {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := UnmarshalModule(b)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of several lines: %v", err)
			}
			return
		}
		_ = Verify(m)
		_ = m.String()
		UnknownFields(m)
		p, err := m.ToProto()
		if err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		back, err := FromProto(p)
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		q, err := back.ToProto()
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(p, q) {
			t.Fatal("no fix point")
		}
	})
}
