// Package passes is the registry of XLA's compiler passes and the map from a
// change to the passes that it touches.
//
// The registry is passes.tsv (every concrete pass class of XLA: files, name,
// opcodes that it looks at, pipelines that run it) and tpu-pipeline.tsv (the
// pass runs of one compilation by libtpu). includes.tsv says which passes
// include which headers. `go run ./passes/gen` rebuilds both from a checkout.
package passes

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed passes.tsv tpu-pipeline.tsv includes.tsv
var tables embed.FS

// Pass is one pass class of XLA.
type Pass struct {
	// Name is what the pass's name() returns. Names are not unique:
	// algsimp belongs to two classes.
	Name string
	// Variants are all names when a constructor argument picks one
	// ("sub-byte-size-removal", "sub-byte-size-setter"); else just Name.
	Variants []string
	// Prefix is the fixed part of a name that is computed at run time
	// ("float-normalization-"); "" for others.
	Prefix string
	Class  string
	// Files are the header and, where there is one, the .cc file, relative
	// to the root of XLA's source tree.
	Files []string
	// Opcodes that its source names, most frequent first; "*" alone or in
	// front means any.
	Opcodes []string
	Summary string
	// Pipelines: "cpu", "gpu", "cuda", "rocm", "interp", "despecializer",
	// "hlo-opt", and "tpu" if a libtpu compilation runs it.
	Pipelines []string
}

// Matches reports whether a pass step of that name is a run of p.
func (p *Pass) Matches(step string) bool {
	if p.Prefix != "" {
		return strings.HasPrefix(step, p.Prefix)
	}
	return slices.Contains(p.Variants, step)
}

var load = sync.OnceValue(func() (r struct {
	all      []Pass
	includes map[string][]int
}) {
	tpu := map[string]bool{}
	for _, cols := range rows("tpu-pipeline.tsv") {
		if len(cols) >= 3 && cols[0] != "run" {
			tpu[cols[2]] = true
		}
	}
	for _, cols := range rows("passes.tsv") {
		if cols[0] == "file" {
			continue
		}
		p := Pass{Name: cols[2], Class: cols[1], Files: strings.Split(cols[0], ","), Opcodes: strings.Split(cols[3], ","), Summary: cols[4]}
		if i := strings.LastIndex(p.Summary, " [in: "); i >= 0 {
			p.Pipelines = strings.Fields(strings.TrimSuffix(p.Summary[i+len(" [in: "):], "]"))
			p.Summary = p.Summary[:i]
		}
		if i := strings.IndexByte(p.Name, '<'); i > 0 {
			p.Prefix = p.Name[:i]
			p.Name = strings.TrimSuffix(p.Prefix, "-")
		}
		p.Name = strings.TrimSuffix(p.Name, "?")
		p.Variants = strings.Split(p.Name, "|")
		p.Name = p.Variants[0]
		for step := range tpu {
			if p.Matches(step) {
				p.Pipelines = append(p.Pipelines, "tpu")
				break
			}
		}
		r.all = append(r.all, p)
	}
	r.includes = map[string][]int{}
	for _, cols := range rows("includes.tsv") {
		for _, s := range strings.Split(cols[1], ",") {
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 || i >= len(r.all) {
				panic(fmt.Sprintf("passes: includes.tsv: bad row %q of %s", s, cols[0]))
			}
			r.includes[cols[0]] = append(r.includes[cols[0]], i)
		}
	}
	return r
})

func rows(name string) [][]string {
	data, err := tables.ReadFile(name)
	if err != nil {
		panic(err)
	}
	var out [][]string
	for _, line := range strings.Split(string(data), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, strings.Split(line, "\t"))
		}
	}
	return out
}

// All returns every row of the registry, in the order of passes.tsv. The
// abstract base classes have names in angle brackets and match no step.
func All() []Pass { return load().all }

// Lookup returns the passes with that name (exact, or with a run-time suffix).
func Lookup(name string) []Pass {
	var out []Pass
	for _, p := range All() {
		if p.concrete() && (p.Name == name || p.Matches(name)) {
			out = append(out, p)
		}
	}
	return out
}

func (p *Pass) concrete() bool { return !strings.HasPrefix(p.Name, "<") }

// TPURun is one pass run of a libtpu compilation.
type TPURun struct{ Pipeline, Pass string }

// TPUPipeline is the order of pass runs in one small compilation by libtpu.
func TPUPipeline() []TPURun {
	var out []TPURun
	for _, cols := range rows("tpu-pipeline.tsv") {
		if len(cols) >= 3 && cols[0] != "run" {
			out = append(out, TPURun{cols[1], cols[2]})
		}
	}
	return out
}

// Table is passes.tsv as it is embedded.
func Table() string {
	text, err := tables.ReadFile("passes.tsv")
	if err != nil {
		panic(err) // embedded
	}
	return string(text)
}
