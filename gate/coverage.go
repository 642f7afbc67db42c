package gate

import (
	"cmp"
	"slices"
)

// PassCount says how often a pass was seen in the compilations of a run.
type PassCount struct {
	// Name is that of the dumps.
	Name string `json:"name"`
	// Ran, Fired and Cases are as in PassResult.
	Ran   int `json:"ran"`
	Fired int `json:"fired"`
	Cases int `json:"cases"`
}

// cover adds the pass steps of one program to the coverage.
func (res *Result) cover(steps map[string]stepCount) {
	for name, n := range steps {
		one := PassCount{Name: name, Ran: n.ran, Fired: n.fired}
		if n.fired > 0 {
			one.Cases = 1
		}
		res.addCoverage(one)
	}
}

func (res *Result) addCoverage(p PassCount) { res.Coverage = AddCoverage(res.Coverage, p) }

// AddCoverage adds counts to coverage, which is sorted by name.
func AddCoverage(to []PassCount, p PassCount) []PassCount {
	i, found := slices.BinarySearchFunc(to, p.Name, func(c PassCount, name string) int { return cmp.Compare(c.Name, name) })
	if !found {
		to = slices.Insert(to, i, PassCount{Name: p.Name})
	}
	c := &to[i]
	c.Ran += p.Ran
	c.Fired += p.Fired
	c.Cases += p.Cases
	return to
}
