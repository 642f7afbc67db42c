//go:build !amd64

package worker

// watchFaults does nothing: without the address of a fault, a fault at a guard
// page is a plain crash.
func watchFaults() error { return nil }
