package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/passgate/passgate/gate/policy"
)

const whole = `version: 1
budget: 5m
ulp-budgets:
  - {op: exponential, type: f32, ulps: 2.5}
block: [miscompile, crash, hang, buffer-corruption]
contested: [signed overflow, subnormals]
known-issues:
  - id: https://github.com/openxla/xla/issues/1
    reason: fix under review
    expires: 2027-03-31
    match: {case: "c0*", class: miscompile}
overrides:
  - reason: needed for the release
    person: release manager
    expires: 2026-12-24
    scope: {pass: algsimp}
minimum-firing:
  default: 3
  passes: {algsimp: 10}
limits: {timeout: 90s, probes: 0, workers: 2, cases: 500}
flag-streams: [comparison]
`

// TestKnownByCluster: a known issue may name a finding or its defect.
func TestKnownByCluster(t *testing.T) {
	s := policy.Scope{Finding: "f-0123456789ab"}
	for _, tt := range []struct {
		f    policy.Subject
		want bool
	}{{policy.Subject{Finding: "f-0123456789ab", Cluster: "f-1"}, true}, {policy.Subject{Finding: "f-1", Cluster: "f-0123456789ab"}, true}, {policy.Subject{Finding: "f-1", Cluster: "f-2"}, false}} {
		if got := s.Matches(tt.f); got != tt.want {
			t.Errorf("%+v matches: %v", tt.f, got)
		}
	}
	if !(policy.Scope{Class: "crash"}).Matches(policy.Subject{Class: "crash", Finding: "f-1", Cluster: "f-2"}) {
		t.Error("a rule without a finding matches nothing")
	}
}

func TestParse(t *testing.T) {
	zero := 0
	want := &policy.Policy{
		Version: 1, Budget: "5m", ULPs: []policy.ULPBudget{{Op: "exponential", Type: "f32", ULPs: 2.5}},
		Block: []string{"miscompile", "crash", "hang", "buffer-corruption"}, Contested: []string{"signed overflow", "subnormals"},
		KnownIssues: []policy.KnownIssue{{ID: "https://github.com/openxla/xla/issues/1", Reason: "fix under review", Expires: "2027-03-31", Match: policy.Scope{Case: "c0*", Class: "miscompile"}}},
		Overrides:   []policy.Override{{Reason: "needed for the release", Person: "release manager", Expires: "2026-12-24", Scope: policy.Scope{Pass: "algsimp"}}},
		Firing:      policy.Firing{Default: 3, Passes: map[string]int{"algsimp": 10}},
		Limits:      policy.Limits{Timeout: "90s", Probes: &zero, Workers: 2, Cases: 500},
		Streams:     []string{"comparison"}, File: "passgate.yaml", Text: whole,
	}
	got, err := policy.Parse("passgate.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// bad are policies that are refused, with the place and a word of the reason.
// The JSON Schema refuses them too, except those that it cannot express.
var bad = []struct {
	name, text string
	line, col  int
	reason     string
	beyond     bool // the schema cannot tell
}{
	{"no version", "budget: 5m\n", 1, 1, "version is 0; want 1", false},
	{"version 2", "version: 2\n", 1, 10, "want 1", false},
	{"unknown key", "version: 1\nblocks: [crash]\n", 2, 1, "unknown field", false},
	{"unknown key below", "version: 1\nlimits:\n  timeouts: 5s\n", 3, 3, "unknown field", false},
	{"wrong kind", "version: 1\nblock: crash\n", 2, 8, "", false},
	{"unknown class", "version: 1\nblock: [crash, panic]\n", 2, 16, "want one of miscompile", false},
	{"unknown contest", "version: 1\ncontested: [overflow]\n", 2, 13, "want one of signed overflow", false},
	{"bad duration", "version: 1\nlimits: {timeout: soon}\n", 2, 19, "no duration", false},
	{"negative", "version: 1\nlimits: {workers: -1}\n", 2, 19, "want a count", false},
	{"no date", "version: 1\nknown-issues:\n  - id: a\n    reason: b\n    match: {class: crash}\n    expires: soon\n", 6, 14, "no date", false},
	{"no such day", "version: 1\nknown-issues:\n  - {id: a, reason: b, match: {class: crash}, expires: 2027-02-30}\n", 3, 56, "no date", true},
	{"no reason", "version: 1\nknown-issues:\n  - id: a\n    match: {class: crash}\n    expires: 2027-01-01\n", 3, 5, "needs an id and a reason", false},
	{"matches all", "version: 1\nknown-issues:\n  - {id: a, reason: b, match: {}, expires: 2027-01-01}\n", 3, 31, "every finding", false},
	{"no person", "version: 1\noverrides:\n  - {reason: b, scope: {class: crash}, expires: 2027-01-01}\n", 3, 6, "a person", false},
	{"bad pattern", "version: 1\noverrides:\n  - {reason: b, person: c, scope: {case: \"[\"}, expires: 2027-01-01}\n", 3, 36, "bad pattern", true},
	{"unknown op", "version: 1\nulp-budgets: [{op: exp, type: f32, ulps: 1}]\n", 2, 20, "no operation", true},
	{"integer type", "version: 1\nulp-budgets: [{op: exponential, type: s32, ulps: 1}]\n", 2, 39, "no float type", true},
	{"twice", "version: 1\nulp-budgets:\n  - {op: tanh, type: f32, ulps: 1}\n  - {op: tanh, type: f32, ulps: 2}\n", 4, 6, "second budget", true},
	{"no ulps", "version: 1\nulp-budgets: [{op: tanh, type: f32}]\n", 2, 16, "positive", false},
	{"default flags only", "version: 1\nflag-streams: [default]\n", 2, 15, "always run", false},
	{"no mapping", "- 1\n", 1, 1, "want keys", false},
	{"empty", "", 1, 1, "empty", false},
	{"two documents", "version: 1\n---\nversion: 1\n", 1, 1, "one document", true},
	{"alias", "version: 1\nblock: &b [crash]\ncontested: *b\n", 2, 8, "anchors and aliases", true},
	{"deep list", "version: 1\nblock: " + strings.Repeat("[", 100) + "\n", 2, 39, "nested more than 32", true},
	{"deep block", "version: 1\nblock:\n  " + strings.Repeat("- ", 100) + "\n", 3, 65, "nested more than 32", true},
	{"no YAML", "version: [1\n", 1, 10, "", true},
}

func TestBad(t *testing.T) {
	schema := compiled(t)
	for _, c := range bad {
		t.Run(c.name, func(t *testing.T) {
			_, err := policy.Parse("p.yaml", []byte(c.text))
			var e *policy.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			if e.Line != c.line || e.Column != c.col || !strings.Contains(e.Reason, c.reason) || strings.Contains(e.Error(), "\n") || strings.Contains(e.Reason, "policy.") {
				t.Errorf("%v; want p.yaml:%d:%d with %q", e, c.line, c.col, c.reason)
			}
			if !c.beyond && valid(t, schema, c.text) {
				t.Error("the schema accepts it")
			}
		})
	}
}

func TestSchemaAcceptsGood(t *testing.T) {
	for _, text := range []string{whole, "version: 1\n"} {
		if !valid(t, compiled(t), text) {
			t.Errorf("the schema refuses:\n%s", text)
		}
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(policy.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(t *testing.T, s *jsonschema.Schema, text string) bool {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc) == nil
}

func TestRules(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	day := func(s string) time.Time {
		d, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	f := policy.Subject{Case: "c01", Class: "miscompile", Pass: "algsimp"}
	last, over := day("2027-03-31T23:59:59Z"), day("2027-04-01T00:00:00Z")
	if p.Known(f, last) == nil || p.Known(f, over) != nil {
		t.Error("a known issue lasts through its last day, UTC")
	}
	for _, other := range []policy.Subject{{Case: "c10", Class: "miscompile"}, {Case: "c01", Class: "crash"}} {
		if p.Known(other, last) != nil {
			t.Errorf("%+v is no known issue", other)
		}
	}
	if p.Overridden(f, day("2026-12-24T10:00:00Z")) == nil || p.Overridden(f, day("2026-12-25T10:00:00Z")) != nil || p.Overridden(policy.Subject{Pass: "cse"}, day("2026-12-24T10:00:00Z")) != nil {
		t.Error("override")
	}
	if !p.Blocks("crash") || p.Blocks("nondeterminism") || !p.Contests("subnormals") || p.Contests("order of duplicates") || p.Runs("default") {
		t.Error("lists")
	}
	if u, ok := p.ULPsOf("exponential", "f32"); !ok || u != 2.5 {
		t.Error("ULPs")
	}
	var none *policy.Policy
	if !none.Blocks("crash") || !none.Contests("subnormals") || !none.Runs("default") || none.Known(f, last) != nil || none.Overridden(f, last) != nil {
		t.Error("no policy is the gate's own rules")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	for _, c := range bad {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policy.Parse("p.yaml", data)
		if err != nil {
			var e *policy.Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: error %q", data, err)
			}
			return
		}
		p.Known(policy.Subject{}, time.Unix(0, 0))
	})
}
