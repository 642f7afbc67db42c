// Command cut makes the stand-in's data from two public npm packages: GitHub's
// API description (@octokit/openapi) cut to the operations that passgate uses,
// and one example event of each kind (@octokit/webhooks-examples). Both are
// under the MIT licence; the output carries the notice.
//
//	go run ./action/standin/cut OPENAPI_PACKAGE WEBHOOKS_PACKAGE OUT
//
// The arguments are the unpacked packages and the directory to write to.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// operations are what passgate asks of GitHub.
var operations = map[string][]string{
	"/repos/{owner}/{repo}/pulls":                                            {"get"},
	"/repos/{owner}/{repo}/pulls/{pull_number}":                              {"get"},
	"/repos/{owner}/{repo}/pulls/{pull_number}/files":                        {"get"},
	"/repos/{owner}/{repo}/compare/{basehead}":                               {"get"},
	"/repos/{owner}/{repo}/issues/{issue_number}/comments":                   {"get", "post"},
	"/repos/{owner}/{repo}/issues/comments/{comment_id}":                     {"patch"},
	"/repos/{owner}/{repo}/check-runs":                                       {"post"},
	"/repos/{owner}/{repo}/code-scanning/sarifs":                             {"post"},
	"/repos/{owner}/{repo}/actions/runs/{run_id}":                            {"get"},
	"/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts":                  {"get"},
	"/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}": {"get"},
}

// events are the payloads to keep: event name and action.
var events = []struct{ name, action string }{
	{"pull_request", "opened"}, {"pull_request", "synchronize"}, {"pull_request", "converted_to_draft"},
	{"merge_group", "checks_requested"}, {"push", ""}, {"workflow_dispatch", ""}, {"workflow_run", "completed"},
}

const notice = "Cut from npm packages of the Octokit project, MIT licence, Copyright (c) 2020 Octokit contributors and (c) 2021 GitHub; made by action/standin/cut."

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: cut OPENAPI_PACKAGE WEBHOOKS_PACKAGE OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "cut:", err)
		os.Exit(1)
	}
}

func run(openapi, webhooks, out string) error {
	api, err := cutAPI(filepath.Join(openapi, "generated", "api.github.com.json"))
	if err != nil {
		return err
	}
	if err := write(filepath.Join(out, "openapi.json"), api); err != nil {
		return err
	}
	payloads, err := cutEvents(filepath.Join(webhooks, "api.github.com", "index.json"))
	if err != nil {
		return err
	}
	return write(filepath.Join(out, "payloads.json"), payloads)
}

func write(name string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

func read(name string, v any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

func cutAPI(name string) (any, error) {
	var doc map[string]any
	if err := read(name, &doc); err != nil {
		return nil, err
	}
	info := doc["info"].(map[string]any)
	out := map[string]any{
		"openapi": doc["openapi"],
		"info":    map[string]any{"title": info["title"], "version": info["version"], "license": info["license"], "description": notice},
		"servers": doc["servers"],
	}
	all := doc["paths"].(map[string]any)
	paths := map[string]any{}
	for path, methods := range operations {
		item, ok := all[path].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the description has no path %s", path)
		}
		kept := map[string]any{}
		for _, m := range methods {
			kept[m] = prune(item[m], "operation")
		}
		paths[path] = kept
	}
	out["paths"] = paths
	// The components that the paths reach, until there are no new ones.
	components := map[string]any{}
	todo := references(paths)
	for len(todo) > 0 {
		ref := todo[0]
		todo = todo[1:]
		kind, id, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
		group, ok := components[kind].(map[string]any)
		if !ok {
			group = map[string]any{}
			components[kind] = group
		}
		if _, done := group[id]; done {
			continue
		}
		found, ok := doc["components"].(map[string]any)[kind].(map[string]any)[id]
		if !ok {
			return nil, fmt.Errorf("the description has no %s", ref)
		}
		if kind == "examples" {
			group[id] = map[string]any{"value": found.(map[string]any)["value"]}
			continue
		}
		group[id] = prune(found, kind)
		todo = append(todo, references(group[id])...)
	}
	out["components"] = components
	return out, nil
}

// prune drops prose, extensions and inline examples of schemas. Names inside a
// schema's "properties" are names, not keywords.
func prune(v any, kind string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			switch {
			case kind == "properties":
				out[k] = prune(e, "schema")
			case k == "properties":
				out[k] = prune(e, "properties")
			case k == "description" && kind == "response":
				out[k] = "-" // required by OpenAPI
			case k == "description" || k == "summary" || k == "tags" || k == "externalDocs" || k == "example" || strings.HasPrefix(k, "x-"):
			case k == "examples" && kind != "content":
			case k == "examples":
				out[k] = e
			case k == "content":
				content := map[string]any{}
				for media, m := range e.(map[string]any) {
					content[media] = prune(m, "content")
				}
				out[k] = content
			case k == "responses" && kind == "operation":
				responses := map[string]any{}
				for code, r := range e.(map[string]any) {
					responses[code] = prune(r, "response")
				}
				out[k] = responses
			case k == "requestBody":
				body := prune(e, "request").(map[string]any)
				for _, m := range body["content"].(map[string]any) {
					delete(m.(map[string]any), "examples")
				}
				out[k] = body
			default:
				out[k] = prune(e, "schema")
			}
		}
		if kind == "responses" {
			out["description"] = "-"
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = prune(e, "schema")
		}
		return out
	}
	return v
}

// references are the $ref of a tree, sorted.
func references(v any) []string {
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				out = append(out, ref)
			}
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	slices.Sort(out)
	return slices.Compact(out)
}

// anonymous takes the names of people out of an event.
func anonymous(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["email"]; ok {
			v["name"], v["email"] = "octocat", "octocat@github.com"
		}
		for _, e := range v {
			anonymous(e)
		}
	case []any:
		for _, e := range v {
			anonymous(e)
		}
	}
}

func cutEvents(name string) (any, error) {
	var all []struct {
		Name     string           `json:"name"`
		Examples []map[string]any `json:"examples"`
	}
	if err := read(name, &all); err != nil {
		return nil, err
	}
	kept := map[string]any{"notice": notice}
	for _, want := range events {
		var best map[string]any
		for _, e := range all {
			if e.Name != want.name {
				continue
			}
			for _, x := range e.Examples {
				action, _ := x["action"].(string)
				if deleted, _ := x["deleted"].(bool); action != want.action || deleted {
					continue
				}
				best = x // the last is the newest
			}
		}
		if best == nil {
			return nil, fmt.Errorf("no example of %s %s", want.name, want.action)
		}
		key := want.name
		if want.action != "" {
			key += "." + want.action
		}
		anonymous(best)
		kept[key] = best
	}
	return kept, nil
}
