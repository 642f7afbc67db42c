package worker

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/passgate/passgate/xla/pjrt/hlotest"
)

// aliased lets the result of a module that has an array for a result reuse parameter p.
func aliased(module []byte, p, kind uint64) []byte {
	var entry []byte
	entry = protowire.AppendVarint(protowire.AppendTag(entry, 2, protowire.VarintType), p)
	entry = protowire.AppendVarint(protowire.AppendTag(entry, 4, protowire.VarintType), kind)
	alias := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
	return protowire.AppendBytes(protowire.AppendTag(slices.Clone(module), 8, protowire.BytesType), alias)
}

func memoryRequest(module []byte, n int64) Request {
	set := func(x float32) []Array {
		var a, b []float32
		for i := range n {
			a, b = append(a, x+float32(i)), append(b, 2*x)
		}
		return []Array{{Type: hlotest.F32, Dims: []int64{n}, Data: f32s(a...)}, {Type: hlotest.F32, Dims: []int64{n}, Data: f32s(b...)}}
	}
	return Request{Program: module, Format: HLO, CheckMemory: true, Repeat: 2, Inputs: [][]Array{set(1), set(10)}}
}

// TestMemoryOfRealBuilds: nothing is wrong with a plain program, an aliased one and one that gives a parameter away, and
// the builds take all arguments where they lie.
func TestMemoryOfRealBuilds(t *testing.T) {
	for _, spec := range []string{"xla-2025-11", "xla-2026-06", "jax-0.11.2"} {
		t.Run(spec, func(t *testing.T) {
			p, b := newPool(t, Config{Workers: 1}), fetch(t, spec)
			for _, n := range []int64{1, 16, 1000, 5000} {
				add := hlotest.Add(n)
				donor := protowire.AppendBytes(protowire.AppendTag(slices.Clone(add), 18, protowire.BytesType),
					protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)))
				for name, module := range map[string][]byte{"plain": add, "may": aliased(add, 0, 1), "must": aliased(add, 1, 2), "donor": donor} {
					o := p.Do(t.Context(), b, memoryRequest(module, n))
					if o.Status != OK {
						t.Fatalf("%s, %d elements: %s: %s; log %q", name, n, o.Status, o.detail(), o.Log)
					}
					for i, s := range o.Result.Sets {
						if s.Failure != nil || len(s.Distinct) != 1 || s.Memory == nil {
							t.Fatalf("%s, %d elements, set %d: %+v", name, n, i, s)
						}
						if m := s.Memory; len(m.Faults) > 0 || m.Failure != nil || m.Guarded != 2 || m.Arguments != 4 || m.Concurrent != 12 || m.Again != 1 {
							t.Errorf("%s, %d elements, set %d: %+v", name, n, i, m)
						}
						if n := s.Distinct[0].Count; n != 2+2+12+1 {
							t.Errorf("%d executions", n)
						}
					}
				}
			}
		})
	}
}

// TestMemoryFaultsAreFound injects faults into the runs of real builds.
func TestMemoryFaultsAreFound(t *testing.T) {
	p := newPool(t, Config{Workers: 2})
	for _, spec := range []string{"fault:0:xla-2026-06", "fault:0:jax-0.11.2"} {
		b := fetch(t, spec)
		for _, kind := range MemoryFaults {
			n := int64(48)
			module := hlotest.Add(n)
			if kind == "spill" {
				n = 5 // bytes are left behind the argument
				module = aliased(hlotest.Add(n), 1, 1)
			}
			r := memoryRequest(module, n)
			r.Options = map[string]string{FaultOption: kind}
			o := p.Do(t.Context(), b, r)
			if want := map[string]string{"overwrite": "writes to argument 0, which is not donated", "overrun": "touches memory 1 bytes behind the end of argument 0",
				"overrun on a thread": "touches memory 1 bytes behind the end of argument 0", "underrun": fmt.Sprintf("touches memory %d bytes before argument 0", 4096-4*n+8)}[kind]; want != "" {
				if o.Status != Crashed || o.Crash.Signal != "SIGSEGV" || o.Crash.Guard == nil || o.Crash.Guard.String() != want {
					t.Errorf("%s, %s: %s, %+v, want %q; log %q", spec, kind, o.Status, o.Crash, want, o.Log)
				}
				continue
			}
			if o.Status != OK {
				t.Errorf("%s, %s: %s: %s", spec, kind, o.Status, o.detail())
				continue
			}
			s := o.Result.Sets[0]
			var got string
			for _, f := range s.Memory.Faults {
				got += f.String() + "; "
			}
			for _, d := range s.Distinct[1:] {
				got += d.Under + "; "
			}
			want := map[string]string{
				"change": "input changed: argument 0, 2 bytes from byte 1; ",
				"spill":  "memory beside an argument overwritten: argument 1, 1 bytes from byte 20; ",
				"alias":  "alias lost: argument 0 (the argument is still there after the execution that it was donated to); ",
				"race":   "in concurrent executions; ",
				"place":  "with guarded arguments; ",
			}[kind]
			if got != want {
				t.Errorf("%s, %s: %q, want %q", spec, kind, got, want)
			}
		}
	}
}

// TestBefore runs a program after others, which may be anything.
func TestBefore(t *testing.T) {
	p, b := newPool(t, Config{Workers: 1}), fetch(t, "jax-0.11.2")
	r := memoryRequest(hlotest.Add(4), 4)
	alone := p.DoFresh(t.Context(), b, r)
	other := memoryRequest(hlotest.Add(7), 7)
	r.Before = []Predecessor{{Program: other.Program, Format: HLO, Inputs: other.Inputs[0]}, {Program: []byte("no module"), Format: HLO}, {Program: []byte("neither"), Format: MLIR}}
	after := p.DoFresh(t.Context(), b, r)
	if alone.Status != OK || after.Status != OK {
		t.Fatalf("%s: %s, %s: %s", alone.Status, alone.detail(), after.Status, after.detail())
	}
	if x, y := alone.Result.Sets[0].Distinct[0].Outputs[0].Data, after.Result.Sets[0].Distinct[0].Outputs[0].Data; !slices.Equal(x, y) {
		t.Errorf("% x, then % x", x, y)
	}
}

// TestGuardFaultIsRead: every address around the arguments of a request means the argument that is nearest.
func TestGuardFaultIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 10_000), 1, 5).Draw(t, "sizes")
		set, place := rapid.IntRange(0, 3).Draw(t, "set"), rapid.IntRange(0, placements-1).Draw(t, "place")
		r := &Request{Inputs: make([][]Array, set+1)}
		for _, n := range sizes {
			r.Inputs[set] = append(r.Inputs[set], Array{Data: make([]byte, n)})
		}
		slots, ok := slotsOf(sizes, set, place)
		if !ok {
			t.Fatal("no room")
		}
		i := rapid.IntRange(0, len(sizes)-1).Draw(t, "argument")
		s := slots[i]
		if s.data%placeAlign != 0 || s.end-s.data != uintptr(sizes[i]) || s.data < s.first || s.end > s.last || i > 0 && s.first < slots[i-1].last+guardSize {
			t.Fatalf("slot %+v", s)
		}
		at := rapid.Uint64Range(uint64(s.first)-guardSize/2, uint64(s.last)+guardSize/2-1).Draw(t, "address")
		g := r.guardFault(uintptr(at))
		if g == nil || g.Set != set || g.Argument != i {
			t.Fatalf("%#x in %+v: %v", at, s, g)
		}
		switch inside := uintptr(at) >= s.data && uintptr(at) < s.end; {
		case inside != (g.Distance == 0):
			t.Fatalf("%#x in %+v: %v", at, s, g)
		case g.Distance < 0 && uintptr(at) != s.data-uintptr(-g.Distance), g.Distance > 0 && uintptr(at) != s.end+uintptr(g.Distance)-1:
			t.Fatalf("%#x in %+v: %v", at, s, g)
		}
	})
	r := &Request{Inputs: [][]Array{{{Data: make([]byte, 8)}}}}
	for _, at := range []uintptr{0, 8, 0x7f00_0000_0000, arenaBase + 1<<setShift, arenaBase + placements<<placeShift} {
		if g := r.guardFault(at); g != nil {
			t.Errorf("%#x: %v", at, g)
		}
	}
}
