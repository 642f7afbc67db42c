// Package standin is a strict stand-in for GitHub's REST API, for tests. It
// holds one repository with one pull request and answers in the shapes of
// GitHub's own published description: a request that the description does not
// allow fails the test, and so does an answer of the stand-in itself.
//
// openapi.json and payloads.json are made by cut from public npm packages:
//
//	npm pack @octokit/openapi@23.0.2 @octokit/webhooks-examples@7.6.1
//	go run ./action/standin/cut DIR DIR action/standin
package standin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

//go:embed openapi.json
var description []byte

//go:embed payloads.json
var payloads []byte

// BlobHost is where artifacts are downloaded from.
const BlobHost = "blobs.example.com"

// The repository and its numbers.
const (
	Owner, Repo = "octo-org", "octo-repo"
	RepoID      = 1296269
	ForkID      = 2296269
)

// Pull is the pull request.
type Pull struct {
	Number   int
	Head     string
	State    string
	HeadRepo int64
}

// File is a changed file.
type File struct{ Name, OldName, Status, Patch string }

// Comment is a comment.
type Comment struct {
	ID     int64
	Author string
	Body   string
}

// Fault is an answer in place of the real one.
type Fault struct {
	Status int
	Header map[string]string
	// After says that the request is carried out first and its answer lost.
	After bool
}

// Request is what was asked.
type Request struct {
	Method, Path string
	Body         map[string]any
	Token        bool
}

// Server is the stand-in. Set the fields before use.
type Server struct {
	t      testing.TB
	router routers.Router
	doc    *openapi3.T
	mu     sync.Mutex

	Pull     Pull
	Files    []File // of the pull request, or between two commits
	Comments []Comment
	// Login is the author of what is posted.
	Login string
	// ReadOnly refuses everything that is not GET, as for a fork's token.
	ReadOnly bool
	// Fault, if not nil, may replace answers; nth counts the same requests.
	Fault func(method, path string, nth int) *Fault
	// Run is the workflow run and Artifacts its archives by name.
	Run       Run
	Artifacts map[string][][]byte
	// Redirect is where downloads lead; "https://"+BlobHost+"/ID".
	Redirect string

	// What was done.
	Requests []Request
	Checks   []map[string]any
	SARIF    []map[string]any
	seen     map[string]int
}

// Run is a workflow run.
type Run struct {
	ID                                    int64
	Event, Status, Conclusion, Head, Path string
	Branch, HeadOwner                     string
	HeadRepo                              int64
}

// New is a stand-in that fails t for what does not fit the description.
func New(t testing.TB) *Server {
	t.Helper()
	doc, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &Server{t: t, router: router, doc: doc, Login: "github-actions[bot]", Artifacts: map[string][][]byte{}, seen: map[string]int{}}
}

var parsed = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(description)
})

// Payload is GitHub's example of an event, with changes at dotted paths.
func Payload(t testing.TB, event string, set map[string]any) []byte {
	t.Helper()
	var all map[string]json.RawMessage
	var p map[string]any
	if err := json.Unmarshal(payloads, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[event], &p); err != nil {
		t.Fatalf("no payload %s: %v", event, err)
	}
	for _, path := range slices.Sorted(maps.Keys(set)) {
		put(p, path, set[path])
	}
	out, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func put(m map[string]any, path string, v any) {
	parts := strings.Split(path, ".")
	for _, p := range parts[:len(parts)-1] {
		next, ok := m[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[p] = next
		}
		m = next
	}
	m[parts[len(parts)-1]] = v
}

// RoundTrip answers a request to the API or to the blob store.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	switch req.URL.Host {
	case "api.github.com":
		s.api(rec, req)
	case BlobHost:
		if req.Header.Get("Authorization") != "" {
			s.t.Errorf("the token is sent to %s", BlobHost)
		}
		s.blob(rec, req)
	default:
		s.t.Errorf("a request to %s", req.URL.Host)
		rec.WriteHeader(http.StatusTeapot)
	}
	resp := rec.Result()
	resp.Request = req
	return resp, nil
}

func (s *Server) blob(w http.ResponseWriter, req *http.Request) {
	for _, name := range slices.Sorted(maps.Keys(s.Artifacts)) {
		for i, data := range s.Artifacts[name] {
			if req.URL.Path == fmt.Sprintf("/%d", artifactID(name, i)) {
				w.Write(data)
				return
			}
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func artifactID(name string, i int) int { return 100*len(name) + i + 1 }

func (s *Server) api(w http.ResponseWriter, req *http.Request) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	route, params, err := s.router.FindRoute(req)
	if err != nil {
		s.t.Errorf("%s %s: %v", req.Method, req.URL, err)
		w.WriteHeader(http.StatusNotFound)
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
		s.t.Errorf("%s %s does not fit GitHub's description: %v", req.Method, req.URL, err)
	}
	record := Request{Method: req.Method, Path: req.URL.Path, Token: req.Header.Get("Authorization") != ""}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &record.Body); err != nil {
			s.t.Errorf("%s %s: %v", req.Method, req.URL, err)
		}
	}
	s.Requests = append(s.Requests, record)
	key := req.Method + " " + req.URL.Path
	s.seen[key]++
	if s.Fault != nil {
		if f := s.Fault(req.Method, req.URL.Path, s.seen[key]); f != nil {
			if f.After {
				s.answer(route, params, req, record.Body)
			}
			fail(w, f.Status, f.Header)
			return
		}
	}
	if s.ReadOnly && req.Method != http.MethodGet {
		fail(w, http.StatusForbidden, nil)
		return
	}
	status, header, out := s.answer(route, params, req, record.Body)
	if status == 0 {
		fail(w, http.StatusNotFound, nil)
		return
	}
	data := []byte{}
	if out != nil {
		data, err = json.Marshal(out)
		if err != nil {
			s.t.Fatal(err)
		}
		header.Set("Content-Type", "application/json; charset=utf-8")
	}
	if err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: header,
		Body: io.NopCloser(bytes.NewReader(data)), Options: in.Options}); err != nil {
		s.t.Errorf("the stand-in's answer to %s %s does not fit GitHub's description: %v", req.Method, req.URL, err)
	}
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	w.Write(data)
}

// fail writes an error as GitHub does.
func fail(w http.ResponseWriter, status int, header map[string]string) {
	for k, v := range header {
		w.Header().Set(k, v)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	message := http.StatusText(status)
	if status == http.StatusForbidden {
		message = "Resource not accessible by integration"
		if header["X-RateLimit-Remaining"] == "0" {
			message = "API rate limit exceeded for installation"
		}
	}
	fmt.Fprintf(w, `{"message":%q,"documentation_url":"https://docs.github.com/rest"}`, message)
}

// example is a copy of an example of the description.
func (s *Server) example(name string) any {
	data, err := json.Marshal(s.doc.Components.Examples[name].Value.Value)
	if err != nil {
		s.t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *Server) object(name string) map[string]any {
	switch v := s.example(name).(type) {
	case map[string]any:
		return v
	case []any:
		return v[0].(map[string]any)
	}
	s.t.Fatalf("example %s is no object", name)
	return nil
}

// answer carries a request out; status 0 is not found.
func (s *Server) answer(route *routers.Route, params map[string]string, req *http.Request, body map[string]any) (int, http.Header, any) {
	header := http.Header{}
	if params["owner"] != Owner || params["repo"] != Repo {
		return 0, header, nil
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(params[name], 10, 64)
		return n
	}
	switch route.Method + " " + strings.TrimPrefix(route.Path, "/repos/{owner}/{repo}") {
	case "GET /pulls":
		var out []any
		want := req.URL.Query().Get("head")
		if want == "" || want == s.Run.HeadOwner+":"+s.Run.Branch {
			p := s.object("pull-request-simple-items")
			s.fill(p)
			out = append(out, p)
		}
		return 200, header, append([]any{}, out...)
	case "GET /pulls/{pull_number}":
		if int(number("pull_number")) != s.Pull.Number {
			return 0, header, nil
		}
		p := s.object("pull-request")
		s.fill(p)
		return 200, header, p
	case "GET /pulls/{pull_number}/files":
		if int(number("pull_number")) != s.Pull.Number {
			return 0, header, nil
		}
		return 200, header, s.files(page(req, header, s.Files[:min(len(s.Files), 3000)]))
	case "GET /compare/{basehead}":
		c := s.object("commit-comparison")
		c["files"] = s.files(s.Files[:min(len(s.Files), 300)])
		return 200, header, c
	case "GET /issues/{issue_number}/comments":
		out := []any{}
		for _, c := range page(req, header, s.Comments) {
			out = append(out, s.comment(c))
		}
		return 200, header, out
	case "POST /issues/{issue_number}/comments":
		c := Comment{int64(1000 + len(s.Comments)), s.Login, body["body"].(string)}
		if len(c.Body) > 65536 {
			s.t.Errorf("a comment of %d bytes", len(c.Body))
		}
		s.Comments = append(s.Comments, c)
		return 201, header, s.comment(c)
	case "PATCH /issues/comments/{comment_id}":
		for i := range s.Comments {
			if c := &s.Comments[i]; c.ID == number("comment_id") {
				if c.Author != s.Login {
					s.t.Errorf("a comment of %s is edited", c.Author)
				}
				c.Body = body["body"].(string)
				return 200, header, s.comment(*c)
			}
		}
		return 0, header, nil
	case "POST /check-runs":
		s.Checks = append(s.Checks, body)
		if output, ok := body["output"].(map[string]any); ok {
			notes, _ := output["annotations"].([]any)
			if len(notes) > 50 || len(output["summary"].(string)) > 65535 {
				s.t.Errorf("a check run with %d annotations and a summary of %d bytes", len(notes), len(output["summary"].(string)))
			}
		}
		return 201, header, s.object("check-run-example-of-completed-conclusion")
	case "POST /code-scanning/sarifs":
		s.SARIF = append(s.SARIF, body)
		return 202, header, s.example("code-scanning-sarif-upload")
	case "GET /actions/runs/{run_id}":
		if number("run_id") != s.Run.ID {
			return 0, header, nil
		}
		r := s.object("workflow-run")
		for k, v := range map[string]any{"id": s.Run.ID, "event": s.Run.Event, "status": s.Run.Status, "conclusion": s.Run.Conclusion, "head_sha": s.Run.Head,
			"path": s.Run.Path, "head_branch": s.Run.Branch, "head_repository.id": s.Run.HeadRepo, "head_repository.owner.login": s.Run.HeadOwner, "repository.id": RepoID,
			"pull_requests": []any{}} {
			put(r, k, v)
		}
		return 200, header, r
	case "GET /actions/runs/{run_id}/artifacts":
		var out []any
		name := req.URL.Query().Get("name")
		for i, data := range s.Artifacts[name] {
			a := s.object("artifact-paginated")["artifacts"].([]any)[0].(map[string]any)
			a["id"], a["name"], a["size_in_bytes"], a["expired"] = artifactID(name, i), name, len(data), false
			out = append(out, a)
		}
		return 200, header, map[string]any{"total_count": len(out), "artifacts": append([]any{}, out...)}
	case "GET /actions/artifacts/{artifact_id}/{archive_format}":
		to := s.Redirect
		if to == "" {
			to = fmt.Sprintf("https://%s/%d", BlobHost, number("artifact_id"))
		}
		header.Set("Location", to)
		return 302, header, nil
	}
	s.t.Errorf("the stand-in has no answer to %s %s", route.Method, route.Path)
	return 0, header, nil
}

func (s *Server) fill(p map[string]any) {
	put(p, "requested_teams", []any{}) // the example's team lacks a required member
	put(p, "number", s.Pull.Number)
	put(p, "state", s.Pull.State)
	put(p, "head.sha", s.Pull.Head)
	put(p, "head.repo.id", s.Pull.HeadRepo)
	put(p, "base.repo.id", RepoID)
}

func (s *Server) files(in []File) []any {
	out := []any{}
	for _, f := range in {
		e := map[string]any{"sha": strings.Repeat("b", 40), "filename": f.Name, "status": "modified", "additions": 1, "deletions": 1, "changes": 2,
			"blob_url": "https://github.com/x", "raw_url": "https://github.com/x", "contents_url": "https://api.github.com/x"}
		if f.Status != "" {
			e["status"] = f.Status
		}
		if f.OldName != "" {
			e["previous_filename"] = f.OldName
		}
		if f.Patch != "" {
			e["patch"] = f.Patch
		}
		out = append(out, e)
	}
	return out
}

func (s *Server) comment(c Comment) map[string]any {
	e := s.object("issue-comment")
	e["id"], e["body"] = c.ID, c.Body
	put(e, "user.login", c.Author)
	return e
}

// page is one page of a list; the header gets the link to the next.
func page[T any](req *http.Request, header http.Header, all []T) []T {
	q := req.URL.Query()
	n, at := 30, 1
	if v, err := strconv.Atoi(q.Get("per_page")); err == nil {
		n = v
	}
	if v, err := strconv.Atoi(q.Get("page")); err == nil {
		at = v
	}
	from, to := min((at-1)*n, len(all)), min(at*n, len(all))
	if to < len(all) {
		q.Set("page", strconv.Itoa(at+1))
		header.Set("Link", fmt.Sprintf(`<%s>; rel="next"`, (&url.URL{Scheme: "https", Host: req.URL.Host, Path: req.URL.Path, RawQuery: q.Encode()}).String()))
	}
	return all[from:to]
}
