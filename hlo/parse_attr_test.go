package hlo

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo/hlopb"
)

// inst parses a module with one instruction that has the given attributes.
func withAttr(t *testing.T, attr string) *Instruction {
	t.Helper()
	m, err := Parse("m", []byte("HloModule m\nENTRY e { p = (f32[8,8], s32[8]) parameter(0)\n a = f32[8,8] get-tuple-element(p), index=0, "+attr+" }"))
	if err != nil {
		t.Fatal(err)
	}
	checkFixPoint(t, m)
	return m.Entry.Root
}

// TestSharding gives each text its normal form (second column; "" where it is
// the text itself). The forms follow xla/hlo/ir/hlo_sharding_test.cc's rules:
// subgroups in order and merged, trivial ones gone, replicated ones sorted.
func TestSharding(t *testing.T) {
	for _, c := range [][2]string{
		{"{replicated}", ""},
		{"{manual}", ""},
		{"{unknown}", ""},
		{"{maximal device=3}", ""},
		{"{unreduced}", `{unreduced metadata={op_type="sdy::reduction_op" op_name="SUM"}}`},
		{`{unreduced metadata={op_type="sdy::reduction_op" op_name="MAX"}}`, ""},
		{"{devices=[2,2]0,1,2,3}", ""},
		{"{devices=[2,1]<=[2]}", ""},
		{"{devices=[2,2]<=[2,2]T(1,0)}", ""},
		{"{devices=[4,2]<=[2,2,2]T(0,1,2)}", "{devices=[4,2]<=[8]}"},
		{"{devices=[2,4]<=[4,1,2]T(2,0,1)}", "{devices=[2,4]<=[4,2]T(1,0)}"},
		{"{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", ""},
		{"{devices=[2,1,2]1,0,3,2 last_tile_dim_replicate}", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}"},
		{"{devices=[1,1,4]<=[4] last_tile_dim_replicate}", "{replicated}"},
		{"{devices=[2,2,1]<=[4] last_tile_dim_replicate}", "{devices=[2,2]<=[4]}"},
		{"{devices=[2,1,2]<=[4] last_tile_dims={replicated}}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
		{"{devices=[2,1,4]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
		{"{devices=[2,1,2]<=[4] last_tile_dims={manual}}", ""},
		{"{devices=[1,1,4]<=[4] last_tile_dims={manual}}", "{manual}"},
		{"{devices=[1,1,2,2]<=[4] last_tile_dims={manual,manual}}", "{manual}"},
		{"{devices=[2,1,2,2]<=[8] last_tile_dims={replicated, manual}}",
			"{devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}"},
		{"{devices=[2,1,2,2]0,1,2,3,4,5,6,7 last_tile_dims={replicated, manual}}",
			"{devices=[2,1,2,2]0,2,1,3,4,6,5,7 last_tile_dims={manual, replicated}}"},
		{"{devices=[2,1,1,2]<=[4] last_tile_dims={manual, replicated}}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
		{"{replicated shard_as 1}", ""},
		{"{devices=[2,1]<=[2] shard_like 5}", ""},
		{`{replicated metadata={op_name="a b"}}`, ""},
		{`{replicated metadata={{op_name="a"}, {op_name="b"}}}`, ""},
		{"{mesh['x'=2,'y'=4], [{'x'}, {'y', ?}]}", ""},
		{"{mesh['x'=2,'y'=4], [{}, {'y':(1)2}], replicated={'x'}, unreduced=max{'y':(2)2}}", ""},
		{"{mesh['x'=2,'y'=4], [{?}], manual={'y'}, metadata={op_name=\"m\"}}", ""},
		{"{mesh['x'=2,'y'=4], replicated}", ""},
		{"{mesh['x'=2,'y'=4], unreduced=min}", ""},
		{"{mesh['x'=2,'y'=4], unreduced={'x'}}", "{mesh['x'=2,'y'=4], [], unreduced={'x'}}"},
		{"{mesh['x'=2,'y'=4], manual}", ""},
		{"{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}, {}]}", ""},
		{"{mesh['x'=2,'y'=2], device_ids=(0,2,3,1), [{'0'}, {}]}", "{mesh['x'=2,'y'=2], device_ids=(0,2,3,1), [{'x'}, {}]}"},
		{"{maximal_mesh[device_id=7]}", ""},
	} {
		text, want := c[0], c[1]
		if want == "" {
			want = text
		}
		// unreduced={'x'} has a reduction operation in front in the short form.
		text = strings.Replace(text, "unreduced={'x'}}", "unreduced=sum{'x'}}", 1)
		in := withAttr(t, "sharding="+text)
		if got := (&printer{}).shardingText(in.Attr.Sharding); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestShardingOfTuples(t *testing.T) {
	text := "HloModule m\nENTRY e { p = f32[8] parameter(0)\n ROOT t = (f32[8], (f32[8], f32[8])) tuple(p, u), sharding=%\n }"
	for sharding, want := range map[string]string{
		"{replicated}": "{{replicated}, {replicated}, {replicated}}",
		"{{devices=[2]<=[2]}, {manual}, {maximal device=0}}": "{{devices=[2]<=[2]}, {manual}, {maximal device=0}}",
		"{}": "{}",
	} {
		s := strings.Replace(text, "%", sharding, 1)
		s = strings.Replace(s, " ROOT", " u = (f32[8], f32[8]) tuple(p, p)\n ROOT", 1)
		m, err := Parse("m", []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		checkFixPoint(t, m)
		if got := (&printer{}).shardingText(m.Entry.Root.Attr.Sharding); got != want {
			t.Errorf("%s: got %s, want %s", sharding, got, want)
		}
	}
}

// TestCommonAttributes checks what the attributes of every opcode put on the
// wire.
func TestCommonAttributes(t *testing.T) {
	in := withAttr(t, `sharding={replicated}, frontend_attributes={a="x\"y",b={"j":[1]}}, control-predecessors={p},
		statistics={visualizing_index=1,count=3,mean=-0.5}, origin={{"orig" {0,1}}},
		metadata={op_type="t" op_name="n", source_file="f.py" source_line=3 source_end_line=4 source_column=5
			source_end_column=6 profile_type={1,2} deduplicated_name="d" scheduling_name="s" metadata_payload="\001\377"},
		backend_config={"a":{"b":"}"}}`)
	want := &hlopb.HloInstructionProto{
		Sharding:           &hlopb.OpSharding{},
		FrontendAttributes: &hlopb.FrontendAttributes{Map: map[string]string{"a": `x"y`, "b": `{"j":[1]}`}},
		StatisticsViz: &hlopb.StatisticsViz{StatIndexToVisualize: 1, Statistics: []*hlopb.Statistic{
			{StatName: "count", StatVal: 3}, {StatName: "mean", StatVal: -0.5}}},
		OriginalValue: &hlopb.OriginalValueProto{Elements: []*hlopb.OriginalValueElementProto{
			{OriginalArray: &hlopb.OriginalArrayProto{InstructionName: "orig", ShapeIndex: []int64{0, 1}}}}},
		Metadata: &hlopb.OpMetadata{OpType: "t", OpName: "n", SourceFile: "f.py", SourceLine: 3, SourceEndLine: 4,
			SourceColumn: 5, SourceEndColumn: 6, ProfileType: []hlopb.ProfileType{1, 2}, DeduplicatedName: "d", SchedulingName: "s",
			MetadataPayload: &hlopb.Payload{PayloadSource: &hlopb.Payload_Value{Value: []byte("\x01\xff")}}},
		BackendConfig: []byte(`{"a":{"b":"}"}}`),
	}
	if !proto.Equal(in.Attr, want) {
		t.Errorf("got %v\nwant %v", in.Attr, want)
	}
	if len(in.ControlPredecessors) != 1 || in.ControlPredecessors[0].Name != "p" {
		t.Errorf("control predecessors %v", in.ControlPredecessors)
	}
}

func TestOriginalValues(t *testing.T) {
	for _, text := range []string{
		`{{"a"}}`, `{({"a" {0}}, {"b"})}`, `{(({"a"}), {"b" {1,2}}, ())}`, `{({}, {"b"})}`, `{[synthetic_call]}`,
	} {
		want := text
		if text == `{(({"a"}), {"b" {1,2}}, ())}` {
			want = `{(({"a"}), {"b" {1,2}})}` // an empty tuple has no elements on the wire
		}
		if got := originalValueText(withAttr(t, "origin="+text).Attr.OriginalValue); got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// TestHeader checks the attributes of the module and its sections.
func TestHeader(t *testing.T) {
	m, err := Parse("m", []byte(`HloModule head, is_scheduled=true, replica_count=2, num_partitions=4,
  input_output_alias={ {1}: (0, {}, must-alias), {0}: (1, {0}) }, buffer_donor={ (1, {1}), (0, {}) },
  alias_passthrough_params=true, entry_computation_layout={(f32[2,3]{0,1}, (f32[2], f32[]))->(f32[2]{0:S(1)}, f32[2,3])},
  frontend_attributes={k="v"}, allow_spmd_sharding_propagation_to_parameters={true,false},
  allow_spmd_sharding_propagation_to_output=true,
  origin_recovery_table={ {"old"} : {"new" {1}}, "ENTRY r { p = f32[] parameter(0)\n ROOT n = f32[] negate(p) }" {"o2"} : {"n2"} },
  debug_attributes={ {"x" {0}}:({log_mode=default,callback_id=3},{op_id=2,partitioned=true}), {"y"}:{log_mode=fusion_debugger} }

FileNames
1 "unused.py"
2 "a \"b\".py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=2 column=3 end_column=4}
2 {file_name_id=2 function_name_id=1 line=10 end_line=11 column=12 end_column=13}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=1 parent_frame_id=1}

ENTRY %e (a: f32[2,3], b: (f32[2], f32[])) -> (f32[2], f32[2,3]) {
  %b = (f32[2], f32[]) parameter(1)
  %a = f32[2,3]{1,0} parameter(0), metadata={op_name="a" stack_frame_id=2}
  // one comment, /* not two
  %x = f32[2] get-tuple-element(%b), index=0, metadata={op_name="b" stack_frame_id=9}
  ROOT %t = (f32[2], /* comment */ f32[2,3]) tuple(%x, %a)
}
`))
	if err != nil {
		t.Fatal(err)
	}
	checkFixPoint(t, m)
	want := &hlopb.HloModuleProto{
		InputOutputAlias: &hlopb.HloInputOutputAliasProto{Entries: []*hlopb.HloInputOutputAliasProto_AliasEntryProto{
			{OutputShapeIndex: []int64{0}, ParameterNumber: 1, ParameterShapeIndex: []int64{0}, Kind: hlopb.Kind_MAY_ALIAS},
			{OutputShapeIndex: []int64{1}, ParameterNumber: 0, Kind: hlopb.Kind_MUST_ALIAS},
		}},
		BufferDonor: &hlopb.HloBufferDonorProto{Entries: []*hlopb.HloBufferDonorProto_BufferDonorEntryProto{
			{ParameterNumber: 0}, {ParameterNumber: 1, ParameterShapeIndex: []int64{1}},
		}},
		FrontendAttributes: &hlopb.FrontendAttributes{Map: map[string]string{"k": "v"}},
		DebugAttributes: []*hlopb.DebugAttributeTableEntryProto{
			{OriginalArray: &hlopb.OriginalArrayProto{InstructionName: "x", ShapeIndex: []int64{0}}, DebugAttributes: []*hlopb.DebugAttributesProto{
				{LogMode: hlopb.DebugAttributesProto_DEFAULT, CallbackId: 3}, {OpId: 2, Partitioned: true}}},
			{OriginalArray: &hlopb.OriginalArrayProto{InstructionName: "y"}, DebugAttributes: []*hlopb.DebugAttributesProto{
				{LogMode: hlopb.DebugAttributesProto_FUSION_DEBUGGER}}},
		},
		StackFrameIndex: &hlopb.StackFrameIndexProto{
			FileNames: []string{`a "b".py`}, FunctionNames: []string{"main"},
			FileLocations: []*hlopb.StackFrameIndexProto_FileLocation{{FileNameId: 1, FunctionNameId: 1, Line: 10, EndLine: 11, Column: 12, EndColumn: 13}},
			StackFrames:   []*hlopb.StackFrameIndexProto_StackFrame{{FileLocationId: 1}, {FileLocationId: 1, ParentFrameId: 1}},
		},
	}
	got := proto.CloneOf(m.Attr)
	table := got.OriginalValueRecoveryTable
	got.OriginalValueRecoveryTable = nil
	if !proto.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if n := len(table.GetEntries()); n != 2 || table.Entries[0].RecoveryModule.GetName() != "module_r" || table.Entries[1].RecoveryModule != nil {
		t.Errorf("recovery table %v", table)
	}
	if m.Name != "head" || !m.Scheduled || m.ReplicaCount != 2 || m.NumPartitions != 4 {
		t.Errorf("header %q %v %d %d", m.Name, m.Scheduled, m.ReplicaCount, m.NumPartitions)
	}
	if got := programShapeText(m.EntryLayout); got != "{(f32[2,3]{0,1}, (f32[2]{0}, f32[]))->(f32[2]{0:S(1)}, f32[2,3]{1,0})}" {
		t.Errorf("entry layout %s", got)
	}
	if got := m.Entry.Instructions[0].Name; got != "b" {
		t.Errorf("the first instruction of the schedule is %s, want b", got)
	}
	if id := m.Entry.Instructions[2].Attr.Metadata.StackFrameId; id != 0 {
		t.Errorf("a stack frame that does not exist has id %d", id)
	}
}

// TestNames: names become unique in the module as XLA makes them.
func TestNames(t *testing.T) {
	m, err := Parse("m", []byte(`
f { p0 = f32[] parameter(0)
  ROOT add = f32[] add(p0, p0) }
g.1 { p0 = f32[] parameter(0)
  ROOT add.1 = f32[] add(p0, multiply(p0, multiply(p0, p0))) }
ENTRY %main {
  %p0 = f32[] parameter(0)
  c = f32[] call(p0), to_apply={ p0 = f32[] parameter(0)
    ROOT r = f32[] negate(p0) }
  %manual = f32[] call(c), to_apply=g.1
  ROOT tuple.7 = (f32[], f32[]) tuple(c, %manual)
}`))
	if err != nil {
		t.Fatal(err)
	}
	checkFixPoint(t, m)
	var names []string
	for _, c := range m.Computations {
		names = append(names, c.Name+":")
		for _, in := range c.Instructions {
			names = append(names, in.Name)
		}
	}
	want := "f: p0 add g.1: p0.1 multiply.anon multiply.anon.1 add.1 _: p0.2 r main: p0.3 c manual tuple.7"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if m.Name != "module_main" || m.Entry.Name != "main" {
		t.Errorf("module %s, entry %s", m.Name, m.Entry.Name)
	}
}

// TestCompactElements: one get-tuple-element per path, made at its first use.
func TestCompactElements(t *testing.T) {
	m, err := Parse("m", []byte(`HloModule m
ENTRY e {
  t = ((f32[2], s32[]), f32[2]) parameter(0)
  a = f32[2] add(%t#0#0, f32[2] %t#1)
  ROOT b = f32[2] subtract(a, %t#0#0)
}`))
	if err != nil {
		t.Fatal(err)
	}
	checkFixPoint(t, m)
	var got []string
	for _, in := range m.Entry.Instructions {
		got = append(got, in.String())
	}
	want := []string{
		"%t = ((f32[2]{0}, s32[]), f32[2]{0}) parameter(0)",
		"%t_0 = (f32[2]{0}, s32[]) get-tuple-element(%t), index=0",
		"%t_0_0 = f32[2]{0} get-tuple-element(%t_0), index=0",
		"%t_1 = f32[2]{0} get-tuple-element(%t), index=1",
		"%a = f32[2]{0} add(%t_0_0, %t_1)",
		"%b = f32[2]{0} subtract(%a, %t_0_0)",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestSingleInstruction(t *testing.T) {
	for text, want := range map[string]string{
		"f32[10] add(f32[10] x, f32[10])":                                           "%_ = f32[10]{0} add(%x, %_1)",
		"foo = f32[10] add(f32[10] %x, f32[10] x)":                                  "%foo = f32[10]{0} add(%x, %x)",
		"ROOT r = negate(f32[2]{0} tanh(f32[2] %x))":                                "%r = f32[2]{0} negate(%tanh.anon)",
		"f32[2] fusion(f32[2]), kind=kLoop, calls={ ROOT p = f32[2] parameter(0) }": "%_ = f32[2]{0} fusion(%_0), kind=kLoop, calls=%_.1",
	} {
		m, err := Parse("m", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		checkFixPoint(t, m)
		if got := m.Entry.Root.String(); got != want || !m.Scheduled {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestAsyncShortForms: `op-start` makes the computation that async-start
// calls; attributes that belong to both go to both, unless the wrapped
// instruction's own text says otherwise.
func TestAsyncShortForms(t *testing.T) {
	m, err := Parse("m", []byte(`HloModule m
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
quiet { p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p), metadata={} }
ENTRY e {
  p = f32[4] parameter(0)
  z = f32[] constant(0)
  s = ((f32[4], f32[]), f32[], s32[]) reduce-start(p, z), dimensions={0}, to_apply=add, async_execution_thread="other", metadata={op_name="r"}, backend_config="b"
  u = ((f32[4], f32[]), f32[], s32[]) reduce-update(s)
  d = f32[] reduce-done(u), async_execution_thread="other"
  q = ((f32[4]), f32[4]) async-start(p), calls=quiet, metadata={op_name="q"}
  qd = f32[4] async-done(q)
  ROOT t = (f32[], f32[4]) tuple(d, qd)
}`))
	if err != nil {
		t.Fatal(err)
	}
	checkFixPoint(t, m)
	c := m.Computation("async_wrapped")
	if c == nil || c.ExecutionThread != "other" || m.Computation("add").ExecutionThread != "other" {
		t.Fatalf("no async_wrapped on its thread in\n%v", m)
	}
	if got := c.Root.String(); got != `%reduce = f32[] reduce(%async_param, %async_param.1), dimensions={0}, to_apply=%add, metadata={op_name="r"}, backend_config="b"` {
		t.Errorf("wrapped instruction %s", got)
	}
	if got := m.Computation("quiet").Root.Attr.Metadata.GetOpName(); got != "" {
		t.Errorf("the wrapped instruction took the metadata %q", got)
	}
}
