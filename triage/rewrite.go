package triage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Rewrite is what a guilty step made of the place of the fault, without the
// program around it: the expression before and the one after, each down to
// what both states compute, in which names, sizes, ranks, layouts and what
// only moves or spreads a value do not show. Values that both sides read are
// "#0", "#1", in the order in which they are read.
type Rewrite struct {
	Before, After string
}

// RewriteAt is the rewrite at a place; ok is false if the two expressions are
// the same, so that they say nothing.
func RewriteAt(before, after *hlo.Module, at *Location) (r Rewrite, ok bool) {
	b, a := numbered(before), numbered(after)
	x, y := at.Before, at.After
	if b.of[x] == "" || a.of[y] == "" {
		return Rewrite{}, false
	}
	there := map[string]bool{}
	for in := range live(after) {
		there[a.of[in]] = true
	}
	x, y = descend(b, a, there, b.through(x), a.through(y))
	if b.of[x] == a.of[y] {
		return Rewrite{}, false
	}
	shared := map[string]bool{}
	for _, vn := range b.of {
		shared[vn] = there[vn]
	}
	e := expression{shared: shared, leaves: map[string]int{}, texts: map[*hlo.Instruction]string{}, root: b.of[x], narrow: map[string]bool{}}
	e.digests = b
	for _, i := range indices(x) {
		if t := i.Shape.Type; t.IsInteger() && t.Bits() < 32 {
			e.narrow[b.of[b.through(i)]] = true
		}
	}
	if x.Op == hlo.OpGetTupleElement {
		e.tuple = b.of[x.Operands[0]]
	}
	switch {
	case at.Before.Op == hlo.OpFusion && there[e.root]: // what it computes is still computed
		r.Before = kind(at.Before)
	case moves(x) && x.Op != hlo.OpBroadcast || x.Op == hlo.OpParameter: // any value
		r.Before = "a value " + x.Shape.Type.String()
		it := x
		for moves(it) && it.Op != hlo.OpBroadcast {
			it = b.through(it.Operands[0])
		}
		e.root = b.of[it]
	default:
		r.Before = e.node(x)
	}
	e.digests, e.texts = a, map[*hlo.Instruction]string{}
	r.After = e.text(y)
	if e.fused && computes(x) { // something was done to what a fusion gives, whatever that computes
		r.Before = "fusion " + x.Shape.Type.String()
	}
	if x.Op == y.Op && x.Op != hlo.OpGetTupleElement {
		if x.Op == hlo.OpConstant { // which value became which is the program's affair
			return Rewrite{"constant " + x.Shape.Type.String(), "another constant"}, true
		}
		if changes := changedAttributes(x, y); len(changes) > 0 {
			r.After += " with " + strings.Join(changes, ", ")
		}
	}
	return r, r.Before != r.After
}

// descend goes from two instructions to the first place below where they
// differ. Two that do the same to operands of which one pair differs have that
// pair to thank for it, unless what was read is still there and something else
// is read in its place that is not made of it; of the elements of a tuple the
// first that differs is taken.
func descend(b, a *digests, there map[string]bool, x, y *hlo.Instruction) (*hlo.Instruction, *hlo.Instruction) {
	for b.alike(x, a, y) {
		var below [][2]*hlo.Instruction
		for i := range x.Operands {
			if b.of[x.Operands[i]] != a.of[y.Operands[i]] {
				below = append(below, [2]*hlo.Instruction{x.Operands[i], y.Operands[i]})
			}
		}
		for i := range x.Called {
			if b.of[x.Called[i].Root] != a.of[y.Called[i].Root] {
				below = append(below, [2]*hlo.Instruction{x.Called[i].Root, y.Called[i].Root})
			}
		}
		one := func(p [2]*hlo.Instruction) bool {
			return b.of[p[0]] == b.of[below[0][0]] && a.of[p[1]] == a.of[below[0][1]]
		}
		if len(below) == 0 || x.Op != hlo.OpTuple && slices.ContainsFunc(below, func(p [2]*hlo.Instruction) bool { return !one(p) }) {
			break
		}
		p, q := b.through(below[0][0]), a.through(below[0][1])
		if x.Op != hlo.OpTuple && (there[b.of[p]] && !(computes(p) && a.madeOf(q, b.of[p])) || p.Op == hlo.OpParameter || p.Op == hlo.OpConstant && q.Op != hlo.OpConstant) {
			break
		}
		x, y = p, q
	}
	return x, y
}

// computes reports whether a value is more than one that is given.
func computes(in *hlo.Instruction) bool {
	return in.Op != hlo.OpParameter && in.Op != hlo.OpConstant && in.Op != hlo.OpGetTupleElement && !moves(in)
}

// madeOf reports whether an instruction reads a value, by its number.
func (n *digests) madeOf(in *hlo.Instruction, vn string) bool {
	seen := map[*hlo.Instruction]bool{}
	var reads func(in *hlo.Instruction) bool
	reads = func(in *hlo.Instruction) bool {
		for _, o := range in.Operands {
			if o = n.through(o); n.of[o] == vn {
				return true
			}
			if !seen[o] {
				seen[o] = true
				if reads(o) {
					return true
				}
			}
		}
		return false
	}
	return reads(n.through(in))
}

// live are the instructions that the result needs: a pass may leave what it
// replaced behind.
func live(m *hlo.Module) map[*hlo.Instruction]bool {
	out := map[*hlo.Instruction]bool{}
	var walk func(in *hlo.Instruction)
	walk = func(in *hlo.Instruction) {
		if out[in] {
			return
		}
		out[in] = true
		for _, o := range in.Operands {
			walk(o)
		}
		for _, c := range in.Called {
			walk(c.Root)
		}
	}
	walk(m.Entry.Root)
	return out
}

// digests give equal values equal numbers: digests of what an instruction
// does and of the numbers of what it reads. A fusion or call is what its
// computation makes of its operands.
type digests struct {
	of map[*hlo.Instruction]string
	// reads is what a parameter of a fused or called computation stands for.
	reads map[*hlo.Instruction]*hlo.Instruction
}

func numbered(m *hlo.Module) *digests {
	n := &digests{map[*hlo.Instruction]string{}, map[*hlo.Instruction]*hlo.Instruction{}}
	callers := map[*hlo.Computation]int{}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			for _, k := range in.Called {
				callers[k]++
			}
		}
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			if (in.Op == hlo.OpFusion || in.Op == hlo.OpCall) && len(in.Called) == 1 && callers[in.Called[0]] == 1 {
				for i, p := range in.Called[0].Params() {
					if p != nil && i < len(in.Operands) {
						n.reads[p] = in.Operands[i]
					}
				}
			}
		}
	}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			n.number(in)
		}
	}
	return n
}

// through is what an instruction passes on unchanged; itself if it does
// something.
func (n *digests) through(in *hlo.Instruction) *hlo.Instruction {
	for {
		switch {
		case in.Op == hlo.OpParameter && n.reads[in] != nil:
			in = n.reads[in]
		case (in.Op == hlo.OpFusion || in.Op == hlo.OpCall) && len(in.Called) == 1 && inlined(n, in.Called[0]):
			in = in.Called[0].Root
		default:
			return in
		}
	}
}

func inlined(n *digests, c *hlo.Computation) bool {
	return !slices.ContainsFunc(c.Params(), func(p *hlo.Instruction) bool { return p == nil || n.reads[p] == nil })
}

func (n *digests) number(in *hlo.Instruction) string {
	if vn, ok := n.of[in]; ok {
		return vn
	}
	if t := n.through(in); t != in {
		n.of[in] = n.number(t)
		return n.of[in]
	}
	parts := []string{in.Op.String(), in.Shape.WithoutLayout().String()}
	if in.Op == hlo.OpParameter {
		parts = append(parts, fmt.Sprint(in.Attr.ParameterNumber))
	} else {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(meaning(in))
		if err != nil {
			data = []byte(err.Error())
		}
		parts = append(parts, string(data))
	}
	if in.Literal != nil {
		parts = append(parts, in.Literal.String())
	}
	for _, o := range in.Operands {
		parts = append(parts, n.number(o))
	}
	for _, c := range in.Called {
		parts = append(parts, n.number(c.Root))
	}
	n.of[in] = digest(parts...)
	return n.of[in]
}

// alike reports whether two instructions are the same but for what they read
// and call.
func (n *digests) alike(x *hlo.Instruction, o *digests, y *hlo.Instruction) bool {
	return x.Op == y.Op && x.Op != hlo.OpConstant && len(x.Operands) == len(y.Operands) && len(x.Called) == len(y.Called) && proto.Equal(meaning(x), meaning(y))
}

// meaning is an instruction's attributes without those that do not change what
// it computes.
func meaning(in *hlo.Instruction) *hlopb.HloInstructionProto {
	a := proto.CloneOf(in.Attr)
	if a == nil {
		return &hlopb.HloInstructionProto{}
	}
	a.Metadata, a.FrontendAttributes, a.StatisticsViz, a.OriginalValue, a.BackendConfig, a.Sharding = nil, nil, nil, nil, nil, nil
	a.ChannelId, a.FusionKind, a.OperandShapesWithLayout = 0, "", nil
	a.Name, a.Id, a.OperandIds, a.ControlPredecessorIds, a.CalledComputationIds, a.Shape, a.Literal = "", 0, nil, nil, nil, nil, nil
	return a
}

// changedAttributes says which attributes of an instruction are others now:
// numbers by their name alone, since their values belong to the program, words
// with both values.
func changedAttributes(x, y *hlo.Instruction) []string {
	var out []string
	var walk func(path string, b, a protoreflect.Message)
	value := func(path string, kind protoreflect.Kind, b, a protoreflect.Value) {
		switch kind {
		case protoreflect.StringKind, protoreflect.EnumKind, protoreflect.BoolKind:
			out = append(out, fmt.Sprintf("%s from %v to %v", path, b, a))
		default:
			out = append(out, path+" changed")
		}
	}
	walk = func(path string, b, a protoreflect.Message) {
		fields := a.Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if !b.Has(f) && !a.Has(f) || b.Get(f).Equal(a.Get(f)) {
				continue
			}
			name := strings.TrimPrefix(path+"."+string(f.Name()), ".")
			switch {
			case f.IsList():
				p, q := b.Get(f).List(), a.Get(f).List()
				switch {
				case f.Kind() == protoreflect.MessageKind && p.Len() == q.Len():
					for k := range p.Len() {
						walk(name, p.Get(k).Message(), q.Get(k).Message())
					}
				case sorted(p) == sorted(q):
					out = append(out, name+" permuted")
				default:
					out = append(out, name+" changed")
				}
			case f.Kind() == protoreflect.MessageKind:
				walk(name, b.Get(f).Message(), a.Get(f).Message())
			default:
				value(name, f.Kind(), b.Get(f), a.Get(f))
			}
		}
	}
	walk("", meaning(x).ProtoReflect(), meaning(y).ProtoReflect())
	slices.Sort(out)
	return slices.Compact(out)
}

func sorted(l protoreflect.List) string {
	var out []string
	for i := range l.Len() {
		out = append(out, fmt.Sprint(l.Get(i)))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// expression writes what an instruction computes from values that both states
// have.
type expression struct {
	*digests
	shared map[string]bool
	leaves map[string]int
	texts  map[*hlo.Instruction]string
	root   string // number of the place before the step
	tuple  string // number of the tuple of which that is an element; "" if it is none
	fused  bool   // the place was read as the result of a fusion
	// narrow are the indices of the place that overflow where others do not: which
	// of their types it is makes no other defect.
	narrow map[string]bool
}

// indices are the operands of an instruction that are places in another one.
func indices(in *hlo.Instruction) []*hlo.Instruction {
	switch n := len(in.Operands); in.Op {
	case hlo.OpGather, hlo.OpDynamicSlice:
		return in.Operands[1:]
	case hlo.OpDynamicUpdateSlice:
		return in.Operands[2:]
	case hlo.OpScatter:
		return in.Operands[n/2 : n/2+1]
	}
	return nil
}

// maxText bounds the text of one operand; longer ones are digests.
const maxText = 400

// text is an operand.
func (e *expression) text(in *hlo.Instruction) string {
	e.look(in)
	in = e.through(in)
	if t, ok := e.texts[in]; ok {
		return t
	}
	var t string
	switch vn := e.of[in]; {
	case in.Op == hlo.OpConstant:
		t = fmt.Sprintf("%s %s", kindOf(in.Literal), in.Shape.Type)
	case vn == e.root:
		t = "it"
	case in.Op == hlo.OpGetTupleElement && e.tuple != "" && e.of[in.Operands[0]] == e.tuple:
		t = "another element"
	case e.shared[vn] || in.Op == hlo.OpParameter:
		n, ok := e.leaves[vn]
		if !ok {
			n = len(e.leaves)
			e.leaves[vn] = n
		}
		if t = fmt.Sprintf("#%d %s", n, in.Shape.Type); e.narrow[vn] {
			t = fmt.Sprintf("#%d narrow index", n)
		}
	case moves(in):
		t = e.text(in.Operands[0])
	default:
		t = e.node(in)
	}
	e.texts[in] = t
	return t
}

// look notes that an operand is the place before the step, read behind the
// fusion that computes it.
func (e *expression) look(in *hlo.Instruction) {
	for in.Op == hlo.OpParameter && e.reads[in] != nil {
		in = e.reads[in]
	}
	e.fused = e.fused || in.Op == hlo.OpFusion && e.of[in] == e.root
}

// moves reports whether an instruction keeps its operand's elements in their
// order, or spreads one value.
func moves(in *hlo.Instruction) bool {
	switch in.Op {
	case hlo.OpBitcast, hlo.OpReshape:
		return in.Operands[0].Shape.Type == in.Shape.Type
	case hlo.OpCopy, hlo.OpOptBarrier:
		return true
	case hlo.OpBroadcast:
		return in.Operands[0].Shape.Rank() == 0
	}
	return false
}

// node is an instruction with its operands.
func (e *expression) node(in *hlo.Instruction) string {
	in = e.through(in)
	e.texts[in] = "loop" // never read: a program has no cycles
	var operands []string
	var read func(in *hlo.Instruction)
	read = func(in *hlo.Instruction) {
		for _, o := range in.Operands {
			e.look(o)
			if o = e.through(o); idempotent(in.Op) && o.Op == in.Op && !e.shared[e.of[o]] {
				read(o) // a chain over several dimensions is that over one
			} else {
				operands = append(operands, e.text(o))
			}
		}
	}
	read(in)
	if idempotent(in.Op) {
		slices.Sort(operands)
		if operands = slices.Compact(operands); len(operands) == 1 && in.Operands[0] != in.Operands[1] {
			return operands[0]
		}
	}
	t := kind(in) + "(" + strings.Join(operands, "; ") + ")"
	if len(t) > maxText {
		t = kind(in) + " " + digest(t)[:16]
	}
	return t
}

func idempotent(op hlo.Opcode) bool {
	return op == hlo.OpAnd || op == hlo.OpOr || op == hlo.OpMaximum || op == hlo.OpMinimum
}

// kind is an instruction by itself: opcode, element type, and the attributes
// that are words.
func kind(in *hlo.Instruction) string {
	t := in.Op.String()
	if in.Shape.IsArray() {
		t += " " + in.Shape.Type.String()
	}
	a := in.Attr
	switch in.Op {
	case hlo.OpCompare:
		t += " " + a.ComparisonDirection
		if o := in.Operands[0].Shape.Type; a.ComparisonType == "UNSIGNED" && o.IsSigned() || a.ComparisonType == "TOTALORDER" || a.ComparisonOrder == "TOTAL" && o.IsFloat() {
			t += " " + a.ComparisonType + a.ComparisonOrder
		}
	case hlo.OpWhile:
		if len(in.Called) == 2 {
			for _, c := range in.Called {
				if c.Root.Op != hlo.OpTuple {
					t += " " + kind(c.Root)
				}
			}
		}
	case hlo.OpCustomCall:
		t += " " + a.CustomCallTarget
	case hlo.OpFft:
		t += " " + a.FftType.String()
	case hlo.OpReducePrecision:
		if f := in.Shape.Type.Format(); f != nil {
			t += fmt.Sprintf(" -%d exponent -%d mantissa", f.ExponentBits-int(a.ExponentBits), f.MantissaBits-int(a.MantissaBits))
		}
	case hlo.OpReduce, hlo.OpReduceWindow, hlo.OpScatter, hlo.OpMap, hlo.OpSort, hlo.OpSelectAndScatter, hlo.OpAllReduce, hlo.OpReduceScatter:
		for _, c := range in.Called {
			t += " " + c.Root.Op.String()
		}
	}
	return t
}

// Alone is the program of one instruction of a module, on the values that it
// reads when the module runs on args; ok is false if it cannot stand alone.
func Alone(ctx context.Context, m *hlo.Module, in *hlo.Instruction, args []*eval.Value, o eval.Options) (p Program, ok bool) {
	switch in.Op {
	case hlo.OpParameter, hlo.OpConstant, hlo.OpBitcast, hlo.OpTuple:
		return p, false
	}
	rec, err := record(ctx, m, args, o)
	if err != nil {
		return p, false
	}
	if p, ok = alone(in, rec); !ok {
		return p, false
	}
	for _, c := range p.Module.Computations {
		for _, in := range c.Instructions {
			if in.Op == hlo.OpBitcast {
				return p, false // its meaning rests on layouts
			}
			in.Shape = in.Shape.WithoutLayout()
		}
	}
	for i, l := range p.Inputs {
		p.Inputs[i] = &hlo.Literal{Shape: l.Shape.WithoutLayout(), Raw: l.Raw, DynamicSizes: l.DynamicSizes}
	}
	p.Module.Scheduled = false
	return p, hlo.Verify(p.Module) == nil
}

// KernelKind is what a kernel computes, for the key of a fault behind the
// passes: the kinds of instructions in it, each once, in which sizes and what
// only moves a value do not show. A kernel that leaves its result unwritten does so
// whatever its bodies would compute: they are left out.
func KernelKind(in *hlo.Instruction, unwritten bool) string {
	var kinds []string
	kind := kind
	if unwritten {
		kind = func(in *hlo.Instruction) string { return "unwritten " + in.Op.String() }
	}
	add := func(in *hlo.Instruction) {
		if in.Op != hlo.OpParameter && in.Op != hlo.OpConstant && in.Op != hlo.OpTuple && in.Op != hlo.OpGetTupleElement && !moves(in) {
			kinds = append(kinds, kind(in))
		}
	}
	if in.Op != hlo.OpFusion {
		add(in)
	}
	for _, c := range in.Called {
		if in.Op == hlo.OpFusion || in.Op == hlo.OpCall {
			for _, in := range c.Instructions {
				add(in)
			}
		}
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), " ")
}
