package wire

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// TestGeneratedCodeIsCurrent: worker.pb.go ends with the hash of the worker.proto it was made from (go generate).
func TestGeneratedCodeIsCurrent(t *testing.T) {
	src, err := os.ReadFile("worker.proto")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("worker.pb.go")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\n// source sha256: %x\n", sha256.Sum256(src)); !strings.HasSuffix(string(code), want) {
		t.Error("worker.pb.go is older than worker.proto: run go generate")
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var buf bytes.Buffer
		var sent []*Request
		for range rapid.IntRange(0, 4).Draw(t, "frames") {
			r := &Request{Id: rapid.Uint64().Draw(t, "id"), Program: rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "program"),
				Options: map[string]string{"a": rapid.StringMatching(`[a-z]*`).Draw(t, "option")}}
			sent = append(sent, r)
			if err := Write(&buf, r); err != nil {
				t.Fatal(err)
			}
		}
		whole := bytes.Clone(buf.Bytes())
		for _, want := range sent {
			got := &Request{}
			if err := Read(&buf, got); err != nil || !proto.Equal(got, want) {
				t.Fatalf("%v, %v", got, err)
			}
		}
		if err := Read(&buf, &Request{}); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
		if len(whole) == 0 {
			return
		}
		// A cut or changed byte never gives a message that was not sent.
		cut := rapid.IntRange(0, len(whole)-1).Draw(t, "cut")
		r := bytes.NewReader(whole[:cut])
		for i := 0; ; i++ {
			got := &Request{}
			err := Read(r, got)
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				break
			}
			if !proto.Equal(got, sent[i]) {
				t.Fatalf("cut at %d: another message", cut)
			}
		}
		bad := bytes.Clone(whole)
		bad[cut] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		r = bytes.NewReader(bad)
		for i := range sent {
			got := &Request{}
			if err := Read(r, got); err != nil {
				return
			}
			if !proto.Equal(got, sent[i]) {
				t.Fatalf("bit flip at %d went unnoticed", cut)
			}
		}
		t.Fatalf("bit flip at %d went unnoticed", cut)
	})
}

func FuzzRead(f *testing.F) {
	var buf bytes.Buffer
	if err := Write(&buf, &Response{Id: 1, Trouble: "x"}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add([]byte("pgw1\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for Read(r, &Response{}) == nil {
		}
	})
}
