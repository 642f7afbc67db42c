package eval

import (
	"math"
	"math/cmplx"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

const (
	transpose = hlopb.TriangularSolveOptions_TRANSPOSE
	adjoint   = hlopb.TriangularSolveOptions_ADJOINT
)

// matrix is a dense complex matrix (real ones have zero imaginary parts).
type matrix struct {
	rows, cols int
	at         []complex128
}

func newMatrix(rows, cols int) matrix { return matrix{rows, cols, make([]complex128, rows*cols)} }

// bounds is a dense matrix of non-negative bounds.
type bounds struct {
	rows, cols int
	at         []float64
}

func newBounds(rows, cols int) bounds { return bounds{rows, cols, make([]float64, rows*cols)} }

func (m matrix) abs() bounds {
	b := newBounds(m.rows, m.cols)
	for i, v := range m.at {
		b.at[i] = cmplx.Abs(v)
	}
	return b
}

func (a bounds) times(b bounds) bounds {
	c := newBounds(a.rows, b.cols)
	for i := range a.rows {
		row := c.at[i*c.cols : (i+1)*c.cols]
		for k, v := range a.at[i*a.cols : (i+1)*a.cols] {
			if v == 0 {
				continue
			}
			for j, w := range b.at[k*b.cols : (k+1)*b.cols] {
				row[j] += v * w
			}
		}
	}
	return c
}

func (a bounds) transposed() bounds {
	t := newBounds(a.cols, a.rows)
	for i := range a.rows {
		for j := range a.cols {
			t.at[j*a.rows+i] = a.at[i*a.cols+j]
		}
	}
	return t
}

// scaled is f*a + shift in every entry.
func (a bounds) scaled(f, shift float64) bounds {
	c := newBounds(a.rows, a.cols)
	for i, v := range a.at {
		c.at[i] = f*v + shift
	}
	return c
}

func (a bounds) plus(b bounds) bounds {
	c := newBounds(a.rows, a.cols)
	for i, v := range a.at {
		c.at[i] = v + b.at[i]
	}
	return c
}

// rowSum is the infinity norm.
func (a bounds) rowSum() float64 {
	norm := 0.0
	for i := range a.rows {
		sum := 0.0
		for _, v := range a.at[i*a.cols : (i+1)*a.cols] {
			sum += v
		}
		if !(sum <= norm) { // keeps NaN
			norm = sum
		}
	}
	return norm
}

// centreOf splits an element into a value and a bound on its error; ok is false
// where no finite bound exists.
func centreOf(s Scalar) (c complex128, e float64, ok bool) {
	c = complex(s.Re.C, s.Im.C)
	e = math.Hypot(s.Re.E+math.Abs(s.Re.Lo), s.Im.E+math.Abs(s.Im.Lo))
	ok = !cmplx.IsNaN(c) && !cmplx.IsInf(c) && !math.IsInf(e, 0) && (s.Re.K|s.Im.K)&^AnyZeroSign == 0
	return c, e, ok
}

type solveOptions struct {
	left, lower, unit    bool
	transpose, conjugate bool
}

// triangularSolve is X with op(A)*X = B, or X*op(A) = B if not left (StableHLO
// triangular_solve), over batches of matrices. The other triangle of A, and
// with unit its diagonal, are not read.
//
// Error bound, with V = |inv(L)|, W = V*|L|: forward substitution in any order
// is within gamma_n*W*|x| (Higham, Accuracy and Stability, theorem 8.5).
// Implementations that invert the diagonal and multiply (XLA's expander, GPU
// libraries) have inv(L) within c*u*W*V (Higham 14.2.1), so x within
// c*u*W*V*|b|, and W once more where a blocked inverse is put together.
// Both are below the latter, c = 3(n+8). An uncertainty of the operands
// enters with V. Where the bound is not small against 1 the first-order
// analysis says nothing, and the result is undecided.
func (n *Numerics) triangularSolve(a, b *Array, o solveOptions) *Array {
	t := b.Type
	out := NewArray(t, b.Dims...)
	rank := len(b.Dims)
	size, rows, cols := int(a.Dims[rank-1]), int(b.Dims[rank-2]), int(b.Dims[rank-1])
	if out.Len() == 0 || size == 0 {
		return out
	}
	rhs := cols
	if !o.left {
		rhs = rows
	}
	// In the equation L*Y = C, L is op(A), or its plain transpose if not left.
	flip := o.transpose != !o.left
	lower := o.lower != flip
	for batch := range out.Len() / (rows * cols) {
		l, le := newMatrix(size, size), newBounds(size, size)
		c, ce := newMatrix(size, rhs), newBounds(size, rhs)
		var contest Contest
		usable := true
		for i := range size {
			for j := range size {
				if i == j && o.unit {
					l.at[i*size+j] = 1
				}
				if i < j && lower || i > j && !lower || i == j && o.unit {
					continue
				}
				at := i*size + j
				if flip {
					at = j*size + i
				}
				s := a.At(batch*size*size + at)
				v, e, ok := centreOf(s)
				if o.conjugate {
					v = cmplx.Conj(v)
				}
				usable = usable && ok && (i != j || cmplx.Abs(v) > e)
				contest |= s.Contest
				l.at[i*size+j], le.at[i*size+j] = v, e
			}
			for j := range rhs {
				at := i*cols + j
				if !o.left {
					at = j*cols + i
				}
				s := b.At(batch*rows*cols + at)
				v, e, ok := centreOf(s)
				usable = usable && ok
				contest |= s.Contest
				c.at[i*rhs+j], ce.at[i*rhs+j] = v, e
			}
		}
		var x matrix
		var xe bounds
		if usable = usable || !n.Bounds; usable {
			x = substitute(l, c, lower)
			if n.Bounds {
				xe, usable = solveBound(l, le, c, ce, lower, t)
			}
		}
		for i := range size {
			for j := range rhs {
				at := i*cols + j
				if !o.left {
					at = j*cols + i
				}
				s := undecidedScalar(t)
				if usable {
					bound := 0.0
					if n.Bounds {
						bound = xe.at[i*rhs+j]
					}
					s = n.approxScalar(t, x.at[i*rhs+j], bound)
				}
				s.Contest = contest
				out.Set(batch*rows*cols+at, s)
			}
		}
	}
	return out
}

// approxScalar is approx for real and complex types.
func (n *Numerics) approxScalar(t hlo.PrimitiveType, v complex128, bound float64) Scalar {
	s := Scalar{Re: n.approx(t.Real(), real(v), bound)}
	if t.IsComplex() {
		s.Im = n.approx(t.Real(), imag(v), bound)
	}
	return s
}

// substitute solves the triangular system l*x = c in float64.
func substitute(l, c matrix, lower bool) matrix {
	n, rhs := l.rows, c.cols
	x := newMatrix(n, rhs)
	copy(x.at, c.at)
	for step := range n {
		i := step
		if !lower {
			i = n - 1 - step
		}
		row := x.at[i*rhs : (i+1)*rhs]
		from, to := 0, i
		if !lower {
			from, to = i+1, n
		}
		for k := from; k < to; k++ {
			f := l.at[i*n+k]
			if f == 0 {
				continue
			}
			for j, v := range x.at[k*rhs : (k+1)*rhs] {
				row[j] -= f * v
			}
		}
		for j := range row {
			row[j] /= l.at[i*n+i]
		}
	}
	return x
}

// solveBound is the bound of triangularSolve; ok is false where there is none.
func solveBound(l matrix, le bounds, c matrix, ce bounds, lower bool, t hlo.PrimitiveType) (bounds, bool) {
	n := l.rows
	identity := newMatrix(n, n)
	for i := range n {
		identity.at[i*n+i] = 1
	}
	v := substitute(l, identity, lower).abs()
	w := v.times(l.abs())
	z := v.times(c.abs().plus(ce)) // at least |x|
	u := solveConstant(n, t)
	e := w.times(z).scaled(u, 0)
	if n > 64 { // several diagonal blocks
		e = w.times(e)
	}
	growth := w.rowSum() * u
	if n > 64 {
		growth *= w.rowSum()
	}
	perturbed := v.times(le)
	if !(growth < 0.1) || !(perturbed.rowSum() < 0.1) || !(z.rowSum()+v.rowSum() < t.Real().Format().Max()/8) {
		return bounds{}, false
	}
	e = e.plus(perturbed.times(z)).plus(v.times(ce))
	// Flushed subnormals: in entries of the inverse (times b), in remainders
	// (times the inverse) and in the result.
	tiny := t.Real().Format().MinNormal() * float64(n+2)
	flush := v.times(c.abs().scaled(0, tiny)).scaled(1, tiny)
	column := c.abs().transposed()
	for j := range column.rows {
		sum := 0.0
		for _, b := range column.at[j*n : (j+1)*n] {
			sum += b
		}
		for i := range n {
			flush.at[i*flush.cols+j] += tiny * sum
		}
	}
	return e.plus(flush).scaled(1.3, 0), true
}

// solveConstant is c*u for systems of size n.
func solveConstant(n int, t hlo.PrimitiveType) float64 {
	c := 3 * float64(n+8)
	if t.IsComplex() {
		c *= 2 * math.Sqrt2
	}
	return c * (unitRoundoff(t.Real()) + unitRoundoff(hlo.F64))
}

// cholesky is L with L*adjoint(L) = A, or with lower false U with
// adjoint(U)*U = A (StableHLO cholesky). Only that triangle of A is read, and
// the other triangle of the result is implementation-defined: undecided. So is
// the result for a matrix that is not safely positive definite.
//
// Error bound: the computed factor is the exact one of A + D with
// |D| <= gamma_(n+1)*|L|*|L|^H (Higham, theorem 10.3), in any order of
// evaluation. With G = |inv(L)|*|D|*|inv(L)|^H the factor of I + G is I + X,
// where X <= tril(G + X*X^H) with half the diagonal, so the error of L is at
// most |L|*X (Sun, "Perturbation bounds for the Cholesky and QR
// factorizations", BIT 31, 1991). If G is not small, the result is undecided.
func (n *Numerics) cholesky(a *Array, lower bool) *Array {
	t := a.Type
	out := Fill(Scalar{}, t, a.Dims...)
	rank := len(a.Dims)
	size := int(a.Dims[rank-1])
	if out.Len() == 0 {
		return out
	}
	position := func(batch, i, j int) int {
		if !lower {
			i, j = j, i
		}
		return (batch*size+i)*size + j
	}
	for batch := range out.Len() / (size * size) {
		m, me := newMatrix(size, size), newBounds(size, size)
		var contest Contest
		usable := true
		for i := range size {
			for j := range i + 1 {
				s := a.At(position(batch, i, j))
				v, e, ok := centreOf(s)
				if !lower {
					v = cmplx.Conj(v)
				}
				if i == j {
					v = complex(real(v), 0)
				}
				usable = usable && ok
				contest |= s.Contest
				m.at[i*size+j], me.at[i*size+j] = v, e
				me.at[j*size+i] = e
			}
		}
		l := newMatrix(size, size)
		if !n.Bounds && !factor(l, m) {
			for i := range l.at {
				l.at[i] = cmplx.NaN() // as XLA's expander marks a failure
			}
		}
		usable = !n.Bounds || usable && factor(l, m)
		var le bounds
		if usable && n.Bounds {
			le, usable = choleskyBound(l, me, t)
		}
		for i := range size {
			for j := range size {
				s := undecidedScalar(t)
				if j <= i && usable {
					v, bound := l.at[i*size+j], 0.0
					if !lower {
						v = cmplx.Conj(v)
					}
					if n.Bounds {
						bound = le.at[i*size+j]
					}
					s = n.approxScalar(t, v, bound)
				}
				if j > i {
					s.Contest = Implementation
				}
				s.Contest |= contest
				out.Set(position(batch, i, j), s)
			}
		}
	}
	return out
}

// factor is the Cholesky factorisation of the lower triangle of m in float64.
func factor(l, m matrix) bool {
	n := m.rows
	for j := range n {
		d := real(m.at[j*n+j])
		for k := range j {
			v := l.at[j*n+k]
			d -= real(v)*real(v) + imag(v)*imag(v)
		}
		if !(d > 0) {
			return false
		}
		d = math.Sqrt(d)
		l.at[j*n+j] = complex(d, 0)
		for i := j + 1; i < n; i++ {
			v := m.at[i*n+j]
			for k := range j {
				v -= l.at[i*n+k] * cmplx.Conj(l.at[j*n+k])
			}
			l.at[i*n+j] = v / complex(d, 0)
		}
	}
	return true
}

func choleskyBound(l matrix, me bounds, t hlo.PrimitiveType) (bounds, bool) {
	n := l.rows
	identity := newMatrix(n, n)
	for i := range n {
		identity.at[i*n+i] = 1
	}
	v, la := substitute(l, identity, true).abs(), l.abs()
	format := t.Real().Format()
	d := la.times(la.transposed()).scaled(solveConstant(n, t), 0).plus(me)
	// Flushed subnormals, in the products and in the entries.
	largest := 0.0
	for _, x := range la.at {
		largest = math.Max(largest, x)
	}
	d = d.scaled(1, float64(n+2)*format.MinNormal()*(1+2*largest))
	g := v.times(d).times(v.transposed())
	if !(g.rowSum() < 0.05) || !(largest < math.Sqrt(format.Max())/float64(n+1)) {
		return bounds{}, false
	}
	x := g
	for range 4 {
		x = halfTriangle(g.plus(x.times(x.transposed())))
	}
	return la.times(x).scaled(1.05, format.MinNormal()), true
}

// halfTriangle is the lower triangle with half the diagonal.
func halfTriangle(a bounds) bounds {
	c := newBounds(a.rows, a.cols)
	for i := range a.rows {
		for j := range i {
			c.at[i*a.cols+j] = a.at[i*a.cols+j]
		}
		c.at[i*a.cols+i] = a.at[i*a.cols+i] / 2
	}
	return c
}
