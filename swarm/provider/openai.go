package provider

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// OpenAIBase is the root of OpenAI's API. Local servers have one of their own,
// "http://localhost:11434".
const OpenAIBase = "https://api.openai.com"

// OpenAI speaks chat completions with tools
// (platform.openai.com/docs/api-reference/chat), streamed. Servers that do not
// stream are understood, too.
type OpenAI struct{ *Client }

// Label names the provider.
func (p *OpenAI) Label() Label { return Label{Provider: "openai", Model: p.Model} }

type openaiFunction struct {
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Arguments   *string         `json:"arguments,omitempty"`
}

type openaiTool struct {
	Index    int            `json:"index,omitempty"`
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type"`
	Function openaiFunction `json:"function"`
}

type openaiMessage struct {
	Role       string       `json:"role,omitempty"`
	Content    *string      `json:"content"`
	ToolCalls  []openaiTool `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

type openaiRequest struct {
	Model         string          `json:"model"`
	Messages      []openaiMessage `json:"messages"`
	Tools         []openaiTool    `json:"tools,omitempty"`
	MaxTokens     int             `json:"max_completion_tokens"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type openaiReply struct {
	Choices []struct {
		Message      openaiMessage `json:"message"`
		Delta        openaiMessage `json:"delta"`
		FinishReason string        `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// maxCalls bounds the calls of one reply.
const maxCalls = 64

// Reply asks for a completion.
func (p *OpenAI) Reply(ctx context.Context, r Request) (*Reply, error) {
	body := openaiRequest{Model: p.Model, MaxTokens: r.MaxTokens, Stream: true}
	body.StreamOptions.IncludeUsage = true
	say := func(role, text string) openaiMessage { return openaiMessage{Role: role, Content: &text} }
	if r.System != "" {
		body.Messages = append(body.Messages, say("system", r.System))
	}
	for _, m := range r.Messages {
		for _, a := range m.Answers {
			text := a.Text
			if a.Error {
				text = "error: " + text
			}
			out := say("tool", text)
			out.ToolCallID = a.ID
			body.Messages = append(body.Messages, out)
		}
		if m.Text == "" && len(m.Calls) == 0 {
			continue
		}
		out := say(string(m.Role), m.Text)
		for _, c := range m.Calls {
			out.ToolCalls = append(out.ToolCalls, openaiTool{ID: c.ID, Type: "function", Function: openaiFunction{Name: c.Name, Arguments: &c.Arguments}})
		}
		body.Messages = append(body.Messages, out)
	}
	for _, t := range r.Tools {
		body.Tools = append(body.Tools, openaiTool{Type: "function", Function: openaiFunction{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
	header := http.Header{}
	if p.Key != "" {
		header.Set("Authorization", "Bearer "+p.Key)
	}
	out := &Reply{}
	err := p.post(ctx, "openai", "/v1/chat/completions", header, body, func(resp *http.Response, body io.Reader) error {
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
			return readStream(body, out)
		}
		var in openaiReply
		if err := readJSON("openai", body, &in); err != nil {
			return err
		}
		if len(in.Choices) != 1 {
			return &FormatError{"openai", fmt.Sprintf("%d choices, want 1", len(in.Choices))}
		}
		return out.addOpenAI(&in, in.Choices[0].Message)
	})
	if err != nil {
		return nil, err
	}
	for i := range out.Calls {
		if out.Calls[i].ID == "" { // some local servers
			out.Calls[i].ID = fmt.Sprintf("call-%d-%d", len(r.Messages), i)
		}
	}
	usage(r, out)
	return out, nil
}

// readStream reads server-sent events up to "[DONE]".
func readStream(r io.Reader, out *Reply) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxReply)
	finished := false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue // comments and blank lines
		}
		data = strings.TrimSpace(data)
		if data == "[DONE]" {
			if !finished {
				return &CutError{"openai", "no finish_reason"}
			}
			return nil
		}
		var in openaiReply
		if err := json.Unmarshal([]byte(data), &in); err != nil {
			if !lines.Scan() { // the last line is the start of one
				return &CutError{"openai", "in an event"}
			}
			return &FormatError{"openai", "event: " + err.Error()}
		}
		if in.Error != nil {
			return &CutError{"openai", message([]byte(data))}
		}
		if len(in.Choices) == 0 {
			in.Choices = append(in.Choices, struct {
				Message      openaiMessage `json:"message"`
				Delta        openaiMessage `json:"delta"`
				FinishReason string        `json:"finish_reason"`
			}{})
		}
		finished = finished || in.Choices[0].FinishReason != ""
		if err := out.addOpenAI(&in, in.Choices[0].Delta); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return &FormatError{"openai", "an event of more than 8 MiB"}
	case err != nil:
		return err
	}
	return &CutError{"openai", "no [DONE]"}
}

// addOpenAI adds a whole message or a piece of one.
func (r *Reply) addOpenAI(in *openaiReply, m openaiMessage) error {
	if m.Content != nil {
		r.Text += *m.Content
	}
	for i, t := range m.ToolCalls {
		at := t.Index
		if at == 0 && i > 0 { // a whole message: no indices
			at = i
		}
		if at < 0 || at >= maxCalls {
			return &FormatError{"openai", fmt.Sprintf("tool call number %d", at)}
		}
		for len(r.Calls) <= at {
			r.Calls = append(r.Calls, Call{})
		}
		c := &r.Calls[at]
		if t.ID != "" {
			c.ID = t.ID
		}
		c.Name += t.Function.Name
		if t.Function.Arguments != nil {
			c.Arguments += *t.Function.Arguments
		}
	}
	if len(in.Choices) > 0 && in.Choices[0].FinishReason == "length" {
		r.Length = true
	}
	if in.Usage != nil {
		r.Usage = Usage{Input: in.Usage.Prompt, Output: in.Usage.Completion}
	}
	return nil
}
