package eval

import (
	"math"
	"math/cmplx"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// fft is the fast Fourier transform over the minor len(fft_length) dimensions
// (StableHLO fft). RFFT keeps the first n/2+1 entries of the minor dimension,
// IRFFT takes those and ignores the imaginary parts that a real result has
// none of; inverse transforms are scaled by the product of the lengths.
//
// Error bound: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd
// edition, theorem 24.2: an FFT of length 2^t has a relative error in the
// 2-norm of at most t*eta, eta = mu + gamma_4*(sqrt(2)+mu), with mu the error
// of the weights (about one ulp, so eta is at most 8u). A radix-p pass done as
// p naive dot products has at most gamma_(p+2)*sqrt(p) each for the real and
// the imaginary part; a prime done by Bluestein's algorithm is three
// transforms of length up to 4p, whose error is amplified by the ratio of the
// norms, at most sqrt(4)*2. No entry is further off than the 2-norm, which is
// sqrt(n)*norm(x). The error of an uncertain input enters every output with
// weight one.
func (n *Numerics) fft(in *hlo.Instruction, x *Array) (*Array, error) {
	kind := in.Attr.GetFftType()
	lengths := in.Attr.GetFftLength()
	rank := len(lengths)
	if rank == 0 || rank > len(x.Dims) {
		return nil, unsupported(in, "%d transform dimensions of an array of rank %d", rank, len(x.Dims))
	}
	total := int64(1)
	for _, l := range lengths {
		if l < 1 {
			return nil, unsupported(in, "fft_length %v", lengths)
		}
		total *= l
	}
	real32 := in.Shape.Type.Real()
	out := NewArray(in.Shape.Type, in.Shape.Dims...)
	if out.Len() == 0 {
		return out, nil
	}
	minor := lengths[rank-1]
	inMinor, outMinor := minor, minor
	switch kind {
	case hlopb.FftType_RFFT:
		outMinor = minor/2 + 1
	case hlopb.FftType_IRFFT:
		inMinor = minor/2 + 1
	}
	inverse := kind == hlopb.FftType_IFFT || kind == hlopb.FftType_IRFFT
	rows := int(total / minor)
	inSize, outSize := rows*int(inMinor), rows*int(outMinor)
	if x.Len()%inSize != 0 || out.Len()/outSize != x.Len()/inSize {
		return nil, unsupported(in, "fft_length %v of an operand of shape %v", lengths, x.Dims)
	}
	relative := fftFactor(lengths) * (unitRoundoff(real32) + unitRoundoff(hlo.F64))
	format := real32.Format()
	work := make([]complex128, total)
	for b := range x.Len() / inSize {
		var sum, square, uncertain float64
		var contest Contest
		usable := true
		for i := range inSize {
			s := x.At(b*inSize + i)
			c := complex(s.Re.C, s.Im.C)
			e := math.Hypot(s.Re.E+math.Abs(s.Re.Lo), s.Im.E+math.Abs(s.Im.Lo))
			if cmplx.IsNaN(c) || cmplx.IsInf(c) || math.IsInf(e, 0) || (s.Re.K|s.Im.K)&^AnyZeroSign != 0 {
				usable = false
			}
			// In IRFFT an entry may stand for its conjugate as well.
			twice := 1.0
			if kind == hlopb.FftType_IRFFT {
				twice = 2
			}
			a := cmplx.Abs(c) + e
			sum += twice * a
			square += twice * a * a
			uncertain += twice * e
			contest |= s.Contest
			work[i/int(inMinor)*int(minor)+i%int(inMinor)] = c
		}
		if n.Bounds && (!usable || sum > format.Max()/8) {
			for i := range outSize {
				s := undecidedScalar(out.Type)
				s.Contest = contest
				out.Set(b*outSize+i, s)
			}
			continue
		}
		transform(work, lengths, inverse, kind == hlopb.FftType_IRFFT)
		scale := 1.0
		if inverse {
			scale = 1 / float64(total)
		}
		bound := (relative*math.Sqrt(float64(total)*square) + uncertain) * scale * (1 + 1e-6)
		if sum > 0 { // flushed subnormals: at most a few per butterfly
			bound += 4 * fftFactor(lengths) * float64(total) * format.MinNormal()
		}
		for i := range outSize {
			v := work[i/int(outMinor)*int(minor)+i%int(outMinor)] * complex(scale, 0)
			s := Scalar{Re: n.approx(real32, real(v), bound), Contest: contest}
			if out.Im != nil {
				s.Im = n.approx(real32, imag(v), bound)
			}
			out.Set(b*outSize+i, s)
		}
	}
	return out, nil
}

// fftFactor is the sum of the per-pass constants, in units of u.
func fftFactor(lengths []int64) float64 {
	factor := 4.0 // scaling, splitting of real transforms
	for _, l := range lengths {
		for p := int64(2); l > 1; p++ {
			if p*p > l {
				p = l
			}
			for ; l%p == 0; l /= p {
				if p == 2 {
					factor += 8
					continue
				}
				naive := float64(p+6) * math.Sqrt(2*float64(p))
				bluestein := 4 * (3*8*math.Log2(4*float64(p)) + 16)
				factor += math.Min(naive, bluestein)
			}
		}
		factor += 4
	}
	return factor
}

// transform is the unscaled transform in place over all dimensions of work
// (row-major, sizes lengths). With half, only the first n/2+1 entries of each
// minor row are given, and the rest follows from Hermitian symmetry after the
// other dimensions have been transformed.
func transform(work []complex128, lengths []int64, inverse, half bool) {
	stride := 1
	for d := len(lengths) - 1; d >= 0; d-- {
		l := int(lengths[d])
		if d != len(lengths)-1 || !half {
			sweep(work, l, stride, inverse)
		}
		stride *= l
	}
	if !half {
		return
	}
	l := int(lengths[len(lengths)-1])
	for row := 0; row < len(work); row += l {
		r := work[row : row+l]
		r[0] = complex(real(r[0]), 0)
		for k := l/2 + 1; k < l; k++ {
			r[k] = cmplx.Conj(r[l-k])
		}
		if l%2 == 0 {
			r[l/2] = complex(real(r[l/2]), 0)
		}
	}
	sweep(work, l, 1, inverse)
}

// sweep transforms every line of length l and the given stride.
func sweep(work []complex128, l, stride int, inverse bool) {
	if l == 1 {
		return
	}
	roots := make([]complex128, l)
	for k := range roots {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(l))
		switch 8 * k / l * boolInt(8*k%l == 0) { // exact at multiples of a quarter turn
		case 2, 4, 6:
			sin, cos = math.Round(sin), math.Round(cos)
		}
		if !inverse {
			sin = -sin
		}
		roots[k] = complex(cos, sin)
	}
	line, buffer := make([]complex128, l), make([]complex128, l)
	for block := 0; block < len(work); block += l * stride {
		for at := block; at < block+stride; at++ {
			for k := range line {
				line[k] = work[at+k*stride]
			}
			mixedRadix(buffer, line, roots, 1)
			for k := range line {
				work[at+k*stride] = buffer[k]
			}
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mixedRadix writes the transform of in[0], in[step], in[2*step], ... to out,
// by decimation in time over the prime factors of len(out). roots are the
// powers of the root of unity of order len(roots) = step*len(out).
func mixedRadix(out, in, roots []complex128, step int) {
	l := len(out)
	if l == 1 {
		out[0] = in[0]
		return
	}
	p := 2
	for l%p != 0 {
		if p++; p*p > l {
			p = l
		}
	}
	m := l / p
	for r := range p {
		mixedRadix(out[r*m:(r+1)*m], in[r*step:], roots, step*p)
	}
	column := make([]complex128, p)
	for k := range m {
		for r := range p {
			column[r] = out[r*m+k]
		}
		for q := range p {
			var sum complex128
			for r, c := range column {
				sum += c * roots[r*(k+q*m)%l*step]
			}
			out[q*m+k] = sum
		}
	}
}
