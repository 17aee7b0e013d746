import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Fiber, Layer, Logger, Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { randomBytes } from "node:crypto"
import path from "node:path"
import { startDatabaseProxy } from "../../scripts/chaos/faults/databaseProxy.ts"
import {
  createCluster,
  createStandby,
  findPrograms,
  makeServer
} from "../../scripts/chaos/faults/postgresServer.ts"
import { temporaryDirectory } from "../../scripts/chaos/faults/temporaryDirectory.ts"
import { SHARDS } from "../../src/server/delivery/Delivery/shardOf.ts"
import { makeShardStore } from "../../src/server/delivery/Delivery/ShardStore.ts"
import { DatabaseOutage } from "../../src/server/observability/DatabaseOutage.ts"
import * as Database from "../../src/server/store/Database.ts"
import * as DatabaseHealth from "../../src/server/store/DatabaseHealth.ts"
import { describeDatabaseError } from "../../src/server/store/databaseErrors.ts"
import { makeReadiness, migrate } from "../../src/server/store/migrate.ts"
import { spawnCli } from "../support/process.ts"
import { eventually } from "../support/eventually.ts"

const isLinux = process.platform === "linux"
if (!isLinux) process.stderr.write("Standby is skipped: the processes of its server are found in /proc\n")

/** A primary, and how its commits wait for standbys. */
const startPrimary = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const programs = yield* findPrograms(directory)
  const server = yield* makeServer(programs, path.join(directory, "primary"))
  yield* createCluster(programs, server.directory)
  yield* server.start({})
  const url = new URL("postgres:///countersign?user=countersign&sslmode=disable")
  url.searchParams.set("host", server.directory)
  return {
    url: Redacted.make(url.href),
    /** Names the standbys that commits wait for; none if it is empty. */
    setStandby: Effect.fnUntraced(function* (name: string) {
      yield* server.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`)
      yield* server.query("SELECT pg_reload_conf()")
    }),
    /** How many connections wait for a standby. */
    waiting: Effect.map(
      server.query("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"),
      (rows) => rows.length
    )
  }
})

/** The service's client. A connection on which the server is silent is closed after 2.5 s. */
const layerClient = (url: Redacted.Redacted) =>
  Layer.orDie(Database.layer({ url, statementTimeoutMillis: 500 }))

describe.skipIf(!isLinux)("a primary without its synchronous standby", () => {
  it.live(
    "is an outage although the server answers queries: it is logged once, ends with the standby, and no check leaves a connection",
    () =>
      Effect.gen(function* () {
        const { setStandby, url, waiting } = yield* startPrimary
        const log: Array<string> = []
        const collector = Logger.make<unknown, void>(({ logLevel, message }) => {
          if (logLevel === "Info" || logLevel === "Warn" || logLevel === "Error") log.push(String(message))
        })
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { isDown, report } = yield* DatabaseOutage
          yield* sql`CREATE TABLE notes (note text)`
          yield* setStandby("missing")
          // Again until one waits: the setting takes effect a moment after its statement.
          const writing = yield* Effect.forkChild(
            Effect.flip(Effect.forever(sql`INSERT INTO notes VALUES ('a')`))
          )
          yield* eventually(waiting, (count) => count === 1)
          assert.isTrue(yield* report(yield* Fiber.join(writing)))
          yield* eventually(Effect.sync(isDown), (down) => down)
          // The connection of the insert waits on; a check that timed out has cancelled its commit.
          for (let check = 0; check < 2; check++) {
            yield* eventually(waiting, (count) => count === 2)
            yield* eventually(waiting, (count) => count === 1)
          }
          assert.isTrue(isDown())
          yield* setStandby("")
          yield* eventually(Effect.sync(isDown), (down) => !down)
          yield* eventually(
            Effect.sync(() => log.at(-1)),
            (line) => line === "The database is available again"
          )
          assert.deepStrictEqual(
            log
              .filter((line) => line.startsWith("The database"))
              .map((line) => line.replace(/is unavailable.*/, "is unavailable")),
            [
              "The database is unavailable",
              "The database is still unavailable: the server completes no commits; it may wait for a synchronous standby",
              "The database is available again"
            ]
          )
        }).pipe(
          Effect.provide(
            DatabaseHealth.layer.pipe(
              Layer.provideMerge(layerClient(url)),
              Layer.provideMerge(Logger.layer([collector]))
            )
          )
        )
      }),
    120_000
  )

  it.live(
    "does not let leases run out, nor keep a stopping replica from releasing its shards",
    () =>
      Effect.gen(function* () {
        const { setStandby, url } = yield* startPrimary
        yield* Effect.gen(function* () {
          yield* migrate
          const sql = yield* SqlClient.SqlClient
          const shards = makeShardStore(sql, "a replica", false)
          const beat = { leaseMillis: 10_000, heartbeatTimeoutMillis: 3_000, draining: false }
          yield* shards.heartbeat(beat)
          assert.lengthOf(yield* shards.claim(SHARDS), SHARDS)
          yield* setStandby("missing")
          // A statement that waited for a standby would fail, because its connection is closed.
          assert.strictEqual((yield* shards.heartbeat(beat)).epochs.size, SHARDS)
          yield* shards.deregister
          yield* shards.release(Array.from({ length: SHARDS }, (_, shard) => shard))
          yield* shards.endLease
          assert.deepStrictEqual(
            yield* sql`
              SELECT
                (SELECT count(*)::int FROM delivery_owners) AS owners,
                (SELECT count(*)::int FROM delivery_leases) AS leases,
                (SELECT count(*)::int FROM delivery_shards WHERE owner IS NOT NULL) AS owned
            `,
            [{ owners: 0, leases: 0, owned: 0 }]
          )
        }).pipe(Effect.provide(layerClient(url)))
      }),
    120_000
  )
})

/** A primary and a standby of it, with an address that leads to either. */
const startPair = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const programs = yield* findPrograms(directory)
  const primary = yield* makeServer(programs, path.join(directory, "primary"))
  const standby = yield* makeServer(programs, path.join(directory, "standby"))
  yield* createCluster(programs, primary.directory)
  yield* primary.start({})
  yield* createStandby(programs, primary, standby.directory, "standby")
  yield* standby.start({})
  const proxy = yield* startDatabaseProxy("countersign", "countersign")
  return { primary, standby, proxy }
})

describe.skipIf(!isLinux)("a read-only standby as DATABASE_URL", () => {
  it.live(
    "ends the start with a sentence that says so",
    () =>
      Effect.gen(function* () {
        const { proxy, standby } = yield* startPair
        proxy.setTarget(standby.socket)
        const environment = {
          PORT: "0",
          DATABASE_URL: Redacted.value(proxy.url),
          COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64")
        }
        for (const command of ["serve", "migrate"]) {
          const { code, err } = yield* (yield* spawnCli([command], environment)).ended
          assert.strictEqual(code, 1)
          assert.include(
            err,
            "the server of DATABASE_URL is a read-only standby: set DATABASE_URL to the primary server"
          )
        }
      }),
    120_000
  )

  it.live(
    "is left as soon as the address leads to the primary again, although its connections stay open",
    () =>
      Effect.gen(function* () {
        const { primary, proxy, standby } = yield* startPair
        proxy.setTarget(primary.socket)
        yield* Effect.gen(function* () {
          yield* migrate
          const sql = yield* SqlClient.SqlClient
          yield* sql`CREATE TABLE notes (note text)`
          const ready = yield* makeReadiness
          const { report } = yield* DatabaseOutage
          const dedicated = Context.get(
            yield* Layer.build(Database.layerDedicatedPool(1)),
            SqlClient.SqlClient
          )
          const clients = [sql, dedicated]
          const insert = Effect.forEach(
            clients,
            (client) => Effect.exit(Effect.tapError(client`INSERT INTO notes VALUES ('a')`, report)),
            { concurrency: "unbounded" }
          )
          assert.isTrue(yield* ready)
          assert.isTrue((yield* insert).every(Exit.isSuccess))
          // The old entry of the DNS: all new connections reach the standby.
          proxy.setTarget(standby.socket)
          proxy.closeConnections()
          yield* eventually(
            Effect.map(insert, ([first]) => messageOf(first)),
            (message) => /read-only/.test(message)
          )
          assert.isFalse(yield* ready)
          proxy.setTarget(primary.socket)
          yield* eventually(insert, (exits) => exits.every(Exit.isSuccess))
          yield* eventually(ready, (isReady) => isReady)
        }).pipe(
          Effect.scoped,
          Effect.provide(DatabaseHealth.layer.pipe(Layer.provideMerge(layerClient(proxy.url))))
        )
      }),
    120_000
  )
})

const messageOf = (exit: Exit.Exit<unknown, SqlError.SqlError> | undefined): string =>
  exit !== undefined && Exit.isFailure(exit)
    ? exit.cause.reasons
        .map((reason) => (Cause.isFailReason(reason) ? describeDatabaseError(reason.error) : ""))
        .join()
    : ""
