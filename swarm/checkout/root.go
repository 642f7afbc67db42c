// Package checkout is a source tree that agents may look at and, in a copy, mend:
// reading stays under one root, edits are text replaced by text in files of the
// kinds that passes and their tests are written in, and a copy is built by the
// user's own command.
package checkout

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// RefusedError is a path or an edit that is not allowed or does not fit.
type RefusedError struct{ Path, Reason string }

func (e *RefusedError) Error() string { return fmt.Sprintf("%q: %s", e.Path, e.Reason) }

// The limits of what one read, listing or search gives.
const (
	MaxLines   = 400
	MaxBytes   = 32 << 10
	MaxMatches = 50
	maxFile    = 4 << 20 // a source file
	maxFiles   = 400_000
)

// Root is a directory that is only read. Links are not followed.
type Root struct{ root *os.Root }

// Open opens a directory.
func Open(dir string) (*Root, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Root{r}, nil
}

// Close closes it.
func (r *Root) Close() error { return r.root.Close() }

// FS is the tree as a file system.
func (r *Root) FS() fs.FS { return r.root.FS() }

// clean checks that a path is local and that no part of it is a link. os.Root
// keeps to the root by itself; a link inside it may still show a file under a
// name that says something else.
func (r *Root) clean(name string) (string, error) {
	if name == "" {
		name = "."
	}
	if !fs.ValidPath(name) || !filepath.IsLocal(name) {
		return "", &RefusedError{name, "want a path inside the source tree, with forward slashes and without \"..\""}
	}
	for i, part := 0, strings.Split(name, "/"); i < len(part); i++ {
		at := path.Join(part[:i+1]...)
		info, err := r.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", &RefusedError{name, "there is no such file"}
		case err != nil:
			return "", &RefusedError{name, "cannot be read"}
		case info.Mode()&fs.ModeSymlink != 0:
			return "", &RefusedError{name, "is or goes through a link, which is not followed"}
		}
	}
	return name, nil
}

// file reads a regular file of text whole.
func (r *Root) file(name string) ([]byte, error) {
	name, err := r.clean(name)
	if err != nil {
		return nil, err
	}
	f, err := r.root.Open(name)
	if err != nil {
		return nil, &RefusedError{name, "cannot be read"}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, &RefusedError{name, "is no regular file"}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, &RefusedError{name, "cannot be read"}
	case len(data) > maxFile:
		return nil, &RefusedError{name, fmt.Sprintf("has more than %d bytes", maxFile)}
	case bytes.IndexByte(data, 0) >= 0:
		return nil, &RefusedError{name, "is no text"}
	}
	return data, nil
}

// Read gives lines of a file, numbered, from a line on (1 is the first); at most
// MaxLines lines and MaxBytes bytes, and says what is left out.
func (r *Root) Read(name string, from, lines int) (string, error) {
	data, err := r.file(name)
	if err != nil {
		return "", err
	}
	all := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if lines <= 0 || lines > MaxLines {
		lines = MaxLines
	}
	from = max(from, 1)
	if from > len(all) {
		return "", &RefusedError{name, fmt.Sprintf("has %d lines", len(all))}
	}
	var b strings.Builder
	for i := from; i <= len(all) && i < from+lines; i++ {
		l := fmt.Sprintf("%d\t%s\n", i, all[i-1])
		if b.Len()+len(l) > MaxBytes {
			fmt.Fprintf(&b, "... cut at line %d of %d\n", i, len(all))
			return b.String(), nil
		}
		b.WriteString(l)
	}
	if last := from + lines - 1; last < len(all) {
		fmt.Fprintf(&b, "... %d more lines\n", len(all)-last)
	}
	return b.String(), nil
}

// List gives the names in a directory; directories end with a slash.
func (r *Root) List(dir string) (string, error) {
	dir, err := r.clean(dir)
	if err != nil {
		return "", err
	}
	entries, err := fs.ReadDir(r.root.FS(), dir)
	if err != nil {
		return "", &RefusedError{dir, "is no directory"}
	}
	var b strings.Builder
	for i, e := range entries {
		name := e.Name()
		switch {
		case i == MaxLines:
			fmt.Fprintf(&b, "... %d more\n", len(entries)-i)
			return b.String(), nil
		case e.IsDir():
			name += "/"
		case !e.Type().IsRegular():
			continue
		}
		b.WriteString(name + "\n")
	}
	return b.String(), nil
}

// Search gives the lines of source files below a directory that hold a text.
func (r *Root) Search(text, dir string) (string, error) {
	if len(text) < 3 {
		return "", &RefusedError{text, "want at least three characters to search for"}
	}
	dir, err := r.clean(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	matches, files := 0, 0
	err = fs.WalkDir(r.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != ".":
			return fs.SkipDir
		case !d.Type().IsRegular() || !slices.Contains(sources, path.Ext(name)):
			return nil
		}
		if files++; files > maxFiles || matches >= MaxMatches {
			return fs.SkipAll
		}
		f, err := r.root.Open(name)
		if err != nil {
			return nil
		}
		defer f.Close()
		lines := bufio.NewScanner(io.LimitReader(f, maxFile))
		for n := 1; lines.Scan(); n++ {
			if l := lines.Text(); strings.Contains(l, text) {
				if len(l) > 300 {
					l = strings.ToValidUTF8(l[:300], "") + "..."
				}
				if fmt.Fprintf(&b, "%s:%d: %s\n", name, n, l); matches == MaxMatches-1 {
					b.WriteString("... there may be more\n")
				}
				if matches++; matches >= MaxMatches {
					return fs.SkipAll
				}
			}
		}
		return nil // a file that is no text has no lines to show
	})
	if err != nil {
		return "", &RefusedError{dir, "cannot be searched"}
	}
	if matches == 0 {
		return "no line holds that text\n", nil
	}
	return b.String(), nil
}

// sources are the kinds of files that are searched.
var sources = []string{".cc", ".h", ".inc", ".hlo", ".mlir", ".td", ".proto", ".md"}
