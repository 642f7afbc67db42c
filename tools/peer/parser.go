package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/proto"
)

type parserConfig struct {
	checkout, truth, match string
	show                   int
	diff                   bool
	accept, refuse         float64
}

// patience is how long XLA may take over one text. The slowest of its test
// modules take it a few seconds.
const patience = time.Minute

// compareParsers writes the report. ok says that the shares asked for were
// reached. The command starts xla.py.
func compareParsers(ctx context.Context, c parserConfig, command func(context.Context) *exec.Cmd, w io.Writer) (ok bool, err error) {
	match, err := regexp.Compile(c.match)
	if err != nil {
		return false, fmt.Errorf("--match: %w", err)
	}
	xla, err := startXLA(ctx, command, patience)
	if err != nil {
		return false, err
	}
	defer xla.stop()
	r := newReport(c)
	for m, err := range modules(c.checkout, &r.found) {
		if err != nil {
			return false, err
		}
		if !match.MatchString(m.place()) {
			continue
		}
		theirs, err := remembered(ctx, c.truth, xla, m.text)
		if err != nil {
			return false, err
		}
		ours := ourAnswer(m.text)
		if err := r.add(m.origin, m.text, ours, theirs); err != nil {
			return false, err
		}
		r.addLosses(m.origin, m.text, ours, theirs)
	}
	if r.total == 0 {
		return false, fmt.Errorf("%s: no HLO module there", c.checkout)
	}
	return r.write(w, xla.version), nil
}

// ourAnswer is what package hlo says to a text. A panic is a bug of ours; it
// counts as an abort.
func ourAnswer(text string) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{verdict: aborted, message: fmt.Sprintf("panic: %v", p)}
		}
	}()
	m, err := hlo.Parse("", []byte(text))
	if err != nil {
		return answer{verdict: refused, message: err.Error()}
	}
	data, err := hlo.MarshalModule(m)
	if err != nil {
		return answer{verdict: aborted, message: "no proto for what Parse gave: " + err.Error()}
	}
	return answer{verdict: accepted, proto: data}
}

// remembered asks XLA, or the directory that keeps its answers. A text with
// elided constants gets no proto.
func remembered(ctx context.Context, dir string, xla *xlaParser, text string) (answer, error) {
	wantProto := !elidedConstant.MatchString(text)
	if dir == "" {
		return xla.parse(ctx, text, wantProto)
	}
	file := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(xla.version+"\n"+text))))
	if !wantProto {
		file += ".verdict"
	}
	switch data, err := os.ReadFile(file); {
	case err == nil && len(data) > 0 && verdict(data[0]) == accepted:
		return answer{verdict: accepted, proto: data[1:]}, nil
	case err == nil && len(data) > 0:
		return answer{verdict: verdict(data[0]), message: string(data[1:])}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return answer{}, err
	}
	a, err := xla.parse(ctx, text, wantProto)
	if err != nil {
		return a, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return a, err
	}
	body := append([]byte{byte(a.verdict)}, a.proto...)
	return a, os.WriteFile(file, append(body, a.message...), 0o644)
}

// origin is where a module came from; number counts the distinct texts of the
// checkout from 1.
type origin struct {
	number int
	path   string
	line   int
}

func (o origin) String() string { return fmt.Sprintf("#%05d %s", o.number, o.place()) }

func (o origin) place() string { return fmt.Sprintf("%s:%d", o.path, o.line) }

// report collects the outcomes.
type report struct {
	config       parserConfig
	found, total int // occurrences in the checkout; distinct texts compared

	bothRefuse, equal, reordered int
	elidedRefused                int
	elidedAccepted               *groups // texts with elided constants that we take
	differ, weRefuse, weAccept   *groups
	lossy                        *groups // modules that a way through package hlo changes
	xlaAborts, ourBugs           *groups
	every                        []string // with --diff: all differences
}

func newReport(c parserConfig) *report {
	return &report{config: c, differ: newGroups(), weRefuse: newGroups(), weAccept: newGroups(), lossy: newGroups(), elidedAccepted: newGroups(), xlaAborts: newGroups(), ourBugs: newGroups()}
}

// elidedConstant is a constant without its value, not in a line comment. In
// XLA's grammar `{...}` stands nowhere else.
var elidedConstant = regexp.MustCompile(`(?m)^(?:[^/\n]|/[^/\n])*constant\(\{\.\.\.\}\)`)

func (r *report) add(from origin, text string, ours, theirs answer) error {
	r.total++
	switch {
	case ours.verdict == aborted:
		r.ourBugs.add(from, kindOf(ours.message), ours.message)
	case theirs.verdict == aborted:
		r.xlaAborts.add(from, kindOf(theirs.message), theirs.message)
	case theirs.verdict == refused && ours.verdict == refused:
		r.bothRefuse++
	case theirs.verdict == refused:
		r.weAccept.add(from, kindOf(theirs.message), theirs.message)
	case elidedConstant.MatchString(text):
		if ours.verdict == refused {
			r.elidedRefused++
		} else {
			r.elidedAccepted.add(from, "constant({...})", "")
		}
	case ours.verdict == refused:
		r.weRefuse.add(from, kindOf(ours.message), ours.message)
	default:
		return r.compare(from, ours.proto, theirs.proto)
	}
	return nil
}

// addLosses counts what package hlo loses of a text that it accepts.
func (r *report) addLosses(from origin, text string, ours, theirs answer) {
	if ours.verdict != accepted {
		return
	}
	lost := losses(text, ours.proto, theirs.proto)
	if len(lost) > 0 {
		r.lossy.modules++
	}
	for way, detail := range lost {
		r.lossy.put(from, way, detail)
	}
}

func (r *report) compare(from origin, ours, theirs []byte) error {
	a, b := &hlopb.HloModuleProto{}, &hlopb.HloModuleProto{}
	if err := proto.Unmarshal(theirs, b); err != nil {
		return fmt.Errorf("%v: XLA's proto: %w", from, err)
	}
	if err := proto.Unmarshal(ours, a); err != nil {
		return fmt.Errorf("%v: our proto: %w", from, err)
	}
	canonB, err := canonical(b)
	if err != nil {
		return fmt.Errorf("%v: XLA's proto: %w", from, err)
	}
	canonA, err := canonical(a)
	if err != nil {
		r.differ.add(from, "our proto: "+kindOf(err.Error()), err.Error())
		return nil
	}
	found := diffModules(canonA, canonB)
	if len(found) == 0 {
		r.equal++
		if !slices.Equal(order(a), order(b)) {
			r.reordered++
		}
		return nil
	}
	byGroup := map[string]string{}
	for _, d := range found {
		detail := fmt.Sprintf("%s: ours %s, XLA %s", d.place, quoteOrNone(d.ours), quoteOrNone(d.theirs))
		if r.config.diff {
			r.every = append(r.every, fmt.Sprintf("%v: %s", from, detail))
		}
		if byGroup[d.group] == "" {
			byGroup[d.group] = detail
		}
	}
	r.differ.modules++
	for g, detail := range byGroup {
		r.differ.put(from, g, detail)
	}
	return nil
}

func quoteOrNone(s string) string {
	if s == "" {
		return "none"
	}
	return "`" + s + "`"
}

// order is the names of all instructions as the proto lists them.
func order(m *hlopb.HloModuleProto) (names []string) {
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			names = append(names, baseName(in.Name))
		}
	}
	return names
}

// write prints the report and says whether the shares asked for were reached.
func (r *report) write(w io.Writer, version string) bool {
	fmt.Fprintf(w, "%d HLO texts in the checkout, %d distinct ones compared with the parser of %s\n\n", r.found, r.total, version)
	comparable := r.equal + r.differ.modules + r.weRefuse.modules
	elided := r.elidedRefused + r.elidedAccepted.modules
	refusals := r.bothRefuse + r.weAccept.modules
	fmt.Fprintf(w, "XLA accepts              %6d  of which %d hold elided constants (we refuse %d of those)\n", comparable+elided, elided, r.elidedRefused)
	fmt.Fprintf(w, "  equivalent proto       %6d  %s of those without elided constants; %d list instructions in another order\n", r.equal, percent(r.equal, comparable), r.reordered)
	fmt.Fprintf(w, "  different proto        %6d\n", r.differ.modules)
	fmt.Fprintf(w, "  we refuse              %6d\n", r.weRefuse.modules)
	fmt.Fprintf(w, "XLA refuses              %6d\n", refusals)
	fmt.Fprintf(w, "  we refuse too          %6d  %s\n", r.bothRefuse, percent(r.bothRefuse, refusals))
	fmt.Fprintf(w, "  we accept              %6d\n", r.weAccept.modules)
	fmt.Fprintf(w, "XLA aborts               %6d\n", r.xlaAborts.modules)
	fmt.Fprintf(w, "we panic                 %6d\n", r.ourBugs.modules)
	fmt.Fprintf(w, "not lossless             %6d\n", r.lossy.modules)
	fmt.Fprintf(w, "\nNot compared:\n")
	for _, s := range ignored {
		fmt.Fprintf(w, "- %s\n", s)
	}
	for _, s := range []struct {
		title string
		g     *groups
	}{
		{"We panic, by message", r.ourBugs},
		{"XLA accepts, we refuse, by our message", r.weRefuse},
		{"XLA fills in elided constants, and we accept", r.elidedAccepted},
		{"Different proto, by place (a module may stand in several)", r.differ},
		{"XLA refuses, we accept, by XLA's message", r.weAccept},
		{"Changed on a way through package hlo (a module may stand in several)", r.lossy},
		{"XLA aborts, by message", r.xlaAborts},
	} {
		s.g.write(w, s.title, r.config.show)
	}
	if len(r.every) > 0 {
		fmt.Fprintf(w, "\n== Every difference\n%s\n", strings.Join(r.every, "\n"))
	}
	return r.ourBugs.modules == 0 && r.lossy.modules == 0 && atLeast(r.equal, comparable, r.config.accept) && atLeast(r.bothRefuse, refusals, r.config.refuse)
}

func atLeast(part, all int, share float64) bool { return float64(part) >= share*float64(all) }

func percent(part, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(all))
}

// groups counts modules by kind of trouble and keeps some of each.
type groups struct {
	modules int
	kinds   map[string][]string // kind -> one line per module
}

func newGroups() *groups { return &groups{kinds: map[string][]string{}} }

// add counts a module and puts it under one kind.
func (g *groups) add(from origin, kind, detail string) {
	g.modules++
	g.put(from, kind, detail)
}

func (g *groups) put(from origin, kind, detail string) {
	g.kinds[kind] = append(g.kinds[kind], fmt.Sprintf("%v: %s", from, oneLine(detail)))
}

func (g *groups) write(w io.Writer, title string, show int) {
	if g.modules == 0 {
		return
	}
	fmt.Fprintf(w, "\n== %s: %d\n", title, g.modules)
	for _, kind := range slices.SortedFunc(maps.Keys(g.kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(g.kinds[b]), len(g.kinds[a])), cmp.Compare(a, b))
	}) {
		lines := g.kinds[kind]
		fmt.Fprintf(w, "%6d  %s\n", len(lines), kind)
		for _, l := range lines[:min(show, len(lines))] {
			fmt.Fprintf(w, "          %s\n", l)
		}
	}
}

func oneLine(s string) string { return clip(strings.Join(strings.Fields(s), " "), 400) }

var (
	// place is the position in front of a message, in XLA's form and in ours.
	place = regexp.MustCompile(`was parsing \d+:\d+: error: |^[^ :]*:?\d+:\d+: `)
	// particular is what differs between messages of one kind.
	particular = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|'[^']*'|%[A-Za-z0-9_.-]+|-?[0-9][0-9.]*")
)

// kindOf is a message without places, names and numbers. XLA's syntax errors
// say the matter on their second line.
func kindOf(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	line := lines[0]
	if len(lines) > 1 && strings.Contains(line, "Syntax error when trying to parse") {
		line = lines[1]
	}
	line = place.ReplaceAllString(line, "")
	return clip(particular.ReplaceAllString(oneLine(line), "_"), 160)
}
