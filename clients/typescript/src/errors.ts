/** What a handler throws to request another outcome than a failure, and the loss of a lease. */

/** The run is dead, without further attempts. */
export class Discard extends Error {}

/** The attempt failed; the next one is due after `seconds`. `pauseLimit`: until then no run of its limit key starts. */
export class RetryAfter extends Error {
  constructor(
    readonly seconds: number,
    message = `retry after ${seconds} s`,
    readonly pauseLimit = false,
  ) {
    super(message);
  }
}

/** The run is due again after `seconds`. The attempt does not count. */
export class Snooze extends Error {
  constructor(readonly seconds: number) {
    super(`snooze for ${seconds} s`);
  }
}

/** Another worker may have the run: stop, and roll back what is not committed. */
export class LeaseLost extends Error {}

/** The database cannot be reached at the moment. */
export class DatabaseUnavailable extends Error {}
