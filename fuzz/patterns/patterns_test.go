package patterns_test

import (
	"math/rand/v2"
	"testing"

	"github.com/passgate/passgate/fuzz/patterns"
	"github.com/passgate/passgate/fuzz/program"
)

// Every pattern makes valid programs, alone and twice in one program.
func TestPatternsAreValid(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range patterns.On(patterns.TPU) {
		if seen[p.Name] || len(p.Passes) == 0 {
			t.Errorf("%s: doubled, or for no pass", p.Name)
		}
		seen[p.Name] = true
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed, 7))
			if _, err := p.Program("p", r); err != nil {
				t.Errorf("seed %d: %v", seed, err)
				break
			}
			if p.Alone {
				continue
			}
			if _, err := program.Make("pp", r, func(b *program.Builder) { p.Build(b); p.Build(b) }); err != nil {
				t.Errorf("seed %d, twice: %v", seed, err)
				break
			}
		}
	}
}

// The programs that update memory in place are many, and none is lost by a
// typing mistake in the family's name.
func TestInPlaceFamily(t *testing.T) {
	if n := len(patterns.Family("in-place")); n < 35 {
		t.Errorf("%d patterns", n)
	}
	if n := len(patterns.Family("in")); n != 0 {
		t.Errorf("%d patterns of no family", n)
	}
}
