"""Worker of jaxlib builds: the protocol of wire/worker.proto on standard input and output, in Python.

Knows the Python interface of jaxlib 0.4.13 to 0.12. Needs jaxlib, numpy and ml_dtypes on the paths given as arguments,
and nothing of jax: the few hooks that jax would install are supplied by setup().
"""

import os
import sys
import time
import traceback
import zlib

# The frame pipes move to private descriptors before anything is loaded; what the build prints lands in the log.
frames_in, frames_out = os.dup(0), os.dup(1)
null = os.open(os.devnull, os.O_RDONLY)
os.dup2(null, 0)
os.dup2(2, 1)
sys.path[:0] = sys.argv[1:]

MAGIC = b"pgw1"

# ---- protobuf, as far as worker.proto needs it


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def f_int(field, n):
    return varint(field << 3) + varint(n) if n else b""


def f_bytes(field, data):
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    return varint(field << 3 | 2) + varint(len(data)) + bytes(data)


def f_ints(field, values):
    return f_bytes(field, b"".join(map(varint, values))) if len(values) else b""


def read_varint(buf, pos):
    n = shift = 0
    while True:
        b = buf[pos]
        pos += 1
        n |= (b & 0x7F) << shift
        shift += 7
        if b < 0x80:
            return n, pos


def fields(buf):
    """Yields (number, value): an int for varints, a memoryview for length-delimited fields."""
    pos = 0
    while pos < len(buf):
        key, pos = read_varint(buf, pos)
        if key & 7 == 0:
            value, pos = read_varint(buf, pos)
        elif key & 7 == 2:
            n, pos = read_varint(buf, pos)
            if pos + n > len(buf):
                raise ValueError("field beyond the end of its message")
            value = buf[pos : pos + n]
            pos += n
        else:
            raise ValueError("wire type %d is not used in this protocol" % (key & 7))
        yield key >> 3, value


def signed(n):
    return n - (1 << 64) if n >> 63 else n


def text(view):
    return bytes(view).decode()


def parse_array(buf):
    kind, dims, data = 0, [], b""
    for n, v in fields(buf):
        if n == 1:
            kind = v
        elif n == 2:
            if isinstance(v, int):
                dims.append(signed(v))
            else:
                pos = 0
                while pos < len(v):
                    d, pos = read_varint(v, pos)
                    dims.append(signed(d))
        elif n == 3:
            data = v
    return kind, dims, data


MAX_REPEAT = 300  # executions that repeat_ns can ask for


class Request:
    def __init__(self, buf):
        self.id, self.program, self.format, self.options = 0, b"", "", {}
        self.backend_only = self.want_optimized = self.dump_all = self.compile_only = False
        self.dump_dir, self.inputs, self.repeat, self.repeat_ns, self.probe = "", [], 1, 0, []
        for n, v in fields(buf):
            if n == 1:
                self.id = v
            elif n == 2:
                self.program = bytes(v)
            elif n == 3:
                self.format = text(v)
            elif n == 4:
                entry = dict(fields(v))
                self.options[text(entry.get(1, b""))] = text(entry.get(2, b""))
            elif n == 5:
                self.backend_only = bool(v)
            elif n == 6:
                self.want_optimized = bool(v)
            elif n == 7:
                self.dump_dir = text(v)
            elif n == 8:
                self.dump_all = bool(v)
            elif n == 9:
                self.compile_only = bool(v)
            elif n == 10:
                self.inputs.append([parse_array(a) for k, a in fields(v) if k == 1])
            elif n == 11:
                self.repeat = max(v, 1)
            elif n == 12:
                self.probe.append(text(v))
            elif n == 13:
                self.repeat_ns = v


def read_exactly(n):
    parts = []
    while n:
        part = os.read(frames_in, min(n, 1 << 20))
        if not part:
            if not parts:
                os._exit(0)  # the pool has no more use for this process
            raise ValueError("the input ends within a frame")
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def read_frame():
    header = read_exactly(12)
    if header[:4] != MAGIC:
        raise ValueError("not a frame")
    payload = read_exactly(int.from_bytes(header[4:8], "little"))
    if zlib.crc32(payload) != int.from_bytes(header[8:12], "little"):
        raise ValueError("checksum differs")
    return memoryview(payload)


def write_frame(payload):
    head = MAGIC + len(payload).to_bytes(4, "little") + zlib.crc32(payload).to_bytes(4, "little")
    view = memoryview(head + payload)
    while view:
        view = view[os.write(frames_out, view) :]


# ---- errors of the build

CODES = {
    name: i
    for i, name in enumerate(
        "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
        "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED".split()
    )
}


class Rejected(Exception):
    """The build said no: stage and the build's own exception."""

    def __init__(self, stage, error):
        self.stage, self.error = stage, error

    def encode(self):
        message = str(self.error)
        name, sep, rest = message.partition(": ")
        code = CODES.get(name, 0) if sep else 0
        if code:
            message = rest
        else:  # an exception of jaxlib's Python layer: a bad argument unless it says otherwise
            code = CODES["UNIMPLEMENTED" if isinstance(self.error, NotImplementedError) else "INVALID_ARGUMENT"]
        return f_bytes(1, self.stage) + f_int(2, code) + f_bytes(3, message)


# ---- jaxlib

PRIMITIVES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
    10: "float16", 11: "float32", 12: "float64", 15: "complex64", 16: "bfloat16", 18: "complex128",
    19: "float8_e5m2", 20: "float8_e4m3fn", 21: "int4", 22: "uint4", 23: "float8_e4m3b11fnuz", 24: "float8_e5m2fnuz",
    25: "float8_e4m3fnuz", 26: "int2", 27: "uint2", 28: "float8_e4m3", 29: "float8_e3m4", 30: "int1", 31: "uint1",
    32: "float4_e2m1fn", 33: "float8_e8m0fnu", 35: "float6_e3m2fn", 36: "float6_e2m3fn",
}


# Types of fewer than 8 bits: bits, signed integer. On the wire the value stands in the low bits and the others are zero;
# ml_dtypes keeps signed integers sign-extended.
SMALL = {21: (4, True), 22: (4, False), 26: (2, True), 27: (2, False), 30: (1, True), 31: (1, False),
         32: (4, False), 35: (6, False), 36: (6, False)}


class Aval:
    """What jaxlib wants to know about an array."""

    weak_type = False

    def __init__(self, x):
        self.shape, self.dtype = x.shape, x.dtype


class Build:
    def __init__(self):
        global np
        import jaxlib
        import ml_dtypes
        import numpy as np
        from jaxlib import xla_client

        self.xc, self.xe = xla_client, xla_client._xla
        self.version = jaxlib.version.__version__ if hasattr(jaxlib, "version") else jaxlib.__version__
        self.dtypes, self.numbers = {}, {}
        for number, name in PRIMITIVES.items():
            found = getattr(ml_dtypes, name, None) or getattr(np, name + "_" if name == "bool" else name, None)
            if found is not None:
                self.dtypes[number] = np.dtype(found)
                self.numbers[np.dtype(found)] = number
        self.setup()
        self.client = xla_client.make_cpu_client()
        self.device = self.client.local_devices()[0]
        self.unknown, self.known, self.spelling = set(), set(), {}
        self.put = self.choose_put()

    def setup(self):
        """Installs the hooks without which jaxlib aborts or refuses, as jax would."""
        jit = getattr(self.xe, "jax_jit", None)
        if hasattr(jit, "set_thread_local_state_initialization_callback"):
            jit.set_thread_local_state_initialization_callback(lambda: None)
        if hasattr(jit, "global_state"):
            state = jit.global_state()
            state.enable_x64 = True
            if hasattr(state, "enable_memories"):
                state.enable_memories = False
        sharding = getattr(self.xc, "SingleDeviceSharding", None)
        if sharding is not None and not hasattr(sharding, "_to_xla_hlo_sharding"):
            sharding._to_xla_hlo_sharding = lambda s, rank: self.xc.HloSharding.replicate()

    def choose_put(self):
        """Returns the function that puts a numpy array on the device; which one works depends on the version."""

        def pyval(x):
            return self.client.buffer_from_pyval(x, self.device, force_copy=True)

        def batched(x):
            sharding = self.xc.SingleDeviceSharding(self.device)
            return self.xc.batched_device_put(Aval(x), sharding, [x], [self.device], True, True)

        def batched_x64(x):
            sharding = self.xc.SingleDeviceSharding(self.device)
            return self.xc.batched_device_put(Aval(x), sharding, [x], [self.device], True, True, enable_x64=True)

        want = np.array([1.0 + 2.0**-40, -0.0], np.float64)
        errors = []
        for put in (pyval, batched, batched_x64):
            try:
                got = self.to_numpy(put(want))
            except (AttributeError, TypeError, RuntimeError) as e:
                errors.append("%s: %s" % (put.__name__, e))
                continue
            if got.dtype == want.dtype and got.tobytes() == want.tobytes():
                return put
            errors.append("%s: gave %r" % (put.__name__, got))
        raise RuntimeError("this jaxlib takes no arrays: " + "; ".join(errors))

    def to_numpy(self, array):
        if hasattr(array, "_single_device_array_to_np_array_did_copy"):
            return array._single_device_array_to_np_array_did_copy()[0]
        return array._single_device_array_to_np_array()

    def from_wire(self, kind, dims, data):
        dtype = self.dtypes.get(kind)
        if dtype is None:
            raise NotImplementedError("primitive type %d has no numpy type in this jaxlib's ml_dtypes" % kind)
        raw = np.frombuffer(bytes(data), dtype=np.uint8)
        bits, is_signed = SMALL.get(kind, (8, False))
        if is_signed:
            raw = ((raw << (8 - bits)).view(np.int8) >> (8 - bits)).view(np.uint8)
        return raw.view(dtype).reshape(dims).copy()

    def to_wire(self, array):
        x = self.to_numpy(array)
        number = self.numbers.get(x.dtype)
        if number is None:
            raise NotImplementedError("no primitive type for numpy's %s" % x.dtype)
        raw = np.frombuffer(x.tobytes(), dtype=np.uint8)  # tobytes is row-major whatever the array's strides are
        if number in SMALL:
            raw = raw & ((1 << SMALL[number][0]) - 1)
        return f_int(1, number) + f_ints(2, x.shape) + f_bytes(3, raw.tobytes())

    def module(self, request):
        """The program as the compiler of this version takes it: StableHLO text or bytecode."""
        if request.format == "mlir":
            try:
                return request.program.decode()
            except UnicodeDecodeError:
                return request.program
        if request.format != "hlo":
            raise Rejected("compile", ValueError("unknown program format '%s'" % request.format))
        mlir = self.xe.mlir
        try:
            if hasattr(mlir, "hlo_to_stablehlo"):
                return mlir.hlo_to_stablehlo(request.program)
            return mlir.xla_computation_to_mlir_module(self.xc.XlaComputation(request.program))
        except (RuntimeError, ValueError) as e:
            raise Rejected("import", e)

    def compile_with(self, module, overrides, backend_only):
        options = self.xc.CompileOptions()
        # What has no attribute or no override is merged in as a proto: run_backend_only (field 11 of the build options)
        # and fields of DebugOptions (field 3), which are complete in a serialized CompileOptions of jaxlib.
        extra = f_int(11, 1) if backend_only else b""
        for name in [n for n in overrides if self.spelling.get(n) == "field"]:
            extra += f_bytes(3, self.as_field(name, overrides[name]))
        if extra:
            options = self.xc.CompileOptions.ParseFromString(options.SerializeAsString() + f_bytes(3, extra))
        options.num_replicas = options.num_partitions = 1
        options.env_option_overrides = [
            (n, self.spell(n, v)) for n, v in overrides.items() if self.spelling.get(n) != "field"
        ]
        if hasattr(self.client, "compile_and_load"):
            return self.client.compile_and_load(module, [self.device], options)
        return self.client.compile(module, options)

    # Options that old versions cannot override: number in xla.DebugOptions (xla.proto), kind.
    FIELDS = {
        "xla_disable_hlo_passes": (30, "list"),
        "xla_backend_optimization_level": (31, "int"),
        "xla_enable_hlo_passes_only": (124, "list"),
        "xla_cpu_prefer_vector_width": (308, "int"),
        "xla_cpu_parallel_codegen_split_count": (323, "int"),
    }

    def as_field(self, name, value):
        number, kind = self.FIELDS[name]
        if kind == "int":
            return varint(number << 3) + varint(int(value))
        return b"".join(f_bytes(number, v) for v in value.split(",") if v)

    def spell(self, name, value):
        """Old versions want the value in the type of the option, newer ones take text for all but booleans."""
        if value in ("true", "false"):
            return value == "true"
        return {"int": int, "float": float}.get(self.spelling.get(name), str)(value)

    def respell(self, name, value):
        """Chooses the next way to say an option's value; False when there is none."""
        ways = ["str", "int", "float", "field"]
        for way in ways[ways.index(self.spelling.get(name, "str")) + 1 :]:
            try:
                if way == "field":
                    self.as_field(name, value)
                else:
                    {"int": int, "float": float}[way](value)
            except (KeyError, ValueError):
                continue
            self.spelling[name] = way
            return True
        self.spelling.pop(name, None)
        return False

    def check_value(self, name, value):
        try:
            if self.spelling.get(name) == "field":
                self.as_field(name, value)
            else:
                self.spell(name, value)
        except ValueError as e:
            raise Rejected("options", ValueError("option %s: %s" % (name, e)))

    def compile(self, module, request):
        overrides = {}
        if request.dump_dir:
            overrides["xla_dump_to"] = request.dump_dir
            overrides["xla_dump_hlo_as_proto"] = "true"
            overrides["xla_dump_hlo_pass_re"] = ".+" if request.dump_all else ".*"
        dropped = []
        for name, value in sorted(request.options.items()):
            if name in self.unknown:
                dropped.append(name)
            else:
                self.check_value(name, value)
                overrides[name] = value
        while True:
            try:
                return self.compile_with(module, overrides, request.backend_only), sorted(dropped)
            except (RuntimeError, ValueError) as e:
                message = str(e)
                name = self.named(message, "No such compile option: '")
                if name in overrides:
                    self.unknown.add(name)
                    dropped.append(name)
                    del overrides[name]
                    continue
                name = self.named(message, "While setting option ") or self.named(message, ": xla.DebugOptions.")
                if name in overrides and self.respell(name, overrides[name]):
                    continue
                raise Rejected("options" if name in overrides else "compile", e)

    def named(self, message, lead):
        _, found, rest = message.partition(lead)
        name = ""
        for c in rest:
            if not (c.isalnum() or c == "_"):
                break
            name += c
        return name if found else None

    def probe(self, names):
        out = b""
        for name in names:
            if name not in self.unknown and name not in self.known:
                module = "module @probe {\n  func.func public @main(%a: tensor<f32>) -> tensor<f32> {\n    return %a : tensor<f32>\n  }\n}\n"
                try:
                    self.compile_with(module, {name: ""}, False)
                    self.known.add(name)
                except (RuntimeError, ValueError) as e:
                    no = self.named(str(e), "No such compile option: '") == name
                    (self.unknown if no else self.known).add(name)
            if name in self.known:
                out += f_bytes(9, name)
        return out

    def run_set(self, executable, arrays, repeat, repeat_ns):
        distinct, failure = [], None  # distinct: [encoded outputs, count, first]
        start = time.monotonic_ns()
        try:
            for i in range(max(repeat, MAX_REPEAT)):
                if i >= repeat and time.monotonic_ns() - start >= repeat_ns:
                    break
                try:
                    arguments = [self.put(self.from_wire(*a)) for a in arrays]
                except (RuntimeError, ValueError, TypeError, NotImplementedError) as e:
                    raise Rejected("arguments", e)
                try:
                    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
                    for r in results:
                        r[0].block_until_ready()
                except (RuntimeError, ValueError) as e:
                    raise Rejected("execute", e)
                try:
                    outputs = b"".join(f_bytes(1, self.to_wire(r[0])) for r in results)
                except (RuntimeError, ValueError, NotImplementedError) as e:
                    raise Rejected("outputs", e)
                for d in distinct:
                    if d[0] == outputs:
                        d[1] += 1
                        break
                else:
                    distinct.append([outputs, 1, i])
        except Rejected as e:
            failure = e
        out = b"".join(f_bytes(1, d[0] + f_int(2, d[1]) + f_int(3, d[2])) for d in distinct)
        if failure is not None:
            out += f_bytes(2, failure.encode())
        return out

    def serve(self, request):
        if request.probe:
            return self.probe(request.probe)
        out, start, dropped = b"", time.perf_counter_ns(), []
        try:
            module = self.module(request)
            executable, dropped = self.compile(module, request)
            if request.want_optimized:
                out += f_bytes(5, executable.hlo_modules()[0].as_serialized_hlo_module_proto())
        except Rejected as e:
            out += f_bytes(3, e.encode())
            executable = None
        out += b"".join(f_bytes(6, d) for d in dropped)
        out += f_int(7, time.perf_counter_ns() - start)
        if executable is not None and not request.compile_only:
            start = time.perf_counter_ns()
            for arrays in request.inputs:
                out += f_bytes(4, self.run_set(executable, arrays, request.repeat, request.repeat_ns))
            out += f_int(8, time.perf_counter_ns() - start)
        return out

    def hello(self):
        return f_bytes(1, self.client.platform) + f_bytes(2, self.client.platform_version) + f_bytes(3, self.version) + f_int(5, 1)


def main():
    try:
        build = Build()
        write_frame(f_bytes(2, build.hello()))
    except Exception as e:
        traceback.print_exc()
        write_frame(f_bytes(10, "%s: %s" % (type(e).__name__, e)))
        return
    while True:
        request = Request(read_frame())
        try:
            out = build.serve(request)
        except Exception:
            out = f_bytes(10, traceback.format_exc())
        write_frame(f_int(1, request.id) + out)


main()
