// Package worker executes wakeboard's runs: scheduled and background jobs on Postgres.
//
//	options, err := worker.OptionsFromEnvironment()
//	err = worker.New(options, map[string]worker.Handler{
//		"send_mail": func(ctx context.Context, run *worker.Run) (any, error) { … },
//	}).Run(ctx)
//
// A handler returns when its context is done: its run was cancelled or timed out, its lease is lost, or the worker stops.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	progressEach = 500 * time.Millisecond // between renewals of which the second is made because of progress
	busyRetry    = 500 * time.Millisecond // for runs that another transaction has locked
	splitFor     = 3 * time.Second        // so long, outcomes that met a lock are sent in smaller parts; then others have their turn
	tick         = 20 * time.Millisecond
	connectLimit = 3 * time.Second // of one host, unless the connection string has connect_timeout
	batchSize    = 1000            // outcomes in one statement
	maxResult    = 16_384          // bytes of JSON
	maxMessage   = 200             // bytes of a message with the progress
	maxLine      = 4_000           // bytes of an error or a log message
)

// Handler executes the runs of a job type. Its result is stored as JSON. It returns when its context is done.
type Handler func(ctx context.Context, run *Run) (result any, err error)

// Options of a worker.
type Options struct {
	DSN         string        `env:"DSN"`
	Queues      []string      `env:"QUEUES" envDefault:"default"`
	Concurrency int           `env:"CONCURRENCY" envDefault:"100"`
	Lease       time.Duration `env:"LEASE_SECONDS" envDefault:"60"` // whole seconds
	Grace       time.Duration `env:"GRACE_SECONDS" envDefault:"25"` // how long runs may continue after SIGTERM
	Poll        time.Duration `env:"POLL_SECONDS" envDefault:"1"`
	Pool        string        `env:"POOL" envDefault:"default"`
	Listen      bool          `env:"LISTEN" envDefault:"true"` // false behind PgBouncer in transaction mode
	ReadyFile   string        `env:"READY_FILE"`               // exists while the worker is ready, for readiness probes

	RunLogs        string `env:"RUN_LOGS" envDefault:"all"`              // which logs of runs are kept: all, failed (those of attempts that fail) or off
	RunLogLevel    string `env:"RUN_LOG_LEVEL" envDefault:"debug"`       // lines of lower levels are not kept: debug, info, warning or error
	RunLogMaxBytes int    `env:"RUN_LOG_MAX_BYTES" envDefault:"1048576"` // of the log of an attempt
}

// OptionsFromEnvironment reads the WAKEBOARD_* variables, as the Python worker does.
func OptionsFromEnvironment() (Options, error) {
	seconds := func(text string) (any, error) { return time.ParseDuration(text + "s") }
	options, err := env.ParseAsWithOptions[Options](env.Options{Prefix: "WAKEBOARD_", FuncMap: map[reflect.Type]env.ParserFunc{reflect.TypeFor[time.Duration](): seconds}})
	if _, known := logLevels[options.RunLogLevel]; err == nil && !known {
		err = fmt.Errorf("WAKEBOARD_RUN_LOG_LEVEL=%q: write debug, info, warning or error", options.RunLogLevel)
	}
	if err == nil && !slices.Contains([]string{"all", "failed", "off"}, options.RunLogs) {
		err = fmt.Errorf("WAKEBOARD_RUN_LOGS=%q: write all, failed or off", options.RunLogs)
	}
	return options, err
}

// Worker claims runs, calls their handlers, renews the leases, and reports the outcomes.
type Worker struct {
	id          int64
	options     Options
	handlers    map[string]Handler
	own, shared *pgxpool.Pool // for its goroutines, each with a connection, so that nothing delays the heartbeat; for handlers
	running     atomic.Int64  // handlers
	registered  atomic.Bool
	endsMatter  atomic.Bool // the end of a run may let another one start
	runEnded    atomic.Bool // since the last fetch began
	outbox      chan outcome
	progressed  chan struct{} // a handler has reported progress
	wake        chan struct{} // a run may be due, or there is a free slot
	renewed     atomic.Pointer[time.Time]
	logs        *runLogs

	severalHosts bool // of which one is the primary
	primary      atomic.Pointer[pgconn.FallbackConfig]
	reached      atomic.Pointer[string] // the address of the last connection

	mutex  sync.Mutex // guards what follows
	held   map[int64]*Run
	counts map[string]int

	// Of the claim loop alone.
	registeredAt time.Time
	state        string // of the last answer to fetch_runs
}

// New makes a worker with these handlers, by job type.
func New(options Options, handlers map[string]Handler) *Worker {
	w := &Worker{
		id: rand.Int64() | 1, options: options, handlers: handlers, held: map[int64]*Run{}, counts: map[string]int{},
		outbox: make(chan outcome, options.Concurrency+2*batchSize), wake: make(chan struct{}, 1), progressed: make(chan struct{}, 1),
	}
	w.logs = w.newRunLogs(options)
	return w
}

// Run works until ctx is done, SIGTERM or SIGINT, and until the runs have ended and their outcomes are reported.
func (w *Worker) Run(ctx context.Context) error {
	began := time.Now()
	config, err := pgxpool.ParseConfig(w.options.DSN)
	if err != nil {
		return invalidDSN(err)
	}
	config.MaxConns, config.ConnConfig.RuntimeParams["application_name"] = 5, "wakeboard worker"
	if config.ConnConfig.ConnectTimeout == 0 { // of each host: one that does not answer must not hide the others
		config.ConnConfig.ConnectTimeout = connectLimit
	}
	config.BeforeConnect, config.AfterConnect = w.followPrimary, w.noteReached
	w.severalHosts = config.ConnConfig.ValidateConnect != nil && len(config.ConnConfig.Fallbacks) > 0
	for _, pool := range []**pgxpool.Pool{&w.own, &w.shared} {
		if *pool, err = pgxpool.NewWithConfig(context.Background(), config.Copy()); err != nil {
			return err
		}
		defer (*pool).Close()
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	w.renewed.Store(&began)
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	for _, loop := range []func(context.Context){w.renewUntilEnded, w.reportUntilEnded, w.listenUntilEnded, w.logs.flushUntilEnded} {
		group.Go(func() { loop(background) })
	}
	w.setReady(false) // a killed container may have left the file
	err = w.claimUntilStopped(ctx)
	w.setReady(false)
	w.drain()
	end()
	group.Wait()
	if lost := slices.Sorted(maps.Keys(w.heldRuns())); len(lost) > 0 {
		w.counts["lost"] += len(lost)
		logf("lost: no answer confirms the outcomes of %d runs; those that are not stored will be executed again: %v", len(lost), lost[:min(len(lost), 10)])
	} else { // otherwise it stays registered, so that the reaper finds the leases sooner
		_, _ = query(w, min(w.options.Lease, 5*time.Second), pgx.RowTo[any], "select wakeboard.deregister_worker(@worker::bigint)", nil)
	}
	logf("worker finished after %.1f s: %d succeeded of %v", time.Since(began).Seconds(), w.counts["succeeded"], w.counts)
	return err
}

func (w *Worker) setReady(ready bool) {
	if ready && w.options.ReadyFile != "" {
		if err := os.WriteFile(w.options.ReadyFile, nil, 0o644); err != nil {
			logf("WAKEBOARD_READY_FILE cannot be made: %v", err)
		}
	} else {
		_ = os.Remove(w.options.ReadyFile)
	}
}

// invalidDSN says what is wrong in words of its own: the error of pgx quotes the string, and passwords with it.
func invalidDSN(err error) error {
	known := [][2]string{ // parts of the messages of pgx; the first that occurs counts
		{"failed to configure TLS", "its sslmode, or a certificate that it names, cannot be used"},
		{"unknown target_session_attrs", "its target_session_attrs is unknown"},
		{"invalid connect_timeout", "its connect_timeout is no number of seconds"},
		{"failed to read service", "its service is unknown"},
		{"pool_", "one of its pool settings is invalid"},
		{"failed to parse as URL", "percent-encode special characters, such as those of the password"},
		{": invalid port", "its port is no number from 1 to 65535"},
		{"", "write postgresql://user:password@host:5432/database"}, // any other message
	}
	found := slices.IndexFunc(known, func(pair [2]string) bool { return strings.Contains(err.Error(), pair[0]) })
	return fmt.Errorf("WAKEBOARD_DSN is not a valid connection string: %s", known[found][1])
}

func (w *Worker) execute(ctx context.Context, run *Run) {
	timer := time.AfterFunc(run.Timeout, func() { run.cancel(ErrTimedOut) }) // a third of the cost of a context with a timeout
	defer timer.Stop()
	result, err, returned := any(nil), error(nil), false
	defer func() {
		if panicked := recover(); panicked != nil || !returned { // runtime.Goexit ends a handler, too
			err = fmt.Errorf("panic: %v", panicked)
		}
		settled := outcome{Kind: "succeeded"} // the frame of outcomeOf is large: without it, the goroutine's stack need not grow
		if result != nil || err != nil {
			settled = outcomeOf(result, err, context.Cause(ctx))
		}
		w.settle(run, settled)
		w.running.Add(-1)
		w.noteEnd()
	}()
	result, err = w.handlers[run.JobType](ctx, run)
	returned = true
}

// drain gives running handlers the grace period, then stops and releases them, and waits for all outcomes.
func (w *Worker) drain() {
	grace, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt) // the second one
	defer stop()
	grace, cancel := context.WithTimeout(grace, w.options.Grace)
	defer cancel()
	for w.running.Load() > 0 && sleep(grace, tick, nil) {
	}
	for _, run := range w.heldRuns() {
		run.cancel(ErrShutdown)
		time.AfterFunc(2*time.Second, func() { w.settle(run, outcomeOf(nil, ErrShutdown, ErrShutdown)) }) // it is left behind
	}
	until := time.Now().Add(2*time.Second + w.options.Lease) // what is locked for longer is left to expire
	for len(w.heldRuns()) > 0 && w.leasesValid() && time.Now().Before(until) {
		time.Sleep(tick)
	}
}

// listenUntilEnded wakes the claim loop at each notification. While it cannot, the loop polls.
func (w *Worker) listenUntilEnded(ctx context.Context) {
	for ; w.options.Listen && ctx.Err() == nil; sleep(ctx, time.Second, nil) {
		conn, err := pgx.ConnectConfig(ctx, w.own.Config().ConnConfig)
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

func notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// sleep ends early at a signal on wake. It returns false if the context is done.
func sleep(ctx context.Context, pause time.Duration, wake <-chan struct{}) bool {
	select {
	case <-wake:
	case <-ctx.Done():
	case <-time.After(pause):
	}
	return ctx.Err() == nil
}

// query executes a statement of the worker, whether the worker stops meanwhile or not.
func query[Row any](w *Worker, within time.Duration, scan pgx.RowToFunc[Row], sql string, values pgx.NamedArgs) ([]Row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if w.severalHosts {
		defer time.AfterFunc(askAfter, func() { w.watchHosts(ctx, cancel) }).Stop()
	}
	named := pgx.NamedArgs{"worker": w.id, "lease": int(w.options.Lease.Seconds()), "queues": w.options.Queues, "types": slices.Collect(maps.Keys(w.handlers))}
	maps.Copy(named, values)
	rows, _ := w.own.Query(ctx, sql, named) // CollectRows returns its error
	return pgx.CollectRows(rows, scan)
}

// fault is empty if the database did not answer.
func fault(err error) *pgconn.PgError {
	refused, _ := errors.AsType[*pgconn.PgError](err)
	return cmp.Or(refused, &pgconn.PgError{})
}

// No answer, lost connections, a server without resources or that stops or only reads, deadlocks, cancelled statements,
// a locked row, and a lost lease, which the heartbeat ends. In a function of wakeboard, which the context names in any
// language of the server's messages: it was replaced during the call.
var temporary = regexp.MustCompile(`^($|08|25006|25P0[34]|40|53|55P03|57|58|WB001|(0A000|42(8C9|703|804|883|P01))([^\n(."«»„“”]*SQL[^\n(."«»„“”]*["«»„“”](?s:.*?)["«»„“”]\n)?[^\n(."«»„“”]*SQL[^\n(."«»„“”]*((wakeboard\.\w+)?\(|["«»„“”][\s\x{a0}]*\w+[\s\x{a0}]*["«»„“”]))`)

// unavailable: the database did not answer, or will answer otherwise.
func unavailable(err error) bool { return temporary.MatchString(fault(err).Code + fault(err).Where) }
