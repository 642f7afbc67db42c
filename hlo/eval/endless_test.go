package eval

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/passgate/passgate/hlo"
)

// A loop is said to be endless only if what its condition rests on repeats.
func TestEndless(t *testing.T) {
	for _, c := range []struct {
		name, condition, body, init string
		endless                     bool
		want                        string
	}{
		{name: "condition of constants", condition: "compare(z, n), direction=LT", body: "tuple(j, b)", endless: true},
		{name: "counter stands still", condition: "compare(i, n), direction=LT", body: "tuple(i, k)", endless: true},
		{name: "counter stands still behind another element", condition: "compare(i, n), direction=LT", body: "tuple(b, b)", endless: true},
		{name: "counter goes round", condition: "compare(i, n), direction=LT", body: "tuple(m, k)", endless: true},
		{name: "counter counts to 1000", condition: "compare(i, n), direction=LT", body: "tuple(j, b)", want: "{1000}"},
		{name: "two elements swap until one counts", condition: "compare(i, n), direction=LT", body: "tuple(k, i)", want: "{1000}"},
		{name: "wraps around", condition: "compare(i, z), direction=GE", body: "tuple(j, b)"}, // ends after 2^31 iterations: the step limit
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := hlo.Parse("m", []byte(fmt.Sprintf(`HloModule m
cond {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(1000)
  z = s32[] constant(0)
  ROOT r = pred[] %s
}
body {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  b = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  seven = s32[] constant(7)
  j = s32[] add(i, one)
  k = s32[] add(b, one)
  m = s32[] remainder(j, seven)
  ROOT r = (s32[], s32[]) %s
}
ENTRY e {
  x = s32[] parameter(0)
  init = (s32[], s32[]) tuple(x, x)
  w = (s32[], s32[]) while(init), condition=cond, body=body
  ROOT r = s32[] get-tuple-element(w), index=0
}`, c.condition, c.body)))
			if err != nil {
				t.Fatal(err)
			}
			v, err := Run(context.Background(), m, parseValues(t, "s32[] 1"), Options{MaxSteps: 50_000})
			switch {
			case c.endless:
				if !errors.Is(err, ErrEndless) {
					t.Errorf("%v, want %v", err, ErrEndless)
				}
			case c.want == "":
				if !errors.Is(err, ErrStepLimit) || errors.Is(err, ErrEndless) {
					t.Errorf("%v, want %v alone", err, ErrStepLimit)
				}
			case err != nil:
				t.Error(err)
			default:
				if got := v.Array.LegalSet(0); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			}
		})
	}
}
