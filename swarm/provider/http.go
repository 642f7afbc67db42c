package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxReply caps the bytes of one HTTP response.
const maxReply = 8 << 20

// Client is a place that speaks HTTP.
type Client struct {
	// HTTP makes requests; its redirects are not followed.
	HTTP *http.Client
	// Base is the root of the API, "https://api.anthropic.com".
	Base  string
	Model string
	// Key is the secret; "" sends none. It goes into one header, and is taken out
	// of every error text.
	Key string
}

// NewClient checks the base: https, or http to this machine, since the key
// travels with every request.
func NewClient(h *http.Client, base, model, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("%q: want the URL of an API, without a user and a query", base)
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && (u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") || u.Hostname() == "::1"):
	case u.Scheme == "http" && key == "":
	default:
		return nil, fmt.Errorf("%q: want https, since the key goes there", base)
	}
	if model == "" {
		return nil, errors.New("no model is named")
	}
	c := *h
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{HTTP: &c, Base: strings.TrimRight(base, "/"), Model: model, Key: key}, nil
}

// post sends JSON and hands the response of status 200 to read.
func (c *Client) post(ctx context.Context, name, path string, header http.Header, body any, read func(*http.Response, io.Reader) error) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+path, bytes.NewReader(data))
	if err != nil {
		return c.clean(err)
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return c.clean(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return &StatusError{Provider: name, Status: resp.StatusCode, Message: c.hide(message(text)), After: after(resp.Header)}
	}
	limited := &io.LimitedReader{R: resp.Body, N: maxReply}
	err = read(resp, limited)
	switch {
	case err != nil && limited.N <= 0:
		return &FormatError{name, fmt.Sprintf("more than %d bytes", maxReply)}
	case errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil:
		return &CutError{name, "the connection closed"}
	}
	return c.clean(err)
}

// readJSON reads one JSON document.
func readJSON(name string, r io.Reader, into any) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && int(syntax.Offset) >= len(bytes.TrimRight(data, " \n")) {
			return &CutError{name, "the JSON document is not finished"}
		}
		return &FormatError{name, err.Error()}
	}
	return nil
}

// message is the text of an error body.
func message(body []byte) string {
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	text := string(body)
	if json.Unmarshal(body, &e) == nil && len(e.Error) > 0 {
		var inner struct {
			Message string `json:"message"`
		}
		var plain string
		switch {
		case json.Unmarshal(e.Error, &plain) == nil:
			text = plain
		case json.Unmarshal(e.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "..."
	}
	return text
}

func after(h http.Header) time.Duration {
	n, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
	if err != nil || n < 0 || n > 1e6 {
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// hide takes the key out of a text.
func (c *Client) hide(s string) string {
	if c.Key == "" {
		return s
	}
	return strings.ReplaceAll(s, c.Key, "[key]")
}

// cleanError is an error whose text has no key.
type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }

func (c *Client) clean(err error) error {
	if err == nil || c.Key == "" || !strings.Contains(err.Error(), c.Key) {
		return err
	}
	return &cleanError{c.hide(err.Error()), err}
}
