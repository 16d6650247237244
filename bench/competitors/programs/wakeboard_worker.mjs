// The TypeScript worker of clients/typescript, compiled in the folder BENCH_TYPESCRIPT.
import { began } from './node_side.mjs'

const { optionsFromEnvironment, Worker } = await import(`${process.env.BENCH_TYPESCRIPT}/dist/src/index.js`)
await new Worker({ ...optionsFromEnvironment(), handlers: { noop: () => began() } }).run()
process.exit(0)
