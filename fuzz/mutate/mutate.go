// Package mutate makes new programs out of old ones.
package mutate

import (
	"errors"
	"math/rand/v2"

	"github.com/passgate/passgate/fuzz"
)

// ErrNothing says that no mutation fitted the program.
var ErrNothing = errors.New("no mutation fits")

// Mutate changes a program once.
func Mutate(r *rand.Rand, c *fuzz.Case, donors []*fuzz.Case) (*fuzz.Case, string, error) {
	return nil, "", ErrNothing
}
