package builds

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Build is a build whose files are on this machine.
type Build struct {
	Spec Spec
	// ID is the content hash: "sha256:" and 64 hex digits, of the plugin file, or of the wheel for jaxlib.
	ID   string
	Kind Kind
	// Plugin is the absolute path of the plugin; empty for jaxlib and for a fault build without an inner build.
	Plugin string
	// Python is the interpreter of a jaxlib build and PythonPath the unpacked wheels that it needs, jaxlib's first.
	Python     string
	PythonPath []string
	// Topology is set for compile-only builds.
	Topology *Topology
	// Env holds variables that the build's worker needs, "NAME=value".
	Env []string
}

// Event tells how far a fetch is.
type Event struct {
	Spec string // the build spec
	What string // "download DIST==VERSION", "unpack DIST==VERSION", "verify DIST==VERSION"
	// Done and Total are bytes; Total is 0 while it is unknown.
	Done, Total int64
}

// TermsError says that a build comes under terms that the user has not accepted.
type TermsError struct {
	Spec, Name, Terms string
}

func (e *TermsError) Error() string {
	return fmt.Sprintf("build %s is under the terms %q: accept them with --accept-terms %s", e.Spec, e.Terms, e.Name)
}

// FetchError says that a build could not be put on this machine: an infrastructure failure.
type FetchError struct {
	Spec string
	Err  error
}

func (e *FetchError) Error() string { return fmt.Sprintf("build %s: %v", e.Spec, e.Err) }
func (e *FetchError) Unwrap() error { return e.Err }

// HashError says that a wheel or plugin is not the one that was pinned, or not the one that was first seen.
type HashError struct {
	Name, Want, Got string
}

func (e *HashError) Error() string {
	return fmt.Sprintf("%s has SHA-256 %s, want %s", e.Name, e.Got, e.Want)
}

// Config are the settings of a Store.
type Config struct {
	// Root is the cache directory; DefaultRoot(Environ) if empty.
	Root string
	// Environ is the environment for lookups (PATH, HOME, PASSGATE_CACHE, XDG_CACHE_HOME, PYENV_ROOT) and for pip.
	Environ []string
	// AcceptTerms holds the names of accepted terms ("libtpu").
	AcceptTerms map[string]bool
	// Progress is called during fetches, from one goroutine at a time per fetch; may be nil.
	Progress func(Event)
	// Exec runs a command with an environment and writes its standard output and error to out; nil runs it for real.
	Exec func(ctx context.Context, argv, env []string, out io.Writer) error
}

// Store is the cache of builds. Its methods are safe for concurrent use, also by several processes on one cache.
//
// Layout: pins/NAME.json says what wheel a distribution and version is, unpacked/SHA256 holds the wheel's files,
// files/HASH.json the hash of a plugin given by path. Everything appears by rename.
type Store struct {
	root    string
	environ []string
	terms   map[string]bool
	report  func(Event)
	exec    func(ctx context.Context, argv, env []string, out io.Writer) error
}

// DefaultRoot is PASSGATE_CACHE, else passgate below the user's cache directory.
func DefaultRoot(environ []string) (string, error) {
	env := lookup(environ)
	switch {
	case env("PASSGATE_CACHE") != "":
		return filepath.Abs(env("PASSGATE_CACHE"))
	case filepath.IsAbs(env("XDG_CACHE_HOME")):
		return filepath.Join(env("XDG_CACHE_HOME"), "passgate"), nil
	case env("HOME") != "":
		return filepath.Join(env("HOME"), ".cache", "passgate"), nil
	}
	return "", errors.New("no cache directory: set PASSGATE_CACHE or HOME")
}

func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, kv := range slices.Backward(environ) {
			if k, v, ok := strings.Cut(kv, "="); ok && k == name {
				return v
			}
		}
		return ""
	}
}

// NewStore opens the cache, making its directory if need be.
func NewStore(cfg Config) (*Store, error) {
	s := &Store{root: cfg.Root, environ: cfg.Environ, terms: cfg.AcceptTerms, report: cfg.Progress, exec: cfg.Exec}
	if s.root == "" {
		root, err := DefaultRoot(cfg.Environ)
		if err != nil {
			return nil, err
		}
		s.root = root
	}
	if s.report == nil {
		s.report = func(Event) {}
	}
	if s.exec == nil {
		s.exec = runCommand
	}
	for _, dir := range []string{"pins", "unpacked", "files", "locks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(s.root, dir), 0o755); err != nil {
			return nil, fmt.Errorf("build cache: %w", err)
		}
	}
	return s, nil
}

func runCommand(ctx context.Context, argv, env []string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd.Run()
}

func (s *Store) getenv(name string) string { return lookup(s.environ)(name) }

// run executes a command with extra environment and returns what it printed.
func (s *Store) run(ctx context.Context, argv, extra []string) (string, error) {
	var out bytes.Buffer
	err := s.exec(ctx, argv, append(slices.Clone(s.environ), extra...), &out)
	return out.String(), err
}

// Fetch puts the build on this machine, or finds it in the cache: then it needs no network. Errors are *TermsError,
// *FetchError (which may wrap *HashError) or the context's.
func (s *Store) Fetch(ctx context.Context, spec Spec) (*Build, error) {
	b, err := s.fetch(ctx, spec)
	var terms *TermsError
	var fetch *FetchError
	switch {
	case err == nil || errors.As(err, &terms) || errors.As(err, &fetch) || ctx.Err() != nil:
		return b, err
	}
	return nil, &FetchError{Spec: spec.Text, Err: err}
}

func (s *Store) fetch(ctx context.Context, spec Spec) (*Build, error) {
	b := &Build{Spec: spec, Kind: spec.Kind(), Topology: spec.topology()}
	switch spec.Source {
	case Fault:
		b.ID = "sha256:" + hex.EncodeToString(sha256.New().Sum(nil))
		if spec.Inner != nil {
			inner, err := s.fetch(ctx, *spec.Inner)
			if err != nil {
				return nil, err
			}
			b.ID, b.Plugin, b.Env = inner.ID, inner.Plugin, inner.Env
		}
		return b, nil
	case File:
		path, err := filepath.Abs(spec.Path)
		if err != nil {
			return nil, err
		}
		if err := isPlugin(path); err != nil {
			return nil, err
		}
		b.Plugin = path
		b.ID, err = s.fileID(path)
		return b, err
	case Jaxlib:
		return s.fetchJaxlib(ctx, spec)
	case Libtpu:
		if !s.terms["libtpu"] {
			return nil, &TermsError{Spec: spec.Text, Name: "libtpu", Terms: "Google Cloud Platform Terms of Service"}
		}
		b.Env = libtpuEnv
	}
	w, err := s.fetchWheel(ctx, spec, spec.Dist, spec.Version, wheelTag{})
	if err != nil {
		return nil, err
	}
	if w.pin.Plugin == "" {
		return nil, fmt.Errorf("wheel %s holds no PJRT plugin (no .so that exports GetPjrtApi)", w.pin.Wheel)
	}
	b.Plugin = filepath.Join(w.dir, filepath.FromSlash(w.pin.Plugin))
	b.ID, err = s.fileID(b.Plugin)
	if err != nil {
		return nil, err
	}
	if want := "sha256:" + w.pin.PluginSHA256; b.ID != want {
		return nil, &HashError{Name: b.Plugin, Want: w.pin.PluginSHA256, Got: strings.TrimPrefix(b.ID, "sha256:")}
	}
	return b, nil
}

// pin records what a distribution and version turned out to be.
type pin struct {
	Wheel        string `json:"wheel"` // file name
	SHA256       string `json:"sha256"`
	Plugin       string `json:"plugin,omitempty"` // path in the wheel
	PluginSHA256 string `json:"plugin_sha256,omitempty"`
}

type wheel struct {
	pin pin
	dir string // where it is unpacked
}

// fetchWheel returns the unpacked wheel, from the cache or by pip.
func (s *Store) fetchWheel(ctx context.Context, spec Spec, dist, version string, tag wheelTag) (wheel, error) {
	name := strings.ToLower(dist) + "==" + version + tag.suffix()
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return wheel{}, err
	}
	defer unlock()

	pinFile := filepath.Join(s.root, "pins", name+".json")
	var known pin
	switch data, err := os.ReadFile(pinFile); {
	case err == nil:
		if err := json.Unmarshal(data, &known); err != nil || len(known.SHA256) != 64 {
			return wheel{}, fmt.Errorf("cache entry %s is damaged; delete it to fetch the build anew", pinFile)
		}
		dir := filepath.Join(s.root, "unpacked", known.SHA256)
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return wheel{pin: known, dir: dir}, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return wheel{}, err
	}

	want := pinnedHash(dist, version)
	if tag.python != "" {
		want = ""
	}
	if known.SHA256 != "" {
		want = known.SHA256
	}
	tmp := filepath.Join(s.root, "tmp", "fetch-"+name) // ours alone under the lock; a killed process may have left one
	if err := os.RemoveAll(tmp); err != nil {
		return wheel{}, err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return wheel{}, err
	}
	defer os.RemoveAll(tmp)
	file, err := s.download(ctx, spec, dist, version, tag, tmp)
	if err != nil {
		return wheel{}, err
	}
	s.report(Event{Spec: spec.Text, What: "verify " + name})
	sum, err := hashFile(file)
	if err != nil {
		return wheel{}, err
	}
	if want != "" && sum != want {
		return wheel{}, &HashError{Name: filepath.Base(file), Want: want, Got: sum}
	}
	p := pin{Wheel: filepath.Base(file), SHA256: sum}
	dir := filepath.Join(s.root, "unpacked", sum)
	fresh := filepath.Join(tmp, "unpacked")
	if err := s.unpack(ctx, spec, name, file, fresh); err != nil {
		return wheel{}, err
	}
	if tag.python == "" {
		if p.Plugin, p.PluginSHA256, err = findPlugin(fresh); err != nil {
			return wheel{}, err
		}
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return wheel{}, err
	}
	if err := s.writeJSON(pinFile, p); err != nil {
		return wheel{}, err
	}
	return wheel{pin: p, dir: dir}, nil
}

// manylinux glibc minors whose wheels are asked for; glibc is backwards compatible, so all up to a current one.
var glibcMinors = []int{5, 12, 17, 24, 26, 27, 28, 31, 34, 35, 36, 38, 39}

// platforms are pip's options for wheels that run here.
func platforms() []string {
	var argv []string
	for _, minor := range slices.Backward(glibcMinors) {
		argv = append(argv, "--platform", "manylinux_2_"+strconv.Itoa(minor)+"_x86_64")
	}
	return append(argv, "--platform", "manylinux2014_x86_64", "--platform", "manylinux2010_x86_64", "--platform", "linux_x86_64")
}

var downloadSize = regexp.MustCompile(`\(([0-9.]+) (kB|MB|GB)\)`)

// download lets the machine's pip put one wheel into dir and returns its path.
func (s *Store) download(ctx context.Context, spec Spec, dist, version string, tag wheelTag, dir string) (file string, err error) {
	for i, flags := range tag.flags() {
		attempt := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(attempt, 0o755); err != nil {
			return "", err
		}
		file, err = s.pip(ctx, spec, dist, version, flags, attempt)
		if err == nil || !strings.Contains(err.Error(), "No matching distribution") {
			break
		}
	}
	return file, err
}

// pip downloads one wheel with the given options.
func (s *Store) pip(ctx context.Context, spec Spec, dist, version string, flags []string, dir string) (string, error) {
	wheels, scratch := filepath.Join(dir, "wheels"), filepath.Join(dir, "scratch")
	for _, d := range []string{wheels, scratch} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", err
		}
	}
	argv := []string{"python3", "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps", "--only-binary=:all:",
		"--progress-bar", "off", "--dest", wheels}
	argv = append(argv, flags...)
	argv = append(append(argv, platforms()...), dist+"=="+version)

	what := "download " + dist + "==" + version
	s.report(Event{Spec: spec.Text, What: what})
	// pip has no machine-readable progress; it says the size once and its scratch directory shows the bytes.
	var out lockedBuffer
	done := make(chan error, 1)
	go func() { done <- s.exec(ctx, argv, append(slices.Clone(s.environ), "TMPDIR="+scratch), &out) }()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var err error
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-tick.C:
			s.report(Event{Spec: spec.Text, What: what, Done: treeSize(dir), Total: announcedSize(out.String())})
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("pip download %s==%s: %w: %s", dist, version, err, lastError(out.String()))
	}
	found, err := filepath.Glob(filepath.Join(wheels, "*.whl"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("pip download %s==%s left %d wheels, want 1", dist, version, len(found))
	}
	size := treeSize(wheels)
	s.report(Event{Spec: spec.Text, What: what, Done: size, Total: size})
	return found[0], nil
}

func announcedSize(out string) int64 {
	m := downloadSize.FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0
	}
	return int64(n * map[string]float64{"kB": 1e3, "MB": 1e6, "GB": 1e9}[m[2]])
}

// lastError picks pip's error lines out of its output.
func lastError(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ERROR:") || strings.Contains(line, "No module named") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return strings.TrimSpace(out)
	}
	return strings.Join(lines, "; ")
}

func treeSize(dir string) int64 {
	var n int64
	// Files come and go while pip works; what cannot be read does not count.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// maxUnpacked bounds the size of an unpacked wheel: the largest known one, libtpu, has about 0.6 GB.
const maxUnpacked = 8 << 30

// unpack writes the wheel's files below dir. Names that would leave it are refused.
func (s *Store) unpack(ctx context.Context, spec Spec, name, file, dir string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return fmt.Errorf("wheel %s: %w", filepath.Base(file), err)
	}
	defer z.Close()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var total, done uint64
	for _, f := range z.File {
		total += f.UncompressedSize64
	}
	if total > maxUnpacked {
		return fmt.Errorf("wheel %s unpacks to %d bytes, more than %d", filepath.Base(file), total, uint64(maxUnpacked))
	}
	for _, f := range z.File {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if !filepath.IsLocal(f.Name) || !f.Mode().IsRegular() {
			return fmt.Errorf("wheel %s holds %q: not a plain file inside the wheel", filepath.Base(file), f.Name)
		}
		if err := unpackFile(root, f); err != nil {
			return fmt.Errorf("wheel %s: %s: %w", filepath.Base(file), f.Name, err)
		}
		done += f.UncompressedSize64
		s.report(Event{Spec: spec.Text, What: "unpack " + name, Done: int64(done), Total: int64(total)})
	}
	return nil
}

func unpackFile(root *os.Root, f *zip.File) error {
	if err := root.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644|f.Mode().Perm()&0o111)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(r, int64(f.UncompressedSize64)))
	if err == nil && uint64(n) != f.UncompressedSize64 {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, w.Close())
}

// findPlugin returns the path below dir (slashes) and hash of the .so that exports GetPjrtApi; empty if there is none.
func findPlugin(dir string) (path, sum string, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || path != "" || !d.Type().IsRegular() || !strings.HasSuffix(p, ".so") || isPlugin(p) != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(rel)
		sum, err = hashFile(p)
		return err
	})
	return path, sum, err
}

// isPlugin reads the dynamic symbols of a file and returns an error unless it exports GetPjrtApi.
func isPlugin(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: no such file", path)
		}
		return fmt.Errorf("%s is not a shared object: %w", path, err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("%s is built for %s, want %s", path, f.Machine, elf.EM_X86_64)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("%s has no dynamic symbols: %w", path, err)
	}
	for _, sym := range symbols {
		if sym.Name == "GetPjrtApi" && sym.Section != elf.SHN_UNDEF {
			return nil
		}
	}
	return fmt.Errorf("%s is not a PJRT plugin: it does not export GetPjrtApi", path)
}

// stamp is what makes a rehash of a file unnecessary.
type stamp struct {
	Size    int64  `json:"size"`
	ModTime int64  `json:"mod_time_ns"`
	Inode   uint64 `json:"inode"`
	SHA256  string `json:"sha256"`
}

// fileID is the content hash of a file. It is computed once and again when size, time or inode differ.
func (s *Store) fileID(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	now := stamp{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		now.Inode = st.Ino
	}
	key := sha256.Sum256([]byte(path))
	record := filepath.Join(s.root, "files", hex.EncodeToString(key[:])+".json")
	if data, err := os.ReadFile(record); err == nil {
		var old stamp
		if json.Unmarshal(data, &old) == nil && len(old.SHA256) == 64 {
			now.SHA256 = old.SHA256
			if now == old {
				return "sha256:" + old.SHA256, nil
			}
		}
	}
	if now.SHA256, err = hashFile(path); err != nil {
		return "", err
	}
	return "sha256:" + now.SHA256, s.writeJSON(record, now)
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeJSON replaces a file of the cache in one step.
func (s *Store) writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(s.root, "tmp"), "json-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// lock takes the lock of a name among all processes that use the cache.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.root, "locks", name), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
