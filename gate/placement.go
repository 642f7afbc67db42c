package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/passgate/passgate/gate/memory"
)

// WitnessPlacement is the witness of values that lose their bytes.
const WitnessPlacement = "buffer assignment"

// placementOf checks the buffer assignment in a directory of dumps; nil if there
// is none: an older build, or a compilation that did not get so far.
func placementOf(dir string) *memory.Report {
	files, _ := filepath.Glob(filepath.Join(dir, "*after_optimizations.hlo.pb"))
	if len(files) != 1 {
		return nil
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return nil
	}
	return placementIn(data)
}

// placementIn checks the buffer assignment in a dump, an xla.HloProto; nil if it
// has none.
func placementIn(data []byte) *memory.Report {
	p, err := memory.Read(data)
	if err != nil {
		return nil
	}
	return memory.Check(p)
}

// betweenInstructions leaves out what happens inside an instruction: whether it
// may write over its own operand depends on the order in which its code goes
// about it, which is known of XLA's CPU emitters and not of TPU's.
func betweenInstructions(r *memory.Report) *memory.Report {
	if r != nil {
		r.Violations = slices.DeleteFunc(r.Violations, func(v memory.Violation) bool { return v.Kind == memory.Hazard })
	}
	return r
}

// place adds what the buffer assignments say. A fault that execution shows as
// well gains a witness and its nature; one that it does not show is a finding
// of its own, with one witness, and does not block.
func (k *caseRun) place(found []observedFinding) []observedFinding {
	base, head := k.placements[0], k.placements[1]
	faults := func(r *memory.Report) []memory.Violation {
		if r == nil {
			return nil
		}
		return r.Violations
	}
	b, h := faults(base), faults(head)
	var status Status
	from := h
	switch {
	case len(b) > 0 && len(h) > 0:
		status = PreExisting
	case len(h) > 0 && base != nil:
		status = New
	case len(h) > 0:
		status = PreExisting // base cannot be looked at
	case len(b) > 0 && head != nil:
		status, from = Fixed, b
	default:
		return found
	}
	if len(k.asked) == 0 {
		return found // nothing to show it with
	}
	v := from[0]
	text := v.String()
	if n := len(from); n > 1 {
		text += fmt.Sprintf(" (and %d more)", n-1)
	}
	i := slices.IndexFunc(found, func(f observedFinding) bool {
		return f.Status == status && (f.Class == Miscompile || f.Class == Nondeterminism || f.Class == NumericDegradation) && f.Level != LevelHLO
	})
	if i >= 0 {
		f := &found[i]
		f.Witnesses = append(f.Witnesses, WitnessPlacement)
		f.Nature = string(v.Kind)
		if f.Detail == "" {
			f.Detail = f.extent()
		}
		f.Detail = appendDetail(f.Detail, text)
		return found
	}
	unseen := "execution shows no wrong value"
	if k.run.cfg.passesOnly() {
		unseen = "nothing is executed"
	}
	show := func(v []memory.Violation) string {
		if len(v) == 0 {
			return "every value keeps its bytes"
		}
		return string(v[0].Kind)
	}
	f := observedFinding{raw: status, Finding: Finding{
		Class: BufferCorruption, Status: status, Nature: string(v.Kind), Stream: k.asked[0].Name, Flags: ComparisonFlags, Witnesses: []string{WitnessPlacement},
		First:       First{At: []int64{}, Base: show(b), Head: show(h), Legal: "every value keeps its bytes until its last use"},
		Instruction: v.At[1:], Level: LevelEmitter, Location: &Location{Computation: v.Computation, Opcode: v.Opcode, InPlace: v.Kind == memory.Hazard},
		Base: Right, Head: Right, Detail: text + "; not blocking: " + unseen,
	}}
	f.seen.class, f.seen.status, f.seen.stream, f.seen.flags = f.Class, f.Status, f.Stream, f.Flags
	return append(found, f)
}
