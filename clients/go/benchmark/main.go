// The worker that `make bench-competitors` measures: its handler does nothing.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"wakeboard.dev/wakeboard/worker"
)

func main() {
	debug.SetGCPercent(400) // as README.md recommends for many short runs
	var first sync.Once
	report := func() { // when the first job began, for the measurement
		name := fmt.Sprintf("%s.%d", os.Getenv("BENCH_FIRST"), os.Getpid())
		_ = os.WriteFile(name, fmt.Appendf(nil, "%f", float64(time.Now().UnixMicro())/1e6), 0o600)
	}
	options, err := worker.OptionsFromEnvironment()
	if err != nil {
		log.Fatal(err)
	}
	err = worker.New(options, map[string]worker.Handler{
		"noop": func(context.Context, *worker.Run) (any, error) {
			first.Do(report)
			return nil, nil
		},
	}).Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
}
