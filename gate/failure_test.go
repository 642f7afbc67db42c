package gate

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker"
)

func TestFailuresOfThePrograms(t *testing.T) {
	for _, tc := range []struct {
		code    pjrt.Code
		message string
		want    Behaviour
	}{
		{pjrt.Internal, "RET_CHECK failure (xla/x.cc:1) n > 0", Crashed},
		{pjrt.Internal, "Nested tuples are not supported with PjRtCpuClient. got: (s32[2], (s32[2]))", Unsupported},
		{pjrt.Unknown, "something broke", Crashed},
		{pjrt.Unknown, "-:1:26: error: expected non-function type", Rejected},
		{pjrt.Unimplemented, "no such thing", Unsupported},
		{pjrt.InvalidArgument, "bad program", Rejected},
	} {
		if got := ofFailure(&worker.Failure{Stage: worker.StageCompile, Code: tc.code, Message: tc.message}).behaviour; got != tc.want {
			t.Errorf("%s: %s: got %s, want %s", tc.code, tc.message, got, tc.want)
		}
	}
}

func TestPassStepJSON(t *testing.T) {
	for want, p := range map[string]*PassStep{
		`{"pipeline":"simplification","index":0,"name":"algsimp"}`: {Pipeline: "simplification", Name: "algsimp"},
		`{"pipeline":"simplification","index":7,"name":"algsimp"}`: {Pipeline: "simplification", Index: 7, Name: "algsimp"},
		`{"pipeline":"simplification","name":"algsimp"}`:           {Pipeline: "simplification", Index: unknownIndex, Name: "algsimp"},
		`{"name":"code generation"}`:                               {Name: "code generation"},
	} {
		got, err := json.Marshal(p)
		if err != nil || string(got) != want {
			t.Errorf("got %s (%v), want %s", got, err, want)
		}
		var back PassStep
		if err := json.Unmarshal(got, &back); err != nil || back != *p {
			t.Errorf("%s read back as %+v (%v), want %+v", got, back, err, *p)
		}
	}
}

// TestRefusers: a compiler that dies on some attempts and refuses on others gives
// one result, whichever comes first; one that only refuses keeps its words.
func TestRefusers(t *testing.T) {
	refuses := worker.Outcome{Status: worker.Rejected, Failure: &worker.Failure{Stage: worker.StageCompile, Code: pjrt.FailedPrecondition, Message: "not assigned"}}
	dies := worker.Outcome{Status: worker.Crashed, Crash: &worker.Crash{Signal: "SIGABRT"}}
	const death, words = "SIGABRT", "FAILED_PRECONDITION: not assigned"
	for _, c := range []struct {
		first, again []worker.Outcome
		want         string
		asked        int
	}{
		{[]worker.Outcome{refuses, refuses}, []worker.Outcome{refuses, refuses, dies}, death, 3},
		{[]worker.Outcome{refuses, refuses}, []worker.Outcome{dies}, death, 1},
		{[]worker.Outcome{refuses, dies}, nil, death, 0},
		{[]worker.Outcome{dies, refuses, refuses}, nil, death, 0},
		{[]worker.Outcome{dies, dies}, nil, death, 0},
		{[]worker.Outcome{refuses, refuses}, []worker.Outcome{refuses, refuses, refuses, refuses, refuses}, words, 5},
	} {
		asked := 0
		k := &caseRun{c: &fuzz.Case{}, run: &run{cfg: Config{Runner: attempts(func() worker.Outcome { asked++; return c.again[asked-1] })}}}
		var sides []side
		for _, o := range c.first {
			sides = append(sides, ofOutcome(o))
		}
		k.askRefusers(t.Context(), &builds.Build{}, sides[:1], sides[1:])
		settleMessages(sides[:1], sides[1:])
		for _, s := range sides {
			if s.behaviour != Crashed || s.detail != c.want {
				t.Errorf("%+v: %s %q, want %q", c, s.behaviour, s.detail, c.want)
			}
		}
		if asked != c.asked {
			t.Errorf("%+v: asked %d times, want %d", c, asked, c.asked)
		}
	}
}

// attempts is a Runner that gives one answer after another.
type attempts func() worker.Outcome

func (a attempts) Do(context.Context, *builds.Build, worker.Request) worker.Outcome      { return a() }
func (a attempts) DoFresh(context.Context, *builds.Build, worker.Request) worker.Outcome { return a() }
func (a attempts) Describe(context.Context, *builds.Build) (worker.Info, error) {
	return worker.Info{}, nil
}
