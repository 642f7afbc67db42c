package worker

import (
	"strings"
	"testing"
)

// TestCompilerAborts: XLA CHECKs that xla_disable_hlo_passes and xla_enable_hlo_passes_only are not both set
// (xla/hlo/pass/hlo_pass_pipeline.cc). The abort of the plugin, and that of Python, is one typed outcome with its place.
func TestCompilerAborts(t *testing.T) {
	p := newPool(t, Config{Workers: 1})
	for _, spec := range []string{"xla-2025-11", "xla-2026-06", "jax-0.11.2", "jaxlib:0.10.2"} {
		b := fetch(t, spec)
		r := addRequest(HLO)
		r.Options = map[string]string{"xla_disable_hlo_passes": "algsimp", "xla_enable_hlo_passes_only": "dce"}
		o := p.Do(t.Context(), b, r)
		if o.Status != Crashed || o.Crash.Signal != "SIGABRT" || o.Crash.Check == nil || !strings.HasSuffix(o.Crash.Check.File, "hlo_pass_pipeline.cc") || o.Crash.Check.Line < 1 {
			t.Errorf("%s: %s %s %q", spec, o.Status, o.detail(), o.Log)
		}
		if last := o.Log[len(o.Log)-1]; spec != "jaxlib:0.10.2" && last != "SIGABRT: abort" {
			t.Errorf("%s: the log ends with %q", spec, last)
		}
		checkAdd(t, p.Do(t.Context(), b, addRequest(HLO)))
	}
}
