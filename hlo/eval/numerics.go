package eval

// Numerics holds the rules by which single operations are evaluated. The zero
// value is exact mode.
type Numerics struct {
	// Bounds selects bound mode: results carry everything that a legal
	// implementation may compute. Without it (exact mode) each operation is
	// rounded once to its type as IEEE 754 says, E and K stay zero, subnormals
	// are kept, and nothing is undecided but what HLO leaves open.
	Bounds bool
	// ExcessPrecision (bound mode only): an explicit narrowing convert may be
	// left out by the implementation, as with xla_allow_excess_precision.
	ExcessPrecision bool
}
