package worker

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/pjrt/hlotest"
)

// oldJaxlib is the oldest of some generations of the Python interface for which this machine has a Python.
func oldJaxlib(t *testing.T) string {
	t.Helper()
	store := newStore(t)
	for _, text := range []string{"jaxlib:0.4.13", "jaxlib:0.4.30", "jaxlib:0.4.38"} {
		spec, err := builds.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Fetch(t.Context(), spec)
		if err == nil {
			return text
		}
		if !errors.Is(err, builds.ErrNoPython) {
			t.Fatal(err)
		}
	}
	t.Fatal("no Python from 3.8 to 3.13 on this machine")
	return ""
}

// TestJaxlib runs an old and a new jaxlib; PASSGATE_TEST_JAXLIBS names others.
func TestJaxlib(t *testing.T) {
	specs := []string{"jaxlib:0.10.2", oldJaxlib(t)}
	if v := os.Getenv("PASSGATE_TEST_JAXLIBS"); v != "" {
		specs = strings.Split(v, ",")
	}
	p := newPool(t, Config{Workers: 1})
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			b := fetch(t, spec)
			info, err := p.Describe(t.Context(), b)
			if err != nil || info.Platform != "cpu" || "jaxlib:"+info.API != spec {
				t.Fatalf("%+v, %v", info, err)
			}
			for _, f := range []Format{HLO, MLIR} {
				r := addRequest(f)
				r.Options = map[string]string{"xla_cpu_enable_fast_min_max": "false", "xla_no_such_option": "1",
					"xla_backend_optimization_level": "1", "xla_disable_hlo_passes": "algsimp,cse"}
				r.WantOptimized = true
				r.DumpDir = t.TempDir()
				o := p.Do(t.Context(), b, r)
				checkAdd(t, o)
				if !slices.Equal(o.Dropped, []string{"xla_no_such_option"}) {
					t.Errorf("dropped %q", o.Dropped)
				}
				if len(o.Result.Optimized) < 50 {
					t.Errorf("optimised module has %d bytes", len(o.Result.Optimized))
				}
				if entries, err := os.ReadDir(r.DumpDir); err != nil || len(entries) < 3 {
					t.Errorf("dump: %d files, %v", len(entries), err)
				}
			}
			o := p.Do(t.Context(), b, Request{Program: []byte("no module"), Format: HLO, CompileOnly: true})
			if o.Status != Rejected || o.Failure.Message == "" {
				t.Errorf("bad module: %s %s", o.Status, o.detail())
			}
			r := addRequest(HLO)
			r.Inputs[0] = r.Inputs[0][:1]
			o = p.Do(t.Context(), b, r)
			if o.Status != OK || o.Result.Sets[0].Failure == nil || o.Result.Sets[0].Failure.Code != pjrt.InvalidArgument || o.Result.Sets[1].Failure != nil {
				t.Errorf("too few arguments: %s %s %+v", o.Status, o.detail(), o.Result)
			}
			r = addRequest(HLO)
			r.Options = map[string]string{"xla_backend_optimization_level": "many"}
			if o = p.Do(t.Context(), b, r); o.Status != Rejected || o.Failure.Stage != StageOptions {
				t.Errorf("bad option value: %s %s", o.Status, o.detail())
			}
			opts, err := p.SupportedOptions(t.Context(), b, []string{"xla_dump_to", "xla_backend_optimization_level", "xla_never"})
			if err != nil || !opts["xla_dump_to"] || !opts["xla_backend_optimization_level"] || opts["xla_never"] {
				t.Errorf("options %v, %v", opts, err)
			}
			for _, typ := range []int32{hlotest.Pred, 5, 12, 16, 19, hlotest.S4, 22} {
				shape := hlotest.Shape{Type: typ, Dims: []int64{2}}
				in := Array{Type: typ, Dims: []int64{2}, Data: []byte{1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
				switch n, err := pjrt.ByteSize(typ, in.Dims); {
				case err != nil:
					t.Fatal(err)
				case typ == hlotest.S4 || typ == 22:
					in.Data = []byte{0x0f, 0x07}
				default:
					in.Data = in.Data[:n]
				}
				o = p.Do(t.Context(), b, Request{Program: hlotest.Identity(shape, shape), Format: HLO, Inputs: [][]Array{{in}}})
				if o.Status != OK || o.Result.Sets[0].Failure != nil || !slices.Equal(o.Result.Sets[0].Distinct[0].Outputs[0].Data, in.Data) {
					t.Errorf("type %d: %s %s %+v", typ, o.Status, o.detail(), o.Result)
				}
			}
			sc := hlotest.Shape{Type: 16}
			o = p.Do(t.Context(), b, Request{Program: hlotest.Identity(sc, sc), Format: HLO, Inputs: [][]Array{{{Type: 16, Data: []byte{0x80, 0x3f}}}}})
			if o.Status != OK || !slices.Equal(o.Result.Sets[0].Distinct[0].Outputs[0].Data, []byte{0x80, 0x3f}) || len(o.Result.Sets[0].Distinct[0].Outputs[0].Dims) != 0 {
				t.Errorf("bf16 scalar: %s %s %+v", o.Status, o.detail(), o.Result)
			}
		})
	}
}
