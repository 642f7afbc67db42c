package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/swarm"
	"github.com/passgate/passgate/swarm/checkout"
	"github.com/passgate/passgate/swarm/operation"
	"github.com/passgate/passgate/swarm/provider"
	"github.com/passgate/passgate/xla/builds"
)

// modelFlags say who gives replies, and what that may cost.
type modelFlags struct {
	Provider    string        `help:"Who gives replies: none (built-in strategies), anthropic, openai (or any server that speaks its chat completions), gemini, script (stored replies). Keys come from ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY." enum:"none,anthropic,openai,gemini,script" default:"none" env:"PASSGATE_PROVIDER"`
	Model       string        `help:"Model, as the provider names it." env:"PASSGATE_MODEL" placeholder:"NAME"`
	URL         string        `help:"Root of the provider's API, such as http://localhost:11434 of a local server." env:"PASSGATE_MODEL_URL" placeholder:"URL"`
	Script      string        `help:"Stored replies, for --provider script." placeholder:"FILE"`
	Record      string        `help:"Write every reply to this file, as a script." placeholder:"FILE"`
	Price       string        `help:"What the provider bills, in dollars per million tokens of input and of output." placeholder:"IN,OUT"`
	MaxCost     float64       `help:"Most dollars that the swarm may cost, by --price; 0 is no limit." default:"0" placeholder:"DOLLARS"`
	AgentCost   float64       `help:"Most dollars that one agent may cost; 0 is no limit." default:"0" placeholder:"DOLLARS"`
	MaxTokens   int           `help:"Most tokens, input and output, of the swarm." default:"2000000"`
	AgentTokens int           `help:"Most tokens of one agent." default:"300000"`
	MaxSteps    int           `help:"Most replies of the swarm." default:"400"`
	AgentSteps  int           `help:"Most replies of one agent." default:"40"`
	MaxTime     time.Duration `help:"Longest time of the swarm." default:"1h"`
	AgentTime   time.Duration `help:"Longest time of one agent." default:"20m"`
	Rounds      int           `help:"How often an agent may hand in before it is given up." default:"4"`
	ReplyTokens int           `help:"Longest reply, in tokens." default:"8192"`
}

// swarmFlags are the flags of the commands that run agents.
type swarmFlags struct {
	runFlags
	passesFlags
	changeFlags
	modelFlags
	Base   string   `help:"Build before the change." required:"" placeholder:"SPEC"`
	Head   string   `help:"Build after the change." required:"" placeholder:"SPEC"`
	Corpus []string `help:"Corpora: programs that the built-in strategies try." sep:"none" placeholder:"DIR"`
	Probes int      `help:"Smaller programs to try for each finding." default:"400"`
	Agents int      `help:"Agents at work at a time." default:"2"`
	Out    string   `help:"Directory for drafts, result and transcript." default:"swarm-out" placeholder:"DIR"`
	JSON   bool     `help:"Print one JSON object per finding and per failed agent."`
}

// fixFlags say how a patch is built.
type fixFlags struct {
	BuildCommand string        `help:"Command that builds the plugin in a patched copy of the checkout. It runs code that a model wrote, as you." placeholder:"COMMAND"`
	BuildOutput  string        `help:"Where the plugin then is, in the copy." default:"plugin.so" placeholder:"PATH"`
	BuildTime    time.Duration `help:"Longest time of one build." default:"1h"`
	BuildEnv     []string      `help:"Further variables of the environment that the build command gets." placeholder:"NAME"`
}

type (
	swarmRunCmd struct {
		swarmFlags
		fixFlags
		Passes  []string `help:"Passes in focus, instead of a change." placeholder:"NAME" xor:"change"`
		Reports []string `name:"report" help:"Reports to reproduce." sep:"none" placeholder:"FILE"`
		Cases   []string `help:"Files or directories of cases: what is wrong with them is explained, and a fix must pass them all." sep:"none" placeholder:"DIR"`
	}
	swarmStressCmd struct {
		swarmFlags
		Passes []string `help:"Passes in focus, instead of a change." placeholder:"NAME" xor:"change"`
	}
	swarmReproduceCmd struct {
		swarmFlags
		Cases   []string `help:"Files or directories of cases that the built-in strategy tries." sep:"none" placeholder:"DIR"`
		Reports []string `arg:"" name:"report" help:"Bug reports, traces or logs."`
	}
	swarmExplainCmd struct {
		swarmFlags
		Cases []string `arg:"" name:"case" help:"Files or directories of cases."`
	}
	swarmFixCmd struct {
		swarmFlags
		fixFlags
		Cases []string `arg:"" name:"case" help:"Files or directories of cases."`
	}
	swarmPublishCmd struct {
		Name   string   `help:"The person who answers for what leaves this machine." required:""`
		To     string   `help:"Directory for what may leave." default:"published" placeholder:"DIR"`
		Drafts []string `arg:"" name:"draft" help:"Directories of drafts."`
	}
)

func (c *swarmRunCmd) Run(a *app) error {
	return a.swarm(&c.swarmFlags, &c.fixFlags, c.Passes, c.Reports, c.Cases, nil)
}

func (c *swarmStressCmd) Run(a *app) error {
	return a.swarm(&c.swarmFlags, nil, c.Passes, nil, nil, []swarm.Role{swarm.Stressor})
}

func (c *swarmReproduceCmd) Run(a *app) error {
	return a.swarm(&c.swarmFlags, nil, nil, c.Reports, c.Cases, []swarm.Role{swarm.Reproducer, swarm.Reviewer})
}

func (c *swarmExplainCmd) Run(a *app) error {
	return a.swarm(&c.swarmFlags, nil, nil, nil, c.Cases, []swarm.Role{swarm.Analyst, swarm.Reviewer})
}

func (c *swarmFixCmd) Run(a *app) error {
	if c.BuildCommand == "" || c.Checkout == "" {
		return usagef("want --checkout DIR and --build-command COMMAND: a fix counts only if it builds")
	}
	return a.swarm(&c.swarmFlags, &c.fixFlags, nil, nil, c.Cases, []swarm.Role{swarm.Analyst, swarm.Fixer, swarm.Reviewer})
}

func (c *swarmPublishCmd) Run(a *app) error {
	for _, d := range c.Drafts {
		to, err := swarm.Publish(d, c.To, c.Name, a.now())
		var bad *swarm.PublishError
		if errors.As(err, &bad) {
			return &usageError{err}
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s: published by %s\n", to, c.Name)
	}
	return nil
}

// swarm runs agents.
func (a *app) swarm(f *swarmFlags, fix *fixFlags, names, reports, files []string, roles []swarm.Role) error {
	if err := f.runFlags.check(); err != nil {
		return err
	}
	cfg := swarm.Config{Roles: roles, Agents: f.Agents, Random: rand.Reader, Now: a.now, Secrets: swarm.NewSecrets(a.environ),
		Say: func(s string) { fmt.Fprintln(a.stderr, oneLine(s)) }}
	if f.Agents < 1 || f.Probes < 1 {
		return usagef("--agents %d, --probes %d: want numbers from 1", f.Agents, f.Probes)
	}
	aim, err := f.targeted(a, names)
	if err != nil {
		return err
	}
	cfg.Focus, cfg.Passes = aim.focus, aim.changes.Focus
	var diff []byte
	switch {
	case f.Diff != "":
		diff, err = readFile(f.Diff)
	case f.From != "":
		diff, err = f.diffText(a)
	}
	if err != nil {
		return err
	}
	cfg.Diff = string(diff)
	for _, name := range reports {
		data, err := readFile(name)
		if err != nil {
			return err
		}
		base := filepath.Base(name)
		cfg.Reports = append(cfg.Reports, swarm.Report{Name: strings.TrimSuffix(base, filepath.Ext(base)), Text: strings.ToValidUTF8(string(data), "\uFFFD")})
	}
	if cfg.Cases, err = loadCases(files); err != nil {
		return err
	}
	if len(cfg.Focus)+len(cfg.Reports)+len(cfg.Cases) == 0 {
		return usagef("nothing to do: want a change or --passes to stress, reports to reproduce, or cases")
	}
	if cfg.Corpus, err = (exploreFlags{Corpus: f.Corpus}).seeds(a.ctx, aim, "", ""); err != nil {
		return err
	}
	if f.Checkout != "" {
		root, err := checkout.Open(f.Checkout)
		if err != nil {
			return usagef("--checkout %s: want the root directory of a checkout of XLA", f.Checkout)
		}
		defer root.Close()
		cfg.Root = root
	}
	if fix != nil && fix.BuildCommand != "" {
		if cfg.Root == nil {
			return usagef("--build-command: want --checkout DIR, the tree that it builds")
		}
		if fix.BuildTime <= 0 {
			return usagef("--build-time %v: want a positive duration", fix.BuildTime)
		}
		cfg.Build = &checkout.Build{Command: fix.BuildCommand, Output: fix.BuildOutput, Limit: fix.BuildTime, Environ: a.environ, More: fix.BuildEnv}
		cfg.OpenBuild = func(_ context.Context, path string) (*builds.Build, error) {
			found, err := a.fetch(f.buildFlags, path)
			if err != nil {
				return nil, err
			}
			return found[0], nil
		}
	}
	if err := checkOut(f.Out); err != nil {
		return err
	}
	closeRecord, err := f.modelFlags.fill(a, &cfg)
	if err != nil {
		return err
	}
	defer closeRecord()
	g, stop, err := a.gateOf(f.runFlags, f.passesFlags, f.Base, f.Head, f.Probes)
	if err != nil {
		return err
	}
	defer stop()
	cfg.Gate, cfg.Platform = g, platformOf(g.Config.Base.Spec)
	if err := os.MkdirAll(f.Out, 0o755); err != nil {
		return usagef("--out %s: %v", f.Out, err)
	}
	log, err := os.Create(filepath.Join(f.Out, "transcript.jsonl"))
	if err != nil {
		return usagef("--out %s: %v", f.Out, err)
	}
	defer log.Close()
	cfg.Transcript = log
	if cfg.TempDir, err = os.MkdirTemp("", "passgate-swarm-"); err != nil {
		return err
	}
	defer os.RemoveAll(cfg.TempDir)

	res, failed := swarm.Run(a.ctx, cfg)
	if err := writeSwarm(f.Out, res, g); err != nil {
		return err
	}
	if err := a.printSwarm(res, f.Out, f.JSON); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if slices.ContainsFunc(res.Failed, func(f swarm.Failure) bool { return !f.GaveUp }) {
		a.code = exitInconclusive
	}
	return nil
}

// gateOf makes the operations of a pair of builds, and a function that ends their
// workers.
func (a *app) gateOf(run runFlags, only passesFlags, base, head string, probes int) (*operation.Gate, func(), error) {
	found, err := a.fetch(run.buildFlags, base, head)
	if err != nil {
		return nil, nil, err
	}
	cfg := gate.Config{Base: found[0], Head: found[1], Now: a.now, Seed: run.Seed, Workers: run.workers(), Timeout: run.Timeout, Steps: gate.ReadSteps}
	if err := only.fill(a, run.buildFlags, &cfg); err != nil {
		return nil, nil, err
	}
	pool, err := a.pool(run.workers(), run.Timeout)
	if err != nil {
		return nil, nil, err
	}
	cfg.Runner = pool
	return &operation.Gate{Config: cfg, Probes: probes}, func() { pool.Close() }, nil
}

// attempts and busyWait bound how long a busy provider is waited for.
const (
	attempts = 5
	busyWait = time.Minute
)

// fill sets provider, price and limits, and gives a function for the end of the
// run.
func (f *modelFlags) fill(a *app, cfg *swarm.Config) (func(), error) {
	none := func() {}
	if f.MaxTokens < 0 || f.AgentTokens < 0 || f.MaxSteps < 0 || f.AgentSteps < 0 || f.Rounds < 1 || f.ReplyTokens < 1 || f.MaxTime < 0 || f.AgentTime < 0 || f.MaxCost < 0 || f.AgentCost < 0 {
		return none, usagef("a limit is below its least: want --rounds and --reply-tokens from 1, the others from 0")
	}
	cfg.Limits = swarm.Limits{AgentTokens: f.AgentTokens, SwarmTokens: f.MaxTokens, AgentSteps: f.AgentSteps, SwarmSteps: f.MaxSteps, AgentTime: f.AgentTime, SwarmTime: f.MaxTime,
		AgentCost: f.AgentCost, SwarmCost: f.MaxCost, Rounds: f.Rounds, Repeats: swarm.DefaultLimits().Repeats, ReplyTokens: f.ReplyTokens}
	if f.Price != "" {
		in, out, ok := strings.Cut(f.Price, ",")
		_, err1 := fmt.Sscan(in, &cfg.Price.Input)
		_, err2 := fmt.Sscan(out, &cfg.Price.Output)
		if !ok || err1 != nil || err2 != nil || cfg.Price.Input < 0 || cfg.Price.Output < 0 {
			return none, usagef("--price %s: want IN,OUT in dollars per million tokens", f.Price)
		}
	} else if f.MaxCost > 0 || f.AgentCost > 0 {
		return none, usagef("--max-cost and --agent-cost need --price IN,OUT: passgate knows no provider's prices")
	}
	if (f.Provider == "script") != (f.Script != "") {
		return none, usagef("--provider script and --script FILE go together")
	}
	env := environment(a.environ)
	remote := func(base, key string) (*provider.Client, error) {
		if f.URL != "" {
			base = f.URL
		}
		c, err := provider.NewClient(&http.Client{}, base, f.Model, env(key))
		if err != nil {
			return nil, usagef("--provider %s: %v", f.Provider, err)
		}
		if c.Key == "" && f.URL == "" {
			return nil, usagef("--provider %s: want a key in %s", f.Provider, key)
		}
		return c, nil
	}
	var p provider.Provider
	switch f.Provider {
	case "none":
		if f.Record != "" {
			return none, usagef("--record: the built-in strategies give no replies")
		}
		return none, nil
	case "script":
		data, err := readFile(f.Script)
		if err != nil {
			return none, err
		}
		s, err := provider.NewScript(f.Script, data)
		if err != nil {
			return none, &usageError{err}
		}
		p = s
	case "anthropic":
		c, err := remote(provider.AnthropicBase, "ANTHROPIC_API_KEY")
		if err != nil {
			return none, err
		}
		p = &provider.Anthropic{Client: c}
	case "openai":
		c, err := remote(provider.OpenAIBase, "OPENAI_API_KEY")
		if err != nil {
			return none, err
		}
		p = &provider.OpenAI{Client: c}
	case "gemini":
		c, err := remote(provider.GeminiBase, "GEMINI_API_KEY")
		if err != nil {
			return none, err
		}
		p = &provider.Gemini{Client: c}
	}
	p = &provider.Retry{Provider: p, Attempts: attempts, Longest: busyWait, Wait: func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	cfg.Provider = p
	if f.Record == "" {
		return none, nil
	}
	to, err := os.Create(f.Record)
	if err != nil {
		return none, usagef("--record %s: %v", f.Record, err)
	}
	cfg.Provider = &provider.Recorder{Provider: p, To: to, Hide: cfg.Secrets.Hide}
	return func() { to.Close() }, nil
}

// writeSwarm writes swarm.json and the drafts.
func writeSwarm(out string, res *swarm.Result, g *operation.Gate) error {
	data, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "swarm.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	side := func(b *builds.Build) gate.Build {
		return gate.Build{Spec: b.Spec.String(), ID: b.ID, Kind: string(b.Kind)}
	}
	return swarm.WriteDrafts(filepath.Join(out, "drafts"), res, side(g.Config.Base), side(g.Config.Head))
}

// swarmLine is a finding or a failed agent in --json output.
type swarmLine struct {
	line
	Finding  string `json:"finding,omitempty"`
	Source   string `json:"source"`
	Scripted bool   `json:"scripted"`
	Patch    bool   `json:"patch"`
	Minimal  bool   `json:"minimal"`
}

func (a *app) printSwarm(res *swarm.Result, out string, asJSON bool) error {
	if asJSON {
		for _, r := range res.Findings {
			if err := a.emit(swarmLine{line: line{Case: r.Finding.Case, Outcome: string(r.Finding.Status), Detail: r.Finding.Detail}, Finding: r.ID, Source: res.Source, Scripted: res.Scripted, Patch: r.Patch != nil, Minimal: r.Minimal}); err != nil {
				return err
			}
		}
		for _, f := range res.Failed {
			if err := a.emit(swarmLine{line: line{Case: f.Agent, Outcome: "failed", Detail: f.Reason}, Source: res.Source, Scripted: res.Scripted}); err != nil {
				return err
			}
		}
		return nil
	}
	w := a.stdout
	fmt.Fprintf(w, "replies: %s\n", res.Source)
	for _, r := range res.Findings {
		f := r.Finding
		size := fmt.Sprintf("%d instructions", f.Instructions)
		if r.Minimal {
			size += " (minimal)"
		}
		fmt.Fprintf(w, "%s %s: %s, %s, %s\n", r.ID, f.Case, f.Class, f.Status, size)
		if f.Pass != nil {
			fmt.Fprintf(w, "  by %s at %s\n", f.Pass, f.Instruction)
		}
		if e := r.Explanation; e != nil {
			fmt.Fprintf(w, "  explained: %s: %s\n", e.Verdict, shorten(oneLine(e.Why), 200))
		}
		if r.Patch != nil {
			fmt.Fprintf(w, "  patch accepted:\n")
			for _, c := range r.Patch.Checks {
				fmt.Fprintf(w, "    %s\n", oneLine(c))
			}
		}
		for _, o := range r.Objections {
			fmt.Fprintf(w, "  objection: %s\n", shorten(oneLine(o), 200))
		}
	}
	for _, f := range res.Failed {
		fmt.Fprintf(w, "failed: %s: %s\n", f.Agent, shorten(oneLine(f.Reason), 300))
	}
	about := ""
	if res.Tokens.Estimated {
		about = "about "
	}
	fmt.Fprintf(w, "%d findings, %d programs without one, %d agents failed; %d replies, %s%d tokens in, %d out, $%.2f\n",
		len(res.Findings), res.Programs, len(res.Failed), res.Steps, about, res.Tokens.Input, res.Tokens.Output, res.Cost)
	fmt.Fprintf(w, "drafts in %s; nothing leaves this machine without passgate swarm publish\n", filepath.Join(out, "drafts"))
	return nil
}
