package descriptors

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/passgate/passgate/hlo/hlopb"
	"github.com/passgate/passgate/xla/builds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// own is our schema as a file that a build could hold: in package xla.
func own(t testing.TB) *descriptorpb.FileDescriptorProto {
	t.Helper()
	f := proto.CloneOf(protodesc.ToFileDescriptorProto(hlopb.File_xla_proto))
	f.Name, f.Package = proto.String("xla/all.proto"), proto.String("xla")
	return f
}

func TestScan(t *testing.T) {
	raw, err := proto.Marshal(own(t))
	if err != nil {
		t.Fatal(err)
	}
	small := &descriptorpb.FileDescriptorProto{Name: proto.String("a.proto"), Syntax: proto.String("proto3")}
	smallRaw, err := proto.Marshal(small)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"alone":           raw,
		"zeros around":    slices.Concat(make([]byte, 10), raw, make([]byte, 10)),
		"text around":     slices.Concat([]byte("some xla/x.proto text \x0a"), raw, []byte("xla/y.proto")),
		"fields behind":   slices.Concat(raw, []byte{0x62, 0x06}, []byte("proto3")),
		"truncated twice": slices.Concat(raw[:len(raw)/2], raw),
		"another":         slices.Concat(smallRaw, raw),
	} {
		found := Scan(data)
		i := slices.IndexFunc(found, func(f *descriptorpb.FileDescriptorProto) bool { return f.GetName() == "xla/all.proto" })
		if i < 0 || len(found[i].GetMessageType()) != len(own(t).GetMessageType()) {
			t.Errorf("%s: %d files", name, len(found))
		}
	}
	if f := Scan(bytes.Repeat([]byte("x.proto\x0a\x07"), 1000)); len(f) > 1 {
		t.Errorf("found %d files in noise", len(f))
	}
}

func FuzzScan(f *testing.F) {
	raw, err := proto.Marshal(own(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw[:2000])
	f.Add([]byte("\x0a\x07a.proto"))
	f.Fuzz(func(t *testing.T, b []byte) {
		Compare(Scan(b))
	})
}

func TestCompare(t *testing.T) {
	// hlopb's Cpu... stands in xla.cpu, its placeholders of bytes fit anything.
	if d := Compare([]*descriptorpb.FileDescriptorProto{own(t)}); len(d.Conflicts)+len(d.Missing)+len(d.Extra) > 0 {
		t.Errorf("our own schema differs: %+v", d)
	}
	message := func(f *descriptorpb.FileDescriptorProto, name string) *descriptorpb.DescriptorProto {
		for _, m := range f.GetMessageType() {
			if m.GetName() == name {
				return m
			}
		}
		t.Fatalf("no message %s", name)
		return nil
	}
	field := func(m *descriptorpb.DescriptorProto, name string) *descriptorpb.FieldDescriptorProto {
		for _, f := range m.GetField() {
			if f.GetName() == name {
				return f
			}
		}
		t.Fatalf("no field %s", name)
		return nil
	}
	for _, row := range []struct {
		want  Diff
		spoil func(f *descriptorpb.FileDescriptorProto)
	}{
		{Diff{Conflicts: []string{"xla.ShapeProto.dimensions = 3 has number 33 in the build"}, Extra: []string{"xla.ShapeProto.dimensions = 33"}},
			func(f *descriptorpb.FileDescriptorProto) {
				field(message(f, "ShapeProto"), "dimensions").Number = proto.Int32(33)
			}},
		{Diff{Conflicts: []string{"xla.ShapeProto.dimensions = 3 has type int64 here and int32 in the build"}},
			func(f *descriptorpb.FileDescriptorProto) {
				field(message(f, "ShapeProto"), "dimensions").Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
			}},
		{Diff{Conflicts: []string{"xla.ShapeProto.layout = 5 has type message LayoutProto here and message TileProto in the build"}},
			func(f *descriptorpb.FileDescriptorProto) {
				field(message(f, "ShapeProto"), "layout").TypeName = proto.String(".xla.TileProto")
			}},
		{Diff{Conflicts: []string{"xla.ShapeProto.layout = 5 is repeated on one side only"}},
			func(f *descriptorpb.FileDescriptorProto) {
				field(message(f, "ShapeProto"), "layout").Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}},
		{Diff{Conflicts: []string{"xla.ShapeProto.layout = 5 is plan in the build"}},
			func(f *descriptorpb.FileDescriptorProto) {
				field(message(f, "ShapeProto"), "layout").Name = proto.String("plan")
			}},
		{Diff{Missing: []string{"xla.TileProto"}},
			func(f *descriptorpb.FileDescriptorProto) { message(f, "TileProto").Name = proto.String("Tile") }},
		{Diff{Missing: []string{"xla.TileProto.dimensions = 1"}},
			func(f *descriptorpb.FileDescriptorProto) { message(f, "TileProto").Field = nil }},
		{Diff{Conflicts: []string{"xla.PaddingType.PADDING_SAME is 2 here and 7 in the build"}, Extra: []string{"xla.PaddingType.MORE = 8"}},
			func(f *descriptorpb.FileDescriptorProto) {
				for _, e := range f.GetEnumType() {
					if e.GetName() == "PaddingType" {
						e.Value[2].Number = proto.Int32(7)
						e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String("MORE"), Number: proto.Int32(8)})
					}
				}
			}},
	} {
		f := own(t)
		row.spoil(f)
		if d := cmp.Diff(row.want, Compare([]*descriptorpb.FileDescriptorProto{f})); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
}

// TestBuilds checks our schema against every build of the catalogue: what a
// build has must have the same number and type.
func TestBuilds(t *testing.T) {
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range builds.Catalogue() {
		t.Run(e.Name, func(t *testing.T) {
			spec, err := builds.Parse(e.Name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := store.Fetch(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if b.Plugin == "" {
				t.Fatalf("build %s has no plugin", e.Name)
			}
			data, err := os.ReadFile(b.Plugin)
			if err != nil {
				t.Fatal(err)
			}
			files := Scan(data)
			names := map[string]bool{}
			for _, f := range files {
				names[f.GetName()] = true
			}
			for _, want := range []string{"xla/xla_data.proto", "xla/service/hlo.proto", "xla/xla.proto"} {
				if !names[want] {
					t.Errorf("%s is not in the build", want)
				}
			}
			d := Compare(files)
			for _, c := range d.Conflicts {
				t.Error(c)
			}
			// Older builds lack what came later, but not the core.
			for _, core := range []string{"xla.HloInstructionProto.operand_ids = 36", "xla.ShapeProto", "xla.LiteralProto.f32s = 8", "xla.HloModuleProto.computations = 3"} {
				if slices.Contains(d.Missing, core) {
					t.Errorf("the build lacks %s", core)
				}
			}
			// The table holds the debug options that passgate sets, not all.
			extra := slices.DeleteFunc(d.Extra, func(s string) bool { return strings.HasPrefix(s, "xla.DebugOptions.") })
			t.Logf("%d files, %d of our messages, fields and values missing, %d extra:\n%s", len(files), len(d.Missing), len(extra), strings.Join(extra, "\n"))
		})
	}
}
