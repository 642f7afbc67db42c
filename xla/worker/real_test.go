package worker

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/pjrt/hlotest"
)

func newPool(t *testing.T, cfg Config) *Pool {
	t.Helper()
	cfg.Command = []string{os.Args[0], "worker"}
	if cfg.TempDir == "" {
		cfg.TempDir = t.TempDir()
	}
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newStore(t *testing.T) *builds.Store {
	t.Helper()
	s, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fetch(t *testing.T, text string) *builds.Build {
	t.Helper()
	s := newStore(t)
	spec, err := builds.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Fetch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func f32s(vs ...float32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func addRequest(format Format) Request {
	r := Request{Program: hlotest.Add(3), Format: format, Repeat: 2, Inputs: [][]Array{
		{{Type: hlotest.F32, Dims: []int64{3}, Data: f32s(1, 2, 3)}, {Type: hlotest.F32, Dims: []int64{3}, Data: f32s(10, 20, 30)}},
		{{Type: hlotest.F32, Dims: []int64{3}, Data: f32s(0, 0, 0)}, {Type: hlotest.F32, Dims: []int64{3}, Data: f32s(1, 1, 1)}},
	}}
	if format == MLIR {
		r.Program = hlotest.AddMLIR(3)
	}
	return r
}

func checkAdd(t *testing.T, o Outcome) {
	t.Helper()
	if o.Status != OK {
		t.Fatalf("%s: %s\n%q", o.Status, o.detail(), o.Log)
	}
	want := [][]byte{f32s(11, 22, 33), f32s(1, 1, 1)}
	if len(o.Result.Sets) != len(want) {
		t.Fatalf("%d sets, want %d", len(o.Result.Sets), len(want))
	}
	for i, s := range o.Result.Sets {
		if s.Failure != nil || len(s.Distinct) != 1 || s.Distinct[0].Count != 2 || len(s.Distinct[0].Outputs) != 1 {
			t.Fatalf("set %d: %+v", i, s)
		}
		a := s.Distinct[0].Outputs[0]
		if a.Type != hlotest.F32 || !slices.Equal(a.Dims, []int64{3}) || !slices.Equal(a.Data, want[i]) {
			t.Errorf("set %d: %+v, want % x", i, a, want[i])
		}
	}
}

func TestPlugins(t *testing.T) {
	p := newPool(t, Config{Workers: 2})
	for _, e := range builds.Catalogue() {
		t.Run(e.Name, func(t *testing.T) {
			b := fetch(t, e.Name)
			info, err := p.Describe(t.Context(), b)
			if err != nil || info.Platform != "cpu" || info.Devices < 1 {
				t.Fatalf("%+v, %v", info, err)
			}
			for _, f := range []Format{HLO, MLIR} {
				r := addRequest(f)
				r.Options = map[string]string{"xla_cpu_enable_fast_min_max": "false", "xla_no_such_option": "1"}
				o := p.Do(t.Context(), b, r)
				checkAdd(t, o)
				if !slices.Equal(o.Dropped, []string{"xla_no_such_option"}) {
					t.Errorf("dropped %q", o.Dropped)
				}
			}
			o := p.Do(t.Context(), b, Request{Program: hlotest.Forever(), Format: HLO, Timeout: 2 * time.Second,
				Inputs: [][]Array{{{Type: hlotest.S32, Data: make([]byte, 4)}}}})
			if o.Status != Hung {
				t.Errorf("endless loop: %s: %s", o.Status, o.detail())
			}
			checkAdd(t, p.DoFresh(t.Context(), b, addRequest(HLO)))

			// Arguments that the program may or must overwrite are given anew each time; a tuple parameter takes its elements.
			for _, code := range [][]byte{hlotest.Aliased(hlotest.Add(3), hlotest.MayAlias), hlotest.Aliased(hlotest.Add(3), hlotest.MustAlias), hlotest.AddTuple(3)} {
				r := addRequest(HLO)
				r.Program = code
				checkAdd(t, p.Do(t.Context(), b, r))
			}

			// The optimised module runs through the backend alone.
			r := addRequest(HLO)
			r.WantOptimized = true
			o = p.Do(t.Context(), b, r)
			checkAdd(t, o)
			r.Program, r.BackendOnly = o.Result.Optimized, true
			checkAdd(t, p.Do(t.Context(), b, r))

			opts, err := p.SupportedOptions(t.Context(), b, []string{"xla_cpu_enable_fast_min_max", "xla_dump_to", "xla_never"})
			if err != nil || !opts["xla_cpu_enable_fast_min_max"] || !opts["xla_dump_to"] || opts["xla_never"] {
				t.Errorf("options %v, %v", opts, err)
			}

			r = addRequest(HLO)
			r.Options = map[string]string{"xla_backend_optimization_level": "many"}
			if o = p.Do(t.Context(), b, r); o.Status != Rejected || o.Failure.Stage != StageOptions || o.Failure.Code != pjrt.InvalidArgument {
				t.Errorf("bad option value: %s %s", o.Status, o.detail())
			}
			o = p.Do(t.Context(), b, Request{Program: []byte("no module"), Format: HLO, CompileOnly: true})
			if o.Status != Rejected || o.Failure.Stage != StageCompile || o.Failure.Code != pjrt.InvalidArgument {
				t.Errorf("bad module: %s %s", o.Status, o.detail())
			}
			r = addRequest(HLO)
			r.Inputs[0] = r.Inputs[0][:1]
			o = p.Do(t.Context(), b, r)
			if o.Status != OK || o.Result.Sets[0].Failure == nil || o.Result.Sets[0].Failure.Code != pjrt.InvalidArgument || o.Result.Sets[1].Failure != nil {
				t.Errorf("too few arguments: %s %s %+v", o.Status, o.detail(), o.Result)
			}
			r = addRequest(HLO)
			r.Inputs[1][0].Data = r.Inputs[1][0].Data[:8]
			if o = p.Do(t.Context(), b, r); o.Status != OK || o.Result.Sets[1].Failure == nil || o.Result.Sets[1].Failure.Stage != StageArguments {
				t.Errorf("short argument: %s %s %+v", o.Status, o.detail(), o.Result)
			}
		})
	}
}
