package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a completion script.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// manCmd prints the manual page.
type manCmd struct{}

func (c *completionCmd) Run(a *app, k *kong.Kong) error {
	switch c.Shell {
	case "fish":
		fishCompletion(a.stdout, k.Model)
	case "zsh":
		// zsh reads bash's completions.
		fmt.Fprintln(a.stdout, "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit")
		fallthrough
	case "bash":
		bashCompletion(a.stdout, k.Model)
	}
	return nil
}

// walk visits the commands that a user sees, with their words.
func walk(n *kong.Node, words []string, visit func(words []string, n *kong.Node)) {
	visit(words, n)
	for _, c := range n.Children {
		if c.Type == kong.CommandNode && !c.Hidden {
			walk(c, append(words[:len(words):len(words)], c.Name), visit)
		}
	}
}

// next are the words that may follow: sub-commands, then flags.
func next(n *kong.Node) []string {
	var out []string
	for _, c := range n.Children {
		if c.Type == kong.CommandNode && !c.Hidden {
			out = append(out, c.Name)
		}
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			out = append(out, "--"+f.Name)
		}
	}
	return out
}

// bashCompletion completes commands and flags, and files elsewhere.
func bashCompletion(w io.Writer, app *kong.Application) {
	fmt.Fprintf(w, "_passgate() {\n  local at= word words\n  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do case $word in -*) ;; *) at=\"$at $word\" ;; esac; done\n  case $at in\n")
	// The longest commands first: arguments follow a command.
	var rows []string
	walk(app.Node, nil, func(words []string, n *kong.Node) {
		pattern := "*"
		if len(words) > 0 {
			pattern = "\" " + strings.Join(words, " ") + "\"*"
		}
		rows = append(rows, fmt.Sprintf("    %s) words=%q ;;\n", pattern, strings.Join(next(n), " ")))
	})
	for i := len(rows) - 1; i >= 0; i-- {
		io.WriteString(w, rows[i]) // to standard output
	}
	fmt.Fprint(w, "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _passgate passgate\n")
}

func fishCompletion(w io.Writer, app *kong.Application) {
	walk(app.Node, nil, func(words []string, n *kong.Node) {
		condition := "__fish_use_subcommand"
		if len(words) > 0 {
			condition = "__fish_seen_subcommand_from " + words[len(words)-1]
		}
		for _, c := range n.Children {
			if c.Type == kong.CommandNode && !c.Hidden {
				fmt.Fprintf(w, "complete -c passgate -n %s -a %s -d %s\n", shellWord(condition), c.Name, shellWord(c.Help))
			}
		}
		if len(words) == 0 {
			return
		}
		for _, f := range n.Flags {
			if !f.Hidden {
				fmt.Fprintf(w, "complete -c passgate -n %s -l %s -d %s\n", shellWord(condition), f.Name, shellWord(f.Help))
			}
		}
	})
}

func shellWord(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// Run prints the page in man(7).
func (manCmd) Run(a *app, k *kong.Kong) error {
	w := a.stdout
	fmt.Fprintf(w, ".TH PASSGATE 1\n.SH NAME\npassgate \\- a regression gate for XLA's compiler passes\n.SH SYNOPSIS\n.B passgate\n.I COMMAND\n[flags]\n.SH DESCRIPTION\n%s\n.SH COMMANDS\n", roff(k.Model.Help))
	walk(k.Model.Node, nil, func(words []string, n *kong.Node) {
		if len(words) == 0 || !n.Leaf() {
			return
		}
		var args []string
		for _, p := range n.Positional {
			args = append(args, p.Summary())
		}
		fmt.Fprintf(w, ".SS passgate %s\n%s\n", roff(strings.TrimSpace(strings.Join(words, " ")+" "+strings.Join(args, " "))), roff(n.Help))
		for _, f := range n.Flags {
			if !f.Hidden && f.Name != "help" {
				fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(f.Summary()), roff(f.Help))
			}
		}
	})
	return nil
}

// roff escapes text for man(7): no line starts a request, no hyphen breaks.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		switch {
		case l == "":
			lines[i] = ".PP"
		case strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'"):
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
