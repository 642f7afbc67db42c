package fuzz

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/passgate/passgate/hlo"
)

// Generator is a parsed generator expression,
//
//	KIND TYPE[DIMS] [VALUE] [seed=N] [index=N | count=N]
//
// with these kinds:
//
//	iota     element i is i, modulo the width of an integer type, rounded to a float type
//	const    every element is VALUE (a number, nan, inf, true, false)
//	lattice  small integers and powers of two: sums and products stay exact
//	random   integers of every magnitude; floats around 0 with deviation 1, all mantissa bits used
//	special  a mix of random with NaN, infinities, signed zeros, subnormals, and the extremes of the type
//	near     VALUE is a list V,V,...: half of the elements are one of them, the others one step above or below,
//	         or of the other sign (real types only)
//	edges    those special values in turn, from number seed on: as many elements as there are values hold each once
//	lone     lattice with one element that is special: infinity, -infinity, NaN or nothing, the two extremes of an
//	         integer type or nothing, by seed modulo 4
//	falling  whole numbers that never grow from one element to the next, all different where the type has so many
//	rising   likewise, that never fall
//	crossed  seven special values such that, over 49 elements, two arrays whose seeds differ below 8 hold every
//	         pair of them (seed is 8 times the number of the first element, plus the number of the array)
//
// index=N says that integers are used as an index into N elements: lattice
// stays inside [0, N), random leaves it once in 8 draws, special once in 2.
// count=N (a trip count, a size) keeps every kind inside [0, N].
//
// Values come from PCG-DXSM (math/rand/v2) seeded with the pair (seed, hash of
// the kind), whose 64-bit outputs are used in row-major order, and only with
// operations that are exact everywhere; so an expression means the same on
// every machine.
type Generator struct {
	Kind  string
	Type  hlo.PrimitiveType
	Dims  []int64
	Value string
	Seed  uint64
	// Index and Count are the limits above; 0 is none.
	Index, Count int64
}

// maxInputBytes bounds one generated input, so that a typing error does not
// take the machine's memory.
const maxInputBytes = 1 << 30

// parseGenerator reads the parts matched by generatorLine.
func parseGenerator(m []string) (Generator, error) {
	g := Generator{Kind: m[1]}
	shape := arrayShape.FindStringSubmatch(m[2])
	if shape == nil {
		return g, fmt.Errorf("want an array shape such as s32[4] after %q, not %q", m[1], m[2])
	}
	t, ok := hlo.TypeByName(shape[1])
	if !ok || !t.IsArray() {
		return g, fmt.Errorf("unknown element type %q", shape[1])
	}
	g.Type = t
	bytes := int64(t.Bytes())
	if shape[2] != "" {
		for _, d := range strings.Split(shape[2], ",") {
			n, err := strconv.ParseInt(d, 10, 64)
			if err != nil || n < 0 {
				return g, fmt.Errorf("bad dimension %q in %q", d, m[2])
			}
			g.Dims = append(g.Dims, n)
			if n != 0 && bytes > maxInputBytes/n {
				return g, fmt.Errorf("%s is larger than %d bytes", m[2], int64(maxInputBytes))
			}
			bytes *= n
		}
	}
	for _, word := range strings.Fields(m[3]) {
		key, value, isOption := strings.Cut(word, "=")
		if !isOption && (g.Kind == "const" || g.Kind == "near") && g.Value == "" {
			g.Value = word
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err != nil || !isOption:
			return g, fmt.Errorf("unexpected %q; want seed=N, index=N or count=N", word)
		case key == "seed" && g.Kind != "iota" && g.Kind != "falling" && g.Kind != "rising" && g.Kind != "const":
			g.Seed = n
		case key == "index" && n > 0 && n <= math.MaxInt64:
			g.Index = int64(n)
		case key == "count" && n > 0 && n <= math.MaxInt64:
			g.Count = int64(n)
		default:
			return g, fmt.Errorf("unexpected %q after %s", word, g.Kind)
		}
	}
	if g.Kind == "near" {
		if g.Value == "" || t.IsComplex() {
			return g, fmt.Errorf("near needs a real type and values, such as near f32[4] 0,1.5")
		}
		for _, v := range strings.Split(g.Value, ",") {
			if err := (Generator{Type: t, Value: v}).checkConst(); err != nil {
				return g, err
			}
		}
	}
	if g.Kind == "const" {
		if g.Value == "" {
			return g, fmt.Errorf("const needs a value, such as const f32[4] 1.5")
		}
		if err := g.checkConst(); err != nil {
			return g, err
		}
	}
	return g, nil
}

func (g Generator) checkConst() error {
	switch {
	case g.Type == hlo.Pred:
		if g.Value != "true" && g.Value != "false" && g.Value != "0" && g.Value != "1" {
			return fmt.Errorf("want true or false, not %q", g.Value)
		}
	case g.Type.IsInteger():
		if v, ok := parseInteger(g.Type, g.Value); !ok || g.Type.Canonical(v) != v {
			return fmt.Errorf("%q is no value of type %s", g.Value, g.Type)
		}
	default:
		if _, err := strconv.ParseFloat(g.Value, 64); err != nil {
			return fmt.Errorf("%q is no number", g.Value)
		}
	}
	return nil
}

func parseInteger(t hlo.PrimitiveType, s string) (int64, bool) {
	if t == hlo.U64 {
		v, err := strconv.ParseUint(s, 10, 64)
		return int64(v), err == nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil
}

// String is the expression.
func (g Generator) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", g.Kind, hlo.ArrayShape(g.Type, g.Dims...))
	switch g.Kind {
	case "const":
		b.WriteString(" " + g.Value)
	case "near":
		fmt.Fprintf(&b, " %s seed=%d", g.Value, g.Seed)
	case "lattice", "random", "special", "edges", "crossed", "lone":
		fmt.Fprintf(&b, " seed=%d", g.Seed)
	}
	if g.Index != 0 {
		fmt.Fprintf(&b, " index=%d", g.Index)
	}
	if g.Count != 0 {
		fmt.Fprintf(&b, " count=%d", g.Count)
	}
	return b.String()
}

// Generate makes the literal.
func (g Generator) Generate() *hlo.Literal {
	lit := hlo.NewLiteral(hlo.ArrayShape(g.Type, g.Dims...))
	n := lit.Shape.Elems()
	switch g.Kind {
	case "iota":
		for i := range n {
			setNumber(lit, i, float64(i), i)
		}
		return lit
	case "falling", "rising":
		g.sort(lit)
		return lit
	case "const":
		v, _ := strconv.ParseFloat(g.Value, 64)
		k, _ := parseInteger(g.Type, g.Value)
		if g.Value == "true" || g.Type == hlo.Pred && g.Value == "1" {
			k = 1
		}
		for i := range n {
			setNumber(lit, i, v, k)
		}
		return lit
	}
	h := fnv.New64a()
	h.Write([]byte(g.Kind))
	d := &draws{pcg: rand.NewPCG(g.Seed, h.Sum64()), kind: g.Kind, t: g.Type, index: g.Index, count: g.Count, elems: n}
	d.prepare()
	if g.Kind == "near" {
		d.near(lit, strings.Split(g.Value, ","))
		return lit
	}
	switch {
	case g.Kind == "edges":
		for i := range n {
			d.edge(lit, i, g.Seed+uint64(i))
		}
	case g.Kind == "crossed":
		d.specials, d.extremes = d.crossing()
		for i := range n {
			d.edge(lit, i, crossed(g.Seed/crossedArrays+uint64(i), g.Seed%crossedArrays))
		}
	case g.Kind == "lone":
		d.kind = LatticeStream
		at := int64(d.below(uint64(max(n, 1))))
		d.fill(lit)
		if n > 0 {
			d.single(lit, at, g.Seed%loneValues)
		}
	default:
		d.fill(lit)
	}
	return lit
}

// fill draws every element.
func (d *draws) fill(lit *hlo.Literal) {
	n := d.elems
	switch {
	case d.t == hlo.Pred:
		for i := range n {
			lit.SetInt(i, int64(d.below(2)))
		}
	case d.t.IsInteger():
		for i := range n {
			lit.SetInt(i, d.integer())
		}
	case d.t.IsComplex():
		for i := range n {
			re := d.float()
			setComplex(lit, i, re, d.float())
		}
	default:
		for i := range n {
			lit.SetFloat(i, d.float())
		}
	}
}

// loneValues is the number of choices of a lone element.
const loneValues = 4

// single stores lone value number k; where the type has none, the element stays.
func (d *draws) single(lit *hlo.Literal, i int64, k uint64) {
	f := d.t.Real().Format()
	switch {
	case k == loneValues-1 || d.t == hlo.Pred || d.index+d.count != 0:
	case f == nil:
		lit.SetInt(i, d.extremes[int(k)%2])
	default:
		v := []float64{math.Inf(1), math.Inf(-1), math.NaN()}[k]
		if math.IsNaN(v) && !f.HasNaN || math.IsInf(v, 0) && f.Round(v) != v {
			return
		}
		setNumber(lit, i, v, 0)
	}
}

// sort fills an array with falling or rising whole numbers: around 0, from 0 on if
// the type is unsigned, from 0 to below the limit of an index or a count.
func (g Generator) sort(lit *hlo.Literal) {
	n := lit.Shape.Elems()
	steps := n
	switch limit := g.Index + g.Count; {
	case g.Type == hlo.Pred:
		steps = min(n, 2)
	case limit > 0:
		steps = min(n, limit)
	case g.Type.IsInteger() && g.Type.Bits() < 32:
		steps = min(n, 1<<g.Type.Bits())
	}
	low := int64(0)
	if g.Index+g.Count == 0 && !g.Type.IsUnsigned() && g.Type != hlo.Pred {
		low = -steps / 2
	}
	for i := range n {
		k := i
		if g.Kind == "falling" {
			k = n - 1 - i
		}
		k = low + k*steps/n
		setNumber(lit, i, float64(k), k)
	}
}

// setNumber stores the float or the integer, as the type wants.
func setNumber(lit *hlo.Literal, i int64, v float64, k int64) {
	switch t := lit.Shape.Type; {
	case t == hlo.Pred || t.IsInteger():
		lit.SetInt(i, k)
	case t.IsComplex():
		lit.SetComplex(i, complex(v, 0))
	default:
		lit.SetFloat(i, v)
	}
}

// setComplex stores the parts without complex arithmetic, which would turn
// (1, inf) into (NaN, inf).
func setComplex(lit *hlo.Literal, i int64, re, im float64) {
	if lit.Shape.Type == hlo.C64 {
		binary.LittleEndian.PutUint32(lit.Raw[8*i:], math.Float32bits(float32(re)))
		binary.LittleEndian.PutUint32(lit.Raw[8*i+4:], math.Float32bits(float32(im)))
		return
	}
	binary.LittleEndian.PutUint64(lit.Raw[16*i:], math.Float64bits(re))
	binary.LittleEndian.PutUint64(lit.Raw[16*i+8:], math.Float64bits(im))
}

// draws makes values of one type.
type draws struct {
	pcg          *rand.PCG
	kind         string
	t            hlo.PrimitiveType
	index, count int64
	elems        int64

	specials []float64 // of a float type
	lattice  []float64
	extremes []int64 // of an integer type
}

func (d *draws) below(n uint64) uint64 { return d.pcg.Uint64() >> 11 % n }

// uniform is in [0, 1), a multiple of 2^-53.
func (d *draws) uniform() float64 { return float64(d.pcg.Uint64()>>11) * 0x1p-53 }

func (d *draws) prepare() {
	if f := d.t.Real().Format(); f != nil {
		keep := func(to []float64, vs ...float64) []float64 {
			for _, v := range vs {
				if r := f.Round(v); r == v && math.Signbit(r) == math.Signbit(v) {
					to = append(to, v)
				}
			}
			return to
		}
		d.lattice = keep(nil, 0, 1, 1, 2, 3, 4, 0.5, -1, -1, -2, -3, -4, -0.5, 5, -6, 8, 0.25)
		d.specials = keep(nil, 0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1),
			f.Max(), -f.Max(), f.MinNormal(), -f.MinNormal(), f.MinSubnormal(), -f.MinSubnormal(),
			f.MinNormal()-f.MinSubnormal(), 1+f.Ulp(1), 0.5, 2, 1000, -1000, 0x1p31, -0x1p31, 0x1p63, 88, -104)
		if f.HasNaN {
			d.specials = append(d.specials, math.NaN(), math.NaN())
		}
		return
	}
	lo, hi := integerRange(d.t)
	d.extremes = []int64{lo, hi, d.t.Canonical(lo + 1), d.t.Canonical(hi - 1), d.t.Canonical(-1), 0, 1}
}

// integerRange is the smallest and the largest value of an integer type, in
// canonical form (u64: bit patterns).
func integerRange(t hlo.PrimitiveType) (lo, hi int64) {
	if t.IsSigned() {
		return -1 << (t.Bits() - 1), 1<<(t.Bits()-1) - 1
	}
	return 0, t.Canonical(-1)
}

func (d *draws) integer() int64 {
	if d.count != 0 {
		return d.inside(d.count + 1)
	}
	if d.index != 0 {
		out := map[string]uint64{"random": 8, "special": 2}[d.kind]
		if out == 0 || d.below(out) != 0 {
			return d.inside(d.index)
		}
		edges := append([]int64{d.t.Canonical(d.index), d.t.Canonical(d.index + 1)}, d.extremes...)
		return edges[d.below(uint64(len(edges)))]
	}
	switch d.kind {
	case "lattice":
		v := int64(d.below(9))
		if lo, hi := integerRange(d.t); d.t.IsSigned() {
			v -= 4
			return min(max(v, lo), hi)
		} else if d.t.Bits() < 8 {
			return min(v, hi)
		}
		return v
	case "special":
		if d.below(d.rarity()) == 0 {
			return d.extremes[d.below(uint64(len(d.extremes)))]
		}
	}
	// A uniform number of bits gives every magnitude its share.
	v := int64(d.pcg.Uint64() >> (64 - d.t.Bits()) >> d.below(uint64(d.t.Bits())))
	if d.t.IsSigned() && d.below(2) == 0 {
		v = -v
	}
	return d.t.Canonical(v)
}

// edge stores special value number k.
func (d *draws) edge(lit *hlo.Literal, i int64, k uint64) {
	at := func(n int) int { return int(k % uint64(n)) }
	switch {
	case d.t == hlo.Pred:
		lit.SetInt(i, int64(k&1))
	case d.count != 0:
		lit.SetInt(i, d.inside(d.count+1))
	case d.index != 0:
		edges := append([]int64{d.t.Canonical(d.index - 1), d.t.Canonical(d.index)}, d.extremes...)
		lit.SetInt(i, edges[at(len(edges))])
	case d.t.IsInteger():
		lit.SetInt(i, d.extremes[at(len(d.extremes))])
	case d.t.IsComplex():
		setComplex(lit, i, d.specials[at(len(d.specials))], d.specials[(at(len(d.specials))*5+1)%len(d.specials)])
	default:
		lit.SetFloat(i, d.specials[at(len(d.specials))])
	}
}

// crossedValues is the number of values that are crossed, a prime, and
// crossedArrays that of the arrays between which they are.
const (
	crossedValues = 7
	crossedArrays = crossedValues + 1
)

// crossed is the value that element i of an array holds: row i of an orthogonal
// array of strength two, so that in 49 rows every two columns hold every pair of
// values (R. Bose, Sankhya 3, 1938: the columns b and c*b + a over a prime
// field). The first rows pair every value with itself and with its neighbour.
func crossed(i, array uint64) uint64 {
	const q = crossedValues
	i %= q * q
	a, b := i/q, i%q
	if i < 2*q { // a = 0 and a = 1 in turn
		a, b = i%2, i/2
	}
	if array == q {
		return a
	}
	return (array*a + b) % q
}

// crossing are the values that are crossed, in an order that makes the first
// rows worth most: in them are 0*inf, inf-inf, inf/inf, 0/0, NaN with a number,
// and sums and products that overflow. Types without infinities or NaN hold
// their largest values instead.
func (d *draws) crossing() ([]float64, []int64) {
	f := d.t.Real().Format()
	if f == nil {
		return nil, d.extremes // seven of them
	}
	values := []float64{0, math.Inf(1), math.Inf(-1), math.NaN(), -1, f.Max(), math.Copysign(0, -1)}
	for i, v := range values {
		if math.IsNaN(v) && !f.HasNaN || !math.IsNaN(v) && (f.Round(v) != v || math.Signbit(f.Round(v)) != math.Signbit(v)) {
			values[i] = f.Max()
		}
	}
	return values, nil
}

// edges is the number of special values of a type.
func edges(t hlo.PrimitiveType) int64 {
	d := &draws{t: t}
	d.prepare()
	return int64(max(len(d.specials), len(d.extremes)+2))
}

// inside is in [0, n), as far as the type goes.
func (d *draws) inside(n int64) int64 {
	if _, hi := integerRange(d.t); hi >= 0 && hi < n-1 {
		n = hi + 1
	}
	return int64(d.below(uint64(n)))
}

// rarity is the inverse share of special values: every second element of a
// small array, every eighth of a large one, so that reductions of large arrays
// are not all NaN.
func (d *draws) rarity() uint64 {
	if d.elems <= 16 {
		return 2
	}
	return 8
}

func (d *draws) float() float64 {
	switch d.kind {
	case "lattice":
		return d.lattice[d.below(uint64(len(d.lattice)))]
	case "special":
		if d.below(d.rarity()) == 0 {
			return d.specials[d.below(uint64(len(d.specials)))]
		}
	}
	// The sum of four uniform values has deviation 1/sqrt(3): near to a normal
	// distribution, and exact arithmetic up to the last rounding.
	v := (d.uniform() + d.uniform() + d.uniform() + d.uniform() - 2) * 1.7320508075688772
	if !d.t.Real().Format().Signed {
		v = math.Abs(v)
	}
	return v
}

func inputSeed(seed uint64, name, kind string, param, leaf int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d\x00%s\x00%s\x00%d\x00%d", seed, name, kind, param, leaf)
	return h.Sum64() >> 32
}

// Stream is one set of inputs of a case.
type Stream struct {
	// Name is own (the case's own inputs, or a program without parameters),
	// lattice, random or special.
	Name string
	// Inputs has a literal per entry parameter, Lines the line of an inputs
	// section that gives it.
	Inputs []*hlo.Literal
	Lines  []string
}

// The names of the streams, in the order in which they run.
const (
	OwnStream     = "own"
	LatticeStream = "lattice"
	RandomStream  = "random"
	SpecialStream = "special"
	EdgeStream    = "edges"   // of EdgeStreams, with a number
	CrossedStream = "crossed" // likewise
	UniformStream = "uniform" // likewise
	AlongStream   = "along"   // likewise
	AgainStream   = "again"   // likewise
	LoneStream    = "lone"    // likewise
	SortedStream  = "sorted"  // likewise
)

// Streams are the case's own inputs, if it has any, and the three generated
// streams. A program without parameters has one stream. The generated ones are
// left out for StableHLO cases, for parameters that are not arrays of static
// shape or tuples of such, and for inputs of more than 1 GiB.
func (c *Case) Streams(seed uint64) []Stream {
	params := c.Params()
	var out []Stream
	if c.Own || len(params) == 0 {
		out = append(out, Stream{OwnStream, c.Inputs, c.InputLines})
	}
	if len(params) == 0 || !generable(params) {
		return out
	}
	roles := parameterRoles(c.Module)
	for _, kind := range []string{LatticeStream, RandomStream, SpecialStream} {
		s := Stream{Name: kind}
		for i, p := range params {
			lit, text := generateFor(c.Name, kind, seed, i, p, roles)
			s.Inputs = append(s.Inputs, lit)
			s.Lines = append(s.Lines, text)
		}
		out = append(out, s)
	}
	return out
}

// maxEdgeElements bounds the programs with EdgeStreams: for larger ones the
// special stream holds every special value already. maxEdgeWork bounds the
// elements of the streams of edges together: only a scalar next to arrays of more
// than 900 elements does not get all values.
const (
	maxEdgeElements = 4096
	maxEdgeWork     = 6 * maxEdgeElements
)

// maxAgainElements bounds the programs with lone, sorted and again streams.
const maxAgainElements = 512

// maxCrossedStreams bounds the pairs that few elements get.
const maxCrossedStreams = 4

// EdgeStreams give every special value to every parameter of a small program,
// where the special stream, which draws them, holds but a few: as many streams
// as the smallest parameter takes, named edges-1 and so on, and again with scalar
// predicates the other way round. Where two or more
// arrays of floats come together, further streams, crossed-1 and so on, give
// them pairs of special values: 0*inf needs both operands. In uniform-1 and
// uniform-2 all elements are equal, -2 and 3: comparisons are ties, and a
// reduction by and, or, multiply, minimum or maximum, which many numbers drive to
// where it forgets them, shows what it began with. In along-1 and along-2 elements
// differ along the first or the last dimension only, so that such a reduction over
// another one gives different results. In lone-1 and so on of very small programs one element
// of ordinary numbers is infinite or NaN: among many special numbers a sum is NaN whatever
// becomes of one. In sorted-1 of such programs numbers fall, in sorted-2 they grow: a
// search finds the first element, or the last. They also programs get the lattice, the
// random and the special numbers again, from other seeds, as again-1 to again-6:
// a few elements say little by chance. They cost an evaluation each, and are meant for where nothing is executed.
func (c *Case) EdgeStreams(seed uint64) []Stream {
	params := c.Params()
	if len(params) == 0 || !generable(params) {
		return nil
	}
	count, total := int64(0), int64(0)
	floats, rank, smallest := 0, 0, int64(math.MaxInt64)
	for _, p := range params {
		for _, leaf := range p.Leaves() {
			n := leaf.Elems()
			total += n
			rank = max(rank, leaf.Rank())
			if n > 0 {
				count = max(count, (edges(leaf.Type)+n-1)/n)
			}
			if n > 0 && leaf.Type.Real().Format() != nil {
				floats++
				smallest = min(smallest, n)
			}
		}
	}
	if total > maxEdgeElements {
		return nil
	}
	roles := parameterRoles(c.Module)
	var out []Stream
	add := func(kind string, count int64, seed uint64) {
		for k := range count {
			s := Stream{Name: fmt.Sprintf("%s-%d", kind, k+1)}
			for i, p := range params {
				lit, text := generateFor(c.Name, kind, seed+uint64(k), i, p, roles)
				s.Inputs = append(s.Inputs, lit)
				s.Lines = append(s.Lines, text)
			}
			out = append(out, s)
		}
	}
	add(EdgeStream, min(count, maxEdgeWork/max(total, 1)), seed)
	for _, s := range slices.Clone(out) { // what is special meets both branches
		if otherWay(&s) {
			s.Name = fmt.Sprintf("%s-%d", EdgeStream, len(out)+1)
			out = append(out, s)
		}
	}
	if floats > 1 {
		const pairs = crossedValues * crossedValues
		add(CrossedStream, min((pairs+smallest-1)/smallest, maxCrossedStreams), 0)
	}
	add(UniformStream, 2, 0)
	if rank > 1 {
		add(AlongStream, 2, 0)
	}
	if total > maxAgainElements {
		return out
	}
	if floats > 1 {
		add(LoneStream, 2*(loneValues-1), 0)
	} else if floats > 0 {
		add(LoneStream, loneValues-1, loneAlone)
	}
	add(SortedStream, 2, 0)
	add(AgainStream, 6, seed)
	return out
}

// otherWay turns the scalar predicates of a stream round, in inputs of their own;
// false if there are none.
func otherWay(s *Stream) (turned bool) {
	s.Inputs, s.Lines = slices.Clone(s.Inputs), slices.Clone(s.Lines)
	for i, l := range s.Inputs {
		if l.Shape.IsArray() && l.Shape.Type == hlo.Pred && l.Shape.Rank() == 0 {
			g := Generator{Kind: "const", Type: hlo.Pred, Value: strconv.FormatBool(l.Int(0) == 0)}
			s.Inputs[i], s.Lines[i], turned = g.Generate(), g.String(), true
		}
	}
	return turned
}

// loneAlone is the first stream number of a program with one array.
const loneAlone = 2 * (loneValues - 1)

// lone is the number of the lone value that array number i has in stream number k:
// of two neighbours, one has ordinary numbers.
func lone(k uint64, i int) uint64 {
	if k >= loneAlone {
		return k - loneAlone
	}
	if (k+uint64(i))%2 == 1 {
		return loneValues - 1
	}
	return k / 2 % (loneValues - 1)
}

// uniform is the value of all elements of an array: for indices and sizes 1,
// otherwise -2 or 3, or what the type has in their place.
func uniform(t hlo.PrimitiveType, low, index bool) string {
	switch {
	case t == hlo.Pred:
		return strconv.FormatBool(!low)
	case index || t.IsInteger() && t.Bits() < 3:
		return strconv.Itoa(int(t.Canonical(1)))
	case !low:
		return "3"
	case t.IsUnsigned():
		return strconv.FormatUint(math.MaxUint64>>(64-t.Bits())-1, 10)
	}
	return "-2"
}

// along is an array of whole numbers from -100 to 150 that differ along its first or
// last dimension only; below the limit, if that is not 0.
func along(s *hlo.Shape, last bool, limit int64) *hlo.Literal {
	lit := hlo.NewLiteral(s.WithoutLayout())
	n := lit.Shape.Elems()
	block, size := n, int64(1) // a scalar
	if rank := s.Rank(); rank > 0 && n > 0 {
		block, size = n/s.Dims[0], s.Dims[0]
		if last {
			block, size = 1, s.Dims[rank-1]
		}
	}
	for i := range n {
		v := i/max(block, 1)%size*37%251 - 100
		switch {
		case s.Type == hlo.Pred:
			v &= 1
		case limit > 0:
			v = (v + 100) % limit
		}
		setNumber(lit, i, float64(v), v)
	}
	return lit
}

func generable(params []*hlo.Shape) bool {
	total := int64(0)
	for _, p := range params {
		for _, leaf := range p.Leaves() {
			if !leaf.IsArray() || leaf.IsDynamic() || leaf.Elems() > maxInputBytes {
				return false
			}
			total += leaf.Elems() * int64(leaf.Type.Bytes())
		}
	}
	return total <= maxInputBytes
}

// generateFor makes one parameter of one stream. Its seed is a hash of the
// run's seed, the case's name, the kind and the place of the parameter: so a
// case means the same whatever runs beside it.
func generateFor(name, kind string, seed uint64, param int, shape *hlo.Shape, roles map[leafKey]role) (*hlo.Literal, string) {
	leaf := 0
	var text string
	var build func(s *hlo.Shape) *hlo.Literal
	build = func(s *hlo.Shape) *hlo.Literal {
		if s.IsTuple() {
			lit := &hlo.Literal{Shape: s.WithoutLayout()}
			for _, e := range s.Elements {
				lit.Elements = append(lit.Elements, build(e))
			}
			return lit
		}
		g := Generator{Kind: kind, Type: s.Type, Dims: s.Dims, Seed: inputSeed(seed, name, kind, param, leaf)}
		if kind == EdgeStream { // streams with neighbouring seeds continue each other; parameters are out of step
			g.Seed = inputSeed(0, name, kind, param, leaf)%64 + seed*uint64(max(s.Elems(), 1))
		}
		if kind == CrossedStream { // the same elements of all arrays are crossed
			g.Seed = seed*uint64(max(s.Elems(), 1))*crossedArrays + uint64(param+leaf)%crossedArrays
		}
		if kind == AgainStream {
			g.Kind = []string{LatticeStream, RandomStream, SpecialStream}[seed%3]
		}
		if kind == LoneStream { // neighbouring arrays take turns
			g.Seed = g.Seed&^(loneValues-1) + lone(seed, param+leaf)
		}
		if kind == SortedStream {
			g.Kind, g.Seed = []string{"falling", "rising"}[seed], 0
		}
		if kind == AlongStream {
			r := roles[leafKey{param, leaf}]
			leaf++
			lit := along(s, seed != 0, r.index+r.count)
			text = lit.String()
			return lit
		}
		if kind == UniformStream {
			r := roles[leafKey{param, leaf}]
			g.Kind, g.Value, g.Seed = "const", uniform(s.Type, seed == 0, r.index+r.count > 0), 0
		} else if s.Type.IsInteger() {
			r := roles[leafKey{param, leaf}]
			g.Index, g.Count = r.index, r.count
			if r.count != 0 {
				g.Index = 0
			}
		}
		leaf++
		text = g.String()
		return g.Generate()
	}
	lit := build(shape)
	if shape.IsTuple() {
		text = lit.String()
	}
	return lit, text
}
