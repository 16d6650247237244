/** Turns what a handler returned or threw into the outcome to report. */

import { Discard, RetryAfter, Snooze } from "./errors.js";

export const MAX_RESULT = 16_384; // characters of JSON
const MAX_ERROR = 2_000; // characters
const MAX_STACK = 16_000;

/** Why an attempt is stopped before its handler ends. After "lost" its outcome is dropped. */
export type StopReason = "cancelled" | "timed out" | "lost" | "shutdown";

export type Outcome =
  | { kind: "complete"; result: string | null }
  | { kind: "fail"; outcome: string; type: string; error: string; stack: string; delay: number | null; pause: boolean }
  | { kind: "release"; delay: number; reason: "worker_stopped" | "not_started" | "snoozed" | "disconnected" };

/** The outcome of a handler that returned. Text that Postgres cannot store is replaced; a long result becomes text. */
export function success(result: unknown): Outcome {
  if (result === undefined || result === null) return { kind: "complete", result: null };
  let text: string;
  try {
    text = JSON.stringify(result, (_, value) =>
      typeof value === "string" ? storable(value) : typeof value === "bigint" ? String(value) : value,
    );
  } catch (error) {
    text = JSON.stringify(storable(`a result that is not JSON: ${error}`));
  }
  return { kind: "complete", result: text.length > MAX_RESULT ? JSON.stringify(text.slice(0, MAX_RESULT / 2)) : text };
}

/** The outcome of a handler that threw, possibly because it was stopped. */
export function failure(error: unknown, stopped: StopReason | null, timeoutS: number): Outcome {
  if (error instanceof Snooze) return { kind: "release", delay: error.seconds, reason: "snoozed" };
  const requested = error instanceof Discard || error instanceof RetryAfter;
  if (stopped === "shutdown" && !requested) return { kind: "release", delay: 0, reason: "worker_stopped" };
  if (stopped === "timed out" && !requested) return timedOut(timeoutS);
  const found = error instanceof Error ? error : new Error(String(error));
  return {
    kind: "fail",
    outcome: error instanceof Discard ? "discarded" : "failed",
    type: found.constructor.name,
    error: storable(withoutPasswords(found.message)).slice(0, MAX_ERROR),
    stack: storable(withoutPasswords(found.stack ?? "")).slice(0, MAX_STACK),
    delay: error instanceof RetryAfter ? error.seconds : null,
    pause: error instanceof RetryAfter && error.pauseLimit,
  };
}

export function timedOut(timeoutS: number): Outcome {
  const error = `it ran longer than its timeout of ${timeoutS} s`;
  return { kind: "fail", outcome: "timed_out", type: "Timeout", error, stack: "", delay: null, pause: false };
}

function storable(text: string): string {
  return text.replaceAll("\0", "\ufffd").replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}

function withoutPasswords(text: string): string {
  return text.replace(/:\/\/([^\s:/@]*):[^\s/@]+@/g, "://$1:…@");
}
