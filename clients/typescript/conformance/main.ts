/** The worker that `wakeboard conformance` tests, with the handlers that docs/workers-in-any-language.md describes. */

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { Discard, EffectInDoubt, EffectRepeated, InvalidValue, type Once, type Query, RetryAfter, type Run, runWorker, schedule as createSchedule, Snooze } from "../src/index.js";

const notes = new pg.Pool({ connectionString: process.env.CONFORMANCE_DSN!, max: 5 });
const NOTE = "select conformance.note($1, $2, $3)";
const note = (run: Run, what: string) => notes.query(NOTE, [run.id, run.epoch, what]);

async function wait(run: Run) {
  run.progress(0.5, "half");
  await note(run, "started");
  try {
    await sleep(run.payload.seconds * 1000, undefined, { signal: run.signal });
  } catch (stopped) {
    await note(run, "stopped");
    throw stopped;
  }
  await note(run, "finished");
  return { epoch: run.epoch };
}

function fail(run: Run) {
  if (run.attempt > run.payload.times) return { attempt: run.attempt };
  switch (run.payload.how) {
    case "discard":
      throw new Discard("no such customer");
    case "retry":
      throw new RetryAfter(run.payload.seconds, "no such customer");
    case "snooze":
      throw new Snooze(run.payload.seconds);
    default:
      throw new Error(run.payload.message ?? "no such customer");
  }
}

function log(run: Run) {
  for (let line = 1; line <= run.payload.lines; line += 1) run.log(`line ${line}`);
  run.log(run.payload.text, "error");
  if (run.payload.fails) throw new Error("no such customer");
}

async function steps(run: Run) {
  await sleep((run.payload.seconds ?? 0) * 1000, undefined, { signal: run.signal });
  const drawn = await run.step("draw", async () => {
    await note(run, "draw");
    return Math.random();
  });
  await note(run, `drawn ${drawn}`);
  if (run.attempt === 1) await run.step("fail", () => { throw new Error("no such customer"); });
  return { drawn };
}

async function effect(run: Run) {
  await sleep((run.payload.seconds ?? 0) * 1000, undefined, { signal: run.signal });
  const done = await run.effect(run.payload.key ?? "mail", howOften(run), async ({ done, inDoubt, providerKey }) => {
    await note(run, `${done ? "done" : inDoubt ? "in doubt" : "new"} ${providerKey}`);
    await sleep((run.payload.holds ?? 0) * 1000, undefined, { signal: run.signal });
    if (run.attempt === 1 && !done) throw new Error("within the effect");
    return done;
  });
  if (run.attempt === 2) throw new Error("after the effect");
  const repeated = run.effect(run.payload.key ?? "mail", howOften(run), async () => "a second effect of this key");
  await assert.rejects(repeated, EffectRepeated);
  if (run.payload.key) await run.effect(run.payload.key, async () => "per run, the key is another one");
  return { done };
}

const howOften = (run: Run): Once => ({ once: run.payload.key ? "forever" : "per_run" });

async function inTransaction<Result>(work: (query: Query) => Promise<Result>, end = "commit"): Promise<Result> {
  const client = await notes.connect();
  try {
    await client.query("begin");
    const result = await work((sql, params) => client.query(sql, params));
    await client.query(end);
    return result;
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}

async function once(run: Run) {
  const pay = async (query: Query) => {
    const first = await run.once(query, run.payload.key ?? "payment", howOften(run));
    if (first) await query(NOTE, [run.id, run.epoch, "paid"]);
    return first;
  };
  const answer = await inTransaction(pay).then((mine) => ({ mine }), refused(EffectInDoubt));
  if ("mine" in answer && run.attempt === 1) throw new Error("after the commit");
  return answer;
}

async function schedule({ payload: { name, cron, at, rollback } }: Run) {
  const options = { cron, at: at && new Date(at) };
  const create = (query: Query) => createSchedule(query, name, "conformance.echo", { name }, options);
  return inTransaction(create, rollback ? "rollback" : "commit").then(({ answer }) => ({ answer }), refused(InvalidValue));
}

/** What a handler returns after an error of this class. */
const refused = (kind: new (...given: any[]) => Error) => (error: unknown) => {
  if (error instanceof kind) return { refused: error.message };
  throw error;
};

async function crash(run: Run) {
  await note(run, "started");
  process.kill(process.pid, "SIGKILL");
  await sleep(60_000);
}

/** What a handler may return or throw by mistake. */
const oddities: Record<string, (run: Run) => unknown> = {
  "a key with NUL": () => ({ "a\0b": 1 }),
  "half a character": () => "😀".repeat(10_000),
  "a cycle": () => {
    const result: Record<string, unknown> = {};
    return (result.self = result);
  },
  "a function": () => () => 1,
  "progress NaN": (run) => run.progress(0 / 0),
  "an error without a text": () => { throw Object.create(null); },
  "an error with an object as its text": () => { throw Object.assign(new Error(), { message: {}, stack: {} }); },
  "a delay that is no number": () => { throw new RetryAfter(NaN); },
  "a snooze without a delay": () => { throw new Snooze(undefined as any); },
};
const odd = (run: Run) => oddities[run.payload.what]!(run);

const handlers = { odd, echo: (run: Run) => run.payload, wait, fail, log, steps, effect, once, schedule, crash };
const named = Object.entries(handlers).map(([name, handler]) => [`conformance.${name}`, handler] as const);
await runWorker(Object.fromEntries(named));
