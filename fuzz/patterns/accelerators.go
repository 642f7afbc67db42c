package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// accelerators are for passes that only the pipelines of TPUs and GPUs run:
// infeeds, host memory, annotations, precisions, large arrays. Most of them
// are not executed on a CPU.
var accelerators = of("accelerator", nil, []Pattern{
	tpu("infeed", []string{"infeed-decomposer", "infeed_flattener", "infeed-token-propagation"}, func(b *builder) {
		in := b.Shaped(hlo.OpInfeed, hlo.TupleShape(hlo.TupleShape(hlo.ArrayShape(hlo.F32, 4, 8), hlo.ArrayShape(hlo.S32, 3)), &hlo.Shape{Type: hlo.Token}), nil, b.Op(hlo.OpAfterAll, nil))
		d := b.Element(in, 0)
		b.Out(b.Neg(b.Element(d, 0)), b.Neg(b.Element(d, 1)))
	}),
	tpu("infeed-in-a-loop", []string{"infeed-token-propagation", "infeed-decomposer"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		b.Out(b.For(hlo.S32, 0, 1, 3, []value{x}, func(i value, s []value) []value {
			in := b.Shaped(hlo.OpInfeed, hlo.TupleShape(hlo.ArrayShape(hlo.F32, 8), &hlo.Shape{Type: hlo.Token}), nil, b.Op(hlo.OpAfterAll, nil))
			return []value{b.Add(s[0], b.Element(in, 0))}
		})...)
	}),
	tpu("outfeed", []string{"outfeed-decomposer"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 8)
		t := b.Tuple(b.Neg(x), b.Add(x, x))
		b.Op(hlo.OpOutfeed, func(a *program.Attr) { a.OutfeedShape = t.Shape.Proto() }, t, b.Op(hlo.OpAfterAll, nil))
		b.Out(b.Mul(x, x))
	}),
	tpu("host-memory", []string{"host-offloader", "host-offload-legalize", "host-memory-transfer-asyncifier", "host-offload-normalization"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		h := b.Custom("MoveToHost", x.Shape, nil, nil, b.Un(hlo.OpTanh, x))
		d := b.Custom("MoveToDevice", x.Shape, nil, nil, h)
		b.Out(b.Add(d, x))
	}),
	tpu("host-memory-of-a-parameter", []string{"host-offloading-prepare-elide-move-to-host", "host-offloading-prepare-convert-to-custom-call", "host-offloader"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		h := b.Custom("MoveToHost", x.Shape, nil, nil, x)
		b.Out(b.Add(b.Custom("MoveToDevice", x.Shape, nil, nil, b.Copy(h)), x))
	}),
	tpu("host-memory-in-place", []string{"host-offloader", "host-offload-legalize"}, func(b *builder) {
		x := b.Source(hlo.F32, 1, 8, 128)
		buffer := b.Splat(b.Number(hlo.F32, 0), 2, 8, 128)
		z := b.Number(hlo.S32, 0)
		h := b.Custom("MoveToHost", x.Shape, nil, nil, b.Un(hlo.OpTanh, x))
		u := b.DynamicUpdateSlice(buffer, h, b.IndexOf(hlo.S32, 2), z, z)
		s := b.DynamicSlice(u, []int64{1, 8, 128}, b.IndexOf(hlo.S32, 2), z, z)
		b.Out(b.Custom("MoveToDevice", s.Shape, nil, nil, s))
	}),
	tpu("placement", []string{"convert-memory-placement-to-internal-annotations"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		place := func(x value, kind string) value {
			return b.Custom("annotate_device_placement", x.Shape, func(a *program.Attr) {
				a.CustomCallHasSideEffect = true
				a.FrontendAttributes = &hlopb.FrontendAttributes{Map: map[string]string{"_xla_buffer_placement": kind}}
			}, nil, x)
		}
		b.Out(b.Add(place(place(b.Neg(x), "pinned_host"), "device"), x))
	}),
	tpu("host-computation", []string{"hlo_host_device_type_call_wrapper", "host_compute_asyncifier", "hlo_device_type_async_wrapper", "hlo_host_compute_alias_assigner", "async-compute-on-rewriter", "convert-frontend-attribute-to-backend-config"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		c := b.Call([]value{x}, func(a []value) value { return tag(b.Add(a[0], a[0]), "_xla_compute_type", "host") })
		b.Out(b.Neg(tag(c, "_xla_compute_type", "host")))
	}),
	tpu("annotated", []string{"convert-frontend-attribute-to-backend-config", "legalize-scheduling-annotations"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		b.Out(tag(b.Mul(tag(b.Add(x, x), "_scheduling_group_id", "1"), x), "_scheduling_group_id", "1"))
	}),
	tpu("no-argument", []string{"nullary-function-wrap-inliner", "call-inliner"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		c := b.Call(nil, func([]value) value { return b.Splat(b.Number(hlo.F32, 2), 8) })
		b.Out(b.Add(x, c))
	}),
	loop("identity-call", []string{"identity_computation_remover", "call-inliner"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		b.Out(b.Neg(b.Call([]value{x}, func(a []value) value { return a[0] })))
	}),
	tpu("dot-algorithm", []string{"dot_algorithm_normalizer", "xprecision-rewriter"}, func(b *builder) {
		d := b.MatMul(b.Source(hlo.F32, 16, 128), b.Source(hlo.F32, 128, 16))
		d.Attr.PrecisionConfig.Algorithm = program.Pick(b, hlopb.PrecisionConfig_ALG_DOT_BF16_BF16_F32, hlopb.PrecisionConfig_ALG_DOT_BF16_BF16_F32_X3)
		b.Out(d)
	}),
	loop("dot-precision", []string{"xprecision-rewriter", "convolution_precision_normalizer", "convolution_precision_reducer"}, func(b *builder) {
		d := b.MatMul(b.Source(hlo.F32, 16, 128), b.Source(hlo.F32, 128, 16))
		p := program.Pick(b, hlopb.PrecisionConfig_HIGH, hlopb.PrecisionConfig_HIGHEST)
		d.Attr.PrecisionConfig.OperandPrecision = []hlopb.PrecisionConfig_Precision{p, p}
		b.Out(d)
	}),
	loop("dot-of-converted", []string{"convolution_precision_reducer", "bfloat16-fold"}, func(b *builder) {
		x, y := b.Source(hlo.BF16, 16, 128), b.Source(hlo.BF16, 128, 16)
		b.Out(b.Convert(b.MatMul(b.Convert(x, hlo.F32), b.Convert(y, hlo.F32)), hlo.BF16))
	}),
	loop("large-predicates", []string{"pred_packing"}, func(b *builder) {
		x := b.Source(hlo.F32, 256, 256)
		p := b.Compare("LT", x, b.Fill(x, 0))
		q := b.Compare("GT", b.Transpose(x, 1, 0), b.Fill(x, 1))
		b.Out(b.Bin(hlo.OpOr, p, q), b.Bin(hlo.OpXor, p, b.Un(hlo.OpNot, q)))
	}),
	loop("two-sorts", []string{"sort-merger"}, func(b *builder) {
		x, y, z := b.Source(hlo.F32, 64), b.Source(hlo.S32, 64), b.Source(hlo.F32, 64)
		s := b.Sort(0, true, []value{x, y}, totalLess(b))
		u := b.Sort(0, true, []value{x, z}, totalLess(b))
		b.Out(append(b.Elements(s), b.Element(u, 1))...)
	}),
	loop("update-not-read", []string{"dead-dus-elimination"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		z := b.Number(hlo.S32, 0)
		u := b.DynamicUpdateSlice(b.Neg(x), b.Source(hlo.F32, 4, 128), z, z)
		b.Out(b.Slice(u, []int64{8, 0}, []int64{16, 128}, nil))
	}),
	loop("expensive-invariant", []string{"while-loop-expensive-invariant-code-motion"}, func(b *builder) {
		x, m := b.Source(hlo.F32, 64, 64), b.Source(hlo.F32, 64, 64)
		n := b.Bin(hlo.OpAnd, b.Fresh(hlo.S32), b.Number(hlo.S32, 7))
		w := b.While([]value{b.Number(hlo.S32, 0), n, x, m}, func(s []value) value { return b.Compare("LT", s[0], s[1]) }, func(s []value) []value {
			k := b.MatMul(s[3], s[3])
			return []value{b.Add(s[0], b.Number(hlo.S32, 1)), s[1], b.Add(s[2], k), s[3]}
		})
		b.Out(b.Element(w, 2))
	}),
	loop("converted-branches", []string{"conditional-code-motion"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		r := b.If(b.Source(hlo.Pred), []value{x}, func(a []value) value { return b.Tuple(b.Convert(b.Un(hlo.OpTanh, a[0]), hlo.BF16)) }, func(a []value) value {
			return b.Tuple(b.Convert(b.MatMul(a[0], b.Splat(b.Number(hlo.F32, 1), 128, 128)), hlo.BF16))
		})
		b.Out(b.Convert(b.Element(r, 0), hlo.F32))
	}),
	loop("large-gather", []string{"gather_optimizer", "tpu_gather_split", "large-gather-scatter-rewriter", "tpu_gather_scatter_flattener"}, func(b *builder) {
		x := b.Source(hlo.F32, 1024, 128)
		b.Out(b.Rows(x, b.Indices(1024, program.Pick[int64](b, 64, 128))))
	}),
	loop("large-scatter", []string{"large-gather-scatter-rewriter", "tpu_gather_scatter_flattener", "sparse-gradient-rewrite"}, func(b *builder) {
		x := b.Source(hlo.F32, 512, 128)
		b.Out(b.ScatterRows(x, b.Indices(512, 64), b.Source(hlo.F32, 64, 128), false, func(cur, upd value) value { return b.Bin(hlo.OpMaximum, cur, upd) }))
	}),
	loop("large-reverse", []string{"jellyfish-reverse-decomposer"}, func(b *builder) {
		x := b.Source(hlo.F32, 8, 16, 256)
		b.Out(b.Reverse(b.Un(hlo.OpTanh, x), program.Pick(b, []int64{2}, []int64{1, 2}, []int64{0, 1, 2})...))
	}),
	loop("large-reduce", []string{"tpu-reduce-rewriter", "reduce-code-motion"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.BF16), 16, 8, 256)
		b.Out(b.Reduce(hlo.OpAdd, b.Reduce(hlo.OpAdd, b.Mul(x, x), 2), 0), b.Reduce(hlo.OpAdd, b.Add(x, b.Transpose(b.Transpose(x, 1, 0, 2), 1, 0, 2)), 0, 1))
	}),
	loop("integer-reduce", []string{"tpu-reduce-rewriter"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.S32, hlo.S8, hlo.U32), 16, 256)
		b.Out(b.Reduce(program.Pick(b, hlo.OpAdd, hlo.OpMultiply, hlo.OpAnd, hlo.OpOr), x, int64(b.R.IntN(2))))
	}),
	loop("two-windows", []string{"tpu-reduce-window-dedup", "tpu-reduce-window-normalizer"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 16, 16, 8)
		w := []program.Window{{Size: 1}, {Size: 2, Stride: 2}, {Size: 2, Stride: 2}, {Size: 1}}
		b.Out(b.ReduceWindow(hlo.OpMaximum, x, w...), b.Neg(b.ReduceWindow(hlo.OpMaximum, x, w...)))
		r := b.ReduceWindowMany([]value{x, x}, []value{b.Number(hlo.F32, 0), b.Number(hlo.F32, 0)}, w, func(acc, el []value) []value {
			return []value{b.Add(acc[0], el[0]), b.Add(acc[1], el[1])}
		})
		b.Out(b.Elements(r)...)
	}),
	loop("loop-over-large-rows", []string{"tpu-insert-dus-views", "tpu-insert-ds-views", "scan_loop_accumulator_input_unification", "tpu-annotate-traceable-loops"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 8, 128)
		out := b.Splat(b.Number(hlo.F32, 0), 16, 8, 128)
		r := b.For(hlo.S32, 0, 1, 16, []value{out, x}, func(i value, s []value) []value {
			z := b.Number(hlo.S32, 0)
			row := b.DynamicSlice(s[1], []int64{1, 8, 128}, i, z, z)
			return []value{b.DynamicUpdateSlice(s[0], b.Un(hlo.OpTanh, row), i, z, z), s[1]}
		})
		b.Out(r[0])
	}),
	tpu("random-tuple", []string{"tpu-rng-bit-decompose-tuple"}, func(b *builder) {
		state := b.Source(hlo.U64, 2)
		s := hlo.TupleShape(state.Shape, hlo.ArrayShape(hlo.U32, 16, 128))
		b.Out(b.Elements(b.Shaped(hlo.OpRngBitGenerator, s, func(at *program.Attr) { at.RngAlgorithm = hlopb.RandomAlgorithm_RNG_DEFAULT }, state))...)
	}),
	tpu("scan", []string{"scan_expander", "associative-scan-rewriter"}, func(b *builder) {
		x := b.Source(hlo.F32, 8, 16)
		c := b.Source(hlo.F32, 16)
		body := b.Region("step", []*hlo.Shape{c.Shape, c.Shape}, func(a []value) value {
			s := b.Add(a[0], a[1])
			return b.Tuple(s, s)
		})
		r := b.With(hlo.OpScan, nil, func(a *program.Attr) {
			a.Dimensions, a.NumCarries, a.IsAssociative = []int64{0}, 1, hlopb.TriState_TRI_STATE_FALSE
		}, []*hlo.Computation{body}, x, c)
		b.Out(b.Elements(r)...)
	}),
	each("elementary", []hlo.Opcode{hlo.OpAcos, hlo.OpAsin, hlo.OpAsinh, hlo.OpAtanh, hlo.OpCosh, hlo.OpSinh, hlo.OpTan, hlo.OpErf, hlo.OpCbrt}, []string{"elementary-function-expander"}),
	loop("convolution-of-a-vector", []string{"tpu-convolution-rewriter", "convolution-normalizer", "tpu-spatial-minor-conv-rewriter"}, func(b *builder) {
		x, k := b.Source(hlo.F32, 2, 64, 1), b.Source(hlo.F32, 5, 1, 1)
		b.Out(b.Convolution(x, k, program.Conv{Dims: program.ConvDims("b0f", "0io", "b0f"), Window: []program.Window{{Size: 5, Low: 2, High: 2}}}))
	}),
	loop("convolution-depthwise", []string{"tpu-convolution-rewriter", "convolution-normalizer", "convolution-group-converter"}, func(b *builder) {
		x, k := b.Source(hlo.F32, 2, 16, 16, 8), b.Source(hlo.F32, 3, 3, 1, 8)
		b.Out(b.Convolution(x, k, program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Groups: 8, Window: []program.Window{{Size: 3, Low: 1, High: 1}, {Size: 3, Low: 1, High: 1}}}))
	}),
	loop("convolution-spatial-last", []string{"tpu-spatial-minor-conv-rewriter", "convolution-normalizer"}, func(b *builder) {
		x, k := b.Source(hlo.F32, 1, 2, 64, 128), b.Source(hlo.F32, 4, 2, 3, 3)
		b.Out(b.Convolution(x, k, program.Conv{Dims: program.ConvDims("bf01", "oi01", "bf01"), Window: []program.Window{{Size: 3, Reversed: b.Chance(2)}, {Size: 3}}}))
	}),
	loop("convolution-dilated", []string{"convolution-normalizer", "tpu-convolution-rewriter"}, func(b *builder) {
		x, k := b.Source(hlo.F32, 2, 8, 8, 16), b.Source(hlo.F32, 3, 3, 16, 8)
		b.Out(b.Convolution(x, k, program.Conv{Dims: program.ConvDims("b01f", "01io", "b01f"), Window: []program.Window{{Size: 3, Low: 1, High: 1, BaseDilation: 2}, {Size: 3, Low: 1, High: 1, Dilation: 2}}}))
	}),
	loop("convolution-of-integers", []string{"ConvolutionTypeCanonicalizer", "TpuConvolutionTypeCanonicalizer"}, func(b *builder) {
		t := program.Pick(b, hlo.S8, hlo.S32, hlo.F16)
		b.Out(grouped(b, [3]string{"b01f", "01io", "b01f"}, t, 1, 1))
	}),
	loop("attention", []string{"flash_attention"}, func(b *builder) {
		q, k, v := b.Source(hlo.F32, 2, 64, 32), b.Source(hlo.F32, 2, 64, 32), b.Source(hlo.F32, 2, 64, 32)
		s := b.Dot(hlo.F32, q, k, program.Contraction{Left: []int64{2}, Right: []int64{2}, LeftBatch: []int64{0}, RightBatch: []int64{0}})
		m := b.Broadcast(b.Reduce(hlo.OpMaximum, s, 2), s.Shape.Dims, 0, 1)
		e := b.Un(hlo.OpExponential, b.Sub(s, m))
		n := b.Broadcast(b.Reduce(hlo.OpAdd, e, 2), s.Shape.Dims, 0, 1)
		b.Out(b.MatMul(b.Bin(hlo.OpDivide, e, n), v))
	}),
})

// tag sets a frontend attribute.
func tag(v value, key, text string) value {
	v.Attr.FrontendAttributes = &hlopb.FrontendAttributes{Map: map[string]string{key: text}}
	return v
}

// each applies every opcode to a value of its domain.
func each(name string, ops []hlo.Opcode, passes []string) Pattern {
	return tpu(name, passes, func(b *builder) {
		x := b.Source(hlo.F32, 4, 8)
		t := b.Un(hlo.OpTanh, x) // within (-1, 1)
		for _, op := range ops {
			b.Out(b.Un(op, t))
		}
	})
}

// tpu is a pattern that only builds for TPUs take.
func tpu(name string, passes []string, build func(b *builder)) Pattern {
	return Pattern{Name: name, Passes: passes, Build: build, Narrow: true, Platform: TPU}
}
