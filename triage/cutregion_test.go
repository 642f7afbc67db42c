package triage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// chaotic is a program of depth layers in which rounding errors grow tenfold
// per layer: its result cannot be judged as a whole. Lines of edit replace the
// instructions of their name.
func chaotic(depth int, edit ...string) string {
	var b strings.Builder
	b.WriteString("HloModule deep\n\nENTRY e {\n  xx0 = f32[8] parameter(0)\n  w = f32[8,8] parameter(1)\n  g = f32[] constant(37)\n  gs = f32[8] broadcast(g), dimensions={}\n  n = f32[] constant(-37)\n  ngs = f32[8] broadcast(n), dimensions={}\n")
	line := func(root, format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		for _, e := range edit {
			if name, _, _ := strings.Cut(e, " "); strings.HasPrefix(s, name+" ") {
				s = e
			}
		}
		b.WriteString("  " + root + s + "\n")
	}
	for i := range depth {
		line("", "dd%d = f32[8] dot(xx%d, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}", i, i)
		line("", "mm%d = f32[8] multiply(dd%d, gs)", i, i)
		line("", "sn%d = f32[8] sine(mm%d)", i, i)
		root := ""
		if i == depth-1 {
			root = "ROOT "
		}
		line(root, "xx%d = f32[8] add(sn%d, xx%d)", i+1, i, i)
	}
	b.WriteString("}\n")
	return b.String()
}

// looped is a program whose loop multiplies its state; body is the line of the
// state's next value.
func looped(body string) string {
	return `HloModule looped

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  sq = f32[4] multiply(v, v)
  ` + body + `
  ROOT t = (s32[], f32[4]) tuple(next, n)
}

cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(60)
  ROOT lt = pred[] compare(i, k), direction=LT
}

ENTRY e {
  zero = s32[] constant(0)
  v0 = f32[4] parameter(0)
  init = (s32[], f32[4]) tuple(zero, v0)
  loop = (s32[], f32[4]) while(init), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(loop), index=1
}
`
}

func parseText(t *testing.T, text string) *hlo.Module {
	t.Helper()
	m, err := hlo.Parse("test.hlo", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := hlo.Verify(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// someArgs are values for the parameters of a module: halves between -1 and 1.
func someArgs(m *hlo.Module) []*eval.Value {
	var out []*eval.Value
	for i, p := range m.Entry.Params() {
		out = append(out, eval.FromLiteral(made(p.Shape, i)))
	}
	return out
}

const logistic = `HloModule fused

f {
  p = f32[4] parameter(0)
  c = f32[] constant(3)
  cs = f32[4] broadcast(c), dimensions={}
  m = f32[4] multiply(p, cs)
  ROOT t = f32[4] tanh(m)
}

ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] fusion(x), kind=kLoop, calls=f
}
`

func TestValidateRegions(t *testing.T) {
	const step = "n = f32[4] subtract(sq, v)"
	for _, tc := range []struct {
		name          string
		before, after string
		standing      Standing
		at            string // name after
		regions       bool   // something was evaluated
	}{
		{name: "nothing", before: chaotic(40), after: chaotic(40), standing: Same},
		{name: "commuted", before: chaotic(40), after: chaotic(40, "xx20 = f32[8] add(xx19, sn19)"), standing: Same, regions: true},
		{name: "wrong operation", before: chaotic(40), after: chaotic(40, "xx20 = f32[8] subtract(sn19, xx19)"), standing: Guilty, at: "xx20", regions: true},
		{name: "wrong operand", before: chaotic(40), after: chaotic(40, "mm30 = f32[8] multiply(gs, gs)"), standing: Guilty, at: "mm30", regions: true},
		{name: "wrong attribute", before: chaotic(40), after: chaotic(40, "dd3 = f32[8] dot(xx3, w), lhs_contracting_dims={0}, rhs_contracting_dims={1}"), standing: Guilty, at: "dd3", regions: true},
		{name: "last instruction", before: chaotic(40), after: chaotic(40, "xx40 = f32[8] maximum(sn39, xx39)"), standing: Guilty, at: "xx40", regions: true},
		{name: "made good by the reader", before: chaotic(40), standing: Same, regions: true,
			after: chaotic(40, "mm11 = f32[8] multiply(dd11, ngs)", "xx12 = f32[8] subtract(xx11, sn11)")},
		{name: "another order, rounded in between", standing: Same, regions: true,
			before: "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  a = f32[] constant(0.1)\n  as = f32[4] broadcast(a), dimensions={}\n  o = f32[] constant(-1)\n  os = f32[4] broadcast(o), dimensions={}\n  y = f32[4] add(x, as)\n  z = f32[4] add(y, os)\n  c = f32[4] sine(z)\n  ROOT r = f32[4] add(c, y)\n}\n",
			after:  "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  a = f32[] constant(0.1)\n  as = f32[4] broadcast(a), dimensions={}\n  o = f32[] constant(-1)\n  ao = f32[] add(a, o)\n  os = f32[4] broadcast(ao), dimensions={}\n  y = f32[4] add(x, as)\n  z = f32[4] add(x, os)\n  c = f32[4] sine(z)\n  ROOT r = f32[4] add(c, y)\n}\n"},
		{name: "not made good by the reader", before: chaotic(40), standing: Guilty, at: "mm11", regions: true,
			after: chaotic(40, "mm11 = f32[8] multiply(dd11, ngs)", "xx12 = f32[8] subtract(sn11, xx11)")},
		{name: "fused", before: strings.Replace(logistic, "fusion(x), kind=kLoop, calls=f", "call(x), to_apply=f", 1), after: logistic, standing: Same},
		{name: "wrong in the fusion", before: strings.Replace(logistic, "fusion(x), kind=kLoop, calls=f", "call(x), to_apply=f", 1),
			after: strings.Replace(logistic, "multiply(p, cs)", "divide(p, cs)", 1), standing: Guilty, at: "m", regions: true},
		{name: "loop body commuted", before: looped(step), after: looped("nv = f32[4] negate(v)\n  n = f32[4] add(sq, nv)"), standing: Same, regions: true},
		{name: "wrong in some iterations", before: looped(step), standing: Guilty, at: "n", regions: true,
			after: looped("three = s32[] constant(3)\n  late = pred[] compare(i, three), direction=EQ\n  lates = pred[4] broadcast(late), dimensions={}\n  right = f32[4] subtract(sq, v)\n  n = f32[4] select(lates, v, right)")},
		{name: "loop body wrong", before: looped(step), after: looped("n = f32[4] subtract(v, sq)"), standing: Guilty, at: "n", regions: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := parseText(t, tc.before), parseText(t, tc.after)
			s, err := ValidateRegions(t.Context(), before, after, someArgs(before), eval.Options{Bounds: true}, "")
			if err != nil {
				t.Fatal(err)
			}
			if s.Standing != tc.standing || s.Undecided > 0 || (s.Regions > 0) != tc.regions {
				t.Fatalf("%s, %d regions, %d of %d undecided (%s); want %s, none undecided", s.Standing, s.Regions, s.Undecided, s.Elements, s.Detail, tc.standing)
			}
			if s.Standing != Guilty {
				return
			}
			if s.Location.After.Name != tc.at {
				t.Errorf("at %s, want %s:\n%s\n%s", s.Location.After.Name, tc.at, s.Region.Before, s.Region.After)
			}
			if n := s.Region.Before.NumInstructions(); n > 12 {
				t.Errorf("a region of %d instructions", n)
			}
			for _, m := range []*hlo.Module{s.Region.Before, s.Region.After} {
				if err := hlo.Verify(m); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestDeepIsUndecided: what the regions find is not to be had from the whole.
func TestDeepIsUndecided(t *testing.T) {
	m := parseText(t, chaotic(40))
	v, err := eval.Run(t.Context(), m, someArgs(m), eval.Options{Bounds: true})
	if err != nil {
		t.Fatal(err)
	}
	if x := v.Array.At(0).Re; x.E < 1 {
		t.Errorf("%v ± %v is no wide bound", x.C, x.E)
	}
}

// TestCountPieces: cut into single instructions, everything can be judged.
func TestCountPieces(t *testing.T) {
	for name, text := range map[string]string{"deep": chaotic(20), "loop": looped("n = f32[4] subtract(sq, v)")} {
		m := parseText(t, text)
		levels := CountPieces(t.Context(), m, someArgs(m))
		if o := levels[Operations]; o.Pieces < 3 || o.Undecided > 0 || o.Unsupported > 0 || o.Judged == 0 {
			t.Errorf("%s: operations %+v", name, o)
		}
		if c := levels[Computations]; (c.Pieces > 0) != (name == "loop") {
			t.Errorf("%s: computations %+v", name, c)
		}
	}
}

// chooser is a program that compares and selects inside what a pass step changes:
// nothing is decided by legal sets behind an uncertain comparison.
func chooser(body string) string {
	return "HloModule chooser\n\nENTRY e {\n  x = f32[4] parameter(0)\n  c = f32[] constant(0.1)\n  cs = f32[4] broadcast(c), dimensions={}\n  t = f32[] constant(3)\n  ts = f32[4] broadcast(t), dimensions={}\n" + body + "}\n"
}

// wide are n turns of 37*x - 36*x, which cost legal sets two digits each and
// executions next to nothing.
func wide(prefix string, n int) string {
	s := "  c37 = f32[] constant(37)\n  c37s = f32[4] broadcast(c37), dimensions={}\n  c36 = f32[] constant(36)\n  c36s = f32[4] broadcast(c36), dimensions={}\n"
	for i := range n {
		from := "x"
		if i > 0 {
			from = fmt.Sprintf("%s%d", prefix, i-1)
		}
		a, b := from, "c37s"
		if i == 0 && prefix == "b" {
			a, b = b, a
		}
		s += fmt.Sprintf("  %s37_%d = f32[4] multiply(%s, %s)\n  %s36_%d = f32[4] multiply(%s, c36s)\n  %s%d = f32[4] subtract(%s37_%d, %s36_%d)\n", prefix, i, a, b, prefix, i, from, prefix, i, prefix, i, prefix, i)
	}
	return s
}

// tripled is a loop whose condition is on a float of which legal sets soon know
// nothing.
func tripled(next string) string {
	return `HloModule tripled

body {
  s = (f32[], f32[4]) parameter(0)
  i = f32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  step = f32[] constant(0.1)
  c37 = f32[] constant(37)
  c36 = f32[] constant(36)
  i37 = f32[] multiply(i, c37)
  i36 = f32[] multiply(i, c36)
  again = f32[] subtract(i37, i36)
  j = f32[] add(again, step)
  ` + next + `
  ROOT t = (f32[], f32[4]) tuple(j, n)
}

cond {
  s = (f32[], f32[4]) parameter(0)
  i = f32[] get-tuple-element(s), index=0
  k = f32[] constant(0.75)
  ROOT lt = pred[] compare(i, k), direction=LT
}

ENTRY e {
  v0 = f32[4] parameter(0)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  start = f32[] multiply(zero, one)
  init = (f32[], f32[4]) tuple(start, v0)
  loop = (f32[], f32[4]) while(init), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(loop), index=1
}
`
}

// TestRegionPaths: what legal sets leave undecided inside a region is judged
// along paths, and stays undecided where these meet a discontinuity.
func TestRegionPaths(t *testing.T) {
	const tie = "  a = f32[4] divide(x, ts)\n  b = f32[4] multiply(a, ts)\n"
	for _, tc := range []struct {
		name          string
		before, after string
		standing      Standing
		undecided     bool
		at            string
	}{
		{name: "the same choice", standing: Same,
			before: chooser(wide("a", 7) + "  d = f32[4] add(a6, cs)\n  ROOT r = f32[4] floor(d)\n"),
			after:  chooser(wide("b", 7) + "  d = f32[4] add(b6, cs)\n  ROOT r = f32[4] floor(d)\n")},
		{name: "another choice", standing: Guilty, at: "r",
			before: chooser(wide("a", 7) + "  d = f32[4] add(a6, cs)\n  ROOT r = f32[4] floor(d)\n"),
			after:  chooser(wide("b", 7) + "  d = f32[4] add(b6, cs)\n  ROOT r = f32[4] ceil(d)\n")},
		{name: "loop on a float, the same", standing: Same,
			before: tripled("n = f32[4] multiply(v, v)"), after: tripled("a = f32[4] abs(v)\n  n = f32[4] multiply(a, a)")},
		{name: "loop on a float, another value", standing: Guilty, at: "n",
			before: tripled("n = f32[4] multiply(v, v)"), after: tripled("n = f32[4] add(v, v)")},
		{name: "a tie", standing: Same, undecided: true,
			before: chooser(tie + "  ROOT r = pred[4] compare(b, x), direction=EQ\n"),
			after:  chooser("  no = pred[] constant(false)\n  ROOT r = pred[4] broadcast(no), dimensions={}\n")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := parseText(t, tc.before), parseText(t, tc.after)
			args := someArgs(before)
			if tc.undecided {
				l := hlo.NewLiteral(hlo.ArrayShape(hlo.F32, 4))
				for i := range int64(4) {
					l.SetFloat(i, float64(float32(0.1))*float64(i+1))
				}
				args = []*eval.Value{eval.FromLiteral(l)}
			}
			s, err := ValidateRegions(t.Context(), before, after, args, eval.Options{Bounds: true}, "")
			if err != nil {
				t.Fatal(err)
			}
			if s.Standing != tc.standing || (s.Undecided > 0) != tc.undecided || s.Regions == 0 {
				t.Fatalf("%s, %d regions, %d of %d undecided (%s); want %s, undecided %v: %+v", s.Standing, s.Regions, s.Undecided, s.Elements, s.Detail, tc.standing, tc.undecided, s.Where)
			}
			if tc.at != "" && s.Location.After.Name != tc.at {
				t.Errorf("at %s, want %s", s.Location.After.Name, tc.at)
			}
		})
	}
}

// What is kept of a run is bounded: with no room for all, the values of the first
// instructions and iterations are kept.
func TestTraceIsBounded(t *testing.T) {
	f := flatten(parseText(t, looped("n = f32[4] subtract(sq, v)")))
	count := func(room int64) (elements int64) {
		values, _ := f.trace(t.Context(), someArgs(f.module), eval.Options{}, room)
		for _, runs := range values {
			for _, r := range runs {
				for _, v := range r {
					if v.Array != nil {
						elements += int64(v.Array.Len())
					}
				}
			}
		}
		return elements
	}
	all := count(1 << 20)
	for _, room := range []int64{0, 10, all / 2, all} {
		if n := count(room); n > room || room == all && n != all || room > 10 && n == 0 {
			t.Errorf("%d elements kept with room for %d of %d", n, room, all)
		}
	}
}

// Evaluations over the limit are not kept, and made again.
func TestEvaluationsAreBounded(t *testing.T) {
	before, after := parseText(t, chaotic(2)), parseText(t, chaotic(2, "mm1 = f32[8] multiply(dd1, ngs)"))
	trail := &Trail{Before: before, States: []State{{Module: after, Sum: SumOf(after)}}}
	for elements, shared := range map[int64]int{0: 1, keptElements: 0} {
		known := &Evaluations{elements: elements}
		var v *Validation
		for range 2 {
			var err error
			if v, err = trail.ValidateKnown(t.Context(), [][]*eval.Value{someArgs(before)}, eval.Options{Bounds: true}, known, -1); err != nil {
				t.Fatal(err)
			}
		}
		if v.Shared != shared || v.Guilty() == nil || len(known.of) != shared {
			t.Errorf("with %d elements kept: %d shared, %d kept, guilty %v", elements, v.Shared, len(known.of), v.Guilty())
		}
	}
}
