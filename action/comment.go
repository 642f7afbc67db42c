package action

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"errors"

	"github.com/google/go-github/v62/github"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports"
)

// maxComment is what GitHub takes of a comment.
const maxComment = 65536

// historyMark starts the history; what stands before it may hold anything.
const historyMark = "<!-- passgate:history -->"

// maxHistory is the number of pushes that a comment remembers.
const maxHistory = 40

// push is one line of the history.
type push struct {
	Head    string
	Verdict string
	News    string
	URL     string
}

// The lines that line writes; nothing else is read back.
var historyLine = regexp.MustCompile(`^- ([0-9a-f]{40,64}): (pass|blocked|not-exercised|inconclusive), ([0-9]{1,9}) new(?:, \[run\]\((https://[A-Za-z0-9._/-]{1,200}/actions/runs/[0-9]{1,20})\))?$`)

func (p push) line() string {
	s := fmt.Sprintf("- %s: %s, %s new", p.Head, p.Verdict, p.News)
	if p.URL != "" {
		s += fmt.Sprintf(", [run](%s)", p.URL)
	}
	return s
}

// history reads the pushes of an earlier comment, newest first.
func history(body string) []push {
	i := strings.LastIndex(body, historyMark)
	if i < 0 {
		return nil
	}
	var out []push
	for l := range strings.Lines(body[i:]) {
		if m := historyLine.FindStringSubmatch(strings.TrimRight(l, "\r\n")); m != nil && len(out) < maxHistory {
			out = append(out, push{m[1], m[2], m[3], m[4]})
		}
	}
	return out
}

// compose is the sticky comment: what the result says, and a history with one
// line for each push, this one first. A push that is run again replaces its line.
func compose(r *gate.Result, e *Event, earlier string) (string, error) {
	rendered, err := reports.Render(reports.Comment, r)
	if err != nil {
		return "", err
	}
	now := push{e.Head, string(r.Verdict), fmt.Sprint(news(r)), e.RunURL}
	pushes := []push{now}
	before := history(earlier)
	for _, p := range before {
		if p.Head != now.Head && len(pushes) < maxHistory {
			pushes = append(pushes, p)
		}
	}
	body := string(rendered)
	if r.Verdict == gate.Pass {
		for _, p := range pushes[1:] {
			if p.Verdict == string(gate.Blocked) {
				body = resolved(body, p)
				break
			}
			if p.Verdict == string(gate.Pass) {
				break
			}
		}
	}
	var b strings.Builder
	b.WriteString(strings.TrimRight(body, "\n"))
	fmt.Fprintf(&b, "\n\n%s\n<details><summary>History: %d %s</summary>\n\n", historyMark, len(pushes), plural(len(pushes), "push", "pushes"))
	for _, p := range pushes {
		b.WriteString(p.line() + "\n")
	}
	b.WriteString("\n</details>\n")
	if b.Len() > maxComment {
		return "", fmt.Errorf("the comment has %d bytes, GitHub takes %d", b.Len(), maxComment)
	}
	return b.String(), nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// resolved says below the first heading that an earlier push was blocked.
func resolved(body string, p push) string {
	heading := strings.Index(body, "\n## ")
	if heading < 0 {
		return body
	}
	end := heading + 1 + strings.IndexByte(body[heading+1:], '\n')
	return body[:end+1] + fmt.Sprintf("\n**Resolved:** %s was blocked with %s new; nothing of it is left.\n", p.Head, p.News) + body[end+1:]
}

// news counts the new findings.
func news(r *gate.Result) int {
	n := 0
	for _, f := range r.Findings {
		if f.Status == gate.New {
			n++
		}
	}
	return n
}

// errSuperseded says that the pull request has moved on.
var errSuperseded = errors.New("the pull request has a newer head: its own run comments")

// stick makes or updates the one comment of a pull request. It is ours if it
// starts with the marker and was written by author. A comment whose making
// failed on the way is looked for before it is made again.
func stick(ctx context.Context, gh GitHub, e *Event, author string, r *gate.Result) error {
	p, err := gh.Pull(ctx, e.Number)
	if err != nil {
		return err
	}
	if p.Head != e.Head {
		return errSuperseded
	}
	for try := 1; ; try++ {
		all, err := gh.Comments(ctx, e.Number)
		if err != nil {
			return err
		}
		mine := Comment{}
		for _, c := range all {
			if c.Author == author && strings.HasPrefix(c.Body, reports.Marker) {
				mine = c
				break
			}
		}
		body, err := compose(r, e, mine.Body)
		if err != nil {
			return err
		}
		switch {
		case mine.ID != 0 && mine.Body == body:
			return nil
		case mine.ID != 0:
			return gh.EditComment(ctx, mine.ID, body)
		}
		if err = gh.CreateComment(ctx, e.Number, body); err == nil || try == attempts || !unsure(err) {
			return err
		}
	}
}

// unsure reports whether a request that failed may have been carried out.
func unsure(err error) bool {
	var answer *github.ErrorResponse
	if errors.As(err, &answer) {
		return answer.Response.StatusCode >= http.StatusInternalServerError
	}
	var limit *github.RateLimitError
	var abuse *github.AbuseRateLimitError
	return !errors.As(err, &limit) && !errors.As(err, &abuse) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
