/** Clocks that are set wrong, of the services and of the database's machine. */
import { Effect, Exit, Redacted, Scope } from "effect"
import path from "node:path"
import { prepareOrganization, startLoad } from "./load.ts"
import { createCluster, findPrograms, makeServer } from "./postgresServer.ts"
import { makeProcessFaults, type ProcessFaults } from "./preload.ts"
import { startDatabaseProxy } from "./databaseProxy.ts"
import { startWebhookReceiver } from "./receiver.ts"
import { makeReport } from "./report.ts"
import { type Fault, type FaultRunOptions, inflictAll, shuffled } from "./rounds.ts"
import { serviceEnvironment, type ServiceUnderTest, startService } from "./service.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

/** How long a fault lasts, in milliseconds. */
const HOLD_MILLIS = 5_000

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Further than a replica trusts a lease to end later than its own would. */
const DEAD_LEASE_MILLIS = 75_000

const describeStep = (millis: number): string =>
  `set ${millis < 0 ? "back" : "ahead"} by ${Math.abs(millis) / 1_000} seconds`

/** Runs two services on one database, and sets their clocks. Undefined: this machine cannot make the faults. */
export const runClockFaults = Effect.fnUntraced(function* (options: FaultRunOptions) {
  const [ofDatabase, ...ofServices] = [
    yield* makeProcessFaults,
    yield* makeProcessFaults,
    yield* makeProcessFaults
  ]
  const [ofFirst, ofSecond] = ofServices
  if (ofDatabase === undefined || ofFirst === undefined || ofSecond === undefined) return undefined
  const directory = yield* temporaryDirectory
  const programs = yield* findPrograms(directory)
  const cluster = path.join(directory, "database")
  yield* createCluster(programs, cluster)
  const server = yield* makeServer(programs, cluster, ofDatabase.environment)
  yield* server.start({})
  const proxy = yield* startDatabaseProxy("countersign", "countersign")
  proxy.setTarget(server.socket)

  const scope = yield* Effect.scope
  const environment = { ...serviceEnvironment(), DATABASE_URL: Redacted.value(proxy.url) }
  const start = (faults: ProcessFaults) =>
    Effect.gen(function* () {
      const own = yield* Scope.fork(scope)
      const service = yield* Scope.provide(startService({ ...environment, ...faults.environment }), own)
      return { scope: own, ...service }
    })
  const first = yield* start(ofFirst)
  if (first.firstKey === undefined) return yield* Effect.die(new Error("The service printed no key"))
  let second: (ServiceUnderTest & { readonly scope: Scope.Closeable }) | undefined = yield* start(ofSecond)
  const services = () => (second === undefined ? [first] : [first, second])

  const receiver = yield* startWebhookReceiver
  const keys = yield* prepareOrganization(first.url, first.firstKey, receiver.url)
  const load = yield* startLoad(() => services().map(({ url }) => url), keys)

  const setServiceClock = (faults: ProcessFaults, millis: number): Fault => ({
    name: `the clock of one service is ${describeStep(millis)}`,
    begin: Effect.sync(() => faults.setClock(millis)),
    holdMillis: HOLD_MILLIS,
    end: Effect.sync(() => faults.setClock(0)),
    expected: "unnoticed"
  })
  let databaseMillis = 0
  /** The clock stays as it is: deliveries that wait while it is set back are late by as much. */
  const stepDatabaseClock = (millis: number) =>
    Effect.sync(() => {
      databaseMillis += millis
      ofDatabase.setClock(databaseMillis)
    })
  const setDatabaseClock = (millis: number): Fault => ({
    name: `the clock of the database is ${describeStep(millis)}`,
    begin: stepDatabaseClock(millis),
    holdMillis: HOLD_MILLIS,
    end: Effect.void,
    expected: "unnoticed"
  })
  const faults: ReadonlyArray<Fault> = [
    setServiceClock(ofFirst, 40 * DAY),
    setServiceClock(ofSecond, -HOUR),
    setDatabaseClock(10 * MINUTE),
    setDatabaseClock(-10_000),
    {
      name: "the clock of the database is set back while a service is killed",
      begin: Effect.gen(function* () {
        const killed = second
        second = undefined
        yield* stepDatabaseClock(-DEAD_LEASE_MILLIS)
        if (killed === undefined) return
        yield* killed.process.kill("SIGKILL")
        yield* killed.process.ended
        yield* Scope.close(killed.scope, Exit.void)
      }),
      holdMillis: HOLD_MILLIS,
      end: Effect.gen(function* () {
        second = yield* start(ofSecond)
      }),
      expected: "any"
    }
  ]
  const list = shuffled(faults, options)
  const { broken, rounds } = yield* inflictAll(list, services, load, options)
  return yield* makeReport({ url: proxy.url, load, receiver, rounds, broken })
}, Effect.orDie)
