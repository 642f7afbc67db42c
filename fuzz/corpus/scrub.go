package corpus

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Removed counts what a scrub took away.
type Removed struct {
	// Metadata counts instructions that named operations, source files and
	// lines; Names everything renamed; Attributes frontend attributes, Shardings
	// the notes inside sharding annotations, Tables the module's tables of
	// files, stack frames, profiles and original values.
	Metadata, Names, Attributes, Shardings, Tables int
	// Configs counts backend configurations dropped, each of an instruction
	// that means the same without.
	Configs int
	// Constants and Elements count the constants (and inputs) whose values were
	// replaced by others of the same class.
	Constants int
	Elements  int64
}

// Add sums up.
func (r *Removed) Add(o Removed) {
	r.Metadata += o.Metadata
	r.Names += o.Names
	r.Attributes += o.Attributes
	r.Shardings += o.Shardings
	r.Tables += o.Tables
	r.Configs += o.Configs
	r.Constants += o.Constants
	r.Elements += o.Elements
}

// String is a sentence about what is gone.
func (r Removed) String() string {
	return fmt.Sprintf("removed metadata of %d instructions, %d names, %d frontend attributes, %d notes on shardings, %d backend configurations, %d tables; replaced %d constants and inputs (%d elements)",
		r.Metadata, r.Names, r.Attributes, r.Shardings, r.Configs, r.Tables, r.Constants, r.Elements)
}

// keptElements is the size up to which a constant keeps its values: shapes,
// axes, strides and coefficients of formulas, which decide what a compiler
// does, are that small; weights and data are larger.
const keptElements = 16

// Scrub takes out of a module what tells about the job it comes from: names,
// metadata (operation names, source files, stack frames), frontend attributes,
// notes on shardings, profiles; and, unless keepConstants, the values of
// constants of more than 16 elements, which become others of the same class
// (see likeness). The names of custom-call targets stay: they are meaning.
func Scrub(m *hlo.Module, keepConstants bool) Removed {
	var r Removed
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			a := in.Attr
			if a.Metadata != nil {
				a.Metadata = nil
				r.Metadata++
			}
			if a.OriginalValue != nil {
				a.OriginalValue = nil
				r.Tables++
			}
			if a.StatisticsViz != nil {
				a.StatisticsViz = nil
				r.Tables++
			}
			r.Attributes += len(a.GetFrontendAttributes().GetMap())
			a.FrontendAttributes = nil
			if in.Op != hlo.OpCustomCall && in.Op != hlo.OpFusion && (len(a.BackendConfig) > 0 || a.BackendConfigPayload != nil) {
				a.BackendConfig, a.BackendConfigPayload = nil, nil
				r.Configs++
			}
			r.Shardings += scrubSharding(a.Sharding)
			if in.Op == hlo.OpConstant && in.Literal != nil && !keepConstants {
				in.Literal = copied(in.Literal) // clones of a module share literals
				for _, l := range in.Literal.Leaves() {
					if l.Shape.Elems() > keptElements && likeness(l) {
						r.Constants++
						r.Elements += l.Shape.Elems()
					}
				}
			}
		}
	}
	a := m.Attr
	for _, t := range []struct {
		has  bool
		drop func()
	}{
		{a.StackFrameIndex != nil, func() { a.StackFrameIndex = nil }},
		{len(a.ProfileInfo) > 0, func() { a.ProfileInfo = nil }},
		{a.OriginalValueRecoveryTable != nil, func() { a.OriginalValueRecoveryTable = nil }},
		{len(a.DebugAttributes) > 0, func() { a.DebugAttributes = nil }},
		{len(a.Payloads) > 0, func() { a.Payloads = nil }},
		{len(a.GetFrontendAttributes().GetMap()) > 0, func() { r.Attributes += len(a.FrontendAttributes.Map); a.FrontendAttributes = nil }},
	} {
		if t.has {
			t.drop()
			r.Tables++
		}
	}
	m.TextAttrs = nil
	r.Names += rename(m)
	return r
}

func scrubSharding(s *hlopb.OpSharding) int {
	if s == nil {
		return 0
	}
	n := len(s.Metadata)
	s.Metadata = nil
	for _, t := range s.TupleShardings {
		n += scrubSharding(t)
	}
	return n
}

func cloneAttr(a *hlopb.HloInstructionProto) *hlopb.HloInstructionProto {
	return proto.Clone(a).(*hlopb.HloInstructionProto)
}

// rename gives computations and instructions names that say nothing but the
// opcode, and the module one that says nothing; it returns how many names were
// others.
func rename(m *hlo.Module) int {
	n := 0
	set := func(name *string, to string) {
		if *name != to {
			*name = to
			n++
		}
	}
	set(&m.Name, "m")
	number := 0
	for i, c := range m.Computations {
		name := fmt.Sprintf("c%d", i)
		if c == m.Entry {
			name = "entry"
		}
		set(&c.Name, name)
		for _, in := range c.Instructions {
			set(&in.Name, fmt.Sprintf("%s.%d", in.Op, number))
			number++
		}
	}
	return n
}

// likeness replaces the values of an array by others of the same class, drawn
// from a generator that depends on the array's shape alone; it reports whether
// it did. What compilers look at stays: a constant of equal elements, a count
// 0, 1, 2, ..., and a mask stay as they are; zeros, ones, infinities, NaNs and
// signs stay in their places; whole numbers stay whole and in their range;
// sorted values stay sorted, and distinct ones in a permutation of 0..n-1 stay
// one. Other floats get a random significand and keep their exponent, up to
// one.
func likeness(l *hlo.Literal) bool {
	t, n := l.Shape.Type, l.Shape.Elems()
	if t == hlo.Pred || uniform(l) || counts(l) {
		return false
	}
	r := rand.New(rand.NewPCG(uint64(t), uint64(n)))
	switch {
	case t.IsComplex():
		for i := range n {
			v := l.Complex(i)
			l.SetComplex(i, complex(vary(r, real(v)), vary(r, imag(v))))
		}
	case t.IsFloat():
		values := make([]float64, n)
		for i := range n {
			values[i] = l.Float(i)
		}
		sorted := slices.IsSorted(values)
		for i, v := range values {
			values[i] = vary(r, v)
		}
		if sorted {
			slices.Sort(values)
		}
		for i, v := range values {
			l.SetFloat(int64(i), v)
		}
	default:
		values := make([]int64, n)
		for i := range n {
			values[i] = l.Int(i)
		}
		less := func(a, b int64) int { return cmp.Compare(a, b) }
		if t == hlo.U64 {
			less = func(a, b int64) int { return cmp.Compare(uint64(a), uint64(b)) }
		}
		sorted := slices.IsSortedFunc(values, less)
		order := slices.Clone(values)
		slices.SortFunc(order, less)
		lo, hi := order[0], order[len(order)-1]
		switch span := uint64(hi) - uint64(lo); {
		case lo == 0 && hi == n-1 && len(slices.Compact(order)) == int(n):
			r.Shuffle(int(n), func(i, j int) { values[i], values[j] = values[j], values[i] })
		case span == math.MaxUint64:
			for i := range values {
				values[i] = int64(r.Uint64())
			}
		default:
			for i, v := range values {
				if v != 0 && v != 1 {
					values[i] = int64(uint64(lo) + r.Uint64N(span+1))
				}
			}
		}
		if sorted {
			slices.SortFunc(values, less)
		}
		for i, v := range values {
			l.SetInt(int64(i), v)
		}
	}
	return true
}

func vary(r *rand.Rand, v float64) float64 {
	switch {
	case v == 0 || v == 1 || v == -1 || math.IsNaN(v) || math.IsInf(v, 0):
		return v
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return math.Copysign(float64(1+r.Uint64N(uint64(math.Abs(v))*2)), v)
	}
	_, exponent := math.Frexp(v)
	return math.Copysign(math.Ldexp(0.5+r.Float64()/2, exponent), v)
}

// copied is a literal with memory of its own.
func copied(l *hlo.Literal) *hlo.Literal {
	out := *l
	out.Raw = slices.Clone(l.Raw)
	out.Elements = nil
	for _, e := range l.Elements {
		out.Elements = append(out.Elements, copied(e))
	}
	return &out
}

func uniform(l *hlo.Literal) bool {
	for i := range l.Shape.Elems() {
		if l.Bits(i) != l.Bits(0) {
			return false
		}
	}
	return true
}

func counts(l *hlo.Literal) bool {
	if !l.Shape.Type.IsInteger() {
		return false
	}
	for i := range l.Shape.Elems() {
		if l.Int(i) != i {
			return false
		}
	}
	return true
}
