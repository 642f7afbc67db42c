package mutate_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/fuzz/mutate"
	"github.com/passgate/passgate/hlo"
)

// Mutants of mutants are valid, read back as they were written, and every kind
// of mutation succeeds on some program.
func TestMutantsAreValid(t *testing.T) {
	worked, failed := map[string]int{}, map[string]int{}
	var donors []*fuzz.Case
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		c, err := generate.Program("g", r, generate.Options{Size: 2 + r.IntN(25)})
		if err != nil {
			t.Fatal(err)
		}
		donors = append(donors, c)
		before := c.Text
		for range 4 {
			m, kind, discarded, err := mutate.Try(r, c, donors)
			for _, k := range discarded {
				failed[k]++
			}
			if err != nil {
				break
			}
			worked[kind]++
			again, err := fuzz.ReadCase("m.case", m.Format())
			if err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, kind, err, m.Text)
			}
			want, err := hlo.MarshalModule(m.Module)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, kind, err)
			}
			got, err := hlo.MarshalModule(again.Module)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("seed %d, %s: written and read, the module is another one (%v):\n%s\n%s", seed, kind, err, m.Text, again.Module)
			}
			c = m
		}
		if c := donors[len(donors)-1]; c.Module.String() != before {
			t.Fatalf("seed %d: the original changed", seed)
		}
	}
	for _, k := range mutate.Kinds() {
		t.Logf("%-24s %4d worked, %4d discarded", k, worked[k], failed[k])
		if worked[k] == 0 {
			t.Errorf("%s never worked", k)
		}
	}
}
