package wakeboard

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Run is one attempt of a run, as its handler sees it. Its exported fields are the columns of a claim, in their order.
type Run struct {
	ID           int64
	UUID         string // the same in each attempt
	JobType      string
	Payload      json.RawMessage
	Attempt      int // 1 for the first
	MaxAttempts  int
	Timeout      time.Duration
	Epoch        int64 // of the lease: each claim increments it
	Queue        string
	Priority     int
	Schedule     string    // namespace/name of the JobSchedule; empty: an application enqueued the run
	ScheduledFor time.Time // the tick that this run executes

	worker   *Worker
	started  time.Time
	cancel   context.CancelCauseFunc
	settled  atomic.Bool // it has an outcome
	outcome  outcome
	fraction atomic.Pointer[float64]
	steps    sync.Map // the names of those that have begun and have not failed
}

// Decode reads the payload into a value.
func (r *Run) Decode(value any) error { return json.Unmarshal(r.Payload, value) }

// Progress reports how much is done, from 0 to 1. The next heartbeat writes it.
func (r *Run) Progress(fraction float64) {
	r.fraction.Store(new(min(1, max(0, fraction))))
}

// underLease calls an SQL function for the handler, until the database answers or the lease is lost.
func (r *Run) underLease(sql string, values []any, into ...any) error {
	for r.worker.holds(r) {
		ctx, cancel := context.WithTimeout(context.Background(), r.worker.options.Lease)
		err := r.worker.shared.QueryRow(ctx, sql, append([]any{r.worker.id, r.ID, r.Epoch}, values...)...).Scan(into...)
		cancel()
		if refusal(err).Code == "WB001" {
			break
		}
		if err == nil || !unavailable(err) {
			return err
		}
		time.Sleep(retryPause)
	}
	return ErrLeaseLost
}

// Step calls work at most once successfully per run. A later attempt gets the stored result.
func Step[Result any](
	ctx context.Context, run *Run, name string, work func(context.Context) (Result, error),
) (result Result, err error) {
	const sql = "select done, stored from wakeboard.step($1::bigint, $2::bigint, $3::bigint, $4::text, $5::text::jsonb)"
	if _, begun := run.steps.LoadOrStore(name, true); begun {
		return result, fmt.Errorf("this attempt already has a step %q: each step needs its own name", name)
	}
	var done bool
	var stored []byte
	err = run.underLease(sql, []any{name, nil}, &done, &stored)
	if err == nil && done {
		return result, json.Unmarshal(stored, &result)
	}
	if err == nil {
		result, err = work(ctx)
	}
	if err == nil {
		stored, err = json.Marshal(result)
	}
	if err == nil {
		err = run.underLease(sql, []any{name, string(stored)}, nil, nil)
	}
	if err != nil {
		run.steps.Delete(name) // it may be repeated
	}
	return result, err
}

// Effect is the state of an effect outside the database.
type Effect struct {
	Done        bool   // an earlier attempt completed it: skip it
	InDoubt     bool   // an earlier attempt began it, and whether it happened is unknown: ask the provider
	ProviderKey string // the same in each attempt: pass it as the provider's idempotency key
}

// Effect records an effect as begun before work, and as done after it. Work looks at the state.
func (r *Run) Effect(ctx context.Context, key string, work func(context.Context, Effect) error) error {
	const sql = "select wakeboard.effect($1::bigint, $2::bigint, $3::bigint, $4::text, $5::boolean)"
	var state string
	if err := r.underLease(sql, []any{key, false}, &state); err != nil {
		return err
	}
	effect := Effect{Done: state == "done", InDoubt: state == "in doubt", ProviderKey: uuid5(r.UUID, key)}
	if err := work(ctx, effect); err != nil || effect.Done {
		return err
	}
	return r.underLease(sql, []any{key, true}, &state)
}

// Once guards an effect in the transaction tx. True: tx has to perform it. False: an earlier attempt committed it. An
// error with the code WB001 means that the lease is lost: roll back.
func (r *Run) Once(ctx context.Context, tx Querier, key string) (mine bool, err error) {
	const sql = "select wakeboard.once($1::bigint, $2::bigint, $3::text::uuid, $4::bigint, $5::text)"
	err = tx.QueryRow(ctx, sql, r.worker.id, r.ID, r.UUID, r.Epoch, key).Scan(&mine)
	return mine, err
}

// uuid5 returns the version 5 UUID of a name.
func uuid5(namespace, name string) string {
	space, _ := hex.DecodeString(strings.ReplaceAll(namespace, "-", ""))
	digest := sha1.Sum(append(space, name...))
	digest[6], digest[8] = digest[6]&0x0f|0x50, digest[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", digest[0:4], digest[4:6], digest[6:8], digest[8:10], digest[10:16])
}
