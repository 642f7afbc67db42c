package fuzz

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/hlo"
)

// BranchStream is the name of the stream that Case.Branch makes.
const BranchStream = "branch"

// maxPoints bounds the values per type that a stream looks at.
const maxPoints = 6

// Branch are inputs at the values where the program decides: the constants
// that it compares, clamps or selects with, and their neighbours. False says
// that it has none, or parameters that are no static arrays. Indices and trip
// counts are those of the lattice stream.
func (c *Case) Branch(seed uint64) (Stream, bool) {
	params := c.Params()
	if len(params) == 0 || !generable(params) || slices.ContainsFunc(params, (*hlo.Shape).IsTuple) {
		return Stream{}, false
	}
	points := branchPoints(c.Module)
	roles := parameterRoles(c.Module)
	s, found := Stream{Name: BranchStream}, false
	for i, p := range params {
		values, used := points[p.Type], roles[leafKey{i, 0}]
		if len(values) == 0 || used != (role{}) {
			lit, text := generateFor(c.Name, LatticeStream, seed, i, p, roles)
			s.Inputs, s.Lines = append(s.Inputs, lit), append(s.Lines, text)
			continue
		}
		found = true
		h := fnv.New64a()
		fmt.Fprintf(h, "%d\x00%s\x00%s\x00%d", seed, c.Name, BranchStream, i)
		g := Generator{Kind: "near", Type: p.Type, Dims: p.Dims, Value: strings.Join(values, ","), Seed: h.Sum64() >> 32}
		s.Inputs, s.Lines = append(s.Inputs, g.Generate()), append(s.Lines, g.String())
	}
	return s, found
}

// branchPoints are the scalar constants that decide something, as text, by
// their type, in the order of the program.
func branchPoints(m *hlo.Module) map[hlo.PrimitiveType][]string {
	out := map[hlo.PrimitiveType][]string{}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case hlo.OpCompare, hlo.OpClamp, hlo.OpMaximum, hlo.OpMinimum:
			default:
				continue
			}
			for _, o := range in.Operands {
				for o.Op == hlo.OpBroadcast || o.Op == hlo.OpConvert || o.Op == hlo.OpReshape {
					o = o.Operands[0]
				}
				if o.Op != hlo.OpConstant || !o.Shape.IsArray() || o.Shape.Type == hlo.Pred || o.Shape.Type.IsComplex() {
					continue
				}
				for i := range min(o.Shape.Elems(), maxPoints) {
					text := numberText(o.Literal, i)
					if t := o.Shape.Type; len(out[t]) < maxPoints && !slices.Contains(out[t], text) {
						out[t] = append(out[t], text)
					}
				}
			}
		}
	}
	return out
}

func numberText(l *hlo.Literal, i int64) string {
	switch t := l.Shape.Type; {
	case t.IsFloat():
		return strconv.FormatFloat(l.Float(i), 'g', -1, 64)
	case t == hlo.U64:
		return strconv.FormatUint(uint64(l.Int(i)), 10)
	}
	return strconv.FormatInt(l.Int(i), 10)
}

// near fills lit with the values and their neighbours.
func (d *draws) near(lit *hlo.Literal, values []string) {
	f := d.t.Format()
	for i := range lit.Shape.Elems() {
		text := values[d.below(uint64(len(values)))]
		step := d.below(8)
		if f == nil {
			v, _ := parseInteger(d.t, text)
			if text == "true" {
				v = 1
			}
			switch step {
			case 4, 5:
				v = d.t.Canonical(v + 1)
			case 6:
				v = d.t.Canonical(v - 1)
			case 7:
				v = d.t.Canonical(-v)
			}
			lit.SetInt(i, v)
			continue
		}
		v, _ := strconv.ParseFloat(text, 64)
		v = f.Round(v)
		switch step {
		case 4, 5:
			v = neighbour(f, v, 1)
		case 6:
			v = neighbour(f, v, -1)
		case 7:
			v = -v
		}
		lit.SetFloat(i, v)
	}
}

// neighbour is the next value of the format above (1) or below (-1) v; v
// itself where there is none.
func neighbour(f *hlo.FloatFormat, v, direction float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	// Half an ulp is the smaller step below a power of two.
	for _, step := range []float64{f.Ulp(v) / 2, f.Ulp(v)} {
		if r := f.Round(v + direction*step); r != v && !math.IsInf(r, 0) && !math.IsNaN(r) {
			return r
		}
	}
	return v
}
