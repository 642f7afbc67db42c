package worker

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker/wire"
)

// Arguments between guard pages. Each lies in pages of its own, as close to their end or to their start as its alignment
// allows; what is left of the pages holds a pattern, and pages that nobody may touch lie on both sides. An argument that
// the program does not own is read-only. Where all this lies follows from the request alone (slotsOf), so that the pool
// can tell what an address means at which a process died.

const (
	// arenaBase is far from where Linux puts programs, libraries, heaps and stacks on x86-64; sets and placements have
	// parts of their own behind it.
	arenaBase   = uintptr(0x2a00_0000_0000)
	setShift    = 36
	placeShift  = 32
	maxSets     = 64
	guardSize   = 64 << 10
	pageSize    = 4 << 10
	placeAlign  = 64 // XLA's alignment of buffers (Align in xla/backends/cpu/alignment.h)
	canaryByte  = 0xc3
	maxGuarded  = 64 << 20 // bytes of arguments; beyond that nothing is guarded
	atEnd       = 0        // the argument ends at the guard
	atStart     = 1        // the argument starts at the guard
	placements  = 2
	concurrency = 4 // executions at a time
	rounds      = 3 // of each
)

// slowRun is the time of an execution above which fewer run at the same time.
const slowRun = 50 * time.Millisecond

// slot is the place of one argument: pages [first, last) around data, between guards.
type slot struct {
	first, data, end, last uintptr
}

// slotsOf places arguments of the given sizes in bytes; ok is false if they are too large or too many.
func slotsOf(sizes []int, set, place int) (slots []slot, ok bool) {
	if set >= maxSets {
		return nil, false
	}
	at := arenaBase + uintptr(set)<<setShift + uintptr(place)<<placeShift
	limit := at + 1<<placeShift
	total := 0
	for _, n := range sizes {
		if total += n; total > maxGuarded {
			return nil, false
		}
		at += guardSize
		s := slot{first: at, last: at + roundUp(uintptr(max(n, 1)), pageSize)}
		s.data = s.first
		if place == atEnd {
			s.data = s.last - roundUp(uintptr(max(n, 1)), placeAlign)
		}
		s.end = s.data + uintptr(n)
		slots = append(slots, s)
		at = s.last
	}
	return slots, at+guardSize <= limit
}

func roundUp(n, to uintptr) uintptr { return (n + to - 1) / to * to }

// GuardFault is an access outside the arguments of a program, or a write to one that is not its own.
type GuardFault struct {
	// Set and Argument number the input set and the argument that is nearest.
	Set, Argument int
	// Distance is the number of bytes before the argument's start (negative) or behind its last byte (positive); 0 is
	// inside: a write to an argument that the caller keeps.
	Distance int64
}

// Kind is "input overwritten" or "memory beside an argument touched".
func (g *GuardFault) Kind() string {
	if g.Distance == 0 {
		return "input overwritten"
	}
	return "memory beside an argument touched"
}

func (g *GuardFault) String() string {
	switch {
	case g.Distance < 0:
		return fmt.Sprintf("touches memory %d bytes before argument %d", -g.Distance, g.Argument)
	case g.Distance > 0:
		return fmt.Sprintf("touches memory %d bytes behind the end of argument %d", g.Distance, g.Argument)
	}
	return fmt.Sprintf("writes to argument %d, which is not donated", g.Argument)
}

// guardFault reads the address at which a process died while it served the request; nil if it lies elsewhere.
func (r *Request) guardFault(address uintptr) *GuardFault {
	if address < arenaBase {
		return nil
	}
	off := address - arenaBase
	set, place := int(off>>setShift), int(off>>placeShift)&(1<<(setShift-placeShift)-1)
	if set >= len(r.Inputs) || place >= placements {
		return nil
	}
	var sizes []int
	for _, a := range r.Inputs[set] {
		sizes = append(sizes, len(a.Data))
	}
	slots, ok := slotsOf(sizes, set, place)
	if !ok {
		return nil
	}
	for i, s := range slots {
		if address < s.first-guardSize/2 && i > 0 || address >= s.last+guardSize/2 && i < len(slots)-1 {
			continue
		}
		g := &GuardFault{Set: set, Argument: i}
		switch {
		case address < s.data:
			g.Distance = int64(address) - int64(s.data)
		case address >= s.end:
			g.Distance = int64(address-s.end) + 1
		}
		return g
	}
	return nil
}

// arena is mapped memory for the arguments of one execution.
type arena struct {
	slots    []slot
	lo, hi   uintptr
	readOnly []bool
}

// mapArena maps the slots, with the data in them and the pattern around it. An argument that is not in owned becomes
// read-only.
func mapArena(slots []slot, data [][]byte, owned []bool) (*arena, error) {
	a := &arena{slots: slots, lo: slots[0].first - guardSize, hi: slots[len(slots)-1].last + guardSize, readOnly: make([]bool, len(slots))}
	// MAP_FIXED_NOREPLACE fails where something is mapped already.
	const fixedNoReplace = 0x100000
	got, _, errno := syscall.Syscall6(syscall.SYS_MMAP, a.lo, a.hi-a.lo, syscall.PROT_NONE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE|fixedNoReplace, ^uintptr(0), 0)
	if errno != 0 {
		return nil, fmt.Errorf("map guarded memory: %w", errno)
	}
	if got != a.lo { // a kernel before 4.17 takes the address for a wish
		_, _, _ = syscall.Syscall(syscall.SYS_MUNMAP, got, a.hi-a.lo, 0)
		return nil, fmt.Errorf("map guarded memory: %w", syscall.EEXIST)
	}
	for i, s := range slots {
		if err := protect(s, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
			return nil, errors.Join(err, a.unmap())
		}
		m := bytesAt(s.first, s.last)
		for k := range m {
			m[k] = canaryByte
		}
		copy(m[s.data-s.first:], data[i])
		if !owned[i] {
			if err := protect(s, syscall.PROT_READ); err != nil {
				return nil, errors.Join(err, a.unmap())
			}
			a.readOnly[i] = true
		}
	}
	return a, nil
}

func protect(s slot, prot uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_MPROTECT, s.first, s.last-s.first, prot); errno != 0 {
		return fmt.Errorf("protect guarded memory: %w", errno)
	}
	return nil
}

func (a *arena) unmap() error {
	if _, _, errno := syscall.Syscall(syscall.SYS_MUNMAP, a.lo, a.hi-a.lo, 0); errno != 0 {
		return fmt.Errorf("unmap guarded memory: %w", errno)
	}
	return nil
}

// bytesAt is mapped memory as a slice. The address is not the garbage collector's business.
func bytesAt(from, to uintptr) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&from)), to-from)
}

// argument is the memory of argument i.
func (a *arena) argument(i int) []byte { return bytesAt(a.slots[i].data, a.slots[i].end) }

// spilled finds bytes of the pattern around argument i that were overwritten: the first one, counted from the argument's
// start, and how many.
func (a *arena) spilled(i int) (first, n int64) {
	s := a.slots[i]
	look := func(from, to uintptr) {
		for k, b := range bytesAt(from, to) {
			if b != canaryByte {
				if n == 0 {
					first = int64(from) + int64(k) - int64(s.data)
				}
				n++
			}
		}
	}
	look(s.first, s.data)
	look(s.end, s.last)
	return first, n
}

// checkup looks at the memory of one input set and at what its results depend on. The results are added to the tally.
type checkup struct {
	e      *plugin
	x      *pjrt.Executable
	entry  *pjrt.EntryShapes
	arrays []*wire.Array
	set    int
	slow   bool
	tally  *tally
	out    *wire.Memory

	confuse bool // an injected fault: the guarded run gives another result
}

func (k *checkup) fault(kind FaultKind, argument int, first, n int64, text string) {
	for _, f := range k.out.GetFaults() {
		if f.GetKind() == string(kind) && f.GetArgument() == int32(argument) {
			return
		}
	}
	k.out.Faults = append(k.out.Faults, &wire.MemoryFault{Kind: string(kind), Argument: int32(argument), Byte: first, Bytes: n, Text: text})
}

// donations are the module's, by argument.
func (k *checkup) donations() map[int]pjrt.Donation {
	out := map[int]pjrt.Donation{}
	if k.entry != nil {
		for _, d := range k.entry.Donations {
			if d.Argument >= 0 && d.Argument < len(k.arrays) {
				out[d.Argument] = d
			}
		}
	}
	return out
}

// guarded executes the program with its arguments between guards, in both placements.
func (k *checkup) guarded() *wire.Failure {
	if len(k.arrays) == 0 {
		return nil
	}
	var sizes []int
	var data [][]byte
	for i, a := range k.arrays {
		d := a.GetData()
		if k.entry != nil {
			var err error
			if d, err = pjrt.InLayout(a.GetType(), a.GetDims(), k.entry.ArgumentLayout(i), d); err != nil {
				return failure(StageArguments, err)
			}
		}
		if len(d) == 0 {
			return nil // an empty array has no memory
		}
		data, sizes = append(data, d), append(sizes, len(d))
	}
	for place := range placements {
		slots, ok := slotsOf(sizes, k.set, place)
		if !ok {
			return nil
		}
		if f := k.guardedRun(slots, data); f != nil {
			return f
		}
	}
	return nil
}

func (k *checkup) guardedRun(slots []slot, data [][]byte) (fail *wire.Failure) {
	given := k.donations()
	owned := make([]bool, len(slots))
	for i := range owned {
		_, owned[i] = given[i]
	}
	a, err := mapArena(slots, data, owned)
	if err != nil {
		return nil // the address is taken: nothing can be guarded here
	}
	var args, outputs []*pjrt.Buffer
	note := func(err error) {
		if err != nil && fail == nil {
			fail = failure(StageArguments, err)
		}
	}
	defer func() {
		for _, b := range slices.Concat(args, outputs) {
			note(b.Close())
		}
		for _, b := range args {
			note(b.Released())
		}
		note(a.unmap())
	}()
	inPlace := make([]bool, len(slots))
	for i, arr := range k.arrays {
		b, err := k.e.client.BufferFromMemory(arr.GetType(), arr.GetDims(), a.argument(i), owned[i])
		if err != nil {
			return failure(StageArguments, fmt.Errorf("argument %d: %w", i, err))
		}
		args = append(args, b)
		if at, err := b.Address(); err == nil && at == slots[i].data {
			inPlace[i] = true
			k.out.Arguments++
		}
	}
	if outputs, err = k.x.Execute(args, false); err != nil {
		return failure(StageExecute, err)
	}
	k.out.Guarded++
	if k.e.tamper != nil {
		k.e.tamper(k, a)
		given = k.donations()
	}
	var gone []bool
	for i, b := range args {
		deleted, err := b.Deleted()
		if err != nil {
			return failure(StageArguments, err)
		}
		gone = append(gone, deleted)
		d, donated := given[i]
		switch {
		case !donated && deleted:
			k.fault(InputDeleted, i, 0, 0, "")
		case donated && d.Must && !deleted:
			k.fault(AliasLost, i, 0, 0, "the argument is still there after the execution that it was donated to")
		}
		if d.Must && d.Output >= 0 && d.Output < len(outputs) && inPlace[i] {
			if at, err := outputs[d.Output].Address(); err == nil && at != slots[i].data {
				k.fault(AliasLost, i, 0, 0, fmt.Sprintf("output %d does not lie in the memory of the argument", d.Output))
			}
		}
	}
	results, f := read(outputs)
	if f != nil {
		return f
	}
	if k.confuse {
		results[0].Data[0] ^= 1
	}
	k.tally.add(results, "with guarded arguments")
	for i := range slots {
		if !gone[i] && !bytes.Equal(a.argument(i), data[i]) {
			first, n := differing(a.argument(i), data[i])
			k.fault(InputChanged, i, first, n, "")
		}
		if first, n := a.spilled(i); n > 0 {
			k.fault(Spill, i, first, n, "")
		}
	}
	return nil
}

func differing(a, b []byte) (first, n int64) {
	for i := range a {
		if a[i] != b[i] {
			if n == 0 {
				first = int64(i)
			}
			n++
		}
	}
	return first, n
}

// concurrent executes the program several times at once: on the same arguments, or on copies where the program takes
// their memory.
func (k *checkup) concurrent() *wire.Failure {
	keep := k.entry != nil && !k.entry.Aliased
	var shared []*pjrt.Buffer
	if keep {
		var f *wire.Failure
		if shared, f = k.e.transfer(k.entry, k.arrays); f != nil {
			return f
		}
		defer closeAll(shared)
	}
	var mu sync.Mutex
	var results [][]*wire.Array
	var fail *wire.Failure
	start := make(chan struct{})
	var wg sync.WaitGroup
	n, rounds := concurrency, rounds
	if k.slow {
		n, rounds = 2, 1
	}
	for range n {
		wg.Go(func() {
			<-start
			for range rounds {
				got, f := func() ([]*wire.Array, *wire.Failure) {
					args := shared
					if !keep {
						var f *wire.Failure
						if args, f = k.e.transfer(k.entry, k.arrays); f != nil {
							return nil, f
						}
						defer closeAll(args)
					}
					return execute(k.x, args, keep)
				}()
				mu.Lock()
				if fail == nil {
					fail = f
				}
				results = append(results, got)
				mu.Unlock()
				if f != nil {
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
	if fail != nil {
		return fail
	}
	if k.e.confuse != nil {
		k.e.confuse(results)
	}
	for _, r := range results {
		k.out.Concurrent++
		k.tally.add(r, "in concurrent executions")
	}
	return nil
}

// again executes the program once more, after other inputs.
func (k *checkup) again() *wire.Failure {
	args, f := k.e.transfer(k.entry, k.arrays)
	if f != nil {
		return f
	}
	defer closeAll(args)
	results, f := execute(k.x, args, false)
	if f != nil {
		return f
	}
	k.out.Again++
	k.tally.add(results, "after other inputs")
	return nil
}

// checkMemory examines all input sets of a request that ran without trouble.
func (e *plugin) checkMemory(x *pjrt.Executable, entry *pjrt.EntryShapes, r *wire.Request, resp *wire.Response, tallies []*tally, slow bool) {
	var all []*checkup
	for i, in := range r.GetInputs() {
		set := resp.Sets[i]
		if set.GetFailure() != nil {
			return
		}
		set.Memory = &wire.Memory{}
		all = append(all, &checkup{e: e, x: x, entry: entry, arrays: in.GetArrays(), set: i, slow: slow, tally: tallies[i], out: set.Memory})
	}
	examine := func(i int, f func() *wire.Failure) {
		if fail := f(); fail != nil && all[i].out.Failure == nil {
			all[i].out.Failure = fail
		}
	}
	for i, k := range all {
		examine(i, k.guarded)
		examine(i, k.concurrent)
	}
	for i, k := range slices.Backward(all) {
		examine(i, k.again)
	}
	for i, k := range all {
		resp.Sets[i].Distinct = k.tally.distinct
	}
}

// runBefore runs a predecessor; what becomes of it does not matter.
func (e *plugin) runBefore(p *wire.Predecessor) {
	var entry *pjrt.EntryShapes
	if p.GetFormat() == string(HLO) {
		var err error
		if entry, err = pjrt.ParseEntry(p.GetProgram()); err != nil {
			return
		}
	}
	x, _, err := e.compile(&wire.Request{Program: p.GetProgram(), Format: p.GetFormat()}, entry)
	if err != nil {
		return
	}
	e.runSet(x, entry, p.GetInputs().GetArrays(), 1, time.Duration(0))
	_ = x.Close()
}

// FaultKind is what is wrong with the memory of a run.
type FaultKind string

const (
	// InputChanged: an argument that was not donated has other bytes after the run.
	InputChanged FaultKind = "input changed"
	// InputDeleted: an argument that was not donated is gone after the run.
	InputDeleted FaultKind = "input taken"
	// AliasLost: a donated argument was not used as the alias says.
	AliasLost FaultKind = "alias lost"
	// Spill: bytes around an argument were overwritten.
	Spill FaultKind = "memory beside an argument overwritten"
)

// MemoryFault is a fault of a run's memory.
type MemoryFault struct {
	Kind     FaultKind
	Argument int
	// First is the first byte concerned, counted from the argument's start, Bytes their number; 0 and 0 for kinds that
	// concern the whole argument.
	First, Bytes int64
	Text         string
}

func (f MemoryFault) String() string {
	s := fmt.Sprintf("%s: argument %d", f.Kind, f.Argument)
	if f.Bytes > 0 {
		s += fmt.Sprintf(", %d bytes from byte %d", f.Bytes, f.First)
	}
	if f.Text != "" {
		s += " (" + f.Text + ")"
	}
	return s
}

// Memory is what Request.CheckMemory saw of one input set.
type Memory struct {
	// Guarded counts executions with arguments between guard pages, Arguments the arguments that the build took where
	// they lay, Concurrent the executions at the same time, Again those after other inputs.
	Guarded, Arguments, Concurrent, Again int
	Faults                                []MemoryFault
	// Failure is the first execution that failed, nil if none did.
	Failure *Failure
}

func memoryOf(m *wire.Memory) *Memory {
	if m == nil {
		return nil
	}
	out := &Memory{Guarded: int(m.GetGuarded()), Arguments: int(m.GetArguments()), Concurrent: int(m.GetConcurrent()), Again: int(m.GetAgain())}
	if f := m.GetFailure(); f != nil {
		out.Failure = failureOf(f)
	}
	for _, f := range m.GetFaults() {
		out.Faults = append(out.Faults, MemoryFault{FaultKind(f.GetKind()), int(f.GetArgument()), f.GetByte(), f.GetBytes(), f.GetText()})
	}
	return out
}
