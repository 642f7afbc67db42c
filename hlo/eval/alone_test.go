package eval

import (
	"testing"

	"github.com/passgate/passgate/hlo"
)

// A reduction over one device may flush and lose the sign of zero, and nothing
// else.
func TestReductionOverOneDevice(t *testing.T) {
	m, err := hlo.Parse("m", []byte(`HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] reduce-scatter(x), replica_groups={{0}}, dimensions={0}, to_apply=add
}
`))
	if err != nil {
		t.Fatal(err)
	}
	in, err := hlo.ParseLiteral("f32[4] {1e-45, -0, 1.5, nan}")
	if err != nil {
		t.Fatal(err)
	}
	v, err := Run(t.Context(), m, []*Value{FromLiteral(in)}, Options{Bounds: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		want [4]Verdict
	}{
		{"f32[4] {1e-45, -0, 1.5, nan}", [4]Verdict{In, In, In, In}},
		{"f32[4] {0, 0, 1.5000001, 1}", [4]Verdict{In, In, Out, Out}},
		{"f32[4] {1e-38, 1e-45, 0, inf}", [4]Verdict{Out, Out, Out, Out}},
	} {
		l, err := hlo.ParseLiteral(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if got := v.Array.Legal(i, LiteralScalar(l, int64(i))); got != tt.want[i] {
				t.Errorf("%s[%d]: %v, want %v", tt.text, i, got, tt.want[i])
			}
		}
	}
}
