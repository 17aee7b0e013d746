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

/** What happens from outside, at a moment of a run. Replicas and destinations are numbered from 0. */
export type Action = { readonly at: number } & (
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
  | { readonly _tag: "Kill"; readonly replica: number; readonly downMillis: number }
  | { readonly _tag: "Freeze"; readonly replica: number; readonly millis: number }
  /** Like `Freeze`, but the monotonic clock stands still meanwhile, as in a suspended virtual machine. */
  | { readonly _tag: "Suspend"; readonly replica: number; readonly millis: number }
  /** A graceful shutdown, and a start after it has ended. */
  | { readonly _tag: "Restart"; readonly replica: number; readonly downMillis: number }
  /** A roll-out: every replica is restarted, one after the other. */
  | { readonly _tag: "RollOut" }
  /** The wall clock of a replica's machine is set. */
  | { readonly _tag: "StepClock"; readonly replica: number; readonly millis: number }
  | { readonly _tag: "StepStoreClock"; readonly millis: number }
  /** Connections are closed by something between a replica and the store. */
  | { readonly _tag: "CutConnections"; readonly replica: number | null }
  /** Connections of a replica swallow all messages; new connections work. */
  | { readonly _tag: "SilenceConnections"; readonly replica: number }
  /** A replica cannot reach the store. */
  | { readonly _tag: "Partition"; readonly replica: number; readonly millis: number }
  | { readonly _tag: "SlowStore"; readonly statementMillis: number; readonly millis: number }
  | { readonly _tag: "FreezeStore"; readonly millis: number }
  | { readonly _tag: "RestartStore"; readonly downMillis: number }
  | { readonly _tag: "LoseNotifications"; readonly millis: number }
)

/** Whether an action is a fault, which may explain a duplicate or a delay. */
export const isFault = ({ _tag }: Action): boolean =>
  !["Publish", "Replay", "EndCooldown", "Remove", "Receiver"].includes(_tag)

/** Everything about a run that is decided before it begins. */
export interface Plan {
  readonly seed: number
  readonly replicas: number
  readonly destinations: ReadonlyArray<{ readonly organization: number }>
  readonly concurrency: number
  readonly queueLimit: number
  readonly slots: { readonly slots: number; readonly retrySlots: number; readonly organizationSlots: number }
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
  for (let i = random.int(0, 24); i > 0; i--) actions.push(fault(random, at(), someReplica))
  return {
    seed,
    replicas,
    destinations,
    concurrency: random.pick([1, 2, 4, 8]),
    queueLimit: random.pick([10_000, 10_000, 300, 40]),
    slots: random.pick([
      { slots: 1_024, retrySlots: 576, organizationSlots: 64 },
      { slots: 12, retrySlots: 6, organizationSlots: 5 }
    ]),
    maxOpsBeforeYield: random.pick([24, 200, 2_048]),
    actions: actions.toSorted((a, b) => a.at - b.at)
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

const fault = (random: RandomStream, at: number, someReplica: () => number): Action => {
  const replica = someReplica()
  const kind = random.int(0, 17)
  switch (kind) {
    case 0:
    case 1:
      return { _tag: "Kill", at, replica, downMillis: random.logarithmic(50, 15_000) }
    case 2:
    case 3:
    case 4:
      // Around the length of a lease, in particular.
      return { _tag: "Freeze", at, replica, millis: random.logarithmic(50, 25_000) }
    case 5:
      return { _tag: "Suspend", at, replica, millis: random.logarithmic(1_000, 25_000) }
    case 6:
    case 7:
      return { _tag: "Restart", at, replica, downMillis: random.logarithmic(50, 5_000) }
    case 8:
      return { _tag: "RollOut", at }
    case 9:
      return { _tag: "StepClock", at, replica, millis: random.between(-60_000, 60_000) }
    case 10:
      return { _tag: "StepStoreClock", at, millis: random.between(-3_000, 3_000) }
    case 11:
    case 12:
      return { _tag: "CutConnections", at, replica: random.chance(0.3) ? null : replica }
    case 13:
      return { _tag: "SilenceConnections", at, replica }
    case 14:
      return { _tag: "Partition", at, replica, millis: random.logarithmic(200, 20_000) }
    case 15:
      return {
        _tag: "SlowStore",
        at,
        statementMillis: random.logarithmic(20, 8_000),
        millis: random.logarithmic(500, 10_000)
      }
    case 16:
      return random.chance(0.5)
        ? { _tag: "FreezeStore", at, millis: random.logarithmic(200, 12_000) }
        : { _tag: "RestartStore", at, downMillis: random.logarithmic(100, 6_000) }
    default:
      return { _tag: "LoseNotifications", at, millis: random.logarithmic(500, 15_000) }
  }
}
