// Package bazel holds passgate's Starlark rules and the checks of its Bazel
// files. BUILD.bazel files are written by gazelle: `go generate ./bazel`.
package bazel

//go:generate go run github.com/bazelbuild/bazel-gazelle/cmd/gazelle@v0.47.0 update -external=static -repo_root .. ..
