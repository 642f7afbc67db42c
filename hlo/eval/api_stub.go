package eval

// Signatures that have no body yet; each moves to its own file with its body.

import "github.com/passgate/passgate/hlo"

// Sum accumulates terms that an implementation may add in any order, in any
// tree and with any fused multiply-adds.
type Sum struct{ t hlo.PrimitiveType }

// NewSum starts an empty sum (value 0) of type t: integers wrap, pred is
// logical or, floats and complex carry a gamma_n bound.
func (n *Numerics) NewSum(t hlo.PrimitiveType) Sum { panic("todo") }

// Add adds one term.
func (s *Sum) Add(x Scalar) { panic("todo") }

// AddProduct adds the product of two values of the sum's type.
func (s *Sum) AddProduct(x, y Scalar) { panic("todo") }

// Result is the set of sums; the Sum may be added to afterwards.
func (s *Sum) Result() Scalar { panic("todo") }

// MatMul is the batched product: out[b,i,j] = sum over l of x[b,i,l]*y[b,j,l],
// with x of dimensions [batch, rows, inner] and y of [batch, cols, inner] (its
// contracted dimension is the minor one, too). The operands may have different
// element types; each product is taken in type out.
// The result has dimensions [batch, rows, cols].
func (n *Numerics) MatMul(out hlo.PrimitiveType, x, y *Array, batch, rows, cols, inner int) *Array {
	panic("todo")
}
