package eval

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/passgate/passgate/hlo"
)

// FromLiteral makes the exact value of a literal. A token literal gives a token.
func FromLiteral(l *hlo.Literal) *Value {
	if l.Shape.IsTuple() {
		v := &Value{Elements: make([]*Value, len(l.Elements))}
		for i, e := range l.Elements {
			v.Elements[i] = FromLiteral(e)
		}
		return v
	}
	if !l.Shape.IsArray() {
		return &Value{Token: true}
	}
	t := l.Shape.Type
	a := NewArray(t, l.Shape.Dims...)
	if l.DynamicSizes != nil {
		a.Sizes = make([]int64, len(l.DynamicSizes))
		for i, s := range l.DynamicSizes {
			a.Sizes[i] = int64(s)
		}
	}
	switch {
	case t == hlo.F32:
		for i := range a.Re.C {
			b := binary.LittleEndian.Uint32(l.Raw[4*i:])
			if b&0x7fffffff > 0x7f800000 {
				a.Re.C[i] = t.Format().FromBits(uint64(b)) // keeps the payload
			} else {
				a.Re.C[i] = float64(math.Float32frombits(b))
			}
		}
	case t.IsComplex():
		for i := range a.Re.C {
			z := l.Complex(int64(i))
			a.Re.C[i], a.Im.C[i] = real(z), imag(z)
		}
	case t.IsFloat():
		f := t.Format()
		for i := range a.Re.C {
			a.Re.C[i] = f.FromBits(l.Bits(int64(i)))
		}
	default:
		for i := range a.I {
			a.I[i] = l.Int(int64(i))
		}
	}
	return &Value{Array: a}
}

// LiteralScalar is element i of an array literal as an exact scalar.
func LiteralScalar(l *hlo.Literal, i int64) Scalar {
	t := l.Shape.Type
	switch {
	case t.IsComplex():
		z := l.Complex(i)
		return Scalar{Re: Num{C: real(z)}, Im: Num{C: imag(z)}}
	case t.IsFloat():
		return Scalar{Re: Num{C: l.Float(i)}}
	}
	return Scalar{I: l.Int(i)}
}

// Literal rounds the centres of v to a literal of the given shape, whose
// types and element counts must be those of v. Undecided integers give 0.
func (v *Value) Literal(shape *hlo.Shape) (*hlo.Literal, error) {
	switch {
	case shape.IsTuple():
		if v.Array != nil || v.Token || len(v.Elements) != len(shape.Elements) {
			return nil, fmt.Errorf("eval: the value is no tuple of %d elements", len(shape.Elements))
		}
		l := &hlo.Literal{Shape: shape}
		for i, e := range v.Elements {
			m, err := e.Literal(shape.Elements[i])
			if err != nil {
				return nil, err
			}
			l.Elements = append(l.Elements, m)
		}
		return l, nil
	case !shape.IsArray():
		return &hlo.Literal{Shape: shape}, nil
	}
	a := v.Array
	if a == nil || a.Type != shape.Type || int64(a.Len()) != shape.Elems() {
		return nil, fmt.Errorf("eval: the value is no %v array of %d elements", shape.Type, shape.Elems())
	}
	l := hlo.NewLiteral(shape)
	for i := range a.Len() {
		switch {
		case a.Im != nil:
			l.SetComplex(int64(i), complex(a.Re.C[i], a.Im.C[i]))
		case a.Re != nil:
			l.SetFloat(int64(i), a.Re.C[i])
		case a.Undecided == nil || !a.Undecided[i]:
			l.SetInt(int64(i), a.I[i])
		}
	}
	if a.Sizes != nil && shape.IsDynamic() {
		l.DynamicSizes = make([]int32, len(a.Sizes))
		for i, s := range a.Sizes {
			l.DynamicSizes[i] = int32(s)
		}
	}
	return l, nil
}
