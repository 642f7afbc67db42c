package gate

import (
	"fmt"
	"time"

	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/hlo/eval"
)

// PolicyResult is what the policy file did in a run: its known issues and
// overrides are shown in every report while they last.
type PolicyResult struct {
	File        string           `json:"file"`
	KnownIssues []KnownIssueUse  `json:"known_issues"`
	Overrides   []OverrideUse    `json:"overrides"`
	Firing      *FiringShortfall `json:"firing,omitempty"`
}

// KnownIssueUse is a known issue and the findings of this run that it covers.
type KnownIssueUse struct {
	ID      string `json:"id"`
	Reason  string `json:"reason"`
	Expires string `json:"expires"`
	Scope   string `json:"scope"`
	// Expired rules have no effect.
	Expired  bool     `json:"expired"`
	Findings []string `json:"findings"`
}

// OverrideUse is an audited exception and the findings of this run that it
// lets through.
type OverrideUse struct {
	Reason   string   `json:"reason"`
	Person   string   `json:"person"`
	Expires  string   `json:"expires"`
	Scope    string   `json:"scope"`
	Expired  bool     `json:"expired"`
	Findings []string `json:"findings"`
}

// FiringShortfall says which minimum count of the policy was not reached.
type FiringShortfall struct {
	Pass  string `json:"pass"` // "" is all passes in focus together
	Want  int    `json:"want"`
	Cases int    `json:"cases"`
}

// subject is a finding as the policy's rules see it.
func (f *Finding) subject() policy.Subject {
	s := policy.Subject{Finding: f.ID, Cluster: f.Cluster, Class: string(f.Class), Case: f.Case, Instruction: f.Instruction}
	if f.Pass != nil {
		s.Pass = f.Pass.Name
	}
	if f.Location != nil {
		s.Opcode = f.Location.Opcode
	}
	return s
}

// applyPolicy takes the block from findings that the policy lets through, and
// says so. Expiry is by the date of the run.
func applyPolicy(p *policy.Policy, res *Result, now time.Time) {
	if p == nil {
		return
	}
	out := &PolicyResult{File: p.File, KnownIssues: []KnownIssueUse{}, Overrides: []OverrideUse{}}
	for _, k := range p.KnownIssues {
		out.KnownIssues = append(out.KnownIssues, KnownIssueUse{k.ID, k.Reason, k.Expires, k.Match.String(), policy.Expired(k.Expires, now), []string{}})
	}
	for _, o := range p.Overrides {
		out.Overrides = append(out.Overrides, OverrideUse{o.Reason, o.Person, o.Expires, o.Scope.String(), policy.Expired(o.Expires, now), []string{}})
	}
	for i := range res.Findings {
		f := &res.Findings[i]
		if !p.Blocks(string(f.Class)) && f.Blocking {
			f.Blocking = false
			f.Detail = appendDetail(f.Detail, fmt.Sprintf("not blocking: the policy does not block on %s", f.Class))
		}
		s := f.subject()
		if k := p.Known(s, now); k != nil {
			f.KnownIssue, f.Blocking = k.ID, false
			for j := range p.KnownIssues {
				if k == &p.KnownIssues[j] {
					out.KnownIssues[j].Findings = append(out.KnownIssues[j].Findings, f.ID)
				}
			}
		}
		if o := p.Overridden(s, now); o != nil && f.Blocking {
			f.Override, f.Blocking = o.Person+": "+o.Reason, false
			for j := range p.Overrides {
				if o == &p.Overrides[j] {
					out.Overrides[j].Findings = append(out.Overrides[j].Findings, f.ID)
				}
			}
		}
	}
	out.Firing = shortfall(p, res.Passes)
	res.Policy = out
}

// shortfall is the first minimum firing count that was not reached. Passes of
// the policy that are not in focus do not count.
func shortfall(p *policy.Policy, passes []PassResult) *FiringShortfall {
	if len(passes) == 0 {
		return nil
	}
	cases := 0
	for _, r := range passes {
		cases += r.Cases
		if want := p.Firing.Passes[r.Name]; r.Cases < want {
			return &FiringShortfall{r.Name, want, r.Cases}
		}
	}
	if cases < p.Firing.Default {
		return &FiringShortfall{"", p.Firing.Default, cases}
	}
	return nil
}

func (s *FiringShortfall) String() string {
	what := "the passes in focus"
	if s.Pass != "" {
		what = "pass " + s.Pass
	}
	return fmt.Sprintf("%s changed programs in %s, and the policy asks for %d", what, plural(s.Cases, "case"), s.Want)
}

// firm are the contested semantics that the policy does not contest.
func firm(p *policy.Policy) (out eval.Contest) {
	for _, k := range contests {
		if !p.Contests(k.name) {
			out |= k.bit
		}
	}
	return out
}

// sayPolicy adds the lines of the policy to the reasons.
func sayPolicy(res *Result, say func(string, ...any)) {
	p := res.Policy
	if p == nil {
		return
	}
	for _, k := range p.KnownIssues {
		switch {
		case k.Expired:
			say("known issue %s has expired on %s: it has no effect", k.ID, k.Expires)
		case len(k.Findings) > 0:
			say("%s of known issue %s (%s, until %s)", plural(len(k.Findings), "finding"), k.ID, k.Reason, k.Expires)
		}
	}
	for _, o := range p.Overrides {
		if o.Expired {
			say("the override by %s has expired on %s: it has no effect", o.Person, o.Expires)
			continue
		}
		say("override by %s until %s (%s): %s; it lets %s through", o.Person, o.Expires, o.Scope, o.Reason, plural(len(o.Findings), "finding"))
	}
}
