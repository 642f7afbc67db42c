// Package workertest starts real builds in tests: a test binary that is its own
// worker, and a pool with the builds that a test names.
package workertest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/passgate/passgate/xla/builds"
	"github.com/passgate/passgate/xla/worker"
)

// Main is the TestMain of a package that uses Open: the test binary is its own
// worker.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := worker.Main(context.Background(), os.Stdin, os.Stdout, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Open fetches the builds of the specs and gives them with a pool of that many
// workers a build, which the end of the test closes.
func Open(t *testing.T, workers int, specs ...string) (*worker.Pool, []*builds.Build) {
	t.Helper()
	store, err := builds.NewStore(builds.Config{Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	var out []*builds.Build
	for _, text := range specs {
		spec, err := builds.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := store.Fetch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	pool, err := worker.NewPool(worker.Config{Command: []string{os.Args[0], "worker"}, Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool, out
}
