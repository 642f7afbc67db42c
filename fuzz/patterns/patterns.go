// Package patterns holds trigger patterns: small constructors of HLO that make
// named passes of XLA fire, one file per pass family.
//
// Which pattern makes which pass fire is measured on real builds and kept in
// fires_cpu.tsv and fires_tpu.tsv; Passes says what a pattern is meant for.
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
	// Narrow says that the results are random, or that some or all builds do not
	// take or not execute the program: it is used for its passes only.
	Narrow bool
	// Platform is the only one whose builds take the program: "" for any, TPU.
	Platform string
}

// Program is a program that holds the pattern alone. It is named name; the
// error, if any, wraps program.ErrInvalid.
func (p Pattern) Program(name string, r *rand.Rand) (*fuzz.Case, error) {
	return program.Make(name, r, p.Build)
}

// families are the lists of the files of this package.
var families = [][]Pattern{algebra, slicing, products, convolutions, loops, branches, calls, cleanup, converts, windows, indexing, sorting, expanders, dynamics, buffers, inPlace, scans, markers, kernels, collectives, replicated, accelerators, pipelines}

// The platforms that patterns were measured on.
const (
	CPU = "cpu"
	TPU = "tpu"
)

// All are the patterns that every build takes, by family and then in the order
// of its file.
func All() []Pattern { return On("") }

// On are the patterns that builds of a platform take.
func On(platform string) []Pattern {
	return slices.DeleteFunc(slices.Concat(families...), func(p Pattern) bool { return p.Platform != "" && p.Platform != platform })
}

// For are the patterns for a pass on a platform: those that were seen to make
// it fire there, then those that are meant for it but were not measured to do
// so reliably.
func For(platform, pass string) []Pattern {
	return slices.Concat(Reliable(platform, pass), hopeful(platform, pass))
}

// Reliable are the patterns that made the pass fire in at least 9 of 10
// programs when the table of the platform was measured.
func Reliable(platform, pass string) []Pattern {
	return slices.DeleteFunc(On(platform), func(p Pattern) bool { return !fired(platform, p, pass) })
}

// hopeful are patterns that are meant for the pass and not reliable.
func hopeful(platform, pass string) []Pattern {
	return slices.DeleteFunc(On(platform), func(p Pattern) bool {
		return fired(platform, p, pass) || !slices.ContainsFunc(p.Passes, func(n string) bool { return matches(n, pass) })
	})
}

func fired(platform string, p Pattern, pass string) bool {
	return slices.ContainsFunc(tables[platform][p.Name], func(n string) bool { return matches(n, pass) })
}

// hope is the inverse share of draws that go to patterns whose effect on the
// pass has not been seen: another version of the pass may want them.
const hope = 25

// Draw is one of the patterns for a pass on a platform, nearly always a
// reliable one; false if there is none.
func Draw(r *rand.Rand, platform, pass string) (Pattern, bool) {
	sure, rest := Reliable(platform, pass), hopeful(platform, pass)
	if len(rest) > 0 && (len(sure) == 0 || r.IntN(hope) == 0) {
		sure = rest
	}
	if len(sure) == 0 {
		return Pattern{}, false
	}
	return sure[r.IntN(len(sure))], true
}

//go:embed fires_cpu.tsv
var cpuTable string

//go:embed fires_tpu.tsv
var tpuTable string

// tables are what was measured, by platform: the passes that a pattern makes
// fire.
var tables = map[string]map[string][]string{CPU: readTable(cpuTable), TPU: readTable(tpuTable)}

func readTable(text string) map[string][]string {
	out := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if name, passes, ok := strings.Cut(line, "\t"); ok && !strings.HasPrefix(line, "#") {
			out[name] = strings.Split(passes, ",")
		}
	}
	return out
}

// Fires is the table of measurements of a platform: per pattern, the passes
// that fired in at least 9 of 10 of its programs. Rebuilt by tools/exercise
// matrix --table.
func Fires(platform string) map[string][]string { return maps.Clone(tables[platform]) }

// matches compares names of passes; '_' stands for the blanks that file names
// cannot hold.
func matches(name, pass string) bool {
	return strings.ReplaceAll(name, " ", "_") == strings.ReplaceAll(pass, " ", "_")
}

// Family are the patterns of a family that every build takes; none if there is
// no such family.
func Family(name string) []Pattern {
	return slices.DeleteFunc(All(), func(p Pattern) bool { return !strings.HasPrefix(p.Name, name+"/") })
}

// Named is the pattern of a name.
func Named(name string) (Pattern, error) {
	all := slices.Concat(families...)
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
