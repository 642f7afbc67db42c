package hlo

import (
	"fmt"
	"slices"
)

// checkReducer checks a reduction function of n values: 2n parameters, n
// scalar results, and types that fit the initial values and the inputs, up to
// float precision (VerifyReducerShape).
func checkReducer(f ProgramShape, inits []*Shape, inputs []PrimitiveType) error {
	n := len(inputs)
	if len(f.Params) != 2*n {
		return fmt.Errorf("reduction function has %d parameters, want %d", len(f.Params), 2*n)
	}
	var acc []*Shape
	switch {
	case f.Result.IsArray() && n == 1:
		acc = []*Shape{f.Result}
	case f.Result.IsTuple() && len(f.Result.Elements) == n:
		acc = f.Result.Elements
	default:
		return fmt.Errorf("reduction function of %d values gives %s", n, f.Result.text())
	}
	for i, a := range acc {
		element := scalar(inputs[i])
		switch {
		case len(a.Dims) != 0:
			return fmt.Errorf("reduction function gives %s, want scalars", f.Result.text())
		case !a.Compatible(f.Params[i]):
			return fmt.Errorf("reduction function gives %s but takes %s", a.text(), f.Params[i].text())
		case !compatibleAnyFloat(a, inits[i]):
			return fmt.Errorf("reduction function gives %s for the initial value %s", a.text(), inits[i].text())
		case !compatibleAnyFloat(element, f.Params[n+i]):
			return fmt.Errorf("reduction function takes %s for inputs of %v", f.Params[n+i].text(), inputs[i])
		case !compatibleAnyFloat(a, f.Params[n+i]):
			return fmt.Errorf("reduction function gives %s but takes the inputs %s", a.text(), f.Params[n+i].text())
		}
	}
	return nil
}

// reduced are the inputs and initial values of a reduction, with the types of
// the inputs; the inputs must have the same dimensions.
func (in *Instruction) reduced() (inputs, inits []*Shape, types []PrimitiveType, err error) {
	n := len(in.Operands) / 2
	all := in.operandShapes()
	inputs, inits = all[:n], all[n:]
	for i, s := range inputs {
		if err := wantArray(s, fmt.Sprintf("operand %d of %v", i, in.Op)); err != nil {
			return nil, nil, nil, err
		}
		if !sameDims(inputs[0], s) {
			return nil, nil, nil, fmt.Errorf("%v of different shapes: %s and %s", in.Op, inputs[0].text(), s.text())
		}
		types = append(types, s.Type)
	}
	return inputs, inits, types, nil
}

func (in *Instruction) inferReduce() (*Shape, error) {
	inputs, inits, types, err := in.reduced()
	if err != nil {
		return nil, err
	}
	s, d := inputs[0], in.Dimensions()
	if !inRange(d, len(s.Dims)) || !unique(d) {
		return nil, fmt.Errorf("reduce over the dimensions %v of %s", d, s.text())
	}
	f := in.Called[0].program()
	if err := checkReducer(f, inits, types); err != nil {
		return nil, err
	}
	var dims []int64
	var dyn []bool
	for i, n := range s.Dims {
		if !slices.Contains(d, int64(i)) {
			dims, dyn = append(dims, n), append(dyn, s.dynamic(i))
		}
	}
	if !f.Result.IsTuple() {
		return newArray(f.Result.Type, dims, dyn), nil
	}
	out := &Shape{Type: Tuple}
	for _, e := range f.Result.Elements {
		out.Elements = append(out.Elements, newArray(e.Type, dims, dyn))
	}
	return out, nil
}

func (in *Instruction) inferReduceWindow() (*Shape, error) {
	inputs, inits, types, err := in.reduced()
	if err != nil {
		return nil, err
	}
	f := in.Called[0].program()
	if err := checkReducer(f, inits, types); err != nil {
		return nil, err
	}
	var outs []*Shape
	for i, s := range inputs {
		o, err := windowShape(s, in.Attr.GetWindow(), inits[i].Type)
		if err != nil {
			return nil, err
		}
		outs = append(outs, o)
	}
	if !f.Result.IsTuple() {
		return outs[0], nil
	}
	return &Shape{Type: Tuple, Elements: outs}, nil
}

func (in *Instruction) inferSelectAndScatter() (*Shape, error) {
	s, source, init := in.operand(0), in.operand(1), in.operand(2)
	if err := wantArray(s, "operand 0 of select-and-scatter"); err != nil {
		return nil, err
	}
	sel := in.Called[0].program()
	element := scalar(s.Type)
	if len(sel.Params) != 2 || !sel.Result.Compatible(scalar(Pred)) ||
		!compatibleAnyFloat(element, sel.Params[0]) || !compatibleAnyFloat(element, sel.Params[1]) {
		return nil, fmt.Errorf("select function of select-and-scatter must compare two values of %v", s.Type)
	}
	if err := checkReducer(in.Called[1].program(), []*Shape{init}, []PrimitiveType{source.Type}); err != nil {
		return nil, err
	}
	w, err := windowShape(s, in.Attr.GetWindow(), s.Type)
	if err != nil {
		return nil, err
	}
	if !compatibleAnyFloat(source, w) {
		return nil, fmt.Errorf("select-and-scatter of the source %s, but the windows of %s give %s", source.text(), s.text(), w.text())
	}
	return s.Clone(), nil
}

// inferScan follows the text parser's inference (hlo_parser.cc, kScan) and
// the checks of ShapeVerifier::HandleScan.
func (in *Instruction) inferScan() (*Shape, error) {
	f := in.Called[0].program()
	carries := int(in.Attr.GetNumCarries())
	inputs := len(in.Operands) - carries
	d := in.Dimensions()
	if len(d) != 1 || d[0] < 0 {
		return nil, fmt.Errorf("scan has the dimensions %v, want one", d)
	}
	if len(f.Params) != len(in.Operands) {
		return nil, fmt.Errorf("scan has %d operands but its function %d parameters", len(in.Operands), len(f.Params))
	}
	results := []*Shape{f.Result}
	if f.Result.IsTuple() {
		results = f.Result.Elements
	}
	outputs := len(results) - carries
	if outputs < 0 || inputs == 0 && outputs == 0 {
		return nil, fmt.Errorf("scan of %d inputs has %d carries and %d results", inputs, carries, len(results))
	}
	size := Unbounded
	along := func(s *Shape, what string) error {
		if !s.IsArray() || d[0] >= int64(len(s.Dims)) {
			return fmt.Errorf("scan along dimension %d of the %s %s", d[0], what, s.text())
		}
		if size == Unbounded {
			size = s.Dims[d[0]]
		}
		if s.Dims[d[0]] != size {
			return fmt.Errorf("scan along dimensions of %d and %d", size, s.Dims[d[0]])
		}
		return nil
	}
	for i, o := range in.Operands {
		s := o.Shape
		if i < inputs {
			if err := along(s, "input"); err != nil {
				return nil, err
			}
			s = s.withoutDim(int(d[0]))
		}
		if !compatibleAnyFloat(s, f.Params[i]) {
			return nil, fmt.Errorf("scan passes %s of operand %d to a parameter %s", s.text(), i, f.Params[i].text())
		}
	}
	for i := range carries {
		if p, r := f.Params[inputs+i], results[outputs+i]; !compatibleAnyFloat(p, r) {
			return nil, fmt.Errorf("scan carries %s as %s", r.text(), p.text())
		}
	}
	if inputs == 0 { // only the result can tell how many steps there are
		have := in.Shape
		if have != nil && have.IsTuple() && len(have.Elements) > 0 {
			have = have.Elements[0]
		}
		if have == nil {
			return nil, fmt.Errorf("the shape of a scan without inputs does not follow from its operands")
		}
		if err := along(have, "result"); err != nil {
			return nil, err
		}
	}
	var out []*Shape
	for i, r := range results {
		if i < outputs {
			if err := wantArray(r, "a result of the function of scan"); err != nil {
				return nil, err
			}
			if d[0] > int64(len(r.Dims)) {
				return nil, fmt.Errorf("scan along dimension %d makes no array of %s", d[0], r.text())
			}
			r = r.withDim(int(d[0]), size)
		}
		out = append(out, r)
	}
	// One result may be a tuple or not, on either side.
	tuple := f.Result.IsTuple()
	if in.Shape != nil && len(out) == 1 {
		tuple = in.Shape.IsTuple()
	}
	if !tuple {
		return out[0].Clone(), nil
	}
	return tupleOf(out), nil
}

func (s *Shape) withoutDim(i int) *Shape {
	c := &Shape{Type: s.Type, Dims: slices.Delete(slices.Clone(s.Dims), i, i+1)}
	if s.Dynamic != nil {
		c.Dynamic = slices.Delete(slices.Clone(s.Dynamic), i, i+1)
	}
	return c
}

// withDim inserts a dimension; the layout becomes row-major.
func (s *Shape) withDim(i int, n int64) *Shape {
	c := &Shape{Type: s.Type, Dims: slices.Insert(slices.Clone(s.Dims), i, n)}
	if s.Dynamic != nil || n == Unbounded {
		dyn := make([]bool, len(s.Dims))
		copy(dyn, s.Dynamic)
		c.Dynamic = slices.Insert(dyn, i, n == Unbounded)
	}
	c.Layout = DefaultLayout(len(c.Dims))
	return c
}

func (in *Instruction) inferSort() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	shapes, d := in.operandShapes(), in.Dimensions()
	for _, s := range shapes {
		if !sameDims(shapes[0], s) {
			return nil, fmt.Errorf("sort of different shapes: %s and %s", shapes[0].text(), s.text())
		}
	}
	if len(d) != 1 || !inRange(d, len(shapes[0].Dims)) {
		return nil, fmt.Errorf("sort along the dimension %v of %s", d, shapes[0].text())
	}
	f := in.Called[0].program()
	if !f.Result.Compatible(scalar(Pred)) {
		return nil, fmt.Errorf("comparator of sort gives %s, not a pred", f.Result.text())
	}
	if len(f.Params) != 2*len(shapes) {
		return nil, fmt.Errorf("comparator of sort has %d parameters for %d operands", len(f.Params), len(shapes))
	}
	for i, p := range f.Params {
		if !compatibleAnyFloat(scalar(shapes[i/2].Type), p) {
			return nil, fmt.Errorf("parameter %d of the comparator of sort is %s for values of %v", i, p.text(), shapes[i/2].Type)
		}
	}
	return oneOrTuple(shapes), nil
}

func (in *Instruction) inferMap() (*Shape, error) {
	if err := in.arrays(); err != nil {
		return nil, err
	}
	shapes := in.operandShapes()
	s := shapes[0]
	for _, o := range shapes[1:] {
		switch {
		case compatible(o, s, anyType), o.isScalar() && sameType(o.Type, s.Type):
		case s.isScalar() && sameType(o.Type, s.Type):
			s = o
		default:
			return nil, fmt.Errorf("map of different shapes: %s and %s", s.text(), o.text())
		}
	}
	for i, d := range in.Dimensions() { // the wire may leave them out
		if d != int64(i) || len(in.Dimensions()) != len(s.Dims) {
			return nil, fmt.Errorf("map over the dimensions %v of %s, want all in order", in.Dimensions(), s.text())
		}
	}
	f := in.Called[0].program()
	if len(f.Params) != len(shapes) || !f.Result.isScalar() {
		return nil, fmt.Errorf("function of map has %d parameters and gives %s, want %d and a scalar", len(f.Params), f.Result.text(), len(shapes))
	}
	for i, p := range f.Params {
		if !p.isScalar() || !sameType(p.Type, shapes[i].Type) {
			return nil, fmt.Errorf("parameter %d of the function of map is %s for %s", i, p.text(), shapes[i].text())
		}
	}
	return newArray(f.Result.Type, s.Dims, s.Dynamic), nil
}

func (in *Instruction) inferWhile() (*Shape, error) {
	body, cond, init := in.Called[0].program(), in.Called[1].program(), in.operand(0)
	if len(body.Params) != 1 || len(cond.Params) != 1 {
		return nil, fmt.Errorf("body and condition of while have %d and %d parameters, want 1 each", len(body.Params), len(cond.Params))
	}
	if !cond.Result.Compatible(scalar(Pred)) {
		return nil, fmt.Errorf("condition of while gives %s, not a pred", cond.Result.text())
	}
	for _, s := range []*Shape{body.Params[0], cond.Params[0], init} {
		if !body.Result.Compatible(s) {
			return nil, fmt.Errorf("while carries %s but its body gives %s", s.text(), body.Result.text())
		}
	}
	return init.Clone(), nil
}

func (in *Instruction) inferConditional() (*Shape, error) {
	if s := in.operand(0); !s.isScalar() || s.Type != Pred && s.Type != S32 {
		return nil, fmt.Errorf("conditional on %s, not on a pred or s32 scalar", s.text())
	}
	first := in.Called[0].program().Result
	out := first.Clone()
	for i, c := range in.Called {
		f := c.program()
		if len(f.Params) != 1 || !f.Params[0].Compatible(in.operand(i+1)) {
			return nil, fmt.Errorf("branch %d of conditional must take one parameter %s", i, in.operand(i+1).text())
		}
		if !f.Result.Compatible(first) {
			return nil, fmt.Errorf("branches of conditional give %s and %s", first.text(), f.Result.text())
		}
		for j, leaf := range f.Result.Leaves() {
			for k := range leaf.Dims {
				if leaf.dynamic(k) {
					out.Leaves()[j].setDynamic(k)
				}
			}
		}
	}
	return out, nil
}

func (in *Instruction) inferCall() (*Shape, error) {
	f := in.Called[0].program()
	if len(f.Params) != len(in.Operands) {
		return nil, fmt.Errorf("%v has %d operands for %d parameters", in.Op, len(in.Operands), len(f.Params))
	}
	for i, p := range f.Params {
		if !p.Compatible(in.operand(i)) {
			return nil, fmt.Errorf("%v passes %s to parameter %d, which is %s", in.Op, in.operand(i).text(), i, p.text())
		}
	}
	return f.Result.Clone(), nil
}

func (in *Instruction) inferFusion() (*Shape, error) {
	f := in.Called[0].program()
	if len(f.Params) > len(in.Operands) {
		return nil, fmt.Errorf("fusion has %d operands for %d parameters", len(in.Operands), len(f.Params))
	}
	for i, p := range f.Params {
		if !p.Compatible(in.operand(i)) {
			return nil, fmt.Errorf("fusion passes %s to parameter %d, which is %s", in.operand(i).text(), i, p.text())
		}
	}
	return f.Result.Clone(), nil
}

// asyncStart follows operand 0 of async-update and async-done to the
// async-start, nil if there is none in reach.
func (in *Instruction) asyncStart() *Instruction {
	seen := map[*Instruction]bool{}
	for at := in; at != nil && !seen[at]; {
		seen[at] = true
		if at.Op == OpAsyncStart {
			return at
		}
		if at.Op != OpAsyncUpdate && at.Op != OpAsyncDone || len(at.Operands) == 0 {
			return nil
		}
		at = at.Operands[0]
	}
	return nil
}

// asyncComputation is the computation that an async instruction runs: its
// own, or that of its async-start; nil if neither is known.
func (in *Instruction) asyncComputation() *Computation {
	if len(in.Called) > 0 {
		return in.Called[0]
	}
	if s := in.asyncStart(); s != nil && len(s.Called) > 0 && s.Called[0] != nil && s.Called[0].Root != nil && s.Called[0].Root.Shape != nil {
		return s.Called[0]
	}
	return nil
}

// inferAsync checks in.Shape, which starts with the operands' tuple and the
// result: both may be a prefix of the computation's (CheckAsyncOpOutputShape).
func (in *Instruction) inferAsync() (*Shape, error) {
	out, err := in.need()
	if err != nil {
		return nil, err
	}
	if !out.IsTuple() || len(out.Elements) < 2 || !out.Elements[0].IsTuple() {
		return nil, fmt.Errorf("%v needs a shape ((operands), result, ...), has %s", in.Op, out.text())
	}
	return out, nil
}
