// pg-boss: two local workers that fetch a thousand jobs each, at once while batches are full.
import { DSN, askedToStop, began, inBatches, installed, serve } from './node_side.mjs'

const { PgBoss } = installed('pg-boss')
const QUEUE = 'noop'

async function started (options) {
  const boss = new PgBoss({ connectionString: DSN, ...options })
  boss.on('error', error => console.error(error))
  await boss.start()
  return boss
}

async function prepare () {
  const boss = await started({ useListenNotify: true })
  await boss.createQueue(QUEUE, { notify: true })
  await boss.stop({ graceful: false })
}

async function enqueue (jobs) {
  const boss = await started({ supervise: false, schedule: false })
  await inBatches(jobs, size => boss.insert(QUEUE, Array.from({ length: size }, () => ({ data: {} }))))
  await boss.stop({ graceful: false })
}

async function work () {
  const stop = askedToStop()
  const boss = await started({ useListenNotify: true })
  const options = {
    batchSize: 1000,
    localConcurrency: 2,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 1
  }
  await boss.work(QUEUE, options, async jobs => { for (const _ of jobs) began() })
  await stop
  await boss.stop({ graceful: true, timeout: 5000 })
}

await serve({ prepare, enqueue, work })
