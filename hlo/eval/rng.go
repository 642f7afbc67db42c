package eval

import (
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Bit generators, as XLA's expander builds them from plain operations
// (xla/hlo/transforms/expanders/rng_bit_generator_expander.cc with
// xla/hlo/builder/lib/prng.cc): every implementation has to give these bits.
// The algorithms are those of Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3" (SC 2011).

// rngBitGenerator is (new state, bits) from state: u64[2] or, for Philox,
// also u64[3]. Narrow types take the low bits of one 32-bit word per element.
// The default algorithm is the implementation's choice: all is undecided.
func rngBitGenerator(in *hlo.Instruction, state *Array) (*Value, error) {
	if !in.Shape.IsTuple() { // a TPU's own form, seen in libtpu's dumps
		return nil, unsupported(in, "bits without a state")
	}
	algorithm := in.Attr.GetRngAlgorithm()
	bits := in.Shape.Elements[1]
	if algorithm == hlopb.RandomAlgorithm_RNG_DEFAULT || state.anyUndecided() {
		return undecidedValue(in.Shape, Implementation), nil
	}
	words := len(state.I)
	if state.Type != hlo.U64 || words < 2 || words > 3 || words == 3 && algorithm == hlopb.RandomAlgorithm_RNG_THREE_FRY {
		return nil, unsupported(in, "state of type %v with %d words", state.Type, words)
	}
	if !bits.Type.IsInteger() {
		return nil, unsupported(in, "bits of type %v", bits.Type)
	}
	out := NewArray(bits.Type, bits.Dims...)
	next := state.Clone()
	switch algorithm {
	case hlopb.RandomAlgorithm_RNG_THREE_FRY:
		next.I[1] += threeFryFill(out, uint64(state.I[0]), uint64(state.I[1]))
	case hlopb.RandomAlgorithm_RNG_PHILOX:
		// The counter is 128 bits. A state of two words has the key as its
		// high half, and only its low half goes on.
		low, high := uint64(state.I[1]), uint64(state.I[0])
		if words == 3 {
			high = uint64(state.I[2])
		}
		n := philoxFill(out, uint64(state.I[0]), low, high)
		next.I[1] = int64(low + n)
		if words == 3 && low+n < low {
			next.I[2]++
		}
	default:
		return nil, unsupported(in, "algorithm %v", algorithm)
	}
	return &Value{Elements: []*Value{{Array: next}, {Array: out}}}, nil
}

// threeFryFill fills out and returns how far the counter moves.
func threeFryFill(out *Array, key, counter uint64) int64 {
	n := int64(out.Len())
	if out.Type.Bits() == 64 {
		for i := range out.I {
			x0, x1 := threeFry2x32(key, counter+uint64(i))
			out.I[i] = int64(uint64(x1)<<32 | uint64(x0))
		}
		return n
	}
	if len(out.Dims) == 0 {
		x0, _ := threeFry2x32(key, counter)
		out.I[0] = out.Type.Canonical(int64(x0))
		return 1
	}
	// One call gives two words. The array is split in halves along the first
	// even dimension, or the first of the largest; the two words of a call go
	// to neighbours along that dimension (an odd one wastes the last word).
	split := -1
	for d, size := range out.Dims {
		if size%2 == 0 {
			split = d
			break
		}
		if split < 0 || size > out.Dims[split] {
			split = d
		}
	}
	inner := int64(1)
	for _, size := range out.Dims[split+1:] {
		inner *= size
	}
	size := out.Dims[split]
	half := (size + 1) / 2
	outer := int64(1)
	for _, d := range out.Dims[:split] {
		outer *= d
	}
	for o := range outer {
		for h := range half {
			for i := range inner {
				x0, x1 := threeFry2x32(key, counter+uint64((o*half+h)*inner+i))
				at := (o*size+2*h)*inner + i
				out.I[at] = out.Type.Canonical(int64(x0))
				if 2*h+1 < size {
					out.I[at+inner] = out.Type.Canonical(int64(x1))
				}
			}
		}
	}
	return outer * half * inner
}

// threeFry2x32 is one block of Threefry-2x32-20; the low word of the counter
// and of the key comes first.
func threeFry2x32(key, counter uint64) (uint32, uint32) {
	ks := [3]uint32{uint32(key), uint32(key >> 32), 0}
	ks[2] = 0x1BD11BDA ^ ks[0] ^ ks[1]
	rotations := [2][4]uint{{13, 15, 26, 6}, {17, 29, 16, 24}}
	x0, x1 := uint32(counter)+ks[0], uint32(counter>>32)+ks[1]
	for group := range uint32(5) {
		for _, r := range rotations[group%2] {
			x0 += x1
			x1 = x1<<r | x1>>(32-r)
			x1 ^= x0
		}
		x0 += ks[(group+1)%3]
		x1 += ks[(group+2)%3] + group + 1
	}
	return x0, x1
}

// philoxFill fills out and returns how far the counter moves: one block of
// four words per step.
func philoxFill(out *Array, key, low, high uint64) uint64 {
	perBlock := 4
	if out.Type.Bits() == 64 {
		perBlock = 2
	}
	var block [4]uint32
	for i := range out.I {
		if i%perBlock == 0 {
			step := uint64(i / perBlock)
			carry := high
			if low+step < low {
				carry++
			}
			block = philox4x32(key, low+step, carry)
		}
		if perBlock == 2 {
			w := 2 * (i % 2)
			out.I[i] = int64(uint64(block[w+1])<<32 | uint64(block[w]))
		} else {
			out.I[i] = out.Type.Canonical(int64(block[i%4]))
		}
	}
	return uint64((len(out.I) + perBlock - 1) / perBlock)
}

// philox4x32 is one block of Philox-4x32-10.
func philox4x32(key, low, high uint64) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	x := [4]uint32{uint32(low), uint32(low >> 32), uint32(high), uint32(high >> 32)}
	for range 10 {
		p0, p1 := uint64(x[0])*0xD2511F53, uint64(x[2])*0xCD9E8D57
		x = [4]uint32{uint32(p1>>32) ^ x[1] ^ k0, uint32(p1), uint32(p0>>32) ^ x[3] ^ k1, uint32(p0)}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return x
}
