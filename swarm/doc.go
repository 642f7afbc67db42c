// Package swarm lets language models propose and the gate decide.
//
// Agents have one of five roles. A stressor writes programs for a pass, a
// reproducer turns a report into a smallest program, an analyst explains a
// finding, a fixer drafts a patch, a reviewer tries to refute what the others
// handed in. Run puts their tasks into one queue; findings are shared, and no two
// agents work on the same cluster at a time.
//
// Nothing an agent says counts before it was checked (check.go): programs are
// parsed, verified and run; an explanation must name a pass step and an
// instruction that the compiler's dumps have and that the gate did not clear; a
// fix must build, must turn the finding's case from failing to passing, and must
// pass the whole gate. A refusal goes back to the agent as an error, at most
// Limits.Rounds times.
//
// What an agent can do is bounded by what exists (tools.go): operations of the
// gate and reading source files under one root. There is no tool that writes,
// runs a command or reaches the network, so text that tells an agent to do so
// (source, reports, other agents) has nothing to work with. Limits of tokens,
// cost, steps, time and repetition hold per agent and for the swarm (limits.go).
package swarm
