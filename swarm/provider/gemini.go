package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// GeminiBase is the root of the Gemini API.
const GeminiBase = "https://generativelanguage.googleapis.com"

// Gemini speaks generateContent (ai.google.dev/api/generate-content).
type Gemini struct{ *Client }

// Label names the provider.
func (p *Gemini) Label() Label { return Label{Provider: "gemini", Model: p.Model} }

type geminiCall struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type geminiAnswer struct {
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type geminiPart struct {
	Text             string        `json:"text,omitempty"`
	Thought          bool          `json:"thought,omitempty"`
	FunctionCall     *geminiCall   `json:"functionCall,omitempty"`
	FunctionResponse *geminiAnswer `json:"functionResponse,omitempty"`
	// ThoughtSignature goes back with the call that it came with.
	ThoughtSignature string `json:"thoughtSignature,omitempty"`
}

type geminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []geminiPart `json:"parts"`
}

type geminiDeclaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parametersJsonSchema"`
}

type geminiTools struct {
	Declarations []geminiDeclaration `json:"functionDeclarations"`
}

type geminiRequest struct {
	System     *geminiContent  `json:"systemInstruction,omitempty"`
	Contents   []geminiContent `json:"contents"`
	Tools      []geminiTools   `json:"tools,omitempty"`
	Generation struct {
		MaxTokens int `json:"maxOutputTokens"`
	} `json:"generationConfig"`
}

type geminiReply struct {
	Candidates []struct {
		Content      geminiContent `json:"content"`
		FinishReason string        `json:"finishReason"`
	} `json:"candidates"`
	Usage struct {
		Prompt     int `json:"promptTokenCount"`
		Candidates int `json:"candidatesTokenCount"`
		Thoughts   int `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
}

// Reply asks for content.
func (p *Gemini) Reply(ctx context.Context, r Request) (*Reply, error) {
	var body geminiRequest
	body.Generation.MaxTokens = r.MaxTokens
	if r.System != "" {
		body.System = &geminiContent{Parts: []geminiPart{{Text: r.System}}}
	}
	for _, m := range r.Messages {
		out := geminiContent{Role: "user"}
		if m.Role == Assistant {
			out.Role = "model"
		}
		for _, a := range m.Answers {
			key := "result"
			if a.Error {
				key = "error"
			}
			out.Parts = append(out.Parts, geminiPart{FunctionResponse: &geminiAnswer{a.Name, map[string]string{key: a.Text}}})
		}
		if m.Text != "" {
			out.Parts = append(out.Parts, geminiPart{Text: m.Text})
		}
		for _, c := range m.Calls {
			out.Parts = append(out.Parts, geminiPart{FunctionCall: &geminiCall{c.Name, object(c.Arguments)}, ThoughtSignature: c.Opaque})
		}
		if len(out.Parts) == 0 {
			out.Parts = []geminiPart{{Text: "(nothing)"}}
		}
		body.Contents = append(body.Contents, out)
	}
	if len(r.Tools) > 0 {
		var t geminiTools
		for _, d := range r.Tools {
			t.Declarations = append(t.Declarations, geminiDeclaration{d.Name, d.Description, d.Schema})
		}
		body.Tools = []geminiTools{t}
	}
	header := http.Header{}
	if p.Key != "" {
		header.Set("X-Goog-Api-Key", p.Key)
	}
	var in geminiReply
	if err := p.post(ctx, "gemini", "/v1beta/models/"+url.PathEscape(p.Model)+":generateContent", header, body, func(_ *http.Response, body io.Reader) error {
		return readJSON("gemini", body, &in)
	}); err != nil {
		return nil, err
	}
	if len(in.Candidates) != 1 {
		return nil, &FormatError{"gemini", fmt.Sprintf("%d candidates, want 1", len(in.Candidates))}
	}
	out := &Reply{Length: in.Candidates[0].FinishReason == "MAX_TOKENS", Usage: Usage{Input: in.Usage.Prompt, Output: in.Usage.Candidates + in.Usage.Thoughts}}
	for _, part := range in.Candidates[0].Content.Parts {
		switch {
		case part.FunctionCall != nil:
			args := string(part.FunctionCall.Args)
			if args == "" {
				args = "{}"
			}
			out.Calls = append(out.Calls, Call{ID: fmt.Sprintf("call-%d-%d", len(r.Messages), len(out.Calls)), Name: part.FunctionCall.Name, Arguments: args, Opaque: part.ThoughtSignature})
		case !part.Thought:
			out.Text += part.Text
		}
	}
	usage(r, out)
	return out, nil
}
