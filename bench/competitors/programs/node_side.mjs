// What the programs of Node queues share; the verbs are those of python_side.py.
import { appendFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'

export const DSN = process.env.BENCH_DSN
export const installed = createRequire(`${process.env.BENCH_NODE_PACKAGES}/`)

const BATCH = 10_000 // jobs of one bulk call
let unreported = process.env.BENCH_FIRST

// The job's only action.
export function began (payload) {
  if (payload?.due) {
    const late = performance.timeOrigin + performance.now() - payload.due * 1000
    appendFileSync(`${process.env.BENCH_LATENESS}.${process.pid}`, `${late.toFixed(3)}\n`)
  }
  if (unreported) {
    writeFileSync(`${unreported}.${process.pid}`, String(Date.now() / 1000))
    unreported = undefined
  }
}

// Calls insert(size) until so many jobs are in; prints the seconds it took.
export async function inBatches (jobs, insert) {
  const start = performance.now()
  for (let done = 0; done < jobs; done += BATCH) await insert(Math.min(BATCH, jobs - done))
  console.log((performance.now() - start) / 1000)
}

export const askedToStop = () => new Promise(resolve => process.once('SIGTERM', resolve))

export async function serve (verbs) {
  const [verb, jobs] = process.argv.slice(2)
  await verbs[verb](Number(jobs))
  process.exit(0)
}
