package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/passgate/passgate/xla/pjrt"
	"github.com/passgate/passgate/xla/worker/wire"
)

// plugin is the engine of PJRT plugins.
type plugin struct {
	p        *pjrt.Plugin
	client   *pjrt.Client   // executable builds
	topology *pjrt.Topology // compile-only builds
	unknown  map[string]bool
	known    map[string]bool
	// Faults that are injected into checkups, nil for none.
	tamper  func(*checkup, *arena) // with the arguments' memory, after the execution
	confuse func([][]*wire.Array)  // with the results of concurrent executions
}

func loadPlugin(path string, ahead bool, topology string, options map[string]string) (*plugin, error) {
	p, err := pjrt.Open(path)
	if err != nil {
		return nil, err
	}
	e := &plugin{p: p, unknown: map[string]bool{}, known: map[string]bool{}}
	if ahead {
		values := pjrt.NamedValues{}
		for name, v := range options {
			values[name] = v
		}
		e.topology, err = p.NewTopology(topology, values)
	} else {
		e.client, err = p.NewClient(nil)
	}
	if err != nil {
		return nil, err
	}
	return e, watchFaults() // last: a plugin may have set handlers of its own
}

func (e *plugin) hello() (*wire.Hello, error) {
	major, minor := e.p.Version()
	h := &wire.Hello{Api: fmt.Sprintf("%d.%d", major, minor), Extensions: e.p.Extensions()}
	var named interface {
		PlatformName() (string, error)
		PlatformVersion() (string, error)
	} = e.topology
	if e.client != nil {
		named = e.client
		h.Devices = int32(e.client.Devices())
	}
	var err error
	if h.Platform, err = named.PlatformName(); err != nil {
		return nil, err
	}
	h.PlatformVersion, err = named.PlatformVersion()
	return h, err
}

// failure turns an error of the build into its wire form.
func failure(stage Stage, err error) *wire.Failure {
	f := &wire.Failure{Stage: string(stage), Code: int32(pjrt.Unknown), Message: err.Error()}
	var perr *pjrt.Error
	if errors.As(err, &perr) {
		f.Code, f.Message = int32(perr.Code), perr.Message
	}
	return f
}

var unknownOption = regexp.MustCompile(`No such compile option: '([^']*)'`)

// compile compiles with the options that the build has; unknown ones are learnt and left out.
func (e *plugin) compile(r *wire.Request, entry *pjrt.EntryShapes) (x *pjrt.Executable, dropped []string, err error) {
	overrides := map[string]string{}
	if r.GetDumpDir() != "" {
		overrides["xla_dump_to"] = r.GetDumpDir()
		overrides["xla_dump_hlo_as_proto"] = "true"
		overrides["xla_dump_hlo_pass_re"] = ".*"
		if r.GetDumpAll() {
			overrides["xla_dump_hlo_pass_re"] = ".+"
		}
	}
	for name, v := range r.GetOptions() {
		if e.unknown[name] {
			dropped = append(dropped, name)
			continue
		}
		overrides[name] = v
	}
	for {
		opts := pjrt.Options{Overrides: overrides, BackendOnly: r.GetBackendOnly(), Replicas: int(r.GetReplicas()), Entry: entry}.Marshal()
		if e.client != nil {
			x, err = e.client.Compile(r.GetProgram(), r.GetFormat(), opts)
		} else {
			x, err = e.topology.Compile(r.GetProgram(), r.GetFormat(), opts)
		}
		name, isUnknown := unknownName(err)
		if _, ours := overrides[name]; !isUnknown || !ours {
			slices.Sort(dropped)
			return x, dropped, err
		}
		e.unknown[name] = true
		dropped = append(dropped, name)
		delete(overrides, name)
	}
}

func unknownName(err error) (name string, ok bool) {
	var perr *pjrt.Error
	if !errors.As(err, &perr) {
		return "", false
	}
	m := unknownOption.FindStringSubmatch(perr.Message)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// probeProgram compiles fast; the options are looked at before it.
const probeProgram = "module @probe {\n  func.func public @main(%a: tensor<f32>) -> tensor<f32> {\n    return %a : tensor<f32>\n  }\n}\n"

// probe tells which of the names are compile options of the build. An option that exists complains about the empty value
// or takes it; either is an answer.
func (e *plugin) probe(names []string) (supported []string) {
	for _, name := range names {
		if !e.known[name] && !e.unknown[name] {
			opts := pjrt.Options{Overrides: map[string]string{name: ""}}.Marshal()
			var x *pjrt.Executable
			var err error
			if e.client != nil {
				x, err = e.client.Compile([]byte(probeProgram), string(MLIR), opts)
			} else {
				x, err = e.topology.Compile([]byte(probeProgram), string(MLIR), opts)
			}
			if err == nil {
				x.Close()
			}
			if n, isUnknown := unknownName(err); isUnknown && n == name {
				e.unknown[name] = true
			} else {
				e.known[name] = true
			}
		}
		if e.known[name] {
			supported = append(supported, name)
		}
	}
	return supported
}

func (e *plugin) serve(r *wire.Request) *wire.Response {
	if len(r.GetProbe()) > 0 {
		return &wire.Response{Supported: e.probe(r.GetProbe())}
	}
	if e.client == nil && !r.GetCompileOnly() {
		return &wire.Response{Failure: &wire.Failure{Stage: string(StageExecute), Code: int32(pjrt.FailedPrecondition),
			Message: "this build is compile-only: it cannot run programs"}}
	}
	var entry *pjrt.EntryShapes
	if r.GetFormat() == string(HLO) {
		var err error
		if entry, err = pjrt.ParseEntry(r.GetProgram()); err != nil {
			return &wire.Response{Failure: &wire.Failure{Stage: string(StageCompile), Code: int32(pjrt.InvalidArgument), Message: err.Error()}}
		}
	}
	resp := &wire.Response{}
	if t := r.GetTransform(); t != nil {
		clear, err := e.p.Transform(pjrt.Stage(t.GetStage()), func(module []byte) []byte {
			resp.Seen = module
			return t.GetModule()
		})
		if err != nil {
			resp.Failure = failure(StageOptions, err)
			if errors.Is(err, pjrt.ErrNotInAPI) {
				resp.Failure.Code = int32(pjrt.Unimplemented)
			}
			return resp
		}
		defer func() {
			if err := clear(); err != nil && resp.Trouble == "" {
				resp.Trouble = "clear the transform: " + err.Error()
			}
		}()
	}
	for _, p := range r.GetBefore() {
		e.runBefore(p)
	}
	start := time.Now()
	x, dropped, err := e.compile(r, entry)
	resp.CompileNs, resp.Dropped = int64(time.Since(start)), dropped
	if err != nil {
		stage := StageCompile
		if strings.Contains(err.Error(), "While setting option") {
			stage = StageOptions
		}
		resp.Failure = failure(stage, err)
		return resp
	}
	defer func() {
		if err := x.Close(); err != nil && resp.Trouble == "" {
			resp.Trouble = "close the executable: " + err.Error()
		}
	}()
	if r.GetWantOptimized() {
		start := time.Now()
		code, _, err := x.OptimizedProgram()
		resp.CompileNs += int64(time.Since(start))
		if err != nil {
			resp.Failure = failure(StageCompile, err)
			return resp
		}
		if resp.Optimized, err = moduleOf(code); err != nil {
			resp.Trouble = "optimised program: " + err.Error()
			return resp
		}
	}
	if r.GetCompileOnly() {
		return resp
	}
	start = time.Now()
	executions := int32(0)
	var tallies []*tally
	for _, in := range r.GetInputs() {
		set, tally := e.runSet(x, entry, in.GetArrays(), int(max(r.GetRepeat(), 1)), time.Duration(r.GetRepeatNs()))
		resp.Sets, tallies = append(resp.Sets, set), append(tallies, tally)
		executions += tally.n
	}
	if r.GetCheckMemory() {
		e.checkMemory(x, entry, r, resp, tallies, time.Since(start) > slowRun*time.Duration(executions))
	}
	resp.ExecuteNs = int64(time.Since(start))
	return resp
}

// moduleOf takes hlo_module, field 1, out of a HloModuleProtoWithConfig.
func moduleOf(b []byte) ([]byte, error) {
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return nil, protowire.ParseError(k)
		}
		b = b[k:]
		if n == 1 && typ == protowire.BytesType {
			v, k := protowire.ConsumeBytes(b)
			if k < 0 {
				return nil, protowire.ParseError(k)
			}
			return v, nil
		}
		if k = protowire.ConsumeFieldValue(n, typ, b); k < 0 {
			return nil, protowire.ParseError(k)
		}
		b = b[k:]
	}
	return nil, errors.New("no hlo_module")
}

// maxRepeat bounds the executions that Request.RepeatFor asks for.
const maxRepeat = 300

// runSet executes one input set repeat times, and further times until the duration is over. Arguments are transferred once if the program leaves them alone, else anew
// for each execution.
func (e *plugin) runSet(x *pjrt.Executable, entry *pjrt.EntryShapes, arrays []*wire.Array, repeat int, atLeast time.Duration) (*wire.Set, *tally) {
	keep := entry != nil && !entry.Aliased
	set, tally := &wire.Set{}, &tally{}
	var args []*pjrt.Buffer
	release := func() {
		if f := closeAll(args); f != nil && set.Failure == nil {
			set.Failure = f
		}
		args = nil
	}
	start := time.Now()
	for i := 0; i < repeat || i < maxRepeat && time.Since(start) < atLeast; i++ {
		if i == 0 || !keep {
			release()
			if args, set.Failure = e.transfer(entry, arrays); set.Failure != nil {
				return set, tally
			}
		}
		outputs, f := execute(x, args, keep)
		if f != nil {
			set.Failure = f
			break
		}
		tally.add(outputs, "")
	}
	release()
	set.Distinct = tally.distinct
	return set, tally
}

// transfer copies arguments to the device.
func (e *plugin) transfer(entry *pjrt.EntryShapes, arrays []*wire.Array) (args []*pjrt.Buffer, f *wire.Failure) {
	for j, a := range arrays {
		var layout []int64
		if entry != nil {
			layout = entry.ArgumentLayout(j)
		}
		b, err := e.client.BufferFromHost(a.GetType(), a.GetDims(), layout, a.GetData())
		if err != nil {
			closeAll(args)
			return nil, failure(StageArguments, fmt.Errorf("argument %d: %w", j, err))
		}
		args = append(args, b)
	}
	return args, nil
}

func closeAll(buffers []*pjrt.Buffer) (f *wire.Failure) {
	for _, b := range buffers {
		if err := b.Close(); err != nil && f == nil {
			f = failure(StageArguments, err)
		}
	}
	return f
}

func execute(x *pjrt.Executable, args []*pjrt.Buffer, keep bool) ([]*wire.Array, *wire.Failure) {
	buffers, err := x.Execute(args, keep)
	if err != nil {
		return nil, failure(StageExecute, err)
	}
	out, fail := read(buffers)
	for _, b := range buffers {
		if err := b.Close(); err != nil && fail == nil {
			fail = failure(StageOutputs, err)
		}
	}
	return out, fail
}

// read copies results to the host.
func read(buffers []*pjrt.Buffer) ([]*wire.Array, *wire.Failure) {
	var out []*wire.Array
	for i, b := range buffers {
		typ, dims, data, err := b.ToHost()
		if err != nil {
			return nil, failure(StageOutputs, fmt.Errorf("output %d: %w", i, err))
		}
		out = append(out, &wire.Array{Type: typ, Dims: dims, Data: data})
	}
	return out, nil
}

// tally keeps one copy of each distinct result.
type tally struct {
	distinct []*wire.Distinct
	hashes   []uint64
	n        int32
}

// add counts the result of an execution under the given circumstances, "" for plain ones.
func (t *tally) add(outputs []*wire.Array, under string) {
	i := t.n
	t.n++
	h := fnv.New64a()
	for _, o := range outputs {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(o.GetData()))))
		h.Write(o.GetData())
	}
	sum := h.Sum64()
	for k, d := range t.distinct {
		if t.hashes[k] == sum && sameOutputs(d.GetOutputs(), outputs) {
			d.Count++
			return
		}
	}
	t.hashes = append(t.hashes, sum)
	t.distinct = append(t.distinct, &wire.Distinct{Outputs: outputs, Count: 1, First: i, Under: under})
}

func sameOutputs(a, b []*wire.Array) bool {
	return slices.EqualFunc(a, b, func(x, y *wire.Array) bool {
		return x.GetType() == y.GetType() && slices.Equal(x.GetDims(), y.GetDims()) && bytes.Equal(x.GetData(), y.GetData())
	})
}
