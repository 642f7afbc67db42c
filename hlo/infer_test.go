package hlo

import (
	"strings"
	"testing"
)

// TestInferredResults pins results that the well-formed modules do not show:
// dynamic and unbounded dimensions, layouts, and forms with several operands.
// The last instruction is inferred.
func TestInferredResults(t *testing.T) {
	const before = `HloModule m, replica_count=2
add { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT s = f32[] add(x, y) }
add2 { xa = f32[] parameter(0)
 xb = s32[] parameter(1)
 ya = f32[] parameter(2)
 yb = s32[] parameter(3)
 sa = f32[] add(xa, ya)
 sb = s32[] add(xb, yb)
 ROOT st = (f32[], s32[]) tuple(sa, sb) }
step { in = f32[3] parameter(0)
 car = f32[3] parameter(1)
 out = f32[3] add(in, car)
 ROOT both = (f32[3], f32[3]) tuple(out, out) }
four { ROOT f4 = f32[4] parameter(0) }
upto { f5 = f32[4] parameter(0)
 n5 = s32[] constant(2)
 ROOT d5 = f32[<=4] set-dimension-size(f5, n5), dimensions={0} }
ENTRY e {
  f = f32[4,6] parameter(0)
  ft = f32[4,6]{0,1} parameter(1)
  dy = f32[<=4,6] parameter(2)
  dz = f32[<=8,6] parameter(3)
  un = f32[?,6] parameter(4)
  i = s32[4,6] parameter(5)
  k = s32[] constant(1)
  s = f32[] constant(1)
  h = bf16[4,6] parameter(6)
  v = f32[4] parameter(7)
  p = pred[] constant(true)
  pd = pred[<=4,6] parameter(8)
  ud = u16[4,6] parameter(9)
  se = f32[5,3] parameter(10)
  s0 = f32[3] parameter(11)
  x1 = f32[1,6] parameter(12)
  gi = s32[2,<=3,1] parameter(13)
  w = u32[] constant(1)
  b = b(f32[4,6]) parameter(14)
  ROOT last = `
	for _, row := range []struct{ text, want string }{
		{"add(f, ft)", "f32[4,6]{1,0}"},
		{"add(ft, f)", "f32[4,6]{0,1}"},
		{"add(f, h)", "f32[4,6]{1,0}"},
		{"add(f, dy)", "f32[<=4,6]{1,0}"},
		{"add(un, dy)", "f32[<=4,6]{1,0}"},
		{"add(un, f)", "f32[4,6]{1,0}"},
		{"add(x1, un)", "f32[?,6]{1,0}"},
		{"add(un, x1)", "f32[?,6]{1,0}"},
		{"add(f, s)", "f32[4,6]{1,0}"},
		{"add(s, f)", "f32[4,6]{1,0}"},
		{"maximum(un, un)", "f32[?,6]{1,0}"},
		{"compare(ft, f), direction=LT", "pred[4,6]{0,1}"},
		{"select(pd, f, f)", "f32[<=4,6]{1,0}"},
		{"select(p, f, ft)", "f32[4,6]{1,0}"},
		{"select(p, un, f)", "f32[4,6]{1,0}"},
		{"select(p, un, un)", "f32[?,6]{1,0}"},
		{"clamp(s, ft, s)", "f32[4,6]{0,1}"},
		{"transpose(ft), dimensions={1,0}", "f32[6,4]{1,0}"},
		{"transpose(dy), dimensions={1,0}", "f32[6,<=4]{0,1}"},
		{"concatenate(dy, dz), dimensions={0}", "f32[<=12,6]{1,0}"},
		{"concatenate(dy, f), dimensions={0}", "f32[<=8,6]{1,0}"},
		{"concatenate(f, un), dimensions={0}", "f32[?,6]{1,0}"},
		{"concatenate(dy, f), dimensions={1}", "f32[<=4,12]{1,0}"},
		{"concatenate(h, f), dimensions={1}", "f32[4,12]{1,0}"},
		{"pad(dy, s), padding=1_1_1x0_0", "f32[<=9,6]{1,0}"},
		{"pad(un, s), padding=1_1_1x0_0", "f32[?,6]{1,0}"},
		{"f32[<=2,6] slice(dy), slice={[0:2],[0:6]}", "f32[<=2,6]{1,0}"},
		{"f32[1,6] slice(dy), slice={[0:1],[0:6]}", "f32[1,6]{1,0}"},
		{"f32[<=4,2] dynamic-slice(dy, k, k), dynamic_slice_sizes={4,2}", "f32[<=4,2]{1,0}"},
		{"f32[3,2] dynamic-slice(dy, k, k), dynamic_slice_sizes={3,2}", "f32[3,2]{1,0}"},
		{"f32[<=4,6] dynamic-update-slice(f, dy, k, k)", "f32[<=4,6]{1,0}"},
		{"b(f32[4,6]) dynamic-update-slice(b, f, k, k)", "b(f32[4,6]{1,0})"},
		{"f32[<=4,6] set-dimension-size(f, k), dimensions={0}", "f32[<=4,6]{1,0}"},
		{"topk(dy), k=2", "(f32[<=4,2]{1,0}, s32[<=4,2]{1,0})"},
		{"dot(dy, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "f32[6]{0}"},
		{"dot(dy, f), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "f32[<=4,4]{1,0}"},
		{"dot(h, f), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "f32[4,4]{1,0}"},
		{"reduce(dy, s), dimensions={1}, to_apply=add", "f32[<=4]{0}"},
		{"reduce(f, i, s, k), dimensions={0}, to_apply=add2", "(f32[6]{0}, s32[6]{0})"},
		{"reduce-window(dy, s), window={size=1x2}, to_apply=add", "f32[<=4,5]{1,0}"},
		{"reduce-window(un, s), window={size=2x2}, to_apply=add", "f32[?,5]{1,0}"},
		{"scan(se, s0), dimensions={0}, num_carries=1, to_apply=step", "(f32[5,3]{1,0}, f32[3]{0})"},
		{"conditional(p, v, v), true_computation=four, false_computation=upto", "f32[<=4]{0}"},
		{"gather(dy, gi), offset_dims={2,3}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=2, slice_sizes={4,1}", "f32[2,<=3,<=4,1]{3,2,1,0}"},
		{"f32[8,6] all-gather(f), dimensions={0}, replica_groups={{0,1}}", "f32[8,6]{1,0}"},
		{"(f32[8,6], s32[8,6]) all-gather(f, i), dimensions={0}, replica_groups={{0,1}}", "(f32[8,6]{1,0}, s32[8,6]{1,0})"},
		{"((f32[4,6], s32[4,6]), (f32[8,6], s32[8,6])) all-gather-start(f, i), dimensions={0}, replica_groups={{0,1}}", "((f32[4,6]{1,0}, s32[4,6]{1,0}), (f32[8,6]{1,0}, s32[8,6]{1,0}))"},
		{"f32[2,6] reduce-scatter(f), dimensions={0}, replica_groups={{0,1}}, to_apply=add", "f32[2,6]{1,0}"},
		{"(f32[4,6], f32[4,6]) all-to-all(f, f), replica_groups={{0,1}}", "(f32[4,6]{1,0}, f32[4,6]{1,0})"},
		{"(f32[4,6], s32[4,6]) collective-permute(f, i), source_target_pairs={{0,1}}", "(f32[4,6]{1,0}, s32[4,6]{1,0})"},
		{"(f32[4,6], f32[4,6], u32[], u32[]) collective-permute-start(f), source_target_pairs={{0,1}}", "(f32[4,6]{1,0}, f32[4,6]{1,0}, u32[], u32[])"},
		{"bf16[4,6] stochastic-convert(h, ud)", "bf16[4,6]{1,0}"},
		{"u32[4,3] bitcast-convert(ud)", "needs a last dimension of 2"},
		{"u8[4,6,2] bitcast-convert(ud)", "u8[4,6,2]{2,1,0}"},
		{"broadcast(v), dimensions={3}", "f32[3,4]{1,0}"}, // as XLA's parser infers it
	} {
		m, err := Parse("row", []byte(before+row.text+"\n}"))
		if err != nil {
			t.Errorf("%s: %v", row.text, err)
			continue
		}
		s, err := InferShape(m.Entry.Root)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = s.String()
		}
		if !strings.HasPrefix(row.text, "broadcast") && got != row.want && !(err != nil && strings.Contains(got, row.want)) {
			t.Errorf("%s: inferred %s, want %s", row.text, got, row.want)
		}
		if have := m.Entry.Root.Shape.String(); err == nil && have != row.want {
			t.Errorf("%s: parsed as %s, want %s", row.text, have, row.want)
		}
	}
}

// TestVerifyAcceptsMore holds forms that look odd and are right.
func TestVerifyAcceptsMore(t *testing.T) {
	for name, text := range map[string]string{
		"async chain through a tuple": `HloModule m
f { p = f32[4] parameter(0)
 ROOT r = f32[4] abs(p) }
ENTRY e { q = f32[4] parameter(0)
 s = ((f32[4]), f32[4], u32[]) async-start(q), calls=f
 t = (f32[4], ((f32[4]), f32[4], u32[])) tuple(q, s)
 g = ((f32[4]), f32[4], u32[]) get-tuple-element(t), index=1
 u = ((f32[4]), f32[4], u32[]) async-update(g)
 ROOT d = f32[4] async-done(u) }`,
		"operands given late": `HloModule m
f { p = f32[4] parameter(0)
 q = f32[4] parameter(1)
 ROOT r = f32[4] add(p, q) }
ENTRY e { a = f32[4] parameter(0)
 s = ((f32[4]), (), u32[]) async-start(a), calls=f
 u = ((f32[4], f32[4]), f32[4], u32[]) async-update(s, a)
 ROOT d = f32[4] async-done(u) }`,
		"side thread": `HloModule m
f { p = f32[4] parameter(0)
 n = f32[4] negate(p)
 ROOT r = f32[4] abs(n) }, execution_thread="host"
ENTRY e { q = f32[4] parameter(0)
 s = ((f32[4]), f32[4], u32[]) async-start(q), calls=f, async_execution_thread="host"
 ROOT d = f32[4] async-done(s) }`,
		"async start carried by a loop": `HloModule m
f { p = f32[4] parameter(0)
 ROOT r = f32[4] abs(p) }
body { st = (f32[4], ((f32[4]), f32[4], u32[])) parameter(0)
 a = ((f32[4]), f32[4], u32[]) get-tuple-element(st), index=1
 d = f32[4] async-done(a), calls=f
 n = ((f32[4]), f32[4], u32[]) async-start(d), calls=f
 ROOT o = (f32[4], ((f32[4]), f32[4], u32[])) tuple(d, n) }
cond { cs = (f32[4], ((f32[4]), f32[4], u32[])) parameter(0)
 ROOT c = pred[] constant(false) }
ENTRY e { q = f32[4] parameter(0)
 s = ((f32[4]), f32[4], u32[]) async-start(q), calls=f
 i = (f32[4], ((f32[4]), f32[4], u32[])) tuple(q, s)
 w = (f32[4], ((f32[4]), f32[4], u32[])) while(i), condition=cond, body=body
 l = ((f32[4]), f32[4], u32[]) get-tuple-element(w), index=1
 ROOT x = f32[4] async-done(l), calls=f }`,
		"buffers": `HloModule m
ENTRY e { p = f32[4] parameter(0)
 u = f32[1] parameter(1)
 k = s32[] constant(0)
 b = b(f32[4]) custom-call(p), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}
 d = b(f32[4]) dynamic-update-slice(b, u, k)
 t = (b(f32[4]), f32[1]) tuple(d, u)
 g = b(f32[4]) get-tuple-element(t), index=0
 w = (b(f32[4]), f32[2]) custom-call(g), custom_call_target="write", output_to_operand_aliasing={{0}: (0, {})}
 wb = b(f32[4]) get-tuple-element(w), index=0
 ROOT r = f32[4] custom-call(wb), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})} }`,
		"dead rng and host calls in a fusion": `HloModule m
f { p = f32[4] parameter(0)
 z = f32[] constant(0)
 o = f32[] constant(1)
 rng = f32[4] rng(z, o), distribution=rng_uniform
 cc = f32[] custom-call(), custom_call_target="x", custom_call_has_side_effect=true
 ROOT r = f32[4] abs(p) }
ENTRY e { q = f32[4] parameter(0)
 ROOT x = f32[4] fusion(q), kind=kLoop, calls=f }`,
		"send and recv through a loop": `HloModule m
body { st = (f32[4], (f32[4], u32[], token[])) parameter(0)
 c = (f32[4], u32[], token[]) get-tuple-element(st), index=1
 rd = (f32[4], token[]) recv-done(c), channel_id=1
 v = f32[4] get-tuple-element(rd), index=0
 t = token[] after-all()
 r = (f32[4], u32[], token[]) recv(t), channel_id=1
 ROOT o = (f32[4], (f32[4], u32[], token[])) tuple(v, r) }
cond { cs = (f32[4], (f32[4], u32[], token[])) parameter(0)
 ROOT b = pred[] constant(false) }
ENTRY e { q = f32[4] parameter(0)
 t0 = token[] after-all()
 r0 = (f32[4], u32[], token[]) recv(t0), channel_id=1
 i = (f32[4], (f32[4], u32[], token[])) tuple(q, r0)
 w = (f32[4], (f32[4], u32[], token[])) while(i), condition=cond, body=body
 l = (f32[4], u32[], token[]) get-tuple-element(w), index=1
 ROOT d = (f32[4], token[]) recv-done(l), channel_id=1 }`,
		"shardings of every form": `HloModule m, num_partitions=4
ENTRY e { p = f32[4,4] parameter(0), sharding={devices=[2,2]<=[4]}
 q = f32[4,4] parameter(1), sharding={devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}
 r = f32[4,4] parameter(2), sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}}
 s = f32[4,4] add(p, q), sharding={maximal device=3}
 u = () tuple(), sharding={replicated}
 ROOT t = (f32[4,4], (), (f32[4,4])) custom-call(s, r, u), custom_call_target="x", sharding={{replicated}, {replicated}, {devices=[4,1]0,1,2,3}} }`,
		"one result or a tuple of one": `HloModule m
f { p = f32[8] parameter(0)
 n = f32[8] negate(p)
 ROOT t = (f32[8]) tuple(n) }
ENTRY e { q = f32[16,8] parameter(0)
 ROOT s = f32[16,8] scan(q), dimensions={0}, num_carries=0, to_apply=f }`,
		"collective permute in place": `HloModule m
ENTRY e { a = f32[4,4] parameter(0)
 b = f32[4,4] parameter(1)
 k = s32[] constant(0)
 o = (s32[], s32[]) tuple(k, k)
 oo = ((s32[], s32[]), (s32[], s32[])) tuple(o, o)
 one = f32[4,4] collective-permute(a, b, o, o), source_target_pairs={{0,1},{1,0}}, slice_sizes={{1,4}}
 ROOT two = f32[4,4] collective-permute(a, one, oo, oo), source_target_pairs={{0,1},{0,1}}, slice_sizes={{1,4},{1,4}} }`,
	} {
		m, err := Parse(name, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := Verify(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
