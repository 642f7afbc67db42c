package pjrt

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/pjrt/hlotest"
)

// open loads each named build once; all three live together in the test's process.
var open = sync.OnceValues(func() (map[string]*Client, error) {
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		return nil, err
	}
	clients := map[string]*Client{}
	for _, e := range builds.Catalogue() {
		spec, err := builds.Parse(e.Name)
		if err != nil {
			return nil, err
		}
		b, err := store.Fetch(context.Background(), spec)
		if err != nil {
			return nil, err
		}
		p, err := Open(b.Plugin)
		if err != nil {
			return nil, err
		}
		if clients[e.Name], err = p.NewClient(nil); err != nil {
			return nil, err
		}
	}
	return clients, nil
})

func eachBuild(t *testing.T, f func(t *testing.T, name string, c *Client)) {
	t.Helper()
	clients, err := open()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range clients {
		t.Run(name, func(t *testing.T) { f(t, name, c) })
	}
}

func f32s(vs ...float32) []byte {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func compile(t *testing.T, c *Client, code []byte, format string, opts map[string]string) *Executable {
	t.Helper()
	e, err := c.Compile(code, format, Options{Overrides: opts}.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func argument(t *testing.T, c *Client, primitive int32, dims, layout []int64, data []byte) *Buffer {
	t.Helper()
	b, err := c.BufferFromHost(primitive, dims, layout, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func run(t *testing.T, e *Executable, args ...*Buffer) (int32, []int64, []byte) {
	t.Helper()
	out, err := e.Execute(args, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 1 {
		t.Fatalf("%d outputs, want 1", len(out))
	}
	kind, dims, data, err := out[0].ToHost()
	if err != nil {
		t.Fatal(err)
	}
	if err := out[0].Close(); err != nil {
		t.Fatal(err)
	}
	return kind, dims, data
}

func TestVersionsAndExtensions(t *testing.T) {
	want := map[string]struct {
		minor      int
		extensions []int32
	}{
		"xla-2025-11": {81, []int32{4, 5, 6, 9}},
		"xla-2026-06": {106, []int32{4, 5, 6, 9, 19}},
		"jax-0.11.2":  {115, []int32{4, 5, 6, 9, 19, 24}},
	}
	eachBuild(t, func(t *testing.T, name string, c *Client) {
		if major, minor := c.p.Version(); major != 0 || minor != want[name].minor {
			t.Errorf("C API %d.%d, want 0.%d", major, minor, want[name].minor)
		}
		got := c.p.Extensions()
		slices.Sort(got)
		if !slices.Equal(got, want[name].extensions) {
			t.Errorf("extensions %v, want %v", got, want[name].extensions)
		}
		if p, err := c.PlatformName(); p != "cpu" || err != nil {
			t.Errorf("platform %q, %v", p, err)
		}
		if v, err := c.PlatformVersion(); v == "" || err != nil {
			t.Errorf("platform version %q, %v", v, err)
		}
	})
}

func TestCompileAndRun(t *testing.T) {
	eachBuild(t, func(t *testing.T, name string, c *Client) {
		for _, format := range []string{"hlo", "mlir"} {
			code := hlotest.Add(3)
			if format == "mlir" {
				code = hlotest.AddMLIR(3)
			}
			e := compile(t, c, code, format, map[string]string{"xla_cpu_enable_fast_min_max": "false"})
			a := argument(t, c, hlotest.F32, []int64{3}, nil, f32s(1, 2, 3))
			b := argument(t, c, hlotest.F32, []int64{3}, nil, f32s(10, 20, 30))
			for range 3 {
				kind, dims, data := run(t, e, a, b)
				if kind != hlotest.F32 || !slices.Equal(dims, []int64{3}) || !slices.Equal(data, f32s(11, 22, 33)) {
					t.Errorf("%s: got type %d %v % x", format, kind, dims, data)
				}
			}
			prog, form, err := e.OptimizedProgram()
			if err != nil || form != "hlo_with_config" || len(prog) < 100 {
				t.Errorf("%s: optimised program: %d bytes, format %q, %v", format, len(prog), form, err)
			}
		}
	})
}

func TestErrors(t *testing.T) {
	eachBuild(t, func(t *testing.T, name string, c *Client) {
		var perr *Error
		_, err := c.Compile([]byte("not a module"), "hlo", Options{}.Marshal())
		if !errors.As(err, &perr) || perr.Message == "" {
			t.Errorf("bad module: %v", err)
		}
		_, err = c.Compile(hlotest.Add(2), "nonsense", Options{}.Marshal())
		if !errors.As(err, &perr) || perr.Message == "" {
			t.Errorf("bad format: %v", err)
		}
		_, err = c.Compile(hlotest.Add(2), "hlo", Options{Overrides: map[string]string{"xla_no_such_thing": "1"}}.Marshal())
		if !errors.As(err, &perr) || perr.Code != InvalidArgument || !strings.Contains(perr.Message, "No such compile option: 'xla_no_such_thing'") {
			t.Errorf("unknown option: %v", err)
		}
		e := compile(t, c, hlotest.Add(2), "hlo", nil)
		a := argument(t, c, hlotest.F32, []int64{2}, nil, f32s(1, 2))
		long := argument(t, c, hlotest.F32, []int64{3}, nil, f32s(1, 2, 3))
		for _, args := range [][]*Buffer{nil, {a}, {a, a, a}, {a, long}} {
			if out, err := e.Execute(args, true); !errors.As(err, &perr) {
				t.Errorf("%d arguments: %d outputs, %v", len(args), len(out), err)
			}
		}
		if _, err := c.BufferFromHost(hlotest.F32, []int64{2}, nil, f32s(1)); err == nil {
			t.Error("a short array was accepted")
		}
		// CPU plugins compile for their client only.
		if _, err := c.p.NewTopology("v5e:2x2", NamedValues{"n": int64(1), "s": "x", "l": []int64{1, 2}, "b": true, "f": float32(1)}); !errors.As(err, &perr) {
			t.Errorf("topology: %v", err)
		} else {
			t.Logf("topology: %v", err)
		}
		if _, err := c.p.NewTopology("x", NamedValues{"n": struct{}{}}); err == nil {
			t.Error("an option of an unsupported type was accepted")
		}
		if _, err := c.p.slot("PJRT_Future_Function", maxSlots-1); !errors.Is(err, ErrNotInAPI) {
			t.Errorf("slot beyond the table: %v", err)
		}
	})
}

// TestElementTypes sends arrays of every type that the plugin's API has through the device and through a program. Types of
// fewer than 8 bits travel in the low bits of a byte, the others zero.
func TestElementTypes(t *testing.T) {
	bits := map[int32]int{21: 4, 22: 4, 26: 2, 27: 2, 30: 1, 31: 1, 32: 4, 35: 6, 36: 6, 1: 1}
	eachBuild(t, func(t *testing.T, name string, c *Client) {
		_, minor := c.p.Version()
		for _, el := range elements {
			data := make([]byte, 6*el.bytes)
			for i := range data {
				data[i] = byte(i * 37)
				if n := bits[el.primitive]; n > 0 {
					data[i] = byte(255-i) & (1<<n - 1)
				}
			}
			b, err := c.BufferFromHost(el.primitive, []int64{2, 3}, nil, data)
			if el.bytes == 0 {
				if err == nil {
					t.Errorf("type %d: a buffer without a host form was accepted", el.primitive)
				}
				continue
			}
			if minor < el.since {
				var perr *Error
				if !errors.As(err, &perr) || perr.Code != Unimplemented {
					t.Errorf("type %d of C API 0.%d: %v", el.primitive, el.since, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("type %d: %v", el.primitive, err)
				continue
			}
			check := func(what string, b *Buffer) {
				kind, dims, got, err := b.ToHost()
				if err != nil || kind != el.primitive || !slices.Equal(dims, []int64{2, 3}) || !slices.Equal(got, data) {
					t.Errorf("type %d: %s: type %d %v % x, want % x; %v", el.primitive, what, kind, dims, got, data, err)
				}
			}
			check("buffer", b)
			s := hlotest.Shape{Type: el.primitive, Dims: []int64{2, 3}}
			outs, err := compile(t, c, hlotest.Identity(s, s), "hlo", nil).Execute([]*Buffer{b}, true)
			if err != nil {
				t.Errorf("type %d: run: %v", el.primitive, err)
				continue
			}
			check("result", outs[0])
			if err := errors.Join(outs[0].Close(), b.Close()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestLayouts: entry parameters and results in column-major layout still travel row-major, and the compiler sees the layouts.
func TestLayouts(t *testing.T) {
	row := hlotest.Shape{Type: hlotest.F32, Dims: []int64{2, 3}}
	col := hlotest.Shape{Type: hlotest.F32, Dims: []int64{2, 3}, Layout: []int64{0, 1}}
	data := f32s(1, 2, 3, 4, 5, 6)
	eachBuild(t, func(t *testing.T, name string, c *Client) {
		for _, in := range []hlotest.Shape{row, col} {
			for _, out := range []hlotest.Shape{row, col} {
				code := hlotest.Identity(in, out)
				entry, err := ParseEntry(code)
				if err != nil {
					t.Fatal(err)
				}
				e, err := c.Compile(code, "hlo", Options{Entry: entry}.Marshal())
				if err != nil {
					t.Fatal(err)
				}
				a := argument(t, c, hlotest.F32, []int64{2, 3}, entry.ArgumentLayout(0), data)
				if _, _, got := run(t, e, a); !slices.Equal(got, data) {
					t.Errorf("layout %v to %v: got % x, want % x", in.Layout, out.Layout, got, data)
				}
				optimised, _, err := e.OptimizedProgram()
				if err != nil {
					t.Fatal(err)
				}
				after, err := ParseEntry(moduleOf(t, optimised))
				if err != nil {
					t.Fatal(err)
				}
				if got, want := after.params[0].rowMajor(), in.Layout == nil; got != want {
					t.Errorf("layout %v to %v: the compiler's parameter has layout %v", in.Layout, out.Layout, after.params[0].layout)
				}
				if got, want := after.result.rowMajor(), out.Layout == nil; got != want {
					t.Errorf("layout %v to %v: the compiler's result has layout %v", in.Layout, out.Layout, after.result.layout)
				}
			}
		}
	})
}

// moduleOf takes hlo_module out of a HloModuleProtoWithConfig.
func moduleOf(t *testing.T, withConfig []byte) (module []byte) {
	t.Helper()
	err := eachBytesField(withConfig, func(n protowire.Number, v []byte) error {
		if n == 1 {
			module = v
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return module
}
