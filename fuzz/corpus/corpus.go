// Package corpus keeps programs to start from: what a campaign found worth
// keeping, and dumps of real jobs, scrubbed of what does not belong in a test.
//
// On disk a corpus is a directory of case files. The name of a file is the
// digest of its program and inputs, so a program is there once, whoever adds
// it, and corpora are merged by copying files. What is known about an entry
// stands in the notes of its case, one line each:
//
//	fired: algsimp, dce
//	signature: algsimp:+1*add/f32/1 -1*multiply/f32/1
//	from: dump
//
// Any directory of .case and .hlo files is a corpus to read.
package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
)

// Entry is a program of a corpus.
type Entry struct {
	Case *fuzz.Case
	// Fired are passes that changed the program when it was last run, and
	// Signatures the rewrite signatures it was kept for.
	Fired, Signatures []string
	// From says where it comes from, in a word or two.
	From string
	// Path is the file in the corpus that was read.
	Path string
}

// ErrEmpty says that a directory holds no programs.
var ErrEmpty = errors.New("corpus: no .case or .hlo files")

// Load reads a corpus, in path order. Case files that do not parse are an
// error: a corpus is not the place for broken files.
func Load(fsys fs.FS) ([]Entry, error) {
	out, err := load(fsys, func([]byte) bool { return true })
	if err == nil && len(out) == 0 {
		err = ErrEmpty
	}
	return out, err
}

// load reads the files whose bytes are wanted.
func load(fsys fs.FS, wanted func(data []byte) bool) ([]Entry, error) {
	var out []Entry
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("corpus: %w", err)
		}
		if ext := path.Ext(p); d.IsDir() || !d.Type().IsRegular() || ext != ".case" && ext != ".hlo" {
			return nil
		}
		data, err := fs.ReadFile(fsys, p)
		if err != nil {
			return fmt.Errorf("corpus: %w", err)
		}
		if !wanted(data) {
			return nil
		}
		c, err := fuzz.ReadCase(p, data)
		if err != nil {
			return err
		}
		out = append(out, entryOf(c, p))
		return nil
	})
	return out, err
}

func entryOf(c *fuzz.Case, p string) Entry {
	e := Entry{Case: c, Path: p}
	for key, value := range notes(c.Notes) {
		switch key {
		case "fired":
			e.Fired = strings.Split(value, ", ")
		case "signature":
			e.Signatures = append(e.Signatures, value)
		case "from":
			e.From = value
		}
	}
	return e
}

// notes are the lines "key: value" of a text.
func notes(text string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for l := range strings.SplitSeq(text, "\n") {
			if key, value, ok := strings.Cut(l, ": "); ok && !yield(key, value) {
				return
			}
		}
	}
}

// file is the entry as the case that is written.
func (e *Entry) file() *fuzz.Case {
	c := *e.Case
	c.Want, c.Tolerance = nil, 0
	var b strings.Builder
	if e.From != "" {
		fmt.Fprintf(&b, "from: %s\n", e.From)
	}
	if len(e.Fired) > 0 {
		fmt.Fprintf(&b, "fired: %s\n", strings.Join(e.Fired, ", "))
	}
	for _, s := range e.Signatures {
		fmt.Fprintf(&b, "signature: %s\n", s)
	}
	c.Notes = b.String()
	return &c
}

// Name is the file of an entry inside a corpus: two hex digits, a slash, and
// sixteen of the digest.
func (e *Entry) Name() string {
	h := e.Case.Hash()
	return h[:2] + "/" + h[:16] + ".case"
}

// Put writes an entry into the corpus in dir, whole or not at all. It reports
// whether the program was new; one that is there already is left alone unless
// overwrite is set.
func Put(dir string, e Entry, overwrite bool) (bool, error) {
	name := filepath.Join(dir, filepath.FromSlash(e.Name()))
	_, err := os.Stat(name)
	fresh := errors.Is(err, fs.ErrNotExist)
	if !fresh && !overwrite {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return false, err
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(e.file().Format())
	if err = errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return false, err
	}
	return fresh, os.Rename(temp.Name(), name)
}

// Stats sums a corpus up.
type Stats struct {
	Entries, Instructions, Inputs int // Inputs: entries that have inputs of their own
	Bytes                         int64
	Signatures                    int
	// Fired and Opcodes count entries.
	Fired, Opcodes []Share
}

// Share is how many entries hold something.
type Share struct {
	Name    string
	Entries int
}

// Sum sums entries up. Shares come largest first.
func Sum(entries []Entry) Stats {
	s := Stats{Entries: len(entries)}
	fired, opcodes, signatures := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, e := range entries {
		s.Bytes += int64(len(e.file().Format()))
		if e.Case.Own {
			s.Inputs++
		}
		for _, f := range e.Fired {
			fired[f]++
		}
		for _, g := range e.Signatures {
			signatures[g] = true
		}
		if e.Case.Module == nil {
			continue
		}
		s.Instructions += e.Case.Module.NumInstructions()
		for op := range opcodesOf(e.Case.Module) {
			opcodes[op]++
		}
	}
	s.Signatures = len(signatures)
	s.Fired, s.Opcodes = shares(fired), shares(opcodes)
	return s
}

func shares(n map[string]int) []Share {
	var out []Share
	for name, entries := range n {
		out = append(out, Share{name, entries})
	}
	slices.SortFunc(out, func(a, b Share) int { return cmp.Or(b.Entries-a.Entries, strings.Compare(a.Name, b.Name)) })
	return out
}

// Cover picks a smallest set of entries that has all signatures of all of them
// by the greedy rule: the entry with the most signatures that are still
// missing for its size, again and again. Entries without a signature are not
// picked. The order of the result is that of entries.
func Cover(entries []Entry) []Entry {
	var out []Entry
	for _, i := range slices.Sorted(slices.Values(cover(entries, func(int, int) bool { return true }))) {
		out = append(out, entries[i])
	}
	return out
}

// cover is Cover's choice in its order, by index, as long as more agrees to the
// number of entries and the size of their files, the next one included.
func cover(entries []Entry, more func(n, size int) bool) []int {
	missing := map[string]bool{}
	sizes := make([]int, len(entries))
	for i, e := range entries {
		sizes[i] = len(e.file().Format())
		for _, s := range e.Signatures {
			missing[s] = true
		}
	}
	var out []int
	for total := 0; len(missing) > 0; {
		best, most := -1, 0.0
		for i, e := range entries {
			n := 0
			for _, s := range e.Signatures {
				if missing[s] {
					n++
				}
			}
			if value := float64(n) / float64(sizes[i]); value > most {
				best, most = i, value
			}
		}
		if total += sizes[best]; !more(len(out)+1, total) {
			break
		}
		out = append(out, best)
		for _, s := range entries[best].Signatures {
			delete(missing, s)
		}
	}
	return out
}
