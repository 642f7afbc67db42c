package patterns

import (
	"github.com/passgate/passgate/fuzz/program"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// scans are the scan operation, which builds from 2026 on know: with carries of
// every rank, in both directions, associative or not, of one step and many, and
// with carries that somebody reads or nobody does (scan_expander.cc;
// reduce_window_rewriter.cc, TryOptimizeAssociativeScan).
var scans = of("scan", nil, []Pattern{
	scan("running", func(b *builder) {
		x := b.Source(b.Num(), b.Size(2), b.Size(2))
		b.Out(b.Element(scanOf(b, x, b.R.IntN(2), scanForm{op: monoid(b, x), reverse: b.Chance(2)}), 0))
	}, "scan_expander"),
	scan("running-and-last", func(b *builder) {
		x := b.Source(b.Num(), b.Size(2), b.Size(2))
		b.Out(b.Elements(scanOf(b, x, b.R.IntN(2), scanForm{op: monoid(b, x), reverse: b.Chance(2), from: b.Chance(2)}))...)
	}, "scan_expander"),
	scan("vector", func(b *builder) {
		x := b.Source(b.Num(), b.Size(2))
		b.Out(b.Elements(scanOf(b, x, 0, scanForm{op: monoid(b, x), reverse: b.Chance(2), from: b.Chance(2)}))...)
	}, "scan_expander"),
	scan("one-step", func(b *builder) {
		x := b.Source(b.Num(), 1, b.Size(2))
		b.Out(b.Elements(scanOf(b, x, 0, scanForm{op: monoid(b, x), reverse: b.Chance(2), associative: b.Chance(2), from: true}))...)
	}, "scan_expander"),
	scan("not-commutative", func(b *builder) {
		x := b.Source(b.Num(), b.Size(2), 3)
		b.Out(b.Elements(scanOf(b, x, 0, scanForm{op: hlo.OpSubtract, reverse: b.Chance(2), from: true}))...)
	}, "scan_expander"),
	scan("associative", func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.S32), program.Pick[int64](b, 3, 8, 33), int64(b.Between(1, 3)))
		b.Out(b.Element(scanOf(b, x, 0, scanForm{op: program.Pick(b, hlo.OpAdd, hlo.OpMaximum, hlo.OpMultiply), associative: true}), 0))
	}, "associative-scan-rewriter"),
	scan("associative-vector", func(b *builder) {
		x := b.Source(program.Pick(b, hlo.F32, hlo.S32, hlo.F64), program.Pick[int64](b, 2, 16, 17, 40, 100))
		b.Out(b.Element(scanOf(b, x, 0, scanForm{op: program.Pick(b, hlo.OpAdd, hlo.OpMinimum), associative: true}), 0))
	}, "associative-scan-rewriter"),
	scan("associative-backward", func(b *builder) {
		x := b.Source(hlo.S32, program.Pick[int64](b, 5, 20), 2)
		b.Out(b.Elements(scanOf(b, x, 0, scanForm{op: hlo.OpAdd, associative: true, reverse: true}))...)
	}, "scan_expander"),
})

func scan(name string, build func(b *builder), passes ...string) Pattern {
	return Pattern{Name: name, Passes: passes, Narrow: true, Build: build}
}

// scanForm is the form of a scan: from starts the carry at a value of the
// program instead of the neutral one.
type scanForm struct {
	op                         hlo.Opcode
	reverse, associative, from bool
}

// scanOf is the tuple (running results, last carry) of a scan of x along dim:
// step i combines the carry with slice i by f.op.
func scanOf(b *builder, x value, dim int, f scanForm) value {
	rest := append(append([]int64{}, x.Shape.Dims[:dim]...), x.Shape.Dims[dim+1:]...)
	part := hlo.ArrayShape(x.Shape.Type, rest...)
	var init value
	switch {
	case f.from:
		init = b.Source(x.Shape.Type, rest...)
	default:
		init = b.Splat(b.Number(x.Shape.Type, program.Neutral(f.op, x.Shape.Type)), rest...)
	}
	step := b.Region("step", []*hlo.Shape{part, part}, func(a []value) value {
		r := b.Bin(f.op, a[1], a[0])
		return b.Tuple(r, r)
	})
	return b.With(hlo.OpScan, nil, func(a *program.Attr) {
		a.Dimensions, a.NumCarries, a.IsReverse = []int64{int64(dim)}, 1, f.reverse
		a.IsAssociative = hlopb.TriState_TRI_STATE_FALSE
		if f.associative {
			a.IsAssociative = hlopb.TriState_TRI_STATE_TRUE
		}
	}, []*hlo.Computation{step}, x, init)
}

// markers are custom-calls that mean something to a pass early in the pipeline
// and to nothing behind it.
var markers = of("marker", nil, []Pattern{
	marker("placement", "strip-memory-placement-annotations", func(b *builder) {
		x := arr(b)
		y := b.Custom(program.Pick(b, "annotate_device_placement", "MoveToHost", "MoveToDevice"), x.Shape, nil, nil, x)
		b.Out(b.Neg(y))
	}),
	marker("placement-of-the-result", "strip-memory-placement-annotations", func(b *builder) {
		x := b.Source(hlo.F32, b.Size(2))
		b.Out(b.Custom("annotate_device_placement", x.Shape, nil, nil, b.Mul(x, x)))
	}),
	marker("control", "control-dep-rewriter", func(b *builder) {
		x := b.Source(hlo.F32, 8)
		y, z := b.Neg(x), b.Un(hlo.OpTanh, x)
		b.Custom("control_dep", hlo.TupleShape(), func(a *program.Attr) { a.CustomCallHasSideEffect = true }, nil, y, z)
		b.Out(y, z)
	}),
	marker("permute", "async-collective-custom-call-rewriter", func(b *builder) {
		x := b.Source(hlo.F32, b.Size(2))
		b.Out(started(b, "collective-permute", x, x.Shape, `{"permutation":[[0,0]]}`, nil))
	}),
	marker("all-gather", "async-collective-custom-call-rewriter", func(b *builder) {
		x := b.Source(hlo.F32, b.Size(2), 3)
		b.Out(started(b, "all-gather", x, x.Shape, `{"replica_groups":[[0]],"all_gather_dimension":0}`, nil))
	}),
	marker("all-reduce", "async-collective-custom-call-rewriter", func(b *builder) {
		x := b.Source(hlo.F32, b.Size(2))
		b.Out(started(b, "all-reduce", x, x.Shape, `{"replica_groups":[[0]]}`, []*hlo.Computation{b.Reducer(hlo.OpAdd, hlo.F32)}))
	}),
})

func marker(name, pass string, build func(b *builder)) Pattern {
	return Pattern{Name: name, Passes: []string{pass}, Narrow: true, Build: build}
}

// started is a collective written as a pair of custom-calls
// (async_collective_custom_call_rewriter.cc).
func started(b *builder, base string, x value, s *hlo.Shape, config string, called []*hlo.Computation) value {
	start := b.Custom(base+"-start", s, func(a *program.Attr) {
		a.CustomCallApiVersion = hlopb.CustomCallApiVersion_API_VERSION_STATUS_RETURNING_UNIFIED
		a.BackendConfig = []byte(config)
	}, called, x)
	return b.Custom(base+"-done", s, nil, nil, start)
}
