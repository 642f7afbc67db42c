package reports

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"

	"github.com/passgate/passgate/gate"
)

// jsonWriter writes a Result as json.Encoder does, its cases and findings one at
// a time.
type jsonWriter struct {
	w     io.Writer
	begun bool
}

// value writes v, of which further lines are indented by prefix, behind lead.
func (j *jsonWriter) value(lead, prefix string, v any) error {
	var b bytes.Buffer
	b.WriteString(lead)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := j.w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}

// lead stands before the value of a member.
func (j *jsonWriter) lead(name string) string {
	s := ",\n  "
	if !j.begun {
		s, j.begun = "{\n  ", true
	}
	return s + `"` + name + `": `
}

// list begins a list, of which add writes an element.
func (j *jsonWriter) list(name string) (add func(any) error, end func() error) {
	lead := j.lead(name) + "["
	next := lead + "\n    "
	return func(v any) error {
			err := j.value(next, "    ", v)
			lead, next = "\n  ", ",\n    "
			return err
		}, func() error {
			_, err := io.WriteString(j.w, lead+"]")
			return err
		}
}

// beginJSON writes what stands before the cases.
func beginJSON(w io.Writer, r *gate.Result) (rendering, error) {
	j := &jsonWriter{w: w}
	v := reflect.ValueOf(r).Elem()
	members := func(from, to int) error {
		for i := from; i < to; i++ {
			name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			f := v.Field(i)
			switch {
			case name == "-" || options == "omitempty" && (f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0):
				continue
			case f.Kind() == reflect.Slice && !f.IsNil() && f.Type().Elem().Kind() == reflect.Struct:
				add, end := j.list(name)
				for i := range f.Len() {
					if err := add(f.Index(i).Addr().Interface()); err != nil {
						return err
					}
				}
				if err := end(); err != nil {
					return err
				}
			default:
				if err := j.value(j.lead(name), "  ", f.Interface()); err != nil {
					return err
				}
			}
		}
		return nil
	}
	field, _ := v.Type().FieldByName("Cases")
	at := field.Index[0]
	rest := func() error {
		if err := members(at+1, v.NumField()); err != nil {
			return err
		}
		_, err := io.WriteString(w, "\n}\n")
		return err
	}
	if err := members(0, at); err != nil {
		return rendering{}, err
	}
	if r.Cases == nil && r.Stored == nil {
		return rendering{end: func() error {
			if err := members(at, at+1); err != nil {
				return err
			}
			return rest()
		}}, nil
	}
	add, end := j.list("cases")
	return rendering{
		each: func(c *gate.CaseResult) error { return add(c) },
		end: func() error {
			if err := end(); err != nil {
				return err
			}
			return rest()
		},
	}, nil
}
