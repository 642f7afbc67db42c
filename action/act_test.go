package action_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/builds"
)

// actVersion is the runner that executes workflows on this machine.
const actVersion = "github.com/nektos/act@v0.2.89"

// The foreign actions of the workflows, without the network: Go is here already,
// and artifacts are directories. actions/checkout is act's own.
var foreignActions = map[string]string{
	"actions/setup-go": `
inputs: {go-version: {required: true}}
runs:
  using: composite
  steps:
    - {shell: bash, run: go version}
`,
	"actions/upload-artifact": `
inputs: {name: {required: true}, path: {required: true}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {NAME: "${{ inputs.name }}", FROM: "${{ inputs.path }}"}
      run: |
        mkdir -p "$KEPT/$NAME"
        if [ -d "$FROM" ]; then cp -r "$FROM/." "$KEPT/$NAME/"; else cp "$FROM" "$KEPT/$NAME/"; fi
`,
	"actions/download-artifact": `
inputs: {pattern: {required: true}, path: {required: true}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {PATTERN: "${{ inputs.pattern }}", TO: "${{ inputs.path }}"}
      run: mkdir -p "$TO" && cp -r "$KEPT"/$PATTERN "$TO/"
`,
}

const passFile = "xla/hlo/transforms/simplifiers/algebraic_simplifier.cc"

// hosted is a machine that runs workflows in act's host mode.
type hosted struct {
	dir, plugins, kept string
	flags              []string
}

func newHosted(t *testing.T) *hosted {
	t.Helper()
	dir := t.TempDir()
	h := &hosted{dir: dir, plugins: filepath.Join(dir, "plugins"), kept: filepath.Join(dir, "kept")}
	install := exec.Command("go", "install", actVersion)
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("act: %v: %s", err, out)
	}
	self, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	h.flags = []string{"--local-repository", "passgate/passgate@PASSGATE_COMMIT=" + self}
	uses := regexp.MustCompile(`uses: (actions/[a-z-]+)@([0-9a-f]{40})`)
	for _, file := range workflows(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			if steps, ok := foreignActions[m[1]]; ok {
				place(t, filepath.Join(dir, m[1], "action.yml"), "name: stand-in\ndescription: stand-in\n"+steps)
				h.flags = append(h.flags, "--local-repository", m[1]+"@"+m[2]+"="+filepath.Join(dir, m[1]))
			}
		}
	}
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"xla-2026-06", "jax-0.11.2"} {
		spec, err := builds.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := store.Fetch(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(b.Plugin, filepath.Join(h.plugins, name)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func place(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run executes a workflow for a pull request that changes the pass file from one
// text to another; workflow is the path of an example and edits what is different
// on this machine. It returns act's log, and whether every job succeeded.
func (h *hosted) run(t *testing.T, from, to, workflow string, edits ...string) (string, bool) {
	t.Helper()
	text, err := os.ReadFile(workflow)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(edits); i += 2 {
		if !regexp.MustCompile(edits[i]).Match(text) {
			t.Fatalf("%s has no %s", workflow, edits[i])
		}
		text = regexp.MustCompile(edits[i]).ReplaceAll(text, []byte(edits[i+1]))
	}
	example, err := os.ReadFile("../examples/cases/arctangent-vector.case")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(h.kept); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		".github/workflows/w.yml":        string(text),
		"tests/passgate/arctangent.case": string(example),
		// Something for the changed pass to do: x * 1.
		"tests/passgate/one.hlo": "HloModule one\nENTRY e {\n  x = s32[4] parameter(0)\n  one = s32[] constant(1)\n  ones = s32[4] broadcast(one), dimensions={}\n  ROOT r = s32[4] multiply(x, ones)\n}\n",
		passFile:                 from,
	}
	dir, base, head := repository(t, files, map[string]string{passFile: to})
	git := exec.Command("git", "remote", "add", "origin", "https://github.com/o/r.git")
	git.Dir = dir
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	event, _ := json.Marshal(map[string]any{"action": "opened", "number": number, "pull_request": map[string]any{"number": number,
		"head": map[string]any{"sha": head, "ref": "fix", "repo": map[string]any{"id": 1}}, "base": map[string]any{"sha": base, "ref": "main", "repo": map[string]any{"id": 1}}}})
	payload := filepath.Join(h.dir, "event.json")
	place(t, payload, string(event))
	cmd := exec.Command(filepath.Join(h.dir, "act"), append([]string{"pull_request", "-W", ".github/workflows/w.yml", "-e", payload, "-P", "ubuntu-24.04=-self-hosted", "--concurrent-jobs", "1",
		"--action-cache-path", filepath.Join(h.dir, "cache"), "--use-new-action-cache", "--action-offline-mode", "--no-cache-server"}, h.flags...)...)
	cmd.Dir = dir
	// Nothing is fetched: neither modules nor actions nor builds.
	cmd.Env = append(os.Environ(), "GOPROXY=off", "PLUGINS="+h.plugins, "KEPT="+h.kept)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err = cmd.Run()
	return log.String(), err == nil
}

// result is a result that a job has kept as an artifact.
func (h *hosted) result(t *testing.T, artifact string) *gate.Result {
	t.Helper()
	data, err := fs.ReadFile(os.DirFS(h.kept), artifact+"/result.json")
	if err != nil {
		t.Fatal(err)
	}
	var r gate.Result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// TestActionInAct runs the example workflows whole, as a runner of GitHub does,
// with act in host mode and without the network: a pull request whose change of a
// pass makes a regression is blocked, one that changes nothing of the compiler is
// green, and shards give one verdict.
func TestActionInAct(t *testing.T) {
	h := newHosted(t)
	// "Building" the compiler takes the build that the pass file names.
	build := []string{`build-command: .*`, `build-command: cp "$$PLUGINS/$$(tail -n 1 ` + passFile + `)" plugin.so`, `budget: .*`, `budget: 0s`,
		// What the step hands to later ones.
		`(?s)- name: Gate\n`, "- name: Gate\n        id: gate\n", `\z`, "      - if: always()\n        env: {VERDICT: \"$${{ steps.gate.outputs.verdict }}\", NEWS: \"$${{ steps.gate.outputs.new-findings }}\", REPORT: \"$${{ steps.gate.outputs.report }}\"}\n" +
			"        run: test -f \"$$REPORT\" && echo \"said $$VERDICT with $$NEWS new\"\n"}
	for _, row := range []struct {
		name, from, to string
		green          bool
		verdict        gate.Verdict
		said           string
	}{
		{"a regression", "xla-2026-06\n", "jax-0.11.2\n", false, gate.Blocked, "said blocked with 1 new"},
		{"a build against itself", "xla-2026-06\n", "// a comment\nxla-2026-06\n", true, gate.Pass, "said pass with 0 new"},
	} {
		t.Run(row.name, func(t *testing.T) {
			log, green := h.run(t, row.from, row.to, "../examples/workflows/pull-request.yml", build...)
			if green != row.green || !strings.Contains(log, row.said) {
				t.Fatalf("success %v, want %v and %q:\n%s", green, row.green, row.said, log)
			}
			for _, artifact := range []string{"passgate-result", "passgate-report"} {
				if r := h.result(t, artifact); r.Verdict != row.verdict || len(r.Passes) == 0 || r.Passes[0].Name != "algsimp" {
					t.Errorf("%s: verdict %s, passes in focus %v", artifact, r.Verdict, r.Passes)
				}
			}
			if r := h.result(t, "passgate-result"); r.Head.Spec != "head.so" || !strings.HasPrefix(r.Head.Source, "plugin.so after `cp ") {
				t.Errorf("head is %s, %q: no reader can have that", r.Head.Spec, r.Head.Source)
			}
			for _, name := range []string{"report.html", "comment.md", "results.sarif", "junit.xml"} {
				if _, err := os.Stat(filepath.Join(h.kept, "passgate-report", name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("shards", func(t *testing.T) {
		log, green := h.run(t, "xla-2026-06\n", "jax-0.11.2\n", "../examples/workflows/shards.yml", `shard: \[.*\]`, "shard: [1, 2]", `(\$\{\{ matrix.shard \}\})/4`, "$1/2", `budget: .*`, "budget: 0s")
		if green {
			t.Fatalf("the jobs succeed:\n%s", log)
		}
		whole := h.result(t, "passgate-report")
		if whole.Verdict != gate.Blocked || len(whole.Cases) != 2 || len(whole.Missing) > 0 {
			t.Errorf("verdict %s on %d cases, missing %q\n%s", whole.Verdict, len(whole.Cases), whole.Missing, log)
		}
		for _, shard := range []string{"1", "2"} {
			if r := h.result(t, "passgate-shard-"+shard); r.Shard != shard+"/2" || len(r.Cases) != 1 {
				t.Errorf("shard %q has %d cases", r.Shard, len(r.Cases))
			}
		}
	})
}
