package statistics

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// draws is a stream of random numbers that is the same in every run.
func draws(name uint64) *rand.Rand { return rand.New(rand.NewPCG(20261202, name)) }

// nullRuns is the number of simulated runs of each null.
const nullRuns = 100_000

// nulls are programs for which base and head are interchangeable, or head is
// better: the hypothesis of the Bettor. Each gives the counts of one program.
var nulls = []struct {
	name string
	draw func(r *rand.Rand, t int) (headWorse, baseWorse int64)
}{
	{"one element", func(r *rand.Rand, t int) (int64, int64) {
		if r.IntN(2) == 0 {
			return 1, 0
		}
		return 0, 1
	}},
	{"1000 elements that share one cause", func(r *rand.Rand, t int) (int64, int64) {
		k := int64(500)
		if r.IntN(4) == 0 {
			k = 1000 * r.Int64N(2)
		}
		return k, 1000 - k
	}},
	{"rarely a little worse, often much better", func(r *rand.Rand, t int) (int64, int64) {
		if r.IntN(4) != 0 {
			return 60, 40 // x = 0.2 in three of four
		}
		return 20, 80 // x = -0.6 in one: mean 0
	}},
	{"the past decides the spread", func(r *rand.Rand, t int) (int64, int64) {
		k := int64(1 + t%50)
		if r.IntN(2) == 0 {
			return k, 50 - k
		}
		return 50 - k, k
	}},
}

// TestBettorKeepsItsLevel stops after every program: the share of null runs
// whose wealth ever reaches 1/a is at most a, up to three standard errors of
// the simulation.
func TestBettorKeepsItsLevel(t *testing.T) {
	const programs = 60
	for i, null := range nulls {
		t.Run(null.name, func(t *testing.T) {
			t.Parallel()
			r := draws(uint64(i))
			reached := map[float64]int{0.05: 0, 0.01: 0}
			for range nullRuns {
				var b Bettor
				for p := range programs {
					if x, ok := Sign(null.draw(r, p)); ok {
						b.Add(x)
					}
					if b.Highest() >= 100 {
						break
					}
				}
				for a := range reached {
					if b.Highest() >= 1/a {
						reached[a]++
					}
				}
			}
			for a, n := range reached {
				rate := float64(n) / nullRuns
				t.Logf("level %g: %.5f of %d runs", a, rate, nullRuns)
				if rate > a+3*math.Sqrt(a*(1-a)/nullRuns) {
					t.Errorf("level %g: reached in %.5f of the null runs", a, rate)
				}
			}
		})
	}
}

// TestBettorHasPower states the power: where head is worse on 80 % of the
// elements of a program (x = 0.6 on average, +-0.2), a family of 500 cells at
// 5 % is beaten within 60 programs in at least 95 % of the runs; where it is
// worse on 55 %, within 1500.
func TestBettorHasPower(t *testing.T) {
	for _, c := range []struct {
		mean, spread float64
		programs     int
	}{{0.6, 0.2, 60}, {0.1, 0.3, 1500}} {
		r, found := draws(7), 0
		const runs = 400
		for range runs {
			var b Bettor
			for range c.programs {
				b.Add(c.mean + c.spread*(2*r.Float64()-1))
			}
			if FamilyWise(b.Highest(), 500, 0.05) {
				found++
			}
		}
		t.Logf("mean sign %g: found in %d of %d runs of %d programs", c.mean, found, runs, c.programs)
		if float64(found) < 0.95*runs {
			t.Errorf("mean sign %g: found in %d of %d runs", c.mean, found, runs)
		}
	}
}

// TestBettorIsFair checks the martingale exactly: over a fair sign the wealth
// has the mean it had before.
func TestBettorIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Bettor
		for _, x := range rapid.SliceOfN(rapid.Float64Range(-1, 1), 0, 40).Draw(t, "past") {
			b.Add(x)
		}
		x := rapid.Float64Range(0, 1).Draw(t, "x")
		up, down := b, b
		up.Add(x)
		down.Add(-x)
		if mean := (up.E() + down.E()) / 2; math.Abs(mean-b.E()) > 1e-9*b.E() {
			t.Fatalf("wealth %g, mean of the next %g", b.E(), mean)
		}
		if b.Highest() < b.E()*(1-1e-12) || b.Highest() < 1 {
			t.Fatalf("highest %g, now %g", b.Highest(), b.E())
		}
	})
}

func TestWealthIsBounded(t *testing.T) {
	var b Bettor
	for range 5000 {
		b.Add(1)
	}
	if b.E() != MaxE || b.Highest() != MaxE || b.N() != 5000 {
		t.Errorf("E %g, highest %g", b.E(), b.Highest())
	}
}

// TestMedianCovers stops after every observation: the share of runs in which
// the interval ever misses the median is at most a. Where the median lies among
// the observations is all that counts, so a fair coin stands for any continuous
// distribution.
func TestMedianCovers(t *testing.T) {
	const a, horizon = 0.05, 60
	var need [horizon + 1]int
	for n := 1; n <= horizon; n++ {
		need[n] = n + 1
		for need[n] > 0 && upper(need[n]-1, n) >= math.Log(2/a) {
			need[n]--
		}
	}
	r, missed := draws(11), 0
	for range nullRuns {
		above := 0
		for n := 1; n <= horizon; n++ {
			above += r.IntN(2)
			if above >= need[n] || n-above >= need[n] {
				missed++
				break
			}
		}
	}
	rate := float64(missed) / nullRuns
	t.Logf("missed in %.5f of %d runs", rate, nullRuns)
	if rate > a+3*math.Sqrt(a*(1-a)/nullRuns) {
		t.Errorf("missed in %.5f of the runs", rate)
	}
	if rate < a/20 {
		t.Errorf("missed in %.5f of the runs: far too wide", rate)
	}
}

// TestMedianInterval checks the interval against its definition: every value
// outside is one that the coin test rejects, every value inside is not.
func TestMedianInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(-8, 8).Draw(t, "v")) }), 1, 60).Draw(t, "values")
		slices.Sort(v)
		m, low, high := Median(v, 0.05)
		if low > m || m > high {
			t.Fatalf("%v: %g not in [%g, %g]", v, m, low, high)
		}
		rejected := func(theta float64) bool {
			above, below := 0, 0
			for _, x := range v {
				if x > theta {
					above++
				}
				if x < theta {
					below++
				}
			}
			return upper(above, len(v)) >= math.Log(40) || upper(below, len(v)) >= math.Log(40)
		}
		for theta := -9.5; theta < 10; theta++ { // between the values
			if inside := theta >= low && theta <= high; inside == rejected(theta) {
				t.Fatalf("%v: [%g, %g], but %g is rejected: %t", v, low, high, theta, rejected(theta))
			}
		}
	})
	if _, low, high := Median([]float64{1, 2, 3}, 0.05); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Error("three observations bound nothing")
	}
}

// TestUpperIsAnEProcess: the mean over a fair coin is 1 at every time.
func TestUpperIsAnEProcess(t *testing.T) {
	for n := range 80 {
		sum := 0.0
		for k := range n + 1 {
			lg, _ := math.Lgamma(float64(n + 1))
			a, _ := math.Lgamma(float64(k + 1))
			b, _ := math.Lgamma(float64(n - k + 1))
			sum += math.Exp(lg - a - b - float64(n)*math.Ln2 + upper(k, n))
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("n %d: mean %g", n, sum)
		}
	}
}

// TestDiscoveriesControlTheRate: 500 cells, 25 of which are really worse and
// 475 are one shared coin (as dependent as can be). The false discovery rate is
// at most 10 %, and most of the 25 are found.
func TestDiscoveriesControlTheRate(t *testing.T) {
	const cells, worse, programs, runs, fdr = 500, 25, 60, 300, 0.1
	r := draws(13)
	falseShare, found := 0.0, 0
	for range runs {
		e := make([]float64, cells)
		var shared Bettor
		for range programs {
			shared.Add(float64(2*r.IntN(2) - 1))
		}
		for c := range e {
			e[c] = shared.E()
			if c < worse {
				var b Bettor
				for range programs {
					b.Add(0.6 + 0.4*(2*r.Float64()-1))
				}
				e[c] = b.E()
			}
		}
		wrong, got := 0, Discoveries(e, fdr)
		for _, c := range got {
			if c >= worse {
				wrong++
			} else {
				found++
			}
		}
		falseShare += float64(wrong) / float64(max(1, len(got)))
	}
	t.Logf("false discovery rate %.4f, power %.3f", falseShare/runs, float64(found)/(worse*runs))
	if falseShare/runs > fdr {
		t.Errorf("false discovery rate %.4f", falseShare/runs)
	}
	if float64(found) < 0.9*worse*runs {
		t.Errorf("found %d of %d", found, worse*runs)
	}
}

func TestDiscoveries(t *testing.T) {
	for _, c := range []struct {
		e    []float64
		want []int
	}{
		{nil, nil},
		{[]float64{19}, nil},
		{[]float64{20}, []int{0}},
		{[]float64{1, 39, 0}, nil},
		{[]float64{60, 1, 0}, []int{0}},
		{[]float64{30, 1, 30}, []int{0, 2}},
		{[]float64{20, 20, 20}, []int{0, 1, 2}},
	} {
		if got := Discoveries(c.e, 0.05); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.e, got, c.want)
		}
	}
}

// TestOneULPAmongManyCells is the acceptance: 500 cells of 40 programs with 64
// elements each, one of which is shifted by one ULP on head; base and head have
// independent errors of up to 2 ULP. The cell is found at the family-wise
// level, its interval holds 1, and no other cell is found.
func TestOneULPAmongManyCells(t *testing.T) {
	const cells, shifted, programs, elements = 500, 137, 40, 64
	r := draws(17)
	found, falseFound, covered := 0, 0, 0
	const runs = 5
	for range runs {
		for c := range cells {
			var b Bettor
			var shifts []float64
			for range programs {
				hw, bw, sum := int64(0), int64(0), 0.0
				for range elements {
					base, head := 2*r.Float64(), 2*r.Float64()
					if c == shifted {
						head++
					}
					sum += head - base
					if head > base {
						hw++
					} else {
						bw++
					}
				}
				x, _ := Sign(hw, bw)
				b.Add(x)
				shifts = append(shifts, sum/elements)
			}
			if FamilyWise(b.Highest(), cells, 0.05) {
				if c != shifted {
					falseFound++
					continue
				}
				found++
				slices.Sort(shifts)
				m, low, high := Median(shifts, 0.05)
				t.Logf("shift %.2f ULP, 95%% interval %.2f to %.2f", m, low, high)
				if low <= 1 && 1 <= high && low > 0 {
					covered++
				}
			}
		}
	}
	if found != runs || covered != runs || falseFound > 0 {
		t.Errorf("found in %d of %d runs, interval right in %d, %d other cells found", found, runs, covered, falseFound)
	}
}

func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-3, 1e20)), 1, 200).Draw(t, "v")
		var whole, a, b Histogram
		for i, d := range v {
			whole.Add(d)
			if i%3 == 0 {
				a.Add(d)
			} else {
				b.Add(d)
			}
		}
		b.Merge(&a)
		slices.Sort(v)
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			exact := v[int(math.Ceil(q*float64(len(v))))-1]
			got := whole.Quantile(q)
			if got < exact*(1-1e-12) || got > exact*1.0906 {
				t.Fatalf("quantile %g: %g, exactly %g", q, got, exact)
			}
			if b.Quantile(q) != got {
				t.Fatal("a sum of histograms differs from the whole")
			}
		}
		for _, p := range []int{-2, 0, 1, 10} {
			n := int64(0)
			for _, d := range v {
				if d > math.Exp2(float64(p)) {
					n++
				}
			}
			if whole.Above(p) != n {
				t.Fatalf("%d above 2^%d, want %d", whole.Above(p), p, n)
			}
		}
		data, err := json.Marshal(whole)
		var read Histogram
		if err == nil {
			err = json.Unmarshal(data, &read)
		}
		if err != nil || !reflect.DeepEqual(read, whole) {
			t.Fatalf("%s is read as %v, %v; want %v", data, read, err, whole)
		}
		seen := whole.Zeros()
		for power, n := range whole.Octaves() {
			want := int64(0)
			for _, d := range v {
				if d > math.Exp2(float64(power-1)) && d <= math.Exp2(float64(power)) {
					want++
				}
			}
			if n != want {
				t.Fatalf("octave %d: %d, want %d", power, n, want)
			}
			seen += n
		}
		if seen != whole.N() {
			t.Fatalf("%d in all octaves, want %d", seen, whole.N())
		}
		if whole.N() != int64(len(v)) || whole.Max() != v[len(v)-1] {
			t.Fatal("count or maximum")
		}
	})
}

// Tails of the binomial distribution at the ends of the interval have half of
// 5 % each; without failures the upper end is 1 - 0.025^(1/n).
func TestProportion(t *testing.T) {
	atLeast := func(k, n int64, p float64) float64 {
		sum := 0.0
		for i := k; i <= n; i++ {
			sum += distuv.Binomial{N: float64(n), P: p}.Prob(float64(i))
		}
		return sum
	}
	for _, tt := range []struct{ k, n int64 }{{0, 0}, {0, 10}, {10, 10}, {1, 100}, {98, 100}, {3, 7}} {
		got := Proportion(tt.k, tt.n)
		if tt.k == 0 && got[0] != 0 || tt.k == tt.n && got[1] != 1 {
			t.Errorf("%d of %d: %v", tt.k, tt.n, got)
		}
		if tt.k > 0 && math.Abs(atLeast(tt.k, tt.n, got[0])-0.025) > 1e-6 {
			t.Errorf("%d of %d: lower end %g", tt.k, tt.n, got[0])
		}
		if tt.k < tt.n && math.Abs(1-atLeast(tt.k+1, tt.n, got[1])-0.025) > 1e-6 {
			t.Errorf("%d of %d: upper end %g", tt.k, tt.n, got[1])
		}
	}
}
