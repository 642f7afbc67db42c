// Package selftest measures the gate on the user's own build: it plants wrong
// rewrites into the build's pass pipeline, runs the gate on them, and counts
// what was seen, blamed on the right step and instruction, and reduced.
//
// A planted build is a Composite: the real build, whose compilation is taken
// apart at one pass step. Its dumps give the module after that step; the
// mistake is made there; and the real build goes on from the wrong module. To
// the gate it is a head build like any other, whose dumps show the mistake as
// part of that pass. Its spec and id say that the fault is injected; it cannot
// be named on a command line.
package selftest
