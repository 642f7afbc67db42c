package generate_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/hlo"
)

// Every program is valid, and what is written reads back as the same module.
func TestProgramsAreValid(t *testing.T) {
	for seed := range uint64(500) {
		c, err := generate.Program("g", rand.New(rand.NewPCG(seed, 1)), generate.Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := fuzz.ReadCase("g.case", c.Format())
		if err != nil {
			t.Fatalf("seed %d: written case: %v\n%s", seed, err, c.Text)
		}
		want, err := hlo.MarshalModule(c.Module)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := hlo.MarshalModule(again.Module)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: written and read, the module is another one:\n%s\n%s", seed, c.Text, again.Module)
		}
	}
}

func TestSameSeedSameProgram(t *testing.T) {
	make := func(seed uint64) string {
		c, err := generate.Program("g", rand.New(rand.NewPCG(seed, 1)), generate.Options{Focus: []string{"algsimp"}})
		if err != nil {
			t.Fatal(err)
		}
		return c.Text
	}
	for seed := range uint64(50) {
		first := make(seed)
		if again := make(seed); first != again {
			t.Fatalf("seed %d gives two programs", seed)
		}
		if first == make(seed+1000) {
			t.Fatalf("seeds %d and %d give one program", seed, seed+1000)
		}
	}
}
