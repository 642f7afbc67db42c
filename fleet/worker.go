package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/passgate/passgate/release"
)

// Worker runs units from a queue.
type Worker struct {
	Access    Access
	Artifacts string // URL of the bucket
	// Name is unique among the workers: letters, digits, dots, dashes, underscores.
	Name string
	// Prepare makes a job ready on this machine's builds; it must refuse a job for
	// others. Release gives back what the work holds.
	Prepare func(ctx context.Context, j *release.Job) (w *release.Work, release func(), err error)
	// Slots is the number of units at a time, at least 1.
	Slots int
	// Idle ends the worker when the queue gave nothing for so long; 0 never.
	Idle time.Duration
	// MaxDeliveries of a unit after which it is given up, at least 1: it may be
	// what kills workers.
	MaxDeliveries int
	Now           func() time.Time
	Log           *slog.Logger
	// Observe is called for every unit that ended here: "done", "given up",
	// "failed"; may be nil.
	Observe func(outcome string, seconds float64)
}

// Run works until ctx ends (no error), or the queue is idle.
func (w *Worker) Run(ctx context.Context) error {
	if !workerPattern.MatchString(w.Name) {
		return fmt.Errorf("worker name %q: want letters, digits, dots, dashes and underscores", w.Name)
	}
	l, err := dial(ctx, w.Access, w.Artifacts, "passgate worker "+w.Name)
	if err != nil {
		return err
	}
	defer l.close()
	units, err := w.consumer(ctx, l)
	if err != nil || units == nil {
		return err
	}
	var ready prepared
	defer func() { ready.release() }()
	slots := make(chan struct{}, max(1, w.Slots))
	fatal := make(chan error, 1)
	last := w.Now()
	for ctx.Err() == nil {
		select {
		case slots <- struct{}{}: // pull only what can be started: the queue holds the rest
		case err := <-fatal:
			return err
		case <-ctx.Done():
			continue
		}
		batch, err := units.Fetch(1, jetstream.FetchMaxWait(2*time.Second))
		var m jetstream.Msg
		if err == nil {
			for got := range batch.Messages() {
				m = got
			}
			err = batch.Error()
		}
		if m == nil {
			<-slots
			if err != nil && ctx.Err() == nil && !errors.Is(err, jetstream.ErrMsgIteratorClosed) && !isTimeout(err) {
				w.Log.Warn("queue", "error", err)
				pause(ctx, time.Second)
			}
			if w.Idle > 0 && len(slots) == 0 && w.Now().Sub(last) >= w.Idle {
				w.Log.Info("idle", "for", w.Idle)
				return nil
			}
			continue
		}
		last = w.Now()
		work, err := w.ready(ctx, l, m, &ready, slots)
		if err != nil || work == nil {
			<-slots
			if err != nil {
				return err
			}
			continue
		}
		go func() {
			defer func() { <-slots }()
			w.one(ctx, l, m, work)
		}()
	}
	for range max(1, w.Slots) { // the units on their way notice ctx
		slots <- struct{}{}
	}
	return nil
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoMessages)
}

// consumer waits for the coordinator to make the queue; nil if ctx ends or the
// wait is longer than Idle.
func (w *Worker) consumer(ctx context.Context, l *link) (jetstream.Consumer, error) {
	start := w.Now()
	for ctx.Err() == nil {
		c, err := l.js.Consumer(ctx, unitStream, consumerName)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) && !errors.Is(err, jetstream.ErrConsumerNotFound) && !isTimeout(err) {
			w.Log.Warn("queue", "error", err)
		}
		if w.Idle > 0 && w.Now().Sub(start) >= w.Idle {
			return nil, nil
		}
		pause(ctx, 200*time.Millisecond)
	}
	return nil, nil
}

// prepared is the job that is ready.
type prepared struct {
	hash string
	work *release.Work
	free func()
}

func (p *prepared) release() {
	if p.free != nil {
		p.free()
	}
	*p = prepared{}
}

// ready is the work that a unit belongs to; nil if the unit is refused or its job
// cannot be read now. An error ends the worker: the job is not for its builds.
func (w *Worker) ready(ctx context.Context, l *link, m jetstream.Msg, p *prepared, slots chan struct{}) (*release.Work, error) {
	u, err := readUnit(m.Data())
	if err != nil {
		w.Log.Warn("refused", "error", err)
		w.settle(m.Term)
		return nil, nil
	}
	if p.hash != u.Job {
		// Another job: first the units of the old one end.
		for range cap(slots) - 1 {
			slots <- struct{}{}
		}
		p.release()
		for range cap(slots) - 1 {
			<-slots
		}
		stop := w.alive(ctx, m)
		defer stop()
		data, err := l.get(ctx, jobKey(u.Job), u.Job, release.MaxJobBytes)
		if err != nil {
			if ctx.Err() == nil {
				w.Log.Warn("job", "error", err)
				w.settle(func() error { return m.NakWithDelay(5 * time.Second) })
				pause(ctx, time.Second)
			}
			return nil, nil
		}
		job, err := release.ReadJob(data)
		if err != nil {
			w.Log.Warn("refused", "error", err)
			w.settle(m.Term)
			return nil, nil
		}
		work, free, err := w.Prepare(ctx, job)
		if err != nil {
			w.settle(m.Nak) // another worker may have the builds
			if ctx.Err() != nil {
				return nil, nil
			}
			return nil, err
		}
		*p = prepared{u.Job, work, free}
	}
	if u.Plan != p.work.Plan() || u.Unit > p.work.Job.Units() {
		w.Log.Warn("refused", "error", "the unit is not of its job's plan")
		w.settle(m.Term)
		return nil, nil
	}
	return p.work, nil
}

func (w *Worker) settle(how func() error) {
	if err := how(); err != nil {
		w.Log.Warn("acknowledge", "error", err) // it is delivered again, and counts once
	}
}

// alive sends signs of life until it is stopped.
func (w *Worker) alive(ctx context.Context, m jetstream.Msg) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := m.InProgress(); err != nil {
				w.Log.Debug("sign of life", "error", err)
			}
			pause(ctx, lifeEvery)
		}
	}()
	return func() { cancel(); <-done }
}

// lifeEvery is the time between signs of life: three of them fit into the
// shortest AckWait that a coordinator takes.
const lifeEvery = 500 * time.Millisecond

// MinAckWait is the shortest Coordinator.AckWait.
const MinAckWait = 3 * lifeEvery

// one runs a unit and hands in its record.
func (w *Worker) one(ctx context.Context, l *link, m jetstream.Msg, work *release.Work) {
	u, err := readUnit(m.Data())
	if err != nil {
		return // it was read before
	}
	defer w.alive(ctx, m)()
	result := resultMessage{Plan: u.Plan, Unit: u.Unit, Worker: w.Name}
	outcome := "done"
	start := w.Now()
	log := w.Log.With("unit", u.Unit)
	deliveries := uint64(1)
	if meta, err := m.Metadata(); err == nil {
		deliveries = meta.NumDelivered
	}
	fail := func(what string, err error) {
		outcome = "failed"
		if ctx.Err() == nil {
			log.Warn(what, "error", err)
		}
		w.settle(func() error { return m.NakWithDelay(time.Second) })
	}
	defer func() {
		if w.Observe != nil {
			w.Observe(outcome, w.Now().Sub(start).Seconds())
		}
	}()
	if deliveries > uint64(max(1, w.MaxDeliveries)) {
		outcome, result.GaveUp = "given up", true
		log.Error("given up", "deliveries", deliveries)
	} else {
		traced, span := otel.Tracer("passgate/fleet").Start(ctx, "unit", trace.WithAttributes(attribute.Int("unit", u.Unit), attribute.String("plan", u.Plan), attribute.String("worker", w.Name)))
		r, err := work.Run(traced, u.Unit)
		if err != nil {
			span.RecordError(err)
		}
		span.End()
		if err != nil {
			fail("unit", err)
			return
		}
		if r.Lost() && deliveries < 2 {
			fail("unit", errors.New("the machine failed; it is tried once more"))
			return
		}
		data, err := r.Marshal()
		if err != nil {
			fail("record", err)
			return
		}
		result.Record = hashOf(data)
		if err := l.put(ctx, recordKey(u.Plan, result.Record), data); err != nil {
			fail("artifacts", err)
			return
		}
	}
	result.Seconds = w.Now().Sub(start).Seconds()
	data, err := marshal(result)
	if err != nil {
		fail("message", err)
		return
	}
	for { // a queue that is full or away: the signs of life go on
		_, err := l.js.Publish(ctx, resultSubject, data)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			fail("hand in", err)
			return
		}
		log.Warn("hand in", "error", err)
		pause(ctx, time.Second)
	}
	log.Info("unit", "outcome", outcome, "seconds", result.Seconds)
	w.settle(m.Ack)
}

func marshal(v any) ([]byte, error) { return json.Marshal(v) }
