package triage

import (
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

const countingLoop = `HloModule m
cond {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(30)
  ROOT r = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  b = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = s32[] add(b, i)
  ROOT r = (s32[], s32[]) tuple(j, k)
}
ENTRY e {
  x = s32[] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], s32[]) tuple(zero, x)
  w = (s32[], s32[]) while(init), condition=cond, body=body
  ROOT r = s32[] get-tuple-element(w), index=1
}`

// A step that takes the end of a loop away is guilty; one that keeps it is not.
func TestStepMakesALoopEndless(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		want           Standing
	}{
		{"the counter stands still", "tuple(j, k)", "tuple(i, k)", Guilty},
		{"the condition is constant", "compare(i, n), direction=LT", "constant(true)", Guilty},
		{"another way to count", "add(i, one)", "subtract(i, minus)", Same},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, err := hlo.Parse("before", []byte(countingLoop))
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(countingLoop, c.from, c.to, 1)
			if c.want == Same {
				text = strings.Replace(text, "  j = ", "  minus = s32[] constant(-1)\n  j = ", 1)
			}
			after, err := hlo.Parse("after", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			five := hlo.NewLiteral(before.Entry.Params()[0].Shape)
			five.SetInt(0, 5)
			x := eval.FromLiteral(five)
			trail := &Trail{Before: before, States: []State{{Module: after, Sum: SumOf(after)}}}
			v, err := trail.Validate(t.Context(), [][]*eval.Value{{x}}, eval.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := v.Steps[0]
			if s.Standing != c.want {
				t.Fatalf("%v (%s), want %v", s.Standing, s.Detail, c.want)
			}
			if c.want == Guilty && (s.Where.Before != "{440}" || s.Firm != 1 || s.Wrong != 1 || v.Unknown != 0 || !v.Sets[0].Guilty) {
				t.Errorf("%+v %+v", s, s.Where)
			}
		})
	}
}

// A loop that ends neither before nor after a step gives the same: nothing. One
// that a step makes end is not judged.
func TestEndlessBeforeTheStep(t *testing.T) {
	endless := strings.Replace(countingLoop, "tuple(j, k)", "tuple(i, k)", 1)
	for _, c := range []struct {
		name, after string
		want        Standing
	}{
		{"still endless", strings.Replace(endless, "s32[] add(b, i)", "s32[] add(b, j)", 1), Same},
		{"ends now", countingLoop, Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := parseText(t, endless), parseText(t, c.after)
			x := eval.FromLiteral(hlo.NewLiteral(before.Entry.Params()[0].Shape))
			trail := &Trail{Before: before, States: []State{{Module: after, Sum: SumOf(after)}}}
			v, err := trail.Validate(t.Context(), [][]*eval.Value{{x}}, eval.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if s := v.Steps[0]; s.Standing != c.want {
				t.Errorf("%v (%s), want %v", s.Standing, s.Detail, c.want)
			}
		})
	}
}
