package wakeboard

import (
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
