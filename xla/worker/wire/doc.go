// Package wire holds the messages and frames between the pool and its worker processes.
package wire

//go:generate go run ./gen
