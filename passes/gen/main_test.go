package main

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/passes/source"
)

func TestRebuild(t *testing.T) {
	old := []row{
		{"xla/a.h,xla/a.cc", "Kept", "kept", "*,dot", "By a person [in: cpu]"},
		{"xla/old.h", "Moved", "moved", "add", "M"},
		{"xla/b.h", "Renamed", "old-name", "add", "R"},
		{"xla/c.h", "Gone", "gone", "add", "G"},
		{"xla/d.h", "Variants", "one|two", "add", "V"},
		{"xla/e.h", "NoPass", "no-pass?", "add", "N"},
		{"xla/missing.h", "NoFile", "no-file?", "add", "N"},
		{"xla/cpu/f.h", "Twice", "twice", "add", "on CPU"},
		{"xla/gpu/f.h", "Twice", "twice", "add", "on GPU"},
	}
	classes := []source.Class{
		{Name: "Kept", Files: []string{"xla/a.h"}, Pass: "kept", Opcodes: []string{"pad"}},
		{Name: "Renamed", Files: []string{"xla/b.h"}, Pass: "new-name"},
		{Name: "Twice", Files: []string{"xla/cpu/f.h"}, Pass: "twice"},
		{Name: "Variants", Files: []string{"xla/d.h"}},
		{Name: "Fresh", Files: []string{"xla/g.h", "xla/g.cc"}, Pass: "fresh", Opcodes: []string{"sort", "add"}, Comment: "Sorts"},
		{Name: "Nameless", Files: []string{"xla/h.h"}},
		{Name: "Moved", Files: []string{"xla/new.h"}, Pass: "moved"},
	}
	rows, notes := rebuild(old, classes, fstest.MapFS{"xla/e.h": {}})
	if d := cmp.Diff([]row{
		{"xla/a.h", "Kept", "kept", "*,dot", "By a person [in: cpu]"},
		{"xla/new.h", "Moved", "moved", "add", "M"},
		{"xla/b.h", "Renamed", "new-name", "add", "R"},
		{"xla/d.h", "Variants", "one|two", "add", "V"},
		{"xla/e.h", "NoPass", "no-pass?", "add", "N"},
		{"xla/cpu/f.h", "Twice", "twice", "add", "on CPU"},
		{"xla/g.h,xla/g.cc", "Fresh", "fresh", "sort,add", "Sorts"},
		{"xla/h.h", "Nameless", "<computed>", "*", ""},
	}, rows, cmp.AllowUnexported(row{})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{
		"Kept: files are xla/a.h, the table has xla/a.h,xla/a.cc",
		"Moved moved from xla/old.h to xla/new.h",
		"Renamed is called new-name, the table has old-name",
		"Gone (gone) is gone from xla/c.h",
		"NoFile (no-file?) is gone from xla/missing.h",
		"Twice (twice) is gone from xla/gpu/f.h",
		"Fresh (fresh) in xla/g.h is new",
		"Nameless (<computed>) in xla/h.h is new",
	}, notes); d != "" {
		t.Error(d)
	}
}

// The embedded table goes through the reader unchanged.
func TestTable(t *testing.T) {
	rows := table(passes.Table())
	text := heading + "\n"
	for _, r := range rows {
		text += r.String() + "\n"
	}
	if text != passes.Table() {
		t.Error(cmp.Diff(passes.Table(), text))
	}
}
