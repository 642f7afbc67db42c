package release

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readAll(t *testing.T, name, plan string) ([]string, error) {
	t.Helper()
	var got []string
	j, err := OpenJournal(name, plan, func(r []byte) error {
		got = append(got, string(r))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, j.Close()
}

// TestJournalTorn: a journal that ends at any byte gives the records that were
// whole, and takes further ones.
func TestJournalTorn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	j, err := OpenJournal(name, "plan", func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	records := []string{`{"unit":1}`, `{"unit":2,"text":"ä"}`, `{}`}
	var ends []int // of the head and of each record
	size := func() int {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size())
	}
	ends = append(ends, size())
	for _, r := range records {
		if err := j.Append([]byte(r)); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, size())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, tail := range []string{"", "\x00\x00\x00"} {
		for cut := range len(whole) + 1 {
			if tail != "" && cut < ends[0] {
				continue // a head that never was whole
			}
			if err := os.WriteFile(name, append(bytes.Clone(whole[:cut]), tail...), 0o644); err != nil {
				t.Fatal(err)
			}
			want := []string{}
			for i, r := range records {
				if cut >= ends[i+1] {
					want = append(want, r)
				}
			}
			got, err := readAll(t, name, "plan")
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("cut at %d of %d: %q, %v; want %q", cut, len(whole), got, err, want)
			}
			j, err := OpenJournal(name, "plan", func([]byte) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Append([]byte("more")); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := readAll(t, name, "plan"); err != nil || fmt.Sprint(got) != fmt.Sprint(append(want, "more")) {
				t.Fatalf("cut at %d, with one more: %q, %v", cut, got, err)
			}
		}
	}
}

func TestJournalRefused(t *testing.T) {
	dir := t.TempDir()
	whole := journalHead + "plan\n" + line("one") + line("two")
	for _, c := range []struct{ text, plan, want string }{
		{whole, "other", "another run"},
		{strings.Replace(whole, "one", "0ne", 1), "plan", "line 2 is damaged"},
		{strings.Replace(whole, line("one"), "\n", 1), "plan", "line 2 is damaged"},
		{"some text", "plan", "no journal"},
		{"some text\n", "plan", "another run"},
	} {
		name := filepath.Join(dir, "journal")
		if err := os.WriteFile(name, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := readAll(t, name, c.plan)
		var bad *JournalError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
		if after, _ := os.ReadFile(name); string(after) != c.text {
			t.Errorf("%q: the file was changed", c.text)
		}
	}
	name := filepath.Join(dir, "locked")
	j, err := OpenJournal(name, "plan", func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(t, name, "plan"); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("two at a time: %v", err)
	}
	j.Close()
	stop := errors.New("stop")
	if err := os.WriteFile(name, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(name, "plan", func([]byte) error { return stop }); err != stop {
		t.Errorf("a record that is refused: %v", err)
	}
}

func line(record string) string {
	return fmt.Sprintf("%08x %s\n", crc32.ChecksumIEEE([]byte(record)), record)
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(journalHead + "plan\n" + line("one")))
	f.Add([]byte(journalHead + "pl"))
	f.Add([]byte("00000000 \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		first, err := readAll(t, name, "plan")
		if err != nil {
			return
		}
		again, err := readAll(t, name, "plan")
		if err != nil || fmt.Sprint(first) != fmt.Sprint(again) {
			t.Fatalf("%q, then %q, %v", first, again, err)
		}
	})
}
