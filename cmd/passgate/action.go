package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/passgate/passgate/action"
	"github.com/passgate/passgate/action/runner"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/gate/policy"
)

// githubFlags are the flags of both halves.
type githubFlags struct {
	Token     string `help:"Token for GitHub; none leaves comment, check and upload out." env:"PASSGATE_TOKEN" placeholder:"TOKEN"`
	Author    string `help:"Login that the token writes under." env:"PASSGATE_AUTHOR" default:"github-actions[bot]"`
	CheckName string `help:"Name of the check run with the annotations; empty for none. Not the job's name." env:"PASSGATE_CHECK_NAME"`
	Comment   bool   `help:"Comment on the pull request." env:"PASSGATE_COMMENT" default:"true" negatable:""`
	DryRun    bool   `help:"Print what would be posted instead of posting it."`
}

// actionRunCmd is the testing half.
type actionRunCmd struct {
	runFlags
	passesFlags
	githubFlags
	Base         string         `help:"Build before the change: SPEC, artifact:NAME[@RUN]/PATH, or empty with a build command." env:"PASSGATE_BASE" placeholder:"BUILD"`
	Head         string         `help:"Build after the change." env:"PASSGATE_HEAD" placeholder:"BUILD"`
	BuildCommand string         `help:"Shell command that builds a plugin in a checkout." env:"PASSGATE_BUILD_COMMAND" placeholder:"COMMAND"`
	BuildOutput  string         `help:"Where the build command leaves the plugin." env:"PASSGATE_BUILD_OUTPUT" placeholder:"PATH"`
	Cases        []string       `help:"Files or directories of cases." env:"PASSGATE_CASES" sep:"none" placeholder:"DIR"`
	Merge        []string       `help:"Instead of running the gate, make one result of those of all shards." env:"PASSGATE_MERGE" sep:"none" placeholder:"DIR"`
	Passes       []string       `help:"Passes in focus, instead of those that the event's diff reaches." env:"PASSGATE_PASSES" placeholder:"NAME"`
	Root         string         `help:"Folder of XLA's source tree in the repository." env:"PASSGATE_ROOT" placeholder:"DIR"`
	Budget       time.Duration  `help:"Start no further case after this time; 0 is no limit." env:"PASSGATE_BUDGET" default:"0s"`
	Probes       int            `help:"Smaller programs to try for each blocking finding." default:"400"`
	Shard        string         `help:"Run only every Nth case, from the Ith." env:"PASSGATE_SHARD" placeholder:"I/N"`
	SARIF        bool           `help:"Upload to code scanning." name:"sarif" env:"PASSGATE_SARIF"`
	FailOn       []gate.Verdict `help:"Verdicts that fail the job." env:"PASSGATE_FAIL_ON" default:"blocked,inconclusive,not-exercised" enum:"blocked,inconclusive,not-exercised"`
	Out          string         `help:"Directory for the reports." env:"PASSGATE_OUT" default:"passgate-out" placeholder:"DIR"`
}

// actionPublishCmd is the publishing half.
type actionPublishCmd struct {
	githubFlags
	Artifact string `help:"Name of the artifact that holds result.json." env:"PASSGATE_ARTIFACT" default:"passgate-result"`
	Workflow string `help:"Path of the testing half's workflow." required:"" env:"PASSGATE_WORKFLOW" placeholder:".github/workflows/NAME.yml"`
}

// leaveTime is how long a cancelled job goes on to say its verdict. GitHub
// kills a job 7.5 s after the first signal (docs.github.com, "Workflow
// cancellation reference").
const leaveTime = 6 * time.Second

func (c *actionRunCmd) Run(a *app) error {
	empty := func(s string) bool { return s == "" } // an input that is not given
	c.Cases, c.Merge = slices.DeleteFunc(c.Cases, empty), slices.DeleteFunc(c.Merge, empty)
	if len(c.Cases) == 0 && len(c.Merge) == 0 {
		return usagef("want --cases, or --merge and the results of the shards")
	}
	env := environment(a.environ)
	event, err := readEvent(env, action.ReadEvent)
	if err != nil {
		return err
	}
	gh, err := c.connect(a, event.Owner, event.Repo)
	if err != nil {
		return err
	}
	if c.DryRun {
		gh = &action.DryRun{Real: gh, Event: event, Out: a.stdout}
	}
	if err := checkOut(c.Out); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(env("RUNNER_TEMP"), "passgate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	checkout := action.Checkout{Dir: "."}
	makes := &action.Builds{Event: event, GitHub: gh, Git: checkout, Dir: temp, Command: c.BuildCommand, Output: c.BuildOutput, Environ: a.environ}
	cfg := action.Config{
		Event: event, Job: a.job(), GitHub: gh, Git: checkout,
		Check: func(ctx context.Context, change action.Change, log io.Writer) (*gate.Result, error) {
			return c.check(a, makes, ctx, change, log)
		},
		ExitCode: func(err error) int {
			if isBadInput(err) {
				return exitUsage
			}
			return exitInconclusive
		},
		Base: c.Base, Head: c.Head, Shard: c.Shard, Out: c.Out, Root: c.Root, Author: c.Author, CheckName: c.CheckName, Comment: c.Comment, SARIF: c.SARIF, FailOn: c.FailOn,
		Saying: func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.WithoutCancel(a.ctx), leaveTime)
		},
	}
	out, err := action.Run(a.ctx, cfg)
	if err != nil {
		return err
	}
	a.code = out.Code
	return nil
}

// check is the gate as `passgate check` runs it, with the job's secrets out of
// reach of what it starts and everything printed to the log.
func (c *actionRunCmd) check(a *app, makes *action.Builds, ctx context.Context, change action.Change, log io.Writer) (*gate.Result, error) {
	if len(c.Merge) > 0 {
		res, err := mergeShards(c.Merge, a.now)
		if err == nil {
			a.printResult(log, res, c.Out)
		}
		return res, err
	}
	inner := *a
	inner.ctx, inner.stdout, inner.stderr, inner.environ = ctx, log, log, action.Scrub(a.environ)
	k := checkCmd{runFlags: c.runFlags, passesFlags: c.passesFlags, Cases: c.Cases, Passes: c.Passes, Budget: c.Budget, Probes: c.Probes, Shard: c.Shard, Out: c.Out}
	if len(c.Passes) == 0 && change.Known && len(change.Files) > 0 {
		k.given = change.Files
	}
	var err error
	if k.Policy, err = c.policyFile(ctx, makes); err != nil {
		return nil, err
	}
	if k.Base, err = makes.Spec(ctx, action.BaseSide, c.Base, log); err != nil {
		return nil, err
	}
	if k.Head, err = makes.Spec(ctx, action.HeadSide, c.Head, log); err != nil {
		return nil, err
	}
	res, err := k.run(&inner)
	if err == nil {
		makes.Describe(action.BaseSide, &res.Base)
		makes.Describe(action.HeadSide, &res.Head)
		a.printResult(log, res, c.Out)
	}
	return res, err
}

// policyFile is the policy as it was before the change: a change must not write
// the rules that it is judged by. An event without a base runs on a commit that
// somebody has merged already, and takes what is checked out.
func (c *actionRunCmd) policyFile(ctx context.Context, makes *action.Builds) (string, error) {
	if makes.Event.Base == "" {
		return policy.FileName, nil
	}
	data, ok, err := makes.Git.File(ctx, makes.Event.Base, policy.FileName)
	if err != nil {
		return "", fmt.Errorf("%s before the change: %w", policy.FileName, err)
	}
	if !ok {
		return "", nil
	}
	name := filepath.Join(makes.Dir, policy.FileName)
	return name, os.WriteFile(name, data, 0o600)
}

func (c *actionPublishCmd) Run(a *app) error {
	event, err := readEvent(environment(a.environ), action.ReadPublish)
	if err != nil {
		return err
	}
	gh, err := c.connect(a, event.Owner, event.Repo)
	if err != nil {
		return err
	}
	if gh == nil {
		return usagef("publishing needs a token: set PASSGATE_TOKEN")
	}
	if c.DryRun {
		gh = &action.DryRun{Real: gh, Out: a.stdout}
	}
	_, err = action.Publish(a.ctx, action.PublishConfig{Event: event, Job: a.job(), GitHub: gh, Artifact: c.Artifact, Workflow: c.Workflow,
		Author: c.Author, CheckName: c.CheckName, Comment: c.Comment})
	return err
}

// readEvent reads the file that the runner wrote the event to.
func readEvent[T any](env func(string) string, read func(func(string) string, io.Reader) (T, error)) (T, error) {
	var none T
	name := env("GITHUB_EVENT_PATH")
	if name == "" {
		return none, usagef("GITHUB_EVENT_PATH is not set: this command runs in a job of GitHub Actions")
	}
	f, err := os.Open(name)
	if err != nil {
		return none, usagef("%v", err)
	}
	defer f.Close()
	return read(env, f)
}

func (a *app) job() *runner.Runner {
	return runner.New(runner.WithGetenv(environment(a.environ)), runner.WithWriter(a.stdout))
}

// longestWait is how long to wait for one rate limit.
const longestWait = 2 * time.Minute

// connect is nil without a token.
func (f *githubFlags) connect(a *app, owner, repo string) (action.GitHub, error) {
	if f.Token == "" {
		return nil, nil
	}
	address := environment(a.environ)("GITHUB_API_URL")
	if address == "" {
		address = "https://api.github.com"
	}
	api, err := action.NewAPI(&action.Retry{Next: http.DefaultTransport, Now: a.now, Longest: longestWait, Sleep: func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}}, address, strings.TrimSpace(f.Token), owner, repo)
	if err != nil {
		return nil, fmt.Errorf("GITHUB_API_URL: %w", err)
	}
	return api, nil
}
