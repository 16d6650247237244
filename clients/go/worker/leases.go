package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// The exported fields of Run, in their order. The last row is no run: its payload is the rest of the answer.
	fetchRuns = `select coalesce(id, 0), coalesce(uuid::text, ''), coalesce(job_type, ''), payload::text, coalesce(attempts, 0), coalesce(max_attempts, 0),
			make_interval(secs => coalesce(timeout_s, 0)), coalesce(lease_epoch, 0), coalesce(queue, ''), coalesce(priority, 0), coalesce(schedule, ''),
			coalesce(scheduled_for, 'epoch'), coalesce(run_at, 'epoch')
		from wakeboard.fetch_runs(@worker::bigint, @lease::integer, @queues::text[], @types::text[], @count::integer, nullif(@state::text, ''), @alone::boolean, within_s => @poll::float8)`
	// It also creates the partitions that outcomes need soon.
	register = `select wakeboard.create_partitions() is null or wakeboard.register_worker(@worker::bigint, @host::text || '-' || @pid::integer,
			@pool::text, @host::text, '0.1.0', @queues::text[], @concurrency::integer, @lease::integer, @types::text[])`
	renewLeases = `select id, answer from wakeboard.renew(@worker::bigint, @lease::integer, @ids::bigint[], @epochs::bigint[], @ages::real[],
		array(select nullif(fraction, 'NaN') from unnest(@fractions::real[]) as fraction), @messages::text[])`
	// Each function returns the runs whose outcome it did not accept. Those that are still leased were locked by another
	// transaction.
	refusedBy = "select id, id in (select wakeboard.still_leased(@worker::bigint, @ids::bigint[], @epochs::bigint[])) from "
	// Handlers that took no measurable time, and ended a moment ago, are not timed: it would cost the database a tenth.
	complete = refusedBy + `(select wakeboard.complete(@worker::bigint, array_agg(id), array_agg(epoch), jsonb_object_agg(id, result::jsonb) filter (where result is not null),
			coalesce(array_agg(id) filter (where timed), '{}'), coalesce(array_agg(began) filter (where timed), '{}'), coalesce(array_agg(ended) filter (where timed), '{}')) as id
		from unnest(@ids::bigint[], @epochs::bigint[], @results::text[], @began::real[], @ended::real[]) as report (id, epoch, result, began, ended)
		cross join lateral (values (began > 0.25 or began - ended >= 0.001)) as measured (timed)) as refused`
	fail = refusedBy + `wakeboard.fail(@worker::bigint, @ids::bigint[], @epochs::bigint[], @words::text[], @types::text[], @texts::text[],
		array(select '' from unnest(@ids::bigint[])), @delays::real[], @began::real[], @ended::real[]) as id`
	release = refusedBy + `wakeboard.release(@worker::bigint, @ids::bigint[], @epochs::bigint[], array(select coalesce(delay, 0) from unnest(@delays::real[]) as delay),
		array(select word in ('worker_stopped', 'disconnected') from unnest(@words::text[]) as word), @words::text[], @began::real[], @ended::real[]) as id`
)

// The outcome of a lease that ended during an outage of the database, so that it does not count as a crash.
var disconnected = outcome{Kind: "released", Word: "disconnected"}

// An answer of the database about a run.
type answer[Value any] struct {
	ID    int64
	Value Value
}

// fetched is the rest of an answer of fetch_runs: see docs/sql-functions.md.
type fetched struct {
	State        string
	Again, Waits bool
	Due          *float64 `json:"due_s"`
	Retry        *float64 `json:"retry_s"`
}

func (w *Worker) claimUntilStopped(ctx context.Context) error {
	for ctx.Err() == nil {
		pause, err := w.claimTurn(ctx)
		if err != nil && !unavailable(err) {
			return err
		}
		if pause > 0 {
			sleep(ctx, pause, w.wake)
		}
		collect(func() bool { return int(w.running.Load()) <= w.options.Concurrency/2 })
	}
	return nil
}

// claimTurn claims runs for the free slots. It returns how long to wait then, unless something wakes the worker.
func (w *Worker) claimTurn(ctx context.Context) (time.Duration, error) {
	w.endsMatter.Store(false)
	w.runEnded.Store(false)
	answer := fetched{Waits: true}
	free := w.options.Concurrency - int(w.running.Load())
	if free > 0 && len(w.outbox) < 2*batchSize && w.leasesValid() {
		if err := w.registerWhenDue(); err != nil {
			return w.options.Poll, err
		}
		found, err := w.fetch(ctx, min(free, batchSize))
		if err != nil {
			return w.options.Poll, err
		}
		answer = found
	}
	w.endsMatter.Store(answer.Waits)
	if answer.Again || answer.Waits && w.runEnded.Load() {
		return 0, nil
	}
	seconds := w.options.Poll.Seconds()
	for _, other := range []*float64{answer.Due, answer.Retry} {
		if other != nil {
			seconds = min(seconds, max(0, *other))
		}
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// registerWhenDue registers again from time to time. A failure, because a table is locked for example, must not stop the claims.
func (w *Worker) registerWhenDue() error {
	if w.registered.Load() && time.Since(w.registeredAt) <= min(30*time.Second, w.options.Lease) {
		return nil
	}
	host, _ := os.Hostname()
	_, err := query(w, w.options.Lease, pgx.RowTo[bool], register, pgx.NamedArgs{
		"host": host, "pid": os.Getpid(), "pool": w.options.Pool, "concurrency": w.options.Concurrency})
	if err != nil && (w.registeredAt.IsZero() || fault(err).Code == "" || !unavailable(err)) {
		return err
	}
	if err != nil {
		logf("could not register again: %v", err)
	}
	w.registered.Store(true)
	w.setReady(true)
	w.registeredAt = time.Now()
	return nil
}

// fetch claims runs and starts their handlers. A reply that came too late is released.
func (w *Worker) fetch(ctx context.Context, count int) (answer fetched, err error) {
	sent, held := time.Now(), w.heldRuns()
	runs, err := query(w, w.options.Lease, pgx.RowToAddrOfStructByPos[Run], fetchRuns, pgx.NamedArgs{
		"count": count, "state": w.state, "alone": len(held) == 0, "poll": w.options.Poll.Seconds()})
	if err != nil {
		return answer, err
	}
	last := len(runs) - 1
	if err = json.Unmarshal(runs[last].Payload, &answer); err != nil {
		return answer, err
	}
	w.state = answer.State
	inTime := time.Since(sent) <= w.options.Lease/4 && w.leasesValid()
	held = w.heldRuns()
	for _, run := range runs[:last] {
		if older := held[run.ID]; older != nil { // its lease must be lost, and the heartbeat does not say so
			w.end(older, "lost")
		}
		handling, cancel := context.WithCancelCause(context.Background())
		run.worker, run.started, run.cancel = w, time.Now(), cancel
		w.mutex.Lock()
		w.held[run.ID] = run
		w.mutex.Unlock()
		if inTime && ctx.Err() == nil {
			w.running.Add(1)
			go w.execute(handling, run)
		} else {
			w.settle(run, outcome{Kind: "released", Word: "not_started"})
		}
	}
	return answer, nil
}

// noteEnd wakes the claim loop if the end of a run may let another one start.
func (w *Worker) noteEnd() {
	w.runEnded.Store(true)
	if w.endsMatter.Load() {
		notify(w.wake)
	}
}

// end drops a lease: its outcome is accepted, or it is lost, and its handler stops.
func (w *Worker) end(run *Run, how string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if run.ended.CompareAndSwap(false, true) {
		delete(w.held, run.ID)
		w.counts[how]++
		run.settled.Store(true)
		run.cancel(ErrLeaseLost)
		if how == "lost" {
			w.logs.settle(run, how, "")
		}
	}
}

func (w *Worker) heldRuns() map[int64]*Run {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return maps.Clone(w.held)
}

// leasesValid: the database's clock decides when a lease ends. The worker's monotonic clock only stops it earlier.
func (w *Worker) leasesValid() bool { return time.Since(*w.renewed.Load()) < w.options.Lease*3/4 }

func (w *Worker) renewUntilEnded(ctx context.Context) {
	for pause := w.options.Lease / 4; sleep(ctx, min(progressEach, pause), nil) && sleep(ctx, pause-progressEach, w.progressed); pause = w.renew() {
		if !w.leasesValid() { // so other workers may have the runs
			for _, run := range w.heldRuns() {
				run.cancel(ErrLeaseLost)
				w.settle(run, disconnected)
			}
		}
	}
}

// renew renews all leases in one call, also if there are none. It returns how long to wait until the next call.
func (w *Worker) renew() (pause time.Duration) {
	pause = w.options.Lease / 4
	sent, runs := time.Now(), w.heldRuns()
	ids, epochs, ages, fractions, messages := []int64{}, []int64{}, []float64{}, []float64{}, []string{}
	for id, run := range runs {
		ids, epochs, ages = append(ids, id), append(epochs, run.Epoch), append(ages, sent.Sub(run.started).Seconds())
		reported := cmp.Or(run.reported.Load(), &progress{fraction: math.NaN()}) // NaN: none
		fractions, messages = append(fractions, reported.fraction), append(messages, reported.message)
	}
	values := pgx.NamedArgs{"ids": ids, "epochs": epochs, "ages": ages, "fractions": fractions, "messages": messages}
	answers, err := query(w, w.options.Lease/4, pgx.RowToStructByPos[answer[string]], renewLeases, values)
	if err != nil {
		logf("the leases are not renewed: %v", err)
		return min(busyRetry, pause)
	}
	w.renewed.Store(&sent)
	for _, answer := range answers {
		run := runs[answer.ID]
		switch answer.Value {
		case "cancel":
			run.cancel(ErrCancelled)
		case "refused":
			if !run.settled.Load() { // otherwise the reply to its report decides
				w.end(run, "lost")
			}
		case "unregistered":
			w.registered.Store(false)
		case "busy":
			pause = min(busyRetry, pause)
		}
	}
	return pause
}

// settle decides the outcome of a run, once.
func (w *Worker) settle(run *Run, settled outcome) {
	if run.settled.CompareAndSwap(false, true) {
		settled.run, settled.at = run, time.Now()
		w.logs.settle(run, settled.Kind, settled.inWords())
		w.outbox <- settled
	}
}

// collect waits until enough runs can share a statement, but for 10 ms at most.
func collect(enough func() bool) {
	for waited := 0; waited < 10 && !enough(); waited++ {
		time.Sleep(time.Millisecond)
	}
}

func (w *Worker) reportUntilEnded(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case first := <-w.outbox:
			collect(func() bool { return len(w.outbox) >= batchSize/2 || w.running.Load() == 0 })
			batches := map[string][]outcome{first.Kind: {first}}
			for range min(len(w.outbox), batchSize-1) {
				settled := <-w.outbox
				batches[settled.Kind] = append(batches[settled.Kind], settled)
			}
			for _, batch := range batches {
				w.report(batch, time.Now().Add(splitFor))
			}
			w.noteEnd()
			if len(batches) > 1 || first.Kind != "succeeded" { // their runs are due again some time
				notify(w.wake)
			}
		}
	}
}

// report reports outcomes. What the database did not answer, or what another transaction has locked, is reported again:
// the functions are idempotent. An outcome that was not reported in the validity of its lease is dropped. If the
// statement fails because of a lock, or because an outcome cannot be stored, it reports the halves. In the end, only the
// outcomes that cause this wait or are lost.
func (w *Worker) report(batch []outcome, splitUntil time.Time) {
	batch = slices.DeleteFunc(batch, func(settled outcome) bool { return settled.run.ended.Load() })
	refused, err := w.send(batch)
	splits := !unavailable(err) || fault(err).Code == "55P03" && time.Now().Before(splitUntil)
	if middle := len(batch) / 2; err != nil && splits && middle > 0 {
		w.report(batch[:middle], splitUntil)
		w.report(batch[middle:], splitUntil)
		return
	}
	for _, settled := range batch {
		locked, missing := refused[settled.run.ID]
		switch {
		case locked || err != nil && unavailable(err):
			if !w.leasesValid() {
				settled.Kind, settled.Word = disconnected.Kind, disconnected.Word
			}
			time.AfterFunc(busyRetry, func() { w.outbox <- settled })
		case err != nil && settled.Type != "OutcomeRefused":
			settled.Type, settled.Text, settled.Delay, settled.Result = "OutcomeRefused", storable(err.Error(), maxLine), nil, encode("a result that cannot be stored")
			if settled.Kind != "succeeded" {
				settled.Kind, settled.Word = "failed", "failed"
			}
			w.report([]outcome{settled}, splitUntil)
		case missing || err != nil:
			logf("the outcome of run %d is not accepted: %v", settled.run.ID, cmp.Or(err, ErrLeaseLost))
			w.end(settled.run, "lost")
		default:
			w.end(settled.run, settled.Kind)
		}
	}
}

// send reports outcomes of one kind. It returns the runs whose outcome was not accepted: true if another transaction has
// locked the run.
func (w *Worker) send(batch []outcome) (map[int64]bool, error) {
	if len(batch) == 0 || !w.leasesValid() {
		return nil, context.DeadlineExceeded
	}
	now := time.Now()
	values := pgx.NamedArgs{
		"began": column(batch, func(o outcome) float64 { return now.Sub(o.run.started).Seconds() }),
		"ended": column(batch, func(o outcome) float64 { return now.Sub(o.at).Seconds() }),
		"ids":   column(batch, func(o outcome) int64 { return o.run.ID }), "epochs": column(batch, func(o outcome) int64 { return o.run.Epoch }),
		"words": column(batch, func(o outcome) string { return o.Word }),
		"types": column(batch, func(o outcome) string { return o.Type }), "texts": column(batch, func(o outcome) string { return o.Text }),
		"delays": column(batch, func(o outcome) *float64 { return o.Delay }), "results": column(batch, func(o outcome) *string { return o.Result }),
	}
	sql := map[string]string{"succeeded": complete, "failed": fail, "cancelled": fail, "snoozed": release, "released": release}[batch[0].Kind]
	answers, err := query(w, w.options.Lease/2, pgx.RowToStructByPos[answer[bool]], sql, values)
	refused := map[int64]bool{}
	for _, answer := range answers {
		refused[answer.ID] = answer.Value
	}
	return refused, err
}

func column[Row, Value any](batch []Row, value func(Row) Value) (values []Value) {
	for _, row := range batch {
		values = append(values, value(row))
	}
	return values
}
