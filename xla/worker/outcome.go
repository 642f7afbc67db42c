package worker

import (
	"fmt"
	"time"

	"github.com/passgate/passgate/xla/pjrt"
)

// Format names the encoding of Request.Program, as PJRT does.
type Format string

const (
	// HLO is a serialized xla.HloModuleProto.
	HLO Format = "hlo"
	// MLIR is StableHLO, as text or bytecode.
	MLIR Format = "mlir"
)

// Array is one dense host array.
type Array struct {
	// Type is the xla.PrimitiveType wire number (xla_data.proto), e.g. 11 for F32.
	Type int32
	// Dims are the sizes, most major first; empty for a scalar.
	Dims []int64
	// Data holds the elements row-major and little-endian. Types of fewer than 8 bits take one byte per element, the
	// value in the low bits. PRED takes one byte, 0 or 1.
	Data []byte
}

// Request is one program to compile and, unless CompileOnly, to run.
type Request struct {
	Program []byte
	Format  Format
	// Options are DebugOptions field names and values in flag syntax, sent as env_option_overrides on top of the build's
	// defaults; repeated fields take comma lists. Names that the build does not have are dropped and listed in
	// Outcome.Dropped.
	Options map[string]string
	// Replicas is the number of devices that run the program together; 0 is 1. More than one needs CompileOnly, and a
	// topology or client of so many devices.
	Replicas int
	// BackendOnly skips the HLO passes (run_backend_only): Program is a module that has been through them.
	BackendOnly bool
	// WantOptimized asks for the module after all HLO passes in Result.Optimized.
	WantOptimized bool
	// DumpDir, if set, is the absolute path of an existing empty directory that receives the per-pass dumps as protos (package dump reads
	// them). The dump is there whatever the outcome is, as far as the compiler got.
	DumpDir string
	// DumpAll dumps after every pass; without it only after passes that changed the module.
	DumpAll bool
	// CompileOnly stops after compilation; Inputs must be empty. Must be set for compile-only builds.
	CompileOnly bool
	// Transform, if set, looks at the module at a stage of the pass pipeline or injects a fault there; for self-tests only.
	// A build without PJRT's XlaTransform extension answers with a Failure, code Unimplemented.
	Transform *Transform
	// Inputs are the sets of arguments to run the program on, one after the other, in one compilation.
	Inputs [][]Array
	// Repeat is the number of executions per input set; 0 is 1.
	Repeat int
	// RepeatFor lets each input set be executed beyond Repeat until so much time has passed, at most 300 times: races show
	// in some executions only.
	RepeatFor time.Duration
	// CheckMemory adds executions to each input set: with arguments between guard pages, read-only unless donated; several
	// at a time; once more after all other sets. Their results count among SetResult.Distinct; SetResult.Memory tells the
	// rest. A process that dies of an access outside the arguments is a crash with Crash.Guard. PJRT plugins only.
	CheckMemory bool
	// Before are programs that run first in the same process, under the build's default options, whatever becomes of them.
	Before []Predecessor
	// Timeout bounds the request from the moment a worker starts on it; 0 is Config.Timeout.
	Timeout time.Duration
}

// Predecessor is a program with its arguments.
type Predecessor struct {
	Program []byte
	Format  Format
	Inputs  []Array
}

// Transform is a look at a compilation's module, or a fault injected there.
type Transform struct {
	Stage pjrt.Stage
	// Module, a serialized HloModuleProto, takes the place of the module; nil leaves it.
	Module []byte
}

// Status says what became of a request.
type Status int

const (
	// OK: compiled and, where asked for, run. Result is set. A single execution may still have failed: see SetResult.
	OK Status = iota
	// Rejected: the compiler refused the program with a clean error. Failure is set.
	Rejected
	// Crashed: the process died. Crash is set.
	Crashed
	// Hung: no answer within the deadline; the process was killed.
	Hung
	// OutOfMemory: the process passed the memory limit, or the kernel killed it for memory.
	OutOfMemory
	// Garbage: the process answered with something that is not a frame of the protocol, or with part of one.
	Garbage
	// Infrastructure: the worker could not be started or the caller's context ended. Says nothing about the compiler.
	Infrastructure
)

var statusNames = [...]string{"ok", "rejected", "crashed", "hung", "out-of-memory", "garbage", "infrastructure"}

func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("status(%d)", int(s))
	}
	return statusNames[s]
}

// Stage is the step at which a build said no.
type Stage string

const (
	StageOptions   Stage = "options"   // the compile options
	StageImport    Stage = "import"    // HLO to StableHLO, on the way into jaxlib
	StageCompile   Stage = "compile"   // passes and code generation
	StageArguments Stage = "arguments" // host to device
	StageExecute   Stage = "execute"   // the run itself
	StageOutputs   Stage = "outputs"   // device to host
)

// Failure is a clean error of the build. Code Internal on a valid program is a finding, not trouble of the machine.
type Failure struct {
	Stage   Stage
	Code    pjrt.Code
	Message string
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s: %s", f.Stage, f.Code, f.Message) }

// Check is a failed CHECK or LOG(FATAL) of the build, found in its log.
type Check struct {
	File string // as logged, often a base name
	Line int
	Text string // the message after file:line
}

// Crash says how a worker process died.
type Crash struct {
	// Signal is the name of the signal ("SIGABRT", "SIGSEGV"), empty if the process exited by itself.
	Signal string
	// Exit is the exit status, -1 if a signal killed the process.
	Exit int
	// Check is the fatal log line, nil if there is none.
	Check *Check
	// Guard is the access outside the arguments of which it died (Request.CheckMemory); nil if it died of something else.
	Guard *GuardFault

	address uint64 // around the arguments; 0 if it touched nothing there
}

// Outcome is the typed end of one request.
type Outcome struct {
	Status  Status
	Result  *Result  // OK
	Failure *Failure // Rejected
	Crash   *Crash   // Crashed
	// Err explains Garbage and Infrastructure.
	Err error
	// Log holds the last lines that the process wrote to standard output and error while it served this request.
	Log []string
	// Fresh says that the request was the first of its process.
	Fresh bool
	// Dropped names the options that the build does not have, sorted (OK and Rejected).
	Dropped []string
	// Seen is the module that Request.Transform looked at, as it was; nil if the compilation did not get there.
	Seen []byte
	// Elapsed is the time from the moment a worker started on the request; InXLA the part spent in calls of the build
	// (0 unless OK or Rejected).
	Elapsed, InXLA time.Duration

	supported []string
}

// Result is what a build made of a program.
type Result struct {
	// Sets has one entry per input set, in order.
	Sets []SetResult
	// Optimized is the module after all HLO passes, if asked for: a serialized HloModuleProto.
	Optimized []byte
	// Compile and Execute are times spent in the build: compilation, and all executions with their transfers.
	Compile, Execute time.Duration
}

// SetResult holds the results of one input set.
type SetResult struct {
	// Distinct are the different results seen, in the order of their first appearance; one if the program is
	// deterministic. The bytes are compared, so NaN payloads and signed zeros count.
	Distinct []Distinct
	// Failure is the first execution error, nil if there was none. The set's remaining executions were not run.
	Failure *Failure
	// Memory is what Request.CheckMemory saw; nil without it.
	Memory *Memory
}

// Distinct is one result and how often it came.
type Distinct struct {
	Outputs []Array
	Count   int
	// First is the index of the first execution that gave it, from 0.
	First int
	// Under are the circumstances of that execution, for a reader; "" if they were plain (Request.CheckMemory).
	Under string
}

// Info describes a running build.
type Info struct {
	Platform        string // e.g. "cpu", "tpu"
	PlatformVersion string
	// API is the version of the PJRT C API as "0.106", or the jaxlib version for jaxlib builds.
	API string
	// Extensions are the PJRT_Extension_Type numbers in the plugin's order; empty for jaxlib builds.
	Extensions []int32
	Devices    int // addressable devices; 0 for compile-only builds
}
