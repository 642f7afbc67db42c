package selftest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/passgate/passgate/defects"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// counter answers with the number of the request.
type counter struct{ n int }

func (c *counter) Do(_ context.Context, _ *builds.Build, r worker.Request) worker.Outcome {
	c.n++
	if r.DumpDir != "" {
		if err := os.WriteFile(filepath.Join(r.DumpDir, "dump"), []byte(fmt.Sprint(c.n)), 0o644); err != nil {
			panic(err)
		}
	}
	return worker.Outcome{Status: worker.OK, Log: []string{fmt.Sprint(c.n)}}
}

func (c *counter) DoFresh(ctx context.Context, b *builds.Build, r worker.Request) worker.Outcome {
	return c.Do(ctx, b, r)
}

func (c *counter) Describe(context.Context, *builds.Build) (worker.Info, error) {
	return worker.Info{}, nil
}

// What one defect's run asks of base three times is asked three times of the
// real build, and not again for the program's next defect. Other memory, inputs,
// options or processes are other requests.
func TestKept(t *testing.T) {
	real := &counter{}
	b := &builds.Build{ID: "b"}
	poisoned := &builds.Build{ID: "b", Env: []string{"MALLOC_PERTURB_=165"}}
	kept := &Kept{}
	r := worker.Request{Program: []byte("p"), Format: worker.HLO, Inputs: [][]worker.Array{{{Type: 11, Dims: []int64{1}, Data: []byte{1, 2, 3, 4}}}}}
	other := r
	other.Inputs = [][]worker.Array{{{Type: 11, Dims: []int64{1}, Data: []byte{1, 2, 3, 5}}}}
	options := r
	options.Options = map[string]string{"a": "b"}
	dumps := r
	for defect := range 2 {
		c := NewComposite(real, b, defects.Defect{}, Again, t.TempDir())
		c.Kept = kept
		ask := func(o worker.Outcome, want int) {
			t.Helper()
			if o.Log[0] != fmt.Sprint(want) {
				t.Errorf("defect %d: the real build's answer %s, want %d", defect, o.Log[0], want)
			}
		}
		for i := range 3 {
			ask(c.DoFresh(t.Context(), b, r), i+1)
		}
		ask(c.Do(t.Context(), b, r), 4)
		ask(c.Do(t.Context(), b, other), 5)
		ask(c.Do(t.Context(), b, options), 6)
		ask(c.Do(t.Context(), poisoned, r), 7)
		dumps.DumpDir = t.TempDir()
		ask(c.Do(t.Context(), b, dumps), 8)
		if data, err := os.ReadFile(filepath.Join(dumps.DumpDir, "dump")); err != nil || string(data) != "8" {
			t.Errorf("defect %d: dumped %q, %v", defect, data, err)
		}
	}
	kept.forget()
	c := NewComposite(real, b, defects.Defect{}, Again, t.TempDir())
	c.Kept = kept
	if o := c.Do(t.Context(), b, r); o.Log[0] != "9" {
		t.Errorf("after forget: answer %s", o.Log[0])
	}
}
