package campaign

import (
	"fmt"
	"slices"
	"strings"

	"github.com/passgate/passgate/hlo"
)

// Ops counts the instructions of a module by opcode, element type and rank. A
// tuple's type is "tuple", its rank 0. Parameters and tuple plumbing are left
// out: they follow from the rest.
type Ops map[string]int

// Count counts a module's instructions.
func Count(m *hlo.Module) Ops {
	n := Ops{}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case hlo.OpParameter, hlo.OpTuple, hlo.OpGetTupleElement:
				continue
			}
			kind := "tuple"
			if in.Shape.IsArray() {
				kind = in.Shape.Type.String()
			}
			n[fmt.Sprintf("%s/%s/%d", in.Op, kind, len(in.Shape.Dims))]++
		}
	}
	return n
}

// Signature says what a pass step did to a module: the multiset difference of
// its instructions' (opcode, element type, rank) before and after, each
// difference as one, two, or many. Steps of one pass with the same signature
// applied, as far as can be told from outside, the same rewrites. A step that
// only moved instructions or changed attributes has just the pass's name.
func Signature(pass string, before, after Ops) string {
	var parts []string
	add := func(sign string, key string, n int) {
		parts = append(parts, fmt.Sprintf("%s%d*%s", sign, min(n, 3), key))
	}
	for key, n := range before {
		if d := n - after[key]; d > 0 {
			add("-", key, d)
		}
	}
	for key, n := range after {
		if d := n - before[key]; d > 0 {
			add("+", key, d)
		}
	}
	slices.Sort(parts)
	return pass + ":" + strings.Join(parts, " ")
}
