package triage

import (
	"fmt"
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
	want := ""
	found := -1
	for j := i - 1; j >= program; j-- {
		m := t.Before
		if j > program {
			if m = t.States[j].Module; m == nil {
				return nil
			}
		}
		p := n.pattern(m.Instruction(name))
		switch {
		case want == "":
			if want = p; want == "" {
				return nil
			}
		case p != want:
			return &t.States[found]
		}
		found = j
	}
	return nil
}

// pattern is an instruction and its operands as text: what they do, and the
// names of what they read. "" for nil.
func (n *numbering) pattern(in *hlo.Instruction) string {
	if in == nil {
		return ""
	}
	var b strings.Builder
	for _, x := range slices.Concat([]*hlo.Instruction{in}, in.Operands) {
		fmt.Fprintf(&b, "%s %s", x.Name, n.operation(x))
		for _, o := range x.Operands {
			b.WriteString(" " + o.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}
