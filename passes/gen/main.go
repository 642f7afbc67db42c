// Command gen rebuilds the registry from a checkout of XLA:
//
//	go run ./passes/gen registry DIR > passes.tsv.new
//	go run ./passes/gen includes DIR > passes/includes.tsv
//	go run ./passes/gen check DIR
//
// registry prints passes.tsv as the sources are now: files, class and name are
// read from them; opcodes and summary are written by people and are kept for
// classes that the table knows, while a new class gets the opcodes that its
// files name and the first sentence of its comment. includes says which passes
// include which headers: each row is a header and the indices (rows of
// passes.tsv, from 0) of the passes whose own files include it directly. check
// prints where the tables and the sources disagree; exit code 1 if they do.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/passes/source"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen registry|includes|check XLA_CHECKOUT")
		os.Exit(2)
	}
	checkout := os.DirFS(os.Args[2])
	w := bufio.NewWriter(os.Stdout)
	agree, err := true, error(nil)
	switch os.Args[1] {
	case "registry":
		err = registry(w, checkout)
	case "includes":
		err = includes(w, checkout)
	case "check":
		agree, err = check(w, checkout)
	default:
		err = fmt.Errorf("%s: expected registry, includes or check", os.Args[1])
	}
	if err = cmp.Or(err, w.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(2)
	}
	if !agree {
		os.Exit(1)
	}
}

// row is one row of passes.tsv.
type row struct{ files, class, name, opcodes, summary string }

func (r row) String() string {
	return strings.Join([]string{r.files, r.class, r.name, r.opcodes, r.summary}, "\t")
}

// table reads rows as passes.tsv has them; the heading line is not one of them.
func table(text string) []row {
	var out []row
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n")[1:] {
		c := strings.Split(line, "\t")
		out = append(out, row{c[0], c[1], c[2], c[3], c[4]})
	}
	return out
}

const heading = "file\tclass\tpass_name\topcodes\tsummary"

// rebuild merges the table with the classes of a checkout, in the table's order
// and new ones behind. Rows that the sources do not have any more are left out.
func rebuild(old []row, classes []source.Class, checkout fs.FS) (rows []row, notes []string) {
	seen := map[string]bool{}
	where := func(class, file string) string { return class + " " + file }
	byPlace, byClass := map[string]source.Class{}, map[string][]source.Class{}
	for _, c := range classes {
		byPlace[where(c.Name, c.Files[0])] = c
		byClass[c.Name] = append(byClass[c.Name], c)
	}
	for _, r := range old {
		header, _, _ := strings.Cut(r.files, ",")
		c, ok := byPlace[where(r.class, header)]
		if !ok && len(byClass[r.class]) == 1 && !slices.ContainsFunc(old, func(o row) bool { return o != r && o.class == r.class }) {
			c, ok = byClass[r.class][0], true
			notes = append(notes, fmt.Sprintf("%s moved from %s to %s", r.class, header, c.Files[0]))
		}
		if !ok {
			if special(r) && exists(checkout, header) {
				rows = append(rows, r)
				continue
			}
			notes = append(notes, fmt.Sprintf("%s (%s) is gone from %s", r.class, r.name, header))
			continue
		}
		seen[where(c.Name, c.Files[0])] = true
		if files := strings.Join(c.Files, ","); files != r.files {
			if c.Files[0] == header {
				notes = append(notes, fmt.Sprintf("%s: files are %s, the table has %s", r.class, files, r.files))
			}
			r.files = files
		}
		if c.Pass != "" && c.Pass != r.name && !special(r) {
			notes = append(notes, fmt.Sprintf("%s is called %s, the table has %s", r.class, c.Pass, r.name))
			r.name = c.Pass
		}
		rows = append(rows, r)
	}
	for _, c := range classes {
		if seen[where(c.Name, c.Files[0])] {
			continue
		}
		r := row{strings.Join(c.Files, ","), c.Name, c.Pass, strings.Join(c.Opcodes, ","), c.Comment}
		if r.name == "" {
			r.name = "<computed>"
		}
		if r.opcodes == "" {
			r.opcodes = "*"
		}
		notes = append(notes, fmt.Sprintf("%s (%s) in %s is new", r.class, r.name, c.Files[0]))
		rows = append(rows, r)
	}
	return rows, notes
}

// special: the name is computed at run time, has variants, or the row is no
// pass; a person wrote what stands there.
func special(r row) bool { return strings.ContainsAny(r.name, "<|?") }

func exists(checkout fs.FS, file string) bool {
	_, err := fs.Stat(checkout, file)
	return err == nil
}

func registry(w io.Writer, checkout fs.FS) error {
	classes, err := source.Classes(checkout)
	if err != nil {
		return err
	}
	rows, notes := rebuild(table(passes.Table()), classes, checkout)
	fmt.Fprintln(w, heading)
	for _, r := range rows {
		fmt.Fprintln(w, r)
	}
	for _, n := range notes {
		fmt.Fprintln(os.Stderr, "gen:", n)
	}
	return nil
}

func check(w io.Writer, checkout fs.FS) (bool, error) {
	classes, err := source.Classes(checkout)
	if err != nil {
		return false, err
	}
	old := table(passes.Table())
	rows, notes := rebuild(old, classes, checkout)
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
	fmt.Fprintf(w, "%d classes in the sources; of %d rows of passes.tsv %d stand in them, %d disagree\n", len(classes), len(old), len(rows), len(notes))
	return len(notes) == 0, nil
}

func includes(w io.Writer, checkout fs.FS) error {
	users := map[string][]int{}
	for i, p := range passes.All() {
		for _, f := range p.Files {
			text, err := fs.ReadFile(checkout, f)
			if err != nil {
				return err
			}
			for _, h := range source.Includes(text) {
				if !slices.Contains(p.Files, h) && !slices.Contains(users[h], i) {
					users[h] = append(users[h], i)
				}
			}
		}
	}
	fmt.Fprintln(w, "# Code generated by passes/gen. DO NOT EDIT. header, rows of passes.tsv whose files include it")
	var headers []string
	for h := range users {
		headers = append(headers, h)
	}
	slices.Sort(headers)
	for _, h := range headers {
		fmt.Fprintf(w, "%s\t%s\n", h, strings.Trim(strings.ReplaceAll(fmt.Sprint(users[h]), " ", ","), "[]"))
	}
	return nil
}
