package eval

import (
	"context"
	"reflect"
	"testing"

	"github.com/passgate/passgate/hlo"
)

// TestMemory runs states of a program one after the other with a memory and
// without: the values are the same to the last bound, and what a state has in
// common with the one before costs one step an instruction.
func TestMemory(t *testing.T) {
	const scalars = `HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
body { s = (s32[], f32[512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[512] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[512] sine(x)
  ROOT r = (s32[], f32[512]) tuple(j, y) }
condition { s = (s32[], f32[512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)
  ROOT c = pred[] compare(i, n), direction=LT }
`
	const head = `ENTRY e { p = f32[512] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[512]) tuple(z, p)
  w = (s32[], f32[512]) while(t), condition=condition, body=body
  x = f32[512] get-tuple-element(w), index=1
  e1 = f32[512] exponential(x)
  e2 = f32[512] exponential(x)
`
	states := []struct {
		name, text string
		cheap      bool // all but a few operations are those of the state before
	}{
		{"two exponentials", scalars + head + `ROOT d = f32[512] subtract(e1, e2) }`, false},
		{"the same", scalars + head + `ROOT d = f32[512] subtract(e1, e2) }`, true},
		{"one exponential", scalars + head + `ROOT d = f32[512] subtract(e1, e1) }`, true},
		{"two again", scalars + head + `ROOT d = f32[512] subtract(e1, e2) }`, true},
		{"another order", scalars + head + `ROOT d = f32[512] subtract(e2, e1) }`, true},
		{"reshaped", scalars + head + `r1 = f32[2,256] reshape(e1)
  r2 = f32[2,256] reshape(e1)
  r3 = f32[2,256] reshape(e2)
  d1 = f32[2,256] subtract(r1, r2)
  d2 = f32[2,256] subtract(r1, r3)
  ROOT d = (f32[2,256], f32[2,256]) tuple(d1, d2) }`, true},
		{"reshaped again", scalars + head + `r2 = f32[2,256] reshape(e1)
  r1 = f32[2,256] reshape(e1)
  r3 = f32[2,256] reshape(e2)
  d1 = f32[2,256] subtract(r1, r2)
  d2 = f32[2,256] subtract(r1, r3)
  ROOT d = (f32[2,256], f32[2,256]) tuple(d1, d2) }`, true},
		{"fused", scalars + `f { q = f32[512] parameter(0)
  g1 = f32[512] exponential(q)
  g2 = f32[512] exponential(q)
  ROOT d = f32[512] subtract(g1, g2) }
` + head + `ROOT d = f32[512] fusion(x), kind=kLoop, calls=f }`, true},
		{"constants folded apart", scalars + head + `c = f32[] constant(3.3)
  cs = f32[512] broadcast(c), dimensions={}
  a = f32[512] add(e1, cs)
  k = f32[] constant(0.7)
  ks = f32[512] broadcast(k), dimensions={}
  ROOT d = f32[512] add(a, ks) }`, true},
		{"constants seen through a parameter", scalars + `f { q = f32[512] parameter(0)
  k = f32[] constant(0.7)
  ks = f32[512] broadcast(k), dimensions={}
  ROOT d = f32[512] add(q, ks) }
` + head + `c = f32[] constant(3.3)
  cs = f32[512] broadcast(c), dimensions={}
  a = f32[512] add(e1, cs)
  ROOT d = f32[512] fusion(a), kind=kLoop, calls=f }`, true},
		{"a sum", scalars + head + `z0 = f32[] constant(0)
  ROOT d = f32[] reduce(e1, z0), dimensions={0}, to_apply=add }`, true},
	}
	l := hlo.NewLiteral(&hlo.Shape{Type: hlo.F32, Dims: []int64{512}})
	for i := range int64(512) {
		l.SetFloat(i, float64(i)/100)
	}
	args := []*Value{FromLiteral(l)}
	memory := NewMemory(1 << 20)
	for _, s := range states {
		m, err := hlo.Parse(s.name, []byte(s.text))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		plain := NewEvaluator(context.Background(), Options{Bounds: true})
		want, err := plain.RunComputation(m.Entry, args)
		if err != nil {
			t.Fatal(err)
		}
		memory.Next()
		e := NewEvaluator(context.Background(), Options{Bounds: true, Memory: memory})
		got, err := e.RunComputation(m.Entry, args)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: other values with a memory", s.name)
		}
		if cheap := e.Steps() < plain.Steps()/3; cheap != s.cheap {
			t.Errorf("%s: %d steps with a memory, %d without", s.name, e.Steps(), plain.Steps())
		}
	}
}
