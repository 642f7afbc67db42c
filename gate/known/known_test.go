package known

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const good = `# reviewed on Mondays
known:
  - id: f-0123456789ab
    reason: issue 12345, repair in review
    expires: 2027-01-31
  - {id: f-ba9876543210, reason: "wrong by design: see the forum", expires: "2026-12-01"}
`

func day(y, m, d int) Date { return Date{time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)} }

func TestParse(t *testing.T) {
	got, err := Parse("known-issues.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := List{
		{"f-0123456789ab", "issue 12345, repair in review", day(2027, 1, 31)},
		{"f-ba9876543210", "wrong by design: see the forum", day(2026, 12, 1)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if e, ok := got.Find("f-ba9876543210"); !ok || e.Expires != day(2026, 12, 1) {
		t.Errorf("Find gives %v, %v", e, ok)
	}
}

func TestParseEmptyList(t *testing.T) {
	for _, text := range []string{"known: []\n", "known:\n"} {
		if got, err := Parse("k", []byte(text)); err != nil || len(got) != 0 {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":         {"", "k:1:1: the file is empty; want `known:` and a list"},
		"not yaml":      {"known: [\n", "k:1:1: did not find expected node content"},
		"tabs":          {"known:\n\t- x\n", "k:2:1: found character that cannot start any token"},
		"scalar":        {"hello\n", "k:1:1: want `known:` and a list, nothing else"},
		"other key":     {"known: []\nmore: 1\n", "k:2:1: want `known:` and a list, nothing else"},
		"map":           {"known:\n  id: x\n", "k:2:3: known: want a list of entries with id, reason and expires"},
		"no map":        {"known:\n  - f-0123456789ab\n", "k:2:5: want an entry with id, reason and expires"},
		"bad id":        {"known:\n  - id: F-1\n", `k:2:9: id "F-1": want f- and 12 hex digits, as reports write it`},
		"no reason":     {"known:\n  - id: f-0123456789ab\n    expires: 2027-01-31\n", "k:2:5: entry without reason"},
		"empty reason":  {"known:\n  - id: f-0123456789ab\n    reason: ' '\n", "k:3:13: reason is empty"},
		"no expiry":     {"known:\n  - id: f-0123456789ab\n    reason: x\n", "k:2:5: entry without expires"},
		"bad date":      {"known:\n  - id: f-0123456789ab\n    reason: x\n    expires: never\n", `k:4:14: expires: "never" is no date; want YYYY-MM-DD`},
		"no such day":   {"known:\n  - id: f-0123456789ab\n    reason: x\n    expires: 2027-02-30\n", `k:4:14: expires: "2027-02-30" is no date; want YYYY-MM-DD`},
		"list value":    {"known:\n  - id: [f-0123456789ab]\n", "k:2:9: id: want one value"},
		"unknown field": {"known:\n  - ids: x\n", `k:2:5: unknown field "ids"; want id, reason, expires`},
		"doubled field": {"known:\n  - id: f-0123456789ab\n    id: f-0123456789ab\n", "k:3:5: id is given twice"},
		"doubled entry": {"known:\n  - &a {id: f-0123456789ab, reason: x, expires: 2027-01-31}\n  - {id: f-0123456789ab, reason: y, expires: 2027-01-31}\n", "k:3:5: f-0123456789ab is listed twice"},
		"two documents": {"known: []\n---\nknown: []\n", "k:1:1: more than one document; want `known:` and a list"},
	} {
		_, err := Parse("k", []byte(c.text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

// TestInPolicy: a policy file embeds the list.
func TestInPolicy(t *testing.T) {
	var policy struct {
		Known List `yaml:"known"`
	}
	if err := yaml.Unmarshal([]byte(good), &policy); err != nil || len(policy.Known) != 2 {
		t.Fatalf("%v, %v", policy, err)
	}
}

func TestExpired(t *testing.T) {
	e := Entry{Expires: day(2027, 1, 31)}
	for at, want := range map[string]bool{
		"2027-01-30T12:00:00Z": false, "2027-01-31T23:59:59Z": false, "2027-02-01T00:00:00Z": true,
		"2027-01-31T23:30:00-05:00": true, "2027-02-01T01:00:00+05:00": false,
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Expired(now); got != want {
			t.Errorf("%s: expired %v", at, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("known: [{}]"))
	f.Add([]byte("known: *x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Parse("k", data)
		var syntax *SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.Line < 1 || syntax.Column < 1) {
			t.Fatalf("error %#v", err)
		}
		for _, e := range list {
			if e.ID == "" || e.Reason == "" || e.Expires.IsZero() && e.Expires.String() != "0001-01-01" {
				t.Fatalf("entry %#v", e)
			}
		}
	})
}
