/** Enqueues runs in the caller's transaction. */

import { encodedPayload, encodedTime, InvalidValue, type Json, type Query, rowsOf, wholeNumber } from "./query.js";

export interface EnqueueOptions {
  queue?: string;
  /** 5 is claimed first, 1 last; the default is 3. */
  priority?: number;
  runAt?: Date;
  /** The first call creates the run; later calls return it, with `created` false. */
  idempotencyKey?: string;
  limitKey?: string;
  maxAttempts?: number;
  timeoutSeconds?: number;
  /** One run has these values of the payload's keys `uniqueBy` (default: the whole payload) for so many seconds. */
  uniqueForSeconds?: number;
  uniqueBy?: string[];
  ifExists?: "keep" | "replace";
  /** What `enqueue` returned, or ids: the run waits until all of them have succeeded. An id alone may name another run after a failover. */
  after?: (string | Pick<Enqueued, "id" | "uuid">)[];
  /** The W3C headers of the current span, so that the run continues its trace. */
  traceparent?: string;
  tracestate?: string;
}

/** `id` is a 64-bit number as text. Pass `id` and `uuid` to the SQL functions `get_run` and `cancel_run`.
 * `status` of an earlier run is null if it has ended: a dead one has not, and keeps its key. `uuid` and `status` are null
 * if another database role enqueued the run that has the key. */
export type Enqueued = { id: string; uuid: string | null; created: boolean; status: "queued" | "running" | "failed" | "dead" | null };

/** The argument of the SQL function for each option, and its type. */
const ARGUMENTS: Record<keyof EnqueueOptions, [name: string, type: string]> = {
  queue: ["queue", "text"],
  priority: ["priority", "integer"],
  runAt: ["run_at", "timestamptz"],
  idempotencyKey: ["idempotency_key", "text"],
  limitKey: ["limit_key", "text"],
  maxAttempts: ["max_attempts", "integer"],
  timeoutSeconds: ["timeout_s", "integer"],
  uniqueForSeconds: ["unique_for", "integer"],
  uniqueBy: ["unique_by", "text[]"],
  ifExists: ["if_exists", "text"],
  after: ["after", "bigint[]"],
  traceparent: ["traceparent", "text"],
  tracestate: ["tracestate", "text"],
};

/** Enqueue a run. It exists if, and only if, the transaction of `query` commits. Throws InvalidValue and Locked. */
export async function enqueue(query: Query, jobType: string, payload: Json = {}, options: EnqueueOptions = {}): Promise<Enqueued> {
  const parents = options.after?.map((run) => (typeof run === "string" ? { id: run, uuid: null } : run));
  const given = Object.entries(options).filter(([, value]) => value != null).map(([option, value]) => {
    const argument = Object.hasOwn(ARGUMENTS, option) && ARGUMENTS[option as keyof EnqueueOptions];
    if (!argument) throw new InvalidValue(`${option} is no option of enqueue; write one of ${Object.keys(ARGUMENTS).join(", ")}`);
    return [...argument, option === "after" ? `{${parents!.map(({ id }) => id).join(",")}}` : encoded(option, argument[1], value)] as const;
  });
  const uuids = parents ? [["after_uuids", "uuid[]", `{${parents.map(({ uuid }) => uuid ?? "null").join(",")}}`] as const] : [];
  const named = [...given, ...uuids];
  const args = named.map(([name, type], index) => `, ${name} => $${index + 3}::text::${type}`).join("");
  const sql = `select id::text, uuid::text, created, status from wakeboard.enqueue($1::text, $2::text::jsonb${args})`;
  return (await rowsOf<Enqueued>(query, sql, [jobType, encodedPayload(payload), ...named.map(([, , value]) => value)]))[0]!;
}

/** An option as text of this type of SQL. The server checks its bounds. */
function encoded(option: string, type: string, value: unknown): string {
  if (type === "timestamptz") return encodedTime(option, value);
  if (type === "integer") return String(wholeNumber(option, value));
  if (Array.isArray(value)) return `{${value.map((key) => `"${String(key).replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
  return String(value);
}
