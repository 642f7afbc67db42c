package patterns_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/passgate/passgate/fuzz/patterns"
)

func TestTableNamesPatterns(t *testing.T) {
	for _, platform := range []string{patterns.CPU, patterns.TPU} {
		fires := patterns.Fires(platform)
		if len(fires) < 300 {
			t.Errorf("the table of %s has %d patterns: it was not read", platform, len(fires))
		}
		for name := range fires {
			if _, err := patterns.Named(name); err != nil {
				t.Errorf("%s: %v", platform, err)
			}
		}
	}
}

// What only TPUs take is not given to others.
func TestPlatforms(t *testing.T) {
	if all, tpu := len(patterns.All()), len(patterns.On(patterns.TPU)); tpu < all+20 || len(patterns.On(patterns.CPU)) != all {
		t.Errorf("%d patterns, %d on TPUs, %d on CPUs", all, tpu, len(patterns.On(patterns.CPU)))
	}
	for _, p := range patterns.For(patterns.CPU, "algsimp") {
		if p.Platform != "" {
			t.Errorf("%s on a CPU", p.Name)
		}
	}
	if len(patterns.For(patterns.TPU, "infeed-decomposer")) == 0 || len(patterns.For(patterns.CPU, "infeed-decomposer")) != 0 {
		t.Error("infeed-decomposer: patterns for a CPU, or none for a TPU")
	}
}

// Reliable patterns come first and are drawn nearly always.
func TestDraw(t *testing.T) {
	for _, pass := range []string{"algsimp", "simplify-while-loops", "transpose-folding"} {
		sure := len(patterns.Reliable(patterns.CPU, pass))
		all := patterns.For(patterns.CPU, pass)
		if sure == 0 || len(all) <= sure {
			t.Fatalf("%s: %d reliable of %d patterns", pass, sure, len(all))
		}
		r := rand.New(rand.NewPCG(1, 1))
		hopes := 0
		for range 1000 {
			p, ok := patterns.Draw(r, patterns.CPU, pass)
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
	if _, ok := patterns.Draw(rand.New(rand.NewPCG(1, 1)), patterns.CPU, "no such pass"); ok {
		t.Error("a pattern for a pass that there is not")
	}
	if _, err := patterns.Named("no/such"); err == nil {
		t.Error("a pattern of a name that there is not")
	}
}
