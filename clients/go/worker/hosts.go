package worker

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	askAfter = 2 * time.Second // without a reply
	askEach  = time.Second     // from then on, for so long
)

func hostsOf(config *pgx.ConnConfig) []*pgconn.FallbackConfig {
	first := &pgconn.FallbackConfig{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}
	return append([]*pgconn.FallbackConfig{first}, config.Fallbacks...)
}

func beginWith(config *pgx.ConnConfig, host *pgconn.FallbackConfig, others []*pgconn.FallbackConfig) {
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = host.Host, host.Port, host.TLSConfig, others
}

// followPrimary makes new connections begin with the host that was the primary last.
func (w *Worker) followPrimary(_ context.Context, config *pgx.ConnConfig) error {
	if primary := w.primary.Load(); primary != nil {
		others := slices.DeleteFunc(hostsOf(config), func(host *pgconn.FallbackConfig) bool {
			return host.Host == primary.Host && host.Port == primary.Port && (host.TLSConfig == nil) == (primary.TLSConfig == nil)
		})
		beginWith(config, primary, others)
	}
	return nil
}

func (w *Worker) noteReached(_ context.Context, conn *pgx.Conn) error {
	reached := conn.PgConn().Conn().RemoteAddr().String()
	w.reached.Store(&reached)
	return nil
}

// watchHosts gives a statement up, and all connections, once another host of the connection string is the primary. A
// former primary that is frozen or cut off answers nothing and closes nothing.
func (w *Worker) watchHosts(ctx context.Context, giveUp context.CancelFunc) {
	for ctx.Err() == nil {
		round, end := context.WithTimeout(ctx, askEach)
		primary := w.otherPrimary(round)
		if primary != nil {
			w.primary.Store(primary)
			giveUp()
			w.own.Reset()
			w.shared.Reset()
			end()
			return
		}
		<-round.Done()
		end()
	}
}

// otherPrimary asks all hosts at once. It returns nil if the one that was reached last is still the primary.
func (w *Worker) otherPrimary(ctx context.Context) *pgconn.FallbackConfig {
	hosts := hostsOf(w.own.Config().ConnConfig)
	found := make(chan *pgconn.FallbackConfig, len(hosts))
	reached := w.reached.Load()
	for _, host := range hosts {
		config := w.own.Config().ConnConfig
		beginWith(config, host, nil)
		go func() {
			conn, err := pgconn.ConnectConfig(ctx, &config.Config)
			if err != nil || reached == nil || conn.Conn().RemoteAddr().String() == *reached {
				host = nil
			}
			if err == nil {
				_ = conn.Close(ctx)
			}
			found <- host
		}()
	}
	for range hosts {
		if host := <-found; host != nil {
			return host
		}
	}
	return nil
}
