package action

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/passgate/passgate/gate"
	"github.com/passgate/passgate/reports/schema"
)

// What an artifact may be at most. A result of 10,000 cases is some 8 MB.
const (
	maxArchive = 16 << 20
	maxResult  = 32 << 20
	maxString  = 256 << 10
	maxItems   = 200_000
	maxDepth   = 16
)

// resultName is the only file in the artifact.
const resultName = "result.json"

// ArtifactError is an artifact that is not what our testing half writes.
type ArtifactError struct{ Reason string }

func (e *ArtifactError) Error() string { return "untrusted artifact: " + e.Reason }

func artifactErrorf(format string, args ...any) error {
	return &ArtifactError{fmt.Sprintf(format, args...)}
}

// OpenArtifact reads the result in an artifact's archive. Nothing is written to
// disk and no name in the archive is used: there must be one regular file,
// result.json. Errors are *ArtifactError.
func OpenArtifact(archive []byte) (*gate.Result, error) {
	if len(archive) > maxArchive {
		return nil, artifactErrorf("the archive has more than %d bytes", maxArchive)
	}
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, artifactErrorf("not a zip archive: %v", err)
	}
	if len(z.File) != 1 || z.File[0].Name != resultName {
		return nil, artifactErrorf("want one file, %s; the archive has %d entries, the first is %.40q", resultName, len(z.File), first(z.File))
	}
	f := z.File[0]
	if !f.Mode().IsRegular() {
		return nil, artifactErrorf("%s is no regular file", resultName)
	}
	r, err := f.Open()
	if err != nil {
		return nil, artifactErrorf("%v", err)
	}
	defer r.Close()
	// The size in the header is a claim; the limit is on what comes out.
	data, err := io.ReadAll(io.LimitReader(r, maxResult+1))
	if len(data) > maxResult {
		return nil, artifactErrorf("%s unpacks to more than %d bytes", resultName, maxResult)
	}
	if err != nil {
		return nil, artifactErrorf("%v", err)
	}
	return OpenResult(data)
}

func first(files []*zip.File) string {
	if len(files) == 0 {
		return ""
	}
	return files[0].Name
}

// OpenResult reads a result.json that somebody else wrote: one JSON value within
// the limits, no member twice, nothing that the schema does not know, and a
// verdict that its own findings and counts bear out. Errors are *ArtifactError.
func OpenResult(data []byte) (*gate.Result, error) {
	if len(data) > maxResult {
		return nil, artifactErrorf("%s has more than %d bytes", resultName, maxResult)
	}
	if !utf8.Valid(data) {
		return nil, artifactErrorf("%s is not UTF-8", resultName)
	}
	if err := bounded(data); err != nil {
		return nil, artifactErrorf("%s: %v", resultName, err)
	}
	if err := schema.Validate(data); err != nil {
		return nil, artifactErrorf("%s does not follow the schema: %.300s", resultName, strings.Join(strings.Fields(err.Error()), " "))
	}
	var res gate.Result
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&res); err != nil {
		return nil, artifactErrorf("%s: %v", resultName, err)
	}
	if err := consistent(&res); err != nil {
		return nil, artifactErrorf("%s: %v", resultName, err)
	}
	return &res, nil
}

// bounded walks the JSON without keeping it.
func bounded(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		object bool
		key    bool // the next string is a name
		names  map[string]bool
	}
	var stack []level
	items := 0
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			if len(stack) > 0 || items == 0 {
				return errors.New("ends too early")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if len(stack) == 0 && items > 0 {
			return errors.New("more than one value")
		}
		if items++; items > maxItems*10 {
			return fmt.Errorf("more than %d values", maxItems*10)
		}
		if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if n := len(stack); n > 0 && stack[n-1].object {
			top := &stack[n-1]
			if top.key {
				name := tok.(string)
				folded := strings.ToLower(name) // encoding/json folds cases
				if top.names[folded] {
					return fmt.Errorf("member %.40q is there twice", name)
				}
				top.names[folded] = true
				top.key = false
				continue
			}
			top.key = true
		}
		switch t := tok.(type) {
		case json.Delim:
			if len(stack) == maxDepth {
				return fmt.Errorf("nested deeper than %d", maxDepth)
			}
			stack = append(stack, level{object: t == '{', key: t == '{', names: map[string]bool{}})
		case string:
			if len(t) > maxString {
				return fmt.Errorf("a string of more than %d bytes", maxString)
			}
		}
	}
}

var findingID = regexp.MustCompile(`^f-[0-9a-f]{12}$`)

// consistent checks what a schema cannot say.
func consistent(r *gate.Result) error {
	blocking := 0
	ids := map[string]bool{}
	cases := map[string]bool{}
	for _, c := range r.Cases {
		cases[c.ID] = true
	}
	for _, f := range r.Findings {
		if !findingID.MatchString(f.ID) {
			return fmt.Errorf("finding id %.40q", f.ID)
		}
		if ids[f.ID] {
			return fmt.Errorf("two findings are %s", f.ID)
		}
		ids[f.ID] = true
		if !cases[f.Case] {
			return fmt.Errorf("finding %s is of a case that is not there", f.ID)
		}
		if f.Wrong > f.Elements {
			return fmt.Errorf("finding %s has more wrong elements than elements", f.ID)
		}
		if f.Blocking {
			blocking++
		}
	}
	for _, c := range r.Cases {
		if c.Finding != "" && !ids[c.Finding] {
			return fmt.Errorf("case %.40q has finding %.40q, which is not there", c.ID, c.Finding)
		}
		if c.Outcome == gate.CaseFinding && c.Finding == "" {
			return fmt.Errorf("case %.40q hides its finding", c.ID)
		}
	}
	switch {
	case (blocking > 0) != (r.Verdict == gate.Blocked):
		return fmt.Errorf("verdict %s with %d blocking findings", r.Verdict, blocking)
	case r.Totals.Cases != len(r.Cases):
		return fmt.Errorf("%d cases counted, %d there", r.Totals.Cases, len(r.Cases))
	case r.Totals.Executed+r.Totals.PassesOnly > len(r.Cases):
		return errors.New("more cases run than there are")
	case r.Verdict == gate.Pass && r.Totals.Executed+r.Totals.PassesOnly == 0:
		return errors.New("verdict pass, and nothing was run")
	}
	return nil
}
