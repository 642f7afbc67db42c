package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/gate"
)

// TestShardsAreOneRun: real builds, one run against three shards merged: the
// same result and the same files of the findings. A shard that is missing, or cut
// off, is named.
func TestShardsAreOneRun(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"arctangent-vector", "exponentials-overflow", "log1p-double", "matmul", "maximum-of-nan", "slice-of-slice", "sort-odd-comparator"} {
		text, err := os.ReadFile("../../examples/cases/" + name + ".case")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "cases", name+".case"), string(text))
	}
	write(t, filepath.Join(dir, "passgate.yaml"), `version: 1
known-issues: [{id: "#1", reason: known, expires: 9999-01-01, match: {case: "arctangent*"}}]
minimum-firing: {default: 2}
`)
	run := func(out, shard string) {
		t.Helper()
		args := []string{"check", "--base", older, "--head", newer, "--cases", "cases", "--passes", "algsimp,fusion", "--probes", "3", "--null", "3", "--out", out}
		if shard != "" {
			args = append(args, "--shard", shard)
		}
		if code, output := passgate(t, dir, args...); code > 1 && code != 4 {
			t.Fatalf("shard %q: exit code %d: %s", shard, code, output)
		}
	}
	run("whole", "")
	for i := 1; i <= 3; i++ {
		run("shards/"+strconv.Itoa(i), strconv.Itoa(i)+"/3")
		data, err := os.ReadFile(filepath.Join(dir, "shards", strconv.Itoa(i), "result.json"))
		if err != nil {
			t.Fatal(err)
		}
		validate(t, data)
	}
	read := func(name string) *gate.Result {
		t.Helper()
		res := result(t, filepath.Join(dir, name))
		res.Timing = gate.Timing{}
		return res
	}
	whole := read("whole")
	code, output := passgate(t, dir, "report", "--merge", "--out", "merged", "shards")
	if code != whole.Verdict.ExitCode() || !strings.HasSuffix(output, "verdict: "+string(whole.Verdict)+"\n") {
		t.Errorf("exit code %d for %s: %s", code, whole.Verdict, output)
	}
	if diff := cmp.Diff(whole, read("merged")); diff != "" {
		t.Errorf("one run -, three shards +:\n%s", diff)
	}
	if len(whole.Findings) < 4 || len(whole.Statistics.Cells) == 0 || whole.Statistics.Null.Cells == 0 || len(whole.Policy.KnownIssues[0].Findings) == 0 {
		t.Errorf("the run shows too little: %d findings, %d cells, null %+v", len(whole.Findings), len(whole.Statistics.Cells), whole.Statistics.Null)
	}
	if diff := cmp.Diff(tree(t, filepath.Join(dir, "whole", "findings")), tree(t, filepath.Join(dir, "merged", "findings"))); diff != "" {
		t.Errorf("files of findings, one run -, three shards +:\n%s", diff)
	}

	text, err := os.ReadFile(filepath.Join(dir, "shards/2/result.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cut/result.json"), string(text[:len(text)/2]))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"shards/1 shards/3", 3, "- shard 2/3 is missing\n"},
		{"shards/1 cut shards/3", 3, "cut/result.json:"},
		{"shards/1 nowhere shards/3", 3, "nowhere does not exist"},
		{"shards/1 cases shards/3", 3, "cases holds no result.json"},
		{"shards/1 shards/1", 2, "shard 1/3 is there twice"},
		{"shards/1 whole", 2, "a result of 7 cases does not come from check --shard"},
		{"passgate.yaml", 2, "passgate.yaml:1:1: "},
	} {
		code, output := passgate(t, dir, append([]string{"report", "--merge"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(output, c.want) || code == 2 && strings.Count(output, "\n") != 1 {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, output)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree is the files of a directory with their texts.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		out[strings.TrimPrefix(p, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
