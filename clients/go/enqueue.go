package wakeboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier is a pgx.Tx, a pgx.Conn or a pgxpool.Pool.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// EnqueueOptions are the optional arguments of Enqueue. A zero value means the default.
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
}

// Enqueued names a run. Pass both to the SQL functions get_run and cancel_run.
type Enqueued struct {
	ID      int64
	UUID    string
	Created bool
}

// Enqueue creates a run in the transaction of tx. The run exists if, and only if, tx commits.
func Enqueue(ctx context.Context, tx Querier, jobType string, payload any, options EnqueueOptions) (Enqueued, error) {
	encoded, err := json.Marshal(payload)
	if err != nil {
		return Enqueued{}, fmt.Errorf("the payload of %s is not JSON: %w", jobType, err)
	}
	arguments, values := []string{"$1::text", "$2::text::jsonb"}, []any{jobType, string(encoded)}
	add := func(name, kind string, given bool, value any) {
		if given {
			values = append(values, value)
			arguments = append(arguments, fmt.Sprintf("%s => $%d::%s", name, len(values), kind))
		}
	}
	add("queue", "text", options.Queue != "", options.Queue)
	add("priority", "integer", options.Priority != 0, options.Priority)
	add("run_at", "timestamptz", !options.RunAt.IsZero(), options.RunAt)
	add("idempotency_key", "text", options.IdempotencyKey != "", options.IdempotencyKey)
	add("limit_key", "text", options.LimitKey != "", options.LimitKey)
	add("max_attempts", "integer", options.MaxAttempts != 0, options.MaxAttempts)
	add("timeout_s", "integer", options.Timeout != 0, int(options.Timeout.Seconds()))
	add("unique_for", "integer", options.UniqueFor != 0, int(options.UniqueFor.Seconds()))
	add("unique_by", "text[]", options.UniqueBy != nil, options.UniqueBy)
	add("if_exists", "text", options.Replace, "replace")
	sql := "select id, uuid::text, created from wakeboard.enqueue(" + strings.Join(arguments, ", ") + ")"
	var run Enqueued
	err = tx.QueryRow(ctx, sql, values...).Scan(&run.ID, &run.UUID, &run.Created)
	return run, err
}
