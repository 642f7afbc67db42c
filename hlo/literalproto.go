package hlo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/passgate/passgate/hlo/hlopb"
)

// LiteralFromProto reads a literal. The wire holds the elements in the order
// of the literal's layout; Literal holds them row-major
// (xla/literal.cc, CopyFromProto). The data must have the size that the shape
// says, so that memory stays in proportion to the message.
func LiteralFromProto(p *hlopb.LiteralProto) (*Literal, error) {
	if p == nil || p.Shape == nil {
		return nil, fmt.Errorf("literal has no shape")
	}
	s, err := ShapeFromProto(p.Shape)
	if err != nil {
		return nil, fmt.Errorf("literal shape: %w", err)
	}
	return literalFromProto(p, s)
}

func literalFromProto(p *hlopb.LiteralProto, s *Shape) (*Literal, error) {
	l := &Literal{Shape: s, Unknown: bytes.Clone(p.ProtoReflect().GetUnknown())}
	switch {
	case s.IsTuple():
		if len(p.TupleLiterals) != len(s.Elements) {
			return nil, fmt.Errorf("tuple literal of %d elements has %d", len(s.Elements), len(p.TupleLiterals))
		}
		for i, e := range p.TupleLiterals {
			if e == nil {
				e = &hlopb.LiteralProto{}
			}
			el, err := literalFromProto(e, s.Elements[i])
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			l.Elements = append(l.Elements, el)
		}
		return l, nil
	case s.Type == Token:
		return l, nil
	case !s.IsArray():
		return nil, fmt.Errorf("a literal cannot have the type %v", s.Type)
	}
	data, err := wireData(p, s.Type)
	if err != nil {
		return nil, err
	}
	size := int64(s.Type.Bytes())
	if n := s.Elems(); n > math.MaxInt64/size || n*size != int64(len(data)) {
		return nil, fmt.Errorf("literal %v%v holds %d elements, want %d", s.Type, s.Dims, int64(len(data))/size, n)
	}
	for _, d := range s.Dims {
		if d == Unbounded {
			return nil, fmt.Errorf("literal with an unbounded dimension")
		}
	}
	if s.IsDynamic() {
		if len(p.DynamicSizes) != len(s.Dims) {
			return nil, fmt.Errorf("dynamic literal has %d sizes for %d dimensions", len(p.DynamicSizes), len(s.Dims))
		}
		for i, d := range p.DynamicSizes {
			if d < 0 || int64(d) > s.Dims[i] {
				return nil, fmt.Errorf("dynamic size %d of dimension %d is not between 0 and %d", d, i, s.Dims[i])
			}
		}
		l.DynamicSizes = append([]int32(nil), p.DynamicSizes...)
	}
	if s.Layout.isDefault() {
		l.Raw = bytes.Clone(data)
	} else {
		l.Raw = make([]byte, len(data))
		permute(s, func(rowMajor, wire int64) {
			copy(l.Raw[rowMajor*size:(rowMajor+1)*size], data[wire*size:])
		})
	}
	if l.Raw == nil {
		l.Raw = []byte{}
	}
	l.canonicalBytes()
	return l, nil
}

// canonicalBytes extends sub-byte elements to whole bytes.
func (l *Literal) canonicalBytes() {
	t := l.Shape.Type
	bits := t.Bits()
	if bits >= 8 {
		return
	}
	for i, b := range l.Raw {
		if t.IsSigned() {
			l.Raw[i] = byte(int8(b) << (8 - bits) >> (8 - bits))
		} else {
			l.Raw[i] = b << (8 - bits) >> (8 - bits)
		}
	}
}

// isDefault reports whether the elements lie row-major.
func (l *Layout) isDefault() bool {
	if l == nil {
		return true
	}
	for i, d := range l.MinorToMajor {
		if d != int64(len(l.MinorToMajor)-1-i) {
			return false
		}
	}
	return true
}

// permute visits every element of the array with its row-major index and its
// index in the order of the layout.
func permute(s *Shape, visit func(rowMajor, wire int64)) {
	n := s.Elems()
	strides := make([]int64, len(s.Dims)) // row-major
	stride := int64(1)
	for i := len(s.Dims) - 1; i >= 0; i-- {
		strides[i] = stride
		stride *= s.Dims[i]
	}
	index := make([]int64, len(s.Dims))
	row := int64(0)
	for w := int64(0); w < n; w++ {
		visit(row, w)
		for _, d := range s.Layout.MinorToMajor {
			index[d]++
			row += strides[d]
			if index[d] < s.Dims[d] {
				break
			}
			row -= index[d] * strides[d]
			index[d] = 0
		}
	}
}

// bytesField is the field of the types that the wire holds as raw
// little-endian bytes, one element in Type.Bytes() bytes; nil for the others.
func bytesField(p *hlopb.LiteralProto, t PrimitiveType) *[]byte {
	switch t {
	case S1:
		return &p.S1S
	case S2:
		return &p.S2S
	case S4:
		return &p.S4S
	case S8:
		return &p.S8S
	case S16:
		return &p.S16S
	case U1:
		return &p.U1S
	case U2:
		return &p.U2S
	case U4:
		return &p.U4S
	case U8:
		return &p.U8S
	case U16:
		return &p.U16S
	case F16:
		return &p.F16S
	case BF16:
		return &p.Bf16S
	case F8E5M2:
		return &p.F8E5M2S
	case F8E4M3:
		return &p.F8E4M3S
	case F8E4M3FN:
		return &p.F8E4M3Fns
	case F8E4M3B11FNUZ:
		return &p.F8E4M3B11Fnuzs
	case F8E5M2FNUZ:
		return &p.F8E5M2Fnuzs
	case F8E4M3FNUZ:
		return &p.F8E4M3Fnuzs
	case F8E3M4:
		return &p.F8E3M4S
	case F8E8M0FNU:
		return &p.F8E8M0Fnus
	case F4E2M1FN:
		return &p.F4E2M1Fns
	case F6E3M2FN:
		return &p.F6E3M2Fns
	case F6E2M3FN:
		return &p.F6E2M3Fns
	}
	return nil
}

// wireData are the elements as little-endian bytes, in the wire's order. The
// result may share memory with p.
func wireData(p *hlopb.LiteralProto, t PrimitiveType) ([]byte, error) {
	if f := bytesField(p, t); f != nil {
		return *f, nil
	}
	var b []byte
	le := binary.LittleEndian
	switch t {
	case Pred:
		for _, v := range p.Preds {
			if v {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	case S32:
		for _, v := range p.S32S {
			b = le.AppendUint32(b, uint32(v))
		}
	case S64:
		for _, v := range p.S64S {
			b = le.AppendUint64(b, uint64(v))
		}
	case U32:
		for _, v := range p.U32S {
			b = le.AppendUint32(b, v)
		}
	case U64:
		for _, v := range p.U64S {
			b = le.AppendUint64(b, v)
		}
	case F32:
		for _, v := range p.F32S {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
	case F64:
		for _, v := range p.F64S {
			b = le.AppendUint64(b, math.Float64bits(v))
		}
	case C64:
		for _, v := range p.C64S {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
	case C128:
		for _, v := range p.C128S {
			b = le.AppendUint64(b, math.Float64bits(v))
		}
	default:
		return nil, fmt.Errorf("a literal cannot have the type %v", t)
	}
	return b, nil
}

func setWireData(p *hlopb.LiteralProto, t PrimitiveType, b []byte) {
	if f := bytesField(p, t); f != nil {
		*f = bytes.Clone(b)
		return
	}
	le := binary.LittleEndian
	switch t {
	case Pred:
		p.Preds = make([]bool, len(b))
		for i, v := range b {
			p.Preds[i] = v != 0
		}
	case S32:
		p.S32S = make([]int32, len(b)/4)
		for i := range p.S32S {
			p.S32S[i] = int32(le.Uint32(b[4*i:]))
		}
	case S64:
		p.S64S = make([]int64, len(b)/8)
		for i := range p.S64S {
			p.S64S[i] = int64(le.Uint64(b[8*i:]))
		}
	case U32:
		p.U32S = make([]uint32, len(b)/4)
		for i := range p.U32S {
			p.U32S[i] = le.Uint32(b[4*i:])
		}
	case U64:
		p.U64S = make([]uint64, len(b)/8)
		for i := range p.U64S {
			p.U64S[i] = le.Uint64(b[8*i:])
		}
	case F32, C64:
		v := make([]float32, len(b)/4)
		for i := range v {
			v[i] = math.Float32frombits(le.Uint32(b[4*i:]))
		}
		if t == F32 {
			p.F32S = v
		} else {
			p.C64S = v
		}
	case F64, C128:
		v := make([]float64, len(b)/8)
		for i := range v {
			v[i] = math.Float64frombits(le.Uint64(b[8*i:]))
		}
		if t == F64 {
			p.F64S = v
		} else {
			p.C128S = v
		}
	}
}

// Validate checks the literal by itself: its shape, and data, elements and
// dynamic sizes that fit it.
func (l *Literal) Validate() error {
	if l == nil {
		return fmt.Errorf("literal is missing")
	}
	if err := l.Shape.Validate(); err != nil {
		return err
	}
	return l.validate()
}

func (l *Literal) validate() error {
	s := l.Shape
	switch {
	case s.IsTuple():
		if len(l.Elements) != len(s.Elements) {
			return fmt.Errorf("tuple literal of %d elements has %d", len(s.Elements), len(l.Elements))
		}
		for i, e := range l.Elements {
			if e == nil || e.Shape == nil || !e.Shape.Compatible(s.Elements[i]) {
				return fmt.Errorf("element %d of the tuple literal has another shape", i)
			}
			if err := e.validate(); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	case s.Type == Token:
		return nil
	case !s.IsArray():
		return fmt.Errorf("a literal cannot have the type %v", s.Type)
	}
	size := int64(s.Type.Bytes())
	if n := s.Elems(); n > math.MaxInt64/size || n*size != int64(len(l.Raw)) {
		return fmt.Errorf("literal %v%v holds %d bytes, want %d elements of %d", s.Type, s.Dims, len(l.Raw), n, size)
	}
	if l.DynamicSizes != nil && len(l.DynamicSizes) != len(s.Dims) {
		return fmt.Errorf("dynamic literal has %d sizes for %d dimensions", len(l.DynamicSizes), len(s.Dims))
	}
	return nil
}

// Proto is the wire form of the literal. Arrays without a layout get the
// row-major one, since XLA demands a layout in literals.
func (l *Literal) Proto() (*hlopb.LiteralProto, error) { return l.proto(nil) }

// proto makes the wire form. Where like, the shape of the constant around it,
// has a layout, the literal takes its dimension order: XLA demands that the
// two agree (xla/hlo/ir/hlo_instruction.cc, CreateFromProto).
func (l *Literal) proto(like *Shape) (*hlopb.LiteralProto, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	s := l.Shape.Clone()
	if like != nil && s.Compatible(like) {
		adoptOrder(s, like)
	}
	return l.wire(s), nil
}

func adoptOrder(s, like *Shape) {
	for i, e := range s.Elements {
		adoptOrder(e, like.Elements[i])
	}
	if !s.IsArray() || like.Layout == nil || len(like.Layout.MinorToMajor) != len(s.Dims) {
		return
	}
	if s.Layout == nil {
		s.Layout = &Layout{}
	}
	s.Layout.MinorToMajor = append([]int64(nil), like.Layout.MinorToMajor...)
}

func (l *Literal) wire(s *Shape) *hlopb.LiteralProto {
	p := &hlopb.LiteralProto{Shape: s.proto(true)}
	setUnknown(p.ProtoReflect(), l.Unknown)
	for i, e := range l.Elements {
		p.TupleLiterals = append(p.TupleLiterals, e.wire(s.Elements[i]))
	}
	if !s.IsArray() {
		return p
	}
	if s.IsDynamic() {
		if l.DynamicSizes == nil {
			for _, d := range s.Dims {
				p.DynamicSizes = append(p.DynamicSizes, int32(d))
			}
		} else {
			p.DynamicSizes = append(p.DynamicSizes, l.DynamicSizes...)
		}
	}
	data := l.Raw
	if !s.Layout.isDefault() {
		size := int64(s.Type.Bytes())
		data = make([]byte, len(l.Raw))
		permute(s, func(rowMajor, wire int64) {
			copy(data[wire*size:(wire+1)*size], l.Raw[rowMajor*size:])
		})
	}
	if bits := s.Type.Bits(); bits < 8 { // XLA writes the upper bits as zeros
		data = bytes.Clone(data)
		for i := range data {
			data[i] &= 1<<bits - 1
		}
	}
	setWireData(p, s.Type, data)
	return p
}
