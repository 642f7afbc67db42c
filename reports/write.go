package reports

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/passgate/passgate/gate"
)

// Write puts every rendering of a result into a directory, and a folder per
// finding with the case, the smallest failing case, the finding and how to see
// it again. The directory is made if need be; files of an earlier run are
// replaced and its findings removed.
func Write(dir string, r *gate.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		data, err := f.render(r)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if err := replace(filepath.Join(dir, f.name), data); err != nil {
			return err
		}
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
	for _, f := range r.Findings {
		if err := writeFinding(filepath.Join(root, f.ID), r, &f); err != nil {
			return err
		}
	}
	return nil
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
		{"README.md", []byte(findingReadme(r, f))},
	} {
		if err := replace(filepath.Join(dir, file.name), file.data); err != nil {
			return err
		}
	}
	return nil
}

func shellQuote(s string) string {
	if plain.MatchString(s) && !strings.ContainsAny(s, " ;()'") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// replace writes a file so that readers see the old or the new one.
func replace(name string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".passgate-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
