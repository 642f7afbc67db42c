// Command gen makes worker.pb.go from worker.proto with protoc and the protoc-gen-go that go.mod names. It ends the file
// with the hash of its source, by which a test sees that the two belong together.
package main

import (
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal("gen: ", err)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "protoc-gen-go-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	plugin := filepath.Join(dir, "protoc-gen-go")
	for _, argv := range [][]string{
		{"go", "build", "-o", plugin, "google.golang.org/protobuf/cmd/protoc-gen-go"},
		{"protoc", "--plugin=" + plugin, "--go_out=.", "--go_opt=paths=source_relative", "worker.proto"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
	}
	src, err := os.ReadFile("worker.proto")
	if err != nil {
		return err
	}
	out, err := os.OpenFile("worker.pb.go", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = fmt.Fprintf(out, "\n// source sha256: %x\n", sha256.Sum256(src))
	return err
}
