package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
)

// TestTelemetry: what is counted shows for Prometheus, and reaches the collector
// that the environment names.
func TestTelemetry(t *testing.T) {
	var mu sync.Mutex
	got := map[string]int{}
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		mu.Lock()
		got[r.URL.Path] += len(data)
		mu.Unlock()
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL) // read by the exporters
	s, err := Start(t.Context(), "passgate-test", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL})
	if err != nil {
		t.Fatal(err)
	}
	s.Unit(t.Context(), "counted", 2)
	s.Unit(t.Context(), "counted", 20)
	s.State(t.Context(), 2, 10, 3, 1)
	_, span := otel.Tracer("test").Start(t.Context(), "unit")
	span.End()
	page := httptest.NewRecorder()
	s.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`passgate_units_total{outcome="counted"} 2`, `passgate_unit_duration_seconds_sum{outcome="counted"} 22`, `passgate_run{what="units"} 10`, "go_goroutines"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, page.Body)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got["/v1/traces"] == 0 || got["/v1/metrics"] == 0 {
		t.Errorf("the collector got %v", got)
	}
	plain, err := Start(t.Context(), "passgate-test", nil)
	if err != nil || len(plain.shutdown) != 1 {
		t.Errorf("without a collector: %v, %d exporters", err, len(plain.shutdown))
	}
}
