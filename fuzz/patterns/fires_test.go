package patterns_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/passgate/passgate/fuzz/patterns"
)

func TestTableNamesPatterns(t *testing.T) {
	fires := patterns.Fires()
	if len(fires) < 300 {
		t.Errorf("the table has %d patterns: it was not read", len(fires))
	}
	for name := range fires {
		if _, err := patterns.Named(name); err != nil {
			t.Errorf("fires.tsv: %v", err)
		}
	}
}

// Reliable patterns come first and are drawn nearly always.
func TestDraw(t *testing.T) {
	for _, pass := range []string{"algsimp", "simplify-while-loops", "transpose-folding"} {
		sure := len(patterns.Reliable(pass))
		all := patterns.For(pass)
		if sure == 0 || len(all) <= sure {
			t.Fatalf("%s: %d reliable of %d patterns", pass, sure, len(all))
		}
		r := rand.New(rand.NewPCG(1, 1))
		hopes := 0
		for range 1000 {
			p, ok := patterns.Draw(r, pass)
			if !ok {
				t.Fatalf("%s: nothing drawn", pass)
			}
			if slices.IndexFunc(all, func(q patterns.Pattern) bool { return q.Name == p.Name }) >= sure {
				hopes++
			}
		}
		if hopes < 10 || hopes > 100 {
			t.Errorf("%s: %d of 1000 draws are not reliable, want about 40", pass, hopes)
		}
	}
	if _, ok := patterns.Draw(rand.New(rand.NewPCG(1, 1)), "no such pass"); ok {
		t.Error("a pattern for a pass that there is not")
	}
	if _, err := patterns.Named("no/such"); err == nil {
		t.Error("a pattern of a name that there is not")
	}
}
