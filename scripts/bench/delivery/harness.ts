/** One PostgreSQL server, one receiver process, and the delivering processes, each on its own database. */
import { Redacted, Schema } from "effect"
import { type ChildProcess, fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import { median, processorSeconds, quantile } from "../measure.ts"
import { startStore, type Store } from "../service.ts"
import { bundle } from "../bundle.ts"
import { ENDPOINTS } from "./message.ts"
import { type Command, type Published, Reply } from "./protocol.ts"

/** The sides of the comparison. */
export type SideName = "raw" | "graphile" | "pgBoss" | "ours"

/** A running side, as the benchmark controls it. */
export interface Runner {
  readonly name: SideName
  readonly pid: number
  /** Its database. */
  readonly url: Redacted.Redacted
  readonly ask: (command: Command) => Promise<Reply>
  readonly stop: () => Promise<void>
}

/** Figures of one round: rate, and processor time per delivery in microseconds. */
export interface Round {
  readonly perSecond: number
  readonly sender: number
  readonly store: number
  readonly receiver: number
}

/** The set-up of one run. */
export interface Harness {
  readonly store: Store
  /**
   * `prepare` runs on the side's database before its process starts. `BENCH_BUILD` in the environment names the bundle of another build
   * of the side, to compare the two.
   */
  readonly start: (
    name: SideName,
    environment?: Readonly<Record<string, string>>,
    prepare?: (url: Redacted.Redacted) => Promise<void>
  ) => Promise<Runner>
  /** Commits events in one transaction and measures deliveries per second until the last is recorded. */
  readonly round: (runner: Runner, events: number) => Promise<Round>
  /** Commits events at a steady rate and returns the milliseconds from commit to arrival of each delivery. */
  readonly latencies: (runner: Runner, perSecond: number, millis: number) => Promise<ReadonlyArray<number>>
  readonly dispose: () => Promise<void>
}

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))

const ReceiverMessage = Schema.Union([
  Schema.TaggedStruct("Listening", { port: Schema.Int }),
  Schema.TaggedStruct("Count", { count: Schema.Int }),
  Schema.TaggedStruct("Arrivals", { list: Schema.Array(Schema.Tuple([Schema.String, Schema.Number])) })
])
const decodeReceiverMessage = Schema.decodeUnknownSync(ReceiverMessage)
const decodeReply = Schema.decodeUnknownSync(Reply)

/** Starts the receiver in a process of its own. */
export const startReceiver = async () => {
  const child = fork(here("receiver.ts"))
  let count = 0
  let waiting = { count: Infinity, done: () => {} }
  let taken: (list: ReadonlyArray<readonly [string, number]>) => void = () => {}
  const port = await new Promise<number>((resume) => {
    child.on("message", (message) => {
      const received = decodeReceiverMessage(message)
      switch (received._tag) {
        case "Listening":
          return resume(received.port)
        case "Count":
          count = received.count
          if (count >= waiting.count) waiting.done()
          return
        case "Arrivals":
          return taken(received.list)
      }
    })
  })
  return {
    port,
    pid: child.pid ?? 0,
    count: () => count,
    until: (count_: number) =>
      count >= count_ ? Promise.resolve() : new Promise<void>((done) => (waiting = { count: count_, done })),
    take: () =>
      new Promise<ReadonlyArray<readonly [string, number]>>((resume) => {
        taken = resume
        child.send("take")
      }),
    kill: () => child.kill("SIGKILL")
  }
}

const startSide = async (
  name: SideName,
  file: string,
  url: Redacted.Redacted,
  environment: Readonly<Record<string, string>>
): Promise<Runner> => {
  const child: ChildProcess = fork(file, {
    // Ours as its commands start it, the others as Node.js does.
    execArgv: name === "ours" ? ["--max-semi-space-size=8"] : [],
    env: { ...process.env, NODE_ENV: "production", DATABASE_URL: Redacted.value(url), ...environment }
  })
  const reply = () =>
    new Promise<Reply>((resume, fail) => {
      const onExit = () => fail(new Error(`${name} ended`))
      child.once("exit", onExit)
      child.once("message", (message) => {
        child.off("exit", onExit)
        resume(decodeReply(message))
      })
    })
  await reply()
  return {
    name,
    url,
    pid: child.pid ?? 0,
    ask: (command) => {
      const answer = reply()
      child.send(command)
      return answer
    },
    stop: () =>
      new Promise((resume) => {
        if (child.exitCode !== null || child.signalCode !== null) return resume()
        child.once("exit", () => resume())
        child.send({ _tag: "Stop" } satisfies Command)
      })
  }
}

/** Starts PostgreSQL and the receiver. */
export const startHarness = async (): Promise<Harness> => {
  const fileOf = await bundle({
    raw: here("sides/raw.ts"),
    graphile: here("sides/graphile.ts"),
    pgBoss: here("sides/pgBoss.ts"),
    ours: here("sides/ours.ts")
  } satisfies Record<SideName, string>)
  const store = await startStore()
  const receiver = await startReceiver()
  const runners: Array<Runner> = []

  const published = async (runner: Runner, command: Command): Promise<Published> => {
    const reply = await runner.ask(command)
    if (reply._tag !== "Published") throw new Error(`${runner.name} answered ${reply._tag}`)
    return reply
  }

  return {
    store,
    start: async (name, environment = {}, prepare) => {
      const url = await store.database(`bench_${name.toLowerCase()}_${runners.length}`)
      await prepare?.(url)
      const runner = await startSide(name, environment["BENCH_BUILD"] ?? fileOf(name), url, {
        BENCH_PORT: String(receiver.port),
        ...environment
      })
      runners.push(runner)
      return runner
    },
    round: async (runner, events) => {
      const until = receiver.count() + events * ENDPOINTS
      const { at } = await published(runner, { _tag: "Publish", events })
      const before = [processorSeconds(runner.pid), store.processorSeconds(), processorSeconds(receiver.pid)]
      await receiver.until(until)
      const settled = await runner.ask({ _tag: "Settle" })
      if (settled._tag !== "Settled") throw new Error(`${runner.name} answered ${settled._tag}`)
      const after = [processorSeconds(runner.pid), store.processorSeconds(), processorSeconds(receiver.pid)]
      const arrivals = await receiver.take()
      const last = Math.max(settled.at, ...arrivals.slice(-1).map(([, time]) => time))
      const each = (index: number) =>
        (((after[index] ?? 0) - (before[index] ?? 0)) * 1e6) / (events * ENDPOINTS)
      return {
        perSecond: (events * ENDPOINTS * 1e6) / (last - at),
        sender: each(0),
        store: each(1),
        receiver: each(2)
      }
    },
    latencies: async (runner, perSecond, millis) => {
      const before = receiver.count()
      await receiver.take()
      const { list } = await published(runner, { _tag: "PublishAtRate", perSecond, millis })
      await receiver.until(before + list.length * ENDPOINTS)
      const committed = new Map(list)
      return (await receiver.take()).flatMap(([key, at]) => {
        const time = committed.get(key.split(" ")[1] ?? "")
        return time === undefined ? [] : [(at - time) / 1_000]
      })
    },
    dispose: async () => {
      await Promise.all(runners.map((runner) => runner.stop()))
      receiver.kill()
      await store.dispose()
    }
  }
}

/** One line of output with latency quantiles. */
export const latencyLine = (what: string, millis: ReadonlyArray<number>): string =>
  `${what.padEnd(44)} p50 ${median(millis).toFixed(1)}  p95 ${quantile(millis, 0.95).toFixed(1)}  p99 ${quantile(millis, 0.99).toFixed(1)}  max ${millis.reduce((a, b) => Math.max(a, b), 0).toFixed(1)} ms`
