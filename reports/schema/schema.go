// Package schema holds the JSON Schema of result.json.
package schema

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed result-v1.schema.json
var text []byte

var compiled = sync.OnceValue(func() *jsonschema.Schema {
	const name = "result-v1.schema.json"
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = c.AddResource(name, doc)
	}
	if err != nil {
		panic(fmt.Sprintf("the schema of results is broken: %v", err))
	}
	return c.MustCompile(name)
})

// Validate checks a result.json against the schema: nothing missing, nothing
// that the schema does not know.
func Validate(data []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return compiled().Validate(v)
}
