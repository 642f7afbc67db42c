package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
)

// convolutions: layouts that are canonicalised, groups that are expanded,
// windows that become dots, transposes and reverses that fold in.
var convolutions = of("convolution", []string{"convolution-canonicalization"}, []Pattern{
	conv("plain", nil, func(b *builder) value {
		l := program.Pick(b, [3]string{"bf01", "oi01", "bf01"}, [3]string{"b01f", "01io", "b01f"}, [3]string{"01bf", "01io", "01bf"}, [3]string{"b01f", "01oi", "bf01"})
		return grouped(b, l, convType(b), 1, 1)
	}),
	conv("feature-groups", []string{"convolution-group-converter"}, func(b *builder) value {
		return grouped(b, [3]string{"b01f", "01io", "b01f"}, convType(b), int64(b.Between(2, 4)), 1)
	}),
	conv("batch-groups", []string{"convolution-group-converter"}, func(b *builder) value {
		return grouped(b, [3]string{"b01f", "01io", "b01f"}, convType(b), 1, int64(b.Between(2, 4)))
	}),
	conv("one-by-one", []string{"algsimp"}, func(b *builder) value {
		x, k := b.Source(hlo.F32, 2, 4, 5, 3), b.Source(hlo.F32, 1, 1, 3, 2)
		return b.Convolution(x, k, program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Window: []program.Window{{Size: 1}, {Size: 1}}})
	}),
	conv("of-pad", []string{"algsimp"}, func(b *builder) value {
		x := b.Pad(b.Source(hlo.F32, 1, 4, 4, 2), b.Number(hlo.F32, 0), program.Padding{}, program.Padding{Low: 1, High: 1, Interior: int64(b.R.IntN(2))}, program.Padding{Low: 1}, program.Padding{})
		return b.Convolution(x, b.Source(hlo.F32, 2, 2, 2, 3), program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Window: []program.Window{{Size: 2}, {Size: 2}}})
	}),
	conv("kernel-pad", []string{"algsimp"}, func(b *builder) value {
		k := b.Pad(b.Source(hlo.F32, 2, 2, 2, 3), b.Number(hlo.F32, 0), program.Padding{Interior: 1}, program.Padding{}, program.Padding{}, program.Padding{})
		return b.Convolution(b.Source(hlo.F32, 1, 6, 6, 2), k, program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Window: []program.Window{{Size: 3}, {Size: 2}}})
	}),
	conv("of-reverse", []string{"algsimp"}, func(b *builder) value {
		k := b.Reverse(b.Source(hlo.F32, 2, 3, 2, 3), 0, 1)
		return b.Convolution(b.Source(hlo.F32, 1, 6, 6, 2), k, program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Window: []program.Window{{Size: 2}, {Size: 3}}})
	}),
	conv("of-transpose", []string{"transpose-folding", "convolution-folding"}, func(b *builder) value {
		x := b.Transpose(b.Source(hlo.F32, 2, 3, 5, 5), 0, 2, 3, 1)
		k := b.Transpose(b.Source(hlo.F32, 4, 3, 2, 2), 2, 3, 1, 0)
		return b.Convolution(x, k, program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Window: []program.Window{{Size: 2}, {Size: 2}}})
	}),
	conv("gradient", []string{"space-to-batch-converter"}, func(b *builder) value {
		x, k := b.Source(hlo.F32, 2, 6, 6, 3), b.Source(hlo.F32, 2, 3, 3, 4)
		return b.Convolution(x, k, program.Conv{Dims: program.ConvDims("f01b", "i01o", "01bf"), Window: []program.Window{{Size: 3, Dilation: 2, High: 1}, {Size: 3, Dilation: 2}}})
	}),
	conv("narrow", []string{"operand_upcaster", "change-op-data-type", "float-normalization-bf16"}, func(b *builder) value {
		return grouped(b, [3]string{"b01f", "01io", "b01f"}, program.Pick(b, hlo.F16, hlo.F16, hlo.BF16), 1, 1)
	}),
	conv("half", []string{"change-op-data-type"}, func(b *builder) value {
		return grouped(b, [3]string{"b01f", "01io", "b01f"}, hlo.F16, 1, 1)
	}),
	conv("one-dimension", []string{"algsimp"}, func(b *builder) value {
		x, k := b.Source(hlo.F32, 2, 9, 3), b.Source(hlo.F32, 3, 3, 4)
		return b.Convolution(x, k, program.Conv{Dims: program.ConvDims("b0f", "0io", "b0f"), Window: []program.Window{{Size: 3, Stride: 2, Low: 1, High: 1}}})
	}),
	conv("scaled", []string{"algsimp"}, func(b *builder) value {
		c := b.Convolution(b.Source(hlo.F32, 1, 5, 5, 2), b.Constant(hlo.F32, 2, 2, 2, 3), program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Window: []program.Window{{Size: 2}, {Size: 2}}})
		return b.Mul(c, b.Broadcast(b.Constant(hlo.F32, 3), c.Shape.Dims, 3))
	}),
	conv("large", []string{"space-to-batch-converter", "cpu-parallel-task-assigner"}, func(b *builder) value {
		return b.Convolution(b.Source(hlo.F32, 1, 16, 16, 4), b.Source(hlo.F32, 3, 3, 4, 8), program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Window: []program.Window{{Size: 3, Low: 1, High: 1}, {Size: 3, Low: 1, High: 1}}})
	}),
})

func conv(name string, passes []string, build func(b *builder) value) Pattern {
	return dot(name, passes, build)
}

func convType(b *builder) hlo.PrimitiveType {
	return program.Pick(b, hlo.F32, hlo.F32, hlo.F64, hlo.F16, hlo.S32)
}

// grouped is a two-dimensional convolution in a layout of its own.
func grouped(b *builder, layout [3]string, t hlo.PrimitiveType, groups, batch int64) value {
	c := program.Conv{Dims: program.ConvDims(layout[0], layout[1], layout[2]), Groups: groups, Batch: batch}
	in, out := int64(b.Between(1, 2))*groups, int64(b.Between(1, 2))*groups*batch
	x, k := make([]int64, 4), make([]int64, 4)
	x[c.Dims.InputBatchDimension], x[c.Dims.InputFeatureDimension] = int64(b.Between(1, 2))*batch, in
	k[c.Dims.KernelInputFeatureDimension], k[c.Dims.KernelOutputFeatureDimension] = in/groups, out
	for i := range 2 {
		x[c.Dims.InputSpatialDimensions[i]], k[c.Dims.KernelSpatialDimensions[i]] = int64(b.Between(4, 7)), int64(b.Between(1, 3))
		w := program.Window{Size: k[c.Dims.KernelSpatialDimensions[i]], Stride: int64(b.Between(1, 2)), Low: int64(b.R.IntN(2)), High: int64(b.R.IntN(2)), Reversed: b.Chance(4)}
		if b.Chance(4) {
			w.BaseDilation = 2
		}
		c.Window = append(c.Window, w)
	}
	return b.Convolution(b.Source(t, x...), b.Source(t, k...), c)
}
