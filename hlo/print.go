package hlo

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/hlo/hlopb"
)

// PrintOptions choose what Print writes. The zero value is the long form:
// everything that HLO text can say, so that Parse gives the same module back.
type PrintOptions struct {
	// Canonical leaves out what does not change the program's meaning: the
	// names of the module, its computations and instructions, which are
	// numbered instead, the order of computations, of instructions (unless the
	// module is scheduled) and of header attributes without a place on the
	// wire, metadata, original values, the stack frame index and debug
	// attributes. Two modules that differ in those alone have the same
	// canonical text; the order of instructions that the root does not need
	// stays.
	Canonical bool
}

// String is the module in HLO text, long form.
func (m *Module) String() string {
	var b bytes.Buffer
	_ = m.Print(&b, PrintOptions{}) // a Buffer has no errors
	return b.String()
}

// Print writes the module in HLO text. The only errors are those of w.
func (m *Module) Print(w io.Writer, opts PrintOptions) error {
	pr := &printer{opts: opts}
	if opts.Canonical {
		pr.canonicalize(m)
	}
	pr.spellOut(m)
	pr.module(m)
	_, err := w.Write(pr.b)
	return err
}

// String is the computation in HLO text.
func (c *Computation) String() string {
	pr := &printer{}
	pr.computation(c, false)
	return string(pr.b)
}

// String is the instruction in HLO text, without ROOT.
func (in *Instruction) String() string {
	pr := &printer{}
	pr.instruction(in)
	return string(pr.b)
}

type printer struct {
	b    []byte
	opts PrintOptions
	// The canonical form: the order of the computations and of the
	// instructions of each, and the names; nil for the long form.
	order     []*Computation
	body      map[*Computation][]*Instruction
	compNames map[*Computation]string
	instNames map[*Instruction]string
	// explicit are attributes that a wrapped instruction must say although it
	// has none: Parse would give it those of the asynchronous one.
	explicit map[*Instruction][]string
}

func (pr *printer) put(s string) { pr.b = append(pr.b, s...) }

// spellOut finds the attributes in pr.explicit.
func (pr *printer) spellOut(m *Module) {
	pr.explicit = map[*Instruction][]string{}
	chains := asyncChains{}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case OpAsyncStart, OpAsyncUpdate, OpAsyncDone:
			default:
				continue
			}
			wrapped := chains.wrapped(in)
			if wrapped == nil || wrapped.Root == nil {
				continue
			}
			for _, name := range sharedWithWrapped {
				text := findAttr(commonAttrs, name).text
				if text(pr, in) != "" && text(pr, wrapped.Root) == "" {
					pr.explicit[wrapped.Root] = append(pr.explicit[wrapped.Root], name)
				}
			}
		}
	}
}

// canonicalize orders computations and instructions as follows from the
// graph and numbers them: callees before callers; parameters by number, then
// what the root needs, operands first, then the rest.
func (pr *printer) canonicalize(m *Module) {
	pr.body = map[*Computation][]*Instruction{}
	pr.compNames, pr.instNames = map[*Computation]string{}, map[*Instruction]string{}
	var visit func(c *Computation)
	visit = func(c *Computation) {
		if _, done := pr.body[c]; done {
			return
		}
		pr.body[c] = c.Instructions
		if !m.Scheduled {
			pr.body[c] = c.canonicalOrder()
		}
		for _, in := range pr.body[c] {
			for _, callee := range in.Called {
				visit(callee)
			}
		}
		pr.order = append(pr.order, c)
	}
	if m.Entry != nil {
		visit(m.Entry)
	}
	for _, c := range m.Computations {
		visit(c)
	}
	for _, c := range pr.order {
		pr.compNames[c] = "c" + strconv.Itoa(len(pr.compNames))
		for _, in := range pr.body[c] {
			pr.instNames[in] = "v" + strconv.Itoa(len(pr.instNames))
		}
	}
}

func (c *Computation) canonicalOrder() []*Instruction {
	out := make([]*Instruction, 0, len(c.Instructions))
	done := make(map[*Instruction]bool, len(c.Instructions))
	var visit func(in *Instruction)
	visit = func(in *Instruction) {
		if done[in] {
			return
		}
		done[in] = true
		for _, o := range in.Operands {
			visit(o)
		}
		for _, pre := range in.ControlPredecessors {
			visit(pre)
		}
		out = append(out, in)
	}
	for _, p := range c.Params() {
		if p != nil {
			visit(p)
		}
	}
	visit(c.Root)
	for _, in := range c.Instructions {
		visit(in)
	}
	return out
}

func (pr *printer) computationName(c *Computation) string {
	if n, ok := pr.compNames[c]; ok {
		return "%" + n
	}
	return "%" + c.Name
}

func (pr *printer) instructionName(in *Instruction) string {
	if n, ok := pr.instNames[in]; ok {
		return "%" + n
	}
	return "%" + in.Name
}

func (pr *printer) module(m *Module) {
	pr.put("HloModule ")
	pr.put(pr.moduleName(m.Name))
	attr := func(name, text string) {
		if text != "" {
			pr.put(", " + name + "=" + text)
		}
	}
	if m.Scheduled {
		attr("is_scheduled", "true")
	}
	attr("input_output_alias", inputOutputAliasText(m.Attr.InputOutputAlias))
	attr("buffer_donor", bufferDonorText(m.Attr.BufferDonor))
	if m.EntryLayout != nil {
		attr("entry_computation_layout", programShapeText(m.EntryLayout))
	}
	textAttrs := m.TextAttrs
	if pr.opts.Canonical {
		textAttrs = slices.SortedFunc(slices.Values(textAttrs), func(a, b TextAttr) int { return strings.Compare(a.Key, b.Key) })
	}
	for _, a := range textAttrs {
		attr(a.Key, a.Value)
	}
	if m.ReplicaCount != 0 {
		attr("replica_count", strconv.FormatInt(m.ReplicaCount, 10))
	}
	if m.NumPartitions != 0 {
		attr("num_partitions", strconv.FormatInt(m.NumPartitions, 10))
	}
	attr("frontend_attributes", frontendAttributesText(m.Attr.FrontendAttributes))
	if !pr.opts.Canonical {
		attr("origin_recovery_table", recoveryTableText(m.Attr.OriginalValueRecoveryTable))
		attr("debug_attributes", debugAttributesText(m.Attr.DebugAttributes))
		pr.stackFrames(m.Attr.StackFrameIndex)
	}
	pr.put("\n")
	comps := m.Computations
	if pr.opts.Canonical {
		comps = pr.order
	}
	for _, c := range comps {
		pr.put("\n")
		pr.computation(c, c == m.Entry)
		pr.put("\n")
	}
}

// moduleName is a module's name as the text can hold it.
func (pr *printer) moduleName(name string) string {
	if pr.opts.Canonical || name == "" {
		return "m"
	}
	l := lexer{src: name}
	l.next()
	if l.tok.kind == tokIdent && l.end == len(name) {
		return name
	}
	l = lexer{src: "%" + name}
	l.next()
	if l.tok.kind == tokName && l.end == len(l.src) {
		return l.src // a word of its own meaning
	}
	return SanitizeName(name)
}

func inputOutputAliasText(a *hlopb.HloInputOutputAliasProto) string {
	var items []string
	for _, e := range a.GetEntries() {
		kind := "may-alias"
		if e.Kind == hlopb.Kind_MUST_ALIAS {
			kind = "must-alias"
		}
		items = append(items, fmt.Sprintf("%s: (%d, %s, %s)", braced(e.OutputShapeIndex), e.ParameterNumber, braced(e.ParameterShapeIndex), kind))
	}
	return inBraces(items)
}

func bufferDonorText(d *hlopb.HloBufferDonorProto) string {
	var items []string
	for _, e := range d.GetEntries() {
		items = append(items, fmt.Sprintf("(%d, %s)", e.ParameterNumber, braced(e.ParameterShapeIndex)))
	}
	return inBraces(items)
}

// inBraces joins items; without any it is "".
func inBraces(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "{ " + strings.Join(items, ", ") + " }"
}

func programShapeText(s *ProgramShape) string {
	b := []byte("{(")
	for i, p := range s.Params {
		if i > 0 {
			b = appendIndexed(b, i)
		}
		b = p.appendText(b, true)
	}
	b = append(b, ")->"...)
	return string(append(s.Result.appendText(b, true), '}'))
}

func recoveryTableText(t *hlopb.OriginalValueRecoveryTableProto) string {
	var items []string
	for _, e := range t.GetEntries() {
		item := originalArrayText(e.OldOriginalArray) + " : " + originalArrayText(e.NewOriginalArray)
		if e.RecoveryModule != nil {
			if m, err := FromProto(e.RecoveryModule); err == nil {
				item += ", " + quoted(m.String())
			}
		}
		items = append(items, item)
	}
	if items == nil {
		return ""
	}
	return "{ " + strings.Join(items, " ") + " }"
}

func debugAttributesText(entries []*hlopb.DebugAttributeTableEntryProto) string {
	var items []string
	for _, e := range entries {
		var ds []string
		for _, d := range e.DebugAttributes {
			var parts []string
			switch d.LogMode {
			case hlopb.DebugAttributesProto_DEFAULT:
				parts = append(parts, "log_mode=default")
			case hlopb.DebugAttributesProto_FUSION_DEBUGGER:
				parts = append(parts, "log_mode=fusion_debugger")
			}
			parts = append(parts, fmt.Sprintf("callback_id=%d", d.CallbackId), fmt.Sprintf("op_id=%d", d.OpId))
			if d.Partitioned {
				parts = append(parts, "partitioned=true")
			}
			ds = append(ds, "{"+strings.Join(parts, ",")+"}")
		}
		items = append(items, originalArrayText(e.OriginalArray)+":("+strings.Join(ds, ",")+")")
	}
	return inBraces(items)
}

func (pr *printer) stackFrames(x *hlopb.StackFrameIndexProto) {
	if len(x.GetFileNames())+len(x.GetFunctionNames())+len(x.GetFileLocations())+len(x.GetStackFrames()) == 0 {
		return
	}
	pr.put("\n\nFileNames\n")
	for i, n := range x.FileNames {
		pr.b = fmt.Appendf(pr.b, "%d %s\n", i+1, quoted(n))
	}
	pr.put("\nFunctionNames\n")
	for i, n := range x.FunctionNames {
		pr.b = fmt.Appendf(pr.b, "%d %s\n", i+1, quoted(n))
	}
	pr.put("\nFileLocations\n")
	for i, l := range x.FileLocations {
		pr.b = fmt.Appendf(pr.b, "%d {file_name_id=%d function_name_id=%d line=%d end_line=%d column=%d end_column=%d}\n",
			i+1, l.FileNameId, l.FunctionNameId, l.Line, l.EndLine, l.Column, l.EndColumn)
	}
	pr.put("\nStackFrames\n")
	for i, f := range x.StackFrames {
		pr.b = fmt.Appendf(pr.b, "%d {file_location_id=%d parent_frame_id=%d}\n", i+1, f.FileLocationId, f.ParentFrameId+1)
	}
}

func (pr *printer) computation(c *Computation, entry bool) {
	if entry {
		pr.put("ENTRY ")
	}
	pr.put(pr.computationName(c))
	if c.Root != nil {
		pr.put(" (")
		for i, in := range c.Params() {
			if i > 0 {
				pr.put(", ")
			}
			if in != nil {
				pr.put(pr.instructionName(in)[1:] + ": ")
				pr.b = in.Shape.appendText(pr.b, false)
			}
		}
		pr.put(") -> ")
		pr.b = c.Root.Shape.appendText(pr.b, false)
	}
	pr.put(" {\n")
	body, ok := pr.body[c]
	if !ok {
		body = c.Instructions
	}
	for _, in := range body {
		pr.put("  ")
		if in == c.Root {
			pr.put("ROOT ")
		}
		pr.instruction(in)
		pr.put("\n")
	}
	pr.put("}")
	if c.ExecutionThread != "" {
		pr.put(", execution_thread=" + quoted(c.ExecutionThread))
	}
}

func (pr *printer) instruction(in *Instruction) {
	pr.put(pr.instructionName(in))
	pr.put(" = ")
	if in.Shape != nil {
		pr.b = in.Shape.appendText(pr.b, true)
		pr.put(" ")
	}
	pr.put(in.Op.String())
	pr.put("(")
	switch {
	case in.Op == OpParameter:
		pr.b = strconv.AppendInt(pr.b, in.Attr.ParameterNumber, 10)
	case in.Op == OpConstant && in.Literal != nil:
		pr.b = in.Literal.AppendValue(pr.b)
	default:
		for i, o := range in.Operands {
			if i > 0 {
				pr.b = appendIndexed(pr.b, i)
			}
			pr.put(pr.instructionName(o))
		}
	}
	pr.put(")")
	for _, a := range opcodeAttrs[in.Op] {
		pr.attr(a, in)
	}
	for _, a := range commonAttrs {
		pr.attr(a, in)
	}
}

// emptyText says that an instruction has none of sharedWithWrapped.
func emptyText(name string) string {
	if name == "backend_config" {
		return `""`
	}
	return "{}"
}

func (pr *printer) attr(a attrUse, in *Instruction) {
	text := a.text(pr, in)
	if text == "" && slices.Contains(pr.explicit[in], a.name) {
		text = emptyText(a.name)
	}
	zero := text == "0" || text == "false" || text == "{}"
	if text == "" || zero && a.optional && !a.required && !a.always {
		return
	}
	pr.put(", " + a.name + "=" + text)
}
