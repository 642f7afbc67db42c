// Package fleettest is a network that can be cut, for tests and measurements of a
// fleet.
package fleettest

import (
	"net"
	"sync/atomic"
	"time"
)

// Link forwards TCP connections to an address. While it is cut it keeps them open
// and forwards nothing, like a network that lost its way.
type Link struct {
	// Addr is HOST:PORT where it listens, on the loopback.
	Addr     string
	cut      atomic.Bool
	listener net.Listener
}

// NewLink forwards to HOST:PORT until Close.
func NewLink(to string) (*Link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &Link{Addr: l.Addr().String(), listener: l}
	go k.accept(to)
	return k, nil
}

// Cut cuts the link, or mends it: then what was held up arrives late.
func (k *Link) Cut(cut bool) { k.cut.Store(cut) }

// IsCut says whether it is cut.
func (k *Link) IsCut() bool { return k.cut.Load() }

// Close ends the forwarding of new connections.
func (k *Link) Close() error { return k.listener.Close() }

func (k *Link) accept(to string) {
	for {
		in, err := k.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		go k.pump(in, out)
		go k.pump(out, in)
	}
}

func (k *Link) pump(from, to net.Conn) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			to.Close()
			return
		}
		for k.cut.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			from.Close()
			return
		}
	}
}
