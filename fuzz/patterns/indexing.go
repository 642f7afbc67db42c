package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// indexing are gathers and scatters: simple ones, batched ones, several
// arrays, windows, indices at and beyond the edges, sorted and unique ones.
var indexing = of("indexing", nil, []Pattern{
	loop("gather-rows", []string{"gather_simplifier", "algsimp"}, func(b *builder) {
		x := b.Source(b.Type(), extent(b), b.Size(1))
		b.Out(b.Rows(x, b.Indices(x.Shape.Dims[0], int64(b.Between(1, 6)))))
	}),
	loop("gather-one", []string{"gather_expander", "gather_simplifier", "algsimp"}, func(b *builder) {
		x := b.Source(b.Num(), 6, 4)
		d := &hlopb.GatherDimensionNumbers{OffsetDims: []int64{0, 1}, StartIndexMap: []int64{0, 1}}
		b.Out(b.Gather(x, b.Indices(4, 2), d, []int64{2, 3}, false))
	}),
	loop("gather-no-index", []string{"gather_expander", "algsimp"}, func(b *builder) {
		x := b.Source(b.Num(), 6, 4)
		d := &hlopb.GatherDimensionNumbers{OffsetDims: []int64{0, 1}, StartIndexMap: []int64{0}, IndexVectorDim: 0}
		b.Out(b.Gather(x, b.Indices(3, 1), d, []int64{1, 4}, b.Chance(2)))
	}),
	loop("gather-whole", []string{"algsimp", "gather_simplifier"}, func(b *builder) {
		x := b.Source(b.Num(), 5, 3)
		b.Out(b.Gather(x, b.Indices(1, 4, 1), &hlopb.GatherDimensionNumbers{OffsetDims: []int64{1, 2}, StartIndexMap: []int64{0}, IndexVectorDim: 1}, []int64{5, 3}, false))
	}),
	loop("gather-points", []string{"gather_simplifier"}, func(b *builder) {
		x := b.Source(b.Num(), 5, 4)
		d := &hlopb.GatherDimensionNumbers{CollapsedSliceDims: []int64{0, 1}, StartIndexMap: []int64{1, 0}, IndexVectorDim: int64(b.R.IntN(2))}
		n := []int64{2, 2}
		b.Out(b.Gather(x, b.Indices(4, n...), d, []int64{1, 1}, false))
	}),
	loop("gather-windows", []string{"gather_simplifier"}, func(b *builder) {
		x := b.Source(b.Num(), 7, 5)
		d := &hlopb.GatherDimensionNumbers{OffsetDims: []int64{1, 2}, StartIndexMap: []int64{0, 1}, IndexVectorDim: 1}
		b.Out(b.Gather(x, b.Indices(5, 3, 2), d, []int64{2, 3}, false))
	}),
	loop("gather-batched", []string{"batched_gather_scatter_normalizer"}, func(b *builder) {
		x := b.Source(b.Num(), 3, 6, 2)
		d := &hlopb.GatherDimensionNumbers{OffsetDims: []int64{2}, CollapsedSliceDims: []int64{1}, StartIndexMap: []int64{1}, IndexVectorDim: 2, OperandBatchingDims: []int64{0}, StartIndicesBatchingDims: []int64{0}}
		b.Out(b.Gather(x, b.Indices(6, 3, 4, 1), d, []int64{1, 1, 2}, false))
	}),
	loop("gather-of-iota", []string{"algsimp"}, func(b *builder) {
		x := b.Source(hlo.F32, 6, 3)
		b.Out(b.Rows(x, b.Iota(hlo.S32, 0, 6)))
	}),
	loop("gather-of-concat", []string{"algsimp"}, func(b *builder) {
		x := b.Broadcast(b.Source(hlo.F32, 3), []int64{6, 3}, 1)
		b.Out(b.Rows(x, b.Indices(6, 2)))
	}),
	loop("gather-of-pad", []string{"algsimp"}, func(b *builder) {
		x := b.Pad(b.Source(hlo.F32, 4, 3), b.Number(hlo.F32, 0), program.Padding{High: 2}, program.Padding{})
		b.Out(b.Rows(x, b.Indices(6, 3)))
	}),
	scattered("scatter-add", []string{"scatter_simplifier"}, func(b *builder) {
		x := b.Source(b.Int(), 6, 2)
		b.Out(b.ScatterRows(x, b.Indices(6, 4), b.Source(x.Shape.Type, 4, 2), false, func(cur, upd value) value { return b.Add(cur, upd) }))
	}),
	scattered("scatter-maximum", []string{"scatter_simplifier"}, func(b *builder) {
		x := b.Source(b.Float(), 6)
		b.Out(b.ScatterRows(x, b.Indices(6, 5), b.Source(x.Shape.Type, 5), false, func(cur, upd value) value { return b.Bin(hlo.OpMaximum, cur, upd) }))
	}),
	scattered("scatter-set-unique", []string{"scatter_simplifier"}, func(b *builder) {
		x := b.Source(b.Num(), 7, 2)
		ix := b.Distinct(hlo.S32, 7, 4)
		b.Out(b.ScatterRows(x, ix, b.Source(x.Shape.Type, 4, 2), true, func(cur, upd value) value { return upd }))
	}),
	scattered("scatter-one", []string{"scatter_expander"}, func(b *builder) {
		n := extent(b)
		x := b.Source(b.Num(), n, 3)
		b.Out(b.ScatterRows(x, b.Indices(n, 1), b.Source(x.Shape.Type, 1, 3), false, func(cur, upd value) value { return program.Pick(b, upd, b.Add(cur, upd)) }))
	}),
	scattered("scatter-window", []string{"scatter_expander"}, func(b *builder) {
		x := b.Source(b.Num(), 6, 5)
		d := &hlopb.ScatterDimensionNumbers{UpdateWindowDims: []int64{0, 1}, ScatterDimsToOperandDims: []int64{0, 1}}
		b.Out(b.Scatter(x, b.Indices(6, 2), b.Source(x.Shape.Type, 2, 3), d, true, func(cur, upd value) value { return upd }))
	}),
	scattered("scatter-windows", []string{"scatter_simplifier"}, func(b *builder) {
		x := b.Source(b.Int(), 6, 5)
		d := &hlopb.ScatterDimensionNumbers{UpdateWindowDims: []int64{1, 2}, ScatterDimsToOperandDims: []int64{1, 0}, IndexVectorDim: 1}
		b.Out(b.Scatter(x, b.Indices(5, 3, 2), b.Source(x.Shape.Type, 3, 2, 2), d, false, func(cur, upd value) value { return b.Add(cur, upd) }))
	}),
	scattered("scatter-points", []string{"scatter_simplifier"}, func(b *builder) {
		x := b.Source(hlo.S32, 5, 4)
		d := &hlopb.ScatterDimensionNumbers{InsertedWindowDims: []int64{0, 1}, ScatterDimsToOperandDims: []int64{1, 0}, IndexVectorDim: 0}
		b.Out(b.Scatter(x, b.Indices(4, 2, 3), b.Source(hlo.S32, 3), d, false, func(cur, upd value) value { return b.Bin(hlo.OpXor, cur, upd) }))
	}),
	scattered("scatter-batched", []string{"batched_gather_scatter_normalizer"}, func(b *builder) {
		x := b.Source(hlo.S32, 3, 6)
		d := &hlopb.ScatterDimensionNumbers{InsertedWindowDims: []int64{1}, ScatterDimsToOperandDims: []int64{1}, IndexVectorDim: 2, InputBatchingDims: []int64{0}, ScatterIndicesBatchingDims: []int64{0}}
		b.Out(b.Scatter(x, b.Indices(6, 3, 2, 1), b.Source(hlo.S32, 3, 2), d, false, func(cur, upd value) value { return b.Add(cur, upd) }))
	}),
	scattered("scatter-two-arrays", []string{"scatter_simplifier"}, func(b *builder) {
		x, y, ix := b.Source(hlo.S32, 6), b.Source(hlo.F32, 6), b.Distinct(hlo.S32, 6, 3)
		s, f := hlo.ArrayShape(hlo.S32), hlo.ArrayShape(hlo.F32)
		c := b.Region("combiner", []*hlo.Shape{s, f, s, f}, func(a []value) value { return b.Tuple(b.Add(a[0], a[2]), b.Mul(a[1], a[3])) })
		d := &hlopb.ScatterDimensionNumbers{InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1}
		r := b.With(hlo.OpScatter, nil, func(a *program.Attr) { a.ScatterDimensionNumbers, a.UniqueIndices = d, true }, []*hlo.Computation{c}, x, y, ix, b.Source(hlo.S32, 3), b.Source(hlo.F32, 3))
		b.Out(b.Elements(r)...)
	}),
	scattered("scatter-into-constant", []string{"algsimp", "scatter_simplifier"}, func(b *builder) {
		x := b.Splat(b.Number(hlo.S32, 0), 8)
		b.Out(b.ScatterRows(x, b.Indices(8, 5), b.Splat(b.Number(hlo.S32, 1), 5), false, func(cur, upd value) value { return b.Add(cur, upd) }))
	}),
	loop("index-of-a-scalar", []string{"dynamic-index-splitter", "algsimp"}, func(b *builder) {
		x := b.Source(b.Num())
		b.Out(b.DynamicSlice(x, nil), b.DynamicUpdateSlice(x, like(b, x)))
	}),
	loop("index-vector", []string{"dynamic-index-splitter"}, func(b *builder) {
		x := b.Source(b.Num(), 5, 4)
		ix := b.Source(program.Pick(b, hlo.S32, hlo.S64), 2)
		if b.Chance(2) {
			b.Out(b.DynamicSlice(x, []int64{2, 2}, ix))
			return
		}
		b.Out(b.DynamicUpdateSlice(x, b.Source(x.Shape.Type, 2, 3), ix))
	}),
})

// extent is the size of a dimension that is indexed: mostly small, and now and
// then just below, at, or above what an 8-bit index can count.
func extent(b *builder) int64 {
	if b.Chance(4) {
		return program.Pick[int64](b, 127, 128, 129, 200, 255, 256, 257, 300)
	}
	return int64(b.Between(3, 8))
}

func scattered(name string, passes []string, build func(b *builder)) Pattern {
	return loop(name, passes, build)
}

// sorting are sorts and the largest elements.
var sorting = of("sort", nil, []Pattern{
	loop("unused-operand", []string{"simplify-sorts"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		s := b.Sort(0, true, []value{x, b.Iota(hlo.S32, 0, 8), like(b, x)}, totalLess(b))
		b.Out(b.Element(s, 1))
	}),
	loop("one-element", []string{"simplify-sorts", "algsimp"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 1)
		b.Out(b.Sort(1, false, []value{x}, totalLess(b)))
	}),
	loop("sorted-twice", []string{"simplify-sorts", "sort-merger"}, func(b *builder) {
		x := b.Source(hlo.S32, 8)
		b.Out(b.Sort(0, true, []value{b.Sort(0, true, []value{x}, lessThan(b))}, lessThan(b)))
	}),
	loop("inverse-permutation", []string{"permutation_sort_simplifier"}, func(b *builder) {
		n := b.Size(3)
		x := b.Source(program.Pick(b, hlo.F32, hlo.S32), n)
		s := b.Sort(0, true, []value{x, b.Iota(hlo.S32, 0, n)}, totalLess(b))
		u := b.Sort(0, true, []value{b.Element(s, 1), b.Iota(hlo.S32, 0, n)}, lessThan(b))
		b.Out(b.Element(u, 1), b.Element(s, 0))
	}),
	loop("largest", []string{"topk-rewriter", "simplify-sorts"}, func(b *builder) {
		n, k := int64(b.Between(5, 20)), int64(b.Between(2, 4))
		x := b.Source(hlo.F32, 2, n)
		s := b.Sort(1, true, []value{x, b.Iota(hlo.S32, 1, 2, n)}, func(a []value) value { return b.CompareTotal("GT", a[0], a[1]) })
		b.Out(b.Slice(b.Element(s, 0), []int64{0, 0}, []int64{2, k}, nil), b.Slice(b.Element(s, 1), []int64{0, 0}, []int64{2, k}, nil))
	}),
	loop("largest-of-a-vector", []string{"topk-rewriter"}, func(b *builder) {
		n, k := int64(b.Between(6, 30)), int64(b.Between(2, 4))
		x := b.Source(hlo.F32, n)
		s := b.Sort(0, true, []value{x, b.Iota(hlo.S32, 0, n)}, func(a []value) value { return b.CompareTotal("GT", a[0], a[1]) })
		b.Out(b.Slice(b.Element(s, 0), []int64{0}, []int64{k}, nil), b.Slice(b.Element(s, 1), []int64{0}, []int64{k}, nil))
	}),
	loop("top-k", []string{"topk-decomposer"}, func(b *builder) {
		n, k := int64(b.Between(4, 20)), int64(b.Between(1, 4))
		x := b.Source(program.Pick(b, hlo.F32, hlo.S32, hlo.BF16), 2, n)
		r := b.Op(hlo.OpTopk, func(a *program.Attr) { a.K, a.Largest, a.IsStable = k, true, true }, x)
		b.Out(b.Elements(r)...)
	}),
	loop("by-two-keys", []string{"comparison-expander"}, func(b *builder) {
		x, y := b.Source(hlo.F32, 7), b.Source(hlo.S32, 7)
		s := b.Sort(0, b.Chance(2), []value{x, y}, func(a []value) value {
			return b.Bin(hlo.OpOr, b.CompareTotal("LT", a[0], a[1]), b.Bin(hlo.OpAnd, b.CompareTotal("EQ", a[0], a[1]), b.Compare("LT", a[2], a[3])))
		})
		b.Out(b.Elements(s)...)
	}),
	loop("columns", []string{"layout-assignment"}, func(b *builder) {
		x := b.Source(b.Num(), 5, 4)
		b.Out(b.Sort(0, true, []value{x}, totalLess(b)))
	}),
})

// totalLess compares the first pair, floats in their total order.
func totalLess(b *builder) func(a []value) value {
	return func(a []value) value {
		if a[0].Shape.Type.IsFloat() {
			return b.CompareTotal("LT", a[0], a[1])
		}
		return b.Compare("LT", a[0], a[1])
	}
}
