package worker

import (
	"fmt"
	"syscall"
	"unsafe"
)

// onFault and onFaultAddress are in guard_amd64.s, which alone uses the first
// and the variable.
//
//lint:ignore U1000 used in assembly
func onFault()
func onFaultAddress() uintptr

// faultHandler is the signal handler that onFault goes on to.
//
//lint:ignore U1000 used in assembly
var faultHandler uintptr

// watchFaults puts onFault before the handler of SIGSEGV. The Go runtime does not report the address of a fault on a
// thread that is not its own, where most of a build's code runs.
func watchFaults() error {
	const set = 8 // bytes of sigset_t
	var act struct{ handler, flags, restorer, mask uintptr }
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGSEGV), 0, uintptr(unsafe.Pointer(&act)), set, 0, 0); errno != 0 {
		return fmt.Errorf("read the handler of SIGSEGV: %w", errno)
	}
	if act.handler == onFaultAddress() {
		return nil
	}
	faultHandler = act.handler
	act.handler = onFaultAddress()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGSEGV), uintptr(unsafe.Pointer(&act)), 0, set, 0, 0); errno != 0 {
		return fmt.Errorf("set the handler of SIGSEGV: %w", errno)
	}
	return nil
}
