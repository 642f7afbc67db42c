package triage

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// Where a region computes over a discontinuity (a comparison, a selection, the
// condition of a loop), its legal sets may say nothing, although every single
// operation in it is decided on the values that it sees. Then the region is
// judged along paths: runs in which each operation gets exact values, and its
// result is one value of its own legal set, exact for what comes next.
//
//   - Over the reals: the centre of each set, in the reference's wide type. Two
//     programs that mean the same give the same there, but for the rounding of
//     the wide type, whatever the types of the program round.
//   - Legal executions: any value of each set. Where they all stay close to the
//     path over the reals, on both sides, no discontinuity is near.
//
// Elements that agree over the reals are judged to be the same. Elements that
// do not, by far more than the legal executions of either side stray, are not.
// All others stay undecided.

// legalPaths is the number of legal executions of each side; half of them round
// every result to its type.
const legalPaths = 6

// strays is how many times further than any legal execution strays from the path
// over the reals the two sides have to be apart.
const strays = 16

// tiny is the part of each legal set in which values are taken where only the
// reals are asked (see wanders).
const tiny = 0x1p-20

// path picks a value of each legal set.
type path struct {
	part  float64 // of the set, around its centre; 0 is the centre
	round bool
	rnd   *rand.Rand
}

// settle is eval.Options.Settle.
func (p *path) settle(_ *hlo.Instruction, v *eval.Value) *eval.Value {
	if v.Array == nil {
		return v // elements are settled already
	}
	re, im := p.plane(v.Array.Type, v.Array.Re), p.plane(v.Array.Type, v.Array.Im)
	if re == v.Array.Re && im == v.Array.Im {
		return v
	}
	a := *v.Array
	a.Re, a.Im = re, im
	return &eval.Value{Array: &a}
}

func (p *path) plane(t hlo.PrimitiveType, x *eval.Plane) *eval.Plane {
	if x == nil || x.E == nil {
		return x
	}
	f := t.Real().Format()
	r := &eval.Plane{C: append([]float64(nil), x.C...), E: append([]float64(nil), x.E...), K: x.K}
	if x.Lo != nil {
		r.Lo = append([]float64(nil), x.Lo...)
	}
	const specials = eval.MayNaN | eval.MayPosInf | eval.MayNegInf
	for i, e := range x.E {
		if e == 0 || math.IsInf(e, 1) || math.IsNaN(e) || x.K != nil && x.K[i]&specials != 0 {
			continue
		}
		r.E[i] = 0
		if p.part == 0 {
			continue
		}
		c := r.C[i]
		if r.Lo != nil {
			c, r.Lo[i] = c+r.Lo[i], 0
		}
		c += e * p.part * (2*p.rnd.Float64() - 1)
		if p.round {
			c = f.FromBits(f.Bits(c))
		}
		r.C[i] = c
	}
	return r
}

// sides are the results of both programs of a region along one path.
type sides struct{ before, after *eval.Value }

// along runs both programs of a region along a path; nil if one cannot be
// evaluated.
func (j *regionJudge) along(r *Region, part float64, n uint64) *sides {
	args := literalValues(r.Inputs)
	var out [2]*eval.Value
	for k, m := range []*hlo.Module{r.Before, r.After} {
		p := path{part, part == 1 && n%2 == 1, rand.New(rand.NewPCG(n, uint64(k)))}
		o := j.o
		o.Settle = p.settle
		v, err := j.run(m, args, o)
		if err != nil {
			return nil
		}
		out[k] = v
	}
	return &sides{out[0], out[1]}
}

// paths are the runs of a region: over the reals, and legal or tiny ones, made
// when they are needed.
type paths struct {
	j     *regionJudge
	r     *Region
	reals *sides
	near  []*sides
	part  float64
	asked bool
	// dependent says that parameters of the region depend on each other.
	dependent bool
}

func (j *regionJudge) paths(r *Region, part float64) *paths {
	return &paths{j: j, r: r, part: part, reals: j.along(r, 0, 0), dependent: len(r.dependent()) > 0}
}

// others are the runs near the path over the reals; nil if one is not to be had.
func (p *paths) others() []*sides {
	if !p.asked {
		p.asked = true
		for n := range uint64(legalPaths) {
			s := p.j.along(p.r, p.part, n)
			if s == nil {
				p.near = nil
				break
			}
			p.near = append(p.near, s)
		}
	}
	return p.near
}

// output is output o of a region's result.
func (r *Region) output(v *eval.Value, o int) *eval.Value {
	if len(r.outputs) > 1 {
		return v.Elements[o]
	}
	return v
}

// decide judges the elements of output o of a region that its legal sets leave
// undecided; before and after are these sets. s is their tally, and is made
// guilty by what differs.
func (p *paths) decide(s *Step, o int, before, after *eval.Value) {
	if p.reals == nil {
		return
	}
	r := p.r
	xs, ys := leaves(r.output(p.reals.before, o)), leaves(r.output(p.reals.after, o))
	sets := leaves(after)
	for out, b := range leaves(before) {
		a, x, y := sets[out], xs[out], ys[out]
		scale := largest(x)
		for i := range b.Len() {
			if b.Meets(a, i) != eval.Undecided {
				continue
			}
			u, v := x.At(i), y.At(i)
			if !settled(u) || !settled(v) {
				continue
			}
			far := distance(b.Type, u, v)
			if far <= p.same(b.Type, u, v, scale) {
				s.Undecided--
				continue
			}
			if s.Rule != "" || (u.Contest|v.Contest|b.At(i).Contest) != 0 {
				continue
			}
			stray, ok := p.stray(o, out, i, u, v)
			if !ok || strays*stray >= far {
				continue
			}
			s.Undecided--
			s.Wrong++
			if s.Where == nil {
				s.Standing = Guilty
				u.Re.E, u.Im.E, v.Re.E, v.Im.E = 0, 0, 0, 0
				s.Where = &Divergence{Output: out, At: unravel(i, b.Dims), Type: b.Type, Was: u, Is: v,
					Before: about(b.Type, u, stray), After: about(b.Type, v, stray)}
			}
		}
	}
}

// about says where the executions of one side are.
func about(t hlo.PrimitiveType, x eval.Scalar, stray float64) string {
	if !t.IsFloat() && !t.IsComplex() {
		return "{" + eval.ScalarString(t, x) + "}"
	}
	return fmt.Sprintf("[%s ± %.3g]", eval.ScalarString(t, x), stray)
}

// same is how far two values may be apart that are the same over the reals.
// Half of the wide type's digits are left to cancellation.
func (p *paths) same(t hlo.PrimitiveType, u, v eval.Scalar, scale float64) float64 {
	if !t.IsFloat() && !t.IsComplex() {
		return 0
	}
	size := max(math.Hypot(u.Re.C, u.Im.C), math.Hypot(v.Re.C, v.Im.C))
	if math.IsInf(size, 0) || math.IsNaN(size) {
		size = 0
	}
	if p.dependent {
		return p.r.compensated(t) * max(size, scale)
	}
	return 0x1p-26*size + 0x1p-40*scale
}

// settled reports whether a path gave an element one value.
func settled(x eval.Scalar) bool {
	const specials = eval.MayNaN | eval.MayPosInf | eval.MayNegInf
	return !x.Undecided && x.Re.E == 0 && x.Im.E == 0 && (x.Re.K|x.Im.K)&specials == 0
}

// distance is how far two settled values are apart: infinite for different
// special values.
func distance(t hlo.PrimitiveType, u, v eval.Scalar) float64 {
	if !t.IsFloat() && !t.IsComplex() {
		if u.I == v.I {
			return 0
		}
		return math.Inf(1)
	}
	one := func(x, y float64) float64 {
		switch {
		case x == y || math.IsNaN(x) && math.IsNaN(y):
			return 0
		case math.IsNaN(x) || math.IsNaN(y):
			return math.Inf(1)
		}
		return math.Abs(x - y)
	}
	return math.Hypot(one(u.Re.C, v.Re.C), one(u.Im.C, v.Im.C))
}

// stray is how far the runs near the reals are from them at an element, on
// either side; ok is false if that is not known.
func (p *paths) stray(o, out, i int, u, v eval.Scalar) (far float64, ok bool) {
	near := p.others()
	for _, s := range near {
		x, y := leaves(p.r.output(s.before, o))[out], leaves(p.r.output(s.after, o))[out]
		xi, yi := x.At(i), y.At(i)
		if !settled(xi) || !settled(yi) {
			return 0, false
		}
		far = max(far, distance(x.Type, u, xi), distance(y.Type, v, yi))
	}
	return far, len(near) > 0
}

// wanders judges output o of a region by the reals alone, for a difference that
// is known from what it is made of: guilty says that the two sides differ over
// the reals on an undecided element, by far more than what a change of each
// result in the last digits of the wide type does.
func (j *regionJudge) wanders(r *Region, o int) (guilty bool) {
	s := Step{Standing: Same}
	before, err := j.run(r.Before, literalValues(r.Inputs), j.o)
	if err != nil {
		return false
	}
	after, err := j.run(r.After, literalValues(r.Inputs), j.o)
	if err != nil {
		return false
	}
	j.paths(r, tiny).decide(&s, o, r.output(before, o), r.output(after, o))
	return s.Standing == Guilty
}
