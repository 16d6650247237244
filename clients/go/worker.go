package wakeboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	validShare      = 0.75 // of a lease, after its last heartbeat was sent
	batchSize       = 1000 // outcomes in one statement
	scanLimit       = 2000 // due rows of a queue and priority that one claim reads
	fullScanEvery   = 2 * time.Second
	registerEvery   = 180 * time.Second
	retryPause      = 200 * time.Millisecond
	busyRetry       = 500 * time.Millisecond // for runs that another transaction has locked
	stopGrace       = 2 * time.Second        // for a handler that was asked to stop
	limitedEvery    = 50 * time.Millisecond  // claims of limited runs, if the last one found none
	oldestTurns     = 20                     // of so many claims from a backlog, one is by age
	quarantineEvery = 30 * time.Second
	quarantinedWait = 60 // seconds, after which this worker claims nothing else until it is idle
	keysPerClaim    = 200
	tick            = 20 * time.Millisecond
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
	text := func(name, otherwise string) string { return cmp.Or(os.Getenv("WAKEBOARD_"+name), otherwise) }
	var invalid error
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
		DSN: text("DSN", ""), Queues: strings.Split(text("QUEUES", "default"), ","), Pool: text("POOL", "default"),
		Concurrency: int(number("CONCURRENCY", "100")), Listen: text("LISTEN", "true") != "false",
		Lease: seconds("LEASE_SECONDS", "60"), Grace: seconds("GRACE_SECONDS", "25"), Poll: seconds("POLL_SECONDS", "1"),
	}, invalid
}

// An attempt is a lease of this worker: its handler runs, or its outcome is not accepted yet.
type attempt struct {
	run     *Run
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	stopped error // why its handler was asked to stop
	outcome *outcome
}

type pair struct {
	Queue    string
	Priority int16
	RunAt    string // with ID, its scan position
	ID       int64
}

// Worker claims runs, calls their handlers, renews the leases, and reports the outcomes. Each purpose has connections
// of its own, so that none delays the heartbeat.
type Worker struct {
	id                                         int64
	options                                    Options
	handlers                                   map[string]Handler
	types                                      []string
	claims, outcomes, heartbeats, handlerCalls *pgxpool.Pool
	wake, flush                                chan struct{}
	stopping                                   chan struct{} // closed at the first signal

	mutex      sync.Mutex // guards what follows
	held       map[int64]*attempt
	running    int
	outbox     []*attempt
	reporting  int
	orphans    []*Run    // of leases that were dropped: released when the database answers again
	validUntil time.Time // with a monotonic reading
	register   bool
	counts     map[string]int

	// Of the claim loop alone.
	pairs                                          []pair
	scanBegan, registered, limitedAt, quarantineAt time.Time
	lastWasFull, yields                            bool
	turn                                           int
	afterKey                                       string
}

// NewWorker makes a worker with these handlers, by job type.
func NewWorker(options Options, handlers map[string]Handler) *Worker {
	var random [8]byte
	_, _ = rand.Read(random[:])
	worker := &Worker{
		id: int64(binary.BigEndian.Uint64(random[:])>>1 | 1), options: options, handlers: handlers,
		wake: make(chan struct{}, 1), flush: make(chan struct{}, 1), stopping: make(chan struct{}),
		held: map[int64]*attempt{}, counts: map[string]int{},
	}
	for name := range handlers {
		worker.types = append(worker.types, name)
	}
	return worker
}

// Run works until ctx is done, SIGTERM or SIGINT, and until the runs have ended and their outcomes are reported.
func (w *Worker) Run(ctx context.Context) error {
	began := time.Now()
	for purpose, pool := range map[string]**pgxpool.Pool{
		"claims": &w.claims, "outcomes": &w.outcomes, "heartbeat": &w.heartbeats, "handlers": &w.handlerCalls,
	} {
		config, err := pgxpool.ParseConfig(w.options.DSN)
		if err != nil {
			return err
		}
		config.MaxConns, config.MinConns = 1, 0
		if purpose == "handlers" {
			config.MaxConns = 4
		}
		config.ConnConfig.RuntimeParams["application_name"] = "wakeboard " + purpose
		if *pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
			return err
		}
		defer (*pool).Close()
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	hurry := make(chan struct{})
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		close(w.stopping)
		<-signals
		close(hurry)
	}()
	if err := w.registerUntilStopped(); err != nil {
		return err
	}
	w.validUntil = time.Now().Add(w.share(validShare))
	if w.options.Listen {
		go w.listen()
	}
	ended := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { w.renewPeriodically(ended) })
	background.Go(func() { w.reportOutcomes(ended) })
	err := w.claimUntilStopped()
	w.drain(hurry)
	close(ended)
	background.Wait()
	if len(w.orphans) == 0 { // otherwise it stays registered, so that the reaper finds the leases sooner
		const sql = "select wakeboard.deregister_worker($1::bigint)"
		if _, refused := execute(w.claims, w.options.Lease, sql, w.id); refused != nil {
			log.Printf("could not deregister: %v", refused)
		}
	}
	words := []string{fmt.Sprintf("%d claimed", w.counts["claimed"])}
	for _, word := range []string{"succeeded", "failed", "snoozed", "released", "lost"} {
		if w.counts[word] > 0 {
			words = append(words, fmt.Sprintf("%d %s", w.counts[word], word))
		}
	}
	log.Printf("worker finished after %.1f s: %s", time.Since(began).Seconds(), strings.Join(words, ", "))
	return err
}

// -- the database -----------------------------------------------------------------------------------------------------

func (w *Worker) share(part float64) time.Duration {
	return time.Duration(part * float64(w.options.Lease))
}

func (w *Worker) leaseSeconds() int { return int(w.options.Lease.Seconds()) }

func query[Row any](pool *pgxpool.Pool, within time.Duration, scan pgx.RowToFunc[Row], sql string, values ...any) ([]Row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	rows, err := pool.Query(ctx, sql, values...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

func execute(pool *pgxpool.Pool, within time.Duration, sql string, values ...any) ([]int64, error) {
	return query(pool, within, func(pgx.CollectableRow) (int64, error) { return 0, nil }, sql, values...)
}

var unavailableCodes = regexp.MustCompile(`^(08|53|57P)|^55P03$`) // the last one: a locked row

func unavailable(err error) bool {
	var refused *pgconn.PgError
	return !errors.As(err, &refused) || unavailableCodes.MatchString(refused.Code)
}

// underLease is a call of a handler. It is repeated until the database answers or the handler is asked to stop.
func (w *Worker) underLease(ctx context.Context, sql string, values []any, into ...any) error {
	for {
		if errors.Is(context.Cause(ctx), ErrLeaseLost) {
			return ErrLeaseLost
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.Lease)
		err := w.handlerCalls.QueryRow(call, sql, values...).Scan(into...)
		cancel()
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "WB001" {
			return ErrLeaseLost
		}
		if err == nil || !unavailable(err) {
			return err
		}
		time.Sleep(retryPause)
	}
}

func (w *Worker) registerUntilStopped() error {
	const sql = "select wakeboard.register_worker($1::bigint, $2::text, $3::text, $4::text, $5::text, $6::text[], $7::integer," +
		" $8::integer, $9::text[])"
	host, _ := os.Hostname()
	name := fmt.Sprintf("%s-%d", host, os.Getpid())
	for !w.stopped() {
		_, err := execute(w.claims, w.options.Lease, sql, w.id, name, w.options.Pool, host, "0.1.0", w.options.Queues,
			w.options.Concurrency, w.leaseSeconds(), w.types)
		if err == nil {
			w.registered = time.Now()
			return nil
		}
		if !unavailable(err) {
			return err
		}
		time.Sleep(retryPause)
	}
	return nil
}

// listen wakes the claim loop at each notification. While it cannot, the loop polls.
func (w *Worker) listen() {
	for ; !w.stopped(); time.Sleep(time.Second) {
		conn, err := pgx.Connect(context.Background(), w.options.DSN)
		if err != nil {
			continue
		}
		_, err = conn.Exec(context.Background(), "listen wakeboard")
		for err == nil {
			if _, err = conn.WaitForNotification(context.Background()); err == nil {
				notify(w.wake)
			}
		}
		_ = conn.Close(context.Background())
	}
}

func notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

func (w *Worker) stopped() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// -- handlers ---------------------------------------------------------------------------------------------------------

func (w *Worker) hold(run *Run) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	held := &attempt{run: run, ctx: ctx, cancel: cancel, started: time.Now()}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if older := w.held[run.ID]; older != nil {
		w.lose(older) // its lease must be lost, and the heartbeat does not say so
	}
	w.held[run.ID] = held
	w.running++
	return held
}

func (w *Worker) finish(held *attempt) {
	w.mutex.Lock()
	w.running--
	w.mutex.Unlock()
	held.cancel(nil)
	notify(w.wake)
}

func (w *Worker) execute(held *attempt) {
	timer := time.AfterFunc(held.run.Timeout, func() { w.stop(held, ErrTimedOut) })
	result, err := w.call(held)
	timer.Stop()
	w.mutex.Lock()
	stopped := held.stopped
	w.mutex.Unlock()
	w.settle(held, outcomeOf(result, err, stopped, int(held.run.Timeout.Seconds())))
	w.finish(held)
}

func (w *Worker) call(held *attempt) (result any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return w.handlers[held.run.JobType](held.ctx, held.run)
}

// stop tells a handler to stop. One that does not, at its timeout or at the end of the worker, is left behind.
func (w *Worker) stop(held *attempt, why error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if errors.Is(held.stopped, ErrLeaseLost) || held.outcome != nil {
		return
	}
	held.stopped = why
	held.cancel(why)
	if errors.Is(why, ErrTimedOut) || errors.Is(why, ErrShutdown) {
		left := outcomeOf(nil, why, why, int(held.run.Timeout.Seconds()))
		time.AfterFunc(stopGrace, func() { w.settle(held, left) })
	}
}

func (w *Worker) settle(held *attempt, result outcome) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if held.outcome == nil {
		held.outcome = &result
		if !errors.Is(held.stopped, ErrLeaseLost) { // otherwise nothing is reported
			w.outbox = append(w.outbox, held)
			notify(w.flush)
		}
	}
}

// drain gives running handlers the grace period, then stops and releases them, and waits for all outcomes.
func (w *Worker) drain(hurry chan struct{}) {
	grace := time.After(w.options.Grace)
	for over := false; !over; {
		w.mutex.Lock()
		over = w.running == 0
		w.mutex.Unlock()
		select {
		case <-grace:
			over = true
		case <-hurry:
			over = true
		case <-time.After(tick):
		}
	}
	w.mutex.Lock()
	left := make([]*attempt, 0, len(w.held))
	for _, held := range w.held {
		left = append(left, held)
	}
	w.mutex.Unlock()
	for _, held := range left {
		w.stop(held, ErrShutdown)
	}
	deadline := time.Now().Add(time.Duration(math.Ceil(float64(w.options.Lease))) + stopGrace)
	for w.holdsAny() && time.Now().Before(deadline) { // bounded by the validity of the leases
		time.Sleep(tick)
	}
}
