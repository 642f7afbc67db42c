package swarm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/swarm/checkout"
	"github.com/passgate/passgate/swarm/operation"
	"github.com/passgate/passgate/swarm/provider"
	"github.com/passgate/passgate/xla/builds"
)

// Schema names the version of the result format.
const Schema = "passgate/swarm/v1"

// Config are the settings of a swarm. Fields without a comment on their zero value
// are required.
type Config struct {
	// Provider gives replies; nil runs the built-in strategies.
	Provider provider.Provider
	Price    Price
	Limits   Limits
	Gate     *operation.Gate
	// Focus are the passes to stress, Passes the same as the registry has them.
	Focus  []gate.Focus
	Passes []passes.Focus
	// Platform of the trigger patterns, patterns.CPU or TPU.
	Platform string
	// Diff is the change, shown to stressors; "" for none.
	Diff string
	// Root is the source tree; nil for none: then nothing can be fixed.
	Root *checkout.Root
	// Build builds a patched copy of the tree; nil fixes nothing.
	Build *checkout.Build
	// OpenBuild makes a build of the plugin that Build leaves. Required with Build.
	OpenBuild func(ctx context.Context, path string) (*builds.Build, error)
	// Reports are to be turned into programs.
	Reports []Report
	// Cases are given programs: what is wrong with them is explained and fixed, and
	// the gate run of a fix has all of them.
	Cases []*fuzz.Case
	// Corpus are programs for the built-in search.
	Corpus []*fuzz.Case
	// Roles that work; nil is all.
	Roles []Role
	// Agents work at a time; 1 if 0.
	Agents int
	// Transcript takes JSON lines.
	Transcript io.Writer
	Secrets    *Secrets
	// Random is the source of marks.
	Random io.Reader
	Now    func() time.Time
	// TempDir is where patched copies are made.
	TempDir string
	// Say is told what happens, a line at a time; may be nil.
	Say func(string)
}

// Report is a bug report, a trace or a log.
type Report struct{ Name, Text string }

// Result is what a swarm found.
type Result struct {
	Schema string `json:"schema"`
	// Source says who gave the replies. Scripted is true where no model did.
	Source   string `json:"source"`
	Scripted bool   `json:"scripted"`
	Base     string `json:"base"`
	Head     string `json:"head"`
	// Programs ran without a finding.
	Programs int       `json:"programs"`
	Findings []*Record `json:"findings"`
	// Failed are tasks that ended without an accepted output.
	Failed []Failure `json:"failed"`
	// Risks are rewrites that stressors named.
	Risks  []NamedRisk    `json:"risks"`
	Tokens provider.Usage `json:"tokens"`
	Cost   float64        `json:"cost"`
	Steps  int            `json:"steps"`
}

// NamedRisk is a risk with the agent that named it.
type NamedRisk struct {
	Agent string `json:"agent"`
	Risk
}

// Failure is a task that ended without an accepted output.
type Failure struct {
	Agent  string `json:"agent"`
	Reason string `json:"reason"`
	// Limit is the kind of limit that ended it, "" if none did.
	Limit string `json:"limit,omitempty"`
	// GaveUp says that the agent itself had nothing to hand in.
	GaveUp bool `json:"gave_up,omitempty"`
}

// task is one piece of work for one agent.
type task struct {
	role Role
	// on is what it is about: a pass, a report, a case.
	on       string
	record   *Record
	focus    *gate.Focus
	report   string
	what     string // for reviewers: the role that is reviewed
	feedback string
	used     provider.Usage // of this task
	cost     float64
}

// name is "role/on", the name by which scripts know an agent.
func (t *task) name() string {
	if t.what != "" {
		return string(t.role) + "/" + t.what + "/" + t.on
	}
	return string(t.role) + "/" + t.on
}

func (t *task) log(s *swarm, e Event) {
	e.Agent, e.Role = t.name(), t.role
	if t.record != nil {
		e.Finding, e.Cluster = t.record.ID, t.record.Cluster
	}
	s.transcript.write(e)
}

// spend adds what a reply cost.
func (t *task) spend(s *swarm, u provider.Usage, cost float64) {
	add(&t.used, u)
	t.cost += cost
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if t.record != nil {
		add(&t.record.Tokens, u)
		t.record.Cost += cost
	}
	add(&s.result.Tokens, u)
	s.result.Cost += cost
	s.result.Steps++
}

func add(to *provider.Usage, u provider.Usage) {
	to.Input += u.Input
	to.Output += u.Output
	to.Estimated = to.Estimated || u.Estimated
}

type swarm struct {
	cfg        Config
	provider   provider.Provider
	price      Price
	limits     Limits
	gate       *operation.Gate
	root       *checkout.Root
	secrets    *Secrets
	now        func() time.Time
	transcript *transcript
	total      *account
	ledger     ledger
	result     *Result

	mu      sync.Mutex
	ready   *sync.Cond
	waiting []*task
	busy    map[string]bool // clusters that somebody works on
	active  int
	ended   error // the swarm's limit, or what the machine did to it
}

// builtin labels results of the strategies that need no model.
var builtin = provider.Label{Provider: "none", Model: "(built-in strategies, no model)"}

// Run works through the tasks. The result holds what was accepted, also with an
// error: a *LimitError of the swarm, an error of the provider that no other agent
// could escape, or ctx's.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	label := builtin
	if cfg.Provider != nil {
		label = cfg.Provider.Label()
	}
	s := &swarm{cfg: cfg, provider: cfg.Provider, price: cfg.Price, limits: cfg.Limits, gate: cfg.Gate, root: cfg.Root, secrets: cfg.Secrets, now: cfg.Now,
		transcript: &transcript{to: cfg.Transcript, now: cfg.Now, label: label, secrets: cfg.Secrets},
		total:      cfg.Limits.swarm(cfg.Now()), busy: map[string]bool{}}
	s.ready = sync.NewCond(&s.mu)
	s.result = &Result{Schema: Schema, Source: label.String(), Scripted: label.Scripted, Base: cfg.Gate.Config.Base.Spec.String(), Head: cfg.Gate.Config.Head.Spec.String(),
		Findings: []*Record{}, Failed: []Failure{}, Risks: []NamedRisk{}}
	if cfg.Limits.SwarmTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Limits.SwarmTime, &LimitError{"swarm", "time", cfg.Limits.SwarmTime.String()})
		defer cancel()
	}
	s.transcript.write(Event{Kind: "start"})
	for i := range cfg.Focus {
		s.push(&task{role: Stressor, on: cfg.Focus[i].Name, focus: &cfg.Focus[i]})
	}
	for _, r := range cfg.Reports {
		s.push(&task{role: Reproducer, on: r.Name, report: r.Text})
	}
	s.given(ctx)
	stop := context.AfterFunc(ctx, func() { s.mu.Lock(); s.ready.Broadcast(); s.mu.Unlock() })
	defer stop()
	var wg sync.WaitGroup
	for range max(1, cfg.Agents) {
		wg.Go(func() {
			for t := s.take(ctx); t != nil; t = s.take(ctx) {
				s.finish(ctx, t, s.work(ctx, t))
			}
		})
	}
	wg.Wait()
	for _, r := range s.ledger.records {
		if r.Patch != nil && r.Patch.dir != "" {
			os.RemoveAll(r.Patch.dir)
		}
		s.transcript.write(Event{Kind: "total", Finding: r.ID, Cluster: r.Cluster, Tokens: &r.Tokens, Cost: r.Cost})
	}
	s.result.Findings = append(s.result.Findings, s.ledger.records...)
	slices.SortFunc(s.result.Findings, func(a, b *Record) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.result.Failed, func(a, b Failure) int { return cmp.Compare(a.Agent, b.Agent) })
	slices.SortStableFunc(s.result.Risks, func(a, b NamedRisk) int { return cmp.Compare(a.Agent, b.Agent) })
	s.result.Programs = len(s.ledger.programs)
	s.transcript.write(Event{Kind: "end", Tokens: &s.result.Tokens, Cost: s.result.Cost})
	err := s.ended
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = s.transcript.err
	}
	return s.result, err
}

// given looks at the given cases: what is wrong with them is worked on.
func (s *swarm) given(ctx context.Context) {
	if !slices.ContainsFunc([]Role{Analyst, Fixer}, s.has) {
		return
	}
	for _, c := range s.cfg.Cases {
		r, why, err := s.gate.Reduce(ctx, c)
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			s.fail(Failure{Agent: c.Name, Reason: err.Error()})
		case r == nil:
			s.say("%s: %s", c.Name, why)
		default:
			s.found(&Record{Finding: r.Finding, Minimal: r.Minimal, c: c})
		}
	}
}

func (s *swarm) say(format string, args ...any) {
	if s.cfg.Say != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cfg.Say(s.secrets.Hide(visible(fmt.Sprintf(format, args...))))
	}
}

func (s *swarm) has(r Role) bool { return s.cfg.Roles == nil || slices.Contains(s.cfg.Roles, r) }

// push queues a task whose role works here.
func (s *swarm) push(t *task) {
	if !s.has(t.role) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, t)
	s.ready.Broadcast()
}

// take waits for a task on whose cluster nobody works; nil when all is done.
func (s *swarm) take(ctx context.Context) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if ctx.Err() != nil || s.ended != nil {
			return nil
		}
		for i, t := range s.waiting {
			if t.record != nil && s.busy[t.record.Cluster] {
				continue
			}
			s.waiting = slices.Delete(s.waiting, i, i+1)
			if t.record != nil {
				s.busy[t.record.Cluster] = true
			}
			s.active++
			return t
		}
		if s.active == 0 {
			s.ready.Broadcast()
			return nil
		}
		s.ready.Wait()
	}
}

// finish gives a task's cluster free and notes how it ended.
func (s *swarm) finish(ctx context.Context, t *task, err error) {
	if err != nil {
		f := Failure{Agent: t.name(), Reason: s.secrets.Hide(err.Error())}
		var limit *LimitError
		if errors.As(err, &limit) {
			f.Limit = limit.Kind
		}
		var gave *declined
		f.GaveUp = errors.As(err, &gave)
		s.fail(f)
		t.log(s, Event{Kind: "failed", Text: err.Error(), Error: true, Tokens: &t.used, Cost: t.cost})
		s.say("%s: %v", t.name(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	if t.record != nil {
		delete(s.busy, t.record.Cluster)
	}
	var limit *LimitError
	if errors.As(err, &limit) && limit.Scope == "swarm" && s.ended == nil {
		s.ended = limit
	}
	s.ready.Broadcast()
}

func (s *swarm) fail(f Failure) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.result.Failed = append(s.result.Failed, f)
}

// found shares a finding, and hands it on if its cluster is new.
func (s *swarm) found(r *Record) {
	if !s.ledger.add(r) {
		s.say("%s: the same defect again", r.Finding.Case)
		return
	}
	s.say("%s: %s, %s, %d instructions", r.Finding.Case, r.Finding.Class, r.Finding.Status, r.Finding.Instructions)
	switch {
	case s.has(Analyst):
		s.push(&task{role: Analyst, on: r.Finding.Case, record: r})
	default:
		s.fixable(r)
	}
}

// fixable queues a fix of a finding that ought to be fixed.
func (s *swarm) fixable(r *Record) {
	if s.cfg.Build == nil || s.root == nil || r.Finding.Status != gate.New {
		return
	}
	s.push(&task{role: Fixer, on: r.Finding.Case, record: r})
}

// work does one task.
func (s *swarm) work(ctx context.Context, t *task) error {
	if s.provider == nil {
		return s.strategy(ctx, t)
	}
	mark, err := newFence(s.cfg.Random)
	if err != nil {
		return err
	}
	switch t.role {
	case Stressor:
		prompt := fmt.Sprintf("Pass in focus: %s (%s).\n%s", t.focus.Name, t.focus.Reason, mark.data("the registry of passes", operation.Passes(t.focus.Name)))
		if s.cfg.Diff != "" {
			prompt += "\nThe change:\n" + mark.data("the diff", operation.Shorten(s.cfg.Diff, 32<<10))
		}
		return converse(ctx, s, t, s.tools(s.gate), mark, prompt, func(ctx context.Context, out Stress) error { return s.checkStress(ctx, t, out) })
	case Reproducer:
		return converse(ctx, s, t, s.tools(s.gate), mark, "The report:\n"+mark.data("a report", operation.Shorten(t.report, 48<<10)),
			func(ctx context.Context, out Reproduction) error { return s.checkReproduction(ctx, t, out) })
	case Analyst:
		return converse(ctx, s, t, s.tools(s.gate), mark, "The finding:\n"+s.about(mark, t.record)+"\nOther findings:\n"+mark.data("the gate", s.ledger.list()),
			func(ctx context.Context, out Explanation) error { return s.checkExplanation(ctx, t, out) })
	case Fixer:
		return converse(ctx, s, t, s.tools(s.gate), mark, "The finding:\n"+s.about(mark, t.record),
			func(ctx context.Context, out Fix) error { return s.checkFix(ctx, t, out) })
	case Reviewer:
		g, prompt := s.gate, "To refute: that the program below shows a fault and that no smaller one does.\n"
		switch Role(t.what) {
		case Analyst:
			prompt = "To refute: the explanation below.\n"
		case Fixer:
			g = s.gate.WithHead(t.record.Patch.build)
			prompt = "To refute: that this patch mends the finding below and breaks nothing. The tools' head is the fixed build.\n" + mark.data("a fixer", t.record.Patch.Diff) + "\n"
		}
		return converse(ctx, s, t, s.tools(g), mark, prompt+s.about(mark, t.record), func(ctx context.Context, out Review) error { return s.checkReview(ctx, t, out) })
	}
	return fmt.Errorf("no role %q", t.role)
}
