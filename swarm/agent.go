package swarm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/passgate/passgate/swarm/checkout"
	"github.com/passgate/passgate/swarm/operation"
	"github.com/passgate/passgate/swarm/provider"
)

// refusal is why an output or a call is not accepted, for the agent to read.
type refusal struct{ reason string }

func (e *refusal) Error() string { return e.reason }

func refusef(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// isRefusal reports whether an error is the agent's to mend.
func isRefusal(err error) bool {
	var own *refusal
	var program *operation.ProgramError
	var path *checkout.RefusedError
	var build *checkout.BuildError
	return errors.As(err, &own) || errors.As(err, &program) || errors.As(err, &path) || errors.As(err, &build)
}

// boundTool is a tool with what it does.
type boundTool struct {
	provider.Tool
	run func(ctx context.Context, arguments string) (string, error)
}

// bind makes a tool of a function; its schema is that of In.
func bind[In any](name, description string, run func(ctx context.Context, in In) (string, error)) boundTool {
	schema, resolved := schemaOf[In]()
	return boundTool{provider.Tool{Name: name, Description: description, Schema: schema}, func(ctx context.Context, arguments string) (string, error) {
		in, err := decode[In](resolved, arguments)
		if err != nil {
			return "", err
		}
		return run(ctx, in)
	}}
}

// schemaOf panics for types that have no schema: a bug of ours.
func schemaOf[In any]() (json.RawMessage, *jsonschema.Resolved) {
	s, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		panic(err)
	}
	return text, resolved
}

// decode reads arguments strictly: one JSON document that fits the schema. The
// error is a refusal.
func decode[In any](schema *jsonschema.Resolved, arguments string) (In, error) {
	var in In
	var value any
	if err := json.Unmarshal([]byte(arguments), &value); err != nil {
		return in, refusef("the arguments are no JSON: %v", err)
	}
	if err := schema.Validate(value); err != nil {
		return in, refusef("the arguments do not fit the schema: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(arguments)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil && !errors.Is(err, io.EOF) {
		return in, refusef("the arguments do not fit the schema: %v", err)
	}
	return in, nil
}

// submitTool is the name of the tool by which an output is handed in.
const submitTool = "submit"

// giveUpTool is the name of the tool by which an agent says that it has no result.
const giveUpTool = "give_up"

// giveUp is why an agent has no result.
type giveUp struct {
	Why string `json:"why" jsonschema:"what you tried, and why there is nothing to hand in"`
}

// declined is an agent that gave up.
type declined struct{ why string }

func (e *declined) Error() string { return "it gave up: " + e.why }

// fenced is JSON in a Markdown fence: how models without tools hand in.
var fenced = regexp.MustCompile("(?s)```(?:json)?[ \t]*\n(\\{.*?\\})\\s*\n```")

// maxCalls bounds the calls that are answered of one reply.
const maxCalls = 8

// converse lets an agent work until an output is accepted. check's error is a
// refusal, which goes back to the agent, or the end.
func converse[Out any](ctx context.Context, s *swarm, t *task, tools []boundTool, mark fence, prompt string, check func(context.Context, Out) error) error {
	schema, resolved := schemaOf[Out]()
	offered := []provider.Tool{{Name: submitTool, Description: "Hand in your result. It is checked; a refusal says what to mend.", Schema: schema}}
	tools = append(tools, bind(giveUpTool, "End without a result.", func(_ context.Context, in giveUp) (string, error) { return "", &declined{in.Why} }))
	byName := map[string]boundTool{}
	for _, b := range tools {
		offered = append(offered, b.Tool)
		byName[b.Name] = b
	}
	system := prompts[t.role] + "\n" + mark.rule()
	prompt = s.secrets.Hide(prompt)
	if t.feedback != "" {
		prompt += "\nAn earlier result was refused after review:\n" + mark.data("review", s.secrets.Hide(t.feedback))
	}
	t.log(s, Event{Kind: "prompt", Text: system + "\n\n" + prompt})
	messages := []provider.Message{{Role: provider.User, Text: prompt}}
	used := s.limits.agent(s.now())
	loop := repeats{max: max(1, s.limits.Repeats), seen: map[[sha256.Size]byte]int{}}
	rounds := 0
	for {
		reply, err := s.ask(ctx, t, used, provider.Request{Agent: t.name(), System: system, Messages: messages, Tools: offered})
		if err != nil {
			return err
		}
		own := provider.Message{Role: provider.Assistant, Text: s.secrets.Hide(reply.Text), Calls: slices.Clone(reply.Calls)}
		for i := range own.Calls {
			own.Calls[i].Arguments = s.secrets.Hide(own.Calls[i].Arguments)
		}
		messages = append(messages, own)
		calls, direct := reply.Calls, false
		if len(calls) == 0 {
			if err := loop.again("text " + reply.Text); err != nil {
				return err
			}
			m := fenced.FindStringSubmatch(reply.Text)
			if m == nil {
				why := "hand in with the tool " + submitTool + ", or as one JSON object in a ```json fence"
				if reply.Length {
					why = "the reply was cut at its longest: be brief"
				}
				t.log(s, Event{Kind: "refused", Text: why, Error: true})
				messages = append(messages, provider.Message{Role: provider.User, Text: "error: " + why})
				continue
			}
			calls, direct = []provider.Call{{Name: submitTool, Arguments: m[1]}}, true
		}
		turn := provider.Message{Role: provider.User}
		for i, c := range calls {
			text, bad := "", true
			switch b, known := byName[c.Name]; {
			case i >= maxCalls:
				text = fmt.Sprintf("only %d calls of a reply are answered", maxCalls)
			case c.Name == submitTool:
				out, err := decode[Out](resolved, c.Arguments)
				if err == nil {
					start := s.now()
					err = check(ctx, out)
					used.exclude(s.now().Sub(start))
				}
				if err == nil {
					t.log(s, Event{Kind: "accepted", Text: c.Arguments})
					return nil
				}
				if !isRefusal(err) {
					return err
				}
				text = err.Error()
				var build *checkout.BuildError
				if errors.As(err, &build) {
					text += "\n" + mark.data("build log", build.Log)
				}
				t.log(s, Event{Kind: "refused", Text: text, Error: true})
				if rounds++; rounds >= max(1, s.limits.Rounds) {
					return &LimitError{"agent", "rounds", fmt.Sprintf("%d outputs were refused, the last one because %s", rounds, err)}
				}
			case !known:
				if err := loop.again(c.Name + " " + c.Arguments); err != nil {
					return err
				}
				text = fmt.Sprintf("there is no tool %q", c.Name)
			default:
				if err := loop.again(c.Name + " " + c.Arguments); err != nil {
					return err
				}
				out, err := b.run(ctx, c.Arguments)
				switch {
				case err == nil:
					text, bad = mark.data(c.Name, out), false
				case isRefusal(err):
					text = err.Error()
				default:
					return err
				}
			}
			text = s.secrets.Hide(text)
			if c.Name != submitTool {
				t.log(s, Event{Kind: "answer", Tool: c.Name, Text: text, Error: bad})
			}
			turn.Answers = append(turn.Answers, provider.Answer{ID: c.ID, Name: c.Name, Text: text, Error: bad})
		}
		if direct {
			turn = provider.Message{Role: provider.User, Text: "error: " + turn.Answers[0].Text}
		}
		messages = append(messages, turn)
	}
}

// ask makes one request within the limits of agent and swarm.
func (s *swarm) ask(ctx context.Context, t *task, own *account, r provider.Request) (*provider.Reply, error) {
	r.MaxTokens = max(1, s.limits.ReplyTokens)
	worst := provider.Usage{Input: provider.EstimateTokens(r), Output: r.MaxTokens}
	if err := own.reserve(s.now(), worst, s.price); err != nil {
		return nil, err
	}
	if err := s.total.reserve(s.now(), worst, s.price); err != nil {
		own.settle(worst, provider.Usage{}, s.price)
		return nil, err
	}
	var left = ctx
	if own.maxTime > 0 {
		var cancel context.CancelFunc
		left, cancel = context.WithTimeoutCause(ctx, own.maxTime-s.now().Sub(own.started), &LimitError{"agent", "time", own.maxTime.String()})
		defer cancel()
	}
	reply, err := s.provider.Reply(left, r)
	if err != nil {
		// What a failed request cost is not known: it stays counted at its worst.
		var limit *LimitError
		if ctx.Err() == nil && errors.As(context.Cause(left), &limit) {
			return nil, limit
		}
		return nil, err
	}
	own.settle(worst, reply.Usage, s.price)
	s.total.settle(worst, reply.Usage, s.price)
	used, cost := reply.Usage, s.price.of(reply.Usage)
	t.spend(s, used, cost)
	t.log(s, Event{Kind: "reply", Text: strings.TrimSpace(reply.Text), Calls: reply.Calls, Tokens: &used, Cost: cost})
	return reply, nil
}
