package builds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrNoPython says that no interpreter on this machine fits a jaxlib version.
var ErrNoPython = errors.New("no fitting Python on this machine")

// minJaxlib is the oldest jaxlib whose Python interface the worker script knows.
const minJaxlib = "0.4.13"

// wheelTag asks pip for wheels of one Python.
type wheelTag struct {
	python string // "3.11"; empty for wheels of any Python 3
}

// pluginPythons are the Pythons whose wheels are asked for when only the plugin inside counts: libtpu's newer wheels
// carry the tag of one Python although nothing in them is Python's.
var pluginPythons = []string{"3.12", "3.13", "3.11", "3.14", "3.10"}

// flags are pip's options, one list per attempt.
func (t wheelTag) flags() [][]string {
	attempt := func(python string, abis ...string) []string {
		args := []string{"--python-version", python, "--implementation", "cp"}
		for _, a := range append(abis, "cp"+strings.ReplaceAll(python, ".", "")) {
			args = append(args, "--abi", a)
		}
		return args
	}
	if t.python != "" {
		return [][]string{attempt(t.python)}
	}
	var all [][]string
	for _, python := range pluginPythons {
		all = append(all, attempt(python, "none", "abi3"))
	}
	return all
}

func (t wheelTag) suffix() string {
	if t.python == "" {
		return ""
	}
	return "-cp" + strings.ReplaceAll(t.python, ".", "")
}

// jaxlibPythons lists the Python versions for which a jaxlib version has wheels, the preferred first (jaxlib's
// classifiers on its package index).
func jaxlibPythons(version string) []string {
	switch {
	case compareVersions(version, "0.4.14") < 0:
		return []string{"3.11", "3.10", "3.9", "3.8"}
	case compareVersions(version, "0.4.18") < 0:
		return []string{"3.11", "3.10", "3.9"}
	case compareVersions(version, "0.4.31") < 0:
		return []string{"3.12", "3.11", "3.10", "3.9"}
	case compareVersions(version, "0.4.34") < 0:
		return []string{"3.12", "3.11", "3.10"}
	case compareVersions(version, "0.7.0") < 0:
		return []string{"3.12", "3.13", "3.11", "3.10"}
	case compareVersions(version, "0.11.0") < 0:
		return []string{"3.12", "3.13", "3.11", "3.14"}
	default:
		return []string{"3.12", "3.13", "3.14"}
	}
}

// companion is a distribution that jaxlib imports.
type companion struct{ dist, version string }

// jaxlibCompanions pins what a jaxlib version imports under a Python version. Before 0.4.30 jaxlib is built against
// numpy 1; ml_dtypes 0.5 dropped names that those versions look up. scipy, which jaxlib's metadata also wants, serves only
// its LAPACK custom-calls, which the worker does not register.
func jaxlibCompanions(version, python string) []companion {
	old := compareVersions(version, "0.4.30") < 0
	numpy, mlDtypes := "2.2.6", "0.5.3"
	switch {
	case python == "3.8":
		numpy, mlDtypes = "1.24.4", "0.2.0"
	case old:
		numpy, mlDtypes = "1.26.4", "0.3.2"
	case python == "3.9":
		numpy, mlDtypes = "2.0.2", "0.5.3"
	case python == "3.14":
		numpy, mlDtypes = "2.3.3", "0.5.3"
	}
	return []companion{{"numpy", numpy}, {"ml-dtypes", mlDtypes}}
}

// findPython looks for an interpreter of the given version: pythonX.Y on PATH (not a pyenv shim that has no such version
// behind it), then the versions that pyenv installed.
func (s *Store) findPython(ctx context.Context, version string) (string, error) {
	name := "python" + version
	var candidates []string
	for _, dir := range filepath.SplitList(s.getenv("PATH")) {
		if filepath.IsAbs(dir) && filepath.Base(dir) != "shims" {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	root := s.getenv("PYENV_ROOT")
	if root == "" && s.getenv("HOME") != "" {
		root = filepath.Join(s.getenv("HOME"), ".pyenv")
	}
	if root != "" {
		found, err := filepath.Glob(filepath.Join(root, "versions", version+"*", "bin", name))
		if err != nil {
			return "", fmt.Errorf("look for %s: %w", name, err)
		}
		candidates = append(candidates, found...)
	}
	for _, c := range candidates {
		if st, err := os.Stat(c); err != nil || st.IsDir() || st.Mode()&0o111 == 0 {
			continue
		}
		if _, err := s.run(ctx, []string{c, "-I", "-c", "import zlib, ctypes"}, nil); err == nil {
			return c, nil
		}
	}
	return "", nil
}

// fetchJaxlib finds a Python for the wheel and puts the wheel and what it imports into the cache.
func (s *Store) fetchJaxlib(ctx context.Context, spec Spec) (*Build, error) {
	var tried []string
	for _, version := range jaxlibPythons(spec.Version) {
		tried = append(tried, version)
		python, err := s.findPython(ctx, version)
		if err != nil {
			return nil, err
		}
		if python == "" {
			continue
		}
		tag := wheelTag{python: version}
		main, err := s.fetchWheel(ctx, spec, spec.Dist, spec.Version, tag)
		if err != nil {
			return nil, err
		}
		path := []string{main.dir}
		for _, c := range jaxlibCompanions(spec.Version, version) {
			w, err := s.fetchWheel(ctx, spec, c.dist, c.version, tag)
			if err != nil {
				return nil, err
			}
			path = append(path, w.dir)
		}
		return &Build{Spec: spec, Kind: spec.Kind(), ID: "sha256:" + main.pin.SHA256, Python: python, PythonPath: path}, nil
	}
	return nil, fmt.Errorf("%w: want one of python%s on PATH or under pyenv", ErrNoPython, strings.Join(tried, ", python"))
}
