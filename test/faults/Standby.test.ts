import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import path from "node:path"
import { createCluster, findPrograms, makeServer } from "../../scripts/chaos/faults/postgresServer.ts"
import { temporaryDirectory } from "../../scripts/chaos/faults/temporaryDirectory.ts"
import { SHARDS } from "../../src/server/delivery/Delivery/Shards.ts"
import { makeShardStore } from "../../src/server/delivery/Delivery/ShardStore.ts"
import { DatabaseOutage } from "../../src/server/observability/DatabaseOutage.ts"
import * as Database from "../../src/server/store/Database.ts"
import * as DatabaseHealth from "../../src/server/store/DatabaseHealth.ts"
import { migrate } from "../../src/server/store/migrate.ts"
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
          const shards = makeShardStore(sql, "a replica")
          const beat = { leaseMillis: 10_000, heartbeatTimeoutMillis: 3_000, draining: false }
          assert.lengthOf(yield* shards.claim(SHARDS, beat.leaseMillis), SHARDS)
          yield* setStandby("missing")
          // A statement that waited for a standby would fail, because its connection is closed.
          assert.strictEqual((yield* shards.heartbeat(beat)).leases.size, SHARDS)
          yield* shards.deregister
          yield* shards.release(Array.from({ length: SHARDS }, (_, shard) => shard))
          assert.deepStrictEqual(
            yield* sql`
              SELECT
                (SELECT count(*)::int FROM delivery_owners) AS owners,
                (SELECT count(*)::int FROM delivery_shards WHERE owner IS NOT NULL) AS owned
            `,
            [{ owners: 0, owned: 0 }]
          )
        }).pipe(Effect.provide(layerClient(url)))
      }),
    120_000
  )
})
