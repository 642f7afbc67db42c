package hlo

import (
	"slices"
	"strconv"
	"strings"
)

// ParseShape reads a shape in HLO text, "f32[2,3]{1,0}" or "(s32[], token[])".
// As in XLA's parser, an array without a layout gets the default layout.
// Errors are *SyntaxError with the file name "shape".
func ParseShape(text string) (s *Shape, err error) {
	p := newParser("shape", text)
	defer p.recover(&err)
	p.next()
	s = p.shape()
	p.wantEOF("shape")
	return s, nil
}

// atShape reports whether the current token can start a shape.
func (p *parser) atShape() bool {
	return p.tok.kind == tokType || p.tok.kind == '(' || p.atBuffer()
}

func (p *parser) atBuffer() bool {
	return p.tok.kind == tokIdent && p.tok.text == "b" && p.peek() == '('
}

// shape reads a shape:
//
//	shape ::= type '[' dimension, ... ']' layout? | '(' shape, ... ')' | 'b' '(' shape ')'
func (p *parser) shape() *Shape { return p.shapeBefore(false) }

// shapeBefore is shape where the value of a literal may follow.
func (p *parser) shapeBefore(value bool) *Shape {
	p.enter()
	defer p.leave()
	switch {
	case p.atBuffer():
		p.next()
		p.next()
		pos := p.tok.pos
		elem := p.shape()
		if !elem.IsArray() {
			p.fail(pos, "expected an array shape inside b(...), found %v", elem)
		}
		p.expect(')', "behind the shape of a buffer")
		return &Shape{Type: Buffer, Elements: []*Shape{elem}}
	case p.eat('('):
		s := &Shape{Type: Tuple}
		for p.tok.kind != ')' {
			s.Elements = append(s.Elements, p.shape())
			if !p.eat(',') {
				break
			}
		}
		p.expect(')', "at the end of a tuple shape")
		return s
	}
	if p.tok.kind != tokType {
		p.expected("a shape")
	}
	s := &Shape{Type: p.tok.typ}
	p.next()
	pos := p.tok.pos
	p.dimensionSizes(s)
	if !s.IsArray() && len(s.Dims) > 0 {
		p.fail(pos, "%v has no dimensions", s.Type)
	}
	if s.IsArray() {
		s.Layout = DefaultLayout(len(s.Dims))
	}
	// `{` after a shape starts a layout only before an integer or a colon:
	// behind the result shape of a computation it starts the body.
	if p.tok.kind == '{' {
		if k := p.peek(); (k == tokInt || k == ':') && !(value && k == tokInt && p.valueAhead()) {
			pos := p.tok.pos
			s.Layout = p.layout()
			if n := len(s.Layout.MinorToMajor); n != len(s.Dims) {
				p.fail(pos, "expected a layout of %d dimensions, found one of %d", len(s.Dims), n)
			}
		}
	}
	return s
}

// valueAhead reports whether the braces at the current token hold the value
// of a literal: no other brace follows them.
func (p *parser) valueAhead() bool {
	save := p.lexer
	defer func() { p.lexer = save }()
	for {
		switch p.tok.kind {
		case '}':
			p.next()
			return p.tok.kind != '{'
		case tokEOF, tokBad:
			return true
		}
		p.next()
	}
}

// maxRank bounds the dimensions of an array; XLA has no bound of its own.
const maxRank = 1024

func (p *parser) dimensionSizes(s *Shape) {
	p.list('[', ']', "dimension sizes", func() {
		size, dynamic := Unbounded, true
		if !p.eat('?') {
			dynamic = p.eat(tokLeq)
			pos := p.tok.pos
			size = p.int("a dimension size")
			if size < 0 {
				p.fail(pos, "expected a dimension size, found %d", size)
			}
		}
		if dynamic && s.Dynamic == nil {
			s.Dynamic = make([]bool, len(s.Dims))
		}
		if len(s.Dims) == maxRank {
			p.fail(p.tok.pos, "more than %d dimensions", maxRank)
		}
		s.Dims = append(s.Dims, size)
		if s.Dynamic != nil {
			s.Dynamic = append(s.Dynamic, dynamic)
		}
	})
}

// atLetter eats an identifier that introduces a part of a layout.
func (p *parser) eatIdent(name string) bool {
	if p.tok.kind != tokIdent || p.tok.text != name {
		return false
	}
	p.next()
	return true
}

// layout reads '{' minor-to-major (':' D? T? L? #? *? E? S? SC? P? M?)? '}'.
func (p *parser) layout() *Layout {
	pos := p.tok.pos
	l := &Layout{MinorToMajor: []int64{}}
	p.expect('{', "to start a layout")
	for p.tok.kind == tokInt {
		l.MinorToMajor = append(l.MinorToMajor, p.int("a dimension"))
		if !p.eat(',') {
			break
		}
	}
	if p.eat(':') {
		if p.eatIdent("D") {
			p.list('(', ')', "dimension level types", func() {
				if p.tok.kind != tokIdent || len(p.tok.text) != 1 || !strings.Contains("DCSH", p.tok.text) {
					p.expected("a dimension level type (D, C, S or H)")
				}
				d := DimLevel{Type: int32(strings.Index("DCSH", p.tok.text)), Unique: true, Ordered: true}
				p.next()
				if p.eat('+') {
					d.Unique = false
				}
				if p.eat('~') {
					d.Ordered = false
				}
				l.DimLevelTypes = append(l.DimLevelTypes, d)
			})
		}
		if p.eatIdent("T") {
			for more := true; more; more = p.tok.kind == '(' {
				tile := []int64{}
				p.list('(', ')', "tile sizes", func() {
					if p.eat('*') {
						tile = append(tile, TileCombine)
						return
					}
					tile = append(tile, p.int("a tile size or '*'"))
				})
				l.Tiles = append(l.Tiles, tile)
			}
		}
		if p.eatIdent("L") {
			l.TailPaddingAlignment = p.parenInt("a tail padding alignment")
		}
		if p.eat('#') {
			l.IndexType = p.parenUnsigned()
		}
		if p.eat('*') {
			l.PointerType = p.parenUnsigned()
		}
		if p.eatIdent("E") {
			l.ElementSizeInBits = p.parenInt("an element size in bits")
		}
		if p.eatIdent("S") {
			l.MemorySpace = p.parenInt("a memory space")
		}
		if p.eatIdent("SC") {
			for more := true; more; more = p.tok.kind == '(' {
				p.expect('(', "to start a split config")
				sc := SplitConfig{Dimension: p.int("a dimension")}
				p.list(':', ')', "split indices", func() {
					sc.SplitIndices = append(sc.SplitIndices, p.int("a split index"))
				})
				l.SplitConfigs = append(l.SplitConfigs, sc)
			}
		}
		if p.eatIdent("P") {
			p.expect('(', "before a physical shape")
			l.PhysicalShape = p.shape()
			p.expect(')', "behind a physical shape")
			if len(l.DimLevelTypes) == 0 {
				p.fail(pos, "a layout with a physical shape needs dimension level types")
			}
		}
		if p.eatIdent("M") {
			l.DynamicMetadataPrefixBytes = p.parenInt("a count of prefix bytes")
		}
	}
	p.expect('}', "at the end of a layout")
	return l
}

func (p *parser) parenInt(what string) int64 {
	p.expect('(', "before "+what)
	v := p.int(what)
	p.expect(')', "behind "+what)
	return v
}

func (p *parser) parenUnsigned() PrimitiveType {
	p.expect('(', "before an unsigned integer type")
	if p.tok.kind != tokType || !p.tok.typ.IsUnsigned() {
		p.expected("an unsigned integer type")
	}
	t := p.tok.typ
	p.next()
	p.expect(')', "behind an unsigned integer type")
	return t
}

// String is the shape in HLO text, with layouts where it has them.
func (s *Shape) String() string { return string(s.appendText(nil, true)) }

// appendText appends the shape's text. Every fifth element of a tuple is
// marked with its index, as XLA does.
func (s *Shape) appendText(b []byte, layout bool) []byte {
	switch s.Type {
	case Tuple:
		b = append(b, '(')
		for i, e := range s.Elements {
			if i > 0 {
				b = appendIndexed(b, i)
			}
			b = e.appendText(b, layout)
		}
		return append(b, ')')
	case Buffer:
		b = append(b, "b("...)
		for _, e := range s.Elements {
			b = e.appendText(b, layout)
		}
		return append(b, ')')
	}
	b = append(b, s.Type.String()...)
	b = append(b, '[')
	for i, d := range s.Dims {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case d == Unbounded:
			b = append(b, '?')
			continue
		case i < len(s.Dynamic) && s.Dynamic[i]:
			b = append(b, "<="...)
		}
		b = strconv.AppendInt(b, d, 10)
	}
	b = append(b, ']')
	if layout && s.Layout != nil {
		text := s.Layout.appendText(nil)
		if len(s.Dims) > 0 || len(text) > 2 { // no "{}" on scalars
			b = append(b, text...)
		}
	}
	return b
}

// appendIndexed appends the separator before element i of a printed list.
func appendIndexed(b []byte, i int) []byte {
	b = append(b, ", "...)
	if i%5 == 0 {
		b = append(b, "/*index="...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, "*/"...)
	}
	return b
}

// String is the layout in HLO text, "{1,0:T(8,128)S(1)}".
func (l *Layout) String() string { return string(l.appendText(nil)) }

func (l *Layout) appendText(b []byte) []byte {
	b = append(b, '{')
	b = appendInts(b, l.MinorToMajor, ",")
	attrs := l.appendAttrs(nil)
	if len(attrs) > 0 {
		b = append(b, ':')
		b = append(b, attrs...)
	}
	return append(b, '}')
}

func (l *Layout) appendAttrs(b []byte) []byte {
	paren := func(name string, v int64) {
		b = append(b, name...)
		b = append(b, '(')
		b = strconv.AppendInt(b, v, 10)
		b = append(b, ')')
	}
	if slices.ContainsFunc(l.DimLevelTypes, func(d DimLevel) bool { return d != DimLevel{0, true, true} }) {
		b = append(b, "D("...)
		for i, d := range l.DimLevelTypes {
			if i > 0 {
				b = append(b, ',')
			}
			if d.Type >= 0 && d.Type < 4 {
				b = append(b, "DCSH"[d.Type])
			}
			if !d.Unique {
				b = append(b, '+')
			}
			if !d.Ordered {
				b = append(b, '~')
			}
		}
		b = append(b, ')')
	}
	if len(l.Tiles) > 0 {
		b = append(b, 'T')
	}
	for _, t := range l.Tiles {
		b = append(b, '(')
		for i, d := range t {
			if i > 0 {
				b = append(b, ',')
			}
			if d == TileCombine {
				b = append(b, '*')
			} else {
				b = strconv.AppendInt(b, d, 10)
			}
		}
		b = append(b, ')')
	}
	if l.TailPaddingAlignment > 1 {
		paren("L", l.TailPaddingAlignment)
	}
	if l.IndexType != InvalidType {
		b = append(b, "#("+l.IndexType.String()+")"...)
	}
	if l.PointerType != InvalidType {
		b = append(b, "*("+l.PointerType.String()+")"...)
	}
	if l.ElementSizeInBits != 0 {
		paren("E", l.ElementSizeInBits)
	}
	if l.MemorySpace != 0 {
		paren("S", l.MemorySpace)
	}
	if len(l.SplitConfigs) > 0 {
		b = append(b, "SC"...)
	}
	for _, sc := range l.SplitConfigs {
		b = append(b, '(')
		b = strconv.AppendInt(b, sc.Dimension, 10)
		b = append(b, ':')
		b = appendInts(b, sc.SplitIndices, ",")
		b = append(b, ')')
	}
	if l.PhysicalShape != nil {
		b = append(b, "P("...)
		b = l.PhysicalShape.appendText(b, true)
		b = append(b, ')')
	}
	if l.DynamicMetadataPrefixBytes > 0 {
		paren("M", l.DynamicMetadataPrefixBytes)
	}
	return b
}

// appendInts appends the numbers, joined by sep.
func appendInts[T int64 | int32](b []byte, v []T, sep string) []byte {
	for i, x := range v {
		if i > 0 {
			b = append(b, sep...)
		}
		b = strconv.AppendInt(b, int64(x), 10)
	}
	return b
}
