package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// EachCase gives the cases to do, in order, until it fails. What do is given is
// its own for the time of the call only.
func (r *Result) EachCase(do func(*CaseResult) error) error {
	if r.Stored != nil {
		return r.Stored(do)
	}
	for i := range r.Cases {
		if err := do(&r.Cases[i]); err != nil {
			return err
		}
	}
	return nil
}

// ResultError is a text that is no result.json.
type ResultError struct {
	// Offset is the place in bytes; what is wrong stands there or before.
	Offset int64
	// Cut says that the text ends too early.
	Cut    bool
	Reason string
}

func (e *ResultError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// ReadResult reads result.json and gives its cases to each, one at a time; they
// are kept in Cases only where each is nil. What a newer version adds is ignored.
// Errors are *ResultError, each's, or in's.
func ReadResult(in io.Reader, each func(*CaseResult) error) (*Result, error) {
	from := &counted{in: in}
	d := &resultReader{json.NewDecoder(from), &Result{}, each}
	err := d.object()
	var bad *resultFault
	switch {
	case from.err != nil:
		return nil, from.err
	case err == nil && d.to.Schema != Schema:
		return nil, &ResultError{0, false, fmt.Sprintf("schema is %q, want %q", d.to.Schema, Schema)}
	case err == nil:
		for i := range d.to.Findings {
			f := &d.to.Findings[i]
			f.Observed = d.to.Observed[f.ID]
		}
		return d.to, nil
	case !errors.As(err, &bad):
		return nil, err // each's
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return nil, &ResultError{from.bytes, true, "the file ends too early; want a result.json of passgate"}
	}
	return nil, &ResultError{d.InputOffset(), false, fmt.Sprintf("%v; want a result.json of passgate", bad.err)}
}

// counted remembers why reading failed, and how far it came.
type counted struct {
	in    io.Reader
	bytes int64
	err   error
}

func (s *counted) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.bytes += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// resultFault is an error of the text.
type resultFault struct{ err error }

func (e *resultFault) Error() string { return e.err.Error() }
func (e *resultFault) Unwrap() error { return e.err }

func fault(err error) error {
	if err == nil {
		return nil
	}
	return &resultFault{err}
}

type resultReader struct {
	*json.Decoder
	to   *Result
	each func(*CaseResult) error
}

// delim reads a delimiter; false for null.
func (d *resultReader) delim(want json.Delim) (bool, error) {
	t, err := d.Token()
	switch {
	case err != nil:
		return false, fault(err)
	case t == nil:
		return false, nil
	case t != want:
		return false, fault(fmt.Errorf("found %v, want %v", t, want))
	}
	return true, nil
}

func (d *resultReader) object() error {
	if ok, err := d.delim('{'); err != nil || !ok {
		return err
	}
	members := map[string]any{}
	v := reflect.ValueOf(d.to).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		members[name] = v.Field(i).Addr().Interface()
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fault(err)
		}
		to, known := members[t.(string)] // a decoder gives no other keys
		switch {
		case t == "cases":
			err = d.cases()
		case known && t != "-":
			err = fault(d.Decode(to))
		default:
			err = fault(d.Decode(new(json.RawMessage)))
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return fault(err)
}

func (d *resultReader) cases() error {
	if ok, err := d.delim('['); err != nil || !ok {
		return err
	}
	d.to.Cases = []CaseResult{}
	for i := 0; d.More(); i++ {
		var c CaseResult
		if err := d.Decode(&c); err != nil {
			return fault(fmt.Errorf("case %d: %w", i, err))
		}
		if d.each == nil {
			d.to.Cases = append(d.to.Cases, c)
		} else if err := d.each(&c); err != nil {
			return err
		}
	}
	if d.each != nil {
		d.to.Cases = nil
	}
	_, err := d.Token()
	return fault(err)
}
