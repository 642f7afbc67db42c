package dump

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo/hlopb"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// TestMain lets the test binary be its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := worker.Main(context.Background(), os.Stdin, os.Stdout, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestFileNames(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, name := range []string{
		"module_0003.jit_f.0000.sharding-removal.after_pipeline-start.before_flatten-call-graph.hlo.pb",
		"module_0003.jit_f.0001.sharding-removal.after_dce.before_pipeline-end.hlo.pb",
		"module_0003.jit_f.0010.HLO_passes_after_scheduling.after_apply-xla-transforms-17.before_apply-xla-transforms-18.hlo.pb",
		"module_0003.jit_f.0009.copy-insertion.after_adding_special-case_copies.hlo.pb",
		"module_0003.jit_f.0008.copy-insertion.after_removing_unnecessary_copies.hlo.pb",
		"module_0003.jit_f.0011.HLO_passes_after_scheduling.after_dce.before_pipeline-end.hlo.pb",
		"module_0003.jit_f.before_optimizations.hlo.pb",
		"module_0003.jit_f.cpu_after_optimizations.hlo.pb",
		"module_0003.jit_f.obj-file.kernel.o",
		"module_0003.jit_f.debug_options",
		"module_0012.a.0001.b.cl_77.0002.Phase_1.after_algsimp.before_cse.hlo.pb",
		"module_0012.a.0001.b.cl_77.before_optimizations.hlo.pb",
		"module_0013.0000.long.after_pipeline-start.before_x.hlo.pb",
		"module_0014.before_optimizations.hlo.pb",
		"notes.txt",
	} {
		fsys[name] = &fstest.MapFile{}
	}
	fsys["module_0012.metadata.textproto"] = &fstest.MapFile{Data: []byte(`canonical_module_id: 12
pass_metadata { pass_id: 1 pass_name: "algsimp" pipeline_name: "Phase 1" module_changed: true dump_filenames: "/d/module_0012.a.0001.b.cl_77.0002.Phase_1.after_algsimp.before_cse.hlo.pb" kv_metrics { key: "x" value: 3 } some_new_field: 4 }
pass_metadata { pass_id: 2 pass_name: "cse" pipeline_name: "Phase 1" }
`)}
	got, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range got {
		lines = append(lines, fmt.Sprintf("%d %q before=%v after=%v", c.ID, c.Module, c.Before != "", c.After != ""))
		for _, s := range c.Steps {
			lines = append(lines, fmt.Sprintf("  %d %s next=%s inner=%s", s.Number, s.Key, s.Next, s.Inner))
		}
		for _, r := range c.Runs {
			lines = append(lines, fmt.Sprintf("  run %q %s %v %d", r.Pipeline, r.Pass, r.Changed, len(r.Files)))
		}
	}
	want := `3 "jit_f" before=true after=true
  0 sharding-removal/0/pipeline-start next=flatten-call-graph inner=
  1 sharding-removal/0/dce next=pipeline-end inner=
  8 /0/copy-insertion next= inner=after_removing_unnecessary_copies
  9 /1/copy-insertion next= inner=after_adding_special-case_copies
  10 HLO_passes_after_scheduling/0/apply-xla-transforms next=apply-xla-transforms inner=
  11 HLO_passes_after_scheduling/1/dce next=pipeline-end inner=
12 "a.0001.b.cl_77" before=true after=false
  2 Phase_1/0/algsimp next=cse inner=
  run "Phase 1" algsimp true 1
  run "Phase 1" cse false 0
13 "" before=false after=false
  0 long/0/pipeline-start next=x inner=
14 "" before=true after=false`
	if text := strings.Join(lines, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

const program = `module @jit_f {
  func.func public @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.tanh %0 : tensor<4x4xf32>
    %2 = stablehlo.add %1, %0 : tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
}
`

// TestRealDumps reads the dumps of each named build and of one that did not get as far as code generation.
func TestRealDumps(t *testing.T) {
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := worker.NewPool(worker.Config{Command: []string{os.Args[0], "worker"}, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, e := range builds.Catalogue() {
		t.Run(e.Name, func(t *testing.T) {
			spec, err := builds.Parse(e.Name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := store.Fetch(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			counts := map[bool]int{}
			for _, all := range []bool{false, true} {
				dir := t.TempDir()
				o := pool.Do(t.Context(), b, worker.Request{Program: []byte(program), Format: worker.MLIR, CompileOnly: true, DumpDir: dir, DumpAll: all})
				if o.Status != worker.OK {
					t.Fatalf("%s %v", o.Status, o.Failure)
				}
				cs, err := Read(os.DirFS(dir))
				if err != nil || len(cs) != 1 {
					t.Fatalf("%d compilations, %v", len(cs), err)
				}
				c := cs[0]
				if c.Module != "jit_f" || c.Before == "" || c.After == "" || c.Runs != nil {
					t.Errorf("%+v", c)
				}
				counts[all] = len(c.Steps)
				seen := map[Key]bool{}
				for i, s := range c.Steps {
					if s.Number != i {
						t.Errorf("step %d has number %d", i, s.Number)
					}
					if s.Inner == "" && !s.Start() {
						if seen[s.Key] {
							t.Errorf("key %s twice", s.Key)
						}
						seen[s.Key] = true
					}
				}
				if !slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Key.Pass == "layout-assignment" }) {
					t.Error("no layout-assignment")
				}
				for _, file := range []string{c.Before, c.Steps[0].File, c.Steps[len(c.Steps)-1].File, c.After} {
					raw, err := Module(os.DirFS(dir), file)
					if err != nil {
						t.Fatal(err)
					}
					var m hlopb.HloModuleProto
					if err := proto.Unmarshal(raw, &m); err != nil || m.GetName() != "jit_f" || len(m.GetComputations()) == 0 {
						t.Errorf("%s: module %q with %d computations, %v", file, m.GetName(), len(m.GetComputations()), err)
					}
				}
			}
			if counts[false] < 10 || counts[true] < 2*counts[false] {
				t.Errorf("%d changed and %d dumped steps", counts[false], counts[true])
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	fsys := fstest.MapFS{
		"empty": {}, "noise": {Data: []byte{0xff, 0xff}}, "other": {Data: []byte{0x10, 0x01}},
		"cut": {Data: []byte{0x0a, 0x20, 0x01}},
	}
	for _, name := range []string{"empty", "noise", "other", "cut", "missing"} {
		if _, err := Module(fsys, name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"module_99999999999999999999.x.before_optimizations.hlo.pb", "module_0001.x.99999999999999999999.p.after_a.before_b.hlo.pb"} {
		if _, err := Read(fstest.MapFS{name: {}}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := Read(fstest.MapFS{"module_0001.metadata.textproto": {Data: []byte("pass_metadata {")}}); err == nil {
		t.Error("cut metadata was accepted")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("module_0003.jit_f.0000.sharding-removal.after_pipeline-start.before_flatten-call-graph.hlo.pb", []byte{10, 1, 0})
	f.Add("module_0001.metadata.textproto", []byte(`pass_metadata { pass_name: "x" }`))
	f.Add("module_0001.0001.x.y.hlo.pb", []byte{})
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if !strings.HasPrefix(name, "module_") || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
			return
		}
		fsys := fstest.MapFS{name: {Data: data}}
		cs, err := Read(fsys)
		if err != nil {
			return
		}
		for _, c := range cs {
			for _, s := range c.Steps {
				if s.File != name || s.Number < 0 {
					t.Errorf("%+v", s)
				}
				_, _ = Module(fsys, s.File) // no panic
			}
		}
	})
}

// The TPU compiler gives a module a new number in the middle of the passes, and
// lists all pass runs in the metadata of the first; the scheduler adds fields
// of its own there.
func TestRenumberedModule(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, name := range []string{
		"module_0000.m.cl_77.before_optimizations.hlo.pb",
		"module_0000.m.cl_77.0000.Phase_1.after_pipeline-start.before_dce.hlo.pb",
		"module_0000.m.cl_77.0001.Phase_1.after_algsimp.before_cse.hlo.pb",
		"module_0002.m.cl_77.0000.X64_elimination.after_xprecision-rewriter.before_x.hlo.pb",
		"module_0002.m.cl_77.0001.Phase_1.after_cse.before_pipeline-end.hlo.pb",
		"module_0002.m.cl_77.after_optimizations.hlo.pb",
		"module_0005.other.before_optimizations.hlo.pb",
	} {
		fsys[name] = &fstest.MapFile{}
	}
	fsys["module_0000.metadata.textproto"] = &fstest.MapFile{Data: []byte(`pass_metadata {
  pass_name: "pipeline-start"
  pipeline_name: "Phase 1"
}
pass_metadata {
  pass_name: "dce"
  pipeline_name: "Phase 1"
}
pass_metadata {
  pass_name: "algsimp"
  pipeline_name: "Phase 1"
  dump_filenames: "/d/module_0000.m.cl_77.0001.Phase_1.after_algsimp.before_cse.hlo.pb"
  custom_metadata {
    type_url: "x"
    value: "\n\007"
  }
}
pass_metadata {
  pass_name: "pipeline-start"
  pipeline_name: "Phase 1"
}
pass_metadata {
  pass_name: "cse"
  pipeline_name: "Phase 1"
  dump_filenames: "/d/module_0002.m.cl_77.0001.Phase_1.after_cse.before_pipeline-end.hlo.pb"
}
`)}
	got, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].After == "" || got[0].Module != "m.cl_77" || got[1].Module != "other" || len(got[0].Runs) != 5 {
		t.Fatalf("got %+v", got)
	}
	var keys []string
	for _, s := range got[0].Steps {
		keys = append(keys, fmt.Sprintf("%d %s", s.Number, s.Key))
	}
	want := "0 Phase_1/0/pipeline-start, 1 Phase_1/1/algsimp, 2 X64_elimination/0/xprecision-rewriter, 3 Phase_1/0/cse"
	if s := strings.Join(keys, ", "); s != want {
		t.Errorf("steps %s, want %s", s, want)
	}
}
