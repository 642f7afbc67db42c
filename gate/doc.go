// Package gate is the gate itself: the plan of a run, the oracle, the policy
// and the verdict.
//
//	res, err := gate.Run(ctx, gate.Config{Base: base, Head: head, Cases: cases, Runner: pool, ...})
//
// For each case and each of its input streams there are three answers: base,
// head, and the legal sets of the reference interpreter. Run compares them
// element by element (judge.go), turns what is outside into findings
// (findings.go), confirms in fresh processes whatever could block
// (confirm.go), and says what it all means (verdict.go).
//
// # Outcomes
//
// A worker's outcome is read as follows (execute.go). A process that died or
// wrote rubbish, a memory limit that was passed, and a clean error that says
// INTERNAL (XLA's RET_CHECK, a failed verifier after a pass) on a program that
// our verifier accepts are a crash. No answer in time is a hang, unless the
// reference could not finish the program either: then it was not run. A clean
// UNIMPLEMENTED is unsupported, INVALID_ARGUMENT rejected.
//
// # Statuses
//
// An output element outside its legal set has, by this table, a status:
//
//	base inside                                   new
//	base outside, head inside                     fixed
//	both outside                                  pre-existing
//	both outside with the same value, and the     reference-disputed
//	legal set rests on error bounds alone
//	any, and the element carries a contest mark   contested
//
// "Rests on error bounds alone": the reference's value is finite and inexact
// and both builds give a finite value, so that a budget that is too narrow
// would explain the difference. It does not hold where the legal set is exact
// (integers, predicates, data movement, exact-valued floats), where NaN or an
// infinity stands against a finite value, and where the case's own want sides
// with the reference.
//
// Two builds that are both outside with different values are pre-existing:
// head is wrong, but base was not right before, and a block needs that. Where
// both are wrong on common elements of an output, the output's other wrong
// elements belong to the same finding.
//
// Memory that a build allocates is filled with a pattern (config.go), so that
// an element that nobody writes is wrong in every run, and every program is
// executed several times in one process.
//
// # Two streams of flags
//
// The comparison flags switch fast min/max and excess precision off. The
// build's default flags are a second, separately labelled pass over the same
// inputs (special values aside), judged by a reference that allows excess
// precision. A wrong value that shows only there is contested: the flags trade
// it for speed on purpose. A crash or hang is judged the same under either,
// since no flag makes that legal.
package gate
