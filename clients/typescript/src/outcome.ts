/** Turns what a handler returned or threw into the outcome to report. */

import { LeaseLost, NamedError } from "./connection.js";
import { redact } from "./redact.js";

/** Throw it: the run is dead, without further attempts. */
export class Discard extends NamedError {}

/** What asks for another attempt after `seconds`. */
class Delay extends NamedError {
  constructor(readonly seconds: number, message: string) {
    super(message);
    if (!(seconds >= 0 && seconds <= MAX_DELAY)) throw new TypeError(`'${seconds}' is no number of seconds from 0 to ${MAX_DELAY}`);
  }
}

/** Throw it: the attempt failed, and the next one is due after `seconds`. */
export class RetryAfter extends Delay {
  constructor(seconds: number, message = `retry after ${seconds} s`) { super(seconds, message); }
}

/** Throw it: the run is due again after `seconds`, at least 0.1 s. The attempt does not count, so nothing else bounds how
 * often a run snoozes. */
export class Snooze extends Delay {
  constructor(seconds: number) { super(seconds, `snooze for ${seconds} s`); }
}

/** The run `runId` is executing the effect, which happens once for ever: this run is due again in five seconds. */
export class EffectHeld extends Snooze {
  constructor(key: string, readonly runId: string) {
    super(5);
    this.message = `run ${runId} is executing the effect '${key}'; ${this.message}`;
  }
}

/** A handler gave two effects of one attempt the same key. */
export class EffectRepeated extends NamedError {
  constructor(key: string) {
    super(`this attempt already had the effect '${key}'. An effect happens once for each key, so each effect of a run needs its`
      + " own key (in a loop, put the item into it).");
  }
}

const [MIN_SNOOZE, MAX_DELAY] = [0.1, 31_536_000]; // seconds; a year
const MAX_RESULT = 16_384; // characters of JSON
const [MAX_ERROR, MAX_STACK] = [2_000, 16_000]; // characters
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Why an attempt is stopped before its handler ends. After "lost" its outcome is dropped. */
export type StopReason = "cancelled" | "timed out" | "lost" | "shutdown";

export type Outcome =
  | { kind: "complete"; result: string | null }
  | { kind: "fail"; outcome: string; type: string; error: string; stack: string; delay: number | null }
  | { kind: "release"; delay: number; reason: "worker_stopped" | "not_started" | "snoozed" | "disconnected" };

/** The outcome of a handler that returned. Text that Postgres cannot store is replaced; a long result becomes text. */
export function success(result: unknown): Outcome {
  const encode = (_: string, value: unknown) =>
    typeof value === "string" ? storable(value) : typeof value === "bigint" ? String(value) : value;
  let text: string | undefined;
  try {
    text = JSON.stringify(result ?? undefined, encode); // undefined for no result, and for a function
  } catch (error) {
    text = JSON.stringify(`a result that is not JSON: ${readable(error)}`);
  }
  if (text !== undefined && text.length > MAX_RESULT) text = JSON.stringify(storable(text.slice(0, MAX_RESULT / 2)));
  return { kind: "complete", result: text ?? null };
}

/** The outcome of a handler that threw, possibly because it was stopped. */
export function failure(error: unknown, stopped: StopReason | null, timeoutS: number): Outcome {
  if (error instanceof Snooze) return { kind: "release", delay: Math.max(MIN_SNOOZE, error.seconds), reason: "snoozed" };
  const isUnknown = error instanceof LeaseLost || (error instanceof Error && "code" in error && error.code === "WB001");
  if (isUnknown) // the database of this connection does not know the lease; if it is lost, the release is refused
    return { kind: "release", delay: 1, reason: "disconnected" };
  const requested = error instanceof Discard || error instanceof RetryAfter;
  if (stopped === "shutdown" && !requested) return { kind: "release", delay: 0, reason: "worker_stopped" };
  if (stopped === "timed out" && !requested) {
    const text = `it ran longer than its timeout of ${timeoutS} s`;
    return { kind: "fail", outcome: "timed_out", type: "Timeout", error: text, stack: "", delay: null };
  }
  const { constructor, message, stack } = error instanceof Error ? error : new Error(readable(error));
  const [outcome, delay] = [error instanceof Discard ? "discarded" : "failed", error instanceof RetryAfter ? error.seconds : null];
  const type = readable(constructor?.name ?? "", 200);
  const texts = { type, error: readable(message ?? "", MAX_ERROR), stack: readable(stack ?? "", MAX_STACK) };
  return { kind: "fail", outcome, ...texts, delay };
}

/** What to report in place of an outcome that the database refuses. */
export function storableOutcome(outcome: Outcome, refusal: unknown): Outcome {
  if (outcome.kind === "complete") return { kind: "complete", result: JSON.stringify("a result that cannot be stored") };
  return { kind: "fail", outcome: "failed", type: "OutcomeRefused", error: readable(refusal), stack: "", delay: null };
}

/** The text of any value that may have been thrown: at most `longest` characters, with credentials masked. */
export function readable(value: unknown, longest = MAX_ERROR): string {
  try {
    return storable(redact(String(value), longest));
  } catch {
    return "a value without a text";
  }
}

function storable(text: string): string {
  return text.replaceAll("\0", "\ufffd").replace(LONE_SURROGATE, "\ufffd");
}
