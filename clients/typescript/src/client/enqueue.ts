/** Enqueues runs in the caller's transaction. */

import { type Json, type Query, rowsOf } from "./query.js";

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

/** Enqueue a run. It exists if, and only if, the transaction of `query` commits. Throws InvalidValue and Locked. */
export async function enqueue(query: Query, jobType: string, payload: Json = {}, options: EnqueueOptions = {}): Promise<Enqueued> {
  const uniqueBy = options.uniqueBy && `{${options.uniqueBy.map((key) => `"${key.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
  const parents = options.after?.map((run) => (typeof run === "string" ? { id: run, uuid: null } : run));
  const given: [name: string, type: string, value: unknown][] = [
    ["queue", "text", options.queue],
    ["priority", "integer", options.priority],
    ["run_at", "timestamptz", options.runAt?.toISOString()],
    ["idempotency_key", "text", options.idempotencyKey],
    ["limit_key", "text", options.limitKey],
    ["max_attempts", "integer", options.maxAttempts],
    ["timeout_s", "integer", options.timeoutSeconds],
    ["unique_for", "integer", options.uniqueForSeconds],
    ["unique_by", "text[]", uniqueBy],
    ["if_exists", "text", options.ifExists],
    ["after", "bigint[]", parents && `{${parents.map(({ id }) => id).join(",")}}`],
    ["after_uuids", "uuid[]", parents && `{${parents.map(({ uuid }) => uuid ?? "null").join(",")}}`],
    ["traceparent", "text", options.traceparent],
    ["tracestate", "text", options.tracestate],
  ];
  const named = given.filter(([, , value]) => value != null);
  const args = named.map(([name, type], index) => `, ${name} => $${index + 3}::text::${type}`).join("");
  const sql = `select id::text, uuid::text, created, status from wakeboard.enqueue($1::text, $2::text::jsonb${args})`;
  const values = [jobType, JSON.stringify(payload), ...named.map(([, , value]) => String(value))];
  return (await rowsOf<Enqueued>(query, sql, values))[0]!;
}
