// Package eval is the reference interpreter: it runs an HLO module on given
// inputs and returns, for every element of the result, the set of values that
// a correct implementation may produce (the legal set).
//
// Integers, predicates and data movement are exact. A float element is a
// centre in a wider type (float64; double-double for f64) and a bound: a
// running forward error analysis adds at each operation what any legal
// implementation may add (see budgets.go). NaN, infinities and the sign of
// zero are tracked as possible classes. An element that depends on a
// discontinuous operation at an uncertain value is undecided.
package eval

import "github.com/passgate/passgate/hlo"

// Class is a set of special values that a float element may take besides its
// centre and the interval around it.
type Class uint8

const (
	// MayNaN: a NaN (of any payload and sign) is legal.
	MayNaN Class = 1 << iota
	// MayPosInf and MayNegInf: that infinity is legal.
	MayPosInf
	MayNegInf
	// AnyZeroSign: where the value is zero, either sign is legal.
	AnyZeroSign
)

// Contest marks why an element's value rests on semantics that XLA's
// maintainers argue about; a divergence there is reported, never blocking.
type Contest uint8

const (
	SignedOverflow    Contest = 1 << iota // signed integer add, subtract, multiply, abs, negate wrapped
	OutOfRangeConvert                     // float to integer out of range, or NaN
	DivideByZero                          // integer division or remainder by zero, or INT_MIN / -1
	NaNMinMax                             // a NaN went through minimum, maximum or clamp
	Denormal                              // a subnormal operand or result of arithmetic
	OutOfRangeShift                       // shift amount outside [0, bits)
	OrderDependent                        // duplicate scatter indices, ties of an unstable sort
	Implementation                        // other implementation-defined behaviour (rng, power of integers by negatives, ...)
)

// Num is one real float element: the legal set is
//
//	{C+Lo-E .. C+Lo+E} and the special values in K.
//
// If C is NaN or an infinity, that value itself and K are the set (Lo = E = 0).
// E = 0 means exactly C+Lo, and then C+Lo is representable in the element type
// (so Lo = 0), unless the evaluator runs in a mode that says otherwise.
// E = +Inf means undecided: any value.
type Num struct {
	C, Lo, E float64
	K        Class
}

// Scalar is one element of any type. I is the canonical value of a pred or an
// integer (hlo.PrimitiveType.Canonical); Re the value of a real float, Re and
// Im the parts of a complex.
type Scalar struct {
	I int64
	// Undecided, of pred and integers only (floats use E = +Inf): with a
	// positive Width any value of [I, I+Width], else any value.
	Undecided bool
	Width     int64
	Re, Im    Num
	Contest   Contest
}

// Plane is the column form of many Nums. C always has one entry per element;
// the others are nil when all their entries are zero.
type Plane struct {
	C, Lo, E []float64
	K        []Class
}

// Array is an array value, dense and row-major.
type Array struct {
	Type hlo.PrimitiveType
	Dims []int64
	I    []int64 // pred and integers; nil otherwise
	// Undecided and Width are those of Scalar; nil if no element is undecided,
	// and none has a width.
	Undecided []bool
	Width     []int64
	Re, Im    *Plane    // Re: real and complex floats; Im: complex only
	Contest   []Contest // nil if none
	// Sizes are the run-time sizes of dynamic dimensions; nil when static.
	// Elements beyond them exist in the columns and have no meaning.
	Sizes []int64
}

// Value is an array, a tuple or a token.
type Value struct {
	Array    *Array
	Elements []*Value // tuple
	Token    bool
}
