package gate_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/selftest"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// shiftPrograms is the number of programs that bet on the shifted operation: an
// operation that loses in every one of them has an e-value above 500/0.05 after
// 20.
const shiftPrograms = 24

// shiftCase is program number i: the exponential of f32, and every eighth of
// the other operations, on four types.
func shiftCase(t *testing.T, i int) *fuzz.Case {
	t.Helper()
	var head, body, inputs strings.Builder
	var results, shapes []string
	add := func(shape, text string) {
		name := fmt.Sprintf("r%d", len(results))
		fmt.Fprintf(&body, "  %s = %s %s\n", name, shape, text)
		results, shapes = append(results, name), append(shapes, shape)
	}
	n := 0
	mine := func() bool { n++; return n%8 == i%8 }
	for p, typ := range []string{"f32", "f64", "f16", "bf16"} {
		fmt.Fprintf(&head, "add_%[1]s { a = %[1]s[] parameter(0) b = %[1]s[] parameter(1) ROOT c = %[1]s[] add(a, b) }\n", typ)
		x, y, row := "x_"+typ, "y_"+typ, typ+"[4,8]"
		for k, name := range []string{x, y} {
			fmt.Fprintf(&body, "  %s = %s parameter(%d)\n", name, row, 2*p+k)
			fmt.Fprintf(&inputs, "random %s seed=%d\n", row, 100*i+2*p+k)
		}
		for _, op := range []string{"exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "tan", "sine", "cosine", "sqrt", "rsqrt", "cbrt", "erf"} {
			if typ == "f32" && op == "exponential" || mine() {
				add(row, op+"("+x+")")
			}
		}
		for _, op := range []string{"power", "atan2", "divide", "add"} {
			if mine() {
				add(row, op+"("+x+", "+y+")")
			}
		}
		if mine() {
			add(typ+"[4,4]", "dot("+x+", "+y+"), lhs_contracting_dims={1}, rhs_contracting_dims={1}")
		}
		if mine() {
			fmt.Fprintf(&body, "  zero_%s = %s[] constant(0)\n", typ, typ)
			add(typ+"[4]", "reduce("+x+", zero_"+typ+"), dimensions={1}, to_apply=add_"+typ)
		}
		if mine() {
			fmt.Fprintf(&body, "  e_%[1]s = %[2]s tanh(%[3]s)\n", typ, row, x)
			add(row, "multiply(e_"+typ+", "+y+")")
		}
	}
	// Something to simplify, so that the pass in focus changes the program.
	body.WriteString("  one = f32[] constant(1)\n  ones = f32[4,8] broadcast(one), dimensions={}\n")
	add("f32[4,8]", "multiply(x_f32, ones)")
	text := fmt.Sprintf("-- module.hlo --\nHloModule shift\n%sENTRY e {\n%s  ROOT all = (%s) tuple(%s)\n}\n-- inputs --\n%s", head.String(), body.String(), strings.Join(shapes, ", "), strings.Join(results, ", "), inputs.String())
	c, err := fuzz.ReadCase(fmt.Sprintf("shift-%02d.case", i), []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// shiftExponential moves every normal exponential of f32 one ULP away from the
// exponential of f64: its error grows by one ULP, not more and not less. It stays
// within the budget of the operation.
func shiftExponential(m *hlo.Module) (*hlo.Module, bool) {
	m = m.Clone()
	c := m.Entry
	changed := false
	for _, in := range slices.Clone(c.Instructions) {
		if in.Op != hlo.OpExponential || in.Shape.Type != hlo.F32 {
			continue
		}
		at := slices.Index(c.Instructions, in) + 1
		add := func(op hlo.Opcode, t hlo.PrimitiveType, operands ...*hlo.Instruction) *hlo.Instruction {
			n := hlo.NewInstruction(fmt.Sprintf("%s.shift%d", in.Name, at), op, hlo.ArrayShape(t, in.Shape.Dims...), operands...)
			c.Instructions = slices.Insert(c.Instructions, at, n)
			at++
			return n
		}
		constant := func(t hlo.PrimitiveType, set func(*hlo.Literal)) *hlo.Instruction {
			n := add(hlo.OpConstant, t)
			n.Shape = hlo.ArrayShape(t)
			n.Literal = hlo.NewLiteral(n.Shape)
			set(n.Literal)
			return add(hlo.OpBroadcast, t, n)
		}
		compare := func(direction string, a, b *hlo.Instruction) *hlo.Instruction {
			n := add(hlo.OpCompare, hlo.Pred, a, b)
			n.Attr.ComparisonDirection, n.Attr.ComparisonType, n.Attr.ComparisonOrder = direction, "FLOAT", "PARTIAL"
			return n
		}
		float := func(v float64) *hlo.Instruction {
			return constant(hlo.F32, func(l *hlo.Literal) { l.SetFloat(0, v) })
		}
		x := in.Operands[0]
		above := compare("GE", add(hlo.OpConvert, hlo.F64, in), add(hlo.OpExponential, hlo.F64, add(hlo.OpConvert, hlo.F64, x)))
		bits := add(hlo.OpBitcastConvert, hlo.U32, in)
		one := constant(hlo.U32, func(l *hlo.Literal) { l.SetInt(0, 1) })
		moved := add(hlo.OpBitcastConvert, hlo.F32, add(hlo.OpSelect, hlo.U32, above, add(hlo.OpAdd, hlo.U32, bits, one), add(hlo.OpSubtract, hlo.U32, bits, one)))
		normal := add(hlo.OpAnd, hlo.Pred, compare("GT", in, float(0x1p-120)), compare("LT", in, float(0x1p120)))
		inexact := add(hlo.OpAnd, hlo.Pred, normal, compare("NE", x, float(0)))
		shifted := add(hlo.OpSelect, hlo.F32, inexact, moved, in)
		shifted.Shape = in.Shape.Clone()
		for _, user := range c.Instructions[at:] {
			for i, o := range user.Operands {
				if o == in {
					user.Operands[i] = shifted
				}
			}
		}
		changed = true
	}
	return m, changed
}

// TestOneULPOnARealBuild: a build whose algsimp makes every exponential of f32
// one ULP worse, which no legal set forbids, is told from itself among 500
// cells, by that operation alone, with an interval that holds 1.
func TestOneULPOnARealBuild(t *testing.T) {
	t.Parallel()
	pool, b := workertest.Open(t, 2, "xla-2026-06")
	planted := &selftest.Composite{Runner: pool, Build: b[0], Head: selftest.Marked(b[0], "exponential one ULP worse"), Pipeline: "simplification", Pass: "algsimp",
		Route: selftest.Again, TempDir: t.TempDir(), Change: shiftExponential}
	cfg := gate.Config{Base: b[0], Head: planted.Head, Runner: planted, Now: time.Now, Seed: 1, Workers: 2, Policy: &policy.Policy{Streams: []string{gate.ComparisonFlags}}}
	for _, name := range []string{"algsimp", "fusion"} {
		cfg.Passes = append(cfg.Passes, gate.Focus{Name: name, Weight: 6, Matches: func(step string) bool { return step == name }})
	}
	cfg.TempDir = func() (string, func(), error) {
		dir, err := os.MkdirTemp(t.TempDir(), "dump")
		return dir, func() { os.RemoveAll(dir) }, err
	}
	cfg.Steps = gate.ReadSteps
	for i := range shiftPrograms {
		cfg.Cases = append(cfg.Cases, shiftCase(t, i))
	}
	res, err := gate.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range res.Findings {
		if f.Status == gate.ReferenceDisputed && strings.Contains(f.Instruction, "log-plus-one") {
			continue // beyond its budget in f64, on base and head
		}
		if f.Class != gate.NumericDegradation || f.Status != gate.New || f.Blocking || f.Instruction != "exponential" ||
			!slices.Equal(f.Witnesses, []string{gate.WitnessStatistics}) || !strings.Contains(f.Detail, "exponential f32") || !strings.Contains(f.Detail, "within the budget of") {
			t.Errorf("%s %s, blocking %t, %s: %s", f.Class, f.Status, f.Blocking, f.Instruction, f.Detail)
		}
	}
	if n := len(res.Statistics.Cells); n < 500 {
		t.Errorf("%d cells, want 500", n)
	}
	found := 0
	for _, c := range res.Statistics.Cells {
		if c.Operation != "exponential" || c.Dtype != "f32" {
			if c.Discovered {
				t.Errorf("%s %s %s, %s inputs: discovered, shift %s", c.Pass, c.Operation, c.Dtype, c.Stream, c.Shift)
			}
			continue
		}
		t.Logf("%s, %s inputs: %d programs, e-value %.3g, shift %s ULP, ratio %s", c.Pass, c.Stream, c.Programs, c.E, c.Shift, c.Ratio)
		if c.Stream != fuzz.OwnStream && c.Stream != fuzz.RandomStream {
			continue // few of their exponentials are normal numbers
		}
		found++
		if !c.Discovered || c.Shift.Low == nil || c.Shift.High == nil || *c.Shift.Low <= 0.5 || *c.Shift.Low > 1 || *c.Shift.High < 1 {
			t.Errorf("%s, %s inputs: discovered %t, shift %s", c.Pass, c.Stream, c.Discovered, c.Shift)
		}
	}
	if found != 4 {
		t.Errorf("%d cells of the shifted operation on own and random inputs, want those of two passes", found)
	}
}
