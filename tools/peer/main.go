// Command peer compares passgate with XLA itself over the HLO modules of XLA's
// own unit tests. It is a tool for developers of passgate: it needs a checkout
// of XLA's sources, from which nothing is kept.
//
//	go run ./tools/peer parser --xla DIR [--python PY] [flags]
//
// parser harvests every HLO module of the checkout (fuzz.Harvest; each distinct
// text once), has each parsed by XLA's own parser (jaxlib's
// hlo_module_from_text, in a Python process that is restarted when XLA aborts)
// and by package hlo, and compares the protos of those that both accept. PY is
// a Python with jaxlib, best the newest: `python3 -m venv V && V/bin/pip
// install jaxlib`, then --python V/bin/python. It also checks that nothing is
// lost when package hlo writes a module that it read, as text and as proto.
//
//	--truth DIR    keep XLA's answers there and use them again (a run over all
//	               modules takes XLA about a minute)
//	--match RE     only modules whose "path:line" matches
//	--show N       examples per group of failures (default 3)
//	--diff         print every difference of every module, not only the groups
//	--accept R     exit 1 when less than this share of the modules that XLA
//	               accepts give an equivalent proto (default 0.995)
//	--refuse R     exit 1 when we refuse less than this share of those that XLA
//	               refuses (default 0.95); a panic of ours or a loss gives
//	               exit 1 too
//
// Exit 2 means that the comparison itself failed.
//
//	go run ./tools/peer eval --xla DIR [flags]
//
// compares the values that the reference interpreter and real builds compute:
// see eval.go.
//
//	go run ./tools/peer steps (--xla DIR | --cases DIR) --build SPEC [--limit N]
//
// prints how many pass steps the reference judges: see steps.go.
//
// Two protos are equivalent when their canonical forms are the same bit for
// bit. What the canonical form leaves out is printed with each report: see
// ignored in canon.go. Modules with elided constants are counted apart: XLA
// fills them with arbitrary numbers, and we refuse them on purpose.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "eval" {
		return evalMain(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "steps" {
		return stepsMain(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "worker" {
		return workerMain(ctx, args[1:], stderr)
	}
	if len(args) == 0 || args[0] != "parser" {
		fmt.Fprintln(stderr, "usage: peer eval --xla DIR [flags] (peer eval --help lists them)\n       peer parser --xla DIR [--python PY] [--truth DIR] [--match RE] [--show N] [--diff] [--accept R] [--refuse R]")
		return 2
	}
	var c parserConfig
	flags := flag.NewFlagSet("peer parser", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.checkout, "xla", "", "XLA source checkout (required)")
	python := flags.String("python", "python3", "Python with jaxlib")
	flags.StringVar(&c.truth, "truth", "", "directory that keeps XLA's answers")
	flags.StringVar(&c.match, "match", "", "only modules whose path:line matches this regular expression")
	flags.IntVar(&c.show, "show", 3, "examples per group")
	flags.BoolVar(&c.diff, "diff", false, "print every difference")
	flags.Float64Var(&c.accept, "accept", 0.995, "least share of equivalent protos")
	flags.Float64Var(&c.refuse, "refuse", 0.95, "least share of refusals")
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if c.checkout == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "peer parser: need --xla DIR and no other arguments")
		return 2
	}
	ok, err := compareParsers(ctx, c, pythonXLA(*python), stdout)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "peer parser:", err)
		return 2
	case !ok:
		return 1
	}
	return 0
}
