package legal

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Config are the settings of a run; all but Workers and Progress are required.
type Config struct {
	Build    *builds.Build
	Runner   gate.Runner
	Now      func() time.Time
	Seed     uint64
	Workers  int
	Progress func(gate.Progress)
}

// Outcome is what the gate said of one change.
type Outcome struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Differing elements have other bits on head, over all input streams.
	Differing int64 `json:"differing"`
	// Rule, Bound and Seen are those of the element that came nearest to its
	// bound (see gate.LegalDifference); "" if no bit differs.
	Rule  string  `json:"rule,omitempty"`
	Bound float64 `json:"bound,omitempty"`
	Seen  float64 `json:"seen,omitempty"`
	// Blocked: the gate took the change for a fault, or would not judge it.
	Blocked bool `json:"blocked"`
	// Faults are findings in the build itself: it breaks a declared budget
	// without any change.
	Faults []string `json:"faults,omitempty"`
	Detail string   `json:"detail,omitempty"`
}

// Result is a run of the pack.
type Result struct {
	Build    string       `json:"build"`
	Blocks   int          `json:"blocks"`
	Changed  int          `json:"changed"` // changes that show in the bits
	Skipped  int          `json:"skipped"` // changes that were not judged: the run was interrupted
	Outcomes []Outcome    `json:"outcomes"`
	Gate     *gate.Result `json:"-"`
}

// substitute is a Runner that gives head the changed programs and options.
type substitute struct {
	gate.Runner
	head    string // id
	build   *builds.Build
	after   map[[32]byte][]byte
	options map[[32]byte]map[string]string
}

func (s *substitute) Describe(ctx context.Context, b *builds.Build) (worker.Info, error) {
	return s.Runner.Describe(ctx, s.real(b))
}

func (s *substitute) Do(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return s.Runner.Do(ctx, s.real(b), s.request(b, r))
}

func (s *substitute) DoFresh(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return s.Runner.DoFresh(ctx, s.real(b), s.request(b, r))
}

// real is the build behind both sides, with the gate's environment.
func (s *substitute) real(b *builds.Build) *builds.Build {
	out := *s.build
	out.Env = b.Env
	return &out
}

func (s *substitute) request(b *builds.Build, r worker.Request) worker.Request {
	if b.ID != s.head {
		return r
	}
	key := sha256.Sum256(r.Program)
	if o := s.options[key]; o != nil {
		r.Options = maps.Clone(r.Options)
		if r.Options == nil {
			r.Options = map[string]string{}
		}
		maps.Copy(r.Options, o)
	}
	if p := s.after[key]; p != nil {
		r.Program = p
	}
	return r
}

// program is the bytes in which the gate hands a module to a build.
func program(m *hlo.Module) ([]byte, error) {
	p, err := m.ToProto()
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(p)
}

// Run puts the changes through the whole gate: the build is base, and the build
// with the changes is head.
func Run(ctx context.Context, cfg Config, changes []Change) (*Result, error) {
	head := *cfg.Build
	head.Spec.Text = cfg.Build.Spec.Text + " with legal changes"
	head.ID = fmt.Sprintf("legal-changes:%x", sha256.Sum256([]byte(cfg.Build.ID)))
	s := &substitute{Runner: cfg.Runner, head: head.ID, build: cfg.Build, after: map[[32]byte][]byte{}, options: map[[32]byte]map[string]string{}}
	var cases []*fuzz.Case
	for _, c := range changes {
		before, err := program(c.Before.Module)
		if err != nil {
			return nil, err
		}
		key := sha256.Sum256(before)
		if s.options[key] = c.Options; c.After != nil {
			if s.after[key], err = program(c.After); err != nil {
				return nil, err
			}
		}
		cases = append(cases, c.Before)
	}
	g, err := gate.Run(ctx, gate.Config{Base: cfg.Build, Head: &head, Cases: cases, Runner: s, Now: cfg.Now, Seed: cfg.Seed, Workers: cfg.Workers, Progress: cfg.Progress})
	if err != nil {
		return nil, err
	}
	out := &Result{Build: cfg.Build.Spec.Text, Gate: g}
	for i, c := range changes {
		if g.Cases[i].Outcome == gate.CaseSkipped {
			out.Skipped++
			continue
		}
		o := outcome(c, g, &g.Cases[i])
		if o.Blocked {
			out.Blocks++
		}
		if o.Differing > 0 {
			out.Changed++
		}
		out.Outcomes = append(out.Outcomes, o)
	}
	return out, nil
}

func outcome(c Change, g *gate.Result, k *gate.CaseResult) Outcome {
	o := Outcome{Kind: c.Kind, Name: c.Name, Detail: k.Detail}
	for _, l := range k.Legal {
		o.Differing += l.Differing
		if o.Rule == "" || l.Seen*o.Bound > o.Seen*l.Bound {
			o.Rule, o.Bound, o.Seen = l.Rule, l.Bound, l.Seen
		}
	}
	for _, f := range g.Findings {
		switch {
		case f.Case != c.Name || len(f.Witnesses) == 1 && f.Witnesses[0] == gate.WitnessStatistics && !f.Blocking:
		case f.Status == gate.New || f.Blocking:
			o.Blocked = true
			o.Detail = fmt.Sprintf("%s (%s) on %s inputs: %s", f.Class, f.Status, f.Stream, f.Detail)
		case f.Status != gate.Contested:
			// Both sides give the same value outside the legal set; where only a
			// bound speaks against it, the gate leaves open who is wrong.
			o.Faults = append(o.Faults, fmt.Sprintf("%s (%s) on %s inputs: %d of %d elements, first %s, legal %s", f.Class, f.Status, f.Stream, f.Wrong, f.Elements, f.First.Base, f.First.Legal))
		}
	}
	return o
}
