package pjrt

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Executable is a compiled program. One made by Client.Compile is loaded and can run; one made by Topology.Compile cannot.
type Executable struct {
	p      *Plugin
	handle uintptr // PJRT_Executable
	loaded uintptr // PJRT_LoadedExecutable, 0 if compiled for a topology
}

// Close destroys the executable.
func (e *Executable) Close() error {
	var errs []error
	if e.handle != 0 {
		errs = append(errs, e.p.destroy("PJRT_Executable_Destroy", slotExecutableDestroy, e.handle))
	}
	if e.loaded != 0 {
		errs = append(errs, e.p.destroy("PJRT_LoadedExecutable_Destroy", slotLoadedDestroy, e.loaded))
	}
	return errors.Join(errs...)
}

// NumOutputs is the number of output buffers: the leaves of the result.
func (e *Executable) NumOutputs() (int, error) {
	args := struct {
		header
		executable uintptr
		n          uintptr
	}{executable: e.handle}
	if err := e.p.call("PJRT_Executable_NumOutputs", slotExecutableNumOutputs, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return 0, err
	}
	return int(args.n), nil
}

// OptimizedProgram is the module after all HLO passes and its format, for XLA "hlo_with_config" (a serialized
// HloModuleProtoWithConfig).
func (e *Executable) OptimizedProgram() (code []byte, format string, err error) {
	prog := &program{header: header{size: unsafe.Sizeof(program{})}}
	args := struct {
		header
		executable uintptr
		program    *program
	}{executable: e.handle, program: prog}
	// First call: sizes. Second: the bytes.
	for range 2 {
		if err := e.p.call("PJRT_Executable_OptimizedProgram", slotExecutableOptimized, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
			return nil, "", err
		}
		if code == nil {
			code = make([]byte, max(prog.codeSize, 1))
			prog.code = unsafe.SliceData(code)
		}
	}
	return code[:min(prog.codeSize, uintptr(len(code)))], copyString(prog.format, prog.formatLength), nil
}

// executeOptions is PJRT_ExecuteOptions up to incarnation_ids, the form of C API 0.81; later fields default to zero.
type executeOptions struct {
	header
	_               [2]uintptr // send_callbacks, recv_callbacks
	_               [2]uintptr // num_send_ops, num_recv_ops
	_               int32      // launch_id
	nonDonatable    *int64
	numNonDonatable uintptr
	_               [2]uintptr // context, call_location
	_               [3]uintptr // num_tasks, task_ids, incarnation_ids
}

// Execute runs the program once on the first device and waits for it. keepInputs forbids the program to reuse the memory
// of its arguments (input-output aliasing), so that they can be given again; C API 0.115 refuses it for must-alias.
// The caller closes the outputs. Safe for concurrent use, of different arguments or with keepInputs.
func (e *Executable) Execute(arguments []*Buffer, keepInputs bool) ([]*Buffer, error) {
	if e.loaded == 0 {
		return nil, errors.New("this executable was compiled for a topology and cannot run")
	}
	n, err := e.NumOutputs()
	if err != nil {
		return nil, err
	}
	opts := &executeOptions{header: header{size: unsafe.Sizeof(executeOptions{})}}
	if keepInputs && len(arguments) > 0 {
		indices := make([]int64, len(arguments))
		for i := range indices {
			indices[i] = int64(i)
		}
		opts.nonDonatable, opts.numNonDonatable = unsafe.SliceData(indices), uintptr(len(indices))
	}
	in := make([]uintptr, len(arguments), len(arguments)+1) // never a null array
	for i, b := range arguments {
		in[i] = b.handle
	}
	out := make([]uintptr, n, n+1)
	inList, outList := unsafe.SliceData(in), unsafe.SliceData(out)
	events := make([]uintptr, 1)
	args := struct {
		header
		executable uintptr
		options    *executeOptions
		arguments  **uintptr
		numDevices uintptr
		numArgs    uintptr
		outputs    **uintptr
		events     *uintptr
		device     uintptr
	}{executable: e.loaded, options: opts, arguments: &inList, numDevices: 1, numArgs: uintptr(len(arguments)), outputs: &outList, events: unsafe.SliceData(events)}
	if err := e.p.call("PJRT_LoadedExecutable_Execute", slotLoadedExecute, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return nil, err
	}
	outputs := make([]*Buffer, 0, n)
	var errs []error
	for i, h := range out {
		if h == 0 {
			errs = append(errs, fmt.Errorf("output %d is missing", i))
			continue
		}
		outputs = append(outputs, &Buffer{p: e.p, handle: h})
	}
	errs = append(errs, e.p.await(events[0]))
	if err := errors.Join(errs...); err != nil {
		for _, b := range outputs {
			err = errors.Join(err, b.Close())
		}
		return nil, err
	}
	return outputs, nil
}

// Topology describes devices to compile for that need not be here.
type Topology struct {
	p      *Plugin
	handle uintptr
}

// NewTopology makes a topology by name, e.g. "v5e:2x2" for libtpu. CPU plugins answer Unimplemented.
func (p *Plugin) NewTopology(name string, options NamedValues) (*Topology, error) {
	values, keep, err := options.encode()
	if err != nil {
		return nil, err
	}
	n := append([]byte(name), 0)
	args := struct {
		header
		name       *byte
		nameLength uintptr
		options    *namedValue
		numOptions uintptr
		topology   uintptr
	}{name: unsafe.SliceData(n), nameLength: uintptr(len(name)), options: unsafe.SliceData(values), numOptions: uintptr(len(values))}
	err = p.call("PJRT_TopologyDescription_Create", slotTopologyCreate, unsafe.Pointer(&args), unsafe.Sizeof(args))
	runtime.KeepAlive(keep)
	if err != nil {
		return nil, err
	}
	return &Topology{p: p, handle: args.topology}, nil
}

// Close destroys the topology.
func (t *Topology) Close() error {
	return t.p.destroy("PJRT_TopologyDescription_Destroy", slotTopologyDestroy, t.handle)
}

// PlatformName is e.g. "tpu".
func (t *Topology) PlatformName() (string, error) {
	return t.p.text("PJRT_TopologyDescription_PlatformName", slotTopologyPlatformName, t.handle)
}

// PlatformVersion is free text of the platform.
func (t *Topology) PlatformVersion() (string, error) {
	return t.p.text("PJRT_TopologyDescription_PlatformVersion", slotTopologyPlatformVersion, t.handle)
}

// Compile compiles ahead of time, without a client. Arguments as for Client.Compile.
func (t *Topology) Compile(code []byte, format string, options []byte) (*Executable, error) {
	args := struct {
		header
		topology    uintptr
		program     *program
		options     *byte
		optionsSize uintptr
		client      uintptr
		executable  uintptr
	}{topology: t.handle, program: newProgram(code, format), options: unsafe.SliceData(options), optionsSize: uintptr(len(options))}
	if err := t.p.call("PJRT_Compile", slotCompile, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return nil, err
	}
	return &Executable{p: t.p, handle: args.executable}, nil
}
