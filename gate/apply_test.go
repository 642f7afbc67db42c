package gate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/hlo/eval"
)

func TestPolicyTakesTheBlockAway(t *testing.T) {
	now := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	finding := func(id string) Finding {
		return Finding{ID: id, Class: Miscompile, Status: New, Blocking: true, Case: "c01", Pass: &PassStep{Name: "algsimp"}, Location: &Location{Opcode: "dot"}}
	}
	for _, c := range []struct {
		name, rules     string
		blocks          bool
		known, override string
		reason          string
	}{
		{"nothing", "", true, "", "", "known issue"},
		{"class", "block: [crash]\n", false, "", "", ""},
		{"known", "known-issues: [{id: '#1', reason: r, expires: 2026-12-02, match: {pass: algsimp, opcode: dot}}]\n", false, "#1", "", "1 finding of known issue #1 (r, until 2026-12-02)"},
		{"known, expired", "known-issues: [{id: '#1', reason: r, expires: 2026-12-01, match: {case: 'c*'}}]\n", true, "", "", "known issue #1 has expired"},
		{"override", "overrides: [{person: p, reason: r, expires: 2027-01-01, scope: {finding: f-1}}]\n", false, "", "p: r", "override by p until 2027-01-01 (finding=f-1): r; it lets 1 finding through"},
		{"override of another", "overrides: [{person: p, reason: r, expires: 2027-01-01, scope: {finding: f-2}}]\n", true, "", "", "it lets 0 findings through"},
		{"override, expired", "overrides: [{person: p, reason: r, expires: 2026-12-01, scope: {finding: f-1}}]\n", true, "", "", "has expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := policy.Parse("p.yaml", []byte("version: 1\n"+c.rules))
			if err != nil {
				t.Fatal(err)
			}
			res := &Result{Findings: []Finding{finding("f-1")}, Totals: Totals{Cases: 1, Executed: 1}}
			applyPolicy(p, res, now)
			f := res.Findings[0]
			if f.Blocking != c.blocks || f.KnownIssue != c.known || f.Override != c.override || f.Status != New {
				t.Errorf("%+v", f)
			}
			decide(res, nil, "", false)
			if (res.Verdict == Blocked) != c.blocks {
				t.Errorf("verdict %s", res.Verdict)
			}
			if c.rules != "" && !strings.Contains(strings.Join(res.Reasons, "\n"), c.reason) {
				t.Errorf("reasons %q", res.Reasons)
			}
		})
	}
}

func TestMinimumFiring(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte("version: 1\nminimum-firing: {default: 3, passes: {algsimp: 2, dce: 9}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		algsimp, cse int
		verdict      Verdict
	}{{1, 9, NotExercised}, {2, 0, NotExercised}, {2, 1, Pass}} {
		res := &Result{Passes: []PassResult{{Name: "algsimp", Cases: c.algsimp, Fired: c.algsimp}, {Name: "cse", Cases: c.cse, Fired: c.cse}}, Totals: Totals{Cases: 9, Executed: 9}}
		applyPolicy(p, res, time.Unix(0, 0))
		decide(res, nil, "", false)
		if res.Verdict != c.verdict {
			t.Errorf("%+v: verdict %s, %q", c, res.Verdict, res.Reasons)
		}
	}
}

func TestPolicyWordsAreTheGates(t *testing.T) {
	var names []string
	for _, k := range contests {
		names = append(names, k.name)
	}
	if !slices.Equal(names, policy.Contests) {
		t.Errorf("contests %q, the policy knows %q", names, policy.Contests)
	}
	if classes := []string{string(Miscompile), string(NumericDegradation), string(Crash), string(Hang), string(BufferCorruption), string(Nondeterminism)}; !slices.Equal(classes, policy.Classes) {
		t.Errorf("classes %q", classes)
	}
	if !slices.Equal(flagSets, policy.FlagStreams) {
		t.Errorf("flags %q", flagSets)
	}
	if f := firm(&policy.Policy{Contested: []string{"subnormals"}}); f&eval.Denormal != 0 || f&eval.SignedOverflow == 0 {
		t.Errorf("firm %b", f)
	}
	if firm(nil) != 0 {
		t.Error("without a policy everything argued is contested")
	}
}
