package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// reassociation is what folding constants into one may change in the value of
// an add, subtract or multiply: XLA's algebraic simplifier rewrites, without
// any flag, (A + C1) + C2 to A + (C1 + C2), (C1 - A) + C2 to (C1 + C2) - A,
// (A * C1) * C2 to A * (C1 * C2), and (A * C) * B to A * (B * C), with the
// folded constant rounded to the type
// (xla/hlo/transforms/simplifiers/algebraic_simplifier.cc, HandleAdd and
// HandleMultiply).
type reassociation struct {
	abs float64 // added to the bound of every element
	rel float64 // times the value, added likewise
	// exact: a value that is exact stays so; only rounded ones may differ.
	exact bool
	f     *floatType
}

// reassociationOf looks through the operands of an instruction for constants.
func reassociationOf(in *hlo.Instruction) reassociation {
	f := realType(in.Shape.Type)
	if f == nil {
		return reassociation{}
	}
	u := f.eps / 2
	switch in.Op {
	case hlo.OpAdd, hlo.OpSubtract:
		terms := addends(in, nil)
		if len(terms) < 2 {
			break
		}
		size, unit := 0.0, noUnit
		for _, c := range terms {
			size += c.max
			unit = min(unit, c.unit)
		}
		if !f.exactSum(unit, size) {
			return reassociation{abs: float64(len(terms)-1) * u * size * roundUp, f: f}
		}
	case hlo.OpMultiply, hlo.OpDivide:
		factors, nested := factors(in, nil, 0)
		if len(factors) == 0 || !nested {
			break
		}
		digits, least := 0, 1.0
		for _, c := range factors {
			digits += c.digits
			least *= c.min
		}
		if least < f.minNormal { // the folded constant loses digits, or all
			return reassociation{rel: 1, f: f}
		}
		return reassociation{rel: float64(len(factors)) * u * roundUp, exact: digits <= f.MantissaBits+1, f: f}
	}
	return reassociation{}
}

// Limits of the search: the simplifier's rules look at two operations at a
// time, and what chains of them do fades in the bounds of the chain itself.
const (
	maxAddends          = 16
	maxFactorDepth      = 4
	maxConstantElements = 1 << 12
)

// constant describes the elements of a constant operand.
type constant struct {
	max    float64 // largest magnitude
	min    float64 // smallest magnitude but zero; of the reciprocal in a division
	unit   int     // exponent of a power of two that all are multiples of
	digits int     // significant bits of the longest
}

// through skips instructions that move or repeat elements.
func through(in *hlo.Instruction) *hlo.Instruction {
	for {
		switch in.Op {
		case hlo.OpBroadcast, hlo.OpReshape, hlo.OpCopy, hlo.OpBitcast, hlo.OpTranspose:
			if len(in.Operands) != 1 {
				return in
			}
			in = in.Operands[0]
		default:
			return in
		}
	}
}

// constantOf is the constant that an operand is, if it is one.
func constantOf(in *hlo.Instruction) (constant, bool) {
	in = through(in)
	if in.Op == hlo.OpNegate || in.Op == hlo.OpConvert {
		return constantOf(in.Operands[0])
	}
	c := constant{min: inf, unit: noUnit}
	if in.Op != hlo.OpConstant || in.Literal == nil || !in.Shape.Type.IsFloat() || in.Shape.Elems() > maxConstantElements {
		return c, false
	}
	for i := range in.Shape.Elems() {
		v := in.Literal.Float(i)
		if v == 0 || !finite(v) {
			continue
		}
		c.max = math.Max(c.max, math.Abs(v))
		c.min = math.Min(c.min, math.Abs(v))
		unit := unitExponent(v)
		c.unit = min(c.unit, unit)
		_, e := math.Frexp(v)
		c.digits = max(c.digits, e-unit)
	}
	return c, true
}

// addends are the constants of a chain of additions and subtractions.
func addends(in *hlo.Instruction, found []constant) []constant {
	for in = through(in); (in.Op == hlo.OpAdd || in.Op == hlo.OpSubtract) && len(found) < maxAddends; in = through(in) {
		x, y := in.Operands[0], in.Operands[1]
		if c, ok := constantOf(y); ok {
			found, in = append(found, c), x
		} else if c, ok := constantOf(x); ok {
			found, in = append(found, c), y
		} else {
			break
		}
	}
	return found
}

// factors are the constants of a tree of multiplications and of divisions by
// constants; nested says that there is more than one operation.
func factors(in *hlo.Instruction, found []constant, depth int) (all []constant, nested bool) {
	in = through(in)
	if in.Op != hlo.OpMultiply && in.Op != hlo.OpDivide || depth == maxFactorDepth {
		return found, false
	}
	for i, o := range in.Operands {
		if c, ok := constantOf(o); ok {
			if in.Op == hlo.OpDivide && i == 1 {
				c.min = 1 / c.max
				if c.digits > 1 {
					c.digits = 64 // the reciprocal of no power of two is rounded
				}
			}
			found = append(found, c)
			continue
		}
		if in.Op == hlo.OpDivide && i == 1 {
			continue
		}
		before := len(found)
		found, _ = factors(o, found, depth+1)
		nested = nested || len(found) > before
	}
	return found, nested
}

// reassociated widens the bounds of x by r.
func (n *Numerics) reassociated(x *Array, r reassociation) *Array {
	if !n.Bounds || r.abs == 0 && r.rel == 0 || x.Re == nil {
		return x
	}
	w := *x
	w.Re, w.Im = x.Re.widened(r), x.Im.widened(r)
	return &w
}

func (p *Plane) widened(r reassociation) *Plane {
	if p == nil || r.exact && p.E == nil {
		return p
	}
	w := *p
	w.E = make([]float64, len(p.C))
	for i, c := range p.C {
		w.E[i] = Num{C: c, E: at(p.E, i)}.widened(r).E
	}
	return &w
}

func at(column []float64, i int) float64 {
	if column == nil {
		return 0
	}
	return column[i]
}

func (x Num) widened(r reassociation) Num {
	a := math.Abs(x.C)
	d := r.abs + r.rel*a
	if !finite(x.C) || r.exact && x.E == 0 || d == 0 {
		return x
	}
	if x.E == 0 { // exact only as written
		d += 0.5 * r.f.ulp(a+d)
	}
	x.E = (x.E + d) * roundUp
	return x
}

// reassociatedScalar widens the bounds of one element.
func (n *Numerics) reassociatedScalar(x Scalar, r reassociation) Scalar {
	if n.Bounds && (r.abs != 0 || r.rel != 0) {
		x.Re, x.Im = x.Re.widened(r), x.Im.widened(r)
	}
	return x
}
