package action

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/passgate/passgate/action/runner"
	"github.com/passgate/passgate/gate"
)

// PublishConfig are the settings of the publishing half.
type PublishConfig struct {
	// Owner, Repo and RunID come from the event (ReadPublish).
	Event  *PublishEvent
	Job    Job
	GitHub GitHub
	// Artifact is the name of the testing half's artifact.
	Artifact string
	// Workflow is the path of the testing half's workflow,
	// .github/workflows/NAME.yml; results of other workflows are refused.
	Workflow  string
	Author    string
	CheckName string
	Comment   bool
}

// PublishEvent is a workflow_run event: which run has ended.
type PublishEvent struct {
	Owner, Repo string
	RunID       int64
}

// ReadPublish reads a workflow_run event. Of the payload only the run's id is
// used; the rest is asked for again.
func ReadPublish(env func(string) string, r io.Reader) (*PublishEvent, error) {
	if k := env("GITHUB_EVENT_NAME"); k != "workflow_run" {
		return nil, eventErrorf("passgate action publish runs on workflow_run, not on %q", k)
	}
	var e Event
	if err := e.place(env); err != nil {
		return nil, err
	}
	var p struct {
		Action      string `json:"action"`
		WorkflowRun struct {
			ID int64 `json:"id"`
		} `json:"workflow_run"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxEvent)).Decode(&p); err != nil {
		return nil, eventErrorf("the event's payload is not what GitHub sends: %v", err)
	}
	if p.Action != "completed" || p.WorkflowRun.ID <= 0 {
		return nil, eventErrorf("want a workflow_run that is completed, got action %q", p.Action)
	}
	return &PublishEvent{e.Owner, e.Repo, p.WorkflowRun.ID}, nil
}

// Publish says what a testing half found: on the pull request that the run
// belongs to, by what GitHub says about the run, never by what the artifact
// says. A run without a trustworthy result is said too: no result is no pass.
func Publish(ctx context.Context, cfg PublishConfig) (*Outcome, error) {
	run, err := cfg.GitHub.Run(ctx, cfg.Event.RunID)
	if err != nil {
		return nil, fmt.Errorf("workflow run %d: %w", cfg.Event.RunID, err)
	}
	if run.Status != "completed" || run.ID != cfg.Event.RunID {
		return nil, eventErrorf("workflow run %d is %s, not completed", cfg.Event.RunID, run.Status)
	}
	if path, _, _ := strings.Cut(run.Path, "@"); path != cfg.Workflow {
		return nil, eventErrorf("workflow run %d is of %q, not of %s", run.ID, run.Path, cfg.Workflow)
	}
	if run.Event != string(PullRequest) {
		cfg.Job.Infof("nothing to publish: the run's event is %s, and its own job had a token", run.Event)
		return &Outcome{}, nil
	}
	pull, err := pullOfRun(ctx, cfg.GitHub, run)
	if err != nil {
		return nil, err
	}
	if pull == nil {
		cfg.Job.Infof("nothing to publish: no open pull request has head %s any more", run.Head)
		return &Outcome{}, nil
	}
	e := &Event{Kind: PullRequest, Owner: cfg.Event.Owner, Repo: cfg.Event.Repo, Number: pull.Number, Head: run.Head, RunID: run.ID, RunURL: run.URL, Attempt: run.Attempt}
	res, why := cfg.result(ctx, run, pull)
	if why != nil {
		res = lost("unknown", "unknown", why, run.Conclusion == "cancelled")
	}
	out := &Outcome{Result: res}
	if err := cfg.say(ctx, e, res, run.Conclusion == "cancelled"); err != nil {
		return nil, err
	}
	return out, nil
}

// pullOfRun finds the open pull request whose head is the run's head. A run of a
// fork does not name its pull request (docs.github.com, workflow_run), so it is
// looked for by branch; number and head commit are GitHub's own words.
func pullOfRun(ctx context.Context, gh GitHub, run *WorkflowRun) (*Pull, error) {
	if !commit.MatchString(run.Head) || run.HeadOwner == "" || run.Branch == "" {
		return nil, nil
	}
	all, err := gh.OpenPulls(ctx, run.HeadOwner+":"+run.Branch)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p Pull) bool {
		return p.Open && p.Head == run.Head && p.HeadRepo == run.HeadRepo && p.BaseRepo == run.BaseRepo
	})
	if i < 0 {
		return nil, nil
	}
	return &all[i], nil
}

// guarded are folders whose change lets a pull request write its own verdict.
var guarded = []string{".github/"}

// result is the testing half's result if it can be believed.
func (cfg *PublishConfig) result(ctx context.Context, run *WorkflowRun, pull *Pull) (*gate.Result, error) {
	files, complete, err := cfg.GitHub.PullFiles(ctx, pull.Number)
	if err != nil {
		return nil, fmt.Errorf("the changed files cannot be had: %w", err)
	}
	for _, f := range files {
		for _, dir := range guarded {
			if strings.HasPrefix(f.Name, dir) || strings.HasPrefix(f.OldName, dir) {
				return nil, fmt.Errorf("the pull request changes %s, which decides how it is tested: a maintainer must look and run the gate", f.Name)
			}
		}
	}
	if !complete {
		return nil, fmt.Errorf("the pull request changes more than %d files: a maintainer must look whether %s is among them", maxFiles, strings.Join(guarded, ", "))
	}
	found, err := cfg.GitHub.RunArtifacts(ctx, run.ID, cfg.Artifact)
	if err != nil {
		return nil, fmt.Errorf("the artifact cannot be had: %w", err)
	}
	if len(found) != 1 || found[0].Expired {
		return nil, fmt.Errorf("the testing half ended with %q and left %d artifacts %s", run.Conclusion, len(found), cfg.Artifact)
	}
	if found[0].Size > maxArchive {
		return nil, artifactErrorf("the archive has %d bytes, more than %d", found[0].Size, maxArchive)
	}
	var archive bytes.Buffer
	if err := cfg.GitHub.Download(ctx, found[0].ID, maxArchive, &archive); err != nil {
		return nil, err
	}
	res, err := OpenArtifact(archive.Bytes())
	if err != nil {
		return nil, err
	}
	// The job's own conclusion is GitHub's word.
	switch {
	case run.Conclusion == "success" && res.Verdict == gate.Blocked,
		run.Conclusion != "success" && res.Verdict == gate.Pass:
		return nil, artifactErrorf("it says %s, and the job ended with %q", res.Verdict, run.Conclusion)
	}
	return res, nil
}

// say comments and makes the check run. Unlike in the testing half, what cannot
// be said here is an error: saying it is the job.
func (cfg *PublishConfig) say(ctx context.Context, e *Event, r *gate.Result, interrupted bool) error {
	var failed []error
	if cfg.CheckName != "" {
		c, err := checkOf(cfg.CheckName, e, r, nil)
		if err == nil {
			if interrupted && r.Verdict == gate.Inconclusive {
				c.Conclusion = "cancelled"
			}
			err = cfg.GitHub.CreateCheck(ctx, c)
		}
		failed = append(failed, err)
	}
	if cfg.Comment {
		err := stick(ctx, cfg.GitHub, e, cfg.Author, r)
		if errors.Is(err, errSuperseded) {
			cfg.Job.Infof("no comment: %v", err)
			err = nil
		}
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	cfg.Job.Infof("published %s for pull request %d at %s", r.Verdict, e.Number, e.Head)
	if len(r.Reasons) > 0 && r.Verdict == gate.Inconclusive {
		cfg.Job.Warningf(runner.Place{}, "%s", r.Reasons[0])
	}
	return nil
}
