package reports

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/passgate/passgate/gate"
)

// Write puts every rendering of a result into a directory, a folder per finding
// with the case, the smallest failing case, the finding and how to see it again,
// and in new/ one case for each case with a new finding: what the command of the
// reports runs again. The directory is made if need be; files of an earlier run
// are replaced and its findings removed. r.Dir is not read.
func Write(dir string, of *gate.Result) error {
	here := *of
	here.Dir = dir
	r := &here
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var all []rendering
	var written []*replacement
	defer func() {
		for _, f := range written {
			f.discard()
		}
	}()
	for _, f := range files {
		to, err := newReplacement(filepath.Join(dir, f.name))
		if err != nil {
			return err
		}
		written = append(written, to)
		k, err := f.begin(to, r)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		all = append(all, k)
	}
	if err := run(r, all...); err != nil {
		return err
	}
	for _, f := range written {
		if err := f.commit(); err != nil {
			return err
		}
	}
	if err := writeNew(filepath.Join(dir, newDir), r); err != nil {
		return err
	}
	root := filepath.Join(dir, "findings")
	old, err := filepath.Glob(filepath.Join(root, "f-????????????"))
	if err != nil {
		return err
	}
	for _, o := range old {
		if err := os.RemoveAll(o); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if err := writeFinding(filepath.Join(root, f.ID), r, f); err != nil {
			return err
		}
	}
	return nil
}

// newDir is the folder of what is new, in the directory of the reports.
const newDir = "new"

// writeNew writes the program and the inputs of every new finding, the gravest
// of a case as CASE.case.
func writeNew(dir string, r *gate.Result) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.case"))
	if err != nil {
		return err
	}
	for _, o := range old {
		if err := os.Remove(o); err != nil {
			return err
		}
	}
	if !hasNew(r) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	used := map[string]bool{}
	for _, f := range gravest(r, func(f *gate.Finding) bool { return f.Status == gate.New }) {
		data := againFile(f)
		name := fileName(f.Case)
		if used[name] {
			name += "-" + f.ID
		}
		if used[name] = true; len(data) == 0 {
			continue
		}
		if err := replace(filepath.Join(dir, name+".case"), data); err != nil {
			return err
		}
	}
	return nil
}

// againFile is the smallest case that check shows a finding on.
func againFile(f *gate.Finding) []byte {
	if f.InMinimal != nil && f.InMinimal.BackendOnly {
		return f.CaseFile
	}
	_, data := evidenceFile(f)
	return data
}

// fileName is the name of a case as that of a file: letters, digits and what
// neither a shell nor a file system minds, at most 100 bytes.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	name = strings.TrimLeft(name[:min(len(name), 100)], ".-")
	if name == "" {
		return "case"
	}
	return name
}

func writeFinding(dir string, r *gate.Result, f *gate.Finding) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"case", f.CaseFile},
		{"minimal.case", f.MinimalFile},
		{"finding.json", append(data, '\n')},
		{"README.md", []byte(findingReadme(dir, r, f))},
	} {
		if err := replace(filepath.Join(dir, file.name), file.data); err != nil {
			return err
		}
	}
	return nil
}

// word matches what a shell takes as one word as it is.
var word = regexp.MustCompile(`^[A-Za-z0-9_,.:%/+=@-]+$`)

func shellQuote(s string) string {
	if word.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// replace writes a file so that readers see the old or the new one.
func replace(name string, data []byte) error {
	f, err := newReplacement(name)
	if err != nil {
		return err
	}
	defer f.discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.commit()
}

// replacement is a file that is not there under its name before it is whole.
type replacement struct {
	*bufio.Writer
	file *os.File
	name string
}

func newReplacement(name string) (*replacement, error) {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".passgate-*")
	if err != nil {
		return nil, err
	}
	return &replacement{bufio.NewWriter(tmp), tmp, name}, nil
}

func (f *replacement) commit() error {
	err := f.Flush()
	if err == nil {
		err = f.file.Chmod(0o644)
	}
	if cerr := f.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.file.Name(), f.name)
}

// discard removes what was not committed.
func (f *replacement) discard() {
	f.file.Close()
	os.Remove(f.file.Name())
}
