// The worker that `wakeboard conformance` tests, with the handlers that docs/workers-in-any-language.md describes.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"wakeboard.dev/wakeboard"
	"wakeboard.dev/wakeboard/worker"
)

const noteSQL = "select conformance.note($1, $2, $3)"

var notes *pgxpool.Pool

func note(ctx context.Context, run *worker.Run, what string) {
	if _, err := notes.Exec(context.WithoutCancel(ctx), noteSQL, run.ID, run.Epoch, what); err != nil {
		log.Print(err)
	}
}

func echo(_ context.Context, run *worker.Run) (any, error) { return run.Payload, nil }

func wait(ctx context.Context, run *worker.Run) (any, error) {
	var payload struct{ Seconds float64 }
	if err := run.Decode(&payload); err != nil {
		return nil, err
	}
	run.Progress(0.5, "half")
	note(ctx, run, "started")
	select {
	case <-ctx.Done():
		note(ctx, run, "stopped")
		return nil, context.Cause(ctx)
	case <-time.After(time.Duration(payload.Seconds * float64(time.Second))):
	}
	note(ctx, run, "finished")
	return map[string]int64{"epoch": run.Epoch}, nil
}

func fail(_ context.Context, run *worker.Run) (any, error) {
	var payload struct {
		How     string
		Message string
		Times   int
		Seconds float64
	}
	if err := run.Decode(&payload); err != nil {
		return nil, err
	}
	if run.Attempt > payload.Times {
		return map[string]int{"attempt": run.Attempt}, nil
	}
	reason, delay := errors.New(cmp.Or(payload.Message, "no such customer")), time.Duration(payload.Seconds*float64(time.Second))
	switch payload.How {
	case "discard":
		return nil, worker.Discard(reason)
	case "retry":
		return nil, worker.RetryAfter(delay, reason)
	case "snooze":
		return nil, worker.Snooze(delay)
	}
	return nil, reason
}

func logLines(_ context.Context, run *worker.Run) (any, error) {
	var payload struct {
		Lines int
		Text  string
		Fails bool
	}
	if err := run.Decode(&payload); err != nil {
		return nil, err
	}
	for line := range payload.Lines {
		run.Log(slog.LevelInfo, fmt.Sprintf("line %d", line+1))
	}
	run.Log(slog.LevelError, payload.Text)
	if payload.Fails {
		return nil, errors.New("no such customer")
	}
	return nil, nil
}

type silent struct{}

func (*silent) Error() string { panic("no text") }

type unreadable struct{}

func (unreadable) MarshalJSON() ([]byte, error) { panic("no JSON") }

// odd returns what a handler may return by mistake.
func odd(_ context.Context, run *worker.Run) (any, error) {
	var payload struct{ What string }
	if err := run.Decode(&payload); err != nil {
		return nil, err
	}
	switch payload.What {
	case "a number out of range":
		return json.RawMessage("1e400000"), nil
	case "a cycle":
		cycle := map[string]any{}
		cycle["self"] = cycle
		return cycle, nil
	case "progress NaN":
		run.Progress(math.NaN(), "")
	case "an error without a text":
		return nil, (*silent)(nil)
	case "a result without JSON":
		return unreadable{}, nil
	case "no reason":
		return nil, worker.Discard(nil)
	case "the end of the goroutine":
		runtime.Goexit()
	}
	return nil, nil
}

// pause waits for the seconds that the payload has under this key.
func pause(ctx context.Context, run *worker.Run, key string) {
	var payload map[string]any
	_ = run.Decode(&payload)
	seconds, _ := payload[key].(float64)
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	}
}

func steps(ctx context.Context, run *worker.Run) (any, error) {
	pause(ctx, run, "seconds")
	drawn, err := worker.Step(ctx, run, "draw", func(ctx context.Context) (float64, error) {
		note(ctx, run, "draw")
		return rand.Float64(), nil
	})
	if err != nil {
		return nil, err
	}
	note(ctx, run, fmt.Sprintf("drawn %v", drawn))
	if run.Attempt == 1 {
		return worker.Step(ctx, run, "fail", func(context.Context) (any, error) { return nil, errors.New("no such customer") })
	}
	return map[string]float64{"drawn": drawn}, nil
}

type effectPayload struct{ Key string }

func effect(ctx context.Context, run *worker.Run) (any, error) {
	pause(ctx, run, "seconds")
	var payload effectPayload
	_ = run.Decode(&payload)
	happen := run.Effect
	if payload.Key != "" {
		happen = run.EffectForever
	}
	done := false
	err := happen(ctx, cmp.Or(payload.Key, "mail"), func(ctx context.Context, effect worker.Effect) error {
		done = effect.Done
		state := "new"
		if effect.Done {
			state = "done"
		} else if effect.InDoubt {
			state = "in doubt"
		}
		note(ctx, run, state+" "+effect.ProviderKey)
		pause(ctx, run, "holds")
		if run.Attempt == 1 && !done {
			return errors.New("within the effect")
		}
		return nil
	})
	if err == nil && run.Attempt == 2 {
		err = errors.New("after the effect")
	}
	if err == nil {
		again := happen(ctx, cmp.Or(payload.Key, "mail"), func(context.Context, worker.Effect) error { return nil })
		if _, repeated := again.(worker.EffectRepeated); !repeated {
			err = fmt.Errorf("a second effect of this key: %v", again)
		} else if payload.Key != "" { // per run, the key is another one
			err = run.Effect(ctx, payload.Key, func(context.Context, worker.Effect) error { return nil })
		}
	}
	return map[string]bool{"done": done}, err
}

func once(ctx context.Context, run *worker.Run) (any, error) {
	var payload effectPayload
	_ = run.Decode(&payload)
	guard := run.Once
	if payload.Key != "" {
		guard = run.OnceForever
	}
	mine := false
	err := pgx.BeginFunc(ctx, notes, func(tx pgx.Tx) (err error) {
		if mine, err = guard(ctx, tx, cmp.Or(payload.Key, "payment")); err == nil && mine {
			_, err = tx.Exec(ctx, noteSQL, run.ID, run.Epoch, "paid")
		}
		return err
	})
	if inDoubt, refused := errors.AsType[worker.EffectInDoubt](err); refused {
		return map[string]string{"refused": inDoubt.Error()}, nil
	}
	if err == nil && run.Attempt == 1 {
		err = errors.New("after the commit")
	}
	return map[string]bool{"mine": mine}, err
}

var errRolledBack = errors.New("rolled back")

func schedule(ctx context.Context, run *worker.Run) (any, error) {
	var payload struct {
		Name     string
		Cron     string
		At       time.Time
		Rollback bool
	}
	if err := run.Decode(&payload); err != nil {
		return nil, err
	}
	var made wakeboard.Scheduled
	err := pgx.BeginFunc(ctx, notes, func(tx pgx.Tx) (err error) {
		options := wakeboard.ScheduleOptions{Cron: payload.Cron, At: payload.At}
		made, err = wakeboard.Schedule(ctx, tx, payload.Name, "conformance.echo", map[string]string{"name": payload.Name}, options)
		if err == nil && payload.Rollback {
			err = errRolledBack
		}
		return err
	})
	if errors.Is(err, wakeboard.ErrInvalidValue) {
		return map[string]string{"refused": err.Error()}, nil
	}
	if errors.Is(err, errRolledBack) {
		err = nil
	}
	return map[string]string{"answer": made.Answer}, err
}

func crash(ctx context.Context, run *worker.Run) (any, error) {
	note(ctx, run, "started")
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func main() {
	options, err := worker.OptionsFromEnvironment()
	if err != nil {
		log.Fatal(err)
	}
	if notes, err = pgxpool.New(context.Background(), os.Getenv("CONFORMANCE_DSN")); err != nil {
		log.Fatal(err)
	}
	err = worker.New(options, map[string]worker.Handler{
		"conformance.echo": echo,
		"conformance.odd":  odd, "conformance.wait": wait, "conformance.fail": fail, "conformance.log": logLines, "conformance.steps": steps,
		"conformance.effect": effect, "conformance.once": once, "conformance.schedule": schedule, "conformance.crash": crash,
	}).Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
}
