package patterns

import (
	"slices"

	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// slicing are moves of data that the algebraic simplifier merges or drops:
// slices, concatenates, pads, broadcasts, reshapes, transposes, reverses.
var slicing = of("slicing", []string{"algsimp"}, []Pattern{
	ranked("slice-whole", 1, func(b *builder, x value) value {
		return b.Slice(x, make([]int64, x.Shape.Rank()), x.Shape.Dims, nil)
	}),
	ranked("slice-of-slice", 1, func(b *builder, x value) value {
		y := b.Slice(x, zeros(x, 1), x.Shape.Dims, nil)
		return b.Slice(y, make([]int64, y.Shape.Rank()), less(y.Shape.Dims, int64(b.Between(0, 1))), stride(b, y))
	}),
	ranked("slice-of-concat", 1, func(b *builder, x value) value {
		c := b.Concat(0, x, like(b, x), like(b, x))
		n := x.Shape.Dims[0]
		lo, hi := make([]int64, x.Shape.Rank()), slices.Clone(c.Shape.Dims)
		lo[0] = program.Pick(b, 0, n, 2*n, n+1, n-1)
		hi[0] = min(lo[0]+program.Pick(b, 1, n, n-1), c.Shape.Dims[0])
		return b.Slice(c, lo, hi, nil)
	}),
	ranked("slice-of-pad", 1, func(b *builder, x value) value {
		ps := make([]program.Padding, x.Shape.Rank())
		ps[0] = program.Padding{Low: int64(b.Between(0, 3)), High: int64(b.Between(1, 3))}
		p := b.Pad(x, b.Number(x.Shape.Type, 0), ps...)
		lo, hi := make([]int64, x.Shape.Rank()), slices.Clone(p.Shape.Dims)
		switch b.R.IntN(3) {
		case 0:
			lo[0], hi[0] = ps[0].Low, ps[0].Low+x.Shape.Dims[0]
		case 1:
			lo[0] = ps[0].Low + x.Shape.Dims[0] // padding only
		case 2:
			hi[0] = ps[0].Low + 1
		}
		return b.Slice(p, lo, hi, nil)
	}),
	ranked("slice-of-reverse", 1, func(b *builder, x value) value {
		r := b.Reverse(x, 0)
		return b.Slice(r, zeros(x, 1), x.Shape.Dims, nil)
	}),
	ranked("slice-of-broadcast", 1, func(b *builder, x value) value {
		y := b.Broadcast(x, append([]int64{4}, x.Shape.Dims...), iotas(x.Shape.Rank(), 1)...)
		return b.Slice(y, append([]int64{1}, make([]int64, x.Shape.Rank())...), append([]int64{3}, x.Shape.Dims...), nil)
	}),
	ranked("slice-of-reshape", 2, func(b *builder, x value) value {
		d := x.Shape.Dims
		y := b.Reshape(x, append([]int64{d[0] * d[1]}, d[2:]...)...)
		lo, hi := make([]int64, y.Shape.Rank()), slices.Clone(y.Shape.Dims)
		lo[0] = d[1]
		return b.Slice(y, lo, hi, nil)
	}),
	ranked("slice-of-elementwise", 1, func(b *builder, x value) value {
		return b.Slice(b.Add(x, like(b, x)), zeros(x, 1), x.Shape.Dims, nil)
	}),
	ranked("concat-one", 1, func(b *builder, x value) value { return b.Concat(0, x) }),
	ranked("concat-empty", 1, func(b *builder, x value) value {
		return b.Concat(0, x, b.Constant(x.Shape.Type, with(x.Shape.Dims, 0, 0)...), like(b, x))
	}),
	ranked("concat-of-slices", 1, func(b *builder, x value) value {
		n := x.Shape.Dims[0]
		k := 1 + b.R.Int64N(n-1)
		return b.Concat(0, b.Slice(x, make([]int64, x.Shape.Rank()), with(x.Shape.Dims, 0, k), nil),
			b.Slice(x, with(make([]int64, x.Shape.Rank()), 0, k), x.Shape.Dims, nil))
	}),
	ranked("concat-of-concat", 1, func(b *builder, x value) value { return b.Concat(0, b.Concat(0, x, like(b, x)), like(b, x)) }),
	ranked("concat-same", 1, func(b *builder, x value) value {
		y := b.Slice(x, make([]int64, x.Shape.Rank()), with(x.Shape.Dims, 0, 1), nil)
		return b.Concat(0, y, y, y)
	}),
	ranked("concat-of-broadcasts", 1, func(b *builder, x value) value {
		return b.Concat(0, b.Fill(x, 1), x, b.Fill(x, 2))
	}),
	ranked("pad-zero", 1, func(b *builder, x value) value {
		return b.Pad(x, b.Number(x.Shape.Type, 0), make([]program.Padding, x.Shape.Rank())...)
	}),
	ranked("pad-negative", 1, func(b *builder, x value) value {
		ps := make([]program.Padding, x.Shape.Rank())
		ps[0] = program.Padding{Low: int64(b.Between(-1, 1)), High: -1, Interior: int64(b.Between(0, 1))}
		return b.Pad(x, b.Source(x.Shape.Type), ps...)
	}),
	ranked("pad-of-pad", 1, func(b *builder, x value) value {
		v := b.Source(x.Shape.Type)
		ps := make([]program.Padding, x.Shape.Rank())
		ps[0] = program.Padding{Low: int64(b.Between(0, 2)), High: 1}
		return b.Pad(b.Pad(x, v, ps...), v, ps...)
	}),
	ranked("pad-of-broadcast", 1, func(b *builder, x value) value {
		v := b.Number(x.Shape.Type, 2)
		ps := make([]program.Padding, x.Shape.Rank())
		ps[0].High = 2
		return b.Pad(b.Splat(v, x.Shape.Dims...), v, ps...)
	}),
	ranked("pad-empty", 1, func(b *builder, x value) value {
		e := b.Slice(x, make([]int64, x.Shape.Rank()), with(x.Shape.Dims, 0, 0), nil)
		ps := make([]program.Padding, x.Shape.Rank())
		ps[0].High = 3
		return b.Pad(e, b.Source(x.Shape.Type), ps...)
	}),
	ranked("reverse-reverse", 1, func(b *builder, x value) value { return b.Reverse(b.Reverse(x, 0), 0) }),
	ranked("reverse-one", 1, func(b *builder, x value) value {
		y := b.Slice(x, make([]int64, x.Shape.Rank()), with(x.Shape.Dims, 0, 1), nil)
		return b.Reverse(y, 0)
	}),
	ranked("reverse-of-concat", 1, func(b *builder, x value) value { return b.Reverse(b.Concat(0, x, like(b, x)), 0) }),
	ranked("reverse-of-elementwise", 1, func(b *builder, x value) value {
		return b.Add(b.Reverse(x, 0), b.Reverse(like(b, x), 0))
	}),
	ranked("transpose-transpose", 2, func(b *builder, x value) value {
		return b.Transpose(b.Transpose(x, b.Moved(x.Shape.Rank())...), b.Moved(x.Shape.Rank())...)
	}),
	ranked("transpose-identity", 1, func(b *builder, x value) value { return b.Transpose(x, iotas(x.Shape.Rank(), 0)...) }),
	ranked("transpose-of-ones", 1, func(b *builder, x value) value {
		y := b.Reshape(x, append([]int64{1}, x.Shape.Dims...)...)
		p := append(iotas(x.Shape.Rank(), 1), 0)
		return b.Add(b.Transpose(y, p...), b.Constant(x.Shape.Type, append(slices.Clone(x.Shape.Dims), 1)...))
	}),
	ranked("transpose-of-broadcast", 2, func(b *builder, x value) value {
		y := b.Broadcast(x, append([]int64{3}, x.Shape.Dims...), iotas(x.Shape.Rank(), 1)...)
		return b.Transpose(y, b.Moved(y.Shape.Rank())...)
	}),
	ranked("reshape-reshape", 2, func(b *builder, x value) value {
		return b.Reshape(b.Reshape(x, x.Shape.Elems()), append([]int64{x.Shape.Dims[0], 1}, x.Shape.Dims[1:]...)...)
	}),
	ranked("reshape-identity", 1, func(b *builder, x value) value { return b.Reshape(x, x.Shape.Dims...) }),
	ranked("reshape-of-broadcast", 1, func(b *builder, x value) value {
		y := b.Broadcast(x, append([]int64{3}, x.Shape.Dims...), iotas(x.Shape.Rank(), 1)...)
		return b.Reshape(y, append([]int64{3 * x.Shape.Dims[0]}, x.Shape.Dims[1:]...)...)
	}),
	ranked("reshape-of-pad", 1, func(b *builder, x value) value {
		ps := make([]program.Padding, x.Shape.Rank()+1)
		ps[1].High = 1
		y := b.Pad(b.Reshape(x, append([]int64{1}, x.Shape.Dims...)...), b.Number(x.Shape.Type, 0), ps...)
		return b.Reshape(y, y.Shape.Dims[1:]...)
	}),
	ranked("broadcast-of-broadcast", 1, func(b *builder, x value) value {
		r := x.Shape.Rank()
		y := b.Broadcast(x, append([]int64{3}, x.Shape.Dims...), iotas(r, 1)...)
		return b.Broadcast(y, append([]int64{2}, y.Shape.Dims...), iotas(r+1, 1)...)
	}),
	ranked("broadcast-identity", 1, func(b *builder, x value) value { return b.Broadcast(x, x.Shape.Dims, iotas(x.Shape.Rank(), 0)...) }),
	ranked("broadcast-of-reshape", 1, func(b *builder, x value) value {
		r := x.Shape.Rank()
		y := b.Reshape(x, append([]int64{1}, x.Shape.Dims...)...)
		return b.Broadcast(y, append([]int64{2, 1}, x.Shape.Dims...), iotas(r+1, 1)...)
	}),
	ranked("elementwise-of-broadcasts", 1, func(b *builder, x value) value {
		y := b.Source(x.Shape.Type)
		z := b.Source(x.Shape.Type)
		if x.Shape.Type == hlo.Pred {
			return b.Bin(hlo.OpAnd, b.Splat(y, x.Shape.Dims...), b.Splat(z, x.Shape.Dims...))
		}
		return b.Add(b.Splat(y, x.Shape.Dims...), b.Splat(z, x.Shape.Dims...))
	}),
	ranked("dynamic-slice-whole", 1, func(b *builder, x value) value {
		return b.DynamicSlice(x, x.Shape.Dims, starts(b, x.Shape.Dims)...)
	}),
	ranked("dynamic-slice-constant", 1, func(b *builder, x value) value {
		var st []value
		for _, d := range x.Shape.Dims {
			st = append(st, b.Number(hlo.S32, float64(b.Between(-1, int(d)))))
		}
		return b.DynamicSlice(x, less(x.Shape.Dims, 1), st...)
	}),
	ranked("dynamic-slice-of-dynamic-slice", 1, func(b *builder, x value) value {
		y := b.DynamicSlice(x, less(x.Shape.Dims, 1), starts(b, x.Shape.Dims)...)
		return b.DynamicSlice(y, less(y.Shape.Dims, int64(b.Between(0, 1))), starts(b, y.Shape.Dims)...)
	}),
	ranked("dynamic-slice-of-concat", 1, func(b *builder, x value) value {
		n := x.Shape.Dims[0]
		c := b.Concat(0, x, like(b, x))
		st := []value{b.Mul(b.Number(hlo.S32, float64(n)), b.Clamp(b.Number(hlo.S32, 0), b.IndexOf(hlo.S32, 2), b.Number(hlo.S32, 1)))}
		for range x.Shape.Rank() - 1 {
			st = append(st, b.Number(hlo.S32, 0))
		}
		return b.DynamicSlice(c, x.Shape.Dims, st...)
	}),
	ranked("dynamic-slice-of-iota", 1, func(b *builder, x value) value {
		i := b.Iota(hlo.S32, 0, 8)
		return b.DynamicSlice(i, []int64{int64(b.Between(1, 3))}, b.IndexOf(hlo.S32, 8))
	}),
	ranked("dynamic-slice-of-broadcast", 1, func(b *builder, x value) value {
		y := b.Broadcast(x, append([]int64{4}, x.Shape.Dims...), iotas(x.Shape.Rank(), 1)...)
		return b.DynamicSlice(y, append([]int64{2}, x.Shape.Dims...), starts(b, y.Shape.Dims)...)
	}),
	ranked("dynamic-slice-of-reshape", 2, func(b *builder, x value) value {
		y := b.Reshape(x, append([]int64{1}, x.Shape.Dims...)...)
		return b.DynamicSlice(y, append([]int64{1}, less(x.Shape.Dims, 1)...), starts(b, y.Shape.Dims)...)
	}),
	ranked("dynamic-update-slice-whole", 1, func(b *builder, x value) value {
		return b.DynamicUpdateSlice(x, like(b, x), starts(b, x.Shape.Dims)...)
	}),
	ranked("dynamic-update-slice-constant", 1, func(b *builder, x value) value {
		var st []value
		for _, d := range x.Shape.Dims {
			st = append(st, b.Number(hlo.S32, float64(b.Between(-1, int(d)))))
		}
		return b.DynamicUpdateSlice(b.Fill(x, 0), b.Source(x.Shape.Type, less(x.Shape.Dims, 1)...), st...)
	}),
	ranked("dynamic-update-slice-empty", 1, func(b *builder, x value) value {
		return b.DynamicUpdateSlice(x, b.Constant(x.Shape.Type, with(x.Shape.Dims, 0, 0)...), starts(b, x.Shape.Dims)...)
	}),
	ranked("dynamic-update-slice-of-slice", 1, func(b *builder, x value) value {
		st := starts(b, x.Shape.Dims)
		return b.DynamicUpdateSlice(x, b.DynamicSlice(x, less(x.Shape.Dims, 1), st...), st...)
	}),
	ranked("dynamic-update-slice-chain", 1, func(b *builder, x value) value {
		for range b.Between(2, 4) {
			x = b.DynamicUpdateSlice(x, b.Source(x.Shape.Type, less(x.Shape.Dims, 1)...), starts(b, x.Shape.Dims)...)
		}
		return x
	}),
	ranked("slice-of-dynamic-update-slice", 1, func(b *builder, x value) value {
		y := b.DynamicUpdateSlice(x, b.Source(x.Shape.Type, less(x.Shape.Dims, 1)...), starts(b, x.Shape.Dims)...)
		return b.Slice(y, zeros(x, 1), x.Shape.Dims, nil)
	}),
	ranked("copy", 1, func(b *builder, x value) value { return b.Copy(b.Copy(x)) }),
	ranked("bitcast-convert-twice", 1, func(b *builder, x value) value {
		y := b.Source(hlo.F32, x.Shape.Dims...)
		return b.BitcastConvert(b.BitcastConvert(y, hlo.S32, x.Shape.Dims...), hlo.F32, x.Shape.Dims...)
	}),
	ranked("select-of-iota-compare", 1, func(b *builder, x value) value {
		i := b.Iota(hlo.S32, 0, x.Shape.Dims...)
		return b.Select(b.Compare("LT", i, b.Fill(i, 2)), x, b.Fill(x, 0))
	}),
})

// ranked is a pattern on an array of at least rank dimensions.
func ranked(name string, rank int, build func(b *builder, x value) value, passes ...string) Pattern {
	return Pattern{Name: name, Passes: passes, Build: func(b *builder) {
		x := b.Source(b.Num(), b.Full(rank+b.R.IntN(2))...)
		b.Out(build(b, x))
	}}
}

// zeros are the starts of a slice that leaves out n elements of dimension 0.
func zeros(x value, n int64) []int64 { return with(make([]int64, x.Shape.Rank()), 0, n) }

// less are dims with n fewer elements each, at least one.
func less(dims []int64, n int64) []int64 {
	out := slices.Clone(dims)
	for i := range out {
		out[i] = max(out[i]-n, min(out[i], 1))
	}
	return out
}

// stride is nil or strides of 2.
func stride(b *builder, x value) []int64 {
	if b.Chance(2) {
		return nil
	}
	out := make([]int64, x.Shape.Rank())
	for i := range out {
		out[i] = int64(b.Between(1, 2))
	}
	return out
}

// iotas are from, from+1, ..., n of them.
func iotas(n int, from int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = from + int64(i)
	}
	return out
}

// starts are scalar s32 indices, one per dimension.
func starts(b *builder, dims []int64) []value {
	var out []value
	for _, d := range dims {
		out = append(out, b.IndexOf(hlo.S32, d))
	}
	return out
}
