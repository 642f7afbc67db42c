package action_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestThreatModel: the threat model names at least 40 attacks by their tests, each
// of which exists: a test function, and behind a slash a subtest of it, whose name
// stands in the function as a string.
func TestThreatModel(t *testing.T) {
	names := map[string]map[string]bool{} // of subtests, by test
	for _, dir := range []string{".", "../reports", "../cmd/passgate"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
					continue
				}
				subtests := map[string]bool{}
				ast.Inspect(f, func(n ast.Node) bool {
					if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
						if s, err := strconv.Unquote(l.Value); err == nil {
							subtests[strings.ReplaceAll(s, " ", "_")] = true
						}
					}
					return true
				})
				names[f.Name.Name] = subtests
			}
		}
	}
	text, err := os.ReadFile("../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| attack | test |\n")
	if !ok {
		t.Fatal("no table of attacks and tests")
	}
	attacks := map[string]bool{}
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "|") {
			break
		}
		last := ""
		for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row, -1) {
			test, sub, _ := strings.Cut(m[1], "/")
			if test == "..." {
				test = last
			}
			last = test
			subtests, ok := names[test]
			if !ok || sub != "" && !subtests[sub] {
				t.Errorf("%s: there is no test %s/%s", strings.TrimSpace(row), test, sub)
			}
			attacks[test+"/"+sub] = true
		}
		if last == "" && !strings.HasPrefix(row, "|-") {
			t.Errorf("no test for %s", strings.TrimSpace(row))
		}
	}
	if len(attacks) < 40 {
		t.Errorf("%d attacks", len(attacks))
	}
}
