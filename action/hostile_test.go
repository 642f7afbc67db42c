package action_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/passgate/passgate/action"
	"github.com/passgate/passgate/action/runner"
	"github.com/passgate/passgate/action/standin"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/reports"
)

// The hostile pack: what a pull request, a compiler under test, an artifact or
// another user can try. Each attack must end without privileged effect, forged
// verdict or hidden finding (DESIGN section 8, docs/threat-model.md).

// entry is one entry of a zip archive.
type entry struct {
	name string
	mode fs.FileMode
	data []byte
	raw  uint16 // method
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.raw != 0 {
			h.Method = e.raw
		}
		h.SetMode(e.mode | 0o644)
		var w io.Writer
		var err error
		if e.raw != 0 {
			h.UncompressedSize64, h.CompressedSize64 = uint64(len(e.data)), uint64(len(e.data))
			w, err = z.CreateRaw(h)
		} else {
			w, err = z.CreateHeader(h)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encode(t *testing.T, r *gate.Result) []byte {
	t.Helper()
	out, err := reports.Render(reports.JSON, r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// altered is a clean result with members set at the top.
func altered(t *testing.T, r *gate.Result, set map[string]any) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(encode(t, r), &m); err != nil {
		t.Fatal(err)
	}
	for k, v := range set {
		m[k] = v
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestHonestArtifact(t *testing.T) {
	for _, r := range []*gate.Result{clean(), blocked()} {
		got, err := action.OpenArtifact(archive(t, entry{name: "result.json", data: encode(t, r)}))
		if err != nil || got.Verdict != r.Verdict {
			t.Errorf("%s: got %v, %v", r.Verdict, got, err)
		}
	}
}

// TestHostileArtifacts: each is refused.
func TestHostileArtifacts(t *testing.T) {
	good := encode(t, clean())
	file := func(data []byte) []byte { return archive(t, entry{name: "result.json", data: data}) }
	change := func(f func(*gate.Result)) []byte {
		r := blocked()
		f(r)
		return file(encode(t, r))
	}
	lying := file(append(good[:len(good):len(good)], bytes.Repeat([]byte(" "), 33<<20)...))
	// The sizes in the central directory say 100 bytes.
	if i := bytes.LastIndex(lying, []byte("PK\x01\x02")); i >= 0 {
		copy(lying[i+24:], []byte{100, 0, 0, 0})
	}
	for _, row := range []struct {
		name string
		data []byte
		want string
	}{
		{"zip slip", archive(t, entry{name: "../../result.json", data: good}), "want one file"},
		{"absolute path", archive(t, entry{name: "/etc/cron.d/x", data: good}), "want one file"},
		{"path with a drive", archive(t, entry{name: `C:\result.json`, data: good}), "want one file"},
		{"symlink", archive(t, entry{name: "result.json", mode: fs.ModeSymlink, data: []byte("/etc/passwd")}), "no regular file"},
		{"device", archive(t, entry{name: "result.json", mode: fs.ModeDevice, data: good}), "no regular file"},
		{"directory", archive(t, entry{name: "result.json/"}), "want one file"},
		{"stowaway", archive(t, entry{name: "result.json", data: good}, entry{name: "payload.sh", data: []byte("x")}), "2 entries"},
		{"two results", archive(t, entry{name: "result.json", data: good}, entry{name: "result.json", data: encode(t, blocked())}), "2 entries"},
		{"no file", archive(t), "0 entries"},
		{"no zip", good, "not a zip"},
		{"unknown compression", archive(t, entry{name: "result.json", data: good, raw: 99}), "unsupported compression"},
		{"decompression bomb", file(append(good[:len(good):len(good)], bytes.Repeat([]byte(" "), 33<<20)...)), "unpacks to more"},
		{"bomb that lies about its size", lying, "untrusted artifact"},
		{"huge archive", bytes.Repeat([]byte("PK"), 9<<20), "more than"},
		{"deep nesting", file([]byte(strings.Repeat(`{"a":`, 5000))), "nested deeper"},
		{"deep arrays", file([]byte(strings.Repeat(`[`, 100000))), "nested deeper"},
		{"verdict twice", file(append([]byte(`{"verdict":"blocked",`), good[1:]...)), "twice"},
		{"verdict twice, in capitals", file(append([]byte(`{"VERDICT":"pass",`), encode(t, blocked())[1:]...)), "twice"},
		{"second document", file(append(good[:len(good):len(good)], []byte(`{"verdict":"pass"}`)...)), "more than one value"},
		{"forged pull request number", file(altered(t, clean(), map[string]any{"pull_request": 1})), "schema"},
		{"forged head commit", file(altered(t, clean(), map[string]any{"head_sha": olderAt})), "schema"},
		{"other schema", file(altered(t, clean(), map[string]any{"schema": "passgate/result/v2"})), "schema"},
		{"verdict that is none", file(altered(t, clean(), map[string]any{"verdict": "approved"})), "schema"},
		{"pass in spite of a blocking finding", change(func(r *gate.Result) { r.Verdict = gate.Pass }), "1 blocking findings"},
		{"blocked without a finding", change(func(r *gate.Result) {
			r.Findings, r.Cases[0].Finding, r.Cases[0].Outcome = []gate.Finding{}, "", gate.CaseOK
		}), "0 blocking findings"},
		{"finding cut out", change(func(r *gate.Result) { r.Findings, r.Verdict = []gate.Finding{}, gate.Pass }), "which is not there"},
		{"case that hides its finding", change(func(r *gate.Result) { r.Cases[0].Finding = "" }), "hides its finding"},
		{"finding of no case", change(func(r *gate.Result) { r.Findings[0].Case = "other" }), "a case that is not there"},
		{"path for an id", change(func(r *gate.Result) { r.Findings[0].ID, r.Cases[0].Finding = "f-../../../x", "f-../../../x" }), "result.json"},
		{"one id twice", change(func(r *gate.Result) { r.Findings = append(r.Findings, r.Findings[0]) }), "two findings"},
		{"counts that lie", change(func(r *gate.Result) { r.Totals.Cases = 1000 }), "1000 cases counted"},
		{"negative counts", change(func(r *gate.Result) { r.Totals.JudgedElements = -1 }), "schema"},
		{"pass with nothing run", file(encode(t, func() *gate.Result { r := clean(); r.Totals.Executed = 0; return r }())), "nothing was run"},
		{"1 GB literal", change(func(r *gate.Result) { r.Findings[0].Minimal = strings.Repeat("1,", 200<<10) }), "a string of more than"},
		{"millions of values", file([]byte("[" + strings.Repeat("0,", 3<<20) + "0]")), "more than"},
		{"no UTF-8", file(bytes.Replace(good, []byte("clamp"), []byte("cl\xffmp"), 1)), "not UTF-8"},
		{"number without end", file(bytes.Replace(good, []byte(`"seed": 1`), []byte(`"seed": 1e999`), 1)), "result.json"},
		{"cut", file(good[:len(good)/2]), "result.json"},
		{"empty", file(nil), "ends too early"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := action.OpenArtifact(row.data)
			var refused *action.ArtifactError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want an ArtifactError with %q", err, row.want)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes: it quotes the attacker", len(err.Error()))
			}
		})
	}
}

const workflow = ".github/workflows/passgate.yml"

// TestHostilePublish: what a fork can do to the privileged half.
func TestHostilePublish(t *testing.T) {
	for _, row := range []struct {
		name    string
		payload map[string]any
		event   string
		result  *gate.Result
		server  func(*standin.Server)
		// What must be said, on pull request 7 at headSHA only.
		check    string
		has      string
		lacks    string
		err      string // and then nothing is said
		comments int
	}{
		{name: "honest, blocked", result: blocked(), check: "failure", has: "algsimp", comments: 1},
		{name: "honest, clean", result: clean(), server: func(s *standin.Server) { s.Run.Conclusion = "success" }, check: "success", comments: 1},
		{name: "payload names another pull request", payload: map[string]any{"workflow_run.pull_requests": []any{map[string]any{"number": 1}}, "workflow_run.head_sha": olderAt}, result: blocked(), check: "failure", comments: 1},
		{name: "run of another workflow", result: blocked(), server: func(s *standin.Server) { s.Run.Path = ".github/workflows/evil.yml" }, err: "is of"},
		{name: "workflow's name with a ref", result: blocked(), server: func(s *standin.Server) { s.Run.Path = workflow + "@refs/heads/main" }, check: "failure", comments: 1},
		{name: "run that goes on", result: blocked(), server: func(s *standin.Server) { s.Run.Status = "in_progress" }, err: "not completed"},
		{name: "run of a push", result: blocked(), server: func(s *standin.Server) { s.Run.Event = "push" }},
		{name: "other event", event: "pull_request", result: blocked(), err: "runs on workflow_run"},
		{name: "requested, not completed", payload: map[string]any{"action": "requested"}, result: blocked(), err: "completed"},
		{name: "same branch name in another fork", result: blocked(), server: func(s *standin.Server) { s.Run.HeadRepo = 666 }},
		{name: "old run, new head", result: clean(), server: func(s *standin.Server) { s.Pull.Head = olderAt; s.Run.Conclusion = "success" }},
		{name: "closed pull request", result: blocked(), server: func(s *standin.Server) { s.Pull.State = "closed" }},
		{name: "workflow changed by the pull request", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion = "success"
			s.Files = append(s.Files, standin.File{Name: workflow})
		}, check: "action_required", has: "changes .github/workflows/passgate.yml", comments: 1},
		{name: "workflow moved away", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion = "success"
			s.Files = append(s.Files, standin.File{Name: "x.yml", OldName: workflow, Status: "renamed"})
		}, check: "action_required", comments: 1},
		{name: "workflow hidden behind 3,000 files", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion = "success"
			for range 3000 {
				s.Files = append(s.Files, standin.File{Name: "docs/x.md"})
			}
			s.Files = append(s.Files, standin.File{Name: workflow})
		}, check: "action_required", has: "more than 3000 files", comments: 1},
		{name: "pass from a job that failed", result: clean(), check: "action_required", has: "the job ended with", comments: 1},
		{name: "blocked from a job that succeeded", result: blocked(), server: func(s *standin.Server) { s.Run.Conclusion = "success" }, check: "action_required", has: "the job ended with", comments: 1},
		{name: "no artifact", server: func(s *standin.Server) { s.Artifacts = nil; s.Run.Conclusion = "success" }, check: "action_required", has: "left 0 artifacts", comments: 1},
		{name: "cancelled run without artifact", server: func(s *standin.Server) { s.Artifacts = nil; s.Run.Conclusion = "cancelled" }, check: "cancelled", comments: 1},
		{name: "artifact twice", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion = "success"
			s.Artifacts["passgate-result"] = append(s.Artifacts["passgate-result"], []byte("x"))
		}, check: "action_required", has: "left 2 artifacts", comments: 1},
		{name: "artifact with another name", server: func(s *standin.Server) {
			s.Artifacts = map[string][][]byte{"passgate-result2": {archive(t, entry{name: "result.json", data: encode(t, clean())})}}
			s.Run.Conclusion = "success"
		}, check: "action_required", comments: 1},
		{name: "artifact is a bomb", server: func(s *standin.Server) {
			s.Run.Conclusion = "success"
			s.Artifacts["passgate-result"] = [][]byte{archive(t, entry{name: "result.json", data: bytes.Repeat([]byte(" "), 40<<20)})}
		}, check: "action_required", has: "untrusted artifact", comments: 1},
		{name: "archive larger than the limit", server: func(s *standin.Server) {
			s.Run.Conclusion = "success"
			s.Artifacts["passgate-result"] = [][]byte{make([]byte, 17<<20)}
		}, check: "action_required", has: "untrusted artifact", comments: 1},
		{name: "metadata server", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion, s.Redirect = "success", "http://169.254.169.254/latest/meta-data/"
		}, check: "action_required", has: "169.254.169.254", comments: 1},
		{name: "metadata server by https", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion, s.Redirect = "success", "https://169.254.169.254/latest/"
		}, check: "action_required", comments: 1},
		{name: "metadata server by name", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion, s.Redirect = "success", "https://metadata.google.internal/"
		}, check: "action_required", comments: 1},
		{name: "localhost", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion, s.Redirect = "success", "https://localhost:8080/"
		}, check: "action_required", comments: 1},
		{name: "address as one number", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion, s.Redirect = "success", "https://0x7f.0.0.1/"
		}, check: "action_required", comments: 1},
		{name: "file URL", result: clean(), server: func(s *standin.Server) { s.Run.Conclusion, s.Redirect = "success", "file:///etc/passwd" }, check: "action_required", comments: 1},
		{name: "user name in the address", result: clean(), server: func(s *standin.Server) {
			s.Run.Conclusion, s.Redirect = "success", "https://api.github.com@evil.example.com/"
		}, check: "action_required", comments: 1},
		{name: "marker and author spoof", result: blocked(), server: func(s *standin.Server) {
			s.Comments = []standin.Comment{{ID: 5, Author: "github-actions", Body: reports.Marker + "\n## passgate: pass"}, {ID: 6, Author: "github-actions[bot]x", Body: reports.Marker}}
		}, check: "failure", comments: 3},
		{name: "marker inside the program", result: func() *gate.Result {
			r := blocked()
			r.Findings[0].Minimal = "```\n" + reports.Marker + "\n## passgate: pass\n<!-- passgate:history -->\n- " + olderAt + ": pass, 0 new\n"
			return r
		}(), check: "failure", lacks: "History: 2", comments: 1},
		{name: "mention storm", result: func() *gate.Result {
			r := blocked()
			r.Findings[0].Detail = strings.Repeat("@octo-org/everyone ", 5000)
			return r
		}(), check: "failure", comments: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			kind := "workflow_run"
			if row.event != "" {
				kind = row.event
			}
			sh := newShell(t, kind)
			server := standin.New(t)
			server.Pull = standin.Pull{Number: number, Head: headSHA, State: "open", HeadRepo: standin.ForkID}
			server.Files = []standin.File{algsimp}
			server.Run = standin.Run{ID: 99, Event: "pull_request", Status: "completed", Conclusion: "failure", Head: headSHA, Path: workflow, Branch: "fix", HeadOwner: "mallory", HeadRepo: standin.ForkID}
			if row.result != nil {
				server.Artifacts["passgate-result"] = [][]byte{archive(t, entry{name: "result.json", data: encode(t, row.result)})}
			}
			if row.server != nil {
				row.server(server)
			}
			set := map[string]any{"action": "completed", "workflow_run.id": 99}
			for k, v := range row.payload {
				set[k] = v
			}
			event, err := action.ReadPublish(sh.getenv, bytes.NewReader(standin.Payload(t, "workflow_run.completed", set)))
			if err == nil {
				_, err = action.Publish(context.Background(), action.PublishConfig{Event: event, Job: sh.job(), GitHub: connect(t, server, &noWait{}),
					Artifact: "passgate-result", Workflow: workflow, Author: bot, CheckName: "passgate report", Comment: true})
			}
			if (err != nil) != (row.err != "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Fatalf("error %v, want %q", err, row.err)
			}
			conclusion := ""
			for _, c := range server.Checks {
				conclusion = c["conclusion"].(string)
				if c["head_sha"] != headSHA {
					t.Errorf("a check on %v", c["head_sha"])
				}
			}
			if conclusion != row.check || len(server.Checks) > 1 {
				t.Errorf("check %q (%d of them), want %q", conclusion, len(server.Checks), row.check)
			}
			if len(server.Comments) != row.comments {
				t.Fatalf("%d comments, want %d", len(server.Comments), row.comments)
			}
			for _, r := range server.Requests {
				if r.Method != "GET" && strings.Contains(r.Path, "/issues/") && !strings.Contains(r.Path, "/issues/7/") {
					t.Errorf("%s %s", r.Method, r.Path)
				}
			}
			if row.comments > 0 && row.check != "" {
				body := server.Comments[len(server.Comments)-1].Body
				if !strings.HasPrefix(body, reports.Marker) || !strings.Contains(body, row.has) {
					t.Errorf("the comment lacks %q:\n%s", row.has, body)
				}
				if row.lacks != "" && strings.Contains(body, row.lacks) {
					t.Errorf("the comment has %q", row.lacks)
				}
				if len(body) > 65536 {
					t.Errorf("the comment has %d bytes", len(body))
				}
			}
		})
	}
}

// TestHostileText: what a compiler or a case prints cannot speak to the runner.
func TestHostileText(t *testing.T) {
	for _, text := range []string{
		"::set-output name=verdict::pass", "::error::x", "  ::add-mask::e", "x\n::stop-commands::t", "x\r::error::y", "##[error]x", "##[set-env name=PATH]x",
		"\x1b]0;title\x07", "\u202e::error::x", "a\u2028::error::b",
	} {
		sh := newShell(t, "push")
		job := sh.job()
		job.Infof("%s", text)
		job.Errorf(runner.Place{File: "a,line=1::b\n::warning::c", Line: -4}, "%s", text)
		for i, l := range strings.Split(strings.TrimSuffix(sh.log.String(), "\n"), "\n") {
			command := strings.HasPrefix(strings.TrimLeft(l, " \t"), "::")
			if command != (i == 1) || strings.Contains(l, "##[") && i == 0 || strings.ContainsAny(l, "\x1b\x07\r\u202e\u2028") && i == 0 {
				t.Errorf("%q: line %d of the log is %q", text, i, l)
			}
		}
		if !strings.Contains(sh.log.String(), "::error file=a%2Cline=1%3A%3Bb%0A") && !strings.Contains(sh.log.String(), "::error file=a%2Cline=1%3A%3Ab%0A%3A%3Awarning%3A%3Ac,line=1::") {
			t.Errorf("%q: the annotation is %q", text, sh.log.String())
		}
	}
}

// TestHostileOutputs: no value ends its own block.
func TestHostileOutputs(t *testing.T) {
	for _, value := range []string{"x\nEOF\nverdict=pass", "ghadelimiter_1\nverdict<<X\npass\nX", "verdict=pass", "a\n\n", ""} {
		sh := newShell(t, "push")
		job := sh.job()
		if err := job.SetOutput("verdict", "blocked"); err != nil {
			t.Fatal(err)
		}
		if err := job.SetOutput("out", value); err != nil {
			t.Fatal(err)
		}
		if got := sh.outputs(t); got["verdict"] != "blocked" || got["out"] != value || len(got) != 2 {
			t.Errorf("%q: outputs are %q", value, got)
		}
	}
	sh := newShell(t, "push")
	// A delimiter that an attacker could know.
	known := runner.New(runner.WithGetenv(sh.getenv), runner.WithWriter(&sh.log), runner.WithRandom(strings.NewReader(strings.Repeat("\x00", 64))))
	if err := known.SetOutput("out", "passgate-"+strings.Repeat("00", 16)+"\nverdict=pass"); err == nil {
		t.Error("a value with its own delimiter is written")
	}
	if err := sh.job().SetOutput("a=b\nverdict", "x"); err == nil {
		t.Error("an output with a line feed in its name is written")
	}
	if err := sh.job().AddStepSummary(strings.Repeat("x", 1<<20)); err == nil {
		t.Error("a summary of 1 MiB is written")
	}
}

// TestForeignTokens: the word that ends foreign text cannot be known before.
func TestForeignTokens(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		sh := newShell(t, "push")
		if err := sh.job().Foreign(func(w io.Writer) { fmt.Fprint(w, "::passgate-0000::\n::error::x") }); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(sh.log.String()), "\n")
		token := strings.TrimPrefix(lines[0], "::stop-commands::")
		if len(token) < 32 || seen[token] || lines[len(lines)-1] != "::"+token+"::" {
			t.Errorf("the log is %q", lines)
		}
		seen[token] = true
	}
}

// TestHostileHistory: only lines of our own form are read back.
func TestHostileHistory(t *testing.T) {
	for _, line := range []string{
		"- " + olderAt + ": pass, 0 new, [run](javascript:alert(1))",
		"- " + olderAt + ": pass, 0 new, [run](https://evil.example/)",
		"- " + olderAt + ": pass, 0 new @octo-org/everyone",
		"- " + olderAt + ": **approved**, 0 new",
		"- <img src=x>: pass, 0 new",
	} {
		server := standin.New(t)
		server.Pull = standin.Pull{Number: number, Head: headSHA, State: "open", HeadRepo: standin.RepoID}
		server.Files = []standin.File{algsimp}
		server.Comments = []standin.Comment{{ID: 5, Author: bot, Body: reports.Marker + "\n<!-- passgate:history -->\n" + line + "\n"}}
		sh := newShell(t, "pull_request")
		runOn(t, sh, server, pullPayload(t, "pull_request.opened", nil), blocked(), nil)
		if body := server.Comments[0].Body; !strings.Contains(body, "History: 1 push<") || strings.Contains(body, "evil") || strings.Contains(body, "<img") {
			t.Errorf("%q came through:\n%s", line, body)
		}
	}
}

// runOn runs the testing half with a fixed result.
func runOn(t *testing.T, sh *shell, server *standin.Server, payload []byte, r *gate.Result, change func(*action.Config)) *action.Outcome {
	t.Helper()
	event, err := action.ReadEvent(sh.getenv, bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	cfg := action.Config{Event: event, Job: sh.job(), Git: noGit{}, GitHub: connect(t, server, &noWait{}), ExitCode: func(error) int { return 3 }, Check: gives(r, nil),
		Base: "base.so", Head: "head.so", Out: filepath.Join(sh.dir, "out"), Author: bot, CheckName: "passgate report", Comment: true, FailOn: allVerdicts}
	if change != nil {
		change(&cfg)
	}
	out, err := action.Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// repository is a git checkout with a base and a head commit.
func repository(t *testing.T, base, head map[string]string) (dir, baseAt, headAt string) {
	t.Helper()
	dir = t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	for i, files := range []map[string]string{base, head} {
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if to, ok := strings.CutPrefix(text, "-> "); ok {
				os.Remove(path)
				if err := os.Symlink(to, path); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		git("add", "-A")
		git("commit", "-q", "--allow-empty", "-m", "x")
		if i == 0 {
			baseAt = git("rev-parse", "HEAD")
		}
	}
	return dir, baseAt, git("rev-parse", "HEAD")
}

// TestHostileCheckout: the repository under test cannot run or rule anything.
func TestHostileCheckout(t *testing.T) {
	ctx := context.Background()
	t.Run("external diff and textconv", func(t *testing.T) {
		dir, base, head := repository(t, map[string]string{"a.txt": "1\n", ".gitattributes": "*.txt diff=evil\n"}, map[string]string{"a.txt": "2\n"})
		bait := filepath.Join(t.TempDir(), "bait")
		for _, key := range []string{"diff.evil.textconv", "diff.evil.command", "diff.external"} {
			cmd := exec.Command("git", "config", key, "touch "+bait+"; cat")
			cmd.Dir = dir
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
		}
		diff, err := action.Checkout{Dir: dir}.Diff(ctx, base, head)
		if err != nil || !strings.Contains(string(diff), "\n+2\n") {
			t.Errorf("diff %q, %v", diff, err)
		}
		if _, err := os.Stat(bait); err == nil {
			t.Error("a program of the repository was run")
		}
	})
	t.Run("option for a commit", func(t *testing.T) {
		dir, base, _ := repository(t, nil, nil)
		bait := filepath.Join(dir, "bait")
		if _, err := (action.Checkout{Dir: dir}).Diff(ctx, "--output="+bait, base); err == nil {
			t.Error("no error")
		}
		if _, _, err := (action.Checkout{Dir: dir}).File(ctx, "--help", "x"); err == nil {
			t.Error("no error")
		}
	})
	t.Run("policy weakened by the change", func(t *testing.T) {
		dir, base, _ := repository(t, map[string]string{"passgate.yaml": "version: 1\n"}, map[string]string{"passgate.yaml": "version: 1\nblock: []\n"})
		got, ok, err := action.Checkout{Dir: dir}.File(ctx, base, "passgate.yaml")
		if err != nil || !ok || string(got) != "version: 1\n" {
			t.Errorf("got %q, %v, %v", got, ok, err)
		}
	})
	t.Run("policy is a link", func(t *testing.T) {
		dir, base, _ := repository(t, map[string]string{"passgate.yaml": "-> /etc/passwd"}, nil)
		if got, ok, _ := (action.Checkout{Dir: dir}).File(ctx, base, "passgate.yaml"); ok {
			t.Errorf("got %q", got)
		}
	})
	t.Run("policy is a YAML bomb", func(t *testing.T) {
		bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
		for i := 'b'; i < 'k'; i++ {
			bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
		}
		if _, err := policy.Parse("passgate.yaml", []byte(bomb)); err == nil {
			t.Error("no error")
		}
		if _, err := policy.Parse("passgate.yaml", []byte(strings.Repeat("{a: ", 2000))); err == nil {
			t.Error("no error")
		}
	})
	build := func(t *testing.T, command, output string) (string, string, error) {
		dir, base, head := repository(t, map[string]string{"a": "1"}, map[string]string{"a": "2"})
		b := &action.Builds{Event: &action.Event{Kind: action.PullRequest, Base: base, Head: head}, Git: action.Checkout{Dir: dir}, Dir: t.TempDir(), Command: command, Output: output,
			Environ: append(os.Environ(), "GITHUB_TOKEN=s3cret", "PASSGATE_TOKEN=s3cret", "ACTIONS_RUNTIME_TOKEN=s3cret", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=s3cret", "INPUT_TOKEN=s3cret",
				"GITHUB_ENV=/f", "GITHUB_PATH=/f", "GITHUB_OUTPUT=/f", "GITHUB_STATE=/f", "GITHUB_STEP_SUMMARY=/f")}
		var log bytes.Buffer
		spec, err := b.Spec(ctx, action.BaseSide, "", &log)
		return spec, log.String(), err
	}
	t.Run("honest build", func(t *testing.T) {
		spec, _, err := build(t, "cp a out.so", "out.so")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(spec); string(got) != "1" {
			t.Errorf("base was built from %q", got)
		}
	})
	t.Run("secrets and runner files in the build's environment", func(t *testing.T) {
		_, log, err := build(t, "env; cp a out.so", "out.so")
		if err != nil || strings.Contains(log, "s3cret") || strings.Contains(log, "=/f") || !strings.Contains(log, "PASSGATE_SIDE=base") {
			t.Errorf("%v: %s", err, log)
		}
	})
	t.Run("build output is a link out", func(t *testing.T) {
		if spec, _, err := build(t, "ln -s /etc/passwd out.so", "out.so"); err == nil {
			t.Errorf("got %s", spec)
		}
	})
	t.Run("build output outside", func(t *testing.T) {
		for _, output := range []string{"../../x.so", "/lib/x.so"} {
			if spec, _, err := build(t, "true", output); err == nil {
				t.Errorf("got %s", spec)
			}
		}
	})
	t.Run("artifact path traversal", func(t *testing.T) {
		b := &action.Builds{Event: &action.Event{}, Dir: t.TempDir()}
		for _, in := range []string{"artifact:x/../../etc/passwd", "artifact:x//etc/passwd", "artifact:../x/y", "artifact:x@1;id/y", "artifact:x"} {
			var refused *action.EventError
			if spec, err := b.Spec(ctx, action.HeadSide, in, io.Discard); !errors.As(err, &refused) {
				t.Errorf("%s: %s, %v", in, spec, err)
			}
		}
	})
	t.Run("build as an artifact", func(t *testing.T) {
		server := standin.New(t)
		server.Artifacts["plugin"] = [][]byte{archive(t, entry{name: "lib/x.so", data: []byte("elf")}, entry{name: "link.so", mode: fs.ModeSymlink, data: []byte("/etc/passwd")})}
		b := &action.Builds{Event: &action.Event{RunID: 42}, GitHub: connect(t, server, &noWait{}), Dir: t.TempDir()}
		spec, err := b.Spec(ctx, action.HeadSide, "artifact:plugin/lib/x.so", io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(spec); string(got) != "elf" {
			t.Errorf("got %q", got)
		}
		for _, in := range []string{"artifact:plugin/link.so", "artifact:plugin/none.so", "artifact:none/x.so"} {
			if spec, err := b.Spec(ctx, action.BaseSide, in, io.Discard); err == nil {
				t.Errorf("%s: got %s", in, spec)
			}
		}
	})
}
