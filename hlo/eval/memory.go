package eval

import (
	"crypto/sha256"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
)

// Memory carries values from one run to the next, so that of the next state of a
// program only what is not the same as before is evaluated: an instruction is
// not, if it does the same, by construction, on the very values that the memory
// gave for its operands. Loops and conditionals count as one instruction; calls
// and fusions are seen through.
//
// It belongs to one set of Options and is not safe for concurrent use.
type Memory struct {
	room   int64 // elements that it may still take
	of     map[string]*remembered
	ids    map[*Value]valueID
	signs  map[*hlo.Instruction]signature
	nextID uint64
	now    int // number of the module
}

// signature says what an instruction computes from the parameters of its
// computation.
type signature [16]byte

type valueID struct {
	number uint64
	used   int // the last module in which it was asked for
}

// remembered are the values that equal instructions gave, the n-th one of a
// module always the n-th: two instructions never give one value, since what
// reads both would take them for one.
type remembered struct {
	values   []*Value
	taken    int // by the present module
	module   int
	elements int64
	// shares: its columns are those of an operand.
	shares bool
}

// NewMemory makes a memory that holds at most so many array elements. An
// element takes 8 to 26 bytes.
func NewMemory(elements int64) *Memory {
	return &Memory{room: elements, of: map[string]*remembered{}, ids: map[*Value]valueID{}}
}

// Next says that another module is run from now on, any number of times. What
// the last one did not use is forgotten.
func (m *Memory) Next() {
	for k, r := range m.of {
		if r.module != m.now {
			m.room += r.elements
			delete(m.of, k)
		}
	}
	for v, id := range m.ids {
		if id.used != m.now {
			delete(m.ids, v)
		}
	}
	m.signs = map[*hlo.Instruction]signature{}
	m.now++
}

// seenThrough reports whether an operation is not worth remembering, or is
// where others stand that are.
func seenThrough(op hlo.Opcode) bool {
	switch op {
	case hlo.OpParameter, hlo.OpTuple, hlo.OpGetTupleElement, hlo.OpCopy, hlo.OpDomain, hlo.OpOptBarrier, hlo.OpAddDependency, hlo.OpAfterAll,
		hlo.OpCall, hlo.OpFusion, hlo.OpAsyncStart, hlo.OpAsyncUpdate, hlo.OpAsyncDone, hlo.OpCopyStart, hlo.OpCopyDone:
		return true
	}
	return false
}

// key names what an instruction does on values.
func (m *Memory) key(in *hlo.Instruction, operands []*Value) string {
	s := m.sign(in)
	b := append(make([]byte, 0, len(s)+8*len(operands)), s[:]...)
	for _, v := range operands {
		b = m.name(b, v)
	}
	return string(b)
}

// name appends the identity of a value.
func (m *Memory) name(b []byte, v *Value) []byte {
	if v.Array == nil {
		b = append(b, '(')
		for _, e := range v.Elements {
			b = m.name(b, e)
		}
		return append(b, ')')
	}
	id, ok := m.ids[v]
	if !ok {
		m.nextID++
		id.number = m.nextID
	}
	if !ok || id.used != m.now {
		id.used = m.now
		m.ids[v] = id
	}
	return binary.LittleEndian.AppendUint64(b, id.number)
}

func (m *Memory) sign(in *hlo.Instruction) signature {
	if s, ok := m.signs[in]; ok {
		return s
	}
	b := append([]byte(in.Op.String()), 0)
	shape := func(s *hlo.Shape) {
		if in.Op != hlo.OpBitcast && in.Op != hlo.OpCustomCall { // the others don't look at layouts
			s = s.WithoutLayout()
		}
		b = append(append(b, s.String()...), 0)
	}
	shape(in.Shape)
	b, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, in.Attr) // no required fields: cannot fail
	b = append(b, 0)
	if in.Literal != nil {
		b = appendLiteral(b, in.Literal)
	}
	for _, c := range in.Called {
		s := m.sign(c.Root)
		b = append(b, s[:]...)
		for _, p := range c.Params() {
			if p != nil {
				shape(p.Shape)
			}
		}
	}
	for _, o := range in.Operands {
		s := m.sign(o)
		b = append(b, s[:]...)
		shape(o.Shape)
	}
	sum := sha256.Sum256(b)
	s := signature(sum[:16])
	m.signs[in] = s
	return s
}

func appendLiteral(b []byte, l *hlo.Literal) []byte {
	b = append(b, l.Raw...)
	for _, e := range l.Elements {
		b = appendLiteral(append(b, 0), e)
	}
	return b
}

// recall is the value of an instruction, nil if it is not known.
func (m *Memory) recall(key string) *Value {
	r := m.of[key]
	if r == nil {
		return nil
	}
	if r.module != m.now {
		r.module, r.taken = m.now, 0
	}
	if r.taken == len(r.values) {
		r.values = append(r.values, r.values[0].apart(r.shares))
	}
	r.taken++
	return r.values[r.taken-1]
}

// keep remembers the value of an instruction.
func (m *Memory) keep(key string, v *Value, operands []*Value) {
	r := &remembered{values: []*Value{v}, taken: 1, module: m.now}
	v.each(func(a *Array) {
		r.elements += int64(a.Len())
		for _, o := range operands {
			o.each(func(x *Array) { r.shares = r.shares || a.Re != nil && (a.Re == x.Re || a.Re == x.Im) })
		}
	})
	if r.elements > m.room {
		return
	}
	m.room -= r.elements
	m.of[key] = r
}

// each calls f with every array of a value.
func (v *Value) each(f func(*Array)) {
	if v.Array != nil {
		f(v.Array)
	}
	for _, e := range v.Elements {
		e.each(f)
	}
}

// apart is an equal value which nothing takes for the same one, unless it
// shares its columns with others.
func (v *Value) apart(shares bool) *Value {
	r := *v
	if v.Array != nil {
		a := *v.Array
		if !shares {
			for _, p := range []**Plane{&a.Re, &a.Im} {
				if *p != nil {
					plane := **p
					*p = &plane
				}
			}
		}
		r.Array = &a
	}
	r.Elements = nil
	for _, e := range v.Elements {
		r.Elements = append(r.Elements, e.apart(shares))
	}
	return &r
}
