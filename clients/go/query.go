package wakeboard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

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

// What errors.Is finds in an error. Its text says what to write or to do. The transaction has failed: roll back.
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
	return inGo(r.cause.Message)
}

func (r refusal) Unwrap() []error { return []error{r.kind, r.cause} }

// What names an option in a sentence of the server, or a function. A value in quotes, and the name of a schedule in parentheses,
// stay as they are; so they are matched first.
var names = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^'\s]*'|\([^)]*\)` +
	`|\b[a-z]+(?:_[a-z]+)+\b|\b(?:queue|priority|backoff|every|at) is |\bcron, every and at\b`)

// inGo gives the names of this package to a sentence of the server, which has those of SQL: Timeout for timeout_s.
func inGo(sentence string) string {
	return names.ReplaceAllStringFunc(sentence, func(name string) string {
		switch {
		case strings.ContainsAny(name[:1], `"'(`):
			return name
		case strings.Contains(name, ","):
			return "Cron, Every and At"
		}
		words := strings.Split(strings.TrimSuffix(name, "_s"), "_")
		for at, word := range words {
			words[at] = strings.ToUpper(word[:1]) + word[1:]
		}
		return strings.Replace(strings.Join(words, ""), "Dst", "DST", 1)
	})
}

// checkDurations refuses a duration with a part of a second, such as 60, which is 60 ns. Options are a struct.
func checkDurations(options any) error {
	given := reflect.ValueOf(options)
	for at := range given.NumField() {
		if given.Field(at).Type() != reflect.TypeFor[time.Duration]() {
			continue
		}
		if duration := time.Duration(given.Field(at).Int()); duration%time.Second != 0 {
			name := given.Type().Field(at).Name
			return fmt.Errorf("%w: %s is %s; write whole seconds, such as 90 * time.Second", ErrInvalidValue, name, duration)
		}
	}
	return nil
}

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
