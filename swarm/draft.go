package swarm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/swarm/operation"
	"github.com/passgate/passgate/swarm/provider"
)

// DraftSchema names the version of provenance.json.
const DraftSchema = "passgate/draft/v1"

// Provenance says where a draft comes from and what was checked. Its digests bind
// it to the files beside it.
type Provenance struct {
	Schema   string         `json:"schema"`
	Finding  string         `json:"finding"`
	Cluster  string         `json:"cluster"`
	Source   string         `json:"source"`
	Scripted bool           `json:"scripted"`
	Agent    string         `json:"agent"`
	Base     gate.Build     `json:"base"`
	Head     gate.Build     `json:"head"`
	Minimal  bool           `json:"minimal"`
	Checks   []string       `json:"checks"`
	Reviews  []string       `json:"reviews"`
	Tokens   provider.Usage `json:"tokens"`
	Cost     float64        `json:"cost"`
	// Files are SHA-256 digests, hex.
	Files map[string]string `json:"files"`
	// Published is set by Publish alone.
	Published *Publication `json:"published,omitempty"`
}

// Publication is who let a draft out, and when.
type Publication struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// WriteDrafts writes a directory per finding, named by its id: report.md,
// minimal.case, patch.diff where there is a patch, and provenance.json. base and
// head are the builds as the gate knows them.
func WriteDrafts(dir string, r *Result, base, head gate.Build) error {
	for _, rec := range r.Findings {
		files := map[string][]byte{"report.md": report(r, rec), "minimal.case": rec.Finding.MinimalFile}
		p := Provenance{Schema: DraftSchema, Finding: rec.ID, Cluster: rec.Cluster, Source: r.Source, Scripted: r.Scripted, Agent: rec.By, Base: base, Head: head,
			Minimal: rec.Minimal, Checks: []string{}, Reviews: slices.Concat([]string{}, rec.Reviewed, rec.Objections), Tokens: rec.Tokens, Cost: rec.Cost, Files: map[string]string{}}
		if rec.Patch != nil {
			files["patch.diff"] = []byte(patchHead(r, rec) + rec.Patch.Diff)
			p.Checks = rec.Patch.Checks
		}
		at := filepath.Join(dir, rec.ID)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		for name, data := range files {
			p.Files[name] = digest(data)
			if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
				return err
			}
		}
		data, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(at, "provenance.json"), append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// provenanceLines say in words where a draft comes from.
func provenanceLines(r *Result, rec *Record) []string {
	by := rec.By
	if by == "" {
		by = "a given case"
	}
	return []string{
		"Drafted-by: " + r.Source,
		"Found-by: " + by,
		"Finding: " + rec.ID + " cluster " + rec.Cluster,
		fmt.Sprintf("Judged-by: passgate, base %s, head %s", r.Base, r.Head),
		"Published-by: nobody: this is a draft",
	}
}

func patchHead(r *Result, rec *Record) string {
	var b strings.Builder
	// Lines in front of a diff are no part of it; a model's text must not start one.
	for _, l := range strings.Split(visible(rec.Patch.Summary), "\n") {
		b.WriteString("  " + l + "\n")
	}
	b.WriteString("\n" + strings.Join(provenanceLines(r, rec), "\n") + "\n")
	for _, c := range rec.Patch.Checks {
		b.WriteString("Checked: " + c + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

// report is the draft of an issue.
func report(r *Result, rec *Record) []byte {
	f := rec.Finding
	var b strings.Builder
	title := fmt.Sprintf("%s: %s", f.Class, f.Case)
	if f.Pass != nil {
		title = fmt.Sprintf("%s by %s", f.Class, f.Pass.Name)
	}
	fmt.Fprintf(&b, "# %s\n\n", line(title))
	if r.Scripted {
		b.WriteString("**SCRIPTED: the words of agents below are stored replies, no model wrote them for this run.**\n\n")
	}
	fmt.Fprintf(&b, "%s\n\n", line(f.Detail))
	if f.First.Legal != "" {
		fmt.Fprintf(&b, "First wrong element: output %s%v, base %s, head %s, legal %s.\n\n", f.Output, f.First.At, f.First.Base, f.First.Head, line(f.First.Legal))
	}
	if f.Pass != nil {
		fmt.Fprintf(&b, "Guilty pass step, by passgate: %s, instruction %s (level %s).\n\n", f.Pass, line(f.Instruction), f.Level)
	}
	if e := rec.Explanation; e != nil {
		fmt.Fprintf(&b, "## Explanation (of %s; step and instruction checked against the dumps, the words are its own)\n\n", line(r.Source))
		for _, l := range [][2]string{{"Step", e.Step}, {"Instruction", e.Instruction}, {"Rewrite", e.Rewrite}, {"Why", e.Why}, {"Verdict", e.Verdict}, {"Rule", e.Rule}, {"Duplicate of", e.DuplicateOf}} {
			if l[1] != "" {
				fmt.Fprintf(&b, "- %s: %s\n", l[0], line(l[1]))
			}
		}
		b.WriteString("\n")
	}
	size := fmt.Sprintf("%d instructions", f.Instructions)
	if rec.Minimal {
		size += ", no single change makes it smaller"
	}
	fmt.Fprintf(&b, "## Smallest program (%s)\n\n%s\n", size, fencedText(operation.Shorten(string(f.MinimalFile), 16<<10)))
	if p := rec.Patch; p != nil {
		fmt.Fprintf(&b, "## Patch\n\n%s\n\nChecked by passgate:\n\n", line(p.Summary))
		for _, c := range p.Checks {
			fmt.Fprintf(&b, "- %s\n", line(c))
		}
		fmt.Fprintf(&b, "\n%s\n", fencedText(p.Diff))
	}
	for _, l := range slices.Concat(rec.Reviewed, rec.Objections) {
		fmt.Fprintf(&b, "- Review: %s\n", line(l))
	}
	fmt.Fprintf(&b, "\n## Provenance\n\n")
	for _, l := range provenanceLines(r, rec) {
		fmt.Fprintf(&b, "    %s\n", line(l))
	}
	return []byte(b.String())
}

var active = strings.NewReplacer("<", "&lt;", ">", "&gt;", "@", "@\u200b", "![", "!\\[", "](", "]\\(", "`", "'", "#", "\\#")

// line is foreign text on one line of Markdown: no mentions, links or HTML.
func line(s string) string { return active.Replace(strings.Join(strings.Fields(visible(s)), " ")) }

var ticks = regexp.MustCompile("`+")

// fencedText is a code block whose fence is longer than any run of back-ticks
// inside.
func fencedText(s string) string {
	n := 3
	for _, t := range ticks.FindAllString(s, -1) {
		n = max(n, len(t)+1)
	}
	f := strings.Repeat("`", n)
	return f + "\n" + strings.TrimRight(visible(s), "\n") + "\n" + f + "\n"
}

// PublishError is a draft that cannot be published.
type PublishError struct{ Dir, Reason string }

func (e *PublishError) Error() string { return e.Dir + ": " + e.Reason }

// personName is one line of letters: it stands in a trailer.
var personName = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N} .,'@<>_+-]{0,99}$`)

// maxDraft bounds a file of a draft.
const maxDraft = 4 << 20

// Publish copies a draft to a new directory below to, with the name of the person
// who lets it out in every file that says who did. It is refused where a file is
// not what the gate saw, and where the directory is there already.
func Publish(draft, to, name string, at time.Time) (string, error) {
	if !personName.MatchString(name) {
		return "", &PublishError{draft, fmt.Sprintf("name %q: want the name of the person who answers for it", name)}
	}
	root, err := os.OpenRoot(draft)
	if err != nil {
		return "", &PublishError{draft, "want the directory of a draft"}
	}
	defer root.Close()
	read := func(file string) ([]byte, error) {
		info, err := root.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxDraft {
			return nil, &PublishError{draft, fmt.Sprintf("no regular file %s of at most %d bytes", file, maxDraft)}
		}
		return root.ReadFile(file)
	}
	data, err := read("provenance.json")
	if err != nil {
		return "", err
	}
	var p Provenance
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Schema != DraftSchema {
		return "", &PublishError{draft, "provenance.json is not of schema " + DraftSchema}
	}
	if p.Published != nil {
		return "", &PublishError{draft, "it was published before, by " + p.Published.Name}
	}
	if !findingID.MatchString(p.Finding) {
		return "", &PublishError{draft, fmt.Sprintf("%q is no id of a finding", p.Finding)}
	}
	files := map[string][]byte{}
	for file, want := range p.Files {
		if !slices.Contains([]string{"report.md", "minimal.case", "patch.diff"}, file) {
			return "", &PublishError{draft, fmt.Sprintf("%q is no file of a draft", file)}
		}
		text, err := read(file)
		if err != nil {
			return "", err
		}
		if digest(text) != want {
			return "", &PublishError{draft, file + " is not what the gate saw: it was changed since"}
		}
		files[file] = bytes.Replace(text, []byte("Published-by: nobody: this is a draft"), []byte("Published-by: "+name), 1)
	}
	if len(files) == 0 {
		return "", &PublishError{draft, "it has no files"}
	}
	p.Published = &Publication{name, at.UTC()}
	for file, text := range files {
		p.Files[file] = digest(text)
	}
	if data, err = json.MarshalIndent(p, "", "  "); err != nil {
		return "", err
	}
	files["provenance.json"] = append(data, '\n')
	out := filepath.Join(to, p.Finding)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return "", &PublishError{out, "is there already"}
		}
		return "", err
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(out, file), text, 0o644); err != nil {
			return "", err
		}
	}
	return out, nil
}

var findingID = regexp.MustCompile(`^f-[0-9a-f]{12}$`)
