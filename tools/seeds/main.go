// Command seeds makes the corpus that passgate ships,
// fuzz/corpus/shipped.zip: programs of passgate's own generator, patterns and
// mutators that make passes do something that no earlier one made them do.
//
//	go run ./tools/seeds > fuzz/corpus/shipped.zip
//
// For each build it explores --programs programs with all passes in focus and
// without the shipped corpus (`passgate fuzz --firing --no-shipped`), from the
// seed; the programs kept go to the platform of the build. The same tree and
// builds give the same bytes. --check compares them with what is shipped.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/passgate/passgate/fuzz/corpus"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "seeds:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("seeds", flag.ContinueOnError)
	builds := flags.String("builds", "cpu=xla-2026-06,cpu=jax-0.11.2", "builds to explore, as PLATFORM=SPEC")
	programs := flags.Int("programs", 1600, "programs to explore on each build")
	seed := flags.Uint64("seed", 1, "seed of the exploration")
	terms := flags.String("accept-terms", "", "terms of builds that are accepted")
	workers := flags.Int("workers", 2, "worker processes; the result does not depend on them")
	check := flags.String("check", "", "compare with this file and write nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "passgate-seeds-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	passgate := filepath.Join(dir, "passgate")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", passgate, "./cmd/passgate").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, text)
	}
	found := map[string][]corpus.Entry{}
	for i, b := range strings.Split(*builds, ",") {
		platform, spec, ok := strings.Cut(b, "=")
		if !ok {
			return fmt.Errorf("--builds %s: want PLATFORM=SPEC", b)
		}
		grown := filepath.Join(dir, fmt.Sprint(i))
		command := exec.CommandContext(ctx, passgate, "fuzz", "--build", spec, "--accept-terms", *terms, "--firing", "--no-shipped", "--budget", "0",
			"--max-cases", fmt.Sprint(*programs), "--seed", fmt.Sprint(*seed), "--workers", fmt.Sprint(*workers), "--save", grown)
		if text, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", spec, err, text)
		}
		entries, err := corpus.Load(os.DirFS(grown))
		if err != nil {
			return fmt.Errorf("%s: %w", spec, err)
		}
		fmt.Fprintf(stderr, "%s: %d of %d programs did something new\n", spec, len(entries), *programs)
		found[platform] = append(found[platform], entries...)
	}
	var out bytes.Buffer
	n, err := corpus.Pack(&out, found)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%d programs, %d kB\n", n, (out.Len()+1023)/1024)
	if *check == "" {
		_, err = out.WriteTo(stdout)
		return err
	}
	old, err := os.ReadFile(*check)
	if err != nil {
		return err
	}
	if !bytes.Equal(old, out.Bytes()) {
		return fmt.Errorf("%s is not what this tree makes", *check)
	}
	return nil
}
