package reports

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/passgate/passgate/gate"
)

// tally counts findings. Every rendering takes its counts from here, so that
// they agree.
type tally struct {
	all, blocking int
	status        map[gate.Status]int
}

func tallyOf(r *gate.Result) tally {
	t := tally{all: len(r.Findings), status: map[gate.Status]int{}}
	for _, f := range r.Findings {
		t.status[f.Status]++
		if f.Blocking {
			t.blocking++
		}
	}
	return t
}

var statuses = []gate.Status{gate.New, gate.PreExisting, gate.Fixed, gate.Contested, gate.ReferenceDisputed}

// String is "5 findings: 2 new (1 blocks), 3 fixed".
func (t tally) String() string {
	if t.all == 0 {
		return "no findings"
	}
	var parts []string
	for _, s := range statuses {
		n := t.status[s]
		if n == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", n, s)
		if s == gate.New {
			part += fmt.Sprintf(" (%d blocking)", t.blocking)
		}
		parts = append(parts, part)
	}
	return many(t.all, "finding") + ": " + strings.Join(parts, ", ")
}

func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	switch {
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	case noun == "entry":
		return fmt.Sprintf("%d entries", n)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// group is the findings of one kind.
type group struct {
	pass   string
	class  gate.Class
	status string
	n      int
	first  *gate.Finding
}

// groups are findings by guilty pass, class and status, the largest first within
// what blocks.
func groups(findings []*gate.Finding) []group {
	type key struct {
		pass, class, status string
		blocking            bool
	}
	byKey := map[key]*group{}
	for _, f := range findings {
		k := key{culprit(f), string(f.Class), string(f.Status), f.Blocking}
		if byKey[k] == nil {
			status := string(f.Status)
			if f.Blocking {
				status += ", blocks"
			}
			byKey[k] = &group{pass: k.pass, class: f.Class, status: status, first: f}
		}
		byKey[k].n++
	}
	var out []group
	for _, k := range slices.SortedFunc(maps.Keys(byKey), func(a, b key) int {
		switch {
		case a.blocking != b.blocking && a.blocking:
			return -1
		case a.blocking != b.blocking:
			return 1
		case byKey[a].n != byKey[b].n:
			return byKey[b].n - byKey[a].n
		}
		return strings.Compare(a.pass+"\x00"+a.class+"\x00"+a.status, b.pass+"\x00"+b.class+"\x00"+b.status)
	}) {
		out = append(out, *byKey[k])
	}
	return out
}

// gravest are the findings in the order in which they are shown: what blocks,
// then what is new, then the rest, each as the result has it.
func gravest(r *gate.Result, keep func(*gate.Finding) bool) []*gate.Finding {
	var out []*gate.Finding
	for _, rank := range []func(*gate.Finding) bool{
		func(f *gate.Finding) bool { return f.Blocking },
		func(f *gate.Finding) bool { return !f.Blocking && f.Status == gate.New },
		func(f *gate.Finding) bool { return !f.Blocking && f.Status != gate.New },
	} {
		for i := range r.Findings {
			if f := &r.Findings[i]; rank(f) && keep(f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// untested lists what the run did not judge, one sentence each.
func untested(r *gate.Result) []string {
	t := r.Totals
	var out []string
	say := func(n int64, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(int64(t.Unsupported), "%s unsupported", many(t.Unsupported, "case"))
	say(int64(t.Rejected), "%s rejected by the builds", many(t.Rejected, "case"))
	say(int64(t.Skipped), "%s skipped", many(t.Skipped, "case"))
	say(int64(t.Infrastructure), "%s lost to the machine", many(t.Infrastructure, "case"))
	say(int64(t.PassesOnly), "%s not executed: only the pass steps were judged", many(t.PassesOnly, "case"))
	say(int64(t.SkippedStreams), "%s too long for the reference", many(t.SkippedStreams, "input stream"))
	say(t.UndecidedElements, "%d output elements have no legal set (undecided); base and head differ on %d of them", t.UndecidedElements, t.UndecidedDiffering)
	if r.Cut != nil {
		say(int64(r.Cut.Whole), "%s with undecided elements too large to be judged in pieces (--cut-limit 0 judges them)", many(r.Cut.Whole, "program"))
		say(int64(r.Cut.UnreachedSteps+r.Cut.UnreachedPieces), "in programs judged in pieces, %s (%s) and %s, not reached within the work limit (--cut-work 0 is none)",
			many(r.Cut.UnreachedSteps, "pass step"), strings.Join(r.Cut.UnreachedPasses, ", "), many(r.Cut.UnreachedPieces, "kernel"))
	}
	var silent []string
	for _, p := range r.Passes {
		if p.Fired == 0 {
			silent = append(silent, p.Name)
		}
	}
	if len(silent) > 0 {
		const shown = 12
		list := strings.Join(silent[:min(len(silent), shown)], ", ")
		if n := len(silent) - shown; n > 0 {
			list += fmt.Sprintf(" and %d more", n)
		}
		out = append(out, fmt.Sprintf("%s in focus never changed a program: %s", many(len(silent), "pass"), list))
	}
	out = append(out, r.Missing...)
	if r.Shard != "" {
		out = append(out, fmt.Sprintf("this is shard %s: the cases of the other shards", r.Shard))
	}
	for _, side := range []struct {
		name string
		b    *gate.Build
	}{{"base", &r.Base}, {"head", &r.Head}} {
		if len(side.b.Dropped) > 0 {
			out = append(out, fmt.Sprintf("%s does not know the flags %s", side.name, strings.Join(side.b.Dropped, ", ")))
		}
	}
	return out
}

// where says where the command of reproduce is to be run, and what its files are.
// quote makes foreign text harmless.
func where(r *gate.Result, quote func(string) string) string {
	out := "On Linux, with passgate (go install github.com/passgate/passgate/cmd/passgate@latest)"
	if !hasNew(r) {
		out += " and the cases of the run"
	} else if dir := dirOf(r); !filepath.IsAbs(dir) {
		out += fmt.Sprintf(", in the directory that holds %s: the one of the check or, for a CI job, one into which its artifact is unpacked as %s", quote(dir), quote(dir))
	}
	for _, b := range []*gate.Build{&r.Base, &r.Head} {
		if b.Source != "" {
			out += fmt.Sprintf("; %s is %s", quote(b.Spec), quote(b.Source))
		}
	}
	return out + ":"
}

// dirOf is the directory of the reports.
func dirOf(r *gate.Result) string { return cmp.Or(r.Dir, "passgate-out") }

func hasNew(r *gate.Result) bool {
	return slices.ContainsFunc(r.Findings, func(f gate.Finding) bool { return f.Status == gate.New })
}

// reproduce is the command that shows the new findings again, or the whole run
// if there are none.
func reproduce(r *gate.Result) string {
	cases := "CASES"
	if hasNew(r) {
		cases = shellQuote(filepath.Join(dirOf(r), newDir))
	}
	passes := ""
	if r.Totals.PassesOnly > 0 && r.Totals.Executed == 0 && r.Base.Kind == "executable" && r.Head.Kind == "executable" {
		passes = " --passes-only"
	}
	return fmt.Sprintf("passgate check%s%s --base %s --head %s --seed %d --cases %s", termsFlag(r), passes, shellQuote(r.Base.Spec), shellQuote(r.Head.Spec), r.Seed, cases)
}

// termsFlag accepts the terms of builds that have their own.
func termsFlag(r *gate.Result) string {
	if strings.HasPrefix(r.Base.Spec, "libtpu:") || strings.HasPrefix(r.Head.Spec, "libtpu:") {
		return " --accept-terms libtpu"
	}
	return ""
}
