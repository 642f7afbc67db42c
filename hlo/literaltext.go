package hlo

import (
	"encoding/binary"
	"math"
	"strconv"
)

// ParseLiteral reads a literal in HLO text: a shape and its value,
//
//	s32[2,2] {{1, 2}, {3, 4}}
//	f32[] 1.5
//	(f32[], pred[2]) (nan, {true, 0})
//	(f32[] nan, pred[2] {true, 0})
//	s32[<=4](2) {1, 2}
//
// the last one with the run-time sizes of a dynamic shape. Commas between
// elements are optional. Numbers out of the type's range and elided values
// `{...}` are errors (*SyntaxError with the file name "literal").
func ParseLiteral(text string) (l *Literal, err error) {
	p := newParser("literal", text)
	defer p.recover(&err)
	p.next()
	if p.tok.kind == '(' && p.tupleShapeAhead() {
		l = p.literal(p.shape())
	} else {
		l = p.shapedLiteral()
	}
	p.wantEOF("literal")
	return l, nil
}

// shapedLiteral reads a literal that starts with its shape, or a tuple of
// such literals in parentheses.
func (p *parser) shapedLiteral() *Literal {
	if p.tok.kind == '(' {
		p.enter()
		defer p.leave()
		p.next()
		l := &Literal{Shape: &Shape{Type: Tuple}}
		for p.tok.kind != ')' {
			e := p.shapedLiteral()
			l.Elements = append(l.Elements, e)
			l.Shape.Elements = append(l.Shape.Elements, e.Shape)
			if !p.eat(',') {
				break
			}
		}
		p.expect(')', "at the end of a tuple literal")
		return l
	}
	return p.literal(p.shapeBefore(true))
}

// tupleShapeAhead reports whether the parenthesis at the current token closes
// before another one: `(shape, ...) (value, ...)`.
func (p *parser) tupleShapeAhead() bool {
	save := p.lexer
	defer func() { p.lexer = save }()
	for depth := 0; ; p.next() {
		switch p.tok.kind {
		case '(':
			depth++
		case ')':
			depth--
		case tokEOF, tokBad:
			return false
		}
		if depth == 0 {
			return p.peek() == '('
		}
	}
}

// literal reads the value of a literal whose shape is known. The literal has
// static dimensions unless run-time sizes precede the value.
func (p *parser) literal(s *Shape) *Literal {
	switch {
	case s.IsTuple():
		return p.tupleLiteral(s)
	case s.Type == Token && p.tok.kind == tokType && p.tok.typ == Token:
		p.next()
		return &Literal{Shape: s}
	case !s.IsArray():
		p.fail(p.tok.pos, "a literal of shape %v is not possible", s)
	}
	shape := *s
	shape.Dynamic = nil
	if shape.Layout != nil && shape.Layout.ElementSizeInBits != 0 {
		shape.Layout = s.Layout.Clone()
		shape.Layout.ElementSizeInBits = 0 // a literal has whole bytes
	}
	l := &Literal{Shape: &shape}
	if s.IsDynamic() && p.tok.kind == '(' {
		shape.Dynamic = s.Dynamic
		p.list('(', ')', "run-time sizes", func() {
			i := len(l.DynamicSizes)
			pos := p.tok.pos
			n := p.int("a run-time size")
			if i >= len(s.Dims) || n < 0 || n > s.Dims[i] || !s.Dynamic[i] && n != s.Dims[i] || n > math.MaxInt32 {
				p.fail(pos, "run-time size %d does not fit shape %v", n, s)
			}
			l.DynamicSizes = append(l.DynamicSizes, int32(n))
		})
		if len(l.DynamicSizes) != len(s.Dims) {
			p.fail(p.tok.pos, "expected %d run-time sizes, found %d", len(s.Dims), len(l.DynamicSizes))
		}
	}
	p.arrayLiteral(l)
	return l
}

func (p *parser) tupleLiteral(s *Shape) *Literal {
	p.enter()
	defer p.leave()
	l := &Literal{Shape: &Shape{Type: Tuple}}
	p.expect('(', "to start a tuple literal")
	for i, e := range s.Elements {
		if i > 0 {
			p.expect(',', "between tuple elements")
		}
		v := p.literal(e)
		l.Elements = append(l.Elements, v)
		l.Shape.Elements = append(l.Shape.Elements, v.Shape)
	}
	p.expect(')', "at the end of a tuple literal")
	return l
}

// maxLiteralBytes bounds the storage of all literals of a text that have more
// elements than the text names.
const maxLiteralBytes = 1 << 27

const elided = "the constant's value is elided ({...}): print the module with its large constants"

// firstElement reads an array literal without braces. As in XLA's parser, one
// number is the first element; the others are zero.
func (p *parser) firstElement(l *Literal) {
	if l.Shape.Elems() == 0 {
		p.expected("braces")
	}
	l.Raw = p.zeros(l.Shape)
	p.element(l, 0)
}

// zeros is the storage of an array whose text need not name every element.
func (p *parser) zeros(s *Shape) []byte {
	each := int64(s.Type.Bytes())
	n := s.Elems()
	if n > p.spareBytes/each {
		p.fail(p.tok.pos, "the text names too few of the elements of %v", s)
	}
	p.spareBytes -= n * each
	return make([]byte, n*each)
}

// arrayLiteral reads nested braces with one level per dimension.
func (p *parser) arrayLiteral(l *Literal) {
	s := l.Shape
	dims := s.Dims
	if l.DynamicSizes != nil {
		dims = make([]int64, len(s.Dims))
		for i, n := range l.DynamicSizes {
			dims[i] = int64(n)
		}
	}
	for _, d := range dims {
		if d < 0 {
			p.fail(p.tok.pos, "a literal of the unbounded shape %v is not possible", s)
		}
	}
	if p.tok.kind == '{' && p.peek() == tokDots {
		p.next()
		p.fail(p.tok.pos, elided)
	}
	if p.tok.kind != '{' && len(dims) > 0 && l.DynamicSizes == nil {
		p.firstElement(l)
		return
	}
	// Each element takes a character at least: no storage before the text is
	// known to be long enough.
	rest := int64(len(p.src) - p.tok.pos)
	n := (&Shape{Type: s.Type, Dims: dims}).Elems()
	total := s.Elems()
	if n > rest {
		p.fail(p.tok.pos, "expected %d elements of %v, found the text to end before", n, s)
	}
	if l.DynamicSizes != nil {
		l.Raw = p.zeros(s)
	} else {
		l.Raw = make([]byte, total*int64(s.Type.Bytes()))
	}

	// stride[i] is the distance in elements between neighbours in dimension i.
	stride := make([]int64, len(dims))
	for i, acc := len(dims)-1, int64(1); i >= 0; i-- {
		stride[i] = acc
		acc *= max(s.Dims[i], 1)
	}
	seen := make([]int64, len(dims)) // elements or sub-arrays in the open brace of each level
	level, index := 0, int64(0)
	count := func(level int) {
		if seen[level] == dims[level] {
			p.fail(p.tok.pos, "expected %d elements in dimension %d of %v, found more", dims[level], level, s)
		}
		seen[level]++
	}
	if total == 0 && p.tok.kind == '{' && p.peek() == '}' && len(dims) > 1 && dims[0] > 0 {
		p.next() // the short form of a huge empty array
		p.next()
		return
	}
	for {
		switch p.tok.kind {
		case '{':
			if level == len(dims) {
				p.fail(p.tok.pos, "expected %d levels of braces for %v, found more", len(dims), s)
			}
			if level > 0 {
				count(level - 1)
			}
			level++
			p.next()
		case '}':
			if level == 0 {
				p.expected("a value of " + s.Type.String())
			}
			level--
			if seen[level] != dims[level] {
				p.fail(p.tok.pos, "expected %d elements in dimension %d of %v, found %d", dims[level], level, s, seen[level])
			}
			seen[level] = 0
			p.next()
		case tokDots:
			p.fail(p.tok.pos, elided)
		case ',':
			if level == 0 {
				p.expected("a value of " + s.Type.String())
			}
			p.next()
		default:
			if level != len(dims) {
				p.fail(p.tok.pos, "expected %d levels of braces for %v, found %d", len(dims), s, level)
			}
			at := index
			if level > 0 {
				count(level - 1)
			}
			if l.DynamicSizes != nil {
				at = 0
				for i := range seen {
					at += (seen[i] - 1) * stride[i]
				}
			}
			p.element(l, at)
			index++
		}
		if level == 0 {
			return
		}
	}
}

// element reads one element and stores it.
func (p *parser) element(l *Literal, i int64) {
	t := l.Shape.Type
	pos := p.tok.pos
	switch t.kind() {
	case kindPred:
		switch {
		case p.tok.kind == tokKeyword && (p.tok.text == "true" || p.tok.text == "false"):
			if p.tok.text == "true" {
				l.Raw[i] = 1
			}
			p.next()
		default:
			if p.int("true, false or an integer") != 0 {
				l.Raw[i] = 1
			}
		}
	case kindSigned, kindUnsigned:
		v := p.int("an integer of type " + t.String())
		// A 64-bit number is read as its bit pattern, as XLA does.
		if t.Bits() < 64 && t.Canonical(v) != v {
			p.fail(pos, "value %d is out of range for %v", v, t)
		}
		l.SetInt(i, v)
	case kindFloat:
		l.SetBits(i, p.floatBits(t))
	case kindComplex:
		p.expect('(', "before a complex number")
		re := p.floatBits(t.Real())
		p.expect(',', "between the parts of a complex number")
		im := p.floatBits(t.Real())
		p.expect(')', "behind a complex number")
		if t == C64 {
			binary.LittleEndian.PutUint32(l.Raw[8*i:], uint32(re))
			binary.LittleEndian.PutUint32(l.Raw[8*i+4:], uint32(im))
		} else {
			binary.LittleEndian.PutUint64(l.Raw[16*i:], re)
			binary.LittleEndian.PutUint64(l.Raw[16*i+8:], im)
		}
	}
}

// floatBits reads a number and encodes it as XLA does: decimal to f64, f64 to
// the type (f16 and bf16 by way of f32, Eigen's conversion).
func (p *parser) floatBits(t PrimitiveType) uint64 {
	f := t.Format()
	pos := p.tok.pos
	v := p.float("a number of type " + t.String())
	if v != v {
		bits := math.Float64bits(v)
		payload := bits & (1<<52 - 1)
		quiet := payload == 1<<51
		switch {
		case quiet:
			return f.Bits(v)
		case !f.IEEE:
			p.fail(pos, "%v has no NaN payloads", t)
		case payload >= 1<<f.MantissaBits:
			p.fail(pos, "NaN payload 0x%x is out of range for %v", payload, t)
		}
		return bits>>63<<(f.ExponentBits+f.MantissaBits) | (1<<f.ExponentBits-1)<<f.MantissaBits | payload
	}
	r := v
	if t == F16 || t == BF16 {
		r = float64(float32(v))
	}
	r = f.Round(r)
	if !math.IsInf(v, 0) && (math.IsInf(r, 0) || r != r) {
		p.fail(pos, "value %v is out of range for %v", v, t)
	}
	return f.Bits(r)
}

// float reads a number, inf, -inf or nan.
func (p *parser) float(what string) float64 {
	var v float64
	switch {
	case p.tok.kind == tokDecimal:
		v = p.tok.f
	case p.tok.kind == tokInt && p.tok.wide:
		v = float64(uint64(p.tok.i))
	case p.tok.kind == tokInt && p.tok.i == 0 && p.tok.text[0] == '-':
		v = math.Copysign(0, -1) // XLA prints -0.0 as "-0"
	case p.tok.kind == tokInt:
		v = float64(p.tok.i)
	case p.tok.kind == tokNegInf:
		v = math.Inf(-1)
	case p.tok.kind == tokKeyword && p.tok.text == "inf":
		v = math.Inf(1)
	default:
		p.expected(what)
	}
	p.next()
	return v
}

// String is the literal in HLO text, shape (without layout) and value; the
// value has all its bits.
func (l *Literal) String() string {
	b := l.Shape.appendText(nil, false)
	if l.DynamicSizes == nil {
		b = append(b, ' ')
	}
	return string(l.AppendValue(b))
}

// AppendValue appends the value without its shape, as it stands in
// `constant(...)`: nested braces, tuples in parentheses, run-time sizes of a
// dynamic shape in parentheses before the braces.
func (l *Literal) AppendValue(b []byte) []byte {
	s := l.Shape
	switch {
	case s.IsTuple():
		b = append(b, '(')
		for i, e := range l.Elements {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = e.AppendValue(b)
		}
		return append(b, ')')
	case !s.IsArray():
		return append(b, s.Type.String()...)
	}
	dims := s.Dims
	if l.DynamicSizes != nil {
		b = append(b, '(')
		b = appendInts(b, l.DynamicSizes, ",")
		b = append(b, ") "...)
		dims = make([]int64, len(s.Dims))
		for i := range dims {
			dims[i] = int64(l.DynamicSizes[i])
		}
	}
	braces := int64(1)
	for _, d := range dims {
		if d == 0 {
			break
		}
		if braces > maxEmptyBraces/d {
			braces = maxEmptyBraces + 1
			break
		}
		braces *= d
	}
	if braces > maxEmptyBraces && s.Elems() == 0 {
		return append(b, "{}"...)
	}
	return l.appendNested(b, dims, 0, 0)
}

// maxEmptyBraces is how many braces the text of an array without elements may
// have; beyond it is written `{}`.
const maxEmptyBraces = 1 << 16

func (l *Literal) appendNested(b []byte, dims []int64, dim int, base int64) []byte {
	if dim == len(dims) {
		return l.AppendElement(b, base)
	}
	stride := int64(1)
	for _, d := range l.Shape.Dims[dim+1:] {
		stride *= max(d, 1)
	}
	b = append(b, '{')
	for i := range dims[dim] {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = l.appendNested(b, dims, dim+1, base+i*stride)
	}
	return append(b, '}')
}

// AppendElement appends element i of an array (row-major index). Predicates
// are 1 and 0 inside arrays, true and false as scalars.
func (l *Literal) AppendElement(b []byte, i int64) []byte {
	t := l.Shape.Type
	switch t.kind() {
	case kindPred:
		switch {
		case len(l.Shape.Dims) > 0:
			return append(b, '0'+min(l.Raw[i], 1))
		case l.Raw[i] != 0:
			return append(b, "true"...)
		}
		return append(b, "false"...)
	case kindSigned:
		return strconv.AppendInt(b, l.Int(i), 10)
	case kindUnsigned:
		return strconv.AppendUint(b, uint64(l.Int(i)), 10)
	case kindFloat:
		return appendFloat(b, t, l.Bits(i))
	case kindComplex:
		n := int64(t.Bytes() / 2)
		part := func(at int64) uint64 {
			if t == C64 {
				return uint64(binary.LittleEndian.Uint32(l.Raw[at:]))
			}
			return binary.LittleEndian.Uint64(l.Raw[at:])
		}
		b = append(b, '(')
		b = appendFloat(b, t.Real(), part(2*n*i))
		b = append(b, ", "...)
		b = appendFloat(b, t.Real(), part(2*n*i+n))
		return append(b, ')')
	}
	return b
}

// appendFloat appends the shortest text that reads back as the same bits.
func appendFloat(b []byte, t PrimitiveType, bits uint64) []byte {
	f := t.Format()
	v := f.FromBits(bits)
	switch {
	case v != v:
		if bits>>(f.ExponentBits+f.MantissaBits)&1 == 1 && (f.IEEE || f.NegZero) {
			b = append(b, '-')
		}
		b = append(b, "nan"...)
		if m := bits & (1<<f.MantissaBits - 1); f.IEEE && m != 1<<(f.MantissaBits-1) {
			b = append(b, "(0x"...)
			b = strconv.AppendUint(b, m, 16)
			b = append(b, ')')
		}
		return b
	case math.IsInf(v, 1):
		return append(b, "inf"...)
	case math.IsInf(v, -1):
		return append(b, "-inf"...)
	case v == 0 && math.Signbit(v):
		return append(b, "-0.0"...)
	case t == F64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case t == F32:
		return strconv.AppendFloat(b, v, 'g', -1, 32)
	}
	for prec := 1; ; prec++ {
		s := strconv.FormatFloat(v, 'g', prec, 64)
		if r, _ := strconv.ParseFloat(s, 64); prec >= 17 || f.Bits(float64(float32(r))) == bits {
			return append(b, s...)
		}
	}
}
