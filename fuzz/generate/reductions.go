package generate

import (
	"slices"

	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

var reductions = []kind{
	{"reduce", 6, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		op := g.monoid(x.Shape.Type)
		return g.Reduce(op, x, g.some(x.Shape.Rank())...)
	}},
	{"reduce-many", 2, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		t := x.Shape.Type
		if t.IsComplex() || t == hlo.Pred || t.Bits() < 16 {
			return nil
		}
		dims := g.some(x.Shape.Rank())
		i := g.Iota(hlo.S32, int(dims[0]), x.Shape.Dims...)
		// The largest element and its first place.
		r := g.ReduceMany([]program.Value{x, i}, []program.Value{g.Number(t, program.Min(t)), g.Number(hlo.S32, 0)}, dims,
			func(acc, el []program.Value) []program.Value {
				better := g.Compare("GT", acc[0], el[0])
				tie := g.Bin(hlo.OpAnd, g.Compare("EQ", acc[0], el[0]), g.Compare("LT", acc[1], el[1]))
				p := g.Bin(hlo.OpOr, better, tie)
				return []program.Value{g.Select(g.Bin(hlo.OpOr, better, g.Compare("NE", acc[0], acc[0])), acc[0], el[0]), g.Select(p, acc[1], el[1])}
			})
		return g.Element(r, g.R.IntN(2))
	}},
	{"reduce-window", 4, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		var ws []program.Window
		dims := []int64{}
		for _, d := range x.Shape.Dims {
			w := program.Window{Size: 1}
			if d > 0 && g.Chance(2) {
				w = program.Window{Size: 1 + g.R.Int64N(min(d, 4)), Stride: int64(g.Between(1, 2)), Low: int64(g.Between(0, 1)), High: int64(g.Between(0, 1))}
				if g.Chance(4) {
					w.Dilation = 2
				}
				if g.Chance(4) {
					w.BaseDilation = 2
				}
			}
			ws = append(ws, w)
			dims = append(dims, d*2+2)
		}
		if !small(dims) {
			return nil
		}
		return g.ReduceWindow(g.monoid(x.Shape.Type), x, ws...)
	}},
	{"cumulative", 2, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		k := g.R.IntN(x.Shape.Rank())
		ws := make([]program.Window, x.Shape.Rank())
		for i := range ws {
			ws[i].Size = 1
		}
		n := x.Shape.Dims[k]
		if n == 0 || x.Shape.Elems() > 1024 {
			return nil
		}
		ws[k] = program.Window{Size: n, Low: n - 1}
		return g.ReduceWindow(g.monoid(x.Shape.Type), x, ws...)
	}},
	{"select-and-scatter", 1, nil, func(g *generator) program.Value {
		t := program.Pick(g.Builder, hlo.F32, hlo.F32, hlo.S32, hlo.F64)
		n, m := int64(g.Between(2, 4)), int64(g.Between(2, 4))
		x, s := g.Source(t, 2*n, 2*m), g.Source(t, n, m)
		return g.SelectAndScatter("GE", hlo.OpAdd, x, s, program.Window{Size: 2, Stride: 2}, program.Window{Size: 2, Stride: 2})
	}},
	{"sort", 3, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		if x.Shape.Type.IsComplex() || x.Shape.Type.Bits() < 8 && x.Shape.Type != hlo.Pred {
			return nil
		}
		d := g.R.IntN(x.Shape.Rank())
		dir := program.Pick(g.Builder, "LT", "GT")
		before := func(a []program.Value) program.Value {
			if a[0].Shape.Type.IsFloat() {
				return g.CompareTotal(dir, a[0], a[1])
			}
			return g.Compare(dir, a[0], a[1])
		}
		if g.Chance(2) {
			return g.Sort(d, g.Chance(2), []program.Value{x}, before)
		}
		s := g.Sort(d, true, []program.Value{x, g.Iota(hlo.S32, d, x.Shape.Dims...)}, before)
		return g.Element(s, g.R.IntN(2))
	}},
}

// monoid is an associative operation for reductions of a type.
func (g *generator) monoid(t hlo.PrimitiveType) hlo.Opcode {
	switch {
	case t == hlo.Pred:
		return program.Pick(g.Builder, hlo.OpAnd, hlo.OpOr)
	case t.IsComplex():
		return hlo.OpAdd
	case t.IsInteger():
		return program.Pick(g.Builder, hlo.OpAdd, hlo.OpMultiply, hlo.OpMaximum, hlo.OpMinimum, hlo.OpAnd, hlo.OpOr)
	}
	return program.Pick(g.Builder, hlo.OpAdd, hlo.OpAdd, hlo.OpMaximum, hlo.OpMinimum, hlo.OpMultiply)
}

// dims of x without those in drop.
func without(dims []int64, drop []int64) []int64 {
	var out []int64
	for i, d := range dims {
		if !slices.Contains(drop, int64(i)) {
			out = append(out, d)
		}
	}
	return out
}
