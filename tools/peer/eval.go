package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/tools/rig"
	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

const evalUsage = `usage: peer eval --xla DIR [flags]

Compares the reference interpreter with XLA builds on the HLO modules of XLA's
own tests. Each module that a build compiles and runs on generated inputs is
evaluated in bound mode, and every element that a build returns must lie in the
legal set.

`

type evalConfig struct {
	checkout, explained, answers, out string
	builds                            []string
	streams                           []string
	match                             *regexp.Regexp
	seeds                             uint64
	workers, show                     int
	share                             float64
}

// strict sets what makes NaN and rounding differences real (xla-facts,
// part 3).
var strict = map[string]string{"xla_cpu_enable_fast_min_max": "false", "xla_allow_excess_precision": "false"}

const (
	// maxElements is the size of the largest array of a module that is run at
	// all: XLA's tests have modules made for TPU pods.
	maxElements = 1 << 20
	// maxSteps bounds the evaluation, and with it what a module may cost.
	maxSteps = 1 << 22
)

func evalMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := evalConfig{}
	flags := flag.NewFlagSet("peer eval", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, evalUsage); flags.PrintDefaults() }
	flags.StringVar(&c.checkout, "xla", "", "XLA source checkout (required)")
	flags.StringVar(&c.explained, "explained", "tools/peer/explained.tsv", "list of explained disagreements")
	flags.StringVar(&c.answers, "answers", "", "directory that keeps the builds' answers")
	flags.StringVar(&c.out, "out", "", "directory for the modules that disagree")
	list := flags.String("builds", "xla-2025-11,xla-2026-06,jax-0.11.2", "build specs")
	streams := flags.String("streams", "lattice,random", "input streams")
	match := flags.String("match", "", "only modules whose path:line matches this regular expression")
	flags.Uint64Var(&c.seeds, "seeds", 1, "input sets per stream")
	flags.IntVar(&c.workers, "workers", runtime.NumCPU(), "modules at a time")
	flags.IntVar(&c.show, "show", 3, "examples per group")
	flags.Float64Var(&c.share, "share", 0.97, "least share of evaluated modules")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	var err error
	if c.match, err = regexp.Compile(*match); err != nil || c.checkout == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "peer eval: need --xla DIR, a regular expression for --match, and no other arguments")
		return 2
	}
	c.builds, c.streams = strings.Split(*list, ","), strings.Split(*streams, ",")
	ok, err := compareValues(ctx, c, stdout, stderr)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "peer eval:", err)
		return 2
	case !ok:
		return 1
	}
	return 0
}

// workerMain is the body of a worker process of the pool.
func workerMain(ctx context.Context, args []string, stderr io.Writer) int {
	if err := worker.Main(ctx, os.Stdin, os.Stdout, args); err != nil {
		fmt.Fprintln(stderr, "peer worker:", err)
		return 2
	}
	return 0
}

// subject is one module under comparison and what became of it.
type subject struct {
	origin
	text   string
	module *hlo.Module
	proto  []byte
	inputs []fuzz.Stream

	skipped    string         // why it is not compared
	ran        []string       // builds that ran it on some stream
	failures   []string       // why evaluations failed: "opcode: detail"
	evaluated  bool           // some build ran it, and every stream was evaluated
	judged     int            // elements
	undecided  int            // elements
	contested  int            // elements outside the legal set, but contested
	difference []disagreement // first per build and stream
}

type disagreement struct {
	build, stream string
	leaf, element int
	wrong, of     int
	got, legal    string
}

func (d disagreement) String() string {
	return fmt.Sprintf("%s %s output %d: %d of %d wrong, first [%d]: build %s, legal %s", d.build, d.stream, d.leaf, d.wrong, d.of, d.element, d.got, d.legal)
}

func compareValues(ctx context.Context, c evalConfig, w, progress io.Writer) (ok bool, err error) {
	reasons, err := readExplained(c.explained)
	if err != nil {
		return false, err
	}
	found, pool, err := rig.Open(ctx, c.builds, nil, worker.Config{Workers: c.workers, Timeout: 20 * time.Second})
	if err != nil {
		return false, err
	}
	defer pool.Close()

	var subjects []*subject
	for m, err := range modules(c.checkout, nil) {
		if err != nil {
			return false, err
		}
		if c.match.MatchString(m.place()) {
			subjects = append(subjects, &subject{origin: m.origin, text: m.text})
		}
	}
	work := make(chan *subject)
	var wg sync.WaitGroup
	for range c.workers {
		wg.Go(func() {
			for s := range work {
				s.prepare(c)
				if s.skipped == "" && ctx.Err() == nil {
					s.compare(ctx, c, pool, found)
				}
				if err := s.keep(c.out); err != nil {
					s.skipped = err.Error()
				}
				s.module, s.inputs, s.proto = nil, nil, nil
			}
		})
	}
	for i, s := range subjects {
		if ctx.Err() != nil {
			break
		}
		work <- s
		if i%500 == 499 {
			fmt.Fprintf(progress, "%d of %d\n", i+1, len(subjects))
		}
	}
	close(work)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return writeEvalReport(w, c, subjects, reasons)
}

// prepare parses the module and makes its inputs.
func (s *subject) prepare(c evalConfig) {
	defer func() {
		if p := recover(); p != nil {
			s.skipped = fmt.Sprintf("BUG: panic: %v", p)
		}
	}()
	m, err := hlo.Parse(fmt.Sprintf("%05d.hlo", s.number), []byte(s.text))
	if err != nil {
		s.skipped = "not accepted by package hlo's parser"
		return
	}
	if err := hlo.Verify(m); err != nil {
		s.fail("not accepted by package hlo's verifier: " + err.Error())
	}
	s.module = m
	fc := fuzz.Case{Name: fmt.Sprint(s.number), Module: m, Text: s.text}
	if s.module.ReplicaCount > 1 || s.module.NumPartitions > 1 {
		s.skipped = "for several devices"
		return
	}
	for _, k := range s.module.Computations {
		for _, in := range k.Instructions {
			for _, leaf := range in.Shape.Leaves() {
				if leaf.Elems() > maxElements {
					s.skipped = "an array of more than 2^20 elements"
					return
				}
			}
		}
	}
	for _, p := range fc.Params() {
		if !p.IsArray() || p.IsDynamic() {
			s.skipped = "parameters that are not plain arrays"
			return
		}
	}
	for seed := range c.seeds {
		for _, in := range fc.Streams(seed + 1) {
			if in.Name == fuzz.OwnStream && seed == 0 || slices.Contains(c.streams, in.Name) {
				s.inputs = append(s.inputs, in)
			}
		}
	}
	if len(s.inputs) == 0 {
		s.skipped = "inputs that cannot be generated"
		return
	}
	wire, err := m.ToProto()
	if err == nil {
		s.proto, err = proto.Marshal(wire)
	}
	if err != nil {
		s.skipped = "BUG: " + err.Error()
	}
}

// reply is what a build said, in the form kept on disk. Sets has one entry
// per input set; an entry is nil where the execution failed.
type reply struct {
	Status string
	Sets   [][]worker.Array
}

// ask has the build run the module on all inputs.
func (s *subject) ask(ctx context.Context, c evalConfig, pool *worker.Pool, b *builds.Build) (*reply, error) {
	request := worker.Request{Program: s.proto, Format: worker.HLO, Options: strict}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %v\n", b.ID, strict)
	hash.Write([]byte(s.text))
	for _, stream := range s.inputs {
		var set []worker.Array
		for _, l := range stream.Inputs {
			set = append(set, worker.Array{Type: int32(l.Shape.Type), Dims: l.Shape.Dims, Data: l.Raw})
			fmt.Fprintf(hash, "\n%v", l.Shape)
			hash.Write(l.Raw)
		}
		request.Inputs = append(request.Inputs, set)
	}
	file := ""
	if c.answers != "" {
		file = filepath.Join(c.answers, fmt.Sprintf("%x", hash.Sum(nil)))
		if data, err := os.ReadFile(file); err == nil {
			var r reply
			if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&r); err == nil {
				return &r, nil
			}
		}
	}
	o := pool.Do(ctx, b, request)
	r := &reply{Status: o.Status.String()}
	switch o.Status {
	case worker.Infrastructure:
		return nil, fmt.Errorf("%s on %s: %v", s.origin, b.Spec, o.Err)
	case worker.Rejected:
		r.Status += ": " + o.Failure.Error()
	case worker.OK:
		for _, set := range o.Result.Sets {
			var out []worker.Array
			if set.Failure == nil && len(set.Distinct) > 0 {
				out = set.Distinct[0].Outputs
				if out == nil {
					out = []worker.Array{}
				}
			}
			r.Sets = append(r.Sets, out)
		}
	}
	if file != "" {
		var data bytes.Buffer
		if err := gob.NewEncoder(&data).Encode(r); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(c.answers, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, data.Bytes(), 0o644); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// compare runs the module on the builds and judges what comes back.
func (s *subject) compare(ctx context.Context, c evalConfig, pool *worker.Pool, found []*builds.Build) {
	replies := make([]*reply, len(found))
	for k, b := range found {
		r, err := s.ask(ctx, c, pool, b)
		if err != nil {
			s.skipped = err.Error()
			return
		}
		replies[k] = r
		if slices.ContainsFunc(r.Sets, func(set []worker.Array) bool { return set != nil }) {
			s.ran = append(s.ran, b.Spec.String())
		}
	}
	for i, stream := range s.inputs {
		var leaves []*eval.Array
		tried := false
		for k, r := range replies {
			if i >= len(r.Sets) || r.Sets[i] == nil {
				continue
			}
			if !tried && len(s.failures) == 0 {
				tried = true
				leaves = s.evaluate(ctx, stream)
			}
			if s.skipped != "" {
				return
			}
			if leaves != nil {
				s.judge(found[k].Spec.String(), stream.Name, leaves, r.Sets[i])
			}
		}
	}
	s.evaluated = len(s.ran) > 0 && len(s.failures) == 0
}

// keep writes the module and its disagreements to a directory.
func (s *subject) keep(dir string) error {
	if dir == "" || len(s.difference) == 0 {
		return nil
	}
	text := fmt.Sprintf("// %s\n// %s\t%s\t%s\t\n", s.origin, s.path, moduleName(s.text), textHash(s.text))
	for _, d := range s.difference {
		text += fmt.Sprintf("// %s\n", d)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.hlo", s.number)), []byte(text+s.text), 0o644)
}

func (s *subject) fail(reason string) {
	if !slices.Contains(s.failures, reason) {
		s.failures = append(s.failures, reason)
	}
}

// evaluate runs the interpreter; nil says that it failed.
func (s *subject) evaluate(ctx context.Context, stream fuzz.Stream) (leaves []*eval.Array) {
	defer func() {
		if p := recover(); p != nil {
			s.fail(fmt.Sprintf("BUG: panic: %v", p))
		}
	}()
	args := make([]*eval.Value, len(stream.Inputs))
	for i, l := range stream.Inputs {
		args[i] = eval.FromLiteral(l)
	}
	v, err := eval.Run(ctx, s.module, args, eval.Options{Bounds: true, MaxSteps: maxSteps})
	if err != nil {
		var u *eval.Unsupported
		switch {
		case errors.As(err, &u) && u.Detail == "several devices":
			s.skipped = "for several devices"
		case errors.As(err, &u):
			s.fail(fmt.Sprintf("unsupported %v: %s", u.Op, u.Detail))
		case errors.Is(err, eval.ErrStepLimit):
			s.fail(err.Error())
		default:
			s.fail("BUG: " + err.Error())
		}
		return nil
	}
	return flatten(v, []*eval.Array{})
}

// judge compares the outputs of one run.
func (s *subject) judge(build, stream string, leaves []*eval.Array, outputs []worker.Array) {
	if len(leaves) != len(outputs) {
		s.fail(fmt.Sprintf("BUG: %d outputs, the build has %d", len(leaves), len(outputs)))
		return
	}
	for k, a := range leaves {
		out := outputs[k]
		if int32(a.Type) != out.Type || !slices.Equal(a.Dims, out.Dims) {
			s.fail(fmt.Sprintf("BUG: output %d is %v%v, the build's type %d%v", k, a.Type, a.Dims, out.Type, out.Dims))
			return
		}
		dims := a.Dims
		if a.Sizes != nil {
			dims = a.Sizes // the elements that there are lie at the front, without gaps
		}
		shape := hlo.ArrayShape(a.Type, dims...)
		l := &hlo.Literal{Shape: shape, Raw: out.Data[:int(shape.Elems())*a.Type.Bytes()]}
		d := disagreement{build: build, stream: stream, leaf: k, of: int(l.Shape.Elems()), element: -1}
		for j := range d.of {
			got := eval.LiteralScalar(l, int64(j))
			i := position(j, dims, a.Dims)
			switch a.Legal(i, got) {
			case eval.In:
				s.judged++
			case eval.Undecided:
				s.undecided++
			case eval.Out:
				if contest := a.At(i).Contest; contest != 0 {
					s.contested++
					continue
				}
				s.judged++
				if d.wrong++; d.element < 0 {
					d.element, d.got, d.legal = j, eval.ScalarString(a.Type, got), a.LegalSet(i)
				}
			}
		}
		if d.wrong > 0 {
			s.difference = append(s.difference, d)
		}
	}
}

// position is the row-major index in an array of the given bounds of element j
// of its part of the given sizes.
func position(j int, sizes, bounds []int64) int {
	at, stride := 0, 1
	for d := len(sizes) - 1; d >= 0; d-- {
		at += j % int(sizes[d]) * stride
		j /= int(sizes[d])
		stride *= int(bounds[d])
	}
	return at
}

// flatten lists the arrays of a value; tokens are left out, as PJRT does.
func flatten(v *eval.Value, to []*eval.Array) []*eval.Array {
	if v.Array != nil {
		return append(to, v.Array)
	}
	for _, e := range v.Elements {
		to = flatten(e, to)
	}
	return to
}

// readExplained reads the list of explained disagreements: tab-separated
// source path, module name, hash of the text (textHash) and reason; lines that
// start with # are comments. The key is the path with the hash, since names
// repeat and lines move.
func readExplained(file string) (map[[2]string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	reasons := map[[2]string]string{}
	for n, line := range strings.Split(string(data), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 || f[3] == "" {
			return nil, fmt.Errorf("%s:%d: want path, module name, hash and reason between tabs", file, n+1)
		}
		reasons[[2]string{f[0], f[2]}] = f[3]
	}
	return reasons, nil
}

// textHash is the start of the SHA-256 of a module's text.
func textHash(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:12] }

// moduleName is the name in the header, or "" without one.
func moduleName(text string) string {
	if m := moduleHeader.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

var moduleHeader = regexp.MustCompile(`(?m)^\s*HloModule\s+%?([^\s,]+)`)

// opcodesOf lists the opcodes of a module but for the most common ones.
func opcodesOf(text string) string {
	m, err := hlo.Parse("", []byte(text))
	if err != nil {
		return "?"
	}
	set := map[string]bool{}
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			switch in.Op {
			case hlo.OpParameter, hlo.OpTuple, hlo.OpGetTupleElement, hlo.OpConstant, hlo.OpBroadcast, hlo.OpFusion, hlo.OpReshape, hlo.OpBitcast, hlo.OpCopy:
			default:
				set[in.Op.String()] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), " ")
}

func writeEvalReport(w io.Writer, c evalConfig, subjects []*subject, reasons map[[2]string]string) (bool, error) {
	skipped, failed, disagree, contested, blind := newGroups(), newGroups(), newGroups(), newGroups(), newGroups()
	perBuild := map[string]int{}
	ran, evaluated, agreed, explained, unexplained := 0, 0, 0, 0, 0
	judged, undecided, outside := 0, 0, 0
	used := map[[2]string]bool{}
	for _, s := range subjects {
		if s.skipped != "" {
			skipped.add(s.origin, s.skipped, s.skipped)
			continue
		}
		for _, b := range s.ran {
			perBuild[b]++
		}
		if len(s.ran) == 0 {
			continue
		}
		ran++
		for _, f := range s.failures {
			failed.add(s.origin, kindOf(f), f)
		}
		if s.evaluated {
			evaluated++
		}
		judged, undecided, outside = judged+s.judged, undecided+s.undecided, outside+s.contested
		if s.contested > 0 {
			contested.add(s.origin, "contested: "+opcodesOf(s.text), fmt.Sprintf("%d elements", s.contested))
		}
		if s.undecided > s.judged {
			blind.add(s.origin, opcodesOf(s.text), fmt.Sprintf("%d judged, %d undecided", s.judged, s.undecided))
		}
		if len(s.difference) == 0 {
			if s.evaluated {
				agreed++
			}
			continue
		}
		key := [2]string{s.path, textHash(s.text)}
		if reasons[key] != "" {
			explained++
			used[key] = true
			continue
		}
		unexplained++
		var lines []string
		for _, d := range s.difference {
			lines = append(lines, d.String())
		}
		disagree.add(s.origin, opcodesOf(s.text), moduleName(s.text)+" "+key[1]+"\n    "+strings.Join(lines, "\n    "))
	}
	if ran == 0 {
		return false, errors.New("no build ran any module")
	}
	share := float64(evaluated) / float64(ran)
	fmt.Fprintf(w, "%d distinct modules\n", len(subjects))
	skipped.write(w, "not compared", c.show)
	for _, b := range c.builds {
		fmt.Fprintf(w, "%s ran %d\n", b, perBuild[b])
	}
	fmt.Fprintf(w, "%d ran on some build; evaluated %d (%.2f %%)\n", ran, evaluated, 100*share)
	failed.write(w, "not evaluated", c.show)
	fmt.Fprintf(w, "%d elements judged, %d undecided, %d outside the legal set but contested\n", judged, undecided, outside)
	contested.write(w, "contested", c.show)
	blind.write(w, "more than half undecided", c.show)
	fmt.Fprintf(w, "%d modules agree, %d disagree for an explained reason, %d without\n", agreed, explained, unexplained)
	disagree.write(w, "disagree", c.show)
	if c.match.String() == "" {
		for key, reason := range reasons {
			if !used[key] {
				fmt.Fprintf(w, "explained, but agrees now: %s %s: %s\n", key[0], key[1], reason)
			}
		}
	}
	return unexplained == 0 && share >= c.share, nil
}
