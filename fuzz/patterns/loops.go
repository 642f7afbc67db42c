package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// loops: trip counts known and unknown, invariant and dead state, constants to
// sink, code to hoist, slices to fuse.
var loops = of("loop", []string{"while-loop-trip-count-annotator", "copy-insertion"}, []Pattern{
	loop("no-trip", []string{"simplify-while-loops"}, func(b *builder) {
		x := arr(b)
		b.Out(b.For(hlo.S32, 0, 1, 0, []value{x}, func(i value, s []value) []value { return []value{b.Add(s[0], s[0])} })...)
	}),
	loop("one-trip", []string{"simplify-while-loops", "call-inliner"}, func(b *builder) {
		x := arr(b)
		b.Out(b.For(counter(b), int64(b.Between(0, 3)), int64(b.Between(1, 3)), 1, []value{x}, func(i value, s []value) []value {
			return []value{b.Add(s[0], b.Splat(b.Convert(i, s[0].Shape.Type), s[0].Shape.Dims...))}
		})...)
	}),
	loop("known-trips", []string{"while-loop-trip-count-annotator"}, func(b *builder) {
		x := arr(b)
		b.Out(b.For(counter(b), int64(b.Between(0, 3)), int64(b.Between(1, 3)), int64(b.Between(2, 6)), []value{x}, func(i value, s []value) []value {
			return []value{b.Add(s[0], b.Splat(b.Convert(i, s[0].Shape.Type), s[0].Shape.Dims...))}
		})...)
	}),
	loop("counts-down", []string{"while-loop-trip-count-annotator", "simplify-while-loops"}, func(b *builder) {
		x := arr(b)
		w := b.While([]value{b.Number(hlo.S32, float64(b.Between(0, 6))), x},
			func(s []value) value {
				return b.Compare(program.Pick(b, "GT", "NE"), s[0], b.Number(hlo.S32, 0))
			},
			func(s []value) []value {
				return []value{b.Sub(s[0], b.Number(hlo.S32, 1)), b.Add(s[1], s[1])}
			})
		b.Out(b.Element(w, 1))
	}),
	loop("strides", []string{"simplify-while-loops"}, func(b *builder) {
		// Start, stride and bound have nothing to do with each other: the counter
		// may step over the bound in the first trip or the last.
		x, t := arr(b), counter(b)
		start, step, bound := int64(b.Between(0, 3)), int64(b.Between(1, 5)), int64(b.Between(0, 9))
		if b.Chance(2) {
			bound = start + int64(b.Between(1, int(step))) // one trip
		}
		direction := program.Pick(b, "LT", "LE")
		w := b.While([]value{b.Number(t, float64(start)), x},
			func(s []value) value { return b.Compare(direction, s[0], b.Number(t, float64(bound))) },
			func(s []value) []value {
				return []value{b.Add(s[0], b.Number(t, float64(step))), b.Add(s[1], b.Splat(b.Convert(s[0], s[1].Shape.Type), s[1].Shape.Dims...))}
			})
		b.Out(b.Element(w, 0), b.Element(w, 1))
	}),
	loop("one-stride", []string{"simplify-while-loops"}, func(b *builder) {
		// At most one trip, whose stride need not end on the bound.
		x, t := arr(b), counter(b)
		start, step := int64(b.Between(0, 3)), int64(b.Between(1, 5))
		bound, direction := start+int64(b.Between(0, int(step))), "LT"
		if b.Chance(3) {
			bound, direction = bound-1, "LE"
		}
		w := b.While([]value{b.Number(t, float64(start)), x},
			func(s []value) value { return b.Compare(direction, s[0], b.Number(t, float64(max(bound, 0)))) },
			func(s []value) []value {
				return []value{b.Add(s[0], b.Number(t, float64(step))), b.Add(s[1], b.Splat(b.Convert(s[0], s[1].Shape.Type), s[1].Shape.Dims...))}
			})
		b.Out(b.Element(w, 0), b.Element(w, 1))
	}),
	loop("bound-in-state", []string{"simplify-while-loops", "while-loop-constant-sinking"}, func(b *builder) {
		x := arr(b)
		w := b.While([]value{b.Number(hlo.S32, 0), b.Number(hlo.S32, float64(b.Between(0, 4))), x},
			func(s []value) value { return b.Compare("LT", s[0], s[1]) },
			func(s []value) []value {
				return []value{b.Add(s[0], b.Number(hlo.S32, 1)), s[1], b.Add(s[2], s[2])}
			})
		b.Out(b.Element(w, 2))
	}),
	loop("bound-from-parameter", nil, func(b *builder) {
		x, n := arr(b), b.Fresh(hlo.S32)
		w := b.While([]value{b.Number(hlo.S32, 0), n, x},
			func(s []value) value {
				return b.Bin(hlo.OpAnd, b.Compare("LT", s[0], s[1]), b.Compare("LT", s[0], b.Number(hlo.S32, 5)))
			},
			func(s []value) []value {
				return []value{b.Add(s[0], b.Number(hlo.S32, 1)), s[1], b.Add(s[2], s[2])}
			})
		b.Out(b.Element(w, 2))
	}),
	loop("dead-state", []string{"simplify-while-loops", "dce"}, func(b *builder) {
		x, y := arr(b), arr(b)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(2, 5)), []value{x, y, b.Fill(y, 1)}, func(i value, s []value) []value {
			return []value{b.Neg(s[0]), b.Add(s[1], s[2]), s[2]}
		})
		b.Out(r[0])
	}),
	loop("untouched-state", []string{"simplify-while-loops", "while-loop-invariant-code-motion"}, func(b *builder) {
		x, y := arr(b), arr(b)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(2, 5)), []value{x, y}, func(i value, s []value) []value { return []value{b.Neg(s[0]), s[1]} })
		b.Out(r...)
	}),
	loop("invariant", []string{"while-loop-invariant-code-motion", "while-loop-expensive-invariant-code-motion"}, func(b *builder) {
		x := arr(b)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(2, 5)), []value{x, like(b, x), like(b, x)}, func(i value, s []value) []value {
			y := b.Mul(b.Add(s[1], s[2]), b.Neg(s[1]))
			return []value{b.Add(s[0], y), s[1], s[2]}
		})
		b.Out(r[0])
	}),
	loop("invariant-of-loop-with-unknown-trips", []string{"while-loop-invariant-code-motion"}, func(b *builder) {
		x, n := arr(b), b.Fresh(hlo.S32)
		w := b.While([]value{b.Bin(hlo.OpMaximum, b.Bin(hlo.OpMinimum, n, b.Number(hlo.S32, 6)), b.Number(hlo.S32, 0)), x, like(b, x)},
			func(s []value) value { return b.Compare("GT", s[0], b.Number(hlo.S32, 0)) },
			func(s []value) []value {
				return []value{b.Sub(s[0], b.Number(hlo.S32, 1)), b.Add(s[1], b.Un(hlo.OpNegate, b.Add(s[2], s[2]))), s[2]}
			})
		b.Out(b.Element(w, 1))
	}),
	loop("constant-state", []string{"while-loop-constant-sinking", "simplify-while-loops"}, func(b *builder) {
		x := arr(b)
		c := b.Constant(x.Shape.Type, x.Shape.Dims...)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(2, 5)), []value{x, c, b.Fill(x, 2)}, func(i value, s []value) []value {
			return []value{b.Add(s[0], b.Mul(s[1], s[2])), s[1], s[2]}
		})
		b.Out(r[0])
	}),
	loop("twins", []string{"simplify-while-loops"}, func(b *builder) {
		x := arr(b)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(2, 5)), []value{x, x}, func(i value, s []value) []value {
			return []value{b.Add(s[0], b.Fill(s[0], 1)), b.Add(s[1], b.Fill(s[1], 1))}
		})
		b.Out(r...)
	}),
	loop("second-counter", []string{"simplify-while-loops"}, func(b *builder) {
		x := arr(b)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(2, 6)), []value{x, b.Number(hlo.S32, 0)}, func(i value, s []value) []value {
			return []value{b.Add(s[0], s[0]), b.Add(s[1], b.Number(hlo.S32, 1))}
		})
		b.Out(r...)
	}),
	loop("nested-tuple", []string{"simplify-while-loops", "tuple-simplifier"}, func(b *builder) {
		x := arr(b)
		w := b.While([]value{b.Number(hlo.S32, 0), b.Tuple(x, b.Tuple(like(b, x), b.Number(hlo.S32, 3)))},
			func(s []value) value { return b.Compare("LT", s[0], b.Number(hlo.S32, 3)) },
			func(s []value) []value {
				in := b.Element(s[1], 1)
				return []value{b.Add(s[0], b.Number(hlo.S32, 1)), b.Tuple(b.Add(b.Element(s[1], 0), b.Element(in, 0)), in)}
			})
		b.Out(b.Element(b.Element(w, 1), 0))
	}),
	loop("never-leaves-by-constant", []string{"simplify-while-loops"}, func(b *builder) {
		x := arr(b)
		w := b.While([]value{x}, func(s []value) value { return b.Number(hlo.Pred, 0) }, func(s []value) []value { return []value{b.Neg(s[0])} })
		b.Out(b.Element(w, 0))
	}),
	loop("stacks-rows", []string{"simplify-while-loops", "dynamic-index-splitter"}, func(b *builder) {
		n := int64(b.Between(2, 5))
		x := b.Source(hlo.F32, n, 4)
		r := b.For(hlo.S32, 0, 1, n, []value{x, b.Splat(b.Number(hlo.F32, 0), n, 4)}, func(i value, s []value) []value {
			z := b.Number(hlo.S32, 0)
			row := b.DynamicSlice(s[0], []int64{1, 4}, i, z)
			return []value{s[0], b.DynamicUpdateSlice(s[1], b.Mul(row, row), i, z)}
		})
		b.Out(r[1])
	}),
	loop("accumulates-in-place", []string{"fusion"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		r := b.For(hlo.S32, 0, 1, 7, []value{x}, func(i value, s []value) []value {
			a := b.DynamicSlice(s[0], []int64{1}, i)
			c := b.DynamicSlice(s[0], []int64{1}, b.Add(i, b.Number(hlo.S32, 1)))
			return []value{b.DynamicUpdateSlice(s[0], b.Add(a, c), b.Add(i, b.Number(hlo.S32, 1)))}
		})
		b.Out(r...)
	}),
	loop("nested", []string{"while-loop-invariant-code-motion", "simplify-while-loops"}, func(b *builder) {
		x := arr(b)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(1, 3)), []value{x}, func(i value, s []value) []value {
			return b.For(hlo.S32, 0, 1, int64(b.Between(0, 3)), []value{s[0], i}, func(j value, u []value) []value {
				k := b.Convert(b.Add(u[1], j), u[0].Shape.Type)
				return []value{b.Add(u[0], b.Splat(k, u[0].Shape.Dims...)), u[1]}
			})[:1]
		})
		b.Out(r...)
	}),
	loop("small", []string{"small-while-loop-hoisting"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.S32), int64(b.Between(1, 6)))
		n := b.Bin(hlo.OpAnd, b.Fresh(hlo.S32), b.Number(hlo.S32, 7))
		w := b.While([]value{b.Number(hlo.S32, 0), n, x}, func(s []value) value { return b.Compare("LT", s[0], s[1]) }, func(s []value) []value {
			return []value{b.Add(s[0], b.Number(hlo.S32, 1)), s[1], b.Mul(s[2], b.Fill(s[2], 2))}
		})
		b.Out(b.Element(w, 2))
	}),
	loop("swaps-state", []string{"copy-insertion"}, func(b *builder) {
		x := arr(b)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(1, 4)), []value{x, like(b, x)}, func(i value, s []value) []value { return []value{s[1], b.Neg(s[0])} })
		b.Out(r...)
	}),
	loop("initial-broadcast", []string{"while-initializer-removal", "simplify-while-loops"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 3)
		r := b.For(hlo.S32, 0, 1, 4, []value{b.Splat(b.Number(hlo.F32, 0), 4, 3), x}, func(i value, s []value) []value {
			z := b.Number(hlo.S32, 0)
			return []value{b.DynamicUpdateSlice(s[0], b.DynamicSlice(s[1], []int64{1, 3}, i, z), i, z), s[1]}
		})
		b.Out(r[0])
	}),
	loop("concatenates", []string{"while-loop-concat-code-motion"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(2, 4)), []value{b.Source(hlo.F32, 8), b.Source(hlo.F32, 8), x}, func(i value, s []value) []value {
			c := b.Concat(0, s[0], s[1])
			d := b.Add(c, c)
			return []value{b.Slice(d, []int64{0}, []int64{8}, nil), b.Slice(d, []int64{8}, []int64{16}, nil), s[2]}
		})
		b.Out(r[0], r[1])
	}),
	loop("fusible", []string{"while-loop-fusible-sinking"}, func(b *builder) {
		x := b.Source(hlo.F32, 16)
		m := b.Splat(b.Convert(b.Fresh(hlo.S32), hlo.F32), 16)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(2, 4)), []value{x, m}, func(i value, s []value) []value { return []value{b.Add(s[0], s[1]), s[1]} })
		b.Out(r[0])
	}),
})

func loop(name string, passes []string, build func(b *builder)) Pattern {
	return Pattern{Name: name, Passes: passes, Build: build}
}

// arr is a small array of a number type.
func arr(b *builder) value {
	return b.Source(program.Pick(b, hlo.F32, hlo.F32, hlo.S32, hlo.S32, hlo.BF16, hlo.F64), b.Full(b.R.IntN(3))...)
}

func counter(b *builder) hlo.PrimitiveType {
	return program.Pick(b, hlo.S32, hlo.S32, hlo.S64, hlo.U32, hlo.S8, hlo.U8)
}
