// graphile-worker: its own benchmark's settings, with a local queue of 1000 in place of 500, which is faster here.
import { DSN, askedToStop, began, inBatches, installed, serve } from './node_side.mjs'

const { Logger, makeWorkerUtils, run, runMigrations } = installed('graphile-worker')
const AT_ONCE = 24

const silent = new Logger(() => () => {})
const preset = {
  worker: {
    connectionString: DSN,
    concurrentJobs: AT_ONCE,
    maxPoolSize: AT_ONCE + 1,
    localQueue: { size: 1000, refetchDelay: { durationMs: 10 } },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger: silent
  }
}
const taskList = { noop: payload => began(payload) }

async function enqueue (jobs) {
  const utils = await makeWorkerUtils({ connectionString: DSN, logger: silent })
  await utils.withPgClient(client => client.query('select 1'))
  await inBatches(jobs, size =>
    utils.addJobs(Array.from({ length: size }, () => ({ identifier: 'noop', payload: {} }))))
  await utils.release()
}

async function work () {
  const stop = askedToStop()
  const runner = await run({ preset, taskList, noHandleSignals: true })
  await stop
  await runner.stop()
}

await serve({ prepare: () => runMigrations({ preset, taskList }), enqueue, work })
