package memory_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/fuzz/generate"
	"github.com/passgate/passgate/gate/memory"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
	"github.com/passgate/passgate/xla/worker/workertest"
)

func TestMain(m *testing.M) { workertest.Main(m) }

// compiler is a real build that shows its buffer assignments.
type compiler struct {
	pool  *worker.Pool
	build *builds.Build
}

func newCompiler(t *testing.T, spec string) *compiler {
	t.Helper()
	pool, b := workertest.Open(t, 1, spec)
	return &compiler{pool, b[0]}
}

// assign compiles a module and reads the buffer assignment; nil if the build
// refuses the program.
func (c *compiler) assign(t *testing.T, m *hlo.Module) *hlopb.HloProto {
	t.Helper()
	data, err := hlo.MarshalModule(m)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := c.pool.Do(t.Context(), c.build, worker.Request{Program: data, Format: worker.HLO, DumpDir: dir, CompileOnly: true, Options: map[string]string{
		"xla_dump_hlo_pass_re": "^$", "xla_backend_optimization_level": "0", "xla_cpu_parallel_codegen_split_count": "1"}})
	files, err := filepath.Glob(filepath.Join(dir, "*after_optimizations.hlo.pb"))
	if err != nil {
		t.Fatal(err)
	}
	if out.Status != worker.OK || len(files) != 1 {
		return nil
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var p hlopb.HloProto
	if err := proto.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func read(t *testing.T, p *hlopb.HloProto) *memory.Program {
	t.Helper()
	out, err := memory.FromProto(p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// family are programs that update in place.
var family = map[string]string{
	"update": `ENTRY e {
  x = s32[64] parameter(0)
  u = s32[8] parameter(1)
  i = s32[] parameter(2)
  y = s32[64] dynamic-update-slice(x, u, i)
  ROOT r = (s32[64], s32[64]) tuple(y, x)
}`,
	"update of a window by itself": `ENTRY e {
  x = f32[16,8] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  b = f32[16,8] exponential(x)
  w = f32[1,8] dynamic-slice(b, i, z), dynamic_slice_sizes={1,8}
  v = f32[1,8] add(w, w)
  ROOT y = f32[16,8] dynamic-update-slice(b, v, i, z)
}`,
	"scatter": `add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
ENTRY e {
  x = s32[32] parameter(0)
  i = s32[4,1] parameter(1)
  u = s32[4] parameter(2)
  n = s32[32] negate(x)
  s = s32[32] scatter(n, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT r = (s32[32], s32[32]) tuple(s, n)
}`,
	"loop": `body {
  p = (s32[], f32[32], f32[32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[32] get-tuple-element(p), index=1
  b = f32[32] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  u = f32[1] dynamic-slice(b, i), dynamic_slice_sizes={1}
  a2 = f32[32] dynamic-update-slice(a, u, i)
  c = f32[32] add(a2, b)
  ROOT t = (s32[], f32[32], f32[32]) tuple(j, c, a)
}
cond {
  p = (s32[], f32[32], f32[32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[32] parameter(0)
  y = f32[32] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[32], f32[32]) tuple(z, x, y)
  ROOT w = (s32[], f32[32], f32[32]) while(t), condition=cond, body=body
}`,
	"branches": `left { p = f32[32] parameter(0) ROOT r = f32[32] sine(p) }
right { p = f32[32] parameter(0) z = s32[] constant(3) u = f32[2] slice(p), slice={[4:6]} ROOT r = f32[32] dynamic-update-slice(p, u, z) }
ENTRY e {
  c = pred[] parameter(0)
  x = f32[32] parameter(1)
  y = f32[32] exponential(x)
  k = f32[32] conditional(c, y, y), true_computation=left, false_computation=right
  ROOT r = f32[32] add(k, y)
}`,
	"reused memory": `ENTRY e {
  x = f32[16,16] parameter(0)
  a = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[16,16] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[16,16] dot(b, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[16,16] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[16,16] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}`,
	"donated": `ENTRY e {
  x = f32[32] parameter(0)
  y = f32[32] parameter(1)
  s = f32[32] add(x, y)
  ROOT r = (f32[32], f32[32]) tuple(s, y)
}`,
}

func module(t *testing.T, name, text string) *hlo.Module {
	t.Helper()
	head := "HloModule m"
	if name == "donated" {
		head += ", input_output_alias={ {0}: (0, {}, must-alias) }"
	}
	m, err := hlo.Parse(name, []byte(head+"\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// specs are builds of three ages.
var specs = []string{"xla-2025-11", "xla-2026-06", "jax-0.11.2"}

func TestNothingWrongWithRealPlacements(t *testing.T) {
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			c := newCompiler(t, spec)
			check := func(name string, m *hlo.Module) bool {
				p := c.assign(t, m)
				if p == nil {
					return false
				}
				r := memory.Check(read(t, p))
				if len(r.Violations) > 0 {
					t.Errorf("%s: %s", name, &r.Violations[0])
				}
				if r.Unplaced == r.Reads {
					t.Errorf("%s: nothing was looked up: %+v", name, r)
				}
				return true
			}
			for name, text := range family {
				if !check(name, module(t, name, text)) {
					t.Errorf("%s does not compile", name)
				}
			}
			const programs = 40
			compiled := 0
			for i := range programs {
				g, err := generate.Program(fmt.Sprintf("g%d", i), rand.New(rand.NewPCG(6, uint64(i))), generate.Options{Size: 20})
				if err != nil {
					t.Fatal(err)
				}
				if check(g.Name+"\n"+g.Text, g.Module) {
					compiled++
				}
			}
			if compiled < programs/2 {
				t.Errorf("%d of %d generated programs compile", compiled, programs)
			}
		})
	}
}

// shifted is a fault of the builds themselves: an update in place that reads
// what it has already written.
const shifted = `ENTRY e {
  x = s32[6,1] parameter(0)
  two = s32[] constant(2)
  twos = s32[6,1] broadcast(two), dimensions={}
  base = s32[6,1] add(x, twos)
  part = s32[5,1] slice(base), slice={[0:5], [0:1]}
  one = s32[] constant(1)
  zero = s32[] constant(0)
  moved = s32[6,1] dynamic-update-slice(base, part, one, zero)
  ROOT r = s32[1,6] reshape(moved)
}`

func TestInPlaceUpdateThatReadsItsOutput(t *testing.T) {
	r := memory.Check(read(t, newCompiler(t, "jax-0.11.2").assign(t, module(t, "shifted", shifted))))
	if len(r.Violations) != 1 || r.Violations[0].Kind != memory.Hazard {
		t.Fatalf("%+v", r)
	}
	if s := r.Violations[0].String(); !strings.Contains(s, "in-place update reads its own output: %copy") {
		t.Error(s)
	}
}

// slot is a buffer with its place and the instructions that define and read it,
// by their place in the entry's schedule.
type slot struct {
	id            int64
	place         memory.Place
	defined, last int
}

// slots are the buffers of the entry that hold one array each, by a liveness
// that is good enough to know what is an overlap: from the definition to the
// last direct use.
func slots(p *hlopb.HloProto, prog *memory.Program) []slot {
	at := map[*hlo.Instruction]int{}
	for i, in := range prog.Module.Entry.Instructions {
		at[in] = i
	}
	last := map[memory.Location]int{}
	for _, in := range prog.Module.Entry.Instructions {
		for _, o := range in.Operands {
			if in.Op != hlo.OpTuple && in.Op != hlo.OpBitcast && in.Op != hlo.OpGetTupleElement {
				last[memory.Location{Instruction: o, Path: "{}"}] = at[in]
			}
		}
	}
	last[memory.Location{Instruction: prog.Module.Entry.Root, Path: "{}"}] = len(at)
	var out []slot
	for loc := range prog.Defined {
		i, ok := at[loc.Instruction]
		place, placed := prog.Places[loc]
		if !ok || !placed || !loc.Instruction.Shape.IsArray() || loc.Instruction.Op == hlo.OpConstant {
			continue
		}
		for _, b := range p.BufferAssignment.LogicalBuffers {
			l := b.DefinedAt
			if l.GetInstructionName() == loc.Instruction.Name || l.GetInstructionName() == "" && idOf(p, l.GetInstructionId()) == loc.Instruction.Name {
				out = append(out, slot{b.Id, place, i, last[loc]})
			}
		}
	}
	return out
}

func idOf(p *hlopb.HloProto, id int64) string {
	for _, c := range p.HloModule.Computations {
		for _, in := range c.Instructions {
			if in.Id == id || c.Id<<32|in.Id&0xffffffff == id {
				return in.Name
			}
		}
	}
	return ""
}

// TestPlantedOverlapsAreFound moves the buffer of a value over that of another
// one that is still needed, for every such pair of every program: all are found.
func TestPlantedOverlapsAreFound(t *testing.T) {
	c := newCompiler(t, "xla-2026-06")
	planted := 0
	for name, text := range family {
		p := c.assign(t, module(t, name, text))
		all := slots(p, read(t, p))
		for _, victim := range all {
			for _, mover := range all {
				if mover.defined <= victim.defined || mover.defined >= victim.last || victim.place == mover.place {
					continue
				}
				planted++
				bad := proto.CloneOf(p)
				size := min(victim.place.Size, mover.place.Size)
				for _, a := range bad.BufferAssignment.BufferAllocations {
					for i, s := range a.Assigned {
						if s.LogicalBufferId == mover.id {
							a.Assigned = append(a.Assigned[:i:i], a.Assigned[i+1:]...)
							break
						}
					}
					if a.Index == victim.place.Allocation {
						a.Assigned = append(a.Assigned, &hlopb.BufferAllocationProto_Assigned{LogicalBufferId: mover.id, Offset: victim.place.Offset, Size: size})
					}
				}
				if r := memory.Check(read(t, bad)); len(r.Violations) == 0 {
					t.Errorf("%s: buffer %d over buffer %d is not found", name, mover.id, victim.id)
				}
			}
		}
	}
	t.Logf("%d overlaps planted", planted)
	if planted < 10 {
		t.Errorf("only %d overlaps planted", planted)
	}
}

// TestLostAliasesAreFound takes the value at the edge of a loop or a branch,
// which must share its buffer with what comes in, to memory of its own.
func TestLostAliasesAreFound(t *testing.T) {
	c := newCompiler(t, "xla-2026-06")
	planted := 0
	for name, text := range family {
		p := c.assign(t, module(t, name, text))
		prog := read(t, p)
		for _, b := range p.BufferAssignment.LogicalBuffers {
			in := prog.Module.Instruction(idOf(p, b.DefinedAt.GetInstructionId()))
			if in == nil || in.Op != hlo.OpWhile && in.Op != hlo.OpConditional && in.Op != hlo.OpParameter {
				continue
			}
			leaf := in.Shape
			for _, n := range b.DefinedAt.ShapeIndex {
				leaf = leaf.Elements[n]
			}
			place, placed := prog.Places[memory.Location{Instruction: in, Path: pathOf(b.DefinedAt.ShapeIndex)}]
			if threadLocal(p, place.Allocation) { // a reducer's, not in the schedule
				continue
			}
			if !leaf.IsArray() || !placed || prog.Allocations[place.Allocation].Parameter >= 0 {
				continue
			}
			bad := proto.CloneOf(p)
			for _, a := range bad.BufferAssignment.BufferAllocations {
				a.Assigned = slices.DeleteFunc(a.Assigned, func(s *hlopb.BufferAllocationProto_Assigned) bool { return s.LogicalBufferId == b.Id })
			}
			bad.BufferAssignment.BufferAllocations = append(bad.BufferAssignment.BufferAllocations, &hlopb.BufferAllocationProto{Index: 1 << 20, Size: b.Size,
				Assigned: []*hlopb.BufferAllocationProto_Assigned{{LogicalBufferId: b.Id, Size: b.Size}}})
			planted++
			if r := memory.Check(read(t, bad)); len(r.Violations) == 0 {
				t.Errorf("%s: the lost alias of %s%v is not found", name, in.Name, b.DefinedAt.ShapeIndex)
			}
		}
	}
	t.Logf("%d aliases taken away", planted)
	if planted < 10 {
		t.Errorf("only %d aliases taken away", planted)
	}
}

func threadLocal(p *hlopb.HloProto, allocation int64) bool {
	return slices.ContainsFunc(p.BufferAssignment.BufferAllocations, func(a *hlopb.BufferAllocationProto) bool { return a.Index == allocation && a.IsThreadLocal })
}

func pathOf(index []int64) string {
	return "{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(index), " ", ","), "[]") + "}"
}

func TestDonatedInputMustShareItsBuffer(t *testing.T) {
	p := newCompiler(t, "xla-2026-06").assign(t, module(t, "donated", family["donated"]))
	p.HloModule.InputOutputAlias.Entries[0].ParameterNumber = 1
	r := memory.Check(read(t, p))
	kinds := map[memory.Kind]bool{}
	for _, v := range r.Violations {
		kinds[v.Kind] = true
	}
	if !kinds[memory.LostAlias] || !kinds[memory.Input] {
		t.Errorf("parameter 1 is donated now, parameter 0 is not: %+v", r.Violations)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0a\x02\x08\x01\x1a\x04\x1a\x02\x08\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := memory.Read(data); err == nil {
			memory.Check(p)
		}
	})
}
