// Command passgate is a regression gate for XLA's compiler passes.
//
// `passgate help` lists the commands; see package app for what they do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(interruptible(os.Args[1:])) }

// interruptible runs a command line; SIGINT and SIGTERM end its context.
func interruptible(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, args)
}
