// The program with which a test enqueues and schedules in transactions, of pgx and of database/sql. With the arguments ID, UUID,
// SECRET and EXPIRES, seconds since 1970, it prints a run token. With the argument refusals, it prints what is refused.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"wakeboard.dev/wakeboard"
)

var (
	ctx           = context.Background()
	errRolledBack = errors.New("rolled back")
	noon          = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) > 2 {
		printToken(os.Args[1:])
		return
	}
	conn, err := pgx.Connect(ctx, os.Getenv("TEST_DSN"))
	check(err)
	if len(os.Args) > 1 {
		printRefusals(conn)
		return
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
	enqueue("rolled_back", wakeboard.EnqueueOptions{}, errRolledBack)
	options := wakeboard.EnqueueOptions{Queue: "mail", Priority: 5, RunAt: noon,
		IdempotencyKey: "a 'key'", LimitKey: "smtp", MaxAttempts: 2, Timeout: 30 * time.Second}
	first, again := enqueue("send_mail", options, nil), enqueue("send_mail", options, nil)
	later := enqueue("sum_up", wakeboard.EnqueueOptions{After: []wakeboard.Enqueued{first}}, nil)
	fmt.Println(first.ID, again.ID, again.Created, later.ID)

	db, err := sql.Open("pgx", os.Getenv("TEST_DSN"))
	check(err)
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := db.Begin()
		check(err)
		_, err = wakeboard.Schedule(ctx, wakeboard.SQL(tx), "customers/42-report", "send_report", nil, wakeboard.ScheduleOptions{Cron: "0 8 * * MON"})
		check(err)
		_, err = wakeboard.Enqueue(ctx, wakeboard.SQL(tx), "sum_up", map[string]int{"order": 42}, wakeboard.EnqueueOptions{After: []wakeboard.Enqueued{{ID: first.ID}}, UniqueFor: time.Minute, UniqueBy: []string{"order"}})
		check(err)
		check(end(tx))
		found, err := wakeboard.GetSchedule(ctx, conn, "customers/42-report")
		check(err)
		fmt.Println(found != nil)
	}
	_, err = wakeboard.Schedule(ctx, wakeboard.SQL(db), "customers/42-report", "send_report", nil, wakeboard.ScheduleOptions{Cron: "0 25 * * *"})
	fmt.Println(errors.Is(err, wakeboard.ErrInvalidValue), err)
	everyOption(conn)
}

func printToken(words []string) {
	id, err := strconv.ParseInt(words[0], 10, 64)
	check(err)
	expires, err := strconv.ParseInt(words[3], 10, 64)
	check(err)
	token, err := wakeboard.RunToken(wakeboard.Enqueued{ID: id, UUID: words[1]}, words[2], time.Unix(expires, 0))
	check(err)
	fmt.Println(token)
}

// everyOption writes schedules with each option, and reads them as it wrote them. The test compares the names of the options.
func everyOption(conn *pgx.Conn) {
	definitions := []wakeboard.ScheduleDefinition{
		{Name: "options/cron", JobType: "send_report", Payload: map[string]any{"customer": 42.0}, ScheduleOptions: wakeboard.ScheduleOptions{
			Cron: "0 8 * * MON", TimeZone: "Asia/Tokyo", StartsAt: noon, EndsAt: noon.Add(time.Hour), Queue: "mail", Priority: 5, LimitKey: "smtp",
			ConcurrencyPolicy: "Forbid", CatchUp: "All", CatchUpLimit: 7, StartingDeadline: time.Minute, Jitter: 5 * time.Second, DSTGap: "Skip",
			DSTOverlap: "Both", Suspended: true, SuspendAfterDead: 3, MaxAttempts: 2, Timeout: 30 * time.Second, Backoff: "fixed",
			BackoffBase: time.Second, BackoffCap: 2 * time.Second, ExpectSuccessWithin: time.Hour, AlertAfterMissed: 2}},
		{Name: "options/every", JobType: "sync", ScheduleOptions: wakeboard.ScheduleOptions{Every: 90 * time.Minute}},
		{Name: "options/moment", JobType: "trial_ends", ScheduleOptions: wakeboard.ScheduleOptions{At: noon}},
	}
	made, err := wakeboard.ScheduleMany(ctx, conn, definitions)
	check(err)
	page, err := wakeboard.ListSchedules(ctx, conn, "options/*", "", 2)
	check(err)
	rest, err := wakeboard.ListSchedules(ctx, conn, "options/*", page[1].Name, 2)
	check(err)
	same := len(made) == 3
	for at, found := range append(page, rest...) {
		same = same && reflect.DeepEqual(found.Definition, definitions[at]) && found.ID == made[at].ID && found.NextRunAt.IsZero()
	}
	paused, err := wakeboard.PauseSchedules(ctx, conn, "options/*", "the bill is not paid")
	check(err)
	resumed, err := wakeboard.ResumeSchedules(ctx, conn, "options/cron", "the bill is paid")
	check(err)
	removed, err := wakeboard.UnscheduleAll(ctx, conn, "customers/*")
	check(err)
	again, err := wakeboard.Unschedule(ctx, conn, "customers/42-report")
	check(err)
	fmt.Println(same, paused, resumed, removed, again)
}

// printRefusals prints, in each line, the name of an option or a function, and the sentence of the error, which is ErrInvalidValue.
func printRefusals(conn *pgx.Conn) {
	refused := func(name string, err error) {
		if !errors.Is(err, wakeboard.ErrInvalidValue) {
			log.Fatal(name, " is not refused: ", err)
		}
		fmt.Println(name, strings.TrimPrefix(err.Error(), wakeboard.ErrInvalidValue.Error()+": "))
	}
	schedule := func(options wakeboard.ScheduleOptions) error {
		_, err := wakeboard.Schedule(ctx, conn, "customers/43", "send_report", nil, options)
		return err
	}
	enqueue := func(options wakeboard.EnqueueOptions) error {
		_, err := wakeboard.Enqueue(ctx, conn, "send_mail", nil, options)
		return err
	}
	for _, duration := range []time.Duration{60, 1500 * time.Millisecond, -time.Millisecond} {
		for _, name := range durations(wakeboard.ScheduleOptions{}) {
			var options wakeboard.ScheduleOptions
			reflect.ValueOf(&options).Elem().FieldByName(name).SetInt(int64(duration))
			refused(name, schedule(options))
		}
		for _, name := range durations(wakeboard.EnqueueOptions{}) {
			var options wakeboard.EnqueueOptions
			reflect.ValueOf(&options).Elem().FieldByName(name).SetInt(int64(duration))
			refused(name, enqueue(options))
		}
	}
	for name, options := range map[string]wakeboard.ScheduleOptions{
		"TimeZone": {TimeZone: "Etc/time_zone"}, "Every": {Every: 367 * 24 * time.Hour}, "At": {At: noon.AddDate(200, 0, 0)},
		"StartsAt": {StartsAt: noon}, "EndsAt": {StartsAt: noon, EndsAt: noon.Add(-time.Hour)}, "Queue": {Queue: "no queue"}, "Priority": {Priority: 6},
		"LimitKey": {LimitKey: "limit_key:"}, "ConcurrencyPolicy": {ConcurrencyPolicy: "catch_up"}, "CatchUp": {CatchUp: "catch_up"},
		"CatchUpLimit": {CatchUpLimit: -1}, "StartingDeadline": {StartingDeadline: -time.Second}, "Jitter": {Jitter: -time.Second},
		"DSTGap": {DSTGap: "dst_gap"}, "DSTOverlap": {DSTOverlap: "dst_gap"}, "SuspendAfterDead": {SuspendAfterDead: 3},
		"MaxAttempts": {MaxAttempts: -1}, "Timeout": {Timeout: -time.Second}, "Backoff": {Backoff: "backoff is"},
		"BackoffBase": {BackoffBase: -time.Second}, "BackoffCap": {BackoffBase: 9 * time.Second, BackoffCap: time.Second},
		"ExpectSuccessWithin": {ExpectSuccessWithin: time.Minute}, "AlertAfterMissed": {Every: time.Minute, AlertAfterMissed: 2},
		"Cron,": {Cron: "@daily", Every: time.Hour},
	} {
		refused(name, schedule(options))
	}
	refused("UniqueFor", enqueue(wakeboard.EnqueueOptions{UniqueFor: -time.Second}))
	_, err := wakeboard.Unschedule(ctx, conn, "customers/*")
	refused("name", err)
	_, err = wakeboard.Enqueue(ctx, conn, "send_mail", make(chan int), wakeboard.EnqueueOptions{})
	refused("the payload of send_mail is not JSON:", err)
	_, err = wakeboard.Schedule(ctx, conn, "customers/43", "send_report", make(chan int), wakeboard.ScheduleOptions{})
	refused("the schedule customers/43 is not JSON:", err)
	_, err = wakeboard.ScheduleMany(ctx, conn, []wakeboard.ScheduleDefinition{{Name: "customers/42", JobType: "sync"},
		{Name: "customers/43", JobType: "sync", ScheduleOptions: wakeboard.ScheduleOptions{Timeout: 60}}})
	refused("schedules[1] (customers/43):", err)
	_, err = wakeboard.ScheduleMany(ctx, conn, []wakeboard.ScheduleDefinition{{Name: "customers/42", JobType: "sync"},
		{Name: "customers/job_type", JobType: "sync"}})
	refused("schedules[1] (customers/job_type):", err)
}

// durations returns the names of the fields of options that are durations.
func durations(options any) (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeOf(options)) {
		if field.Type == reflect.TypeFor[time.Duration]() {
			names = append(names, field.Name)
		}
	}
	return names
}
