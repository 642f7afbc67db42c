package hlo

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/passgate/passgate/hlo/hlopb"
)

// SyntaxError is a complaint about HLO text, with its place.
type SyntaxError struct {
	File         string
	Line, Column int // from 1; Column counts bytes
	Msg          string
}

// Error is "file:line:column: message".
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// Parse reads a module in HLO text. file is its name in errors.
//
// The grammar and the meaning are those of XLA's parser
// (xla/hlo/parser/hlo_parser.cc), which the result follows where the text
// leaves something open: arrays without a layout get the default one, absent
// result shapes are inferred, instructions and computations get names that
// are unique in the module, nested instructions get names and compact
// get-tuple-elements (`%t#0#1`) instructions of their own, the entry layout is
// that of the parameters and the root, precision and comparison type get their
// defaults, shardings their normal form. A text without the HloModule header
// is a list of computations or one instruction.
//
// Where XLA's parser loses what the text says, this one does not: elided
// constants `{...}`, which XLA fills with numbers of its own, are refused; `-0`
// as a floating-point number is minus zero; the imaginary part of a complex
// number is its own where the real part is NaN; integers beyond 63 bits are
// themselves as floating-point numbers; sparse dimension types of layouts are
// kept; and an asynchronous instruction's metadata replaces that of the
// wrapped one only where the latter's text has none.
//
// Parse checks what XLA's parser checks; Verify checks the module. Errors are
// *SyntaxError.
func Parse(file string, text []byte) (m *Module, err error) {
	p := newParser(file, string(text))
	defer p.recover(&err)
	p.next()
	p.module()
	return p.m, nil
}

// maxDepth bounds the nesting of anything in HLO text (XLA's limit).
const maxDepth = 8192

// parser is a recursive-descent parser. Its methods stop at the first error
// by panicking with a *SyntaxError, which the entry points turn into their
// result.
type parser struct {
	lexer
	file  string
	m     *Module
	depth int

	comps     map[string]*Computation
	scope     *scope
	anonymous nameUniquer // names for nested instructions
	// spare is how many nodes that the text does not spell out may still be
	// made: a chain of tuples can double in size with every line.
	spare int64
	// spareBytes are left for elements of literals that the text does not name.
	spareBytes int64
	chains     asyncChains
	// threads are the computations whose callees all run in a thread.
	threads map[*Computation]string
	// rootAttrs are the attributes that the text of a root has.
	rootAttrs map[*Computation][]string
	// single is set while the text is one instruction: unknown operands become
	// parameters.
	single bool
}

// scope is the computation that is being read.
type scope struct {
	comp   *Computation
	names  map[string]*Instruction
	params map[int64]bool
	said   map[*Instruction][]string // attributes in the text
	outer  *scope
}

func newParser(file, text string) *parser {
	return &parser{
		lexer: lexer{src: text}, file: file, m: NewModule(""),
		comps: map[string]*Computation{}, anonymous: nameUniquer{}, threads: map[*Computation]string{},
		spareBytes: maxLiteralBytes, chains: asyncChains{},
		rootAttrs: map[*Computation][]string{},
		spare:     maxInferredShapes + int64(len(text)),
	}
}

// maxInferredShapes bounds the memory of what the text does not spell out,
// beyond a share that grows with the text.
const maxInferredShapes = 1 << 17

// recover turns the panic of fail into an error.
func (p *parser) recover(err *error) {
	if r := recover(); r != nil {
		e, ok := r.(*SyntaxError)
		if !ok {
			panic(r)
		}
		*err = e
	}
}

// fail stops the parser with a complaint about the text at offset pos.
func (p *parser) fail(pos int, format string, args ...any) {
	pos = min(pos, len(p.src))
	line := 1 + strings.Count(p.src[:pos], "\n")
	col := pos - strings.LastIndexByte(p.src[:pos], '\n')
	panic(&SyntaxError{File: p.file, Line: line, Column: col, Msg: fmt.Sprintf(format, args...)})
}

// expected stops the parser at the current token.
func (p *parser) expected(what string) {
	if p.tok.kind == tokBad {
		p.fail(p.tok.pos, "expected %s: %s", what, p.tok.text)
	}
	p.fail(p.tok.pos, "expected %s, found %s", what, p.describe())
}

// describe is the current token in words.
func (p *parser) describe() string {
	switch p.tok.kind {
	case tokEOF:
		return "the end of the text"
	case tokString:
		return "a string"
	}
	text := p.src[p.tok.pos:p.end]
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	return fmt.Sprintf("%q", text)
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.tok.pos, "nesting is deeper than %d levels", maxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

// eat skips the current token if it is of the given kind.
func (p *parser) eat(k tokKind) bool {
	if p.tok.kind != k {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(k tokKind, where string) {
	if p.tok.kind != k {
		p.expected(k.String() + " " + where)
	}
	p.next()
}

func (p *parser) wantEOF(what string) {
	if p.tok.kind != tokEOF {
		p.expected("the end of the " + what)
	}
}

func (p *parser) atKeyword(k string) bool { return p.tok.kind == tokKeyword && p.tok.text == k }

func (p *parser) eatKeyword(k string) bool {
	if !p.atKeyword(k) {
		return false
	}
	p.next()
	return true
}

// list reads items separated by commas between two tokens.
func (p *parser) list(open, end tokKind, what string, item func()) {
	p.expect(open, "to start "+what)
	if p.tok.kind != end {
		for {
			item()
			if !p.eat(',') {
				break
			}
		}
	}
	p.expect(end, "at the end of "+what)
}

func (p *parser) int(what string) int64 {
	if p.tok.kind != tokInt {
		p.expected(what)
	}
	v := p.tok.i
	p.next()
	return v
}

func (p *parser) int32(what string) int32 {
	pos := p.tok.pos
	v := p.int(what)
	if v != int64(int32(v)) {
		p.fail(pos, "%d is out of range for 32 bits", v)
	}
	return int32(v)
}

func (p *parser) bool(what string) bool {
	v := p.atKeyword("true")
	if !v && !p.atKeyword("false") {
		p.expected("true or false for " + what)
	}
	p.next()
	return v
}

// ints reads {1,2,3}.
func (p *parser) ints(what string) []int64 {
	v := []int64{}
	p.list('{', '}', what, func() { v = append(v, p.int("an integer")) })
	return v
}

// name reads an identifier or a name.
func (p *parser) name(what string) string {
	if p.tok.kind != tokIdent && p.tok.kind != tokName {
		p.expected(what)
	}
	s := p.tok.text
	p.next()
	return s
}

// oneOf reads an identifier that is one of the given words and returns its
// index.
func (p *parser) oneOf(what string, words ...string) int {
	i := slices.Index(words, p.tok.text)
	if p.tok.kind != tokIdent || i < 0 {
		p.expected(what + " (" + strings.Join(words, ", ") + ")")
	}
	p.next()
	return i
}

// oneOfFold is oneOf for words in any case.
func (p *parser) oneOfFold(what string, words ...string) int {
	i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, p.tok.text) })
	if p.tok.kind != tokIdent || i < 0 {
		p.expected(what + " (" + strings.Join(words, ", ") + ")")
	}
	p.next()
	return i
}

func (p *parser) attrName(what string) string {
	if p.tok.kind != tokAttr {
		p.expected(what + " like name=")
	}
	s := p.tok.text
	p.next()
	return s
}

// bytes reads a string of any bytes.
func (p *parser) bytes(what string) string {
	if p.tok.kind != tokString {
		p.expected("a string for " + what)
	}
	s := p.tok.text
	p.next()
	return s
}

// string reads a string for a field of the wire that holds UTF-8.
func (p *parser) string(what string) string {
	pos := p.tok.pos
	s := p.bytes(what)
	if !utf8.ValidString(s) {
		p.fail(pos, "expected valid UTF-8 for %s", what)
	}
	return s
}

// stringOrJSON reads a string or a JSON object, which is kept as written.
func (p *parser) stringOrJSON(what string) string {
	if p.tok.kind == '{' && !p.json() {
		p.expected("a JSON object that ends")
	}
	return p.bytes(what)
}

// module reads a module, with or without its header, or one instruction.
func (p *parser) module() {
	switch {
	case p.atKeyword("HloModule"):
		p.next()
		p.m.Name = p.name("a module name")
		p.header()
		p.stackFrames()
		p.computations()
	case p.atKeyword("ENTRY"), p.peek() == '{':
		p.stackFrames()
		p.computations()
		p.m.Name = "module_" + p.m.Entry.Name
	default:
		p.singleInstruction()
	}
	p.m.UniquifyNames()
	p.m.canonicalFrames()
	p.finish()
}

// computations reads the computations up to the end of the text.
func (p *parser) computations() {
	for {
		p.computation()
		if p.tok.kind == tokEOF {
			break
		}
	}
	if p.m.Entry == nil {
		p.m.Entry = p.m.Computations[len(p.m.Computations)-1]
	}
}

// computation ::= 'ENTRY'? name ('(' params ')' '->' shape)? instructions
// (',' 'execution_thread=' string)?
func (p *parser) computation() {
	entryPos := p.tok.pos
	entry := p.eatKeyword("ENTRY")
	namePos := p.tok.pos
	name := p.name("a computation name")
	var result *Shape
	resultPos := 0
	if p.tok.kind == '(' {
		p.list('(', ')', "parameters", func() {
			p.name("a parameter name")
			p.shape()
		})
		p.expect(tokArrow, "before the result shape")
		resultPos = p.tok.pos
		result = p.shape()
	}
	c := p.instructions(name)
	if result != nil && !result.Compatible(c.Root.Shape) {
		p.fail(resultPos, "result shape %v of computation %s is not that of its root %s, %v", result, name, c.Root.Name, c.Root.Shape)
	}
	for seen := false; p.eat(','); seen = true {
		pos := p.tok.pos
		if a := p.attrName("an attribute"); a != "execution_thread" || seen {
			p.fail(pos, "expected execution_thread= once, found %s=", a)
		}
		if c.ExecutionThread = p.string("execution_thread"); c.ExecutionThread == mainThread {
			c.ExecutionThread = ""
		}
	}
	if entry {
		if p.m.Entry != nil {
			p.fail(entryPos, "expected only one ENTRY")
		}
		p.m.Entry = c
	}
	if p.comps[name] != nil {
		p.fail(namePos, "computation %s already exists", name)
	}
	p.comps[name] = c
}

// mainThread is the name that the text may give to the main thread.
const mainThread = "main"

// instructions reads '{' instruction+ '}' as a computation and adds it to the
// module.
func (p *parser) instructions(name string) *Computation {
	p.enter()
	defer p.leave()
	p.expect('{', "to start the instructions of a computation")
	c := p.openScope(name)
	var root *Instruction
	for {
		rootPos := p.tok.pos
		isRoot := p.eatKeyword("ROOT")
		if isRoot && root != nil {
			p.fail(rootPos, "expected only one ROOT in a computation")
		}
		in := p.instruction()
		if isRoot {
			root = in
		}
		if p.tok.kind == '}' {
			break
		}
	}
	p.next()
	if root == nil {
		root = c.Instructions[len(c.Instructions)-1]
	}
	c.Root = root
	p.rootAttrs[c] = p.scope.said[root]
	p.closeScope()
	return c
}

func (p *parser) openScope(name string) *Computation {
	c := NewComputation(name)
	p.scope = &scope{comp: c, names: map[string]*Instruction{}, params: map[int64]bool{}, said: map[*Instruction][]string{}, outer: p.scope}
	return c
}

// closeScope checks the parameters of the computation and adds it to the
// module.
func (p *parser) closeScope() {
	for n := range int64(len(p.scope.params)) {
		if !p.scope.params[n] {
			p.fail(p.tok.pos, "computation %s has %d parameters but no parameter(%d)", p.scope.comp.Name, len(p.scope.params), n)
		}
	}
	p.m.Computations = append(p.m.Computations, p.scope.comp)
	p.scope = p.scope.outer
}

// instruction ::= name '=' rhs, after an optional ROOT.
func (p *parser) instruction() *Instruction {
	pos := p.tok.pos
	name := p.name("an instruction name")
	p.expect('=', "behind an instruction name")
	return p.rhs(name, pos, true)
}

// singleInstruction reads a text that is one instruction, with or without its
// name. Operands become parameters; those that have a shape only are numbered.
func (p *parser) singleInstruction() {
	c := p.openScope("_")
	p.m.Name = "_"
	p.single = true
	if p.atShape() {
		c.Root = p.rhs("_", p.tok.pos, true)
	} else {
		p.eatKeyword("ROOT")
		c.Root = p.instruction()
	}
	if p.tok.kind != tokEOF {
		p.expected("the end of the text behind a single instruction (is the HloModule header missing?)")
	}
	p.closeScope()
	p.m.Entry = c
	p.m.Scheduled = true
	// XLA names the entry first here.
	byName := *p.m
	byName.Computations = append([]*Computation{c}, p.m.Computations[:len(p.m.Computations)-1]...)
	byName.UniquifyNames()
}

// ownAsync reports whether an opcode has asynchronous forms of its own, so
// that `op-start` is no short form of async-start.
func ownAsync(op Opcode) bool {
	switch op {
	case OpAllGather, OpAllReduce, OpCollectivePermute, OpCopy, OpRecv, OpSend:
		return true
	}
	return false
}

// opcode reads an opcode. `add-start` and the like are async-start and so on;
// wrapped is then the opcode inside.
func (p *parser) opcode() (op, wrapped Opcode) {
	if p.tok.kind != tokIdent {
		p.expected("an opcode")
	}
	s := p.tok.text
	op, ok := OpcodeByName(s)
	if !ok {
		for _, async := range []Opcode{OpAsyncStart, OpAsyncUpdate, OpAsyncDone} {
			if base, found := strings.CutSuffix(s, strings.TrimPrefix(async.String(), "async")); found {
				op = async
				wrapped, ok = OpcodeByName(base)
				ok = ok && !ownAsync(wrapped)
			}
		}
	}
	if !ok {
		p.expected("an opcode")
	}
	p.next()
	return op, wrapped
}

// reading is an instruction whose text is being read.
type reading struct {
	*Instruction
	pos   int    // of its name or start
	given *Shape // nil: to be inferred
	seen  []string
	calls []call
}

// prepare makes what the attributes of the opcode expect.
func (r *reading) prepare() {
	if r.Op == OpRaggedDot {
		r.Attr.RaggedDotDimensionNumbers = &hlopb.RaggedDotDimensionNumbers{DotDimensionNumbers: &hlopb.DotDimensionNumbers{}}
	}
}

func (r *reading) has(attr string) bool { return slices.Contains(r.seen, attr) }

// rhs reads shape? opcode operands attributes.
func (p *parser) rhs(name string, pos int, attrs bool) *Instruction {
	p.enter()
	defer p.leave()
	var given *Shape
	if p.atShape() {
		given = p.shape()
	}
	opPos := p.tok.pos
	op, wrapped := p.opcode()
	if given == nil && !inferable(op) {
		p.fail(opPos, "expected a shape before %v, which has none by itself", op)
	}
	r := &reading{Instruction: NewInstruction("", op, nil), pos: pos, given: given}
	r.prepare()
	switch {
	case op == OpAsyncStart || op == OpAsyncUpdate || op == OpAsyncDone:
		p.async(r, wrapped, attrs)
	default:
		p.operands(r)
		p.attributes(r, opcodeAttrs[op], attrs)
		p.complete(r)
	}
	in := r.Instruction
	if name == "" {
		name = p.anonymous.unique(op.String() + ".anon")
	} else {
		p.anonymous.unique(name)
	}
	if SanitizeName(name) != name {
		p.fail(pos, "%q is no valid instruction name (%q is)", name, SanitizeName(name))
	}
	in.Name = name
	if p.scope.names[name] != nil {
		p.fail(pos, "instruction %s already exists", name)
	}
	p.scope.names[name] = in
	if len(r.seen) > 0 {
		p.scope.said[in] = r.seen
	}
	p.add(in)
	return in
}

func (p *parser) add(in *Instruction) {
	p.scope.comp.Instructions = append(p.scope.comp.Instructions, in)
}

// operands reads the parentheses behind the opcode.
func (p *parser) operands(r *reading) {
	p.enter()
	defer p.leave()
	switch r.Op {
	case OpParameter:
		p.expect('(', "before a parameter number")
		pos := p.tok.pos
		n := p.int("a parameter number")
		if n < 0 {
			p.fail(pos, "expected a parameter number, found %d", n)
		}
		if p.scope.params[n] {
			p.fail(pos, "parameter %d already exists", n)
		}
		p.scope.params[n] = true
		r.Attr.ParameterNumber = n
		p.expect(')', "behind a parameter number")
		return
	case OpConstant:
		p.expect('(', "before a constant")
		r.Literal = p.literal(r.given)
		r.given = r.Literal.Shape.Clone()
		p.expect(')', "behind a constant")
		return
	}
	pos := p.tok.pos
	p.list('(', ')', "operands", func() { r.Operands = append(r.Operands, p.operand()) })
	want := r.Op.Arity()
	if r.Op == OpTuple && r.given != nil {
		want = len(r.given.Elements)
	}
	if want != Variadic && len(r.Operands) != want {
		p.fail(pos, "%v expects %d operands, found %d", r.Op, want, len(r.Operands))
	}
}

// operand ::= shape? name ('#' int)* | shape? opcode operands
func (p *parser) operand() *Instruction {
	pos := p.tok.pos
	start := p.lexer
	var given *Shape
	if p.atShape() {
		given = p.shape()
	}
	if p.single && p.scope.outer == nil && given != nil && (p.tok.kind == ',' || p.tok.kind == ')') {
		return p.freeParameter("", given)
	}
	if p.tok.kind == tokIdent && p.peek() == '(' {
		p.lexer = start
		return p.rhs("", pos, false)
	}
	namePos := p.tok.pos
	name := p.name("an operand")
	if p.tok.kind == '#' {
		return p.compactElement(name, namePos, given)
	}
	in := p.scope.names[name]
	if in == nil && p.single && p.scope.outer == nil {
		if given == nil {
			p.fail(namePos, "operand %s of a single instruction has no shape", name)
		}
		return p.freeParameter(name, given)
	}
	return p.checkOperand(in, name, namePos, given)
}

func (p *parser) checkOperand(in *Instruction, name string, pos int, given *Shape) *Instruction {
	if in == nil {
		p.fail(pos, "instruction %s does not exist", name)
	}
	if given != nil && !given.Compatible(in.Shape) {
		p.fail(pos, "shape %v of the operand is not that of %s, %v", given, name, in.Shape)
	}
	return in
}

// freeParameter makes a parameter for an operand of a single instruction.
func (p *parser) freeParameter(name string, s *Shape) *Instruction {
	n := int64(len(p.scope.params))
	if name == "" {
		name = fmt.Sprintf("_%d", n)
	}
	in := NewInstruction(name, OpParameter, s)
	in.Attr.ParameterNumber = n
	p.scope.params[n] = true
	p.scope.names[name] = in
	p.add(in)
	return in
}

// compactElement reads the '#' int of `%t#0#1`. Each path has one
// get-tuple-element in its computation, made at its first use.
func (p *parser) compactElement(name string, pos int, given *Shape) *Instruction {
	in := p.checkOperand(p.scope.names[name], name, pos, nil)
	for p.tok.kind == '#' {
		p.next()
		indexPos := p.tok.pos
		i := p.int("a tuple index")
		if !in.Shape.IsTuple() || i < 0 || i >= int64(len(in.Shape.Elements)) {
			p.fail(indexPos, "%s of shape %v has no element %d", name, in.Shape, i)
		}
		name = fmt.Sprintf("%s#%d", name, i)
		element := p.scope.names[name]
		if element == nil {
			element = NewInstruction(SanitizeName(name), OpGetTupleElement, p.sized(in.Shape.Elements[i]), in)
			element.Attr.TupleIndex = i
			p.scope.names[name] = element
			p.add(element)
		}
		in = element
	}
	return p.checkOperand(in, name, pos, given)
}

// sized is a copy of a shape that the text does not spell out, whose size
// counts against the budget.
func (p *parser) sized(s *Shape) *Shape {
	if p.spare -= countShapes(s, p.spare); p.spare < 0 {
		p.fail(p.tok.pos, "inferred shapes are too large")
	}
	return s.Clone()
}

// countShapes counts the nodes of a shape, and stops soon beyond limit.
func countShapes(s *Shape, limit int64) int64 {
	n := int64(1 + len(s.Dims)/8)
	for _, e := range s.Elements {
		if n > limit {
			break
		}
		n += countShapes(e, limit-n)
	}
	return n
}

// attributes reads (',' attribute)*. Nested instructions have none.
func (p *parser) attributes(r *reading, allowed []attrUse, some bool) {
	p.attributesOf(func(name string) (*attribute, *reading) {
		if a := findAttr(allowed, name); a != nil {
			return a, r
		}
		return findAttr(commonAttrs, name), r
	}, r, allowed, some)
}

// attributesOf is attributes with a function that finds an attribute and the
// instruction that it belongs to. r is the one that needs the required ones.
func (p *parser) attributesOf(find func(name string) (*attribute, *reading), r *reading, allowed []attrUse, some bool) {
	for some && p.eat(',') {
		namePos := p.tok.pos
		name := p.attrName("an attribute")
		a, of := find(name)
		if a == nil {
			p.fail(namePos, "%v has no attribute %s (it has %s)", r.Op, name, attrNames(allowed))
		}
		if of.has(name) {
			p.fail(namePos, "attribute %s already exists", name)
		}
		of.seen = append(of.seen, name)
		a.parse(p, of)
	}
	for _, a := range allowed {
		if a.required && !r.has(a.name) {
			p.fail(r.pos, "%v needs attribute %s", r.Op, a.name)
		}
	}
}

// computationRef reads the name of a computation or a nested computation.
func (p *parser) computationRef() *Computation {
	p.enter()
	defer p.leave()
	if p.tok.kind == '{' {
		return p.instructions("_")
	}
	pos := p.tok.pos
	name := p.name("a computation")
	c := p.comps[name]
	if c == nil {
		p.fail(pos, "computation %s does not exist", name)
	}
	return c
}

// finish applies what depends on the whole module.
func (p *parser) finish() {
	async := map[*Computation]bool{}
	for _, c := range p.m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case OpFusion:
				in.Called[0].Attr.IsFusionComputation = true
			case OpAsyncStart:
				async[in.Called[0]] = true
			}
		}
	}
	for _, c := range p.m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case OpAsyncStart, OpAsyncUpdate, OpAsyncDone:
				continue
			}
			if i := slices.IndexFunc(in.Called, func(c *Computation) bool { return async[c] }); i >= 0 {
				p.fail(p.tok.pos, "computation %s of an async-start is also called by %s", in.Called[i].Name, in.Name)
			}
		}
	}
	if p.m.EntryLayout == nil {
		e := &ProgramShape{Result: p.m.Entry.Root.Shape.Clone()}
		for _, in := range p.m.Entry.Params() {
			e.Params = append(e.Params, in.Shape.Clone())
		}
		p.m.EntryLayout = e
	}
}
