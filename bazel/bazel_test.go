package bazel

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBuildFilesAreCurrent runs gazelle over the tree and fails if it would
// change any BUILD.bazel file. Mend with `go generate ./bazel`.
func TestBuildFilesAreCurrent(t *testing.T) {
	cmd := exec.Command("go", "run", "github.com/bazelbuild/bazel-gazelle/cmd/gazelle@v0.47.0",
		"update", "-external=static", "-mode=diff", "-repo_root", root(t))
	cmd.Dir = root(t)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "+++ ") {
		t.Fatalf("BUILD.bazel files are not current; run `go generate ./bazel` (%v):\n%s", err, out)
	}
}

// TestModuleNamesEveryRepository: each external repository that a BUILD file
// uses is listed in MODULE.bazel, and no other.
func TestModuleNamesEveryRepository(t *testing.T) {
	used := map[string]bool{}
	label := regexp.MustCompile(`"@((?:com|org|net|in|io|dev)_[a-z0-9_]+)//`)
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "BUILD.bazel" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range label.FindAllStringSubmatch(string(text), -1) {
			used[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root(t), "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    "([a-z0-9_]+)",$`).FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = true
	}
	for r := range used {
		if !listed[r] {
			t.Errorf("MODULE.bazel: use_repo lacks %q", r)
		}
	}
	for r := range listed {
		if !used[r] {
			t.Errorf("MODULE.bazel: use_repo lists %q, which no BUILD file uses", r)
		}
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
