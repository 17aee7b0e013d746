import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Exit, Fiber, Layer, Redacted, Scope, Tracer } from "effect"
import { SqlClient } from "effect/sql"
import type { KeyId } from "../../../src/domain/Ids.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { Audit } from "../../../src/server/identity/Audit.ts"
import { Organizations } from "../../../src/server/identity/Organizations.ts"
import {
  REVOCATION_LIMIT_MILLIS,
  REVOCATION_POLL_MILLIS,
  Revocations,
  type RevocationOptions,
  VERIFIED_KEY_TTL_MILLIS
} from "../../../src/server/identity/Revocations.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { TestDatabase } from "../../support/postgres.ts"
import { seedReader } from "../../support/sessions.ts"
import { layerNoLimits } from "../../support/layerNoLimits.ts"

/** The keys of one replica. */
const layerReplica = (options: RevocationOptions) =>
  ApiKeys.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(Audit.layer, Organizations.layer, Revocations.layer(options))),
    Layer.provide([StoreClock.layer, layerNoLimits])
  )

/** Subscribes with the given keys in use, and collects the keys that end. */
const subscribe = Effect.fnUntraced(function* (keys: ReadonlyArray<Effect.Success<typeof seedReader>>) {
  const ended: Array<KeyId> = []
  yield* (yield* Revocations).subscribe({
    keysInUse: () => keys.map(({ actor, org_id }) => ({ org_id, key_id: actor.id })),
    onEnded: (ids) => void ended.push(...ids)
  })
  return ended
})

describe("Revocations", () => {
  it("the constants keep the five seconds: no cached key and no pause between polls lasts longer", () => {
    assert.strictEqual(REVOCATION_LIMIT_MILLIS, 5_000)
    assert.isAtMost(VERIFIED_KEY_TTL_MILLIS, REVOCATION_LIMIT_MILLIS)
    assert.isAtMost(REVOCATION_POLL_MILLIS, REVOCATION_LIMIT_MILLIS - 1_000)
  })
})

layer(layerReplica({ pollEvery: "1 hour" }).pipe(Layer.provideMerge(TestDatabase.layerSql)), {
  excludeTestServices: true
})("Revocations › subscribers", (it) => {
  it.effect("a poll finds revoked, expired and deleted keys of all subscribers with one statement", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const revocations = yield* Revocations
      const [revoked, expired, deleted, usable] = yield* Effect.all([
        seedReader,
        seedReader,
        seedReader,
        seedReader
      ])
      const first = yield* subscribe([revoked, usable])
      const second = yield* subscribe([expired, deleted, revoked])
      assert.strictEqual(yield* revocations.poll, 0)
      yield* sql`UPDATE api_keys SET revoked_at = now() WHERE key_id = ${revoked.actor.id}`
      yield* sql`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = ${expired.actor.id}`
      yield* sql`DELETE FROM api_keys WHERE key_id = ${deleted.actor.id}`
      yield* sql`UPDATE api_keys SET expires_at = now() + interval '1 h' WHERE key_id = ${usable.actor.id}`
      let statements = 0
      const counting = Tracer.make({
        span: (options) => {
          if (options.kind === "client") statements++
          return new Tracer.NativeSpan(options)
        }
      })
      const found = yield* revocations.poll.pipe(Effect.withTracer(counting), Effect.withTracerEnabled(true))
      assert.strictEqual(found, 3)
      assert.strictEqual(statements, 1)
      for (const ended of [first, second]) {
        assert.sameMembers(ended, [revoked.actor.id, expired.actor.id, deleted.actor.id])
      }
    }).pipe(Effect.scoped)
  )

  it.effect("a poll finds keys whose rights have changed since the last ones", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const revocations = yield* Revocations
      const [changed, earlier] = yield* Effect.all([seedReader, seedReader])
      const ended = yield* subscribe([changed, earlier])
      yield* sql`UPDATE api_keys SET rights_changed_at = now() WHERE key_id = ${changed.actor.id}`
      yield* sql`UPDATE api_keys SET rights_changed_at = now() - interval '1 minute' WHERE key_id = ${earlier.actor.id}`
      yield* revocations.poll
      assert.deepStrictEqual(ended, [changed.actor.id])
    }).pipe(Effect.scoped)
  )

  it.effect("a subscriber is not notified any more after its scope has closed", () =>
    Effect.gen(function* () {
      const revocations = yield* Revocations
      const key = yield* seedReader
      const scope = yield* Scope.make()
      const ended = yield* subscribe([key]).pipe(Scope.provide(scope))
      yield* revocations.publish(key.actor.id)
      assert.deepStrictEqual(ended, [key.actor.id])
      yield* Scope.close(scope, Exit.void)
      yield* revocations.publish(key.actor.id)
      assert.lengthOf(ended, 1)
    })
  )

  it.effect("a revocation notifies the subscribers of its replica when it has committed", () =>
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      yield* keys.createFor("published", { name: "admin", preset: "admin" })
      const { key } = yield* keys.createFor("published", { name: "agent", preset: "runtime" })
      const ended = yield* subscribe([])
      yield* keys.revokeFor("published", key.id, { made_keys: "revoke" })
      assert.deepStrictEqual(ended, [key.id])
    }).pipe(Effect.scoped)
  )

  it.effect(
    "a key that was revoked on another replica is refused after the next poll, and at the latest when its TTL ends",
    () =>
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const revocations = yield* Revocations
        const { url } = yield* TestDatabase
        const other = yield* Layer.build(
          Layer.fresh(
            layerReplica({ pollEvery: "1 hour" }).pipe(
              Layer.provideMerge(Layer.orDie(Database.layer({ url })))
            )
          )
        )
        yield* keys.createFor("elsewhere", { name: "admin", preset: "admin" })
        for (const bound of ["poll", "TTL"] as const) {
          const { key, secret } = yield* keys.createFor("elsewhere", { name: "agent", preset: "runtime" })
          const clock = yield* Clock.Clock
          const verify = Effect.result(keys.verify(Redacted.make(Redacted.value(secret))))
          assert.strictEqual((yield* verify)._tag, "Success")
          yield* Effect.provideContext(
            Effect.flatMap(ApiKeys, ({ revokeFor }) =>
              revokeFor("elsewhere", key.id, { made_keys: "revoke" })
            ),
            other
          )
          // This replica still has the key in its cache, and has not polled since.
          assert.strictEqual((yield* verify)._tag, "Success")
          if (bound === "poll") {
            assert.strictEqual(yield* revocations.poll, 1)
            assert.strictEqual((yield* verify)._tag, "Failure")
          } else {
            const later = new Proxy(clock, {
              get: (target, name): unknown =>
                name === "monotonicTimeNanosUnsafe"
                  ? () => target.monotonicTimeNanosUnsafe() + BigInt(VERIFIED_KEY_TTL_MILLIS) * 1_000_000n
                  : Reflect.get(target, name)
            })
            const refused = yield* Effect.provideService(verify, Clock.Clock, later)
            assert.strictEqual(refused._tag, "Failure")
          }
        }
      }).pipe(Effect.scoped)
  )

  it.effect("a key whose look-up was slow is used for five seconds from before it, not from its end", () =>
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      const sql = yield* SqlClient.SqlClient
      const { key, secret } = yield* keys.createFor("slow database", { name: "admin", preset: "admin" })
      const clock = yield* Clock.Clock
      let elapsedMillis = 0
      const later = new Proxy(clock, {
        get: (target, name): unknown =>
          name === "monotonicTimeNanosUnsafe"
            ? () => target.monotonicTimeNanosUnsafe() + BigInt(elapsedMillis) * 1_000_000n
            : Reflect.get(target, name)
      })
      const verify = Effect.result(keys.verify(Redacted.make(Redacted.value(secret)))).pipe(
        Effect.provideService(Clock.Clock, later)
      )
      const locked = yield* Deferred.make<void>()
      const holder = yield* Effect.forkChild(
        transaction(
          Effect.gen(function* () {
            yield* sql`LOCK TABLE api_keys`
            yield* Deferred.succeed(locked, undefined)
            // Within the transaction: statements outside of one may share the connection of the blocked look-up.
            yield* waitForBlockedStatements(1)
            elapsedMillis = VERIFIED_KEY_TTL_MILLIS - 100
          })
        )
      )
      yield* Deferred.await(locked)
      const slow = yield* Effect.forkChild(verify)
      yield* Fiber.join(holder)
      assert.strictEqual((yield* Fiber.join(slow))._tag, "Success")
      // As another replica does, of which this one has not heard.
      yield* sql`UPDATE api_keys SET revoked_at = now() WHERE key_id = ${key.id}`
      elapsedMillis = VERIFIED_KEY_TTL_MILLIS
      assert.strictEqual((yield* verify)._tag, "Failure")
    })
  )
})

layer(layerReplica({ pollEvery: "20 millis" }).pipe(Layer.provideMerge(TestDatabase.layerSql)), {
  excludeTestServices: true
})("Revocations › the worker", (it) => {
  it.effect("the worker polls without being called", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { actor, org_id } = yield* seedReader
      const ended = yield* Deferred.make<ReadonlySet<KeyId>>()
      yield* (yield* Revocations).subscribe({
        keysInUse: () => [{ org_id, key_id: actor.id }],
        onEnded: (keys) => Deferred.doneUnsafe(ended, Effect.succeed(keys))
      })
      yield* sql`UPDATE api_keys SET revoked_at = now() WHERE key_id = ${actor.id}`
      assert.deepStrictEqual([...(yield* Deferred.await(ended))], [actor.id])
    }).pipe(Effect.scoped)
  )
})
