import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Queue, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { SessionId } from "../../../src/domain/Ids.ts"
import { SessionSignals } from "../../../src/server/approvals/SessionSignals.ts"
import { makePgNotify } from "../../../src/server/store/PgNotify.ts"
import { TestDatabase } from "../../support/postgres.ts"

const replica = Effect.map(Layer.build(Layer.fresh(SessionSignals.layer)), Context.get(SessionSignals))

/** What the replicas send to each other. An announcement is shown without the name of its replica. */
const exchanged = Effect.gen(function* () {
  const sent = yield* Queue.unbounded<string>()
  const { listen } = yield* makePgNotify("countersign_session_events")
  yield* Effect.forkScoped(
    listen((payload) => Queue.offer(sent, payload?.replace(/^follows .*/, "follows") ?? "listening"))
  )
  assert.strictEqual(yield* Queue.take(sent), "listening")
  // A replica pauses when the database has answered its last notification: at a time that the test does not see.
  const passTime = Effect.andThen(TestClock.adjust("1 millis"), TestClock.withLive(Effect.sleep("5 millis")))
  return Effect.raceFirst(Queue.take(sent), Effect.forever(passTime))
})

layer(TestDatabase.layerSql, { excludeTestServices: true })("SessionSignals", (it) => {
  it.effect("a replica sends signals only while another one has followers", () =>
    Effect.gen(function* () {
      const next = yield* exchanged
      const [first, second] = [yield* replica, yield* replica]
      const session_id = yield* SessionId.generate
      const signal = (newest: number) => [{ session_id, newest }]
      const signalled: Array<number | undefined> = []
      let isFollowing = false
      yield* second.subscribe({
        onSignals: (signals) => void signalled.push(signals?.[0]?.newest),
        isFollowing: () => isFollowing
      })

      const readByFirst = yield* Queue.unbounded<number | undefined>()
      yield* first.subscribe({
        onSignals: (signals) => void Queue.offerUnsafe(readByFirst, signals?.[0]?.newest),
        isFollowing: () => false
      })

      // Neither knows when it starts whether the other has followers.
      assert.deepStrictEqual([yield* next, yield* next], ["*", "*"])

      yield* TestClock.adjust("25 seconds")
      yield* first.publish(signal(1))
      isFollowing = true
      second.announce()
      // In place of the signal that was kept back.
      assert.deepStrictEqual([yield* next, yield* next], ["follows", "*"])
      yield* first.publish(signal(2))
      assert.strictEqual(yield* next, `${session_id}:2`)

      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(yield* next, "follows")
      // The first replica listens on a connection of its own. When it has read the next notification, it has read the announcement too.
      const sql = yield* SqlClient.SqlClient
      yield* sql`SELECT pg_notify('countersign_session_events', ${`${session_id}:9`})`
      assert.strictEqual(yield* next, `${session_id}:9`)
      yield* Queue.take(readByFirst).pipe(Effect.repeat({ until: (newest) => newest === 9 }))
      isFollowing = false
      yield* TestClock.adjust("20 seconds")
      yield* first.publish(signal(3))
      assert.strictEqual(yield* next, `${session_id}:3`)

      yield* TestClock.adjust("5 seconds")
      yield* first.publish(signal(4))
      second.announce()
      assert.deepStrictEqual([yield* next, yield* next], ["follows", "*"])
      // This replica may get the last one after the test.
      const all = Effect.sync(() => signalled.slice(-5)).pipe(
        Effect.repeat({ until: (last) => last.at(-2) === 3, schedule: Schedule.spaced("5 millis") })
      )
      assert.deepStrictEqual(yield* TestClock.withLive(all), [undefined, 2, 9, 3, undefined])
    }).pipe(Effect.scoped, Effect.provide(TestClock.layer()))
  )
})
