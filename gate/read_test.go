package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const smallResult = `{"schema":"passgate/result/v1","verdict":"pass","reasons":["why"],"surprise":{"a":[1]},"shard":"1/2",
"cases":[{"id":"a","outcome":"ok","streams":[{"name":"own","judged":4}]},{"id":"b","outcome":"finding"}],
"findings":[{"id":"f-0","case":"b","pass":{"name":"dce","index":0,"pipeline":"p"}}],"timing":{"seconds":2}}`

// TestReadResult: a result that is read case by case is what encoding/json makes
// of it.
func TestReadResult(t *testing.T) {
	for _, text := range []string{smallResult, strings.Replace(smallResult, `[{"id":"a"`, `null,"x":[{"id":"a"`, 1), `{"schema":"passgate/result/v1","cases":[]}`, `{"cases":null,"schema":"passgate/result/v1"}`} {
		want := &Result{}
		if err := json.Unmarshal([]byte(text), want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadResult(iotest.OneByteReader(strings.NewReader(text)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: encoding/json -, ours +:\n%s", text, diff)
		}
		var cases []CaseResult
		got, err = ReadResult(strings.NewReader(text), func(c *CaseResult) error { cases = append(cases, *c); return nil })
		if err != nil || got.Cases != nil {
			t.Fatalf("%v, %d cases are held", err, len(got.Cases))
		}
		if len(cases) != len(want.Cases) || len(cases) > 0 && cmp.Diff(want.Cases, cases) != "" {
			t.Errorf("%s: cases %+v", text, cases)
		}
	}
}

func TestReadResultRefuses(t *testing.T) {
	for _, c := range []struct {
		text, want string
		at         string // behind this
		cut        bool
	}{
		{`[]`, "found [, want {", "[", false},
		{`{}`, `schema is ""`, "", false},
		{`nonsense`, "invalid character", "", false},
		{smallResult[:len(smallResult)-20], "ends too early", smallResult[:len(smallResult)-20], true},
		{smallResult[:200], "ends too early", smallResult[:200], true},
		{``, "ends too early", "", true},
		{strings.Replace(smallResult, `"id":"b"`, `"id":7`, 1), "case 1: json: cannot unmarshal number", `{"id":7,"outcome":"finding"}`, false},
		{strings.Replace(smallResult, `"finding"}]`, `"finding"}}`, 1), "invalid character", "", false},
		{strings.Replace(smallResult, `"cases":[`, `"cases":7,"x":[`, 1), "found 7, want [", "7", false},
	} {
		_, err := ReadResult(strings.NewReader(c.text), nil)
		var bad *ResultError
		if !errors.As(err, &bad) || bad.Cut != c.cut || !strings.Contains(bad.Reason, c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		} else if c.at != "" && !strings.HasSuffix(c.text[:bad.Offset], c.at) {
			t.Errorf("%s: stands at %s", c.text, c.text[:bad.Offset])
		}
	}
	broken := errors.New("broken")
	if _, err := ReadResult(io.MultiReader(strings.NewReader(smallResult[:200]), iotest.ErrReader(broken)), nil); !errors.Is(err, broken) {
		t.Errorf("a reader that breaks: %v", err)
	}
	if _, err := ReadResult(strings.NewReader(smallResult), func(*CaseResult) error { return broken }); err != broken {
		t.Errorf("a case that is not wanted: %v", err)
	}
}

// FuzzReadResult: what is read holds what encoding/json reads, and nothing panics.
func FuzzReadResult(f *testing.F) {
	f.Add([]byte(smallResult))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ReadResult(bytes.NewReader(data), nil)
		if err == nil && got.Schema != Schema {
			t.Error("another schema")
		}
	})
}
