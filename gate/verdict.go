package gate

import (
	"fmt"
	"strings"
)

// decide fills in the verdict, its reasons, and the calibration. halt says why
// cases were not judged that should have been; "" if they all were. noPass says
// that a change was given and reaches no pass.
func decide(res *Result, parts []CasePart, halt string, noPass bool) {
	say := func(format string, args ...any) { res.Reasons = append(res.Reasons, fmt.Sprintf(format, args...)) }
	count := map[Status]int{}
	blocking := 0
	for _, f := range res.Findings {
		count[f.Status]++
		if f.Blocking {
			blocking++
		}
	}
	refused, unconfirmed := 0, 0
	for i, p := range parts {
		if p.WantDisputed != "" {
			say("case %s: its want and the reference disagree, one of them is wrong: %s", res.Cases[i].ID, p.WantDisputed)
		}
		if p.Refused {
			refused++
		}
		if p.Unconfirmed {
			unconfirmed++
		}
	}
	fired := 0
	for _, p := range res.Passes {
		fired += p.Fired
	}
	t := res.Totals
	switch {
	case blocking > 0:
		res.Verdict = Blocked
		say("%s new: base is right, head is not, in %d of %d fresh processes", plural(blocking, "finding"), confirmations, confirmations)
	case halt != "":
		res.Verdict = Inconclusive
		say("%s", halt)
	case t.Infrastructure+unconfirmed > 0:
		res.Verdict = Inconclusive
		say("%s could not be judged: the machine failed twice", plural(t.Infrastructure+unconfirmed, "case"))
	case res.judged() == 0:
		res.Verdict = Inconclusive
		say("no case was executed")
	case res.Policy != nil && res.Policy.Firing != nil:
		res.Verdict = NotExercised
		say("%s", res.Policy.Firing)
	case res.Census != nil && res.Census.Fired != "":
		res.Verdict = Pass
		say("no new finding in %s", plural(res.judged(), "case"))
		say("the passes in focus changed no program of this shard, but %s of another one", res.Census.Fired)
	case res.Census != nil && res.Census.Lost > 0:
		res.Verdict = Inconclusive
		say("the passes in focus changed no program of this shard, and what they do to %s of the others the machine did not say", plural(res.Census.Lost, "program"))
	case res.Census != nil:
		res.Verdict = NotExercised
		say("none of the %s in focus changed any of %s, nor of %s of the other shards", plural(len(res.Passes), "pass"), plural(res.judged(), "program"), plural(res.Census.Cases, "program"))
	case len(res.Passes) > 0 && fired == 0:
		res.Verdict = NotExercised
		say("none of the %s in focus changed any of %s", plural(len(res.Passes), "pass"), plural(res.judged(), "program"))
	case res.Exploration != nil && res.heaviestCases() < res.Exploration.MinFirings:
		res.Verdict = NotExercised
		say("the passes that the change touches first changed %s, fewer than the %d asked for", plural(res.heaviestCases(), "program"), res.Exploration.MinFirings)
	default:
		res.Verdict = Pass
		say("no new finding in %s", plural(res.judged(), "case"))
	}
	if n := count[New] - blocking; n > 0 {
		say("%s new but not blocking", plural(n, "finding"))
	}
	for _, s := range []Status{PreExisting, Fixed, Contested, ReferenceDisputed} {
		if count[s] > 0 {
			say("%s %s", plural(count[s], "finding"), s)
		}
	}
	if refused > 0 {
		say("head refuses %s that base accepts", plural(refused, "program"))
	}
	if len(res.Passes) > 0 && fired > 0 {
		say("passes in focus changed programs %s", plural(fired, "time"))
	}
	if noPass {
		say("the change reaches no pass")
	}
	if blocking > 0 && halt != "" {
		say("%s", halt)
	}
	if t.Skipped > 0 && halt == "" {
		say("%s skipped", plural(t.Skipped, "case"))
	}
	if t.Unsupported > 0 {
		say("%s not judged: unsupported", plural(t.Unsupported, "case"))
	}
	sayPolicy(res, say)
	calibrate(res, parts)
	sayNull(res, say)
}

func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
