package action_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/passgate/passgate/action"
	"github.com/passgate/passgate/action/standin"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

var allVerdicts = []gate.Verdict{gate.Blocked, gate.Inconclusive, gate.NotExercised}

// TestEventMatrix: every event ends with one verdict, and the verdict is said in
// the comment, the check and the exit code as far as the token goes.
func TestEventMatrix(t *testing.T) {
	notExercised := clean()
	notExercised.Verdict, notExercised.Reasons = gate.NotExercised, []string{"none of the 1 passes in focus changed any of 1 case"}
	interrupted := clean()
	interrupted.Verdict, interrupted.Reasons = gate.Inconclusive, []string{"interrupted: 4 cases of 5 not judged"}
	noDevice := errors.New("build head.so does not start: no device found")
	ours := reports.Marker + "\n## passgate: blocked\n\n<!-- passgate:history -->\n- " + olderAt + ": blocked, 3 new\n- " + headSHA + ": inconclusive, 0 new\n"

	for _, row := range []struct {
		name    string
		event   string         // of the payloads
		set     map[string]any // in the payload
		env     map[string]string
		result  *gate.Result
		err     error
		server  func(*standin.Server)
		cancel  bool
		git     action.Git
		noToken bool

		verdict    gate.Verdict
		code       int
		check      string // conclusion; "" for none
		comments   []string
		edited     bool
		commentHas []string
		log        []string
		source     string // in the reasons
		focus      int    // changed files
	}{
		{name: "pull request, regression", event: "pull_request.opened", result: blocked(),
			verdict: gate.Blocked, code: 1, check: "failure", comments: []string{bot}, commentHas: []string{"blocked", "algsimp", "History: 1 push", headSHA}, source: "1 changed file, from GitHub", focus: 1},
		{name: "pull request, clean", event: "pull_request.opened", result: clean(),
			verdict: gate.Pass, check: "success", comments: []string{bot}, commentHas: []string{"passgate: pass"}, source: "from GitHub", focus: 1},
		{name: "next push, still broken", event: "pull_request.synchronize", result: blocked(),
			server:  func(s *standin.Server) { s.Comments = []standin.Comment{{ID: 5, Author: bot, Body: ours}} },
			verdict: gate.Blocked, code: 1, check: "failure", comments: []string{bot}, edited: true, commentHas: []string{"History: 2 pushes", olderAt}, focus: 1},
		{name: "next push, repaired", event: "pull_request.synchronize", result: clean(),
			server:  func(s *standin.Server) { s.Comments = []standin.Comment{{ID: 5, Author: bot, Body: ours}} },
			verdict: gate.Pass, check: "success", comments: []string{bot}, edited: true, commentHas: []string{"**Resolved:** " + olderAt + " was blocked with 3 new"}, focus: 1},
		{name: "run again", event: "pull_request.synchronize", env: map[string]string{"GITHUB_RUN_ATTEMPT": "2"}, result: blocked(),
			server: func(s *standin.Server) {
				s.Comments = []standin.Comment{{ID: 5, Author: bot, Body: reports.Marker + "\n<!-- passgate:history -->\n- " + headSHA + ": inconclusive, 0 new\n"}}
			},
			verdict: gate.Blocked, code: 1, check: "failure", comments: []string{bot}, edited: true, commentHas: []string{"History: 1 push<", headSHA + ": blocked, 1 new"}, focus: 1},
		{name: "draft", event: "pull_request.converted_to_draft", set: map[string]any{"pull_request.draft": true}, result: blocked(),
			verdict: gate.Blocked, code: 1, check: "failure", comments: []string{bot}, focus: 1},
		{name: "fork, read-only token", event: "pull_request.opened", set: map[string]any{"pull_request.head.repo.id": standin.ForkID}, result: blocked(),
			server:  func(s *standin.Server) { s.ReadOnly = true },
			verdict: gate.Blocked, code: 1, log: []string{"no comment: the token of a fork", "no check: the token of a fork", "::error file=" + algsimp.Name + ",line=41::"}, focus: 1},
		{name: "fork whose repository is gone", event: "pull_request.opened", set: map[string]any{"pull_request.head.repo": nil}, result: clean(),
			server:  func(s *standin.Server) { s.ReadOnly = true },
			verdict: gate.Pass, log: []string{"no check: the token of a fork"}, focus: 1},
		{name: "own branch, read-only token", event: "pull_request.opened", result: clean(),
			server:  func(s *standin.Server) { s.ReadOnly = true },
			verdict: gate.Pass, log: []string{"::warning::no comment: the token may not"}, focus: 1},
		{name: "no token at all", event: "pull_request.opened", result: blocked(), noToken: true, git: gitDiff("diff --git a/" + algsimp.Name + " b/" + algsimp.Name + "\n--- a/" + algsimp.Name + "\n+++ b/" + algsimp.Name + "\n@@ -1 +7 @@\n-a\n+b\n"),
			verdict: gate.Blocked, code: 1, source: "from git: there is no token", log: []string{"line=7::"}, focus: 1},
		{name: "merge queue", event: "merge_group.checks_requested", set: map[string]any{"merge_group.head_sha": headSHA, "merge_group.base_sha": baseSHA}, result: blocked(),
			verdict: gate.Blocked, code: 1, check: "failure", source: "from GitHub", focus: 1},
		{name: "push", event: "push", set: map[string]any{"before": baseSHA, "after": headSHA}, result: clean(),
			verdict: gate.Pass, check: "success", source: "from GitHub", focus: 1},
		{name: "push of a new branch", event: "push", set: map[string]any{"before": strings.Repeat("0", 40), "after": headSHA}, result: clean(),
			verdict: gate.Pass, check: "success", source: "push names no change"},
		{name: "by hand", event: "workflow_dispatch", result: clean(),
			verdict: gate.Pass, check: "success", source: "workflow_dispatch names no change"},
		{name: "schedule", event: "schedule", result: blocked(),
			verdict: gate.Blocked, code: 1, check: "failure", source: "schedule names no change"},
		{name: "no affected pass", event: "pull_request.opened", result: clean(),
			server: func(s *standin.Server) {
				s.Files = []standin.File{{Name: "docs/index.md", Patch: "@@ -1 +1 @@\n-a\n+b\n"}}
			},
			verdict: gate.Pass, check: "success", comments: []string{bot}, source: "1 changed file", focus: 1},
		{name: "passes that did not fire", event: "pull_request.opened", result: notExercised,
			verdict: gate.NotExercised, code: 4, check: "action_required", comments: []string{bot}, commentHas: []string{"not exercised"}, focus: 1},
		{name: "device missing", event: "pull_request.opened", err: noDevice,
			verdict: gate.Inconclusive, code: 3, check: "action_required", comments: []string{bot}, commentHas: []string{"inconclusive", "no device found"}, focus: 1},
		{name: "cancelled with a partial result", event: "pull_request.opened", result: interrupted, cancel: true,
			verdict: gate.Inconclusive, code: 3, check: "cancelled", comments: []string{bot}, commentHas: []string{"inconclusive"}, focus: 1},
		{name: "cancelled with nothing", event: "pull_request.opened", err: context.Canceled, cancel: true,
			verdict: gate.Inconclusive, code: 3, check: "cancelled", comments: []string{bot}, commentHas: []string{"interrupted"}, focus: 1},
		{name: "cancelled after a block", event: "pull_request.opened", result: blocked(), cancel: true,
			verdict: gate.Blocked, code: 1, check: "failure", comments: []string{bot}, focus: 1},
		{name: "the pull request has moved on", event: "pull_request.opened", result: blocked(),
			server:  func(s *standin.Server) { s.Pull.Head = olderAt },
			verdict: gate.Blocked, code: 1, check: "failure", log: []string{"no comment: the pull request has a newer head"}, focus: 1},
		{name: "GitHub is down", event: "pull_request.opened", result: blocked(), git: noGit{},
			server: func(s *standin.Server) {
				s.Fault = func(string, string, int) *standin.Fault { return &standin.Fault{Status: 503} }
			},
			verdict: gate.Blocked, code: 1, source: "what changed is unknown", log: []string{"::warning::no comment", "::warning::no check"}},
		{name: "more files than GitHub lists", event: "pull_request.opened", result: clean(),
			git: gitDiff("diff --git a/docs/x.md b/docs/x.md\nold mode 100644\nnew mode 100755\ndiff --git a/" + algsimp.Name + " b/" + algsimp.Name + "\n--- a/" + algsimp.Name + "\n+++ b/" + algsimp.Name + "\n@@ -1 +1 @@\n-a\n+b\n"),
			server: func(s *standin.Server) {
				for range 3100 {
					s.Files = append(s.Files, standin.File{Name: "docs/x.md"})
				}
			},
			verdict: gate.Pass, check: "success", comments: []string{bot}, source: "2 changed files, from git: GitHub lists only 3000 files", focus: 2},
		{name: "rate limit that passes", event: "pull_request.opened", result: clean(),
			server: func(s *standin.Server) {
				s.Fault = func(_, _ string, nth int) *standin.Fault {
					if nth == 1 {
						return &standin.Fault{Status: 429, Header: map[string]string{"Retry-After": "3"}}
					}
					return nil
				}
			},
			verdict: gate.Pass, check: "success", comments: []string{bot}, focus: 1},
		{name: "answer to the comment is lost", event: "pull_request.opened", result: clean(),
			server: func(s *standin.Server) {
				s.Fault = func(method, path string, nth int) *standin.Fault {
					if method == "POST" && strings.HasSuffix(path, "/comments") && nth == 1 {
						return &standin.Fault{Status: 502, After: true}
					}
					return nil
				}
			},
			verdict: gate.Pass, check: "success", comments: []string{bot}, focus: 1},
		{name: "somebody else's comment with our marker", event: "pull_request.opened", result: blocked(),
			server: func(s *standin.Server) {
				s.Comments = []standin.Comment{{ID: 5, Author: "mallory", Body: reports.Marker + "\n## passgate: pass\n"}}
			},
			verdict: gate.Blocked, code: 1, check: "failure", comments: []string{"mallory", bot}, focus: 1},
		{name: "our other comment that quotes the marker", event: "pull_request.opened", result: blocked(),
			server: func(s *standin.Server) {
				s.Comments = []standin.Comment{{ID: 5, Author: bot, Body: "> " + reports.Marker}}
			},
			verdict: gate.Blocked, code: 1, check: "failure", comments: []string{bot, bot}, focus: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			name, _, _ := strings.Cut(row.event, ".")
			sh := newShell(t, name)
			for k, v := range row.env {
				sh.env[k] = v
			}
			server := standin.New(t)
			server.Pull = standin.Pull{Number: number, Head: headSHA, State: "open", HeadRepo: standin.RepoID}
			server.Files = []standin.File{algsimp}
			if row.server != nil {
				row.server(server)
			}
			var payload []byte
			switch name {
			case "pull_request":
				payload = pullPayload(t, row.event, row.set)
			case "schedule":
				payload = []byte(`{"schedule": "0 3 * * *"}`)
			default:
				payload = standin.Payload(t, row.event, row.set)
			}
			event, err := action.ReadEvent(sh.getenv, bytes.NewReader(payload))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			files := 0
			check := gives(row.result, row.err)
			cfg := action.Config{Event: event, Job: sh.job(), Git: noGit{}, ExitCode: func(error) int { return 3 },
				Check: func(ctx context.Context, c action.Change, log io.Writer) (*gate.Result, error) {
					files = len(c.Files)
					if row.cancel {
						cancel()
					}
					return check(ctx, c, log)
				},
				Base: "base.so", Head: "head.so", Out: filepath.Join(sh.dir, "out"), Author: bot, CheckName: "passgate report", Comment: true, FailOn: allVerdicts,
				Saying: func() (context.Context, context.CancelFunc) { return context.Background(), func() {} }}
			if row.git != nil {
				cfg.Git = row.git
			}
			clock := &noWait{}
			if !row.noToken {
				cfg.GitHub = connect(t, server, clock)
			}
			out, err := action.Run(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if out.Result.Verdict != row.verdict || out.Code != row.code {
				t.Errorf("verdict %s, exit code %d; want %s, %d", out.Result.Verdict, out.Code, row.verdict, row.code)
			}
			if got := sh.outputs(t)["verdict"]; got != string(row.verdict) {
				t.Errorf("output verdict is %q", got)
			}
			if !strings.Contains(sh.file(t, "GITHUB_STEP_SUMMARY"), "passgate: ") {
				t.Error("no job summary")
			}
			conclusion := ""
			if len(server.Checks) > 0 {
				c := server.Checks[len(server.Checks)-1]
				conclusion = c["conclusion"].(string)
				if c["status"] != "completed" || c["head_sha"] != headSHA || c["name"] != "passgate report" {
					t.Errorf("check %v", c)
				}
			}
			if conclusion != row.check || len(server.Checks) > 1 {
				t.Errorf("%d checks, the last with conclusion %q; want %q", len(server.Checks), conclusion, row.check)
			}
			var authors []string
			for _, c := range server.Comments {
				authors = append(authors, c.Author)
			}
			if strings.Join(authors, " ") != strings.Join(row.comments, " ") {
				t.Errorf("comments by %q, want %q", authors, row.comments)
			}
			if n := len(server.Comments); n > 0 {
				last := server.Comments[n-1]
				if (last.ID == 5) != row.edited {
					t.Errorf("comment %d is ours; edited in place: want %v", last.ID, row.edited)
				}
				for _, want := range row.commentHas {
					if !strings.Contains(last.Body, want) {
						t.Errorf("the comment lacks %q:\n%s", want, last.Body)
					}
				}
			}
			for _, want := range row.log {
				if !strings.Contains(sh.log.String(), want) {
					t.Errorf("the log lacks %q:\n%s", want, sh.log.String())
				}
			}
			if !strings.Contains(strings.Join(out.Result.Reasons, "\n"), row.source) {
				t.Errorf("reasons %q lack %q", out.Result.Reasons, row.source)
			}
			if files != row.focus {
				t.Errorf("the gate was told of %d changed files, want %d", files, row.focus)
			}
		})
	}
}

// TestEventsRefused: what passgate does not run on is an error, not a pass.
func TestEventsRefused(t *testing.T) {
	for _, row := range []struct {
		name, event, payload, want string
	}{
		{"pull_request_target", "pull_request_target", `{}`, "does not run on pull_request_target"},
		{"unknown", "issue_comment", `{}`, `does not run on "issue_comment"`},
		{"deleted branch", "push", `{"deleted": true}`, "deletes a branch"},
		{"no pull request", "pull_request", `{}`, "holds no pull request"},
		{"closed", "pull_request", `{"action": "closed", "pull_request": {"number": 1, "head": {"sha": "` + headSHA + `"}, "base": {"sha": "` + baseSHA + `"}}}`, "closed"},
		{"option for a commit", "pull_request", `{"pull_request": {"number": 1, "head": {"sha": "--upload-pack=x"}, "base": {"sha": "` + baseSHA + `"}}}`, "want 40 or 64 hex digits"},
		{"option for a base", "push", `{"after": "` + headSHA + `", "before": "--output=x"}`, "want 40 or 64 hex digits"},
		{"no JSON", "push", `<html>`, "not what GitHub sends"},
		{"too large", "push", `"` + strings.Repeat("x", 26<<20) + `"`, "more than"},
	} {
		t.Run(row.name, func(t *testing.T) {
			sh := newShell(t, row.event)
			_, err := action.ReadEvent(sh.getenv, strings.NewReader(row.payload))
			var refused *action.EventError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want an EventError with %q", err, row.want)
			}
		})
	}
}

// TestManyAnnotations: GitHub takes 50 annotations with a check, and shows ten of
// a step; the last one counts the others.
func TestManyAnnotations(t *testing.T) {
	many := blocked()
	many.Findings = nil
	for i := range 60 {
		many.Findings = append(many.Findings, finding(i))
	}
	server := standin.New(t)
	server.Pull = standin.Pull{Number: number, Head: headSHA, State: "open", HeadRepo: standin.RepoID}
	server.Files = []standin.File{algsimp}
	runOn(t, newShell(t, "pull_request"), server, pullPayload(t, "pull_request.opened", nil), many, nil)
	notes := server.Checks[0]["output"].(map[string]any)["annotations"].([]any)
	if last := notes[len(notes)-1].(map[string]any); len(notes) != 50 || !strings.HasPrefix(last["message"].(string), "11 more findings") {
		t.Errorf("%d annotations, the last is %v", len(notes), last)
	}
	sh := newShell(t, "pull_request")
	server.ReadOnly = true
	runOn(t, sh, server, pullPayload(t, "pull_request.opened", nil), many, nil)
	if n := strings.Count(sh.log.String(), "::error file="); n != 9 || !strings.Contains(sh.log.String(), "::warning::51 more annotations are in the report") {
		t.Errorf("%d annotations by commands:\n%s", n, sh.log.String())
	}
}
