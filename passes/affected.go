package passes

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
)

// Change is one changed file of XLA's source tree. Lines are its added and
// removed lines and hunk contexts when a diff gave them; nil otherwise.
type Change struct {
	File  string
	Lines []string
}

// Tier says how a changed file reaches a pass.
type Tier string

// The tiers, nearest first.
const (
	OwnFile   Tier = "own file"     // the pass's .h or .cc
	OwnTest   Tier = "own test"     // the pass's unit test
	Sibling   Tier = "sibling"      // another pass in the same file
	Helper    Tier = "helper"       // a file that the pass includes
	BuildFile Tier = "build file"   // the BUILD file of the pass's folder
	Core      Tier = "core"         // parser, verifier, evaluator, pipelines, flags, code generation
	Unknown   Tier = "unknown file" // not in the registry: treated as core
	Ignored   Tier = "no pass"      // documentation, other languages, tools
)

// Weights of DESIGN section 7.
var weights = map[Tier]int{OwnFile: 6, OwnTest: 6, Sibling: 3, Helper: 2, BuildFile: 2, Core: 1, Unknown: 1}

// Focus is one pass that a change reaches.
type Focus struct {
	Pass   Pass
	Weight int
	Tier   Tier
	Reason string // one sentence, with the file's name
}

// File is what Affected made of one changed file.
type File struct {
	Name   string
	Tier   Tier
	Reason string
	Passes int // how many passes it reaches
	// CodeGeneration says that the file is part of what makes or runs machine
	// code: no state between two passes shows its faults.
	CodeGeneration bool
}

// Plan is the answer of Affected: the focused passes, heaviest first then by
// name, and what became of every file, in the order given.
type Plan struct {
	Focus []Focus
	Files []File
}

// coreFanOut: a header that so many passes include is core. The tenth of the
// most included headers (shape, util, instruction, ...) has 154; the next
// class of helpers (visitor, query, creation utilities) at most 60.
const coreFanOut = 100

// corePrefixes are files that every compilation runs through, by path prefix.
var corePrefixes = []struct {
	prefix, what   string
	codeGeneration bool
}{
	{"xla/hlo/parser/", "the HLO parser", false},
	{"xla/hlo/evaluator/", "the HLO evaluator (constant folding and XLA's own reference)", false},
	{"xla/hlo/ir/", "the HLO graph itself", false},
	{"xla/hlo/pass/", "the pass infrastructure", false},
	{"xla/hlo/analysis/", "an analysis (aliasing, dataflow, ordering) that buffers rest on", true},
	{"xla/service/hlo_verifier", "the HLO verifier", false},
	{"xla/service/shape_inference", "shape inference", false},
	{"xla/service/buffer_", "buffer assignment", true},
	{"xla/service/heap_simulator", "buffer assignment", true},
	{"xla/service/cpu/cpu_compiler", "the CPU pipeline", false},
	{"xla/service/gpu/gpu_compiler", "the GPU pipeline", false},
	{"xla/service/gpu/nvptx_compiler", "the CUDA pipeline", false},
	{"xla/service/gpu/amdgpu_compiler", "the ROCm pipeline", false},
	{"xla/service/compiler", "the compiler interface", false},
	{"xla/service/elemental_ir_emitter", "code generation", true},
	{"xla/service/llvm_ir/", "code generation", true},
	{"xla/service/cpu/", "CPU code generation and runtime", true},
	{"xla/service/gpu/", "GPU code generation and runtime", true},
	{"xla/backends/", "a backend's code generation and runtime", true},
	{"xla/codegen/", "code generation", true},
	{"xla/debug_options_flags", "the flags", true},
	{"xla/xla.proto", "the flags", true},
	{"xla/xla_data.proto", "the wire format", false},
	{"xla/service/hlo.proto", "the wire format", false},
	{"third_party/", "a pinned dependency", true},
	{"workspace", "the workspace", true},
	{"WORKSPACE", "the workspace", true},
	{"MODULE.bazel", "the workspace", true},
}

// Affected maps changed files to passes. Every file gets an entry in Files;
// a file that the registry does not know counts as core, never as nothing.
func Affected(changes []Change) Plan {
	var plan Plan
	best := map[int]Focus{}
	for _, c := range changes {
		reached, file := affectedBy(c)
		for i, f := range reached {
			if old, ok := best[i]; !ok || f.Weight > old.Weight {
				best[i] = f
			}
		}
		file.Passes = len(reached)
		plan.Files = append(plan.Files, file)
	}
	for _, f := range best {
		plan.Focus = append(plan.Focus, f)
	}
	sort.Slice(plan.Focus, func(i, j int) bool {
		a, b := plan.Focus[i], plan.Focus[j]
		if a.Weight != b.Weight {
			return a.Weight > b.Weight
		}
		if a.Pass.Name != b.Pass.Name {
			return a.Pass.Name < b.Pass.Name
		}
		return a.Pass.Class < b.Pass.Class
	})
	return plan
}

func affectedBy(c Change) (map[int]Focus, File) {
	name := c.File
	r := load()
	out := map[int]Focus{}
	add := func(i int, t Tier, reason string) {
		if r.all[i].concrete() {
			out[i] = Focus{r.all[i], weights[t], t, reason}
		}
	}
	everything := func(t Tier, reason string) (map[int]Focus, File) {
		for i := range r.all {
			if _, ok := out[i]; !ok {
				add(i, t, reason)
			}
		}
		return out, File{Name: name, Tier: t, Reason: reason}
	}

	// The pass's own files and test.
	subject, tier := name, OwnFile
	if stem, ok := strings.CutSuffix(name, "_test.cc"); ok {
		subject, tier = stem+".cc", OwnTest
	}
	var own []int
	for i, p := range r.all {
		if slices.Contains(p.Files, subject) || tier == OwnTest && slices.Contains(p.Files, strings.TrimSuffix(subject, ".cc")+".h") {
			own = append(own, i)
		}
	}
	if len(own) > 0 {
		named := slices.DeleteFunc(slices.Clone(own), func(i int) bool { return !mentions(c.Lines, r.all[i].Class) })
		for _, i := range own {
			if len(named) > 0 && !slices.Contains(named, i) {
				add(i, Sibling, fmt.Sprintf("shares %s with a changed pass", name))
			} else {
				add(i, tier, fmt.Sprintf("%s is its %s", name, tier))
			}
		}
	}
	// Passes that include the file (a .cc counts as its header).
	header := name
	switch path.Ext(name) {
	case ".cc":
		header = strings.TrimSuffix(name, ".cc") + ".h"
	case ".proto":
		header = strings.TrimSuffix(name, ".proto") + ".pb.h"
	}
	users := r.includes[header]
	if tier == OwnTest {
		users = nil // nobody includes a test
	}
	for _, i := range users {
		if _, ok := out[i]; !ok {
			add(i, Helper, fmt.Sprintf("includes %s", header))
		}
	}
	switch {
	case len(users) >= coreFanOut:
		return everything(Core, fmt.Sprintf("%s is core: %d passes include it", name, len(users)))
	case len(own) > 0:
		return out, File{Name: name, Tier: tier, Reason: fmt.Sprintf("%s of %s", tier, classes(r.all, own))}
	}
	if ignored, why := ignorable(name); ignored {
		return out, File{Name: name, Tier: Ignored, Reason: why}
	}
	if base := path.Base(name); base == "BUILD" || base == "BUILD.bazel" {
		dir := path.Dir(name)
		for i, p := range r.all {
			if path.Dir(p.Files[0]) == dir {
				add(i, BuildFile, fmt.Sprintf("%s builds it", name))
			}
		}
		if len(out) > 0 {
			return out, File{Name: name, Tier: BuildFile, Reason: "build rules of the passes in its folder"}
		}
	}
	for _, p := range corePrefixes {
		if strings.HasPrefix(name, p.prefix) {
			reached, file := everything(Core, fmt.Sprintf("%s is part of %s", name, p.what))
			file.CodeGeneration = p.codeGeneration
			return reached, file
		}
	}
	if len(users) > 0 {
		return out, File{Name: name, Tier: Helper, Reason: fmt.Sprintf("helper that %d passes include", len(users))}
	}
	return everything(Unknown, fmt.Sprintf("%s is not in the registry: any pass may depend on it", name))
}

func classes(all []Pass, rows []int) string {
	var names []string
	for _, i := range rows {
		names = append(names, all[i].Class)
	}
	return strings.Join(names, ", ")
}

func mentions(lines []string, class string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, class) })
}

// ignorable reports files that no compilation reads.
func ignorable(name string) (bool, string) {
	base := path.Base(name)
	switch ext := path.Ext(base); {
	case ext == ".md" || ext == ".txt" || ext == ".ipynb" || ext == ".png" || ext == ".svg" || strings.HasPrefix(name, "docs/"):
		return true, "documentation"
	case base == "AUTHORS" || base == "LICENSE" || base == "OWNERS" || base == ".gitignore" || base == ".clang-format":
		return true, "no code"
	case base == "passgate.yaml" || ext == ".case":
		return true, "passgate's own rules and cases"
	case strings.HasPrefix(name, ".github/") || strings.HasPrefix(name, "build_tools/"):
		return true, "continuous integration"
	case strings.HasSuffix(name, "_test.cc") || strings.HasSuffix(name, "_test.py") || strings.HasPrefix(name, "xla/tests/") || strings.Contains(name, "/testdata/"):
		return true, "a test of no single pass"
	case strings.HasPrefix(name, "xla/python/") || ext == ".py":
		return true, "Python bindings and scripts"
	}
	return false, ""
}
