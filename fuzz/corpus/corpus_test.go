package corpus

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/passes"
)

const job = `HloModule jit_secret_model, frontend_attributes={owner="alice"}
ENTRY secret_entry {
  private_x = f32[20] parameter(0), metadata={op_name="jit(secret)/mul" source_file="/home/alice/model.py" source_line=3}
  weights = f32[20] constant({0.11, 0.22, 0.33, 0.44, 0.55, 0.66, 0.77, 0.88, 0.99, 1.1, 1.21, 1.32, 1.43, 1.54, 1.65, 1.76, 1.87, 1.98, 0, -2.2})
  axis = s32[3] constant({5, 6, 7})
  ROOT private_y = f32[20] multiply(private_x, weights), frontend_attributes={note="alice"}
}
`

// TestScrub: nothing of the job is left in the text, the program still
// verifies, and small constants, zeros and signs stay.
func TestScrub(t *testing.T) {
	d, err := ReadDump("module_0001.jit_secret.before_optimizations.txt", []byte(job))
	if err != nil {
		t.Fatal(err)
	}
	e, removed, err := d.Entry(false)
	if err != nil {
		t.Fatal(err)
	}
	text := string(e.file().Format())
	for _, secret := range []string{"secret", "alice", "private", "model.py", "weights", "0.22"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is left in\n%s", secret, text)
		}
	}
	if !strings.Contains(text, "{5, 6, 7}") {
		t.Errorf("a small constant is gone:\n%s", text)
	}
	if removed.Metadata != 1 || removed.Attributes != 2 || removed.Constants != 1 || removed.Elements != 20 || removed.Names < 5 {
		t.Errorf("removed %+v", removed)
	}
	w := e.Case.Module.Entry.Instructions[1].Literal
	if w.Float(18) != 0 || w.Float(19) >= 0 {
		t.Errorf("zero and sign did not stay: %v", w)
	}
	kept, _, err := d.Entry(true)
	if err != nil || !strings.Contains(kept.Case.Text, "0.22") {
		t.Errorf("--keep-constants changed a constant: %v\n%s", err, kept.Case.Text)
	}
}

func TestElidedConstants(t *testing.T) {
	text := "HloModule m\nENTRY e {\n  c = s8[3,2]{1,0} constant({...})\n  ROOT r = s8[3,2] negate(c)\n}\n"
	d, err := ReadDump("a.txt", []byte(text))
	if err != nil || d.Elided != 1 {
		t.Fatalf("%d constants, %v", d.Elided, err)
	}
}

// TestSnapshot: a proto and the arguments of a run come back.
func TestSnapshot(t *testing.T) {
	m, err := hlo.Parse("m.hlo", []byte("HloModule m\nENTRY e {\n  x = s32[3] parameter(0)\n  ROOT y = s32[3] negate(x)\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := hlo.MarshalModule(m)
	if err != nil {
		t.Fatal(err)
	}
	lit, err := hlo.ParseLiteral("s32[3] {1, 2, 3}")
	if err != nil {
		t.Fatal(err)
	}
	pb, err := lit.Proto()
	if err != nil {
		t.Fatal(err)
	}
	arg, err := proto.Marshal(pb)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	snapshot := put(put(nil, 1, put(nil, 1, module)), 2, arg)
	unoptimized := put(put(nil, 1, module), 2, put(nil, 1, arg))
	for name, data := range map[string][]byte{
		"module_0001.execution_0001.hlo_snapshot.pb":             snapshot,
		"module_0001.execution_0001.hlo_unoptimized_snapshot.pb": unoptimized,
	} {
		d, err := ReadDump(name, data)
		if err != nil || len(d.Inputs) != 1 || d.Inputs[0].String() != lit.String() {
			t.Errorf("%s: inputs %v, %v", name, d.Inputs, err)
		}
		if _, err := ReadDump(name, data[:len(data)/4]); !errors.Is(err, ErrNoProgram) {
			t.Errorf("%s cut short: %v, want ErrNoProgram", name, err)
		}
	}
}

func TestDumpsLeavesOutStates(t *testing.T) {
	fsys := fstest.MapFS{
		"module_0001.f.before_optimizations.txt":                         {Data: []byte(job)},
		"module_0001.f.cpu_after_optimizations.txt":                      {Data: []byte(job)},
		"module_0001.f.0003.simplification.after_algsimp.before_dce.txt": {Data: []byte(job)},
		"module_0001.f.cpu_after_optimizations-buffer-assignment.txt":    {Data: []byte("x")},
		"sub/mine.hlo": {Data: []byte(job)},
		"notes.md":     {Data: []byte("x")},
		"sub/one.case": {Data: []byte("-- module.hlo --\nHloModule m\nENTRY e {\n  ROOT x = s32[2] parameter(0)\n}\n-- inputs --\ns32[2] {7, 8}\n")},
	}
	var got []string
	for d, err := range Dumps(fsys) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.Path)
		if len(d.Inputs) > 0 {
			got = append(got, d.Inputs[0].String())
		}
	}
	if strings.Join(got, " ") != "module_0001.f.before_optimizations.txt sub/mine.hlo sub/one.case s32[2] {7, 8}" {
		t.Errorf("read %q", got)
	}
}

func TestPutLoadCover(t *testing.T) {
	dir := t.TempDir()
	entry := func(op string, signatures ...string) Entry {
		c, err := fuzz.ReadModule(op+".hlo", []byte("HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n  ROOT y = f32[3] "+op+"(x)\n}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return Entry{Case: c, Signatures: signatures, Fired: []string{"algsimp", "dce"}, From: "test"}
	}
	a, b, c := entry("negate", "p:1"), entry("sine", "p:1", "p:2"), entry("cosine")
	for _, e := range []Entry{a, b, c, a} {
		if _, err := Put(dir, e, false); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Load(os.DirFS(dir))
	if err != nil || len(all) != 3 {
		t.Fatalf("%d entries, %v; want 3", len(all), err)
	}
	for _, e := range all {
		if e.Path != e.Name() || strings.Join(e.Fired, " ") != "algsimp dce" || e.From != "test" {
			t.Errorf("read back %+v", e)
		}
	}
	kept := Cover(all)
	if len(kept) != 1 || !strings.Contains(kept[0].Case.Text, "sine") {
		t.Errorf("%d entries cover the rewrites, want the one that has both", len(kept))
	}
	if s := Sum(all); s.Entries != 3 || s.Signatures != 2 || s.Fired[0].Entries != 3 {
		t.Errorf("stats %+v", s)
	}
}

// TestCutRecordsInputs: a piece around the sort has the inputs that reach it in
// the program.
func TestCutRecordsInputs(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("-- module.hlo --\nHloModule m\nless {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=LT\n}\nENTRY e {\n  x = s32[4] parameter(0)\n  n0 = s32[4] negate(x)\n")
	for i := range 8 {
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll("  nJ = s32[4] add(nI, x)\n", "I", string(rune('0'+i))), "J", string(rune('1'+i))))
	}
	b.WriteString("  s = s32[4] sort(n8), dimensions={0}, to_apply=less\n  ROOT r = s32[4] abs(s)\n}\n-- inputs --\ns32[4] {4, 3, 2, 1}\n")
	c, err := fuzz.ReadCase("c.case", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := Cut(context.Background(), c, func(op hlo.Opcode) bool { return op == hlo.OpSort }, 2, 4)
	if err != nil || len(pieces) != 1 {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	p := pieces[0]
	if p.Module.Entry.Instructions[0].Op != hlo.OpParameter || p.Module.NumInstructions() > 7 {
		t.Errorf("the piece is\n%s", p.Text)
	}
	// n8 = -x + 8x = 7x.
	if len(p.InputLines) != 1 && len(p.InputLines) != 2 || !strings.Contains(strings.Join(p.InputLines, " "), "{28, 21, 14, 7}") && !strings.Contains(strings.Join(p.InputLines, " "), "{24, 18, 12, 6}") {
		t.Errorf("recorded inputs %q", p.InputLines)
	}
}

func TestTestsOfAPass(t *testing.T) {
	module := "HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n  ROOT y = f32[3] negate(x)\n}\n"
	plan := passes.Affected([]passes.Change{{File: "xla/service/scatter_expander.cc"}})
	file := "xla/service/scatter_expander"
	for _, f := range plan.Focus {
		if f.Weight == 6 {
			file = strings.TrimSuffix(f.Pass.Files[0], ".h")
		}
	}
	fsys := fstest.MapFS{
		file + "_test.cc":                        {Data: []byte("TEST() { R\"(" + module + ")\"; R\"(HloModule x ENTRY $0 )\"; }")},
		"xla/hlo/transforms/tests/a.hlo":         {Data: []byte("// RUN: hlo-opt %s --passes=algsimp,other | FileCheck\n" + module)},
		"xla/service/unrelated_expander_test.cc": {Data: []byte("R\"(" + module + ")\"")},
	}
	focus := append(plan.Focus[:0:0], plan.Focus...)
	if found := Tests(fsys, focus); len(found) != 1 {
		t.Errorf("%d tests of %s, want 1", len(found), file)
	}
	if found := Tests(fsys, []passes.Focus{{Pass: passes.Lookup("algsimp")[0], Weight: 6}}); len(found) != 1 {
		t.Errorf("%d .hlo tests of algsimp, want 1", len(found))
	}
}

func FuzzReadDump(f *testing.F) {
	f.Add("a.txt", []byte(job))
	f.Add("a.hlo.pb", []byte{10, 2, 10, 0})
	f.Add("a.hlo_snapshot.pb", []byte{10, 2, 10, 0})
	f.Add("a.hlo_unoptimized_snapshot.pb", []byte{10, 2, 10, 0})
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		d, err := ReadDump(name, data)
		if err == nil && d.Module == nil {
			t.Error("no module and no error")
		}
	})
}
