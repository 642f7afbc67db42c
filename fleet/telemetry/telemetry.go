// Package telemetry says what a long-running passgate does: metrics for
// Prometheus, and traces and metrics by OTLP where the environment names a
// collector (OTEL_EXPORTER_OTLP_ENDPOINT, as OpenTelemetry specifies it).
package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Telemetry are the instruments of one process.
type Telemetry struct {
	registry *prometheus.Registry
	shutdown []func(context.Context) error
	units    metric.Int64Counter
	seconds  metric.Float64Histogram
	state    metric.Int64Gauge
}

// Start sets up the metrics of a service ("passgate-serve", "passgate-work"), and
// exporters where the environment asks for them.
func Start(ctx context.Context, service string, environ []string) (*Telemetry, error) {
	t := &Telemetry{registry: prometheus.NewRegistry()}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	who := resource.NewSchemaless(attribute.String("service.name", service))
	prom, err := exporter.New(exporter.WithRegisterer(t.registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	readers := []sdkmetric.Option{sdkmetric.WithResource(who), sdkmetric.WithReader(prom)}
	if set(environ, "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") {
		otlp, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, err
		}
		readers = append(readers, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(otlp)))
	}
	meters := sdkmetric.NewMeterProvider(readers...)
	t.shutdown = append(t.shutdown, meters.Shutdown)
	if set(environ, "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
		otlp, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, errors.Join(err, meters.Shutdown(ctx))
		}
		traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(otlp), sdktrace.WithResource(who))
		t.shutdown = append(t.shutdown, traces.Shutdown)
		otel.SetTracerProvider(traces)
	}
	m := meters.Meter("passgate")
	var errs [3]error
	t.units, errs[0] = m.Int64Counter("passgate.units", metric.WithDescription("Units that ended, by outcome."))
	t.seconds, errs[1] = m.Float64Histogram("passgate.unit.duration", metric.WithUnit("s"), metric.WithDescription("Time of a unit on its worker."),
		metric.WithExplicitBucketBoundaries(0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000))
	t.state, errs[2] = m.Int64Gauge("passgate.run", metric.WithDescription("Units done and in all, findings and those that block."))
	return t, errors.Join(errs[:]...)
}

func set(environ []string, names ...string) bool {
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		for _, n := range names {
			if n == name && value != "" {
				return true
			}
		}
	}
	return false
}

// Unit counts a unit that ended so, after that time.
func (t *Telemetry) Unit(ctx context.Context, outcome string, seconds float64) {
	is := metric.WithAttributes(attribute.String("outcome", outcome))
	t.units.Add(ctx, 1, is)
	t.seconds.Record(ctx, seconds, is)
}

// State is how far a run is.
func (t *Telemetry) State(ctx context.Context, done, units, findings, blocking int) {
	for what, n := range map[string]int{"done": done, "units": units, "findings": findings, "blocking": blocking} {
		t.state.Record(ctx, int64(n), metric.WithAttributes(attribute.String("what", what)))
	}
}

// Handler serves the metrics in Prometheus' text format.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{})
}

// Close sends what is not sent yet.
func (t *Telemetry) Close(ctx context.Context) error {
	var all []error
	for _, f := range t.shutdown {
		all = append(all, f(ctx))
	}
	return errors.Join(all...)
}
