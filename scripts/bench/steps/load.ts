/** Rounds of load, interleaved over the sides, with rates, latencies and processor time. */
import { alternate, atLeast, atMost, line, quantile } from "../measure.ts"
import { MANY, type Request, type Side } from "./sides.ts"

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
  /** Milliseconds of every request. */
  readonly latencies: ReadonlyArray<number>
}

interface Round extends Omit<Measured, "name" | "perSecond" | "service" | "postgres"> {
  readonly perSecond: number
  readonly service: number
  readonly postgres: number
}

/** One round, closed loop: each caller sends its next request when the last one is answered. */
const runRound = async (side: Side, load: Load): Promise<Round> => {
  const next = await load.prepare(side)
  const latencies: Array<number> = []
  let left = load.limit ?? Number.POSITIVE_INFINITY
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
    latencies
  }
}

/** The unmeasured load of each side before the first round: so many requests, within this time. */
const warmUp = { limit: 1_500, millis: 6_000 }

/** Loads all sides in interleaved rounds. */
export const measure = async (sides: ReadonlyArray<Side>, load: Load): Promise<ReadonlyArray<Measured>> => {
  for (const side of sides) await runRound(side, { ...load, ...warmUp, callers: MANY })
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
    const measured = rounds[index] ?? []
    return {
      name,
      perSecond: measured.map(({ perSecond }) => perSecond),
      service: measured.map(({ service }) => service),
      postgres: measured.map(({ postgres }) => postgres),
      latencies: measured.flatMap(({ latencies }) => latencies)
    }
  })
}

/** Processor time of the service and PostgreSQL together, by round. */
const processorTime = ({ postgres, service }: Measured): ReadonlyArray<number> =>
  service.map((value, round) => value + (postgres[round] ?? Number.NaN))

/** The limits of a case; those of rates and latencies hold for this service. */
export interface Limits {
  /** Processor time per request of the service and PostgreSQL together, in microseconds. */
  readonly processor?: number
  readonly perSecond?: number
  /** This service's rate by the bare handler's, in percent. */
  readonly ratio?: number
  /** In milliseconds. */
  readonly p50?: number
}

/** Prints the figures of a case. */
export const report = (title: string, sides: ReadonlyArray<Measured>, limits: Limits = {}): void => {
  console.log(`\n${title}\n`)
  const lineOf = (
    check: (what: string, values: ReadonlyArray<number>, limit: number, unit: string) => string,
    limit: number | undefined,
    what: string,
    values: ReadonlyArray<number>,
    unit: string
  ) => (limit === undefined ? line(what, values, unit) : check(what, values, limit, unit))
  for (const [index, side] of sides.entries()) {
    const own = index === 0 ? limits : {}
    const both = processorTime(side)
    console.log(lineOf(atLeast, own.perSecond, `${side.name}, rate`, side.perSecond, "req/s"))
    console.log(line("    processor time, service", side.service, "µs   "))
    console.log(line("    processor time, PostgreSQL", side.postgres, "µs   "))
    console.log(lineOf(atMost, own.processor, "    processor time, both", both, "µs   "))
    const [p50, p99] = [quantile(side.latencies, 0.5), quantile(side.latencies, 0.99)]
    console.log(lineOf(atMost, own.p50, "    p50", [p50], "ms   "))
    console.log(line("    p99", [p99], "ms   "))
  }
  const [ours, peer] = [sides[0], sides.at(-1)]
  if (ours === undefined || peer === undefined || ours === peer) return
  const ratios = ours.perSecond.map((value, round) => (100 * value) / (peer.perSecond[round] ?? Number.NaN))
  console.log(lineOf(atLeast, limits.ratio, `rate by that of ${peer.name}`, ratios, "%    "))
  const [own, theirs] = [processorTime(ours), processorTime(peer)]
  const times = own.map((value, round) => (100 * value) / (theirs[round] ?? Number.NaN))
  console.log(line(`processor time by that of ${peer.name}`, times, "%    "))
}
