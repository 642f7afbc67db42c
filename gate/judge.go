package gate

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
)

// question is everything that is known about one input stream under one set of
// flags.
type question struct {
	stream, flags string
	reference     *eval.Value // nil if the reference has none
	base, head    side
	// want are the case's expected values, for its own inputs only.
	want      []*hlo.Literal
	tolerance float64
	// firm are argued semantics that count like any other.
	firm eval.Contest
	// sources says where the outputs come from; nil if unknown.
	sources []source
}

// answer is the judgement of one question.
type answer struct {
	flags                string
	base, head           Behaviour
	judged, undecided    int64
	differing            int64 // base and head differ
	undecidedDiffering   int64
	observations         []observation
	samples              map[sampleKey]*sample
	legal                []LegalDifference
	unstable             bool   // executions of one side differed
	repeated             bool   // the same results under the other flags: nothing is counted twice
	wantDisputed, detail string // want is outside the reference's legal set, where
	plain                string // detail without the words of what broke
}

// observation is what is wrong in one leaf of the result, by class and status.
type observation struct {
	class    Class
	status   Status
	stream   string
	flags    string
	output   string
	elements int64
	wrong    int64
	first    First
	contest  eval.Contest
	base     Behaviour
	head     Behaviour
	unstable bool
	detail   string
	// got is the result of the first execution that was wrong: head's, or base's if
	// head is right.
	got []*hlo.Literal
	// unwritten are wrong elements that hold the poison of fresh memory.
	unwritten int64
	// baseRight says that base ran and was legal throughout: only then may the
	// observation block.
	baseRight bool
}

// Unwritten is the nature of a result that holds the bytes of fresh memory.
const Unwritten = "output never written"

// judge compares what the builds did with the reference.
func judge(q question) answer {
	a := answer{flags: q.flags, samples: map[sampleKey]*sample{}}
	a.base, a.head = q.base.behaviour, q.head.behaviour
	a.unstable = q.base.unstable() || q.head.unstable()
	a.detail, a.plain = joinDetails(q.base, q.head), joinDetails(q.base.plain(), q.head.plain())
	var leaves []*eval.Array
	if q.reference != nil {
		leaves = Leaves(q.reference)
		a.wantDisputed = disputeWant(leaves, q.want, q.tolerance)
	}
	var baseWrong, headWrong tally
	switch {
	case !q.base.ran() && !q.head.ran():
	case q.reference == nil:
		a.differing = differing(q.base, q.head)
		if q.base.ran() {
			a.base = Undecided
		}
		if q.head.ran() {
			a.head = Undecided
		}
	default:
		for o, ref := range leaves {
			l := leafJudge{q: q, output: o, ref: ref, answer: &a, base: &baseWrong, head: &headWrong}
			l.run()
		}
		if q.base.ran() {
			a.base = baseWrong.behaviour(q.base, a.judged)
		}
		if q.head.ran() {
			a.head = headWrong.behaviour(q.head, a.judged)
		}
	}
	if b := breakage(q, a.base, a.head); b != nil {
		a.observations = append(a.observations, *b)
	}
	for i := range a.observations {
		o := &a.observations[i]
		o.stream, o.flags, o.base, o.head = q.stream, q.flags, a.base, a.head
		o.baseRight = a.base == Right || a.base == Undecided && (a.head == Crashed || a.head == Hung)
		if o.class == Miscompile || o.class == NumericDegradation {
			if status := o.status; status == New && a.head == Flaky || status == Fixed && a.base == Flaky {
				o.class = Nondeterminism
			}
		}
	}
	return a
}

func joinDetails(base, head side) string {
	switch {
	case base.detail == head.detail:
		return base.detail
	case base.detail == "":
		return "head: " + head.detail
	case head.detail == "":
		return "base: " + base.detail
	}
	return "base: " + base.detail + "; head: " + head.detail
}

// breakage is the observation for a crash or hang, nil if there is none.
func breakage(q question, base, head Behaviour) *observation {
	if !q.base.broke() && !q.head.broke() {
		return nil
	}
	o := &observation{first: First{At: []int64{}}, detail: joinDetails(q.base, q.head), elements: 0, wrong: 0}
	culprit := q.head
	switch {
	case q.base.broke() && q.head.broke():
		o.status = PreExisting
	case q.base.broke():
		o.status, culprit = Fixed, q.base
	case base == Wrong || base == Flaky:
		o.status = PreExisting
	default:
		o.status = New
	}
	o.class = Crash
	if culprit.behaviour == Hung {
		o.class = Hang
	}
	o.first.Base, o.first.Head = orRan(q.base), orRan(q.head)
	return o
}

func orRan(s side) string {
	if s.ran() {
		return "ran"
	}
	return s.detail
}

// differing counts the elements on which the first executions of two sides
// differ, where there is no reference.
func differing(base, head side) int64 {
	if !base.ran() || !head.ran() {
		return 0
	}
	n := int64(0)
	b, h := base.runs[0].leaves, head.runs[0].leaves
	for o := range min(len(b), len(h)) {
		if !bytes.Equal(b[o].Raw, h[o].Raw) {
			n += countDiffering(b[o], h[o])
		}
	}
	return n
}

func countDiffering(a, b *hlo.Literal) int64 {
	size := a.Shape.Type.Bytes()
	n := int64(0)
	for i := 0; i+size <= min(len(a.Raw), len(b.Raw)); i += size {
		if !bytes.Equal(a.Raw[i:i+size], b.Raw[i:i+size]) {
			n++
		}
	}
	return n
}

// tally counts the executions of a side that were wrong somewhere.
type tally struct{ wrong map[int]bool }

func (t *tally) mark(run int) {
	if t.wrong == nil {
		t.wrong = map[int]bool{}
	}
	t.wrong[run] = true
}

func (t *tally) behaviour(s side, judged int64) Behaviour {
	switch {
	case len(t.wrong) == len(s.runs):
		return Wrong
	case len(t.wrong) > 0:
		return Flaky
	case judged == 0:
		return Undecided
	}
	return Right
}

// leafJudge judges one leaf of the result.
type leafJudge struct {
	q          question
	output     int
	ref        *eval.Array
	answer     *answer
	base, head *tally

	found  map[foundKey]*observation
	order  []foundKey
	judged int64
}

type foundKey struct {
	class  Class
	status Status
}

// values are the arrays of one side for the leaf, one per distinct execution;
// nil if the shape is not the reference's.
func (l *leafJudge) values(s side) ([]*eval.Array, string) {
	var out []*eval.Array
	for _, r := range s.runs {
		if l.output >= len(r.leaves) {
			return nil, fmt.Sprintf("the result has %d leaves", len(r.leaves))
		}
		lit := r.leaves[l.output]
		want := hlo.ArrayShape(l.ref.Type, l.ref.Dims...)
		if !lit.Shape.Compatible(want) {
			return nil, fmt.Sprintf("the result has type %s", lit.Shape)
		}
		out = append(out, eval.FromLiteral(lit).Array)
	}
	return out, ""
}

func (l *leafJudge) run() {
	n := l.ref.Len()
	if l.ref.Sizes != nil {
		// Elements behind the run-time size have no value, and what PJRT returns
		// for dynamic shapes differs from build to build.
		l.answer.undecided += int64(n)
		return
	}
	base, baseShape := l.values(l.q.base)
	head, headShape := l.values(l.q.head)
	if baseShape != "" || headShape != "" {
		l.wrongShape(baseShape, headShape)
		return
	}
	l.found = map[foundKey]*observation{}
	from := l.q.sourceOf(l.output)
	key := sampleKey{from.operation, l.ref.Type.String(), l.q.stream}
	s := l.answer.samples[key]
	if s == nil {
		s = &sample{}
	}
	legal := LegalDifference{Output: fmt.Sprint(l.output), Stream: l.q.stream, Flags: l.q.flags, Rule: from.rule}
	for i := range n {
		vb, firstBad := l.verdict(base, i, l.base)
		vh, headBad := l.verdict(head, i, l.head)
		same := true
		if len(base) > 0 && len(head) > 0 {
			same = sameValue(l.ref.Type, base[0].At(i), head[0].At(i))
			if !same {
				l.answer.differing++
			}
		}
		if vb == eval.Undecided || vh == eval.Undecided {
			l.answer.undecided++
			if !same {
				l.answer.undecidedDiffering++
			}
			continue
		}
		l.judged++
		if vb == eval.In && vh == eval.In {
			l.compareAccuracy(s, base, head, i, same)
			if !same {
				l.compareLegal(&legal, base, head, i)
			}
			l.checkTolerance(base, head, i)
			continue
		}
		l.record(i, base, head, vb, vh, firstBad, headBad)
	}
	l.answer.judged += l.judged
	if s.elements > 0 {
		l.answer.samples[key] = s
	}
	if legal.Differing > 0 {
		if from.operation == "exact" {
			legal.Rule = "a choice that the semantics leaves open"
			if legal.Bound > 0 {
				legal.Rule = "a subnormal may be flushed to zero"
			}
		}
		l.answer.legal = append(l.answer.legal, legal)
	}
	for _, o := range l.folded() {
		o.elements = l.judged
		if o.unwritten > 0 && o.detail == "" {
			o.detail = fmt.Sprintf("%d of %d elements of output %s outside the legal set; %d of them were never written: they hold the bytes of fresh memory", o.wrong, o.elements, o.output, o.unwritten)
		}
		l.answer.observations = append(l.answer.observations, *o)
	}
}

// folded are the observations of a leaf, at most one for each side beside the
// contested ones, in the terms of that side alone: what replay shows of it. Values
// of every distance come from one wrong computation. Where both sides are wrong on
// common elements, what is wrong on one of them beside those is the same fault with
// other values, and an error within the slack of want belongs to the larger ones
// that want speaks against: the observation counts head's wrong elements.
func (l *leafJudge) folded() []*observation {
	both := slices.ContainsFunc(l.order, func(k foundKey) bool { return k.status == PreExisting })
	hosts := map[Status]*observation{}
	var out []*observation
	worst := NumericDegradation
	for _, k := range l.order {
		o := l.found[k]
		if k.status == Contested {
			out = append(out, o)
			continue
		}
		if both {
			if o.status = PreExisting; k.class == Miscompile {
				worst = Miscompile
			}
			if k.status == Fixed {
				continue
			}
		}
		to := hosts[o.status]
		if to == nil {
			hosts[o.status] = o
			out = append(out, o)
			continue
		}
		to.wrong += o.wrong
		to.unwritten += o.unwritten
		to.contest |= o.contest
		to.unstable = to.unstable || o.unstable
		if o.class == Miscompile {
			to.class = Miscompile
		}
	}
	if both && worst == Miscompile {
		hosts[PreExisting].class = Miscompile
	}
	return out
}

// verdict is Out if any execution is outside, and which one; In for a side
// that did not run.
func (l *leafJudge) verdict(runs []*eval.Array, i int, t *tally) (eval.Verdict, int) {
	v, bad := eval.In, 0
	for k, r := range runs {
		switch l.ref.Legal(i, r.At(i)) {
		case eval.Undecided:
			return eval.Undecided, 0
		case eval.Out:
			t.mark(k)
			if v == eval.In {
				v, bad = eval.Out, k
			}
		}
	}
	return v, bad
}

// record files one element that is outside on at least one side.
func (l *leafJudge) record(i int, base, head []*eval.Array, vb, vh eval.Verdict, badBase, badHead int) {
	ref := l.ref.At(i)
	var key foundKey
	wrong := ref
	switch {
	case vb == eval.In:
		key.status = New
		wrong = head[badHead].At(i)
	case vh == eval.In:
		key.status = Fixed
		wrong = base[badBase].At(i)
		if len(head) == 0 { // head did not run: base's fault is not repaired
			key.status = PreExisting
		}
	default:
		key.status = PreExisting
		b, h := base[badBase].At(i), head[badHead].At(i)
		wrong = h
		if sameValue(l.ref.Type, b, h) && restsOnBounds(l.ref.Type, ref, h) && !l.wantSides(i, h) {
			key.status = ReferenceDisputed
		}
	}
	if len(base) == 0 && key.status == New && l.q.base.broke() {
		key.status = PreExisting // base never got that far
	}
	key.class = classOf(l.ref.Type, ref, wrong)
	if ref.Contest&^l.q.firm != 0 {
		key.status = Contested
	}
	l.file(key, i, base, head, badBase, badHead, ref)
}

func (l *leafJudge) file(key foundKey, i int, base, head []*eval.Array, badBase, badHead int, ref eval.Scalar) *observation {
	o := l.found[key]
	if o == nil {
		o = &observation{class: key.class, status: key.status, output: fmt.Sprint(l.output)}
		o.first = First{At: unravel(i, l.ref.Dims), Legal: l.ref.LegalSet(i)}
		o.first.Base = shown(l.ref.Type, base, i, badBase, l.q.base)
		o.first.Head = shown(l.ref.Type, head, i, badHead, l.q.head)
		if key.status != Fixed && badHead < len(l.q.head.runs) {
			o.got = l.q.head.runs[badHead].leaves
		} else if badBase < len(l.q.base.runs) {
			o.got = l.q.base.runs[badBase].leaves
		}
		l.found[key] = o
		l.order = append(l.order, key)
	}
	o.wrong++
	if l.unwritten(l.q.base, i, badBase) && key.status != New || l.unwritten(l.q.head, i, badHead) && key.status != Fixed {
		o.unwritten++
	}
	o.contest |= ref.Contest
	o.unstable = o.unstable || varies(l.ref.Type, base, i) || varies(l.ref.Type, head, i)
	return o
}

// unwritten reports whether an element is made of the bytes that fresh memory
// is filled with (poison): no program asks for them.
func (l *leafJudge) unwritten(s side, i, run int) bool {
	if run >= len(s.runs) || l.output >= len(s.runs[run].leaves) {
		return false
	}
	lit := s.runs[run].leaves[l.output]
	size := lit.Shape.Type.Bytes()
	if size < 2 || (i+1)*size > len(lit.Raw) {
		return false // one byte may be anything
	}
	return !slices.ContainsFunc(lit.Raw[i*size:(i+1)*size], func(b byte) bool { return b != poisonByte })
}

func varies(t hlo.PrimitiveType, runs []*eval.Array, i int) bool {
	for _, r := range runs[min(1, len(runs)):] {
		if !sameValue(t, runs[0].At(i), r.At(i)) {
			return true
		}
	}
	return false
}

// shown renders what a side gave.
func shown(t hlo.PrimitiveType, runs []*eval.Array, i, which int, s side) string {
	switch {
	case len(runs) == 0:
		return s.detail
	case varies(t, runs, i):
		return variesText
	}
	return eval.ScalarString(t, runs[which].At(i))
}

// wrongShape files a result that has not even the right type.
func (l *leafJudge) wrongShape(base, head string) {
	n := int64(l.ref.Len())
	mark := func(t *tally, s side, shape string) {
		if shape != "" {
			for k := range s.runs {
				t.mark(k)
			}
		}
	}
	mark(l.base, l.q.base, base)
	mark(l.head, l.q.head, head)
	o := observation{class: Miscompile, output: fmt.Sprint(l.output), elements: n, wrong: n}
	o.first = First{At: []int64{}, Base: base, Head: head, Legal: hlo.ArrayShape(l.ref.Type, l.ref.Dims...).String()}
	switch {
	case base == "":
		o.status = New
	case head == "":
		o.status = Fixed
	default:
		o.status = PreExisting
	}
	l.answer.judged += n
	l.answer.observations = append(l.answer.observations, o)
}

// distance is |got - c| in the reference's precision.
func distance(c, got eval.Num) float64 { return math.Abs((got.C - c.C) + (got.Lo - c.Lo)) }

// checkTolerance files legal values that miss a stricter want. That is the
// opinion of the case's author against the legal-variation model: contested.
func (l *leafJudge) checkTolerance(base, head []*eval.Array, i int) {
	if l.q.tolerance == 0 || l.output >= len(l.q.want) || l.ref.Re == nil || l.ref.Im != nil {
		return
	}
	want := eval.LiteralScalar(l.q.want[l.output], int64(i)).Re
	misses := func(runs []*eval.Array, t *tally) bool {
		bad := false
		for k, r := range runs {
			got := r.At(i).Re
			if finite(want.C) && finite(got.C) && distance(want, got) > l.q.tolerance*math.Abs(want.C) {
				t.mark(k)
				bad = true
			}
		}
		return bad
	}
	b, h := misses(base, l.base), misses(head, l.head)
	if b || h {
		o := l.file(foundKey{NumericDegradation, Contested}, i, base, head, 0, 0, l.ref.At(i))
		o.detail = "legal, but outside the tolerance that the case declares for its want"
	}
}

// wantSides reports whether the case's want contradicts the value, too.
func (l *leafJudge) wantSides(i int, got eval.Scalar) bool {
	if l.output >= len(l.q.want) || l.answer.wantDisputed != "" {
		return false
	}
	want := eval.LiteralScalar(l.q.want[l.output], int64(i))
	if l.ref.Re == nil || l.ref.Im != nil || !finite(want.Re.C) || !finite(got.Re.C) {
		return !sameValue(l.ref.Type, want, got)
	}
	return distance(want.Re, got.Re) > l.q.tolerance*math.Abs(want.Re.C)
}

// DisputeWant says where a case's want is outside the legal sets of a value, ""
// if nowhere.
func DisputeWant(v *eval.Value, want []*hlo.Literal, tolerance float64) string {
	return disputeWant(Leaves(v), want, tolerance)
}

// disputeWant says where the case's own want is outside the reference's legal
// sets, "" if nowhere: then one of the two is wrong, and nothing that rests on
// them may block.
func disputeWant(leaves []*eval.Array, want []*hlo.Literal, tolerance float64) string {
	for o, w := range want {
		if o >= len(leaves) || !w.Shape.Compatible(hlo.ArrayShape(leaves[o].Type, leaves[o].Dims...)) {
			return fmt.Sprintf("want %d has type %s, which the program does not return", o, w.Shape)
		}
		ref := leaves[o]
		for i := range ref.Len() {
			s := eval.LiteralScalar(w, int64(i))
			if ref.Legal(i, s) != eval.Out || nearWant(ref, i, s, tolerance) {
				continue
			}
			return fmt.Sprintf("want %d%v is %s, but the reference allows %s", o, unravel(i, ref.Dims), eval.ScalarString(ref.Type, s), ref.LegalSet(i))
		}
	}
	return ""
}

func nearWant(ref *eval.Array, i int, want eval.Scalar, tolerance float64) bool {
	if ref.Re == nil || ref.Im != nil {
		return false
	}
	c := ref.At(i).Re
	return finite(c.C) && finite(want.Re.C) && distance(c, want.Re) <= tolerance*math.Abs(want.Re.C)+c.E
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// sameValue compares exact scalars; all NaNs are one, zeros differ by sign.
func sameValue(t hlo.PrimitiveType, a, b eval.Scalar) bool {
	same := func(x, y eval.Num) bool {
		return x.C == y.C && x.Lo == y.Lo && math.Signbit(x.C) == math.Signbit(y.C) || math.IsNaN(x.C) && math.IsNaN(y.C)
	}
	switch {
	case t.IsComplex():
		return same(a.Re, b.Re) && same(a.Im, b.Im)
	case t.IsFloat():
		return same(a.Re, b.Re)
	}
	return a.I == b.I
}

// restsOnBounds reports whether only an error bound that is too narrow stands
// between the reference and a value: finite against finite, and not exact.
func restsOnBounds(t hlo.PrimitiveType, ref, got eval.Scalar) bool {
	part := func(r, g eval.Num) bool { return r.E > 0 && finite(r.C) && finite(g.C) }
	switch {
	case t.IsComplex():
		return part(ref.Re, got.Re) && part(ref.Im, got.Im)
	case t.IsFloat():
		return part(ref.Re, got.Re)
	}
	return false
}

// classOf tells an inaccurate value from a wrong one. A finite float whose
// error leaves at least half of the significand's bits right, or is within
// 2^(p/2) error budgets (p the precision; the second rule is the first one for
// results that cancel, where a budget and not the value is the yardstick), is
// numeric degradation: what a worse approximation gives. Everything else, and
// any mismatch of NaN, infinity or sign of zero, is a miscompile. A subnormal
// that went astray (contest mark) counts as accuracy, too.
func classOf(t hlo.PrimitiveType, ref, got eval.Scalar) Class {
	if !t.IsFloat() && !t.IsComplex() {
		return Miscompile
	}
	near := func(r, g eval.Num) bool {
		if sameValue(hlo.F64, eval.Scalar{Re: r}, eval.Scalar{Re: g}) {
			return true
		}
		if !finite(r.C) || !finite(g.C) {
			return false
		}
		if ref.Contest&eval.Denormal != 0 {
			return true
		}
		half := math.Ldexp(1, (t.Real().Format().MantissaBits+1)/2)
		d := distance(r, g)
		return d > 0 && (d*half <= math.Abs(r.C) || d <= half*r.E)
	}
	if near(ref.Re, got.Re) && (!t.IsComplex() || near(ref.Im, got.Im)) {
		return NumericDegradation
	}
	return Miscompile
}

// unravel turns a row-major index into one index per dimension.
func unravel(i int, dims []int64) []int64 {
	at := make([]int64, len(dims))
	for d := len(dims) - 1; d >= 0; d-- {
		at[d] = int64(i) % dims[d]
		i /= int(dims[d])
	}
	return at
}
