package gate

import "testing"

func TestCountClusters(t *testing.T) {
	found := []Finding{{Cluster: "x", Duplicates: 1}, {Cluster: "z"}, {Cluster: "y"}, {Cluster: "x"}, {Cluster: "x"}}
	countClusters(found)
	for i, want := range []int{3, 0, 0, 0, 0} {
		if found[i].Duplicates != want {
			t.Errorf("finding %d has %d duplicates, want %d", i, found[i].Duplicates, want)
		}
	}
}

// TestComplaint: what a compiler says when it dies, without what belongs to the
// program or to the version.
func TestComplaint(t *testing.T) {
	a := complaint(`SIGABRT: algebraic_simplifier.cc:617: Check failed: Compatible(%add.12, "fused") f32[2,3]{1,0} vs 0x7f00aa 12`)
	b := complaint(`SIGABRT: algebraic_simplifier.cc:585: Check failed: Compatible(%sum, "b") s8[7] vs 0x1 3`)
	if a != b {
		t.Errorf("%q and %q", a, b)
	}
	if c := complaint("SIGABRT: algebraic_simplifier.cc:585: Check failed: other"); a == c {
		t.Errorf("%q for another message", c)
	}
}
