package eval

import (
	"context"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// evalOne evaluates a single instruction in bound mode.
func evalOne(t testing.TB, in *hlo.Instruction, args ...*Array) *Value {
	t.Helper()
	e := NewEvaluator(context.Background(), Options{Bounds: true})
	vs := make([]*Value, len(args))
	for i, a := range args {
		vs[i] = arrayValue(a)
		in.Operands = append(in.Operands, hlo.NewInstruction("p"+strconv.Itoa(i), hlo.OpParameter, hlo.ArrayShape(a.Type, a.Dims...)))
	}
	v, err := e.instruction(in, vs, nil)
	if err != nil {
		t.Fatalf("%v: %v", in.Op, err)
	}
	return v
}

func instruction(op hlo.Opcode, shape *hlo.Shape, attr *hlopb.HloInstructionProto) *hlo.Instruction {
	in := hlo.NewInstruction("x", op, shape)
	if attr != nil {
		in.Attr = attr
	}
	return in
}

// randomArray has entries uniform in [-1, 1), rounded to the type.
func randomArray(r *rand.Rand, t hlo.PrimitiveType, dims ...int64) *Array {
	a := NewArray(t, dims...)
	f := t.Real().Format()
	for _, p := range []*Plane{a.Re, a.Im} {
		if p != nil {
			for i := range p.C {
				p.C[i] = f.Round(2*r.Float64() - 1)
			}
		}
	}
	return a
}

// legal fails unless got lies in element i's legal set; off must not.
func legal(t interface{ Fatalf(string, ...any) }, a *Array, i int, got complex128) {
	s := Scalar{Re: Num{C: real(got)}, Im: Num{C: imag(got)}}
	if a.Legal(i, s) != In {
		t.Fatalf("element %d: %v is not in %s", i, got, a.LegalSet(i))
	}
}

func TestGeneratorsKnownAnswers(t *testing.T) {
	// kat_vectors of Random123.
	for _, c := range []struct {
		key, counter uint64
		x0, x1       uint32
	}{
		{0, 0, 0x6b200159, 0x99ba4efe},
		{1<<64 - 1, 1<<64 - 1, 0x1cb996fc, 0xbb002be7},
		{0x0370734413198a2e, 0x85a308d3243f6a88, 0xc4923a9c, 0x483df7a0},
	} {
		if x0, x1 := threeFry2x32(c.key, c.counter); x0 != c.x0 || x1 != c.x1 {
			t.Errorf("threeFry2x32(%#x, %#x) = %#x, %#x, want %#x, %#x", c.key, c.counter, x0, x1, c.x0, c.x1)
		}
	}
	for _, c := range []struct {
		key, low, high uint64
		want           [4]uint32
	}{
		{0, 0, 0, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{1<<64 - 1, 1<<64 - 1, 1<<64 - 1, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox4x32(c.key, c.low, c.high); got != c.want {
			t.Errorf("philox4x32(%#x, %#x, %#x) = %#x, want %#x", c.key, c.low, c.high, got, c.want)
		}
	}
}

func TestBitGenerator(t *testing.T) {
	for _, c := range []struct {
		algorithm   hlopb.RandomAlgorithm
		state, next []int64
		t           hlo.PrimitiveType
		dims        []int64
		first       uint64
	}{
		{hlopb.RandomAlgorithm_RNG_THREE_FRY, []int64{0, 0}, []int64{0, 2}, hlo.U32, []int64{4}, 0x6b200159},
		{hlopb.RandomAlgorithm_RNG_THREE_FRY, []int64{0, 0}, []int64{0, 6}, hlo.U32, []int64{3, 3}, 0x6b200159},
		{hlopb.RandomAlgorithm_RNG_THREE_FRY, []int64{0, 0}, []int64{0, 1}, hlo.U32, nil, 0x6b200159},
		{hlopb.RandomAlgorithm_RNG_THREE_FRY, []int64{0, 0}, []int64{0, 3}, hlo.U64, []int64{3}, 0x99ba4efe6b200159},
		{hlopb.RandomAlgorithm_RNG_THREE_FRY, []int64{0, 0}, []int64{0, 1}, hlo.U8, []int64{2}, 0x59},
		{hlopb.RandomAlgorithm_RNG_PHILOX, []int64{0, 0, 0}, []int64{0, 2, 0}, hlo.U32, []int64{5}, 0x6627e8d5},
		{hlopb.RandomAlgorithm_RNG_PHILOX, []int64{0, -1, 7}, []int64{0, 0, 8}, hlo.U32, []int64{4}, 0x3e3ae2d2},
		{hlopb.RandomAlgorithm_RNG_PHILOX, []int64{0, 0}, []int64{0, 2}, hlo.U64, []int64{3}, 0xe169c58d6627e8d5},
	} {
		state := NewArray(hlo.U64, int64(len(c.state)))
		copy(state.I, c.state)
		shape := hlo.TupleShape(hlo.ArrayShape(hlo.U64, int64(len(c.state))), hlo.ArrayShape(c.t, c.dims...))
		v := evalOne(t, instruction(hlo.OpRngBitGenerator, shape, &hlopb.HloInstructionProto{RngAlgorithm: c.algorithm}), state)
		next, bits := v.Elements[0].Array, v.Elements[1].Array
		if !slices.Equal(next.I, c.next) {
			t.Errorf("%v %v%v: state %v becomes %v, want %v", c.algorithm, c.t, c.dims, c.state, next.I, c.next)
		}
		if c.state[0] == 0 && c.state[1] == 0 && uint64(bits.I[0]) != c.first {
			t.Errorf("%v %v%v: first bits %#x, want %#x", c.algorithm, c.t, c.dims, bits.I[0], c.first)
		}
	}
	v := evalOne(t, instruction(hlo.OpRngBitGenerator, hlo.TupleShape(hlo.ArrayShape(hlo.U64, 2), hlo.ArrayShape(hlo.U32, 2)), nil), NewArray(hlo.U64, 2))
	if !v.Elements[1].Array.Undecided[0] || v.Elements[1].Array.Contest[0] != Implementation {
		t.Error("bits of the default algorithm are decided")
	}
}

// single-precision transforms, as an implementation may do them.
func fft32(x []complex64, inverse bool) []complex64 {
	n := len(x)
	sign := -1.0
	if inverse {
		sign = 1
	}
	root := func(k, n int) complex64 {
		return complex64(cmplx.Exp(complex(0, sign*2*math.Pi*float64(k)/float64(n))))
	}
	out := make([]complex64, n)
	if n%2 != 0 || n == 1 {
		for k := range out {
			for j, v := range x {
				out[k] += v * root(j*k%n, n)
			}
		}
		return out
	}
	even, odd := make([]complex64, n/2), make([]complex64, n/2)
	for i := range even {
		even[i], odd[i] = x[2*i], x[2*i+1]
	}
	even, odd = fft32(even, inverse), fft32(odd, inverse)
	for k := range even {
		w := root(k, n) * odd[k]
		out[k], out[k+n/2] = even[k]+w, even[k]-w
	}
	return out
}

func TestFft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 70).Draw(t, "n")
		inverse := rapid.Bool().Draw(t, "inverse")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x := randomArray(r, hlo.C64, 2, int64(n))
		kind := hlopb.FftType_FFT
		if inverse {
			kind = hlopb.FftType_IFFT
		}
		y, err := (&Numerics{Bounds: true}).fft(instruction(hlo.OpFft, hlo.ArrayShape(hlo.C64, 2, int64(n)),
			&hlopb.HloInstructionProto{FftType: kind, FftLength: []int64{int64(n)}}), x)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for b := range 2 {
			row := make([]complex64, n)
			for i := range row {
				row[i] = complex64(complex(x.Re.C[b*n+i], x.Im.C[b*n+i]))
			}
			for i, got := range fft32(row, inverse) {
				if inverse {
					got /= complex(float32(n), 0)
				}
				legal(t, y, b*n+i, complex128(got))
				if wrong := complex128(got) + 0.01; y.Legal(b*n+i, Scalar{Re: Num{C: real(wrong)}, Im: Num{C: imag(wrong)}}) != Out {
					t.Fatalf("n=%d: an error of 0.01 is in %s", n, y.LegalSet(b*n+i))
				}
			}
		}
	})
}

func TestRealFft(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dims := range [][]int64{{8}, {9}, {1}, {2, 5}, {4, 6}, {3, 2, 4}} {
		x := randomArray(r, hlo.F32, append([]int64{2}, dims...)...)
		half := slices.Clone(x.Dims)
		half[len(half)-1] = dims[len(dims)-1]/2 + 1
		y := evalOne(t, instruction(hlo.OpFft, hlo.ArrayShape(hlo.C64, half...), &hlopb.HloInstructionProto{FftType: hlopb.FftType_RFFT, FftLength: dims}), x).Array
		back := evalOne(t, instruction(hlo.OpFft, hlo.ArrayShape(hlo.F32, x.Dims...), &hlopb.HloInstructionProto{FftType: hlopb.FftType_IRFFT, FftLength: dims}), y).Array
		sum := 0.0
		for i := range x.Len() {
			legal(t, back, i, complex(x.Re.C[i], 0))
			if math.Abs(back.Re.C[i]-x.Re.C[i]) > 1e-12 {
				t.Errorf("%v: element %d comes back as %v, was %v", dims, i, back.Re.C[i], x.Re.C[i])
			}
			if i < x.Len()/2 {
				sum += x.Re.C[i]
			}
		}
		if math.Abs(y.Re.C[0]-sum) > 1e-12 || math.Abs(y.Im.C[0]) > 1e-12 {
			t.Errorf("%v: entry zero is %v%+vi, want the sum %v", dims, y.Re.C[0], y.Im.C[0], sum)
		}
	}
	// An imaginary part that no real result has does not count.
	x := NewArray(hlo.C64, 3)
	x.Re.C[0], x.Im.C[0], x.Im.C[2] = 4, 5, 6
	y := evalOne(t, instruction(hlo.OpFft, hlo.ArrayShape(hlo.F32, 4), &hlopb.HloInstructionProto{FftType: hlopb.FftType_IRFFT, FftLength: []int64{4}}), x).Array
	for i := range 4 {
		legal(t, y, i, 1)
	}
}

func TestFftOfNaNIsUndecided(t *testing.T) {
	x := NewArray(hlo.C64, 2, 4)
	x.Re.C[1] = math.NaN()
	y := evalOne(t, instruction(hlo.OpFft, hlo.ArrayShape(hlo.C64, 2, 4), &hlopb.HloInstructionProto{FftLength: []int64{4}}), x).Array
	if y.Legal(0, Scalar{}) != Undecided || y.Legal(4, Scalar{Re: Num{C: 1}}) != Out {
		t.Errorf("with a NaN in the first row: %s, %s", y.LegalSet(0), y.LegalSet(4))
	}
}

// solve32 solves l*x = b (lower) by forward substitution in single precision.
func solve32(l []float32, n int, b []float32) []float32 {
	x := slices.Clone(b)
	for i := range n {
		for k := range i {
			x[i] -= l[i*n+k] * x[k]
		}
		x[i] /= l[i*n+i]
	}
	return x
}

func TestTriangularSolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 24).Draw(t, "n")
		o := solveOptions{
			left: rapid.Bool().Draw(t, "left"), lower: rapid.Bool().Draw(t, "lower"), unit: rapid.Bool().Draw(t, "unit"),
			transpose: rapid.Bool().Draw(t, "transpose"),
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		a := randomArray(r, hlo.F32, 1, int64(n), int64(n))
		for i := range n {
			a.Re.C[i*n+i] = float64(float32(1 + r.Float64()))
			for j := range n {
				if i != j {
					a.Re.C[i*n+j] /= 4
				}
			}
		}
		b := randomArray(r, hlo.F32, 1, int64(n), 1)
		if !o.left {
			b = b.Reshape(1, 1, int64(n))
		}
		x := (&Numerics{Bounds: true}).triangularSolve(a, b, o)
		// The same system as a lower one: transpose, and reverse the order.
		l, c := make([]float32, n*n), make([]float32, n)
		lower := o.lower != (o.transpose != !o.left)
		index := func(i int) int {
			if lower {
				return i
			}
			return n - 1 - i
		}
		for i := range n {
			for j := range i + 1 {
				p, q := index(i), index(j)
				if o.transpose != !o.left {
					p, q = q, p
				}
				l[i*n+j] = float32(a.Re.C[p*n+q])
			}
			if o.unit {
				l[i*n+i] = 1
			}
			c[i] = float32(b.Re.C[index(i)])
		}
		direct := solve32(l, n, c)
		// By the inverse.
		product := make([]float32, n)
		for j := range n {
			unit := make([]float32, n)
			unit[j] = 1
			for i, v := range solve32(l, n, unit) {
				product[i] += v * c[j]
			}
		}
		for i := range n {
			legal(t, x, index(i), complex(float64(direct[i]), 0))
			legal(t, x, index(i), complex(float64(product[i]), 0))
			if w := float64(direct[i]) + 0.01; x.Legal(index(i), Scalar{Re: Num{C: w}}) != Out {
				t.Fatalf("an error of 0.01 is in %s", x.LegalSet(index(i)))
			}
		}
	})
}

func TestTriangularSolveReadsOneTriangle(t *testing.T) {
	a := NewArray(hlo.C64, 2, 2)
	a.Re.C = []float64{2, math.NaN(), 0, 4}
	a.Im.C = []float64{0, 0, 1, 0}
	b := NewArray(hlo.C64, 2, 1)
	b.Re.C = []float64{2, 8}
	// [2 0; i 4]^H = [2 -i; 0 4]: x1 = 2, x0 = (2 + 2i)/2.
	x := (&Numerics{Bounds: true}).triangularSolve(a, b, solveOptions{left: true, lower: true, transpose: true, conjugate: true})
	legal(t, x, 0, 1+1i)
	legal(t, x, 1, 2)
	// Singular: undecided.
	a.Re.C[0] = 0
	x = (&Numerics{Bounds: true}).triangularSolve(a, b, solveOptions{left: true, lower: true})
	if x.Legal(0, Scalar{}) != Undecided {
		t.Errorf("solution of a singular system: %s", x.LegalSet(0))
	}
}

func TestCholesky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		lower := rapid.Bool().Draw(t, "lower")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		g := randomArray(r, hlo.F32, int64(n), int64(n))
		a := NewArray(hlo.F32, int64(n), int64(n))
		for i := range n {
			for j := range n {
				for k := range n {
					a.Re.C[i*n+j] += g.Re.C[i*n+k] * g.Re.C[j*n+k]
				}
				if i == j {
					a.Re.C[i*n+j]++
				}
				a.Re.C[i*n+j] = float64(float32(a.Re.C[i*n+j]))
			}
		}
		got := (&Numerics{Bounds: true}).cholesky(a, lower)
		l := make([]float32, n*n)
		for j := range n {
			for i := j; i < n; i++ {
				s := float32(a.Re.C[i*n+j])
				for k := range j {
					s -= l[i*n+k] * l[j*n+k]
				}
				if i == j {
					l[i*n+j] = float32(math.Sqrt(float64(s)))
				} else {
					l[i*n+j] = s / l[j*n+j]
				}
				at := i*n + j
				if !lower {
					at = j*n + i
				}
				legal(t, got, at, complex(float64(l[i*n+j]), 0))
				if w := float64(l[i*n+j]) + 0.01; got.Legal(at, Scalar{Re: Num{C: w}}) != Out {
					t.Fatalf("an error of 0.01 is in %s", got.LegalSet(at))
				}
			}
		}
	})
	bad := NewArray(hlo.F32, 1, 1)
	bad.Re.C[0] = -1
	if got := (&Numerics{Bounds: true}).cholesky(bad, true); got.Legal(0, Scalar{}) != Undecided {
		t.Errorf("factor of a negative matrix: %s", got.LegalSet(0))
	}
}

func TestBatchNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := randomArray(r, hlo.F32, 4, 3, 2)
	scale, offset := randomArray(r, hlo.F32, 3), randomArray(r, hlo.F32, 3)
	vector := hlo.ArrayShape(hlo.F32, 3)
	attr := &hlopb.HloInstructionProto{Epsilon: 0.125, FeatureIndex: 1}
	train := evalOne(t, instruction(hlo.OpBatchNormTraining, hlo.TupleShape(hlo.ArrayShape(hlo.F32, 4, 3, 2), vector, vector), attr), x, scale, offset)
	y, mean, variance := train.Elements[0].Array, train.Elements[1].Array, train.Elements[2].Array
	var m, v [3]float32
	for i, c := range x.Re.C {
		m[i/2%3] += float32(c) / 8
	}
	for i, c := range x.Re.C {
		d := float32(c) - m[i/2%3]
		v[i/2%3] += d * d / 8
	}
	want := make([]float64, x.Len())
	for i, c := range x.Re.C {
		f := i / 2 % 3
		want[i] = float64((float32(c)-m[f])/float32(math.Sqrt(float64(v[f]+0.125)))*float32(scale.Re.C[f]) + float32(offset.Re.C[f]))
		legal(t, y, i, complex(want[i], 0))
		if y.Legal(i, Scalar{Re: Num{C: want[i] + 1e-3}}) != Out {
			t.Errorf("an error of 1e-3 is in %s", y.LegalSet(i))
		}
	}
	for f := range 3 {
		legal(t, mean, f, complex(float64(m[f]), 0))
		legal(t, variance, f, complex(float64(v[f]), 0))
	}
	z := evalOne(t, instruction(hlo.OpBatchNormInference, hlo.ArrayShape(hlo.F32, 4, 3, 2), attr), x, scale, offset, mean, variance).Array
	for i := range want {
		legal(t, z, i, complex(want[i], 0))
	}

	// The gradient against differences of a loss sum(y*g), in exact mode f64.
	x, scale, offset = randomArray(r, hlo.F64, 4, 3, 2), randomArray(r, hlo.F64, 3), randomArray(r, hlo.F64, 3)
	g := randomArray(r, hlo.F64, 4, 3, 2)
	vector = hlo.ArrayShape(hlo.F64, 3)
	full := hlo.TupleShape(hlo.ArrayShape(hlo.F64, 4, 3, 2), vector, vector)
	loss := func() (float64, *Array, *Array) {
		v := evalOne(t, instruction(hlo.OpBatchNormTraining, full, attr), x, scale, offset)
		sum := 0.0
		for i, c := range v.Elements[0].Array.Re.C {
			sum += c * g.Re.C[i]
		}
		return sum, v.Elements[1].Array, v.Elements[2].Array
	}
	_, mean, variance = loss()
	grad := evalOne(t, instruction(hlo.OpBatchNormGrad, full, attr), x, scale, mean, variance, g)
	for k, p := range []*Array{x, scale, offset} {
		got := grad.Elements[k].Array
		for i := range p.Len() {
			old := p.Re.C[i]
			p.Re.C[i] = old + 1e-5
			high, _, _ := loss()
			p.Re.C[i] = old - 1e-5
			low, _, _ := loss()
			p.Re.C[i] = old
			if d := (high - low) / 2e-5; math.Abs(d-got.Re.C[i]) > 1e-6 {
				t.Errorf("gradient %d, element %d: %v, differences give %v", k, i, got.Re.C[i], d)
			}
		}
	}
}
