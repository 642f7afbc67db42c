package triage_test

import (
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
)

// counter adds y to x three times.
const counter = `HloModule m
body {
  p = (s32[], s32[2], s32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = s32[2] get-tuple-element(p), index=1
  y = s32[2] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  sum = s32[2] add(x, y)
  ROOT t = (s32[], s32[2], s32[2]) tuple(next, sum, y)
}
condition {
  p.1 = (s32[], s32[2], s32[2]) parameter(0)
  i.1 = s32[] get-tuple-element(p.1), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i.1, n), direction=LT
}
ENTRY e {
  x.2 = s32[2] parameter(0)
  y.2 = s32[2] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], s32[2], s32[2]) tuple(zero, x.2, y.2)
  loop = (s32[], s32[2], s32[2]) while(start), condition=condition, body=body
  ROOT r = s32[2] get-tuple-element(loop), index=1
}
`

// fused doubles the sum of two parameters behind a fusion.
const fused = `HloModule m
body {
  p = s32[2] parameter(0)
  ROOT d = s32[2] add(p, p)
}
ENTRY e {
  x = s32[2] parameter(0)
  y = s32[2] parameter(1)
  sum = s32[2] add(x, y)
  other = s32[2] subtract(x, y)
  f = s32[2] fusion(sum), kind=kLoop, calls=body
  ROOT r = s32[2] multiply(f, other)
}
`

// What goes into a fusion wrongly is blamed where it is made.
func TestLocalizeInFusions(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"sum = s32[2] add(x, y)", "sum = s32[2] add(x, x)", "sum"},
		{"fusion(sum)", "fusion(other)", "f"},
		{"  f = s32[2] fusion(sum)", "  n = s32[2] negate(sum)\n  f = s32[2] fusion(n)", "sum"},
		{"add(p, p)", "multiply(p, p)", "d"},
	} {
		localize(t, fused, tt.from, tt.to, tt.want)
	}
}

// What differs first is blamed: in a loop everything that reads the last
// iteration differs from the second one on, and is executed before the culprit.
func TestLocalizeInLoops(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"sum = s32[2] add(x, y)", "sum = s32[2] add(x, x)", "sum"},
		{"sum = s32[2] add(x, y)", "sum = s32[2] subtract(x, y)", "sum"},
		{"one = s32[] constant(1)", "one = s32[] constant(2)", "one"},
		{"s32[] constant(3)", "s32[] constant(4)", "n"},
		{"loop), index=1", "loop), index=2", "r"},
	} {
		localize(t, counter, tt.from, tt.to, tt.want)
	}
}

func localize(t *testing.T, module, from, to, want string) {
	t.Helper()
	before, err := hlo.Parse("before", []byte(module))
	if err != nil {
		t.Fatal(err)
	}
	after, err := hlo.Parse("after", []byte(strings.Replace(module, from, to, 1)))
	if err != nil {
		t.Fatal(err)
	}
	var args []*eval.Value
	for _, text := range []string{"s32[2] {7, 9}", "s32[2] {100, 3000}"} {
		l, err := hlo.ParseLiteral(text)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, eval.FromLiteral(l))
	}
	loc, err := triage.Localize(t.Context(), before, after, args, eval.Options{Bounds: true})
	if err != nil || loc == nil {
		t.Fatalf("%s: %v, %v", to, loc, err)
	}
	if loc.Before.Name != want {
		t.Errorf("%s: blamed %s, want %s", to, loc.Before.Name, want)
	}
}
