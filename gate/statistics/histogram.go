package statistics

import (
	"math"
	"slices"
)

// perOctave is the number of buckets between a distance and its double: a
// quantile is at most 2^(1/8), 9 %, too high.
const perOctave = 8

// Histogram counts distances in units in the last place, on a logarithmic
// scale with one bucket for zero. Sums of histograms do not depend on the order.
// The zero value is empty.
type Histogram struct {
	zero    int64
	buckets map[int]int64
	n       int64
	max     float64
}

// Add counts one distance, from 0 to +Inf.
func (h *Histogram) Add(d float64) {
	h.n++
	h.max = math.Max(h.max, d)
	if d == 0 {
		h.zero++
		return
	}
	if h.buckets == nil {
		h.buckets = map[int]int64{}
	}
	h.buckets[bucket(d)]++
}

// bucket is the smallest k with d <= 2^(k/perOctave).
func bucket(d float64) int {
	if math.IsInf(d, 1) {
		return math.MaxInt32
	}
	return int(math.Ceil(math.Log2(d) * perOctave))
}

func edge(k int) float64 { return math.Exp2(float64(k) / perOctave) }

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	h.zero += o.zero
	h.n += o.n
	h.max = math.Max(h.max, o.max)
	for k, c := range o.buckets {
		if h.buckets == nil {
			h.buckets = map[int]int64{}
		}
		h.buckets[k] += c
	}
}

// N is the number of distances, Max the largest, exactly.
func (h *Histogram) N() int64     { return h.n }
func (h *Histogram) Max() float64 { return h.max }

// Quantile is an upper bound of the q-quantile, q in (0, 1], at most 9 % too
// high and at most Max: the upper edge of the bucket that holds the value of
// rank ceil(q n). 0 without distances.
func (h *Histogram) Quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.n)))
	left := rank - h.zero
	if left <= 0 {
		return 0
	}
	for _, k := range h.keys() {
		if left -= h.buckets[k]; left <= 0 {
			return math.Min(edge(k), h.max)
		}
	}
	return h.max
}

// Above counts the distances above a power of two, exactly.
func (h *Histogram) Above(power int) int64 {
	n := int64(0)
	for k, c := range h.buckets {
		if k > power*perOctave {
			n += c
		}
	}
	return n
}

func (h *Histogram) keys() []int {
	var out []int
	for k := range h.buckets {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
