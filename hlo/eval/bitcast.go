package eval

import (
	"slices"

	"github.com/passgate/passgate/hlo"
)

// bitcast keeps the bytes of a buffer and reads them with another shape and
// layout. Shapes without a layout are row-major. Elements that fall on padding
// of a tiled operand are undecided.
func (e *Evaluator) bitcast(in *hlo.Instruction, a *Array) (*Array, error) {
	from, to := in.Operands[0].Shape, in.Shape
	if from.Type != to.Type {
		if from.Type.Bits() != to.Type.Bits() || layoutOf(from) == nil && layoutOf(to) == nil {
			return e.bitcastBytes(in, a)
		}
		a = e.num.BitcastConvertArray(to.Type, a)
	}
	if layoutOf(from) == nil && layoutOf(to) == nil {
		if product(to.Dims) != a.Len() {
			return nil, malformed(in, "the operand has %d elements, the result %d", a.Len(), product(to.Dims))
		}
		return a.Reshape(to.Dims...), nil
	}
	source, n, err := placesInBuffer(in, from)
	if err != nil {
		return nil, err
	}
	target, m, err := placesInBuffer(in, to)
	if err != nil {
		return nil, err
	}
	// The place of each operand element, inverted.
	holder := make([]int32, max(n, m))
	for i := range holder {
		holder[i] = -1
	}
	for i, p := range source {
		holder[p] = int32(i)
	}
	index := make([]int32, len(target))
	var missing []int
	for i, p := range target {
		index[i] = holder[p]
		if index[i] < 0 {
			index[i] = 0
			missing = append(missing, i)
		}
	}
	if a.Len() == 0 {
		if len(target) != 0 {
			return nil, malformed(in, "the operand is empty")
		}
		return a.Reshape(to.Dims...), nil
	}
	r := a.Permute(to.Dims, index)
	for _, i := range missing {
		r.undecide(i, Implementation)
	}
	return r, nil
}

// bitcastBytes is a bitcast between types; only dense row-major buffers.
func (e *Evaluator) bitcastBytes(in *hlo.Instruction, a *Array) (*Array, error) {
	from, to := in.Operands[0].Shape, in.Shape
	if layoutOf(from) != nil || layoutOf(to) != nil {
		return nil, unsupported(in, "change of width and layout at once")
	}
	fb, tb := from.Type.Bits(), to.Type.Bits()
	if int64(a.Len())*int64(fb) != to.Elems()*int64(tb) {
		return nil, malformed(in, "the operand has %d bits, the result %d", int64(a.Len())*int64(fb), to.Elems()*int64(tb))
	}
	if fb < tb {
		a = a.Reshape(int64(a.Len())*int64(fb)/int64(tb), int64(tb/fb))
	} else {
		a = a.Reshape(int64(a.Len()))
	}
	return e.num.BitcastConvertArray(to.Type, a).Reshape(to.Dims...), nil
}

// layoutOf is the layout of a shape, nil if its elements lie dense and
// row-major.
func layoutOf(s *hlo.Shape) *hlo.Layout {
	l := s.Layout
	if l == nil {
		return nil
	}
	plain := true
	for i, d := range l.MinorToMajor {
		plain = plain && d == int64(len(s.Dims)-1-i)
	}
	if plain && !pads(s, l) {
		return nil
	}
	return l
}

// pads says whether the tiles of a layout move elements, beyond splitting the
// minor dimensions evenly in their order.
func pads(s *hlo.Shape, l *hlo.Layout) bool {
	if len(l.Tiles) == 0 {
		return false
	}
	if len(l.Tiles) > 1 || len(l.Tiles[0]) > 1 {
		return true
	}
	t, minor := l.Tiles[0][0], int64(1) // a scalar lies in the buffer of f32[1]
	if len(s.Dims) > 0 {
		minor = s.Dims[l.MinorToMajor[0]]
	}
	return t == hlo.TileCombine || minor%max(1, t) != 0
}

// placesInBuffer gives for each element of a shape (row-major) its place in
// the buffer, in elements, and the size of the buffer (xla/layout.h, "Tiled
// layout"): the dimensions are taken from major to minor; each tile then
// splits the minor dimensions into a count of tiles and a place in the tile,
// and all counts come before all places.
func placesInBuffer(in *hlo.Instruction, s *hlo.Shape) ([]int32, int, error) {
	l := s.Layout
	if l == nil {
		l = &hlo.Layout{MinorToMajor: rowMajor(len(s.Dims))}
	}
	if !isPermutation(l.MinorToMajor, len(s.Dims)) {
		return nil, 0, malformed(in, "minor_to_major %v", l.MinorToMajor)
	}
	if len(l.DimLevelTypes) > 0 || l.PhysicalShape != nil {
		return nil, 0, unsupported(in, "a sparse layout")
	}
	// Physical dimensions, major to minor.
	dims := make([]int64, len(s.Dims))
	for i, d := range l.MinorToMajor {
		dims[len(dims)-1-i] = s.Dims[d]
	}
	type split struct {
		first int // physical dimension at which the tile starts
		tile  []int64
	}
	var splits []split
	for _, tile := range l.Tiles {
		if slices.Contains(tile, hlo.TileCombine) {
			return nil, 0, unsupported(in, "a tile that combines dimensions")
		}
		for len(dims) < len(tile) { // missing major dimensions have size 1
			dims = append([]int64{1}, dims...)
			for i := range splits {
				splits[i].first++
			}
		}
		first := len(dims) - len(tile)
		splits = append(splits, split{first, tile})
		next := slices.Clone(dims[:first])
		for i, t := range tile {
			if t < 1 {
				return nil, 0, malformed(in, "tile size %d", t)
			}
			next = append(next, (dims[first+i]+t-1)/t)
		}
		dims = append(next, tile...)
	}
	n := product(dims)
	if int64(n) > 1<<30 {
		return nil, 0, unsupported(in, "a buffer of %d elements", n)
	}
	final := strides(dims)
	places := make([]int32, 0, product(s.Dims))
	walk(ints(s.Dims), func(index []int) {
		p := make([]int64, 0, len(dims))
		for range len(dims) - len(s.Dims) - tileDims(l) {
			p = append(p, 0)
		}
		for i := len(l.MinorToMajor) - 1; i >= 0; i-- {
			p = append(p, int64(index[l.MinorToMajor[i]]))
		}
		for _, sp := range splits {
			q := slices.Clone(p[:sp.first])
			for i, t := range sp.tile {
				q = append(q, p[sp.first+i]/t)
			}
			for i, t := range sp.tile {
				q = append(q, p[sp.first+i]%t)
			}
			p = q
		}
		at := 0
		for i, x := range p {
			at += int(x) * final[i]
		}
		places = append(places, int32(at))
	})
	return places, n, nil
}

// tileDims is the number of physical dimensions that tiles add.
func tileDims(l *hlo.Layout) int {
	n := 0
	for _, t := range l.Tiles {
		n += len(t)
	}
	return n
}

func rowMajor(rank int) []int64 {
	m := make([]int64, rank)
	for i := range m {
		m[i] = int64(rank - 1 - i)
	}
	return m
}
