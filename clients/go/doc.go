// Package wakeboard enqueues and executes wakeboard's runs: scheduled and background jobs on Postgres.
//
//	options, err := wakeboard.OptionsFromEnvironment()
//	worker := wakeboard.NewWorker(options, map[string]wakeboard.Handler{
//		"send_mail": func(ctx context.Context, run *wakeboard.Run) (any, error) { … },
//	})
//	err = worker.Run(ctx)
//
// A handler returns when its context is done: its run was cancelled or timed out, its lease is lost, or the worker stops.
package wakeboard
