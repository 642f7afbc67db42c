package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"
)

// MaxFrame bounds the payload of a frame in bytes: what protobuf itself can hold.
const MaxFrame = 1<<31 - 1

const magic = "pgw1"

const headerSize = len(magic) + 8

// ErrGarbage reports bytes that are not a frame, or not the message that was due.
var ErrGarbage = errors.New("not a frame of the worker protocol")

// Write sends one message as a frame: "pgw1", length and CRC-32 (IEEE) of the payload as little-endian u32, payload.
func Write(w io.Writer, m proto.Message) error {
	buf, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, headerSize), m)
	if err != nil {
		return err
	}
	payload := buf[headerSize:]
	if len(payload) > MaxFrame {
		return fmt.Errorf("message of %d bytes is too large", len(payload))
	}
	copy(buf, magic)
	binary.LittleEndian.PutUint32(buf[len(magic):], uint32(len(payload)))
	binary.LittleEndian.PutUint32(buf[len(magic)+4:], crc32.ChecksumIEEE(payload))
	_, err = w.Write(buf)
	return err
}

// Read receives one message. io.EOF is the end between frames, io.ErrUnexpectedEOF the end within one, ErrGarbage
// anything that is not a frame or not a message.
func Read(r io.Reader, m proto.Message) error {
	var header [headerSize]byte
	if n, err := io.ReadFull(r, header[:]); err != nil {
		if n > 0 && string(header[:min(n, len(magic))]) != magic[:min(n, len(magic))] {
			return fmt.Errorf("%w: starts with % x", ErrGarbage, header[:n])
		}
		return err
	}
	if string(header[:len(magic)]) != magic {
		return fmt.Errorf("%w: starts with % x", ErrGarbage, header[:])
	}
	size := binary.LittleEndian.Uint32(header[len(magic):])
	if size > MaxFrame {
		return fmt.Errorf("%w: length %d", ErrGarbage, size)
	}
	payload, err := readN(r, int(size))
	if err != nil {
		return err
	}
	if sum := crc32.ChecksumIEEE(payload); sum != binary.LittleEndian.Uint32(header[len(magic)+4:]) {
		return fmt.Errorf("%w: checksum differs", ErrGarbage)
	}
	if err := proto.Unmarshal(payload, m); err != nil {
		return fmt.Errorf("%w: %v", ErrGarbage, err)
	}
	return nil
}

// readN reads n bytes, growing as they arrive: a wrong length must not cost memory.
func readN(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	buf := make([]byte, 0, min(n, step))
	for len(buf) < n {
		k := min(n-len(buf), max(step, len(buf)))
		start := len(buf)
		if cap(buf) < start+k {
			grown := make([]byte, start, start+k)
			copy(grown, buf)
			buf = grown
		}
		buf = buf[:start+k]
		if _, err := io.ReadFull(r, buf[start:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}
