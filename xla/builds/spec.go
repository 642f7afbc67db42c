// Package builds names, fetches and describes the XLA builds under test.
//
// A build is written as a build spec; Parse turns the text into a Spec, Store.Fetch the Spec into a Build whose files lie in
// a content-addressed cache. Nothing here loads a build: package worker does, in a process of its own.
package builds

// Kind says what a build can do on this machine.
type Kind string

const (
	// Executable builds compile and run programs here.
	Executable Kind = "executable"
	// CompileOnly builds compile ahead of time for a device that need not be here.
	CompileOnly Kind = "compile-only"
)

// Source says where a build comes from.
type Source string

const (
	File   Source = "file"   // a plugin .so by path
	Pip    Source = "pip"    // a wheel that holds a plugin
	Jaxlib Source = "jaxlib" // a jaxlib wheel, run through Python
	Libtpu Source = "libtpu" // the TPU compiler, compile-only without a TPU
	CUDA   Source = "cuda"   // the CUDA plugin, compile-only without a GPU
	Fault  Source = "fault"  // passgate's own fault-injecting build, see package worker
)

// Spec is a parsed build spec.
type Spec struct {
	// Text is the spec as the user wrote it.
	Text   string
	Source Source
	// Path is the plugin file (File).
	Path string
	// Dist and Version name the wheel (Pip, Jaxlib, Libtpu, CUDA).
	Dist, Version string
	// Target is the topology or GPU target after '@'; compile-only builds only.
	Target string
	// Every and Inner belong to Fault: one program in Every gets a fault (0: only on request), the others go to the build
	// Inner; nil is a build that returns its inputs.
	Every int
	Inner *Spec
}

// Build is a build whose files are on this machine.
type Build struct {
	Spec Spec
	// ID is the content hash: "sha256:" and 64 hex digits of the plugin file, or of the jaxlib wheel.
	ID   string
	Kind Kind
	// Plugin is the absolute path of the plugin; empty for jaxlib and for a fault build without an inner build.
	Plugin string
	// Python is the interpreter of the build's virtual environment; jaxlib only.
	Python string
	// Topology is set for compile-only builds.
	Topology *Topology
	// Env holds the variables that the build's worker needs, "NAME=value".
	Env []string
}

// Topology names the devices that a compile-only build compiles for, as PJRT_TopologyDescription_Create wants it.
type Topology struct {
	Name string
	// Options are create options; values are strings.
	Options map[string]string
}
