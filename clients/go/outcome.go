package wakeboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxResult = 16_384 // bytes of JSON
	maxError  = 2_000  // bytes
)

// Why an attempt is stopped before its handler ends: the cause of its context. After ErrLeaseLost its outcome is dropped.
var (
	ErrCancelled = errors.New("the run was cancelled")
	ErrTimedOut  = errors.New("the run exceeded its timeout")
	ErrLeaseLost = errors.New("the lease is lost: another worker may have the run")
	ErrShutdown  = errors.New("the worker stops")
)

type requested struct {
	error
	outcome string
	delay   time.Duration
}

func (r requested) Unwrap() error { return r.error }

// Discard makes the run dead, without further attempts.
func Discard(reason error) error { return requested{reason, "discarded", 0} }

// RetryAfter fails the attempt. The next one is due after the delay.
func RetryAfter(delay time.Duration, reason error) error { return requested{reason, "failed", delay} }

// Snooze makes the run due again after the delay. The attempt does not count.
func Snooze(delay time.Duration) error {
	return requested{fmt.Errorf("snooze for %s", delay), "snoozed", delay}
}

type kind int

const (
	completed kind = iota
	failed
	released
)

// An outcome to report. word: failed, timed_out or discarded; of a release, its reason.
type outcome struct {
	kind            kind
	word            string
	result          []byte // JSON; nil: none
	errorType, text string
	delay           *float32 // seconds; nil: the run's backoff
}

func outcomeOf(result any, err, stopped error, timeoutS int) outcome {
	var asked requested
	isRequested := errors.As(err, &asked)
	delay := float32(asked.delay.Seconds())
	switch {
	case err == nil:
		return outcome{kind: completed, result: encode(result)}
	case isRequested && asked.outcome == "snoozed":
		return release("snoozed", delay)
	case isRequested && asked.delay > 0:
		return outcome{kind: failed, word: asked.outcome, errorType: typeName(asked.error), text: storable(err.Error()), delay: &delay}
	case isRequested:
		return outcome{kind: failed, word: asked.outcome, errorType: typeName(asked.error), text: storable(err.Error())}
	case errors.Is(stopped, ErrShutdown):
		return release("worker_stopped", 0)
	case errors.Is(stopped, ErrTimedOut):
		text := fmt.Sprintf("it ran longer than its timeout of %d s", timeoutS)
		return outcome{kind: failed, word: "timed_out", errorType: "Timeout", text: text}
	}
	return outcome{kind: failed, word: "failed", errorType: typeName(err), text: storable(err.Error())}
}

func release(reason string, delay float32) outcome {
	return outcome{kind: released, word: reason, delay: &delay}
}

// encode returns the result as JSON that Postgres can store. A long result becomes text.
func encode(result any) []byte {
	if result == nil {
		return nil
	}
	encoded, err := json.Marshal(result)
	if err != nil || len(encoded) > maxResult || strings.Contains(string(encoded), `\u0000`) {
		text := strings.ReplaceAll(storable(fmt.Sprint(result)), `\u0000`, "\uFFFD")
		encoded, _ = json.Marshal(text)
	}
	return encoded
}

var password = regexp.MustCompile(`://([^\s:/@]*):[^\s/@]+@`)

// storable masks passwords in URLs, replaces what Postgres cannot store, and cuts the text.
func storable(text string) string {
	text = password.ReplaceAllString(text, "://$1:…@")
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	for len(text) > maxError {
		text = text[:maxError-1]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	return text
}

func typeName(err error) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
}
