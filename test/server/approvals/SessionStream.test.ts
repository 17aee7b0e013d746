import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Queue, Result, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { SessionId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Revocations } from "../../../src/server/identity/Revocations.ts"
import { SessionEvents } from "../../../src/server/approvals/SessionEvents.ts"
import { SessionFacts } from "../../../src/server/approvals/SessionFacts.ts"
import { SessionSignals } from "../../../src/server/approvals/SessionSignals.ts"
import { SessionStream, type SessionStreamOptions } from "../../../src/server/approvals/SessionStream.ts"
import type { SessionKey } from "../../../src/server/approvals/SessionStream/Subscription.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { TestDatabase } from "../../support/postgres.ts"
import {
  as,
  closeSession,
  seedSession,
  numbersOf,
  expectStream,
  seedReader,
  recordOutcomes
} from "../../support/sessions.ts"

/** The streams of one replica. Streams of ended keys end by a poll that the test calls itself. */
const layerStreams = (options?: SessionStreamOptions) =>
  SessionStream.layer(options).pipe(
    Layer.provideMerge(Layer.mergeAll(SessionEvents.layer, Revocations.layer({ pollEvery: "1 hour" }))),
    Layer.provideMerge(SessionSignals.layer),
    Layer.provide([SessionFacts.layer, StoreClock.layer])
  )

/** A second replica on the same database. */
const replica = (options?: SessionStreamOptions) =>
  Layer.unwrap(
    Effect.map(TestDatabase, ({ url }) =>
      layerStreams(options).pipe(Layer.provideMerge(Layer.orDie(Database.layer({ url }))))
    )
  ).pipe(Layer.fresh)

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i)

layer(layerStreams().pipe(Layer.provideMerge(TestDatabase.layerSql)), { excludeTestServices: true })(
  "SessionStream › a stream",
  (it) => {
    it.effect("a stream sends the events so far, then new events, and ends with the session", () =>
      Effect.gen(function* () {
        const streams = yield* SessionStream
        const principal = yield* seedReader
        const session = yield* seedSession(principal)
        yield* recordOutcomes(session, 250)
        const seen: Array<number> = []
        const all = yield* as(principal)(streams.open(session.session_id, undefined))
        const following = yield* numbersOf(expectStream(all)).pipe(
          Stream.runForEach((number) => Effect.sync(() => seen.push(number))),
          Effect.forkChild
        )
        yield* Effect.forEach(range(1, 40), () => recordOutcomes(session, 3), {
          concurrency: 4,
          discard: true
        })
        yield* closeSession(session)
        yield* Fiber.join(following)
        assert.deepStrictEqual(seen, range(1, 371))
      })
    )

    it.effect(
      "a stream resumes after its cursor, and after the last event of a closed session there is no stream",
      () =>
        Effect.gen(function* () {
          const streams = yield* SessionStream
          const principal = yield* seedReader
          const session = yield* seedSession(principal)
          yield* recordOutcomes(session, 7)
          yield* closeSession(session)
          const rest = yield* as(principal)(streams.open(session.session_id, 5))
          assert.deepStrictEqual(yield* Stream.runCollect(numbersOf(expectStream(rest))), [6, 7, 8])
          assert.isTrue(Option.isNone(yield* as(principal)(streams.open(session.session_id, 8))))
        })
    )

    it.effect("a stream outlasts failing reads and sends the events when reads succeed again", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const streams = yield* SessionStream
        const principal = yield* seedReader
        const session = yield* seedSession(principal)
        const stream = yield* as(principal)(streams.open(session.session_id, undefined))
        const first = yield* numbersOf(expectStream(stream)).pipe(Stream.runHead, Effect.forkChild)
        yield* Effect.repeat(Effect.andThen(Effect.yieldNow, streams.size), { until: (size) => size === 1 })
        yield* transaction(
          Effect.andThen(
            recordOutcomes(session),
            sql`ALTER TABLE session_events RENAME TO session_events_away`
          )
        )
        const failing = yield* Effect.flip(Effect.asVoid(sql`SELECT number FROM session_events`))
        assert.strictEqual(failing._tag, "SqlError")
        yield* sql`ALTER TABLE session_events_away RENAME TO session_events`
        assert.deepStrictEqual(yield* Fiber.join(first), Option.some(1))
      })
    )

    it.effect("the stream of a deleted session ends at the next poll, and others go on", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const streams = yield* SessionStream
        const principal = yield* seedReader
        const [deleted, kept] = [yield* seedSession(principal), yield* seedSession(principal)]
        yield* Effect.forEach([deleted, kept], (session) => recordOutcomes(session, 2))
        const follow = Effect.fnUntraced(function* ({ session_id }: SessionKey) {
          const read = yield* Queue.unbounded<number>()
          const stream = yield* as(principal)(streams.open(session_id, undefined))
          const fiber = yield* numbersOf(expectStream(stream)).pipe(
            Stream.runForEach((number) => Queue.offer(read, number)),
            Effect.forkChild
          )
          assert.deepStrictEqual(yield* Queue.takeN(read, 2), [1, 2])
          return { fiber, read }
        })
        const ending = yield* follow(deleted)
        const going = yield* follow(kept)
        for (const table of ["session_events", "agent_sessions"]) {
          yield* sql`DELETE FROM ${sql(table)} WHERE session_id = ${deleted.session_id}`
        }
        yield* streams.pollEvents
        yield* Fiber.join(ending.fiber)
        yield* recordOutcomes(kept)
        assert.strictEqual(yield* Queue.take(going.read), 3)
        yield* Fiber.interrupt(going.fiber)
        const gone = as(principal)(streams.open(deleted.session_id, 2))
        assert.strictEqual((yield* Effect.flip(gone)).code, "NOT_FOUND")
      })
    )

    it.effect("an expired cursor, a cursor beyond the end and an unknown session are refused", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const streams = yield* SessionStream
        const principal = yield* seedReader
        const session = yield* seedSession(principal)
        yield* recordOutcomes(session, 10)
        yield* sql`DELETE FROM session_events WHERE session_id = ${session.session_id} AND number <= 4`
        const open = (cursor?: number) => as(principal)(streams.open(session.session_id, cursor))
        const gone = yield* Effect.flip(open(3))
        assert.strictEqual(gone.code, "CURSOR_EXPIRED")
        assert.strictEqual("first_kept" in gone ? gone.first_kept : 0, 5)
        assert.strictEqual((yield* Effect.flip(open(0))).code, "CURSOR_EXPIRED")
        for (const cursor of [undefined, 4]) {
          const kept = yield* open(cursor)
          const six = yield* numbersOf(expectStream(kept)).pipe(Stream.take(6), Stream.runCollect)
          assert.deepStrictEqual(six, range(5, 10))
        }
        assert.strictEqual((yield* Effect.flip(open(11))).code, "INVALID_REQUEST")
        assert.strictEqual((yield* Effect.flip(open(2 ** 53 - 1))).code, "INVALID_REQUEST")
        const unknown = as(principal)(streams.open(yield* SessionId.generate, undefined))
        assert.strictEqual((yield* Effect.flip(unknown)).code, "NOT_FOUND")
        const foreign = as(yield* seedReader)(streams.open(session.session_id, undefined))
        assert.strictEqual((yield* Effect.flip(foreign)).code, "NOT_FOUND")
      })
    )
  }
)
/** Streams that only signals wake: the poll runs too rarely to help. */
const signalsOnly: SessionStreamOptions = { pollEvents: "1 hour" }

layer(layerStreams(signalsOnly).pipe(Layer.provideMerge(TestDatabase.layerSql)), {
  excludeTestServices: true
})("SessionStream › two replicas on one database", (it) => {
  /** Follows a session on the context's replica; each run of the result waits for the next event number. */
  const follow = Effect.fnUntraced(function* (session: SessionKey, principal: Principal) {
    const streams = yield* SessionStream
    const queue = yield* Queue.unbounded<number>()
    const stream = yield* as(principal)(streams.open(session.session_id, undefined))
    yield* numbersOf(expectStream(stream)).pipe(
      Stream.runForEach((number) => Queue.offer(queue, number)),
      Effect.forkScoped
    )
    return Queue.takeN(queue, 1).pipe(Effect.map((numbers) => numbers[0]))
  })

  it.effect("an event that either replica records wakes the streams of both", () =>
    Effect.gen(function* () {
      const principal = yield* seedReader
      const session = yield* seedSession(principal)
      const other = yield* Layer.build(replica(signalsOnly))
      const here = yield* follow(session, principal)
      const there = yield* Effect.provideContext(follow(session, principal), other)
      for (const number of range(1, 10)) {
        const writer = number % 2 === 0 ? other : yield* Effect.context<SqlClient.SqlClient>()
        yield* Effect.provideContext(recordOutcomes(session), writer)
        assert.strictEqual(yield* here, number)
        assert.strictEqual(yield* there, number)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("a stream gets events whose signal was lost with the connection of the listener", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const principal = yield* seedReader
      const session = yield* seedSession(principal)
      const other = yield* Layer.build(replica(signalsOnly))
      const there = yield* Effect.provideContext(follow(session, principal), other)
      yield* recordOutcomes(session)
      assert.strictEqual(yield* there, 1)
      const killed = yield* sql`
          SELECT pg_terminate_backend(pid)
          FROM pg_stat_activity
          WHERE datname = current_database()
            AND query LIKE 'LISTEN%'
        `
      assert.isAtLeast(killed.length, 1)
      yield* recordOutcomes(session)
      assert.strictEqual(yield* there, 2)
    }).pipe(Effect.scoped)
  )

  it.effect("the poll finds events that were written without a signal", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const streams = yield* SessionStream
      const principal = yield* seedReader
      const session = yield* seedSession(principal)
      const here = yield* follow(session, principal)
      yield* recordOutcomes(session)
      assert.strictEqual(yield* here, 1)
      // Written past the service, so without a signal.
      yield* sql`
          WITH raised AS (
            UPDATE agent_sessions SET last_event = 2 WHERE session_id = ${session.session_id}
          )
          INSERT INTO session_events
          SELECT org_id, session_id, 2, type, step_id, occurred_at, data
          FROM session_events
          WHERE session_id = ${session.session_id}
        `
      assert.strictEqual(yield* streams.pollEvents, 1)
      assert.strictEqual(yield* here, 2)
      assert.strictEqual(yield* streams.pollEvents, 0)
    }).pipe(Effect.scoped)
  )
})

layer(layerStreams().pipe(Layer.provideMerge(TestDatabase.layerSql)), {
  excludeTestServices: true
})("SessionStream › the end of a stream", (it) => {
  const drain = Effect.fnUntraced(function* (principal: Principal, session: SessionKey) {
    const streams = yield* SessionStream
    const stream = yield* as(principal)(streams.open(session.session_id, undefined))
    const begun = yield* Deferred.make<void>()
    const fiber = yield* expectStream(stream).pipe(
      Stream.tap(() => Deferred.succeed(begun, undefined)),
      Stream.runDrain,
      Effect.forkChild
    )
    yield* Deferred.await(begun)
    return fiber
  })

  it.effect("the streams of a revoked or expired key end at the next poll, and no others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const streams = yield* SessionStream
      const revocations = yield* Revocations
      const [revoked, expired, usable] = yield* Effect.all([seedReader, seedReader, seedReader])
      const fibers = yield* Effect.forEach([revoked, expired, usable], (principal) =>
        Effect.flatMap(seedSession(principal), (session) => drain(principal, session))
      )
      assert.strictEqual(yield* revocations.poll, 0)
      yield* sql`UPDATE api_keys SET revoked_at = now() WHERE key_id = ${revoked.actor.id}`
      yield* sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = ${expired.actor.id}`
      yield* sql`UPDATE api_keys SET expires_at = now() + interval '1 h' WHERE key_id = ${usable.actor.id}`
      assert.strictEqual(yield* revocations.poll, 2)
      yield* Fiber.joinAll(fibers.slice(0, 2))
      assert.strictEqual(yield* streams.size, 1)
      yield* Effect.forEach(fibers, Fiber.interrupt)
    })
  )

  it.effect("a stream ends when its events were removed before they were sent", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const principal = yield* seedReader
      for (const removed of [2, 3]) {
        const session = yield* seedSession(principal)
        const fiber = yield* drain(principal, session)
        yield* transaction(
          Effect.gen(function* () {
            yield* recordOutcomes(session, 3)
            yield* sql`
              DELETE FROM session_events
              WHERE session_id = ${session.session_id}
                AND number <= ${removed}
            `
          })
        )
        yield* Fiber.join(fiber)
      }
    })
  )

  it.effect("a shutdown ends every stream, and each stream that opens later ends immediately", () =>
    Effect.gen(function* () {
      const streams = yield* SessionStream
      const principal = yield* seedReader
      const session = yield* seedSession(principal)
      const fiber = yield* drain(principal, session)
      yield* streams.endAll
      yield* Fiber.join(fiber)
      yield* recordOutcomes(session)
      const late = yield* as(principal)(streams.open(session.session_id, undefined))
      const text = yield* expectStream(late).pipe(Stream.decodeText(), Stream.mkString)
      assert.strictEqual(text, "retry: 3000\n")
    })
  )
})

layer(
  layerStreams({ maxStreams: 2, maxStreamsPerOrganization: 1 }).pipe(
    Layer.provideMerge(TestDatabase.layerSql)
  ),
  {
    excludeTestServices: true
  }
)("SessionStream › the limits of open streams", (it) => {
  it.effect(
    "an organization at its limit leaves streams to others, and gets a new stream once one has ended",
    () =>
      Effect.gen(function* () {
        const streams = yield* SessionStream
        const principal = yield* seedReader
        const session = yield* seedSession(principal)
        const open = as(principal)(streams.open(session.session_id, undefined))
        const begun = (count: number) =>
          Effect.repeat(Effect.andThen(Effect.yieldNow, streams.size), { until: (size) => size === count })
        const fiber = yield* Effect.forkChild(Stream.runDrain(expectStream(yield* open)))
        yield* begun(1)
        assert.include((yield* Effect.flip(open)).detail, "for this organization (limit 1 ")
        const other = yield* seedReader
        const openOther = as(other)(streams.open((yield* seedSession(other)).session_id, undefined))
        yield* Effect.forkChild(Stream.runDrain(expectStream(yield* openOther)))
        yield* begun(2)
        const third = yield* seedReader
        const full = as(third)(streams.open((yield* seedSession(third)).session_id, undefined))
        assert.strictEqual((yield* Effect.flip(full)).code, "UNAVAILABLE")
        yield* Fiber.interrupt(fiber)
        assert.isTrue(Option.isSome(yield* open))
      })
  )

  it.effect("of streams that an organization opens at the same moment, those within its limit open", () =>
    Effect.gen(function* () {
      const streams = yield* SessionStream
      const principal = yield* seedReader
      const session = yield* seedSession(principal)
      const open = as(principal)(streams.open(session.session_id, undefined))
      const opened = yield* Effect.all(
        Array.from({ length: 8 }, () => Effect.result(open)),
        {
          concurrency: "unbounded"
        }
      ).pipe(Effect.scoped)
      assert.lengthOf(opened.filter(Result.isSuccess), 1)
      for (const refused of opened.filter(Result.isFailure)) {
        assert.strictEqual(refused.failure.code, "UNAVAILABLE")
      }
      // The one that was opened has not run. It counted until its request ended.
      assert.isTrue(Option.isSome(yield* Effect.scoped(open)))
    })
  )
})

layer(
  layerStreams({ maxStreams: 4, maxStreamsPerOrganization: 3 }).pipe(
    Layer.provideMerge(TestDatabase.layerSql)
  ),
  {
    excludeTestServices: true
  }
)("SessionStream › all streams in use", (it) => {
  it.effect("an organization that opens one gets the newest of the organization with the most", () =>
    Effect.gen(function* () {
      const streams = yield* SessionStream
      const opener = Effect.gen(function* () {
        const principal = yield* seedReader
        const session = yield* seedSession(principal)
        const open = as(principal)(streams.open(session.session_id, undefined))
        const follow = Effect.flatMap(open, (stream) =>
          Effect.forkChild(Stream.runDrain(expectStream(stream)))
        )
        return { open, follow }
      })
      const begun = (count: number) =>
        Effect.repeat(Effect.andThen(Effect.yieldNow, streams.size), { until: (size) => size === count })
      const large = yield* opener
      const second = yield* opener
      const third = yield* opener
      yield* large.follow
      yield* begun(1)
      yield* large.follow
      yield* begun(2)
      const newest = yield* large.follow
      yield* begun(3)
      yield* second.follow
      yield* begun(4)
      yield* third.follow
      yield* Fiber.join(newest)
      yield* begun(4)
      // They have two, one and one: no organization loses a stream.
      assert.strictEqual((yield* Effect.flip(third.open)).code, "UNAVAILABLE")
      assert.strictEqual((yield* Effect.flip(large.open)).code, "UNAVAILABLE")
    })
  )
})
