package action_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// document is the part of a workflow or an action that is checked.
type document struct {
	On          any               `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `yaml:"permissions"`
		Timeout     int               `yaml:"timeout-minutes"`
		Steps       []step            `yaml:"steps"`
	} `yaml:"jobs"`
	Inputs map[string]any `yaml:"inputs"`
	Runs   struct {
		Steps []step `yaml:"steps"`
	} `yaml:"runs"`
}

type step struct {
	Uses string            `yaml:"uses"`
	With map[string]any    `yaml:"with"`
	Run  string            `yaml:"run"`
	Env  map[string]string `yaml:"env"`
}

func readYAML(t *testing.T, name string) document {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := yaml.Unmarshal(data, &d); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

func workflows(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../examples/workflows/*.yml")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d workflows, %v", len(files), err)
	}
	return files
}

// TestWorkflowsLint runs actionlint.
func TestWorkflowsLint(t *testing.T) {
	args := append([]string{"run", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7", "-shellcheck=", "-pyflakes=", "-config-file", "../examples/workflows/actionlint.yaml"}, workflows(t)...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
}

var pinned = regexp.MustCompile(`@([0-9a-f]{40}|PASSGATE_COMMIT)$`)

// TestWorkflowsAreCareful: actions pinned by commit, no permission by default,
// a time limit, no text of an event in a script, inputs that the action has.
func TestWorkflowsAreCareful(t *testing.T) {
	self := readYAML(t, "../action.yml")
	foreign := regexp.MustCompile(`\$\{\{`)
	steps := func(name string, all []step) {
		for _, s := range all {
			if s.Uses != "" && !pinned.MatchString(s.Uses) {
				t.Errorf("%s: %s is not pinned to a commit", name, s.Uses)
			}
			if foreign.MatchString(s.Run) {
				t.Errorf("%s: an expression is part of a script: %s", name, s.Run)
			}
			if strings.HasPrefix(s.Uses, "passgate/passgate@") {
				for k := range s.With {
					if _, ok := self.Inputs[k]; !ok {
						t.Errorf("%s: the action has no input %s", name, k)
					}
				}
			}
			if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
				t.Errorf("%s: the checkout leaves the token in the repository", name)
			}
		}
	}
	for _, file := range workflows(t) {
		d := readYAML(t, file)
		if d.Permissions == nil || len(d.Permissions) != 0 {
			t.Errorf("%s: want `permissions: {}` at the top", file)
		}
		if text, _ := os.ReadFile(file); strings.Contains(string(text), "pull_request_target") {
			t.Errorf("%s runs on pull_request_target", file)
		}
		for name, job := range d.Jobs {
			if job.Timeout == 0 {
				t.Errorf("%s: job %s has no time limit", file, name)
			}
			for p, v := range job.Permissions {
				if p == "contents" && v != "read" {
					t.Errorf("%s: job %s writes contents", file, name)
				}
			}
			steps(file, job.Steps)
		}
	}
	steps("action.yml", self.Runs.Steps)
	// The privileged half runs nothing but passgate.
	publish := readYAML(t, "../examples/workflows/publish.yml")
	for _, s := range publish.Jobs["publish"].Steps {
		if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["repository"] != "passgate/passgate" || strings.HasPrefix(s.Uses, "actions/download-artifact@") {
			t.Errorf("publish.yml: %v", s)
		}
	}
}

// TestActionPassesItsInputs: every input reaches the program, under a name that
// the program reads.
func TestActionPassesItsInputs(t *testing.T) {
	self := readYAML(t, "../action.yml")
	help, err := exec.Command("go", "run", "../cmd/passgate", "action", "run", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	text := strings.Join(strings.Fields(string(help)), "")
	var used []string
	for _, s := range self.Runs.Steps {
		for name, v := range s.Env {
			used = append(used, strings.TrimSuffix(strings.TrimPrefix(v, "${{ inputs."), " }}"))
			if strings.HasPrefix(name, "PASSGATE_") && !strings.Contains(text, "($"+name+")") {
				t.Errorf("`passgate action run` does not read %s", name)
			}
		}
	}
	for name := range self.Inputs {
		if !slices.Contains(used, name) {
			t.Errorf("input %s is not used", name)
		}
	}
}
