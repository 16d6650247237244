package wakeboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ScheduleOptions say when a schedule is due, and what its runs are like: the fields of a JobSchedule. A zero value means the
// default. One of Cron, Every and At says when it is due; without them it runs only on demand. Durations are whole seconds.
type ScheduleOptions struct {
	Cron                string        `json:"cron,omitempty"`
	TimeZone            string        `json:"time_zone,omitempty"`
	Every               time.Duration `json:"-"`                  // 1 second to 366 days, counted from StartsAt, or from 1970
	At                  time.Time     `json:"at,omitzero"`        // once; then the schedule removes itself
	StartsAt            time.Time     `json:"starts_at,omitzero"` // no ticks before
	EndsAt              time.Time     `json:"ends_at,omitzero"`   // no ticks after; then the schedule removes itself
	Queue               string        `json:"queue,omitempty"`
	Priority            int           `json:"priority,omitempty"` // 5 is claimed first, 1 last
	LimitKey            string        `json:"limit_key,omitempty"`
	ConcurrencyPolicy   string        `json:"concurrency_policy,omitempty"` // Allow, Forbid, Replace or Queue
	CatchUp             string        `json:"catch_up,omitempty"`           // Skip, Latest or All
	CatchUpLimit        int           `json:"catch_up_limit,omitempty"`
	StartingDeadline    time.Duration `json:"-"`
	Jitter              time.Duration `json:"-"`
	DSTGap              string        `json:"dst_gap,omitempty"`     // Skip or RunAfter
	DSTOverlap          string        `json:"dst_overlap,omitempty"` // First or Both
	Suspended           bool          `json:"suspended,omitempty"`   // it has no ticks
	SuspendAfterDead    int           `json:"suspend_after_dead,omitempty"`
	MaxAttempts         int           `json:"max_attempts,omitempty"`
	Timeout             time.Duration `json:"-"`
	Backoff             string        `json:"backoff,omitempty"` // exponential or fixed
	BackoffBase         time.Duration `json:"-"`
	BackoffCap          time.Duration `json:"-"`
	ExpectSuccessWithin time.Duration `json:"-"`                            // without a success for so long after a tick, an alert
	AlertAfterMissed    int           `json:"alert_after_missed,omitempty"` // ticks in a row
}

// ScheduleDefinition is a schedule of ScheduleMany. Name is namespace/name, or a name in the namespace default.
type ScheduleDefinition struct {
	Name    string `json:"name"`
	JobType string `json:"job_type"`
	Payload any    `json:"payload,omitempty"`
	ScheduleOptions
}

// Scheduled names a schedule. Answer is created, updated, unchanged or ended.
type Scheduled struct {
	ID     int64
	Answer string
}

// StoredSchedule is a schedule of applications. NextRunAt is zero if there is no next tick, and until the scheduler has seen
// the schedule. Error says why its ticks cannot be computed.
type StoredSchedule struct {
	ID         int64
	Name       string
	Definition ScheduleDefinition // what differs from the defaults
	Generation int64
	Paused     bool
	NextRunAt  time.Time `json:"next_run_at"`
	LastTickAt time.Time `json:"last_tick_at"`
	Error      string
}

// Schedule creates the schedule, or edits the one of this name, in the transaction of tx. The same call again changes nothing.
// Its first tick is after the call, but an At that has passed is due at once. The error is ErrInvalidValue for a value that
// `kubectl apply` refuses, with the same sentence, and for a name that a cluster or a folder declares; it is ErrLocked if
// another transaction keeps the schedule, or a run that the edit changes, locked for two seconds.
func Schedule(ctx context.Context, tx Querier, name, jobType string, payload any, options ScheduleOptions) (Scheduled, error) {
	made, err := ScheduleMany(ctx, tx, []ScheduleDefinition{{Name: name, JobType: jobType, Payload: payload, ScheduleOptions: options}})
	if err != nil {
		return Scheduled{}, err
	}
	return made[0], nil
}

// ScheduleMany creates or edits many schedules in one statement, all or none. Of two entries of one name, the last one counts.
func ScheduleMany(ctx context.Context, tx Querier, definitions []ScheduleDefinition) ([]Scheduled, error) {
	rows := make([]string, len(definitions))
	for at, definition := range definitions {
		row, err := definition.MarshalJSON()
		if err != nil && len(definitions) > 1 {
			err = fmt.Errorf("schedules[%d] (%s): %w", at, definition.Name, err)
		}
		if err != nil {
			return nil, err
		}
		rows[at] = string(row)
	}
	const query = "select coalesce(json_agg(made), '[]')::text from wakeboard.schedule_many($1::text::jsonb) as made"
	return read[[]Scheduled](ctx, tx, query, "["+strings.Join(rows, ",")+"]")
}

// Unschedule removes a schedule. False: there is none. Its queued and failed runs are cancelled, running ones finish.
func Unschedule(ctx context.Context, tx Querier, name string) (bool, error) {
	return one[bool](ctx, tx, "select wakeboard.unschedule($1::text)", name)
}

// UnscheduleAll removes the schedules that match the pattern, such as customers/42-*, and returns how many.
func UnscheduleAll(ctx context.Context, tx Querier, pattern string) (int, error) {
	return one[int](ctx, tx, "select wakeboard.unschedule_all($1::text)", pattern)
}

// PauseSchedules lets the schedules that match create no runs until ResumeSchedules. It returns how many it paused.
func PauseSchedules(ctx context.Context, tx Querier, pattern, reason string) (int, error) {
	return one[int](ctx, tx, "select wakeboard.pause_schedules($1::text, $2::text)", pattern, reason)
}

// ResumeSchedules ends the pauses of the schedules that match; CatchUp decides about the missed ticks. It returns how many it resumed.
func ResumeSchedules(ctx context.Context, tx Querier, pattern, reason string) (int, error) {
	return one[int](ctx, tx, "select wakeboard.resume_schedules($1::text, $2::text)", pattern, reason)
}

// ListSchedules returns schedules of applications that match the pattern (*/*: all), in the order of names: at most count after
// the name after, which is the last one of the page before.
func ListSchedules(ctx context.Context, tx Querier, pattern, after string, count int) ([]StoredSchedule, error) {
	const query = "select coalesce(json_agg(page), '[]')::text from wakeboard.list_schedules($1::text, $2::text, $3::integer) as page"
	return read[[]StoredSchedule](ctx, tx, query, pattern, after, count)
}

// GetSchedule returns the schedule of this name; nil: there is none.
func GetSchedule(ctx context.Context, tx Querier, name string) (*StoredSchedule, error) {
	if strings.Contains(name, "*") {
		return nil, fmt.Errorf("%w: name is %q; write the name of one schedule, or call ListSchedules", ErrInvalidValue, name)
	}
	found, err := ListSchedules(ctx, tx, name, "", 1)
	if len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// read decodes the JSON of a statement: a Querier reads one row.
func read[Answer any](ctx context.Context, tx Querier, query string, args ...any) (answer Answer, err error) {
	text, err := one[string](ctx, tx, query, args...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	return answer, err
}

// MarshalJSON writes the arguments of the SQL function. The error is ErrInvalidValue.
func (d ScheduleDefinition) MarshalJSON() ([]byte, error) {
	if err := checkDurations(d.ScheduleOptions); err != nil {
		return nil, err
	}
	text, err := json.Marshal(d.arguments())
	if err != nil {
		return nil, fmt.Errorf("%w: the schedule %s is not JSON: %w", ErrInvalidValue, d.Name, err)
	}
	return text, nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *ScheduleDefinition) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, d.arguments())
}

func (d *ScheduleDefinition) arguments() any {
	type plain ScheduleDefinition // without these methods
	return &struct {
		*plain
		Every               *interval `json:"every,omitzero"`
		StartingDeadline    *seconds  `json:"starting_deadline_s,omitzero"`
		Jitter              *seconds  `json:"jitter_s,omitzero"`
		Timeout             *seconds  `json:"timeout_s,omitzero"`
		BackoffBase         *seconds  `json:"backoff_base_s,omitzero"`
		BackoffCap          *seconds  `json:"backoff_cap_s,omitzero"`
		ExpectSuccessWithin *seconds  `json:"expect_success_within_s,omitzero"`
	}{
		(*plain)(d), (*interval)(&d.Every), (*seconds)(&d.StartingDeadline), (*seconds)(&d.Jitter), (*seconds)(&d.Timeout),
		(*seconds)(&d.BackoffBase), (*seconds)(&d.BackoffCap), (*seconds)(&d.ExpectSuccessWithin),
	}
}

// seconds are a number in JSON.
type seconds time.Duration

func (s seconds) IsZero() bool { return s == 0 }

func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, int64(time.Duration(s)/time.Second), 10), nil
}

func (s *seconds) UnmarshalJSON(text []byte) error {
	whole, err := strconv.ParseInt(string(text), 10, 64)
	*s = seconds(time.Duration(whole) * time.Second)
	return err
}

// interval is an argument of the type interval; the server prints it as a number with s, m, h or d.
type interval time.Duration

func (i interval) IsZero() bool { return i == 0 }

func (i interval) MarshalText() ([]byte, error) {
	return append(strconv.AppendInt(nil, int64(time.Duration(i)/time.Second), 10), " s"...), nil
}

func (i *interval) UnmarshalText(text []byte) error {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	last := len(text) - 1
	number, err := strconv.Atoi(string(text[:last]))
	*i = interval(time.Duration(number) * units[text[last]])
	return err
}
