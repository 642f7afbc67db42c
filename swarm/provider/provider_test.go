package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/swarm/provider/standin"
)

const key = "sk-test-0123456789abcdef"

var tools = []Tool{{Name: "look", Description: "Looks.", Schema: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}}}`)}}

// talk is a conversation with a call and its answer in it.
var talk = Request{Agent: "a/b", System: "be brief", MaxTokens: 50, Tools: tools, Messages: []Message{
	{Role: User, Text: "hello"},
	{Role: Assistant, Text: "let me look", Calls: []Call{{ID: "x1", Name: "look", Arguments: `{"at":"here"}`, Opaque: "sig"}, {ID: "x2", Name: "look", Arguments: `not JSON`}}},
	{Role: User, Answers: []Answer{{ID: "x1", Name: "look", Text: "seen"}, {ID: "x2", Name: "look", Text: "the arguments are no JSON", Error: true}}},
}}

func openai(t *testing.T, turns ...standin.Turn) (*OpenAI, *standin.Server) {
	s := standin.Start(t, turns...)
	c, err := NewClient(&http.Client{}, s.URL, "m", key)
	if err != nil {
		t.Fatal(err)
	}
	return &OpenAI{c}, s
}

// TestOpenAI: streamed and plain replies, in pieces, with and without usage.
func TestOpenAI(t *testing.T) {
	turn := standin.Turn{Text: "I will look there.", Calls: []standin.Call{{Name: "look", Arguments: `{"at":"there"}`}, {Name: "look", Arguments: `{"at":`}}}
	for _, fault := range []standin.Fault{standin.None, standin.Plain, standin.NoUsage} {
		turn.Fault = fault
		p, s := openai(t, turn)
		got, err := p.Reply(t.Context(), talk)
		if err != nil {
			t.Fatalf("%s: %v", fault, err)
		}
		want := &Reply{Text: turn.Text, Calls: []Call{{ID: "c1-0", Name: "look", Arguments: `{"at":"there"}`}, {ID: "c1-1", Name: "look", Arguments: `{"at":`}}, Usage: Usage{Input: 100, Output: 10}}
		if fault == standin.NoUsage {
			if !got.Usage.Estimated || got.Usage.Input < 50 || got.Usage.Output < 10 {
				t.Errorf("estimated usage %+v", got.Usage)
			}
			got.Usage = want.Usage
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", fault, d)
		}
		if r := s.Requests()[0]; r.Key != "Bearer "+key || strings.Contains(r.Body, key) {
			t.Errorf("the key is in %q, body %q", r.Key, r.Body)
		}
	}
}

// TestFaults: each fault is its kind of error, and the retry asks again exactly
// where that may help.
func TestFaults(t *testing.T) {
	for _, row := range []struct {
		fault standin.Fault
		again bool
		want  any
	}{
		{standin.Busy, true, &StatusError{}},
		{standin.Broken, true, &StatusError{}},
		{standin.Unauthorised, false, &StatusError{}},
		{standin.CutStream, true, &CutError{}},
		{standin.NoDone, true, &CutError{}},
		{standin.NoFinish, true, &CutError{}},
		{standin.ErrorEvent, true, &CutError{}},
		{standin.Garbage, false, &FormatError{}},
		{standin.HTML, false, &FormatError{}},
		{standin.Huge, false, &FormatError{}},
		{standin.Redirect, false, &StatusError{}},
		{standin.ManyCalls, false, &FormatError{}},
	} {
		t.Run(string(row.fault), func(t *testing.T) {
			p, s := openai(t, standin.Turn{Fault: row.fault, Text: "something"}, standin.Turn{Fault: row.fault, Text: "something"}, standin.Turn{Text: "well"})
			_, err := p.Reply(t.Context(), talk)
			if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", row.want) {
				t.Fatalf("%T %v, want %T", err, err, row.want)
			}
			if strings.Contains(err.Error(), key) {
				t.Errorf("the error holds the key: %v", err)
			}
			var waits []time.Duration
			r := &Retry{Provider: p, Attempts: 3, Longest: time.Minute, Wait: func(_ context.Context, d time.Duration) error {
				waits = append(waits, d)
				return nil
			}}
			reply, err := r.Reply(t.Context(), talk)
			if row.again != (err == nil) {
				t.Fatalf("%+v, %v, want a second try: %v", reply, err, row.again)
			}
			want := 2 // requests
			if row.again {
				want = 3
				lost := 0 // one of the first two requests is this retry's
				if _, cut := row.want.(*CutError); cut {
					lost = 1
				}
				if got := reply.Usage; got.Output != 10+lost*talk.MaxTokens || got.Estimated != (lost > 0) {
					t.Errorf("usage %+v with %d replies cut", got, lost)
				}
				if row.fault == standin.Busy && waits[0] != 7*time.Second {
					t.Errorf("waits %v, want what Retry-After says", waits)
				}
			}
			if got := len(s.Requests()); got != want {
				t.Errorf("%d requests, want %d", got, want)
			}
		})
	}
}

// TestRetryGivesUp: after its attempts, and where the wait is too long.
func TestRetryGivesUp(t *testing.T) {
	p, s := openai(t, standin.Turn{Fault: standin.Busy})
	wait := func(context.Context, time.Duration) error { return nil }
	var status *StatusError
	if _, err := (&Retry{Provider: p, Attempts: 4, Longest: time.Minute, Wait: wait}).Reply(t.Context(), talk); !errors.As(err, &status) || len(s.Requests()) != 4 {
		t.Errorf("%v after %d requests", err, len(s.Requests()))
	}
	if _, err := (&Retry{Provider: p, Attempts: 4, Longest: time.Second, Wait: wait}).Reply(t.Context(), talk); !errors.As(err, &status) || len(s.Requests()) != 5 {
		t.Errorf("%v after %d requests", err, len(s.Requests()))
	}
}

// echo is a server that keeps the request and gives a fixed reply.
func echo(t *testing.T, path, reply string) (base string, header *http.Header, body *map[string]any) {
	header, body = &http.Header{}, &map[string]any{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		*header = r.Header
		if r.URL.Path != path || json.Unmarshal(data, body) != nil {
			t.Errorf("%s %s: %s", r.Method, r.URL.Path, data)
		}
		io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s.URL, header, body
}

func TestAnthropic(t *testing.T) {
	base, header, body := echo(t, "/v1/messages", `{"type":"message","role":"assistant","content":[{"type":"text","text":"hm"},{"type":"tool_use","id":"t1","name":"look","input":{"at":"x"}}],
		"stop_reason":"max_tokens","usage":{"input_tokens":5,"cache_read_input_tokens":7,"cache_creation_input_tokens":1,"output_tokens":3}}`)
	c, err := NewClient(&http.Client{}, base, "m", key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&Anthropic{c}).Reply(t.Context(), talk)
	if err != nil {
		t.Fatal(err)
	}
	want := &Reply{Text: "hm", Calls: []Call{{ID: "t1", Name: "look", Arguments: `{"at":"x"}`}}, Usage: Usage{Input: 13, Output: 3}, Length: true}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if header.Get("X-Api-Key") != key || header.Get("Anthropic-Version") == "" {
		t.Errorf("header %v", *header)
	}
	wantBody := `{"max_tokens":50,"messages":[{"content":[{"text":"hello","type":"text"}],"role":"user"},` +
		`{"content":[{"text":"let me look","type":"text"},{"id":"x1","input":{"at":"here"},"name":"look","type":"tool_use"},{"id":"x2","input":{"malformed":"not JSON"},"name":"look","type":"tool_use"}],"role":"assistant"},` +
		`{"content":[{"content":"seen","tool_use_id":"x1","type":"tool_result"},{"content":"the arguments are no JSON","is_error":true,"tool_use_id":"x2","type":"tool_result"}],"role":"user"}],` +
		`"model":"m","system":"be brief","tools":[{"description":"Looks.","input_schema":{"properties":{"at":{"type":"string"}},"type":"object"},"name":"look"}]}`
	if data, _ := json.Marshal(*body); string(data) != wantBody {
		t.Errorf("body\n%s\nwant\n%s", data, wantBody)
	}
	cut, _, _ := echo(t, "/v1/messages", `{"type":"message","content":[{"type":"te`)
	c.Base = cut
	var e *CutError
	if _, err := (&Anthropic{c}).Reply(t.Context(), talk); !errors.As(err, &e) {
		t.Errorf("a cut document: %v", err)
	}
}

func TestGemini(t *testing.T) {
	base, header, body := echo(t, "/v1beta/models/m:generateContent", `{"candidates":[{"content":{"role":"model","parts":[{"text":"thinking","thought":true},{"text":"hm"},{"functionCall":{"name":"look","args":{"at":"x"}},"thoughtSignature":"s"}]},"finishReason":"STOP"}],
		"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"thoughtsTokenCount":2}}`)
	c, err := NewClient(&http.Client{}, base, "m", key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&Gemini{c}).Reply(t.Context(), talk)
	if err != nil {
		t.Fatal(err)
	}
	want := &Reply{Text: "hm", Calls: []Call{{ID: "call-3-0", Name: "look", Arguments: `{"at":"x"}`, Opaque: "s"}}, Usage: Usage{Input: 5, Output: 5}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if header.Get("X-Goog-Api-Key") != key {
		t.Errorf("header %v", *header)
	}
	data, _ := json.Marshal(*body)
	for _, part := range []string{`{"functionCall":{"args":{"at":"here"},"name":"look"},"thoughtSignature":"sig"}`, `{"functionResponse":{"name":"look","response":{"error":"the arguments are no JSON"}}}`, `"parametersJsonSchema":{`, `"systemInstruction":{"parts":[{"text":"be brief"}]}`, `"maxOutputTokens":50`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("body lacks %s:\n%s", part, data)
		}
	}
}

// TestNewClient: keys go over https, or nowhere but to this machine.
func TestNewClient(t *testing.T) {
	for _, row := range []struct {
		base, model, key string
		ok               bool
	}{
		{"https://api.example.com", "m", key, true},
		{"http://localhost:8080/", "m", key, true},
		{"http://127.0.0.1:1", "m", key, true},
		{"http://[::1]:1", "m", key, true},
		{"http://api.example.com", "m", key, false},
		{"http://localhost.example.com", "m", key, false},
		{"http://gpu-box:8000", "m", "", true},
		{"https://user:pass@api.example.com", "m", key, false},
		{"https://api.example.com?x=1", "m", key, false},
		{"file:///etc/passwd", "m", "", false},
		{"api.example.com", "m", key, false},
		{"https://api.example.com", "", key, false},
	} {
		if _, err := NewClient(&http.Client{}, row.base, row.model, row.key); (err == nil) != row.ok {
			t.Errorf("%s, model %q, key %q: %v", row.base, row.model, row.key, err)
		}
	}
}

// TestRecordAndReplay: what was recorded replays to the same replies, labelled as
// scripted, and holds no secret.
func TestRecordAndReplay(t *testing.T) {
	p, _ := openai(t, standin.Turn{Text: "the key is " + key, Calls: []standin.Call{{Name: "look", Arguments: `{"at":"` + key + `"}`}}}, standin.Turn{Text: "second"})
	var file bytes.Buffer
	r := &Recorder{Provider: p, To: &file, Hide: func(s string) string { return strings.ReplaceAll(s, key, "[secret]") }}
	for range 2 {
		if _, err := r.Reply(t.Context(), talk); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(file.String(), key) || !strings.Contains(file.String(), `"from":"openai m"`) {
		t.Errorf("recorded %s", file.String())
	}
	s, err := NewScript("rec.jsonl", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if l := s.Label(); !l.Scripted || l.String() != "SCRIPTED replies of rec.jsonl (no model)" {
		t.Errorf("label %v", l)
	}
	first, err := s.Reply(t.Context(), talk)
	if err != nil || first.Text != "the key is [secret]" || first.Calls[0].Arguments != `{"at":"[secret]"}` || first.Usage.Input != 100 {
		t.Errorf("%+v, %v", first, err)
	}
	if second, err := s.Reply(t.Context(), talk); err != nil || second.Text != "second" {
		t.Errorf("%+v, %v", second, err)
	}
	if _, err := s.Reply(t.Context(), talk); !errors.Is(err, ErrScript) {
		t.Errorf("third reply: %v", err)
	}
	if _, err := s.Reply(t.Context(), Request{Agent: "other"}); !errors.Is(err, ErrScript) {
		t.Errorf("another agent: %v", err)
	}
}

func TestScriptErrors(t *testing.T) {
	for text, want := range map[string]string{
		"// fine\n\nx":                       "s:3: ",
		`{"agent":"a","reply":{},"extra":1}`: "s:1: ",
		`{"reply":{}}`:                       "agent",
		`{"agent":"a","reply":{}} {}`:        "one JSON object",
		`{"agent":"a","reply":{"text":3}}`:   "s:1: ",
	} {
		if _, err := NewScript("s", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n")
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1}]}}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		var r Reply
		if err := readStream(strings.NewReader(text), &r); err == nil && !strings.Contains(text, "[DONE]") {
			t.Errorf("a stream without an end is whole: %q", text)
		}
	})
}

func FuzzScript(f *testing.F) {
	f.Add([]byte(`{"agent":"a","reply":{"text":"x","calls":[{"id":"","name":"n","arguments":"{}"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := NewScript("s", data)
		var bad *ScriptError
		if err != nil && !errors.As(err, &bad) || err == nil && s == nil {
			t.Errorf("%v", err)
		}
	})
}
