package hlo

import (
	"fmt"
	"slices"
)

// Untupled is the module with an entry parameter for each leaf of its entry
// parameters, and one flat tuple of leaves for a result of tuples in tuples, in
// their order, for PJRT, which takes and returns arrays only. A tuple parameter
// is put together by the first instructions and a nested result taken apart by
// the last; XLA's tuple-simplifier undoes both. Aliases and donors follow their
// leaves. A module without either is returned as it is.
func (m *Module) Untupled() *Module {
	params := slices.ContainsFunc(m.Entry.Params(), func(p *Instruction) bool { return p.Shape.IsTuple() })
	result := slices.ContainsFunc(m.Entry.Root.Shape.Elements, (*Shape).IsTuple)
	if !params && !result {
		return m
	}
	m = m.Clone()
	taken := map[string]bool{}
	for _, in := range m.Entry.Instructions {
		taken[in.Name] = true
	}
	name := func(base string) string {
		n := base
		for i := 1; taken[n]; i++ {
			n = fmt.Sprintf("%s.%d", base, i)
		}
		taken[n] = true
		return n
	}
	if params {
		m.untupleParams(name)
	}
	if result {
		m.untupleResult(name)
	}
	return m
}

// untupleParams is the part of Untupled for the parameters; name makes names
// that the entry computation has not.
func (m *Module) untupleParams(name func(string) string) {
	var body []*Instruction
	var layouts []*Shape
	numbers := map[string]int64{} // of the leaf, by parameter and shape index
	whole := map[*Instruction]*Instruction{}
	for i, p := range m.Entry.Params() {
		layout := p.Shape
		if m.EntryLayout != nil {
			layout = m.EntryLayout.Params[i]
		}
		var build func(s, layout *Shape, at []int64) *Instruction
		build = func(s, layout *Shape, at []int64) *Instruction {
			if s.IsTuple() {
				var elements []*Instruction
				for k, e := range s.Elements {
					elements = append(elements, build(e, layout.Elements[k], append(slices.Clone(at), int64(k))))
				}
				tuple := NewInstruction(name(p.Name+".tuple"), OpTuple, s, elements...)
				body = append(body, tuple)
				return tuple
			}
			leaf := p
			if p.Shape.IsTuple() {
				leaf = NewInstruction(name(p.Name+".leaf"), OpParameter, s)
			}
			leaf.Attr.ParameterNumber = int64(len(layouts))
			numbers[fmt.Sprint(i, at)] = leaf.Attr.ParameterNumber
			layouts = append(layouts, layout)
			body = append(body, leaf)
			return leaf
		}
		whole[p] = build(p.Shape, layout, []int64{})
	}
	for _, in := range m.Entry.Instructions {
		if in.Op == OpParameter {
			continue
		}
		for i, o := range in.Operands {
			if w := whole[o]; w != nil {
				in.Operands[i] = w
			}
		}
		in.ControlPredecessors = slices.DeleteFunc(in.ControlPredecessors, func(o *Instruction) bool { return whole[o] != nil })
		body = append(body, in)
	}
	if w := whole[m.Entry.Root]; w != nil {
		m.Entry.Root = w
	}
	m.Entry.Instructions = body
	if m.EntryLayout != nil {
		m.EntryLayout.Params = layouts
	}
	for _, e := range m.Attr.GetInputOutputAlias().GetEntries() {
		if n, ok := numbers[fmt.Sprint(e.ParameterNumber, append([]int64{}, e.ParameterShapeIndex...))]; ok {
			e.ParameterNumber, e.ParameterShapeIndex = n, nil
		}
	}
	for _, e := range m.Attr.GetBufferDonor().GetEntries() {
		if n, ok := numbers[fmt.Sprint(e.ParameterNumber, append([]int64{}, e.ParameterShapeIndex...))]; ok {
			e.ParameterNumber, e.ParameterShapeIndex = n, nil
		}
	}
}

// untupleResult is the part of Untupled for the result.
func (m *Module) untupleResult(name func(string) string) {
	root := m.Entry.Root
	layout := root.Shape
	if m.EntryLayout != nil {
		layout = m.EntryLayout.Result
	}
	var leaves []*Instruction
	var layouts []*Shape
	numbers := map[string]int64{} // of the leaf, by shape index
	var take func(in *Instruction, layout *Shape, at []int64)
	take = func(in *Instruction, layout *Shape, at []int64) {
		if !in.Shape.IsTuple() {
			numbers[fmt.Sprint(at)] = int64(len(leaves))
			leaves, layouts = append(leaves, in), append(layouts, layout)
			return
		}
		for i, s := range in.Shape.Elements {
			element := NewInstruction(name(root.Name+".element"), OpGetTupleElement, s, in)
			element.Attr.TupleIndex = int64(i)
			m.Entry.Instructions = append(m.Entry.Instructions, element)
			take(element, layout.Elements[i], append(slices.Clone(at), int64(i)))
		}
	}
	take(root, layout, []int64{})
	shapes := make([]*Shape, len(leaves))
	for i, l := range leaves {
		shapes[i] = l.Shape
	}
	m.Entry.Root = NewInstruction(name(root.Name+".flat"), OpTuple, TupleShape(shapes...), leaves...)
	m.Entry.Instructions = append(m.Entry.Instructions, m.Entry.Root)
	if m.EntryLayout != nil {
		m.EntryLayout.Result = TupleShape(layouts...)
	}
	for _, e := range m.Attr.GetInputOutputAlias().GetEntries() {
		if n, ok := numbers[fmt.Sprint(append([]int64{}, e.OutputShapeIndex...))]; ok {
			e.OutputShapeIndex = []int64{n}
		}
	}
}
