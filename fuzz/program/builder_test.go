package program_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

func TestMake(t *testing.T) {
	x := hlo.ArrayShape(hlo.F32, 4)
	for _, tt := range []struct {
		name  string
		build func(b *program.Builder)
		want  string // part of the error; "" for none
	}{
		{"sum", func(b *program.Builder) { b.Out(b.Reduce(hlo.OpAdd, b.Param(x), 0)) }, ""},
		{"own input", func(b *program.Builder) { b.Out(b.Neg(b.Input(x, "const f32[4] 2"))) }, ""},
		{"nothing", func(b *program.Builder) {}, "no result"},
		{"shapes", func(b *program.Builder) { b.Out(b.Add(b.Param(x), b.Param(hlo.ArrayShape(hlo.F32, 5)))) }, "add"},
		{"parameter in a region", func(b *program.Builder) {
			b.Out(b.Call([]program.Value{b.Param(x)}, func([]program.Value) program.Value { return b.Param(x) }))
		}, "a parameter in a region"},
		{"value of another computation", func(b *program.Builder) {
			y := b.Neg(b.Param(x))
			b.Out(b.Call(nil, func([]program.Value) program.Value { return b.Neg(y) }))
		}, "not in the computation"},
		{"bad input", func(b *program.Builder) { b.Out(b.Neg(b.Input(x, "f32[4] {1}"))) }, "input:1:"},
	} {
		c, err := program.Make(tt.name, rand.New(rand.NewPCG(1, 1)), tt.build)
		switch {
		case tt.want == "" && (err != nil || c.Module == nil || c.Own != (tt.name == "own input")):
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (!errors.Is(err, program.ErrInvalid) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
