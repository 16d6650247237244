package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"wakeboard.dev/wakeboard"
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
	Epoch        int64 // of the lease: it grows with each claim, at random
	Queue        string
	Priority     int
	Schedule     string    // namespace/name of the JobSchedule; empty: an application enqueued the run
	ScheduledFor time.Time // the tick that this run executes
	RunAt        time.Time // when the run became due

	worker   *Worker
	started  time.Time
	cancel   context.CancelCauseFunc
	settled  atomic.Bool // it has an outcome, or its lease is lost
	ended    atomic.Bool // its outcome is accepted, or its lease is lost
	reported atomic.Pointer[progress]
	log      *attemptLog // nil: it has logged nothing
	steps    sync.Map    // the names of those that have begun and have not failed
	effects  sync.Map    // their statements and keys, likewise: a key per run and one once for ever are apart
}

// Decode reads the payload into a value.
func (r *Run) Decode(value any) error { return json.Unmarshal(r.Payload, value) }

type progress struct {
	fraction float64
	message  string
}

// Progress reports how much is done, from 0 to 1, and in words such as "page 4 of 10". It is visible within a second.
func (r *Run) Progress(fraction float64, message string) {
	r.reported.Store(&progress{min(1, max(0, fraction)), storable(message, maxMessage)})
	notify(r.worker.progressed)
}

// underLease calls an SQL function for the handler, until the database answers or the lease is lost.
func (r *Run) underLease(sql string, values []any, into ...any) error {
	for !r.settled.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), r.worker.options.Lease)
		err := r.worker.shared.QueryRow(ctx, sql, append([]any{r.worker.id, r.ID, r.Epoch}, values...)...).Scan(into...)
		cancel()
		if err == nil || !unavailable(err) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
	return ErrLeaseLost
}

const failedStep = "select done from wakeboard.step($1::bigint, $2::bigint, $3::bigint, $4::text, error => $5::text)"

// Step calls work at most once successfully per run. A later attempt gets the stored result.
func Step[Result any](ctx context.Context, run *Run, name string, work func(context.Context) (Result, error)) (result Result, err error) {
	const sql = "select done, stored from wakeboard.step($1::bigint, $2::bigint, $3::bigint, $4::text, $5::text::jsonb)"
	if _, begun := run.steps.LoadOrStore(name, true); begun {
		return result, fmt.Errorf("this attempt already has a step %q: each step needs its own name", name)
	}
	done, stored := false, []byte(nil)
	err = run.underLease(sql, []any{name, nil}, &done, &stored)
	if err == nil && done {
		return result, json.Unmarshal(stored, &result)
	}
	if err == nil {
		result, err = work(ctx)
		if err == nil {
			stored, err = json.Marshal(result)
		}
		if failed := outcomeOf(nil, err, context.Cause(ctx)); failed.Word == "failed" && failed.Kind == "failed" {
			_ = run.underLease(failedStep, []any{name, failed.Type + ": " + failed.Text}, nil) // err counts
		}
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
	ProviderKey string // the same in each attempt, and in each run if it happens once for ever: pass it as the provider's idempotency key
}

const onceForRun = "select wakeboard.effect($1::bigint, $2::bigint, $3::bigint, $4::text, $5::boolean), $6::text, 0"
const onceForever = "select state, coalesce(first_run_uuid::text, $6::text), coalesce(held_by, 0) from wakeboard.effect_forever($1::bigint, $2::bigint, $3::bigint, $4::text, $5::boolean)"

// Effect records an effect as begun before work, and as done after it. Work looks at the state. The error is an EffectRepeated
// if this attempt has had an effect of this key already. A key whose work failed may be used again.
func (r *Run) Effect(ctx context.Context, key string, work func(context.Context, Effect) error) error {
	return r.effect(ctx, onceForRun, key, work)
}

// EffectForever is Effect for what happens once for its key, such as invoice:812, whatever run, schedule or job type has it.
// The error is an EffectHeld while an attempt of another run is executing the effect: return it, and this run is due again in
// five seconds. It is an EffectInDoubt if the key was released meanwhile, and another attempt has begun the effect since.
func (r *Run) EffectForever(ctx context.Context, key string, work func(context.Context, Effect) error) error {
	return r.effect(ctx, onceForever, key, work)
}

func (r *Run) effect(ctx context.Context, sql, key string, work func(context.Context, Effect) error) (err error) {
	name := sql + key
	if _, begun := r.effects.LoadOrStore(name, true); begun {
		return EffectRepeated{key}
	}
	defer func() {
		if err != nil {
			r.effects.Delete(name) // it may be repeated
		}
	}()
	state, namespace, heldBy := "", "", int64(0)
	if err := r.underLease(sql, []any{key, false, r.UUID}, &state, &namespace, &heldBy); err != nil {
		return err
	}
	if heldBy != 0 {
		held := EffectHeld{key, heldBy}
		r.Log(slog.LevelInfo, held.Error()) // a snooze has no error
		return outcome{error: held, Kind: "snoozed", Word: "snoozed", Delay: new(5.0)}
	}
	effect := Effect{state == "done", state == "in doubt", uuid.NewSHA1(uuid.MustParse(namespace), []byte(key)).String()}
	if err := work(ctx, effect); err != nil || effect.Done {
		return err
	}
	return inDoubt(key, r.underLease(sql, []any{key, true, r.UUID}, &state, &namespace, &heldBy))
}

// EffectHeld says that the run RunID is executing an effect that happens once for ever.
type EffectHeld struct {
	Key   string
	RunID int64
}

func (e EffectHeld) Error() string {
	return fmt.Sprintf("run %d is executing the effect %q", e.RunID, e.Key)
}

// EffectRepeated says that a handler gave two effects of one attempt the same key.
type EffectRepeated struct{ Key string }

func (e EffectRepeated) Error() string {
	return fmt.Sprintf("this attempt already had the effect %q. An effect happens once for each key, so each effect of a run"+
		" needs its own key (in a loop, put the item into it)", e.Key)
}

// Once guards an effect in the transaction tx. True: tx has to perform it. False: an earlier attempt committed it. An
// error with the code WB001 means that the lease is lost: roll back.
func (r *Run) Once(ctx context.Context, tx wakeboard.Querier, key string) (mine bool, err error) {
	return r.once(ctx, tx, r.UUID, key)
}

// OnceForever is Once for what happens once for its key. False: any run has committed it. The error is an EffectInDoubt if a
// run began the effect by EffectForever and its end is not recorded: roll back.
func (r *Run) OnceForever(ctx context.Context, tx wakeboard.Querier, key string) (mine bool, err error) {
	return r.once(ctx, tx, uuid.Nil.String(), key)
}

func (r *Run) once(ctx context.Context, tx wakeboard.Querier, of, key string) (mine bool, err error) {
	const sql = "select wakeboard.once($1::bigint, $2::bigint, $3::text::uuid, $4::bigint, $5::text)"
	err = tx.QueryRow(ctx, sql, r.worker.id, r.ID, of, r.Epoch, key).Scan(&mine)
	return mine, inDoubt(key, err)
}

func inDoubt(key string, err error) error {
	if cause := fault(err); cause.Code == "WB006" {
		return EffectInDoubt{key, cause}
	}
	return err
}

// EffectInDoubt says that a run began an effect that happens once for ever, and that its end is not recorded; or that
// another attempt has begun it since this one did, after an administrator released the key.
type EffectInDoubt struct {
	Key   string
	cause *pgconn.PgError
}

func (e EffectInDoubt) Error() string { return e.cause.Message }

func (e EffectInDoubt) Unwrap() error { return e.cause }

// Why an attempt is stopped before its handler ends: the cause of its context. After ErrLeaseLost its outcome is dropped.
var (
	ErrCancelled = errors.New("the run was cancelled")
	ErrTimedOut  = errors.New("the run exceeded its timeout")
	ErrLeaseLost = errors.New("the lease is lost: another worker may have the run")
	ErrShutdown  = errors.New("the worker stops")
)

// An outcome of a run, as the statements that report it read it.
type outcome struct {
	error
	run    *Run
	at     time.Time // when the handler ended
	Kind   string    // succeeded, failed, cancelled, snoozed or released
	Word   string    // failed, timed_out or discarded; of a release, its reason
	Type   string
	Text   string
	Delay  *float64 // seconds; nil: the run's backoff
	Result *string  // JSON; nil: none
}

// Discard makes the run dead, without further attempts.
func Discard(reason error) error { return outcome{error: reason, Kind: "failed", Word: "discarded"} }

// RetryAfter fails the attempt. The next one is due after the delay.
func RetryAfter(delay time.Duration, reason error) error {
	return outcome{error: reason, Kind: "failed", Word: "failed", Delay: new(delay.Seconds())}
}

// Snooze makes the run due again after the delay, at least 0.1 s. The attempt does not count, so nothing else bounds how
// often a run snoozes.
func Snooze(delay time.Duration) error {
	return outcome{error: fmt.Errorf("snooze for %s", delay), Kind: "snoozed", Word: "snoozed", Delay: new(max(0.1, delay.Seconds()))}
}

func (o outcome) Unwrap() error { return o.error }

// outcomeOf returns the outcome of a handler that returned a result or an error, possibly because it was stopped.
func outcomeOf(result any, err, stopped error) (settled outcome) {
	defer func() { // a method of the handler's error or result may panic
		if panicked := recover(); panicked != nil {
			settled.Kind, settled.Word, settled.Type, settled.Text = "failed", cmp.Or(settled.Word, "failed"), "panic", storable(fmt.Sprint(panicked), maxLine)
		}
	}()
	settled, requested := errors.AsType[outcome](err)
	switch {
	case err == nil:
		return outcome{Kind: "succeeded", Result: encode(result)}
	case requested:
		err = settled.error
	case fault(err).Code == "WB001": // the handler's connection leads to a server that does not know the lease; a lost one refuses this
		return outcome{Kind: "released", Word: "disconnected", Delay: new(1.0)}
	case errors.Is(stopped, ErrShutdown):
		return outcome{Kind: "released", Word: "worker_stopped"}
	case errors.Is(stopped, ErrTimedOut):
		return outcome{Kind: "failed", Word: "timed_out", Type: "Timeout", Text: ErrTimedOut.Error()}
	case errors.Is(stopped, ErrCancelled):
		settled = outcome{Kind: "cancelled", Word: "failed"}
	default:
		settled = outcome{Kind: "failed", Word: "failed"}
	}
	settled.Type, settled.Text = strings.TrimPrefix(fmt.Sprintf("%T", err), "*"), storable(err.Error(), maxLine)
	return settled
}

// encode returns the result as JSON that Postgres can store. A long result becomes text.
func encode(result any) *string {
	encoded, err := json.Marshal(result)
	if err != nil || len(encoded) > maxResult || strings.Contains(string(encoded), `\u0000`) {
		text := cmp.Or(string(encoded), fmt.Sprint("a result that is not JSON: ", err))
		encoded, _ = json.Marshal(storable(text, maxResult/8))
	}
	return new(string(encoded))
}

// storable cuts a text, masks its credentials, and replaces what Postgres cannot store.
func storable(text string, longest int) string {
	return strings.ReplaceAll(strings.ToValidUTF8(redact(text, longest), "\uFFFD"), "\x00", "\uFFFD")
}
