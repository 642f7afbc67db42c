package legal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/gate/legal"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/xla/worker/workertest"
)

func TestMain(m *testing.M) { workertest.Main(m) }

func run(t *testing.T, spec string, changes []legal.Change) *legal.Result {
	t.Helper()
	pool, b := workertest.Open(t, 2, spec)
	res, err := legal.Run(t.Context(), legal.Config{Build: b[0], Runner: pool, Now: time.Now, Seed: 1, Workers: 2}, changes)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func pack(t *testing.T) []legal.Change {
	t.Helper()
	changes, err := legal.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func TestPackHasAllKinds(t *testing.T) {
	n, names := map[string]int{}, map[string]bool{}
	total := 0
	for _, c := range pack(t) {
		if names[c.Name] {
			t.Errorf("two changes are named %s", c.Name)
		}
		names[c.Name] = true
		if c.After == nil && c.Options == nil && c.Kind != legal.Audit {
			t.Errorf("%s changes nothing", c.Name)
		}
		if n[c.Kind]++; c.Kind != legal.Audit {
			total++
		}
		if c.After != nil {
			if err := hlo.Verify(c.After); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	for _, k := range []string{legal.Reassociation, legal.TreeSum, legal.Splitting, legal.FMA, legal.Division, legal.Excess, legal.LibraryDot, legal.VectorWidth, legal.FlushToZero, legal.Function, legal.Audit} {
		if n[k] == 0 {
			t.Errorf("no change of kind %s", k)
		}
	}
	if total < 60 {
		t.Errorf("%d changes", total)
	}
}

// TestNothingIsBlocked runs every third change (the command runs all of them).
func TestNothingIsBlocked(t *testing.T) {
	var some []legal.Change
	for i, c := range pack(t) {
		if i%3 == 0 && c.Kind != legal.Audit {
			some = append(some, c)
		}
	}
	res := run(t, "jax-0.11.2", some)
	shown := 0
	for _, o := range res.Outcomes {
		if o.Blocked {
			t.Errorf("%s is blocked: %s", o.Name, o.Detail)
		}
		if o.Differing > 0 {
			shown++
			if o.Rule == "" || o.Bound <= 0 || o.Seen > o.Bound {
				t.Errorf("%s differs without a reason: %+v", o.Name, o)
			}
		}
	}
	if res.Blocks != 0 || shown != res.Changed || shown < len(some)/3 {
		t.Errorf("%d blocks, %d of %d changes show", res.Blocks, shown, len(some))
	}
}

// TestWrongChangesAreBlocked: the same way of putting changes into a build shows
// those that are not legal.
func TestWrongChangesAreBlocked(t *testing.T) {
	changes := pack(t)[:1]
	text := changes[0].After.String()
	wrong, err := hlo.Parse("wrong", []byte(strings.Replace(text, "constant(2.1)", "constant(2.2)", 1)))
	if err != nil || wrong.String() == text {
		t.Fatalf("%v:\n%s", err, text)
	}
	changes[0].After = wrong
	if res := run(t, "jax-0.11.2", changes); res.Blocks != 1 || !res.Outcomes[0].Blocked {
		t.Errorf("%+v", res.Outcomes)
	}
}

// TestBudgetThatABuildBreaksIsFound: the f64 log-plus-one of builds before
// jax-0.11.2 is less accurate than declared between -0.53 and -0.28.
func TestBudgetThatABuildBreaksIsFound(t *testing.T) {
	var audit []legal.Change
	for _, c := range pack(t) {
		if c.Kind == legal.Audit && strings.HasSuffix(c.Name, "-f64") {
			audit = append(audit, c)
		}
	}
	for spec, want := range map[string]string{"xla-2026-06": "log-plus-one-f64", "jax-0.11.2": ""} {
		var broken []string
		for _, o := range run(t, spec, audit).Outcomes {
			if len(o.Faults) > 0 {
				broken = append(broken, o.Name)
			}
		}
		if strings.Join(broken, " ") != want {
			t.Errorf("%s breaks the budgets of %q, want %q", spec, broken, want)
		}
	}
}
