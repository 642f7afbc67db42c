package statistics

import "gonum.org/v1/gonum/mathext"

// Proportion is the exact 95 % interval of the probability of an event that was
// seen in k of n independent trials, 0 <= k <= n (C. Clopper and E. Pearson,
// Biometrika 26, 1934): quantiles of Beta distributions. Without trials it is
// [0, 1].
func Proportion(k, n int64) [2]float64 {
	const tail = 0.025
	out := [2]float64{0, 1}
	if k > 0 {
		out[0] = mathext.InvRegIncBeta(float64(k), float64(n-k+1), tail)
	}
	if k < n {
		out[1] = mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-tail)
	}
	return out
}
