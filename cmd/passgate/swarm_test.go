package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/passgate/passgate/swarm"
	"github.com/passgate/passgate/xla/builds"
)

// plugin is the file of a build.
func plugin(t *testing.T, spec string) string {
	t.Helper()
	s, err := builds.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.Fetch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return b.Plugin
}

// TestSwarmExample runs the example of docs/swarm.md: scripted replies, real
// builds. A stressor's program exposes a regression, a report in prose becomes a
// smallest program, wrong claims are refused and corrected, a wrong patch is
// refused and the right one accepted. Then a draft is published.
func TestSwarmExample(t *testing.T) {
	example, err := filepath.Abs("../../examples/swarm")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("GOOD_PLUGIN", plugin(t, older))
	t.Setenv("BAD_PLUGIN", plugin(t, newer))
	t.Setenv("OPENAI_API_KEY", "sk-canary-0123456789abcdef") // must be nowhere
	code, output := passgate(t, dir, "swarm", "run", "--base", older, "--head", newer, "--passes", "dot-library-rewriter",
		"--report", filepath.Join(example, "report.txt"), "--checkout", filepath.Join(example, "checkout"),
		"--build-command", "sh build.sh", "--build-env", "GOOD_PLUGIN", "--build-env", "BAD_PLUGIN",
		"--provider", "script", "--script", filepath.Join(example, "script.jsonl"))
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, output)
	}
	out := filepath.Join(dir, "swarm-out")
	data, err := os.ReadFile(filepath.Join(out, "swarm.json"))
	if err != nil {
		t.Fatal(err)
	}
	var res swarm.Result
	if err := json.Unmarshal(data, &res); err != nil {
		t.Fatal(err)
	}
	byCase := map[string]*swarm.Record{}
	for _, r := range res.Findings {
		byCase[r.Finding.Case] = r
	}
	stressed, reported := byCase["dilated-window"], byCase["arctangent"]
	if stressed == nil || reported == nil || len(res.Findings) != 2 {
		t.Fatalf("findings %v\n%s", byCase, output)
	}
	if !stressed.Minimal || !reported.Minimal || reported.Finding.Instructions > 4 || stressed.Finding.Instructions > 6 {
		t.Errorf("not minimal: %d and %d instructions", stressed.Finding.Instructions, reported.Finding.Instructions)
	}
	if stressed.Explanation == nil || stressed.Explanation.Step != "dot-library-passes/0/dot-library-rewriter" || reported.Explanation == nil {
		t.Errorf("explanations %+v, %+v", stressed.Explanation, reported.Explanation)
	}
	if stressed.Patch == nil || !strings.Contains(stressed.Patch.Diff, "has_base_dilation") || strings.Contains(stressed.Patch.Diff, "has_padding") {
		t.Errorf("patch %+v", stressed.Patch)
	}
	if !res.Scripted || !strings.Contains(output, "SCRIPTED") {
		t.Errorf("not labelled as scripted:\n%s", output)
	}
	refused := map[string][]string{}
	file, err := os.Open(filepath.Join(out, "transcript.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	totals := map[string]int{}
	for lines.Scan() {
		var e swarm.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if !e.Scripted {
			t.Errorf("event %d is not labelled as scripted", e.Seq)
		}
		switch e.Kind {
		case "refused":
			refused[e.Agent] = append(refused[e.Agent], e.Text)
		case "total":
			totals[e.Finding] = e.Tokens.Input + e.Tokens.Output
		}
	}
	for agent, want := range map[string][]string{
		"stressor/dot-library-rewriter": {"[shape]"},
		"reproducer/report":             {"the gate sees no fault in this program"},
		"analyst/dilated-window":        {"the dumps have no pass step", "it is not legal"},
		"analyst/arctangent":            {"the dumps have no pass step", "no instruction"},
		"fixer/dilated-window":          {"still fails after the patch"},
	} {
		if len(refused[agent]) != len(want) {
			t.Errorf("%s was refused %q, want %q", agent, refused[agent], want)
			continue
		}
		for i := range want {
			if !strings.Contains(refused[agent][i], want[i]) {
				t.Errorf("%s was refused %q, want %q", agent, refused[agent][i], want[i])
			}
		}
	}
	for _, r := range res.Findings {
		if totals[r.ID] == 0 {
			t.Errorf("no tokens are counted for %s", r.ID)
		}
	}

	// The draft's patch applies, and leaves by publish alone.
	draft := filepath.Join(out, "drafts", stressed.ID)
	tree := filepath.Join(dir, "tree")
	if err := os.CopyFS(tree, os.DirFS(filepath.Join(example, "checkout"))); err != nil {
		t.Fatal(err)
	}
	git := exec.Command("git", "apply", filepath.Join(draft, "patch.diff"))
	git.Dir = tree
	if said, err := git.CombinedOutput(); err != nil {
		t.Errorf("git apply: %v: %s", err, said)
	}
	if code, said := passgate(t, dir, "swarm", "publish", "--name", "A. Person", draft); code != 0 {
		t.Errorf("publish: exit code %d: %s", code, said)
	}
	for _, name := range []string{"patch.diff", "report.md"} {
		data, err := os.ReadFile(filepath.Join(dir, "published", stressed.ID, name))
		if err != nil || !strings.Contains(string(data), "Published-by: A. Person") || !strings.Contains(string(data), "SCRIPTED") {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
	if code, said := passgate(t, dir, "swarm", "publish", "--name", "A. Person", draft); code != 2 {
		t.Errorf("published twice: exit code %d: %s", code, said)
	}
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "canary") {
				t.Errorf("%s holds the key (%v)", path, err)
			}
		}
		return nil
	})
}
