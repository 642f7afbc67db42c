package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
)

// DefaultMaxSteps is the step limit where Options give none.
const DefaultMaxSteps = 1 << 26

// DefaultMaxElements is the limit on the elements of one array where Options
// give none.
const DefaultMaxElements = 1 << 26

// Options of a run.
type Options struct {
	// Bounds selects bound mode (legal sets); without it the run is exact mode.
	Bounds bool
	// ExcessPrecision: see Numerics.
	ExcessPrecision bool
	// MaxSteps limits the work of a run, and with it every while loop: each
	// executed instruction is one step, and each 64 element operations are
	// another. 0 means DefaultMaxSteps. The count depends on the module and
	// its inputs only, so that a run that exceeds it always does.
	MaxSteps int64
	// MaxElements limits the elements of any one array; 0 means
	// DefaultMaxElements. A larger array is Unsupported.
	MaxElements int64
	// Trace, if not nil, is called with every executed instruction outside
	// scalar computations and its value, which must not be changed.
	Trace func(in *hlo.Instruction, v *Value)
	// Settle, if not nil, gives the value with which a run goes on behind such an
	// instruction; v itself must not be changed. Trace sees what it gives.
	Settle func(in *hlo.Instruction, v *Value) *Value
	// Memory, if not nil, is asked for values before they are evaluated, and
	// keeps them. What it knows counts one step. A run with Trace or Settle does
	// without it.
	Memory *Memory
}

// Unsupported says that an instruction has no value that this interpreter can
// give: nothing is wrong with the module or the compiler.
type Unsupported struct {
	Op          hlo.Opcode
	Instruction string // its name
	Detail      string // what about it; may be empty
}

func (u *Unsupported) Error() string {
	s := fmt.Sprintf("cannot evaluate %v (%%%s)", u.Op, u.Instruction)
	if u.Detail != "" {
		s += ": " + u.Detail
	}
	return s
}

// InputError says that an argument does not fit its parameter.
type InputError struct {
	Parameter int // number of the parameter; -1: the number of arguments
	Detail    string
}

func (e *InputError) Error() string {
	if e.Parameter < 0 {
		return e.Detail
	}
	return fmt.Sprintf("argument %d: %s", e.Parameter, e.Detail)
}

// ModuleError says that a module is not well-formed in a way that hlo.Verify
// refuses.
type ModuleError struct {
	Instruction string
	Detail      string
}

func (e *ModuleError) Error() string {
	return fmt.Sprintf("malformed module: %%%s: %s", e.Instruction, e.Detail)
}

// ErrStepLimit says that a run went over Options.MaxSteps.
var ErrStepLimit = errors.New("step limit exceeded")

// Evaluator runs computations of one module. It is not safe for concurrent
// use; different Evaluators may share a module.
type Evaluator struct {
	num   Numerics
	ctx   context.Context
	opts  Options
	steps int64
	work  int64 // element operations since the last whole step
	// undecidedTrips counts iterations of while loops with undecided conditions.
	undecidedTrips int
	// inside counts the instructions under evaluation that the memory knows as
	// one.
	inside   int
	programs map[*hlo.Computation]*program
	callees  map[*hlo.Computation]*callee
}

// NewEvaluator makes an evaluator. Its steps count over all its runs.
func NewEvaluator(ctx context.Context, o Options) *Evaluator {
	if o.MaxSteps == 0 {
		o.MaxSteps = DefaultMaxSteps
	}
	if o.MaxElements == 0 {
		o.MaxElements = DefaultMaxElements
	}
	return &Evaluator{
		num:      Numerics{Bounds: o.Bounds, ExcessPrecision: o.ExcessPrecision},
		ctx:      ctx,
		opts:     o,
		programs: map[*hlo.Computation]*program{},
		callees:  map[*hlo.Computation]*callee{},
	}
}

// Steps is the work done so far, in the unit of Options.MaxSteps.
func (e *Evaluator) Steps() int64 { return e.steps }

// Run evaluates the entry computation of m, which must have passed
// hlo.Verify, on one argument per parameter.
//
// Errors: *InputError, *Unsupported, *ModuleError, ErrStepLimit, and ctx's
// error when it ends first.
func Run(ctx context.Context, m *hlo.Module, args []*Value, o Options) (*Value, error) {
	if m.ReplicaCount > 1 || m.NumPartitions > 1 {
		return nil, &Unsupported{Op: m.Entry.Root.Op, Instruction: m.Entry.Root.Name,
			Detail: fmt.Sprintf("module for %d replicas and %d partitions", max(m.ReplicaCount, 1), max(m.NumPartitions, 1))}
	}
	return NewEvaluator(ctx, o).RunComputation(m.Entry, args)
}

// RunComputation evaluates one computation on one argument per parameter.
// Errors are those of Run.
func (e *Evaluator) RunComputation(c *hlo.Computation, args []*Value) (*Value, error) {
	params := c.Params()
	if len(params) != len(args) {
		return nil, &InputError{-1, fmt.Sprintf("computation %s takes %d arguments, got %d", c.Name, len(params), len(args))}
	}
	for i, p := range params {
		if p == nil {
			return nil, &ModuleError{c.Name, fmt.Sprintf("parameter %d is missing", i)}
		}
		if err := fits(args[i], p.Shape); err != nil {
			return nil, &InputError{i, err.Error()}
		}
	}
	return e.call(c, args)
}

// program is a computation prepared for execution: the instructions that its
// root depends on, operands first, each with a slot for its value.
type program struct {
	instructions []*hlo.Instruction
	operands     [][]int // slots of the operands
	elements     []int64 // the elements of the largest array in the result
	release      [][]int // slots that are not needed after the instruction
	root         int
}

func (e *Evaluator) program(c *hlo.Computation) (*program, error) {
	if p := e.programs[c]; p != nil {
		return p, nil
	}
	p := &program{}
	slot := map[*hlo.Instruction]int{}
	const open = -1
	stack := []*hlo.Instruction{c.Root}
	for len(stack) > 0 {
		in := stack[len(stack)-1]
		switch s, seen := slot[in]; {
		case !seen:
			slot[in] = open
			for _, o := range slices.Backward(in.Operands) {
				switch s, seen := slot[o]; {
				case !seen:
					stack = append(stack, o)
				case s == open:
					return nil, &ModuleError{in.Name, "its operands form a cycle"}
				}
			}
		case s == open:
			slot[in] = len(p.instructions)
			ops := make([]int, len(in.Operands))
			for i, o := range in.Operands {
				ops[i] = slot[o]
				if ops[i] == open {
					return nil, &ModuleError{in.Name, "its operands form a cycle"}
				}
			}
			n := int64(0)
			for _, s := range in.Shape.Leaves() {
				n = max(n, s.Elems())
				if slices.Contains(s.Dims, hlo.Unbounded) {
					n = math.MaxInt64
				}
			}
			p.instructions = append(p.instructions, in)
			p.elements = append(p.elements, n)
			p.operands = append(p.operands, ops)
			stack = stack[:len(stack)-1]
		default:
			stack = stack[:len(stack)-1]
		}
	}
	p.root = slot[c.Root]
	p.release = make([][]int, len(p.instructions))
	released := make([]bool, len(p.instructions))
	released[p.root] = true
	for i := len(p.instructions) - 1; i >= 0; i-- {
		for _, o := range p.operands[i] {
			if !released[o] {
				released[o] = true
				p.release[i] = append(p.release[i], o)
			}
		}
	}
	e.programs[c] = p
	return p, nil
}

// call evaluates a computation without checking the arguments.
func (e *Evaluator) call(c *hlo.Computation, args []*Value) (*Value, error) {
	p, err := e.program(c)
	if err != nil {
		return nil, err
	}
	slots := make([]*Value, len(p.instructions))
	var operands []*Value
	for i, in := range p.instructions {
		operands = operands[:0]
		for _, s := range p.operands[i] {
			operands = append(operands, slots[s])
		}
		if n := p.elements[i]; n == math.MaxInt64 {
			return nil, unsupported(in, "an array without a bound, or of more than 2^63 elements")
		} else if n > e.opts.MaxElements && in.Op != hlo.OpParameter {
			return nil, unsupported(in, "an array of %d elements (limit %d)", n, e.opts.MaxElements)
		}
		v, err := e.instruction(in, operands, args)
		if err != nil {
			return nil, err
		}
		if e.opts.Settle != nil {
			v = e.opts.Settle(in, v)
		}
		slots[i] = v
		for _, s := range p.release[i] {
			slots[s] = nil
		}
		if e.opts.Trace != nil {
			e.opts.Trace(in, v)
		}
	}
	return slots[p.root], nil
}

// instruction evaluates one instruction; args are the arguments of its
// computation.
func (e *Evaluator) instruction(in *hlo.Instruction, operands, args []*Value) (*Value, error) {
	if err := e.step(); err != nil {
		return nil, err
	}
	if in.Op == hlo.OpParameter {
		n := in.Attr.ParameterNumber
		if n < 0 || n >= int64(len(args)) {
			return nil, &ModuleError{in.Name, fmt.Sprintf("no argument %d", n)}
		}
		return args[n], nil
	}
	if want := in.Op.Arity(); want != hlo.Variadic && want != len(operands) {
		return nil, &ModuleError{in.Name, fmt.Sprintf("%v takes %d operands, has %d", in.Op, want, len(operands))}
	}
	m := e.opts.Memory
	if m == nil || e.inside > 0 || e.opts.Trace != nil || e.opts.Settle != nil || seenThrough(in.Op) {
		return e.compute(in, operands)
	}
	key := m.key(in, operands)
	if v := m.recall(key); v != nil {
		return v, nil
	}
	e.inside++
	v, err := e.compute(in, operands)
	e.inside--
	if err == nil {
		m.keep(key, v, operands)
	}
	return v, err
}

// compute evaluates one instruction that is no parameter.
func (e *Evaluator) compute(in *hlo.Instruction, operands []*Value) (*Value, error) {
	v, err := e.eval(in, operands)
	if err != nil {
		return nil, err
	}
	if err := fits(v, in.Shape); err != nil {
		return nil, &ModuleError{in.Name, "its shape is not that of its value: " + err.Error()}
	}
	return v, nil
}

// step counts one step and looks at the limits.
func (e *Evaluator) step() error {
	e.steps++
	if e.steps > e.opts.MaxSteps {
		return ErrStepLimit
	}
	if e.steps&0xff == 0 {
		return e.ctx.Err()
	}
	return nil
}

// spend counts n element operations before they are done.
func (e *Evaluator) spend(n int64) error {
	e.work += n
	e.steps += e.work >> 6
	e.work &= 63
	if e.steps > e.opts.MaxSteps {
		return ErrStepLimit
	}
	if n > 1<<12 {
		return e.ctx.Err()
	}
	return nil
}

// fits says whether a value has the types and dimensions of a shape.
func fits(v *Value, s *hlo.Shape) error {
	switch {
	case v == nil:
		return errors.New("no value")
	case s.IsTuple():
		if v.Array != nil || v.Token || len(v.Elements) != len(s.Elements) {
			return fmt.Errorf("want a tuple of %d elements", len(s.Elements))
		}
		for i, x := range s.Elements {
			if err := fits(v.Elements[i], x); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
	case s.IsArray():
		a := v.Array
		if a == nil {
			return fmt.Errorf("want %v%v", s.Type, s.Dims)
		}
		if a.Type != s.Type || !slices.Equal(a.Dims, s.Dims) {
			return fmt.Errorf("want %v%v, got %v%v", s.Type, s.Dims, a.Type, a.Dims)
		}
	case s.Type == hlo.Buffer && len(s.Elements) == 1:
		return fits(v, s.Elements[0])
	case !v.Token:
		return fmt.Errorf("want a %v", s.Type)
	}
	return nil
}

// unsupported makes the error for an instruction that has no value here.
func unsupported(in *hlo.Instruction, format string, args ...any) error {
	return &Unsupported{in.Op, in.Name, fmt.Sprintf(format, args...)}
}

// malformed makes the error for an instruction that the verifier refuses.
func malformed(in *hlo.Instruction, format string, args ...any) error {
	return &ModuleError{in.Name, fmt.Sprintf(format, args...)}
}

func arrayValue(a *Array) *Value           { return &Value{Array: a} }
func tupleValue(elements ...*Value) *Value { return &Value{Elements: elements} }

// arraysValue is the array alone for one array, else a tuple of arrays.
func arraysValue(tuple bool, arrays []*Array) *Value {
	if !tuple {
		return arrayValue(arrays[0])
	}
	v := &Value{}
	for _, a := range arrays {
		v.Elements = append(v.Elements, arrayValue(a))
	}
	return v
}

// arrays are the arrays of array values; err names an instruction with
// another operand.
func arrays(in *hlo.Instruction, operands []*Value) ([]*Array, error) {
	out := make([]*Array, len(operands))
	for i, v := range operands {
		if v.Array == nil {
			return nil, malformed(in, "operand %d is not an array", i)
		}
		out[i] = v.Array
	}
	return out, nil
}

func (e *Evaluator) eval(in *hlo.Instruction, operands []*Value) (*Value, error) {
	// Operations on values of any kind.
	switch in.Op {
	case hlo.OpConstant:
		if in.Literal == nil {
			return nil, malformed(in, "a constant without a literal")
		}
		return FromLiteral(in.Literal), nil
	case hlo.OpTuple:
		return &Value{Elements: slices.Clone(operands)}, nil
	case hlo.OpGetTupleElement:
		i := in.Attr.TupleIndex
		if i < 0 || i >= int64(len(operands[0].Elements)) {
			return nil, malformed(in, "the operand has no element %d", i)
		}
		return operands[0].Elements[i], nil
	case hlo.OpCopy, hlo.OpDomain, hlo.OpOptBarrier, hlo.OpAddDependency:
		return operands[0], nil
	case hlo.OpAfterAll:
		return &Value{Token: true}, nil
	case hlo.OpCall, hlo.OpFusion:
		return e.callOp(in, operands)
	case hlo.OpWhile:
		return e.while(in, operands[0])
	case hlo.OpConditional:
		return e.conditional(in, operands)
	case hlo.OpAsyncStart, hlo.OpAsyncUpdate, hlo.OpAsyncDone,
		hlo.OpCopyStart, hlo.OpCopyDone,
		hlo.OpAllGatherDone, hlo.OpAllReduceDone, hlo.OpCollectivePermuteDone:
		return e.async(in, operands)
	case hlo.OpInfeed, hlo.OpOutfeed, hlo.OpSend, hlo.OpSendDone, hlo.OpRecv, hlo.OpRecvDone:
		return nil, unsupported(in, "it speaks to the host")
	case hlo.OpCustomCall:
		return e.evalCustomCall(in, operands)
	}

	// Operations on arrays.
	if isCollective(in.Op) && slices.ContainsFunc(operands, func(v *Value) bool { return v.Array == nil }) {
		return nil, unsupported(in, "operands that are tuples")
	}
	a, err := arrays(in, operands)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(a, func(x *Array) bool { return x.Sizes != nil }) || in.Shape.IsDynamic() || in.Op == hlo.OpSetDimensionSize {
		return e.dynamic(in, a)
	}
	return e.evalArrays(in, a)
}

// undecidedWork is what an element costs where integers are undecided, in
// element operations: the scalar forms are that much slower than the columns.
const undecidedWork = 8

// evalArrays evaluates an operation on static arrays.
func (e *Evaluator) evalArrays(in *hlo.Instruction, a []*Array) (*Value, error) {
	work := in.Shape.Elems()
	undecided := false
	for _, x := range a {
		work = max(work, int64(x.Len()))
		undecided = undecided || x.Undecided != nil
	}
	if undecided {
		work *= undecidedWork
	}
	if err := e.spend(work); err != nil {
		return nil, err
	}
	if in.Shape.IsArray() && in.Shape.Elems() == 0 {
		return arrayValue(NewArray(in.Shape.Type, in.Shape.Dims...)), nil // its other dimensions may be huge
	}
	if isCollective(in.Op) {
		return e.collective(in, a)
	}
	switch in.Op {
	case hlo.OpMap, hlo.OpReduce, hlo.OpReduceWindow, hlo.OpScan, hlo.OpSelectAndScatter:
		return e.reductions(in, a)
	case hlo.OpSort:
		return e.sort(in, a)
	case hlo.OpTopk:
		return e.topk(in, a[0])
	case hlo.OpScatter:
		return e.scatter(in, a)
	case hlo.OpDot, hlo.OpRaggedDot, hlo.OpScaledDot, hlo.OpConvolution:
		return one(e.products(in, a))
	case hlo.OpBatchNormGrad, hlo.OpBatchNormInference, hlo.OpBatchNormTraining,
		hlo.OpCholesky, hlo.OpFft, hlo.OpTriangularSolve,
		hlo.OpRng, hlo.OpRngBitGenerator, hlo.OpRngGetAndUpdateState:
		vs := make([]*Value, len(a))
		for i, x := range a {
			vs[i] = arrayValue(x)
		}
		return e.evalLibrary(in, vs)
	}
	if f := elementwise(in); f != nil {
		// A dumped state is not verified: TPU pipelines write operands of which
		// only one is spread.
		if len(a) == 2 && a[0].Len() != a[1].Len() {
			return nil, unsupported(in, "operands of different sizes")
		}
		return one(f(&e.num, a), nil)
	}
	return one(e.move(in, a))
}

func one(a *Array, err error) (*Value, error) {
	if err != nil {
		return nil, err
	}
	return arrayValue(a), nil
}
