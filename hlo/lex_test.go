package hlo

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"add.1 %add-2 _x x: y= ":          "ident:add.1 name:add-2 ident:_x name:x attr:y",
		"f32 tuple buffer b opaque token": "type:f32 ident:tuple ident:buffer ident:b type:opaque type:token",
		"true ENTRY manual inf nano":      "keyword:true keyword:ENTRY keyword:manual keyword:inf ident:nano",
		"1 -2 18446744073709551615":       "int:1 int:-2 int:18446744073709551615",
		"1. .5x":                          "decimal:1. bad:unexpected character '.'",
		"-.5 1e5 1.5e-3 2E+1 1e":          "decimal:-.5 decimal:1e5 decimal:1.5e-3 decimal:2E+1 int:1 ident:e",
		"nan -nan nan(0x1) -inf":          "decimal:NaN decimal:NaN decimal:NaN neginf:-inf",
		"nan(7)":                          "bad:expected a NaN payload like (0x7fc00000)",
		"b01f_01io->b01f 0bf_oi0->bf0":    "labels:b01f_01io->b01f labels:0bf_oi0->bf0",
		"?b_io->?b ?":                     "labels:?b_io->?b ?:",
		"bf_io bf_io-> 00_00->00":         "ident:bf_io ident:bf_io- bad:unexpected character '>'",
		"2x3 2x3x 4x":                     "dxd:2x3 dxd:2x3 ident:x int:4 ident:x",
		"0_1 -1_-2 0_0_1x2_3 1_2x 1_x":    "pad:0_1 pad:-1_-2 pad:0_0_1x2_3 pad:1_2 ident:x int:1 ident:_x",
		"-> - > <= <":                     "arrow: bad:\"-\" is not a 64-bit integer",
		"... ..":                          "dots: bad:unexpected character '.'",
		`"a\n\x41\101" 'b"' "x`:           "string:a\nAA string:b\" bad:unterminated string",
		`"\q"`:                            "bad:unknown escape \\q",
		"a/*b*/c//d\ne":                   "ident:a ident:c ident:e",
		"{}()[]:,*#+~=":                   "{: }: (: ): [: ]: :: ,: *: #: +: ~: =:",
		"% x":                             "bad:no name behind '%'",
		"99999999999999999999":            "bad:\"99999999999999999999\" is not a 64-bit integer",
		"a\x00":                           "ident:a bad:unexpected character '\\x00'",
	} {
		var got []string
		l := lexer{src: text}
		for l.next(); l.tok.kind != tokEOF; l.next() {
			name := map[tokKind]string{tokIdent: "ident", tokKeyword: "keyword", tokName: "name", tokAttr: "attr", tokType: "type",
				tokString: "string", tokInt: "int", tokDecimal: "decimal", tokNegInf: "neginf", tokDimLabels: "labels", tokDxD: "dxd",
				tokPad: "pad", tokArrow: "arrow", tokLeq: "leq", tokDots: "dots", tokBad: "bad"}[l.tok.kind]
			if name == "" {
				name = string(rune(l.tok.kind))
			}
			s := l.tok.text
			if l.tok.kind == tokDecimal && l.tok.f != l.tok.f {
				s = fmt.Sprint(l.tok.f)
			}
			got = append(got, name+":"+s)
			if l.tok.kind == tokBad {
				break
			}
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%q\n got %s\nwant %s", text, g, want)
		}
	}
}

// TestEscape: any bytes come back from a string literal.
func TestEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		l := lexer{src: quoted(want)}
		l.next()
		if l.tok.kind != tokString || l.tok.text != want || l.end != len(l.src) {
			t.Fatalf("%s reads as %q (%v)", l.src, l.tok.text, l.tok.kind)
		}
	})
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{
		`\a\b\f\n\r\t\v\\\?\'\"`: "\a\b\f\n\r\t\v\\?'\"",
		`\0\12\1234`:             "\x00\nS4",
		`\x4a\X4A`:               "JJ",
		`\u00e9\U0001f600`:       "é😀",
	} {
		if got, err := unescape(text); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{`\`, `\8`, `\400`, `\x`, `\x100`, `\u12`, `\ud800`, `\U00110000`} {
		if got, err := unescape(bad); err == nil {
			t.Errorf("%s: %q, want an error", bad, got)
		}
	}
}
