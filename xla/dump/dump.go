// Package dump reads the per-pass dumps that XLA writes with xla_dump_to, xla_dump_hlo_pass_re and xla_dump_hlo_as_proto.
//
// The file names are the index (xla/service/dump.cc; xla/hlo/pass/hlo_pass_pipeline.cc):
//
//	module_0003.NAME.before_optimizations.hlo.pb
//	module_0003.NAME.0006.PIPELINE.after_PASS.before_NEXT.hlo.pb    PASS is "pipeline-start" at the start of each pipeline
//	module_0003.NAME.0016.copy-insertion.after_adding_copies.hlo.pb  written inside a pass
//	module_0003.NAME.cpu_after_optimizations.hlo.pb
//	module_0003.metadata.textproto                                   TPU only: every pass run, changed or not
//
// NAME may hold dots and is missing when the file name would be too long. Characters / \ [ ] and blanks of pass and pipeline
// names appear as '_'. Pipelines nest, so steps of one pipeline may stand between steps of another.
package dump

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/passgate/passgate/hlo/hlopb"
)

// PipelineStart is the pass name of the dump that each pipeline writes before its first pass.
const PipelineStart = "pipeline-start"

// FileName is a pass's or pipeline's name as file names have it
// (xla/service/dump.cc, SanitizeFileName; blanks by the pipelines of TPUs).
func FileName(name string) string { return fileNames.Replace(name) }

var fileNames = strings.NewReplacer("/", "_", "\\", "_", "[", "_", "]", "_", " ", "_")

// Key names a pass step in one compilation. Pass names alone are not unique.
type Key struct {
	// Pipeline is the pipeline's name as in file names: '_' for blanks.
	Pipeline string
	// Index counts the dumped pass steps of that pipeline name from 0, pipeline-start not counted. It is the pass's place in
	// the pipeline only in a dump of all passes; in a dump of the changed ones it counts those. Where the compiler writes its
	// metadata it is the pass's place since the last start of the pipeline.
	Index int
	// Pass is the pass's name; "apply-xla-transforms" without the number that counts its uses in the process.
	Pass string
}

func (k Key) String() string { return fmt.Sprintf("%s/%d/%s", k.Pipeline, k.Index, k.Pass) }

// Step is one dumped state: the module after a pass.
type Step struct {
	// Number is the dump's step counter, from 0, over all pipelines of the module.
	Number int
	Key    Key
	// Next is the pass that follows, "pipeline-end" for none.
	Next string
	// Inner is set for states written inside a pass, e.g. "after_adding_copies_to_resolve_interference"; Key.Pipeline is then
	// empty, Key.Index counts the inner states of that pass, and Next is empty.
	Inner string
	// File is the file's name in the dump directory.
	File string
}

// Start says whether the step is the state before the first pass of its pipeline.
func (s Step) Start() bool { return s.Key.Pass == PipelineStart && s.Inner == "" }

// Run is one run of a pass as the metadata tells it.
type Run struct {
	// Pipeline has the pipeline's own name, with blanks; Pass as in Key.
	Pipeline, Pass string
	Changed        bool
	// Files are the base names of the dumps of the module after this run.
	Files []string
}

// Compilation is the dump of one module.
type Compilation struct {
	// ID is the module's number in its process and Module its name, as far as the file names tell.
	ID     int
	Module string
	// Steps are in the order in which they were written.
	Steps []Step
	// Before and After are the files of the module before and after all HLO passes, empty if missing.
	Before, After string
	// Runs are all pass runs in order if the compiler wrote its metadata; nil otherwise.
	Runs []Run
}

var (
	fileName   = regexp.MustCompile(`^module_(\d+)\.(.+)\.hlo\.pb$`)
	passName   = regexp.MustCompile(`^(?:(.*)\.)?(\d{4,})\.(.+?)\.after_(.+)\.before_(.+)$`)
	inner      = regexp.MustCompile(`^(?:(.*)\.)?(\d{4,})\.([^.]+)\.(.+)$`)
	metadata   = regexp.MustCompile(`^module_(\d+)\.metadata\.textproto$`)
	transforms = regexp.MustCompile(`^apply-xla-transforms-\d+$`)
)

// Read indexes a dump directory: one Compilation per module, by ID. Files that are no HLO protos are left alone. It reads
// the metadata but no module; see Module.
func Read(dir fs.FS) ([]Compilation, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("read dump: %w", err)
	}
	byID := map[int]*Compilation{}
	get := func(digits string) (*Compilation, error) {
		id, err := strconv.Atoi(digits)
		if err != nil {
			return nil, err
		}
		if byID[id] == nil {
			byID[id] = &Compilation{ID: id}
		}
		return byID[id], nil
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		if m := metadata.FindStringSubmatch(e.Name()); m != nil {
			c, err := get(m[1])
			if err != nil {
				return nil, fmt.Errorf("dump file %s: %w", e.Name(), err)
			}
			if c.Runs, err = readMetadata(dir, e.Name()); err != nil {
				return nil, err
			}
			continue
		}
		m := fileName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		c, err := get(m[1])
		if err != nil {
			return nil, fmt.Errorf("dump file %s: %w", e.Name(), err)
		}
		if err := c.add(e.Name(), m[2]); err != nil {
			return nil, fmt.Errorf("dump file %s: %w", e.Name(), err)
		}
	}
	var out []Compilation
	for _, c := range byID {
		c.number()
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Compilation) int { return cmp.Compare(a.ID, b.ID) })
	out = chain(out)
	for i := range out {
		out[i].place()
	}
	return out, nil
}

// chain joins what belongs to one compilation: a pass that replaces the whole module (the TPU compiler's X64 elimination)
// gives it a new number, but the same name, and no new state before the optimisations.
func chain(in []Compilation) []Compilation {
	var out []Compilation
	for _, c := range in {
		if n := len(out) - 1; n >= 0 && c.Before == "" && out[n].Before != "" && c.Module == out[n].Module && len(c.Steps) > 0 {
			last := &out[n]
			behind := 0
			if len(last.Steps) > 0 {
				behind = last.Steps[len(last.Steps)-1].Number + 1
			}
			for _, s := range c.Steps {
				s.Number += behind
				last.Steps = append(last.Steps, s)
			}
			last.renumber()
			last.After, last.Runs = c.After, append(last.Runs, c.Runs...)
			continue
		}
		out = append(out, c)
	}
	return out
}

// place sets the indices of the steps to those of the metadata, which lists the passes that changed nothing, too: the
// number of runs since the last start of the pipeline.
func (c *Compilation) place() {
	index := map[string]int{} // by file
	since := map[string]int{} // by pipeline
	for _, r := range c.Runs {
		if r.Pass == PipelineStart {
			since[r.Pipeline] = 0
			continue
		}
		for _, f := range r.Files {
			index[f] = since[r.Pipeline]
		}
		since[r.Pipeline]++
	}
	for i := range c.Steps {
		if n, ok := index[c.Steps[i].File]; ok && c.Steps[i].Inner == "" {
			c.Steps[i].Key.Index = n
		}
	}
}

// add files one name, given without "module_NNNN." and ".hlo.pb".
func (c *Compilation) add(file, rest string) error {
	s := Step{File: file}
	m := passName.FindStringSubmatch(rest)
	switch {
	case m != nil:
		s.Key.Pipeline, s.Key.Pass, s.Next = m[3], stripCounter(m[4]), stripCounter(m[5])
	default:
		if name, ok := strings.CutSuffix("."+rest, ".before_optimizations"); ok {
			c.Before, c.Module = file, strings.TrimPrefix(name, ".")
			return nil
		}
		if strings.HasSuffix(rest, "after_optimizations") {
			c.After = file
			return nil
		}
		if m = inner.FindStringSubmatch(rest); m == nil {
			return nil
		}
		s.Key.Pass, s.Inner = stripCounter(m[3]), m[4]
	}
	var err error
	if s.Number, err = strconv.Atoi(m[2]); err != nil {
		return err
	}
	if c.Module == "" {
		c.Module = m[1]
	}
	c.Steps = append(c.Steps, s)
	return nil
}

func stripCounter(pass string) string {
	if transforms.MatchString(pass) {
		return "apply-xla-transforms"
	}
	return pass
}

// number sorts the steps and counts them.
func (c *Compilation) number() {
	slices.SortStableFunc(c.Steps, func(a, b Step) int { return cmp.Compare(a.Number, b.Number) })
	c.renumber()
}

// renumber counts the steps within their pipelines.
func (c *Compilation) renumber() {
	count := map[[2]string]int{}
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Start() {
			continue
		}
		k := [2]string{s.Key.Pipeline, ""}
		if s.Inner != "" {
			k[1] = s.Key.Pass
		}
		s.Key.Index = count[k]
		count[k]++
	}
}

// maxMetadata bounds the metadata file in bytes; a TPU compilation writes about 200 kB.
const maxMetadata = 64 << 20

func readMetadata(dir fs.FS, name string) ([]Run, error) {
	data, err := fs.ReadFile(dir, name)
	if err != nil {
		return nil, fmt.Errorf("read dump: %w", err)
	}
	if len(data) > maxMetadata {
		return nil, fmt.Errorf("dump file %s has %d bytes, more than %d", name, len(data), maxMetadata)
	}
	var meta hlopb.HloModuleMetadataProto
	data = withoutNested(data)
	if err := (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &meta); err != nil {
		return nil, fmt.Errorf("dump file %s: %w", name, err)
	}
	runs := make([]Run, 0, len(meta.GetPassMetadata()))
	for _, p := range meta.GetPassMetadata() {
		r := Run{Pipeline: p.GetPipelineName(), Pass: stripCounter(p.GetPassName()), Changed: p.GetModuleChanged()}
		for _, f := range p.GetDumpFilenames() {
			r.Files = append(r.Files, f[strings.LastIndex(f, "/")+1:])
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// withoutNested leaves out what a pass adds to its record in the metadata, e.g. the scheduler's custom_metadata, indented by
// two blanks: prototext cannot skip a message field that it does not know when no colon follows its name.
func withoutNested(data []byte) []byte {
	var out []byte
	inside := false
	for line := range bytes.Lines(data) {
		text := bytes.TrimSuffix(line, []byte("\n"))
		switch {
		case inside:
			inside = !bytes.Equal(text, []byte("  }"))
		case len(text) > 4 && bytes.HasPrefix(text, []byte("  ")) && text[2] != ' ' && bytes.HasSuffix(text, []byte(" {")):
			inside = true
		default:
			out = append(out, line...)
		}
	}
	return out
}

// Module reads a dump file (Step.File, Compilation.Before or After) and returns the bytes of the xla.HloModuleProto in its
// xla.HloProto.
func Module(dir fs.FS, file string) ([]byte, error) {
	data, err := fs.ReadFile(dir, file)
	if err != nil {
		return nil, fmt.Errorf("read dump: %w", err)
	}
	for b := data; len(b) > 0; {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return nil, fmt.Errorf("dump file %s: %w", file, protowire.ParseError(k))
		}
		b = b[k:]
		if n == 1 && typ == protowire.BytesType { // HloProto.hlo_module
			v, k := protowire.ConsumeBytes(b)
			if k < 0 {
				return nil, fmt.Errorf("dump file %s: %w", file, protowire.ParseError(k))
			}
			return v, nil
		}
		if k = protowire.ConsumeFieldValue(n, typ, b); k < 0 {
			return nil, fmt.Errorf("dump file %s: %w", file, protowire.ParseError(k))
		}
		b = b[k:]
	}
	return nil, fmt.Errorf("dump file %s: %w", file, errNoModule)
}

var errNoModule = errors.New("no hlo_module")
