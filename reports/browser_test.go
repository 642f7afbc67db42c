package reports_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// browser is a headless Chromium, spoken to over its debugging pipe
// (chromedevtools.github.io/devtools-protocol).
type browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	id      int
	session string
	// requests and problems are what the page asked for and complained about.
	requests, problems []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	var program string
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		t.Fatal("no Chromium: install the package chromium-headless-shell or chromium")
	}
	toRead, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, toWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, toWrite}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toRead.Close()
	toWrite.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		b.session = ""
		b.send("Browser.close", nil)
		in.Close()
		cmd.Wait()
		out.Close()
	})
	target := b.call("Target.createTarget", map[string]any{"url": "about:blank"})["targetId"]
	b.session = b.call("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Page", "Network", "Log", "Runtime"} {
		b.call(domain+".enable", nil)
	}
	return b
}

func (b *browser) send(method string, params map[string]any) {
	b.id++
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	data, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(data, 0))
	}
	if err != nil {
		b.t.Errorf("%s: %v", method, err)
	}
}

// receive reads messages until one fits.
func (b *browser) receive(fits func(m map[string]any) bool) map[string]any {
	b.t.Helper()
	for {
		data, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("the browser is gone: %v", err)
		}
		var m map[string]any
		if err := json.Unmarshal(data[:len(data)-1], &m); err != nil {
			b.t.Fatal(err)
		}
		params, _ := m["params"].(map[string]any)
		switch m["method"] {
		case "Network.requestWillBeSent":
			b.requests = append(b.requests, params["request"].(map[string]any)["url"].(string))
		case "Log.entryAdded", "Runtime.exceptionThrown":
			b.problems = append(b.problems, fmt.Sprint(params))
		}
		if fits(m) {
			return m
		}
	}
}

func (b *browser) call(method string, params map[string]any) map[string]any {
	b.t.Helper()
	b.send(method, params)
	id := float64(b.id)
	m := b.receive(func(m map[string]any) bool { return m["id"] == id })
	if m["error"] != nil {
		b.t.Fatalf("%s: %v", method, m["error"])
	}
	result, _ := m["result"].(map[string]any)
	return result
}

func (b *browser) open(file string) {
	b.t.Helper()
	b.send("Page.navigate", map[string]any{"url": (&url.URL{Scheme: "file", Path: file}).String()})
	b.receive(func(m map[string]any) bool { return m["method"] == "Page.loadEventFired" })
}

// eval is the value of a JavaScript expression, of a promise when it is kept.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	r := b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if r["exceptionDetails"] != nil {
		b.t.Fatalf("%s: %v", expression, r["exceptionDetails"])
	}
	return r["result"].(map[string]any)["value"]
}

func (b *browser) key(name string, code int, text string) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		p := map[string]any{"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code}
		if kind == "keyDown" && text != "" {
			p["text"] = text
		}
		b.call("Input.dispatchKeyEvent", p)
	}
}

func page(t *testing.T, r *gate.Result) string {
	t.Helper()
	out, err := reports.Render(reports.HTML, r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, out, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPageInABrowser: the report in a real Chromium.
func TestPageInABrowser(t *testing.T) {
	b := newBrowser(t)
	r := crowd(12, "ENTRY e {\n  "+strings.Repeat("wide", 200)+"\n}\n")
	for i := range r.Findings {
		r.Findings[i].Wrong = int64(100 - 9*i)
	}
	r.Findings[0].Step = &gate.StepText{Before: "HloModule before", After: "HloModule after"}
	b.open(page(t, r))

	t.Run("needs nothing else", func(t *testing.T) {
		if len(b.requests) != 1 || len(b.problems) != 0 {
			t.Errorf("requests %q, problems %q", b.requests, b.problems)
		}
	})
	t.Run("sorts by keyboard", func(t *testing.T) {
		b.eval(`document.querySelectorAll("#findings th button")[5].focus()`)
		for _, want := range []string{"ascending 1", "descending 100"} {
			b.key("Enter", 13, "\r")
			if got := b.eval(`document.querySelectorAll("#findings th")[5].ariaSort + " " + document.querySelector("#findings tbody tr").cells[5].dataset.value`); got != want {
				t.Errorf("got %v, want %s", got, want)
			}
		}
	})
	t.Run("filters", func(t *testing.T) {
		b.eval(`document.getElementById("filter").focus()`)
		b.call("Input.insertText", map[string]any{"text": "PRE-existing"})
		if got := b.eval(`[...document.querySelectorAll("tr.finding")].filter((r) => r.getClientRects().length).length + " " + document.getElementById("shown").textContent`); got != "2 2 of 12" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("a link opens its finding", func(t *testing.T) {
		b.eval(`(() => { const f = document.getElementById("filter"); f.value = ""; f.dispatchEvent(new Event("input")) })()`)
		if got := b.eval(`document.getElementById("d-f-000000000003").open`); got != false {
			t.Fatalf("open before: %v", got)
		}
		b.eval(`document.querySelector('a[href="#d-f-000000000003"]').focus()`)
		b.key("Enter", 13, "\r")
		// The page hears of a followed link some time after the key.
		if got := b.eval(`new Promise((done) => {
			let tries = 500;
			const look = () => document.getElementById("d-f-000000000003").open || !--tries ? done(tries) : setTimeout(look, 10);
			look();
		})`); got == 0.0 {
			t.Error("the finding is closed")
		}
	})
	t.Run("shows the module around the pass", func(t *testing.T) {
		if got := b.eval(`[...document.querySelectorAll(".pair pre")].map((p) => p.textContent).join()`); got != "HloModule before,HloModule after" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("everything is within reach of Tab, and seen", func(t *testing.T) {
		b.eval(`document.activeElement.blur(); document.body.focus()`)
		b.eval(`window.scrollTo(0, 0)`)
		seen := map[string]bool{}
		for range 60 {
			b.key("Tab", 9, "")
			at := b.eval(`(() => { const e = document.activeElement; return e.tagName + "|" + (e.textContent || e.id).trim().slice(0, 30) + "|" + getComputedStyle(e).outlineStyle })()`).(string)
			if !strings.HasPrefix(at, "BODY|") && strings.HasSuffix(at, "|none") {
				t.Errorf("the focus on %s is not seen", at)
			}
			seen[strings.Split(at, "|")[0]] = true
		}
		for _, tag := range []string{"BUTTON", "A", "SUMMARY", "PRE", "DIV", "INPUT"} {
			if !seen[tag] {
				t.Errorf("Tab reaches no %s: %v", tag, seen)
			}
		}
	})
	t.Run("fits a phone", func(t *testing.T) {
		b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true})
		if got := b.eval(`document.documentElement.scrollWidth`).(float64); got > 360 {
			t.Errorf("the page is %v pixels wide: %v", got, b.eval(`[...document.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > 361 && !e.closest(".scroll,pre,svg")).map((e) => e.tagName + "." + e.className + e.id).join()`))
		}
		if got := b.eval(`Math.min(...[...document.querySelectorAll("p,td,li,summary")].map((e) => parseFloat(getComputedStyle(e).fontSize)))`).(float64); got < 14 {
			t.Errorf("text of %v pixels", got)
		}
		b.call("Emulation.clearDeviceMetricsOverride", nil)
	})
	t.Run("names everything that blocks first", func(t *testing.T) {
		if got, want := b.eval(`document.querySelectorAll(".broke li a").length`), b.eval(`document.querySelectorAll("#findings td.blocks").length`); got != want || got == 0.0 {
			t.Errorf("%v of %v", got, want)
		}
	})
	t.Run("plots keep their size on a wide page", func(t *testing.T) {
		b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1200, "height": 800, "deviceScaleFactor": 1, "mobile": false})
		if got := b.eval(`Math.max(...[...document.querySelectorAll("figure svg")].map((s) => s.getBoundingClientRect().width))`).(float64); got > 420 {
			t.Errorf("a plot is %v pixels wide", got)
		}
		if got := b.eval(`[...document.querySelectorAll("figure svg")].flatMap((s) => [...s.querySelectorAll("text")].filter((t) => {
			const a = t.getBoundingClientRect(), b = s.getBoundingClientRect();
			return a.right > b.right + 1 || a.left < b.left - 1 || /^[0-9]+[.]/.test(t.textContent);
		}).map((t) => t.textContent)).join()`); got != "" {
			t.Errorf("words that are cut off, or counts that are no whole numbers: %v", got)
		}
		b.call("Emulation.clearDeviceMetricsOverride", nil)
	})
	t.Run("a phone shows every cell of a finding", func(t *testing.T) {
		b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": true})
		if got := b.eval(`[...document.querySelectorAll(".cards td")].filter((e) => e.textContent && (e.getBoundingClientRect().right > 390 || e.getBoundingClientRect().height > 400)).map((e) => e.textContent).join()`); got != "" {
			t.Errorf("out of sight, or very tall: %.300v", got)
		}
		if got := b.eval(`[...document.querySelectorAll("#findings tbody tr:first-child td")].map((e) => getComputedStyle(e, "::before").content).join()`); got != `"finding","class","status","guilty","case","wrong","first"` {
			t.Errorf("cells are named %v", got)
		}
		if got := b.eval(`[...document.querySelectorAll("#findings th button")].every((e) => e.getClientRects().length && e.getBoundingClientRect().right <= 390)`); got != true {
			t.Error("a button to sort by is out of sight")
		}
		b.call("Emulation.clearDeviceMetricsOverride", nil)
	})
	t.Run("light and dark", func(t *testing.T) {
		seen := map[string]bool{}
		for _, scheme := range []string{"light", "dark"} {
			b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
			back := b.eval(`getComputedStyle(document.body).backgroundColor`).(string)
			seen[back] = true
			for _, e := range []string{"body", "a", "h1 span", ".blocks", "pre", "figure text"} {
				colour := b.eval(fmt.Sprintf(`(() => { const e = document.querySelector(%q); const s = getComputedStyle(e); return e instanceof SVGElement ? s.fill : s.color })()`, e)).(string)
				// WCAG 2.2, 1.4.3: 4.5 to 1.
				if c := contrast(t, colour, back); c < 4.5 {
					t.Errorf("%s: %s is %s on %s: contrast %.1f", scheme, e, colour, back, c)
				}
			}
		}
		if len(seen) != 2 {
			t.Errorf("one background for both: %v", seen)
		}
	})
	t.Run("plots", func(t *testing.T) {
		if got := b.eval(`[...document.querySelectorAll("figure svg")].every((s) => s.getBoundingClientRect().height > 50 && s.querySelectorAll("path").length > 2)`); got != true {
			t.Error("an empty plot")
		}
		if got := b.eval(`document.querySelectorAll("figure svg").length`).(float64); got != 4 {
			t.Errorf("%v plots", got)
		}
		// The histogram of distances: what is below 2^-6 ULP is one bar.
		for _, want := range []string{"exact: 1, 2", "up to 1/64: 2, 0", "up to 1: 1, 0", "up to 2^21: 0, 2"} {
			if got := b.eval(fmt.Sprintf(`[...document.querySelectorAll("figure:last-of-type svg text")].some((t) => t.textContent.trim() === %q)`, want)); got != true {
				t.Errorf("the histogram lacks %q", want)
			}
		}
	})
	t.Run("hostile text stays text", func(t *testing.T) {
		evil := `</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1"><svg onload="window.pwned=1">` + hostile
		h := sample(evil)
		h.Findings[0].Pass = &gate.PassStep{Pipeline: evil, Name: evil}
		h.Passes[0].Name = evil
		h.Findings[0].Step = &gate.StepText{Before: evil, After: evil}
		b.requests, b.problems = nil, nil
		b.open(page(t, h))
		if got := b.eval(`String(window.pwned) + document.scripts.length + document.images.length`); got != "undefined10" {
			t.Errorf("got %v", got)
		}
		if len(b.requests) != 1 || len(b.problems) != 0 {
			t.Errorf("requests %q, problems %q", b.requests, b.problems)
		}
	})
}

// contrast is the contrast of two colours "rgb(r, g, b)" (WCAG 2.2, relative
// luminance).
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(s string) float64 {
		var c [3]float64
		if _, err := fmt.Sscanf(s, "rgb(%f, %f, %f)", &c[0], &c[1], &c[2]); err != nil {
			t.Fatalf("colour %q: %v", s, err)
		}
		for i, v := range c {
			if v /= 255; v <= 0.04045 {
				c[i] = v / 12.92
			} else {
				c[i] = math.Pow((v+0.055)/1.055, 2.4)
			}
		}
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}
