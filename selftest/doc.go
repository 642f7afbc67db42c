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
//
// How the build goes on is the defect's Route. Before layout assignment the
// wrong module goes through the whole pipeline again. Behind it a build that
// can starts behind the step; other executable builds generate code for the
// module as it is, if no copies are still to be inserted. The build's own transform hook puts mistakes into the
// running pipeline, before or after its scheduler. Compile-only builds take
// programs from the start only: behind layout assignment, and where the hook
// is not the place, the dumped state is replaced by the wrong one and no pass
// runs on it. The gate, which judges each step by the states before and after
// it, sees what it would see, but for what later passes would do to it.
//
// A plant counts if the legal sets before and after it have no value in common
// on some element, on inputs that are not the gate's; if the build takes it;
// and, where programs are executed, if what the build computes is then outside
// the legal set of the program: what a later pass makes good harms nobody.
package selftest
