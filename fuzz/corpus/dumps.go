package corpus

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
)

// Dump is a program found in a dump directory, not scrubbed yet.
type Dump struct {
	Path   string
	Module *hlo.Module
	// Inputs are the recorded arguments of a snapshot; nil where there are none.
	Inputs []*hlo.Literal
	// Elided counts constants whose values the dump left out and that got
	// values of ours.
	Elided int
}

// ErrNoProgram says that a file has no program that can be read.
var ErrNoProgram = errors.New("no HLO program")

var (
	afterPass  = regexp.MustCompile(`\.\d{4}\..*\.after_|after_optimizations|\.\d{4}\.copy-insertion`)
	elidedText = regexp.MustCompile(`constant\(\{\.\.\.\}\)`)
	constant   = regexp.MustCompile(`= (\S+\[[0-9,]*\])(?:\{[^}]*\})? constant\(\{\.\.\.\}\)`)
)

// Dumps yields the programs of a directory of XLA dumps (xla_dump_to): text
// (.txt, .hlo), protos (.hlo.pb), and snapshots with the arguments of a run
// (.hlo_snapshot.pb, .hlo_unoptimized_snapshot.pb), and case files (.case). States between and after
// passes are left out: the program is what went in. Other files are not looked
// at. A file that cannot be read yields its error, wrapping ErrNoProgram where
// its content is to blame.
func Dumps(fsys fs.FS) iter.Seq2[Dump, error] {
	return func(yield func(Dump, error) bool) {
		_ = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				if !yield(Dump{Path: p}, err) {
					return fs.SkipAll
				}
				return nil
			}
			if !d.Type().IsRegular() || kindOfFile(p) == "" || afterPass.MatchString(path.Base(p)) {
				return nil
			}
			data, err := fs.ReadFile(fsys, p)
			var out Dump
			if err == nil {
				out, err = ReadDump(p, data)
			}
			out.Path = p
			if !yield(out, err) {
				return fs.SkipAll
			}
			return nil
		})
	}
}

func kindOfFile(p string) string {
	base := path.Base(p)
	switch {
	case strings.Contains(base, "unoptimized_snapshot"):
		return "unoptimized snapshot"
	case strings.Contains(base, "hlo_snapshot"):
		return "snapshot"
	case strings.HasSuffix(base, ".hlo.pb"):
		return "proto"
	case strings.HasSuffix(base, ".case"):
		return "case"
	case strings.HasSuffix(base, ".hlo"):
		return "text"
	case strings.HasSuffix(base, ".txt") && (strings.Contains(base, "before_optimizations") || !strings.HasPrefix(base, "module_")):
		return "text"
	}
	return ""
}

// ReadDump reads one file of a dump; its name tells the kind.
func ReadDump(name string, data []byte) (Dump, error) {
	d := Dump{Path: name}
	switch kindOfFile(name) {
	case "text":
		text := string(data)
		d.Elided = len(elidedText.FindAllString(text, -1))
		if d.Elided > 0 {
			text = constant.ReplaceAllStringFunc(text, fillElided)
		}
		c, err := fuzz.ReadModule(name, []byte(text))
		if err != nil {
			return d, fmt.Errorf("%w: %w", ErrNoProgram, err)
		}
		d.Module = c.Module
		return d, nil
	case "case":
		c, err := fuzz.ReadCase(name, data)
		if err == nil && c.Module == nil {
			err = errors.New("no HLO module")
		}
		if err != nil {
			return d, fmt.Errorf("%w: %w", ErrNoProgram, err)
		}
		d.Module = c.Module
		if c.Own {
			d.Inputs = c.Inputs
		}
		return d, nil
	case "proto":
		return d, d.module(name, field(data, 1))
	case "snapshot": // HloSnapshot: hlo = 1 (HloProto), arguments = 2
		if err := d.module(name, field(field(data, 1), 1)); err != nil {
			return d, err
		}
		return d, d.arguments(name, data, 2)
	case "unoptimized snapshot": // HloUnoptimizedSnapshot: hlo_module = 1, partitions = 2 (HloInputs: arguments = 1)
		if err := d.module(name, field(data, 1)); err != nil {
			// Newer builds write the size first and the arguments behind.
			size, n := protowire.ConsumeVarint(data)
			if n < 0 || uint64(len(data)-n) < size {
				return d, err
			}
			return d, d.module(name, field(data[n:n+int(size)], 1))
		}
		return d, d.arguments(name, field(data, 2), 1)
	}
	return d, fmt.Errorf("%s: %w: want .txt, .hlo, .hlo.pb, .case or a snapshot", name, ErrNoProgram)
}

// fillElided gives a constant without a value one: 0, 1, 2, ... modulo a small
// prime, as an iota cannot stand for every type.
func fillElided(s string) string {
	shape := constant.FindStringSubmatch(s)[1]
	name, dims, _ := strings.Cut(strings.TrimSuffix(shape, "]"), "[")
	t, ok := hlo.TypeByName(name)
	if !ok || !t.IsArray() {
		return s
	}
	var sizes []int64
	total := int64(1)
	for _, d := range strings.Split(dims, ",") {
		var n int64
		if _, err := fmt.Sscan(d, &n); err != nil || n < 0 || n > maxElided {
			return s
		}
		sizes = append(sizes, n)
		if total *= max(n, 1); total > maxElided {
			return s
		}
	}
	l := hlo.NewLiteral(hlo.ArrayShape(t, sizes...))
	for i := range l.Shape.Elems() {
		switch v := i % 7; {
		case t == hlo.Pred:
			l.SetInt(i, v&1)
		case t.IsComplex():
			l.SetComplex(i, complex(float64(v), 0))
		case t.IsFloat():
			l.SetFloat(i, float64(v)-3)
		default:
			l.SetInt(i, t.Canonical(v))
		}
	}
	value := l.String()
	return strings.Replace(s, "constant({...})", "constant("+strings.TrimSpace(strings.TrimPrefix(value, l.Shape.String()))+")", 1)
}

// maxElided bounds the elements of a constant that is made up.
const maxElided = 1 << 20

func (d *Dump) module(name string, data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("%s: %w", name, ErrNoProgram)
	}
	m, err := hlo.UnmarshalModule(data)
	if err == nil {
		err = hlo.Verify(m)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrNoProgram, err)
	}
	d.Module = m
	return nil
}

// arguments reads the literals in a repeated field.
func (d *Dump) arguments(name string, data []byte, number protowire.Number) error {
	for _, b := range fields(data, number) {
		var p hlopb.LiteralProto
		if err := proto.Unmarshal(b, &p); err != nil {
			return fmt.Errorf("%s: %w: %w", name, ErrNoProgram, err)
		}
		l, err := hlo.LiteralFromProto(&p)
		if err != nil {
			return fmt.Errorf("%s: %w: %w", name, ErrNoProgram, err)
		}
		d.Inputs = append(d.Inputs, l)
	}
	params := d.Module.Entry.Params()
	if len(d.Inputs) != len(params) {
		d.Inputs = nil
		return nil
	}
	for i, l := range d.Inputs {
		if !l.Shape.Compatible(params[i].Shape) {
			d.Inputs = nil
			return nil
		}
	}
	return nil
}

// field is the first value of a length-delimited field, fields are all; nil for
// none and for what is no proto.
func field(data []byte, number protowire.Number) []byte {
	if all := fields(data, number); len(all) > 0 {
		return all[0]
	}
	return nil
}

func fields(data []byte, number protowire.Number) (out [][]byte) {
	for len(data) > 0 {
		n, typ, k := protowire.ConsumeTag(data)
		if k < 0 {
			return out
		}
		data = data[k:]
		if n == number && typ == protowire.BytesType {
			v, k := protowire.ConsumeBytes(data)
			if k < 0 {
				return out
			}
			out, data = append(out, v), data[k:]
			continue
		}
		if k = protowire.ConsumeFieldValue(n, typ, data); k < 0 {
			return out
		}
		data = data[k:]
	}
	return out
}

// Entry makes a corpus entry of a dump: scrubbed, renamed, with its recorded
// inputs.
func (d Dump) Entry(keepConstants bool) (Entry, Removed, error) {
	m := d.Module.Clone()
	m.EntryLayout = nil
	removed := Scrub(m, keepConstants)
	c, err := fuzz.ReadModule(path.Base(d.Path), []byte(m.String()))
	if err != nil {
		return Entry{}, removed, fmt.Errorf("%s: %w: %w", d.Path, ErrNoProgram, err)
	}
	if d.Inputs != nil {
		var lines []string
		var inputs []*hlo.Literal
		for _, l := range d.Inputs {
			l = copied(l)
			for _, leaf := range l.Leaves() {
				if !keepConstants && leaf.Shape.Elems() > keptElements && likeness(leaf) {
					removed.Constants++
					removed.Elements += leaf.Shape.Elems()
				}
			}
			inputs, lines = append(inputs, l), append(lines, l.String())
		}
		c = c.WithInputs(inputs, lines, "")
	}
	return Entry{Case: c, From: "dump"}, removed, nil
}
