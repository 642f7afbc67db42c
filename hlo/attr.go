package hlo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/hlo/hlopb"
)

// attribute is one `name=value` of an instruction: how it is read and
// printed. The two stand together so that neither can be forgotten.
type attribute struct {
	name  string
	parse func(p *parser, r *reading)
	// text is the value, "" when there is none.
	text func(pr *printer, in *Instruction) string
	// optional says that the zero value is the same as none.
	optional bool
}

// attrUse is an attribute as an opcode has it.
type attrUse struct {
	*attribute
	required bool
	always   bool // printed also where its value is the zero value
}

// opcodeText lists the attributes of the opcodes in the order in which they
// are printed. `!` marks a required one, `+` one that is printed always;
// `name/variant` is another grammar under the same name.
// Source: the attribute table of xla/hlo/parser/hlo_parser.cc,
// CreateInstruction, and the order of PrintExtraAttributesImpl in
// xla/hlo/ir/hlo_instructions.cc.
var opcodeText = map[Opcode]string{
	OpAllGather:              "channel_id replica_groups+ constrain_layout dimensions! use_global_device_ids",
	OpAllGatherStart:         "channel_id replica_groups+ constrain_layout dimensions! use_global_device_ids",
	OpAllReduce:              "channel_id replica_groups+ constrain_layout use_global_device_ids mode to_apply!",
	OpAllReduceStart:         "channel_id replica_groups+ constrain_layout use_global_device_ids mode to_apply!",
	OpAllToAll:               "channel_id replica_groups+ constrain_layout dimensions",
	OpAsyncDone:              "async_execution_thread calls",
	OpAsyncStart:             "async_execution_thread output_to_operand_aliasing calls!",
	OpAsyncUpdate:            "async_execution_thread output_to_operand_aliasing calls",
	OpBatchNormGrad:          "epsilon! feature_index!",
	OpBatchNormInference:     "epsilon! feature_index!",
	OpBatchNormTraining:      "epsilon! feature_index!",
	OpBroadcast:              "dimensions+",
	OpCall:                   "to_apply! is_composite",
	OpCholesky:               "lower/cholesky",
	OpCollectiveBroadcast:    "channel_id replica_groups+ has_dynamic_root",
	OpCollectivePermute:      "channel_id source_target_pairs! slice_sizes/permute",
	OpCollectivePermuteStart: "channel_id source_target_pairs! slice_sizes/permute",
	OpCompare:                "direction! type order",
	OpConcatenate:            "dimensions!",
	OpConditional:            "true_computation false_computation branch_computations",
	OpConvolution: "window dim_labels! feature_group_count batch_group_count convolution_kind " +
		"operand_precision algorithm sparsity_config",
	OpCopyStart: "cross_program_prefetch_index",
	OpCustomCall: "window dim_labels feature_group_count batch_group_count operand_precision padding_type " +
		"custom_call_target! operand_layout_constraints custom_call_has_side_effect literal " +
		"output_to_operand_aliasing schedule api_version to_apply/custom called_computations",
	OpDomain: "domain!",
	OpDot: "lhs_batch_dims lhs_contracting_dims+ rhs_batch_dims rhs_contracting_dims+ " +
		"operand_precision algorithm",
	OpDynamicSlice: "dynamic_slice_sizes!",
	OpFft:          "fft_type! fft_length!",
	OpFusion:       "kind! output_to_operand_aliasing calls!",
	OpGather: "offset_dims! collapsed_slice_dims! start_index_map! operand_batching_dims " +
		"start_indices_batching_dims index_vector_dim! slice_sizes! indices_are_sorted",
	OpGetDimensionSize: "dimensions!",
	OpGetTupleElement:  "index!",
	OpInfeed:           "infeed_config",
	OpIota:             "iota_dimension!",
	OpMap:              "dimensions+ to_apply!",
	OpOutfeed:          "outfeed_shape outfeed_config",
	OpPad:              "padding!",
	OpRaggedAllToAll:   "channel_id replica_groups+ dimensions",
	OpRaggedDot: "lhs_batch_dims lhs_contracting_dims+ rhs_batch_dims rhs_contracting_dims+ " +
		"lhs_ragged_dims rhs_group_dims operand_precision",
	OpRecv:                 "channel_id is_host_transfer",
	OpRecvDone:             "channel_id is_host_transfer",
	OpReduce:               "dimensions! to_apply!",
	OpReducePrecision:      "exponent_bits! mantissa_bits!",
	OpReduceScatter:        "channel_id replica_groups+ constrain_layout use_global_device_ids mode dimensions! to_apply!",
	OpReduceWindow:         "window to_apply!",
	OpReshape:              "inferred_dimension",
	OpReverse:              "dimensions!",
	OpRng:                  "distribution!",
	OpRngBitGenerator:      "algorithm/rng!",
	OpRngGetAndUpdateState: "delta!",
	OpScaledDot: "lhs_batch_dims lhs_contracting_dims+ rhs_batch_dims rhs_contracting_dims+ " +
		"operand_precision algorithm",
	OpScan: "dimensions! num_carries! is_reverse is_associative to_apply!",
	OpScatter: "update_window_dims! inserted_window_dims! scatter_dims_to_operand_dims! input_batching_dims " +
		"scatter_indices_batching_dims index_vector_dim/scatter! indices_are_sorted unique_indices to_apply!",
	OpSelectAndScatter: "window select! scatter!",
	OpSend:             "channel_id is_host_transfer",
	OpSendDone:         "channel_id is_host_transfer",
	OpSetDimensionSize: "dimensions!",
	OpSlice:            "slice!",
	OpSort:             "dimensions! is_stable to_apply!",
	OpTopk:             "k! largest+ is_stable+",
	OpTranspose:        "dimensions!",
	OpTriangularSolve:  "left_side lower unit_diagonal transpose_a",
	OpWhile:            "condition! body!",
}

// withAccuracy are the unary opcodes that have a result_accuracy
// (IsUnaryOpWithResultAccuracy in hlo_instruction.cc).
var withAccuracy = []Opcode{
	OpAcos, OpAcosh, OpAsin, OpAsinh, OpAtanh, OpCbrt, OpCosine, OpCosh, OpErf, OpExponential,
	OpExponentialMinusOne, OpLog, OpLogPlusOne, OpLogistic, OpRsqrt, OpSine, OpSinh, OpSqrt, OpTan, OpTanh,
}

// opcodeAttrs and commonAttrs are set by init: the parsers of some attributes
// refer back to them.
var (
	opcodeAttrs [NumOpcodes + 1][]attrUse
	commonAttrs []attrUse // of every opcode
)

func init() {
	byKey := map[string]*attribute{}
	for _, list := range [][]keyed{plainAttrs(), dimensionAttrs(), computationAttrs(), structuredAttrs(), sharedAttrs()} {
		for _, k := range list {
			if byKey[k.key] != nil {
				panic("hlo: attribute " + k.key + " is defined twice")
			}
			a := k.attribute
			a.name, _, _ = strings.Cut(k.key, "/")
			byKey[k.key] = &a
		}
	}
	use := func(text string) []attrUse {
		var uses []attrUse
		for _, w := range strings.Fields(text) {
			u := attrUse{required: strings.Contains(w, "!"), always: strings.Contains(w, "+")}
			key := strings.NewReplacer("!", "", "+", "").Replace(w)
			if u.attribute = byKey[key]; u.attribute == nil {
				panic("hlo: attribute " + key + " is not defined")
			}
			uses = append(uses, u)
		}
		return uses
	}
	for op, text := range opcodeText {
		opcodeAttrs[op] = use(text)
	}
	for _, op := range withAccuracy {
		opcodeAttrs[op] = use("result_accuracy")
	}
	commonAttrs = use("sharding frontend_attributes control-predecessors parameter_replication statistics " +
		"origin metadata backend_config")
}

// keyed is an attribute under its key in opcodeText.
type keyed struct {
	key string
	attribute
}

func findAttr(uses []attrUse, name string) *attribute {
	for _, u := range uses {
		if u.name == name {
			return u.attribute
		}
	}
	return nil
}

func attrNames(uses []attrUse) string {
	if len(uses) == 0 {
		return "only the common ones"
	}
	var names []string
	for _, u := range uses {
		names = append(names, u.name)
	}
	return strings.Join(names, ", ")
}

type pbInstr = hlopb.HloInstructionProto

func intAttr(key string, field func(*pbInstr) *int64) keyed {
	return keyed{key, attribute{
		parse: func(p *parser, r *reading) { *field(r.Attr) = p.int("an integer for " + key) },
		text:  func(_ *printer, in *Instruction) string { return strconv.FormatInt(*field(in.Attr), 10) },

		optional: true,
	}}
}

func boolAttr(key string, field func(*pbInstr) *bool) keyed {
	return keyed{key, attribute{
		parse: func(p *parser, r *reading) { *field(r.Attr) = p.bool(key) },
		text:  func(_ *printer, in *Instruction) string { return strconv.FormatBool(*field(in.Attr)) },

		optional: true,
	}}
}

// enumAttr is an identifier, in any case, that names a value of a wire enum.
// zero is the least value that is printed.
func enumAttr[E ~int32](key string, zero E, field func(*pbInstr) *E, names []string) keyed {
	return keyed{key, attribute{
		parse: func(p *parser, r *reading) { *field(r.Attr) = E(p.oneOfFold("a value of "+key, names...)) },
		text: func(_ *printer, in *Instruction) string {
			if v := *field(in.Attr); v >= zero && int(v) < len(names) {
				return names[v]
			}
			return ""
		},
	}}
}

// enumNames are the names of a wire enum's values 0, 1, 2, ..., without a
// prefix.
func enumNames(m map[int32]string, trim string, lower bool) []string {
	names := make([]string, len(m))
	for i := range names {
		s := strings.TrimPrefix(m[int32(i)], trim)
		if lower {
			s = strings.ToLower(s)
		}
		names[i] = s
	}
	return names
}

func quoted(s string) string { return `"` + escape(s) + `"` }

// plainAttrs are attributes that are one number, word or string.
func plainAttrs() []keyed {
	groupCount := func(key string, field func(*pbInstr) *int64) keyed {
		k := intAttr(key, field)
		k.text = func(_ *printer, in *Instruction) string {
			if v := *field(in.Attr); v != 1 {
				return strconv.FormatInt(v, 10)
			}
			return ""
		}
		return k
	}
	// option is a flag inside an options message, which get must not make.
	option := func(key string, at func(*pbInstr) *bool, get func(*pbInstr) bool) keyed {
		k := boolAttr(key, at)
		k.text = func(_ *printer, in *Instruction) string { return strconv.FormatBool(get(in.Attr)) }
		return k
	}
	bits := func(key string, field func(*pbInstr) *int32) keyed {
		return keyed{key, attribute{
			parse: func(p *parser, r *reading) { *field(r.Attr) = p.int32("an integer for " + key) },
			text:  func(_ *printer, in *Instruction) string { return strconv.Itoa(int(*field(in.Attr))) },
		}}
	}
	return []keyed{
		intAttr("delta", func(a *pbInstr) *int64 { return &a.Delta }),
		intAttr("feature_index", func(a *pbInstr) *int64 { return &a.FeatureIndex }),
		intAttr("index", func(a *pbInstr) *int64 { return &a.TupleIndex }),
		intAttr("k", func(a *pbInstr) *int64 { return &a.K }),
		intAttr("num_carries", func(a *pbInstr) *int64 { return &a.NumCarries }),
		groupCount("feature_group_count", func(a *pbInstr) *int64 { return &a.FeatureGroupCount }),
		groupCount("batch_group_count", func(a *pbInstr) *int64 { return &a.BatchGroupCount }),
		bits("exponent_bits", func(a *pbInstr) *int32 { return &a.ExponentBits }),
		bits("mantissa_bits", func(a *pbInstr) *int32 { return &a.MantissaBits }),

		boolAttr("constrain_layout", func(a *pbInstr) *bool { return &a.ConstrainLayout }),
		boolAttr("custom_call_has_side_effect", func(a *pbInstr) *bool { return &a.CustomCallHasSideEffect }),
		boolAttr("has_dynamic_root", func(a *pbInstr) *bool { return &a.HasDynamicRoot }),
		boolAttr("indices_are_sorted", func(a *pbInstr) *bool { return &a.IndicesAreSorted }),
		boolAttr("is_composite", func(a *pbInstr) *bool { return &a.IsComposite }),
		boolAttr("is_host_transfer", func(a *pbInstr) *bool { return &a.IsHostTransfer }),
		boolAttr("is_reverse", func(a *pbInstr) *bool { return &a.IsReverse }),
		boolAttr("is_stable", func(a *pbInstr) *bool { return &a.IsStable }),
		boolAttr("largest", func(a *pbInstr) *bool { return &a.Largest }),
		boolAttr("unique_indices", func(a *pbInstr) *bool { return &a.UniqueIndices }),
		boolAttr("use_global_device_ids", func(a *pbInstr) *bool { return &a.UseGlobalDeviceIds }),
		option("left_side", func(a *pbInstr) *bool { return &ensure(&a.TriangularSolveOptions).LeftSide },
			func(a *pbInstr) bool { return a.GetTriangularSolveOptions().GetLeftSide() }),
		option("lower", func(a *pbInstr) *bool { return &ensure(&a.TriangularSolveOptions).Lower },
			func(a *pbInstr) bool { return a.GetTriangularSolveOptions().GetLower() }),
		option("unit_diagonal", func(a *pbInstr) *bool { return &ensure(&a.TriangularSolveOptions).UnitDiagonal },
			func(a *pbInstr) bool { return a.GetTriangularSolveOptions().GetUnitDiagonal() }),
		option("lower/cholesky", func(a *pbInstr) *bool { return &ensure(&a.CholeskyOptions).Lower },
			func(a *pbInstr) bool { return a.GetCholeskyOptions().GetLower() }),

		{"transpose_a", attribute{
			parse: func(p *parser, r *reading) {
				names := enumNames(hlopb.TriangularSolveOptions_Transpose_name, "", false)
				ensure(&r.Attr.TriangularSolveOptions).TransposeA =
					hlopb.TriangularSolveOptions_Transpose(p.oneOf("a transposition", names...))
			},
			text: func(_ *printer, in *Instruction) string {
				if t := in.Attr.GetTriangularSolveOptions().GetTransposeA(); t != 0 {
					return t.String()
				}
				return ""
			},
		}},
		enumAttr("algorithm/rng", 0, func(a *pbInstr) *hlopb.RandomAlgorithm { return &a.RngAlgorithm },
			enumNames(hlopb.RandomAlgorithm_name, "", true)),
		enumAttr("distribution", 0, func(a *pbInstr) *hlopb.RandomDistribution { return &a.Distribution },
			enumNames(hlopb.RandomDistribution_name, "", true)),
		enumAttr("fft_type", 0, func(a *pbInstr) *hlopb.FftType { return &a.FftType },
			enumNames(hlopb.FftType_name, "", false)),
		enumAttr("padding_type", 1, func(a *pbInstr) *hlopb.PaddingType { return &a.PaddingType },
			enumNames(hlopb.PaddingType_name, "", false)),
		enumAttr("schedule", 1, func(a *pbInstr) *hlopb.CustomCallSchedule { return &a.CustomCallSchedule },
			enumNames(hlopb.CustomCallSchedule_name, "", false)),

		{"epsilon", attribute{
			parse: func(p *parser, r *reading) {
				pos := p.tok.pos
				v := p.float("a number for epsilon")
				if math.Abs(v) > math.MaxFloat32 {
					p.fail(pos, "%v is out of range for f32", v)
				}
				r.Attr.Epsilon = float32(v)
			},
			text: func(_ *printer, in *Instruction) string {
				return string(appendFloat(nil, F32, uint64(math.Float32bits(in.Attr.Epsilon))))
			},
		}},
		{"channel_id", attribute{
			parse: func(p *parser, r *reading) { r.Attr.ChannelId = p.int("a channel id") },
			text: func(_ *printer, in *Instruction) string {
				if in.Attr.ChannelId == 0 && !in.Attr.UseGlobalDeviceIds {
					return ""
				}
				return strconv.FormatInt(in.Attr.ChannelId, 10)
			},
		}},
		{"cross_program_prefetch_index", attribute{
			parse: func(p *parser, r *reading) {
				r.Attr.OptionalCrossProgramPrefetchIndex = &hlopb.HloInstructionProto_CrossProgramPrefetchIndex{
					CrossProgramPrefetchIndex: p.int32("an index"),
				}
			},
			text: func(_ *printer, in *Instruction) string {
				if in.Attr.OptionalCrossProgramPrefetchIndex == nil {
					return ""
				}
				return fmt.Sprintf("%d", in.Attr.GetCrossProgramPrefetchIndex())
			},
		}},
		{"is_associative", attribute{
			parse: func(p *parser, r *reading) {
				r.Attr.IsAssociative = hlopb.TriState_TRI_STATE_FALSE
				if p.bool("is_associative") {
					r.Attr.IsAssociative = hlopb.TriState_TRI_STATE_TRUE
				}
			},
			text: func(_ *printer, in *Instruction) string {
				if in.Attr.IsAssociative == hlopb.TriState_TRI_STATE_TRUE {
					return "true"
				}
				return ""
			},
		}},
		// mode is read and dropped, as in XLA: the wire has no place for it.
		{"mode", attribute{
			parse: func(p *parser, _ *reading) {
				p.oneOf("a collective mode", "cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id")
			},
			text: func(*printer, *Instruction) string { return "" },
		}},
		{"kind", attribute{
			parse: func(p *parser, r *reading) {
				kinds := []string{"kLoop", "kInput", "kOutput", "kCustom"}
				r.Attr.FusionKind = kinds[p.oneOf("a fusion kind", kinds...)]
			},
			text: func(_ *printer, in *Instruction) string { return in.Attr.FusionKind },
		}},
		{"direction", attribute{
			parse: func(p *parser, r *reading) {
				d := []string{"EQ", "NE", "GE", "GT", "LE", "LT"}
				r.Attr.ComparisonDirection = d[p.oneOf("a comparison direction", d...)]
			},
			text: func(_ *printer, in *Instruction) string { return in.Attr.ComparisonDirection },
		}},
		{"type", attribute{
			parse: func(p *parser, r *reading) {
				t := []string{"FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"}
				r.Attr.ComparisonType = t[p.oneOf("a comparison type", t...)]
			},
			text: func(_ *printer, in *Instruction) string {
				if len(in.Operands) > 0 && in.Attr.ComparisonType == comparisonType(in.Operands[0].Shape.Type) {
					return ""
				}
				return in.Attr.ComparisonType
			},
		}},
		// order is what builds from 2026-08 on write for type: the printer leaves
		// it out.
		{"order", attribute{
			parse: func(p *parser, r *reading) {
				o := []string{"TOTAL", "PARTIAL"}
				r.Attr.ComparisonOrder = o[p.oneOf("a comparison order", o...)]
			},
			text: func(*printer, *Instruction) string { return "" },
		}},
		{"convolution_kind", attribute{
			parse: func(p *parser, r *reading) {
				r.Attr.ConvKind = hlopb.ConvolutionKind(p.oneOf("a convolution kind", "unset", "fprop", "dgrad", "wgrad"))
			},
			text: func(_ *printer, in *Instruction) string {
				if k := in.Attr.ConvKind; k > 0 && k <= 3 {
					return []string{"", "fprop", "dgrad", "wgrad"}[k]
				}
				return ""
			},
		}},
		{"api_version", attribute{
			parse: func(p *parser, r *reading) {
				names := enumNames(hlopb.CustomCallApiVersion_name, "", false)
				r.Attr.CustomCallApiVersion = hlopb.CustomCallApiVersion(1 + p.oneOfFold("a custom-call API version", names[1:]...))
			},
			text: func(_ *printer, in *Instruction) string {
				if v := in.Attr.CustomCallApiVersion; v > hlopb.CustomCallApiVersion_API_VERSION_ORIGINAL {
					return v.String()
				}
				return ""
			},
		}},
		{"custom_call_target", attribute{
			parse: func(p *parser, r *reading) { r.Attr.CustomCallTarget = p.string("custom_call_target") },
			text:  func(_ *printer, in *Instruction) string { return quoted(in.Attr.CustomCallTarget) },
		}},
		{"async_execution_thread", attribute{
			parse: func(p *parser, r *reading) { r.Attr.AsyncExecutionThread = p.string("async_execution_thread") },
			text: func(_ *printer, in *Instruction) string {
				if in.Attr.AsyncExecutionThread == "" {
					return ""
				}
				return quoted(in.Attr.AsyncExecutionThread)
			},
		}},
		{"infeed_config", bytesAttr(func(a *pbInstr) *[]byte { return &a.InfeedConfig })},
		{"outfeed_config", bytesAttr(func(a *pbInstr) *[]byte { return &a.OutfeedConfig })},
	}
}

func bytesAttr(field func(*pbInstr) *[]byte) attribute {
	return attribute{
		parse: func(p *parser, r *reading) { *field(r.Attr) = []byte(p.bytes("a configuration")) },
		text: func(_ *printer, in *Instruction) string {
			if len(*field(in.Attr)) == 0 {
				return ""
			}
			return quoted(string(*field(in.Attr)))
		},
	}
}

// comparisonType is the type of a comparison that names none
// (Comparison::DefaultComparisonType, xla/comparison_util.cc).
func comparisonType(t PrimitiveType) string {
	switch {
	case t.IsFloat(), t.IsComplex():
		return "FLOAT"
	case t.IsUnsigned(), t == Pred:
		return "UNSIGNED"
	}
	return "SIGNED"
}

// dimensionAttrs are lists of dimensions, and single dimensions that share
// their field.
func dimensionAttrs() []keyed {
	// get must not write to the message; at makes the messages on the way.
	field := func(key string, get func(*pbInstr) []int64, at func(*pbInstr) *[]int64) keyed {
		return keyed{key, attribute{
			parse: func(p *parser, r *reading) { *at(r.Attr) = p.ints(key) },
			text: func(_ *printer, in *Instruction) string {
				return "{" + string(appendInts(nil, get(in.Attr), ",")) + "}"
			},
			optional: true,
		}}
	}
	number := func(key string, get func(*pbInstr) int64, at func(*pbInstr) *int64) keyed {
		k := intAttr(key, at)
		k.text = func(_ *printer, in *Instruction) string { return strconv.FormatInt(get(in.Attr), 10) }
		return k
	}
	single := func(key string) keyed {
		return keyed{key, attribute{
			parse: func(p *parser, r *reading) { r.Attr.Dimensions = []int64{p.int("a dimension")} },
			text: func(_ *printer, in *Instruction) string {
				return string(appendInts(nil, in.Attr.Dimensions[:min(1, len(in.Attr.Dimensions))], ","))
			},
		}}
	}
	type (
		gather  = hlopb.GatherDimensionNumbers
		scatter = hlopb.ScatterDimensionNumbers
	)
	gatherAt := func(a *pbInstr) *gather { return ensure(&a.GatherDimensionNumbers) }
	scatterAt := func(a *pbInstr) *scatter { return ensure(&a.ScatterDimensionNumbers) }
	gatherList := func(key string, get func(*gather) []int64, at func(*gather) *[]int64) keyed {
		return field(key, func(a *pbInstr) []int64 { return get(a.GetGatherDimensionNumbers()) },
			func(a *pbInstr) *[]int64 { return at(gatherAt(a)) })
	}
	scatterList := func(key string, get func(*scatter) []int64, at func(*scatter) *[]int64) keyed {
		return field(key, func(a *pbInstr) []int64 { return get(a.GetScatterDimensionNumbers()) },
			func(a *pbInstr) *[]int64 { return at(scatterAt(a)) })
	}
	return []keyed{
		field("dimensions", (*pbInstr).GetDimensions, func(a *pbInstr) *[]int64 { return &a.Dimensions }),
		field("dynamic_slice_sizes", (*pbInstr).GetDynamicSliceSizes, func(a *pbInstr) *[]int64 { return &a.DynamicSliceSizes }),
		field("fft_length", (*pbInstr).GetFftLength, func(a *pbInstr) *[]int64 { return &a.FftLength }),
		field("slice_sizes", (*pbInstr).GetGatherSliceSizes, func(a *pbInstr) *[]int64 { return &a.GatherSliceSizes }),
		single("iota_dimension"),
		single("inferred_dimension"),

		field("lhs_batch_dims", func(a *pbInstr) []int64 { return dotOf(a).GetLhsBatchDimensions() },
			func(a *pbInstr) *[]int64 { return &dotAt(a).LhsBatchDimensions }),
		field("rhs_batch_dims", func(a *pbInstr) []int64 { return dotOf(a).GetRhsBatchDimensions() },
			func(a *pbInstr) *[]int64 { return &dotAt(a).RhsBatchDimensions }),
		field("lhs_contracting_dims", func(a *pbInstr) []int64 { return dotOf(a).GetLhsContractingDimensions() },
			func(a *pbInstr) *[]int64 { return &dotAt(a).LhsContractingDimensions }),
		field("rhs_contracting_dims", func(a *pbInstr) []int64 { return dotOf(a).GetRhsContractingDimensions() },
			func(a *pbInstr) *[]int64 { return &dotAt(a).RhsContractingDimensions }),
		field("lhs_ragged_dims", func(a *pbInstr) []int64 { return a.GetRaggedDotDimensionNumbers().GetLhsRaggedDimensions() },
			func(a *pbInstr) *[]int64 { return &ensure(&a.RaggedDotDimensionNumbers).LhsRaggedDimensions }),
		field("rhs_group_dims", func(a *pbInstr) []int64 { return a.GetRaggedDotDimensionNumbers().GetRhsGroupDimensions() },
			func(a *pbInstr) *[]int64 { return &ensure(&a.RaggedDotDimensionNumbers).RhsGroupDimensions }),

		gatherList("offset_dims", (*gather).GetOffsetDims, func(g *gather) *[]int64 { return &g.OffsetDims }),
		gatherList("collapsed_slice_dims", (*gather).GetCollapsedSliceDims, func(g *gather) *[]int64 { return &g.CollapsedSliceDims }),
		gatherList("start_index_map", (*gather).GetStartIndexMap, func(g *gather) *[]int64 { return &g.StartIndexMap }),
		gatherList("operand_batching_dims", (*gather).GetOperandBatchingDims, func(g *gather) *[]int64 { return &g.OperandBatchingDims }),
		gatherList("start_indices_batching_dims", (*gather).GetStartIndicesBatchingDims,
			func(g *gather) *[]int64 { return &g.StartIndicesBatchingDims }),
		number("index_vector_dim", func(a *pbInstr) int64 { return a.GetGatherDimensionNumbers().GetIndexVectorDim() },
			func(a *pbInstr) *int64 { return &gatherAt(a).IndexVectorDim }),

		scatterList("update_window_dims", (*scatter).GetUpdateWindowDims, func(s *scatter) *[]int64 { return &s.UpdateWindowDims }),
		scatterList("inserted_window_dims", (*scatter).GetInsertedWindowDims, func(s *scatter) *[]int64 { return &s.InsertedWindowDims }),
		scatterList("scatter_dims_to_operand_dims", (*scatter).GetScatterDimsToOperandDims,
			func(s *scatter) *[]int64 { return &s.ScatterDimsToOperandDims }),
		scatterList("input_batching_dims", (*scatter).GetInputBatchingDims, func(s *scatter) *[]int64 { return &s.InputBatchingDims }),
		scatterList("scatter_indices_batching_dims", (*scatter).GetScatterIndicesBatchingDims,
			func(s *scatter) *[]int64 { return &s.ScatterIndicesBatchingDims }),
		number("index_vector_dim/scatter", func(a *pbInstr) int64 { return a.GetScatterDimensionNumbers().GetIndexVectorDim() },
			func(a *pbInstr) *int64 { return &scatterAt(a).IndexVectorDim }),
	}
}

// ensure makes the message that a field points to.
func ensure[M any](field **M) *M {
	if *field == nil {
		*field = new(M)
	}
	return *field
}

// dotOf are the dimension numbers of a dot, those inside a ragged one's
// included; nil if there are none.
func dotOf(a *pbInstr) *hlopb.DotDimensionNumbers {
	if r := a.GetRaggedDotDimensionNumbers(); r != nil {
		return r.GetDotDimensionNumbers()
	}
	return a.GetDotDimensionNumbers()
}

func dotAt(a *pbInstr) *hlopb.DotDimensionNumbers {
	if r := a.RaggedDotDimensionNumbers; r != nil {
		return ensure(&r.DotDimensionNumbers)
	}
	return ensure(&a.DotDimensionNumbers)
}

// computationAttrs name called computations. Their order in
// Instruction.Called is set by callOrder.
func computationAttrs() []keyed {
	one := func(key string) keyed {
		name, _, _ := strings.Cut(key, "/")
		return keyed{key, attribute{
			parse: func(p *parser, r *reading) { r.calls = append(r.calls, call{name, p.computationRef()}) },
			text: func(pr *printer, in *Instruction) string {
				i := slices.Index(callOrder(in.Op), name)
				if i < 0 || i >= len(in.Called) {
					return ""
				}
				return pr.computationName(in.Called[i])
			},
		}}
	}
	branch := func(key string) keyed {
		k := one(key)
		text := k.text
		k.text = func(pr *printer, in *Instruction) string {
			if !predicated(in) {
				return ""
			}
			return text(pr, in)
		}
		return k
	}
	many := func(key string, skip func(*Instruction) bool) keyed {
		return keyed{key, attribute{
			parse: func(p *parser, r *reading) {
				p.list('{', '}', "computations", func() { r.calls = append(r.calls, call{key, p.computationRef()}) })
			},
			text: func(pr *printer, in *Instruction) string {
				if skip(in) {
					return ""
				}
				var names []string
				for _, c := range in.Called {
					names = append(names, pr.computationName(c))
				}
				return "{" + strings.Join(names, ", ") + "}"
			},
			optional: true,
		}}
	}
	never := one("to_apply/custom") // printed as called_computations
	never.text = func(*printer, *Instruction) string { return "" }
	return []keyed{
		one("to_apply"), one("calls"), one("condition"), one("body"), one("select"), one("scatter"), never,
		branch("true_computation"), branch("false_computation"),
		many("branch_computations", predicated),
		many("called_computations", func(*Instruction) bool { return false }),
	}
}

// predicated reports whether a conditional chooses by a predicate.
func predicated(in *Instruction) bool {
	return len(in.Operands) > 0 && in.Operands[0].Shape.Type == Pred && len(in.Called) == 2
}

// call is a computation that an attribute names.
type call struct {
	attr string
	comp *Computation
}

// callOrder are the attributes that name one computation each, in the order
// of Instruction.Called.
func callOrder(op Opcode) []string {
	switch op {
	case OpWhile:
		return []string{"body", "condition"}
	case OpSelectAndScatter:
		return []string{"select", "scatter"}
	case OpConditional:
		return []string{"true_computation", "false_computation"}
	case OpFusion, OpAsyncStart, OpAsyncUpdate, OpAsyncDone:
		return []string{"calls"}
	}
	return []string{"to_apply"}
}
