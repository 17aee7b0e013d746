/** Rounds of load, interleaved over the sides, with rates, latencies and processor time. */
import { alternate, atLeast, atMost, line, percentOf, quantile } from "../measure.ts"
import { BEFORE, MANY, type Request, type Side } from "./sides.ts"

/** How one case loads each side. */
export interface Load {
  readonly callers: number
  readonly millis: number
  readonly rounds: number
  /** The most requests of a round. */
  readonly limit?: number
  /** Runs before each round of a side, unmeasured, and returns the source of its requests. */
  readonly prepare: (side: Side) => Promise<() => Request>
  /** Completes when the work of the round's requests is done; it is measured too. Absent: with the last answer. */
  readonly settle?: (side: Side) => Promise<void>
}

/** The measured rounds of one side. */
export interface Measured {
  readonly name: string
  readonly perSecond: ReadonlyArray<number>
  /** Processor time per request, in microseconds. */
  readonly service: ReadonlyArray<number>
  readonly postgres: ReadonlyArray<number>
  /** Transactions that wrote, per request. */
  readonly transactions: ReadonlyArray<number>
  /** Quantiles of the time to the answer, in milliseconds. */
  readonly p50: ReadonlyArray<number>
  readonly p99: ReadonlyArray<number>
}

/** The figures of one round. */
type Round = { readonly [K in keyof Omit<Measured, "name">]: number }

/** Write transactions of the PostgreSQL server so far: the next transaction id. The few of background work are among them. */
export const writeTransactions = async ({ sql }: Side): Promise<number> => {
  const { rows } = await sql.query<{ next: string }>("SELECT pg_snapshot_xmax(pg_current_snapshot()) AS next")
  return Number(rows[0]?.next)
}

/** One round, closed loop: each caller sends its next request when the last one is answered. */
const runRound = async (side: Side, load: Load): Promise<Round> => {
  const next = await load.prepare(side)
  const latencies: Array<number> = []
  let left = load.limit ?? Number.POSITIVE_INFINITY
  const transactions = await writeTransactions(side)
  const before = side.usage()
  const begin = performance.now()
  await Promise.all(
    Array.from({ length: load.callers }, async () => {
      for (let sent = performance.now(); sent - begin < load.millis && left-- > 0; sent = performance.now()) {
        await side.send(next())
        latencies.push(performance.now() - sent)
      }
    })
  )
  await load.settle?.(side)
  const seconds = (performance.now() - begin) / 1_000
  const after = side.usage()
  const each = (kind: "service" | "postgres") => ((after[kind] - before[kind]) * 1e6) / latencies.length
  return {
    perSecond: latencies.length / seconds,
    service: each("service"),
    postgres: each("postgres"),
    transactions: ((await writeTransactions(side)) - transactions) / latencies.length,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99)
  }
}

/** Loads each side, unmeasured, with so many requests, or fewer within this time. */
export const warmUp = async (
  sides: ReadonlyArray<Side>,
  load: Pick<Load, "prepare" | "settle" | "millis"> & { readonly limit: number }
): Promise<void> => {
  for (const side of sides) await runRound(side, { ...load, callers: MANY, rounds: 1 })
}

/** The warm-up of a case: requests that the ones before have not sent. */
export const CASE_WARM_UP = { limit: 1_000, millis: 3_000 }

/** Loads all sides in interleaved rounds, after a warm-up. */
export const measure = async (sides: ReadonlyArray<Side>, load: Load): Promise<ReadonlyArray<Measured>> => {
  await warmUp(sides, { ...load, ...CASE_WARM_UP })
  const rounds = sides.map(() => new Array<Round>())
  await alternate(
    sides.map((side, index) => async () => {
      const round = await runRound(side, load)
      rounds[index]?.push(round)
      return round.perSecond
    }),
    { warmUp: 0, rounds: load.rounds }
  )
  return sides.map(({ name }, index) => {
    const figures = (figure: keyof Round) => (rounds[index] ?? []).map((round) => round[figure])
    return {
      name,
      perSecond: figures("perSecond"),
      service: figures("service"),
      postgres: figures("postgres"),
      transactions: figures("transactions"),
      p50: figures("p50"),
      p99: figures("p99")
    }
  })
}

/** Processor time of the service and PostgreSQL together, by round. */
const processorTime = ({ postgres, service }: Measured): ReadonlyArray<number> =>
  service.map((value, round) => value + (postgres[round] ?? Number.NaN))

/** The goals of a case, in percent of the bare handler's figures. */
export interface Goals {
  /** The least rate. */
  readonly rate?: number
  /** The most processor time per request, of the service and PostgreSQL together. */
  readonly processor?: number
}

/** The most processor time of a request, in percent of an earlier build's. */
const BY_BEFORE = 110

/** Prints the figures of a case: this service's first, then those of the others, and its ratios to them. */
export const report = (title: string, sides: ReadonlyArray<Measured>, goals: Goals = {}): void => {
  console.log(`\n${title}\n`)
  for (const side of sides) {
    console.log(line(`${side.name}, rate`, side.perSecond, "req/s"))
    console.log(line("    processor time, service", side.service, "µs"))
    console.log(line("    processor time, PostgreSQL", side.postgres, "µs"))
    console.log(line("    processor time, both", processorTime(side), "µs"))
    console.log(line("    write transactions per request", side.transactions, ""))
    console.log(line("    p50", side.p50, "ms"))
    console.log(line("    p99", side.p99, "ms"))
  }
  const [ours, ...others] = sides
  if (ours === undefined) return
  for (const other of others) {
    const { processor, rate }: Goals = other.name === BEFORE ? { processor: BY_BEFORE } : goals
    const rates = percentOf(ours.perSecond, other.perSecond)
    const rateTitle = `rate by that of ${other.name}`
    console.log(rate === undefined ? line(rateTitle, rates, "%") : atLeast(rateTitle, rates, rate, "%"))
    const times = percentOf(processorTime(ours), processorTime(other))
    const timeTitle = `processor time by that of ${other.name}`
    console.log(
      processor === undefined ? line(timeTitle, times, "%") : atMost(timeTitle, times, processor, "%")
    )
  }
}
