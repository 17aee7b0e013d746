import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Queue, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { SessionId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { transaction } from "../../../src/server/store/Database/transaction.ts"
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

/** The streams of one process. The clock of the machine is the store's here. */
const layerStreams = (options?: SessionStreamOptions) =>
  SessionStream.layer(options).pipe(Layer.provide(StoreClock.layer))

/** A second process on the same store. */
const replica = (options?: SessionStreamOptions) =>
  Layer.unwrap(
    Effect.map(TestDatabase, ({ url }) =>
      layerStreams(options).pipe(Layer.provideMerge(Layer.orDie(Database.layer({ url }))))
    )
  ).pipe(Layer.fresh)

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i)

layer(layerStreams().pipe(Layer.provideMerge(TestDatabase.layerSql)), { excludeTestServices: true })(
  "a session's stream",
  (it) => {
    it.effect("tells what was, goes on with what comes, and ends with the session", () =>
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

    it.effect("goes on after a cursor, and has nothing more to say after the end", () =>
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

    it.effect("outlasts a store that fails: what was recorded comes when it is back", () =>
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

    it.effect("refuses a cursor that is no longer kept, one beyond the end, and an unknown session", () =>
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
/** What is found by nobody but who is told: the check is too far away to help. */
const toldOnly: SessionStreamOptions = { pollEvents: "1 hour" }

layer(layerStreams(toldOnly).pipe(Layer.provideMerge(TestDatabase.layerSql)), { excludeTestServices: true })(
  "two processes on one store",
  (it) => {
    /** Follows a session on this process and gives each number it sees. */
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

    it.effect("wake each other", () =>
      Effect.gen(function* () {
        const principal = yield* seedReader
        const session = yield* seedSession(principal)
        const other = yield* Layer.build(replica(toldOnly))
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

    it.effect("find what was told while the listener's connection was lost", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const principal = yield* seedReader
        const session = yield* seedSession(principal)
        const other = yield* Layer.build(replica(toldOnly))
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

    it.effect("find by the check what nobody told them of", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const streams = yield* SessionStream
        const principal = yield* seedReader
        const session = yield* seedSession(principal)
        const here = yield* follow(session, principal)
        yield* recordOutcomes(session)
        assert.strictEqual(yield* here, 1)
        // Written past the service: nothing tells of it.
        yield* sql`
          WITH raised AS (
            UPDATE agent_sessions SET last_event = 2 WHERE session_id = ${session.session_id}
          )
          INSERT INTO session_events
          SELECT org_id, session_id, 2, type, step_id, occurred_at, data
          FROM session_events
          WHERE session_id = ${session.session_id}
        `
        assert.strictEqual((yield* streams.check).behind, 1)
        assert.strictEqual(yield* here, 2)
        assert.strictEqual((yield* streams.check).behind, 0)
      }).pipe(Effect.scoped)
    )
  }
)

// The check is called where it is tried: by itself it might come before.
layer(layerStreams({ pollKeys: "1 hour" }).pipe(Layer.provideMerge(TestDatabase.layerSql)), {
  excludeTestServices: true
})("a stream ends, to be resumed,", (it) => {
  const drained = Effect.fnUntraced(function* (principal: Principal, session: SessionKey) {
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

  it.effect("when its key is revoked or expires, and only its own", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const streams = yield* SessionStream
      const [revoked, expired, usable] = yield* Effect.all([seedReader, seedReader, seedReader])
      const fibers = yield* Effect.forEach([revoked, expired, usable], (principal) =>
        Effect.flatMap(seedSession(principal), (session) => drained(principal, session))
      )
      assert.strictEqual((yield* streams.check).ended, 0)
      yield* sql`UPDATE api_keys SET revoked_at = now() WHERE key_id = ${revoked.actor.id}`
      yield* sql`UPDATE api_keys SET expires_at = now() WHERE key_id = ${expired.actor.id}`
      yield* sql`UPDATE api_keys SET expires_at = now() + interval '1 h' WHERE key_id = ${usable.actor.id}`
      assert.strictEqual((yield* streams.check).ended, 2)
      yield* Fiber.joinAll(fibers.slice(0, 2))
      assert.strictEqual(yield* streams.size, 1)
      yield* Effect.forEach(fibers, Fiber.interrupt)
    })
  )

  it.effect("when its events are removed before it was sent them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const principal = yield* seedReader
      const session = yield* seedSession(principal)
      const fiber = yield* drained(principal, session)
      yield* transaction(
        Effect.gen(function* () {
          yield* recordOutcomes(session, 3)
          yield* sql`DELETE FROM session_events WHERE session_id = ${session.session_id} AND number < 3`
        })
      )
      yield* Fiber.join(fiber)
    })
  )

  it.effect("when the service stops, as do streams that are opened after", () =>
    Effect.gen(function* () {
      const streams = yield* SessionStream
      const principal = yield* seedReader
      const session = yield* seedSession(principal)
      const fiber = yield* drained(principal, session)
      yield* streams.endAll
      yield* Fiber.join(fiber)
      yield* recordOutcomes(session)
      const late = yield* as(principal)(streams.open(session.session_id, undefined))
      const text = yield* expectStream(late).pipe(Stream.decodeText(), Stream.mkString)
      assert.strictEqual(text, "retry: 3000\n\n")
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
)("a process with as many streams as it may have", (it) => {
  it.effect("leaves room for other organizations, and refuses one more until one has ended", () =>
    Effect.gen(function* () {
      const streams = yield* SessionStream
      const principal = yield* seedReader
      const session = yield* seedSession(principal)
      const open = as(principal)(streams.open(session.session_id, undefined))
      const begun = (count: number) =>
        Effect.repeat(Effect.andThen(Effect.yieldNow, streams.size), { until: (size) => size === count })
      const fiber = yield* Effect.forkChild(Stream.runDrain(expectStream(yield* open)))
      yield* begun(1)
      assert.include((yield* Effect.flip(open)).detail, "of the organization")
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
})
