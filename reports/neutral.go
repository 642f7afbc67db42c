package reports

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible makes control characters, bidirectional controls and other invisible
// characters visible as escapes, so that text reads as it is. Tabs stay; line
// feeds stay if lines is set. The bidi controls are those of UAX #9, section 2.
func visible(s string, lines bool) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\t' || r == '\n' && lines:
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain matches text that Markdown and GitHub leave alone: no mark-up, no
// mention, no issue reference. An underscore inside a word emphasises nothing
// (CommonMark 0.31, 6.2).
var plain = regexp.MustCompile(`^([A-Za-z0-9 ,.;:()%/+'={}-]|\b[A-Za-z0-9]+(_[A-Za-z0-9]+)+\b)*$`)

// link matches what GitHub turns into a link by itself, and commit hashes.
var link = regexp.MustCompile(`(?i)://|www\.|[0-9a-f]{7,40}|\bgh-\d`)

// inline makes one line of Markdown out of any text: as it is if it is
// harmless, else as a code span, in which GitHub resolves neither mentions nor
// links nor HTML. Pipes are escaped for tables.
func inline(s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(visible(strings.ReplaceAll(s, "\n", " "), false), "\t", " "))
	if s == "" {
		return ""
	}
	if plain.MatchString(s) && !link.MatchString(s) {
		return s
	}
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	pad := ""
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		pad = " "
	}
	return fence + pad + strings.ReplaceAll(s, "|", `\|`) + pad + fence
}

// fenced makes a code block out of any text. The fence is longer than any run
// of back-ticks inside.
func fenced(language, s string) string {
	fence := strings.Repeat("`", max(3, longestRun(s, '`')+1))
	s = strings.TrimRight(visible(strings.ReplaceAll(s, "\r\n", "\n"), true), "\n")
	return fence + language + "\n" + s + "\n" + fence + "\n"
}

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] == c {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	return longest
}

// clip cuts text to at most n bytes at a line end, or a rune boundary if a
// single line is longer, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := strings.LastIndexByte(s[:n], '\n')
	if cut <= 0 {
		for cut = n; cut > 0 && !utf8.RuneStart(s[cut]); cut-- {
		}
	}
	return s[:cut] + fmt.Sprintf("\n... (%d more bytes)", len(s)-cut)
}

// Neutral is foreign text on one line, with nothing invisible in it and at most
// n bytes.
func Neutral(s string, n int) string {
	s = strings.TrimSpace(visible(strings.Join(strings.Fields(s), " "), false))
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n-3], "") + "..."
	}
	return s
}
