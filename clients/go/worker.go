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
	"slices"
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
	stopGrace       = 2 * time.Second        // for a handler that was told to stop
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
	stopped error // why its handler was told to stop
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

// underLease is a call of a handler. It is repeated until the database answers or the handler is told to stop.
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

// -- claims -----------------------------------------------------------------------------------------------------------

func (w *Worker) claimUntilStopped() error {
	for !w.stopped() {
		claimed, err := w.claimTurn()
		if err != nil && !unavailable(err) {
			return err
		}
		pause := w.options.Poll
		if err != nil {
			pause = retryPause
		} else if claimed {
			continue
		}
		select {
		case <-w.wake:
		case <-w.stopping:
		case <-time.After(pause):
		}
	}
	return nil
}

// claimTurn claims runs for the free slots. It returns whether there were any.
func (w *Worker) claimTurn() (bool, error) {
	w.mutex.Lock()
	free, idle, register := w.options.Concurrency-w.running, len(w.held) == 0, w.register
	w.register = false
	w.mutex.Unlock()
	if register || time.Since(w.registered) > min(registerEvery, w.options.Lease) {
		if err := w.registerUntilStopped(); err != nil {
			return false, err
		}
	}
	yields, err := w.yieldsToQuarantine()
	if err != nil || !w.leasesValid() || free <= 0 || yields && !idle {
		return false, err
	}
	claimed := 0
	if !yields {
		if claimed, err = w.claimLimited(free); err != nil {
			return false, err
		}
		w.turn++
		next := w.claimNext
		if w.lastWasFull && w.turn%oldestTurns == 0 { // so that no priority starves
			next = w.claimOldest
		}
		more, err := next(free - claimed)
		if claimed += more; err != nil || claimed > 0 {
			return claimed > 0, err
		}
	}
	return idle && w.runQuarantined(), nil
}

func (w *Worker) claimNext(count int) (claimed int, err error) {
	if time.Since(w.scanBegan) > fullScanEvery {
		w.rewind()
	}
	for count > 0 {
		var limit any = scanLimit
		if w.lastWasFull {
			limit = nil
		}
		claimed, err = w.claim("claim($1::bigint, $2::integer, $3::text[], $4::smallint[], $5::text[]::timestamptz[],"+
			" $6::bigint[], $7::text[], $8::integer, $9::integer)", append(w.positions(), w.types, count, limit)...)
		w.lastWasFull = claimed == count
		if claimed > 0 || err != nil || w.stopped() {
			return claimed, err
		}
		if more, err := w.advanceScan(); err != nil || !more {
			return 0, err
		}
	}
	return 0, nil
}

// advanceScan moves the scan positions behind rows that this worker cannot claim. It returns whether there is more.
func (w *Worker) advanceScan() (bool, error) {
	const sql = "select queue, priority, run_at::text, id from wakeboard.advance_scan($1::text[], $2::smallint[]," +
		" $3::text[]::timestamptz[], $4::bigint[], $5::text[], $6::integer)"
	next, err := query(w.claims, w.options.Lease, pgx.RowToStructByPos[pair], sql, append(w.positions(), w.types, scanLimit)...)
	for _, moved := range next {
		for at := range w.pairs {
			if w.pairs[at].Queue == moved.Queue && w.pairs[at].Priority == moved.Priority {
				w.pairs[at] = moved
			}
		}
	}
	if len(next) == 0 {
		w.rewind()
	}
	return len(next) > 0, err
}

func (w *Worker) rewind() {
	w.pairs, w.scanBegan = nil, time.Now()
	for priority := int16(5); priority > 0; priority-- {
		for _, queue := range w.options.Queues {
			w.pairs = append(w.pairs, pair{queue, priority, "-infinity", 0})
		}
	}
}

func (w *Worker) positions() []any {
	return []any{
		column(w.pairs, func(p pair) string { return p.Queue }), column(w.pairs, func(p pair) int16 { return p.Priority }),
		column(w.pairs, func(p pair) string { return p.RunAt }), column(w.pairs, func(p pair) int64 { return p.ID }),
	}
}

func column[Item, Value any](items []Item, value func(Item) Value) []Value {
	values := make([]Value, len(items))
	for at, item := range items {
		values[at] = value(item)
	}
	return values
}

func (w *Worker) claimOldest(count int) (int, error) {
	queue := w.options.Queues[0]
	w.options.Queues = append(w.options.Queues[1:], queue) // each queue in turn
	return w.claim("claim_oldest($1::bigint, $2::integer, $3::text, array_fill('-infinity'::timestamptz, '{5}'),"+
		" array_fill(0::bigint, '{5}'), $4::text[], $5::integer)", queue, w.types, count)
}

func (w *Worker) claimLimited(free int) (int, error) {
	if time.Now().Before(w.limitedAt) {
		return 0, nil
	}
	const sql = "select wakeboard.due_limit_keys($1::text[], $2::text, $3::integer)"
	keys, err := query(w.claims, w.options.Lease, pgx.RowTo[string], sql, w.options.Queues, w.afterKey, keysPerClaim)
	claimed := 0
	if err == nil && len(keys) > 0 {
		claimed, err = w.claim("claim_limited($1::bigint, $2::integer, $3::text[], $4::text[], $5::text[], $6::integer)",
			w.options.Queues, w.types, keys, free)
	}
	w.afterKey = ""
	if len(keys) == keysPerClaim {
		w.afterKey = keys[len(keys)-1]
	} else if claimed == 0 {
		w.limitedAt = time.Now().Add(limitedEvery)
	}
	return claimed, err
}

// runQuarantined runs one quarantined run alone: it was running when two workers died. False: there is none.
func (w *Worker) runQuarantined() bool {
	const function = "claim_quarantined($1::bigint, $2::integer, $3::text[], $4::text[])"
	if claimed, err := w.claim(function, w.options.Queues, w.types); err != nil || claimed == 0 {
		return false
	}
	w.yields = false
	for w.holdsAny() && !w.stopped() {
		time.Sleep(tick)
	}
	return true
}

// yieldsToQuarantine tells whether a quarantined run has waited so long that this worker claims nothing until idle.
func (w *Worker) yieldsToQuarantine() (bool, error) {
	if time.Now().Before(w.quarantineAt) {
		return w.yields, nil
	}
	w.quarantineAt = time.Now().Add(quarantineEvery)
	const sql = "select coalesce(clock_timestamp() - wakeboard.quarantined_since($1::text[], $2::text[])" +
		" > make_interval(secs => $3::integer), false)"
	waits, err := query(w.claims, w.options.Lease, pgx.RowTo[bool], sql, w.options.Queues, w.types, quarantinedWait)
	w.yields = err == nil && !w.yields && waits[0]
	return w.yields, err
}

// claim calls a claim function and starts the handlers of its runs. A reply that came too late is released.
func (w *Worker) claim(function string, values ...any) (int, error) {
	const columns = "id, lease_epoch, job_type, payload, attempts, max_attempts, timeout_s, scheduled_for, queue, priority," +
		" uuid::text, coalesce(schedule, '')"
	sent := time.Now()
	runs, err := query(w.claims, w.options.Lease, func(row pgx.CollectableRow) (*Run, error) {
		run, timeoutS := &Run{worker: w}, 0
		err := row.Scan(&run.ID, &run.Epoch, &run.JobType, &run.Payload, &run.Attempt, &run.MaxAttempts, &timeoutS,
			&run.ScheduledFor, &run.Queue, &run.Priority, &run.UUID, &run.Schedule)
		run.Timeout = time.Duration(timeoutS) * time.Second
		return run, err
	}, "select "+columns+" from wakeboard."+function, append([]any{w.id, w.leaseSeconds()}, values...)...)
	w.mutex.Lock()
	w.counts["claimed"] += len(runs)
	w.mutex.Unlock()
	inTime := time.Since(sent) <= w.share(1-validShare) && w.leasesValid()
	for _, run := range runs {
		held := w.hold(run)
		if inTime && !w.stopped() {
			go w.execute(held)
		} else {
			w.finish(held)
			w.settle(held, release("not_started", 0))
		}
	}
	return len(runs), err
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

// -- leases -----------------------------------------------------------------------------------------------------------

// leasesValid: the database's clock decides when a lease ends. The worker's monotonic clock only stops it earlier.
func (w *Worker) leasesValid() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return time.Now().Before(w.validUntil)
}

func (w *Worker) holdsAny() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.held) > 0
}

func (w *Worker) renewPeriodically(ended chan struct{}) {
	pause := w.share(0.25)
	for {
		select {
		case <-ended:
			return
		case <-time.After(pause):
		}
		if !w.leasesValid() {
			w.dropLeases()
		}
		busy, err := w.renew()
		pause = w.share(0.25)
		if busy || err != nil {
			pause = min(busyRetry, pause)
		}
	}
}

// renew renews all leases in one call, also if there are none. It returns whether a run was locked.
func (w *Worker) renew() (busy bool, err error) {
	sent := time.Now()
	w.mutex.Lock()
	var ids, epochs []int64
	var ages []float32
	var fractions []*float32
	for id, held := range w.held {
		ids, epochs = append(ids, id), append(epochs, held.run.Epoch)
		ages, fractions = append(ages, float32(sent.Sub(held.started).Seconds())), append(fractions, held.run.progress())
	}
	w.mutex.Unlock()
	type answer struct {
		ID     int64
		Answer string
		Epoch  int64
	}
	const sql = "select id, answer, epoch from wakeboard.renew($1::bigint, $2::integer, coalesce($3::bigint[], '{}')," +
		" coalesce($4::bigint[], '{}'), coalesce($5::real[], '{}'), coalesce($6::real[], '{}'))"
	answers, err := query(w.heartbeats, w.share(0.25), pgx.RowToStructByPos[answer], sql,
		w.id, w.leaseSeconds(), ids, epochs, ages, fractions)
	if err != nil {
		return false, err
	}
	w.mutex.Lock()
	w.validUntil = sent.Add(w.share(validShare))
	w.mutex.Unlock()
	w.releaseOrphans()
	for _, each := range answers {
		w.mutex.Lock()
		held := w.held[each.ID]
		w.register = w.register || each.Answer == "unregistered"
		if held != nil && each.Answer == "refused" && held.run.Epoch == each.Epoch {
			w.lose(held)
		}
		w.mutex.Unlock()
		if held != nil && each.Answer == "cancel" && held.run.Epoch == each.Epoch {
			w.stop(held, ErrCancelled)
		}
		busy = busy || each.Answer == "busy"
	}
	return busy, nil
}

// dropLeases: no heartbeat was answered in time, so other workers may have the runs.
func (w *Worker) dropLeases() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, held := range w.held {
		w.lose(held)
		w.orphans = append(w.orphans, held.run)
	}
}

// lose drops a lease and stops its handler. The caller has locked the mutex.
func (w *Worker) lose(held *attempt) {
	w.counts["lost"]++
	if w.held[held.run.ID] == held {
		delete(w.held, held.run.ID)
	}
	w.outbox = slices.DeleteFunc(w.outbox, func(each *attempt) bool { return each == held })
	held.stopped = ErrLeaseLost
	held.cancel(ErrLeaseLost)
}

// releaseOrphans releases dropped leases, so that they do not count as crashes.
func (w *Worker) releaseOrphans() {
	w.mutex.Lock()
	orphans := w.orphans
	w.orphans = nil
	orphans = slices.DeleteFunc(orphans, func(run *Run) bool { return w.held[run.ID] != nil }) // claimed again
	w.mutex.Unlock()
	for _, run := range orphans {
		held := w.hold(run)
		w.finish(held)
		w.settle(held, release("disconnected", 0))
	}
}

// -- outcomes ---------------------------------------------------------------------------------------------------------

func (w *Worker) reportOutcomes(ended chan struct{}) {
	for {
		w.mutex.Lock()
		batch := w.outbox[:min(len(w.outbox), batchSize)]
		w.outbox = w.outbox[len(batch):]
		w.reporting = len(batch)
		w.mutex.Unlock()
		if len(batch) == 0 {
			select {
			case <-ended:
				return
			case <-w.flush:
			}
			continue
		}
		groups := map[string][]*attempt{}
		for _, held := range batch { // a completion is of one epoch
			group := fmt.Sprint(held.outcome.kind)
			if held.outcome.kind == completed {
				group = fmt.Sprint(group, held.run.Epoch)
			}
			groups[group] = append(groups[group], held)
		}
		for _, group := range groups {
			w.report(group)
		}
	}
}

// report reports outcomes of one kind, and repeats that while the leases are valid: the functions are idempotent.
func (w *Worker) report(group []*attempt) {
	for w.leasesValid() {
		if group = w.stillHeld(group); len(group) == 0 {
			return
		}
		refused, err := w.send(group)
		var answer *pgconn.PgError
		switch {
		case err == nil:
			w.accept(group, refused)
			return
		case unavailable(err):
			time.Sleep(retryPause)
		case len(group) > 1: // one by one, so that only the outcome that cannot be stored is lost
			for _, held := range group {
				w.report([]*attempt{held})
			}
			return
		case errors.As(err, &answer) && answer.TableName == "job_run_history" && answer.Code == "23514":
			_, _ = execute(w.outcomes, w.options.Lease, "select wakeboard.create_partitions()")
		default:
			log.Printf("the outcome of run %d cannot be stored: %v", group[0].run.ID, err)
			w.mutex.Lock()
			w.lose(group[0])
			w.mutex.Unlock()
			return
		}
	}
	group = w.stillHeld(group)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, held := range group {
		w.lose(held)
		w.orphans = append(w.orphans, held.run)
	}
}

// stillHeld returns the attempts whose lease was not dropped meanwhile.
func (w *Worker) stillHeld(group []*attempt) []*attempt {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	dropped := func(held *attempt) bool { return errors.Is(held.stopped, ErrLeaseLost) }
	return slices.DeleteFunc(slices.Clone(group), dropped)
}

// send returns which runs of the group were refused: true if another transaction has locked the run, false if its lease
// is lost.
func (w *Worker) send(group []*attempt) (map[int64]bool, error) {
	within := w.share(0.5)
	ids := column(group, func(each *attempt) int64 { return each.run.ID })
	epochs := column(group, func(each *attempt) int64 { return each.run.Epoch })
	words := column(group, func(each *attempt) string { return each.outcome.word })
	delays := column(group, func(each *attempt) *float32 { return each.outcome.delay })
	var missing []int64
	var err error
	switch group[0].outcome.kind {
	case completed:
		const sql = "select wakeboard.complete($1::bigint, $2::bigint[], $3::bigint, $4::text::jsonb)"
		missing, err = query(w.outcomes, within, pgx.RowTo[int64], sql, w.id, ids, epochs[0], results(group))
	case failed:
		const sql = "select wakeboard.fail($1::bigint, $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[]," +
			" $7::text[], $8::real[])"
		types := column(group, func(each *attempt) string { return each.outcome.errorType })
		texts := column(group, func(each *attempt) string { return each.outcome.text })
		stacks := make([]string, len(group))
		missing, err = query(w.outcomes, within, pgx.RowTo[int64], sql, w.id, ids, epochs, words, types, texts, stacks, delays)
	case released:
		const sql = "select wakeboard.release($1::bigint, $2::bigint[], $3::bigint[], $4::real[], $5::boolean[], $6::text[])"
		counted := column(words, func(word string) bool { return word == "worker_stopped" || word == "disconnected" })
		missing, err = query(w.outcomes, within, pgx.RowTo[int64], sql, w.id, ids, epochs, delays, counted, words)
	}
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	const sql = "select wakeboard.still_leased($1::bigint, $2::bigint[], $3::bigint[])"
	locked, err := query(w.outcomes, within, pgx.RowTo[int64], sql, w.id, ids, epochs)
	refused := map[int64]bool{}
	for _, id := range missing {
		refused[id] = slices.Contains(locked, id)
	}
	return refused, err
}

func results(group []*attempt) any {
	var members []string
	for _, held := range group {
		if held.outcome.result != nil {
			members = append(members, fmt.Sprintf(`"%d":%s`, held.run.ID, held.outcome.result))
		}
	}
	if members == nil {
		return nil
	}
	return "{" + strings.Join(members, ",") + "}"
}

// accept counts what the database has accepted. A run that another transaction has locked is reported again.
func (w *Worker) accept(group []*attempt, refused map[int64]bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, held := range group {
		locked, missing := refused[held.run.ID]
		switch {
		case locked:
			time.AfterFunc(busyRetry, func() {
				w.mutex.Lock()
				defer w.mutex.Unlock()
				w.outbox = append(w.outbox, held)
				notify(w.flush)
			})
		case missing:
			w.lose(held)
		default:
			if w.held[held.run.ID] == held {
				delete(w.held, held.run.ID)
			}
			word := map[kind]string{completed: "succeeded", failed: "failed", released: "released"}[held.outcome.kind]
			if held.outcome.word == "snoozed" {
				word = "snoozed"
			}
			w.counts[word]++
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
