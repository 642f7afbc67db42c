package pjrt

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Stage is a place in a build's pass pipeline at which a transform is called.
type Stage int32

// The stages of PJRT_XlaTransform_PipelineStage
// (xla/pjrt/c/pjrt_c_api_xla_transform_extension.h).
const (
	PreScheduler  Stage = 0
	PostScheduler Stage = 1
)

// XlaTransform is the extension's type number.
const XlaTransform = 24

const transformVersion = 1

type transformExtension struct {
	extension
	register, clear uintptr
}

// transformCallbacks is PJRT_XlaTransform_Callbacks. XLA keeps its address.
type transformCallbacks struct {
	version   int64
	dtor      uintptr
	transform uintptr
}

type transformString struct {
	data *byte
	size uintptr
}

// transformArgs is PJRT_XlaTransform_Args.
type transformArgs struct {
	_           uintptr         // struct_size
	_           int64           // api_version
	_           [2]uintptr      // data, cleanup_fn
	_           bool            // has_error
	_           int32           // code
	_           transformString // error_msg
	module      transformString
	transformed transformString
	changed     bool
}

// transforms are the registered ones, by the address of their callbacks. What a
// transform returned stays reachable until it is called again.
var transforms struct {
	sync.Mutex
	active map[uintptr]*transform
}

type transform struct {
	callbacks *transformCallbacks
	replace   func(module []byte) []byte
	last      []byte
	pinned    runtime.Pinner
}

// callTransform is the one C callback of this process: purego never frees one.
var callTransform = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(callbacks uintptr, args *transformArgs) {
		transforms.Lock()
		t := transforms.active[callbacks]
		transforms.Unlock()
		if t == nil {
			return
		}
		module := []byte(unsafe.String(args.module.data, args.module.size))
		t.last = t.replace(module)
		if len(t.last) > 0 {
			t.pinned.Pin(unsafe.SliceData(t.last))
			args.transformed = transformString{unsafe.SliceData(t.last), uintptr(len(t.last))}
			args.changed = true
		}
	})
})

// Transform lets replace see the module (a serialized HloModuleProto) of every
// later compilation of this process at a stage; what it returns takes the
// module's place, nil leaves it. clear ends that and must be called before the
// next Transform of the same stage. The error wraps ErrNotInAPI where the
// plugin lacks the extension.
func (p *Plugin) Transform(stage Stage, replace func(module []byte) []byte) (clear func() error, err error) {
	var ext *transformExtension
	for e := p.api.ext; e != nil; e = e.next {
		if e.kind == XlaTransform {
			ext = (*transformExtension)(unsafe.Pointer(e))
		}
	}
	if ext == nil || ext.register == 0 || ext.clear == 0 {
		return nil, fmt.Errorf("XlaTransform: %w", ErrNotInAPI)
	}
	t := &transform{callbacks: &transformCallbacks{version: transformVersion, transform: callTransform()}, replace: replace}
	t.pinned.Pin(t.callbacks)
	key := uintptr(unsafe.Pointer(t.callbacks))
	transforms.Lock()
	if transforms.active == nil {
		transforms.active = map[uintptr]*transform{}
	}
	transforms.active[key] = t
	transforms.Unlock()
	name := []byte(fmt.Sprintf("passgate-injected-fault-%d", stage))
	args := &struct {
		size      uintptr
		name      *byte
		nameSize  uintptr
		stage     Stage
		callbacks *transformCallbacks
	}{name: unsafe.SliceData(name), nameSize: uintptr(len(name)), stage: stage, callbacks: t.callbacks}
	args.size = unsafe.Sizeof(*args)
	r, _, _ := purego.SyscallN(ext.register, uintptr(unsafe.Pointer(args)))
	runtime.KeepAlive(args)
	if r != 0 {
		return nil, p.takeError("PJRT_Register_Xla_Transform", r)
	}
	return func() error {
		args := &struct {
			size      uintptr
			stage     Stage
			name      *byte
			nameSize  uintptr
			callbacks *transformCallbacks
			cleared   bool
		}{stage: stage, name: unsafe.SliceData(name), nameSize: uintptr(len(name)), callbacks: t.callbacks}
		args.size = unsafe.Sizeof(*args)
		r, _, _ := purego.SyscallN(ext.clear, uintptr(unsafe.Pointer(args)))
		runtime.KeepAlive(args)
		transforms.Lock()
		delete(transforms.active, key)
		transforms.Unlock()
		t.pinned.Unpin()
		if r != 0 {
			return p.takeError("PJRT_Clear_Xla_Transform", r)
		}
		return nil
	}, nil
}
