/** Creates, edits, lists, pauses and removes schedules in the caller's transaction. SQL functions check what they are given.
 *
 * Each function throws InvalidValue, with a sentence that says what to write instead, and Locked if another transaction keeps
 * the same schedule locked for two seconds. Both fail the transaction of `query`: roll back. */

import { encodedPayload, encodedTime, InvalidValue, type Json, optionOf, type Query, rowsOf, wholeNumber } from "./query.js";

/** When a schedule is due, and what its runs are like: the fields of a JobSchedule, with its defaults and bounds. */
export interface ScheduleOptions {
  /** One of `cron`, `everySeconds` and `at` says when it is due. Without them it runs only on demand. */
  cron?: string;
  timeZone?: string;
  /** Real time between two ticks, from 1 second to 366 days, counted from `startsAt`, or from 1970. */
  everySeconds?: number;
  /** Once; then the schedule removes itself. */
  at?: Date;
  startsAt?: Date;
  /** After its last tick the schedule removes itself. */
  endsAt?: Date;
  queue?: string;
  /** 5 is claimed first, 1 last; the default is 3. */
  priority?: number;
  limitKey?: string;
  concurrencyPolicy?: "Allow" | "Forbid" | "Replace" | "Queue";
  catchUp?: "Skip" | "Latest" | "All";
  catchUpLimit?: number;
  startingDeadlineSeconds?: number;
  jitterSeconds?: number;
  dstGap?: "Skip" | "RunAfter";
  dstOverlap?: "First" | "Both";
  /** It has no ticks. */
  suspended?: boolean;
  suspendAfterDead?: number;
  maxAttempts?: number;
  timeoutSeconds?: number;
  backoff?: "exponential" | "fixed";
  backoffBaseSeconds?: number;
  backoffCapSeconds?: number;
  /** Without a success for so long after each of `alertAfterMissed` ticks in a row, an alert. */
  expectSuccessWithinSeconds?: number;
  alertAfterMissed?: number;
}

/** `name`: namespace/name, or a name in the namespace `default`. */
export interface ScheduleDefinition extends ScheduleOptions {
  name: string;
  jobType: string;
  payload?: Json;
}

export type Scheduled = { id: string; answer: "created" | "updated" | "unchanged" | "ended" };

/** `definition`: what differs from the defaults. `nextRunAt` is null if there is no next tick, and until the scheduler has
 * seen the schedule. `error`: why its ticks cannot be computed. */
export interface StoredSchedule {
  id: string;
  name: string;
  definition: ScheduleDefinition;
  generation: number;
  paused: boolean;
  nextRunAt: Date | null;
  lastTickAt: Date | null;
  error: string | null;
}

/**
 * Create the schedule, or edit the one of this name. The same call again changes nothing. Its first tick is after the
 * call, but an `at` that has passed is due at once.
 */
export async function schedule(
  query: Query, name: string, jobType: string, payload: Json = {}, options: ScheduleOptions = {},
): Promise<Scheduled> {
  return (await scheduleMany(query, [{ ...options, name, jobType, payload }]))[0]!;
}

/** Create or edit many schedules in one statement, all or none. Of two entries of one name, the last one counts. */
export async function scheduleMany(query: Query, definitions: readonly ScheduleDefinition[]): Promise<Scheduled[]> {
  const sql = "select id::text, answer from wakeboard.schedule_many($1::text::jsonb)";
  const rows = definitions.map((definition, place) => {
    try {
      return encoded(definition);
    } catch (error) {
      if (definitions.length === 1 || !(error instanceof InvalidValue)) throw error;
      throw new InvalidValue(`schedules[${place}] (${definition.name}): ${error.message}`, { cause: error.cause });
    }
  });
  return rowsOf<Scheduled>(query, sql, [JSON.stringify(rows)]);
}

/** Remove a schedule. False: there is none. Its queued and failed runs are cancelled, running ones finish. */
export function unschedule(query: Query, name: string): Promise<boolean> {
  return called(query, "unschedule", name);
}

/** Remove the schedules that match `pattern`, such as `customers/42-*`, and return how many. */
export function unscheduleAll(query: Query, pattern: string): Promise<number> {
  return called(query, "unschedule_all", pattern);
}

/** Let the schedules that match create no runs until `resumeSchedules`. Returns how many were paused by this call. */
export function pauseSchedules(query: Query, pattern: string, reason = ""): Promise<number> {
  return called(query, "pause_schedules", pattern, reason);
}

/** End the pauses of the schedules that match; `catchUp` decides about the missed ticks. Returns how many were resumed. */
export function resumeSchedules(query: Query, pattern: string, reason = ""): Promise<number> {
  return called(query, "resume_schedules", pattern, reason);
}

/** The schedules of applications that match, in the order of their names: at most `count` (100) after the name `after`. */
export async function listSchedules(
  query: Query, pattern: string, { after = "", count = 100 }: { after?: string; count?: number } = {},
): Promise<StoredSchedule[]> {
  const sql = "select coalesce(json_agg(page), '[]')::text as page from wakeboard.list_schedules($1::text, $2::text, $3::text::integer) as page";
  const [{ page }] = (await rowsOf<{ page: string }>(query, sql, [pattern, after, String(count)])) as [{ page: string }];
  return JSON.parse(page).map((row: any) => ({
    id: String(row.id), name: row.name, definition: decoded(row.definition), generation: row.generation, paused: row.paused,
    nextRunAt: row.next_run_at && new Date(row.next_run_at), lastTickAt: row.last_tick_at && new Date(row.last_tick_at),
    error: row.error,
  }));
}

/** The schedule of this name, or null. */
export async function getSchedule(query: Query, name: string): Promise<StoredSchedule | null> {
  if (name.includes("*")) throw new InvalidValue(`name is "${name}"; write the name of one schedule, or call listSchedules`);
  return (await listSchedules(query, name))[0] ?? null;
}

async function called<Answer>(query: Query, name: string, ...texts: string[]): Promise<Answer> {
  const sql = `select wakeboard.${name}(${texts.map((_, index) => `$${index + 1}::text`).join(", ")}) as answer`;
  return (await rowsOf<{ answer: Answer }>(query, sql, texts))[0]!.answer;
}

const KINDS: Record<keyof ScheduleDefinition, "text" | "number" | "time" | "switch" | "JSON"> = {
  name: "text", jobType: "text", payload: "JSON", cron: "text", timeZone: "text", everySeconds: "number", at: "time", startsAt: "time",
  endsAt: "time", queue: "text", priority: "number", limitKey: "text", concurrencyPolicy: "text", catchUp: "text", catchUpLimit: "number",
  startingDeadlineSeconds: "number", jitterSeconds: "number", dstGap: "text", dstOverlap: "text", suspended: "switch",
  suspendAfterDead: "number", maxAttempts: "number", timeoutSeconds: "number", backoff: "text", backoffBaseSeconds: "number",
  backoffCapSeconds: "number", expectSuccessWithinSeconds: "number", alertAfterMissed: "number",
};
const UNIT_S: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** The arguments of the SQL function: limitKey is limit_key, timeoutSeconds is timeout_s, and everySeconds is every. */
function encoded(definition: ScheduleDefinition): object {
  return Object.fromEntries(Object.entries(definition).map(([key, value]) => {
    const kind = Object.hasOwn(KINDS, key) && KINDS[key as keyof ScheduleDefinition];
    if (!kind) throw new InvalidValue(`${key} is no option of a schedule; write one of ${Object.keys(KINDS).join(", ")}`);
    const name = key.replace(/Seconds$/, "S").replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (kind === "JSON") encodedPayload(value);
    else if (value instanceof Date) return [name, encodedTime(key, value)];
    else if (typeof value === "number" || (kind === "number" && value != null)) wholeNumber(key, value);
    if (key === "everySeconds") return ["every", value == null ? null : `${value} s`];
    return [name, value];
  }));
}

function decoded(args: Record<string, any>): ScheduleDefinition {
  return Object.fromEntries(Object.entries(args).map(([key, value]) => {
    const option = optionOf(key);
    if (key === "every") return [option, parseInt(value) * UNIT_S[value.at(-1)]!];
    return [option, KINDS[option as keyof ScheduleDefinition] === "time" ? new Date(value) : value];
  })) as unknown as ScheduleDefinition;
}
