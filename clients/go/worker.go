package wakeboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	retryPause = 200 * time.Millisecond // of a handler's call, while the database is unavailable
	stopGrace  = 2 * time.Second        // for a handler that was asked to stop
	tick       = 20 * time.Millisecond
)

// Handler executes the runs of a job type. Its result is stored as JSON. It returns when its context is done.
type Handler func(ctx context.Context, run *Run) (result any, err error)

// Options of a worker.
type Options struct {
	DSN         string
	Queues      []string
	Concurrency int
	Lease       time.Duration // whole seconds
	Grace       time.Duration // how long runs may continue after SIGTERM
	Poll        time.Duration
	Pool        string
	Listen      bool // false behind PgBouncer in transaction mode
}

// OptionsFromEnvironment reads the WAKEBOARD_* variables, as the Python worker does.
func OptionsFromEnvironment() (Options, error) {
	var invalid error
	text := func(name, otherwise string) string { return cmp.Or(os.Getenv("WAKEBOARD_"+name), otherwise) }
	number := func(name, otherwise string) float64 {
		value, err := strconv.ParseFloat(text(name, otherwise), 64)
		if err != nil || !(value >= 0) {
			invalid = fmt.Errorf("WAKEBOARD_%s=%q: write a number, such as %s", name, text(name, ""), otherwise)
		}
		return value
	}
	seconds := func(name, otherwise string) time.Duration {
		return time.Duration(number(name, otherwise) * float64(time.Second))
	}
	return Options{
		DSN:         text("DSN", ""),
		Queues:      strings.Split(text("QUEUES", "default"), ","),
		Concurrency: int(number("CONCURRENCY", "100")),
		Lease:       seconds("LEASE_SECONDS", "60"),
		Grace:       seconds("GRACE_SECONDS", "25"),
		Poll:        seconds("POLL_SECONDS", "1"),
		Pool:        text("POOL", "default"),
		Listen:      text("LISTEN", "true") != "false",
	}, invalid
}

// Worker claims runs, calls their handlers, renews the leases, and reports the outcomes.
type Worker struct {
	id         int64
	options    Options
	handlers   map[string]Handler
	own        *pgxpool.Pool // a connection for each of its goroutines, so that nothing delays the heartbeat
	shared     *pgxpool.Pool // for the calls of handlers
	running    atomic.Int64  // handlers
	registered atomic.Bool
	outbox     chan *Run
	wake       chan struct{} // a run may be due, or there is a free slot
	renewed    atomic.Pointer[time.Time]

	mutex  sync.Mutex // guards what follows
	held   map[int64]*Run
	counts map[string]int

	orphans []*Run // of the heartbeat alone: dropped leases, to be released when the database answers again

	// Of the claim loop alone.
	registeredAt, fullScan, noneLimited time.Time
	afterKey                            string
	turn                                int
	yields                              bool // to a quarantined run
}

// NewWorker makes a worker with these handlers, by job type.
func NewWorker(options Options, handlers map[string]Handler) *Worker {
	return &Worker{
		id: rand.Int64N(math.MaxInt64) + 1, options: options, handlers: handlers,
		outbox: make(chan *Run, options.Concurrency+2*batchSize), wake: make(chan struct{}, 1),
		held: map[int64]*Run{}, counts: map[string]int{},
	}
}

// Run works until ctx is done, SIGTERM or SIGINT, and until the runs have ended and their outcomes are reported.
func (w *Worker) Run(ctx context.Context) (err error) {
	began := time.Now()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	for _, pool := range []**pgxpool.Pool{&w.own, &w.shared} {
		if *pool, err = connect(w.options.DSN); err != nil {
			return err
		}
		defer (*pool).Close()
	}
	w.renewed.Store(&began)
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { w.renewUntilEnded(background) })
	group.Go(func() { w.reportUntilEnded(background) })
	if w.options.Listen {
		group.Go(func() { w.listen(background) })
	}
	err = w.claimUntilStopped(ctx)
	w.drain()
	end()
	group.Wait()
	if len(w.orphans) == 0 { // otherwise it stays registered, so that the reaper finds the leases sooner
		_, _ = query(w, w.options.Lease, pgx.RowTo[any], "select wakeboard.deregister_worker(@worker::bigint)", nil)
	}
	log.Printf("worker finished after %.1f s: %d claimed, %d succeeded, %d failed, %d snoozed, %d released, %d lost",
		time.Since(began).Seconds(), w.counts["claimed"], w.counts["succeeded"], w.counts["failed"], w.counts["snoozed"],
		w.counts["released"], w.counts["lost"])
	return err
}

func (w *Worker) execute(ctx context.Context, run *Run) {
	timer := time.AfterFunc(run.Timeout, func() { w.stop(run, ErrTimedOut) })
	var result any
	var err error
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
		timer.Stop()
		w.settle(run, outcomeOf(result, err, context.Cause(ctx)))
		w.running.Add(-1)
		notify(w.wake)
	}()
	result, err = w.handlers[run.JobType](ctx, run)
}

// stop asks a handler to stop. One that does not, at its timeout or at the end of the worker, is left behind.
func (w *Worker) stop(run *Run, why error) {
	run.cancel(why)
	if !errors.Is(why, ErrCancelled) {
		time.AfterFunc(stopGrace, func() { w.settle(run, outcomeOf(nil, why, why)) })
	}
}

// drain gives running handlers the grace period, then stops and releases them, and waits for all outcomes.
func (w *Worker) drain() {
	grace, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt) // the second one
	defer stop()
	grace, cancel := context.WithTimeout(grace, w.options.Grace)
	defer cancel()
	for w.running.Load() > 0 && sleep(grace, tick) {
	}
	for _, run := range w.heldRuns() {
		w.stop(run, ErrShutdown)
	}
	for len(w.heldRuns()) > 0 { // bounded by the validity of the leases
		time.Sleep(tick)
	}
}

func notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// sleep returns false if the context is done.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// listen wakes the claim loop at each notification. While it cannot, the loop polls.
func (w *Worker) listen(ctx context.Context) {
	for ; ctx.Err() == nil; sleep(ctx, time.Second) {
		conn, err := pgx.Connect(ctx, w.options.DSN)
		if err != nil {
			continue
		}
		_, err = conn.Exec(ctx, "listen wakeboard")
		for err == nil {
			_, err = conn.WaitForNotification(ctx)
			notify(w.wake)
		}
		_ = conn.Close(ctx)
	}
}

// -- the database -----------------------------------------------------------------------------------------------------

func connect(dsn string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["application_name"] = "wakeboard worker"
	return pgxpool.NewWithConfig(context.Background(), config)
}

// query executes a statement of the worker, whether it stops meanwhile or not.
func query[Row any](
	w *Worker, within time.Duration, scan pgx.RowToFunc[Row], sql string, values pgx.NamedArgs,
) ([]Row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	named := pgx.NamedArgs{
		"worker": w.id, "lease": int(w.options.Lease.Seconds()),
		"queues": w.options.Queues, "types": slices.Collect(maps.Keys(w.handlers)),
	}
	maps.Copy(named, values)
	rows, err := w.own.Query(ctx, sql, named)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// refusal returns the database's error, or an empty one if it did not answer.
func refusal(err error) pgconn.PgError {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return *refused
	}
	return pgconn.PgError{}
}

// Lost connections, too many clients, a server that stops, a locked row, no answer.
var unavailableCodes = regexp.MustCompile(`^(08|53|57P|55P03|$)`)

func unavailable(err error) bool { return unavailableCodes.MatchString(refusal(err).Code) }
