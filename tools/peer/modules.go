package main

import (
	"iter"
	"os"

	"github.com/passgate/passgate/fuzz"
)

// found is one HLO module of a checkout.
type found struct {
	origin
	text string
}

// modules are the HLO modules of a checkout of XLA, each distinct text once, in
// the order of the files. occurrences, if not nil, counts all of them.
func modules(checkout string, occurrences *int) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		seen := map[string]bool{}
		for m, err := range fuzz.Harvest(os.DirFS(checkout)) {
			if err != nil {
				yield(found{}, err)
				return
			}
			if occurrences != nil {
				*occurrences++
			}
			if seen[m.Text] {
				continue
			}
			seen[m.Text] = true
			if !yield(found{origin{len(seen), m.Path, m.Line}, m.Text}, nil) {
				return
			}
		}
	}
}
