package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/xla/worker/workertest"
)

// TestReplayShowsWhatTheFindingStates runs faults of real builds through the gate,
// reduces them all, and replays the smallest program of every finding: the figures
// that stand beside that program are those of the replay, on the builds that the
// finding calls wrong, and the others are right.
func TestReplayShowsWhatTheFindingStates(t *testing.T) {
	t.Parallel()
	pool, found := workertest.Open(t, 2, "xla-2026-06", "jax-0.11.2")
	base, head := poisoned(found[0]), poisoned(found[1])
	for _, passes := range []bool{false, true} {
		reduced := 0
		// What stands beside a checkout of the project is judged where it is there.
		for _, path := range []string{"../examples/cases/slice-of-slice.case", "../examples/cases/exponentials-overflow.case", "../examples/cases/log1p-double.case",
			"../../shared/cases/c05b.case", "../../shared/cases/m15.case", "../../shared/cases/c14e.case"} {
			data, err := os.ReadFile(path)
			if os.IsNotExist(err) && strings.HasPrefix(path, "../../shared") {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			c, err := fuzz.ReadCase(path, data)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%s passes only %v", filepath.Base(path), passes), func(t *testing.T) {
				cfg := Config{Base: base, Head: head, Runner: pool, Now: time.Now, Seed: 1, Probes: DefaultProbes, PassesOnly: passes, MinimiseAll: true}
				r := newRun(cfg)
				work := r.work
				if passes {
					work = r.workPasses
				}
				findings := work(t.Context(), c).findings
				if len(findings) == 0 && !passes {
					t.Fatal("no finding")
				}
				for _, f := range findings {
					if f.InMinimal != nil {
						reduced++
					}
					replayed(t, cfg, &f)
				}
			})
		}
		if reduced < 2 {
			t.Errorf("passes only %v: %d programs were made smaller", passes, reduced)
		}
	}
}

func replayed(t *testing.T, cfg Config, f *Finding) {
	t.Helper()
	small, err := fuzz.ReadCase("minimal.case", f.MinimalFile)
	if err != nil {
		t.Fatal(err)
	}
	if small.Text != f.Minimal || !small.Own && len(small.Params()) > 0 {
		t.Errorf("%s: minimal.case holds another program than the finding, or no inputs", f.ID)
	}
	m := f.AsMinimal()
	cfg.PassesOnly = f.PassesAlone()
	stated := fmt.Sprintf("output %s: %d of %d wrong, first at %v: %%s, legal %s", m.Output, m.Wrong, m.Elements, m.First.At, m.First.Legal)
	if cfg.PassesOnly {
		stated = fmt.Sprintf("%s: %d of %d elements changed, first output %s%v: %%s, legal %s", m.Pass, m.Wrong, m.Elements, m.Output, m.First.At, m.First.Legal)
	}
	for _, side := range []struct {
		behaviour Behaviour
		value     string
		head      bool
	}{{m.Base, m.First.Base, false}, {m.Head, m.First.Head, true}} {
		b := cfg.Base
		if side.head {
			b = cfg.Head
		}
		got := Replay(t.Context(), cfg, b, small)
		i := 0
		for i < len(got.Runs)-1 && got.Runs[i].Flags != m.Flags {
			i++
		}
		run := got.Runs[i]
		if run.Outcome != side.behaviour {
			t.Errorf("%s (%s) on %s: replay says %s, the finding %s", f.ID, f.Status, b.Spec, run.Outcome, side.behaviour)
		}
		if want := fmt.Sprintf(stated, side.value); side.behaviour == Wrong && (side.head || m.Head != Wrong) && !strings.Contains(run.Detail, want) {
			t.Errorf("%s (%s) on %s: replay says %q, the finding %q", f.ID, f.Status, b.Spec, run.Detail, want)
		}
	}
}
