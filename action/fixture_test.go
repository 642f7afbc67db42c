package action_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	nethttp "net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/action"
	"github.com/passgate/passgate/action/runner"
	"github.com/passgate/passgate/action/standin"
	"github.com/passgate/passgate/gate"
)

const (
	headSHA = "1111111111111111111111111111111111111111"
	baseSHA = "2222222222222222222222222222222222222222"
	olderAt = "3333333333333333333333333333333333333333"
	number  = 7
	bot     = "github-actions[bot]"
)

// algsimp is a change of XLA's algebraic simplifier.
var algsimp = standin.File{Name: "xla/hlo/transforms/simplifiers/algebraic_simplifier.cc",
	Patch: "@@ -10,3 +40,4 @@ absl::Status AlgebraicSimplifierVisitor::HandleMultiply(\n   int a;\n-  int b;\n+  int c;\n+  int d;\n"}

// blocked is a result with a new finding in algsimp.
func blocked() *gate.Result {
	r := clean()
	r.Verdict, r.Reasons = gate.Blocked, []string{"1 finding new: base is right, head is not, in 3 of 3 fresh processes"}
	r.Cases[0].Outcome, r.Cases[0].Finding, r.Cases[0].Head = gate.CaseFinding, "f-0123456789ab", gate.Wrong
	r.Findings = []gate.Finding{finding(0)}
	return r
}

func finding(i int) gate.Finding {
	return gate.Finding{ID: fmt.Sprintf("f-%012x", 0x0123456789ab+i), Class: gate.Miscompile, Status: gate.New, Blocking: true, Case: "clamp", Stream: "own", Flags: gate.ComparisonFlags,
		Witnesses: []string{"execution", "pass steps"}, Output: "0", Elements: 12, Wrong: 3, First: gate.First{At: []int64{1, 2}, Base: "1", Head: "2", Legal: "{1}"},
		Pass: &gate.PassStep{Pipeline: "simplification", Index: 3, Name: "algsimp"}, Level: gate.LevelHLO, Instruction: "multiply.3",
		Minimal: "HloModule m\nENTRY e {\n  ROOT a = f32[] parameter(0)\n}\n", Instructions: 1, Base: gate.Right, Head: gate.Wrong, Confirmed: "3 of 3", Detail: "3 of 12 elements of output 0 outside the legal set"}
}

// clean is a result without findings.
func clean() *gate.Result {
	return &gate.Result{Schema: gate.Schema, Verdict: gate.Pass, Reasons: []string{"no new finding in 1 case"}, Seed: 1,
		Base:   gate.Build{Spec: "base.so", ID: "sha256:0", Kind: "executable", Platform: "cpu", API: "0.106"},
		Head:   gate.Build{Spec: "head.so", ID: "sha256:1", Kind: "executable", Platform: "cpu", API: "0.106"},
		Passes: []gate.PassResult{}, Totals: gate.Totals{Cases: 1, Executed: 1, JudgedElements: 12},
		Cases: []gate.CaseResult{{ID: "clamp", Outcome: gate.CaseOK, Base: gate.Right, Head: gate.Right, Hash: strings.Repeat("0", 64),
			Streams: []gate.StreamResult{{Name: "own", Flags: gate.ComparisonFlags, Base: gate.Right, Head: gate.Right, Judged: 12}}}},
		Findings:   []gate.Finding{},
		Statistics: gate.Statistics{Cells: []gate.Cell{}, Null: gate.Null{Variants: []gate.NullVariant{}, Alarmed: []string{}, Excluded: []string{}, Interval: [2]float64{0, 1}}}}
}

// shell is the runner's side of a job.
type shell struct {
	env map[string]string
	log bytes.Buffer
	dir string
}

func newShell(t *testing.T, event string) *shell {
	t.Helper()
	s := &shell{dir: t.TempDir(), env: map[string]string{
		"GITHUB_EVENT_NAME": event, "GITHUB_REPOSITORY": standin.Owner + "/" + standin.Repo, "GITHUB_SHA": headSHA, "GITHUB_REF": "refs/heads/main",
		"GITHUB_RUN_ID": "42", "GITHUB_RUN_ATTEMPT": "1", "GITHUB_SERVER_URL": "https://github.com"}}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"} {
		s.env[name] = filepath.Join(s.dir, name)
		if err := os.WriteFile(s.env[name], nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *shell) getenv(name string) string { return s.env[name] }

func (s *shell) job() *runner.Runner {
	return runner.New(runner.WithGetenv(s.getenv), runner.WithWriter(&s.log))
}

func (s *shell) file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(s.env[name])
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// outputs reads GITHUB_OUTPUT as the runner does: NAME<<DELIMITER blocks.
func (s *shell) outputs(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	lines := strings.Split(s.file(t, "GITHUB_OUTPUT"), "\n")
	for i := 0; i < len(lines); i++ {
		name, delimiter, ok := strings.Cut(lines[i], "<<")
		if !ok {
			if k, v, ok := strings.Cut(lines[i], "="); ok {
				out[k] = v
			}
			continue
		}
		var value []string
		for i++; i < len(lines) && lines[i] != delimiter; i++ {
			value = append(value, lines[i])
		}
		out[name] = strings.Join(value, "\n")
	}
	return out
}

// noWait is a clock on which waits take no time; it remembers them.
type noWait struct{ waited []time.Duration }

func (n *noWait) sleep(ctx context.Context, d time.Duration) error {
	n.waited = append(n.waited, d)
	return ctx.Err()
}

var epoch = time.Unix(1_800_000_000, 0)

func connect(t *testing.T, s nethttp.RoundTripper, clock *noWait) *action.API {
	t.Helper()
	api, err := action.NewAPI(&action.Retry{Next: s, Now: func() time.Time { return epoch }, Sleep: clock.sleep, Longest: time.Minute}, "https://api.github.com", "token", standin.Owner, standin.Repo)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// noGit is a checkout without history.
type noGit struct{}

func (noGit) Diff(context.Context, string, string) ([]byte, error) {
	return nil, errors.New("fatal: bad object")
}

// gitDiff is a checkout with one diff.
type gitDiff string

func (g gitDiff) Diff(context.Context, string, string) ([]byte, error) { return []byte(g), nil }

// gives is a gate with a fixed answer that says something on the way.
func gives(r *gate.Result, err error) func(context.Context, action.Change, io.Writer) (*gate.Result, error) {
	return func(_ context.Context, _ action.Change, log io.Writer) (*gate.Result, error) {
		fmt.Fprint(log, "::set-output name=verdict::pass\n::error::no newline")
		return r, err
	}
}

func pullPayload(t *testing.T, event string, more map[string]any) []byte {
	t.Helper()
	set := map[string]any{"number": number, "pull_request.number": number, "pull_request.head.sha": headSHA, "pull_request.base.sha": baseSHA,
		"pull_request.head.repo.id": standin.RepoID, "pull_request.base.repo.id": standin.RepoID}
	maps.Copy(set, more)
	if _, gone := more["pull_request.head.repo"]; gone {
		delete(set, "pull_request.head.repo.id")
	}
	return standin.Payload(t, event, set)
}
