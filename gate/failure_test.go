package gate

import (
	"encoding/json"
	"testing"

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
