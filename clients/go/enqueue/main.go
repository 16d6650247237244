// The program with which a test enqueues: a run that is rolled back, one that is not, and one that waits for it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"wakeboard.dev/wakeboard"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("TEST_DSN"))
	if err != nil {
		log.Fatal(err)
	}
	enqueue := func(jobType string, options wakeboard.EnqueueOptions, end error) (run wakeboard.Enqueued) {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			run, err = wakeboard.Enqueue(ctx, tx, jobType, map[string]int{"order": 42}, options)
			return errors.Join(err, end)
		})
		if !errors.Is(err, end) {
			log.Fatal(err)
		}
		return run
	}
	enqueue("rolled_back", wakeboard.EnqueueOptions{}, errors.New("rolled back"))
	options := wakeboard.EnqueueOptions{Queue: "mail", Priority: 5, RunAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		IdempotencyKey: "a 'key'", LimitKey: "smtp", MaxAttempts: 2, Timeout: 30 * time.Second}
	first, again := enqueue("send_mail", options, nil), enqueue("send_mail", options, nil)
	later := enqueue("sum_up", wakeboard.EnqueueOptions{After: []int64{first.ID}}, nil)
	fmt.Println(first.ID, again.ID, again.Created, later.ID)
}
