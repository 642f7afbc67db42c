package triage

import (
	"slices"
	"strings"

	"github.com/passgate/passgate/hlo"
)

// Enabler is the state in which what step i rewrites came to be: the last one
// before it that made the instruction, or one of its operands, what step i
// finds. A pass that is right by itself may so feed one that is wrong. It is
// nil if the program has them from the start, or nobody can tell. name is the
// rewritten instruction's name before the step.
func (t *Trail) Enabler(name string, i int) *State {
	n := newNumbering()
	want, found := "", program
	for j := i - 1; j > program; j-- {
		m := t.States[j].Module
		if m == nil {
			return nil
		}
		in := m.Instruction(name)
		if in == nil && j == i-1 {
			return nil
		}
		p := n.pattern(in, true)
		if j == i-1 {
			want = p
		}
		if p != want {
			return &t.States[found]
		}
		found = j
	}
	if found == program {
		return nil // the first step
	}
	// A compiler gives names of its own to what the program calls the same.
	want = n.pattern(t.States[found].Module.Instruction(name), false)
	for _, c := range t.Before.Computations {
		for _, in := range c.Instructions {
			if n.pattern(in, false) == want {
				return nil
			}
		}
	}
	return &t.States[found]
}

// pattern is an instruction and its operands as text: what they do, and with
// names what they are called and what they read. "" for nil.
func (n *numbering) pattern(in *hlo.Instruction, names bool) string {
	if in == nil {
		return ""
	}
	var b strings.Builder
	for _, x := range slices.Concat([]*hlo.Instruction{in}, in.Operands) {
		if names {
			b.WriteString(x.Name + " ")
		}
		b.WriteString(n.operation(x))
		for _, o := range x.Operands {
			if names {
				b.WriteString(" " + o.Name)
			} else {
				b.WriteString(" " + o.Op.String())
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
