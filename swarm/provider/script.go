package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Line is one line of a script: the next reply for an agent. Scripts and
// recordings are the same, JSON objects one per line; lines that start with "//"
// and blank ones are skipped.
type Line struct {
	Agent string `json:"agent"`
	Reply Reply  `json:"reply"`
	// From says which model gave the reply when it was recorded; a script that
	// somebody wrote has none.
	From string `json:"from,omitempty"`
}

// Script replays stored replies. It is safe for concurrent use.
type Script struct {
	name    string
	mu      sync.Mutex
	replies map[string][]Line
}

// ScriptError is a script that cannot be read.
type ScriptError struct {
	File string
	Line int
	Msg  string
}

func (e *ScriptError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// NewScript reads a script; name is the file's. The error is a *ScriptError.
func NewScript(name string, data []byte) (*Script, error) {
	s := &Script{name: name, replies: map[string][]Line{}}
	for i, text := range bytes.Split(data, []byte("\n")) {
		text = bytes.TrimSpace(text)
		if len(text) == 0 || bytes.HasPrefix(text, []byte("//")) {
			continue
		}
		var l Line
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, &ScriptError{name, i + 1, "want a JSON object {agent, reply}: " + err.Error()}
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, &ScriptError{name, i + 1, "want one JSON object on a line"}
		}
		if l.Agent == "" {
			return nil, &ScriptError{name, i + 1, "want an agent, such as \"stressor/algsimp\""}
		}
		s.replies[l.Agent] = append(s.replies[l.Agent], l)
	}
	return s, nil
}

// Label says that the replies are scripted.
func (s *Script) Label() Label { return Label{Provider: "script", Model: s.name, Scripted: true} }

// Reply is the agent's next stored reply. The conversation is not looked at.
func (s *Script) Reply(ctx context.Context, r Request) (*Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.replies[r.Agent]
	if len(rest) == 0 {
		return nil, fmt.Errorf("%s: %w for %s", s.name, ErrScript, r.Agent)
	}
	s.replies[r.Agent] = rest[1:]
	reply := rest[0].Reply
	for i := range reply.Calls {
		if reply.Calls[i].ID == "" {
			reply.Calls[i].ID = fmt.Sprintf("call-%d-%d", len(r.Messages), i)
		}
	}
	usage(r, &reply)
	return &reply, nil
}

// Recorder writes every reply of a provider as a line of a script. Hide takes
// secrets out of what is written.
type Recorder struct {
	Provider
	To   io.Writer
	Hide func(string) string
	mu   sync.Mutex
}

// Reply asks and records.
func (r *Recorder) Reply(ctx context.Context, q Request) (*Reply, error) {
	reply, err := r.Provider.Reply(ctx, q)
	if err != nil {
		return nil, err
	}
	l := Line{Agent: q.Agent, Reply: *reply, From: r.Label().String()}
	l.Reply.Text = r.Hide(reply.Text)
	l.Reply.Calls = nil
	for _, c := range reply.Calls {
		c.Arguments = r.Hide(c.Arguments)
		l.Reply.Calls = append(l.Reply.Calls, c)
	}
	data, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.To.Write(append(data, '\n')); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	return reply, nil
}
