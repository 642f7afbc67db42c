package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// LegalDifference is an output on which base and head differ and both are
// right: the rule that allows it and the numbers.
type LegalDifference struct {
	Output string `json:"output"`
	Stream string `json:"stream"`
	Flags  string `json:"flags"`
	// Differing counts the elements that differ.
	Differing int64  `json:"differing"`
	Rule      string `json:"rule"`
	// Bound and Seen are those of the element that comes nearest to its bound:
	// the half-width of its legal set, and the larger of the two builds'
	// distances from its centre.
	Bound float64 `json:"bound"`
	Seen  float64 `json:"seen"`
}

// String is "sum of 1024 f32: bound 3.1e-2, seen 4.0e-4".
func (d *LegalDifference) String() string {
	return fmt.Sprintf("%s: bound %.1e, seen %.1e", d.Rule, d.Bound, d.Seen)
}

// source says what an output's value comes from, as far as its accuracy goes.
type source struct {
	// operation is the opcode if one kind of inexact operation made the output,
	// "arithmetic" for additions, subtractions and multiplications, "composed"
	// for more than one kind, "exact" for none.
	operation string
	rule      string
}

// maxRule bounds the operations that a rule lists.
const maxRule = 4

// sources describes every leaf of a program's result.
func sources(m *hlo.Module) []source {
	if m == nil {
		return nil
	}
	var out []source
	for _, root := range leafRoots(m.Entry.Root) {
		out = append(out, sourceOf(root))
	}
	return out
}

// leafRoots are the instructions that the leaves of a result come from: the
// operands of a tuple, else the instruction itself for each of its leaves.
func leafRoots(in *hlo.Instruction) []*hlo.Instruction {
	if in.Op == hlo.OpTuple {
		var out []*hlo.Instruction
		for _, o := range in.Operands {
			out = append(out, leafRoots(o)...)
		}
		return out
	}
	return slices.Repeat([]*hlo.Instruction{in}, len(in.Shape.Leaves()))
}

// term is an inexact operation on a type, with the largest number of terms that
// one of its results sums up (1 if it sums nothing).
type term struct {
	name, dtype string
	terms       int64
}

func sourceOf(root *hlo.Instruction) source {
	terms := map[[2]string]int64{}
	seen := map[any]bool{}
	var walk func(in *hlo.Instruction)
	body := func(c *hlo.Computation) {
		if !seen[c] {
			seen[c] = true
			walk(c.Root)
		}
	}
	walk = func(in *hlo.Instruction) {
		if seen[in] {
			return
		}
		seen[in] = true
		if name, n := inexact(in); name != "" {
			k := [2]string{name, arithmeticType(in).String()}
			terms[k] = max(terms[k], n)
		}
		for _, o := range in.Operands {
			walk(o)
		}
		for _, c := range in.Called {
			// A reducer's additions are the reduction's.
			switch in.Op {
			case hlo.OpReduce, hlo.OpReduceWindow, hlo.OpScatter, hlo.OpSelectAndScatter, hlo.OpAllReduce, hlo.OpReduceScatter, hlo.OpSort:
			default:
				body(c)
			}
		}
	}
	walk(root)
	names := map[string]bool{}
	var rules []string
	for _, k := range slices.SortedFunc(maps.Keys(terms), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		names[k[0]] = true
		rules = append(rules, ruleOf(term{k[0], k[1], terms[k]}))
	}
	var s source
	switch len(names) {
	case 0:
		s.operation, s.rule = "exact", "no inexact operation"
	case 1:
		for s.operation = range names {
		}
	default:
		s.operation = "composed"
	}
	if n := len(rules); n > maxRule {
		rules = append(rules[:maxRule], fmt.Sprintf("%d more kinds of operations", n-maxRule))
	}
	if s.rule == "" {
		s.rule = strings.Join(rules, ", ")
	}
	return s
}

func arithmeticType(in *hlo.Instruction) hlo.PrimitiveType {
	t := in.Shape.Leaves()[0].Type
	if in.Op == hlo.OpConvert && len(in.Operands) > 0 {
		return in.Shape.Type
	}
	return t
}

// declared are the ULPs that the table of budgets (hlo/eval/budgets.go) allows
// an operation on a type, the relative part at its largest (2 ULP an epsilon);
// ok is false if it has no row.
func declared(op, dtype string) (ulps float64, ok bool) {
	ulps, ok = declaredULPs[[2]string{op, dtype}]
	return ulps, ok
}

var declaredULPs = func() map[[2]string]float64 {
	out := map[[2]string]float64{}
	for _, b := range eval.Budgets() {
		out[[2]string{b.Op.String(), b.Type.String()}] = b.Ulps + 2*b.Eps
	}
	return out
}()

// ruleOf is the legal-variation rule of an operation in words.
func ruleOf(t term) string {
	switch ulps, ok := declared(t.name, t.dtype); {
	case ok:
		return fmt.Sprintf("%s of %s within %.4g ULP", t.name, t.dtype, ulps)
	case t.name == "dot" || t.name == "convolution":
		return fmt.Sprintf("%s of %s %s in any order, fused or not", t.name, thousands(t.terms), t.dtype)
	case t.terms > 1:
		return fmt.Sprintf("sum of %s %s in any order (%s)", thousands(t.terms), t.dtype, t.name)
	case t.name == "arithmetic":
		return fmt.Sprintf("%s arithmetic, half a ULP each, fused or not", t.dtype)
	case t.name == "convert" || t.name == "reduce-precision":
		return fmt.Sprintf("rounding to %s, once or more", t.dtype)
	}
	return fmt.Sprintf("%s of %s", t.name, t.dtype)
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// inexact names an operation that rounds, "" for one that does not, and counts
// the terms that one result sums up.
func inexact(in *hlo.Instruction) (name string, terms int64) {
	if !in.Shape.IsArray() && !in.Shape.IsTuple() {
		return "", 0
	}
	leaves := in.Shape.Leaves()
	if len(leaves) == 0 {
		return "", 0
	}
	t := leaves[0].Type
	if !t.IsFloat() && !t.IsComplex() {
		return "", 0
	}
	op := in.Op.String()
	if _, ok := declared(op, t.String()); ok {
		return op, 1
	}
	elems := func(s *hlo.Shape) int64 { return max(1, s.Elems()) }
	switch in.Op {
	case hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply:
		return "arithmetic", 1
	case hlo.OpConvert:
		from := in.Operands[0].Shape.Type
		if f, g := from.Real().Format(), t.Real().Format(); f != nil && g != nil && f.MantissaBits <= g.MantissaBits && f.ExponentBits <= g.ExponentBits {
			return "", 0
		}
		return op, 1
	case hlo.OpReducePrecision:
		return op, 1
	case hlo.OpReduce:
		n := int64(1)
		for _, d := range in.Dimensions() {
			n *= max(1, in.Operands[0].Shape.Dims[d])
		}
		if !adds(in) {
			return "", 0
		}
		return op, n
	case hlo.OpReduceWindow, hlo.OpSelectAndScatter:
		n := int64(1)
		for _, d := range in.Attr.GetWindow().GetDimensions() {
			n *= max(1, d.GetSize())
		}
		if !adds(in) {
			return "", 0
		}
		return op, n
	case hlo.OpDot:
		n := int64(1)
		for _, d := range in.Attr.GetDotDimensionNumbers().GetLhsContractingDimensions() {
			n *= max(1, in.Operands[0].Shape.Dims[d])
		}
		return op, n
	case hlo.OpConvolution:
		n := int64(1)
		for _, d := range in.Attr.GetWindow().GetDimensions() {
			n *= max(1, d.GetSize())
		}
		d := in.Attr.GetConvolutionDimensionNumbers().GetKernelInputFeatureDimension()
		return op, n * max(1, in.Operands[1].Shape.Dims[d])
	case hlo.OpScatter:
		if !adds(in) {
			return "", 0
		}
		return op, elems(in.Operands[len(in.Operands)-1].Shape)
	case hlo.OpFft, hlo.OpCholesky, hlo.OpTriangularSolve:
		return op, 1
	case hlo.OpCustomCall:
		return op, 1
	case hlo.OpBatchNormTraining, hlo.OpBatchNormInference, hlo.OpBatchNormGrad, hlo.OpRaggedDot, hlo.OpAllReduce, hlo.OpReduceScatter:
		return op, 1
	}
	return "", 0
}

// adds reports whether the last called computation (a reducer) does any inexact
// arithmetic.
func adds(in *hlo.Instruction) bool {
	if len(in.Called) == 0 {
		return false
	}
	for _, r := range in.Called[len(in.Called)-1].Instructions {
		if name, _ := inexact(r); name != "" {
			return true
		}
	}
	return false
}
