package eval

import (
	"slices"

	"github.com/passgate/passgate/hlo"
)

// NewArray makes an all-zero array.
func NewArray(t hlo.PrimitiveType, dims ...int64) *Array {
	a := &Array{Type: t, Dims: slices.Clone(dims)}
	n := a.Len()
	switch {
	case t.IsComplex():
		a.Re, a.Im = &Plane{C: make([]float64, n)}, &Plane{C: make([]float64, n)}
	case t.IsFloat():
		a.Re = &Plane{C: make([]float64, n)}
	default:
		a.I = make([]int64, n)
	}
	return a
}

// Len is the number of elements: the product of the dimensions.
func (a *Array) Len() int {
	n := int64(1)
	for _, d := range a.Dims {
		n *= d
	}
	return int(n)
}

// Reshape is the same elements in the same order with other dimensions; it
// shares a's columns.
func (a *Array) Reshape(dims ...int64) *Array {
	r := *a
	r.Dims = slices.Clone(dims)
	r.Sizes = nil
	return &r
}

// Clone copies the array with its columns.
func (a *Array) Clone() *Array {
	r := *a
	r.Dims, r.I, r.Undecided = slices.Clone(a.Dims), slices.Clone(a.I), slices.Clone(a.Undecided)
	r.Width = slices.Clone(a.Width)
	r.Re, r.Im = a.Re.clone(), a.Im.clone()
	r.Contest, r.Sizes = slices.Clone(a.Contest), slices.Clone(a.Sizes)
	return &r
}

func (p *Plane) clone() *Plane {
	if p == nil {
		return nil
	}
	return &Plane{slices.Clone(p.C), slices.Clone(p.Lo), slices.Clone(p.E), slices.Clone(p.K)}
}

// At is element i (row-major index).
func (a *Array) At(i int) Scalar {
	var s Scalar
	if a.I != nil {
		s.I = a.I[i]
		if a.Undecided != nil && a.Undecided[i] {
			s.Undecided = true
			if a.Width != nil {
				s.Width = a.Width[i]
			}
		}
	}
	if a.Re != nil {
		s.Re = a.Re.at(i)
	}
	if a.Im != nil {
		s.Im = a.Im.at(i)
	}
	if a.Contest != nil {
		s.Contest = a.Contest[i]
	}
	return s
}

// Set stores s as element i (row-major index).
func (a *Array) Set(i int, s Scalar) {
	if a.I != nil {
		a.I[i] = s.I
		if a.Undecided != nil || s.Undecided {
			grow(&a.Undecided, len(a.I))[i] = s.Undecided
			if a.Width != nil || s.Width != 0 {
				grow(&a.Width, len(a.I))[i] = s.Width
			}
		}
	}
	if a.Re != nil {
		a.Re.set(i, s.Re)
	}
	if a.Im != nil {
		a.Im.set(i, s.Im)
	}
	if a.Contest != nil || s.Contest != 0 {
		grow(&a.Contest, a.Len())[i] = s.Contest
	}
}

// grow makes a nil column of n zeros; others stay.
func grow[T any](column *[]T, n int) []T {
	if *column == nil {
		*column = make([]T, n)
	}
	return *column
}

func (p *Plane) at(i int) Num {
	x := Num{C: p.C[i]}
	if p.Lo != nil {
		x.Lo = p.Lo[i]
	}
	if p.E != nil {
		x.E = p.E[i]
	}
	if p.K != nil {
		x.K = p.K[i]
	}
	return x
}

func (p *Plane) set(i int, x Num) {
	p.C[i] = x.C
	if p.Lo != nil || x.Lo != 0 {
		grow(&p.Lo, len(p.C))[i] = x.Lo
	}
	if p.E != nil || x.E != 0 {
		grow(&p.E, len(p.C))[i] = x.E
	}
	if p.K != nil || x.K != 0 {
		grow(&p.K, len(p.C))[i] = x.K
	}
}

// Fill makes an array of the given type and dimensions whose elements all are s.
func Fill(s Scalar, t hlo.PrimitiveType, dims ...int64) *Array {
	one := NewArray(t)
	one.Set(0, s)
	r := NewArray(t, dims...)
	r.CopyStrided(0, 1, one, 0, 0, r.Len())
	return r
}

// Permute is the array of the given dimensions whose element i is a's element
// index[i], with all columns. len(index) is the product of dims.
func (a *Array) Permute(dims []int64, index []int32) *Array {
	r := &Array{Type: a.Type, Dims: slices.Clone(dims)}
	r.I, r.Undecided, r.Contest = pick(a.I, index), pick(a.Undecided, index), pick(a.Contest, index)
	r.Width = pick(a.Width, index)
	r.Re, r.Im = a.Re.permute(index), a.Im.permute(index)
	return r
}

func (p *Plane) permute(index []int32) *Plane {
	if p == nil {
		return nil
	}
	return &Plane{pick(p.C, index), pick(p.Lo, index), pick(p.E, index), pick(p.K, index)}
}

func pick[T any](column []T, index []int32) []T {
	if column == nil {
		return nil
	}
	r := make([]T, len(index))
	for i, j := range index {
		r[i] = column[j]
	}
	return r
}

// CopyStrided sets elements at, at+stride, ... of a to the n elements from,
// from+fromStride, ... of src (same type), with all columns. Strides may be
// zero or negative.
func (a *Array) CopyStrided(at, stride int, src *Array, from, fromStride, n int) {
	if n == 0 {
		return
	}
	size := a.Len()
	move(&a.I, src.I, size, at, stride, from, fromStride, n)
	move(&a.Undecided, src.Undecided, size, at, stride, from, fromStride, n)
	move(&a.Width, src.Width, size, at, stride, from, fromStride, n)
	move(&a.Contest, src.Contest, size, at, stride, from, fromStride, n)
	a.Re.copyStrided(at, stride, src.Re, from, fromStride, n)
	a.Im.copyStrided(at, stride, src.Im, from, fromStride, n)
}

func (p *Plane) copyStrided(at, stride int, src *Plane, from, fromStride, n int) {
	if p == nil {
		return
	}
	size := len(p.C)
	move(&p.C, src.C, size, at, stride, from, fromStride, n)
	move(&p.Lo, src.Lo, size, at, stride, from, fromStride, n)
	move(&p.E, src.E, size, at, stride, from, fromStride, n)
	move(&p.K, src.K, size, at, stride, from, fromStride, n)
}

func move[T any](column *[]T, src []T, size, at, stride, from, fromStride, n int) {
	if src == nil && *column == nil {
		return
	}
	dst := grow(column, size)
	switch {
	case src == nil:
		var zero T
		for ; n > 0; n-- {
			dst[at] = zero
			at += stride
		}
	case stride == 1 && fromStride == 1:
		copy(dst[at:at+n], src[from:from+n])
	default:
		for ; n > 0; n-- {
			dst[at] = src[from]
			at += stride
			from += fromStride
		}
	}
}
