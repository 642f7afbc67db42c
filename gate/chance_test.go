package gate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker"
)

// TestOneSeedOneBody: a head that is wrong with other values in every process, in
// other elements or here and there in none, and one that dies or refuses with other
// words every time. The findings are the same in every run, and block.
func TestOneSeedOneBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		head     func(c call, n byte) worker.Outcome
		class    gate.Class
		observed string
	}{
		{"values", func(c call, n byte) worker.Outcome {
			return c.copies(func(_ int, a worker.Array) worker.Array {
				for i := range a.Data[:4*(1+n%3)] {
					a.Data[i] ^= n + 1
				}
				return a
			})
		}, gate.Miscompile, "outside the legal set"},
		{"words", func(c call, n byte) worker.Outcome {
			if n%2 == 0 {
				return worker.Outcome{Status: worker.Crashed, Crash: &worker.Crash{Signal: "SIGABRT", Check: &worker.Check{File: "a.cc", Line: int(n), Text: "unlucky"}}}
			}
			return worker.Outcome{Status: worker.Rejected, Failure: &worker.Failure{Stage: worker.StageCompile, Code: pjrt.FailedPrecondition, Message: fmt.Sprint("unlucky ", n)}}
		}, gate.Crash, "unlucky"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int32
			first := ""
			for workers := range 4 {
				f := &fake{answer: by(right, func(r call) worker.Outcome { return c.head(r, byte(n.Add(1))%64) })}
				n.Add(int32(workers)) // another beginning
				cfg := config(f, testCase(t, "c", copyS32), testCase(t, "d", strings.Replace(copyS32, "s32[4] {1,", "s32[4] {8,", 1)))
				cfg.Workers = workers
				res := run(t, cfg)
				for _, f := range res.Findings {
					if f.Class != c.class || !f.Blocking || f.Unstable != (c.class == gate.Miscompile) || !strings.Contains(res.Observed[f.ID], c.observed) {
						t.Errorf("%+v, observed %v", f, res.Observed)
					}
				}
				if len(res.Findings) != 2 {
					t.Errorf("%d findings", len(res.Findings))
				}
				res.Timing, res.Observed = gate.Timing{}, nil
				out, err := json.MarshalIndent(res, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				if first == "" {
					first = string(out)
				} else if first != string(out) {
					t.Errorf("%d workers give another result:\n%s", workers, cmp.Diff(first, string(out)))
				}
			}
		})
	}
}
