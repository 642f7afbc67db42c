package reports

import (
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
)

// TestReadmeIsNeutral: names and values of a hostile program stay inside code,
// whose fences they cannot close.
func TestReadmeIsNeutral(t *testing.T) {
	const bad = "@everyone\n```\n````\n# <img src=x> fixes #1"
	f := gate.Finding{
		ID: "f-0123456789ab", Cluster: "f-0123456789ac", Class: gate.Miscompile, Status: gate.New, Case: bad, Output: "0", Stream: bad,
		First: gate.First{At: []int64{1}, Base: bad, Head: bad, Legal: bad}, Pass: &gate.PassStep{Pipeline: bad, Name: bad}, Level: gate.LevelHLO,
		Instruction: bad, Location: &gate.Location{Opcode: bad, AfterOpcode: bad, Source: bad}, Minimal: bad, Detail: bad, Base: gate.Right, Head: gate.Wrong,
		Rewrite: &gate.Rewrite{Before: bad, After: bad}, Step: &gate.StepText{Before: bad, After: "x\n" + bad + "\n``````"},
		MinimalFile: []byte("-- module.hlo --\n" + bad + "\n-- inputs --\n" + bad + "\n"), Witnesses: []string{bad},
	}
	r := &gate.Result{Base: gate.Build{Spec: "a'b;@everyone", Kind: "executable", Platform: bad}, Head: gate.Build{Spec: bad, Kind: "executable", Platform: bad}}
	fence := ""
	for _, l := range strings.Split(findingReadme("x", r, &f), "\n") {
		ticks := l[:len(l)-len(strings.TrimLeft(l, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3 && !strings.Contains(l[len(ticks):], "`"):
			fence = ticks
		case fence != "" && l == fence:
			fence = ""
		case fence == "":
			// Outside of code blocks: whatever is not in a span.
			out := ""
			for rest := l; rest != ""; {
				open := strings.IndexByte(rest, '`')
				if open < 0 {
					out += rest
					break
				}
				out += rest[:open]
				rest = rest[open:]
				run := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
				end := strings.Index(rest[len(run):], run)
				if end < 0 {
					t.Fatalf("a span does not end: %q", l)
				}
				rest = rest[2*len(run)+end:]
			}
			if strings.Contains(out, "@") || strings.Contains(out, "<img") || strings.Contains(out, "fixes") {
				t.Errorf("not neutral: %q", l)
			}
		}
	}
	if fence != "" {
		t.Errorf("a fence of %d back-ticks does not end", len(fence))
	}
	if n := len(showCommands("x", r, &f)); n != 2 {
		t.Errorf("%d commands", n)
	}
}

func TestLeaders(t *testing.T) {
	found := []gate.Finding{
		{ID: "1", Cluster: "x", Case: "a", Status: gate.New, Blocking: true}, {ID: "2", Cluster: "x", Case: "b", Status: gate.New, Blocking: true},
		{ID: "3", Cluster: "x", Case: "c", Status: gate.Fixed}, {ID: "4", Cluster: "x", Case: "a", Status: gate.New, Blocking: true}, {ID: "5", Case: "d"}, {ID: "6", Case: "e"},
	}
	var all []*gate.Finding
	for i := range found {
		all = append(all, &found[i])
	}
	shown, also := leaders(all)
	ids := ""
	for _, f := range shown {
		ids += f.ID
	}
	if ids != "1356" || len(also["1"]) != 1 || also["1"][0] != "b" || len(also["3"]) != 0 {
		t.Errorf("shown %s, further cases %v", ids, also)
	}
	if c := Clusters(found); len(c) != 3 || strings.Join(c[0].Cases, "") != "abc" || len(c[0].Findings) != 4 || c[1].ID != "5" {
		t.Errorf("clusters %+v", c)
	}
}
