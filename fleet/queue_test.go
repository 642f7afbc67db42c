package fleet

import (
	"os"
	"strings"
	"testing"
)

const (
	somePlan = "0123456789abcdef0123456789abcdef"
	someHash = somePlan + somePlan
)

// TestMessages: what is not a message of ours is refused.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		text string
		unit bool // else a result
		ok   bool
	}{
		{`{"plan":"` + somePlan + `","job":"` + someHash + `","unit":1}`, true, true},
		{`{"plan":"` + somePlan + `","job":"../../etc/passwd","unit":1}`, true, false},
		{`{"plan":"` + somePlan + `","job":"` + someHash + `","unit":0}`, true, false},
		{`{"plan":"` + somePlan + `","job":"` + someHash + `","unit":1,"command":"sh"}`, true, false},
		{`{"plan":"` + somePlan + `","job":"` + someHash + `","unit":1}{}`, true, false},
		{`{"plan":"../x","job":"` + someHash + `","unit":1}`, true, false},
		{strings.Repeat(" ", maxMessage+1), true, false},
		{`{"plan":"` + somePlan + `","unit":1,"record":"` + someHash + `","worker":"w-1","seconds":1}`, false, true},
		{`{"plan":"` + somePlan + `","unit":1,"gave_up":true,"worker":"w-1","seconds":1}`, false, true},
		{`{"plan":"` + somePlan + `","unit":1,"gave_up":true,"record":"` + someHash + `","worker":"w-1","seconds":1}`, false, false},
		{`{"plan":"` + somePlan + `","unit":1,"worker":"w-1","seconds":1}`, false, false},
		{`{"plan":"` + somePlan + `","unit":1,"record":"../../x","worker":"w-1","seconds":1}`, false, false},
		{`{"plan":"` + somePlan + `","unit":1,"record":"` + someHash + `","worker":"a b\n","seconds":1}`, false, false},
		{`{"plan":"` + somePlan + `","unit":1,"record":"` + someHash + `","worker":"w-1","seconds":-1}`, false, false},
		{`{"plan":"` + somePlan + `","unit":-1,"record":"` + someHash + `","worker":"w-1","seconds":1}`, false, false},
	} {
		var err error
		if c.unit {
			_, err = readUnit([]byte(c.text))
		} else {
			_, err = readResult([]byte(c.text))
		}
		if (err == nil) != c.ok {
			t.Errorf("%.150s: %v", c.text, err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"plan":"` + somePlan + `","job":"` + someHash + `","unit":1}`))
	f.Add([]byte(`{"plan":"` + somePlan + `","unit":1,"record":"` + someHash + `","worker":"w-1","seconds":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if u, err := readUnit(data); err == nil && strings.ContainsAny(jobKey(u.Job), ".\\\x00") {
			t.Errorf("key %q", jobKey(u.Job))
		}
		if r, err := readResult(data); err == nil && strings.ContainsAny(recordKey(r.Plan, r.Record), ".\\\x00") {
			t.Errorf("key %q", recordKey(r.Plan, r.Record))
		}
	})
}

// TestAccess: without the token nobody gets in, and a server for other machines
// does not start without one. An artifact that is not what it is named for, or too
// large, is refused.
func TestAccess(t *testing.T) {
	if _, err := StartServer(Listen{Host: "0.0.0.0", Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a queue for everybody: %v", err)
	}
	s, err := StartServer(Listen{Host: "127.0.0.1", Dir: t.TempDir(), Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir := t.TempDir()
	for token, ok := range map[string]bool{"": false, "guess": false, "secret": true} {
		l, err := dial(t.Context(), Access{URL: s.URL(), Token: token}, FileArtifacts(dir), "test")
		if (err == nil) != ok {
			t.Errorf("token %q: %v", token, err)
		}
		if err != nil {
			continue
		}
		data := []byte("some record")
		if err := l.put(t.Context(), recordKey(somePlan, hashOf(data)), data); err != nil {
			t.Fatal(err)
		}
		if got, err := l.get(t.Context(), recordKey(somePlan, hashOf(data)), hashOf(data), 100); err != nil || string(got) != string(data) {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := l.get(t.Context(), recordKey(somePlan, hashOf(data)), hashOf(data), 5); err == nil || !strings.Contains(err.Error(), "more than 5 bytes") {
			t.Errorf("too large: %v", err)
		}
		if err := l.put(t.Context(), recordKey(somePlan, someHash), data); err != nil {
			t.Fatal(err)
		}
		if _, err := l.get(t.Context(), recordKey(somePlan, someHash), someHash, 100); err == nil || !strings.Contains(err.Error(), "not what it is named for") {
			t.Errorf("another content: %v", err)
		}
		l.close()
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}
