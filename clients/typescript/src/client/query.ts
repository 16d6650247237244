/** Calls SQL functions in the caller's transaction, over any client that executes SQL with the parameters $1, $2, … */

import { inspect } from "node:util";

import { Locked, NamedError } from "../connection.js";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Executes SQL and returns its rows, or an object with `rows`. The README has it for pg, Prisma and Drizzle. */
export type Query = (sql: string, params: any[]) => PromiseLike<unknown>;

const LOCKED = "another transaction keeps a lock that this needs; try again";
const WRITE = "write (sql, params) => client.query(sql, params)";
const SHOWN = 60; // characters of a value in a message

/** An argument is invalid. The message names it and says what to write instead. The transaction has failed: roll back. */
export class InvalidValue extends NamedError {}

/** A run began the effect, which happens once for ever, and its end is not recorded: roll back. `run.effect` settles it. */
export class EffectInDoubt extends NamedError {}

/** The rows of a statement. Throws InvalidValue and Locked, whose cause is the client's error; all else as the client does. */
export async function rowsOf<Row = any>(query: Query, sql: string, params: unknown[]): Promise<Row[]> {
  if (typeof query !== "function") throw new InvalidValue(`query is no function; ${WRITE}`);
  try {
    const answer: any = await query.call(NO_OBJECT, sql, params);
    return answer.rows ?? answer;
  } catch (error) {
    throw refusal(error) ?? error;
  }
}

/** The `this` of `query`. Only a method that was passed without its object, such as `client.query`, reads it. */
const NO_OBJECT = new Proxy({}, {
  get() {
    throw new InvalidValue(`query is a method without its object; ${WRITE}`);
  },
});

/** A value in a message: a text is in quotes. */
function shown(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value) : inspect(value, { depth: 0, breakLength: Infinity });
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}

/** A whole number. The server checks its bounds. */
export function wholeNumber(name: string, value: unknown): number {
  if (Number.isSafeInteger(value)) return value as number;
  throw new InvalidValue(`${name} is ${shown(value)}; write a whole number`);
}

/** A time as Postgres reads it. */
export function encodedTime(name: string, value: unknown): string {
  if (value instanceof Date && !isNaN(+value)) return value.toISOString();
  throw new InvalidValue(`${name} is ${value instanceof Date ? "an invalid Date" : "no Date"}; write for example new Date("2027-01-04T08:00:00Z")`);
}

/** A payload as JSON. Throws InvalidValue for what JSON.stringify would store as null, or refuse. */
export function encodedPayload(payload: unknown): string {
  const places = new Map<unknown, string>();
  const checked = function (this: unknown, key: string, value: unknown): unknown {
    const within = places.get(this);
    const place = within === undefined ? "payload" : Array.isArray(this) ? `${within}[${key}]` : `${within}.${key}`;
    if (typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value)))
      throw new InvalidValue(`${place} is ${value}, which JSON cannot represent; write it in quotes as "${value}"`);
    if (typeof value === "object" && value !== null) places.set(value, place);
    return value;
  };
  try {
    return JSON.stringify(payload, checked);
  } catch (error) {
    if (error instanceof InvalidValue) throw error;
    throw new InvalidValue(`payload is not JSON: ${String(error).split("\n")[0]}`, { cause: error });
  }
}

/** The server's error is within that of Drizzle (`cause`) and of Prisma (`meta.driverAdapterError`). */
function refusal(error: any): Error | null {
  if (typeof error !== "object" || error === null) return null;
  const [code, message] = [String(error.originalCode ?? error.code), error.originalMessage ?? error.message];
  if (code.length === 5 && code.startsWith("22")) return new InvalidValue(inTypeScript(message), { cause: error });
  if (code === "WB006") return new EffectInDoubt(message, { cause: error });
  if (code === "55P03") return new Locked(message.endsWith("try again") ? message : LOCKED, { cause: error });
  return refusal(error.meta?.driverAdapterError ?? error.cause);
}

/** The option of this client for an argument of an SQL function, or the function for one of SQL: timeoutSeconds for timeout_s. */
export function optionOf(name: string): string {
  const unit = name === "every" || name === "unique_for" ? "_seconds" : "";
  return `${name.replace(/_s$/, "_seconds")}${unit}`.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}

// A value in quotes, and the name of a schedule in parentheses, stay as they are; so they are matched first.
const NAMES = /"(?:[^"\\]|\\.)*"|'[^'\s]*'|\([^)]*\)|\b[a-z]+(?:_[a-z]+)+\b|\bevery(?= is | and at )/g;

/** A sentence of the server with the names of this client. */
function inTypeScript(sentence: string): string {
  return sentence.replace(NAMES, (name) => (/^[a-z]/.test(name) ? optionOf(name) : name));
}
