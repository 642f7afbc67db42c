package corpus

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/passes"
)

// hloTests are the folders of XLA that hold tests of passes as .hlo files; a
// RUN line names the passes.
var hloTests = []string{"xla/hlo/transforms", "xla/hlo/tools", "xla/tools/hlo_opt", "xla/service"}

// testWeight is the least weight of a pass whose own unit tests are seeds: the
// changed passes, those in the same file, and those that include a changed
// helper.
const testWeight = 2

// Tests gives the HLO modules of the unit tests of passes in focus in a
// checkout of XLA, in the order of the focus: those of its *_test.cc and of
// .hlo files with the pass's name in a RUN line. What does not parse or verify
// (templates, patterns, tests of the parser) is left out.
func Tests(checkout fs.FS, focus []passes.Focus) []*fuzz.Case {
	var out []*fuzz.Case
	done := map[string]bool{}
	take := func(file string) {
		if done[file] {
			return
		}
		done[file] = true
		src, err := fs.ReadFile(checkout, file)
		if err != nil {
			return
		}
		for line, text := range fuzz.Modules(file, string(src)) {
			c, err := fuzz.ReadModule(fmt.Sprintf("%s:%d", file, line), []byte(text))
			if err != nil {
				continue
			}
			c.Name = strings.TrimSuffix(path.Base(file), path.Ext(file)) + fmt.Sprintf(".%d", line)
			out = append(out, c)
		}
	}
	lit := litTests(checkout)
	for _, f := range focus {
		if f.Weight < testWeight {
			continue
		}
		for _, file := range f.Pass.Files {
			take(strings.TrimSuffix(file, path.Ext(file)) + "_test.cc")
		}
		for _, name := range f.Pass.Variants {
			for _, file := range lit[name] {
				take(file)
			}
		}
	}
	return out
}

// litTests finds the .hlo tests by the pass names in their RUN lines.
func litTests(checkout fs.FS) map[string][]string {
	out := map[string][]string{}
	for _, dir := range hloTests {
		_ = fs.WalkDir(checkout, dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(p) != ".hlo" {
				return nil // a missing folder is no tests
			}
			src, err := fs.ReadFile(checkout, p)
			if err != nil {
				return nil
			}
			for _, l := range strings.Split(string(src), "\n") {
				_, list, ok := strings.Cut(l, "--passes=")
				if !strings.Contains(l, "RUN:") || !ok {
					continue
				}
				list, _, _ = strings.Cut(list, " ")
				for _, name := range strings.Split(list, ",") {
					if !slices.Contains(out[name], p) {
						out[name] = append(out[name], p)
					}
				}
			}
			return nil
		})
	}
	return out
}

// wholeLimit is the number of instructions up to which an entry is used whole.
// Above, connected pieces of it are: a compilation takes time in proportion,
// and a finding in a small program is worth more.
const wholeLimit = 120

// pieceSize is the number of instructions of a piece, and piecesPerEntry how
// many are cut from one entry.
const (
	pieceSize      = 40
	piecesPerEntry = 8
)

// Pieces makes programs to start from of corpus entries: first those that made
// one of the passes fire before, then those that hold one of the opcodes ("*"
// is any), large ones cut around these. Entries with neither are left out,
// unless there are no passes and no opcodes. The error is ctx's.
func Pieces(ctx context.Context, entries []Entry, names, opcodes []string) ([]*fuzz.Case, error) {
	any := len(names) == 0 && len(opcodes) == 0 || slices.Contains(opcodes, "*")
	wanted := func(op hlo.Opcode) bool { return slices.Contains(opcodes, op.String()) }
	if any && !slices.ContainsFunc(opcodes, func(o string) bool { return o != "*" }) {
		wanted = func(op hlo.Opcode) bool { return op != hlo.OpParameter && op != hlo.OpConstant }
	}
	var first, second []*fuzz.Case
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if e.Case.Module == nil {
			continue
		}
		fired := slices.ContainsFunc(e.Fired, func(f string) bool { return slices.Contains(names, f) })
		holds := any || slices.ContainsFunc(e.Case.Module.Computations, func(c *hlo.Computation) bool {
			return slices.ContainsFunc(c.Instructions, func(in *hlo.Instruction) bool { return wanted(in.Op) })
		})
		if !fired && !holds {
			continue
		}
		list := &second
		if fired {
			list = &first
		}
		if e.Case.Module.NumInstructions() <= wholeLimit {
			c := *e.Case
			c.Want, c.Tolerance = nil, 0
			*list = append(*list, &c)
			continue
		}
		pieces, err := Cut(ctx, e.Case, wanted, pieceSize, piecesPerEntry)
		if err != nil {
			return nil, err
		}
		*list = append(*list, pieces...)
	}
	return append(first, second...), nil
}

func opcodesOf(m *hlo.Module) map[string]bool {
	out := map[string]bool{}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			out[in.Op.String()] = true
		}
	}
	return out
}
