package main

import (
	"fmt"
	"strings"

	"github.com/passgate/passgate/hlo"
	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/proto"
)

// losses are the ways through package hlo that do not give a module back as it
// went in, with the first difference of each. ours and theirs are the protos
// that package hlo and XLA made of the text; theirs may be empty.
func losses(text string, ours, theirs []byte) map[string]string {
	lost := map[string]string{}
	for _, way := range []struct {
		name string
		try  func() (string, error)
	}{
		{"text -> module -> text -> module -> text", func() (string, error) { return throughText(text) }},
		{"text -> module -> proto -> module -> text", func() (string, error) { return throughProto(text, ours) }},
		{"our proto -> module -> proto", func() (string, error) { return readAndWritten(ours) }},
		{"XLA's proto -> module -> proto", func() (string, error) { return readAndWritten(theirs) }},
		{"XLA's proto -> module -> text -> module -> proto", func() (string, error) { return writtenAsText(theirs) }},
	} {
		if d, err := guarded(way.try); err != nil {
			lost[way.name] = err.Error()
		} else if d != "" {
			lost[way.name] = d
		}
	}
	return lost
}

// guarded makes an error of a panic.
func guarded(try func() (string, error)) (d string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return try()
}

func throughText(text string) (string, error) {
	m, err := hlo.Parse("", []byte(text))
	if err != nil {
		return "", err
	}
	printed := m.String()
	again, err := hlo.Parse("printed", []byte(printed))
	if err != nil {
		return "", err
	}
	if d := diffText(again.String(), printed); d != "" {
		return d, nil
	}
	return diffProtosOf(again, m)
}

func throughProto(text string, ours []byte) (string, error) {
	m, err := hlo.Parse("", []byte(text))
	if err != nil {
		return "", err
	}
	back, err := hlo.UnmarshalModule(ours)
	if err != nil {
		return "", err
	}
	// The wire has no place for these (Module.TextAttrs says so too); XLA loses
	// them as well.
	m.TextAttrs, m.ReplicaCount, m.NumPartitions = nil, 0, 0
	return diffText(back.String(), m.String()), nil
}

func readAndWritten(serialized []byte) (string, error) {
	if len(serialized) == 0 {
		return "", nil
	}
	m, err := hlo.UnmarshalModule(serialized)
	if err != nil {
		return "", err
	}
	return diffProtos(m, serialized)
}

func writtenAsText(serialized []byte) (string, error) {
	if len(serialized) == 0 {
		return "", nil
	}
	m, err := hlo.UnmarshalModule(serialized)
	if err != nil {
		return "", err
	}
	again, err := hlo.Parse("printed", []byte(m.String()))
	if err != nil {
		return "", err
	}
	return diffProtos(again, serialized)
}

func diffProtosOf(now, before *hlo.Module) (string, error) {
	b, err := hlo.MarshalModule(before)
	if err != nil {
		return "", err
	}
	return diffProtos(now, b)
}

// diffProtos is the first difference between a module and a proto.
func diffProtos(now *hlo.Module, before []byte) (string, error) {
	n, err := now.ToProto()
	if err != nil {
		return "", err
	}
	b := &hlopb.HloModuleProto{}
	if err := proto.Unmarshal(before, b); err != nil {
		return "", err
	}
	canonN, err := canonical(n)
	if err != nil {
		return "", err
	}
	canonB, err := canonical(b)
	if err != nil {
		return "", err
	}
	for _, d := range diffModules(canonN, canonB) {
		return fmt.Sprintf("%s: now %s, was %s", d.group, quoteOrNone(d.ours), quoteOrNone(d.theirs)), nil
	}
	return "", nil
}

// diffText is the first line in which two texts differ.
func diffText(now, before string) string {
	n, b := strings.Split(now, "\n"), strings.Split(before, "\n")
	for i := range max(len(n), len(b)) {
		x, y := "", ""
		if i < len(n) {
			x = n[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			at := 0
			for at < min(len(x), len(y)) && x[at] == y[at] {
				at++
			}
			at = max(0, at-40)
			return fmt.Sprintf("line %d: now %s, was %s", i+1, quoteOrNone(clip(x[at:], 160)), quoteOrNone(clip(y[at:], 160)))
		}
	}
	return ""
}
