package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExplorationRepeats: the same seed and number of programs give the same
// report, whatever the number of workers; another seed gives another.
func TestExplorationRepeats(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "change.diff"), `--- a/xla/service/topk_rewriter.cc
+++ b/xla/service/topk_rewriter.cc
@@ -1 +1 @@
-a
+b
`)
	body := func(out string, more ...string) map[string]any {
		t.Helper()
		args := append([]string{"check", "--base", newer, "--head", newer, "--diff", "change.diff", "--max-cases", "40", "--probes", "3", "--out", out}, more...)
		if code, output := passgate(t, dir, args...); code > 1 {
			t.Fatalf("%s: exit code %d: %s", out, code, output)
		}
		data, err := os.ReadFile(filepath.Join(dir, out, "result.json"))
		if err != nil {
			t.Fatal(err)
		}
		var res map[string]any
		if err := json.Unmarshal(data, &res); err != nil {
			t.Fatal(err)
		}
		for _, clock := range []string{"timing", "started", "machine"} {
			delete(res, clock)
		}
		return res
	}
	one := body("one", "--workers", "1")
	if d := cmp.Diff(one, body("two", "--workers", "2")); d != "" {
		t.Errorf("with another number of workers (-1 +2):\n%s", d)
	}
	if cmp.Equal(one, body("other", "--workers", "2", "--seed", "2")) {
		t.Error("another seed, the same report: the seed is not used")
	}
}
