package hlo

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Literal is a constant value.
//
// The elements of an array lie dense and row-major in Raw (whatever the
// shape's layout says), little-endian, Shape.Type.Bytes() bytes each:
// sub-byte types take one byte per element (signed ones sign-extended), pred
// is 0 or 1, complex is real then imaginary part.
type Literal struct {
	Shape    *Shape
	Raw      []byte
	Elements []*Literal // of a tuple
	// DynamicSizes are the run-time sizes of an array with dynamic dimensions,
	// one per dimension; nil when all are static.
	DynamicSizes []int32
	// Unknown are the fields of the wire message that this schema lacks.
	Unknown []byte
}

// NewLiteral makes an all-zero literal of the shape.
func NewLiteral(s *Shape) *Literal {
	l := &Literal{Shape: s}
	if s.IsTuple() {
		for _, e := range s.Elements {
			l.Elements = append(l.Elements, NewLiteral(e))
		}
		return l
	}
	l.Raw = make([]byte, s.Elems()*int64(s.Type.Bytes()))
	return l
}

// Leaves are the non-tuple literals inside, in depth-first order.
func (l *Literal) Leaves() []*Literal {
	if !l.Shape.IsTuple() {
		return []*Literal{l}
	}
	var out []*Literal
	for _, e := range l.Elements {
		out = append(out, e.Leaves()...)
	}
	return out
}

// Bits is the bit pattern of element i of a pred, integer or real float array
// (row-major index).
func (l *Literal) Bits(i int64) uint64 {
	switch l.Shape.Type.Bytes() {
	case 1:
		return uint64(l.Raw[i])
	case 2:
		return uint64(binary.LittleEndian.Uint16(l.Raw[2*i:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(l.Raw[4*i:]))
	case 8:
		return binary.LittleEndian.Uint64(l.Raw[8*i:])
	}
	panic(fmt.Sprintf("hlo: Bits of a %v literal", l.Shape.Type))
}

// SetBits stores the low bits of b as element i.
func (l *Literal) SetBits(i int64, b uint64) {
	switch l.Shape.Type.Bytes() {
	case 1:
		l.Raw[i] = byte(b)
	case 2:
		binary.LittleEndian.PutUint16(l.Raw[2*i:], uint16(b))
	case 4:
		binary.LittleEndian.PutUint32(l.Raw[4*i:], uint32(b))
	case 8:
		binary.LittleEndian.PutUint64(l.Raw[8*i:], b)
	default:
		panic(fmt.Sprintf("hlo: SetBits of a %v literal", l.Shape.Type))
	}
}

// Int is element i of a pred or integer array: sign-extended for signed
// types, zero-extended (u64 as its bit pattern) for unsigned ones.
func (l *Literal) Int(i int64) int64 {
	return l.Shape.Type.Canonical(int64(l.Bits(i)))
}

// SetInt stores v modulo the type's width.
func (l *Literal) SetInt(i int64, v int64) {
	l.SetBits(i, uint64(l.Shape.Type.Canonical(v)))
}

// Canonical reduces v modulo the width of an integer type and sign- or
// zero-extends it; for pred it is v != 0.
func (t PrimitiveType) Canonical(v int64) int64 {
	switch t.kind() {
	case kindPred:
		if v != 0 {
			return 1
		}
		return 0
	case kindSigned:
		n := 64 - t.Bits()
		return v << n >> n
	default:
		n := 64 - t.Bits()
		return int64(uint64(v) << n >> n)
	}
}

// Float is element i of a real float array, exact.
func (l *Literal) Float(i int64) float64 { return l.Shape.Type.Format().FromBits(l.Bits(i)) }

// SetFloat rounds v to the type (nearest even) and stores it.
func (l *Literal) SetFloat(i int64, v float64) { l.SetBits(i, l.Shape.Type.Format().Bits(v)) }

// Complex is element i of a complex array.
func (l *Literal) Complex(i int64) complex128 {
	if l.Shape.Type == C64 {
		return complex(float64(math.Float32frombits(binary.LittleEndian.Uint32(l.Raw[8*i:]))),
			float64(math.Float32frombits(binary.LittleEndian.Uint32(l.Raw[8*i+4:]))))
	}
	return complex(math.Float64frombits(binary.LittleEndian.Uint64(l.Raw[16*i:])),
		math.Float64frombits(binary.LittleEndian.Uint64(l.Raw[16*i+8:])))
}

// SetComplex rounds v's parts to the type and stores it.
func (l *Literal) SetComplex(i int64, v complex128) {
	if l.Shape.Type == C64 {
		binary.LittleEndian.PutUint32(l.Raw[8*i:], math.Float32bits(float32(real(v))))
		binary.LittleEndian.PutUint32(l.Raw[8*i+4:], math.Float32bits(float32(imag(v))))
		return
	}
	binary.LittleEndian.PutUint64(l.Raw[16*i:], math.Float64bits(real(v)))
	binary.LittleEndian.PutUint64(l.Raw[16*i+8:], math.Float64bits(imag(v)))
}
