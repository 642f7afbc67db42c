package hlo

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// TestSyntaxErrors: bad text gets one line with its place and what was
// expected there.
func TestSyntaxErrors(t *testing.T) {
	body := func(s string) string { return "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n" + s + "\n}" }
	for _, c := range []struct{ text, want string }{
		{"", "f:1:1: expected an instruction name, found the end of the text"},
		{"HloModule", "f:1:10: expected a module name, found the end of the text"},
		{"HloModule m, nope=1\n", "f:1:14: a module has no attribute nope"},
		{"HloModule m\nENTRY e {", "f:2:10: expected an instruction name, found the end of the text"},
		{"HloModule m\n/* no end", "f:2:1: expected a computation name: unterminated comment"},
		{body("ROOT q = f32[4] frobnicate(p)"), `f:4:17: expected an opcode, found "frobnicate"`},
		{body("ROOT q = f32[4] copy-update(p)"), `f:4:17: expected an opcode, found "copy-update"`},
		{body("ROOT q = f32[4] negate(r)"), "f:4:24: instruction r does not exist"},
		{body("ROOT q = f32[4] negate(f32[5] p)"), "f:4:31: shape f32[5]{0} of the operand is not that of p, f32[4]{0}"},
		{body("ROOT q = f32[4] add(p)"), "f:4:20: add expects 2 operands, found 1"},
		{body("ROOT q = f32[4] negate(p), dimensions={0}"), "f:4:28: negate has no attribute dimensions (it has only the common ones)"},
		{body("ROOT q = f32[4] broadcast(p), dimensions={0}, dimensions={0}"), "f:4:47: attribute dimensions already exists"},
		{body("ROOT q = f32[4] reverse(p)"), "f:4:6: reverse needs attribute dimensions"},
		{body("ROOT q = convert(p)"), "f:4:10: expected a shape before convert, which has none by itself"},
		{body("ROOT q = f32[4] call(p), to_apply=g"), "f:4:35: computation g does not exist"},
		{body("ROOT q = f32[4 negate(p)"), `f:4:16: expected ']' at the end of dimension sizes, found "negate"`},
		{body("ROOT q = f32[-4] negate(p)"), "f:4:14: expected a dimension size, found -4"},
		{body("ROOT q = f32[4]{1,0} negate(p)"), "f:4:16: expected a layout of 1 dimensions, found one of 2"},
		{body("ROOT q = f32[2] constant({1, 2, 3})"), "f:4:33: expected 2 elements in dimension 0 of f32[2]{0}, found more"},
		{body("ROOT q = f32[2] constant({1})"), "f:4:28: expected 2 elements in dimension 0 of f32[2]{0}, found 1"},
		{body("ROOT q = f32[2,2] constant({1, 2, 3, 4})"), "f:4:29: expected 2 levels of braces for f32[2,2]{1,0}, found 1"},
		{body("ROOT q = f32[2] constant({...})"), "f:4:27: " + elided},
		{body("ROOT q = f32[2,2] constant({...})"), "f:4:29: " + elided},
		{body("ROOT q = u8[] constant(256)"), "f:4:24: value 256 is out of range for u8"},
		{body("ROOT q = s8[] constant(1.5)"), `f:4:24: expected an integer of type s8, found "1.5"`},
		{body("ROOT q = f16[] constant(65520)"), "f:4:25: value 65520 is out of range for f16"},
		{body("ROOT q = f32[] constant(1e39)"), "f:4:25: value 1e+39 is out of range for f32"},
		{body("ROOT q = f64[] constant(1e999)"), "f:4:25: expected a number of type f64: constant 1e999 is out of range for f64"},
		{body("ROOT q = bf16[] constant(nan(0x80))"), "f:4:26: NaN payload 0x80 is out of range for bf16"},
		{body("ROOT q = f8e4m3fn[] constant(nan(0x1))"), "f:4:30: f8e4m3fn has no NaN payloads"},
		{body("ROOT q = pred[] compare(p, p), direction=XX"), `f:4:42: expected a comparison direction (EQ, NE, GE, GT, LE, LT), found "XX"`},
		{body("__x = f32[4] negate(p)"), `f:4:1: "__x" is no valid instruction name ("a_x" is)`},
		{body("p = f32[4] negate(p)"), "f:4:1: instruction p already exists"},
		{body("q = f32[4] parameter(0)"), "f:4:22: parameter 0 already exists"},
		{body("q = f32[4] parameter(2)"), "f:5:2: computation e has 2 parameters but no parameter(1)"},
		{body("ROOT q = f32[4] negate(p)\nROOT r = f32[4] negate(p)"), "f:5:1: expected only one ROOT in a computation"},
		{body("q = f32[4] negate(p), metadata={op_name=\"\\377\"}"), "f:4:41: expected valid UTF-8 for op_name"},
		{body("q = f32[4] negate(p), sharding={devices=[2,2]0,1,2}"), "f:4:33: a sharding of 4 tiles has 3 devices"},
		{body("q = f32[4] negate(p), control-predecessors={x}"), "f:4:45: instruction x does not exist"},
		{body("q = f32[4] negate(p), backend_config={{"), "f:4:38: expected a JSON object that ends, found \"{\""},
		{body("q = f32[3] reshape(p)"), "f:4:1: reshape from f32[4]{0} to f32[3]{0} changes the number of elements"},
		{body("q = add(p, constant)"), "f:4:12: instruction constant does not exist"},
		{body("q = f32[4] negate(p) ROOT"), `f:5:1: expected an instruction name, found "}"`},
		{body("t = (f32[4], f32[4]) tuple(p, p)\n q = f32[4] negate(%t#2)"), "f:5:23: t of shape (f32[4]{0}, f32[4]{0}) has no element 2"},
		{body("q = f32[4] negate(%p#0)"), "f:4:22: p of shape f32[4]{0} has no element 0"},
		{"f { ROOT p = f32[] parameter(0) }\nf { ROOT p = f32[] parameter(0) }", "f:2:1: computation f already exists"},
		{"ENTRY f { ROOT p = f32[] parameter(0) }\nENTRY g { ROOT p = f32[] parameter(0) }", "f:2:1: expected only one ENTRY"},
		{"f (p: f32[]) -> f32[2] { ROOT p = f32[] parameter(0) }", "f:1:3: expected '=' behind an instruction name, found \"(\""},
		{"ENTRY f (p: f32[]) -> f32[2] { ROOT p = f32[] parameter(0) }",
			"f:1:23: result shape f32[2]{0} of computation f is not that of its root p, f32[]"},
	} {
		_, err := Parse("f", []byte(c.text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestHostileText: texts that would take much more memory or time than they
// are long are refused, soon.
func TestHostileText(t *testing.T) {
	module := func(s string) string { return "HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n" + s + "\n}" }
	for name, c := range map[string]struct{ text, want string }{
		"deep shape":        {module("q = " + strings.Repeat("(", 1<<20)), "nesting is deeper"},
		"deep operands":     {module("q = " + strings.Repeat("negate(", 1<<18)), "nesting is deeper"},
		"deep computations": {module(strings.Repeat("q = f32[] call(), to_apply={", 1<<16)), "nesting is deeper"},
		"deep literal":      {module("q = f32[2] constant(" + strings.Repeat("{", 1<<20)), "levels of braces"},
		"large literal":     {module("q = f32[1000000000000] constant({1})"), "found the text to end before"},
		"overflow":          {module("q = f32[4294967296,4294967296,4294967296] constant({{{1}}})"), "found the text to end before"},
		"scalar literal":    {module("q = f32[4294967296] constant(1)"), "names too few"},
		"many literals":     {module(numbered("qN = f32[3000000] constant(1)\n", 20)), "names too few"},
		"doubling tuples":   {module("t0 = tuple(p, p)\n" + numbered("tM = tuple(tN, tN)\n", 60)), "too large"},
		"huge iota":         {module("q = f32[2] negate(p), sharding={devices=[4611686018427387904,1,2]<=[2,4611686018427387904]T(1,0) last_tile_dim_replicate}"), "out of range"},
		"listed iota":       {module("q = f32[2] negate(p), sharding={devices=[3,5,1048576]<=[1048576,15]T(1,0) last_tile_dim_replicate}"), "not supported"},
		"many shardings": {module("q = (" + strings.Repeat("f32[], ", 4000) + "f32[]) custom-call(), custom_call_target=\"x\", sharding={devices=[4000]" +
			strings.Repeat("1,", 3999) + "1}"), "too large"},
		"deep tuple path": {module("q = " + strings.Repeat("(", 4000) + "f32[]" + strings.Repeat(")", 4000) +
			" custom-call(), custom_call_target=\"x\"\n r = f32[] negate(%q" + strings.Repeat("#0", 4000) + ")"), "too large"},
		"rank":         {module("q = f32[" + strings.Repeat("1,", 1<<18) + "1] iota(), iota_dimension=0"), "more than 1024 dimensions"},
		"unterminated": {module("q = f32[2] negate(p), backend_config=\"" + strings.Repeat("x", 1<<20)), "unterminated string"},
	} {
		_, err := Parse("f", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.300v, want %s", name, err, c.want)
		}
	}
}

// numbered repeats a line with N = 0, 1, ... and M = N+1.
func numbered(line string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.NewReplacer("N", strconv.Itoa(i), "M", strconv.Itoa(i+1)).Replace(line))
	}
	return b.String()
}
