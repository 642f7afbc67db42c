package release

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"syscall"
)

// Journal is a file of the records of finished units: a line each, a CRC-32 in
// front, on disk before a unit counts as finished. A process may be killed at any
// moment: what was half-written is cut off when the file is opened again.
//
//	passgate-journal 1 PLAN
//	CRC32 RECORD
//	...
type Journal struct {
	f *os.File
}

// JournalError is a file that is no journal of the run.
type JournalError struct{ File, Reason string }

func (e *JournalError) Error() string { return e.File + ": " + e.Reason }

const journalHead = "passgate-journal 1 "

// OpenJournal opens the journal of a plan, or makes it, and gives the records that
// are in it to each, in order. Only one process has it open at a time. Errors are
// *JournalError for a file of another run, that is damaged, or in use; each's; or
// those of the file system.
func OpenJournal(name, plan string, each func(record []byte) error) (*Journal, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &Journal{f}
	if err := j.read(plan, each); err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

func (j *Journal) read(plan string, each func([]byte) error) error {
	bad := func(format string, args ...any) error {
		return &JournalError{j.f.Name(), fmt.Sprintf(format, args...)}
	}
	if err := syscall.Flock(int(j.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return bad("another process is working on this run")
		}
		return err
	}
	r := bufio.NewReaderSize(j.f, 1<<20)
	good := int64(0) // bytes that are whole
	for n := 0; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil { // no end of line: empty, or half-written
			break
		}
		text := line[:len(line)-1]
		if n == 0 {
			if string(text) != journalHead+plan {
				return bad("the journal of another run: other cases, builds or settings")
			}
			good = int64(len(line))
			continue
		}
		record, ok := checked(text)
		if !ok {
			// Only the end may be half-written (a crash of the machine may leave
			// bytes behind it that were never written).
			if rest, err := io.ReadAll(r); err != nil || len(bytes.Trim(rest, "\x00")) > 0 {
				return bad("line %d is damaged", n+1)
			}
			break
		}
		if err := each(record); err != nil {
			return err
		}
		good += int64(len(line))
	}
	if good == 0 {
		// A new file, or one killed while its first line was written.
		if begun, err := os.ReadFile(j.f.Name()); err != nil || !bytes.HasPrefix([]byte(journalHead+plan+"\n"), begun) {
			return bad("no journal of passgate")
		}
	}
	if err := j.f.Truncate(good); err != nil {
		return err
	}
	if _, err := j.f.Seek(good, io.SeekStart); err != nil {
		return err
	}
	if good > 0 {
		return j.f.Sync()
	}
	if _, err := j.f.WriteString(journalHead + plan + "\n"); err != nil {
		return err
	}
	return j.f.Sync()
}

func checked(line []byte) ([]byte, bool) {
	sum, record, ok := bytes.Cut(line, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	return record, ok && err == nil && len(sum) == 8 && uint32(want) == crc32.ChecksumIEEE(record)
}

// Append adds a record, which holds no line feed, and returns when it is on disk.
func (j *Journal) Append(record []byte) error {
	line := fmt.Appendf(nil, "%08x ", crc32.ChecksumIEEE(record))
	line = append(append(line, record...), '\n')
	if _, err := j.f.Write(line); err != nil {
		return err
	}
	return j.f.Sync()
}

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }
