// Package program builds HLO modules, operation by operation, from a source of
// random choices.
//
// A Builder holds the module under construction. Its methods append one
// operation each to the current computation and infer the result's shape with
// package hlo, so that what comes out is well-typed or an error. Regions (loop
// bodies, reducers, comparators) are Go functions:
//
//	c, err := program.Make("sum", r, func(b *program.Builder) {
//		x := b.Param(hlo.ArrayShape(hlo.F32, 8, 4))
//		b.Out(b.Reduce(hlo.OpAdd, x, 0, 1))
//	})
//
// The trigger patterns (package patterns), the free generator (package
// generate) and tests are written with it.
package program
