// Package standin is a server for tests that speaks OpenAI's chat completions as
// strictly as the real one and misbehaves on request.
package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Fault is one way to misbehave.
type Fault string

const (
	None         Fault = ""
	Busy         Fault = "429"               // with Retry-After
	Broken       Fault = "500"               // with an error body
	Unauthorised Fault = "401"               // with the key in the error body
	CutStream    Fault = "cut stream"        // the connection closes in an event
	NoDone       Fault = "no [DONE]"         // the stream ends early, but cleanly
	NoFinish     Fault = "no finish reason"  // [DONE] comes too early
	ErrorEvent   Fault = "error in a stream" // an error instead of an event
	Garbage      Fault = "garbage"           // an event that is no JSON
	HTML         Fault = "html"              // a proxy's page with status 200
	Plain        Fault = "not streamed"      // one JSON document; some servers do
	NoUsage      Fault = "no usage"
	Huge         Fault = "huge"     // more than any reply
	Redirect     Fault = "redirect" // to another host
	ManyCalls    Fault = "call 1000000"
)

// Call is a tool call to make.
type Call struct{ Name, Arguments string }

// Turn is one response.
type Turn struct {
	Fault Fault
	Text  string
	Calls []Call
}

// Message is a message of a request.
type Message struct {
	Role       string  `json:"role"`
	Content    *string `json:"content"`
	ToolCallID string  `json:"tool_call_id,omitempty"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls,omitempty"`
}

// Request is what came.
type Request struct {
	Key      string    `json:"-"`
	Body     string    `json:"-"`
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Parameters  map[string]any `json:"parameters"`
		} `json:"function"`
	} `json:"tools,omitempty"`
	MaxTokens     int  `json:"max_completion_tokens"`
	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// Server answers with turns in order, the last one again and again.
type Server struct {
	URL   string
	mu    sync.Mutex
	turns []Turn
	seen  []Request
}

// Start starts a server, which the end of the test closes.
func Start(t *testing.T, turns ...Turn) *Server {
	s := &Server{turns: turns}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.serve(w, r); err != nil {
			t.Errorf("request: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Requests are those that came so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.seen...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
		return fmt.Errorf("%s %s", r.Method, r.URL)
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	in := Request{Key: r.Header.Get("Authorization"), Body: string(data)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	s.mu.Lock()
	turn := s.turns[min(len(s.seen), len(s.turns)-1)]
	s.seen = append(s.seen, in)
	n := len(s.seen)
	s.mu.Unlock()
	respond(w, turn, n, in.Key)
	return nil
}

// check is what the real server refuses.
func (r *Request) check() error {
	if r.Model == "" || r.MaxTokens < 1 || len(r.Messages) == 0 || !r.Stream || !r.StreamOptions.IncludeUsage {
		return fmt.Errorf("model %q, max_completion_tokens %d, %d messages, stream %v", r.Model, r.MaxTokens, len(r.Messages), r.Stream)
	}
	open := map[string]bool{}
	for i, m := range r.Messages {
		if m.Role != "tool" && len(open) > 0 {
			return fmt.Errorf("message %d: tool calls without answers: %v", i, open)
		}
		switch {
		case m.Content == nil:
			return fmt.Errorf("message %d has no content", i)
		case m.Role == "tool" && !open[m.ToolCallID]:
			return fmt.Errorf("message %d answers the unknown call %q", i, m.ToolCallID)
		case m.Role == "tool":
			delete(open, m.ToolCallID)
		case m.Role == "assistant":
			for _, c := range m.ToolCalls {
				open[c.ID] = true
			}
		case m.Role != "user" && m.Role != "system":
			return fmt.Errorf("message %d has the role %q", i, m.Role)
		}
	}
	for _, t := range r.Tools {
		if t.Type != "function" || t.Function.Name == "" || t.Function.Parameters["type"] != "object" {
			return fmt.Errorf("tool %+v", t)
		}
	}
	return nil
}

func respond(w http.ResponseWriter, t Turn, n int, key string) {
	fail := func(status int, text string) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": text, "type": "error"}})
	}
	switch t.Fault {
	case Busy:
		w.Header().Set("Retry-After", "7")
		fail(429, "slow down")
		return
	case Broken:
		fail(500, "boom")
		return
	case Unauthorised:
		fail(401, "wrong key: "+key)
		return
	case HTML:
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>welcome to this network</html>")
		return
	case Redirect:
		http.Redirect(w, &http.Request{Method: "POST"}, "http://example.invalid/v1/chat/completions", http.StatusTemporaryRedirect)
		return
	case Plain:
		message := map[string]any{"role": "assistant", "content": t.Text}
		var calls []any
		for i, c := range t.Calls {
			calls = append(calls, map[string]any{"id": fmt.Sprintf("c%d-%d", n, i), "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
		}
		if calls != nil {
			message["tool_calls"] = calls
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message, "finish_reason": "stop"}}, "usage": map[string]int{"prompt_tokens": 100, "completion_tokens": 10}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(v any) {
		data, _ := json.Marshal(v) // plain data marshals
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
	delta := func(d map[string]any, finish any) {
		event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": d, "finish_reason": finish}}})
	}
	fmt.Fprint(w, ": a comment\n\n")
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	for i := 0; i < len(t.Text); i += 7 { // in pieces
		delta(map[string]any{"content": t.Text[i:min(i+7, len(t.Text))]}, nil)
	}
	for i, c := range t.Calls {
		half := len(c.Arguments) / 2
		delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprintf("c%d-%d", n, i), "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments[:half]}}}}, nil)
		delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": c.Arguments[half:]}}}}, nil)
	}
	switch t.Fault {
	case CutStream:
		fmt.Fprint(w, `data: {"choices":[{"index":0,"del`)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case NoDone:
		return
	case NoFinish:
		fmt.Fprint(w, "data: [DONE]\n\n")
		return
	case ErrorEvent:
		event(map[string]any{"error": map[string]any{"message": "overloaded"}})
		return
	case Garbage:
		fmt.Fprint(w, "data: {{{\n\n")
		return
	case Huge:
		for range 1200 {
			delta(map[string]any{"content": string(make([]byte, 8<<10))}, nil)
		}
	case ManyCalls:
		delta(map[string]any{"tool_calls": []any{map[string]any{"index": 1000000, "function": map[string]any{"name": "x"}}}}, nil)
	}
	delta(map[string]any{}, "stop")
	if t.Fault != NoUsage {
		event(map[string]any{"choices": []any{}, "usage": map[string]int{"prompt_tokens": 100, "completion_tokens": 10}})
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
