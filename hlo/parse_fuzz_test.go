package hlo

import (
	"errors"
	"strings"
	"testing"
)

// FuzzParse: no text makes Parse panic, hang or eat memory, and what it
// accepts comes back from its own text.
func FuzzParse(f *testing.F) {
	for _, text := range opModules {
		f.Add(text)
		// Line by line too: small texts mutate better.
		for line := range strings.Lines(text) {
			if strings.Contains(line, "=") {
				f.Add("HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n" + line + "}")
			}
		}
	}
	f.Add("f32[2] fusion(f32[2]), kind=kLoop, calls={ ROOT p = f32[2] parameter(0) }")
	f.Add("HloModule m\nENTRY e { t = (f32[2], (s32[])) parameter(0)\n ROOT a = f32[2] add(%t#0, f32[2] negate(%t#0)) }")
	f.Add("HloModule m, input_output_alias={ {}: (0, {}) }, entry_computation_layout={(f32[])->f32[]}\nENTRY e { ROOT p = f32[] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}} }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse("f", []byte(text))
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 || syntax.Column < 1 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q", err)
			}
			return
		}
		for _, print := range []func(*Module) string{(*Module).String, canonicalText} {
			text := print(m)
			if len(text) > 1<<20 {
				return // an array literal that the text gave with one number
			}
			again, err := Parse("f", []byte(text))
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			sameText(t, "fix point", text, print(again))
		}
	})
}
