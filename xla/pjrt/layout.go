package pjrt

import (
	"fmt"
	"slices"
)

// RowMajor is the minor-to-major order n-1, ..., 0.
func RowMajor(rank int) []int64 {
	order := make([]int64, rank)
	for i := range order {
		order[i] = int64(rank - 1 - i)
	}
	return order
}

// isPermutation reports whether order holds each of 0, ..., rank-1 once.
func isPermutation(order []int64, rank int) bool {
	sorted := slices.Sorted(slices.Values(order))
	for i, d := range sorted {
		if d != int64(i) {
			return false
		}
	}
	return len(sorted) == rank
}

// InLayout brings a row-major array into the order, minor to major, in which a program reads it; nil is row-major.
func InLayout(primitive int32, dims, layout []int64, data []byte) ([]byte, error) {
	if layout == nil {
		return data, nil
	}
	if !isPermutation(layout, len(dims)) {
		return nil, fmt.Errorf("layout %v does not fit dimensions %v", layout, dims)
	}
	e, err := elementOf(primitive)
	if err != nil || slices.Equal(layout, RowMajor(len(dims))) {
		return data, err
	}
	return toLayout(data, e.bytes, dims, layout), nil
}

func elementCount(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// toLayout brings a row-major array of size-byte elements into the order minor-to-major; fromLayout is its inverse.
func toLayout(data []byte, size int, dims, order []int64) []byte {
	out := make([]byte, len(data))
	eachElement(dims, order, func(rowMajor, ordered int) {
		copy(out[ordered*size:(ordered+1)*size], data[rowMajor*size:])
	})
	return out
}

func fromLayout(data []byte, size int, dims, order []int64) []byte {
	out := make([]byte, len(data))
	eachElement(dims, order, func(rowMajor, ordered int) {
		copy(out[rowMajor*size:(rowMajor+1)*size], data[ordered*size:])
	})
	return out
}

// eachElement visits the elements with their positions in row-major order and in the given order.
func eachElement(dims, order []int64, f func(rowMajor, ordered int)) {
	strides := make([]int, len(dims))
	stride := 1
	for _, d := range order {
		strides[d] = stride
		stride *= int(dims[d])
	}
	index := make([]int64, len(dims))
	ordered := 0
	for i := range int(elementCount(dims)) {
		f(i, ordered)
		for d := len(dims) - 1; d >= 0; d-- {
			index[d]++
			ordered += strides[d]
			if index[d] < dims[d] {
				break
			}
			ordered -= strides[d] * int(dims[d])
			index[d] = 0
		}
	}
}
