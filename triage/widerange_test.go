package triage_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/passgate/passgate/hlo/eval"
	"github.com/passgate/passgate/triage"
)

// An identity that hides an overflow is contested, a wrong value is not.
func TestContestOverflow(t *testing.T) {
	text := func(typ, body string) string {
		return fmt.Sprintf("HloModule m\nENTRY e {\n  a = %s[2] parameter(0)\n  b = %[1]s[2] parameter(1)\n%s\n}\n", typ, body)
	}
	const (
		product     = "ea = f32[2] exponential(a)\n eb = f32[2] exponential(b)\n ROOT r = f32[2] multiply(ea, eb)"
		merged      = "s = f32[2] add(a, b)\n ROOT r = f32[2] exponential(s)"
		wrongSum    = "s = f32[2] subtract(a, b)\n t = f32[2] negate(s)\n ROOT r = f32[2] exponential(t)"
		ratio       = "ea = f32[2] exponential(a)\n eb = f32[2] exponential(b)\n ROOT r = f32[2] divide(ea, eb)"
		quotient    = "s = f32[2] subtract(a, b)\n ROOT r = f32[2] exponential(s)"
		powers      = "ea = f32[2] exponential(a)\n ROOT r = f32[2] power(ea, b)"
		power       = "s = f32[2] multiply(a, b)\n ROOT r = f32[2] exponential(s)"
		halves      = "ea = bf16[2] multiply(a, a)\n ROOT r = bf16[2] multiply(ea, b)"
		other       = "ea = bf16[2] multiply(a, b)\n ROOT r = bf16[2] multiply(ea, a)"
		zero        = "ROOT r = f32[2] subtract(b, b)"
		nothing     = "z = f32[2] subtract(a, a)\n ROOT r = f32[2] divide(b, z)"
		logarithm   = "ea = f32[2] exponential(a)\n ROOT r = f32[2] log(ea)"
		itself      = "ROOT r = f32[2] copy(a)"
		productHalf = "ea = f16[2] exponential(a)\n eb = f16[2] exponential(b)\n ROOT r = f16[2] multiply(ea, eb)"
		mergedHalf  = "s = f16[2] add(a, b)\n ROOT r = f16[2] exponential(s)"
		integers    = "x = s32[2] iota(), iota_dimension=0\n y = u32[2] bitcast-convert(x)\n z = f32[2] convert(y)\n n = f32[2] subtract(z, z)\n ea = f32[2] exponential(a)\n eb = f32[2] exponential(b)\n m = f32[2] multiply(ea, eb)\n ROOT r = f32[2] add(m, n)"
		bits        = "x = f32[2] exponential(a)\n y = s32[2] bitcast-convert(x)\n z = f32[2] bitcast-convert(y)\n eb = f32[2] exponential(b)\n ROOT r = f32[2] multiply(z, eb)"
		double      = "ea = f64[2] exponential(a)\n eb = f64[2] exponential(b)\n ROOT r = f64[2] multiply(ea, eb)"
		doubleOf    = "s = f64[2] add(a, b)\n ROOT r = f64[2] exponential(s)"
	)
	tests := []struct {
		name, typ, before, after, a, b string
		contested                      bool
	}{
		{"product of exponentials", "f32", product, merged, "{100, 1}", "{-100, 2}", true},
		{"ratio of exponentials", "f32", ratio, quotient, "{100, 1}", "{100, 2}", true},
		{"power of an exponential", "f32", powers, power, "{100, 1}", "{0.5, 2}", true},
		{"reassociated bf16", "bf16", halves, other, "{2e30, 2}", "{0.5e-30, 3}", true},
		{"an element beyond f64 says nothing", "f32", product, merged, "{100, 1000}", "{-100, -1000}", true},
		{"nothing but elements beyond f64", "f32", product, merged, "{1000, 1}", "{-1000, 2}", true},
		{"nothing but elements beyond f64, in f16", "f16", productHalf, mergedHalf, "{60000, 1}", "{-60000, 2}", true},
		{"logarithm of an exponential beyond f64", "f32", logarithm, itself, "{2e9, 1}", "{0, 0}", true},
		{"beyond f64, and wrong where it is less", "f32", product, wrongSum, "{1000, 1}", "{1e5, 0}", false},
		{"beyond f64, and wrong where it is less, as a constant", "f32", logarithm, zero, "{2e9, 1}", "{0, 0}", false},
		{"bits of integers", "f32", integers, merged, "{100, 1}", "{-100, 2}", true},
		{"the wrong sign", "f32", product, wrongSum, "{90, 0}", "{3, 0}", false},
		{"one element is wrong without an overflow", "f32", product, wrongSum, "{100, 1}", "{100, 2}", false},
		{"a constant for an infinity", "f32", product, zero, "{100, 0}", "{1, 0}", false},
		{"division by zero", "f32", nothing, zero, "{1, 1}", "{1, 2}", false},
		{"bits of the narrow type", "f32", bits, merged, "{100, 1}", "{-100, 2}", false},
		{"no wider type", "f64", double, doubleOf, "{1000, 1}", "{-1000, 2}", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			after := module(t, text(tt.typ, tt.after))
			trail := &triage.Trail{Before: module(t, text(tt.typ, tt.before)), States: []triage.State{{Module: after, Sum: triage.SumOf(after)}}}
			inputs := [][]*eval.Value{{eval.FromLiteral(literal(t, tt.typ+"[2] "+tt.a)), eval.FromLiteral(literal(t, tt.typ+"[2] "+tt.b))}}
			o := eval.Options{Bounds: true}
			v, err := trail.Validate(context.Background(), inputs, o)
			if err != nil {
				t.Fatal(err)
			}
			s := &v.Steps[0]
			if s.Standing != triage.Guilty || s.Firm == 0 {
				t.Fatalf("%s with %d firm elements before the rule", s.Standing, s.Firm)
			}
			trail.ContestOverflow(context.Background(), v, inputs, o)
			if got := s.Contested == triage.HiddenOverflow && s.Firm == 0; got != tt.contested || s.Standing != triage.Guilty {
				t.Errorf("contested %v (%q, %d firm), want %v", got, s.Contested, s.Firm, tt.contested)
			}
		})
	}
}
