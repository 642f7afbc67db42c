package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
)

// loadCases reads cases from files and, recursively, from directories (*.case
// and *.hlo). The order is that of the arguments, and by path inside a
// directory. A case is named by its file's base name where that is unique,
// else by its path.
func loadCases(args []string) ([]*fuzz.Case, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			var path *fs.PathError
			errors.As(err, &path)
			return nil, usagef("%s: %v", arg, path.Err)
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		found := len(files)
		err = filepath.WalkDir(arg, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if ext := filepath.Ext(p); !d.IsDir() && (ext == ".case" || ext == ".hlo") {
				files = append(files, p)
			}
			return nil
		})
		if err != nil {
			return nil, usagef("%v", err)
		}
		if len(files) == found {
			return nil, usagef("%s: no .case or .hlo files in this directory", arg)
		}
	}
	var cases []*fuzz.Case
	used := map[string]int{}
	for _, f := range files {
		data, err := readFile(f)
		if err != nil {
			return nil, err
		}
		c, err := fuzz.ReadCase(f, data)
		if err != nil {
			return nil, &usageError{err}
		}
		used[c.Name]++
		cases = append(cases, c)
	}
	for _, c := range cases {
		if used[c.Name] > 1 {
			c.Name = strings.TrimSuffix(filepath.ToSlash(filepath.Clean(c.Path)), filepath.Ext(c.Path))
		}
	}
	names := map[string]bool{}
	for _, c := range cases {
		if names[c.Name] {
			return nil, usagef("%s: given twice", c.Path)
		}
		names[c.Name] = true
	}
	return slices.Clip(cases), nil
}
