package wakeboard

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

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
