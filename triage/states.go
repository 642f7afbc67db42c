package triage

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// stateRoutes are the ways of executing a state of a trail as it stands, with
// as few passes as the compiler can do without, in the order in which they are
// tried. Of the states of the handed cases, on builds of three ages, the first
// ran all before layout assignment and reshape decomposition, the second all
// behind them, fusions included. Code generation alone (run_backend_only) is no
// route: without copy insertion, loops compute wrong values there.
var stateRoutes = []string{lowering, "copy-insertion,flatten-call-graph"}

// Executor executes the states of a trail on an executable build: the second
// witness of a bisection. A state that the build cannot compile or dies of says
// nothing.
type Executor struct {
	Compiler Compiler
	Build    *builds.Build
	Trail    *Trail
	Inputs   []*hlo.Literal
	// Options are the flags under which the program is wrong.
	Options map[string]string
	Eval    eval.Options
	// Repeat is the number of executions of each state; faults that show only
	// sometimes need many.
	Repeat  int
	Timeout time.Duration

	runs  map[[2]int]*stateRun // by state and route
	legal map[int]stateLegal
}

type stateRun struct {
	distinct []worker.Distinct
	why      string // nothing could be learnt
}

type stateLegal struct {
	leaves []*eval.Array
	err    error
}

// program is the number of the state before all passes.
const program = -1

// module is state i, nil if it could not be read.
func (e *Executor) module(i int) *hlo.Module {
	if i == program {
		return e.Trail.Before
	}
	return e.Trail.States[i].Module
}

// legalOf are the legal sets of state i.
func (e *Executor) legalOf(ctx context.Context, i int) ([]*eval.Array, error) {
	if l, ok := e.legal[i]; ok {
		return l.leaves, l.err
	}
	args := literalValues(e.Inputs)
	v, err := eval.Run(ctx, e.module(i), args, e.Eval)
	l := stateLegal{err: err}
	if err == nil {
		l.leaves = leaves(v)
	}
	if e.legal == nil {
		e.legal = map[int]stateLegal{}
	}
	e.legal[i] = l
	return l.leaves, err
}

// run executes a state by a route, once.
func (e *Executor) run(ctx context.Context, i, route int) *stateRun {
	key := [2]int{i, route}
	if r := e.runs[key]; r != nil {
		return r
	}
	r := e.execute(ctx, e.module(i), stateRoutes[route])
	if ctx.Err() == nil {
		if e.runs == nil {
			e.runs = map[[2]int]*stateRun{}
		}
		e.runs[key] = r
	}
	return r
}

func (e *Executor) execute(ctx context.Context, m *hlo.Module, passes string) *stateRun {
	if m == nil {
		return &stateRun{why: "the state cannot be read"}
	}
	data, err := hlo.MarshalModule(m)
	if err != nil {
		return &stateRun{why: err.Error()}
	}
	r := worker.Request{Program: data, Format: worker.HLO, Options: maps.Clone(e.Options), Repeat: max(e.Repeat, 2), Timeout: e.Timeout}
	if r.Options == nil {
		r.Options = map[string]string{}
	}
	r.Options["xla_enable_hlo_passes_only"] = passes
	r.Inputs = [][]worker.Array{workerArrays(e.Inputs)}
	out := e.Compiler.Do(ctx, e.Build, r)
	switch {
	case out.Status != worker.OK:
		return &stateRun{why: "cannot be compiled as it stands: " + statusText(out)}
	case out.Result.Sets[0].Failure != nil:
		return &stateRun{why: "cannot be run: " + fmt.Sprint(out.Result.Sets[0].Failure.Code)}
	}
	return &stateRun{distinct: out.Result.Sets[0].Distinct}
}

// StateVerdict is what the execution of a state shows.
type StateVerdict struct {
	// Standing is Same (legal), Guilty (a value is outside its legal set) or
	// Unknown.
	Standing Standing
	// Runs executions were made, Wrong of them gave a wrong value.
	Runs, Wrong int
	// Detail says why it is Unknown.
	Detail string
}

func (r *stateRun) verdict(legal []*eval.Array) StateVerdict {
	v := StateVerdict{Standing: Same}
	if r.why != "" {
		return StateVerdict{Standing: Unknown, Detail: r.why}
	}
	for _, d := range r.distinct {
		outside, why := compareRun(d.Outputs, legal)
		if why != "" {
			return StateVerdict{Standing: Unknown, Detail: why}
		}
		v.Runs += d.Count
		if outside {
			v.Wrong += d.Count
			v.Standing = Guilty
		}
	}
	return v
}

// judge executes state i against legal sets. One route by which it is right is
// enough: by another, a pass may go wrong that the route cannot do without.
func (e *Executor) judge(ctx context.Context, i int, legal []*eval.Array) StateVerdict {
	var best StateVerdict
	for route := range stateRoutes {
		v := e.run(ctx, i, route).verdict(legal)
		if v.Standing == Same {
			return v
		}
		if route == 0 || best.Standing == Unknown {
			best = v
		}
	}
	return best
}

// Testify executes the states before and after a step (numbers of states, -1
// the program itself), both against the legal sets before it, by the same route
// where one works for both.
func (e *Executor) Testify(ctx context.Context, before, after int) (t Testimony, b, a StateVerdict) {
	legal, err := e.legalOf(ctx, before)
	if err != nil {
		b = StateVerdict{Standing: Unknown, Detail: err.Error()}
		return Silent, b, StateVerdict{Standing: Unknown}
	}
	settled := false
	for route := range stateRoutes {
		b, a = e.run(ctx, before, route).verdict(legal), e.run(ctx, after, route).verdict(legal)
		if settled = b.Standing == Same && a.Standing != Unknown; settled {
			break
		}
	}
	if !settled {
		b, a = e.judge(ctx, before, legal), e.judge(ctx, after, legal)
	}
	switch {
	case b.Standing != Same || a.Standing == Unknown:
		t = Silent
	case a.Standing == Guilty:
		t = Agrees
	default:
		t = Disagrees
	}
	return t, b, a
}

// Turn is where the program's value goes wrong when its states are executed one
// by one.
type Turn struct {
	// Found says that there is such a place: state Good (-1: the program) is
	// right and state Bad is wrong, and those between them say nothing.
	Found     bool
	Good, Bad int
	// First and Last are what the program itself and its last state show.
	First, Last StateVerdict
	// GoodRuns is the number of executions in which state Good was right.
	GoodRuns int
	// States were executed.
	States int
}

// Between counts the states that say nothing.
func (t *Turn) Between() int { return t.Bad - t.Good - 1 }

// Turn looks for the step behind which the value is wrong, by halving: the
// program has to be right and the last state that can be executed wrong.
func (e *Executor) Turn(ctx context.Context) Turn {
	legal, err := e.legalOf(ctx, program)
	if err != nil {
		return Turn{First: StateVerdict{Standing: Unknown, Detail: err.Error()}}
	}
	seen := map[int]StateVerdict{}
	look := func(i int) StateVerdict {
		v, ok := seen[i]
		if !ok {
			v = e.judge(ctx, i, legal)
			seen[i] = v
		}
		return v
	}
	t := Turn{Good: program, Bad: len(e.Trail.States) - 1}
	t.First = look(program)
	for ; t.Bad > program; t.Bad-- {
		if t.Last = look(t.Bad); t.Last.Standing != Unknown {
			break
		}
	}
	t.Found = t.First.Standing == Same && t.Last.Standing == Guilty && ctx.Err() == nil
	for t.Found && t.Bad-t.Good > 1 {
		i, ok := e.middle(t.Good, t.Bad, func(i int) bool { return look(i).Standing != Unknown })
		if !ok {
			break
		}
		if look(i).Standing == Same {
			t.Good = i
		} else {
			t.Bad = i
		}
	}
	t.GoodRuns, t.States = seen[t.Good].Runs, len(seen)
	return t
}

// Admission is where the values that the build computed, and that are wrong for
// the program, became legal.
type Admission struct {
	// Standing is Guilty if they are legal for the last state: State is the first
	// of those at its end for which they are, and the step that led to it let them
	// in. Same if they are wrong for the last state, too: no pass asked for them.
	// Unknown if the legal sets do not tell.
	Standing Standing
	State    int
	// Where is the first of those elements, Before and After its legal sets.
	Where Divergence
}

// Admitted holds what the build computed for the program against the legal set
// of every state. Per-pass validation asks less: the sets on both sides of a step
// may have values in common, and not this one.
func (e *Executor) Admitted(ctx context.Context, got []*hlo.Literal) Admission {
	unknown := Admission{Standing: Unknown}
	legal, err := e.legalOf(ctx, program)
	if err != nil || len(legal) != len(got) {
		return unknown
	}
	type element struct{ output, at int }
	var wrong []element
	values := make([]*eval.Array, len(got))
	for o, lit := range got {
		values[o] = eval.FromLiteral(lit).Array
		if lit.Shape.Type != legal[o].Type || values[o].Len() != legal[o].Len() {
			return unknown
		}
		for i := range legal[o].Len() {
			if legal[o].Legal(i, values[o].At(i)) == eval.Out {
				wrong = append(wrong, element{o, i})
			}
		}
	}
	if len(wrong) == 0 {
		return unknown
	}
	verdict := func(i int) (v eval.Verdict, ok bool) {
		if e.module(i) == nil {
			return v, false
		}
		legal, err := e.legalOf(ctx, i)
		if err != nil || len(legal) != len(got) {
			return v, false
		}
		v = eval.In
		for _, w := range wrong {
			l := legal[w.output]
			if l.Type != values[w.output].Type || l.Len() != values[w.output].Len() {
				return v, false
			}
			switch l.Legal(w.at, values[w.output].At(w.at)) {
			case eval.Out:
				return eval.Out, true
			case eval.Undecided:
				v = eval.Undecided
			}
		}
		return v, true
	}
	out := Admission{Standing: Same, State: len(e.Trail.States)}
	for i := len(e.Trail.States) - 1; i > program; i-- {
		v, ok := verdict(i)
		if !ok && out.Standing == Same {
			return unknown // what code generation was given
		}
		if !ok {
			continue
		}
		if v == eval.Undecided {
			return unknown
		}
		if v == eval.Out {
			break
		}
		out.Standing, out.State = Guilty, i
	}
	if out.Standing == Guilty {
		w := wrong[0]
		after, _ := e.legalOf(ctx, out.State)
		out.Where = Divergence{Output: w.output, At: unravel(w.at, legal[w.output].Dims), Type: legal[w.output].Type, Was: legal[w.output].At(w.at), Is: values[w.output].At(w.at),
			Before: legal[w.output].LegalSet(w.at), After: after[w.output].LegalSet(w.at)}
	}
	return out
}

// middle is the state nearest to the middle between two that says something.
func (e *Executor) middle(good, bad int, speaks func(int) bool) (int, bool) {
	m := (good + bad) / 2
	for d := 0; m-d > good || m+d < bad; d++ {
		if m-d > good && speaks(m-d) {
			return m - d, true
		}
		if m+d < bad && speaks(m+d) {
			return m + d, true
		}
	}
	return 0, false
}
