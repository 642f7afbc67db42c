package hlo

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// place is a field that is set in some message of a proto.
type place struct {
	m  protoreflect.Message
	fd protoreflect.FieldDescriptor
}

func places(m protoreflect.Message, out []place) []place {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out = append(out, place{m, fd})
		switch {
		case fd.IsMap():
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				out = places(v.List().Get(i).Message(), out)
			}
		case fd.Message() != nil && !fd.IsList():
			out = places(v.Message(), out)
		}
		return true
	})
	return out
}

// scalarValue draws a value for a field, with a taste for extremes.
func scalarValue(t *rapid.T, fd protoreflect.FieldDescriptor) protoreflect.Value {
	n := rapid.SampledFrom([]int64{-1, 0, 1, 2, 3, 4, 5, 6, 7, math.MaxInt32, math.MaxInt64, math.MinInt64, Unbounded}).Draw(t, "number")
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n % 40))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.SampledFrom([]string{"", "add", "reduce", "TOTAL", "a b", "main"}).Draw(t, "string"))
	}
	return protoreflect.Value{}
}

func mutate(t *rapid.T, p place) {
	if p.fd.IsMap() || rapid.IntRange(0, 9).Draw(t, "clear") == 0 {
		p.m.Clear(p.fd)
		return
	}
	if !p.fd.IsList() {
		if v := scalarValue(t, p.fd); v.IsValid() {
			p.m.Set(p.fd, v)
		}
		return
	}
	l := p.m.Mutable(p.fd).List()
	i := rapid.IntRange(0, l.Len()-1).Draw(t, "index")
	switch rapid.IntRange(0, 2).Draw(t, "list") {
	case 0:
		l.Truncate(i)
	case 1:
		if p.fd.Message() == nil {
			l.Append(l.Get(i))
		} else {
			l.Append(protoreflect.ValueOfMessage(proto.Clone(l.Get(i).Message().Interface()).ProtoReflect()))
		}
	case 2:
		if v := scalarValue(t, p.fd); v.IsValid() {
			l.Set(i, v)
		}
	}
}

// TestMutatedProtos spoils fields of good protos at random. What FromProto
// takes can be verified and printed without a panic, and comes back from the
// wire.
func TestMutatedProtos(t *testing.T) {
	var seeds []*hlopb.HloModuleProto
	modules := wellFormed(t)
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		m := modules[name]
		if m.NumInstructions() > 60 {
			continue
		}
		p, err := m.ToProto()
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, p)
	}
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 8 {
			p := proto.CloneOf(rapid.SampledFrom(seeds).Draw(t, "seed"))
			for range rapid.IntRange(1, 3).Draw(t, "mutations") {
				if all := places(p.ProtoReflect(), nil); len(all) > 0 {
					mutate(t, all[rapid.IntRange(0, len(all)-1).Draw(t, "place")])
				}
			}
			m, err := FromProto(p)
			if err != nil {
				continue
			}
			read++
			_ = Verify(m)
			_ = m.String()
			q, err := m.ToProto()
			if err != nil {
				t.Fatalf("cannot write what was read: %v", err)
			}
			if _, err := FromProto(q); err != nil {
				t.Fatalf("cannot read what was written: %v", err)
			}
		}
	})
	if read < 100 {
		t.Errorf("only %d mutated modules could be read", read)
	}
}
