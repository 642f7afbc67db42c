package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// kernels are what code generation compiles into one loop: operations on every
// element, on arrays with and without a remainder behind full vectors, on
// constants, on predicates; and computations of reducers, comparators and
// combiners that do more than one operation on two scalars.
var kernels = of("kernel", []string{"fusion"}, []Pattern{
	loop("chain", nil, func(b *builder) {
		x := b.Source(b.Float(), lanes(b))
		for range b.Between(2, 4) {
			x = operation(b, x)
		}
		b.Out(x)
	}),
	loop("many-operations", nil, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.F32, hlo.F64, hlo.BF16), lanes(b))
		var out []value
		for range b.Between(3, 6) {
			out = append(out, operation(b, operation(b, x)))
		}
		b.Out(out...)
	}),
	loop("of-predicates", nil, func(b *builder) {
		// Numbers of few values, some of which are equal whatever comes in.
		x := b.Source(b.Num(), lanes(b))
		made := []value{b.Compare("NE", x, b.Fill(x, 0)), b.Compare("LT", x, like(b, x))}
		p, q := program.Pick(b, made...), program.Pick(b, made...)
		d := b.Bin(program.Pick(b, hlo.OpXor, hlo.OpAnd, hlo.OpOr), p, q)
		f := b.Convert(d, program.Pick(b, hlo.F32, hlo.F32, hlo.F64))
		b.Out(program.Pick(b, operation(b, f), b.Bin(program.Pick(b, floatBinary...), f, f)))
	}),
	loop("of-integers", nil, func(b *builder) {
		x := b.Source(b.Int(), lanes(b))
		y := b.Bin(program.Pick(b, hlo.OpAdd, hlo.OpXor, hlo.OpMaximum), x, program.Pick(b, x, b.Fill(x, 1)))
		b.Out(operation(b, b.Convert(y, program.Pick(b, hlo.F32, hlo.F64))))
	}),
	loop("reducer-through-an-array", nil, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.S32, hlo.F32), 3, 5)
		op := program.Pick(b, hlo.OpMaximum, hlo.OpMinimum)
		b.Out(b.ReduceMany([]value{x}, []value{b.Number(x.Shape.Type, program.Neutral(op, x.Shape.Type))}, []int64{1}, func(acc, el []value) []value {
			return []value{b.Bin(op, acc[0], through(b, el[0]))}
		}))
	}),
	loop("map-through-an-array", []string{"map-inline"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.S32, hlo.F32), 7)
		b.Out(b.Map([]value{b.Neg(x), x}, func(a []value) value { return b.Add(through(b, a[0]), a[1]) }))
	}),
	loop("comparator-through-an-array", []string{"simplify-sorts"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.S32, hlo.S16, hlo.U32), 9)
		b.Out(b.Sort(0, b.Chance(2), []value{b.Bin(hlo.OpXor, x, b.Fill(x, 1))}, func(a []value) value {
			return b.Compare(program.Pick(b, "LT", "GT"), through(b, a[0]), through(b, a[1]))
		}))
	}),
	loop("combiner-through-an-array", []string{"scatter_expander"}, func(b *builder) {
		x := made(b, hlo.S32, 6, 2)
		b.Out(b.ScatterRows(x, b.Indices(6, 3), b.Source(hlo.S32, 3, 2), false, func(cur, upd value) value { return b.Add(cur, through(b, upd)) }))
	}),
})

// lanes is a size below, at and above those of vectors and of their multiples.
func lanes(b *builder) int64 { return program.Pick[int64](b, 1, 3, 8, 16, 31, 64, 100) }

var (
	floatUnary = []hlo.Opcode{
		hlo.OpAbs, hlo.OpCbrt, hlo.OpCeil, hlo.OpCosine, hlo.OpErf, hlo.OpExponential, hlo.OpExponentialMinusOne, hlo.OpFloor, hlo.OpLog, hlo.OpLogPlusOne,
		hlo.OpLogistic, hlo.OpNegate, hlo.OpRoundNearestAFZ, hlo.OpRoundNearestEven, hlo.OpRsqrt, hlo.OpSign, hlo.OpSine, hlo.OpSqrt, hlo.OpTan, hlo.OpTanh,
	}
	floatBinary = []hlo.Opcode{hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpDivide, hlo.OpMaximum, hlo.OpMinimum, hlo.OpPower, hlo.OpAtan2, hlo.OpRemainder}
)

// operation is any operation on the elements of floats, by itself or with a
// second operand: x again, another array, a constant or a scalar everywhere.
func operation(b *builder, x value) value {
	if b.Chance(2) {
		return b.Un(program.Pick(b, floatUnary...), x)
	}
	var y value
	switch b.R.IntN(4) {
	case 0:
		y = x
	case 1:
		y = like(b, x)
	case 2:
		y = b.Splat(b.Source(x.Shape.Type), x.Shape.Dims...)
	default:
		y = b.Fill(x, program.Pick(b, -2.0, -1, 0, 0.5, 1, 2, 3))
	}
	if b.Chance(3) {
		x, y = y, x
	}
	return b.Bin(program.Pick(b, floatBinary...), x, y)
}

// through is a scalar that has been in an array: put there and read back.
func through(b *builder, x value) value {
	one := b.Reshape(x, 1)
	at := int64(b.R.IntN(2))
	var row value
	switch b.R.IntN(4) {
	case 0:
		row = b.DynamicUpdateSlice(b.Splat(b.Number(x.Shape.Type, 0), 2), one, b.Number(hlo.S32, float64(at)))
	case 1:
		row = b.Concat(0, one, one)
	case 2:
		row = b.Pad(one, b.Number(x.Shape.Type, 0), program.Padding{Low: at, High: 1 - at})
	default:
		row = b.Splat(x, 2)
	}
	return b.Reshape(b.Slice(row, []int64{at}, []int64{at + 1}, nil))
}
