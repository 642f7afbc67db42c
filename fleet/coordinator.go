package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/passgate/passgate/release"
)

// Coordinator hands out the units of a job and collects their records.
type Coordinator struct {
	Access    Access
	Artifacts string // URL of the bucket
	Work      *release.Work
	Tally     *release.Tally
	Journal   *release.Journal
	// Ahead is the number of units in the queue at a time, at least 1: what waits
	// there costs memory and disk of the queue, not of ours.
	Ahead int
	// AckWait is the time without a sign of life after which a unit goes to
	// another worker.
	AckWait time.Duration
	Log     *slog.Logger
	// Tell is called after every unit; may be nil.
	Tell func(release.Progress)
	// Observe is called for every message about a unit, with how it ended:
	// "counted", "repeated", "refused", "given up"; may be nil.
	Observe func(outcome string, seconds float64)
}

// Stats are what a coordinator saw.
type Stats struct {
	// Counted records, Repeated ones of units that were there already, Refused
	// ones, and units that GaveUp.
	Counted, Repeated, Refused, GaveUp int
	// Workers are the units that each worker delivered first.
	Workers map[string]int
	// Busy is the time that workers spent on the counted units, in seconds.
	Busy float64
}

// Run serves until every unit is there, or given up, or ctx ends; then what there
// is is in the tally. The stats are there also with an error.
func (c *Coordinator) Run(ctx context.Context) (Stats, error) {
	stats := Stats{Workers: map[string]int{}}
	l, err := dial(ctx, c.Access, c.Artifacts, "passgate coordinator")
	if err != nil {
		return stats, err
	}
	defer l.close()
	data, err := c.Work.Job.Marshal()
	if err != nil {
		return stats, err
	}
	job := hashOf(data)
	if err := l.put(ctx, jobKey(job), data); err != nil {
		return stats, fmt.Errorf("artifacts: %w", err)
	}
	results, err := c.streams(ctx, l)
	if err != nil {
		return stats, err
	}
	missing := c.Tally.Missing()
	c.Log.Info("handing out", "units", len(missing), "done", c.Tally.Progress.Done, "plan", c.Work.Plan())
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var pending atomic.Int64
	room := make(chan struct{}, 1)
	published := make(chan struct{})
	go func() {
		defer close(published)
		for _, unit := range missing {
			for pending.Load() >= int64(max(1, c.Ahead)) {
				select {
				case <-room:
				case <-ctx.Done():
					return
				}
			}
			if err := c.publish(ctx, l, job, unit); err != nil {
				if ctx.Err() == nil {
					stop(err)
				}
				return
			}
			pending.Add(1)
		}
	}()
	lost := map[int]bool{}
	left := len(missing)
	for left > 0 && ctx.Err() == nil {
		batch, err := results.Fetch(32, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			if ctx.Err() == nil {
				c.Log.Warn("queue", "error", err)
				pause(ctx, time.Second)
			}
			continue
		}
		for m := range batch.Messages() {
			done, err := c.take(ctx, l, m.Data(), &stats, lost)
			if err != nil {
				stop(err)
				break
			}
			if done {
				left--
				pending.Add(-1)
				select {
				case room <- struct{}{}:
				default:
				}
			}
			if err := m.DoubleAck(ctx); err != nil && ctx.Err() == nil {
				c.Log.Warn("acknowledge", "error", err) // it comes again, and counts once
			}
		}
	}
	if left == 0 {
		c.clean(ctx, l)
	}
	err = context.Cause(ctx)
	stop(nil)
	<-published
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return stats, err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// streams makes the queue. What an earlier coordinator left in the queue of units
// is thrown away: it is handed out anew.
func (c *Coordinator) streams(ctx context.Context, l *link) (jetstream.Consumer, error) {
	units, err := l.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: unitStream, Subjects: []string{unitSubject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
		MaxMsgSize: maxMessage, MaxMsgs: int64(max(1, c.Ahead)) + 1, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if err := units.Purge(ctx); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if _, err := units.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.AckWait, MaxDeliver: -1, MaxAckPending: 100000}); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	results, err := l.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: resultStream, Subjects: []string{resultSubject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
		MaxMsgSize: maxMessage, MaxMsgs: 1 << 20, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	collector, err := results.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: collectorName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 5 * time.Minute, MaxDeliver: -1})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	return collector, nil
}

// publish puts a unit into the queue, waiting while it is full.
func (c *Coordinator) publish(ctx context.Context, l *link, job string, unit int) error {
	data, err := marshal(unitMessage{c.Work.Plan(), job, unit})
	if err != nil {
		return err
	}
	for {
		_, err := l.js.Publish(ctx, unitSubject, data)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		c.Log.Warn("hand out", "unit", unit, "error", err)
		pause(ctx, 500*time.Millisecond)
	}
}

// take takes one message about a unit; done says that the unit is settled by it.
func (c *Coordinator) take(ctx context.Context, l *link, data []byte, stats *Stats, lost map[int]bool) (done bool, err error) {
	outcome, seconds := "counted", 0.0
	defer func() {
		if c.Observe != nil && err == nil {
			c.Observe(outcome, seconds)
		}
	}()
	refuse := func(why error) (bool, error) {
		outcome = "refused"
		stats.Refused++
		c.Log.Warn("refused", "error", why)
		return false, nil
	}
	m, err := readResult(data)
	if err != nil {
		return refuse(err)
	}
	seconds = m.Seconds
	if m.Plan != c.Work.Plan() || m.Unit > c.Work.Job.Units() {
		return refuse(&MessageError{"of another job"})
	}
	if m.GaveUp {
		if c.Tally.Has(m.Unit) || lost[m.Unit] {
			outcome = "repeated"
			stats.Repeated++
			return false, nil
		}
		lost[m.Unit] = true
		outcome = "given up"
		stats.GaveUp++
		c.Log.Error("given up: no worker lived through it", "unit", m.Unit)
		return true, nil
	}
	if c.Tally.Has(m.Unit) {
		outcome = "repeated"
		stats.Repeated++
		return false, nil
	}
	text, err := l.get(ctx, recordKey(m.Plan, m.Record), m.Record, release.MaxRecordBytes)
	if err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return refuse(err)
	}
	r, err := c.Work.ReadRecord(text)
	if err != nil {
		return refuse(err)
	}
	if r.Unit != m.Unit {
		return refuse(&MessageError{"the record is of another unit"})
	}
	if !r.Lost() {
		if err := c.Journal.Append(text); err != nil {
			return false, err
		}
	}
	c.Tally.Add(r)
	stats.Counted++
	stats.Workers[m.Worker]++
	stats.Busy += m.Seconds
	if c.Tell != nil {
		c.Tell(c.Tally.Progress)
	}
	done = !lost[m.Unit] // it came after all: settled before
	return done, nil
}

// clean leaves an empty queue: units that are on their second way are of no use.
func (c *Coordinator) clean(ctx context.Context, l *link) {
	if s, err := l.js.Stream(ctx, unitStream); err == nil {
		if err := s.Purge(ctx); err != nil {
			c.Log.Warn("empty the queue", "error", err)
		}
	}
}
