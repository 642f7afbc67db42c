package worker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/passgate/passgate/xla/worker/wire"
)

// engine is a loaded build inside a worker process.
type engine interface {
	hello() (*wire.Hello, error)
	// serve answers a request. The id is filled in by the caller.
	serve(*wire.Request) *wire.Response
}

// Main is the body of a worker process: it loads the build that args name, says so in a first frame and answers requests
// until stdin closes. stdin and stdout are the process's own; both descriptors are moved away before the build is loaded.
// args are those that Pool appends to Config.Command.
func Main(ctx context.Context, stdin, stdout *os.File, args []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	var (
		plugin   = flags.String("plugin", "", "plugin to load")
		topology = flags.String("topology", "", "topology to compile for")
		ahead    = flags.Bool("compile-only", false, "compile for the topology, without a client")
		faults   = flags.Bool("fault", false, "inject faults")
		every    = flags.Int("every", 0, "with -fault: one program in this many gets a fault")
		options  = map[string]string{}
	)
	flags.Func("topology-option", "NAME=VALUE", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want NAME=VALUE")
		}
		options[name] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	in, out, err := takeOver(stdin, stdout)
	if err != nil {
		return err
	}
	load := func() (engine, error) {
		var inner engine = echo{}
		if *plugin != "" {
			p, err := loadPlugin(*plugin, *ahead, *topology, options)
			if err != nil {
				return nil, err
			}
			inner = p
		}
		if *faults {
			return &faulty{inner: inner, every: *every, out: out}, nil
		}
		if *plugin == "" {
			return nil, errors.New("no plugin")
		}
		return inner, nil
	}
	return serve(ctx, in, out, load)
}

// takeOver moves the frame pipes to private descriptors. What is written to descriptor 1 from now on, by anybody in the
// process, lands in the log.
func takeOver(stdin, stdout *os.File) (in, out *os.File, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	move := func(f *os.File, replacement int, name string) (*os.File, error) {
		fd, err := syscall.Dup(int(f.Fd()))
		if err != nil {
			return nil, fmt.Errorf("duplicate %s: %w", name, err)
		}
		syscall.CloseOnExec(fd)
		if err := syscall.Dup3(replacement, int(f.Fd()), 0); err != nil {
			return nil, fmt.Errorf("replace %s: %w", name, err)
		}
		return os.NewFile(uintptr(fd), name), nil
	}
	if in, err = move(stdin, int(null.Fd()), "frames in"); err != nil {
		return nil, nil, err
	}
	out, err = move(stdout, 2, "frames out")
	return in, out, err
}

func serve(ctx context.Context, in io.Reader, out io.Writer, load func() (engine, error)) error {
	requests := make(chan *wire.Request)
	failed := make(chan error, 1)
	go func() {
		for {
			r := &wire.Request{}
			if err := wire.Read(in, r); err != nil {
				// The pool is gone or has no more use for this process. A build may be in the middle of a call that
				// never ends, so nobody is asked.
				if errors.Is(err, io.EOF) {
					os.Exit(0)
				}
				failed <- err
				return
			}
			requests <- r
		}
	}()

	var hello *wire.Hello
	e, err := load()
	if err == nil {
		hello, err = e.hello()
	}
	first := &wire.Response{Hello: hello}
	if err != nil {
		first.Trouble = err.Error()
	}
	if err := wire.Write(out, first); err != nil || first.Trouble != "" {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case r := <-requests:
			resp := answer(e, r)
			if err := wire.Write(out, resp); err != nil {
				return err
			}
		}
	}
}

// answer turns a panic of ours into a typed answer.
func answer(e engine, r *wire.Request) (resp *wire.Response) {
	defer func() {
		if p := recover(); p != nil {
			resp = &wire.Response{Id: r.GetId(), Trouble: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	resp = e.serve(r)
	resp.Id = r.GetId()
	return resp
}
