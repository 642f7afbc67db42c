package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

//go:embed xla.py
var xlaScript string

// An answer is what XLA's parser said to one text.
type answer struct {
	verdict verdict
	proto   []byte // of an accepted text: a serialized HloModuleProto
	message string // of the others
}

type verdict byte

const (
	accepted verdict = 'A'
	refused  verdict = 'R'
	aborted  verdict = 'X' // the process died or hung on it
)

// xlaParser runs XLA's parser in a process, and starts another when it dies.
type xlaParser struct {
	command  func(context.Context) *exec.Cmd
	patience time.Duration // for one text
	version  string

	cmd    *exec.Cmd
	cancel context.CancelFunc
	in     io.WriteCloser
	out    *bufio.Reader
	log    tail
}

// startXLA starts the process of the given command: xla.py or one that speaks
// its protocol. A text that takes it longer than patience counts as an abort.
func startXLA(ctx context.Context, command func(context.Context) *exec.Cmd, patience time.Duration) (*xlaParser, error) {
	x := &xlaParser{command: command, patience: patience}
	return x, x.start(ctx)
}

func pythonXLA(python string) func(context.Context) *exec.Cmd {
	return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, python, "-c", xlaScript) }
}

func (x *xlaParser) start(ctx context.Context) error {
	ctx, x.cancel = context.WithCancel(ctx)
	x.cmd = x.command(ctx)
	x.log.reset()
	x.cmd.Stderr = &x.log
	in, err := x.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := x.cmd.Start(); err != nil {
		return err
	}
	x.in, x.out = in, bufio.NewReader(out)
	version, err := x.frame()
	if err != nil {
		x.stop()
		return fmt.Errorf("XLA's parser does not start: %v: %s", err, x.log.lastLine())
	}
	x.version = string(version)
	return nil
}

// stop ends the process and waits for it.
func (x *xlaParser) stop() {
	if x.cmd == nil {
		return
	}
	x.in.Close()
	x.cancel()
	x.cmd.Wait() // its status says nothing that the answers do not
	x.cmd = nil
}

// parse asks XLA about a text; without wantProto the answer has none. The error
// is not about the text: it says that XLA cannot be asked at all.
func (x *xlaParser) parse(ctx context.Context, text string, wantProto bool) (answer, error) {
	if x.cmd == nil {
		if err := x.start(ctx); err != nil {
			return answer{}, err
		}
	}
	timer := time.AfterFunc(x.patience, x.cancel)
	a, err := x.ask(text, wantProto)
	intime := timer.Stop()
	if err == nil {
		return a, nil
	}
	x.stop()
	switch {
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	case errors.Is(err, errProtocol):
		return answer{}, err
	case !intime:
		return answer{verdict: aborted, message: fmt.Sprintf("no answer in %v", x.patience)}, nil
	}
	return answer{verdict: aborted, message: x.log.reason()}, nil
}

var errProtocol = errors.New("peer: answer out of protocol")

func (x *xlaParser) ask(text string, wantProto bool) (answer, error) {
	want := byte('V')
	if wantProto {
		want = 'P'
	}
	msg := binary.BigEndian.AppendUint32([]byte{want}, uint32(len(text)))
	if _, err := x.in.Write(append(msg, text...)); err != nil {
		return answer{}, err
	}
	tag, err := x.out.ReadByte()
	if err != nil {
		return answer{}, err
	}
	data, err := x.frame()
	if err != nil {
		return answer{}, err
	}
	switch verdict(tag) {
	case accepted:
		return answer{verdict: accepted, proto: data}, nil
	case refused:
		return answer{verdict: refused, message: string(data)}, nil
	}
	return answer{}, fmt.Errorf("%w: tag %q", errProtocol, tag)
}

func (x *xlaParser) frame() ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(x.out, n[:]); err != nil {
		return nil, err
	}
	data := make([]byte, binary.BigEndian.Uint32(n[:]))
	_, err := io.ReadFull(x.out, data)
	return data, err
}

// tail keeps the end of a process's log.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if n := len(t.data); n > 2*tailSize {
		t.data = append(t.data[:0], t.data[n-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = nil
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Split(string(bytes.TrimSpace(t.data)), "\n")
}

func (t *tail) lastLine() string {
	l := t.lines()
	return l[len(l)-1]
}

// fatalLine is how absl's log writes LOG(FATAL) and CHECK failures.
var fatalLine = regexp.MustCompile(`^F\d{4} |Check failed`)

// reason is the line that tells why the process died, else the last one.
func (t *tail) reason() string {
	for _, l := range t.lines() {
		if fatalLine.MatchString(l) {
			return l
		}
	}
	return t.lastLine()
}
