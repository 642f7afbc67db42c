package gate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/worker"
)

// TestShardsAlone: where no merge follows, a shard does not fail for a pass that
// fires in another one, and none passes where it fires in none.
func TestShardsAlone(t *testing.T) {
	const n = 3
	for _, tt := range []struct {
		name  string
		fires func(program string) bool
		lost  bool // compilations alone fail with the machine
		want  [n]gate.Verdict
	}{
		{"one program of six", func(p string) bool { return p == "c4" }, false, [n]gate.Verdict{gate.Pass, gate.Pass, gate.Pass}},
		{"none", func(string) bool { return false }, false, [n]gate.Verdict{gate.NotExercised, gate.NotExercised, gate.NotExercised}},
		{"a machine that fails", func(p string) bool { return p == "c4" }, true, [n]gate.Verdict{gate.Inconclusive, gate.Pass, gate.Inconclusive}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for shard := 1; shard <= n; shard++ {
				cfg := config(nil)
				for i := range 6 {
					c := testCase(t, fmt.Sprintf("c%d", i), strings.Replace(copyS32, "HloModule ", fmt.Sprintf("HloModule c%d_", i), 1))
					cfg.Cases = append(cfg.Cases, c)
				}
				cfg.Passes = []gate.Focus{{Name: "algsimp", Weight: 6, Reason: "test", Matches: func(s string) bool { return s == "algsimp" }}}
				cfg.Shard, cfg.Shards, cfg.Alone = shard, n, true
				var mu sync.Mutex
				dirs, alone, fired := 0, 0, map[string]bool{}
				cfg.TempDir = func() (string, func(), error) {
					mu.Lock()
					defer mu.Unlock()
					dirs++
					return fmt.Sprint("dump ", dirs), func() {}, nil
				}
				cfg.Runner = &fake{answer: func(c call) worker.Outcome {
					mu.Lock()
					defer mu.Unlock()
					if c.CompileOnly && strings.HasPrefix(c.DumpDir, "dump ") {
						alone++
						if tt.lost {
							return worker.Outcome{Status: worker.Infrastructure, Err: context.DeadlineExceeded}
						}
					}
					for i := range 6 {
						if strings.Contains(string(c.Program), fmt.Sprintf("c%d_", i)) {
							fired[c.DumpDir] = tt.fires(fmt.Sprint("c", i))
						}
					}
					return right(c)
				}}
				cfg.Steps = func(dir string) ([]gate.Step, error) {
					mu.Lock()
					defer mu.Unlock()
					return []gate.Step{{Name: "algsimp", Changed: fired[dir]}}, nil
				}
				res := run(t, cfg)
				if res.Verdict != tt.want[shard-1] {
					t.Errorf("shard %d: verdict %s, want %s (%q)", shard, res.Verdict, tt.want[shard-1], res.Reasons)
				}
				if own := res.Passes[0].Fired > 0; own != (alone == 0) || own != (res.Census == nil) {
					t.Errorf("shard %d: fired %t, programs compiled for a census %d, census %+v", shard, own, alone, res.Census)
				}
			}
		})
	}
}
