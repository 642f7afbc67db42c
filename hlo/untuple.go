package hlo

import (
	"fmt"
	"slices"
)

// Untupled is the module with an entry parameter for each leaf of its entry
// parameters, in their order, for PJRT, which takes arrays only. A tuple is put
// together by the first instructions; XLA's tuple-simplifier takes it apart
// again. Aliases and donors follow their leaves. A module without tuple
// parameters is returned as it is.
func (m *Module) Untupled() *Module {
	if !slices.ContainsFunc(m.Entry.Params(), func(p *Instruction) bool { return p.Shape.IsTuple() }) {
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
	return m
}
