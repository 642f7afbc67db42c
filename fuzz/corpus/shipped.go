package corpus

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
)

// shipped is the corpus that comes with passgate: programs of its own generator,
// patterns and mutators, one folder per platform. tools/seeds makes it.
//
//go:embed shipped.zip
var shipped []byte

// ShippedLimit bounds the case files of the shipped corpus together, in bytes.
const ShippedLimit = 3_000_000

// Shipped is the corpus that comes with passgate for a platform ("cpu", "tpu");
// CPU's for another one. It reads as a directory of case files.
func Shipped(platform string) (fs.FS, error) {
	r, err := zip.NewReader(bytes.NewReader(shipped), int64(len(shipped)))
	if err != nil {
		return nil, fmt.Errorf("corpus: shipped: %w", err)
	}
	if _, err := fs.Stat(r, platform); err != nil {
		platform = "cpu"
	}
	return fs.Sub(r, platform)
}

// shippedSeeds bounds the programs that one choice of passes takes from the
// shipped corpus: they run before anything new does.
const shippedSeeds = 32

// ShippedSeeds are the programs of the shipped corpus to start from for the pass
// steps in focus: those that have the most of their rewrites for their size.
func ShippedSeeds(platform string, focused func(step string) bool) ([]*fuzz.Case, error) {
	fsys, err := Shipped(platform)
	if err != nil {
		return nil, err
	}
	// Most programs have no rewrite of these steps; parsing all takes a second.
	entries, err := load(fsys, func(data []byte) bool {
		for key, value := range notes(string(data)) {
			if key == "signature" && focused(stepOf(value)) {
				return true
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	for i := range entries {
		e := &entries[i]
		e.Signatures = slices.DeleteFunc(e.Signatures, func(s string) bool {
			return !focused(stepOf(s))
		})
	}
	var out []*fuzz.Case
	for _, i := range cover(entries, func(n, _ int) bool { return n <= shippedSeeds }) {
		out = append(out, entries[i].Case)
	}
	return out, nil
}

// stepOf is the pass step of a rewrite signature.
func stepOf(signature string) string {
	step, _, _ := strings.Cut(signature, ":")
	return step
}

// Pack writes entries, given by platform, as a corpus to ship: of each platform
// those with the most rewrites for their size, within the platform's share of
// ShippedLimit. The same entries give the same bytes.
func Pack(w io.Writer, platforms map[string][]Entry) (written int, err error) {
	z := zip.NewWriter(w)
	for _, platform := range slices.Sorted(maps.Keys(platforms)) {
		byName := func(a, b Entry) int { return strings.Compare(a.Name(), b.Name()) }
		var entries []Entry
		for _, e := range slices.SortedStableFunc(slices.Values(platforms[platform]), byName) {
			if n := len(entries); n > 0 && entries[n-1].Name() == e.Name() { // of another build
				last := &entries[n-1]
				last.Fired, last.Signatures = united(last.Fired, e.Fired), united(last.Signatures, e.Signatures)
				continue
			}
			entries = append(entries, e)
		}
		share := ShippedLimit / len(platforms)
		var kept []Entry
		for _, i := range cover(entries, func(_, size int) bool { return size <= share }) {
			kept = append(kept, entries[i])
		}
		slices.SortFunc(kept, byName)
		for _, e := range kept {
			f, err := z.CreateHeader(&zip.FileHeader{Name: platform + "/" + e.Name(), Method: zip.Deflate})
			if err != nil {
				return 0, err
			}
			if _, err := f.Write(e.file().Format()); err != nil {
				return 0, err
			}
			written++
		}
	}
	return written, z.Close()
}

// united are the strings of a, then those of b that a lacks.
func united(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
