package passes

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// DiffError is a malformed unified diff.
type DiffError struct {
	File string
	Line int
	Want string
}

func (e *DiffError) Error() string { return fmt.Sprintf("%s:%d:1: want %s", e.File, e.Line, e.Want) }

// ParseDiff reads a unified diff (git's or plain) and returns the changed
// files, old and new name of a rename both. The name is used in errors. A
// diff without any file is an error: an empty change is more likely a mistake
// of the caller than a change.
func ParseDiff(name string, r io.Reader) ([]Change, error) {
	var out []Change
	index := map[string]int{}
	touch := func(file string) *Change {
		i, ok := index[file]
		if !ok {
			i = len(out)
			index[file] = i
			out = append(out, Change{File: file})
		}
		return &out[i]
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 64<<20)
	var cur *Change
	var oldLeft, newLeft int
	line := 0
	for sc.Scan() {
		line++
		text := sc.Text()
		if oldLeft > 0 || newLeft > 0 {
			switch {
			case strings.HasPrefix(text, "+"):
				newLeft--
				cur.Lines = append(cur.Lines, text[1:])
			case strings.HasPrefix(text, "-"):
				oldLeft--
				cur.Lines = append(cur.Lines, text[1:])
			case strings.HasPrefix(text, " ") || text == "":
				oldLeft--
				newLeft--
			case strings.HasPrefix(text, `\`):
			default:
				return nil, &DiffError{name, line, "a line of the hunk: '+', '-' or ' ' first"}
			}
			if oldLeft < 0 || newLeft < 0 {
				return nil, &DiffError{name, line, "as many lines as the hunk header says"}
			}
			continue
		}
		switch {
		case strings.HasPrefix(text, "diff --git "):
			cur = nil
		case strings.HasPrefix(text, "--- "), strings.HasPrefix(text, "+++ "):
			if f := diffPath(text[4:]); f != "" {
				touch(f)
				cur = &out[index[f]]
			}
		case strings.HasPrefix(text, "rename from "), strings.HasPrefix(text, "copy from "):
			touch(text[strings.Index(text, "from ")+5:])
		case strings.HasPrefix(text, "rename to "), strings.HasPrefix(text, "copy to "):
			touch(text[strings.Index(text, "to ")+3:])
		case strings.HasPrefix(text, "Binary files "):
			if a, b, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "Binary files "), " differ"), " and "); ok {
				for _, f := range []string{diffPath(a), diffPath(b)} {
					if f != "" {
						touch(f)
					}
				}
			}
		case strings.HasPrefix(text, "@@ "):
			if cur == nil {
				return nil, &DiffError{name, line, "'---' and '+++' lines before a hunk"}
			}
			var ok bool
			if oldLeft, newLeft, ok = hunkHeader(text); !ok {
				return nil, &DiffError{name, line, "a hunk header '@@ -l,s +l,s @@'"}
			}
			if _, context, ok := strings.Cut(text[3:], " @@ "); ok {
				cur.Lines = append(cur.Lines, context)
			}
		}
	}
	if err := sc.Err(); err != nil {
		return nil, &DiffError{name, line + 1, "lines under 64 MiB"}
	}
	if oldLeft > 0 || newLeft > 0 {
		return nil, &DiffError{name, line + 1, "the rest of the hunk"}
	}
	if len(out) == 0 {
		return nil, &DiffError{name, line + 1, "a unified diff with at least one file"}
	}
	return out, nil
}

// diffPath is the file name of a ---/+++ line: without a/ or b/, without a
// timestamp, unquoted; "" for /dev/null.
func diffPath(s string) string {
	if q, err := strconv.Unquote(s); err == nil {
		s = q
	}
	s, _, _ = strings.Cut(s, "\t")
	if s == "/dev/null" {
		return ""
	}
	if rest, ok := strings.CutPrefix(s, "a/"); ok {
		return rest
	}
	return strings.TrimPrefix(s, "b/")
}

// hunkHeader parses "@@ -l[,s] +l[,s] @@".
func hunkHeader(s string) (old, new int, ok bool) {
	f := strings.Fields(s)
	if len(f) < 4 || f[3] != "@@" || !strings.HasPrefix(f[1], "-") || !strings.HasPrefix(f[2], "+") {
		return 0, 0, false
	}
	count := func(r string) (int, bool) {
		_, n, has := strings.Cut(r[1:], ",")
		if !has {
			return 1, true
		}
		v, err := strconv.Atoi(n)
		return v, err == nil && v >= 0
	}
	old, ok1 := count(f[1])
	new, ok2 := count(f[2])
	return old, new, ok1 && ok2
}

// ParseFileList reads one changed file per line; blank lines and lines that
// start with '#' are skipped. An empty list is an error.
func ParseFileList(name string, r io.Reader) ([]Change, error) {
	var out []Change
	sc := bufio.NewScanner(r)
	line := 0
	for sc.Scan() {
		line++
		f := strings.TrimSpace(sc.Text())
		if f == "" || strings.HasPrefix(f, "#") {
			continue
		}
		out = append(out, Change{File: strings.TrimPrefix(f, "./")})
	}
	if err := sc.Err(); err != nil {
		return nil, &DiffError{name, line + 1, "one file name per line"}
	}
	if len(out) == 0 {
		return nil, &DiffError{name, line + 1, "at least one file name"}
	}
	return out, nil
}
