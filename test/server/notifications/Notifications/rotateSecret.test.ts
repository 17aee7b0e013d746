import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Delivery } from "../../../../src/server/delivery/Delivery.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import {
  oneAttempt,
  awaitOnlyDelivery,
  seedEndpoint,
  matchingSecrets
} from "../../../support/notifications.ts"
import { send, service } from "../../../support/service.ts"
import { databaseAsText } from "../../../support/databaseAsText.ts"

layer(service({ environment: oneAttempt }), { excludeTestServices: true })("rotateSecret", (it) => {
  it.effect(
    "a rotation has no body: an empty object is none, and the idempotency key does not depend on it",
    () =>
      Effect.gen(function* () {
        const { endpoint } = yield* seedEndpoint("surplus body")
        const key = yield* (yield* Countersign).key({}, "surplus body")
        const rotate = (body: string) =>
          send(`/v1/notification-endpoints/${endpoint.id}/rotate-secret`, {
            method: "POST",
            key,
            headers: { "idempotency-key": "once" },
            body
          })
        for (const body of [JSON.stringify("x".repeat(100_000)), '{"grace_seconds":60}', "x"]) {
          const refused = yield* rotate(body)
          assert.strictEqual(refused.status, 400)
          assert.strictEqual(
            refused.body["detail"],
            "This operation has no body. Send the request without one."
          )
        }
        const first = yield* rotate(" {} ")
        assert.strictEqual(first.status, 200)
        assert.deepStrictEqual((yield* rotate("")).body, first.body)
      })
  )

  it.effect("after one rotation the old and the new secret sign, after two rotations the newest two", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver, secret } = yield* seedEndpoint("rotation")
      const sent = Effect.fnUntraced(function* () {
        const count = receiver.seen.length + 1
        yield* admin.notificationEndpoints.test({ params })
        yield* Effect.promise(() => receiver.arrived(count))
        return receiver.seen[count - 1]
      })
      const secrets = [secret]
      assert.deepStrictEqual(yield* matchingSecrets(yield* sent(), secrets), [0])

      const request = { params, headers: { "idempotency-key": "change-it" } }
      const rotated = yield* admin.notificationEndpoints.rotateSecret(request)
      assert.deepStrictEqual(yield* admin.notificationEndpoints.rotateSecret(request), rotated)
      secrets.push(rotated.secret)
      const both = yield* sent()
      assert.deepStrictEqual(yield* matchingSecrets(both, secrets), [0, 1])
      assert.match(String(both?.headers["x-svc-signature"]), /^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/)
      assert.match(String(both?.headers["webhook-signature"]), /^v1,\S{44} v1,\S{44}$/)

      secrets.push((yield* admin.notificationEndpoints.rotateSecret({ params })).secret)
      assert.deepStrictEqual(yield* matchingSecrets(yield* sent(), secrets), [1, 2])

      const sql = yield* SqlClient.SqlClient
      const racing = yield* transaction(
        Effect.gen(function* () {
          yield* sql`SELECT 1 AS held FROM notification_endpoints WHERE endpoint_id = ${endpoint.id} FOR UPDATE`
          const rotate = admin.notificationEndpoints.rotateSecret({ params })
          const fibers = [yield* Effect.forkChild(rotate), yield* Effect.forkChild(rotate)]
          yield* waitForBlockedStatements(2)
          return fibers
        })
      )
      for (const fiber of racing) secrets.push((yield* Fiber.join(fiber)).secret)
      assert.strictEqual(new Set(secrets).size, 5)
      assert.deepStrictEqual(yield* matchingSecrets(yield* sent(), secrets), [3, 4])

      const [overlap] = yield* sql<{ readonly hours: number }>`
        UPDATE notification_endpoints
        SET previous_secret_until = now()
        WHERE endpoint_id = ${endpoint.id}
        RETURNING (
          SELECT round(extract(epoch FROM p.previous_secret_until - now()) / 3600)::int
          FROM notification_endpoints p
          WHERE p.endpoint_id = ${endpoint.id}
        ) AS hours
      `
      assert.strictEqual(overlap?.hours, 24)
      const alone = yield* matchingSecrets(yield* sent(), secrets)
      assert.lengthOf(alone, 1)
      assert.include([3, 4], alone[0])
      const before = receiver.seen.length
      yield* Effect.flip(admin.notificationEndpoints.verify({ params }))
      assert.deepStrictEqual(yield* matchingSecrets(receiver.seen[before], secrets), alone, "of a challenge")

      yield* (yield* Delivery).runRetention
      assert.deepStrictEqual(
        yield* sql`
          SELECT previous_secret, previous_secret_until
          FROM notification_endpoints
          WHERE endpoint_id = ${endpoint.id}
        `,
        [{ previous_secret: null, previous_secret_until: null }]
      )
      assert.deepStrictEqual(yield* matchingSecrets(yield* sent(), secrets), alone)
    })
  )

  it.effect("a rotation that retention waits for keeps its previous secret", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params } = yield* seedEndpoint("rotated meanwhile")
      const { runRetention } = yield* Delivery
      yield* admin.notificationEndpoints.rotateSecret({ params })
      const sql = yield* SqlClient.SqlClient
      const previousEnds = (seconds: number) => sql`
        UPDATE notification_endpoints
        SET previous_secret_until = now() + ${seconds}::int * interval '1 second'
        WHERE endpoint_id = ${endpoint.id}
      `
      yield* previousEnds(-1)
      const rotated = yield* Deferred.make<void>()
      const waited = yield* Deferred.make<void>()
      const rotation = yield* Effect.forkChild(
        transaction(
          previousEnds(60).pipe(
            Effect.andThen(Deferred.succeed(rotated, undefined)),
            Effect.andThen(Deferred.await(waited))
          )
        )
      )
      yield* Deferred.await(rotated)
      const retention = yield* Effect.forkChild(runRetention)
      yield* waitForBlockedStatements(1)
      yield* Deferred.succeed(waited, undefined)
      yield* Fiber.join(rotation)
      yield* Fiber.join(retention)
      assert.deepStrictEqual(
        yield* sql`
          SELECT previous_secret IS NOT NULL AS signs
          FROM notification_endpoints
          WHERE endpoint_id = ${endpoint.id}
        `,
        [{ signs: true }]
      )
    })
  )

  it.effect("neither secret nor URL is returned again, and neither is stored in plain text", () =>
    Effect.gen(function* () {
      const { admin, endpoint, params, receiver, secret } = yield* seedEndpoint("shown once", [
        { status: 500 }
      ])
      const request = { params, headers: { "idempotency-key": "kept-sealed" } }
      const rotated = yield* admin.notificationEndpoints.rotateSecret(request)
      const { id } = yield* admin.notificationEndpoints.test({ params })
      yield* awaitOnlyDelivery(admin, endpoint.id, "failed")
      const key = yield* (yield* Countersign).key({}, "shown once")
      const path = `/v1/notification-endpoints/${endpoint.id}`
      const shown = JSON.stringify([
        (yield* send("/v1/notification-endpoints", { key })).body,
        (yield* send(path, { method: "PATCH", key, body: `{"active":true}` })).body,
        (yield* send(`${path}/deliveries`, { key })).body,
        (yield* send(`${path}/deliveries/${id}`, { key })).body
      ])
      assert.include(shown, id)
      assert.notInclude(shown, "of-mine")
      const store = yield* databaseAsText
      // The search finds bytes too: it finds the body of the event, which is stored as bytes.
      assert.include(store, Buffer.from(`"approval":null`).toString("hex"))
      for (const text of [secret, rotated.secret]) {
        const digits = text.slice("whsec_".length)
        const forms = [
          digits,
          Buffer.from(digits).toString("hex"),
          Buffer.from(digits, "base64").toString("hex")
        ]
        for (const form of forms) {
          assert.notInclude(shown, form)
          assert.notInclude(store, form)
        }
      }
      for (const text of ["of-mine", receiver.url]) {
        assert.notInclude(store, Buffer.from(text).toString("hex"))
      }
      assert.notInclude(store, "of-mine")
    })
  )
})
