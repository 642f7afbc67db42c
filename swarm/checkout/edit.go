package checkout

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Edit replaces Old, which occurs exactly once in the file, by New. With an empty
// Old it makes a file that is not there.
type Edit struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// editable are the kinds of files that an edit may touch: code of passes and
// tests. Build files and scripts would run in the build.
var editable = []string{".cc", ".h", ".hlo"}

// The limits of one patch.
const (
	maxEdits   = 20
	maxNewText = 64 << 10
)

// Patch is a set of edits that fits a tree.
type Patch struct {
	// Files are the new contents by path.
	Files map[string]string
	// Diff is the patch as a unified diff, for `git apply`.
	Diff string
}

// Plan applies edits in memory. The error is a *RefusedError.
func (r *Root) Plan(edits []Edit) (*Patch, error) {
	if len(edits) == 0 || len(edits) > maxEdits {
		return nil, &RefusedError{"", fmt.Sprintf("%d edits, want 1 to %d", len(edits), maxEdits)}
	}
	before, after := map[string]string{}, map[string]string{}
	for _, e := range edits {
		switch {
		case !slices.Contains(editable, path.Ext(e.Path)):
			return nil, &RefusedError{e.Path, "only " + strings.Join(editable, ", ") + " files may be edited"}
		case len(e.New) > maxNewText:
			return nil, &RefusedError{e.Path, fmt.Sprintf("an edit of more than %d bytes", maxNewText)}
		case strings.ContainsRune(e.New, 0):
			return nil, &RefusedError{e.Path, "the new text is no text"}
		}
		text, known := after[e.Path]
		if !known {
			data, err := r.file(e.Path)
			var refused *RefusedError
			switch {
			case err == nil:
				text, before[e.Path] = string(data), string(data)
			case e.Old == "" && errors.As(err, &refused) && strings.HasPrefix(refused.Reason, "there is no"):
				if err := r.parents(e.Path); err != nil {
					return nil, err
				}
				after[e.Path] = e.New
				continue
			default:
				return nil, err
			}
		}
		if e.Old == "" {
			return nil, &RefusedError{e.Path, "the file is there already: say which text to replace"}
		}
		switch n := strings.Count(text, e.Old); n {
		case 1:
		case 0:
			return nil, &RefusedError{e.Path, "the text to replace does not occur in the file"}
		default:
			return nil, &RefusedError{e.Path, fmt.Sprintf("the text to replace occurs %d times: quote more of it", n)}
		}
		after[e.Path] = strings.Replace(text, e.Old, e.New, 1)
	}
	p := &Patch{Files: after}
	var names []string
	for name := range after {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		old, was := before[name]
		from := "a/" + name
		if !was {
			from = "/dev/null"
		}
		if old == after[name] {
			return nil, &RefusedError{name, "the edits change nothing"}
		}
		p.Diff += fmt.Sprintf("diff --git a/%s b/%s\n", name, name)
		if !was {
			p.Diff += "new file mode 100644\n"
		}
		p.Diff += udiff.Unified(from, "b/"+name, old, after[name])
	}
	return p, nil
}

// parents refuses a new file in a directory that is not there or behind a link.
func (r *Root) parents(name string) error {
	dir, err := r.clean(path.Dir(name))
	if err != nil {
		return err
	}
	info, err := r.root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return &RefusedError{name, "its directory is not there"}
	}
	return nil
}

// Copy makes a copy of the tree with a patch applied in an empty directory.
// Version control and links that lead out of the tree are left behind.
func (r *Root) Copy(dir string, p *Patch) error {
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	err = fs.WalkDir(r.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			if name == "." {
				return nil
			}
			return to.Mkdir(name, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := r.root.Readlink(name)
			if err != nil || filepath.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
				return nil
			}
			return to.Symlink(target, name)
		case !d.Type().IsRegular():
			return nil
		}
		return r.copyFile(to, name, d)
	})
	if err != nil {
		return fmt.Errorf("copying the checkout: %w", err)
	}
	for name, text := range p.Files {
		if err := to.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("applying the patch: %w", err)
		}
	}
	return nil
}

func (r *Root) copyFile(to *os.Root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	in, err := r.root.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}
