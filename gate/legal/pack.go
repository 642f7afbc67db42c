// Package legal is a pack of changes that a correct compiler may make and that
// change bits: the gate must let every one of them through, and say by which
// rule and which number. It is the opposite of selftest's planted defects.
package legal

import (
	"fmt"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
)

// Change is a legal change: base computes Before; head computes After, or
// Before under other options of the compiler.
type Change struct {
	Kind, Name string
	Before     *fuzz.Case
	After      *hlo.Module
	Options    map[string]string
}

// The kinds of changes.
const (
	Reassociation = "reassociation"
	TreeSum       = "tree sum"
	Splitting     = "reduction splitting"
	FMA           = "fused multiply-add"
	Division      = "rsqrt and division forms"
	Excess        = "excess precision"
	LibraryDot    = "library dots"
	VectorWidth   = "vector width"
	FlushToZero   = "flush to zero"
	Function      = "function within budget"
	// Audit changes nothing: it looks at every function of the build against its
	// declared budget.
	Audit = "declared budget"
)

type pack struct {
	changes []Change
	err     error
}

// prelude holds the reducers of the programs.
func prelude(t string) string {
	return fmt.Sprintf("sum { a = %[1]s[] parameter(0) b = %[1]s[] parameter(1) ROOT c = %[1]s[] add(a, b) }\n", t)
}

func (p *pack) module(name, t, body string) (string, *hlo.Module) {
	head := ""
	if strings.Contains(body, "to_apply=sum") {
		head = prelude(t)
	}
	text := "HloModule " + name + "\n" + head + "ENTRY e {\n" + body + "\n}\n"
	m, err := hlo.Parse(name, []byte(text))
	if err == nil {
		err = hlo.Verify(m)
	}
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("legal pack: %s: %w", name, err)
	}
	return text, m
}

// add makes a change of two bodies; "" for after is the same program.
func (p *pack) add(kind, name, t, inputs, before, after string, options map[string]string) {
	name = hlo.SanitizeName(name)
	text, _ := p.module(name, t, before)
	c := &Change{Kind: kind, Name: name, Options: options}
	var err error
	if c.Before, err = fuzz.ReadCase(name+".case", []byte("-- module.hlo --\n"+text+"-- inputs --\n"+inputs)); err != nil && p.err == nil {
		p.err = err
	}
	if after != "" {
		if _, c.After = p.module(name, t, after); c.After != nil {
			hold(c.After.Entry)
		}
	}
	p.changes = append(p.changes, *c)
}

// hold puts a barrier behind every intermediate result, so that the compiler
// does not undo the change.
func hold(c *hlo.Computation) {
	var out []*hlo.Instruction
	held := map[*hlo.Instruction]*hlo.Instruction{}
	for _, in := range c.Instructions {
		for i, o := range in.Operands {
			if held[o] != nil {
				in.Operands[i] = held[o]
			}
		}
		out = append(out, in)
		switch in.Op {
		case hlo.OpParameter, hlo.OpConstant, hlo.OpBroadcast:
			continue
		}
		if in != c.Root {
			held[in] = hlo.NewInstruction(in.Name+".held", hlo.OpOptBarrier, in.Shape, in)
			out = append(out, held[in])
		}
	}
	c.Instructions = out
}

// tame replaces inputs that are not of moderate size by one, so that a form of
// an expression may be replaced by another without overflow: the change is legal
// on every input stream.
func tame(t string, n int) string {
	return fmt.Sprintf(`  p = %[1]s[%[2]d] parameter(0)
  m = %[1]s[%[2]d] abs(p)
  lo1 = %[1]s[] constant(0.0625)
  hi1 = %[1]s[] constant(16)
  lo = %[1]s[%[2]d] broadcast(lo1), dimensions={}
  hi = %[1]s[%[2]d] broadcast(hi1), dimensions={}
  ge = pred[%[2]d] compare(m, lo), direction=GE
  le = pred[%[2]d] compare(m, hi), direction=LE
  ok = pred[%[2]d] and(ge, le)
  one1 = %[1]s[] constant(1)
  one = %[1]s[%[2]d] broadcast(one1), dimensions={}
  x = %[1]s[%[2]d] select(ok, p, one)
`, t, n)
}

// Pack makes all changes.
func Pack() ([]Change, error) {
	p := &pack{}
	p.chains()
	p.sums()
	p.forms()
	p.dots()
	p.functions()
	return p.changes, p.err
}

// chains are additions and multiplications in another order, fused, and with
// fewer roundings.
func (p *pack) chains() {
	for _, t := range []string{"f32", "f64"} {
		for _, op := range []string{"add", "multiply"} {
			left, right := tame(t, 64), tame(t, 64)
			var parts strings.Builder
			for i := range 4 {
				fmt.Fprintf(&parts, "  k%[1]d = %[2]s[] constant(%[3]v)\n  c%[1]d = %[2]s[64] broadcast(k%[1]d), dimensions={}\n", i, t, []float64{0.3, 1.7, -0.9, 2.1}[i])
			}
			left += parts.String() + fmt.Sprintf("  q0 = %[1]s[64] %[2]s(x, c0)\n  q1 = %[1]s[64] %[2]s(q0, c1)\n  q2 = %[1]s[64] %[2]s(q1, c2)\n  ROOT q3 = %[1]s[64] %[2]s(q2, c3)", t, op)
			right += parts.String() + fmt.Sprintf("  q0 = %[1]s[64] %[2]s(c2, c3)\n  q1 = %[1]s[64] %[2]s(c1, q0)\n  q2 = %[1]s[64] %[2]s(c0, q1)\n  ROOT q3 = %[1]s[64] %[2]s(x, q2)", t, op)
			p.add(Reassociation, "chain-"+op+"-"+t, t, "random "+t+"[64] seed=1\n", left, right, nil)
		}
		p.add(Reassociation, "distribute-"+t, t, "random "+t+"[64] seed=2\n",
			tame(t, 64)+fmt.Sprintf("  y = %[1]s[64] multiply(x, x)\n  k = %[1]s[] constant(0.7)\n  c = %[1]s[64] broadcast(k), dimensions={}\n  z = %[1]s[64] multiply(y, c)\n  w = %[1]s[64] multiply(x, c)\n  ROOT r = %[1]s[64] add(z, w)", t),
			tame(t, 64)+fmt.Sprintf("  y = %[1]s[64] multiply(x, x)\n  k = %[1]s[] constant(0.7)\n  c = %[1]s[64] broadcast(k), dimensions={}\n  z = %[1]s[64] add(y, x)\n  ROOT r = %[1]s[64] multiply(z, c)", t), nil)
	}
	wide := func(narrow string, before, steps string) (string, string) {
		w := map[string]string{"f32": "f64", "f16": "f32", "bf16": "f32"}[narrow]
		after := tame(narrow, 64) + fmt.Sprintf("  v = %[2]s[64] convert(x)\n%[3]s  ROOT r = %[1]s[64] convert(q)", narrow, w, strings.NewReplacer("$", w, "x", "v", "ROOT r", "q").Replace(steps))
		return tame(narrow, 64) + strings.ReplaceAll(before, "$", narrow), after
	}
	polynomials := map[string]string{
		"square-plus":  "  a = $[64] multiply(x, x)\n  ROOT r = $[64] add(a, x)\n",
		"cube-minus":   "  a = $[64] multiply(x, x)\n  b = $[64] multiply(a, x)\n  ROOT r = $[64] subtract(b, x)\n",
		"horner":       "  a = $[64] multiply(x, x)\n  b = $[64] add(a, x)\n  c = $[64] multiply(b, x)\n  ROOT r = $[64] add(c, b)\n",
		"sum-of-terms": "  a = $[64] add(x, x)\n  b = $[64] multiply(a, x)\n  c = $[64] add(b, a)\n  d = $[64] add(c, b)\n  ROOT r = $[64] add(d, x)\n",
	}
	for _, name := range []string{"square-plus", "cube-minus", "horner", "sum-of-terms"} {
		for _, t := range []string{"f32", "f16", "bf16"} {
			kind := Excess
			if t == "f32" {
				kind = FMA // products that are not rounded before they are added
			}
			before, after := wide(t, polynomials[name], polynomials[name])
			p.add(kind, name+"-"+t, t, "random "+t+"[64] seed=3\n", before, after, nil)
		}
	}
}

// sums are reductions in other orders, trees and parts.
func (p *pack) sums() {
	for _, t := range []string{"f32", "f64"} {
		for _, n := range []int{64, 1024, 4096, 16384, 65536, 2097152} {
			if n > 65536 && t == "f64" {
				continue
			}
			inputs := fmt.Sprintf("random %s[%d] seed=%d\n", t, n, n)
			x := fmt.Sprintf("  x = %s[%d] parameter(0)\n  z = %[1]s[] constant(0)\n", t, n)
			before := x + fmt.Sprintf("  ROOT r = %s[] reduce(x, z), dimensions={0}, to_apply=sum", t)
			k := 1
			for k*k < n {
				k *= 2
			}
			tree := x + fmt.Sprintf("  y = %[1]s[%[2]d,%[3]d] reshape(x)\n  a = %[1]s[%[3]d] reduce(y, z), dimensions={0}, to_apply=sum\n  ROOT r = %[1]s[] reduce(a, z), dimensions={0}, to_apply=sum", t, n/k, k)
			p.add(TreeSum, fmt.Sprintf("two-stages-%d-%s", n, t), t, inputs, before, tree, nil)
			if n > 65536 {
				continue
			}
			halves := x + fmt.Sprintf("  a = %[1]s[%[2]d] slice(x), slice={[0:%[2]d]}\n  b = %[1]s[%[2]d] slice(x), slice={[%[2]d:%[3]d]}\n  s = %[1]s[] reduce(a, z), dimensions={0}, to_apply=sum\n  t = %[1]s[] reduce(b, z), dimensions={0}, to_apply=sum\n  ROOT r = %[1]s[] add(s, t)", t, n/2, n)
			p.add(Splitting, fmt.Sprintf("halves-%d-%s", n, t), t, inputs, before, halves, nil)
			reversed := x + fmt.Sprintf("  y = %[1]s[%[2]d] reverse(x), dimensions={0}\n  ROOT r = %[1]s[] reduce(y, z), dimensions={0}, to_apply=sum", t, n)
			p.add(TreeSum, fmt.Sprintf("backwards-%d-%s", n, t), t, inputs, before, reversed, nil)
		}
	}
}

// forms are other forms of divisions and roots, and flushed subnormals.
func (p *pack) forms() {
	constant := func(t, name, value string) string {
		return fmt.Sprintf("  %[2]s1 = %[1]s[] constant(%[3]s)\n  %[2]s = %[1]s[64] broadcast(%[2]s1), dimensions={}\n", t, name, value)
	}
	for _, t := range []string{"f32", "f64"} {
		in := "random " + t + "[64] seed=5\n"
		p.add(Division, "root-"+t, t, in,
			tame(t, 64)+fmt.Sprintf("  a = %[1]s[64] abs(x)\n  ROOT r = %[1]s[64] rsqrt(a)", t),
			tame(t, 64)+fmt.Sprintf("  a = %[1]s[64] abs(x)\n  s = %[1]s[64] sqrt(a)\n  ROOT r = %[1]s[64] divide(one, s)", t), nil)
		for name, c := range map[string]string{"three": "3", "pi": "3.14159265358979"} {
			p.add(Division, "divide-by-"+name+"-"+t, t, in,
				tame(t, 64)+constant(t, "c", c)+fmt.Sprintf("  ROOT r = %[1]s[64] divide(x, c)", t),
				tame(t, 64)+constant(t, "c", c)+fmt.Sprintf("  i = %[1]s[64] divide(one, c)\n  ROOT r = %[1]s[64] multiply(x, i)", t), nil)
		}
		tiny := map[string]string{"f32": "1.17549435e-38", "f64": "2.2250738585072014e-308"}[t]
		small := map[string]string{"f32": "3e-39", "f64": "3e-309"}[t]
		product := fmt.Sprintf("  p = %[1]s[64] parameter(0)\n", t) + constant(t, "half", "0.5") + fmt.Sprintf("  y = %[1]s[64] multiply(p, half)\n", t)
		p.add(FlushToZero, "product-"+t, t, "const "+t+"[64] "+small+"\n",
			strings.Replace(product, "  y =", "  ROOT y =", 1),
			product+constant(t, "tiny", tiny)+constant(t, "zero", "0")+fmt.Sprintf("  m = %[1]s[64] abs(y)\n  s = pred[64] compare(m, tiny), direction=LT\n  f = %[1]s[64] multiply(y, zero)\n  ROOT r = %[1]s[64] select(s, f, y)", t), nil)
	}
}

// noLibraries and widths are options of XLA's CPU compiler (xla/xla.proto).
var (
	noLibraries = map[string]string{"xla_cpu_use_onednn": "false", "xla_cpu_use_xnnpack": "false", "xla_cpu_experimental_onednn_fusion_type": "",
		"xla_cpu_experimental_xnn_fusion_type": "", "xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_multi_thread_eigen": "false"}
	widths = []map[string]string{
		{"xla_cpu_prefer_vector_width": "128"},
		{"xla_cpu_prefer_vector_width": "512"},
		{"xla_cpu_max_isa": "SSE4_2"},
	}
)

// dots are contractions by a library, by loops, and swapped.
func (p *pack) dots() {
	for _, t := range []string{"f32", "f64"} {
		for _, n := range []int{8, 64, 200} {
			inputs := fmt.Sprintf("random %[1]s[%[2]d,%[2]d] seed=7\nrandom %[1]s[%[2]d,%[2]d] seed=8\n", t, n)
			params := fmt.Sprintf("  a = %[1]s[%[2]d,%[2]d] parameter(0)\n  b = %[1]s[%[2]d,%[2]d] parameter(1)\n", t, n)
			dot := params + fmt.Sprintf("  ROOT r = %[1]s[%[2]d,%[2]d] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", t, n)
			p.add(LibraryDot, fmt.Sprintf("no-library-%d-%s", n, t), t, inputs, dot, "", noLibraries)
			p.add(LibraryDot, fmt.Sprintf("swapped-%d-%s", n, t), t, inputs, dot,
				params+fmt.Sprintf("  s = %[1]s[%[2]d,%[2]d] dot(b, a), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n  ROOT r = %[1]s[%[2]d,%[2]d] transpose(s), dimensions={1,0}", t, n), nil)
			if n == 64 {
				p.add(LibraryDot, fmt.Sprintf("loops-%d-%s", n, t), t, inputs, dot,
					params+fmt.Sprintf("  z = %[1]s[] constant(0)\n  u = %[1]s[%[2]d,%[2]d,%[2]d] broadcast(a), dimensions={0,1}\n  v = %[1]s[%[2]d,%[2]d,%[2]d] broadcast(b), dimensions={1,2}\n  w = %[1]s[%[2]d,%[2]d,%[2]d] multiply(u, v)\n  ROOT r = %[1]s[%[2]d,%[2]d] reduce(w, z), dimensions={1}, to_apply=sum", t, n), nil)
			}
		}
	}
}

// functions are elementary functions by another implementation, with other
// vector widths, and against their budgets.
func (p *pack) functions() {
	ops := []string{"exponential", "log", "log-plus-one", "exponential-minus-one", "tanh", "sine", "cosine", "logistic", "cbrt", "rsqrt", "sqrt", "erf", "tan"}
	const n = 4096
	body := func(t, op string) string {
		return fmt.Sprintf("  x = %[1]s[%[3]d] parameter(0)\n  ROOT r = %[1]s[%[3]d] %[2]s(x)", t, op, n)
	}
	for _, op := range ops {
		in := fmt.Sprintf("random f32[%d] seed=9\n", n)
		p.add(Function, op+"-in-f64", "f32", in, body("f32", op),
			fmt.Sprintf("  x = f32[%[2]d] parameter(0)\n  y = f64[%[2]d] convert(x)\n  z = f64[%[2]d] %[1]s(y)\n  ROOT r = f32[%[2]d] convert(z)", op, n), nil)
		for _, t := range []string{"f32", "f64"} {
			p.add(Audit, op+"-"+t, t, fmt.Sprintf("random %s[%d] seed=10\n", t, n), body(t, op), "", nil)
		}
	}
	for _, op := range []string{"exponential", "log", "tanh", "sine"} {
		for i, o := range widths {
			p.add(VectorWidth, fmt.Sprintf("%s-%d", op, i), "f32", fmt.Sprintf("random f32[%d] seed=11\n", n), body("f32", op), "", o)
		}
	}
}
