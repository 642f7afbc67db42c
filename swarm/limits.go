package swarm

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/passgate/passgate/swarm/provider"
)

// Limits bound agents and the swarm; 0 is no limit, except where it says so.
type Limits struct {
	// Tokens, input and output together, of one agent and of all.
	AgentTokens, SwarmTokens int
	// Cost in dollars, by Price.
	AgentCost, SwarmCost float64
	// Steps are replies of a model.
	AgentSteps, SwarmSteps int
	// Time from an agent's, or the swarm's, start. An agent's leaves out the checks
	// of what it handed in: a build may take long.
	AgentTime, SwarmTime time.Duration
	// Rounds is how often an output may be handed in: at least 1.
	Rounds int
	// Repeats is how often an agent may make the same call or say the same: at
	// least 1.
	Repeats int
	// ReplyTokens bounds one reply: at least 1.
	ReplyTokens int
}

// DefaultLimits are meant for one pull request: with them a swarm ends in an
// hour, after two million tokens at most.
func DefaultLimits() Limits {
	return Limits{
		AgentTokens: 300_000, SwarmTokens: 2_000_000, AgentSteps: 40, SwarmSteps: 400,
		AgentTime: 20 * time.Minute, SwarmTime: time.Hour, Rounds: 4, Repeats: 3, ReplyTokens: 8192,
	}
}

// Price is what a provider bills, in dollars per million tokens. The zero value
// is free of charge.
type Price struct{ Input, Output float64 }

func (p Price) of(u provider.Usage) float64 {
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output) / 1e6
}

// LimitError says which limit ended an agent or the swarm.
type LimitError struct {
	Scope string // "agent" or "swarm"
	Kind  string // "tokens", "cost", "steps", "time", "loop" or "rounds"
	Limit string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the %s's limit of %s is reached: %s", e.Scope, e.Kind, e.Limit)
}

// account counts what is used. A request is reserved before it is made, so that
// agents that ask at the same time cannot pass a limit together.
type account struct {
	scope   string
	tokens  int
	cost    float64
	steps   int
	started time.Time

	maxTokens, maxSteps int
	maxCost             float64
	maxTime             time.Duration

	mu sync.Mutex
}

func (l Limits) agent(now time.Time) *account {
	return &account{scope: "agent", started: now, maxTokens: l.AgentTokens, maxSteps: l.AgentSteps, maxCost: l.AgentCost, maxTime: l.AgentTime}
}

func (l Limits) swarm(now time.Time) *account {
	return &account{scope: "swarm", started: now, maxTokens: l.SwarmTokens, maxSteps: l.SwarmSteps, maxCost: l.SwarmCost, maxTime: l.SwarmTime}
}

// reserve counts a request at its worst, or refuses it.
func (a *account) reserve(now time.Time, u provider.Usage, p Price) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, cost := u.Input+u.Output, p.of(u)
	switch {
	case a.maxTime > 0 && now.Sub(a.started) >= a.maxTime:
		return &LimitError{a.scope, "time", a.maxTime.String()}
	case a.maxSteps > 0 && a.steps+1 > a.maxSteps:
		return &LimitError{a.scope, "steps", fmt.Sprint(a.maxSteps)}
	case a.maxTokens > 0 && a.tokens+n > a.maxTokens:
		return &LimitError{a.scope, "tokens", fmt.Sprintf("%d used, the next request may take %d, the limit is %d", a.tokens, n, a.maxTokens)}
	case a.maxCost > 0 && a.cost+cost > a.maxCost:
		return &LimitError{a.scope, "cost", fmt.Sprintf("$%.4f used, the next request may take $%.4f, the limit is $%.4f", a.cost, cost, a.maxCost)}
	}
	a.steps++
	a.tokens += n
	a.cost += cost
	return nil
}

// settle replaces a reservation by what was really used.
func (a *account) settle(reserved, used provider.Usage, p Price) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens += used.Input + used.Output - reserved.Input - reserved.Output
	a.cost += p.of(used) - p.of(reserved)
}

// exclude leaves out a time.
func (a *account) exclude(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started = a.started.Add(d)
}

// repeats counts what an agent did before.
type repeats struct {
	max  int
	seen map[[sha256.Size]byte]int
}

// again counts one more; an error says that it was once too often.
func (r *repeats) again(what string) error {
	key := sha256.Sum256([]byte(what))
	if r.seen[key]++; r.seen[key] > r.max {
		return &LimitError{"agent", "loop", fmt.Sprintf("the same for the %dth time", r.seen[key])}
	}
	return nil
}
