package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// pipelines are for passes that only the TPU pipeline runs, beyond what
// accelerators holds: memory spaces, collectives of part of the replicas,
// marked fusions, attention, loops of loops.
var pipelines = of("tpu", nil, []Pattern{
	tpu("barrier-of-host-values", []string{"pipelining-optimizations", "host-offloader"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 256)
		o := b.Un(hlo.OpOptBarrier, b.Tuple(toHost(b, b.Un(hlo.OpCosine, x)), x))
		b.Out(b.Mul(toDevice(b, b.Element(o, 0)), b.Element(o, 1)))
	}),
	tpu("update-in-host-memory", []string{"host-offload-normalization", "host-offloader"}, func(b *builder) {
		whole, part := hostShape(hlo.F32, 8, 512, 64), hostShape(hlo.F32, 1, 512, 64)
		whole.Layout.MinorToMajor, part.Layout.MinorToMajor = []int64{1, 2, 0}, []int64{1, 2, 0}
		u := part.Clone()
		u.Layout.MemorySpace = 0
		x, h := b.Param(whole), b.Custom("MoveToHost", part, nil, nil, b.Param(u))
		z := b.Number(hlo.S32, 0)
		b.Out(b.Shaped(hlo.OpDynamicUpdateSlice, whole, nil, x, h, b.Fresh(hlo.S32), z, z))
	}),
	tpu("copy-from-host-memory", []string{"host-offload-legalize", "host-offloader"}, func(b *builder) {
		s := hostShape(hlo.F32, 20, 3, 256, 133)
		s.Layout.MinorToMajor = []int64{2, 3, 1, 0}
		x := b.Param(s)
		inner := hlo.ArrayShape(hlo.F32, 20, 3, 256, 133)
		inner.Layout = &hlo.Layout{MinorToMajor: []int64{2, 1, 0, 3}, Tiles: [][]int64{{4, 128}}}
		b.Out(b.Custom("MoveToDevice", inner, nil, nil, b.Shaped(hlo.OpCopy, inner, nil, x)))
	}),
	tpu("host-computation-of-host-memory", []string{"host-offloading-prepare-elide-move-to-host", "hlo_host_device_type_call_wrapper"}, func(b *builder) {
		h := toHost(b, b.Source(hlo.F32, 16, 128))
		c := b.Call([]value{h}, func(a []value) value { return tag(b.Add(a[0], a[0]), "_xla_compute_type", "host") })
		b.Out(tag(c, "_xla_compute_type", "host"))
	}),
	tpu("pinned", []string{"pin-user-annotated-instructions"}, func(b *builder) {
		x := b.Source(hlo.S32, 16, 128)
		m := b.Mul(x, x)
		b.Out(b.Mul(b.Custom("annotate_device_placement", m.Shape, func(a *program.Attr) {
			a.CustomCallHasSideEffect = true
			a.FrontendAttributes = &hlopb.FrontendAttributes{Map: map[string]string{"_xla_buffer_placement": "pinned_device"}}
		}, nil, m), x))
	}),
	tpu("log", []string{"debug-log-custom-call-processor"}, func(b *builder) {
		x := b.Source(program.Pick(b, hlo.S32, hlo.F32), 16, 128)
		b.Custom("xla.debug.Log", hlo.TupleShape(), func(a *program.Attr) { a.CustomCallHasSideEffect = true }, nil, x)
		b.Out(b.Mul(x, x))
	}),
	tpu("marked-call", []string{"user-guided-fusion-id-assigner", "convert-frontend-attribute-to-backend-config", "tpu-call-inliner-inner-must-fuse"}, func(b *builder) {
		x := b.Source(hlo.F32, 256, 256)
		c := b.Call([]value{x}, func(a []value) value { return b.Add(b.Mul(a[0], a[0]), a[0]) })
		c.Attr.FrontendAttributes = &hlopb.FrontendAttributes{Map: map[string]string{"MUST_FUSE": "1", "inlineable": "false"}}
		b.Out(b.Neg(c))
	}),
	tpu("reshape-of-tiles", []string{"reshape-decomposer"}, func(b *builder) {
		x, y := b.Source(hlo.F32, 8, 64, 128), b.Source(hlo.F32, 8, 128, 128)
		b.Out(b.Reshape(b.MatMul(x, y), 8, 64*128))
	}),
	tpu("dot-of-gathered-bytes", []string{"convolution-normalizer", "gather_optimizer"}, func(b *builder) {
		t := program.Pick(b, hlo.S8, hlo.U8)
		g := b.Transpose(b.Rows(b.Source(t, 100, 3), b.Source(hlo.S32, 20)), 1, 0)
		b.Out(b.Dot(hlo.S32, g, b.Source(t, 20, 3), program.Contraction{Left: []int64{1}, Right: []int64{0}}))
	}),
	tpu("dot-of-narrow-floats", []string{"ConvolutionTypeCanonicalizer"}, func(b *builder) {
		x, y := b.Source(hlo.F8E4M3FN, 16, 128), b.Source(hlo.F8E4M3FN, 128, 16)
		b.Out(b.Dot(hlo.S32, x, y, program.Contraction{Left: []int64{1}, Right: []int64{0}}))
	}),
	tpu("gather-of-some-rows", []string{"gather_optimizer", "dynamic_padder"}, func(b *builder) {
		n := b.Clamp(b.Number(hlo.S32, 0), b.Fresh(hlo.S32), b.Number(hlo.S32, 32))
		i := b.SetSize(b.Source(hlo.S32, 32, 20), n, 0)
		b.Out(b.Rows(b.Source(program.Pick(b, hlo.S32, hlo.F32), 20, 10), i))
	}),
	tpu("topk", []string{"topk-rewriter", "topk-decomposer"}, func(b *builder) {
		k := int64(b.Between(4, 16))
		x := b.Source(hlo.F32, 6, 2048)
		b.Out(b.Elements(b.Op(hlo.OpTopk, func(a *program.Attr) { a.K, a.Largest, a.IsStable = k, true, true }, x))...)
	}),
	tpu("sorted-prefix", []string{"topk-rewriter"}, func(b *builder) {
		k := int64(b.Between(4, 16))
		x := b.Source(hlo.F32, 8, 2048)
		s := b.Sort(1, true, []value{x, b.Iota(hlo.S32, 1, 8, 2048)}, func(a []value) value { return b.Compare("GT", a[0], a[1]) })
		for _, e := range b.Elements(s) {
			b.Out(b.Slice(e, []int64{0, 0}, []int64{8, k}, nil))
		}
	}),
	tpu("invariant-product", []string{"while-loop-expensive-invariant-code-motion"}, func(b *builder) {
		x, m := b.Source(hlo.F32, 64, 64), b.Source(hlo.F32, 64, 64)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(3, 12)), []value{x, m}, func(i value, s []value) []value {
			return []value{b.Add(s[0], b.MatMul(b.Fill(s[1], 2), s[1])), s[1]}
		})
		b.Out(r[0])
	}),
	tpu("scan-in-a-loop", []string{"scan_loop_accumulator_input_unification"}, func(b *builder) {
		const n = 10
		x := b.Source(hlo.F32, n, 128)
		r := b.For(hlo.S32, 0, 1, int64(b.Between(3, 6)), []value{x}, func(_ value, s []value) []value {
			acc := b.Fill(s[0], 0)
			return b.For(hlo.S32, 0, 1, n, []value{acc, s[0]}, func(i value, u []value) []value {
				z := b.Number(hlo.S32, 0)
				row := b.DynamicSlice(u[1], []int64{1, 128}, i, z)
				return []value{b.DynamicUpdateSlice(u[0], b.Un(hlo.OpTanh, row), i, z), u[1]}
			})[:1]
		})
		b.Out(r...)
	}),
	tpu("attention-of-heads", []string{"flash_attention"}, func(b *builder) {
		t := hlo.BF16
		q, k, v := b.Param(hlo.ArrayShape(t, 2, 4, 256, 128)), b.Param(hlo.ArrayShape(t, 2, 4, 256, 128)), b.Param(hlo.ArrayShape(t, 2, 4, 256, 128))
		s := b.Dot(t, q, k, program.Contraction{Left: []int64{3}, Right: []int64{3}, LeftBatch: []int64{0, 1}, RightBatch: []int64{0, 1}})
		e := b.Un(hlo.OpExponential, b.Sub(s, b.Broadcast(b.Reduce(hlo.OpMaximum, s, 3), s.Shape.Dims, 0, 1, 2)))
		p := b.Bin(hlo.OpDivide, e, b.Broadcast(b.Reduce(hlo.OpAdd, e, 3), s.Shape.Dims, 0, 1, 2))
		b.Out(b.MatMul(p, v))
	}),
	replicas("all-reduce-of-narrow-types", []string{"tpu-all-reduce-legalizer"}, func(b *builder) {
		b.Out(reduceAll(b, b.Source(program.Pick(b, hlo.U8, hlo.S16, hlo.S4, hlo.F8E4M3FN), 16, 128)))
	}),
	replicas("all-reduce-between-converts", []string{"bfloat16-fold"}, func(b *builder) {
		x := b.Convert(b.Param(hlo.ArrayShape(hlo.BF16, 64, 128)), hlo.F32)
		b.Out(b.Convert(reduceAll(b, x), hlo.BF16))
	}),
	replicas("all-reduce-then-own-part", []string{"tpu-all-reduce-scatter-fusion"}, func(b *builder) {
		b.Out(ownPart(b, reduceAll(b, b.Param(hlo.ArrayShape(hlo.F32, 64, 128)))))
	}),
	replicas("all-gather-then-own-part", []string{"all-gather-simplifier"}, func(b *builder) {
		b.Out(ownPart(b, gatherAll(b, b.Param(hlo.ArrayShape(hlo.F32, 16, 128)), 0)))
	}),
	replicas("all-reduce-then-scatter", []string{"all-reduce-reduce-scatter-reorder"}, func(b *builder) {
		x := b.Param(hlo.ArrayShape(hlo.F32, 16, 128))
		add := b.Reducer(hlo.OpAdd, hlo.F32)
		r := b.With(hlo.OpAllReduce, nil, func(a *program.Attr) { groups(a, []int64{0, 1}, []int64{2, 3}) }, []*hlo.Computation{add}, x)
		b.Out(b.With(hlo.OpReduceScatter, hlo.ArrayShape(hlo.F32, 8, 128), func(a *program.Attr) {
			a.Dimensions = []int64{0}
			groups(a, []int64{0, 2}, []int64{1, 3})
		}, []*hlo.Computation{b.Reducer(hlo.OpAdd, hlo.F32)}, r))
	}),
	replicas("all-gather-of-some-replicas", []string{"all_gather_decomposer"}, func(b *builder) {
		x := b.Param(hlo.ArrayShape(program.Pick(b, hlo.F32, hlo.S32), 8))
		b.Out(b.Shaped(hlo.OpAllGather, hlo.ArrayShape(x.Shape.Type, 16), func(a *program.Attr) {
			a.Dimensions = []int64{0}
			groups(a, []int64{0, 2}, []int64{1, 3})
		}, x))
	}),
	replicas("ragged-all-to-all", []string{"ragged_all_to_all_expander"}, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.F32, 16, 128)), b.Param(hlo.ArrayShape(hlo.F32, 16, 128))
		at := func() value { return b.Param(hlo.ArrayShape(hlo.S32, 4)) }
		b.Out(b.Op(hlo.OpRaggedAllToAll, func(a *program.Attr) { groups(a, []int64{0, 1, 2, 3}) }, x, y, at(), at(), at(), at()))
	}),
})

func toHost(b *builder, x value) value   { return b.Custom("MoveToHost", x.Shape, nil, nil, x) }
func toDevice(b *builder, x value) value { return b.Custom("MoveToDevice", x.Shape, nil, nil, x) }

// hostMemory is the memory space of the host (xla/layout.h, kHostMemorySpace).
const hostMemory = 5

// hostShape is an array in the host's memory, in the tiles of a TPU.
func hostShape(t hlo.PrimitiveType, dims ...int64) *hlo.Shape {
	s := hlo.ArrayShape(t, dims...)
	s.Layout = hlo.DefaultLayout(len(dims))
	s.Layout.Tiles, s.Layout.MemorySpace = [][]int64{{8, 128}}, hostMemory
	return s
}

// ownPart is the quarter of x, by dimension 0 of two, that has the replica's
// number.
func ownPart(b *builder, x value) value {
	n := x.Shape.Dims[0] / 4
	at := b.Mul(b.Op(hlo.OpReplicaId, nil), b.Number(hlo.U32, float64(n)))
	return b.DynamicSlice(x, []int64{n, x.Shape.Dims[1]}, at, b.Number(hlo.U32, 0))
}
