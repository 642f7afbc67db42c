// Package provider asks language models for replies: hosted ones, local
// OpenAI-compatible servers, and a script of stored replies.
//
// It speaks plain net/http. Each wire format needs three requests' worth of JSON;
// the official SDKs bring hundreds of packages, and retries, environment variables
// and logging of their own, which would have to be switched off again.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Role says who wrote a message.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Tool is a function that a model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments, an object
}

// Call is a model's wish to call a tool. Arguments are what the model wrote,
// perhaps no JSON at all.
type Call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	// Opaque is what a provider wants back with the call in later requests.
	Opaque string `json:"opaque,omitempty"`
}

// Answer is what a call gave.
type Answer struct {
	ID    string `json:"id"` // of the call
	Name  string `json:"name"`
	Text  string `json:"text"`
	Error bool   `json:"error,omitempty"`
}

// Message is one turn. A user's turn may hold answers, an assistant's calls.
type Message struct {
	Role    Role     `json:"role"`
	Text    string   `json:"text,omitempty"`
	Calls   []Call   `json:"calls,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
}

// Request is a conversation so far.
type Request struct {
	// Agent names who asks, "analyst/case-7": a script is found by it. It is not
	// sent anywhere.
	Agent    string
	System   string
	Messages []Message
	Tools    []Tool
	// MaxTokens bounds the reply; at least 1.
	MaxTokens int
}

// Usage counts tokens as the provider bills them.
type Usage struct {
	Input  int `json:"input"`
	Output int `json:"output"`
	// Estimated says that the provider told nothing and the counts are a third of
	// the bytes, which is more than tokenizers make of code.
	Estimated bool `json:"estimated,omitempty"`
}

// Reply is a model's turn.
type Reply struct {
	Text  string `json:"text,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	Usage Usage  `json:"usage"`
	// Length says that the reply was cut at MaxTokens.
	Length bool `json:"length,omitempty"`
}

// Label says where replies come from.
type Label struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// Scripted replies were stored beforehand: no model read the prompt.
	Scripted bool `json:"scripted"`
}

// String is "anthropic MODEL" or "SCRIPTED replies of FILE (no model)".
func (l Label) String() string {
	if l.Scripted {
		return "SCRIPTED replies of " + l.Model + " (no model)"
	}
	return strings.TrimSpace(l.Provider + " " + l.Model)
}

// Provider gives replies.
type Provider interface {
	Label() Label
	// Reply continues a conversation. Errors are *StatusError, *CutError,
	// *FormatError, ErrScript, or those of ctx and the network.
	Reply(ctx context.Context, r Request) (*Reply, error)
}

// StatusError is an HTTP status other than 200.
type StatusError struct {
	Provider string
	Status   int
	Message  string        // of the provider, shortened
	After    time.Duration // what Retry-After asks for; 0 if it asks for nothing
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answers %d: %s", e.Provider, e.Status, e.Message)
}

// CutError is a reply that ended in the middle.
type CutError struct{ Provider, Where string }

func (e *CutError) Error() string { return e.Provider + ": the reply ends in the middle: " + e.Where }

// FormatError is a reply that is not of the provider's form.
type FormatError struct{ Provider, Reason string }

func (e *FormatError) Error() string {
	return e.Provider + ": not the form of a reply: " + e.Reason
}

// ErrScript says that a script has no further reply for an agent.
var ErrScript = errors.New("the script has no further reply")

// retryable reports whether the same request may do better a little later.
func retryable(err error) (bool, time.Duration) {
	var status *StatusError
	if errors.As(err, &status) {
		switch {
		case status.Status == 429, status.Status == 408, status.Status == 529, status.Status >= 500 && status.Status <= 504:
			return true, status.After
		}
		return false, 0
	}
	var cut *CutError
	return errors.As(err, &cut), 0
}

// Retry asks again where a provider is busy or a reply was cut. A reply that was
// cut is billed all the same: it is counted at its worst.
type Retry struct {
	Provider
	// Attempts is the number of requests, at least 1.
	Attempts int
	// Wait waits, or returns ctx's error.
	Wait func(ctx context.Context, d time.Duration) error
	// Longest is the longest wait that a provider may ask for; a longer one is
	// its error.
	Longest time.Duration
}

// firstWait is the wait after a first failure; it doubles.
const firstWait = time.Second

// Reply asks until there is a reply.
func (p *Retry) Reply(ctx context.Context, r Request) (*Reply, error) {
	wait := firstWait
	var lost Usage
	for i := 1; ; i++ {
		reply, err := p.Provider.Reply(ctx, r)
		if err == nil {
			reply.Usage.Input += lost.Input
			reply.Usage.Output += lost.Output
			reply.Usage.Estimated = reply.Usage.Estimated || lost.Estimated
			return reply, nil
		}
		if errors.As(err, new(*CutError)) {
			lost.Input += EstimateTokens(r)
			lost.Output += r.MaxTokens
			lost.Estimated = true
		}
		again, after := retryable(err)
		if !again || i >= p.Attempts || after > p.Longest || ctx.Err() != nil {
			return nil, err
		}
		if err := p.Wait(ctx, max(wait, after)); err != nil {
			return nil, err
		}
		wait *= 2
	}
}

// EstimateTokens is a high guess at the tokens of a request, without its reply.
func EstimateTokens(r Request) int {
	n := len(r.System)
	for _, m := range r.Messages {
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Arguments) + len(c.Opaque)
		}
		for _, a := range m.Answers {
			n += len(a.Text)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n/3 + 1
}

// usage fills counts that a provider did not give.
func usage(r Request, reply *Reply) {
	if reply.Usage.Input > 0 || reply.Usage.Output > 0 {
		return
	}
	n := len(reply.Text)
	for _, c := range reply.Calls {
		n += len(c.Name) + len(c.Arguments)
	}
	reply.Usage = Usage{Input: EstimateTokens(r), Output: n/3 + 1, Estimated: true}
}
