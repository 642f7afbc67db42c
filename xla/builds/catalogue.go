package builds

import (
	"maps"
	"slices"
)

// Entry is a build with a name of its own and a known hash.
type Entry struct {
	Name          string
	Dist, Version string
	// SHA256 is the hash of the wheel, hex.
	SHA256 string
	Note   string
}

var catalogue = map[string]Entry{
	"xla-2025-11": {
		Name: "xla-2025-11", Dist: "xla-cpu-pjrt", Version: "0.0.1",
		SHA256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
		Note:   "OpenXLA's own CPU plugin wheel of November 2025, C API 0.81",
	},
	"xla-2026-06": {
		Name: "xla-2026-06", Dist: "fastatomstruct-xla-cpu", Version: "2026.6.23",
		SHA256: "88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9",
		Note:   "unmodified public CPU plugin build of 23 June 2026, C API 0.106",
	},
	"jax-0.11.2": {
		Name: "jax-0.11.2", Dist: "lammps-jax-pjrt-cpu", Version: "0.11.2",
		SHA256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
		Note:   "CPU plugin built from the XLA of jaxlib 0.11.2, C API 0.115",
	},
}

// Catalogue lists the named builds by name.
func Catalogue() []Entry {
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(catalogue)) {
		out = append(out, catalogue[name])
	}
	return out
}

// pinnedHash is the known hash of a wheel, empty if there is none.
func pinnedHash(dist, version string) string {
	for _, e := range catalogue {
		if e.Dist == dist && e.Version == version {
			return e.SHA256
		}
	}
	return ""
}
