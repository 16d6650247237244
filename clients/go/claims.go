package wakeboard

import (
	"time"

	"github.com/jackc/pgx/v5"
)

func (w *Worker) claimUntilStopped() error {
	for !w.stopped() {
		claimed, err := w.claimTurn()
		if err != nil && !unavailable(err) {
			return err
		}
		pause := w.options.Poll
		if err != nil {
			pause = retryPause
		} else if claimed {
			continue
		}
		select {
		case <-w.wake:
		case <-w.stopping:
		case <-time.After(pause):
		}
	}
	return nil
}

// claimTurn claims runs for the free slots. It returns whether there were any.
func (w *Worker) claimTurn() (bool, error) {
	w.mutex.Lock()
	free, idle, register := w.options.Concurrency-w.running, len(w.held) == 0, w.register
	w.register = false
	w.mutex.Unlock()
	if register || time.Since(w.registered) > min(registerEvery, w.options.Lease) {
		if err := w.registerUntilStopped(); err != nil {
			return false, err
		}
	}
	yields, err := w.yieldsToQuarantine()
	if err != nil || !w.leasesValid() || free <= 0 || yields && !idle {
		return false, err
	}
	claimed := 0
	if !yields {
		if claimed, err = w.claimLimited(free); err != nil {
			return false, err
		}
		w.turn++
		next := w.claimNext
		if w.lastWasFull && w.turn%oldestTurns == 0 { // so that no priority starves
			next = w.claimOldest
		}
		more, err := next(free - claimed)
		if claimed += more; err != nil || claimed > 0 {
			return claimed > 0, err
		}
	}
	return idle && w.runQuarantined(), nil
}

func (w *Worker) claimNext(count int) (claimed int, err error) {
	if time.Since(w.scanBegan) > fullScanEvery {
		w.rewind()
	}
	for count > 0 {
		var limit any = scanLimit
		if w.lastWasFull {
			limit = nil
		}
		claimed, err = w.claim("claim($1::bigint, $2::integer, $3::text[], $4::smallint[], $5::text[]::timestamptz[],"+
			" $6::bigint[], $7::text[], $8::integer, $9::integer)", append(w.positions(), w.types, count, limit)...)
		w.lastWasFull = claimed == count
		if claimed > 0 || err != nil || w.stopped() {
			return claimed, err
		}
		if more, err := w.advanceScan(); err != nil || !more {
			return 0, err
		}
	}
	return 0, nil
}

// advanceScan moves the scan positions behind rows that this worker cannot claim. It returns whether there is more.
func (w *Worker) advanceScan() (bool, error) {
	const sql = "select queue, priority, run_at::text, id from wakeboard.advance_scan($1::text[], $2::smallint[]," +
		" $3::text[]::timestamptz[], $4::bigint[], $5::text[], $6::integer)"
	next, err := query(w.claims, w.options.Lease, pgx.RowToStructByPos[pair], sql, append(w.positions(), w.types, scanLimit)...)
	for _, moved := range next {
		for at := range w.pairs {
			if w.pairs[at].Queue == moved.Queue && w.pairs[at].Priority == moved.Priority {
				w.pairs[at] = moved
			}
		}
	}
	if len(next) == 0 {
		w.rewind()
	}
	return len(next) > 0, err
}

func (w *Worker) rewind() {
	w.pairs, w.scanBegan = nil, time.Now()
	for priority := int16(5); priority > 0; priority-- {
		for _, queue := range w.options.Queues {
			w.pairs = append(w.pairs, pair{queue, priority, "-infinity", 0})
		}
	}
}

func (w *Worker) positions() []any {
	return []any{
		column(w.pairs, func(p pair) string { return p.Queue }), column(w.pairs, func(p pair) int16 { return p.Priority }),
		column(w.pairs, func(p pair) string { return p.RunAt }), column(w.pairs, func(p pair) int64 { return p.ID }),
	}
}

func column[Item, Value any](items []Item, value func(Item) Value) []Value {
	values := make([]Value, len(items))
	for at, item := range items {
		values[at] = value(item)
	}
	return values
}

func (w *Worker) claimOldest(count int) (int, error) {
	queue := w.options.Queues[0]
	w.options.Queues = append(w.options.Queues[1:], queue) // each queue in turn
	return w.claim("claim_oldest($1::bigint, $2::integer, $3::text, array_fill('-infinity'::timestamptz, '{5}'),"+
		" array_fill(0::bigint, '{5}'), $4::text[], $5::integer)", queue, w.types, count)
}

func (w *Worker) claimLimited(free int) (int, error) {
	if time.Now().Before(w.limitedAt) {
		return 0, nil
	}
	const sql = "select wakeboard.due_limit_keys($1::text[], $2::text, $3::integer)"
	keys, err := query(w.claims, w.options.Lease, pgx.RowTo[string], sql, w.options.Queues, w.afterKey, keysPerClaim)
	claimed := 0
	if err == nil && len(keys) > 0 {
		claimed, err = w.claim("claim_limited($1::bigint, $2::integer, $3::text[], $4::text[], $5::text[], $6::integer)",
			w.options.Queues, w.types, keys, free)
	}
	w.afterKey = ""
	if len(keys) == keysPerClaim {
		w.afterKey = keys[len(keys)-1]
	} else if claimed == 0 {
		w.limitedAt = time.Now().Add(limitedEvery)
	}
	return claimed, err
}

// runQuarantined runs one quarantined run alone: it was running when two workers died. False: there is none.
func (w *Worker) runQuarantined() bool {
	const function = "claim_quarantined($1::bigint, $2::integer, $3::text[], $4::text[])"
	if claimed, err := w.claim(function, w.options.Queues, w.types); err != nil || claimed == 0 {
		return false
	}
	w.yields = false
	for w.holdsAny() && !w.stopped() {
		time.Sleep(tick)
	}
	return true
}

// yieldsToQuarantine tells whether a quarantined run has waited so long that this worker claims nothing until idle.
func (w *Worker) yieldsToQuarantine() (bool, error) {
	if time.Now().Before(w.quarantineAt) {
		return w.yields, nil
	}
	w.quarantineAt = time.Now().Add(quarantineEvery)
	const sql = "select coalesce(clock_timestamp() - wakeboard.quarantined_since($1::text[], $2::text[])" +
		" > make_interval(secs => $3::integer), false)"
	waits, err := query(w.claims, w.options.Lease, pgx.RowTo[bool], sql, w.options.Queues, w.types, quarantinedWait)
	w.yields = err == nil && !w.yields && waits[0]
	return w.yields, err
}

// claim calls a claim function and starts the handlers of its runs. A reply that came too late is released.
func (w *Worker) claim(function string, values ...any) (int, error) {
	const columns = "id, lease_epoch, job_type, payload, attempts, max_attempts, timeout_s, scheduled_for, queue, priority," +
		" uuid::text, coalesce(schedule, '')"
	sent := time.Now()
	runs, err := query(w.claims, w.options.Lease, func(row pgx.CollectableRow) (*Run, error) {
		run, timeoutS := &Run{worker: w}, 0
		err := row.Scan(&run.ID, &run.Epoch, &run.JobType, &run.Payload, &run.Attempt, &run.MaxAttempts, &timeoutS,
			&run.ScheduledFor, &run.Queue, &run.Priority, &run.UUID, &run.Schedule)
		run.Timeout = time.Duration(timeoutS) * time.Second
		return run, err
	}, "select "+columns+" from wakeboard."+function, append([]any{w.id, w.leaseSeconds()}, values...)...)
	w.mutex.Lock()
	w.counts["claimed"] += len(runs)
	w.mutex.Unlock()
	inTime := time.Since(sent) <= w.share(1-validShare) && w.leasesValid()
	for _, run := range runs {
		held := w.hold(run)
		if inTime && !w.stopped() {
			go w.execute(held)
		} else {
			w.finish(held)
			w.settle(held, release("not_started", 0))
		}
	}
	return len(runs), err
}
