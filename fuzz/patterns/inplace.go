package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// inPlace are programs in which a compiler writes a result over its operand:
// updates that read what they overwrite, values that live on behind an update,
// loops whose state is updated, permuted and copied, results that share memory
// with parameters. What can go wrong is a copy too few.
var inPlace = of("in-place", []string{"copy-insertion"}, []Pattern{
	loop("update-from-itself", []string{"fusion"}, func(b *builder) {
		// The update is a slice of what is updated, shifted by a few elements: it
		// overlaps with its own place.
		x := made(b, b.Num(), n1(b))
		n := x.Shape.Dims[0]
		k := int64(b.Between(1, int(n-1)))
		from, to := int64(b.R.IntN(int(n-k+1))), int64(b.R.IntN(int(n-k+1)))
		b.Out(b.DynamicUpdateSlice(x, touched(b, b.Slice(x, []int64{from}, []int64{from + k}, nil)), b.Number(hlo.S32, float64(to))))
	}),
	loop("update-from-itself-reshaped", []string{"fusion", "reshape-decomposer", "algsimp"}, func(b *builder) {
		n := n1(b)
		x := made(b, b.Num(), n, 1, 1)
		k := int64(b.Between(1, int(n-1)))
		zero := b.Number(hlo.S32, 0)
		y := b.DynamicUpdateSlice(x, b.Slice(x, []int64{0, 0, 0}, []int64{k, 1, 1}, nil), b.Number(hlo.S32, float64(b.R.IntN(int(n-k+1)))), zero, zero)
		b.Out(b.Reshape(y, program.Pick(b, []int64{1, n, 1}, []int64{1, 1, n}, []int64{n})...))
	}),
	loop("update-from-itself-reversed", []string{"fusion"}, func(b *builder) {
		x := made(b, b.Num(), n1(b))
		k := int64(b.Between(2, int(x.Shape.Dims[0])))
		b.Out(b.DynamicUpdateSlice(x, b.Reverse(b.Slice(x, []int64{0}, []int64{k}, nil), 0), b.Number(hlo.S32, 0)))
	}),
	loop("update-from-itself-transposed", []string{"fusion", "transpose-folding"}, func(b *builder) {
		n := int64(b.Between(2, 6))
		x := made(b, b.Num(), n, n)
		zero := b.Number(hlo.S32, 0)
		b.Out(b.DynamicUpdateSlice(x, b.Transpose(x, 1, 0), zero, zero))
	}),
	loop("update-from-a-moving-slice", []string{"fusion"}, func(b *builder) {
		x := made(b, b.Num(), n1(b))
		n := x.Shape.Dims[0]
		k := int64(b.Between(1, int(n-1)))
		u := touched(b, b.DynamicSlice(x, []int64{k}, b.IndexOf(hlo.S32, n)))
		b.Out(b.DynamicUpdateSlice(x, u, b.IndexOf(hlo.S32, n)))
	}),
	loop("update-with-a-sum-of-itself", []string{"fusion"}, func(b *builder) {
		x := made(b, b.Int(), n1(b), 3)
		u := b.Reshape(b.Reduce(hlo.OpAdd, x, 0), 1, 3)
		b.Out(b.DynamicUpdateSlice(x, u, b.IndexOf(hlo.S32, x.Shape.Dims[0]), b.Number(hlo.S32, 0)))
	}),
	loop("updates-of-one-value", []string{"fusion"}, func(b *builder) {
		// Two updates start from the same value: one of them needs a copy.
		x := made(b, b.Num(), n1(b))
		n, t := x.Shape.Dims[0], x.Shape.Type
		y := b.DynamicUpdateSlice(x, b.Source(t, 1), b.IndexOf(hlo.S32, n))
		z := b.DynamicUpdateSlice(x, b.Source(t, 1), b.IndexOf(hlo.S32, n))
		b.Out(program.Pick(b, []value{y, z}, []value{y, z, x}, []value{b.Add(y, z)})...)
	}),
	loop("old-value-read-later", []string{"fusion"}, func(b *builder) {
		x := made(b, b.Num(), n1(b))
		y := b.DynamicUpdateSlice(x, b.Source(x.Shape.Type, 2), b.IndexOf(hlo.S32, x.Shape.Dims[0]))
		b.Out(b.Add(y, b.Reverse(x, 0)), y)
	}),
	loop("updates-chained", []string{"fusion"}, func(b *builder) {
		x := made(b, b.Num(), n1(b))
		n := x.Shape.Dims[0]
		y := x
		for range b.Between(2, 4) {
			k := int64(b.Between(1, 2))
			y = b.DynamicUpdateSlice(y, touched(b, b.DynamicSlice(program.Pick(b, x, y), []int64{k}, b.IndexOf(hlo.S32, n))), b.IndexOf(hlo.S32, n))
		}
		b.Out(y)
	}),
	loop("update-in-a-fusion", []string{"fusion-wrapper"}, func(b *builder) {
		x := made(b, b.Num(), n1(b))
		n := x.Shape.Dims[0]
		k := int64(b.Between(1, int(n-1)))
		at := b.IndexOf(hlo.S32, n)
		f := b.Fusion("kLoop", []value{x, at}, func(a []value) value {
			return b.DynamicUpdateSlice(a[0], b.Slice(a[0], []int64{n - k}, []int64{n}, nil), a[1])
		})
		b.Out(f, b.Neg(x))
	}),
	loop("update-then-convert", []string{"fusion", "simplify-fp-conversions"}, func(b *builder) {
		// A narrow value updated through a wide one, as mixed-precision caches are.
		x := made(b, hlo.BF16, 8, 4)
		w := b.Convert(x, hlo.F32)
		y := b.DynamicUpdateSlice(w, b.Add(b.Slice(w, []int64{2, 0}, []int64{4, 4}, nil), b.Source(hlo.F32, 2, 4)), b.IndexOf(hlo.S32, 8), b.Number(hlo.S32, 0))
		b.Out(b.Convert(y, hlo.BF16))
	}),
	loop("update-of-a-bitcast", []string{"algsimp", "reshape-decomposer"}, func(b *builder) {
		x := made(b, b.Num(), 4, 6)
		y := b.Reshape(x, 24)
		z := b.DynamicUpdateSlice(y, b.Slice(y, []int64{1}, []int64{9}, nil), b.IndexOf(hlo.S32, 24))
		b.Out(b.Reshape(z, program.Pick(b, []int64{4, 6}, []int64{6, 4}, []int64{2, 12})...), x)
	}),
	loop("update-of-a-slice-put-back", []string{"algsimp", "fusion"}, func(b *builder) {
		x := made(b, b.Num(), 8)
		at := b.IndexOf(hlo.S32, 8)
		s := b.DynamicSlice(x, []int64{3}, at)
		b.Out(b.DynamicUpdateSlice(x, b.DynamicUpdateSlice(s, b.Slice(x, []int64{0}, []int64{1}, nil), b.IndexOf(hlo.S32, 3)), at))
	}),
	scattered("scatter-into-made", []string{"scatter_expander", "scatter_simplifier"}, func(b *builder) {
		x := made(b, b.Int(), 7, 2)
		r := b.ScatterRows(x, b.Indices(7, 4), b.Rows(x, b.Indices(7, 4)), false, func(cur, upd value) value { return b.Add(cur, upd) })
		b.Out(r, b.Neg(x))
	}),
	scattered("scatter-reads-what-it-writes", []string{"scatter_expander", "scatter_simplifier"}, func(b *builder) {
		x := made(b, b.Num(), 8)
		ix := b.Distinct(hlo.S32, 8, 5)
		b.Out(b.ScatterRows(x, ix, b.Rows(b.Reverse(x, 0), ix), true, func(cur, upd value) value { return upd }))
	}),
	scattered("scatters-of-one-value", []string{"scatter_expander"}, func(b *builder) {
		x := made(b, b.Int(), 6)
		set := func(cur, upd value) value { return b.Bin(hlo.OpMaximum, cur, upd) }
		y := b.ScatterRows(x, b.Indices(6, 3), b.Source(x.Shape.Type, 3), false, set)
		z := b.ScatterRows(x, b.Indices(6, 2), b.Source(x.Shape.Type, 2), false, set)
		b.Out(y, z, x)
	}),
	scattered("scatter-in-a-loop", []string{"scatter_expander", "while-loop-invariant-code-motion"}, func(b *builder) {
		x, ix := made(b, hlo.S32, 6), b.Indices(6, 3)
		b.Out(b.For(hlo.S32, 0, 1, int64(b.Between(1, 4)), []value{x, ix}, func(i value, s []value) []value {
			return []value{b.ScatterRows(s[0], s[1], b.Rows(s[0], s[1]), false, func(cur, upd value) value { return b.Add(cur, upd) }), s[1]}
		})...)
	}),
	scattered("windows-scattered-back", []string{"scatter_expander", "gather_simplifier"}, func(b *builder) {
		x := made(b, hlo.S32, 6, 5)
		g := &hlopb.GatherDimensionNumbers{OffsetDims: []int64{0, 1}, StartIndexMap: []int64{0, 1}}
		d := &hlopb.ScatterDimensionNumbers{UpdateWindowDims: []int64{0, 1}, ScatterDimsToOperandDims: []int64{0, 1}}
		w := b.Gather(x, b.Indices(4, 2), g, []int64{2, 3}, false)
		b.Out(b.Scatter(x, b.Indices(4, 2), w, d, true, func(cur, upd value) value { return upd }))
	}),
	loop("loop-fills", []string{"while-loop-trip-count-annotator", "fusion"}, func(b *builder) {
		// The usual scan: each trip writes its own row.
		n := int64(b.Between(2, 6))
		x, acc := b.Source(b.Num(), n, 3), made(b, hlo.F32, n, 3)
		r := b.For(hlo.S32, 0, 1, n, []value{x, acc}, func(i value, s []value) []value {
			zero := b.Number(hlo.S32, 0)
			row := b.Convert(b.DynamicSlice(s[0], []int64{1, 3}, i, zero), hlo.F32)
			return []value{s[0], b.DynamicUpdateSlice(s[1], b.Mul(row, row), i, zero)}
		})
		b.Out(r[1], b.Neg(acc))
	}),
	loop("loop-reads-the-row-before", []string{"fusion"}, func(b *builder) {
		n := int64(b.Between(3, 7))
		x := made(b, b.Num(), n, 2)
		r := b.For(hlo.S32, 1, 1, n-1, []value{x}, func(i value, s []value) []value {
			zero, one := b.Number(hlo.S32, 0), b.Number(hlo.S32, 1)
			before := b.DynamicSlice(s[0], []int64{1, 2}, b.Sub(i, one), zero)
			here := b.DynamicSlice(s[0], []int64{1, 2}, i, zero)
			return []value{b.DynamicUpdateSlice(s[0], b.Add(before, here), i, zero)}
		})
		b.Out(r...)
	}),
	loop("loop-shifts-itself", []string{"fusion"}, func(b *builder) {
		x := made(b, b.Num(), n1(b))
		n := x.Shape.Dims[0]
		r := b.For(hlo.S32, 0, 1, int64(b.Between(1, 4)), []value{x}, func(i value, s []value) []value {
			return []value{b.DynamicUpdateSlice(s[0], b.Slice(s[0], []int64{0}, []int64{n - 1}, nil), b.Number(hlo.S32, 1))}
		})
		b.Out(r...)
	}),
	loop("loop-swaps", nil, func(b *builder) {
		x := made(b, b.Num(), 5)
		y := b.Add(x, x)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(1, 5)), []value{x, y}, func(i value, s []value) []value {
			return []value{b.DynamicUpdateSlice(s[1], b.Slice(s[0], []int64{0}, []int64{2}, nil), i), s[0]}
		})
		b.Out(append(r, x)...)
	}),
	loop("loop-rotates-three", nil, func(b *builder) {
		x := made(b, b.Num(), 4)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(1, 7)), []value{x, b.Neg(x), b.Add(x, x)}, func(i value, s []value) []value {
			return program.Pick(b, []value{s[1], s[2], s[0]}, []value{s[2], s[0], b.Add(s[1], s[0])}, []value{s[0], s[0], s[1]})
		})
		b.Out(r...)
	}),
	loop("loop-keeps-the-old", nil, func(b *builder) {
		// The state before the update leaves the trip beside the state after it.
		x := made(b, b.Num(), 6)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(1, 4)), []value{x, x}, func(i value, s []value) []value {
			return []value{b.DynamicUpdateSlice(s[0], b.Reverse(b.Slice(s[1], []int64{0}, []int64{2}, nil), 0), i), s[0]}
		})
		b.Out(r...)
	}),
	loop("loop-of-a-shared-value", nil, func(b *builder) {
		// Two loops start from one value, which lives on.
		x := made(b, b.Num(), 5)
		step := func(i value, s []value) []value {
			return []value{b.DynamicUpdateSlice(s[0], b.DynamicSlice(s[0], []int64{1}, b.Number(hlo.S32, 4)), i)}
		}
		y := b.For(hlo.S32, 0, 1, 3, []value{x}, step)
		z := b.For(hlo.S32, 1, 1, 2, []value{x}, step)
		b.Out(y[0], z[0], x)
	}),
	loop("loops-nested", []string{"while-loop-trip-count-annotator"}, func(b *builder) {
		x := made(b, b.Num(), 3, 4)
		r := b.For(hlo.S32, 0, 1, 3, []value{x}, func(i value, s []value) []value {
			return b.For(hlo.S32, 1, 1, 3, []value{s[0], i}, func(j value, t []value) []value {
				return []value{b.DynamicUpdateSlice(t[0], b.DynamicSlice(t[0], []int64{1, 1}, t[1], b.Number(hlo.S32, 0)), t[1], j), t[1]}
			})[:1]
		})
		b.Out(r...)
	}),
	loop("loop-of-a-constant", []string{"while-loop-constant-sinking", "constant_folding"}, func(b *builder) {
		// The state starts as a constant, which must not be written to.
		x := b.Constant(b.Num(), 6)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(1, 3)), []value{x, x}, func(i value, s []value) []value {
			return []value{b.DynamicUpdateSlice(s[0], b.Slice(s[1], []int64{4}, []int64{5}, nil), i), s[1]}
		})
		b.Out(b.Add(r[0], x))
	}),
	loop("branches-update", []string{"conditional_simplifier", "conditional-code-motion"}, func(b *builder) {
		x, p := made(b, b.Num(), 6), b.Source(hlo.Pred)
		r := b.If(p, []value{x},
			func(a []value) value {
				return b.Tuple(b.DynamicUpdateSlice(a[0], b.Slice(a[0], []int64{0}, []int64{3}, nil), b.Number(hlo.S32, 2)), a[0])
			},
			func(a []value) value { return b.Tuple(a[0], b.Reverse(a[0], 0)) })
		b.Out(append(b.Elements(r), b.Neg(x))...)
	}),
	loop("branch-in-a-loop", []string{"conditional_simplifier"}, func(b *builder) {
		x := made(b, b.Num(), 5)
		r := b.For(hlo.S32, 0, 1, 4, []value{x}, func(i value, s []value) []value {
			odd := b.Compare("EQ", b.Bin(hlo.OpAnd, i, b.Number(hlo.S32, 1)), b.Number(hlo.S32, 1))
			return []value{b.If(odd, []value{s[0], i},
				func(a []value) value {
					return b.DynamicUpdateSlice(a[0], b.Slice(a[0], []int64{4}, []int64{5}, nil), a[1])
				},
				func(a []value) value { return a[0] })}
		})
		b.Out(r...)
	}),
	loop("call-updates", []string{"call-inliner", "flatten-call-graph"}, func(b *builder) {
		x := made(b, b.Num(), 6)
		f := func(a []value) value {
			return b.DynamicUpdateSlice(a[0], b.Slice(a[0], []int64{1}, []int64{4}, nil), b.Number(hlo.S32, 0))
		}
		b.Out(b.Call([]value{x}, f), b.Call([]value{b.Neg(x)}, f), x)
	}),
	loop("sort-keeps-its-input", nil, func(b *builder) {
		x := made(b, hlo.S32, 9)
		s := b.Sort(0, true, []value{x}, func(a []value) value { return b.Compare("LT", a[0], a[1]) })
		b.Out(s, b.Add(x, s))
	}),
	alone("alias-update", []string{"fusion", "optimize_input_output_buffer_alias"}, func(b *builder) {
		x := b.Param(hlo.ArrayShape(b.Num(), 8))
		y := b.DynamicUpdateSlice(x, touched(b, b.Slice(x, []int64{0}, []int64{5}, nil)), b.Number(hlo.S32, float64(b.R.IntN(4))))
		b.Out(program.Pick(b, []value{y}, []value{y, b.Neg(x)})...)
		share(b, 0, 0)
	}),
	alone("alias-scatter", []string{"scatter_expander"}, func(b *builder) {
		x, ix := b.Param(hlo.ArrayShape(hlo.S32, 6)), b.Indices(6, 3)
		b.Out(b.ScatterRows(x, ix, b.Rows(x, ix), false, func(cur, upd value) value { return b.Add(cur, upd) }))
		share(b, 0, 0)
	}),
	alone("alias-loop-update", nil, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.F32, 5)), b.Param(hlo.ArrayShape(hlo.F32, 5))
		r := b.For(hlo.S32, 0, 1, int64(b.Between(1, 4)), []value{x, y}, func(i value, s []value) []value {
			return []value{b.DynamicUpdateSlice(s[0], b.Slice(s[1], []int64{2}, []int64{4}, nil), i), s[0]}
		})
		b.Out(r...)
		share(b, 0, b.R.IntN(2))
	}),
	alone("alias-both-swapped", nil, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.F32, 5)), b.Param(hlo.ArrayShape(hlo.F32, 5))
		b.Out(b.Neg(y), b.DynamicUpdateSlice(x, b.Slice(y, []int64{0}, []int64{2}, nil), b.IndexOf(hlo.S32, 5)))
		must := b.Chance(2)
		b.Alias([]int64{0}, 0, must)
		b.Alias([]int64{1}, 1, must)
	}),
	alone("alias-through-a-parameter", nil, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.S32, 4)), b.Param(hlo.ArrayShape(hlo.S32, 4))
		b.Out(x, b.Add(x, y), b.Sub(y, x))
		share(b, b.R.IntN(3), b.R.IntN(2))
	}),
	alone("alias-of-a-constant", nil, func(b *builder) {
		x := b.Param(hlo.ArrayShape(hlo.S32, 4))
		b.Out(b.Constant(hlo.S32, 4), b.Neg(x))
		share(b, 0, 0)
	}),
	alone("donors", []string{"optimize_input_output_buffer_alias"}, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.F32, 6)), b.Param(hlo.ArrayShape(hlo.F32, 6))
		z := b.DynamicUpdateSlice(x, b.Slice(y, []int64{1}, []int64{4}, nil), b.IndexOf(hlo.S32, 6))
		b.Out(z, b.Add(x, y))
		b.Donate(0)
		if b.Chance(2) {
			b.Donate(1)
		}
	}),
})

// n1 is the size of a small dimension to shift things in.
func n1(b *builder) int64 { return int64(b.Between(3, 9)) }

// made is an array that the program has computed: one that may be overwritten.
func made(b *builder, t hlo.PrimitiveType, dims ...int64) value {
	x := b.Source(t, dims...)
	switch b.R.IntN(3) {
	case 0:
		return b.Add(x, x)
	case 1:
		return b.Neg(x)
	}
	return b.Add(x, b.Fill(x, 1))
}

// touched is x, or a little more than x.
func touched(b *builder, x value) value {
	switch b.R.IntN(3) {
	case 0:
		return x
	case 1:
		return b.Neg(x)
	}
	return b.Add(x, b.Fill(x, 1))
}

// share lets result k and a parameter share memory.
func share(b *builder, k, parameter int) {
	at := []int64{int64(k)}
	if len(b.Results()) == 1 {
		at = nil
	}
	b.Alias(at, int64(parameter), b.Chance(2))
}
