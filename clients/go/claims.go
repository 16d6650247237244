package wakeboard

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	scanLimit     = 2000                  // due rows of a queue and priority that one claim reads
	fullScanEvery = 2 * time.Second       // without this limit: runs behind so many of other job types
	limitedEvery  = 50 * time.Millisecond // looks for limited runs, if there were none
	keysPerClaim  = 200
	oldestTurns   = 20 // of so many claims, one is by age, so that no priority starves
	registerEvery = 30 * time.Second
)

const (
	columns = `select id, uuid::text, job_type, payload, attempts, max_attempts, make_interval(secs => timeout_s), lease_epoch,
		queue, priority, coalesce(schedule, ''), scheduled_for from ` // the exported fields of Run, in their order
	claimNext = columns + `(select array_agg(queue order by priority desc, place) as queues,
			array_agg(priority::smallint order by priority desc, place) as priorities, array[count(*)::integer] as pairs
		from unnest(@queues::text[]) with ordinality as served (queue, place), generate_series(1, 5) as priority) as scan,
		wakeboard.claim(@worker::bigint, @lease::integer, queues, priorities, array_fill('-infinity'::timestamptz, pairs),
			array_fill(0::bigint, pairs), @types::text[], @count::integer, @limit::integer)`
	claimOldest = columns + `wakeboard.claim_oldest(@worker::bigint, @lease::integer, @queue::text,
		array_fill('-infinity'::timestamptz, '{5}'), array_fill(0::bigint, '{5}'), @types::text[], @count::integer)`
	dueLimitKeys = `select wakeboard.due_limit_keys(@queues::text[], @after::text, @count::integer)`
	claimLimited = columns + `wakeboard.claim_limited(@worker::bigint, @lease::integer, @queues::text[], @types::text[],
		@keys::text[], @count::integer)`
	// It also returns whether a quarantined run has waited for a minute.
	register = `select wakeboard.register_worker(@worker::bigint, @name::text, @pool::text, @host::text, '0.1.0', @queues::text[],
			@concurrency::integer, @lease::integer, @types::text[])
		and coalesce(wakeboard.quarantined_since(@queues::text[], @types::text[]) < now() - interval '1 min', false)`
	claimQuarantined = columns + `wakeboard.claim_quarantined(@worker::bigint, @lease::integer, @queues::text[], @types::text[])`
)

func (w *Worker) claimUntilStopped(ctx context.Context) error {
	for ctx.Err() == nil {
		claimed, err := w.claimTurn(ctx)
		if err != nil && !unavailable(err) {
			return err
		}
		if claimed == 0 {
			select {
			case <-w.wake:
			case <-ctx.Done():
			case <-time.After(w.options.Poll):
			}
		}
	}
	return nil
}

// claimTurn claims runs for the free slots. When a quarantined run has waited for a minute, it lets the others end and
// claims that one alone: it was running when two workers died.
func (w *Worker) claimTurn(ctx context.Context) (claimed int, err error) {
	held := len(w.heldRuns())
	free := w.options.Concurrency - int(w.running.Load())
	if free <= 0 || len(w.outbox) >= batchSize || !w.leasesValid() {
		return 0, nil
	}
	if !w.registered.Load() || time.Since(w.registeredAt) > min(registerEvery, w.options.Lease) {
		host, _ := os.Hostname()
		values := pgx.NamedArgs{"name": fmt.Sprintf("%s-%d", host, os.Getpid()), "host": host, "pool": w.options.Pool,
			"concurrency": w.options.Concurrency}
		waits, err := query(w, w.options.Lease, pgx.RowTo[bool], register, values)
		if err != nil {
			return 0, err
		}
		w.registered.Store(true)
		w.registeredAt, w.yields = time.Now(), waits[0] && !w.yields
	}
	if !w.yields {
		claimed, err = w.claimDue(ctx, free)
	}
	if claimed == 0 && held == 0 && err == nil {
		claimed, err = w.claim(ctx, claimQuarantined, nil)
		for claimed > 0 && len(w.heldRuns()) > 0 && sleep(ctx, tick) {
			w.yields = false
		}
	}
	return claimed, err
}

func (w *Worker) claimDue(ctx context.Context, free int) (int, error) {
	claimed, err := w.claimLimited(ctx, free)
	if claimed == free || err != nil {
		return claimed, err
	}
	w.turn++
	queue := w.options.Queues[w.turn/oldestTurns%len(w.options.Queues)]
	values := pgx.NamedArgs{"count": free - claimed, "limit": scanLimit, "queue": queue}
	sql := claimNext
	switch {
	case w.turn%oldestTurns == 0:
		sql = claimOldest
	case time.Since(w.fullScan) > fullScanEvery:
		values["limit"] = nil
	}
	more, err := w.claim(ctx, sql, values)
	if more == 0 { // otherwise there is a backlog, of which claims without a limit are cheaper
		w.fullScan = time.Now()
	}
	return claimed + more, err
}

func (w *Worker) claimLimited(ctx context.Context, free int) (int, error) {
	if time.Since(w.noneLimited) < limitedEvery {
		return 0, nil
	}
	values := pgx.NamedArgs{"after": w.afterKey, "count": keysPerClaim}
	keys, err := query(w, w.options.Lease, pgx.RowTo[string], dueLimitKeys, values)
	w.afterKey = ""
	switch len(keys) {
	case 0:
		w.noneLimited = time.Now()
		return 0, err
	case keysPerClaim:
		w.afterKey = keys[keysPerClaim-1]
	}
	return w.claim(ctx, claimLimited, pgx.NamedArgs{"keys": keys, "count": free})
}

// claim calls a claim function and starts the handlers of its runs. A reply that came too late is released.
func (w *Worker) claim(ctx context.Context, sql string, values pgx.NamedArgs) (int, error) {
	sent := time.Now()
	runs, err := query(w, w.options.Lease, pgx.RowToAddrOfStructByPos[Run], sql, values)
	inTime := time.Since(sent) <= w.share(1-validShare) && w.leasesValid()
	for _, run := range runs {
		run.worker = w
		handling := w.hold(run)
		if inTime && ctx.Err() == nil {
			w.running.Add(1)
			go w.execute(handling, run)
		} else {
			w.settle(run, outcome{Kind: "released", Word: "not_started"})
		}
	}
	return len(runs), err
}
