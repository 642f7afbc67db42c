package statistics

import (
	"encoding/json"
	"fmt"
	"iter"
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

// infinite is the bucket of infinite distances.
const infinite = math.MaxInt32

// bucket is the smallest k with d <= 2^(k/perOctave).
func bucket(d float64) int {
	if math.IsInf(d, 1) {
		return infinite
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

// Zeros counts the distances that are zero.
func (h *Histogram) Zeros() int64 { return h.zero }

// Octaves are the counts of the distances above 2^(power-1) and up to
// 2^power, exactly, by increasing power, where there are any. Infinite
// distances are left out.
func (h *Histogram) Octaves() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		keys := h.keys()
		for i := 0; i < len(keys) && keys[i] != infinite; {
			power, n := octave(keys[i]), int64(0)
			for ; i < len(keys) && octave(keys[i]) == power; i++ {
				n += h.buckets[keys[i]]
			}
			if !yield(power, n) {
				return
			}
		}
	}
}

// octave is the smallest power of two at or above a bucket's upper edge.
func octave(k int) int { return int(math.Ceil(float64(k) / perOctave)) }

// histogramJSON is a histogram in a file. Buckets are [bucket, count] by
// increasing bucket; a bucket k ends at 2^(k/8).
type histogramJSON struct {
	Zero    int64      `json:"zero"`
	Max     float64    `json:"max"`
	Buckets [][2]int64 `json:"buckets"`
}

// MarshalJSON writes all that a sum needs. Infinite distances cannot be
// written: an error.
func (h Histogram) MarshalJSON() ([]byte, error) {
	out := histogramJSON{h.zero, h.max, [][2]int64{}}
	for _, k := range h.keys() {
		out.Buckets = append(out.Buckets, [2]int64{int64(k), h.buckets[k]})
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var in histogramJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*h = Histogram{zero: in.Zero, n: in.Zero, max: in.Max}
	for _, b := range in.Buckets {
		if b[0] != int64(int32(b[0])) || b[1] < 0 || in.Zero < 0 {
			return fmt.Errorf("statistics: bucket %d with %d distances", b[0], b[1])
		}
		if h.buckets == nil {
			h.buckets = map[int]int64{}
		}
		h.buckets[int(b[0])] += b[1]
		h.n += b[1]
	}
	return nil
}

func (h *Histogram) keys() []int {
	var out []int
	for k := range h.buckets {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
