/** Schedules in the caller's transaction. TEST_DSN names a database. */

import assert from "node:assert/strict";
import { after, test } from "node:test";

import pg from "pg";

import {
  getSchedule, InvalidValue, listSchedules, Locked, pauseSchedules, resumeSchedules, schedule, type ScheduleDefinition, scheduleMany, type ScheduleOptions,
  unschedule, unscheduleAll,
} from "../src/index.js";

const pool = new pg.Pool({ connectionString: process.env.TEST_DSN!, max: 2 });
const query = (sql: string, params: any[]) => pool.query(sql, params);
after(() => pool.end());

test("a schedule exists if, and only if, the transaction commits", async () => {
  const client = await pool.connect();
  const inTransaction = (sql: string, params: any[]) => client.query(sql, params);
  for (const [end, exists] of [["rollback", false], ["commit", true]] as const) {
    await client.query("begin");
    const made = await schedule(inTransaction, "customers/42-report", "send_report", { customer: 42 }, { cron: "0 8 * * MON" });
    assert.equal(made.answer, "created");
    await client.query(end);
    assert.equal((await getSchedule(query, "customers/42-report")) !== null, exists);
  }
  client.release();
  assert.equal(await unschedule(query, "customers/42-report"), true);
  assert.equal(await unschedule(query, "customers/42-report"), false);
});

test("each argument of the SQL function is an option, and is read as it was written", async () => {
  const [startsAt, endsAt] = [new Date("2031-01-04T08:00:00Z"), new Date("2032-01-04T08:00:00.5Z")];
  const definitions: ScheduleDefinition[] = [
    {
      name: "options/cron", jobType: "send_report", payload: { customer: 42, twoWords: [1.5] }, cron: "0 8 * * MON", timeZone: "Asia/Tokyo", startsAt, endsAt,
      queue: "mail", priority: 5, limitKey: "smtp", concurrencyPolicy: "Forbid", catchUp: "All", catchUpLimit: 7, startingDeadlineSeconds: 60,
      jitterSeconds: 5, dstGap: "Skip", dstOverlap: "Both", suspended: true, suspendAfterDead: 3, maxAttempts: 2, timeoutSeconds: 30,
      backoff: "fixed", backoffBaseSeconds: 1, backoffCapSeconds: 2, expectSuccessWithinSeconds: 3600, alertAfterMissed: 2,
    },
    { name: "options/every", jobType: "sync", everySeconds: 5400, startsAt },
    { name: "options/moment", jobType: "trial_ends", at: startsAt },
  ];
  assert.deepEqual((await scheduleMany(query, definitions)).map((made) => made.answer), ["created", "created", "created"]);
  assert.deepEqual((await scheduleMany(query, definitions)).map((made) => made.answer), ["unchanged", "unchanged", "unchanged"]);
  const first = await listSchedules(query, "options/*", { count: 2 });
  const rest = await listSchedules(query, "options/*", { after: first.at(-1)!.name });
  assert.deepEqual([...first, ...rest].map((found) => found.definition), definitions);
  const { rows } = await pool.query(`select array(select unnest(proargnames[:pronargs]) order by 1) as known, array(
    select distinct key from wakeboard.list_schedules('options/*'), jsonb_object_keys(definition) as key order by 1) as given
    from pg_proc where oid = 'wakeboard.schedule'::regproc`);
  assert.deepEqual(rows[0].given, rows[0].known);
  assert.equal(await pauseSchedules(query, "options/*", "the bill is not paid"), 3);
  const { paused, generation, nextRunAt } = (await getSchedule(query, "options/every"))!;
  assert.deepEqual({ paused, generation, nextRunAt }, { paused: true, generation: 1, nextRunAt: null });
  assert.equal(await resumeSchedules(query, "options/*", "the bill is paid"), 3);
  const { rows: audit } = await pool.query("select distinct action, reason from wakeboard.audit_log order by action");
  assert.deepEqual(audit, [{ action: "pause", reason: "the bill is not paid" }, { action: "resume", reason: "the bill is paid" }]);
  assert.equal(await unscheduleAll(query, "options/*"), 3);
});

test("what is refused is an InvalidValue that says what to write", async () => {
  const refused = (options: any, message: RegExp) =>
    assert.rejects(schedule(query, "customers/43", "send_report", {}, options), (error) => error instanceof InvalidValue && message.test(error.message));
  await refused({ cron: "0 25 * * *" }, /^schedule "0 25 \* \* \*": the hour is 0-23, .* write for example/);
  await refused({ cron: "@daily", everySeconds: 5 }, /^cron, everySeconds and at exclude each other/);
  await refused({ at: new Date("tomorrow") }, /^at is an invalid Date/);
  for (const [value, shown] of [[0.5, "0.5"], ["20", '"20"'], [[20], "[ 20 ]"], [NaN, "NaN"], [20n, "20n"]] as const) {
    for (const option of ["everySeconds", "timeoutSeconds", "priority"]) {
      const isRefused = (error: unknown) => error instanceof InvalidValue && error.message === `${option} is ${shown}; write a whole number`;
      await assert.rejects(schedule(query, "customers/43", "send_report", {}, { [option]: value } as any), isRefused);
    }
  }
  for (const unknown of ["crom", "every", "timeout_s", "toString"]) {
    await refused({ [unknown]: 5400 }, new RegExp(`^${unknown} is no option of a schedule; write one of .*everySeconds`));
  }
  const several = [{ name: "customers/42", jobType: "sync" }, { name: "customers/43", jobType: "sync", timeoutSeconds: 1.5 }];
  await assert.rejects(scheduleMany(query, several), /^InvalidValue: schedules\[1\] \(customers\/43\): timeoutSeconds is 1.5; write/);
  await assert.rejects(getSchedule(query, "customers/*"), InvalidValue);
  const locked = Promise.reject(Object.assign(new Error("it is locked; try again"), { code: "55P03" }));
  await assert.rejects(unschedule(() => locked, "customers/43"), Locked);
});

test("a sentence of the server names the option, and leaves values as they are", async () => {
  const every = { everySeconds: 60 };
  const wrong: ScheduleOptions[] = [
    { timeZone: "Etc/time_zone" }, { everySeconds: 0 }, { queue: "no queue" }, { priority: 6 }, { limitKey: "limit_key:" },
    { concurrencyPolicy: "catch_up" as any }, { catchUp: "catch_up" as any }, { catchUpLimit: 0 }, { startingDeadlineSeconds: 0 },
    { jitterSeconds: -1 }, { dstGap: "dst_gap" as any }, { dstOverlap: "First_" as any }, { ...every, suspendAfterDead: 0 }, { maxAttempts: 0 },
    { timeoutSeconds: 0 }, { backoff: "linear_" as any }, { backoffBaseSeconds: 0 }, { backoffCapSeconds: 0 },
    { ...every, expectSuccessWithinSeconds: 0 }, { ...every, alertAfterMissed: 0 },
  ];
  for (const options of wrong) {
    const [option, value] = Object.entries(options).at(-1)!;
    const shown = typeof value === "string" ? `"${value}"` : option === "everySeconds" ? `"00:00:00"` : value;
    await assert.rejects(schedule(query, "customers/43", "send_report", {}, options), new RegExp(`^InvalidValue: ${option}( is)? ${shown}[;:]`));
  }
  const sentences: [options: ScheduleOptions, sentence: RegExp][] = [
    [{ expectSuccessWithinSeconds: 60 }, /^InvalidValue: expectSuccessWithinSeconds counts from the ticks/],
    [{ ...every, alertAfterMissed: 2 }, /^InvalidValue: alertAfterMissed counts ticks that miss expectSuccessWithinSeconds, /],
    [{ startsAt: new Date() }, /^InvalidValue: startsAt and endsAt bound the ticks/],
    [{ backoffBaseSeconds: 9, backoffCapSeconds: 5 }, /^InvalidValue: backoffCapSeconds is 5, below backoffBaseSeconds 9; write a backoffCapSeconds of/],
  ];
  for (const [options, sentence] of sentences) {
    await assert.rejects(schedule(query, "customers/43", "send_report", {}, options), sentence);
  }
  const named = [{ name: "customers/job_type", jobType: "send_report" }, { name: "customers/43", jobType: "send_report" }];
  await assert.rejects(scheduleMany(query, named), /schedules\[0\] \(customers\/job_type\): name "?.*job_type/);
  await assert.rejects(unschedule(query, "customers/*"), /; unscheduleAll takes a pattern$/);
});
