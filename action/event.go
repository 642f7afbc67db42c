package action

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Kind is the kind of an event.
type Kind string

const (
	PullRequest Kind = "pull_request"
	MergeGroup  Kind = "merge_group"
	Push        Kind = "push"
	Dispatch    Kind = "workflow_dispatch"
	Schedule    Kind = "schedule"
)

// Event is what a job needs of the event that started it.
type Event struct {
	Kind        Kind
	Owner, Repo string
	// Number of the pull request; 0 for other kinds.
	Number int
	// Head is the commit under test, Base the one before the change: the tip of
	// the target branch for a pull request. Base is "" where an event names no
	// change, as on a schedule or a new branch.
	Head, Base string
	// Fork says that the pull request's head lives in another repository, so
	// the job's token can only read.
	Fork  bool
	Draft bool
	// Attempt is 1, and more when a job is run again.
	Attempt int
	// RunID and RunURL name the workflow run; 0 and "" outside of one.
	RunID  int64
	RunURL string
	// Ref is the git reference for code scanning.
	Ref string
}

// EventError is an event that passgate cannot or will not run on.
type EventError struct{ Reason string }

func (e *EventError) Error() string { return e.Reason }

func eventErrorf(format string, args ...any) error {
	return &EventError{fmt.Sprintf(format, args...)}
}

// maxEvent caps the event's file. GitHub caps payloads at 25 MB
// (docs.github.com, "Webhook events and payloads").
const maxEvent = 25 << 20

var commit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// payload is the part of an event's payload that is read.
type payload struct {
	Action      string `json:"action"`
	Number      int    `json:"number"`
	PullRequest *struct {
		Number int       `json:"number"`
		Draft  bool      `json:"draft"`
		Head   branchRef `json:"head"`
		Base   branchRef `json:"base"`
	} `json:"pull_request"`
	MergeGroup *struct {
		HeadSHA string `json:"head_sha"`
		BaseSHA string `json:"base_sha"`
	} `json:"merge_group"`
	Before  string `json:"before"`
	After   string `json:"after"`
	Deleted bool   `json:"deleted"`
}

type branchRef struct {
	SHA  string `json:"sha"`
	Repo *struct {
		ID int64 `json:"id"`
	} `json:"repo"`
}

// ReadEvent reads the event of this job: names from the environment that the
// runner sets, the payload from r. It returns an *EventError for events that
// passgate does not run on.
func ReadEvent(env func(string) string, r io.Reader) (*Event, error) {
	e := &Event{Kind: Kind(env("GITHUB_EVENT_NAME")), Head: env("GITHUB_SHA"), Ref: env("GITHUB_REF"), Attempt: 1}
	if err := e.place(env); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxEvent+1))
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if len(data) > maxEvent {
		return nil, eventErrorf("the event's payload has more than %d bytes", maxEvent)
	}
	var p payload
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, eventErrorf("the event's payload is not what GitHub sends: %v", err)
	}
	if err := e.fill(&p); err != nil {
		return nil, err
	}
	if !commit.MatchString(e.Head) {
		return nil, eventErrorf("event %s names head commit %q; want 40 or 64 hex digits", e.Kind, e.Head)
	}
	if e.Base != "" && !commit.MatchString(e.Base) {
		return nil, eventErrorf("event %s names base commit %q; want 40 or 64 hex digits", e.Kind, e.Base)
	}
	return e, nil
}

// place fills in repository, attempt and run.
func (e *Event) place(env func(string) string) error {
	var ok bool
	e.Owner, e.Repo, ok = strings.Cut(env("GITHUB_REPOSITORY"), "/")
	if !ok || !repoName.MatchString(e.Owner) || !repoName.MatchString(e.Repo) {
		return eventErrorf("GITHUB_REPOSITORY is %q; want OWNER/NAME", env("GITHUB_REPOSITORY"))
	}
	for _, v := range []struct {
		name string
		into any
	}{{"GITHUB_RUN_ATTEMPT", &e.Attempt}, {"GITHUB_RUN_ID", &e.RunID}} {
		if s := env(v.name); s != "" {
			if _, err := fmt.Sscanf(s, "%d", v.into); err != nil {
				return eventErrorf("%s is %q; want a number", v.name, s)
			}
		}
	}
	if server := env("GITHUB_SERVER_URL"); server != "" && e.RunID != 0 {
		e.RunURL = fmt.Sprintf("%s/%s/%s/actions/runs/%d", server, e.Owner, e.Repo, e.RunID)
	}
	return nil
}

var repoName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

func (e *Event) fill(p *payload) error {
	switch e.Kind {
	case PullRequest:
		pr := p.PullRequest
		if pr == nil || pr.Number <= 0 || pr.Head.SHA == "" || pr.Base.SHA == "" {
			return eventErrorf("the payload of pull_request holds no pull request")
		}
		if p.Action == "closed" {
			return eventErrorf("the pull request is closed: take `closed` out of the workflow's types")
		}
		e.Number, e.Draft, e.Head, e.Base = pr.Number, pr.Draft, pr.Head.SHA, pr.Base.SHA
		// A deleted head repository is null, and not ours.
		e.Fork = pr.Head.Repo == nil || pr.Base.Repo == nil || pr.Head.Repo.ID != pr.Base.Repo.ID
		e.Ref = fmt.Sprintf("refs/pull/%d/head", e.Number)
	case MergeGroup:
		if p.MergeGroup == nil {
			return eventErrorf("the payload of merge_group holds no merge group")
		}
		e.Head, e.Base = p.MergeGroup.HeadSHA, p.MergeGroup.BaseSHA
	case Push:
		if p.Deleted {
			return eventErrorf("the push deletes a branch: nothing to test")
		}
		e.Head, e.Base = p.After, p.Before
		if strings.Trim(e.Base, "0") == "" {
			e.Base = "" // a new branch
		}
	case Dispatch, Schedule:
	case "pull_request_target":
		return eventErrorf("passgate does not run on pull_request_target: it would run a pull request's code with secrets; use pull_request and `passgate action publish`")
	default:
		return eventErrorf("passgate does not run on %q; want pull_request, merge_group, push, workflow_dispatch or schedule", e.Kind)
	}
	return nil
}
