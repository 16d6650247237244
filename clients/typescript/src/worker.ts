/**
 * Claims runs, calls their handlers, renews the leases, and reports the outcomes. Each purpose has a connection of its
 * own, so that none delays the heartbeat. The database's clock decides when a lease ends. The worker's monotonic clock only
 * stops it earlier: leases are valid for three quarters of a lease after the last answered heartbeat was sent.
 */

import { randomBytes } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { checkDsn, Connection, DatabaseUnavailable, Hosts, InvalidOption, LeaseLost, Locked } from "./connection.js";
import { failure, type Outcome, readable, type StopReason, storableOutcome, success } from "./outcome.js";
import { type ClaimedRow, Run } from "./run.js";
import { type Secret, secretsOf } from "./redact.js";
import { type AttemptLog, LEVELS, type LogOptions, RunLogs } from "./run_logs.js";

/** Executes a run. Its result is stored as JSON. It must stop when `run.signal` is aborted. */
export type Handler = (run: Run) => unknown;

export interface WorkerOptions extends Partial<LogOptions> {
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
  /** Prepare statements and listen for notifications: false behind PgBouncer in transaction mode. */
  directConnection?: boolean;
  /** A file that exists while the worker is ready, for readiness probes. Empty: none. */
  readyFile?: string;
  log?: (message: string) => void;
}

/** The settings in WAKEBOARD_* variables, as the Python worker reads them. */
export function optionsFromEnvironment(env: NodeJS.ProcessEnv = process.env): Omit<Required<WorkerOptions>, "handlers"> {
  const number = (name: string, otherwise: number) => {
    const text = env[`WAKEBOARD_${name}`] || String(otherwise);
    if (!(Number(text) >= 0)) throw new InvalidOption(`WAKEBOARD_${name}='${text}': write a number, such as ${otherwise}.`);
    return Number(text);
  };
  const numbers = { concurrency: number("CONCURRENCY", 100), leaseSeconds: number("LEASE_SECONDS", 60) };
  const times = { graceSeconds: number("GRACE_SECONDS", 25), pollSeconds: number("POLL_SECONDS", 1) };
  const names = { pool: env.WAKEBOARD_POOL || "default", queues: (env.WAKEBOARD_QUEUES || "default").split(",") };
  const choice = <Choice extends string>(name: string, among: Choice[], otherwise: Choice) => {
    const text = env[`WAKEBOARD_${name}`] || otherwise;
    if (!among.includes(text as Choice)) throw new InvalidOption(`WAKEBOARD_${name}='${text}': write ${among.join(", ")}.`);
    return text as Choice;
  };
  const logs = { runLogs: choice("RUN_LOGS", ["all", "failed", "off"], "all"), runLogMaxBytes: number("RUN_LOG_MAX_BYTES", 1_048_576) };
  const logged = { ...logs, runLogLevel: choice("RUN_LOG_LEVEL", Object.keys(LEVELS) as LogOptions["runLogLevel"][], "debug") };
  if (!env.WAKEBOARD_DSN && !env.PGHOST) throw new InvalidOption("WAKEBOARD_DSN is not set: write postgresql://user:password@host:5432/database.");
  const others = { directConnection: env.WAKEBOARD_LISTEN !== "false", readyFile: env.WAKEBOARD_READY_FILE ?? "", log: console.error };
  return { dsn: env.WAKEBOARD_DSN ?? "", ...numbers, ...times, ...names, ...others, ...logged };
}

/** Run a worker as a program: an error ends it with one sentence and exit code 1, an invalid setting with 2. */
export async function runWorker(handlers: WorkerOptions["handlers"]): Promise<never> {
  const run = async () => new Worker({ ...optionsFromEnvironment(), handlers }).run();
  const report = (error: unknown) => (console.error(readable(error)), error instanceof InvalidOption ? 2 : 1);
  process.exit(await run().then(() => 0, report)); // whatever handlers have left open
}

const VALID_SHARE = 0.75; // of a lease, after its last heartbeat was sent
const BATCH = 1000; // outcomes in one statement
const REGISTER_EVERY_S = 180;
const SPLIT_S = 3; // for so long, outcomes that met a lock are sent in smaller parts; then others have their turn
const PROGRESS_MS = 500; // between two looks at whether handlers have reported progress
const BUSY_RETRY_MS = 500; // for runs that another transaction has locked
const STOP_GRACE_MS = 2000; // for a handler that was asked to stop
const clock = () => performance.now() / 1000; // monotonic: the wall clock may be set

/** One lease of this worker: its handler runs, or its outcome is not accepted yet. */
interface Attempt {
  row: ClaimedRow;
  run: Run;
  secrets: Secret[]; // of its payload
  log: AttemptLog | null; // null: it has logged nothing
  startedAt: number;
  endedAt: number;
  stopped: StopReason | null;
  outcome: Outcome | null;
  refused?: boolean; // the database did not accept the handler's own outcome
}

/** The last row of fetch_runs: see docs/sql-functions.md. */
interface Answer {
  state: string;
  again: boolean;
  waits: boolean;
  due_s: number | null;
  retry_s: number | null;
}

export class Worker {
  readonly counts = { claimed: 0, succeeded: 0, failed: 0, cancelled: 0, snoozed: 0, released: 0, lost: 0 };
  private readonly id = ((randomBytes(8).readBigUInt64BE() >> 1n) | 1n).toString();
  private readonly options: Required<WorkerOptions>;
  private readonly types: string[];
  private readonly db: Record<"claims" | "outcomes" | "heartbeats" | "handlers", Connection>;
  private readonly logs: RunLogs;
  private readonly held = new Map<string, Attempt>(); // by run id
  private readonly ended = new AbortController();
  private progressed = false; // a handler has reported progress since the last renewal
  private running = 0;
  private outbox: Attempt[] = [];
  private orphans: ClaimedRow[] = []; // of leases that were dropped: released when the database answers again
  private validUntil = 0;
  private registeredAt = -Infinity;
  private state: string | null = null; // of the last answer
  private endsMatter = true; // the end of a run may let another one start
  private runEnded = false;
  private signals = 0;
  private outageLoggedAt = -Infinity;
  private wake: () => void = () => {};
  private flush: () => void = () => {};

  constructor(options: WorkerOptions) {
    const { log, ...others } = { ...optionsFromEnvironment({ WAKEBOARD_DSN: options.dsn }), ...options };
    this.options = { ...others, log: (message) => log(readable(message)) };
    this.types = Object.keys(options.handlers);
    const { dsn, leaseSeconds, directConnection } = this.options;
    checkDsn(dsn);
    const hosts = new Hosts(dsn);
    const connection = (purpose: string, share: number, notified: (() => void) | null = null) =>
      new Connection(hosts, purpose, leaseSeconds * share * 1000, directConnection, notified);
    const claims = connection("claims", 1, directConnection ? () => this.wake() : null);
    const [outcomes, heartbeats] = [connection("outcomes", 0.5), connection("heartbeat", 0.25)];
    this.db = { claims, outcomes, heartbeats, handlers: connection("handlers", 1) };
    this.logs = new RunLogs(connection("logs", 0.25), this.options, this.options.log);
  }

  /** Run until `stop`, SIGTERM or SIGINT, and until the runs have ended and their outcomes are reported. */
  async run(): Promise<void> {
    const began = clock();
    const onSignal = () => this.stop();
    process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
    this.setReady(false); // a killed container may have left the file
    await this.persist(() => this.register(), () => !this.signals);
    if (!this.signals) this.setReady(true);
    this.options.log(`ready: queues ${this.options.queues}; job types ${this.types}`);
    this.validUntil = clock() + this.options.leaseSeconds * VALID_SHARE;
    const background = [this.renewPeriodically(), this.reportOutcomes()];
    const claiming = async () => { while (!this.signals) await this.persist(() => this.claimTurn(), () => !this.signals); };
    const fault = await claiming().then(() => null, (error) => ({ error }));
    this.setReady(false);
    await this.drain();
    this.ended.abort();
    this.flush();
    await Promise.all([...background, this.logs.stop()]);
    const lost = [...this.held.keys()];
    this.counts.lost += lost.length;
    if (lost.length) this.options.log(`lost: no answer confirms the outcomes of ${lost.length} runs; those that are not stored will be executed again: ${lost.slice(0, 10)}`);
    if (!this.orphans.length && !this.held.size) { // otherwise it stays registered, so that the reaper finds the leases sooner
      const left = this.db.claims.rows("select wakeboard.deregister_worker($1)", [this.id]);
      await left.catch((error) => this.options.log(`could not deregister: ${error}`));
    }
    await Promise.all(Object.values(this.db).map((each) => each.close()));
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    const counts = Object.entries(this.counts).map(([name, count]) => `${count} ${name}`).join(", ");
    if (fault) throw fault.error;
    this.options.log(`worker finished after ${(clock() - began).toFixed(1)} s: ${counts}`);
  }

  /** Claim no more runs. The second call does not wait for the grace period. */
  stop(): void {
    this.signals += 1;
    this.setReady(false);
    this.wake();
  }

  private setReady(ready: boolean): void {
    const { readyFile } = this.options;
    if (readyFile && ready) writeFileSync(readyFile, "");
    else if (readyFile) rmSync(readyFile, { force: true });
  }

  /** Call `work` until it succeeds, while the database is unavailable and `goesOn`. Undefined: it did not succeed. */
  private async persist<Result>(work: () => Promise<Result>, goesOn: () => boolean): Promise<Result | undefined> {
    while (goesOn()) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        if (clock() > this.outageLoggedAt + 30) {
          this.outageLoggedAt = clock();
          this.options.log(`waiting for the database: ${error.message}`);
        }
        await sleep(200);
      }
    }
  }

  // -- claims ---------------------------------------------------------------------------------------------------------

  private async register(): Promise<void> {
    const { pool, queues, concurrency, leaseSeconds } = this.options;
    const sql = "select wakeboard.register_worker($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    const about = [`${hostname()}-${process.pid}`, pool, hostname(), "0.1.0", queues, concurrency, leaseSeconds, this.types];
    this.registeredAt = clock(); // before the call: after a failure, the next one is due at the usual time
    await this.db.claims.rows(sql, [this.id, ...about]);
  }

  /** A registration that fails, because a table is locked for example, must not stop the claims. */
  private async registerAgain(): Promise<void> {
    await this.register().catch((error) => {
      if (!(error instanceof DatabaseUnavailable)) throw error;
      this.options.log(`could not register again: ${error.message}`);
    });
  }

  /** Claim runs for the free slots. Then wait until there may be more, or until the next poll. */
  private async claimTurn(): Promise<void> {
    const woken = new Promise<void>((resolve) => (this.wake = resolve));
    this.endsMatter = this.runEnded = false;
    if (clock() > this.registeredAt + Math.min(REGISTER_EVERY_S, this.options.leaseSeconds)) await this.registerAgain();
    const free = this.options.concurrency - this.running;
    const answer = this.leasesValid() && free > 0 ? await this.fetch(free) : null;
    this.endsMatter = answer?.waits ?? true;
    if (answer?.again || (this.endsMatter && this.runEnded)) return;
    const seconds = [answer?.due_s, answer?.retry_s, this.options.pollSeconds].filter((each) => each != null);
    await Promise.race([woken, sleep(Math.max(0, Math.min(...seconds)) * 1000)]);
  }

  /** Claim runs and start their handlers. A reply that came too late is released. */
  private async fetch(count: number): Promise<Answer> {
    const sent = clock();
    const { leaseSeconds, queues, pollSeconds } = this.options;
    const sql = "select * from wakeboard.fetch_runs($1, $2, $3, $4, $5, $6, $7, within_s => $8)";
    const values = [this.id, leaseSeconds, queues, this.types, count, this.state, this.held.size === 0, pollSeconds];
    const rows = await this.db.claims.rows<ClaimedRow>(sql, values);
    const answer: Answer = rows.pop()!.payload;
    this.state = answer.state;
    this.counts.claimed += rows.length;
    const inTime = clock() - sent <= leaseSeconds * (1 - VALID_SHARE) && this.leasesValid();
    for (const attempt of rows.map((row) => this.attempt(row)))
      if (inTime && !this.signals) void this.execute(attempt);
      else this.settle(attempt, { kind: "release", delay: 0, reason: "not_started" });
    return answer;
  }

  private noteEnd(): void {
    this.runEnded = true;
    if (this.endsMatter) this.wake();
  }

  // -- handlers -------------------------------------------------------------------------------------------------------

  private attempt(row: ClaimedRow): Attempt {
    const run = new Run(row, this.id, async <Row>(sql: string, values: unknown[]) => {
      const rows = await this.persist(() => this.db.handlers.rows<Row>(sql, values), () => attempt.stopped !== "lost");
      if (!rows) throw new LeaseLost(`the lease of run ${row.id} is lost`);
      return rows;
    }, () => (this.progressed = true), (level, text) => this.logs.add(this.logOf(attempt), level, text));
    const secrets = this.options.runLogs === "off" ? [] : secretsOf(row.payload); // before the handler changes it
    const attempt: Attempt = { row, run, secrets, log: null, startedAt: clock(), endedAt: 0, stopped: null, outcome: null };
    const older = this.held.get(row.id);
    if (older && !older.outcome) this.lose(older); // its lease must be lost, and the heartbeat does not say so
    this.held.set(row.id, attempt);
    return attempt;
  }

  private logOf = (attempt: Attempt) => (attempt.log ??= this.logs.of(attempt.row, attempt.secrets));

  private async execute(attempt: Attempt): Promise<void> {
    const { row, run } = attempt;
    attempt.startedAt = clock();
    this.running += 1;
    const timer = setTimeout(() => this.stopAttempt(attempt, "timed out"), Math.min(row.timeout_s * 1000, 2 ** 31 - 1));
    try {
      this.settle(attempt, success(await this.options.handlers[row.job_type]!(run)));
    } catch (error) {
      this.settle(attempt, failure(error, attempt.stopped, row.timeout_s));
    }
    clearTimeout(timer);
    this.running -= 1;
    this.noteEnd();
  }

  /** Tell a handler to stop. One that does not stop at its timeout, or at the end of the worker, is left behind. */
  private stopAttempt(attempt: Attempt, reason: StopReason): void {
    if (attempt.stopped === "lost" || attempt.outcome) return;
    if (attempt.stopped === null || (attempt.stopped === "cancelled" && reason === "shutdown")) attempt.stopped = reason; // the first counts
    const { stopped } = attempt;
    attempt.run.abort(new Error(`the run was stopped: ${stopped}`));
    const leave = () => this.settle(attempt, failure(`it did not stop when it was ${stopped}`, stopped, attempt.row.timeout_s));
    if (reason === "timed out" || reason === "shutdown") setTimeout(leave, STOP_GRACE_MS).unref();
  }

  private settle(attempt: Attempt, outcome: Outcome): void {
    if (attempt.outcome) return;
    attempt.outcome = outcome;
    attempt.endedAt = clock();
    if (outcome.kind === "fail") this.logs.addOutcome(this.logOf(attempt), outcome, attempt.stopped === "cancelled");
    if (attempt.log) attempt.log.failed = outcome.kind === "fail";
    this.outbox.push(attempt);
    this.flush();
  }

  // -- leases ---------------------------------------------------------------------------------------------------------

  private leasesValid = () => clock() < this.validUntil;

  private async renewPeriodically(): Promise<void> {
    const interval = (this.options.leaseSeconds / 4) * 1000;
    let pause = interval;
    while (await this.heartbeatDue(pause)) {
      if (!this.leasesValid()) this.orphan([...this.held.values()]); // other workers may have the runs
      const allRenewed = await this.renew().catch((error) => this.options.log(`the leases are not renewed: ${error}`));
      pause = allRenewed ? interval : Math.min(BUSY_RETRY_MS, interval);
    }
  }

  /** Wait for the next heartbeat, or until a handler has reported progress. Returns false when the worker has ended. */
  private async heartbeatDue(pause: number): Promise<boolean> {
    const until = clock() + pause / 1000;
    do {
      const slice = Math.max(0, Math.min(PROGRESS_MS, (until - clock()) * 1000));
      if (!(await sleep(slice, true, { signal: this.ended.signal }).catch(() => false))) return false;
    } while (clock() < until && !this.progressed);
    this.progressed = false;
    return true;
  }

  /** Renew all leases in one call, also if there are none. Returns whether no run was locked. */
  private async renew(): Promise<boolean> {
    const leases = [...this.held.values()];
    const sent = clock();
    const sql = "select id, answer, epoch from wakeboard.renew($1, $2, $3, $4, $5, $6, $7)";
    const [ids, epochs] = [leases.map(({ row }) => row.id), leases.map(({ row }) => row.lease_epoch)];
    const reported = leases.map(({ run }) => run.reported);
    const [fractions, messages] = [reported.map((each) => each?.fraction), reported.map((each) => each?.message)];
    const values = [this.id, this.options.leaseSeconds, ids, epochs, leases.map(({ startedAt }) => sent - startedAt), fractions, messages];
    const answers = await this.db.heartbeats.rows<{ id: string; answer: string; epoch: string }>(sql, values);
    this.validUntil = sent + this.options.leaseSeconds * VALID_SHARE;
    for (const row of this.orphans.splice(0).filter(({ id }) => !this.held.has(id))) { // they do not count as crashes
      this.settle(this.attempt(row), { kind: "release", delay: 0, reason: "disconnected" });
    }
    for (const { id, answer, epoch } of answers) {
      if (answer === "unregistered") this.registeredAt = -Infinity;
      const attempt = this.held.get(id);
      if (attempt?.row.lease_epoch !== epoch) continue; // of an older lease
      if (answer === "cancel") this.stopAttempt(attempt, "cancelled");
      if (answer === "refused" && !attempt.outcome) this.lose(attempt); // otherwise the reply to its report decides
    }
    return !answers.some(({ answer }) => answer === "busy");
  }

  private lose(attempt: Attempt): void {
    this.counts.lost += 1;
    if (this.held.get(attempt.row.id) === attempt) this.held.delete(attempt.row.id);
    attempt.stopped = "lost";
    if (attempt.log) attempt.log.failed = true;
    attempt.run.abort(new LeaseLost(`the lease of run ${attempt.row.id} is lost`));
  }

  private orphan(attempts: Attempt[]): void {
    for (const attempt of attempts) this.lose(attempt);
    this.orphans.push(...attempts.map(({ row }) => row));
  }

  // -- outcomes -------------------------------------------------------------------------------------------------------

  private async reportOutcomes(): Promise<void> {
    while (!this.ended.signal.aborted || this.outbox.length) {
      if (!this.outbox.length) await new Promise<void>((resolve) => (this.flush = resolve));
      await new Promise(setImmediate); // outcomes of the same moment are reported together
      const groups = new Map<string, Attempt[]>();
      for (const each of this.outbox.splice(0, BATCH)) {
        let name: string = each.outcome!.kind;
        while (groups.get(name)?.some(({ row }) => row.id === each.row.id)) name += " again"; // a statement names a run once
        groups.set(name, groups.get(name) ?? []).get(name)!.push(each);
      }
      for (const group of groups.values()) await this.report(group);
      this.noteEnd();
      if ([...groups.keys()].some((name) => !name.startsWith("complete"))) this.wake(); // their runs are due again some time
    }
  }

  /**
   * Report outcomes of one kind, and repeat that while the leases are valid: the functions are idempotent. Of a lost
   * lease, nothing is reported.
   */
  private async report(group: Attempt[]): Promise<void> {
    const kept = () => (group = group.filter(({ stopped }) => stopped !== "lost"));
    try {
      const refused = await this.persist(() => this.send(group), () => this.leasesValid() && kept().length > 0);
      if (!refused) return this.orphan(kept());
      for (const attempt of group) {
        if (!refused.has(attempt.row.id)) this.accept(attempt);
        else if (!refused.get(attempt.row.id)) this.lose(attempt);
        else setTimeout(() => (this.outbox.push(attempt), this.flush()), BUSY_RETRY_MS);
      }
    } catch (error: any) {
      if (error.code === "23514" && error.table === "job_run_history") { // this week has no partition yet
        await this.persist(() => this.db.outcomes.rows("select wakeboard.create_partitions()", []), () => this.leasesValid());
        return this.report(group);
      }
      if (group.length === 1) {
        const attempt = group[0]!;
        this.options.log(`the outcome of run ${attempt.row.id} cannot be stored: ${error}`);
        if (attempt.refused) return this.lose(attempt);
        Object.assign(attempt, { refused: true, outcome: storableOutcome(attempt.outcome!, error) });
      }
      for (const one of group) await this.report([one]); // so that only the outcome that cannot be stored is lost
    }
  }

  /**
   * Returns the runs whose outcome was refused: true if another transaction has locked the run. If a lock stops the
   * whole statement, it sends the halves, so that only those outcomes wait that need the lock.
   */
  private async send(group: Attempt[], until = clock() + SPLIT_S): Promise<Map<string, boolean>> {
    try {
      const refused = await this.db.outcomes.rows<{ id: string; locked: boolean }>(...this.call(group));
      return new Map(refused.map(({ id, locked }) => [id, locked]));
    } catch (error) {
      if (!(error instanceof Locked)) throw error;
      if (group.length === 1 || clock() > until) return new Map(group.map(({ row }) => [row.id, true]));
      const middle = group.length >> 1;
      const first = await this.send(group.slice(0, middle), until);
      return new Map([...first, ...(await this.send(group.slice(middle), until))]);
    }
  }

  private accept(attempt: Attempt): void {
    const { row, outcome } = attempt;
    if (this.held.get(row.id) === attempt) this.held.delete(row.id); // the run may be claimed again before the reply is read
    if (outcome!.kind === "complete") this.counts.succeeded += 1;
    else if (outcome!.kind === "fail") this.counts[attempt.stopped === "cancelled" ? "cancelled" : "failed"] += 1;
    else this.counts[outcome!.reason === "snoozed" ? "snoozed" : "released"] += 1;
  }

  private call(group: Attempt[]): [sql: string, values: unknown[]] {
    const [ids, epochs] = [group.map(({ row }) => row.id), group.map(({ row }) => row.lease_epoch)];
    const selectRefused = "select id, id in (select wakeboard.still_leased($1, $2, $3)) as locked from wakeboard.";
    const column = (name: string) => group.map(({ outcome }) => (outcome as any)[name]);
    const { kind } = group[0]!.outcome!;
    const now = clock();
    const ages = (of: Attempt[]) => [of.map(({ startedAt }) => now - startedAt), of.map(({ endedAt }) => now - endedAt)];
    if (kind === "complete") {
      const results = column("result").flatMap((text, at) => (text === null ? [] : [`"${ids[at]}":${text}`]));
      const object = results.length ? `{${results.join(",")}}` : null;
      // Those that took no measurable time, and ended a moment ago, are not timed: it would cost the database a tenth.
      const timed = group.filter(({ startedAt, endedAt }) => now - startedAt > 0.25 || endedAt - startedAt >= 0.001);
      const values = [this.id, ids, epochs, object, timed.map(({ row }) => row.id), ...ages(timed)];
      return [`${selectRefused}complete($1, $2, $3, $4::text::jsonb, $5, $6, $7) as id`, values];
    }
    if (kind === "fail") {
      const columns = ["outcome", "type", "error", "stack", "delay"].map(column);
      return [`${selectRefused}fail($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as id`, [this.id, ids, epochs, ...columns, ...ages(group)]];
    }
    const counted = column("reason").map((reason) => reason === "worker_stopped" || reason === "disconnected");
    const columns = [column("delay"), counted, column("reason")];
    return [`${selectRefused}release($1, $2, $3, $4, $5, $6, $7, $8) as id`, [this.id, ids, epochs, ...columns, ...ages(group)]];
  }

  /** Give running handlers the grace period, then stop and release them, and wait until all outcomes are reported. */
  private async drain(): Promise<void> {
    const until = clock() + this.options.graceSeconds;
    while (this.running && clock() < until && this.signals < 2) await sleep(20);
    for (const attempt of this.held.values()) this.stopAttempt(attempt, "shutdown");
    const reported = clock() + STOP_GRACE_MS / 1000 + this.options.leaseSeconds; // what is locked for longer is left to expire
    while ((this.held.size || this.outbox.length) && clock() < reported) await sleep(20);
  }
}
