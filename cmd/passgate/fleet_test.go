package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/passgate/passgate/fleet/fleettest"
)

// certificate writes cert.pem, for the loopback and its own authority, and key.pem.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	subject := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, subject, subject, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

// TestFleet: three workers, of which one is killed, one is slow and one is cut off
// in the middle of a unit; nothing is lost, nothing counts twice, and the report is
// that of one machine. The queue is encrypted.
func TestFleet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"arctangent-vector", "exponentials-overflow", "log1p-double", "matmul", "maximum-of-nan", "slice-of-slice", "softmax", "sort-ties"} {
		text, err := os.ReadFile("../../examples/cases/" + name + ".case")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "cases", name+".case"), string(text))
	}
	write(t, filepath.Join(dir, "token"), "secret\n")
	job := []string{"--base", older, "--head", newer, "--cases", "cases", "--programs", "8", "--probes", "3", "--null", "2", "--cost-runs", "0"}
	if code, output := passgate(t, dir, append([]string{"release", "--out", "alone"}, job...)...); code != 1 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	start := func(args ...string) (*exec.Cmd, io.Reader, *bytes.Buffer) {
		t.Helper()
		cmd := exec.Command(os.Args[0], args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PASSGATE_TRANSCRIPT=1")
		var out bytes.Buffer
		cmd.Stdout = &out
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Signal(syscall.SIGCONT)
			cmd.Process.Kill()
		})
		return cmd, log, &out
	}
	certificate(t, dir)
	serve, log, out := start(append([]string{"serve", "--out", "fleet", "--listen", "127.0.0.1:0", "--token-file", "token", "--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-ca", "cert.pem", "--ack-wait", "2s", "--ahead", "4", "--log", "none"}, job...)...)
	lines := bufio.NewScanner(log)
	url := ""
	for url == "" && lines.Scan() {
		url, _ = strings.CutPrefix(lines.Text(), "queue at ")
		if !strings.HasPrefix(lines.Text(), "queue at ") {
			url = ""
		}
	}
	go io.Copy(io.Discard, log)
	addr, encrypted := strings.CutPrefix(url, "tls://")
	if !encrypted {
		t.Errorf("queue at %s with a certificate", url)
	}
	link, err := fleettest.NewLink(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	work := func(name, at string, more ...string) (*exec.Cmd, io.Reader) {
		cmd, log, _ := start(append([]string{"work", "--queue", "tls://" + at, "--token-file", "token", "--tls-ca", "cert.pem", "--base", older, "--head", newer, "--artifacts", "fleet/artifacts", "--workers", "1", "--name", name}, more...)...)
		return cmd, log
	}
	// onUnit calls do once, when a worker has finished its first unit and is at the
	// next one.
	onUnit := func(log io.Reader, do func()) {
		var once sync.Once
		go func() {
			lines := bufio.NewScanner(log)
			for lines.Scan() {
				if strings.Contains(lines.Text(), "msg=unit") {
					once.Do(func() {
						time.Sleep(100 * time.Millisecond)
						do()
					})
				}
			}
		}()
	}
	if code, output := passgate(t, dir, "work", "--queue", url, "--token-file", "token", "--base", older, "--head", newer, "--artifacts", "fleet/artifacts", "--log", "none"); code != 3 || !strings.Contains(output, "certificate") {
		t.Errorf("without the authority: exit code %d: %s", code, output)
	}
	var killed, cut atomic.Bool
	victim, log1 := work("victim", addr)
	onUnit(log1, func() { killed.Store(true); victim.Process.Kill() })
	slow, log2 := work("slow", addr)
	onUnit(log2, func() {
		for range 400 { // runs a third of the time
			slow.Process.Signal(syscall.SIGSTOP)
			time.Sleep(100 * time.Millisecond)
			slow.Process.Signal(syscall.SIGCONT)
			time.Sleep(50 * time.Millisecond)
		}
	})
	_, log3 := work("partitioned", link.Addr)
	onUnit(log3, func() {
		cut.Store(true)
		link.Cut(true)
		time.Sleep(6 * time.Second) // beyond the ack-wait
		link.Cut(false)             // and its record comes late
	})
	if err := serve.Wait(); serve.ProcessState.ExitCode() != 1 {
		t.Fatalf("serve: %v\n%s", err, out)
	}
	if !killed.Load() || !cut.Load() {
		t.Errorf("killed %v, cut off %v: the run was over too early", killed.Load(), cut.Load())
	}
	summary := regexp.MustCompile(`16 units by (\d) workers .* 0 refused, 0 given up; [0-9.]+ times the throughput of one worker`).FindString(out.String())
	if summary == "" {
		t.Errorf("no summary in\n%s", out)
	}
	t.Log(summary)
	for _, name := range []string{"result.json", "release.json"} {
		if diff := cmp.Diff(releaseBody(t, filepath.Join(dir, "alone"), name), releaseBody(t, filepath.Join(dir, "fleet"), name)); diff != "" {
			t.Errorf("%s, one machine -, fleet +:\n%s", name, diff)
		}
	}
	// A worker for other builds refuses the job.
	again, log4, _ := start(append([]string{"serve", "--restart", "--out", "fleet", "--listen", "127.0.0.1:0", "--token-file", "token", "--log", "none"}, job...)...)
	lines = bufio.NewScanner(log4)
	for url = ""; url == "" && lines.Scan(); {
		if u, ok := strings.CutPrefix(lines.Text(), "queue at "); ok {
			url = u
		}
	}
	go io.Copy(io.Discard, log4)
	code, output := passgate(t, dir, "work", "--queue", url, "--token-file", "token", "--base", older, "--head", older, "--artifacts", "fleet/artifacts", "--log", "none", "--idle", "20s")
	if code != 2 || !strings.Contains(output, "job: it is for build "+newer) {
		t.Errorf("another build: exit code %d: %s", code, output)
	}
	if code, output = passgate(t, dir, "work", "--queue", url, "--base", older, "--head", newer, "--artifacts", "fleet/artifacts", "--log", "none"); code != 3 || !strings.Contains(strings.ToLower(output), "authorization") {
		t.Errorf("without the token: exit code %d: %s", code, output)
	}
	again.Process.Signal(syscall.SIGTERM)
	again.Wait()
}
