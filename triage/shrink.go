package triage

import (
	"slices"

	"github.com/passgate/passgate/hlo"
)

// shapes shrinks dimensions: every dimension of one size becomes smaller
// everywhere at once (parameters, attributes that repeat sizes), shapes are
// inferred again, and what does not fit any more is refused by the verifier.
func (r *reducer) shapes() {
	for _, from := range sizes(r.best.Module) {
		targets := []int64{1, 2, 3, from / 4, from / 2, from * 3 / 4}
		if from <= 16 {
			targets = append(targets, from-1)
		}
		for _, to := range targets {
			if to < 1 || to >= from {
				continue
			}
			// Keep the front of each array, else its back.
			if r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool { return resize(m, *inputs, from, to, false) }) ||
				r.edit(func(m *hlo.Module, inputs *[]*hlo.Literal) bool { return resize(m, *inputs, from, to, true) }) {
				break
			}
		}
	}
}

// sizes are the dimension sizes above 1 of the entry's arrays, largest first.
func sizes(m *hlo.Module) []int64 {
	var out []int64
	for _, in := range m.Entry.Instructions {
		for _, l := range in.Shape.Leaves() {
			for _, d := range l.Dims {
				if d > 1 && !slices.Contains(out, d) {
					out = append(out, d)
				}
			}
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// resize turns dimension size from into to in the whole module and cuts the
// inputs and constants to the new shapes, keeping their front or back. It returns false when a shape cannot be inferred.
func resize(m *hlo.Module, inputs []*hlo.Literal, from, to int64, back bool) bool {
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case hlo.OpParameter, hlo.OpIota, hlo.OpBroadcast, hlo.OpReshape, hlo.OpRng, hlo.OpConstant, hlo.OpBitcast, hlo.OpRngBitGenerator:
				for _, l := range in.Shape.Leaves() {
					for i, d := range l.Dims {
						if d == from {
							l.Dims[i] = to
						}
					}
				}
				if in.Op == hlo.OpConstant {
					in.Literal = cut(in.Literal, in.Shape, back)
				}
				continue
			case hlo.OpSlice:
				for i, s := range in.Attr.SliceDimensions {
					old := s.Limit
					if s.Limit == from {
						s.Limit = to
					}
					if size := in.Operands[0].Shape.Dims[i]; s.Limit > size {
						s.Limit = size - (from - old)
					}
					if s.Limit <= s.Start {
						return false
					}
				}
			case hlo.OpDynamicSlice:
				replace(in.Attr.DynamicSliceSizes, from, to)
			case hlo.OpGather:
				replace(in.Attr.GatherSliceSizes, from, to)
			}
			if in.Attr.Window != nil && (in.Op == hlo.OpReduceWindow || in.Op == hlo.OpSelectAndScatter) {
				for _, d := range in.Attr.Window.Dimensions {
					if d.Size == from {
						d.Size = to
					}
				}
			}
			s, err := hlo.InferShape(in)
			if err != nil {
				return false
			}
			in.Shape = s.WithoutLayout()
		}
	}
	for n, p := range m.Entry.Params() {
		if !slices.Equal(inputs[n].Shape.Dims, p.Shape.Dims) {
			inputs[n] = cut(inputs[n], p.Shape, back)
		}
	}
	m.EntryLayout = nil
	return true
}

func replace(list []int64, from, to int64) {
	for i, v := range list {
		if v == from {
			list[i] = to
		}
	}
}

// cut takes the first or last corner of a literal that fits the shape (of the
// same rank, nowhere larger).
func cut(l *hlo.Literal, s *hlo.Shape, back bool) *hlo.Literal {
	if l == nil || !s.IsArray() || slices.Equal(l.Shape.Dims, s.Dims) {
		return l
	}
	out := hlo.NewLiteral(s.WithoutLayout())
	size := s.Type.Bytes()
	at := make([]int64, len(s.Dims))
	for i := range s.Elems() {
		var j int64
		for d := range at {
			j = j*l.Shape.Dims[d] + at[d]
			if back {
				j += l.Shape.Dims[d] - s.Dims[d]
			}
		}
		copy(out.Raw[i*int64(size):(i+1)*int64(size)], l.Raw[j*int64(size):])
		for d := len(at) - 1; d >= 0; d-- {
			if at[d]++; at[d] < s.Dims[d] {
				break
			}
			at[d] = 0
		}
	}
	return out
}
