package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFindingReadme: the commands in a finding's README are two, and run as
// written in its folder they show the values that it tells of.
func TestFindingReadme(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "-- module.hlo --\nHloModule overflow\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] parameter(1)\n  x = f32[2] exponential(a)\n  ROOT r = f32[2] power(x, b)\n}\n-- inputs --\nf32[2] {100, 1}\nf32[2] {0.5, 2}\n"
	if err := os.WriteFile(filepath.Join(dir, "a.case"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out := passgate(t, dir, "check", "--base", older, "--head", newer, "--cases", "a.case", "--null", "0", "--out", "out"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "out", "findings", "f-*", "README.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no findings: %v", err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(block) != 1 {
		t.Fatalf("%d blocks of commands\n%s", len(block), readme)
	}
	commands := strings.Split(strings.TrimSpace(block[0][1]), "\n")
	if len(commands) != 2 {
		t.Fatalf("%d commands: %q", len(commands), commands)
	}
	for i, want := range []string{"overflow on " + older + ": wrong", "{inf"} {
		args := strings.Fields(commands[i])
		if args[0] != "passgate" || strings.Contains(commands[i], "'") {
			t.Fatalf("command %q", commands[i])
		}
		_, out := passgate(t, filepath.Dir(found[0]), args[1:]...)
		want = strings.Replace(want, "overflow on", "minimal on", 1)
		if !strings.Contains(out, want) {
			t.Errorf("%s prints\n%s\nwant %s", commands[i], out, want)
		}
	}
	for _, want := range []string{"Expected of output 0 at [0]: {inf", "Seen: base", "| base " + older + " |", "What simplification/", "```diff\n- ", "Text for an issue", "HLO:", "Inputs, one per parameter", "affected: " + older, "not affected: " + newer} {
		if !strings.Contains(readme, want) {
			t.Errorf("no %q in\n%s", want, readme)
		}
	}
}
