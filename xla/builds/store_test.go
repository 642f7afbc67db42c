package builds

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fakePlugin is a minimal ELF64 shared object for x86-64 that exports the given symbol (System V ABI, chapter 4).
func fakePlugin(symbol string) []byte {
	le := binary.LittleEndian
	strtab := []byte("\x00" + symbol + "\x00")
	symtab := make([]byte, 48) // the null symbol and one more
	le.PutUint32(symtab[24:], 1)
	symtab[28] = 1<<4 | 2 // global function
	le.PutUint16(symtab[30:], 1)
	shstrtab := []byte("\x00.dynsym\x00.dynstr\x00.shstrtab\x00")
	out := make([]byte, 64)
	copy(out, "\x7fELF\x02\x01\x01")
	le.PutUint16(out[16:], 3)  // ET_DYN
	le.PutUint16(out[18:], 62) // x86-64
	le.PutUint32(out[20:], 1)
	section := func(name, kind uint32, data []byte, link uint32, entry uint64) []byte {
		h := make([]byte, 64)
		le.PutUint32(h, name)
		le.PutUint32(h[4:], kind)
		le.PutUint64(h[24:], uint64(len(out)))
		le.PutUint64(h[32:], uint64(len(data)))
		le.PutUint32(h[40:], link)
		le.PutUint64(h[56:], entry)
		out = append(out, data...)
		return h
	}
	headers := make([]byte, 64)
	headers = append(headers, section(1, 11, symtab, 2, 24)...)
	headers = append(headers, section(9, 3, strtab, 0, 0)...)
	headers = append(headers, section(17, 3, shstrtab, 0, 0)...)
	le.PutUint64(out[40:], uint64(len(out)))
	le.PutUint16(out[52:], 64)
	le.PutUint16(out[58:], 64)
	le.PutUint16(out[60:], 4)
	le.PutUint16(out[62:], 3)
	return append(out, headers...)
}

func wheelBytes(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, data := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fakePip stands for the command line; it puts the wheel where pip would.
type fakePip struct {
	wheel []byte
	fail  error
	calls atomic.Int32
	argv  []string
	mu    sync.Mutex
}

func (p *fakePip) exec(_ context.Context, argv, env []string, out io.Writer) error {
	p.calls.Add(1)
	p.mu.Lock()
	p.argv = argv
	p.mu.Unlock()
	if p.fail != nil {
		fmt.Fprintln(out, "Looking around\nERROR: No matching distribution found for x")
		return p.fail
	}
	fmt.Fprintln(out, "  Downloading x-1-py3-none-any.whl (1.5 MB)")
	dest := argv[slices.Index(argv, "--dest")+1]
	return os.WriteFile(filepath.Join(dest, "x-1-py3-none-any.whl"), p.wheel, 0o644)
}

func testStore(t *testing.T, root string, pip *fakePip, terms ...string) *Store {
	t.Helper()
	accepted := map[string]bool{}
	for _, n := range terms {
		accepted[n] = true
	}
	s, err := NewStore(Config{Root: root, Environ: []string{"HOME=" + root}, Exec: pip.exec, AcceptTerms: accepted})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fetchText(t *testing.T, s *Store, text string) (*Build, error) {
	t.Helper()
	spec, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s.Fetch(t.Context(), spec)
}

func TestFetchOnceThenOffline(t *testing.T) {
	root := t.TempDir()
	plugin := fakePlugin("GetPjrtApi")
	pip := &fakePip{wheel: wheelBytes(t, map[string][]byte{
		"x/helper.so": fakePlugin("Other"), "x/plugin.so": plugin, "x/notes.txt": []byte("hello"), "x-1.dist-info/METADATA": nil})}
	b, err := fetchText(t, testStore(t, root, pip), "pip:x==1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(b.Plugin)
	if err != nil || !slices.Equal(got, plugin) || !strings.HasSuffix(b.Plugin, "x/plugin.so") {
		t.Errorf("plugin %s: %d bytes, %v", b.Plugin, len(got), err)
	}
	for _, arg := range []string{"--no-deps", "--only-binary=:all:", "x==1"} {
		if !slices.Contains(pip.argv, arg) {
			t.Errorf("pip was called without %s: %q", arg, pip.argv)
		}
	}
	offline := &fakePip{fail: errors.New("no network")}
	again, err := fetchText(t, testStore(t, root, offline), "pip:x==1")
	if err != nil || again.ID != b.ID || again.Plugin != b.Plugin || offline.calls.Load() != 0 {
		t.Errorf("offline: %+v, %v, %d calls", again, err, offline.calls.Load())
	}
	if left, err := os.ReadDir(filepath.Join(root, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("left in tmp: %v, %v", left, err)
	}
}

// TestChangedWheel: a wheel that is not what was first seen, or pinned, is refused; so is a plugin that was tampered with.
func TestChangedWheel(t *testing.T) {
	root := t.TempDir()
	pip := &fakePip{wheel: wheelBytes(t, map[string][]byte{"x/plugin.so": fakePlugin("GetPjrtApi")})}
	s := testStore(t, root, pip)
	b, err := fetchText(t, s, "pip:x==1")
	if err != nil {
		t.Fatal(err)
	}
	var hash *HashError
	if _, err := fetchText(t, s, "xla-2025-11"); !errors.As(err, &hash) || hash.Want != catalogue["xla-2025-11"].SHA256 {
		t.Errorf("pinned wheel: %v", err)
	}
	if err := os.WriteFile(b.Plugin, append(fakePlugin("GetPjrtApi"), 0), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := fetchText(t, s, "pip:x==1"); !errors.As(err, &hash) {
		t.Errorf("changed plugin: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(root, "unpacked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "unpacked"), 0o755); err != nil {
		t.Fatal(err)
	}
	pip.wheel = wheelBytes(t, map[string][]byte{"x/plugin.so": fakePlugin("GetPjrtApi"), "x/more": nil})
	if _, err := fetchText(t, s, "pip:x==1"); !errors.As(err, &hash) {
		t.Errorf("changed wheel: %v", err)
	}
}

func TestFetchErrors(t *testing.T) {
	good := wheelBytes(t, map[string][]byte{"x/plugin.so": fakePlugin("GetPjrtApi")})
	for name, c := range map[string]struct {
		pip  *fakePip
		want string
	}{
		"pip fails":  {&fakePip{fail: errors.New("exit status 1")}, "ERROR: No matching distribution found for x"},
		"no plugin":  {&fakePip{wheel: wheelBytes(t, map[string][]byte{"x/a.so": fakePlugin("Other")})}, "holds no PJRT plugin"},
		"no zip":     {&fakePip{wheel: []byte("html")}, "not a valid zip file"},
		"cut zip":    {&fakePip{wheel: good[:len(good)/2]}, "not a valid zip file"},
		"leaves dir": {&fakePip{wheel: wheelBytes(t, map[string][]byte{"../evil": nil})}, "not a plain file inside the wheel"},
		"absolute":   {&fakePip{wheel: wheelBytes(t, map[string][]byte{"/evil": nil})}, "not a plain file inside the wheel"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			_, err := fetchText(t, testStore(t, root, c.pip), "pip:x==1")
			var fetch *FetchError
			if !errors.As(err, &fetch) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			for _, dir := range []string{"tmp", "unpacked", "pins"} {
				if name == "no plugin" && dir != "tmp" {
					continue // a wheel like any other
				}
				if left, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(left) != 0 {
					t.Errorf("left in %s: %v, %v", dir, left, err)
				}
			}
		})
	}
}

func TestTerms(t *testing.T) {
	pip := &fakePip{wheel: wheelBytes(t, map[string][]byte{"libtpu/libtpu.so": fakePlugin("GetPjrtApi")})}
	root := t.TempDir()
	_, err := fetchText(t, testStore(t, root, pip), "libtpu:0.0.52")
	var terms *TermsError
	if !errors.As(err, &terms) || !strings.Contains(err.Error(), "--accept-terms libtpu") || pip.calls.Load() != 0 {
		t.Errorf("%v, %d calls", err, pip.calls.Load())
	}
	b, err := fetchText(t, testStore(t, root, pip, "libtpu"), "libtpu:0.0.52")
	if err != nil || b.Kind != CompileOnly || b.Topology == nil || b.Topology.Name != "v5e:2x2" || !slices.Contains(b.Env, "TPU_SKIP_MDS_QUERY=1") {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestCUDATarget(t *testing.T) {
	pip := &fakePip{wheel: wheelBytes(t, map[string][]byte{"jax_plugins/xla_cuda13/xla_cuda_plugin.so": fakePlugin("GetPjrtApi")})}
	b, err := fetchText(t, testStore(t, t.TempDir(), pip), "cuda:0.12.0.1")
	if err != nil || b.Kind != CompileOnly || b.Topology.Options["topology"] != "1x1x1" || !strings.Contains(b.Topology.Options["target_config"], "core_count: 132") {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestFilePlugin(t *testing.T) {
	root := t.TempDir()
	s := testStore(t, root, &fakePip{})
	path := filepath.Join(t.TempDir(), "p.so")
	if _, err := fetchText(t, s, path); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing: %v", err)
	}
	for content, want := range map[string]string{"text": "not a shared object", string(fakePlugin("Other")): "does not export GetPjrtApi"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := fetchText(t, s, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := os.WriteFile(path, fakePlugin("GetPjrtApi"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := fetchText(t, s, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(fakePlugin("GetPjrtApi"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := fetchText(t, s, path+"@v5e:2x2")
	if err != nil || a.ID == b.ID || a.Kind != Executable || b.Kind != CompileOnly {
		t.Errorf("%+v then %+v, %v", a, b, err)
	}
}

// TestConcurrentFetches: many stores on one cache fetch once.
func TestConcurrentFetches(t *testing.T) {
	root := t.TempDir()
	pip := &fakePip{wheel: wheelBytes(t, map[string][]byte{"x/plugin.so": fakePlugin("GetPjrtApi")})}
	var wg sync.WaitGroup
	for range 8 {
		s := testStore(t, root, pip)
		wg.Go(func() {
			if b, err := fetchText(t, s, "pip:x==1"); err != nil || b.Plugin == "" {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
	wg.Wait()
	if n := pip.calls.Load(); n != 1 {
		t.Errorf("pip was called %d times", n)
	}
}

func TestFetchIsCancelled(t *testing.T) {
	s := testStore(t, t.TempDir(), &fakePip{})
	unlock, err := s.lock(t.Context(), "x==1")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	spec, err := Parse("pip:x==1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fetch(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestDefaultRoot(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{"HOME=/h"}, "/h/.cache/passgate"},
		{[]string{"HOME=/h", "XDG_CACHE_HOME=/x"}, "/x/passgate"},
		{[]string{"HOME=/h", "XDG_CACHE_HOME=relative"}, "/h/.cache/passgate"},
		{[]string{"HOME=/h", "PASSGATE_CACHE=/p"}, "/p"},
	} {
		if got, err := DefaultRoot(c.environ); got != c.want || err != nil {
			t.Errorf("%v: %s, %v, want %s", c.environ, got, err, c.want)
		}
	}
	if _, err := DefaultRoot(nil); err == nil {
		t.Error("no error without HOME")
	}
}

func TestCompareVersions(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"0.4.13", "0.4.9", 1}, {"0.12", "0.12.0.1", -1}, {"0.10.2", "0.10.2", 0}, {"1", "0.99", 1}} {
		if got := compareVersions(c.a, c.b); got < 0 != (c.want < 0) || got > 0 != (c.want > 0) {
			t.Errorf("%s, %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestJaxlibPins: every supported jaxlib has Pythons, and pins for each of them.
func TestJaxlibPins(t *testing.T) {
	for _, v := range []string{"0.4.13", "0.4.16", "0.4.18", "0.4.29", "0.4.30", "0.4.33", "0.4.38", "0.5.3", "0.6.2", "0.7.2", "0.10.2", "0.11.0", "0.12.0.1"} {
		pythons := jaxlibPythons(v)
		if len(pythons) < 3 {
			t.Errorf("%s: %v", v, pythons)
		}
		for _, py := range pythons {
			pins := jaxlibCompanions(v, py)
			if len(pins) < 2 || pins[0].dist != "numpy" || (compareVersions(v, "0.4.30") < 0) != strings.HasPrefix(pins[0].version, "1.") {
				t.Errorf("%s on %s: %v", v, py, pins)
			}
		}
	}
}
