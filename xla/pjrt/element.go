package pjrt

import "fmt"

// element relates the numbers of xla.PrimitiveType (xla/xla_data.proto) and PJRT_Buffer_Type (pjrt_c_api.h).
type element struct {
	primitive, buffer int32
	bytes             int // host bytes per element; types of fewer than 8 bits take one
	since             int // minor version of the C API that added the type (xla/pjrt/c/CHANGELOG.md), 0 if before MinMinor
}

var elements = []element{
	{1, 1, 1, 0}, {2, 2, 1, 0}, {3, 3, 2, 0}, {4, 4, 4, 0}, {5, 5, 8, 0}, {6, 6, 1, 0}, {7, 7, 2, 0}, {8, 8, 4, 0}, {9, 9, 8, 0}, // PRED, S8..S64, U8..U64
	{10, 10, 2, 0}, {11, 11, 4, 0}, {12, 12, 8, 0}, {16, 13, 2, 0}, {15, 14, 8, 0}, {18, 15, 16, 0}, // F16, F32, F64, BF16, C64, C128
	{19, 16, 1, 0}, {20, 17, 1, 0}, {23, 18, 1, 0}, {24, 19, 1, 0}, {25, 20, 1, 0}, // F8E5M2, F8E4M3FN, F8E4M3B11FNUZ, F8E5M2FNUZ, F8E4M3FNUZ
	{21, 21, 1, 0}, {22, 22, 1, 0}, {26, 24, 1, 0}, {27, 25, 1, 0}, // S4, U4, S2, U2
	{28, 26, 1, 0}, {29, 27, 1, 0}, {33, 28, 1, 0}, {32, 29, 1, 0}, // F8E4M3, F8E3M4, F8E8M0FNU, F4E2M1FN
	{30, 30, 1, 94}, {31, 31, 1, 94}, {36, 32, 1, 114}, {35, 33, 1, 114}, // S1, U1, F6E2M3FN, F6E3M2FN
	{17, 23, 0, 0}, // TOKEN
}

func elementOf(primitive int32) (element, error) {
	for _, e := range elements {
		if e.primitive == primitive {
			return e, nil
		}
	}
	return element{}, fmt.Errorf("primitive type %d has no PJRT buffer type", primitive)
}

func elementOfBuffer(buffer int32) (element, error) {
	for _, e := range elements {
		if e.buffer == buffer {
			return e, nil
		}
	}
	return element{}, fmt.Errorf("unknown PJRT buffer type %d", buffer)
}

// ByteSize is the number of host bytes of a dense array: the xla.PrimitiveType wire number and the sizes of its
// dimensions. It fails for types without a host form, negative sizes and sizes beyond 2^40 bytes.
func ByteSize(primitive int32, dims []int64) (int64, error) {
	e, err := elementOf(primitive)
	if err != nil {
		return 0, err
	}
	const limit = int64(1) << 40
	n := int64(e.bytes)
	for _, d := range dims {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension %d", d)
		}
		if d == 0 {
			n = 0
		}
	}
	for _, d := range dims {
		if n != 0 && d > limit/n {
			return 0, fmt.Errorf("array of %v elements of type %d is too large", dims, primitive)
		}
		n *= d
	}
	return n, nil
}
