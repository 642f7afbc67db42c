package versions

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

var options = Options{Runs: 3, MaxRuns: 30, Confidence: 0.99}

// history makes a Try of states, one letter per version: g right, b wrong,
// c crashes, ? cannot be had.
func history(states string, tried *int) Try {
	return func(_ context.Context, i, runs int) (Observation, error) {
		*tried++
		switch states[i] {
		case 'b':
			return Observation{Wrong: runs}, nil
		case 'c':
			return Observation{Broken: runs}, nil
		case '?':
			return Observation{Unknown: "no such wheel"}, nil
		}
		return Observation{Right: runs}, nil
	}
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		states  string
		every   bool
		symptom Symptom
		changes []Change // without confidence
	}{
		{"gb", false, Values, []Change{{Before: 0, After: 1, Bad: true}}},
		{"bg", false, Values, []Change{{Before: 0, After: 1}}},
		{"gggggbbbb", false, Values, []Change{{Before: 4, After: 5, Bad: true}}},
		{"bbbbbbbbg", false, Values, []Change{{Before: 7, After: 8}}},
		{"ggg?bbb", false, Values, []Change{{Before: 2, After: 4, Bad: true}}},
		{"??ggg??bb?", false, Values, []Change{{Before: 4, After: 7, Bad: true}}},
		{"gcccccbb", false, Values, []Change{{Before: 0, After: 6, Bad: true}}}, // a crash tells nothing of values
		{"ggggcc", false, Death, []Change{{Before: 3, After: 4, Bad: true}}},
		{"ccbgg", false, Death, []Change{{Before: 1, After: 2}}},
		{"ccggg", false, Death, []Change{{Before: 1, After: 2}}},
		{"gggg", false, "", nil},
		{"bbbb", false, Values, nil},
		{"gbbggcb?g", true, Values, []Change{{Before: 0, After: 1, Bad: true}, {Before: 2, After: 3}, {Before: 4, After: 6, Bad: true}, {Before: 6, After: 8}}},
		{"gggcggg", true, Death, []Change{{Before: 2, After: 3, Bad: true}, {Before: 3, After: 4}}},
		{"g", false, "", nil},
	} {
		o := options
		o.Every = c.every
		tried := 0
		a, err := Search(t.Context(), len(c.states), history(c.states, &tried), o)
		if err != nil {
			t.Errorf("%s: %v", c.states, err)
			continue
		}
		if a.Symptom != c.symptom || len(a.Changes) != len(c.changes) {
			t.Errorf("%s: symptom %q, changes %+v", c.states, a.Symptom, a.Changes)
			continue
		}
		for i, got := range a.Changes {
			if got.Confidence < 0.8 || got.Confidence > 1 {
				t.Errorf("%s: confidence %g", c.states, got.Confidence)
			}
			if got.Confidence = 0; got != c.changes[i] {
				t.Errorf("%s: change %+v, want %+v", c.states, got, c.changes[i])
			}
		}
	}
	tried := 0
	if _, err := Search(t.Context(), 3, history("???", &tried), options); !errors.Is(err, ErrNothing) {
		t.Errorf("no version can be had: %v", err)
	}
	stop := errors.New("stop")
	if _, err := Search(t.Context(), 3, func(context.Context, int, int) (Observation, error) { return Observation{}, stop }, options); err != stop {
		t.Errorf("error of a try: %v", err)
	}
}

// TestSearchProperty: with any unknown versions the boundary lies in the answer,
// nothing but unknown versions lies between its ends, and without them few
// versions are tried.
func TestSearchProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 60).Draw(t, "versions")
		first := rapid.IntRange(1, n-1).Draw(t, "first")
		good, bad := byte('g'), byte('b')
		if rapid.Bool().Draw(t, "fixed") {
			good, bad = bad, good
		}
		states := make([]byte, n)
		skips := 0
		for i := range states {
			states[i] = good
			if i >= first {
				states[i] = bad
			}
			if i > 0 && i < n-1 && rapid.IntRange(0, 4).Draw(t, "skip") == 0 {
				states[i] = '?'
				skips++
			}
		}
		tried := 0
		a, err := Search(context.Background(), n, history(string(states), &tried), options)
		if err != nil {
			t.Fatal(err)
		}
		ch := a.Changes[0]
		if ch.Before >= first || ch.After < first || ch.Bad != (bad == 'b') {
			t.Fatalf("%s: %+v, want %d", states, ch, first)
		}
		for i := ch.Before + 1; i < ch.After; i++ {
			if states[i] != '?' {
				t.Fatalf("%s: %+v holds a known version", states, ch)
			}
		}
		if most := 3 + int(math.Ceil(math.Log2(float64(n)))) + skips; tried > most {
			t.Fatalf("%s: %d tries, want at most %d", states, tried, most)
		}
	})
}

// TestFlaky: a fault that shows in a third of the runs is placed rightly about
// as often as the answers claim.
func TestFlaky(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const searches, n = 400, 12
	right, claimed, none := 0, 0.0, 0
	for range searches {
		first := 1 + rng.IntN(n-1)
		a, err := Search(t.Context(), n, func(_ context.Context, i, runs int) (Observation, error) {
			o := Observation{}
			for range runs {
				if i >= first && rng.Float64() < 0.35 {
					o.Wrong++
				} else {
					o.Right++
				}
			}
			return o, nil
		}, options)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Changes) == 0 {
			none++
			continue
		}
		claimed += a.Changes[0].Confidence
		if a.Changes[0].After == first {
			right++
		}
	}
	if none > 0 {
		t.Errorf("%d of %d searches saw no fault at all", none, searches)
	}
	// Three standard deviations of 400 answers that are right with 0.95.
	if rate, mean := float64(right)/searches, claimed/searches; rate < mean-0.035 || mean < 0.9 {
		t.Errorf("%.3f of the answers are right, %.3f claimed", rate, mean)
	}
}

// TestMissed: the closed form is the mean that it says.
func TestMissed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	// Beta(2, 3) is the second smallest of four uniform numbers.
	sum := 0.0
	const samples = 200000
	for range samples {
		low, second := 2.0, 2.0
		for range 4 {
			x := rng.Float64()
			if x < low {
				low, second = x, low
			} else if x < second {
				second = x
			}
		}
		sum += math.Pow(1-second, 5)
	}
	if got, want := missed(2, 3, 5), sum/samples; math.Abs(got-want) > 0.003 {
		t.Errorf("missed = %g, simulated %g", got, want)
	}
}
