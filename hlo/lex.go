package hlo

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tokKind is the kind of a token of HLO text. Punctuation of one character
// has its own character as kind.
type tokKind uint8

const (
	tokEOF       tokKind = iota
	tokBad               // no token; the lexer's complaint is in text
	tokIdent             // add, foo.1
	tokKeyword           // one of keywords
	tokName              // %foo, foo:
	tokAttr              // foo=
	tokType              // f32
	tokString            // "..." or '...', unescaped
	tokInt               // 12, -3
	tokDecimal           // 1.5, 1e3, nan, -nan(0x1)
	tokNegInf            // -inf
	tokDimLabels         // b01f_01io->b01f
	tokDxD               // 2x3
	tokPad               // 0_1x2_3_1
	tokArrow             // ->
	tokLeq               // <=
	tokDots              // ...
)

var tokNames = map[tokKind]string{
	tokEOF: "end of text", tokIdent: "identifier", tokKeyword: "keyword", tokName: "name",
	tokAttr: "attribute name", tokType: "primitive type", tokString: "string", tokInt: "integer",
	tokDecimal: "number", tokNegInf: "-inf", tokDimLabels: "dimension labels", tokDxD: "sizes like 2x3",
	tokPad: "padding like 0_1x2_3", tokArrow: "'->'", tokLeq: "'<='", tokDots: "'...'",
}

func (k tokKind) String() string {
	if s, ok := tokNames[k]; ok {
		return s
	}
	return fmt.Sprintf("'%c'", rune(k))
}

// keywords cannot be names without a leading `%` (hlo_lexer.cc).
var keywords = map[string]bool{
	"true": true, "false": true, "inf": true, "HloModule": true, "ENTRY": true, "ROOT": true,
	"FileLocations": true, "FileNames": true, "FunctionNames": true, "StackFrames": true,
	"maximal": true, "replicated": true, "manual": true, "last_tile_dim_replicate": true,
	"shard_as": true, "shard_like": true, "unknown": true, "unreduced": true,
}

// token is one token. pos is the byte offset of its first character.
type token struct {
	kind tokKind
	pos  int
	text string // identifiers, names, strings (unescaped), patterns; the complaint of tokBad
	i    int64  // tokInt: the value; a uint64 beyond int64 as its bit pattern
	wide bool   // tokInt: the value was beyond int64
	f    float64
	typ  PrimitiveType
}

// lexer splits HLO text into tokens (rules: xla/hlo/parser/hlo_lexer.cc).
type lexer struct {
	src string
	end int // offset behind tok
	tok token
}

func isIdentChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-'
}

func isIdentStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (l *lexer) at(i int) byte {
	if i < len(l.src) {
		return l.src[i]
	}
	return 0
}

// next reads the next token into l.tok.
func (l *lexer) next() {
	bad := l.skipSpace()
	l.tok = token{pos: l.end}
	if bad != "" {
		l.bad(bad)
		return
	}
	if l.end >= len(l.src) {
		return // tokEOF
	}
	c := l.src[l.end]
	switch {
	case isIdentStart(c):
		l.ident()
	case isDigit(c):
		l.number()
	default:
		l.punct(c)
	}
}

func (l *lexer) bad(msg string) { l.tok.kind, l.tok.text = tokBad, msg }

// peek returns the kind of the token behind l.tok.
func (l *lexer) peek() tokKind {
	save := *l
	l.next()
	k := l.tok.kind
	*l = save
	return k
}

// skipSpace moves l.end to the start of the next token. It returns a
// complaint about an unterminated comment.
func (l *lexer) skipSpace() string {
	for l.end < len(l.src) {
		switch l.src[l.end] {
		case ' ', '\t', '\n', '\r':
			l.end++
		case '/':
			switch l.at(l.end + 1) {
			case '*':
				n := strings.Index(l.src[l.end+2:], "*/")
				if n < 0 {
					return "unterminated comment"
				}
				l.end += 2 + n + 2
			case '/':
				n := strings.IndexAny(l.src[l.end:], "\r\n")
				if n < 0 {
					n = len(l.src) - l.end
				}
				l.end += n
			default:
				return ""
			}
		default:
			return ""
		}
	}
	return ""
}

func (l *lexer) punct(c byte) {
	switch c {
	case '-':
		if l.at(l.end+1) == '>' {
			l.tok.kind = tokArrow
			l.end += 2
			return
		}
		l.number()
	case '?':
		if n := dimLabels(l.src[l.end:]); n > 0 {
			l.take(tokDimLabels, n)
			return
		}
		l.tok.kind = '?'
		l.end++
	case '<':
		if l.at(l.end+1) != '=' {
			l.bad("unexpected character '<'")
			return
		}
		l.tok.kind = tokLeq
		l.end += 2
	case '.':
		if !strings.HasPrefix(l.src[l.end:], "...") {
			l.bad("unexpected character '.'")
			return
		}
		l.tok.kind = tokDots
		l.end += 3
	case '%':
		n := 1
		if isIdentStart(l.at(l.end + 1)) {
			for isIdentChar(l.at(l.end + n)) {
				n++
			}
		}
		if n == 1 {
			l.bad("no name behind '%'")
			return
		}
		l.tok.kind, l.tok.text = tokName, l.src[l.end+1:l.end+n]
		l.end += n
	case '"', '\'':
		l.str(c)
	case '=', ',', ':', '*', '#', '+', '~', '[', ']', '{', '}', '(', ')':
		l.tok.kind = tokKind(c)
		l.end++
	default:
		l.bad(fmt.Sprintf("unexpected character %q", c))
	}
}

func (l *lexer) take(k tokKind, n int) {
	l.tok.kind, l.tok.text = k, l.src[l.end:l.end+n]
	l.end += n
}

func (l *lexer) ident() {
	start := l.end
	for isIdentChar(l.at(l.end)) {
		l.end++
	}
	s := l.src[start:l.end]
	l.tok.text = s
	switch l.at(l.end) {
	case ':':
		l.tok.kind = tokName
		l.end++
		return
	case '=':
		l.tok.kind = tokAttr
		l.end++
		return
	}
	if t, ok := typeByName[s]; ok && t != Tuple && t != Buffer {
		l.tok.kind, l.tok.typ = tokType, t
		return
	}
	if s == "nan" {
		l.nan(0)
		return
	}
	if keywords[s] {
		l.tok.kind = tokKeyword
		return
	}
	if n := dimLabels(l.src[start:]); n > 0 {
		l.end = start
		l.take(tokDimLabels, n)
		return
	}
	l.tok.kind = tokIdent
}

// nan finishes a NaN whose letters are read. The payload is kept in the
// mantissa of tok.f.
func (l *lexer) nan(sign uint64) {
	payload := uint64(1) << 51
	if l.at(l.end) == '(' {
		close := strings.IndexByte(l.src[l.end:], ')')
		if close < 0 || !strings.HasPrefix(l.src[l.end:], "(0x") {
			l.bad("expected a NaN payload like (0x7fc00000)")
			return
		}
		v, err := strconv.ParseUint(l.src[l.end+3:l.end+close], 16, 64)
		if err != nil || v == 0 || v >= 1<<52 {
			l.bad("NaN payload is out of range")
			return
		}
		payload = v
		l.end += close + 1
	}
	l.tok.kind, l.tok.f = tokDecimal, math.Float64frombits(sign<<63|0x7ff<<52|payload)
}

// number reads an integer, a decimal, -inf, -nan or one of the patterns that
// start with a digit; the order of the attempts is XLA's.
func (l *lexer) number() {
	s := l.src[l.end:]
	if n := decimal(s); n > 0 {
		v, err := strconv.ParseFloat(s[:n], 64)
		if err != nil {
			l.bad(fmt.Sprintf("constant %s is out of range for f64", s[:n]))
			return
		}
		l.tok.f = v
		l.take(tokDecimal, n)
		return
	}
	if n := dimLabels(s); n > 0 {
		l.take(tokDimLabels, n)
		return
	}
	if n := sizes(s); n > 0 {
		l.take(tokDxD, n)
		return
	}
	if n := padding(s); n > 0 {
		l.take(tokPad, n)
		return
	}
	switch {
	case strings.HasPrefix(s, "-inf"):
		l.take(tokNegInf, 4)
	case strings.HasPrefix(s, "-nan"):
		l.end += 4
		l.nan(1)
	default:
		l.integer(s)
	}
}

func (l *lexer) integer(s string) {
	n := 0
	if s[0] == '-' {
		n++
	}
	n += digits(s[n:])
	var err error
	if s[0] == '-' {
		l.tok.i, err = strconv.ParseInt(s[:n], 10, 64)
	} else {
		var u uint64
		u, err = strconv.ParseUint(s[:n], 10, 64)
		l.tok.i, l.tok.wide = int64(u), u > math.MaxInt64
	}
	if err != nil {
		l.bad(fmt.Sprintf("%q is not a 64-bit integer", s[:n]))
		return
	}
	l.take(tokInt, n)
}

func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// decimal is the length of a decimal number at the start of s, 0 if none:
// it has a point, an exponent, or both.
func decimal(s string) int {
	n := 0
	if n < len(s) && s[n] == '-' {
		n++
	}
	whole := digits(s[n:])
	n += whole
	point := false
	if n < len(s) && s[n] == '.' {
		frac := digits(s[n+1:])
		if whole == 0 && frac == 0 {
			return 0
		}
		point = true
		n += 1 + frac
	}
	if whole == 0 && !point {
		return 0
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		e := n + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if d := digits(s[e:]); d > 0 {
			return e + d
		}
	}
	if !point {
		return 0
	}
	return n
}

// dimLabels is the length of [0-9bf?]{2,}_[0-9io?]{2,}->[0-9bf?]{2,} at the
// start of s, 0 if none.
func dimLabels(s string) int {
	run := func(s, letters string) int {
		n := 0
		for n < len(s) && (isDigit(s[n]) || s[n] == '?' || strings.IndexByte(letters, s[n]) >= 0) {
			n++
		}
		return n
	}
	a := run(s, "bf")
	if a < 2 || a >= len(s) || s[a] != '_' {
		return 0
	}
	b := run(s[a+1:], "io")
	if b < 2 || !strings.HasPrefix(s[a+1+b:], "->") {
		return 0
	}
	c := run(s[a+1+b+2:], "bf")
	if c < 2 {
		return 0
	}
	return a + 1 + b + 2 + c
}

// sizes is the length of [0-9]+(x[0-9]+)+ at the start of s, 0 if none.
func sizes(s string) int {
	n := digits(s)
	if n == 0 {
		return 0
	}
	first := n
	for n < len(s) && s[n] == 'x' {
		d := digits(s[n+1:])
		if d == 0 {
			break
		}
		n += 1 + d
	}
	if n == first {
		return 0
	}
	return n
}

// padding is the length of LOW_HIGH[_INTERIOR](xLOW_HIGH[_INTERIOR])* at the
// start of s, 0 if none. LOW and HIGH may be negative.
func padding(s string) int {
	n := padGroup(s)
	for n > 0 && n < len(s) && s[n] == 'x' {
		g := padGroup(s[n+1:])
		if g == 0 {
			break
		}
		n += 1 + g
	}
	return n
}

func padGroup(s string) int {
	signed := func(s string) int {
		n := 0
		if n < len(s) && s[n] == '-' {
			n++
		}
		d := digits(s[n:])
		if d == 0 {
			return 0
		}
		return n + d
	}
	low := signed(s)
	if low == 0 || low >= len(s) || s[low] != '_' {
		return 0
	}
	high := signed(s[low+1:])
	if high == 0 {
		return 0
	}
	n := low + 1 + high
	if n < len(s) && s[n] == '_' {
		if d := digits(s[n+1:]); d > 0 {
			n += 1 + d
		}
	}
	return n
}

// stringEnd is the length of the quoted string at the start of s, 0 if it is
// not terminated. A backslash protects any character but a newline.
func stringEnd(s string, quote byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case quote:
			return i + 1
		case '\\':
			i++
			if i < len(s) && s[i] == '\n' {
				return 0
			}
		}
	}
	return 0
}

func (l *lexer) str(quote byte) {
	n := stringEnd(l.src[l.end:], quote)
	if n == 0 {
		l.bad("unterminated string")
		return
	}
	s, err := unescape(l.src[l.end+1 : l.end+n-1])
	if err != nil {
		l.bad(err.Error())
		return
	}
	l.tok.kind, l.tok.text = tokString, s
	l.end += n
}

// json re-reads the current token, which must be '{', as a JSON object up to
// its closing brace: a tokString with the text, braces included.
func (l *lexer) json() bool {
	depth, i := 0, l.tok.pos
	for i < len(l.src) {
		switch l.src[i] {
		case '"':
			n := stringEnd(l.src[i:], '"')
			if n == 0 {
				return false
			}
			i += n
			continue
		case '{':
			depth++
		case '}':
			depth--
		}
		i++
		if depth == 0 {
			l.tok.kind, l.tok.text = tokString, l.src[l.tok.pos:i]
			l.end = i
			return true
		}
	}
	return false
}

// lexesAsJSON reports whether s can be printed without quotes where a string
// or a JSON object is allowed.
func lexesAsJSON(s string) bool {
	l := lexer{src: s}
	l.next()
	return l.tok.kind == '{' && l.tok.pos == 0 && l.json() && l.end == len(s)
}

// unescape undoes C escapes (absl::CUnescape).
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", fmt.Errorf("string ends in a backslash")
		}
		switch c := s[i]; c {
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case '\\', '?', '\'', '"':
			b.WriteByte(c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v := 0
			j := i
			for j < len(s) && j < i+3 && '0' <= s[j] && s[j] <= '7' {
				v = v*8 + int(s[j]-'0')
				j++
			}
			if v > 255 {
				return "", fmt.Errorf("escape \\%s is beyond a byte", s[i:j])
			}
			b.WriteByte(byte(v))
			i = j - 1
		case 'x', 'X':
			v, j := uint64(0), i+1
			for j < len(s) && hexDigit(s[j]) >= 0 {
				v = v<<4 | uint64(hexDigit(s[j]))
				if v > 255 {
					return "", fmt.Errorf("escape \\%s is beyond a byte", s[i:j+1])
				}
				j++
			}
			if j == i+1 {
				return "", fmt.Errorf("escape \\%c without digits", c)
			}
			b.WriteByte(byte(v))
			i = j - 1
		case 'u', 'U':
			n := 4
			if c == 'U' {
				n = 8
			}
			if i+n >= len(s) {
				return "", fmt.Errorf("escape \\%c needs %d digits", c, n)
			}
			v, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if err != nil || v > 0x10ffff || 0xd800 <= v && v < 0xe000 {
				return "", fmt.Errorf("escape \\%s is no Unicode character", s[i:i+1+n])
			}
			b.WriteRune(rune(v))
			i += n
		default:
			return "", fmt.Errorf("unknown escape \\%c", c)
		}
	}
	return b.String(), nil
}

func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// escape is the inverse of unescape; the result is printable ASCII.
func escape(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f || s[i] == '"' || s[i] == '\'' || s[i] == '\\' {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '"' || c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
