package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/passgate/passgate/swarm/mcp"
)

// TestMCP drives `passgate mcp` with the Go SDK's client, on real builds.
func TestMCP(t *testing.T) {
	dir := t.TempDir()
	if code, said := passgate(t, dir, "check", "--base", older, "--head", newer, "--cases", abs(t, "../../examples/cases/arctangent-vector.case"), "--null", "0", "--probes", "1"); code != 1 {
		t.Fatalf("check: exit code %d: %s", code, said)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "mcp", "--base", older, "--head", newer)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PASSGATE_TRANSCRIPT=1")
	var log strings.Builder
	cmd.Stderr = &log
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	defer func() {
		if err := session.Close(); err != nil {
			t.Errorf("%v\n%s", err, log.String())
		}
		if !cmd.ProcessState.Success() {
			t.Errorf("%v: %s", cmd.ProcessState, log.String())
		}
	}()

	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range []string{"list_passes", "affected_passes", "run_case", "evaluate", "bisect", "reduce", "findings", "report", "steps", "show_step"} {
		if !slices.Contains(names, want) {
			t.Errorf("no tool %s among %v", want, names)
		}
	}
	call := func(name string, args map[string]any, out any) string {
		t.Helper()
		res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			return err.Error()
		}
		if res.IsError {
			return res.Content[0].(*sdk.TextContent).Text
		}
		data, err := json.Marshal(res.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, out); err != nil {
			t.Fatalf("%s: %v: %s", name, err, data)
		}
		return ""
	}
	const dilated = `HloModule dilated
min {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] minimum(a, b)
}
ENTRY e {
  x = f32[72,64] parameter(0)
  top = f32[] constant(inf)
  ROOT r = f32[36,127] reduce-window(x, top), window={size=2x1 stride=2x1 lhs_dilate=1x2}, to_apply=min
}`
	bad := map[string]any{"program": map[string]any{"name": "dilated", "hlo": dilated, "inputs": []string{"lattice f32[72,64] seed=11"}}}
	good := map[string]any{"program": map[string]any{"name": "square", "hlo": "ENTRY e {\n  x = s32[3] parameter(0)\n  ROOT r = s32[3] multiply(x, x)\n}", "inputs": []string{"s32[3] {1, 2, 3}"}}}

	var text mcp.Text
	if why := call("list_passes", map[string]any{"contains": "dot-library"}, &text); why != "" || !strings.Contains(text.Text, "library_rewriter.cc") {
		t.Errorf("list_passes: %s %s", why, text.Text)
	}
	if why := call("affected_passes", map[string]any{"diff": "--- a/xla/backends/cpu/transforms/library_rewriter.cc\n+++ b/xla/backends/cpu/transforms/library_rewriter.cc\n@@ -1 +1 @@\n-a\n+b\n"}, &text); why != "" || !strings.Contains(text.Text, "weight 6: dot-library-rewriter") {
		t.Errorf("affected_passes: %s %s", why, text.Text)
	}
	if why := call("evaluate", good, &text); why != "" || !strings.Contains(text.Text, "9") {
		t.Errorf("evaluate: %s %s", why, text.Text)
	}
	var j mcp.Judgement
	if why := call("run_case", good, &j); why != "" || j.Outcome != "right" {
		t.Errorf("run_case: %s %+v", why, j)
	}
	if why := call("run_case", bad, &j); why != "" || j.Outcome != "finding" || j.Status != "new" {
		t.Errorf("run_case: %s %+v", why, j)
	}
	id := j.ID
	bad["build"] = "head"
	if why := call("bisect", bad, &j); why != "" || j.Pass != "dot-library-passes/0/dot-library-rewriter" || j.Status != "pre-existing" && j.Status != "new" {
		t.Errorf("bisect: %s %+v", why, j)
	}
	bad["build"] = "base"
	if j = (mcp.Judgement{}); call("bisect", bad, &j) != "" || j.Outcome != "right" {
		t.Errorf("bisect of base: %+v", j)
	}
	bad["build"] = "head"
	if why := call("steps", bad, &text); why != "" || !strings.Contains(text.Text, "dot-library-passes/0/dot-library-rewriter\n") {
		t.Errorf("steps: %s %s", why, text.Text)
	}
	bad["step"] = "dot-library-passes/0/dot-library-rewriter"
	if why := call("show_step", bad, &text); why != "" || !strings.Contains(text.Text, "after:") || !strings.Contains(text.Text, "ynn") {
		t.Errorf("show_step: %s %s", why, text.Text)
	}
	delete(bad, "step")
	delete(bad, "build")
	if why := call("reduce", bad, &j); why != "" || j.Instructions > 6 || !j.Minimal || !strings.Contains(j.Case, "lhs_dilate") {
		t.Errorf("reduce: %s %+v", why, j)
	}
	var list mcp.Listing
	if why := call("findings", map[string]any{}, &list); why != "" || len(list.Findings) < 2 || !slices.ContainsFunc(list.Findings, func(j mcp.Judgement) bool { return j.ID == id }) {
		t.Errorf("findings: %s %+v", why, list)
	}
	if why := call("report", map[string]any{"format": "summary"}, &text); why != "" || !strings.Contains(text.Text, "arctangent-vector") {
		t.Errorf("report: %s %s", why, text.Text)
	}

	// Bad calls are errors of the call, and the session goes on.
	for _, bad := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"run_case", map[string]any{"program": map[string]any{"name": "x", "hlo": "ENTRY e { ROOT r = f32[] banana() }"}}, "banana"},
		{"run_case", map[string]any{"program": map[string]any{"name": "../x", "hlo": "x"}}, "name"},
		{"run_case", map[string]any{"program": "x"}, "type"},
		{"bisect", map[string]any{"program": good["program"], "build": "/tmp/evil.so"}, "base or head"},
		{"report", map[string]any{"format": "exe"}, "exe"},
		{"shell", map[string]any{}, "shell"},
	} {
		if why := call(bad.tool, bad.args, &text); !strings.Contains(why, bad.want) {
			t.Errorf("%s %v: %q, want %q", bad.tool, bad.args, why, bad.want)
		}
	}

	resources, err := session.ListResources(ctx, nil)
	if err != nil || len(resources.Resources) < 4 {
		t.Fatalf("resources: %v, %+v", err, resources)
	}
	for uri, want := range map[string]string{"passgate://passes": "algsimp", "passgate://findings": id, "passgate://findings/" + id: "dilated", "passgate://report/json": "passgate/result/v1"} {
		r, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if err != nil || !strings.Contains(r.Contents[0].Text, want) {
			t.Errorf("%s: %v, want %s", uri, err, want)
		}
	}
	if _, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: "passgate://findings/../../etc/passwd"}); err == nil {
		t.Error("a resource outside was read")
	}
}

func abs(t *testing.T, name string) string {
	t.Helper()
	out, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
