// Package builds names, fetches and describes the XLA builds under test.
//
// A build is written as a build spec; Parse turns the text into a Spec, Store.Fetch the Spec into a Build whose files lie in
// a content-addressed cache. Nothing here loads a build: package worker does, in a process of its own.
package builds

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind says what a build can do on this machine.
type Kind string

const (
	// Executable builds compile and run programs here.
	Executable Kind = "executable"
	// CompileOnly builds compile ahead of time for a device that need not be here.
	CompileOnly Kind = "compile-only"
)

// Source says where a build comes from.
type Source string

const (
	File   Source = "file"   // a plugin .so by path
	Pip    Source = "pip"    // a wheel that holds a plugin
	Jaxlib Source = "jaxlib" // a jaxlib wheel, run through Python
	Libtpu Source = "libtpu" // the TPU compiler, compile-only without a TPU
	CUDA   Source = "cuda"   // the CUDA plugin, compile-only without a GPU
	Fault  Source = "fault"  // passgate's own fault-injecting build, see package worker
)

// Spec is a parsed build spec.
type Spec struct {
	// Text is the spec as the user wrote it.
	Text   string
	Source Source
	// Path is the plugin file (File).
	Path string
	// Dist and Version name the wheel (Pip, Jaxlib, Libtpu, CUDA).
	Dist, Version string
	// Target is the topology or GPU target after '@', or its default; compile-only builds only.
	Target string
	// Every and Inner belong to Fault: one program in Every gets a fault (0: only on request), the others go to the build
	// Inner; nil is a build that returns its inputs.
	Every int
	Inner *Spec
}

// Kind is CompileOnly for builds with a target.
func (s Spec) Kind() Kind {
	if s.Target != "" {
		return CompileOnly
	}
	return Executable
}

func (s Spec) String() string { return s.Text }

// SpecError says what is wrong with a build spec.
type SpecError struct {
	Spec, Reason string
}

func (e *SpecError) Error() string { return fmt.Sprintf("build spec %q: %s", e.Spec, e.Reason) }

var (
	distPattern    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`) // PEP 508 name
	versionPattern = regexp.MustCompile(`^[0-9][0-9A-Za-z.!+_-]*$`)                   // PEP 440, loosely
	targetPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:._x-]*$`)
)

const forms = "want a path to a plugin .so[@TOPOLOGY], pip:DIST==VERSION, jaxlib:VERSION, libtpu:VERSION[@TOPOLOGY], " +
	"cuda:VERSION[@TARGET] or a name of the catalogue"

// Parse reads a build spec (DESIGN section 6). It touches no file and no network. Errors are *SpecError.
func Parse(text string) (Spec, error) {
	fail := func(format string, args ...any) (Spec, error) {
		return Spec{}, &SpecError{Spec: text, Reason: fmt.Sprintf(format, args...)}
	}
	if text == "" {
		return fail("%s", "empty; "+forms)
	}
	if strings.ContainsAny(text, "\x00\n\r") {
		return fail("control characters")
	}
	if e, ok := catalogue[text]; ok {
		return Spec{Text: text, Source: Pip, Dist: e.Dist, Version: e.Version}, nil
	}
	s := Spec{Text: text}
	if path, target, ok := cutPlugin(text); ok {
		s.Source, s.Path, s.Target = File, path, target
		if strings.HasSuffix(text, "@") || target != "" && !targetPattern.MatchString(target) {
			return fail("bad topology %q after '@'", target)
		}
		return s, nil
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return fail("no such name in the catalogue (%s); %s", strings.Join(slices.Sorted(maps.Keys(catalogue)), ", "), forms)
	}
	switch scheme {
	case "pip":
		s.Source = Pip
		if s.Dist, s.Version, ok = strings.Cut(rest, "=="); !ok {
			return fail("want pip:DIST==VERSION with an exact version")
		}
	case "jaxlib":
		s.Source, s.Dist, s.Version = Jaxlib, "jaxlib", rest
	case "libtpu":
		s.Source, s.Dist = Libtpu, "libtpu"
		s.Version, s.Target, ok = strings.Cut(rest, "@")
		if !ok {
			s.Target = defaultTPU
		}
	case "cuda":
		s.Source = CUDA
		s.Version, s.Target, ok = strings.Cut(rest, "@")
		if !ok {
			s.Target = defaultGPU
		}
		s.Dist = cudaDist(s.Version)
	case "fault":
		every, inner, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(every)
		if err != nil || n < 0 {
			return fail("want fault:EVERY:SPEC, EVERY a number from 0")
		}
		s.Source, s.Every = Fault, n
		if inner != "" {
			in, err := Parse(inner)
			if err != nil {
				return fail("inner build: %v", err)
			}
			if in.Source == Fault || in.Source == Jaxlib || in.Kind() != Executable {
				return fail("the inner build must be an executable plugin")
			}
			s.Inner = &in
		}
		return s, nil
	default:
		return fail("unknown scheme %q; %s", scheme, forms)
	}
	if !distPattern.MatchString(s.Dist) {
		return fail("bad distribution name %q", s.Dist)
	}
	if !versionPattern.MatchString(s.Version) {
		return fail("bad version %q: want an exact version such as 0.11.2", s.Version)
	}
	switch s.Source {
	case Jaxlib:
		if compareVersions(s.Version, minJaxlib) < 0 {
			return fail("jaxlib before %s is not supported", minJaxlib)
		}
	case Libtpu:
		if !targetPattern.MatchString(s.Target) {
			return fail("bad topology %q after '@': want e.g. %s", s.Target, defaultTPU)
		}
	case CUDA:
		if _, ok := gpuTargets[s.Target]; !ok {
			return fail("unknown GPU target %q: want one of %s", s.Target, strings.Join(slices.Sorted(maps.Keys(gpuTargets)), ", "))
		}
	}
	return s, nil
}

// cutPlugin recognises a path to a plugin, with an optional topology: PATH.so or PATH.so@TOPOLOGY.
func cutPlugin(text string) (path, target string, ok bool) {
	if strings.HasSuffix(text, ".so") {
		return text, "", true
	}
	if i := strings.LastIndex(text, ".so@"); i >= 0 {
		return text[:i+3], text[i+4:], true
	}
	return "", "", false
}

// compareVersions orders release versions by their numeric parts, missing parts counting as 0; other parts are ignored.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var x, y int
		if i < len(as) {
			x, _ = strconv.Atoi(as[i])
		}
		if i < len(bs) {
			y, _ = strconv.Atoi(bs[i])
		}
		if x != y {
			return x - y
		}
	}
	return 0
}
