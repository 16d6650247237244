/**
 * Keeps what handlers log, and stores it in batches, over a connection of its own. A database that is slow or away costs lines,
 * whose numbers are missing then, and neither time nor memory. Of an attempt, the first quarter of the bound and the last
 * three quarters are kept.
 */

import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { deflate } from "node:zlib";

import { type Connection, DatabaseUnavailable } from "./connection.js";
import { readable } from "./outcome.js";
import { hide, type Secret } from "./redact.js";
import type { ClaimedRow } from "./run.js";

export const LEVELS = { debug: 10, info: 20, warning: 30, error: 40 };
export type Level = keyof typeof LEVELS;

export interface LogOptions {
  /** Which logs of runs are kept in the database: all, those of attempts that fail, or none. */
  runLogs: "all" | "failed" | "off";
  /** Lines of lower levels are not kept. */
  runLogLevel: Level;
  /** Characters of the log of an attempt that are kept. */
  runLogMaxBytes: number;
}

const OUTCOME = "outcome"; // the source of the line that says how an attempt failed
const GATHER_MS = 400; // between the first line and the flush: a line is stored within a second
const RETRY_MS = 2000;
const STOP_MS = 2000; // how long the end of the worker waits for the last flush
const [MAX_LINE, MARGIN] = [8_000, 4_096]; // characters of a line that are kept, and that are searched for credentials behind them
const LINE_COST = 200; // bytes of memory that a line takes besides its text
const [MAX_GATHERED, MAX_UNSENT] = [4_194_304, 2_097_152]; // bytes of all lines, and of batches, that are not stored yet
const [BATCH_LINES, BATCH_SIZE, COMPRESSED_FROM] = [1_000, 131_072, 300];
const MASKED_AT_ONCE = 100; // lines, between turns of the event loop
const STORE = "select wakeboard.store_logs($1::uuid[], $2, $3, $4, $5, $6, $7, $8, $9::bytea[], $10, $11)";
const compress = promisify(deflate);

interface Line {
  number: number;
  at: number;
  level: number;
  source: string;
  text: string;
}

/** Its columns in their order: see the function store_logs. */
type Batch = [uuid: string, epoch: string, attempt: number, sequence: number, first: number, last: number, level: number, at: string,
  lines: Buffer, droppedFrom: number, droppedTo: number];

/** The lines of one attempt that are not stored yet, and which batches of it are stored. */
export class AttemptLog {
  count = 0; // lines so far: the number of the last one
  first: Line[] = [];
  last: Line[] = [];
  lastSize = 0;
  sequence = 0;
  tail: [sequence: number, size: number][] = []; // stored batches behind the first quarter
  tailSize = 0;
  failed: boolean | null = null; // null: it runs

  /** `room`: what the first quarter still has room for. */
  constructor(readonly row: ClaimedRow, readonly secrets: Secret[], public room: number) {}
}

export class RunLogs {
  private readonly gathered = new Set<AttemptLog>(); // those that have lines
  private size = 0; // of all lines that are not stored yet
  private unsent: Batch[] = [];
  private unsentSize = 0;
  private readonly stopped = new AbortController();
  private wake: () => void = () => {};
  private readonly ended: Promise<void>;

  constructor(private readonly db: Connection, private readonly options: LogOptions, private readonly report: (message: string) => void) {
    this.ended = options.runLogs === "off" ? Promise.resolve() : this.flushUntilStopped();
  }

  of = (row: ClaimedRow, secrets: Secret[]) => new AttemptLog(row, secrets, this.options.runLogMaxBytes / 4);

  /** Keep a line. It does not wait, and throws nothing. */
  add(log: AttemptLog, level: Level, text: unknown, source = "wakeboard.run"): void {
    if (this.options.runLogs === "off" || (LEVELS[level] ?? 0) < LEVELS[this.options.runLogLevel] && source !== OUTCOME) return;
    log.count += 1;
    const line = { number: log.count, at: Date.now(), level: LEVELS[level] ?? 0, source, text: start(text) };
    const cost = line.text.length + LINE_COST;
    if (this.size + cost > MAX_GATHERED && !log.last.length) return;
    this.size += cost;
    if (log.room > 0) {
      log.room -= line.text.length + 1;
      log.first.push(line);
    } else {
      log.last.push(line);
      log.lastSize += line.text.length + 1;
      while (log.last.length && (log.lastSize > this.lastQuarters || this.size > MAX_GATHERED)) {
        // Many at once: to shift an array of 20,000 lines takes longer than to keep a line.
        for (const { text } of log.last.splice(0, Math.ceil(log.last.length / 64))) {
          log.lastSize -= text.length + 1;
          this.size -= text.length + LINE_COST;
        }
      }
    }
    this.gathered.add(log);
    this.wake();
  }

  /** Keep how the attempt has failed. */
  addOutcome(log: AttemptLog, outcome: { outcome: string; type: string; error: string; stack: string }, cancelled: boolean): void {
    const words = cancelled ? "cancelled" : `${outcome.outcome.replace("_", " ")}: ${outcome.type}: ${outcome.error}`;
    this.add(log, cancelled ? "info" : "error", `${words}\n${outcome.stack}`.trimEnd(), OUTCOME);
  }

  /** Store what is left, for two seconds at most. */
  async stop(): Promise<void> {
    this.stopped.abort();
    this.wake();
    await Promise.race([this.ended, sleep(STOP_MS, undefined, { ref: false })]);
    await this.db.close();
  }

  private get lastQuarters(): number { return (this.options.runLogMaxBytes * 3) / 4; }

  private async flushUntilStopped(): Promise<void> {
    const pause = (ms: number) => sleep(ms, undefined, { signal: this.stopped.signal }).catch(() => undefined);
    for (let ends = false; !ends; ) {
      const woken = new Promise<void>((resolve) => (this.wake = resolve));
      if (!this.gathered.size && !this.unsent.length) await woken;
      await pause(GATHER_MS);
      ends = this.stopped.signal.aborted;
      await this.flush(ends).catch((error) => {
        if (!(error instanceof DatabaseUnavailable)) this.report(`the logs of runs are not stored: ${readable(error)}`);
        return pause(RETRY_MS);
      });
    }
  }

  private async flush(ends: boolean): Promise<void> {
    for (const log of [...this.gathered]) {
      if (this.unsentSize > MAX_UNSENT) break;
      const onlyFailed = this.options.runLogs === "failed";
      if (onlyFailed && log.failed === null && !ends) continue;
      const { first, last } = log;
      for (const { text } of [...first, ...last]) this.size -= text.length + LINE_COST;
      [log.first, log.last, log.lastSize] = [[], [], 0];
      this.gathered.delete(log);
      if (!onlyFailed || log.failed) {
        for (const part of parts(first)) await this.pack(log, part, false);
        for (const part of parts(last)) await this.pack(log, part, true);
      }
      if (this.unsent.length >= BATCH_LINES / 2) await this.send();
    }
    await this.send();
  }

  private async pack(log: AttemptLog, lines: Line[], isTail: boolean): Promise<void> {
    const [first, last] = [lines[0]!, lines.at(-1)!];
    const rows: unknown[] = [];
    let [size, droppedFrom, droppedTo] = [0, 0, 0];
    for (const { number, at, level, source, text } of lines) {
      rows.push([number, at - first.at, level, source, readable(hide(text, log.secrets), MAX_LINE)]);
      size += text.length + 1;
      if (rows.length % MASKED_AT_ONCE === 0) await nextTurn();
    }
    const json = Buffer.from(JSON.stringify(rows));
    const data = json.length < COMPRESSED_FROM ? json : await compress(json, { level: 1 });
    log.sequence += 1;
    if (isTail) {
      log.tail.push([log.sequence, size]);
      log.tailSize += size;
      while (log.tailSize > this.lastQuarters && log.tail.length > 1) {
        const [dropped, freed] = log.tail.shift()!;
        [droppedFrom, droppedTo] = [droppedFrom || dropped, dropped];
        log.tailSize -= freed;
      }
    }
    const level = Math.max(...lines.map((line) => line.level));
    const { uuid, lease_epoch, attempts } = log.row;
    const about: [string, string, number, number] = [uuid, lease_epoch, attempts, log.sequence];
    this.unsent.push([...about, first.number, last.number, level, new Date(first.at).toISOString(), data, droppedFrom, droppedTo]);
    this.unsentSize += data.length + LINE_COST;
  }

  private async send(): Promise<void> {
    for (let made = false; this.unsent.length; ) {
      const sent = this.unsent.slice(0, BATCH_LINES / 2);
      try {
        await this.db.rows(STORE, sent[0]!.map((_, column) => sent.map((batch) => batch[column])));
      } catch (error: any) {
        if (error instanceof DatabaseUnavailable) throw error;
        if (error.code === "23514" && !error.constraint && !made) { // this day has no partition yet
          await this.db.rows("select wakeboard.create_partitions()", []);
          made = true;
          continue;
        }
        this.forget(sent); // such as a right that was revoked: to send them again would not help
        throw error;
      }
      this.forget(sent);
    }
  }

  private forget(sent: Batch[]): void {
    this.unsent.splice(0, sent.length);
    for (const batch of sent) this.unsentSize -= batch[8].length + LINE_COST;
  }
}

/** The start of a text that may be long, or of any other value, as a text that keeps nothing else in memory. */
function start(value: unknown): string {
  const text = typeof value === "string" ? value : readable(value, MAX_LINE);
  return text.length <= MAX_LINE + MARGIN ? text : Buffer.from(text.slice(0, MAX_LINE + MARGIN + 1)).toString();
}

/** The lines in parts that fit into batches. */
function* parts(lines: Line[]): Generator<Line[]> {
  let [part, size]: [Line[], number] = [[], 0];
  for (const line of lines) {
    part.push(line);
    size += line.text.length + 1;
    if (part.length >= BATCH_LINES || size >= BATCH_SIZE) {
      yield part;
      [part, size] = [[], 0];
    }
  }
  if (part.length) yield part;
}
