package triage

import (
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// carried is a loop with a state of more than it needs: a constant, an invariant
// that is there twice, and an element that only feeds itself.
const carried = `HloModule carried

body {
  s = (s32[], f32[4], f32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  c = f32[] get-tuple-element(s), index=2
  w = f32[4] get-tuple-element(s), index=3
  x = f32[4] get-tuple-element(s), index=4
  dead = f32[4] get-tuple-element(s), index=5
  one = s32[] constant(1)
  next = s32[] add(i, one)
  cs = f32[4] broadcast(c), dimensions={}
  a = f32[4] multiply(v, cs)
  b = f32[4] add(a, w)
  d = f32[4] add(b, x)
  e = f32[4] add(dead, v)
  ROOT t = (s32[], f32[4], f32[], f32[4], f32[4], f32[4]) tuple(next, d, c, w, x, e)
}

cond {
  s = (s32[], f32[4], f32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(4)
  ROOT lt = pred[] compare(i, k), direction=LT
}

ENTRY e {
  zero = s32[] constant(0)
  v0 = f32[4] parameter(0)
  w0 = f32[4] parameter(1)
  half = f32[] constant(0.5)
  init = (s32[], f32[4], f32[], f32[4], f32[4], f32[4]) tuple(zero, v0, half, w0, w0, v0)
  loop = (s32[], f32[4], f32[], f32[4], f32[4], f32[4]) while(init), condition=cond, body=body
  v9 = f32[4] get-tuple-element(loop), index=1
  w9 = f32[4] get-tuple-element(loop), index=3
  ROOT r = f32[4] subtract(v9, w9)
}
`

// trimmed is what is left of it.
const trimmed = `HloModule trimmed

body {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  w = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  c = f32[] constant(0.5)
  cs = f32[4] broadcast(c), dimensions={}
  a = f32[4] multiply(v, cs)
  b = f32[4] add(a, w)
  d = f32[4] add(b, w)
  ROOT t = (s32[], f32[4], f32[4]) tuple(next, d, w)
}

cond {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(4)
  ROOT lt = pred[] compare(i, k), direction=LT
}

ENTRY e {
  zero = s32[] constant(0)
  v0 = f32[4] parameter(0)
  w0 = f32[4] parameter(1)
  init = (s32[], f32[4], f32[4]) tuple(zero, v0, w0)
  loop = (s32[], f32[4], f32[4]) while(init), condition=cond, body=body
  v9 = f32[4] get-tuple-element(loop), index=1
  ROOT r = f32[4] subtract(v9, w0)
}
`

// TestTrimLoops: loops that differ by what they need not carry are the same
// data flow, and mean what they did.
func TestTrimLoops(t *testing.T) {
	before, after := parseText(t, carried), parseText(t, trimmed)
	if !sameFlow(before, after) {
		t.Errorf("not the same:\n%s\n%s", flatten(before).module, flatten(after).module)
	}
	flat := flatten(before)
	if err := hlo.Verify(flat.module); err != nil {
		t.Fatalf("%v\n%s", err, flat.module)
	}
	for _, c := range flat.module.Computations {
		for _, in := range c.Instructions {
			if flat.origin[in] == nil || flat.home[in] == nil {
				t.Errorf("%s of %s has no origin", in.Name, c.Name)
			}
		}
	}
	args := someArgs(before)
	was, err := eval.Run(t.Context(), before, args, eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	is, err := eval.Run(t.Context(), flat.module, args, eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range was.Array.Len() {
		if was.Array.At(i) != is.Array.At(i) {
			t.Errorf("element %d: %v, was %v", i, is.Array.At(i), was.Array.At(i))
		}
	}
	// What is needed stays.
	for name, edit := range map[string][2]string{
		"another constant": {"c = f32[] constant(0.5)", "c = f32[] constant(0.25)"},
		"another element":  {"d = f32[4] add(b, w)", "d = f32[4] add(b, v)"},
		"another start":    {"tuple(zero, v0, w0)", "tuple(zero, w0, v0)"},
	} {
		if sameFlow(before, parseText(t, replaced(t, trimmed, edit[0], edit[1]))) {
			t.Errorf("%s: said to be the same", name)
		}
	}
}

func replaced(t *testing.T, text, old, with string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is not there once", old)
	}
	return strings.Replace(text, old, with, 1)
}

// A comparator or reducer that is outlined or fused is the same; one that
// compares the other way round is not.
func TestFlatBodiesOfOperations(t *testing.T) {
	text := func(root string) *hlo.Module {
		return parseText(t, `HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
both {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = pred[] compare(a, b), direction=LT
  ROOT r = (pred[], f32[]) tuple(c, b)
}
cmp {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  `+root+`
}
ENTRY e {
  x = f32[8] parameter(0)
  y = s32[8] iota(), iota_dimension=0
  ROOT r = (f32[8], s32[8]) sort(x, y), dimensions={0}, to_apply=cmp
}`)
	}
	before := text("ROOT z = pred[] compare(p, q), direction=LT")
	for _, c := range []struct {
		root string
		same bool
	}{
		{"ROOT f = pred[] fusion(p, q), kind=kLoop, calls=less", true},
		{"ROOT f = pred[] call(p, q), to_apply=less", true},
		{"f = (pred[], f32[]) call(p, q), to_apply=both ROOT g = pred[] get-tuple-element(f), index=0", true},
		{"ROOT f = pred[] call(q, p), to_apply=less", false},
	} {
		if after := text(c.root); sameFlow(before, after) != c.same {
			t.Errorf("%s: the same data flow: %v\n%s\n%s", c.root, !c.same, flatten(before).module, flatten(after).module)
		}
	}
}
