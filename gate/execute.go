package gate

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker"
)

// side is what one build made of one input stream.
type side struct {
	// behaviour is empty if the program ran.
	behaviour Behaviour
	detail    string
	runs      []execution
	// memory is what was seen of the runs' memory, guard the access outside the
	// arguments and died the end of a process that only such runs show.
	memory *worker.Memory
	guard  *worker.GuardFault
	died   string
}

// execution is one distinct result and how many executions gave it.
type execution struct {
	leaves []*hlo.Literal
	count  int
	under  string // the circumstances of the first, if they were not plain
}

// ran reports whether there are results.
func (s side) ran() bool { return s.behaviour == "" }

// broke reports whether the build crashed or hung.
func (s side) broke() bool { return s.behaviour == Crashed || s.behaviour == Hung }

// plain is the side without the words with which it broke: some compilers have
// others in every run.
func (s side) plain() side {
	if s.behaviour == Crashed {
		s.detail = brokeText
	}
	return s
}

// unstable reports whether executions differed.
func (s side) unstable() bool { return len(s.runs) > 1 }

// encode makes the request for a case, without options.
func encode(c *fuzz.Case) (worker.Request, error) {
	if c.Module == nil {
		return worker.Request{Program: []byte(c.Text), Format: worker.MLIR}, nil
	}
	p, err := c.Module.ToProto()
	if err != nil {
		return worker.Request{}, err
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return worker.Request{Program: data, Format: worker.HLO}, err
}

// arguments turns the inputs of a stream into the worker's arrays.
func arguments(inputs []*hlo.Literal) []worker.Array {
	var out []worker.Array
	for _, l := range inputs {
		out = append(out, worker.Array{Type: int32(l.Shape.Type), Dims: l.Shape.Dims, Data: l.Raw})
	}
	return out
}

// results turns a worker's outputs into literals.
func results(outputs []worker.Array) []*hlo.Literal {
	var out []*hlo.Literal
	for _, a := range outputs {
		lit := &hlo.Literal{Shape: hlo.ArrayShape(hlo.PrimitiveType(a.Type), a.Dims...), Raw: a.Data}
		if t := lit.Shape.Type; t.IsSigned() && t.Bits() < 8 {
			for i := range int64(len(a.Data)) {
				lit.SetInt(i, lit.Int(i)) // sign-extends
			}
		}
		out = append(out, lit)
	}
	return out
}

// compilable says why a program cannot go through a compiler's passes and be given
// inputs, "" if it can.
func compilable(c *fuzz.Case) string {
	if c.Module == nil {
		return ""
	}
	return cmp.Or(feedable(c), laidOut(c.Module))
}

// laidOut says why a program is a state of a compilation and no input of one: a
// bitcast means what the layouts around it make of it, and before layouts are
// assigned "is a bug" (LayoutAssignment::AssignLayouts, which fails on it). "" if
// it has none outside of fusions.
func laidOut(m *hlo.Module) string {
	fused := map[*hlo.Computation]bool{}
	for _, comp := range m.Computations {
		for _, in := range comp.Instructions {
			if in.Op == hlo.OpFusion {
				fused[in.Called[0]] = true
			}
		}
	}
	for _, comp := range m.Computations {
		for _, in := range comp.Instructions {
			if in.Op == hlo.OpBitcast && !fused[comp] {
				return fmt.Sprintf("bitcast (%%%s) has no meaning before layouts are assigned", in.Name)
			}
		}
	}
	return ""
}

// feedable says why a program cannot be given inputs, "" if it can.
func feedable(c *fuzz.Case) string {
	for i, p := range c.Params() {
		switch {
		case p.IsTuple(): // fuzz.ReadCase takes them apart
			return fmt.Sprintf("parameter %d is a tuple", i)
		case !p.IsArray():
			return fmt.Sprintf("parameter %d has type %s", i, p)
		case p.IsDynamic():
			return fmt.Sprintf("parameter %d has a dynamic dimension", i)
		}
	}
	if c.Module.ReplicaCount > 1 || c.Module.NumPartitions > 1 {
		return fmt.Sprintf("the program is for %d replicas and %d partitions", max(c.Module.ReplicaCount, 1), max(c.Module.NumPartitions, 1))
	}
	return ""
}

// runnable says why a program cannot be run through PJRT with plain inputs, ""
// if it can.
func runnable(c *fuzz.Case) string {
	if c.Module == nil {
		return ""
	}
	return cmp.Or(compilable(c), alone(c.Module))
}

// alone says why a program needs more than plain inputs and outputs, "" if it
// does not.
func alone(m *hlo.Module) string {
	for _, l := range m.Entry.Root.Shape.Leaves() {
		if !l.IsArray() {
			return fmt.Sprintf("the result holds a %s", l.Type)
		}
	}
	for _, comp := range m.Computations {
		for _, in := range comp.Instructions {
			switch in.Op {
			case hlo.OpInfeed, hlo.OpOutfeed, hlo.OpSend, hlo.OpRecv:
				return fmt.Sprintf("%s (%%%s) waits for a host that speaks to the program", in.Op, in.Name)
			}
		}
	}
	return ""
}

// movable says why the arrays of a case cannot pass between host and build; ""
// if they can. Real builds pack 1-bit integers for the host, eight in a byte
// (PackIntN in xla/util.h), while the code that they emit for CPUs keeps one in
// a byte and so reads and writes behind the buffer: no value of theirs counts.
func movable(c *fuzz.Case) string {
	if c.Module == nil {
		return ""
	}
	bit := func(s *hlo.Shape) (hlo.PrimitiveType, bool) {
		for _, l := range s.Leaves() {
			if l.Type == hlo.S1 || l.Type == hlo.U1 {
				return l.Type, true
			}
		}
		return 0, false
	}
	for i, p := range c.Params() {
		if t, yes := bit(p); yes {
			return fmt.Sprintf("parameter %d has type %s: builds pack it in bits and read it in bytes", i, t)
		}
	}
	if t, yes := bit(c.Module.Entry.Root.Shape); yes {
		return fmt.Sprintf("the result holds %s: builds write it in bytes and pack it in bits", t)
	}
	return ""
}

// executor runs requests of one build, one method per process policy.
type executor struct {
	do    func(context.Context, *builds.Build, worker.Request) worker.Outcome
	build *builds.Build
	meter *meter
}

// execute runs the program on all input sets and gives one side per set. When
// the process does not survive, the sets are run one by one, so that one bad
// set costs the others nothing.
func (e executor) execute(ctx context.Context, r worker.Request) (sides []side, dropped []string) {
	out := e.try(ctx, r)
	if r.CheckMemory && out.Status != worker.OK && ofOutcome(out).broke() && out.Status != worker.Rejected {
		return e.unexamined(ctx, r, out)
	}
	if out.Status == worker.OK {
		for i := range r.Inputs {
			sides = append(sides, ofSet(out.Result.Sets[i]))
		}
		return sides, out.Dropped
	}
	all := func(s side) []side {
		for range r.Inputs {
			sides = append(sides, s)
		}
		return sides
	}
	whole := ofOutcome(out)
	if !whole.broke() || len(r.Inputs) < 2 || out.Status == worker.Rejected {
		return all(whole), nil
	}
	compile := r
	compile.CompileOnly, compile.Inputs, compile.DumpDir = true, nil, ""
	if c := ofOutcome(e.try(ctx, compile)); c.broke() {
		return all(c), nil
	}
	for _, set := range r.Inputs {
		one := r
		one.Inputs, one.DumpDir = [][]worker.Array{set}, ""
		o := e.try(ctx, one)
		if o.Status == worker.OK {
			sides = append(sides, ofSet(o.Result.Sets[0]))
			dropped = o.Dropped
		} else {
			sides = append(sides, ofOutcome(o))
		}
	}
	return sides, dropped
}

// try runs a request, a second time if the machine failed the first.
func (e executor) try(ctx context.Context, r worker.Request) worker.Outcome {
	out := e.do(ctx, e.build, r)
	e.meter.add(out.InXLA)
	if out.Status == worker.Infrastructure && ctx.Err() == nil {
		out = e.do(ctx, e.build, r)
		e.meter.add(out.InXLA)
	}
	return out
}

func ofSet(s worker.SetResult) side {
	if s.Failure != nil {
		return ofFailure(s.Failure)
	}
	var out side
	for _, d := range s.Distinct {
		out.runs = append(out.runs, execution{results(d.Outputs), d.Count, d.Under})
	}
	out.memory = s.Memory
	return out
}

func ofOutcome(o worker.Outcome) side {
	switch o.Status {
	case worker.OK:
		return side{}
	case worker.Rejected:
		return ofFailure(o.Failure)
	case worker.Crashed:
		return side{behaviour: Crashed, detail: crashText(o.Crash)}
	case worker.Hung:
		return side{behaviour: Hung, detail: hungText}
	case worker.OutOfMemory:
		return side{behaviour: Crashed, detail: "memory limit passed"}
	case worker.Garbage:
		return side{behaviour: Crashed, detail: "the worker process answered garbage"}
	}
	return side{behaviour: Infrastructure, detail: firstLine(fmt.Sprint(o.Err))}
}

const hungText = "no answer within the deadline"

func crashText(c *worker.Crash) string {
	how := c.Signal
	if how == "" {
		how = fmt.Sprintf("exit status %d", c.Exit)
	}
	if c.Check != nil {
		return fmt.Sprintf("%s: %s:%d: %s", how, c.Check.File, c.Check.Line, firstLine(c.Check.Text))
	}
	return how
}

// ofFailure reads a clean error. The codes are absl's; XLA uses them like this
// (tsl/platform/errors.h, xla/status_macros.h: RET_CHECK is INTERNAL). While it
// compiles a program, a failed precondition is one of its own making
// ("BufferAllocation::Slice not assigned"), so it counts as internal.
func ofFailure(f *worker.Failure) side {
	s := side{detail: fmt.Sprintf("%s: %s", f.Code, firstLine(f.Message))}
	switch {
	case strings.HasPrefix(f.Message, "Nested tuples are not supported"):
		// A limit of the client (xla/pjrt/cpu/cpu_client.cc), under INTERNAL.
		s.behaviour = Unsupported
		return s
	case mlirError.MatchString(f.Message):
		// The text of the program does not parse or verify; the code is UNKNOWN.
		s.behaviour = Rejected
		return s
	}
	switch f.Code {
	case pjrt.Internal:
		s.behaviour = Crashed
		if f.Stage == worker.StageCompile && strings.Contains(f.Message, "[hlo verifier]") && !strings.Contains(f.Message, "Failed after ") {
			// XLA's verifier refuses the program as it came in, by a rule that ours
			// does not know; where a pass broke it, the message names the pass.
			s.behaviour = Rejected
		}
	case pjrt.Unknown, pjrt.DataLoss, pjrt.Aborted:
		s.behaviour = Crashed
	case pjrt.FailedPrecondition:
		s.behaviour = Rejected
		if f.Stage == worker.StageCompile {
			s.behaviour = Crashed
		}
	case pjrt.Unimplemented, pjrt.NotFound, pjrt.ResourceExhausted:
		s.behaviour = Unsupported
	case pjrt.Cancelled, pjrt.DeadlineExceeded, pjrt.Unavailable:
		s.behaviour = Infrastructure
	default:
		s.behaviour = Rejected
	}
	return s
}

// mlirError matches a diagnostic of MLIR's parser and verifier about the text
// it was handed, which has no file name.
var mlirError = regexp.MustCompile(`^-:[0-9]+:[0-9]+: error: `)

// volatile matches the parts of messages that differ from run to run.
var volatile = regexp.MustCompile(`0x[0-9a-fA-F]{4,}|/tmp/\S+`)

// firstLine is the first line of a message, at most 300 bytes, without
// addresses.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	s = strings.ToValidUTF8(volatile.ReplaceAllString(s, "*"), "?")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}

// Leaves are the array leaves of a reference value.
func Leaves(v *eval.Value) []*eval.Array {
	if v.Array != nil {
		return []*eval.Array{v.Array}
	}
	var out []*eval.Array
	for _, e := range v.Elements {
		out = append(out, Leaves(e)...)
	}
	return out
}
