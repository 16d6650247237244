export { enqueue } from "./enqueue.js";
export type { Enqueued, EnqueueOptions, Json, Query } from "./enqueue.js";
export { Discard, LeaseLost, RetryAfter, Snooze } from "./errors.js";
export { Run } from "./run.js";
export type { Effect } from "./run.js";
export { optionsFromEnvironment, Worker } from "./worker.js";
export type { Handler, WorkerOptions } from "./worker.js";
