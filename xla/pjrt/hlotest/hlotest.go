// Package hlotest writes small HLO modules straight to the wire form of xla.HloModuleProto, for tests of the packages that
// run real builds and must not depend on package hlo.
package hlotest

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Primitive type wire numbers (xla/xla_data.proto).
const (
	Pred  = 1
	S32   = 4
	F32   = 11
	Tuple = 13
	S4    = 21
)

// Shape is an array of Type with Dims, or a tuple of Elems.
type Shape struct {
	Type   int32
	Dims   []int64
	Layout []int64 // minor to major; nil is row-major
	Elems  []Shape
}

// Instr is one instruction. Its name is unique in the module; the last one of a computation is the root.
type Instr struct {
	Name      string
	Op        string
	Shape     Shape
	Operands  []string
	Calls     []string // called computations
	Parameter int64
	Dims      []int64 // dimensions attribute
	Direction string  // of compare
	S32       []int32 // constant values
	Target    string  // custom_call_target
	Index     int64   // tuple_index
}

// Comp is a computation; those it calls come before it.
type Comp struct {
	Name   string
	Instrs []Instr
}

// Module encodes a module; the last computation is the entry. Unknown names panic.
func Module(name string, comps ...Comp) []byte {
	ids := map[string]int64{}
	next := int64(1) // before jaxlib 0.6 an id has 31 bits
	for i, c := range comps {
		ids["comp "+c.Name] = int64(i + 1)
		for _, in := range c.Instrs {
			ids[in.Name] = next
			next++
		}
	}
	id := func(n string) int64 {
		v, ok := ids[n]
		if !ok {
			panic(fmt.Sprintf("hlotest: no %s", n))
		}
		return v
	}
	entry := comps[len(comps)-1]
	m := str(nil, 1, name)
	m = str(m, 2, entry.Name)
	for _, c := range comps {
		var b []byte
		b = str(b, 1, c.Name)
		for _, in := range c.Instrs {
			p := str(nil, 1, in.Name)
			p = str(p, 2, in.Op)
			p = msg(p, 3, shape(in.Shape))
			if in.S32 != nil {
				lit := msg(nil, 1, shape(in.Shape))
				lit = msg(lit, 4, packed(in.S32))
				p = msg(p, 8, lit)
			}
			p = num(p, 9, in.Parameter)
			p = num(p, 13, in.Index)
			if in.Dims != nil {
				p = msg(p, 14, packed(in.Dims))
			}
			p = str(p, 28, in.Target)
			p = num(p, 35, id(in.Name))
			var operands, calls []int64
			for _, o := range in.Operands {
				operands = append(operands, id(o))
			}
			for _, o := range in.Calls {
				calls = append(calls, id("comp "+o))
			}
			if operands != nil {
				p = msg(p, 36, packed(operands))
			}
			if calls != nil {
				p = msg(p, 38, packed(calls))
			}
			p = str(p, 63, in.Direction)
			b = msg(b, 2, p)
		}
		b = msg(b, 4, programShape(c))
		b = num(b, 5, id("comp "+c.Name))
		b = num(b, 6, id(c.Instrs[len(c.Instrs)-1].Name))
		m = msg(m, 3, b)
	}
	m = msg(m, 4, programShape(entry))
	m = num(m, 5, 1)
	return num(m, 6, id("comp "+entry.Name))
}

func programShape(c Comp) []byte {
	var p []byte
	for _, in := range c.Instrs {
		if in.Op == "parameter" {
			p = msg(p, 1, shape(in.Shape))
		}
	}
	p = msg(p, 2, shape(c.Instrs[len(c.Instrs)-1].Shape))
	for _, in := range c.Instrs {
		if in.Op == "parameter" {
			p = str(p, 3, in.Name)
		}
	}
	return p
}

func shape(s Shape) []byte {
	if s.Elems != nil {
		b := num(nil, 2, Tuple)
		for _, e := range s.Elems {
			b = msg(b, 4, shape(e))
		}
		return b
	}
	b := num(nil, 2, int64(s.Type))
	if len(s.Dims) > 0 {
		b = msg(b, 3, packed(s.Dims))
		b = msg(b, 6, packed(make([]int32, len(s.Dims)))) // is_dynamic_dimension
	}
	order := s.Layout
	if order == nil {
		for i := len(s.Dims) - 1; i >= 0; i-- {
			order = append(order, int64(i))
		}
	}
	var layout []byte
	if len(order) > 0 {
		layout = msg(layout, 1, packed(order))
	}
	return msg(b, 5, layout)
}

func num(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

func str(b []byte, field protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func msg(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func packed[T int32 | int64](vs []T) []byte {
	var b []byte
	for _, v := range vs {
		b = protowire.AppendVarint(b, uint64(int64(v)))
	}
	return b
}

// Add is p0 + p1 over f32[n].
func Add(n int64) []byte {
	s := Shape{Type: F32, Dims: []int64{n}}
	return Module("add", Comp{"main", []Instr{
		{Name: "p0", Op: "parameter", Shape: s},
		{Name: "p1", Op: "parameter", Shape: s, Parameter: 1},
		{Name: "sum", Op: "add", Shape: s, Operands: []string{"p0", "p1"}},
	}})
}

// Kinds of input-output aliasing (HloInputOutputAliasProto).
const (
	MayAlias  = 1
	MustAlias = 2
)

// Aliased lets the result of a module reuse the memory of its parameter 0.
func Aliased(module []byte, kind int64) []byte {
	entry := num(num(nil, 2, 0), 4, kind)
	return msg(module, 8, msg(nil, 1, entry))
}

// AddTuple is the sum of the two elements of its one parameter, a tuple of f32[n].
func AddTuple(n int64) []byte {
	s := Shape{Type: F32, Dims: []int64{n}}
	return Module("add_tuple", Comp{"main", []Instr{
		{Name: "p", Op: "parameter", Shape: Shape{Elems: []Shape{s, s}}},
		{Name: "a", Op: "get-tuple-element", Shape: s, Operands: []string{"p"}},
		{Name: "b", Op: "get-tuple-element", Shape: s, Operands: []string{"p"}, Index: 1},
		{Name: "sum", Op: "add", Shape: s, Operands: []string{"a", "b"}},
	}})
}

// Identity is a copy of its parameter, whose argument and result have the given shapes (same type and dimensions).
func Identity(in, out Shape) []byte {
	return Module("identity", Comp{"main", []Instr{
		{Name: "p0", Op: "parameter", Shape: in},
		{Name: "c", Op: "copy", Shape: out, Operands: []string{"p0"}},
	}})
}

// Forever never ends: while(true) over an s32 counter.
func Forever() []byte {
	s := Shape{Type: S32}
	return Module("forever",
		Comp{"cond", []Instr{
			{Name: "c.p", Op: "parameter", Shape: s},
			{Name: "c.r", Op: "compare", Shape: Shape{Type: Pred}, Operands: []string{"c.p", "c.p"}, Direction: "EQ"},
		}},
		Comp{"body", []Instr{
			{Name: "b.p", Op: "parameter", Shape: s},
			{Name: "b.one", Op: "constant", Shape: s, S32: []int32{1}},
			{Name: "b.r", Op: "add", Shape: s, Operands: []string{"b.p", "b.one"}},
		}},
		Comp{"main", []Instr{
			{Name: "p0", Op: "parameter", Shape: s},
			{Name: "w", Op: "while", Shape: s, Operands: []string{"p0"}, Calls: []string{"body", "cond"}},
		}})
}

// Fill returns s32[n] filled with its parameter: n decides how much memory a run takes.
func Fill(n int64) []byte {
	return Module("fill", Comp{"main", []Instr{
		{Name: "p0", Op: "parameter", Shape: Shape{Type: S32}},
		{Name: "b", Op: "broadcast", Shape: Shape{Type: S32, Dims: []int64{n}}, Operands: []string{"p0"}, Dims: []int64{}},
	}})
}

// AddMLIR is Add as StableHLO text.
func AddMLIR(n int64) []byte {
	t := fmt.Sprintf("tensor<%dxf32>", n)
	return []byte(strings.ReplaceAll(`module @add {
  func.func public @main(%a: _T_, %b: _T_) -> _T_ {
    %0 = stablehlo.add %a, %b : _T_
    return %0 : _T_
  }
}
`, "_T_", t))
}
