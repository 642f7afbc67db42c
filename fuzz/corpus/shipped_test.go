package corpus

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
)

// TestShipped: the shipped corpus is content-addressed, valid, bounded,
// and packing it again gives the same bytes.
func TestShipped(t *testing.T) {
	all := map[string][]Entry{}
	total := 0
	for _, platform := range []string{"cpu"} {
		fsys, err := Shipped(platform)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := Load(fsys)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Path != e.Name() {
				t.Errorf("%s/%s: the digest is %s", platform, e.Path, e.Name())
			}
			if err := hlo.Verify(e.Case.Module); err != nil {
				t.Errorf("%s/%s: %v", platform, e.Path, err)
			}
			if len(e.Fired) == 0 || len(e.Signatures) == 0 {
				t.Errorf("%s/%s: fired %v, %d signatures", platform, e.Path, e.Fired, len(e.Signatures))
			}
			total += len(e.file().Format())
		}
		all[platform] = entries
	}
	if total > ShippedLimit {
		t.Errorf("%d bytes, more than %d", total, ShippedLimit)
	}
	var again bytes.Buffer
	if _, err := Pack(&again, all); err != nil || !bytes.Equal(again.Bytes(), shipped) {
		t.Errorf("packed again, the corpus is another one: %d bytes, %d shipped, %v", again.Len(), len(shipped), err)
	}
	if tpu, err := Shipped("tpu"); err != nil {
		t.Error(err)
	} else if entries, err := Load(tpu); err != nil || len(entries) != len(all["cpu"]) {
		t.Errorf("%d programs for a platform without a folder, %v", len(entries), err)
	}
	for _, pass := range []string{"algsimp", "scatter_expander", "simplify-while-loops"} {
		seeds, err := ShippedSeeds("cpu", func(step string) bool { return step == pass })
		if err != nil || len(seeds) == 0 || len(seeds) > shippedSeeds {
			t.Errorf("%d seeds for %s, %v", len(seeds), pass, err)
		}
	}
	if seeds, err := ShippedSeeds("cpu", func(string) bool { return false }); err != nil || len(seeds) != 0 {
		t.Errorf("%d seeds for no pass, %v", len(seeds), err)
	}
}

// TestPack: within the limit go the entries with most signatures for their size,
// each program once.
func TestPack(t *testing.T) {
	entry := func(text string, signatures ...string) Entry {
		c, err := fuzz.ReadModule("m.hlo", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return Entry{Case: c, Fired: []string{"p"}, Signatures: signatures}
	}
	text := func(n int) string {
		return fmt.Sprintf("HloModule m\nENTRY e {\n  x = s32[%d] parameter(0)\n  c = s32[%[1]d] constant({%s})\n  ROOT y = s32[%[1]d] add(x, c)\n}\n", n, strings.Repeat("1000000000, ", n-1)+"7")
	}
	small, large, huge := text(2), text(20), text(ShippedLimit/10)
	var out bytes.Buffer
	n, err := Pack(&out, map[string][]Entry{"cpu": {entry(small, "p:a"), entry(small, "p:b"), entry(large, "p:a", "p:b"), entry(huge, "p:c")}})
	if err != nil || n != 1 {
		t.Fatalf("%d programs, %v", n, err)
	}
	r, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := Load(r)
	if err != nil || len(entries) != 1 || !slices.Equal(entries[0].Signatures, []string{"p:a", "p:b"}) || !strings.Contains(entries[0].Case.Text, "s32[2]") {
		t.Errorf("kept %+v, %v", entries, err)
	}
}

// TestTracesAreSeeds: every handed trace, where the checkout stands beside them,
// gives programs to start from, whole or in pieces, and all are valid.
func TestTracesAreSeeds(t *testing.T) {
	names, err := filepath.Glob("../../../shared/traces/*.case")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		names = []string{"../../examples/cases/softmax.case"}
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			c, err := fuzz.ReadCase(name, data)
			if err != nil {
				t.Fatal(err)
			}
			seeds, err := Pieces(t.Context(), []Entry{{Case: c}}, nil, nil)
			if err != nil || len(seeds) == 0 {
				t.Fatalf("%d programs, %v", len(seeds), err)
			}
			for _, s := range seeds {
				if err := hlo.Verify(s.Module); err != nil {
					t.Errorf("%s: %v", s.Name, err)
				}
			}
		})
	}
}
