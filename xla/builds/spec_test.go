package builds

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	inner := Spec{Text: "xla-2026-06", Source: Pip, Dist: "fastatomstruct-xla-cpu", Version: "2026.6.23"}
	for _, c := range []struct {
		text string
		want Spec
		kind Kind
	}{
		{"xla-2025-11", Spec{Source: Pip, Dist: "xla-cpu-pjrt", Version: "0.0.1"}, Executable},
		{"jax-0.11.2", Spec{Source: Pip, Dist: "lammps-jax-pjrt-cpu", Version: "0.11.2"}, Executable},
		{"./plugin.so", Spec{Source: File, Path: "./plugin.so"}, Executable},
		{"/a b/c:d/plugin.so", Spec{Source: File, Path: "/a b/c:d/plugin.so"}, Executable},
		{"libtpu.so@v5e:2x2", Spec{Source: File, Path: "libtpu.so", Target: "v5e:2x2"}, CompileOnly},
		{"/x@y/libtpu.so@v4:2x2x1", Spec{Source: File, Path: "/x@y/libtpu.so", Target: "v4:2x2x1"}, CompileOnly},
		{"pip:xla-cpu-pjrt==0.0.1", Spec{Source: Pip, Dist: "xla-cpu-pjrt", Version: "0.0.1"}, Executable},
		{"jaxlib:0.4.13", Spec{Source: Jaxlib, Dist: "jaxlib", Version: "0.4.13"}, Executable},
		{"jaxlib:0.12.0.1", Spec{Source: Jaxlib, Dist: "jaxlib", Version: "0.12.0.1"}, Executable},
		{"libtpu:0.0.52", Spec{Source: Libtpu, Dist: "libtpu", Version: "0.0.52", Target: "v5e:2x2"}, CompileOnly},
		{"libtpu:0.0.24@v4:2x2x1", Spec{Source: Libtpu, Dist: "libtpu", Version: "0.0.24", Target: "v4:2x2x1"}, CompileOnly},
		{"cuda:0.10.0", Spec{Source: CUDA, Dist: "jax-cuda13-pjrt", Version: "0.10.0", Target: "h200"}, CompileOnly},
		{"cuda:0.6.1@h200", Spec{Source: CUDA, Dist: "jax-cuda12-pjrt", Version: "0.6.1", Target: "h200"}, CompileOnly},
		{"fault:0:", Spec{Source: Fault}, Executable},
		{"fault:7:xla-2026-06", Spec{Source: Fault, Every: 7, Inner: &inner}, Executable},
	} {
		got, err := Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if (got.Inner == nil) != (c.want.Inner == nil) || got.Inner != nil && *got.Inner != *c.want.Inner {
			t.Errorf("%s: inner %+v", c.text, got.Inner)
		}
		got.Inner, c.want.Inner = nil, nil
		if c.want.Text = c.text; got != c.want || got.Kind() != c.kind {
			t.Errorf("%s: %+v (%s), want %+v (%s)", c.text, got, got.Kind(), c.want, c.kind)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "empty",
		"xla-2024":                  "no such name in the catalogue (jax-0.11.2, xla-2025-11, xla-2026-06)",
		"a\nb":                      "control characters",
		"plugin.so@":                "bad topology",
		"plugin.so@a b":             "bad topology",
		"conda:x==1":                `unknown scheme "conda"`,
		"pip:x":                     "exact version",
		"pip:x>=1":                  "exact version",
		"pip:x==":                   "bad version",
		"pip:x==--index-url=y":      "bad version",
		"pip:-r==1":                 "bad distribution name",
		"pip:x y==1":                "bad distribution name",
		"jaxlib:":                   "bad version",
		"jaxlib:0.4.12":             "before 0.4.13",
		"jaxlib:latest":             "bad version",
		"libtpu:0.0.52@":            "bad topology",
		"libtpu:0.0.52@--x":         "bad topology",
		"cuda:0.10.0@abacus":        "want one of h200",
		"fault:":                    "EVERY a number",
		"fault:-1:":                 "EVERY a number",
		"fault:1:nothing":           "inner build",
		"fault:1:jaxlib:0.10.2":     "inner build must be",
		"fault:1:fault:1:":          "inner build must be",
		"fault:1:libtpu:0.0.52@v:1": "inner build must be",
	} {
		_, err := Parse(text)
		var spec *SpecError
		if !errors.As(err, &spec) || spec.Spec != text || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"xla-2025-11", "pip:a==1", "jaxlib:0.4.13", "libtpu:1@v5e:2x2", "cuda:0.10.0@h200", "a.so@b", "fault:1:a.so"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if s.Text != text || s.Source == "" || strings.HasPrefix(s.Dist, "-") || strings.HasPrefix(s.Version, "-") || strings.HasPrefix(s.Target, "-") {
			t.Errorf("%q: %+v", text, s)
		}
	})
}
