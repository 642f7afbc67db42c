package gate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/gate/policy"
	"github.com/passgate/passgate/gate/statistics"
	"github.com/passgate/passgate/hlo"
)

// accuracySample is a sample of one program: n elements, of which the given part is
// worse on head, by shift ULP on the mean.
func accuracySample(n, worse int64, shift float64) *sample {
	s := &sample{elements: n, changed: n, headWorse: worse, baseWorse: n - worse}
	for range n {
		s.base.Add(1)
		s.head.Add(1 + shift)
	}
	s.sumBase, s.sumHead = float64(n), float64(n)*(1+shift)
	return s
}

// TestOneOperationAmongManyCells: 500 cells of 40 programs, one of which is
// shifted by one ULP: it is the only finding, with an interval that holds 1.
func TestOneOperationAmongManyCells(t *testing.T) {
	var a accuracy
	shifted := sampleKey{"tanh", "f32", "random"}
	for p := range 40 {
		samples := map[sampleKey]*sample{}
		for c := range 499 {
			worse := int64(32)
			if (p+c)%2 == 0 {
				worse = 30
			} else if c%3 == 0 {
				worse = 34
			}
			samples[sampleKey{fmt.Sprintf("op%d", c), "f32", "random"}] = accuracySample(64, worse, 0)
		}
		samples[shifted] = accuracySample(64, 52, 1+0.1*math.Sin(float64(p)))
		a.add(fmt.Sprintf("p%02d", p), []string{"algsimp"}, samples)
	}
	cells, found, excluded := a.finish(nil, nil)
	if len(cells) != 500 || len(found) != 1 || len(excluded) != 0 {
		t.Fatalf("%d cells, findings %+v, excluded %q", len(cells), found, excluded)
	}
	f := found[0]
	if f.Class != NumericDegradation || f.Status != New || f.Blocking || f.Instruction != "tanh" || !slices.Equal(f.Witnesses, []string{WitnessStatistics}) {
		t.Errorf("%+v", f)
	}
	i := slices.IndexFunc(cells, func(c Cell) bool { return c.Operation == "tanh" })
	c := cells[i]
	if !c.Discovered || c.Pass != "algsimp" || c.Shift.Low == nil || *c.Shift.Low > 1 || *c.Shift.High < 1 || *c.Shift.Low < 0.9 || *c.Ratio.Low < 1.8 {
		t.Errorf("cell %+v, shift %s, ratio %s", c, c.Shift, c.Ratio)
	}
	if !strings.Contains(f.Detail, "not blocking: within the budget of 7.5 ULP") || f.Case != "p33" {
		t.Errorf("case %s: %s", f.Case, f.Detail)
	}
}

// TestLossAboveTheBudgetBlocks: the policy's budget is the threshold; a cell
// without a budget never blocks, nor one whose null loses accuracy as well.
func TestLossAboveTheBudgetBlocks(t *testing.T) {
	tight, err := policy.Parse("p.yaml", []byte("version: 1\nulp-budgets: [{op: tanh, type: f32, ulps: 0.5}, {op: dot, type: f32, ulps: 2}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		op     string
		p      *policy.Policy
		null   float64
		found  int
		blocks bool
		reason string
	}{
		{"tanh", nil, 0, 1, false, "within the budget"},
		{"tanh", tight, 0, 1, true, "shift 1 (1 to 1) ULP"},
		{"dot", nil, 0, 1, false, "no budget declared"},
		{"dot", tight, 0, 1, false, "within the budget of 2 ULP"},
		{"tanh", tight, 1, 0, false, ""},
		{"tanh", tight, -1, 1, true, ""},
	} {
		var a accuracy
		for p := range 30 {
			key := sampleKey{c.op, "f32", "own"}
			a.add(fmt.Sprint(p), []string{""}, map[sampleKey]*sample{key: accuracySample(8, 8, 1)})
			if c.null != 0 {
				a.addNull(fmt.Sprint(p), []string{""}, []map[sampleKey]*sample{{key: accuracySample(8, int64(4+4*c.null), 0)}, {}})
			}
		}
		_, found, excluded := a.finish(c.p, nil)
		if len(found) != c.found || (len(excluded) == 1) != (c.found == 0) {
			t.Fatalf("%s: %d findings, excluded %q", c.op, len(found), excluded)
		}
		if c.found > 0 && (found[0].Blocking != c.blocks || !strings.Contains(found[0].Detail, c.reason)) {
			t.Errorf("%s: blocking %t: %s", c.op, found[0].Blocking, found[0].Detail)
		}
	}
}

func TestNoEvidenceIsATilde(t *testing.T) {
	var a accuracy
	a.add("p", []string{""}, map[sampleKey]*sample{{"tanh", "f32", "own"}: {elements: 3, changed: 0}})
	cells, found, _ := a.finish(nil, nil)
	if len(cells) != 1 || len(found) != 0 || cells[0].E != 1 || cells[0].Shift.String() != "~" || cells[0].Betting != 0 {
		t.Errorf("%+v", cells)
	}
	out, err := json.Marshal(cells)
	if err != nil || strings.Contains(string(out), "shift") {
		t.Errorf("%s, %v", out, err)
	}
	two := 2.0
	if s := (&Interval{Median: &two, Low: &two}).String(); s != "2 (2 to ~)" {
		t.Error(s)
	}
}

// TestSamplesAddUp: sums of a case's answers do not depend on
// the order of maps.
func TestSamplesAddUp(t *testing.T) {
	var a, b accuracy
	for range 20 {
		m := map[sampleKey]*sample{}
		for c := range 20 {
			m[sampleKey{fmt.Sprint(c), "f32", "own"}] = accuracySample(7, int64(c%7), float64(c)/3)
		}
		a.add("p", []string{"x", "y"}, m)
		b.add("p", []string{"x", "y"}, m)
	}
	one, _, _ := a.finish(nil, nil)
	two, _, _ := b.finish(nil, nil)
	x, _ := json.Marshal(one)
	y, _ := json.Marshal(two)
	if string(x) != string(y) {
		t.Error("two sums differ")
	}
}

func TestSources(t *testing.T) {
	for _, c := range []struct{ body, operation, rule string }{
		{"ROOT r = f32[8] tanh(x)", "tanh", "tanh of f32 within 7.5 ULP"},
		{"y = f32[8] reverse(x), dimensions={0}\n  ROOT r = f32[8] tanh(y)", "tanh", "tanh of f32 within 7.5 ULP"},
		{"ROOT r = f32[8] add(x, x)", "arithmetic", "f32 arithmetic, half a ULP each, fused or not"},
		{"ROOT r = f32[8] maximum(x, x)", "exact", "no inexact operation"},
		{"ROOT r = f32[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "dot", "dot of 8 f32 in any order, fused or not"},
		{"z = f32[] constant(0)\n  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum", "reduce", "sum of 8 f32 in any order (reduce)"},
		{"z = f32[] constant(0)\n  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=largest", "exact", "no inexact operation"},
		{"y = f32[8] tanh(x)\n  ROOT r = f32[8] multiply(y, y)", "composed", "f32 arithmetic, half a ULP each, fused or not, tanh of f32 within 7.5 ULP"},
	} {
		m, err := hlo.Parse("m", []byte("HloModule m\nsum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"+
			"largest { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\nENTRY e {\n  x = f32[8] parameter(0)\n  "+c.body+"\n}\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := sources(m)
		if len(got) != 1 || got[0].operation != c.operation || got[0].rule != c.rule {
			t.Errorf("%s: %+v", c.body, got)
		}
	}
	d := LegalDifference{Rule: "sum of " + thousands(2097152) + " f32 in any order (reduce)", Bound: 0.031, Seen: 0.0004}
	if d.String() != "sum of 2,097,152 f32 in any order (reduce): bound 3.1e-02, seen 4.0e-04" {
		t.Error(d.String())
	}
}

func TestNullSampleDependsOnTheSeedOnly(t *testing.T) {
	var cases []*fuzz.Case
	for i := range 30 {
		cases = append(cases, &fuzz.Case{Name: fmt.Sprint(i), Module: hlo.NewModule("m")})
	}
	cases = append(cases, &fuzz.Case{Name: "mlir"})
	a, b := nullSample(cases, 1, 5), nullSample(cases, 1, 5)
	slices.Reverse(cases)
	c, d := nullSample(cases, 1, 5), nullSample(cases, 2, 5)
	if len(a) != 5 || a["mlir"] || fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) != fmt.Sprint(c) || fmt.Sprint(a) == fmt.Sprint(d) {
		t.Errorf("%v %v %v %v", a, b, c, d)
	}
	if len(nullSample(cases, 1, 100)) != 30 || len(nullSample(cases, 1, 0)) != 0 {
		t.Error("all or none")
	}
}

func TestExpectedFalseBlocks(t *testing.T) {
	res := &Result{Base: Build{ID: "b"}, Head: Build{ID: "h"}}
	for range 10 {
		res.Cases = append(res.Cases, CaseResult{Streams: []StreamResult{{Judged: 1}, {Judged: 1}, {}}})
	}
	calibrate(res, []CasePart{{Null: []NullPart{{Variant: "again", Cells: 50}, {Variant: "one thread", Same: true, Cells: 50, Alarms: []string{"c"}}}}})
	n := res.Statistics.Null
	if n.Cells != 100 || n.Alarms != 1 || n.Cases != 1 || len(n.Variants) != 2 || n.Variants[0].Same || !n.Variants[1].Same || n.Interval != statistics.Proportion(1, 100) {
		t.Errorf("%+v", n)
	}
	// 1 - 0.99^20 = 0.1821
	if e := *res.Statistics.ExpectedFalseBlocks; math.Abs(e-182.1) > 0.1 {
		t.Errorf("expected %g", e)
	}
	if i := res.Statistics.ExpectedInterval; i[0] > 182 || i[1] < 182 {
		t.Errorf("interval %v", i)
	}
}

func TestLevels(t *testing.T) {
	if statistics.FamilyWise(99, 1, familyLevel) || !statistics.FamilyWise(100, 1, familyLevel) {
		t.Error("family-wise level")
	}
}
