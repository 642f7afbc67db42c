package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/passgate/passgate/fuzz"
	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/passes"
	"github.com/passgate/passgate/xla/builds"
)

// verifyCmd parses and verifies modules. XLA's own text parser takes modules
// that its verifier refuses (wrong result shapes, half an async chain), and
// dumps may hold such: so what only the verifier refuses is a warning here,
// unless --strict asks for more. A case has to pass both.
type verifyCmd struct {
	Files  []string `arg:"" name:"file" help:"HLO files (.hlo) or cases (.case)."`
	Strict bool     `help:"Refuse what XLA's parser accepts and only its verifier refuses."`
	JSON   bool     `help:"Print one JSON object per file."`
}

func (c *verifyCmd) Run(a *app) error {
	for _, name := range c.Files {
		out := line{File: name, Outcome: "ok"}
		k, err := readModule(name)
		warning := ""
		if err != nil && !c.Strict {
			if m := parses(name); m != nil {
				k, warning, err = &fuzz.Case{Module: m}, oneLine(err.Error()), nil
			}
		}
		if err != nil {
			out.Outcome, out.Detail = "invalid", oneLine(err.Error())
			a.code = exitUsage
		} else if k.Module != nil {
			out.Detail = fmt.Sprintf("%d computations, %d instructions", len(k.Module.Computations), k.Module.NumInstructions())
			if warning != "" {
				out.Detail += "; warning: " + warning
			}
		}
		if c.JSON {
			if err := a.emit(out); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			fmt.Fprintln(a.stderr, out.Detail)
			continue
		}
		fmt.Fprintf(a.stdout, "%s: %s\n", name, out.Detail)
	}
	return nil
}

// parses returns the module of an HLO file that the parser accepts, nil for
// anything else.
func parses(name string) *hlo.Module {
	data, err := readFile(name)
	if err != nil || filepath.Ext(name) == ".case" {
		return nil
	}
	m, err := hlo.Parse(name, data)
	if err != nil {
		return nil
	}
	return m
}

// readModule reads a program from a .hlo or .case file. Any other extension
// counts as HLO text.
func readModule(name string) (*fuzz.Case, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(name) == ".case" {
		return fuzz.ReadCase(name, data)
	}
	return fuzz.ReadModule(name, data)
}

// printCmd prints modules.
type printCmd struct {
	Files []string `arg:"" name:"file" help:"HLO files (.hlo) or cases (.case)."`
	JSON  bool     `help:"Print one JSON object per file."`
}

// printLine is the --json line of hlo print.
type printLine struct {
	line
	Text string `json:"text"`
}

func (c *printCmd) Run(a *app) error {
	for _, name := range c.Files {
		k, err := readModule(name)
		if err == nil && k.Module == nil {
			err = &hlo.SyntaxError{File: name, Line: 1, Column: 1, Msg: "the program is StableHLO; want HLO"}
		}
		if err != nil && !c.JSON {
			return &usageError{err}
		}
		if !c.JSON {
			fmt.Fprint(a.stdout, k.Module.String())
			continue
		}
		out := printLine{line: line{File: name, Outcome: "ok"}}
		if err != nil {
			out.Outcome, out.Detail = "invalid", oneLine(err.Error())
			a.code = exitUsage
		} else {
			out.Text = k.Module.String()
		}
		if err := a.emit(out); err != nil {
			return err
		}
	}
	return nil
}

// buildsListCmd lists the catalogue.
type buildsListCmd struct {
	JSON bool `help:"Print one JSON object per build."`
}

func (c *buildsListCmd) Run(a *app) error {
	for _, e := range builds.Catalogue() {
		if c.JSON {
			if err := a.emit(map[string]string{"build": e.Name, "pip": e.Dist + "==" + e.Version, "sha256": e.SHA256, "outcome": "ok", "detail": e.Note}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%-12s  pip:%s==%s\n%-12s  %s\n", e.Name, e.Dist, e.Version, "", e.Note)
	}
	return nil
}

// buildsFetchCmd puts builds on this machine.
type buildsFetchCmd struct {
	buildFlags
	Builds []string `arg:"" name:"spec" help:"Build specs."`
	JSON   bool     `help:"Print one JSON object per build."`
}

func (c *buildsFetchCmd) Run(a *app) error {
	for _, spec := range c.Builds {
		found, err := a.fetch(c.buildFlags, spec)
		if err != nil {
			return err
		}
		b := found[0]
		path := b.Plugin
		if path == "" && len(b.PythonPath) > 0 {
			path = b.PythonPath[0]
		}
		if c.JSON {
			if err := a.emit(map[string]string{"build": spec, "id": b.ID, "kind": string(b.Kind), "path": path, "outcome": "ok", "detail": ""}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%s\n  id    %s\n  kind  %s\n  path  %s\n", spec, b.ID, b.Kind, path)
	}
	return nil
}

// buildsInspectCmd loads builds.
type buildsInspectCmd struct {
	runFlags
	Builds []string `arg:"" name:"spec" help:"Build specs."`
	JSON   bool     `help:"Print one JSON object per build."`
}

// inspectedFlags are compile options whose presence tells builds apart.
var inspectedFlags = []string{
	"xla_cpu_enable_fast_min_max", "xla_allow_excess_precision", "xla_disable_hlo_passes", "xla_enable_hlo_passes_only",
	"xla_run_hlo_passes_starting_from", "xla_cpu_use_fusion_emitters", "xla_dump_to",
}

func (c *buildsInspectCmd) Run(a *app) error {
	if err := c.runFlags.check(); err != nil {
		return err
	}
	found, err := a.fetch(c.buildFlags, c.Builds...)
	if err != nil {
		return err
	}
	pool, err := a.pool(1, c.Timeout)
	if err != nil {
		return err
	}
	defer pool.Close()
	for _, b := range found {
		info, err := pool.Describe(a.ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Spec, err)
		}
		options, err := pool.SupportedOptions(a.ctx, b, inspectedFlags)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Spec, err)
		}
		if c.JSON {
			if err := a.emit(map[string]any{"build": b.Spec.String(), "id": b.ID, "kind": b.Kind, "platform": info.Platform, "platform_version": info.PlatformVersion,
				"api": info.API, "extensions": info.Extensions, "devices": info.Devices, "options": options, "outcome": "ok", "detail": ""}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%s\n  id          %s\n  kind        %s\n  platform    %s, %d devices\n  version     %s\n  API         %s\n  extensions  %v\n",
			b.Spec, b.ID, b.Kind, info.Platform, info.Devices, oneLine(info.PlatformVersion), info.API, info.Extensions)
		for _, name := range inspectedFlags {
			has := "no"
			if options[name] {
				has = "yes"
			}
			fmt.Fprintf(a.stdout, "  option      %s: %s\n", name, has)
		}
	}
	return nil
}

// passesListCmd lists the registry.
type passesListCmd struct {
	JSON bool `help:"Print one JSON object per pass."`
}

func (c *passesListCmd) Run(a *app) error {
	for _, p := range passes.All() {
		if c.JSON {
			if err := a.emit(p); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%s\t%s\t%s\n", p.Name, p.Class, strings.Join(p.Pipelines, ","))
	}
	return nil
}

// passesShowCmd shows passes.
type passesShowCmd struct {
	Names []string `arg:"" name:"pass" help:"Names of passes."`
	JSON  bool     `help:"Print one JSON object per pass."`
}

func (c *passesShowCmd) Run(a *app) error {
	for _, name := range c.Names {
		found := passes.Lookup(name)
		if len(found) == 0 {
			return usagef("unknown pass %q; see `passgate passes list`", name)
		}
		for _, p := range found {
			if c.JSON {
				if err := a.emit(p); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(a.stdout, "%s (%s)\n  %s\n  files      %s\n  pipelines  %s\n  opcodes    %s\n", p.Name, p.Class, p.Summary,
				strings.Join(p.Files, ", "), strings.Join(p.Pipelines, ", "), strings.Join(p.Opcodes, ", "))
		}
	}
	return nil
}

// passesAffectedCmd maps a change to passes.
type passesAffectedCmd struct {
	changeFlags
	Build []string `help:"Builds: say of each pass which of them run it. Nothing is fetched." placeholder:"SPEC"`
	JSON  bool     `help:"Print one JSON object per pass, then one per file."`
}

func (c *passesAffectedCmd) Run(a *app) error {
	platforms := map[string]string{}
	for _, text := range c.Build {
		spec, err := builds.Parse(text)
		if err != nil {
			return err
		}
		platforms[text] = platformOf(spec)
	}
	changes, ok, err := c.changes(a)
	if err != nil {
		return err
	}
	if !ok {
		return usagef("want --diff FILE, --changed-files FILE, or --checkout DIR --from REV --to REV")
	}
	plan := passes.Affected(changes)
	for _, f := range plan.Focus {
		var runs []string
		for _, b := range c.Build {
			if slices.Contains(f.Pass.Pipelines, platforms[b]) {
				runs = append(runs, b)
			}
		}
		if c.JSON {
			out := map[string]any{"pass": f.Pass.Name, "class": f.Pass.Class, "weight": f.Weight, "outcome": string(f.Tier), "detail": f.Reason}
			if len(c.Build) > 0 {
				out["builds"] = append([]string{}, runs...)
			}
			if err := a.emit(out); err != nil {
				return err
			}
			continue
		}
		where := ""
		switch {
		case len(runs) > 0:
			where = "\truns in " + strings.Join(runs, ", ")
		case len(c.Build) > 0:
			where = "\tno build given runs it"
		}
		fmt.Fprintf(a.stdout, "%d\t%s\t%s%s\n", f.Weight, f.Pass.Name, f.Reason, where)
	}
	for _, f := range plan.Files {
		if c.JSON {
			if err := a.emit(map[string]any{"file": f.Name, "outcome": string(f.Tier), "detail": f.Reason, "passes": f.Passes}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "# %s: %s, %d passes\n", f.Name, f.Reason, f.Passes)
	}
	return nil
}

// harvestCmd writes the modules of a checkout into files.
type harvestCmd struct {
	Dir  string `arg:"" help:"Root of a source checkout."`
	Out  string `help:"Directory for the modules." required:"" placeholder:"DIR"`
	All  bool   `help:"Write modules that do not parse or verify, too."`
	JSON bool   `help:"Print one JSON object per module."`
}

func (c *harvestCmd) Run(a *app) error {
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return usagef("%s: want the root directory of a source checkout", c.Dir)
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return usagef("%v", err)
	}
	written, refused := 0, 0
	for m, err := range fuzz.Harvest(os.DirFS(c.Dir)) {
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(a.stderr, "passgate: %s\n", oneLine(err.Error()))
			a.code = exitInconclusive
			continue
		}
		out := line{File: fmt.Sprintf("%s:%d", m.Path, m.Line), Outcome: "ok"}
		_, err := fuzz.ReadModule(m.Path, []byte(m.Text))
		if err != nil {
			refused++
			out.Outcome, out.Detail = "invalid", oneLine(err.Error())
		}
		if err == nil || c.All {
			written++
			name := fmt.Sprintf("%s.%d.hlo", strings.ReplaceAll(m.Path, "/", "__"), m.Line)
			if err := os.WriteFile(filepath.Join(c.Out, name), []byte(m.Text), 0o644); err != nil {
				return err
			}
		}
		if c.JSON {
			if err := a.emit(out); err != nil {
				return err
			}
		}
	}
	if !c.JSON {
		fmt.Fprintf(a.stdout, "%d modules written to %s, %d do not parse or verify\n", written, c.Out, refused)
	}
	if written == 0 && refused == 0 {
		return usagef("%s: no HLO modules in *_test.cc or *.hlo files", c.Dir)
	}
	return nil
}

// doctorCmd checks the machine.
type doctorCmd struct {
	JSON bool `help:"Print one JSON object per check."`
}

func (c *doctorCmd) Run(a *app) error {
	for _, check := range a.diagnose() {
		out := line{File: check.name, Outcome: "ok", Detail: check.detail}
		if check.err != nil {
			out.Outcome, out.Detail = "missing", oneLine(check.err.Error())
			a.code = exitInconclusive
		}
		if c.JSON {
			if err := a.emit(out); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.stdout, "%-8s %-10s %s\n", out.Outcome, check.name, out.Detail)
	}
	return nil
}

var errNotLinux = errors.New("passgate runs on Linux on x86-64")
