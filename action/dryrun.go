package action

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DryRun is a GitHub that reads the real one and prints what would be written.
type DryRun struct {
	// Real is nil without a token: then only the event is known.
	Real  GitHub
	Event *Event
	Out   io.Writer
}

var errNoToken = errors.New("there is no token")

func (d *DryRun) Pull(ctx context.Context, number int) (*Pull, error) {
	if d.Real == nil {
		return &Pull{Number: d.Event.Number, Head: d.Event.Head, Open: true}, nil
	}
	return d.Real.Pull(ctx, number)
}

func (d *DryRun) OpenPulls(ctx context.Context, head string) ([]Pull, error) {
	if d.Real == nil {
		return nil, errNoToken
	}
	return d.Real.OpenPulls(ctx, head)
}

func (d *DryRun) PullFiles(ctx context.Context, number int) ([]ChangedFile, bool, error) {
	if d.Real == nil {
		return nil, false, errNoToken
	}
	return d.Real.PullFiles(ctx, number)
}

func (d *DryRun) Compare(ctx context.Context, base, head string) ([]ChangedFile, bool, error) {
	if d.Real == nil {
		return nil, false, errNoToken
	}
	return d.Real.Compare(ctx, base, head)
}

func (d *DryRun) Comments(ctx context.Context, number int) ([]Comment, error) {
	if d.Real == nil {
		return nil, nil
	}
	return d.Real.Comments(ctx, number)
}

func (d *DryRun) Run(ctx context.Context, id int64) (*WorkflowRun, error) {
	if d.Real == nil {
		return nil, errNoToken
	}
	return d.Real.Run(ctx, id)
}

func (d *DryRun) RunArtifacts(ctx context.Context, run int64, name string) ([]Artifact, error) {
	if d.Real == nil {
		return nil, errNoToken
	}
	return d.Real.RunArtifacts(ctx, run, name)
}

func (d *DryRun) Download(ctx context.Context, id, limit int64, w io.Writer) error {
	if d.Real == nil {
		return errNoToken
	}
	return d.Real.Download(ctx, id, limit, w)
}

func (d *DryRun) CreateComment(_ context.Context, number int, body string) error {
	return d.print(fmt.Sprintf("new comment on pull request %d", number), body)
}

func (d *DryRun) EditComment(_ context.Context, id int64, body string) error {
	return d.print(fmt.Sprintf("comment %d becomes", id), body)
}

func (d *DryRun) CreateCheck(_ context.Context, c Check) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return d.print("check run", string(text))
}

func (d *DryRun) UploadSARIF(_ context.Context, commit, ref, encoded string) error {
	packed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return d.print(fmt.Sprintf("code scanning of %s at %s", ref, commit), string(text))
}

func (d *DryRun) print(what, text string) error {
	_, err := fmt.Fprintf(d.Out, "dry run: %s:\n%s\n", what, text)
	return err
}
