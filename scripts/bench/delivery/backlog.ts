/**
 * Cost of a backlog: 990,000 deliveries queued for 9,900 endpoints in cooldown, while deliveries to other endpoints continue. Two
 * processes on one PostgreSQL server, one with the backlog and one without, each on its own database, in interleaved rounds; then the same
 * while another transaction stays open in the database with the backlog, so that vacuum cannot remove dead rows there.
 */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Exit, type Redacted, Scope } from "effect"
import { setTimeout as pause } from "node:timers/promises"
import { shardOf } from "../../../src/server/delivery/Delivery/shardOf.ts"
import {
  alternate,
  atLeast,
  atMost,
  line,
  machine,
  median,
  peakMegabytes,
  processorSeconds,
  residentMegabytes
} from "../measure.ts"
import { type Runner, startHarness } from "./harness.ts"
import { ENDPOINTS } from "./message.ts"

const COOLING = 9_900
const WAITING_EACH = 100
const EVENTS = 2_000
const ROUNDS = 5
const WARM_UP = 1
const IDLE_MILLIS = 10_000

/** SQL expression for the id of a new delivery: the current time and a number. */
const ID = `'ndl_' || lpad(to_hex((extract(epoch FROM current_date) * 1000)::bigint), 12, '0') ||
  lpad(to_hex(number * ${WAITING_EACH} + n), 20, '0')`

/**
 * Writes endpoints in cooldown for an hour, each with its queued deliveries, as the engine would have written them. Runs before the
 * process starts, which therefore never has to handle a transaction of a million rows; the service writes none of that size.
 */
const writeBacklog = (url: Redacted.Redacted) =>
  Effect.gen(function* () {
    const connection = yield* PgConnection.make({ url })
    const ids = Array.from(
      { length: COOLING },
      (_, index) => `nep_cool${index.toString(16).padStart(28, "0")}`
    )
    yield* connection.query(
      "CREATE TEMP TABLE cooling (shard smallint, org_id text, destination_id text, number int)"
    )
    const rows = ids.map((id, index) => `(${shardOf(id)},'org_cool${index % 100}','${id}',${index})`)
    for (let at = 0; at < rows.length; at += 1_000) {
      yield* connection.query(`INSERT INTO cooling VALUES ${rows.slice(at, at + 1_000).join(",")}`)
    }
    yield* connection.query(`
      INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures, cooldown_round, cooldown_until)
      SELECT org_id, destination_id, 5, 1, now() + interval '1 hour' FROM cooling`)
    yield* connection.query(`
      INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
      SELECT org_id, destination_id, ${ID}, 'webhook', 'evt_' || lpad(to_hex(n), 32, '0'), 'bench', 'pending', now()
      FROM cooling, generate_series(1, ${WAITING_EACH}) AS n`)
    yield* connection.query(`
      INSERT INTO delivery_queue
        (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
      SELECT shard, org_id, destination_id, ${ID}, 'webhook', 'evt_' || lpad(to_hex(n), 32, '0'), now(), 0, 0
      FROM generate_series(1, ${WAITING_EACH}) AS n, cooling`)
    yield* connection.query("VACUUM ANALYZE delivery_queue")
    yield* connection.query("VACUUM ANALYZE deliveries")
  })

/** Opens a transaction that has read and stays open. */
const holdTransaction = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const connection = yield* PgConnection.make({ url })
  yield* connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ")
  yield* connection.query("SELECT count(*) FROM delivery_shards")
})

const idle = async (runner: Runner) => {
  const before = processorSeconds(runner.pid)
  await pause(IDLE_MILLIS)
  return ((processorSeconds(runner.pid) - before) / IDLE_MILLIS) * 1e5
}

export const backlog = async (): Promise<void> => {
  const harness = await startHarness()
  const scope = await Effect.runPromise(Scope.make())
  try {
    const without = await harness.start("ours")
    const behind = await harness.start("ours", {}, (url) =>
      Effect.runPromise(Effect.scoped(writeBacklog(url)))
    )
    console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on`)
    console.log(
      `${EVENTS * ENDPOINTS} deliveries per round beside ${COOLING * WAITING_EACH} queued for ${COOLING} endpoints in cooldown\n`
    )
    const cost: Array<number> = []
    const rounds = async (what: string) => {
      const [free = [], held = []] = await alternate(
        [
          async () => (await harness.round(without, EVENTS)).perSecond,
          async () => {
            const round = await harness.round(behind, EVENTS)
            cost.push(round.sender + round.store)
            return round.perSecond
          }
        ],
        { warmUp: WARM_UP, rounds: ROUNDS }
      )
      console.log(line("without a backlog", free, "deliveries/s"))
      console.log(line(what, held, "deliveries/s"))
      const ratios = held.map((rate, index) => (rate / (free[index] ?? Number.NaN)) * 100)
      console.log(`${atLeast("ratio of the rounds", ratios, 85, "%")}\n`)
      console.log(`ratio of the medians ${((median(held) / median(free)) * 100).toFixed(0)} %`)
    }
    await rounds("with the backlog")
    console.log(line("memory without a backlog", [residentMegabytes(without.pid)], "MB"))
    console.log(atMost("memory with the backlog", [residentMegabytes(behind.pid)], 250, "MB"))
    console.log(line("peak memory with the backlog", [peakMegabytes(behind.pid)], "MB"))
    console.log(line("idle processor use without a backlog", [await idle(without)], "%"))
    console.log(line("idle processor use with the backlog", [await idle(behind)], "%"))
    await Effect.runPromise(holdTransaction(behind.url).pipe(Effect.provideService(Scope.Scope, scope)))
    await rounds("with the backlog and an open transaction")
    console.log(atMost("memory with the backlog", [residentMegabytes(behind.pid)], 250, "MB"))
    console.log(line("peak memory with the backlog", [peakMegabytes(behind.pid)], "MB"))
  } finally {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    await harness.dispose()
  }
}
