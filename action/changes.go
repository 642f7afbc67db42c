package action

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/passgate/passgate/passes"
)

// Git reads the checkout.
type Git interface {
	// Diff is the unified diff from base to head.
	Diff(ctx context.Context, base, head string) ([]byte, error)
}

// Change is what an event changed.
type Change struct {
	// Files are the changed files, in names relative to XLA's source tree.
	Files []passes.Change
	// Known is false if nobody could say what changed, or the event changes
	// nothing: every pass counts.
	Known bool
	// Source says where the list came from, in one sentence.
	Source string
	// Lines are the added lines of each file by its name in the repository.
	Lines map[string][]Line
	// names in the repository by names in XLA's source tree
	names map[string]string
}

// Line is an added line.
type Line struct {
	Number int
	Text   string
}

// Changed finds out what an event changed: from GitHub's list, and from git if
// the list is cut or cannot be had. root is the folder of XLA's source tree in
// the repository, "" for the repository itself; files outside of it are left
// out.
func Changed(ctx context.Context, e *Event, gh GitHub, git Git, root string) Change {
	if e.Base == "" {
		return Change{Source: fmt.Sprintf("%s names no change: no pass is in focus", e.Kind)}
	}
	var why string
	if gh != nil {
		files, complete, err := list(ctx, e, gh)
		switch {
		case err != nil:
			why = fmt.Sprintf("GitHub's list of files cannot be had (%v)", err)
		case !complete:
			why = fmt.Sprintf("GitHub lists only %d files", len(files))
		default:
			return change(files, root, fmt.Sprintf("%d changed %s, from GitHub", len(files), plural(len(files), "file", "files")))
		}
	} else {
		why = "there is no token"
	}
	diff, err := git.Diff(ctx, e.Base, e.Head)
	if err != nil {
		return Change{Source: fmt.Sprintf("what changed is unknown: %s, and git says: %v; no pass is in focus", why, err)}
	}
	files, err := splitDiff(diff)
	if err != nil {
		return Change{Source: fmt.Sprintf("what changed is unknown: %s, and git's diff is unreadable: %v; no pass is in focus", why, err)}
	}
	return change(files, root, fmt.Sprintf("%d changed %s, from git: %s", len(files), plural(len(files), "file", "files"), why))
}

func list(ctx context.Context, e *Event, gh GitHub) ([]ChangedFile, bool, error) {
	if e.Kind == PullRequest {
		return gh.PullFiles(ctx, e.Number)
	}
	return gh.Compare(ctx, e.Base, e.Head)
}

func change(files []ChangedFile, root, source string) Change {
	c := Change{Known: true, Source: source, Lines: map[string][]Line{}, names: map[string]string{}}
	outside := 0
	for _, f := range files {
		var lines []string
		if parsed, err := passes.ParseDiff(f.Name, strings.NewReader("--- a/x\n+++ b/x\n"+f.Patch+"\n")); err == nil {
			lines = parsed[0].Lines
		}
		c.Lines[f.Name] = addedLines(f.Patch)
		names := []string{f.Name}
		if f.OldName != "" && f.OldName != f.Name {
			names = append(names, f.OldName)
		}
		for _, name := range names {
			in, ok := inside(name, root)
			if !ok {
				outside++
				continue
			}
			c.names[in] = name
			c.Files = append(c.Files, passes.Change{File: in, Lines: lines})
		}
	}
	if outside > 0 {
		c.Source += fmt.Sprintf("; %d outside of %s left out", outside, root)
	}
	return c
}

func inside(name, root string) (string, bool) {
	if root = strings.Trim(root, "/"); root == "" || root == "." {
		return name, true
	}
	return strings.CutPrefix(name, root+"/")
}

// addedLines reads the hunks of one file.
func addedLines(patch string) []Line {
	var out []Line
	at := 0
	for l := range strings.Lines(patch) {
		l = strings.TrimRight(l, "\n")
		switch {
		case strings.HasPrefix(l, "@@ "):
			var n int
			if _, rest, ok := strings.Cut(l, " +"); !ok {
				return out
			} else if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
				return out
			}
			at = n
		case strings.HasPrefix(l, "+"):
			out = append(out, Line{at, l[1:]})
			at++
		case strings.HasPrefix(l, "-"), strings.HasPrefix(l, `\`):
		default:
			at++
		}
	}
	return out
}

// splitDiff reads git's diff as GitHub would list it.
func splitDiff(diff []byte) ([]ChangedFile, error) {
	if len(bytes.TrimSpace(diff)) == 0 {
		return nil, nil
	}
	var out []ChangedFile
	for _, part := range bytes.SplitAfter(append([]byte("\n"), diff...), []byte("\ndiff --git ")) {
		text := strings.TrimSuffix(string(part), "diff --git ")
		if strings.TrimSpace(text) == "" {
			continue
		}
		text = "diff --git " + text
		parsed, err := passes.ParseDiff("git diff", strings.NewReader(text))
		if err != nil {
			name, ok := headerName(text)
			if !ok {
				return nil, err
			}
			parsed = []passes.Change{{File: name}} // a change of mode, or an empty file
		}
		f := ChangedFile{Name: parsed[len(parsed)-1].File}
		if len(parsed) > 1 {
			f.OldName = parsed[0].File
		}
		if i := strings.Index(text, "\n@@ "); i >= 0 {
			f.Patch = text[i+1:]
		}
		out = append(out, f)
	}
	return out, nil
}

// headerName is the name in "diff --git a/NAME b/NAME" where both are the same.
func headerName(text string) (string, bool) {
	line, _, _ := strings.Cut(strings.TrimPrefix(text, "diff --git "), "\n")
	half := len(line) / 2
	if len(line)%2 == 0 || line[half] != ' ' || !strings.HasPrefix(line, "a/") || line[2:half] != line[half+3:] {
		return "", false
	}
	return line[2:half], true
}

// place is where a finding of a pass stands in the change: the first added line
// of the pass's file that names its class, else the first added line. ok is
// false if the change does not touch the pass.
func (c *Change) place(pass string) (file string, line int, ok bool) {
	for _, p := range passes.Lookup(pass) {
		for _, f := range slices.Backward(p.Files) { // the .cc before the header
			name, changed := c.names[f]
			if !changed {
				continue
			}
			lines := c.Lines[name]
			for _, l := range lines {
				if strings.Contains(l.Text, p.Class) {
					return name, l.Number, true
				}
			}
			if len(lines) > 0 {
				return name, lines[0].Number, true
			}
			return name, 1, true
		}
	}
	return "", 0, false
}
