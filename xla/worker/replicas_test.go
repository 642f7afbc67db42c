package worker

import "testing"

// Several replicas are compiled for, never run.
func TestReplicas(t *testing.T) {
	for _, tt := range []struct {
		replicas int
		only, ok bool
	}{{0, false, true}, {1, false, true}, {4, true, true}, {4, false, false}, {-1, true, false}} {
		r := Request{Program: []byte("x"), Format: HLO, Replicas: tt.replicas, CompileOnly: tt.only}
		if err := r.check(); (err == nil) != tt.ok {
			t.Errorf("%d replicas, compile only %v: %v", tt.replicas, tt.only, err)
		}
		if got := r.message(1).GetReplicas(); int(got) != tt.replicas {
			t.Errorf("%d replicas are sent as %d", tt.replicas, got)
		}
	}
}
