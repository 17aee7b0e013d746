/**
 * Memory runs out: processes of the embedded PostgreSQL and the service itself are killed, as the system does it, and by the system itself
 * at a memory limit where one can be set.
 */
import { Context, Effect, Exit, Layer, Ref, Scope } from "effect"
import path from "node:path"
import { EmbeddedPostgres } from "../../../src/server/store/EmbeddedPostgres.ts"
import { prepareOrganization, startLoad } from "./load.ts"
import { commandOf, processesIn, sendSignal } from "./processes.ts"
import { startWebhookReceiver } from "./receiver.ts"
import { makeMemoryLimit, type MemoryLimit } from "./memoryLimit.ts"
import { makeReport } from "./report.ts"
import { type Fault, type FaultRunOptions, inflictAll, shuffled } from "./rounds.ts"
import { serviceEnvironment, startService } from "./service.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

/** How much more the processes may need below a limit, in bytes: less than the load needs within a second. */
const LIMIT_BYTES = 8 * 1024 * 1024

/** Limits at which the system itself kills. None where this account may not set limits; the reason is printed. */
const limitFaults = ({
  cluster,
  replaceService,
  service
}: {
  readonly cluster: string
  readonly service: () => number
  readonly replaceService: Effect.Effect<void>
}): ReadonlyArray<Fault> => {
  const limitOf = (name: string) => makeMemoryLimit(`countersign-faults-${process.pid}-${name}`)
  const ofService = limitOf("service")
  const ofDatabase = limitOf("database")
  if (ofService === undefined || ofDatabase === undefined) {
    console.log("memory limits are skipped: this account may not make control groups")
    return []
  }
  return [
    {
      name: "the service reaches its memory limit",
      begin: Effect.suspend(() => {
        ofService.apply([service()], LIMIT_BYTES)
        return replaceService
      }),
      holdMillis: 500,
      end: requireKills("the service", ofService),
      expected: "any"
    },
    {
      name: "database connections reach their memory limit",
      begin: Effect.sync(() => {
        const pids = processesIn(cluster).filter((pid) => CLIENT_BACKEND.test(commandOf(pid)))
        ofDatabase.apply(pids, 0)
      }),
      holdMillis: 3_000,
      end: requireKills("a database connection", ofDatabase),
      expected: "any"
    }
  ]
}

/** Takes a limit away. Fails if nothing was killed: then the fault did not happen. */
const requireKills = (name: string, limit: MemoryLimit) =>
  Effect.sync(() => {
    const kills = limit.kills()
    limit.lift()
    if (kills === 0) throw new Error(`${name} was not killed at its memory limit`)
  })

const CLIENT_BACKEND = /^postgres: countersign: countersign countersign/

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
  /** Starts the next service after the end of the last one: it uses the database server that was left running. */
  const replaceService = Effect.gen(function* () {
    const old = service()
    yield* old.process.ended
    yield* Scope.close(old.scope, Exit.void)
    yield* Ref.set(current, yield* start)
  })
  const faults: ReadonlyArray<Fault> = [
    {
      name: "the service is killed",
      begin: Effect.suspend(() => Effect.andThen(service().process.kill("SIGKILL"), replaceService)),
      holdMillis: 500,
      end: Effect.void,
      expected: "any"
    },
    ...limitFaults({ cluster, service: () => service().process.pid, replaceService }),
    killOne("a database process", CLIENT_BACKEND),
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
