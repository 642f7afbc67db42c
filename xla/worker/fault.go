package worker

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker/wire"
)

// FaultOption is the option by which a request asks a fault build for one of Faults.
const FaultOption = "passgate_fault"

// Faults are the faults of a fault build, each a way in which a worker process can fail a request ("noise" is one that it
// must survive).
var Faults = []string{"segv", "abort", "check", "hang", "memory", "garbage", "truncate", "exit", "closed", "noise", "internal"}

// MemoryFaults are the faults that a fault build with a real build inside injects into runs with Request.CheckMemory.
var MemoryFaults = []string{"change", "spill", "alias", "overwrite", "overrun", "underrun", "overrun on a thread", "race", "place"}

// injectMemory lets the next run's memory be tampered with.
func (e *plugin) injectMemory(kind string) {
	e.tamper, e.confuse = nil, nil
	set := func(at uintptr, n int) { purego.SyscallN(libc("memset"), at, 0xee, uintptr(n)) }
	switch kind {
	case "change": // an argument that the caller keeps, behind the kernel's back
		e.tamper = func(_ *checkup, a *arena) {
			if err := protect(a.slots[0], syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
				panic(err)
			}
			set(a.slots[0].data+1, 2)
		}
	case "spill": // one byte behind a donated argument
		e.tamper = func(_ *checkup, a *arena) {
			for i, readOnly := range a.readOnly {
				if !readOnly {
					set(a.slots[i].end, 1)
				}
			}
		}
	case "alias": // the module asked for an alias that the build knows nothing of
		e.tamper = func(k *checkup, _ *arena) {
			entry := *k.entry
			entry.Donations = append(slices.Clone(entry.Donations), pjrt.Donation{Must: true})
			k.entry = &entry
		}
	case "overwrite":
		e.tamper = func(_ *checkup, a *arena) { set(a.slots[0].data, 1) }
	case "overrun":
		e.tamper = func(_ *checkup, a *arena) { purego.SyscallN(libc("strlen"), a.slots[0].last) }
	case "underrun":
		e.tamper = func(_ *checkup, a *arena) { set(a.slots[0].first-8, 1) }
	case "overrun on a thread": // that is not Go's, like those of a build
		e.tamper = func(_ *checkup, a *arena) {
			var thread uintptr
			purego.SyscallN(libc("pthread_create"), uintptr(unsafe.Pointer(&thread)), 0, libc("strlen"), a.slots[0].last)
			forever()
		}
	case "race":
		e.confuse = func(results [][]*wire.Array) {
			last := results[len(results)-1][0]
			last.Data = slices.Clone(last.Data)
			last.Data[0] ^= 1
		}
	case "place": // results that depend on where the arguments lie
		e.tamper = func(k *checkup, _ *arena) { k.confuse = true }
	}
}

// echo is the engine of a fault build without an inner build: the outputs of a program are its arguments.
type echo struct{}

func (echo) hello() (*wire.Hello, error) {
	return &wire.Hello{Platform: "fault", PlatformVersion: "echo", Api: "0", Devices: 1}, nil
}

func (echo) serve(r *wire.Request) *wire.Response {
	resp := &wire.Response{Supported: r.GetProbe()}
	if r.GetCompileOnly() {
		return resp
	}
	for _, in := range r.GetInputs() {
		resp.Sets = append(resp.Sets, &wire.Set{Distinct: []*wire.Distinct{{Outputs: in.GetArrays(), Count: max(r.GetRepeat(), 1)}}})
	}
	return resp
}

// faulty injects faults in front of an engine: on requests that ask for one by FaultOption, and in one program in every
// `every`, chosen, like the kind of fault, by a hash of the program: the same program fails the same way again.
type faulty struct {
	inner engine
	every int
	out   *os.File
	kept  [][]byte
}

func (f *faulty) hello() (*wire.Hello, error) { return f.inner.hello() }

func (f *faulty) serve(r *wire.Request) *wire.Response {
	kind, asked := r.GetOptions()[FaultOption]
	if asked {
		delete(r.Options, FaultOption)
	} else if f.every > 0 && len(r.GetProbe()) == 0 {
		h := fnv.New64a()
		h.Write(r.GetProgram())
		if sum := h.Sum64(); sum%uint64(f.every) == 0 {
			kind = Faults[sum/uint64(f.every)%uint64(len(Faults))]
		}
	}
	if p, ok := f.inner.(*plugin); ok {
		p.injectMemory(kind)
		if slices.Contains(MemoryFaults, kind) {
			kind = ""
		}
	}
	switch kind {
	case "":
	case "segv": // in C code, as in a plugin
		purego.SyscallN(libc("strlen"), 8)
	case "abort":
		purego.SyscallN(libc("abort"))
	case "check":
		fmt.Fprintln(os.Stderr, "F0000 00:00:1700000000.000000    1234 fault.cc:42] Check failed: injected")
		purego.SyscallN(libc("abort"))
	case "hang":
		forever()
	case "memory":
		var hoard [][]byte
		for {
			b := make([]byte, 64<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			hoard = append(hoard, b)
			time.Sleep(time.Duration(len(hoard)) * time.Millisecond)
		}
	case "garbage":
		f.write("this is not a frame, however long one looks at it\n")
		forever()
	case "truncate":
		f.write("pgw1\x00\x10\x00\x00\x01\x02\x03\x04half")
		os.Exit(0)
	case "exit":
		os.Exit(0)
	case "closed": // output closed, process alive
		f.out.Close()
		forever()
	case "noise": // a plugin that prints to standard output: harmless
		os.Stdout.WriteString("pgw1 noise on standard output\n")
	case "grow": // serves the request, but keeps 128 MiB
		b := make([]byte, 128<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		f.kept = append(f.kept, b)
	case "internal":
		return &wire.Response{Failure: &wire.Failure{Stage: string(StageCompile), Code: int32(pjrt.Internal), Message: "injected"}}
	default:
		panic("unknown fault " + kind)
	}
	return f.inner.serve(r)
}

func (f *faulty) write(s string) {
	if _, err := f.out.WriteString(s); err != nil {
		panic(err)
	}
}

func libc(name string) uintptr {
	fn, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
	if err != nil {
		panic(err)
	}
	return fn
}

func forever() {
	for {
		time.Sleep(time.Hour)
	}
}
