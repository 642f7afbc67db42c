package hlo

import (
	"strconv"
	"strings"
)

// SanitizeName turns a name into one that HLO text can hold: letters, digits,
// `_ . -`, no leading digit, no primitive type's name, no reserved `__`
// prefix. Source: xla/service/name_uniquer.cc, GetSanitizedName.
func SanitizeName(name string) string {
	if name == "" {
		return ""
	}
	b := []byte(name)
	for i, c := range b {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
		if letter || i > 0 && ('0' <= c && c <= '9' || c == '.' || c == '-') {
			continue
		}
		b[i] = '_'
	}
	s := string(b)
	if t, ok := TypeByName(s); ok && t != Tuple && t != Buffer {
		s += "_"
	}
	if strings.HasPrefix(s, "__") && !strings.HasPrefix(s, "__xla_") {
		s = "a" + s[1:]
	}
	return s
}

// nameUniquer hands out unique names: a root and a numeric suffix.
type nameUniquer map[string]*usedSuffixes

type usedSuffixes struct {
	used map[int64]bool
	next int64
}

// unique is xla/service/name_uniquer.cc's GetUniqueName with separator ".":
// a numeric suffix is split off, kept when it is still free, and otherwise
// replaced by the lowest free one; suffix 0 of a name without one is silent.
func (u nameUniquer) unique(name string) string {
	if name == "" {
		name = "name"
	}
	root := SanitizeName(name)
	var suffix int64
	numeric := false
	if i := strings.LastIndexByte(root, '.'); i > 0 && i < len(root)-1 {
		if n, err := strconv.ParseInt(root[i+1:], 10, 64); err == nil {
			root, suffix, numeric = root[:i], n, true
		}
	}
	g := u[root]
	if g == nil {
		g = &usedSuffixes{used: map[int64]bool{}}
		u[root] = g
	}
	if g.used[suffix] {
		for g.used[g.next] {
			g.next++
		}
		suffix = g.next
		g.next++
	}
	g.used[suffix] = true
	if suffix == 0 && !numeric {
		return root
	}
	return root + "." + strconv.FormatInt(suffix, 10)
}

// UniquifyNames gives every computation, and every instruction of the module,
// a valid name of its own, as XLA does when it builds a module from text:
// in the order of Computations and Instructions, first come first served
// (xla/hlo/ir/hlo_module.cc, AddComputationInternal).
func (m *Module) UniquifyNames() {
	comps, instrs := nameUniquer{}, nameUniquer{}
	for _, c := range m.Computations {
		c.Name = comps.unique(c.Name)
		for _, in := range c.Instructions {
			in.Name = instrs.unique(in.Name)
		}
	}
}

// validNames reports whether names are unique and need no sanitizing.
func (m *Module) validNames() bool {
	comps, instrs := map[string]bool{}, map[string]bool{}
	ok := func(seen map[string]bool, n string) bool {
		if n == "" || seen[n] || SanitizeName(n) != n {
			return false
		}
		seen[n] = true
		return true
	}
	for _, c := range m.Computations {
		if !ok(comps, c.Name) {
			return false
		}
		for _, in := range c.Instructions {
			if !ok(instrs, in.Name) {
				return false
			}
		}
	}
	return true
}
