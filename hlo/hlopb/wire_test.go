package hlopb_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/passgate/passgate/hlo/hlopb"
	"github.com/passgate/passgate/hlo/hlopb/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func table(t *testing.T, path string) []protogen.Field {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fields, err := protogen.ReadTable(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(fields) < 700 {
		t.Fatalf("%s has only %d rows", path, len(fields))
	}
	return fields
}

// row is a line of the table.
func row(f protogen.Field) string {
	return strings.Join([]string{f.Message, fmt.Sprint(f.Number), f.Name, f.Label, f.Type, f.Oneof}, "\t")
}

// schema is what the generated code says, in rows of the table. Types that
// the table does not list are bytes there.
type schema struct {
	rows   map[string]bool
	listed map[string]bool // messages and enums of the table
}

func (s *schema) name(d protoreflect.Descriptor) string {
	local := strings.TrimPrefix(string(d.FullName()), "passgate.xla.")
	if cpu, ok := strings.CutPrefix(local, "Cpu"); ok && s.listed["xla.cpu."+cpu] {
		return "xla.cpu." + cpu
	}
	return "xla." + local
}

func (s *schema) enums(list protoreflect.EnumDescriptors) {
	for i := range list.Len() {
		e := list.Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			s.rows[row(protogen.Field{Message: s.name(e), Number: int(v.Number()), Name: string(v.Name()), Label: "enum value"})] = true
		}
	}
}

func (s *schema) messages(list protoreflect.MessageDescriptors) {
	for i := range list.Len() {
		m := list.Get(i)
		s.enums(m.Enums())
		s.messages(m.Messages())
		for j := range m.Fields().Len() {
			fd := m.Fields().Get(j)
			f := protogen.Field{Message: s.name(m), Number: int(fd.Number()), Name: string(fd.Name()), Label: "single", Type: fd.Kind().String()}
			if fd.IsList() || fd.IsMap() {
				f.Label = "repeated"
			}
			if fd.Message() != nil {
				f.Type = s.name(fd.Message())
			}
			if fd.Enum() != nil {
				f.Type = "enum " + s.name(fd.Enum())
			}
			if o := fd.ContainingOneof(); o != nil {
				f.Oneof = string(o.Name())
			}
			s.rows[row(f)] = true
		}
	}
}

// TestWireTable: the generated code says what wire.tsv says, row for row:
// number, name, label, type and oneof.
func TestWireTable(t *testing.T) {
	fields := table(t, "wire.tsv")
	s := &schema{rows: map[string]bool{}, listed: map[string]bool{}}
	for _, f := range fields {
		s.listed[f.Message] = true
	}
	s.enums(hlopb.File_xla_proto.Enums())
	s.messages(hlopb.File_xla_proto.Messages())
	want := map[string]bool{}
	for _, f := range fields {
		if strings.Contains(f.Type, ".") && !s.listed[strings.TrimPrefix(f.Type, "enum ")] {
			f.Type = "bytes" // kept as it is, unread
		}
		want[row(f)] = true
	}
	if len(want) != len(fields) {
		t.Errorf("%d rows are repeated", len(fields)-len(want))
	}
	if d := cmp.Diff(want, s.rows); d != "" {
		t.Errorf("-wire.tsv +xla.pb.go; run go generate ./hlo/hlopb\n%s", d)
	}
}

// TestProtoIsCurrent: xla.proto is what protogen makes of wire.tsv now.
func TestProtoIsCurrent(t *testing.T) {
	var b bytes.Buffer
	if err := protogen.Write(&b, table(t, "wire.tsv")); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("xla.proto")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(have), b.String()); d != "" {
		t.Errorf("run go generate ./hlo/hlopb: -xla.proto +protogen\n%s", d)
	}
}

// TestHandedTable: every handed fact is in wire.tsv.
func TestHandedTable(t *testing.T) {
	ours := map[string]bool{}
	for _, f := range table(t, "wire.tsv") {
		ours[row(f)] = true
	}
	for _, f := range table(t, filepath.Join("..", "..", "..", "shared", "xla-wire.tsv")) {
		if !ours[row(f)] {
			t.Errorf("wire.tsv lacks %q", row(f))
		}
	}
}

func TestReadTableErrors(t *testing.T) {
	for text, want := range map[string]string{
		"xla.A\t1\tb":                  "wire.tsv:1: want at least 4 columns",
		"# c\nxla.A\tx\tb\tsingle\t\t": "wire.tsv:2: number",
	} {
		if _, err := protogen.ReadTable(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
