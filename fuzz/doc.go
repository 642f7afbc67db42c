// Package fuzz makes the cases that a run feeds to the compilers.
//
// Harvest takes HLO modules out of a source checkout: the unit tests of a pass
// are the best seeds for that pass (DESIGN section 7).
package fuzz
