package hlo

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"
)

// handed returns the modules of the handed case files that match a pattern
// under ../../shared, by file name.
func handed(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "shared", pattern))
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string][]byte{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range txtar.Parse(text).Files {
			if part.Name == "module.hlo" {
				modules[filepath.Base(f)] = part.Data
			}
		}
	}
	if len(modules) == 0 {
		t.Fatalf("no case files %s", pattern)
	}
	return modules
}

// TestHandedModules reads the real graphs and the handed cases: all parse and
// come back from text and proto.
func TestHandedModules(t *testing.T) {
	for _, pattern := range []string{"traces/*.case", "cases/*.case", "cases/controls/*.case"} {
		for name, text := range handed(t, pattern) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				m, err := Parse(name, text)
				if err != nil {
					t.Fatal(err)
				}
				checkFixPoint(t, m)
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	text := handed(b, "traces/flax_nnx_gpt16_train_adamw.case")["flax_nnx_gpt16_train_adamw.case"]
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("trace", text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrint(b *testing.B) {
	m, err := Parse("trace", handed(b, "traces/flax_nnx_gpt16_train_adamw.case")["flax_nnx_gpt16_train_adamw.case"])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = m.String()
	}
}
