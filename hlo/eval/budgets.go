package eval

import (
	"math"

	"github.com/passgate/passgate/hlo"
)

// Budget is one row of the legal-variation table: how far a legal
// implementation of an operation may be off on exact operands.
type Budget struct {
	Op   hlo.Opcode
	Type hlo.PrimitiveType // operand type
	// Ulps are units in the last place of the true result.
	Ulps float64
	// Eps is a relative error in units of the distance of 1 and the next
	// value (1 to 2 ULP each); of the absolute value, so norm-wise, for complex
	// types.
	Eps float64
	// Normals is an absolute error in units of the type's smallest normal value.
	Normals float64
	// Argument is the relative error, in half ULP, that the operand may have
	// picked up in a rewrite of the compiler.
	Argument float64
	Source   string
}

// Where the numbers come from. Paths are in the XLA repository.
const (
	// accuracy_budget.h gives each op's largest distance, in floats, from the
	// correctly rounded result, per platform (CPU, CUDA, ROCm, oneAPI), on a few
	// hundred points per op and with one vector width. Doubled for the points
	// and widths not measured (dense sampling of XLA's CPU builds finds up to
	// 1.75 times the number), plus 1/2 for rounding and 1 for the distance.
	sourceAccuracy = "xla/codegen/intrinsic/accuracy/accuracy_budget.h, largest over platforms, times 2, plus 1.5"
	sourceDefault  = "xla/tests/exhaustive/exhaustive_op_test_utils.h, DefaultSpecGenerator: 20 eps (f32, f64), 5 eps (f16), 2 eps (bf16), 2 smallest normals"
	sourceUnary    = "xla/tests/exhaustive/exhaustive_unary_test_functions.cc"
	sourceBinary   = "xla/tests/exhaustive/exhaustive_binary_test_functions.cc"
	sourceComplex  = "xla/tests/exhaustive/exhaustive_unary_complex_test.cc"
	sourceNarrow   = "xla/tests/exhaustive/exhaustive_unary_test_functions.cc, distance_err, + 1/2 for rounding, + 1/2 for the rounding of the f16 or f32 in between"
	sourceSimplify = "xla/hlo/transforms/simplifiers/algebraic_simplifier.cc"
)

// accuracy holds, for f32 and f64, the largest regular budget of
// accuracy_budget.h over its platforms.
var accuracy = map[hlo.Opcode][2]float64{
	hlo.OpAtan2:       {3, 2}, // kAtan*Budget
	hlo.OpExponential: {7, 1},
	hlo.OpLogPlusOne:  {1, 2},
	hlo.OpLog:         {3, 1},
	hlo.OpRsqrt:       {1, 1},
	hlo.OpSqrt:        {1, 0},
	hlo.OpTanh:        {3, 4},
	hlo.OpSine:        {1, 2},
	hlo.OpCosine:      {1, 2},
	hlo.OpErf:         {3, 2},
	hlo.OpTan:         {4, 4},
	hlo.OpCbrt:        {2, 2},
}

// relative holds the relative tolerances, in epsilon, that the exhaustive tests
// give an op of f32 and f64 by name; nothing stands for the default.
var relative = map[hlo.Opcode][2]float64{
	hlo.OpSqrt:   {2, 2},
	hlo.OpRsqrt:  {2, 2},
	hlo.OpCbrt:   {16, 70}, // GPU f32, CPU f64
	hlo.OpSine:   {2, 2},
	hlo.OpCosine: {2, 2},
	hlo.OpTan:    {4, 4},
	hlo.OpAsin:   {10, 10},
	hlo.OpAcosh:  {50, 50},
}

// defaultEps is the default tolerance of f32 and f64.
const defaultEps = 20

// distances are the f8e4m3fn and f8e5m2 distances above zero.
var distances = map[hlo.Opcode]float64{
	hlo.OpLogPlusOne: 1, hlo.OpExponential: 1, hlo.OpLogistic: 1, hlo.OpAsinh: 1, hlo.OpAtanh: 1,
	hlo.OpAcos: 1, hlo.OpCosh: 4, hlo.OpSinh: 4, hlo.OpPower: 1, hlo.OpAtan2: 1,
}

var budgets = func() (table [hlo.NumOpcodes + 1][hlo.F6E2M3FN + 1]*Budget) {
	add := func(b Budget) { table[b.Op][b.Type] = &b }
	for i, fn := range functions {
		if fn == nil {
			continue
		}
		op := hlo.Opcode(i)
		for t, f := range floatTypes {
			if f == nil {
				continue
			}
			add(realBudget(op, hlo.PrimitiveType(t), f))
		}
	}
	for t, f := range floatTypes {
		if f == nil {
			continue
		}
		pt := hlo.PrimitiveType(t)
		add(realBudget(hlo.OpAtan2, pt, f))
		// x^y: within one float of the reference; x*x*x for y = 3 is two
		// roundings; pow(exp(a), b) may become exp(a*b).
		power := Budget{Op: hlo.OpPower, Type: pt, Ulps: 2.5, Argument: 1,
			Source: sourceBinary + ", Pow: distance 1 (GPU), + 1/2 for rounding + 1; " + sourceSimplify + ", HandlePower"}
		// Division: x/c may become x*(1/c), and CUDA's approximate division is
		// within 2 floats.
		divide := Budget{Op: hlo.OpDivide, Type: pt, Ulps: 1.5 + 0x1p-10,
			Source: sourceSimplify + ", A / Const => A * (1 / Const): u + u/2 + u^2"}
		switch pt {
		case hlo.F32, hlo.F16:
			divide.Ulps = 2.5
			divide.Source = sourceBinary + ", Div: distance 2 (f32), 1 (f16) on GPU, + 1/2 for rounding"
		}
		add(power)
		add(divide)
	}
	for _, t := range [...]hlo.PrimitiveType{hlo.C64, hlo.C128} {
		for op := range complexFunctions {
			add(complexRow(op, t))
		}
		for _, op := range [...]hlo.Opcode{hlo.OpAbs, hlo.OpSign, hlo.OpDivide, hlo.OpPower} {
			add(complexRow(op, t))
		}
	}
	return table
}()

func realBudget(op hlo.Opcode, t hlo.PrimitiveType, f *floatType) Budget {
	b := Budget{Op: op, Type: t, Ulps: 0.5}
	switch {
	case f.MantissaBits >= 23:
		i := 0
		if f.wide {
			i = 1
		}
		distance, measured := accuracy[op]
		named, specific := relative[op]
		if measured {
			b.Ulps, b.Source = 2*distance[i]+1.5, sourceAccuracy
		}
		switch {
		case specific && named[i] > b.Ulps:
			b.Ulps, b.Eps, b.Source = 0.5, named[i], sourceUnary+", by name"
		case !measured && !specific:
			b.Eps, b.Normals, b.Source = defaultEps, 2, sourceDefault
		}
		switch op {
		case hlo.OpExponential:
			// Approximations clamp their argument where the result would be
			// subnormal; exp(a)*exp(b) may become exp(a+b).
			b.Normals, b.Argument = 2, 1
			b.Source += "; xla/codegen/intrinsic/exp.cc (clamped arguments); " + sourceSimplify + " (exp(A)*exp(B) => exp(A+B))"
		case hlo.OpCbrt:
			// cbrt of subnormals is off by up to cbrt(smallest subnormal), by
			// the test's word; real builds reach 1.5 times that.
			b.Normals = 2 * math.Cbrt(f.minSub) / f.minNormal
		case hlo.OpAcosh:
			b.Normals = 1e-7 / f.minNormal
		case hlo.OpAsin:
			b.Normals = 2
		}
	case t == hlo.F16:
		b.Eps, b.Normals, b.Source = 5, 2, sourceDefault
	case t == hlo.BF16:
		b.Eps, b.Normals, b.Source = 2, 2, sourceDefault
	default:
		b.Ulps, b.Source = distances[op]+1, sourceNarrow
	}
	if f.MantissaBits < 23 {
		switch op {
		case hlo.OpCbrt:
			if t == hlo.BF16 { // computed in f32
				b.Normals = 2 * math.Cbrt(floatTypes[hlo.F32].minSub) / f.minNormal
			}
		case hlo.OpAcosh: // relative to the type's own epsilon
			b.Eps, b.Source = 50, sourceUnary+", Acosh: 50 eps"
		case hlo.OpExponential:
			b.Argument = 1
		}
	}
	return b
}

func complexRow(op hlo.Opcode, t hlo.PrimitiveType) Budget {
	f := realType(t)
	b := Budget{Op: op, Type: t, Eps: 40, Normals: 2, Source: "xla/tests/exhaustive/exhaustive_op_test_utils.h, DefaultSpecGenerator<C64>: 40 eps"}
	if f.wide {
		b.Eps, b.Source = 20, "xla/tests/exhaustive/exhaustive_op_test_utils.h, DefaultSpecGenerator<C128>: 20 eps"
	}
	switch op {
	case hlo.OpLog, hlo.OpLogPlusOne:
		b.Eps, b.Normals, b.Source = 50, 2*f.eps/f.minNormal, sourceComplex+", Log: 50 eps + 2 eps"
	case hlo.OpSqrt:
		b.Eps, b.Normals, b.Source = 50, math.Sqrt(f.minSub)/f.minNormal, sourceComplex+", Sqrt"
	case hlo.OpRsqrt:
		b.Eps, b.Normals, b.Source = 50, math.Sqrt(f.minNormal)/f.minNormal, sourceComplex+", Rsqrt"
	case hlo.OpTanh, hlo.OpTan:
		if f.wide {
			b.Eps = 2e-8 / f.eps
		}
		b.Source = sourceComplex + ", Tanh: 40 eps (c64), 2e-8 (c128)"
	case hlo.OpAbs:
		b.Eps, b.Source = 3.5, sourceBinary+", AbsComplex: distance 3 (GPU), + 1/2 for rounding"
	case hlo.OpSign:
		b.Eps, b.Source = 7, sourceBinary+", AbsComplex, and one division"
	case hlo.OpDivide:
		b.Eps, b.Source = 10, "xla/service/elemental_ir_emitter.cc, EmitComplexDivide: at most 10 roundings (Smith's method and textbook, norm-wise; Baudin and Smith 2012)"
	case hlo.OpPower:
		b.Source = "xla/service/elemental_ir_emitter.cc, EmitComplexPower, of functions with 40 eps each"
	}
	return b
}

// Budgets lists the legal-variation table in the order of opcodes and types.
func Budgets() []Budget {
	var rows []Budget
	for _, byType := range budgets {
		for _, b := range byType {
			if b != nil {
				rows = append(rows, *b)
			}
		}
	}
	return rows
}

// budget is a row of the table for a real operation, in absolute terms.
type budget struct{ ulps, relative, abs, argument float64 }

func budgetOf(op hlo.Opcode, f *floatType) budget { return rowOf(op, f.t, f) }

// complexBudget is the row of the complex type with parts of type f.
func complexBudget(op hlo.Opcode, f *floatType) budget {
	if f.wide {
		return rowOf(op, hlo.C128, f)
	}
	return rowOf(op, hlo.C64, f)
}

func rowOf(op hlo.Opcode, t hlo.PrimitiveType, f *floatType) budget {
	b := budgets[op][t]
	return budget{b.Ulps, b.Eps * f.eps, b.Normals * f.minNormal, b.Argument * f.eps / 2}
}

// extra is what the budget allows beside its ULPs, for a result of size y of
// a function whose relative condition number is at most c.
func (b budget) extra(y, c float64) float64 {
	return b.abs + math.Abs(y)*(b.relative+b.argument*math.Abs(c))
}
