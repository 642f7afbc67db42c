package triage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
)

// Key says when two findings are one defect: the same pass did the same kind
// of rewrite to the same plainest program, with the same kind of damage.
type Key struct {
	Class string // of the finding
	// Pass is the guilty pass, without its pipeline: a pass that runs in several
	// has one defect; "code generation" behind the passes.
	Pass string
	// Signature is what the guilty step did (Rewrite.After); behind the passes,
	// what the kernel computes (KernelKind); of a crash, the message.
	Signature string
	// Form is what it did that to (Rewrite.Before), or the canonical form of the
	// smallest program (Form) where there is no guilty step.
	Form string
}

// ID is "f-" and 12 hex digits, the same on any machine.
func (k Key) ID() string {
	return "f-" + digest(k.Class, k.Pass, k.Signature, k.Form)[:12]
}

// Form is the canonical form of a program: names are numbers in the order of a
// walk from the root, operands of commutative operations are sorted, the
// entry's parameters have no numbers, sizes are 0, 1 or 2 (for more), offsets
// and paddings keep their sign, constants are one of a few kinds of value, and
// what does not change the meaning (metadata, layouts, backend
// configurations) is left out. Programs that differ in those alone have the
// same form.
func Form(m *hlo.Module) string {
	f := former{colours: map[*hlo.Instruction]string{}, bodies: map[*hlo.Computation]string{}}
	return f.computation(m.Entry, true)
}

type former struct {
	// colours say what an instruction is in its computation: itself, what is
	// above it and what is below it.
	colours map[*hlo.Instruction]string
	bodies  map[*hlo.Computation]string
}

func (f *former) computation(c *hlo.Computation, entry bool) string {
	if text, ok := f.bodies[c]; ok {
		return text
	}
	own := map[*hlo.Instruction]string{}
	for _, in := range c.Instructions {
		text := f.text(in, entry)
		for _, k := range in.Called {
			text += " {" + f.computation(k, false) + "}"
		}
		own[in] = text
	}
	f.colour(c, own)
	var b strings.Builder
	number := map[*hlo.Instruction]int{}
	var walk func(*hlo.Instruction)
	walk = func(in *hlo.Instruction) {
		if _, seen := number[in]; seen {
			return
		}
		operands := slices.Clone(in.Operands)
		if commutes(in) {
			slices.SortStableFunc(operands, func(a, b *hlo.Instruction) int { return cmp.Compare(f.colours[a], f.colours[b]) })
		}
		for _, o := range operands {
			walk(o)
		}
		fmt.Fprintf(&b, "%d = %s", len(number), own[in])
		if commutes(in) { // those that look the same have numbers now
			slices.SortFunc(operands, func(a, b *hlo.Instruction) int {
				return cmp.Or(cmp.Compare(f.colours[a], f.colours[b]), cmp.Compare(number[a], number[b]))
			})
		}
		for _, o := range operands {
			fmt.Fprintf(&b, " %d", number[o])
		}
		b.WriteByte('\n')
		number[in] = len(number)
	}
	walk(c.Root)
	f.bodies[c] = b.String()
	return f.bodies[c]
}

// colour refines the instructions' own texts by those of their neighbours until
// that tells no more of them apart (Weisfeiler and Leman, 1968).
func (f *former) colour(c *hlo.Computation, own map[*hlo.Instruction]string) {
	users := map[*hlo.Instruction][]*hlo.Instruction{}
	for _, in := range c.Instructions {
		f.colours[in] = digest(own[in], fmt.Sprint(in == c.Root))
		for _, o := range in.Operands {
			if !slices.Contains(users[o], in) {
				users[o] = append(users[o], in)
			}
		}
	}
	for classes := 0; ; {
		next, seen := map[*hlo.Instruction]string{}, map[string]bool{}
		for _, in := range c.Instructions {
			var above, below []string
			for _, o := range in.Operands {
				above = append(above, f.colours[o])
			}
			if commutes(in) {
				slices.Sort(above)
			}
			for _, u := range users[in] {
				for i, o := range u.Operands {
					if commutes(u) {
						i = -1
					}
					if o == in {
						below = append(below, fmt.Sprintf("%d %s", i, f.colours[u]))
					}
				}
			}
			slices.Sort(below)
			next[in] = digest(f.colours[in], fmt.Sprint(above), fmt.Sprint(below))
			seen[next[in]] = true
		}
		for in, colour := range next {
			f.colours[in] = colour
		}
		if len(seen) <= classes {
			return
		}
		classes = len(seen)
	}
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// commutes reports whether the order of an instruction's operands has no
// meaning.
func commutes(in *hlo.Instruction) bool {
	switch in.Op {
	case hlo.OpAdd, hlo.OpMultiply, hlo.OpMaximum, hlo.OpMinimum, hlo.OpAnd, hlo.OpOr, hlo.OpXor:
		return true
	case hlo.OpCompare:
		return in.Attr.ComparisonDirection == "EQ" || in.Attr.ComparisonDirection == "NE"
	}
	return false
}

// text is an instruction by itself: opcode, shape and attributes without
// sizes.
func (f *former) text(in *hlo.Instruction, entry bool) string {
	shape := smallShape(in.Shape)
	switch in.Op {
	case hlo.OpParameter:
		if entry {
			return "parameter " + shape.String()
		}
		return fmt.Sprintf("parameter %s #%d", shape, in.Attr.ParameterNumber)
	case hlo.OpConstant:
		return "constant " + shape.String() + " " + kindOf(in.Literal)
	}
	one := hlo.NewInstruction("x", in.Op, shape)
	one.Attr = proto.CloneOf(in.Attr)
	a := one.Attr
	a.Metadata, a.FrontendAttributes, a.StatisticsViz, a.OriginalValue, a.BackendConfig, a.Sharding = nil, nil, nil, nil, nil, nil
	a.ChannelId, a.DynamicSliceSizes, a.GatherSliceSizes, a.FftLength = 0, nil, nil, nil
	for _, s := range a.SliceDimensions {
		s.Start, s.Limit, s.Stride = min(s.Start, 1), 2, min(s.Stride, 2)
	}
	for _, d := range a.PaddingConfig.GetDimensions() {
		d.EdgePaddingLow, d.EdgePaddingHigh, d.InteriorPadding = sign(d.EdgePaddingLow), sign(d.EdgePaddingHigh), sign(d.InteriorPadding)
	}
	for _, d := range a.Window.GetDimensions() {
		d.Size, d.Stride, d.BaseDilation, d.WindowDilation = min(d.Size, 2), min(d.Stride, 2), min(d.BaseDilation, 2), min(d.WindowDilation, 2)
		d.PaddingLow, d.PaddingHigh = sign(d.PaddingLow), sign(d.PaddingHigh)
	}
	for range in.Called {
		one.Called = append(one.Called, hlo.NewComputation("c"))
	}
	if in.Op == hlo.OpCompare { // its text may leave out the type of its operands' order
		one.Operands = []*hlo.Instruction{hlo.NewInstruction("o", hlo.OpParameter, smallShape(in.Operands[0].Shape))}
	}
	return one.String()
}

func sign(v int64) int64 { return int64(cmp.Compare(v, 0)) }

// smallShape is the shape without layouts and with no size above 2.
func smallShape(s *hlo.Shape) *hlo.Shape {
	s = s.WithoutLayout()
	for _, l := range s.Leaves() {
		for i := range l.Dims {
			l.Dims[i] = min(l.Dims[i], 2)
		}
	}
	return s
}

// kindOf sorts the values of a constant into kinds; "mixed" if there are
// several.
func kindOf(l *hlo.Literal) string {
	kind := ""
	if l == nil || !l.Shape.IsArray() {
		return "none"
	}
	for i := range l.Shape.Elems() {
		k := elementKind(l, i)
		if kind == "" {
			kind = k
		}
		if k != kind {
			return "mixed"
		}
	}
	return kind
}

func elementKind(l *hlo.Literal, i int64) string {
	t := l.Shape.Type
	var v float64
	switch {
	case t.IsComplex():
		return fmt.Sprint(l.Complex(i) == 0)
	case t.IsFloat():
		v = l.Float(i)
	default:
		v = float64(l.Int(i))
		if t.Bits() > 1 && !t.IsSigned() && l.Bits(i) == 1<<t.Bits()-1 {
			return "largest"
		}
	}
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case v == 0 && math.Signbit(v):
		return "-0"
	case v == 0:
		return "0"
	case v == 1:
		return "1"
	case v == -1:
		return "-1"
	case v < 0:
		return "negative"
	}
	return "positive"
}
