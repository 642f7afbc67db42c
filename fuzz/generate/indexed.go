package generate

import (
	"slices"

	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

var indexed = []kind{
	{"dynamic-slice", 4, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		sizes := g.parts(x.Shape.Dims)
		return g.DynamicSlice(x, sizes, g.starts(x.Shape.Dims)...)
	}},
	{"dynamic-update-slice", 5, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		for range 1 + g.R.IntN(3) {
			u := g.Source(x.Shape.Type, g.parts(x.Shape.Dims)...)
			x = g.DynamicUpdateSlice(x, u, g.starts(x.Shape.Dims)...)
		}
		return x
	}},
	{"gather", 4, nil, (*generator).gather},
	{"gather-rows", 2, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		if slices.Contains(x.Shape.Dims, 0) {
			return nil
		}
		ix := g.Indices(x.Shape.Dims[0], int64(g.Between(1, 5)))
		return g.Rows(x, ix)
	}},
	{"scatter", 4, nil, (*generator).scatter},
}

// parts are sizes of a slice of dims.
func (g *generator) parts(dims []int64) []int64 {
	out := slices.Clone(dims)
	for i, d := range out {
		if d > 0 && !g.Chance(3) {
			out[i] = 1 + g.R.Int64N(d)
		}
	}
	return out
}

// starts are scalar indices of one type, one per dimension.
func (g *generator) starts(dims []int64) []program.Value {
	t := program.Pick(g.Builder, hlo.S32, hlo.S32, hlo.S32, hlo.S64, hlo.U32)
	var out []program.Value
	for _, d := range dims {
		out = append(out, g.IndexOf(t, d))
	}
	return out
}

// gather draws dimension numbers: which operand dimensions are indexed, which
// are collapsed, and where the result has its offset dimensions.
func (g *generator) gather() program.Value {
	x := g.ranked(1)
	rank := x.Shape.Rank()
	if slices.Contains(x.Shape.Dims, 0) {
		return nil
	}
	indexed := g.some(rank)
	g.R.Shuffle(len(indexed), func(i, j int) { indexed[i], indexed[j] = indexed[j], indexed[i] })
	sizes := g.parts(x.Shape.Dims)
	d := &hlopb.GatherDimensionNumbers{StartIndexMap: indexed}
	for i := range rank {
		if slices.Contains(indexed, int64(i)) && g.Chance(2) {
			sizes[i] = 1
			d.CollapsedSliceDims = append(d.CollapsedSliceDims, int64(i))
		}
	}
	batch := g.Full(g.Between(0, 2))
	dims := slices.Clone(batch)
	limit := int64(1 << 30)
	for _, i := range indexed {
		limit = min(limit, x.Shape.Dims[i])
	}
	if len(indexed) == 1 && g.Chance(2) {
		d.IndexVectorDim = int64(len(batch)) // scalar indices
	} else {
		k := g.R.IntN(len(batch) + 1)
		d.IndexVectorDim = int64(k)
		dims = slices.Insert(dims, k, int64(len(indexed)))
	}
	offsets := rank - len(d.CollapsedSliceDims)
	places := g.R.Perm(offsets + len(batch))[:offsets]
	slices.Sort(places)
	n := int64(1)
	for _, p := range places {
		d.OffsetDims = append(d.OffsetDims, int64(p))
	}
	for _, s := range append(slices.Clone(sizes), batch...) {
		n *= s
	}
	if n > 4096 {
		return nil
	}
	return g.Gather(x, g.Indices(limit, dims...), d, sizes, false)
}

// scatter combines updates so that the order does not matter: integers by a
// commutative operation, floats by maximum or minimum, or with distinct
// indices by anything.
func (g *generator) scatter() program.Value {
	x := g.ranked(1)
	t := x.Shape.Type
	if slices.Contains(x.Shape.Dims, 0) || t.Bits() < 8 && t != hlo.Pred {
		return nil
	}
	rows := x.Shape.Dims[0]
	count := int64(g.Between(1, 5))
	upd := append([]int64{count}, x.Shape.Dims[1:]...)
	if count <= rows && g.Chance(2) {
		ix := g.Distinct(program.Pick(g.Builder, hlo.S32, hlo.S64, hlo.U8), rows, count)
		return g.ScatterRows(x, ix, g.Source(t, upd...), true, func(cur, u program.Value) program.Value {
			if g.Chance(2) {
				return u
			}
			return g.binary(cur, u)
		})
	}
	op := program.Pick(g.Builder, hlo.OpMaximum, hlo.OpMinimum)
	switch {
	case t.IsComplex():
		return nil
	case t == hlo.Pred:
		op = program.Pick(g.Builder, hlo.OpAnd, hlo.OpOr)
	case t.IsInteger():
		op = program.Pick(g.Builder, hlo.OpAdd, hlo.OpMaximum, hlo.OpMinimum, hlo.OpAnd, hlo.OpOr, hlo.OpXor)
	}
	return g.ScatterRows(x, g.Indices(rows, count), g.Source(t, upd...), false, func(cur, u program.Value) program.Value { return g.Bin(op, cur, u) })
}
