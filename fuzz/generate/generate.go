// Package generate makes programs at random: well-typed by construction, over
// all value operations and types, with trigger patterns of the passes in focus
// strewn in.
//
// What the HLO specification leaves to the implementation is kept out where it
// can be (integer division by zero, shifts by more than the width, scatters
// whose result depends on the order of float additions are written so that
// they cannot happen); what remains open depends on input values (conversions
// out of range, signed overflow) and is contested by the reference.
package generate

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// Options say what programs to make.
type Options struct {
	// Size is the number of instructions to aim at, in all computations; 0
	// draws it: half of the programs have at most 12, one in 40 has more than
	// 100, none more than about 500.
	Size int
	// Focus names passes, one of which is drawn for each program and pattern: a
	// name that stands several times has more weight. A pattern for the pass
	// stands in the program; where there is none the generator is free.
	Focus []string
	// Platform is that of the build, patterns.CPU or patterns.TPU; "" is the CPU.
	// It chooses among the patterns of Focus.
	Platform string
	// Patterns, if not nil, replaces the patterns of Focus.
	Patterns []patterns.Pattern
	// Skip names opcodes that the programs must not hold, for builds that lack
	// them.
	Skip []hlo.Opcode
}

// inPlaceShare is the inverse share of programs without a focus that are built
// around an update in place: what can go wrong there no pass shows.
const inPlaceShare = 12

// Program makes one program. Half of those that compare or clamp with constants
// have inputs of their own, at and near these constants. The same r and options
// make the same program. An error wraps program.ErrInvalid: a bug of ours.
func Program(name string, r *rand.Rand, o Options) (*fuzz.Case, error) {
	draw := func() (patterns.Pattern, bool) {
		switch {
		case len(o.Patterns) > 0:
			return o.Patterns[r.IntN(len(o.Patterns))], true
		case len(o.Focus) > 0:
			return patterns.Draw(r, cmp.Or(o.Platform, patterns.CPU), o.Focus[r.IntN(len(o.Focus))])
		case len(o.Skip) == 0 && r.IntN(inPlaceShare) == 0:
			all := patterns.Family("in-place")
			return all[r.IntN(len(all))], true
		}
		return patterns.Pattern{}, false
	}
	size := o.Size
	if size == 0 {
		size = drawSize(r)
	}
	p, focused := draw()
	c, err := program.Make(name, r, func(b *program.Builder) {
		g := &generator{Builder: b, skip: o.Skip}
		if !focused {
			g.grow(size)
			g.finish()
			return
		}
		if p.Alone || r.IntN(3) == 0 { // the pattern alone
			p.Build(b)
			return
		}
		if r.IntN(3) == 0 {
			g.grow(r.IntN(size))
		}
		p.Build(b)
		for range r.IntN(3) {
			if q, ok := draw(); ok && !q.Alone && b.Len() < size {
				q.Build(b)
			}
		}
		if b.Len() < size {
			g.grow(size)
			g.finish()
		}
	})
	if err == nil && !c.Own && r.IntN(2) == 0 {
		if s, ok := c.Branch(r.Uint64()); ok {
			c.Own, c.Inputs, c.InputLines = true, s.Inputs, s.Lines
		}
	}
	return c, err
}

// drawSize is heavy on small programs.
func drawSize(r *rand.Rand) int {
	switch n := r.IntN(40); {
	case n < 20:
		return 2 + r.IntN(11)
	case n < 34:
		return 13 + r.IntN(28)
	case n < 39:
		return 41 + r.IntN(60)
	}
	return 101 + r.IntN(400)
}

// generator grows programs operation by operation.
type generator struct {
	*program.Builder
	skip  []hlo.Opcode
	depth int
}

// maxDepth bounds the nesting of regions.
const maxDepth = 3

// grow appends operations until the program has size instructions.
func (g *generator) grow(size int) {
	for tries := 0; g.Len() < size && tries < 4*size+8; tries++ {
		g.step()
	}
}

// finish makes the newest values results: what nobody uses would be dead code.
func (g *generator) finish() {
	pool := g.Pool()
	for _, v := range pool[max(0, len(pool)-3):] {
		if v.Op != hlo.OpParameter || len(pool) == 1 {
			g.Out(v)
		}
	}
	if g.Chance(10) {
		g.alias()
	}
}

// alias lets a result and a parameter of the same shape share a buffer, or
// donates a parameter.
func (g *generator) alias() {
	outs, params := g.Results(), g.Parameters()
	for k, o := range outs {
		for i, p := range params {
			if o.Shape.String() != p.Shape.String() { // the layouts, too
				continue
			}
			if g.Chance(3) {
				g.Donate(int64(i))
				return
			}
			place := []int64{int64(k)}
			if len(outs) == 1 {
				place = nil
			}
			g.Alias(place, int64(i), g.Chance(2))
			return
		}
	}
}

// step appends one operation, or a few that belong together.
func (g *generator) step() {
	n := g.R.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n >= 0 {
			continue
		}
		if slices.ContainsFunc(k.needs, func(op hlo.Opcode) bool { return slices.Contains(g.skip, op) }) {
			return
		}
		if v := k.make(g); v != nil {
			g.Offer(v)
		}
		return
	}
}

// kind is one kind of operation. make returns nil where nothing fits.
type kind struct {
	name   string
	weight int
	needs  []hlo.Opcode
	make   func(g *generator) program.Value
}

var kinds []kind
var total int

func init() {
	kinds = slices.Concat(elementwise, moves, indexed, reductions, library, control)
	for _, k := range kinds {
		total += k.weight
	}
}

// any is a value to start from: usually the newest ones.
func (g *generator) any() program.Value {
	pool := g.Pool()
	if len(pool) == 0 || g.Chance(8) {
		return g.Source(g.Type(), g.Dims(g.R.IntN(4))...)
	}
	if g.Chance(2) {
		return pool[len(pool)-1-g.R.IntN(min(3, len(pool)))]
	}
	return program.Pick(g.Builder, pool...)
}

// array is a value for which ok holds: one of the pool, or a new one of a type
// that pick chooses and a rank of at least lo.
func (g *generator) array(ok func(s *hlo.Shape) bool, pick func() hlo.PrimitiveType, lo int) program.Value {
	for range 4 {
		if v := g.any(); v.Shape.Rank() >= lo && ok(v.Shape) {
			return v
		}
	}
	return g.Source(pick(), g.Dims(lo+g.R.IntN(3))...)
}

func (g *generator) ranked(lo int) program.Value {
	return g.array(func(*hlo.Shape) bool { return true }, g.Type, lo)
}

func (g *generator) float() program.Value {
	return g.array(func(s *hlo.Shape) bool { return s.Type.IsFloat() && s.Type.Bits() >= 16 }, g.Float, 0)
}

func (g *generator) integer() program.Value {
	return g.array(func(s *hlo.Shape) bool { return s.Type.IsInteger() && s.Type.Bits() >= 8 }, g.Int, 0)
}

// like is a value of the same type and dimensions.
func (g *generator) like(x program.Value) program.Value {
	if g.Chance(6) {
		return x // shared operands
	}
	if g.Chance(8) {
		return g.Splat(g.Source(x.Shape.Type), x.Shape.Dims...)
	}
	return g.Source(x.Shape.Type, x.Shape.Dims...)
}

// small reports whether an array of these dimensions may be made.
func small(dims []int64) bool { return hlo.ArrayShape(hlo.F32, dims...).Elems() <= 4096 }
