package campaign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
)

func maker(name string, forPasses ...int) Maker {
	return Maker{Name: name, For: forPasses, Make: func(r *rand.Rand, id string) *fuzz.Case {
		return &fuzz.Case{Name: id, Text: fmt.Sprint(name, r.Uint64())}
	}}
}

// run plays a compiler in which the maker "good" always makes pass 0 fire and
// "bad" does once in four.
func run(seed uint64, programs int) (*Campaign, []string) {
	c := New(Config{Seed: seed, Passes: []Pass{{"p", 6}, {"q", 1}}, Seeds: []*fuzz.Case{{Name: "s0"}, {Name: "s1"}},
		Makers: []Maker{maker("bad", 0), maker("good"), maker("other", 1)},
		Mutate: func(r *rand.Rand, name string, a, b *fuzz.Case) *fuzz.Case {
			return &fuzz.Case{Name: name, Text: a.Text + b.Text[:1]}
		}})
	var log []string
	for c.Programs() < programs {
		batch := c.Batch(min(16, programs-c.Programs()))
		var outcomes []Outcome
		for i, p := range batch {
			log = append(log, p.Origin+" "+p.Case.Name+" "+p.Case.Text)
			var o Outcome
			if p.Origin == "good" || p.Origin == "bad" && i%4 == 0 {
				o.Fired = []int{0}
				o.Signatures = []string{fmt.Sprintf("p:%d", len(p.Case.Text)%5)}
			}
			if p.Origin == "other" {
				o.Fired = []int{1}
			}
			outcomes = append(outcomes, o)
		}
		c.Learn(batch, outcomes)
	}
	return c, log
}

func TestSeedsComeFirst(t *testing.T) {
	_, log := run(1, 10)
	if log[0] != "seed s0 " || log[1] != "seed s1 " {
		t.Errorf("the first programs are %q", log[:2])
	}
}

func TestSameSeedSameCampaign(t *testing.T) {
	_, a := run(7, 200)
	_, b := run(7, 200)
	_, other := run(8, 200)
	if !slices.Equal(a, b) {
		t.Error("two campaigns with one seed differ")
	}
	if slices.Equal(a, other) {
		t.Error("two seeds give the same campaign")
	}
}

// TestTurnsToWhatFires: a maker that nobody announced for the pass, but that
// always makes it fire, must win over one that was announced and seldom does, and
// over mutations, none of which fires here.
func TestTurnsToWhatFires(t *testing.T) {
	c, _ := run(3, 2000)
	made, fired := c.Aim(0)
	if made < 1200 || float64(fired) < 0.85*float64(made) {
		t.Errorf("%d of %d programs made for the pass make it fire; want 85 in 100 of at least 1200", fired, made)
	}
	if made, fired := c.Aim(1); made == 0 || fired == 0 {
		t.Errorf("the light pass got %d programs, %d fire", made, fired)
	}
	if got := len(c.Signatures()); got < 2 || got > 5 {
		t.Errorf("%d signatures, want 2 to 5", got)
	}
	sum := 0
	for _, tally := range c.Tallies() {
		sum += tally.Programs
	}
	if sum != 2000 {
		t.Errorf("the tallies have %d programs of 2000", sum)
	}
}

// TestDoubtfulMakersTakeTurns: of two hundred makers that seldom make the pass
// fire every one gets a few programs, and about as many as the others of them;
// the first programs come from those that do.
func TestDoubtfulMakersTakeTurns(t *testing.T) {
	cfg := Config{Seed: 5, Passes: []Pass{{"p", 6}}}
	for i := range 300 {
		m := maker(fmt.Sprintf("good-%d", i))
		m.Sure = []int{0}
		if i >= 100 {
			m = maker(fmt.Sprintf("bad-%d", i), 0)
		}
		cfg.Makers = append(cfg.Makers, m)
	}
	c := New(cfg)
	runs := map[string]int{}
	early := 0
	for c.Programs() < 4000 {
		batch := c.Batch(32)
		outcomes := make([]Outcome, len(batch))
		for i, p := range batch {
			runs[p.Origin]++
			if p.Origin[:4] == "good" {
				outcomes[i] = Outcome{Fired: []int{0}, Signatures: []string{fmt.Sprint(c.Programs(), i)}}
			} else if c.Programs() <= 32 {
				early++
			}
		}
		c.Learn(batch, outcomes)
	}
	least, most := 4000, 0
	for _, m := range cfg.Makers[100:] {
		least, most = min(least, runs[m.Name]), max(most, runs[m.Name])
	}
	if least < 3 || most > 8 || early > 8 {
		t.Errorf("the doubtful makers got %d to %d programs, %d of the first 32; want 3 to 8 each, and few of the first", least, most, early)
	}
}

func TestSignature(t *testing.T) {
	parse := func(body string) Ops {
		m, err := hlo.Parse("x.hlo", []byte("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n"+body+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return Count(m)
	}
	before := parse("  y = f32[4] multiply(x, x)\n  ROOT z = f32[4] add(y, y)\n")
	after := parse("  ROOT z = f32[4] add(x, x)\n")
	if got, want := Signature("algsimp", before, after), "algsimp:-1*multiply/f32/1"; got != want {
		t.Errorf("signature %q, want %q", got, want)
	}
	if got := Signature("dce", before, before); got != "dce:" {
		t.Errorf("signature of nothing is %q", got)
	}
}
