package bazel

import (
	"cmp"
	"context"
	"encoding/xml"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/passgate/passgate/xla/builds"
)

// workspace is a Bazel workspace that uses our rules as an outside repository,
// with two real plugins.
type workspace struct{ dir, outputs string }

const buildFile = `
load("@passgate//bazel:defs.bzl", "pass_gate_suite", "passgate", "xla_pass_gate_test")

exports_files(["passgate_binary"])

CASES = glob(["cases/*"])

xla_pass_gate_test(name = "regression", base = "base.so", head = "head.so", cases = CASES, shard_count = 2)

xla_pass_gate_test(name = "null", base = "base.so", head = "base.so", cases = CASES)

xla_pass_gate_test(name = "no_build", base = "base.so", head = "passgate_binary", cases = CASES)

QUIET = glob(["quiet/*"])

xla_pass_gate_test(name = "one_fires", passes = ["algsimp"], base = "base.so", head = "base.so", cases = ["cases/one.hlo"] + QUIET, shard_count = 4)

xla_pass_gate_test(name = "none_fires", passes = ["algsimp"], base = "base.so", head = "base.so", cases = QUIET, shard_count = 4)

pass_gate_suite(name = "shards", passes = ["algsimp"], base = "base.so", head = "base.so", cases = ["cases/one.hlo"] + QUIET, shard_count = 2)

pass_gate_suite(name = "suite", passes = ["algsimp", "all-gather-combiner"], base = "base.so", head = "base.so", cases = CASES)

passgate(name = "passgate", base = "base.so", head = "head.so", cases = CASES)
`

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	dir := t.TempDir()
	w := &workspace{dir: filepath.Join(dir, "ws"), outputs: filepath.Join(dir, "out")}
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	// Two lines of Debian's Bazel: it looks for its coverage tools on the net.
	rc := "common --override_repository=remote_coverage_tools=" + filepath.Join(dir, "coverage") + "\ncommon --experimental_repository_disable_download\n" +
		"build --@passgate//bazel/settings:passgate=//:passgate_binary\ntest --test_output=errors\n"
	for name, text := range map[string]string{
		"coverage/WORKSPACE": "", "coverage/BUILD": `filegroup(name = "coverage_report_generator", visibility = ["//visibility:public"])`,
		"rules/WORKSPACE": "", "rules/bazel/BUILD": "",
		"ws/WORKSPACE": `local_repository(name = "passgate", path = "../rules")`, "ws/BUILD": buildFile, "ws/.bazelrc": rc,
		// Something that algsimp changes.
		"ws/cases/one.hlo": "HloModule one\nENTRY e {\n  x = s32[4] parameter(0)\n  one = s32[] constant(1)\n  ones = s32[4] broadcast(one), dimensions={}\n  ROOT r = s32[4] multiply(x, ones)\n}\n",
		// Nothing that it changes.
		"ws/quiet/minus.hlo": "HloModule minus\nENTRY e {\n  x = s32[4] parameter(0)\n  ROOT r = s32[4] negate(x)\n}\n",
		"ws/quiet/plus.hlo":  "HloModule plus\nENTRY e {\n  x = s32[4] parameter(0)\n  y = s32[4] parameter(1)\n  ROOT r = s32[4] add(x, y)\n}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	place := func(from, to string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	place("defs.bzl", filepath.Join(dir, "rules/bazel/defs.bzl"))
	place("settings/BUILD.bazel", filepath.Join(dir, "rules/bazel/settings/BUILD.bazel"))
	place("../examples/cases/arctangent-vector.case", filepath.Join(w.dir, "cases/arctangent.case"))
	for file, name := range map[string]string{"base.so": "xla-2026-06", "head.so": "jax-0.11.2"} {
		spec, err := builds.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := store.Fetch(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		place(b.Plugin, filepath.Join(w.dir, file))
	}
	build := exec.Command("go", "build", "-o", filepath.Join(w.dir, "passgate_binary"), "../cmd/passgate")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.closeAtEnd(t)
	return w
}

// closeAtEnd ends the server and lets the outputs be removed.
func (w *workspace) closeAtEnd(t *testing.T) {
	t.Cleanup(func() {
		w.bazel("shutdown")
		// Bazel writes its outputs read-only.
		filepath.WalkDir(w.outputs, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(path, 0o755)
			}
			return nil
		})
	})
}

// bazel runs a command; the exit codes are those of bazel.build/run/scripts: 0,
// 1 build failed, 3 tests failed.
func (w *workspace) bazel(args ...string) (string, int) {
	cmd := exec.Command("bazel", append([]string{"--output_user_root=" + w.outputs, "--max_idle_secs=60", "--host_jvm_args=-Xmx512m"}, args...)...)
	cmd.Dir = w.dir
	out, _ := cmd.CombinedOutput() // the exit code is looked at
	return string(out), cmd.ProcessState.ExitCode()
}

type testXML struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
}

func (w *workspace) xml(t *testing.T, name string) testXML {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "bazel-testlogs", name, "test.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var x testXML
	if err := xml.Unmarshal(data, &x); err != nil {
		t.Fatalf("%s: %v: %s", name, err, data)
	}
	return x
}

// TestRulesUnderBazel runs the rules with the bazel of this machine (Debian's is
// 4.2.3) and real builds.
func TestRulesUnderBazel(t *testing.T) {
	w := newWorkspace(t)
	t.Run("a regression fails, by shards", func(t *testing.T) {
		out, code := w.bazel("test", "//:regression")
		if code != 3 || !strings.Contains(out, "verdict: blocked") {
			t.Fatalf("exit code %d, want 3\n%s", code, out)
		}
		one, two := w.xml(t, "regression/shard_1_of_2"), w.xml(t, "regression/shard_2_of_2")
		if one.Tests != 1 || two.Tests != 1 || one.Failures+two.Failures != 1 {
			t.Errorf("the shards' test.xml have %+v and %+v; want a case each, and one failure", one, two)
		}
		found, _ := filepath.Glob(filepath.Join(w.dir, "bazel-testlogs/regression/shard_*/test.outputs/outputs.zip"))
		if len(found) != 2 {
			t.Errorf("%d shards left their reports", len(found))
		}
	})
	t.Run("a build against itself passes", func(t *testing.T) {
		if out, code := w.bazel("test", "//:null"); code != 0 {
			t.Fatalf("exit code %d\n%s", code, out)
		}
		if x := w.xml(t, "null"); x.Tests != 2 || x.Failures != 0 {
			t.Errorf("test.xml has %+v", x)
		}
	})
	t.Run("a filter picks cases", func(t *testing.T) {
		if out, code := w.bazel("test", "//:regression", "--test_filter=one", "--test_sharding_strategy=disabled"); code != 0 {
			t.Fatalf("exit code %d\n%s", code, out)
		}
		if x := w.xml(t, "regression"); x.Tests != 1 {
			t.Errorf("test.xml has %+v", x)
		}
		if out, code := w.bazel("test", "//:null", "--test_filter=nosuchcase"); code != 3 {
			t.Errorf("a filter that picks nothing: exit code %d\n%s", code, out)
		}
	})
	t.Run("a head that is no plugin fails", func(t *testing.T) {
		if out, code := w.bazel("test", "//:no_build"); code != 3 {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
	t.Run("shards without a firing", func(t *testing.T) {
		for _, target := range []string{"//:one_fires", "//:shards"} {
			if out, code := w.bazel("test", target); code != 0 {
				t.Errorf("%s: exit code %d; one program of the target is changed by the pass\n%s", target, code, out)
			}
		}
		out, code := w.bazel("test", "//:none_fires", "--test_output=all")
		if code != 3 || strings.Count(out, "verdict: not-exercised") != 2 || strings.Count(out, "this shard has no case") != 2 {
			t.Errorf("exit code %d; want both shards with a program to say that nothing was exercised\n%s", code, out)
		}
	})
	t.Run("one target for each pass", func(t *testing.T) {
		out, code := w.bazel("test", "//:suite", "--@passgate//bazel/settings:seed=7", "--@passgate//bazel/settings:budget=5m")
		if code != 3 || !strings.Contains(out, "//:suite_algsimp ") || !strings.Contains(out, "verdict: not-exercised") {
			t.Errorf("exit code %d; want algsimp to pass and the combiner not to be exercised\n%s", code, out)
		}
		if x := w.xml(t, "suite_algsimp"); x.Tests != 2 || x.Failures != 0 {
			t.Errorf("test.xml has %+v", x)
		}
	})
	t.Run("bazel run", func(t *testing.T) {
		out, code := w.bazel("run", "//:passgate", "--", "check", "--passes", "algsimp", "--out", "mine")
		if code != 1 || !strings.Contains(out, "verdict: blocked") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		if _, err := os.Stat(filepath.Join(w.dir, "mine", "report.html")); err != nil {
			t.Error(err)
		}
		if out, code := w.bazel("run", "//:passgate", "--", "passes", "show", "algsimp"); code != 0 || !strings.Contains(out, "AlgebraicSimplifier") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
}

// TestReadme does in a fresh directory beside passgate what the README says.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## In Bazel\n")
	section, _, _ = strings.Cut(section, "\n## ")
	dir := t.TempDir()
	w := &workspace{dir: filepath.Join(dir, "ws"), outputs: filepath.Join(dir, "out")}
	w.closeAtEnd(t)
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root(t), filepath.Join(dir, "passgate")); err != nil {
		t.Fatal(err)
	}
	// Blocks of files come behind a line that ends in their name.
	for _, name := range []string{"WORKSPACE", "BUILD.bazel"} {
		text := block(section, "`"+name+"`:\n\n")
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); text == "" || err != nil {
			t.Fatalf("%s: %q, %v", name, text, err)
		}
	}
	setup := exec.Command("bash", "-euc", block(section, "by these commands:\n\n"))
	setup.Dir = w.dir
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"bazel test //:simplifier_gate", 3, "//:simplifier_gate"},
		{"bazel test //:gates", 0, "//:gates_scatter_expander"},
		{"bazel run //:passgate -- check --passes algsimp", 1, "verdict: blocked"},
	} {
		if !strings.Contains(section, c.command) {
			t.Errorf("the README does not say %s", c.command)
		}
		if out, code := w.bazel(strings.Fields(c.command)[1:]...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s", c.command, code, c.code, c.want, out)
		}
	}
}

// block is the indented block behind a text, without the indentation.
func block(text, behind string) string {
	_, rest, _ := strings.Cut(text, behind)
	var out strings.Builder
	for line := range strings.Lines(rest) {
		code, ok := strings.CutPrefix(line, "    ")
		if !ok && line != "\n" {
			break
		}
		out.WriteString(cmp.Or(code, "\n"))
	}
	return out.String()
}

// TestBuildifier: Bazel's files are formatted, and lint finds nothing.
func TestBuildifier(t *testing.T) {
	args := []string{"run", "github.com/bazelbuild/buildtools/buildifier@v0.0.0-20260904073137-eaa4d125b423", "-mode=check", "-lint=warn", "../MODULE.bazel"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name() == "BUILD.bazel" || filepath.Ext(path) == ".bzl") {
			args = append(args, path)
		}
		return err
	})
	if err != nil || len(args) < 30 {
		t.Fatalf("%d files, %v", len(args)-5, err)
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		t.Errorf("buildifier: %v\n%s", err, out)
	}
}
