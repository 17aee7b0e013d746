/** Processes that the system kills when memory runs out: of the embedded PostgreSQL, and the service itself. */
import { Context, Effect, Exit, Layer, Ref, Scope } from "effect"
import path from "node:path"
import { EmbeddedPostgres } from "../../../src/server/store/EmbeddedPostgres.ts"
import { prepareOrganization, startLoad } from "./load.ts"
import { commandOf, processesIn, sendSignal } from "./processes.ts"
import { startWebhookReceiver } from "./receiver.ts"
import { makeReport } from "./report.ts"
import { type Fault, type FaultRunOptions, inflictAll, shuffled } from "./rounds.ts"
import { serviceEnvironment, startService } from "./service.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

/** Runs a service with an embedded PostgreSQL whose processes are killed. Undefined: this is not Linux. */
export const runMemoryFaults = Effect.fnUntraced(function* (options: FaultRunOptions) {
  if (process.platform !== "linux") return undefined
  const dataDir = path.join(yield* temporaryDirectory, "data")
  const cluster = path.join(dataDir, "postgres")
  const environment = { ...serviceEnvironment(), COUNTERSIGN_DATA_DIR: dataDir }
  const scope = yield* Effect.scope
  const start = Effect.gen(function* () {
    const own = yield* Scope.fork(scope)
    return { scope: own, ...(yield* Scope.provide(startService(environment), own)) }
  })
  const first = yield* start
  if (first.firstKey === undefined) return yield* Effect.die(new Error("The service printed no key"))
  const current = yield* Ref.make(first)
  const service = () => Effect.runSync(Ref.get(current))

  const receiver = yield* startWebhookReceiver
  const keys = yield* prepareOrganization(first.url, first.firstKey, receiver.url)
  const load = yield* startLoad(() => [service().url], keys)

  const killOne = (name: string, pattern: RegExp): Fault => ({
    name: `${name} is killed`,
    begin: Effect.sync(() => {
      const found = processesIn(cluster).filter((pid) => pattern.test(commandOf(pid)))
      const chosen = found[Math.floor(options.random() * found.length)]
      if (chosen === undefined) throw new Error(`no process of ${cluster} is ${name}`)
      sendSignal(chosen, "SIGKILL")
    }),
    holdMillis: 500,
    end: Effect.void,
    expected: "any"
  })
  const faults: ReadonlyArray<Fault> = [
    // Its requests are served by the next one: it uses the server that was left running.
    {
      name: "the service is killed",
      begin: Effect.gen(function* () {
        const old = service()
        yield* old.process.kill("SIGKILL")
        yield* old.process.ended
        yield* Scope.close(old.scope, Exit.void)
        yield* Ref.set(current, yield* start)
      }),
      holdMillis: 500,
      end: Effect.void,
      expected: "any"
    },
    killOne("a database process", /^postgres: countersign: countersign countersign/),
    killOne("the checkpointer", /checkpointer/),
    killOne("the writer of the write-ahead log", /walwriter/),
    killOne("the database server", /postgres -D /)
  ]
  const list = shuffled(faults, options)
  const { broken, rounds } = yield* inflictAll(list, () => [service()], load, options)
  const store = yield* Layer.build(EmbeddedPostgres.layer({ dataDir }))
  const { url } = Context.get(store, EmbeddedPostgres)
  return yield* makeReport({ url, load, receiver, rounds, broken })
}, Effect.orDie)
