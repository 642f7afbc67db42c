package swarm

import (
	"context"
	"fmt"

	"github.com/passgate/passgate/swarm/operation"
)

// tools are what an agent may do, whatever its role: operations of the gate, and
// reading below one root. g's head is what they judge.
func (s *swarm) tools(g *operation.Gate) []boundTool {
	type contains struct {
		Contains string `json:"contains" jsonschema:"part of a name, class or summary"`
	}
	type files struct {
		Files []string `json:"files" jsonschema:"paths in XLA's source tree"`
	}
	type step struct {
		Program operation.Program `json:"program"`
		Step    string            `json:"step" jsonschema:"pipeline/index/pass as steps lists it, or: code generation"`
	}
	type one struct {
		Program operation.Program `json:"program"`
	}
	type id struct {
		ID string `json:"id" jsonschema:"id of a finding"`
	}
	type none struct{}
	out := []boundTool{
		bind("list_passes", "Passes of XLA with their source files.", func(_ context.Context, in contains) (string, error) {
			return operation.Shorten(operation.Passes(in.Contains), 16<<10), nil
		}),
		bind("affected_passes", "The passes that changed files reach.", func(_ context.Context, in files) (string, error) { return operation.Affected(in.Files) }),
		bind("evaluate", "Evaluate a program on the reference interpreter: the legal values of each output.", func(ctx context.Context, in one) (string, error) {
			c, err := in.Program.Case()
			if err != nil {
				return "", err
			}
			return g.Evaluate(ctx, c)
		}),
		bind("run_case", "Compile and run a program on base and head and judge both against the reference.", func(ctx context.Context, in one) (string, error) {
			c, err := in.Program.Case()
			if err != nil {
				return "", err
			}
			f, why, err := g.Run(ctx, c)
			if f == nil {
				return why, err
			}
			return operation.Describe(f), nil
		}),
		bind("steps", "The pass steps that changed a program on head, in order.", func(ctx context.Context, in one) (string, error) {
			c, err := in.Program.Case()
			if err != nil {
				return "", err
			}
			t, err := g.Trail(ctx, operation.Head, c)
			if err != nil {
				return "", err
			}
			return operation.Steps(t), nil
		}),
		bind("show_step", "The module before and after a pass step on head.", func(ctx context.Context, in step) (string, error) {
			c, err := in.Program.Case()
			if err != nil {
				return "", err
			}
			t, err := g.Trail(ctx, operation.Head, c)
			if err != nil {
				return "", err
			}
			before, after, err := operation.Around(t, in.Step)
			if err != nil {
				return "", err
			}
			text := "before:\n" + operation.Shorten(before.String(), 12<<10)
			if after != nil {
				text += "\nafter:\n" + operation.Shorten(after.String(), 12<<10)
			}
			return text, nil
		}),
		bind("findings", "The findings of this swarm.", func(_ context.Context, _ none) (string, error) { return s.ledger.list(), nil }),
		bind("finding", "One finding with its smallest program.", func(_ context.Context, in id) (string, error) {
			text := s.ledger.describe(in.ID)
			if text == "" {
				return "", refusef("no finding has the id %q", in.ID)
			}
			return text, nil
		}),
	}
	if s.root == nil {
		return out
	}
	type dir struct {
		Dir string `json:"dir" jsonschema:"directory in the source tree; empty is its root"`
	}
	type read struct {
		Path string `json:"path"`
		From int    `json:"from,omitempty" jsonschema:"first line, from 1"`
		To   int    `json:"lines,omitempty" jsonschema:"number of lines, at most 400"`
	}
	type find struct {
		Text string `json:"text"`
		Dir  string `json:"dir,omitempty"`
	}
	return append(out,
		bind("list_source", "The files in a directory of the source tree.", func(_ context.Context, in dir) (string, error) { return s.root.List(in.Dir) }),
		bind("read_source", "Lines of a source file.", func(_ context.Context, in read) (string, error) { return s.root.Read(in.Path, in.From, in.To) }),
		bind("search_source", "Lines of source files that hold a text.", func(_ context.Context, in find) (string, error) {
			if in.Dir == "" {
				in.Dir = "."
			}
			return s.root.Search(in.Text, in.Dir)
		}),
	)
}

// about is a finding and what is known of it, as data.
func (s *swarm) about(mark fence, r *Record) string {
	text := operation.Describe(r.Finding)
	if r.Explanation != nil {
		text += fmt.Sprintf("explanation (accepted): %s by %s at %s: %s\n", r.Explanation.Verdict, r.Explanation.Step, r.Explanation.Instruction, r.Explanation.Why)
	}
	return mark.data("the gate", text)
}
