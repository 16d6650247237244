export { DatabaseUnavailable, InvalidOption, LeaseLost, Locked } from "./connection.js";
export { enqueue, type Enqueued, type EnqueueOptions } from "./client/enqueue.js";
export { Discard, EffectHeld, EffectRepeated, RetryAfter, Snooze } from "./outcome.js";
export { runToken } from "./client/run_token.js";
export { EffectInDoubt, InvalidValue, type Json, type Query } from "./client/query.js";
export { type Level, type LogOptions } from "./run_logs.js";
export { type Effect, type Once, Run } from "./run.js";
export * from "./client/schedules.js";
export { type Handler, optionsFromEnvironment, runWorker, Worker, type WorkerOptions } from "./worker.js";
