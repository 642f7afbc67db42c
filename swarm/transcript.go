package swarm

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/passgate/passgate/swarm/provider"
)

// Event is one line of a transcript.
type Event struct {
	Seq  int       `json:"seq"`
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // start, prompt, reply, answer, accepted, refused, failed, end, total
	// Agent is who it is about, "" for the swarm.
	Agent string `json:"agent,omitempty"`
	Role  Role   `json:"role,omitempty"`
	// Finding and Cluster are what the agent works on.
	Finding string `json:"finding,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Source says who gave the reply; Scripted that no model did.
	Source   string          `json:"source"`
	Scripted bool            `json:"scripted"`
	Text     string          `json:"text,omitempty"`
	Calls    []provider.Call `json:"calls,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	Error    bool            `json:"error,omitempty"`
	// Tokens and Cost are of one reply, or of a whole agent or finding.
	Tokens *provider.Usage `json:"tokens,omitempty"`
	Cost   float64         `json:"cost,omitempty"`
}

// transcript writes events as JSON lines.
type transcript struct {
	to      io.Writer
	now     func() time.Time
	label   provider.Label
	secrets *Secrets

	mu  sync.Mutex
	seq int
	err error // of the first write that failed
}

func (t *transcript) write(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	e.Seq, e.At, e.Source, e.Scripted = t.seq, t.now().UTC(), t.label.String(), t.label.Scripted
	e.Text = t.secrets.Hide(e.Text)
	e.Calls = slices.Clone(e.Calls)
	for i := range e.Calls {
		e.Calls[i].Arguments = t.secrets.Hide(e.Calls[i].Arguments)
	}
	data, err := json.Marshal(e)
	if err == nil {
		_, err = t.to.Write(append(data, '\n'))
	}
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("transcript: %w", err)
	}
}
