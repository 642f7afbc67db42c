package triage

import (
	"errors"
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// Where a dear state tells nothing, later ones are judged by what they change
// alone, and a wrong step is still found. A step that only writes -b for the value
// that another instruction calls a is not accused: b is computed from a.
func TestSilentSetIsGivenUp(t *testing.T) {
	const program = `HloModule m
ENTRY e {
  x = f32[65536] parameter(0)
  a = f32[65536] sine(x)
  b = f32[65536] negate(a)
  d = f32[65536] add(a, b)
  a2 = f32[65536] sine(x)
  d2 = f32[65536] subtract(a2, a)
  ROOT c = pred[65536] compare(d, d2), direction=GT
}`
	edit := func(s, from, to string) string {
		if !strings.Contains(s, from) {
			t.Fatalf("no %q in the program", from)
		}
		return strings.Replace(s, from, to, 1)
	}
	first := edit(program, "subtract(a2, a)", "add(a2, b)")
	right := edit(first, "add(a, b)", "add(b, a)")
	wrong := edit(right, "add(b, a)", "add(a, a)")
	trail := &Trail{Before: parseText(t, program)}
	for _, s := range []string{first, right, wrong} {
		m := parseText(t, s)
		trail.States = append(trail.States, State{Module: m, Sum: SumOf(m)})
	}
	x := hlo.NewLiteral(trail.Before.Entry.Params()[0].Shape)
	for i := range x.Shape.Elems() {
		x.SetFloat(i, 0.25+float64(i%97)/128)
	}
	v, err := trail.Validate(t.Context(), [][]*eval.Value{{eval.FromLiteral(x)}}, eval.Options{Bounds: true})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(v.Sets[0].Err, errSilent) {
		t.Errorf("the set: %v, want %v", v.Sets[0].Err, errSilent)
	}
	for i, want := range []Standing{Same, Same, Guilty} {
		if s := v.Steps[i]; s.Standing != want || i > 0 && s.Regions == nil {
			t.Errorf("step %d: %s (%s), regions %+v, want %s", i, s.Standing, s.Detail, s.Regions, want)
		}
	}
}
