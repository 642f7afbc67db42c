// Package statistics judges accuracy: whether head is farther from the exact
// values than base, by how much, and with what error rate, when somebody looks
// after every case. One observation is one program: its elements share
// operands, vector lanes and table entries, so they bet once, together.
package statistics

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// stakes are the fixed fractions of the wealth that a Bettor lays in parallel,
// with equal shares. They cover effects from a few percent of the elements to
// all of them; the price of the mixture is a factor of at most len(stakes).
var stakes = [...]float64{1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4, 1. / 2, 3. / 4, 15. / 16}

// Bettor is an e-process for the hypothesis that observations x in [-1, 1] have
// conditional mean at most 0 given the past: the wealth of a gambler who lays
// the stakes on x > 0,
//
//	E_t = average over stakes s of product over i <= t of (1 + s x_i).
//
// Under the hypothesis every product is a nonnegative supermartingale that
// starts at 1, so P(some E_t >= 1/a) <= a (Ville 1939), whenever one stops; and
// E at any stopping time has mean at most 1 (Waudby-Smith and Ramdas,
// Estimating means of bounded random variables by betting, JRSS B 86, 2024).
// Nothing is assumed about the dependence inside an observation.
//
// For a comparison of base and head x is a program's Sign. If the two are
// interchangeable, x and -x are equally likely, and the mean is 0.
type Bettor struct {
	logs    [len(stakes)]float64
	n       int
	highest float64 // logarithm
}

// Add takes the next observation, in [-1, 1].
func (b *Bettor) Add(x float64) {
	if !(x >= -1 && x <= 1) {
		panic("statistics: an observation outside [-1, 1]")
	}
	for i, s := range stakes {
		b.logs[i] += math.Log1p(s * x)
	}
	b.n++
	b.highest = max(b.highest, b.log())
}

// N is the number of observations.
func (b *Bettor) N() int { return b.n }

func (b *Bettor) log() float64 {
	top := slices.Max(b.logs[:])
	sum := 0.0
	for _, l := range b.logs {
		sum += math.Exp(l - top)
	}
	return top + math.Log(sum/float64(len(stakes)))
}

// E is the wealth now: an e-value. It is at most MaxE.
func (b *Bettor) E() float64 { return bounded(b.log()) }

// Highest is the largest wealth so far, at least 1: it reaches 1/a with
// probability at most a under the hypothesis, but is no e-value. At most MaxE.
func (b *Bettor) Highest() float64 { return bounded(b.highest) }

// MaxE bounds reported wealth: more evidence than that changes nothing, and
// JSON has no infinity.
const MaxE = 1e300

func bounded(log float64) float64 { return math.Min(math.Exp(log), MaxE) }

// Sign is the observation of one program in [-1, 1]: the mean sign of
// |head-centre| - |base-centre| over its elements that differ in it. ok is false
// if none does: such a program says nothing.
func Sign(headWorse, baseWorse int64) (x float64, ok bool) {
	if headWorse+baseWorse == 0 {
		return 0, false
	}
	return float64(headWorse-baseWorse) / float64(headWorse+baseWorse), true
}

// Discoveries are the indices of the hypotheses that e-BH rejects at false
// discovery rate fdr: the k largest e-values for the largest k such that the
// k-th is at least m/(fdr k), whatever their dependence (Wang and Ramdas, False
// discovery rate control with e-values, JRSS B 84, 2022). In increasing order.
func Discoveries(e []float64, fdr float64) []int {
	order := make([]int, len(e))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case e[a] > e[b]:
			return -1
		case e[a] < e[b]:
			return 1
		}
		return 0
	})
	for k := len(e); k > 0; k-- {
		if e[order[k-1]] >= float64(len(e))/(fdr*float64(k)) {
			out := order[:k]
			slices.Sort(out)
			return out
		}
	}
	return nil
}

// FamilyWise reports whether the highest wealth of one of m e-processes rejects
// at family-wise level a: Ville's inequality for each at a/m, and the union
// bound (Bonferroni), whatever their dependence.
func FamilyWise(highest float64, m int, a float64) bool { return highest >= float64(m)/a }

// upper is the logarithm of the e-process for P(success) <= 1/2 after k
// successes in n trials: the mixture of the likelihood ratios p^k (1-p)^(n-k)
// 2^n over p uniform in [1/2, 1],
//
//	2^(n+1) B(k+1, n-k+1) (1 - I_{1/2}(k+1, n-k+1)).
//
// (Robbins, Statistical methods related to the law of the iterated logarithm,
// Ann. Math. Stat. 41, 1970; Howard, Ramdas, McAuliffe and Sekhon,
// Time-uniform, nonparametric, nonasymptotic confidence sequences, Ann. Stat.
// 49, 2021, one-sided beta-binomial mixture.)
func upper(k, n int) float64 {
	a, b := float64(k+1), float64(n-k+1)
	tail := mathext.RegIncBeta(b, a, 0.5) // 1 - I_{1/2}(a, b)
	if tail == 0 {
		return math.Inf(-1)
	}
	return float64(n+1)*math.Ln2 + mathext.Lbeta(a, b) + math.Log(tail)
}

// Median is the confidence sequence at level 1-a for the median of observations
// that come one by one: with probability 1-a it contains the conditional median
// at every time (Howard and Ramdas, Sequential estimation of quantiles with
// applications to A/B testing and best-arm identification, Bernoulli 28, 2022).
// A value below the interval is one for which the observations above it beat a
// fair coin at level a/2, and likewise above. sorted holds the observations in
// increasing order; infinities are allowed, ties are harmless. An end that the
// observations do not bound yet is infinite.
func Median(sorted []float64, a float64) (estimate, low, high float64) {
	n := len(sorted)
	if n == 0 {
		return math.NaN(), math.Inf(-1), math.Inf(1)
	}
	estimate = sorted[n/2]
	if n%2 == 0 && sorted[n/2-1] != sorted[n/2] {
		estimate = sorted[n/2-1]/2 + sorted[n/2]/2
	}
	// The smallest number of successes that beats the coin; upper grows with k.
	need := n + 1
	for need > 0 && upper(need-1, n) >= math.Log(2/a) {
		need--
	}
	if need > n {
		return estimate, math.Inf(-1), math.Inf(1)
	}
	return estimate, sorted[n-need], sorted[need-1]
}
