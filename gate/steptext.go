package gate

import "github.com/passgate/passgate/hlo"

// readable is the size up to which a module is shown to people.
const readable = 16 << 10

// stepText is the module before and after a pass step, nil if that is too long
// to read.
func stepText(before, after *hlo.Module) *StepText {
	t := &StepText{Before: before.String(), After: after.String()}
	if len(t.Before) > readable || len(t.After) > readable {
		return nil
	}
	return t
}
