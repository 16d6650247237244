/** Enqueueing in transactions of other libraries, and by RPC as Supabase does it. TEST_DSN names an empty database. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";

import { PrismaPg } from "@prisma/adapter-pg";
import { type SQL, sql as template } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";

import * as wakeboard from "../src/index.js";
import { PrismaClient, type Transaction } from "./prisma_client.js";

const { enqueue, InvalidValue, schedule } = wakeboard;
const pool = new pg.Pool({ connectionString: process.env.TEST_DSN!, max: 2 });
const count = async () => (await pool.query("select count(*)::int as runs from wakeboard.job_runs")).rows[0].runs;
after(() => pool.end());
const PRIORITY = (error: unknown) => error instanceof InvalidValue && error.message.startsWith("priority is 6; write a whole number");

test("a run exists if, and only if, the transaction commits", async () => {
  const client = await pool.connect();
  const earlier = await count();
  await client.query("begin");
  await enqueue((sql, params) => client.query(sql, params), "send_receipt", { order: 41 });
  await client.query("rollback");
  assert.equal(await count(), earlier);
  await client.query("begin");
  const run = await enqueue((sql, params) => client.query(sql, params), "send_receipt", { order: 42 });
  await client.query("commit");
  client.release();
  assert.equal(await count(), earlier + 1);
  const state = await pool.query("select status from wakeboard.get_run($1, $2)", [run.id, run.uuid]);
  assert.equal(state.rows[0].status, "queued");
});

test("each option reaches the run", async () => {
  const runAt = new Date("2030-01-02T03:04:05Z");
  const options = { queue: "mail", priority: 5, runAt, limitKey: "smtp", maxAttempts: 2, timeoutSeconds: 30 };
  const query = (sql: string, params: any[]) => pool.query(sql, params);
  const { id } = await enqueue(query, "send_mail", [1], { ...options, idempotencyKey: "a 'key'" });
  const { rows } = await pool.query("select * from wakeboard.job_runs where id = $1", [id]);
  const { queue, priority, run_at, limit_key, max_attempts, timeout_s, idempotency_key, payload } = rows[0];
  assert.deepEqual(
    { queue, priority, run_at, limit_key, max_attempts, timeout_s, idempotency_key, payload },
    { queue: "mail", priority: 5, run_at: runAt, limit_key: "smtp", max_attempts: 2, timeout_s: 30, idempotency_key: "a 'key'", payload: [1] },
  );
  const unique = { uniqueForSeconds: 60, uniqueBy: ['a "quoted", key'] };
  const first = await enqueue(query, "sync", { 'a "quoted", key': 1, other: 1 }, unique);
  const second = await enqueue(query, "sync", { 'a "quoted", key': 1, other: 2 }, unique);
  assert.deepEqual([first.created, second.created, second.id], [true, false, first.id]);
  const lines = { uniqueForSeconds: 60, uniqueBy: ["a\nb"] };
  const created = [1, 2].map(async (value) => (await enqueue(query, "sync", { "a\nb": value }, lines)).created);
  assert.deepEqual(await Promise.all(created), [true, true]);
  const nothing: any = { queue: null, idempotencyKey: null, limitKey: null, runAt: null, uniqueBy: null, after: null };
  const plain = await enqueue(query, "sync", {}, nothing);
  assert.deepEqual((await pool.query("select queue, limit_key from wakeboard.job_runs where id = $1", [plain.id])).rows[0], { queue: "default", limit_key: null });
  const trace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "vendor=1" };
  const traced = await enqueue(query, "sync", {}, trace);
  const stored = await pool.query("select traceparent, tracestate from wakeboard.job_trace_contexts where run_id = $1", [traced.id]);
  assert.deepEqual(stored.rows[0], trace);
  const later = await enqueue(query, "sum_up", {}, { after: [id, first] });
  const parents = "select array_agg(parent_id::text order by place) as ids from wakeboard.run_dependencies where run_id = $1";
  assert.deepEqual((await pool.query(parents, [later.id])).rows[0].ids, [id, first.id]);
  await assert.rejects(enqueue(query, "sum_up", {}, { after: [{ id, uuid: first.uuid }] }), /which the database has lost/);
});

test("Drizzle's own transaction enqueues", async () => {
  const db = drizzle(pool);
  type Transaction = { execute(statement: SQL): PromiseLike<unknown> };
  const drizzled = (tx: Transaction) => (text: string, params: any[]) => {
    const parts = text.split(/\$\d+/).map((part) => template.raw(part));
    return tx.execute(template.join(parts.flatMap((part, at) => (at ? [template`${params[at - 1]}`, part] : [part]))));
  };
  const earlier = await count();
  await assert.rejects(
    db.transaction(async (tx) => {
      await enqueue(drizzled(tx), "send_receipt", { order: 43 });
      throw new Error("rolled back");
    }),
    /rolled back/,
  );
  assert.equal(await count(), earlier);
  await assert.rejects(db.transaction((tx) => enqueue(drizzled(tx), "send_receipt", {}, { priority: 6 })), PRIORITY);
  const run = await db.transaction((tx) => enqueue(drizzled(tx), "send_receipt", { order: 44 }, { priority: 5 }));
  assert.equal(run.created, true);
  assert.equal(await count(), earlier + 1);
});

test("Prisma's own transaction enqueues", async () => {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.TEST_DSN! }) });
  const inPrisma = (tx: Transaction) => (sql: string, params: any[]) => tx.$queryRawUnsafe(sql, ...params);
  const earlier = await count();
  await assert.rejects(
    prisma.$transaction(async (tx) => {
      await enqueue(inPrisma(tx), "send_receipt", { order: 45 });
      throw new Error("rolled back");
    }),
    /rolled back/,
  );
  assert.equal(await count(), earlier);
  const options = { priority: 5, runAt: new Date("2030-01-02T03:04:05Z"), uniqueForSeconds: 60, uniqueBy: ["order"] };
  await assert.rejects(prisma.$transaction((tx) => enqueue(inPrisma(tx), "send_receipt", {}, { priority: 6 })), PRIORITY);
  const run = await prisma.$transaction((tx) => enqueue(inPrisma(tx), "send_receipt", { order: 46 }, options));
  assert.equal(run.created, true);
  assert.equal(await count(), earlier + 1);
  await prisma.$disconnect();
});

test("a user of Supabase enqueues by RPC what the function allows, and nothing else", async () => {
  const readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
  const statements = /```sql\n(create function[^`]+)```/.exec(readme)![1]!;
  // What Supabase has: roles, and the user's id from the claims that PostgREST sets for each request.
  await pool.query(`
    do $$ begin create role anon; exception when duplicate_object then null; end $$;
    do $$ begin create role authenticated; exception when duplicate_object then null; end $$;
    create schema auth; grant usage on schema auth to public;
    create function auth.uid() returns uuid language sql stable as
      $$ select (current_setting('request.jwt.claims')::jsonb ->> 'sub')::uuid $$`);
  await pool.query(statements);
  const user = "5d3f8a4e-0c6b-4e7e-9a55-2f2f0b3a7c11";
  const request = async (role: string, statement: string) => {
    const client = await pool.connect();
    try {
      await client.query("begin");
      await client.query("select set_config('request.jwt.claims', $1, true)", [JSON.stringify({ sub: user })]);
      await client.query(`set local role ${role}`);
      const { rows } = await client.query(statement);
      await client.query("commit");
      return rows[0];
    } catch (error) {
      await client.query("rollback");
      throw error;
    } finally {
      client.release();
    }
  };
  const { run } = await request("authenticated", "select public.request_export('csv') as run");
  const { rows } = await pool.query("select payload from wakeboard.job_runs where id = $1", [run]);
  assert.deepEqual(rows[0].payload, { user, format: "csv" });
  await assert.rejects(request("anon", "select public.request_export('csv')"), { code: "42501" });
  await assert.rejects(request("authenticated", "select wakeboard.enqueue('export')"), { code: "42501" });
});

test("a wrong argument is refused with what to write instead", async () => {
  const query = (sql: string, params: any[]) => pool.query(sql, params);
  const refused = (options: any, message: RegExp) =>
    assert.rejects(enqueue(query, "sync", {}, options), (error) => error instanceof InvalidValue && message.test(error.message));
  await refused({ idempotency_key: "x" }, /^idempotency_key is no option of enqueue; write one of queue, /);
  await refused({ toString: "x" }, /^toString is no option/);
  await refused({ runAt: "tomorrow" }, /^runAt is no Date; write/);
  await refused({ priority: "high" }, /^priority is "high"; write a whole number$/);
  await refused({ timeoutSeconds: "20" }, /^timeoutSeconds is "20"; write a whole number$/);
  await refused({ maxAttempts: [2] }, /^maxAttempts is \[ 2 \]; write a whole number$/);
  await refused({ timeoutSeconds: 0 }, /^timeoutSeconds is 0; write a number of seconds/);
  await refused({ uniqueForSeconds: 0 }, /^uniqueForSeconds is 0; write/);
  await refused({ uniqueBy: ["unique_by"] }, /^uniqueForSeconds is null; write/);
  await refused({ limitKey: "limit_key:" }, /^limitKey is "limit_key:"; write/);
  const circle: any = {};
  circle.self = circle;
  const payloads: [payload: any, message: RegExp][] = [
    [{ a: NaN }, /^payload\.a is NaN, which JSON cannot represent; write it in quotes as "NaN"$/],
    [{ a: [{ b: 5n }] }, /^payload\.a\[0\]\.b is 5, which JSON cannot represent; write it in quotes as "5"$/],
    [circle, /^payload is not JSON: TypeError: .*circular/],
  ];
  for (const [payload, message] of payloads) {
    const isRefused = (error: unknown) => error instanceof InvalidValue && message.test(error.message);
    await assert.rejects(enqueue(query, "sync", payload), isRefused);
    await assert.rejects(schedule(query, "customers/43", "sync", payload), isRefused);
  }
  await assert.rejects(enqueue(pool as any, "sync"), /^InvalidValue: query is no function; write/);
  const client = new pg.Client();
  const db = { pool, query: async function (sql: string, params: any[]) { return this.pool.query(sql, params); } };
  for (const unbound of [pool.query, client.query, db.query]) {
    const sentence = /^InvalidValue: query is a method without its object; write \(sql, params\) => client\.query/;
    await assert.rejects(enqueue(unbound as any, "sync"), sentence);
    await assert.rejects(schedule(unbound as any, "customers/43", "sync"), sentence);
  }
  assert.equal((await enqueue(pool.query.bind(pool), "sync")).created, true);
  assert.equal((await enqueue(function (sql, params) { return pool.query(sql, params); }, "sync")).created, true);
});

test("the name of each error is that of its class", () => {
  const classes = Object.values(wakeboard).filter((value: any) => value.prototype instanceof Error) as (new (...given: any[]) => Error)[];
  assert.ok(classes.length >= 10, String(classes.length));
  for (const each of classes) assert.equal(new each(1, "2").name, each.name);
  assert.equal(new (class Closed extends wakeboard.Discard {})("the shop is closed").name, "Closed");
});
