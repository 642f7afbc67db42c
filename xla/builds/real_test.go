package builds

import (
	"os"
	"testing"
)

// TestCatalogueFetch fetches every named build from the machine's package index (or the user's cache).
func TestCatalogueFetch(t *testing.T) {
	s, err := NewStore(Config{Environ: os.Environ(), Progress: func(e Event) {
		if e.Done == e.Total && e.Total > 0 {
			t.Logf("%s: %s %d", e.Spec, e.What, e.Done)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range Catalogue() {
		spec, err := Parse(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Fetch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if b.Kind != Executable || b.Plugin == "" || len(b.ID) != len("sha256:")+64 {
			t.Errorf("%s: %+v", e.Name, b)
		}
	}
}
