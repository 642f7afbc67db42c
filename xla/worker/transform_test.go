package worker

import (
	"slices"
	"testing"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/xla/pjrt"
)

// TestTransform injects a fault into one compilation of a build that has the
// extension: the module is seen at each stage, the replacement is what runs,
// and the next request is right again.
func TestTransform(t *testing.T) {
	p := newPool(t, Config{})
	b := fetch(t, "jax-0.11.2")
	for _, stage := range []pjrt.Stage{pjrt.PreScheduler, pjrt.PostScheduler} {
		r := addRequest(HLO)
		r.Transform = &Transform{Stage: stage}
		o := p.Do(t.Context(), b, r)
		checkAdd(t, o)
		m, err := hlo.UnmarshalModule(o.Seen)
		if err != nil {
			t.Fatalf("stage %d: %v", stage, err)
		}
		planted := false
		for _, c := range m.Computations {
			for _, in := range c.Instructions {
				if in.Op == hlo.OpAdd {
					in.Op, planted = hlo.OpMultiply, true
				}
			}
		}
		if !planted {
			t.Fatalf("stage %d: no addition in\n%s", stage, m)
		}
		if r.Transform.Module, err = hlo.MarshalModule(m); err != nil {
			t.Fatal(err)
		}
		o = p.Do(t.Context(), b, r)
		if o.Status != OK {
			t.Fatalf("stage %d: %s: %s", stage, o.Status, o.detail())
		}
		if got, want := o.Result.Sets[0].Distinct[0].Outputs[0].Data, f32s(10, 40, 90); !slices.Equal(got, want) {
			t.Errorf("stage %d: % x, want the products % x", stage, got, want)
		}
		r.Transform = nil
		o = p.Do(t.Context(), b, r)
		checkAdd(t, o)
		if o.Seen != nil {
			t.Errorf("stage %d: a request without a transform saw a module", stage)
		}
	}
	r := addRequest(HLO)
	r.Transform = &Transform{}
	o := p.Do(t.Context(), fetch(t, "xla-2026-06"), r)
	if o.Status != Rejected || o.Failure.Code != pjrt.Unimplemented {
		t.Errorf("a build without the extension: %s: %s", o.Status, o.detail())
	}
}
