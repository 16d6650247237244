package wakeboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	batchSize = 1000   // outcomes in one statement
	maxResult = 16_384 // bytes of JSON
)

// Why an attempt is stopped before its handler ends: the cause of its context. After ErrLeaseLost its outcome is dropped.
var (
	ErrCancelled = errors.New("the run was cancelled")
	ErrTimedOut  = errors.New("the run exceeded its timeout")
	ErrLeaseLost = errors.New("the lease is lost: another worker may have the run")
	ErrShutdown  = errors.New("the worker stops")
)

// An outcome of a run, as the statements read it.
type outcome struct {
	error
	Kind   string // succeeded, failed, snoozed or released
	ID     int64
	Epoch  int64
	Word   string // failed, timed_out or discarded; of a release, its reason
	Type   string
	Text   string
	Delay  *float64 // seconds; nil: the run's backoff
	Result *string  // JSON; nil: none
}

// Each function returns the runs whose outcome it did not accept. Those that are still leased were locked by another
// transaction.
const reportOutcomes = `with report as (
		select * from unnest(@kinds::text[], @ids::bigint[], @epochs::bigint[], @words::text[], @types::text[], @texts::text[],
			@delays::real[], @results::text[]::jsonb[]) as report (kind, id, epoch, word, type, text, delay, result)
	), refused (id) as materialized (
		select wakeboard.complete(@worker::bigint, array_agg(id), epoch, jsonb_object_agg(id, result) filter (where result is not null))
		from report where kind = 'succeeded' group by epoch
		union all
		select wakeboard.fail(@worker::bigint, array_agg(id), array_agg(epoch), array_agg(word), array_agg(type), array_agg(text),
			array_agg(''::text), array_agg(delay))
		from report where kind = 'failed' having count(*) > 0
		union all
		select wakeboard.release(@worker::bigint, array_agg(id), array_agg(epoch), array_agg(coalesce(delay, 0)),
			array_agg(word in ('worker_stopped', 'disconnected')), array_agg(word))
		from report where kind in ('snoozed', 'released') having count(*) > 0
	)
	select id, exists (select from wakeboard.still_leased(@worker::bigint, array[id], array[epoch])) from refused join report using (id)`

// Discard makes the run dead, without further attempts.
func Discard(reason error) error { return outcome{error: reason, Kind: "failed", Word: "discarded"} }

// RetryAfter fails the attempt. The next one is due after the delay.
func RetryAfter(delay time.Duration, reason error) error {
	return outcome{error: reason, Kind: "failed", Word: "failed", Delay: new(delay.Seconds())}
}

// Snooze makes the run due again after the delay. The attempt does not count.
func Snooze(delay time.Duration) error {
	return outcome{error: fmt.Errorf("snooze for %s", delay), Kind: "snoozed", Word: "snoozed", Delay: new(delay.Seconds())}
}

func (o outcome) Unwrap() error { return o.error }

// outcomeOf returns the outcome of a handler that returned, possibly because it was stopped.
func outcomeOf(result any, err, stopped error) (settled outcome) {
	switch {
	case err == nil:
		return outcome{Kind: "succeeded", Result: encode(result)}
	case errors.As(err, &settled):
		settled.Type = typeName(settled.error)
	case errors.Is(stopped, ErrShutdown):
		return outcome{Kind: "released", Word: "worker_stopped"}
	case errors.Is(stopped, ErrTimedOut):
		return outcome{Kind: "failed", Word: "timed_out", Type: "Timeout", Text: ErrTimedOut.Error()}
	default:
		settled = outcome{Kind: "failed", Word: "failed", Type: typeName(err)}
	}
	settled.Text = storable(err.Error())
	return settled
}

// encode returns the result as JSON that Postgres can store. A long result becomes text.
func encode(result any) *string {
	if result == nil {
		return nil
	}
	encoded, err := json.Marshal(result)
	if err != nil || len(encoded) > maxResult || strings.Contains(string(encoded), `\u0000`) {
		text := storable(fmt.Sprint(result))
		encoded, _ = json.Marshal(text[:min(len(text), maxResult/8)])
	}
	return new(string(encoded))
}

var password = regexp.MustCompile(`://([^\s:/@]*):[^\s/@]+@`)

// storable masks passwords in URLs and replaces what Postgres cannot store.
func storable(text string) string {
	text = password.ReplaceAllString(text, "://$1:…@")
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func typeName(err error) string { return strings.TrimPrefix(fmt.Sprintf("%T", err), "*") }

// settle decides the outcome of a run, once.
func (w *Worker) settle(run *Run, result outcome) {
	if run.settled.CompareAndSwap(false, true) {
		run.outcome = result
		run.outcome.ID, run.outcome.Epoch = run.ID, run.Epoch
		w.outbox <- run
	}
}

func (w *Worker) reportUntilEnded(ctx context.Context) {
	for {
		var batch []*Run
		select {
		case <-ctx.Done():
			return
		case run := <-w.outbox:
			batch = append(batch, run)
		}
		for range min(len(w.outbox), batchSize-1) {
			batch = append(batch, <-w.outbox)
		}
		w.report(batch)
		notify(w.wake)
	}
}

// report reports outcomes under leases that hold. What the database did not answer, or what another transaction has
// locked, is reported again until the lease is dropped: the functions are idempotent.
func (w *Worker) report(batch []*Run) {
	batch = slices.DeleteFunc(batch, func(run *Run) bool { return !w.holds(run) })
	refused, err := w.send(batch)
	for _, run := range batch {
		locked, missing := refused[run.ID]
		switch {
		case err != nil && !unavailable(err) && len(batch) > 1: // so that only the outcome that cannot be stored is lost
			w.report([]*Run{run})
		case err != nil && !unavailable(err):
			log.Printf("the outcome of run %d cannot be stored: %v", run.ID, err)
			w.end(run, "lost")
		case err != nil || locked:
			time.AfterFunc(busyRetry, func() { w.outbox <- run })
		case missing:
			w.end(run, "lost")
		default:
			w.end(run, run.outcome.Kind)
		}
	}
}

// send returns the runs whose outcome was not accepted: true if another transaction has locked the run.
func (w *Worker) send(batch []*Run) (map[int64]bool, error) {
	if len(batch) == 0 || !w.leasesValid() {
		return nil, context.DeadlineExceeded
	}
	values := pgx.NamedArgs{
		"kinds": column(batch, func(o outcome) string { return o.Kind }), "ids": column(batch, func(o outcome) int64 { return o.ID }),
		"epochs": column(batch, func(o outcome) int64 { return o.Epoch }), "words": column(batch, func(o outcome) string { return o.Word }),
		"types": column(batch, func(o outcome) string { return o.Type }), "texts": column(batch, func(o outcome) string { return o.Text }),
		"delays":  column(batch, func(o outcome) *float64 { return o.Delay }),
		"results": column(batch, func(o outcome) *string { return o.Result }),
	}
	type answer = struct {
		ID     int64
		Locked bool
	}
	answers, err := query(w, w.share(0.5), pgx.RowToStructByPos[answer], reportOutcomes, values)
	if refusal := refusal(err); refusal.TableName == "job_run_history" && refusal.Code == "23514" { // it has no partition
		_, _ = query(w, w.share(0.5), pgx.RowTo[any], "select wakeboard.create_partitions()", nil)
		return nil, context.DeadlineExceeded
	}
	refused := map[int64]bool{}
	for _, answer := range answers {
		refused[answer.ID] = answer.Locked
	}
	return refused, err
}

func column[Value any](batch []*Run, value func(outcome) Value) []Value {
	values := make([]Value, len(batch))
	for at, run := range batch {
		values[at] = value(run.outcome)
	}
	return values
}
