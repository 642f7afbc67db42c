package eval

import (
	"testing"

	"github.com/passgate/passgate/hlo"
)

// TestSubnormalOperandsAreContested: scalar and column form agree on which
// functions of subnormals are argued about, and leave their operand alone.
func TestSubnormalOperandsAreContested(t *testing.T) {
	n := &Numerics{Bounds: true}
	x := NewArray(hlo.F32, 3)
	copy(x.Re.C, []float64{1, 0x1p-130, 0})
	for op, want := range map[hlo.Opcode]Contest{hlo.OpCbrt: Denormal, hlo.OpRsqrt: Denormal, hlo.OpSqrt: Denormal, hlo.OpLog: Denormal, hlo.OpNegate: 0, hlo.OpExponential: 0} {
		y := n.UnaryArray(op, x)
		for i, want := range []Contest{0, want, 0} {
			if got := y.At(i).Contest; got != want {
				t.Errorf("%v of %v in a column: contest %b, want %b", op, x.Re.C[i], got, want)
			}
			if got := n.Unary(op, hlo.F32, x.At(i)).Contest; got != want {
				t.Errorf("%v of %v: contest %b, want %b", op, x.Re.C[i], got, want)
			}
		}
		if x.Contest != nil {
			t.Fatalf("%v marks its operand", op)
		}
	}
}
