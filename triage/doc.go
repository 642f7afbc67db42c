// Package triage walks a divergence down: from the whole program to the pass
// step that changed its meaning, to the instruction, and to the smallest
// program that still shows it.
//
// The first witness is per-pass validation (Trail.Validate): the compiler's
// dumps give the module after every pass step that changed it, and the
// reference interpreter evaluates each on the same inputs. Where the legal
// sets before and after a step do not meet, that step is guilty, whatever code
// generation did. Where all of them meet and the build's value is wrong all
// the same, the fault lies behind the passes: code generation, a library, or
// the runtime.
//
// The second witness executes the same states on the build itself, with no
// passes but those that code generation needs (Executor): the modules around an
// accused step, or, where no step is accused, half of the trail after the other
// (Executor.Turn) until it is known behind which step the value goes wrong.
package triage
