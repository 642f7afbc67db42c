package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// releaseBody is a report without what may differ between equal runs.
func releaseBody(t *testing.T, dir, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if name == "release.json" {
		schema, err := jsonschema.NewCompiler().Compile("../../release/schema/release-v1.schema.json")
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Error(err)
		}
	} else {
		validate(t, data)
	}
	var body map[string]any
	if err := json.Unmarshal(data, &body); err != nil {
		t.Fatal(err)
	}
	delete(body, "timing")
	return body
}

// TestReleaseKilled: a release run that is killed at random moments and run again
// says what one that was left alone says.
func TestReleaseKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"arctangent-vector", "exponentials-overflow", "log1p-double", "matmul", "maximum-of-nan", "slice-of-slice"} {
		text, err := os.ReadFile("../../examples/cases/" + name + ".case")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "cases", name+".case"), string(text))
	}
	args := func(out string) []string {
		return []string{"release", "--base", older, "--head", newer, "--cases", "cases", "--programs", "4", "--probes", "3", "--null", "2", "--workers", "2", "--out", out}
	}
	code, output := passgate(t, dir, args("whole")...)
	if code != 1 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	rng := rand.New(rand.NewPCG(11, 12))
	journal := filepath.Join(dir, "killed", journalName)
	kills, lines := 0, 0
	for kills < 4 {
		cmd := exec.Command(os.Args[0], args("killed")...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PASSGATE_TRANSCRIPT=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		// The moment of the kill is a little after one or two more units.
		want := lines + 1 + rng.IntN(2)
		for alive := true; alive && lines < want; {
			data, _ := os.ReadFile(journal)
			lines = bytes.Count(data, []byte("\n"))
			select {
			case <-ended:
				alive = false
			case <-time.After(5 * time.Millisecond):
			}
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		cmd.Process.Kill()
		<-ended
		if lines >= 11 {
			break // all ten units, behind the head
		}
		kills++
	}
	if kills < 3 {
		t.Fatalf("only %d kills before the end", kills)
	}
	code, output = passgate(t, dir, args("killed")...)
	if code != 1 || !strings.Contains(output, "units were done before") {
		t.Errorf("exit code %d: %s", code, output)
	}
	for _, name := range []string{"result.json", "release.json"} {
		if diff := cmp.Diff(releaseBody(t, filepath.Join(dir, "whole"), name), releaseBody(t, filepath.Join(dir, "killed"), name)); diff != "" {
			t.Errorf("%s, alone -, killed %d times +:\n%s", name, kills, diff)
		}
	}
	if diff := cmp.Diff(tree(t, filepath.Join(dir, "whole", "findings")), tree(t, filepath.Join(dir, "killed", "findings"))); diff != "" {
		t.Errorf("files of findings:\n%s", diff)
	}

	// Other settings are another run.
	code, output = passgate(t, dir, append(args("killed"), "--seed", "2")...)
	if code != 2 || !strings.Contains(output, "the journal of another run") || strings.Count(output, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, output)
	}
	// The last report to compare with, and one that is none.
	code, output = passgate(t, dir, append(args("killed"), "--previous", "whole/release.json")...)
	since, _ := releaseBody(t, filepath.Join(dir, "killed"), "release.json")["since"].(map[string]any)
	if code != 1 || since == nil || len(since["new"].([]any)) != 0 || len(since["gone"].([]any)) != 0 {
		t.Errorf("exit code %d, since %v: %s", code, since, output)
	}
	code, output = passgate(t, dir, append(args("killed"), "--previous", "whole/result.json")...)
	if code != 2 || !strings.Contains(output, "want a release.json") || strings.Count(output, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, output)
	}
}
