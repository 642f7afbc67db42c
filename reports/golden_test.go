package reports_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// update writes what the reports say now over the golden files. Look at them
// rendered before you commit them: -pictures says where they lie.
var (
	update   = flag.Bool("update", false, "write the golden files")
	pictures = flag.String("pictures", "", "directory for pictures of the rendered golden files")
)

// golden are the results of real runs in testdata: of examples/cases on two builds,
// and of one build against itself.
var golden = []string{"blocked", "pass"}

func readGolden(t *testing.T, name string) *gate.Result {
	t.Helper()
	dir := filepath.Join("testdata", name)
	data, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r gate.Result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		for file, to := range map[string]*[]byte{"case": &f.CaseFile, "minimal.case": &f.MinimalFile} {
			if *to, err = os.ReadFile(filepath.Join(dir, "findings", f.ID, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	return &r
}

// TestGolden: the reports of real runs, as they were read and found good.
func TestGolden(t *testing.T) {
	for _, name := range golden {
		t.Run(name, func(t *testing.T) {
			r := readGolden(t, name)
			t.Chdir(t.TempDir())
			if err := reports.Write("passgate-out", r); err != nil {
				t.Fatal(err)
			}
			home := filepath.Join(sourceDir, "testdata", name)
			files := []string{"comment.md", "summary.md"}
			for _, f := range r.Findings {
				if f.MinimalFile != nil {
					files = append(files, filepath.Join("findings", f.ID, "README.md"))
				}
			}
			for _, file := range files {
				got, err := os.ReadFile(filepath.Join("passgate-out", file))
				if err != nil {
					t.Fatal(err)
				}
				if *update {
					if err := os.WriteFile(filepath.Join(home, file), got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(filepath.Join(home, file))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Errorf("%s (-golden +now; go test ./reports -update, then read it):\n%s", file, diff)
				}
			}
		})
	}
}

var sourceDir = func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}()

// onGitHub is Markdown as GitHub shows it: as wide as a comment, its tables and
// code scroll by themselves, and so does nothing else.
func onGitHub(t *testing.T, markdown []byte) string {
	t.Helper()
	var body bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe())).Convert(markdown, &body); err != nil {
		t.Fatal(err)
	}
	const style = `body { font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; margin: 0; padding: 16px; overflow-wrap: break-word; color: #1f2328 }
code { font: 12px ui-monospace, monospace; background: #818b981f; border-radius: 6px; padding: .2em .4em; white-space: break-spaces }
pre { overflow: auto; background: #f6f8fa; padding: 16px; border-radius: 6px; } pre code { background: none; padding: 0; white-space: pre }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse } th, td { border: 1px solid #d1d9e0; padding: 6px 13px }
h2 { border-bottom: 1px solid #d1d9e0 }`
	file := filepath.Join(t.TempDir(), "page.html")
	page := fmt.Sprintf("<!DOCTYPE html><html><head><meta charset=utf-8><meta name=viewport content='width=device-width'><style>%s</style></head><body>%s</body></html>", style, body.String())
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestGoldenRendered: the golden files, made HTML of and laid out by a browser as
// wide as a comment on a desk and on a phone: every heading is one, what has to be
// seen at once is at the top, nothing sticks out, and no mark-up is left as text.
func TestGoldenRendered(t *testing.T) {
	b := newBrowser(t)
	for _, name := range golden {
		files, err := filepath.Glob(filepath.Join("testdata", name, "findings", "*", "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append(files, filepath.Join("testdata", name, "comment.md"), filepath.Join("testdata", name, "summary.md")) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(filepath.ToSlash(strings.TrimPrefix(file, "testdata"+string(filepath.Separator))), func(t *testing.T) {
				b.t = t
				page := onGitHub(t, text)
				for _, width := range []int{830, 360} {
					b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false})
					b.open(page)
					if got := b.eval(`document.documentElement.scrollWidth`).(float64); got > float64(width) {
						t.Errorf("%v pixels wide on a page of %d: %v", got, width, b.eval(`[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest("pre,table")).map((e) => e.tagName + " " + e.textContent.slice(0, 40)).join()`))
					}
					b.picture(filepath.Join(*pictures, strings.ReplaceAll(filepath.ToSlash(file), "/", "-")+fmt.Sprintf("-%d.png", width)))
				}
				// Every heading of the source is one of the page, and no other.
				var want []string
				fence := ""
				for l := range strings.Lines(string(text)) {
					l = strings.TrimRight(l, "\n")
					if run := l[:len(l)-len(strings.TrimLeft(l, "`"))]; fence == "" && len(run) >= 3 {
						fence = run
					} else if fence != "" && l == fence {
						fence = ""
					} else if fence == "" && strings.HasPrefix(l, "#") {
						want = append(want, strings.ReplaceAll(strings.TrimSpace(strings.TrimLeft(l, "#")), "`", ""))
					}
				}
				if got := b.eval(`[...document.querySelectorAll("h1,h2,h3,h4")].map((h) => h.textContent).join("\n")`); got != strings.Join(want, "\n") || len(want) < 2 {
					t.Errorf("headings\n%v\nwant\n%s", got, strings.Join(want, "\n"))
				}
				if got := b.eval(`[...document.querySelectorAll("body *")].filter((e) => !e.closest("pre,code") && [...e.childNodes].some((n) => n.nodeType === 3 && /\*\*|` + "```" + `|<\/?(details|summary)|\|---/.test(n.textContent))).map((e) => e.textContent.slice(0, 80)).join("\n")`); got != "" {
					t.Errorf("mark-up is left as text: %v", got)
				}
				// Inside of details nothing has swallowed what follows.
				if got := b.eval(`[...document.querySelectorAll("details")].some((d) => d.querySelector("h2,h3"))`); got != false {
					t.Error("a heading is inside of something folded")
				}
				if strings.HasSuffix(file, "comment.md") && name == "blocked" {
					// Without scrolling: who broke what, and the command.
					if got := b.eval(`[...document.querySelectorAll("strong, pre")].filter((e) => e.getBoundingClientRect().bottom < 900).map((e) => e.textContent.trim()).join("\n")`).(string); !strings.Contains(got, "miscompile by") || !strings.Contains(got, "passgate check --base") {
						t.Errorf("a phone shows at once: %s", got)
					}
				}
			})
		}
	}
	b.t = t
}

// picture writes what the browser shows, unless nobody wants it.
func (b *browser) picture(file string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	size := b.call("Page.getLayoutMetrics", nil)["cssContentSize"].(map[string]any)
	clip := map[string]any{"x": 0, "y": 0, "width": size["width"], "height": min(size["height"].(float64), 6000), "scale": 1}
	data := b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "clip": clip})["data"].(string)
	var png []byte
	if err := json.Unmarshal([]byte(`"`+data+`"`), &png); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
