export { DatabaseUnavailable, InvalidOption, LeaseLost } from "./connection.js";
export { enqueue, type Enqueued, type EnqueueOptions, type Json, type Query } from "./enqueue.js";
export { Discard, RetryAfter, Snooze } from "./outcome.js";
export { type Effect, Run } from "./run.js";
export { type Handler, optionsFromEnvironment, runWorker, Worker, type WorkerOptions } from "./worker.js";
