package hlo_test

import (
	"testing"

	"github.com/passgate/passgate/hlo"
)

// untupled is a valid module's Untupled, which is valid, leaves the module as it
// is, and has nothing to take apart any more.
func untupled(t *testing.T, text string) *hlo.Module {
	t.Helper()
	m, err := hlo.Parse("m.hlo", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	before := m.String()
	u := m.Untupled()
	if err := hlo.Verify(u); err != nil {
		t.Fatalf("%v\n%s", err, u)
	}
	if m.String() != before {
		t.Error("the module given was changed")
	}
	if flat := u.Untupled(); flat != u {
		t.Error("a module without tuples is copied")
	}
	return u
}

func TestUntupled(t *testing.T) {
	const text = `HloModule m, input_output_alias={ {}: (1, {1,0}, may-alias) }, entry_computation_layout={(f32[2]{0}, (s32[3]{0}, (f32[2]{0}, pred[])))->f32[2]{0}}

ENTRY e {
  a = f32[2] parameter(0)
  t = (s32[3], (f32[2], pred[])) parameter(1)
  u = (f32[2], pred[]) get-tuple-element(t), index=1
  b = f32[2] get-tuple-element(u), index=0
  ROOT r = f32[2] add(a, b)
}
`
	u := untupled(t, text)
	want := []string{"f32[2]", "s32[3]", "f32[2]", "pred[]"}
	params := u.Entry.Params()
	if len(params) != len(want) {
		t.Fatalf("%d parameters, want %d", len(params), len(want))
	}
	for i, p := range params {
		if got := p.Shape.WithoutLayout().String(); got != want[i] {
			t.Errorf("parameter %d is %s, want %s", i, got, want[i])
		}
	}
	if a := u.Attr.GetInputOutputAlias().GetEntries()[0]; a.ParameterNumber != 2 || len(a.ParameterShapeIndex) != 0 {
		t.Errorf("the alias is of parameter %d%v, want 2", a.ParameterNumber, a.ParameterShapeIndex)
	}
}

func TestUntupledResult(t *testing.T) {
	const text = `HloModule m, input_output_alias={ {0,1}: (1, {}, may-alias), {1}: (0, {}, may-alias) }, entry_computation_layout={(pred[], f32[2]{0})->((s32[], f32[2]{0}, ()), pred[])}

ENTRY e {
  p = pred[] parameter(0)
  x = f32[2] parameter(1)
  n = s32[] constant(7)
  u = () tuple()
  t = (s32[], f32[2], ()) tuple(n, x, u)
  ROOT r = ((s32[], f32[2], ()), pred[]) tuple(t, p)
}
`
	u := untupled(t, text)
	if got, want := u.Entry.Root.Shape.WithoutLayout().String(), "(s32[], f32[2], pred[])"; got != want {
		t.Errorf("the result is %s, want %s", got, want)
	}
	if got, want := u.EntryLayout.Result.String(), "(s32[], f32[2]{0}, pred[])"; got != want {
		t.Errorf("the layout of the result is %s, want %s", got, want)
	}
	for i, want := range []int64{1, 2} {
		if e := u.Attr.GetInputOutputAlias().GetEntries()[i]; len(e.OutputShapeIndex) != 1 || e.OutputShapeIndex[0] != want {
			t.Errorf("alias %d is of output %v, want %d", i, e.OutputShapeIndex, want)
		}
	}
}
