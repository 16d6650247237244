/**
 * Claims runs, calls their handlers, renews the leases, and reports the outcomes.
 *
 * Each purpose has a connection of its own, so that none delays the heartbeat. The database's clock decides when a lease
 * ends. The worker's monotonic clock only stops it earlier: leases are valid for three quarters of a lease after the last
 * heartbeat that was answered was sent.
 */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import { Connection } from "./connection.js";
import { DatabaseUnavailable, LeaseLost } from "./errors.js";
import { failure, type Outcome, type StopReason, success, timedOut } from "./outcome.js";
import { type ClaimedRow, Run } from "./run.js";

export type Handler = (run: Run) => unknown;

export interface WorkerOptions {
  dsn: string;
  /** By job type. */
  handlers: Record<string, Handler>;
  queues?: string[];
  concurrency?: number;
  leaseSeconds?: number;
  /** How long runs may continue after SIGTERM. */
  graceSeconds?: number;
  pollSeconds?: number;
  pool?: string;
  /** Prepare statements on the server, and listen for notifications: false behind PgBouncer in transaction mode. */
  directConnection?: boolean;
  log?: (message: string) => void;
}

/** The settings in WAKEBOARD_* variables, as the Python worker reads them. */
export function optionsFromEnvironment(env: NodeJS.ProcessEnv = process.env): Omit<WorkerOptions, "handlers"> {
  const number = (name: string, otherwise: number) => {
    const value = Number(env[`WAKEBOARD_${name}`] || otherwise);
    if (!(value >= 0)) throw new Error(`WAKEBOARD_${name}='${env[`WAKEBOARD_${name}`]}': write a number, such as ${otherwise}`);
    return value;
  };
  return {
    dsn: env.WAKEBOARD_DSN ?? "",
    queues: (env.WAKEBOARD_QUEUES || "default").split(","),
    concurrency: number("CONCURRENCY", 100),
    leaseSeconds: number("LEASE_SECONDS", 60),
    graceSeconds: number("GRACE_SECONDS", 25),
    pollSeconds: number("POLL_SECONDS", 1),
    pool: env.WAKEBOARD_POOL || "default",
    directConnection: env.WAKEBOARD_LISTEN !== "false",
  };
}

const VALID_SHARE = 0.75; // of a lease, after its last heartbeat was sent
const BATCH = 1000; // outcomes in one statement
const SCAN_LIMIT = 2000; // due rows of a queue and priority that one claim reads
const FULL_SCAN_EVERY_S = 2;
const REGISTER_EVERY_S = 180;
const RETRY_MS = 200;
const BUSY_RETRY_MS = 500; // for runs that another transaction has locked
const STOP_GRACE_MS = 2000; // for a handler that was told to stop
const LIMITED_EVERY_S = 0.05; // claims of limited runs, if the last one found none
const OLDEST_TURNS = 20; // of so many claims from a backlog, one is by age
const QUARANTINE_EVERY_S = 30;
const QUARANTINED_WAIT_S = 60; // after which this worker claims nothing else until it is idle
const LONGEST_PAUSE_S = 86_400; // of a limit key
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const PRIORITIES = [5, 4, 3, 2, 1];

const clock = () => performance.now() / 1000; // monotonic: the wall clock may be set
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** One lease of this worker: its handler runs, or its outcome is not accepted yet. */
interface Attempt {
  row: ClaimedRow;
  run: Run;
  abort: AbortController;
  startedAt: number;
  stopped: StopReason | null;
  outcome: Outcome | null;
  timer: NodeJS.Timeout | null;
}

export class Worker {
  readonly counts = { claimed: 0, succeeded: 0, failed: 0, snoozed: 0, released: 0, lost: 0 };
  private readonly id = ((randomBytes(8).readBigUInt64BE() >> 1n) | 1n).toString();
  private readonly options: Required<WorkerOptions>;
  private readonly types: string[];
  private readonly claims: Connection;
  private readonly outcomes: Connection;
  private readonly heartbeats: Connection;
  private readonly forHandlers: Connection;
  private readonly held = new Map<string, Attempt>(); // by run id
  private running = 0;
  private outbox: Attempt[] = [];
  private reporting = 0;
  private orphans: ClaimedRow[] = []; // of leases that were dropped: released when the database answers again
  private validUntil = 0;
  private registeredAt = -Infinity;
  private pairs: { queue: string; priority: number; run_at: string; id: string }[] = []; // and their scan positions
  private scanBegan = 0;
  private lastWasFull = false;
  private turn = 0;
  private limitedAt = 0;
  private afterKey = "";
  private quarantineAt = 0;
  private yields = false;
  private signals = 0;
  private ended = false;
  private wake: () => void = () => {};
  private flush: () => void = () => {};

  constructor(options: WorkerOptions) {
    const { handlers, dsn, ...rest } = options;
    this.options = { ...(optionsFromEnvironment({}) as Required<WorkerOptions>), log: console.error, handlers, dsn, ...rest };
    this.types = Object.keys(handlers);
    const { leaseSeconds, directConnection } = this.options;
    const connection = (purpose: string, share: number, notified: (() => void) | null = null) =>
      new Connection(dsn, `wakeboard ${purpose}`, leaseSeconds * share * 1000, directConnection, notified);
    this.claims = connection("claims", 1, directConnection ? () => this.wake() : null);
    this.outcomes = connection("outcomes", 0.5);
    this.heartbeats = connection("heartbeat", 0.25);
    this.forHandlers = connection("handlers", 1);
  }

  /** Run until `stop`, SIGTERM or SIGINT, and until the runs have ended and their outcomes are reported. */
  async run(): Promise<void> {
    const began = clock();
    const onSignal = () => this.stop();
    process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
    await this.register();
    this.validUntil = clock() + this.options.leaseSeconds * VALID_SHARE;
    const background = [this.renewPeriodically(), this.reportOutcomes()];
    await this.claimUntilStopped();
    await this.drain();
    this.ended = true;
    this.flush();
    await Promise.all(background);
    if (!this.orphans.length) { // otherwise it stays registered, so that the reaper finds the leases sooner
      const left = this.claims.rows("select wakeboard.deregister_worker($1)", [this.id]);
      await left.catch((error) => this.options.log(`could not deregister: ${error}`));
    }
    await Promise.all([this.claims, this.outcomes, this.heartbeats, this.forHandlers].map((each) => each.close()));
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    const counts = Object.entries(this.counts).filter(([name, count]) => count || name === "claimed");
    const words = counts.map(([name, count]) => `${count} ${name}`).join(", ");
    this.options.log(`worker finished after ${(clock() - began).toFixed(1)} s: ${words}`);
  }

  /** Claim no more runs. The second call does not wait for the grace period. */
  stop(): void {
    this.signals += 1;
    this.wake();
  }

  // -- registration ---------------------------------------------------------------------------------------------------

  private async register(): Promise<void> {
    const { pool, queues, concurrency, leaseSeconds } = this.options;
    const sql = "select wakeboard.register_worker($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    const values = [this.id, `${hostname()}-${process.pid}`, pool, hostname(), "0.1.0", queues, concurrency, leaseSeconds];
    while (!this.signals) {
      try {
        await this.claims.rows(sql, [...values, this.types]);
        this.registeredAt = clock();
        return;
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        await sleep(RETRY_MS);
      }
    }
  }

  // -- claims ---------------------------------------------------------------------------------------------------------

  private async claimUntilStopped(): Promise<void> {
    const { leaseSeconds, pollSeconds } = this.options;
    while (!this.signals) {
      const woken = new Promise<void>((resolve) => (this.wake = resolve));
      try {
        if (clock() > this.registeredAt + Math.min(REGISTER_EVERY_S, leaseSeconds)) await this.register();
        const free = this.options.concurrency - this.running;
        if (this.leasesValid() && !(await this.yieldsToQuarantine())) {
          if (free > 0 && (await this.claimTurn(free))) continue;
          if (this.held.size === 0 && (await this.runQuarantined())) continue;
        }
        await Promise.race([woken, sleep(pollSeconds * 1000)]);
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        await sleep(RETRY_MS);
      }
    }
  }

  /** Claim up to `free` runs. Returns whether there were any. */
  private async claimTurn(free: number): Promise<boolean> {
    const limited = await this.claimLimited(free);
    const oldest = this.lastWasFull && ++this.turn % OLDEST_TURNS === 0; // so that no priority starves
    return limited + (oldest ? await this.claimOldest(free - limited) : await this.claimNext(free - limited)) > 0;
  }

  private async claimNext(count: number): Promise<number> {
    const sql = "select * from wakeboard.claim($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    if (clock() > this.scanBegan + FULL_SCAN_EVERY_S) this.rewind();
    while (count > 0) {
      const claimed = await this.claim(sql, [...this.positions(), this.types, count, this.lastWasFull ? null : SCAN_LIMIT]);
      this.lastWasFull = claimed === count;
      if (claimed || this.signals || !(await this.advanceScan())) return claimed;
    }
    return 0;
  }

  /** Move the scan positions behind rows that this worker cannot claim. Returns whether there is more to scan. */
  private async advanceScan(): Promise<boolean> {
    const sql = "select queue, priority, run_at, id from wakeboard.advance_scan($1, $2, $3, $4, $5, $6)";
    const next = await this.claims.rows<(typeof this.pairs)[number]>(sql, [...this.positions(), this.types, SCAN_LIMIT]);
    this.pairs = this.pairs.map((pair) => next.find((a) => a.queue === pair.queue && a.priority === pair.priority) ?? pair);
    if (!next.length) this.rewind();
    return next.length > 0;
  }

  private rewind(): void {
    const start = { run_at: "-infinity", id: "0" };
    this.pairs = PRIORITIES.flatMap((priority) => this.options.queues.map((queue) => ({ queue, priority, ...start })));
    this.scanBegan = clock();
  }

  private positions(): unknown[][] {
    return (["queue", "priority", "run_at", "id"] as const).map((column) => this.pairs.map((pair) => pair[column]));
  }

  private async claimOldest(count: number): Promise<number> {
    const [first, ...others] = this.options.queues;
    this.options.queues = [...others, first!]; // each queue in turn
    const start = [PRIORITIES.map(() => "-infinity"), PRIORITIES.map(() => "0")];
    return this.claim("select * from wakeboard.claim_oldest($1, $2, $3, $4, $5, $6, $7)", [first, ...start, this.types, count]);
  }

  private async claimLimited(free: number): Promise<number> {
    if (clock() < this.limitedAt) return 0;
    const keysSql = "select wakeboard.due_limit_keys($1, $2) as key";
    const found = await this.claims.rows<{ key: string }>(keysSql, [this.options.queues, this.afterKey]);
    const keys = found.map(({ key }) => key);
    this.afterKey = keys.length === 200 ? keys.at(-1)! : "";
    const sql = "select * from wakeboard.claim_limited($1, $2, $3, $4, $5, $6)";
    const claimed = keys.length ? await this.claim(sql, [this.options.queues, this.types, keys, free]) : 0;
    if (!claimed && !this.afterKey) this.limitedAt = clock() + LIMITED_EVERY_S;
    return claimed;
  }

  /** Run one quarantined run alone: it was running when two workers died. Returns false if there is none. */
  private async runQuarantined(): Promise<boolean> {
    const sql = "select * from wakeboard.claim_quarantined($1, $2, $3, $4)";
    if (!(await this.claim(sql, [this.options.queues, this.types]))) return false;
    this.yields = false;
    while (this.held.size && this.signals < 1) await sleep(20);
    return true;
  }

  /** Whether a quarantined run has waited for so long that this worker claims nothing until it is idle. */
  private async yieldsToQuarantine(): Promise<boolean> {
    if (clock() > this.quarantineAt) {
      this.quarantineAt = clock() + QUARANTINE_EVERY_S;
      const sql = "select clock_timestamp() - wakeboard.quarantined_since($1, $2) > make_interval(secs => $3) as waits";
      const values = [this.options.queues, this.types, QUARANTINED_WAIT_S];
      this.yields = !this.yields && (await this.claims.rows<{ waits: boolean }>(sql, values))[0]!.waits === true;
    }
    return this.yields && this.held.size > 0;
  }

  /** Call a claim function and start the handlers of its runs. A reply that came too late is released. */
  private async claim(sql: string, values: unknown[]): Promise<number> {
    const sent = clock();
    const rows = await this.claims.rows<ClaimedRow>(sql, [this.id, this.options.leaseSeconds, ...values]);
    this.counts.claimed += rows.length;
    const inTime = clock() - sent <= this.options.leaseSeconds * (1 - VALID_SHARE) && this.leasesValid();
    for (const row of rows) {
      const attempt = this.attempt(row);
      if (inTime && this.signals === 0) void this.execute(attempt);
      else this.settle(attempt, { kind: "release", delay: 0, reason: "not_started" });
    }
    return rows.length;
  }

  // -- handlers -------------------------------------------------------------------------------------------------------

  private attempt(row: ClaimedRow): Attempt {
    const abort = new AbortController();
    const attempt: Attempt = {
      row,
      abort,
      run: new Run(row, this.id, abort.signal, (sql, values) => this.underLease(attempt, sql, values)),
      startedAt: clock(),
      stopped: null,
      outcome: null,
      timer: null,
    };
    const older = this.held.get(row.id);
    if (older) this.lose(older); // its lease must be lost, and the heartbeat does not say so
    this.held.set(row.id, attempt);
    return attempt;
  }

  private async execute(attempt: Attempt): Promise<void> {
    const { row, run } = attempt;
    this.running += 1;
    attempt.timer = setTimeout(() => this.stopAttempt(attempt, "timed out"), Math.min(row.timeout_s * 1000, LONGEST_TIMER_MS));
    try {
      this.settle(attempt, success(await this.options.handlers[row.job_type]!(run)));
    } catch (error) {
      this.settle(attempt, failure(error, attempt.stopped, row.timeout_s));
    }
    clearTimeout(attempt.timer);
    this.running -= 1;
    this.wake();
  }

  /** Tell a handler to stop. One that does not stop at its timeout, or at the end of the worker, is left behind. */
  private stopAttempt(attempt: Attempt, reason: StopReason): void {
    if (attempt.stopped === "lost" || attempt.outcome) return;
    attempt.stopped = reason;
    attempt.abort.abort(new Error(`the run was stopped: ${reason}`));
    if (reason === "timed out" || reason === "shutdown") {
      const outcome = reason === "timed out" ? timedOut(attempt.row.timeout_s) : failure(null, "shutdown", 0);
      setTimeout(() => this.settle(attempt, outcome), STOP_GRACE_MS).unref();
    }
  }

  private settle(attempt: Attempt, outcome: Outcome): void {
    if (attempt.outcome) return;
    attempt.outcome = outcome;
    if (attempt.stopped === "lost") return; // nothing is reported
    this.outbox.push(attempt);
    this.flush();
  }

  /** A call of a handler. It is repeated until the database answers or the lease is lost. */
  private async underLease<Row>(attempt: Attempt, sql: string, values: unknown[]): Promise<Row[]> {
    for (;;) {
      if (attempt.stopped === "lost") throw new LeaseLost(`the lease of run ${attempt.row.id} is lost`);
      try {
        return await this.forHandlers.rows<Row>(sql, values);
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        await sleep(RETRY_MS);
      }
    }
  }

  // -- leases ---------------------------------------------------------------------------------------------------------

  private leasesValid(): boolean {
    return clock() < this.validUntil;
  }

  private async renewPeriodically(): Promise<void> {
    const interval = (this.options.leaseSeconds / 4) * 1000;
    let pause = interval;
    while (!this.ended) {
      for (let waited = 0; waited < pause && !this.ended; waited += 50) await sleep(Math.min(50, pause));
      if (this.ended) return;
      try {
        if (!this.leasesValid()) this.dropLeases();
        pause = (await this.renew()) ? Math.min(BUSY_RETRY_MS, interval) : interval;
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        pause = Math.min(RETRY_MS, interval);
      }
    }
  }

  /** Renew all leases in one call, also if there are none. Returns whether a run was locked. */
  private async renew(): Promise<boolean> {
    const leases = [...this.held.values()].filter((attempt) => attempt.stopped !== "lost");
    const sent = clock();
    const sql = "select id, answer, epoch from wakeboard.renew($1, $2, $3, $4, $5, $6)";
    const answers = await this.heartbeats.rows<{ id: string; answer: string; epoch: string }>(sql, [
      this.id,
      this.options.leaseSeconds,
      leases.map(({ row }) => row.id),
      leases.map(({ row }) => row.lease_epoch),
      leases.map(({ startedAt }) => sent - startedAt),
      leases.map(({ run }) => run.fraction),
    ]);
    this.validUntil = sent + this.options.leaseSeconds * VALID_SHARE;
    this.releaseOrphans();
    for (const { id, answer, epoch } of answers) {
      if (answer === "unregistered") this.registeredAt = -Infinity;
      const attempt = this.held.get(id);
      if (attempt?.row.lease_epoch !== epoch) continue; // of an older lease
      if (answer === "cancel") this.stopAttempt(attempt, "cancelled");
      if (answer === "refused") this.lose(attempt);
    }
    return answers.some(({ answer }) => answer === "busy");
  }

  /** No heartbeat was answered in time: other workers may have the runs. */
  private dropLeases(): void {
    for (const attempt of this.held.values()) {
      this.lose(attempt);
      this.orphans.push(attempt.row);
    }
  }

  private lose(attempt: Attempt): void {
    this.counts.lost += 1;
    if (this.held.get(attempt.row.id) === attempt) this.held.delete(attempt.row.id);
    this.outbox = this.outbox.filter((each) => each !== attempt);
    this.stopAttempt(attempt, "lost");
    attempt.stopped = "lost";
  }

  /** Release dropped leases, so that they do not count as crashes. */
  private releaseOrphans(): void {
    for (const row of this.orphans.splice(0)) {
      if (this.held.has(row.id)) continue; // claimed again
      this.settle(this.attempt(row), { kind: "release", delay: 0, reason: "disconnected" });
    }
  }

  // -- outcomes -------------------------------------------------------------------------------------------------------

  private async reportOutcomes(): Promise<void> {
    while (!this.ended || this.outbox.length) {
      if (!this.outbox.length) {
        await new Promise<void>((resolve) => (this.flush = resolve));
        await new Promise(setImmediate); // outcomes of the same moment are reported together
        continue;
      }
      const batch = this.outbox.splice(0, BATCH);
      this.reporting = batch.length;
      const groups = new Map<string, Attempt[]>();
      for (const each of batch) groups.set(groupOf(each), groups.get(groupOf(each)) ?? []).get(groupOf(each))!.push(each);
      for (const group of groups.values()) await this.report(group);
      this.reporting = 0;
      this.wake();
    }
  }

  /** Report outcomes of one kind, and repeat that while the leases are valid: the functions are idempotent. */
  private async report(group: Attempt[]): Promise<void> {
    while (this.leasesValid()) {
      group = group.filter((attempt) => attempt.stopped !== "lost");
      if (!group.length) return;
      try {
        await this.pauseLimits(group);
        const refused = new Set((await this.outcomes.rows<{ id: string }>(...this.call(group))).map(({ id }) => id));
        this.accept(group.filter(({ row }) => !refused.has(row.id)));
        if (refused.size) await this.reportAgain(group.filter(({ row }) => refused.has(row.id)));
        return;
      } catch (error) {
        if (error instanceof DatabaseUnavailable) {
          await sleep(RETRY_MS);
        } else if (group.length > 1) {
          for (const one of group) await this.report([one]); // so that only the outcome that cannot be stored is lost
          return;
        } else if ((error as any).code === "23514" && (error as any).table === "job_run_history") {
          await this.outcomes.rows("select wakeboard.create_partitions()", []);
        } else {
          this.options.log(`the outcome of run ${group[0]!.row.id} cannot be stored: ${error}`);
          return this.lose(group[0]!);
        }
      }
    }
    for (const attempt of group.filter(({ stopped }) => stopped !== "lost")) {
      this.lose(attempt);
      this.orphans.push(attempt.row);
    }
  }

  /** Before their attempts are reported as failed: no other run of their limit keys starts for a while. */
  private async pauseLimits(group: Attempt[]): Promise<void> {
    for (const { row, outcome } of group) {
      if (outcome!.kind !== "fail" || !outcome!.pause) continue;
      const values = [this.id, row.id, row.lease_epoch, Math.min(outcome!.delay!, LONGEST_PAUSE_S)];
      await this.outcomes.rows("select wakeboard.pause_limit($1, $2, $3, $4)", values).catch(() => {}); // best effort
    }
  }

  private accept(group: Attempt[]): void {
    for (const { row, outcome } of group) {
      this.held.delete(row.id);
      if (outcome!.kind === "complete") this.counts.succeeded += 1;
      else if (outcome!.kind === "fail") this.counts.failed += 1;
      else if (outcome!.reason === "snoozed") this.counts.snoozed += 1;
      else this.counts.released += 1;
    }
  }

  /** The runs that another transaction has locked are reported again; the leases of the others are lost. */
  private async reportAgain(refused: Attempt[]): Promise<void> {
    const sql = "select wakeboard.still_leased($1, $2, $3) as id";
    const values = [this.id, refused.map(({ row }) => row.id), refused.map(({ row }) => row.lease_epoch)];
    const locked = new Set((await this.outcomes.rows<{ id: string }>(sql, values)).map(({ id }) => id));
    for (const attempt of refused) {
      if (!locked.has(attempt.row.id)) this.lose(attempt);
      else setTimeout(() => (this.outbox.push(attempt), this.flush()), BUSY_RETRY_MS);
    }
  }

  private call(group: Attempt[]): [sql: string, values: unknown[]] {
    const ids = group.map(({ row }) => row.id);
    const epochs = group.map(({ row }) => row.lease_epoch);
    const column = (name: string) => group.map(({ outcome }) => (outcome as any)[name]);
    switch (group[0]!.outcome!.kind) {
      case "complete": {
        const results = column("result").flatMap((text, at) => (text === null ? [] : [`"${ids[at]}":${text}`]));
        const object = results.length ? `{${results.join(",")}}` : null;
        return ["select wakeboard.complete($1, $2, $3, $4::text::jsonb) as id", [this.id, ids, epochs[0], object]];
      }
      case "fail": {
        const columns = ["outcome", "type", "error", "stack", "delay"].map(column);
        return ["select wakeboard.fail($1, $2, $3, $4, $5, $6, $7, $8) as id", [this.id, ids, epochs, ...columns]];
      }
      case "release": {
        const counted = column("reason").map((reason) => reason === "worker_stopped" || reason === "disconnected");
        const values = [this.id, ids, epochs, column("delay"), counted, column("reason")];
        return ["select wakeboard.release($1, $2, $3, $4, $5, $6) as id", values];
      }
    }
  }

  // -- the end --------------------------------------------------------------------------------------------------------

  /** Give running handlers the grace period, then stop and release them, and wait until all outcomes are reported. */
  private async drain(): Promise<void> {
    const until = clock() + this.options.graceSeconds;
    while (this.running && clock() < until && this.signals < 2) await sleep(20);
    for (const attempt of this.held.values()) this.stopAttempt(attempt, "shutdown");
    while (this.held.size || this.outbox.length || this.reporting) await sleep(20); // bounded by the validity of the leases
  }
}

/** Outcomes that one statement can report. A completion is of one epoch. */
function groupOf({ row, outcome }: Attempt): string {
  return outcome!.kind === "complete" ? `complete ${row.lease_epoch}` : outcome!.kind;
}
