package builds

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// release is a version without alpha, beta, development or local parts.
var release = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*$`)

// Versions lists the builds from one spec to another: both ends and the released versions of the same distribution
// between them, in order; from may be the newer end. They are those that the machine's own pip knows of, and those in
// the cache; with cached only the latter. Errors are *SpecError for ends that are no versions of one thing, *FetchError
// where pip fails.
func (s *Store) Versions(ctx context.Context, from, to Spec, cached bool) ([]Spec, error) {
	if from.Source != to.Source || from.Target != to.Target || from.Version == "" || to.Version == "" || from.Source == Pip && from.Dist != to.Dist {
		return nil, &SpecError{Spec: from.Text, Reason: fmt.Sprintf("no version of the same build as %s", to.Text)}
	}
	dists := slices.Compact([]string{from.Dist, to.Dist})
	known := map[string]bool{}
	for _, dist := range dists {
		found, err := filepath.Glob(filepath.Join(s.root, "pins", strings.ToLower(dist)+"==*.json"))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			_, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".json"), "==")
			version, _, _ = strings.Cut(version, "-cp")
			known[version] = true
		}
		if cached {
			continue
		}
		listed, err := s.pipVersions(ctx, from, dist)
		if err != nil {
			return nil, err
		}
		for _, v := range listed {
			known[v] = true
		}
	}
	low, high := from, to
	if compareVersions(low.Version, high.Version) > 0 {
		low, high = high, low
	}
	var between []string
	for v := range known {
		if release.MatchString(v) && compareVersions(low.Version, v) < 0 && compareVersions(v, high.Version) < 0 {
			between = append(between, v)
		}
	}
	slices.SortFunc(between, compareVersions)
	out := []Spec{low}
	for _, v := range between {
		spec, err := Parse(low.with(v))
		if err != nil || spec.Dist != low.Dist && spec.Dist != high.Dist {
			continue // older than what passgate reads
		}
		out = append(out, spec)
	}
	if compareVersions(low.Version, high.Version) != 0 {
		out = append(out, high)
	}
	if low.Text != from.Text {
		slices.Reverse(out)
	}
	return out, nil
}

// with is the text of the same spec for another version.
func (s Spec) with(version string) string {
	text, target := "", ""
	switch s.Source {
	case Pip:
		return "pip:" + s.Dist + "==" + version
	case Jaxlib:
		text = "jaxlib:"
	case Libtpu:
		text = "libtpu:"
	case CUDA:
		text = "cuda:"
	}
	if strings.Contains(s.Text, "@") {
		target = "@" + s.Target
	}
	return text + version + target
}

var listed = regexp.MustCompile(`(?m)^Available versions: (.*)$`)

// pipVersions asks pip for the versions of a distribution that some fitting Python could have.
func (s *Store) pipVersions(ctx context.Context, spec Spec, dist string) ([]string, error) {
	s.report(Event{Spec: spec.Text, What: "list the versions of " + dist})
	tmp, err := os.MkdirTemp(filepath.Join(s.root, "tmp"), "index-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	var all []string
	for _, python := range []string{"3.12", "3.11"} { // between them they have every release since minJaxlib
		argv := []string{"python3", "-m", "pip", "--disable-pip-version-check", "--no-input", "index", "versions", "--only-binary=:all:",
			"--python-version", python, "--implementation", "cp", "--abi", "none", "--abi", "abi3", "--abi", "cp" + strings.ReplaceAll(python, ".", "")}
		argv = append(append(argv, platforms()...), dist)
		out, err := s.run(ctx, argv, []string{"TMPDIR=" + tmp})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if strings.Contains(out, "No matching distribution") {
				continue
			}
			return nil, &FetchError{Spec: spec.Text, Err: fmt.Errorf("pip index versions %s: %w: %s", dist, err, lastError(out))}
		}
		if m := listed.FindStringSubmatch(out); m != nil {
			all = append(all, strings.Split(strings.TrimSpace(m[1]), ", ")...)
		}
	}
	return all, nil
}
