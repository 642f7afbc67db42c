// Package pjrt binds the PJRT C API of XLA plugins without cgo.
//
// A plugin is a shared object that exports GetPjrtApi, a table of functions in fixed order that only ever grows at its
// end. The structures here follow xla/pjrt/c/pjrt_c_api.h of C API 0.78 and hold for every later minor version of major 0:
// fields are only appended, and every structure says its size. Before a table slot is used its place is checked against
// the size that the plugin reports and the slot against null.
//
// The structures assume 64-bit little-endian Linux.
//
// A plugin can abort or corrupt its process. Load it only in a process that may die: package worker does.
package pjrt

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Slots of the function table, in the order of PJRT_Api in pjrt_c_api.h.
const (
	slotErrorDestroy            = 0
	slotErrorMessage            = 1
	slotErrorGetCode            = 2
	slotPluginInitialize        = 3
	slotEventDestroy            = 5
	slotEventAwait              = 8
	slotClientCreate            = 10
	slotClientDestroy           = 11
	slotClientPlatformName      = 12
	slotClientPlatformVersion   = 14
	slotClientAddressable       = 16
	slotClientCompile           = 20
	slotBufferFromHost          = 22
	slotExecutableDestroy       = 40
	slotExecutableNumOutputs    = 44
	slotExecutableOptimized     = 48
	slotLoadedDestroy           = 50
	slotLoadedGetExecutable     = 51
	slotLoadedExecute           = 55
	slotBufferDestroy           = 58
	slotBufferElementType       = 59
	slotBufferDimensions        = 60
	slotBufferMemoryLayout      = 63
	slotBufferIsDeleted         = 68
	slotBufferToHost            = 70
	slotBufferUnsafePointer     = 73
	slotTopologyCreate          = 82
	slotTopologyDestroy         = 83
	slotTopologyPlatformName    = 84
	slotTopologyPlatformVersion = 85
	slotCompile                 = 89
	maxSlots                    = 1024
)

// MinMinor is the oldest minor version of the C API (major 0) whose structures are known to match.
const MinMinor = 78

type extension struct {
	_    uintptr // struct_size
	kind int32
	next *extension
}

type apiTable struct {
	size    uintptr
	ext     *extension
	version struct {
		size         uintptr
		ext          *extension
		major, minor int32
	}
	slots [maxSlots]uintptr
}

// ErrNotInAPI reports a function that the plugin's table does not have.
var ErrNotInAPI = errors.New("not in this plugin's PJRT API")

// Plugin is a loaded plugin. It stays loaded until the process ends: XLA's libraries do not survive unloading.
type Plugin struct {
	api  *apiTable
	path string
}

// Open loads the plugin at path and initialises it. Safe to call once per plugin and process.
func Open(path string) (*Plugin, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load plugin: %w", err)
	}
	sym, err := purego.Dlsym(lib, "GetPjrtApi")
	if err != nil {
		return nil, fmt.Errorf("%s is not a PJRT plugin: it does not export GetPjrtApi", path)
	}
	r, _, _ := purego.SyscallN(sym)
	if r == 0 {
		return nil, fmt.Errorf("%s: GetPjrtApi returned null", path)
	}
	p := &Plugin{api: *(**apiTable)(unsafe.Pointer(&r)), path: path}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var args struct{ header }
	if err := p.call("PJRT_Plugin_Initialize", slotPluginInitialize, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Plugin) check() error {
	if p.api.size < unsafe.Offsetof(p.api.slots) {
		return fmt.Errorf("PJRT API table of %d bytes is too short", p.api.size)
	}
	major, minor := p.Version()
	if major != 0 || minor < MinMinor {
		return fmt.Errorf("PJRT C API %d.%d is not supported: want 0.%d or a later 0.x", major, minor, MinMinor)
	}
	return nil
}

// Version is the plugin's C API version.
func (p *Plugin) Version() (major, minor int) {
	return int(p.api.version.major), int(p.api.version.minor)
}

// Extensions are the PJRT_Extension_Type numbers that the plugin offers, in its order.
func (p *Plugin) Extensions() []int32 {
	var kinds []int32
	for e := p.api.ext; e != nil && len(kinds) < 256; e = e.next {
		kinds = append(kinds, e.kind)
	}
	return kinds
}

// header starts every argument structure of the C API.
type header struct {
	size uintptr
	ext  *extension
}

// slot returns the function at table index i, or ErrNotInAPI.
func (p *Plugin) slot(name string, i int) (uintptr, error) {
	end := unsafe.Offsetof(p.api.slots) + uintptr(i+1)*unsafe.Sizeof(uintptr(0))
	if i >= maxSlots || end > p.api.size || p.api.slots[i] == 0 {
		return 0, fmt.Errorf("%s: %w", name, ErrNotInAPI)
	}
	return p.api.slots[i], nil
}

// call runs the function at table index i on the argument structure at args, whose size field it fills in, and turns
// the PJRT_Error that it returns, if any, into an *Error.
func (p *Plugin) call(name string, i int, args unsafe.Pointer, size uintptr) error {
	fn, err := p.slot(name, i)
	if err != nil {
		return err
	}
	(*header)(args).size = size
	r, _, _ := purego.SyscallN(fn, uintptr(args))
	runtime.KeepAlive(args)
	if r == 0 {
		return nil
	}
	return p.takeError(name, r)
}

// takeError reads and destroys a PJRT_Error.
func (p *Plugin) takeError(name string, handle uintptr) error {
	e := &Error{Call: name, Code: Unknown}
	if fn, err := p.slot("PJRT_Error_GetCode", slotErrorGetCode); err == nil {
		args := &struct {
			header
			err  uintptr
			code int32
		}{err: handle}
		args.size = unsafe.Sizeof(*args)
		purego.SyscallN(fn, uintptr(unsafe.Pointer(args)))
		e.Code = Code(args.code)
	}
	if fn, err := p.slot("PJRT_Error_Message", slotErrorMessage); err == nil {
		args := &struct {
			header
			err     uintptr
			message *byte
			length  uintptr
		}{err: handle}
		args.size = unsafe.Sizeof(*args)
		purego.SyscallN(fn, uintptr(unsafe.Pointer(args)))
		e.Message = copyString(args.message, args.length)
	}
	if fn, err := p.slot("PJRT_Error_Destroy", slotErrorDestroy); err == nil {
		args := &struct {
			header
			err uintptr
		}{err: handle}
		args.size = unsafe.Sizeof(*args)
		purego.SyscallN(fn, uintptr(unsafe.Pointer(args)))
	}
	return e
}

// destroy calls a _Destroy function that takes one handle.
func (p *Plugin) destroy(name string, i int, handle uintptr) error {
	args := struct {
		header
		handle uintptr
	}{handle: handle}
	return p.call(name, i, unsafe.Pointer(&args), unsafe.Sizeof(args))
}

// text calls a function that takes one handle and returns a string owned by the plugin.
func (p *Plugin) text(name string, i int, handle uintptr) (string, error) {
	args := struct {
		header
		handle uintptr
		data   *byte
		length uintptr
	}{handle: handle}
	if err := p.call(name, i, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return "", err
	}
	return copyString(args.data, args.length), nil
}

// await waits for an event and destroys it.
func (p *Plugin) await(event uintptr) error {
	if event == 0 {
		return nil
	}
	args := struct {
		header
		event uintptr
	}{event: event}
	err := p.call("PJRT_Event_Await", slotEventAwait, unsafe.Pointer(&args), unsafe.Sizeof(args))
	return errors.Join(err, p.destroy("PJRT_Event_Destroy", slotEventDestroy, event))
}

func copyString(data *byte, n uintptr) string {
	if data == nil || n == 0 {
		return ""
	}
	return string(unsafe.Slice(data, n))
}
