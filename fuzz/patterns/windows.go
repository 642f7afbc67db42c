package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// windows are reductions: of everything, of broadcasts and reshapes, of long
// arrays, in windows with strides, dilations and padding, of several arrays.
var windows = of("reduction", nil, []Pattern{
	ranked("of-transpose", 2, func(b *builder, x value) value {
		return b.Reduce(monoid(b, x), b.Transpose(x, b.Moved(x.Shape.Rank())...), 0)
	}, "algsimp"),
	ranked("of-reshape", 2, func(b *builder, x value) value {
		y := b.Reshape(x, append([]int64{1}, x.Shape.Dims...)...)
		return b.Reduce(monoid(b, x), y, iotas(y.Shape.Rank(), 0)...)
	}, "algsimp"),
	ranked("of-reduce", 3, func(b *builder, x value) value {
		op := monoid(b, x)
		return b.Reduce(op, b.Reduce(op, x, 1), 0)
	}, "algsimp"),
	ranked("of-broadcast", 1, func(b *builder, x value) value {
		y := b.Broadcast(x, append([]int64{4}, x.Shape.Dims...), iotas(x.Shape.Rank(), 1)...)
		return b.Reduce(monoid(b, x), y, 0)
	}, "algsimp"),
	ranked("of-concat", 1, func(b *builder, x value) value {
		return b.Reduce(monoid(b, x), b.Concat(0, x, like(b, x)), 0)
	}, "algsimp"),
	ranked("of-pad", 1, func(b *builder, x value) value {
		ps := make([]program.Padding, x.Shape.Rank())
		ps[0] = edges(b, x.Shape.Dims[0])
		return b.Reduce(hlo.OpAdd, b.Pad(x, b.Number(x.Shape.Type, 0), ps...), 0)
	}, "algsimp"),
	ranked("of-one", 1, func(b *builder, x value) value {
		return b.Reduce(monoid(b, x), b.Reshape(x, append([]int64{1}, x.Shape.Dims...)...), 0)
	}, "algsimp"),
	ranked("of-negated", 1, func(b *builder, x value) value { return b.Reduce(hlo.OpAdd, b.Neg(x), 0) }, "algsimp"),
	ranked("scaled", 1, func(b *builder, x value) value { return b.Reduce(hlo.OpAdd, b.Mul(x, b.Fill(x, 2)), 0) }, "algsimp"),
	ranked("of-dot", 1, func(b *builder, x value) value {
		return b.Reduce(hlo.OpAdd, b.MatMul(b.Source(hlo.F32, 3, 4), b.Source(hlo.F32, 4, 5)), int64(b.R.IntN(2)))
	}, "algsimp", "dot_decomposer"),
	loop("not-from-neutral", []string{"algsimp"}, func(b *builder) {
		x := b.Source(hlo.S32, 4, 5)
		b.Out(b.ReduceFrom(hlo.OpAdd, x, b.Source(hlo.S32), 1))
	}),
	loop("of-all-dimensions", []string{"algsimp", "cpu-parallel-task-assigner"}, func(b *builder) {
		x := b.Source(b.Num(), b.Full(3)...)
		b.Out(b.Reduce(monoid(b, x), x, 0, 1, 2))
	}),
	loop("long", []string{"tree_reduction_rewriter", "reduce-window-rewriter"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.F32, hlo.F64, hlo.S32), program.Pick[int64](b, 40, 65, 100, 333))
		b.Out(b.Reduce(program.Pick(b, hlo.OpAdd, hlo.OpMultiply, hlo.OpMaximum), x, 0))
	}),
	loop("long-rows", []string{"tree_reduction_rewriter"}, func(b *builder) {
		x := b.Source(hlo.F32, 3, program.Pick[int64](b, 40, 64, 100))
		b.Out(b.Reduce(hlo.OpAdd, x, 1))
	}),
	loop("logical", []string{"algsimp", "reduce-decomposer"}, func(b *builder) {
		x := b.Source(hlo.Pred, 3, 4)
		b.Out(b.Reduce(program.Pick(b, hlo.OpAnd, hlo.OpOr), x, int64(b.R.IntN(2))))
	}),
	loop("two-arrays", []string{"algsimp", "reduce-decomposer"}, func(b *builder) {
		x, y := b.Source(hlo.F32, 3, 4), b.Source(hlo.F32, 3, 4)
		b.Out(b.Elements(sums(b, []value{x, y}, 1))...)
	}),
	loop("layouts", []string{"reduce-decomposer", "layout-assignment"}, func(b *builder) {
		x := b.Source(hlo.F32, 3, 4, 2)
		y := b.Copy(b.Neg(x), 0, 1, 2)
		b.Out(b.Elements(sums(b, []value{y, b.Transpose(b.Source(hlo.F32, 2, 4, 3), 2, 1, 0)}, 0))...)
		b.Out(b.Transpose(b.Reduce(hlo.OpMaximum, b.Transpose(x, 2, 0, 1), 1), 1, 0))
	}),
	window("plain", []string{"algsimp"}, func(b *builder) program.Window { return program.Window{Size: 2} }),
	window("strided", nil, func(b *builder) program.Window { return program.Window{Size: 3, Stride: 2, Low: 1, High: 1} }),
	window("dilated", []string{"dot-library-rewriter"}, func(b *builder) program.Window {
		return program.Window{Size: 2, Dilation: 2, BaseDilation: int64(b.Between(1, 3))}
	}),
	window("of-one", []string{"algsimp"}, func(b *builder) program.Window { return program.Window{Size: 1, Stride: int64(b.Between(1, 2))} }),
	window("negative-padding", nil, func(b *builder) program.Window {
		return program.Window{Size: 2, Low: -1, High: int64(b.Between(-1, 1))}
	}),
	window("backward", nil, func(b *builder) program.Window {
		return program.Window{Size: 3, Low: 2, Stride: int64(b.Between(1, 2))}
	}),
	loop("window-over-all", []string{"algsimp"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 5)
		b.Out(b.ReduceWindow(hlo.OpAdd, x, program.Window{Size: 4}, program.Window{Size: 5}))
	}),
	loop("window-of-pad", []string{"algsimp"}, func(b *builder) {
		t, op := b.Num(), program.Pick(b, hlo.OpAdd, hlo.OpMaximum, hlo.OpMinimum)
		m, n := int64(b.Between(1, 4)), int64(b.Between(1, 4))
		p, q := edges(b, m), edges(b, n)
		x := b.Pad(b.Source(t, m, n), b.Number(t, program.Neutral(op, t)), p, q)
		over := func(d int64) program.Window {
			w := program.Window{Stride: int64(b.Between(1, 2))}
			if b.Chance(2) { // padding of both operations adds up
				w.Low, w.High = int64(b.Between(0, 2)), int64(b.Between(0, 2))
			}
			w.Size = int64(b.Between(1, int(min(4, d+w.Low+w.High)))) // it may be wider than what it is over
			return w
		}
		b.Out(b.ReduceWindow(op, x, over(x.Shape.Dims[0]), over(x.Shape.Dims[1])))
	}),
	loop("window-of-ones", []string{"algsimp"}, func(b *builder) {
		// Only the padding changes anything, of either sign or cropping alone.
		x := b.Source(b.Num(), b.Full(b.Between(1, 3))...)
		most := program.Pick(b, 0, 2)
		var ws []program.Window
		for _, n := range x.Shape.Dims {
			w := program.Window{Size: 1}
			if b.Chance(2) {
				w.Low, w.High = int64(b.Between(-1, most)), int64(b.Between(-1, most))
			}
			if n+w.Low+w.High < 1 {
				w.Low, w.High = 0, 0
			}
			ws = append(ws, w)
		}
		b.Out(b.ReduceWindow(monoid(b, x), x, ws...))
	}),
	loop("window-mixed", []string{"algsimp", "reduce-window-rewriter"}, func(b *builder) {
		x := b.Source(b.Num(), b.Full(b.Between(1, 3))...)
		b.Out(b.ReduceWindow(monoid(b, x), x, overAll(b, x)...))
	}),
	loop("window-of-move", []string{"algsimp"}, func(b *builder) {
		x := b.Source(b.Num(), b.Full(b.Between(1, 2))...)
		op := monoid(b, x)
		y := moved(b, x, program.Neutral(op, x.Shape.Type))
		b.Out(b.ReduceWindow(op, y, overAll(b, y)...))
	}),
	loop("window-of-window", []string{"algsimp"}, func(b *builder) {
		x := b.Source(b.Num(), b.Full(b.Between(1, 2))...)
		op := monoid(b, x)
		y := b.ReduceWindow(op, x, overAll(b, x)...)
		b.Out(b.ReduceWindow(op, y, overAll(b, y)...))
	}),
	loop("reduce-of-move", []string{"algsimp"}, func(b *builder) {
		x := b.Source(b.Num(), b.Full(b.Between(1, 3))...)
		op := monoid(b, x)
		y := moved(b, x, program.Neutral(op, x.Shape.Type))
		b.Out(b.Reduce(op, y, int64(b.R.IntN(y.Shape.Rank()))))
	}),
	loop("window-of-broadcast", []string{"algsimp"}, func(b *builder) {
		x := b.Splat(b.Source(hlo.F32), 4, 5)
		b.Out(b.ReduceWindow(hlo.OpAdd, x, program.Window{Size: 2}, program.Window{Size: 2, Stride: 2}))
	}),
	loop("window-tiles", []string{"dot-library-rewriter"}, func(b *builder) {
		// A library takes windows that tile a dimension; the dimensions with a
		// window of one it does not look at (ynn_support.cc, reduce-like
		// operations): they are dilated and padded here. It wants large arrays.
		t, op := hlo.F32, program.Pick(b, hlo.OpAdd, hlo.OpMaximum, hlo.OpMinimum)
		k := int64(b.Between(2, 4))
		n := program.Pick[int64](b, 32, 64, 128)
		tiled, other := program.Window{Size: k, Stride: k}, program.Window{Size: 1}
		switch b.R.IntN(4) {
		case 0:
			other.BaseDilation = int64(b.Between(2, 3))
		case 1:
			other.Low, other.High = int64(b.Between(-1, 2)), int64(b.Between(-1, 2))
		case 2:
			tiled.Low, tiled.High = int64(b.Between(0, 2)), int64(b.Between(0, 2))
		}
		if b.Chance(2) {
			b.Out(b.ReduceWindow(op, b.Source(t, k*n, 128), tiled, other))
		} else {
			b.Out(b.ReduceWindow(op, b.Source(t, 128, k*n), other, tiled))
		}
	}),
	loop("cumulative", []string{"reduce-window-rewriter", "associative-scan-rewriter"}, func(b *builder) {
		n := program.Pick[int64](b, 20, 33, 64, 100)
		x := b.Source(program.Pick(b, hlo.F32, hlo.S32), n)
		b.Out(b.ReduceWindow(program.Pick(b, hlo.OpAdd, hlo.OpMaximum), x, program.Window{Size: n, Low: n - 1}))
	}),
	loop("cumulative-rows", []string{"reduce-window-rewriter"}, func(b *builder) {
		n := program.Pick[int64](b, 20, 40, 64)
		x := b.Source(hlo.F32, 2, n)
		w := program.Window{Size: n, Low: n - 1}
		if b.Chance(2) {
			w = program.Window{Size: n, High: n - 1}
		}
		b.Out(b.ReduceWindow(hlo.OpAdd, x, program.Window{Size: 1}, w))
	}),
	loop("cumulative-of-two", []string{"reduce-window-rewriter"}, func(b *builder) {
		n := int64(40)
		x, y := b.Source(hlo.F32, n), b.Source(hlo.S32, n)
		r := b.ReduceWindowMany([]value{x, y}, []value{b.Number(hlo.F32, 0), b.Number(hlo.S32, 0)}, []program.Window{{Size: n, Low: n - 1}}, func(acc, el []value) []value {
			return []value{b.Add(acc[0], el[0]), b.Bin(hlo.OpMaximum, acc[1], el[1])}
		})
		b.Out(b.Elements(r)...)
	}),
	loop("window-of-a-vector", []string{"reduce-window-resizer"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.S32, hlo.BF16), b.Size(4))
		b.Out(b.ReduceWindow(program.Pick(b, hlo.OpAdd, hlo.OpMaximum), x, program.Window{Size: 3, Stride: int64(b.Between(1, 2)), Low: 1}))
	}),
	loop("window-of-a-vector-reversed", []string{"reduce-window-resizer"}, func(b *builder) {
		x := b.Source(hlo.F32, 9)
		r := b.ReduceWindowMany([]value{x, like(b, x)}, []value{b.Number(hlo.F32, 0), b.Number(hlo.F32, 0)}, []program.Window{{Size: 2, Stride: 2}}, func(acc, el []value) []value {
			return []value{b.Add(acc[0], el[0]), b.Bin(hlo.OpMaximum, acc[1], el[1])}
		})
		b.Out(b.Elements(r)...)
	}),
	loop("select-and-scatter", []string{"select_and_scatter_expander"}, func(b *builder) {
		n := int64(b.Between(2, 4))
		t := program.Pick(b, hlo.F32, hlo.S32, hlo.BF16)
		w := program.Window{Size: 2, Stride: 2}
		b.Out(b.SelectAndScatter(program.Pick(b, "GE", "LE"), hlo.OpAdd, b.Source(t, 2*n, 6), b.Source(t, n, 3), w, w))
	}),
	loop("select-and-scatter-overlap", []string{"select_and_scatter_expander"}, func(b *builder) {
		x, s := b.Source(hlo.S32, 6), b.Source(hlo.S32, 4)
		b.Out(b.SelectAndScatter("GE", hlo.OpAdd, x, s, program.Window{Size: 3}))
	}),
	loop("select-and-scatter-padded", []string{"select_and_scatter_expander"}, func(b *builder) {
		x, s := b.Source(hlo.F32, 5), b.Source(hlo.F32, 3)
		b.Out(b.SelectAndScatter("GE", hlo.OpAdd, x, s, program.Window{Size: 2, Stride: 2, Low: 1}))
	}),
	loop("scan", []string{"scan_expander", "associative-scan-rewriter"}, func(b *builder) {
		x := b.Source(hlo.F32, 8, 3)
		n := int64(8)
		b.Out(b.ReduceWindow(hlo.OpMultiply, x, program.Window{Size: n, Low: n - 1}, program.Window{Size: 1}))
	}),
})

// edges pads or crops each end of a dimension of n elements, may pad between
// them, and leaves at least one: edge padding may be negative (StableHLO, pad).
// Interior padding of a single element has no effect and is as good as any.
func edges(b *builder, n int64) program.Padding {
	p := program.Padding{Low: int64(b.Between(-1, 2)), High: int64(b.Between(-1, 2))}
	if b.Chance(4) || n == 1 && b.Chance(2) {
		p.Interior = 1
	}
	if n+max(n-1, 0)*p.Interior+p.Low+p.High < 1 {
		p.High = 1
	}
	return p
}

// overAll is a window over each dimension of x, of every form that leaves
// something: sizes, strides, padding of either sign and dilations of either
// kind, most of them plain.
func overAll(b *builder, x value) []program.Window {
	var out []program.Window
	for _, n := range x.Shape.Dims {
		w := program.Window{Size: 1, Stride: 1, Dilation: 1, BaseDilation: 1}
		if b.Chance(2) {
			w.Size = int64(b.Between(2, 3))
		}
		switch b.R.IntN(6) {
		case 0:
			w.Stride = 2
		case 1:
			w.Dilation = 2
		case 2:
			w.BaseDilation = 2
		}
		if !b.Chance(3) {
			w.Low, w.High = int64(b.Between(-2, 2)), int64(b.Between(-2, 2))
		}
		if (max(n, 1)-1)*w.BaseDilation+1+w.Low+w.High < (w.Size-1)*w.Dilation+1 || n == 0 {
			w = program.Window{Size: 1}
		}
		out = append(out, w)
	}
	return out
}

// moved is x after an operation that only moves elements, or pads with v.
func moved(b *builder, x value, v float64) value {
	rank := x.Shape.Rank()
	switch b.R.IntN(6) {
	case 0:
		return b.Reverse(x, int64(b.R.IntN(rank)))
	case 1:
		return b.Transpose(x, b.Perm(rank)...)
	case 2:
		return b.Slice(x, make([]int64, rank), less(x.Shape.Dims, int64(b.Between(0, 1))), stride(b, x))
	case 3:
		return b.Broadcast(x, append([]int64{int64(b.Between(1, 3))}, x.Shape.Dims...), iotas(rank, 1)...)
	}
	ps := make([]program.Padding, rank)
	for i, n := range x.Shape.Dims {
		ps[i] = edges(b, n)
	}
	return b.Pad(x, b.Number(x.Shape.Type, v), ps...)
}

func monoid(b *builder, x value) hlo.Opcode {
	return program.Pick(b, hlo.OpAdd, hlo.OpAdd, hlo.OpMaximum, hlo.OpMinimum, hlo.OpMultiply)
}

func sums(b *builder, xs []value, dims ...int64) value {
	var inits []value
	for _, x := range xs {
		inits = append(inits, b.Number(x.Shape.Type, 0))
	}
	return b.ReduceMany(xs, inits, dims, func(acc, el []value) []value {
		out := make([]value, len(acc))
		for i := range acc {
			out[i] = b.Add(acc[i], el[i])
		}
		return out
	})
}

// window is a reduce-window with one form of window in one or two dimensions.
func window(name string, passes []string, form func(b *builder) program.Window) Pattern {
	return Pattern{Name: "window-" + name, Passes: append([]string{"reduce-window-rewriter"}, passes...), Build: func(b *builder) {
		x := b.Source(b.Num(), int64(b.Between(4, 8)), int64(b.Between(4, 6)))
		w := []program.Window{form(b), {Size: 1}}
		if b.Chance(2) {
			w[1] = form(b)
		}
		b.Out(b.ReduceWindow(monoid(b, x), x, w...))
	}}
}
