package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/passgate/passgate/fleet"
	"github.com/passgate/passgate/fleet/telemetry"
	"github.com/passgate/passgate/release"
)

// accessFlags say how to reach a queue.
type accessFlags struct {
	TokenFile string `help:"File with the token of the queue." env:"PASSGATE_QUEUE_TOKEN_FILE" placeholder:"FILE"`
	TLSCA     string `name:"tls-ca" help:"PEM file of the authorities that the queue's certificate is checked against." placeholder:"FILE"`
	Artifacts string `help:"Where records and jobs lie: a directory, or file://, and with the build tag cloud s3:// or gs://. The same for all." placeholder:"URL"`
	Metrics   string `help:"Serve Prometheus' metrics on this address." placeholder:"HOST:PORT"`
	Log       string `help:"Log as text or json, or none, to standard error." enum:"text,json,none" default:"text"`
}

// serveCmd hands out the units of a release run.
type serveCmd struct {
	runFlags
	passesFlags
	jobFlags
	storeFlags
	accessFlags
	Queue    string        `help:"URL of a NATS cluster with JetStream; without it a server is embedded." placeholder:"URL"`
	Listen   string        `help:"Address of the embedded queue. Other than on the loopback it needs a token." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	TLSCert  string        `name:"tls-cert" help:"Certificate of the embedded queue, PEM." placeholder:"FILE"`
	TLSKey   string        `name:"tls-key" help:"Its key." placeholder:"FILE"`
	Ahead    int           `help:"Units in the queue at a time." default:"1000"`
	AckWait  time.Duration `help:"Time without a sign of life after which a unit goes to another worker." default:"30s"`
	Previous string        `help:"release.json of the last release run, to compare with." placeholder:"FILE"`
	Restart  bool          `help:"Forget what an interrupted run has done."`
	Out      string        `help:"Directory for the journal, the queue and the reports." default:"passgate-release" placeholder:"DIR"`
}

func (c *serveCmd) Run(a *app) error {
	if c.Ahead < 1 || c.AckWait < fleet.MinAckWait {
		return usagef("--ahead %d --ack-wait %v: want at least 1 and %v", c.Ahead, c.AckWait, fleet.MinAckWait)
	}
	previous, err := readPrevious(c.Previous)
	if err != nil {
		return err
	}
	if err := checkOut(c.Out); err != nil {
		return err
	}
	if err := c.prepare(a.ctx); err != nil {
		return err
	}
	access, err := c.access()
	if err != nil {
		return err
	}
	job, found, err := c.job(a, c.runFlags, c.passesFlags)
	if err != nil {
		return err
	}
	run, err := a.openRun(job, found, 1, c.Out, c.Restart)
	if err != nil {
		return err
	}
	defer run.close()
	if c.Queue == "" {
		host, port, err := net.SplitHostPort(c.Listen)
		number, err1 := net.LookupPort("tcp", port)
		if err != nil || err1 != nil {
			return usagef("--listen %s: want HOST:PORT", c.Listen)
		}
		cert, err := fleet.ServerTLS(c.TLSCert, c.TLSKey)
		if err != nil {
			return usagef("--tls-cert, --tls-key: %v", err)
		}
		s, err := fleet.StartServer(fleet.Listen{Host: host, Port: number, Dir: filepath.Join(c.Out, "queue"), Token: access.Token, TLS: cert})
		if err != nil {
			return usagef("%v", err)
		}
		defer s.Close()
		access.URL = s.URL()
		fmt.Fprintf(a.stderr, "queue at %s\n", access.URL)
	} else {
		access.URL = c.Queue
	}
	artifacts, err := c.artifacts(filepath.Join(c.Out, "artifacts"))
	if err != nil {
		return err
	}
	watch, err := a.watch("passgate-serve", c.Metrics)
	if err != nil {
		return err
	}
	defer watch.close()
	report, end := a.unitProgress()
	start := a.now()
	co := fleet.Coordinator{Access: access, Artifacts: artifacts, Work: run.work, Tally: run.tally, Journal: run.journal, Ahead: c.Ahead, AckWait: c.AckWait, Log: c.logger(a.stderr),
		Tell: func(p release.Progress) {
			watch.State(a.ctx, p.Done, p.Units, p.Findings, p.News)
			report(p)
		},
		Observe: func(outcome string, seconds float64) { watch.Unit(a.ctx, outcome, seconds) }}
	stats, err := co.Run(a.ctx)
	end()
	if err != nil {
		return err
	}
	if wall := a.now().Sub(start).Seconds(); stats.Counted > 0 {
		fmt.Fprintf(a.stdout, "%d units by %d workers in %.1f s (%.2f units/s), %d repeated, %d refused, %d given up; %.2f times the throughput of one worker at a time\n",
			stats.Counted, len(stats.Workers), wall, float64(stats.Counted)/wall, stats.Repeated, stats.Refused, stats.GaveUp, stats.Busy/wall)
	}
	return a.publish(run.tally, previous, c.Out, c.storeFlags)
}

// access reads the token and the authorities; the URL is left to the caller.
func (f accessFlags) access() (fleet.Access, error) {
	var out fleet.Access
	if f.TokenFile != "" {
		data, err := readFile(f.TokenFile)
		if err != nil {
			return out, err
		}
		if out.Token = strings.TrimSpace(string(data)); out.Token == "" {
			return out, usagef("%s: no token", f.TokenFile)
		}
	}
	var err error
	if out.TLS, err = fleet.ClientTLS(f.TLSCA); err != nil {
		return out, usagef("--tls-ca: %v", err)
	}
	return out, nil
}

// artifacts is the URL of the bucket, a directory if none is given.
func (f accessFlags) artifacts(dir string) (string, error) {
	if strings.Contains(f.Artifacts, "://") {
		return f.Artifacts, nil
	}
	if f.Artifacts != "" {
		dir = f.Artifacts
	}
	abs, err := filepath.Abs(dir)
	return fleet.FileArtifacts(abs), err
}

func (f accessFlags) logger(w io.Writer) *slog.Logger {
	switch f.Log {
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil))
	case "none":
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// watched are the metrics of a process, and their server.
type watched struct {
	*telemetry.Telemetry
	server *http.Server
}

func (a *app) watch(service, addr string) (*watched, error) {
	t, err := telemetry.Start(a.ctx, service, a.environ)
	if err != nil {
		return nil, err
	}
	w := &watched{Telemetry: t}
	if addr == "" {
		return w, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, usagef("--metrics %s: %v", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	w.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(a.stderr, "metrics at http://%s/metrics\n", l.Addr())
	go w.server.Serve(l)
	return w, nil
}

func (w *watched) close() {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	w.Close(ctx) // a collector that is away must not change what the run says
	if w.server != nil {
		w.server.Close()
	}
}

// workCmd runs units of a queue.
type workCmd struct {
	buildFlags
	accessFlags
	Queue   string        `help:"URL of the queue, e.g. nats://host:4222." required:"" placeholder:"URL"`
	Base    string        `help:"Build that this worker may run as base; a job for another is refused." required:"" placeholder:"SPEC"`
	Head    string        `help:"The same for head." required:"" placeholder:"SPEC"`
	Witness string        `help:"Build that runs programs where base or head is compile-only; empty for none." default:"jax-0.11.2" placeholder:"SPEC"`
	Workers int           `help:"Units at a time; 0 is one per CPU." default:"0"`
	Name    string        `help:"Name of this worker; the host's and the process' if not given." placeholder:"NAME"`
	Idle    time.Duration `help:"End when the queue has given nothing for so long; 0 never." default:"0s"`
	Tries   int           `help:"Deliveries of a unit after which it is given up." default:"5"`
}

var notName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func (c *workCmd) Run(a *app) error {
	if c.Workers < 0 || c.Tries < 1 || c.Idle < 0 {
		return usagef("--workers and --idle want numbers from 0, --tries from 1")
	}
	if c.Artifacts == "" {
		return usagef("want --artifacts, the same as that of passgate serve")
	}
	access, err := c.access()
	if err != nil {
		return err
	}
	access.URL = c.Queue
	artifacts, err := c.artifacts("")
	if err != nil {
		return err
	}
	name := c.Name
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		name = fmt.Sprintf("%.100s-%d", notName.ReplaceAllString(host, "-"), os.Getpid())
	}
	found, err := a.releaseBuilds(c.buildFlags, passesFlags{Witness: c.Witness}, c.Base, c.Head)
	if err != nil {
		return err
	}
	watch, err := a.watch("passgate-work", c.Metrics)
	if err != nil {
		return err
	}
	defer watch.close()
	slots := runFlags{Workers: c.Workers}.workers()
	w := fleet.Worker{Access: access, Artifacts: artifacts, Name: name, Slots: slots, Idle: c.Idle, MaxDeliveries: c.Tries, Now: a.now, Log: c.logger(a.stderr).With("worker", name),
		Prepare: func(ctx context.Context, j *release.Job) (*release.Work, func(), error) {
			builds := found
			if j.Witness == "" {
				builds[2] = nil
			} else if builds[2] == nil { // passes only on executable builds
				w, err := a.fetch(c.buildFlags, c.Witness)
				if err != nil {
					return nil, nil, err
				}
				builds[2] = w[0]
			}
			return a.work(j, builds, slots)
		},
		Observe: func(outcome string, seconds float64) { watch.Unit(a.ctx, outcome, seconds) }}
	err = w.Run(a.ctx)
	var foreign *release.JobError
	if errors.As(err, &foreign) {
		return usagef("%v", foreign)
	}
	return err
}
