// Package ui shows a store of findings as web pages, rendered here: findings,
// passes and runs. It reads the store and never writes. Pages hold a bounded number
// of rows, whatever the store holds, run no script, and load nothing from elsewhere.
package ui

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/passgate/passgate/triage/store"
)

//go:embed page.tmpl style.css
var files embed.FS

// pageRows are the rows of a page, plotRuns the runs of the plot.
const (
	pageRows = 100
	plotRuns = 200
	maxPage  = 1 << 20
)

// policy lets a page use its own style sheet and pictures and nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type page struct {
	Title    string
	States   []store.State
	Pass     string
	Findings []store.Finding
	Finding  *store.Finding
	Passes   []store.PassTally
	Runs     []store.Run
	Cases    []store.CaseResult
	Empty    bool
	// Before and After are the addresses of the neighbouring pages, "" for none.
	Before, After string
}

type handler struct {
	s   *store.Store
	t   *template.Template
	log *slog.Logger
}

// Handler serves the pages of a store.
func Handler(s *store.Store, log *slog.Logger) http.Handler {
	h := &handler{s, template.Must(template.ParseFS(files, "page.tmpl")), log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.findings)
	mux.HandleFunc("GET /finding/{id}", h.finding)
	mux.HandleFunc("GET /passes", h.passes)
	mux.HandleFunc("GET /runs", h.runs)
	mux.HandleFunc("GET /runs.svg", h.plot)
	mux.HandleFunc("GET /run/{id}", h.run)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "style.css") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		mux.ServeHTTP(w, r)
	})
}

func (h *handler) show(w http.ResponseWriter, p page, err error) {
	switch {
	case errors.Is(err, store.ErrUnknown):
		http.Error(w, "not found", http.StatusNotFound)
		return
	case err != nil:
		h.log.Error("page", "error", err)
		http.Error(w, "the store cannot be read", http.StatusInternalServerError)
		return
	}
	p.Empty = p.Finding == nil && len(p.Findings)+len(p.Passes)+len(p.Runs)+len(p.Cases) == 0
	var b bytes.Buffer
	if err := h.t.Execute(&b, p); err != nil {
		panic(err) // a bug in the template
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(b.Bytes())
}

// number is the page that a request asks for, from 0; false if it is none.
func number(r *http.Request) (int, bool) {
	text := r.URL.Query().Get("page")
	if text == "" {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n < maxPage
}

// neighbours sets the addresses before and after page n; more says that there is
// one after.
func (p *page) neighbours(r *http.Request, n int, more bool) {
	at := func(n int) string {
		q := url.Values{}
		for _, k := range []string{"state", "pass"} {
			if v := r.URL.Query().Get(k); v != "" {
				q.Set(k, v)
			}
		}
		q.Set("page", strconv.Itoa(n))
		return r.URL.Path + "?" + q.Encode()
	}
	if n > 0 {
		p.Before = at(n - 1)
	}
	if more {
		p.After = at(n + 1)
	}
}

// rows cuts what was asked for with one row more than a page holds.
func rows[T any](all []T) ([]T, bool) {
	if len(all) > pageRows {
		return all[:pageRows], true
	}
	return all, false
}

func (h *handler) findings(w http.ResponseWriter, r *http.Request) {
	n, ok := number(r)
	state, pass := store.State(r.URL.Query().Get("state")), r.URL.Query().Get("pass")
	if !ok || state != "" && !slices.Contains(store.States, state) {
		http.Error(w, "bad page or state", http.StatusBadRequest)
		return
	}
	total, err := h.s.Count(r.Context(), state, pass)
	p := page{Title: fmt.Sprintf("%d findings", total), States: store.States, Pass: pass}
	var found []store.Finding
	if err == nil {
		found, err = h.s.Page(r.Context(), state, pass, pageRows+1, n*pageRows)
	}
	var more bool
	p.Findings, more = rows(found)
	p.neighbours(r, n, more)
	h.show(w, p, err)
}

func (h *handler) finding(w http.ResponseWriter, r *http.Request) {
	f, err := h.s.Get(r.Context(), r.PathValue("id"))
	h.show(w, page{Title: "Finding " + f.ID, Finding: &f}, err)
}

func (h *handler) passes(w http.ResponseWriter, r *http.Request) {
	all, err := h.s.Passes(r.Context())
	h.show(w, page{Title: "Passes", Passes: all}, err)
}

func (h *handler) runs(w http.ResponseWriter, r *http.Request) {
	n, ok := number(r)
	if !ok {
		http.Error(w, "bad page", http.StatusBadRequest)
		return
	}
	all, err := h.s.Runs(r.Context(), pageRows+1, n*pageRows)
	p := page{Title: "Runs"}
	var more bool
	p.Runs, more = rows(all)
	p.neighbours(r, n, more)
	h.show(w, p, err)
}

func (h *handler) run(w http.ResponseWriter, r *http.Request) {
	n, ok := number(r)
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if !ok || err != nil {
		http.Error(w, "bad page or run", http.StatusBadRequest)
		return
	}
	one, err := h.s.RunByID(r.Context(), id)
	p := page{Title: fmt.Sprintf("Run %d: %s against %s, %d cases, %s", id, one.Head, one.Base, one.Cases, one.Verdict)}
	if err == nil {
		var cases []store.CaseResult
		cases, err = h.s.Results(r.Context(), id, n*pageRows, pageRows+1)
		var more bool
		p.Cases, more = rows(cases)
		p.neighbours(r, n, more)
	}
	h.show(w, p, err)
}

// plot draws the findings of the last runs, the oldest left.
func (h *handler) plot(w http.ResponseWriter, r *http.Request) {
	runs, err := h.s.Runs(r.Context(), plotRuns, 0)
	if err != nil {
		h.show(w, page{}, err)
		return
	}
	slices.Reverse(runs)
	fig := plot.New()
	fig.X.Label.Text, fig.Y.Label.Text = "run", "findings"
	fig.Legend.Top = true
	for i, line := range []struct {
		name string
		of   func(store.Run) int
	}{{"new", func(r store.Run) int { return r.New }}, {"fixed", func(r store.Run) int { return r.Fixed }}, {"pre-existing", func(r store.Run) int { return r.Existing }}} {
		points := make(plotter.XYs, len(runs))
		for j, r := range runs {
			points[j].X, points[j].Y = float64(r.ID), float64(line.of(r))
		}
		if len(points) == 0 {
			continue
		}
		l, err := plotter.NewLine(points)
		if err != nil {
			h.show(w, page{}, err)
			return
		}
		l.Color, l.Dashes = plotutil.Color(i), plotutil.Dashes(i)
		fig.Add(l)
		fig.Legend.Add(line.name, l)
	}
	to, err := fig.WriterTo(18*vg.Centimeter, 7*vg.Centimeter, "svg")
	if err != nil {
		h.show(w, page{}, err)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	to.WriteTo(w) // the client may have gone
}
