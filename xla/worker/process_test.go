package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/passgate/passgate/xla/worker/wire"
)

func TestFatalLines(t *testing.T) {
	for line, want := range map[string]*Check{
		"F0000 00:00:1796202817.493104   18760 shape.cc:56] Check failed: a == b (1 vs. 2)":                                                  {"shape.cc", 56, "Check failed: a == b (1 vs. 2)"},
		"F1202 09:23:41.708247   27382 jax_jit.cc:88] Check failed: state != nullptr ":                                                       {"jax_jit.cc", 88, "Check failed: state != nullptr "},
		"2026-12-02 09:22:46.871762: F external/xla/xla/pjrt/tfrt_cpu_pjrt_client.cc:461] Check failed: false":                               {"external/xla/xla/pjrt/tfrt_cpu_pjrt_client.cc", 461, "Check failed: false"},
		"worker: /src/lib/IR/Instr.cpp:123: void llvm::f(): Assertion `x > 0' failed.":                                                       {"/src/lib/IR/Instr.cpp", 123, "void llvm::f(): Assertion `x > 0' failed."},
		"LLVM ERROR: Cannot select: t5: f32 = bitcast":                                                                                       {"", 0, "LLVM ERROR: Cannot select: t5: f32 = bitcast"},
		"terminate called after throwing an instance of 'std::bad_alloc'":                                                                    {"", 0, "terminate called after throwing an instance of 'std::bad_alloc'"},
		"E0000 00:00:1796202817.493104   18760 common_pjrt_client.cc:2654] ExecutePrepareWithOomRetries failed: INVALID_ARGUMENT: Execution": nil,
		"libc++abi: terminating due to uncaught exception of type std::out_of_range: Span::at failed bounds check":                           {"", 0, "libc++abi: terminating due to uncaught exception of type std::out_of_range: Span::at failed bounds check"},
		"SIGABRT: abort": nil,
		"":               nil,
	} {
		got := checkOf(line)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}

// TestLogRing compares the ring with the plain text, however it is cut into writes.
func TestLogRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.IntRange(1, 5).Draw(t, "keep")
		writes := rapid.SliceOf(rapid.StringMatching(`[ab\n]{0,6}`)).Draw(t, "writes")
		at := rapid.IntRange(0, len(writes)).Draw(t, "mark at")
		r := newLogRing(keep)
		mark := 0
		for i, w := range writes {
			if i == at {
				mark = r.mark()
			}
			if n, err := r.Write([]byte(w)); n != len(w) || err != nil {
				t.Fatal(n, err)
			}
		}
		if at == len(writes) {
			mark = r.mark()
		}
		lines := strings.Split(strings.Join(writes, ""), "\n")
		full, partial := lines[:len(lines)-1], lines[len(lines)-1]
		from := max(len(full)-keep, mark, 0)
		want := slices.Clone(full[min(from, len(full)):])
		if partial != "" {
			want = append(want, partial)
		}
		if got := r.since(mark); !slices.Equal(got, want) {
			t.Fatalf("%q since %d: %q, want %q", writes, mark, got, want)
		}
	})
}

func TestLogEndsBeforeGoroutines(t *testing.T) {
	r := newLogRing(10)
	fmt.Fprint(r, "F0000 a.cc:1] x\nPC=not yet\nSIGABRT: abort\nPC=0x1 m=0\n\ngoroutine 1\n")
	if got, want := r.last(0), []string{"F0000 a.cc:1] x", "PC=not yet", "SIGABRT: abort"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLongLogLine(t *testing.T) {
	r := newLogRing(10)
	for range 3 {
		fmt.Fprint(r, strings.Repeat("x", 3000))
	}
	fmt.Fprint(r, "\n\xff\n")
	if got := r.last(0); len(got) != 2 || len(got[0]) != maxLogLine || got[1] != "\uFFFD" {
		t.Errorf("%d lines, first of %d bytes", len(got), len(got[0]))
	}
}

func TestTally(t *testing.T) {
	var c tally
	out := func(dims []int64, data ...byte) []*wire.Array {
		return []*wire.Array{{Type: 6, Dims: dims, Data: data}}
	}
	for _, o := range [][]*wire.Array{out([]int64{2}, 1, 2), out([]int64{2}, 1, 3), out([]int64{2}, 1, 2), out([]int64{1, 2}, 1, 2), out([]int64{2}, 1, 3)} {
		c.add(o, "")
	}
	var got []string
	for _, d := range c.distinct {
		got = append(got, fmt.Sprint(d.GetCount(), d.GetFirst()))
	}
	if want := []string{"2 0", "2 1", "1 3"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRequestCheck(t *testing.T) {
	p := newPool(t, Config{})
	for _, r := range []Request{{}, {Format: "hlo_text"}, {Format: HLO, DumpDir: "relative"}, {Format: HLO, Repeat: -1}, {Format: HLO, CompileOnly: true, Inputs: [][]Array{{}}}} {
		for _, o := range []Outcome{p.Do(t.Context(), nil, r), p.DoFresh(t.Context(), nil, r)} {
			if o.Status != Infrastructure || !strings.HasPrefix(o.Err.Error(), "request: ") {
				t.Errorf("%+v: %s %v", r, o.Status, o.Err)
			}
		}
	}
	for _, cfg := range []Config{{}, {Command: []string{"x"}, Workers: -1}, {Command: []string{"x"}, MemoryLimit: -1}} {
		if _, err := NewPool(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// panicking is an engine with a bug.
type panicking struct{ echo }

func (panicking) serve(*wire.Request) *wire.Response { panic(errors.New("bug")) }

func TestWorkerPanicIsOurs(t *testing.T) {
	resp := answer(panicking{}, &wire.Request{Id: 7})
	if resp.GetId() != 7 || !strings.HasPrefix(resp.GetTrouble(), "panic: bug\n") {
		t.Errorf("%v", resp)
	}
}
