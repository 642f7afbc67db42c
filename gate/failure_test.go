package gate

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
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

// TestChanceLeavesTheBody: what a compiler says that dies behind the passes, and the
// values of executions that differ, are not the same in two runs. The finding is.
func TestChanceLeavesTheBody(t *testing.T) {
	bytesOf := func(f observedFinding) string {
		f.leaveChance()
		data, err := json.Marshal(f.Finding)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	crash := func(words, pass string) observedFinding {
		q := question{flags: ComparisonFlags, base: side{runs: []execution{{}}}, head: side{behaviour: Crashed, detail: words}}
		a := judge(q)
		f := gather(&fuzz.Case{}, []answer{a})[0]
		f.Pass = &PassStep{Name: pass}
		f.conclude(confirmations, 0)
		return f
	}
	died, refused := crash("SIGABRT: a.cc:1: x", codeGeneration), crash("FAILED_PRECONDITION: not assigned", codeGeneration)
	if a, b := bytesOf(died), bytesOf(refused); a != b || strings.Contains(a, "SIGABRT") {
		t.Errorf("%s\n%s", a, b)
	}
	if died.leaveChance(); died.Observed != "SIGABRT: a.cc:1: x" || !strings.Contains(died.Said(), died.Observed) || died.First.Head != brokeText {
		t.Errorf("%+v", died.Finding)
	}
	inPass := crash("SIGABRT: a.cc:1: x", "algsimp")
	if inPass.leaveChance(); inPass.First.Head != "SIGABRT: a.cc:1: x" || inPass.Observed != "" {
		t.Errorf("%+v", inPass.Finding)
	}

	legal := eval.FromLiteral(f32s(1, 2)).Array
	wrong := func(runs ...[2]float32) observedFinding {
		head := side{}
		for _, r := range runs {
			head.runs = append(head.runs, execution{leaves: []*hlo.Literal{f32s(r[0], r[1])}})
		}
		q := question{flags: ComparisonFlags, reference: &eval.Value{Array: legal}, base: side{runs: []execution{{leaves: []*hlo.Literal{f32s(1, 2)}}}}, head: head}
		f := gather(&fuzz.Case{}, []answer{judge(q)})[0]
		d := diverge([]*eval.Array{legal}, head.runs)
		f.Unstable, f.astray[1], f.Class = d.astray[0], d.astray[0], Nondeterminism
		return f
	}
	one := wrong([2]float32{7, 2}, [2]float32{8, 3})
	for _, other := range []observedFinding{wrong([2]float32{1, 9}, [2]float32{1, 2}), wrong([2]float32{1, 2}, [2]float32{3, 4}, [2]float32{5, 5})} {
		if a, b := bytesOf(one), bytesOf(other); a != b {
			t.Errorf("%s\n%s", a, b)
		}
	}
	if one.leaveChance(); one.First.Head != variesText || one.Head != Flaky || one.Wrong != 0 || !strings.Contains(one.Observed, "legal {1}") {
		t.Errorf("%+v", one.Finding)
	}
	if d := diverge([]*eval.Array{legal}, []execution{{leaves: []*hlo.Literal{f32s(7, 2)}}, {leaves: []*hlo.Literal{f32s(7, 2)}}}); d.differs {
		t.Error("equal executions diverge")
	}
}

func f32s(v ...float32) *hlo.Literal {
	lit := &hlo.Literal{Shape: hlo.ArrayShape(hlo.F32, int64(len(v)))}
	for _, x := range v {
		lit.Raw = binary.LittleEndian.AppendUint32(lit.Raw, math.Float32bits(x))
	}
	return lit
}
