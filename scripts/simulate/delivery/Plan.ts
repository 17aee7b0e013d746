import type { Fault } from "../core/Faults.ts"
import { RandomStream } from "../core/RandomStream.ts"

/** How a receiver answers from now on. */
export type ReceiverMode =
  | { readonly _tag: "Healthy" }
  | { readonly _tag: "Failing" }
  /** Accepts requests, and never answers. */
  | { readonly _tag: "Hanging" }
  /** Fails and works by turns. */
  | { readonly _tag: "Flapping"; readonly periodMillis: number }
  | { readonly _tag: "RetryAfter"; readonly millis: number }
  /** Answers after a while. */
  | { readonly _tag: "Slow"; readonly millis: number }
  /** Rejects some of the deliveries for good. */
  | { readonly _tag: "Rejecting" }
  /** Answers 410: no more deliveries, please. */
  | { readonly _tag: "Gone" }

/** What happens only here. Replicas and destinations are numbered from 0. */
type OwnAction = { readonly at: number } & (
  | {
      readonly _tag: "Publish"
      readonly replica: number
      readonly destination: number
      readonly count: number
      /** How long the transaction stays open after the insert; null: a single statement. */
      readonly openMillis: number | null
    }
  | { readonly _tag: "Replay"; readonly replica: number; readonly destination: number }
  | { readonly _tag: "EndCooldown"; readonly replica: number; readonly destination: number }
  | { readonly _tag: "Remove"; readonly replica: number; readonly destination: number }
  | { readonly _tag: "Receiver"; readonly destination: number; readonly mode: ReceiverMode }
  /** The store rejects the results of a destination's attempts: for a while, some value of them cannot be written. */
  | { readonly _tag: "RejectResults"; readonly destination: number; readonly millis: number }
)

/** What happens from outside, at a moment of a run: requests, changes of receivers, and faults. */
export type Action = OwnAction | Fault

/** Everything about a run that is decided before it begins. */
export interface Plan {
  readonly seed: number
  readonly replicas: number
  readonly destinations: ReadonlyArray<{ readonly organization: number }>
  readonly concurrency: number
  readonly queueLimit: number
  readonly slots: { readonly slots: number; readonly retrySlots: number; readonly organizationSlots: number }
  /** Attempts per second to one receiver and to one network; undefined: not limited. */
  readonly rates: { readonly perOrganization: number; readonly total: number } | undefined
  /** Whether the channel has a hook that runs in the transaction that finishes a delivery. */
  readonly hasHook: boolean
  /** The chance that a load or an attempt fails by a defect of the channel, or does not end by itself. */
  readonly defectChance: number
  /** After this time no further attempt is made; null: no limit. */
  readonly maxElapsedMillis: number | null
  /** After how many operations a fiber yields. */
  readonly maxOpsBeforeYield: number
  /** Sorted by time. */
  readonly actions: ReadonlyArray<Action>
}

/** How long actions happen, in milliseconds. */
export const ACTION_MILLIS = 45_000

/** Makes the plan of a seed. */
export const makePlan = (seed: number): Plan => {
  const random = new RandomStream(`plan ${seed}`)
  return random.chance(0.05) ? contendedPlan(seed, random) : randomPlan(seed, random)
}

/** Many destinations of one organization have a backlog, and share a few slots; nothing else happens. */
const contendedPlan = (seed: number, random: RandomStream): Plan => {
  const destinations = Array.from({ length: random.int(5, 12) }, () => ({ organization: 0 }))
  const actions = destinations.flatMap((_, destination): ReadonlyArray<Action> => [
    {
      _tag: "Receiver",
      at: 2_000,
      destination,
      mode: { _tag: "Slow", millis: random.between(200, 900) }
    },
    {
      _tag: "Publish",
      at: random.between(2_000, 2_200),
      replica: 0,
      destination,
      count: 40,
      openMillis: null
    }
  ])
  return {
    seed,
    replicas: 1,
    destinations,
    concurrency: 8,
    queueLimit: 10_000,
    slots: { slots: 12, retrySlots: 6, organizationSlots: random.int(2, 5) },
    maxElapsedMillis: null,
    rates: undefined,
    hasHook: false,
    defectChance: 0,
    maxOpsBeforeYield: 2_048,
    actions: actions.toSorted((a, b) => a.at - b.at)
  }
}

const randomPlan = (seed: number, random: RandomStream): Plan => {
  const replicas = random.pick([1, 2, 2, 3, 3, 3, 4])
  const organizations = random.int(1, 4)
  const destinations = Array.from({ length: random.int(2, 12) }, () => ({
    organization: random.int(0, organizations - 1)
  }))
  const someReplica = () => random.int(0, replicas - 1)
  const someDestination = () => random.int(0, destinations.length - 1)
  const actions: Array<Action> = []
  const at = () => random.between(0, ACTION_MILLIS)

  const publishes = random.int(20, 160)
  for (let i = 0; i < publishes; i++) {
    actions.push({
      _tag: "Publish",
      at: at(),
      replica: someReplica(),
      destination: someDestination(),
      count: random.chance(0.08) ? random.int(10, 90) : random.int(1, 8),
      openMillis: random.chance(0.5) ? null : random.logarithmic(0.5, random.chance(0.2) ? 6_000 : 50)
    })
  }
  for (let i = random.int(0, 4); i > 0; i--) {
    actions.push({
      _tag: random.pick(["Replay", "Replay", "EndCooldown", "Remove"]),
      at: at(),
      replica: someReplica(),
      destination: someDestination()
    })
  }
  for (let i = random.int(0, 8); i > 0; i--) {
    const destination = someDestination()
    const began = at()
    actions.push({ _tag: "Receiver", at: began, destination, mode: receiverMode(random) })
    actions.push({
      _tag: "Receiver",
      at: began + random.logarithmic(500, 20_000),
      destination,
      mode: { _tag: "Healthy" }
    })
  }
  // Every destination has a backlog at the same moment.
  for (let i = random.pick([0, 0, 0, 1, 2]); i > 0; i--) {
    const moment = at()
    const count = random.int(5, 40)
    destinations.forEach((_, destination) => {
      const mode: ReceiverMode = { _tag: "Slow", millis: random.logarithmic(100, 3_000) }
      actions.push({ _tag: "Receiver", at: moment, destination, mode })
      actions.push({
        _tag: "Publish",
        at: moment + random.next() * 50,
        replica: someReplica(),
        destination,
        count,
        openMillis: null
      })
      actions.push({
        _tag: "Receiver",
        at: moment + random.between(5_000, 15_000),
        destination,
        mode: { _tag: "Healthy" }
      })
    })
  }
  actions.push(...faults(random, at, someReplica, someDestination))
  if (replicas > 1 && random.chance(0.4)) actions.push(...incident(random, replicas, destinations.length))
  return {
    seed,
    replicas,
    destinations,
    concurrency: random.pick([1, 2, 4, 8]),
    queueLimit: random.pick([10_000, 10_000, 300, 40]),
    slots: random.pick([
      { slots: 1_024, retrySlots: 576, organizationSlots: 64 },
      { slots: 12, retrySlots: 6, organizationSlots: 5 },
      { slots: 10, retrySlots: 2, organizationSlots: 5 }
    ]),
    maxElapsedMillis: random.chance(0.2) ? random.between(3_000, 40_000) : null,
    rates: random.chance(0.15) ? { perOrganization: random.int(5, 20), total: random.int(8, 30) } : undefined,
    hasHook: random.chance(0.5),
    defectChance: random.chance(0.1) ? 0.02 : 0,
    maxOpsBeforeYield: random.pick([24, 200, 2_048]),
    actions: actions.toSorted((a, b) => a.at - b.at)
  }
}

/**
 * Faults of a run. Half of the runs have few kinds of them, close together (swarm testing): a coincidence of three kinds
 * hardly ever happens where all kinds happen anywhere.
 */
const faults = (
  random: RandomStream,
  anyTime: () => number,
  someReplica: () => number,
  someDestination: () => number
): ReadonlyArray<Action> => {
  const count = random.int(0, 24)
  if (random.chance(0.5)) {
    return Array.from({ length: count }, () =>
      fault(random.pick(FAULTS), random, anyTime(), someReplica(), someDestination())
    )
  }
  const kinds = random.shuffle(FAULTS).slice(0, random.int(1, 5))
  const centers = Array.from({ length: random.int(1, 3) }, anyTime)
  return Array.from({ length: count }, (_, place) => {
    const center = centers[place % centers.length] ?? 0
    const at = Math.max(0, Math.min(ACTION_MILLIS, center + random.between(-3_000, 3_000)))
    const kind = kinds[place % kinds.length] ?? "Kill"
    return fault(kind, random, at, someReplica(), someDestination())
  })
}

const INCIDENTS = ["ShardReturns", "LoadOutlastsSuspension", "StepDuringRenewal", "CutDuringWrite"] as const

/** Faults of one story, which hardly ever come together by chance. Their times and lengths are still random. */
const incident = (random: RandomStream, replicas: number, destinations: number): ReadonlyArray<Action> => {
  const kind = random.pick(INCIDENTS)
  const replica = random.int(0, replicas - 1)
  const others = Array.from({ length: replicas }, (_, number) => number).filter((one) => one !== replica)
  const start = random.between(3_000, 25_000)
  const at = (millis: number, spread: number) => start + Math.max(0, millis + random.between(-spread, spread))
  const publishes = (by: number, millis: number, spread: number) =>
    Array.from({ length: destinations }, (_, destination): Action => ({
      _tag: "Publish",
      at: at(millis, spread),
      replica: by,
      destination,
      count: random.int(1, 4),
      openMillis: null
    }))
  const allPublish = (millis: number, spread: number) =>
    Array.from({ length: replicas }, (_, number) => publishes(number, millis, spread)).flat()
  switch (kind) {
    // A replica loses shards to another that starts, and gets them back as that one stops, while it reads slowly.
    case "ShardReturns": {
      const delayMillis = random.between(1_000, 3_500)
      return [
        ...others.map((other): Action => ({
          _tag: "Restart",
          at: at(0, 100),
          replica: other,
          downMillis: 300
        })),
        { _tag: "DelayMessages", at: at(800, 700), replica, share: 0.6, delayMillis, millis: 6_000 },
        ...allPublish(1_300, 900),
        ...others.map((other): Action => ({
          _tag: "Restart",
          at: at(3_000, 800),
          replica: other,
          downMillis: 8_000
        }))
      ]
    }
    // A suspended replica loses its shards and gets them back, while loads that it began before take long.
    case "LoadOutlastsSuspension": {
      const millis = random.between(10_500, 14_000)
      return [
        ...allPublish(0, 40),
        { _tag: "Suspend", at: at(20, 40), replica, millis },
        {
          _tag: "DelayMessages",
          at: at(1_000, 500),
          replica,
          share: 0.6,
          delayMillis: random.between(500, 3_000),
          millis: millis + 3_000
        },
        ...others.map((other): Action => ({
          _tag: "Restart",
          at: at(millis, 300),
          replica: other,
          downMillis: 10_000
        }))
      ]
    }
    // Connections are cut while results are written slowly: the statement goes on, beside the one that repeats it.
    case "CutDuringWrite": {
      const cuts = Array.from({ length: 8 }, (_, number): Action => ({
        _tag: "CutConnections",
        at: at(300 + number * 700, 300),
        replica
      }))
      const statementMillis = random.between(500, 4_000)
      // Failed attempts leave their rows in the queue, where a result that is recorded twice is seen.
      const receivers = Array.from({ length: destinations }, (_, destination): ReadonlyArray<Action> => [
        { _tag: "Receiver", at: at(0, 0), destination, mode: { _tag: "Failing" } },
        { _tag: "Receiver", at: at(8_000, 500), destination, mode: { _tag: "Healthy" } }
      ]).flat()
      return [
        { _tag: "SlowStore", at: at(0, 0), statementMillis, millis: 7_000 },
        ...cuts,
        ...receivers,
        ...allPublish(1_000, 2_000)
      ]
    }
    // The store's clock is set beyond the end of leases between a renewal and the claim after it, which is not heard.
    case "StepDuringRenewal":
      return [
        ...others.map((other): Action => ({
          _tag: "Kill",
          at: at(0, 100),
          replica: other,
          downMillis: 20_000
        })),
        { _tag: "DelayMessages", at: at(2_500, 500), replica, share: 1, delayMillis: 500, millis: 10_000 },
        { _tag: "LoseAnswers", at: at(4_500, 500), replica, chance: 0.4, millis: 5_000 },
        { _tag: "StepStoreClock", at: at(6_500, 1_500), millis: random.between(11_000, 20_000) },
        ...allPublish(7_000, 3_000)
      ]
  }
}

const receiverMode = (random: RandomStream): ReceiverMode =>
  random.pick<ReceiverMode>([
    { _tag: "Failing" },
    { _tag: "Failing" },
    { _tag: "Hanging" },
    { _tag: "Flapping", periodMillis: random.logarithmic(100, 5_000) },
    { _tag: "RetryAfter", millis: random.logarithmic(100, 15_000) },
    { _tag: "Slow", millis: random.logarithmic(100, 6_000) },
    { _tag: "Rejecting" },
    { _tag: "Gone" }
  ])

/** The kinds of faults, some of them more often. */
const FAULTS = [
  "Kill",
  "Kill",
  "Freeze",
  "Freeze",
  "Freeze",
  "Suspend",
  "Suspend",
  "Restart",
  "Restart",
  "RollOut",
  "StepClock",
  "StepStoreClock",
  "CutConnections",
  "CutConnections",
  "SilenceConnections",
  "DelayMessages",
  "DelayMessages",
  "LoseAnswers",
  "LoseAnswers",
  "RejectResults",
  "Partition",
  "SlowStore",
  "SlowStore",
  "FreezeStore",
  "RestartStore",
  "LoseNotifications"
] as const

const fault = (
  kind: (typeof FAULTS)[number],
  random: RandomStream,
  at: number,
  replica: number,
  destination: number
): Action => {
  switch (kind) {
    case "Kill":
      return { _tag: kind, at, replica, downMillis: random.logarithmic(50, 15_000) }
    case "Freeze":
      // Around the length of a lease, in particular.
      return { _tag: kind, at, replica, millis: random.logarithmic(50, 25_000) }
    case "Suspend":
      return { _tag: kind, at, replica, millis: random.logarithmic(1_000, 25_000) }
    case "Restart":
      return { _tag: kind, at, replica, downMillis: random.logarithmic(50, 5_000) }
    case "RollOut":
      return { _tag: kind, at }
    case "StepClock":
      return { _tag: kind, at, replica, millis: random.between(-60_000, 60_000) }
    case "StepStoreClock":
      // Further than a lease lasts, now and then.
      return {
        _tag: kind,
        at,
        millis: random.chance(0.4) ? random.between(-20_000, 20_000) : random.between(-3_000, 3_000)
      }
    case "CutConnections":
      return { _tag: kind, at, replica: random.chance(0.3) ? null : replica }
    case "SilenceConnections":
      return { _tag: kind, at, replica }
    case "DelayMessages":
      return {
        _tag: kind,
        at,
        replica,
        share: random.pick([0.3, 0.6, 1]),
        delayMillis: random.logarithmic(50, 5_000),
        millis: random.logarithmic(500, 15_000)
      }
    case "LoseAnswers":
      return {
        _tag: kind,
        at,
        replica,
        chance: random.pick([0.05, 0.3, 0.6]),
        millis: random.logarithmic(200, 8_000)
      }
    case "RejectResults":
      return { _tag: kind, at, destination, millis: random.logarithmic(200, 5_000) }
    case "Partition":
      return { _tag: kind, at, replica, millis: random.logarithmic(200, 20_000) }
    case "SlowStore":
      return {
        _tag: kind,
        at,
        statementMillis: random.logarithmic(20, 8_000),
        millis: random.logarithmic(500, 10_000)
      }
    case "FreezeStore":
      return { _tag: kind, at, millis: random.logarithmic(200, 12_000) }
    case "RestartStore":
      return { _tag: kind, at, downMillis: random.logarithmic(100, 6_000) }
    case "LoseNotifications":
      return { _tag: kind, at, millis: random.logarithmic(500, 15_000) }
  }
}
