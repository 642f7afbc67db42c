// Package source reads pass classes out of XLA's own C++ sources: which concrete
// classes there are, where, what their name() returns, and which opcodes they
// mention. It is what rebuilds the registry when XLA moves on.
//
// It reads declarations with regular expressions, no C++ front end: XLA's style
// (Google C++ style, clang-format) keeps class heads and name() in few forms.
// What it cannot read it leaves empty, for the caller to say.
package source

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Class is one class that derives from a pass interface.
type Class struct {
	// Name without namespaces.
	Name string
	// Files: the header (or the .cc file) that declares it and, for a header,
	// the .cc file of the same stem if there is one; relative to the root.
	Files []string
	// Pass is what name() returns; "" if it is computed at run time, and the
	// class Pass comes from may be a base.
	Pass string
	// Opcodes that its files name as HloOpcode::k..., most frequent first.
	Opcodes []string
	// Comment is the first sentence of the comment above the class, "" for none.
	Comment string
}

// interfaces are the roots of all passes (xla/hlo/pass/hlo_pass_interface.h,
// xla/hlo/transforms/expanders/op_expander_pass.h). They are no passes
// themselves.
var interfaces = []string{"HloPassInterface", "HloModulePass", "OpExpanderPass"}

var (
	lineComment  = regexp.MustCompile(`(?m)//.*$`)
	blockComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	classHead    = regexp.MustCompile(`\b(?:class|struct)\s+([\w:]+)\s*(?:final\s*)?:\s*((?:public|private|protected)\s[^{;]*)\{`)
	literalName  = regexp.MustCompile(`\bname\(\)\s*const\s*(?:override|final)?\s*\{\s*return\s*("[^"]*"|\w+)(?:\(\))?\s*;`)
	opcode       = regexp.MustCompile(`\bHloOpcode::k(\w+)`)
	upper        = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	include      = regexp.MustCompile(`(?m)^\s*#include\s+"(xla/[^"]+)"`)
)

type declaration struct {
	class, file, body string
	bases             []string
	comment           string
}

// Classes lists the passes under xla/ of a checkout, by file and then by their
// order in it. Tests (*_test.*) are left out, the interfaces too.
func Classes(checkout fs.FS) ([]Class, error) {
	code := map[string]string{}
	byName := map[string][]declaration{}
	var all []declaration
	err := fs.WalkDir(checkout, "xla", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".h", ".cc"}, path.Ext(p)) || strings.HasSuffix(strings.TrimSuffix(p, path.Ext(p)), "_test") {
			return err
		}
		text, err := fs.ReadFile(checkout, p)
		if err != nil {
			return err
		}
		code[p] = blank(string(text))
		for _, d := range declarations(p, string(text), code[p]) {
			byName[d.class] = append(byName[d.class], d)
			all = append(all, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	passes := derived(byName)
	var out []Class
	for _, d := range all {
		if !passes[d.class] || slices.Contains(interfaces, d.class) || !isPass(d, passes) {
			continue
		}
		c := Class{Name: d.class, Files: []string{d.file}, Comment: d.comment}
		if stem, ok := strings.CutSuffix(d.file, ".h"); ok {
			if _, ok := code[stem+".cc"]; ok {
				c.Files = append(c.Files, stem+".cc")
			}
		}
		c.Pass = passName(d, byName, code, 0)
		c.Opcodes = opcodes(c.Files, code)
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Class) int { return cmp.Compare(a.Files[0], b.Files[0]) })
	return out, nil
}

// Includes lists the headers of XLA that a source file includes directly.
func Includes(text []byte) []string {
	var out []string
	for _, m := range include.FindAllSubmatch(text, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// blank replaces comments by spaces, so that offsets stay.
func blank(text string) string {
	spaces := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, strings.ToValidUTF8(s, "?"))
	}
	return lineComment.ReplaceAllStringFunc(blockComment.ReplaceAllStringFunc(text, spaces), spaces)
}

// declarations finds the classes with bases in one file. text and code have the
// same lines.
func declarations(file, text, code string) []declaration {
	var out []declaration
	for _, m := range classHead.FindAllStringSubmatchIndex(code, -1) {
		d := declaration{class: unqualified(code[m[2]:m[3]]), file: file, body: braces(code[m[1]:])}
		d.bases = splitBases(code[m[4]:m[5]])
		d.comment = commentAbove(text, strings.Count(code[:m[0]], "\n"))
		out = append(out, d)
	}
	return out
}

// splitBases reads "public A<B, C>, private ns::D" as A, D.
func splitBases(list string) []string {
	var out []string
	depth, start := 0, 0
	add := func(s string) {
		if i := strings.IndexByte(s, '<'); i >= 0 {
			s = s[:i]
		}
		if f := strings.Fields(s); len(f) > 0 {
			out = append(out, unqualified(f[len(f)-1]))
		}
	}
	for i, r := range list {
		switch {
		case r == '<':
			depth++
		case r == '>':
			depth--
		case r == ',' && depth == 0:
			add(list[start:i])
			start = i + 1
		}
	}
	add(list[start:])
	return out
}

func unqualified(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

// braces returns what stands before the brace that closes an open one.
func braces(code string) string {
	depth := 1
	for i := 0; i < len(code); i++ {
		switch code[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return code[:i]
			}
		}
	}
	return code
}

func commentAbove(text string, line int) string {
	lines := strings.Split(text, "\n")
	var above []string
	for i := line - 1; i >= 0; i-- {
		s, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "//")
		if !ok {
			break
		}
		above = append(above, strings.TrimSpace(strings.TrimLeft(s, "/")))
	}
	slices.Reverse(above)
	s := strings.Join(strings.Fields(strings.Join(above, " ")), " ")
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i]
	}
	return strings.TrimSuffix(s, ".")
}

// derived names all classes below the interfaces.
func derived(byName map[string][]declaration) map[string]bool {
	out := map[string]bool{}
	for _, i := range interfaces {
		out[i] = true
	}
	for grown := true; grown; {
		grown = false
		for name, ds := range byName {
			if !out[name] && slices.ContainsFunc(ds, func(d declaration) bool { return isPass(d, out) }) {
				out[name], grown = true, true
			}
		}
	}
	return out
}

func isPass(d declaration, passes map[string]bool) bool {
	return slices.ContainsFunc(d.bases, func(b string) bool { return passes[b] })
}

// passName follows name() through a literal, a constant of the class or its
// files, or a base.
func passName(d declaration, byName map[string][]declaration, code map[string]string, depth int) string {
	if m := literalName.FindStringSubmatch(d.body); m != nil {
		if s, ok := strings.CutPrefix(m[1], `"`); ok {
			return strings.TrimSuffix(s, `"`)
		}
		constant := regexp.MustCompile(`\b` + m[1] + `(?:\[\])?\s*(?:=|\{|\(\)\s*\{\s*return)\s*"([^"]*)"`)
		for _, text := range []string{d.body, code[d.file], code[strings.TrimSuffix(d.file, ".h")+".cc"]} {
			if c := constant.FindStringSubmatch(text); c != nil {
				return c[1]
			}
		}
		return ""
	}
	if strings.Contains(d.body, "name() const") || depth > 8 {
		return ""
	}
	for _, b := range d.bases {
		if slices.Contains(interfaces, b) {
			continue
		}
		for _, base := range byName[b] {
			if s := passName(base, byName, code, depth+1); s != "" {
				return s
			}
		}
	}
	return ""
}

func opcodes(files []string, code map[string]string) []string {
	count := map[string]int{}
	for _, f := range files {
		for _, m := range opcode.FindAllStringSubmatch(code[f], -1) {
			count[strings.ToLower(upper.ReplaceAllString(m[1], "$1-$2"))]++
		}
	}
	return slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
}
