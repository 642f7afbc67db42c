// Command gen rebuilds xla.proto from wire.tsv and xla.pb.go from xla.proto.
// Run it with `go generate ./hlo/hlopb`; it needs protoc (Debian package
// protobuf-compiler) on PATH and builds protoc-gen-go itself.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/passgate/passgate/hlo/hlopb/protogen"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	table, err := os.Open("wire.tsv")
	if err != nil {
		return err
	}
	defer table.Close()
	fields, err := protogen.ReadTable(table)
	if err != nil {
		return err
	}
	out, err := os.Create("xla.proto")
	if err != nil {
		return err
	}
	if err := protogen.Write(out, fields); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "protoc-gen-go")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	plugin := filepath.Join(dir, "protoc-gen-go")
	for _, c := range [][]string{
		{"go", "build", "-o", plugin, "google.golang.org/protobuf/cmd/protoc-gen-go"},
		{"protoc", "--plugin=" + plugin, "--go_out=.", "--go_opt=paths=source_relative", "xla.proto"},
	} {
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", c[0], err)
		}
	}
	return nil
}
