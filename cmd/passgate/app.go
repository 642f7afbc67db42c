package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/passgate/passgate/action"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// The exit codes of DESIGN section 6.
const (
	exitPass         = 0
	exitBlocked      = 1
	exitUsage        = 2
	exitInconclusive = 3
	exitNotExercised = 4
)

// app holds what commands touch of the world.
type app struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	now            func() time.Time
	// code is the exit code of a command that ends without an error.
	code int
	// scratch is for files that live shortly.
	scratch *scratch
}

// commands is the command line.
type commands struct {
	Check          checkCmd          `cmd:"" help:"The gate: base against head on a set of cases."`
	Fuzz           fuzzCmd           `cmd:"" help:"Explore for programs that builds get wrong, without a gate."`
	Serve          serveCmd          `cmd:"" help:"A release run on many machines: hand out the units and collect them."`
	Work           workCmd           `cmd:"" help:"Run the units that passgate serve hands out."`
	Release        releaseCmd        `cmd:"" help:"Compare a release candidate with the last release over a whole corpus; goes on after an interruption."`
	Replay         replayCmd         `cmd:"" help:"Run cases on builds and print the outputs next to the reference."`
	Bisect         bisectCmd         `cmd:"" help:"Name the guilty pass step and instruction of what a build gets wrong."`
	BisectVersions bisectVersionsCmd `cmd:"" name:"bisect-versions" help:"Find the version of a build in which a case began to go wrong, or stopped to."`
	Reduce         reduceCmd         `cmd:"" help:"Find the smallest program that shows the difference between two builds."`
	Eval           evalCmd           `cmd:"" help:"Run cases on the reference interpreter alone."`
	HLO            struct {
		Verify verifyCmd `cmd:"" help:"Parse and verify modules."`
		Print  printCmd  `cmd:"" help:"Parse modules and print them."`
	} `cmd:"" name:"hlo" help:"Parser, verifier and printer of HLO."`
	Builds struct {
		List    buildsListCmd    `cmd:"" help:"List the built-in catalogue."`
		Fetch   buildsFetchCmd   `cmd:"" help:"Put builds on this machine."`
		Inspect buildsInspectCmd `cmd:"" help:"Load a build and say what it is."`
	} `cmd:"" help:"The XLA builds."`
	Passes struct {
		List     passesListCmd     `cmd:"" help:"List XLA's passes."`
		Show     passesShowCmd     `cmd:"" help:"Show what is known about a pass."`
		Affected passesAffectedCmd `cmd:"" help:"Say which passes a change reaches."`
	} `cmd:"" help:"The registry of XLA's passes."`
	Corpus struct {
		Harvest harvestCmd     `cmd:"" help:"Take the HLO modules out of a source checkout."`
		Add     corpusAddCmd   `cmd:"" help:"Add XLA dumps of real jobs, scrubbed."`
		Scrub   corpusScrubCmd `cmd:"" help:"Scrub one dump or program and print it."`
		Merge   corpusMergeCmd `cmd:"" help:"Add the programs of other corpora."`
		Stats   corpusStatsCmd `cmd:"" help:"Say what is in a corpus."`
		Prune   corpusPruneCmd `cmd:"" help:"Run the programs on a build and keep a smallest set with all their rewrites."`
	} `cmd:"" help:"Collections of programs."`
	Selftest selftestCmd `cmd:"" help:"Plant wrong rewrites into a build and count what the gate sees."`
	Legal    legalCmd    `cmd:"" help:"Put legal changes into a build: the gate must let all of them through."`
	Policy   struct {
		Check policyCheckCmd `cmd:"" help:"Check policy files."`
	} `cmd:"" help:"The project's own rules, passgate.yaml."`
	Findings struct {
		List findingsListCmd `cmd:"" help:"List the findings of a store."`
		Set  findingsSetCmd  `cmd:"" help:"Say that a finding is triaged or reported."`
		Show findingsShowCmd `cmd:"" help:"Show one finding of a store."`
	} `cmd:"" help:"Findings that check remembers between runs (--store)."`
	UI     uiCmd     `cmd:"" name:"ui" help:"Show a store of findings in a browser."`
	Bench  benchCmd  `cmd:"" help:"Cases per second, against a fresh process per case."`
	Report reportCmd `cmd:"" help:"Render a result again."`
	Action struct {
		Run     actionRunCmd     `cmd:"" help:"The gate in a job of GitHub Actions: event to verdict, comment and check."`
		Publish actionPublishCmd `cmd:"" help:"Comment on a fork's pull request: the privileged half, on workflow_run."`
	} `cmd:"" help:"The pull request's side."`
	Swarm struct {
		Run       swarmRunCmd       `cmd:"" help:"Stress passes, reproduce reports, explain and fix what is found."`
		Stress    swarmStressCmd    `cmd:"" help:"Write programs for passes and run them through the gate."`
		Reproduce swarmReproduceCmd `cmd:"" help:"Turn reports, traces or logs into smallest programs."`
		Explain   swarmExplainCmd   `cmd:"" help:"Say which rewrite made a case wrong, and why."`
		Fix       swarmFixCmd       `cmd:"" help:"Draft patches that the gate accepts."`
		Publish   swarmPublishCmd   `cmd:"" help:"Let drafts out, under a person's name."`
	} `cmd:"" help:"Agents that propose programs, explanations and fixes; the gate decides."`
	MCP        mcpCmd        `cmd:"" name:"mcp" help:"Serve the gate's operations to a coding agent (Model Context Protocol, on standard input and output)."`
	BazelTest  bazelTestCmd  `cmd:"" hidden:"" help:"What the rule xla_pass_gate_test runs."`
	Doctor     doctorCmd     `cmd:"" help:"Say what this machine lacks."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Man        manCmd        `cmd:"" help:"Print the manual page."`
	Help       helpCmd       `cmd:"" hidden:""`
}

// helpCmd is `passgate help`.
type helpCmd struct {
	Command []string `arg:"" optional:""`
}

// usageError is a command line, a file or a setting that cannot be used.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "worker" {
		if err := worker.Main(ctx, os.Stdin, os.Stdout, args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "passgate worker:", err)
			return exitInconclusive
		}
		return exitPass
	}
	a := &app{ctx: ctx, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), now: time.Now}
	return a.execute(args)
}

func (a *app) execute(args []string) int {
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	a.scratch = &scratch{root: scratchRoot("/dev/shm", 1<<30)}
	defer a.scratch.remove()
	var cli commands
	exited := -1
	parser, err := kong.New(&cli,
		kong.Name("passgate"),
		kong.Description("A regression gate for XLA's compiler passes.\n\nExit codes: 0 pass, 1 blocked, 2 usage or bad input, 3 inconclusive (infrastructure), 4 none of the changed passes was exercised."),
		kong.Writers(a.stdout, a.stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Configuration(kong.JSON, configFiles(a.environ)...),
	)
	if err != nil {
		return a.fail(usagef("%v", err))
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0: // --help
		return exited
	case err != nil:
		return a.fail(&usageError{err})
	}
	if err := parsed.Run(a, parser); err != nil {
		return a.fail(err)
	}
	return a.code
}

// configFiles is the user's configuration: a JSON object of flag names.
func configFiles(environ []string) []string {
	env := environment(environ)
	switch {
	case env("XDG_CONFIG_HOME") != "":
		return []string{filepath.Join(env("XDG_CONFIG_HOME"), "passgate", "config.json")}
	case env("HOME") != "":
		return []string{filepath.Join(env("HOME"), ".config", "passgate", "config.json")}
	}
	return nil
}

func environment(environ []string) func(string) string {
	return func(name string) string {
		for _, kv := range environ {
			if k, v, ok := strings.Cut(kv, "="); ok && k == name {
				return v
			}
		}
		return ""
	}
}

// fail prints one line and gives the exit code of an error.
func (a *app) fail(err error) int {
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", " ")), " ")
	if isBadInput(err) {
		var syntax *hlo.SyntaxError
		var diff *passes.DiffError
		var rules *policy.Error
		if !errors.As(err, &syntax) && !errors.As(err, &diff) && !errors.As(err, &rules) { // those start with their place
			text = "passgate: " + text
		}
		fmt.Fprintln(a.stderr, text)
		return exitUsage
	}
	fmt.Fprintln(a.stderr, "passgate: "+text)
	return exitInconclusive
}

func isBadInput(err error) bool {
	var (
		usage  *usageError
		syntax *hlo.SyntaxError
		spec   *builds.SpecError
		config *gate.ConfigError
		terms  *builds.TermsError
		diff   *passes.DiffError
		rules  *policy.Error
		event  *action.EventError
	)
	return errors.As(err, &usage) || errors.As(err, &syntax) || errors.As(err, &spec) ||
		errors.As(err, &config) || errors.As(err, &terms) || errors.As(err, &diff) || errors.As(err, &rules) || errors.As(err, &event)
}

// readFile reads an input file; errors are usage errors.
func readFile(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	return data, nil
}

// fileError is the error of a file that the user named.
func fileError(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return usagef("%s: %v", name, path.Err)
	}
	return &usageError{err}
}

// line is one object of --json output: file or case, outcome, detail.
type line struct {
	File    string `json:"file,omitempty"`
	Case    string `json:"case,omitempty"`
	Build   string `json:"build,omitempty"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"`
}

// emit prints one JSON object on one line.
func (a *app) emit(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// buildFlags are the flags of commands that need builds.
type buildFlags struct {
	AcceptTerms []string `help:"Accept the terms of builds that have their own (libtpu)." env:"PASSGATE_ACCEPT_TERMS" placeholder:"NAME"`
}

// fetch puts builds on this machine. A plugin file that is missing or no
// plugin is bad input; everything else that goes wrong is infrastructure.
func (a *app) fetch(f buildFlags, specs ...string) ([]*builds.Build, error) {
	parsed, store, err := a.specs(specs, f.AcceptTerms)
	if err != nil {
		return nil, err
	}
	var out []*builds.Build
	for _, s := range parsed {
		b, err := store.Fetch(a.ctx, s)
		if err != nil {
			if s.Source == builds.File {
				return nil, &usageError{err}
			}
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// specs reads build specs and opens the store that has the builds; terms are
// those that are accepted.
func (a *app) specs(texts, terms []string) ([]builds.Spec, *builds.Store, error) {
	var parsed []builds.Spec
	for _, text := range texts {
		spec, err := builds.Parse(text)
		if err != nil {
			return nil, nil, err
		}
		parsed = append(parsed, spec)
	}
	accepted := map[string]bool{}
	for _, t := range terms {
		accepted[t] = true
	}
	store, err := builds.NewStore(builds.Config{Environ: a.environ, AcceptTerms: accepted, Progress: a.fetchProgress()})
	return parsed, store, err
}

// pool starts the worker pool: this program, run as `passgate worker`.
func (a *app) pool(workers int, timeout time.Duration) (*worker.Pool, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := a.scratch.dir() // builds leave files behind where they work
	if err != nil {
		return nil, err
	}
	return worker.NewPool(worker.Config{Command: []string{exe, "worker"}, Workers: workers, Timeout: timeout, TempDir: dir})
}

// runFlags are the flags of commands that run cases on builds.
type runFlags struct {
	buildFlags
	Seed    uint64        `help:"Seed of the generated inputs." env:"PASSGATE_SEED" default:"1"`
	Workers int           `help:"Cases to work on at a time; 0 is one per CPU." default:"0"`
	Timeout time.Duration `help:"Deadline of one request to a build." default:"60s"`
}

func (f runFlags) workers() int {
	if f.Workers > 0 {
		return f.Workers
	}
	return runtime.NumCPU()
}

func (f runFlags) check() error {
	if f.Workers < 0 {
		return usagef("--workers %d: want a number from 0", f.Workers)
	}
	if f.Timeout <= 0 {
		return usagef("--timeout %v: want a positive duration", f.Timeout)
	}
	return nil
}

func (helpCmd) Run() error { return nil }
