package hlo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/hlo/hlopb"
)

// sharedAttrs are the attributes that every opcode has.
func sharedAttrs() []keyed {
	return []keyed{
		{"sharding", attribute{
			parse: func(p *parser, r *reading) { r.Attr.Sharding = p.sharding() },
			text: func(pr *printer, in *Instruction) string {
				if in.Attr.Sharding == nil {
					return ""
				}
				return pr.shardingText(in.Attr.Sharding)
			},
		}},
		{"frontend_attributes", attribute{
			parse: func(p *parser, r *reading) { r.Attr.FrontendAttributes = p.frontendAttributes() },
			text: func(_ *printer, in *Instruction) string {
				return frontendAttributesText(in.Attr.FrontendAttributes)
			},
		}},
		{"control-predecessors", attribute{
			parse: func(p *parser, r *reading) {
				seen := map[*Instruction]bool{}
				p.list('{', '}', "instruction names", func() {
					pos := p.tok.pos
					name := p.name("an instruction name")
					pre := p.scope.names[name]
					if pre == nil {
						p.fail(pos, "instruction %s does not exist", name)
					}
					if !seen[pre] {
						seen[pre] = true
						r.ControlPredecessors = append(r.ControlPredecessors, pre)
					}
				})
			},
			text: func(pr *printer, in *Instruction) string {
				if len(in.ControlPredecessors) == 0 {
					return ""
				}
				var names []string
				for _, pre := range in.ControlPredecessors {
					names = append(names, pr.instructionName(pre))
				}
				return "{" + strings.Join(names, ", ") + "}"
			},
		}},
		{"parameter_replication", attribute{
			parse: func(p *parser, r *reading) {
				r.Attr.ParameterReplication = &hlopb.ParameterReplication{ReplicatedAtLeafBuffers: p.bools("parameter replication")}
			},
			text: func(_ *printer, in *Instruction) string {
				if in.Attr.ParameterReplication == nil {
					return ""
				}
				return "{" + boolsText(in.Attr.ParameterReplication.ReplicatedAtLeafBuffers) + "}"
			},
		}},
		{"statistics", attribute{
			parse: func(p *parser, r *reading) { r.Attr.StatisticsViz = p.statistics() },
			text: func(_ *printer, in *Instruction) string {
				v := in.Attr.StatisticsViz
				if len(v.GetStatistics()) == 0 && v.GetStatIndexToVisualize() == 0 {
					return ""
				}
				b := fmt.Appendf(nil, "{visualizing_index=%d", v.StatIndexToVisualize)
				for _, s := range v.Statistics {
					b = fmt.Appendf(b, ",%s=%s", s.StatName, float64Text(s.StatVal))
				}
				return string(append(b, '}'))
			},
		}},
		{"origin", attribute{
			parse: func(p *parser, r *reading) { r.Attr.OriginalValue = p.originalValue() },
			text: func(pr *printer, in *Instruction) string {
				if in.Attr.OriginalValue == nil || pr.opts.Canonical {
					return ""
				}
				return originalValueText(in.Attr.OriginalValue)
			},
		}},
		{"metadata", attribute{
			parse: func(p *parser, r *reading) { r.Attr.Metadata = p.metadata() },
			text: func(pr *printer, in *Instruction) string {
				if s := metadataText(in.Attr.Metadata); s != "" && !pr.opts.Canonical {
					return "{" + s + "}"
				}
				return ""
			},
		}},
		{"backend_config", attribute{
			parse: func(p *parser, r *reading) { r.Attr.BackendConfig = []byte(p.stringOrJSON("backend_config")) },
			text: func(_ *printer, in *Instruction) string {
				if len(in.Attr.BackendConfig) == 0 {
					return ""
				}
				return jsonOrQuoted(string(in.Attr.BackendConfig))
			},
		}},
	}
}

// jsonOrQuoted prints a string as it is where it reads back as a JSON object.
func jsonOrQuoted(s string) string {
	if lexesAsJSON(s) {
		return s
	}
	return quoted(s)
}

// bools reads {true,false}.
func (p *parser) bools(what string) []bool {
	var v []bool
	p.list('{', '}', what, func() { v = append(v, p.bool(what)) })
	return v
}

func boolsText(v []bool) string {
	var s []string
	for _, b := range v {
		s = append(s, strconv.FormatBool(b))
	}
	return strings.Join(s, ",")
}

// frontendAttributes reads {name="string",name={json}}.
func (p *parser) frontendAttributes() *hlopb.FrontendAttributes {
	a := &hlopb.FrontendAttributes{Map: map[string]string{}}
	p.list('{', '}', "frontend attributes", func() {
		name := p.attrName("a frontend attribute")
		pos := p.tok.pos
		v := p.stringOrJSON(name)
		if strings.ToValidUTF8(v, "") != v {
			p.fail(pos, "expected valid UTF-8 for %s", name)
		}
		a.Map[name] = v
	})
	return a
}

func frontendAttributesText(a *hlopb.FrontendAttributes) string {
	if len(a.GetMap()) == 0 {
		return ""
	}
	var items []string
	for _, k := range slices.Sorted(maps.Keys(a.Map)) {
		items = append(items, k+"="+jsonOrQuoted(a.Map[k]))
	}
	return "{" + strings.Join(items, ",") + "}"
}

// statistics reads {visualizing_index=0,name=1.5}.
func (p *parser) statistics() *hlopb.StatisticsViz {
	v := &hlopb.StatisticsViz{}
	p.expect('{', "to start statistics")
	if p.eat('}') {
		return v
	}
	p.attrName("visualizing_index")
	v.StatIndexToVisualize = p.int("an index")
	for p.eat(',') {
		s := &hlopb.Statistic{StatName: p.attrName("a statistic")}
		if p.tok.kind != tokInt && p.tok.kind != tokDecimal {
			p.expected("a number")
		}
		s.StatVal = p.float("a number")
		v.Statistics = append(v.Statistics, s)
	}
	p.expect('}', "at the end of statistics")
	return v
}

// metadata reads {op_type="..." op_name="..." ...}.
func (p *parser) metadata() *hlopb.OpMetadata {
	m := &hlopb.OpMetadata{}
	str := func(name string, to *string) func() { return func() { *to = p.string(name) } }
	num := func(name string, to *int32) func() { return func() { *to = p.int32(name) } }
	p.subAttrs("metadata", map[string]func(){
		"op_type":           str("op_type", &m.OpType),
		"op_name":           str("op_name", &m.OpName),
		"source_file":       str("source_file", &m.SourceFile),
		"deduplicated_name": str("deduplicated_name", &m.DeduplicatedName),
		"scheduling_name":   str("scheduling_name", &m.SchedulingName),
		"source_line":       num("source_line", &m.SourceLine),
		"source_end_line":   num("source_end_line", &m.SourceEndLine),
		"source_column":     num("source_column", &m.SourceColumn),
		"source_end_column": num("source_end_column", &m.SourceEndColumn),
		"stack_frame_id":    num("stack_frame_id", &m.StackFrameId),
		"profile_type": func() {
			pos := p.tok.pos
			for _, t := range p.ints("profile types") {
				if _, ok := hlopb.ProfileType_name[int32(t)]; !ok || t != int64(int32(t)) {
					p.fail(pos, "%d is no profile type", t)
				}
				m.ProfileType = append(m.ProfileType, hlopb.ProfileType(t))
			}
		},
		"metadata_payload": func() {
			m.MetadataPayload = &hlopb.Payload{PayloadSource: &hlopb.Payload_Value{Value: []byte(p.bytes("metadata_payload"))}}
		},
	})
	return m
}

// metadataText is the text inside the braces, "" if there is none.
func metadataText(m *hlopb.OpMetadata) string {
	var b []byte
	sep := func() {
		if len(b) > 0 {
			b = append(b, ' ')
		}
	}
	str := func(name, v string) {
		if v != "" {
			sep()
			b = append(append(append(b, name...), '='), quoted(v)...)
		}
	}
	num := func(name string, v int32) {
		if v != 0 {
			sep()
			b = strconv.AppendInt(append(append(b, name...), '='), int64(v), 10)
		}
	}
	str("op_type", m.GetOpType())
	str("op_name", m.GetOpName())
	str("source_file", m.GetSourceFile())
	num("source_line", m.GetSourceLine())
	num("source_end_line", m.GetSourceEndLine())
	num("source_column", m.GetSourceColumn())
	num("source_end_column", m.GetSourceEndColumn())
	if len(m.GetProfileType()) > 0 {
		sep()
		var types []int32
		for _, t := range m.ProfileType {
			types = append(types, int32(t))
		}
		b = append(b, "profile_type={"...)
		b = append(appendInts(b, types, ","), '}')
	}
	str("deduplicated_name", m.GetDeduplicatedName())
	str("scheduling_name", m.GetSchedulingName())
	num("stack_frame_id", m.GetStackFrameId())
	str("metadata_payload", string(m.GetMetadataPayload().GetValue()))
	return string(b)
}

// metadataList reads the metadata of a sharding: one, or several in braces.
func (p *parser) metadataList() []*hlopb.OpMetadata {
	if p.tok.kind != '{' || p.peek() != '{' {
		return []*hlopb.OpMetadata{p.metadata()}
	}
	var ms []*hlopb.OpMetadata
	p.list('{', '}', "a list of metadata", func() { ms = append(ms, p.metadata()) })
	return ms
}

func (pr *printer) metadataListText(ms []*hlopb.OpMetadata) string {
	if len(ms) == 0 || pr.opts.Canonical {
		return ""
	}
	var texts []string
	for _, m := range ms {
		texts = append(texts, "{"+metadataText(m)+"}")
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// originalValue reads a tuple tree of original arrays, {({"a" {0}}, {"b"})},
// or {[synthetic_call]}.
func (p *parser) originalValue() *hlopb.OriginalValueProto {
	v := &hlopb.OriginalValueProto{}
	p.expect('{', "to start an original value")
	if p.eat('[') {
		if !p.eatIdent("synthetic_call") {
			p.expected("synthetic_call")
		}
		p.expect(']', "behind synthetic_call")
		p.expect('}', "at the end of an original value")
		v.IsSyntheticCall = true
		return v
	}
	if p.eat('}') {
		return nil
	}
	var index []int64
	for p.tok.kind != '}' {
		switch p.tok.kind {
		case '(':
			index = append(index, 0)
			p.next()
		case ')', ',':
			if len(index) == 0 {
				p.expected("an original array")
			}
			if p.tok.kind == ')' {
				index = index[:len(index)-1]
			} else {
				index[len(index)-1]++
			}
			p.next()
		case '{':
			if p.spare -= int64(len(index)) / 8; p.spare < 0 {
				p.fail(p.tok.pos, "original values are too large")
			}
			e := &hlopb.OriginalValueElementProto{ShapeIndex: slices.Clone(index), OriginalArray: p.originalArray()}
			if e.OriginalArray.InstructionName == "" {
				e.OriginalArray = nil
			}
			v.Elements = append(v.Elements, e)
		default:
			p.expected("a tuple tree of original arrays")
		}
	}
	p.next()
	return v
}

// originalArray reads {"name" {0,1}}, where name or index may be missing.
func (p *parser) originalArray() *hlopb.OriginalArrayProto {
	a := &hlopb.OriginalArrayProto{}
	p.expect('{', "to start an original array")
	if p.tok.kind == tokString {
		a.InstructionName = p.string("an instruction name")
		if p.tok.kind == '{' {
			a.ShapeIndex = p.ints("a shape index")
		}
	}
	p.expect('}', "at the end of an original array")
	return a
}

func originalArrayText(a *hlopb.OriginalArrayProto) string {
	if a == nil {
		return "{}"
	}
	s := "{" + quoted(a.InstructionName)
	if len(a.ShapeIndex) > 0 {
		s += " " + braced(a.ShapeIndex)
	}
	return s + "}"
}

func originalValueText(v *hlopb.OriginalValueProto) string {
	if v.IsSyntheticCall {
		return "{[synthetic_call]}"
	}
	if len(v.Elements) == 0 {
		return "{()}"
	}
	elems := slices.Clone(v.Elements)
	slices.SortStableFunc(elems, func(a, b *hlopb.OriginalValueElementProto) int {
		return slices.Compare(a.GetShapeIndex(), b.GetShapeIndex())
	})
	b := []byte{'{'}
	b = appendOriginalTree(b, elems, 0)
	return string(append(b, '}'))
}

// appendOriginalTree appends the tree of elements that agree in the first
// depth numbers of their index.
func appendOriginalTree(b []byte, elems []*hlopb.OriginalValueElementProto, depth int) []byte {
	if len(elems[0].GetShapeIndex()) <= depth {
		return append(b, originalArrayText(elems[0].OriginalArray)...)
	}
	b = append(b, '(')
	next := int64(0)
	for i := 0; i < len(elems); {
		at := elems[i].ShapeIndex[depth]
		n := i + 1
		for n < len(elems) && len(elems[n].ShapeIndex) > depth && elems[n].ShapeIndex[depth] == at {
			n++
		}
		if at < next || at > next+maxOriginalGap {
			break // no tree
		}
		for ; next < at; next++ { // elements without arrays
			if next > 0 {
				b = append(b, ", "...)
			}
			b = append(b, "()"...)
		}
		if next > 0 {
			b = append(b, ", "...)
		}
		b = appendOriginalTree(b, elems[i:n], depth+1)
		next++
		i = n
	}
	return append(b, ')')
}

// maxOriginalGap is how many neighbouring elements of an original value may
// lack arrays.
const maxOriginalGap = 1 << 12
