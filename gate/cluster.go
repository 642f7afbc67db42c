package gate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
	"github.com/passgate/passgate/xla/builds"
)

// clusterProbes bounds the smaller and plainer programs that are tried for the
// key of one finding: each is compiled up to code generation by one build, a
// few milliseconds, and not run.
const clusterProbes = 60

// clusterInstructions bounds the programs that are looked at again for a key.
const clusterInstructions = 1000

// identify gives a finding the key of its defect, by where it comes from:
//
// A pass step that changed the meaning: the rewrite that it made at the place
// of the fault (triage.Rewrite), in the plainest program in which the same pass
// of the same build is still guilty. That program is looked for from the smallest
// failing program if one is known, else from the region that the step changed;
// it is compiled and not run, so every finding gets one, blocking or not.
//
// Behind the passes: what the kernel computes. A compiler that died in a pass:
// the pass and the message without its numbers; in code generation threads race
// for the message. Everything else: the form of the smallest program known.
//
// How far off the values are does not tell defects apart: one wrong rewrite
// gives values of every distance.
func (k *caseRun) identify(ctx context.Context, f *observedFinding) {
	key := triage.Key{Class: string(f.Class)}
	if f.Class == NumericDegradation {
		key.Class = string(Miscompile)
	}
	if f.Pass != nil {
		key.Pass = f.Pass.Name
	}
	switch {
	case f.Level == LevelHLO && f.Pass != nil:
		if r, ok := k.rewrite(ctx, f); ok {
			key.Signature, key.Form = r.After, r.Before
			f.Rewrite = &Rewrite{r.Before, r.After}
		} else {
			key.Signature = f.place()
			key.Form = k.form(f)
		}
	case (f.Class == Crash || f.Class == Hang) && f.Pass != nil && f.Pass.Name != codeGeneration:
		key.Signature = complaint(f.message())
	case f.kernel != "":
		key.Signature = f.kernel
	default:
		key.Signature = f.place()
		key.Form = k.form(f)
	}
	f.Cluster = key.ID()
	f.key = key
}

// smallest is the smallest program known that shows a finding.
func (k *caseRun) smallest(f *observedFinding) (p triage.Program, ok bool) {
	if f.reduced != nil {
		return triage.Program{Module: f.reduced.Module, Inputs: f.reduced.Inputs}, true
	}
	q, ok := k.questionOf(f.Stream)
	if !ok || k.c.Module == nil {
		return p, false
	}
	return triage.Program{Module: k.c.Module, Inputs: q.Inputs}, true
}

func (k *caseRun) form(f *observedFinding) string {
	p, ok := k.smallest(f)
	if !ok {
		return k.c.Text // StableHLO: the text itself
	}
	return triage.Form(p.Module)
}

// place is what is known of the place of a fault, without names.
func (f *Finding) place() string {
	if f.Location == nil {
		return ""
	}
	return f.Location.Opcode + " " + f.Location.AfterOpcode
}

// message is what a compiler said when it died.
func (f *Finding) message() string {
	if f.Status == Fixed {
		return f.First.Base
	}
	return f.First.Head
}

// particular is what differs between two deaths of one cause: numbers,
// addresses, names of instructions, quotations.
var particular = regexp.MustCompile(`%[A-Za-z0-9_.\-]+|0x[0-9a-fA-F]+|"[^"]*"|'[^']*'|\b[a-z0-9]+\[[0-9,<=]*\](\{[^}]*\})?|[0-9]+`)

func complaint(s string) string {
	return strings.Join(strings.Fields(particular.ReplaceAllString(s, "*")), " ")
}

// suspect is the place of a fault in a program: the states before and after, or
// what should have come out and what did.
type suspect struct {
	before, after *hlo.Module
	location      *triage.Location
	region        *triage.Region
}

// rewrite is what the guilty step of a finding does in the plainest program.
func (k *caseRun) rewrite(ctx context.Context, f *observedFinding) (r triage.Rewrite, ok bool) {
	p, ok := k.smallest(f)
	if !ok || p.Module.NumInstructions() > clusterInstructions {
		return r, false
	}
	s, ok := k.accuse(ctx, f, p)
	if !ok {
		return r, false
	}
	fails := func(ctx context.Context, p triage.Program) bool { return k.guilty(ctx, f, p) }
	// The instruction alone, or the region that changed, may be enough.
	for _, part := range s.parts(ctx, values(p.Inputs)) {
		if fails(ctx, part) {
			p = part
			break
		}
	}
	rewriteOf := func(ctx context.Context, p triage.Program) (triage.Rewrite, bool) { return k.rewriteOf(ctx, f, p) }
	p = triage.Plainest(ctx, p, fails, rewriteOf, clusterProbes)
	if r, ok = rewriteOf(ctx, p); !ok && s.location != nil {
		r, ok = triage.RewriteAt(s.before, s.after, s.location)
	}
	return r, ok && ctx.Err() == nil
}

// rewriteOf is what the guilty step of a finding does in a program.
func (k *caseRun) rewriteOf(ctx context.Context, f *observedFinding, p triage.Program) (triage.Rewrite, bool) {
	return k.run.rewrites.ask(k.question(f, p), func() (r triage.Rewrite, ok bool) {
		s, ok := k.accuse(ctx, f, p)
		if !ok || s.location == nil {
			return r, false
		}
		return triage.RewriteAt(s.before, s.after, s.location)
	})
}

// parts are programs that are smaller than the one that the suspect was found
// in, the smallest first.
func (s *suspect) parts(ctx context.Context, args []*eval.Value) []triage.Program {
	var out []triage.Program
	if s.location != nil {
		if p, ok := triage.Alone(ctx, s.before, s.location.Before, args, passOptions); ok {
			out = append(out, p)
		}
	}
	if s.region != nil {
		out = append(out, triage.Program{Module: s.region.Before, Inputs: s.region.Inputs})
	}
	return out
}

// other is the build that does right what a finding is about; nil if there is
// none.
func (k *caseRun) other(f *observedFinding) *builds.Build {
	other := k.run.cfg.Base
	if k.guiltySide(f) == other {
		other = k.run.cfg.Head
	}
	if f.raw != New && f.raw != Fixed || k.guiltySide(f) == other {
		return nil
	}
	return other
}

// right is what the same pass of the other build made of the same module, if
// that build is right: then it differs from the guilty state by the fault alone,
// and not by what the pass does rightly; nil if there is none.
func (k *caseRun) right(ctx context.Context, f *observedFinding, p triage.Program, t *triage.Trail, step int) *hlo.Module {
	other := k.other(f)
	if other == nil {
		return nil
	}
	trail, err := k.passTrailUnder(ctx, f.Flags, k.run.cfg.Runner, other, p.Module, false)
	if err != nil {
		return nil
	}
	return counterpart(t, trail, step)
}

// guilty reports whether the pass of a finding is guilty of a program, and not
// that of the build that does it right: that would be another fault.
func (k *caseRun) guilty(ctx context.Context, f *observedFinding, p triage.Program) bool {
	is, _ := k.run.suspects.ask(k.question(f, p), func() (bool, bool) {
		if _, _, i := k.guiltyStep(ctx, f, k.guiltySide(f), p); i < 0 || ctx.Err() != nil {
			return false, true
		}
		if other := k.other(f); other != nil {
			if _, _, i := k.guiltyStep(ctx, f, other, p); i >= 0 {
				return false, true
			}
		}
		return ctx.Err() == nil, true
	})
	return is
}

// guiltyStep is the step of the finding's pass that is guilty of a program on a
// build, -1 if there is none.
func (k *caseRun) guiltyStep(ctx context.Context, f *observedFinding, b *builds.Build, p triage.Program) (*triage.Trail, *triage.Validation, int) {
	t, err := k.passTrailUnder(ctx, f.Flags, k.run.cfg.Runner, b, p.Module, false)
	if err != nil {
		return nil, nil, -1
	}
	o := passOptions
	o.ExcessPrecision = f.Flags == DefaultFlags
	v, err := t.Validate(ctx, [][]*eval.Value{values(p.Inputs)}, o)
	if err != nil {
		return nil, nil, -1
	}
	return t, v, slices.IndexFunc(v.Steps, func(s triage.Step) bool {
		return s.Standing == triage.Guilty && s.Key.Pass == f.Pass.Name
	})
}

// accuse looks for the place of the fault in a program.
func (k *caseRun) accuse(ctx context.Context, f *observedFinding, p triage.Program) (s suspect, ok bool) {
	t, v, i := k.guiltyStep(ctx, f, k.guiltySide(f), p)
	if i < 0 {
		return s, false
	}
	side := passSide{trail: t, validation: v}
	before, after := side.around(i)
	if right := k.right(ctx, f, p, t, i); right != nil {
		if s.look(ctx, right, after, nil, values(p.Inputs)); s.location != nil {
			return s, true
		}
	}
	s.look(ctx, before, after, v.Steps[i].Regions, values(p.Inputs))
	return s, true
}

// look finds the place at which two states differ, in regions that are known or
// not.
func (s *suspect) look(ctx context.Context, before, after *hlo.Module, r *triage.RegionStep, args []*eval.Value) {
	s.before, s.after = before, after
	if r == nil || r.Location == nil {
		var err error
		if r, err = triage.ValidateRegions(ctx, before, after, args, passOptions, ""); err != nil {
			r = nil
		}
	}
	if r != nil && r.Location != nil {
		s.location, s.region = r.Location, r.Region
	} else if loc, err := triage.Localize(ctx, before, after, args, passOptions); err == nil {
		s.location = loc
	}
}

// answers remembers what was found out about programs: findings of one defect
// are led to the same plain ones. Whoever asks first, the answer is the same.
type answers[T any] struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]answered[T]
}

type answered[T any] struct {
	value T
	ok    bool
}

func (a *answers[T]) ask(question [sha256.Size]byte, find func() (T, bool)) (T, bool) {
	a.mu.Lock()
	was, seen := a.known[question]
	a.mu.Unlock()
	if seen {
		return was.value, was.ok
	}
	is := answered[T]{}
	is.value, is.ok = find()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[[sha256.Size]byte]answered[T]{}
	}
	a.known[question] = is
	return is.value, is.ok
}

// question tells apart what is asked of a program because of a finding.
func (k *caseRun) question(f *observedFinding, p triage.Program) [sha256.Size]byte {
	h := sha256.New()
	sum := triage.SumOf(p.Module)
	other := ""
	if o := k.other(f); o != nil {
		other = o.ID
	}
	fmt.Fprintf(h, "%q %q %q %q %x\n", k.guiltySide(f).ID, other, f.Flags, f.Pass.Name, sum[:])
	for _, l := range p.Inputs {
		fmt.Fprintf(h, "%s %d %x\n", l.Shape, len(l.Raw), l.Raw)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// countClusters adds to the first finding of each cluster the number of the
// others.
func countClusters(found []Finding) {
	first := map[string]int{}
	for i, f := range found {
		if at, ok := first[f.Cluster]; ok {
			found[at].Duplicates++
		} else {
			first[f.Cluster] = i
		}
	}
}
