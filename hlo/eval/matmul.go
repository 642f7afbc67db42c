package eval

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/passgate/passgate/hlo"
)

// infiniteRows tells which rows of a complex array, of inner elements each, may
// hold an infinity.
func infiniteRows(a *Array, inner int) []bool {
	out := make([]bool, a.Len()/inner)
	for i := range a.Len() {
		s := a.At(i)
		if (s.Re.class()|s.Im.class())&(MayPosInf|MayNegInf) != 0 {
			out[i/inner] = true
		}
	}
	return out
}

// MatMul is the batched product: out[b,i,j] = sum over l of x[b,i,l]*y[b,j,l],
// with x of dimensions [batch, rows, inner] and y of [batch, cols, inner] (its
// contracted dimension is the minor one, too). The operands may have different
// element types; each product is taken in type out.
// The result has dimensions [batch, rows, cols].
//
// The bounds are those of Sum, for whole rows and columns at a time.
func (n *Numerics) MatMul(out hlo.PrimitiveType, x, y *Array, batch, rows, cols, inner int) *Array {
	r := NewArray(out, int64(batch), int64(rows), int64(cols))
	m := matShape{batch, rows, cols, inner}
	switch {
	case r.Len() == 0 || inner == 0:
		return r
	case out.IsComplex():
		f := realType(out)
		fx, fy := realType(x.Type), realType(y.Type)
		xr, xi, yr, yi := x.Re, x.imag(), y.Re, y.imag()
		m.inner *= 2
		left := interleave(xr, xi)
		r.Re = n.matPlane(f, fx, fy, left, interleave(yr, yi.negated()), m)
		r.Im = n.matPlane(f, fx, fy, left, interleave(yi, yr), m)
		if n.Bounds && (r.Re.anySpecial() || r.Im.anySpecial()) {
			xs, ys := infiniteRows(x, inner), infiniteRows(y, inner)
			for i := range r.Len() {
				re, im := r.Re.at(i), r.Im.at(i)
				if xs[i/cols] || ys[i/(rows*cols)*cols+i%cols] {
					re, im = recovered(re, im)
				}
				re, im = timesOne(re, im)
				r.Re.set(i, re)
				r.Im.set(i, im)
			}
		}
	case out.IsFloat():
		r.Re = n.matPlane(floatTypes[out], floatOf(x.Type), floatOf(y.Type), x.reals(), y.reals(), m)
	default:
		n.matInts(r, x, y, m)
	}
	m.contest(r, x, y)
	return r
}

type matShape struct{ batch, rows, cols, inner int }

// floatOf is the float type of t; integers count as exact f64.
func floatOf(t hlo.PrimitiveType) *floatType {
	if f := realType(t); f != nil {
		return f
	}
	return floatTypes[hlo.F64]
}

// reals is the plane of a, integers converted.
func (a *Array) reals() *Plane {
	if a.Re != nil {
		return a.Re
	}
	p := &Plane{C: make([]float64, len(a.I))}
	for i, v := range a.I {
		p.C[i] = float64(v)
		if a.Undecided != nil && a.Undecided[i] {
			if p.set(i, anyNum); a.Width != nil && a.Width[i] > 0 {
				half := float64(a.Width[i]) / 2
				p.set(i, Num{C: float64(v) + half, E: half})
			}
		}
	}
	return p
}

// imag is the imaginary plane, zeros for real types.
func (a *Array) imag() *Plane {
	if a.Im != nil {
		return a.Im
	}
	return &Plane{C: make([]float64, a.Len())}
}

func (p *Plane) negated() *Plane {
	r := &Plane{C: make([]float64, len(p.C))}
	for i := range p.C {
		r.set(i, neg(p.at(i)))
	}
	return r
}

// interleave alternates the elements of two planes.
func interleave(a, b *Plane) *Plane {
	r := &Plane{C: make([]float64, 2*len(a.C))}
	for i := range a.C {
		r.set(2*i, a.at(i))
		r.set(2*i+1, b.at(i))
	}
	return r
}

// line is what matPlane knows of a row of x or a column of y.
type line struct {
	special bool // NaN, infinity, undecided: needs the scalar way
	inexact bool // some element has an error
	unit    int  // exponent of the common unit, noUnit if all zero
}

// survey describes the lines of a plane and makes |v| and |v|+E.
func survey(f *floatType, p *Plane, inner int) (lines []line, size, reach []float64) {
	lines = make([]line, len(p.C)/max(inner, 1))
	size = make([]float64, len(p.C))
	reach = size
	if p.E != nil || p.Lo != nil || f.flush {
		reach = make([]float64, len(p.C))
	}
	for i := range lines {
		l := line{unit: noUnit}
		for j := i * inner; j < (i+1)*inner; j++ {
			v := p.C[j]
			a := math.Abs(v)
			size[j] = a
			if !(a < inf) || p.special(j) || p.E != nil && !(p.E[j] < inf) {
				l.special = true
				continue
			}
			if v != 0 {
				l.unit = min(l.unit, unitExponent(v))
			}
			e := f.slack(p.at(j))
			if p.E != nil {
				e += p.E[j]
			}
			if e > 0 {
				l.inexact = true
			}
			reach[j] = a + e
		}
		lines[i] = l
	}
	return lines, size, reach
}

// product is c = a * b^T through gonum's blocked multiplication.
func (m matShape) product(c, a, b []float64) {
	if m.rows == 0 || m.cols == 0 || m.inner == 0 {
		return
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1,
		blas64.General{Rows: m.rows, Cols: m.inner, Stride: m.inner, Data: a},
		blas64.General{Rows: m.cols, Cols: m.inner, Stride: m.inner, Data: b},
		0, blas64.General{Rows: m.rows, Cols: m.cols, Stride: m.cols, Data: c})
}

// wideProduct is product in about double-double precision (Ogita, Rump and
// Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26(6), 2005).
func (m matShape) wideProduct(c, lo []float64, x, y *Plane, at, xo, yo int) {
	for i := range m.rows {
		a := x.C[xo+i*m.inner : xo+(i+1)*m.inner]
		for j := range m.cols {
			b := y.C[yo+j*m.inner : yo+(j+1)*m.inner]
			var s, t float64
			for l, v := range a {
				w := b[l]
				p := v * w
				pe := math.FMA(v, w, -p)
				z := s + p
				d := z - s
				t += (s - (z - d)) + (p - d) + pe
				s = z
			}
			if x.Lo != nil {
				for l, v := range x.Lo[xo+i*m.inner : xo+(i+1)*m.inner] {
					t += v * b[l]
				}
			}
			if y.Lo != nil {
				for l, v := range y.Lo[yo+j*m.inner : yo+(j+1)*m.inner] {
					t += v * a[l]
				}
			}
			r := fastTwoSum(s, t)
			if !finite(s) {
				r = dd{s, 0}
			}
			c[at+i*m.cols+j], lo[at+i*m.cols+j] = r.hi, r.lo
		}
	}
}

func (n *Numerics) matPlane(f, fx, fy *floatType, x, y *Plane, m matShape) *Plane {
	r := &Plane{C: make([]float64, m.batch*m.rows*m.cols)}
	nx, ny, nr := m.rows*m.inner, m.cols*m.inner, m.rows*m.cols
	var lo []float64
	if f.wide && n.Bounds {
		lo = make([]float64, len(r.C))
	}
	for b := range m.batch {
		if f.wide && n.Bounds {
			m.wideProduct(r.C, lo, x, y, b*nr, b*nx, b*ny)
		} else {
			m.product(r.C[b*nr:(b+1)*nr], x.C[b*nx:(b+1)*nx], y.C[b*ny:(b+1)*ny])
		}
	}
	if !n.Bounds {
		for i, v := range r.C {
			r.C[i] = f.Round(v)
		}
		return r
	}
	acc := f.accumulator()
	xs, xSize, xReach := survey(fx, x, m.inner)
	ys, ySize, yReach := survey(fy, y, m.inner)
	size, reach := make([]float64, nr), make([]float64, nr)
	for b := range m.batch {
		m.product(size, xSize[b*nx:(b+1)*nx], ySize[b*ny:(b+1)*ny])
		m.product(reach, xReach[b*nx:(b+1)*nx], yReach[b*ny:(b+1)*ny])
		for i := range m.rows {
			p := xs[b*m.rows+i]
			for j := range m.cols {
				q := ys[b*m.cols+j]
				at := b*nr + i*m.cols + j
				k := i*m.cols + j
				if p.special || q.special || !(reach[k] < acc.max/2) {
					r.set(at, n.matScalar(f, x, y, b*nx+i*m.inner, b*ny+j*m.inner, m.inner))
					continue
				}
				c := dd{r.C[at], 0}
				if lo != nil {
					c.lo = lo[at]
				}
				unit := noUnit
				if p.unit != noUnit && q.unit != noUnit {
					unit = p.unit + q.unit
				}
				if unit == noUnit && !p.inexact && !q.inexact {
					r.set(at, Num{K: AnyZeroSign})
					continue
				}
				if !p.inexact && !q.inexact && acc.exactSum(unit, size[k]) {
					z := n.settle(f, c.hi, c.lo, 0, 0.5, 0)
					if z.C == 0 {
						z.K |= AnyZeroSign
					}
					r.set(at, z)
					continue
				}
				err := reach[k] * float64(m.inner+2) * 0x1p-52 // of the three products here
				if f.wide {
					err = reach[k]*float64(m.inner+2)*float64(m.inner+2)*0x1p-102 + float64(m.inner)*wideUnderflow
				}
				if p.inexact || q.inexact {
					err += math.Max(0, reach[k]-size[k]) + reach[k]*float64(m.inner+2)*0x1p-51
				}
				r.set(at, n.settleSum(f, acc, c, err, reach[k]*(1+0x1p-30), m.inner, 0))
			}
		}
	}
	return r
}

// matScalar is one element by Sum.
func (n *Numerics) matScalar(f *floatType, x, y *Plane, i, j, inner int) Num {
	s := floatSum{unit: noUnit}
	for l := range inner {
		s.addProduct(n, f, x.at(i+l), y.at(j+l))
	}
	return s.result(n, f)
}

func (n *Numerics) matInts(r, x, y *Array, m matShape) {
	t := r.Type
	// Signed sums that cannot leave the type need no watching.
	watch := t == hlo.Pred || x.Undecided != nil || y.Undecided != nil ||
		t.IsSigned() && x.largest()*y.largest()*float64(m.inner) > float64(maxInt(t))
	for b := range m.batch {
		for i := range m.rows {
			xo := (b*m.rows + i) * m.inner
			for j := range m.cols {
				yo := (b*m.cols + j) * m.inner
				at := (b*m.rows+i)*m.cols + j
				if watch {
					s := n.NewSum(t)
					for l := range m.inner {
						v, w := Scalar{I: x.I[xo+l]}, Scalar{I: y.I[yo+l]}
						if x.Undecided != nil {
							v = x.At(xo + l)
							v.Contest = 0
						}
						if y.Undecided != nil {
							w = y.At(yo + l)
							w.Contest = 0
						}
						s.AddProduct(v, w)
					}
					r.Set(at, s.Result())
					continue
				}
				var s int64
				a, c := x.I[xo:xo+m.inner], y.I[yo:yo+m.inner]
				for l, v := range a {
					s += v * c[l]
				}
				r.I[at] = t.Canonical(s)
			}
		}
	}
}

// largest is the largest magnitude of integers.
func (a *Array) largest() float64 {
	var m float64
	for _, v := range a.I {
		m = math.Max(m, math.Abs(float64(v)))
	}
	return m
}

// contest unites the contests of a row and a column in each element.
func (m matShape) contest(r, x, y *Array) {
	if x.Contest == nil && y.Contest == nil {
		return
	}
	fold := func(c []Contest, lines int) []Contest {
		f := make([]Contest, lines)
		for i := range c {
			f[i/m.inner] |= c[i]
		}
		return f
	}
	p, q := fold(x.Contest, m.batch*m.rows), fold(y.Contest, m.batch*m.cols)
	for b := range m.batch {
		for i := range m.rows {
			for j := range m.cols {
				r.contest((b*m.rows+i)*m.cols+j, p[b*m.rows+i]|q[b*m.cols+j])
			}
		}
	}
}
