package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// branches are conditionals: constant, with equal or identity branches, with
// shared code, tuples that are made and taken apart.
var branches = of("conditional", nil, []Pattern{
	loop("constant-predicate", []string{"simplify-conditional", "call-inliner"}, func(b *builder) {
		x := arr(b)
		b.Out(b.If(b.Number(hlo.Pred, float64(b.R.IntN(2))), []value{x}, twiceOf(b), negatedOf(b)))
	}),
	loop("constant-index", []string{"simplify-conditional"}, func(b *builder) {
		x := arr(b)
		b.Out(b.Case(b.Number(hlo.S32, float64(b.Between(-1, 3))), []value{x}, twiceOf(b), negatedOf(b), identity))
	}),
	loop("one-branch", []string{"simplify-conditional"}, func(b *builder) {
		x := arr(b)
		b.Out(b.Case(b.Source(hlo.S32), []value{x}, twiceOf(b)))
	}),
	loop("not-a-tuple", []string{"conditional-canonicalizer"}, func(b *builder) {
		x := arr(b)
		b.Out(b.If(b.Source(hlo.Pred), []value{x}, twiceOf(b), negatedOf(b)))
	}),
	loop("small-branches", []string{"simplify-conditional"}, func(b *builder) {
		x := arr(b)
		r := b.If(b.Source(hlo.Pred), []value{x, like(b, x)}, func(a []value) value { return b.Tuple(a[0], a[1]) }, func(a []value) value { return b.Tuple(a[1], a[0]) })
		b.Out(b.Elements(r)...)
	}),
	loop("scalar-branches", []string{"simplify-conditional"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.S32))
		b.Out(b.If(b.Source(hlo.Pred), []value{x, like(b, x)}, func(a []value) value { return a[0] }, func(a []value) value { return a[1] }))
	}),
	loop("unused-result", []string{"simplify-conditional"}, func(b *builder) {
		x := arr(b)
		r := b.If(b.Source(hlo.Pred), []value{x, like(b, x)}, func(a []value) value { return b.Tuple(b.Neg(a[0]), b.Add(a[1], a[1]), a[0]) }, func(a []value) value { return b.Tuple(b.Add(a[1], a[1]), a[0], a[1]) })
		b.Out(b.Element(r, 0))
	}),
	loop("unused-argument", []string{"simplify-conditional"}, func(b *builder) {
		x := arr(b)
		r := b.If(b.Source(hlo.Pred), []value{x, b.Fresh(hlo.F32, 4), like(b, x)}, func(a []value) value { return b.Tuple(b.Neg(a[0])) }, func(a []value) value { return b.Tuple(b.Add(a[2], a[2])) })
		b.Out(b.Element(r, 0))
	}),
	loop("merged-results", []string{"simplify-conditional"}, func(b *builder) {
		x := arr(b)
		r := b.If(b.Source(hlo.Pred), []value{x}, func(a []value) value {
			n := b.Neg(a[0])
			return b.Tuple(n, n)
		}, func(a []value) value {
			n := b.Add(a[0], a[0])
			return b.Tuple(n, n)
		})
		b.Out(b.Elements(r)...)
	}),
	loop("shared-code", []string{"conditional-code-motion"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		r := b.If(b.Source(hlo.Pred), []value{x}, func(a []value) value { return b.Tuple(b.Convert(b.Neg(a[0]), hlo.BF16)) }, func(a []value) value { return b.Tuple(b.Convert(b.Mul(a[0], a[0]), hlo.BF16)) })
		b.Out(b.Convert(b.Element(r, 0), hlo.F32))
	}),
	loop("moves-in", []string{"conditional-code-motion"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 4)
		r := b.If(b.Source(hlo.Pred), []value{x}, func(a []value) value { return b.Tuple(b.Reshape(b.Neg(a[0]), 16)) }, func(a []value) value { return b.Tuple(b.Reshape(b.Add(a[0], a[0]), 16)) })
		y := b.Element(r, 0)
		b.Out(b.Add(b.Reshape(y, 4, 4), x))
	}),
	loop("in-a-map", []string{"conditional-to-select", "map-inline"}, func(b *builder) {
		x := b.Source(hlo.F32, b.Full(1)...)
		b.Out(b.Map([]value{x}, func(a []value) value {
			return b.If(b.Compare("LT", a[0], b.Number(hlo.F32, 0)), []value{a[0]}, negatedOf(b), twiceOf(b))
		}))
	}),
	loop("in-a-reducer", []string{"conditional-to-select"}, func(b *builder) {
		x := b.Source(hlo.S32, b.Full(2)...)
		r := b.ReduceMany([]value{x}, []value{b.Number(hlo.S32, 0)}, []int64{1}, func(acc, el []value) []value {
			return []value{b.If(b.Compare("LT", acc[0], el[0]), []value{acc[0], el[0]}, func(a []value) value { return a[1] }, func(a []value) value { return a[0] })}
		})
		b.Out(r)
	}),
	loop("same-branches", []string{"simplify-conditional", "cse"}, func(b *builder) {
		x := arr(b)
		b.Out(b.If(b.Source(hlo.Pred), []value{x}, twiceOf(b), twiceOf(b)))
	}),
	loop("nested", []string{"conditional-canonicalizer", "simplify-conditional"}, func(b *builder) {
		x := arr(b)
		p, q := b.Source(hlo.Pred), b.Source(hlo.S32)
		b.Out(b.If(p, []value{x, q}, func(a []value) value { return b.Case(a[1], []value{a[0]}, twiceOf(b), negatedOf(b), identity) }, func(a []value) value { return a[0] }))
	}),
	loop("arguments-apart", []string{"tupleize-conditionals", "conditional-canonicalizer"}, func(b *builder) {
		x, y := arr(b), b.Source(hlo.F32, 3)
		yes := b.Region("yes", []*hlo.Shape{x.Shape}, func(a []value) value { return b.Reduce(hlo.OpAdd, b.Convert(a[0], hlo.F32), dimsOf(a[0])...) })
		no := b.Region("no", []*hlo.Shape{y.Shape}, func(a []value) value { return b.Reduce(hlo.OpMaximum, a[0], 0) })
		b.Out(b.With(hlo.OpConditional, nil, nil, []*hlo.Computation{yes, no}, b.Source(hlo.Pred), x, y))
	}),
})

func dimsOf(x value) []int64 { return iotas(x.Shape.Rank(), 0) }

func identity(a []value) value { return a[0] }

func twiceOf(b *builder) func(a []value) value {
	return func(a []value) value { return b.Add(a[0], a[0]) }
}

func negatedOf(b *builder) func(a []value) value {
	return func(a []value) value { return b.Neg(a[0]) }
}

// calls are calls, maps, tuples and barriers.
var calls = of("call", nil, []Pattern{
	loop("call", []string{"call-inliner", "tpu-call-inliner-inner-must-fuse"}, func(b *builder) {
		x := arr(b)
		b.Out(b.Call([]value{x, like(b, x)}, func(a []value) value { return b.Add(a[0], b.Neg(a[1])) }))
	}),
	loop("call-in-call", []string{"call-inliner", "flatten-call-graph"}, func(b *builder) {
		x := arr(b)
		b.Out(b.Call([]value{x}, func(a []value) value {
			return b.Add(b.Call(a, twiceOf(b)), a[0])
		}))
	}),
	loop("call-twice", []string{"flatten-call-graph", "call-inliner"}, func(b *builder) {
		x := arr(b)
		c := b.Region("callee", []*hlo.Shape{x.Shape}, negatedOf(b))
		y := b.With(hlo.OpCall, nil, nil, []*hlo.Computation{c}, x)
		b.Out(b.With(hlo.OpCall, nil, nil, []*hlo.Computation{c}, b.Add(y, x)))
	}),
	loop("loops-of-one-body", []string{"flatten-call-graph"}, func(b *builder) {
		x := b.Source(hlo.F32, 4)
		state := []*hlo.Shape{hlo.TupleShape(hlo.ArrayShape(hlo.S32), x.Shape)}
		body := b.Region("body", state, func(a []value) value {
			return b.Tuple(b.Add(b.Element(a[0], 0), b.Number(hlo.S32, 1)), b.Mul(b.Element(a[0], 1), b.Splat(b.Number(hlo.F32, 2), 4)))
		})
		cond := b.Region("condition", state, func(a []value) value { return b.Compare("LT", b.Element(a[0], 0), b.Number(hlo.S32, 3)) })
		w := b.With(hlo.OpWhile, nil, nil, []*hlo.Computation{body, cond}, b.Tuple(b.Number(hlo.S32, 0), x))
		v := b.With(hlo.OpWhile, nil, nil, []*hlo.Computation{body, cond}, b.Tuple(b.Bin(hlo.OpAnd, b.Fresh(hlo.S32), b.Number(hlo.S32, 3)), b.Element(w, 1)))
		b.Out(b.Element(v, 1))
	}),
	loop("call-with-metadata", []string{"propagate-call-metadata", "call-inliner"}, func(b *builder) {
		// Not inlined, since it is called in a branch: the name must reach its body.
		x := b.Source(hlo.F32, 64, 64)
		v := b.Call([]value{x}, func(a []value) value { return b.Sort(1, false, a, lessThan(b)) })
		v.Attr.Metadata = &hlopb.OpMetadata{OpName: "outer/inner"}
		w := b.If(b.Source(hlo.Pred), []value{v}, func(a []value) value {
			c := b.Call(a, func(a []value) value { return b.Un(hlo.OpTanh, b.Add(a[0], a[0])) })
			c.Attr.Metadata = &hlopb.OpMetadata{OpName: "branch/call"}
			return c
		}, negatedOf(b))
		b.Out(w)
	}),
	loop("loop-with-metadata", []string{"propagate-call-metadata", "small-while-loop-hoisting"}, func(b *builder) {
		x := b.Source(hlo.F32, int64(b.Between(1, 6)))
		n := b.Bin(hlo.OpAnd, b.Fresh(hlo.S32), b.Number(hlo.S32, 7))
		named := func(v value, name string) value {
			v.Attr.Metadata = &hlopb.OpMetadata{OpName: name}
			return v
		}
		w := b.While([]value{b.Number(hlo.S32, 0), n, x}, func(s []value) value { return named(b.Compare("LT", s[0], s[1]), "condition") }, func(s []value) []value {
			return []value{named(b.Add(s[0], b.Number(hlo.S32, 1)), "count"), s[1], named(b.Mul(s[2], b.Fill(s[2], 2)), "double")}
		})
		named(w, "outer/while")
		b.Out(b.Element(w, 2))
	}),
	loop("parallel-with-metadata", []string{"propagate-call-metadata", "cpu-parallel-task-assigner"}, func(b *builder) {
		x := b.Source(hlo.F32, 256, 256)
		y := b.Un(hlo.OpTanh, x)
		y.Attr.Metadata = &hlopb.OpMetadata{OpName: "outer/tanh"}
		b.Out(y)
	}),
	loop("map", []string{"map-inline"}, func(b *builder) {
		x := arr(b)
		b.Out(b.Map([]value{x, like(b, x)}, func(a []value) value { return b.Add(b.Mul(a[0], a[1]), a[0]) }))
	}),
	loop("map-of-constant", []string{"map-inline", "algsimp"}, func(b *builder) {
		x := arr(b)
		b.Out(b.Map([]value{x}, func(a []value) value { return b.Number(x.Shape.Type, 3) }))
	}),
	loop("tuple-of-elements", []string{"tuple-simplifier"}, func(b *builder) {
		x := arr(b)
		t := b.Un(hlo.OpOptBarrier, b.Tuple(x, like(b, x)))
		u := b.Tuple(b.Elements(t)...)
		v := b.Tuple(b.Elements(u)...)
		b.Out(b.Elements(v)...)
	}),
	loop("element-of-tuple", []string{"tuple-simplifier"}, func(b *builder) {
		x := arr(b)
		t := b.Tuple(b.Tuple(x, b.Neg(x)), b.Add(x, x))
		b.Out(b.Element(b.Element(t, 0), 1), b.Element(t, 1))
	}),
	loop("barrier", []string{"cse_barrier_expander", "tuple-simplifier"}, func(b *builder) {
		x := arr(b)
		if b.Chance(2) {
			b.Out(b.Un(hlo.OpOptBarrier, b.Neg(x)))
			return
		}
		b.Out(b.Elements(b.Un(hlo.OpOptBarrier, b.Tuple(b.Neg(x), x)))...)
	}),
	loop("call-drops-argument", []string{"call-inliner", "dce"}, func(b *builder) {
		x := arr(b)
		b.Out(b.Call([]value{x, b.Fresh(hlo.F32, 3)}, negatedOf(b)))
	}),
})

func lessThan(b *builder) func(a []value) value {
	return func(a []value) value { return b.Compare("LT", a[0], a[1]) }
}

// cleanup is what is common, dead, constant or empty.
var cleanup = of("cleanup", nil, []Pattern{
	loop("common", []string{"cse"}, func(b *builder) {
		x := arr(b)
		y := like(b, x)
		b.Out(b.Mul(b.Add(x, y), b.Add(x, y)))
	}),
	loop("common-commuted", []string{"cse"}, func(b *builder) {
		x := arr(b)
		y := like(b, x)
		b.Out(b.Sub(b.Mul(x, y), b.Mul(y, x)))
	}),
	loop("common-constants", []string{"cse"}, func(b *builder) {
		x := b.Source(hlo.F32, 4)
		c := func() value { return b.Numbers(hlo.F32, 1, 2, 3, 4) }
		b.Out(b.Add(b.Mul(x, c()), c()))
	}),
	loop("common-reductions", []string{"cse"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 5)
		b.Out(b.Sub(b.Reduce(hlo.OpAdd, x, 1), b.Neg(b.Reduce(hlo.OpAdd, x, 1))))
	}),
	loop("common-convert", []string{"cse"}, func(b *builder) {
		x := b.Source(hlo.F32, 6)
		b.Out(b.Convert(x, hlo.S32), b.Convert(b.Un(hlo.OpFloor, x), hlo.S32), b.Add(b.Convert(x, hlo.BF16), b.Convert(x, hlo.BF16)))
	}),
	loop("common-iotas", []string{"cse"}, func(b *builder) {
		x := b.Source(hlo.S32, 3, 4)
		b.Out(b.Add(b.Add(x, b.Iota(hlo.S32, 1, 3, 4)), b.Iota(hlo.S32, 1, 3, 4)))
	}),
	loop("dead", []string{"dce"}, func(b *builder) {
		x := arr(b)
		y := b.Add(x, x)
		b.Mul(y, y)
		b.Out(b.Neg(x))
	}),
	loop("dead-loop", []string{"dce", "hlo-module-dce"}, func(b *builder) {
		x := arr(b)
		b.For(hlo.S32, 0, 1, 3, []value{x}, func(i value, s []value) []value { return []value{b.Neg(s[0])} })
		b.Out(b.Neg(x))
	}),
	loop("dead-output", []string{"dce"}, func(b *builder) {
		x := b.Source(hlo.F32, 6)
		s := b.Sort(0, true, []value{x, b.Iota(hlo.S32, 0, 6)}, lessThan(b))
		b.Out(b.Element(s, 0))
	}),
	loop("dead-reduce-output", []string{"dce"}, func(b *builder) {
		x, y := b.Source(hlo.F32, 4, 5), b.Source(hlo.S32, 4, 5)
		r := b.ReduceMany([]value{x, y}, []value{b.Number(hlo.F32, 0), b.Number(hlo.S32, 0)}, []int64{1}, func(acc, el []value) []value {
			return []value{b.Add(acc[0], el[0]), b.Add(acc[1], el[1])}
		})
		b.Out(b.Element(r, b.R.IntN(2)))
	}),
	loop("constant-expression", []string{"constant_folding"}, func(b *builder) {
		t := b.Num()
		c := b.Constant(t, b.Full(b.R.IntN(3))...)
		b.Out(b.Add(b.Mul(c, c), c), b.Source(t, c.Shape.Dims...))
	}),
	loop("constant-moves", []string{"constant_folding"}, func(b *builder) {
		c := b.Constant(b.Type(), 2, 3)
		d := b.Concat(0, b.Transpose(c, 1, 0), b.Reverse(b.Reshape(c, 3, 2), 0))
		b.Out(b.Slice(d, []int64{1, 0}, []int64{5, 2}, nil))
	}),
	loop("constant-reduction", []string{"constant_folding"}, func(b *builder) {
		c := b.Constant(program.Pick(b, hlo.F32, hlo.S32), 3, 4)
		b.Out(b.Reduce(program.Pick(b, hlo.OpAdd, hlo.OpMaximum), c, 1), b.Pad(c, b.Number(c.Shape.Type, 1), program.Padding{Low: 1}, program.Padding{Interior: 1}))
	}),
	loop("constant-dot", []string{"constant_folding"}, func(b *builder) {
		b.Out(b.MatMul(b.Constant(hlo.F32, 2, 3), b.Constant(hlo.F32, 3, 2)), b.Source(hlo.F32, 2))
	}),
	loop("constant-sort", []string{"constant_folding"}, func(b *builder) {
		b.Out(b.Sort(0, true, []value{b.Constant(hlo.S32, 7)}, lessThan(b)))
	}),
	loop("constant-convert", []string{"constant_folding"}, func(b *builder) {
		c := b.Constant(hlo.F32, 5)
		b.Out(b.Convert(c, b.Num()), b.Compare("LT", c, b.Fill(c, 1)), b.Un(program.Pick(b, hlo.OpExponential, hlo.OpTanh, hlo.OpSqrt), b.Un(hlo.OpAbs, c)))
	}),
	loop("constant-gather", []string{"constant_folding"}, func(b *builder) {
		c := b.Constant(hlo.S32, 5, 2)
		b.Out(b.DynamicSlice(c, []int64{2, 1}, b.Number(hlo.S32, float64(b.Between(-2, 6))), b.Number(hlo.S32, 1)), b.DynamicUpdateSlice(c, b.Constant(hlo.S32, 1, 2), b.Number(hlo.S32, 7), b.Number(hlo.S32, 0)))
	}),
	loop("constant-loop", []string{"constant_folding", "simplify-while-loops"}, func(b *builder) {
		b.Out(b.For(hlo.S32, 0, 1, 3, []value{b.Number(hlo.S32, 1)}, func(i value, s []value) []value { return []value{b.Add(s[0], i)} })...)
	}),
	loop("large-constants", []string{"literal-canonicalizer"}, func(b *builder) {
		l := hlo.NewLiteral(hlo.ArrayShape(hlo.F32, 300))
		for i := range int64(300) {
			l.SetFloat(i, float64(i%7))
		}
		m := &hlo.Literal{Shape: hlo.ArrayShape(hlo.F32, 300), Raw: append([]byte(nil), l.Raw...)}
		x := b.Source(hlo.F32, 300)
		c := b.Const(m)
		c.Attr.Sharding = &hlopb.OpSharding{Type: hlopb.OpSharding_REPLICATED} // keeps cse away
		b.Out(b.Mul(b.Add(x, b.Const(l)), c))
	}),
	loop("empty", []string{"zero_sized_hlo_elimination"}, func(b *builder) {
		x := b.Source(b.Num(), 0, int64(b.Between(1, 3)))
		y := b.Concat(0, b.Add(x, x), b.Source(x.Shape.Type, 2, x.Shape.Dims[1]))
		b.Out(y, b.Neg(x))
	}),
	loop("empty-reduction", []string{"zero_sized_hlo_elimination", "algsimp"}, func(b *builder) {
		x := b.Source(b.Num(), int64(b.Between(1, 3)), 0)
		b.Out(b.Reduce(hlo.OpAdd, x, 1), b.Reduce(hlo.OpAdd, x, 0))
	}),
	loop("empty-sort", []string{"zero_sized_hlo_elimination"}, func(b *builder) {
		b.Out(b.Sort(0, false, []value{b.Neg(b.Source(hlo.F32, 0, 3))}, lessThan(b)))
	}),
	loop("empty-scatter", []string{"zero_sized_hlo_elimination", "scatter_simplifier"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 3)
		b.Out(b.ScatterRows(x, b.Source(hlo.S32, 0), b.Source(hlo.F32, 0, 3), false, func(cur, upd value) value { return b.Add(cur, upd) }))
	}),
})
