package reports_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// stored is a result whose cases are not held.
func stored(r *gate.Result) *gate.Result {
	out := *r
	out.Cases = nil
	out.Stored = func(do func(*gate.CaseResult) error) error {
		for _, c := range r.Cases {
			if err := do(&c); err != nil {
				return err
			}
			c = gate.CaseResult{} // nobody may keep it
		}
		return nil
	}
	return &out
}

// TestStored: every rendering of a result whose cases are read one at a time is
// that of the result that holds them, and JSON is that of encoding/json.
func TestStored(t *testing.T) {
	empty := &gate.Result{Schema: gate.Schema, Cases: []gate.CaseResult{}, Missing: []string{}}
	for _, r := range []*gate.Result{sample(hostile), crowd(3, "p"), crowd(0, ""), empty} {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
		if got, err := reports.Render(reports.JSON, r); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%v, JSON is\n%s\nencoding/json writes\n%s", err, got, &want)
		}
		if r.Cases == nil {
			continue // null, where a list that is read is empty
		}
		for _, f := range reports.Formats() {
			want, err := reports.Render(f, r)
			got, err2 := reports.Render(f, stored(r))
			if err != nil || err2 != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v, %v; cases read one at a time:\n%s\nheld:\n%s", f, err, err2, got, want)
			}
		}
	}
}

// TestCrowd: what is held of a case does not depend on its size, and the page does
// not grow with the cases. What grows is JUnit's text, whose sums stand in front.
func TestCrowd(t *testing.T) {
	const n = 20_000
	const perCase = 256 // bytes: JUnit's text has about 70
	r := crowd(40, "p")
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	grown := int64(0)
	detail := strings.Repeat("d", 4000)
	r.Cases = nil
	r.Stored = func(do func(*gate.CaseResult) error) error {
		before := heap()
		for i := range n {
			c := gate.CaseResult{ID: fmt.Sprintf("case-%d", i), Outcome: gate.CaseOK, Base: gate.Right, Head: gate.Right, Hash: strings.Repeat("0", 64)}
			for range 8 {
				c.Streams = append(c.Streams, gate.StreamResult{Name: "own", Detail: strings.Clone(detail)})
			}
			if err := do(&c); err != nil {
				return err
			}
		}
		grown = heap() - before
		return nil
	}
	dir := t.TempDir()
	if err := reports.Write(dir, r); err != nil {
		t.Fatal(err)
	}
	if grown > n*perCase {
		t.Errorf("%d bytes are held of each case, want at most %d", grown/n, perCase)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if len(page) > 1<<20 || !bytes.Contains(page, fmt.Appendf(nil, "200 of %d cases, first those that are not ok; the other %d are in", n, n-200)) {
		t.Errorf("a page of %d bytes", len(page))
	}
	back := 0
	f, err := os.Open(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := gate.ReadResult(f, func(*gate.CaseResult) error { back++; return nil }); err != nil || back != n {
		t.Errorf("%v, %d of %d cases in result.json", err, back, n)
	}
}

// TestPageShowsTheGravest: a page is a few megabytes whatever there is, shows what
// is not ok first, and counts what it leaves out.
func TestPageShowsTheGravest(t *testing.T) {
	const n = 10_000
	r := crowd(n, strings.Repeat("p", 300_000))
	for i := range r.Cases {
		r.Cases[i].Outcome = gate.CaseOK
	}
	r.Cases[n-1].Outcome = gate.CaseInfrastructure
	out, err := reports.Render(reports.HTML, r)
	if err != nil {
		t.Fatal(err)
	}
	page := string(out)
	if len(page) > 8<<20 {
		t.Errorf("%d bytes", len(page))
	}
	if !strings.Contains(page, "<tr><td>case-9999</td><td>infrastructure") || !strings.Contains(page, "<tr><td>case-198</td>") || strings.Contains(page, "<tr><td>case-199</td>") {
		t.Error("the table of cases does not begin with what is not ok")
	}
	rows, programs := strings.Count(page, `<tr class="finding"`), strings.Count(page, "<details id=")
	if strings.Count(page, `<td class="blocks">`) != rows {
		t.Error("findings that do not block are shown before some that do")
	}
	for _, said := range []struct {
		text string
		want int
	}{{`Not in the table, all in result\.json and findings/: (\d+) findings: 7700 new \(7700 blocking\), 2000 pre-existing\.`, n - rows}, {`(\d+) more findings are in the table; their programs`, rows - programs}} {
		m := regexp.MustCompile(said.text).FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("no %s", said.text)
		}
		if got, _ := strconv.Atoi(m[1]); got != said.want || got == 0 {
			t.Errorf("%s, want %d", m[0], said.want)
		}
	}
}
