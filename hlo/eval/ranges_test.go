package eval

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/hlo"
)

// TestRangesAreSound draws ranges, and members of them: an operation on the
// members must lie in the result of the operation on the ranges.
func TestRangesAreSound(t *testing.T) {
	types := []hlo.PrimitiveType{hlo.S8, hlo.U8, hlo.S32, hlo.U32, hlo.S64, hlo.S4}
	binary := []hlo.Opcode{hlo.OpAdd, hlo.OpSubtract, hlo.OpMultiply, hlo.OpMaximum, hlo.OpMinimum, hlo.OpAnd, hlo.OpOr, hlo.OpXor,
		hlo.OpDivide, hlo.OpRemainder, hlo.OpShiftRightArithmetic, hlo.OpShiftRightLogical, hlo.OpShiftLeft, hlo.OpPower}
	unary := []hlo.Opcode{hlo.OpNegate, hlo.OpNot, hlo.OpAbs, hlo.OpSign, hlo.OpPopcnt}
	directions := []string{"EQ", "NE", "LT", "LE", "GT", "GE"}
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(t, "type")
		n := Numerics{Bounds: true}
		draw := func(label string) (set Scalar, member int64) {
			v := rapid.OneOf(rapid.Int64Range(-12, 12), rapid.Int64Range(minInt(typ), maxInt(typ))).Draw(t, label)
			v = max(minInt(typ), min(v, maxInt(typ)))
			w := v + rapid.Int64Range(0, 5).Draw(t, label+" width")
			w = max(v, min(w, maxInt(typ)))
			if rapid.IntRange(0, 2).Draw(t, label+" kind") == 0 { // masks of low and high bits, powers of two
				k := rapid.IntRange(0, typ.Bits()-1).Draw(t, label+" bit")
				v = typ.Canonical(rapid.SampledFrom([]int64{1<<k - 1, -1 << k, 1 << k}).Draw(t, label+" mask"))
				return Scalar{I: v}, v
			}
			if rapid.IntRange(0, 9).Draw(t, label+" open") == 0 {
				return Scalar{Undecided: true}, v
			}
			return ranged(typ, v, w, 0), rapid.Int64Range(v, w).Draw(t, label+" member")
		}
		x, xm := draw("x")
		y, ym := draw("y")
		check := func(what string, rt hlo.PrimitiveType, set, member Scalar) {
			a := NewArray(rt)
			a.Set(0, set)
			if a.Legal(0, member) == Out {
				t.Fatalf("%s of %v in %s and %v in %s is %s, not in %s", what, xm, fill1(typ, x), ym, fill1(typ, y), ScalarString(rt, member), a.LegalSet(0))
			}
		}
		op := rapid.SampledFrom(binary).Draw(t, "op")
		check(op.String(), typ, n.Binary(op, typ, x, y), n.Binary(op, typ, Scalar{I: xm}, Scalar{I: ym}))
		op = rapid.SampledFrom(unary).Draw(t, "unary")
		check(op.String(), typ, n.Unary(op, typ, x), n.Unary(op, typ, Scalar{I: xm}))
		dir := rapid.SampledFrom(directions).Draw(t, "direction")
		check(dir, hlo.Pred, n.Compare(dir, false, typ, x, y), n.Compare(dir, false, typ, Scalar{I: xm}, Scalar{I: ym}))
		check("select", typ, n.Select(Scalar{Undecided: true}, typ, x, y), Scalar{I: ym})
		check("select", typ, n.Select(Scalar{Undecided: true}, typ, x, y), Scalar{I: xm})
		for _, to := range []hlo.PrimitiveType{hlo.S8, hlo.U16, hlo.S32, hlo.F32, hlo.BF16} {
			check("convert", to, n.Convert(typ, to, x), n.Convert(typ, to, Scalar{I: xm}))
		}
		s, d := n.NewSum(typ), n.NewSum(typ)
		s.Add(x)
		s.AddProduct(x, y)
		d.Add(Scalar{I: xm})
		d.AddProduct(Scalar{I: xm}, Scalar{I: ym})
		check("x+x*y", typ, s.Result(), d.Result())

		for _, to := range []hlo.PrimitiveType{hlo.S32, hlo.U32, hlo.F32} {
			if typ.Bits() == 32 {
				check("bitcast", to, n.BitcastConvert(typ, to, x), n.BitcastConvert(typ, to, Scalar{I: xm}))
			}
		}

		// From an uncertain float.
		c := rapid.Float64Range(-300, 300).Draw(t, "c")
		if c == 0 {
			c = 1 // the signs of exact zeros are another matter
		}
		e := rapid.Float64Range(0, 3).Draw(t, "e")
		m := c + e*rapid.Float64Range(-1, 1).Draw(t, "place")
		check("bits", hlo.S64, n.BitcastConvert(hlo.F64, hlo.S64, Scalar{Re: Num{C: c, E: e}}), n.BitcastConvert(hlo.F64, hlo.S64, Scalar{Re: Num{C: m}}))
		w := hlo.F32.Format().Round(m)
		check("bits", hlo.U32, n.BitcastConvert(hlo.F32, hlo.U32, Scalar{Re: Num{C: c, E: e + 1e-4}}), n.BitcastConvert(hlo.F32, hlo.U32, Scalar{Re: Num{C: w}}))
		check("truncation", typ, n.Convert(hlo.F64, typ, Scalar{Re: Num{C: c, E: e}}), n.Convert(hlo.F64, typ, Scalar{Re: Num{C: m}}))
	})
}

func fill1(t hlo.PrimitiveType, s Scalar) string { return Fill(s, t).LegalSet(0) }

// TestRangesReachIndices follows an uncertain index into the slices that it
// picks.
func TestRangesReachIndices(t *testing.T) {
	m := parseModule(t, `ENTRY e {
  f = f32[] parameter(0)
  x = s32[6] parameter(1)
  i = s32[] convert(f)
  two = s32[] constant(2)
  j = s32[] add(i, two)
  a = s32[1] dynamic-slice(x, j), dynamic_slice_sizes={1}
  jj = s32[1] reshape(j)
  b = s32[1] gather(x, jj), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  u = s32[1] broadcast(two), dimensions={}
  c = s32[6] dynamic-update-slice(x, u, j)
  ROOT r = (s32[], s32[1], s32[1], s32[6]) tuple(j, a, b, c)
}`)
	f := NewArray(hlo.F32)
	f.Set(0, Scalar{Re: Num{C: 1, E: 0.25}})
	v, err := Run(t.Context(), m, append([]*Value{arrayValue(f)}, parseValues(t, "s32[6] {10, 20, 30, 41, 52, 63}")...), Options{Bounds: true})
	if err != nil {
		t.Fatal(err)
	}
	// f is in [0.75, 1.25], i in {0, 1}, j in {2, 3}.
	want := "s32[] [2..3]\ns32[1] [30..41]\ns32[1] [30..41]\ns32[6] {10} {20} [2..30] [2..41] {52} {63}\n"
	if got := describe(v); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
