// Package hlopb holds the messages of XLA's wire format that passgate reads
// and writes: HloModuleProto and all it contains, HloProto with buffer
// assignment, CompileOptionsProto. Names and numbers follow wire.tsv; the
// proto package is passgate.xla, so that it never clashes with XLA's own
// descriptors. Fields that the schema lacks survive as unknown fields.
package hlopb

//go:generate go run ./gen
