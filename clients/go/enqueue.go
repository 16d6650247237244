// Package wakeboard enqueues runs and creates schedules, in transactions of yours: scheduled and background jobs on Postgres.
// The package worker executes them.
package wakeboard

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// EnqueueOptions are the optional arguments of Enqueue. A zero value means the default. Durations are whole seconds.
type EnqueueOptions struct {
	Queue          string
	Priority       int // 5 is claimed first, 1 last
	RunAt          time.Time
	IdempotencyKey string // the first call creates the run; later calls return it
	LimitKey       string
	MaxAttempts    int
	Timeout        time.Duration
	UniqueFor      time.Duration // one run has these values of the payload's keys UniqueBy for so long
	UniqueBy       []string      // nil: the whole payload
	Replace        bool          // a unique run that has not started gets the new payload
	After          []Enqueued    // the run waits until all of them have succeeded; an ID without UUID may name another run after a failover
	TraceParent    string        // the W3C headers of the current span, so that the run continues its trace
	TraceState     string
}

// Enqueued names a run. Pass ID and UUID to the SQL functions get_run and cancel_run. Status is that of an earlier run
// (queued, running, failed or dead, which keeps its key), and empty if it has ended. UUID and Status are empty if another
// database role enqueued the run that has the key.
type Enqueued struct {
	ID      int64
	UUID    string
	Created bool
	Status  string
}

// Enqueue creates a run in the transaction of tx. The run exists if, and only if, tx commits.
func Enqueue(ctx context.Context, tx Querier, jobType string, payload any, options EnqueueOptions) (run Enqueued, err error) {
	const sql = "select id, coalesce(uuid::text, ''), created, coalesce(status, '') from wakeboard.enqueue($1::text, $2::text::jsonb, queue => nullif($3::text, '')," +
		" priority => nullif($4::integer, 0), run_at => nullif($5::timestamptz, '0001-01-01 00:00:00Z'), idempotency_key => nullif($6::text, '')," +
		" limit_key => nullif($7::text, ''), max_attempts => nullif($8::integer, 0), timeout_s => nullif($9::integer, 0)," +
		" unique_for => nullif($10::integer, 0), unique_by => $11::text[]," +
		" if_exists => case when $12::boolean then 'replace' else 'keep' end, after => $13::bigint[]," +
		" after_uuids => array(select nullif(parent, '')::uuid from unnest($16::text[]) with ordinality as listed (parent, at) order by at)," +
		" traceparent => nullif($14::text, ''), tracestate => nullif($15::text, ''))"
	if err := checkDurations(options); err != nil {
		return run, err
	}
	encoded, err := json.Marshal(payload)
	if err != nil {
		return run, fmt.Errorf("%w: the payload of %s is not JSON: %w", ErrInvalidValue, jobType, err)
	}
	var ids []int64
	var uuids []string
	if options.After != nil {
		ids, uuids = []int64{}, []string{}
	}
	for _, parent := range options.After {
		ids, uuids = append(ids, parent.ID), append(uuids, parent.UUID)
	}
	err = call(ctx, tx, sql, []any{jobType, string(encoded), options.Queue, options.Priority, options.RunAt, options.IdempotencyKey,
		options.LimitKey, options.MaxAttempts, int64(options.Timeout / time.Second), int64(options.UniqueFor / time.Second), options.UniqueBy,
		options.Replace, ids, options.TraceParent, options.TraceState, uuids}, &run.ID, &run.UUID, &run.Created, &run.Status)
	return run, err
}
