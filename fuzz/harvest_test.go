package fuzz

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

type found struct {
	Line int
	Text string
}

func harvestFile(t *testing.T, name, src string) []found {
	t.Helper()
	var got []found
	for m, err := range Harvest(fstest.MapFS{name: {Data: []byte(src)}}) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Path != name {
			t.Errorf("path %q, want %q", m.Path, name)
		}
		got = append(got, found{m.Line, m.Text})
	}
	return got
}

func TestHarvestCpp(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      []found
	}{
		{"plain", "auto s = R\"(ENTRY e {})\";", []found{{1, "ENTRY e {}"}}},
		{"named delimiter", "\nauto s =\n  R\"hlo(ENTRY e {})hlo\";", []found{{3, "ENTRY e {}"}}},
		{"no ENTRY", `R"(HloModule m)" R"(REENTRY e)" R"(ENTRYWAY)"`, nil},
		{"entry at the very end", `R"(ENTRY)"`, []found{{1, "ENTRY"}}},
		{"several per file", "R\"(ENTRY a)\"\nR\"x(ENTRY b)x\"; R\"(no)\"; R\"(\nENTRY c\n)\"\nR\"(ENTRY d)\"",
			[]found{{1, "ENTRY a"}, {2, "ENTRY b"}, {2, "\nENTRY c\n"}, {5, "ENTRY d"}}},
		{"other delimiter inside", `R"a(ENTRY )" )b" )a )a"`, []found{{1, `ENTRY )" )b" )a `}}},
		{"raw string quoted inside a raw string", `R"a(R"(ENTRY)")a"`, []found{{1, `R"(ENTRY)"`}}},
		{"shorter delimiter is a prefix", `R"ab(ENTRY )a" )abc" )ab"`, []found{{1, `ENTRY )a" )abc" `}}},
		{"CRLF kept", "x;\r\nR\"(\r\nENTRY e\r\n)\";\r\n", []found{{2, "\r\nENTRY e\r\n"}}},
		{"encoding prefixes", `u8R"(ENTRY 1)" uR"(ENTRY 2)" UR"(ENTRY 3)" LR"(ENTRY 4)"`,
			[]found{{1, "ENTRY 1"}, {1, "ENTRY 2"}, {1, "ENTRY 3"}, {1, "ENTRY 4"}}},
		{"a macro that ends in R", `FOOR"(ENTRY 1)" STR"(ENTRY 2)"`, nil},
		{"line comment", "// R\"(ENTRY no)\"\nR\"(ENTRY yes)\" // R\"(ENTRY no)\"", []found{{2, "ENTRY yes"}}},
		{"line comment carried on", "// a \\\nR\"(ENTRY no)\"\n// b \\\r\nR\"(ENTRY no)\"\r\nR\"(ENTRY yes)\"", []found{{5, "ENTRY yes"}}},
		{"block comment", "/* R\"(ENTRY no)\"\n */ R\"(ENTRY yes)\"", []found{{2, "ENTRY yes"}}},
		{"block comment without end", `/* R"(ENTRY no)"`, nil},
		{"comment signs inside a raw string", "R\"(// ENTRY a /*)\" R\"(ENTRY b)\"", []found{{1, "// ENTRY a /*"}, {1, "ENTRY b"}}},
		{"apostrophe in a comment", "// don't\nR\"(ENTRY yes)\"", []found{{2, "ENTRY yes"}}},
		{"inside a string", `"R\"(ENTRY no)\"" R"(ENTRY yes)"`, []found{{1, "ENTRY yes"}}},
		{"string ends in a backslash", `"\\" R"(ENTRY yes)"`, []found{{1, "ENTRY yes"}}},
		{"string over two lines", "\"a\\\nb\" R\"(ENTRY 1)\" \"a\\\r\nb\" R\"(ENTRY 2)\"", []found{{2, "ENTRY 1"}, {3, "ENTRY 2"}}},
		{"comment sign in a string", `"http://" R"(ENTRY yes)"`, []found{{1, "ENTRY yes"}}},
		{"quote character", `'"' R"(ENTRY yes)" '\''`, []found{{1, "ENTRY yes"}}},
		{"digit separators", `1'000'000 0x1'FF R"(ENTRY yes)"`, []found{{1, "ENTRY yes"}}},
		{"stray quote costs its line", "#error don't R\"(ENTRY no)\"\nR\"(ENTRY yes)\"", []found{{2, "ENTRY yes"}}},
		{"adjacent literals stay apart", "R\"(HloModule m\n)\" R\"(ENTRY a {)\" \"}\"\nR\"(ENTRY b)\"",
			[]found{{2, "ENTRY a {"}, {3, "ENTRY b"}}},
		{"no end", `R"(ENTRY a)" R"(ENTRY b)`, []found{{1, "ENTRY a"}}},
		{"delimiter of 16", `R"0123456789abcdef(ENTRY a)0123456789abcdef"`, []found{{1, "ENTRY a"}}},
		{"delimiter of 17", `R"0123456789abcdefg(ENTRY a)0123456789abcdefg"`, nil},
		{"no parenthesis", `R"abc" R"(ENTRY a)"`, nil}, // not C++: the quote opens a string
		{"not UTF-8", "R\"(ENTRY \xff\xfe)\"", []found{{1, "ENTRY \xff\xfe"}}},
		{"empty", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, harvestFile(t, "d/a_test.cc", tt.src)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHarvestHLO(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		want      []found
	}{
		{"one", "HloModule m\n", []found{{1, "HloModule m\n"}}},
		{"no ENTRY needed", "add { ROOT p = s32[] parameter(0) }", []found{{1, "add { ROOT p = s32[] parameter(0) }"}}},
		{"split", "// RUN: x\n\n// -----\n\na\n// -----  \nb\n", []found{{4, "\na\n"}, {7, "b\n"}}},
		{"split CRLF", "a\r\n// -----\r\nb\r\n", []found{{1, "a\r\n"}, {3, "b\r\n"}}},
		{"separator last", "a\n// -----", []found{{1, "a\n"}}},
		{"separator first", "// -----\na", []found{{2, "a"}}},
		{"longer rule is a comment", "a\n// ------\nb\n  // -----\nc", []found{{1, "a\n// ------\nb\n  // -----\nc"}}},
		{"comments only", "// RUN: x\n  // y\r\n\n", nil},
		{"block comment counts as content", "/* x */", []found{{1, "/* x */"}}},
		{"empty", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, harvestFile(t, "a.hlo", tt.src)); d != "" {
				t.Error(d)
			}
		})
	}
}

// unreadable fails to open, read or list one name.
type unreadable struct {
	fstest.MapFS
	name string
}

func (u unreadable) Open(name string) (fs.File, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return u.MapFS.Open(name)
}

func (u unreadable) ReadFile(name string) ([]byte, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return u.MapFS.ReadFile(name)
}

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return u.MapFS.ReadDir(name)
}

func TestHarvestTree(t *testing.T) {
	tree := fstest.MapFS{
		"b/z_test.cc":     {Data: []byte(`R"(ENTRY z)"`)},
		"b/a.hlo":         {Data: []byte("a\n// -----\nb")},
		"a/x_test.cc":     {Data: []byte(`R"(ENTRY x)"`)},
		"a/x.cc":          {Data: []byte(`R"(ENTRY not a test)"`)},
		"a/x_test.cc.bak": {Data: []byte(`R"(ENTRY not a test)"`)},
		"a/a.hlo.txt":     {Data: []byte("no")},
		"a/link.hlo":      {Data: []byte("a"), Mode: fs.ModeSymlink},
		"c/dir.hlo/q.hlo": {Data: []byte("q")},
	}
	for _, tt := range []struct {
		name string
		fsys fs.FS
		want []string
		fail string
	}{
		{"all", tree, []string{"a/x_test.cc:1", "b/a.hlo:1", "b/a.hlo:3", "b/z_test.cc:1", "c/dir.hlo/q.hlo:1"}, ""},
		{"unreadable file", unreadable{tree, "a/x_test.cc"}, []string{"b/a.hlo:1", "b/a.hlo:3", "b/z_test.cc:1", "c/dir.hlo/q.hlo:1"}, "a/x_test.cc"},
		{"unreadable directory", unreadable{tree, "b"}, []string{"a/x_test.cc:1", "c/dir.hlo/q.hlo:1"}, "b"},
		{"missing root", os.DirFS(filepath.Join(t.TempDir(), "none")), nil, "."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got, failed []string
			for m, err := range Harvest(tt.fsys) {
				if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
					failed = append(failed, pe.Path)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, m.Path+":"+string(rune('0'+m.Line)))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if strings.Join(failed, " ") != tt.fail {
				t.Errorf("unreadable: %q, want %q", failed, tt.fail)
			}
		})
	}
}

// TestHarvestStops checks that the consumer can leave at any point.
func TestHarvestStops(t *testing.T) {
	tree := unreadable{fstest.MapFS{
		"a.hlo":     {Data: []byte("a")},
		"b.hlo":     {Data: []byte("b\n// -----\nb")},
		"c_test.cc": {Data: []byte(`R"(ENTRY 1)" R"(ENTRY 2)"`)},
	}, "a.hlo"}
	for stop := range 5 {
		n := 0
		for range Harvest(tree) {
			if n++; n > stop {
				break
			}
		}
		if n != stop+1 {
			t.Errorf("left after %d, want %d", n, stop+1)
		}
	}
}

func FuzzHarvest(f *testing.F) {
	f.Add(`// x` + "\n" + `auto a = R"h(ENTRY e {})h" "b\"" 'c' 1'0 /* R"(ENTRY)" */;`)
	f.Add("a\r\n// -----\r\nb")
	f.Add(`R"(ENTRY`)
	f.Add(`u8R"x(ENTRY)x"`)
	f.Add("\"\\")
	f.Fuzz(func(t *testing.T, src string) {
		for _, name := range []string{"a_test.cc", "a.hlo"} {
			line, from := 1, 0
			for m, err := range Harvest(fstest.MapFS{name: {Data: []byte(src)}}) {
				if err != nil {
					t.Fatal(err)
				}
				// Each text stands in the source, after the one before, where its line says.
				at := strings.Index(src[from:], m.Text)
				if at < 0 {
					t.Fatalf("%s: %q is not in the rest of the source", name, m.Text)
				}
				if m.Line < line || m.Line > 1+strings.Count(src, "\n") {
					t.Fatalf("%s: line %d after line %d", name, m.Line, line)
				}
				line, from = m.Line, from+at+len(m.Text)
			}
		}
		// A raw string is found whatever stands before it on lines of its own, in code state.
		if lead := strings.Count(src, "\n"); !strings.ContainsAny(src, `"'/\`) {
			got := harvestFile(t, "a_test.cc", src+"\n;R\"zq(ENTRY)zq\"")
			if len(got) != 1 || got[0] != (found{lead + 2, "ENTRY"}) {
				t.Fatalf("after %q: %v", src, got)
			}
		}
	})
}
