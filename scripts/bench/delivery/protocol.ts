/**
 * What the benchmark says to the processes that deliver, and what they answer. Times are of the machine's monotonic clock, in
 * microseconds, which all processes read alike.
 */
import { Schema } from "effect"

export const nowMicros = (): number => Number(process.hrtime.bigint() / 1_000n)

/** Events of the organizations in turn, each for all endpoints of one, in one transaction. Answered by `Published`. */
const Publish = Schema.TaggedStruct("Publish", { events: Schema.Int })
/** So many events a second for so long, each in a transaction of its own. Answered by `Published`. */
const PublishAtRate = Schema.TaggedStruct("PublishAtRate", { perSecond: Schema.Number, millis: Schema.Int })
/** Queues so many deliveries for an endpoint that takes requests and never answers. Answered by `Settled` once they are committed. */
const QueueForHanging = Schema.TaggedStruct("QueueForHanging", { deliveries: Schema.Int })
/** Asks to be told when nothing is left to do or to write down. Answered by `Settled`. */
const Settle = Schema.TaggedStruct("Settle", {})
/** Asks for processor time and memory. Answered by `Usage`. */
const Measure = Schema.TaggedStruct("Measure", {})
const Stop = Schema.TaggedStruct("Stop", {})

export const Command = Schema.Union([Publish, PublishAtRate, QueueForHanging, Settle, Measure, Stop])
export type Command = typeof Command.Type

/** `list`: each event with the time right after its commit. */
const Published = Schema.TaggedStruct("Published", {
  at: Schema.Number,
  list: Schema.Array(Schema.Tuple([Schema.String, Schema.Number]))
})
const Settled = Schema.TaggedStruct("Settled", { at: Schema.Number })
const Usage = Schema.TaggedStruct("Usage", { cpuMicros: Schema.Number, residentBytes: Schema.Number })
/** The process is up. */
const Ready = Schema.TaggedStruct("Ready", {})

export const Reply = Schema.Union([Published, Settled, Usage, Ready])
export type Reply = typeof Reply.Type
export type Published = typeof Published.Type

/** What one transaction has committed, and the time right after it. */
export interface Committed {
  readonly ids: ReadonlyArray<string>
  readonly at: number
}

/** How a side of the comparison does what it is told. */
export interface Side {
  /** One transaction of so many events. */
  readonly publish: (events: number) => Promise<Committed>
  readonly queueForHanging?: (deliveries: number) => Promise<void>
  /** Done when nothing is left. */
  readonly settled: () => Promise<void>
  readonly stop: () => Promise<void>
}

const decodeCommand = Schema.decodeUnknownSync(Command)

/** Runs a side as a process: does what it is told, one thing after the other. */
export const serveSide = (side: Side): void => {
  const tell = (reply: Reply) => void process.send?.(reply)
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
  const obey = async (command: Command): Promise<void> => {
    switch (command._tag) {
      case "Publish": {
        const list = await publish(command.events)
        return tell({ _tag: "Published", at: list[0]?.[1] ?? nowMicros(), list })
      }
      case "PublishAtRate": {
        const list = await atRate(command.perSecond, command.millis)
        return tell({ _tag: "Published", at: list[0]?.[1] ?? nowMicros(), list })
      }
      case "QueueForHanging":
        await side.queueForHanging?.(command.deliveries)
        return tell({ _tag: "Settled", at: nowMicros() })
      case "Settle":
        await side.settled()
        return tell({ _tag: "Settled", at: nowMicros() })
      case "Measure": {
        const { system, user } = process.cpuUsage()
        return tell({ _tag: "Usage", cpuMicros: user + system, residentBytes: process.memoryUsage.rss() })
      }
      case "Stop":
        await side.stop()
        process.exit(0)
    }
  }
  process.on("message", (message) => {
    obey(decodeCommand(message)).catch((cause: unknown) => {
      console.error(cause)
      process.exit(1)
    })
  })
  process.on("disconnect", () => process.exit(0))
  tell({ _tag: "Ready" })
}

/** Between two looks at whether anything is left. */
const LOOK_MILLIS = 5

/** Looks until nothing is left. */
export const untilNothing = async (left: () => Promise<boolean>): Promise<void> => {
  while (await left()) await new Promise((resume) => setTimeout(resume, LOOK_MILLIS))
}
