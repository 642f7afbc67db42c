package pjrt

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"unsafe"
)

// NamedValues are options of clients and topologies; values are string, int64, []int64, float32 or bool.
type NamedValues map[string]any

// namedValue is PJRT_NamedValue; value holds the union's eight bytes.
type namedValue struct {
	header
	name       *byte
	nameLength uintptr
	kind       int32
	value      uint64
	valueSize  uintptr
}

// encode returns the C array of v, and the memory that value fields point to: the caller keeps it alive for the call.
func (v NamedValues) encode() (values []namedValue, keep []any, err error) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		key := []byte(name)
		nv := namedValue{header: header{size: unsafe.Sizeof(namedValue{})}, name: unsafe.SliceData(key), nameLength: uintptr(len(key)), valueSize: 1}
		switch x := v[name].(type) {
		case string:
			b := append([]byte(x), 0)
			keep = append(keep, b)
			nv.kind, nv.value, nv.valueSize = 0, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), uintptr(len(x))
		case int64:
			nv.kind, nv.value = 1, uint64(x)
		case []int64:
			list := append(slices.Clone(x), 0)
			keep = append(keep, list)
			nv.kind, nv.value, nv.valueSize = 2, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(list)))), uintptr(len(x))
		case float32:
			nv.kind, nv.value = 3, uint64(math.Float32bits(x))
		case bool:
			nv.kind = 4
			if x {
				nv.value = 1
			}
		default:
			return nil, nil, fmt.Errorf("option %s: values of type %T are not supported", name, x)
		}
		values = append(values, nv)
	}
	return values, keep, nil
}

// Client is a connection to the devices of a plugin. Its methods are safe for concurrent use; Close is not.
type Client struct {
	p       *Plugin
	handle  uintptr
	devices []uintptr
}

// NewClient makes a client. It fails on a host without the plugin's devices.
func (p *Plugin) NewClient(options NamedValues) (*Client, error) {
	values, keep, err := options.encode()
	if err != nil {
		return nil, err
	}
	args := struct {
		header
		options                          *namedValue
		numOptions                       uintptr
		kvGet, kvGetArg, kvPut, kvPutArg uintptr
		client                           uintptr
		kvTryGet, kvTryGetArg            uintptr
	}{options: unsafe.SliceData(values), numOptions: uintptr(len(values))}
	err = p.call("PJRT_Client_Create", slotClientCreate, unsafe.Pointer(&args), unsafe.Sizeof(args))
	runtime.KeepAlive(keep)
	if err != nil {
		return nil, err
	}
	c := &Client{p: p, handle: args.client}
	devs := struct {
		header
		client  uintptr
		devices *uintptr
		n       uintptr
	}{client: c.handle}
	if err := p.call("PJRT_Client_AddressableDevices", slotClientAddressable, unsafe.Pointer(&devs), unsafe.Sizeof(devs)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if devs.n > 0 {
		c.devices = slices.Clone(unsafe.Slice(devs.devices, devs.n))
	}
	if len(c.devices) == 0 {
		return nil, errors.Join(errors.New("the PJRT client has no addressable device"), c.Close())
	}
	return c, nil
}

// Close destroys the client. Its executables and buffers must be closed before.
func (c *Client) Close() error {
	return c.p.destroy("PJRT_Client_Destroy", slotClientDestroy, c.handle)
}

// Devices is the number of addressable devices; at least 1.
func (c *Client) Devices() int { return len(c.devices) }

// PlatformName is e.g. "cpu".
func (c *Client) PlatformName() (string, error) {
	return c.p.text("PJRT_Client_PlatformName", slotClientPlatformName, c.handle)
}

// PlatformVersion is free text of the platform.
func (c *Client) PlatformVersion() (string, error) {
	return c.p.text("PJRT_Client_PlatformVersion", slotClientPlatformVersion, c.handle)
}

// program is PJRT_Program.
type program struct {
	header
	code         *byte
	codeSize     uintptr
	format       *byte
	formatLength uintptr
}

func newProgram(code []byte, format string) *program {
	f := []byte(format)
	return &program{
		header: header{size: unsafe.Sizeof(program{})},
		code:   unsafe.SliceData(code), codeSize: uintptr(len(code)),
		format: unsafe.SliceData(f), formatLength: uintptr(len(f)),
	}
}

// Compile compiles and loads a program for the first device. format is "hlo" (serialized HloModuleProto) or "mlir"
// (StableHLO text or bytecode), options a serialized CompileOptionsProto (see CompileOptions).
func (c *Client) Compile(code []byte, format string, options []byte) (*Executable, error) {
	args := struct {
		header
		client      uintptr
		program     *program
		options     *byte
		optionsSize uintptr
		executable  uintptr
	}{client: c.handle, program: newProgram(code, format), options: unsafe.SliceData(options), optionsSize: uintptr(len(options))}
	if err := c.p.call("PJRT_Client_Compile", slotClientCompile, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return nil, err
	}
	e := &Executable{p: c.p, loaded: args.executable}
	get := struct {
		header
		loaded     uintptr
		executable uintptr
	}{loaded: e.loaded}
	if err := c.p.call("PJRT_LoadedExecutable_GetExecutable", slotLoadedGetExecutable, unsafe.Pointer(&get), unsafe.Sizeof(get)); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.handle = get.executable
	return e, nil
}

// tiledLayout is PJRT_Buffer_MemoryLayout holding its tiled member.
type tiledLayout struct {
	header
	tiled struct {
		header
		minorToMajor *int64
		rank         uintptr
		tileDims     *int64
		tileDimSizes *uintptr
		numTiles     uintptr
	}
	kind int32 // PJRT_Buffer_MemoryLayout_Type_Tiled = 0
}

// Buffer is an array on a device.
type Buffer struct {
	p      *Plugin
	handle uintptr
	done   uintptr // PJRT_Event: the plugin needs the memory of BufferFromMemory no longer
}

// BufferFromHost copies a dense row-major little-endian array to the first device. primitive is the xla.PrimitiveType
// wire number; types of fewer than 8 bits take one byte per element. layout is the order, minor to major, in which the
// program reads it (see EntryShapes); nil is row-major. data is free for reuse when the call returns.
//
// The bytes are brought into that order here and handed over as a row-major array: device_layout is ignored without a
// word by the CPU plugins of C API 0.81 and 0.106, and none compares an argument's layout with the program's.
func (c *Client) BufferFromHost(primitive int32, dims []int64, layout []int64, data []byte) (*Buffer, error) {
	e, err := c.hostForm(primitive, dims, data)
	if err != nil {
		return nil, err
	}
	if data, err = InLayout(primitive, dims, layout, data); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		data = make([]byte, 1) // a null pointer is not an array, not even an empty one
	}
	b, err := c.newBuffer(e, dims, data, immutableOnlyDuringCall)
	if err != nil {
		return nil, err
	}
	if err := b.Released(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// BufferFromMemory makes an array on the first device of memory that is not Go's, without a copy where the plugin can:
// CPU plugins do for types of 8 bits and more at addresses that are multiples of 64 (Buffer.Address tells). The bytes
// are in the order in which the program reads them (InLayout); there is at least one. The plugin reads them until
// Released returns, which may be only after the results that took the memory over have been closed. It writes to them
// only if mutable is set and the array is donated.
func (c *Client) BufferFromMemory(primitive int32, dims []int64, data []byte, mutable bool) (*Buffer, error) {
	e, err := c.hostForm(primitive, dims, data)
	if err != nil {
		return nil, err
	}
	semantics := int32(immutableZeroCopy)
	if mutable {
		semantics = mutableZeroCopy
	}
	return c.newBuffer(e, dims, data, semantics)
}

// hostForm checks that the bytes are an array of the type and dimensions that the plugin can take.
func (c *Client) hostForm(primitive int32, dims []int64, data []byte) (element, error) {
	want, err := ByteSize(primitive, dims)
	if err != nil {
		return element{}, err
	}
	if int64(len(data)) != want {
		return element{}, fmt.Errorf("array of type %d and dimensions %v has %d bytes, want %d", primitive, dims, len(data), want)
	}
	e, err := elementOf(primitive)
	if err != nil {
		return element{}, err
	}
	if e.bytes == 0 {
		return element{}, fmt.Errorf("primitive type %d has no host form", primitive)
	}
	if _, minor := c.p.Version(); minor < e.since { // such a plugin aborts
		return element{}, &Error{Call: "PJRT_Client_BufferFromHostBuffer", Code: Unimplemented,
			Message: fmt.Sprintf("primitive type %d needs C API 0.%d, this plugin has 0.%d", primitive, e.since, minor)}
	}
	return e, nil
}

// PJRT_HostBufferSemantics.
const (
	immutableOnlyDuringCall = 0
	immutableZeroCopy       = 2
	mutableZeroCopy         = 3
)

func (c *Client) newBuffer(e element, dims []int64, data []byte, semantics int32) (*Buffer, error) {
	args := struct {
		header
		client         uintptr
		data           *byte
		kind           int32
		dims           *int64
		rank           uintptr
		byteStrides    *int64
		numByteStrides uintptr
		semantics      int32
		device         uintptr
		memory         uintptr
		layout         *tiledLayout
		done           uintptr
		buffer         uintptr
	}{client: c.handle, data: unsafe.SliceData(data), kind: e.buffer, dims: unsafe.SliceData(dims), rank: uintptr(len(dims)),
		semantics: semantics, device: c.devices[0]}
	if err := c.p.call("PJRT_Client_BufferFromHostBuffer", slotBufferFromHost, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return nil, err
	}
	return &Buffer{p: c.p, handle: args.buffer, done: args.done}, nil
}

// Close destroys the buffer.
func (b *Buffer) Close() error {
	return b.p.destroy("PJRT_Buffer_Destroy", slotBufferDestroy, b.handle)
}

// Released waits until the plugin needs the bytes that the buffer was made of no longer. It may be called after Close,
// and only once.
func (b *Buffer) Released() error { return b.p.await(b.done) }

// Address is where the elements lie in the memory of this process (on CPU plugins).
func (b *Buffer) Address() (uintptr, error) {
	args := struct {
		header
		buffer  uintptr
		address uintptr
	}{buffer: b.handle}
	err := b.p.call("PJRT_Buffer_UnsafePointer", slotBufferUnsafePointer, unsafe.Pointer(&args), unsafe.Sizeof(args))
	return args.address, err
}

// Deleted reports whether the buffer is gone: donated to an execution.
func (b *Buffer) Deleted() (bool, error) {
	args := struct {
		header
		buffer  uintptr
		deleted bool
	}{buffer: b.handle}
	err := b.p.call("PJRT_Buffer_IsDeleted", slotBufferIsDeleted, unsafe.Pointer(&args), unsafe.Sizeof(args))
	return args.deleted, err
}

// Shape is the xla.PrimitiveType wire number of the elements and the sizes of the dimensions.
func (b *Buffer) Shape() (primitive int32, dims []int64, err error) {
	kind := struct {
		header
		buffer uintptr
		kind   int32
	}{buffer: b.handle}
	if err := b.p.call("PJRT_Buffer_ElementType", slotBufferElementType, unsafe.Pointer(&kind), unsafe.Sizeof(kind)); err != nil {
		return 0, nil, err
	}
	e, err := elementOfBuffer(kind.kind)
	if err != nil {
		return 0, nil, err
	}
	size := struct {
		header
		buffer uintptr
		dims   *int64
		rank   uintptr
	}{buffer: b.handle}
	if err := b.p.call("PJRT_Buffer_Dimensions", slotBufferDimensions, unsafe.Pointer(&size), unsafe.Sizeof(size)); err != nil {
		return 0, nil, err
	}
	if size.rank > 0 {
		dims = slices.Clone(unsafe.Slice(size.dims, size.rank))
	}
	return e.primitive, dims, nil
}

// ToHost copies the buffer out, dense, row-major and little-endian, one byte per element for types of fewer than 8 bits.
// Tokens come back without data.
func (b *Buffer) ToHost() (primitive int32, dims []int64, data []byte, err error) {
	primitive, dims, err = b.Shape()
	if err != nil {
		return 0, nil, nil, err
	}
	n, err := ByteSize(primitive, dims)
	if err != nil {
		return 0, nil, nil, err
	}
	if n == 0 {
		return primitive, dims, nil, nil
	}
	order, err := b.layout(len(dims))
	if err != nil {
		return 0, nil, nil, err
	}
	data = make([]byte, n)
	args := struct {
		header
		buffer uintptr
		layout *tiledLayout // null: the device's order; C API 0.81 ignores any other
		dst    *byte
		size   uintptr
		event  uintptr
	}{buffer: b.handle, dst: unsafe.SliceData(data), size: uintptr(n)}
	if err := b.p.call("PJRT_Buffer_ToHostBuffer", slotBufferToHost, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return 0, nil, nil, err
	}
	if err := b.p.await(args.event); err != nil {
		return 0, nil, nil, err
	}
	runtime.KeepAlive(data)
	if !slices.Equal(order, RowMajor(len(dims))) {
		data = fromLayout(data, int(n/elementCount(dims)), dims, order)
	}
	return primitive, dims, data, nil
}

// layout is the order of the buffer's dimensions on the device, minor to major.
func (b *Buffer) layout(rank int) ([]int64, error) {
	args := struct {
		header
		buffer uintptr
		layout tiledLayout
	}{buffer: b.handle}
	args.layout.size = unsafe.Sizeof(args.layout)
	if err := b.p.call("PJRT_Buffer_GetMemoryLayout", slotBufferMemoryLayout, unsafe.Pointer(&args), unsafe.Sizeof(args)); err != nil {
		return nil, err
	}
	if args.layout.kind != 0 {
		return nil, fmt.Errorf("buffer with a strided layout (kind %d)", args.layout.kind)
	}
	var order []int64
	if n := args.layout.tiled.rank; n > 0 {
		order = slices.Clone(unsafe.Slice(args.layout.tiled.minorToMajor, n))
	}
	if !isPermutation(order, rank) {
		return nil, fmt.Errorf("buffer of rank %d has layout %v", rank, order)
	}
	return order, nil
}
