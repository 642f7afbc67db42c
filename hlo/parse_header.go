package hlo

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/passgate/passgate/hlo/hlopb"
)

// header reads the attributes of HloModule.
func (p *parser) header() {
	seen := map[string]bool{}
	for p.eat(',') {
		pos := p.tok.pos
		name := p.attrName("a module attribute")
		if seen[name] {
			p.fail(pos, "attribute %s already exists", name)
		}
		seen[name] = true
		switch name {
		case "is_scheduled":
			p.m.Scheduled = p.bool(name)
		case "replica_count":
			p.m.ReplicaCount = p.int("a replica count")
		case "num_partitions":
			p.m.NumPartitions = p.int("a count of partitions")
		case "input_output_alias":
			p.inputOutputAlias()
		case "buffer_donor":
			p.bufferDonor()
		case "alias_passthrough_params":
			p.m.TextAttrs = append(p.m.TextAttrs, TextAttr{name, strconv.FormatBool(p.bool(name))})
		case "entry_computation_layout":
			p.m.EntryLayout = p.programShape()
		case "frontend_attributes":
			p.m.Attr.FrontendAttributes = p.frontendAttributes()
		case "allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output":
			v := ""
			if p.tok.kind == '{' {
				v = "{" + boolsText(p.bools(name)) + "}"
			} else {
				v = strconv.FormatBool(p.bool(name))
			}
			p.m.TextAttrs = append(p.m.TextAttrs, TextAttr{name, v})
		case "origin_recovery_table":
			p.recoveryTable()
		case "debug_attributes":
			p.debugAttributes()
		default:
			p.fail(pos, "a module has no attribute %s", name)
		}
	}
}

// inputOutputAlias reads { {0}: (1, {}, may-alias), ... }.
func (p *parser) inputOutputAlias() {
	a := &hlopb.HloInputOutputAliasProto{}
	p.list('{', '}', "aliasing", func() {
		e := &hlopb.HloInputOutputAliasProto_AliasEntryProto{Kind: hlopb.Kind_MAY_ALIAS}
		e.OutputShapeIndex = p.ints("an output index")
		p.expect(':', "behind an output index")
		p.expect('(', "before a parameter number")
		e.ParameterNumber = p.int("a parameter number")
		p.expect(',', "behind a parameter number")
		e.ParameterShapeIndex = p.ints("a parameter index")
		if p.eat(',') && p.oneOf("an alias kind", "may-alias", "must-alias") == 1 {
			e.Kind = hlopb.Kind_MUST_ALIAS
		}
		p.expect(')', "at the end of an alias")
		a.Entries = append(a.Entries, e)
	})
	slices.SortStableFunc(a.Entries, func(a, b *hlopb.HloInputOutputAliasProto_AliasEntryProto) int {
		return slices.Compare(a.OutputShapeIndex, b.OutputShapeIndex)
	})
	a.Entries = slices.CompactFunc(a.Entries, func(a, b *hlopb.HloInputOutputAliasProto_AliasEntryProto) bool {
		return slices.Equal(a.OutputShapeIndex, b.OutputShapeIndex) // the first counts
	})
	p.m.Attr.InputOutputAlias = a
}

// bufferDonor reads { (0, {}), ... }.
func (p *parser) bufferDonor() {
	d := &hlopb.HloBufferDonorProto{}
	p.list('{', '}', "buffer donors", func() {
		e := &hlopb.HloBufferDonorProto_BufferDonorEntryProto{}
		p.expect('(', "before a parameter number")
		e.ParameterNumber = p.int("a parameter number")
		p.expect(',', "behind a parameter number")
		e.ParameterShapeIndex = p.ints("a parameter index")
		p.expect(')', "at the end of a buffer donor")
		d.Entries = append(d.Entries, e)
	})
	order := func(a, b *hlopb.HloBufferDonorProto_BufferDonorEntryProto) int {
		if c := cmp.Compare(a.ParameterNumber, b.ParameterNumber); c != 0 {
			return c
		}
		return slices.Compare(a.ParameterShapeIndex, b.ParameterShapeIndex)
	}
	slices.SortFunc(d.Entries, order)
	d.Entries = slices.CompactFunc(d.Entries, func(a, b *hlopb.HloBufferDonorProto_BufferDonorEntryProto) bool { return order(a, b) == 0 })
	p.m.Attr.BufferDonor = d
}

// programShape reads {(shape, ...)->shape}.
func (p *parser) programShape() *ProgramShape {
	s := &ProgramShape{}
	p.expect('{', "to start a computation layout")
	p.list('(', ')', "parameter shapes", func() { s.Params = append(s.Params, p.shape()) })
	p.expect(tokArrow, "before the result shape")
	s.Result = p.shape()
	p.expect('}', "at the end of a computation layout")
	return s
}

// recoveryTable reads { {"old"} : {"new"}, "module" ... }.
func (p *parser) recoveryTable() {
	t := &hlopb.OriginalValueRecoveryTableProto{}
	seen := map[string]bool{}
	p.expect('{', "to start a recovery table")
	for p.tok.kind != '}' {
		e := &hlopb.OriginalValueRecoveryTableProto_Entry{OldOriginalArray: p.originalArray()}
		p.expect(':', "behind an original array")
		e.NewOriginalArray = p.originalArray()
		if p.eat(',') {
			pos := p.tok.pos
			e.RecoveryModule = p.recoveryModule(pos, p.bytes("a module"))
		}
		if old := originalArrayText(e.OldOriginalArray); !seen[old] { // the first counts
			seen[old] = true
			t.Entries = append(t.Entries, e)
		}
	}
	p.next()
	p.m.Attr.OriginalValueRecoveryTable = t
}

// recoveryModule parses the module in a string of a recovery table.
func (p *parser) recoveryModule(pos int, text string) *hlopb.HloModuleProto {
	p.enter()
	defer p.leave()
	m, err := parseNested(p, text)
	if err != nil {
		p.fail(pos, "the recovery module does not parse: %v", err)
	}
	pb, err := m.ToProto()
	if err != nil {
		p.fail(pos, "the recovery module is not valid: %v", err)
	}
	return pb
}

// parseNested parses a module inside another one: nesting and size count on.
func parseNested(outer *parser, text string) (m *Module, err error) {
	p := newParser("recovery module", text)
	p.depth, p.spare, p.spareBytes = outer.depth, outer.spare, outer.spareBytes
	defer func() { outer.spare, outer.spareBytes = p.spare, p.spareBytes }()
	defer p.recover(&err)
	p.next()
	p.module()
	return p.m, nil
}

// debugAttributes reads { {"array"}:({log_mode=default,op_id=1},...), ... }.
func (p *parser) debugAttributes() {
	p.list('{', '}', "debug attributes", func() {
		e := &hlopb.DebugAttributeTableEntryProto{OriginalArray: p.originalArray()}
		p.expect(':', "behind an original array")
		one := func() { e.DebugAttributes = append(e.DebugAttributes, p.debugAttribute()) }
		if p.tok.kind == '(' {
			p.list('(', ')', "debug attributes", one)
		} else {
			one()
		}
		p.m.Attr.DebugAttributes = append(p.m.Attr.DebugAttributes, e)
	})
}

func (p *parser) debugAttribute() *hlopb.DebugAttributesProto {
	d := &hlopb.DebugAttributesProto{}
	p.expect('{', "to start debug attributes")
	for {
		pos := p.tok.pos
		switch name := p.attrName("a debug attribute"); name {
		case "log_mode":
			d.LogMode = hlopb.DebugAttributesProto_DebugLogModeProto(1 + p.oneOf("a log mode", "default", "fusion_debugger"))
		case "callback_id":
			d.CallbackId = p.int(name)
		case "op_id":
			d.OpId = p.int(name)
		case "partitioned":
			d.Partitioned = p.bool(name)
		default:
			p.fail(pos, "debug attributes have no part %s (they have log_mode, callback_id, op_id, partitioned)", name)
		}
		if !p.eat(',') {
			break
		}
	}
	p.expect('}', "at the end of debug attributes")
	return d
}

// stackFrames reads the sections FileNames, FunctionNames, FileLocations and
// StackFrames, if they are there.
func (p *parser) stackFrames() {
	if !p.eatKeyword("FileNames") {
		return
	}
	x := &hlopb.StackFrameIndexProto{}
	section := func(name string) {
		if !p.eatKeyword(name) {
			p.expected(name)
		}
	}
	entries := func(read func()) {
		for p.eat(tokInt) {
			read()
		}
	}
	entries(func() { x.FileNames = append(x.FileNames, p.string("a file name")) })
	section("FunctionNames")
	entries(func() { x.FunctionNames = append(x.FunctionNames, p.string("a function name")) })
	section("FileLocations")
	num := func(name string, to *int32) func() { return func() { *to = p.int32(name) } }
	entries(func() {
		l := &hlopb.StackFrameIndexProto_FileLocation{}
		names := []string{"file_name_id", "function_name_id", "line", "end_line", "column", "end_column"}
		parts := map[string]func(){}
		for i, to := range []*int32{&l.FileNameId, &l.FunctionNameId, &l.Line, &l.EndLine, &l.Column, &l.EndColumn} {
			parts[names[i]] = num(names[i], to)
		}
		p.subAttrs("a file location", parts, names...)
		x.FileLocations = append(x.FileLocations, l)
	})
	section("StackFrames")
	entries(func() {
		f := &hlopb.StackFrameIndexProto_StackFrame{}
		p.subAttrs("a stack frame", map[string]func(){
			"file_location_id": num("file_location_id", &f.FileLocationId),
			"parent_frame_id":  num("parent_frame_id", &f.ParentFrameId),
		}, "file_location_id", "parent_frame_id")
		f.ParentFrameId-- // the text counts parents from 1
		x.StackFrames = append(x.StackFrames, f)
	})
	p.m.Attr.StackFrameIndex = x
}
