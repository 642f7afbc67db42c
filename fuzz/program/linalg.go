package program

import "github.com/passgate/passgate/hlo"

// Positive is a symmetric positive definite matrix of n rows, well
// conditioned: (A + Aᵀ)/16 + 6·I of a matrix A whose elements are clamped to
// [-4, 4] needs n of at most 8.
func (b *Builder) Positive(t hlo.PrimitiveType, n int64) Value {
	x := b.Source(t, n, n)
	a := b.Clamp(b.Fill(x, -4), x, b.Fill(x, 4))
	s := b.Mul(b.Add(a, b.Transpose(a, 1, 0)), b.Splat(b.Number(t, 0.0625), n, n))
	return b.Add(s, b.Mul(b.Identity(t, n), b.Splat(b.Number(t, 6), n, n)))
}

// Identity is the identity matrix, made of iotas.
func (b *Builder) Identity(t hlo.PrimitiveType, n int64) Value {
	return b.Convert(b.Compare("EQ", b.Iota(hlo.S32, 0, n, n), b.Iota(hlo.S32, 1, n, n)), t)
}
