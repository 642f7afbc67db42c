package generate

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

var control = []kind{
	{"while", 3, nil, (*generator).while},
	{"conditional", 3, nil, (*generator).conditional},
	{"call", 2, nil, func(g *generator) program.Value {
		if g.depth >= maxDepth {
			return nil
		}
		args := g.captured()
		return g.Call(args, func(a []program.Value) program.Value { return g.region(a, args[0].Shape) })
	}},
}

// captured are one to three values for a region.
func (g *generator) captured() []program.Value {
	args := []program.Value{g.any()}
	for range g.R.IntN(3) {
		args = append(args, g.any())
	}
	return args
}

// region grows the current computation by a few operations and returns a
// value of the wanted type.
func (g *generator) region(args []program.Value, want *hlo.Shape) program.Value {
	g.depth++
	defer func() { g.depth-- }()
	for _, a := range args {
		g.Offer(a)
	}
	for range 1 + g.R.IntN(5) {
		g.step()
	}
	pool := g.Pool()
	for i := len(pool) - 1; i >= 0; i-- {
		if v := pool[i]; v.Shape.Compatible(want) && v.Op != hlo.OpParameter {
			return v
		}
	}
	x := g.Source(want.Type, want.Dims...)
	return g.binary(x, g.like(x))
}

// while is a loop of a known trip count whose state keeps its types.
func (g *generator) while() program.Value {
	if g.depth >= maxDepth {
		return nil
	}
	state := g.captured()
	t := program.Pick(g.Builder, hlo.S32, hlo.S32, hlo.S32, hlo.S64, hlo.U32, hlo.U8)
	out := g.For(t, int64(g.R.IntN(3)), int64(g.Between(1, 2)), int64(g.Between(0, 5)), state, func(i program.Value, s []program.Value) []program.Value {
		var next []program.Value
		for k, v := range s {
			if k > 0 && g.Chance(3) {
				next = append(next, v) // invariant
				continue
			}
			next = append(next, g.region(append([]program.Value{i}, s...), v.Shape))
		}
		return next
	})
	for _, v := range out[1:] {
		if g.Chance(2) {
			g.Offer(v)
		}
	}
	return out[0]
}

func (g *generator) conditional() program.Value {
	if g.depth >= maxDepth {
		return nil
	}
	args := g.captured()
	want := args[0].Shape
	branch := func(a []program.Value) program.Value {
		if g.Chance(5) {
			return a[0]
		}
		return g.region(a, want)
	}
	if g.Chance(2) {
		return g.If(g.Source(hlo.Pred), args, branch, branch)
	}
	branches := []func([]program.Value) program.Value{branch, branch, branch, branch}[:g.Between(1, 4)]
	return g.Case(g.Source(hlo.S32), args, branches...)
}
