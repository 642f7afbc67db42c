package provider

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// AnthropicBase is the root of Anthropic's API.
const AnthropicBase = "https://api.anthropic.com"

// Anthropic speaks the Messages API (platform.claude.com/docs/en/api/messages).
type Anthropic struct{ *Client }

// Label names the provider.
func (p *Anthropic) Label() Label { return Label{Provider: "anthropic", Model: p.Model} }

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

type anthropicMessage struct {
	Role    Role             `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	System    string             `json:"system,omitempty"`
	Messages  []anthropicMessage `json:"messages"`
	Tools     []anthropicTool    `json:"tools,omitempty"`
}

type anthropicReply struct {
	Type       string           `json:"type"`
	Content    []anthropicBlock `json:"content"`
	StopReason string           `json:"stop_reason"`
	Usage      struct {
		Input       int `json:"input_tokens"`
		CacheWrites int `json:"cache_creation_input_tokens"`
		CacheReads  int `json:"cache_read_input_tokens"`
		Output      int `json:"output_tokens"`
	} `json:"usage"`
}

// Reply asks for a message.
func (p *Anthropic) Reply(ctx context.Context, r Request) (*Reply, error) {
	body := anthropicRequest{Model: p.Model, MaxTokens: r.MaxTokens, System: r.System}
	for _, t := range r.Tools {
		body.Tools = append(body.Tools, anthropicTool{t.Name, t.Description, t.Schema})
	}
	for _, m := range r.Messages {
		out := anthropicMessage{Role: m.Role}
		for _, a := range m.Answers { // results come first in a turn
			out.Content = append(out.Content, anthropicBlock{Type: "tool_result", ToolUseID: a.ID, Content: a.Text, IsError: a.Error})
		}
		if m.Text != "" {
			out.Content = append(out.Content, anthropicBlock{Type: "text", Text: m.Text})
		}
		for _, c := range m.Calls {
			out.Content = append(out.Content, anthropicBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: object(c.Arguments)})
		}
		if len(out.Content) == 0 {
			out.Content = []anthropicBlock{{Type: "text", Text: "(nothing)"}}
		}
		body.Messages = append(body.Messages, out)
	}
	header := http.Header{"Anthropic-Version": {"2023-06-01"}}
	if p.Key != "" {
		header.Set("X-Api-Key", p.Key)
	}
	var in anthropicReply
	if err := p.post(ctx, "anthropic", "/v1/messages", header, body, func(_ *http.Response, body io.Reader) error {
		return readJSON("anthropic", body, &in)
	}); err != nil {
		return nil, err
	}
	if in.Type != "message" {
		return nil, &FormatError{"anthropic", "type " + in.Type + ", want message"}
	}
	out := &Reply{Length: in.StopReason == "max_tokens", Usage: Usage{Input: in.Usage.Input + in.Usage.CacheWrites + in.Usage.CacheReads, Output: in.Usage.Output}}
	for _, b := range in.Content {
		switch b.Type {
		case "text":
			out.Text += b.Text
		case "tool_use":
			out.Calls = append(out.Calls, Call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		}
	}
	usage(r, out)
	return out, nil
}

// object is arguments as a JSON object, for providers that take nothing else: a
// call whose arguments were no object is sent back inside one.
func object(arguments string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &fields) == nil && fields != nil {
		return json.RawMessage(arguments)
	}
	out, _ := json.Marshal(map[string]string{"malformed": arguments}) // strings marshal
	return out
}
