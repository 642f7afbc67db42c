package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/tools/rig"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// tally sums up a judgement of many programs.
type tally struct {
	mu                           sync.Mutex
	judged, undecided, contested int
	unevaluated                  map[string]int
	broken                       map[string]int
	wrong                        map[string][]string // by build
}

func (b *bench) judge(ctx context.Context) error {
	t := &tally{unevaluated: map[string]int{}, broken: map[string]int{}, wrong: map[string][]string{}}
	start := time.Now()
	rig.Each(ctx, b.workers, b.n, func(i int) {
		c, err := b.program(platformOf(b.builds[0]), i, b.passes...)
		if err != nil {
			t.note(t.broken, err.Error())
			return
		}
		b.judgeOne(ctx, t, c)
	})
	for _, k := range sorted(t.unevaluated) {
		fmt.Fprintf(b.w, "%6d not evaluated: %s\n", t.unevaluated[k], k)
	}
	for _, k := range sorted(t.broken) {
		fmt.Fprintf(b.w, "%6d %s\n", t.broken[k], k)
	}
	for _, k := range sorted(t.wrong) {
		for _, w := range t.wrong[k] {
			fmt.Fprintf(b.w, "outside the legal set on %s: %s\n", k, w)
		}
		fmt.Fprintf(b.w, "%6d program streams outside the legal set on %s\n", len(t.wrong[k]), k)
	}
	fmt.Fprintf(b.w, "%d programs: %d elements judged, %d undecided, %d contested, %.0f s\n", b.n, t.judged, t.undecided, t.contested, time.Since(start).Seconds())
	return nil
}

func (t *tally) note(m map[string]int, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m[why]++
}

func (b *bench) judgeOne(ctx context.Context, t *tally, c *fuzz.Case) {
	wire, err := hlo.MarshalModule(c.Module)
	if err != nil {
		t.note(t.broken, err.Error())
		return
	}
	request := worker.Request{Program: wire, Format: worker.HLO, Options: maps.Clone(flagsOff)}
	var legal [][]*eval.Array
	var judged []fuzz.Stream
	for _, s := range c.Streams(b.seed) {
		leaves, why := reference(ctx, c, s)
		if why != "" {
			t.note(t.unevaluated, why)
			if strings.HasPrefix(why, "BUG") {
				b.keep(c, why)
			}
			continue
		}
		var set []worker.Array
		for _, l := range s.Inputs {
			set = append(set, worker.Array{Type: int32(l.Shape.Type), Dims: l.Shape.Dims, Data: l.Raw})
		}
		request.Inputs = append(request.Inputs, set)
		legal, judged = append(legal, leaves), append(judged, s)
	}
	if len(legal) == 0 {
		return
	}
	for _, build := range b.builds {
		o := b.pool.Do(ctx, build, request)
		name := build.Spec.String()
		switch o.Status {
		case worker.OK:
		case worker.Rejected:
			t.note(t.broken, name+": refused: "+firstLine(o.Failure.Message))
			b.keep(c, name+": refused: "+o.Failure.Message)
			continue
		case worker.Crashed:
			t.note(t.broken, name+": crash: "+o.Crash.String())
			b.keep(c, name+": crash: "+o.Crash.String()+"\n"+strings.Join(o.Log, "\n"))
			continue
		default:
			t.note(t.broken, name+": "+o.Status.String())
			b.keep(c, name+": "+o.Status.String())
			continue
		}
		for k, set := range o.Result.Sets {
			if set.Failure != nil {
				t.note(t.broken, name+": execution: "+firstLine(set.Failure.Message))
				continue
			}
			if why := t.compare(legal[k], set.Distinct[0].Outputs); why != "" {
				t.mu.Lock()
				t.wrong[name] = append(t.wrong[name], fmt.Sprintf("%s %s", c.Name, why))
				t.mu.Unlock()
				b.keepInputs(c, build, judged[k], why)
			}
		}
	}
}

// keepInputs keeps the program with the inputs that disagree.
func (b *bench) keepInputs(c *fuzz.Case, build *builds.Build, s fuzz.Stream, why string) {
	w := c.WithInputs(s.Inputs, s.Lines, "")
	b.keep(w, fmt.Sprintf("%s, %s inputs: %s", build.Spec, s.Name, why))
}

func reference(ctx context.Context, c *fuzz.Case, s fuzz.Stream) (leaves []*eval.Array, why string) {
	defer func() {
		if p := recover(); p != nil {
			leaves, why = nil, fmt.Sprintf("BUG: panic: %v", p)
		}
	}()
	args := make([]*eval.Value, len(s.Inputs))
	for i, l := range s.Inputs {
		args[i] = eval.FromLiteral(l)
	}
	v, err := eval.Run(ctx, c.Module, args, eval.Options{Bounds: true, MaxSteps: 1 << 22})
	if err != nil {
		var u *eval.Unsupported
		if errors.As(err, &u) {
			return nil, fmt.Sprintf("unsupported %v: %s", u.Op, u.Detail)
		}
		return nil, err.Error()
	}
	return leavesOf(v), ""
}

func leavesOf(v *eval.Value) []*eval.Array {
	if v.Array != nil {
		return []*eval.Array{v.Array}
	}
	var out []*eval.Array
	for _, e := range v.Elements {
		out = append(out, leavesOf(e)...)
	}
	return out
}

// compare says what is outside the legal sets, "" for nothing.
func (t *tally) compare(legal []*eval.Array, outputs []worker.Array) string {
	var judged, undecided, contested int
	why := ""
	for k, a := range legal {
		out := outputs[k]
		if int32(a.Type) != out.Type || !slices.Equal(a.Dims, out.Dims) {
			return fmt.Sprintf("output %d is %v%v, the build's type %d%v", k, a.Type, a.Dims, out.Type, out.Dims)
		}
		dims := a.Dims
		if a.Sizes != nil {
			dims = a.Sizes
		}
		shape := hlo.ArrayShape(a.Type, dims...)
		l := &hlo.Literal{Shape: shape, Raw: out.Data[:int(shape.Elems())*a.Type.Bytes()]}
		wrong, first := 0, ""
		for j := range int(shape.Elems()) {
			i := position(j, dims, a.Dims)
			got := eval.LiteralScalar(l, int64(j))
			switch a.Legal(i, got) {
			case eval.In:
				judged++
			case eval.Undecided:
				undecided++
			case eval.Out:
				if a.At(i).Contest != 0 {
					contested++
					continue
				}
				if wrong++; first == "" {
					first = fmt.Sprintf("[%d] is %s, legal %s", j, eval.ScalarString(a.Type, got), a.LegalSet(i))
				}
			}
		}
		if wrong > 0 && why == "" {
			why = fmt.Sprintf("output %d: %d of %d, first %s", k, wrong, shape.Elems(), first)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judged += judged
	t.undecided += undecided
	t.contested += contested
	return why
}

// position is the row-major index in an array of the given bounds of element j
// of its part of the given sizes.
func position(j int, sizes, bounds []int64) int {
	at, stride := 0, 1
	for d := len(sizes) - 1; d >= 0; d-- {
		at += j % int(sizes[d]) * stride
		j /= int(sizes[d])
		stride *= int(bounds[d])
	}
	return at
}
