package hlo

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func arrayTypes() (all []PrimitiveType) {
	for t := PrimitiveType(0); t.valid(); t++ {
		if t.IsArray() {
			all = append(all, t)
		}
	}
	return all
}

// genLiteral draws a literal of any shape and any bits that a type has.
func genLiteral(t *rapid.T, depth int) *Literal {
	if depth > 0 && rapid.IntRange(0, 4).Draw(t, "tuple") == 0 {
		l := &Literal{Shape: &Shape{Type: Tuple}}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			e := genLiteral(t, depth-1)
			l.Elements = append(l.Elements, e)
			l.Shape.Elements = append(l.Shape.Elements, e.Shape)
		}
		return l
	}
	s := ArrayShape(rapid.SampledFrom(arrayTypes()).Draw(t, "type"), rapid.SliceOfN(rapid.Int64Range(0, 3), 0, 4).Draw(t, "dims")...)
	s.Layout = DefaultLayout(len(s.Dims))
	l := NewLiteral(s)
	for i := range s.Elems() {
		genElement(t, l, i)
	}
	return l
}

func genElement(t *rapid.T, l *Literal, i int64) {
	typ := l.Shape.Type
	bits := rapid.Uint64().Draw(t, "bits")
	part := func(f *FloatFormat) uint64 {
		n := f.ExponentBits + f.MantissaBits
		if f.Signed {
			n++
		}
		b := bits & (1<<n - 1)
		if v := f.FromBits(b); v != v && !f.IEEE {
			b = f.Bits(v) // one NaN, or one of each sign
		}
		if v := f.FromBits(b); v != v && b&(1<<f.MantissaBits-1) == 0 {
			b |= 1
		}
		return b
	}
	switch {
	case typ == Pred:
		l.Raw[i] = byte(bits & 1)
	case typ.IsInteger():
		l.SetInt(i, int64(bits))
	case typ.IsFloat():
		l.SetBits(i, part(typ.Format()))
	default: // complex
		n := int64(typ.Bytes() / 2)
		half := &Literal{Shape: ArrayShape(typ.Real(), 2), Raw: l.Raw[2*n*i : 2*n*(i+1)]}
		half.SetBits(0, part(typ.Real().Format()))
		bits = rapid.Uint64().Draw(t, "imaginary bits")
		half.SetBits(1, part(typ.Real().Format()))
	}
}

// TestLiteralText: the text of a literal has all its bits, in every type.
func TestLiteralText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genLiteral(t, 2)
		for _, text := range []string{l.String(), string(l.appendShaped(nil))} {
			got, err := ParseLiteral(text)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Shape.Compatible(l.Shape) {
				t.Fatalf("%s: shape %v, want %v", text, got.Shape, l.Shape)
			}
			g, w := got.Leaves(), l.Leaves()
			for i := range w {
				if !bytes.Equal(g[i].Raw, w[i].Raw) {
					t.Fatalf("%s: leaf %d has bytes %x, want %x", text, i, g[i].Raw, w[i].Raw)
				}
			}
		}
	})
}

// TestElementText: the shortest text of a number, and that every text of the
// second column reads as the same bits.
func TestElementText(t *testing.T) {
	for _, c := range []struct {
		typ  PrimitiveType
		bits uint64
		want string
		also []string
	}{
		{F32, 0x3f8ccccd, "1.1", []string{"1.10", "11e-1", "1.1000000238418579"}},
		{F32, 0x80000000, "-0.0", []string{"-0", "-0e5", "-1e-60"}},
		{F32, 0x4b800000, "1.6777216e+07", []string{"16777216", "16777217"}}, // ties to even
		{F32, 0x7fc00000, "nan", nil},
		{F32, 0xffc00000, "-nan", nil},
		{F32, 0x7f800001, "nan(0x1)", nil},
		{F32, 0xff812345, "-nan(0x12345)", nil},
		{F32, 0x7f800000, "inf", nil},
		{F32, 0xff800000, "-inf", nil},
		{F32, 1, "1e-45", nil},
		{F64, 0x3ff199999999999a, "1.1", nil},
		{F64, 0x7ff8000000000000, "nan", []string{"nan(0x8000000000000)"}},
		{F64, 0xfff0000000000001, "-nan(0x1)", nil},
		{F16, 0x2e66, "0.1", nil},
		{F16, 0x7bff, "6.55e+04", []string{"65504", "65519"}},
		{F16, 0x7e00, "nan", nil},
		{F16, 0x7c01, "nan(0x1)", nil},
		{BF16, 0x3dcd, "0.1", []string{"0.10009765625"}},
		{BF16, 0xff80, "-inf", nil},
		{F8E4M3FN, 0x7f, "nan", nil},
		{F8E4M3FN, 0xff, "-nan", nil},
		{F8E4M3FN, 0x7e, "4.5e+02", []string{"448", "463"}},
		{F8E4M3FNUZ, 0x80, "nan", []string{"-nan"}},
		{F8E5M2, 0x7d, "nan(0x1)", nil},
		{F8E8M0FNU, 0xff, "nan", nil},
		{F8E8M0FNU, 0x7f, "1", nil},
		{F4E2M1FN, 0x7, "6", []string{"100"}},
		{F4E2M1FN, 0x8, "-0.0", nil},
		{F6E3M2FN, 0x1f, "3e+01", []string{"28"}},
		{Pred, 1, "true", []string{"1", "7", "-1"}},
		{Pred, 0, "false", []string{"0"}},
		{S4, 0xf8, "-8", nil},
		{U1, 1, "1", nil},
		{S64, 1 << 63, "-9223372036854775808", []string{"9223372036854775808"}},
		{U64, math.MaxUint64, "18446744073709551615", []string{"-1"}},
	} {
		l := NewLiteral(ArrayShape(c.typ))
		l.SetBits(0, c.bits)
		if got := string(l.AppendValue(nil)); got != c.want {
			t.Errorf("%v %#x prints %s, want %s", c.typ, c.bits, got, c.want)
		}
		for _, text := range append(c.also, c.want) {
			got, err := ParseLiteral(c.typ.String() + "[] " + text)
			if err != nil {
				t.Error(err)
			} else if got.Bits(0) != c.bits {
				t.Errorf("%v[] %s has bits %#x, want %#x", c.typ, text, got.Bits(0), c.bits)
			}
		}
	}
}

func TestParseLiteral(t *testing.T) {
	for text, want := range map[string]string{
		"s32[4,1,1] {{{0}}, {{1}}, {{2}}, {{3}}}": "",
		"f32[] 1.5":                            "",
		"s32[3] {1, 2, 3}":                     "",
		"s32[3]{0} {1 2 3}":                    "s32[3] {1, 2, 3}",
		"s32[2,2]{0,1} {{1,2},{3,4}}":          "s32[2,2] {{1, 2}, {3, 4}}",
		"s32[0] {}":                            "",
		"s32[2,0] {{}, {}}":                    "",
		"s32[1000000,1000000,0] {}":            "",
		"()":                                   "() ()",
		"() ()":                                "() ()",
		"(f32[], s32[2]) (1.5, {1, 2})":        "",
		"(f32[] 1.5, s32[2] {1, 2})":           "(f32[], s32[2]) (1.5, {1, 2})",
		"((f32[]), pred[2]) ((inf), {1, 0})":   "",
		"((f32[] inf), pred[2] {true, false})": "((f32[]), pred[2]) ((inf), {1, 0})",
		"c64[2] {(1, -2), (nan, inf)}":         "",
		"c128[] (0.1, -0.0)":                   "",
		"token[] token":                        "",
		"s32[<=4](2) {1, 2}":                   "",
		"s32[2,<=3](2,1) {{1}, {2}}":           "",
		"s32[<=2] {1, 2}":                      "s32[2] {1, 2}",
		"u8[2] { 1, /* two */ 2 } // the end":  "u8[2] {1, 2}",
		"s32[5] 7":                             "s32[5] {7, 0, 0, 0, 0}", // as XLA reads it
	} {
		l, err := ParseLiteral(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if want == "" {
			want = text
		}
		if got := l.String(); got != want {
			t.Errorf("%s prints\n%s, want\n%s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"s32[2] {1, 2} 3":            `literal:1:15: expected the end of the literal, found "3"`,
		"s32[2] {1}":                 "literal:1:10: expected 2 elements in dimension 0 of s32[2]{0}, found 1",
		"s32[2]":                     "literal:1:7: expected an integer of type s32, found the end of the text",
		"f32[2] {...}":               "literal:1:9: " + elided,
		"1.5":                        `literal:1:1: expected a shape, found "1.5"`,
		"(f32[]) (1, 2)":             `literal:1:11: expected ')' at the end of a tuple literal, found ","`,
		"s32[<=4](5) {1}":            "literal:1:10: run-time size 5 does not fit shape s32[<=4]{0}",
		"s32[?] {1}":                 "literal:1:8: a literal of the unbounded shape s32[?]{0} is not possible",
		"opaque[] 1":                 "literal:1:10: a literal of shape opaque[] is not possible",
		"c64[] 1":                    `literal:1:7: expected '(' before a complex number, found "1"`,
		"u4[] 16":                    "literal:1:6: value 16 is out of range for u4",
		"f8e8m0fnu[] 0":              "literal:1:13: value 0 is out of range for f8e8m0fnu",
		"s64[] 18446744073709551616": `literal:1:7: expected an integer of type s64: "18446744073709551616" is not a 64-bit integer`,
	} {
		if _, err := ParseLiteral(text); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

func FuzzParseLiteral(f *testing.F) {
	for _, s := range []string{"s32[2,2] {{1, 2}, {3, 4}}", "(f32[] nan, pred[2] {true, 0})", "s32[<=4](2) {1, 2}", "c64[1] {(1,-nan(0x1))}", "()", "s4[3] 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLiteral(text)
		if err != nil {
			return
		}
		printed := l.String()
		again, err := ParseLiteral(printed)
		if err != nil {
			t.Fatalf("%v in %s", err, printed)
		}
		if again.String() != printed {
			t.Fatalf("%s prints %s", printed, again)
		}
	})
}
