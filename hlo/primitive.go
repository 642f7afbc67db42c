package hlo

// PrimitiveType is the element type of a shape. Values are the wire numbers
// of xla.PrimitiveType (xla_data.proto).
type PrimitiveType int32

// The primitive types, with their wire numbers.
const (
	InvalidType   PrimitiveType = 0
	Pred          PrimitiveType = 1
	S8            PrimitiveType = 2
	S16           PrimitiveType = 3
	S32           PrimitiveType = 4
	S64           PrimitiveType = 5
	U8            PrimitiveType = 6
	U16           PrimitiveType = 7
	U32           PrimitiveType = 8
	U64           PrimitiveType = 9
	F16           PrimitiveType = 10
	F32           PrimitiveType = 11
	F64           PrimitiveType = 12
	Tuple         PrimitiveType = 13
	Opaque        PrimitiveType = 14
	C64           PrimitiveType = 15
	BF16          PrimitiveType = 16
	Token         PrimitiveType = 17
	C128          PrimitiveType = 18
	F8E5M2        PrimitiveType = 19
	F8E4M3FN      PrimitiveType = 20
	S4            PrimitiveType = 21
	U4            PrimitiveType = 22
	F8E4M3B11FNUZ PrimitiveType = 23
	F8E5M2FNUZ    PrimitiveType = 24
	F8E4M3FNUZ    PrimitiveType = 25
	S2            PrimitiveType = 26
	U2            PrimitiveType = 27
	F8E4M3        PrimitiveType = 28
	F8E3M4        PrimitiveType = 29
	S1            PrimitiveType = 30
	U1            PrimitiveType = 31
	F4E2M1FN      PrimitiveType = 32
	F8E8M0FNU     PrimitiveType = 33
	Buffer        PrimitiveType = 34
	F6E3M2FN      PrimitiveType = 35
	F6E2M3FN      PrimitiveType = 36
)

type kind uint8

const (
	kindNone kind = iota
	kindPred
	kindSigned
	kindUnsigned
	kindFloat
	kindComplex
)

var primitives = [...]struct {
	name string
	kind kind
	bits int
}{
	InvalidType: {"invalid", kindNone, 0},
	Pred:        {"pred", kindPred, 8},
	S1:          {"s1", kindSigned, 1}, S2: {"s2", kindSigned, 2}, S4: {"s4", kindSigned, 4}, S8: {"s8", kindSigned, 8},
	S16: {"s16", kindSigned, 16}, S32: {"s32", kindSigned, 32}, S64: {"s64", kindSigned, 64},
	U1: {"u1", kindUnsigned, 1}, U2: {"u2", kindUnsigned, 2}, U4: {"u4", kindUnsigned, 4}, U8: {"u8", kindUnsigned, 8},
	U16: {"u16", kindUnsigned, 16}, U32: {"u32", kindUnsigned, 32}, U64: {"u64", kindUnsigned, 64},
	F16: {"f16", kindFloat, 16}, BF16: {"bf16", kindFloat, 16}, F32: {"f32", kindFloat, 32}, F64: {"f64", kindFloat, 64},
	F8E5M2: {"f8e5m2", kindFloat, 8}, F8E4M3: {"f8e4m3", kindFloat, 8}, F8E4M3FN: {"f8e4m3fn", kindFloat, 8},
	F8E4M3B11FNUZ: {"f8e4m3b11fnuz", kindFloat, 8}, F8E5M2FNUZ: {"f8e5m2fnuz", kindFloat, 8}, F8E4M3FNUZ: {"f8e4m3fnuz", kindFloat, 8},
	F8E3M4: {"f8e3m4", kindFloat, 8}, F8E8M0FNU: {"f8e8m0fnu", kindFloat, 8},
	F4E2M1FN: {"f4e2m1fn", kindFloat, 4}, F6E3M2FN: {"f6e3m2fn", kindFloat, 6}, F6E2M3FN: {"f6e2m3fn", kindFloat, 6},
	C64: {"c64", kindComplex, 64}, C128: {"c128", kindComplex, 128},
	Tuple: {"tuple", kindNone, 0}, Opaque: {"opaque", kindNone, 0}, Token: {"token", kindNone, 0}, Buffer: {"b", kindNone, 0},
}

var typeByName = func() map[string]PrimitiveType {
	m := map[string]PrimitiveType{}
	for t, p := range primitives {
		if p.name != "" && PrimitiveType(t) != InvalidType {
			m[p.name] = PrimitiveType(t)
		}
	}
	return m
}()

// TypeByName returns the primitive type with the given HLO text name ("f32").
func TypeByName(name string) (PrimitiveType, bool) { t, ok := typeByName[name]; return t, ok }

func (t PrimitiveType) valid() bool { return t >= 0 && int(t) < len(primitives) }

func (t PrimitiveType) kind() kind {
	if !t.valid() {
		return kindNone
	}
	return primitives[t].kind
}

// String is the HLO text name, "f32".
func (t PrimitiveType) String() string {
	if !t.valid() {
		return "invalid"
	}
	return primitives[t].name
}

// Bits is the width of one element's value in bits (pred: 8, complex: both
// parts), 0 for types without elements.
func (t PrimitiveType) Bits() int {
	if !t.valid() {
		return 0
	}
	return primitives[t].bits
}

// Bytes is the size of one element in a Literal: sub-byte types take one byte.
func (t PrimitiveType) Bytes() int { return (t.Bits() + 7) / 8 }

// IsArray reports whether t is an element type of arrays.
func (t PrimitiveType) IsArray() bool { return t.kind() != kindNone }

// IsInteger reports whether t is a signed or unsigned integer (not pred).
func (t PrimitiveType) IsInteger() bool { return t.kind() == kindSigned || t.kind() == kindUnsigned }

// IsSigned reports whether t is a signed integer.
func (t PrimitiveType) IsSigned() bool { return t.kind() == kindSigned }

// IsUnsigned reports whether t is an unsigned integer.
func (t PrimitiveType) IsUnsigned() bool { return t.kind() == kindUnsigned }

// IsFloat reports whether t is a real floating-point type.
func (t PrimitiveType) IsFloat() bool { return t.kind() == kindFloat }

// IsComplex reports whether t is c64 or c128.
func (t PrimitiveType) IsComplex() bool { return t.kind() == kindComplex }

// Real is the type of the parts of a complex type; other types are their own.
func (t PrimitiveType) Real() PrimitiveType {
	switch t {
	case C64:
		return F32
	case C128:
		return F64
	}
	return t
}
