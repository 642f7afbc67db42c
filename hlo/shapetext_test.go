package hlo

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func genShape(t *rapid.T, depth int) *Shape {
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1:
		if depth == 0 {
			break
		}
		s := &Shape{Type: Tuple}
		for range rapid.IntRange(0, 7).Draw(t, "elements") {
			s.Elements = append(s.Elements, genShape(t, depth-1))
		}
		return s
	case 2:
		return &Shape{Type: rapid.SampledFrom([]PrimitiveType{Token, Opaque}).Draw(t, "opaque type")}
	case 3:
		return &Shape{Type: Buffer, Elements: []*Shape{genArray(t, depth)}}
	}
	return genArray(t, depth)
}

func genArray(t *rapid.T, depth int) *Shape {
	s := &Shape{Type: rapid.SampledFrom(arrayTypes()).Draw(t, "type")}
	rank := rapid.IntRange(0, 4).Draw(t, "rank")
	dynamic := rapid.Bool().Draw(t, "dynamic")
	for i := range rank {
		d := rapid.Int64Range(0, 100).Draw(t, "dim")
		if dynamic {
			if s.Dynamic == nil {
				s.Dynamic = make([]bool, rank)
			}
			s.Dynamic[i] = i == 0 || rapid.Bool().Draw(t, "dynamic dim")
			if s.Dynamic[i] && rapid.Bool().Draw(t, "unbounded") {
				d = Unbounded
			}
		}
		s.Dims = append(s.Dims, d)
	}
	s.Layout = genLayout(t, rank, depth)
	return s
}

func genLayout(t *rapid.T, rank, depth int) *Layout {
	l := DefaultLayout(rank)
	if rank > 0 {
		l.MinorToMajor = rapid.Permutation(l.MinorToMajor).Draw(t, "minor to major")
	}
	maybe := func(what string) bool { return rapid.IntRange(0, 4).Draw(t, what) == 0 }
	small := func(what string) int64 { return rapid.Int64Range(1, 130).Draw(t, what) }
	if rank > 0 && maybe("sparse") {
		l.DimLevelTypes = make([]DimLevel, rank)
		for i := range l.DimLevelTypes {
			l.DimLevelTypes[i] = DimLevel{rapid.Int32Range(0, 3).Draw(t, "level"), rapid.Bool().Draw(t, "unique"), rapid.Bool().Draw(t, "ordered")}
		}
		l.DimLevelTypes[0].Unique = false // not the default
		if depth > 0 && maybe("physical") {
			l.PhysicalShape = genArray(t, 0)
		}
	}
	for maybe("tile") {
		l.Tiles = append(l.Tiles, rapid.SliceOfN(rapid.SampledFrom([]int64{2, 8, 128, TileCombine}), 0, 3).Draw(t, "tile sizes"))
	}
	if maybe("tail") {
		l.TailPaddingAlignment = small("alignment") + 1
	}
	if maybe("index") {
		l.IndexType = rapid.SampledFrom([]PrimitiveType{U8, U16, U32, U64}).Draw(t, "index type")
	}
	if maybe("pointer") {
		l.PointerType = U32
	}
	if maybe("element size") {
		l.ElementSizeInBits = small("bits")
	}
	if maybe("memory space") {
		l.MemorySpace = small("space")
	}
	for rank > 0 && maybe("split") {
		l.SplitConfigs = append(l.SplitConfigs, SplitConfig{rapid.Int64Range(0, int64(rank-1)).Draw(t, "split dimension"),
			rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 3).Draw(t, "indices")})
	}
	if maybe("prefix") {
		l.DynamicMetadataPrefixBytes = small("prefix bytes")
	}
	return l
}

// TestShapeText: shapes come back from their text with every part.
func TestShapeText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genShape(t, 2)
		got, err := ParseShape(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("%v comes back as %v", s, got)
		}
	})
}

func TestParseShape(t *testing.T) {
	for text, want := range map[string]string{
		"f32[]":                              "",
		"f32[2,3]":                           "f32[2,3]{1,0}", // the default layout
		"f32[2,3]{0,1}":                      "",
		"bf16[8,128]{1,0:T(8,128)(2,1)S(1)}": "",
		"u32[]{:S(2)}":                       "",
		"s4[10]{0:T(*,2)L(4)#(u32)*(u8)E(4)S(5)SC(0:10)(0:4,5)M(8)}": "",
		"f32[3,4]{1,0:D(D,C+~)}":                                     "",
		"f32[<=5,?]{1,0}":                                            "",
		"(f32[2], s32[], token[], opaque[], ())":                     "(f32[2]{0}, s32[], token[], opaque[], ())",
		"(s8[], s8[], s8[], s8[], s8[], /*index=5*/s8[])":            "",
		"b(f32[4])": "b(f32[4]{0})",
	} {
		s, err := ParseShape(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if want == "" {
			want = text
		}
		if got := s.String(); got != want {
			t.Errorf("%s prints %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"":                          "shape:1:1: expected a shape, found the end of the text",
		"g32[2]":                    `shape:1:1: expected a shape, found "g32"`,
		"f32[2":                     "shape:1:6: expected ']' at the end of dimension sizes, found the end of the text",
		"f32[2]{0":                  "shape:1:9: expected '}' at the end of a layout, found the end of the text",
		"f32[2]{0:Q(1)}":            `shape:1:10: expected '}' at the end of a layout, found "Q"`,
		"f32[2]{0:D(X)}":            `shape:1:12: expected a dimension level type (D, C, S or H), found "X"`,
		"f32[2]{0:P(f32[2])}":       "shape:1:7: a layout with a physical shape needs dimension level types",
		"token[2]":                  "shape:1:6: token has no dimensions",
		"b((f32[]))":                "shape:1:3: expected an array shape inside b(...), found (f32[])",
		"f32[2] x":                  `shape:1:8: expected the end of the shape, found "x"`,
		"f32[18446744073709551615]": "shape:1:5: expected a dimension size, found -1",
	} {
		if _, err := ParseShape(text); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

func FuzzParseShape(f *testing.F) {
	for _, s := range []string{"f32[2,<=3]{1,0:T(8,128)S(1)}", "(f32[], (token[], b(s4[2])))", "f32[3]{0:D(C)P(f32[])}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseShape(text)
		if err != nil {
			return
		}
		again, err := ParseShape(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if again.String() != s.String() {
			t.Fatalf("%s comes back as %s", s, again)
		}
	})
}
