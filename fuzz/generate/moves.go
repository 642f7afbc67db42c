package generate

import (
	"slices"

	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

var moves = []kind{
	{"broadcast", 6, nil, func(g *generator) program.Value {
		x := g.any()
		dims, at := slices.Clone(x.Shape.Dims), make([]int64, x.Shape.Rank())
		for i := range at {
			at[i] = int64(i)
		}
		for range 1 + g.R.IntN(2) {
			k := g.R.IntN(len(dims) + 1)
			dims = slices.Insert(dims, k, g.Dim())
			for i := range at {
				if at[i] >= int64(k) {
					at[i]++
				}
			}
		}
		if !small(dims) || len(dims) > 5 {
			return nil
		}
		return g.Broadcast(x, dims, at...)
	}},
	{"reshape", 5, nil, func(g *generator) program.Value { x := g.any(); return g.Reshape(x, g.factor(x.Shape)...) }},
	{"transpose", 5, nil, func(g *generator) program.Value {
		x := g.ranked(2)
		return g.Transpose(x, g.Perm(x.Shape.Rank())...)
	}},
	{"reverse", 2, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		return g.Reverse(x, g.some(x.Shape.Rank())...)
	}},
	{"slice", 5, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		lo, hi, st := g.window(x.Shape.Dims)
		return g.Slice(x, lo, hi, st)
	}},
	{"pad", 4, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		var ps []program.Padding
		var dims []int64
		for _, d := range x.Shape.Dims {
			p := program.Padding{Low: int64(g.Between(0, 2)), High: int64(g.Between(0, 2))}
			if g.Chance(3) {
				p.Interior = int64(g.Between(0, 2))
			}
			if g.Chance(3) && d > 2 {
				p.Low, p.High = int64(g.Between(-1, 1)), int64(g.Between(-1, 1))
			}
			ps = append(ps, p)
			dims = append(dims, d+p.Low+p.High+max(d-1, 0)*p.Interior)
		}
		if !small(dims) {
			return nil
		}
		v := g.Number(x.Shape.Type, g.Small(x.Shape.Type))
		if g.Chance(3) {
			v = g.Source(x.Shape.Type)
		}
		return g.Pad(x, v, ps...)
	}},
	{"concatenate", 4, nil, func(g *generator) program.Value {
		x := g.ranked(1)
		d := g.R.IntN(x.Shape.Rank())
		xs := []program.Value{x}
		dims := slices.Clone(x.Shape.Dims)
		for range 1 + g.R.IntN(3) {
			part := slices.Clone(x.Shape.Dims)
			if g.Chance(2) {
				part[d] = g.Dim()
			}
			dims[d] += part[d]
			if !small(dims) {
				return nil
			}
			if g.Chance(4) {
				part[d] = x.Shape.Dims[d]
				xs = append(xs, x)
				continue
			}
			xs = append(xs, g.Source(x.Shape.Type, part...))
		}
		g.R.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
		return g.Concat(d, xs...)
	}},
	{"tuple", 2, nil, func(g *generator) program.Value {
		t := g.Tuple(g.any(), g.any())
		if g.Chance(3) {
			t = g.Un(hlo.OpOptBarrier, t)
		}
		return g.Element(t, g.R.IntN(2))
	}},
}

// some is a sorted, not empty choice of dimensions.
func (g *generator) some(rank int) []int64 {
	var out []int64
	for d := range rank {
		if g.Chance(2) {
			out = append(out, int64(d))
		}
	}
	if len(out) == 0 {
		out = []int64{int64(g.R.IntN(rank))}
	}
	return out
}

// window is a slice of dims.
func (g *generator) window(dims []int64) (lo, hi, st []int64) {
	for _, d := range dims {
		l := g.R.Int64N(d/2 + 1)
		h := l + g.R.Int64N(d-l+1)
		if d > 0 && h == l && !g.Chance(10) {
			l, h = 0, d
		}
		s := int64(1)
		if g.Chance(4) {
			s = int64(g.Between(1, 3))
		}
		lo, hi, st = append(lo, l), append(hi, h), append(st, s)
	}
	return lo, hi, st
}

// factor are other dimensions of as many elements.
func (g *generator) factor(s *hlo.Shape) []int64 {
	n := s.Elems()
	if n == 0 {
		return []int64{0, int64(g.Between(0, 3))}[:g.Between(1, 2)]
	}
	var out []int64
	for n > 1 && len(out) < 3 {
		var divisors []int64
		for d := int64(2); d <= min(n, 64); d++ {
			if n%d == 0 {
				divisors = append(divisors, d)
			}
		}
		if len(divisors) == 0 || g.Chance(3) {
			break
		}
		d := program.Pick(g.Builder, divisors...)
		out = append(out, d)
		n /= d
	}
	if n > 1 || len(out) == 0 && g.Chance(2) {
		out = append(out, n)
	}
	for g.Chance(4) && len(out) < 5 {
		out = slices.Insert(out, g.R.IntN(len(out)+1), 1)
	}
	return out
}
