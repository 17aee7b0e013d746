import { assert, describe } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { Redacted } from "effect"
import { fileURLToPath } from "node:url"
import { startScriptedServer } from "../support/scripted.ts"
import {
  insertEndpoint,
  masterKey,
  publishWebhookEvents,
  testWithWebhooks,
  withoutEngine
} from "../support/delivery.ts"
import { TestDatabase } from "../support/postgres.ts"
import { startSilentProxy } from "../support/silentProxy.ts"

const program = fileURLToPath(new URL("deliveryProcess.ts", import.meta.url))

/** The promise of docs/guarantees.md and docs/production.md. */
const RECOVERY_MILLIS = 15_000

/**
 * How much of it passes until the last connection is closed, however fast the machine is: the deadline of a statement, and the interval of
 * its checks.
 */
const SILENCE_MILLIS = 12_500

/** On a slow or busy machine, recovering takes as long as this many times sending the same events while nothing is wrong. */
const SENDS = 5

/** Endpoints enough for every shard to have one, most probably. */
const ENDPOINTS = 48

/** Starts a replica that only delivers, with this database URL; killed at the end. */
const startReplica = (url: Redacted.Redacted): Effect.Effect<ChildProcess, never, Scope.Scope> =>
  Effect.gen(function* () {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [program, Redacted.value(url), Redacted.value(masterKey)], {
          stdio: ["ignore", "pipe", "ignore"]
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    yield* Effect.promise(() => once(child.stdout, "data"))
    return child
  })

/** How many replicas own shards. */
const owners = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly owners: number; readonly free: number }>`
    SELECT count(DISTINCT owner)::int AS owners, count(*) FILTER (WHERE owner IS NULL)::int AS free
    FROM delivery_shards
  `
)

describe("Delivery › database connections that die without a FIN or RST", () => {
  for (const healthy of [0, 1]) {
    testWithWebhooks(
      `every event is sent within 15 seconds by one affected replica and ${healthy} others`,
      () =>
        Effect.gen(function* () {
          const { url } = yield* TestDatabase
          const proxy = yield* startSilentProxy(url)
          const receiver = yield* startScriptedServer([{ status: 200 }])
          yield* startReplica(proxy.url)
          for (let started = 0; started < healthy; started++) yield* startReplica(url)
          yield* Effect.repeat(Effect.delay(owners, "100 millis"), {
            until: ([row]) => row?.owners === healthy + 1 && row.free === 0
          })
          const endpoints = yield* Effect.forEach(Array.from({ length: ENDPOINTS }), () =>
            insertEndpoint(receiver.url)
          )
          const published = performance.now()
          yield* withoutEngine(publishWebhookEvents(endpoints, "{}"))
          yield* Effect.promise(() => receiver.arrived(ENDPOINTS))
          const normally = performance.now() - published

          proxy.forgetConnections()
          const before = performance.now()
          yield* withoutEngine(publishWebhookEvents(endpoints, "{}"))
          yield* Effect.promise(() => receiver.arrived(2 * ENDPOINTS))
          const limit = Math.max(RECOVERY_MILLIS, SILENCE_MILLIS + SENDS * normally)
          assert.isAtMost(performance.now() - before, limit)
        })
    )
  }
})
