/**
 * A primary with a synchronous standby, behind a proxy as operators use one. The primary dies, is cut off or is
 * stopped, the standby is promoted, and the proxy sends new connections to it. Then the former primary becomes the next
 * standby.
 */
import { Effect, Redacted, Schedule } from "effect"
import path from "node:path"
import { pgbouncerProgram, startPgBouncer } from "../../../test/support/pgbouncer.ts"
import { startDatabaseProxy } from "./databaseProxy.ts"
import { prepareOrganization, startLoad } from "./load.ts"
import {
  createCluster,
  createStandby,
  findPrograms,
  makeServer,
  type PostgresServer,
  type Programs
} from "./postgresServer.ts"
import { startWebhookReceiver } from "./receiver.ts"
import { makeReport } from "./report.ts"
import { type Fault, type FaultRunOptions, inflictAll, shuffled } from "./rounds.ts"
import { serviceEnvironment, startService } from "./service.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

/** The name of the standby, whichever server it is. */
const STANDBY = "standby"

/** How long a primary is missing before its standby is promoted, in milliseconds. */
const HOLD_MILLIS = 4_000

/** How long the standby is missing, in milliseconds: longer than a connection may be silent. */
const STALL_MILLIS = 25_000

/** Names the standbys that commits wait for; none if it is empty. */
const setStandby = Effect.fnUntraced(function* (primary: PostgresServer, name: string) {
  yield* primary.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`)
  yield* primary.query("SELECT pg_reload_conf()")
})

/** Makes a server the synchronous standby of another one, and waits until commits wait for it. */
const attach = Effect.fnUntraced(function* (
  programs: Programs,
  primary: PostgresServer,
  standby: PostgresServer
) {
  yield* standby.kill
  yield* createStandby(programs, primary, standby.directory, STANDBY)
  yield* standby.start({})
  yield* setStandby(primary, STANDBY)
  yield* untilSynchronous(primary)
}, Effect.orDie)

const untilSynchronous = (primary: PostgresServer) =>
  Effect.repeat(primary.query("SELECT sync_state FROM pg_stat_replication"), {
    until: ([row]) => row?.["sync_state"] === "sync",
    schedule: Schedule.spaced("100 millis")
  })

/** How long the pooler is missing, in milliseconds. */
const POOLER_HOLD_MILLIS = 1_000

/** Runs two services on a primary and its standby. Undefined: this is not Linux. */
export const runFailover = (options: FaultRunOptions) => run(options, false)

/** The same through PgBouncer in transaction mode, which is killed too. Undefined: this is not Linux, or PgBouncer is not installed. */
export const runPoolerFailover = (options: FaultRunOptions) =>
  pgbouncerProgram === undefined ? Effect.undefined : run(options, true)

const run = Effect.fnUntraced(function* (options: FaultRunOptions, throughPooler: boolean) {
  if (process.platform !== "linux") return undefined
  const directory = yield* temporaryDirectory
  const programs = yield* findPrograms(directory)
  let primary = yield* makeServer(programs, path.join(directory, "one"))
  let standby = yield* makeServer(programs, path.join(directory, "two"))
  yield* createCluster(programs, primary.directory)
  yield* primary.start({})
  const proxy = yield* startDatabaseProxy("countersign", "countersign")
  proxy.setTarget(primary.socket)

  const pooler = throughPooler ? yield* startPgBouncer(proxy.url) : undefined
  const environment = {
    ...serviceEnvironment(),
    ...(pooler === undefined
      ? { DATABASE_URL: Redacted.value(proxy.url) }
      : {
          DATABASE_URL: Redacted.value(pooler.through(proxy.url)),
          COUNTERSIGN_DIRECT_DATABASE_URL: Redacted.value(proxy.url)
        })
  }
  // A pooler makes requests wait for a server, and runs them once there is one.
  const expected = throughPooler ? "any" : "unavailable"
  const first = yield* startService(environment)
  if (first.firstKey === undefined) return yield* Effect.die(new Error("The service printed no key"))
  const second = yield* startService(environment)
  const services = [first, second]
  const receiver = yield* startWebhookReceiver
  const keys = yield* prepareOrganization(first.url, first.firstKey, receiver.url)
  const load = yield* startLoad(() => services.map(({ url }) => url), keys)

  let isAttached = false
  const attachStandby = Effect.suspend(() =>
    isAttached
      ? Effect.void
      : Effect.map(attach(programs, primary, standby), () => {
          isAttached = true
        })
  )

  /** Promotes the standby. The former primary will be the next standby. */
  const promote = Effect.gen(function* () {
    yield* standby.query("SELECT pg_promote(true, 60)")
    // Until it has a standby of its own.
    yield* setStandby(standby, "")
    proxy.setTarget(standby.socket)
    ;[primary, standby] = [standby, primary]
    isAttached = false
    // A primary that was only cut off has to end, so that no client writes to both.
    yield* standby.kill
  }).pipe(Effect.orDie)

  const faults: ReadonlyArray<Fault> = [
    {
      name: "the primary is killed",
      begin: Effect.suspend(() => {
        proxy.setTarget(undefined)
        return primary.kill
      }),
      holdMillis: HOLD_MILLIS,
      end: promote,
      expected
    },
    {
      name: "the primary is cut off",
      begin: Effect.sync(() => {
        proxy.setTarget(undefined)
        proxy.forgetConnections()
      }),
      holdMillis: HOLD_MILLIS,
      end: promote,
      expected: "any"
    },
    {
      name: "the primary is stopped",
      begin: Effect.suspend(() => primary.stop),
      holdMillis: HOLD_MILLIS,
      end: promote,
      expected
    },
    {
      name: "the standby is killed",
      begin: Effect.suspend(() => standby.kill),
      holdMillis: STALL_MILLIS,
      end: Effect.suspend(() => standby.start({})),
      expected
    },
    ...(pooler === undefined
      ? []
      : [
          {
            name: "the pooler is restarted",
            begin: pooler.kill,
            holdMillis: POOLER_HOLD_MILLIS,
            end: pooler.start,
            expected: "unavailable"
          } as const
        ])
  ]
  const list = shuffled(faults, options).map((fault) => ({ ...fault, prepare: attachStandby }))
  const { broken, rounds } = yield* inflictAll(list, () => services, load, options)
  return yield* makeReport({ url: proxy.url, load, receiver, rounds, broken })
}, Effect.orDie)
