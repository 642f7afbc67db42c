package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/passgate/passgate/ui"
)

// uiCmd shows a store in a browser.
type uiCmd struct {
	Store  string `help:"The store." required:"" placeholder:"FILE"`
	Listen string `help:"Address to serve on. There is no authentication: leave it on the loopback, or put a proxy in front." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
}

func (c *uiCmd) Run(a *app) error {
	s, err := openStore(a.ctx, c.Store, false)
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return usagef("--listen %s: %v", c.Listen, err)
	}
	server := &http.Server{Handler: ui.Handler(s, slog.New(slog.NewTextHandler(a.stderr, nil))), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	fmt.Fprintf(a.stdout, "http://%s/\n", l.Addr())
	stop := context.AfterFunc(a.ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		server.Shutdown(ctx)
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
