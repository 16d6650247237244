package wakeboard

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	validShare = 0.75 // of a lease, after its last heartbeat was sent
	renewShare = 0.25
	busyRetry  = 500 * time.Millisecond // for runs that another transaction has locked
)

const renewLeases = `select id, answer from wakeboard.renew(@worker::bigint, @lease::integer, @ids::bigint[], @epochs::bigint[],
	@ages::real[], @fractions::real[])`

// hold makes the worker the holder of the run's lease, and returns the context of its handler.
func (w *Worker) hold(run *Run) (ctx context.Context) {
	ctx, run.cancel = context.WithCancelCause(context.Background())
	run.started = time.Now()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if older := w.held[run.ID]; older != nil { // its lease must be lost, and the heartbeat does not say so
		older.cancel(ErrLeaseLost)
		w.counts["lost"]++
	}
	w.held[run.ID] = run
	w.counts["claimed"]++
	return ctx
}

// end drops a lease: its outcome is accepted, or it is lost, and its handler stops.
func (w *Worker) end(run *Run, how string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.held[run.ID] == run {
		delete(w.held, run.ID)
		w.counts[how]++
		run.cancel(ErrLeaseLost)
	}
}

func (w *Worker) holds(run *Run) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.held[run.ID] == run
}

func (w *Worker) heldRuns() []*Run {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Collect(maps.Values(w.held))
}

func (w *Worker) share(part float64) time.Duration {
	return time.Duration(part * float64(w.options.Lease))
}

// leasesValid: the database's clock decides when a lease ends. The worker's monotonic clock only stops it earlier.
func (w *Worker) leasesValid() bool { return time.Since(*w.renewed.Load()) < w.share(validShare) }

func (w *Worker) renewUntilEnded(ctx context.Context) {
	for pause := w.share(renewShare); sleep(ctx, pause); {
		if !w.leasesValid() {
			w.dropLeases()
		}
		pause = w.share(renewShare)
		if allRenewed := w.renew(); !allRenewed {
			pause = min(busyRetry, pause)
		}
	}
}

// renew renews all leases in one call, also if there are none. It returns whether that succeeded.
func (w *Worker) renew() bool {
	sent, runs := time.Now(), map[int64]*Run{}
	ids, epochs, ages, fractions := []int64{}, []int64{}, []float64{}, []*float64{}
	for _, run := range w.heldRuns() {
		runs[run.ID] = run
		ids, epochs = append(ids, run.ID), append(epochs, run.Epoch)
		ages, fractions = append(ages, sent.Sub(run.started).Seconds()), append(fractions, run.fraction.Load())
	}
	type reply = struct {
		ID     int64
		Answer string
	}
	values := pgx.NamedArgs{"ids": ids, "epochs": epochs, "ages": ages, "fractions": fractions}
	replies, err := query(w, w.share(renewShare), pgx.RowToStructByPos[reply], renewLeases, values)
	if err != nil {
		return false
	}
	w.renewed.Store(&sent)
	busy := false
	for _, reply := range replies {
		run := runs[reply.ID]
		switch reply.Answer {
		case "cancel":
			w.stop(run, ErrCancelled)
		case "refused":
			if !run.settled.Load() { // otherwise the reply to its report decides
				w.end(run, "lost")
			}
		case "unregistered":
			w.registered.Store(false)
		case "busy":
			busy = true
		}
	}
	if _, err := w.send(w.orphans); err == nil { // so that they do not count as crashes
		w.orphans = nil
	}
	return !busy
}

// dropLeases: no heartbeat was answered in time, so other workers may have the runs.
func (w *Worker) dropLeases() {
	for _, run := range w.heldRuns() {
		w.end(run, "lost")
		orphan := outcome{ID: run.ID, Epoch: run.Epoch, Kind: "released", Word: "disconnected"}
		w.orphans = append(w.orphans, &Run{ID: run.ID, outcome: orphan})
	}
}
