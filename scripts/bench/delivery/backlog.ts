/**
 * What a backlog costs: a million deliveries wait, 990,000 of them for 9,900 endpoints that cool down, and those of the other hundred
 * go on. Two processes on one PostgreSQL, each over a database of its own, one without the backlog, in turn; then the same while
 * another transaction stays open in the database with the backlog, so that no dead row can be removed there.
 */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Exit, type Redacted, Scope } from "effect"
import { setTimeout as pause } from "node:timers/promises"
import { shardOf } from "../../../src/server/delivery/Delivery/Shards.ts"
import {
  alternate,
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

/** The id of a delivery that was just made, in SQL: the time, and a number. */
const ID = `'ndl_' || lpad(to_hex((extract(epoch FROM current_date) * 1000)::bigint), 12, '0') ||
  lpad(to_hex(number * ${WAITING_EACH} + n), 20, '0')`

/**
 * Endpoints that cool down for an hour, each with what waits for it, as the engine would have written it. Written before the process
 * starts: it finds them, and need not live through one transaction of a million rows, which nothing in the service writes.
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
        (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, round_start)
      SELECT shard, org_id, destination_id, ${ID}, 'webhook', 'evt_' || lpad(to_hex(n), 32, '0'), now(), 0, 0
      FROM generate_series(1, ${WAITING_EACH}) AS n, cooling`)
    yield* connection.query("VACUUM ANALYZE delivery_queue")
    yield* connection.query("VACUUM ANALYZE deliveries")
  })

/** A transaction that has read and stays open. */
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
      `${EVENTS * ENDPOINTS} deliveries a round while ${COOLING * WAITING_EACH} wait for ${COOLING} endpoints that cool down\n`
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
      console.log(`${line("ratio of the rounds (goal: at least 85)", ratios, "%")}\n`)
      console.log(`ratio of the medians ${((median(held) / median(free)) * 100).toFixed(0)} %`)
    }
    await rounds("with it")
    console.log(line("memory without a backlog", [residentMegabytes(without.pid)], "MB"))
    console.log(line("memory with it (goal: under 250)", [residentMegabytes(behind.pid)], "MB"))
    console.log(line("the most since its start, likewise", [peakMegabytes(behind.pid)], "MB"))
    console.log(line("processor while nothing is sent, without", [await idle(without)], "%"))
    console.log(line("processor while nothing is sent, with it", [await idle(behind)], "%"))
    await Effect.runPromise(holdTransaction(behind.url).pipe(Effect.provideService(Scope.Scope, scope)))
    await rounds("with it, and a transaction held open")
    console.log(line("memory with it (goal: under 250)", [residentMegabytes(behind.pid)], "MB"))
    console.log(line("the most since its start, likewise", [peakMegabytes(behind.pid)], "MB"))
  } finally {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    await harness.dispose()
  }
}
