package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-github/v62/github"
)

// What is asked of GitHub, as narrow interfaces. *API is all of them.
type (
	// Pulls reads pull requests.
	Pulls interface {
		Pull(ctx context.Context, number int) (*Pull, error)
		// OpenPulls are the open pull requests from a branch OWNER:NAME.
		OpenPulls(ctx context.Context, head string) ([]Pull, error)
		// PullFiles are the changed files, at most 3,000; complete is false if
		// there are more.
		PullFiles(ctx context.Context, number int) (files []ChangedFile, complete bool, err error)
	}
	// Comparer compares commits.
	Comparer interface {
		// Compare are the files changed between two commits, at most 300.
		Compare(ctx context.Context, base, head string) (files []ChangedFile, complete bool, err error)
	}
	// Comments are a pull request's comments.
	Comments interface {
		Comments(ctx context.Context, number int) ([]Comment, error)
		CreateComment(ctx context.Context, number int, body string) error
		EditComment(ctx context.Context, id int64, body string) error
	}
	// Checks makes check runs.
	Checks interface {
		CreateCheck(ctx context.Context, c Check) error
	}
	// Scanning takes SARIF.
	Scanning interface {
		UploadSARIF(ctx context.Context, commit, ref, encoded string) error
	}
	// Artifacts are what workflow runs leave behind.
	Artifacts interface {
		Run(ctx context.Context, id int64) (*WorkflowRun, error)
		RunArtifacts(ctx context.Context, run int64, name string) ([]Artifact, error)
		// Download writes an artifact's archive; more than limit bytes are an
		// error.
		Download(ctx context.Context, id, limit int64, w io.Writer) error
	}
	// GitHub is all of it.
	GitHub interface {
		Pulls
		Comparer
		Comments
		Checks
		Scanning
		Artifacts
	}
)

// Pull is a pull request.
type Pull struct {
	Number             int
	Head               string // commit
	Open               bool
	HeadRepo, BaseRepo int64 // 0 if deleted
}

// ChangedFile is a changed file with its hunks as GitHub gives them; Patch is ""
// for large and binary files.
type ChangedFile struct {
	Name, OldName string
	Patch         string
	Removed       bool
}

// Comment is a comment with its author's login.
type Comment struct {
	ID     int64
	Author string
	Body   string
}

// Check is a finished check run.
type Check struct {
	Name       string
	Head       string // commit
	Conclusion string // success, failure, cancelled, action_required
	Title      string
	Summary    string
	DetailsURL string
	Notes      []Note
}

// Note is an annotation.
type Note struct {
	File    string
	Line    int
	Level   string // failure, warning, notice
	Title   string
	Message string
}

// WorkflowRun is a run of a workflow.
type WorkflowRun struct {
	ID         int64
	Event      string
	Status     string
	Conclusion string
	Head       string // commit
	Branch     string
	HeadOwner  string
	HeadRepo   int64
	BaseRepo   int64
	Path       string
	URL        string
	Attempt    int
}

// Artifact is one artifact of a run.
type Artifact struct {
	ID      int64
	Size    int64
	Expired bool
}

// API is GitHub behind its REST API.
type API struct {
	client      *github.Client
	owner, repo string
	// artifactHost refuses hosts that Download must not follow a redirect to.
	artifactHost func(*url.URL) error
	plain        *http.Client
}

// NewAPI is the API of a repository. base is the API's root, such as
// GITHUB_API_URL; transport carries every request.
func NewAPI(transport http.RoundTripper, base, token, owner, repo string) (*API, error) {
	u, err := url.Parse(strings.TrimSuffix(base, "/") + "/")
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("API address %q: want https://HOST", base)
	}
	c := github.NewClient(&http.Client{Transport: transport})
	if token != "" {
		c = c.WithAuthToken(token)
	}
	c.BaseURL = u
	return &API{client: c, owner: owner, repo: repo, artifactHost: publicHost, plain: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}, nil
}

// Denied reports whether an error says that the token may not.
func Denied(err error) bool {
	var e *github.ErrorResponse
	return errors.As(err, &e) && e.Response != nil && (e.Response.StatusCode == http.StatusForbidden || e.Response.StatusCode == http.StatusUnauthorized || e.Response.StatusCode == http.StatusNotFound)
}

func (a *API) Pull(ctx context.Context, number int) (*Pull, error) {
	p, _, err := a.client.PullRequests.Get(ctx, a.owner, a.repo, number)
	if err != nil {
		return nil, err
	}
	return pullOf(p), nil
}

func pullOf(p *github.PullRequest) *Pull {
	return &Pull{Number: p.GetNumber(), Head: p.GetHead().GetSHA(), Open: p.GetState() == "open",
		HeadRepo: p.GetHead().GetRepo().GetID(), BaseRepo: p.GetBase().GetRepo().GetID()}
}

func (a *API) OpenPulls(ctx context.Context, head string) ([]Pull, error) {
	var out []Pull
	o := &github.PullRequestListOptions{State: "open", Head: head, ListOptions: github.ListOptions{PerPage: 100}}
	for range 10 {
		page, resp, err := a.client.PullRequests.List(ctx, a.owner, a.repo, o)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			out = append(out, *pullOf(p))
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		o.Page = resp.NextPage
	}
	return nil, fmt.Errorf("more than 1000 open pull requests from %s", head)
}

// maxFiles is what GitHub lists of a pull request's files
// (docs.github.com/rest/pulls, "List pull requests files").
const maxFiles = 3000

func (a *API) PullFiles(ctx context.Context, number int) ([]ChangedFile, bool, error) {
	var out []ChangedFile
	o := &github.ListOptions{PerPage: 100}
	for {
		page, resp, err := a.client.PullRequests.ListFiles(ctx, a.owner, a.repo, number, o)
		if err != nil {
			return nil, false, err
		}
		out = append(out, changed(page)...)
		if resp.NextPage == 0 || len(out) >= maxFiles {
			return out, len(out) < maxFiles, nil
		}
		o.Page = resp.NextPage
	}
}

// maxCompared is what GitHub lists of a comparison's files
// (docs.github.com/rest/commits, "Compare two commits").
const maxCompared = 300

func (a *API) Compare(ctx context.Context, base, head string) ([]ChangedFile, bool, error) {
	c, _, err := a.client.Repositories.CompareCommits(ctx, a.owner, a.repo, base, head, &github.ListOptions{PerPage: 100})
	if err != nil {
		return nil, false, err
	}
	return changed(c.Files), len(c.Files) < maxCompared, nil
}

func changed(in []*github.CommitFile) []ChangedFile {
	var out []ChangedFile
	for _, f := range in {
		out = append(out, ChangedFile{Name: f.GetFilename(), OldName: f.GetPreviousFilename(), Patch: f.GetPatch(), Removed: f.GetStatus() == "removed"})
	}
	return out
}

// maxComments bounds the search for our comment.
const maxComments = 5000

func (a *API) Comments(ctx context.Context, number int) ([]Comment, error) {
	var out []Comment
	o := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		page, resp, err := a.client.Issues.ListComments(ctx, a.owner, a.repo, number, o)
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			out = append(out, Comment{c.GetID(), c.GetUser().GetLogin(), c.GetBody()})
		}
		if resp.NextPage == 0 || len(out) >= maxComments {
			return out, nil
		}
		o.Page = resp.NextPage
	}
}

func (a *API) CreateComment(ctx context.Context, number int, body string) error {
	_, _, err := a.client.Issues.CreateComment(ctx, a.owner, a.repo, number, &github.IssueComment{Body: &body})
	return err
}

func (a *API) EditComment(ctx context.Context, id int64, body string) error {
	_, _, err := a.client.Issues.EditComment(ctx, a.owner, a.repo, id, &github.IssueComment{Body: &body})
	return err
}

func (a *API) CreateCheck(ctx context.Context, c Check) error {
	o := github.CreateCheckRunOptions{Name: c.Name, HeadSHA: c.Head, Status: github.String("completed"), Conclusion: &c.Conclusion,
		Output: &github.CheckRunOutput{Title: &c.Title, Summary: &c.Summary}}
	if c.DetailsURL != "" {
		o.DetailsURL = &c.DetailsURL
	}
	for _, n := range c.Notes {
		o.Output.Annotations = append(o.Output.Annotations, &github.CheckRunAnnotation{Path: &n.File, StartLine: &n.Line, EndLine: &n.Line,
			AnnotationLevel: &n.Level, Title: &n.Title, Message: &n.Message})
	}
	_, _, err := a.client.Checks.CreateCheckRun(ctx, a.owner, a.repo, o)
	return err
}

func (a *API) UploadSARIF(ctx context.Context, commit, ref, encoded string) error {
	_, _, err := a.client.CodeScanning.UploadSarif(ctx, a.owner, a.repo, &github.SarifAnalysis{CommitSHA: &commit, Ref: &ref, Sarif: &encoded, ToolName: github.String("passgate")})
	var accepted *github.AcceptedError
	if errors.As(err, &accepted) { // 202 is the answer to expect
		return nil
	}
	return err
}

func (a *API) Run(ctx context.Context, id int64) (*WorkflowRun, error) {
	var r struct {
		github.WorkflowRun
		Path string `json:"path"` // go-github v62 has no field for it
	}
	if err := a.get(ctx, fmt.Sprintf("repos/%s/%s/actions/runs/%d", a.owner, a.repo, id), &r); err != nil {
		return nil, err
	}
	return &WorkflowRun{ID: r.GetID(), Event: r.GetEvent(), Status: r.GetStatus(), Conclusion: r.GetConclusion(), Head: r.GetHeadSHA(), Branch: r.GetHeadBranch(),
		HeadOwner: r.GetHeadRepository().GetOwner().GetLogin(), HeadRepo: r.GetHeadRepository().GetID(), BaseRepo: r.GetRepository().GetID(),
		Path: r.Path, URL: r.GetHTMLURL(), Attempt: r.GetRunAttempt()}, nil
}

// RunArtifacts asks for the one name: others cannot crowd it out of the page.
func (a *API) RunArtifacts(ctx context.Context, run int64, name string) ([]Artifact, error) {
	var list github.ArtifactList
	if err := a.get(ctx, fmt.Sprintf("repos/%s/%s/actions/runs/%d/artifacts?per_page=100&name=%s", a.owner, a.repo, run, url.QueryEscape(name)), &list); err != nil {
		return nil, err
	}
	var out []Artifact
	for _, x := range list.Artifacts {
		if x.GetName() == name {
			out = append(out, Artifact{x.GetID(), x.GetSizeInBytes(), x.GetExpired()})
		}
	}
	return out, nil
}

func (a *API) get(ctx context.Context, path string, into any) error {
	req, err := a.client.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	_, err = a.client.Do(ctx, req, into)
	return err
}

// Download follows the one redirect that the API gives, to a public https host
// and without our token.
func (a *API) Download(ctx context.Context, id, limit int64, w io.Writer) error {
	u, _, err := a.client.Actions.DownloadArtifact(ctx, a.owner, a.repo, id, 0)
	if err != nil {
		return err
	}
	if err := a.artifactHost(u); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := a.plain.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("artifact %d: the store answers %s", id, resp.Status)
	}
	n, err := io.Copy(w, io.LimitReader(resp.Body, limit+1))
	if err == nil && n > limit {
		err = &ArtifactError{fmt.Sprintf("the archive has more than %d bytes", limit)}
	}
	return err
}

// publicHost refuses addresses that a redirect must not reach: anything but
// https, and hosts that are addresses or local names, such as the metadata
// service of a cloud machine.
func publicHost(u *url.URL) error {
	host := u.Hostname()
	if u.Scheme != "https" || u.User != nil || net.ParseIP(host) != nil || !strings.Contains(host, ".") ||
		strings.HasSuffix(host, ".internal") || strings.HasSuffix(host, ".local") || strings.Trim(host, "0123456789.xXabcdefABCDEF") == "" {
		return &ArtifactError{fmt.Sprintf("the archive is said to be at %q; want https and a public host name", u.Scheme+"://"+u.Host)}
	}
	return nil
}
