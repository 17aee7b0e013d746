/** Inflicts faults one after the other on services under load, and checks what the services do meanwhile. */
import { Effect, Fiber, Schedule } from "effect"
import type { Load } from "./load.ts"
import type { ServiceUnderTest } from "./service.ts"

/** A fault that happens once. */
export interface Fault {
  readonly name: string
  /** Runs while the service still works, before the fault. */
  readonly prepare?: Effect.Effect<void>
  readonly begin: Effect.Effect<void>
  /** How long it stays, in milliseconds. */
  readonly holdMillis: number
  readonly end: Effect.Effect<void>
  /**
   * `unavailable`: while it stays, writes are refused and the services are not ready. `any`: it may be too short to be
   * noticed. `unnoticed`: no request fails.
   */
  readonly expected: "unavailable" | "any" | "unnoticed"
}

/** What happened at a fault; times in milliseconds. */
export interface Round {
  readonly fault: string
  /** From the end of the fault until every service was ready and had accepted a write. */
  readonly recovery: number
  /** From the beginning of the fault's end, such as the order to promote a standby, until a write was accepted; and from the fault itself. */
  readonly firstWrite: number
  readonly outage: number
  readonly refused: number
}

/** A service is back within this time after a fault, in milliseconds. */
const RECOVERY_MILLIS = 15_000

/** How long a recovery is watched. */
const WATCH = Schedule.max([Schedule.spaced("100 millis"), Schedule.recurs(900)])

const probeEvery = Schedule.spaced("200 millis")

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0

/** The most lines about an outage in one service's log: its beginning, further reasons, and the embedded server's ends. */
const MAX_OUTAGE_LINES = 15

/** How often the load is asked for accepted writes. */
const LOOK = Schedule.spaced("10 millis")

/** Inflicts a fault, and returns what happened together with the guarantees that were broken. */
const inflict = Effect.fnUntraced(function* (
  fault: Fault,
  services: () => ReadonlyArray<ServiceUnderTest>,
  load: Load,
  slack: number
) {
  const broken: Array<string> = []
  const refusedBefore = load.replies.Refused + load.replies.Unreachable
  const logs = new Map<ServiceUnderTest, number>()
  for (const service of services()) logs.set(service, (yield* service.log).length)
  const unready = new Set<ServiceUnderTest>()
  const probe = Effect.forEach(
    services(),
    (service) =>
      Effect.map(service.isReady, (ready) => {
        if (!ready) unready.add(service)
      }),
    { concurrency: "unbounded", discard: true }
  )

  const faultAt = performance.now()
  yield* fault.begin
  yield* probe.pipe(Effect.repeat(probeEvery), Effect.timeoutOption(fault.holdMillis))
  const refusedMeanwhile = load.replies.Refused - refusedBefore
  const acceptedBefore = [...load.acceptedBy]
  const endAt = performance.now()
  const hasAccepted = Effect.sync(() =>
    load.acceptedBy.some((accepted, number) => accepted > (acceptedBefore[number] ?? 0))
  )
  const firstWriteAt = yield* Effect.forkChild(
    Effect.map(Effect.repeat(hasAccepted, { until: (accepted) => accepted, schedule: LOOK }), () =>
      performance.now()
    )
  )
  yield* fault.end

  const began = performance.now()
  const isBack = Effect.gen(function* () {
    const list = services()
    for (const service of list) if (!(yield* service.isReady)) return false
    return list.every((_, number) => (load.acceptedBy[number] ?? 0) > (acceptedBefore[number] ?? 0))
  })
  const isRecovered = yield* Effect.repeat(isBack, { until: (back) => back, schedule: WATCH })
  const recovery = Math.round(performance.now() - began)
  const refused = load.replies.Refused + load.replies.Unreachable - refusedBefore
  const firstWrite = isRecovered ? yield* Fiber.join(firstWriteAt) : Number.NaN

  if (!isRecovered) broken.push(`${fault.name}: not recovered`)
  else if (recovery > slack * RECOVERY_MILLIS) broken.push(`${fault.name}: recovered after ${recovery} ms`)
  if (fault.expected === "unavailable") {
    if (refusedMeanwhile === 0) broken.push(`${fault.name}: no write was refused`)
    for (const [number, service] of services().entries())
      if (!unready.has(service)) broken.push(`${fault.name}: service ${number} was ready all the time`)
  }
  if (fault.expected === "unnoticed" && refused > 0)
    broken.push(`${fault.name}: ${refused} calls were refused`)
  for (const [service, start] of logs) {
    const log = (yield* service.log).slice(start)
    const began = count(log, /The database is unavailable:/g)
    if (began > 1) broken.push(`${fault.name}: the beginning of the outage was logged ${began} times`)
    const lines = log.split("\n").filter((line) => /database|PostgreSQL/i.test(line))
    if (lines.length > MAX_OUTAGE_LINES)
      broken.push(`${fault.name}: ${lines.length} log lines about the database:\n${lines.join("\n")}`)
    const unhandled = /.*Unhandled error.*/.exec(log)?.[0]
    if (unhandled !== undefined) broken.push(`${fault.name}: ${unhandled.slice(0, 300)}`)
  }
  const round: Round = {
    fault: fault.name,
    recovery,
    firstWrite: Math.round(firstWrite - endAt),
    outage: Math.round(firstWrite - faultAt),
    refused
  }
  return { round, broken }
})

/** Options of each run. */
export interface FaultRunOptions {
  /** In [0, 1), from the seed. */
  readonly random: () => number
  readonly rounds: number
  readonly progress: (line: string) => void
  /** Only the faults with these names. Default all. */
  readonly names?: ReadonlyArray<string>
  /** Multiplies the longest recovery, for a busy machine. Default 1. */
  readonly slack?: number
}

/** The faults of a run, in a random order; every fault once before any happens again. */
export const shuffled = <A extends { readonly name: string }>(
  faults: ReadonlyArray<A>,
  { names, random, rounds }: FaultRunOptions
): ReadonlyArray<A> => {
  const chosen = faults.filter(({ name }) => names === undefined || names.includes(name))
  if (chosen.length === 0) throw new Error(`No fault has one of the names ${names?.join(", ")}`)
  const order: Array<A> = []
  while (order.length < rounds) {
    const rest = [...chosen]
    while (rest.length > 0) order.push(...rest.splice(Math.floor(random() * rest.length), 1))
  }
  return order.slice(0, rounds)
}

/** Time for the load to run normally before each fault, in milliseconds. */
const CALM_MILLIS = 1_500

/** Inflicts all faults while the load runs, then stops the load. */
export const inflictAll = Effect.fnUntraced(function* (
  faults: ReadonlyArray<Fault>,
  services: () => ReadonlyArray<ServiceUnderTest>,
  load: Load,
  options: FaultRunOptions
) {
  const rounds: Array<Round> = []
  const broken: Array<string> = []
  for (const fault of faults) {
    yield* fault.prepare ?? Effect.void
    yield* Effect.sleep(CALM_MILLIS * (0.5 + options.random()))
    const result = yield* inflict(fault, services, load, options.slack ?? 1)
    rounds.push(result.round)
    broken.push(...result.broken)
    options.progress(
      `${fault.name}: ${result.round.refused} calls refused, first write after ${result.round.firstWrite} ms (${result.round.outage} ms after the fault), recovered after ${result.round.recovery} ms`
    )
  }
  yield* load.stop
  if (load.wrong.length > 0)
    broken.push(
      `${load.wrong.length} wrong responses, such as ${[...new Set(load.wrong)].slice(0, 5).join("; ")}`
    )
  return { rounds, broken }
})
