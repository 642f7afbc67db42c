package builds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	root := t.TempDir()
	asked := 0
	var fail error
	s, err := NewStore(Config{Root: root, Environ: os.Environ(), Exec: func(_ context.Context, argv, _ []string, out io.Writer) error {
		asked++
		if !slices.Contains(argv, "index") || argv[len(argv)-1] != "jaxlib" && !strings.HasPrefix(argv[len(argv)-1], "jax-cuda1") {
			t.Errorf("unexpected command %q", argv)
		}
		if fail != nil {
			fmt.Fprintln(out, "ERROR: no network")
			return fail
		}
		fmt.Fprintln(out, "jaxlib (0.11.2)\nAvailable versions: 0.11.2, 0.10.0rc1, 0.10.0, 0.9.2, 0.7.1, 0.4.9")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "pins", "jaxlib==0.10.1-cp312.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		cached   bool
		want     string // "!" and a reason for an error
	}{
		{"jaxlib:0.9.2", "jaxlib:0.11.2", false, "jaxlib:0.9.2 jaxlib:0.10.0 jaxlib:0.10.1 jaxlib:0.11.2"},
		{"jaxlib:0.11.2", "jaxlib:0.9.2", false, "jaxlib:0.11.2 jaxlib:0.10.1 jaxlib:0.10.0 jaxlib:0.9.2"},
		{"jaxlib:0.9.2", "jaxlib:0.11.2", true, "jaxlib:0.9.2 jaxlib:0.10.1 jaxlib:0.11.2"},
		{"jaxlib:0.9.2", "jaxlib:0.9.2", true, "jaxlib:0.9.2"},
		{"cuda:0.7.0@h200", "cuda:0.11.2@h200", false, "cuda:0.7.0@h200 cuda:0.7.1@h200 cuda:0.9.2@h200 cuda:0.10.0@h200 cuda:0.11.2@h200"},
		{"jaxlib:0.9.2", "libtpu:0.0.52", false, "!no version of the same build"},
		{"libtpu:0.0.42@v5e:2x2", "libtpu:0.0.52@v4:2x2x1", false, "!no version of the same build"},
		{"a.so", "b.so", false, "!no version of the same build"},
	} {
		from, err := Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		before := asked
		found, err := s.Versions(t.Context(), from, to, c.cached)
		if reason, bad := strings.CutPrefix(c.want, "!"); bad {
			var spec *SpecError
			if !errors.As(err, &spec) || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s to %s: error %v, want %s", c.from, c.to, err, reason)
			}
			continue
		}
		var got []string
		for _, v := range found {
			got = append(got, v.Text)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s to %s: %v, %v, want %s", c.from, c.to, got, err, c.want)
		}
		if c.cached && asked != before {
			t.Errorf("%s to %s: pip was asked", c.from, c.to)
		}
	}
	fail = errors.New("exit status 1")
	from, _ := Parse("jaxlib:0.9.2")
	to, _ := Parse("jaxlib:0.11.2")
	var fetch *FetchError
	if _, err := s.Versions(t.Context(), from, to, false); !errors.As(err, &fetch) || !strings.Contains(err.Error(), "no network") {
		t.Errorf("without network: %v", err)
	}
}
