package hlo

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wellFormed are modules to test on: one per opcode family (see illFormed), and the handed graphs and cases.
func wellFormed(t testing.TB) map[string]*Module {
	t.Helper()
	modules := map[string]*Module{}
	read := func(name string, text []byte) {
		m, err := Parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		modules[name] = m
	}
	for name, text := range opModules {
		read(name, []byte(strings.Replace(text, "calls=wrapped2", "calls={ p = f32[4,6] parameter(0)\n ROOT n = f32[4,6] sine(p) }", 1)))
	}
	for _, pattern := range []string{"traces/*.case", "cases/*.case", "cases/controls/*.case"} {
		for name, text := range handed(t, pattern) {
			read(name, text)
		}
	}
	return modules
}

// illFormed are the violations in opModules, whose text is there to be read
// and not all of it means anything.
var illFormed = map[string][]string{
	"collectives": {
		"e/ag: replica groups of all-gather hold 4 ids, want 16 [shape]",
		"e/aa: replica groups of all-to-all hold 4 ids, want 8 [shape]",
		"e/at: replica groups of all-to-all hold 2 ids, want 8 [shape]",
		"e/ra: replica groups of ragged-all-to-all hold 4 ids, want 8 [shape]",
		"e/cb: replica groups of collective-broadcast hold 2 ids, want 8 [shape]",
		"e/rgs: rng-get-and-update-state gives u64[2]{0}, not u64[] [shape]",
		"e/bs: output f32[5]{0} aliases operand f32[4]{0} [alias]",
	},
	"linear algebra": {
		"e/sd: contracting dimensions of scaled-dot differ: 1 of f8e4m3fn[4,32]{1,0} and 1 of f8e8m0fnu[4,1]{1,0} [shape]",
		"e/c1: convolution has sparsity metadata in operand 0, which is no array operand from 2 on [shape]",
	},
	"calls": {
		"e/rws: window of 0 dimensions on f32[4,6]{1,0} [shape]",
		"e/ca: composite call has no frontend attribute composite.name [call]",
		"e/fu: fusion on thread \"\" calls a computation of thread \"side\" [thread]",
	},
}

func TestVerifyAccepts(t *testing.T) {
	for name, m := range wellFormed(t) {
		var got []string
		for _, v := range violations(Verify(m)) {
			got = append(got, v.Error())
		}
		if d := cmp.Diff(illFormed[name], got); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
}

// TestInferShape infers the shape of every instruction of well-formed modules,
// once with the shape to consult and once without.
func TestInferShape(t *testing.T) {
	for name, m := range wellFormed(t) {
		for _, c := range m.Computations {
			for _, in := range c.Instructions {
				s, err := InferShape(in)
				if strings.Contains(strings.Join(illFormed[name], " "), "/"+in.Name+":") {
					continue
				}
				if err != nil {
					t.Fatalf("%s: %s: %v", name, in.Name, err)
				}
				if !s.Compatible(in.Shape) {
					t.Errorf("%s: %s: inferred %v, is %v", name, in.Name, s, in.Shape)
				}
				blind := *in
				blind.Shape = nil
				s, err = InferShape(&blind)
				if err != nil {
					if !strings.Contains(err.Error(), "does not follow from its operands") && !strings.Contains(err.Error(), "has nothing") {
						t.Errorf("%s: %s: %v", name, in.Name, err)
					}
					continue
				}
				if in.Op != OpBroadcast && in.Op != OpDot && in.Op != OpConvolution && in.Op != OpScaledDot && in.Op != OpRaggedDot && !s.Compatible(in.Shape) {
					t.Errorf("%s: %s: inferred %v without its shape, is %v", name, in.Name, s, in.Shape)
				}
			}
		}
	}
}

func violations(err error) []*Violation {
	if err == nil {
		return nil
	}
	var out []*Violation
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var v *Violation
		if errors.As(e, &v) {
			out = append(out, v)
		}
	}
	return out
}

// prelude holds the computations that rows of TestViolations call.
const prelude = `HloModule m, replica_count=2
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
addbf {
  xb = bf16[] parameter(0)
  yb = bf16[] parameter(1)
  ROOT sb = bf16[] add(xb, yb)
}
one {
  ROOT only = f32[4] parameter(0)
}
less {
  l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT lt = pred[] compare(l, r), direction=LT
}
again {
  st = f32[4] parameter(0)
  ROOT go = pred[] constant(true)
}
two {
  t0 = f32[4] parameter(0)
  t1 = f32[4] negate(t0)
  ROOT t2 = f32[4] negate(t1)
}
ENTRY e {
  f = f32[4] parameter(0)
  g = f32[4,6] parameter(1)
  i = s32[4] parameter(2)
  p = pred[4] parameter(3)
  s = f32[] constant(1)
  k = s32[] constant(1)
  h = bf16[4] parameter(4)
  d = f64[4] parameter(5)
  c = c64[4] complex(f, f)
  u = u32[4] parameter(6)
  t = token[] after-all()
  tu = (f32[4], s32[4]) tuple(f, i)
  f3 = f32[3] broadcast(s), dimensions={}
  f5 = f32[5] broadcast(s), dimensions={}
  g3 = f32[3,6] broadcast(s), dimensions={}
  in6 = f32[1,1,6] broadcast(s), dimensions={}
  in26 = f32[1,2,6] broadcast(s), dimensions={}
  ke2 = f32[1,1,2] broadcast(s), dimensions={}
  ke3 = f32[1,1,3] broadcast(s), dimensions={}
  w = u32[] constant(1)
  pr = pred[] constant(true)
`

// TestViolations has one broken instruction per row.
func TestViolations(t *testing.T) {
	for _, row := range []struct {
		rule Rule
		want string // part of the message
		text string
	}{
		{RuleShape, "floor takes floating-point values", "s32[4] floor(i)"},
		{RuleShape, "exponential takes floating-point or complex values", "s32[4] exponential(i)"},
		{RuleShape, "popcnt takes integer values", "f32[4] popcnt(f)"},
		{RuleShape, "not takes pred or integer", "f32[4] not(f)"},
		{RuleShape, "abs takes signed", "u32[4] abs(u)"},
		{RuleShape, "gives f32[4]{0}, not c64[4]{0}", "c64[4] abs(c)"},
		{RuleShape, "is-finite gives pred[4]{0}", "f32[4] is-finite(f)"},
		{RuleShape, "must be an array", "f32[4] negate(tu)"},
		{RuleShape, "add of different element types", "f32[4] add(f, i)"},
		{RuleShape, "add of incompatible shapes", "f32[4] add(f, f3)"},
		{RuleShape, "of different rank", "f32[4,6] add(f, g)"},
		{RuleShape, "divide takes numbers, not pred", "pred[4] divide(p, p)"},
		{RuleShape, "and takes pred or integer", "f32[4] and(f, f)"},
		{RuleShape, "atan2 takes", "s32[4] atan2(i, i)"},
		{RuleShape, "complex takes f32 or f64", "c64[4] complex(h, h)"},
		{RulePrecision, "add of different float types", "f32[4] add(f, h)"},
		{RuleElementwise, "broadcasts must be explicit", "f32[4] add(f, s)"},
		{RuleElementwise, "comparison type UNSIGNED of f32", "pred[4] compare(f, f), direction=LT, type=UNSIGNED"},
		{RuleElementwise, "comparison type SIGNED of u32", "pred[4] compare(u, u), direction=LT, type=SIGNED"},
		{RuleShape, "compare gives pred[4]{0}", "s32[4] compare(f, f), direction=LT"},
		{RuleShape, "select by f32[4]{0}", "f32[4] select(f, f, f)"},
		{RuleShape, "select between different shapes", "f32[4] select(p, f, g)"},
		{RuleShape, "clamp of incompatible shapes", "f32[4] clamp(g, f, s)"},
		{RuleShape, "clamp of different element types", "f32[4] clamp(k, f, s)"},
		{RuleShape, "convert gives s8[4]{0}, not s8[5]{0}", "s8[5] convert(f)"},
		{RuleShape, "between complex and real", "f64[4] bitcast-convert(c)"},
		{RuleShape, "bitcast-convert gives s8[4,4]{1,0}", "s8[16] bitcast-convert(f)"},
		{RuleShape, "needs a last dimension of 2", "f64[2] bitcast-convert(f)"},
		{RuleShape, "unsigned random numbers", "bf16[4] stochastic-convert(f, i)"},
		{RuleShape, "exponent bit", "f32[4] reduce-precision(f), exponent_bits=0, mantissa_bits=3"},
		{RuleShape, "mantissa bits", "f32[4] reduce-precision(f), exponent_bits=1, mantissa_bits=-3"},
		{RuleShape, "iota dimension [4]", "f32[4] iota(), iota_dimension=4"},
		{RuleShape, "iota needs an array of rank 1", "f32[] iota(), iota_dimension=0"},
		{RuleShape, "iota makes numbers", "pred[4] iota(), iota_dimension=0"},
		{RuleShape, "broadcast of dimension 0", "f32[5] broadcast(f), dimensions={0}"},
		{RuleShape, "broadcast of f32[4]{0} gives s32[4]{0}", "s32[4] broadcast(f), dimensions={0}"},
		{RuleShape, "broadcast has 2 dimensions", "f32[4] broadcast(f), dimensions={0,1}"},
		{RuleShape, "reshape of f32[4,6]{1,0} gives s32[24]{0}", "s32[24] reshape(g)"},
		{RuleShape, "no permutation", "f32[4,6] transpose(g), dimensions={1,1}"},
		{RuleShape, "transpose gives f32[6,4]", "f32[4,6] transpose(g), dimensions={1,0}"},
		{RuleShape, "reverse dimensions [0 0]", "f32[4] reverse(f), dimensions={0,0}"},
		{RuleShape, "slice [2:5:1]", "f32[3] slice(f), slice={[2:5]}"},
		{RuleShape, "slice has 2 ranges", "f32[4] slice(f), slice={[0:4],[0:1]}"},
		{RuleShape, "slice gives f32[2]{0}", "f32[3] slice(f), slice={[0:4:2]}"},
		{RuleShape, "pad has 2 dimensions", "f32[4] pad(f, s), padding=0_0x0_0"},
		{RuleShape, "pad with f32[4]{0}", "f32[4] pad(f, f), padding=0_0"},
		{RuleShape, "negative or overflowing", "f32[4] pad(f, s), padding=-3_-3"},
		{RuleShape, "pad overflows", "f32[4] pad(f, s), padding=0_0_4611686018427387904"},
		{RuleShape, "concatenate of different ranks", "f32[8] concatenate(f, g), dimensions={0}"},
		{RuleShape, "concatenate dimension [1]", "f32[8] concatenate(f, f), dimensions={1}"},
		{RuleShape, "concatenate gives f32[8]", "f32[9] concatenate(f, f), dimensions={0}"},
		{RuleShape, "differ in dimension 0", "f32[4,12] concatenate(g, g3), dimensions={1}"},
		{RuleShape, "dynamic-slice of size 5", "f32[5] dynamic-slice(f, k), dynamic_slice_sizes={5}"},
		{RuleShape, "dynamic-slice has 2 sizes", "f32[4] dynamic-slice(f, k), dynamic_slice_sizes={4,1}"},
		{RuleShape, "integer scalars", "f32[4] dynamic-slice(f, s), dynamic_slice_sizes={4}"},
		{RuleShape, "dynamic-update-slice of dimension 0", "f32[4] dynamic-update-slice(f, f5, k)"},
		{RuleShape, "dynamic-update-slice of f32[4]{0} by s32[4]{0}", "f32[4] dynamic-update-slice(f, i, k)"},
		{RuleShape, "with an element 2", "f32[4] get-tuple-element(tu), index=2"},
		{RuleShape, "get-tuple-element gives s32[4]{0}", "f32[4] get-tuple-element(tu), index=1"},
		{RuleShape, "tuple gives (f32[4]{0}, s32[4]{0})", "(f32[4], f32[4]) tuple(f, i)"},
		{RuleShape, "topk of 5 values", "(f32[5], s32[5]) topk(f), k=5"},
		{RuleShape, "get-dimension-size of dimension [1]", "s32[] get-dimension-size(f), dimensions={1}"},
		{RuleShape, "not to an s32 scalar", "f32[<=4] set-dimension-size(f, s), dimensions={0}"},
		{RuleShape, "contracting dimensions of dot differ", "f32[6] dot(f, g3), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
		{RuleShape, "out of range", "f32[6] dot(f, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
		{RuleShape, "is repeated", "f32[6] dot(g, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_batch_dims={0}, rhs_batch_dims={0}"},
		{RuleShape, "1 and 0 contracting", "f32[6] dot(f, g), lhs_contracting_dims={0}"},
		{RuleShape, "dot gives f32[6]{0}", "f32[4] dot(f, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
		{RuleShape, "convolution window of size 3", "f32[1,1,4] convolution(in6, ke2), window={size=3}, dim_labels=bf0_io0->bf0"},
		{RuleShape, "features", "f32[1,1,4] convolution(in26, ke3), window={size=3}, dim_labels=bf0_io0->bf0"},
		{RuleShape, "stride 0", "f32[1,1,4] convolution(in6, ke3), window={size=3 stride=0}, dim_labels=bf0_io0->bf0"},
		{RuleShape, "feature groups", "f32[1,1,4] convolution(in6, ke3), window={size=3}, dim_labels=bf0_io0->bf0, feature_group_count=2, batch_group_count=2"},
		{RuleShape, "convolution gives f32[1,1,4]", "f32[1,1,5] convolution(in6, ke3), window={size=3}, dim_labels=bf0_io0->bf0"},
		{RuleShape, "want complex ones", "f32[4] fft(f), fft_type=FFT, fft_length={4}"},
		{RuleShape, "fft RFFT of length [5]", "c64[3] fft(f), fft_type=RFFT, fft_length={5}"},
		{RuleShape, "fft gives c64[3]{0}", "c64[4] fft(f), fft_type=RFFT, fft_length={4}"},
		{RuleShape, "the last dimension must be 3", "f32[6] fft(c), fft_type=IRFFT, fft_length={5}"},
		{RuleShape, "no square matrix", "f32[4,6] cholesky(g), lower=true"},
		{RuleShape, "want a square matrix", "f32[4,6] triangular-solve(g, g), left_side=true, transpose_a=NO_TRANSPOSE"},
		{RuleShape, "feature index 2", "(f32[4,6], f32[6], f32[6]) batch-norm-training(g, f, f), epsilon=1, feature_index=2"},
		{RuleShape, "one value per feature", "(f32[4,6], f32[6], f32[6]) batch-norm-training(g, f, f), epsilon=1, feature_index=1"},
		{RuleShape, "reduce over the dimensions [2]", "f32[4] reduce(g, s), dimensions={2}, to_apply=add"},
		{RuleShape, "reduce gives f32[4]{0}", "f32[6] reduce(g, s), dimensions={1}, to_apply=add"},
		{RuleShape, "has 1 parameters, want 2", "f32[4] reduce(g, s), dimensions={1}, to_apply=one"},
		{RuleShape, "for the initial value s32[]", "f32[4] reduce(g, k), dimensions={1}, to_apply=add"},
		{RulePrecision, "reduce of different float types", "bf16[4] reduce(g, s), dimensions={1}, to_apply=addbf"},
		{RuleShape, "window of 1 dimensions", "f32[4,6] reduce-window(g, s), window={size=1}, to_apply=add"},
		{RuleShape, "reduce-window gives f32[3]{0}", "f32[4] reduce-window(f, s), window={size=2}, to_apply=add"},
		{RuleShape, "gives the negative size", "f32[4] reduce-window(f, s), window={size=1 pad=-3_-3}, to_apply=add"},
		{RuleShape, "select function", "f32[4] select-and-scatter(f, f, s), select=add, scatter=add, window={size=1}"},
		{RuleShape, "select-and-scatter of the source", "f32[4] select-and-scatter(f, f, s), select=less, scatter=add, window={size=2}"},
		{RuleShape, "comparator of sort gives f32[]", "f32[4] sort(f), dimensions={0}, to_apply=add"},
		{RuleShape, "sort along the dimension [1]", "f32[4] sort(f), dimensions={1}, to_apply=less"},
		{RuleShape, "comparator of sort has 2 parameters for 2", "(f32[4], s32[4]) sort(f, i), dimensions={0}, to_apply=less"},
		{RuleShape, "function of map has 2 parameters", "f32[4] map(f), dimensions={0}, to_apply=add"},
		{RuleShape, "map gives f32[4]{0}", "f32[5] map(f, f), dimensions={0}, to_apply=add"},
		{RuleShape, "condition of while gives f32[4]", "f32[4] while(f), condition=one, body=one"},
		{RuleShape, "while carries f32[4,6]", "f32[4,6] while(g), condition=again, body=one"},
		{RuleShape, "branch 1 of conditional", "f32[4] conditional(pr, f, g), true_computation=one, false_computation=one"},
		{RuleShape, "branches of conditional give f32[4]{0} and pred[]", "f32[4] conditional(k, f, f), branch_computations={one, again}"},
		{RuleShape, "call has 2 operands for 1", "f32[4] call(f, f), to_apply=one"},
		{RuleShape, "call passes f32[4,6]", "f32[4] call(g), to_apply=one"},
		{RuleShape, "call gives f32[4]{0}", "f32[5] call(f), to_apply=one"},
		{RuleShape, "fusion has 1 operands for 2", "f32[] fusion(s), kind=kLoop, calls=add"},
		{RuleShape, "index vector dimension 2", "f32[4] gather(f, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1}"},
		{RuleShape, "gather collapses dimension 0 of slice size 2", "f32[4] gather(f, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={2}"},
		{RuleShape, "indices of gather must be integers", "f32[4] gather(f, f), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"},
		{RuleShape, "gather gives f32[4]{0}", "f32[5] gather(f, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"},
		{RuleShape, "scatter of the updates", "f32[4] scatter(f, i, f3), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"},
		{RuleShape, "scatter needs updates of rank 1", "f32[4] scatter(f, i, g), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"},
		{RuleShape, "rng of s32[] and f32[]", "f32[4] rng(k, s), distribution=rng_uniform"},
		{RuleShape, "no normal distribution", "s32[4] rng(k, k), distribution=rng_normal"},
		{RuleShape, "rng-bit-generator of the state", "(u64[2], u32[4]) rng-bit-generator(u), algorithm=rng_default"},
		{RuleShape, "rng-get-and-update-state gives u64[2]", "u64[3] rng-get-and-update-state(), delta=1"},
		{RuleShape, "replica-id gives u32[]", "s32[] replica-id()"},
		{RuleShape, "operand 0 of infeed must be a token", "(f32[4], token[]) infeed(f)"},
		{RuleShape, "operand 1 of add-dependency must be a token", "f32[4] add-dependency(f, f)"},
		{RuleShape, "outfeed of f32[4]{0} as f32[5]{0}", "token[] outfeed(f, t), outfeed_shape=f32[5]"},
		{RuleShape, "do not hold each of 0 to 1", "f32[4] all-reduce(f), replica_groups={{0,2}}, to_apply=add"},
		{RuleShape, "hold 3 ids, want 2", "f32[4] all-reduce(f), replica_groups={{0,1,2}}, to_apply=add"},
		{RuleShape, "replica groups of 2 and 1", "f32[8] all-gather(f), dimensions={0}, replica_groups={{0,1},{2}}"},
		{RuleShape, "use_global_device_ids without", "f32[8] all-gather(f), dimensions={0}, replica_groups={{0,1}}, use_global_device_ids=true"},
		{RuleShape, "all-gather of 3 shards in groups of 2", "f32[12] all-gather(f), dimensions={0}, replica_groups={{0,1}}"},
		{RuleShape, "reduce-scatter gives f32[2]{0}", "f32[3] reduce-scatter(f), dimensions={0}, replica_groups={{0,1}}, to_apply=add"},
		{RuleShape, "along a dimension of 3", "f32[3] all-to-all(f3), dimensions={0}, replica_groups={{0,1}}"},
		{RuleShape, "all-to-all of groups of 2 has 3 operands", "(f32[4], f32[4], f32[4]) all-to-all(f, f, f), replica_groups={{0,1}}"},
		{RuleShape, "of 2 devices", "f32[4] collective-permute(f), source_target_pairs={{0,2}}"},
		{RuleShape, "names 0 twice", "f32[4] collective-permute(f), source_target_pairs={{0,1},{0,0}}"},
		{RuleShape, "unbounded dimensions", "f32[?] custom-call(f), custom_call_target=\"x\""},
		{RuleSharding, "tiles of rank 2", "f32[4] negate(f), sharding={devices=[1,2]0,1}"},
		{RuleSharding, "twice or out of range", "f32[4] negate(f), sharding={devices=[2]0,0}"},
		{RuleAsync, "copy-start has 0 users", "(f32[4], f32[4], u32[]) copy-start(f)"},
		{RuleAsync, "async-start has no async-done", "((f32[4]), f32[4], u32[]) async-start(f), calls=one"},
		{RuleAsync, "more than one operation", "as = ((f32[4]), f32[4], u32[]) async-start(f), calls=two;;f32[4] async-done(as), calls=two"},
		{RuleAsync, "send-done takes tuple, not send", "tt = (f32[4], u32[], token[]) tuple(f, w, t);;token[] send-done(tt)"},
		{RuleAlias, "aliases operand 1 of 1", "f32[4] custom-call(f), custom_call_target=\"x\", output_to_operand_aliasing={{}: (1, {})}"},
		{RuleAlias, "no such tuple element", "f32[4] custom-call(f), custom_call_target=\"x\", output_to_operand_aliasing={{0}: (0, {})}"},
		{RuleAlias, "aliases operand s32[4]{0}", "f32[4] custom-call(i), custom_call_target=\"x\", output_to_operand_aliasing={{}: (0, {})}"},
		{RuleBuffer, "Pin makes a buffer of one array", "b(f32[5]) custom-call(f), custom_call_target=\"Pin\", output_to_operand_aliasing={{}: (0, {})}"},
		{RuleBuffer, "negate cannot take or give buffers", "bu = b(f32[4]) custom-call(), custom_call_target=\"CreateBuffer\";;b(f32[4]) negate(bu)"},
		{RuleCall, "GetRngSeed takes nothing", "u64[2] custom-call(), custom_call_target=\"GetRngSeed\""},
		{RuleOriginalValue, "other leaves", "(f32[4], s32[4]) tuple(f, i), origin={{\"x\"}}"},
	} {
		m, err := Parse("row", []byte(prelude+lines(row.text)+"\n}"))
		if err != nil {
			t.Errorf("%s: %v", row.text, err)
			continue
		}
		found := false
		for _, v := range violations(Verify(m)) {
			found = found || v.Rule == row.rule && strings.Contains(v.Message, row.want)
		}
		if !found {
			t.Errorf("%s: want %s: ...%s..., got\n%v", row.text, row.rule, row.want, Verify(m))
		}
	}
}

// lines makes the last of the instructions the root.
func lines(text string) string {
	i := strings.LastIndex(text, ";;")
	if i < 0 {
		return "ROOT v = " + text
	}
	return text[:i] + "\nROOT v = " + text[i+2:]
}

// TestModuleViolations has one broken module per row.
func TestModuleViolations(t *testing.T) {
	for _, row := range []struct {
		rule Rule
		want string
		text string
	}{
		{RuleEntryLayout, "has the result f32[5]", `HloModule m, entry_computation_layout={(f32[4])->f32[5]}
ENTRY e { ROOT p = f32[4] parameter(0) }`},
		{RuleEntryLayout, "has 2 parameters", `HloModule m, entry_computation_layout={(f32[4], f32[4])->f32[4]}
ENTRY e { ROOT p = f32[4] parameter(0) }`},
		{RuleAlias, "names parameter 1 of 1", `HloModule m, input_output_alias={ {}: (1, {}) }
ENTRY e { ROOT p = f32[4] parameter(0) }`},
		{RuleAlias, "must alias parameter 0 []", `HloModule m, input_output_alias={ {}: (0, {}, must-alias) }, entry_computation_layout={(f32[4,2]{1,0})->f32[4,2]{0,1}}
ENTRY e { ROOT p = f32[4,2] parameter(0) }`},
		{RuleAlias, "must alias parameter 0 []", `HloModule m, input_output_alias={ {}: (0, {}, must-alias) }, entry_computation_layout={(f32[4]{0:S(1)})->f32[4]{0}}
ENTRY e { ROOT p = f32[4] parameter(0) }`},
		{RuleAlias, "must alias parameter 0 []", `HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY e { p = f32[4] parameter(0)
 ROOT c = s32[4] convert(p) }`},
		{RuleAlias, "names parameter 0 [] twice", `HloModule m, input_output_alias={ {0}: (0, {}), {1}: (0, {}) }
ENTRY e { p = f32[4] parameter(0)
 ROOT t = (f32[4], f32[4]) tuple(p, p) }`},
		{RuleAlias, "which is no array", `HloModule m, input_output_alias={ {}: (0, {}) }
ENTRY e { p = f32[4] parameter(0)
 ROOT t = (f32[4], f32[4]) tuple(p, p) }`},
		{RuleAlias, "names [0] of parameter 0", `HloModule m, buffer_donor={ (0, {0}) }
ENTRY e { ROOT p = f32[4] parameter(0) }`},
		{RuleAlias, "which input_output_alias names too", `HloModule m, input_output_alias={ {}: (0, {}) }, buffer_donor={ (0, {}) }
ENTRY e { ROOT p = f32[4] parameter(0) }`},
		{RuleFusion, "has no users", `HloModule m
f { p = f32[4] parameter(0)
 dead = f32[4] negate(p)
 ROOT r = f32[4] abs(p) }
ENTRY e { q = f32[4] parameter(0)
 ROOT x = f32[4] fusion(q), kind=kLoop, calls=f }`},
		{RuleFusion, "has 2 callers", `HloModule m
f { p = f32[4] parameter(0)
 ROOT r = f32[4] abs(p) }
ENTRY e { q = f32[4] parameter(0)
 x = f32[4] fusion(q), kind=kLoop, calls=f
 ROOT y = f32[4] fusion(x), kind=kLoop, calls=f }`},
		{RuleThread, "on thread \"\" calls a computation of thread \"side\"", `HloModule m
f { p = f32[4] parameter(0)
 ROOT r = f32[4] abs(p) }, execution_thread="side"
ENTRY e { q = f32[4] parameter(0)
 ROOT x = f32[4] fusion(q), kind=kLoop, calls=f }`},
		{RuleSharding, "have different shardings", `HloModule m
b { ROOT p = s32[] parameter(0), sharding={replicated} }
c { q = s32[] parameter(0)
 ROOT r = pred[] constant(false) }
ENTRY e { i = s32[] parameter(0)
 ROOT w = s32[] while(i), condition=c, body=b, sharding={maximal device=0} }`},
		{RuleSharding, "2 devices of 4 partitions", `HloModule m, num_partitions=4
ENTRY e { ROOT p = f32[4] parameter(0), sharding={devices=[2]0,1} }`},
		{RuleAsync, "has a second async-done", `HloModule m
f { p = f32[4] parameter(0)
 ROOT r = f32[4] abs(p) }
ENTRY e { q = f32[4] parameter(0)
 s = ((f32[4]), f32[4], u32[]) async-start(q), calls=f
 d = f32[4] async-done(s)
 ROOT x = f32[4] async-done(s) }`},
		{RuleAsync, "takes the asynchronous s as operand 0", `HloModule m
f { p = f32[4] parameter(0)
 ROOT r = f32[4] abs(p) }
ENTRY e { q = f32[4] parameter(0)
 s = ((f32[4]), f32[4], u32[]) async-start(q), calls=f
 d = f32[4] async-done(s)
 c = f32[4] custom-call(s), custom_call_target="x"
 ROOT x = (f32[4], f32[4]) tuple(c, d) }`},
		{RuleChannel, "differs from s", `HloModule m
ENTRY e { q = f32[4] parameter(0)
 q2 = f32[5] parameter(1)
 t = token[] after-all()
 s = (f32[4], u32[], token[]) send(q, t), channel_id=1, is_host_transfer=true
 sd = token[] send-done(s), channel_id=1, is_host_transfer=true
 se = (f32[5], u32[], token[]) send(q2, sd), channel_id=1, is_host_transfer=true
 ROOT sd2 = token[] send-done(se), channel_id=1, is_host_transfer=true }`},
		{RuleChannel, "some all-reduces of the module are layout constrained", `HloModule m
add { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT z = f32[] add(x, y) }
ENTRY e { q = f32[4] parameter(0)
 a = f32[4] all-reduce(q), to_apply=add, constrain_layout=true
 ROOT b = f32[4] all-reduce(a), to_apply=add }`},
		{RuleBuffer, "more than one writer", `HloModule m
ENTRY e {
 b = b(f32[4]) custom-call(), custom_call_target="CreateBuffer"
 x = b(f32[4]) custom-call(b), custom_call_target="w", output_to_operand_aliasing={{}: (0, {})}
 y = b(f32[4]) custom-call(b), custom_call_target="w", output_to_operand_aliasing={{}: (0, {})}
 ux = f32[4] custom-call(x), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
 uy = f32[4] custom-call(y), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
 ROOT t = (f32[4], f32[4]) tuple(ux, uy) }`},
		{RuleBuffer, "a parameter of the entry computation is a buffer", `HloModule m
ENTRY e { ROOT p = b(f32[4]) parameter(0) }`},
		{RuleParameter, "parameter number 1 is not below 1", `HloModule m
ENTRY e { p = f32[4] parameter(0)
 ROOT r = f32[4] negate(p) }`},
	} {
		m, err := Parse("row", []byte(row.text))
		if err != nil {
			t.Errorf("%s: %v", row.text, err)
			continue
		}
		if row.rule == RuleParameter { // text cannot say it
			m.Entry.Instructions[0].Attr.ParameterNumber = 1
		}
		found := false
		for _, v := range violations(Verify(m)) {
			found = found || v.Rule == row.rule && strings.Contains(v.Message, row.want)
		}
		if !found {
			t.Errorf("%s\nwant %s: ...%s..., got\n%v", row.text, row.rule, row.want, Verify(m))
		}
	}
}

// TestBrokenStructure breaks the graph in ways that neither text nor wire can.
func TestBrokenStructure(t *testing.T) {
	const text = `HloModule m
f { a = f32[4] parameter(0)
 ROOT b = f32[4] negate(a) }
ENTRY e { p = f32[4] parameter(0)
 n = f32[4] negate(p)
 ROOT r = f32[4] call(n), to_apply=f }`
	for _, row := range []struct {
		name  string
		rule  Rule
		want  string
		spoil func(m *Module)
	}{
		{"no root", RuleStructure, "the root is not among", func(m *Module) { m.Entry.Root = nil }},
		{"foreign root", RuleStructure, "the root is not among", func(m *Module) { m.Entry.Root = m.Computations[0].Root }},
		{"no entry", RuleStructure, "the entry computation is not among", func(m *Module) { m.Entry = nil }},
		{"no name", RuleStructure, "no name", func(m *Module) { m.Name = "" }},
		{"no attr", RuleStructure, "no Attr", func(m *Module) { m.Entry.Instructions[1].Attr = nil }},
		{"no module attr", RuleStructure, "no Attr", func(m *Module) { m.Attr = nil }},
		{"nil operand", RuleStructure, "operand 0 is not in", func(m *Module) { m.Entry.Instructions[1].Operands[0] = nil }},
		{"foreign operand", RuleStructure, "operand 0 is not in", func(m *Module) { m.Entry.Instructions[1].Operands[0] = m.Computations[0].Root }},
		{"nil instruction", RuleStructure, "nil or listed twice", func(m *Module) { m.Entry.Instructions[1] = nil }},
		{"twice", RuleStructure, "nil or listed twice", func(m *Module) { m.Entry.Instructions[1] = m.Entry.Instructions[0] }},
		{"nil computation", RuleStructure, "nil or listed twice", func(m *Module) { m.Computations = append(m.Computations, nil) }},
		{"foreign callee", RuleStructure, "called computation 0 is not in", func(m *Module) { m.Computations = m.Computations[1:] }},
		{"no opcode", RuleStructure, "no opcode", func(m *Module) { m.Entry.Instructions[1].Op = OpInvalid }},
		{"no shape", RuleStructure, "shape is missing", func(m *Module) { m.Entry.Instructions[1].Shape = nil }},
		{"bad layout", RuleStructure, "not a permutation", func(m *Module) { m.Entry.Instructions[1].Shape.Layout = &Layout{MinorToMajor: []int64{1}} }},
		{"too few operands", RuleStructure, "want 1", func(m *Module) { m.Entry.Instructions[1].Operands = nil }},
		{"no callee", RuleStructure, "calls 0 computations", func(m *Module) { m.Entry.Root.Called = nil }},
		{"cycle", RuleStructure, "depends on itself", func(m *Module) {
			n := m.Entry.Instructions[1]
			n.Operands[0] = n
		}},
		{"recursion", RuleStructure, "calls itself", func(m *Module) {
			n := m.Entry.Root
			n.Called[0] = m.Entry
		}},
		{"order", RuleOrder, "before what it depends on", func(m *Module) {
			i := m.Entry.Instructions
			i[0], i[1] = i[1], i[0]
		}},
		{"control order", RuleOrder, "before what it depends on", func(m *Module) {
			m.Entry.Instructions[0].ControlPredecessors = m.Entry.Instructions[1:2]
			m.Entry.Instructions[1].Operands = []*Instruction{m.Entry.Instructions[0]}
			m.Entry.Instructions[1].Op, m.Entry.Instructions[1].Operands = OpPartitionId, nil
		}},
		{"computation order", RuleOrder, "called before it is listed", func(m *Module) {
			c := m.Computations
			c[0], c[1] = c[1], c[0]
		}},
		{"name twice", RuleName, "taken", func(m *Module) { m.Entry.Root.Name = "n" }},
		{"name of another computation", RuleName, "is taken by an instruction of f", func(m *Module) { m.Entry.Root.Name = "b" }},
		{"bad name", RuleName, "invalid", func(m *Module) { m.Entry.Root.Name = "a b" }},
		{"computation name", RuleName, "taken", func(m *Module) { m.Entry.Name = "f" }},
	} {
		m, err := Parse("row", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(m); err != nil {
			t.Fatal(err)
		}
		row.spoil(m)
		err = Verify(m)
		found := false
		for _, v := range violations(err) {
			found = found || v.Rule == row.rule && strings.Contains(v.Message, row.want)
		}
		if !found {
			t.Errorf("%s: want %s: ...%s..., got\n%v", row.name, row.rule, row.want, err)
		}
		switch row.name {
		case "order", "control order", "computation order", "bad name", "name twice", "name of another computation", "computation name":
			// ToProto repairs these.
			p, err := m.ToProto()
			if err != nil {
				t.Errorf("%s: %v", row.name, err)
			} else if _, err := FromProto(p); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
		case "no attr", "no module attr", "no name", "too few operands", "no callee":
			// These are XLA's to refuse.
		default:
			if _, err := m.ToProto(); err == nil {
				t.Errorf("%s: ToProto did not mind", row.name)
			}
		}
	}
}

func TestMixedPrecision(t *testing.T) {
	m, err := Parse("mixed", []byte(`HloModule m
ENTRY e { p = f32[4] parameter(0)
 q = bf16[4] parameter(1)
 s = f32[4] add(p, q)
 ROOT r = bf16[4] negate(s) }`))
	if err != nil {
		t.Fatal(err)
	}
	if len(violations(Verify(m))) != 2 {
		t.Errorf("want 2 violations, got %v", Verify(m))
	}
	if err := (VerifyOptions{AllowMixedPrecision: true}).Verify(m); err != nil {
		t.Error(err)
	}
}
