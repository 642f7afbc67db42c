package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A difference is one place where two canonical modules are not the same.
type difference struct {
	// group names the kind of place: the path of fields, with the opcode of the
	// instruction in place of indices.
	group string
	// place is the exact path.
	place string
	// ours and theirs are the two values, short; "" for none.
	ours, theirs string
}

// diffModules lists the differences of two canonical modules in graph order.
// Where two instructions have different opcodes or names (the graphs differ: an
// operand leads elsewhere), or two lists different lengths, it does not look
// inside.
func diffModules(ours, theirs *hlopb.HloModuleProto) []difference {
	if same, err := sameBytes(ours, theirs); err == nil && same {
		return nil
	}
	var d differ
	d.message("module", "module", ours.ProtoReflect(), theirs.ProtoReflect())
	return d.found
}

// sameBytes compares the deterministic encodings, which is quick.
func sameBytes(ours, theirs proto.Message) (bool, error) {
	o := proto.MarshalOptions{Deterministic: true}
	a, errA := o.Marshal(ours)
	b, errB := o.Marshal(theirs)
	return bytes.Equal(a, b), errors.Join(errA, errB)
}

type differ struct{ found []difference }

func (d *differ) add(group, place, ours, theirs string) {
	d.found = append(d.found, difference{group, place, ours, theirs})
}

func (d *differ) message(group, place string, ours, theirs protoreflect.Message) {
	if a, ok := ours.Interface().(*hlopb.HloInstructionProto); ok {
		b := theirs.Interface().(*hlopb.HloInstructionProto)
		group, place = b.Opcode, place+" "+b.Name
		if a.Opcode != b.Opcode || a.Name != b.Name {
			d.add("graph", place, a.Opcode+" "+a.Name, b.Opcode+" "+b.Name)
			return
		}
	}
	fields := ours.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		g, p := group+"."+string(f.Name()), place+"."+string(f.Name())
		if ours.Has(f) != theirs.Has(f) {
			// Also a list or map that one side lacks, and a scalar that is 0 there.
			d.add(g, p, show(ours, f), show(theirs, f))
			continue
		}
		if !ours.Has(f) {
			continue
		}
		a, b := ours.Get(f), theirs.Get(f)
		switch {
		case f.IsList():
			d.list(g, p, f, a.List(), b.List(), ours, theirs)
		case f.IsMap():
			if x, y := show(ours, f), show(theirs, f); x != y || !sameMap(f, a.Map(), b.Map()) {
				d.add(g, p, x, y)
			}
		case f.Message() != nil:
			d.message(g, p, a.Message(), b.Message())
		case !sameScalar(f, a, b):
			d.add(g, p, show(ours, f), show(theirs, f))
		}
	}
	if a, b := ours.GetUnknown(), theirs.GetUnknown(); !slices.Equal(a, b) {
		d.add(group+" unknown fields", place, fmt.Sprintf("%x", []byte(a)), fmt.Sprintf("%x", []byte(b)))
	}
}

func (d *differ) list(g, p string, f protoreflect.FieldDescriptor, a, b protoreflect.List, ours, theirs protoreflect.Message) {
	if f.Message() == nil {
		same := a.Len() == b.Len()
		for i := 0; same && i < a.Len(); i++ {
			same = sameScalar(f, a.Get(i), b.Get(i))
		}
		if !same {
			d.add(g, p, show(ours, f), show(theirs, f))
		}
		return
	}
	if a.Len() != b.Len() {
		d.add(g+" count", p, fmt.Sprint(a.Len()), fmt.Sprint(b.Len()))
		return
	}
	for i := range a.Len() {
		d.message(g, fmt.Sprintf("%s[%d]", p, i), a.Get(i).Message(), b.Get(i).Message())
	}
}

// sameMap compares the values of two maps of scalars or messages.
func sameMap(f protoreflect.FieldDescriptor, a, b protoreflect.Map) bool {
	same := a.Len() == b.Len()
	a.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		switch {
		case !b.Has(k):
			same = false
		case f.MapValue().Message() != nil:
			var d differ
			d.message("", "", v.Message(), b.Get(k).Message())
			same = same && len(d.found) == 0
		default:
			same = same && sameScalar(f.MapValue(), v, b.Get(k))
		}
		return same
	})
	return same
}

// sameScalar compares bit for bit: NaN payloads and signs of zero count.
func sameScalar(f protoreflect.FieldDescriptor, a, b protoreflect.Value) bool {
	switch f.Kind() {
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	}
	return a.Equal(b)
}

// show is one field of a message as short text; "" when it is not set.
func show(m protoreflect.Message, f protoreflect.FieldDescriptor) string {
	if !m.Has(f) {
		return ""
	}
	only := m.New()
	only.Set(f, m.Get(f))
	text, err := prototext.MarshalOptions{}.Marshal(only.Interface())
	if err != nil {
		return err.Error()
	}
	_, value, _ := strings.Cut(string(text), string(f.Name()))
	value = strings.Join(strings.Fields(strings.ReplaceAll(value, string(f.Name())+":", " ")), " ")
	return clip(strings.TrimPrefix(value, ":"), 120)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
