package eval

// Signatures that have no body yet; each moves to its own file with its body.

import "github.com/passgate/passgate/hlo"

// The column forms apply an operation to whole arrays of equal dimensions.
// They never change their operands; results may share columns with them.

// UnaryArray is Unary over an array.
func (n *Numerics) UnaryArray(op hlo.Opcode, x *Array) *Array { panic("todo") }

// BinaryArray is Binary over two arrays of the same dimensions.
func (n *Numerics) BinaryArray(op hlo.Opcode, x, y *Array) *Array { panic("todo") }

// CompareArray is Compare over two arrays of the same dimensions.
func (n *Numerics) CompareArray(direction string, total bool, x, y *Array) *Array { panic("todo") }

// SelectArray is Select over arrays; p has the dimensions of a and b, or is a
// scalar.
func (n *Numerics) SelectArray(p, a, b *Array) *Array { panic("todo") }

// ClampArray is Clamp over arrays; lo and hi may be scalars.
func (n *Numerics) ClampArray(lo, x, hi *Array) *Array { panic("todo") }

// ConvertArray is Convert over an array.
func (n *Numerics) ConvertArray(to hlo.PrimitiveType, x *Array) *Array { panic("todo") }

// BitcastConvertArray keeps all bits; where the widths differ the minor
// dimension is added or removed as HLO says (low bits first).
func (n *Numerics) BitcastConvertArray(to hlo.PrimitiveType, x *Array) *Array { panic("todo") }

// ReducePrecisionArray is ReducePrecision over an array.
func (n *Numerics) ReducePrecisionArray(e, m int, x *Array) *Array { panic("todo") }

// StochasticConvertArray is StochasticConvert over arrays.
func (n *Numerics) StochasticConvertArray(to hlo.PrimitiveType, x, random *Array) *Array {
	panic("todo")
}

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

// FromLiteral makes the exact value of a literal.
func FromLiteral(l *hlo.Literal) *Value { panic("todo") }

// LiteralScalar is element i of an array literal as an exact scalar.
func LiteralScalar(l *hlo.Literal, i int64) Scalar { panic("todo") }

// Literal rounds the centres of v to a literal of the given shape, whose
// types and element counts must be those of v. Undecided integers give 0.
func (v *Value) Literal(shape *hlo.Shape) (*hlo.Literal, error) { panic("todo") }

// Verdict says where a value stands to a legal set.
type Verdict uint8

const (
	Out       Verdict = iota // not a legal value
	In                       // a legal value
	Undecided                // the element may be anything: nothing is judged
)

// Legal says whether got (an exact scalar of a's type) is a legal value of
// element i.
func (a *Array) Legal(i int, got Scalar) Verdict { panic("todo") }

// LegalSet renders the legal set of element i: "[1.5 ± 2e-07]", "{inf, nan}".
func (a *Array) LegalSet(i int) string { panic("todo") }

// Meets says whether the legal sets of element i of a and b have a value in
// common.
func (a *Array) Meets(b *Array, i int) Verdict { panic("todo") }

// ScalarString renders the centre of a scalar of type t.
func ScalarString(t hlo.PrimitiveType, s Scalar) string { panic("todo") }
