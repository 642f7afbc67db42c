package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/passgate/passgate/hlo"
)

func TestLosses(t *testing.T) {
	const text = "HloModule m, num_partitions=2\nENTRY e {\n  ROOT p = f32[2]{0} parameter(0)\n}\n"
	serialized := func(text string) []byte {
		m, err := hlo.Parse("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		b, err := hlo.MarshalModule(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	same, other := serialized(text), serialized(strings.Replace(text, "f32[2]{0}", "f32[3]{0}", 1))
	for _, tt := range []struct {
		name         string
		text         string
		ours, theirs []byte
		want         []string
	}{
		{"nothing lost", text, same, same, nil},
		{"no answer of XLA", text, same, nil, nil},
		{"another proto", text, other, other, []string{"text -> module -> proto -> module -> text"}},
		{"not a proto", text, same, []byte("x"), []string{"XLA's proto -> module -> proto", "XLA's proto -> module -> text -> module -> proto"}},
		{"not a module", "x", same, same, []string{"text -> module -> proto -> module -> text", "text -> module -> text -> module -> text"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := slices.Sorted(maps.Keys(losses(tt.text, tt.ours, tt.theirs))); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if d, err := diffProtos(mustParse(t, text), other); err != nil || !strings.Contains(d, "dimensions: now `2`, was `3`") {
		t.Errorf("%q, %v", d, err)
	}
}

func mustParse(t *testing.T, text string) *hlo.Module {
	m, err := hlo.Parse("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGuarded(t *testing.T) {
	if _, err := guarded(func() (string, error) { panic("boom") }); err == nil || err.Error() != "panic: boom" {
		t.Errorf("%v", err)
	}
}

func TestDiffText(t *testing.T) {
	for _, tt := range []struct{ now, before, want string }{
		{"a\nb", "a\nb", ""},
		{"a\nb", "a\nc", "line 2: now `b`, was `c`"},
		{"a", "a\nc", "line 2: now none, was `c`"},
		{strings.Repeat("x", 50) + "1", strings.Repeat("x", 50) + "2", "line 1: now `" + strings.Repeat("x", 40) + "1`, was `" + strings.Repeat("x", 40) + "2`"},
	} {
		if got := diffText(tt.now, tt.before); got != tt.want {
			t.Errorf("%q against %q: %q, want %q", tt.now, tt.before, got, tt.want)
		}
	}
}
