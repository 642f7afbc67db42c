package eval

import (
	"context"
	"testing"

	"github.com/passgate/passgate/hlo"
)

// A scalar in a tiled buffer lies where the one element of f32[1] does.
func TestBitcastOfATiledScalar(t *testing.T) {
	m, err := hlo.Parse("m.hlo", []byte(`HloModule m
ENTRY e {
  x = s32[1]{0:T(128)} parameter(0)
  s = s32[]{:T(128)} bitcast(x)
  ROOT r = s32[1,1]{1,0:T(1,128)} bitcast(s)
}
`))
	if err != nil {
		t.Fatal(err)
	}
	x := NewArray(m.Entry.Params()[0].Shape.Type, 1)
	x.I[0] = 7
	v, err := Run(context.Background(), m, []*Value{{Array: x}}, Options{Bounds: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Array.LegalSet(0); got != "{7}" {
		t.Errorf("got %s, want {7}", got)
	}
}
