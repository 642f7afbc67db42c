package fuzz

import (
	"fmt"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"strings"
)

// Module is HLO text found in a source tree. Nothing says that it parses: the
// text may be a template, a FileCheck pattern, or a piece of a module that its
// test puts together.
type Module struct {
	// Path is the slash-separated path of the file inside the tree.
	Path string
	// Line is the 1-based line on which the text's literal (for a .hlo file:
	// the text) begins.
	Line int
	// Text is the module, byte for byte as it stands in the file.
	Text string
}

// Harvest yields the HLO modules of the C++ tests and HLO files in a tree, in
// path order and, inside a file, in text order:
//
//   - in `*_test.cc`, each raw string literal that holds the word ENTRY,
//     whatever its delimiter and encoding prefix. Adjacent literals are not
//     joined, and text in comments or in other literals is not looked at;
//   - in `*.hlo`, the whole file, or, where lines hold just `// -----` (the
//     separator of xla/hlo/tools/hlo_opt/opt_main.cc), each piece between them.
//     A piece without anything but blanks and `//` comments is left out.
//
// Modules that occur several times are yielded each time: the path tells which
// test each belongs to. Only regular files are read; a symbolic link in a tree
// that somebody else wrote may point anywhere.
//
// A file or directory that cannot be read yields its error, with an empty
// module, and the harvest goes on with the next one.
func Harvest(fsys fs.FS) iter.Seq2[Module, error] {
	return func(yield func(Module, error) bool) {
		err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				if !yield(Module{}, fmt.Errorf("harvest: %w", err)) {
					return fs.SkipAll
				}
				return nil // WalkDir leaves an unreadable directory by itself
			}
			texts := textsOf(p)
			if texts == nil || !d.Type().IsRegular() {
				return nil
			}
			src, err := fs.ReadFile(fsys, p)
			if err != nil {
				if !yield(Module{}, fmt.Errorf("harvest: %w", err)) {
					return fs.SkipAll
				}
				return nil
			}
			for line, text := range texts(string(src)) {
				if !yield(Module{p, line, text}, nil) {
					return fs.SkipAll
				}
			}
			return nil
		})
		if err != nil {
			panic(err) // the function above returns no other error
		}
	}
}

// Modules yields the line and text of each HLO module in the text of one file,
// by the rules of Harvest; nothing for a file that is no test and no .hlo file.
func Modules(name, src string) iter.Seq2[int, string] {
	texts := textsOf(name)
	if texts == nil {
		return func(func(int, string) bool) {}
	}
	return texts(src)
}

// textsOf is the extractor for a file name: source text to lines and modules.
func textsOf(p string) func(string) iter.Seq2[int, string] {
	switch {
	case strings.HasSuffix(p, "_test.cc"):
		return func(src string) iter.Seq2[int, string] {
			return func(yield func(int, string) bool) {
				for line, text := range rawStrings(src) {
					if entryWord.MatchString(text) && !yield(line, text) {
						return
					}
				}
			}
		}
	case path.Ext(p) == ".hlo":
		return hloPieces
	}
	return nil
}

var (
	entryWord = regexp.MustCompile(`\bENTRY\b`)
	separator = regexp.MustCompile(`(?m)^// -----[ \t\r]*$`)
	// content is a line with something outside a line comment.
	content = regexp.MustCompile(`(?m)^[ \t\r]*([^ \t\r\n/]|/[^/]|/$)`)
)

// hloPieces yields the line and text of each module of a .hlo file.
func hloPieces(src string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		line := 1
		for src != "" {
			piece, rest := src, ""
			if at := separator.FindStringIndex(src); at != nil {
				piece, rest = src[:at[0]], strings.TrimPrefix(src[at[1]:], "\n")
			}
			if content.MatchString(piece) && !yield(line, piece) {
				return
			}
			line += strings.Count(src[:len(src)-len(rest)], "\n")
			src = rest
		}
	}
}

// rawStrings yields the line and content of each raw string literal of C++
// source text ([lex.string]): it skips comments, string and character literals
// and digit separators. A raw string that never ends is not yielded.
func rawStrings(src string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		line, counted := 1, 0
		for i := 0; i < len(src); {
			rest := src[i:]
			switch c := src[i]; {
			case strings.HasPrefix(rest, "//"):
				i += lineCommentLen(rest)
			case strings.HasPrefix(rest, "/*"):
				end := strings.Index(rest[2:], "*/")
				if end < 0 {
					return
				}
				i += 2 + end + 2
			case c == '"' || c == '\'':
				i += quotedLen(rest)
			case c >= '0' && c <= '9':
				i += numberLen(rest)
			case isWordByte(c):
				word := rest[:wordLen(rest)]
				i += len(word)
				if i == len(src) || src[i] != '"' || !isRawPrefix(word) {
					continue
				}
				body, n, ok := rawString(src[i:])
				if !ok {
					i++ // the quote: no raw string starts here
					continue
				}
				if n < 0 {
					return
				}
				line += strings.Count(src[counted:i], "\n")
				counted = i
				if !yield(line, body) {
					return
				}
				i += n
			default:
				i++
			}
		}
	}
}

func isRawPrefix(word string) bool {
	switch word {
	case "R", "u8R", "uR", "UR", "LR":
		return true
	}
	return false
}

// rawString reads a raw string from its opening quote: content and length in
// bytes, quotes included; -1 when it has no end. It is not ok when the text
// after the quote is no delimiter and parenthesis.
func rawString(s string) (body string, n int, ok bool) {
	const maxDelimiter = 16 // [lex.string]
	open := strings.IndexAny(s[1:], " ()\\\"\t\v\f\r\n")
	if open < 0 || open > maxDelimiter || s[1+open] != '(' {
		return "", 0, false
	}
	start := 1 + open + 1
	closing := ")" + s[1:1+open] + `"`
	end := strings.Index(s[start:], closing)
	if end < 0 {
		return "", -1, true
	}
	return s[start : start+end], start + end + len(closing), true
}

// lineCommentLen is the length of the comment up to its newline; a backslash
// before the newline carries it on.
func lineCommentLen(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '\n' && !strings.HasSuffix(strings.TrimSuffix(s[:i], "\r"), `\`) {
			return i
		}
	}
	return len(s)
}

// quotedLen is the length of a string or character literal from its opening
// quote. It ends at the line's end at the latest, so that a stray quote (in an
// #error line, say) costs one line.
func quotedLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			if strings.HasPrefix(s[min(i, len(s)):], "\r\n") {
				i++
			}
		case '\n':
			return i
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}

// numberLen is the length of a number with its digit separators (1'000).
func numberLen(s string) int {
	i := 1
	for i < len(s) && (isWordByte(s[i]) || s[i] == '.' ||
		s[i] == '\'' && i+1 < len(s) && isWordByte(s[i+1])) {
		i++
	}
	return i
}

func wordLen(s string) int {
	i := 0
	for i < len(s) && isWordByte(s[i]) {
		i++
	}
	return i
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
