package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
)

// TestKubernetes: the manifests hold command lines that this passgate reads, and
// what an Indexed Job needs.
func TestKubernetes(t *testing.T) {
	data, err := os.ReadFile("../../examples/kubernetes/passgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Kind string
		Spec struct {
			CompletionMode string `yaml:"completionMode"`
			Template       struct {
				Spec struct {
					Containers []struct {
						Args         []string
						VolumeMounts []struct{ Name string } `yaml:"volumeMounts"`
					}
					Volumes []struct{ Name string }
				}
			}
		}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var commandsSeen []string
	indexed := false
	for {
		var o object
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		indexed = indexed || o.Spec.CompletionMode == "Indexed"
		pod := o.Spec.Template.Spec
		for _, c := range pod.Containers {
			var cli commands
			parser, err := kong.New(&cli, kong.Exit(func(int) {}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(c.Args); err != nil {
				t.Errorf("%q: %v", c.Args, err)
			}
			commandsSeen = append(commandsSeen, c.Args[0])
			for _, m := range c.VolumeMounts {
				if !slices.ContainsFunc(pod.Volumes, func(v struct{ Name string }) bool { return v.Name == m.Name }) {
					t.Errorf("no volume %s", m.Name)
				}
			}
		}
	}
	if strings.Join(commandsSeen, " ") != "serve work" || !indexed {
		t.Errorf("commands %q, indexed %v", commandsSeen, indexed)
	}
}
