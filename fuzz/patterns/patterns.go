// Package patterns holds trigger patterns: small constructors of HLO that make
// named passes of XLA fire, one file per pass family.
//
// Which pattern makes which pass fire is measured on real builds and kept in
// fires.tsv; Passes says what a pattern is meant for.
//
// To add one, append a Pattern to the list of its family's file. Build takes
// the values that it works on from b.Source, makes free choices (types, sizes,
// constants) with b, and hands what it made to b.Out; so the same pattern
// works alone, inside a larger program, and as often as one likes.
package patterns

import (
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/fuzz/program"
)

// Pattern is one constructor.
type Pattern struct {
	// Name is unique: family/what.
	Name string
	// Passes are the names of the passes that it is meant to make fire, as
	// dumps have them.
	Passes []string
	// Build appends the pattern to a program.
	Build func(b *program.Builder)
	// Alone says that the pattern sets module attributes or wants the root: it
	// is a whole program and fits no other one.
	Alone bool
	// Narrow says that not every build takes the program, or that its results
	// are random: it is used for its passes only.
	Narrow bool
}

// Program is a program that holds the pattern alone. It is named name; the
// error, if any, wraps program.ErrInvalid.
func (p Pattern) Program(name string, r *rand.Rand) (*fuzz.Case, error) {
	return program.Make(name, r, p.Build)
}

// families are the lists of the files of this package.
var families = [][]Pattern{algebra, slicing, products, convolutions, loops, branches, calls, cleanup, converts, windows, indexing, sorting, expanders, dynamics, buffers, collectives, accelerators}

// All are all patterns, by family and then in the order of its file.
func All() []Pattern { return slices.Concat(families...) }

// For are the patterns for a pass: those that were seen to make it fire, then
// those that are meant for it but were not measured to do so reliably.
func For(pass string) []Pattern {
	return slices.Concat(Reliable(pass), hopeful(pass))
}

// Reliable are the patterns that made the pass fire in at least 9 of 10
// programs on some build, when fires.tsv was measured.
func Reliable(pass string) []Pattern {
	return filter(func(p Pattern) bool {
		return slices.ContainsFunc(fires[p.Name], func(n string) bool { return matches(n, pass) })
	})
}

// hopeful are patterns that are meant for the pass and not reliable.
func hopeful(pass string) []Pattern {
	return filter(func(p Pattern) bool {
		return slices.ContainsFunc(p.Passes, func(n string) bool { return matches(n, pass) }) &&
			!slices.ContainsFunc(fires[p.Name], func(n string) bool { return matches(n, pass) })
	})
}

func filter(ok func(p Pattern) bool) []Pattern {
	var out []Pattern
	for _, p := range All() {
		if ok(p) {
			out = append(out, p)
		}
	}
	return out
}

// hope is the inverse share of draws that go to patterns whose effect on the
// pass has not been seen: another version of the pass may want them.
const hope = 25

// Draw is one of the patterns for a pass, nearly always a reliable one; false
// if there is none.
func Draw(r *rand.Rand, pass string) (Pattern, bool) {
	sure, rest := Reliable(pass), hopeful(pass)
	if len(rest) > 0 && (len(sure) == 0 || r.IntN(hope) == 0) {
		sure = rest
	}
	if len(sure) == 0 {
		return Pattern{}, false
	}
	return sure[r.IntN(len(sure))], true
}

//go:embed fires.tsv
var firesTable string

// fires is what was measured: the passes that a pattern makes fire.
var fires = func() map[string][]string {
	out := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(firesTable), "\n") {
		if name, passes, ok := strings.Cut(line, "\t"); ok && !strings.HasPrefix(line, "#") {
			out[name] = strings.Split(passes, ",")
		}
	}
	return out
}()

// Fires is the table of measurements: per pattern, the passes that fired in at
// least 9 of 10 of its programs on some build. Rebuilt by
// tools/exercise matrix --table.
func Fires() map[string][]string { return maps.Clone(fires) }

// matches compares names of passes; '_' stands for the blanks that file names
// cannot hold.
func matches(name, pass string) bool {
	return strings.ReplaceAll(name, " ", "_") == strings.ReplaceAll(pass, " ", "_")
}

// Named is the pattern of a name.
func Named(name string) (Pattern, error) {
	all := All()
	if i := slices.IndexFunc(all, func(p Pattern) bool { return p.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Pattern{}, fmt.Errorf("no pattern %q", name)
}

// of names a family's patterns "family/name" and gives them the passes that
// all of them are meant for, besides their own.
func of(family string, passes []string, ps []Pattern) []Pattern {
	for i := range ps {
		ps[i].Name = family + "/" + ps[i].Name
		ps[i].Passes = append(slices.Clone(passes), ps[i].Passes...)
	}
	return ps
}
