/** What a handler receives: one attempt of a run. */

import { createHash } from "node:crypto";

import { type Connection, toDate } from "./connection.js";
import { EffectHeld, EffectRepeated, failure, readable } from "./outcome.js";
import type { Level } from "./run_logs.js";
import { InvalidValue, type Json, type Query, rowsOf } from "./client/query.js";

/** A row of the SQL type `claimed_run`. Numbers of 64 bits are text. */
export type ClaimedRow = Record<"id" | "lease_epoch", string> & { [column: string]: any };

/** The state of an effect outside the database. */
export interface Effect {
  /** An earlier attempt completed it: skip it. */
  readonly done: boolean;
  /** An earlier attempt began it, and whether it happened is unknown: ask the provider. */
  readonly inDoubt: boolean;
  /** The same in each attempt, and in each run if it happens once for ever: pass it as the provider's idempotency key. */
  readonly providerKey: string;
}

/** How often an effect happens: once for each run (the default), or once for its key, whatever run has it. */
export interface Once {
  once?: "per_run" | "forever";
}

const EVERY_RUN = "00000000-0000-0000-0000-000000000000"; // of an effect once for ever, in place of the run's uuid

export class Run<Payload = any> {
  readonly id: string;
  readonly uuid: string;
  readonly jobType: string;
  readonly payload: Payload;
  readonly queue: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Of the lease: it grows with each claim, at random. */
  readonly epoch: number;
  /** namespace/name of the JobSchedule; null: an application enqueued the run. */
  readonly schedule: string | null;
  /** What was given to `progress` last. */
  reported: { fraction: number; message: string } | null = null;
  private abortController: AbortController | null = null; // made when it is first used: it costs as much as the rest of a run
  private readonly steps = new Set<string>();
  private readonly effects = new Set<string>();
  private readonly lease: [worker: string, run: string, epoch: string];

  /** `call` executes a statement under the lease of the run, and repeats it while the database is unavailable. */
  constructor(
    private readonly row: ClaimedRow,
    worker: string,
    private readonly call: Connection["rows"],
    private readonly progressed: () => void,
    private readonly keep: (level: Level, text: string) => void,
  ) {
    [this.id, this.uuid, this.jobType, this.payload] = [row.id, row.uuid, row.job_type, row.payload];
    [this.queue, this.attempt, this.maxAttempts] = [row.queue, row.attempts, row.max_attempts];
    [this.epoch, this.schedule] = [Number(row.lease_epoch), row.schedule];
    this.lease = [worker, row.id, row.lease_epoch];
  }

  /** Aborted when the handler should stop: cancelled, timed out, lease lost, or the worker stops. */
  get signal(): AbortSignal { return (this.abortController ??= new AbortController()).signal; }

  /** For the worker: abort the signal. */
  abort(reason: Error): void { (this.abortController ??= new AbortController()).abort(reason); }

  /** The tick that this run executes. */
  get scheduledFor(): Date { return toDate(this.row.scheduled_for); }

  /** Report how much is done, from 0 to 1, and in words such as "page 4 of 10". It is visible within a second. */
  progress(fraction: number, message = ""): void {
    this.reported = { fraction: Math.min(1, Math.max(0, fraction)) || 0, message: readable(message, 200) }; // || 0: NaN, such as 0 of 0
    this.progressed();
  }

  /** Keep a line in the log of this run, which the board and `wakeboard logs` show. It does not wait, and throws nothing. */
  log(text: string, level: Level = "info"): void { this.keep(level, text); }

  /** Call `work` at most once successfully per run. A later attempt gets the stored result. */
  async step<Result extends Json | void>(name: string, work: () => Promise<Result> | Result): Promise<Result> {
    if (this.steps.has(name)) throw new Error(`this attempt already has a step '${name}'; each step needs its own name`);
    const sql = "select done, stored from wakeboard.step($1, $2, $3, $4, $5::text::jsonb)";
    this.steps.add(name); // before the call, during which another one may begin a step of this name
    const [known] = await this.call<{ done: boolean; stored: Result }>(sql, [...this.lease, name, null]).catch((error) => {
      this.steps.delete(name);
      throw error;
    });
    if (known!.done) return known!.stored;
    try {
      const text = JSON.stringify((await work()) ?? null);
      await this.call(sql, [...this.lease, name, text]);
      return JSON.parse(text);
    } catch (error) {
      this.steps.delete(name); // it may be repeated
      if (!this.signal.aborted && failure(error, null, 0).kind === "fail") {
        const failed = "select done from wakeboard.step($1, $2, $3, $4, error => $5)";
        await this.call(failed, [...this.lease, name, readable(error)]).catch(() => undefined); // `error` counts
      }
      throw error;
    }
  }

  /** Record an effect outside the database: as begun before `work`, as done after it. `work` looks at the state.
   * With `{ once: "forever" }` it throws EffectHeld, a Snooze, while an attempt of another run is executing the effect. It throws
   * EffectRepeated if this attempt has had an effect of this key already. A key whose `work` threw may be used again. */
  async effect<Result>(key: string, work: (effect: Effect) => Promise<Result>): Promise<Result>;
  async effect<Result>(key: string, options: Once, work: (effect: Effect) => Promise<Result>): Promise<Result>;
  async effect<Result>(key: string, ...given: [work: Work<Result>] | [options: Once, work: Work<Result>]): Promise<Result> {
    const [options, work] = given.length === 1 ? [{}, given[0]] : given;
    const [columns, call] = isForever(options)
      ? ["state, first_run_uuid::text as namespace, held_by::text as holder", "effect_forever"]
      : ["effect as state, null as namespace, null as holder", "effect"];
    const sql = `select ${columns} from wakeboard.${call}($1, $2, $3, $4, $5)`;
    type Known = { state: string; namespace: string | null; holder: string | null };
    const name = `${call} ${key}`; // a key per run and one once for ever are apart
    if (this.effects.has(name)) throw new EffectRepeated(key);
    this.effects.add(name);
    try {
      const [known] = await this.call<Known>(sql, [...this.lease, key, false]);
      if (known!.holder !== null) {
        const held = new EffectHeld(key, known!.holder);
        this.log(held.message); // a snooze has no error
        throw held;
      }
      const [done, inDoubt] = [known!.state === "done", known!.state === "in doubt"];
      const result = await work({ done, inDoubt, providerKey: uuid5(known!.namespace ?? this.uuid, key) });
      if (!done) await this.call(sql, [...this.lease, key, true]);
      return result;
    } catch (error) {
      this.effects.delete(name); // it may be repeated
      throw error;
    }
  }

  /** Guard an effect in the transaction of `query`. True: perform it there. False: an earlier attempt committed it, of this
   * run or, with `{ once: "forever" }`, of any. It throws EffectInDoubt if a run began the effect by `effect` and its
   * end is not recorded. An error with the code WB001 means that the lease is lost. Roll back after both. */
  async once(query: Query, key: string, options: Once = {}): Promise<boolean> {
    const sql = "select wakeboard.once($1::bigint, $2::bigint, $3::uuid, $4::bigint, $5::text) as mine";
    const [worker, run, epoch] = this.lease;
    const values = [worker, run, isForever(options) ? EVERY_RUN : this.uuid, epoch, key];
    return (await rowsOf<{ mine: boolean }>(query, sql, values))[0]!.mine;
  }
}

type Work<Result> = (effect: Effect) => Promise<Result>;

function isForever({ once = "per_run" }: Once): boolean {
  if (once !== "per_run" && once !== "forever") throw new InvalidValue(`once is '${once}'; write 'per_run' or 'forever'`);
  return once === "forever";
}

/** The version 5 UUID of a name. */
function uuid5(namespace: string, name: string): string {
  const digest = createHash("sha1").update(Buffer.from(namespace.replaceAll("-", ""), "hex")).update(name).digest();
  digest[6] = (digest[6]! & 0x0f) | 0x50;
  digest[8] = (digest[8]! & 0x3f) | 0x80;
  return digest.toString("hex", 0, 16).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
}
