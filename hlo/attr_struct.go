package hlo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/hlo/hlopb"
)

// structuredAttrs are attributes of single opcodes with a grammar of their
// own.
func structuredAttrs() []keyed {
	return []keyed{
		{"window", attribute{
			parse: func(p *parser, r *reading) { r.Attr.Window = p.window() },
			text: func(_ *printer, in *Instruction) string {
				if in.Attr.Window == nil || len(in.Attr.Window.Dimensions) == 0 && in.Op != OpCustomCall {
					return ""
				}
				return windowText(in.Attr.Window)
			},
		}},
		{"dim_labels", attribute{
			parse: func(p *parser, r *reading) { r.Attr.ConvolutionDimensionNumbers = p.dimLabels() },
			text: func(_ *printer, in *Instruction) string {
				if in.Attr.ConvolutionDimensionNumbers == nil {
					return ""
				}
				return dimLabelsText(in.Attr.ConvolutionDimensionNumbers)
			},
		}},
		{"slice", attribute{
			parse: func(p *parser, r *reading) {
				p.list('{', '}', "slice ranges", func() { r.Attr.SliceDimensions = append(r.Attr.SliceDimensions, p.sliceRange()) })
			},
			text: func(_ *printer, in *Instruction) string { return sliceText(in.Attr.SliceDimensions) },
		}},
		{"padding", attribute{
			parse: func(p *parser, r *reading) { r.Attr.PaddingConfig = p.padding() },
			text:  func(_ *printer, in *Instruction) string { return paddingText(in.Attr.PaddingConfig) },
		}},
		{"operand_precision", attribute{
			parse: func(p *parser, r *reading) {
				names := enumNames(hlopb.PrecisionConfig_Precision_name, "", true)
				c := ensure(&r.Attr.PrecisionConfig)
				p.list('{', '}', "precisions", func() {
					c.OperandPrecision = append(c.OperandPrecision, hlopb.PrecisionConfig_Precision(p.oneOfFold("a precision", names...)))
				})
			},
			text: func(_ *printer, in *Instruction) string {
				var names []string
				high := false
				for _, v := range in.Attr.GetPrecisionConfig().GetOperandPrecision() {
					names = append(names, strings.ToLower(v.String()))
					high = high || v != hlopb.PrecisionConfig_DEFAULT
				}
				// The list without a value per operand is no default either.
				if !high && (len(names) == defaultPrecisions(in) || in.Attr.PrecisionConfig == nil) {
					return ""
				}
				return "{" + strings.Join(names, ",") + "}"
			},
		}},
		{"algorithm", attribute{
			parse: func(p *parser, r *reading) {
				names := enumNames(hlopb.PrecisionConfig_Algorithm_name, "ALG_", true)
				ensure(&r.Attr.PrecisionConfig).Algorithm = hlopb.PrecisionConfig_Algorithm(p.oneOfFold("an algorithm", names...))
			},
			text: func(_ *printer, in *Instruction) string {
				a := in.Attr.GetPrecisionConfig().GetAlgorithm()
				if a == 0 {
					return ""
				}
				return strings.ToLower(strings.TrimPrefix(a.String(), "ALG_"))
			},
		}},
		{"sparsity_config", attribute{
			parse: func(p *parser, r *reading) { r.Attr.SparsityConfig = p.sparsity() },
			text: func(_ *printer, in *Instruction) string {
				var sides []string
				for _, s := range []struct {
					name string
					c    *hlopb.SparsityConfig_TensorSparsityConfig
				}{{"lhs", in.Attr.GetSparsityConfig().GetLhs()}, {"rhs", in.Attr.GetSparsityConfig().GetRhs()}} {
					if s.c != nil {
						sides = append(sides, fmt.Sprintf("%s={sparsity=%dx%d dimension=%d stride=%d idx=%d}",
							s.name, s.c.NumNonZero, s.c.BlockSize, s.c.Dimension, s.c.Stride, s.c.Idx))
					}
				}
				if sides == nil {
					return ""
				}
				return "{" + strings.Join(sides, " ") + "}"
			},
		}},
		{"replica_groups", attribute{
			parse: func(p *parser, r *reading) { p.replicaGroups(r.Attr) },
			text:  func(_ *printer, in *Instruction) string { return replicaGroupsText(in.Attr) },
		}},
		{"source_target_pairs", attribute{
			parse: func(p *parser, r *reading) {
				p.list('{', '}', "pairs", func() {
					pos := p.tok.pos
					pair := p.ints("a pair")
					if len(pair) != 2 {
						p.fail(pos, "expected a source and a target, found %d numbers", len(pair))
					}
					r.Attr.SourceTargetPairs = append(r.Attr.SourceTargetPairs, &hlopb.SourceTarget{Source: pair[0], Target: pair[1]})
				})
			},
			text: func(_ *printer, in *Instruction) string {
				b := []byte{'{'}
				for i, s := range in.Attr.SourceTargetPairs {
					if i > 0 {
						b = append(b, ',')
					}
					b = fmt.Appendf(b, "{%d,%d}", s.Source, s.Target)
				}
				return string(append(b, '}'))
			},
		}},
		{"slice_sizes/permute", attribute{
			parse: func(p *parser, r *reading) {
				p.list('{', '}', "slice sizes", func() {
					r.Attr.DynamicSliceSizes = append(r.Attr.DynamicSliceSizes, p.ints("slice sizes")...)
				})
			},
			text: func(_ *printer, in *Instruction) string { return permuteSlicesText(in) },
		}},
		{"output_to_operand_aliasing", attribute{
			parse: func(p *parser, r *reading) {
				p.list('{', '}', "aliasing", func() {
					a := &hlopb.OutputOperandAliasing{OutputShapeIndex: p.ints("an output index")}
					p.expect(':', "behind an output index")
					p.expect('(', "before an operand number")
					a.OperandIndex = p.int("an operand number")
					p.expect(',', "behind an operand number")
					a.OperandShapeIndex = p.ints("an operand index")
					p.expect(')', "behind an operand index")
					r.Attr.OutputOperandAliasing = append(r.Attr.OutputOperandAliasing, a)
				})
			},
			text: func(_ *printer, in *Instruction) string {
				if len(in.Attr.OutputOperandAliasing) == 0 {
					return ""
				}
				var items []string
				for _, a := range in.Attr.OutputOperandAliasing {
					items = append(items, fmt.Sprintf("%s: (%d, %s)", braced(a.OutputShapeIndex), a.OperandIndex, braced(a.OperandShapeIndex)))
				}
				return "{" + strings.Join(items, ", ") + "}"
			},
		}},
		{"literal", attribute{
			parse: func(p *parser, r *reading) { r.Literal = p.shapedLiteral() },
			text: func(_ *printer, in *Instruction) string {
				if in.Literal == nil {
					return ""
				}
				return string(in.Literal.appendShaped(nil))
			},
		}},
		{"operand_layout_constraints", attribute{
			parse: func(p *parser, r *reading) {
				r.Attr.ConstrainLayout = true
				p.list('{', '}', "operand layouts", func() { r.OperandLayouts = append(r.OperandLayouts, p.shape()) })
			},
			text: func(_ *printer, in *Instruction) string {
				if !in.Attr.ConstrainLayout {
					return ""
				}
				b := []byte{'{'}
				for i, s := range in.OperandLayouts {
					if i > 0 {
						b = append(b, ", "...)
					}
					b = s.appendText(b, true)
				}
				return string(append(b, '}'))
			},
		}},
		{"outfeed_shape", attribute{
			parse: func(p *parser, r *reading) { r.Attr.OutfeedShape = p.shape().Proto() },
			text: func(_ *printer, in *Instruction) string {
				if in.Attr.OutfeedShape == nil {
					return ""
				}
				s, err := ShapeFromProto(in.Attr.OutfeedShape)
				if err != nil {
					return ""
				}
				return s.String()
			},
		}},
		{"domain", attribute{
			parse: func(p *parser, r *reading) { p.domain(r) },
			text: func(pr *printer, in *Instruction) string {
				if in.Attr.DomainEntrySharding == nil || in.Attr.DomainExitSharding == nil {
					return ""
				}
				return fmt.Sprintf(`{kind="sharding", entry=%s, exit=%s}`,
					pr.shardingText(in.Attr.DomainExitSharding), pr.shardingText(in.Attr.DomainEntrySharding))
			},
		}},
		{"result_accuracy", attribute{
			parse: func(p *parser, r *reading) { r.Attr.ResultAccuracy = p.accuracy() },
			text: func(_ *printer, in *Instruction) string {
				switch a := in.Attr.GetResultAccuracy(); {
				case a.GetTolerance() != nil:
					t := a.GetTolerance()
					return fmt.Sprintf("{tolerance={atol=%s,rtol=%s,ulps=%d}}", float64Text(t.Atol), float64Text(t.Rtol), t.Ulps)
				case a.GetMode() != hlopb.ResultAccuracy_DEFAULT:
					return "{mode=" + strings.ToLower(a.GetMode().String()) + "}"
				}
				return ""
			},
		}},
	}
}

func braced(v []int64) string { return "{" + string(appendInts(nil, v, ",")) + "}" }

func float64Text(v float64) string {
	return string(appendFloat(nil, F64, math.Float64bits(v)))
}

// defaultPrecisions is how many precisions an instruction has whose text
// gives none.
func defaultPrecisions(in *Instruction) int {
	switch in.Op {
	case OpRaggedDot, OpScaledDot:
		return 2
	}
	return len(in.Operands)
}

// appendShaped appends a literal with the shape, layout included, before each
// array.
func (l *Literal) appendShaped(b []byte) []byte {
	if !l.Shape.IsTuple() {
		b = l.Shape.appendText(b, true)
		if l.DynamicSizes == nil {
			b = append(b, ' ')
		}
		return l.AppendValue(b)
	}
	b = append(b, '(')
	for i, e := range l.Elements {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = e.appendShaped(b)
	}
	return append(b, ')')
}

// window reads {size=3x3 stride=2x2 pad=1_1x0_0 lhs_dilate=... rhs_dilate=...
// rhs_reversal=0x1}, in any order.
func (p *parser) window() *hlopb.Window {
	pos := p.tok.pos
	p.expect('{', "to start a window")
	fields := map[string][]int64{}
	var low, high []int64
	for p.tok.kind != '}' {
		at := p.tok.pos
		name := p.attrName("a part of a window")
		switch name {
		case "size", "stride", "lhs_dilate", "rhs_dilate", "rhs_reversal":
			if fields[name] != nil {
				p.fail(at, "%s= already exists", name)
			}
			fields[name] = p.sizes(name)
		case "pad":
			if low != nil {
				p.fail(at, "pad= already exists")
			}
			at := p.tok.pos
			for _, g := range p.padGroups() {
				if len(g) != 2 {
					p.fail(at, "expected LOW_HIGH per dimension")
				}
				low, high = append(low, g[0]), append(high, g[1])
			}
		default:
			p.fail(at, "a window has no part %s (it has size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal)", name)
		}
	}
	p.next()
	size := fields["size"]
	for _, name := range []string{"stride", "lhs_dilate", "rhs_dilate", "rhs_reversal"} {
		if v := fields[name]; v != nil && len(v) != len(size) {
			p.fail(pos, "%s= has %d dimensions, size= has %d", name, len(v), len(size))
		}
	}
	if low != nil && len(low) != len(size) {
		p.fail(pos, "pad= has %d dimensions, size= has %d", len(low), len(size))
	}
	w := &hlopb.Window{}
	at := func(name string, i int, absent int64) int64 {
		if v := fields[name]; v != nil {
			return v[i]
		}
		return absent
	}
	for i := range size {
		d := &hlopb.WindowDimension{
			Size: size[i], Stride: at("stride", i, 1), BaseDilation: at("lhs_dilate", i, 1),
			WindowDilation: at("rhs_dilate", i, 1), WindowReversal: at("rhs_reversal", i, 0) == 1,
		}
		if low != nil {
			d.PaddingLow, d.PaddingHigh = low[i], high[i]
		}
		w.Dimensions = append(w.Dimensions, d)
	}
	return w
}

// sizes reads 3 or 3x4x5.
func (p *parser) sizes(what string) []int64 {
	if p.tok.kind == tokInt {
		return []int64{p.int(what)}
	}
	if p.tok.kind != tokDxD {
		p.expected("sizes like 3x3 for " + what)
	}
	v := p.numbers(p.tok.text, "x")
	p.next()
	return v
}

// numbers splits a pattern token into its numbers.
func (p *parser) numbers(text, sep string) []int64 {
	var v []int64
	for s := range strings.SplitSeq(text, sep) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			p.fail(p.tok.pos, "%s is out of range for 64 bits", s)
		}
		v = append(v, n)
	}
	return v
}

// padGroups reads 0_1x2_3_1.
func (p *parser) padGroups() [][]int64 {
	if p.tok.kind != tokPad {
		p.expected("padding like 0_1x2_3")
	}
	var groups [][]int64
	for g := range strings.SplitSeq(p.tok.text, "x") {
		groups = append(groups, p.numbers(g, "_"))
	}
	p.next()
	return groups
}

func (p *parser) padding() *hlopb.PaddingConfig {
	c := &hlopb.PaddingConfig{}
	for _, g := range p.padGroups() {
		d := &hlopb.PaddingConfig_PaddingConfigDimension{EdgePaddingLow: g[0], EdgePaddingHigh: g[1]}
		if len(g) == 3 {
			d.InteriorPadding = g[2]
		}
		c.Dimensions = append(c.Dimensions, d)
	}
	return c
}

func paddingText(c *hlopb.PaddingConfig) string {
	interior := slices.ContainsFunc(c.GetDimensions(), func(d *hlopb.PaddingConfig_PaddingConfigDimension) bool { return d.InteriorPadding != 0 })
	var groups []string
	for _, d := range c.GetDimensions() {
		g := fmt.Sprintf("%d_%d", d.EdgePaddingLow, d.EdgePaddingHigh)
		if interior {
			g += fmt.Sprintf("_%d", d.InteriorPadding)
		}
		groups = append(groups, g)
	}
	return strings.Join(groups, "x")
}

func windowText(w *hlopb.Window) string {
	b := []byte{'{'}
	part := func(name string, show bool, value func(b []byte, d *hlopb.WindowDimension) []byte) {
		if !show {
			return
		}
		if len(b) > 1 {
			b = append(b, ' ')
		}
		b = append(b, name...)
		for i, d := range w.Dimensions {
			if i > 0 {
				b = append(b, 'x')
			}
			b = value(b, d)
		}
	}
	some := func(f func(d *hlopb.WindowDimension) bool) bool { return slices.ContainsFunc(w.Dimensions, f) }
	number := func(f func(d *hlopb.WindowDimension) int64) func([]byte, *hlopb.WindowDimension) []byte {
		return func(b []byte, d *hlopb.WindowDimension) []byte { return strconv.AppendInt(b, f(d), 10) }
	}
	part("size=", len(w.Dimensions) > 0, number((*hlopb.WindowDimension).GetSize))
	part("stride=", some(func(d *hlopb.WindowDimension) bool { return d.Stride != 1 }), number((*hlopb.WindowDimension).GetStride))
	part("pad=", some(func(d *hlopb.WindowDimension) bool { return d.PaddingLow != 0 || d.PaddingHigh != 0 }),
		func(b []byte, d *hlopb.WindowDimension) []byte {
			return fmt.Appendf(b, "%d_%d", d.PaddingLow, d.PaddingHigh)
		})
	part("lhs_dilate=", some(func(d *hlopb.WindowDimension) bool { return d.BaseDilation != 1 }), number((*hlopb.WindowDimension).GetBaseDilation))
	part("rhs_dilate=", some(func(d *hlopb.WindowDimension) bool { return d.WindowDilation != 1 }), number((*hlopb.WindowDimension).GetWindowDilation))
	part("rhs_reversal=", some((*hlopb.WindowDimension).GetWindowReversal), func(b []byte, d *hlopb.WindowDimension) []byte {
		if d.WindowReversal {
			return append(b, '1')
		}
		return append(b, '0')
	})
	return string(append(b, '}'))
}

// dimLabels reads b01f_01io->b01f: the place of batch, feature and the
// spatial dimensions in input, kernel and output. `?` is a dimension of no
// meaning.
func (p *parser) dimLabels() *hlopb.ConvolutionDimensionNumbers {
	if p.tok.kind != tokDimLabels {
		p.expected("dimension labels like b01f_01io->b01f")
	}
	in, rest, _ := strings.Cut(p.tok.text, "_")
	kernel, out, _ := strings.Cut(rest, "->")
	part := func(labels, letters string) (a, b int64, spatial []int64) {
		n := 0
		for _, c := range labels {
			if c != '?' && !strings.ContainsRune(letters, c) {
				n++
			}
		}
		spatial = make([]int64, n)
		seen := map[rune]bool{}
		for i, c := range labels {
			if c == '?' {
				continue
			}
			if seen[c] {
				p.fail(p.tok.pos, "%c appears twice in %s", c, labels)
			}
			seen[c] = true
			switch {
			case c == rune(letters[0]):
				a = int64(i)
			case c == rune(letters[1]):
				b = int64(i)
			case int(c-'0') < n:
				spatial[c-'0'] = int64(i)
			default:
				p.fail(p.tok.pos, "%s has %d spatial dimensions, but names %c", labels, n, c)
			}
		}
		return a, b, spatial
	}
	d := &hlopb.ConvolutionDimensionNumbers{}
	d.InputBatchDimension, d.InputFeatureDimension, d.InputSpatialDimensions = part(in, "bf")
	d.KernelInputFeatureDimension, d.KernelOutputFeatureDimension, d.KernelSpatialDimensions = part(kernel, "io")
	d.OutputBatchDimension, d.OutputFeatureDimension, d.OutputSpatialDimensions = part(out, "bf")
	n := len(d.InputSpatialDimensions)
	if len(d.KernelSpatialDimensions) != n || len(d.OutputSpatialDimensions) != n {
		p.fail(p.tok.pos, "input, kernel and output have %d, %d and %d spatial dimensions", n, len(d.KernelSpatialDimensions), len(d.OutputSpatialDimensions))
	}
	p.next()
	return d
}

func dimLabelsText(d *hlopb.ConvolutionDimensionNumbers) string {
	part := func(letters string, a, b int64, spatial []int64) string {
		n := max(a, b)
		for _, s := range spatial {
			n = max(n, s)
		}
		if n < 0 || n > 63 { // no rank of a real array
			n = 63
		}
		labels := []byte(strings.Repeat("?", int(n)+1))
		put := func(at int64, c byte) {
			if at >= 0 && at < int64(len(labels)) {
				labels[at] = c
			}
		}
		put(a, letters[0])
		put(b, letters[1])
		for i, s := range spatial {
			put(s, '0'+byte(i%10))
		}
		return string(labels)
	}
	return part("bf", d.InputBatchDimension, d.InputFeatureDimension, d.InputSpatialDimensions) + "_" +
		part("io", d.KernelInputFeatureDimension, d.KernelOutputFeatureDimension, d.KernelSpatialDimensions) + "->" +
		part("bf", d.OutputBatchDimension, d.OutputFeatureDimension, d.OutputSpatialDimensions)
}

// sliceRange reads [start:limit] or [start:limit:stride].
func (p *parser) sliceRange() *hlopb.HloInstructionProto_SliceDimensions {
	pos := p.tok.pos
	p.expect('[', "to start a slice range")
	var v []int64
	for {
		v = append(v, p.int("an integer"))
		if !p.eat(':') {
			break
		}
	}
	p.expect(']', "at the end of a slice range")
	if len(v) != 2 && len(v) != 3 {
		p.fail(pos, "expected [start:limit] or [start:limit:stride], found %d numbers", len(v))
	}
	d := &hlopb.HloInstructionProto_SliceDimensions{Start: v[0], Limit: v[1], Stride: 1}
	if len(v) == 3 {
		d.Stride = v[2]
	}
	return d
}

func sliceText(ds []*hlopb.HloInstructionProto_SliceDimensions) string {
	strided := slices.ContainsFunc(ds, func(d *hlopb.HloInstructionProto_SliceDimensions) bool { return d.Stride != 1 })
	b := []byte{'{'}
	for i, d := range ds {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "[%d:%d", d.Start, d.Limit)
		if strided {
			b = fmt.Appendf(b, ":%d", d.Stride)
		}
		b = append(b, ']')
	}
	return string(append(b, '}'))
}

// permuteSlicesText groups the slice sizes of a collective-permute, which the
// wire keeps in one list, by the ranks of the arrays that they slice.
func permuteSlicesText(in *Instruction) string {
	sizes := in.Attr.DynamicSliceSizes
	if len(sizes) == 0 {
		return ""
	}
	var ranks []int
	if len(in.Operands) > 0 {
		for _, s := range in.Operands[0].Shape.Leaves() {
			ranks = append(ranks, s.Rank())
		}
	}
	var groups []string
	for i := 0; len(sizes) > 0; i++ {
		n := len(sizes)
		if len(ranks) > 0 {
			n = min(n, max(1, ranks[i%len(ranks)]))
		}
		groups = append(groups, braced(sizes[:n]))
		sizes = sizes[n:]
	}
	return "{" + strings.Join(groups, ",") + "}"
}

func (p *parser) sparsity() *hlopb.SparsityConfig {
	c := &hlopb.SparsityConfig{}
	p.expect('{', "to start a sparsity configuration")
	for p.tok.kind != '}' {
		pos := p.tok.pos
		t := &hlopb.SparsityConfig_TensorSparsityConfig{}
		switch side := p.attrName("lhs or rhs"); side {
		case "lhs":
			c.Lhs = t
		case "rhs":
			c.Rhs = t
		default:
			p.fail(pos, "expected lhs= or rhs=, found %s=", side)
		}
		p.expect('{', "to start the sparsity of an operand")
		for p.tok.kind != '}' {
			pos := p.tok.pos
			switch name := p.attrName("a part of a sparsity"); name {
			case "sparsity":
				v := p.sizes(name)
				if len(v) != 2 {
					p.fail(pos, "expected NONZEROxBLOCK")
				}
				t.NumNonZero, t.BlockSize = v[0], v[1]
			case "dimension":
				t.Dimension = p.int(name)
			case "stride":
				t.Stride = p.int(name)
			case "idx":
				t.Idx = p.int32(name)
			default:
				p.fail(pos, "a sparsity has no part %s (it has sparsity, dimension, stride, idx)", name)
			}
		}
		p.next()
	}
	p.next()
	return c
}

// domain reads {kind="sharding", entry=sharding, exit=sharding}. On the wire
// the two have each other's names.
func (p *parser) domain(r *reading) {
	pos := p.tok.pos
	kind := ""
	p.subAttrs("a domain", map[string]func(){
		"kind":  func() { kind = p.string("kind") },
		"entry": func() { r.Attr.DomainExitSharding = p.sharding() },
		"exit":  func() { r.Attr.DomainEntrySharding = p.sharding() },
	}, "kind", "entry", "exit")
	if kind != "sharding" {
		p.fail(pos, "expected a domain of kind sharding, found %q", kind)
	}
}

// subAttrs reads '{' (name=value ','?)* '}', each name once.
func (p *parser) subAttrs(what string, parts map[string]func(), required ...string) {
	start := p.tok.pos
	p.expect('{', "to start "+what)
	seen := map[string]bool{}
	for p.tok.kind != '}' {
		p.eat(',')
		pos := p.tok.pos
		name := p.attrName("a part of " + what)
		switch {
		case parts[name] == nil:
			p.fail(pos, "%s has no part %s", what, name)
		case seen[name]:
			p.fail(pos, "%s= already exists", name)
		}
		seen[name] = true
		parts[name]()
	}
	p.next()
	for _, name := range required {
		if !seen[name] {
			p.fail(start, "%s needs %s=", what, name)
		}
	}
}

func (p *parser) accuracy() *hlopb.ResultAccuracy {
	a := &hlopb.ResultAccuracy{}
	p.expect('{', "to start a result accuracy")
	pos := p.tok.pos
	switch name := p.attrName("mode or tolerance"); name {
	case "mode":
		m := p.oneOfFold("an accuracy mode", enumNames(hlopb.ResultAccuracy_Mode_name, "", true)...)
		if m == int(hlopb.ResultAccuracy_DEFAULT) {
			p.expect('}', "at the end of a result accuracy")
			return nil
		}
		a.Specs = &hlopb.ResultAccuracy_Mode_{Mode: hlopb.ResultAccuracy_Mode(m)}
	case "tolerance":
		t := &hlopb.ResultAccuracy_Tolerance{}
		p.list('{', '}', "tolerances", func() {
			pos := p.tok.pos
			switch name := p.attrName("a tolerance"); name {
			case "atol":
				t.Atol = p.float("a number")
			case "rtol":
				t.Rtol = p.float("a number")
			case "ulps":
				v := p.float("a number")
				if !(math.Abs(v) < 1<<62) {
					p.fail(pos, "%v ulps are out of range", v)
				}
				t.Ulps = int64(v)
			default:
				p.fail(pos, "expected atol=, rtol= or ulps=, found %s=", name)
			}
		})
		a.Specs = &hlopb.ResultAccuracy_Tolerance_{Tolerance: t}
	default:
		p.fail(pos, "expected mode= or tolerance=, found %s=", name)
	}
	p.expect('}', "at the end of a result accuracy")
	return a
}
