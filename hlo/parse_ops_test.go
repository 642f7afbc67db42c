package hlo

import (
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo/hlopb"
	"strings"
	"testing"
)

// opModules use every opcode and every attribute that an opcode has.
var opModules = map[string]string{
	"elementwise": `
HloModule elementwise
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  i = s32[4] parameter(2)
  u = u32[4] parameter(3)
  p = pred[4] parameter(4)
  c = c64[4] complex(a, b)
  v0 = f32[4] abs(a)
  v1 = f32[4] acos(a), result_accuracy={mode=highest}
  v2 = f32[4] acosh(a), result_accuracy={tolerance={atol=0.5,rtol=1e-05,ulps=3}}
  v3 = f32[4] add(a, b)
  v4 = pred[4] and(p, p)
  v5 = f32[4] asin(a)
  v6 = f32[4] asinh(a)
  v7 = f32[4] atan2(a, b)
  v8 = f32[4] atanh(a)
  v9 = f32[4] cbrt(a)
  v10 = f32[4] ceil(a)
  v11 = f32[4] clamp(a, b, a)
  v12 = u32[4] count-leading-zeros(u)
  v13 = pred[4] compare(a, b), direction=LT
  v14 = pred[4] compare(a, b), direction=GE, type=TOTALORDER
  v15 = pred[4] compare(i, i), direction=EQ
  v16 = pred[4] compare(u, u), direction=NE
  v17 = f32[4] copy(a)
  v18 = f32[4] cosine(a)
  v19 = f32[4] cosh(a)
  v20 = f32[4] divide(a, b)
  v21 = f32[4] erf(a)
  v22 = f32[4] exponential(a)
  v23 = f32[4] exponential-minus-one(a)
  v24 = f32[4] floor(a)
  v25 = f32[4] imag(c)
  v26 = f32[4] real(c)
  v27 = pred[4] is-finite(a)
  v28 = f32[4] log(a)
  v29 = f32[4] log-plus-one(a)
  v30 = f32[4] logistic(a)
  v31 = f32[4] maximum(a, b)
  v32 = f32[4] minimum(a, b)
  v33 = s32[4] mulhi(i, i)
  v34 = f32[4] multiply(a, b)
  v35 = f32[4] negate(a)
  v36 = pred[4] not(p)
  v37 = f32[4] opt-barrier(a)
  v38 = pred[4] or(p, p)
  v39 = u32[4] popcnt(u)
  v40 = f32[4] power(a, b)
  v41 = f32[4] remainder(a, b)
  v42 = f32[4] round-nearest-afz(a)
  v43 = f32[4] round-nearest-even(a)
  v44 = f32[4] rsqrt(a)
  v45 = f32[4] select(p, a, b)
  v46 = s32[4] shift-left(i, i)
  v47 = s32[4] shift-right-arithmetic(i, i)
  v48 = s32[4] shift-right-logical(i, i)
  v49 = f32[4] sign(a)
  v50 = f32[4] sine(a)
  v51 = f32[4] sinh(a)
  v52 = f32[4] sqrt(a)
  v53 = f32[4] subtract(a, b)
  v54 = f32[4] tan(a)
  v55 = f32[4] tanh(a)
  v56 = pred[4] xor(p, p)
  v57 = bf16[4] convert(a)
  v58 = s32[4] bitcast-convert(a)
  v59 = f32[4] bitcast(a)
  v60 = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=10
  v61 = bf16[4] stochastic-convert(a, u)
  ROOT r = (f32[4], pred[4]) tuple(v3, v56)
}`,
	"movement": `
HloModule movement
ENTRY e {
  a = f32[4,6] parameter(0)
  s = s32[] parameter(1)
  z = f32[] constant(0)
  b = f32[3,4,6] broadcast(a), dimensions={1,2}
  bs = f32[2] broadcast(z), dimensions={}
  c = f32[8,6] concatenate(a, a), dimensions={0}
  d = f32[2,6] dynamic-slice(a, s, s), dynamic_slice_sizes={2,6}
  du = f32[4,6] dynamic-update-slice(a, d, s, s)
  ix = s32[5,1] parameter(2)
  g = f32[5,6] gather(a, ix), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}, indices_are_sorted=true
  ib = s32[4,1] parameter(3)
  gb = f32[4,1] gather(a, ib), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}
  i = s32[4,6] iota(), iota_dimension=1
  p = f32[6,11] pad(a, z), padding=1_1x0_0_1
  pn = f32[3,6] pad(a, z), padding=-1_0x0_0
  r = f32[24] reshape(a)
  ri = f32[24] reshape(a), inferred_dimension=0
  rv = f32[4,6] reverse(a), dimensions={0,1}
  sl = f32[2,3] slice(a), slice={[0:4:2], [1:4:1]}
  sp = f32[2,6] slice(a), slice={[1:3], [0:6]}
  t = f32[6,4] transpose(a), dimensions={1,0}
  gds = s32[] get-dimension-size(a), dimensions={1}
  sds = f32[4,<=6] set-dimension-size(a, s), dimensions={1}
  dr = f32[<=24] dynamic-reshape(a, s)
  tk = (f32[4,2], s32[4,2]) topk(a), k=2, largest=false, is_stable=false
  t0 = f32[4,2] get-tuple-element(tk), index=0
  ROOT o = (f32[4,2], f32[6,4]) tuple(t0, t)
}`,
	"calls": `
HloModule calls, entry_computation_layout={(f32[4,6]{0,1}, f32[6]{0})->f32[]}
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
ge {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = pred[] compare(x, y), direction=GE
}
lt4 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT s = pred[] compare(a, b), direction=LT
}
add2 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  s = f32[] add(a, c)
  t = f32[] add(b, d)
  ROOT r = (f32[], f32[]) tuple(s, t)
}
step {
  c = f32[] parameter(1)
  x = f32[] parameter(0)
  s = f32[] add(c, x)
  ROOT r = (f32[], f32[]) tuple(s, s)
}
cond { p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
body { p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[]) tuple(j, x)
}
id { ROOT p = f32[] parameter(0) }
neg { p = f32[] parameter(0)
  ROOT n = f32[] negate(p) }
wrapped { p = f32[4,6] parameter(0)
  ROOT n = f32[4,6] negate(p) }, execution_thread="side"
ENTRY e {
  a = f32[4,6] parameter(0)
  z = f32[] constant(0)
  i0 = s32[] constant(0)
  red = f32[4] reduce(a, z), dimensions={1}, to_apply=add
  red2 = (f32[4], f32[4]) reduce(a, a, z, z), dimensions={1}, to_apply=add2
  rw = f32[2,3] reduce-window(a, z), window={size=2x2 stride=2x2}, to_apply=add
  rwx = f32[4,6] reduce-window(a, z), window={size=3x1 pad=1_1x0_0 lhs_dilate=1x1 rhs_dilate=1x1}, to_apply=add
  rws = f32[4,6] reduce-window(a, z), to_apply=add
  sas = f32[4,6] select-and-scatter(a, rw, z), window={size=2x2 stride=2x2}, select=ge, scatter=add
  m = f32[4,6] map(a, a), dimensions={0,1}, to_apply=add
  so = f32[4,6] sort(a), dimensions={1}, is_stable=true, to_apply=ge
  io = s32[4,6] iota(), iota_dimension=1
  so2 = (f32[4,6], s32[4,6]) sort(a, io), dimensions={1}, to_apply=lt4
  ix = s32[2,1] constant({{0},{1}})
  up = f32[2,6] slice(a), slice={[0:2], [0:6]}
  sc = f32[4,6] scatter(a, ix, up), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, indices_are_sorted=true, unique_indices=true, to_apply=add
  i41 = s32[4,1] slice(io), slice={[0:4], [0:1]}
  a41 = f32[4,1] slice(a), slice={[0:4], [0:1]}
  scb = f32[4,6] scatter(a, i41, a41), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=1, to_apply=add
  v = f32[6] parameter(1)
  scan = (f32[6], f32[]) scan(v, z), dimensions={0}, num_carries=1, is_reverse=true, is_associative=true, to_apply=step
  init = (s32[], f32[]) tuple(i0, z)
  w = (s32[], f32[]) while(init), condition=cond, body=body
  wx = f32[] get-tuple-element(w), index=1
  ca = f32[] call(wx), to_apply=neg, is_composite=true
  pr = pred[] constant(true)
  co = f32[] conditional(pr, ca, ca), true_computation=id, false_computation=neg
  cn = f32[] conditional(i0, co, co, co), branch_computations={id, neg, id}
  fu = f32[4,6] fusion(a), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, calls=wrapped
  as = ((f32[4,6]), f32[4,6], s32[]) async-start(a), async_execution_thread="side", calls=wrapped2, metadata={op_name="x"}
  au = ((f32[4,6]), f32[4,6], s32[]) async-update(as)
  ad = f32[4,6] async-done(au)
  ss = ((f32[4,6]), f32[4,6], s32[]) tanh-start(a), result_accuracy={mode=highest}
  sd = f32[4,6] tanh-done(ss)
  ROOT out = f32[] add(cn, f32[] constant(1))
}`,
	"linear algebra": `
HloModule linalg
ENTRY e {
  a = f32[2,3,4] parameter(0)
  b = f32[2,4,5] parameter(1)
  d = f32[2,3,5] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, operand_precision={high,highest}, algorithm=dot_bf16_bf16_f32_x3
  v = f32[3] parameter(2)
  dd = f32[] dot(v, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  outer = f32[3,3] dot(v, v), lhs_contracting_dims={}, rhs_contracting_dims={}
  rl = f32[8,4] parameter(3)
  rr = f32[2,4,5] parameter(4)
  gs = s32[2] parameter(5)
  rd = f32[8,5] ragged-dot(rl, rr, gs), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
  q = f8e4m3fn[4,32] parameter(6)
  qs = f8e8m0fnu[4,1] parameter(7)
  sd = f32[4,4] scaled-dot(q, qs, q, qs), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  x = f32[1,8,8,4] parameter(8)
  k = f32[3,3,2,6] parameter(9)
  cv = f32[1,8,8,6] convolution(x, k), window={size=3x3 pad=1_1x1_1 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f, feature_group_count=2, operand_precision={default,highest}, convolution_kind=fprop
  ku = f32[3,3,4,6] parameter(10)
  c1 = f32[1,8,8,6] convolution(x, ku), window={size=3x3 pad=1_1x1_1 lhs_dilate=1x1}, dim_labels=b01f_01io->b01f, batch_group_count=1, sparsity_config={lhs={sparsity=2x4 dimension=3 stride=1 idx=0}}
  s = f32[3,3] parameter(11)
  ch = f32[3,3] cholesky(s), lower=true
  ts = f32[3,3] triangular-solve(s, s), left_side=true, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE
  cc = c64[8] parameter(12)
  ff = c64[8] fft(cc), fft_type=FFT, fft_length={8}
  c5 = c64[5] slice(cc), slice={[0:5]}
  fi = f32[8] fft(c5), fft_type=IRFFT, fft_length={8}
  sc = f32[4] parameter(13)
  bt = (f32[1,8,8,4], f32[4], f32[4]) batch-norm-training(x, sc, sc), epsilon=0.001, feature_index=3
  bi = f32[1,8,8,4] batch-norm-inference(x, sc, sc, sc, sc), epsilon=0.001, feature_index=3
  bg = (f32[1,8,8,4], f32[4], f32[4]) batch-norm-grad(x, sc, sc, sc, x), epsilon=1e-05, feature_index=3
  ROOT r = f32[3,3] add(ts, ch)
}`,
	"collectives": `
HloModule collectives, replica_count=8, num_partitions=2
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
ENTRY e {
  a = f32[8,4] parameter(0)
  ag = f32[16,4] all-gather(a), channel_id=1, replica_groups={{0,1},{2,3}}, constrain_layout=true, dimensions={0}, use_global_device_ids=true
  gs = (f32[8,4], f32[16,4]) all-gather-start(a), replica_groups=[4,2]<=[8], dimensions={0}
  gd = f32[16,4] all-gather-done(gs)
  ar = f32[8,4] all-reduce(a), replica_groups=[2,4]<=[4,2]T(1,0), to_apply=add
  rs = f32[8,4] all-reduce-start(a), channel_id=3, replica_groups={}, mode=cross_replica, to_apply=add
  rd = f32[8,4] all-reduce-done(rs)
  sc = f32[4,4] reduce-scatter(a), replica_groups=mesh['x'=4,'y'=2] {'y'}, dimensions={0}, to_apply=add
  aa = f32[8,4] all-to-all(a), replica_groups={{0,1,2,3}}, dimensions={0}
  at = (f32[8,4], f32[8,4]) all-to-all(a, a), replica_groups={{0,1}}
  off = s32[4] parameter(1)
  ra = f32[8,4] ragged-all-to-all(a, a, off, off, off, off), replica_groups={{0,1,2,3}}
  cb = f32[8,4] collective-broadcast(a), replica_groups={{0,1}}, has_dynamic_root=false
  cp = f32[8,4] collective-permute(a), source_target_pairs={{0,1},{1,0}}
  cs = (f32[8,4], f32[8,4]) collective-permute-start(a), channel_id=2, source_target_pairs={{0,1}}
  cd = f32[8,4] collective-permute-done(cs)
  s0 = s32[] constant(0)
  st = (s32[], s32[]) tuple(s0, s0)
  ci = f32[8,4] collective-permute(a, a, st, st), source_target_pairs={{0,1}}, slice_sizes={{4,4}}
  pid = u32[] partition-id()
  rid = u32[] replica-id()
  tok = token[] after-all()
  dep = f32[8,4] add-dependency(a, tok)
  in = (f32[2], token[]) infeed(tok), infeed_config="x\001y"
  ot = token[] outfeed(a, tok), outfeed_shape=f32[8,4]{0,1}, outfeed_config="cfg"
  sn = (f32[8,4], u32[], token[]) send(a, tok), channel_id=7, is_host_transfer=true
  sd = token[] send-done(sn), channel_id=7, is_host_transfer=true
  rc = (f32[2], u32[], token[]) recv(tok), channel_id=8
  rx = (f32[2], token[]) recv-done(rc), channel_id=8
  aft = token[] after-all(sd, ot)
  cy = (f32[8,4], f32[8,4], u32[]) copy-start(a), cross_program_prefetch_index=0
  cf = f32[8,4]{1,0:S(1)} copy-done(cy)
  dom = f32[8,4] domain(a), domain={kind="sharding", entry={replicated}, exit={maximal device=1}}
  rgs = u64[] rng-get-and-update-state(), delta=4096
  lo = f32[] constant(0)
  hi = f32[] constant(1)
  rn = f32[4] rng(lo, hi), distribution=rng_uniform
  ks = u64[2] parameter(2)
  rb = (u64[2], u32[4]) rng-bit-generator(ks), algorithm=rng_three_fry
  bs = f32[5] custom-call(a, rn), custom_call_target="Some\"Call", operand_layout_constraints={f32[8,4]{0,1}, f32[4]{0}}, custom_call_has_side_effect=true, literal=s32[2] {1, -2}, output_to_operand_aliasing={{}: (1, {})}, schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI, backend_config={k = 1 : i32}, called_computations={add, add}
  bc = f32[5] custom-call(a), custom_call_target="conv", window={size=2x2}, dim_labels=bf_io->bf, feature_group_count=2, batch_group_count=3, padding_type=PADDING_SAME, operand_precision={high}, to_apply=add, backend_config="not { json"
  ROOT r = f32[4] add(rn, rn)
}`,
}

func TestEveryOpcode(t *testing.T) {
	seen := map[Opcode]bool{}
	for name, text := range opModules {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(text, "calls=wrapped2", "calls={ p = f32[4,6] parameter(0)\n ROOT n = f32[4,6] sine(p) }", 1)
			m, err := Parse(name, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range m.Computations {
				for _, in := range c.Instructions {
					seen[in.Op] = true
				}
			}
			checkFixPoint(t, m)
		})
	}
	for op := OpInvalid + 1; int(op) < len(opcodes); op++ {
		if !seen[op] {
			t.Errorf("no module uses %v", op)
		}
	}
}

// checkFixPoint checks that the module comes back from its texts and from its
// proto.
func checkFixPoint(t testing.TB, m *Module) {
	t.Helper()
	long := m.String()
	again, err := Parse("printed", []byte(long))
	if err != nil {
		t.Fatalf("%v in\n%s", err, long)
	}
	sameText(t, "text -> module -> text", long, again.String())
	pb, err := m.ToProto()
	if err != nil {
		t.Fatal(err)
	}
	wire, err := FromProto(pb)
	if err != nil {
		t.Fatal(err)
	}
	wirePB, err := wire.ToProto()
	if err != nil {
		t.Fatal(err)
	}
	fromText, err := again.ToProto()
	if err != nil {
		t.Fatal(err)
	}
	sameProto(t, "module -> text -> module -> proto", pb, fromText)
	sameProto(t, "module -> proto -> module -> proto", pb, wirePB)
	// The wire has no place for these.
	wire.ReplicaCount, wire.NumPartitions, wire.TextAttrs = m.ReplicaCount, m.NumPartitions, m.TextAttrs
	short := canonicalText(m)
	small, err := Parse("canonical", []byte(short))
	if err != nil {
		t.Fatalf("%v in\n%s", err, short)
	}
	sameText(t, "canonical text -> module -> canonical text", short, canonicalText(small))
	sameText(t, "module -> proto -> module -> canonical text", short, canonicalText(wire))
}

func canonicalText(m *Module) string {
	var b strings.Builder
	_ = m.Print(&b, PrintOptions{Canonical: true})
	return b.String()
}

func sameText(t testing.TB, what, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			t.Fatalf("%s: line %d is\n%s\nwant\n%s", what, i+1, append(g, "")[min(i, len(g))], w[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", what, len(g), len(w))
}

func sameProto(t testing.TB, what string, want, got *hlopb.HloModuleProto) {
	t.Helper()
	if !proto.Equal(want, got) {
		w, g := prototext.Format(want), prototext.Format(got)
		sameText(t, what, w, g)
	}
}
