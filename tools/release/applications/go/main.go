// An application of the Go module: without an argument it prints what it imports, with `work` it is a worker.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"wakeboard.dev/wakeboard"
	"wakeboard.dev/wakeboard/worker"
)

func order(ctx context.Context, tx pgx.Tx) (wakeboard.Enqueued, error) {
	return wakeboard.Enqueue(ctx, tx, "send_receipt", map[string]int{"order": 42}, wakeboard.EnqueueOptions{IdempotencyKey: "order-42"})
}

func work(ctx context.Context) error {
	options, err := worker.OptionsFromEnvironment()
	if err != nil {
		return err
	}
	return worker.New(options, map[string]worker.Handler{
		"send_receipt": func(ctx context.Context, run *worker.Run) (any, error) {
			return worker.Step(ctx, run, "Send", func(context.Context) (int, error) { return 1, nil })
		},
	}).Run(ctx)
}

func main() {
	if len(os.Args) > 1 {
		log.Fatal(work(context.Background()))
	}
	fmt.Printf("%T %T\n", order, work)
}
