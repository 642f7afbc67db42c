package reports

import (
	"fmt"
	"strings"

	"github.com/passgate/passgate/gate"
)

// Cluster is the findings of one defect, the gravest first.
type Cluster struct {
	ID       string
	Findings []*gate.Finding
	// Cases are the names of the cases that show it, each once, in their order.
	Cases []string
}

// Clusters are the findings by cluster, in the order of the first of each. A
// finding without a cluster (of an older result) stands for itself.
func Clusters(found []gate.Finding) []Cluster {
	all := make([]*gate.Finding, len(found))
	for i := range found {
		all[i] = &found[i]
	}
	return clustersOf(all)
}

func clustersOf(found []*gate.Finding) []Cluster {
	at := map[string]int{}
	seen := map[[2]string]bool{} // cluster and case
	var out []Cluster
	for _, f := range found {
		id := f.Cluster
		if id == "" {
			id = f.ID
		}
		i, ok := at[id]
		if !ok {
			i = len(out)
			at[id] = i
			out = append(out, Cluster{ID: id})
		}
		c := &out[i]
		c.Findings = append(c.Findings, f)
		if k := [2]string{id, f.Case}; !seen[k] {
			seen[k] = true
			c.Cases = append(c.Cases, f.Case)
		}
	}
	return out
}

// leaders are the findings that stand for the others of their defect and status,
// and the further cases of each by its id: what is shown once. The order stays.
func leaders(found []*gate.Finding) ([]*gate.Finding, map[string][]string) {
	type kind struct {
		cluster  string
		status   gate.Status
		blocking bool
	}
	first := map[kind]*gate.Finding{}
	var out []*gate.Finding
	also := map[string][]string{}
	seen := map[[2]string]bool{} // leader and case
	for _, f := range found {
		k := kind{f.Cluster, f.Status, f.Blocking}
		l := first[k]
		if l == nil || f.Cluster == "" {
			first[k] = f
			out = append(out, f)
			continue
		}
		if in := [2]string{l.ID, f.Case}; f.Case != l.Case && !seen[in] {
			seen[in] = true
			also[l.ID] = append(also[l.ID], f.Case)
		}
	}
	return out, also
}

// alsoWord is " and 2 more cases: b, c"; "" for none.
func alsoWord(cases []string) string {
	if len(cases) == 0 {
		return ""
	}
	const shown = 20
	list := strings.Join(cases[:min(len(cases), shown)], ", ")
	if n := len(cases) - shown; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s: %s", many(len(cases), "more case"), list)
}

// Visible is one line of foreign text in which what cannot be seen is shown as
// escapes.
func Visible(s string) string { return visible(s, false) }
