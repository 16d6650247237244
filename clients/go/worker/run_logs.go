package worker

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// runLogs keeps what handlers log, and stores it in batches. A database that is slow or away costs lines, whose numbers are
// missing then, and neither time nor memory. Of an attempt, the first quarter of the bound and the last three quarters
// are kept.
type runLogs struct {
	only    string // all, failed or off
	level   int    // lines below are not kept
	most    int    // bytes of an attempt
	send    func([]logBatch) error
	wake    chan struct{}
	unsent  []logBatch // of the goroutine alone
	waiting int        // bytes of unsent

	mutex    sync.Mutex // guards what follows, and attemptLog
	gathered []*attemptLog
	size     int // bytes of all lines that are not stored yet
}

// attemptLog has the lines of one attempt that are not stored yet.
type attemptLog struct {
	run         *Run
	count       int64 // lines so far: the number of the last one
	room        int   // what the first quarter still has room for
	first, last []logLine
	lastSize    int
	isGathered  bool
	settled     bool // the attempt has an outcome, or its lease is lost
	failed      bool

	// Of the goroutine alone.
	sequence int32
	hider    *strings.Replacer // of the secrets of the payload
	tail     []storedBatch     // behind the first quarter
	tailSize int
}

type logLine struct {
	number       int64
	at           time.Time
	level        int
	source, text string
}

type storedBatch struct {
	sequence int32
	size     int
}

// logBatch has the arguments of store_logs.
type logBatch struct {
	uuid                   string
	epoch                  int64
	attempt                int
	sequence               int32
	first, last            int64
	level                  int
	at                     time.Time
	lines                  []byte
	droppedFrom, droppedTo int32
}

const (
	gatherFor      = 400 * time.Millisecond // between the first line and the flush: a line is stored within a second
	retryLogs      = 2 * time.Second
	lastFlush      = 2 * time.Second
	outcomeSource  = "outcome" // of the line that says how an attempt failed
	maxLogLine     = 8_000     // bytes of a line that are kept
	lineCost       = 200       // bytes of memory that a line takes besides its text
	maxGathered    = 4 << 20
	maxUnsent      = 2 << 20 // bytes of batches that could not be stored
	batchLines     = 1_000
	batchBytes     = 128 << 10
	compressedFrom = 300
	maxSent        = 500 // batches of one statement
	storeLogs      = `select wakeboard.store_logs(@uuids::text[]::uuid[], @epochs::bigint[], @attempts::integer[], @sequences::integer[], @firsts::bigint[],
			@lasts::bigint[], @levels::smallint[], @ats::timestamptz[], @lines::bytea[], @droppedFrom::integer[], @droppedTo::integer[])`
)

var logLevels = map[string]int{"": 10, "debug": 10, "info": 20, "warning": 30, "error": 40}

// Log keeps a line in the log of this run, which the board and `wakeboard logs` show. It does not wait.
func (r *Run) Log(level slog.Level, text string) {
	r.worker.logs.add(r, min(100, max(0, 20+int(level)*10/4)), "wakeboard.run", text)
}

func (w *Worker) newRunLogs(options Options) *runLogs {
	return &runLogs{
		only: cmp.Or(options.RunLogs, "all"), level: logLevels[options.RunLogLevel], most: cmp.Or(options.RunLogMaxBytes, 1<<20),
		wake: make(chan struct{}, 1), send: w.storeLogs,
	}
}

func (l *runLogs) add(run *Run, level int, source, text string) {
	if l.only == "off" || level < l.level && source != outcomeSource {
		return
	}
	if longest := maxLogLine + margin; len(text) > longest {
		text = strings.Clone(text[:longest+1]) // keeps nothing else in memory
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if run.log == nil {
		run.log = &attemptLog{run: run, room: l.most / 4}
	}
	log, line, cost := run.log, logLine{at: time.Now(), level: level, source: source, text: text}, len(text)+lineCost
	log.count++
	line.number = log.count
	if l.size+cost > maxGathered && len(log.last) == 0 {
		return
	}
	l.size += cost
	if log.room > 0 {
		log.room -= len(text) + 1
		log.first = append(log.first, line)
	} else {
		log.last = append(log.last, line)
		log.lastSize += len(text) + 1
		for len(log.last) > 0 && (log.lastSize > l.most*3/4 || l.size > maxGathered) {
			dropped := len(log.last[0].text)
			log.last[0] = logLine{}
			log.last = log.last[1:]
			log.lastSize -= dropped + 1
			l.size -= dropped + lineCost
		}
	}
	if !log.isGathered {
		log.isGathered = true
		l.gathered = append(l.gathered, log)
		notify(l.wake)
	}
}

// settle keeps how an attempt failed. Of a lost lease, kind is lost.
func (l *runLogs) settle(run *Run, kind, text string) {
	switch kind {
	case "failed":
		l.add(run, logLevels["error"], outcomeSource, text)
	case "cancelled":
		l.add(run, logLevels["info"], outcomeSource, kind)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if run.log != nil {
		run.log.settled, run.log.failed = true, kind == "failed" || kind == "cancelled" || kind == "lost"
	}
}

func (l *runLogs) flushUntilEnded(ctx context.Context) {
	for ended := false; !ended; {
		if len(l.unsent) == 0 {
			sleep(ctx, time.Hour, l.wake)
		}
		sleep(ctx, gatherFor, nil)
		ended = ctx.Err() != nil
		if err := l.flush(ended); err != nil {
			logf("the logs of runs are not stored: %v", err)
			sleep(ctx, retryLogs, nil)
		}
	}
}

// flush stores what has gathered. Of an attempt that runs, it does not if only those are kept that fail, unless the worker ends.
func (l *runLogs) flush(ends bool) error {
	l.mutex.Lock()
	gathered := l.gathered
	l.gathered = nil
	l.mutex.Unlock()
	for _, log := range gathered {
		l.mutex.Lock()
		keep := l.only == "all" || log.failed
		if waits := l.waiting > maxUnsent || !keep && !log.settled; waits && !ends {
			l.gathered = append(l.gathered, log)
			l.mutex.Unlock()
			notify(l.wake)
			continue
		}
		first, last := log.first, log.last
		log.first, log.last, log.lastSize, log.isGathered = nil, nil, 0, false
		for _, lines := range [][]logLine{first, last} {
			for _, line := range lines {
				l.size -= len(line.text) + lineCost
			}
		}
		l.mutex.Unlock()
		if keep {
			l.packAll(log, first, false)
			l.packAll(log, last, true)
		}
	}
	for len(l.unsent) > 0 {
		sent := l.unsent[:min(maxSent, len(l.unsent))]
		err := l.send(sent)
		if err != nil && unavailable(err) {
			return err
		}
		for _, batch := range sent { // after another error too, such as a right that was revoked: to send them again would not help
			l.waiting -= len(batch.lines) + lineCost
		}
		l.unsent = l.unsent[len(sent):]
		if err != nil {
			return err
		}
	}
	return nil
}

// packAll packs lines in parts that fit into batches.
func (l *runLogs) packAll(log *attemptLog, lines []logLine, isTail bool) {
	for len(lines) > 0 {
		count, size := 0, 0
		for ; count < min(len(lines), batchLines) && size < batchBytes; count++ {
			size += len(lines[count].text) + 1
		}
		l.pack(log, lines[:count], size, isTail)
		lines = lines[count:]
	}
}

func (l *runLogs) pack(log *attemptLog, lines []logLine, size int, isTail bool) {
	first, level := lines[0], 0
	if log.hider == nil {
		log.hider = hiderOf(log.run.Payload)
	}
	rows := make([][5]any, len(lines))
	for at, line := range lines {
		rows[at] = [5]any{line.number, line.at.Sub(first.at).Milliseconds(), line.level, line.source, storable(log.hider.Replace(line.text), maxLogLine)}
		level = max(level, line.level)
	}
	packed, _ := json.Marshal(rows)
	if len(packed) >= compressedFrom {
		var compressed bytes.Buffer
		writer, _ := zlib.NewWriterLevel(&compressed, zlib.BestSpeed)
		_, _ = writer.Write(packed)
		_ = writer.Close()
		packed = compressed.Bytes()
	}
	log.sequence++
	batch := logBatch{
		uuid: log.run.UUID, epoch: log.run.Epoch, attempt: log.run.Attempt, sequence: log.sequence,
		first: first.number, last: lines[len(lines)-1].number, level: level, at: first.at, lines: packed,
	}
	if isTail {
		log.tail = append(log.tail, storedBatch{log.sequence, size})
		log.tailSize += size
		for ; log.tailSize > l.most*3/4 && len(log.tail) > 1; log.tail = log.tail[1:] {
			batch.droppedTo = log.tail[0].sequence
			batch.droppedFrom = cmp.Or(batch.droppedFrom, batch.droppedTo)
			log.tailSize -= log.tail[0].size
		}
	}
	l.unsent = append(l.unsent, batch)
	l.waiting += len(packed) + lineCost
}

func (w *Worker) storeLogs(batches []logBatch) error {
	values := pgx.NamedArgs{
		"uuids": column(batches, func(b logBatch) string { return b.uuid }), "epochs": column(batches, func(b logBatch) int64 { return b.epoch }),
		"attempts": column(batches, func(b logBatch) int { return b.attempt }), "sequences": column(batches, func(b logBatch) int32 { return b.sequence }),
		"firsts": column(batches, func(b logBatch) int64 { return b.first }), "lasts": column(batches, func(b logBatch) int64 { return b.last }),
		"levels": column(batches, func(b logBatch) int { return b.level }), "ats": column(batches, func(b logBatch) time.Time { return b.at }),
		"lines":       column(batches, func(b logBatch) []byte { return b.lines }),
		"droppedFrom": column(batches, func(b logBatch) int32 { return b.droppedFrom }), "droppedTo": column(batches, func(b logBatch) int32 { return b.droppedTo }),
	}
	_, err := query(w, lastFlush, pgx.RowTo[int], storeLogs, values)
	if refused := fault(err); refused.Code == "23514" && refused.ConstraintName == "" { // this day has no partition yet
		if _, err = query(w, lastFlush, pgx.RowTo[any], "select wakeboard.create_partitions()", nil); err == nil {
			_, err = query(w, lastFlush, pgx.RowTo[int], storeLogs, values)
		}
	}
	return err
}

func (o outcome) inWords() string {
	return fmt.Sprintf("%s: %s: %s", strings.ReplaceAll(o.Word, "_", " "), o.Type, o.Text)
}
