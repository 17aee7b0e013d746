/**
 * Governed steps, decisions and logged runs; without a part, all:
 * `npm run bench -- steps [allowed|claimed|budgets|waiting|decide|resume|run|burst|memory …]`.
 *
 * This service beside a bare Fastify and `pg` handler that does the same work by the same statements in one round trip. Each has a process
 * of its own, and a database of its own on one PostgreSQL server with fsync on; both databases start with the same content. Rounds are
 * interleaved, the warm-up is left out. Processor time is that of the side's process and of all PostgreSQL processes during the side's own
 * rounds, per request; connections of other sides, which only poll meanwhile, are not counted. `BENCH_BEFORE` names the entry point of an
 * earlier build to measure as a third side.
 */
import { machine } from "./measure.ts"
import { cases } from "./steps/cases.ts"
import { warmUp } from "./steps/load.ts"
import { mixedRequests } from "./steps/requests.ts"
import { startSides } from "./steps/sides.ts"

/** Requests of all kinds before the first case: until then the services' code is not compiled to its end. */
const WARM_UP = { limit: 6_000, millis: 10_000 }

/** Runs the named cases one after another. */
export const run = async (names: ReadonlyArray<string>): Promise<void> => {
  const unknown = names.find((name) => !Object.hasOwn(cases, name))
  if (unknown !== undefined) {
    throw new Error(`Unknown part ${unknown}. Available: ${Object.keys(cases).join(", ")}`)
  }
  console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on`)
  const sides = await startSides()
  try {
    await warmUp(sides.all, { prepare: mixedRequests, ...WARM_UP })
    for (const [name, run] of Object.entries(cases)) {
      if (names.length === 0 || names.includes(name)) await run(sides)
    }
  } finally {
    await sides.dispose()
  }
}
