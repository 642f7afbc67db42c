package hlo

import (
	"slices"

	"github.com/passgate/passgate/hlo/hlopb"
)

// tiles is an assignment of devices to the tiles of an array: dims is the
// shape of the array of tiles, in row-major order.
//
// Either devices lists the devices, or they are the numbers 0, 1, 2, ...,
// reshaped to reshape and transposed by perm (xla/hlo/ir/tile_assignment.h).
// All sizes are at least 1.
type tiles struct {
	dims    []int64
	devices []int64
	reshape []int64
	perm    []int
}

// iotaTiles is an assignment in iota form, with the fewest dimensions
// (CanonicalizeIotaDims, xla/hlo/ir/tile_assignment.cc). perm is a permutation.
func iotaTiles(dims, reshape []int64, perm []int) tiles {
	reshape, perm = slices.Clone(reshape), slices.Clone(perm)
	for len(reshape) > 1 {
		// Without dimensions of size 1 ...
		number := make([]int, len(reshape)) // new number of a dimension
		n := 0
		for i, d := range reshape {
			number[i] = -1
			if d != 1 {
				number[i] = n
				reshape[n] = d
				n++
			}
		}
		reshape = reshape[:n]
		kept := perm[:0]
		for _, d := range perm {
			if number[d] >= 0 {
				kept = append(kept, number[d])
			}
		}
		perm = kept
		// ... neighbours that stay neighbours are one dimension.
		merged := false
		base := 0
		for i := 1; i < n; i++ {
			if perm[base]+i-base != perm[i] {
				base = i
				continue
			}
			reshape[perm[base]] *= reshape[perm[i]]
			reshape[perm[i]] = 1
			merged = true
		}
		if !merged {
			break
		}
	}
	if len(reshape) == 0 {
		reshape, perm = []int64{1}, []int{0}
	}
	return tiles{dims: dims, reshape: reshape, perm: perm}
}

func product(v []int64) int64 {
	return (&Shape{Type: Pred, Dims: v}).Elems()
}

// list is the assignment with its devices listed.
func (t tiles) list() tiles {
	if t.devices != nil {
		return t
	}
	src := make([]int64, len(t.perm)) // dimensions after the transposition
	stride := make([]int64, len(t.perm))
	acc := int64(1)
	own := make([]int64, len(t.reshape))
	for i := len(t.reshape) - 1; i >= 0; i-- {
		own[i] = acc
		acc *= t.reshape[i]
	}
	for i, d := range t.perm {
		src[i], stride[i] = t.reshape[d], own[d]
	}
	return tiles{dims: t.dims, devices: walk(src, stride, func(i int64) int64 { return i })}
}

// walk visits the positions of an array in row-major order and collects the
// value at each one's offset.
func walk(dims, stride []int64, at func(offset int64) int64) []int64 {
	out := make([]int64, 0, product(dims))
	index := make([]int64, len(dims))
	offset := int64(0)
	for {
		out = append(out, at(offset))
		d := len(dims) - 1
		for ; d >= 0; d-- {
			index[d]++
			offset += stride[d]
			if index[d] < dims[d] {
				break
			}
			offset -= stride[d] * dims[d]
			index[d] = 0
		}
		if d < 0 {
			return out
		}
	}
}

// transposed is the assignment with its dimensions permuted: dimension i is
// dimension perm[i] of t.
func (t tiles) transposed(perm []int) tiles {
	if t.devices == nil {
		if r, ok := t.transposedIota(perm); ok {
			return r
		}
		t = t.list()
	}
	dims, stride := make([]int64, len(perm)), make([]int64, len(perm))
	own := make([]int64, len(t.dims))
	acc := int64(1)
	for i := len(t.dims) - 1; i >= 0; i-- {
		own[i] = acc
		acc *= t.dims[i]
	}
	for i, d := range perm {
		dims[i], stride[i] = t.dims[d], own[d]
	}
	return tiles{dims: dims, devices: walk(dims, stride, func(i int64) int64 { return t.devices[i] })}
}

// transposedIota is transposed in iota form; not every assignment has one
// (IotaTileAssignment::Transpose).
func (t tiles) transposedIota(perm []int) (tiles, bool) {
	dims := make([]int64, len(perm))
	for i, d := range perm {
		dims[i] = t.dims[d]
	}
	moved, last := false, -1
	for _, d := range perm {
		if t.dims[d] == 1 {
			continue
		}
		if d <= last {
			moved = true
		}
		last = d
	}
	if !moved { // only dimensions of size 1 change places
		return iotaTiles(dims, t.reshape, t.perm), true
	}
	if len(t.reshape) == 1 {
		return iotaTiles(dims, t.dims, perm), true
	}
	// Split the reshape dimensions into their prime factors, in the order of
	// the transposed array, and group them into the dimensions of the tiles.
	type factor struct {
		size int64
		of   int // reshape dimension
		id   int // number in row-major order before the transposition
	}
	first := make([]int, len(t.reshape)+1)
	var primes [][]int64
	for i, d := range t.reshape {
		primes = append(primes, primeFactors(d))
		first[i+1] = first[i] + len(primes[i])
	}
	var fs []factor
	sizes := make([]int64, first[len(t.reshape)])
	for _, d := range t.perm {
		for j, p := range primes[d] {
			fs = append(fs, factor{p, d, first[d] + j})
		}
	}
	groups := make([][]int, len(t.dims))
	next := 0
	for i, target := range t.dims {
		for target != 1 {
			if next == len(fs) {
				return tiles{}, false
			}
			// A later factor of the same dimension may come first.
			j := next
			for j < len(fs) && fs[j].of == fs[next].of && target%fs[j].size != 0 {
				j++
			}
			if j == len(fs) || fs[j].of != fs[next].of {
				return tiles{}, false
			}
			fs[j].size, fs[next].size = fs[next].size, fs[j].size
			target /= fs[next].size
			groups[i] = append(groups[i], fs[next].id)
			next++
		}
	}
	for _, f := range fs {
		sizes[f.id] = f.size
	}
	var flat []int
	for _, d := range perm {
		flat = append(flat, groups[d]...)
	}
	return iotaTiles(dims, sizes, flat), true
}

func primeFactors(n int64) []int64 {
	var fs []int64
	for p := int64(2); p*p <= n; p++ {
		for n%p == 0 {
			fs = append(fs, p)
			n /= p
		}
	}
	if n > 1 {
		fs = append(fs, n)
	}
	return fs
}

// sorted is the assignment with every group of the last dimension in
// ascending order (HloSharding::PartialTile).
func (t tiles) sorted() tiles {
	group := t.dims[len(t.dims)-1]
	if t.devices == nil {
		if t.reshape[t.perm[len(t.perm)-1]] == group {
			return t
		}
		if r, ok := t.sortedIota(group); ok {
			return r
		}
		t = t.list()
	}
	d := slices.Clone(t.devices)
	for i := int64(0); i < int64(len(d)); i += group {
		slices.Sort(d[i : i+group])
	}
	return tiles{dims: t.dims, devices: d}
}

// sortedIota is sorted in iota form, where the group is made of whole minor
// dimensions and at most a part of one (GroupMinorIotaDimsSorted,
// xla/hlo/ir/hlo_sharding.cc).
func (t tiles) sortedIota(group int64) (tiles, bool) {
	reshape, perm := slices.Clone(t.reshape), slices.Clone(t.perm)
	i := len(perm)
	for group > 1 {
		if i == 0 {
			return tiles{}, false
		}
		i--
		d := perm[i]
		size := reshape[d]
		if size <= group {
			if group%size != 0 {
				return tiles{}, false
			}
			group /= size
			continue
		}
		if size%group != 0 {
			return tiles{}, false
		}
		// Split dimension d in two; the minor half belongs to the group.
		reshape = slices.Insert(reshape, d+1, group)
		reshape[d] = size / group
		for j := range perm {
			if perm[j] > d {
				perm[j]++
			}
		}
		i++
		perm = slices.Insert(perm, i, d+1)
		group = 1
	}
	slices.Sort(perm[i:])
	return iotaTiles(t.dims, reshape, perm), true
}

// sharding is the tiled sharding of the wire.
func (t tiles) sharding() *hlopb.OpSharding {
	s := &hlopb.OpSharding{Type: hlopb.OpSharding_OTHER, TileAssignmentDimensions: t.dims, TileAssignmentDevices: t.devices}
	if t.devices == nil {
		s.IotaReshapeDims = t.reshape
		for _, d := range t.perm {
			s.IotaTransposePerm = append(s.IotaTransposePerm, int32(d))
		}
	}
	return s
}

// subgroupOrder is the order of the subgroups of a sharding in normal form.
var subgroupOrder = []hlopb.OpSharding_Type{
	hlopb.OpSharding_MAXIMAL, hlopb.OpSharding_TUPLE, hlopb.OpSharding_OTHER, hlopb.OpSharding_MANUAL,
	hlopb.OpSharding_UNREDUCED, hlopb.OpSharding_REPLICATED, hlopb.OpSharding_UNKNOWN,
}

// subgroupSharding is the normal form of a sharding whose last len(types)
// tile dimensions are subgroups (HloSharding::Subgroup): subgroups of size 1
// are gone, those of one type merged, the types in order, members of
// replicated groups sorted, and shardings that split no data plain.
func subgroupSharding(t tiles, types []hlopb.OpSharding_Type) *hlopb.OpSharding {
	if len(types) == 0 {
		return t.sharding()
	}
	data := len(t.dims) - len(types)
	same := !slices.ContainsFunc(types, func(x hlopb.OpSharding_Type) bool { return x != types[0] })
	if same && product(t.dims[:data]) == 1 {
		switch types[0] {
		case hlopb.OpSharding_MANUAL, hlopb.OpSharding_REPLICATED, hlopb.OpSharding_UNREDUCED:
			return &hlopb.OpSharding{Type: types[0]}
		}
	}
	byType := map[hlopb.OpSharding_Type][]int{}
	merge := false
	var gone []int
	for i, x := range types {
		d := data + i
		if t.dims[d] == 1 {
			gone = append(gone, d)
			merge = true
			continue
		}
		merge = merge || len(byType[x]) > 0
		byType[x] = append(byType[x], d)
	}
	if merge || len(byType) > 1 {
		perm := make([]int, data)
		for i := range perm {
			perm[i] = i
		}
		dims := slices.Clone(t.dims[:data])
		types = nil
		for _, x := range subgroupOrder {
			if len(byType[x]) == 0 {
				continue
			}
			size := int64(1)
			for _, d := range byType[x] {
				perm = append(perm, d)
				size *= t.dims[d]
			}
			dims = append(dims, size)
			types = append(types, x)
		}
		t = t.transposed(append(perm, gone...))
		t.dims = dims
	}
	switch {
	case len(types) == 1 && types[0] == hlopb.OpSharding_REPLICATED:
		return partialTile(t)
	case len(types) == 1 && types[0] == hlopb.OpSharding_MANUAL && product(t.dims) == t.dims[len(t.dims)-1]:
		return &hlopb.OpSharding{Type: hlopb.OpSharding_MANUAL}
	case len(types) > 0 && types[len(types)-1] == hlopb.OpSharding_REPLICATED:
		s := partialTile(t)
		s.ReplicateOnLastTileDim = false
		s.LastTileDims = types
		return s
	}
	s := t.sharding()
	s.LastTileDims = types
	return s
}

// partialTile is the normal form of a sharding that is replicated over its
// last tile dimension.
func partialTile(t tiles) *hlopb.OpSharding {
	group := t.dims[len(t.dims)-1]
	switch {
	case len(t.dims) == 1 || group == product(t.dims):
		return &hlopb.OpSharding{Type: hlopb.OpSharding_REPLICATED}
	case group == 1:
		t.dims = t.dims[:len(t.dims)-1]
		return t.sharding()
	}
	s := t.sorted().sharding()
	s.ReplicateOnLastTileDim = true
	return s
}
