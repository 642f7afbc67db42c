package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/passgate/passgate/hlo"
)

// sharedDir holds the handed material: real faults, legal differences and
// traces of real programs.
const sharedDir = "../../../shared"

// sharedCase is a handed case file.
type sharedCase struct {
	name   string
	module *hlo.Module
	args   []*Value
	want   []*Value // one per leaf; nil without
	notes  map[string]string
}

func readShared(t *testing.T, path string) *sharedCase {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &sharedCase{name: strings.TrimSuffix(filepath.Base(path), ".case"), notes: map[string]string{}}
	for _, f := range txtar.Parse(data).Files {
		lines := strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		switch f.Name {
		case "module.hlo":
			if c.module, err = hlo.Parse(path, f.Data); err != nil {
				t.Fatal(err)
			}
		case "inputs", "want":
			for _, l := range lines {
				if strings.TrimSpace(l) == "" {
					continue
				}
				v := sharedValue(t, l)
				if f.Name == "want" {
					c.want = append(c.want, v)
				} else {
					c.args = append(c.args, v)
				}
			}
		case "notes":
			for _, l := range lines {
				if k, v, ok := strings.Cut(l, ": "); ok {
					c.notes[k] = v
				}
			}
		}
	}
	return c
}

// sharedValue reads a literal or `random f32[N] seed=S`.
func sharedValue(t *testing.T, line string) *Value {
	if text, ok := strings.CutPrefix(line, "random "); ok {
		text, seed, _ := strings.Cut(text, " seed=")
		shape, err := hlo.ParseShape(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		l := hlo.NewLiteral(shape)
		r := rand.New(rand.NewPCG(s, s))
		for i := range shape.Elems() {
			l.SetFloat(i, r.NormFloat64())
		}
		return FromLiteral(l)
	}
	return parseValues(t, line)[0]
}

// normalArgs are random arguments, small integers for integer parameters.
func normalArgs(m *hlo.Module) []*Value {
	var args []*Value
	r := rand.New(rand.NewPCG(1, 1))
	for _, p := range m.Entry.Params() {
		l := hlo.NewLiteral(p.Shape)
		for i := range p.Shape.Elems() {
			if p.Shape.Type.IsFloat() {
				l.SetFloat(i, r.NormFloat64()/8)
			} else {
				l.SetInt(i, r.Int64N(4))
			}
		}
		args = append(args, FromLiteral(l))
	}
	return args
}

func sharedPaths(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(sharedDir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no handed files %s (%v)", pattern, err)
	}
	return paths
}

// TestSharedCases evaluates every handed case: what the reporters computed
// independently must be a legal value, and decided unless the case is
// contested or its order is open.
func TestSharedCases(t *testing.T) {
	for _, path := range append(sharedPaths(t, "cases/*.case"), sharedPaths(t, "cases/controls/*.case")...) {
		c := readShared(t, path)
		t.Run(c.name, func(t *testing.T) {
			v, err := Run(context.Background(), c.module, c.args, Options{Bounds: true})
			if err != nil {
				t.Fatal(err)
			}
			got := leaves(v)
			undecided, total := 0, 0
			for _, a := range got {
				for i := range a.Len() {
					total++
					if !a.decided(i) {
						undecided++
					}
				}
			}
			if undecided > 0 {
				t.Logf("%d of %d elements undecided", undecided, total)
			}
			if c.want == nil {
				return
			}
			if len(got) != len(c.want) {
				t.Fatalf("%d leaves, want %d", len(got), len(c.want))
			}
			tolerance, _ := strconv.ParseFloat(c.notes["relative tolerance of want"], 64)
			bad := 0
			for k, a := range got {
				w := c.want[k].Array
				if fmt.Sprint(a.Type, a.Dims) != fmt.Sprint(w.Type, w.Dims) {
					t.Fatalf("leaf %d is %v%v, want %v%v", k, a.Type, a.Dims, w.Type, w.Dims)
				}
				for i := range a.Len() {
					x := w.At(i)
					ok := a.Legal(i, x) == In
					if tolerance != 0 && a.Type.IsFloat() {
						ok = ok || math.Abs(a.At(i).Re.C-x.Re.C) <= tolerance*math.Abs(x.Re.C)
					}
					if !ok {
						if bad++; bad < 5 {
							t.Errorf("leaf %d element %d: %s, want %s", k, i, a.LegalSet(i), ScalarString(a.Type, x))
						}
					}
				}
			}
		})
	}
}

// knownUnsupported are traces that need something that no interpreter of one
// device has.
var knownUnsupported = map[string]string{}

// TestTraces evaluates the traces of real programs for one device in bound
// mode.
func TestTraces(t *testing.T) {
	devices := map[string]string{}
	index, err := os.ReadFile(filepath.Join(sharedDir, "traces/index.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(index), "\n")[1:] {
		if f := strings.Split(l, "\t"); len(f) > 4 {
			devices[f[0]] = f[4]
		}
	}
	for _, path := range sharedPaths(t, "traces/*.case") {
		name := strings.TrimSuffix(filepath.Base(path), ".case")
		if devices[name] != "1" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := readShared(t, path)
			if c.args == nil { // too large to be handed with the trace
				c.args = normalArgs(c.module)
			}
			v, err := Run(context.Background(), c.module, c.args, Options{Bounds: true})
			var u *Unsupported
			if errors.As(err, &u) {
				t.Logf("%v", err)
				if knownUnsupported[name] == "" {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			undecided, total := 0, 0
			for _, a := range leaves(v) {
				for i := range a.Len() {
					total++
					if !a.decided(i) {
						undecided++
					}
				}
			}
			t.Logf("%d of %d elements undecided", undecided, total)
		})
	}
}
