package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/passgate/passgate/hlo"
	"google.golang.org/protobuf/proto"
)

// The test binary plays XLA when this variable is set.
const playXLA = "PEER_TEST_PLAY_XLA"

func TestMain(m *testing.M) {
	if os.Getenv(playXLA) != "" {
		fakeXLA(os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// fakeXLA speaks the protocol of xla.py. The text says what it does.
func fakeXLA(r io.Reader, w io.Writer) {
	in, out := bufio.NewReader(r), bufio.NewWriter(w)
	send := func(tag string, data []byte) {
		out.WriteString(tag)
		out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
		out.Write(data)
		out.Flush()
	}
	send("", []byte("fake 1"))
	for {
		var head [5]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		text := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(in, text); err != nil {
			return
		}
		switch s := string(text); {
		case strings.Contains(s, "xla: die"):
			fmt.Fprintf(os.Stderr, "I0000 fine\nF0000 x.cc:1] Check failed: no\n    @ stack\n")
			os.Exit(6)
		case strings.Contains(s, "xla: hang"):
			time.Sleep(time.Hour)
		case strings.Contains(s, "xla: babble"):
			send("?", nil)
		case strings.Contains(s, "xla: refuse"):
			send("R", []byte("INVALID_ARGUMENT: Syntax error when trying to parse the text as a HloModule:\nwas parsing 3:14: error: expects 'x7'\n  ^"))
		case head[0] == 'V':
			send("A", nil)
		default:
			// What our parser says, numbered and named otherwise.
			m, err := hlo.Parse("", []byte(s))
			if err != nil {
				send("R", []byte(err.Error()))
				continue
			}
			p, err := m.ToProto()
			if err != nil {
				panic(err)
			}
			p.Id = 99
			if strings.Contains(s, "xla: rename") {
				p.Name += "_x"
			}
			data, err := proto.Marshal(p)
			if err != nil {
				panic(err)
			}
			send("A", data)
		}
	}
}

func fakeCommand(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), playXLA+"=1")
	return cmd
}

func TestXLAParser(t *testing.T) {
	ctx := context.Background()
	x, err := startXLA(ctx, fakeCommand, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer x.stop()
	for _, tt := range []struct {
		text, message string
		verdict       verdict
	}{
		{"xla: refuse", "INVALID_ARGUMENT", refused},
		{"xla: die", "F0000 x.cc:1] Check failed: no", aborted},
		{"xla: refuse", "INVALID_ARGUMENT", refused}, // by a new process
		{"xla: die again", "F0000 x.cc:1] Check failed: no", aborted},
		{"constant({...})", "", accepted},
	} {
		a, err := x.parse(ctx, tt.text, false)
		if err != nil {
			t.Fatal(err)
		}
		if a.verdict != tt.verdict || !strings.HasPrefix(a.message, tt.message) {
			t.Errorf("%s: %c %q, want %c %q", tt.text, a.verdict, a.message, tt.verdict, tt.message)
		}
	}
	if _, err := x.parse(ctx, "xla: babble", false); err == nil {
		t.Error("no error for an answer out of protocol")
	}
}

func TestXLAParserHangs(t *testing.T) {
	x, err := startXLA(context.Background(), fakeCommand, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer x.stop()
	a, err := x.parse(context.Background(), "xla: hang", false)
	if err != nil || a.verdict != aborted || a.message != "no answer in 50ms" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestXLAParserCannotStart(t *testing.T) {
	for _, command := range []func(context.Context) *exec.Cmd{
		func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, filepath.Join(t.TempDir(), "none"))
		},
		func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "false") },
	} {
		if x, err := startXLA(context.Background(), command, time.Minute); err == nil {
			x.stop()
			t.Error("started")
		}
	}
}

// TestParserReport runs the whole comparison on a small tree.
func TestParserReport(t *testing.T) {
	dir := t.TempDir()
	good := "HloModule m\nENTRY e {\n  ROOT p = f32[2]{0} parameter(0)\n}\n"
	files := map[string]string{
		"a.hlo":     good + "// -----\n// again\n" + good,
		"b.hlo":     good + "// xla: rename\n",
		"c.hlo":     good + "// xla: refuse\n",
		"d.hlo":     "nonsense // xla: refuse\n",
		"e.hlo":     good + "// xla: die\n",
		"f.hlo":     strings.Replace(good, "parameter(0)", "constant({...})", 1),
		"g_test.cc": "R\"(" + good + ")\"; // the first again: counted once\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	truth := filepath.Join(t.TempDir(), "truth")
	for _, how := range []string{"asked", "remembered"} {
		var out bytes.Buffer
		ok, err := compareParsers(context.Background(), parserConfig{checkout: dir, truth: truth, show: 1, diff: true, accept: 0.6, refuse: 0.5}, fakeCommand, &out)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			t.Error("2 of 3 and 1 of 2 are enough here")
		}
		for _, want := range []string{
			"8 HLO texts in the checkout, 7 distinct ones compared with the parser of fake 1",
			"XLA accepts                   4  of which 1 hold elided constants (we refuse 1 of those)",
			"  equivalent proto            2  66.67% of those without elided constants; 0 list",
			"  different proto             1\n",
			"XLA refuses                   2\n",
			"  we refuse too               1  50.00%",
			"  we accept                   1\n",
			"XLA aborts                    1\n",
			"     1  module.name\n          #00003 b.hlo:1: module.name: ours `\"m\"`, XLA `\"m_x\"`\n",
			"     1  expects _\n          #00004 c.hlo:1: INVALID_ARGUMENT",
			"Check failed: no\n          #00006 e.hlo:1: F0000",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", how, want, &out)
			}
		}
	}
	for _, c := range []parserConfig{{checkout: dir, accept: 0.7}, {checkout: dir, refuse: 0.6}} {
		if ok, err := compareParsers(context.Background(), c, fakeCommand, io.Discard); ok || err != nil {
			t.Errorf("%+v: %v, %v", c, ok, err)
		}
	}
	for _, c := range []parserConfig{{checkout: t.TempDir()}, {checkout: filepath.Join(dir, "none")}, {checkout: dir, match: "("}, {checkout: dir, match: "nowhere"}} {
		if _, err := compareParsers(context.Background(), c, fakeCommand, io.Discard); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

func TestKindOf(t *testing.T) {
	for message, want := range map[string]string{
		"INVALID_ARGUMENT: Syntax error when trying to parse the text as a HloModule:\nwas parsing 12:3: error: computation does not exist: 'add.1'\n   ^": "computation does not exist: _",
		"m.hlo:12:3: shape of %x is f32[2,3], want f32[4]": "shape of _ is f_[_,_], want f_[_]",
		":1:1: expects `=`": "expects _",
		"UNKNOWN: no place": "UNKNOWN: no place",
	} {
		if got := kindOf(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"what"}, {"parser"}, {"parser", "--xla", "d", "more"}, {"parser", "--no-such"}, {"parser", "--xla", "d", "--python", filepath.Join(t.TempDir(), "none")}} {
		var out, errs bytes.Buffer
		if rc := run(context.Background(), args, &out, &errs); rc != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%q: rc %d, out %q, err %q", args, rc, &out, &errs)
		}
	}
}
