package gate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
)

func TestBrief(t *testing.T) {
	f := Finding{Class: Miscompile, Status: New, Output: "0", Pass: &PassStep{"simplification", 3, "algsimp"},
		First: First{At: []int64{2}, Base: "7", Head: "8", Legal: "{7}"}}
	if got, want := f.brief(), "miscompile, new, by simplification/3/algsimp: output 0[2] is 8, legal {7}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.Status, f.Pass = Fixed, nil
	if got, want := f.brief(), "miscompile, fixed: output 0[2] is 7, legal {7}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (&Finding{Class: Crash, Status: New}).brief(); got != "crash, new" {
		t.Errorf("got %q", got)
	}
}

// A case with a finding says what it is, whether or not the builds said more.
func TestFindingDetail(t *testing.T) {
	k, report := &caseRun{}, &caseReport{findings: []Finding{{ID: "f", Class: Miscompile, Status: New, Output: "0",
		First: First{At: []int64{1}, Head: "3", Legal: "{2}"}}}}
	k.summarise(report, "")
	if got, want := report.result.Detail, "miscompile, new: output 0[1] is 3, legal {2}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChangeReachesNoPass(t *testing.T) {
	for _, yes := range []bool{true, false} {
		res := &Result{}
		decide(res, nil, "", yes)
		if got := slices.Contains(res.Reasons, "the change reaches no pass"); got != yes {
			t.Errorf("no pass %v: reasons %q", yes, res.Reasons)
		}
	}
}

func TestOneBitIntegersAreUnsupported(t *testing.T) {
	for _, c := range []struct{ param, result, want string }{
		{"u1[8]", "u8[8]", "parameter 0 has type u1"},
		{"u8[8]", "s1[8]", "the result holds s1"},
		{"u2[8]", "s4[8]", ""},
	} {
		m, err := hlo.Parse("m", []byte("HloModule m\nENTRY e { x = "+c.param+" parameter(0)\n ROOT r = "+c.result+" convert(x) }"))
		if err != nil {
			t.Fatal(err)
		}
		k := &fuzz.Case{Name: "k", Module: m}
		if got := movable(k); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q", c, got)
		}
		if c.want != "" {
			r := (&run{}).work(context.Background(), k)
			if r.result.Outcome != CaseUnsupported || !strings.HasPrefix(r.result.Detail, c.want) {
				t.Errorf("%v: %s, %q", c, r.result.Outcome, r.result.Detail)
			}
		}
	}
}
