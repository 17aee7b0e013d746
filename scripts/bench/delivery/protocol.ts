/**
 * Messages between the benchmark and the delivering processes. Times are microseconds of the machine's monotonic clock, which is the same
 * for all processes.
 */
import { Schema } from "effect"

export const nowMicros = (): number => Number(process.hrtime.bigint() / 1_000n)

/** Publishes events in one transaction, round-robin over the organizations, each to all endpoints of one. Answered by `Published`. */
const Publish = Schema.TaggedStruct("Publish", { events: Schema.Int })
/** Publishes `perSecond` events for `millis`, each in its own transaction. Answered by `Published`. */
const PublishAtRate = Schema.TaggedStruct("PublishAtRate", { perSecond: Schema.Number, millis: Schema.Int })
/** Queues deliveries for an endpoint that accepts requests and never answers. Answered by `Settled` once they are committed. */
const QueueForHanging = Schema.TaggedStruct("QueueForHanging", { deliveries: Schema.Int })
/** Queues deliveries that fall due one after another, `perSecond`, from `afterMillis` on. Answered by `Settled` once they are committed. */
const QueueAhead = Schema.TaggedStruct("QueueAhead", {
  deliveries: Schema.Int,
  perSecond: Schema.Number,
  afterMillis: Schema.Int
})
/** Answered by `Settled` once everything is sent and recorded. */
const Settle = Schema.TaggedStruct("Settle", {})
/** Answered by `Usage`. */
const Measure = Schema.TaggedStruct("Measure", {})
const Stop = Schema.TaggedStruct("Stop", {})

export const Command = Schema.Union([
  Publish,
  PublishAtRate,
  QueueForHanging,
  QueueAhead,
  Settle,
  Measure,
  Stop
])
export type Command = typeof Command.Type

/** `list` has the id of each event with the time right after its commit. */
const Published = Schema.TaggedStruct("Published", {
  at: Schema.Number,
  list: Schema.Array(Schema.Tuple([Schema.String, Schema.Number]))
})
const Settled = Schema.TaggedStruct("Settled", { at: Schema.Number })
const Usage = Schema.TaggedStruct("Usage", { cpuMicros: Schema.Number, residentBytes: Schema.Number })
/** Sent once, when the process is ready for commands. */
const Ready = Schema.TaggedStruct("Ready", {})

export const Reply = Schema.Union([Published, Settled, Usage, Ready])
export type Reply = typeof Reply.Type
export type Published = typeof Published.Type

/** The event ids of one transaction, and the time right after its commit. */
export interface Committed {
  readonly ids: ReadonlyArray<string>
  readonly at: number
}

/** One side of the comparison: how it carries out commands. */
export interface Side {
  /** Publishes events in one transaction. */
  readonly publish: (events: number) => Promise<Committed>
  readonly queueForHanging?: (deliveries: number) => Promise<void>
  readonly queueAhead?: (deliveries: number, perSecond: number, afterMillis: number) => Promise<void>
  /** Completes once everything is sent and recorded. */
  readonly settled: () => Promise<void>
  readonly stop: () => Promise<void>
}

const decodeCommand = Schema.decodeUnknownSync(Command)

/** Runs a side in this process: carries out the commands of the parent process. */
export const serveSide = (side: Side): void => {
  const reply = (reply: Reply) => void process.send?.(reply)
  const publish = async (events: number) => {
    const { at, ids } = await side.publish(events)
    return ids.map((id): readonly [string, number] => [id, at])
  }
  const atRate = async (perSecond: number, millis: number) => {
    const total = Math.floor((perSecond * millis) / 1_000)
    const under: Array<Promise<unknown>> = []
    const list: Array<readonly [string, number]> = []
    const begin = performance.now()
    for (let sent = 0; sent < total;) {
      const due = Math.min(total, Math.floor(((performance.now() - begin) / 1_000) * perSecond))
      for (; sent < due; sent++) under.push(publish(1).then((events) => list.push(...events)))
      await new Promise((resume) => setTimeout(resume, 1))
    }
    await Promise.all(under)
    return list
  }
  const execute = async (command: Command): Promise<void> => {
    switch (command._tag) {
      case "Publish": {
        const list = await publish(command.events)
        return reply({ _tag: "Published", at: list[0]?.[1] ?? nowMicros(), list })
      }
      case "PublishAtRate": {
        const list = await atRate(command.perSecond, command.millis)
        return reply({ _tag: "Published", at: list[0]?.[1] ?? nowMicros(), list })
      }
      case "QueueForHanging":
        await side.queueForHanging?.(command.deliveries)
        return reply({ _tag: "Settled", at: nowMicros() })
      case "QueueAhead":
        await side.queueAhead?.(command.deliveries, command.perSecond, command.afterMillis)
        return reply({ _tag: "Settled", at: nowMicros() })
      case "Settle":
        await side.settled()
        return reply({ _tag: "Settled", at: nowMicros() })
      case "Measure": {
        const { system, user } = process.cpuUsage()
        return reply({ _tag: "Usage", cpuMicros: user + system, residentBytes: process.memoryUsage.rss() })
      }
      case "Stop":
        await side.stop()
        process.exit(0)
    }
  }
  process.on("message", (message) => {
    execute(decodeCommand(message)).catch((cause: unknown) => {
      console.error(cause)
      process.exit(1)
    })
  })
  process.on("disconnect", () => process.exit(0))
  reply({ _tag: "Ready" })
}

/** Poll interval of `pollUntilDone`. */
const POLL_MILLIS = 5

/** Polls until `hasWork` returns false. */
export const pollUntilDone = async (hasWork: () => Promise<boolean>): Promise<void> => {
  while (await hasWork()) await new Promise((resume) => setTimeout(resume, POLL_MILLIS))
}
