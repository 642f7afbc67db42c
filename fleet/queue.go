// Package fleet runs the units of a release job on many machines, through a work
// queue of NATS JetStream.
//
// A coordinator puts units into the queue and takes their records; workers take a
// unit, run it, lay its record into the artifacts (package blob of gocloud.dev: a
// directory by default), say so, and only then acknowledge the unit. A worker that
// dies, hangs or is cut off stops sending signs of life, and its unit goes to
// another one; the record of a unit counts once, whoever sends it and how often.
//
// Neither side trusts what comes over the queue. Sizes are bounded, schemas strict,
// names of artifacts computed from checked hashes. A worker runs only the builds
// that its own command line names, and only programs of a job whose hash the plan
// repeats. A coordinator takes a record only for a unit of its own job.
package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file:// artifacts
)

// The streams and their subjects. One queue serves one coordinator at a time.
const (
	unitStream    = "PASSGATE_UNITS"
	unitSubject   = "passgate.units"
	resultStream  = "PASSGATE_RESULTS"
	resultSubject = "passgate.results"
	consumerName  = "workers"
	collectorName = "collector"
	// maxMessage bounds a message: they hold names and hashes.
	maxMessage = 64 << 10
)

// unitMessage is a unit of work. Job is the SHA-256 of the job's artifact.
type unitMessage struct {
	Plan string `json:"plan"`
	Job  string `json:"job"`
	Unit int    `json:"unit"`
}

// resultMessage says that a unit is done, or was given up by a worker that got it
// too often. Record is the SHA-256 of the record's artifact.
type resultMessage struct {
	Plan    string  `json:"plan"`
	Unit    int     `json:"unit"`
	Record  string  `json:"record,omitempty"`
	GaveUp  bool    `json:"gave_up,omitempty"`
	Worker  string  `json:"worker"`
	Seconds float64 `json:"seconds"`
}

// MessageError is a message that is refused.
type MessageError struct{ Reason string }

func (e *MessageError) Error() string { return "message: " + e.Reason }

var (
	planPattern   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	hashPattern   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	workerPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
)

func readMessage(data []byte, to any) error {
	if len(data) > maxMessage {
		return &MessageError{fmt.Sprintf("%d bytes, more than %d", len(data), maxMessage)}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return &MessageError{err.Error()}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &MessageError{"more than one value"}
	}
	return nil
}

func readUnit(data []byte) (unitMessage, error) {
	var m unitMessage
	if err := readMessage(data, &m); err != nil {
		return m, err
	}
	if !planPattern.MatchString(m.Plan) || !hashPattern.MatchString(m.Job) || m.Unit < 1 {
		return m, &MessageError{"want a plan, a job and a unit"}
	}
	return m, nil
}

func readResult(data []byte) (resultMessage, error) {
	var m resultMessage
	if err := readMessage(data, &m); err != nil {
		return m, err
	}
	if !planPattern.MatchString(m.Plan) || m.Unit < 1 || m.GaveUp == hashPattern.MatchString(m.Record) || !workerPattern.MatchString(m.Worker) || !(m.Seconds >= 0 && m.Seconds < 1e9) {
		return m, &MessageError{"want a plan, a unit, a record or that it was given up, and a worker"}
	}
	return m, nil
}

// Access says how to reach a queue.
type Access struct {
	URL string
	// Token authenticates; "" for none.
	Token string
	// TLS is nil for none.
	TLS *tls.Config
}

// Listen are the settings of an embedded server.
type Listen struct {
	Host string
	Port int // 0 is any free one
	// Dir keeps the queue over restarts.
	Dir   string
	Token string
	TLS   *tls.Config
}

// Server is an embedded NATS server.
type Server struct{ s *server.Server }

// StartServer starts a server. A server that other machines reach needs a token.
func StartServer(l Listen) (*Server, error) {
	if l.Token == "" && l.Host != "127.0.0.1" && l.Host != "::1" && l.Host != "localhost" {
		return nil, fmt.Errorf("a queue that listens on %s needs a token: whoever reaches it could hand out work", l.Host)
	}
	port := l.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{ServerName: "passgate", Host: l.Host, Port: port, JetStream: true, StoreDir: l.Dir, Authorization: l.Token, TLSConfig: l.TLS, TLS: l.TLS != nil,
		MaxPayload: maxMessage, NoSigs: true, NoLog: true, SyncAlways: true})
	if err != nil {
		return nil, err
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		return nil, fmt.Errorf("the queue on %s:%d does not start", l.Host, l.Port)
	}
	return &Server{s}, nil
}

// URL is the server's address.
func (s *Server) URL() string { return s.s.ClientURL() }

// Close stops the server.
func (s *Server) Close() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}

// ServerTLS reads the certificate of a server; nil without one.
func ServerTLS(cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, nil
}

// ClientTLS trusts the authorities of a PEM file; nil without one.
func ClientTLS(ca string) (*tls.Config, error) {
	if ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificates", ca)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, nil
}

// link is a connection to a queue and its artifacts.
type link struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bucket *blob.Bucket
}

// dial connects; the connection comes back by itself when it is lost.
func dial(ctx context.Context, a Access, artifacts, name string) (*link, error) {
	o := []nats.Option{nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(10 * time.Second)}
	if a.Token != "" {
		o = append(o, nats.Token(a.Token))
	}
	if a.TLS != nil {
		o = append(o, nats.Secure(a.TLS))
	}
	nc, err := nats.Connect(a.URL, o...)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", a.URL, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	bucket, err := blob.OpenBucket(ctx, artifacts)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("artifacts %s: %w", artifacts, err)
	}
	return &link{nc, js, bucket}, nil
}

func (l *link) close() {
	l.nc.Close()
	l.bucket.Close() // nothing is open for writing any more
}

// FileArtifacts is the URL of a directory of artifacts.
func FileArtifacts(dir string) string {
	return "file://" + dir + "?create_dir=true&metadata=skip&no_tmp_dir=true"
}

func jobKey(hash string) string                 { return "jobs/" + hash }
func recordKey(plan string, hash string) string { return "records/" + plan + "/" + hash }

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// put stores an artifact under a key that ends in its hash.
func (l *link) put(ctx context.Context, key string, data []byte) error {
	if ok, err := l.bucket.Exists(ctx, key); err == nil && ok {
		return nil
	}
	return l.bucket.WriteAll(ctx, key, data, nil)
}

// get reads an artifact of at most so many bytes and checks its hash.
func (l *link) get(ctx context.Context, key, hash string, most int64) ([]byte, error) {
	r, err := l.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, &MessageError{fmt.Sprintf("artifact %s has more than %d bytes", key, most)}
	}
	if hashOf(data) != hash {
		return nil, &MessageError{fmt.Sprintf("artifact %s is not what it is named for", key)}
	}
	return data, nil
}
