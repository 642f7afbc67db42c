package action

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Retry is a transport that waits out rate limits and tries again what failed on
// the way, within limits.
type Retry struct {
	Next  http.RoundTripper
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
	// Longest is the longest wait for a rate limit; a longer one is the
	// caller's trouble.
	Longest time.Duration
}

// attempts is how often a request is made at most.
const attempts = 4

// RoundTrip makes a request. A request that changes something is repeated only
// if the server said that it did nothing (a rate limit) or if doing it twice is
// the same as once: two comments are worse than none.
func (t *Retry) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := t.Next.RoundTrip(req)
		if try == attempts || req.Context().Err() != nil {
			return resp, err
		}
		again := req.Method == http.MethodGet || req.Method == http.MethodPatch
		wait := time.Second << (try - 1)
		switch {
		case err != nil:
			if !again {
				return nil, err
			}
		case limited(resp):
			wait = t.limit(resp, wait)
			if wait > t.Longest {
				return resp, nil
			}
		case resp.StatusCode >= 500:
			if !again {
				return resp, nil
			}
		default:
			return resp, nil
		}
		if req.Body != nil {
			if req.GetBody == nil {
				return resp, err
			}
			body, berr := req.GetBody()
			if berr != nil {
				return resp, err
			}
			req = req.Clone(req.Context())
			req.Body = body
		}
		if resp != nil {
			io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
			resp.Body.Close()
		}
		if err := t.Sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// limited reports a primary or secondary rate limit
// (docs.github.com/rest, "Rate limits for the REST API").
func limited(r *http.Response) bool {
	return r.StatusCode == http.StatusTooManyRequests ||
		r.StatusCode == http.StatusForbidden && (r.Header.Get("Retry-After") != "" || r.Header.Get("X-RateLimit-Remaining") == "0")
}

func (t *Retry) limit(r *http.Response, least time.Duration) time.Duration {
	if s, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && s >= 0 {
		return max(least, time.Duration(min(s, 1<<20))*time.Second)
	}
	if s, err := strconv.ParseInt(r.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil && r.Header.Get("X-RateLimit-Remaining") == "0" {
		return max(least, time.Unix(s, 0).Sub(t.Now())+time.Second)
	}
	return least
}
