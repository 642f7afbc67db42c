package ui

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/triage/store"
)

// fill makes a store of so many findings and of runs with so many cases each.
func fill(t testing.TB, findings, runs, cases int) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "store"), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	base, head := store.Build{ID: "1", Spec: "jaxlib:0.11.0"}, store.Build{ID: "2", Spec: "jaxlib:0.12.0"}
	day := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	var all []store.Sighting
	for i := range findings {
		f := store.Sighting{ID: fmt.Sprintf("f-%012x", i), Class: "miscompile", Level: "hlo", Pass: fmt.Sprintf("pass-%d", i%90), Instruction: "<b>x</b>", Status: "new", Case: fmt.Sprintf("case-%d", i),
			Minimal: "HloModule m\n<script>alert(1)</script>", Bad: []store.Build{head}, Good: []store.Build{base}, Cases: map[string]string{fmt.Sprint(i): fmt.Sprintf("case-%d", i)}}
		if i%3 == 0 {
			f.Status, f.Bad, f.Good, f.FixedIn = "fixed", []store.Build{base}, []store.Build{head}, &head
		}
		all = append(all, f)
	}
	if err := s.Record(t.Context(), day, all); err != nil {
		t.Fatal(err)
	}
	results := make([]store.CaseResult, cases)
	for i := range results {
		results[i] = store.CaseResult{Name: fmt.Sprintf("case-%d", i), Outcome: "ok", Base: "right", Head: "right"}
	}
	for i := range runs {
		r := store.Run{At: day.Add(time.Duration(i) * time.Hour), Base: base.Spec, Head: head.Spec, Verdict: "pass", Cases: cases, New: i % 5, Fixed: i % 3, Existing: 7}
		if err := s.AddRun(t.Context(), r, results); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func get(t testing.TB, h http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w
}

var next = regexp.MustCompile(`rel="next" href="([^"]*)"`)

// TestPages: every page, what it must hold, and that foreign text has no power.
func TestPages(t *testing.T) {
	h := Handler(fill(t, 250, 3, 150), slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/", 200, "250 findings"},
		{"GET", "/?state=fixed", 200, "84 findings"},
		{"GET", "/?state=reported", 200, "Nothing here"},
		{"GET", "/?pass=pass-7", 200, "3 findings"},
		{"GET", "/?page=3", 200, "Nothing here"},
		{"GET", "/?page=-1", 400, ""},
		{"GET", "/?page=99999999999999999999", 400, ""},
		{"GET", "/?state=nonsense", 400, ""},
		{"GET", "/finding/f-000000000003", 200, "&lt;script&gt;alert(1)"},
		{"GET", "/finding/none", 404, ""},
		{"GET", "/passes", 200, "pass-89"},
		{"GET", "/runs", 200, "jaxlib:0.12.0"},
		{"GET", "/run/1", 200, "case-99"},
		{"GET", "/run/1?page=1", 200, "case-149"},
		{"GET", "/run/77", 404, ""},
		{"GET", "/run/x", 400, ""},
		{"GET", "/runs.svg", 200, "<svg"},
		{"GET", "/style.css", 200, "border-collapse"},
		{"GET", "/../../etc/passwd", 307, ""}, // to a page that is none
		{"GET", "/page.tmpl", 404, ""},
		{"POST", "/", 405, ""},
		{"DELETE", "/finding/f-000000000003", 405, ""},
	} {
		w := get(t, h, c.method, c.path)
		body := w.Body.String()
		if w.Code != c.code && !(c.code == 307 && w.Code == 301) || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d, want %d and %q:\n%.600s", c.method, c.path, w.Code, c.code, c.want, body)
		}
		if strings.Contains(body, "<script") || strings.Contains(body, "<b>x") {
			t.Errorf("%s: foreign text is markup", c.path)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: policy %q", c.path, got)
		}
	}
	// Going on from page to page shows each finding once.
	seen := map[string]int{}
	for path := "/"; path != ""; {
		body := get(t, h, "GET", path).Body.String()
		for _, m := range regexp.MustCompile(`/finding/(f-[0-9a-f]{12})"`).FindAllStringSubmatch(body, -1) {
			seen[m[1]]++
		}
		path = ""
		if m := next.FindStringSubmatch(body); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != 250 {
		t.Errorf("%d findings on the pages", len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s stands %d times", id, n)
		}
	}
}

// TestBrowser: a real browser renders the pages and complains about nothing.
func TestBrowser(t *testing.T) {
	program := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		t.Fatal("no Chromium: install the package chromium-headless-shell or chromium")
	}
	server := httptest.NewServer(Handler(fill(t, 120, 3, 5), slog.New(slog.DiscardHandler)))
	defer server.Close()
	for path, want := range map[string]string{"/": "120 findings", "/finding/f-000000000003": "&lt;script&gt;alert(1)", "/runs": "runs.svg"} {
		var out, log bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr", "--user-data-dir="+t.TempDir(), "--dump-dom", server.URL+path)
		cmd.Stdout, cmd.Stderr = &out, &log
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, &log)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: no %q in\n%.2000s", path, want, &out)
		}
		if strings.Contains(log.String(), "CONSOLE") {
			t.Errorf("%s: the browser complains:\n%s", path, &log)
		}
	}
}

// BenchmarkLargeStore measures pages of a store with 1,000,000 case results and
// 20,000 findings.
func BenchmarkLargeStore(b *testing.B) {
	h := Handler(fill(b, 20000, 100, 10000), slog.New(slog.DiscardHandler))
	for _, path := range []string{"/", "/?page=199", "/?state=fixed&page=60", "/finding/f-000000000003", "/passes", "/runs", "/runs.svg", "/run/50?page=99"} {
		b.Run(strings.ReplaceAll(path[1:], "/", "-"), func(b *testing.B) {
			for b.Loop() {
				if w := get(b, h, "GET", path); w.Code != 200 {
					b.Fatal(w.Code)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
		})
	}
}
