import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { CurrentRequestFacts } from "../../../../src/server/observability/RequestFacts.ts"
import { RequestId } from "../../../../src/server/observability/RequestId.ts"
import {
  makeSlowStatementLog,
  SlowStatementMillis
} from "../../../../src/server/store/Database/slowStatements.ts"
import * as Database from "../../../../src/server/store/Database.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { TestDatabase } from "../../../support/postgres.ts"

/** A client whose statements are slow from this duration. */
const SLOW_MILLIS = 500

const collect = () => {
  const lines: Array<ReadonlyArray<unknown>> = []
  const collector = Logger.make<unknown, void>(({ message }) => {
    lines.push(Array.isArray(message) ? message : [message])
  })
  return { lines, layer: Logger.layer([collector]) }
}

const withDatabase = <A, E>(
  slowMillis: number,
  log: Layer.Layer<never>,
  test: Effect.Effect<A, E, SqlClient.SqlClient>
) =>
  Effect.flatMap(TestDatabase, ({ url }) =>
    Effect.provide(
      test,
      Database.layer({ url }).pipe(
        Layer.provideMerge(Layer.merge(log, Layer.succeed(SlowStatementMillis, slowMillis)))
      )
    )
  ).pipe(Effect.scoped, Effect.provide(TestDatabase.layer))

const sleepFor = (seconds: number) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`SELECT ${"s3cret"}::text, pg_sleep(${seconds}) FROM pg_class LIMIT 1`
  )

describe("a slow statement", () => {
  it.live("is logged with its table, operation and span, without its values; a fast one is not", () =>
    Effect.gen(function* () {
      const log = collect()
      const facts = { operation: "sessions.create", route: null, org_id: null, key_id: null, waits: false }
      yield* withDatabase(
        SLOW_MILLIS,
        log.layer,
        Effect.gen(function* () {
          yield* sleepFor(0)
          yield* transaction(sleepFor(0.6)).pipe(
            Effect.withSpan("Sessions.create"),
            Effect.provideService(CurrentRequestFacts, facts),
            Effect.provideService(RequestId, "req_1"),
            Effect.withTracerEnabled(false)
          )
        })
      )
      assert.lengthOf(log.lines, 1)
      const [text, line] = log.lines[0] ?? []
      assert.strictEqual(text, "Slow statement: SELECT pg_class")
      assert.deepInclude(line, {
        statement: "SELECT pg_class",
        operation: "sessions.create",
        span: "Sessions.create",
        request_id: "req_1"
      })
      assert.notInclude(JSON.stringify(log.lines), "s3cret")
    })
  )

  it.live("that fails is logged too, and with a threshold of 0 none is", () =>
    Effect.gen(function* () {
      const failing = Effect.flatMap(SqlClient.SqlClient, (sql) =>
        Effect.flip(sql`SELECT pg_sleep(0.6), 1 / (length(current_setting('server_version')) * 0)`)
      )
      const on = collect()
      yield* withDatabase(SLOW_MILLIS, on.layer, Effect.andThen(sleepFor(0.6), failing))
      assert.lengthOf(on.lines, 2)
      const off = collect()
      yield* withDatabase(0, off.layer, sleepFor(0.6))
      assert.deepStrictEqual(off.lines, [])
    })
  )

  it.effect("many have at most 20 lines in ten seconds, and the next line counts the others", () =>
    Effect.gen(function* () {
      const log = collect()
      yield* Effect.gen(function* () {
        const note = yield* makeSlowStatementLog
        const slow = Effect.withFiber<void>((fiber) =>
          Effect.sync(() => note?.("SELECT 1", SLOW_MILLIS, fiber))
        )
        yield* Effect.replicateEffect(slow, 30)
        yield* TestClock.adjust("9 seconds")
        yield* slow
        assert.lengthOf(log.lines, 20)
        yield* TestClock.adjust("1 second")
        yield* slow
        assert.deepInclude(log.lines[20]?.[1], { omitted: 11 })
        yield* slow
        assert.notProperty(log.lines[21]?.[1], "omitted")
      }).pipe(Effect.provideService(SlowStatementMillis, SLOW_MILLIS), Effect.provide(log.layer))
    })
  )
})
