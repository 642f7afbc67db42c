package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func module(t testing.TB, text string) *hlopb.HloModuleProto {
	t.Helper()
	m := &hlopb.HloModuleProto{}
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// addModule is add(p0, p1) with a dead constant and a called computation.
const addModule = `
name: "m" entry_computation_id: 7 entry_computation_name: "main" id: 3
computations { name: "f" id: 2 root_id: 20
  instructions { name: "x" opcode: "parameter" id: 20 shape { element_type: F32 dimensions: 2 layout { minor_to_major: 0 } } } }
computations { name: "main" id: 7 root_id: 73
  instructions { name: "p0" opcode: "parameter" id: 70 shape { element_type: F32 } }
  instructions { name: "p1" opcode: "parameter" id: 71 parameter_number: 1 }
  instructions { name: "dead" opcode: "constant" id: 72 literal { f32s: 0 } }
  instructions { name: "a" opcode: "add" id: 73 operand_ids: 70 operand_ids: 71 control_predecessor_ids: 74 }
  instructions { name: "c" opcode: "call" id: 74 operand_ids: 70 called_computation_ids: 2 } }
schedule { sequences { key: 7 value { instruction_ids: [70, 71, 72, 74, 73] } } }
`

// differences compares two modules as the report does.
func differences(t testing.TB, ours, theirs *hlopb.HloModuleProto) []string {
	t.Helper()
	a, err := canonical(ours)
	if err != nil {
		return []string{err.Error()}
	}
	b, err := canonical(theirs)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range diffModules(a, b) {
		out = append(out, d.group+": "+d.ours+" | "+d.theirs)
	}
	return out
}

func TestDifferences(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string // ours has to where XLA has from
		want           string // "" for none; several are joined by "; "
	}{
		// What is ignored.
		{"module id", `id: 3`, `id: 4`, ""},
		{"empty message", `opcode: "add"`, `opcode: "add" metadata {} frontend_attributes {}`, ""},
		{"static dimensions", `dimensions: 2`, `dimensions: 2 is_dynamic_dimension: false`, ""},
		{"alignment of 1", `minor_to_major: 0`, `minor_to_major: 0 tail_padding_alignment_in_elements: 1`, ""},
		{"empty layout of a scalar", `shape { element_type: F32 }`, `shape { element_type: F32 layout { tail_padding_alignment_in_elements: 1 } }`, ""},
		{"default precision", `opcode: "add"`, `opcode: "add" precision_config { operand_precision: [DEFAULT, DEFAULT] }`, ""},
		{"name suffix", `name: "p1"`, `name: "p1.12"`, ""},
		{"number of a computation", `id: 2 root_id: 20`, `id: 9 root_id: 20`, "no computation has number 2"},
		// What is not.
		{"module name", `name: "m"`, `name: "n"`, `module.name: "n" | "m"`},
		{"instruction name", `name: "p1"`, `name: "q1"`, "graph: parameter q1 | parameter p1"},
		{"names not unique", `name: "x"`, `name: "p0"`, "two instructions have the name p0"},
		{"computation names not unique", `name: "f"`, `name: "main"`, "two computations have the name main"},
		{"instruction numbers not unique", `id: 71 `, `id: 70 `, "two instructions have number 70"},
		{"computation numbers not unique", `id: 2 root_id`, `id: 7 root_id`, "two computations have number 7"},
		{"unknown operand", `operand_ids: 71`, `operand_ids: 5`, "no instruction has number 5"},
		{"opcode", `opcode: "add"`, `opcode: "multiply"`, "graph: multiply a | add a"},
		{"dynamic dimension", `dimensions: 2`, `dimensions: 2 is_dynamic_dimension: true`, "parameter.shape.is_dynamic_dimension: true | "},
		{"layout lost", `layout { minor_to_major: 0 }`, ``, "parameter.shape.layout:  | {minor_to_major:0}"},
		{"element type", `element_type: F32 dimensions`, `element_type: F64 dimensions`, "parameter.shape.element_type: F64 | F32"},
		{"precision", `opcode: "add"`, `opcode: "add" precision_config { operand_precision: [DEFAULT, HIGH] }`, "add.precision_config: {operand_precision:DEFAULT operand_precision:HIGH} | "},
		{"sign of zero", `f32s: 0`, `f32s: -0.0`, "constant.literal.f32s: -0 | 0"},
		{"operands exchanged", `operand_ids: 70 operand_ids: 71`, `operand_ids: 71 operand_ids: 70`,
			"graph: parameter p1 | parameter p0; graph: parameter p0 | parameter p1; call.operand_ids: 2 | 1; module.schedule.sequences: {key:0 value:{instruction_ids:2 instruction_ids:1 instruction_ids:5 instruction_ids:3 instruction_ids:0}} | {key:0 value:{instruction_ids:1 instruction_ids:2 instruction_ids:5 instruction_ids:3 instruction_ids:0}}"},
		{"control edge lost", `control_predecessor_ids: 74`, ``, "add.control_predecessor_ids:  | 3"},
		{"schedule", `[70, 71, 72`, `[71, 70, 72`, "module.schedule.sequences: {key:0 value:{instruction_ids:2 instruction_ids:1 instruction_ids:5 instruction_ids:3 instruction_ids:0}} | {key:0 value:{instruction_ids:1 instruction_ids:2 instruction_ids:5 instruction_ids:3 instruction_ids:0}}"},
		{"schedule lost", `schedule {`, `buffer_donor {} #`, "module.schedule:  | {sequences:{key:0 value:{instruction_ids:1 instruction_ids:2 instruction_ids:5 instruction_ids:3 instruction_ids:0}}}"},
		{"instruction more", `instructions { name: "p1"`, `instructions { name: "z" opcode: "iota" id: 99 } instructions { name: "p1"`, "module.computations.instructions count: 6 | 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(addModule, tt.from) != 1 {
				t.Fatalf("%q stands there %d times", tt.from, strings.Count(addModule, tt.from))
			}
			got := strings.Join(differences(t, module(t, strings.Replace(addModule, tt.from, tt.to, 1)), module(t, addModule)), "; ")
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestPairs compares modules that both differ from addModule: in the fields of
// the module and of its add instruction.
func TestPairs(t *testing.T) {
	const frames = `stack_frame_index { file_names: ["a", "b"] function_names: ["f", "g"]
		file_locations { file_name_id: 1 function_name_id: 2 line: 7 }
		file_locations { file_name_id: 2 function_name_id: 1 line: 9 }
		stack_frames { file_location_id: 1 }
		stack_frames { file_location_id: 2 }
		stack_frames { file_location_id: 2 parent_frame_id: 1 }
		stack_frames { file_location_id: 1 parent_frame_id: 4 } } `
	const other = `stack_frame_index { file_names: ["b", "a"] function_names: ["g", "f"]
		file_locations { file_name_id: 1 function_name_id: 2 line: 9 }
		file_locations { file_name_id: 2 function_name_id: 1 line: 7 }
		stack_frames { file_location_id: 1 parent_frame_id: 2 }
		stack_frames { file_location_id: 2 } } `
	recovery := func(first, second string) string {
		return fmt.Sprintf(`original_value_recovery_table { entries { old_original_array { instruction_name: %q } } entries { old_original_array { instruction_name: %q } } }`, first, second)
	}
	for _, tt := range []struct {
		name             string
		ours, oursAdd    string
		theirs, theirAdd string
		want             string
	}{
		{"comparison of floats", "", `comparison_type: "FLOAT" comparison_order: "PARTIAL"`, "", `comparison_order: "PARTIAL"`, ""},
		{"comparison of integers", "", `comparison_type: "SIGNED" comparison_order: "TOTAL"`, "", `comparison_order: "TOTAL"`, ""},
		{"comparison without its order", "", `comparison_type: "FLOAT"`, "", `comparison_order: "PARTIAL"`, `add.comparison_type: "FLOAT" | ; add.comparison_order:  | "PARTIAL"`},
		{"comparison at odds with itself", "", `comparison_type: "TOTALORDER" comparison_order: "PARTIAL"`, "", `comparison_order: "PARTIAL"`, `add.comparison_type: "TOTALORDER" | `},
		{"order of the recovery table", recovery("x", "y"), "", recovery("y", "x"), "", ""},
		{"recovery table", recovery("x", "y"), "", recovery("y", "z"), "",
			`module.original_value_recovery_table.entries.old_original_array.instruction_name: "x" | "y"; module.original_value_recovery_table.entries.old_original_array.instruction_name: "y" | "z"`},
		{"stack frames", frames, "metadata { stack_frame_id: 3 }", other, "metadata { stack_frame_id: 1 }", ""},
		{"other parent", frames, "metadata { stack_frame_id: 2 }", other, "metadata { stack_frame_id: 1 }",
			`add.metadata.stack_frame_id: 1 | 2; module.stack_frame_index.file_names: "b" | "a" "b"; module.stack_frame_index.function_names: "f" | "g" "f"; module.stack_frame_index.file_locations count: 1 | 2; module.stack_frame_index.stack_frames count: 1 | 2`},
		{"unused stack frames", frames, "", "", "", ""},
		{"payload in its place", "", `metadata { metadata_payload { value: "x" } }`, `payloads: "y" payloads: "x"`, `metadata { metadata_payload { id: 1 } }`, ""},
		{"other payload", "", `metadata { metadata_payload { value: "x" } }`, `payloads: "y"`, `metadata { metadata_payload { id: 0 } }`, `add.metadata.metadata_payload.value: "x" | "y"`},
		{"frame that is not there", "", "metadata { stack_frame_id: 3 }", "", "", ""},
		{"frame below itself", frames, "metadata { stack_frame_id: 4 }", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			with := func(fields, add string) *hlopb.HloModuleProto {
				return module(t, strings.Replace(addModule, `opcode: "add"`, `opcode: "add" `+add, 1)+fields)
			}
			if got := strings.Join(differences(t, with(tt.ours, tt.oursAdd), with(tt.theirs, tt.theirAdd)), "; "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestDropEmpty(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"\xaa\x06\x00", ""},
		{"\xaa\x06\x00\xa8\x06\x00\xaa\x06\x01x\xaa\x06\x00", "\xa8\x06\x00\xaa\x06\x01x"},
		{"\xaa\x06\x05x", "\xaa\x06\x05x"}, // broken
	} {
		if got := string(dropEmpty([]byte(tt.in))); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

// TestCanonicalLeavesItsArgument checks that the proto given is not changed.
func TestCanonicalLeavesItsArgument(t *testing.T) {
	m := module(t, addModule)
	if _, err := canonical(m); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(m, module(t, addModule)) {
		t.Error("changed")
	}
}

// randomModule draws a module of one to three computations, callees first.
func randomModule(t *rapid.T) *hlopb.HloModuleProto {
	m := &hlopb.HloModuleProto{Name: "m"}
	next := int64(0)
	for c := range rapid.IntRange(1, 3).Draw(t, "computations") {
		comp := &hlopb.HloComputationProto{Name: fmt.Sprintf("c%c", 'a'+c), Id: int64(c)}
		first := next
		for range rapid.IntRange(1, 8).Draw(t, "instructions") {
			in := &hlopb.HloInstructionProto{Id: next, Name: fmt.Sprintf("i%d_", next), Opcode: rapid.SampledFrom([]string{"add", "tuple", "call"}).Draw(t, "opcode")}
			if next > first {
				in.OperandIds = rapid.SliceOfN(rapid.Int64Range(first, next-1), 0, 3).Draw(t, "operands")
				in.ControlPredecessorIds = rapid.SliceOfN(rapid.Int64Range(first, next-1), 0, 1).Draw(t, "control")
			}
			if c > 0 && in.Opcode == "call" {
				in.CalledComputationIds = []int64{rapid.Int64Range(0, int64(c-1)).Draw(t, "callee")}
			}
			comp.Instructions = append(comp.Instructions, in)
			next++
		}
		comp.RootId = rapid.Int64Range(first, next-1).Draw(t, "root")
		m.Computations = append(m.Computations, comp)
		m.EntryComputationId, m.EntryComputationName = comp.Id, comp.Name
	}
	return m
}

// TestSameGraphIsEqual: numbers, order and name suffixes do not matter. The random modules
// have no dead instructions of one name, which only their order tells apart.
func TestSameGraphIsEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := randomModule(t)
		o := proto.Clone(m).(*hlopb.HloModuleProto)
		count := int64(0)
		for _, c := range m.Computations {
			count += int64(len(c.Instructions))
		}
		ids := rapid.Permutation(iota64(count)).Draw(t, "ids")
		comps := rapid.Permutation(iota64(int64(len(m.Computations)))).Draw(t, "computation ids")
		n := numbering{comps: asMap(comps), instrs: asMap(ids)}
		n.rewrite(o)
		for _, c := range o.Computations {
			c.Instructions = rapid.Permutation(c.Instructions).Draw(t, "order")
			for _, in := range c.Instructions {
				in.Name += rapid.SampledFrom([]string{"", ".1", ".77"}).Draw(t, "suffix")
			}
		}
		o.Computations = rapid.Permutation(o.Computations).Draw(t, "computation order")
		a, err := canonical(m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := canonical(o)
		if err != nil {
			t.Fatal(err)
		}
		if d := diffModules(a, b); len(d) > 0 {
			t.Fatalf("%v\n%v\n%v", d, prototext.Format(m), prototext.Format(o))
		}
	})
}

// TestOtherGraphDiffers: one operand that points elsewhere, or one more, shows.
func TestOtherGraphDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := randomModule(t)
		o := proto.Clone(m).(*hlopb.HloModuleProto)
		c := rapid.SampledFrom(o.Computations).Draw(t, "computation")
		in := rapid.SampledFrom(c.Instructions).Draw(t, "instruction")
		first := c.Instructions[0].Id
		to := rapid.Int64Range(first, max(first, in.Id-1)).Draw(t, "to")
		if at := len(in.OperandIds) - 1; at >= 0 && in.OperandIds[at] != to {
			in.OperandIds[at] = to
		} else {
			in.OperandIds = append(in.OperandIds, to)
		}
		a, err := canonical(m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := canonical(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(diffModules(a, b)) == 0 {
			t.Fatalf("no difference\n%v\n%v", prototext.Format(m), prototext.Format(o))
		}
	})
}

func iota64(n int64) (out []int64) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func asMap(to []int64) map[int64]int64 {
	m := map[int64]int64{}
	for i, v := range to {
		m[int64(i)] = v
	}
	return m
}
