package source

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestClasses(t *testing.T) {
	const root = `class HloPassInterface {};
class HloModulePass : public HloPassInterface {};
`
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"xla/hlo/pass/hlo_pass_interface.h": root,
		"xla/a/fold.h": `
// Folds a thing into another. It does so
// only on Tuesdays.
class Fold : public HloModulePass {
 public:
  absl::string_view name() const override { return "fold"; }
};

class FoldTwice final : public ns::Fold {};
`,
		"xla/a/fold.cc": `if (x->opcode() == HloOpcode::kDotGeneral || HloOpcode::kAdd || HloOpcode::kAdd) // HloOpcode::kPad HloOpcode::kPad HloOpcode::kPad
`,
		"xla/a/many.h": `
class Many
    : public Mixin<int, long>,
      public HloModulePass {
  static constexpr absl::string_view kName = "many-things";
  absl::string_view name() const override { return kName; }
  struct Inner { int x; };
};
struct Computed : private HloModulePass {
  absl::string_view name() const override { return absl::StrCat("a-", kind_); }
};
/* class Gone : public HloModulePass {}; */
class Other : public Mixin<HloModulePass> {};
`,
		"xla/a/in_function.h":  "class Named : public HloPassInterface { absl::string_view name() const override { return Name(); } };\n",
		"xla/a/in_function.cc": "absl::string_view Name() { return \"named\"; }\n",
		"xla/a/fold_test.cc":   "class InTest : public HloModulePass {};\n",
		"third_party/x.h":      "class Elsewhere : public HloModulePass {};\n",
		"xla/a/unclosed.h":     "class Unclosed : public HloModulePass {\n name() const { return \"",
		"xla/a/latin.h":        "// caf\xe9\nclass Latin : public HloModulePass { name() const override { return \"latin\"; } };",
	} {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	got, err := Classes(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []Class{
		{Name: "Fold", Files: []string{"xla/a/fold.h", "xla/a/fold.cc"}, Pass: "fold", Opcodes: []string{"add", "dot-general"}, Comment: "Folds a thing into another"},
		{Name: "FoldTwice", Files: []string{"xla/a/fold.h", "xla/a/fold.cc"}, Pass: "fold", Opcodes: []string{"add", "dot-general"}},
		{Name: "Named", Files: []string{"xla/a/in_function.h", "xla/a/in_function.cc"}, Pass: "named"},
		{Name: "Latin", Files: []string{"xla/a/latin.h"}, Pass: "latin", Comment: "caf\xe9"},
		{Name: "Many", Files: []string{"xla/a/many.h"}, Pass: "many-things"},
		{Name: "Computed", Files: []string{"xla/a/many.h"}},
		{Name: "Unclosed", Files: []string{"xla/a/unclosed.h"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestIncludes(t *testing.T) {
	got := Includes([]byte("#include \"xla/a.h\"\n  #include <x>\n#include \"absl/b.h\"\n// #include \"xla/c.h\"\n#include \"xla/d.h\"\n"))
	if d := cmp.Diff([]string{"xla/a.h", "xla/d.h"}, got); d != "" {
		t.Error(d)
	}
}
