package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// buffers are about memory: copies, aliases, donation, layouts, fusions with
// updates in place, work that is split over threads.
var buffers = of("buffer", []string{"copy-insertion"}, []Pattern{
	loop("passes-through", []string{"layout-assignment"}, func(b *builder) {
		x := arr(b)
		b.Out(x, b.Neg(x))
	}),
	loop("one-value-twice", nil, func(b *builder) {
		x := arr(b)
		y := b.Neg(x)
		b.Out(y)
		t := b.Tuple(y, y)
		b.Out(b.Element(t, 0))
	}),
	alone("alias", []string{"optimize_input_output_buffer_alias"}, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.F32, 6)), b.Param(hlo.ArrayShape(hlo.F32, 6))
		b.Out(b.Add(x, y), b.Sub(x, y))
		b.Alias([]int64{int64(b.R.IntN(2))}, int64(b.R.IntN(2)), b.Chance(2))
	}),
	alone("alias-swapped", nil, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.F32, 6)), b.Param(hlo.ArrayShape(hlo.F32, 6))
		b.Out(y, b.Mul(x, y), x)
		b.Alias([]int64{0}, 0, false)
		b.Alias([]int64{2}, 1, false)
	}),
	alone("donor", []string{"optimize_input_output_buffer_alias"}, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.F32, 6)), b.Param(hlo.ArrayShape(hlo.S32, 4))
		b.Out(b.Add(x, x), b.Neg(y))
		b.Donate(int64(b.R.IntN(2)))
	}),
	alone("alias-update-in-place", []string{"fusion"}, func(b *builder) {
		x, u, i := b.Param(hlo.ArrayShape(hlo.F32, 8)), b.Param(hlo.ArrayShape(hlo.F32, 3)), b.Param(hlo.ArrayShape(hlo.S32))
		r := b.DynamicUpdateSlice(x, b.Add(u, b.DynamicSlice(x, []int64{3}, i)), i)
		b.Out(r, b.Slice(x, []int64{0}, []int64{2}, nil))
		b.Alias([]int64{0}, 0, false)
	}),
	alone("alias-loop", nil, func(b *builder) {
		x, y := b.Param(hlo.ArrayShape(hlo.F32, 4)), b.Param(hlo.ArrayShape(hlo.F32, 4))
		r := b.For(hlo.S32, 0, 1, 3, []value{x, y}, func(i value, s []value) []value { return []value{s[1], b.Add(s[0], s[1])} })
		b.Out(r...)
		b.Alias([]int64{0}, 0, false)
	}),
	loop("layout-change", []string{"layout-assignment", "algsimp"}, func(b *builder) {
		x := b.Source(b.Num(), 3, 4)
		b.Out(b.Neg(b.Copy(b.Neg(x), 0, 1)))
	}),
	loop("layout-reshape", []string{"reshape-decomposer", "layout-assignment"}, func(b *builder) {
		x := b.Transpose(b.Source(b.Num(), 3, 4, 2), 2, 1, 0)
		b.Out(b.Reshape(b.Neg(x), program.Pick(b, []int64{24}, []int64{8, 3}, []int64{2, 12})...))
	}),
	loop("layout-of-results", []string{"layout-assignment"}, func(b *builder) {
		x := b.Source(hlo.F32, 5, 4)
		b.Out(b.MatMul(b.Transpose(x, 1, 0), x), b.Transpose(x, 1, 0))
	}),
	loop("updates-in-a-row", []string{"fusion", "fusion-wrapper"}, func(b *builder) {
		x := b.Source(hlo.F32, 10)
		y := b.Add(x, x)
		for range 3 {
			y = b.DynamicUpdateSlice(y, b.Source(hlo.F32, 2), b.IndexOf(hlo.S32, 10))
		}
		b.Out(b.Mul(y, y))
	}),
	loop("update-reads-itself", []string{"fusion"}, func(b *builder) {
		x := b.Neg(b.Source(hlo.F32, 10))
		s := b.Slice(x, []int64{1}, []int64{9}, nil)
		b.Out(b.DynamicUpdateSlice(x, b.Add(s, s), b.Number(hlo.S32, 0)), b.Neg(s))
	}),
	loop("elementwise-chain", []string{"fusion", "fusion-wrapper"}, func(b *builder) {
		x := b.Source(b.Float(), b.Full(2)...)
		y := x
		for range b.Between(3, 6) {
			y = b.Un(program.Pick(b, hlo.OpNegate, hlo.OpTanh, hlo.OpAbs, hlo.OpFloor), b.Add(y, like(b, x)))
		}
		b.Out(y)
	}),
	loop("producer-shared", []string{"fusion", "cpu_multi_output_fusion", "tpu_multi_output_fusion"}, func(b *builder) {
		x := b.Source(hlo.F32, 6, 5)
		y := b.Mul(x, x)
		b.Out(b.Reduce(hlo.OpAdd, y, 1), b.Reduce(hlo.OpMaximum, y, 1), b.Neg(y))
	}),
	loop("fusion-of-moves", []string{"fusion"}, func(b *builder) {
		x := b.Source(b.Num(), 4, 6)
		y := b.Concat(0, b.Reverse(x, 1), b.Pad(x, b.Number(x.Shape.Type, 0), program.Padding{Low: 1}, program.Padding{}))
		b.Out(b.Add(b.Transpose(y, 1, 0), b.Constant(x.Shape.Type, 6, 9)))
	}),
	loop("already-fused", []string{"fusion", "fusion_constant_sinking"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		f := b.Fusion("kLoop", []value{x, b.Splat(b.Number(hlo.F32, 2), 8)}, func(a []value) value { return b.Mul(a[0], a[1]) })
		b.Out(b.Add(f, x))
	}),
	loop("parallel", []string{"cpu-parallel-task-assigner"}, func(b *builder) {
		x := b.Source(hlo.F32, 256, 256)
		b.Out(b.Un(hlo.OpTanh, b.Add(x, x)))
	}),
	loop("parallel-reduce", []string{"cpu-parallel-task-assigner"}, func(b *builder) {
		x := b.Source(hlo.F32, 512, 256)
		b.Out(b.Reduce(hlo.OpAdd, b.Un(hlo.OpExponential, x), 1))
	}),
	loop("reshape-of-operands", []string{"reshape-mover"}, func(b *builder) {
		x := b.Source(b.Num(), 3, 4)
		b.Out(b.Add(b.Reshape(x, 12), b.Reshape(like(b, x), 12)))
	}),
	loop("transpose-of-operands", []string{"reshape-mover", "algsimp"}, func(b *builder) {
		x := b.Source(hlo.F32, 3, 4)
		p := b.Source(hlo.Pred, 3, 4)
		t := func(v value) value { return b.Reshape(v, 4, 3) }
		b.Out(b.Select(t(p), t(x), t(like(b, x))))
	}),
	loop("broadcast-order", []string{"broadcast_canonicalizer"}, func(b *builder) {
		x := b.Source(b.Num(), 3, 4)
		b.Out(b.Add(b.Broadcast(x, []int64{4, 2, 3}, 2, 0), b.Source(x.Shape.Type, 4, 2, 3)))
	}),
	loop("broadcast-order-for-a-dot", []string{"broadcast_canonicalizer"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 5)
		b.Out(b.MatMul(b.Broadcast(x, []int64{2, 5, 4}, 2, 1), b.Source(hlo.F32, 2, 4, 3)))
	}),
	loop("pad-slice", []string{"pad-slice-mover"}, func(b *builder) {
		x := b.Source(hlo.F32, 6, 4)
		p := b.Pad(x, b.Number(hlo.F32, 0), program.Padding{Low: 1, High: 1}, program.Padding{})
		b.Out(b.Slice(b.Neg(p), []int64{0, 0}, []int64{4, 4}, nil), b.Slice(b.Neg(p), []int64{2, 0}, []int64{8, 4}, nil))
	}),
	loop("dead-update", []string{"dead-dus-elimination", "algsimp"}, func(b *builder) {
		x := b.Source(hlo.F32, 8)
		y := b.DynamicUpdateSlice(x, b.Source(hlo.F32, 3), b.Number(hlo.S32, 2))
		b.Out(b.DynamicUpdateSlice(y, b.Source(hlo.F32, 3), b.Number(hlo.S32, 2)))
	}),
})

func alone(name string, passes []string, build func(b *builder)) Pattern {
	return Pattern{Name: name, Passes: passes, Build: build, Alone: true}
}

// collectives on one device, and on two replicas.
var collectives = of("collective", nil, []Pattern{
	loop("all-reduce", []string{"all-reduce-simplifier", "algsimp"}, func(b *builder) {
		x := b.Source(hlo.F32, 6)
		b.Out(allReduce(b, x, hlo.OpAdd))
	}),
	loop("all-reduce-narrow", []string{"all-reduce-promotion"}, func(b *builder) {
		x := b.Source(hlo.BF16, 6)
		b.Out(allReduce(b, x, program.Pick(b, hlo.OpAdd, hlo.OpMaximum)))
	}),
	loop("all-reduces", []string{"cpu-all-reduce-combiner", "all-reduce-combiner", "all-reduce-reassociate"}, func(b *builder) {
		x, y := b.Source(hlo.F32, 6), b.Source(hlo.F32, 3, 4)
		b.Out(allReduce(b, b.Neg(x), hlo.OpAdd), allReduce(b, b.Neg(y), hlo.OpAdd))
	}),
	loop("all-to-all", []string{"all_to_all_decomposer"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 3)
		b.Out(b.Op(hlo.OpAllToAll, func(a *program.Attr) { a.Dimensions = []int64{0}; groups(a, []int64{0}) }, x))
	}),
	loop("all-gather", []string{"all-gather-simplifier", "all_gather_decomposer"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 3)
		b.Out(b.Shaped(hlo.OpAllGather, x.Shape, func(a *program.Attr) { a.Dimensions = []int64{0}; groups(a, []int64{0}) }, x))
	}),
	loop("reduce-scatter", []string{"reduce-scatter-decomposer"}, func(b *builder) {
		x := b.Source(hlo.F32, 4, 3)
		b.Out(b.With(hlo.OpReduceScatter, x.Shape, func(a *program.Attr) { a.Dimensions = []int64{0}; groups(a, []int64{0}) }, []*hlo.Computation{b.Reducer(hlo.OpAdd, hlo.F32)}, x))
	}),
	loop("collective-permute", []string{"collective-permute-legalizer"}, func(b *builder) {
		x := b.Source(hlo.F32, 4)
		b.Out(b.Op(hlo.OpCollectivePermute, func(a *program.Attr) { a.SourceTargetPairs = []*hlopb.SourceTarget{{}} }, x))
	}),
	loop("all-reduce-started", []string{"async-collective-replacer"}, func(b *builder) {
		x := b.Source(hlo.F32, 6)
		s := b.With(hlo.OpAllReduceStart, nil, func(a *program.Attr) { groups(a, []int64{0}) }, []*hlo.Computation{b.Reducer(hlo.OpAdd, hlo.F32)}, x)
		b.Out(b.Op(hlo.OpAllReduceDone, nil, s))
	}),
	loop("sharding", []string{"sharding-remover"}, func(b *builder) {
		x := b.Source(hlo.F32, 6)
		c := b.Custom("Sharding", x.Shape, func(a *program.Attr) { a.Sharding = &hlopb.OpSharding{Type: hlopb.OpSharding_REPLICATED} }, nil, b.Neg(x))
		b.Out(b.Neg(c))
	}),
	loop("replica-id", []string{"algsimp", "constant_folding"}, func(b *builder) {
		x := b.Source(hlo.U32, 4)
		r := b.Op(program.Pick(b, hlo.OpReplicaId, hlo.OpPartitionId), nil)
		b.Out(b.Add(x, b.Splat(r, 4)))
	}),
})

// groups are the replica groups of a collective on one device.
func groups(a *program.Attr, ids ...[]int64) {
	l := &hlopb.CollectiveDeviceListProto{}
	for _, g := range ids {
		l.ReplicaGroups = append(l.ReplicaGroups, &hlopb.ReplicaGroup{ReplicaIds: g})
	}
	a.ReplicaGroupList = &hlopb.HloInstructionProto_CollectiveDeviceList{CollectiveDeviceList: l}
}

func allReduce(b *builder, x value, op hlo.Opcode) value {
	return b.With(hlo.OpAllReduce, nil, func(a *program.Attr) { groups(a, []int64{0}) }, []*hlo.Computation{b.Reducer(op, x.Shape.Type)}, x)
}

// replicated are collectives of four replicas: a build for one device refuses
// them, and the reference does not evaluate them.
var replicated = of("replicas", nil, []Pattern{
	replicas("all-reduce", []string{"tpu-all-reduce-legalizer", "async-collective-fusion"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		b.Out(b.Neg(reduceAll(b, b.Neg(x))))
	}),
	replicas("all-reduces", []string{"all-reduce-combiner", "all-reduce-reassociate"}, func(b *builder) {
		x, y := b.Source(hlo.F32, 16, 128), b.Source(hlo.F32, 16, 128)
		b.Out(b.Add(reduceAll(b, b.Neg(x)), reduceAll(b, b.Mul(y, y))), reduceAll(b, b.Add(x, y)))
	}),
	replicas("all-reduce-of-the-same", []string{"all-reduce-simplifier"}, func(b *builder) {
		b.Out(reduceAll(b, reduceAll(b, b.Source(hlo.F32, 8, 128))), reduceAll(b, b.Splat(b.Number(hlo.F32, 2), 8, 128)))
	}),
	replicas("all-reduce-slice", []string{"tpu-all-reduce-scatter-fusion", "all-reduce-reduce-scatter-reorder"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		r := reduceAll(b, b.Neg(x))
		id := b.Mul(b.Convert(b.Op(hlo.OpReplicaId, nil), hlo.S32), b.Number(hlo.S32, 4))
		b.Out(b.DynamicSlice(r, []int64{4, 128}, id, b.Number(hlo.S32, 0)))
	}),
	replicas("all-gather", []string{"tpu-all-gather-normalizer", "all_gather_decomposer", "all-gather-simplifier"}, func(b *builder) {
		b.Out(b.Neg(gatherAll(b, b.Neg(b.Source(hlo.F32, 8, 128)), int64(b.R.IntN(2)))))
	}),
	replicas("all-gathers", []string{"tpu-all-gather-combiner"}, func(b *builder) {
		b.Out(gatherAll(b, b.Neg(b.Source(hlo.F32, 8, 128)), 0), gatherAll(b, b.Neg(b.Source(hlo.F32, 4, 128)), 0))
	}),
	replicas("all-gather-broadcast", []string{"all-gather-bcast-reorder"}, func(b *builder) {
		b.Out(gatherAll(b, b.Broadcast(b.Source(hlo.F32, 8, 128), []int64{8, 2, 128}, 0, 2), 0))
	}),
	replicas("all-to-all", []string{"all-to-all-compaction", "all_to_all_decomposer"}, func(b *builder) {
		x := b.Source(hlo.F32, 16, 128)
		b.Out(b.Op(hlo.OpAllToAll, func(a *program.Attr) { a.Dimensions = []int64{0}; groups(a, []int64{0, 1, 2, 3}) }, b.Neg(x)))
	}),
	replicas("reduce-scatter", []string{"reduce-scatter-decomposer", "reduce-scatter-reassociate"}, func(b *builder) {
		b.Out(b.Add(scatterAll(b, b.Source(hlo.F32, 16, 128)), scatterAll(b, b.Neg(b.Source(hlo.F32, 16, 128)))))
	}),
	replicas("permute", []string{"collective-permute-legalizer", "tpu_async_collective_creator"}, func(b *builder) {
		x := b.Neg(b.Source(hlo.F32, 8, 128))
		b.Out(b.Neg(b.Op(hlo.OpCollectivePermute, func(a *program.Attr) {
			for i := range int64(4) {
				a.SourceTargetPairs = append(a.SourceTargetPairs, &hlopb.SourceTarget{Source: i, Target: (i + 1) % 4})
			}
		}, x)))
	}),
	replicas("all-reduce-overlapped", []string{"async-collective-fusion", "async-collective-merger", "async-collective-type-fixer"}, func(b *builder) {
		x, y := b.Source(hlo.F32, 256, 256), b.Source(hlo.F32, 256, 256)
		g := gatherAll(b, b.Neg(b.Source(hlo.BF16, 64, 256)), 0)
		b.Out(reduceAll(b, b.Neg(x)), b.MatMul(y, y), b.MatMul(b.Convert(g, hlo.F32), y))
	}),
})

// replicas is a program for four replicas.
func replicas(name string, passes []string, build func(b *builder)) Pattern {
	return Pattern{Name: name, Passes: passes, Alone: true, Narrow: true, Platform: TPU, Build: func(b *builder) {
		b.Module().ReplicaCount = 4
		build(b)
	}}
}

func reduceAll(b *builder, x value) value {
	return b.With(hlo.OpAllReduce, nil, func(a *program.Attr) { groups(a, []int64{0, 1, 2, 3}) }, []*hlo.Computation{b.Reducer(hlo.OpAdd, x.Shape.Type)}, x)
}

func gatherAll(b *builder, x value, dim int64) value {
	s := hlo.ArrayShape(x.Shape.Type, with(x.Shape.Dims, int(dim), 4*x.Shape.Dims[dim])...)
	return b.Shaped(hlo.OpAllGather, s, func(a *program.Attr) { a.Dimensions = []int64{dim}; groups(a, []int64{0, 1, 2, 3}) }, x)
}

func scatterAll(b *builder, x value) value {
	s := hlo.ArrayShape(x.Shape.Type, with(x.Shape.Dims, 0, x.Shape.Dims[0]/4)...)
	return b.With(hlo.OpReduceScatter, s, func(a *program.Attr) { a.Dimensions = []int64{0}; groups(a, []int64{0, 1, 2, 3}) }, []*hlo.Computation{b.Reducer(hlo.OpAdd, x.Shape.Type)}, x)
}
