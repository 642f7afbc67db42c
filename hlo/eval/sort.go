package eval

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo"
)

// pairLimit is how many comparisons a sort may make to find the places that
// elements may take when comparisons are undecided; beyond it the rows are
// undecided.
const pairLimit = 1 << 22

// sort is a stable merge sort by the comparator (HandleSort). What HLO leaves
// open is not judged: the order of equal elements where is_stable is off, and
// rows on which the comparator is no strict weak order (NaN keys without a
// total order).
func (e *Evaluator) sort(in *hlo.Instruction, a []*Array) (*Value, error) {
	dim := in.Dimensions()
	if len(dim) != 1 || len(a) == 0 || dim[0] < 0 || dim[0] >= int64(len(a[0].Dims)) || len(in.Called) != 1 {
		return nil, malformed(in, "dimensions %v of %d operands", dim, len(a))
	}
	comparator, err := e.callee(in, in.Called[0])
	if err != nil {
		return nil, err
	}
	if len(comparator.types) != 2*len(a) || len(comparator.roots) != 1 || comparator.roots[0] != hlo.Pred {
		return nil, malformed(in, "%s does not compare %d operands", comparator.comp.Name, len(a))
	}
	// The sorted dimension last.
	rank := int64(len(a[0].Dims))
	order := make([]int64, 0, rank)
	for d := range rank {
		if d != dim[0] {
			order = append(order, d)
		}
	}
	order = append(order, dim[0])
	back := make([]int64, rank)
	for i, d := range order {
		back[d] = int64(i)
	}
	s := &sorter{e: e, n: int(a[0].Dims[dim[0]]), stable: in.Attr.IsStable}
	for i, x := range a {
		if !slices.Equal(x.Dims, a[0].Dims) {
			return nil, malformed(in, "operand %d has other dimensions", i)
		}
		s.operands = append(s.operands, x.transpose(order))
	}
	args := make([]Scalar, 2*len(a))
	compare, key, err := e.keyComparison(in, comparator.comp, s.operands)
	if err != nil {
		return nil, err
	}
	s.numbers = key
	s.less = func(i, j int) (answer, error) {
		if compare != nil {
			return compare(i, j), nil
		}
		for k, x := range s.operands {
			args[2*k], args[2*k+1] = x.At(i), x.At(j)
		}
		r, err := comparator.call(args...)
		if err != nil {
			return answer{}, err
		}
		return answerOf(r[0]), nil
	}
	sorted, err := s.run()
	if err != nil {
		return nil, err
	}
	for i, x := range sorted {
		sorted[i] = x.transpose(back)
	}
	if len(sorted) == 1 && e.num.Bounds {
		sorted[0] = sorted[0].flushed()
	}
	return arraysValue(in.Shape.IsTuple(), sorted), nil
}

// flushed is a with room for subnormal elements that became zero: a sort of one
// operand may be a network of minima and maxima, which are arithmetic, and on
// CPUs that flushes (seen on xla-2026-06 in sorts of rows of 24 f32, not on jax-0.11.2).
func (a *Array) flushed() *Array {
	f := floatTypes[a.Type]
	if f == nil {
		return a
	}
	r := a
	for i := range a.Len() {
		s := a.At(i)
		slack := f.slack(s.Re)
		if !(slack > 0) { // NaN has none
			continue
		}
		if r == a {
			r = a.Clone()
		}
		s.Re.E += slack
		r.Set(i, s)
	}
	return r
}

// answer is the value of a comparison.
type answer struct {
	yes, undecided bool
	contest        Contest
}

func answerOf(s Scalar) answer { return answer{s.I != 0, s.Undecided, s.Contest} }

// keyComparison recognises a comparator that compares one key of either side
// with LT or GT: a parameter, or the same function of parameters. The comparison
// takes indices into the operands, for which the keys are made once. numbers are
// the keys if they are floats that are not compared in the total order.
func (e *Evaluator) keyComparison(in *hlo.Instruction, c *hlo.Computation, operands []*Array) (compare func(i, j int) answer, numbers *Plane, err error) {
	c = inlined(c)
	root := c.Root
	if root.Op != hlo.OpCompare || len(root.Operands) != 2 {
		return nil, nil, nil
	}
	x, y := root.Operands[0], root.Operands[1]
	side, ok := sameKey(x, y)
	if !ok {
		return nil, nil, nil
	}
	direction, total := comparison(root, x.Shape.Type)
	if direction != "LT" && direction != "GT" {
		return nil, nil, nil
	}
	key := operands[x.Attr.GetParameterNumber()/2]
	if x.Op != hlo.OpParameter {
		k, err := e.callee(in, keyOf(x, c))
		if err != nil {
			return nil, nil, err
		}
		columns, err := k.columns(operands)
		if err != nil {
			return nil, nil, err
		}
		key = columns[0]
	}
	if !total && key.Type.IsFloat() {
		numbers = key.Re
	}
	return compareElements(&e.num, key, (direction == "GT") != (side == 1), total), numbers, nil
}

// sameKey reports whether x and y are the same function of the parameters of one
// side each, and which side x is of: 0 for the even numbers, 1 for the odd ones.
func sameKey(x, y *hlo.Instruction) (side int64, ok bool) {
	side = -1
	seen := map[[2]*hlo.Instruction]bool{}
	var same func(x, y *hlo.Instruction) bool
	same = func(x, y *hlo.Instruction) bool {
		at := [2]*hlo.Instruction{x, y}
		if seen[at] {
			return true
		}
		seen[at] = true
		if x.Op != y.Op || x.Shape.Type != y.Shape.Type || !x.Shape.IsArray() || !y.Shape.IsArray() || len(x.Operands) != len(y.Operands) || len(x.Called)+len(y.Called) > 0 {
			return false
		}
		if x.Op == hlo.OpParameter {
			p, q := x.Attr.ParameterNumber, y.Attr.ParameterNumber
			if side < 0 {
				side = p % 2
			}
			return p/2 == q/2 && p != q && p%2 == side
		}
		a, b := proto.CloneOf(x.Attr), proto.CloneOf(y.Attr)
		a.Metadata, b.Metadata = nil, nil
		if !proto.Equal(a, b) || (x.Literal == nil) != (y.Literal == nil) || x.Literal != nil && !bytes.Equal(x.Literal.Raw, y.Literal.Raw) {
			return false
		}
		for i := range x.Operands {
			if !same(x.Operands[i], y.Operands[i]) {
				return false
			}
		}
		return true
	}
	ok = same(x, y) && side >= 0
	return side, ok
}

// inlined is a computation without the calls and fusions that its root needs.
func inlined(c *hlo.Computation) *hlo.Computation {
	calls := func(in *hlo.Instruction) bool {
		return (in.Op == hlo.OpCall || in.Op == hlo.OpFusion) && len(in.Called) == 1 && len(in.Called[0].Params()) == len(in.Operands)
	}
	if !slices.ContainsFunc(c.Instructions, calls) {
		return c
	}
	n := hlo.NewComputation(c.Name)
	var body func(c *hlo.Computation, args []*hlo.Instruction) *hlo.Instruction
	body = func(c *hlo.Computation, args []*hlo.Instruction) *hlo.Instruction {
		is := map[*hlo.Instruction]*hlo.Instruction{}
		for i, p := range c.Params() {
			is[p] = args[i]
		}
		var take func(in *hlo.Instruction) *hlo.Instruction
		take = func(in *hlo.Instruction) *hlo.Instruction {
			if is[in] == nil {
				operands := make([]*hlo.Instruction, len(in.Operands))
				for i, o := range in.Operands {
					operands[i] = take(o)
				}
				if calls(in) {
					is[in] = body(in.Called[0], operands)
				} else {
					k := *in
					k.Operands = operands
					is[in] = &k
					n.Instructions = append(n.Instructions, &k)
				}
			}
			return is[in]
		}
		return take(c.Root)
	}
	n.Instructions = slices.Clone(c.Params())
	n.Root = body(c, c.Params())
	return n
}

// keyOf is the key x of a comparator as a function of one element of every
// operand.
func keyOf(x *hlo.Instruction, comparator *hlo.Computation) *hlo.Computation {
	k := hlo.NewComputation(comparator.Name + ".key")
	is := map[*hlo.Instruction]*hlo.Instruction{}
	for i, p := range comparator.Params() {
		if i%2 == 0 {
			q := hlo.NewInstruction(p.Name, hlo.OpParameter, p.Shape)
			q.Attr.ParameterNumber = int64(i / 2)
			is[p], is[comparator.Params()[i+1]] = q, q
			k.Instructions = append(k.Instructions, q)
		}
	}
	var take func(in *hlo.Instruction) *hlo.Instruction
	take = func(in *hlo.Instruction) *hlo.Instruction {
		if n := is[in]; n != nil {
			return n
		}
		n := *in
		n.Operands = make([]*hlo.Instruction, len(in.Operands))
		for i, o := range in.Operands {
			n.Operands[i] = take(o)
		}
		is[in] = &n
		k.Instructions = append(k.Instructions, &n)
		return &n
	}
	k.Root = take(x)
	return k
}

// compareElements compares elements of an array: less, or greater if reverse.
func compareElements(n *Numerics, a *Array, reverse, total bool) func(i, j int) answer {
	if a.Contest == nil {
		switch {
		case a.I != nil && a.Undecided == nil && a.Type != hlo.U64:
			return func(i, j int) answer { return answer{yes: reverse && a.I[i] > a.I[j] || !reverse && a.I[i] < a.I[j]} }
		case a.Type.IsFloat() && total && n.points(a):
			keys := make([]int64, len(a.Re.C))
			for i, x := range a.Re.C {
				keys[i] = totalKey(x)
			}
			return func(i, j int) answer {
				return answer{yes: reverse && keys[i] > keys[j] || !reverse && keys[i] < keys[j]}
			}
		case a.Type.IsFloat() && !total && n.numbers(a):
			c := a.Re.C
			return func(i, j int) answer { return answer{yes: reverse && c[i] > c[j] || !reverse && c[i] < c[j]} }
		}
	}
	direction := "LT"
	if reverse {
		direction = "GT"
	}
	return func(i, j int) answer {
		return answerOf(n.Compare(direction, total, a.Type, a.At(i), a.At(j)))
	}
}

// points says whether the total order compares all elements by their bits, and
// numbers whether every other order compares them by their values: see
// Numerics.compare.
func (n *Numerics) points(a *Array) bool {
	f := floatTypes[a.Type]
	return !a.Re.any(func(x Num) bool { return f.unplaced(x) || n.Bounds && !f.point(x) })
}

func (n *Numerics) numbers(a *Array) bool {
	f := floatTypes[a.Type]
	return !n.Bounds || !a.Re.any(func(x Num) bool { return x.E != 0 || x.K&specials != 0 || f.slack(x) != 0 })
}

func (p *Plane) any(is func(Num) bool) bool {
	for i, c := range p.C {
		x := Num{C: c, E: at(p.E, i)}
		if p.K != nil {
			x.K = p.K[i]
		}
		if is(x) {
			return true
		}
	}
	return false
}

// topk is the k largest or smallest elements of the last dimension in order,
// with their places; equal elements in the order of their places. Floats are
// compared in the total order (TopkDecomposer, the CPU's topk library).
func (e *Evaluator) topk(in *hlo.Instruction, x *Array) (*Value, error) {
	k := in.Attr.K
	if len(x.Dims) == 0 || k < 0 || k > x.Dims[len(x.Dims)-1] {
		return nil, malformed(in, "k=%d of %v", k, x.Dims)
	}
	values, places, err := e.topK(x, k, in.Attr.Largest, in.Attr.IsStable)
	if err != nil {
		return nil, err
	}
	if !in.Shape.IsTuple() {
		return arrayValue(values), nil
	}
	if len(in.Shape.Elements) == 2 {
		places = e.num.as(in.Shape.Elements[1].Type, places)
	}
	return tupleValue(arrayValue(values), arrayValue(places)), nil
}

// topK is topk for any operand of rank one or more; places are s32.
func (e *Evaluator) topK(x *Array, k int64, largest, stable bool) (values, places *Array, err error) {
	last := len(x.Dims) - 1
	n := x.Dims[last]
	compare := compareElements(&e.num, x, largest, x.Type.IsFloat())
	s := &sorter{e: e, n: int(n), stable: stable, operands: []*Array{x, e.iota(hlo.S32, x.Dims, int64(last))}}
	s.less = func(i, j int) (answer, error) { return compare(i, j), nil }
	sorted, err := s.run()
	if err != nil {
		return nil, nil, err
	}
	size := slices.Clone(x.Dims)
	size[last] = k
	start := make([]int64, len(size))
	return sorted[0].slice(start, nil, size), sorted[1].slice(start, nil, size), nil
}

// sorter sorts rows of n elements of one or more operands together.
type sorter struct {
	e        *Evaluator
	operands []*Array // of the same dimensions; the last one is sorted
	n        int
	stable   bool
	// less says whether element i of the operands comes before element j of
	// the same row (indices into the whole arrays).
	less func(i, j int) (answer, error)

	// numbers are the keys of a comparison of floats by number; nil for other
	// comparisons.
	numbers *Plane

	contest Contest // of all comparisons of a row
}

func (s *sorter) run() ([]*Array, error) {
	total := s.operands[0].Len()
	out := make([]*Array, len(s.operands))
	index := make([]int32, total)
	for i := range index {
		index[i] = int32(i)
	}
	if s.n < 2 || total == 0 {
		copy(out, s.operands)
		return out, nil
	}
	log := int64(1)
	for m := s.n; m > 1; m /= 2 {
		log++
	}
	if err := s.e.spend(int64(total) * log); err != nil {
		return nil, err
	}
	scratch := make([]int32, s.n)
	var open []openRow
	var contests []Contest // per row, when any
	for from := 0; from < total; from += s.n {
		row := index[from : from+s.n]
		s.contest = 0
		if err := s.e.ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.mergeSort(row, scratch); err != nil {
			return nil, err
		}
		groups, ok, err := s.groups(row)
		if err != nil {
			return nil, err
		}
		ok = ok && !s.mixedNaN(from)
		if !ok || groups != nil {
			open = append(open, openRow{from, groups, !ok})
		}
		if s.contest != 0 {
			if contests == nil {
				contests = make([]Contest, total/s.n)
			}
			contests[from/s.n] = s.contest
		}
	}
	for i, x := range s.operands {
		out[i] = x.Permute(x.Dims, index)
	}
	budget := pairLimit
	for _, o := range open {
		if err := s.settle(out, index, o, &budget); err != nil {
			return nil, err
		}
	}
	for r, c := range contests {
		if c == 0 {
			continue
		}
		for _, x := range out {
			column := grow(&x.Contest, total)[r*s.n : (r+1)*s.n]
			for i := range column {
				column[i] |= c
			}
		}
	}
	return out, nil
}

// mixedNaN says whether the keys of the row at from are NaNs and numbers, which
// a comparison other than in the total order does not order.
func (s *sorter) mixedNaN(from int) bool {
	if s.numbers == nil {
		return false
	}
	nans := 0
	for _, x := range s.numbers.C[from : from+s.n] {
		if x != x {
			nans++
		}
	}
	return nans != 0 && nans != s.n
}

// openRow is a row whose order is not fully determined: by free groups of
// equal elements [begin, end), or because comparisons are undecided or
// inconsistent.
type openRow struct {
	from    int
	groups  [][2]int
	unknown bool
}

func (s *sorter) before(i, j int32) (bool, error) {
	p, err := s.less(int(i), int(j))
	s.contest |= p.contest
	return p.yes, err
}

func (s *sorter) mergeSort(row, scratch []int32) error {
	n := len(row)
	if n < 2 {
		return nil
	}
	if n <= 8 {
		for i := 1; i < n; i++ {
			x := row[i]
			j := i
			for ; j > 0; j-- {
				less, err := s.before(x, row[j-1])
				if err != nil {
					return err
				}
				if !less {
					break
				}
				row[j] = row[j-1]
			}
			row[j] = x
		}
		return nil
	}
	half := n / 2
	if err := s.mergeSort(row[:half], scratch); err != nil {
		return err
	}
	if err := s.mergeSort(row[half:], scratch); err != nil {
		return err
	}
	left := scratch[:copy(scratch, row[:half])]
	right := row[half:]
	at := 0
	for len(left) > 0 && len(right) > 0 {
		less, err := s.before(right[0], left[0])
		if err != nil {
			return err
		}
		if less {
			row[at], right = right[0], right[1:]
		} else {
			row[at], left = left[0], left[1:]
		}
		at++
	}
	copy(row[at:], left)
	return nil
}

// groups looks at a sorted row: it returns the groups of equal elements that
// an unstable sort may order otherwise, and false if the order of the row is
// not determined by decided, consistent comparisons.
//
// A row is determined if each element of a group of equal ones is decided to
// be equal to the first of the group and less than the first of the next
// group, and the first is less than each of the next.
func (s *sorter) groups(row []int32) (free [][2]int, ok bool, err error) {
	// order is -1, 0, 1 for less, equal, greater; 2 for undecided.
	order := func(i, j int32) (int, error) {
		l, err := s.less(int(i), int(j))
		if err != nil {
			return 0, err
		}
		g, err := s.less(int(j), int(i))
		if err != nil {
			return 0, err
		}
		s.contest |= l.contest | g.contest
		switch {
		case l.undecided || g.undecided || l.yes && g.yes:
			return 2, nil
		case l.yes:
			return -1, nil
		case g.yes:
			return 1, nil
		}
		return 0, nil
	}
	begin, previous := 0, -1 // of the current group and the one before
	for i := 1; i <= len(row); i++ {
		next := i == len(row)
		if !next {
			c, err := order(row[begin], row[i])
			if err != nil {
				return nil, false, err
			}
			switch c {
			case 0:
				if i-begin > 1 {
					if c, err := order(row[i-1], row[i]); err != nil || c != 0 {
						return nil, false, err
					}
				}
				if previous >= 0 {
					if c, err := order(row[previous], row[i]); err != nil || c != -1 {
						return nil, false, err
					}
				}
				continue
			case -1:
				for k := begin + 1; k < i; k++ {
					if c, err := order(row[k], row[i]); err != nil || c != -1 {
						return nil, false, err
					}
				}
			default:
				return nil, false, nil
			}
		}
		if i-begin > 1 && !s.stable {
			free = append(free, [2]int{begin, i})
		}
		begin, previous = i, begin
	}
	return free, true, nil
}

// settle writes the elements of an open row as unions over the elements that
// may stand there.
func (s *sorter) settle(out []*Array, index []int32, o openRow, budget *int) error {
	if !o.unknown {
		for _, g := range o.groups {
			for i, x := range s.operands {
				first := int(index[o.from+g[0]])
				u := x.At(first)
				same := true
				for k := g[0] + 1; k < g[1]; k++ {
					y := x.At(int(index[o.from+k]))
					if !sameScalar(x.At(first), y) {
						same = false
						u = s.e.num.orderFree(x.Type, u, y)
					}
				}
				if same {
					continue
				}
				for k := g[0]; k < g[1]; k++ {
					if !s.e.num.Bounds { // exact mode keeps the order of a stable sort
						u = out[i].At(o.from + k)
						u.Contest |= OrderDependent
					}
					out[i].Set(o.from+k, u)
				}
			}
		}
		return nil
	}
	*budget -= s.n * s.n
	if *budget < 0 {
		for _, x := range out {
			for k := range s.n {
				x.undecide(o.from+k, 0)
			}
		}
		return nil
	}
	lo, hi, consistent, err := s.places(o.from)
	if err != nil {
		return err
	}
	consistent = consistent && !s.mixedNaN(o.from)
	for i, x := range s.operands {
		for k := range s.n {
			var u Scalar
			n := 0
			for j := range s.n {
				if lo[j] > k || hi[j] < k {
					continue
				}
				y := x.At(o.from + j)
				if n > 0 && !sameScalar(u, y) {
					y = s.e.num.Select(Scalar{Undecided: true}, x.Type, u, y)
				}
				u = y
				n++
			}
			if n == 0 || !consistent {
				out[i].undecide(o.from+k, OrderDependent)
				continue
			}
			out[i].Set(o.from+k, u)
		}
	}
	return nil
}

// places are the first and the last place that each element of the row at from
// may take: behind all elements that are surely less and before all that are
// surely greater. It reports false for a comparator that is no strict weak
// order on the row.
func (s *sorter) places(from int) (lo, hi []int, consistent bool, err error) {
	n := s.n
	lo, hi = make([]int, n), make([]int, n)
	for i := range hi {
		hi[i] = n - 1
	}
	open := make([]bool, n) // some comparison of the element is undecided
	var equal [][2]int
	consistent = true
	for i := range n {
		for j := i + 1; j < n; j++ {
			l, err := s.less(from+i, from+j)
			if err != nil {
				return nil, nil, false, err
			}
			g, err := s.less(from+j, from+i)
			if err != nil {
				return nil, nil, false, err
			}
			less, greater := !l.undecided && l.yes, !g.undecided && g.yes
			switch {
			case less && greater:
				consistent = false
			case less:
				lo[j]++
				hi[i]--
			case greater:
				lo[i]++
				hi[j]--
			case l.undecided || g.undecided:
				open[i], open[j] = true, true
			default:
				equal = append(equal, [2]int{i, j})
			}
		}
	}
	// Equal elements of a strict weak order stand alike to all others. This is
	// looked at where everything about both is decided, and only there a
	// stable sort is taken to keep their order.
	strictLo, strictHi := slices.Clone(lo), slices.Clone(hi)
	for _, p := range equal {
		i, j := p[0], p[1]
		if open[i] || open[j] {
			continue
		}
		if strictLo[i] != strictLo[j] || strictHi[i] != strictHi[j] {
			consistent = false
		}
		if s.stable {
			lo[j]++
			hi[i]--
		}
	}
	return lo, hi, consistent, nil
}
