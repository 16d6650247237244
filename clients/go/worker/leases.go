package worker

import (
	"cmp"
	"context"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	columns = `select id, uuid, job_type, payload::text, attempts, max_attempts, make_interval(secs => timeout_s), lease_epoch,
		queue, priority, coalesce(schedule, ''), scheduled_for, run_at from ` // the exported fields of Run, in their order
	// Of each queue and priority, the claim reads what is due behind its scan position. Queues of a priority have a random order.
	claimNext = columns + `(select array_agg(queue) as queues, array_agg(priority::smallint) as priorities,
			array_agg(case when here then @last_run_at::timestamptz else '-infinity' end) as run_ats, array_agg(case when here then @last_id::bigint else 0 end) as ids
		from (select queue, priority, (queue, priority) = (@last_queue::text, @last_priority::integer) as here
			from unnest(@queues::text[]) as queue, generate_series(1, 5) as priority order by priority desc, random()) as pairs) as scan,
		wakeboard.claim(@worker::bigint, @lease::integer, queues, priorities, run_ats, ids, @types::text[], @count::integer, case when not @full then 2000 end)`
	claimOldest = columns + `wakeboard.claim_oldest(@worker::bigint, @lease::integer, @queue::text,
		array_fill('-infinity'::timestamptz, '{5}'), array_fill(0::bigint, '{5}'), @types::text[], @count::integer, case when @full then 1000000 else 2000 end)`
	dueKeys      = "select wakeboard.due_limit_keys(@queues::text[], @after::text, @count::integer)"
	claimLimited = columns + `wakeboard.claim_limited(@worker::bigint, @lease::integer, @queues::text[], @types::text[], @keys::text[], @count::integer)`
	// It also creates the partitions that outcomes need soon, and returns whether a quarantined run has waited for a minute.
	register = `select wakeboard.create_partitions() is null or wakeboard.register_worker(@worker::bigint, @host::text || '-' || @pid::integer,
			@pool::text, @host::text, '0.1.0', @queues::text[], @concurrency::integer, @lease::integer, @types::text[])
		and coalesce(wakeboard.quarantined_since(@queues::text[], @types::text[]) < now() - interval '1 min', false)`
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

func (w *Worker) claimUntilStopped(ctx context.Context) error {
	for ctx.Err() == nil {
		claimed, err := w.claimTurn(ctx)
		if err != nil && !unavailable(err) {
			return err
		}
		if claimed == 0 {
			sleep(ctx, w.options.Poll, w.wake)
		}
		collect(func() bool { return int(w.running.Load()) <= w.options.Concurrency/2 })
	}
	return nil
}

// claimTurn claims runs for the free slots. When a quarantined run has waited for a minute, it lets the others end and
// claims that one alone: it was running when two workers died.
func (w *Worker) claimTurn(ctx context.Context) (claimed int, err error) {
	idle, free := len(w.heldRuns()) == 0, w.options.Concurrency-int(w.running.Load())
	if free <= 0 || len(w.outbox) >= 2*batchSize || !w.leasesValid() {
		return 0, nil
	}
	if !w.registered.Load() || time.Since(w.registeredAt) > min(30*time.Second, w.options.Lease) {
		host, _ := os.Hostname()
		waits, err := query(w, w.options.Lease, pgx.RowTo[bool], register, pgx.NamedArgs{
			"host": host, "pid": os.Getpid(), "pool": w.options.Pool, "concurrency": w.options.Concurrency})
		if err != nil && (w.registeredAt.IsZero() || fault(err).Code == "" || !unavailable(err)) {
			return 0, err
		}
		if err != nil { // a table is locked, for example: that must not stop the claims
			logf("could not register again: %v", err)
		}
		w.registered.Store(true)
		w.setReady(true)
		w.registeredAt, w.yields = time.Now(), err == nil && waits[0] && !w.yields
	}
	if !w.yields {
		claimed, err = w.claimDue(ctx, free)
	}
	if claimed == 0 && idle && err == nil {
		claimed, err = w.claim(ctx, columns+"wakeboard.claim_quarantined(@worker::bigint, @lease::integer, @queues::text[], @types::text[])", nil)
		for claimed > 0 && len(w.heldRuns()) > 0 && sleep(ctx, tick, nil) {
			w.yields = false
		}
	}
	return claimed, err
}

// claimDue claims runs with a limit key and runs without one, either first in turn, so that neither takes all slots. Each
// twentieth turn begins with the oldest runs, so that no priority starves.
func (w *Worker) claimDue(ctx context.Context, free int) (claimed int, err error) {
	w.turns++
	claims := []string{claimOldest, claimLimited, claimNext, claimLimited}[min(w.turns%20, 1+w.turns%2):]
	calls := map[string]func(context.Context, string, int) (int, error){claimLimited: w.claimLimited, claimNext: w.claimUnlimited, claimOldest: w.claimUnlimited}
	for at := 0; at < len(claims) && claimed < free && err == nil; at++ {
		more, refused := calls[claims[at]](ctx, claims[at], min(free-claimed, batchSize))
		claimed, err = claimed+more, refused
	}
	return claimed, err
}

// claimUnlimited continues behind the last run. After two seconds, or when it has claimed all, it begins at the start again,
// to find what became due before that run. It then reads beyond 2000 due rows of a queue and priority, which may be of other
// job types, unless that took long: then it waits twenty times as long. One slow reply does not count: it says nothing of the
// backlog.
func (w *Worker) claimUnlimited(ctx context.Context, sql string, count int) (int, error) {
	sent, full := time.Now(), time.Now().After(w.nextFull[sql])
	if full && time.Since(w.rewound) > 2*time.Second {
		w.last, w.rewound = &Run{Priority: 6}, sent
	}
	claimed, err := w.claim(ctx, sql, pgx.NamedArgs{"count": count, "full": full, "queue": w.options.Queues[w.turns/20%len(w.options.Queues)],
		"last_queue": w.last.Queue, "last_priority": w.last.Priority, "last_run_at": w.last.RunAt, "last_id": w.last.ID})
	if took := time.Since(sent); full {
		if cost := min(took, w.fullTook[sql]); claimed < count || cost > 100*time.Millisecond { // in a backlog of its own, it is the cheaper one
			w.nextFull[sql] = time.Now().Add(20 * cost)
		}
		w.fullTook[sql] = took
	}
	if claimed < count {
		w.rewound = time.Time{}
	}
	return claimed, err
}

// claimLimited considers some limit keys, and the next ones if these have no free slot.
func (w *Worker) claimLimited(ctx context.Context, sql string, count int) (claimed int, err error) {
	for more := time.Since(w.noneLimited) > 50*time.Millisecond; more && claimed == 0 && err == nil; more = w.afterKey != "" {
		keys, refused := query(w, w.options.Lease, pgx.RowTo[string], dueKeys, pgx.NamedArgs{"after": w.afterKey, "count": keysPerClaim})
		if w.afterKey = ""; len(keys) == keysPerClaim {
			w.afterKey = keys[keysPerClaim-1]
		}
		if len(keys) == 0 {
			w.noneLimited = time.Now()
			return 0, refused
		}
		claimed, err = w.claim(ctx, sql, pgx.NamedArgs{"keys": keys, "count": count})
	}
	return claimed, err
}

// claim calls a claim function and starts the handlers of its runs. A reply that came too late is released.
func (w *Worker) claim(ctx context.Context, sql string, values pgx.NamedArgs) (int, error) {
	sent := time.Now()
	runs, err := query(w, w.options.Lease, pgx.RowToAddrOfStructByPos[Run], sql, values)
	inTime := time.Since(sent) <= w.options.Lease/4 && w.leasesValid()
	held := w.heldRuns()
	for _, run := range runs {
		if older := held[run.ID]; older != nil { // its lease must be lost, and the heartbeat does not say so
			w.end(older, "lost")
		}
		if sql == claimNext && cmp.Or(w.last.Priority-run.Priority, run.RunAt.Compare(w.last.RunAt), cmp.Compare(run.ID, w.last.ID)) > 0 {
			w.last = run
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
	return len(runs), err
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
			notify(w.wake)
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

func column[Value any](batch []outcome, value func(outcome) Value) (values []Value) {
	for _, settled := range batch {
		values = append(values, value(settled))
	}
	return values
}
