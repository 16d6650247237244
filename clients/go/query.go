package wakeboard

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Querier is a pgx.Tx, a pgx.Conn or a pgxpool.Pool. SQL makes one of a transaction of database/sql.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SQL lets functions of this package work in a *sql.Tx, *sql.Conn or *sql.DB whose driver is github.com/jackc/pgx/v5/stdlib.
func SQL(tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) Querier {
	return standard(tx.QueryRowContext)
}

type standard func(ctx context.Context, query string, args ...any) *sql.Row

func (s standard) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return s(ctx, query, args...)
}

// What errors.Is finds in an error. Its text is the sentence of the server, which says what to write or to do. The
// transaction has failed: roll back.
var (
	ErrInvalidValue = errors.New("an argument is invalid")
	ErrLocked       = errors.New("another transaction keeps a lock that this needs; try again")
)

type refusal struct {
	kind  error
	cause *pgconn.PgError
}

func (r refusal) Error() string {
	if r.kind == ErrLocked && !strings.HasSuffix(r.cause.Message, "try again") { // the server's own words name a timeout only
		return ErrLocked.Error()
	}
	return r.cause.Message
}

func (r refusal) Unwrap() []error { return []error{r.kind, r.cause} }

// call reads the only row of a statement.
func call(ctx context.Context, tx Querier, query string, args []any, into ...any) error {
	err := tx.QueryRow(ctx, query, args...).Scan(into...)
	if cause, refused := errors.AsType[*pgconn.PgError](err); refused {
		switch {
		case strings.HasPrefix(cause.Code, "22"):
			return refusal{ErrInvalidValue, cause}
		case cause.Code == "55P03":
			return refusal{ErrLocked, cause}
		}
	}
	return err
}

func one[Answer any](ctx context.Context, tx Querier, query string, args ...any) (answer Answer, err error) {
	err = call(ctx, tx, query, args, &answer)
	return answer, err
}
