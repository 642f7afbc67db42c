package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker"
)

// call is one request to a fake build.
type call struct {
	worker.Request
	build string // base or head
	fresh bool
	n     int // how many requests this build had before
}

// fake is a Runner whose builds answer by function. Without faults they
// return their first input: the programs here are copies, or behave like one.
type fake struct {
	answer func(c call) worker.Outcome
	mu     sync.Mutex
	calls  map[string]int
}

func (f *fake) run(b *builds.Build, r worker.Request, fresh bool) worker.Outcome {
	f.mu.Lock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	n := f.calls[b.Spec.Text]
	f.calls[b.Spec.Text]++
	f.mu.Unlock()
	return f.answer(call{r, b.Spec.Text, fresh, n})
}

func (f *fake) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return f.run(b, r, false)
}

func (f *fake) DoFresh(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return f.run(b, r, true)
}

func (f *fake) Describe(context.Context, *builds.Build) (worker.Info, error) {
	return worker.Info{Platform: "fake", API: "0.1"}, nil
}

func (c call) ok(sets ...worker.SetResult) worker.Outcome {
	return worker.Outcome{Status: worker.OK, Result: &worker.Result{Sets: sets}}
}

// copies answers with the first input of every set, changed by edit.
func (c call) copies(edit func(set int, a worker.Array) worker.Array) worker.Outcome {
	var sets []worker.SetResult
	for i, in := range c.Inputs {
		out := in[0]
		if edit != nil {
			out.Data = slices.Clone(out.Data)
			out = edit(i, out)
		}
		sets = append(sets, worker.SetResult{Distinct: []worker.Distinct{{Outputs: []worker.Array{out}, Count: c.Repeat}}})
	}
	return c.ok(sets...)
}

// flip makes every element wrong.
func flip(set int, a worker.Array) worker.Array {
	for i := range a.Data {
		a.Data[i] ^= 0x15
	}
	return a
}

func right(c call) worker.Outcome { return c.copies(nil) }
func wrong(c call) worker.Outcome { return c.copies(flip) }
func failure(code pjrt.Code) func(call) worker.Outcome {
	return func(c call) worker.Outcome {
		return worker.Outcome{Status: worker.Rejected, Failure: &worker.Failure{Stage: worker.StageCompile, Code: code, Message: "said no"}}
	}
}
func internal(message string) func(call) worker.Outcome {
	return func(c call) worker.Outcome {
		return worker.Outcome{Status: worker.Rejected, Failure: &worker.Failure{Stage: worker.StageCompile, Code: pjrt.Internal, Message: message}}
	}
}
func crash(c call) worker.Outcome {
	return worker.Outcome{Status: worker.Crashed, Crash: &worker.Crash{Signal: "SIGABRT", Exit: -1, Check: &worker.Check{File: "a.cc", Line: 7, Text: "x == y"}}}
}
func hang(c call) worker.Outcome { return worker.Outcome{Status: worker.Hung} }
func lost(c call) worker.Outcome {
	return worker.Outcome{Status: worker.Infrastructure, Err: errors.New("no worker")}
}

// builders picks the answer by build.
func by(base, head func(call) worker.Outcome) func(call) worker.Outcome {
	return func(c call) worker.Outcome {
		if c.build == "base" {
			return base(c)
		}
		return head(c)
	}
}

const copyS32 = `-- module.hlo --
HloModule m
ENTRY e {
  x = s32[4] parameter(0)
  ROOT r = s32[4] copy(x)
}
-- inputs --
s32[4] {1, 2, 3, 4}
`

// noInputs has a single stream.
const constantF32 = `-- module.hlo --
HloModule m
ENTRY e {
  x = f32[2] constant({1, 2})
  ROOT r = f32[2] exponential(x)
}
-- inputs --
`

func testCase(t *testing.T, name, text string) *fuzz.Case {
	t.Helper()
	c, err := fuzz.ReadCase(name+".case", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func config(f *fake, cases ...*fuzz.Case) gate.Config {
	return gate.Config{
		Base:   &builds.Build{Spec: builds.Spec{Text: "base"}, ID: "sha256:b", Kind: builds.Executable},
		Head:   &builds.Build{Spec: builds.Spec{Text: "head"}, ID: "sha256:h", Kind: builds.Executable},
		Cases:  cases,
		Runner: f, Now: func() time.Time { return time.Unix(0, 0) }, Seed: 1,
	}
}

func run(t *testing.T, cfg gate.Config) *gate.Result {
	t.Helper()
	res, err := gate.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// floats makes an output of f32 values for every set.
func floats(values ...float64) func(call) worker.Outcome {
	return func(c call) worker.Outcome {
		lit := hlo.NewLiteral(hlo.ArrayShape(hlo.F32, int64(len(values))))
		for i, v := range values {
			lit.SetFloat(int64(i), v)
		}
		sets := max(1, len(c.Inputs))
		var out []worker.SetResult
		for range sets {
			out = append(out, worker.SetResult{Distinct: []worker.Distinct{{Outputs: []worker.Array{{Type: int32(hlo.F32), Dims: lit.Shape.Dims, Data: lit.Raw}}, Count: c.Repeat}}})
		}
		return c.ok(out...)
	}
}

type want struct {
	verdict  gate.Verdict
	outcome  gate.Outcome
	findings []string // class status blocking stream
	base     gate.Behaviour
	head     gate.Behaviour
}

func seen(f gate.Finding) string {
	s := fmt.Sprintf("%s %s %s", f.Class, f.Status, f.Stream)
	if f.Flags == gate.DefaultFlags {
		s += " default"
	}
	if f.Blocking {
		s += " blocks"
	}
	if f.Confirmed != "" {
		s += " " + f.Confirmed
	}
	return s
}

func TestStatuses(t *testing.T) {
	e := 2.718281828459045
	e2 := 7.38905609893065
	for _, tt := range []struct {
		name   string
		text   string
		answer func(call) worker.Outcome
		want   want
	}{
		{"both right", copyS32, right, want{gate.Pass, gate.CaseOK, nil, gate.Right, gate.Right}},
		{"head wrong", copyS32, by(right, wrong), want{gate.Blocked, gate.CaseFinding, []string{"miscompile new own blocks 3 of 3"}, gate.Right, gate.Wrong}},
		{"base wrong", copyS32, by(wrong, right), want{gate.Pass, gate.CaseFinding, []string{"miscompile fixed own 3 of 3"}, gate.Wrong, gate.Right}},
		{"both wrong alike", copyS32, wrong, want{gate.Pass, gate.CaseFinding, []string{"miscompile pre-existing own"}, gate.Wrong, gate.Wrong}},
		{"both wrong differently", copyS32, by(wrong, func(c call) worker.Outcome {
			return c.copies(func(set int, a worker.Array) worker.Array {
				a.Data[0] ^= 0x40
				a.Data[4] ^= 1
				a.Data[8] ^= 1
				a.Data[12] ^= 1
				return a
			})
		}), want{gate.Pass, gate.CaseFinding, []string{"miscompile pre-existing own"}, gate.Wrong, gate.Wrong}},
		{"both wrong on one element, head on another, too", copyS32, by(
			func(c call) worker.Outcome {
				return c.copies(func(set int, a worker.Array) worker.Array { a.Data[4] ^= 1; return a })
			},
			func(c call) worker.Outcome {
				return c.copies(func(set int, a worker.Array) worker.Array { a.Data[0] ^= 1; a.Data[4] ^= 2; return a })
			}), want{gate.Pass, gate.CaseFinding, []string{"miscompile pre-existing own"}, gate.Wrong, gate.Wrong}},
		{"base and head wrong on different elements", copyS32, by(
			func(c call) worker.Outcome {
				return c.copies(func(set int, a worker.Array) worker.Array { a.Data[4] ^= 1; return a })
			},
			func(c call) worker.Outcome {
				return c.copies(func(set int, a worker.Array) worker.Array { a.Data[0] ^= 1; return a })
			}), want{gate.Pass, gate.CaseFinding, []string{"miscompile new own", "miscompile fixed own"}, gate.Wrong, gate.Wrong}},
		{"head wrong in old processes only", copyS32, by(right, func(c call) worker.Outcome {
			if c.fresh {
				return right(c)
			}
			return wrong(c)
		}), want{gate.Pass, gate.CaseFinding, []string{"nondeterminism new own"}, gate.Right, gate.Flaky}},
		{"base wrong in fresh processes, too", copyS32, by(func(c call) worker.Outcome {
			if c.fresh {
				return wrong(c)
			}
			return right(c)
		}, wrong), want{gate.Pass, gate.CaseFinding, []string{"nondeterminism pre-existing own 3 of 3"}, gate.Flaky, gate.Wrong}},
		{"head wrong in one execution of three", copyS32, by(right, func(c call) worker.Outcome {
			out := right(c)
			bad := wrong(c)
			for i := range out.Result.Sets {
				d := &out.Result.Sets[i].Distinct
				(*d)[0].Count--
				bad.Result.Sets[i].Distinct[0].Count = 1
				*d = append(*d, bad.Result.Sets[i].Distinct[0])
			}
			return out
		}), want{gate.Blocked, gate.CaseFinding, []string{"nondeterminism new own blocks 3 of 3"}, gate.Right, gate.Flaky}},
		{"head crashes", copyS32, by(right, crash), want{gate.Blocked, gate.CaseFinding, []string{"crash new own blocks 3 of 3"}, gate.Right, gate.Crashed}},
		{"base crashes", copyS32, by(crash, right), want{gate.Pass, gate.CaseFinding, []string{"crash fixed own 3 of 3"}, gate.Crashed, gate.Right}},
		{"both crash", copyS32, crash, want{gate.Pass, gate.CaseFinding, []string{"crash pre-existing own"}, gate.Crashed, gate.Crashed}},
		{"head hangs", copyS32, by(right, hang), want{gate.Blocked, gate.CaseFinding, []string{"hang new own blocks 3 of 3"}, gate.Right, gate.Hung}},
		{"internal error", copyS32, by(right, failure(pjrt.Internal)), want{gate.Blocked, gate.CaseFinding, []string{"crash new own blocks 3 of 3"}, gate.Right, gate.Crashed}},
		{"head's verifier refuses the program", copyS32, by(right, internal("during context [hlo verifier]: RET_CHECK failure")),
			want{gate.Pass, gate.CaseRejected, nil, gate.Right, gate.Rejected}},
		{"head's verifier refuses what a pass made", copyS32, by(right, internal("during context [hlo verifier]: Binary op with incompatible shapes; Failed after algsimp")),
			want{gate.Blocked, gate.CaseFinding, []string{"crash new own blocks 3 of 3"}, gate.Right, gate.Crashed}},
		{"base wrong, head crashes", copyS32, by(wrong, crash), want{gate.Pass, gate.CaseFinding,
			[]string{"miscompile pre-existing own", "crash pre-existing own"}, gate.Wrong, gate.Crashed}},
		{"base crashes, head wrong", copyS32, by(crash, wrong), want{gate.Pass, gate.CaseFinding,
			[]string{"miscompile pre-existing own", "crash fixed own 3 of 3"}, gate.Crashed, gate.Wrong}},
		{"both unimplemented", copyS32, failure(pjrt.Unimplemented), want{gate.Pass, gate.CaseUnsupported, nil, gate.Unsupported, gate.Unsupported}},
		{"both refuse", copyS32, failure(pjrt.InvalidArgument), want{gate.Pass, gate.CaseRejected, nil, gate.Rejected, gate.Rejected}},
		{"base refuses, head wrong", copyS32, by(failure(pjrt.Unimplemented), wrong), want{gate.Pass, gate.CaseFinding, []string{"miscompile new own"}, gate.Unsupported, gate.Wrong}},
		{"machine fails", copyS32, lost, want{gate.Inconclusive, gate.CaseInfrastructure, nil, gate.Infrastructure, gate.Infrastructure}},
		{"machine fails once", copyS32, func(c call) worker.Outcome {
			if c.n == 0 {
				return lost(c)
			}
			return right(c)
		}, want{gate.Pass, gate.CaseOK, nil, gate.Right, gate.Right}},
		{"machine fails at confirmation", copyS32, by(right, func(c call) worker.Outcome {
			if c.fresh {
				return lost(c)
			}
			return wrong(c)
		}), want{gate.Inconclusive, gate.CaseFinding, []string{"miscompile new own"}, gate.Right, gate.Wrong}},
		{"head crashes on special values only", copyS32, by(right, func(c call) worker.Outcome {
			if len(c.Inputs) == 4 || len(c.Inputs) == 1 && slices.Contains(c.Inputs[0][0].Data, 0x7f) {
				return crash(c)
			}
			return right(c)
		}), want{gate.Blocked, gate.CaseFinding, []string{"crash new special blocks 3 of 3"}, gate.Right, gate.Crashed}},
		{"head wrong under default flags only", copyS32, by(right, func(c call) worker.Outcome {
			if c.Options == nil {
				return wrong(c)
			}
			return right(c)
		}), want{gate.Pass, gate.CaseFinding, []string{"miscompile contested own default"}, gate.Right, gate.Wrong}},
		{"head crashes under default flags only", copyS32, by(right, func(c call) worker.Outcome {
			if c.Options == nil {
				return crash(c)
			}
			return right(c)
		}), want{gate.Blocked, gate.CaseFinding, []string{"crash new own default blocks 3 of 3"}, gate.Right, gate.Crashed}},
		{"wrong type", copyS32, by(right, floats(1, 2, 3, 4)), want{gate.Blocked, gate.CaseFinding, []string{"miscompile new own blocks 3 of 3"}, gate.Right, gate.Wrong}},

		{"inexact, right", constantF32, floats(e, e2), want{gate.Pass, gate.CaseOK, nil, gate.Right, gate.Right}},
		{"inexact, both off alike", constantF32, floats(e, e2+0.5), want{gate.Pass, gate.CaseFinding, []string{"miscompile reference-disputed own"}, gate.Wrong, gate.Wrong}},
		{"inexact, both off alike, want sides with the reference", constantF32 + "-- want --\nf32[2] {2.7182817, 7.389056}\n", floats(e, e2+0.5),
			want{gate.Pass, gate.CaseFinding, []string{"miscompile pre-existing own"}, gate.Wrong, gate.Wrong}},
		{"inexact, both NaN", constantF32, floats(e, nan), want{gate.Pass, gate.CaseFinding, []string{"miscompile pre-existing own"}, gate.Wrong, gate.Wrong}},
		{"inexact, head a little off", constantF32, by(floats(e, e2), floats(e, e2+0.0002)), want{gate.Blocked, gate.CaseFinding, []string{"numeric-degradation new own blocks 3 of 3"}, gate.Right, gate.Wrong}},
		{"inexact, head far off", constantF32, by(floats(e, e2), floats(-e, e2)), want{gate.Blocked, gate.CaseFinding, []string{"miscompile new own blocks 3 of 3"}, gate.Right, gate.Wrong}},
		{"want against the reference", constantF32 + "-- want --\nf32[2] {2.7182817, 8}\n", by(floats(e, e2), floats(e, 8)),
			want{gate.Pass, gate.CaseFinding, []string{"miscompile reference-disputed own 3 of 3"}, gate.Right, gate.Wrong}},
		{"legal but outside the declared tolerance", constantF32 + "-- want --\nf32[2] {2.7182817, 7.389056}\n-- notes --\nrelative tolerance of want: 1e-12\n", by(floats(e, e2), floats(e, 7.3890566)),
			want{gate.Pass, gate.CaseFinding, []string{"numeric-degradation contested own"}, gate.Right, gate.Wrong}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := run(t, config(&fake{answer: tt.answer}, testCase(t, "c", tt.text)))
			c := res.Cases[0]
			got := want{res.Verdict, c.Outcome, nil, c.Base, c.Head}
			for _, f := range res.Findings {
				got.findings = append(got.findings, seen(f))
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("want -, got +:\n%s\nreasons: %q\ncase: %+v", diff, res.Reasons, c)
			}
			if len(res.Findings) > 0 && c.Finding != res.Findings[0].ID {
				t.Errorf("the case names finding %s, want %s", c.Finding, res.Findings[0].ID)
			}
			if len(res.Reasons) == 0 {
				t.Error("no reason is given")
			}
		})
	}
}

var nan = func() float64 { var z float64; return z / z }()

func TestContestedElements(t *testing.T) {
	text := `-- module.hlo --
HloModule m
ENTRY e {
  x = s8[2] parameter(0)
  p = s8[2] multiply(x, x)
  ROOT a = s8[2] abs(p)
}
-- inputs --
s8[2] {12, 5}
`
	bytesOut := func(c call, v ...byte) worker.Outcome {
		var sets []worker.SetResult
		for range c.Inputs {
			sets = append(sets, worker.SetResult{Distinct: []worker.Distinct{{Outputs: []worker.Array{{Type: int32(hlo.S8), Dims: []int64{2}, Data: v}}, Count: c.Repeat}}})
		}
		return c.ok(sets...)
	}
	ownOnly := func(f func(c call) worker.Outcome) func(call) worker.Outcome {
		return func(c call) worker.Outcome {
			out := f(c)
			return out
		}
	}
	c := testCase(t, "c", text)
	res := run(t, config(&fake{answer: by(
		ownOnly(func(c call) worker.Outcome { return bytesOut(c, 112, 25) }),
		ownOnly(func(c call) worker.Outcome { return bytesOut(c, 0x90, 25) }))}, c))
	i := slices.IndexFunc(res.Findings, func(f gate.Finding) bool { return f.Stream == "own" })
	if i < 0 {
		t.Fatalf("no finding on the case's own inputs: %+v", res.Findings)
	}
	f := res.Findings[i]
	if f.Status != gate.Contested || f.Blocking || !slices.Equal(f.Contest, []string{"signed overflow"}) {
		t.Errorf("got %s, blocking %v, contest %v; want contested by signed overflow", f.Status, f.Blocking, f.Contest)
	}
}

func TestSameResultForAnyNumberOfWorkers(t *testing.T) {
	var cases []*fuzz.Case
	for i := range 12 {
		cases = append(cases, testCase(t, fmt.Sprintf("c%02d", i), strings.ReplaceAll(copyS32, "HloModule m", fmt.Sprintf("HloModule m%d", i))))
	}
	answer := by(right, func(c call) worker.Outcome {
		switch sum := len(c.Program) + int(c.Program[2]); {
		case strings.Contains(string(c.Program), "m3"):
			return crash(c)
		case strings.Contains(string(c.Program), "m7"):
			return wrong(c)
		case sum < 0:
			return hang(c)
		}
		return right(c)
	})
	body := func(workers int) string {
		cfg := config(&fake{answer: answer}, cases...)
		cfg.Workers = workers
		res := run(t, cfg)
		res.Timing = gate.Timing{}
		out, err := json.MarshalIndent(res, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	one := body(1)
	for _, n := range []int{2, 8} {
		if diff := cmp.Diff(one, body(n)); diff != "" {
			t.Errorf("%d workers give another result:\n%s", n, diff)
		}
	}
}

func TestShardsCoverAllCases(t *testing.T) {
	var cases []*fuzz.Case
	for i := range 7 {
		cases = append(cases, testCase(t, fmt.Sprintf("c%d", i), copyS32))
	}
	var got []string
	for shard := 1; shard <= 3; shard++ {
		cfg := config(&fake{answer: right}, cases...)
		cfg.Shard, cfg.Shards = shard, 3
		res := run(t, cfg)
		if want := fmt.Sprintf("%d/3", shard); res.Shard != want {
			t.Errorf("shard is %q, want %q", res.Shard, want)
		}
		for _, c := range res.Cases {
			got = append(got, c.ID)
		}
	}
	slices.Sort(got)
	if want := []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBudgetSkipsTheRest(t *testing.T) {
	var cases []*fuzz.Case
	for i := range 5 {
		cases = append(cases, testCase(t, fmt.Sprintf("c%d", i), copyS32))
	}
	cfg := config(&fake{answer: right}, cases...)
	var now time.Duration
	cfg.Progress = func(gate.Progress) { now += time.Minute }
	cfg.Now = func() time.Time { return time.Unix(0, 0).Add(now) }
	cfg.Budget = 2 * time.Minute
	res := run(t, cfg)
	if res.Totals.Executed != 2 || res.Totals.Skipped != 3 || res.Verdict != gate.Pass {
		t.Errorf("got %d executed, %d skipped, verdict %s; want 2, 3, pass", res.Totals.Executed, res.Totals.Skipped, res.Verdict)
	}
}

func TestInterruptedRunKeepsWhatItHas(t *testing.T) {
	var cases []*fuzz.Case
	for i := range 5 {
		cases = append(cases, testCase(t, fmt.Sprintf("c%d", i), copyS32))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cfg := config(&fake{answer: right}, cases...)
	cfg.Progress = func(p gate.Progress) {
		if p.Done == 2 {
			cancel()
		}
	}
	res, err := gate.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Cases) != 5 || res.Totals.Executed != 2 || res.Verdict != gate.Inconclusive {
		t.Errorf("got %d cases, %d executed, verdict %s; want 5, 2, inconclusive", len(res.Cases), res.Totals.Executed, res.Verdict)
	}
}

func TestPassesInFocus(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []gate.Step
		want  gate.Verdict
		pass  gate.PassResult
	}{
		{"fired", []gate.Step{{Name: "algsimp", Changed: true}, {Name: "algsimp", Changed: true}, {Name: "dce", Changed: true}}, gate.Pass,
			gate.PassResult{Name: "algsimp", Weight: 6, Reason: "test", Ran: 2, Fired: 2, Cases: 1}},
		{"ran, changed nothing", []gate.Step{{Name: "algsimp"}}, gate.NotExercised, gate.PassResult{Name: "algsimp", Weight: 6, Reason: "test", Ran: 1}},
		{"did not run", nil, gate.NotExercised, gate.PassResult{Name: "algsimp", Weight: 6, Reason: "test"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(&fake{answer: right}, testCase(t, "c", copyS32))
			cfg.Passes = []gate.Focus{{Name: "algsimp", Weight: 6, Reason: "test", Matches: func(s string) bool { return s == "algsimp" }}}
			cfg.TempDir = func() (string, func(), error) { return "dump", func() {}, nil }
			cfg.Steps = func(string) ([]gate.Step, error) { return tt.steps, nil }
			res := run(t, cfg)
			if res.Verdict != tt.want {
				t.Errorf("verdict %s, want %s (%q)", res.Verdict, tt.want, res.Reasons)
			}
			if diff := cmp.Diff(tt.pass, res.Passes[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBadSettings(t *testing.T) {
	c := testCase(t, "c", copyS32)
	for name, edit := range map[string]func(*gate.Config){
		"two cases of one name": func(cfg *gate.Config) { cfg.Cases = append(cfg.Cases, c) },
		"shard out of range":    func(cfg *gate.Config) { cfg.Shard, cfg.Shards = 4, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(&fake{answer: right}, c)
			edit(&cfg)
			_, err := gate.Run(t.Context(), cfg)
			var bad *gate.ConfigError
			if !errors.As(err, &bad) {
				t.Errorf("got %v, want a ConfigError", err)
			}
		})
	}
}

func TestNullRun(t *testing.T) {
	cfg := config(&fake{answer: right}, testCase(t, "c", copyS32))
	cfg.Head = cfg.Base
	n := run(t, cfg).Statistics.Null
	// 4 input streams under the comparison flags, 3 under the default ones; no
	// alarm in 7: upper limit 1-0.025^(1/7) = 0.4096.
	if n.Cells != 7 || n.Alarms != 0 || n.Interval[0] != 0 || n.Interval[1] < 0.409 || n.Interval[1] > 0.410 {
		t.Errorf("got %+v", n)
	}
}

func TestUnsupportedByTheReferenceStillSeesCrashes(t *testing.T) {
	text := `-- module.hlo --
HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(x), custom_call_target="nobody_knows_this"
}
-- inputs --
f32[4] {1, 2, 3, 4}
`
	res := run(t, config(&fake{answer: by(right, wrong)}, testCase(t, "c", text)))
	if c := res.Cases[0]; c.Outcome != gate.CaseUnsupported || res.Verdict != gate.Pass {
		t.Errorf("different values: got %s, verdict %s; want unsupported, pass", c.Outcome, res.Verdict)
	}
	res = run(t, config(&fake{answer: by(right, crash)}, testCase(t, "c", text)))
	if res.Verdict != gate.Blocked || len(res.Findings) != 1 {
		t.Errorf("crash: got verdict %s with %d findings, want blocked with 1", res.Verdict, len(res.Findings))
	}
}

// A bitcast stands for bytes, and before layouts are assigned nobody knows which:
// such a program is no input of a compiler, but one of code generation.
func TestBitcastsAreNoInput(t *testing.T) {
	const text = `-- module.hlo --
HloModule m
fused {
  x = s32[4] parameter(0)
  ROOT r = s32[2,2] bitcast(x)
}
ENTRY e {
  x = s32[4] parameter(0)
  ROOT r = s32[2,2] %s
}
-- inputs --
s32[4] {1, 2, 3, 4}
`
	bare, fused := testCase(t, "c", fmt.Sprintf(text, "bitcast(x)")), testCase(t, "c", fmt.Sprintf(text, "fusion(x), kind=kLoop, calls=fused"))
	for _, tt := range []struct {
		c      *fuzz.Case
		behind bool
		want   gate.Behaviour
	}{{bare, false, gate.Unsupported}, {bare, true, gate.Crashed}, {fused, false, gate.Crashed}} {
		cfg := config(&fake{answer: crash})
		cfg.BackendOnly = tt.behind
		if got := gate.Replay(t.Context(), cfg, cfg.Head, tt.c); got.Outcome != tt.want {
			t.Errorf("behind the passes %v: got %s, want %s: %s", tt.behind, got.Outcome, tt.want, got.Detail)
		}
	}
	res := run(t, config(&fake{answer: by(right, crash)}, bare))
	if c := res.Cases[0]; c.Outcome != gate.CaseUnsupported || res.Verdict == gate.Blocked {
		t.Errorf("got %s, verdict %s, want unsupported", c.Outcome, res.Verdict)
	}
}

func TestReplay(t *testing.T) {
	for _, tt := range []struct {
		answer func(call) worker.Outcome
		want   gate.Behaviour
	}{{right, gate.Right}, {wrong, gate.Wrong}, {crash, gate.Crashed}, {hang, gate.Hung}, {failure(pjrt.Unimplemented), gate.Unsupported}, {lost, gate.Infrastructure}} {
		cfg := config(&fake{answer: tt.answer})
		got := gate.Replay(t.Context(), cfg, cfg.Head, testCase(t, "c", copyS32))
		if got.Outcome != tt.want {
			t.Errorf("got %s, want %s: %s", got.Outcome, tt.want, got.Detail)
		}
	}
}
