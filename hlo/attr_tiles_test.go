package hlo

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// genIota draws an assignment in iota form of up to 2^8 devices.
func genIota(t *rapid.T) tiles {
	sizes := func(what string, factors []int64) []int64 {
		// Groups of neighbouring factors are the dimensions.
		dims := []int64{1}
		for _, f := range factors {
			if rapid.Bool().Draw(t, what) {
				dims = append(dims, 1)
			}
			dims[len(dims)-1] *= f
		}
		return dims
	}
	factors := rapid.SliceOfN(rapid.SampledFrom([]int64{1, 2, 2, 3}), 1, 6).Draw(t, "factors")
	reshape := sizes("reshape", rapid.Permutation(factors).Draw(t, "order"))
	perm := make([]int, len(reshape))
	for i := range perm {
		perm[i] = i
	}
	return iotaTiles(sizes("dims", factors), reshape, rapid.Permutation(perm).Draw(t, "perm"))
}

// TestTiles: the iota forms are the lists that the same steps give.
func TestTiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		iota := genIota(t)
		list := iota.list()
		if got := slices.Sorted(slices.Values(list.devices)); int64(len(got)) != product(iota.dims) || got[0] != 0 || got[len(got)-1] != int64(len(got)-1) {
			t.Fatalf("%v lists %v", iota, list.devices)
		}
		perm := make([]int, len(iota.dims))
		for i := range perm {
			perm[i] = i
		}
		perm = rapid.Permutation(perm).Draw(t, "transposition")
		a, b := iota.transposed(perm).list(), list.transposed(perm)
		if !slices.Equal(a.devices, b.devices) || !slices.Equal(a.dims, b.dims) {
			t.Fatalf("%v transposed by %v is %v, want %v", iota, perm, a, b)
		}
		if a, b := iota.sorted().list(), list.sorted(); !slices.Equal(a.devices, b.devices) {
			t.Fatalf("%v sorted is %v, want %v", iota, a.devices, b.devices)
		}
		// The form is the shortest: neighbours are merged, sizes above 1.
		for i, d := range iota.reshape {
			if d == 1 && len(iota.reshape) > 1 || i > 0 && iota.perm[i] == iota.perm[i-1]+1 {
				t.Fatalf("%v is no normal form", iota)
			}
		}
	})
}
